//! How the state gets into a store below, and is found there again.
//!
//! ```text
//!   begin_flush ─► Flush ──(another thread)──► OrderedBatch ──applied and synced──► end_flush
//! ```
//! A flush holds all that changed since the last one, and a *head*: what the state is beside its records, and which spaces they are
//! in. The owner puts the head, with what it must know itself (how much of the log the state contains), into the same
//! batch: so the store always holds the state of one moment. While a flush is under way the state goes on changing in memory.
//!
//! | space of | key | value |
//! |---|---|---|
//! | records | order (8 bytes, big-endian), key | deadline + 1 or 0, revision, type, value |
//! | elements | collection, order (8 bytes each, big-endian), name | value |
//! | pieces | what continues keys of elements that are too long ([`crate::pieces`]); there only once there were some | |
//! | deadlines | deadline, order (8 bytes each, big-endian), key | nothing |
//! | outcomes | number (8 bytes, big-endian) | identifier, digest of the command, reply |

use crate::codec::{Reader, put_number, put_outcome};
use crate::collections::{CollectionCounts, Collections};
use crate::deadlines::{Deadlines, DueLayer, put_due_key};
use crate::image::Malformed;
use crate::kept::{Elements, Kept, Records, base_key};
use crate::layers::{Base, Frozen, Layer, Layers, Trouble};
use crate::once::OnceTable;
use crate::pieces;
use crate::removals::{CLASSES, Removals};
use crate::tree::{Trash, Tree};
use base::ordered::{OrderedBatch, OrderedError, OrderedRead, Space};
use base::{Revision, WallTime};
use std::ops::{Bound, Range};
use std::sync::Arc;

const VERSION: u8 = 11;
/// No element has a long key, and there is no space for pieces. Still written where that is so: a build that does not know pieces finds its states.
const VERSION_WITHOUT_PIECES: u8 = 10;
/// The only collections are hashes.
const VERSION_OF_HASHES: u8 = 2;
/// There are no collections.
const VERSION_WITHOUT_COLLECTIONS: u8 = 1;
/// Spaces of one state: of records, deadlines, outcomes, elements, pieces.
pub const STATE_SPACES: usize = 5;
/// Approximate bytes of a deadline in a layer: its key's bytes are shared with the record.
const DUE_BYTES: u64 = 96;

/// What a tree over a store remembers of it.
#[derive(Clone, Debug)]
pub(crate) struct Below {
    read: Arc<dyn OrderedRead>,
    pub trouble: Trouble,
    outcomes_space: Option<Space>,
    /// Outcomes that the store has, by number.
    outcomes: Range<u64>,
    /// What it will have when the flush under way is done.
    under_way: Option<Range<u64>>,
    /// Spaces that nobody needs any more, since the last flush.
    pub dropped: Vec<Space>,
    /// Those that the flush under way gives up.
    dropping: Vec<Space>,
}

/// Changes on their way to a store. May be sent to another thread, which must drop it before the owner is told that it is done.
///
/// If it fails, or nobody knows whether it did, the same flush is to be brought to the store again: a copy of it costs little.
#[derive(Clone, Debug)]
pub struct Flush {
    head: Vec<u8>,
    /// What long keys are written on top of.
    read: Arc<dyn OrderedRead>,
    records: Frozen<Records>,
    elements: Frozen<Elements>,
    dues: (DueLayer, Space),
    outcomes: (OnceTable, Space),
    outcomes_new: Range<u64>,
    outcomes_gone: Range<u64>,
    dropped: Vec<Space>,
}

impl Flush {
    /// What must be given to [`Tree::open`] to find the state again.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Adds everything but the head to `batch`. Takes as long as encoding all of it does, and reads the store where keys are long: it must have all that the
    /// flushes before this one have brought.
    ///
    /// # Errors
    /// If the store cannot be read. What is in the batch then means nothing.
    pub fn write(self, batch: &mut OrderedBatch) -> Result<(), OrderedError> {
        batch.changes.reserve(self.records.layer.len() + self.elements.layer.len() + self.dues.0.len() + 1);
        write_layer::<Records>(self.records, &*self.read, batch)?;
        write_layer::<Elements>(self.elements, &*self.read, batch)?;
        let (dues, space) = self.dues;
        for (due, said) in &dues {
            batch.changes.write(space, |bytes| put_due_key(bytes, due), said.map(|()| |_: &mut Vec<u8>| ()));
        }
        let (outcomes, space) = self.outcomes;
        batch.changes.extend(self.outcomes_gone.map(|number| (space, number.to_be_bytes(), None::<[u8; 0]>)));
        for (number, outcome) in outcomes.numbered_from(self.outcomes_new.start) {
            let value = |bytes: &mut Vec<u8>| put_outcome(bytes, outcome);
            batch.changes.write(space, |bytes| bytes.extend_from_slice(&number.to_be_bytes()), Some(value));
        }
        batch.dropped.extend(self.dropped);
        Ok(())
    }
}

