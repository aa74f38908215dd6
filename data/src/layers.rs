//! The records of a partition: what has changed lately, in memory, over an ordered store that may be much larger.
//!
//! ```text
//!   write ─► active ──begin_flush──► frozen ──(its batch is durable)──► gone: the base has it
//!   read  ─► active ─► frozen ─► base
//! ```
//! Without a base everything stays in `active`, for ever. A layer holds `None` for a key that was removed and may be in an
//! older one. The base is only read here; whoever owns the state carries batches to it (`crate::flush`).

use crate::codec::Reader;
use crate::image::Malformed;
use crate::merge::{Merge, Said, Sorted};
use crate::store::{KeyRef, StoreKey};
use crate::value::{RECORD_BYTES, Record};
use base::ordered::{OrderedError, OrderedRead, Space};
use imbl::OrdMap;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

/// Changes by key; `None` stands for a removal.
pub(crate) type Layer = OrdMap<StoreKey, Option<Record>>;

const _: () = assert!(size_of::<Option<Record>>() == size_of::<Record>(), "records are counted in millions");

/// See the file's head. Invariant: `frozen` is empty unless a flush is under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers {
    active: Layer,
    frozen: Layer,
    base: Option<Base>,
    /// Keys that exist in all of it.
    len: u64,
    /// Approximate bytes of `active` and of `frozen`. Counted only over a base.
    active_bytes: u64,
    frozen_bytes: u64,
}

/// The store below, as far as it is ours.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub read: Arc<dyn OrderedRead>,
    /// Where our records are; none once everything was removed, until the next flush.
    pub space: Option<Space>,
    pub trouble: Trouble,
}

/// The first thing that went wrong with the store below. What is read afterwards means nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble(Arc<OnceLock<OrderedError>>);

impl Trouble {
    pub(crate) fn note(&self, error: OrderedError) {
        let _ = self.0.set(error);
    }

    pub(crate) fn first(&self) -> Option<&OrderedError> {
        self.0.get()
    }
}

