//! The Universal Scalability Law (Gunther, "Guerrilla Capacity Planning", 2007, chapter 5):
//!
//! ```text
//! X(N) = λN / (1 + σ(N−1) + κN(N−1))
//! ```
//!
//! λ is the throughput of one, σ the share of the work that waits in a line (contention), κ what each pays for agreeing with
//! each other (coherence). With κ > 0 the throughput has a peak at √((1−σ)/κ).
//!
//! The fit minimizes the sum of squared residuals over λ > 0, σ ≥ 0, κ ≥ 0, by the method of Levenberg (1944) and Marquardt
//! (1963). Where a bound holds, the least sum lies where the other parameters have theirs: so each of the four sets of free
//! parameters is fitted alone, and the best one within the bounds is it. The limits are value ± t·s·√(diagonal of (JᵀJ)⁻¹),
//! the usual linear ones, cut at 0; J has all three columns even where a bound holds, as in R's package `usl`. They suppose
//! that all points are about equally unsure.

use crate::record::{Fit, Limits};

use super::student::t95;

mod published;

pub use published::{CASSANDRA, Published};

/// Points that a fit takes at least: three parameters, and one more to be unsure by.
pub const POINTS_MIN: usize = 4;

/// Points that a fit takes at most.
pub const POINTS_MAX: usize = 100_000;

/// Steps of one descent; a dozen are usual.
const STEPS_MAX: u32 = 500;

/// The law with its three numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// λ: throughput of one.
    pub lambda: f64,
    /// σ: contention.
    pub sigma: f64,
    /// κ: coherence.
    pub kappa: f64,
}

impl Law {
    /// X(`n`).
    #[must_use]
    pub fn at(&self, n: f64) -> f64 {
        self.lambda * n / self.divisor(n)
    }

    fn divisor(&self, n: f64) -> f64 {
        1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0)
    }

    /// Where the throughput of one or more is greatest: √((1−σ)/κ), and 1 if it only falls (σ ≥ 1); none if it only grows (κ = 0).
    #[must_use]
    pub fn peak(&self) -> Option<f64> {
        if self.sigma >= 1.0 {
            return Some(1.0);
        }
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma) / self.kappa).sqrt().max(1.0))
    }

    /// The derivatives of X(`n`) by λ, σ and κ.
    fn slopes(&self, n: f64) -> [f64; 3] {
        let divisor = self.divisor(n);
        let by_sigma = -self.lambda * n * (n - 1.0) / divisor.powi(2);
        [n / divisor, by_sigma, by_sigma * n]
    }

    fn squares(&self, points: &[(f64, f64)]) -> f64 {
        points.iter().map(|&(n, x)| (x - self.at(n)).powi(2)).sum()
    }

    fn is_within_bounds(&self) -> bool {
        let finite = self.lambda.is_finite() && self.sigma.is_finite() && self.kappa.is_finite();
        finite && self.lambda > 0.0 && self.sigma >= 0.0 && self.kappa >= 0.0
    }
}

/// Fits the law to `points`, pairs of N (at least 1) and operations per second. The same N may come several times: give every
/// repeat, and the limits tell of their spread.
///
/// # Errors
/// If there are fewer than [`POINTS_MIN`] points or three different N, if a point is not finite, has N below 1 or a throughput
/// of 0 or less, or if no law within the bounds fits.
pub fn fit(side: &str, variable: &str, points: &[(f64, f64)]) -> Result<Fit, String> {
    check(points)?;
    let law = best(points).ok_or("no law with λ > 0, σ ≥ 0 and κ ≥ 0 fits these points; look at them in a picture")?;
    let [lambda, sigma, kappa] = limits(&law, points);
    let mean = points.iter().map(|&(_, x)| x).sum::<f64>() / points.len() as f64;
    let total: f64 = points.iter().map(|&(_, x)| (x - mean).powi(2)).sum();
    // Points that are all alike have no variance to explain.
    let r_squared = if total > 0.0 { 1.0 - law.squares(points) / total } else { 1.0 };
    Ok(Fit {
        side: side.into(),
        variable: variable.into(),
        points: points.to_vec(),
        lambda,
        sigma,
        kappa,
        peak_at: law.peak(),
        r_squared,
    })
}

/// The law that a [`Fit`] holds.
#[must_use]
pub fn law_of(fit: &Fit) -> Law {
    Law { lambda: fit.lambda.value, sigma: fit.sigma.value, kappa: fit.kappa.value }
}

fn check(points: &[(f64, f64)]) -> Result<(), String> {
    if points.len() < POINTS_MIN {
        return Err(format!("{} points; the law has three numbers, so measure {POINTS_MIN} or more", points.len()));
    }
    if points.len() > POINTS_MAX {
        return Err(format!("{} points; at most {POINTS_MAX} are fitted: give medians", points.len()));
    }
    for &(n, x) in points {
        if !(n.is_finite() && x.is_finite() && n >= 1.0 && x > 0.0) {
            return Err(format!("the point ({n}, {x}): N must be at least 1 and the throughput above 0"));
        }
    }
    let mut places: Vec<f64> = points.iter().map(|&(n, _)| n).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    if places.len() < 3 {
        return Err(format!("points at {} different N; the law needs three", places.len()));
    }
    Ok(())
}

