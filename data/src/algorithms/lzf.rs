//! LZF, the compression that Redis applies to long strings in its files and in `DUMP` (format of Marc Lehmann's LibLZF).
//!
//! ```text
//! literals:         | 000LLLLL | LLLLL + 1 bytes |
//! short reference:  | LLLddddd | dddddddd |             LLL = 1..6: LLL + 2 bytes
//! long reference:   | 111ddddd | llllllll | dddddddd |  l + 9 bytes
//! ```
//! A reference repeats bytes that lie `d + 1` back in the output; it may overlap what it produces.

/// Most bytes that one byte of compressed input can stand for: a long reference of 264 bytes takes three.
const EXPANSION_MAX: usize = 88;

/// What `compressed` stands for; `None` unless that is exactly `length` bytes.
///
/// Memory is taken only for as much as the input could really hold.
#[must_use]
pub fn decompress(compressed: &[u8], length: usize) -> Option<Vec<u8>> {
    if length > compressed.len().saturating_mul(EXPANSION_MAX) {
        return None;
    }
    let mut output = Vec::with_capacity(length);
    let mut rest = compressed;
    while let Some((&control, after)) = rest.split_first() {
        if control < 0x20 {
            let (literals, after) = after.split_at_checked(usize::from(control) + 1)?;
            output.extend_from_slice(literals);
            rest = after;
        } else {
            let (extra, after) = match (control >> 5, after) {
                (7, [extra, after @ ..]) => (usize::from(*extra), after),
                (7, []) => return None,
                _ => (0, after),
            };
            let (&low, after) = after.split_first()?;
            let count = usize::from(control >> 5) + 2 + extra;
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
            let from = output.len().checked_sub(distance)?;
            if output.len() + count > length {
                return None;
            }
            if distance >= count {
                output.extend_from_within(from..from + count);
            } else {
                // The reference overlaps what it produces.
                (from..from + count).for_each(|index| output.push(output[index]));
            }
            rest = after;
        }
        if output.len() > length {
            return None;
        }
    }
    (output.len() == length).then_some(output)
}

/// Compresses `bytes`; `None` if the result would not be at least four bytes shorter, as Redis asks of it.
///
/// Greedy, with one remembered place for each hash of three bytes. The output is valid LZF, but need not be byte for
/// byte what another compressor makes.
#[must_use]
pub fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    const HASH_BITS: u32 = 14;
    const DISTANCE_MAX: usize = 1 << 13;
    const MATCH_MAX: usize = 264;
    let room = bytes.len().checked_sub(4)?;
    let mut output = Vec::with_capacity(room);
    // Places are stored plus one, so that zero means "none yet".
    let mut places = vec![0u32; 1 << HASH_BITS];
    let hash = |at: usize| {
        let word = u32::from(bytes[at]) << 16 | u32::from(bytes[at + 1]) << 8 | u32::from(bytes[at + 2]);
        (word.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
    };
    let (mut at, mut literals_from) = (0, 0);
    while at + 2 < bytes.len() {
        let place = std::mem::replace(&mut places[hash(at)], at as u32 + 1) as usize;
        let found = place > 0 && at - (place - 1) <= DISTANCE_MAX && bytes[place - 1..place + 2] == bytes[at..at + 3];
        if !found {
            // The longer nothing repeats, the fewer places are tried: noise is passed quickly.
            at += 1 + ((at - literals_from) >> 7);
            continue;
        }
        let from = place - 1;
        let longest = (bytes.len() - at).min(MATCH_MAX);
        let count = 3 + (3..longest).take_while(|&offset| bytes[from + offset] == bytes[at + offset]).count();
        put_literals(&mut output, &bytes[literals_from..at]);
        let distance = at - from - 1;
        let high = (distance >> 8) as u8;
        match count - 2 {
            short @ ..=6 => output.push((short as u8) << 5 | high),
            long => output.extend([7 << 5 | high, (long - 7) as u8]),
        }
        output.push(distance as u8);
        // The places inside the match are worth remembering too; the first was remembered above.
        for inside in at + 1..(at + count).min(bytes.len() - 2) {
            places[hash(inside)] = inside as u32 + 1;
        }
        at += count;
        literals_from = at;
        if output.len() > room {
            return None;
        }
    }
    put_literals(&mut output, &bytes[literals_from..]);
    (output.len() <= room).then_some(output)
}

fn put_literals(output: &mut Vec<u8>, literals: &[u8]) {
    for run in literals.chunks(32) {
        output.push(run.len() as u8 - 1);
        output.extend_from_slice(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_comes_back() {
        let mut rng = base::Rng::new(4);
        for round in 0..400 {
            let alphabet = rng.between(1, 256);
            let length = if round % 20 == 0 { rng.below(40_000) } else { rng.below(600) };
            let bytes: Vec<u8> = (0..length).map(|_| rng.below(alphabet) as u8).collect();
            if let Some(compressed) = compress(&bytes) {
                assert!(compressed.len() + 4 <= bytes.len());
                assert_eq!(decompress(&compressed, bytes.len()), Some(bytes));
            }
        }
        assert!(compress(&[b'a'; 21]).is_some());
        assert_eq!(compress(b"abc"), None);
    }

    #[test]
    fn overlapping_references_repeat() {
        assert_eq!(decompress(&[0, b'a', 0xe0, 0, 0], 10).as_deref(), Some(&b"aaaaaaaaaa"[..]));
    }

    #[test]
    fn damaged_input_is_refused() {
        let good = [1, b'a', b'b', 0x20, 1];
        assert_eq!(decompress(&good, 5).as_deref(), Some(&b"ababa"[..]));
        assert_eq!(decompress(&good, 4), None, "longer than announced");
        assert_eq!(decompress(&good, 6), None, "shorter than announced");
        assert_eq!(decompress(&good[..4], 5), None, "cut within a reference");
        assert_eq!(decompress(&[0xe0], 9), None);
        assert_eq!(decompress(&[5, b'a'], 6), None, "cut within literals");
        assert_eq!(decompress(&[0, b'a', 0x20, 5], 4), None, "refers to before the beginning");
        assert_eq!(decompress(&[0, b'a'], usize::MAX), None, "no memory for an impossible length");
    }

    #[test]
    fn no_input_panics() {
        let mut rng = base::Rng::new(6);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..rng.below(20)).map(|_| rng.next_u64() as u8).collect();
            if let Some(output) = decompress(&bytes, rng.below(200) as usize) {
                assert!(output.len() < 200);
            }
        }
    }
}
