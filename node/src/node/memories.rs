//! Buckets in memory only, on this node: its replicas of them, what the council is told of its memory, and the moves of voters that it orders as the council's leader. See
//! [`crate::memories`].

use std::collections::BTreeSet;
use std::time::Duration;

use base::NodeId;
use base::limits::VOTERS_MAX;
use base::versions::Feature;
use bytes::Bytes;
use paxos::{Input as Step, RoleName};

use super::{Node, news_of, place_of, role_number};
use crate::bucket::{Bucket, BucketKind};
use crate::council::{COUNCIL, Order};
use crate::door::Planted;
use crate::entry::Kind;
use crate::memories::{better_voters, odd};
use crate::router::Waiter;

/// How often the council is told of a memory, or of a move.
const ORDER_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// A move ends where it began if one of those whom it leads to is gone for so long.
const BACK_AFTER: Duration = Duration::from_secs(5);

/// Stands for a memory that ends with the process.
pub(super) fn identity_in_memory(incarnation: u64, boot: u64) -> u64 {
    let bytes = [incarnation.to_le_bytes(), boot.to_le_bytes()].concat();
    base::checksum::xxh3(&bytes).max(1)
}

/// Takes one of an even number out of those who found a bucket in memory. Half of them that remember it would be too few to go on with, and the other half too few to
/// found it anew: it would wait for ever. And no more of them may be lost than of one less.
pub(super) fn make_odd(founders: &mut Vec<NodeId>, identities: &mut [u64], me: NodeId) {
    if founders.len().is_multiple_of(2) {
        let others = || founders.iter().rev().filter(|founder| **founder != me);
        let is_unknown = |founder: &&NodeId| identities.get(usize::from(founder.0)).is_none_or(|it| *it == 0);
        if let Some(out) = others().find(is_unknown).or_else(|| others().next()).copied() {
            founders.retain(|founder| *founder != out);
            if let Some(identity) = identities.get_mut(usize::from(out.0)) {
                *identity = 0;
            }
        }
    }
}

impl Node {
    /// Replicas in memory only: they are told to the council before they begin, and again before they vote. Those of one bucket begin together, and
    /// vote when all of them have recovered.
    pub(super) fn follow_ephemeral(&mut self, bucket: &Bucket) {
        let me = self.config.me;
        let Some(identity) = self.identity() else {
            self.buckets_wait = true;
            return;
        };
        let lacks = self.lacks_any(bucket);
        // Whoever founds such a bucket is told so by the order that makes it. A founder that has nothing has lost it: it never founds by itself, as those of a bucket that
        // one alone has founded would, while others vote by now.
        let has_founded = bucket.founded_by(bucket.memories.len()).contains(&me);
        if !bucket.is_remembered_by(me) {
            if lacks {
                self.add_groups(bucket, identity, false, has_founded);
            }
            // What it may have to recover from an earlier time is counted by nobody.
            return self.let_all_vote(bucket);
        }
        let place = usize::from(me.0);
        let (Some(listed), Some(remembers)) = (bucket.identities.get(place), bucket.memories.get(place)) else {
            return;
        };
        if self.config.planted == Some(Planted::VoteWithAmnesia) && lacks && *listed != 0 {
            return self.add_groups(bucket, *listed, true, false);
        }
        if lacks && *listed == identity {
            self.buckets_wait |= !remembers;
            // Named when it was founded, however long ago; or when it was given a vote, and then it may have had one before.
            let founds = *remembers && has_founded && !bucket.voting.came.contains(&me);
            let has_lost = !founds && (has_founded || !remembers);
            return self.add_groups(bucket, identity, founds, has_lost);
        }
        let order = if lacks || *listed != identity {
            // It was given a vote under the name of a memory that ended before: what that one has promised its replicas have to find out, if there are any.
            for partition in bucket.partitions() {
                let is_well = |g: &usize| self.groups[*g].partition.replica.role() != RoleName::Recovering;
                if let Some(g) = place_of(&self.groups, partition).filter(is_well) {
                    self.step_replica(g, Step::Lost);
                }
            }
            Order::Join { id: bucket.id, node: me, identity }
        } else if *remembers {
            return self.let_all_vote(bucket);
        } else {
            self.buckets_wait = true;
            let has_all = |g: usize| {
                let replica = &self.groups[g].partition.replica;
                replica.asks_to_vote() || replica.role() != RoleName::Recovering
            };
            if !bucket.partitions().filter_map(|it| place_of(&self.groups, it)).all(has_all) {
                return;
            }
            Order::Recovered { id: bucket.id, node: me, identity }
        };
        self.buckets_wait = true;
        if self.now.time >= self.next_order {
            self.next_order = self.now.time + ORDER_AGAIN_AFTER;
            self.order(&order);
        }
    }

    fn let_all_vote(&mut self, bucket: &Bucket) {
        for partition in bucket.partitions() {
            if let Some(g) = place_of(&self.groups, partition) {
                self.groups.get_mut_unwoken(g).partition.replica.let_vote();
            }
        }
    }

    /// Gives the council an order of which nobody waits to hear.
    fn order(&mut self, order: &Order) {
        if let Some(council) = place_of(&self.groups, COUNCIL) {
            let (now, deadline) = (self.now.time, self.now.time + self.config.request_timeout);
            let router = &mut self.groups[council].router;
            router.write(Kind::Council, Bytes::from(order.encode()), Waiter::Nobody, now, deadline);
        }
    }

    /// What names the memory that this process has, once that is certain to be nobody else's.
    fn identity(&mut self) -> Option<u64> {
        if self.identity.is_none() && self.start_is_on_disk {
            let council = &self.groups[place_of(&self.groups, COUNCIL)?].partition.replica;
            // A folder that was away has a name that ends when its replica of the council recovers: a bucket that is joined under it would be lost twice.
            let settled = council.role() != RoleName::Recovering && self.outlived.by <= council.incarnation();
            self.identity = settled.then(|| identity_in_memory(council.incarnation(), self.boot));
        }
        self.identity
    }

