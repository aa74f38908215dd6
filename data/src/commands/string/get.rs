//! `GET key`

use crate::commands::prelude::*;

/// The value of a string.
pub struct Get<'a> {
    key: KeyRef<'a>,
}

impl<'a> ReadCommand<'a> for Get<'a> {
    const SPEC: Spec = Spec {
        name: "get",
        arity: 2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the string value of a key.",
        arguments: "key",
        example: "GET greeting",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Get { key: args.key(1)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::bulk_or_nil(view.string(self.key)?))
    }
}
