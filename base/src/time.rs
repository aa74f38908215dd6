//! Time as an argument. The core never asks what time it is: it is told.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point on a clock that never goes back: nanoseconds since an origin that only this process knows.
///
/// Two nodes' values cannot be compared. Used for timers and for measuring how long something took.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

/// Milliseconds since the Unix epoch by a wall clock, which may be wrong and may go back.
///
/// Used only for what users mean by dates: expiry, `TIME`, idle times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WallTime(pub u64);

/// Both clocks, read once a turn and handed to everything that the turn does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// For timers.
    pub time: Time,
    /// For dates.
    pub wall: WallTime,
}

impl Time {
    /// How long ago `earlier` was; zero if it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Saturates after some 584 years.
    fn add(self, duration: Duration) -> Time {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanoseconds))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    /// Stops at the origin.
    fn sub(self, duration: Duration) -> Time {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_sub(nanoseconds))
    }
}
