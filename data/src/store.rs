//! Keys as the state orders them.

use crate::blob::Blob;
use base::checksum::xxh3;
use base::slots::hash_slot;
use equivalent::{Comparable, Equivalent};
use std::cmp::Ordering;

/// Where a key stands in the store: first its hash slot, then its hash, then its bytes.
///
/// ```text
/// order:  | hash slot (16 bits) | XXH3-64 of the key, high 48 bits |
/// ```
/// A range of hash slots is therefore a contiguous range of the store, and `order` alone is a cursor for `SCAN` that
/// means the same on every replica and after every failover: a key never moves.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StoreKey {
    /// The hash slot and the hash, see above. Compared first.
    pub order: u64,
    /// The key's own bytes, which tell apart keys that share an order.
    pub key: Blob,
}

/// A borrowed [`StoreKey`]: the hash is worked out once, and a lookup allocates nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeyRef<'a> {
    /// As in [`StoreKey`].
    pub order: u64,
    /// The key's bytes.
    pub key: &'a [u8],
}

/// The first store order of a hash slot; `first_order(slot + 1)` is where the slot ends.
#[must_use]
pub fn first_order(hash_slot: u16) -> u64 {
    u64::from(hash_slot) << 48
}

impl<'a> KeyRef<'a> {
    /// Works out the order of `key`.
    #[must_use]
    pub fn new(key: &'a [u8]) -> KeyRef<'a> {
        KeyRef { order: first_order(hash_slot(key)) | (xxh3(key) >> 16), key }
    }

    /// The hash slot that the key belongs to.
    #[must_use]
    pub fn hash_slot(self) -> u16 {
        (self.order >> 48) as u16
    }

    /// An owned copy.
    #[must_use]
    pub fn to_store_key(self) -> StoreKey {
        StoreKey { order: self.order, key: Blob::new(self.key) }
    }
}

impl StoreKey {
    /// The store key of `key`.
    #[must_use]
    pub fn new(key: &[u8]) -> StoreKey {
        KeyRef::new(key).to_store_key()
    }

    /// Borrows it for a lookup.
    #[must_use]
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef { order: self.order, key: &self.key }
    }
}

impl Equivalent<StoreKey> for KeyRef<'_> {
    fn equivalent(&self, other: &StoreKey) -> bool {
        self.order == other.order && self.key == other.key.as_slice()
    }
}

impl Comparable<StoreKey> for KeyRef<'_> {
    fn compare(&self, other: &StoreKey) -> Ordering {
        self.order.cmp(&other.order).then_with(|| self.key.cmp(other.key.as_slice()))
    }
}
