//! The heads of streams, and what entries are called.

use super::Collection;
use crate::blob::Blob;
use crate::kept::element_bytes;

/// What an entry of a stream is called: milliseconds, and a number among those of one millisecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct StreamId {
    /// Milliseconds since 1970, as the leader's clock was, or as the client said.
    pub ms: u64,
    /// Counts within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The lowest; no entry has it.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The highest.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// The one behind it, if there is any.
    #[must_use]
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => self.ms.checked_add(1).map(|ms| StreamId { ms, seq: 0 }),
        }
    }

    /// The one before it, if there is any.
    #[must_use]
    pub fn previous(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => self.ms.checked_sub(1).map(|ms| StreamId { ms, seq: u64::MAX }),
        }
    }

    /// As clients write it.
    #[must_use]
    pub fn text(self) -> Blob {
        Blob::from(format!("{}-{}", self.ms, self.seq))
    }

    /// Sixteen bytes that are in the order of the identifiers.
    #[must_use]
    pub fn bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    /// What [`StreamId::bytes`] says.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<StreamId> {
        let number = u128::from_be_bytes(bytes.try_into().ok()?);
        Some(StreamId { ms: (number >> 64) as u64, seq: number as u64 })
    }

    /// The same places from the other end.
    #[must_use]
    pub(crate) fn inverted(self) -> StreamId {
        StreamId { ms: !self.ms, seq: !self.seq }
    }
}

/// The block to which entries are being added. See `collections/streams.rs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenBlock {
    /// The entry with which it began.
    pub first: StreamId,
    /// Entries that were added to it.
    pub added: u32,
    /// Those that are still there; 0: no block is open.
    pub live: u32,
    /// Bytes of those that were added.
    pub bytes: u32,
}

/// What a key holds of a stream: its entries and its groups stand in its collection (`collections/streams.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// Its entries. A stream may be without any.
    pub entries: Collection,
    /// The first entry; 0-0 if there is none.
    pub first: StreamId,
    /// The highest identifier that was given.
    pub last: StreamId,
    /// The highest identifier that XDEL has removed.
    pub deleted: StreamId,
    /// Entries that were ever added.
    pub added: u64,
    /// Blocks of entries.
    pub blocks: u32,
    /// The last of them, if it takes more.
    pub open: OpenBlock,
    /// Consumer groups, and the bytes of what stands of them in the stream's collection.
    pub groups: u32,
    /// See `groups`.
    pub group_bytes: u64,
    /// Bytes of the collections of the groups: consumers and what is pending.
    pub held_bytes: u64,
}

impl Stream {
    /// Without entries and groups.
    pub(crate) fn new(entries: Collection) -> Stream {
        let none = StreamId::MIN;
        Stream {
            entries,
            first: none,
            last: none,
            deleted: none,
            added: 0,
            blocks: 0,
            open: OpenBlock::default(),
            groups: 0,
            group_bytes: 0,
            held_bytes: 0,
        }
    }

    /// The number of its collection.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.entries.number()
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.entries.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the blocks occupy: the name of one is eight bytes and its value fewer, which stand in place.
    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(self.blocks) * element_bytes(0, 0)
    }

    /// Approximate bytes of all elements.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let groups = self.group_bytes.saturating_add(self.held_bytes);
        self.entries.bytes().saturating_add(self.block_bytes()).saturating_add(groups)
    }

    /// Whether an entry from `start` on may have been removed by XDEL, and others are there still.
    fn has_gap_from(&self, start: StreamId) -> bool {
        !self.is_empty() && self.deleted != StreamId::MIN && start <= self.deleted
    }

    /// How many entries were added up to an identifier, if that is known.
    #[must_use]
    pub fn added_up_to(&self, id: StreamId) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if self.is_empty() && id <= self.last {
            return Some(self.added);
        }
        if id != StreamId::MIN && id < self.deleted {
            return None;
        }
        if id >= self.last {
            return (id == self.last).then_some(self.added);
        }
        let is_whole = self.deleted == StreamId::MIN || self.deleted < self.first;
        let before_first = self.added.saturating_sub(self.len());
        match id.cmp(&self.first) {
            std::cmp::Ordering::Less if is_whole => Some(before_first),
            std::cmp::Ordering::Equal if is_whole => Some(before_first + 1),
            _ => None,
        }
    }

    /// How many a group has read when it goes on from `last`, of which it had read `read`, to the entry `id`.
    #[must_use]
    pub fn read_with(&self, (last, read): (StreamId, Option<u64>), id: StreamId) -> Option<u64> {
        match read {
            Some(read) if last >= self.first && !self.has_gap_from(last) => Some(read.saturating_add(1)),
            read if self.added == 0 => read,
            _ => self.added_up_to(id),
        }
    }

    /// How many entries a group has still to read, if that is known.
    #[must_use]
    pub fn lag(&self, last: StreamId, read: Option<u64>) -> Option<i64> {
        let of_added = |read: u64| i64::try_from(self.added).unwrap_or(i64::MAX).saturating_sub_unsigned(read);
        if self.is_empty() {
            return Some(0);
        }
        if last < self.first && self.deleted < self.first {
            return Some(self.len() as i64);
        }
        match read {
            Some(read) if !self.has_gap_from(last) => Some(of_added(read)),
            _ => self.added_up_to(last).map(of_added),
        }
    }
}
