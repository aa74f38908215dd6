//! How long the loop has had the processor: the node must tell a loop that has much to do from one that gets no processor ([`node::Input::Worked`]).

use std::time::Duration;

use base::limits::{WORK_TOLD_EVERY, WORK_TOLD_FROM};
use base::{Now, Time};
use node::Input;
use rustix::time::{ClockId, clock_gettime};

use super::EventLoop;

/// Processor time that the thread of the loop has used so far, and when this was looked at.
#[derive(Debug, Default)]
pub(super) struct Work {
    told: Time,
    used: Duration,
}

/// Processor time of the calling thread, in user mode and in the kernel.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The kernel counts from zero on; no figure of it is negative.
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

impl Work {
    /// Processor time that the thread has used since the last look, at most every [`WORK_TOLD_EVERY`]: a system call is too much for every turn.
    fn since_last(&mut self, now: Time) -> Option<(Time, Duration)> {
        let passed = now.since(self.told);
        if passed < WORK_TOLD_EVERY {
            return None;
        }
        let (from, before) = (self.told, self.used);
        (self.told, self.used) = (now, used());
        let processor = self.used.saturating_sub(before).min(passed);
        // Before the first look it was another thread that worked, or none.
        (from != Time::default() && processor >= WORK_TOLD_FROM).then_some((from, processor))
    }
}

impl EventLoop {
    /// Before anything else of a turn: how long the turns before had the processor.
    pub(super) fn tell_work(&mut self, now: Now) {
        if let Some((from, processor)) = self.work.since_last(now.time) {
            self.node.step(now, Input::Worked { from, until: now.time, processor }, &mut self.outbox);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_told_and_sleep_is_not() {
        let clock = crate::clock::Clock::new();
        let mut work = Work::default();
        assert_eq!(work.since_last(clock.now().time), None, "nothing is known of what was before");
        std::thread::park_timeout(WORK_TOLD_EVERY * 4);
        let before = clock.now().time;
        assert_eq!(work.since_last(before), None, "it slept");
        let mut counted = 0_u64;
        while used() < work.used + WORK_TOLD_EVERY {
            counted = std::hint::black_box(counted + 1);
        }
        let (from, processor) = work.since_last(clock.now().time).expect("it worked");
        assert_eq!(from, before);
        assert!(processor >= WORK_TOLD_EVERY, "{processor:?} of {counted}");
    }
}
