//! How a read sees the state: at the state's time, but with the leader's clock at hand.

use crate::blob::Blob;
use crate::collections::Collections;
use crate::failure::Failure;
use crate::meter::{LOOKUP, Meter};
use crate::slots::Slots;
use crate::store::{KeyRef, StoreKey};
use crate::transaction::name_order;
use crate::tree::Tree;
use crate::value::{Collection, Kind, List, Record, Stream, Value};
use base::limits::{READ_ANSWERS_BYTES_MAX, WORK_DEFAULT};
use base::versions::OLDEST;
use base::{Rng, WallTime};
use std::cell::Cell;
use std::ops::Bound;

/// So many fields that have expired and are still there are told from the others when fields are counted.
const DUE_COUNTED_MAX: usize = 1000;

/// What a node knows of how keys are used. It is no part of the state: other nodes know something else.
pub trait Usage: std::fmt::Debug {
    /// A key is asked for.
    fn touch(&self, key: KeyRef<'_>);
    /// Seconds since it was asked for the last time.
    fn idle_seconds(&self, key: KeyRef<'_>) -> u64;
    /// How often it is asked for, if the bucket's policy counts that.
    fn frequency(&self, key: KeyRef<'_>) -> Option<u64>;
}

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
    usage: Option<&'a dyn Usage>,
    /// The keys that are found count as used.
    touches: Cell<bool>,
    slots: Slots,
    work_max: u64,
    answer_max: u64,
    version: u16,
    /// A script asks.
    in_script: Cell<bool>,
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
            usage: None,
            touches: Cell::new(false),
            slots: Slots::ALL,
            work_max: WORK_DEFAULT,
            answer_max: READ_ANSWERS_BYTES_MAX,
            version: OLDEST,
            in_script: Cell::new(false),
        }
    }

