//! The state of one partition: its records, and what else applying its log yields.

use crate::blob::Blob;
use crate::called::Called;
use crate::collections::Collections;
use crate::deadlines::{Deadlines, Due, DueLayer};
use crate::flush::Below;
use crate::kept::{Elements, Records};
use crate::layers::{Layer, Layers};
use crate::meter::Meter;
use crate::once::OnceTable;
use crate::permit::UnderWay;
use crate::removals::Removals;
use crate::store::{KeyRef, StoreKey};
use crate::value::{Collection, Kind, Record};
use base::{Revision, WallTime};
use imbl::{OrdMap, OrdSet};
use std::ops::Bound;

/// The state of one partition. Equal logs yield equal trees.
///
/// Copies share what they have in common. For one to write to disk take [`Tree::image`].
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub(crate) store: Layers<Records>,
    pub(crate) collections: Collections,
    /// The largest time of an entry applied so far.
    pub(crate) time: WallTime,
    /// Changes applied so far.
    pub(crate) revision: Revision,
    /// Every key that has a deadline, soonest first. Follows from the records.
    pub(crate) deadlines: Deadlines,
    pub(crate) once: OnceTable,
    /// When keys were last removed, for WATCH.
    pub(crate) removals: Removals,
    /// Sum of [`Record::bytes`]. Follows from the records.
    pub(crate) bytes: u64,
    /// Keys that ceased to exist at their deadline, since the beginning of the log.
    pub(crate) expired: u64,
    /// The store below, if there is one: see [`crate::flush`].
    pub(crate) below: Option<Below>,
    /// What nobody can see any more and is not freed yet. No part of the state.
    pub(crate) trash: Vec<Trash>,
    /// What scripts call, if somebody wants to see it. No part of the state.
    pub(crate) called: Called,
    /// What scripts may call. No part of the state.
    pub(crate) under_way: UnderWay,
}

/// What nobody can see any more. Freeing much of it at once would hold up everything else: it is to be dropped elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Trash {
    pub(crate) records: Vec<Layer<Records>>,
    pub(crate) elements: Vec<Layer<Elements>>,
    pub(crate) dues: Vec<DueLayer>,
    pub(crate) near: OrdSet<Due>,
}

/// Up to so many records are freed at once.
const FREED_AT_ONCE_MAX: usize = 1000;

impl Trash {
    /// How many items there are to free.
    #[must_use]
    pub fn len(&self) -> usize {
        let records: usize = self.records.iter().map(OrdMap::len).sum();
        let elements: usize = self.elements.iter().map(OrdMap::len).sum();
        records + elements + self.dues.iter().map(OrdMap::len).sum::<usize>() + self.near.len()
    }

    /// Whether there is nothing to free.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Tree {
    /// An empty state, before the first entry.
    #[must_use]
    pub fn new() -> Tree {
        Tree::default()
    }

