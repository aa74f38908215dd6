//! `LLEN key`

use crate::commands::prelude::*;

/// How many elements a list has.
pub struct LLen<'a> {
    key: KeyRef<'a>,
}

impl<'a> ReadCommand<'a> for LLen<'a> {
    const SPEC: Spec = Spec {
        name: "llen",
        arity: 2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns how many elements a list has.",
        arguments: "key",
        example: "LLEN queue",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(LLen { key: args.key(1)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Integer(view.list(self.key)?.map_or(0, |list| list.len()) as i64))
    }
}
