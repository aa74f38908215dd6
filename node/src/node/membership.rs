//! What follows on this node from who comes and goes: links, detectors, replicas' peers. And the end of a node that was removed.

use base::versions::Feature;
use base::{NodeId, PartitionId, Position};
use bytes::Bytes;
use data::Slots;
use paxos::{Input as Step, Replica, RoleName};

use super::{Node, PING_EVERY, place_of};
use crate::bucket::{Bucket, BucketKind};
use crate::council::{COUNCIL, Order};
use crate::detector::Detector;
use crate::door::{Level, Nodes, Planted};
use crate::entry::Kind;
use crate::lives::Claim;
use crate::outcast;
use crate::peer::{PeerMessage, Ping};
use crate::planner::ORDER_AGAIN_AFTER;
use crate::registry::{Change, TrailMark};
use crate::roll::Changes;
use crate::router::Waiter;
use crate::testimony;
use crate::{Placed, Placement};

impl Node {
    /// Takes over who is there by the council's registry. Where the council's replica stands.
    pub(super) fn follow_roll(&mut self) -> Option<usize> {
        let mut changes = self.roll.follow(&self.registry);
        if self.config.planted == Some(Planted::KeysUnheard) {
            changes.keys = false;
        }
        if changes.keys {
            testimony::on_keys(self);
        }
        self.roll_told &= changes == Changes::default();
        self.carry_out_changes(changes);
        place_of(&self.groups, COUNCIL)
    }

    /// Makes room for nodes that have come, and forgets those that went.
    pub(crate) fn carry_out_changes(&mut self, changes: Changes) {
        let bound = self.roll.bound();
        if self.peers_out.len() < bound {
            self.peers_out.resize(bound, Vec::new());
            self.trusted.resize(bound, false);
        }
        self.pubsub.make_room(bound);
        let me = self.config.me;
        for id in changes.came.into_iter().filter(|id| *id != me) {
            self.probe("node: a node has joined");
            self.event(Level::Info, format!("{} has joined the cluster", self.name_of(id)));
            self.detectors.push(Detector::new(id, PING_EVERY));
            self.groups.iter_mut().for_each(|group| group.told.push((false, None, None)));
        }
        let moved = changes.moved;
        for id in moved.iter().copied().filter(|id| *id != me) {
            let address = self.roll.get(id).map_or("", |member| &member.peer_address);
            self.event(Level::Info, format!("{} is reached at {address} now", self.name_of(id)));
        }
        self.warn_of_shared_addresses(&moved);
        for id in changes.went {
            if id == self.config.me {
                outcast::end_as_removed(self);
            } else {
                self.forget(id);
            }
        }
    }

    /// A node was removed: nobody listens to it any more.
    fn forget(&mut self, id: NodeId) {
        let Some(place) = self.detectors.iter().position(|detector| detector.peer == id) else { return };
        self.probe("node: a node was removed");
        self.on_peer_down(id);
        self.detectors.remove(place);
        self.news.remove(&id);
        self.pings.forget_peer(id);
        self.lives.forget(id);
        self.testimony.forget(id);
        let time = self.now.time;
        for group in self.groups.iter_mut() {
            group.told.remove(place);
            let gone = Step::Peer { peer: id, up: false, leads: None, rests: None };
            group.step(time, gone, &mut self.batch);
        }
        if let Some(trusted) = self.trusted.get_mut(usize::from(id.0)) {
            *trusted = false;
        }
        self.event(Level::Info, format!("{id} was removed from the cluster"));
    }

    /// What this node's cluster is called, as far as that concerns itself; 0: it knows none. While it reads the council's log from the beginning, or waits for
    /// what its disk has lost of that, it comes by names that the cluster had before somebody went on alone: under one of these it would be taken for a node that was left behind.
    pub(crate) fn cluster_name(&self) -> u64 {
        let me = self.config.me;
        let founds = usize::from(me.0) < self.config.members.len();
        let is_named =
            founds || self.registry.joined.iter().any(|joined| joined.id == me) || self.registry.removed.contains(&me);
        let council = place_of(&self.groups, COUNCIL).map(|g| &self.groups[g].partition.replica);
        let lacks_some = |replica: &Replica| replica.role() == RoleName::Recovering || replica.log().hole().is_some();
        let is_whole = !council.is_some_and(lacks_some);
        if is_named && is_whole { self.registry.cluster } else { 0 }
    }

    /// Whether a peer is of this cluster, by what it says. Who has lost all memory knows no cluster, and is let in; unless this node may have founded one
    /// alone just now, in the place of one that it has forgotten: that one's nodes are not listened to until it has a name of its own.
    pub(super) fn is_of_this_cluster(&mut self, from: NodeId, theirs: u64) -> bool {
        let own = self.cluster_name();
        let founds_alone = own == 0 && self.config.members.len() == 1 && self.config.me == NodeId(0);
        let fits = !founds_alone && (own == 0 || theirs == 0 || own == theirs);
        let before = self.introduced.insert(from, fits);
        if !fits && self.registry.comes_from(theirs) {
            self.leave_behind(from, theirs, before != Some(false));
        } else if !fits && !founds_alone && before != Some(false) {
            self.probe("node: a node of another cluster refused");
            let text = format!(
                "{} is of another cluster whose nodes have the same names: nothing is taken from it. If its folder was lost, remove that node from the cluster (dictum node remove) and let it join",
                self.name_of(from)
            );
            self.event(Level::Error, text);
        }
        fits
    }

