//! `JSON.ARRINDEX key path value [start [stop]]`

use super::{Json, all_or_last, ask_all, expected, read};
use crate::commands::prelude::*;
use crate::json::path::Path;
use crate::json::read::Given;
use crate::json::{are_equal, type_name};
use crate::meter::Meter;

/// Where a value is in arrays.
pub struct JsonArrIndex<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
    value: Given<'a>,
    start: i64,
    stop: i64,
}

impl<'a> ReadCommand<'a> for JsonArrIndex<'a> {
    const SPEC: Spec = Spec {
        name: "json.arrindex",
        arity: -4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Returns the index of the first element that is a value, in the arrays that a path finds in a document.",
        arguments: "key path value [start [stop]]",
        example: "JSON.ARRINDEX user:7 $.tags '\"new\"'",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        if args.len() > 6 {
            return Err(Self::SPEC.wrong_arity());
        }
        let number = |index| if args.len() > index { args.integer(index) } else { Ok(0) };
        Ok(JsonArrIndex {
            key: args.key(1)?,
            path: Path::parse(args.get(2)?)?,
            value: Given::parse(args.get(3)?)?,
            start: number(4)?,
            stop: number(5)?,
        })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(document) = read(view, self.key)? else { return Err(self.path.is_absent()) };
        let meter = view.meter();
        let wanted = self.value.read(meter)?;
        let ask = |value: &Json| value.as_array().map(|items| Reply::Integer(self.index_in(items, &wanted, meter)));
        if self.path.is_legacy() {
            let first = self.path.first(&document, meter)?;
            return ask(first).ok_or_else(|| expected("array", type_name(first)));
        }
        all_or_last(&self.path, ask_all(&document, &self.path, meter, ask)?, "not an array")
    }
}

impl JsonArrIndex<'_> {
    /// The first index from `start` to before `stop`, where 0 is the end; -1 if there is none.
    fn index_in(&self, items: &[Json], wanted: &Json, meter: &Meter) -> i64 {
        let len = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let from_end = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index.min(len) };
        let start = from_end(self.start);
        let stop = if self.stop == 0 { len } else { from_end(self.stop) };
        let (start, stop) = (usize::try_from(start).unwrap_or(0), usize::try_from(stop).unwrap_or(0));
        let Some(items) = items.get(start..stop) else { return -1 };
        let found = items.iter().position(|item| meter.is_over() || are_equal(item, wanted, meter));
        found.map_or(-1, |index| i64::try_from(start + index).unwrap_or(i64::MAX))
    }
}
