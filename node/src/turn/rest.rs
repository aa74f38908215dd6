//! When a node wants its next turn, if nothing comes to it before.
//!
//! A node in which something goes on looks at its timers every [`TICK_EVERY`]. One in which all groups sleep and nobody waits has nothing to look at until its next
//! ping, the first alarm of a group, or the moment at which a peer has been silent for too long; so it sleeps, too.

use base::Time;

use crate::node::{Node, TICK_EVERY};

impl Node {
    /// Plans the next look at the timers. When the owner is to step the node.
    pub(super) fn plan(&mut self) -> Time {
        if !self.resume.is_empty() || !self.apply_later.is_empty() || self.subscriptions.goes_on() {
            return self.now.time;
        }
        let soon = self.now.time + TICK_EVERY;
        self.next_tick = match self.rests_until() {
            Some(until) => until,
            None => self.next_tick.min(soon),
        };
        self.next_tick
    }

    /// Until when nothing has to be looked at; none while anything goes on.
    fn rests_until(&self) -> Option<Time> {
        let nobody_waits = self.waits.is_empty()
            && self.waiting.is_empty()
            && !self.pausing.is_on()
            && self.large_writes.is_empty()
            && !self.access.lease.has_changes()
            && !self.backups.has_waiting()
            && self.subscriptions.is_empty()
            && self.subscriptions.is_followed_by_nobody();
        if !self.groups.are_asleep() || !nobody_waits || self.stopping.is_some() || self.step_over.is_active() {
            return None;
        }
        let mut until =
            [self.strangers_until(), self.guesses_until()].into_iter().flatten().fold(self.next_ping, Time::min);
        for detector in &self.detectors {
            let is_trusted = self.trusted.get(usize::from(detector.peer.0)).is_some_and(|trusted| *trusted);
            // What it thinks by now is not known to the groups yet.
            if detector.is_up(self.now.time) != is_trusted {
                return None;
            }
            until = until.min(detector.suspects_at().filter(|_| is_trusted).unwrap_or(until));
        }
        Some(self.groups.first_alarm().map_or(until, |alarm| until.min(alarm)))
    }
}
