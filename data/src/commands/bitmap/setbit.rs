//! `SETBIT key offset value`

use super::{check_offset, parse_offset};
use crate::algorithms::bits;
use crate::commands::prelude::*;

/// Sets or clears one bit of a string, which grows with zeros to hold it.
pub struct SetBit<'a> {
    key: KeyRef<'a>,
    offset: u64,
    value: bool,
}

impl<'a> WriteCommand<'a> for SetBit<'a> {
    const SPEC: Spec = Spec {
        name: "setbit",
        arity: 4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS),
        keys: Keys::ONE,
        group: Group::Bitmap,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Sets or clears the bit at an offset and answers the bit that was there.",
        arguments: "key offset value",
        example: "SETBIT visits:monday 4711 1",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let offset = parse_offset(args.get(2)?)?;
        let value = match crate::args::parse_integer(args.get(3)?) {
            Some(0) => false,
            Some(1) => true,
            _ => return Err(Failure::Text("ERR bit is not an integer or out of range")),
        };
        Ok(SetBit { key: args.key(1)?, offset, value })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        check_offset(tx, self.offset)?;
        let needed = (self.offset / 8) as usize + 1;
        let old = tx.string(self.key)?;
        let was_set = old.as_ref().is_some_and(|bytes| bits::bit(bytes, self.offset));
        let is_there = old.is_some_and(|bytes| bytes.len() >= needed);
        if !is_there || was_set != self.value {
            tx.edit_string(self.key, |bytes| {
                if bytes.len() < needed {
                    bytes.resize(needed, 0);
                }
                bits::set_bit(bytes, self.offset, self.value);
            })?;
        }
        Ok(Reply::one_if(was_set))
    }
}
