//! The walk over the keys of a partition: a subscriber is told the stored keys, and then the changes (`WITH STATE`).
//!
//! The keys of a partition are told in the order in which they stand in the store, a part of them at a time, each as it is at that moment. Nothing is frozen, and nothing is kept for
//! the subscriber but the last key that the walk has come to:
//!
//! ```text
//!   keys in their order   ──────── told ────────┤ the walk has come to here ├──── not told yet ────
//!   a change of a key              is told                                       is not: the walk will bring it
//! ```
//! Before each part the subscriber is told all changes up to this moment. So a part and the changes behind it leave nothing out, and say nothing twice; and at the walk's end the
//! subscriber has what is there at the revision that its place says.
//!
//! Walks cost units of work (`data/src/meter.rs`): so many for a part, for a turn, and between two ticks. Connections take turns, however many walks each of them has.

use std::ops::{Bound, Range};
use std::sync::Arc;

use base::limits::STATE_VALUE_BYTES_MAX;
use base::{PartitionId, Revision};
use data::{Blob, ChangeKind, ChangeRecord, KeyRef, Record, StoreKey, Tree, value_as_told};
use wire::Protocol;

use super::filter::{Filter, Fit};
use super::frames::{self, Reason, Stored};
use super::waiting::PlacesOfConnections;
use super::{NoRoom, Sink, SubscriptionId, Subscriptions, Told};
use crate::door::{ConnectionId, Planted};
use crate::routing::index_of_slot;

/// Units of work that it takes to come by a key.
const KEY_WORK: u64 = 100;
/// So many bytes of a message cost one unit.
const BYTES_PER_UNIT: u64 = 16;
/// So many bytes a page has, and one key more.
const PAGE_BYTES: usize = 32 << 10;

/// How far a subscription has come among the keys of a partition.
#[derive(Debug)]
pub(super) struct Walk {
    /// All up to this key are told; none at the beginning.
    last: Option<StoreKey>,
    /// The keys that were named, and of these the ones of this partition that are not told yet. None: all keys are walked over.
    named: Option<(Arc<[StoreKey]>, Range<usize>)>,
    /// The next part, where another node tells it.
    pub fetch: Fetch,
}

/// How far a part is that another node tells: see `pages.rs`.
#[derive(Debug, Default)]
pub(super) enum Fetch {
    /// It was not asked for.
    #[default]
    Idle,
    /// It was, under this number.
    Asked(u64),
    Got(Box<Page>),
}

/// A part of the stored keys of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Page {
    /// They are as they were at this revision.
    pub revision: Revision,
    pub stored: Vec<Stored>,
    /// The last key that the walk has come by; none if it has come by none.
    pub last: Option<Blob>,
    pub ends: Ends,
}

/// How a page ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ends {
    /// There are more.
    More,
    /// There are no more keys.
    AtEnd,
    /// It would cost too much to find out whether a key is wanted.
    Undecided,
}

/// The outcome of a part of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// There is more to be told.
    More,
    /// The connection takes nothing more now.
    Refused(NoRoom),
    /// It would cost too much to find out whether a key is wanted.
    Undecided,
    /// All was told.
    AtEnd,
}

impl Walk {
    /// At the first key of a partition, of so many.
    pub(super) fn new(filter: &Filter, partition: PartitionId, partitions: u16) -> Walk {
        let named = filter.in_order.as_ref().map(|keys| {
            let index = |key: &StoreKey| index_of_slot(key.as_ref().hash_slot(), partitions);
            let first = keys.partition_point(|key| index(key) < partition.index);
            let end = keys.partition_point(|key| index(key) <= partition.index);
            (Arc::clone(keys), first..end)
        });
        Walk { last: None, named, fetch: Fetch::Idle }
    }

    /// Behind a key.
    pub(super) fn behind(filter: &Filter, partition: PartitionId, partitions: u16, last: Option<&Blob>) -> Walk {
        let mut walk = Walk::new(filter, partition, partitions);
        walk.come_to(last);
        walk
    }

    /// Everything up to this key is told.
    pub(super) fn come_to(&mut self, last: Option<&Blob>) {
        let Some(last) = last.map(|last| StoreKey::new(last)) else { return };
        if let Some((keys, places)) = &mut self.named {
            places.start = places.start.max(keys.partition_point(|key| *key <= last)).min(places.end);
        }
        self.last = Some(last);
    }