/// Adds what changed to `batch`.
pub(crate) fn write_layer<K: Kept>(
    Frozen { layer, space, pieces }: Frozen<K>,
    read: &dyn OrderedRead,
    batch: &mut OrderedBatch,
) -> Result<(), OrderedError> {
    let mut cutter = pieces.map(|pieces| pieces::Cutter::new(read, pieces::Spaces { keys: space, pieces }));
    for (key, slot) in &layer {
        let value = slot.as_ref().map(|value| |bytes: &mut Vec<u8>| K::put_value(bytes, value));
        match &mut cutter {
            Some(cutter) if K::key_bytes(key) > K::WHOLE_BYTES_MAX => {
                let key = base_key::<K>(K::borrow(key));
                match value {
                    Some(value) => cutter.put(&key, value, batch)?,
                    None => cutter.remove(&key, batch)?,
                }
            }
            _ => batch.changes.write(space, |bytes| K::put_key(bytes, K::borrow(key)), value),
        }
    }
    if let Some(cutter) = cutter {
        cutter.finish(batch);
    }
    Ok(())
}

impl Tree {
    /// The state that a flush has left in a store, found by its head.
    ///
    /// # Errors
    /// If the head is malformed, or the store cannot be read.
    pub fn open(read: Arc<dyn OrderedRead>, head: &[u8]) -> Result<Tree, OrderedError> {
        let malformed = |malformed: Malformed| OrderedError {
            text: format!("what the store says of the state is damaged: {}", malformed.0),
            full: false,
        };
        let mut reader = Reader::new(head);
        let (mut tree, spaces, counts) = decode_head(&mut reader).map_err(malformed)?;
        let trouble = Trouble::default();
        let [records, deadlines, outcomes, elements, pieces] = spaces;
        let base = |space, pieces| Base { read: Arc::clone(&read), space, pieces, trouble: trouble.clone() };
        tree.store = Layers::over(base(records, None), counts.records);
        tree.collections = Collections {
            elements: Layers::over(base(elements, pieces), counts.elements),
            counts: counts.collections,
            ..Collections::default()
        };
        tree.deadlines = Deadlines::over(Arc::clone(&read), deadlines, trouble.clone(), counts.deadlines);
        if let Some(space) = outcomes {
            let first = counts.outcomes.start.to_be_bytes();
            tree.once = OnceTable::starting_at(counts.outcomes.start);
            for pair in read.range(space, Bound::Included(&first)) {
                let (_, value) = pair?;
                let outcome = Reader::new(&value).outcome(true).map_err(malformed)?;
                if tree.once.get(&outcome.id).is_some() {
                    return Err(malformed(Malformed("two outcomes have one identifier")));
                }
                tree.once.insert(outcome);
            }
            if tree.once.numbers() != counts.outcomes {
                return Err(malformed(Malformed("outcomes are missing")));
            }
        }
        tree.below = Some(Below {
            read,
            trouble: trouble.clone(),
            outcomes_space: outcomes,
            outcomes: counts.outcomes,
            under_way: None,
            dropped: Vec::new(),
            dropping: Vec::new(),
        });
        match trouble.first() {
            Some(error) => Err(error.clone()),
            None => Ok(tree),
        }
    }

