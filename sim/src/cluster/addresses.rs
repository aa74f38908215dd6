//! Machines that get other addresses, alone, two at once that exchange theirs, or all of them; and whether every node comes to know where the others are.
//!
//! A node is called where the caller has it: as its operator has said at a start, or as the cluster says ([`node::Outbox::roll`]). The operator of a
//! machine that gets another address tells its node where the others are, unless that node knows; so of two nodes the one that moved last can call the other.

use std::collections::BTreeMap;

use base::versions::Feature;
use base::{NodeId, Rng};
use node::Nodes;

use super::Cluster;
use crate::chaos::MS;
use crate::door::Door;
use crate::process::name_of;

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 3] = [ALL_MOVED, EXCHANGED, CALLED_BY_LIST];
const ALL_MOVED: &str = "sim: all nodes were given other addresses at once";
const EXCHANGED: &str = "sim: two nodes have exchanged their addresses";
const CALLED_BY_LIST: &str = "sim: a link that stands by what an operator said of addresses";

type List = BTreeMap<NodeId, String>;

/// Where machines are, and where their nodes are said to be.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// Those of machines that have moved; all others are where they began.
    moved: List,
    /// How many addresses were given out to machines that have moved.
    given: u64,
    /// The addresses that an operator has told each node, for this start and later ones.
    lists: BTreeMap<NodeId, List>,
    /// The addresses that the cluster has, as each node knows them.
    known: BTreeMap<NodeId, List>,
}

impl Addresses {
    /// Where a machine is.
    pub(super) fn of(&self, node: NodeId) -> String {
        self.moved.get(&node).cloned().unwrap_or_else(|| first(node))
    }

    fn new_one(&mut self) -> String {
        self.given += 1;
        format!("127.0.0.1:{}", 20_000 + self.given)
    }

    /// Takes over what a node says of the others.
    pub(super) fn note(&mut self, node: NodeId, roll: Nodes) {
        self.known.insert(node, roll.members.into_iter().map(|(id, member)| (id, member.peer_address)).collect());
    }

    /// A process has ended, and what it knew with it.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.known.remove(&node);
    }

    fn knows(&self, node: NodeId, peer: NodeId) -> bool {
        self.known.get(&node).and_then(|known| known.get(&peer)) == Some(&self.of(peer))
    }

    /// True if a node of the cluster knows of no node of that number.
    fn has_no(&self, node: NodeId, peer: NodeId) -> bool {
        self.known.get(&node).is_some_and(|known| !known.contains_key(&peer))
    }

    fn is_told(&self, node: NodeId, peer: NodeId) -> bool {
        self.lists.get(&node).and_then(|list| list.get(&peer)) == Some(&self.of(peer))
    }
}

/// Where a machine is in the beginning.
pub(super) fn first(node: NodeId) -> String {
    format!("127.0.0.1:{}", 9001 + node.0)
}

impl<N: Door> Cluster<N> {
    /// Gives machines other addresses. Their processes end for it.
    pub(super) fn give_addresses(&mut self, node: NodeId, duration: u64, rng: &mut Rng) -> bool {
        let members: Vec<NodeId> = self.members().collect();
        let runs = |id: &NodeId| self.machines[usize::from(id.0)].running.is_some();
        if !members.contains(&node) || !runs(&node) {
            return false;
        }
        let others: Vec<NodeId> = members.iter().copied().filter(|other| *other != node).collect();
        let kind = rng.below(4);
        let partner = if others.is_empty() { None } else { Some(*rng.pick(&others)) };
        let moving: Vec<NodeId> = match (kind, partner) {
            (0, _) => members,
            (1, Some(partner)) => vec![node, partner],
            _ => vec![node],
        };
        if let (1, [one, other]) = (kind, &moving[..]) {
            let (here, there) = (self.addresses.of(*one), self.addresses.of(*other));
            self.addresses.moved.insert(*one, there);
            self.addresses.moved.insert(*other, here);
        } else {
            for id in &moving {
                let address = self.addresses.new_one();
                self.addresses.moved.insert(*id, address);
            }
        }
        if let Some(probe) = [ALL_MOVED, EXCHANGED].get(kind as usize).filter(|_| moving.len() > 1) {
            *self.probes.entry(probe).or_default() += 1;
        }
        for id in moving {
            let unknown = others.iter().chain([&node]).any(|other| *other != id && !self.addresses.knows(id, *other));
            if unknown || rng.chance(1, 4) {
                let list = self.machines_by_address();
                self.addresses.lists.insert(id, list);
            }
            self.die(id, rng.chance(1, 4), "ended, for another address");
            let delay = rng.between(MS, duration.max(2 * MS));
            self.start_in(delay, id);
            let now = self.now;
            let address = self.addresses.of(id);
            self.trace.event(now, [25, u64::from(id.0), self.addresses.given, u64::from(unknown)], || {
                format!(
                    "{} is at {address} from now on{}",
                    name_of(id),
                    if unknown { ", and is told of others" } else { "" }
                )
            });
        }
        true
    }

    fn machines_by_address(&self) -> List {
        self.nodes().map(|node| (node, self.addresses.of(node))).collect()
    }

    /// True if one of two nodes knows where to call the other.
    pub(super) fn finds(&mut self, one: NodeId, other: NodeId) -> bool {
        if !self.chaos.addresses {
            return true;
        }
        // A node that was removed may not hear any more where the others have gone. It is not these runs' business.
        if self.addresses.has_no(one, other) || self.addresses.has_no(other, one) {
            return true;
        }
        let known = self.addresses.knows(one, other) || self.addresses.knows(other, one);
        let told = self.addresses.is_told(one, other) || self.addresses.is_told(other, one);
        *self.probes.entry(CALLED_BY_LIST).or_default() += u64::from(told && !known);
        known || told
    }

    /// Property: in the calm at the end each node knows from the cluster where all others are.
    #[must_use]
    pub fn judge_addresses(&self) -> Option<String> {
        if !self.chaos.addresses {
            return None;
        }
        let runs = |node: &NodeId| {
            let running = self.machines[usize::from(node.0)].running.as_ref();
            running.is_some_and(|running| Feature::Addresses.is_in(running.node.cluster_version()))
        };
        let running: Vec<NodeId> = self.members().filter(runs).collect();
        let pairs = running.iter().flat_map(|node| running.iter().map(move |peer| (*node, *peer)));
        let (node, peer) = pairs.into_iter().find(|(node, peer)| !self.addresses.knows(*node, *peer))?;
        let known = self.addresses.known.get(&node).and_then(|known| known.get(&peer));
        Some(format!("{} has {} at {known:?}, and it is at {}", name_of(node), name_of(peer), self.addresses.of(peer)))
    }
}
