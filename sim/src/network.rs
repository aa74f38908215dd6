//! The links between nodes: delay, loss, repetition, overtaking, cuts and resets of whole messages.
//!
//! A link belongs to an unordered pair of nodes and has a generation: what was sent on a link that broke is gone.

use base::{NodeId, Rng};
use bytes::Bytes;

use crate::chaos::{Chaos, MS};
use crate::checkers::messages::Troubles;

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// When it arrives, in nanoseconds.
    pub at: u64,
    /// The link's generation when it was sent.
    pub generation: u64,
    /// The message.
    pub payload: Bytes,
}

/// How many messages met which fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fates {
    /// Sent.
    pub sent: u64,
    /// Vanished.
    pub lost: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Overtaken by later ones.
    pub reordered: u64,
    /// Held back or dropped by a cut.
    pub cut: u64,
}

/// One pair's link.
#[derive(Debug, Default)]
struct Link {
    generation: u64,
    up: bool,
    /// How many cuts there are, from the lower node and from the higher one.
    cuts: [u32; 2],
    /// During a cut: whether messages wait for its end (else they are lost, and the link breaks at its end).
    holds: bool,
    held: [Vec<Bytes>; 2],
    last_arrival: [u64; 2],
    /// Whether each end knows that the link is gone.
    told_down: [bool; 2],
    trying: bool,
}

/// All links of a cluster.
#[derive(Debug)]
pub struct Network {
    nodes: u16,
    links: Vec<Link>,
    rng: Rng,
    loss: u64,
    duplicate: u64,
    reorder: u64,
    delay_min: u64,
    jitter: u64,
    /// What happened so far.
    pub fates: Fates,
    /// When something happened to links, and to nodes.
    pub troubles: Troubles,
}

impl Network {
    /// Links as drawn for a run; none is up.
    #[must_use]
    pub fn new(chaos: &Chaos, rng: Rng) -> Network {
        let pairs = usize::from(chaos.nodes) * usize::from(chaos.nodes);
        let link = || Link { told_down: [true; 2], ..Link::default() };
        Network {
            nodes: chaos.nodes,
            links: (0..pairs).map(|_| link()).collect(),
            rng,
            loss: chaos.loss,
            duplicate: chaos.duplicate,
            reorder: chaos.reorder,
            delay_min: chaos.delay_min,
            jitter: chaos.jitter,
            fates: Fates::default(),
            troubles: Troubles::default(),
        }
    }

    /// There are more nodes from now on.
    pub fn grow(&mut self, nodes: u16) {
        let link = || Link { told_down: [true; 2], ..Link::default() };
        let mut links: Vec<Link> = (0..usize::from(nodes) * usize::from(nodes)).map(|_| link()).collect();
        for (index, link) in std::mem::take(&mut self.links).into_iter().enumerate() {
            let (low, high) = (index / usize::from(self.nodes), index % usize::from(self.nodes));
            links[low * usize::from(nodes) + high] = link;
        }
        (self.nodes, self.links) = (nodes, links);
    }

    /// From now on messages are delivered, quickly and in order.
    pub fn heal(&mut self) {
        self.loss = 0;
        self.duplicate = 0;
        self.reorder = 0;
        self.delay_min = self.delay_min.min(MS);
        self.jitter = self.jitter.min(MS);
    }

    fn pair(&mut self, from: NodeId, to: NodeId) -> (&mut Link, usize) {
        let (low, high) = (from.0.min(to.0), from.0.max(to.0));
        let index = usize::from(low) * usize::from(self.nodes) + usize::from(high);
        (&mut self.links[index], usize::from(from.0 > to.0))
    }

    /// The time that something takes from anywhere to anywhere, in nanoseconds.
    pub fn delay(&mut self) -> u64 {
        let spread = self.rng.below(self.jitter.max(1));
        // Now and then one is much slower than the rest.
        let outlier = if self.rng.chance(1, 100) { self.rng.below(10 * self.jitter.max(1)) } else { 0 };
        self.delay_min + spread + outlier
    }

