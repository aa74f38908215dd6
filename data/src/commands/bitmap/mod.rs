//! Commands on strings as arrays of bits.

pub mod bitcount;
pub mod bitfield;
pub mod bitop;
pub mod bitpos;
pub mod getbit;
pub mod setbit;

use crate::args::{Args, parse_integer};
use crate::failure::Failure;
use crate::transaction::Transaction;
use base::limits::VALUE_BYTES_MAX;

/// What Redis says of an offset that it does not take.
const BAD_OFFSET: Failure = Failure::Text("ERR bit offset is not an integer or out of range");

/// A bit's offset, within what the longest string can hold.
pub(crate) fn parse_offset(text: &[u8]) -> Result<u64, Failure> {
    bounded(parse_integer(text))
}

/// An offset as `BITFIELD` takes it: `#n` stands for the place of the n-th field of this width.
pub(crate) fn parse_field_offset(text: &[u8], bits: u32) -> Result<u64, Failure> {
    match text {
        [b'#', number @ ..] => bounded(parse_integer(number).and_then(|number| number.checked_mul(i64::from(bits)))),
        _ => parse_offset(text),
    }
}

fn bounded(offset: Option<i64>) -> Result<u64, Failure> {
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < VALUE_BYTES_MAX as u64).ok_or(BAD_OFFSET)
}

/// Refuses to write a bit behind the longest string that the entry may make.
pub(crate) fn check_offset(tx: &Transaction<'_>, offset: u64) -> Result<(), Failure> {
    if offset / 8 < tx.value_bytes_max() { Ok(()) } else { Err(BAD_OFFSET) }
}

/// What a range of `BITCOUNT` or `BITPOS` counts in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Byte,
    Bit,
}

impl Unit {
    /// The unit named by argument `index`, or bytes if there is none.
    pub(crate) fn parse(args: Args<'_>, index: usize) -> Result<Unit, Failure> {
        if args.len() == index || args.is(index, "BYTE") {
            Ok(Unit::Byte)
        } else if args.is(index, "BIT") {
            Ok(Unit::Bit)
        } else {
            Err(Failure::Syntax)
        }
    }

    /// The first and last bit of a range in this unit within a string of `length` bytes; `None` if it is empty.
    pub(crate) fn bits(self, start: i64, end: i64, length: usize) -> Option<(u64, u64)> {
        let length = length as u64;
        match self {
            Unit::Bit => crate::algorithms::bits::resolve_range(start, end, length * 8),
            Unit::Byte => {
                let (first, last) = crate::algorithms::bits::resolve_range(start, end, length)?;
                Some((first * 8, last * 8 + 7))
            }
        }
    }
}
