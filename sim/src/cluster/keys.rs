//! The keys of nodes: machines that lose theirs, operators who have a node change its key, and strangers who know the cluster's secret and no node's key.
//!
//! A node makes no link with another one under a key by which the council does not know that one, as servers do (`server/src/event_loop/peers/greeting.rs`).
//! It goes by what it has heard of the council ([`node::Outbox::roll`]). The operator of a machine that has lost its key says so at a node that runs, and says it
//! again until every node knows the machine by the key that it has. Where that is in vain, because the machine has what nobody else has of the council or because the
//! nodes without their keys are a majority, operators start the others with its key (`--peer-keys`).

use std::collections::{BTreeMap, BTreeSet};

use base::versions::Feature;
use base::{NodeId, Rng};
use bytes::Bytes;
use node::{Listener, NodeKey, Nodes};

use super::Cluster;
use crate::chaos::{MS, SECOND};
use crate::door::Door;
use crate::events::Event;
use crate::process::{Happening, name_of};

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 6] = [LOST, CHANGED, REFUSED, ENDED, FORGED, TRUSTED];
const LOST: &str = "sim: a machine has lost its node's key";
const CHANGED: &str = "sim: a node was started with the key to which it changes";
const REFUSED: &str = "sim: a link under a key that the cluster does not know";
const ENDED: &str = "sim: a link ended whose key the cluster does not know any more";
const FORGED: &str = "sim: a second process began with a key of its own";
const TRUSTED: &str = "sim: an operator has told a node the key of another one";

const LOOK_EVERY: u64 = 500 * MS;
/// An order that has changed nothing is given again after this time.
const ORDER_AGAIN_AFTER: u64 = 3 * SECOND;
/// After so many orders operators tell each node.
const ASKED_BEFORE_TRUSTED: u64 = 2;
/// The connection by which an operator speaks of keys. Clients' are counted from below.
const CONNECTION: u64 = u64::MAX - 1;

/// What an operator wants of a node's keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Want {
    /// That the cluster forgets all of them: the node has another one.
    Forgotten,
    /// That the cluster knows this one, too: then the node is started with it.
    Added(NodeKey),
}

/// The keys that machines have, and those by which nodes know each other.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// How many keys were drawn.
    drawn: u32,
    /// Those of machines whose key has changed; all others have their first.
    changed: BTreeMap<NodeId, NodeKey>,
    /// All keys that a machine has ever had, or that its operator has named; the first is not among them.
    ever: BTreeMap<NodeId, BTreeSet<NodeKey>>,
    /// By which keys each node knows the others.
    known: BTreeMap<NodeId, BTreeMap<NodeId, Vec<NodeKey>>>,
    /// By which keys a node's operator has told it others, at its start.
    trusted: BTreeSet<(NodeId, NodeId, NodeKey)>,
    wants: BTreeMap<NodeId, Want>,
    asked_at: u64,
    /// How often, since something was wanted last.
    asked: u64,
    looks: bool,
}

fn first(node: NodeId) -> NodeKey {
    [node.0 as u8 + 1; 32]
}

impl Keys {
    /// The key that a machine has.
    pub(super) fn of(&self, node: NodeId) -> NodeKey {
        self.changed.get(&node).copied().unwrap_or_else(|| first(node))
    }

    fn draw(&mut self) -> NodeKey {
        self.drawn += 1;
        let mut key = [0; 32];
        key[..4].copy_from_slice(&self.drawn.to_be_bytes());
        key
    }

    fn give(&mut self, node: NodeId, key: NodeKey) {
        self.changed.insert(node, key);
        self.ever.entry(node).or_default().insert(key);
    }

    /// Takes over what a node has heard of the council.
    pub(super) fn note(&mut self, node: NodeId, roll: &Nodes) {
        self.known.insert(node, roll.keys.iter().cloned().collect());
    }

    /// A process has ended, and what it knew with it.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.known.remove(&node);
    }

    fn known(&self, node: NodeId, peer: NodeId) -> &[NodeKey] {
        self.known.get(&node).and_then(|known| known.get(&peer)).map_or(&[], Vec::as_slice)
    }

    fn is_known(&self, node: NodeId, peer: NodeId) -> bool {
        self.known(node, peer).contains(&self.of(peer))
    }

    /// True if an operator waits for the cluster to know a node by another key.
    pub(super) fn are_changing(&self) -> bool {
        !self.wants.is_empty()
    }

    /// True if a node makes a link with another one that shows this key.
    pub(super) fn takes(&self, node: NodeId, peer: NodeId, shown: &NodeKey) -> bool {
        let known = self.known(node, peer);
        known.is_empty() || known.contains(shown) || self.trusted.contains(&(node, peer, *shown))
    }
}

