//! When changes go to the store below, as far as that is a matter of all partitions together.
//!
//! Each partition is flushed when it has changed much, or some time ago (`partition.rs`). That alone would let a node of a thousand partitions hold a thousand times as
//! much in memory, and as much more log in its journal, as one of a single partition; and would leave what lies still in many small partitions in memory twice, for
//! ever. So the limits of one partition are those of all of them together as well.

use std::time::Duration;

use base::limits::FLUSH_PART_MIN;

use crate::door::SnapshotSettings;
use crate::group::Group;
use crate::node::Node;

/// Flushes that begin within [`SnapshotSettings::flush_after`] because little changes are old: each is a sync of the store.
const OLD_ONES_MAX: u64 = 64;

/// What partitions hold that the store does not have, all together; as it was when it was last looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Unflushed {
    /// Bytes of log or of changed records: [`crate::partition::Partition::ahead_bytes`].
    ahead: u64,
    /// How many partitions are ahead of it.
    holders: u64,
    /// How many have changed records in memory.
    changed: u64,
}

/// What one partition adds to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    ahead: u64,
    has_changed: bool,
}

impl Weight {
    pub(crate) fn of(group: &Group) -> Weight {
        let has_changed = group.partition.tree.unflushed_bytes().0 > 0;
        Weight { ahead: group.partition.ahead_bytes(), has_changed }
    }
}

impl Unflushed {
    /// A partition weighs something else than before.
    pub(crate) fn replace(&mut self, old: Weight, new: Weight) {
        let count = |is: bool| u64::from(is);
        self.ahead = self.ahead - old.ahead + new.ahead;
        self.holders = self.holders - count(old.ahead > 0) + count(new.ahead > 0);
        self.changed = self.changed - count(old.has_changed) + count(new.has_changed);
    }

    /// So many bytes of changes are worth a flush in the end, and so long after the last one.
    pub(crate) fn worth_a_flush(&self, settings: &SnapshotSettings) -> (u64, Duration) {
        let changed = self.changed.max(1);
        let bytes = settings.flush_bytes.div_ceil(FLUSH_PART_MIN).div_ceil(changed);
        let rounds = changed.div_ceil(OLD_ONES_MAX);
        (bytes, settings.flush_after.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX)))
    }

    /// With so many bytes ahead of the store a partition takes no more.
    pub(crate) fn ahead_max(&self, settings: &SnapshotSettings) -> u64 {
        let most = settings.unflushed_bytes_max;
        // Whoever has more than its share: there is always one.
        if self.ahead >= most { most / self.holders.max(1) } else { most }
    }
}

/// Of partitions with so many bytes each, the places of those that are to be flushed so that all of them together have less than `most`: the largest, until half of
/// that is left.
fn to_be_flushed(bytes: &[u64], most: u64) -> Vec<usize> {
    let mut left: u64 = bytes.iter().sum();
    if left < most {
        return Vec::new();
    }
    let mut places: Vec<usize> = (0..bytes.len()).filter(|place| bytes[*place] > 0).collect();
    places.sort_by_key(|place| std::cmp::Reverse(bytes[*place]));
    let goes = |place: &usize| {
        let goes = left > most / 2;
        left = left.saturating_sub(bytes[*place]);
        goes
    };
    places.into_iter().take_while(goes).collect()
}

impl Node {
    /// Looks how much all partitions hold, and has the largest flushed if it is too much.
    pub(super) fn weigh_changes(&mut self) {
        let was_too_far_ahead = self.is_too_far_ahead();
        self.unflushed = self.groups.weigh();
        let holders = self.unflushed.holders;
        if self.is_too_far_ahead() && !was_too_far_ahead {
            self.probe("node: all partitions together too far ahead of the store");
        }
        let (by_changes, by_log) = (self.config.snapshots.flush_bytes, self.config.log_bytes_per_snapshot);
        if self.unflushed.ahead < by_changes.min(by_log) {
            // As it is nearly always: neither sum can be more than this.
            return;
        }
        // What is on its way to the store, or will be next, is as good as there.
        let held = |log: bool| {
            let of = move |group: &Group| {
                let partition = &group.partition;
                let waits = partition.snapshot_wanted || partition.has_flush() || partition.ahead_bytes() == 0;
                let bytes = if log { partition.bytes_since_snapshot } else { partition.tree.unflushed_bytes().0 };
                if waits { 0 } else { bytes }
            };
            self.groups.iter().map(of).collect::<Vec<u64>>()
        };
        let mut places = to_be_flushed(&held(false), by_changes);
        places.extend(to_be_flushed(&held(true), by_log));
        for g in places {
            // One alone that has so much is due by itself.
            if holders > 1 {
                self.probe("node: flushed since all partitions together had much");
            }
            self.groups[g].partition.snapshot_wanted = true;
        }
    }

    fn is_too_far_ahead(&self) -> bool {
        self.unflushed.ahead >= self.config.snapshots.unflushed_bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_flushed_until_half_is_left() {
        assert_eq!(to_be_flushed(&[10, 20, 5], 36), [0; 0]);
        assert_eq!(to_be_flushed(&[10, 20, 5, 0], 35), [1]);
        assert_eq!(to_be_flushed(&[10, 20, 5, 0, 65], 60), [4, 1]);
        assert_eq!(to_be_flushed(&[1; 64], 64).len(), 32);
        assert_eq!(to_be_flushed(&[], 1), [0; 0]);
    }

    #[test]
    fn limits_of_one_partition_are_those_of_all() {
        let settings = SnapshotSettings {
            flush_bytes: 64 << 20,
            flush_after: Duration::from_secs(10),
            unflushed_bytes_max: 512 << 20,
            ..SnapshotSettings::default()
        };
        let of = |ahead, holders| Unflushed { ahead, holders, changed: holders };
        assert_eq!(of(0, 0).worth_a_flush(&settings), (1 << 20, Duration::from_secs(10)));
        assert_eq!(of(0, 64).worth_a_flush(&settings), (1 << 14, Duration::from_secs(10)));
        assert_eq!(of(0, 1024).worth_a_flush(&settings), (1 << 10, Duration::from_secs(160)));
        assert_eq!(of(511 << 20, 64).ahead_max(&settings), 512 << 20);
        assert_eq!(of(512 << 20, 64).ahead_max(&settings), 8 << 20);
    }
}