    /// Sends a message; answers where and when it arrives: nowhere, once or twice.
    pub fn send(&mut self, from: NodeId, to: NodeId, payload: Bytes, now: u64, deliveries: &mut Vec<Delivery>) {
        self.fates.sent += 1;
        let million = 1_000_000;
        let (lost, twice) = (self.rng.below(million) < self.loss, self.rng.below(million) < self.duplicate);
        let overtaken = self.rng.below(million) < self.reorder;
        let arrival = now + self.delay() + payload.len() as u64;
        let (late, again) = (self.rng.between(MS, 100 * MS), self.rng.between(1, 50 * MS));
        let (link, side) = self.pair(from, to);
        if !link.up {
            return;
        }
        if lost || overtaken || link.cuts[side] > 0 {
            self.troubles.harmed(from.0, to.0, now);
        }
        let (link, side) = self.pair(from, to);
        if link.cuts[side] > 0 {
            if link.holds {
                link.held[side].push(payload);
            }
            self.fates.cut += 1;
            return;
        }
        if lost {
            self.fates.lost += 1;
            return;
        }
        let generation = link.generation;
        let at = if overtaken {
            arrival + late
        } else {
            link.last_arrival[side] = arrival.max(link.last_arrival[side]);
            link.last_arrival[side]
        };
        if twice {
            deliveries.push(Delivery { at: at + again, generation, payload: payload.clone() });
            self.fates.duplicated += 1;
        }
        self.fates.reordered += u64::from(overtaken);
        deliveries.push(Delivery { at, generation, payload });
    }

    /// Whether the link stands, and with this generation.
    #[must_use]
    pub fn is_current(&mut self, from: NodeId, to: NodeId, generation: u64) -> bool {
        let (link, _) = self.pair(from, to);
        link.up && link.generation == generation
    }

    /// True if a link stands.
    #[must_use]
    pub fn is_up(&mut self, one: NodeId, other: NodeId) -> bool {
        self.pair(one, other).0.up
    }

    /// Breaks a link: what is on its way is gone. False if it was not up.
    pub fn break_link(&mut self, one: NodeId, other: NodeId, now: u64) -> bool {
        self.troubles.link(one.0, other.0, now, false);
        let (link, _) = self.pair(one, other);
        let was_up = link.up;
        link.up = false;
        link.generation += 1;
        link.held = [Vec::new(), Vec::new()];
        if was_up {
            link.told_down = [false; 2];
        }
        was_up
    }

    /// Takes note that `node` hears that its link to `peer` is gone. False if it knew, or the link is back.
    pub fn tell_down(&mut self, node: NodeId, peer: NodeId) -> bool {
        let (link, side) = self.pair(node, peer);
        !link.up && !std::mem::replace(&mut link.told_down[side], true)
    }

    /// A process that has died has nothing left to hear.
    pub fn forget(&mut self, node: NodeId, peer: NodeId) {
        let (link, side) = self.pair(node, peer);
        link.told_down[side] = true;
    }

    /// Puts a link up, if nothing is in its way. Its generation, and for each end (lower node first) whether it has
    /// yet to hear that the link before it is gone.
    pub fn establish(&mut self, one: NodeId, other: NodeId, now: u64) -> Option<(u64, [bool; 2])> {
        let (link, _) = self.pair(one, other);
        if link.up || link.cuts != [0, 0] {
            return None;
        }
        link.up = true;
        link.generation += 1;
        link.last_arrival = [0; 2];
        let unheard = link.told_down.map(|told| !told);
        link.told_down = [true; 2];
        let generation = link.generation;
        self.troubles.link(one.0, other.0, now, true);
        Some((generation, unheard))
    }

    /// Whether somebody has to try to put this link up again; if so, that is now the caller.
    pub fn claim_trying(&mut self, one: NodeId, other: NodeId) -> bool {
        let (link, _) = self.pair(one, other);
        !link.up && !std::mem::replace(&mut link.trying, true)
    }

    /// The caller does not try any more.
    pub fn stop_trying(&mut self, one: NodeId, other: NodeId) {
        self.pair(one, other).0.trying = false;
    }

