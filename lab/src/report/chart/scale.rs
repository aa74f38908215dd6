//! From values to pixels, and where the ticks stand: linear, logarithmic, and the percentiles' own axis.

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Equal steps, equal lengths.
    Linear {
        /// Value at the beginning.
        low: f64,
        /// Value at the end, greater than `low`.
        high: f64,
    },
    /// Equal factors, equal lengths.
    Logarithmic {
        /// Value at the beginning, above 0.
        low: f64,
        /// Value at the end, greater than `low`.
        high: f64,
    },
    /// Shares from 0 to `1 - 10^-nines`: every further nine (90 %, 99 %, 99.9 %) is equally long, as HdrHistogram's plots have it.
    Percentile {
        /// How many nines the axis reaches; above 0.
        nines: f64,
    },
}

impl Scale {
    /// A linear scale from 0, or from a negative least value, to a round number above the greatest of the values.
    pub fn linear(values: impl IntoIterator<Item = f64>) -> Scale {
        let (least, greatest) = limits(values).unwrap_or((0.0, 1.0));
        let low = least.min(0.0);
        let high = if greatest > low { greatest } else { low + 1.0 };
        let step = round_step(high - low, 5);
        Scale::Linear { low: (low / step).floor() * step, high: (high / step - 1e-9).ceil() * step }
    }

    /// A linear scale from just these limits.
    pub fn exact(low: f64, high: f64) -> Scale {
        let low = if low.is_finite() { low } else { 0.0 };
        Scale::Linear { low, high: if high.is_finite() && high > low { high } else { low + 1.0 } }
    }

    /// A logarithmic scale around the values that are above 0, out to the next 1, 2 or 5 of a power of ten.
    pub fn logarithmic(values: impl IntoIterator<Item = f64>) -> Scale {
        let (least, greatest) = limits(values.into_iter().filter(|&value| value > 0.0)).unwrap_or((1.0, 10.0));
        let (low, high) = (round_down(least), round_up(greatest));
        if high > low * 1.5 {
            Scale::Logarithmic { low, high }
        } else {
            Scale::Logarithmic { low: low / 2.0, high: low * 2.0 }
        }
    }

    /// Where the value lies: 0 at the beginning, 1 at the end; values beyond are put at the nearest end, and what is no number at 0.
    pub fn place(&self, value: f64) -> f64 {
        let place = match *self {
            Scale::Linear { low, high } => (value - low) / (high - low),
            Scale::Logarithmic { low, high } => (value.max(low) / low).ln() / (high / low).ln(),
            Scale::Percentile { nines } => -(1.0 - value.clamp(0.0, 1.0)).max(1e-12).log10() / nines,
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Round values for ticks, at most about so many, in order.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        let most = most.max(2);
        match *self {
            Scale::Linear { low, high } => {
                let step = round_step(high - low, most);
                let first = (low / step - 1e-9).ceil();
                (0..=most * 2)
                    .map(|index| (first + index as f64) * step)
                    .take_while(|&tick| tick <= high + step * 1e-9)
                    .collect()
            }
            Scale::Logarithmic { low, high } => logarithmic_ticks(low, high, most),
            Scale::Percentile { nines } => {
                let whole = nines.floor().min(9.0) as i32;
                let mut ticks = vec![0.0];
                ticks.extend((1..=whole).map(|nine| 1.0 - 10f64.powi(-nine)));
                if most > ticks.len() + 1 {
                    ticks.insert(1, 0.5);
                }
                ticks
            }
        }
    }
}

fn limits(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().filter(|value| value.is_finite()).fold(None, |found, value| {
        let (least, greatest) = found.unwrap_or((value, value));
        Some((f64::min(least, value), f64::max(greatest, value)))
    })
}

/// A step of 1, 2 or 5 times a power of ten with which the span has at most so many steps.
fn round_step(span: f64, most: usize) -> f64 {
    let least = span / most as f64;
    let power = 10f64.powf(least.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|&step| step >= least * (1.0 - 1e-9));
    step.filter(|step| step.is_finite() && *step > 0.0).unwrap_or(1.0)
}

fn round_down(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|&round| round <= value * (1.0 + 1e-9))
        .unwrap_or(power)
}

fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let above = [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|&round| round >= value * (1.0 - 1e-9));
    above.unwrap_or(10.0 * power)
}

/// Powers of ten, with 2 and 5 of each, or with 3 of each, or every so many of them: whichever comes nearest to what there is room for.
fn logarithmic_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let (first, last) = ((low.log10() - 1e-9).floor() as i32, (high.log10() + 1e-9).ceil() as i32);
    let inside = |tick: &f64| *tick >= low * (1.0 - 1e-9) && *tick <= high * (1.0 + 1e-9);
    for factors in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
        let ticks: Vec<f64> = (first..=last)
            .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
            .filter(inside)
            .collect();
        if ticks.len() <= most && ticks.len() >= 2 {
            return ticks;
        }
    }
    let stride = ((last - first) as usize / most + 1).max(1);
    let sparse: Vec<f64> = (first..=last).map(|power| 10f64.powi(power)).filter(inside).step_by(stride).collect();
    if sparse.len() >= 2 { sparse } else { vec![low, high] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: &[f64], expected: &[f64]) {
        let same = found.len() == expected.len()
            && found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs().max(1e-9));
        assert!(same, "{found:?} instead of {expected:?}");
    }

    #[test]
    fn linear_ticks_are_round() {
        let scale = Scale::linear([3.0, 87.0]);
        assert_eq!(scale, Scale::Linear { low: 0.0, high: 100.0 });
        close(&scale.ticks(5), &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        close(&Scale::exact(0.0, 59.0).ticks(6), &[0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(scale.place(50.0), 0.5);
        assert_eq!(scale.place(500.0), 1.0);
        assert_eq!(scale.place(f64::NAN), 0.0);
    }

    #[test]
    fn logarithmic_ticks_fit_the_room() {
        let scale = Scale::logarithmic([230.0, 41_000.0]);
        assert_eq!(scale, Scale::Logarithmic { low: 200.0, high: 50_000.0 });
        close(&scale.ticks(8), &[200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4]);
        close(&scale.ticks(5), &[300.0, 1e3, 3e3, 1e4, 3e4]);
        close(&scale.ticks(3), &[1e3, 1e4]);
        assert!((scale.place(1e3) - 5f64.ln() / 250f64.ln()).abs() < 1e-12);
        assert_eq!(scale.place(0.0), 0.0);
        let one = Scale::logarithmic([1_000.0]);
        assert!(one.place(1_000.0) > 0.2 && one.place(1_000.0) < 0.8, "{one:?}");
    }

    #[test]
    fn every_further_nine_is_equally_long() {
        let scale = Scale::Percentile { nines: 4.0 };
        for (share, place) in [(0.0, 0.0), (0.9, 0.25), (0.99, 0.5), (0.999, 0.75), (0.9999, 1.0), (1.0, 1.0)] {
            assert!((scale.place(share) - place).abs() < 1e-9, "{share}");
        }
        close(&scale.ticks(5), &[0.0, 0.9, 0.99, 0.999, 0.9999]);
        close(&scale.ticks(8), &[0.0, 0.5, 0.9, 0.99, 0.999, 0.9999]);
    }

    #[test]
    fn odd_values_make_no_odd_scale() {
        for values in
            [vec![], vec![f64::NAN], vec![0.0], vec![-5.0], vec![f64::INFINITY], vec![1e-300, 1e300], vec![1e300]]
        {
            for scale in [Scale::linear(values.clone()), Scale::logarithmic(values.clone())] {
                let ticks = scale.ticks(5);
                assert!(
                    !ticks.is_empty() && ticks.len() <= 12 && ticks.iter().all(|tick| tick.is_finite()),
                    "{values:?} {ticks:?}"
                );
                assert!(ticks.is_sorted(), "{ticks:?}");
            }
        }
    }
}
