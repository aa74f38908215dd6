//! Property: no replica of a bounded bucket holds more than its bound.
//!
//! Counted is what the state itself counts (`Tree::bytes`). What the bound is depends on the kind: a bucket that refuses at its quota is
//! beyond it by one command at most, which was let in before; one that evicts is beyond its quota by an eighth and one command at most,
//! and in the calm at the end not at all.

use base::{NodeId, PartitionId, Position};

/// Differences that are told.
const TOLD_MAX: usize = 10;
/// What a record takes beside its key and its value, at most.
pub const RECORD_BYTES_MAX: u64 = 256;

/// Every replica that was looked at.
#[derive(Debug, Default)]
pub struct Quota {
    violations: Vec<String>,
}

impl Quota {
    /// A node that has applied everything up to `applied` holds so many bytes of a partition, which may be `bound` at most.
    pub fn observe(&mut self, node: NodeId, (partition, applied): (PartitionId, Position), bytes: u64, bound: u64) {
        if bytes > bound && self.violations.len() < TOLD_MAX {
            self.violations.push(format!(
                "{partition}, applied up to {applied}: node {node} holds {bytes} bytes, not {bound} at most"
            ));
        }
    }

    /// What was found wrong.
    #[must_use]
    pub fn violations(&self) -> &[String] {
        &self.violations
    }
}

/// The bound of a bucket that refuses at its quota: one command may lead beyond it, with the longest words that anybody has sent,
/// and the most that elements of a collection add beside them.
#[must_use]
pub fn with_one_command(quota: u64, longest_words: u64, elements: u64) -> u64 {
    quota.saturating_add(longest_words).saturating_add(elements).saturating_add(RECORD_BYTES_MAX)
}

/// The bound of a bucket that evicts at its quota: writes go on up to an eighth more, and one of them may lead beyond that, with a value
/// that is no longer than the quota.
#[must_use]
pub fn with_evictions(quota: u64, longest_words: u64, elements: u64) -> u64 {
    with_one_command(quota.saturating_add(quota / 8), longest_words.min(quota.saturating_add(64)), elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_is_seen() {
        let partition = PartitionId { bucket: base::BucketId(3), index: 0 };
        let mut quota = Quota::default();
        let bound = with_one_command(1000, 30, 0);
        quota.observe(NodeId(0), (partition, Position(1)), 900, bound);
        quota.observe(NodeId(1), (partition, Position(2)), bound, bound);
        assert!(quota.violations().is_empty());
        quota.observe(NodeId(1), (partition, Position(3)), bound + 1, bound);
        assert_eq!(quota.violations().len(), 1);
    }
}
