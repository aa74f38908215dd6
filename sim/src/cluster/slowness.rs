//! Disks that are slow for long, and whether their nodes lose what they lead.

use base::NodeId;

use super::Cluster;
use crate::chaos::{Fault, MS, Planned};
use crate::door::Door;
use crate::process::name_of;

impl<N: Door> Cluster<N> {
    /// What a sync that begins now at this node takes longer than at others, in nanoseconds.
    pub(super) fn slowness_of_disk(&mut self, node: NodeId) -> u64 {
        let now = self.now;
        let machine = self.machine(node);
        if machine.slow_until > now { machine.slow_by } else { 0 }
    }

    /// From now on each sync of this node takes so much longer, for so long.
    pub(super) fn slow_disk(&mut self, node: NodeId, by: u64, duration: u64) {
        let until = self.now.saturating_add(duration);
        let machine = self.machine(node);
        machine.slow_until = until;
        machine.slow_by = by;
    }

    /// All faults end but this one, where it is one of the run's: the disk of whoever leads is slow in the calm, until that is seen not to lead.
    pub(super) fn keep_one_slow(&mut self) {
        for node in self.nodes() {
            let now = self.now;
            let machine = self.machine(node);
            machine.slow_until = machine.slow_until.min(now);
        }
        let Some(by) = self.chaos.slow_in_calm else { return };
        // One of two is not slower than the middle one; and where an operator drains nodes, whoever is left leads, slow or not.
        // And whoever goes on alone does.
        let changes = |planned: &Planned| {
            matches!(planned.fault, Fault::VotersChange | Fault::MembersChange | Fault::UnsafeRecover)
        };
        if self.machines.len() < 3 || self.chaos.plan.iter().any(changes) {
            return;
        }
        let Some(node) = self.leader() else { return };
        let now = self.now;
        self.trace.event(now, [18, u64::from(node.0), by, 0], || {
            format!("the disk of {} stays slow, by {} ms a sync", name_of(node), by / MS)
        });
        *self.injected.entry(Fault::SlowDisk).or_default() += 1;
        self.slow_disk(node, by, u64::MAX);
        self.slow_in_calm = Some(node);
    }

    /// Whether the node whose disk is slow in the calm leads anything, if there is one.
    #[must_use]
    pub fn slow_one_leads(&self) -> bool {
        let Some(node) = self.slow_in_calm else { return false };
        let Some(running) = &self.machines[usize::from(node.0)].running else { return false };
        let leads = |partition| running.node.leader(partition).is_some_and(|(leader, _)| leader == node);
        running.node.partitions().into_iter().any(leads)
    }

    /// Its disk is as quick as the others from now on. What to call it, if there was one.
    pub fn end_slowness(&mut self) -> Option<String> {
        let (node, now) = (self.slow_in_calm.take()?, self.now);
        self.machine(node).slow_until = now;
        Some(name_of(node))
    }
}
