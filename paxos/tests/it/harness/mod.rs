//! A few replicas in one place, with a network and disks that do what a test says, and nothing else.
//!
//! [`World`] holds the replicas and what lies between them. A *turn* gives a replica some inputs and ends with
//! [`Input::Flush`], as a node's turn does; all records of a turn go to the disk as one batch, with the hard state as it
//! is then. After every turn the world checks what must never break (see [`World::check`]).

#![allow(dead_code, reason = "each test file uses a part of it")]

mod checks;
pub mod disk;
pub mod talk;
mod time;
pub mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::limits::UNDECIDED_BYTES_MAX;
use base::{Ballot, NodeId, Position, Time};
use bytes::Bytes;
use paxos::{Answer, Config, Entry, Input, Members, Message, Output, Planted, Replica, RoleName, Roster, Token};

use disk::{Batch, Disk};
use words::{decided_words, message_words, node_name, record_words, role_words};

/// How often a quiet leader speaks, in these tests.
pub const HEARTBEAT: Duration = Duration::from_millis(50);
/// How long a candidate tries, in these tests.
pub const CANDIDACY: Duration = Duration::from_millis(400);
/// How long the preferred replica must have been up before it gets the leadership back, in these tests.
pub const SETTLE: Duration = Duration::from_secs(10);

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Envelope {
    pub from: usize,
    pub to: usize,
    pub message: Message,
}

/// What a failure detector says of a node.
pub type Told = (bool, Option<Ballot>, Option<(Ballot, Position)>);

/// One replica with what surrounds it.
pub struct Node {
    /// None while it is down.
    pub replica: Option<Replica>,
    pub disk: Disk,
    /// Messages that wait for the disk.
    pub held: VecDeque<(Token, usize, Message)>,
    /// Everything up to here is on disk, in this life.
    pub on_disk: Token,
    /// The disk answers at once.
    pub fast: bool,
    /// What the failure detector said last of each node: up, the ballot under which it leads, and how it rests.
    pub told: Vec<Told>,
    /// Which nodes its failure detector believes to be up.
    pub trusts: Vec<bool>,
    /// How often it was started; seeds its generator.
    pub lives: u64,
    /// Rounds of read confirmation that came back.
    pub confirmed: Vec<u64>,
    /// Snapshots that it was asked to send.
    pub owes: BTreeSet<usize>,
    /// What it said that it must not go on.
    pub fatal: Option<String>,
}

/// What is known to be decided, and under which ballot at the latest.
struct Truth {
    entry: Entry,
    by: Ballot,
}

/// Some replicas, what lies between them, and the transcript of what they did.
pub struct World {
    pub now: Time,
    pub nodes: Vec<Node>,
    pub network: VecDeque<Envelope>,
    /// Directed links that lose everything.
    pub cuts: BTreeSet<(usize, usize)>,
    /// What happened, for people.
    pub lines: Vec<String>,
    /// Whether to write `lines`.
    pub talks: bool,
    pub preferred: usize,
    /// How many of the nodes found the group; the others learn.
    pub founders: usize,
    /// What every owner wants.
    pub roster: Roster,
    pub planted: Option<Planted>,
    /// Whether every decided entry must be on a majority's disks: true until a test destroys a disk.
    pub disks_whole: bool,
    pub seed: u64,
    /// The rare branches that were reached.
    pub probes: BTreeSet<&'static str>,
    /// Positions whose entries the owners have replaced.
    pub replaced: BTreeSet<u64>,
    /// Linearizable reads that wait: who was asked under which ballot, the round, the position that the read will see, and
    /// the last position that was decided by anybody when it was asked.
    asked: Vec<(usize, Ballot, u64, u64, u64)>,
    truth: BTreeMap<u64, Truth>,
}

impl World {
    /// A founded group of `count` replicas that all know and trust each other; nobody leads yet.
    pub fn founded(count: usize, seed: u64) -> World {
        World::with_learners(count, 0, seed)
    }

    /// As [`World::founded`], with so many more that have nothing yet, and learn.
    pub fn with_learners(founders: usize, learners: usize, seed: u64) -> World {
        let mut world = World::empty(founders + learners, seed);
        world.founders = founders;
        world.roster.learners = (founders..founders + learners).map(|index| NodeId(index as u16)).collect();
        for (index, node) in world.nodes.iter_mut().enumerate() {
            node.disk = if index < founders { Disk::founded(founders) } else { Disk::of_learner(index) };
        }
        world.start_all();
        world
    }

