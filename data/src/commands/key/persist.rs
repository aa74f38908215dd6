//! `PERSIST key`

use crate::commands::prelude::*;

/// Takes away a key's deadline.
pub struct Persist<'a> {
    key: KeyRef<'a>,
}

impl<'a> WriteCommand<'a> for Persist<'a> {
    const SPEC: Spec = Spec {
        name: "persist",
        arity: 2,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Generic,
        since: "2.2.0",
        complexity: "O(log N) where N is the number of keys that expire.",
        summary: "Removes the expiration time of a key.",
        arguments: "key",
        example: "PERSIST session",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Persist { key: args.key(1)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let had_deadline = tx.get(self.key).is_some_and(|record| record.deadline().is_some());
        Ok(Reply::one_if(had_deadline && tx.set_deadline(self.key, None)))
    }
}
