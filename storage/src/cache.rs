//! Values in memory above an ordered store: groups of spaces, each with a quota of bytes and a policy.
//!
//! ```text
//!            get ──► resident? ── yes ─────────────────────────────► value
//!                       │ no
//!                       ▼                     epoch unchanged?
//!   epoch of the key's stripe ──► store.get ──► then make resident ► value
//!
//!   apply ──► store.apply ──► per key, under its stripe's lock: epoch + 1, new value resident (or the removed one gone)
//! ```
//! A reader never makes a value resident that an `apply` has overtaken, and none stays. Take a key, and the moment when the store has a batch that
//! changes it. A reader who read the store before that moment noted the epoch before it. Afterwards the writer, under the stripe's lock,
//! raises the epoch and puts its own value in place. If the reader comes to the lock later, it finds another epoch, and leaves; if it comes
//! earlier, its value is replaced. So once `apply` has returned, what is resident under the key is this value or a later one; and what is not
//! resident is read from the store, which has it. (While `apply` runs, a reader may see either.)
//!
//! All changes become resident, not only those of resident keys: what was just written is read from memory as long as the policy keeps it, and
//! reads of it do not wait for the store, which syncs tables at that time. Policies that resist scans resist bulk loads as well.
//! That a key is *absent* is not remembered: the store's filters answer that in a microsecond.
//!
//! **A reader waits for nobody.** Batches are applied by a thread that makes way for others, so it may lose the processor while it holds a lock, and on a busy
//! machine not have it again for tens of milliseconds. A reader who finds a lock held for more than a moment reads the store as if there were no cache.
//!
//! After a failed batch it is not known what the store will hold when it takes batches again. Until one has succeeded no reader makes anything
//! resident, and nothing is resident of the keys of failed batches, so whatever the store says of them holds.

mod ahead;
mod group;
mod policy;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::thread;

use base::ordered::{OrderedBatch, OrderedError, OrderedLoad, OrderedRead, OrderedWrite, Pair, Residence, Space};

use self::ahead::Ahead;
use self::group::{Group, Key, Looked, Seeded};

/// What an entry weighs beside the bytes of its key and its value: its slot (40), its number in a hash table (5 to 12), what the allocator loses, and the
/// ghosts of S3-FIFO (20). The example `cache_hits` measures it.
pub const ENTRY_BYTES: usize = 80;
/// The group of spaces that were assigned to none: so no new space goes without a cache because somebody forgot. If it is not set, they are not
/// cached.
pub const GROUP_DEFAULT: u32 = 0;
/// Keys are distributed over so many stripes by their hash.
const STRIPES: usize = 256;
/// A reader tries so often to have a lock: a microsecond or a few (reckoned), longer than most hold one who have the processor.
const TRIES: usize = 64;
/// Of more entries than this, a cache that is given up is freed by a thread of its own.
const FREE_HERE_MAX: usize = 10_000;

/// Which entries go when there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CachePolicy {
    /// The oldest.
    Fifo,
    /// The one that was not used for longest.
    Lru,
    /// The one that is used least often (W-TinyLFU).
    Lfu,
    /// The oldest, after a probation for what is new: what is read once does not push out what is read often.
    #[default]
    S3Fifo,
}

impl CachePolicy {
    /// All of them.
    pub const ALL: [CachePolicy; 4] = [CachePolicy::Fifo, CachePolicy::Lru, CachePolicy::Lfu, CachePolicy::S3Fifo];

    /// As it is written in settings: `fifo`, `lru`, `lfu`, `s3-fifo`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CachePolicy::Fifo => "fifo",
            CachePolicy::Lru => "lru",
            CachePolicy::Lfu => "lfu",
            CachePolicy::S3Fifo => "s3-fifo",
        }
    }
}

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for CachePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<CachePolicy, String> {
        let found = CachePolicy::ALL.into_iter().find(|policy| policy.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| format!("{text:?} is not a cache policy; choose fifo, lru, lfu or s3-fifo"))
    }
}

