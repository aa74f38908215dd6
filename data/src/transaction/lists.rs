//! How a write changes a list: at its ends, or in the middle, where the shorter side moves.

use super::{ChangeKind, Transaction};
use crate::blob::Blob;
use crate::failure::Failure;
use crate::kept::ElementKey;
use crate::store::KeyRef;
use crate::value::{COLLECTION_LEN_MAX, Collection, Kind, LIST_FRONT, List, Value};

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Where index 0 is.
    Left,
    /// Where index -1 is.
    Right,
}

/// A list that is being changed. One that did not exist is made by the first element, and one without elements is removed.
#[derive(Debug)]
pub struct ListEdit<'t, 'a> {
    tx: &'t mut Transaction<'a>,
    /// Of number 0 until there is one.
    list: List,
    changed: bool,
}

impl ListEdit<'_, '_> {
    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.list.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Refuses so many more elements than a list may have. Before the first change.
    pub fn check_room(&self, more: usize) -> Result<(), Failure> {
        if self.len() + more as u64 > COLLECTION_LEN_MAX { Err(Kind::List.is_full()) } else { Ok(()) }
    }

    fn key(&self, index: u64) -> ElementKey {
        ElementKey { collection: self.list.collection.number(), order: self.list.place(index), name: Blob::EMPTY }
    }

    /// The elements from an index on.
    fn from(&self, index: u64) -> impl Iterator<Item = Blob> {
        let elements = self.tx.tree.collections.elements_of(self.list.collection, self.list.place(index));
        elements.map(|(_, _, value)| value)
    }

    /// The element at an end.
    #[must_use]
    pub fn at(&self, end: End) -> Option<Blob> {
        let last = self.len().checked_sub(1)?;
        self.from(if end == End::Left { 0 } else { last }).next()
    }

    /// Adds an element at an end.
    pub fn push(&mut self, end: End, value: impl Into<Blob>) {
        self.changed = true;
        if self.list.collection.number() == 0 {
            self.list.collection = self.tx.tree.collections.new_collection();
        }
        let value = value.into();
        if end == End::Left {
            self.list.front = self.list.front.wrapping_sub(1);
        }
        let key = self.key(if end == End::Left { 0 } else { self.len() });
        self.list.collection.grow(key.bytes_with(&value));
        self.tx.tree.collections.insert_new(key, value);
    }

    /// Takes the element at an end out.
    pub fn pop(&mut self, end: End) -> Option<Blob> {
        let last = self.len().checked_sub(1)?;
        let key = self.key(if end == End::Left { 0 } else { last });
        let value = self.tx.tree.collections.elements.remove(key.as_ref())?;
        self.changed = true;
        self.list.collection.shrink(key.bytes_with(&value));
        if end == End::Left {
            self.list.front = self.list.front.wrapping_add(1);
        }
        Some(value)
    }

    /// Puts another value in place of the element of an index, which there is.
    pub fn set(&mut self, index: u64, value: impl Into<Blob>) {
        let (key, value) = (self.key(index), value.into());
        let Some(before) = self.tx.tree.collections.elements.get(key.as_ref()) else { return };
        self.changed = true;
        self.list.collection.resize(before.heap_bytes() as u64, value.heap_bytes() as u64);
        self.tx.tree.collections.elements.replace(key, value);
    }

    /// Puts an element before the one of an index, or at the end. The shorter side moves by one place.
    pub fn insert(&mut self, index: u64, value: impl Into<Blob>) {
        let value = value.into();
        let is_left = index < self.len() / 2;
        let moved: Vec<Blob> =
            if is_left { self.from(0).take(index as usize).collect() } else { self.from(index).collect() };
        // At its end there is a new place; then everything up to the index moves up to it.
        self.push(if is_left { End::Left } else { End::Right }, value.clone());
        if is_left {
            (0..).zip(moved).for_each(|(to, element)| self.put(to, element));
        } else {
            (index + 1..).zip(moved).for_each(|(to, element)| self.put(to, element));
        }
        self.put(index, value);
    }

