//! Repeated measurements: their middle and spread, and whether two sets of them differ.

use base::random::Rng;

use crate::record::Limits;

/// Repeats of one side that are compared at most.
pub const REPEATS_MAX: usize = 50;

/// Samples drawn for the limits of a ratio.
const RESAMPLES: usize = 4_000;

/// Some values of the same thing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Repeats {
    /// How many.
    pub count: u32,
    /// Half are at most so much; between two middle ones, their mean.
    pub median: f64,
    /// Least.
    pub low: f64,
    /// Greatest.
    pub high: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation (n−1); 0 for one value.
    pub deviation: f64,
}

impl Repeats {
    /// Sums up `values`; none if there are none or one is not finite.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Repeats> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Repeats {
            count: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
            median: median_of_sorted(&sorted),
            low: sorted[0],
            high: sorted[sorted.len() - 1],
            mean,
            deviation: if sorted.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 },
        })
    }

    /// (high − low) / median: what is written behind a figure as ±; 0 where the median is 0.
    #[must_use]
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / self.median }
    }
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Whether two sets of repeats differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The other one's values are greater.
    Greater,
    /// The other one's values are smaller.
    Smaller,
    /// These repeats do not tell.
    NotTold,
}

/// Two sets of repeats side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The median of the other one over the median of the base, with 95 % limits by the percentile bootstrap (Efron 1979).
    /// With fewer than about ten repeats they only tell of the spread that was seen.
    pub ratio: Limits,
    /// The probability of ranks as uneven as these, or more, if both were the same thing: the test of Wilcoxon (1945), and Mann
    /// and Whitney (1947), two-sided and exact, ties sharing their ranks.
    pub probability: f64,
    /// What the test says at 5 %. Three repeats on both sides never suffice: the least probability is then 0.1.
    pub difference: Difference,
}

/// Compares `other` with `base`; `seed` is the bootstrap's.
///
/// # Errors
/// If a side has no values or more than [`REPEATS_MAX`], or one that is not finite and above 0.
pub fn compare(base: &[f64], other: &[f64], seed: u64) -> Result<Comparison, String> {
    for (name, values) in [("the base", base), ("the other side", other)] {
        if values.is_empty() || values.len() > REPEATS_MAX {
            return Err(format!("{name} has {} repeats; give 1 to {REPEATS_MAX}", values.len()));
        }
        if let Some(value) = values.iter().find(|value| !(value.is_finite() && **value > 0.0)) {
            return Err(format!("{name} has a repeat of {value}; figures that are compared must be above 0"));
        }
    }
    let sorted = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let (base, other) = (sorted(base), sorted(other));
    let value = median_of_sorted(&other) / median_of_sorted(&base);
    let mut chance = Rng::new(seed);
    let mut again = |values: &[f64]| {
        let mut drawn: Vec<f64> = values.iter().map(|_| *chance.pick(values)).collect();
        drawn.sort_by(f64::total_cmp);
        median_of_sorted(&drawn)
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| again(&other) / again(&base)).collect();
    ratios.sort_by(f64::total_cmp);
    let ratio = Limits { value, low: ratios[RESAMPLES / 40], high: ratios[RESAMPLES - 1 - RESAMPLES / 40] };
    let (probability, greater) = rank_test(&base, &other);
    let difference = match (probability < 0.05, greater) {
        (true, true) => Difference::Greater,
        (true, false) => Difference::Smaller,
        (false, _) => Difference::NotTold,
    };
    Ok(Comparison { ratio, probability, difference })
}

