//! The forms in which a Redis packs short collections into one string. Numbers are little-endian.
//!
//! ```text
//! listpack   | bytes (4) | entries (2) | entry … | 0xff |
//! entry      | encoding and value | how long that is, to be read backwards (1 to 5) |
//!   0NNNNNNN                       the number itself
//!   10LLLLLL                       so many bytes follow
//!   110NNNNN NNNNNNNN              a number of 13 bits, signed
//!   1110LLLL LLLLLLLL              so many bytes follow
//!   0xf0 | length (4)              so many bytes follow
//!   0xf1 … 0xf4 | 2, 3, 4, 8 bytes a number
//!
//! ziplist    | bytes (4) | last entry (4) | entries (2) | entry … | 0xff |
//! entry      | length of the entry before it: 1 byte, or 0xfe and 4 | encoding and value |
//!   00LLLLLL                       so many bytes follow
//!   01LLLLLL LLLLLLLL              so many bytes follow
//!   10______ | length (4, big-endian)
//!   0xc0, 0xd0, 0xe0, 0xf0, 0xfe | 2, 4, 8, 3, 1 bytes: a number
//!   1111NNNN                       the number NNNN - 1
//!
//! integers   | bytes of each: 2, 4 or 8 (4) | how many (4) | number … |    ascending
//! ```

use crate::blob::Blob;
use crate::meter::Meter;

const END: u8 = 0xff;

/// The entries of a listpack; `None` if it is none, and past the limit.
pub(super) fn listpack(bytes: &[u8], meter: &Meter) -> Option<Vec<Blob>> {
    let (total, rest) = bytes.split_first_chunk::<4>()?;
    let (_, mut rest) = rest.split_first_chunk::<2>()?;
    if u32::from_le_bytes(*total) as usize != bytes.len() {
        return None;
    }
    let mut entries = Vec::new();
    loop {
        let before = rest.len();
        let first = *take(&mut rest, 1)?.first()?;
        let entry = match first {
            END => return rest.is_empty().then_some(entries),
            0x00..=0x7f => number(i64::from(first)),
            0x80..=0xbf => Blob::new(take(&mut rest, usize::from(first & 0x3f))?),
            0xc0..=0xdf => {
                let low = *take(&mut rest, 1)?.first()?;
                let raw = i64::from(first & 0x1f) << 8 | i64::from(low);
                number(if raw >= 1 << 12 { raw - (1 << 13) } else { raw })
            }
            0xe0..=0xef => {
                let low = *take(&mut rest, 1)?.first()?;
                Blob::new(take(&mut rest, usize::from(first & 0x0f) << 8 | usize::from(low))?)
            }
            0xf0 => {
                let length = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
                Blob::new(take(&mut rest, length as usize)?)
            }
            0xf1 => signed(take(&mut rest, 2)?),
            0xf2 => signed(take(&mut rest, 3)?),
            0xf3 => signed(take(&mut rest, 4)?),
            0xf4 => signed(take(&mut rest, 8)?),
            _ => return None,
        };
        pay(&entry, meter)?;
        entries.push(entry);
        let back = match before - rest.len() {
            0..=127 => 1,
            128..=16_382 => 2,
            16_383..=2_097_150 => 3,
            2_097_151..=268_435_454 => 4,
            _ => 5,
        };
        take(&mut rest, back)?;
    }
}

/// A listpack that is being written.
#[derive(Default)]
pub(super) struct Writer {
    entries: Vec<u8>,
    count: usize,
}

impl Writer {
    /// Adds a number: in place, or as one of eight bytes.
    pub(super) fn number(&mut self, number: i64) {
        match u8::try_from(number) {
            Ok(small @ ..=0x7f) => self.entry(&[small], b""),
            _ => self.entry(&[&[0xf4], &number.to_le_bytes()[..]].concat(), b""),
        }
    }

    /// Adds bytes.
    pub(super) fn word(&mut self, word: &[u8]) {
        let length = word.len();
        match length {
            0..=0x3f => self.entry(&[0x80 | length as u8], word),
            0x40..=0xfff => self.entry(&[0xe0 | (length >> 8) as u8, length as u8], word),
            _ => {
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                self.entry(&[&[0xf0], &length.to_le_bytes()[..]].concat(), word);
            }
        }
    }

    fn entry(&mut self, head: &[u8], word: &[u8]) {
        self.entries.extend_from_slice(head);
        self.entries.extend_from_slice(word);
        // The length in groups of seven bits, the highest first; all but the first group are marked.
        let length = head.len() + word.len();
        let groups = (1..5).find(|groups| length < 1 << (7 * groups)).unwrap_or(5);
        for group in (0..groups).rev() {
            let mark = if group + 1 < groups { 0x80 } else { 0 };
            self.entries.push((length >> (7 * group)) as u8 & 0x7f | mark);
        }
        self.count += 1;
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let total = u32::try_from(self.entries.len() + 7).unwrap_or(u32::MAX);
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        [&total.to_le_bytes()[..], &count.to_le_bytes(), &self.entries, &[END]].concat()
    }
}

