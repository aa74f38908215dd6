//! Collections: values that are stored by element, so that adding to a large one costs what adding to a small one costs.
//!
//! ```text
//!   key ─► record: Value::Hash { number, elements, bytes }, or another type  (`layers.rs`, as any record)
//!   (number, order, name) ─► value                                  (`layers.rs`, a map of its own)
//!   (number and part, …)                            of a sorted set, which has several parts (`collections/ranked.rs`)
//!   (number and part, …)                            of a stream (`collections/streams.rs`)
//!   (number, place of a block, …)                   of a list, whose elements share blocks (`collections/listed.rs`)
//!   (0, place in the queue, "") ─► number | how far                 given up, and not reclaimed yet
//!   (0 and a part, …)                               scripts and libraries (`collections/code.rs`)
//! ```
//! **Giving up** a collection (its key is deleted, overwritten, expired, evicted) costs the same whatever its size: its number goes into a
//! queue, which is kept as elements of the collection 0. Elements that nobody can reach are *reclaimed* a few at a time, by entries of the log, so that
//! equal logs still make equal states:
//! 1. an entry that adds elements owes as many; when [`PORTION`] are owed, they are reclaimed. So while there is a queue the number
//!    of stored elements does not grow, whatever clients do;
//! 2. an expiry entry reclaims up to its limit. The leader proposes some as long as there is a queue, also when nothing else happens.
//!
//! How far the first of the queue is reclaimed is written down: what follows is found without passing over what is gone.

use crate::blob::Blob;
use crate::image::Malformed;
use crate::kept::{ElementKey, ElementRef, Elements, LongNames};
use crate::layers::{Layer, Layers};
use crate::meter::{LOOKUP, Meter};
use crate::tree::Tree;
use crate::value::{Collection, Kind, Value};
use base::checksum::xxh3;
use base::limits::KEY_BYTES_MAX;
use base::ordered::Space;
use std::collections::BTreeSet;
use std::ops::{Bound, Range};

/// Elements that are reclaimed at once, at least: finding the first of them costs more than one.
const PORTION: u64 = if cfg!(test) { 3 } else { 32 };
/// Of so many elements that were checked one word is said.
const PROGRESS_ELEMENTS: u64 = 10_000;
/// The collection that is the queue.
const QUEUE: u64 = 0;
/// The highest bits of a number: what part of a collection its elements are. Most types have one part only.
const PARTS: u64 = 3 << 62;
/// The members of a sorted set by their scores.
pub(crate) const PART_SCORES: u64 = 1 << 62;
/// Counts of members, by which ranks are found.
pub(crate) const PART_COUNTS: u64 = 2 << 62;
/// The blocks of a stream. No collection is both: a sorted set has no blocks, a stream no scores.
pub(crate) const PART_BLOCKS: u64 = PART_SCORES;
/// The consumer groups of a stream.
pub(crate) const PART_GROUPS: u64 = 3 << 62;
/// Where groups stand in that part. Deadlines of fields, which the same part of a hash holds, come nowhere near.
pub(crate) const GROUP_ORDER: u64 = u64::MAX;

pub(crate) mod boundaries;
pub(crate) mod code;
pub(crate) mod fading;
pub(crate) mod few;
pub(crate) mod fronts;
pub(crate) mod listed;
pub(crate) mod ranked;
pub(crate) mod streams;

/// The elements of all collections, and the numbers that belong to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collections {
    pub elements: Layers<Elements>,
    pub counts: CollectionCounts,
    pub fronts: fronts::Fronts,
    pub boundaries: boundaries::Boundaries,
    pub soonest: fading::Soonest,
    pub few: few::Few,
    /// What the entry, or the read, that is under way has cost. Not part of the state.
    pub meter: Meter,
}

/// The part of the state that is numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CollectionCounts {
    /// The number of the next collection. No number is given twice.
    pub next_number: u64,
    /// The places in the queue that are taken: the first of them is reclaimed first.
    pub queue: Range<u64>,
    /// Elements to be reclaimed for those that were added; less than [`PORTION`].
    pub owed: u64,
}

impl Default for CollectionCounts {
    fn default() -> CollectionCounts {
        CollectionCounts { next_number: QUEUE + 1, queue: 0..0, owed: 0 }
    }
}

impl CollectionCounts {
    /// As they are written: next number, first and end of the queue, owed.
    pub(crate) fn numbers(&self) -> [u64; 4] {
        [self.next_number, self.queue.start, self.queue.end, self.owed]
    }

