//! `JSON.STRAPPEND key [path] value`

use super::{Json, all_or_last, change_all, length};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::{parse, type_name};

/// Adds to the end of strings.
pub struct JsonStrAppend<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
    text: String,
}

impl<'a> WriteCommand<'a> for JsonStrAppend<'a> {
    const SPEC: Spec = Spec {
        name: "json.strappend",
        arity: -3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS),
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Adds a string to the end of the strings that a path finds in a document.",
        arguments: "key [path] value",
        example: "JSON.STRAPPEND user:7 $.name '\"!\"'",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (path, value) = match args.len() {
            3 => (Path::LEGACY_ROOT, args.get(2)?),
            4 => (Path::parse(args.get(2)?)?, args.get(3)?),
            _ => return Err(Self::SPEC.wrong_arity()),
        };
        match parse(value)? {
            Json::String(text) => Ok(JsonStrAppend { key: args.key(1)?, path, text }),
            other => Err(super::expected("string", type_name(&other))),
        }
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let lengths = change_all(tx, self.key, &self.path, Json::is_string, |value| {
            let Json::String(text) = value else { return Ok(Reply::Nil) };
            text.push_str(&self.text);
            Ok(length(text.len()))
        })?;
        all_or_last(&self.path, lengths, "not a string")
    }
}
