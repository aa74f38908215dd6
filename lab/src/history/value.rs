//! A value as a history keeps it: short ones whole, long ones by their length, their first bytes and two hashes.
//!
//! The hashes are polynomials modulo the prime 2^61−1 (Karp and Rabin 1987), so that the hash of two values put behind each
//! other follows from theirs: appending costs the same whatever the length. Two different values of a history are taken for
//! equal with a probability of about length / 2^122.

use std::fmt;

/// Bytes that are kept of every value. Every 64-bit integer's text fits.
pub(super) const START: usize = 24;

/// The modulus, a Mersenne prime.
const PRIME: u64 = (1 << 61) - 1;

/// Two numbers below it, picked by chance once.
const BASES: [u64; 2] = [0x0b3c_97f1_52ad_6e0d, 0x16d4_80c7_9e35_fb21];

/// A value, in 44 bytes whatever its length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Value {
    pub(super) length: u32,
    pub(super) start: [u8; START],
    pub(super) hash: [u64; 2],
}

impl Value {
    /// The value of these bytes. (Beyond 2^32−1 of them the length is no longer told apart; the hashes are.)
    #[must_use]
    pub fn new(bytes: &[u8]) -> Value {
        let mut value = Value { length: u32::try_from(bytes.len()).unwrap_or(u32::MAX), ..Value::default() };
        let kept = bytes.len().min(START);
        value.start[..kept].copy_from_slice(&bytes[..kept]);
        for (hash, base) in value.hash.iter_mut().zip(BASES) {
            // A byte counts as one more, so that zeros in front count.
            *hash = bytes.iter().fold(0, |hash, &byte| plus(times(hash, base), u64::from(byte) + 1));
        }
        value
    }

    /// The value that stands for a list of these: each with its length before it, one behind the other, so that equal lists and no others are
    /// equal. It is empty for none.
    #[must_use]
    pub fn list<'a>(items: impl IntoIterator<Item = &'a Value>) -> Value {
        let with_length = |item: &Value| Value::new(format!("{}:", item.length).as_bytes()).followed_by(item);
        items.into_iter().fold(Value::new(b""), |list, item| list.followed_by(&with_length(item)))
    }

    /// The value of an integer's text.
    #[must_use]
    pub fn of_integer(number: i64) -> Value {
        Value::new(number.to_string().as_bytes())
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Its bytes, if all of them are kept.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.start.get(..self.length as usize)
    }

    /// The integer that it is the text of, written as Redis does: no sign but `-`, no zeros in front.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        let text = std::str::from_utf8(self.bytes()?).ok()?;
        let number: i64 = text.parse().ok()?;
        (number.to_string() == text).then_some(number)
    }

    /// This value with `other` behind it.
    #[must_use]
    pub fn followed_by(&self, other: &Value) -> Value {
        let mut joined = *self;
        joined.length = self.length.saturating_add(other.length);
        let kept = (self.length as usize).min(START);
        let room = (START - kept).min(other.length as usize);
        joined.start[kept..kept + room].copy_from_slice(&other.start[..room]);
        for (place, base) in BASES.into_iter().enumerate() {
            let moved = times(self.hash[place], power(base, other.length));
            joined.hash[place] = plus(moved, other.hash[place]);
        }
        joined
    }
}

fn plus(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= PRIME { sum - PRIME } else { sum }
}

fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    // 2^61 is 1 modulo the prime.
    plus((product & u128::from(PRIME)) as u64, (product >> 61) as u64)
}

fn power(base: u64, mut exponent: u32) -> u64 {
    let (mut result, mut square) = (1, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    result
}

impl fmt::Display for Value {
    /// The value for people: as it is, or its first bytes and its length.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = &self.start[..(self.length as usize).min(START)];
        if kept.is_empty() {
            return write!(to, "\"\"");
        }
        write!(to, "{}", kept.escape_ascii())?;
        if self.length as usize > START { write!(to, "… ({} bytes)", self.length) } else { Ok(()) }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::random::Rng;

    #[test]
    fn appending_is_the_same_as_beginning_so() {
        let mut chance = Rng::new(1);
        for _ in 0..200 {
            let bytes: Vec<u8> = (0..chance.below(90)).map(|_| chance.below(256) as u8).collect();
            let (a, b) = bytes.split_at(chance.below(bytes.len() as u64 + 1) as usize);
            assert_eq!(Value::new(a).followed_by(&Value::new(b)), Value::new(&bytes));
        }
    }

    #[test]
    fn lists_are_told_by_all_they_have_and_its_order() {
        let list =
            |items: &[&str]| Value::list(&items.iter().map(|item| Value::new(item.as_bytes())).collect::<Vec<_>>());
        assert_eq!(list(&["a", "bc"]).bytes(), Some(&b"1:a2:bc"[..]));
        assert_ne!(list(&["a", "b"]), list(&["b", "a"]));
        assert_ne!(list(&["ab"]), list(&["a", "b"]));
        assert_ne!(list(&[""]), list(&["", ""]));
    }

    #[test]
    fn different_values_differ() {
        let long = [7u8; 100];
        let mut other = long;
        other[99] = 8;
        assert_ne!(Value::new(&long), Value::new(&other));
        assert_ne!(Value::new(b""), Value::new(b"\0"));
        assert_ne!(Value::new(&[0; 30]), Value::new(&[0; 31]));
    }

    #[test]
    fn integers_are_read_as_the_store_reads_them() {
        let integer = |text: &str| Value::new(text.as_bytes()).integer();
        assert_eq!(
            (integer("0"), integer("-17"), Value::of_integer(i64::MIN).integer()),
            (Some(0), Some(-17), Some(i64::MIN))
        );
        for text in ["", "+1", "01", "-0", " 1", "1.0", "9223372036854775808", "1111111111111111111111111111"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }
}
