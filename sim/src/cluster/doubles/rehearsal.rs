//! A rehearsal beside the living: a copy of a node's folder goes on alone (`dictum unsafe-recover`), and is started where the others can hear it.
//!
//! It says to all others that the cluster has gone on without them. They live, and so does their majority: none of them may end for it, and nobody takes anything from the copy.

use base::{NodeId, Rng};

use super::{Cluster, Folder, PROPERTY};
use crate::disk::SimDisk;
use crate::door::Door;
use crate::process::{Happening, name_of};

/// The name under which it is counted.
pub(crate) const LIED: &str = "sim: a copy said that a node was removed, which it was not";

impl<N: Door> Cluster<N> {
    /// A copy of a node's folder that has gone on alone; none if what is in the folder at this moment does not allow that.
    pub(super) fn copy_gone_on_alone(&mut self, node: NodeId, rng: &mut Rng) -> Option<SimDisk> {
        let disk = SimDisk::new(rng.next_u64());
        disk.set_back(&self.machine(node).disk.copy());
        let alone = self.alone(node, rng);
        let (plan, _) = alone.look(&disk).ok()?;
        if plan.is_alone || plan.partitions.iter().any(|fate| !fate.damage.is_empty()) {
            return None;
        }
        if let Err(text) = alone.carry_out(&disk) {
            self.violate(PROPERTY, format!("a copy of the folder of {} cannot go on alone: {text}", name_of(node)));
            return None;
        }
        Some(disk)
    }

    /// The copy says something else that is not true: that the node was removed.
    pub(super) fn lie(&mut self, to: NodeId, of: NodeId) {
        if self.double.as_ref().is_none_or(|double| double.folder != Folder::Alone) {
            return;
        }
        let Some(running) = &self.machine(to).running else { return };
        let words = running.node.farewell();
        *self.probes.entry(LIED).or_default() += 1;
        self.give(to, Happening::PeerMessage(of, words));
    }

    /// A node ends, as it was removed or left behind.
    ///
    /// Property: a majority that lives is left behind by nobody, and nobody is removed by the word of one.
    pub(in crate::cluster) fn judge_end_beside_copy(&mut self, node: NodeId) {
        let is_beside = self.double.as_ref().is_some_and(|double| double.folder == Folder::Alone);
        if is_beside && !self.operator.leaving.contains(&node) {
            let text = format!(
                "{} has ended, as a copy of another folder says that it was left behind, or removed",
                name_of(node)
            );
            self.violate(PROPERTY, text);
        }
    }
}
