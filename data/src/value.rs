//! What stands under a key: the record and its value.

use crate::blob::Blob;
use crate::collections::fading::PART_DEADLINES;
use crate::collections::listed::blocks_between;
use crate::collections::{PART_BLOCKS, PART_COUNTS, PART_GROUPS, PART_SCORES};
use crate::failure::Failure;
use base::{Revision, WallTime};
use std::sync::Arc;

mod streams;

pub use streams::{OpenBlock, Stream, StreamId};

/// A value. Each type of Redis that Dictum knows is one variant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Any bytes; also numbers and bitmaps, as in Redis.
    String(Blob),
    /// Fields with values, each an element of a collection.
    Hash(Collection),
    /// Different members, each an element of a collection.
    Set(Collection),
    /// Different members with scores, each several elements (`collections/ranked.rs`).
    SortedSet(Collection),
    /// Elements in an order, found by their places (`collections/listed.rs`).
    List(Box<List>),
    /// Entries in the order of their identifiers, and groups of consumers, each several elements (`collections/streams.rs`).
    Stream(Box<Stream>),
    /// A JSON document, as compact text (`json.rs`).
    Json(Text),
}

/// The text of a document. Unlike a [`Blob`] it never stands in place: a record has no room for another thing that does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text(Arc<[u8]>);

impl Text {
    /// A copy of `bytes`.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Text {
        Text(Arc::from(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    fn heap_bytes(&self) -> usize {
        const REFERENCE_COUNTS: usize = 16;
        self.0.len() + REFERENCE_COUNTS
    }
}

/// The types of values that have elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Fields with values.
    Hash,
    /// Different members.
    Set,
    /// Different members with scores.
    SortedSet,
    /// Elements in an order.
    List,
    /// Entries in the order of their identifiers.
    Stream,
}

impl Kind {
    /// The type's name as `TYPE` answers it.
    #[must_use]
    pub fn type_name(self) -> &'static str {
        match self {
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::List => "list",
            Kind::Stream => "stream",
        }
    }

    /// The parts that its elements stand in: what is added to the number of the collection.
    pub(crate) fn parts(self, of: Collection) -> &'static [u64] {
        match self {
            Kind::Hash if of.has_deadlines() => &[0, PART_DEADLINES],
            Kind::Hash | Kind::Set | Kind::List => &[0],
            Kind::SortedSet => &[0, PART_SCORES, PART_COUNTS],
            Kind::Stream => &[0, PART_BLOCKS, PART_GROUPS],
        }
    }

    /// How many parts, the first of them, have as many elements and bytes as the head says.
    fn counted_parts(self) -> usize {
        match self {
            Kind::Hash | Kind::Set | Kind::List | Kind::Stream => 1,
            Kind::SortedSet => 2,
        }
    }

    /// Why there is no room for another element.
    pub(crate) fn is_full(self) -> Failure {
        Failure::Text(match self {
            Kind::Hash => "ERR a hash has at most 4294967295 fields",
            Kind::Set => "ERR a set has at most 4294967295 members",
            Kind::SortedSet => "ERR a sorted set has at most 4294967295 members",
            Kind::List => "ERR a list has at most 4294967295 elements",
            Kind::Stream => "ERR a stream has at most 4294967295 entries",
        })
    }

    /// Why not all of it is answered at once.
    pub(crate) fn is_too_large(self) -> Failure {
        Failure::Text(match self {
            Kind::Hash => "ERR the hash is too large for one answer: go through it with HSCAN",
            Kind::Set => "ERR the set is too large for one answer: go through it with SSCAN",
            Kind::SortedSet => "ERR the sorted set is too large for one answer: go through it with ZSCAN",
            Kind::List => "ERR this part of the list is too large for one answer: ask for a shorter one",
            Kind::Stream => "ERR this part of the stream is too large for one answer: ask for fewer with COUNT",
        })
    }
}

