//! Replicas that this node needs no more: it gives up the log and the state of a partition in which it shall have no vote, once it certainly has none.
//!
//! A node has a copy of those partitions alone in which it has a seat, and of the council. Of all others it keeps a replica without a log, which costs nothing
//! while it is idle, and by which it may come back; the commands of its clients are carried away ([`crate::elsewhere`]). [Why so, and why nothing is lost by
//! it](../../../docs/decisions/2026-11-25-elsewhere.md).

use std::time::Duration;

use base::{Ballot, NodeId, Position};
use paxos::RoleName;

use super::{Node, news_of};
use crate::bucket::BucketKind;
use crate::council::COUNCIL;
use crate::door::Planted;

/// How often a node looks whether there is a replica that it needs no more.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Node {
    /// Gives up what this node has of partitions in which it shall have no vote, as far as that is safe now.
    pub(crate) fn leave_partitions(&mut self) {
        let time = self.now.time;
        if time < self.next_leaving {
            return;
        }
        self.next_leaving = time + LOOK_EVERY;
        for g in 0..self.groups.len() {
            if self.has_seat(g) {
                if self.groups[g].unseated.is_some() {
                    self.groups[g].unseated = None;
                }
                continue;
            }
            if self.groups[g].unseated.is_none() {
                self.groups[g].unseated = Some(self.council_followed);
            }
            if let Some((at, voters)) = self.is_needless(g) {
                self.leave_partition(g, (at, &voters));
            }
        }
    }

    /// Whether this node shall have a copy of a partition.
    fn has_seat(&self, g: usize) -> bool {
        let group = &self.groups[g];
        let is_listed = self.buckets.of(group.id().bucket).is_some();
        let lasts = group.bucket.settings.kind != BucketKind::Ephemeral;
        // The memories of an ephemeral bucket are counted by the council; and of a bucket that is not known (yet, or any more) nothing is.
        group.id() == COUNCIL || !lasts || !is_listed || self.seats_of(group.id()).contains(&self.config.me)
    }

    /// Who votes in a partition and by which entry, if this node's replica of it can begin anew: it holds something, is busy with nothing, and has no vote any
    /// more.
    fn is_needless(&self, g: usize) -> Option<(Position, Vec<NodeId>)> {
        let group = &self.groups[g];
        let (id, me, partition) = (group.id(), self.config.me, &group.partition);
        let replica = &partition.replica;
        // One that has lost its memory would look for it in vain, where nobody sends it anything.
        let is_new = replica.hard_state().joins && replica.role() != RoleName::Recovering;
        let holds = partition.applied > Position(0) || replica.log().last() > Position(0) || !is_new;
        let is_busy = partition.has_flush() || group.saving.is_some() || !group.transfers.is_idle();
        if !holds || is_busy || replica.leads().is_some() || self.has_mixed_lane(g) {
            return None;
        }
        let (ballot, voters, at) = self.newest_voters(id)?;
        if self.config.planted == Some(Planted::LeavesTooSoon) {
            return Some((at, voters));
        }
        let named_at = replica.membership().now.at;
        // The group in which it has no vote came behind everything that its own log says of votes; or its log says what was never decided.
        let is_later = at >= named_at || replica.log().ballot_at(named_at).is_some_and(|of_entry| of_entry < ballot);
        let is_out = self.does_without(id, me, group.unseated?);
        (is_later && is_out).then_some((at, voters))
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

    /// Who votes in a partition, by the word of its newest leader, and where the entry stands that says so.
    pub(crate) fn newest_voters(&self, id: base::PartitionId) -> Option<(Ballot, Vec<NodeId>, Position)> {
        let own = self.groups.place_of(id).and_then(|g| {
            let group = &self.groups[g];
            let (voters, at) = group.settled_voters();
            Some((group.partition.replica.leads()?, voters, at))
        });
        let told = self.news.iter().filter(|(peer, _)| self.is_up(**peer)).filter_map(|(_, ping)| {
            let news = news_of(ping, id)?;
            Some((news.leads?, news.voters.clone(), news.voters_at))
        });
        own.into_iter().chain(told).max_by_key(|(ballot, _, _)| *ballot)
    }

    /// Whether a node has something of a partition, by its own word.
    pub(super) fn holds(&self, node: NodeId, id: base::PartitionId) -> bool {
        self.news.get(&node).and_then(|ping| news_of(ping, id)).is_some_and(|news| news.applied > Position(0))
    }

    /// Whether a replica of this node is to hear nothing: it has nothing, and shall have nothing.
    pub(super) fn is_deaf(&self, g: usize) -> bool {
        let group = &self.groups[g];
        group.unseated.is_some() && group.is_bare()
    }

    /// A node has said something new of a partition that this one leads, perhaps: it learns until it has given up what it had.
    pub(super) fn hear_of_holder(&mut self, g: usize, node: NodeId) {
        let group = &self.groups[g];
        let Some(roster) = group.roster.as_ref().filter(|_| group.partition.replica.leads().is_some()) else { return };
        if roster.learners.contains(&node) != self.holds(node, group.id()) {
            self.tell_roster(g);
        }
    }

    fn leave_partition(&mut self, g: usize, without: (Position, &[NodeId])) {
        self.probe("node: a replica given up");
        self.go_elsewhere(g);
        let (time, below) = (self.now.time, self.below.clone());
        let group = &mut self.groups[g];
        group.queries.clear();
        group.taken.clear();
        group.partition.begin_anew(time, without, below.as_ref(), &mut self.batch, &mut group.wishes);
    }
}