/// The entries of a ziplist; `None` if it is none, and past the limit.
pub(super) fn ziplist(bytes: &[u8], meter: &Meter) -> Option<Vec<Blob>> {
    let (total, rest) = bytes.split_first_chunk::<4>()?;
    let (_, mut rest) = rest.split_first_chunk::<6>()?;
    if u32::from_le_bytes(*total) as usize != bytes.len() {
        return None;
    }
    let mut entries = Vec::new();
    loop {
        match *take(&mut rest, 1)?.first()? {
            END => return rest.is_empty().then_some(entries),
            0xfe => drop(take(&mut rest, 4)?),
            _ => {}
        }
        let first = *take(&mut rest, 1)?.first()?;
        let entry = match first {
            0x00..=0x3f => Blob::new(take(&mut rest, usize::from(first))?),
            0x40..=0x7f => {
                let low = *take(&mut rest, 1)?.first()?;
                Blob::new(take(&mut rest, usize::from(first & 0x3f) << 8 | usize::from(low))?)
            }
            0x80 => {
                let length = u32::from_be_bytes(take(&mut rest, 4)?.try_into().ok()?);
                Blob::new(take(&mut rest, length as usize)?)
            }
            0xc0 => signed(take(&mut rest, 2)?),
            0xd0 => signed(take(&mut rest, 4)?),
            0xe0 => signed(take(&mut rest, 8)?),
            0xf0 => signed(take(&mut rest, 3)?),
            0xfe => signed(take(&mut rest, 1)?),
            0xf1..=0xfd => number(i64::from(first & 0x0f) - 1),
            _ => return None,
        };
        pay(&entry, meter)?;
        entries.push(entry);
    }
}

fn pay(entry: &Blob, meter: &Meter) -> Option<()> {
    (meter.visit(0) && meter.make(entry.len())).then_some(())
}

/// The members of a set of integers; `None` if it is none, and past the limit.
pub(super) fn integers(bytes: &[u8], meter: &Meter) -> Option<Vec<Blob>> {
    let (width, rest) = bytes.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let width = u32::from_le_bytes(*width) as usize;
    let is_whole = [2, 4, 8].contains(&width) && rest.len() == width.checked_mul(u32::from_le_bytes(*count) as usize)?;
    let member = |bytes| {
        let member = signed(bytes);
        pay(&member, meter).map(|()| member)
    };
    if is_whole { rest.chunks_exact(width).map(member).collect() } else { None }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn number(number: i64) -> Blob {
    Blob::from(number.to_string())
}

/// A little-endian number of at most eight bytes.
fn signed(bytes: &[u8]) -> Blob {
    let fill = if bytes.last().is_some_and(|last| last & 0x80 > 0) { 0xff } else { 0 };
    let mut whole = [fill; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    number(i64::from_le_bytes(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(entries: Option<Vec<Blob>>) -> Vec<String> {
        entries.expect("well-formed").iter().map(|entry| String::from_utf8_lossy(entry).into_owned()).collect()
    }

    #[test]
    fn listpacks_of_every_encoding() {
        let mut body = vec![0x07, 1];
        body.extend([0x82, b'a', b'b', 3]);
        body.extend([0xdf, 0xff, 2]);
        body.extend([0xe0, 2, b'c', b'd', 4]);
        body.extend([0xf0, 1, 0, 0, 0, b'e', 6]);
        body.extend([0xf1, 0x00, 0x80, 3]);
        body.extend([0xf2, 0xff, 0xff, 0x7f, 4]);
        body.extend([0xf3, 0xff, 0xff, 0xff, 0xff, 5]);
        body.extend([0xf4, 0, 0, 0, 0, 0, 0, 0, 0x80, 9]);
        let mut bytes = ((body.len() + 7) as u32).to_le_bytes().to_vec();
        bytes.extend([9, 0]);
        bytes.extend(&body);
        bytes.push(END);
        let expected = ["7", "ab", "-1", "cd", "e", "-32768", "8388607", "-1", "-9223372036854775808"];
        assert_eq!(texts(listpack(&bytes, &Meter::default())), expected);
        for length in 0..bytes.len() {
            assert_eq!(listpack(&bytes[..length], &Meter::default()), None, "cut at {length}");
        }
    }

    #[test]
    fn integers_of_every_width() {
        let bytes = b"\x02\0\0\0\x03\0\0\0\xfe\xff\x05\0\xff\x7f";
        assert_eq!(texts(integers(bytes, &Meter::default())), ["-2", "5", "32767"]);
        for length in 0..bytes.len() {
            assert_eq!(integers(&bytes[..length], &Meter::default()), None, "cut at {length}");
        }
        assert_eq!(
            texts(integers(b"\x08\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\x80", &Meter::default())),
            ["-9223372036854775808"]
        );
        assert_eq!(integers(b"\x03\0\0\0\x01\0\0\0\0\0\0", &Meter::default()), None);
        assert_eq!(integers(b"\x08\0\0\0\xff\xff\xff\xff", &Meter::default()), None);
    }

    #[test]
    fn ziplists_of_every_encoding() {
        let mut body = vec![0, 0x02, b'a', b'b'];
        body.extend([4, 0x40, 1, b'c', 0xfe, 4, 0, 0, 0, 0xc0, 0x00, 0x80, 4, 0xd0, 1, 0, 0, 0]);
        body.extend([6, 0xe0, 2, 0, 0, 0, 0, 0, 0, 0, 10, 0xf0, 0xff, 0xff, 0xff, 5, 0xfe, 0x80, 3, 0xfd]);
        let mut bytes = ((body.len() + 11) as u32).to_le_bytes().to_vec();
        bytes.extend([0, 0, 0, 0, 8, 0]);
        bytes.extend(&body);
        bytes.push(END);
        assert_eq!(texts(ziplist(&bytes, &Meter::default())), ["ab", "c", "-32768", "1", "2", "-1", "-128", "12"]);
        for length in 0..bytes.len() {
            assert_eq!(ziplist(&bytes[..length], &Meter::default()), None, "cut at {length}");
        }
    }
}
