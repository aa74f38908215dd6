//! How long the journal's syncs took since the start, for `/metrics`: counted by the threads that sync, read by that of HTTP.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the histogram, in seconds.
pub(crate) const BOUNDS: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5];

/// See the file's head.
#[derive(Debug, Default)]
pub struct SyncTimes {
    nanos: AtomicU64,
    /// Those up to each bound that were longer than the one before.
    between: [AtomicU64; BOUNDS.len()],
    /// Those that were longer than all.
    above: AtomicU64,
}

impl SyncTimes {
    pub(crate) fn note(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = BOUNDS.iter().position(|bound| seconds <= *bound);
        self.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        place.map_or(&self.above, |place| &self.between[place]).fetch_add(1, Ordering::Relaxed);
    }

    /// The sum of all, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.nanos.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// For each of [`BOUNDS`] how many took no longer, and how many there were.
    pub(crate) fn within(&self) -> ([u64; BOUNDS.len()], u64) {
        let mut sum = 0;
        let within = self.between.each_ref().map(|between| {
            sum += between.load(Ordering::Relaxed);
            sum
        });
        (within, sum + self.above.load(Ordering::Relaxed))
    }
}
