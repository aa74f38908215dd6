//! `JSON.ARRTRIM key path start stop`

use super::{Json, Others, all_or_last, change_all, clamped, length, pay_move};
use crate::commands::prelude::*;
use crate::json::path::Path;

/// Cuts arrays down to a part.
pub struct JsonArrTrim<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
    start: i64,
    stop: i64,
}

impl<'a> WriteCommand<'a> for JsonArrTrim<'a> {
    const SPEC: Spec = Spec {
        name: "json.arrtrim",
        arity: 5,
        flags: Flags::WRITE,
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Leaves only the elements from start to stop of the arrays that a path finds in a document.",
        arguments: "key path start stop",
        example: "JSON.ARRTRIM user:7 $.tags 0 9",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(JsonArrTrim {
            key: args.key(1)?,
            path: Path::parse(args.get(2)?)?,
            start: args.integer(3)?,
            stop: args.integer(4)?,
        })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let lengths = change_all(tx, self.key, &self.path, Others::Move, Json::is_array, |value, meter| {
            let Json::Array(items) = value else { return Ok(Reply::Nil) };
            let len = items.len();
            let is_behind = self.start >= 0 && usize::try_from(self.start).is_ok_and(|start| start >= len);
            let (start, stop) = (clamped(self.start, len), clamped(self.stop, len));
            if is_behind || start > stop || len == 0 {
                items.clear();
            } else {
                items.truncate(stop + 1);
                pay_move(items.len() - start, meter)?;
                items.drain(..start);
            }
            Ok(length(items.len()))
        })?;
        all_or_last(&self.path, lengths, "not an array")
    }
}
