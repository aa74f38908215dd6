//! Compactions beside those that fjall begins itself: what it has left undone, and what is worth doing while nothing else is.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::ordered::{OrderedError, Space};
use fjall::AbstractTree;

use super::failures::failure;
use super::handles::Handle;
use super::inner::{Inner, levels};

/// Spaces with more bytes than this in tables are not rewritten as a whole at rest: it would take too long, and the upper levels, which hold what is
/// overwritten, are a small part of them.
pub const SQUEEZE_BYTES_MAX: u64 = 1 << 30;
/// A space is rewritten if its upper levels have at least this part of the bytes of its lowest. So what a byte above causes to be written is bounded: by itself
/// and four below.
const UPPER_PART: u64 = 4;
/// Of files of values in which something is used a compaction writes one in so many anew.
const VALUES_PART: u64 = 4;
/// So many compactions for the sake of values at most, before the next space has its turn.
const VALUE_TURNS_MAX: usize = 16;
/// So many compactions of a space at most, before the next one has its turn.
const TURNS_MAX: usize = 64;

impl Inner {
    /// Compacts until fjall's rules find nothing more to do.
    pub fn compact_what_is_due(&self) -> Result<(), OrderedError> {
        for handle in self.spaces().values() {
            let keyspace = &handle.keyspace;
            for _ in 0..TURNS_MAX {
                let before = keyspace.tree.current_version().id();
                let compacted = keyspace.tree.compact(Arc::new(levels(&self.options)), self.seen_by_nobody());
                compacted.map_err(|error| failure("be compacted", &fjall::Error::Storage(error)))?;
                handle.renew();
                if keyspace.tree.current_version().id() == before {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Rewrites these spaces without what was overwritten and removed, where it is worth it: while room is `scarce`, wherever anything was. (Values that stand
    /// apart are not rewritten with the tables, and most of what is removed may be theirs.)
    ///
    /// fjall's own thread does no other compaction of the space meanwhile, and writes one more table of it at most: batches that come now fill memtables, and wait
    /// from the third on. All tables are taken at once, under fjall's lock. (Merging level by level would not stop that thread, but if it moved tables from
    /// level 0 in between, newer ones could get below them.)
    pub fn squeeze(&self, spaces: &BTreeSet<Space>, scarce: bool) -> Result<(), OrderedError> {
        for handle in spaces.iter().filter_map(|space| self.space(*space)) {
            let keyspace = &handle.keyspace;
            let sizes: Vec<u64> = keyspace.tree.current_version().iter_levels().map(|level| level.size()).collect();
            let bytes: u64 = sizes.iter().sum();
            let lowest = sizes.last().copied().unwrap_or(0);
            let above = bytes - lowest;
            let is_worth_it = match scarce {
                true => above > 0 && self.has_room_for_values(&handle),
                false => above > 0 && above * UPPER_PART >= lowest,
            };
            if is_worth_it && bytes <= SQUEEZE_BYTES_MAX {
                let compacted = keyspace.tree.major_compact(self.options.table_bytes, self.seen_by_nobody());
                compacted.map_err(|error| failure("be compacted", &fjall::Error::Storage(error)))?;
            }
            if scarce && bytes <= SQUEEZE_BYTES_MAX {
                self.give_back_values(&handle)?;
            }
        }
        Ok(())
    }

    /// Gives back the room of values that stand apart and were removed. Files in which nothing is used any more go with the compaction after the one that found that
    /// out; of those in which little is used, each compaction takes a quarter, and writes anew what is used of it.
    fn give_back_values(&self, handle: &Handle) -> Result<(), OrderedError> {
        let keyspace = &handle.keyspace;
        let stale = || keyspace.tree.current_version().gc_stats().stale_bytes();
        let mut before = u64::MAX;
        for _ in 0..VALUE_TURNS_MAX {
            let now = stale();
            if now == 0 || now >= before || !self.has_room_for_values(handle) {
                break;
            }
            before = now;
            let compacted = keyspace.tree.major_compact(self.options.table_bytes, self.seen_by_nobody());
            compacted.map_err(|error| failure("be compacted", &fjall::Error::Storage(error)))?;
        }
        Ok(())
    }

    /// Whether a compaction of all tables, with what it writes anew of values, takes at most half of what is left on the disk.
    fn has_room_for_values(&self, handle: &Handle) -> bool {
        let version = handle.keyspace.tree.current_version();
        let stats = version.gc_stats();
        let with_stale = version.blob_files.iter().filter(|file| stats.contains_key(&file.id()));
        let bytes: u64 = with_stale.filter_map(|file| Some(std::fs::metadata(file.path()).ok()?.len())).sum();
        let tables: u64 = version.iter_levels().map(|level| level.size()).sum();
        let free = rustix::fs::statvfs(&self.folder).map_or(0, |room| room.f_bavail * room.f_frsize);
        bytes.saturating_sub(stats.stale_bytes()) / VALUES_PART + tables <= free / 2
    }

    /// Versions before this number of fjall's that later ones replace are needed by no view.
    fn seen_by_nobody(&self) -> u64 {
        self.database.supervisor.snapshot_tracker.get_seqno_safe_to_gc()
    }
}