    /// Lets a state that was in memory alone go into a store from now on: all of it with the next flush, into new spaces.
    #[must_use]
    pub fn over(mut self, read: Arc<dyn OrderedRead>) -> Tree {
        let trouble = Trouble::default();
        let base = || Base { read: Arc::clone(&read), space: None, pieces: None, trouble: trouble.clone() };
        self.store.attach(base());
        self.collections.elements.attach(base());
        self.deadlines.attach(Arc::clone(&read), trouble.clone());
        let start = self.once.numbers().start;
        self.below = Some(Below {
            read,
            trouble,
            outcomes_space: None,
            outcomes: start..start,
            under_way: None,
            dropped: Vec::new(),
            dropping: Vec::new(),
        });
        self
    }

    /// At most so many bytes are kept in memory of what walks over elements have read of the store.
    pub fn set_known_bytes_max(&mut self, bytes: u64) {
        self.collections.elements.set_known_bytes_max(bytes);
    }

    /// Whether the state goes into a store.
    #[must_use]
    pub fn has_store(&self) -> bool {
        self.below.is_some()
    }

    /// The store below, if there is one.
    #[must_use]
    pub fn store_below(&self) -> Option<Arc<dyn OrderedRead>> {
        self.below.as_ref().map(|below| Arc::clone(&below.read))
    }

    /// What went wrong with the store below. After that nothing that was read or applied means anything: the node must not go on.
    #[must_use]
    pub fn trouble(&self) -> Option<&OrderedError> {
        self.below.as_ref()?.trouble.first()
    }

    /// The spaces that the state is in, those included that the next flush gives up.
    #[must_use]
    pub fn spaces(&self) -> Vec<Space> {
        let Some(below) = &self.below else { return Vec::new() };
        let [records, _] = self.store.spaces();
        let [elements, pieces] = self.collections.elements.spaces();
        let live = [records, self.deadlines.space(), below.outcomes_space, elements, pieces];
        live.into_iter().flatten().chain(below.dropped.iter().chain(&below.dropping).copied()).collect()
    }

    /// Gives up these spaces, of a state that this one takes the place of, with the next flush.
    pub fn give_up(&mut self, spaces: Vec<Space>) {
        if let Some(below) = &mut self.below {
            below.dropped.extend(spaces);
        }
    }

    /// Whether there are spaces for the next flush to give up.
    #[must_use]
    pub fn gives_up_spaces(&self) -> bool {
        self.below.as_ref().is_some_and(|below| !below.dropped.is_empty())
    }

    /// Bytes of memory that hold what the store below does not have (approximately): what has changed since the last flush began,
    /// and what the flush under way holds. Nothing without a store.
    #[must_use]
    pub fn unflushed_bytes(&self) -> (u64, u64) {
        let (records, elements) = (self.store.changed_bytes(), self.collections.elements.changed_bytes());
        let dues = self.deadlines.changes();
        let (active, frozen) = (records.0 + elements.0, records.1 + elements.1);
        (active + dues.0 as u64 * DUE_BYTES, frozen + dues.1 as u64 * DUE_BYTES)
    }

    /// What has changed since the last flush, to be written. None without a store, or while a flush is under way.
    /// `new_space` names spaces that were never used.
    pub fn begin_flush(&mut self, mut new_space: impl FnMut() -> Space) -> Option<Flush> {
        let below = self.below.as_mut().filter(|below| below.under_way.is_none())?;
        let records = self.store.freeze(&mut new_space)?;
        let elements = self.collections.elements.freeze(&mut new_space)?;
        let dues = self.deadlines.freeze(&mut new_space)?;
        let outcomes_space = *below.outcomes_space.get_or_insert_with(&mut new_space);
        let now = self.once.numbers();
        let gone = below.outcomes.start..now.start.min(below.outcomes.end);
        let fresh = now.start.max(below.outcomes.end)..now.end;
        let mut dropped = std::mem::take(&mut below.dropped);
        dropped.sort_unstable();
        below.dropping.clone_from(&dropped);
        below.under_way = Some(now.clone());
        let read = Arc::clone(&below.read);
        let spaces = [records.space, dues.1, outcomes_space, elements.space];
        let pieces = elements.pieces;
        let counts = Counts {
            records: self.store.len(),
            deadlines: self.deadlines.len(),
            outcomes: now,
            elements: self.collections.elements.len(),
            collections: self.collections.counts.clone(),
        };
        Some(Flush {
            head: encode_head(self, spaces, pieces, &counts),
            read,
            records,
            elements,
            dues,
            outcomes: (self.once.clone(), outcomes_space),
            outcomes_new: fresh,
            outcomes_gone: gone,
            dropped,
        })
    }

