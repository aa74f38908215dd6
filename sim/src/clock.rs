//! A node's clocks: what it believes, given the true time of the simulation.

use base::{Now, Time, WallTime};

/// The wall clock's reading when the simulation begins, in milliseconds since the epoch. Any later than that of
/// every real build would do.
const EPOCH_MS: i128 = 1_790_000_000_000;
const MILLION: u128 = 1_000_000;

/// The clocks of one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    /// True time at which the process started, in nanoseconds.
    started: u64,
    /// What its clock for timers showed then: the origin is arbitrary.
    origin: u64,
    /// Millionths of a second per true second.
    rate: u64,
    /// Error of the wall clock, in nanoseconds.
    offset: i64,
    /// True time since which the wall clock stands still.
    stopped: Option<u64>,
}

impl Clock {
    /// The clocks of a process that starts at `started`.
    #[must_use]
    pub fn new(started: u64, origin: u64, rate: u64, offset: i64) -> Clock {
        Clock { started, origin, rate: rate.max(1), offset, stopped: None }
    }

    /// Sets the wall clock to another error, and has it stand still since `stopped`.
    pub fn set(&mut self, offset: i64, stopped: Option<u64>) {
        (self.offset, self.stopped) = (offset, stopped);
    }

    /// What a wall clock without an error shows at the true time `at`.
    #[must_use]
    pub fn true_wall(at: u64) -> WallTime {
        WallTime(u64::try_from(EPOCH_MS).unwrap_or(0) + at / MILLION as u64)
    }

    /// What the process sees at the true time `at`.
    #[must_use]
    pub fn now(&self, at: u64) -> Now {
        let passed = u128::from(at.saturating_sub(self.started)) * u128::from(self.rate) / MILLION;
        let shown = self.stopped.map_or(at, |since| at.min(since));
        let wall = EPOCH_MS + (i128::from(shown) + i128::from(self.offset)) / MILLION as i128;
        Now { time: Time(self.origin + passed as u64), wall: WallTime(u64::try_from(wall).unwrap_or(0)) }
    }

    /// The true time at which the process's timer for `time` is due.
    #[must_use]
    pub fn when(&self, time: Time) -> u64 {
        let wanted = u128::from(time.0.saturating_sub(self.origin));
        let passed = (wanted * MILLION).div_ceil(u128::from(self.rate));
        self.started.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_due_when_their_time_has_come() {
        for rate in [900_000, 999_999, 1_000_000, 1_000_001, 1_100_000] {
            let clock = Clock::new(1_000, 555, rate, -7_000_000);
            for at in [1_000, 1_001, 5_000_000_123] {
                let time = clock.now(at).time;
                let due = clock.when(time);
                assert!(due <= at && clock.now(due).time >= time, "rate {rate}, at {at}, due {due}");
            }
        }
    }

    #[test]
    fn the_wall_clock_is_wrong_by_its_offset() {
        let (right, wrong) = (Clock::new(0, 0, 1_000_000, 0), Clock::new(0, 0, 1_000_000, 3_000_000_000));
        assert_eq!(wrong.now(5).wall.0 - right.now(5).wall.0, 3_000);
    }
}