impl Layers {
    /// Over what a store holds already: `len` records.
    pub(crate) fn over(base: Base, len: u64) -> Layers {
        Layers { base: Some(base), len, ..Layers::default() }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<Record> {
        match self.active.get(&key) {
            Some(slot) => slot.clone(),
            None if self.base.is_none() => None,
            None => self.below(key),
        }
    }

    /// What the older layers say.
    fn below(&self, key: KeyRef<'_>) -> Option<Record> {
        match self.frozen.get(&key) {
            Some(slot) => slot.clone(),
            None => self.base.as_ref()?.get(key),
        }
    }

    /// Puts a record in place and returns the one that stood there.
    pub(crate) fn insert(&mut self, key: StoreKey, record: Record) -> Option<Record> {
        let old = if self.base.is_none() {
            self.active.insert(key, Some(record)).flatten()
        } else {
            // A key that is here already needs no look below, and no second way through the map.
            let key_bytes = key.key.heap_bytes();
            self.active_bytes += slot_bytes(key_bytes, Some(&record));
            match self.active.get_mut(&key.as_ref()) {
                Some(slot) => {
                    let old = slot.replace(record);
                    self.active_bytes -= slot_bytes(key_bytes, old.as_ref());
                    old
                }
                None => {
                    let old = self.below(key.as_ref());
                    self.active.insert(key, Some(record));
                    old
                }
            }
        };
        self.len += u64::from(old.is_none());
        old
    }

    /// Takes a record out and returns it.
    pub(crate) fn remove(&mut self, key: KeyRef<'_>) -> Option<Record> {
        let old = if self.base.is_none() {
            self.active.remove(&key).flatten()
        } else {
            let old = self.get(key);
            if old.is_some() {
                let key = key.to_store_key();
                let key_bytes = key.key.heap_bytes();
                self.active_bytes += slot_bytes(key_bytes, None);
                if let Some(slot) = self.active.insert(key, None) {
                    self.active_bytes -= slot_bytes(key_bytes, slot.as_ref());
                }
            }
            old
        };
        self.len -= u64::from(old.is_some());
        old
    }

    /// Changes a record where it stands; `None` if there is none. What `edit` returns is handed back.
    pub(crate) fn update<R>(&mut self, key: KeyRef<'_>, edit: impl FnOnce(&mut Record) -> R) -> Option<R> {
        if let Some(slot) = self.active.get_mut(&key) {
            let record = slot.as_mut()?;
            let before = record.value.heap_bytes() as u64;
            let result = edit(record);
            if self.base.is_some() {
                self.active_bytes = self.active_bytes + record.value.heap_bytes() as u64 - before;
            }
            return Some(result);
        }
        self.base.as_ref()?;
        let mut record = self.below(key)?;
        let result = edit(&mut record);
        let key = key.to_store_key();
        self.active_bytes += slot_bytes(key.key.heap_bytes(), Some(&record));
        self.active.insert(key, Some(record));
        Some(result)
    }

    /// Whether keys that will be asked for soon shall be told.
    pub(crate) fn wants_notice(&self) -> bool {
        self.base.as_ref().is_some_and(|base| base.read.wants_notice())
    }

    /// A key will be asked for soon.
    pub(crate) fn notice(&self, key: KeyRef<'_>) {
        if let Some(Base { read, space: Some(space), .. }) = &self.base
            && self.active.get(&key).is_none()
            && self.frozen.get(&key).is_none()
        {
            read.notice(*space, base_key(key));
        }
    }

    /// Records in order, from `start` on. Ends where the store below cannot be read, and notes why.
    pub(crate) fn range<'a>(&'a self, start: Bound<KeyRef<'_>>) -> Box<dyn Iterator<Item = (StoreKey, Record)> + 'a> {
        let layer = |layer: &'a Layer| {
            layer.range::<_, KeyRef<'_>>((start, Bound::Unbounded)).map(|(key, slot)| (key.clone(), slot.clone()))
        };
        let Some(base) = &self.base else {
            return Box::new(layer(&self.active).filter_map(|(key, slot)| Some((key, slot?))));
        };
        let sorted = |one| -> Sorted<'a, StoreKey, Record> { Box::new(layer(one).map(Ok)) };
        let layers = vec![sorted(&self.active), sorted(&self.frozen), base.range(start)];
        let trouble = base.trouble.clone();
        Box::new(Merge::new(layers).map_while(move |said| said.map_err(|error| trouble.note(error)).ok()))
    }

    /// From now on what is not in memory is in `base`, which has nothing of ours yet.
    pub(crate) fn attach(&mut self, base: Base, bytes: u64) {
        self.base = Some(base);
        self.active_bytes = bytes;
    }

    /// What went wrong with the base, if there is one.
    pub(crate) fn trouble(&self) -> Option<&OrderedError> {
        self.base.as_ref()?.trouble.first()
    }

    /// Where the records below are.
    pub(crate) fn space(&self) -> Option<Space> {
        self.base.as_ref()?.space
    }

    /// Approximate bytes of what the base does not have: what is active, and what is frozen.
    pub(crate) fn changed_bytes(&self) -> (u64, u64) {
        (self.active_bytes, self.frozen_bytes)
    }

    /// What [`Layers::changed_bytes`] must be.
    #[cfg(test)]
    pub(crate) fn counted_bytes(&self) -> (u64, u64) {
        let of = |layer: &Layer| layer.iter().map(|(key, slot)| slot_bytes(key.key.heap_bytes(), slot.as_ref())).sum();
        (of(&self.active), of(&self.frozen))
    }

    /// Freezes what has changed, to be written to `space`. Only when nothing is frozen.
    pub(crate) fn freeze(&mut self, new_space: impl FnOnce() -> Space) -> Option<(Layer, Space)> {
        let base = self.base.as_mut()?;
        debug_assert!(self.frozen.is_empty(), "one flush at a time");
        let space = *base.space.get_or_insert_with(new_space);
        self.frozen = std::mem::take(&mut self.active);
        self.frozen_bytes = std::mem::take(&mut self.active_bytes);
        Some((self.frozen.clone(), space))
    }

