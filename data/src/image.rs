//! The whole state as blocks of bytes, and back.
//!
//! An image is frozen when it is taken, costs next to nothing, and may be read by another thread while the tree goes
//! on. Its blocks depend on the state alone, so two replicas with equal states give equal blocks, and a reader that
//! has the first n blocks goes on with block n ([`Image::skip_blocks`]).
//!
//! ```text
//! block 0:         | version: 1 byte = 10 | time | revision | expired | records | outcomes | elements |
//!                  | of collections: next number, first and end of the queue, owed | removals: 1024 revisions |
//! record blocks:   | 'R' | records: key, deadline + 1 or 0, revision, type, value … |      in store order
//! element blocks:  | 'E' | elements: collection, order, name, value … |                   in their order
//! outcome blocks:  | 'O' | id, 1 and digest of the command or 0, reply … |                 oldest first
//! ```
//! An image gives out the changes since an earlier revision likewise ([`Image::since`], `image/since.rs`).
//!
//! Earlier versions are still read. Version 9 has no scripts; version 8 has no streams; version 7 has no fields that expire; version 6 has no lists; version 5 has no JSON documents; version 4 has no sorted sets; version 3 has no collections but hashes; versions 1 and 2 have no elements and none of the numbers of collections; version 1 has outcomes without digests: `id, reply …`.
//! Numbers are variable-length (see `codec.rs`). A block closes at the first item that brings it to
//! [`SNAPSHOT_BLOCK_BYTES_TARGET`]. Blocks carry no checksum: the snapshot file and the messages around them do.

use crate::blob::Blob;
use crate::codec::{Reader, put_element, put_number, put_outcome, put_record};
use crate::collections::{CollectionCounts, Collections, Tally};
use crate::kept::{ElementKey, Elements, Records};
use crate::layers::Layers;
use crate::once::{OnceTable, Outcome};
use crate::removals::{CLASSES, Removals};
use crate::store::StoreKey;
use crate::tree::Tree;
use crate::value::Record;
use base::checksum::xxh3;
use base::limits::SNAPSHOT_BLOCK_BYTES_TARGET;
use base::ordered::OrderedError;
use base::{Revision, WallTime};
use std::ops::Bound;

mod malformed;
mod since;
mod stored;

use since::{PART, Part, Since};

pub use malformed::Malformed;
pub use stored::{Restored, StoreRestorer};

const VERSION: u8 = 11;
/// The only collections are hashes.
const VERSION_OF_HASHES: u8 = 3;
/// Outcomes have no digest of their command.
const VERSION_WITHOUT_DIGESTS: u8 = 1;
/// No count of changes comes near this; one that is larger would overflow later.
const COUNT_MAX: u64 = 1 << 62;
const RECORDS: u8 = b'R';
const ELEMENTS: u8 = b'E';
const OUTCOMES: u8 = b'O';

/// A frozen copy of a tree that gives itself out in blocks.
#[derive(Debug)]
pub struct Image {
    store: Layers<Records>,
    elements: Layers<Elements>,
    collections: CollectionCounts,
    once: OnceTable,
    time: WallTime,
    revision: Revision,
    expired: u64,
    removals: Removals,
    block_bytes: usize,
    at: Place,
    /// Only what has changed is given out.
    since: Option<Box<Since>>,
}

/// What the next block begins with.
#[derive(Clone, Debug)]
enum Place {
    Header,
    /// Records after this key; from the first if there is none.
    Records(Option<StoreKey>),
    /// Elements after this one; from the first if there is none.
    Elements(Option<ElementKey>),
    /// Outcomes from this one on, counted from the oldest.
    Outcomes(usize),
    End,
}

impl Tree {
    /// A frozen copy of the state, to write or to send; costs a few allocations however large the state is.
    #[must_use]
    pub fn image(&self) -> Image {
        Image {
            store: self.store.frozen_copy(),
            elements: self.collections.elements.frozen_copy(),
            collections: self.collections.counts.clone(),
            once: self.once.clone(),
            time: self.time,
            revision: self.revision,
            expired: self.expired,
            removals: self.removals.clone(),
            block_bytes: SNAPSHOT_BLOCK_BYTES_TARGET,
            at: Place::Header,
            since: None,
        }
    }

    /// A hash of the whole state: equal for replicas that applied the same entries. Reads everything.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.image().digest()
    }
}

