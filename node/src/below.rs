//! The state in a store below: where its head is, what goes into a batch, and how it is found again.
//!
//! ```text
//! space 0:  "state" | bucket: 4 bytes | partition: 2 bytes   (big-endian)
//!           ─► version: 1 byte = 1 | position | ballot | origins | length | the head that `data` gave
//! ```
//! The position stands in the batch that carries the data, so the store always holds what applying the log up to there yields.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::limits::FLUSH_BYTES;
use base::ordered::{Changes, OrderedBatch, OrderedError, OrderedLoad, OrderedRead, OrderedWrite, Space};
use base::{Ballot, BucketId, PartitionId, Position};
use data::flush::STATE_SPACES;
use data::{Flush, Restored, StoreRestorer, Tree};
use wire::{Malformed, Reader, Writer};

use crate::council::{Buckets, COUNCIL};
use crate::image::{RestoredState, decode_first};
use crate::origins::Origins;

/// The space of the node's own.
pub(crate) const OWN: Space = Space(0);
const HEAD_PREFIX: &[u8] = b"state";

/// The ordered store that a node's states are in.
#[derive(Clone, Debug)]
pub struct Below {
    /// Reads what the owner has applied.
    pub read: Arc<dyn OrderedRead>,
    /// From this number on the store has no space. One count for all partitions of the node, which share the store.
    next_space: Arc<AtomicU64>,
    /// Bytes that each partition may keep in memory of what walks over elements have read of it.
    pub(crate) known_bytes_max: u64,
}

impl Below {
    /// `next_space`: from this number on the store has no space.
    #[must_use]
    pub fn new(read: Arc<dyn OrderedRead>, next_space: u64) -> Below {
        let known_bytes_max = base::limits::KNOWN_BYTES_MAX;
        Below { read, next_space: Arc::new(AtomicU64::new(next_space.max(1))), known_bytes_max }
    }

    /// The same; each partition keeps at most so many bytes in memory of what walks over elements have read of it.
    #[must_use]
    pub fn with_known_bytes_max(self, bytes: u64) -> Below {
        Below { known_bytes_max: bytes, ..self }
    }

    /// A space that was never used.
    pub(crate) fn new_space(&self) -> Space {
        Space(self.next_space.fetch_add(1, Ordering::Relaxed))
    }

    /// These spaces have names, though the store may not know it: it knows none that has nothing in it.
    pub(crate) fn note_named(&self, spaces: &[Space]) {
        let above = spaces.iter().map(|space| space.0 + 1).max().unwrap_or_default();
        self.next_space.fetch_max(above, Ordering::Relaxed);
    }
}

/// What a partition of a dropped bucket leaves in the store.
#[derive(Debug)]
pub(crate) struct Retired {
    pub partition: PartitionId,
    /// Removes it.
    pub job: FlushJob,
    /// The payload of the journal that says that the drop is decided. As long as it is not on disk, the node would find the replica after a start, with what it has
    /// promised; and without its state that would vote as if it had never had one.
    pub after: u64,
}

impl Retired {
    /// Found in the store at a start, whose council knows that the bucket is gone. The owner is told which spaces are needed, and gives the others back.
    pub(crate) fn found(partition: PartitionId) -> Retired {
        Retired { partition, job: FlushJob::retire(partition, Vec::new()), after: 0 }
    }
}

/// Changes of a state, to be applied to the store and synced. A copy costs little.
#[derive(Clone, Debug)]
pub struct FlushJob {
    pub(crate) position: Position,
    key: Vec<u8>,
    content: Content,
    /// Changed records, as the tree counts them.
    bytes: u64,
}

#[derive(Clone, Debug)]
enum Content {
    State {
        head: Vec<u8>,
        flush: Box<Flush>,
    },
    /// The partition is gone, and these are its spaces.
    Nothing(Vec<Space>),
}

impl FlushJob {
    /// `bytes` have changed, as the tree counts them.
    pub(crate) fn new(
        partition: PartitionId,
        place: (Position, Ballot),
        origins: &Origins,
        flush: Flush,
        bytes: u64,
    ) -> FlushJob {
        let head = encode(place, origins, flush.head());
        FlushJob {
            position: place.0,
            key: head_key(partition),
            content: Content::State { head, flush: Box::new(flush) },
            bytes,
        }
    }

