//! The operator's part: ends a second process to which nobody listens, takes its folder over where the others have taken it for the node, and starts the node again.

use base::NodeId;

use super::{
    BOTH_ENDED, Cluster, DoubleEvent, Folder, LOOK_EVERY, NODE_ENDED, PROPERTY, REFUSED, SETTLED_AFTER, TAKEN_OVER,
};
use crate::chaos::MS;
use crate::door::Door;
use crate::process::name_of;

impl<N: Door> Cluster<N> {
    /// A node ends by its own verdict. True if that is because of a second process: its operator starts it again when it is clear what becomes of that.
    pub(in crate::cluster) fn ends_for_double(&mut self, node: NodeId) -> bool {
        let may_end = |folder| !matches!(folder, Folder::Empty | Folder::Alone);
        let Some(double) = self.double.as_mut().filter(|double| double.of == node && may_end(double.folder)) else {
            return false;
        };
        double.node_has_ended = true;
        *self.probes.entry(NODE_ENDED).or_default() += 1;
        true
    }

    /// The operator ends what nobody listens to.
    ///
    /// Property: of two processes with copies of one folder not both are listened to.
    pub(super) fn look_at_double(&mut self) {
        let Some(double) = &self.double else { return };
        let (of, folder, is_over, node_has_ended) = (double.of, double.folder, double.is_over, double.node_has_ended);
        let (runs, is_linked, never) = (double.running.is_some(), !double.links.is_empty(), double.links_made == 0);
        let is_settled = self.now >= double.last_linked + SETTLED_AFTER;
        if is_over {
            if !node_has_ended {
                self.double = None;
                return;
            }
            return self.empty_spoiled();
        }
        let peers: Vec<NodeId> = self.members().filter(|peer| *peer != of).collect();
        let node_is_linked = peers.into_iter().any(|peer| self.network.is_up(of, peer));
        let both = runs && is_linked && node_is_linked;
        if both && !is_settled {
            return self.double_in(LOOK_EVERY, DoubleEvent::Look);
        }
        if both && !matches!(folder, Folder::Empty | Folder::Alone) {
            let text = format!("two processes with the folder of {} are both listened to", name_of(of));
            return self.violate(PROPERTY, text);
        }
        if never {
            *self.probes.entry(REFUSED).or_default() += 1;
            if folder == Folder::Empty {
                self.machine(of).came_back = None;
            }
        }
        if folder == Folder::Moved && runs {
            return self.take_over_folder(of);
        }
        self.end_double("its operator ends it");
        if node_has_ended {
            *self.probes.entry(BOTH_ENDED).or_default() += 1;
            return self.empty_spoiled();
        }
        self.start_in(MS, of);
        self.begin_aftermath();
    }

    /// News of the second process may reach the node still: the operator looks once more.
    fn begin_aftermath(&mut self) {
        if let Some(double) = &mut self.double {
            (double.is_over, double.node_has_ended) = (true, false);
        }
        self.double_in(SETTLED_AFTER, DoubleEvent::Look);
    }

    /// The node has ended, as others have heard what its folder lacks; nobody has that any more. Its operator does as it has said, and empties the folder.
    fn empty_spoiled(&mut self) {
        let Some(of) = self.double.as_ref().map(|double| double.of) else { return };
        let is_done = self.damage(of, 10 * MS, |disk| {
            disk.delete(|_| true);
            true
        });
        if !is_done {
            return self.double_in(LOOK_EVERY, DoubleEvent::Look);
        }
        self.machine(of).earlier = None;
        self.begin_aftermath();
    }

    /// The others take the second process for the node: its folder becomes the node's.
    fn take_over_folder(&mut self, of: NodeId) {
        let Some(disk) = self.double.as_ref().map(|double| double.disk.clone()) else { return };
        *self.probes.entry(TAKEN_OVER).or_default() += 1;
        self.end_double("it is started again in the node's place");
        self.die(of, false, "ended, as another process has taken its place");
        let machine = self.machine(of);
        machine.disk.set_back(&disk.copy());
        machine.earlier = None;
        self.begin_aftermath();
        self.start_in(10 * MS, of);
    }

    /// True if a node has ended because of a second process, and its operator has not looked yet.
    pub(in crate::cluster) fn waits_for_operator(&self, node: NodeId) -> bool {
        self.double.as_ref().is_some_and(|double| double.of == node && double.node_has_ended)
    }
}