impl Image {
    /// The revision of the state.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The number of keys in the state.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.store.len()
    }

    /// Whether the state has no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// What went wrong with the store that it is read from. The blocks that were given out since mean nothing.
    #[must_use]
    pub fn trouble(&self) -> Option<&OrderedError> {
        self.store.trouble().or_else(|| self.elements.trouble())
    }

    /// Whether there is no further block.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        matches!(self.at, Place::End)
    }

    /// The same image in blocks of about so many bytes. Sender and receiver of a resumed image must agree on it.
    #[must_use]
    pub fn with_block_bytes(mut self, block_bytes: usize) -> Image {
        self.block_bytes = block_bytes;
        self
    }

    /// Appends the next block to `out`; false, and nothing appended, if there was none left.
    pub fn next_block(&mut self, out: &mut Vec<u8>) -> bool {
        if self.since.is_some() {
            return self.next_part(out);
        }
        let end = out.len() + self.block_bytes;
        self.at = match &self.at {
            Place::Header => {
                out.push(VERSION);
                self.put_header(out, (self.once.len() as u64, self.elements.len()), &self.collections);
                if self.store.is_empty() { self.first_elements() } else { Place::Records(None) }
            }
            Place::Records(after) => {
                let start = after.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_ref()));
                let mut records = self.store.range(start).peekable();
                out.push(RECORDS);
                let mut last = None;
                while let Some((key, record)) = records.next_if(|_| out.len() < end || last.is_none()) {
                    put_record(out, &key.key, &record);
                    last = Some(key);
                }
                if records.peek().is_some() { Place::Records(last) } else { self.first_elements() }
            }
            Place::Elements(after) => {
                let start = after.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_ref()));
                let mut elements = self.elements.range(start).peekable();
                out.push(ELEMENTS);
                let mut last = None;
                while let Some((key, value)) = elements.next_if(|_| out.len() < end || last.is_none()) {
                    put_element(out, &key, &value);
                    last = Some(key);
                }
                if elements.peek().is_some() { Place::Elements(last) } else { self.first_outcomes() }
            }
            Place::Outcomes(start) => {
                let mut outcomes = self.once.iter_from(*start).peekable();
                out.push(OUTCOMES);
                let mut count = 0;
                while let Some(outcome) = outcomes.next_if(|_| out.len() < end || count == 0) {
                    put_outcome(out, outcome);
                    count += 1;
                }
                if outcomes.peek().is_some() { Place::Outcomes(start + count) } else { Place::End }
            }
            Place::End => return false,
        };
        true
    }

    /// Block 0 behind its first byte: how many outcomes and elements are to come, and what there is of collections.
    fn put_header(&self, out: &mut Vec<u8>, (outcomes, elements): (u64, u64), collections: &CollectionCounts) {
        put_number(out, self.time.0);
        put_number(out, self.revision.0);
        put_number(out, self.expired);
        put_number(out, self.store.len());
        put_number(out, outcomes);
        put_number(out, elements);
        collections.numbers().into_iter().for_each(|number| put_number(out, number));
        self.removals.classes().iter().for_each(|revision| put_number(out, revision.0));
    }

    /// Passes over so many blocks, to go on where an earlier reader of an equal image stopped. Costs as much as
    /// reading them.
    pub fn skip_blocks(&mut self, count: u64) {
        let mut block = Vec::new();
        for _ in 0..count {
            block.clear();
            if !self.next_block(&mut block) {
                return;
            }
        }
    }

    /// A hash of all blocks, and so of the whole state.
    #[must_use]
    pub fn digest(mut self) -> u64 {
        let mut digest = 0u64;
        let mut block = Vec::new();
        loop {
            block.clear();
            block.extend_from_slice(&digest.to_le_bytes());
            if !self.next_block(&mut block) {
                return digest;
            }
            digest = xxh3(&block);
        }
    }

    fn first_elements(&self) -> Place {
        if self.elements.is_empty() { self.first_outcomes() } else { Place::Elements(None) }
    }

    fn first_outcomes(&self) -> Place {
        if self.once.is_empty() { Place::End } else { Place::Outcomes(0) }
    }
}

/// What block 0 says, and what it lets the blocks after it be held against.
#[derive(Debug)]
struct Promises {
    records: u64,
    outcomes: u64,
    elements: u64,
    collections: CollectionCounts,
    revision: Revision,
    last_key: Option<StoreKey>,
    tally: Tally,
    without_digests: bool,
    /// The blocks give out what has changed, and not all there is.
    part: Option<Part>,
}

/// One item of the blocks after the first.
enum Item {
    Record(StoreKey, Record),
    /// A key that has not changed, in blocks that give out what has.
    Unchanged(StoreKey),
    Element(ElementKey, Blob),
    Outcome(Outcome),
}

