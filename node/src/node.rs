//! The node: its state, and the one function that changes it.
//!
//! Inputs only take note of what happened; the work of a turn is done once, at its end ([`crate::turn`]), for everything that
//! arrived in it.

use std::collections::{BTreeMap, VecDeque};

use base::limits::HASH_SLOTS;
use base::{Ballot, BucketId, NodeId, Now, PartitionId, Position, Rng, Time, WallTime};
use bytes::Bytes;
use paxos::{Input as Step, Replica, RoleName};
use wire::{FrameWriter, RequestLimits};

use crate::detector::Detector;
use crate::door::{Config, ConnectionId, Input, Level, Outbox, Planted, Recovered};
use crate::entry::{Life, Origin};
use crate::image::RestoredState;
use crate::journal::{self, Batch};
use crate::partition::{Partition, Wishes};
use crate::peer::{Forwarded, PartitionNews, PeerMessage, Ping};
use crate::router::Router;
use crate::session::Session;
use crate::stats::Stats;
use crate::transfer::{Received, Transfers};
use crate::{Progress, StartError};

/// How often a node says that it lives.
pub(crate) const PING_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
/// How often timers are looked at.
pub(crate) const TICK_EVERY: std::time::Duration = std::time::Duration::from_millis(10);
/// How long a candidate waits for its majority.
const CANDIDACY: std::time::Duration = std::time::Duration::from_millis(300);
/// How long the preferred node must have been up before leadership moves back to it.
const SETTLE: std::time::Duration = std::time::Duration::from_secs(5);

/// The one partition that there is so far: all hash slots of the default bucket.
pub(crate) const DEFAULT_PARTITION: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };
const _: () = assert!(HASH_SLOTS > 0);

/// A snapshot that is being written to disk.
#[derive(Debug)]
pub(crate) struct Saving {
    pub position: Position,
    /// It came from a peer and becomes the state once it is on disk.
    pub install: Option<Box<RestoredState>>,
}

/// A peer's question for a read position, waiting for confirmation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    /// The leadership that it was put to: rounds are counted anew under each.
    pub ballot: Ballot,
    pub round: u64,
    pub peer: NodeId,
    pub ticket: u64,
    pub position: Position,
}

/// How far a stop has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stopping {
    /// Leadership is being handed over; clients are still served.
    HandingOver {
        until: Time,
    },
    /// No new commands; what was taken is being answered.
    Draining {
        until: Time,
    },
    Stopped,
}

/// A node: plain state, changed only by [`Node::step`].
#[derive(Debug)]
pub struct Node {
    pub(crate) config: Config,
    pub(crate) now: Now,
    /// The life under which writes are numbered is known for certain.
    pub(crate) life_is_settled: bool,
    pub(crate) started: Now,
    pub(crate) partition: Partition,
    pub(crate) router: Router,
    pub(crate) transfers: Transfers,
    pub(crate) detectors: Vec<Detector>,
    /// What the replica was last told of each peer, in the detectors' order.
    pub(crate) told: Vec<(bool, Option<Ballot>)>,
    /// What each member last said of itself.
    pub(crate) news: BTreeMap<NodeId, Ping>,
    pub(crate) sessions: BTreeMap<ConnectionId, Option<Box<Session>>>,
    pub(crate) dirty: Vec<ConnectionId>,
    /// Connections that may go on with their backlog.
    pub(crate) resume: Vec<ConnectionId>,
    /// Connections that are blocked by WAIT.
    pub(crate) waits: Vec<ConnectionId>,
    pub(crate) batch: Batch,
    pub(crate) next_number: u64,
    pub(crate) peers_out: Vec<Vec<u8>>,
    pub(crate) wishes: Wishes,
    pub(crate) queries: VecDeque<Query>,
    /// The highest write number taken from each peer under this leadership.
    pub(crate) taken: Vec<(NodeId, Life, u64)>,
    pub(crate) taken_under: Option<Ballot>,
    pub(crate) saving: Option<Saving>,
    pub(crate) disk_full: bool,
    pub(crate) stopping: Option<Stopping>,
    pub(crate) rng: Rng,
    pub(crate) stats: Stats,
    pub(crate) next_tick: Time,
    pub(crate) next_ping: Time,
    pub(crate) next_expiry: Time,
    pub(crate) next_snapshot: Time,
    pub(crate) next_escape: Time,
    pub(crate) pauses: Vec<(ConnectionId, bool)>,
    pub(crate) to_close: Vec<ConnectionId>,
    pub(crate) probes: BTreeMap<&'static str, u64>,
}