    /// A group of `count` replicas on empty folders.
    pub fn new(count: usize, seed: u64) -> World {
        let mut world = World::empty(count, seed);
        for (index, node) in world.nodes.iter_mut().enumerate() {
            node.disk = Disk::empty(101 + index as u64 * 101);
        }
        world.start_all();
        world
    }

    fn empty(count: usize, seed: u64) -> World {
        let node = |index: usize| Node {
            replica: None,
            disk: Disk::empty(index as u64),
            held: VecDeque::new(),
            on_disk: Token(0),
            fast: true,
            told: vec![(false, None, None); count],
            trusts: vec![true; count],
            lives: 0,
            confirmed: Vec::new(),
            owes: BTreeSet::new(),
            fatal: None,
        };
        World {
            now: Time(0) + Duration::from_secs(1),
            nodes: (0..count).map(node).collect(),
            network: VecDeque::new(),
            cuts: BTreeSet::new(),
            lines: Vec::new(),
            talks: false,
            preferred: 0,
            founders: count,
            roster: Roster::default(),
            planted: None,
            disks_whole: true,
            seed,
            probes: BTreeSet::new(),
            replaced: BTreeSet::new(),
            asked: Vec::new(),
            truth: BTreeMap::new(),
        }
    }

    fn start_all(&mut self) {
        for index in 0..self.nodes.len() {
            self.start(index);
        }
        for index in 0..self.nodes.len() {
            self.detect(index);
        }
    }

    /// From now on every owner wants these to vote, and all others to learn.
    pub fn want(&mut self, voters: &[usize]) {
        let id = |index: &usize| NodeId(*index as u16);
        self.roster.voters = voters.iter().map(id).collect();
        let learn = (0..self.nodes.len()).filter(|index| !voters.contains(index));
        self.roster.learners = learn.map(|index| id(&index)).collect();
        self.roster.preferred = NodeId(self.preferred as u16);
        for index in 0..self.nodes.len() {
            self.turn(index, vec![Input::Roster(self.roster.clone())]);
        }
    }

    /// Who votes by what is decided up to `position`; none while it is the founders.
    pub fn members_at(&self, position: Position) -> Option<Members> {
        let decided = self.truth.range(..=position.0).rev();
        let mut said = decided.filter(|(_, truth)| Members::is_in(&truth.entry.payload));
        said.next().map(|(at, truth)| Members::decode(Position(*at), &truth.entry.payload).expect("a group"))
    }

    /// The replica at `index`, which must be up.
    pub fn replica(&self, index: usize) -> &Replica {
        self.nodes[index].replica.as_ref().expect("this node is up")
    }

    pub fn is_up(&self, index: usize) -> bool {
        self.nodes[index].replica.is_some()
    }

    /// Who leads, with the highest ballot if several think so.
    pub fn leader(&self) -> Option<usize> {
        let leading = |index: &usize| self.nodes[*index].replica.as_ref().and_then(Replica::leads);
        (0..self.nodes.len()).filter(|index| leading(index).is_some()).max_by_key(leading)
    }

    pub fn say(&mut self, line: String) {
        if self.talks {
            self.lines.push(line);
        }
    }

    /// Starts a replica from what its disk remembers.
    pub fn start(&mut self, index: usize) {
        assert!(!self.is_up(index), "it is up already");
        let count = self.nodes.len();
        let node = &mut self.nodes[index];
        node.lives += 1;
        node.on_disk = Token(0);
        node.told = vec![(false, None, None); count];
        let config = Config {
            me: NodeId(index as u16),
            founders: (0..self.founders as u16).map(NodeId).collect(),
            joins: index >= self.founders,
            preferred: NodeId(self.preferred as u16),
            seed: self.seed.wrapping_mul(1000) + index as u64 * 100 + node.lives,
            heartbeat: HEARTBEAT,
            candidacy: CANDIDACY,
            settle: SETTLE,
            undecided_bytes_max: UNDECIDED_BYTES_MAX,
            asks_to_vote: false,
            stores_founders: false,
            planted: self.planted,
        };
        let mut out = Vec::new();
        let replica = Replica::new(config, node.disk.restore(), self.now, &mut out);
        node.replica = Some(replica);
        self.carry_out(index, None, out);
        if self.roster != Roster::default() {
            self.turn(index, vec![Input::Roster(self.roster.clone())]);
        }
    }

