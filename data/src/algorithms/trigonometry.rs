//! Sines, cosines and their inverses, the same to the last bit on every machine.
//!
//! What the system's library answers differs by a last bit from version to version and from processor to processor, and a replica must not: `GEOSEARCHSTORE … STOREDIST`
//! stores distances. Here are only sums, products and roots, which are the same everywhere. The error is at most two units in the last place.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4};

/// What π/2 is above [`FRAC_PI_2`].
const FRAC_PI_2_REST: f64 = 6.123_233_995_736_766e-17;

/// Terms of the series of sine and cosine up to π/4: the next one would be below 2⁻⁶⁰ of the sum.
const TERMS: usize = 9;
/// Terms of the series of the inverse sine up to one half.
const INVERSE_TERMS: usize = 26;

/// One by the factorials: of 1, 3, 5, … or of 0, 2, 4, …, with signs that take turns.
const fn series(first: usize) -> [f64; TERMS] {
    let mut terms = [1.0; TERMS];
    let mut place = 1;
    while place < TERMS {
        let number = first + 2 * place;
        terms[place] = -terms[place - 1] / ((number - 1) * number) as f64;
        place += 1;
    }
    terms
}

/// 1, 1/2 · 1/3, 1·3/(2·4) · 1/5, …
const fn inverse_series() -> [f64; INVERSE_TERMS] {
    let mut terms = [1.0; INVERSE_TERMS];
    let mut place = 1;
    while place < INVERSE_TERMS {
        let odd = (2 * place - 1) as f64;
        terms[place] = terms[place - 1] * (odd * odd) / (2.0 * place as f64 * (odd + 2.0));
        place += 1;
    }
    terms
}

const SINE: [f64; TERMS] = series(1);
const COSINE: [f64; TERMS] = series(0);
const INVERSE_SINE: [f64; INVERSE_TERMS] = inverse_series();

/// The terms from the second on, by the square of x.
fn sum(terms: &[f64], square: f64) -> f64 {
    terms.iter().skip(1).rev().fold(0.0, |sum, term| (sum + term) * square)
}

/// Up to π/4, of x and a rest that is far below it.
fn small_sin(x: f64, rest: f64) -> f64 {
    let square = x * x;
    x + (x * sum(&SINE, square) + rest * (1.0 - 0.5 * square))
}

/// As [`small_sin`].
fn small_cos(x: f64, rest: f64) -> f64 {
    let square = x * x;
    let half = 0.5 * square;
    let whole = 1.0 - half;
    whole + ((1.0 - whole - half) + (sum(&COSINE[1..], square) * square - x * rest))
}

/// How many quarters of a turn are in x, and what is left, as a sum of two.
fn quarters(x: f64) -> (i64, f64, f64) {
    let count = (x / FRAC_PI_2).round();
    let (much, little) = (count * FRAC_PI_2, count * FRAC_PI_2_REST);
    let left = x - much;
    let whole = left - little;
    (count as i64, whole, left - whole - little)
}

/// The sine of an angle of at most one turn in either direction.
#[must_use]
pub fn sin(x: f64) -> f64 {
    if x.abs() <= FRAC_PI_4 {
        return small_sin(x, 0.0);
    }
    let (count, x, rest) = quarters(x);
    match count.rem_euclid(4) {
        0 => small_sin(x, rest),
        1 => small_cos(x, rest),
        2 => -small_sin(x, rest),
        _ => -small_cos(x, rest),
    }
}

/// The cosine of an angle of at most one turn in either direction.
#[must_use]
pub fn cos(x: f64) -> f64 {
    let (count, x, rest) = quarters(x);
    match count.rem_euclid(4) {
        0 => small_cos(x, rest),
        1 => -small_sin(x, rest),
        2 => -small_cos(x, rest),
        _ => small_sin(x, rest),
    }
}

/// The angle from zero to a quarter of a turn whose sine is x. What is above one counts as one, what is below zero as zero.
#[must_use]
pub fn asin(x: f64) -> f64 {
    let x = x.clamp(0.0, 1.0);
    if x <= 0.5 {
        return x + x * sum(&INVERSE_SINE, x * x);
    }
    let square = (1.0 - x) * 0.5;
    let root = square.sqrt();
    let half = root + root * sum(&INVERSE_SINE, square);
    FRAC_PI_2 - (2.0 * half - FRAC_PI_2_REST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use std::f64::consts::PI;

    /// How many numbers lie between two, as parts of the larger one's last place.
    fn apart(one: f64, other: f64) -> f64 {
        let scale = one.abs().max(other.abs()).max(1e-300);
        (one - other).abs() / (scale * f64::EPSILON)
    }

    #[test]
    fn they_are_near_those_of_the_system() {
        let mut rng = Rng::new(3);
        for _ in 0..200_000 {
            let turn = rng.below(1 << 53) as f64 / (1u64 << 53) as f64;
            let small = turn * 10f64.powi(-(rng.below(12) as i32));
            for x in [small * PI, -small * PI, turn * 2.0 * PI] {
                // Beside a zero the place of an angle's last bit is what counts.
                let near = |ours: f64, theirs: f64| apart(ours, theirs) <= 2.0 || (ours - theirs).abs() < 1e-16;
                assert!(near(sin(x), x.sin()), "sin {x}: {} {}", sin(x), x.sin());
                assert!(near(cos(x), x.cos()), "cos {x}: {} {}", cos(x), x.cos());
            }
            assert!(apart(asin(small), small.asin()) <= 3.0, "asin {small}: {} {}", asin(small), small.asin());
        }
    }

    #[test]
    fn what_is_exact_is_exact() {
        assert_eq!((sin(0.0), cos(0.0), asin(0.0)), (0.0, 1.0, 0.0));
        assert_eq!((asin(1.0), asin(1.0 + 1e-15), asin(-1e-300)), (FRAC_PI_2, FRAC_PI_2, 0.0));
        assert_eq!(sin(FRAC_PI_2), 1.0);
        assert!(cos(FRAC_PI_2).abs() < 1e-16);
    }
}
