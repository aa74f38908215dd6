//! Which changes of buckets' settings are asked for.

use base::Rng;

use super::{BOUNDED, CACHED, DROPPED, TIMED};
use crate::settings::DEFAULT;

/// Which change of settings comes next: the bucket, and the settings with their new values. None where a bucket is not there.
#[must_use]
pub fn draw_change(rng: &mut Rng, buckets: &[(&str, &str)]) -> (String, Vec<(&'static str, String)>) {
    let cached: &[&str] = &["0", "1500", "4000", "20000", "1048576"];
    let place = rng.below(buckets.len() as u64 + 1) as usize;
    let bucket = place.checked_sub(1).map_or(DEFAULT, |place| buckets[place].0);
    // What would break the promises that some checkers hold the default bucket to, it is not asked for.
    let settings: Vec<(&'static str, &[&str])> = match bucket {
        TIMED => vec![
            ("ttl", &["1", "2", "4", "4", "0"]),
            ("value-bytes-max", &["64", "64", "512", "8192", "0"]),
            ("quota", cached),
            ("policy", &POLICIES),
        ],
        BOUNDED => vec![
            ("quota", &["700", "1500", "3000", "20000"]),
            ("quota", &["700", "1500", "3000", "20000"]),
            ("ttl", &["0", "2"]),
            ("value-bytes-max", &["64", "512", "0"]),
        ],
        CACHED => vec![("quota", &["400", "600", "900", "1500"]), ("policy", &POLICIES)],
        DROPPED => vec![("quota", cached), ("policy", &POLICIES), ("ttl", &["0", "1"])],
        _ => vec![("quota", cached), ("policy", &POLICIES)],
    };
    let mut pairs: Vec<(&'static str, String)> = Vec::new();
    for _ in 0..rng.between(1, 2) {
        let (name, values) = rng.pick(&settings);
        if !pairs.iter().any(|(known, _)| known == name) {
            pairs.push((name, (*rng.pick(values)).to_owned()));
        }
    }
    (bucket.to_owned(), pairs)
}

const POLICIES: [&str; 5] = ["fifo", "lru", "lfu", "s3-fifo", "node"];
