//! Student's t: how far a mean of few values may be off.

/// The half width of a two-sided 95 % interval in standard errors, with so many degrees of freedom (at least 1 is taken):
/// 12.706 for 1, 1.960 for many.
#[must_use]
pub fn t95(degrees: u32) -> f64 {
    let degrees = f64::from(degrees.max(1));
    // The distribution function rises, so halving finds its 97.5 % point.
    let (mut low, mut high) = (0.0, 20.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if two_sided(middle, degrees) > 0.05 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The probability that |t| is at least `t`: the regularized incomplete beta function at ν/(ν+t²) with ν/2 and ½
/// (Abramowitz and Stegun, 26.7.1 and 26.5.27).
fn two_sided(t: f64, degrees: f64) -> f64 {
    incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5)
}

/// I_x(a, b), by the continued fraction of Abramowitz and Stegun 26.5.8, evaluated from the front (Lentz 1976).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges quickly on this side only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let away = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    // 1 + c1/(1 + c2/(1 + …)): `above` and `below` are the ratios of neighbouring numerators and denominators.
    let (mut above, mut below, mut fraction) = (1.0, 0.0, 1.0);
    for place in 1..500u32 {
        let m = f64::from(place / 2);
        let coefficient = if place % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        above = away(1.0 + coefficient / above);
        below = 1.0 / away(1.0 + coefficient * below);
        fraction *= above * below;
        if (above * below - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front / fraction
}

/// ln Γ(x) for x > 0: Stirling's series from 10 on, carried down by Γ(x+1) = xΓ(x).
fn ln_gamma(x: f64) -> f64 {
    let mut x = x;
    let mut below = 0.0;
    while x < 10.0 {
        below += x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1_260.0 - 1.0 / (1_680.0 * square)) / square) / square) / x;
    (x - 0.5) * x.ln() - x + (2.0 * std::f64::consts::PI).ln() / 2.0 + series - below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_points_are_those_of_the_tables() {
        // Any table of Student's t, column 0.975.
        let table = [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (8, 2.3060), (10, 2.2281), (29, 2.0452)];
        for (degrees, expected) in table {
            assert!((t95(degrees) - expected).abs() < 1e-4, "{degrees}: {}", t95(degrees));
        }
        assert!((t95(1_000_000) - 1.959_966).abs() < 1e-5, "{}", t95(1_000_000));
        assert_eq!(t95(0), t95(1));
    }

    #[test]
    fn gamma_is_the_factorial() {
        assert!((ln_gamma(5.0) - 24f64.ln()).abs() < 1e-12);
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-11);
    }
}