    /// Drops a page that was not told. The node asks for it anew later, as it would grow old here.
    pub(super) fn drop_page(&mut self) {
        if matches!(self.fetch, Fetch::Got(_)) {
            self.fetch = Fetch::Idle;
        }
    }

    /// The last key that was told.
    pub(super) fn last(&self) -> Option<&Blob> {
        self.last.as_ref().map(|last| &last.key)
    }

    /// At which revision a part is that is there to be told.
    pub(super) fn page_revision(&self) -> Option<Revision> {
        match &self.fetch {
            Fetch::Got(page) => Some(page.revision),
            Fetch::Idle | Fetch::Asked(_) => None,
        }
    }

    /// A part of the keys, which takes about so much work; and what it took.
    pub(super) fn page(&mut self, tree: &Tree, filter: &Filter, with_values: bool, work_max: u64) -> (Page, u64) {
        let (mut work, mut stored, mut bytes) = (0, Vec::new(), 0);
        let outcome = self.go_on(tree, filter, (&mut work, work_max), |key, record, work| {
            if bytes >= PAGE_BYTES {
                return Err(Outcome::More);
            }
            let after = with_values.then(|| {
                let (after, cost) = value_as_told(tree, record, STATE_VALUE_BYTES_MAX);
                *work += cost;
                after
            });
            let one = Stored::new(key, record, after);
            let size = one.bytes();
            *work += size as u64 / BYTES_PER_UNIT;
            bytes += size;
            stored.push(one);
            Ok(())
        });
        let ends = match outcome {
            Outcome::AtEnd => Ends::AtEnd,
            Outcome::Undecided => Ends::Undecided,
            Outcome::More | Outcome::Refused(_) => Ends::More,
        };
        (Page { revision: tree.revision(), stored, last: self.last().cloned(), ends }, work)
    }

    /// Nothing was told yet.
    pub(super) fn is_at_start(&self) -> bool {
        self.last.is_none()
    }

    /// Whether a change is left out, because the walk will bring what it leaves behind; adds the units of work that it takes to find out. A flush takes away what was told.
    pub(super) fn leaves_out(&self, change: &ChangeRecord, planted: Option<Planted>, work: &mut u64) -> bool {
        *work += change.key.len() as u64 / BYTES_PER_UNIT;
        let is_told = self.last.as_ref().is_some_and(|last| KeyRef::new(&change.key) <= last.as_ref());
        let is_left_out = match planted {
            Some(Planted::WalkPassesChange) => true,
            Some(Planted::WalkAndTailBoth) => false,
            _ => !is_told,
        };
        is_left_out && change.kind != ChangeKind::Flushed
    }

    /// Goes on by a part, which takes about so much work and counts it. `tell` is given each key that is wanted, and counts its own. Comes by one key at the least, unless that is refused.
    fn go_on(
        &mut self,
        tree: &Tree,
        filter: &Filter,
        (work, work_max): (&mut u64, u64),
        mut tell: impl FnMut(&[u8], &Record, &mut u64) -> Result<(), Outcome>,
    ) -> Outcome {
        if let Some((keys, places)) = &mut self.named {
            while places.start < places.end
                && let Some(key) = keys.get(places.start)
            {
                *work += KEY_WORK;
                if let Some(record) = tree.find(key.as_ref())
                    && let Err(outcome) = tell(&key.key, &record, work)
                {
                    return outcome;
                }
                self.last = Some(key.clone());
                places.start += 1;
                if *work >= work_max && places.start < places.end {
                    return Outcome::More;
                }
            }
            return Outcome::AtEnd;
        }
        let last = self.last.clone();
        let start = last.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(last.as_ref()));
        for (key, record) in tree.records(start) {
            *work += KEY_WORK;
            match filter.has(&key.key, work) {
                Fit::Undecided => return Outcome::Undecided,
                Fit::Yes => {
                    if let Err(outcome) = tell(&key.key, &record, work) {
                        return outcome;
                    }
                }
                Fit::No => {}
            }
            self.last = Some(key);
            if *work >= work_max {
                return Outcome::More;
            }
        }
        Outcome::AtEnd
    }
}

/// Walks that wait for their next parts. Connections take turns; a connection's walks come one after the other, so that none waits for long once it has begun: meanwhile it is told no
/// changes.
#[derive(Debug, Default)]
pub(super) struct Walkers {
    of: PlacesOfConnections,
    /// The connection that had the last turn.
    hand: Option<ConnectionId>,
}

impl Walkers {
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    pub(super) fn push(&mut self, connection: ConnectionId, place: (SubscriptionId, PartitionId)) {
        self.of.insert(connection, place);
    }

