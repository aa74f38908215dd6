//! What the loop tells systemd, or the process that has started it as a worker, at the end of its turns (`systemd.rs` has the table).
//!
//! A sign of life comes from nowhere else. A step of the node, or a wait for the disk, that takes long gives none, though it is honest work: so signs are given several times
//! in the time that is waited for one, and `WatchdogSec` of the unit file is several times what peers bear with ([`base::limits::BUSY_MAX`]).

use std::sync::Arc;
use std::time::Duration;

use base::{Now, Time};
use node::Node;

use super::EventLoop;
use crate::systemd::{Notifier, status_line};

/// A node that has looked for a leader for so long counts as started. The others may be down, or started only after this one: a start that waits for them would be called a
/// failed one, and ended and begun again for ever; and who starts node after node, waiting for each, would never come to the second one.
const LOOKS_FOR_LEADER: Duration = Duration::from_secs(10);
/// Between two looks whether there is something else to tell people.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What was told, and when there is more to tell.
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

    /// At the end of a turn.
    fn give(&mut self, now: Time, node: &Node) {
        if !self.notifier.is_heard() {
            return;
        }
        if let Some(every) = self.notifier.signs_every().filter(|_| self.sign_at <= now) {
            self.notifier.tell("WATCHDOG=1\n");
            self.sign_at = now + every;
        }
        let began = *self.began.get_or_insert(now);
        let becomes_ready =
            !self.is_ready && !self.is_stopping && (now.since(began) >= LOOKS_FOR_LEADER || node.serves());
        if self.look_at > now && !becomes_ready {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        let status = node.status_line();
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
    /// At the end of a turn: tells whoever watches this process how it is.
    pub(super) fn give_vital_signs(&mut self, now: Now) {
        self.vital_signs.give(now.time, &self.node);
    }
}
