//! `DUMP`'s payload: a value in the format of Redis's RDB files, with a version and a checksum behind it.
//!
//! ```text
//! | type (1) | value … | RDB version (2, little-endian) | CRC-64 of all before (8, little-endian) |
//!
//! string (type 0), by the two highest bits of its first byte:
//!   00LLLLLL                        that many bytes follow
//!   01LLLLLL LLLLLLLL               that many bytes follow, big-endian
//!   10000000 | length (4)           big-endian
//!   10000001 | length (8)           big-endian
//!   110000ss | integer (1, 2 or 4)  little-endian, signed; ss = 0, 1, 2: its decimal text
//!   11000011 | compressed length | length | LZF
//! ```

use super::lzf;
use crate::args::parse_integer;
use base::checksum::crc64_redis;
use base::limits::VALUE_BYTES_MAX;

/// Written into payloads: that of Redis 7.0. Strings have looked alike since long before, and every Redis takes
/// payloads that are older than itself, but none that are newer.
const VERSION_WRITTEN: u16 = 10;
/// The newest version read: that of Redis 8.10, whose strings still look the same.
const VERSION_READ_MAX: u16 = 15;

/// The type of a string.
const TYPE_STRING: u8 = 0;

const INTEGER_8: u8 = 0xc0;
const INTEGER_16: u8 = 0xc1;
const INTEGER_32: u8 = 0xc2;
const COMPRESSED: u8 = 0xc3;
const LENGTH_32: u8 = 0x80;
const LENGTH_64: u8 = 0x81;

/// Strings up to this long are not worth compressing: that of Redis.
const UNCOMPRESSED_BYTES_MAX: usize = 20;

/// Why a payload was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// Too short, from a newer Redis, or altered.
    VersionOrChecksum,
    /// Intact, but not a string that this format describes.
    Format,
}

/// The payload of the string `value`.
#[must_use]
pub fn dump_string(value: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(value.len().min(1 << 20) + 16);
    payload.push(TYPE_STRING);
    // Eleven characters hold every 32-bit integer; longer ones are written as text.
    match parse_integer(value).filter(|_| value.len() <= 11).map(i32::try_from) {
        Some(Ok(integer)) => put_integer(&mut payload, integer),
        _ => put_text(&mut payload, value),
    }
    payload.extend(VERSION_WRITTEN.to_le_bytes());
    payload.extend(crc64_redis(&payload).to_le_bytes());
    payload
}

/// The string that `payload` holds.
pub fn restore_string(payload: &[u8]) -> Result<Vec<u8>, Damage> {
    let (checked, checksum) = payload.split_last_chunk::<8>().ok_or(Damage::VersionOrChecksum)?;
    let (body, version) = checked.split_last_chunk::<2>().ok_or(Damage::VersionOrChecksum)?;
    if u16::from_le_bytes(*version) > VERSION_READ_MAX {
        return Err(Damage::VersionOrChecksum);
    }
    if u64::from_le_bytes(*checksum) != crc64_redis(checked) {
        return Err(Damage::VersionOrChecksum);
    }
    read_string(body).ok_or(Damage::Format)
}

fn put_integer(payload: &mut Vec<u8>, integer: i32) {
    if let Ok(small) = i8::try_from(integer) {
        payload.push(INTEGER_8);
        payload.extend(small.to_le_bytes());
    } else if let Ok(medium) = i16::try_from(integer) {
        payload.push(INTEGER_16);
        payload.extend(medium.to_le_bytes());
    } else {
        payload.push(INTEGER_32);
        payload.extend(integer.to_le_bytes());
    }
}

fn put_text(payload: &mut Vec<u8>, value: &[u8]) {
    let compressed = (value.len() > UNCOMPRESSED_BYTES_MAX).then(|| lzf::compress(value)).flatten();
    if let Some(compressed) = compressed {
        payload.push(COMPRESSED);
        put_length(payload, compressed.len());
        put_length(payload, value.len());
        payload.extend(compressed);
    } else {
        put_length(payload, value.len());
        payload.extend_from_slice(value);
    }
}

fn put_length(payload: &mut Vec<u8>, length: usize) {
    match length {
        0..=0x3f => payload.push(length as u8),
        0x40..=0x3fff => payload.extend((length as u16 | 0x4000).to_be_bytes()),
        _ => match u32::try_from(length) {
            Ok(length) => {
                payload.push(LENGTH_32);
                payload.extend(length.to_be_bytes());
            }
            Err(_) => {
                payload.push(LENGTH_64);
                payload.extend((length as u64).to_be_bytes());
            }
        },
    }
}

