//! `BITCOUNT key [start end [BYTE | BIT]]`

use super::Unit;
use crate::algorithms::bits;
use crate::commands::prelude::*;

/// How many bits are set in a string or in a range of it.
pub struct BitCount<'a> {
    key: KeyRef<'a>,
    start: i64,
    end: i64,
    unit: Unit,
}

impl<'a> ReadCommand<'a> for BitCount<'a> {
    const SPEC: Spec = Spec {
        name: "bitcount",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Bitmap,
        since: "2.6.0",
        complexity: "O(N) where N is the length of the range",
        summary: "Counts the bits that are set in a string, or in a range of its bytes or bits.",
        arguments: "key [start end [BYTE | BIT]]",
        example: "BITCOUNT visits:monday 0 -1",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let key = args.key(1)?;
        match args.len() {
            2 => Ok(BitCount { key, start: 0, end: -1, unit: Unit::Byte }),
            4 | 5 => {
                let (start, end) = (args.integer(2)?, args.integer(3)?);
                Ok(BitCount { key, start, end, unit: Unit::parse(args, 4)? })
            }
            _ => Err(Failure::Syntax),
        }
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let bytes = view.string(self.key)?.unwrap_or_default();
        // Two ends before the string's beginning would both be moved to its first unit; Redis counts nothing then.
        let reversed = self.start < 0 && self.end < 0 && self.start > self.end;
        let range = self.unit.bits(self.start, self.end, bytes.len()).filter(|_| !reversed);
        Ok(Reply::Integer(range.map_or(0, |(first, last)| bits::count(&bytes, first, last) as i64)))
    }
}
