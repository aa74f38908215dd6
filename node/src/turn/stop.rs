//! A stop in order: leadership is handed over, what was taken is answered, and then connections are closed.

use paxos::Input as Step;
use std::time::Duration;

use crate::backlog::Backlog;
use crate::door::ConnectionId;
use crate::node::{Node, Stopping};

/// How long a stopping node tries to hand over, and then to answer what it has taken.
const STOP_STEP_MAX: Duration = Duration::from_secs(2);

impl Node {
    pub(crate) fn stop(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(Stopping::HandingOver { until: self.now.time + STOP_STEP_MAX });
            self.hand_over();
        }
    }

    /// Every group that this node leads is to be led by another.
    fn hand_over(&mut self) {
        for g in 0..self.groups.len() {
            let replica = &self.groups[g].partition.replica;
            if replica.leads().is_some() && !replica.handing_over() {
                self.step_replica(g, Step::HandOver);
            }
        }
    }

    /// Closes the connections on which nothing is on its way, and the others once that is answered. What a client asks after this is not done and not
    /// answered, as at a Redis that shuts down: a library that loses its connection opens another one and asks again, by itself, while an error,
    /// whatever it says, is for the program that uses it.
    fn let_clients_go(&mut self) {
        for session in self.sessions.values_mut().flatten().filter(|session| !session.is_inside) {
            session.closing = true;
            session.backlog = Backlog::default();
            if !session.dirty {
                session.dirty = true;
                self.dirty.push(session.id);
            }
        }
    }

    pub(super) fn consider_stop(&mut self) {
        let time = self.now.time;
        if self.stopping.is_none() {
            return;
        }
        let leads = self.groups.iter().any(|group| group.partition.replica.leads().is_some());
        let alone = !self.detectors.iter().any(|detector| detector.is_up(time));
        match self.stopping {
            Some(Stopping::HandingOver { until }) => {
                if leads && !alone {
                    self.hand_over();
                }
                if !leads || alone || time >= until {
                    self.stopping = Some(Stopping::Draining { until: time + STOP_STEP_MAX });
                    self.let_clients_go();
                }
            }
            Some(Stopping::Draining { until }) => {
                let pending = self.sessions.values().flatten().any(|session| session.pending() > 0);
                if !pending || time >= until {
                    self.probe("node: stopped in order");
                    self.stopping = Some(Stopping::Stopped);
                    let open: Vec<ConnectionId> = self.sessions.keys().copied().collect();
                    self.to_close.extend(open);
                }
            }
            Some(Stopping::Stopped) | None => {}
        }
    }
}