    /// Whether so much has changed that the store did not keep up with what is written: this flush should not make way for others.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.bytes > FLUSH_BYTES / 2 * 3
    }

    /// The removal of all that a partition had.
    pub(crate) fn retire(partition: PartitionId, spaces: Vec<Space>) -> FlushJob {
        FlushJob { position: Position(0), key: head_key(partition), content: Content::Nothing(spaces), bytes: 0 }
    }

    /// The spaces that the removal of a partition gives up.
    pub(crate) fn spaces_retired(&self) -> &[Space] {
        match &self.content {
            Content::Nothing(spaces) => spaces,
            Content::State { .. } => &[],
        }
    }

    /// The batch: to be applied as a whole, then synced. Takes as long as encoding everything that has changed does, and reads the store where names are long: it must
    /// have all that earlier jobs of the partition have brought.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn into_batch(self) -> Result<OrderedBatch, OrderedError> {
        let mut batch = OrderedBatch::default();
        let head = match self.content {
            Content::State { head, flush } => {
                flush.write(&mut batch)?;
                Some(head)
            }
            Content::Nothing(spaces) => {
                batch.dropped = spaces;
                None
            }
        };
        batch.changes.push((OWN, self.key, head));
        Ok(batch)
    }
}

/// What comes in the order of its space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sorted {
    Records = 0,
    Elements = 1,
}

/// A state that comes in blocks and goes into new spaces of the store, beside the one that is there.
#[derive(Debug)]
pub(crate) struct StoredRestorer {
    partition: PartitionId,
    read: Arc<dyn OrderedRead>,
    first: Option<(Position, Ballot, Origins)>,
    rest: StoreRestorer,
    /// What the last batch wrote to find it by.
    head: Vec<u8>,
    /// What fills the spaces of [`Sorted`], each from the first pair on. Dropped with this if the reception is given up.
    loads: [Option<Box<dyn OrderedLoad>>; 2],
}

impl StoredRestorer {
    pub(crate) fn new(partition: PartitionId, below: &Below) -> StoredRestorer {
        let spaces = [(); STATE_SPACES].map(|()| below.new_space());
        let (read, rest) = (Arc::clone(&below.read), StoreRestorer::new(spaces));
        StoredRestorer { partition, read, first: None, rest, head: Vec::new(), loads: [None, None] }
    }

    /// See [`StoreRestorer::with_unchanged`].
    pub(crate) fn with_unchanged(mut self, space: Space) -> StoredRestorer {
        self.rest = self.rest.with_unchanged(space);
        self
    }

    /// True if the blocks hold changes alone.
    pub(crate) fn is_part(&self) -> bool {
        self.rest.is_part()
    }

    /// Keys that have not changed.
    pub(crate) fn unchanged(&self) -> u64 {
        self.rest.unchanged()
    }

    pub(crate) fn spaces(&self) -> Vec<Space> {
        self.rest.spaces().to_vec()
    }

    pub(crate) fn records(&self) -> u64 {
        self.rest.records()
    }

    pub(crate) fn push_block(&mut self, block: &[u8], restored: &mut Restored) -> Result<(), String> {
        if self.first.is_some() {
            return self.rest.push_block(block, restored).map_err(|malformed| malformed.0.to_owned());
        }
        let first = decode_first(block).map_err(|_| "the first block of the state is malformed".to_owned())?;
        self.first = Some(first);
        Ok(())
    }

    /// Writes records or elements that blocks came to.
    pub(crate) fn load(&mut self, store: &dyn OrderedWrite, of: Sorted, pairs: Changes) -> Result<(), OrderedError> {
        if pairs.is_empty() {
            return Ok(());
        }
        let load = match &mut self.loads[of as usize] {
            Some(load) => load,
            load => load.insert(store.begin_load(self.rest.sorted_spaces()[of as usize])?),
        };
        load.push(pairs)
    }

