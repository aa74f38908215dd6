//! `JSON.OBJLEN key [path]`

use super::{Json, all_or_last, ask_all, expected, length, path_or_root, read};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::type_name;

/// How many members objects have.
pub struct JsonObjLen<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
}

impl<'a> ReadCommand<'a> for JsonObjLen<'a> {
    const SPEC: Spec = Spec {
        name: "json.objlen",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Returns how many members the objects have that a path finds in a document.",
        arguments: "key [path]",
        example: "JSON.OBJLEN user:7 $",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(JsonObjLen { key: args.key(1)?, path: path_or_root(args, 2)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(document) = read(view, self.key)? else {
            return if self.path.is_legacy() { Ok(Reply::Nil) } else { Err(self.path.is_absent_or("not an object")) };
        };
        let ask = |value: &Json| value.as_object().map(|members| length(members.len()));
        if self.path.is_legacy() {
            let Ok(first) = self.path.first(&document, view.meter()) else { return Ok(Reply::Nil) };
            return ask(first).ok_or_else(|| expected("object", type_name(first)));
        }
        all_or_last(&self.path, ask_all(&document, &self.path, view.meter(), ask)?, "not an object")
    }
}
