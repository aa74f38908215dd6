//! `GETDEL key`

use crate::commands::prelude::*;

/// The value of a string, which is deleted.
pub struct GetDel<'a> {
    key: KeyRef<'a>,
}

impl<'a> WriteCommand<'a> for GetDel<'a> {
    const SPEC: Spec = Spec {
        name: "getdel",
        arity: 2,
        flags: Flags::WRITE.and(Flags::OFTEN_NOTHING).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::String,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Returns the string value of a key after deleting the key.",
        arguments: "key",
        example: "GETDEL greeting",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(GetDel { key: args.key(1)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let old = tx.string(self.key)?;
        if old.is_some() {
            tx.remove(self.key);
        }
        Ok(Reply::bulk_or_nil(old))
    }
}
