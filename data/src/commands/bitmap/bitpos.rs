//! `BITPOS key bit [start [end [BYTE | BIT]]]`

use super::Unit;
use crate::algorithms::bits;
use crate::commands::prelude::*;

/// Where the first bit of a kind is.
pub struct BitPos<'a> {
    key: KeyRef<'a>,
    bit: bool,
    start: i64,
    end: Option<i64>,
    unit: Unit,
}

impl<'a> ReadCommand<'a> for BitPos<'a> {
    const SPEC: Spec = Spec {
        name: "bitpos",
        arity: -3,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::Bitmap,
        since: "2.8.7",
        complexity: "O(N) where N is the length of the range",
        summary: "Finds the first bit that is set or clear in a string, or in a range of its bytes or bits.",
        arguments: "key bit [start [end [BYTE | BIT]]]",
        example: "BITPOS visits:monday 1",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let bit = match args.integer(2)? {
            0 => false,
            1 => true,
            _ => return Err(Failure::Text("ERR The bit argument must be 1 or 0.")),
        };
        if args.len() > 6 {
            return Err(Failure::Syntax);
        }
        let mut search = BitPos { key: args.key(1)?, bit, start: 0, end: None, unit: Unit::Byte };
        if args.len() > 3 {
            search.start = args.integer(3)?;
        }
        if args.len() > 4 {
            search.unit = Unit::parse(args, 5)?;
            search.end = Some(args.integer(4)?);
        }
        Ok(search)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(bytes) = view.string(self.key)? else {
            // A missing key is endless zeros.
            return Ok(Reply::Integer(if self.bit { -1 } else { 0 }));
        };
        let Some((first, last)) = self.unit.bits(self.start, self.end.unwrap_or(-1), bytes.len()) else {
            return Ok(Reply::Integer(-1));
        };
        let found = bits::position(&bytes, self.bit, first, last).map(|found| found as i64);
        // Unless an end was given, the string is followed by endless zeros.
        let beyond = (!self.bit && self.end.is_none()).then_some(last as i64 + 1);
        Ok(Reply::Integer(found.or(beyond).unwrap_or(-1)))
    }
}