    /// After the last block, and before the batch with the head: from then on all of them are in the store, and stay there.
    pub(crate) fn finish_load(&mut self, of: Sorted) -> Result<(), OrderedError> {
        self.loads[of as usize].take().map_or(Ok(()), |load| load.finish())
    }

    /// After the last block: adds the head to the last batch, and says where in the log the state stands. From the moment that this
    /// batch is in the store, the state is that of the partition.
    pub(crate) fn finish(&mut self, batch: &mut OrderedBatch) -> Result<(Position, Ballot), String> {
        let (position, ballot, origins) = self.first.as_ref().ok_or("the state has no blocks")?;
        self.head = self.rest.finish().map_err(|malformed| malformed.0.to_owned())?;
        let head = encode((*position, *ballot), origins, &self.head);
        batch.changes.push((OWN, head_key(self.partition), Some(head)));
        Ok((*position, *ballot))
    }

    /// The state, once the last batch is in the store. Reads it.
    pub(crate) fn open(self) -> Result<RestoredState, String> {
        let (position, ballot, origins) = self.first.ok_or("the state has no blocks")?;
        let tree = Tree::open(self.read, &self.head).map_err(|error| error.text)?;
        Ok(RestoredState { position, ballot, origins, tree })
    }
}

fn encode((position, ballot): (Position, Ballot), origins: &Origins, rest: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    let mut w = Writer::new(&mut head);
    w.u8(origins.version());
    w.position(position);
    w.ballot(ballot);
    origins.encode(&mut head);
    Writer::new(&mut head).bytes(rest);
    head
}

pub(crate) fn head_key(partition: PartitionId) -> Vec<u8> {
    let mut key = HEAD_PREFIX.to_vec();
    key.extend_from_slice(&partition.bucket.0.to_be_bytes());
    key.extend_from_slice(&partition.index.to_be_bytes());
    key
}

/// The partition whose head stands under this key.
fn partition_of(key: &[u8]) -> Option<PartitionId> {
    let (bucket, index) = key.strip_prefix(HEAD_PREFIX)?.split_first_chunk::<4>()?;
    let index = <[u8; 2]>::try_from(index).ok()?;
    Some(PartitionId { bucket: BucketId(u32::from_be_bytes(*bucket)), index: u16::from_be_bytes(index) })
}

/// What a store remembers.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// The states that it has.
    pub states: BTreeMap<PartitionId, RestoredState>,
    /// Partitions of dropped buckets of which it has the head still: what that tells of may be gone, and nobody asks for it.
    pub dropped: Vec<PartitionId>,
}

/// The states that the store has.
///
/// # Errors
/// When the store cannot be read or is damaged; the text says what is wrong.
pub(crate) fn recover(below: &Below) -> Result<Stored, String> {
    let mut heads = BTreeMap::new();
    for pair in below.read.range(OWN, Bound::Included(HEAD_PREFIX)) {
        let (key, head) = pair.map_err(|error| error.text)?;
        if !key.starts_with(HEAD_PREFIX) {
            break;
        }
        heads.insert(partition_of(&key).ok_or("the store has a head under a key of no partition")?, head);
    }
    let mut stored = Stored::default();
    let council = heads.remove(&COUNCIL).map(|head| open(below, COUNCIL, &head)).transpose()?;
    let buckets = council.as_ref().map(|council| Buckets::read(&council.tree)).transpose();
    let buckets = buckets.map_err(|_| "the council's list is not of this version")?.unwrap_or_default();
    stored.states.extend(council.map(|council| (COUNCIL, council)));
    for (partition, head) in heads {
        // A start that knows of its end gives its spaces back before the head is removed.
        if buckets.has_dropped(partition.bucket) {
            stored.dropped.push(partition);
        } else {
            stored.states.insert(partition, open(below, partition, &head)?);
        }
    }
    Ok(stored)
}

/// One of the states that the store has.
///
/// # Errors
/// As [`recover`]'s, and when there is none of this partition.
pub(crate) fn recover_one(below: &Below, partition: PartitionId) -> Result<RestoredState, String> {
    let head = below.read.get(OWN, &head_key(partition)).map_err(|error| error.text)?;
    open(below, partition, &head.ok_or_else(|| format!("partition {partition} has no head"))?)
}

