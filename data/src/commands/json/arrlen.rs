//! `JSON.ARRLEN key [path]`

use super::{Json, absent, all_or_last, ask_all, length, path_or_root, read};
use crate::commands::prelude::*;
use crate::json::path::Path;

/// How many elements arrays have.
pub struct JsonArrLen<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
}

impl<'a> ReadCommand<'a> for JsonArrLen<'a> {
    const SPEC: Spec = Spec {
        name: "json.arrlen",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Returns how many elements the arrays have that a path finds in a document.",
        arguments: "key [path]",
        example: "JSON.ARRLEN user:7 $.tags",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(JsonArrLen { key: args.key(1)?, path: path_or_root(args, 2)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(document) = read(view, self.key)? else { return absent(&self.path) };
        let ask = |value: &Json| value.as_array().map(|items| length(items.len()));
        if self.path.is_legacy() {
            return ask(self.path.first(&document, view.meter())?)
                .ok_or_else(|| self.path.is_absent_or("not an array"));
        }
        all_or_last(&self.path, ask_all(&document, &self.path, view.meter(), ask)?, "not an array")
    }
}
