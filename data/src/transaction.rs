//! How a write changes the state: every change gets a revision of its own and is written down.

use crate::apply::{Applied, EntryContext, Published};
use crate::blob::Blob;
use crate::change::ChangeRecord;
use crate::commands;
use crate::events::{KeyEvent, name_changes};
use crate::failure::Failure;
use crate::meter::{LOOKUP, Meter};
use crate::reply::Reply;
use crate::slots::Slots;
use crate::store::{KeyRef, StoreKey};
use crate::tree::Tree;
use crate::value::{Record, Value};
use crate::view::View;
use base::limits::{ANSWERS_BYTES_MAX, RECORDED_CHANGES_MAX, VALUE_BYTES_MAX};
use base::versions::{Feature, command_since};
use base::{Revision, Rng, WallTime};

mod groups;
mod lists;
mod moment;
mod named;
mod scripts;
mod sorted;
mod streams;

pub(crate) use groups::GroupEdit;
pub use lists::{End, ListEdit};
pub(crate) use moment::Before;
pub use named::{NamedEdit, name_order};
pub(crate) use scripts::{Scripted, is_own, own_command};
pub(crate) use streams::{BLOCK_BYTES, BLOCK_ENTRIES_MAX};
pub use streams::{Keep, StreamEdit};

/// Fields that have expired and that are removed at once when their hash is asked for; more are passed over until an expiry entry removes them.
const FIELDS_AT_ONCE_MAX: usize = if cfg!(test) { 4 } else { 1000 };

/// What an applied entry did to one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The key; empty for [`ChangeKind::Flushed`].
    pub key: Blob,
    /// What happened.
    pub kind: ChangeKind,
    /// The partition's revision right after it.
    pub revision: Revision,
    /// The key was not there before. Found out only where changes are given names.
    pub is_new: bool,
}

/// What happened to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// It has a new value (and perhaps another deadline).
    Set,
    /// It has another deadline, or none any more; its value is the same.
    Deadline,
    /// A command removed it.
    Deleted,
    /// It reached its deadline.
    Expired,
    /// It had to make room for others.
    Evicted,
    /// Every key was removed; one change for all of them.
    Flushed,
}

/// One entry being applied: reading and changing the state at the entry's time.
///
/// A command that returns a failure must not have changed anything before: it checks first, then changes.
#[derive(Debug)]
pub struct Transaction<'a> {
    tree: &'a mut Tree,
    changes: Vec<Change>,
    /// Names of the changes, if somebody wants them.
    events: Option<Vec<KeyEvent>>,
    /// Records of the changes, if they are wanted, and how long a value in them may be: one for each change that has a name.
    records: Option<(Vec<ChangeRecord>, usize)>,
    /// Which of the changes are of fields that have expired, and not of the command that came to their hash: by their places, if records are wanted.
    expired_fields: Vec<usize>,
    /// How many changes have names and records: those that a script makes get them one command at a time.
    named: usize,
    published: Vec<Published>,
    rng: Rng,
    value_bytes_max: u64,
    ttl_ms: u64,
    full_at_bytes: u64,
    slots: Slots,
    version: u16,
    work_max: u64,
    /// A script calls its commands.
    in_script: bool,
}

impl<'a> Transaction<'a> {
    /// Begins to apply an entry: the state's time moves to the entry's, unless it is later already. Its work is counted from here on, without a limit until
    /// [`Transaction::limit_work`].
    pub fn new(tree: &'a mut Tree, context: &EntryContext) -> Transaction<'a> {
        tree.time = tree.time.max(context.time);
        tree.meter().begin(u64::MAX, u64::MAX);
        Transaction {
            tree,
            changes: Vec::new(),
            events: context.names_events.then(Vec::new),
            records: context.recorded_bytes_max.map(|bytes_max| (Vec::new(), bytes_max)),
            expired_fields: Vec::new(),
            named: 0,
            published: Vec::new(),
            rng: Rng::new(context.seed),
            value_bytes_max: context.value_bytes_max.min(VALUE_BYTES_MAX) as u64,
            ttl_ms: context.ttl_ms,
            full_at_bytes: context.full_at_bytes,
            slots: context.slots,
            version: context.version,
            work_max: context.work_max,
            in_script: false,
        }
    }

    /// What the entry has cost so far.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        self.tree.meter()
    }

    /// From here on the work of the entry is limited, if entries of its version have a budget. Its caller has to be able to take everything back.
    pub(crate) fn limit_work(&self) {
        if Feature::Budgets.is_in(self.version) {
            self.meter().begin(self.work_max, ANSWERS_BYTES_MAX);
        }
    }

