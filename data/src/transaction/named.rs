//! How a write changes a collection whose elements are found by their names, a hash, a set or a sorted set: element by element, and its record once at the end.

use super::Transaction;
use crate::blob::Blob;
use crate::collections::Collections;
use crate::failure::Failure;
use crate::kept::{ElementKey, ElementRef, element_bytes};
use crate::store::KeyRef;
use crate::value::{COLLECTION_LEN_MAX, Collection, Kind, Value};
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
        let exists = self.collection.number() > 0;
        exists.then(|| self.tx.tree.collections.elements.get(self.place(name))).flatten()
    }

    /// Gives an element a value; whether it is new.
    pub fn set(&mut self, name: &[u8], value: impl Into<Blob>) -> bool {
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
        self.set_over(None, name, Blob::EMPTY);
        true
    }

    /// Gives an element a value, given the one that it has.
    pub(super) fn set_over(&mut self, before: Option<&Blob>, name: &[u8], value: Blob) {
        self.begin();
        let key = self.place(name).to_key();
        let collections = &mut self.tx.tree.collections;
        match before {
            Some(before) => {
                self.collection.resize(before.heap_bytes() as u64, value.heap_bytes() as u64);
                collections.elements.replace(key, value);
            }
            None => {
                self.collection.grow(key.bytes_with(&value));
                collections.insert_new(key, value);
            }
        }
    }

    /// Takes an element out; its value.
    pub fn remove(&mut self, name: &[u8]) -> Option<Blob> {
        if self.is_empty() {
            return None;
        }
        let old = self.tx.tree.collections.elements.remove(self.place(name))?;
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
        let mut named = NamedEdit { tx: self, kind, collection, changed: false };
        let result = edit(&mut named);
        let NamedEdit { collection, changed, .. } = named;
        if changed {
            debug_assert!(result.is_ok(), "refused after a change");
            self.put_edited_value(key, before.is_none(), Value::of(kind, collection), collection.is_empty());
        }
        result
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

    /// A set that stands under no key yet: of the members, with their orders, that `fill` finds in the collections that there are. It may name one
    /// more than once.
    pub(crate) fn make_set(&mut self, fill: impl FnOnce(&Collections, &mut dyn FnMut(u64, Blob))) -> Value {
        let collections = &mut self.tree.collections;
        // What is read stays as it was: a frozen copy of the map can be read meanwhile.
        let source = collections.clone();
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
        Value::Set(set)
    }

    /// A copy of a value, which shares nothing with it.
    pub fn copy(&mut self, value: &Value) -> Value {
        let Some((kind, of)) = value.elements() else { return value.clone() };
        let collections = &mut self.tree.collections;
        let copy = Collection::new(collections.new_number(), of.len() as u32, of.bytes());
        // What is copied stays as it was: a frozen copy of the map can be read meanwhile.
        let source = collections.clone();
        for part in kind.parts() {
            for (key, value) in source.range(of.number() | part, std::ops::Bound::Unbounded) {
                collections.insert_new(ElementKey { collection: copy.number() | part, ..key }, value);
            }
        }
        value.with_collection(copy)
    }
}
