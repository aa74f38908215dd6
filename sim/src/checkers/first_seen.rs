//! By partition and position: the digest that was seen there first. Whoever shows another one later is wrong, or the first was.

use std::collections::BTreeMap;

use base::{NodeId, PartitionId, Position};

/// How many differences are told.
const TOLD_MAX: usize = 10;

/// One digest for each position, and the node that showed it first.
#[derive(Debug, Default)]
pub(super) struct FirstSeen {
    digests: BTreeMap<(PartitionId, Position), (u64, NodeId)>,
    /// Of each partition the highest position among them: asked for after every turn.
    highest: BTreeMap<PartitionId, Position>,
    violations: Vec<String>,
}

impl FirstSeen {
    /// A node shows this digest at `place`. If another one was seen there, `tell` makes a text of the first digest
    /// and of who showed it.
    pub(super) fn observe(
        &mut self,
        node: NodeId,
        place: (PartitionId, Position),
        digest: u64,
        tell: impl FnOnce(u64, NodeId) -> String,
    ) {
        let highest = self.highest.entry(place.0).or_default();
        *highest = place.1.max(*highest);
        let (first, by) = *self.digests.entry(place).or_insert((digest, node));
        if first != digest && self.violations.len() < TOLD_MAX {
            self.violations.push(tell(first, by));
        }
    }

    /// What was seen first at a place.
    pub(super) fn digest(&self, place: (PartitionId, Position)) -> Option<u64> {
        self.digests.get(&place).map(|(digest, _)| *digest)
    }

    /// Of each partition only what stands up to a position is remembered.
    pub(super) fn retain(&mut self, until: impl Fn(PartitionId) -> Position) {
        self.digests.retain(|(partition, position), _| *position <= until(*partition));
        self.highest = self.digests.keys().copied().collect();
    }

    /// The highest position of each partition at which anything was seen.
    pub(super) fn highest(&self) -> &BTreeMap<PartitionId, Position> {
        &self.highest
    }

    /// The texts of all differences.
    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }
}
