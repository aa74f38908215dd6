//! Hash slots: the 16384 classes of keys of the Redis Cluster specification.

use crate::limits::HASH_SLOTS;

/// CRC-16/XMODEM, worked out at compile time: `TABLES[n][byte]` is what a byte does with `n` bytes behind it.
static TABLES: [[u16; 256]; 4] = {
    let mut tables = [[0u16; 256]; 4];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut behind = 1;
    while behind < 4 {
        byte = 0;
        while byte < 256 {
            let crc = tables[behind - 1][byte];
            tables[behind][byte] = (crc << 8) ^ tables[0][(crc >> 8) as usize];
            byte += 1;
        }
        behind += 1;
    }
    tables
};

/// Four bytes at a time: each key of each command goes through here several times.
fn crc16(bytes: &[u8]) -> u16 {
    let at = |table: usize, byte: u8| TABLES[table][usize::from(byte)];
    let (fours, rest) = bytes.as_chunks::<4>();
    let crc = fours.iter().fold(0u16, |crc, [a, b, c, d]| {
        let [high, low] = crc.to_be_bytes();
        at(3, a ^ high) ^ at(2, b ^ low) ^ at(1, *c) ^ at(0, *d)
    });
    rest.iter().fold(crc, |crc, byte| (crc << 8) ^ at(0, (crc >> 8) as u8 ^ byte))
}

/// Where the first such byte is.
fn find(bytes: &[u8], wanted: u8) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // A byte of this is zero where the wanted one is. Eight at a time, as most keys have no tag.
    let has_it = |eight: &[u8; 8]| {
        let zeros = u64::from_le_bytes(*eight) ^ (ONES * u64::from(wanted));
        zeros.wrapping_sub(ONES) & !zeros & (ONES << 7) != 0
    };
    let (eights, _) = bytes.as_chunks::<8>();
    let passed = 8 * eights.iter().take_while(|eight| !has_it(eight)).count();
    bytes[passed..].iter().position(|byte| *byte == wanted).map(|place| passed + place)
}

/// The hash slot of a key, in `0..16384`.
///
/// If the key holds a non-empty `{tag}`, only the tag counts, so that keys can be kept together
/// (Redis Cluster specification, "Hash tags": the first `{` and the first `}` after it).
#[must_use]
pub fn hash_slot(key: &[u8]) -> u16 {
    let tag = find(key, b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = find(rest, b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % HASH_SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        // As `CLUSTER KEYSLOT` of redis-server 7 answers.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(hash_slot(b"foo"), 12182);
        assert_eq!(hash_slot(b"somekey"), 11058);
        assert_eq!(hash_slot(b"foo{hash_tag}"), 2515);
        assert_eq!(hash_slot(b"{user1000}.following"), hash_slot(b"{user1000}.followers"));
        assert_eq!(hash_slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % HASH_SLOTS);
        assert_eq!(hash_slot(b"foo{{bar}}zap"), hash_slot(b"{bar"));
        assert_eq!(hash_slot(b"foo{bar}{zap}"), hash_slot(b"bar"));
    }

    #[test]
    fn bytes_taken_by_fours_and_eights_are_those_taken_one_by_one() {
        let one_by_one = |bytes: &[u8]| {
            bytes.iter().fold(0u16, |crc, byte| (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)])
        };
        let bytes: Vec<u8> = (0..100u8).map(|number| number.wrapping_mul(167)).collect();
        for length in 0..bytes.len() {
            assert_eq!(crc16(&bytes[..length]), one_by_one(&bytes[..length]), "{length}");
        }
        for place in 0..40 {
            for length in 0..40 {
                let mut text = vec![b'z'; length];
                text.iter_mut().skip(place).step_by(3).for_each(|byte| *byte = b'{');
                assert_eq!(find(&text, b'{'), text.iter().position(|byte| *byte == b'{'), "{place} {length}");
            }
        }
    }
}