    /// Its memory's name, 0 if it has none that counts, and the highest number that anything in its journal may have: for whoever sets its folder back.
    #[must_use]
    pub fn folder(&self) -> (u64, u64) {
        (self.claim().incarnation, self.next_number)
    }

    /// Up to where the journal of a node is known here to have come in its memory of this name.
    #[must_use]
    pub fn has_heard_of(&self, node: NodeId, memory: u64) -> u64 {
        self.lives.journal_of(node, memory)
    }

    /// What this node says of its folder.
    pub(crate) fn claim(&self) -> Claim {
        let council = place_of(&self.groups, COUNCIL).map(|g| &self.groups[g].partition.replica);
        let council = council.filter(|replica| replica.role() != RoleName::Recovering);
        Claim {
            incarnation: council.map_or(0, |replica| replica.incarnation()),
            process: self.process,
            boot: self.boot,
            journal: self.persisted,
        }
    }

    /// Whether a peer's folder is, as far as anybody knows, all that this node has ever been; and this node's own.
    pub(super) fn has_all_of_its_past(&mut self, from: NodeId, ping: &Ping) -> bool {
        let me = self.config.me;
        testimony::on_lives(self, from, ping);
        let claim = self.claim();
        self.hear_of_own_life(claim.incarnation, self.lives.incarnation_of(me));
        let (own, theirs) = (self.lives.hear(me, claim), self.lives.hear(from, ping.claim));
        if self.config.planted == Some(Planted::EarlierCopyHeard) {
            return true;
        }
        if !own && self.fatal.is_none() {
            self.probe("node: has an earlier copy of its folder");
            let name = self.name_of(me);
            self.fatal = Some(format!(
                "the others have heard of {name} what this folder does not have: it is an earlier copy, put back from a backup or an image, or another process runs with a copy of it. It has forgotten what was promised since, and must not take part. Keep this folder. If no other process runs as {name}, and all other nodes are up and well, start it with an empty folder, but for node.key: it gets everything from the others. Where two nodes have lost what they had, acknowledged writes may be lost for good"
            ));
        }
        if theirs {
            return true;
        }
        if self.introduced.insert(from, false) != Some(false) {
            self.probe("node: a node with an earlier copy of its folder refused");
            let name = self.name_of(from);
            let text = format!(
                "{name} runs with an earlier copy of its folder, or two processes run as {name}: nothing is taken from it, and it is told so"
            );
            self.event(Level::Error, text);
        }
        false
    }

    /// Somebody speaks that is of the cluster `theirs`, which this one has left behind.
    pub(super) fn leave_behind(&mut self, from: NodeId, theirs: u64, is_news: bool) {
        self.make_room_for(from);
        self.send(from, &PeerMessage::LeftBehind { cluster: theirs });
        if is_news {
            let text = format!(
                "{} is of the cluster that this one has left behind (`dictum unsafe-recover`): nothing is taken from it, and it is told so",
                self.name_of(from)
            );
            self.event(Level::Error, text);
        }
    }

    /// Whether a node is one that this cluster has left behind, by its number.
    pub(super) fn leaves_behind(&self, id: NodeId) -> bool {
        self.registry.left_behind(id) && self.config.planted != Some(Planted::LeftBehindHeard)
    }

    /// Somebody is spoken to that is not one of the nodes (any more), and may have a higher number than all of them.
    fn make_room_for(&mut self, id: NodeId) {
        let place = usize::from(id.0);
        if self.peers_out.len() <= place {
            self.peers_out.resize(place + 1, Vec::new());
        }
    }

    /// Somebody speaks that was removed, and does not know it.
    pub(super) fn send_farewell(&mut self, to: NodeId) {
        self.probe("node: a removed node was told so");
        self.make_room_for(to);
        self.send(to, &PeerMessage::Farewell { cluster: self.registry.cluster });
    }

    /// Tells the council in which zone this node is, where its registry says otherwise: the node was started with another label than before. Said again
    /// until it is so.
    pub(crate) fn tell_zone(&mut self) {
        let (me, time) = (self.config.me, self.now.time);
        if self.registry.zone_of(me) == self.config.zone {
            return;
        }
        let waits = self.zone_told.is_some_and(|told| time.since(told) < ORDER_AGAIN_AFTER);
        if !self.is_known() || waits {
            return;
        }
        let Some(g) = place_of(&self.groups, COUNCIL) else { return };
        self.probe("node: told in which zone it is");
        self.zone_told = Some(time);
        let order = Order::Nodes(Change::Zone { node: me, zone: self.config.zone.clone() });
        let deadline = time + self.config.request_timeout;
        self.groups[g].router.write(Kind::Council, Bytes::from(order.encode()), Waiter::Nobody, time, deadline);
    }

