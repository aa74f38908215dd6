//! The links of a second process with nodes: a node has one link with a name, so either with the node or with the second process.

use base::NodeId;
use node::{LinkTerms, NodeKey};

use super::{Cluster, DoubleEvent, LINKED, Link};
use crate::chaos::MS;
use crate::door::Door;
use crate::events::Event;
use crate::process::{Happening, name_of};

impl<N: Door> Cluster<N> {
    /// True if `peer` has a link with a second process of the name of `node` instead of with that.
    pub(in crate::cluster) fn is_linked_with_double(&self, node: NodeId, peer: NodeId) -> bool {
        self.double.as_ref().is_some_and(|double| double.of == node && double.links.contains_key(&peer))
    }

    /// The key that the second process shows.
    pub(in crate::cluster) fn key_of_the_double(&self) -> Option<NodeKey> {
        self.double.as_ref().map(|double| double.key)
    }

    /// The name of the second process, if the link with that number stands.
    pub(super) fn linked_double(&self, peer: NodeId, link: u64) -> Option<NodeId> {
        let double = self.double.as_ref()?;
        double.links.get(&peer).filter(|it| it.number == link).map(|_| double.of)
    }

    /// Sends what a process has for the other end of one of its links.
    pub(in crate::cluster) fn send_by_double(&mut self, peer: NodeId, bytes: &[u8], to_node: bool) {
        let mut frames = wire::FrameReader::new();
        frames.push(bytes);
        while let Ok(Some(payload)) = frames.next() {
            let at = self.now + self.network.delay() + payload.len() as u64;
            let Some(link) = self.double.as_mut().and_then(|double| double.links.get_mut(&peer)) else { return };
            let last = &mut link.last_arrival[usize::from(to_node)];
            *last = at.max(*last);
            let (at, number) = (*last, link.number);
            let event = if to_node {
                DoubleEvent::ToNode(peer, number, payload)
            } else {
                DoubleEvent::FromNode(peer, number, payload)
            };
            self.queue.push(at, Event::Double(self.doubles, event));
        }
    }

    /// It calls a node, which refuses it if it has a link with the node of that name.
    pub(super) fn call_by_double(&mut self, peer: NodeId) {
        let again = self.rng.between(MS, 40 * MS);
        let Some(double) = &self.double else { return };
        let (of, key) = (double.of, double.key);
        if double.running.is_none() {
            return;
        }
        let may = self.keys.takes(peer, of, &key);
        let may = may && self.machine(peer).running.is_some() && self.machine(peer).paused_until <= self.now;
        if may && !self.is_linked_with_double(of, peer) && !self.network.is_up(of, peer) {
            self.link_double(of, peer);
        }
        self.double_in(again, DoubleEvent::Call(peer));
    }

    fn link_double(&mut self, of: NodeId, peer: NodeId) {
        let now = self.now;
        if self.network.tell_down(peer, of) {
            self.give(peer, Happening::PeerDown(of));
        }
        self.network.troubles.link(of.0, peer.0, now, false);
        let newest = self.machine(peer).newest;
        let terms = LinkTerms { spoken: newest, newest, is_secured: false };
        let Some(double) = &mut self.double else { return };
        double.links_made += 1;
        double.last_linked = now;
        double.links.insert(peer, Link { number: double.links_made, last_arrival: [0; 2] });
        *self.probes.entry(LINKED).or_default() += 1;
        self.trace.event(now, [29, u64::from(of.0), u64::from(peer.0), 1], || {
            format!("the second {} is linked with {}", name_of(of), name_of(peer))
        });
        self.give(peer, Happening::PeerUp(of, terms));
        self.give_double(Happening::PeerUp(peer, terms));
    }

    /// A link of the second process is gone, if there was one.
    pub(in crate::cluster) fn unlink_double(&mut self, one: NodeId, other: NodeId) {
        let Some(double) = &mut self.double else { return };
        let of = double.of;
        let peer = if one == of { other } else { one };
        if (one != of && other != of) || double.links.remove(&peer).is_none() {
            return;
        }
        let now = self.now;
        self.trace.event(now, [29, u64::from(of.0), u64::from(peer.0), 0], || {
            format!("the link of the second {} with {} is gone", name_of(of), name_of(peer))
        });
        self.give(peer, Happening::PeerDown(of));
        self.give_double(Happening::PeerDown(peer));
        self.want_link(of, peer);
    }

    /// The node has been linked with somebody.
    pub(in crate::cluster) fn note_link_of_node(&mut self, one: NodeId, other: NodeId) {
        let now = self.now;
        if let Some(double) = &mut self.double
            && (double.of == one || double.of == other)
        {
            double.last_linked = now;
        }
    }
}
