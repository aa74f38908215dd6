//! Property: replicas that have applied the same entries have the same state, byte for byte.

use base::{NodeId, PartitionId, Position};

use super::first_seen::FirstSeen;

/// Every state that was looked at so far.
#[derive(Debug, Default)]
pub struct Replicas(FirstSeen);

impl Replicas {
    /// A node that has applied everything up to `applied` has a state with this digest.
    pub fn observe(&mut self, node: NodeId, partition: PartitionId, applied: Position, digest: u64) {
        self.0.observe(node, (partition, applied), digest, |first, by| {
            format!(
                "{partition}, applied up to {applied}: the state of node {node} ({digest:016x}) is not that of node {by} \
                 ({first:016x})"
            )
        });
    }

    /// Somebody has gone on alone: of each partition what he shares with the others is remembered.
    pub fn retain(&mut self, until: impl Fn(PartitionId) -> Position) {
        self.0.retain(until);
    }

    /// What was found wrong.
    #[must_use]
    pub fn violations(&self) -> &[String] {
        self.0.violations()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: PartitionId = PartitionId { bucket: base::BucketId(0), index: 0 };

    #[test]
    fn a_state_of_its_own_is_seen() {
        let mut replicas = Replicas::default();
        replicas.observe(NodeId(0), P, Position(4), 1);
        replicas.observe(NodeId(1), P, Position(4), 1);
        replicas.observe(NodeId(1), P, Position(5), 2);
        assert!(replicas.violations().is_empty());
        replicas.observe(NodeId(2), P, Position(5), 3);
        assert_eq!(replicas.violations().len(), 1);
    }
}
