//! `SETNX key value`

use crate::commands::prelude::*;

/// Gives a key a string value unless the key exists.
pub struct SetNx<'a> {
    key: KeyRef<'a>,
    value: &'a [u8],
}

impl<'a> WriteCommand<'a> for SetNx<'a> {
    const SPEC: Spec = Spec {
        name: "setnx",
        arity: 3,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Sets the string value of a key only when the key does not exist.",
        arguments: "key value",
        example: "SETNX lock me",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(SetNx { key: args.key(1)?, value: args.get(2)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let absent = !tx.exists(self.key);
        if absent {
            tx.put_string(self.key, self.value);
        }
        Ok(Reply::one_if(absent))
    }
}