    /// The same of any node that is there, as far as this one knows.
    fn identity_of(&self, node: NodeId) -> Option<u64> {
        if node == self.config.me {
            return self.identity;
        }
        let claim = self.news.get(&node).filter(|_| self.is_up(node))?.claim;
        let lasts = claim.incarnation != 0 && !self.has_later_life(node, &claim);
        lasts.then(|| identity_in_memory(claim.incarnation, claim.boot))
    }

    /// Tells the council in which partitions that this node leads the voters are those that the last move wants.
    pub(crate) fn tell_settled(&mut self) {
        if self.now.time < self.next_settled {
            return;
        }
        let is_settled = |bucket: &Bucket, index: &u16| {
            let partition = bucket.partitions().nth(usize::from(*index));
            let group = partition.and_then(|id| place_of(&self.groups, id)).map(|g| &self.groups[g]);
            group.is_some_and(|group| {
                let replica = &group.partition.replica;
                let too_soon = self.config.planted == Some(Planted::SettledTooSoon) && replica.leads().is_some();
                too_soon || (replica.members().number >= bucket.voting.moves && !group.settled_voters().is_empty())
            })
        };
        let moving = self.buckets.list.iter().filter(|bucket| bucket.is_moving());
        let settled = |bucket: &Bucket| Order::Settled {
            id: bucket.id,
            number: bucket.voting.moves,
            partitions: bucket.voting.unsettled.iter().filter(|index| is_settled(bucket, index)).copied().collect(),
        };
        let has_any = |order: &Order| matches!(order, Order::Settled { partitions, .. } if !partitions.is_empty());
        let orders: Vec<Order> = moving.map(settled).filter(has_any).collect();
        for order in orders {
            self.next_settled = self.now.time + ORDER_AGAIN_AFTER;
            self.order(&order);
        }
    }

    /// The move that is due, if one is: for whoever leads the council.
    pub(crate) fn next_move(&self) -> Option<Order> {
        if self.registry.paused || !self.has(Feature::MovingMemories) {
            return None;
        }
        let in_memory = self.buckets.list.iter().filter(|bucket| bucket.settings.kind == BucketKind::Ephemeral);
        in_memory.into_iter().find_map(|bucket| {
            let to = if bucket.is_moving() { self.way_back(bucket) } else { self.way_on(bucket) }?;
            let known = |node: &NodeId| self.identity_of(*node);
            let to = to.into_iter().map(|node| (node, known(&node).unwrap_or_default())).collect();
            Some(Order::Move { id: bucket.id, number: bucket.voting.moves + 1, to })
        })
    }

    fn way_on(&self, bucket: &Bucket) -> Option<Vec<NodeId>> {
        let (serves, stays) = (|id: NodeId| self.registry.serves(id), |id: NodeId| self.is_staying(id));
        let parts_of = |id: NodeId| self.buckets.list.iter().filter(|it| it.is_remembered_by(id)).count();
        let wanted = odd(self.registry.voters_wanted(self.config.members.len()).clamp(1, VOTERS_MAX));
        let voters = bucket.voters();
        let zones: BTreeSet<&str> = voters.iter().map(|id| self.registry.zone_of(*id)).collect();
        let is_spread = self.registry.zones.is_empty() || zones.len() == voters.len();
        if voters.len() == wanted && is_spread && voters.iter().all(|id| serves(*id)) {
            return None;
        }
        let may_come = |id: &NodeId| !voters.contains(id) && self.may_remember(*id, bucket);
        let mut others: Vec<NodeId> = self.roll.ids().filter(may_come).collect();
        others.sort_by_key(|id| (parts_of(*id), *id));
        let to = better_voters(
            &voters,
            wanted,
            (serves, stays),
            |id| bucket.remembers(id),
            &others,
            |id| self.registry.zone_of(id),
        );
        // Where too many are recovering, it waits: they will have recovered, or the bucket is lost and begins anew.
        to.filter(|to| bucket.may_go_to(to))
    }

    /// Whether a node is there, and shall be, whether or not it serves.
    fn is_staying(&self, id: NodeId) -> bool {
        self.staying().any(|it| it == id) && !self.registry.absent.contains(&id)
    }

    /// Whether a node can be given a part of a bucket: it is there to stay, and is not busy finding out what it has forgotten.
    fn may_remember(&self, id: NodeId, bucket: &Bucket) -> bool {
        let recovers = |partition| {
            if id == self.config.me {
                let own = place_of(&self.groups, partition).map(|g| &self.groups[g].partition.replica);
                return own.is_none_or(|replica| replica.role() == RoleName::Recovering);
            }
            let news = self.news.get(&id).and_then(|ping| news_of(ping, partition));
            news.is_none_or(|news| news.role == role_number(RoleName::Recovering))
        };
        let is_there = self.is_up(id) && self.registry.serves(id) && !self.registry.left_behind(id);
        is_there && self.identity_of(id).is_some() && !bucket.partitions().any(recovers)
    }

    fn way_back(&self, bucket: &Bucket) -> Option<Vec<NodeId>> {
        let voters = bucket.voters();
        let is_gone = |id: &NodeId| {
            !self.is_staying(*id)
                || self.is_gone_since(*id).is_some_and(|since| self.now.time.since(since) >= BACK_AFTER)
        };
        let mut new = bucket.voting.next.iter().filter(|id| !voters.contains(id));
        (!bucket.voting.back && new.any(is_gone)).then_some(voters)
    }
}
