//! How long commands take, each for itself: what `LATENCY HISTOGRAM` and `INFO latencystats` tell. Of this node alone, kept in memory.
//!
//! A duration is what [`crate::slow`] takes for one. Unlike a Redis's it contains the way through the log and to the disks.

use std::time::Duration;

/// Durations are told up to a second, as a Redis does; longer ones count as one.
const NANOS_MAX: u64 = 1_000_000_000;
/// Powers of two up to that, and parts of each: a duration is known to a sixteenth.
const POWERS: usize = 30;
const PARTS: usize = 16;
/// The first and the last power whose count a histogram tells: 1.024 µs, and all.
const FIRST_TOLD: usize = 10;
/// What `INFO latencystats` tells of each command: Redis's own choice.
pub(crate) const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

const _: () = assert!(NANOS_MAX < 1 << POWERS);

/// The durations of one command.
#[derive(Debug)]
pub(crate) struct Histogram {
    pub calls: u64,
    /// What all of them took together.
    pub nanos: u64,
    /// Refused before they were carried out.
    pub rejected: u64,
    /// Answered with an error.
    pub failed: u64,
    counts: Box<[u64]>,
}

impl Histogram {
    fn new() -> Histogram {
        Histogram { calls: 0, nanos: 0, rejected: 0, failed: 0, counts: vec![0; POWERS * PARTS].into() }
    }

    fn note(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(NANOS_MAX).clamp(1, NANOS_MAX);
        let power = nanos.ilog2() as usize;
        let part = (nanos << 4 >> power) as usize % PARTS;
        if let Some(count) = self.counts.get_mut(power * PARTS + part) {
            *count += 1;
        }
        self.calls += 1;
        self.nanos = self.nanos.saturating_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Upper bounds in microseconds, and how many durations are below: those at which that is more than at the one before.
    ///
    /// The bounds are powers of two in nanoseconds, 128th parts added: to the digit those of a Redis, whose histogram counts so.
    pub(crate) fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut told = Vec::new();
        let mut below = self.counts[..FIRST_TOLD * PARTS].iter().sum::<u64>();
        let mut last = 0;
        for power in FIRST_TOLD..=POWERS {
            if below > last {
                let bound = 1u64 << power;
                told.push(((bound + bound / 128 - 1) / 1000, below));
                last = below;
            }
            below += self.counts.iter().skip(power * PARTS).take(PARTS).sum::<u64>();
        }
        told
    }

    /// The duration in microseconds within which so many of a hundred commands were done.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        let wanted = ((percent / 100.0 * self.calls as f64 + 0.5) as u64).max(1);
        let mut below = 0;
        for (place, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= wanted {
                let (power, part) = (place / PARTS, (place % PARTS) as u64);
                // In nanoseconds: the last one that is counted here.
                let bound = ((PARTS as u64 + part + 1) << power).div_ceil(PARTS as u64) - 1;
                return bound as f64 / 1000.0;
            }
        }
        0.0
    }
}

/// See the file's head. Commands are named as in the table, so there are no more than that has.
#[derive(Debug)]
pub(crate) struct Durations {
    /// Whether they are kept (`latency-tracking`).
    pub kept: bool,
    known: Vec<(&'static str, Histogram)>,
}

impl Default for Durations {
    fn default() -> Durations {
        Durations { kept: true, known: Vec::new() }
    }
}

impl Durations {
    /// A command is answered. `name` comes from the table of commands; empty for what no client has asked for.
    pub(crate) fn note(&mut self, name: &'static str, took: Duration) {
        if !self.kept || name.is_empty() {
            return;
        }
        self.histogram(name).note(took);
    }

    /// A command was answered with an error.
    pub(crate) fn note_failure(&mut self, name: &'static str) {
        if self.kept && !name.is_empty() {
            self.histogram(name).failed += 1;
        }
    }

    /// A command was refused before it was carried out.
    pub(crate) fn note_refusal(&mut self, name: &'static str) {
        if self.kept && !name.is_empty() {
            self.histogram(name).rejected += 1;
        }
    }

    fn histogram(&mut self, name: &'static str) -> &mut Histogram {
        // Nearly always the same few: the place of one in memory tells it from others faster than its letters.
        let place = self.known.iter().position(|(known, _)| std::ptr::eq(*known, name) || *known == name);
        let place = place.unwrap_or_else(|| {
            self.known.push((name, Histogram::new()));
            self.known.len() - 1
        });
        &mut self.known[place].1
    }

    /// Those whose names pass, by name.
    pub(crate) fn of(&self, wanted: impl Fn(&str) -> bool) -> Vec<(&'static str, &Histogram)> {
        let mut found: Vec<_> =
            self.known.iter().filter(|(name, _)| wanted(name)).map(|(name, histogram)| (*name, histogram)).collect();
        found.sort_unstable_by_key(|(name, _)| *name);
        found
    }

    /// As `CONFIG RESETSTAT`.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_below_powers_of_two() {
        let mut histogram = Histogram::new();
        for (micros, times) in [(0, 1), (1, 2), (3, 4), (1000, 10), (2_000_000, 3)] {
            (0..times).for_each(|_| histogram.note(Duration::from_micros(micros)));
        }
        // The bounds are those that a Redis tells: 1, 4, 1056 and 1082130 µs.
        assert_eq!(histogram.cumulative(), [(1, 3), (4, 7), (1056, 17), (1_082_130, 20)]);
        assert_eq!(histogram.calls, 20);
    }

    #[test]
    fn a_percentile_is_known_to_a_sixteenth() {
        let mut histogram = Histogram::new();
        for micros in 1..=1000 {
            histogram.note(Duration::from_micros(micros));
        }
        for percent in [1.0, 50.0, 99.0, 99.9, 100.0] {
            let exact = percent * 10.0;
            let told = histogram.percentile(percent);
            assert!(told >= exact * 0.999 && told <= exact * (1.0 + 1.0 / 16.0), "{percent}: {told}");
        }
        let mut longest = Histogram::new();
        longest.note(Duration::from_secs(100));
        assert!((1e6..1.07e6).contains(&longest.percentile(50.0)), "{}", longest.percentile(50.0));
    }

    #[test]
    fn a_command_has_one_histogram() {
        let mut durations = Durations::default();
        let names: [&'static str; 2] = ["get", "set"];
        for name in names {
            durations.note(name, Duration::ZERO);
            durations.note(Box::leak(name.to_owned().into_boxed_str()), Duration::ZERO);
        }
        durations.note("", Duration::ZERO);
        durations.kept = false;
        durations.note("get", Duration::ZERO);
        let calls: Vec<_> = durations.of(|_| true).into_iter().map(|(name, of)| (name, of.calls)).collect();
        assert_eq!(calls, [("get", 2), ("set", 2)]);
    }
}