    pub(crate) fn from_numbers([next_number, start, end, owed]: [u64; 4]) -> Result<CollectionCounts, Malformed> {
        let counts = CollectionCounts { next_number, queue: start..end, owed };
        let sound = next_number > QUEUE && start <= end && next_number.max(end).max(owed) < 1 << 62;
        if sound { Ok(counts) } else { Err(Malformed("the counts of collections contradict each other")) }
    }
}

impl Collections {
    /// A number that was never given.
    pub(crate) fn new_number(&mut self) -> u64 {
        self.counts.next_number += 1;
        self.counts.next_number - 1
    }

    /// A collection without elements, of a number that was never given.
    pub(crate) fn new_collection(&mut self) -> Collection {
        Collection::new(self.new_number(), 0, 0)
    }

    /// Collections that are given up and not reclaimed yet.
    pub(crate) fn given_up(&self) -> u64 {
        self.counts.queue.end - self.counts.queue.start
    }

    /// Puts an element in place and returns the value of the one that stood there.
    pub(crate) fn insert(&mut self, key: ElementKey, value: Blob) -> Option<Blob> {
        self.meter.write(value.len());
        self.meter.write_name(&key.name);
        let old = self.elements.insert(key, value);
        self.counts.owed += u64::from(old.is_none());
        old
    }

    /// Puts an element in place where none stood.
    pub(crate) fn insert_new(&mut self, key: ElementKey, value: Blob) {
        self.meter.write(value.len());
        self.meter.write_name(&key.name);
        self.elements.insert_new(key, value);
        self.counts.owed += 1;
    }

    /// A collection's elements in order, from `start` on: its order and its name, or the first.
    pub(crate) fn range<'c>(
        &'c self,
        collection: u64,
        start: Bound<(u64, &[u8])>,
    ) -> impl Iterator<Item = (ElementKey, Blob)> + use<'c> {
        let end = ElementKey { collection: collection.saturating_add(1), order: 0, name: Blob::EMPTY };
        self.range_before(collection, start, &end)
    }

    /// The same up to `end`.
    fn range_before<'c>(
        &'c self,
        collection: u64,
        start: Bound<(u64, &[u8])>,
        end: &ElementKey,
    ) -> impl Iterator<Item = (ElementKey, Blob)> + use<'c> {
        let start = match start {
            Bound::Unbounded => Bound::Included(ElementRef { collection, order: 0, name: b"" }),
            bound => bound.map(|(order, name)| ElementRef { collection, order, name }),
        };
        self.elements.range_before(start, Some(end))
    }

    /// An element of a collection.
    pub(crate) fn element(&self, of: Collection, order: u64, name: &[u8]) -> Option<Blob> {
        self.meter.spend(LOOKUP);
        self.meter.look_at_name(name);
        self.elements.get(ElementRef { collection: of.number(), order, name })
    }

    /// The elements of a collection from `order` on, in their order: order, name, value. Ends when the meter does.
    pub(crate) fn elements_of(&self, of: Collection, order: u64) -> impl Iterator<Item = (u64, Blob, Blob)> {
        let elements = self.elements_unmetered(of, order);
        elements.take_while(|(_, name, value)| self.meter.visit(name.len() + value.len()))
    }

    /// The same for what is no command's work.
    fn elements_unmetered(&self, of: Collection, order: u64) -> impl Iterator<Item = (u64, Blob, Blob)> {
        let elements = self.range(of.number(), Bound::Included((order, b"")));
        elements.map(|(key, value)| (key.order, key.name, value))
    }

    /// Nobody reaches the elements of this collection any more.
    pub(crate) fn give_up(&mut self, (kind, collection): (Kind, Collection)) {
        self.boundaries.forget(collection.number());
        self.few.forget(collection.number());
        // A stream without entries may have groups.
        for part in kind.parts(collection).iter().filter(|_| kind == Kind::Stream || !collection.is_empty()) {
            self.give_up_number(collection.number() | part);
        }
    }

    /// The same of what has this number, part included.
    pub(crate) fn give_up_number(&mut self, number: u64) {
        let place = self.counts.queue.end;
        self.counts.queue.end += 1;
        self.elements.insert_new(queue_key(place), Blob::new(&number.to_be_bytes()));
    }

    /// At the end of an entry: reclaims what it owes.
    pub(crate) fn settle(&mut self) {
        if self.counts.queue.is_empty() {
            self.counts.owed = 0;
        } else if self.counts.owed >= PORTION {
            self.reclaim(self.counts.owed);
            self.counts.owed = 0;
        }
    }

    /// Takes out up to `limit` elements that nobody reaches, and places of the queue.
    pub(crate) fn reclaim(&mut self, limit: u64) {
        let mut left = limit;
        let (mut long, mut is_over) = (LongNames::new(), false);
        while left > 0 && !self.counts.queue.is_empty() {
            let place = queue_key(self.counts.queue.start);
            // Only if the store below is in trouble is there nothing.
            let Some((number, after)) = self.elements.get(place.as_ref()).as_deref().and_then(read_place) else {
                return;
            };
            let start = match &after {
                Some(after) => Bound::Excluded((after.order, &*after.name)),
                None => Bound::Unbounded,
            };
            let room = usize::try_from(left).unwrap_or(usize::MAX);
            let mut groups = Vec::new();
            let few = |(key, _): &(ElementKey, Blob)| !std::mem::replace(&mut is_over, !long.take(&key.name));
            let gone = self.range(number, start).take(room).take_while(few).map(|(key, value)| {
                if number & PARTS == PART_GROUPS && key.order == GROUP_ORDER {
                    groups.extend(streams::Group::read(&value));
                }
                key
            });
            let gone: Vec<ElementKey> = gone.collect();
            // What a group of a stream holds is reached by nobody from now on.
            groups.iter().for_each(|group| self.give_up_number(group.held.number()));
            left = if is_over { 0 } else { left - gone.len() as u64 };
            let last = gone.last().cloned();
            gone.into_iter().for_each(|key| self.elements.erase(key));
            match last.filter(|_| left == 0) {
                Some(last) => {
                    self.elements.insert(place, place_value(number, &last));
                }
                None => {
                    self.elements.erase(place);
                    self.counts.queue.start += 1;
                    left = left.saturating_sub(1);
                }
            }
        }
    }

    /// Forgets what is known by heart, and is no part of the state.
    pub(crate) fn forget_what_is_known(&mut self) {
        self.fronts = fronts::Fronts::default();
        self.boundaries = boundaries::Boundaries::default();
        self.soonest = fading::Soonest::default();
        self.few = few::Few::default();
    }

    /// Takes everything out; returns what is to be freed a little at a time, and the spaces that nobody needs any more.
    pub(crate) fn clear(&mut self) -> (Vec<Layer<Elements>>, [Option<Space>; 2]) {
        let end = self.counts.queue.end;
        self.counts = CollectionCounts { queue: end..end, owed: 0, ..self.counts.clone() };
        self.forget_what_is_known();
        let code = self.take_code();
        let cleared = self.elements.clear();
        code.into_iter().for_each(|(key, value)| self.elements.insert_new(key, value));
        cleared
    }
}

