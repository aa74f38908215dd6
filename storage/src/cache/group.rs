//! One cache of values with a quota and a policy.

use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::ordered::{ORDERED_KEY_BYTES_MAX, Space};
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::policy::{Policy, spread};
use super::slots::{Place, Slots};
use super::{CachePolicy, CacheSettings, CacheStats, ENTRY_BYTES, lock_at_once};

/// One shard for each so many bytes of quota, so that a table's growth (15 ms for 200,000 entries) holds nobody up for long …
const SHARD_BYTES: usize = 64 << 20;
/// … up to this many.
const SHARDS_MAX: usize = 256;
/// An entry that is heavier than this part of a shard is not kept: one value must not push out a good part of all others.
const ENTRY_PART_MAX: usize = 8;
/// A shard's quota gets smaller in steps of this size, so that no reader waits for the eviction of gigabytes.
const SHRINK_BYTES: usize = 1 << 20;
/// So many slots are searched for entries of dropped spaces while a reader may have to wait.
const SEARCHED_AT_ONCE: u32 = 4096;

const _: () = assert!(ORDERED_KEY_BYTES_MAX <= u16::MAX as usize, "a key's length has 16 bits");

/// A key as it is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key<'a> {
    place: Place,
    bytes: &'a [u8],
}

impl<'a> Key<'a> {
    /// `None` if it has no place in a cache: there is no such key in a store, or no space of such a number.
    pub fn new(space: Space, bytes: &'a [u8]) -> Option<Key<'a>> {
        let fits = bytes.len() <= ORDERED_KEY_BYTES_MAX && space.0 < 1 << 48;
        fits.then_some(Key { place: space.0 << 16 | bytes.len() as u64, bytes })
    }
}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.place);
        state.write(self.bytes);
    }
}

/// Hashes a [`Key`], differently in each process, so that nobody can choose keys that meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeded(pub u64);

/// The state of [`Seeded`]: the seed mixed with the place, then the hash.
pub(super) struct SeededHasher(u64);

impl BuildHasher for Seeded {
    type Hasher = SeededHasher;

    fn build_hasher(&self) -> SeededHasher {
        SeededHasher(self.0)
    }
}