    /// Loses everything that is not on disk.
    pub fn crash(&mut self, index: usize) {
        self.crash_after(index, 0);
    }

    /// Crashes; of the batches on their way to the disk the first `survivors` are found there nevertheless.
    pub fn crash_after(&mut self, index: usize, survivors: usize) {
        let node = &mut self.nodes[index];
        node.replica = None;
        node.held.clear();
        node.owes.clear();
        node.disk.crash(survivors);
    }

    /// One turn: some inputs, then Flush. Then, if its disk is fast, everything it wrote is on disk.
    pub fn turn(&mut self, index: usize, inputs: Vec<Input>) {
        let Some(replica) = &mut self.nodes[index].replica else { return };
        let before = (replica.role(), replica.decided());
        let mut out = Vec::new();
        // Who says that it needs no Tick does nothing when it gets one.
        let rests = inputs == [Input::Tick] && replica.due(self.now).is_none_or(|due| due > self.now);
        let state = |replica: &Replica| (replica.role(), replica.leader(), replica.hard_state(), replica.due(Time(0)));
        let state_before = rests.then(|| state(replica));
        for input in inputs {
            // Nor does who can answer without a step do anything else in one.
            let Input::Message { from, message } = &input else {
                replica.step(self.now, input, &mut out);
                continue;
            };
            let to = *from;
            let promised = match replica.answer(to, message) {
                Answer::NeedsStep => None,
                Answer::Nothing => Some((Vec::new(), state(replica))),
                Answer::With(message) => Some((vec![Output::Send { to, message }], state(replica))),
            };
            let said = out.len();
            replica.step(self.now, input, &mut out);
            if let Some((outputs, state_before)) = promised {
                assert_eq!((&out[said..], state(replica)), (&outputs[..], state_before), "{index} needed the step");
            }
        }
        replica.step(self.now, Input::Flush, &mut out);
        replica.end_turn();
        if let Some(state_before) = state_before {
            assert_eq!((out.len(), state(replica)), (0, state_before), "{index} did not want a Tick");
        }
        for probe in replica.take_probes() {
            self.probes.insert(probe);
            self.say(format!("{}: {}", node_name(index), probe.trim_start_matches("paxos: ")));
        }
        self.carry_out(index, Some(before), out);
        if self.nodes[index].fast {
            self.sync(index);
        }
    }

    /// Everything that was written is on disk now, and the replica hears of it.
    pub fn sync(&mut self, index: usize) {
        let batches = self.nodes[index].disk.pending.len();
        self.sync_some(index, batches);
    }

    /// The first `batches` written batches are on disk now, and the replica hears of it.
    pub fn sync_some(&mut self, index: usize, batches: usize) {
        if let Some(token) = self.nodes[index].disk.sync(batches) {
            if !self.nodes[index].fast {
                self.say(format!("{}'s disk has everything up to #{}", node_name(index), token.0));
            }
            self.nodes[index].on_disk = token;
            let mut released = Vec::new();
            while let Some((wanted, _, _)) = self.nodes[index].held.front() {
                if *wanted > token {
                    break;
                }
                released.extend(self.nodes[index].held.pop_front());
            }
            for (_, to, message) in released {
                self.post(index, to, message);
            }
            self.turn(index, vec![Input::Persisted { token }]);
        }
    }