/// The two-sided probability, and whether `other` has the greater ranks.
fn rank_test(base: &[f64], other: &[f64]) -> (f64, bool) {
    let mut all: Vec<(f64, bool)> = base.iter().map(|&value| (value, false)).collect();
    all.extend(other.iter().map(|&value| (value, true)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Twice the ranks, so that shared ones are whole numbers too.
    let mut ranks = vec![0usize; all.len()];
    let mut first = 0;
    while first < all.len() {
        let next = (first..all.len()).find(|&place| all[place].0 > all[first].0).unwrap_or(all.len());
        ranks[first..next].fill(first + next + 1);
        first = next;
    }
    let seen: usize = ranks.iter().zip(&all).filter(|(_, (_, is_other))| *is_other).map(|(rank, _)| rank).sum();
    // ways[count][sum]: how many choices of so many ranks have that sum; C(100, 50) is no trouble for a double.
    let most: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0f64; most + 1]; other.len() + 1];
    ways[0][0] = 1.0;
    for (done, &rank) in ranks.iter().enumerate() {
        for count in (1..=other.len().min(done + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(count);
            for sum in (rank..=most).rev() {
                more[0][sum] += fewer[count - 1][sum - rank];
            }
        }
    }
    let last = &ways[other.len()];
    let total: f64 = last.iter().sum();
    let middle = other.len() * (all.len() + 1);
    let off = seen.abs_diff(middle);
    let extreme: f64 = last.iter().enumerate().filter(|(sum, _)| sum.abs_diff(middle) >= off).map(|(_, way)| way).sum();
    ((extreme / total).min(1.0), seen > middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_summed_up() {
        let repeats = Repeats::of(&[3.0, 1.0, 2.0, 6.0]).expect("values");
        assert_eq!((repeats.count, repeats.median, repeats.low, repeats.high, repeats.mean), (4, 2.5, 1.0, 6.0, 3.0));
        assert!((repeats.deviation - (14.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(repeats.spread(), 2.0);
        assert_eq!(Repeats::of(&[5.0]).map(|one| (one.median, one.deviation)), Some((5.0, 0.0)));
        assert_eq!((Repeats::of(&[]), Repeats::of(&[f64::NAN])), (None, None));
    }

    #[test]
    fn the_rank_test_gives_the_tables_probabilities() {
        // Wholly apart: 2 of the C(n+m, n) choices.
        let probability = |base: &[f64], other: &[f64]| rank_test(base, other).0;
        assert!((probability(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]) - 0.1).abs() < 1e-12);
        assert!((probability(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]) - 2.0 / 70.0).abs() < 1e-12);
        // U = 2 with four on both sides: 0.1143 in Mann and Whitney's table (2 × 0.057).
        assert!((probability(&[1.0, 2.0, 3.0, 6.0], &[4.0, 5.0, 7.0, 8.0]) - 8.0 / 70.0).abs() < 1e-12);
        // All the same: nothing is told.
        assert!((probability(&[1.0, 1.0], &[1.0, 1.0]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_difference_is_told_only_where_there_is_one() {
        let base = [100.0, 102.0, 98.0, 101.0, 99.0];
        let faster = base.map(|value| value * 1.2);
        let told = compare(&base, &faster, 1).expect("fits");
        assert_eq!(told.difference, Difference::Greater);
        assert!((told.ratio.value - 1.2).abs() < 1e-9 && told.ratio.low > 1.1 && told.ratio.high < 1.3, "{told:?}");
        assert_eq!(compare(&faster, &base, 1).expect("fits").difference, Difference::Smaller);
        let like = [101.0, 99.5, 100.5, 98.5, 102.5];
        assert_eq!(compare(&base, &like, 1).expect("fits").difference, Difference::NotTold);
        assert_eq!(compare(&base, &like, 1), compare(&base, &like, 1));
    }

    #[test]
    fn as_many_repeats_as_allowed_are_no_trouble() {
        let base: Vec<f64> = (0..50).map(|number| 100.0 + f64::from(number % 17)).collect();
        let other: Vec<f64> = base.iter().map(|value| value + 3.0).collect();
        let told = compare(&base, &other, 5).expect("fits");
        assert!(told.difference == Difference::Greater && told.probability > 0.0, "{told:?}");
        assert!(compare(&[0.0], &other, 5).unwrap_err().contains("above 0"));
        assert!(compare(&[], &other, 5).unwrap_err().contains("0 repeats"));
    }
}
