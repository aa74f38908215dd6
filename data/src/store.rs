//! The ordered store under the state: records by store key, and frozen copies of all of them.
//!
//! The trait is what the state machine asks of a store, and no more, so that a log-structured one can take the place
//! of the map in memory. Records leave the store by value (cloning one shares its bytes).

use crate::blob::Blob;
use crate::value::Record;
use base::checksum::xxh3;
use base::slots::hash_slot;
use equivalent::{Comparable, Equivalent};
use imbl::OrdMap;
use std::cmp::Ordering;
use std::ops::Bound;

/// Where a key stands in the store: first its hash slot, then its hash, then its bytes.
///
/// ```text
/// order:  | hash slot (16 bits) | XXH3-64 of the key, high 48 bits |
/// ```
/// A range of hash slots is therefore a contiguous range of the store, and `order` alone is a cursor for `SCAN` that
/// means the same on every replica and after every failover: a key never moves.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StoreKey {
    /// The hash slot and the hash, see above. Compared first.
    pub order: u64,
    /// The key's own bytes, which tell apart keys that share an order.
    pub key: Blob,
}

/// A borrowed [`StoreKey`]: the hash is worked out once, and a lookup allocates nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeyRef<'a> {
    /// As in [`StoreKey`].
    pub order: u64,
    /// The key's bytes.
    pub key: &'a [u8],
}

/// The first store order of a hash slot; `first_order(slot + 1)` is where the slot ends.
#[must_use]
pub fn first_order(hash_slot: u16) -> u64 {
    u64::from(hash_slot) << 48
}

impl<'a> KeyRef<'a> {
    /// Works out the order of `key`.
    #[must_use]
    pub fn new(key: &'a [u8]) -> KeyRef<'a> {
        KeyRef { order: first_order(hash_slot(key)) | (xxh3(key) >> 16), key }
    }

    /// The hash slot that the key belongs to.
    #[must_use]
    pub fn hash_slot(self) -> u16 {
        (self.order >> 48) as u16
    }

    /// An owned copy.
    #[must_use]
    pub fn to_store_key(self) -> StoreKey {
        StoreKey { order: self.order, key: Blob::new(self.key) }
    }
}

impl StoreKey {
    /// The store key of `key`.
    #[must_use]
    pub fn new(key: &[u8]) -> StoreKey {
        KeyRef::new(key).to_store_key()
    }

    /// Borrows it for a lookup.
    #[must_use]
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef { order: self.order, key: &self.key }
    }
}

impl Equivalent<StoreKey> for KeyRef<'_> {
    fn equivalent(&self, other: &StoreKey) -> bool {
        self.order == other.order && self.key == other.key.as_slice()
    }
}

impl Comparable<StoreKey> for KeyRef<'_> {
    fn compare(&self, other: &StoreKey) -> Ordering {
        self.order.cmp(&other.order).then_with(|| self.key.cmp(other.key.as_slice()))
    }
}

/// What the state machine asks of the store that holds its records.
pub trait OrderedStore: Send + Default {
    /// A frozen copy: later changes to the store do not reach it, and another thread may read it.
    type Snapshot: OrderedRead + Send + 'static;

    /// Puts a record in place and returns the one that stood there.
    fn insert(&mut self, key: StoreKey, record: Record) -> Option<Record>;

    /// Takes a record out and returns it.
    fn remove(&mut self, key: KeyRef<'_>) -> Option<Record>;

    /// Changes a record where it stands; `None` if there is none. What `edit` returns is handed back.
    fn update<R>(&mut self, key: KeyRef<'_>, edit: impl FnOnce(&mut Record) -> R) -> Option<R>;

    /// A frozen copy of everything; costs no more than a few allocations.
    fn snapshot(&self) -> Self::Snapshot;
}

/// Reading from the store or from a frozen copy of it.
pub trait OrderedRead {
    /// The record of a key.
    fn get(&self, key: KeyRef<'_>) -> Option<Record>;

    /// Records in order, from `start` on.
    fn range(&self, start: Bound<KeyRef<'_>>) -> impl Iterator<Item = (&StoreKey, &Record)>;

    /// How many records there are.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The store in memory: a persistent ordered map whose copies share what has not changed since.
#[derive(Clone, Debug, Default)]
pub struct MapStore {
    records: OrdMap<StoreKey, Record>,
}

impl MapStore {
    /// Frees the first record; whether there was one.
    pub(crate) fn pop_first(&mut self) -> bool {
        let first = self.records.get_min().map(|(key, _)| key.clone());
        first.is_some_and(|key| self.records.remove(&key.as_ref()).is_some())
    }
}

impl OrderedRead for MapStore {
    fn get(&self, key: KeyRef<'_>) -> Option<Record> {
        self.records.get(&key).cloned()
    }

    fn range(&self, start: Bound<KeyRef<'_>>) -> impl Iterator<Item = (&StoreKey, &Record)> {
        self.records.range::<_, KeyRef<'_>>((start, Bound::Unbounded))
    }

    fn len(&self) -> u64 {
        self.records.len() as u64
    }
}

impl OrderedStore for MapStore {
    type Snapshot = MapStore;

    fn insert(&mut self, key: StoreKey, record: Record) -> Option<Record> {
        self.records.insert(key, record)
    }

    fn remove(&mut self, key: KeyRef<'_>) -> Option<Record> {
        self.records.remove(&key)
    }

    fn update<R>(&mut self, key: KeyRef<'_>, edit: impl FnOnce(&mut Record) -> R) -> Option<R> {
        self.records.get_mut(&key).map(edit)
    }

    fn snapshot(&self) -> MapStore {
        self.clone()
    }
}
