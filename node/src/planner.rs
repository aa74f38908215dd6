//! What whoever leads the council does for all: it makes the map ([`crate::placement`]), takes nodes for absent that have been gone for long, and removes
//! those that are to leave once nothing needs them any more.
//!
//! All of it are orders to the council like any other, made from what the council's state says and from what this node sees. Two leaders that think
//! differently do no harm: a map says which one it follows, and everything else may be said twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::limits::{COUNCIL_VOTERS_MAX, VOTERS_MAX};
use base::{Ballot, NodeId, PartitionId, Position, Time};
use bytes::Bytes;

use crate::bucket::BucketKind;
use crate::council::{COUNCIL, Order};
use crate::entry::Kind;
use crate::node::{Node, news_of, place_of};
use crate::placement::{Nodes, Seats, plan};
use crate::registry::{Change, Map, seats_of_founders};
use crate::router::Waiter;

/// How often the leader of the council looks whether there is something to do.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// An order that has not been applied after this time is thought of anew.
pub(crate) const ORDER_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// What only the council's leader needs to remember.
#[derive(Debug, Default)]
pub(crate) struct Leads {
    /// Since when nodes have not been heard.
    gone_since: BTreeMap<NodeId, Time>,
    /// The last order: under which state of the council it was given, and when.
    ordered: Option<(Position, Time)>,
    next_look: Time,
    /// The state for which the map needed no change.
    fits: Option<(Position, Vec<NodeId>)>,
}

impl Node {
    /// Looks whether the council should be told something, if this node leads it.
    pub(crate) fn lead_council(&mut self) {
        let time = self.now.time;
        let Some(g) = place_of(&self.groups, COUNCIL) else { return };
        let partition = &self.groups[g].partition;
        let replica = &partition.replica;
        let is_current = replica.opening().is_some_and(|opening| opening <= partition.applied)
            && partition.applied == replica.decided()
            && partition.applied == self.council_followed;
        if !is_current {
            if replica.leads().is_none() {
                self.council_leads = Leads::default();
            }
            return;
        }
        if time < self.council_leads.next_look {
            return;
        }
        self.council_leads.next_look = time + LOOK_EVERY;
        self.watch_absence();
        let applied = self.council_followed;
        let waits = |(at, given): (Position, Time)| at == applied && time.since(given) < ORDER_AGAIN_AFTER;
        if self.council_leads.ordered.is_some_and(waits) {
            return;
        }
        let change =
            self.naming().or_else(|| self.absence()).or_else(|| self.removal()).or_else(|| self.next_map(applied));
        let Some(change) = change else { return };
        self.probe(match change {
            Change::Absent { absent: true, .. } => "node: a node counts as absent",
            Change::Absent { .. } => "node: an absent node is back",
            Change::Map(_) => "node: a new map",
            Change::Name(_) => "node: the cluster named",
            _ => "node: nothing needs a leaving node any more",
        });
        self.council_leads.ordered = Some((applied, time));
        let deadline = time + self.config.request_timeout;
        let order = Bytes::from(Order::Nodes(change).encode());
        self.groups[g].router.write(Kind::Council, order, Waiter::Nobody, time, deadline);
    }

    fn watch_absence(&mut self) {
        let time = self.now.time;
        let up: BTreeSet<NodeId> = self.roll.ids().filter(|id| self.is_up(*id)).collect();
        let gone_since = &mut self.council_leads.gone_since;
        gone_since.retain(|id, _| !up.contains(id) && self.roll.get(*id).is_some());
        for id in self.roll.ids().filter(|id| !up.contains(id)) {
            gone_since.entry(id).or_insert(time);
        }
    }

    /// A cluster that is new gets a name that no other has.
    fn naming(&mut self) -> Option<Change> {
        (self.registry.cluster == 0).then(|| Change::Name(self.rng.next_u64().max(1)))
    }

    /// Whether somebody has been gone for long, or is back.
    fn absence(&self) -> Option<Change> {
        let (absent, time) = (&self.registry.absent, self.now.time);
        if let Some(back) = absent.iter().find(|id| self.is_up(**id)) {
            return Some(Change::Absent { node: *back, absent: false });
        }
        let after = self.registry.replace_after?;
        let gone = |(id, since): &(&NodeId, &Time)| time.since(**since) >= after && !absent.contains(id);
        let (node, _) = self.council_leads.gone_since.iter().find(gone)?;
        Some(Change::Absent { node: *node, absent: true })
    }

