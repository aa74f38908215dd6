//! The two clocks of the process, read once a turn.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use base::{Now, Time, WallTime};

/// Reads the time. Its origin is when it was made, less a second, so that no time is 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        let elapsed = self.origin.elapsed().as_nanos();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Now {
            time: Time(u64::try_from(elapsed).unwrap_or(u64::MAX).saturating_add(1_000_000_000)),
            wall: WallTime(u64::try_from(wall).unwrap_or(u64::MAX)),
        }
    }
}
