//! How a write changes a collection whose elements are found by their names, a hash, a set or a sorted set: element by element, and its record once at the end.

use super::Transaction;
use crate::blob::Blob;
use crate::collections::Collections;
use crate::failure::Failure;
use crate::kept::{ElementKey, ElementRef, LongNames, element_bytes};
use crate::meter::{VISIT, WRITE};
use crate::store::KeyRef;
use crate::value::{COLLECTION_LEN_MAX, Collection, Kind, Value};
use base::WallTime;
use base::checksum::xxh3;

/// Where named elements stand: by the hashes of their names, so that a cursor is a number and chance can point among them.
#[must_use]
pub fn name_order(name: &[u8]) -> u64 {
    xxh3(name)
}

/// A collection that is being changed. One that did not exist is made by the first element, and one without elements is removed.
#[derive(Debug)]
pub struct NamedEdit<'t, 'a> {
    pub(super) tx: &'t mut Transaction<'a>,
    kind: Kind,
    /// Of number 0 until there is one.
    pub(super) collection: Collection,
    changed: bool,
    /// Fields have expired that are still there.
    some_are_due: bool,
}

impl NamedEdit<'_, '_> {
    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.collection.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses so many more elements than a collection may have. Before the first change.
    pub fn check_room(&self, more: usize) -> Result<(), Failure> {
        if self.len() + more as u64 > COLLECTION_LEN_MAX { Err(self.kind.is_full()) } else { Ok(()) }
    }

    /// The value of an element.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Blob> {
        let exists = self.collection.number() > 0 && !self.is_due(name);
        exists.then(|| self.tx.tree.collections.elements.get(self.place(name))).flatten()
    }

    /// Whether it is a field that has expired.
    fn is_due(&self, name: &[u8]) -> bool {
        self.some_are_due && self.tx.tree.collections.is_due(self.collection, name, self.tx.tree.time)
    }

    /// Gives an element a value, and takes away a deadline that it had; whether it is new.
    pub fn set(&mut self, name: &[u8], value: impl Into<Blob>) -> bool {
        let is_new = self.set_keeping_deadline(name, value);
        if !is_new {
            self.move_deadline(name, None);
        }
        is_new
    }

    /// Gives an element a value; whether it is new.
    pub fn set_keeping_deadline(&mut self, name: &[u8], value: impl Into<Blob>) -> bool {
        if self.is_due(name) {
            self.take(name);
        }
        self.begin();
        let value = value.into();
        let key = self.place(name).to_key();
        let (name_bytes, value_bytes) = (key.name.heap_bytes(), value.heap_bytes());
        let old = self.tx.tree.collections.insert(key, value);
        match &old {
            Some(old) => self.collection.resize(old.heap_bytes() as u64, value_bytes as u64),
            None => self.collection.grow(element_bytes(name_bytes, value_bytes)),
        }
        old.is_none()
    }

    /// Puts an element without a value in, unless it is there already; whether it was not.
    pub fn add(&mut self, name: &[u8]) -> bool {
        if self.get(name).is_some() {
            return false;
        }
        self.set_over(None, Blob::new(name), Blob::EMPTY);
        true
    }

    /// Gives an element a value, given the one that it has.
    pub(super) fn set_over(&mut self, before: Option<&Blob>, name: Blob, value: Blob) {
        self.begin();
        let key = ElementKey { collection: self.collection.number(), order: name_order(&name), name };
        let collections = &mut self.tx.tree.collections;
        match before {
            Some(before) => {
                self.collection.resize(before.heap_bytes() as u64, value.heap_bytes() as u64);
                collections.elements.replace(key, value);
            }
            None => {
                self.collection.grow(key.bytes_with(&value));
                if self.kind == Kind::Set {
                    collections.few.note_new(self.collection, key.order, &key.name);
                }
                collections.insert_new(key, value);
            }
        }
    }

    /// Takes an element out; its value.
    pub fn remove(&mut self, name: &[u8]) -> Option<Blob> {
        let is_due = self.is_due(name);
        self.take(name).filter(|_| !is_due)
    }

    /// When a field ceases to exist; none if it stays.
    #[must_use]
    pub fn deadline(&self, field: &[u8]) -> Option<WallTime> {
        self.tx.tree.collections.field_deadline(self.collection, field)
    }

    /// Sets or takes away the deadline of a field, which is there. One that has passed removes it.
    pub fn set_deadline(&mut self, field: &[u8], deadline: Option<WallTime>) {
        if deadline.is_some_and(|deadline| deadline <= self.tx.tree.time) {
            self.take(field);
        } else {
            self.move_deadline(field, deadline);
        }
    }

    fn move_deadline(&mut self, field: &[u8], after: Option<WallTime>) {
        let before = self.deadline(field);
        if before == after {
            return;
        }
        self.changed = true;
        self.collection = self.collection.with_deadlines(true);
        self.tx.tree.collections.move_field_deadline(self.collection.number(), field, before, after);
    }

    /// Takes an element out, expired or not.
    fn take(&mut self, name: &[u8]) -> Option<Blob> {
        if self.is_empty() {
            return None;
        }
        let old = self.tx.tree.collections.elements.remove(self.place(name))?;
        if self.kind == Kind::Set {
            self.tx.tree.collections.few.note_gone(self.collection.number(), name_order(name), name);
        }
        self.move_deadline(name, None);
        self.changed = true;
        self.collection.shrink(element_bytes(Blob::new(name).heap_bytes(), old.heap_bytes()));
        Some(old)
    }

    /// Something will change.
    fn begin(&mut self) {
        self.changed = true;
        if self.collection.number() == 0 {
            self.collection = self.tx.tree.collections.new_collection();
        }
    }

    fn place<'f>(&self, name: &'f [u8]) -> ElementRef<'f> {
        ElementRef { collection: self.collection.number(), order: name_order(name), name }
    }
}