impl Hasher for SeededHasher {
    fn write_u64(&mut self, place: u64) {
        self.0 ^= place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A part of a cache, under a lock of its own.
#[derive(Debug)]
struct Shard {
    /// Numbers of slots, by the hash of their key.
    table: HashTable<u32>,
    slots: Slots,
    policy: Policy,
    capacity: usize,
    hits: u64,
    misses: u64,
    evictions: u64,
}

impl Shard {
    fn new(policy: CachePolicy, capacity: usize) -> Shard {
        Shard {
            table: HashTable::new(),
            slots: Slots::new(),
            policy: Policy::new(policy, capacity),
            capacity,
            hits: 0,
            misses: 0,
            evictions: 0,
        }
    }

    fn find(&self, hash: u64, key: &Key<'_>) -> Option<u32> {
        let same = |number: &u32| {
            let slot = self.slots.get(*number);
            slot.hash == hash as u32 && slot.place == key.place && slot.parts().0 == key.bytes
        };
        self.table.find(spread(hash as u32), same).copied()
    }

    fn get(&mut self, hash: u64, key: &Key<'_>) -> Option<Vec<u8>> {
        let Some(number) = self.find(hash, key) else {
            self.misses += 1;
            return None;
        };
        if std::mem::take(&mut self.slots.get_mut(number).ahead) {
            // For this read it came. Only the next one is a use of what was there.
            self.misses += 1;
        } else {
            self.hits += 1;
            self.policy.read(&mut self.slots, number);
        }
        Some(self.slots.get(number).parts().1.to_vec())
    }

    /// Puts a value in place for a read that is about to come.
    fn bring(&mut self, hash: u64, key: &Key<'_>, value: &[u8]) {
        if self.find(hash, key).is_none() {
            self.put(hash, key, value);
            if let Some(number) = self.find(hash, key) {
                self.slots.get_mut(number).ahead = true;
            }
        }
    }

    fn put(&mut self, hash: u64, key: &Key<'_>, value: &[u8]) {
        let bytes = key.bytes.len() + value.len();
        if weight(bytes) > self.capacity / ENTRY_PART_MAX {
            self.remove(hash, key);
            return;
        }
        if let Some(number) = self.find(hash, key) {
            let slot = self.slots.get_mut(number);
            let before = slot.bytes.len();
            if before == bytes {
                slot.bytes[key.bytes.len()..].copy_from_slice(value);
            } else {
                slot.bytes = [key.bytes, value].concat().into_boxed_slice();
            }
            self.policy.rewritten(&mut self.slots, number, weight(before), weight(bytes));
            self.shrink(self.capacity);
            return;
        }
        self.shrink(self.capacity - weight(bytes));
        let both = [key.bytes, value].concat().into_boxed_slice();
        let Some(number) = self.slots.insert(key.place, hash as u32, both) else { return };
        let Shard { table, slots, .. } = self;
        table.insert_unique(spread(hash as u32), number, |number| spread(slots.get(*number).hash));
        self.policy.push(&mut self.slots, number);
    }

    fn remove(&mut self, hash: u64, key: &Key<'_>) {
        if let Some(number) = self.find(hash, key) {
            self.policy.remove(&mut self.slots, number);
            self.forget(number);
        }
    }

    /// Evicts until the entries weigh no more than this.
    fn shrink(&mut self, capacity: usize) {
        while self.policy.weight() > capacity {
            let Some(number) = self.policy.evict(&mut self.slots) else { return };
            self.evictions += 1;
            self.forget(number);
        }
    }

    fn forget(&mut self, number: u32) {
        if let Ok(found) = self.table.find_entry(spread(self.slots.get(number).hash), |other| *other == number) {
            found.remove();
        }
        drop(self.slots.remove(number));
    }

    /// Nothing is resident of these spaces in the slots of these numbers any more.
    fn remove_spaces(&mut self, spaces: &[Space], numbers: Range<u32>) {
        for number in numbers {
            let slot = self.slots.get(number);
            if slot.is_free() || spaces.binary_search(&Space(slot.place >> 16)).is_err() {
                continue;
            }
            self.policy.remove(&mut self.slots, number);
            self.forget(number);
        }
    }
}

/// What a cache says of a key.
pub(super) enum Looked {
    /// Its value.
    Resident(Vec<u8>),
    /// It is not resident.
    Missing,
    /// Whoever wants to know must wait: somebody changes that part of the cache.
    Busy,
}

/// A cache with its quota and what is counted about it.
pub(super) struct Group {
    shards: Vec<Mutex<Shard>>,
    policy: CachePolicy,
    quota: AtomicUsize,
    /// Reads that found their shard busy.
    passed_by: AtomicU64,
}

impl Group {
    pub fn new(settings: CacheSettings) -> Group {
        let quota = quota(&settings);
        let shards = (quota / SHARD_BYTES).clamp(1, SHARDS_MAX);
        let shard = || Mutex::new(Shard::new(settings.policy, quota / shards));
        Group {
            shards: (0..shards).map(|_| shard()).collect(),
            policy: settings.policy,
            quota: AtomicUsize::new(quota),
            passed_by: AtomicU64::new(0),
        }
    }

    pub fn policy(&self) -> CachePolicy {
        self.policy
    }

    /// Other bits of the hash than those that stripes, and the shards' tables, take.
    fn shard_of(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 40) as usize % self.shards.len()]
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(self.shard_of(hash))
    }