/// The best law within the bounds.
fn best(points: &[(f64, f64)]) -> Option<Law> {
    let mut best: Option<(f64, Law)> = None;
    for free in [[true, true, true], [true, true, false], [true, false, true], [true, false, false]] {
        for start in starts(points, free) {
            let law = descend(start, points, free);
            let squares = law.squares(points);
            if law.is_within_bounds() && best.is_none_or(|(least, _)| squares < least) {
                best = Some((squares, law));
            }
        }
    }
    best.map(|(_, law)| law)
}

/// Where to begin: at a few guesses, λ by the first point.
fn starts(points: &[(f64, f64)], free: [bool; 3]) -> Vec<Law> {
    let first = points.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1.0, 1.0));
    let greatest = points.iter().map(|&(n, _)| n).fold(1.0, f64::max);
    let mut starts = Vec::new();
    for (sigma, kappa) in [(0.05, 0.1 / greatest.powi(2)), (0.5, 1.0 / greatest.powi(2)), (0.001, 0.01 / greatest)] {
        let mut law = Law { lambda: 1.0, sigma: 0.0, kappa: 0.0 };
        law.sigma = if free[1] { sigma } else { 0.0 };
        law.kappa = if free[2] { kappa } else { 0.0 };
        law.lambda = first.1 / law.at(first.0);
        starts.push(law);
    }
    starts
}

/// Goes down the sum of squares from `law`, moving only what is `free`.
fn descend(mut law: Law, points: &[(f64, f64)], free: [bool; 3]) -> Law {
    let mut damping = 1e-3;
    let mut squares = law.squares(points);
    for _ in 0..STEPS_MAX {
        let (mut matrix, mut gradient) = ([[0.0; 3]; 3], [0.0; 3]);
        for &(n, x) in points {
            let slopes = law.slopes(n);
            for row in 0..3 {
                gradient[row] += slopes[row] * (x - law.at(n));
                (0..3).for_each(|column| matrix[row][column] += slopes[row] * slopes[column]);
            }
        }
        for place in 0..3 {
            matrix[place][place] *= 1.0 + damping;
            if !free[place] {
                matrix[place] = [0.0; 3];
                (0..3).for_each(|row| matrix[row][place] = 0.0);
                matrix[place][place] = 1.0;
                gradient[place] = 0.0;
            }
        }
        let Some(step) = inverse(matrix).map(|inverse| times(&inverse, &gradient)) else { break };
        let next = Law { lambda: law.lambda + step[0], sigma: law.sigma + step[1], kappa: law.kappa + step[2] };
        let after = next.squares(points);
        if after.is_finite() && after <= squares {
            let small = |change: f64, value: f64| change.abs() <= 1e-12 * value.abs().max(1e-12);
            let done = small(step[0], law.lambda) && small(step[1], law.sigma) && small(step[2], law.kappa);
            (law, squares) = (next, after);
            damping = (damping * 0.3).max(1e-15);
            if done {
                break;
            }
        } else {
            damping *= 4.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    law
}

/// The three values between their 95 % limits.
fn limits(law: &Law, points: &[(f64, f64)]) -> [Limits; 3] {
    let mut matrix = [[0.0; 3]; 3];
    for &(n, _) in points {
        let slopes = law.slopes(n);
        for row in 0..3 {
            (0..3).for_each(|column| matrix[row][column] += slopes[row] * slopes[column]);
        }
    }
    let degrees = points.len() - 3;
    let variance = law.squares(points) / degrees as f64;
    let t = t95(u32::try_from(degrees).unwrap_or(u32::MAX));
    let values = [law.lambda, law.sigma, law.kappa];
    let inverse = inverse(matrix);
    [0, 1, 2].map(|place| {
        let value = values[place];
        // Where the points cannot tell, nothing is known of the value but its bound.
        let half = inverse.map_or(f64::MAX, |inverse| t * (variance * inverse[place][place].max(0.0)).sqrt());
        let half = if half.is_finite() { half } else { f64::MAX };
        Limits { value, low: (value - half).max(0.0), high: (value + half).min(f64::MAX) }
    })
}

/// The inverse by Gauss and Jordan, scaled to a diagonal of ones first: λ is millions of times κ.
fn inverse(matrix: [[f64; 3]; 3]) -> Option<[[f64; 3]; 3]> {
    let scale = [0, 1, 2].map(|place: usize| matrix[place][place].sqrt());
    if scale.iter().any(|scale| !(scale.is_finite() && *scale > 0.0)) {
        return None;
    }
    let mut wide = [[0.0; 6]; 3];
    for row in 0..3 {
        (0..3).for_each(|column| wide[row][column] = matrix[row][column] / scale[row] / scale[column]);
        wide[row][row + 3] = 1.0;
    }
    for column in 0..3 {
        let pivot = (column..3).max_by(|&a, &b| wide[a][column].abs().total_cmp(&wide[b][column].abs()))?;
        wide.swap(column, pivot);
        let divisor = wide[column][column];
        if divisor.abs() < 1e-14 {
            return None;
        }
        wide[column].iter_mut().for_each(|value| *value /= divisor);
        let pivot_row = wide[column];
        for (row, values) in wide.iter_mut().enumerate().filter(|(row, _)| *row != column) {
            debug_assert_ne!(row, column);
            let factor = values[column];
            values.iter_mut().zip(pivot_row).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    Some([0, 1, 2].map(|row: usize| [0, 1, 2].map(|column: usize| wide[row][column + 3] / scale[row] / scale[column])))
}

fn times(matrix: &[[f64; 3]; 3], vector: &[f64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|row: usize| (0..3).map(|column| matrix[row][column] * vector[column]).sum())
}

#[cfg(test)]
mod tests;
