//! Named subscriptions, as the node of the client knows them: who has attached here, and who was taken over ([`data::named`] has what all nodes know).
//!
//! Each attachment changes the record of the name, and this node is told the changes of the partition in which that is. So it hears of another attachment in the order of the log. The
//! client is told then, and its subscription ends. Until that it may be told changes that the other one is told as well; what it acknowledges is refused, by its epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use base::{PartitionId, Revision};
use data::named::{NamedSubscription, RECORDS};
use data::token::Token;
use data::{Blob, ChangeKind, ChangeRecord, KeyRef, Value};

use super::opening::Asked;
use super::{NoRoom, Sink, States, SubscriptionId, Subscriptions, frames};
use crate::door::{ConnectionId, Planted};

/// What acknowledgements are called among changes.
const ACK: &[u8] = b"dictum.ack";
/// So many names a tick looks up in states.
const LOOKED_UP_MAX: usize = 64;
/// So many clients a turn tells that another one has attached.
const TOLD_MAX: usize = 256;

/// Under which name a subscription has attached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Name {
    pub name: Blob,
    /// Where its record is.
    pub partition: PartitionId,
    pub key: Blob,
    /// The revision of the record behind the attachment.
    pub epoch: u64,
    /// Nobody has attached before.
    pub is_new: bool,
}

/// Where a client wants to begin, whatever was acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Start {
    Now,
    At(Token),
}

/// An attachment that waits for its answer.
#[derive(Debug)]
pub(super) struct Attaching {
    pub name: Blob,
    pub partition: PartitionId,
    pub key: Blob,
    /// What its client says of that.
    pub first: Option<Start>,
}

/// An attachment that waits until the changes of all partitions are recorded.
#[derive(Debug)]
pub(super) struct Recording {
    pub attached: Name,
    pub asked: Asked,
    /// What partitions have come to; none of those whose entries are on their way.
    pub revisions: Vec<Option<Revision>>,
    /// Where it begins is noted in the record.
    pub is_noted: bool,
    /// This place of another history, if it begins there.
    pub dead: Option<Token>,
}

/// An attachment whose beginning is on its way to the record.
#[derive(Debug)]
pub(super) struct Beginning {
    pub attached: Name,
    /// What the partitions had come to.
    pub revisions: Vec<Option<Revision>>,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// By the slots of their connections.
    pub(super) attaching: BTreeMap<(ConnectionId, u64), Attaching>,
    pub(super) recording: BTreeMap<(ConnectionId, u64), Recording>,
    /// Those whose beginning is on its way to their record.
    pub(super) beginning: BTreeMap<(ConnectionId, u64), Beginning>,
    of: BTreeMap<SubscriptionId, Name>,
    by_key: BTreeMap<(PartitionId, Blob), BTreeSet<SubscriptionId>>,
    /// Their clients have to be told that another one has attached.
    taken: BTreeSet<SubscriptionId>,
    /// The last of these that was asked whether its connection takes that.
    taken_hand: SubscriptionId,
    /// The last one that was looked up.
    hand: SubscriptionId,
}

impl Names {
    pub(super) fn insert(&mut self, id: SubscriptionId, name: Name) {
        self.by_key.entry((name.partition, name.key.clone())).or_default().insert(id);
        self.of.insert(id, name);
    }

    pub(super) fn get(&self, id: SubscriptionId) -> Option<&Name> {
        self.of.get(&id)
    }

    /// True if somebody waits to be attached.
    pub(super) fn is_waiting(&self) -> bool {
        !self.attaching.is_empty() || !self.recording.is_empty() || !self.beginning.is_empty()
    }

