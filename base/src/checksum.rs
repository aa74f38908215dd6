//! Checksums of bytes that are stored or sent, and the hash that orders keys.

use crc_fast::{CrcAlgorithm, checksum};

/// CRC-32C (Castagnoli): guards journal blocks, snapshot blocks and peer messages.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The library returns every width in 64 bits; this algorithm fills the low 32.
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC-64 as Redis defines it (Jones polynomial): the trailer of `DUMP` payloads.
#[must_use]
pub fn crc64_redis(bytes: &[u8]) -> u64 {
    checksum(CrcAlgorithm::Crc64Redis, bytes)
}

/// The same of bytes that come bit by bit.
pub struct Crc64Redis(crc_fast::Digest);

impl Crc64Redis {
    /// Of no bytes.
    #[must_use]
    pub fn new() -> Crc64Redis {
        Crc64Redis(crc_fast::Digest::new(CrcAlgorithm::Crc64Redis))
    }

    /// Of these bytes, too.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Of all so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.finalize()
    }
}

impl Default for Crc64Redis {
    fn default() -> Crc64Redis {
        Crc64Redis::new()
    }
}

impl std::fmt::Debug for Crc64Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Crc64Redis").field(&self.value()).finish()
    }
}

/// XXH3-64, seed 0: orders keys within a hash slot, and is what `DIGEST` shows of a value.
#[must_use]
pub fn xxh3(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // The catalogue's check values for the ASCII string 123456789.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc64_redis(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let mut bit_by_bit = Crc64Redis::new();
        [&b"1234"[..], b"", b"56789"].into_iter().for_each(|bytes| bit_by_bit.update(bytes));
        assert_eq!(bit_by_bit.value(), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(xxh3(b""), 0x2d06_8005_38d3_94c2);
    }
}