/// What a group of spaces may use, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheSettings {
    /// Bytes of all resident entries: keys, values and [`ENTRY_BYTES`] each. 0 for none.
    pub quota_bytes: u64,
    /// Which go first.
    pub policy: CachePolicy,
}

/// What a group has done since its policy was set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    /// The policy.
    pub policy: CachePolicy,
    /// The quota.
    pub quota_bytes: u64,
    /// Bytes of resident entries, counted as for the quota. Never more than it, but for a moment after it was lowered.
    pub bytes: u64,
    /// Resident entries.
    pub entries: u64,
    /// Reads that found their key resident.
    pub hits: u64,
    /// Reads that did not, also those of keys that do not exist.
    pub misses: u64,
    /// Entries that had to go for others, or for a lower quota.
    pub evictions: u64,
}

/// An ordered store with values in memory above it. A clone is another handle.
///
/// Frozen views and ranges read the store itself, and make nothing resident.
pub struct CachedStore<S> {
    inner: Arc<Inner<S>>,
}

struct Inner<S> {
    store: S,
    directory: RwLock<Directory>,
    stripes: Vec<Mutex<Stripe>>,
    seeded: Seeded,
    /// Held while a batch is applied: the order of batches is that of the store. Whether the last one failed.
    failed: Mutex<bool>,
    /// Held while the directory is changed.
    changing: Mutex<()>,
    ahead: Arc<Ahead>,
}

impl<S> Drop for Inner<S> {
    fn drop(&mut self) {
        self.ahead.close();
    }
}

/// Guards keys of some hashes.
#[derive(Default)]
struct Stripe {
    /// Raised whenever one of the keys changes.
    epoch: u64,
    /// Readers make nothing resident.
    closed: bool,
}

#[derive(Default)]
struct Directory {
    groups: BTreeMap<u32, Arc<Group>>,
    assigned: BTreeMap<Space, u32>,
}

impl Directory {
    fn group_of(&self, space: Space) -> Option<&Arc<Group>> {
        self.groups.get(self.assigned.get(&space).unwrap_or(&GROUP_DEFAULT))
    }
}

impl<S> Clone for CachedStore<S> {
    fn clone(&self) -> CachedStore<S> {
        CachedStore { inner: Arc::clone(&self.inner) }
    }
}

impl<S: fmt::Debug> fmt::Debug for CachedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<(u32, CacheStats)> =
            self.directory().groups.iter().map(|(id, group)| (*id, group.stats())).collect();
        f.debug_struct("CachedStore").field("store", &self.inner.store).field("groups", &groups).finish()
    }
}