/// What a key holds of a collection: its elements stand elsewhere, by its number (`collections.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(Rust, packed(4))]
pub struct Collection {
    number: u64,
    /// The highest bit says whether it has [`Collection::has_deadlines`].
    bytes: u64,
    len: u32,
}

/// What a key holds of a list: its elements stand in its collection, many of them together, by their places (`collections/listed.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct List {
    /// Its elements.
    pub collection: Collection,
    /// The place of the first element. Places grow to the right; there is room for 2^63 on either side of where a list begins.
    pub front: u64,
    /// How many of its elements stand by themselves (`collections/listed.rs`); [`List::BY_PLACE`] if there are no blocks.
    pub own: u32,
}

impl Default for List {
    /// Without elements, and without a number.
    fn default() -> List {
        List { collection: Collection::new(0, 0, 0), front: LIST_FRONT, own: 0 }
    }
}

/// Where a new list begins.
pub const LIST_FRONT: u64 = 1 << 63;

/// Where a list may begin: further from [`LIST_FRONT`] none comes in any time, and no place is out of range.
pub(crate) const LIST_FRONTS: std::ops::Range<u64> = 1 << 62..3 << 62;

impl List {
    /// Stands for the layout of before version 11 of the state: each element by itself at its place, without a name. Such a list is read as it is, and written
    /// anew in blocks when it is first changed.
    pub(crate) const BY_PLACE: u32 = u32::MAX;

    /// Whether it has the layout of before version 11.
    pub(crate) fn is_by_place(&self) -> bool {
        self.own == List::BY_PLACE
    }

    /// How many elements it has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.collection.len()
    }

    /// Whether it has no element. No such list stands under a key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.collection.is_empty()
    }

    /// Refuses one more element than a list may have.
    pub(crate) fn check_room(&self) -> Result<(), Failure> {
        if self.len() < COLLECTION_LEN_MAX { Ok(()) } else { Err(Kind::List.is_full()) }
    }

    /// The place of the element of an index, which is less than its length.
    #[must_use]
    pub fn place(&self, index: u64) -> u64 {
        self.front.wrapping_add(index)
    }

    /// The index that a client's number means: from the end if it is negative. `None` outside.
    #[must_use]
    pub fn index(&self, number: i64) -> Option<u64> {
        let index = if number < 0 { self.len().checked_sub(number.unsigned_abs())? } else { number.unsigned_abs() };
        (index < self.len()).then_some(index)
    }

    /// The indices from `start` to before `end` that a client's two numbers mean, both of elements that are meant; empty if there are none.
    #[must_use]
    pub fn part(&self, start: i64, stop: i64) -> (u64, u64) {
        let from = |number: i64| {
            if number < 0 { self.len().checked_sub(number.unsigned_abs()) } else { Some(number.unsigned_abs()) }
        };
        let start = from(start).unwrap_or(0);
        let end = from(stop).map_or(0, |stop| stop.saturating_add(1).min(self.len()));
        if start < end { (start, end) } else { (0, 0) }
    }
}
/// Where a head says that fields have deadlines.
const DEADLINES: u64 = 1 << 63;

/// Most elements of one collection: as many as a hash of Redis may have.
pub const COLLECTION_LEN_MAX: u64 = u32::MAX as u64;

impl Collection {
    /// The collection of that number, which has `len` elements of so many bytes.
    pub(crate) fn new(number: u64, len: u32, bytes: u64) -> Collection {
        Collection { number, bytes: bytes & !DEADLINES, len }
    }

    /// Whether it is a hash with fields that expire (`collections/fading.rs`).
    #[must_use]
    pub fn has_deadlines(self) -> bool {
        self.bytes & DEADLINES > 0
    }

    /// The same with deadlines, or without.
    pub(crate) fn with_deadlines(self, has: bool) -> Collection {
        Collection { bytes: self.bytes() | if has { DEADLINES } else { 0 }, ..self }
    }

