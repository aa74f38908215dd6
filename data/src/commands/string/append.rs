//! `APPEND key value`

use crate::commands::prelude::*;

/// Adds bytes to the end of a string.
pub struct Append<'a> {
    key: KeyRef<'a>,
    value: &'a [u8],
}

impl<'a> WriteCommand<'a> for Append<'a> {
    const SPEC: Spec = Spec {
        name: "append",
        arity: 3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS).and(Flags::FAST).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::String,
        since: "2.0.0",
        complexity: "O(1), amortized over many appends.",
        summary: "Appends a string to the value of a key. Creates the key if it does not exist.",
        arguments: "key value",
        example: "APPEND log line",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Append { key: args.key(1)?, value: args.get(2)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let length = tx.string(self.key)?.map_or(0, |bytes| bytes.len());
        tx.check_length(length as u64 + self.value.len() as u64)?;
        let length = tx.edit_string(self.key, |bytes| {
            bytes.extend_from_slice(self.value);
            bytes.len()
        })?;
        Ok(Reply::count(length))
    }
}
