//! `GETSET key value`

use crate::commands::prelude::*;

/// Gives a key a string value and answers the one before.
pub struct GetSet<'a> {
    key: KeyRef<'a>,
    value: &'a [u8],
}

impl<'a> WriteCommand<'a> for GetSet<'a> {
    const SPEC: Spec = Spec {
        name: "getset",
        arity: 3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the previous string value of a key after setting it to a new value.",
        arguments: "key value",
        example: "GETSET greeting hello",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(GetSet { key: args.key(1)?, value: args.get(2)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let old = tx.string(self.key)?;
        tx.put_string(self.key, self.value);
        Ok(Reply::bulk_or_nil(old))
    }
}
