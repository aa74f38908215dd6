//! `XLEN key`

use crate::commands::prelude::*;

/// How many entries a stream has.
pub struct XLen<'a> {
    key: KeyRef<'a>,
}

impl<'a> ReadCommand<'a> for XLen<'a> {
    const SPEC: Spec = Spec {
        name: "xlen",
        arity: 2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Returns how many entries a stream has.",
        arguments: "key",
        example: "XLEN readings",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(XLen { key: args.key(1)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Integer(view.stream(self.key)?.map_or(0, |stream| stream.len() as i64)))
    }
}
