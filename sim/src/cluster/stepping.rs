//! The operator has an entry of a log stepped over: stops all nodes, and starts them with the place of an entry that is not decided yet.
//!
//! What may go wrong on the way goes wrong: one node is started without for a while, one dies between the rounds and may have lost its flag then. If not all nodes
//! have gone over the entry after a while, the operator gives up and starts all of them without.
//!
//! Not in these runs: rot in a journal just now. A node that has said that its journal has the void, whose disk then loses that, and which is started without its flag
//! before the council knows, applies the entry (docs/decisions/2026-11-27-step-over.md).

use std::collections::BTreeSet;

use base::{BucketId, NodeId, PartitionId, Position, Rng};

use super::Cluster;
use crate::chaos::{Fault, MS, SECOND};
use crate::door::Door;
use crate::events::Event;
use crate::process::name_of;

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 3] = [ALL_OVER, GIVEN_UP, FLAG_LOST];
const ALL_OVER: &str = "sim: all nodes have gone over an entry";
const GIVEN_UP: &str = "sim: operator gave stepping over up";
const FLAG_LOST: &str = "sim: node lost its flag between the rounds";
/// How often the operator looks, and how many times.
const LOOK_EVERY: u64 = 2 * SECOND;
const LOOKS_MAX: u32 = 3;

/// What is to be done next about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The node that was forgotten is told, too.
    TellForgotten,
    /// A node dies; whether it loses its flag.
    Kill(NodeId, bool),
    /// The operator looks.
    Look(u32),
}

/// What the operator has in mind.
#[derive(Debug, Default)]
pub(super) struct Stepping {
    /// The entry, and how often this was begun: what was planned for an earlier one is out of date.
    place: Option<(PartitionId, Position)>,
    number: u64,
    /// The nodes that are started with it.
    told: BTreeSet<NodeId>,
    forgotten: Option<NodeId>,
    /// As soon as one node has replaced the entry, others die that have not, and are started without.
    strikes: bool,
}

impl<N: Door> Cluster<N> {
    /// Begins with one. False if that is not possible now.
    pub(super) fn step_over(&mut self, duration: u64, rng: &mut Rng) -> bool {
        // Whoever goes on alone may do so with an entry that the others have replaced, and nobody remembers which it was.
        let goes_alone = self.chaos.plan.iter().any(|planned| planned.fault == Fault::UnsafeRecover);
        let all_new = self.machines.iter().all(|machine| machine.newest == base::versions::NEWEST);
        if !N::HAS_BUCKETS || self.healed || self.stepping.place.is_some() || self.set_back.is_some() {
            return false;
        }
        let is_council = |id: &PartitionId| id.bucket == BucketId(u32::MAX);
        let may_be = |id: &PartitionId| self.durable.contains(id) && !self.dropped.contains(id) && !is_council(id);
        let highest = self.agreement.highest();
        let places: Vec<(PartitionId, Position)> =
            highest.iter().map(|(id, last)| (*id, *last)).filter(|(id, _)| may_be(id)).collect();
        if goes_alone || !all_new || places.is_empty() {
            return false;
        }
        let (partition, last) = *rng.pick(&places);
        let position = Position(last.0 + rng.between(1, 12));
        self.agreement.allow_void(partition, position);
        let members: Vec<NodeId> = self.members().collect();
        let forgotten = rng.chance(1, 3).then(|| *rng.pick(&members));
        self.stepping = Stepping {
            place: Some((partition, position)),
            number: self.stepping.number + 1,
            told: members.iter().copied().filter(|node| Some(*node) != forgotten).collect(),
            forgotten,
            strikes: rng.chance(1, 3),
        };
        let now = self.now;
        self.trace.event(now, [22, u64::from(partition.bucket.0), u64::from(partition.index), position.0], || {
            let but = forgotten.map(|node| format!(", but {}", name_of(node))).unwrap_or_default();
            format!("the operator starts all nodes{but} with --step-over {partition}@{position}")
        });
        for node in members {
            // An earlier copy would have the entry, and its node may apply it before anybody tells it anything.
            self.machine(node).earlier = None;
            self.restart_for_step(node, rng);
        }
        let number = self.stepping.number;
        let mut plan = |delay: u64, stage: Stage| self.queue.push(now + delay, Event::Stepping(number, stage));
        if forgotten.is_some() {
            plan(rng.between(200 * MS, 3 * SECOND), Stage::TellForgotten);
        }
        if rng.chance(1, 2) {
            let node = NodeId(rng.below(u64::from(self.chaos.founders)) as u16);
            plan(rng.between(300 * MS, 3 * SECOND), Stage::Kill(node, rng.chance(1, 2)));
        }
        plan(duration + LOOK_EVERY, Stage::Look(1));
        true
    }

