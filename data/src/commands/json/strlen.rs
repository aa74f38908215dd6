//! `JSON.STRLEN key [path]`

use super::{absent, all_or_last, ask_all, expected, length, path_or_root, read};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::type_name;

/// How long strings are, in bytes.
pub struct JsonStrLen<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
}

impl<'a> ReadCommand<'a> for JsonStrLen<'a> {
    const SPEC: Spec = Spec {
        name: "json.strlen",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Returns how many bytes the strings have that a path finds in a document.",
        arguments: "key [path]",
        example: "JSON.STRLEN user:7 $.name",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(JsonStrLen { key: args.key(1)?, path: path_or_root(args, 2)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(document) = read(view, self.key)? else { return absent(&self.path) };
        if self.path.is_legacy() {
            let first = self.path.first(&document, view.meter())?;
            return first.as_str().map(|text| length(text.len())).ok_or_else(|| expected("string", type_name(first)));
        }
        let lengths =
            ask_all(&document, &self.path, view.meter(), |value| value.as_str().map(|text| length(text.len())))?;
        all_or_last(&self.path, lengths, "not a string")
    }
}