    fn set_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes & DEADLINES | bytes & !DEADLINES;
    }

    /// Its number, which no other collection ever has.
    #[must_use]
    pub fn number(self) -> u64 {
        self.number
    }

    /// How many elements it has.
    #[must_use]
    pub fn len(self) -> u64 {
        u64::from(self.len)
    }

    /// Whether it has no element. No such collection stands under a key, but of a stream.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Approximate bytes of its elements; of those in one part, if they stand in several.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.bytes & !DEADLINES
    }

    /// An element has come. At most [`COLLECTION_LEN_MAX`] may.
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.len = self.len.saturating_add(1);
        self.set_bytes(self.bytes().saturating_add(bytes));
    }

    /// An element has gone.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        self.len = self.len.saturating_sub(1);
        self.set_bytes(self.bytes().saturating_sub(bytes));
    }

    /// The value of an element of `before` bytes has `after` now.
    pub(crate) fn resize(&mut self, before: u64, after: u64) {
        self.set_bytes(self.bytes().saturating_add(after).saturating_sub(before));
    }
}

/// Everything that is known about a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// What the key holds.
    pub value: Value,
    /// The revision of the last change to the value or the deadline: what `WATCH` and HTTP's ETag compare.
    pub revision: Revision,
    /// The deadline, or [`NEVER`].
    expires_at: WallTime,
}

/// The deadline of a key that does not expire.
const NEVER: WallTime = WallTime(u64::MAX);

/// Bytes of one record in the store beside what key and value allocate: record, store key, share of the tree's nodes.
pub(crate) const RECORD_BYTES: u64 = (size_of::<Record>() + size_of::<crate::store::StoreKey>()) as u64 * 3 / 2;

const _: () = assert!(size_of::<Record>() == 40, "records are counted in millions");

