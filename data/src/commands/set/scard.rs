//! `SCARD key`

use crate::commands::prelude::*;

/// How many members a set has.
pub struct SCard<'a>(KeyRef<'a>);

impl<'a> ReadCommand<'a> for SCard<'a> {
    const SPEC: Spec = Spec {
        name: "scard",
        arity: 2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the number of members of a set.",
        arguments: "key",
        example: "SCARD fruits",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        args.key(1).map(SCard)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Integer(view.set(self.0)?.map_or(0, Collection::len) as i64))
    }
}
