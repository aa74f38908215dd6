//! In which zones nodes are, and whether those who shall vote are spread over these.

use std::collections::BTreeMap;

use base::{NodeId, Rng};

use super::{Cluster, Machine};
use crate::checkers::zones::{Labelled, crowded};
use crate::door::Door;

/// The label that a node has in that life of its process. Most have the same one always, some have none.
pub(super) fn zone_of(zones_seed: Option<u64>, node: NodeId, life: u64) -> String {
    let Some(seed) = zones_seed else { return String::new() };
    let mut rng = Rng::new(seed ^ (u64::from(node.0) << 32));
    if rng.chance(1, 6) {
        rng = Rng::new(rng.next_u64() ^ life);
    }
    if rng.chance(1, 6) {
        return String::new();
    }
    char::from(b'a' + rng.below(2 + seed % 3) as u8).to_string()
}

impl<N: Door> Cluster<N> {
    /// The label for a process that is about to start.
    pub(super) fn label(&mut self, node: NodeId) -> String {
        let seed = self.chaos.zones_seed;
        let machine = self.machine(node);
        machine.zone = zone_of(seed, node, machine.life);
        machine.zone.clone()
    }

    /// Kills all that run in the zone of `node` at one stroke, or takes their power away. Not where that is one alone: there are other kinds for that.
    pub(super) fn lose_zone(&mut self, node: NodeId, duration: u64, rng: &mut Rng) -> bool {
        let label = self.machine(node).zone.clone();
        let is_in = |machine: &Machine<N>| machine.running.is_some() && machine.zone == label;
        let lost: Vec<NodeId> = self.nodes().filter(|id| is_in(&self.machines[usize::from(id.0)])).collect();
        if label.is_empty() || lost.len() < 2 {
            return false;
        }
        let power = rng.chance(1, 2);
        for node in lost {
            self.die(node, power, "lost with its zone");
            let delay = rng.between(duration / 2, duration);
            self.start_in(delay, node);
        }
        true
    }

    /// What each node knows of labels that are not those that their nodes were started with, and of voters that are not spread.
    pub(super) fn misplaced(&self) -> BTreeMap<NodeId, Vec<String>> {
        let mut misplaced = BTreeMap::new();
        if self.chaos.zones_seed.is_none() {
            return misplaced;
        }
        // Who has been let in and does not know it is a machine that nobody switches on.
        let runs = |id: NodeId| self.machines[usize::from(id.0)].running.is_some();
        for node in self.members() {
            let Some(running) = &self.machines[usize::from(node.0)].running else { continue };
            let told = running.node.zones();
            let wrong =
                told.iter().filter(|(id, label, _)| runs(*id) && *label != self.machines[usize::from(id.0)].zone);
            let mut texts: Vec<String> =
                wrong.map(|(id, label, _)| format!("{id} counts as in zone {label:?}")).collect();
            let serve = told.iter().filter(|(id, _, serves)| *serves && runs(*id));
            let serving: Vec<Labelled> = serve.map(|(id, label, _)| (*id, label.clone())).collect();
            for partition in running.node.partitions() {
                let wanted = running.node.voters(partition).map(|voters| voters.wanted).unwrap_or_default();
                texts.extend(crowded(&wanted, &serving).map(|text| format!("{partition}: {text}")));
            }
            misplaced.insert(node, texts);
        }
        misplaced
    }
}
