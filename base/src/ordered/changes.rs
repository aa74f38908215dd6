//! The changes of a batch, packed: there may be hundreds of thousands, and two allocations for each would cost more than writing them.

use std::fmt;

use super::Space;

/// A chunk that has so many bytes is followed by a new one.
const CHUNK_BYTES: usize = 64 << 10;
/// Says that a key is removed. Longer values are refused.
const REMOVED: u32 = u32::MAX;

/// A space, a key of it, and its new value; `None` removes the key.
pub type Change<'a> = (Space, &'a [u8], Option<&'a [u8]>);

/// Where the bytes of a change are: in chunk number `chunk`, from `key` to `value` the key, and from there to `end` the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackedChange {
    /// The space.
    pub space: Space,
    /// The chunk that key and value are in.
    pub chunk: usize,
    /// Where in the chunk the key begins.
    pub key: usize,
    /// Where the key ends and the value begins.
    pub value: usize,
    /// Where the value ends; `None` removes the key.
    pub end: Option<usize>,
}

#[derive(Clone, Copy)]
struct Entry {
    space: Space,
    chunk: u32,
    at: u32,
    key_bytes: u32,
    value_bytes: u32,
}

const _: () = assert!(size_of::<Entry>() == 24, "there are hundreds of thousands");

/// Changes in their order, with all their bytes in a few chunks.
#[derive(Clone, Default)]
pub struct Changes {
    entries: Vec<Entry>,
    chunks: Vec<Vec<u8>>,
    bytes: usize,
}

impl Changes {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes room for this many more changes.
    pub fn reserve(&mut self, additional: usize) {
        self.entries.reserve(additional);
    }

    /// Adds a change.
    pub fn push<K: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, (space, key, value): (Space, K, Option<V>)) {
        self.write(
            space,
            |bytes| bytes.extend_from_slice(key.as_ref()),
            value.map(|value| move |bytes: &mut Vec<u8>| bytes.extend_from_slice(value.as_ref())),
        );
    }

    /// Adds a change whose key and value are written where they will stand: both only append.
    ///
    /// # Panics
    /// If key or value has 4 GiB: the store's limits are far below.
    pub fn write(&mut self, space: Space, key: impl FnOnce(&mut Vec<u8>), value: Option<impl FnOnce(&mut Vec<u8>)>) {
        if self.chunks.last().is_none_or(|chunk| chunk.len() >= CHUNK_BYTES) {
            // The first one grows: most batches are small. The last change of a chunk may stand out by a little.
            let room = if self.chunks.is_empty() { 0 } else { CHUNK_BYTES + CHUNK_BYTES / 16 };
            self.chunks.push(Vec::with_capacity(room));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let at = chunk.len();
        key(chunk);
        let middle = chunk.len();
        let removed = value.is_none();
        if let Some(value) = value {
            value(chunk);
        }
        let length =
            |bytes: usize| u32::try_from(bytes).ok().filter(|bytes| *bytes < REMOVED).expect("below the limits");
        let value_bytes = if removed { REMOVED } else { length(chunk.len() - middle) };
        self.bytes += chunk.len() - at;
        let key_bytes = length(middle - at);
        // A chunk begins with less than its size, so this is small.
        self.entries.push(Entry { space, chunk: length(number), at: length(at), key_bytes, value_bytes });
    }

    /// The change of this number, from 0.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn get(&self, number: usize) -> Change<'_> {
        let packed = self.packed(number);
        let chunk = &self.chunks[packed.chunk];
        (packed.space, &chunk[packed.key..packed.value], packed.end.map(|end| &chunk[packed.value..end]))
    }

    /// Where the change of this number, from 0, stands.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn packed(&self, number: usize) -> PackedChange {
        let Entry { space, chunk, at, key_bytes, value_bytes } = self.entries[number];
        let value = at as usize + key_bytes as usize;
        let end = (value_bytes != REMOVED).then(|| value + value_bytes as usize);
        PackedChange { space, chunk: chunk as usize, key: at as usize, value, end }
    }

    /// The bytes that changes stand in.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.chunks.iter().map(Vec::as_slice)
    }

    /// All changes in their order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Change<'_>> + ExactSizeIterator {
        (0..self.entries.len()).map(|number| self.get(number))
    }
}

impl PartialEq for Changes {
    fn eq(&self, other: &Changes) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Changes {}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<K: AsRef<[u8]>, V: AsRef<[u8]>> Extend<(Space, K, Option<V>)> for Changes {
    fn extend<I: IntoIterator<Item = (Space, K, Option<V>)>>(&mut self, changes: I) {
        changes.into_iter().for_each(|change| self.push(change));
    }
}

impl<K: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(Space, K, Option<V>)> for Changes {
    fn from_iter<I: IntoIterator<Item = (Space, K, Option<V>)>>(changes: I) -> Changes {
        let mut packed = Changes::default();
        packed.extend(changes);
        packed
    }
}

impl<K: AsRef<[u8]>, V: AsRef<[u8]>> From<Vec<(Space, K, Option<V>)>> for Changes {
    fn from(changes: Vec<(Space, K, Option<V>)>) -> Changes {
        changes.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_as_they_were() {
        let large = vec![7; CHUNK_BYTES * 2];
        let mut given: Vec<(Space, Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        for number in 0..3000u64 {
            let value = (number % 5 > 0).then(|| vec![number as u8; number as usize % 90]);
            given.push((Space(number % 3), number.to_be_bytes()[..number as usize % 9].to_vec(), value));
            if number % 1000 == 999 {
                given.push((Space(9), Vec::new(), Some(large.clone())));
            }
        }
        let packed: Changes = given.iter().cloned().collect();
        assert_eq!((packed.len(), packed.is_empty()), (given.len(), false));
        let given_parts = given.iter().map(|(space, key, value)| (*space, key.as_slice(), value.as_deref()));
        assert!(packed.iter().eq(given_parts));
        let bytes: usize = given.iter().map(|(_, key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
        assert_eq!((packed.bytes(), packed.chunks().map(<[u8]>::len).sum::<usize>()), (bytes, bytes));
        assert!(packed.chunks().count() >= 3);
        assert_eq!(packed.clone(), packed);
        assert_ne!(packed, Changes::default());
    }
}
