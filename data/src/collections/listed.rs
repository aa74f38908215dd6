//! The elements of a list: in blocks, found by their places.
//!
//! ```text
//!   (number, first place of a block, "")  ─► up to 64 elements, one behind the other     | 1 + length: 1 byte, or 0 | bytes |
//!   (number, place, "+")                  ─► an element of more than 128 bytes, for which its block has only the 0
//! ```
//! A block holds the elements of 64 places. Of the first and the last block only those are there that the list still has, so
//! that what is stored follows from the list alone. A queue changes a block a few dozen times in memory, and a flush writes it
//! at most once. Elements of more bytes stand behind their block: a walk meets them when it needs them, and none is written again
//! because of its neighbours.
//!
//! Before version 11 of the state each element stood by itself, at `(number, place, "")`. Such lists are read ([`List::is_by_place`]) until they are changed,
//! which makes new ones of them.

use super::Collections;
use crate::blob::Blob;
use crate::kept::{ElementKey, ElementRef};
use crate::meter::LOOKUP;
use crate::value::List;
use std::ops::Bound;

/// Places of a block; a power of two.
pub(crate) const BLOCK_PLACES: u64 = if cfg!(test) { 4 } else { 64 };
/// Longest element that stands in its block. A block never has more than 8 KiB, so that changing it in place costs little.
pub(crate) const PACKED_BYTES_MAX: usize = if cfg!(test) { 24 } else { 128 };
/// The name of an element that stands by itself.
const BY_ITSELF: &[u8] = b"+";

const _: () = assert!(BLOCK_PLACES.is_power_of_two() && PACKED_BYTES_MAX < u8::MAX as usize);

/// The first place of the block that a place belongs to.
pub(crate) fn block_of(place: u64) -> u64 {
    place & !(BLOCK_PLACES - 1)
}

/// How many blocks hold the places from one up to another.
pub(crate) fn blocks_between(start: u64, end: u64) -> u64 {
    if start < end { (block_of(end - 1) - block_of(start)) / BLOCK_PLACES + 1 } else { 0 }
}

/// Where the block of a place stands.
pub(crate) fn block_ref(collection: u64, place: u64) -> ElementRef<'static> {
    ElementRef { collection, order: block_of(place), name: b"" }
}

/// Where the element of a place stands, if it stands by itself.
pub(crate) fn own_ref(collection: u64, place: u64) -> ElementRef<'static> {
    ElementRef { collection, order: place, name: BY_ITSELF }
}

/// Whether an element stands in its block.
pub(crate) fn is_packed(element: &[u8]) -> bool {
    element.len() <= PACKED_BYTES_MAX
}

/// What a block has for an element: a byte, and those that follow it.
pub(crate) fn slot(element: &[u8]) -> (u8, &[u8]) {
    if is_packed(element) { (element.len() as u8 + 1, element) } else { (0, b"") }
}

/// What a block says of one of its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot<'a> {
    /// It stands here.
    Packed(&'a [u8]),
    /// It stands by itself.
    Own,
}

/// The slot that begins at a byte of a block, and where the next one begins. `None` at the end, and of what is no block.
pub(crate) fn read_slot(block: &[u8], at: usize) -> Option<(Slot<'_>, usize)> {
    match usize::from(*block.get(at)?) {
        0 => Some((Slot::Own, at + 1)),
        length => Some((Slot::Packed(block.get(at + 1..at + length)?), at + length)),
    }
}

/// The byte of a block at which its slot of that number begins.
pub(crate) fn find_slot(block: &[u8], number: u64) -> Option<usize> {
    (0..number).try_fold(0, |at, _| Some(read_slot(block, at)?.1))
}

/// Goes through elements of a list.
struct Walk<I> {
    pairs: I,
    /// There are no blocks: the pairs are the elements.
    by_place: bool,
    front: u64,
    /// The places that are wanted.
    start: u64,
    end: u64,
    /// The block in which the walk is, from which byte it is to be read on, and of which place.
    block: Blob,
    at: usize,
    place: u64,
}

impl<I: Iterator<Item = (ElementKey, Blob)>> Walk<I> {
    fn next_block(&mut self) -> Option<()> {
        let (key, block) = self.pairs.find(|(key, _)| key.name.is_empty())?;
        (self.block, self.at, self.place) = (block, 0, key.order.max(self.front));
        Some(())
    }
}

impl<I: Iterator<Item = (ElementKey, Blob)>> Iterator for Walk<I> {
    type Item = Blob;

    fn next(&mut self) -> Option<Blob> {
        if self.by_place {
            return self.pairs.next().map(|(_, element)| element);
        }
        while self.place < self.end {
            if self.at == self.block.len() {
                self.next_block()?;
                continue;
            }
            let (slot, next) = read_slot(&self.block, self.at)?;
            let place = self.place;
            self.at = next;
            self.place += 1;
            if place < self.start {
                continue;
            }
            return match slot {
                Slot::Packed(bytes) => Some(Blob::new(bytes)),
                Slot::Own => {
                    let (key, element) = self.pairs.find(|(key, _)| key.order >= place)?;
                    (key.order == place).then_some(element)
                }
            };
        }
        None
    }
}

