//! Client-side caching: who has read which keys, and is told when they change (`CLIENT TRACKING`).
//!
//! A read is served by this node's own state, and every change of any node is applied to it later. So a key is noted in the moment in which it is read, and whatever changes it
//! from then on finds the note: nothing has to go over the links. What a node cannot know is what others decide while it hears of no leader, and what an installed snapshot stands for:
//! then everybody is told to forget everything, as after FLUSHALL.
//!
//! Somebody who is told of a change before he has the answer of a read that came before it would keep the old value for ever. So what is to be told waits for answers
//! that are ready, or done and held up, on the same connection (see [`Session::last_done`](crate::session::Session::last_done)).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use base::PartitionId;
use base::limits::TRACKED_BYTES_MAX;
use bytes::Bytes;
use data::{Blob, Change, ChangeKind};
use wire::{Protocol, ReplyWriter};

use crate::door::{ConnectionId, Planted};
use crate::node::Node;
use crate::session::Session;

/// Where redirected invalidations are heard in RESP2.
const CHANNEL: &[u8] = b"__redis__:invalidate";
/// Bytes that a tracked key counts beside its own.
const KEY_OVERHEAD_BYTES: usize = 96;

/// Most changes of which a connection is told one by one that wait for its replies.
const INVALIDATIONS_MAX: usize = 10_000;

/// What a connection wants to be told of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tracked {
    /// Of all keys with these prefixes, whether it has read them or not.
    pub broadcast: bool,
    pub prefixes: BTreeSet<Bytes>,
    /// Of what it reads only where it says so before.
    pub opt_in: bool,
    /// Of what it reads unless it says otherwise before.
    pub opt_out: bool,
    /// Not of what it changes itself.
    pub no_loop: bool,
    /// Another connection is told instead.
    pub redirect: Option<ConnectionId>,
    /// That one is gone.
    pub broken: bool,
    /// `CLIENT CACHING` was said for the next command.
    pub caching: bool,
}

impl Tracked {
    /// Whether what the next command reads is to be noted.
    pub(crate) fn notes_reads(&self) -> bool {
        !self.broadcast && if self.opt_in { self.caching } else { !(self.opt_out && self.caching) }
    }
}

/// What somebody is told.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// These keys have changed.
    Keys(Arc<Vec<Blob>>),
    /// Everything may have.
    Everything,
}

#[derive(Debug, Default)]
struct Prefix {
    listeners: BTreeSet<ConnectionId>,
    /// Changed in this turn, and by whose command if that is one of this node's connections.
    changed: Vec<(Blob, Option<ConnectionId>)>,
}

/// What a node notes of it.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    /// Who has read a key since it last changed. Connections that are gone may still be among them.
    keys: BTreeMap<(PartitionId, Blob), Vec<ConnectionId>>,
    /// Of all these lists together, and of the keys.
    items: usize,
    bytes: usize,
    /// The last key that had to go for want of room.
    hand: Option<(PartitionId, Blob)>,
    prefixes: BTreeMap<Bytes, Prefix>,
    /// Connections that track.
    pub clients: BTreeSet<ConnectionId>,
    /// To be told at the end of the turn, in order.
    told: Vec<(ConnectionId, Told)>,
    /// How much was told, for a planted bug.
    count: u64,
    /// Connections for which something waits.
    waiting: BTreeSet<ConnectionId>,
    /// Partitions of whose leader the node has heard.
    in_contact: BTreeSet<PartitionId>,
}

