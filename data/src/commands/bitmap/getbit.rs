//! `GETBIT key offset`

use super::parse_offset;
use crate::algorithms::bits;
use crate::commands::prelude::*;

/// One bit of a string.
pub struct GetBit<'a> {
    key: KeyRef<'a>,
    offset: u64,
}

impl<'a> ReadCommand<'a> for GetBit<'a> {
    const SPEC: Spec = Spec {
        name: "getbit",
        arity: 3,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::Bitmap,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Answers the bit at an offset; beyond the end all bits are 0.",
        arguments: "key offset",
        example: "GETBIT visits:monday 4711",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(GetBit { key: args.key(1)?, offset: parse_offset(args.get(2)?)? })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let bytes = view.string(self.key)?.unwrap_or_default();
        Ok(Reply::one_if(bits::bit(&bytes, self.offset)))
    }
}
