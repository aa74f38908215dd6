//! How a write changes a list: at its ends, or in the middle, where the shorter side moves.

use super::{ChangeKind, Transaction};
use crate::blob::{Blob, INLINE_BYTES_MAX};
use crate::collections::listed::{BLOCK_PLACES, Slot, block_ref, find_slot, is_packed, own_ref, read_slot, slot};
use crate::failure::Failure;
use crate::kept::{ElementRef, Elements, element_bytes};
use crate::layers::Layers;
use crate::meter::VISIT;
use crate::store::KeyRef;
use crate::value::{COLLECTION_LEN_MAX, Kind, List, Value};
use std::ops::Range;

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

    /// Elements that stand by themselves, and blocks, in this list's collection.
    fn elements(&mut self) -> &mut Layers<Elements> {
        &mut self.tx.tree.collections.elements
    }

    /// The places that a block has elements for.
    fn places_of(&self, block: u64) -> Range<u64> {
        block.max(self.list.front)..(block + BLOCK_PLACES).min(self.list.place(self.len()))
    }

    /// The element at an end.
    #[must_use]
    pub fn at(&self, end: End) -> Option<Blob> {
        let last = self.len().checked_sub(1)?;
        self.tx.tree.collections.list_element(self.list, if end == End::Left { 0 } else { last })
    }

    /// Adds an element at an end.
    pub fn push(&mut self, end: End, value: impl Into<Blob>) {
        self.changed = true;
        let value = value.into();
        self.tx.meter().write(value.len());
        if self.list.collection.number() == 0 {
            self.list.collection = self.tx.tree.collections.new_collection();
        }
        let place = match end {
            End::Left => self.list.front.wrapping_sub(1),
            End::Right => self.list.place(self.len()),
        };
        let block = block_ref(self.list.collection.number(), place);
        let (head, bytes) = slot(&value);
        let places = self.places_of(block.order);
        let places_len = places.end.saturating_sub(places.start);
        if places_len == 0 {
            let fresh = Blob::from([&[head], bytes].concat());
            self.list.collection.resize(0, element_bytes(0, fresh.heap_bytes()));
            self.tx.tree.collections.insert_new(block.to_key(), fresh);
        } else {
            self.edit_block(block, places_len + 1, |content| match end {
                End::Left => drop(content.splice(..0, [head].into_iter().chain(bytes.iter().copied()))),
                End::Right => {
                    content.push(head);
                    content.extend_from_slice(bytes);
                }
            });
        }
        if !is_packed(&value) {
            self.insert_own(place, value);
        }
        self.list.collection.grow(0);
        if end == End::Left {
            self.list.front = place;
        }
    }

    /// Takes the element at an end out.
    pub fn pop(&mut self, end: End) -> Option<Blob> {
        let last = self.len().checked_sub(1)?;
        self.tx.meter().spend(VISIT);
        let place = self.list.place(if end == End::Left { 0 } else { last });
        let block = block_ref(self.list.collection.number(), place);
        let places = self.places_of(block.order);
        let packed = if places.end - places.start == 1 {
            let gone = self.elements().remove(block)?;
            self.list.collection.resize(element_bytes(0, gone.heap_bytes()), 0);
            packed_in(&gone, 0)
        } else {
            self.edit_block(block, places.end - places.start - 1, |content| {
                let at = find_slot(content, if end == End::Left { 0 } else { places.end - places.start - 1 })?;
                let next = read_slot(content, at)?.1;
                let packed = packed_in(content, at);
                content.drain(at..next);
                Some(packed)
            })??
        };
        let value = match packed {
            Some(value) => value,
            None => self.remove_own(place)?,
        };
        self.changed = true;
        self.list.collection.shrink(0);
        if end == End::Left {
            self.list.front = self.list.front.wrapping_add(1);
        }
        Some(value)
    }

    /// Puts another value in place of the element of an index, which there is.
    pub fn set(&mut self, index: u64, value: impl Into<Blob>) {
        let (place, value) = (self.list.place(index), value.into());
        let block = block_ref(self.list.collection.number(), place);
        let places = self.places_of(block.order);
        let number = place - places.start;
        let replaced = self.edit_block(block, places.end - places.start, |content| {
            let at = find_slot(content, number)?;
            let (before, next) = read_slot(content, at)?;
            let was_packed = before != Slot::Own;
            let (head, bytes) = slot(&value);
            content.splice(at..next, [head].into_iter().chain(bytes.iter().copied()));
            Some(was_packed)
        });
        let Some(Some(was_packed)) = replaced else { return };
        self.changed = true;
        if !was_packed {
            self.remove_own(place);
        }
        if !is_packed(&value) {
            self.insert_own(place, value);
        }
    }

    /// Puts an element before the one of an index, or at the end. What is on the shorter side is taken out and put back.
    pub fn insert(&mut self, index: u64, value: impl Into<Blob>) {
        let side = if index < self.len() / 2 { End::Left } else { End::Right };
        let moved = if side == End::Left { index } else { self.len() - index };
        let moved: Vec<Blob> = (0..moved).map_while(|_| self.pop(side)).collect();
        self.push(side, value);
        moved.into_iter().rev().for_each(|element| self.push(side, element));
    }

    /// Takes out the elements of these indices, which ascend. What is on the shorter side of all of them moves up.
    pub fn remove(&mut self, indices: &[u64]) {
        let (Some(&first), Some(&last)) = (indices.first(), indices.last()) else { return };
        let len = self.len();
        let (side, moved) = if last + 1 < len - first { (End::Left, last + 1) } else { (End::Right, len - first) };
        let mut kept = Vec::new();
        for step in 0..moved {
            let index = if side == End::Left { step } else { len - 1 - step };
            let Some(element) = self.pop(side) else { break };
            if indices.binary_search(&index).is_err() {
                kept.push(element);
            }
        }
        kept.into_iter().rev().for_each(|element| self.push(side, element));
    }

    /// Changes a block where it stands, which has so many places then. `None` if it cannot be read.
    fn edit_block<R>(&mut self, block: ElementRef<'_>, places: u64, edit: impl FnOnce(&mut Vec<u8>) -> R) -> Option<R> {
        let (result, before, after) = self.elements().update(block, |blob| {
            let before = blob.heap_bytes();
            let result = edit(blob.edit());
            // A short one needs no allocation.
            if blob.len() <= INLINE_BYTES_MAX {
                *blob = Blob::new(blob);
            } else {
                fit(blob.edit(), places == BLOCK_PLACES);
            }
            (result, before, blob.heap_bytes())
        })?;
        self.list.collection.resize(before as u64, after as u64);
        Some(result)
    }

    fn insert_own(&mut self, place: u64, value: Blob) {
        let key = own_ref(self.list.collection.number(), place).to_key();
        self.list.collection.resize(0, key.bytes_with(&value));
        self.list.own += 1;
        self.tx.tree.collections.insert_new(key, value);
    }

    fn remove_own(&mut self, place: u64) -> Option<Blob> {
        let key = own_ref(self.list.collection.number(), place);
        let value = self.elements().remove(key)?;
        self.list.collection.resize(element_bytes(0, value.heap_bytes()), 0);
        self.list.own = self.list.own.saturating_sub(1);
        Some(value)
    }
}

