//! Strings as arrays of bits. Bit 0 is the most significant bit of the first byte, as Redis counts.
//!
//! Beyond its end a string reads as zeros. Offsets are in bits and below 2³², what a string can hold.

use Combination::{And, AndOr, Difference, DifferenceOfRest, ExactlyOne, Not, Or, Xor};

/// What `BITOP` does with its sources, which are called X, Y₁, Y₂, … here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combination {
    /// Bits set in all of them.
    And,
    /// Bits set in any of them.
    Or,
    /// Bits set in an odd number of them.
    Xor,
    /// Bits not set in X, up to its end. The other sources are ignored.
    Not,
    /// `DIFF`: bits of X that are set in no Y.
    Difference,
    /// `DIFF1`: bits set in some Y and not in X.
    DifferenceOfRest,
    /// `ANDOR`: bits of X that are set in some Y too.
    AndOr,
    /// `ONE`: bits set in exactly one of them.
    ExactlyOne,
}

impl Combination {
    /// The operation that `BITOP` calls `name`, in any case.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Combination> {
        const NAMES: [(&[u8], Combination); 8] = [
            (b"and", And),
            (b"or", Or),
            (b"xor", Xor),
            (b"not", Not),
            (b"diff", Difference),
            (b"diff1", DifferenceOfRest),
            (b"andor", AndOr),
            (b"one", ExactlyOne),
        ];
        NAMES.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, operation)| *operation)
    }
}

/// The bytes that `operation` makes of `sources`: as long as the longest of them.
#[must_use]
pub fn combine(operation: Combination, sources: &[&[u8]]) -> Vec<u8> {
    let length = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let padded = |source: Option<&&[u8]>| {
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(source.copied().unwrap_or_default());
        bytes.resize(length, 0);
        bytes
    };
    let mut result = padded(sources.first());
    let rest = sources.get(1..).unwrap_or_default();
    match operation {
        Not => result.iter_mut().for_each(|byte| *byte = !*byte),
        And => rest.iter().for_each(|source| {
            merge(&mut result, source, |own, other| own & other);
            result[source.len()..].fill(0);
        }),
        Or => rest.iter().for_each(|source| merge(&mut result, source, |own, other| own | other)),
        Xor => rest.iter().for_each(|source| merge(&mut result, source, |own, other| own ^ other)),
        ExactlyOne => {
            let mut repeated = vec![0; length];
            for source in rest {
                let seen = result.iter().zip(*source).map(|(own, other)| own & other);
                repeated.iter_mut().zip(seen).for_each(|(repeated, seen)| *repeated |= seen);
                merge(&mut result, source, |own, other| own | other);
            }
            merge(&mut result, &repeated, |own, repeated| own & !repeated);
        }
        Difference | DifferenceOfRest | AndOr => {
            let mut any = padded(rest.first());
            rest.iter().skip(1).for_each(|source| merge(&mut any, source, |own, other| own | other));
            match operation {
                Difference => merge(&mut result, &any, |own, any| own & !any),
                DifferenceOfRest => merge(&mut result, &any, |own, any| !own & any),
                _ => merge(&mut result, &any, |own, any| own & any),
            }
        }
    }
    result
}

/// Replaces the bytes of `result` under `other` by what `with` makes of both.
fn merge(result: &mut [u8], other: &[u8], with: impl Fn(u8, u8) -> u8) {
    result.iter_mut().zip(other).for_each(|(own, other)| *own = with(*own, *other));
}

/// The bit at `offset`.
#[must_use]
pub fn bit(bytes: &[u8], offset: u64) -> bool {
    let byte = usize::try_from(offset / 8).ok().and_then(|index| bytes.get(index));
    byte.is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1)
}

/// Sets or clears the bit at `offset`, which must lie within `bytes`.
pub fn set_bit(bytes: &mut [u8], offset: u64, value: bool) {
    let byte = &mut bytes[(offset / 8) as usize];
    let mask = 0x80 >> (offset % 8);
    *byte = if value { *byte | mask } else { *byte & !mask };
}

/// Resolves a range as `BITCOUNT` and `BITPOS` take it: both ends included, negative ones counted from the end of
/// a string of `length` units. `None` if it is empty.
#[must_use]
pub fn resolve_range(start: i64, end: i64, length: u64) -> Option<(u64, u64)> {
    let length = i64::try_from(length).ok()?;
    let from_front = |offset: i64| if offset < 0 { (length + offset).max(0) } else { offset };
    let (start, end) = (from_front(start), from_front(end).min(length - 1));
    (start <= end).then_some((start as u64, end as u64))
}

/// How many bits are set from bit `first` to bit `last`, both included and within `bytes`.
#[must_use]
pub fn count(bytes: &[u8], first: u64, last: u64) -> u64 {
    let (from, to) = ((first / 8) as usize, (last / 8) as usize);
    let mut words = bytes[from..=to].chunks_exact(8);
    let mut total: u64 = words.by_ref().map(|word| u64::from(u64_of(word).count_ones())).sum();
    total += words.remainder().iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
    // What the first byte has before the range, and the last one behind it, was counted too.
    let before = bytes[from] & !(0xff >> (first % 8));
    let behind = bytes[to] & !(0xff << (7 - last % 8)) as u8;
    total - u64::from(before.count_ones()) - u64::from(behind.count_ones())
}

