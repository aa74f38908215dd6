//! Zipf's law, drawn in constant time.
//!
//! The method is that of Gray, Sundaresan, Englert, Baclawski and Weinberger, "Quickly Generating Billion-Record Synthetic
//! Databases" (SIGMOD 1994), which YCSB uses: the first two items have their exact probabilities, all later ones those of a
//! smooth curve through the law. [`Zipfian::probability`] is what is drawn, exactly.

use base::random::Rng;

/// Terms of ζ that are added one by one; the sum over those beyond has a closed form that is more exact than a double.
const SUMMED: u64 = 10_000;

/// ζ(n, θ): the sum of `1 / i^θ` for `i` from 1 to `n`; θ above 0 and not 1.
///
/// The terms beyond the first ten thousand are added by the formula of Euler and Maclaurin (the integral, half the terms at
/// both ends, a twelfth of the derivatives' difference), whose error there is below 1e-15.
#[must_use]
pub fn zeta(n: u64, theta: f64) -> f64 {
    let first = n.min(SUMMED);
    // From the small ones to the great ones, so that little is rounded away.
    let sum: f64 = (1..=first).rev().map(|i| (i as f64).powf(-theta)).sum();
    if n <= SUMMED { sum } else { sum + beyond(first, n, theta) }
}

/// The sum of `1 / i^θ` for `i` from `first + 1` to `n`.
fn beyond(first: u64, n: u64, theta: f64) -> f64 {
    let (a, b) = (first as f64, n as f64);
    let integral = (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta);
    let ends = (b.powf(-theta) - a.powf(-theta)) / 2.0;
    let slopes = -theta * (b.powf(-theta - 1.0) - a.powf(-theta - 1.0)) / 12.0;
    integral + ends + slopes
}

/// A zipfian law over `0..items`, the first item the most popular.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    zeta: f64,
    zeta_of_two: f64,
    eta: f64,
}

impl Zipfian {
    /// The law over `items` (at least 1 is taken) with the skew `theta`, above 0 and below 1.
    #[must_use]
    pub fn new(items: u64, theta: f64) -> Zipfian {
        let items = items.max(1);
        Zipfian::with_zeta(items, theta, zeta(items, theta))
    }

    /// The same with ζ(items, θ) known.
    pub(super) fn with_zeta(items: u64, theta: f64, zeta_of_all: f64) -> Zipfian {
        let zeta_of_two = zeta(2, theta);
        let mut law = Zipfian { items, theta, zeta: zeta_of_all, zeta_of_two, eta: 0.0 };
        law.set_eta();
        law
    }

    fn set_eta(&mut self) {
        let start = (2.0 / self.items as f64).powf(1.0 - self.theta);
        // With one or two items nothing is ever drawn from the curve.
        self.eta = if self.items <= 2 { 1.0 } else { (1.0 - start) / (1.0 - self.zeta_of_two / self.zeta) };
    }

    /// How many items there are.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Lets the law cover `items`, if that is more than now: only the new terms of ζ are added. (YCSB then goes on with the
    /// first number of items in its η; here both are of the new one.)
    pub fn grow(&mut self, items: u64) {
        if items <= self.items {
            return;
        }
        if self.items >= SUMMED && items - self.items > 16 {
            self.zeta += beyond(self.items, items, self.theta);
        } else {
            self.zeta += (self.items + 1..=items).map(|i| (i as f64).powf(-self.theta)).sum::<f64>();
        }
        self.items = items;
        self.set_eta();
    }

    /// The next item.
    pub fn draw(&self, chance: &mut Rng) -> u64 {
        self.at(chance.unit())
    }

    /// The item at `u`, 0 to 1, of the law's distribution function.
    fn at(&self, u: f64) -> u64 {
        let scaled = u * self.zeta;
        if scaled < 1.0 || self.items == 1 {
            return 0;
        }
        if scaled < self.zeta_of_two || self.items == 2 {
            return 1;
        }
        let place = self.items as f64 * (1.0 - self.eta * (1.0 - u)).powf(1.0 / (1.0 - self.theta));
        (place as u64).min(self.items - 1)
    }

