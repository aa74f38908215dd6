//! Options that several commands share: expiry in its four units, and conditions on the present value.

use crate::args::{Args, parse_integer};
use crate::blob::Blob;
use crate::failure::Failure;
use base::WallTime;
use base::checksum::xxh3;

/// An expiry as an argument: relative or absolute, in seconds or in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// The number as given, in `unit_ms` milliseconds each.
    pub amount: i64,
    /// 1000 or 1.
    pub unit_ms: i64,
    /// Counted from the epoch, not from now.
    pub absolute: bool,
    /// The command's name in lower case, for its error.
    pub command: &'static str,
}

impl Expiry {
    /// If argument `index` is `EX`, `PX`, `EXAT` or `PXAT`: the unit and whether it is absolute.
    #[must_use]
    pub fn keyword(args: Args<'_>, index: usize) -> Option<(i64, bool)> {
        [("EX", 1000, false), ("PX", 1, false), ("EXAT", 1000, true), ("PXAT", 1, true)]
            .into_iter()
            .find(|(keyword, ..)| args.is(index, keyword))
            .map(|(_, unit_ms, absolute)| (unit_ms, absolute))
    }

    /// Reads the amount of an expiry that must lie ahead: it must be positive.
    pub fn positive(amount: &[u8], unit_ms: i64, absolute: bool, command: &'static str) -> Result<Expiry, Failure> {
        let amount = parse_integer(amount).ok_or(Failure::NotAnInteger)?;
        if amount <= 0 || amount > i64::MAX / unit_ms {
            return Err(Failure::InvalidExpireTime(command));
        }
        Ok(Expiry { amount, unit_ms, absolute, command })
    }

    /// The deadline in milliseconds since the epoch, negative if before it; an error if it does not fit 63 bits.
    pub fn deadline_ms(self, now: WallTime) -> Result<i64, Failure> {
        let base = if self.absolute { 0 } else { i64::try_from(now.0).unwrap_or(i64::MAX) };
        self.amount
            .checked_mul(self.unit_ms)
            .and_then(|milliseconds| milliseconds.checked_add(base))
            .ok_or(Failure::InvalidExpireTime(self.command))
    }

    /// The deadline as the store keeps it; one before the epoch is the epoch.
    pub fn deadline(self, now: WallTime) -> Result<WallTime, Failure> {
        Ok(WallTime(u64::try_from(self.deadline_ms(now)?).unwrap_or(0)))
    }
}

/// A condition on what a string key holds now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition<'a> {
    /// No condition.
    Always,
    /// `NX`: the key must not exist.
    Absent,
    /// `XX`: the key must exist.
    Present,
    /// `IFEQ`: it must exist and hold these bytes.
    Equal(&'a [u8]),
    /// `IFNE`: it must not hold these bytes.
    Different(&'a [u8]),
    /// `IFDEQ`: it must exist and its digest be this.
    DigestEqual(u64),
    /// `IFDNE`: its digest must not be this.
    DigestDifferent(u64),
}

impl<'a> Condition<'a> {
    /// If argument `index` begins a condition on the value: the condition. The next argument belongs to it.
    pub fn on_value(args: Args<'a>, index: usize) -> Result<Option<Condition<'a>>, Failure> {
        Ok(if args.is(index, "IFEQ") {
            Some(Condition::Equal(args.get(index + 1)?))
        } else if args.is(index, "IFNE") {
            Some(Condition::Different(args.get(index + 1)?))
        } else if args.is(index, "IFDEQ") {
            Some(Condition::DigestEqual(parse_digest(args.get(index + 1)?)?))
        } else if args.is(index, "IFDNE") {
            Some(Condition::DigestDifferent(parse_digest(args.get(index + 1)?)?))
        } else {
            None
        })
    }

    /// Whether the condition is met by a key that holds `present`, or that does not exist.
    #[must_use]
    pub fn holds(self, present: Option<&Blob>) -> bool {
        match self {
            Condition::Always => true,
            Condition::Absent => present.is_none(),
            Condition::Present => present.is_some(),
            Condition::Equal(bytes) => present.is_some_and(|present| present.as_slice() == bytes),
            Condition::Different(bytes) => present.is_none_or(|present| present.as_slice() != bytes),
            Condition::DigestEqual(digest) => present.is_some_and(|present| xxh3(present) == digest),
            Condition::DigestDifferent(digest) => present.is_none_or(|present| xxh3(present) != digest),
        }
    }
}

/// A digest as `DIGEST` shows it: sixteen hexadecimal digits in either case.
fn parse_digest(text: &[u8]) -> Result<u64, Failure> {
    const WRONG: Failure = Failure::Text("ERR must be exactly 16 hexadecimal characters");
    if text.len() != 16 || !text.iter().all(u8::is_ascii_hexdigit) {
        return Err(WRONG);
    }
    std::str::from_utf8(text).ok().and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(WRONG)
}