/// The offset of the first bit equal to `value` from bit `first` to bit `last`, both included and within `bytes`.
#[must_use]
pub fn position(bytes: &[u8], value: bool, first: u64, last: u64) -> Option<u64> {
    let (from, to) = ((first / 8) as usize, (last / 8) as usize);
    // The same search for both: look for a set bit in the bytes as they are, or inverted.
    let wanted = |byte: u8| if value { byte } else { !byte };
    let head = wanted(bytes[from]) & (0xff >> (first % 8));
    let found = if head != 0 {
        from as u64 * 8 + u64::from(head.leading_zeros())
    } else {
        let rest = &bytes[from + 1..=to];
        let dull = if value { 0 } else { u64::MAX };
        let skipped = rest.chunks_exact(8).take_while(|word| u64_of(word) == dull).count() * 8;
        let index = skipped + rest[skipped..].iter().position(|byte| wanted(*byte) != 0)?;
        (from + 1 + index) as u64 * 8 + u64::from(wanted(rest[index]).leading_zeros())
    };
    (found <= last).then_some(found)
}

fn u64_of(word: &[u8]) -> u64 {
    u64::from_be_bytes(word.try_into().expect("chunks_exact(8) gives eight bytes"))
}

/// What a `BITFIELD` integer is made of: up to 64 bits if signed, up to 63 if not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldType {
    /// Two's complement if true.
    pub signed: bool,
    /// How many bits, 1..=64.
    pub bits: u32,
}

/// What becomes of a result that a field cannot hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overflow {
    /// The higher bits are lost.
    #[default]
    Wrap,
    /// The nearest value that fits.
    Saturate,
    /// Nothing is written.
    Fail,
}

impl FieldType {
    /// Reads a name such as `u8` or `i64`. `None` for anything else, `u64` included: its largest values have no
    /// place in a reply.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<FieldType> {
        let (signed, digits) = match name {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return None,
        };
        let canonical =
            matches!(digits, [b'1'..=b'9', rest @ ..] if rest.len() <= 1 && rest.iter().all(u8::is_ascii_digit));
        let bits = canonical.then(|| digits.iter().fold(0, |bits, digit| bits * 10 + u32::from(digit - b'0')))?;
        (bits <= if signed { 64 } else { 63 }).then_some(FieldType { signed, bits })
    }

    /// The integer at bit `offset`.
    #[must_use]
    pub fn get(self, bytes: &[u8], offset: u64) -> i64 {
        let raw = (window(bytes, offset) >> self.shift(offset)) as u64 & self.mask();
        if self.signed && self.bits < 64 && raw >> (self.bits - 1) == 1 {
            (raw | !self.mask()) as i64
        } else {
            raw as i64
        }
    }

    /// Writes the low bits of `value` at bit `offset`; the field must lie within `bytes`.
    pub fn set(self, bytes: &mut [u8], offset: u64, value: i64) {
        let shift = self.shift(offset);
        let kept = window(bytes, offset) & !(u128::from(self.mask()) << shift);
        let written = kept | u128::from(value as u64 & self.mask()) << shift;
        let from = (offset / 8) as usize;
        let to = (offset + u64::from(self.bits)).div_ceil(8) as usize;
        bytes[from..to].copy_from_slice(&written.to_be_bytes()[..to - from]);
    }

    /// What `value + increment` becomes in this field; `None` where it does not fit and `overflow` says `Fail`.
    ///
    /// `value` and `increment` may be anything: `SET` asks for `value + 0`, whose `value` need not fit either. For an
    /// unsigned field a negative `value` stands for the huge number that has its bits, as in Redis.
    #[must_use]
    pub fn add(self, value: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        let value = if self.signed { i128::from(value) } else { i128::from(value as u64) };
        let sum = value + i128::from(increment);
        let (least, most) = if self.signed {
            (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1)
        } else {
            (0, (1i128 << self.bits) - 1)
        };
        if (least..=most).contains(&sum) {
            return Some(sum as i64);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(sum.clamp(least, most) as i64),
            Overflow::Wrap => {
                let raw = sum as u64 & self.mask();
                let negative = self.signed && raw >> (self.bits - 1) == 1;
                Some(if negative { raw | !self.mask() } else { raw } as i64)
            }
        }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// How far the field stands from the low end of the 128-bit window that begins at its first byte.
    fn shift(self, offset: u64) -> u32 {
        128 - (offset % 8) as u32 - self.bits
    }
}

/// The sixteen bytes from the one that holds bit `offset`, as one number.
fn window(bytes: &[u8], offset: u64) -> u128 {
    let tail = usize::try_from(offset / 8).ok().and_then(|from| bytes.get(from..)).unwrap_or_default();
    let taken = tail.len().min(16);
    let mut word = [0; 16];
    word[..taken].copy_from_slice(&tail[..taken]);
    u128::from_be_bytes(word)
}

#[cfg(test)]
#[path = "bits/tests.rs"]
mod tests;
