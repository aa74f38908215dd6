//! `JSON.MERGE key path value`

use super::set::add;
use super::{Copies, document_of, save};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::read::Given;
use crate::json::{Json, at_mut, merge, outermost};

/// Merges a value into what stands where a path leads, as RFC 7396 has it.
pub struct JsonMerge<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
    value: Given<'a>,
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
        Ok(JsonMerge { key: args.key(1)?, path: Path::parse(args.get(2)?)?, value: Given::parse(args.get(3)?)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let record = tx.get(self.key);
        let meter = tx.meter();
        let Some(mut document) = document_of(record.as_ref(), meter)? else {
            if !self.path.is_root() {
                return Err(Failure::Text("ERR new objects must be created at the root"));
            }
            let value = self.value.read(meter)?;
            save(tx, self.key, None, &value)?;
            return Ok(Reply::Ok);
        };
        let places = outermost(self.path.places(&document, meter)?, meter)?;
        if places.is_empty() {
            if !add(&mut document, &self.path, self.value.read(meter)?, meter)? {
                return Ok(Reply::Nil);
            }
        } else {
            // A document has at least what a patch puts where nothing is.
            let mut least = Json::Null;
            merge(&mut least, self.value.read(meter)?, meter);
            let copies = Copies::of(&[self.value], tx.value_bytes_max(), meter)?;
            let mut copies = copies.adding(&least, meter)?;
            for place in &places {
                if let (Some(there), Some(patch)) = (at_mut(&mut document, place), copies.next(meter)?.next()) {
                    merge(there, patch, meter);
                    meter.check()?;
                }
            }
        }
        save(tx, self.key, record.as_ref(), &document)?;
        Ok(Reply::Ok)
    }
}
