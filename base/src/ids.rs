//! Identifiers. Every one is a type of its own, so that a position cannot be passed for a revision.

use std::fmt;

/// A server process, by its index in the cluster's member list sorted by name, from 0.
///
/// People see the name (`n1`); messages and the log carry this number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub u16);

/// A named key space. Bucket 0 is the default bucket that RESP's `SELECT 0` names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BucketId(pub u32);

/// A range of hash slots of one bucket: the unit of replication and of movement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PartitionId {
    /// The bucket that the partition is cut from.
    pub bucket: BucketId,
    /// The partition's number within its bucket, from 0.
    pub index: u16,
}

/// A leadership: rounds are compared first, then nodes, so no two nodes ever share a ballot.
///
/// The default (round 0) is lower than any ballot a node ever runs for and means "none yet".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ballot {
    /// Grows with every attempt to lead.
    pub round: u64,
    /// The node that leads, or wants to, under this ballot.
    pub node: NodeId,
}

/// The place of an entry in a partition's log. The first entry has position 1; 0 means "before the log".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position(pub u64);

/// A partition's count of applied changes: the token that reads, watches and queries refer to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Revision(pub u64);

impl Position {
    /// The place right after this one; the last one there could be stays.
    #[must_use]
    pub fn next(self) -> Position {
        Position(self.0.saturating_add(1))
    }

    /// The place right before this one; 0 stays 0.
    #[must_use]
    pub fn previous(self) -> Position {
        Position(self.0.saturating_sub(1))
    }
}

impl Revision {
    /// The revision of the change after this one.
    #[must_use]
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket.0, self.index)
    }
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.round, self.node.0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ballots_compare_by_round_then_node() {
        let low = Ballot { round: 1, node: NodeId(9) };
        let high = Ballot { round: 2, node: NodeId(0) };
        assert!(Ballot::default() < low && low < high);
        assert!(Ballot { round: 1, node: NodeId(8) } < low);
    }
}