    /// The same in a cluster of this version: what came later is not answered yet. See [`base::versions`].
    #[must_use]
    pub fn in_version(self, version: u16) -> View<'a> {
        View { version, ..self }
    }

    pub(crate) fn version(&self) -> u16 {
        self.version
    }

    /// Whether what is read from here on a script asks for.
    pub(crate) fn set_in_script(&self, in_script: bool) {
        self.in_script.set(in_script);
    }

    pub(crate) fn is_in_script(&self) -> bool {
        self.in_script.get()
    }

    /// The same for reads that may cost so many units of work.
    #[must_use]
    pub fn with_work_max(self, work_max: u64) -> View<'a> {
        View { work_max, ..self }
    }

    /// The same for reads whose answer may have so many bytes, and not more than [`READ_ANSWERS_BYTES_MAX`].
    #[must_use]
    pub fn with_answer_max(self, answer_max: u64) -> View<'a> {
        View { answer_max: answer_max.min(READ_ANSWERS_BYTES_MAX), ..self }
    }

    /// A read begins: its work is counted from here on.
    pub(crate) fn begin_work(&self) {
        self.meter().begin(self.work_max, self.answer_max);
        self.meter().limit_answer(self.answer_max);
    }

    /// What the read has cost so far.
    pub(crate) fn meter(&self) -> &'a Meter {
        self.tree.meter()
    }

    /// The same of a state that has the keys of these slots alone: scripts stay within them.
    #[must_use]
    pub fn within(self, slots: Slots) -> View<'a> {
        View { slots, ..self }
    }

    pub(crate) fn slots(&self) -> Slots {
        self.slots
    }

    /// The same for a client that may ask how keys are used, and that uses those it finds if `touches`.
    #[must_use]
    pub fn with_usage(self, usage: &'a dyn Usage, touches: bool) -> View<'a> {
        self.touches.set(touches);
        View { usage: Some(usage), ..self }
    }

    /// How keys are used; `None` inside an entry, which must mean the same everywhere.
    pub(crate) fn usage(&self) -> Option<&'a dyn Usage> {
        self.usage
    }

    /// Whether what is done from here on uses keys; tells whether it was so before.
    pub(crate) fn set_touches(&self, touches: bool) -> bool {
        self.touches.replace(touches)
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
        if let Some(usage) = self.usage.filter(|_| self.touches.get() && found.is_some()) {
            usage.touch(key);
        }
        let count = if found.is_some() { &self.hits } else { &self.misses };
        count.set(count.get() + 1);
        found
    }

    /// As [`View::get`], for what is no command's business: it does not count.
    pub(crate) fn find(&self, key: KeyRef<'_>) -> Option<Record> {
        self.meter().spend(LOOKUP);
        let found = self.tree.store.get(key).filter(|record| self.sees(record))?;
        match found.value {
            Value::Hash(of) if of.has_deadlines() => {
                self.look_at_deadlines(of);
                (self.fields_len(of) > 0).then_some(found)
            }
            _ => Some(found),
        }
    }

    /// Whether a key exists.
    #[must_use]
    pub fn exists(&self, key: KeyRef<'_>) -> bool {
        self.get(key).is_some()
    }

    /// The bytes of a string, `None` if the key does not exist; an error if it holds something else.
    pub fn string(&self, key: KeyRef<'_>) -> Result<Option<Blob>, Failure> {
        let found = self.get(key).map(|record| record.value.into_string()).transpose()?;
        self.meter().bytes(found.as_ref().map_or(0, |bytes| bytes.len()));
        Ok(found)
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

    /// A stream, `None` if the key does not exist; an error if it holds something else.
    pub fn stream(&self, key: KeyRef<'_>) -> Result<Option<Stream>, Failure> {
        self.get(key).map(|record| record.value.into_stream()).transpose()
    }

    /// The elements of a list from an index up to another one, or to its end.
    pub fn list_between(&self, list: List, start: u64, end: u64) -> impl Iterator<Item = Blob> {
        self.tree.collections.list_between(list, start, end)
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

    /// The elements of a collection from `order` on, in their order: order, name, value. Fields that have expired are none.
    pub fn elements(&self, of: Collection, order: u64) -> impl Iterator<Item = (u64, Blob, Blob)> + use<'a> {
        let (collections, clock) = (&self.tree.collections, self.clock);
        let some_are_due = self.has_due_fields(of);
        let is_there = move |field: &Blob| !some_are_due || !collections.is_due(of, field, clock);
        collections.elements_of(of, order).filter(move |(_, name, _)| is_there(name))
    }

    /// The value of a field, unless it has expired.
    #[must_use]
    pub fn field(&self, of: Collection, field: &[u8]) -> Option<Blob> {
        let value = self.element(of, name_order(field), field)?;
        (!self.tree.collections.is_due(of, field, self.clock)).then_some(value)
    }

    /// When a field ceases to exist; none if it stays.
    #[must_use]
    pub fn field_deadline(&self, of: Collection, field: &[u8]) -> Option<WallTime> {
        self.tree.collections.field_deadline(of, field)
    }

    /// Whether a field of a hash has a deadline that has not passed.
    #[must_use]
    pub fn has_deadlines_ahead(&self, of: Collection) -> bool {
        self.soonest_field_ahead(of).is_some()
    }

    /// The soonest deadline of a field that has not passed.
    pub(crate) fn soonest_field_ahead(&self, of: Collection) -> Option<WallTime> {
        self.tree.collections.soonest_field_after(of, self.clock)
    }

    /// Whether fields have expired that were not removed yet.
    #[must_use]
    pub fn has_due_fields(&self, of: Collection) -> bool {
        self.tree.collections.soonest_field(of).is_some_and(|deadline| deadline <= self.clock)
    }

    /// Whether a key holds, or held to its last field, a hash of which fields have expired that were not removed yet.
    pub(crate) fn waits_for_removal(&self, key: KeyRef<'_>) -> bool {
        let value = self.tree.get(key).map(|record| record.value);
        matches!(value, Some(Value::Hash(of)) if of.has_deadlines() && self.has_due_fields(of))
    }

    /// How many fields a hash has. If more than [`DUE_COUNTED_MAX`] have expired that were not removed yet, the others of these count.
    #[must_use]
    pub fn fields_len(&self, of: Collection) -> u64 {
        let due = self.tree.collections.field_deadlines(of).take_while(|(deadline, _)| *deadline <= self.clock);
        of.len().saturating_sub(due.take(DUE_COUNTED_MAX).count() as u64)
    }

    /// Notes if a field's time is up by the clock only.
    fn look_at_deadlines(&self, of: Collection) {
        // The soonest of all may have been decided long ago, and not be removed yet.
        let undecided = self.tree.collections.soonest_field_after(of, self.tree.time());
        if undecided.is_some_and(|deadline| deadline <= self.clock) {
            self.met_expired.set(true);
        }
    }

    /// The keys that exist and their records, in store order from `start` on.
    pub fn records(&self, start: Bound<KeyRef<'_>>) -> impl Iterator<Item = (StoreKey, Record)> {
        let records = self.tree.store.range(start).take_while(|(key, _)| self.meter().visit(key.key.len()));
        records.filter(|(_, record)| self.sees(record))
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
