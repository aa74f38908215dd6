//! How a read sees the state: at the state's time, but with the leader's clock at hand.

use crate::blob::Blob;
use crate::collections::Collections;
use crate::failure::Failure;
use crate::store::{KeyRef, StoreKey};
use crate::tree::Tree;
use crate::value::{Collection, Kind, List, Record};
use base::{Rng, WallTime};
use std::cell::Cell;
use std::ops::Bound;

/// The state as one read sees it.
#[derive(Debug)]
pub struct View<'a> {
    tree: &'a Tree,
    /// The later of the state's time and the leader's clock.
    clock: WallTime,
    seed: u64,
    met_expired: Cell<bool>,
    hits: Cell<u64>,
    misses: Cell<u64>,
}

impl<'a> View<'a> {
    /// The state with the leader's clock, and a seed for reads that answer by chance (`RANDOMKEY`).
    #[must_use]
    pub fn new(tree: &'a Tree, clock: WallTime, seed: u64) -> View<'a> {
        View {
            tree,
            clock: clock.max(tree.time()),
            seed,
            met_expired: Cell::new(false),
            hits: Cell::new(0),
            misses: Cell::new(0),
        }
    }

    /// Whether the read touched a key that the state still has but whose deadline has passed by the clock.
    ///
    /// If so, its reply must not leave: propose [`crate::expire_due`] with [`View::time`], and when that is applied
    /// run the read again with the same clock, which then cannot happen to it again.
    #[must_use]
    pub fn met_expired(&self) -> bool {
        self.met_expired.get()
    }

    /// How many keys the read has looked for and found, and not found. Those that it met by going through all do not count.
    #[must_use]
    pub fn lookups(&self) -> (u64, u64) {
        (self.hits.get(), self.misses.get())
    }

    /// The time for answers such as `TTL`: the later of the state's time and the leader's clock.
    #[must_use]
    pub fn time(&self) -> WallTime {
        self.clock
    }

    /// The whole state, for totals.
    #[must_use]
    pub fn tree(&self) -> &'a Tree {
        self.tree
    }

    /// A generator for this read alone.
    #[must_use]
    pub fn rng(&self) -> Rng {
        Rng::new(self.seed)
    }

    /// The record of a key, if the key exists.
    #[must_use]
    pub fn get(&self, key: KeyRef<'_>) -> Option<Record> {
        let found = self.find(key);
        let count = if found.is_some() { &self.hits } else { &self.misses };
        count.set(count.get() + 1);
        found
    }

    /// As [`View::get`], for what is no command's business: it does not count.
    pub(crate) fn find(&self, key: KeyRef<'_>) -> Option<Record> {
        self.tree.store.get(key).filter(|record| self.sees(record))
    }

    /// Whether a key exists.
    #[must_use]
    pub fn exists(&self, key: KeyRef<'_>) -> bool {
        self.get(key).is_some()
    }

    /// The bytes of a string, `None` if the key does not exist; an error if it holds something else.
    pub fn string(&self, key: KeyRef<'_>) -> Result<Option<Blob>, Failure> {
        self.get(key).map(|record| record.value.into_string()).transpose()
    }

    /// The collection of a hash, `None` if the key does not exist; an error if it holds something else.
    pub fn hash(&self, key: KeyRef<'_>) -> Result<Option<Collection>, Failure> {
        self.collection(key, Kind::Hash)
    }

    /// The collection of a set, `None` if the key does not exist; an error if it holds something else.
    pub fn set(&self, key: KeyRef<'_>) -> Result<Option<Collection>, Failure> {
        self.collection(key, Kind::Set)
    }

    /// The collection of a sorted set, `None` if the key does not exist; an error if it holds something else.
    pub fn sorted(&self, key: KeyRef<'_>) -> Result<Option<Collection>, Failure> {
        self.collection(key, Kind::SortedSet)
    }

    /// A list, `None` if the key does not exist; an error if it holds something else.
    pub fn list(&self, key: KeyRef<'_>) -> Result<Option<List>, Failure> {
        self.get(key).map(|record| record.value.into_list()).transpose()
    }

    /// The elements of a list from an index on.
    pub fn list_from(&self, list: List, index: u64) -> impl Iterator<Item = Blob> {
        self.tree.collections.elements_of(list.collection, list.place(index)).map(|(_, _, value)| value)
    }

    /// The collection of a value of that kind, `None` if the key does not exist; an error if it holds something else.
    pub fn collection(&self, key: KeyRef<'_>, kind: Kind) -> Result<Option<Collection>, Failure> {
        self.get(key).map(|record| record.value.into_collection(kind)).transpose()
    }

    /// Where the elements of all collections are.
    pub(crate) fn collections(&self) -> &'a Collections {
        &self.tree.collections
    }

    /// An element of a collection.
    #[must_use]
    pub fn element(&self, of: Collection, order: u64, name: &[u8]) -> Option<Blob> {
        self.tree.collections.element(of, order, name)
    }

    /// The elements of a collection from `order` on, in their order: order, name, value.
    pub fn elements(&self, of: Collection, order: u64) -> impl Iterator<Item = (u64, Blob, Blob)> {
        self.tree.collections.elements_of(of, order)
    }

    /// The keys that exist and their records, in store order from `start` on.
    pub fn records(&self, start: Bound<KeyRef<'_>>) -> impl Iterator<Item = (StoreKey, Record)> {
        self.tree.store.range(start).filter(|(_, record)| self.sees(record))
    }

    fn sees(&self, record: &Record) -> bool {
        if record.is_alive(self.clock) {
            return true;
        }
        if record.is_alive(self.tree.time()) {
            self.met_expired.set(true);
        }
        false
    }
}