fn queue_key(place: u64) -> ElementKey {
    ElementKey { collection: QUEUE, order: place, name: Blob::EMPTY }
}

/// | number: 8 bytes | nothing, or the last element that is gone: order: 8 bytes, name |
///
/// The beginning of a long name does: all that stands behind it and is still there stands behind the whole.
fn place_value(number: u64, last: &ElementKey) -> Blob {
    let name = last.name.get(..KEY_BYTES_MAX).unwrap_or(&last.name);
    Blob::from([&number.to_be_bytes()[..], &last.order.to_be_bytes(), name].concat())
}

fn read_place(value: &[u8]) -> Option<(u64, Option<ElementKey>)> {
    let (number, rest) = value.split_first_chunk::<8>()?;
    let number = u64::from_be_bytes(*number);
    let after = rest.split_first_chunk::<8>().map(|(order, name)| ElementKey {
        collection: number,
        order: u64::from_be_bytes(*order),
        name: Blob::new(name),
    });
    Some((number, after))
}

/// Holds the elements that there are against what records say of their collections, each met once and in order; elements after records.
///
/// Every collection has a hash of its number, its length and its bytes. The sum of those that records tell must be the sum of those that are
/// found: sums do not care for the order.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    said: u64,
    found: u64,
    /// Bytes of the collections of groups, as the heads of streams say and as the groups do.
    held: u64,
    held_found: u64,
    queued: BTreeSet<u64>,
    /// The collection that is being counted.
    at: Option<Collection>,
    last: Option<ElementKey>,
    deadlines: fading::Balance,
    /// The greatest number of a collection.
    greatest: u64,
    elements: u64,
}

fn sign(collection: Collection) -> u64 {
    let numbers = [collection.number(), collection.len(), collection.bytes()];
    xxh3(numbers.map(u64::to_le_bytes).as_flattened())
}

