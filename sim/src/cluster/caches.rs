//! The bucket that evicts is watched: how large it is on each node, and what it evicts, which goes to the history.

use base::NodeId;

use super::Cluster;
use crate::checkers::quota::with_evictions;
use crate::door::Door;

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 2] = [EVICTED, ABOVE_QUOTA];
const EVICTED: &str = "sim: eviction in the history";
const ABOVE_QUOTA: &str = "sim: cache above its quota for a moment";

impl<N: Door> Cluster<N> {
    /// A node has had a turn; nothing of that has left the node yet.
    pub(super) fn watch_caches(&mut self, node: NodeId) {
        let Some(running) = &self.machines[usize::from(node.0)].running else { return };
        for news in running.node.caches() {
            let operations = self.evictions.observe(self.now, &news);
            *self.probes.entry(EVICTED).or_default() += operations.len() as u64;
            *self.probes.entry(ABOVE_QUOTA).or_default() += u64::from(news.bytes > news.quota_bytes);
            self.record.operations.extend(operations);
            let greatest = self.record.settings.quota(&news.bucket, (0, self.now)).1;
            let longest = self.record.longest.get(&news.bucket).copied().unwrap_or_default();
            let elements = self.record.elements.get(&news.bucket).copied().unwrap_or_default();
            let bound = greatest.map_or(u64::MAX, |quota| with_evictions(quota, longest, elements));
            self.quota.observe(node, (news.partition, news.applied), news.bytes_most, bound);
        }
    }

    /// Whether what nobody reaches any more of collections is reclaimed everywhere.
    #[must_use]
    pub fn is_swept(&self) -> bool {
        let running = self.machines.iter().filter_map(|machine| machine.running.as_ref());
        !running.into_iter().any(|running| running.node.has_garbage())
    }

    /// Whether the buckets that evict are nowhere larger than they may be when nothing is going on.
    #[must_use]
    pub fn caches_are_calm(&self) -> bool {
        let running = self.machines.iter().filter_map(|machine| machine.running.as_ref());
        running.flat_map(|running| running.node.caches()).all(|news| news.bytes <= news.quota_bytes)
    }
}
