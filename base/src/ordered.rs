//! Ordered maps of bytes, as the state machine reads them and as a store keeps them.
//!
//! A store holds any number of *spaces*, each an ordered map. Whoever owns a partition's state reads it through
//! [`OrderedRead`] in the middle of a turn, and hands changes out as an [`OrderedBatch`], which is applied elsewhere (another
//! thread, the simulator) as a whole or not at all. A crash may lose batches that were not synced: a suffix of them, never
//! one out of the middle.

mod changes;

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

pub use changes::{Change, Changes, PackedChange};

/// Names one ordered map of a store. Space 0 is the owner's own, for what it must know to read the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Space(pub u64);

/// Longest key of a space, in bytes: what the store under it takes (fjall: 65,535), with room to spare.
pub const ORDERED_KEY_BYTES_MAX: usize = 60 * 1024;

/// Why a store cannot be read or written. Nothing that was promised depends on it: the journal is the truth.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderedError {
    /// What happened, for people.
    pub text: String,
    /// There is no room on the disk, and nothing worse.
    pub full: bool,
}

impl fmt::Display for OrderedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.text)
    }
}

impl std::error::Error for OrderedError {}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// What of a bucket's spaces is resident in memory above a store, and how that was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Residence {
    /// Bytes that it may use.
    pub quota_bytes: u64,
    /// Bytes that it uses.
    pub bytes: u64,
    /// Resident records.
    pub entries: u64,
    /// Reads that found their key resident, since the policy was set.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Records that had to go for others.
    pub evictions: u64,
}

/// Reading a store, or a frozen view of one.
///
/// A space that was never written, or was dropped, reads as empty.
pub trait OrderedRead: Send + Sync + fmt::Debug {
    /// The value of `key`.
    ///
    /// # Errors
    /// When the store cannot be read, or what it holds fails its checksums.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError>;

    /// Keys with their values, ascending from `start` on.
    ///
    /// # Errors
    /// Each step may fail as [`OrderedRead::get`] may; nothing comes after a failure.
    fn range<'a>(
        &'a self,
        space: Space,
        start: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a>;

    /// A frozen view: later batches do not reach it. Cheap; it may be read by another thread, and it keeps the space of what was
    /// overwritten since from being freed until it is dropped.
    fn freeze(&self) -> Arc<dyn OrderedRead>;

    /// Whether keys that will be read soon shall be told ([`OrderedRead::notice`]): lately somebody waited for the disk.
    fn wants_notice(&self) -> bool {
        false
    }

    /// `key` will be read soon: it may be brought into memory meanwhile. A hint, without effect on what is read.
    fn notice(&self, space: Space, key: Vec<u8>) {
        let _ = (space, key);
    }

    /// What is resident of the spaces of a bucket (by its number); none where nothing is cached above the store.
    fn residence(&self, bucket: u32) -> Option<Residence> {
        let _ = bucket;
        None
    }
}

/// A store that takes batches: what its owner has beside reading.
pub trait OrderedWrite: OrderedRead {
    /// Applies a batch, as a whole or not at all. It may take long.
    ///
    /// # Errors
    /// A key or value is too long (nothing was changed), or the store cannot be written: then whether the batch was applied is not
    /// known before a later one succeeds.
    fn apply(&self, batch: &OrderedBatch) -> Result<(), OrderedError>;

    /// Makes all batches that were applied durable.
    ///
    /// # Errors
    /// The store cannot be written.
    fn sync(&self) -> Result<(), OrderedError>;

    /// The spaces that exist: written at least once, and not dropped. Ascending.
    fn spaces(&self) -> Vec<Space>;

    /// Drops all spaces but these, durably.
    ///
    /// # Errors
    /// The store cannot be written.
    fn retain_spaces(&self, kept: &[Space]) -> Result<(), OrderedError>;

    /// Begins to fill `space`, which nothing was written to and nobody reads yet, with pairs in ascending order: much cheaper than by batches where
    /// there are many. Batches to other spaces go on beside it.
    ///
    /// # Errors
    /// The store cannot be written, or the space exists.
    fn begin_load(&self, space: Space) -> Result<Box<dyn OrderedLoad>, OrderedError>;
}

/// A space that is being filled. Nothing of it can be read, or survives a crash, before [`OrderedLoad::finish`]; given up (dropped) it leaves the space
/// empty, and whoever began it drops that.
pub trait OrderedLoad: Send + fmt::Debug {
    /// Takes pairs. All are of the load's space, none removes a key, and each key is greater than all before it.
    ///
    /// # Errors
    /// They are not like that, a key or value is too long, or the store cannot be written. The load is of no use any more.
    fn push(&mut self, pairs: Changes) -> Result<(), OrderedError>;

    /// Enters all pairs in the store, durably, and with them all batches that were applied before.
    ///
    /// # Errors
    /// The store cannot be written: the space has all pairs or none.
    fn finish(self: Box<Self>) -> Result<(), OrderedError>;
}

/// Changes that are applied together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OrderedBatch {
    /// Spaces that the owner will neither read nor write again, whatever becomes of this batch once it is applied. Their disk space
    /// comes back some time later; the numbers are not used again.
    pub dropped: Vec<Space>,
    /// New values; `None` removes the key. Of several for one key the last one counts.
    pub changes: Changes,
}

impl OrderedBatch {
    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.changes.bytes()
    }
}