    /// Cuts one direction. `holds`: messages wait for the end of the cut, else they are lost.
    pub fn cut(&mut self, from: NodeId, to: NodeId, holds: bool) {
        let (link, side) = self.pair(from, to);
        link.cuts[side] += 1;
        link.holds = holds;
    }

    /// Whether this direction is cut.
    #[must_use]
    pub fn is_cut(&mut self, from: NodeId, to: NodeId) -> bool {
        let (link, side) = self.pair(from, to);
        link.cuts[side] > 0
    }

    /// Ends one cut of one direction. Answers what was held back and is delivered now, and whether the link has to
    /// break because something was lost on it.
    pub fn mend(&mut self, from: NodeId, to: NodeId) -> (Vec<Bytes>, bool) {
        let (link, side) = self.pair(from, to);
        link.cuts[side] = link.cuts[side].saturating_sub(1);
        if link.cuts[side] > 0 || !link.up {
            return (Vec::new(), false);
        }
        (std::mem::take(&mut link.held[side]), !link.holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::Options;

    fn network(change: impl Fn(&mut Chaos)) -> Network {
        let mut chaos = Chaos::draw(&Options { seed: 1, nodes: Some(3), ..Options::default() });
        (chaos.loss, chaos.duplicate, chaos.reorder) = (0, 0, 0);
        change(&mut chaos);
        Network::new(&chaos, Rng::new(1))
    }

    fn arrivals(network: &mut Network, count: u64) -> Vec<(u64, u8)> {
        let mut all = Vec::new();
        for number in 0..count {
            let payload = Bytes::copy_from_slice(&[number as u8]);
            network.send(NodeId(0), NodeId(1), payload, number * 1000, &mut all);
        }
        let mut all: Vec<(u64, u8)> = all.iter().map(|delivery| (delivery.at, delivery.payload[0])).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn an_undisturbed_link_keeps_the_order() {
        let mut network = network(|_| {});
        assert!(arrivals(&mut network, 10).is_empty(), "it is not up");
        network.establish(NodeId(1), NodeId(0), 0).expect("nothing is in the way");
        let all: Vec<u8> = arrivals(&mut network, 200).into_iter().map(|arrival| arrival.1).collect();
        assert_eq!(all, (0..200).collect::<Vec<u8>>());
    }

    #[test]
    fn messages_are_lost_repeated_and_overtaken() {
        let mut network = network(|chaos| (chaos.loss, chaos.duplicate, chaos.reorder) = (100_000, 100_000, 100_000));
        network.establish(NodeId(0), NodeId(1), 0).expect("nothing is in the way");
        let all: Vec<u8> = arrivals(&mut network, 200).into_iter().map(|arrival| arrival.1).collect();
        let fates = network.fates;
        assert!(fates.lost > 5 && fates.duplicated > 5 && fates.reordered > 5, "{fates:?}");
        assert_eq!(all.len() as u64, 200 - fates.lost + fates.duplicated);
        assert!(!all.is_sorted());
    }

    #[test]
    fn a_cut_holds_or_breaks() {
        for holds in [true, false] {
            let mut network = network(|_| {});
            let (generation, _) = network.establish(NodeId(0), NodeId(1), 0).expect("nothing is in the way");
            network.cut(NodeId(0), NodeId(1), holds);
            assert!(arrivals(&mut network, 5).is_empty());
            let (held, breaks) = network.mend(NodeId(0), NodeId(1));
            assert_eq!((held.len(), breaks), if holds { (5, false) } else { (0, true) });
            assert!(network.is_current(NodeId(1), NodeId(0), generation));
            assert!(network.break_link(NodeId(0), NodeId(1), 0));
            assert!(network.tell_down(NodeId(0), NodeId(1)) && !network.tell_down(NodeId(0), NodeId(1)));
            let (_, unheard) = network.establish(NodeId(0), NodeId(1), 0).expect("it is not up");
            assert_eq!(unheard, [false, true]);
        }
    }
}