    /// How often [`draw`](Zipfian::draw) gives `item`: 0 to 1.
    #[must_use]
    pub fn probability(&self, item: u64) -> f64 {
        match item {
            _ if item >= self.items => 0.0,
            0 => 1.0 / self.zeta,
            1 => 0.5f64.powf(self.theta) / self.zeta,
            _ => self.below(item + 1) - self.below(item),
        }
    }

    /// How often the curve gives less than `item`, for items from 2 on: the curve solved for `u`.
    fn below(&self, item: u64) -> f64 {
        1.0 - (1.0 - (item as f64 / self.items as f64).powf(1.0 - self.theta)) / self.eta
    }

    /// The law itself: `1 / ((item+1)^θ · ζ)`.
    #[must_use]
    pub fn published(&self, item: u64) -> f64 {
        if item < self.items { (item as f64 + 1.0).powf(-self.theta) / self.zeta } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeta_is_what_ycsb_published_for_ten_thousand_million_items() {
        // ScrambledZipfianGenerator.ZETAN, there summed term by term.
        assert!((zeta(10_000_000_000, 0.99) - 26.469_028_201_783_02).abs() < 1e-9);
        // And what the plain sum gives.
        let plain: f64 = (1..=1_000_000u64).map(|i| (i as f64).powf(-0.7)).sum();
        assert!((zeta(1_000_000, 0.7) - plain).abs() < 1e-8);
    }

    #[test]
    fn growing_gives_the_same_law_as_beginning_so() {
        for (from, to) in [(1, 2), (2, 3), (1_000, 1_500), (9_000, 40_000), (20_000, 20_001), (20_000, 1_000_000)] {
            let mut grown = Zipfian::new(from, 0.99);
            grown.grow(to);
            let new = Zipfian::new(to, 0.99);
            assert_eq!(grown.items(), to);
            assert!((grown.zeta - new.zeta).abs() < 1e-10 && (grown.eta - new.eta).abs() < 1e-10, "{from} to {to}");
        }
    }

    #[test]
    fn what_is_drawn_is_close_to_the_law() {
        for theta in [0.5, 0.8, 0.99] {
            let law = Zipfian::new(1_000, theta);
            let sum: f64 = (0..1_000).map(|item| law.probability(item)).sum();
            assert!((sum - 1.0).abs() < 1e-12);
            let apart: f64 = (0..1_000).map(|item| (law.probability(item) - law.published(item)).abs()).sum();
            // Total variation: the method's known inexactness from the third item on.
            assert!(apart / 2.0 < 0.03, "θ {theta}: {apart}");
            assert!((law.probability(0) - law.published(0)).abs() < 1e-15);
            assert!((law.probability(1) - law.published(1)).abs() < 1e-15);
        }
    }

    #[test]
    fn draws_follow_the_law_by_chi_square() {
        let law = Zipfian::new(1_000, 0.99);
        let mut chance = Rng::new(11);
        let draws = 400_000;
        let mut counts = vec![0u64; 1_000];
        (0..draws).for_each(|_| counts[law.draw(&mut chance) as usize] += 1);
        let square: f64 = counts
            .iter()
            .enumerate()
            .map(|(item, &count)| {
                let expected = law.probability(item as u64) * draws as f64;
                (count as f64 - expected).powi(2) / expected
            })
            .sum();
        // 999 degrees of freedom: mean 999, deviation 44.7; the band is 99.9 % of the law on both sides.
        assert!((857.0..1_143.0).contains(&square), "{square}");
    }

    #[test]
    fn few_items_are_no_trouble() {
        let mut chance = Rng::new(3);
        for items in [1, 2, 3] {
            let law = Zipfian::new(items, 0.99);
            assert!((0..1_000).all(|_| law.draw(&mut chance) < items));
        }
        assert_eq!(Zipfian::new(3, 0.5).at(1.0 - f64::EPSILON / 2.0), 2);
    }
}
