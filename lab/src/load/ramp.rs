//! Step after step of more load: of clients until the throughput is known well enough at each, of rates until the knee.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Load, Measured, Pacing, Snapshot, run};
use crate::record::Arrivals;
use crate::workload::Workload;

/// More and more clients in a closed loop (mission §6: 4 to 1000, each step half as many again).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientRamp {
    /// Clients of the first step.
    pub from: u32,
    /// Clients of the last.
    pub to: u32,
    /// A step is held until the standard error of the throughput is at most this share of it.
    pub error_share: f64,
    /// But at least for so many seconds.
    pub seconds_min: u32,
    /// And at most for so many.
    pub seconds_max: u32,
}

impl Default for ClientRamp {
    fn default() -> ClientRamp {
        ClientRamp { from: 4, to: 1_000, error_share: 0.02, seconds_min: 5, seconds_max: 60 }
    }
}

impl ClientRamp {
    /// The steps' clients: each half as many again, rounded, and the last as it was asked for.
    #[must_use]
    pub fn steps(&self) -> Vec<u32> {
        let mut steps = Vec::new();
        let mut exact = f64::from(self.from.max(1));
        while (exact.round() as u32) < self.to {
            steps.push(exact.round() as u32);
            exact = (exact * 1.5).max(exact + 1.0);
        }
        steps.push(self.to.max(self.from).max(1));
        steps
    }

    /// Carries the steps out, until `stop`. `on_second` is also given the step's clients. Each measurement has the variable
    /// `clients`.
    ///
    /// # Errors
    /// As [`run`].
    pub fn run(
        &self,
        load: &Load,
        workload: &dyn Workload,
        stop: &AtomicBool,
        on_second: &mut dyn FnMut(u32, &Snapshot),
    ) -> Result<Vec<Measured>, String> {
        let mut measured = Vec::new();
        for clients in self.steps() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let mut step = load.clone();
            step.clients = clients;
            step.pacing = Pacing::Closed;
            step.seconds = f64::from(self.seconds_max);
            let enough = AtomicBool::new(false);
            let (mut measurement, mut notes) = run(&step, workload, None, &enough, &mut |snapshot| {
                on_second(clients, snapshot);
                let seconds = (snapshot.second + 1).saturating_sub(step.warm_up);
                let settled = snapshot.throughput_error <= snapshot.throughput_mean * self.error_share;
                if stop.load(Ordering::Relaxed) || (seconds >= self.seconds_min && settled && !snapshot.warming_up) {
                    enough.store(true, Ordering::Relaxed);
                }
            })?;
            if measurement.throughput_error > measurement.throughput * self.error_share {
                notes.push(format!(
                    "at {clients} clients the standard error of the throughput was still {:.1} % after {:.0} s",
                    100.0 * measurement.throughput_error / measurement.throughput.max(1e-9),
                    measurement.seconds
                ));
            }
            measurement.variables.insert("clients".to_owned(), clients.to_string());
            measured.push((measurement, notes));
        }
        Ok(measured)
    }
}

/// Higher and higher rates in an open loop, until the target no longer keeps up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRamp {
    /// Operations a second of the first step.
    pub from: f64,
    /// Operations a second that no step goes beyond.
    pub to: f64,
    /// Each step's rate is so many times the last one's.
    pub growth: f64,
    /// Seconds of each step.
    pub seconds: f64,
    /// A step whose throughput falls short of its rate by more than this share is beyond the knee.
    pub short_share: f64,
}

impl Default for RateRamp {
    fn default() -> RateRamp {
        RateRamp { from: 1_000.0, to: 1e7, growth: 1.25, seconds: 10.0, short_share: 0.05 }
    }
}

impl RateRamp {
    /// Carries out steps until one is beyond the knee (it is the last one), or `stop`. Each measurement has the variable
    /// `rate`. The knee is the rate of the last step that kept up, if one did and another did not.
    ///
    /// # Errors
    /// As [`run`].
    pub fn run(
        &self,
        load: &Load,
        workload: &dyn Workload,
        stop: &AtomicBool,
        on_second: &mut dyn FnMut(f64, &Snapshot),
    ) -> Result<(Vec<Measured>, Option<f64>), String> {
        let arrivals = match load.pacing {
            Pacing::Open { arrivals, .. } => arrivals,
            Pacing::Closed => Arrivals::Poisson,
        };
        let (mut measured, mut kept_up, mut knee) = (Vec::new(), None, None);
        let mut rate = self.from;
        while rate <= self.to && !stop.load(Ordering::Relaxed) {
            let mut step = load.clone();
            step.pacing = Pacing::Open { rate, arrivals };
            step.seconds = self.seconds;
            let (mut measurement, notes) = run(&step, workload, None, stop, &mut |snapshot| on_second(rate, snapshot))?;
            measurement.variables.insert("rate".to_owned(), format!("{rate:.0}"));
            // Poisson arrivals differ from their mean: three standard deviations of them are no shortfall.
            let slack = 3.0 / (rate * measurement.seconds.max(1e-9)).sqrt();
            let short = measurement.throughput < rate * (1.0 - self.short_share - slack);
            measured.push((measurement, notes));
            if short {
                knee = kept_up;
                break;
            }
            kept_up = Some(rate);
            rate *= self.growth.max(1.01);
        }
        Ok((measured, knee))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_half_as_many_again() {
        let steps = ClientRamp::default().steps();
        assert_eq!(steps, [4, 6, 9, 14, 20, 30, 46, 68, 103, 154, 231, 346, 519, 778, 1_000]);
        assert_eq!(ClientRamp { from: 1, to: 3, ..ClientRamp::default() }.steps(), [1, 2, 3]);
        assert_eq!(ClientRamp { from: 9, to: 4, ..ClientRamp::default() }.steps(), [9]);
    }
}
