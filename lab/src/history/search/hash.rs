//! The hash of a configuration: each of its parts has 128 bits of its own, combined by exclusive or.

use std::hash::Hasher;

use crate::history::model::ValueId;

/// What a step's changes do to the hash of the state: a slot's old value goes, its new one comes. The same slot may be
/// changed twice.
pub(super) fn changes(state: &[ValueId], log: &[(u32, ValueId)]) -> u128 {
    let mut sum = 0;
    for (place, &(slot, before)) in log.iter().enumerate() {
        let later = log[place + 1..].iter().find(|(other, _)| *other == slot);
        let after = later.map_or(state[slot as usize], |&(_, value)| value);
        sum ^= mix(4, (slot, before)) ^ mix(4, (slot, after));
    }
    sum
}

/// The number of a part of a configuration: 128 bits that look like chance.
pub(super) fn mix(kind: u64, part: impl std::hash::Hash) -> u128 {
    let mut hasher = Mixing { low: kind ^ 0x9e37_79b9_7f4a_7c15, high: kind.wrapping_mul(0xd6e8_feb8_6659_fd93) };
    part.hash(&mut hasher);
    u128::from(spread(hasher.high)) << 64 | u128::from(spread(hasher.low))
}

/// The last steps of SplitMix64.
fn spread(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

struct Mixing {
    low: u64,
    high: u64,
}

impl Hasher for Mixing {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.low = spread(self.low.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ word);
        self.high = spread(self.high.wrapping_add(0xa076_1d64_78bd_642f) ^ word.rotate_left(32));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn finish(&self) -> u64 {
        self.low
    }
}

/// Takes the hash that the keys already are.
#[derive(Default)]
pub(super) struct Already(u64);

impl Hasher for Already {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, word: u128) {
        self.0 = word as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
