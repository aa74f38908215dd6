//! `JSON.ARRPOP key [path [index]]`

use super::{Json, Others, all_or_last, change_all, clamped, path_or_root, pay_move};
use crate::commands::prelude::*;
use crate::json::layout::Layout;
use crate::json::path::Path;

/// Takes an element out of arrays.
pub struct JsonArrPop<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
    index: i64,
}

impl<'a> WriteCommand<'a> for JsonArrPop<'a> {
    const SPEC: Spec = Spec {
        name: "json.arrpop",
        arity: -2,
        flags: Flags::WRITE,
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Removes and returns an element, by default the last, of the arrays that a path finds in a document.",
        arguments: "key [path [index]]",
        example: "JSON.ARRPOP user:7 $.tags 0",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let index = if args.len() > 3 { args.integer(3)? } else { -1 };
        Ok(JsonArrPop { key: args.key(1)?, path: path_or_root(args, 2)?, index })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let popped = change_all(tx, self.key, &self.path, Others::Move, Json::is_array, |value, meter| {
            let items = value.as_array_mut().filter(|items| !items.is_empty());
            let Some(items) = items else { return Ok(Reply::Nil) };
            let index = clamped(self.index, items.len());
            pay_move(items.len() - index, meter)?;
            let item = items.remove(index);
            Ok(Reply::Bulk(Layout::default().answer(&item, meter)?))
        })?;
        all_or_last(&self.path, popped, "not an array")
    }
}
