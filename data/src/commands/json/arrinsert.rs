//! `JSON.ARRINSERT key path index value [value ...]`

use super::{Copies, Json, Others, all_or_last, change_all, length, pay_move};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::read::Given;

/// Puts values into arrays before an element.
pub struct JsonArrInsert<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
    index: i64,
    values: Vec<Given<'a>>,
}

impl<'a> WriteCommand<'a> for JsonArrInsert<'a> {
    const SPEC: Spec = Spec {
        name: "json.arrinsert",
        arity: -5,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS),
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Puts values before an element of the arrays that a path finds in a document.",
        arguments: "key path index value [value ...]",
        example: "JSON.ARRINSERT user:7 $.tags 0 '\"first\"'",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let values = args.from(4).iter().map(|text| Given::parse(text)).collect::<Result<_, Failure>>()?;
        Ok(JsonArrInsert { key: args.key(1)?, path: Path::parse(args.get(2)?)?, index: args.integer(3)?, values })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let mut copies = Copies::of(&self.values, tx.value_bytes_max(), tx.meter())?;
        let lengths = change_all(tx, self.key, &self.path, Others::Move, Json::is_array, |value, meter| {
            let Json::Array(items) = value else { return Ok(Reply::Nil) };
            let len = i64::try_from(items.len()).unwrap_or(i64::MAX);
            let index = if self.index < 0 { self.index.saturating_add(len) } else { self.index };
            let index = usize::try_from(index).ok().filter(|index| *index <= items.len());
            let index = index.ok_or(Failure::Text("ERR index out of bounds"))?;
            pay_move(items.len() - index, meter)?;
            items.splice(index..index, copies.next(meter)?);
            Ok(length(items.len()))
        })?;
        all_or_last(&self.path, lengths, "not an array")
    }
}