    /// The flush is in the store, durably.
    pub fn end_flush(&mut self) {
        self.end_flush_by(Layers::thaw);
    }

    /// The same with a mistake in it, for whoever wants to see it found: elements that are known by heart stay as they were before the flush.
    pub fn end_flush_forgetting_nothing(&mut self) {
        self.end_flush_by(Layers::thaw_without_forgetting);
    }

    fn end_flush_by(&mut self, thaw: fn(&mut Layers<Elements>) -> Layer<Elements>) {
        let Some(below) = &mut self.below else { return };
        let Some(outcomes) = below.under_way.take() else { return };
        below.outcomes = outcomes;
        below.dropping.clear();
        let (records, elements) = (vec![self.store.thaw()], vec![thaw(&mut self.collections.elements)]);
        let dues = vec![self.deadlines.thaw()];
        self.throw_away(Trash { records, elements, dues, ..Trash::default() });
    }
}

/// What a head says of sizes.
pub(crate) struct Counts {
    pub records: u64,
    pub deadlines: u64,
    pub outcomes: Range<u64>,
    pub elements: u64,
    pub collections: CollectionCounts,
}

/// | version: 1 byte | time | revision | expired | bytes | records | deadlines | outcomes: first, end | elements | of collections: next number,
/// first and end of the queue, owed | 5 spaces, + 1 or 0 | removals: 1024 revisions |
///
/// Version 10 has 4 spaces and no pieces, version 8 has no scripts, version 7 no streams, version 6 no fields that expire, version 5 no lists, version 4 no JSON documents, version 3 no sorted sets, version 2 no collections but hashes. Version 1 has no elements, none of the numbers of collections, and 3 spaces.
pub(crate) fn encode_head(tree: &Tree, spaces: [Space; 4], pieces: Option<Space>, counts: &Counts) -> Vec<u8> {
    let mut head = vec![if pieces.is_some() { VERSION } else { VERSION_WITHOUT_PIECES }];
    let numbers = [
        tree.time.0,
        tree.revision.0,
        tree.expired,
        tree.bytes,
        counts.records,
        counts.deadlines,
        counts.outcomes.start,
        counts.outcomes.end,
        counts.elements,
    ];
    let spaces = spaces.into_iter().chain(pieces).map(|space| space.0 + 1);
    let removals = tree.removals.classes().iter().map(|revision| revision.0);
    let numbers = numbers.into_iter().chain(counts.collections.numbers()).chain(spaces).chain(removals);
    numbers.for_each(|number| put_number(&mut head, number));
    head
}

type Head = (Tree, [Option<Space>; STATE_SPACES], Counts);

fn decode_head(reader: &mut Reader<'_>) -> Result<Head, Malformed> {
    let version = reader.byte()?;
    if !(VERSION_WITHOUT_COLLECTIONS..=VERSION).contains(&version) {
        return Err(Malformed("its version is unknown"));
    }
    let has_collections = version >= VERSION_OF_HASHES;
    let mut tree = Tree::new();
    tree.time = WallTime(reader.number()?);
    tree.revision = Revision(reader.number()?);
    tree.expired = reader.number()?;
    tree.bytes = reader.number()?;
    let mut counts = Counts {
        records: reader.number()?,
        deadlines: reader.number()?,
        outcomes: reader.number()?..reader.number()?,
        elements: 0,
        collections: CollectionCounts::default(),
    };
    if has_collections {
        counts.elements = reader.number()?;
        counts.collections = reader.collection_counts()?;
    }
    let mut space = || Ok(reader.number()?.checked_sub(1).map(Space));
    let [records, deadlines, outcomes] = [space()?, space()?, space()?];
    let elements = if has_collections { space()? } else { None };
    let pieces = if version > VERSION_WITHOUT_PIECES { space()? } else { None };
    let spaces = [records, deadlines, outcomes, elements, pieces];
    let mut removals = Removals::default();
    for class in 0..CLASSES {
        removals.restore(class, Revision(reader.number()?));
    }
    tree.removals = removals;
    if reader.is_at_end() { Ok((tree, spaces, counts)) } else { Err(Malformed("bytes follow it")) }
}

#[cfg(test)]
mod tests;
