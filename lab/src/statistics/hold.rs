//! How long a step of load is held: until the standard error of its throughput is small enough.
//!
//! Throughputs of neighbouring seconds resemble each other (a compaction, an election and a warm cache last for several), so
//! s/√n is too small an error. Beside it the error by batch means is taken: the seconds are cut into batches of about √n, long
//! enough to be nearly independent, and the spread of their means tells how sure the whole mean is. The greater of the two
//! counts. What drifts or has a stall in it spreads the batches, and so is held on.

/// When a step of load has been held for long enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Steady once the standard error is at most so large a share of the mean: 0.01 is one per cent.
    pub error_share: f64,
    /// Seconds at the beginning that are not counted.
    pub settle: u32,
    /// Counted seconds before which nothing is called steady; below 4 it is taken for 4.
    pub seconds_min: u32,
    /// Counted seconds after which it is given up; at most [`SECONDS_MAX`].
    pub seconds_max: u32,
}

/// The longest time that is held, in seconds: a day.
pub const SECONDS_MAX: u32 = 86_400;

/// The shortest series of which a standard error says anything.
const SECONDS_LEAST: u32 = 4;

impl Default for Rule {
    fn default() -> Rule {
        Rule { error_share: 0.02, settle: 2, seconds_min: 10, seconds_max: 120 }
    }
}

/// What a second changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Hold on.
    GoOn,
    /// The throughput is known well enough.
    Steady,
    /// It is not and has been held for as long as allowed: use it with its error, or not at all.
    GiveUp,
}

/// A step of load that is being held.
#[derive(Clone, Debug)]
pub struct Hold {
    rule: Rule,
    settled: u32,
    values: Vec<f64>,
}

impl Hold {
    /// A step that begins.
    #[must_use]
    pub fn new(rule: Rule) -> Hold {
        Hold { rule, settled: 0, values: Vec::new() }
    }

    /// A second has passed in which so many operations were answered.
    pub fn second(&mut self, operations: f64) -> Decision {
        if self.settled < self.rule.settle {
            self.settled += 1;
            return Decision::GoOn;
        }
        if self.values.len() < SECONDS_MAX as usize {
            self.values.push(operations);
        }
        let seconds = self.values.len() as u32;
        let steady = self.error() <= self.rule.error_share * self.mean() && self.mean() > 0.0;
        if seconds >= self.rule.seconds_min.max(SECONDS_LEAST) && steady {
            Decision::Steady
        } else if seconds >= self.rule.seconds_max.min(SECONDS_MAX) {
            Decision::GiveUp
        } else {
            Decision::GoOn
        }
    }

    /// Seconds that count so far.
    #[must_use]
    pub fn seconds(&self) -> u32 {
        self.values.len() as u32
    }

    /// Mean operations per second of those seconds; 0 if there are none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        mean(&self.values)
    }

    /// The standard error of [`mean`](Hold::mean): see [`standard_error`].
    #[must_use]
    pub fn error(&self) -> f64 {
        standard_error(&self.values)
    }
}

/// The standard error of the mean of a series whose neighbours may resemble each other: the greater of s/√n and the error by
/// batch means (about √n batches of about √n values, for 16 values and more). 0 for fewer than two values.
#[must_use]
pub fn standard_error(values: &[f64]) -> f64 {
    let plain = error_of_independent(values);
    let size = (values.len() as f64).sqrt() as usize;
    if size < 4 {
        return plain;
    }
    // What does not fill a batch is left out at the front, where the system was less settled.
    let whole = &values[values.len() % size..];
    let means: Vec<f64> = whole.chunks_exact(size).map(mean).collect();
    plain.max(error_of_independent(&means))
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn error_of_independent(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let (mean, count) = (mean(values), values.len() as f64);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0) / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::random::Rng;

    fn normal(chance: &mut Rng) -> f64 {
        (-2.0 * (1.0 - chance.unit()).ln()).sqrt() * (std::f64::consts::TAU * chance.unit()).cos()
    }

    fn held(rule: Rule, mut seconds: impl FnMut(u32) -> f64) -> (Decision, Hold) {
        let mut hold = Hold::new(rule);
        for number in 0..=SECONDS_MAX {
            let decision = hold.second(seconds(number));
            if decision != Decision::GoOn {
                return (decision, hold);
            }
        }
        unreachable!("a limit holds before")
    }

    #[test]
    fn what_is_even_is_steady_as_soon_as_allowed() {
        let rule = Rule { error_share: 0.01, settle: 3, seconds_min: 10, seconds_max: 60 };
        // The first three seconds are wild and do not count.
        let (decision, hold) = held(rule, |second| if second < 3 { 9e9 } else { 5_000.0 + f64::from(second % 2) });
        assert_eq!((decision, hold.seconds()), (Decision::Steady, 10));
        assert!((hold.mean() - 5_000.5).abs() < 1e-9 && hold.error() < 0.2);
    }

    #[test]
    fn noise_is_held_for_as_long_as_its_square_asks() {
        let mut chance = Rng::new(12);
        let rule = Rule { error_share: 0.01, settle: 0, seconds_min: 10, seconds_max: 2_000 };
        // A deviation of 10 % needs about (0.1 / 0.01)² seconds.
        let (decision, hold) = held(rule, |_| 1_000.0 * (1.0 + 0.1 * normal(&mut chance)));
        assert_eq!(decision, Decision::Steady);
        assert!((50..250).contains(&hold.seconds()), "{}", hold.seconds());
        assert!((hold.mean() - 1_000.0).abs() < 40.0);
    }

    #[test]
    fn what_drifts_or_answers_nothing_is_given_up() {
        let rule = Rule { error_share: 0.02, settle: 0, seconds_min: 10, seconds_max: 60 };
        let (decision, hold) = held(rule, |second| 100.0 + 20.0 * f64::from(second));
        assert_eq!((decision, hold.seconds()), (Decision::GiveUp, 60));
        assert_eq!(held(rule, |_| 0.0).0, Decision::GiveUp);
        assert_eq!(held(rule, |_| f64::NAN).0, Decision::GiveUp);
    }

    #[test]
    fn the_error_is_honest_where_neighbours_resemble_each_other() {
        // x' = 0.7 x + e: the true error of the mean is that of independent values times √((1+0.7)/(1−0.7)), 2.4.
        let mut chance = Rng::new(99);
        let (mut covered, mut covered_plainly) = (0, 0);
        for _ in 0..300 {
            let mut value = 0.0;
            let values: Vec<f64> = (0..900)
                .map(|_| {
                    value = 0.7 * value + normal(&mut chance);
                    value
                })
                .collect();
            covered += u32::from(mean(&values).abs() < 1.96 * standard_error(&values));
            covered_plainly += u32::from(mean(&values).abs() < 1.96 * error_of_independent(&values));
        }
        assert!((265..=298).contains(&covered), "of 300: {covered}");
        assert!(covered_plainly < 210, "of 300: {covered_plainly}");
    }

    #[test]
    fn the_plain_error_is_known() {
        // s² = 5/3 of 1, 2, 3, 4.
        assert!((standard_error(&[1.0, 2.0, 3.0, 4.0]) - (5.0f64 / 12.0).sqrt()).abs() < 1e-12);
        assert_eq!((standard_error(&[]), standard_error(&[7.0])), (0.0, 0.0));
    }
}
