//! The blocks of an image into new spaces of a store.

use super::{Item, Malformed, Part, Promises};
use crate::codec::put_outcome;
use crate::deadlines::put_due_key;
use crate::flush::{Counts, STATE_SPACES, encode_head};
use crate::kept::{Elements, Kept, Records, base_key};
use crate::pieces::{Loader, Spaces};
use crate::tree::Tree;
use base::ordered::{Changes, OrderedBatch, Space};

/// What blocks of an image come to in a store.
#[derive(Debug, Default)]
pub struct Restored {
    /// Records, all of one space ([`StoreRestorer::sorted_spaces`]), ascending from the first block to the last.
    pub records: Changes,
    /// Elements of collections, in the same way.
    pub elements: Changes,
    /// The rest, in no order.
    pub batch: OrderedBatch,
}

/// Writes the blocks of an image, in their order, into new spaces of a store. What it remembers does not grow with the image.
#[derive(Debug)]
pub struct StoreRestorer {
    spaces: [Space; STATE_SPACES],
    /// Where elements go, and what continues their keys if these are long.
    elements: Loader,
    /// What the state is beside its records, elements and outcomes.
    tree: Tree,
    promises: Option<Promises>,
    records: u64,
    deadlines: u64,
    outcomes: u64,
    /// Where keys go that have not changed, if the blocks may be of what has changed alone.
    unchanged: Option<Space>,
}

impl StoreRestorer {
    /// Before the first block. The spaces (of records, deadlines, outcomes, elements and pieces) were never used.
    #[must_use]
    pub fn new(spaces: [Space; STATE_SPACES]) -> StoreRestorer {
        let elements = Loader::new(Spaces { keys: spaces[3], pieces: spaces[4] });
        let tree = Tree::new();
        StoreRestorer { spaces, elements, tree, promises: None, records: 0, deadlines: 0, outcomes: 0, unchanged: None }
    }

    /// The same, for blocks that may be of what has changed alone ([`super::Image::since`]): then the state is that of the keys that have, and the others are keys of
    /// this space, which was never used.
    #[must_use]
    pub fn with_unchanged(mut self, space: Space) -> StoreRestorer {
        self.unchanged = Some(space);
        self
    }

    /// True if the blocks hold changes alone: known with the first of them.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.promises.as_ref().is_some_and(|promises| promises.part.is_some())
    }

    /// Adds what the next block holds to `restored`. After an error the restorer is of no use any more.
    pub fn push_block(&mut self, block: &[u8], restored: &mut Restored) -> Result<(), Malformed> {
        let Some(promises) = &mut self.promises else {
            let (tree, promises) = Promises::read(block)?;
            if promises.part.is_some() && self.unchanged.is_none() {
                return Err(Malformed::UNKNOWN_VERSION);
            }
            (self.tree, self.promises) = (tree, Some(promises));
            return Ok(());
        };
        let unchanged = self.unchanged;
        let [records, deadlines, outcomes, ..] = self.spaces;
        let StoreRestorer { tree, elements, records: count, deadlines: due_count, outcomes: outcome_count, .. } = self;
        let Restored { records: sorted_records, elements: sorted_elements, batch } = restored;
        promises.read_items(block, |item| {
            match item {
                Item::Record(key, record) => {
                    *count += 1;
                    tree.bytes = tree.bytes.saturating_add(record.bytes(&key.key));
                    let value = |bytes: &mut Vec<u8>| Records::put_value(bytes, &record);
                    sorted_records.write(records, |bytes| Records::put_key(bytes, key.as_ref()), Some(value));
                    if let Some(deadline) = record.deadline() {
                        *due_count += 1;
                        let due = (deadline, key);
                        batch.changes.write(deadlines, |bytes| put_due_key(bytes, &due), Some(|_: &mut Vec<u8>| ()));
                    }
                }
                Item::Unchanged(key) => {
                    if let Some(space) = unchanged {
                        let name = |bytes: &mut Vec<u8>| bytes.extend_from_slice(&key.key);
                        batch.changes.write(space, name, Some(|_: &mut Vec<u8>| ()));
                    }
                }
                Item::Element(key, value) => {
                    let value = |bytes: &mut Vec<u8>| Elements::put_value(bytes, &value);
                    if Elements::key_bytes(&key) <= Elements::WHOLE_BYTES_MAX {
                        let key = |bytes: &mut Vec<u8>| Elements::put_key(bytes, key.as_ref());
                        elements.push_short(key, value, sorted_elements, batch);
                    } else {
                        elements.push(&base_key::<Elements>(key.as_ref()), value, sorted_elements, batch);
                    }
                }
                Item::Outcome(outcome) => {
                    let value = |bytes: &mut Vec<u8>| put_outcome(bytes, &outcome);
                    let number = outcome_count.to_be_bytes();
                    batch.changes.write(outcomes, |bytes| bytes.extend_from_slice(&number), Some(value));
                    *outcome_count += 1;
                }
            }
            Ok(())
        })?;
        let is_at_end = match &promises.part {
            Some(part) => part.is_at_end(),
            None => promises.tally.elements() == promises.elements,
        };
        if is_at_end {
            elements.finish(sorted_elements, batch);
        }
        Ok(())
    }

    /// Records taken so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Keys so far that have not changed, and whose records are in no block.
    #[must_use]
    pub fn unchanged(&self) -> u64 {
        self.promises.as_ref().and_then(|promises| promises.part.as_ref()).map_or(0, Part::unchanged)
    }

    /// The spaces of [`Restored::records`] and of [`Restored::elements`].
    #[must_use]
    pub fn sorted_spaces(&self) -> [Space; 2] {
        [self.spaces[0], self.spaces[3]]
    }

    /// The spaces that are written to.
    #[must_use]
    pub fn spaces(&self) -> [Space; STATE_SPACES] {
        self.spaces
    }

    /// After the last block: the head by which [`Tree::open`] finds the state, once the batches are in the store.
    pub fn finish(&self) -> Result<Vec<u8>, Malformed> {
        let promises = self.promises.as_ref().ok_or(Malformed("it is empty"))?;
        promises.are_kept(self.records, self.outcomes)?;
        let counts = Counts {
            records: self.records,
            deadlines: self.deadlines,
            outcomes: 0..self.outcomes,
            elements: promises.elements,
            collections: promises.collections.clone(),
        };
        let [records, deadlines, outcomes, elements, pieces] = self.spaces;
        let pieces = self.elements.has_pieces().then_some(pieces);
        Ok(encode_head(&self.tree, [records, deadlines, outcomes, elements], pieces, &counts))
    }
}
