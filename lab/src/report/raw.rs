//! Raw histograms from records, read with limits: `hdrhistogram` trusts lengths and counts, and a file that was damaged or forged must
//! not make it ask for gigabytes or add beyond the end of its numbers.
//!
//! ```text
//! 1C849314 length | deflated: 1C849313 payload-length normalizing digits lowest highest ratio | payload
//!                                u32   u32            u32         u32    u64    u64     f64
//! ```
//! The payload is a row of ZigZag LEB128 numbers: a positive one is a bucket's count, a negative one that many empty buckets
//! (HdrHistogram, `V2 Encoding`).

use std::io::Read;

use base64::Engine;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

/// Longest raw histogram that is read, in base64 letters; a longer one is not one of ours.
const LETTERS_MAX: usize = 4 << 20;
/// Longest payload, inflated, in bytes: a bucket takes nine at most, and three digits over all of u64 take 60,000 buckets.
const PAYLOAD_MAX: u32 = 1 << 20;
/// Greatest count of a whole histogram: far from where sums of counts would pass the end of a u64, even with every record added.
const COUNT_MAX: u64 = 1 << 52;
/// Bytes before the payload.
const HEADER: usize = 40;

/// Reads a raw histogram; none if it is missing, empty, beyond a limit or damaged.
pub fn histogram(text: &str) -> Option<Histogram<u64>> {
    if text.is_empty() || text.len() > LETTERS_MAX {
        return None;
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(text.trim()).ok()?;
    let deflated = bytes.get(8..)?;
    let mut inflated = Vec::new();
    ZlibDecoder::new(deflated).take(HEADER as u64 + u64::from(PAYLOAD_MAX)).read_to_end(&mut inflated).ok()?;
    let length = u32::from_be_bytes(inflated.get(4..8)?.try_into().ok()?);
    let digits = u32::from_be_bytes(inflated.get(12..16)?.try_into().ok()?);
    // More digits than ours would be exact and take a hundred times the memory.
    if length > PAYLOAD_MAX || digits > 4 || !sane(inflated.get(HEADER..)?) {
        return None;
    }
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut inflated.as_slice()).ok()?;
    (!histogram.is_empty()).then_some(histogram)
}

/// Whether the counts and empty stretches of a payload are such as a histogram can have.
fn sane(payload: &[u8]) -> bool {
    let (mut number, mut shift, mut total) = (0u64, 0u32, 0u64);
    for &byte in payload {
        // The ninth byte is a whole one.
        let last = shift == 56;
        number |= u64::from(if last { byte } else { byte & 0x7f }) << shift;
        if byte & 0x80 != 0 && !last {
            shift += 7;
            continue;
        }
        if number & 1 == 1 {
            if number >> 1 >= u64::from(u32::MAX) {
                return false;
            }
        } else {
            total = total.saturating_add(number >> 1);
        }
        (number, shift) = (0, 0);
    }
    total <= COUNT_MAX
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    /// A histogram as it is written, with this payload and this length said of it.
    fn forged(payload: &[u8], length: u32) -> String {
        let mut plain = vec![0x1c, 0x84, 0x93, 0x13];
        plain.extend(length.to_be_bytes());
        plain.extend(0u32.to_be_bytes());
        plain.extend(3u32.to_be_bytes());
        plain.extend(1u64.to_be_bytes());
        plain.extend(3_600_000_000_000u64.to_be_bytes());
        plain.extend(1.0f64.to_be_bytes());
        plain.extend(payload);
        let mut deflated = ZlibEncoder::new(Vec::new(), Compression::default());
        deflated.write_all(&plain).unwrap();
        let deflated = deflated.finish().unwrap();
        let mut whole = vec![0x1c, 0x84, 0x93, 0x14];
        whole.extend((deflated.len() as u32).to_be_bytes());
        whole.extend(deflated);
        base64::engine::general_purpose::STANDARD.encode(whole)
    }

    #[test]
    fn counts_stand_in_their_buckets() {
        // Nine empty buckets (ZigZag of -9 is 17), then 3 (ZigZag 6): three values of 9.
        let histogram = histogram(&forged(&[17, 6], 2)).unwrap();
        assert_eq!((histogram.len(), histogram.min(), histogram.max()), (3, 9, 9));
    }

    #[test]
    fn what_would_ask_for_too_much_is_refused() {
        assert!(histogram(&forged(&[17, 6], u32::MAX)).is_none(), "a length beyond the limit");
        assert!(histogram(&forged(&[17, 6], 900)).is_none(), "a length beyond the data");
        let least = [0xff; 9];
        assert!(histogram(&forged(&least, 9)).is_none(), "a stretch of 2^63 empty buckets");
        let greatest = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert!(
            histogram(&forged(&[greatest, greatest, greatest].concat(), 27)).is_none(),
            "counts whose sum is beyond a u64"
        );
        assert!(histogram(&forged(&[], 0)).is_none(), "nothing was counted");
        for text in ["", "=", "AAAA", "HISTFAAAAB4="] {
            assert!(histogram(text).is_none(), "{text}");
        }
    }
}
