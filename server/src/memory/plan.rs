//! The share of a node's memory that each of its parts may take, where no setting says otherwise.
//!
//! From [`FULL`] on every part has what [`base::limits`] and the stores say. With less memory each has less, all in one proportion, so a node in a small container works like a
//! large one, and slower. Of little memory it is a smaller one: what the allocator keeps, buffers on their way and pages that wait for the disk do not shrink likewise. (Measured: three
//! nodes with writes of 1 MiB at full speed held twice what the plan said.) docs/operating.md has the table, which a test compares with this.

use base::limits::{KNOWN_BYTES_MAX, LOG_BYTES_HELD, LOG_BYTES_PER_SNAPSHOT, UNDECIDED_BYTES_MAX, UNFLUSHED_BYTES_MAX};
use node::SnapshotSettings;
use storage::LsmOptions;

/// With so much memory nothing is made smaller.
const FULL: u64 = 8 << 30;
/// Nothing is made smaller than for this: a node needs some room to work at all.
const LEAST: u64 = 256 << 20;
/// Memory for values of the store.
const VALUES: u64 = 1 << 30;

/// See the file's head. All in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// Values of each bucket that has no quota of its own.
    pub values: u64,
    /// See [`base::limits::LOG_BYTES_PER_SNAPSHOT`].
    pub log_per_snapshot: u64,
    /// See [`base::limits::LOG_BYTES_HELD`].
    pub log_held: u64,
    /// Changes that are not in the store yet.
    unflushed: u64,
    flush: u64,
    /// Entries that are not decided, and at a follower those that are not on its disk.
    undecided: u64,
    store_cache: u64,
    store_memtable: u64,
    store_journal: u64,
}

impl Plan {
    /// For a node that has so much memory; 0: nobody knows.
    pub(crate) fn of(memory: u64) -> Plan {
        let memory = if memory == 0 { FULL } else { memory.clamp(LEAST, FULL) };
        // In mebibytes, so that nothing overflows. The share is 1 at the full memory, and half of the proportion at nearly none.
        let (memory, full) = (memory >> 20, FULL >> 20);
        let part = |whole: u64| whole / 1024 * memory / full * (full + memory) / (2 * full) * 1024;
        let store = LsmOptions::default();
        Plan {
            values: part(VALUES),
            log_per_snapshot: part(LOG_BYTES_PER_SNAPSHOT),
            log_held: part(LOG_BYTES_HELD),
            unflushed: part(UNFLUSHED_BYTES_MAX),
            flush: part(SnapshotSettings::default().flush_bytes),
            undecided: part(UNDECIDED_BYTES_MAX as u64),
            store_cache: part(store.cache_bytes),
            store_memtable: part(store.memtable_bytes),
            store_journal: part(store.journal_bytes_max),
        }
    }

    /// How states get to disk, where values may have so many bytes: two of the largest are held, whatever the memory is.
    pub(crate) fn snapshots(&self, value_bytes_max: usize) -> SnapshotSettings {
        let two = (2 * value_bytes_max as u64).min(UNFLUSHED_BYTES_MAX);
        SnapshotSettings {
            flush_bytes: self.flush,
            unflushed_bytes_max: self.unflushed.max(two),
            undecided_bytes_max: usize::try_from(self.undecided.max(two)).unwrap_or(usize::MAX),
            ..SnapshotSettings::default()
        }
    }

    /// The store's.
    pub(crate) fn store(&self) -> LsmOptions {
        LsmOptions {
            cache_bytes: self.store_cache,
            memtable_bytes: self.store_memtable,
            journal_bytes_max: self.store_journal,
            ..LsmOptions::default()
        }
    }

    /// Elements that ranges have read of collections, where buckets may keep so many bytes of values.
    pub(crate) fn known(values: u64) -> u64 {
        KNOWN_BYTES_MAX.min(values / 8)
    }

    /// All parts but for what clients hold, with their names in docs/operating.md.
    #[cfg(test)]
    fn parts(&self) -> [(&'static str, u64); 7] {
        // A batch is encoded while the changes that it is made of are still there.
        let store = self.store_cache + 2 * self.store_memtable + self.store_journal + self.flush;
        let held = self.snapshots(base::limits::VALUE_BYTES_DEFAULT);
        let undecided = held.undecided_bytes_max as u64;
        [
            ("values of a bucket", self.values),
            ("what ranges have read", Plan::known(self.values)),
            ("changes that the store does not have", held.unflushed_bytes_max),
            ("log since the last flush", self.log_per_snapshot),
            ("log for those a little behind", undecided.min(base::limits::LOG_BYTES_KEPT)),
            ("entries on their way", 2 * undecided),
            ("the store's own", store),
        ]
    }
}

#[cfg(test)]
mod tests {
    use base::limits::VALUE_BYTES_DEFAULT;

    use super::*;

    #[test]
    fn with_enough_memory_nothing_is_smaller() {
        for memory in [0, FULL, 24 << 30, u64::MAX] {
            let plan = Plan::of(memory);
            assert_eq!(plan.snapshots(VALUE_BYTES_DEFAULT), SnapshotSettings::default());
            assert_eq!(plan.store(), LsmOptions::default());
            assert_eq!(
                (plan.values, plan.log_per_snapshot, plan.log_held),
                (VALUES, LOG_BYTES_PER_SNAPSHOT, LOG_BYTES_HELD)
            );
        }
    }

    /// And leave a quarter for clients, and some for the program.
    #[test]
    fn all_parts_fit_and_stand_in_the_docs() {
        let text = include_str!("../../../docs/operating.md");
        let columns = [512u64 << 20, 1 << 30, 2 << 30, FULL];
        let plans = columns.map(Plan::of);
        for (number, (name, _)) in plans[0].parts().into_iter().enumerate() {
            let figures = plans.map(|plan| (plan.parts()[number].1 >> 20).to_string());
            let row = format!("| {name} | {} |", figures.join(" | "));
            assert!(text.contains(&row), "docs/operating.md lacks the row\n{row}");
        }
        for (memory, plan) in columns.into_iter().zip(&plans) {
            let sum: u64 = plan.parts().into_iter().map(|(_, bytes)| bytes).sum();
            assert!(sum + memory / 4 + (48 << 20) <= memory, "{} MiB of {}", sum >> 20, memory >> 20);
        }
    }
}
