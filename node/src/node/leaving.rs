//! Replicas that this node needs no more: it gives up the log and the state of a partition in which it shall have no vote, once it certainly has none.
//!
//! A node has a copy of those partitions alone in which it has a seat, and of the council. Of all others it keeps a replica without a log, which costs nothing
//! while it is idle, and by which it may come back; the commands of its clients are carried away ([`crate::elsewhere`]). [Why so, and why nothing is lost by
//! it](../../../docs/decisions/2026-11-25-elsewhere.md).

use std::time::Duration;

use base::{NodeId, PartitionId, Position};
use paxos::{Input as Step, RoleName};

use super::{Node, news_of, role_number};
use crate::bucket::BucketKind;
use crate::door::{Planted, Rubbish};
use crate::peer::PartitionNews;
use crate::subscriptions;

/// How often a node looks whether there is a replica that it needs no more.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// At so many of them at a time: a node of thousands gets round to each within seconds.
const LOOKS_MAX: usize = 128;

impl Node {
    /// Gives up what this node has of partitions in which it shall have no vote, as far as that is safe now.
    pub(crate) fn leave_partitions(&mut self) {
        if self.now.time < self.next_leaving {
            return;
        }
        self.next_leaving = self.now.time + LOOK_EVERY;
        let groups = self.groups.len();
        for g in (0..groups).cycle().skip(self.looked_last.min(groups)).take(groups.min(LOOKS_MAX)) {
            self.looked_last = g + 1;
            let leads = self.groups[g].partition.replica.leads();
            if self.groups[g].looked_under != leads {
                // As a new leader: whoever has something has said so to all, and perhaps long ago.
                self.groups[g].looked_under = leads;
                self.tell_roster(g);
            }
            let is_seated = self.has_seat(g);
            if self.groups[g].is_unseated == is_seated {
                self.groups[g].is_unseated = !is_seated;
            }
            if !is_seated {
                self.leave_partition(g);
            }
        }
    }

    /// Whether this node shall have a copy of a partition.
    fn has_seat(&self, g: usize) -> bool {
        let group = &self.groups[g];
        let me = self.config.me;
        match self.buckets.of(group.id().bucket) {
            // The council; or nothing is known of it (yet, or any more).
            None => true,
            Some(bucket) if bucket.settings.kind == BucketKind::Ephemeral => bucket.is_remembered_by(me),
            Some(_) => self.seats_of(group.id()).contains(&me),
        }
    }

    /// Takes a step to giving a partition up: its clients' commands are carried away, and the leader is asked.
    fn leave_partition(&mut self, g: usize) {
        let group = &self.groups[g];
        let partition = &group.partition;
        let is_busy = partition.has_flush() || group.saving.is_some() || !group.transfers.is_idle();
        if group.partition.is_new() || is_busy || partition.replica.leads().is_some() || self.has_mixed_lane(g) {
            return;
        }
        let votes = partition.replica.members().names(self.config.me) && !self.is_out(g);
        if !votes || self.config.planted == Some(Planted::LeavesTooSoon) {
            self.go_elsewhere(g);
            self.step_replica(g, Step::Leave);
        }
    }

    /// The leader has agreed, and the replica has begun anew: the state goes.
    pub(crate) fn settle_left(&mut self, g: usize) {
        if !self.groups[g].wishes.left {
            return;
        }
        self.probe("node: a replica given up");
        self.go_elsewhere(g);
        // It may have gone elsewhere before, and somebody may have subscribed since.
        subscriptions::glue::gone_elsewhere(self, g);
        let time = self.now.time;
        let group = &mut self.groups[g];
        group.wishes.left = false;
        group.queries.clear();
        group.taken.clear();
        group.transfers.drop_overtaken(Position(u64::MAX));
        let mut given_up = group.transfers.take_given_up();
        // Whatever is on its way to the disk gets there, and goes with the rest.
        if let Some(state) = group.saving.take().and_then(|saving| saving.install) {
            given_up.extend(state.tree.spaces());
            group.wishes.rubbish.push(Rubbish::new(state));
        }
        group.partition.begin_anew(time, self.next_number, given_up, &mut group.wishes);
        group.partition.name_founders(&group.bucket.founders);
        let id = group.id();
        self.forget_comparison(id);
    }

    /// Whether the leader of a partition says that this node has no vote in it: its own log need not have come so far.
    fn is_out(&self, g: usize) -> bool {
        let id = self.groups[g].id();
        let said = self.leader_of(g).and_then(|(leader, _)| news_of(self.news.get(&leader)?, id));
        said.is_some_and(|news| !news.voters.is_empty() && !news.voters.contains(&self.config.me))
    }

    /// A connection has reads and writes on their way to the partition, which only this node's own state keeps in order.
    fn has_mixed_lane(&self, g: usize) -> bool {
        let group = &self.groups[g];
        let id = group.id();
        if group.elsewhere.is_some() || group.router.is_idle() {
            return false;
        }
        let lanes = self.sessions.values().flatten().filter_map(|session| session.lane(id));
        lanes
            .into_iter()
            .any(|lane| lane.looks > 0 || (!lane.reads.is_empty() && group.router.waits_for(lane.last_write)))
    }

    /// Whether a node has something of a partition, or has had, by its own word.
    pub(crate) fn holds(&self, node: NodeId, id: PartitionId) -> bool {
        if node == self.config.me {
            return self.groups.place_of(id).is_some_and(|g| !self.groups[g].is_bare());
        }
        let news = self.news.get(&node).and_then(|ping| news_of(ping, id));
        // Whoever has a log, has lost one, or would lead, is not one that has never had a vote.
        let is_new = |news: &PartitionNews| {
            let is_empty = news.applied == Position(0) && news.persisted == Position(0);
            is_empty && news.role == role_number(RoleName::Follower)
        };
        news.is_some_and(|news| !is_new(news))
    }

    /// Whether a replica of this node is to hear nothing: it has nothing, and shall have nothing.
    pub(super) fn is_deaf(&self, g: usize) -> bool {
        let group = &self.groups[g];
        group.is_unseated && group.partition.is_new()
    }

    /// A node has said something new of a partition that this one leads, perhaps: it learns until it has given up what it had.
    pub(super) fn hear_of_holder(&mut self, g: usize, node: NodeId) {
        let group = &self.groups[g];
        let Some(roster) = group.roster.as_ref().filter(|_| group.partition.replica.leads().is_some()) else { return };
        if roster.learners.contains(&node) != self.holds(node, group.id()) {
            self.tell_roster(g);
        }
    }
}
