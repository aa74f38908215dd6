//! How busy a thread is, and whether it gets the processor that it asks for.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// One thread's stretch of time. It must be used in the thread that it measures.
pub(super) struct Share {
    from: Instant,
    idle: Duration,
    spun: Duration,
    processor: Duration,
    waited: Duration,
}

impl Share {
    pub(super) fn new() -> Share {
        Share {
            from: Instant::now(),
            idle: Duration::ZERO,
            spun: Duration::ZERO,
            processor: processor_time(),
            waited: time_waited(),
        }
    }

    /// Begins a new stretch.
    pub(super) fn restart(&mut self) {
        *self = Share::new();
    }

    /// The thread has waited for something to happen; `awake`: on the processor, because something is due so soon.
    pub(super) fn idle(&mut self, time: Duration, awake: bool) {
        self.idle += time;
        if awake {
            self.spun += time;
        }
    }

    /// The share of the stretch in which there was work, and that in which the thread could have run and did not; begins the
    /// next. There was work whenever it did not wait, and whenever it used a processor, if only to go to sleep and be woken;
    /// not while it waited awake.
    pub(super) fn take(&mut self) -> (f64, f64) {
        let next = Share::new();
        let length = next.from.duration_since(self.from).as_secs_f64().max(1e-9);
        let awake = 1.0 - self.idle.as_secs_f64() / length;
        let used = next.processor.saturating_sub(self.processor).saturating_sub(self.spun);
        let processor = used.as_secs_f64() / length;
        let waited = next.waited.saturating_sub(self.waited).as_secs_f64() / length;
        *self = next;
        (awake.max(processor).clamp(0.0, 1.0), waited.clamp(0.0, 1.0))
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Time on the run queue: the second number of `schedstat` (Linux, Documentation/scheduler/sched-stats.rst). Zero where there is
/// no such file.
fn time_waited() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    Duration::from_nanos(nanoseconds)
}
