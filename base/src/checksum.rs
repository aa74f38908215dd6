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
        assert_eq!(xxh3(b""), 0x2d06_8005_38d3_94c2);
    }
}
