//! `SETRANGE key offset value`

use crate::commands::prelude::*;

/// Overwrites part of a string; zero bytes fill the gap if it was shorter.
pub struct SetRange<'a> {
    key: KeyRef<'a>,
    offset: u64,
    value: &'a [u8],
}

impl<'a> WriteCommand<'a> for SetRange<'a> {
    const SPEC: Spec = Spec {
        name: "setrange",
        arity: 4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS),
        keys: Keys::ONE,
        group: Group::String,
        since: "2.2.0",
        complexity: "O(N) where N is the length of the new part, or of the whole string if it has to grow.",
        summary: "Overwrites part of a string value at an offset. Creates the key if it does not exist.",
        arguments: "key offset value",
        example: "SETRANGE greeting 6 Redis",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let offset = u64::try_from(args.integer(2)?).map_err(|_| Failure::Text("ERR offset is out of range"))?;
        Ok(SetRange { key: args.key(1)?, offset, value: args.get(3)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        if self.value.is_empty() {
            return Ok(Reply::count(tx.string(self.key)?.map_or(0, |bytes| bytes.len())));
        }
        tx.string(self.key)?;
        let end = self.offset.saturating_add(self.value.len() as u64);
        tx.check_length(end)?;
        let (start, end) = (self.offset as usize, end as usize);
        let length = tx.edit_string(self.key, |bytes| {
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(self.value);
            bytes.len()
        })?;
        Ok(Reply::count(length))
    }
}