impl Tally {
    /// A record has this value.
    pub fn say(&mut self, value: &Value) {
        if let Some((_, of)) = value.elements()
            && of.has_deadlines()
        {
            self.deadlines.say(of.number());
        }
        for part in value.counted() {
            self.said = self.said.wrapping_add(sign(part));
        }
        if let Value::Stream(stream) = value {
            self.held = self.held.wrapping_add(stream.held_bytes);
        }
    }

    /// The next element is a group of a stream, which has a collection of its own.
    fn add_group(&mut self, stream: u64, group: &streams::Group) -> Result<(), Malformed> {
        if group.held.number() & PARTS != 0 || group.held.number() == QUEUE {
            return Err(Malformed("a consumer group has a number that is none"));
        }
        self.greatest = self.greatest.max(group.held.number());
        if !group.held.is_empty() {
            self.said = self.said.wrapping_add(sign(group.held));
        }
        if !self.queued.contains(&stream) {
            self.held_found = self.held_found.wrapping_add(group.held.bytes());
        }
        Ok(())
    }

    /// The next element; refused if it is out of order.
    pub(crate) fn add(&mut self, key: &ElementKey, value: &Blob) -> Result<(), Malformed> {
        if self.last.as_ref().is_some_and(|last| last >= key) {
            return Err(Malformed("its elements are out of order"));
        }
        self.elements += 1;
        self.last = Some(key.clone());
        self.greatest = self.greatest.max(key.collection & !PARTS);
        if key.collection == QUEUE {
            let (number, _) = read_place(value).ok_or(Malformed("a place in the queue is too short"))?;
            self.queued.insert(number);
            return Ok(());
        }
        if key.collection == code::CODE {
            return code::check(key, value);
        }
        let is_group = key.collection & PARTS == PART_GROUPS && key.order == GROUP_ORDER;
        if key.collection & PARTS == fading::PART_DEADLINES && !is_group {
            return self.deadlines.add(key, value, self.queued.contains(&key.collection));
        }
        if key.collection & PARTS == PART_COUNTS {
            return ranked::check_boundary(key, value);
        }
        if is_group {
            self.add_group(key.collection, &streams::Group::read(value)?)?;
        }
        match &mut self.at {
            Some(at) if at.number() == key.collection => at.grow(key.bytes_with(value)),
            at => {
                let mut fresh = Collection::new(key.collection, 0, 0);
                fresh.grow(key.bytes_with(value));
                if let Some(done) = at.replace(fresh) {
                    self.count(done);
                }
            }
        }
        Ok(())
    }

    /// Elements met so far.
    pub(crate) fn elements(&self) -> u64 {
        self.elements
    }

    fn count(&mut self, done: Collection) {
        if !self.queued.contains(&done.number()) {
            self.found = self.found.wrapping_add(sign(done));
        }
    }

    /// After the last element.
    pub(crate) fn check(mut self, counts: &CollectionCounts) -> Result<(), Malformed> {
        if let Some(at) = self.at.take() {
            self.count(at);
        }
        if self.greatest >= counts.next_number {
            return Err(Malformed("a collection has a number that was never given"));
        }
        if self.queued.len() as u64 != counts.queue.end - counts.queue.start {
            return Err(Malformed("the queue of what is to be reclaimed has another length"));
        }
        self.deadlines.check()?;
        if self.held != self.held_found {
            return Err(Malformed("the groups of a stream are not as large as it says"));
        }
        if self.said == self.found { Ok(()) } else { Err(Malformed("the elements are not those of the collections")) }
    }
}

impl Tree {
    /// Reads all elements, and holds them against what `tally` was told of the records' collections. `progress` is told of every so many.
    ///
    /// # Errors
    /// They are not what they should be. If the store below cannot be read, that is trouble ([`Tree::trouble`]).
    pub fn check_elements(&self, mut tally: Tally, progress: &mut dyn FnMut(u64)) -> Result<(), Malformed> {
        for (key, value) in self.collections.elements.range(Bound::Unbounded) {
            tally.add(&key, &value)?;
            if tally.elements.is_multiple_of(PROGRESS_ELEMENTS) {
                progress(PROGRESS_ELEMENTS);
            }
        }
        self.collections.elements.check_pieces();
        if tally.elements != self.elements_len() {
            return Err(Malformed("there are not as many elements as the head says"));
        }
        tally.check(&self.collections.counts)
    }
}

#[cfg(test)]
mod tests;
