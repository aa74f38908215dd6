//! What buckets keep in memory of their values in the store: each bucket is a group of the cache, by its number.

use base::PartitionId;
use base::ordered::{OrderedBatch, OrderedWrite, Space};
use node::CacheWish;
use storage::{CachePolicy, CacheSettings, CachedStore};

/// Gives each bucket its quota and its policy, `usual` where it has none of its own, and takes them from those that are gone.
pub(crate) fn set<S: OrderedWrite>(store: &CachedStore<S>, wishes: &[CacheWish], usual: CacheSettings) {
    for wish in wishes {
        let policy = wish.policy.and_then(|name| name.parse::<CachePolicy>().ok());
        let settings = CacheSettings {
            quota_bytes: wish.quota_bytes.unwrap_or(usual.quota_bytes),
            policy: policy.unwrap_or(usual.policy),
        };
        store.set_group(wish.bucket.0, settings);
    }
    for group in store.groups() {
        if wishes.iter().all(|wish| wish.bucket.0 != group) {
            store.drop_group(group);
        }
    }
}

/// Spaces of a partition that are about to be written belong to its bucket.
pub(crate) fn assign<S: OrderedWrite>(store: &CachedStore<S>, partition: PartitionId, spaces: &[Space]) {
    for space in spaces {
        store.assign(*space, partition.bucket.0);
    }
}

/// So do those that a batch writes.
pub(crate) fn assign_written<S: OrderedWrite>(store: &CachedStore<S>, partition: PartitionId, batch: &OrderedBatch) {
    // A state has a handful.
    let mut assigned = vec![Space(0)];
    for (space, _, _) in batch.changes.iter() {
        if !assigned.contains(&space) {
            assigned.push(space);
            store.assign(space, partition.bucket.0);
        }
    }
}