    /// Takes out the next place, of the connection that has its turn.
    pub(super) fn pop(&mut self) -> Option<(SubscriptionId, PartitionId)> {
        let connection = self.of.next_behind(self.hand)?;
        self.hand = Some(connection);
        self.of.pop_first(connection)
    }

    /// A subscription is over.
    pub(super) fn forget(&mut self, connection: ConnectionId, id: SubscriptionId) {
        self.of.forget(connection, id);
    }
}

impl Subscriptions {
    /// Tells a subscription a part of what is there in a partition. It has been told all changes up to the revision of `tree`.
    pub(super) fn walk_on(
        &mut self,
        (id, partition): (SubscriptionId, PartitionId),
        tree: &Tree,
        sink: &mut impl Sink,
        told: &mut Told,
    ) -> Outcome {
        let Some(subscription) = self.all.get_mut(&id) else { return Outcome::More };
        let (connection, with_values) = (subscription.connection, subscription.with_values);
        let filter = Arc::clone(&subscription.filter);
        let Some(place) = subscription.place_mut(partition) else { return Outcome::More };
        let Some(mut walk) = place.walk.take() else { return Outcome::AtEnd };
        let (mut work, work_max) = (0, self.settings.walk_work.min(u64::try_from(self.walk_left).unwrap_or(0)));
        let outcome = walk.go_on(tree, &filter, (&mut work, work_max), |key, record, work| {
            if told.is_enough() {
                return Err(Outcome::More);
            }
            let protocol = sink.protocol(connection).map_err(Outcome::Refused)?;
            let after = with_values.then(|| {
                let (after, cost) = value_as_told(tree, record, STATE_VALUE_BYTES_MAX);
                *work += cost;
                after
            });
            let message = frames::state(protocol, id, partition, &Stored::new(key, record, after));
            *work += message.len() as u64 / BYTES_PER_UNIT;
            told.send(sink, connection, [&message, &[]]);
            told.keys += 1;
            Ok(())
        });
        self.walk_left = self.walk_left.saturating_sub_unsigned(work);
        match outcome {
            Outcome::AtEnd => {
                place.is_walked = true;
                told.walked += 1;
            }
            // The walk stays, so that nobody is given a token of a place without the keys that were not told.
            Outcome::Undecided => (place.gap, place.walk) = (Some(Reason::PatternTooCostly), Some(walk)),
            Outcome::More | Outcome::Refused(_) => {
                place.walk = Some(walk);
                place.was_full |= outcome == Outcome::Refused(NoRoom::Full);
            }
        }
        outcome
    }

    /// Tells a subscription what it cannot be told. If it wants that, and a state is there, it is told this next, from the first key on; otherwise it is over.
    pub(super) fn tell_gap(
        &mut self,
        (id, partition): (SubscriptionId, PartitionId),
        protocol: Protocol,
        (span, reason): ((Revision, Revision), Reason),
        (sink, is_there): (&mut impl Sink, bool),
        told: &mut Told,
    ) {
        let Some(subscription) = self.all.get_mut(&id) else { return };
        let (connection, partitions) = (subscription.connection, subscription.partitions);
        let filter = Arc::clone(&subscription.filter);
        let wants_state = subscription.restates && reason.can_be_restated();
        let restates = wants_state && is_there;
        // Another node goes on behind the same gap, with what is there.
        let reason = if wants_state && !is_there { Reason::Moved } else { reason };
        // A subscriber that cannot keep up before it is live would be told the same keys for ever.
        let may_restate = |place: &&mut super::Place| restates && place.walk.is_none() && !place.is_walked;
        let place = subscription.place_mut(partition).filter(may_restate);
        let what_now = if place.is_some() { "restate" } else { "end" };
        let message = frames::gap(protocol, id, partition, span, (reason, what_now));
        told.send(sink, connection, [&message, &[]]);
        told.gaps += 1;
        let Some(place) = place else {
            self.end(connection, id);
            return sink.over(connection);
        };
        (place.gap, place.was_full) = (None, false);
        place.walk = Some(Walk::new(&filter, partition, partitions));
        let is_live = std::mem::replace(&mut place.is_live, false);
        subscription.is_live = false;
        self.untold.remove(&id);
        told.restated += 1;
        if let Some(watched) = self.watched.get_mut(&partition).filter(|_| is_live) {
            watched.live.remove(id, &filter);
        }
        self.walkers.push(connection, (id, partition));
    }
}