    /// By which version of the cluster the entry is applied: what came later does not exist for it.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Whether a script calls the command that is being carried out.
    pub(crate) fn is_in_script(&self) -> bool {
        self.in_script
    }

    /// Whether there is such a command in the version by which the entry is applied.
    pub(crate) fn knows(&self, entry: &commands::Entry) -> bool {
        self.version >= command_since(entry.spec.name)
    }

    /// Ends the entry: what it did, in order.
    #[must_use]
    pub fn into_changes(self) -> Vec<Change> {
        self.tree.collections.settle();
        self.changes
    }

    /// Whether nothing has changed so far and nobody was told anything.
    pub(crate) fn has_done_nothing(&self) -> bool {
        self.changes.is_empty() && self.published.is_empty()
    }

    /// Ends the entry with an answer.
    pub(crate) fn finish(mut self, reply: Reply) -> Applied {
        let events = self.events.take().unwrap_or_default();
        let is_recorded = self.records.is_some();
        let records = self.records.take().map(|(records, _)| records).unwrap_or_default();
        let published = std::mem::take(&mut self.published);
        let changes = self.into_changes();
        debug_assert!(!is_recorded || records.len() == changes.len(), "each change has a record");
        Applied { reply, changes, events, records, published }
    }

    /// Lets `act` make changes, and gives them names if somebody wants them: those of the command `args`, if it is one.
    pub(crate) fn naming<R>(&mut self, args: &[&[u8]], act: impl FnOnce(&mut Self) -> R) -> R {
        let start = self.changes.len();
        let result = act(self);
        if self.events.is_none() && self.records.is_none() {
            return result;
        }
        let first = start.max(self.named);
        let new = &self.changes[first..];
        if let Some(events) = &mut self.events {
            name_changes(args, new, events);
        }
        if let Some((records, bytes_max)) = &mut self.records {
            let of_fields = |place: usize| self.expired_fields.binary_search(&(first + place)).is_ok();
            if records.len() + new.len() <= RECORDED_CHANGES_MAX {
                ChangeRecord::of_command(self.tree, args, new, (*bytes_max, of_fields), records);
            } else {
                // From here on the entry has none.
                self.records = None;
            }
        }
        self.named = self.changes.len();
        result
    }

    /// The logical time at which the entry happens.
    #[must_use]
    pub fn time(&self) -> WallTime {
        self.tree.time
    }

    /// That of the next change.
    #[must_use]
    pub fn next_revision(&self) -> Revision {
        self.tree.revision.next()
    }

    /// Chance that is the same on every replica.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Longest value that the entry may make, in bytes.
    #[must_use]
    pub fn value_bytes_max(&self) -> u64 {
        self.value_bytes_max
    }

    /// Refuses a string that would be longer than the entry may make one.
    pub fn check_length(&self, length: u64) -> Result<(), Failure> {
        if length > self.value_bytes_max { Err(Failure::ValueTooLong) } else { Ok(()) }
    }

    /// The deadline of a key that is being made: the one that its command says, or what keys get that have none.
    #[must_use]
    pub fn deadline_or_default(&self, said: Option<WallTime>) -> Option<WallTime> {
        let default = || (self.ttl_ms > 0).then(|| WallTime(self.tree.time.0.saturating_add(self.ttl_ms)));
        said.or_else(default)
    }

    /// Whether the state may not grow.
    pub(crate) fn is_full(&self) -> bool {
        self.full_at_bytes > 0 && self.tree.bytes() >= self.full_at_bytes
    }

