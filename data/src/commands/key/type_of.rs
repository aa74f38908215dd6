//! `TYPE key`

use crate::commands::prelude::*;

/// The name of the type of a key's value.
pub struct Type<'a> {
    key: KeyRef<'a>,
}

impl<'a> ReadCommand<'a> for Type<'a> {
    const SPEC: Spec = Spec {
        name: "type",
        arity: 2,
        flags: Flags::READONLY.and(Flags::NO_TOUCH).and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the type of the value of a key, none if the key does not exist.",
        arguments: "key",
        example: "TYPE greeting",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Type { key: args.key(1)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::Simple(view.get(self.key).map_or("none", |record| record.value.type_name())))
    }
}
