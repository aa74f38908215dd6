//! Coarse histograms of a second: how many operations fell into each step of a logarithmic scale of times.
//!
//! A step is an eighth of a doubling, 9 % wide: finer than a heat map has rows, and a second has some dozen of them where a raw histogram
//! would have some hundred buckets.
//!
//! ```text
//! step s holds times from 2^(s/8) to below 2^((s+1)/8) nanoseconds: 160 is 1.05 ms to 1.14 ms, 511 the last
//! ```

use hdrhistogram::Histogram;

/// Steps in a doubling.
pub const STEPS_PER_DOUBLING: u16 = 8;
/// Steps of all times that 64 bits can hold.
pub const STEPS: u16 = 64 * STEPS_PER_DOUBLING;

/// The step that a time in nanoseconds falls into; what is below 1 ns falls into the first.
#[must_use]
pub fn step(nanoseconds: u64) -> u16 {
    let place = (nanoseconds.max(1) as f64).log2() * f64::from(STEPS_PER_DOUBLING);
    (place as u16).min(STEPS - 1)
}

/// The times between which a step lies, in nanoseconds.
#[must_use]
pub fn bounds(step: u16) -> (f64, f64) {
    let at = |step: u32| (f64::from(step) / f64::from(STEPS_PER_DOUBLING)).exp2();
    (at(u32::from(step)), at(u32::from(step) + 1))
}

/// How many values of a histogram of nanoseconds fall into each step that has any, in order of the steps.
#[must_use]
pub fn steps(histogram: &Histogram<u64>) -> Vec<(u16, u64)> {
    let mut steps: Vec<(u16, u64)> = Vec::new();
    for bucket in histogram.iter_recorded() {
        // The middle: a bucket of the histogram, 0.1 % wide, may lie across the bound of two steps.
        let step = step(histogram.lowest_equivalent(bucket.value_iterated_to()).midpoint(bucket.value_iterated_to()));
        match steps.last_mut() {
            Some((last, count)) if *last == step => *count += bucket.count_since_last_iteration(),
            _ => steps.push((step, bucket.count_since_last_iteration())),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_between_its_bounds() {
        for time in [1, 2, 3, 999, 1_000_000, 1_048_575, 1_048_577, 86_400_000_000_000, 1 << 60] {
            let (from, until) = bounds(step(time));
            let time = time as f64;
            assert!(from <= time * (1.0 + 1e-12) && time < until * (1.0 + 1e-12), "{time}: {from} {until}");
        }
        assert_eq!((step(0), step(1), step(1 << 20), step(u64::MAX)), (0, 0, 160, 511));
    }

    #[test]
    fn a_histogram_keeps_its_counts() {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits are allowed");
        for (time, count) in [(1_050_000, 3), (1_100_000, 4), (9_000_000, 5)] {
            histogram.record_n(time, count).expect("it grows");
        }
        let steps = steps(&histogram);
        assert_eq!(steps, [(160, 7), (step(9_000_000), 5)]);
        assert!(super::steps(&Histogram::new(3).expect("three digits are allowed")).is_empty());
    }
}
