//! Values: slices of one pool of printable random text, so that a value costs a copy and not a draw for each byte.

use base::Rng;

/// Bytes of the pool beyond the longest value: so many different values there are of each length.
const POOL_BYTES: usize = 64 * 1024;

/// A pool that values of up to a set length are cut from.
#[derive(Debug)]
pub struct Text {
    pool: Vec<u8>,
}

impl Text {
    /// A pool for values of up to `bytes_max` bytes. Equal seeds give equal pools.
    #[must_use]
    pub fn new(bytes_max: usize, seed: u64) -> Text {
        let mut rng = Rng::new(seed);
        let mut pool = Vec::with_capacity(bytes_max + POOL_BYTES);
        while pool.len() < bytes_max + POOL_BYTES {
            // Letters, digits, `-` and `.`: 64 of them, ten from each draw.
            let mut bits = rng.next_u64();
            for _ in 0..10 {
                pool.push(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."[(bits & 63) as usize]);
                bits >>= 6;
            }
        }
        pool.truncate(bytes_max + POOL_BYTES);
        Text { pool }
    }

    /// A value of `bytes` bytes (at most those that the pool is for), drawn with `rng`.
    #[must_use]
    pub fn cut(&self, bytes: usize, rng: &mut Rng) -> &[u8] {
        self.cut_at(bytes, rng.next_u64())
    }

    /// The value of `bytes` bytes that `number` stands for.
    #[must_use]
    pub fn cut_at(&self, bytes: usize, number: u64) -> &[u8] {
        let bytes = bytes.min(self.pool.len().saturating_sub(POOL_BYTES));
        let start = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % POOL_BYTES;
        &self.pool[start..start + bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_length_and_differ() {
        let text = Text::new(100, 1);
        let mut rng = Rng::new(2);
        let values: Vec<&[u8]> = (0..50).map(|_| text.cut(100, &mut rng)).collect();
        assert!(values.iter().all(|value| value.len() == 100));
        assert!(values.windows(2).any(|two| two[0] != two[1]));
        assert_eq!(text.cut(500, &mut rng).len(), 100, "never beyond the pool");
        assert_eq!(text.cut_at(0, 9), b"");
    }
}
