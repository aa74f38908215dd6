//! By position: the digest that was seen there first. Whoever shows another one later is wrong, or the first was.

use std::collections::BTreeMap;

use base::{NodeId, Position};

/// How many differences are told.
const TOLD_MAX: usize = 10;

/// One digest for each position, and the node that showed it first.
#[derive(Debug, Default)]
pub(super) struct FirstSeen {
    digests: BTreeMap<Position, (u64, NodeId)>,
    violations: Vec<String>,
}

impl FirstSeen {
    /// A node shows this digest at `position`. If another one was seen there, `tell` makes a text of the first digest
    /// and of who showed it.
    pub(super) fn observe(
        &mut self,
        node: NodeId,
        position: Position,
        digest: u64,
        tell: impl FnOnce(u64, NodeId) -> String,
    ) {
        let (first, by) = *self.digests.entry(position).or_insert((digest, node));
        if first != digest && self.violations.len() < TOLD_MAX {
            self.violations.push(tell(first, by));
        }
    }

    /// The highest position at which anything was seen.
    pub(super) fn highest(&self) -> Position {
        self.digests.keys().next_back().copied().unwrap_or_default()
    }

    /// The texts of all differences.
    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }
}