impl Tracking {
    /// Whether changes matter to anybody.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.clients.is_empty()
    }

    pub(crate) fn keys_count(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn items_count(&self) -> usize {
        self.items
    }

    pub(crate) fn prefixes_count(&self) -> usize {
        self.prefixes.len()
    }

    /// A connection has read a key.
    fn remember(&mut self, partition: PartitionId, key: &[u8], reader: ConnectionId, keys_max: u64) {
        let key = Blob::new(key);
        let bytes = key.len() + KEY_OVERHEAD_BYTES;
        let readers = self.keys.entry((partition, key)).or_insert_with(|| {
            self.bytes += bytes;
            Vec::new()
        });
        if let Err(place) = readers.binary_search(&reader) {
            readers.insert(place, reader);
            self.items += 1;
        }
        while (keys_max > 0 && self.keys.len() as u64 > keys_max) || self.bytes > TRACKED_BYTES_MAX {
            self.make_room();
        }
    }

    /// Forgets one key, in turn: who has read it is told as if it had changed.
    fn make_room(&mut self) {
        let after = self.hand.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.keys.range((after, Bound::Unbounded)).next().or_else(|| self.keys.iter().next());
        let Some(place) = next.map(|(place, _)| place.clone()) else { return };
        for reader in self.forget(&place) {
            self.told.push((reader, Told::Keys(Arc::new(vec![place.1.clone()]))));
        }
        self.hand = Some(place);
    }

    fn forget(&mut self, place: &(PartitionId, Blob)) -> Vec<ConnectionId> {
        let Some(readers) = self.keys.remove(place) else { return Vec::new() };
        self.items -= readers.len();
        self.bytes -= place.1.len() + KEY_OVERHEAD_BYTES;
        readers
    }

    /// Nothing of what anybody keeps can be relied on.
    pub(crate) fn forget_everything(&mut self) {
        self.keys.clear();
        (self.items, self.bytes, self.hand) = (0, 0, None);
        self.told.clear();
        self.prefixes.values_mut().for_each(|prefix| prefix.changed.clear());
        self.told.extend(self.clients.iter().map(|client| (*client, Told::Everything)));
    }

    /// An entry has made changes. `writer`: the connection of this node whose command it was, and whether it does not want to hear of it.
    fn on_changes(&mut self, partition: PartitionId, changes: &[Change], writer: Option<(ConnectionId, bool)>) {
        let (own, skips) = writer.map_or((None, false), |(id, skips)| (Some(id), skips));
        for change in changes {
            if change.kind == ChangeKind::Flushed {
                self.forget_everything();
                continue;
            }
            for reader in self.forget(&(partition, change.key.clone())) {
                if !(skips && own == Some(reader)) {
                    self.told.push((reader, Told::Keys(Arc::new(vec![change.key.clone()]))));
                }
            }
            for (prefix, listeners) in &mut self.prefixes {
                if change.key.starts_with(prefix) {
                    listeners.changed.push((change.key.clone(), own));
                }
            }
        }
    }

    /// A connection has read keys, and nobody will tell it when they change: it is told at once that it cannot rely on them.
    pub(crate) fn cannot_be_kept(&mut self, reader: ConnectionId, keys: Vec<Blob>) {
        self.told.push((reader, Told::Keys(Arc::new(keys))));
    }

    fn join(&mut self, client: ConnectionId, prefixes: &BTreeSet<Bytes>) {
        self.clients.insert(client);
        for prefix in prefixes {
            self.prefixes.entry(prefix.clone()).or_default().listeners.insert(client);
        }
    }

    fn leave(&mut self, client: ConnectionId, prefixes: &BTreeSet<Bytes>) {
        self.clients.remove(&client);
        for prefix in prefixes {
            if let Some(listeners) = self.prefixes.get_mut(prefix) {
                listeners.listeners.remove(&client);
                if listeners.listeners.is_empty() {
                    self.prefixes.remove(prefix);
                }
            }
        }
    }
}

impl Node {
    /// A connection is told of changes from now on, as `tracked` says.
    pub(crate) fn track(&mut self, session: &mut Session, tracked: Tracked) {
        self.tracking.join(session.id, &tracked.prefixes);
        session.tracked = Some(Box::new(tracked));
    }

    /// A connection is told of nothing any more.
    pub(crate) fn track_no_more(&mut self, session: &mut Session) {
        if let Some(tracked) = session.tracked.take() {
            self.tracking.leave(session.id, &tracked.prefixes);
        }
        session.invalidations.clear();
    }

