//! `JSON.MERGE key path value`

use super::set::add;
use super::{Json, document_of, save};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::{at_mut, merge, outermost, parse};

/// Merges a value into what stands where a path leads, as RFC 7396 has it.
pub struct JsonMerge<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
    value: Json,
}

impl<'a> WriteCommand<'a> for JsonMerge<'a> {
    const SPEC: Spec = Spec {
        name: "json.merge",
        arity: 4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS),
        keys: Keys::ONE,
        group: Group::Json,
        since: "2.6.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Merges a value into what stands where a path leads; a null takes a member away (RFC 7396).",
        arguments: "key path value",
        example: "JSON.MERGE user:7 $ '{\"name\":\"Ada\",\"age\":null}'",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(JsonMerge { key: args.key(1)?, path: Path::parse(args.get(2)?)?, value: parse(args.get(3)?)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let record = tx.get(self.key);
        let Some(mut document) = document_of(record.as_ref())? else {
            if !self.path.is_root() {
                return Err(Failure::Text("ERR new objects must be created at the root"));
            }
            save(tx, self.key, None, &self.value)?;
            return Ok(Reply::Ok);
        };
        let places = outermost(self.path.places(&document));
        for place in &places {
            if let Some(there) = at_mut(&mut document, place) {
                merge(there, self.value.clone());
            }
        }
        if places.is_empty() && !add(&mut document, &self.path, self.value)? {
            return Ok(Reply::Nil);
        }
        save(tx, self.key, record.as_ref(), &document)?;
        Ok(Reply::Ok)
    }
}
