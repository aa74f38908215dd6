//! Nodes whose loop is at one long piece of work: they take nothing and say nothing, but their owners say that they live, as `server` does
//! (`server/src/event_loop/busy.rs`).

use base::NodeId;
use base::limits::BUSY_AFTER;
use wire::FrameWriter;

use super::Cluster;
use crate::chaos::SECOND;
use crate::door::Door;
use crate::events::Event;

/// No entry takes longer than its budget allows. (What stands still for longer hangs, and that is the kind `pause`.)
const WORK_MAX: u64 = 3 * SECOND;
/// Between two signs, in nanoseconds.
const SIGN_EVERY: u64 = BUSY_AFTER.as_nanos() as u64;

impl<N: Door> Cluster<N> {
    /// The loop of a node works for so long.
    pub(super) fn work_long(&mut self, node: NodeId, duration: u64) -> bool {
        let now = self.now;
        let machine = self.machine(node);
        if machine.running.is_none() || machine.paused_until > now {
            return false;
        }
        let duration = duration.min(WORK_MAX);
        let until = now + duration;
        machine.worked = Some((machine.life, now, duration));
        (machine.paused_until, machine.busy_until, machine.disturbed_at) = (until, until, until);
        self.network.troubles.paused(node.0, now, until);
        self.queue.push(until, Event::Resume(node));
        self.queue.push(now + SIGN_EVERY, Event::SignOfLife(node));
        true
    }

    pub(super) fn on_sign_of_life(&mut self, node: NodeId) {
        let now = self.now;
        let machine = self.machine(node);
        // A process that has ended meanwhile has no owner that says anything. (When the faults end, a turn that was put off still waits: so do the signs go on.)
        if machine.running.is_none() || machine.busy_until <= now {
            return;
        }
        for peer in self.nodes() {
            let sign = self.agreed(node, peer).filter(|_| peer != node).and_then(node::busy_sign);
            let mut frame = Vec::new();
            if let Some(sign) = sign
                && FrameWriter::append(&mut frame, |out| out.extend_from_slice(&sign)).is_ok()
            {
                self.send_to_peer(node, peer, &frame);
            }
        }
        self.queue.push(now + SIGN_EVERY, Event::SignOfLife(node));
    }
}
