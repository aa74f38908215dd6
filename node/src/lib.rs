//! One server without I/O: sessions, router, partitions.

pub mod door;
mod image;

use base::{Ballot, NodeId, Now, Position};

pub use door::{
    Config, ConnectionId, Input, JournalWrite, Level, Member, Outbox, Planted, Recovered, RecoveredSnapshot,
    SnapshotJob,
};
pub use image::{Image, Restorer};

/// A node: plain state, changed only by [`Node::step`].
#[derive(Debug)]
pub struct Node {}

/// Why a node cannot start from what its folder holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartError(pub String);

impl Node {
    /// A node that remembers what `recovered` says. The first [`Outbox`] may already hold work.
    ///
    /// # Errors
    /// When the folder belongs to another node or cluster, or holds a format from the future.
    pub fn start(_config: Config, _recovered: Recovered, _now: Now, _out: &mut Outbox) -> Result<Node, StartError> {
        Ok(Node {})
    }

    /// Takes one input. Nothing else changes a node.
    pub fn step(&mut self, _now: Now, _input: Input<'_>, _out: &mut Outbox) {}

    /// Who leads the default partition, as far as this node knows.
    #[must_use]
    pub fn leader(&self) -> Option<(NodeId, Ballot)> {
        None
    }

    /// How far the default partition's log is decided, applied: for checkers.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::default()
    }

    /// A digest of the default partition's whole state at [`Progress::applied`]: equal on all replicas.
    #[must_use]
    pub fn state_digest(&self) -> u64 {
        0
    }

    /// The checksum of the decided entry at `position`, if this node still holds it and knows it decided: for checkers.
    #[must_use]
    pub fn decided_entry_digest(&self, _position: Position) -> Option<u64> {
        None
    }

    /// Rare branches reached since the last call, by name, with how often: for the simulator's coverage table.
    pub fn take_probes(&mut self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Every probe that exists, so that the simulator can tell which were never reached.
pub const PROBES: &[&str] = &[];

/// Positions of one replica: `applied <= decided`, `persisted` counts what its own disk has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Entries up to here are known to be decided.
    pub decided: Position,
    /// Entries up to here are on this node's disk.
    pub persisted: Position,
    /// Entries up to here are in the state.
    pub applied: Position,
    /// The first entry that the log still holds.
    pub first: Position,
}
