//! The door that the simulator knocks at: that of the shipping node. A trait only so that the simulator's own tests
//! can put something smaller behind it.

use base::ordered::Space;
use base::{Ballot, NodeId, Now, Position};
use node::{Config, Input, Outbox, Progress, Recovered};

/// See [`node::Node`], whose functions these are.
pub trait Door: Sized {
    /// A node that remembers what `recovered` says.
    ///
    /// # Errors
    /// Why it cannot start.
    fn start(config: Config, recovered: Recovered, now: Now, out: &mut Outbox) -> Result<Self, String>;
    /// Takes one input.
    fn step(&mut self, now: Now, input: Input<'_>, out: &mut Outbox);
    /// Who leads, as far as this node knows.
    fn leader(&self) -> Option<(NodeId, Ballot)>;
    /// How far the log is.
    fn progress(&self) -> Progress;
    /// A digest of the whole state.
    fn state_digest(&self) -> u64;
    /// The checksum of a decided entry.
    fn decided_entry_digest(&self, position: Position) -> Option<u64>;
    /// The spaces of the store below that it needs.
    fn spaces(&self) -> Vec<Space>;
    /// Rare branches reached since the last call.
    fn take_probes(&mut self) -> Vec<(&'static str, u64)>;
}

impl Door for node::Node {
    fn start(config: Config, recovered: Recovered, now: Now, out: &mut Outbox) -> Result<Self, String> {
        node::Node::start(config, recovered, now, out).map_err(|error| error.0)
    }

    fn step(&mut self, now: Now, input: Input<'_>, out: &mut Outbox) {
        node::Node::step(self, now, input, out);
    }

    fn leader(&self) -> Option<(NodeId, Ballot)> {
        node::Node::leader(self)
    }

    fn progress(&self) -> Progress {
        node::Node::progress(self)
    }

    fn state_digest(&self) -> u64 {
        node::Node::state_digest(self)
    }

    fn decided_entry_digest(&self, position: Position) -> Option<u64> {
        node::Node::decided_entry_digest(self, position)
    }

    fn spaces(&self) -> Vec<Space> {
        node::Node::spaces(self)
    }

    fn take_probes(&mut self) -> Vec<(&'static str, u64)> {
        node::Node::take_probes(self)
    }
}