    /// Whether somebody that is to leave votes nowhere any more, and leads nothing.
    fn removal(&self) -> Option<Change> {
        let of_no_use = |node: &&NodeId| {
            **node != self.config.me && self.durable_partitions().all(|id| self.does_without(id, **node))
        };
        self.registry.leaving.iter().find(of_no_use).map(|node| Change::Remove { node: *node })
    }

    fn durable_partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        let lasting = self.buckets.list.iter().filter(|bucket| bucket.settings.kind != BucketKind::Ephemeral);
        std::iter::once(COUNCIL).chain(lasting.flat_map(|bucket| bucket.partitions()))
    }

    /// Whether whoever leads a partition says that a node has no vote in it any more, and nobody needs to remember that it had one.
    fn does_without(&self, id: PartitionId, node: NodeId) -> bool {
        let own = place_of(&self.groups, id).and_then(|g| {
            let group = &self.groups[g];
            Some((group.partition.replica.leads()?, group.settled_voters()))
        });
        let told = self.news.iter().filter(|(peer, _)| self.is_up(**peer)).filter_map(|(_, ping)| {
            let news = news_of(ping, id)?;
            Some((news.leads?, news.voters.clone()))
        });
        let newest: Option<(Ballot, Vec<NodeId>)> = own.into_iter().chain(told).max_by_key(|(ballot, _)| *ballot);
        newest.is_some_and(|(_, voters)| !voters.is_empty() && !voters.contains(&node))
    }

    /// The map as it should be, if that is another than it is.
    fn next_map(&mut self, applied: Position) -> Option<Change> {
        if self.registry.paused {
            return None;
        }
        let up: Vec<NodeId> = self.roll.ids().filter(|id| self.is_up(*id)).collect();
        if self.council_leads.fits.as_ref().is_some_and(|(at, then)| *at == applied && *then == up) {
            return None;
        }
        let founders_all = self.config.members.len();
        let founders = |id: PartitionId| {
            let bucket = self.buckets.of(id.bucket);
            bucket.map_or_else(
                || (0..founders_all as u16).map(NodeId).collect(),
                |bucket| bucket.founded_by(founders_all),
            )
        };
        let staying = || self.roll.ids().filter(|id| !self.registry.leaving.contains(id));
        let seats: Vec<Seats> = {
            let wanted = self.registry.voters_wanted(founders_all).clamp(1, VOTERS_MAX);
            let serving = staying().filter(|id| self.registry.serves(*id)).count().min(COUNCIL_VOTERS_MAX);
            let of_council = wanted.max(if serving.is_multiple_of(2) { serving.saturating_sub(1) } else { serving });
            let seats = |id| Seats {
                partition: id,
                count: if id == COUNCIL { of_council } else { wanted },
                now: self.map.seats(id, &founders(id)),
            };
            self.durable_partitions().map(seats).collect()
        };
        let held: BTreeSet<NodeId> = seats.iter().flat_map(|it| it.now.iter().copied()).collect();
        // Whoever has never been there gets nothing that others would wait for.
        let was_there = |id: &NodeId| held.contains(id) || up.contains(id);
        let all: Vec<(NodeId, bool)> = staying().filter(was_there).map(|id| (id, self.registry.serves(id))).collect();
        let planned = plan(seats.clone(), &Nodes { all: &all, zones: &self.registry.zones });
        if planned.iter().any(|it| it.now.is_empty()) {
            // Nobody is there of whom this node knows: whatever is so stays so.
            return None;
        }
        let alike = |(before, after): (&Seats, &Seats)| {
            let sorted = |seats: &Seats| seats.now.iter().copied().collect::<BTreeSet<NodeId>>();
            before.now.first() == after.now.first() && sorted(before) == sorted(after)
        };
        if seats.iter().zip(&planned).all(alike) {
            self.council_leads.fits = Some((applied, up));
            return None;
        }
        let differs = |it: &Seats| it.now != seats_of_founders(it.partition, &founders(it.partition));
        let seats = planned.into_iter().filter(differs).map(|it| (it.partition, it.now)).collect();
        Some(Change::Map(Map { epoch: self.map.epoch + 1, seats }))
    }
}