    /// Counts what the entry, or the read, that is under way has cost.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.collections.meter
    }

    /// What the scripts of the entry, or of the read, may call that is to be applied or answered next.
    #[must_use]
    pub fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    /// Notes what scripts call, for clients that want to see it.
    #[must_use]
    pub fn called(&self) -> &Called {
        &self.called
    }

    /// The logical time: the largest time of an entry applied so far.
    #[must_use]
    pub fn time(&self) -> WallTime {
        self.time
    }

    /// Changes applied so far.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Keys stored, those included whose deadline has passed and that nothing has touched since (as `DBSIZE` counts).
    #[must_use]
    pub fn len(&self) -> u64 {
        self.store.len()
    }

    /// Whether no key is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// Keys that have a deadline.
    #[must_use]
    pub fn volatile_len(&self) -> u64 {
        self.deadlines.len()
    }

    /// Approximate bytes that keys and values occupy; the same on every replica.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Elements that are stored: of all collections, those included that nobody reaches any more and that are not reclaimed yet.
    #[must_use]
    pub fn elements_len(&self) -> u64 {
        self.collections.elements.len()
    }

    /// Whether there are elements to reclaim: the leader should propose an expiry entry, which does it.
    #[must_use]
    pub fn has_garbage(&self) -> bool {
        self.collections.given_up() > 0
    }

    /// Keys that ceased to exist at their deadline, since the beginning of the log.
    #[must_use]
    pub fn expired_count(&self) -> u64 {
        self.expired
    }

    /// The soonest deadline of any key or field: when the leader should next propose an expiry entry.
    #[must_use]
    pub fn next_deadline(&self) -> Option<WallTime> {
        let of_keys = self.deadlines.first().map(|(deadline, _)| *deadline);
        of_keys.into_iter().chain(self.collections.next_field_deadline()).min()
    }

    /// The record of a key that exists at the state's time.
    #[must_use]
    pub fn get(&self, key: KeyRef<'_>) -> Option<Record> {
        self.store.get(key).filter(|record| record.is_alive(self.time))
    }

    /// The record of a key, whether alive or not.
    #[must_use]
    pub fn find(&self, key: KeyRef<'_>) -> Option<Record> {
        self.store.get(key)
    }

    /// Whether it helps to say which keys will be asked for soon ([`Tree::notice`]): lately somebody waited for the disk.
    #[must_use]
    pub fn wants_notice(&self) -> bool {
        self.store.wants_notice()
    }

    /// A key will be asked for soon, so it may be brought into memory meanwhile. Without effect on the state.
    pub fn notice(&self, key: &[u8]) {
        self.store.notice(KeyRef::new(key));
    }

    /// What `WATCH` remembers of a key: its revision, or if it does not exist the last removal of any key of its class. Never
    /// the same before and after any change of the key; it may differ though the key has not changed.
    #[must_use]
    pub fn watch_revision(&self, key: &[u8]) -> Revision {
        self.get(KeyRef::new(key)).map_or_else(|| self.removals.of(key), |record| record.revision)
    }

    /// All records in store order from `start` on, whether alive or not.
    pub fn records(&self, start: Bound<KeyRef<'_>>) -> impl Iterator<Item = (StoreKey, Record)> {
        self.store.range(start)
    }

    /// The records from `start` on that are alive at that time, with their keys, in store order.
    pub(crate) fn living(&self, start: Bound<KeyRef<'_>>, at: WallTime) -> impl Iterator<Item = (Blob, Record)> {
        let records = self.records(start).filter(move |(_, record)| record.is_alive(at));
        records.map(|(StoreKey { key, .. }, record)| (key, record))
    }

    /// Puts a record in place, keeping the totals. What stood there is given up.
    pub(crate) fn insert(&mut self, key: StoreKey, record: Record) {
        let given_up = self.replace(key, record);
        if let Some(collection) = given_up {
            self.collections.give_up(collection);
        }
    }

    /// The collection that stood there.
    fn replace(&mut self, key: StoreKey, record: Record) -> Option<(Kind, Collection)> {
        // Only where fields expire somewhere is the key needed again.
        let name = self.collections.next_field_deadline().map(|_| key.key.clone());
        self.bytes = self.bytes.saturating_add(record.bytes(&key.key));
        let deadline = record.deadline();
        let old = if self.deadlines.len() == 0 && deadline.is_none() {
            // Nothing to keep in the index: the store may have the key itself.
            let blob_bytes = key.key.heap_bytes();
            let old = self.store.insert(key, record)?;
            self.bytes -= old.bytes_with_key(blob_bytes);
            old
        } else {
            let old = self.store.insert(key.clone(), record);
            let old_deadline = old.as_ref().and_then(Record::deadline);
            if let Some(old) = &old {
                self.bytes -= old.bytes(&key.key);
            }
            self.move_deadline(key, old_deadline, deadline);
            old?
        };
        if let Some(name) = name {
            self.unindex(&name, &old);
        }
        old.value.elements()
    }

    /// Takes a record out, keeping the totals. A collection under it is given up.
    pub(crate) fn remove(&mut self, key: KeyRef<'_>) -> Option<Record> {
        let old = self.take(key)?;
        if let Some(elements) = old.value.elements() {
            self.collections.give_up(elements);
        }
        Some(old)
    }

    /// Takes a record out, keeping the totals. A collection under it is the caller's.
    pub(crate) fn take(&mut self, key: KeyRef<'_>) -> Option<Record> {
        let old = self.store.remove(key)?;
        let store_key = key.to_store_key();
        self.bytes -= old.bytes(&store_key.key);
        self.unindex(&store_key.key, &old);
        self.move_deadline(store_key, old.deadline(), None);
        Some(old)
    }

    /// What stood under a key is there no more: its fields are not waited for. Its elements are still there.
    fn unindex(&mut self, key: &Blob, old: &Record) {
        let soonest = old.value.collection().and_then(|of| self.collections.soonest_field(of));
        if let Some(soonest) = soonest {
            self.collections.unindex_hash(key, soonest);
        }
    }

    /// Changes a record where it stands, keeping the totals; `None` if there is none.
    pub(crate) fn update<R>(&mut self, key: KeyRef<'_>, edit: impl FnOnce(&mut Record) -> R) -> Option<R> {
        let (result, before, after) = self.store.update(key, |record| {
            let before = (record.value.bytes(), record.deadline());
            let result = edit(record);
            (result, before, (record.value.bytes(), record.deadline()))
        })?;
        self.bytes = self.bytes + after.0 - before.0;
        if before.1 != after.1 {
            self.move_deadline(key.to_store_key(), before.1, after.1);
        }
        Some(result)
    }

    /// Puts another record, with the same deadline, in place of one that was looked for just now, keeping the totals: needs no look below. Elements of the one
    /// before that the other has not are the caller's.
    pub(crate) fn put_over(&mut self, key: StoreKey, before: &Record, after: Record) {
        debug_assert_eq!(before.deadline(), after.deadline(), "nothing to move in the index");
        self.bytes = self.bytes + after.value.bytes() - before.value.bytes();
        self.store.replace(key, after);
    }

    /// Takes everything out. Freeing many records takes long, so that is left to whoever takes the trash.
    pub(crate) fn clear(&mut self) {
        let (layers, records) = self.store.clear();
        let (elements, places) = self.collections.clear();
        let (near, dues, deadlines) = self.deadlines.clear();
        self.bytes = 0;
        if let Some(below) = &mut self.below {
            below.dropped.extend(records.into_iter().chain(places).chain([deadlines]).flatten());
        }
        self.throw_away(Trash { records: layers, elements, dues, near });
    }

    pub(crate) fn throw_away(&mut self, trash: Trash) {
        if trash.len() > FREED_AT_ONCE_MAX {
            self.trash.push(trash);
        }
    }

    /// What a clearing or a flush has left behind, to be dropped on another thread: freeing ten million records takes seconds. It
    /// has no effect on the state.
    pub fn take_trash(&mut self) -> Vec<Trash> {
        std::mem::take(&mut self.trash)
    }

    fn move_deadline(&mut self, key: StoreKey, before: Option<WallTime>, after: Option<WallTime>) {
        if before == after {
            return;
        }
        let mut due = (before.or(after).unwrap_or_default(), key);
        if before.is_some() {
            self.deadlines.remove(&due);
        }
        if let Some(after) = after {
            due.0 = after;
            self.deadlines.insert(due);
        }
    }

    /// The key that is due first at `time`, if any is.
    pub(crate) fn first_due(&self, time: WallTime) -> Option<&Blob> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= time).map(|(_, key)| &key.key)
    }
}
