//! The arguments of a command, and how Redis reads numbers and keywords in them.

use crate::failure::Failure;
use crate::store::KeyRef;
use base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use base::versions::{Feature, NEWEST};

/// A command's name and arguments, borrowed from the log entry or the client's buffer: a command copies what it keeps.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    items: &'a [&'a [u8]],
    /// Keys are not looked for, so their order is not worked out.
    only_checked: bool,
    /// That of the cluster, or of the entry: it says how long names may be.
    version: u16,
}

impl<'a> Args<'a> {
    /// `items[0]` is the command's name. Names are as long as this build takes them.
    #[must_use]
    pub fn new(items: &'a [&'a [u8]]) -> Args<'a> {
        Args { items, only_checked: false, version: NEWEST }
    }

    /// Arguments that are read to find out whether they can be, and not used: the order of a key, which takes longer than all the rest, is 0.
    #[must_use]
    pub(crate) fn only_checked(items: &'a [&'a [u8]]) -> Args<'a> {
        Args { items, only_checked: true, version: NEWEST }
    }

    /// The same in a cluster, or an entry, of this version ([`base::versions`]).
    #[must_use]
    pub fn in_version(items: &'a [&'a [u8]], version: u16) -> Args<'a> {
        Args { items, only_checked: false, version }
    }

    /// How many there are, the name included.
    #[must_use]
    pub fn len(self) -> usize {
        self.items.len()
    }

    /// Whether not even a name is there.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.items.is_empty()
    }

    /// The arguments as they came, the name first.
    #[must_use]
    pub fn items(self) -> &'a [&'a [u8]] {
        self.items
    }

    /// The arguments from `index` on; none if there are fewer.
    #[must_use]
    pub fn from(self, index: usize) -> &'a [&'a [u8]] {
        self.items.get(index..).unwrap_or_default()
    }

    /// Argument `index`; a missing one is a syntax error (arity is checked before, so only options can be missing).
    pub fn get(self, index: usize) -> Result<&'a [u8], Failure> {
        self.items.get(index).copied().ok_or(Failure::Syntax)
    }

    /// Argument `index` as a key.
    pub fn key(self, index: usize) -> Result<KeyRef<'a>, Failure> {
        let key = self.get(index)?;
        Ok(if self.only_checked { KeyRef { order: 0, key } } else { KeyRef::new(key) })
    }

    /// Argument `index` as a field of a hash.
    pub fn field(self, index: usize) -> Result<&'a [u8], Failure> {
        self.get(index).and_then(|field| check_field(field, self.version).map(|()| field))
    }

    /// The arguments from `index` on as fields of a hash.
    pub fn fields_from(self, index: usize) -> Result<&'a [&'a [u8]], Failure> {
        self.from(index).iter().try_for_each(|field| check_field(field, self.version))?;
        Ok(self.from(index))
    }

    /// Argument `index` as a member of a set.
    pub fn member(self, index: usize) -> Result<&'a [u8], Failure> {
        self.get(index).and_then(|member| check_member(member, self.version).map(|()| member))
    }

    /// The arguments from `index` on as members of a set.
    pub fn members_from(self, index: usize) -> Result<&'a [&'a [u8]], Failure> {
        self.from(index).iter().try_for_each(|member| check_member(member, self.version))?;
        Ok(self.from(index))
    }

    /// Argument `index` as a 64-bit signed integer.
    pub fn integer(self, index: usize) -> Result<i64, Failure> {
        parse_integer(self.get(index)?).ok_or(Failure::NotAnInteger)
    }

    /// Whether argument `index` is there and is `keyword` (given in upper case), in any case.
    #[must_use]
    pub fn is(self, index: usize, keyword: &str) -> bool {
        self.items.get(index).is_some_and(|argument| argument.eq_ignore_ascii_case(keyword.as_bytes()))
    }
}

/// Longest field or member in a cluster of this version. What bounds names below the larger one is what bounds values: the bucket's `value-bytes-max`, before a
/// command is proposed.
fn name_bytes_max(version: u16) -> usize {
    if Feature::LongNames.is_in(version) { VALUE_BYTES_MAX } else { KEY_BYTES_MAX }
}

/// Whether a name is too long in a cluster of this version. Most are short in any.
fn is_too_long(name: &[u8], version: u16) -> bool {
    name.len() > KEY_BYTES_MAX && name.len() > name_bytes_max(version)
}

/// Refuses a field that is too long in a cluster, or an entry, of this version.
pub fn check_field(field: &[u8], version: u16) -> Result<(), Failure> {
    if is_too_long(field, version) { Err(Failure::FieldTooLong(name_bytes_max(version))) } else { Ok(()) }
}

/// Refuses a member that is too long in a cluster, or an entry, of this version.
pub fn check_member(member: &[u8], version: u16) -> Result<(), Failure> {
    if is_too_long(member, version) { Err(Failure::MemberTooLong(name_bytes_max(version))) } else { Ok(()) }
}

/// A decimal integer as Redis reads it: an optional minus, no leading zeros, no plus, no blanks, within 64 bits.
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] => return (!negative).then_some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut magnitude = 0u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // Nineteen digits stay below 2^64.
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_redis_reads_them() {
        for (text, number) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("-", None),
            ("1a", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), number, "{text}");
        }
    }
}