    /// The state as a read inside this entry sees it. Each has chance of its own.
    #[must_use]
    pub fn view(&mut self) -> View<'_> {
        let seed = self.rng.next_u64();
        let view = View::new(self.tree, self.tree.time, seed).in_version(self.version);
        view.set_in_script(self.in_script);
        view
    }

    /// The whole state, for totals.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        self.tree
    }

    pub(crate) fn tree_mut(&mut self) -> &mut Tree {
        self.tree
    }

    /// The record of a key, if the key exists; one that has reached its deadline is removed on the way, and so are fields of a hash: up to [`FIELDS_AT_ONCE_MAX`].
    pub fn get(&mut self, key: KeyRef<'_>) -> Option<Record> {
        self.meter().spend(LOOKUP);
        let record = self.tree.store.get(key)?;
        if !record.is_alive(self.tree.time) {
            self.expire(key);
            return None;
        }
        let is_due = |deadline: WallTime| deadline <= self.tree.time;
        match record.value {
            Value::Hash(of) if self.tree.collections.soonest_field(of).is_some_and(is_due) => {
                self.expire_fields(key, of, FIELDS_AT_ONCE_MAX);
                self.tree.store.get(key)
            }
            _ => Some(record),
        }
    }

    /// Removes fields of a hash that have expired. Free unless some field has.
    pub(crate) fn settle_fields(&mut self, key: KeyRef<'_>) {
        if self.tree.collections.next_field_deadline().is_some_and(|deadline| deadline <= self.tree.time) {
            self.get(key);
        }
    }

    /// Whether a key exists.
    pub fn exists(&mut self, key: KeyRef<'_>) -> bool {
        self.get(key).is_some()
    }

    /// The bytes of a string, `None` if the key does not exist; an error if it holds something else.
    pub fn string(&mut self, key: KeyRef<'_>) -> Result<Option<Blob>, Failure> {
        let found = self.get(key).map(|record| record.value.into_string()).transpose()?;
        self.meter().bytes(found.as_ref().map_or(0, |bytes| bytes.len()));
        Ok(found)
    }

    /// Gives a key a value and a deadline, whatever it was before. A deadline that has passed removes the key instead.
    pub fn put(&mut self, key: KeyRef<'_>, value: Value, deadline: Option<WallTime>) {
        self.settle(key);
        if let Value::String(bytes) = &value {
            self.meter().make(bytes.len());
        }
        if deadline.is_some_and(|deadline| deadline <= self.tree.time) {
            self.remove(key);
            if let Some(elements) = value.elements() {
                self.tree.collections.give_up(elements);
            }
            return;
        }
        let mut record = Record::new(value, deadline);
        let store_key = key.to_store_key();
        record.revision = self.record_change(store_key.key.clone(), ChangeKind::Set);
        let fading = record.value.collection().filter(|of| of.has_deadlines());
        let fading = fading.map(|of| (store_key.key.clone(), of));
        let keys = self.tree.len();
        self.tree.insert(store_key, record);
        if (self.events.is_some() || self.records.is_some())
            && let Some(change) = self.changes.last_mut()
        {
            change.is_new = self.tree.len() > keys;
        }
        let collections = &mut self.tree.collections;
        if let Some((name, of)) = fading
            && let Some(soonest) = collections.soonest_field(of)
        {
            collections.index_hash(&name, of.number(), soonest);
        }
    }

    /// Gives a key a string without a deadline of its own, whatever it was before.
    pub fn put_string(&mut self, key: KeyRef<'_>, bytes: impl Into<Blob>) {
        self.put(key, Value::String(bytes.into()), self.deadline_or_default(None));
    }

    /// Gives a key another value and lets it keep its deadline, if it exists and has one.
    pub fn put_keeping_deadline(&mut self, key: KeyRef<'_>, value: Value) {
        let deadline = match self.get(key) {
            Some(record) => record.deadline(),
            None => self.deadline_or_default(None),
        };
        self.put(key, value, deadline);
    }

    /// Gives a key another value, given the record that [`Transaction::get`] has just found: a look below costs as much as all the rest. Its deadline stays, and so do the
    /// elements that it has, if any: `value` has the same.
    pub(crate) fn put_over(&mut self, key: KeyRef<'_>, before: &Record, value: Value) {
        let mut record = Record::new(value, before.deadline());
        let store_key = key.to_store_key();
        record.revision = self.record_change(store_key.key.clone(), ChangeKind::Set);
        self.tree.put_over(store_key, before, record);
    }

    /// Edits a string where it stands, created empty if the key does not exist; its deadline stays.
    ///
    /// Lengths must have been checked before (see [`Transaction::check_length`]); the value's type is checked here.
    pub fn edit_string<R>(&mut self, key: KeyRef<'_>, edit: impl FnOnce(&mut Vec<u8>) -> R) -> Result<R, Failure> {
        self.settle(key);
        let revision = self.tree.revision.next();
        let (mut edit, mut grown) = (Some(edit), 0);
        let updated = self.tree.update(key, |record| {
            let Value::String(bytes) = &mut record.value else { return None };
            record.revision = revision;
            let before = bytes.len();
            let result = (edit.take().expect("edited once"))(bytes.edit());
            grown = bytes.len().saturating_sub(before);
            Some(result)
        });
        self.meter().make(grown);
        Ok(match updated {
            Some(Some(result)) => {
                self.record_change(Blob::new(key.key), ChangeKind::Set);
                result
            }
            Some(None) => return Err(Failure::WrongType),
            None => {
                let mut bytes = Vec::new();
                let result = (edit.take().expect("there was no record to edit"))(&mut bytes);
                self.put_string(key, bytes);
                result
            }
        })
    }

    /// Removes a key; whether it existed.
    pub fn remove(&mut self, key: KeyRef<'_>) -> bool {
        self.settle(key);
        let existed = self.tree.remove(key).is_some();
        if existed {
            self.record_change(Blob::new(key.key), ChangeKind::Deleted);
        }
        existed
    }

    /// Moves what stands under a key to another one, deadline included, whatever that held. The key exists.
    pub fn rename(&mut self, from: KeyRef<'_>, to: KeyRef<'_>) {
        self.settle(from);
        if let Some(record) = self.tree.take(from) {
            self.record_change(Blob::new(from.key), ChangeKind::Deleted);
            let deadline = record.deadline();
            self.put(to, record.value, deadline);
        }
    }

    /// Sets or takes away the deadline of a key; whether the key existed. A deadline that has passed removes the key.
    pub fn set_deadline(&mut self, key: KeyRef<'_>, deadline: Option<WallTime>) -> bool {
        if deadline.is_some_and(|deadline| deadline <= self.tree.time) {
            return self.remove(key);
        }
        self.settle(key);
        let revision = self.tree.revision.next();
        let existed = self.tree.update(key, |record| {
            record.set_deadline(deadline);
            record.revision = revision;
        });
        if existed.is_some() {
            self.record_change(Blob::new(key.key), ChangeKind::Deadline);
        }
        existed.is_some()
    }

    /// Removes every key.
    pub fn clear(&mut self) {
        self.tree.clear();
        self.record_change(Blob::EMPTY, ChangeKind::Flushed);
    }

    /// Removes keys and fields that have reached their deadline, the soonest keys first: up to `limit`, and until this entry has cost `work_max`
    /// units. Answers how many.
    pub fn expire_due(&mut self, limit: usize, work_max: u64) -> usize {
        let mut count = 0;
        while count < limit && self.meter().spent() < work_max {
            let Some(key) = self.tree.first_due(self.tree.time).cloned() else { break };
            self.expire(KeyRef::new(&key));
            count += 1;
        }
        while count < limit && self.meter().spent() < work_max {
            let Some(key) = self.tree.collections.first_due_hash(self.tree.time) else { break };
            let key = KeyRef::new(&key);
            let value = self.tree.store.get(key).map(|record| record.value);
            // Only if the store below is in trouble is there nothing to expire.
            let Some(Value::Hash(of)) = value else { break };
            let (expired, may_go_on) = self.expire_fields(key, of, limit - count);
            count += expired;
            if !may_go_on {
                break;
            }
        }
        count
    }

    /// Takes out up to `limit` elements of collections that are gone.
    pub fn reclaim(&mut self, limit: usize) {
        self.tree.collections.reclaim(limit as u64);
    }

    /// Removes a key to make room, if it still has this revision; whether it did.
    pub fn evict(&mut self, key: KeyRef<'_>, revision: Revision) -> bool {
        let found = self.get(key).is_some_and(|record| record.revision == revision);
        if found {
            self.tree.remove(key);
            self.record_change(Blob::new(key.key), ChangeKind::Evicted);
        }
        found
    }

    /// Removes the key if it has reached its deadline. Free unless some key has.
    fn settle(&mut self, key: KeyRef<'_>) {
        if self.tree.first_due(self.tree.time).is_some() {
            self.get(key);
        }
    }

    fn expire(&mut self, key: KeyRef<'_>) {
        let StoreKey { key: blob, .. } = key.to_store_key();
        self.tree.remove(key);
        self.tree.expired += 1;
        self.record_change(blob, ChangeKind::Expired);
    }

    /// Counts and writes down a change; its revision.
    fn record_change(&mut self, key: Blob, kind: ChangeKind) -> Revision {
        self.meter().write(key.len());
        let revision = self.tree.revision.next();
        self.tree.revision = revision;
        match kind {
            ChangeKind::Deleted | ChangeKind::Expired | ChangeKind::Evicted => self.tree.removals.note(&key, revision),
            ChangeKind::Flushed => self.tree.removals.note_all(revision),
            ChangeKind::Set | ChangeKind::Deadline => {}
        }
        self.changes.push(Change { key, kind, revision, is_new: false });
        revision
    }
}

/// Refuses a string that would be longer than any may be, [`VALUE_BYTES_MAX`]: for what is known before the entry is.
pub fn check_length(length: u64) -> Result<(), Failure> {
    if length > VALUE_BYTES_MAX as u64 { Err(Failure::ValueTooLong) } else { Ok(()) }
}
