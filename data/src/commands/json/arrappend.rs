//! `JSON.ARRAPPEND key path value [value ...]`

use super::{Copies, Json, Others, all_or_last, change_all, length};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::read::Given;

/// Adds to the end of arrays.
pub struct JsonArrAppend<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
    values: Vec<Given<'a>>,
}

impl<'a> WriteCommand<'a> for JsonArrAppend<'a> {
    const SPEC: Spec = Spec {
        name: "json.arrappend",
        arity: -4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS),
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Adds values to the end of the arrays that a path finds in a document.",
        arguments: "key path value [value ...]",
        example: "JSON.ARRAPPEND user:7 $.tags '\"new\"'",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let values = args.from(3).iter().map(|text| Given::parse(text)).collect::<Result<_, Failure>>()?;
        Ok(JsonArrAppend { key: args.key(1)?, path: Path::parse(args.get(2)?)?, values })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let mut copies = Copies::of(&self.values, tx.value_bytes_max(), tx.meter())?;
        let lengths = change_all(tx, self.key, &self.path, Others::Stay, Json::is_array, |value, meter| {
            let Json::Array(items) = value else { return Ok(Reply::Nil) };
            items.extend(copies.next(meter)?);
            Ok(length(items.len()))
        })?;
        all_or_last(&self.path, lengths, "not an array")
    }
}
