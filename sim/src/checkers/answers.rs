//! Property: answers that are kept for a node, in case it has to ask again, are no more than it can have to ask for.
//!
//! Every replica keeps them, and every flush writes them. Looked at in the calm at the end, when nobody has anything on its way: each node's last entry in a log has
//! told everybody what it does not wait for any more, so as many are left as it had on its way then.

use base::{NodeId, PartitionId};

/// Most answers that are kept for one node. Some tens of clients have up to ten commands on their way, each.
pub const KEPT_MAX: usize = 128;

/// An error if a replica at `node` keeps too many answers for some node, or more than `bytes_max` bytes of them. `kept` has for each node their number and bytes.
#[must_use]
pub fn judge(
    node: NodeId,
    partition: PartitionId,
    kept: &[(NodeId, usize, u64)],
    bytes_max: Option<u64>,
) -> Option<String> {
    let (of, count, bytes) =
        kept.iter().find(|(_, count, bytes)| *count > KEPT_MAX || bytes_max.is_some_and(|most| *bytes > most))?;
    Some(format!(
        "{partition}: node {node} keeps {count} answers of {bytes} bytes for node {of} in the calm at the end, not {KEPT_MAX} at most"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_and_too_large_answers_are_told() {
        let partition = PartitionId { bucket: base::BucketId(0), index: 0 };
        let judge = |kept, bytes_max| judge(NodeId(0), partition, kept, bytes_max).is_some();
        assert!(!judge(&[(NodeId(1), KEPT_MAX, 1000)], Some(1000)));
        assert!(judge(&[(NodeId(0), 1, 1), (NodeId(1), KEPT_MAX + 1, 1000)], None));
        assert!(judge(&[(NodeId(1), 1, 1001)], Some(1000)));
        assert!(!judge(&[(NodeId(1), 1, 1001)], None));
    }
}
