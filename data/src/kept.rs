//! What is kept in layers over a store (`layers.rs`): records by their keys, and elements of collections by their places.

use crate::blob::Blob;
use crate::codec::{Reader, put_value};
use crate::image::Malformed;
use crate::pieces;
use crate::store::{KeyRef, StoreKey};
use crate::value::{RECORD_BYTES, Record};
use base::limits::{KEY_BYTES_MAX, LONG_NAMES_REMOVED_MAX};
use equivalent::{Comparable, Equivalent};
use std::cmp::Ordering;
use std::fmt::Debug;

/// Keys in an order of their own, each with a value; and how both are written into a space of the store.
pub(crate) trait Kept: Clone + Debug + Default + 'static {
    type Key: Ord + Clone + Debug;
    /// A borrowed key: a lookup allocates nothing.
    type Ref<'a>: Copy + Comparable<Self::Key>;
    type Value: Clone + Debug;

    /// Bytes that what is known by heart of the store (`runs.rs`) may occupy, in each partition; 0 for none.
    const RUNS_BYTES_MAX: u64;
    /// Longer keys are cut into pieces in the store ([`crate::pieces`]).
    const WHOLE_BYTES_MAX: usize;

    /// Bytes of a key as it stands in its space.
    fn key_bytes(key: &Self::Key) -> usize;
    fn borrow(key: &Self::Key) -> Self::Ref<'_>;
    fn own(key: Self::Ref<'_>) -> Self::Key;
    /// Bytes that a key allocates.
    fn key_heap_bytes(key: &Self::Key) -> usize;
    /// Approximate bytes of a key that allocates so many, and of what a layer says of it.
    fn slot_bytes(key_heap_bytes: usize, slot: Option<&Self::Value>) -> u64;
    /// Appends the key as it stands in its space: bytes are in the order of keys.
    fn put_key(bytes: &mut Vec<u8>, key: Self::Ref<'_>);
    fn read_key(bytes: &[u8]) -> Result<Self::Key, Malformed>;
    fn put_value(bytes: &mut Vec<u8>, value: &Self::Value);
    fn read_value(bytes: &[u8]) -> Result<Self::Value, Malformed>;
    /// What is damaged, for people, given the key's bytes in its space.
    fn describe(key: &[u8]) -> String;
}

/// The key as it stands in its space.
pub(crate) fn base_key<K: Kept>(key: K::Ref<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    K::put_key(&mut bytes, key);
    bytes
}

/// The records of a partition. In its space: the order (8 bytes, big-endian), then the key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Records;

impl Kept for Records {
    type Key = StoreKey;
    type Ref<'a> = KeyRef<'a>;
    type Value = Record;

    /// Records are found one by one, and walked over by those who want all of them.
    const RUNS_BYTES_MAX: u64 = 0;
    /// Keys have a limit that fits.
    const WHOLE_BYTES_MAX: usize = usize::MAX;

    fn key_bytes(key: &StoreKey) -> usize {
        8 + key.key.len()
    }

    fn borrow(key: &StoreKey) -> KeyRef<'_> {
        key.as_ref()
    }

    fn own(key: KeyRef<'_>) -> StoreKey {
        key.to_store_key()
    }

    fn key_heap_bytes(key: &StoreKey) -> usize {
        key.key.heap_bytes()
    }

    /// The elements of a collection are not part of it.
    fn slot_bytes(key_heap_bytes: usize, slot: Option<&Record>) -> u64 {
        RECORD_BYTES + key_heap_bytes as u64 + slot.map_or(0, |record| record.value.heap_bytes() as u64)
    }

    fn put_key(bytes: &mut Vec<u8>, key: KeyRef<'_>) {
        bytes.extend_from_slice(&key.order.to_be_bytes());
        bytes.extend_from_slice(key.key);
    }

    fn read_key(bytes: &[u8]) -> Result<StoreKey, Malformed> {
        let (order, key) = bytes.split_first_chunk::<8>().ok_or(Malformed("a key is too short"))?;
        let key = StoreKey::new(key);
        if key.order == u64::from_be_bytes(*order) { Ok(key) } else { Err(Malformed("a key stands in a wrong place")) }
    }

    fn put_value(bytes: &mut Vec<u8>, record: &Record) {
        put_value(bytes, record);
    }

    fn read_value(bytes: &[u8]) -> Result<Record, Malformed> {
        let mut reader = Reader::new(bytes);
        let record = reader.value()?;
        if reader.is_at_end() { Ok(record) } else { Err(Malformed("bytes follow a record")) }
    }

    fn describe(key: &[u8]) -> String {
        format!("the record of key \"{}\"", key.get(8..).unwrap_or_default().escape_ascii())
    }
}

/// Elements of collections. In their space: the collection's number and the order (8 bytes each, big-endian), then the name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Elements;