    /// A connection has read keys.
    pub(crate) fn remember_keys<'a>(
        &mut self,
        partition: PartitionId,
        keys: impl Iterator<Item = &'a [u8]>,
        reader: ConnectionId,
    ) {
        for key in keys {
            self.tracking.remember(partition, key, reader, self.tunables.tracking_keys_max);
        }
    }

    /// An entry of a partition has been applied, that of this connection if it is one of this node's.
    pub(crate) fn invalidate_changed(&mut self, g: usize, writer: Option<ConnectionId>) {
        let changes = std::mem::take(&mut self.groups[g].wishes.changes);
        let skips = |id: ConnectionId| {
            let session = self.sessions.get(&id).and_then(Option::as_deref);
            session.and_then(|session| session.tracked.as_deref()).is_some_and(|tracked| tracked.no_loop)
        };
        let writer = writer.map(|id| (id, skips(id)));
        self.waiting.on_changes(self.groups[g].id(), &changes);
        self.tracking.on_changes(self.groups[g].id(), &changes, writer);
    }

    /// Looks whether a leader of every partition is known: while none is, others may decide what is not heard of here.
    pub(crate) fn watch_contact(&mut self) {
        if !self.tracking.is_wanted() {
            return self.tracking.in_contact.clear();
        }
        let known = |g: &usize| match self.groups[*g].elsewhere {
            Some(_) => self.is_fed(*g),
            None => self.groups[*g].partition.replica.leader().is_some(),
        };
        let groups = 0..self.groups.len();
        let in_contact: BTreeSet<PartitionId> = groups.filter(known).map(|g| self.groups[g].id()).collect();
        let lost = !self.tracking.in_contact.is_subset(&in_contact);
        self.tracking.in_contact = in_contact;
        if lost {
            self.probe("node: everything invalidated");
            self.tracking.forget_everything();
        }
    }

    /// At the end of a turn: tells everybody what has changed.
    pub(crate) fn send_invalidations(&mut self) {
        if self.tracking.told.is_empty()
            && self.tracking.waiting.is_empty()
            && self.tracking.prefixes.values().all(|prefix| prefix.changed.is_empty())
        {
            return;
        }
        for prefix in self.tracking.prefixes.values_mut() {
            let changed = std::mem::take(&mut prefix.changed);
            if changed.is_empty() {
                continue;
            }
            let all = Arc::new(distinct(changed.iter().map(|(key, _)| key)));
            for listener in &prefix.listeners {
                let session = self.sessions.get(listener).and_then(Option::as_deref);
                let no_loop = session.and_then(|it| it.tracked.as_deref()).is_some_and(|tracked| tracked.no_loop);
                let is_own = |writer: &Option<ConnectionId>| no_loop && *writer == Some(*listener);
                let keys = if changed.iter().any(|(_, writer)| is_own(writer)) {
                    let others = changed.iter().filter(|(_, writer)| !is_own(writer)).map(|(key, _)| key);
                    Arc::new(distinct(others))
                } else {
                    Arc::clone(&all)
                };
                if !keys.is_empty() {
                    self.tracking.told.push((*listener, Told::Keys(keys)));
                }
            }
        }
        for (client, told) in std::mem::take(&mut self.tracking.told) {
            if let Some(Some(session)) = self.sessions.get_mut(&client)
                && session.tracked.is_some()
            {
                self.tracking.count += 1;
                if self.config.planted == Some(Planted::InvalidationForgotten) && self.tracking.count.is_multiple_of(8)
                {
                    continue;
                }
                let early = self.config.planted == Some(Planted::InvalidationTooEarly);
                let after = if early { 0 } else { session.last_done() };
                if session.invalidations.len() >= INVALIDATIONS_MAX {
                    session.invalidations.clear();
                    session.invalidations.push_back((after, Told::Everything));
                } else {
                    session.invalidations.push_back((after, told));
                }
                self.tracking.waiting.insert(client);
            }
        }
        for client in std::mem::take(&mut self.tracking.waiting) {
            while let Some(Some(session)) = self.sessions.get_mut(&client) {
                let next = session.invalidations.front().filter(|(after, _)| session.has_answered(*after));
                if next.is_none() {
                    if !session.invalidations.is_empty() {
                        self.probe("node: invalidation waited for a reply");
                        self.tracking.waiting.insert(client);
                    }
                    break;
                }
                if let Some((_, told)) = session.invalidations.pop_front() {
                    self.tell_invalid(client, &told);
                }
            }
        }
    }

    /// Tells a connection that tracks, or whom it has named, of changes.
    fn tell_invalid(&mut self, client: ConnectionId, told: &Told) {
        let Some(Some(session)) = self.sessions.get_mut(&client) else { return };
        let Some(tracked) = session.tracked.as_deref_mut() else { return };
        let target = tracked.redirect.unwrap_or(client);
        let redirects = tracked.redirect.is_some();
        if self.sessions.get(&target).is_some_and(|target| target.as_deref().is_some_and(|target| !target.closing)) {
            let Some(Some(session)) = self.sessions.get_mut(&target) else { return };
            let mut writer = ReplyWriter::new(&mut session.out, session.protocol);
            match session.protocol {
                Protocol::Resp3 => {
                    writer.push(2);
                    writer.bulk(b"invalidate");
                }
                // In RESP2 only a connection that listens hears what it has not asked for.
                Protocol::Resp2 if redirects && session.subscriptions.is_some() => {
                    writer.push(3);
                    writer.bulk(b"message");
                    writer.bulk(CHANNEL);
                }
                Protocol::Resp2 => return,
            }
            match told {
                Told::Keys(keys) => {
                    writer.array(keys.len());
                    keys.iter().for_each(|key| writer.bulk(key));
                }
                Told::Everything => writer.null(),
            }
            self.mark_dirty(target);
        } else if let Some(Some(session)) = self.sessions.get_mut(&client) {
            if let Some(tracked) = session.tracked.as_deref_mut() {
                tracked.broken = true;
            }
            if session.protocol == Protocol::Resp3 {
                let mut writer = ReplyWriter::new(&mut session.out, session.protocol);
                writer.push(2);
                writer.bulk(b"tracking-redir-broken");
                writer.integer(i64::try_from(target.0).unwrap_or(i64::MAX));
                self.mark_dirty(client);
            }
        }
    }

    /// A connection has something to be sent in this turn.
    pub(crate) fn mark_dirty(&mut self, connection: ConnectionId) {
        if let Some(Some(session)) = self.sessions.get_mut(&connection)
            && !session.dirty
        {
            session.dirty = true;
            self.dirty.push(connection);
        }
    }
}

