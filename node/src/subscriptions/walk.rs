//! What is there, for those who want to know it before they are told what changes.
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

use std::collections::BTreeSet;
use std::ops::Bound;

use base::limits::STATE_VALUE_BYTES_MAX;
use base::{PartitionId, Revision};
use data::{ChangeKind, ChangeRecord, KeyRef, Record, StoreKey, Tree, restated};
use wire::Protocol;

use super::delivery::TURN_MESSAGES_MAX;
use super::filter::{Filter, Fit};
use super::frames::{self, Reason};
use super::{NoRoom, Sink, SubscriptionId, Subscriptions, Told};
use crate::door::{ConnectionId, Planted};

/// A key that a walk comes by costs as much as so many records: it may have to be read from disk.
pub(super) const KEY_RECORDS: usize = 8;

/// How far a subscription has come among the keys of a partition.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// All up to this key are told; none at the beginning.
    last: Option<StoreKey>,
}

/// What came of a part of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
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
    /// Nothing was told yet.
    pub(super) fn is_at_start(&self) -> bool {
        self.last.is_none()
    }

    /// Whether a change is passed over, because the walk will bring what it leaves behind. A flush takes away what was told.
    pub(super) fn passes(&self, change: &ChangeRecord, planted: Option<Planted>) -> bool {
        let is_told = self.last.as_ref().is_some_and(|last| KeyRef::new(&change.key) <= last.as_ref());
        let is_passed = match planted {
            Some(Planted::WalkPassesChange) => true,
            Some(Planted::WalkAndTailBoth) => false,
            _ => !is_told,
        };
        is_passed && change.kind != ChangeKind::Flushed
    }

    /// Goes on by a part: `tell` is given each key that is wanted. Counts the keys that it came by.
    fn go_on(
        &mut self,
        tree: &Tree,
        filter: &Filter,
        (looked, keys_max): (&mut usize, usize),
        mut tell: impl FnMut(&StoreKey, &Record) -> Result<(), Part>,
    ) -> Part {
        if filter.names_all_keys() {
            // By look-up: there may be millions of others.
            let is_next = |key: &StoreKey| self.last.as_ref().is_none_or(|last| key > last);
            let keys: BTreeSet<StoreKey> = filter.keys.iter().map(|key| StoreKey::new(key)).filter(is_next).collect();
            for key in keys {
                if *looked >= keys_max {
                    return Part::More;
                }
                *looked += 1;
                let found = tree.records(Bound::Included(key.as_ref())).next();
                if let Some((key, record)) = found.filter(|(found, _)| *found == key)
                    && let Err(part) = tell(&key, &record)
                {
                    return part;
                }
                self.last = Some(key);
            }
            return Part::AtEnd;
        }
        let last = self.last.clone();
        let start = last.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(last.as_ref()));
        for (key, record) in tree.records(start) {
            if *looked >= keys_max {
                return Part::More;
            }
            *looked += 1 + filter.patterns.len() / KEY_RECORDS;
            match filter.has(&key.key) {
                Fit::Undecided => return Part::Undecided,
                Fit::Yes => {
                    if let Err(part) = tell(&key, &record) {
                        return part;
                    }
                }
                Fit::No => {}
            }
            self.last = Some(key);
        }
        Part::AtEnd
    }
}

impl Subscriptions {
    /// Tells a subscription a part of what is there in a partition. It has been told all changes up to the revision of `tree`.
    pub(super) fn walk_on(
        &mut self,
        (id, partition): (SubscriptionId, PartitionId),
        tree: &Tree,
        sink: &mut impl Sink,
        records: &mut usize,
        told: &mut Told,
    ) -> Part {
        let Some(subscription) = self.all.get_mut(&id) else { return Part::More };
        let (connection, with_values) = (subscription.connection, subscription.with_values);
        let filter = std::sync::Arc::clone(&subscription.filter);
        let Some(place) = subscription.place_mut(partition) else { return Part::More };
        let Some(mut walk) = place.walk.take() else { return Part::AtEnd };
        let (mut looked, keys_max) = (0, self.settings.walked_keys.min(self.walk_left));
        let part = walk.go_on(tree, &filter, (&mut looked, keys_max), |key, record| {
            if told.messages >= TURN_MESSAGES_MAX {
                return Err(Part::More);
            }
            let protocol = sink.protocol(connection).map_err(Part::Refused)?;
            let after = with_values.then(|| restated(tree, record, STATE_VALUE_BYTES_MAX));
            let message = frames::state(protocol, id, partition, (&key.key, record), after.as_ref());
            sink.send(connection, [&message, &[]]);
            told.messages += 1;
            told.keys += 1;
            Ok(())
        });
        *records += looked * KEY_RECORDS;
        self.walk_left = self.walk_left.saturating_sub(looked);
        match part {
            Part::AtEnd => told.walked += 1,
            Part::Undecided => place.gap = Some(Reason::PatternTooCostly),
            Part::More | Part::Refused(_) => {
                place.walk = Some(walk);
                place.was_full |= part == Part::Refused(NoRoom::Full);
            }
        }
        part
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
        let connection: ConnectionId = subscription.connection;
        let restates = subscription.restates && is_there && reason.can_be_restated();
        // One who cannot keep up with a walk would never come to its end.
        let place = subscription.place_mut(partition).filter(|place| restates && place.walk.is_none());
        let what_now = if place.is_some() { "restate" } else { "end" };
        let message = frames::gap(protocol, id, partition, span, (reason, what_now));
        sink.send(connection, [&message, &[]]);
        told.gaps += 1;
        let Some(place) = place else {
            self.end(connection, id);
            return sink.over(connection);
        };
        (place.gap, place.was_full, place.walk) = (None, false, Some(Walk::default()));
        let is_live = std::mem::replace(&mut place.is_live, false);
        subscription.is_live = false;
        self.untold.remove(&id);
        told.restated += 1;
        if let Some(watched) = self.watched.get_mut(&partition).filter(|_| is_live)
            && let Some(subscription) = self.all.get(&id)
        {
            watched.live.remove(id, &subscription.filter);
        }
        self.waiting.behind.push_back((id, partition));
    }
}