    fn carry_out(&mut self, index: usize, before: Option<(RoleName, Position)>, out: Vec<Output>) {
        let name = node_name(index);
        let mut batch = Batch::default();
        let mut sends = Vec::new();
        for output in out {
            match output {
                Output::Persist { token, record } => {
                    batch.token = token;
                    batch.records.push(record);
                }
                Output::Send { to, message } => sends.push((Token(0), usize::from(to.0), message)),
                Output::SendAfter { token, to, message } => sends.push((token, usize::from(to.0), message)),
                Output::SendSnapshot { to } => {
                    let to = usize::from(to.0);
                    if self.nodes[index].owes.insert(to) {
                        self.say(format!("{name} finds that {} needs a snapshot", node_name(to)));
                    }
                }
                Output::Confirmed { round } => {
                    self.check_reads(index, round);
                    self.nodes[index].confirmed.push(round);
                    self.say(format!(
                        "{name} has round {round} confirmed: the reads that waited for it may be answered"
                    ));
                }
                Output::Left => {
                    self.say(format!("{name} begins anew, without a log"));
                    let node = &mut self.nodes[index];
                    node.held.clear();
                    (node.disk.snapshot, node.disk.members) = (None, None);
                }
                Output::Repaired => self.say(format!("{name} has its lost entries back")),
                Output::Event(text) => {
                    if !text.contains("ballot") {
                        self.say(format!("{name} {text}"));
                    }
                }
                Output::Fatal(text) => {
                    self.say(format!("{name} MUST NOT GO ON: {text}"));
                    self.nodes[index].fatal = Some(text);
                }
            }
        }
        if !batch.records.is_empty() {
            batch.state = self.replica(index).hard_state();
            let words = record_words(&batch, self.nodes[index].disk.last_state());
            if self.nodes[index].fast {
                self.say(format!("{name} stores {words}"));
            } else {
                self.say(format!("{name} writes #{}, not yet on disk: {words}", batch.token.0));
            }
            self.nodes[index].disk.write(batch);
        }
        for (token, to, message) in sends {
            if token <= self.nodes[index].on_disk {
                self.post(index, to, message);
            } else {
                if !self.nodes[index].fast {
                    let words = message_words(&message);
                    self.say(format!(
                        "{name} keeps back until #{} is on disk: {name}→{} {words}",
                        token.0,
                        node_name(to)
                    ));
                }
                self.nodes[index].held.push_back((token, to, message));
            }
        }
        if let Some((role, decided)) = before {
            let replica = self.replica(index);
            let mut news = Vec::new();
            if replica.role() != role {
                news.push(format!("{name} {}", role_words(replica)));
            }
            if replica.decided() > decided {
                news.push(format!("{name} knows as decided: {}", decided_words(replica, decided)));
            }
            news.into_iter().for_each(|line| self.say(line));
        }
        self.check(index);
    }

    fn post(&mut self, from: usize, to: usize, message: Message) {
        if self.cuts.contains(&(from, to)) {
            let words = message_words(&message);
            return self.say(format!("lost: {}→{} {words}", node_name(from), node_name(to)));
        }
        self.network.push_back(Envelope { from, to, message });
    }

    /// Brings one message to its receiver, in a turn of its own.
    pub fn deliver(&mut self, envelope: Envelope) {
        let Envelope { from, to, message } = envelope;
        let words = message_words(&message);
        let gone = if self.is_up(to) { "" } else { " (nobody is there)" };
        self.say(format!("{}→{} {words}{gone}", node_name(from), node_name(to)));
        let start = self.lines.len();
        self.turn(to, vec![Input::Message { from: NodeId(from as u16), message }]);
        for line in &mut self.lines[start..] {
            line.insert_str(0, "  ");
        }
    }

    /// Delivers until nothing is on its way.
    pub fn deliver_all(&mut self) {
        let mut count = 0;
        while let Some(envelope) = self.network.pop_front() {
            self.deliver(envelope);
            count += 1;
            assert!(count < 10_000, "the replicas never stop talking");
        }
    }

    pub fn propose(&mut self, index: usize, payload: &str) {
        self.turn(index, vec![Input::Propose { payload: Bytes::from(payload.to_owned()) }]);
    }

    /// The owner replaces an entry; whether the replica lets it.
    pub fn replace(&mut self, index: usize, position: u64, payload: &'static str) -> bool {
        let Some(replica) = &mut self.nodes[index].replica else { return false };
        let mut out = Vec::new();
        let payload = Bytes::from_static(payload.as_bytes());
        let is_done = replica.replace(Position(position), payload, &mut out).is_some();
        self.replaced.extend(is_done.then_some(position));
        self.carry_out(index, None, out);
        is_done
    }

    /// Both deem each other down (or up again).
    pub fn trust(&mut self, a: usize, b: usize, up: bool) {
        self.nodes[a].trusts[b] = up;
        self.nodes[b].trusts[a] = up;
        self.detect(a);
        self.detect(b);
    }

    /// The payloads that a replica knows as decided; empty ones (openings) are left out.
    pub fn decided_payloads(&self, index: usize) -> Vec<String> {
        let replica = self.replica(index);
        let positions = replica.log().first().0..=replica.decided().0;
        let entries = positions.filter_map(|position| replica.log().get(Position(position)));
        entries
            .filter(|it| !it.payload.is_empty() && !Members::is_in(&it.payload))
            .map(|it| String::from_utf8_lossy(&it.payload).into_owned())
            .collect()
    }
}