fn open(below: &Below, partition: PartitionId, head: &[u8]) -> Result<RestoredState, String> {
    let (position, ballot, origins, head) =
        decode(head).map_err(|_| format!("the head of partition {partition} in the store is malformed"))?;
    let tree = Tree::open(Arc::clone(&below.read), &head).map_err(|error| error.text)?;
    Ok(RestoredState { position, ballot, origins, tree })
}

fn decode(head: &[u8]) -> Result<(Position, Ballot, Origins, Vec<u8>), Malformed> {
    let mut r = Reader::from_slice(head);
    let version = r.u8()?;
    let (position, ballot) = (r.position()?, r.ballot()?);
    let origins = Origins::decode(&mut r, version)?;
    let rest = r.bytes()?.to_vec();
    r.finish()?;
    Ok((position, ballot, origins, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ordered::OrderedWrite;
    use data::EntryContext;
    use storage::MemoryStore;

    use crate::bucket::{BucketKind, Settings};
    use crate::council::{Order, apply};

    fn flush(store: &MemoryStore, below: &Below, partition: PartitionId, tree: Tree) -> Vec<Space> {
        let mut tree = tree.over(Arc::clone(&below.read));
        let flush = tree.begin_flush(|| below.new_space()).unwrap();
        let job = FlushJob::new(partition, (Position(2), Ballot::default()), &Origins::default(), flush, 0);
        store.apply(&job.into_batch().unwrap()).unwrap();
        tree.spaces()
    }

    #[test]
    fn a_flush_is_late_when_much_more_has_changed_than_makes_one_due() {
        let job = |bytes| {
            let below = Below::new(Arc::new(MemoryStore::new()), 1);
            let mut tree = Tree::new().over(Arc::clone(&below.read));
            data::apply_once(&mut tree, &EntryContext::default(), b"an outcome", &[b"SET", b"k", b"v"]);
            let flush = tree.begin_flush(|| below.new_space()).unwrap();
            FlushJob::new(COUNCIL, (Position(2), Ballot::default()), &Origins::default(), flush, bytes)
        };
        assert!(!job(FLUSH_BYTES).is_late());
        assert!(job(2 * FLUSH_BYTES).is_late());
        assert!(!FlushJob::retire(COUNCIL, Vec::new()).is_late());
    }

    #[test]
    fn what_is_left_of_a_dropped_bucket_keeps_no_node_from_starting() {
        let store = MemoryStore::new();
        let below = Below::new(Arc::new(store.clone()), 1);
        let bucket = PartitionId { bucket: BucketId(1), index: 0 };
        let mut tree = Tree::new();
        data::apply_once(&mut tree, &EntryContext::default(), b"an outcome", &[b"SET", b"k", b"v"]);
        let spaces = flush(&store, &below, bucket, tree);
        let mut council = Tree::new();
        let mut order = |order: Order, at: u64| {
            apply(&mut council, &EntryContext::default(), Position(at), &order.encode()).unwrap();
        };
        let settings = Settings::of_kind(BucketKind::Persistent);
        let founders = Vec::new();
        order(Order::Create { name: "b".to_owned(), settings, identities: vec![1], founders }, 1);
        order(Order::Drop { name: "b".to_owned(), id: bucket.bucket }, 2);
        flush(&store, &below, COUNCIL, council);
        // A start has given its spaces back, and ended before the head was removed.
        let kept: Vec<Space> = store.spaces().into_iter().filter(|space| !spaces.contains(space)).collect();
        OrderedWrite::retain_spaces(&store, &kept).unwrap();
        let Stored { states, dropped } = recover(&below).unwrap();
        assert_eq!(crate::inspect::partitions_of_store(&below), Ok(vec![COUNCIL]), "dictum check goes by the same");
        assert_eq!((states.keys().copied().collect::<Vec<_>>(), dropped), (vec![COUNCIL], vec![bucket]));
        store.apply(&FlushJob::retire(bucket, Vec::new()).into_batch().unwrap()).unwrap();
        assert_eq!(recover(&below).unwrap().dropped, []);
    }
}