impl Node {
    /// A node that remembers what `recovered` says. The first [`Outbox`] may already hold work.
    ///
    /// # Errors
    /// When the journal or the snapshot holds a format that this version does not know.
    pub fn start(config: Config, recovered: Recovered, now: Now, out: &mut Outbox) -> Result<Node, StartError> {
        let me = config.me;
        let mut rng = Rng::new(config.seed);
        let mut state = match recovered.snapshot {
            Some(snapshot) => Some(snapshot.restored.finish().map_err(StartError)?),
            None => None,
        };
        let covered = state.as_ref().map(|state| (state.position, state.ballot));
        let rebuilt = journal::rebuild(
            DEFAULT_PARTITION,
            &recovered.journal,
            covered,
            recovered.incarnation,
            config.planted == Some(Planted::DamageIsTheEnd),
        )
        .map_err(StartError)?;
        let mut restored = rebuilt.restored;
        if config.planted == Some(Planted::ForgetPromise)
            && let Some(state) = &mut restored.state
        {
            state.promised = Ballot::default();
        }
        if restored.log.hole().is_some_and(|(from, _)| state.as_ref().is_some_and(|state| from <= state.position)) {
            state = None;
        }
        let voters = journal::voters(config.members.len());
        let settings = paxos::Config {
            me,
            preferred: voters[usize::from(DEFAULT_PARTITION.index) % voters.len()],
            voters,
            seed: rng.next_u64(),
            heartbeat: PING_EVERY,
            candidacy: CANDIDACY,
            settle: SETTLE,
            undecided_bytes_max: base::limits::UNDECIDED_BYTES_MAX,
            planted: match config.planted {
                Some(Planted::CountUnsyncedSelf) => Some(paxos::Planted::CountUnsyncedSelf),
                Some(Planted::TruncateDecided) => Some(paxos::Planted::TruncateDecided),
                _ => None,
            },
        };
        let mut outputs = Vec::new();
        let replica = Replica::new(settings, restored, now.time, &mut outputs);
        let boot = recovered.journal.next_number;
        let life = Life { incarnation: replica.hard_state().incarnation, boot };
        let partition =
            Partition::new(DEFAULT_PARTITION, (me, life), replica, state, rebuilt.places, config.planted, outputs);
        let others = (0..config.members.len() as u16).map(NodeId).filter(|id| *id != me);
        let detectors: Vec<Detector> = others.map(|id| Detector::new(id, PING_EVERY)).collect();
        let mut node = Node {
            now,
            life_is_settled: false,
            started: now,
            router: Router::new(life, now.time),
            transfers: Transfers::default(),
            told: vec![(false, None); detectors.len()],
            detectors,
            news: BTreeMap::new(),
            sessions: BTreeMap::new(),
            dirty: Vec::new(),
            resume: Vec::new(),
            waits: Vec::new(),
            batch: Batch::default(),
            next_number: boot,
            peers_out: vec![Vec::new(); config.members.len()],
            wishes: Wishes::default(),
            queries: VecDeque::new(),
            taken: Vec::new(),
            taken_under: None,
            saving: None,
            disk_full: false,
            stopping: None,
            rng,
            stats: Stats::default(),
            next_tick: now.time,
            next_ping: now.time,
            next_expiry: now.time,
            next_snapshot: now.time,
            next_escape: now.time,
            pauses: Vec::new(),
            to_close: Vec::new(),
            probes: BTreeMap::new(),
            partition,
            config,
        };
        if recovered.snapshot_damaged {
            node.event(
                Level::Warning,
                "the newest snapshot is damaged; what it held comes from an older one or from peers",
            );
        }
        if !recovered.journal.damage.is_empty() {
            node.event(Level::Warning, "the journal is damaged in its past; what was lost is repaired from peers");
            node.probe("node: damaged past found at start");
        }
        // The start itself goes to the journal: it gives this life its number.
        node.batch.start();
        node.partition.store_state();
        let mut wishes = std::mem::take(&mut node.wishes);
        node.partition.settle(&mut node.batch, &mut wishes);
        node.wishes = wishes;
        node.end_turn(out);
        Ok(node)
    }