/// Each key once, in order.
fn distinct<'a>(keys: impl Iterator<Item = &'a Blob>) -> Vec<Blob> {
    keys.collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Revision;

    const HERE: PartitionId = PartitionId { bucket: base::BucketId(0), index: 0 };
    const THERE: PartitionId = PartitionId { bucket: base::BucketId(1), index: 0 };
    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn change(key: &str, kind: ChangeKind) -> Change {
        Change { key: Blob::new(key.as_bytes()), kind, revision: Revision(1), is_new: false }
    }

    fn told(tracking: &mut Tracking) -> Vec<(ConnectionId, String)> {
        let text = |told: Told| match told {
            Told::Keys(keys) => keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect(),
            Told::Everything => "everything".to_owned(),
        };
        std::mem::take(&mut tracking.told).into_iter().map(|(client, it)| (client, text(it))).collect()
    }

    #[test]
    fn readers_are_told_once() {
        let mut tracking = Tracking::default();
        tracking.join(A, &BTreeSet::new());
        tracking.join(B, &BTreeSet::new());
        tracking.remember(HERE, b"k", B, 0);
        tracking.remember(HERE, b"k", A, 0);
        tracking.remember(HERE, b"k", A, 0);
        tracking.remember(THERE, b"k", B, 0);
        assert_eq!((tracking.keys_count(), tracking.items_count()), (2, 3));
        tracking.on_changes(HERE, &[change("k", ChangeKind::Set), change("l", ChangeKind::Set)], None);
        assert_eq!(told(&mut tracking), [(A, "k".to_owned()), (B, "k".to_owned())]);
        tracking.on_changes(HERE, &[change("k", ChangeKind::Deleted)], None);
        assert!(told(&mut tracking).is_empty(), "it was not read again");
        tracking.remember(HERE, b"k", A, 0);
        tracking.remember(HERE, b"k", B, 0);
        tracking.on_changes(HERE, &[change("k", ChangeKind::Expired)], Some((A, true)));
        assert_eq!(told(&mut tracking), [(B, "k".to_owned())]);
        tracking.on_changes(HERE, &[change("", ChangeKind::Flushed)], None);
        assert_eq!(told(&mut tracking), [(A, "everything".to_owned()), (B, "everything".to_owned())]);
        assert_eq!((tracking.keys_count(), tracking.items_count(), tracking.bytes), (0, 0, 0));
    }

    #[test]
    fn the_table_is_limited() {
        let mut tracking = Tracking::default();
        tracking.join(A, &BTreeSet::new());
        for number in 0..100_u32 {
            tracking.remember(HERE, number.to_string().as_bytes(), A, 10);
        }
        assert_eq!((tracking.keys_count(), tracking.items_count()), (10, 10));
        let evicted: BTreeSet<String> = told(&mut tracking).into_iter().map(|(_, key)| key).collect();
        assert_eq!(evicted.len(), 90, "who has read them is told");
        // Whatever is left is not among them.
        for (_, key) in tracking.keys.keys() {
            assert!(!evicted.contains(&String::from_utf8_lossy(key).into_owned()));
        }
    }

    #[test]
    fn prefixes_gather_what_changes() {
        let mut tracking = Tracking::default();
        let prefixes: BTreeSet<Bytes> = [Bytes::from_static(b"user:"), Bytes::from_static(b"")].into();
        tracking.join(A, &prefixes);
        tracking.on_changes(
            HERE,
            &[change("user:1", ChangeKind::Set), change("other", ChangeKind::Set)],
            Some((B, false)),
        );
        assert_eq!(tracking.prefixes[&Bytes::from_static(b"user:")].changed.len(), 1);
        assert_eq!(tracking.prefixes[&Bytes::new()].changed.len(), 2);
        tracking.leave(A, &prefixes);
        assert_eq!(tracking.prefixes_count(), 0);
        assert!(!tracking.is_wanted());
    }
}