    /// Takes out the elements of these indices, which ascend. The shorter side moves up.
    pub fn remove(&mut self, indices: &[u64]) {
        let (Some(&first), Some(&last)) = (indices.first(), indices.last()) else { return };
        let gone = indices.len() as u64;
        let is_left = last + 1 < self.len() - first;
        let (begin, end) = if is_left { (0, last + 1) } else { (first, self.len()) };
        let part: Vec<Blob> = self.from(begin).take((end - begin) as usize).collect();
        let mut indices = indices.iter().peekable();
        let mut kept = Vec::with_capacity(part.len());
        let mut bytes = 0;
        for (index, element) in (begin..).zip(part) {
            if indices.next_if(|gone| **gone == index).is_some() {
                bytes += self.key(index).bytes_with(&element);
            } else {
                kept.push(element);
            }
        }
        let to = if is_left { gone } else { begin };
        (to..).zip(kept).for_each(|(to, element)| self.put(to, element));
        for place in 0..gone {
            let key = self.key(if is_left { place } else { self.len() - 1 - place });
            self.tx.tree.collections.elements.erase(key);
        }
        self.changed = true;
        let collection = self.list.collection;
        let len = collection.len().saturating_sub(gone) as u32;
        self.list.collection = Collection::new(collection.number(), len, collection.bytes().saturating_sub(bytes));
        if is_left {
            self.list.front = self.list.front.wrapping_add(gone);
        }
    }

    /// Puts an element at an index where one stands, whose bytes are counted elsewhere.
    fn put(&mut self, index: u64, value: Blob) {
        let key = self.key(index);
        self.tx.tree.collections.elements.replace(key, value);
    }
}

impl<'a> Transaction<'a> {
    /// A list, `None` if the key does not exist; an error if it holds something else.
    pub fn list(&mut self, key: KeyRef<'_>) -> Result<Option<List>, Failure> {
        self.get(key).map(|record| record.value.into_list()).transpose()
    }

    /// Changes a list; its deadline stays. An error if the key holds something else, or what `edit` refuses: before it has changed anything.
    pub fn edit_list<R>(
        &mut self,
        key: KeyRef<'_>,
        edit: impl FnOnce(&mut ListEdit<'_, 'a>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let before = self.list(key)?;
        let list = before.unwrap_or(List { collection: Collection::new(0, 0, 0), front: LIST_FRONT });
        let mut editing = ListEdit { tx: self, list, changed: false };
        let result = edit(&mut editing);
        let ListEdit { list, changed, .. } = editing;
        if changed {
            debug_assert!(result.is_ok(), "refused after a change");
            self.put_edited_value(key, before.is_none(), Value::List(Box::new(list)), list.is_empty());
        }
        result
    }

    /// A list that stands under no key yet.
    pub fn make_list(&mut self, elements: impl Iterator<Item = Blob>) -> Value {
        let collections = &mut self.tree.collections;
        let mut list = List { collection: collections.new_collection(), front: LIST_FRONT };
        for (order, value) in (LIST_FRONT..).zip(elements) {
            let key = ElementKey { collection: list.collection.number(), order, name: Blob::EMPTY };
            list.collection.grow(key.bytes_with(&value));
            collections.insert_new(key, value);
        }
        Value::List(Box::new(list))
    }

    /// Writes down that the elements of a key have changed.
    pub(super) fn put_edited_value(&mut self, key: KeyRef<'_>, is_new: bool, value: Value, is_empty: bool) {
        if is_empty {
            // No element is left to reclaim.
            if self.tree.update(key, |record| record.value = value).is_some() {
                self.remove(key);
            }
        } else if is_new {
            let deadline = self.deadline_or_default(None);
            self.put(key, value, deadline);
        } else {
            let revision = self.record_change(Blob::new(key.key), ChangeKind::Set);
            self.tree.update(key, |record| {
                record.value = value;
                record.revision = revision;
            });
        }
    }
}
