//! How many events of a kind are told.

use std::time::Duration;

use base::Time;

/// Events that are told at once.
const AT_ONCE: u64 = 1000;
/// Every so often one more is told. By 300 bytes a record, these are 52 MB a day.
const ONE_PER: Duration = Duration::from_millis(500);

/// Lets [`AT_ONCE`] events pass, and then one per [`ONE_PER`]; counts the others.
#[derive(Debug, Default)]
pub struct Allowance {
    /// Events that were told and count still.
    used: u64,
    /// Up to here time was credited.
    credited: Time,
    left_out: u64,
}

impl Allowance {
    /// True if an event may be told now.
    #[must_use]
    pub fn take(&mut self, now: Time) -> bool {
        self.take_one_per(now, ONE_PER)
    }

    /// The same where one more is told every so often.
    #[must_use]
    pub fn take_one_per(&mut self, now: Time, one_per: Duration) -> bool {
        let credit = now.since(self.credited).as_nanos() / one_per.as_nanos().max(1);
        let credit = u64::try_from(credit).unwrap_or(u64::MAX);
        if credit >= self.used {
            (self.used, self.credited) = (0, now);
        } else {
            self.used -= credit;
            // The rest of the time counts towards the next event.
            self.credited = self.credited + one_per * u32::try_from(credit).unwrap_or(u32::MAX);
        }
        let passes = self.used < AT_ONCE;
        if passes {
            self.used += 1;
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
        passes
    }

    /// How many were left out since the last call, if any were.
    pub fn take_left_out(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.left_out)).filter(|count| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted_and_time_gives_room_again() {
        let at = |ms| Time::default() + Duration::from_millis(ms);
        let mut allowance = Allowance::default();
        let passed = (0..5000).filter(|_| allowance.take(at(7))).count();
        assert_eq!((passed, allowance.take_left_out(), allowance.take_left_out()), (1000, Some(4000), None));
        // A hundred seconds of a flood: two each second.
        let passed = (0..100_000).filter(|ms| allowance.take(at(7 + ms))).count();
        assert!((198..=201).contains(&passed), "{passed}");
        assert_eq!(allowance.take_left_out(), Some(100_000 - passed as u64));
        // After a long rest everything is as in the beginning.
        let passed = (0..5000).filter(|_| allowance.take(at(10_000_000))).count();
        assert_eq!(passed, 1000);
    }
}