impl<N: Door> Cluster<N> {
    /// A machine loses its key, or its operator has its node change it.
    pub(super) fn change_key(&mut self, node: NodeId, duration: u64, rng: &mut Rng) -> bool {
        // A node that was left behind and hears of no new key refuses those that would tell it so.
        let is_settled = self.keys.wants.is_empty() && self.judge_keys().is_none() && self.is_everybody_told();
        if !N::HAS_BUCKETS || !is_settled || !self.knows_keys(node) || !self.members().any(|member| member == node) {
            return false;
        }
        let now = self.now;
        if rng.chance(1, 4) {
            // Of a node that is well: it tells the same one again.
            self.keys.asked_at = now;
            self.order_of_keys(node, Want::Forgotten);
            return true;
        }
        let key = self.keys.draw();
        let is_lost = rng.chance(1, 2);
        self.trace.event(now, [29, u64::from(node.0), u64::from(is_lost), u64::from(self.keys.drawn)], || {
            let what = if is_lost { "has lost its key" } else { "is to change its key" };
            format!("{} {what}", name_of(node))
        });
        if is_lost {
            self.die(node, rng.chance(1, 2), "ended, and its key is lost");
            self.give_key(node, key, LOST);
            self.keys.wants.insert(node, Want::Forgotten);
            self.start_in(rng.between(MS, duration.max(2 * MS)), node);
        } else {
            self.keys.ever.entry(node).or_default().insert(key);
            self.keys.wants.insert(node, Want::Added(key));
        }
        // Operators take their time.
        (self.keys.asked_at, self.keys.asked) = (now + rng.below(duration.max(1)), 0);
        self.look_at_keys();
        true
    }

    fn give_key(&mut self, node: NodeId, key: NodeKey, probe: &'static str) {
        self.keys.give(node, key);
        *self.probes.entry(probe).or_default() += 1;
    }

    /// True if the node runs, in a cluster that knows of keys.
    fn knows_keys(&self, node: NodeId) -> bool {
        let running = self.machines[usize::from(node.0)].running.as_ref();
        running.is_some_and(|running| Feature::NodeKeys.is_in(running.node.cluster_version()))
    }

    /// True if all nodes that run are in a cluster that knows of keys.
    pub(super) fn all_know_keys(&self) -> bool {
        let runs = |node: &NodeId| self.machines[usize::from(node.0)].running.is_some();
        self.members().filter(runs).all(|node| self.knows_keys(node))
    }

    fn look_at_keys(&mut self) {
        if !std::mem::replace(&mut self.keys.looks, true) {
            self.queue.push(self.now + LOOK_EVERY, Event::Keys);
        }
    }

    /// The operators look what the nodes know, and say again what they want.
    pub(super) fn on_keys(&mut self) {
        self.keys.looks = false;
        for (node, want) in self.keys.wants.clone() {
            if self.machines[usize::from(node.0)].is_gone {
                self.keys.wants.remove(&node);
                continue;
            }
            let all_know = |key: &NodeKey| {
                let mut members =
                    self.members().filter(|member| self.machines[usize::from(member.0)].running.is_some());
                members.all(|member| self.keys.known(member, node).contains(key))
            };
            match want {
                Want::Forgotten if all_know(&self.keys.of(node)) && self.keys.known(node, node).len() == 1 => {
                    self.keys.wants.remove(&node);
                }
                Want::Added(key) if all_know(&key) => {
                    self.die(node, false, "ended, to begin with another key");
                    self.give_key(node, key, CHANGED);
                    // The one that it had is not to be known any longer.
                    self.keys.wants.insert(node, Want::Forgotten);
                    self.start_in(MS, node);
                }
                Want::Forgotten | Want::Added(_) => self.order_of_keys(node, want),
            }
        }
        if !self.keys.wants.is_empty() {
            self.look_at_keys();
        }
    }

