//! One cache of values with a quota and a policy, on `foyer-memory`.

use std::future::Future;
use std::hash::{BuildHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Waker};

use base::ordered::{ORDERED_KEY_BYTES_MAX, Space};
use equivalent::Equivalent;
use foyer_common::event::{Event, EventListener};
use foyer_common::properties::{Age, Hint, Location, Properties};
use foyer_memory::{Cache, CacheBuilder, EvictionConfig, FifoConfig, LfuConfig, LruConfig, S3FifoConfig};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{CachePolicy, CacheSettings, CacheStats, ENTRY_BYTES};

/// One shard for each so many bytes of quota …
const SHARD_BYTES: usize = 64 << 20;
/// … up to this many.
const SHARDS_MAX: usize = 16;
/// An entry that is heavier than this part of a shard is not kept: one value must not push out a good part of all others.
const ENTRY_PART_MAX: usize = 8;
/// A shard's quota gets smaller in steps of this size, so that no reader waits for the eviction of gigabytes.
const SHRINK_BYTES: usize = 1 << 20;

/// A key with its value in one allocation.
pub(super) struct Entry {
    place: Place,
    /// The key, then the value.
    bytes: Box<[u8]>,
}

/// `space << 16 | bytes of the key`: that is what an entry of a million has room for.
type Place = u64;

const _: () = assert!(ORDERED_KEY_BYTES_MAX <= u16::MAX as usize, "a key's length has 16 bits");

impl Entry {
    fn key(&self) -> Key<'_> {
        Key { place: self.place, bytes: self.parts().0 }
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        self.bytes.split_at((self.place & 0xffff) as usize)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

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

impl Equivalent<Entry> for Key<'_> {
    fn equivalent(&self, entry: &Entry) -> bool {
        entry.key() == *self
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

/// Entries have no properties: they cost eight bytes each, and none of them is used here.
#[derive(Clone, Copy, Debug, Default)]
struct Plain;

impl Properties for Plain {
    fn with_phantom(self, _: bool) -> Plain {
        self
    }

    fn phantom(&self) -> Option<bool> {
        None
    }

    fn with_hint(self, _: Hint) -> Plain {
        self
    }

    fn hint(&self) -> Option<Hint> {
        None
    }

    fn with_location(self, _: Location) -> Plain {
        self
    }

    fn location(&self) -> Option<Location> {
        None
    }

    fn with_age(self, _: Age) -> Plain {
        self
    }

    fn age(&self) -> Option<Age> {
        None
    }
}

/// Counts what had to go for others.
#[derive(Default)]
struct Evictions(AtomicU64);

impl EventListener for Evictions {
    type Key = Entry;
    type Value = ();

    fn on_leave(&self, reason: Event, _: &Entry, (): &()) {
        if reason == Event::Evict {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A cache with its quota and what is counted about it.
///
/// What is stated about foyer-memory 0.22.6 was read in its source: an entry heavier than a shard's quota pushes out everything and stays; `clear`
/// forgets to set the bytes in use to zero. So no such entry is handed on here, and nothing is cleared.
pub(super) struct Group {
    cache: Cache<Entry, (), Seeded, Plain>,
    policy: CachePolicy,
    quota: AtomicUsize,
    evictions: Arc<Evictions>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Group {
    pub fn new(settings: CacheSettings, seeded: Seeded) -> Group {
        let quota = quota(&settings);
        let evictions = Arc::new(Evictions::default());
        let listener: Arc<dyn EventListener<Key = Entry, Value = ()>> = Arc::clone(&evictions) as _;
        let cache = CacheBuilder::<Entry, (), _>::new(quota)
            .with_shards((quota / SHARD_BYTES).clamp(1, SHARDS_MAX))
            .with_hash_builder(seeded)
            .with_weighter(|entry: &Entry, (): &()| weight(entry.bytes.len()))
            .with_event_listener(listener)
            .with_eviction_config(eviction(settings.policy))
            .build();
        Group {
            cache,
            policy: settings.policy,
            quota: AtomicUsize::new(quota),
            evictions,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    pub fn policy(&self) -> CachePolicy {
        self.policy
    }

    /// The value, if it is resident. Counts.
    pub fn get(&self, key: &Key<'_>) -> Option<Vec<u8>> {
        let found = self.cache.get(key).map(|entry| entry.key().parts().1.to_vec());
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Makes `value` resident, unless it is too large: then nothing is resident under the key.
    pub fn put(&self, key: &Key<'_>, value: &[u8]) {
        let bytes = key.bytes.len() + value.len();
        let shard = self.quota.load(Ordering::Relaxed) / self.cache.shards();
        if weight(bytes) > shard / ENTRY_PART_MAX {
            self.remove(key);
            return;
        }
        let mut both = Vec::with_capacity(bytes);
        both.extend_from_slice(key.bytes);
        both.extend_from_slice(value);
        self.cache.insert(Entry { place: key.place, bytes: both.into_boxed_slice() }, ());
    }

    /// Nothing is resident under `key` any more.
    pub fn remove(&self, key: &Key<'_>) {
        self.cache.remove(key);
    }

    /// Nothing is resident of these spaces any more, which are ascending. A reader may wait while one of the shards is searched.
    pub fn remove_spaces(&self, spaces: &[Space]) {
        let mut removed = 0;
        let searched = self.cache.flush_if(|entry: &Entry, (): &()| {
            let gone = spaces.binary_search(&Space(entry.place >> 16)).is_ok();
            removed += u64::from(gone);
            gone
        });
        // There is no disk cache behind this one, so there is nothing to wait for.
        let ready = pin!(searched).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        debug_assert!(ready, "nothing is waited for");
        self.evictions.0.fetch_sub(removed, Ordering::Relaxed);
    }

    /// One caller at a time.
    pub fn set_quota(&self, settings: &CacheSettings) {
        let wanted = quota(settings);
        // Before anything is evicted, so that what is no longer wanted does not come in.
        let before = self.quota.swap(wanted, Ordering::Relaxed);
        let mut now = before.min(self.cache.usage());
        loop {
            now = wanted.max(now.saturating_sub(SHRINK_BYTES * self.cache.shards()));
            self.cache.resize(now).expect("no policy refuses a size");
            if now == wanted {
                return;
            }
        }
    }

    pub fn entries(&self) -> usize {
        self.cache.entries()
    }

    pub fn stats(&self) -> CacheStats {
        CacheStats {
            policy: self.policy,
            quota_bytes: self.quota.load(Ordering::Relaxed) as u64,
            bytes: self.cache.usage() as u64,
            entries: self.cache.entries() as u64,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            evictions: self.evictions.0.load(Ordering::Relaxed),
        }
    }
}

fn quota(settings: &CacheSettings) -> usize {
    usize::try_from(settings.quota_bytes).unwrap_or(usize::MAX / 2)
}

fn weight(bytes: usize) -> usize {
    bytes + ENTRY_BYTES
}

fn eviction(policy: CachePolicy) -> EvictionConfig {
    match policy {
        CachePolicy::Fifo => FifoConfig::default().into(),
        CachePolicy::Lru => LruConfig::default().into(),
        CachePolicy::Lfu => LfuConfig::default().into(),
        CachePolicy::S3Fifo => S3FifoConfig::default().into(),
    }
}