    /// The value, if it is resident and nobody is to be waited for. Counts.
    pub fn get(&self, hash: u64, key: &Key<'_>) -> Looked {
        match lock_at_once(self.shard_of(hash)) {
            Some(mut shard) => shard.get(hash, key).map_or(Looked::Missing, Looked::Resident),
            None => {
                self.passed_by.fetch_add(1, Ordering::Relaxed);
                Looked::Busy
            }
        }
    }

    /// Whether it is certain at once that nothing is resident under the key. Counts nothing.
    pub fn lacks(&self, hash: u64, key: &Key<'_>) -> bool {
        lock_at_once(self.shard_of(hash)).is_some_and(|shard| shard.find(hash, key).is_none())
    }

    /// As [`Group::put`], of what was read: nothing happens if somebody would have to be waited for.
    pub fn put_read(&self, hash: u64, key: &Key<'_>, value: &[u8]) {
        if let Some(mut shard) = lock_at_once(self.shard_of(hash)) {
            shard.put(hash, key, value);
        }
    }

    /// As [`Group::put_read`], for a read that is about to come and then counts as one that missed.
    pub fn bring(&self, hash: u64, key: &Key<'_>, value: &[u8]) {
        if let Some(mut shard) = lock_at_once(self.shard_of(hash)) {
            shard.bring(hash, key, value);
        }
    }

    /// Makes `value` resident, unless it is too large: then nothing is resident under the key.
    pub fn put(&self, hash: u64, key: &Key<'_>, value: &[u8]) {
        self.shard(hash).put(hash, key, value);
    }

    /// Nothing is resident under `key` any more.
    pub fn remove(&self, hash: u64, key: &Key<'_>) {
        self.shard(hash).remove(hash, key);
    }

    /// Nothing is resident of these spaces any more, which are ascending, and of which nothing is made resident meanwhile.
    pub fn remove_spaces(&self, spaces: &[Space]) {
        for shard in &self.shards {
            let mut from = 0;
            loop {
                // A few at a time: readers of other spaces come in between.
                let mut shard = lock(shard);
                let end = shard.slots.end().min(from + SEARCHED_AT_ONCE);
                if from >= end {
                    break;
                }
                shard.remove_spaces(spaces, from..end);
                from = end;
            }
        }
    }

    /// One caller at a time.
    pub fn set_quota(&self, settings: &CacheSettings) {
        let quota = quota(settings);
        self.quota.store(quota, Ordering::Relaxed);
        let wanted = quota / self.shards.len();
        for shard in &self.shards {
            loop {
                let mut shard = lock(shard);
                // Before anything is evicted, so that what is no longer wanted does not come in.
                shard.capacity = wanted;
                shard.policy.set_capacity(wanted);
                let step = shard.policy.weight().saturating_sub(SHRINK_BYTES).max(wanted);
                shard.shrink(step);
                if shard.policy.weight() <= wanted {
                    break;
                }
            }
        }
    }

    /// All of its locks.
    #[cfg(test)]
    pub fn hold(&self) -> Vec<impl Drop> {
        self.shards.iter().map(lock).collect()
    }

    pub fn entries(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).table.len()).sum()
    }

    pub fn stats(&self) -> CacheStats {
        let quota_bytes = self.quota.load(Ordering::Relaxed) as u64;
        let misses = self.passed_by.load(Ordering::Relaxed);
        let mut stats = CacheStats { policy: self.policy, quota_bytes, misses, ..CacheStats::default() };
        for shard in &self.shards {
            let shard = lock(shard);
            stats.bytes += shard.policy.weight() as u64;
            stats.entries += shard.table.len() as u64;
            stats.hits += shard.hits;
            stats.misses += shard.misses;
            stats.evictions += shard.evictions;
        }
        stats
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Nothing in it panics half way: what it indexes by are numbers of its own.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn quota(settings: &CacheSettings) -> usize {
    usize::try_from(settings.quota_bytes).unwrap_or(usize::MAX / 2)
}

/// What an entry with so many bytes of key and value counts for.
pub(super) fn weight(bytes: usize) -> usize {
    bytes + ENTRY_BYTES
}