    pub(super) fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    /// A subscription is over.
    pub(super) fn remove(&mut self, id: SubscriptionId) {
        self.taken.remove(&id);
        let Some(name) = self.of.remove(&id) else { return };
        let key = (name.partition, name.key);
        if let Some(ids) = self.by_key.get_mut(&key) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_key.remove(&key);
            }
        }
    }

    /// A connection is gone.
    pub(super) fn leave(&mut self, connection: ConnectionId) {
        self.attaching.retain(|(of, _), _| *of != connection);
        self.recording.retain(|(of, _), _| *of != connection);
        self.beginning.retain(|(of, _), _| *of != connection);
    }

    /// Nobody knows what has changed in a partition, and there is no state here in which that could be looked up.
    pub(super) fn doubt(&mut self, partition: PartitionId) {
        let all = self.by_key.range((partition, Blob::default())..).take_while(|((of, _), _)| *of == partition);
        self.taken.extend(all.flat_map(|(_, ids)| ids));
    }

    /// A partition has changed: whose record has, otherwise than by an acknowledgement.
    pub(super) fn note(&mut self, partition: PartitionId, records: &[ChangeRecord]) {
        if self.of.is_empty() {
            return;
        }
        for record in records {
            let is_of_all = record.kind == ChangeKind::Flushed;
            if !is_of_all && (!record.key.starts_with(RECORDS) || record.event.as_slice() == ACK) {
                continue;
            }
            let first = if is_of_all { Blob::default() } else { record.key.clone() };
            let fitting = self
                .by_key
                .range((partition, first)..)
                .take_while(|((of, key), _)| *of == partition && (is_of_all || *key == record.key));
            let ids = fitting.flat_map(|(_, ids)| ids);
            let is_older = |id: &&SubscriptionId| self.of.get(id).is_some_and(|name| name.epoch < record.revision.0);
            self.taken.extend(ids.filter(is_older));
        }
    }
}

impl Subscriptions {
    /// A subscription has a name. Another client may have taken it over already.
    pub(super) fn attached(&mut self, id: SubscriptionId, name: Name) {
        let (partition, epoch) = (name.partition, Revision(name.epoch));
        self.names.insert(id, name);
        let records: Vec<ChangeRecord> = match self.rings.after(partition, epoch) {
            Ok(records) => records
                .filter(|it| it.record.key.starts_with(RECORDS) || it.record.kind == ChangeKind::Flushed)
                .map(|it| it.record.clone())
                .collect(),
            // It is looked up in the state.
            Err(_) => Vec::new(),
        };
        self.names.note(partition, &records);
    }

    /// At a tick: looks at the records of some names, where this node has the state. It may not have been told what has changed, behind a gap.
    pub(super) fn look_up_names(&mut self, states: &impl States) {
        let Names { of, taken, hand, .. } = &mut self.names;
        let behind = (Bound::Excluded(*hand), Bound::Unbounded);
        let next: Vec<SubscriptionId> =
            of.range(behind).chain(of.range(..=*hand)).map(|(id, _)| *id).take(LOOKED_UP_MAX).collect();
        *hand = next.last().copied().unwrap_or_default();
        for id in next {
            let Some((name, tree)) = of.get(&id).and_then(|name| Some((name, states.tree(name.partition)?))) else {
                continue;
            };
            if tree.revision().0 < name.epoch {
                // The state has not come to the attachment yet.
                continue;
            }
            let epoch = match tree.find(KeyRef::new(&name.key)).map(|record| record.value) {
                Some(Value::String(bytes)) => NamedSubscription::epoch_of(&bytes),
                _ => None,
            };
            if epoch != Some(name.epoch) {
                taken.insert(id);
            }
        }
    }

    /// Tells those who were taken over that it is so: `dictum.moved-away`. Their subscriptions are over. Returns how many.
    pub(super) fn tell_taken(&mut self, sink: &mut impl Sink) -> usize {
        let mut told = 0;
        let behind = (Bound::Excluded(self.names.taken_hand), Bound::Unbounded);
        let taken = self.names.taken.range(behind).chain(self.names.taken.range(..=self.names.taken_hand));
        for id in taken.copied().take(TOLD_MAX).collect::<Vec<_>>() {
            self.names.taken_hand = id;
            let Some(connection) = self.all.get(&id).map(|subscription| subscription.connection) else {
                self.names.remove(id);
                continue;
            };
            if self.planted == Some(Planted::TakenOverUntold) {
                continue;
            }
            match sink.protocol(connection) {
                Ok(protocol) => {
                    let name = self.names.get(id).map(|name| name.name.clone()).unwrap_or_default();
                    sink.send(connection, [&frames::moved_away(protocol, id, &name), &[]]);
                    told += 1;
                }
                Err(NoRoom::Gone) => {}
                // Another time.
                Err(NoRoom::NextTurn | NoRoom::Later | NoRoom::Full) => continue,
            }
            self.end(connection, id);
            sink.over(connection);
        }
        told
    }
}