    /// Takes one input. Nothing else changes a node.
    pub fn step(&mut self, now: Now, input: Input<'_>, out: &mut Outbox) {
        // Two clocks that only go forward, whatever the machine's do.
        self.now = Now { time: now.time.max(self.now.time), wall: now.wall };
        match input {
            Input::Opened { connection, address, local_address } => self.on_opened(connection, address, local_address),
            Input::Received { connection, bytes } => self.on_received(connection, bytes),
            Input::Closed { connection } => {
                self.sessions.remove(&connection);
            }
            Input::PeerUp { peer } => self.on_peer_up(peer),
            Input::PeerDown { peer } => self.on_peer_down(peer),
            Input::PeerMessage { peer, bytes } => self.on_peer_message(peer, &bytes),
            Input::Persisted { number } => {
                let time = self.now.time;
                self.partition.on_persisted(time, number, &mut self.batch, &mut self.wishes);
            }
            Input::DiskFull(full) => self.on_disk_full(full),
            Input::SnapshotSaved { position } => self.on_snapshot_saved(position, out),
            Input::SnapshotFailed { position, reason } => self.on_snapshot_failed(position, &reason),
            Input::Stop => self.stop(),
            Input::EndTurn => self.end_turn(out),
        }
    }

    pub(crate) fn event(&mut self, level: Level, text: impl Into<String>) {
        self.wishes.events.push((level, text.into()));
    }

    pub(crate) fn probe(&mut self, name: &'static str) {
        debug_assert!(PROBES.contains(&name), "{name} is not in the list of probes");
        *self.probes.entry(name).or_default() += 1;
    }

    pub(crate) fn step_replica(&mut self, step: Step) {
        let time = self.now.time;
        self.partition.step(time, step, &mut self.batch, &mut self.wishes);
    }

    fn on_opened(&mut self, id: ConnectionId, address: String, local_address: String) {
        let limits = RequestLimits { argument_bytes_max: self.config.value_bytes_max, ..RequestLimits::default() };
        let authenticated = self.config.password.is_none();
        let session = Session::new(id, (address, local_address), limits, authenticated, self.now.time);
        self.stats.connections_received += 1;
        self.sessions.insert(id, Some(Box::new(session)));
    }

    fn on_peer_up(&mut self, peer: NodeId) {
        // Whatever was on its way is lost; what matters is sent again.
        if self.partition.replica.leader().is_some_and(|(leader, _)| leader == peer) {
            self.router.send_again();
            self.router.ask_again(|_, _| true);
        }
        let ping = PeerMessage::Ping(self.ping());
        self.send(peer, &ping);
    }

