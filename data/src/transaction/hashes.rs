//! How a write changes a hash: field by field, and its record once at the end.

use super::{ChangeKind, Transaction};
use crate::blob::Blob;
use crate::failure::Failure;
use crate::kept::{ElementKey, ElementRef, element_bytes};
use crate::store::KeyRef;
use crate::value::{COLLECTION_LEN_MAX, Collection, Value};
use base::checksum::xxh3;

/// Where the fields of a hash stand: by their hashes, so that a cursor is a number and chance can point among them.
#[must_use]
pub fn field_order(field: &[u8]) -> u64 {
    xxh3(field)
}

/// A hash that is being changed. One that did not exist is made by the first field, and one without fields is removed.
#[derive(Debug)]
pub struct HashEdit<'t, 'a> {
    tx: &'t mut Transaction<'a>,
    /// Of number 0 until there is one.
    collection: Collection,
    changed: bool,
}

impl HashEdit<'_, '_> {
    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.collection.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses so many more fields than a hash may have. Before the first change.
    pub fn check_room(&self, more: usize) -> Result<(), Failure> {
        if self.len() + more as u64 > COLLECTION_LEN_MAX {
            return Err(Failure::Text("ERR a hash has at most 4294967295 fields"));
        }
        Ok(())
    }

    /// The value of a field.
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<Blob> {
        let exists = self.collection.number() > 0;
        exists.then(|| self.tx.tree.collections.elements.get(self.place(field))).flatten()
    }

    /// Gives a field a value; whether it is new.
    pub fn set(&mut self, field: &[u8], value: impl Into<Blob>) -> bool {
        if self.collection.number() == 0 {
            self.collection = Collection::new(self.tx.tree.collections.new_number(), 0, 0);
        }
        let value = value.into();
        let key = self.place(field).to_key();
        let (name_bytes, value_bytes) = (key.name.heap_bytes(), value.heap_bytes());
        let old = self.tx.tree.collections.insert(key, value);
        self.changed = true;
        match &old {
            Some(old) => self.collection.resize(old.heap_bytes() as u64, value_bytes as u64),
            None => self.collection.grow(element_bytes(name_bytes, value_bytes)),
        }
        old.is_none()
    }

    /// Takes a field out; its value.
    pub fn remove(&mut self, field: &[u8]) -> Option<Blob> {
        if self.is_empty() {
            return None;
        }
        let old = self.tx.tree.collections.elements.remove(self.place(field))?;
        self.changed = true;
        self.collection.shrink(element_bytes(Blob::new(field).heap_bytes(), old.heap_bytes()));
        Some(old)
    }

    fn place<'f>(&self, field: &'f [u8]) -> ElementRef<'f> {
        ElementRef { collection: self.collection.number(), order: field_order(field), name: field }
    }
}

impl<'a> Transaction<'a> {
    /// The collection of a hash, `None` if the key does not exist; an error if it holds something else.
    pub fn hash(&mut self, key: KeyRef<'_>) -> Result<Option<Collection>, Failure> {
        self.get(key).map(|record| record.value.into_hash()).transpose()
    }

    /// Changes a hash; its deadline stays. An error if the key holds something else, or what `edit` refuses: before it has changed anything.
    pub fn edit_hash<R>(
        &mut self,
        key: KeyRef<'_>,
        edit: impl FnOnce(&mut HashEdit<'_, 'a>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let found = self.hash(key)?;
        let is_new = found.is_none();
        let mut hash = HashEdit { tx: self, collection: found.unwrap_or(Collection::new(0, 0, 0)), changed: false };
        let result = edit(&mut hash);
        let HashEdit { collection, changed, .. } = hash;
        if !changed {
            return result;
        }
        debug_assert!(result.is_ok(), "refused after a change");
        if collection.is_empty() {
            // No element is left to reclaim.
            if self.tree.update(key, |record| record.value = Value::Hash(collection)).is_some() {
                self.remove(key);
            }
        } else if is_new {
            let deadline = self.deadline_or_default(None);
            self.put(key, Value::Hash(collection), deadline);
        } else {
            let revision = self.record_change(Blob::new(key.key), ChangeKind::Set);
            self.tree.update(key, |record| {
                record.value = Value::Hash(collection);
                record.revision = revision;
            });
        }
        result
    }

    /// A hash that stands under no key yet: of these fields, each named once.
    pub fn make_hash(&mut self, fields: impl Iterator<Item = (Blob, Blob)>) -> Value {
        let collections = &mut self.tree.collections;
        let mut collection = Collection::new(collections.new_number(), 0, 0);
        for (name, value) in fields {
            collection.grow(element_bytes(name.heap_bytes(), value.heap_bytes()));
            let order = field_order(&name);
            collections.insert_new(ElementKey { collection: collection.number(), order, name }, value);
        }
        Value::Hash(collection)
    }

    /// A copy of a value, which shares nothing with it.
    pub fn copy(&mut self, value: &Value) -> Value {
        let Some(of) = value.collection() else { return value.clone() };
        let collections = &mut self.tree.collections;
        let copy = Collection::new(collections.new_number(), of.len() as u32, of.bytes());
        // What is copied stays as it was: a frozen copy of the map can be read meanwhile.
        let source = collections.clone();
        for (key, value) in source.range(of.number(), std::ops::Bound::Unbounded) {
            collections.insert_new(ElementKey { collection: copy.number(), ..key }, value);
        }
        Value::Hash(copy)
    }
}