impl Promises {
    /// Reads block 0: a tree without records and outcomes, and what is to come.
    fn read(block: &[u8]) -> Result<(Tree, Promises), Malformed> {
        let mut reader = Reader::new(block);
        let first = reader.byte()?;
        let (kind, part) = (first & !PART, (first & PART != 0).then(Part::default));
        if !(VERSION_WITHOUT_DIGESTS..=VERSION).contains(&kind) {
            return Err(Malformed::UNKNOWN_VERSION);
        }
        let mut tree = Tree::new();
        tree.time = WallTime(reader.number()?);
        tree.revision = Revision(reader.number()?);
        tree.expired = reader.number()?;
        if tree.revision.0.max(tree.expired) > COUNT_MAX {
            return Err(Malformed("a count is out of range"));
        }
        let mut promises = Promises {
            records: reader.number()?,
            outcomes: reader.number()?,
            elements: 0,
            collections: CollectionCounts::default(),
            revision: tree.revision,
            last_key: None,
            tally: Tally::default(),
            without_digests: kind == VERSION_WITHOUT_DIGESTS,
            part,
        };
        if kind >= VERSION_OF_HASHES {
            promises.elements = reader.number()?;
            promises.collections = reader.collection_counts()?;
        }
        for class in 0..CLASSES {
            let revision = Revision(reader.number()?);
            if revision > tree.revision {
                return Err(Malformed("a removal is newer than the state"));
            }
            tree.removals.restore(class, revision);
        }
        if reader.is_at_end() { Ok((tree, promises)) } else { Err(Malformed("its first block is too long")) }
    }

    /// Reads a later block.
    fn read_items(
        &mut self,
        block: &[u8],
        mut take: impl FnMut(Item) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let mut reader = Reader::new(block);
        let kind = reader.byte()?;
        if let Some(part) = &self.part {
            if part.is_at_end() {
                return Err(Malformed("there is a block behind the last one"));
            }
            if kind != ELEMENTS {
                return self.read_part(kind, reader, take);
            }
        }
        while !reader.is_at_end() {
            match kind {
                RECORDS => {
                    let (key, record) = reader.record()?;
                    self.meet(&key)?;
                    self.meet_record(&record)?;
                    take(Item::Record(key, record))?;
                }
                ELEMENTS => {
                    let (key, value) = reader.element()?;
                    self.tally.add(&key, &value)?;
                    take(Item::Element(key, value))?;
                }
                OUTCOMES => take(Item::Outcome(reader.outcome(!self.without_digests)?))?,
                _ => return Err(Malformed("a block is of unknown kind")),
            }
        }
        Ok(())
    }

    /// The next key.
    fn meet(&mut self, key: &StoreKey) -> Result<(), Malformed> {
        if self.last_key.as_ref().is_some_and(|last| last >= key) {
            return Err(Malformed("its records are out of order"));
        }
        if self.tally.elements() > 0 {
            return Err(Malformed("a record comes behind elements"));
        }
        self.last_key = Some(key.clone());
        Ok(())
    }

    /// Its record.
    fn meet_record(&mut self, record: &Record) -> Result<(), Malformed> {
        if record.revision > self.revision {
            return Err(Malformed("a record is newer than the state"));
        }
        self.tally.say(&record.value);
        Ok(())
    }

    fn are_kept(&self, records: u64, outcomes: u64) -> Result<(), Malformed> {
        if let Some(part) = &self.part {
            part.is_whole(self.records)?;
        } else if (records, outcomes, self.tally.elements()) != (self.records, self.outcomes, self.elements) {
            return Err(Malformed("blocks are missing"));
        }
        self.tally.clone().check(&self.collections)
    }
}

/// Builds a tree from the blocks of an image, in their order.
#[derive(Debug, Default)]
pub struct Restorer {
    tree: Tree,
    promises: Option<Promises>,
}

impl Restorer {
    /// Before the first block.
    #[must_use]
    pub fn new() -> Restorer {
        Restorer::default()
    }

    /// Takes the next block. After an error the restorer is of no use any more.
    pub fn push_block(&mut self, block: &[u8]) -> Result<(), Malformed> {
        let Some(promises) = &mut self.promises else {
            let (tree, promises) = Promises::read(block)?;
            if promises.part.is_some() {
                return Err(Malformed::UNKNOWN_VERSION);
            }
            (self.tree, self.promises) = (tree, Some(promises));
            return Ok(());
        };
        let tree = &mut self.tree;
        promises.read_items(block, |item| {
            match item {
                Item::Record(key, record) => {
                    tree.insert(key, record);
                }
                Item::Element(key, value) => tree.collections.elements.insert_new(key, value),
                Item::Outcome(outcome) if tree.once.get(&outcome.id).is_some() => {
                    return Err(Malformed("two outcomes have one identifier"));
                }
                Item::Outcome(outcome) => tree.once.insert(outcome),
                Item::Unchanged(_) => return Err(Malformed::UNKNOWN_VERSION),
            }
            Ok(())
        })
    }

    /// Records taken so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.tree.len()
    }

    /// After the last block: the tree.
    pub fn finish(self) -> Result<Tree, Malformed> {
        let promises = self.promises.ok_or(Malformed("it is empty"))?;
        promises.are_kept(self.tree.len(), self.tree.once.len() as u64)?;
        // Whatever was looked for while elements were missing is forgotten.
        let elements = self.tree.collections.elements;
        let collections = Collections { elements, counts: promises.collections, ..Collections::default() };
        Ok(Tree { collections, ..self.tree })
    }
}

#[cfg(test)]
mod tests;