    /// Nodes may exchange their addresses, so two may have the same one for a moment. For longer it is a mistake, which only their operator can mend.
    fn warn_of_shared_addresses(&mut self, moved: &[NodeId]) {
        for id in moved {
            let Some(address) = self.roll.get(*id).map(|member| &member.peer_address) else { continue };
            let others = self.roll.iter().filter(|(other, member)| other != id && member.peer_address == *address);
            let names: Vec<String> = others.map(|(other, _)| self.name_of(other)).collect();
            if !names.is_empty() {
                let text = format!(
                    "{} and {} say that they are reached at the same address, {address}: give one of them another --peer-announce",
                    self.name_of(*id),
                    names.join(", ")
                );
                self.event(Level::Warning, text);
            }
        }
    }

    /// Tells the council where this node is reached, where its registry says otherwise and its operator has said so. Said again until it is so.
    pub(crate) fn tell_address(&mut self) {
        let (me, time) = (self.config.me, self.now.time);
        let Some(address) = self.config.announce.clone() else { return };
        let says_nothing = self.config.planted == Some(Planted::AddressUntold);
        if says_nothing || self.registry.address_of(me) == Some(&address) || !self.has(Feature::Addresses) {
            return;
        }
        let waits = self.address_told.is_some_and(|told| time.since(told) < ORDER_AGAIN_AFTER);
        if !self.is_known() || waits {
            return;
        }
        let Some(g) = place_of(&self.groups, COUNCIL) else { return };
        self.probe("node: told at which address it is");
        self.address_told = Some(time);
        let order = Order::Nodes(Change::Address { node: me, address });
        let deadline = time + self.config.request_timeout;
        self.groups[g].router.write(Kind::Council, Bytes::from(order.encode()), Waiter::Nobody, time, deadline);
    }

    /// Whether the registry says who this node is and of which cluster. Until then it is an old one, or of a cluster that is only beginning.
    pub(crate) fn is_known(&self) -> bool {
        let me = self.config.me;
        let is_founder = usize::from(me.0) < self.config.members.len();
        let is_named = is_founder || self.registry.joined.iter().any(|joined| joined.id == me);
        is_named && self.registry.cluster != 0 && !self.is_removed
    }

    /// Of each node that there is: its zone, and whether it may lead and vote wherever it is wanted; as the council's registry has it.
    #[must_use]
    pub fn zones(&self) -> Vec<(NodeId, String, bool)> {
        let of = |id| (id, self.registry.zone_of(id).to_owned(), self.registry.serves(id));
        self.roll.ids().map(of).collect()
    }

    /// Whether a node of that number is in the cluster, or was removed from it, as far as this one knows.
    #[must_use]
    pub fn knows(&self, id: NodeId) -> bool {
        self.roll.get(id).is_some() || self.registry.removed.contains(&id)
    }

    /// Up to where this node follows the council's log.
    #[must_use]
    pub fn council_followed(&self) -> Position {
        self.council_followed
    }

    /// How far audit trails are signed, as the council's registry has it, if the cluster's version has that: for checkers.
    #[must_use]
    pub fn trail_marks(&self) -> Option<Vec<(NodeId, TrailMark)>> {
        self.has(Feature::TrailMarks).then(|| self.registry.trails.all().collect())
    }

    /// What the council says of nodes and votes, as far as this node follows its log: for checkers.
    #[must_use]
    pub fn placement(&self) -> Placement {
        let (founders_all, epoch) = (self.config.members.len(), self.map.epoch);
        let council: Vec<NodeId> = (0..founders_all as u16).map(NodeId).collect();
        let of_council = Placed { partition: COUNCIL, slots: None, seats: self.map.seats(COUNCIL, &council), epoch };
        let of_bucket = |bucket: &Bucket| {
            let placed = |partition: PartitionId| {
                let Slots { first, end } = bucket.slots_of(partition);
                let in_memory = bucket.settings.kind == BucketKind::Ephemeral;
                let epoch = if in_memory { bucket.voting.moves } else { epoch };
                Placed { partition, slots: Some((first, end)), seats: self.seats_of(partition), epoch }
            };
            bucket.partitions().map(placed).collect::<Vec<Placed>>()
        };
        Placement {
            epoch: self.map.epoch,
            partitions: std::iter::once(of_council).chain(self.buckets.list.iter().flat_map(of_bucket)).collect(),
            joined: self.registry.joined.iter().map(|joined| (joined.id, joined.member.name.clone())).collect(),
            removed: self.registry.removed.clone(),
        }
    }

    /// Whether this node was removed from the cluster.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.is_removed
    }

    /// The nodes of the cluster, if the owner has not been told yet.
    pub(crate) fn tell_roll(&mut self) -> Option<Nodes> {
        let told = std::mem::replace(&mut self.roll_told, true);
        let members = || self.roll.iter().map(|(id, member)| (id, member.clone())).collect();
        let (removed, version) = (&self.registry.removed, self.registry.version);
        let keys = || self.registry.keys.all().map(|(id, keys)| (id, keys.to_vec())).collect();
        (!told).then(|| Nodes { members: members(), removed: removed.clone(), version, keys: keys() })
    }
}