impl<S> CachedStore<S> {
    fn directory(&self) -> RwLockReadGuard<'_, Directory> {
        // Every change of it is one insertion or removal.
        self.inner.directory.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_directory<T>(&self, change: impl FnOnce(&mut Directory) -> T) -> T {
        change(&mut self.inner.directory.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.inner.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hash(&self, key: &Key<'_>) -> u64 {
        self.inner.seeded.hash_one(key)
    }

    fn stripe_of(&self, hash: u64) -> &Mutex<Stripe> {
        let index = hash >> 32;
        &self.inner.stripes[index as usize % STRIPES]
    }

    fn change_stripes(&self, closed: bool) {
        for stripe in &self.inner.stripes {
            let mut stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            stripe.epoch += 1;
            stripe.closed = closed;
        }
    }

    /// Under the lock of the key's stripe: no reader who read the store before makes anything resident, and `value` is what is resident.
    fn replace(&self, space: Space, key: &[u8], value: Option<&[u8]>) {
        let Some(key) = Key::new(space, key) else { return };
        let hash = self.hash(&key);
        // A panic under this lock leaves nothing half done but one key of a cache, whose epoch was raised before.
        let mut stripe = self.stripe_of(hash).lock().unwrap_or_else(PoisonError::into_inner);
        stripe.epoch += 1;
        if let Some(group) = self.directory().group_of(space) {
            match value {
                Some(value) => group.put(hash, &key, value),
                None => group.remove(hash, &key),
            }
        }
    }
}

impl<S: OrderedWrite> CachedStore<S> {
    /// `store` with no groups yet. `seed` is chance, so that nobody can choose keys whose hashes meet; any number does for tests.
    #[must_use]
    pub fn new(store: S, seed: u64) -> CachedStore<S> {
        let inner = Inner {
            store,
            directory: RwLock::default(),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            seeded: Seeded(seed),
            failed: Mutex::new(false),
            changing: Mutex::new(()),
            ahead: Arc::default(),
        };
        CachedStore { inner: Arc::new(inner) }
    }

    /// The store below. Whoever applies a batch to it directly makes this one wrong.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.inner.store
    }

    /// Makes a group, or changes it: another quota takes hold at once (a lower one evicts), another policy begins with an empty cache.
    pub fn set_group(&self, id: u32, settings: CacheSettings) {
        let _changing = self.changing();
        let found = self.directory().groups.get(&id).cloned();
        if let Some(group) = found.filter(|group| group.policy() == settings.policy) {
            group.set_quota(&settings);
            return;
        }
        let group = Arc::new(Group::new(settings));
        give_up(self.change_directory(|directory| directory.groups.insert(id, group)));
    }

    /// Gives a group up. Its spaces are not cached until they are assigned to another, or the group is made again.
    pub fn drop_group(&self, id: u32) {
        let _changing = self.changing();
        give_up(self.change_directory(|directory| directory.groups.remove(&id)));
    }

    /// Puts a space into a group, which may be made later. What was resident of it in another group is not any more.
    pub fn assign(&self, space: Space, id: u32) {
        let _changing = self.changing();
        let before = self.directory().group_of(space).cloned();
        self.change_directory(|directory| directory.assigned.insert(space, id));
        // Whoever makes something resident holds the directory meanwhile: from here on nobody does in the group before.
        let now = self.directory().group_of(space).cloned();
        if let Some(before) = before
            && !now.is_some_and(|now| Arc::ptr_eq(&now, &before))
        {
            before.remove_spaces(&[space]);
        }
    }

    /// What a group has done; `None` if there is none of this number.
    #[must_use]
    pub fn cache_stats(&self, id: u32) -> Option<CacheStats> {
        self.directory().groups.get(&id).map(|group| group.stats())
    }

    /// The groups that there are, ascending.
    #[must_use]
    pub fn groups(&self) -> Vec<u32> {
        self.directory().groups.keys().copied().collect()
    }

    /// Reads the store, and makes what it has resident by `put`, unless somebody was quicker to change it, or is at it.
    fn load(
        &self,
        space: Space,
        key: &[u8],
        (hash, cached): (u64, Key<'_>),
        put: impl FnOnce(&Group, u64, &Key<'_>, &[u8]),
    ) -> Result<Option<Vec<u8>>, OrderedError> {
        let stripe = self.stripe_of(hash);
        let epoch = lock_at_once(stripe).map(|stripe| stripe.epoch);
        let found = self.inner.store.get(space, key)?;
        if let (Some(value), Some(epoch)) = (&found, epoch)
            && let Some(stripe) = lock_at_once(stripe)
            && stripe.epoch == epoch
            && !stripe.closed
            && let Some(group) = self.directory().group_of(space)
        {
            put(group, hash, &cached, value);
        }
        Ok(found)
    }

    /// Makes resident what is under a key, before anybody reads it.
    fn bring(&self, space: Space, key: &[u8]) -> Result<(), OrderedError> {
        let Some(cached) = Key::new(space, key) else { return Ok(()) };
        let hash = self.hash(&cached);
        let is_missing = self.directory().group_of(space).is_some_and(|group| group.lacks(hash, &cached));
        if is_missing {
            self.load(space, key, (hash, cached), Group::bring)?;
        }
        Ok(())
    }

    fn give_up_spaces(&self, dropped: &[Space]) {
        let mut spaces = dropped.to_vec();
        spaces.sort_unstable();
        // Who is on the way from the store with a value of such a space keeps it for himself.
        self.change_stripes(false);
        let _changing = self.changing();
        let groups: Vec<Arc<Group>> = self.directory().groups.values().cloned().collect();
        for group in groups.iter().filter(|group| group.entries() > 0) {
            group.remove_spaces(&spaces);
        }
        self.change_directory(|directory| directory.assigned.retain(|space, _| spaces.binary_search(space).is_err()));
    }
}

/// A lock for somebody who must not wait: nothing if another one holds it for longer than a moment.
fn lock_at_once<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..TRIES {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    None
}

/// Lets go of a cache without making anybody wait for the freeing of many entries.
#[allow(clippy::disallowed_methods, reason = "freeing memory on a thread of its own changes nothing that anybody sees")]
fn give_up(group: Option<Arc<Group>>) {
    if let Some(group) = group.filter(|group| group.entries() > FREE_HERE_MAX) {
        // Without a thread it is freed here.
        let _ = thread::Builder::new().name("cache-free".to_owned()).spawn(move || drop(group));
    }
}

impl<S: OrderedWrite> OrderedRead for CachedStore<S> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        let store = &self.inner.store;
        let Some(cached) = Key::new(space, key) else { return store.get(space, key) };
        let hash = self.hash(&cached);
        match self.directory().group_of(space).map(|group| group.get(hash, &cached)) {
            None => return store.get(space, key),
            Some(Looked::Resident(value)) => return Ok(Some(value)),
            Some(Looked::Busy) => return self.inner.ahead.timed(|| store.get(space, key)),
            Some(Looked::Missing) => {}
        }
        self.inner.ahead.timed(|| self.load(space, key, (hash, cached), Group::put_read))
    }

    fn range<'a>(
        &'a self,
        space: Space,
        start: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        self.inner.store.range(space, start)
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        self.inner.store.freeze()
    }

