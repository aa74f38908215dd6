//! Reports of the loop to systemd, or to the process that has started it as a worker, at the end of its turns (`systemd.rs` has the table).
//!
//! A sign of life comes from nowhere else. A step of the node, or a wait for the disk, that takes long gives none, though it is honest work: so signs are given several times
//! in the time that is waited for one, and `WatchdogSec` of the unit file is several times what peers bear with ([`base::limits::BUSY_MAX`]).

use std::sync::Arc;
use std::time::Duration;

use base::{Now, Time};

use super::EventLoop;
use crate::systemd::{Notifier, status_line};

/// A node that has looked for a leader for so long counts as started. The others may be down, or started only after this one: a start that waits for them would be called a
/// failed one, and ended and begun again for ever; and who starts node after node, waiting for each, would never come to the second one.
const LOOKS_FOR_LEADER: Duration = Duration::from_secs(10);
/// Between two looks whether there is something else to tell people.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The last report, and when the next one is due.
#[derive(Debug)]
pub(super) struct VitalSigns {
    notifier: Arc<Notifier>,
    began: Option<Time>,
    is_ready: bool,
    is_stopping: bool,
    status: String,
    sign_at: Time,
    look_at: Time,
}

impl VitalSigns {
    pub(super) fn new(notifier: Arc<Notifier>) -> VitalSigns {
        VitalSigns {
            notifier,
            began: None,
            is_ready: false,
            is_stopping: false,
            status: String::new(),
            sign_at: Time::default(),
            look_at: Time::default(),
        }
    }

    /// When the loop has to be awake for them.
    pub(super) fn wake_at(&self) -> Option<Time> {
        if !self.notifier.is_heard() {
            return None;
        }
        // Before there is a leader the turn that finds one comes by itself.
        let sign_at = self.notifier.signs_every().map(|_| self.sign_at);
        Some(sign_at.map_or(self.look_at, |sign_at| sign_at.min(self.look_at)))
    }

    /// At the end of a turn of a loop whose node serves or not, and is this in one line.
    fn give(&mut self, now: Time, serves: impl FnOnce() -> bool, line: impl FnOnce() -> String) {
        if !self.notifier.is_heard() {
            return;
        }
        if let Some(every) = self.notifier.signs_every().filter(|_| self.sign_at <= now) {
            self.notifier.tell("WATCHDOG=1\n");
            self.sign_at = now + every;
        }
        let began = *self.began.get_or_insert(now);
        let becomes_ready = !self.is_ready && !self.is_stopping && (now.since(began) >= LOOKS_FOR_LEADER || serves());
        if self.look_at > now && !becomes_ready {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        let status = line();
        let ready = if becomes_ready { "READY=1\n" } else { "" };
        if (becomes_ready || (status != self.status && !self.is_stopping))
            && self.notifier.tell(&format!("{ready}{}", status_line(&status)))
        {
            self.is_ready |= becomes_ready;
            self.status = status;
        }
    }

    /// The node is to stop.
    pub(super) fn stop(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            self.notifier.tell(&format!("STOPPING=1\n{}", status_line(why)));
        }
    }
}

impl EventLoop {
    /// At the end of a turn: tells the watcher of this process how it is.
    pub(super) fn give_vital_signs(&mut self, now: Now) {
        let node = &self.node;
        self.vital_signs.give(now.time, || node.serves(), || node.status_line());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systemd::{Report, Reports};

    const WATCHDOG: Duration = Duration::from_secs(8);

    struct Loop {
        signs: VitalSigns,
        reports: Reports,
        serves: bool,
        line: &'static str,
    }

    impl Loop {
        fn new() -> Loop {
            let reports = Reports::open(&[]).expect("a pair of sockets");
            let signs = VitalSigns::new(Arc::new(reports.notifier(7, Some(WATCHDOG))));
            Loop { signs, reports, serves: false, line: "knows no leader" }
        }

        /// A turn so many milliseconds after the start; what was told.
        fn turn(&mut self, ms: u64) -> Vec<Report> {
            let (serves, line) = (self.serves, self.line);
            self.signs.give(at(ms), || serves, || line.to_owned());
            self.told()
        }

        fn told(&self) -> Vec<Report> {
            self.reports.wait(Some(Duration::ZERO)).expect("it can be read")
        }
    }

    fn at(ms: u64) -> Time {
        Time(1_000_000_000) + Duration::from_millis(ms)
    }

    fn sign() -> Report {
        Report { worker: 7, lives: true, ..Report::default() }
    }

    fn status(line: &str, is_ready: bool) -> Report {
        Report { worker: 7, is_ready, status: Some(line.to_owned()), ..Report::default() }
    }

    #[test]
    fn signs_of_life_come_from_turns_and_from_nothing_else() {
        let mut turning = Loop::new();
        turning.serves = true;
        assert_eq!(turning.turn(0), [sign(), status("knows no leader", true)]);
        assert_eq!(turning.turn(999), []);
        assert_eq!(turning.turn(1000), [sign()]);
        assert_eq!(turning.signs.wake_at(), Some(at(2000)), "an idle loop gives the next one, too");
        // A turn that takes long, or for ever.
        assert_eq!(turning.told(), []);
        assert_eq!(turning.turn(9000), [sign()]);
        assert_eq!(turning.turn(9001), []);
    }

    #[test]
    fn ready_is_who_serves_or_has_looked_for_a_leader_for_a_while() {
        let mut turning = Loop::new();
        assert_eq!(turning.turn(0)[1..], [status("knows no leader", false)]);
        (turning.serves, turning.line) = (true, "leader");
        assert_eq!(turning.turn(3), [status("leader", true)], "at once");
        (turning.serves, turning.line) = (false, "cannot reach n2");
        assert_eq!(turning.turn(500), [], "people are told once a second");
        assert_eq!(turning.turn(1003), [sign(), status("cannot reach n2", false)]);

        let mut turning = Loop::new();
        turning.turn(0);
        assert!(turning.turn(9_999).iter().all(|report| !report.is_ready));
        assert_eq!(turning.turn(10_000), [status("knows no leader", true)]);
    }

    #[test]
    fn what_could_not_be_told_is_told_later() {
        let mut turning = Loop::new();
        let other = turning.reports.notifier(1, None);
        while other.tell("WATCHDOG=1\n") {}
        (turning.serves, turning.line) = (true, "leader");
        assert!(turning.turn(0).iter().all(|report| report.worker == 1), "nobody listens yet");
        assert_eq!(turning.turn(1), [status("leader", true)]);
    }

    #[test]
    fn a_node_that_stops_is_not_ready_any_more() {
        let mut turning = Loop::new();
        turning.turn(0);
        turning.signs.stop("stopping: hands over");
        turning.signs.stop("stopping");
        assert_eq!(turning.told(), [status("stopping: hands over", false)]);
        (turning.serves, turning.line) = (true, "leader");
        assert_eq!(turning.turn(20_000), [sign()]);
    }

    #[test]
    fn a_loop_that_nobody_watches_sleeps_as_before() {
        let mut signs = VitalSigns::new(Arc::default());
        signs.give(at(0), || unreachable!("nobody asks"), || unreachable!("nobody asks"));
        assert_eq!(signs.wake_at(), None);
    }
}
