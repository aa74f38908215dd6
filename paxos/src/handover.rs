//! Moving a leadership in order: the leader stops taking proposals, waits until its successor's disk has
//! everything, and tells it to run. Nothing is lost and no timeout is waited for.

use base::limits::CLOSE_ENTRIES;
use base::{Ballot, NodeId, Time};

use crate::door::Output;
use crate::message::Message;
use crate::replica::{Replica, Role};

/// A hand-over under way.
#[derive(Debug)]
pub(crate) struct HandOver {
    to: NodeId,
    told: bool,
    give_up_at: Time,
}

impl Replica {
    /// Begins to hand over to `to`, or to the preferred replica if it is up to date, or to the one that is furthest.
    pub(crate) fn start_hand_over(&mut self, now: Time, to: Option<NodeId>) {
        let (preferred, give_up_at) = (self.config.preferred, now + self.config.candidacy * 2);
        let mut up: Vec<NodeId> = self.peers.iter().filter(|peer| peer.up).map(|peer| peer.id).collect();
        up.retain(|id| self.membership.now.keeps(*id));
        let spared = |id: &NodeId| self.roster.spared.contains(id);
        if spared(&self.config.me) || !up.iter().all(spared) {
            // Among those that are spared it would go round and round.
            up.retain(|id| !spared(id));
        }
        let Role::Leader(leader) = &mut self.role else { return };
        if leader.hand_over.is_some() {
            return;
        }
        let furthest = leader
            .followers
            .iter()
            .filter(|follower| up.contains(&follower.id))
            .max_by_key(|follower| (follower.matched, follower.id == preferred))
            .map(|follower| follower.id);
        if let Some(to) = to.or(furthest) {
            leader.hand_over = Some(HandOver { to, told: false, give_up_at });
        }
    }

    /// Tells the successor to run once it has everything.
    pub(crate) fn flush_hand_over(&mut self, out: &mut Vec<Output>) {
        let (last, ballot) = (self.log.last(), self.promised);
        let Role::Leader(leader) = &mut self.role else { return };
        let Some(hand_over) = &mut leader.hand_over else { return };
        let complete = leader.followers.iter().any(|follower| follower.id == hand_over.to && follower.matched == last);
        if complete && !hand_over.told {
            hand_over.told = true;
            let to = hand_over.to;
            self.probe("paxos: leadership handed over");
            self.send(to, Message::HandOver { ballot }, out);
        }
    }

    /// Gives up when the successor does not take over; gives the leadership back to the preferred replica.
    pub(crate) fn tick_hand_over(&mut self, now: Time) {
        let last = self.log.last();
        let (preferred, settle) = (self.config.preferred, self.config.settle);
        let settled = self.membership.now.keeps(preferred)
            && self.peer(preferred).is_some_and(|peer| peer.up && now.since(peer.since) >= settle);
        let long_enough = self.leading_for(now).is_some_and(|duration| duration >= settle);
        let Role::Leader(leader) = &mut self.role else { return };
        match &leader.hand_over {
            Some(hand_over) if now >= hand_over.give_up_at => {
                leader.hand_over = None;
                self.probe("paxos: hand-over given up");
            }
            Some(_) => {}
            None => {
                // Close behind is enough: the rest is caught up while nothing new is taken.
                let close = leader
                    .followers
                    .iter()
                    .any(|follower| follower.id == preferred && follower.matched.0 + CLOSE_ENTRIES >= last.0);
                if settled && long_enough && close {
                    self.start_hand_over(now, Some(preferred));
                }
            }
        }
    }

    /// Whether a hand-over is under way.
    #[must_use]
    pub fn handing_over(&self) -> bool {
        matches!(&self.role, Role::Leader(leader) if leader.hand_over.is_some())
    }

    /// The leader wants this replica to lead.
    pub(crate) fn on_hand_over(&mut self, now: Time, from: NodeId, ballot: Ballot, out: &mut Vec<Output>) {
        if ballot != self.promised || ballot.node != from || !matches!(self.role, Role::Follower) {
            return;
        }
        let ballot = Ballot { round: ballot.round.saturating_add(1), node: self.config.me };
        self.start_phase_one(now, ballot, out);
    }
}
