//! `ZCARD key`

use crate::commands::prelude::*;

/// How many members a sorted set has.
pub struct ZCard<'a>(KeyRef<'a>);

impl<'a> ReadCommand<'a> for ZCard<'a> {
    const SPEC: Spec = Spec {
        name: "zcard",
        arity: 2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Returns the number of members of a sorted set.",
        arguments: "key",
        example: "ZCARD scores",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        args.key(1).map(ZCard)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Integer(view.sorted(self.0)?.map_or(0, Collection::len) as i64))
    }
}
