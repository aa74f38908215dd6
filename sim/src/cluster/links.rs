//! Links between nodes, and what travels on them.

use base::NodeId;
use bytes::Bytes;
use node::LinkTerms;

use super::{Cluster, Machine};
use crate::chaos::MS;
use crate::door::Door;
use crate::events::Event;
use crate::process::{Happening, name_of};
use crate::trace::digest_of;

impl<N: Door> Cluster<N> {
    pub(super) fn want_link(&mut self, one: NodeId, other: NodeId) {
        if one != other && self.network.claim_trying(one, other) {
            let at = self.now + self.rng.between(MS, 100 * MS);
            self.queue.push(at, Event::TryLink(one, other));
        }
    }

    pub(super) fn on_try_link(&mut self, one: NodeId, other: NodeId) {
        let now = self.now;
        let ready = |machine: &Machine<N>| machine.running.is_some() && machine.paused_until <= now;
        let is_out = |machine: &Machine<N>| !machine.is_member || (machine.is_gone && !machine.returns);
        if is_out(self.machine(one)) || is_out(self.machine(other)) {
            return self.network.stop_trying(one, other);
        }
        // Who was removed calls the others, to be told.
        let knows = |machine: &Machine<N>, peer| machine.running.as_ref().is_some_and(|it| it.node.knows(peer));
        // One of them may have lost what it knew, or not have heard yet of the other, who calls it then.
        let known = [knows(self.machine(one), other), knows(self.machine(other), one)];
        // As the handshake finds out: who speaks less than the other's cluster is refused.
        let spoken = self.agreed(one, other);
        let both = (known[0] || known[1]) && ready(self.machine(one)) && ready(self.machine(other)) && spoken.is_some();
        let is_taken = self.is_linked_with_double(one, other) || self.is_linked_with_double(other, one);
        let both = both && !is_taken && self.finds(one, other) && self.show_their_keys(one, other);
        let Some((generation, unheard)) = (if both { self.network.establish(one, other, now) } else { None }) else {
            let at = now + self.rng.between(20 * MS, 200 * MS);
            self.queue.push(at, Event::TryLink(one, other));
            return;
        };
        self.network.stop_trying(one, other);
        self.note_link_of_node(one, other);
        self.trace.event(now, [8, u64::from(one.0), u64::from(other.0), generation], || {
            format!("link {} - {} is up", name_of(one), name_of(other))
        });
        let (low, high) = (one.min(other), one.max(other));
        // As the owner of a node has it: the old link ends before anything is heard of the new one.
        for (node, peer) in
            [(low, high, unheard[0]), (high, low, unheard[1])].into_iter().filter_map(|it| it.2.then_some((it.0, it.1)))
        {
            self.give(node, Happening::PeerDown(peer));
        }
        for (node, peer, known) in [(one, other, known[0]), (other, one, known[1])] {
            if !known {
                self.give(node, Happening::Met(peer));
            }
        }
        for (node, peer) in [(low, high), (high, low)] {
            let newest = self.machine(peer).newest;
            let terms = LinkTerms { spoken: spoken.unwrap_or(newest), newest, is_secured: false };
            self.give(node, Happening::PeerUp(peer, terms));
        }
    }

    pub(super) fn on_link_down(&mut self, node: NodeId, peer: NodeId) {
        if self.machine(node).running.is_some() && self.network.tell_down(node, peer) {
            let now = self.now;
            self.trace.event(now, [9, u64::from(node.0), u64::from(peer.0), 0], || {
                format!("{} has lost {}", name_of(node), name_of(peer))
            });
            self.give(node, Happening::PeerDown(peer));
        }
        self.want_link(node, peer);
    }

    pub(super) fn send_to_peer(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) {
        if self.is_linked_with_double(to, from) {
            return self.send_by_double(from, bytes, false);
        }
        let mut frames = wire::FrameReader::new();
        frames.push(bytes);
        let mut deliveries = Vec::new();
        loop {
            match frames.next() {
                Ok(Some(payload)) => self.network.send(from, to, payload, self.now, &mut deliveries),
                Ok(None) => break,
                Err(error) => {
                    self.violate("frames", format!("{} sent no frame: {error:?}", name_of(from)));
                    return;
                }
            }
        }
        if frames.buffered_bytes() > 0 {
            self.violate("frames", format!("{} sent part of a frame", name_of(from)));
        }
        for delivery in deliveries {
            self.queue.push(delivery.at, Event::Message(from, to, delivery.generation, delivery.payload));
        }
    }

    pub(super) fn on_message(&mut self, from: NodeId, to: NodeId, generation: u64, payload: Bytes) {
        if self.network.is_current(from, to, generation) {
            let now = self.now;
            let route = u64::from(from.0) << 32 | u64::from(to.0);
            let (length, digest) = (payload.len() as u64, digest_of(&payload));
            self.trace.event(now, [10, route, length, digest], || {
                format!("{} -> {}: {length} bytes {digest:016x}", name_of(from), name_of(to))
            });
            self.watch_message(from, to, &payload);
            self.give(to, Happening::PeerMessage(from, payload));
        }
    }

    pub(super) fn on_mend(&mut self, from: NodeId, to: NodeId) {
        let (held, breaks) = self.network.mend(from, to);
        let mut deliveries = Vec::new();
        for payload in held {
            self.network.send(from, to, payload, self.now, &mut deliveries);
        }
        for delivery in deliveries {
            self.queue.push(delivery.at, Event::Message(from, to, delivery.generation, delivery.payload));
        }
        if breaks {
            self.reset_link(from, to);
        }
    }

    pub(super) fn reset_link(&mut self, one: NodeId, other: NodeId) {
        self.unlink_double(one, other);
        if self.network.break_link(one, other, self.now) {
            for (node, peer) in [(one, other), (other, one)] {
                let at = self.now + self.rng.below(50 * MS);
                self.queue.push(at, Event::LinkDown(node, peer));
            }
        }
    }
}
