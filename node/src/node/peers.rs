//! What peers say, and what a node says of itself.

use base::{NodeId, Position, WallTime};
use bytes::Bytes;
use paxos::Input as Step;
use wire::FrameWriter;

use super::{Node, Query, news_of, role_number};
use crate::door::Level;
use crate::entry::{Life, Origin};
use crate::peer::{Forwarded, PartitionNews, PeerMessage, Ping};

impl Node {
    pub(super) fn on_peer_up(&mut self, peer: NodeId) {
        // Whatever was on its way is lost; what matters is sent again.
        if self.partition.replica.leader().is_some_and(|(leader, _)| leader == peer) {
            self.router.send_again();
            self.router.ask_again(|_, _| true);
        }
        let ping = PeerMessage::Ping(self.ping());
        self.send(peer, &ping);
    }

    pub(super) fn on_peer_down(&mut self, peer: NodeId) {
        if let Some(detector) = self.detectors.iter_mut().find(|detector| detector.peer == peer) {
            detector.on_cut();
        }
        self.transfers.on_cut(peer);
        if let Some(out) = self.peers_out.get_mut(usize::from(peer.0)) {
            out.clear();
        }
        self.tell_replica();
    }

    /// Tells the replica what has changed in what the detectors think.
    pub(crate) fn tell_replica(&mut self) {
        let time = self.now.time;
        for place in 0..self.detectors.len() {
            let detector = &self.detectors[place];
            let peer = detector.peer;
            let up = detector.is_up(time);
            let leads =
                self.news.get(&peer).and_then(|ping| news_of(ping, self.partition.id)).and_then(|news| news.leads);
            if self.told[place] != (up, leads) {
                if self.told[place].0 && !up {
                    self.probe("node: peer suspected");
                }
                self.told[place] = (up, leads);
                self.step_replica(Step::Peer { peer, up, leads });
            }
        }
    }

    pub(crate) fn send(&mut self, to: NodeId, message: &PeerMessage) {
        let Some(out) = self.peers_out.get_mut(usize::from(to.0)) else { return };
        if let Err(error) = FrameWriter::append(out, |payload| message.encode(payload)) {
            // Limits are such that nothing this node makes is too large for a frame.
            self.wishes.fatal = Some(format!("a message to a peer cannot be sent: {error}"));
        }
    }

    pub(super) fn on_peer_message(&mut self, from: NodeId, bytes: &Bytes) {
        self.stats.peer_messages_in += 1;
        let message = match PeerMessage::decode(bytes) {
            Ok(message) => message,
            Err(_) => {
                let name = self.name_of(from);
                return self.event(Level::Error, format!("{name} sent a message that makes no sense; it is ignored"));
            }
        };
        match message {
            PeerMessage::Ping(ping) => self.on_ping(from, ping),
            PeerMessage::Paxos { partition, message } if partition == self.partition.id => {
                self.step_replica(Step::Message { from, message });
            }
            PeerMessage::Forward { partition, life, floor, writes } if partition == self.partition.id => {
                self.on_forward(from, life, floor, writes);
            }
            PeerMessage::ReadIndex { partition, ticket } if partition == self.partition.id => {
                self.on_read_index(from, ticket);
            }
            PeerMessage::ReadIndexReply { partition, ticket, position, clock, .. }
                if partition == self.partition.id =>
            {
                self.on_read_index_reply(ticket, position, clock);
            }
            PeerMessage::SnapshotOffer { partition, transfer, position, ballot } if partition == self.partition.id => {
                self.on_snapshot_offer((from, transfer), (position, ballot));
            }
            PeerMessage::SnapshotBlock { partition, transfer, index, ending, block }
                if partition == self.partition.id =>
            {
                let time = self.now.time;
                let want = self.transfers.on_block(time, partition, (from, transfer), index, ending, block);
                if let Some(want) = want {
                    self.send(from, &want);
                }
            }
            PeerMessage::SnapshotWant { partition, transfer, index, wish } if partition == self.partition.id => {
                self.transfers.on_want(self.now.time, from, transfer, index, wish);
            }
            // Of a partition that this node does not have.
            _ => {}
        }
    }

    fn on_ping(&mut self, from: NodeId, ping: Ping) {
        let hears_me = ping.hears & (1 << self.config.me.0) != 0;
        let time = self.now.time;
        if let Some(detector) = self.detectors.iter_mut().find(|detector| detector.peer == from) {
            detector.on_heard(time, hears_me);
        }
        self.news.insert(from, ping);
        self.tell_replica();
    }

    /// What this node says of itself.
    pub(crate) fn ping(&self) -> Ping {
        let time = self.now.time;
        let hears = self.detectors.iter().filter(|detector| detector.hears(time));
        let replica = &self.partition.replica;
        Ping {
            hears: hears.fold(1 << self.config.me.0, |bits, detector| bits | 1 << detector.peer.0),
            disk_full: self.disk_full,
            resp_address: self.config.resp_address.clone(),
            http_address: self.config.http_address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            partitions: vec![PartitionNews {
                partition: self.partition.id,
                role: role_number(replica.role()),
                promised: replica.promised(),
                leads: replica.leads(),
                decided: replica.decided(),
                persisted: replica.persisted(),
                applied: self.partition.applied,
                copies: replica.copies(),
                refuses: !replica.can_propose(),
            }],
        }
    }

    /// Writes of another node, for this one as the leader. Whatever is not taken now is sent again by its owner.
    fn on_forward(&mut self, from: NodeId, life: Life, floor: u64, writes: Vec<Forwarded>) {
        let Some(ballot) = self.partition.replica.leads() else { return };
        if self.taken_under != Some(ballot) {
            self.taken_under = Some(ballot);
            self.taken.clear();
        }
        let applied = self.partition.origins.last(from, life);
        let place = match self.taken.iter().position(|(node, _, _)| *node == from) {
            Some(place) => place,
            None => {
                self.taken.push((from, life, applied));
                self.taken.len() - 1
            }
        };
        if self.taken[place].1 < life {
            self.taken[place] = (from, life, applied);
        }
        if self.taken[place].1 != life || self.disk_full {
            return;
        }
        let (time, clock) = (self.now.time, self.now.wall);
        for write in writes {
            let taken = self.taken[place].2;
            if write.sequence <= taken {
                continue;
            }
            if write.sequence > taken.max(floor.saturating_sub(1)).saturating_add(1) {
                self.probe("node: forwarded writes out of order");
                return;
            }
            let origin = Origin { node: from, life, sequence: write.sequence, floor };
            let seed = self.rng.next_u64();
            if !self.partition.propose(time, clock, seed, write.kind, origin, &write.body) {
                return;
            }
            self.taken[place].2 = write.sequence;
        }
    }

    fn on_read_index(&mut self, peer: NodeId, ticket: u64) {
        let replica = &mut self.partition.replica;
        let (Some(ballot), Some(opening), decided) = (replica.leads(), replica.opening(), replica.decided()) else {
            return;
        };
        let Some(round) = replica.request_confirmation() else { return };
        self.queries.push_back(Query { ballot, round, peer, ticket, position: decided.max(opening) });
    }

    fn on_read_index_reply(&mut self, ticket: u64, position: Position, clock: WallTime) {
        let router = &mut self.router;
        let place = router.asked.iter().position(
            |(asked, _, _)| matches!(asked, crate::router::Asked::Ticket { ticket: wanted, .. } if *wanted == ticket),
        );
        if let Some((_, _, batch)) = place.and_then(|place| router.asked.remove(place)) {
            router.ready.push_back((position, clock, batch));
        }
    }
}
