//! `JSON.CLEAR key [path]`

use super::{Json, Others, change_all, path_or_root};
use crate::commands::prelude::*;
use crate::json::path::Path;

/// Empties arrays and objects, and sets numbers to 0.
pub struct JsonClear<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
}

impl<'a> WriteCommand<'a> for JsonClear<'a> {
    const SPEC: Spec = Spec {
        name: "json.clear",
        arity: -2,
        flags: Flags::WRITE,
        keys: Keys::ONE,
        group: Group::Json,
        since: "2.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Empties the arrays and objects and sets to 0 the numbers that a path finds in a document.",
        arguments: "key [path]",
        example: "JSON.CLEAR user:7 $.tags",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(JsonClear { key: args.key(1)?, path: path_or_root(args, 2)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let cleared = change_all(tx, self.key, &self.path, Others::Move, can_be_cleared, |value, _| {
            match value {
                Json::Array(items) => items.clear(),
                Json::Object(members) => members.clear(),
                number => *number = Json::from(0),
            }
            Ok(())
        })?;
        Ok(Reply::count(cleared.iter().flatten().count()))
    }
}

fn can_be_cleared(value: &Json) -> bool {
    match value {
        Json::Array(items) => !items.is_empty(),
        Json::Object(members) => !members.is_empty(),
        Json::Number(number) => number.as_f64() != Some(0.0),
        _ => false,
    }
}
