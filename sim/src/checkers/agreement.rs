//! Property: no two replicas decide different entries at one position, and a decided entry never changes, whoever
//! restarts.

use std::collections::BTreeMap;

use base::{NodeId, Position};

/// Every decided entry that was seen so far.
#[derive(Debug, Default)]
pub struct Agreement {
    decided: BTreeMap<Position, (u64, NodeId)>,
    violations: Vec<String>,
}

impl Agreement {
    /// A node knows the entry with this digest to be decided at `position`.
    pub fn observe(&mut self, node: NodeId, position: Position, digest: u64) {
        let (first, by) = *self.decided.entry(position).or_insert((digest, node));
        if first != digest && self.violations.len() < 10 {
            self.violations.push(format!(
                "position {position}: node {node} holds another decided entry ({digest:016x}) than node {by} did \
                 ({first:016x})"
            ));
        }
    }

    /// The highest position that any node has known to be decided.
    #[must_use]
    pub fn highest(&self) -> Position {
        self.decided.keys().next_back().copied().unwrap_or_default()
    }

    /// What was found wrong.
    #[must_use]
    pub fn violations(&self) -> &[String] {
        &self.violations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_entry_is_seen() {
        let mut agreement = Agreement::default();
        agreement.observe(NodeId(0), Position(1), 7);
        agreement.observe(NodeId(1), Position(1), 7);
        agreement.observe(NodeId(0), Position(2), 8);
        assert!(agreement.violations().is_empty());
        agreement.observe(NodeId(0), Position(2), 9);
        assert_eq!(agreement.violations().len(), 1);
        assert_eq!(agreement.highest(), Position(2));
    }
}
