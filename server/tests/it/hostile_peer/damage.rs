//! Bytes as a hostile or broken program would send them: real ones with seeded damage, and ones that never were anything.

use base::Rng;
use wire::FrameWriter;

/// Longest bytes that damage leaves: doubling and splicing must not add up without end.
const BYTES_MAX: usize = 256 * 1024;
/// Sizes of garbage, up to and past what a node takes of a stranger: bytes of a greeting, and of a handshake.
const GARBAGE_SIZES: [usize; 12] =
    [1, 2, 3, 5, 17, 100, 1024, 1025, 16_384, tls::HANDSHAKE_BYTES_MAX - 1, tls::HANDSHAKE_BYTES_MAX + 1, 100_000];

/// Changes one to three places of these bytes; what `other` has may come in.
pub fn damage(original: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = original.to_vec();
    let changes = if rng.chance(2, 3) { 1 } else { rng.between(2, 3) };
    for _ in 0..changes {
        if bytes.is_empty() {
            bytes.push(rng.next_u64() as u8);
        }
        change(&mut bytes, other, rng);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let at = rng.below(bytes.len() as u64) as usize;
    // A field of a few bytes begins here, if one does.
    let end = bytes.len().min(at + [1, 2, 4, 8][rng.below(4) as usize]);
    match rng.below(11) {
        0 | 1 => bytes[at] ^= 1 << rng.below(8),
        2 => bytes[at] = rng.next_u64() as u8,
        // A number as large, or as small, as can be.
        3 => bytes[at..end].fill(0xff),
        4 => bytes[at..end].fill(0),
        // A number, a count or a length that is one off.
        5 => bytes[at] = if rng.chance(1, 2) { bytes[at].wrapping_add(1) } else { bytes[at].wrapping_sub(1) },
        6 => bytes.truncate(at),
        7 => {
            bytes.drain(..at);
        }
        8 => bytes.extend_from_within(at..),
        9 => {
            let more = random(rng.between(1, 16) as usize, rng);
            bytes.splice(at..at, more);
        }
        _ => {
            let from = rng.below(other.len() as u64 + 1) as usize;
            bytes.splice(at..end, other[from..].iter().copied());
        }
    }
}

/// Bytes that mean nothing.
pub fn random(length: usize, rng: &mut Rng) -> Vec<u8> {
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

/// Garbage of several sizes. Some of it begins as TLS or as a frame does, so that the node goes on reading.
pub fn garbage(rng: &mut Rng) -> Vec<u8> {
    let length = *rng.pick(&GARBAGE_SIZES);
    match rng.below(4) {
        0 => random(length, rng),
        // The shortest records that there are, of one message without end.
        1 => {
            let mut bytes = vec![tls::FIRST_BYTE, 3, 1, 0, 4, 1, 0, 0xff, 0xff];
            while bytes.len() < length {
                bytes.extend([tls::FIRST_BYTE, 3, 3, 0, 1, rng.next_u64() as u8]);
            }
            bytes
        }
        2 => [&[tls::FIRST_BYTE, 3, 1, rng.next_u64() as u8, rng.next_u64() as u8][..], &random(length, rng)].concat(),
        // A frame that announces up to the most that a node would take of a member, and is never finished.
        _ => [&(1_u32 << rng.between(0, 31)).to_le_bytes()[..], &random(length, rng)].concat(),
    }
}

/// A whole frame. A frame has one byte at least.
pub fn framed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let payload = if payload.is_empty() { &[0][..] } else { payload };
    FrameWriter::append(&mut bytes, |out| out.extend_from_slice(payload)).expect("it is short, and not empty");
    bytes
}
