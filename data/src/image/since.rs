//! The changes since an earlier revision: the blocks of an incremental backup.
//!
//! ```text
//! block 0:         that of an image, with 128 added to its version, no outcomes, and nothing in the queue of collections
//! key blocks:      | 'D' | keys: 0, key of what has not changed; 1, record of what has … |   in store order
//! element blocks:  as in an image: all elements of collections that have changed, and what the index of deadlines says of them
//! the last block:  | 'T' | keys unchanged | records | elements |
//! ```
//! A key that is in no block is gone. Together with the earlier state that is all there is but outcomes, which no restore makes anew.

use std::ops::Bound;

use base::Revision;
use base::limits::KEY_BYTES_MAX;

use super::{ELEMENTS, Image, Item, Malformed, Place, Promises, VERSION};
use crate::blob::Blob;
use crate::codec::{Reader, put_bytes, put_element, put_number, put_record};
use crate::collections::code::CODE;
use crate::collections::fading::INDEX;
use crate::collections::streams::Group;
use crate::collections::{CollectionCounts, GROUP_ORDER, PART_GROUPS};
use crate::kept::{ElementKey, ElementRef};
use crate::store::StoreKey;
use crate::value::Value;

/// In the first byte of block 0.
pub(super) const PART: u8 = 128;
const KEYS: u8 = b'D';
const TRAILER: u8 = b'T';
/// So many elements are looked at for one block, whether or not they go into it.
const LOOKS_MAX: usize = 50_000;
const UNCHANGED: u8 = 0;
const CHANGED: u8 = 1;

/// How far an image is that gives out what has changed.
#[derive(Debug)]
pub(super) struct Since {
    revision: Revision,
    /// Numbers of the collections of what has changed, with their parts; gathered with the keys, and sorted before the first element.
    collections: Vec<u64>,
    counts: Counts,
}

/// Keys that have not changed, records, and elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    unchanged: u64,
    records: u64,
    elements: u64,
}

impl Image {
    /// The same, of what has changed since the state had this revision. Before the first block.
    #[must_use]
    pub fn since(mut self, revision: Revision) -> Image {
        // Libraries of functions are given out as a whole, of the index of hashes what is of those that have changed.
        let since = Since { revision, collections: vec![CODE, INDEX], counts: Counts::default() };
        self.since = Some(Box::new(since));
        self
    }

    /// See [`Image::next_block`].
    pub(super) fn next_part(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(mut since) = self.since.take() else { return false };
        let end = out.len() + self.block_bytes;
        let next = match &self.at {
            Place::Header => {
                out.push(VERSION | PART);
                let queue = self.collections.queue.end..self.collections.queue.end;
                let collections = CollectionCounts { queue, owed: 0, ..self.collections.clone() };
                self.put_header(out, (0, 0), &collections);
                if self.store.is_empty() { Place::Elements(None) } else { Place::Records(None) }
            }
            Place::Records(after) => self.put_keys(out, end, after.as_ref(), &mut since),
            Place::Elements(after) => self.put_elements(out, end, after.as_ref(), &mut since),
            Place::Outcomes(_) => {
                out.push(TRAILER);
                let Counts { unchanged, records, elements } = since.counts;
                [unchanged, records, elements].into_iter().for_each(|number| put_number(out, number));
                Place::End
            }
            Place::End => Place::End,
        };
        let was_at_end = self.is_at_end();
        (self.at, self.since) = (next, Some(since));
        !was_at_end
    }