    fn order_of_keys(&mut self, node: NodeId, want: Want) {
        let now = self.now;
        if now < self.keys.asked_at {
            return;
        }
        let able: Vec<NodeId> = self.members().filter(|member| self.knows_keys(*member)).collect();
        if able.is_empty() {
            return;
        }
        (self.keys.asked_at, self.keys.asked) = (now + ORDER_AGAIN_AFTER, self.keys.asked + 1);
        if self.keys.asked > ASKED_BEFORE_TRUSTED {
            self.tell_key(node);
        }
        let by = *self.rng.fork().pick(&able);
        let name = name_of(node);
        let words = match want {
            Want::Forgotten => vec!["DICTUM.NODE".to_owned(), "FORGETKEYS".to_owned(), name],
            Want::Added(key) => {
                let digits = key.iter().map(|byte| format!("{byte:02x}")).collect();
                vec!["DICTUM.NODE".to_owned(), "ADDKEY".to_owned(), name, digits]
            }
        };
        self.trace.event(now, [29, u64::from(by.0), u64::from(node.0), 2], || {
            format!("the operator says to {}: {}", name_of(by), words.join(" "))
        });
        let mut command = Vec::new();
        wire::encode_command(&mut command, &words);
        self.give(by, Happening::Opened(CONNECTION, Listener::Inside));
        self.give(by, Happening::Received(CONNECTION, Bytes::from(command)));
        self.give(by, Happening::Closed(CONNECTION));
    }

    /// No order has changed anything. It may be that nobody who could carry it out makes a link with the node. Operators start all that refuse it with its key.
    fn tell_key(&mut self, node: NodeId) {
        let key = self.keys.of(node);
        let refuse: Vec<NodeId> = self.members().filter(|member| !self.keys.takes(*member, node, &key)).collect();
        for member in refuse.into_iter().filter(|member| *member != node) {
            *self.probes.entry(TRUSTED).or_default() += 1;
            self.keys.trusted.insert((member, node, key));
            self.die(member, false, "ended, to be told the key of another node");
            self.start_in(MS, member);
        }
    }

    /// True if two nodes know each other by the keys that they have.
    pub(super) fn show_their_keys(&mut self, one: NodeId, other: NodeId) -> bool {
        let takes = |node, peer| self.keys.takes(node, peer, &self.keys.of(peer));
        let both = takes(one, other) && takes(other, one);
        *self.probes.entry(REFUSED).or_default() += u64::from(!both);
        both
    }

    /// The key that a second process on an empty folder shows: it may be a stranger's who knows the cluster's secret. Then all nodes have to know the node by its key.
    pub(super) fn key_of_double(&mut self, node: NodeId, rng: &mut Rng) -> NodeKey {
        // An order that is under way still opens the gap in which the first key counts that is told.
        let is_settled = self.now >= self.keys.asked_at + 2 * ORDER_AGAIN_AFTER;
        if !self.chaos.keys || !is_settled || self.judge_keys().is_some() || rng.chance(1, 3) {
            return self.keys.of(node);
        }
        *self.probes.entry(FORGED).or_default() += 1;
        self.keys.draw()
    }

    /// Ends the links of a node with others that it does not know by their keys any more.
    pub(super) fn end_links_of_strangers(&mut self, node: NodeId) {
        for peer in self.nodes().filter(|peer| *peer != node).collect::<Vec<_>>() {
            let shown = if self.is_linked_with_double(peer, node) {
                self.key_of_the_double()
            } else {
                Some(self.keys.of(peer))
            };
            let is_linked = self.network.is_up(node, peer) || self.is_linked_with_double(peer, node);
            if is_linked && shown.is_some_and(|shown| !self.keys.takes(node, peer, &shown)) {
                *self.probes.entry(ENDED).or_default() += 1;
                self.reset_link(node, peer);
            }
        }
    }

    /// Property: in the calm at the end each node knows all others by the keys that they have, and nobody by a key that it never had.
    #[must_use]
    pub fn judge_keys(&self) -> Option<String> {
        if !self.chaos.keys {
            return None;
        }
        let running: Vec<NodeId> = self.members().filter(|node| self.knows_keys(*node)).collect();
        let pairs = || running.iter().flat_map(|node| running.iter().map(move |peer| (*node, *peer)));
        let strange = |node: NodeId, peer: NodeId| {
            let is_own =
                |key: &NodeKey| *key == first(peer) || self.keys.ever.get(&peer).is_some_and(|ever| ever.contains(key));
            !self.keys.known(node, peer).iter().all(is_own)
        };
        if let Some((node, peer)) = pairs().find(|(node, peer)| strange(*node, *peer)) {
            return Some(format!("{} knows {} by a key that it never had", name_of(node), name_of(peer)));
        }
        let (node, peer) = pairs().find(|(node, peer)| !self.keys.is_known(*node, *peer))?;
        let known = self.keys.known(node, peer).len();
        Some(format!("{} does not know {} by the key that it has, and by {known} others", name_of(node), name_of(peer)))
    }
}
