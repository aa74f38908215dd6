//! Somebody with the key of a node that was killed speaks in its name: a few words to each other node, all of them lies (`node/src/forgery.rs`).
//!
//! There is no property of its own. After them, as after any crash, no node ends, there are leaders, and clients are answered what is true.

use base::{NodeId, Rng};
use bytes::Bytes;

use super::Cluster;
use crate::door::Door;
use crate::process::Happening;

/// A lie was told to a node.
pub(crate) const LIED: &str = "sim: somebody told a lie in a dead node's name";

impl<N: Door> Cluster<N> {
    /// Kills a node and speaks in its name. False if it does not run, if another one was the first (the key of one node has got into wrong
    /// hands), or if the cluster is of a version that knows no keys.
    pub(super) fn speak_as(&mut self, node: NodeId, duration: u64, rng: &mut Rng) -> bool {
        // Until then nodes believe each other's words.
        if !self.all_know_keys() {
            return false;
        }
        if self.machine(node).running.is_none() || *self.impostor.get_or_insert(node) != node {
            return false;
        }
        let others: Vec<NodeId> = self.nodes().filter(|peer| *peer != node).collect();
        self.die(node, false, "is killed, and somebody speaks in its name");
        for peer in others {
            let seed = rng.next_u64();
            let lies: Vec<Bytes> = match &self.machine(peer).running {
                Some(running) => running.node.lies_of(node, seed),
                None => Vec::new(),
            };
            for lie in lies {
                *self.probes.entry(LIED).or_default() += 1;
                self.give(peer, Happening::PeerMessage(node, lie));
            }
        }
        self.start_in(duration, node);
        true
    }
}
