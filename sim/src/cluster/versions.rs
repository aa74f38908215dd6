//! Nodes of which some are older than others, and become newer one by one; and whether anybody was ever handed what it does not know.
//!
//! An older node is this build, told to behave like one (`Config::newest`). Whoever has upgraded a machine does not go back.

use base::versions::{NEWEST, OLDEST, Versions};
use base::{NodeId, Rng};
use bytes::Bytes;

use super::Cluster;
use crate::chaos::{Chaos, Fault, MS, SECOND};
use crate::door::Door;
use crate::process::{Happening, name_of};

/// What a machine begins with. Most of the nodes are older ones, where any are.
pub(super) fn first(chaos: &Chaos, node: u16) -> u16 {
    let Some(seed) = chaos.versions_seed else { return NEWEST };
    if Rng::new(seed ^ u64::from(node)).chance(3, 4) { OLDEST } else { NEWEST }
}

impl<N: Door> Cluster<N> {
    /// The next process of this machine is a newer one; the one that runs is stopped. False if it is one already.
    pub(super) fn upgrade(&mut self, node: NodeId, duration: u64, rng: &mut Rng) -> bool {
        let now = self.now;
        let machine = self.machine(node);
        if machine.newest == NEWEST || machine.running.is_none() || machine.is_gone {
            return false;
        }
        machine.upgrade_is_due = true;
        if rng.chance(1, 2) {
            // It runs on as it is until it has stopped, or dies of something else.
            let is_told =
                machine.running.as_mut().is_some_and(|running| !std::mem::replace(&mut running.stopping, true));
            if is_told {
                machine.disturbed_at = now + 60 * SECOND;
                self.give(node, Happening::Stop);
            }
        } else {
            self.die(node, rng.chance(1, 8), "killed, to be upgraded");
            self.start_in(duration, node);
        }
        true
    }

    /// A process is about to start: whether it is a newer one than the one before.
    pub(super) fn upgrade_at_start(&mut self, node: NodeId) {
        let machine = self.machine(node);
        if std::mem::take(&mut machine.upgrade_is_due) {
            machine.newest = NEWEST;
        }
    }

    /// The last older nodes become newer ones when all faults are over.
    pub(super) fn upgrade_the_rest(&mut self) {
        for node in self.nodes() {
            if self.machine(node).newest == NEWEST {
                continue;
            }
            self.machine(node).upgrade_is_due = true;
            if self.machine(node).running.is_some() {
                self.die(node, false, "killed, to be upgraded");
                let delay = self.rng.between(10 * MS, 500 * MS);
                self.start_in(delay, node);
                *self.injected.entry(Fault::Versions).or_default() += 1;
            }
        }
    }

    /// Which version a link between two nodes would have; none if they refuse each other.
    pub(super) fn agreed(&self, one: NodeId, other: NodeId) -> Option<u16> {
        let of = |node: NodeId| {
            let machine = &self.machines[usize::from(node.0)];
            let needs = machine.running.as_ref().map_or(OLDEST, |running| running.node.cluster_version());
            (Versions::up_to(machine.newest), needs)
        };
        let ((one, one_needs), (other, other_needs)) = (of(one), of(other));
        one.common(other).filter(|_| one.newest >= other_needs && other.newest >= one_needs)
    }

    /// Property: nobody is handed a message, or an entry in one, of a later version than it speaks.
    pub(super) fn watch_message(&mut self, from: NodeId, to: NodeId, payload: &Bytes) {
        let (newest, sender) = (self.machine(to).newest, self.machine(from).newest);
        // The newest speak everything: only messages to others cost the time. (On links that changed their version since, nothing arrives any more.)
        if !N::HAS_BUCKETS || newest == NEWEST {
            return;
        }
        let text = match node::version_of_message(payload, newest.min(sender)) {
            Some(version) if version <= newest => return,
            Some(version) => format!("what asks for version {version}"),
            None => "a message that makes no sense in its version".to_owned(),
        };
        let text = format!("{} was sent {text} by {}, and speaks {newest} at the most", name_of(to), name_of(from));
        self.violate("versions", text);
    }

    /// Property: no node follows a cluster of a later version than it speaks.
    pub(super) fn watch_version(&mut self, node: NodeId) {
        let machine = &self.machines[usize::from(node.0)];
        let Some(running) = &machine.running else { return };
        let (version, newest) = (running.node.cluster_version(), machine.newest);
        if version > newest {
            self.violate(
                "versions",
                format!("{} is in a cluster of version {version}, and speaks {newest}", name_of(node)),
            );
        }
    }

    /// Nodes that do not know yet that the cluster has the newest version, when all are new and all is calm.
    #[must_use]
    pub fn behind_in_version(&self) -> Vec<String> {
        let is_behind = |node: &NodeId| {
            let running = self.machines[usize::from(node.0)].running.as_ref();
            N::HAS_BUCKETS && running.is_some_and(|running| running.node.cluster_version() < NEWEST)
        };
        // Who was let in and does not know it is a machine that nobody switches on: nobody knows what it speaks, and it holds the version back, as it must.
        let is_silent = |id: &NodeId| self.machines.get(usize::from(id.0)).is_none_or(|machine| !machine.is_member);
        let knows_silent = |node: NodeId| {
            let placement = self.machines[usize::from(node.0)].running.as_ref().and_then(|it| it.node.placement());
            placement.is_some_and(|placement| placement.joined.iter().any(|(id, _)| is_silent(id)))
        };
        if self.members().any(knows_silent) {
            return Vec::new();
        }
        self.members().filter(is_behind).map(name_of).collect()
    }
}
