//! The store of a process, and what it keeps in memory of that: what the server has in `caches.rs`, around the same
//! [`CachedStore`]. Whatever is in memory ends with the process.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::PartitionId;
use base::ordered::{OrderedBatch, OrderedError, OrderedRead, OrderedWrite, Space};
use node::{CacheWish, Planted};
use storage::{CachePolicy, CacheSettings, CacheStats, CachedStore};

use crate::disk::{SimDisk, SimStore};

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 6] = [READ, EVICTED, QUOTA_CHANGED, POLICY_CHANGED, FAILED, LOST];
const READ: &str = "sim: value read from memory above the store";
const EVICTED: &str = "sim: value evicted from memory above the store";
const QUOTA_CHANGED: &str = "sim: quota of a cache changed";
const POLICY_CHANGED: &str = "sim: policy of a cache changed";
const FAILED: &str = "sim: batch failed below a cache";
const LOST: &str = "sim: cache with values lost with its process";

/// A process's own handle.
#[derive(Debug)]
pub(super) struct ProcessStore {
    store: SimStore,
    cache: Option<(CachedStore<SimStore>, CacheSettings)>,
    planted: Option<Planted>,
    /// Batches that failed below the cache.
    failed: Cell<u64>,
    counts: BTreeMap<&'static str, u64>,
}

impl ProcessStore {
    /// The folder's store; with values in memory above it, if `usual` says how many.
    pub fn open(disk: &SimDisk, usual: Option<CacheSettings>, seed: u64, planted: Option<Planted>) -> ProcessStore {
        let store = disk.store();
        let cache = usual.map(|usual| (CachedStore::new(store.clone(), seed), usual));
        ProcessStore { store, cache, planted, failed: Cell::new(0), counts: BTreeMap::new() }
    }

    /// What the node reads.
    pub fn reader(&self) -> Arc<dyn OrderedRead> {
        match &self.cache {
            Some((cache, _)) => Arc::new(cache.clone()),
            None => Arc::new(self.store.clone()),
        }
    }

    /// Spaces that were there at the start belong to their buckets.
    pub fn assign(&self, spaces: &[(PartitionId, Space)]) {
        let Some((cache, _)) = &self.cache else { return };
        for (partition, space) in spaces {
            cache.assign(*space, partition.bucket.0);
        }
    }

    /// Applies a batch with the state of a partition.
    pub fn apply(&self, partition: PartitionId, batch: &OrderedBatch) -> Result<(), OrderedError> {
        let Some((cache, _)) = &self.cache else { return self.store.apply(batch) };
        let mut last = Space(0);
        for (space, _, _) in batch.changes.iter() {
            if space != last && space != Space(0) {
                last = space;
                cache.assign(space, partition.bucket.0);
            }
        }
        let bypasses = self.planted == Some(Planted::CacheNotWrittenThrough);
        let applied = if bypasses { self.store.apply(batch) } else { cache.apply(batch) };
        self.failed.set(self.failed.get() + u64::from(applied.is_err()));
        applied
    }

    /// What blocks of a partition's state from a peer are written to.
    pub fn writer(&self, partition: PartitionId, spaces: &[Space]) -> &dyn OrderedWrite {
        let Some((cache, _)) = &self.cache else { return &self.store };
        for space in spaces {
            cache.assign(*space, partition.bucket.0);
        }
        if self.planted == Some(Planted::CacheNotWrittenThrough) { &self.store } else { cache }
    }

    /// Makes what was applied durable.
    pub fn sync(&self) -> Result<(), OrderedError> {
        self.store.sync()
    }

    /// Gives each bucket its quota and its policy, and takes them from those that are gone.
    pub fn set_caches(&mut self, wishes: &[CacheWish]) {
        let Some((cache, usual)) = self.cache.clone() else { return };
        for wish in wishes {
            let policy = wish.policy.and_then(|name| name.parse::<CachePolicy>().ok());
            let settings = CacheSettings {
                quota_bytes: wish.quota_bytes.unwrap_or(usual.quota_bytes),
                policy: policy.unwrap_or(usual.policy),
            };
            if let Some(before) = cache.cache_stats(wish.bucket.0) {
                self.note(QUOTA_CHANGED, u64::from(before.quota_bytes != settings.quota_bytes));
                if before.policy != settings.policy {
                    self.note(POLICY_CHANGED, 1);
                    self.note_use(before);
                }
            }
            cache.set_group(wish.bucket.0, settings);
        }
        for group in cache.groups() {
            if wishes.iter().all(|wish| wish.bucket.0 != group) {
                cache.drop_group(group);
            }
        }
    }

    /// More in memory than a quota allows, told for people.
    pub fn over_quota(&self) -> Option<String> {
        let (cache, _) = self.cache.as_ref()?;
        let stats = |group: u32| cache.cache_stats(group).map(|stats| (group, stats));
        let over = cache.groups().into_iter().filter_map(stats).find(|(_, stats)| stats.bytes > stats.quota_bytes)?;
        Some(format!("the cache of bucket {} has {:?}", over.0, over.1))
    }

    /// What was counted since the start. The process is over.
    pub fn close(mut self) -> BTreeMap<&'static str, u64> {
        self.note(FAILED, self.failed.get());
        if let Some((cache, _)) = self.cache.take() {
            for stats in cache.groups().into_iter().filter_map(|group| cache.cache_stats(group)) {
                self.note_use(stats);
                self.note(LOST, u64::from(stats.entries > 0));
            }
        }
        self.counts
    }

    /// Nothing of this gets into what happens in a run: whether a value was in memory may be seen by nobody.
    fn note_use(&mut self, stats: CacheStats) {
        self.note(READ, stats.hits);
        self.note(EVICTED, stats.evictions);
    }

    fn note(&mut self, probe: &'static str, count: u64) {
        if count > 0 {
            *self.counts.entry(probe).or_default() += count;
        }
    }
}