/// Gives back room that a block has to spare, which no quota counts: all of it if it is full, as a list has many full ones and none of them
/// grows; most of it if elements went and few are left, as that may be so of each of many lists.
fn fit(content: &mut Vec<u8>, is_full: bool) {
    let len = content.len();
    if is_full {
        content.shrink_to_fit();
    } else if content.capacity() > 4 * len {
        content.shrink_to(2 * len);
    }
}

/// A copy of the element at a byte of a block; none if it stands by itself.
fn packed_in(block: &[u8], at: usize) -> Option<Blob> {
    match read_slot(block, at)?.0 {
        Slot::Packed(bytes) => Some(Blob::new(bytes)),
        Slot::Own => None,
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
        let is_old = before.is_some_and(|list| list.is_by_place());
        let list = match before {
            Some(list) if is_old => self.in_blocks(list),
            before => before.unwrap_or_default(),
        };
        let mut editing = ListEdit { tx: self, list, changed: is_old };
        let result = edit(&mut editing);
        let ListEdit { list, changed, .. } = editing;
        if changed {
            debug_assert!(is_old || result.is_ok(), "refused after a change");
            self.put_edited_value(key, before.is_none(), Value::List(Box::new(list)), list.is_empty());
        }
        result
    }

    /// The same list with blocks, as a new collection; the old one is given up.
    fn in_blocks(&mut self, list: List) -> List {
        let elements: Vec<Blob> = self.tree.collections.list_between(list, 0, list.len()).collect();
        let made = self.make_list(elements.into_iter());
        self.tree.collections.give_up((Kind::List, list.collection));
        made.into_list().unwrap_or_default()
    }

    /// A list that stands under no key yet.
    pub fn make_list(&mut self, elements: impl Iterator<Item = Blob>) -> Value {
        let list = List { collection: self.tree.collections.new_collection(), ..List::default() };
        let mut edit = ListEdit { tx: self, list, changed: false };
        elements.for_each(|element| edit.push(End::Right, element));
        Value::List(Box::new(edit.list))
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

#[cfg(test)]
mod tests;