    fn wants_notice(&self) -> bool {
        self.inner.ahead.is_of_use()
    }

    fn notice(&self, space: Space, key: Vec<u8>) {
        let Some(cached) = Key::new(space, &key) else { return };
        let hash = self.hash(&cached);
        if self.directory().group_of(space).is_some_and(|group| group.lacks(hash, &cached)) {
            self.inner.ahead.push(space, key);
        }
    }

    /// Each bucket is the group of its number.
    fn residence(&self, bucket: u32) -> Option<Residence> {
        let CacheStats { quota_bytes, bytes, entries, hits, misses, evictions, .. } = self.cache_stats(bucket)?;
        Some(Residence { quota_bytes, bytes, entries, hits, misses, evictions })
    }
}

impl<S: OrderedWrite> OrderedWrite for CachedStore<S> {
    /// Past the cache: who loads a space has not read it.
    fn begin_load(&self, space: Space) -> Result<Box<dyn OrderedLoad>, OrderedError> {
        self.inner.store.begin_load(space)
    }

    fn apply(&self, batch: &OrderedBatch) -> Result<(), OrderedError> {
        let mut failed = self.inner.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.inner.store.apply(batch) {
            if !std::mem::replace(&mut failed, true) {
                self.change_stripes(true);
            }
            for (space, key, _) in batch.changes.iter() {
                self.replace(space, key, None);
            }
            return Err(error);
        }
        if std::mem::take(&mut failed) {
            self.change_stripes(false);
        }
        for (space, key, value) in batch.changes.iter() {
            self.replace(space, key, value);
        }
        if !batch.dropped.is_empty() {
            self.give_up_spaces(&batch.dropped);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), OrderedError> {
        self.inner.store.sync()
    }

    fn spaces(&self) -> Vec<Space> {
        self.inner.store.spaces()
    }

    fn retain_spaces(&self, kept: &[Space]) -> Result<(), OrderedError> {
        let dropped: Vec<Space> = self.spaces().into_iter().filter(|space| !kept.contains(space)).collect();
        if dropped.is_empty() {
            return Ok(());
        }
        self.apply(&OrderedBatch { dropped, ..OrderedBatch::default() })
    }
}
