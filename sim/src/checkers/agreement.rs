//! Property: no two replicas decide different entries at one position, and a decided entry never changes, whoever
//! restarts.

use std::collections::BTreeMap;

use base::{NodeId, PartitionId, Position};

use super::first_seen::FirstSeen;

/// Every decided entry that was seen so far.
#[derive(Debug, Default)]
pub struct Agreement {
    seen: FirstSeen,
    /// Entries that an operator wants to be stepped over: one other digest is allowed there, once that was seen.
    voids: BTreeMap<(PartitionId, Position), Option<u64>>,
}

impl Agreement {
    /// A node knows the entry with this digest to be decided at `position`.
    pub fn observe(&mut self, node: NodeId, partition: PartitionId, position: Position, digest: u64) {
        let differs = |first: u64| first != digest;
        if self.seen.digest((partition, position)).is_some_and(differs)
            && let Some(other) = self.voids.get_mut(&(partition, position))
            && *other.get_or_insert(digest) == digest
        {
            return;
        }
        self.seen.observe(node, (partition, position), digest, |first, by| {
            format!(
                "position {position} of {partition}: node {node} holds another decided entry ({digest:016x}) than node {by} did \
                 ({first:016x})"
            )
        });
    }

    /// An entry may be replaced by one without effect, by all or by some; nothing is said of what replicas apply.
    pub fn allow_void(&mut self, partition: PartitionId, position: Position) {
        self.voids.entry((partition, position)).or_default();
    }

    /// What was decided at a position, if anybody was seen to know it.
    #[must_use]
    pub fn digest(&self, partition: PartitionId, position: Position) -> Option<u64> {
        self.seen.digest((partition, position))
    }

    /// The highest position of each partition that any node has known to be decided.
    #[must_use]
    pub fn highest(&self) -> &BTreeMap<PartitionId, Position> {
        self.seen.highest()
    }

    /// Somebody has gone on alone: of each partition what he shares with the others is remembered.
    pub fn retain(&mut self, until: impl Fn(PartitionId) -> Position) {
        self.seen.retain(until);
    }

    /// What was found wrong.
    #[must_use]
    pub fn violations(&self) -> &[String] {
        self.seen.violations()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: PartitionId = PartitionId { bucket: base::BucketId(0), index: 0 };

    #[test]
    fn a_changed_entry_is_seen() {
        let mut agreement = Agreement::default();
        agreement.observe(NodeId(0), P, Position(1), 7);
        agreement.observe(NodeId(1), P, Position(1), 7);
        agreement.observe(NodeId(0), P, Position(2), 8);
        assert!(agreement.violations().is_empty());
        agreement.allow_void(P, Position(1));
        (0..3).for_each(|_| agreement.observe(NodeId(0), P, Position(1), 70));
        agreement.observe(NodeId(1), P, Position(1), 7);
        assert!(agreement.violations().is_empty(), "one other is allowed there");
        agreement.observe(NodeId(0), P, Position(2), 9);
        assert_eq!(agreement.violations().len(), 1);
        agreement.observe(NodeId(0), P, Position(1), 71);
        assert_eq!(agreement.violations().len(), 2, "and a third is not");
        assert_eq!(agreement.highest().get(&P), Some(&Position(2)));
    }
}