    /// The base has what was frozen. Returns that, to be freed a little at a time.
    pub(crate) fn thaw(&mut self) -> Layer {
        self.frozen_bytes = 0;
        std::mem::take(&mut self.frozen)
    }

    /// Takes everything out, and returns the layers, to be freed a little at a time, and the space that nobody needs any more.
    pub(crate) fn clear(&mut self) -> (Vec<Layer>, Option<Space>) {
        (self.len, self.active_bytes, self.frozen_bytes) = (0, 0, 0);
        let layers = vec![std::mem::take(&mut self.active), std::mem::take(&mut self.frozen)];
        (layers, self.base.as_mut().and_then(|base| base.space.take()))
    }

    /// A copy that later changes do not reach, neither those here nor those below.
    pub(crate) fn frozen_copy(&self) -> Layers {
        let mut copy = self.clone();
        if let Some(base) = &mut copy.base {
            base.read = base.read.freeze();
        }
        copy
    }
}

impl Base {
    fn get(&self, key: KeyRef<'_>) -> Option<Record> {
        let found = self.read.get(self.space?, &base_key(key)).and_then(|value| match value {
            Some(value) => decode_value(&value).map(Some).map_err(|malformed| broken(key, malformed)),
            None => Ok(None),
        });
        found.unwrap_or_else(|error| {
            self.trouble.note(error);
            None
        })
    }

    fn range<'a>(&'a self, start: Bound<KeyRef<'_>>) -> Sorted<'a, StoreKey, Record> {
        let Some(space) = self.space else { return Box::new(std::iter::empty()) };
        let start = start.map(base_key);
        let start = match &start {
            Bound::Included(key) => Bound::Included(key.as_slice()),
            Bound::Excluded(key) => Bound::Excluded(key.as_slice()),
            Bound::Unbounded => Bound::Unbounded,
        };
        let decode = |(key, value): base::ordered::Pair| -> Said<StoreKey, Record> {
            let key = decode_key(&key).map_err(|malformed| broken(KeyRef { order: 0, key: &key }, malformed))?;
            let record = decode_value(&value).map_err(|malformed| broken(key.as_ref(), malformed))?;
            Ok((key, Some(record)))
        };
        Box::new(self.read.range(space, start).map(move |pair| pair.and_then(decode)))
    }
}

/// Approximate bytes of a key and what a layer says of it.
fn slot_bytes(key_bytes: usize, slot: Option<&Record>) -> u64 {
    slot.map_or(RECORD_BYTES + key_bytes as u64, |record| record.bytes_with_key(key_bytes))
}

/// Where a record stands in its space: the order, big-endian, then the key.
pub(crate) fn base_key(key: KeyRef<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + key.key.len());
    put_base_key(&mut bytes, key);
    bytes
}

/// As [`base_key`], behind what is there.
pub(crate) fn put_base_key(bytes: &mut Vec<u8>, key: KeyRef<'_>) {
    bytes.extend_from_slice(&key.order.to_be_bytes());
    bytes.extend_from_slice(key.key);
}

fn decode_key(bytes: &[u8]) -> Result<StoreKey, Malformed> {
    let (order, key) = bytes.split_first_chunk::<8>().ok_or(Malformed("a key is too short"))?;
    let key = StoreKey::new(key);
    if key.order == u64::from_be_bytes(*order) { Ok(key) } else { Err(Malformed("a key stands in a wrong place")) }
}

/// A record from its bytes in its space.
fn decode_value(bytes: &[u8]) -> Result<Record, Malformed> {
    let mut reader = Reader::new(bytes);
    let record = reader.value()?;
    if reader.is_at_end() { Ok(record) } else { Err(Malformed("bytes follow a record")) }
}

fn broken(key: KeyRef<'_>, malformed: Malformed) -> OrderedError {
    let text = format!("the record of key \"{}\" in the store is damaged: {}", key.key.escape_ascii(), malformed.0);
    OrderedError { text, full: false }
}