    fn put_keys(&self, out: &mut Vec<u8>, end: usize, after: Option<&StoreKey>, since: &mut Since) -> Place {
        let start = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_ref()));
        let mut records = self.store.range(start).peekable();
        out.push(KEYS);
        let mut last = None;
        while let Some((key, record)) = records.next_if(|_| out.len() < end || last.is_none()) {
            if record.revision <= since.revision {
                out.push(UNCHANGED);
                put_bytes(out, &key.key);
                since.counts.unchanged += 1;
            } else {
                out.push(CHANGED);
                put_record(out, &key.key, &record);
                since.counts.records += 1;
                self.note_collections(&record.value, since);
            }
            last = Some(key);
        }
        if records.peek().is_some() {
            return Place::Records(last);
        }
        since.collections.sort_unstable();
        Place::Elements(None)
    }

    fn note_collections(&self, value: &Value, since: &mut Since) {
        let Some((kind, of)) = value.elements() else { return };
        since.collections.extend(kind.parts(of).iter().map(|part| of.number() | part));
        if let Value::Stream(stream) = value {
            // Each group of a stream has a collection of its own.
            let groups = self.elements_of(stream.number() | PART_GROUPS, None);
            // A group that cannot be read is refused by the reader of the blocks.
            let groups =
                groups.filter_map(|(key, group)| (key.order == GROUP_ORDER).then(|| Group::read(&group).ok())?);
            since.collections.extend(groups.map(|group| group.held.number()));
        }
    }

    /// The elements of a collection, or of a part of one, behind that one.
    fn elements_of<'a>(
        &'a self,
        number: u64,
        after: Option<&ElementKey>,
    ) -> Box<dyn Iterator<Item = (ElementKey, Blob)> + 'a> {
        let first = ElementRef { collection: number, order: 0, name: &[] };
        let start = after.map_or(Bound::Included(first), |key| Bound::Excluded(key.as_ref()));
        let end = number.checked_add(1).map(|collection| ElementKey { collection, order: 0, name: Blob::EMPTY });
        self.elements.range_before(start, end.as_ref())
    }

    fn put_elements(&self, out: &mut Vec<u8>, end: usize, after: Option<&ElementKey>, since: &mut Since) -> Place {
        out.push(ELEMENTS);
        let empty = out.len();
        let mut after = after.cloned();
        let from = after.as_ref().map_or(0, |key| key.collection);
        let first = since.collections.partition_point(|number| *number < from);
        let Since { collections, counts, .. } = since;
        let has_changed = |hash: &[u8]| {
            let number = <[u8; 8]>::try_from(hash).map(u64::from_be_bytes);
            number.is_ok_and(|number| collections.binary_search(&number).is_ok())
        };
        let mut looks = 0;
        for of in collections[first..].iter().copied() {
            for (key, value) in self.elements_of(of, after.as_ref().filter(|key| key.collection == of)) {
                if out.len() >= end && out.len() > empty || looks == LOOKS_MAX {
                    return Place::Elements(after);
                }
                looks += 1;
                if of != INDEX || has_changed(&value) {
                    put_element(out, &key, &value);
                    counts.elements += 1;
                }
                after = Some(key);
            }
        }
        Place::Outcomes(0)
    }
}

/// How far the reader of such blocks is.
#[derive(Debug, Default)]
pub(super) struct Part {
    found: Counts,
    /// Those that the last block tells.
    told: Option<Counts>,
}

impl Part {
    /// After the last block; so many keys there were.
    pub(super) fn is_whole(&self, keys: u64) -> Result<(), Malformed> {
        let Counts { unchanged, records, .. } = self.found;
        if self.told == Some(self.found) && unchanged.checked_add(records) == Some(keys) {
            Ok(())
        } else {
            Err(Malformed("blocks are missing"))
        }
    }

    /// Keys so far that have not changed.
    pub(super) fn unchanged(&self) -> u64 {
        self.found.unchanged
    }

    /// True once the last block was there.
    pub(super) fn is_at_end(&self) -> bool {
        self.told.is_some()
    }
}

impl Promises {
    /// Reads a block of what has changed that is none of elements.
    pub(super) fn read_part(
        &mut self,
        kind: u8,
        mut reader: Reader<'_>,
        mut take: impl FnMut(Item) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        match kind {
            KEYS => {
                while !reader.is_at_end() {
                    let is_changed = match reader.byte()? {
                        UNCHANGED => false,
                        CHANGED => true,
                        _ => return Err(Malformed("a key is neither changed nor unchanged")),
                    };
                    let item = if is_changed {
                        let (key, record) = reader.record()?;
                        self.meet(&key)?;
                        self.meet_record(&record)?;
                        Item::Record(key, record)
                    } else {
                        let name = reader.bytes()?;
                        if name.len() > KEY_BYTES_MAX {
                            return Err(Malformed("a key is too long"));
                        }
                        let key = StoreKey::new(name);
                        self.meet(&key)?;
                        Item::Unchanged(key)
                    };
                    if let Some(part) = &mut self.part {
                        part.found.records += u64::from(is_changed);
                        part.found.unchanged += u64::from(!is_changed);
                    }
                    take(item)?;
                }
                Ok(())
            }
            TRAILER => {
                let [unchanged, records, elements] = [reader.number()?, reader.number()?, reader.number()?];
                self.elements = self.tally.elements();
                if let Some(part) = &mut self.part {
                    part.found.elements = self.elements;
                    part.told = Some(Counts { unchanged, records, elements });
                }
                if reader.is_at_end() { Ok(()) } else { Err(Malformed("its last block is too long")) }
            }
            _ => Err(Malformed("a block is of unknown kind")),
        }
    }
}
