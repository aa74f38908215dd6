//! The node: its state, and the one function that changes it.
//!
//! Inputs only take note of what happened; the work of a turn is done once, at its end ([`crate::turn`]), for everything that
//! arrived in it.

mod peers;

use std::collections::{BTreeMap, VecDeque};

use base::limits::HASH_SLOTS;
use base::ordered::Space;
use base::{Ballot, BucketId, NodeId, Now, PartitionId, Position, Rng, Time};
use paxos::{Input as Step, Replica, RoleName};
use wire::RequestLimits;

use crate::detector::Detector;
use crate::door::{Config, ConnectionId, Input, Level, Outbox, Planted, Recovered};
use crate::entry::Life;
use crate::image::RestoredState;
use crate::journal::{self, Batch};
use crate::partition::{Partition, Wishes};
use crate::peer::{PartitionNews, Ping};
use crate::router::Router;
use crate::session::Session;
use crate::slow::Slow;
use crate::stats::Stats;
use crate::transfer::{Throttle, Transfers};
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
    /// The record that gives this life its number is on disk.
    pub(crate) start_is_on_disk: bool,
    pub(crate) started: Now,
    pub(crate) partition: Partition,
    pub(crate) router: Router,
    pub(crate) transfers: Transfers,
    pub(crate) throttle: Throttle,
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
    pub(crate) slow: Slow,
    pub(crate) next_tick: Time,
    pub(crate) next_ping: Time,
    pub(crate) next_expiry: Time,
    pub(crate) next_snapshot: Time,
    pub(crate) next_escape: Time,
    /// The last attempt to bring the state to disk has failed.
    pub(crate) snapshot_fails: bool,
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
        let stored = match &recovered.store {
            Some(below) => crate::below::recover(below, DEFAULT_PARTITION).map_err(StartError)?,
            None => None,
        };
        let mut state = match (stored, recovered.snapshot) {
            (Some(state), _) => Some(state),
            (None, Some(snapshot)) => Some(snapshot.restored.finish().map_err(StartError)?),
            (None, None) => None,
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
        let mut given_up = Vec::new();
        if config.planted == Some(Planted::ForgetPromise)
            && let Some(state) = &mut restored.state
        {
            state.promised = Ballot::default();
        }
        if restored.log.hole().is_some_and(|(from, _)| state.as_ref().is_some_and(|state| from <= state.position)) {
            given_up = state.take().map(|state| state.tree.spaces()).unwrap_or_default();
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
        let mut partition =
            Partition::new(DEFAULT_PARTITION, (me, life), replica, state, rebuilt.places, config.planted, outputs);
        if let Some(below) = recovered.store {
            partition.put_over(below, given_up);
        }
        let others = (0..config.members.len() as u16).map(NodeId).filter(|id| *id != me);
        let detectors: Vec<Detector> = others.map(|id| Detector::new(id, PING_EVERY)).collect();
        let mut node = Node {
            now,
            life_is_settled: false,
            start_is_on_disk: false,
            started: now,
            router: Router::new(life, now.time),
            transfers: Transfers::new(boot, config.snapshots.held_for),
            throttle: Throttle::new(config.snapshots.bytes_per_second, now.time),
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
            slow: Slow::default(),
            next_tick: now.time,
            next_ping: now.time,
            next_expiry: now.time,
            next_snapshot: now.time,
            next_escape: now.time,
            snapshot_fails: false,
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
                self.slow.on_persisted(number, time, self.now.wall);
                self.start_is_on_disk |= number >= self.router.life.boot;
                self.partition.on_persisted(time, number, &mut self.batch, &mut self.wishes);
            }
            Input::DiskFull(full) => self.on_disk_full(full),
            Input::SnapshotSaved { position } => self.on_snapshot_saved(position, out),
            Input::SnapshotFailed { position, reason } => self.on_snapshot_failed(position, &reason),
            Input::BlockMade(made) => self.on_block_made(*made),
            Input::BlocksTaken(taken) => self.on_blocks_taken(*taken, out),
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
            lost: replica.hard_state().recovering || replica.log().hole().is_some(),
            votes: replica.role() != RoleName::Recovering && replica.is_on_disk(),
        }
    }

    /// The spaces of the store below that this node needs; all others may be dropped before its first turn.
    #[must_use]
    pub fn spaces(&self) -> Vec<Space> {
        let mut spaces = self.partition.tree.spaces();
        spaces.push(crate::below::OWN);
        spaces
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
    "node: snapshot resumed",
    "node: snapshot throttled",
    "node: snapshot given up",
    "node: snapshot overtaken by the log",
    "node: snapshot broken off and begun again",
    "node: sent snapshot begun again",
    "node: reception not written",
    "node: flush repeated",
    "node: store too far behind",
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
