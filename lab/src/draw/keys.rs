//! Records drawn by a law, while their number grows.

use base::random::Rng;

use super::distribution::{Distribution, THETA};
use super::zipfian::Zipfian;

/// Over how many items YCSB's scrambled zipfian draws before it hashes.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// ζ of as many items for θ = 0.99: YCSB's `ScrambledZipfianGenerator.ZETAN`. (Newer YCSB has 10^16 items with the same ζ,
/// which belongs to 10^10.)
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Draws beyond the records that are there before one is taken anyhow. YCSB draws for ever.
const REDRAWS_MAX: u32 = 1_000;

/// Draws records by a [`Distribution`].
///
/// How they follow [`inserted`](Keys::inserted): uniform, sequential, zipfian and latest cover all records at once; the hot set
/// and the exponential law's width stay what they were and the rest grows; scrambled keeps the popular records popular, for
/// which it must know from the beginning how many there will be: [`expecting`](Keys::expecting).
#[derive(Clone, Debug)]
pub struct Keys {
    distribution: Distribution,
    records: u64,
    chance: Rng,
    law: Law,
}

#[derive(Clone, Debug)]
enum Law {
    Even,
    Next(u64),
    Zipfian(Zipfian),
    /// Over so many records in the end.
    Scrambled(Zipfian, u64),
    /// So many records are hot.
    Hotspot(u64),
    /// The mean distance from the newest record.
    Exponential(f64),
}

impl Keys {
    /// Draws from `records` records (at least 1 is taken).
    ///
    /// # Errors
    /// If a parameter of the distribution is out of its range.
    pub fn new(distribution: Distribution, records: u64, seed: u64) -> Result<Keys, String> {
        Keys::expecting(distribution, records, records, seed)
    }

    /// The same, where `expected` records are likely to be there in the end: scrambled draws from all of them, again and
    /// again until it meets one that is there, as YCSB does.
    ///
    /// # Errors
    /// If a parameter of the distribution is out of its range.
    pub fn expecting(distribution: Distribution, records: u64, expected: u64, seed: u64) -> Result<Keys, String> {
        let records = records.max(1);
        let law = match distribution.check()? {
            Distribution::Uniform => Law::Even,
            Distribution::Sequential => Law::Next(0),
            Distribution::Zipfian { theta } | Distribution::Latest { theta } => {
                Law::Zipfian(Zipfian::new(records, theta))
            }
            Distribution::Scrambled { theta: THETA } => {
                Law::Scrambled(Zipfian::with_zeta(SCRAMBLED_ITEMS, THETA, SCRAMBLED_ZETA), expected.max(records))
            }
            Distribution::Scrambled { theta } => {
                Law::Scrambled(Zipfian::new(SCRAMBLED_ITEMS, theta), expected.max(records))
            }
            // At least one record is hot; YCSB divides by zero where the share is less than one record.
            Distribution::Hotspot { set, .. } => Law::Hotspot(((records as f64 * set) as u64).max(1)),
            Distribution::Exponential { percentile, fraction } => {
                Law::Exponential(records as f64 * fraction / -(1.0 - percentile / 100.0).ln())
            }
        };
        Ok(Keys { distribution, records, chance: Rng::new(seed), law })
    }

    /// How many records there are now.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// `count` more records are there, numbered on from the last.
    pub fn inserted(&mut self, count: u64) {
        self.records = self.records.saturating_add(count);
        if let Law::Zipfian(law) = &mut self.law {
            law.grow(self.records);
        }
    }

    /// The next record, below [`records`](Keys::records).
    #[allow(clippy::should_implement_trait, reason = "it never ends, and its law changes between two calls")]
    pub fn next(&mut self) -> u64 {
        let records = self.records;
        match &mut self.law {
            Law::Even => self.chance.below(records),
            Law::Next(next) => {
                let record = *next % records;
                *next = record + 1;
                record
            }
            Law::Zipfian(law) => {
                let drawn = law.draw(&mut self.chance);
                // YCSB's latest never gives record 0; this one does.
                if matches!(self.distribution, Distribution::Latest { .. }) { records - 1 - drawn } else { drawn }
            }
            Law::Scrambled(law, spread) => {
                let mut record = 0;
                for _ in 0..REDRAWS_MAX {
                    record = fnv_of(law.draw(&mut self.chance)) % *spread;
                    if record < records {
                        return record;
                    }
                }
                record % records
            }
            Law::Hotspot(hot) => {
                let hot = (*hot).min(records);
                let Distribution::Hotspot { operations, .. } = self.distribution else { return 0 };
                if self.chance.unit() < operations || hot == records {
                    self.chance.below(hot)
                } else {
                    hot + self.chance.below(records - hot)
                }
            }
            Law::Exponential(mean) => {
                for _ in 0..REDRAWS_MAX {
                    let back = -(1.0 - self.chance.unit()).ln() * *mean;
                    if back < records as f64 {
                        return records - 1 - (back as u64).min(records - 1);
                    }
                }
                records - 1
            }
        }
    }
}

/// YCSB's `Utils.fnvhash64`: FNV-1a over the eight bytes, the lowest first, without its sign.
fn fnv_of(number: u64) -> u64 {
    (fnv(&number.to_le_bytes()) as i64).unsigned_abs()
}