impl Collections {
    /// The elements of a list from an index up to another one, or to its end.
    pub(crate) fn list_between(&self, list: List, start: u64, end: u64) -> impl Iterator<Item = Blob> + use<'_> {
        let end = end.min(list.len());
        let places = (start < end).then(|| (list.place(start), list.place(end)));
        places.into_iter().flat_map(move |(start, end)| {
            let number = list.collection.number();
            // Told where it ends, a walk does not look at what stands behind: while a flush is writing a long list, each LRANGE at its beginning
            // would pass over all that the store has of it and may not show yet.
            let behind = ElementKey { collection: number, order: end, name: Blob::EMPTY };
            let first = block_of(start).max(list.front);
            // In the middle of a block, what stands by itself before the first one that is wanted may be long and many: it is not read.
            let by_place = list.is_by_place();
            let (block, from) = if by_place {
                (Blob::EMPTY, (start, &b""[..]))
            } else if list.own > 0 && first < start {
                (self.elements.get(block_ref(number, start)).unwrap_or_default(), (start, BY_ITSELF))
            } else {
                (Blob::EMPTY, (block_of(start), &b""[..]))
            };
            let pairs = self.range_before(number, Bound::Included(from), &behind);
            let walk = Walk { pairs, by_place, front: list.front, start, end, block, at: 0, place: first };
            walk.take_while(|element| self.meter.visit(element.len()))
        })
    }

    /// The same elements, the last one first.
    pub(crate) fn list_backwards(&self, list: List, start: u64, end: u64) -> impl Iterator<Item = Blob> + use<'_> {
        let (number, start) = (list.collection.number(), list.place(start));
        let mut behind = list.place(end.min(list.len()));
        let parts = std::iter::from_fn(move || {
            let last = behind.checked_sub(1).filter(|last| *last >= start)?;
            let first = block_of(last).max(start);
            Some(first..std::mem::replace(&mut behind, first))
        });
        let name = if list.is_by_place() { b"" } else { BY_ITSELF };
        let own = move |place| self.elements.get(ElementRef { collection: number, order: place, name });
        let backwards = parts.flat_map(move |places| {
            let slots: Vec<(u64, Option<Blob>)> = if list.is_by_place() {
                places.map(|place| (place, None)).collect()
            } else {
                let block = self.elements.get(block_ref(number, places.start)).unwrap_or_default();
                let mut at = find_slot(&block, places.start - block_of(places.start).max(list.front));
                let slots = places.map_while(|place| {
                    let (slot, next) = read_slot(&block, at?)?;
                    at = Some(next);
                    Some((place, if let Slot::Packed(bytes) = slot { Some(Blob::new(bytes)) } else { None }))
                });
                slots.collect()
            };
            // What stands by itself is read when its turn comes: a block of them may have any size.
            slots.into_iter().rev().map_while(move |(place, packed)| packed.or_else(|| own(place)))
        });
        backwards.take_while(|element| self.meter.visit(element.len()))
    }

    /// The element of an index.
    pub(crate) fn list_element(&self, list: List, index: u64) -> Option<Blob> {
        if index >= list.len() {
            return None;
        }
        self.meter.spend(LOOKUP);
        let (number, place) = (list.collection.number(), list.place(index));
        if list.is_by_place() {
            return self.elements.get(ElementRef { collection: number, order: place, name: b"" });
        }
        let block = self.elements.get(block_ref(number, place))?;
        let at = find_slot(&block, place - block_of(place).max(list.front))?;
        match read_slot(&block, at)?.0 {
            Slot::Packed(bytes) => Some(Blob::new(bytes)),
            Slot::Own => self.elements.get(own_ref(number, place)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_block_ends_and_does_no_harm() {
        assert_eq!(read_slot(&[], 0), None);
        assert_eq!(read_slot(&[4, b'a'], 0), None);
        assert_eq!(read_slot(&[1], 0), Some((Slot::Packed(b""), 1)));
        assert_eq!(read_slot(&[0, 2, b'a'], 1), Some((Slot::Packed(b"a"), 3)));
        assert_eq!(find_slot(&[0, 2, b'a', 1], 2), Some(3));
        assert_eq!(find_slot(&[0, 2, b'a', 1], 5), None);
    }

    #[test]
    fn blocks_are_counted_by_places() {
        let middle = 1 << 63;
        let all = BLOCK_PLACES;
        for (start, end, blocks) in [(middle, middle, 0), (middle, middle + all, 1), (middle - 1, middle + all + 1, 3)]
        {
            assert_eq!(blocks_between(start, end), blocks);
        }
    }
}