impl Value {
    /// The type's name as `TYPE` answers it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::String(_) => "string",
            Value::Hash(_) => Kind::Hash.type_name(),
            Value::Set(_) => Kind::Set.type_name(),
            Value::SortedSet(_) => Kind::SortedSet.type_name(),
            Value::List(_) => Kind::List.type_name(),
            Value::Stream(_) => Kind::Stream.type_name(),
            Value::Json(_) => "ReJSON-RL",
        }
    }

    /// The bytes of a string; an error for any other type.
    pub fn into_string(self) -> Result<Blob, Failure> {
        match self {
            Value::String(bytes) => Ok(bytes),
            _ => Err(Failure::WrongType),
        }
    }

    /// The collection of a value of that kind; an error for any other type.
    pub fn into_collection(self, wanted: Kind) -> Result<Collection, Failure> {
        self.elements().filter(|(kind, _)| *kind == wanted).map(|(_, collection)| collection).ok_or(Failure::WrongType)
    }

    /// The value of that kind which a collection is.
    #[must_use]
    pub fn of(kind: Kind, collection: Collection) -> Value {
        match kind {
            Kind::Hash => Value::Hash(collection),
            Kind::Set => Value::Set(collection),
            Kind::SortedSet => Value::SortedSet(collection),
            Kind::List => Value::List(Box::new(List { collection, ..List::default() })),
            Kind::Stream => Value::Stream(Box::new(Stream::new(collection))),
        }
    }

    /// The same value with another collection, whose elements have the same places.
    pub(crate) fn with_collection(&self, collection: Collection) -> Value {
        match self {
            Value::List(list) => Value::List(Box::new(List { collection, ..**list })),
            Value::Stream(stream) => Value::Stream(Box::new(Stream { entries: collection, ..**stream })),
            other => other.elements().map_or_else(|| other.clone(), |(kind, _)| Value::of(kind, collection)),
        }
    }

    /// The list of a value; an error for any other type.
    pub fn into_list(self) -> Result<List, Failure> {
        match self {
            Value::List(list) => Ok(*list),
            _ => Err(Failure::WrongType),
        }
    }

    /// The stream of a value; an error for any other type.
    pub fn into_stream(self) -> Result<Stream, Failure> {
        match self {
            Value::Stream(stream) => Ok(*stream),
            _ => Err(Failure::WrongType),
        }
    }

    /// The parts whose elements are counted here, by their numbers, with how many there are; none of those that are empty.
    pub(crate) fn counted(&self) -> Vec<Collection> {
        if let Value::List(list) = self
            && !list.is_by_place()
        {
            let pairs = blocks_between(list.front, list.place(list.len())) + u64::from(list.own);
            return vec![Collection::new(list.collection.number(), pairs as u32, list.collection.bytes())];
        }
        let Some((kind, of)) = self.elements() else { return Vec::new() };
        let parts = &kind.parts(of)[..kind.counted_parts()];
        let mut counted: Vec<Collection> =
            parts.iter().map(|part| Collection::new(of.number() | part, of.len() as u32, of.bytes())).collect();
        if let Value::Stream(stream) = self {
            let (blocks, groups) = (stream.block_bytes(), stream.group_bytes);
            counted.push(Collection::new(of.number() | PART_BLOCKS, stream.blocks, blocks));
            counted.push(Collection::new(of.number() | PART_GROUPS, stream.groups, groups));
        }
        counted.retain(|part| !part.is_empty());
        counted
    }

    /// The kind and the collection of what has elements.
    #[must_use]
    pub fn elements(&self) -> Option<(Kind, Collection)> {
        match self {
            Value::String(_) | Value::Json(_) => None,
            Value::Hash(collection) => Some((Kind::Hash, *collection)),
            Value::Set(collection) => Some((Kind::Set, *collection)),
            Value::SortedSet(collection) => Some((Kind::SortedSet, *collection)),
            Value::List(list) => Some((Kind::List, list.collection)),
            Value::Stream(stream) => Some((Kind::Stream, stream.entries)),
        }
    }

    /// The collection that it is, of whatever type.
    #[must_use]
    pub fn collection(&self) -> Option<Collection> {
        self.elements().map(|(_, collection)| collection)
    }

    /// Bytes that the value allocates outside its record. Elements of a collection are not counted.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match self {
            Value::String(bytes) => bytes.heap_bytes(),
            Value::Json(text) => text.heap_bytes(),
            Value::List(_) => size_of::<List>(),
            Value::Stream(_) => size_of::<Stream>(),
            Value::Hash(_) | Value::Set(_) | Value::SortedSet(_) => 0,
        }
    }

    /// Approximate bytes of the value outside its record, elements included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let elements = match self {
            Value::Stream(stream) => stream.bytes(),
            other => other.elements().map_or(0, |(kind, of)| of.bytes().saturating_mul(kind.counted_parts() as u64)),
        };
        self.heap_bytes() as u64 + elements
    }
}

impl Record {
    /// A record that the store has not given a revision yet.
    #[must_use]
    pub fn new(value: Value, deadline: Option<WallTime>) -> Record {
        let mut record = Record { value, revision: Revision(0), expires_at: NEVER };
        record.set_deadline(deadline);
        record
    }

    /// When the key ceases to exist; `None` if it stays.
    #[must_use]
    pub fn deadline(&self) -> Option<WallTime> {
        (self.expires_at != NEVER).then_some(self.expires_at)
    }

    /// Sets or takes away the deadline.
    pub fn set_deadline(&mut self, deadline: Option<WallTime>) {
        self.expires_at = deadline.unwrap_or(NEVER);
    }

    /// Whether the key exists at `time`: a key is gone at its deadline, not only after it.
    #[must_use]
    pub fn is_alive(&self, time: WallTime) -> bool {
        self.expires_at > time
    }

    /// Approximate bytes that the record, its key and the elements under it occupy; the same on every replica.
    #[must_use]
    pub fn bytes(&self, key: &Blob) -> u64 {
        self.bytes_with_key(key.heap_bytes())
    }

    /// As [`Record::bytes`], given what the key allocates.
    pub(crate) fn bytes_with_key(&self, key_heap_bytes: usize) -> u64 {
        RECORD_BYTES.saturating_add(key_heap_bytes as u64).saturating_add(self.value.bytes())
    }
}