impl<'a> Transaction<'a> {
    /// The collection of a value of that kind, `None` if the key does not exist; an error if it holds something else.
    pub fn collection(&mut self, key: KeyRef<'_>, kind: Kind) -> Result<Option<Collection>, Failure> {
        self.get(key).map(|record| record.value.into_collection(kind)).transpose()
    }

    /// Changes a hash; its deadline stays. An error if the key holds something else, or what `edit` refuses: before it has changed anything.
    pub fn edit_hash<R>(
        &mut self,
        key: KeyRef<'_>,
        edit: impl FnOnce(&mut NamedEdit<'_, 'a>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.edit_named(key, Kind::Hash, edit)
    }

    /// As [`Transaction::edit_hash`], of a set.
    pub fn edit_set<R>(
        &mut self,
        key: KeyRef<'_>,
        edit: impl FnOnce(&mut NamedEdit<'_, 'a>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.edit_named(key, Kind::Set, edit)
    }

    pub(super) fn edit_named<R>(
        &mut self,
        key: KeyRef<'_>,
        kind: Kind,
        edit: impl FnOnce(&mut NamedEdit<'_, 'a>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let before = self.collection(key, kind)?;
        let collection = before.unwrap_or(Collection::new(0, 0, 0));
        let soonest = self.tree.collections.soonest_field(collection);
        let some_are_due = soonest.is_some_and(|deadline| deadline <= self.tree.time);
        let mut named = NamedEdit { tx: self, kind, collection, changed: false, some_are_due };
        let result = edit(&mut named);
        let NamedEdit { collection, changed, .. } = named;
        if changed {
            debug_assert!(result.is_ok(), "refused after a change");
            self.put_edited(key, before.map(|_| soonest), kind, collection);
        }
        result
    }

    /// Takes out up to `limit` fields of the hash under a key that have expired, and only so many bytes of long ones; how many, and whether more may be done.
    pub(super) fn expire_fields(&mut self, key: KeyRef<'_>, of: Collection, limit: usize) -> (usize, bool) {
        let time = self.tree.time;
        let due = self.tree.collections.field_deadlines(of).take_while(|(deadline, _)| *deadline <= time);
        let (mut long, mut is_over) = (LongNames::new(), false);
        let few = |(_, field): &(WallTime, Blob)| !std::mem::replace(&mut is_over, !long.take(field));
        let due: Vec<(WallTime, Blob)> = due.take(limit).take_while(few).collect();
        let Some((soonest, _)) = due.first().cloned() else { return (0, false) };
        let mut named = NamedEdit { tx: self, kind: Kind::Hash, collection: of, changed: false, some_are_due: false };
        due.iter().for_each(|(_, field)| drop(named.take(field)));
        let NamedEdit { collection, .. } = named;
        if collection.is_empty() {
            self.tree.collections.unindex_hash(&Blob::new(key.key), soonest);
            let empty = Value::Hash(collection.with_deadlines(false));
            self.tree.update(key, |record| record.value = empty);
            self.expire(key);
        } else {
            let before = self.changes.len();
            self.put_edited(key, Some(Some(soonest)), Kind::Hash, collection);
            if self.records.is_some() {
                self.expired_fields.extend(before..self.changes.len());
            }
        }
        (due.len(), !is_over)
    }

    /// Writes down that the elements of a key have changed. `before` is none if there was no such key, else the soonest deadline of its fields.
    fn put_edited(
        &mut self,
        key: KeyRef<'_>,
        before: Option<Option<WallTime>>,
        kind: Kind,
        mut collection: Collection,
    ) {
        let is_new = before.is_none();
        let (before, after) = (before.flatten(), self.tree.collections.soonest_field(collection));
        collection = collection.with_deadlines(after.is_some());
        if before != after && !is_new {
            let (name, collections) = (Blob::new(key.key), &mut self.tree.collections);
            before.into_iter().for_each(|before| collections.unindex_hash(&name, before));
            after.into_iter().for_each(|after| collections.index_hash(&name, collection.number(), after));
        }
        self.put_edited_value(key, is_new, Value::of(kind, collection), collection.is_empty());
    }

    /// A value that stands under no key yet: of these names with their values, each named once.
    pub fn make_named(&mut self, kind: Kind, elements: impl Iterator<Item = (Blob, Blob)>) -> Value {
        let collections = &mut self.tree.collections;
        let mut collection = collections.new_collection();
        for (name, value) in elements {
            let key = ElementKey { collection: collection.number(), order: name_order(&name), name };
            collection.grow(key.bytes_with(&value));
            collections.insert_new(key, value);
        }
        Value::of(kind, collection)
    }

    /// A hash that stands under no key yet: of these fields, each named once, with their values and deadlines. Those whose time is up are left out.
    pub fn make_hash(&mut self, fields: Vec<(Blob, Blob, Option<WallTime>)>) -> Value {
        let time = self.tree.time;
        let lasting = fields.into_iter().filter(|(.., deadline)| deadline.is_none_or(|deadline| deadline > time));
        let fields: Vec<(Blob, Blob, Option<WallTime>)> = lasting.collect();
        let pairs = fields.iter().map(|(field, value, _)| (field.clone(), value.clone()));
        let hash = self.make_named(Kind::Hash, pairs).collection().unwrap_or(Collection::new(0, 0, 0));
        let mut has_deadlines = false;
        for (field, _, deadline) in fields.iter().filter(|(.., deadline)| deadline.is_some()) {
            self.tree.collections.move_field_deadline(hash.number(), field, None, *deadline);
            has_deadlines = true;
        }
        Value::Hash(hash.with_deadlines(has_deadlines))
    }

    /// A set that stands under no key yet: of the members, with their orders, that `fill` finds in the collections that there are. It may name one
    /// more than once.
    pub(crate) fn make_set(&mut self, fill: impl FnOnce(&Collections, &mut dyn FnMut(u64, Blob))) -> Value {
        let collections = &mut self.tree.collections;
        // What is read stays as it was: a frozen copy of the map can be read meanwhile.
        let source = collections.clone();
        let paid = source.meter.spent();
        let mut set = Collection::new(0, 0, 0);
        fill(&source, &mut |order, member| {
            if set.number() == 0 {
                set = collections.new_collection();
            }
            let key = ElementKey { collection: set.number(), order, name: member };
            let bytes = key.bytes_with(&Blob::EMPTY);
            if collections.insert(key, Blob::EMPTY).is_none() {
                set.grow(bytes);
            }
        });
        collections.meter.join(&source.meter, paid);
        Value::Set(set)
    }

    /// Pays for a copy of a collection. False if the entry may not cost that: then it will be taken back.
    pub(super) fn pay_copy(&self, of: Collection) -> bool {
        let bytes = usize::try_from(of.bytes()).unwrap_or(usize::MAX);
        self.meter().spend((VISIT + WRITE).saturating_mul(of.len())) && self.meter().make(bytes)
    }

    /// A copy of a value, which shares nothing with it.
    pub fn copy(&mut self, value: &Value) -> Value {
        if let Value::Stream(stream) = value {
            return self.copy_stream(stream);
        }
        let Some((kind, of)) = value.elements() else { return value.clone() };
        // Each element was visited, and is written: paid for before, as nothing of it is needed if that is too much.
        if !self.pay_copy(of) {
            return value.clone();
        }
        let collections = &mut self.tree.collections;
        let copy = Collection::new(collections.new_number(), of.len() as u32, of.bytes());
        let copy = copy.with_deadlines(of.has_deadlines());
        // What is copied stays as it was: a frozen copy of the map can be read meanwhile.
        let source = collections.clone();
        for part in kind.parts(of) {
            for (key, value) in source.range(of.number() | part, std::ops::Bound::Unbounded) {
                collections.insert_new(ElementKey { collection: copy.number() | part, ..key }, value);
            }
        }
        value.with_collection(copy)
    }
}
