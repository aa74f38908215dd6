//! `STRLEN key`

use crate::commands::prelude::*;

/// The length of a string in bytes.
pub struct StrLen<'a> {
    key: KeyRef<'a>,
}

impl<'a> ReadCommand<'a> for StrLen<'a> {
    const SPEC: Spec = Spec {
        name: "strlen",
        arity: 2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::String,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Returns the length of a string value in bytes, 0 if the key does not exist.",
        arguments: "key",
        example: "STRLEN greeting",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(StrLen { key: args.key(1)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::count(view.string(self.key)?.map_or(0, |bytes| bytes.len())))
    }
}
