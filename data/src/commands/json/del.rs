//! `JSON.DEL key [path]`, `JSON.FORGET key [path]`

use super::{document_of, path_or_root, save};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::{outermost, remove_all};

/// Takes what a path finds out of a document; at the root, the key.
pub struct JsonDel<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
}

/// The same by an older name.
pub struct JsonForget<'a>(JsonDel<'a>);

impl<'a> WriteCommand<'a> for JsonDel<'a> {
    const SPEC: Spec = Spec {
        name: "json.del",
        arity: -2,
        flags: Flags::WRITE,
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Removes what a path finds in a document; without one, the document.",
        arguments: "key [path]",
        example: "JSON.DEL user:7 $.age",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(JsonDel { key: args.key(1)?, path: path_or_root(args, 2)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let record = tx.get(self.key);
        // All of it goes: it need not be read.
        if self.path.is_root() && matches!(&record, Some(Record { value: Value::Json(_), .. })) {
            tx.remove(self.key);
            return Ok(Reply::Integer(1));
        }
        let meter = tx.meter();
        let Some(mut document) = document_of(record.as_ref(), meter)? else { return Ok(Reply::Integer(0)) };
        let places = outermost(self.path.places(&document, meter)?, meter)?;
        let removed = remove_all(&mut document, &places);
        if removed > 0 {
            save(tx, self.key, record.as_ref(), &document)?;
        }
        Ok(Reply::count(removed))
    }
}

impl<'a> WriteCommand<'a> for JsonForget<'a> {
    const SPEC: Spec = Spec {
        name: "json.forget",
        summary: "The same as JSON.DEL.",
        example: "JSON.FORGET user:7 $.age",
        ..JsonDel::SPEC
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        JsonDel::parse(args).map(JsonForget)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}
