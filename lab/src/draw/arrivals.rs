//! When operations of an open loop are due, whatever the answers do.

use base::random::Rng;

use crate::record;

/// Nanoseconds in a second.
const SECOND: f64 = 1e9;

/// The greatest rate: one operation a nanosecond.
const RATE_MAX: f64 = 1e9;

/// The intended starts of one client's operations, in nanoseconds since the load began, never falling.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Mean distance of two starts.
    step: f64,
    /// The last start; for equal steps: the first one.
    at: f64,
    /// Starts given.
    given: u64,
    /// None for equal steps.
    chance: Option<Rng>,
}

impl Arrivals {
    /// All operations, at `rate` a second.
    ///
    /// # Errors
    /// If `kind` is a closed loop, which has no schedule, or the rate is not above 0 and at most 10^9.
    pub fn new(kind: record::Arrivals, rate: f64, seed: u64) -> Result<Arrivals, String> {
        Arrivals::of_client(kind, rate, 0, 1, seed)
    }

    /// The share of client `client` of `clients` in `rate` operations a second, all clients together. In equal steps the
    /// clients take turns, so that all starts together are in equal steps too; Poisson streams that are independent add up
    /// to one of the whole rate (`seed` may be the same for all clients).
    ///
    /// # Errors
    /// As [`new`](Arrivals::new), and if there is no such client.
    pub fn of_client(
        kind: record::Arrivals,
        rate: f64,
        client: u32,
        clients: u32,
        seed: u64,
    ) -> Result<Arrivals, String> {
        if !(rate > 0.0 && rate <= RATE_MAX) {
            return Err(format!("a rate of {rate} operations a second: it must be above 0 and at most {RATE_MAX}"));
        }
        if client >= clients {
            return Err(format!("client {client} of {clients}: clients are numbered from 0"));
        }
        let step = SECOND / rate * f64::from(clients);
        // Clients next to each other must not get streams that are alike.
        let mut seeds = Rng::new(seed ^ (u64::from(client) << 32 | u64::from(client)));
        match kind {
            record::Arrivals::Closed => {
                Err("a closed loop has no schedule: ask for constant or Poisson arrivals, with a rate".into())
            }
            record::Arrivals::Constant => {
                Ok(Arrivals { step, at: SECOND / rate * f64::from(client), given: 0, chance: None })
            }
            record::Arrivals::Poisson => Ok(Arrivals { step, at: 0.0, given: 0, chance: Some(seeds.fork()) }),
        }
    }

    /// When the next operation is due.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        let start = match &mut self.chance {
            // Multiplied and not added up: after a day it still is the step that was asked for.
            None => self.at + self.step * self.given as f64,
            Some(chance) => {
                self.at += -(1.0 - chance.unit()).ln() * self.step;
                self.at
            }
        };
        self.given += 1;
        start as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Arrivals as Kind;

    /// The greatest distance of the sample's distribution from the exponential law with this mean (Kolmogorov and Smirnov).
    fn distance_from_exponential(mut gaps: Vec<f64>, mean: f64) -> f64 {
        gaps.sort_by(f64::total_cmp);
        let count = gaps.len() as f64;
        let law = |gap: f64| 1.0 - (-gap / mean).exp();
        gaps.iter()
            .enumerate()
            .map(|(place, &gap)| {
                (law(gap) - place as f64 / count).abs().max((law(gap) - (place as f64 + 1.0) / count).abs())
            })
            .fold(0.0, f64::max)
    }

    fn gaps(starts: &[u64]) -> Vec<f64> {
        starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
    }

    #[test]
    fn equal_steps_do_not_drift_and_clients_take_turns() {
        let mut one = Arrivals::new(Kind::Constant, 3.0, 1).expect("fits");
        assert_eq!([one.next(), one.next(), one.next(), one.next()], [0, 333_333_333, 666_666_666, 1_000_000_000]);
        let clients = (0..4).map(|client| Arrivals::of_client(Kind::Constant, 1_000.0, client, 4, 1).expect("fits"));
        let mut starts: Vec<u64> = clients.flat_map(|mut client| [client.next(), client.next()]).collect();
        starts.sort_unstable();
        assert_eq!(starts, (0..8).map(|number| number * 1_000_000).collect::<Vec<_>>());
    }

    #[test]
    fn poisson_gaps_are_exponential_and_independent() {
        let mut arrivals = Arrivals::new(Kind::Poisson, 50_000.0, 17).expect("fits");
        let starts: Vec<u64> = (0..100_001).map(|_| arrivals.next()).collect();
        let gaps = gaps(&starts);
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
        // Mean 20 µs with a standard error of 63 ns; the variance is the mean squared.
        assert!((mean - 20_000.0).abs() < 200.0, "{mean}");
        assert!((variance / mean.powi(2) - 1.0).abs() < 0.04, "{variance}");
        let follows = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / count / variance;
        assert!(follows.abs() < 0.013, "correlation of neighbours: {follows}");
        // The 99.9 % point of the law is 1.95 / √n.
        assert!(distance_from_exponential(gaps, 20_000.0) < 1.95 / count.sqrt());
    }

    #[test]
    fn many_poisson_clients_are_one_poisson_stream() {
        let mut starts = Vec::new();
        for client in 0..50 {
            let mut arrivals = Arrivals::of_client(Kind::Poisson, 10_000.0, client, 50, 3).expect("fits");
            starts.extend((0..1_000).map(|_| arrivals.next()));
        }
        starts.sort_unstable();
        // Only as far as every client has given its starts: about 5 s.
        starts.retain(|&start| start < 4_000_000_000);
        let gaps = gaps(&starts);
        let count = gaps.len() as f64;
        assert!((count / 40_000.0 - 1.0).abs() < 0.02, "{count}");
        assert!(distance_from_exponential(gaps, 100_000.0) < 1.95 / count.sqrt());
    }

    #[test]
    fn what_has_no_schedule_says_so() {
        assert!(Arrivals::new(Kind::Closed, 10.0, 1).unwrap_err().contains("ask for constant or Poisson"));
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Arrivals::new(Kind::Poisson, rate, 1).unwrap_err().contains("above 0"));
        }
        assert!(Arrivals::of_client(Kind::Poisson, 1.0, 3, 3, 1).unwrap_err().contains("client 3 of 3"));
    }
}
