//! Waking a thread that waits in `epoll`, which counts in milliseconds, to the microsecond: a timer of the system as one more
//! thing to wait for.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

/// One timer.
pub(super) struct Alarm {
    timer: OwnedFd,
}

impl Alarm {
    /// A timer that is not set, registered under `token`.
    pub(super) fn new(registry: &Registry, token: Token) -> Result<Alarm, String> {
        let timer =
            rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
                .map_err(|error| format!("the system gives no timer: {error}"))?;
        registry
            .register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)
            .map_err(|error| format!("the timer cannot be waited for: {error}"))?;
        Ok(Alarm { timer })
    }

    /// Rings once after `delay`, instead of at any time that was set before.
    pub(super) fn set(&mut self, delay: Duration) -> Result<(), String> {
        let value = Timespec { tv_sec: delay.as_secs() as i64, tv_nsec: i64::from(delay.subsec_nanos().max(1)) };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::time::timerfd_settime(
            &self.timer,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: zero, it_value: value },
        )
        .map(|_| ())
        .map_err(|error| format!("the timer cannot be set: {error}"))
    }

    /// Takes note of a ring, so that the next one is told.
    pub(super) fn heard(&mut self) {
        let mut count = [0u8; 8];
        // Nothing to read only means that it was set anew in between.
        let _ = rustix::io::read(&self.timer, &mut count);
    }
}
