//! `JSON.STRAPPEND key [path] value`

use super::{Json, Others, all_or_last, change_all, length};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::read::Given;

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
        let value = Given::parse(value)?;
        match value.scalar() {
            Some(Json::String(text)) => Ok(JsonStrAppend { key: args.key(1)?, path, text }),
            _ => Err(super::expected("string", value.type_name())),
        }
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let (mut put, bytes_max) = (0u64, tx.value_bytes_max());
        let lengths = change_all(tx, self.key, &self.path, Others::Stay, Json::is_string, |value, meter| {
            let Json::String(text) = value else { return Ok(Reply::Nil) };
            put = put.saturating_add(self.text.len() as u64);
            if put > bytes_max {
                return Err(Failure::ValueTooLong);
            }
            // What is there may have to move to where there is room.
            meter.bytes(text.len());
            meter.make(self.text.len());
            meter.check()?;
            text.push_str(&self.text);
            Ok(length(text.len()))
        })?;
        all_or_last(&self.path, lengths, "not a string")
    }
}
