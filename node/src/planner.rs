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

use crate::bucket::{Bucket, BucketKind};
use crate::council::{COUNCIL, Order};
use crate::door::Planted;
use crate::entry::Kind;
use crate::heat::Heat;
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
    /// Since which state of the council nodes that are to leave have no seat in the map.
    unseated: BTreeMap<NodeId, Position>,
    /// The last order: under which state of the council it was given, and when.
    ordered: Option<(Position, Time)>,
    next_look: Time,
    /// The state for which the map needed no change.
    fits: Option<(Position, Vec<NodeId>)>,
    heat: Heat,
    /// A window of it has ended that nobody has looked at.
    window_ended: bool,
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
        self.watch_heat();
        let applied = self.council_followed;
        self.watch_leaving(applied);
        let waits = |(at, given): (Position, Time)| at == applied && time.since(given) < ORDER_AGAIN_AFTER;
        if self.council_leads.ordered.is_some_and(waits) {
            return;
        }
        let change = self
            .naming()
            .or_else(|| self.raising())
            .or_else(|| self.absence())
            .or_else(|| self.removal())
            .or_else(|| self.next_map(applied));
        let order = change.map(Order::Nodes).or_else(|| self.next_move());
        let Some(order) = order.or_else(|| self.cooling().map(Order::Nodes)) else { return };
        self.probe(match &order {
            Order::Nodes(Change::Absent { absent: true, .. }) => "node: a node counts as absent",
            Order::Nodes(Change::Absent { .. }) => "node: an absent node is back",
            Order::Nodes(Change::Map(_)) => "node: a new map",
            Order::Nodes(Change::Name(_)) => "node: the cluster named",
            Order::Nodes(Change::Version { .. }) => "node: the cluster's version raised",
            Order::Move { id, .. } if self.buckets.of(*id).is_some_and(Bucket::is_moving) => {
                "node: an ephemeral bucket's voters go back"
            }
            Order::Move { .. } => "node: an ephemeral bucket's voters move",
            _ => "node: nothing needs a leaving node any more",
        });
        self.council_leads.ordered = Some((applied, time));
        let deadline = time + self.config.request_timeout;
        let order = Bytes::from(order.encode());
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

    fn watch_leaving(&mut self, applied: Position) {
        let is_unseated = |node: &&NodeId| self.durable_partitions().all(|id| !self.seats_of(id).contains(*node));
        let unseated: Vec<NodeId> = self.registry.leaving.iter().filter(is_unseated).copied().collect();
        let since = &mut self.council_leads.unseated;
        since.retain(|id, _| unseated.contains(id));
        for id in unseated {
            since.entry(id).or_insert(applied);
        }
    }

    /// Whether nothing needs somebody any more that is to leave: it is to vote nowhere, votes nowhere, and remembers no bucket that is in memory only.
    fn removal(&self) -> Option<Change> {
        if self.config.planted == Some(Planted::RemovedWithVotes) {
            let other = self.registry.leaving.iter().find(|node| **node != self.config.me);
            return other.map(|node| self.remove(*node, None));
        }
        let of_no_use = |(node, since): &(&NodeId, &Position)| {
            let remembers = self.buckets.list.iter().any(|bucket| bucket.is_remembered_by(**node));
            let is_done = |id| self.does_without(id, **node, **since);
            **node != self.config.me && !remembers && self.durable_partitions().all(is_done)
        };
        self.council_leads.unseated.iter().find(of_no_use).map(|(node, _)| self.remove(*node, Some(self.map.epoch)))
    }

    fn remove(&self, node: NodeId, epoch: Option<u64>) -> Change {
        Change::Remove { node, epoch, nodes: self.config.members.len() as u16 }
    }

    fn durable_partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        let lasting = self.buckets.list.iter().filter(|bucket| bucket.settings.kind != BucketKind::Ephemeral);
        std::iter::once(COUNCIL).chain(lasting.flat_map(|bucket| bucket.partitions()))
    }

    /// Whether whoever leads a partition says that a node has no vote in it any more; and whoever may lead it next knows that it shall get none: that the
    /// node has no seat, which is so since the council's entry `since`.
    fn does_without(&self, id: PartitionId, node: NodeId, since: Position) -> bool {
        let own = place_of(&self.groups, id).and_then(|g| {
            let group = &self.groups[g];
            Some((group.partition.replica.leads()?, group.settled_voters()))
        });
        let told = self.news.iter().filter(|(peer, _)| self.is_up(**peer)).filter_map(|(_, ping)| {
            let news = news_of(ping, id)?;
            Some((news.leads?, news.voters.clone()))
        });
        let newest: Option<(Ballot, Vec<NodeId>)> = own.into_iter().chain(told).max_by_key(|(ballot, _)| *ballot);
        newest.is_some_and(|(_, voters)| {
            // Also one that is down: it may come back and lead, out of reach of who knows better, and give its vote away again.
            let know = voters.iter().all(|voter| self.has_followed(*voter, since));
            !voters.is_empty() && !voters.contains(&node) && know
        })
    }

    /// Whether a node goes by the council's entry `since`, as it says.
    fn has_followed(&self, node: NodeId, since: Position) -> bool {
        let news = || news_of(self.news.get(&node)?, COUNCIL);
        node == self.config.me || news().is_some_and(|news| news.applied >= since)
    }

    /// Who founded a partition; of a bucket in memory, who shall vote in it.
    fn founders_of(&self, id: PartitionId) -> Vec<NodeId> {
        let all = self.config.members.len();
        match self.buckets.of(id.bucket) {
            None => (0..all as u16).map(NodeId).collect(),
            Some(bucket) if bucket.settings.kind == BucketKind::Ephemeral => bucket.wanted_voters(),
            Some(bucket) => bucket.founded_by(all),
        }
    }

    /// Since when a node has not been heard, as whoever leads the council knows.
    pub(crate) fn is_gone_since(&self, node: NodeId) -> Option<Time> {
        self.council_leads.gone_since.get(&node).copied()
    }

    /// Who shall vote in a partition.
    pub(crate) fn seats_of(&self, id: PartitionId) -> Vec<NodeId> {
        self.map.seats(id, &self.founders_of(id))
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
        let seats = self.seats();
        let held: BTreeSet<NodeId> = seats.iter().flat_map(|it| it.now.iter().copied()).collect();
        // Whoever has never been there gets nothing that others would wait for.
        let was_there = |id: &NodeId| held.contains(id) || up.contains(id);
        let all: Vec<(NodeId, bool)> =
            self.staying().filter(was_there).map(|id| (id, self.registry.serves(id))).collect();
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
        Some(self.map_of(planned))
    }

    /// Who is there and is not to go.
    pub(crate) fn staying(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.roll.ids().filter(|id| !self.registry.leaving.contains(id) && !self.registry.left_behind(*id))
    }

    /// The seats of all partitions by the map, and how many there shall be.
    fn seats(&self) -> Vec<Seats> {
        let founders_all = self.config.members.len();
        let wanted = self.registry.voters_wanted(founders_all).clamp(1, VOTERS_MAX);
        let serving = self.staying().filter(|id| self.registry.serves(*id)).count().min(COUNCIL_VOTERS_MAX);
        let of_council = wanted.max(if serving.is_multiple_of(2) { serving.saturating_sub(1) } else { serving });
        let seats = |id| Seats {
            partition: id,
            count: if id == COUNCIL { of_council } else { wanted },
            now: self.seats_of(id),
        };
        self.durable_partitions().map(seats).collect()
    }

    /// The order that makes these the seats.
    fn map_of(&self, planned: Vec<Seats>) -> Change {
        let differs = |it: &Seats| it.now != seats_of_founders(it.partition, &self.founders_of(it.partition));
        let seats = planned.into_iter().filter(differs).map(|it| (it.partition, it.now)).collect();
        Change::Map(Map { epoch: self.map.epoch + 1, seats })
    }

    /// Counts what is decided in each partition. At the end of a window it is known whether a node is hot.
    fn watch_heat(&mut self) {
        if self.council_leads.heat.is_due(self.now.time) {
            // It may have no copy: then by what those say who have.
            let said = |id| self.news.values().filter_map(|ping| Some(news_of(ping, id)?.decided)).max();
            let own = |id| Some(self.groups[place_of(&self.groups, id)?].partition.replica.decided());
            let decided = |id| Some((id, own(id).max(said(id))?));
            let decided: BTreeMap<PartitionId, Position> = self.durable_partitions().filter_map(decided).collect();
            let ended = self.council_leads.heat.end_window(self.now.time, decided);
            self.council_leads.window_ended |= ended;
        }
    }

    /// Leaderships that shall change hands because one node leads most of what is busy.
    fn cooling(&mut self) -> Option<Change> {
        if !std::mem::take(&mut self.council_leads.window_ended) || self.registry.paused {
            return None;
        }
        let leads = |id: &NodeId| self.registry.serves(*id) && self.is_up(*id) && !self.is_slow(*id);
        let may_lead: Vec<NodeId> = self.roll.ids().filter(leads).collect();
        let seats = self.seats();
        let cooled = self.council_leads.heat.cooled(&seats, &may_lead, self.config.hot_entries_per_second)?;
        self.probe("node: leaderships change hands for their load");
        Some(self.map_of(cooled))
    }
}
