//! Compactions beside those that fjall begins itself: what it has left undone, and what is worth doing while nothing else is.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::ordered::{OrderedError, Space};
use fjall::AbstractTree;

use super::failures::failure;
use super::inner::{Inner, levels};

/// Spaces with more bytes than this in tables are not rewritten as a whole at rest: it would take too long, and the upper levels, which hold what is
/// overwritten, are a small part of them.
pub const SQUEEZE_BYTES_MAX: u64 = 1 << 30;
/// A space is rewritten if its upper levels have at least this part of the bytes of its lowest. So what a byte above causes to be written is bounded: by itself
/// and four below.
const UPPER_PART: u64 = 4;
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
            let is_worth_it = scarce || above * UPPER_PART >= lowest;
            let has_stale = scarce && keyspace.tree.current_version().gc_stats().stale_bytes() > 0;
            if (above == 0 && !has_stale) || !is_worth_it || bytes > SQUEEZE_BYTES_MAX {
                continue;
            }
            let compacted = keyspace.tree.major_compact(self.options.table_bytes, self.seen_by_nobody());
            compacted.map_err(|error| failure("be compacted", &fjall::Error::Storage(error)))?;
            // Files of values in which nothing is used any more go with the compaction after the one that found that out.
            if scarce && keyspace.tree.current_version().gc_stats().stale_bytes() > 0 {
                let again = keyspace.tree.major_compact(self.options.table_bytes, self.seen_by_nobody());
                again.map_err(|error| failure("be compacted", &fjall::Error::Storage(error)))?;
            }
        }
        Ok(())
    }

    /// Versions before this number of fjall's that later ones replace are needed by no view.
    fn seen_by_nobody(&self) -> u64 {
        self.database.supervisor.snapshot_tracker.get_seqno_safe_to_gc()
    }
}