/// Where an element stands: all of a collection side by side, in an order that the collection's type knows the meaning of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ElementKey {
    /// The number of the collection. Compared first.
    pub collection: u64,
    /// Of a hash: the hash of the field.
    pub order: u64,
    /// Of a hash: the field.
    pub name: Blob,
}

/// A borrowed [`ElementKey`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ElementRef<'a> {
    pub collection: u64,
    pub order: u64,
    pub name: &'a [u8],
}

/// Bytes of one element beside what its name and its value allocate: both, and their share of the tree's nodes.
const ELEMENT_BYTES: u64 = (size_of::<ElementKey>() + size_of::<Blob>()) as u64 * 3 / 2;

/// Bytes of a name that is longer than names were before [`base::versions::Feature::LongNames`], else 0. What was bounded by a number of names is bounded by this,
/// too, and means of shorter names what it always did.
pub(crate) fn long_name_bytes(name: &[u8]) -> usize {
    if name.len() > KEY_BYTES_MAX { name.len() } else { 0 }
}

/// Takes names until those that are long have more bytes together than one entry removes.
pub(crate) struct LongNames {
    bytes: usize,
}

impl LongNames {
    pub(crate) fn new() -> LongNames {
        LongNames { bytes: 0 }
    }

    /// Takes one; false once they are too many.
    pub(crate) fn take(&mut self, name: &[u8]) -> bool {
        self.bytes += long_name_bytes(name);
        self.bytes <= LONG_NAMES_REMOVED_MAX
    }
}

/// Approximate bytes that an element occupies; the same on every replica.
pub(crate) fn element_bytes(name_heap_bytes: usize, value_heap_bytes: usize) -> u64 {
    ELEMENT_BYTES + name_heap_bytes as u64 + value_heap_bytes as u64
}

impl ElementKey {
    pub(crate) fn as_ref(&self) -> ElementRef<'_> {
        ElementRef { collection: self.collection, order: self.order, name: &self.name }
    }

    /// What it and its value occupy.
    pub(crate) fn bytes_with(&self, value: &Blob) -> u64 {
        element_bytes(self.name.heap_bytes(), value.heap_bytes())
    }
}

impl ElementRef<'_> {
    pub(crate) fn to_key(self) -> ElementKey {
        ElementKey { collection: self.collection, order: self.order, name: Blob::new(self.name) }
    }
}

impl Equivalent<ElementKey> for ElementRef<'_> {
    fn equivalent(&self, other: &ElementKey) -> bool {
        *self == other.as_ref()
    }
}

impl Comparable<ElementKey> for ElementRef<'_> {
    fn compare(&self, other: &ElementKey) -> Ordering {
        self.cmp(&other.as_ref())
    }
}

impl Kept for Elements {
    type Key = ElementKey;
    type Ref<'a> = ElementRef<'a>;
    type Value = Blob;

    const RUNS_BYTES_MAX: u64 = if cfg!(test) { 8 * 1024 } else { base::limits::KNOWN_BYTES_MAX };
    const WHOLE_BYTES_MAX: usize = pieces::WHOLE_BYTES_MAX;

    fn key_bytes(key: &ElementKey) -> usize {
        16 + key.name.len()
    }

    fn borrow(key: &ElementKey) -> ElementRef<'_> {
        key.as_ref()
    }

    fn own(key: ElementRef<'_>) -> ElementKey {
        key.to_key()
    }

    fn key_heap_bytes(key: &ElementKey) -> usize {
        key.name.heap_bytes()
    }

    fn slot_bytes(key_heap_bytes: usize, slot: Option<&Blob>) -> u64 {
        element_bytes(key_heap_bytes, slot.map_or(0, Blob::heap_bytes))
    }

    fn put_key(bytes: &mut Vec<u8>, key: ElementRef<'_>) {
        bytes.extend_from_slice(&key.collection.to_be_bytes());
        bytes.extend_from_slice(&key.order.to_be_bytes());
        bytes.extend_from_slice(key.name);
    }

    fn read_key(bytes: &[u8]) -> Result<ElementKey, Malformed> {
        let short = Malformed("the place of an element is too short");
        let (collection, rest) = bytes.split_first_chunk::<8>().ok_or(short)?;
        let (order, name) = rest.split_first_chunk::<8>().ok_or(short)?;
        let [collection, order] = [collection, order].map(|number| u64::from_be_bytes(*number));
        Ok(ElementKey { collection, order, name: Blob::new(name) })
    }

    fn put_value(bytes: &mut Vec<u8>, value: &Blob) {
        bytes.extend_from_slice(value);
    }

    fn read_value(bytes: &[u8]) -> Result<Blob, Malformed> {
        Ok(Blob::new(bytes))
    }

    fn describe(key: &[u8]) -> String {
        format!("the element \"{}\" of a collection", key.get(16..).unwrap_or_default().escape_ascii())
    }
}