/// FNV-1a, 64 bits (Fowler, Noll and Vo).
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str, records: u64, seed: u64) -> Keys {
        text.parse().and_then(|distribution| Keys::new(distribution, records, seed)).expect("a distribution")
    }

    fn counts(keys: &mut Keys, draws: usize) -> Vec<u64> {
        let mut counts = vec![0; keys.records() as usize];
        (0..draws).for_each(|_| counts[keys.next() as usize] += 1);
        counts
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // The authors' test vectors.
        assert_eq!(fnv(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn equal_seeds_draw_equal_records() {
        let all = ["uniform", "sequential", "zipfian", "scrambled:0.8", "latest", "hotspot", "exponential"];
        for text in all {
            let (mut a, mut b) = (keys(text, 1_000, 5), keys(text, 1_000, 5));
            assert!((0..1_000).all(|_| a.next() == b.next()), "{text}");
            for records in [1, 2, 3] {
                let mut few = keys(text, records, 1);
                assert!((0..200).all(|_| few.next() < records), "{text} of {records}");
                few.inserted(5);
                assert!((0..200).all(|_| few.next() < records + 5), "{text} of {records} and 5");
            }
        }
    }

    #[test]
    fn uniform_is_even_by_chi_square() {
        let draws = 200_000;
        let counts = counts(&mut keys("uniform", 100, 21), draws);
        let expected = draws as f64 / 100.0;
        let square: f64 = counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
        // 99 degrees of freedom: 99.9 % of the law on either side.
        assert!((60.0..149.0).contains(&square), "{square}");
    }

    #[test]
    fn the_hot_set_gets_its_share() {
        let draws = 200_000;
        let counts = counts(&mut keys("hotspot:0.2,0.8", 1_000, 4), draws);
        let hot: u64 = counts[..200].iter().sum();
        // The deviation of the share is 0.0009.
        assert!((hot as f64 / draws as f64 - 0.8).abs() < 0.004, "{hot}");
        let even = |counts: &[u64], share: f64| {
            let expected = draws as f64 * share / counts.len() as f64;
            counts.iter().all(|&count| (count as f64 - expected).abs() < 6.0 * expected.sqrt())
        };
        assert!(even(&counts[..200], 0.8) && even(&counts[200..], 0.2));
    }

    #[test]
    fn the_exponential_law_has_its_percentile_where_it_is_said() {
        let draws = 200_000;
        let counts = counts(&mut keys("exponential", 7_000, 8), draws);
        // 95 % of the draws within 6,000 of 7,000 records from the newest, of those draws that fall on records at all:
        // 1 - 0.05^(7/6) of them.
        let newest: u64 = counts[1_000..].iter().sum();
        let expected = 0.95 / (1.0 - 0.05f64.powf(7.0 / 6.0));
        assert!((newest as f64 / draws as f64 - expected).abs() < 0.003, "{newest}");
        let median = counts.iter().rev().scan(0, |sum, &count| {
            *sum += count;
            Some(*sum)
        });
        let median = median.take_while(|&sum| sum < draws as u64 / 2).count() as f64;
        // ln 2 of the mean, which is 6,000 / ln 20; of the law cut at 7,000.
        let mean = 6_000.0 / 20f64.ln();
        let whole = 1.0 - (-7_000.0 / mean).exp();
        assert!((median + mean * (1.0 - whole / 2.0).ln()).abs() < 40.0, "{median}");
    }

    #[test]
    fn latest_is_zipfian_from_the_newest_and_follows_it() {
        let mut latest = keys("latest", 500, 9);
        latest.inserted(500);
        let law = Zipfian::new(1_000, 0.99);
        let draws = 200_000;
        let counts = counts(&mut latest, draws);
        for back in 0..20 {
            let expected = law.probability(back) * draws as f64;
            let seen = counts[999 - back as usize] as f64;
            assert!((seen - expected).abs() < 5.0 * expected.sqrt(), "{back} back: {seen} of {expected}");
        }
    }

    #[test]
    fn scrambled_strews_the_popular_ones_and_keeps_them() {
        let draws = 200_000;
        let mut keys = Keys::expecting(Distribution::Scrambled { theta: 0.99 }, 1_000, 2_000, 3).expect("fits");
        let first = counts(&mut keys, draws);
        let most = |counts: &[u64]| {
            let mut order: Vec<usize> = (0..counts.len()).collect();
            order.sort_by_key(|&record| std::cmp::Reverse(counts[record]));
            order
        };
        keys.inserted(1_000);
        let second = counts(&mut keys, draws);
        let popular = most(&second);
        let still: Vec<usize> = popular.iter().copied().filter(|&record| record < 1_000).take(3).collect();
        assert_eq!(still, most(&first)[..3]);
        // The most popular of 10^10 has 1/ζ of the draws, and the others that its hash meets.
        let hottest = fnv_of(0) % 2_000;
        let share = second[hottest as usize] as f64 / draws as f64;
        assert_eq!(popular[0] as u64, hottest);
        assert!((share - 1.0 / SCRAMBLED_ZETA - 1.0 / 2_000.0).abs() < 0.003, "{share}");
    }

    #[test]
    fn sequential_goes_round() {
        let mut keys = keys("sequential", 3, 1);
        assert_eq!([keys.next(), keys.next(), keys.next(), keys.next()], [0, 1, 2, 0]);
    }
}