    fn on_peer_down(&mut self, peer: NodeId) {
        if let Some(detector) = self.detectors.iter_mut().find(|detector| detector.peer == peer) {
            detector.on_cut();
        }
        self.transfers.forget(peer);
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

    fn on_peer_message(&mut self, from: NodeId, bytes: &Bytes) {
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
            PeerMessage::SnapshotBlock { partition, .. } if partition == self.partition.id => {
                self.on_snapshot_block(from, message);
            }
            PeerMessage::SnapshotWant { partition, position, index, done } if partition == self.partition.id => {
                let time = self.now.time;
                if let Some(answer) = self.transfers.on_want(time, partition, from, position, index, done) {
                    self.send(from, &answer);
                }
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

    fn on_snapshot_block(&mut self, from: NodeId, message: PeerMessage) {
        let time = self.now.time;
        let (applied, busy) = (self.partition.applied, self.saving.is_some());
        match self.transfers.on_block(time, from, applied, busy, message) {
            Received::Answer(answer) => self.send(from, &answer),
            Received::Complete(state, answer) => {
                self.probe("node: snapshot received");
                self.saving = Some(Saving { position: state.position, install: Some(state) });
                self.send(from, &answer);
            }
            Received::Broken(text) => {
                let name = self.name_of(from);
                self.event(Level::Error, format!("the snapshot that {name} sends is of no use: {text}"));
            }
            Received::Ignored => {}
        }
    }

    fn on_disk_full(&mut self, full: bool) {
        self.disk_full = full;
        let text = if full {
            "the disk is full: writes wait or are refused until there is room; reads go on"
        } else {
            "the disk has room again"
        };
        self.probe("node: disk full");
        self.event(if full { Level::Error } else { Level::Info }, text);
    }

    pub(crate) fn name_of(&self, node: NodeId) -> String {
        self.config.members.get(usize::from(node.0)).map_or_else(|| node.to_string(), |member| member.name.clone())
    }

    /// Who leads the default partition, as far as this node knows.
    #[must_use]
    pub fn leader(&self) -> Option<(NodeId, Ballot)> {
        self.partition.replica.leader()
    }

    /// How far the default partition's log is decided, applied: for checkers.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let replica = &self.partition.replica;
        Progress {
            decided: replica.decided(),
            persisted: replica.persisted(),
            applied: self.partition.applied,
            first: replica.log().first(),
            votes: replica.role() != RoleName::Recovering,
        }
    }

    /// A digest of the default partition's whole state at [`Progress::applied`]: equal on all replicas.
    #[must_use]
    pub fn state_digest(&self) -> u64 {
        let mut bytes = Vec::new();
        self.partition.origins.encode(&mut bytes);
        self.partition.tree.digest() ^ base::checksum::xxh3(&bytes)
    }

    /// The checksum of the decided entry at `position`, if this node still holds it and knows it decided: for checkers.
    #[must_use]
    pub fn decided_entry_digest(&self, position: Position) -> Option<u64> {
        let replica = &self.partition.replica;
        let entry = replica.log().get(position).filter(|_| position <= replica.decided())?;
        let mut bytes = entry.payload.to_vec();
        bytes.extend_from_slice(&entry.ballot.round.to_le_bytes());
        bytes.extend_from_slice(&entry.ballot.node.0.to_le_bytes());
        Some(base::checksum::xxh3(&bytes))
    }

    /// Rare branches reached since the last call, by name, with how often: for the simulator's coverage table.
    pub fn take_probes(&mut self) -> Vec<(&'static str, u64)> {
        for name in self.partition.replica.take_probes() {
            *self.probes.entry(name).or_default() += 1;
        }
        std::mem::take(&mut self.probes).into_iter().collect()
    }
}

/// A partition in what a node said of itself.
pub(crate) fn news_of(ping: &Ping, partition: PartitionId) -> Option<&PartitionNews> {
    ping.partitions.iter().find(|news| news.partition == partition)
}

pub(crate) fn role_number(role: RoleName) -> u8 {
    match role {
        RoleName::Leader => 1,
        RoleName::Follower => 2,
        RoleName::Candidate => 3,
        RoleName::Recovering => 4,
    }
}

pub(crate) fn role_text(number: u8) -> &'static str {
    match number {
        1 => "leader",
        2 => "follower",
        3 => "candidate",
        4 => "recovering",
        _ => "unknown",
    }
}

/// Rare branches of this crate that the simulator must report as reached.
pub(crate) const NODE_PROBES: &[&str] = &[
    "node: damaged past found at start",
    "node: peer suspected",
    "node: forwarded writes out of order",
    "node: snapshot received",
    "node: snapshot installed",
    "node: snapshot sent",
    "node: snapshot failed",
    "node: disk full",
    "node: write outcome unknown",
    "node: write refused without a leader",
    "node: read refused without a leader",
    "node: read met an expired key",
    "node: key expired by the clock",
    "node: writes sent again",
    "node: reads asked again",
    "node: reply from an installed snapshot",
    "node: stopped in order",
];

const COUNT: usize = NODE_PROBES.len() + paxos::replica::PROBES.len();

/// Every probe that exists, so that the simulator can tell which were never reached.
pub const PROBES: &[&str] = &{
    let mut all = [""; COUNT];
    let mut place = 0;
    while place < NODE_PROBES.len() {
        all[place] = NODE_PROBES[place];
        place += 1;
    }
    while place < COUNT {
        all[place] = paxos::replica::PROBES[place - NODE_PROBES.len()];
        place += 1;
    }
    all
};