/// Bytes behind the value are ignored, as Redis ignores them.
fn read_string(body: &[u8]) -> Option<Vec<u8>> {
    let [TYPE_STRING, value @ ..] = body else { return None };
    let text_of = |integer: i32| integer.to_string().into_bytes();
    match value {
        [INTEGER_8, byte, ..] => Some(text_of(i32::from(*byte as i8))),
        [INTEGER_16, a, b, ..] => Some(text_of(i32::from(i16::from_le_bytes([*a, *b])))),
        [INTEGER_32, a, b, c, d, ..] => Some(text_of(i32::from_le_bytes([*a, *b, *c, *d]))),
        [COMPRESSED, rest @ ..] => {
            let (compressed, rest) = read_length(rest)?;
            let (length, rest) = read_length(rest)?;
            if compressed == 0 || length > VALUE_BYTES_MAX {
                return None;
            }
            lzf::decompress(rest.get(..compressed)?, length)
        }
        _ => {
            let (length, rest) = read_length(value)?;
            rest.get(..length).map(<[u8]>::to_vec)
        }
    }
}

/// A length, and what follows it; `None` for the integers and compressed strings that begin with the bits 11.
fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (length, rest) = match bytes {
        [first @ ..=0x3f, rest @ ..] => (u64::from(*first), rest),
        [first @ 0x40..=0x7f, low, rest @ ..] => (u64::from(*first & 0x3f) << 8 | u64::from(*low), rest),
        [LENGTH_32, rest @ ..] => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            (u64::from(u32::from_be_bytes(*length)), rest)
        }
        [LENGTH_64, rest @ ..] => {
            let (length, rest) = rest.split_first_chunk::<8>()?;
            (u64::from_be_bytes(*length), rest)
        }
        _ => return None,
    };
    Some((usize::try_from(length).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_footer(body: &[u8], version: u16) -> Vec<u8> {
        let mut payload = body.to_vec();
        payload.extend(version.to_le_bytes());
        payload.extend(crc64_redis(&payload).to_le_bytes());
        payload
    }

    #[test]
    fn payloads_are_those_of_redis_7() {
        // Answers of redis-server 7.0.15 to `DUMP`.
        for (value, payload) in
            [(&b"10"[..], &b"\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb"[..]), (b"hello", b"\x00\x05hello\n\x00cr\xdfve4 \n")]
        {
            assert_eq!(dump_string(value), payload);
        }
    }

    #[test]
    fn every_shape_comes_back() {
        let mut rng = base::Rng::new(8);
        let mut values: Vec<Vec<u8>> =
            [i64::MIN, -40_000, -32_769, -129, -1, 0, 127, 128, 32_767, 32_768, 1 << 31, i64::MAX]
                .map(|integer| integer.to_string().into_bytes())
                .to_vec();
        values.extend([&b""[..], b"-0", b"007", b"+5"].map(<[u8]>::to_vec));
        for length in [1, 20, 21, 63, 64, 100, 16_383, 16_384, 70_000] {
            values.push(vec![b'x'; length]);
            values.push((0..length).map(|_| rng.next_u64() as u8).collect());
        }
        for value in values {
            assert_eq!(restore_string(&dump_string(&value)), Ok(value));
        }
    }

    #[test]
    fn damage_is_told_apart() {
        let good = dump_string(b"hello");
        for index in 0..good.len() {
            let mut bad = good.clone();
            bad[index] ^= 0x10;
            assert_eq!(restore_string(&bad), Err(Damage::VersionOrChecksum), "byte {index}");
        }
        assert_eq!(restore_string(&good[2..]), Err(Damage::VersionOrChecksum));
        assert_eq!(restore_string(&good[..9]), Err(Damage::VersionOrChecksum));
        assert_eq!(restore_string(b""), Err(Damage::VersionOrChecksum));
        assert_eq!(restore_string(&with_footer(b"\x00\x01a", VERSION_READ_MAX + 1)), Err(Damage::VersionOrChecksum));
        assert_eq!(restore_string(&with_footer(b"\x00\x01a", VERSION_READ_MAX)), Ok(b"a".to_vec()));
        for body in
            [&b""[..], b"\x00", b"\x01\x01a", b"\x00\x05hell", b"\x00\xc2\x01", b"\x00\xc4\x01", b"\x00\xc3\x00\x05"]
        {
            assert_eq!(restore_string(&with_footer(body, 10)), Err(Damage::Format), "{body:?}");
        }
        let huge = b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xffa";
        assert_eq!(restore_string(&with_footer(huge, 10)), Err(Damage::Format));
        let bomb = b"\x00\xc3\x05\x81\xff\xff\xff\xff\xff\xff\xff\xff\xe0\xff\x00\x00\x00";
        assert_eq!(restore_string(&with_footer(bomb, 10)), Err(Damage::Format));
    }

    #[test]
    fn no_payload_panics() {
        let mut rng = base::Rng::new(1);
        for _ in 0..20_000 {
            let mut body: Vec<u8> = (0..rng.below(24)).map(|_| rng.next_u64() as u8).collect();
            if rng.chance(3, 4) && body.len() > 1 {
                body[0] = TYPE_STRING;
                body[1] = *rng.pick(&[0xc0, 0xc1, 0xc2, 0xc3, 0x80, 0x81, 0x40, 0x05]);
            }
            let _ = restore_string(&with_footer(&body, 10));
        }
    }
}