    fn restart_for_step(&mut self, node: NodeId, rng: &mut Rng) {
        if self.machine(node).running.is_some() {
            self.die(node, rng.chance(1, 3), "killed, to step over an entry");
        }
        self.start_in(rng.between(MS, 400 * MS), node);
    }

    pub(super) fn on_stepping(&mut self, number: u64, stage: Stage) {
        let Some(place) = self.stepping.place.filter(|_| self.stepping.number == number) else { return };
        let mut rng = self.rng.fork();
        match stage {
            Stage::TellForgotten => {
                let Some(node) = self.stepping.forgotten.take() else { return };
                // It has said that it has applied the entry; and perhaps a client has heard of it. The operator does as all nodes say, and gives up.
                let running = self.machines[usize::from(node.0)].running.as_ref();
                let progress = running.and_then(|running| running.node.progress(place.0));
                if progress.is_none_or(|progress| progress.applied >= place.1) {
                    return self.give_stepping_up();
                }
                self.stepping.told.insert(node);
                self.restart_for_step(node, &mut rng);
            }
            Stage::Kill(node, loses) => {
                if !self.members().any(|member| member == node) {
                    return;
                }
                if loses && self.stepping.told.remove(&node) {
                    *self.probes.entry(FLAG_LOST).or_default() += 1;
                }
                self.restart_for_step(node, &mut rng);
            }
            Stage::Look(count) => {
                let knows = |node: NodeId| {
                    let running = self.machines[usize::from(node.0)].running.as_ref();
                    running.is_some_and(|running| running.node.stepped_over().contains(&place))
                };
                if self.members().all(knows) {
                    *self.probes.entry(ALL_OVER).or_default() += 1;
                    self.stepping = Stepping { number, ..Stepping::default() };
                } else if count < LOOKS_MAX {
                    self.queue.push(self.now + LOOK_EVERY, Event::Stepping(number, Stage::Look(count + 1)));
                } else {
                    self.give_stepping_up();
                }
            }
        }
    }

    /// A node has had a turn. If it is the first that has replaced the entry, the moment has come at which most can go wrong.
    pub(super) fn strike_between_rounds(&mut self, node: NodeId) {
        let Some((partition, position)) = self.stepping.place.filter(|_| self.stepping.strikes) else { return };
        let has_void = |node: NodeId| {
            let running = self.machines[usize::from(node.0)].running.as_ref()?;
            let digest = running.node.decided_entry_digest(partition, position)?;
            Some(self.agreement.digest(partition, position) != Some(digest))
        };
        if has_void(node) != Some(true) {
            return;
        }
        let late: Vec<NodeId> = self.members().filter(|other| has_void(*other) == Some(false)).collect();
        self.stepping.strikes = false;
        let mut rng = self.rng.fork();
        for other in late {
            if self.stepping.told.remove(&other) {
                *self.probes.entry(FLAG_LOST).or_default() += 1;
                self.restart_for_step(other, &mut rng);
            }
        }
    }

    /// All nodes are started without.
    pub(super) fn give_stepping_up(&mut self) {
        let number = self.stepping.number;
        if std::mem::replace(&mut self.stepping, Stepping { number, ..Stepping::default() }).place.is_none() {
            return;
        }
        *self.probes.entry(GIVEN_UP).or_default() += 1;
        let mut rng = self.rng.fork();
        for node in self.members().collect::<Vec<_>>() {
            self.restart_for_step(node, &mut rng);
        }
    }

    /// What a node is started with.
    pub(super) fn steps_of(&self, node: NodeId) -> Vec<(PartitionId, Position)> {
        self.stepping.place.filter(|_| self.stepping.told.contains(&node)).into_iter().collect()
    }

    /// Whether the operator does not let this be done now.
    pub(super) fn spares_steps(&self, fault: Fault) -> bool {
        let may_lose_a_void = matches!(
            fault,
            Fault::BitRot
                | Fault::ReadError
                | Fault::IdentityRot
                | Fault::SetBack
                | Fault::FolderAway
                | Fault::Versions
        );
        // A node without its flag may have applied the entry, answered a client, and told nobody yet: its journal says so again, as long as it is there.
        let may_lose_all = matches!(fault, Fault::Wipe | Fault::JournalLost);
        let all_are_told = self.members().all(|node| self.stepping.told.contains(&node));
        self.stepping.place.is_some() && (may_lose_a_void || (may_lose_all && !all_are_told))
    }
}
