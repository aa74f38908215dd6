//! Nodes on a network and disks without faults, driven by hand through their one door. Every test file uses its part.
#![allow(dead_code, reason = "each test file uses its part of this")]

mod errands;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::versions::NEWEST;
use base::{NodeId, Now, PartitionId, Position, Time, WallTime};
use bytes::Bytes;
use node::{
    Argon2Cost, AuditEvent, BlockJob, Config, ConnectionId, FullSync, Input, LinkTerms, Listener, Member, Node, Outbox,
    PasswordWork, PlainSigner, ReceiveJob, Recovered, SubscriptionSettings, Voters,
};

pub use errands::Talk;

/// The client that every node has from the start.
pub const CLIENT: ConnectionId = ConnectionId(1);

/// Those who found a cluster.
pub fn founders(count: usize) -> Vec<Member> {
    (1..=count).map(|i| Member { name: format!("n{i}"), peer_address: format!("127.0.0.1:900{i}") }).collect()
}

pub fn config(count: usize, me: u16) -> Config {
    Config {
        newest: NEWEST,
        members: founders(count),
        joined: Vec::new(),
        me: NodeId(me),
        zone: String::new(),
        announce: None,
        key: None,
        signer: None,
        secret: 7,
        resp_address: format!("127.0.0.1:700{}", me + 1),
        http_address: String::new(),
        cluster_address: format!("127.0.0.1:710{}", me + 1),
        cluster_bucket: "default".to_owned(),
        databases: base::limits::DATABASES_DEFAULT,
        process: node::ProcessFigures::default,
        process_id: 1,
        value_bytes_max: 1024 * 1024,
        clients_max: 10_000,
        clients_room: 20_000,
        clients_bytes_max: 0,
        memory_bytes: 0,
        io_threads: 1,
        trail_told_every: Duration::from_secs(60),
        request_timeout: Duration::from_secs(5),
        hashes_passwords: false,
        password_cost: Argon2Cost::LEAST,
        password: None,
        protected_mode: true,
        log_bytes_per_snapshot: u64::MAX,
        snapshots: node::SnapshotSettings::default(),
        large_writes: node::LargeWriteSettings::default(),
        turn_work_max: base::limits::TURN_WORK_MAX,
        subscriptions: SubscriptionSettings::default(),
        compared_every: Duration::ZERO,
        log_entries_kept: 1000,
        log_trim: node::LogTrimSettings::default(),
        log_bytes_held: base::limits::LOG_BYTES_HELD,
        hot_entries_per_second: u64::MAX,
        cache_policy: "lru",
        seed: u64::from(me) + 1,
        step_over: Vec::new(),
        applying: std::sync::Arc::default(),
        planted: None,
    }
}

/// Gives a node a key of its own, always the same one.
fn give_key(config: &mut Config) {
    let key = [config.me.0 as u8 + 1; 32];
    config.key = Some(key);
    config.signer = Some(Arc::new(PlainSigner(key)));
}

pub fn blank(incarnation: u64) -> Recovered {
    let journal = storage::Recovered {
        payloads: Vec::new(),
        damage: Vec::new(),
        tail: storage::Tail::Clean,
        next_number: 1,
        floor: 1,
        fresh: true,
    };
    Recovered { incarnation, journal, snapshots: Vec::new(), snapshot_damaged: false, store: None }
}

/// All nodes, and what was said to the client of each.
pub struct Cluster {
    pub nodes: Vec<Node>,
    pub now: Now,
    /// What made a node refuse to go on, and whether that is allowed.
    pub fatal: Option<String>,
    pub may_end: bool,
    /// The most bytes of replies that a connection was given in one turn.
    pub largest: usize,
    /// The most that all connections of a node were given in one turn.
    pub largest_turn: usize,
    heard: Vec<BTreeMap<ConnectionId, Vec<u8>>>,
    /// How many of the nodes have joined.
    joined_count: usize,
    /// Connections that a node has closed; those that it has cut off; those that are not to be read from.
    pub closed: Vec<(u16, ConnectionId)>,
    pub thrown: Vec<(u16, ConnectionId)>,
    pub paused: Vec<(u16, ConnectionId)>,
    /// Snapshots that a node wants on disk.
    snapshots: Vec<(u16, PartitionId, Position, Time)>,
    /// A node for whom that takes so long.
    pub slow_saver: Option<(u16, Duration)>,
    /// When each node wants its next turn.
    pub wake_at: BTreeMap<u16, Time>,
    /// How many clients the owner of each node may let in, if it was told since the start.
    pub clients_max: BTreeMap<u16, usize>,
    /// Whether the owner of each node is to refuse clients of other machines, if it was told since the start.
    pub protected: BTreeMap<u16, bool>,
    /// Blocks of snapshots that nodes want to be made, or taken.
    makes: Vec<(u16, BlockJob)>,
    takes: Vec<(u16, ReceiveJob)>,
    pub mail: Vec<(NodeId, NodeId, Bytes)>,
    /// How long each message takes, and those on their way with when they arrive.
    pub delay: Duration,
    travelling: Vec<(Time, (NodeId, NodeId, Bytes))>,
    persisted: BTreeMap<u16, u64>,
    /// The last number that a node has heard to be on its disk.
    on_disk: BTreeMap<u16, u64>,
    /// All that was ever given to each journal.
    journals: BTreeMap<u16, Vec<(u64, Bytes)>>,
    /// Nodes whose messages are lost, and those to them.
    pub isolated: Vec<u16>,
    /// Pairs of nodes that do not hear each other.
    pub cut: Vec<(u16, u16)>,
    /// Nodes whose disks do nothing for now.
    pub stalled: Vec<u16>,
    /// Nodes that get nothing and do nothing for now; what is sent to them waits.
    pub standing_still: Vec<u16>,
    /// Nodes that stood still since these moments because their loops were at work: their owners say so first in the next pass.
    pub back_from_work: Vec<(u16, Time)>,
    /// Conversations that are held for nodes.
    pub errands: Vec<Talk>,
    errands_begun: u64,
    /// Passwords that are to be tried, and how many were. They are tried in the next pass, unless they are held up.
    pub password_work: Vec<(u16, u64, PasswordWork)>,
    pub passwords_tried: usize,
    pub holds_passwords_up: bool,
    /// Clients that are to be sent all keys.
    pub full_syncs: Vec<FullSync>,
    /// What nodes have told for their audit trails.
    pub audited: Vec<(u16, AuditEvent)>,
    /// Nodes whose processes have ended as they should.
    pub stopped: Vec<u16>,
    /// A node from and to which messages take so long.
    pub distant: Option<(u16, Duration)>,
    /// Such messages, with when they arrive.
    under_way: Vec<(Time, NodeId, NodeId, Bytes)>,
    /// What nodes speak at the most, where that is not what this build does.
    pub newest: BTreeMap<u16, u16>,
    /// By how many milliseconds the wall clock of a node is wrong.
    pub clocks_off: BTreeMap<u16, i64>,
    /// What each node is to step over when it starts again.
    pub step_over: BTreeMap<u16, Vec<(PartitionId, Position)>>,
    /// Each node has a key, and signs with it.
    pub is_keyed: bool,
}

impl Cluster {
    /// Who votes in a partition, as one of the nodes knows, or as its leader does where that one has nothing of it.
    pub fn voters(&self, asked: u16, partition: PartitionId) -> Option<Voters> {
        let asked = &self.nodes[usize::from(asked)];
        let by_leader = || {
            let (leader, _) = asked.leader(partition)?;
            self.nodes[usize::from(leader.0)].voters(partition)
        };
        asked.voters(partition).or_else(by_leader)
    }

    pub fn new(count: usize) -> Cluster {
        Cluster::with(count, |_| ())
    }

    /// A cluster whose nodes have keys, and sign with them.
    pub fn keyed(count: usize) -> Cluster {
        Cluster { is_keyed: true, ..Cluster::with(count, give_key) }
    }

    /// A cluster whose configuration is changed before the start.
    pub fn with(count: usize, change: impl Fn(&mut Config)) -> Cluster {
        let now = Now { time: Time(0), wall: WallTime(1_700_000_000_000) };
        let mut cluster = Cluster {
            nodes: Vec::new(),
            now,
            fatal: None,
            may_end: false,
            largest: 0,
            largest_turn: 0,
            heard: vec![BTreeMap::new(); count],
            joined_count: 0,
            closed: Vec::new(),
            thrown: Vec::new(),
            paused: Vec::new(),
            snapshots: Vec::new(),
            slow_saver: None,
            wake_at: BTreeMap::new(),
            clients_max: BTreeMap::new(),
            protected: BTreeMap::new(),
            makes: Vec::new(),
            takes: Vec::new(),
            mail: Vec::new(),
            delay: Duration::ZERO,
            travelling: Vec::new(),
            persisted: BTreeMap::new(),
            on_disk: BTreeMap::new(),
            journals: BTreeMap::new(),
            isolated: Vec::new(),
            cut: Vec::new(),
            stalled: Vec::new(),
            standing_still: Vec::new(),
            back_from_work: Vec::new(),
            errands: Vec::new(),
            password_work: Vec::new(),
            passwords_tried: 0,
            holds_passwords_up: false,
            full_syncs: Vec::new(),
            audited: Vec::new(),
            errands_begun: 0,
            stopped: Vec::new(),
            distant: None,
            under_way: Vec::new(),
            newest: BTreeMap::new(),
            clocks_off: BTreeMap::new(),
            step_over: BTreeMap::new(),
            is_keyed: false,
        };
        for me in 0..count as u16 {
            let mut out = Outbox::default();
            let mut config = config(count, me);
            change(&mut config);
            cluster.newest.insert(me, config.newest);
            let node = Node::start(config, blank(100 + u64::from(me)), now, &mut out).unwrap();
            cluster.nodes.push(node);
            cluster.carry_out(me, out);
        }
        for me in 0..count as u16 {
            for peer in (0..count as u16).filter(|peer| *peer != me) {
                cluster.give_link(me, peer);
            }
            cluster.open(me, CLIENT);
        }
        cluster
    }

    /// A node joins, as node `asked` lets it: its number.
    pub fn join(&mut self, asked: u16) -> u16 {
        self.join_in("", asked)
    }

    /// The same for a node in a zone.
    pub fn join_in(&mut self, zone: &str, asked: u16) -> u16 {
        let founders = self.nodes.len() - self.joined_count;
        let token = self.ask(asked, "DICTUM.NODE TOKEN");
        let number = self.nodes.len() + 1;
        let address = format!("127.0.0.1:{}", 9000 + number);
        let line = format!("DICTUM.NODE JOIN {} n{number} {address} {number} \"{zone}\" {NEWEST}", bulk(&token));
        let welcome = self.ask(asked, &line);
        let me = self.nodes.len() as u16;
        assert!(welcome.starts_with(&format!("*6\r\n$2\r\nid\r\n:{me}\r\n")), "{welcome}");
        let mut config = config(founders, me);
        let member = Member { name: format!("n{number}"), peer_address: address };
        config.joined = vec![(NodeId(me), member)];
        config.zone = zone.to_owned();
        self.joined_count += 1;
        let mut out = Outbox::default();
        self.nodes.push(Node::start(config, blank(100 + u64::from(me)), self.now, &mut out).unwrap());
        self.heard.push(BTreeMap::new());
        self.carry_out(me, out);
        for peer in 0..me {
            self.give_link(me, peer);
            self.give_link(peer, me);
        }
        self.open(me, CLIENT);
        me
    }

    /// Nodes up to this number are nobody, so that the next one that joins gets it.
    pub fn skip_to(&mut self, next: u16) {
        let founders = self.nodes.len() - self.joined_count;
        for me in self.nodes.len() as u16..next {
            let mut config = config(founders, me);
            config.joined =
                vec![(NodeId(me), Member { name: format!("nobody{me}"), peer_address: format!("nowhere:{}", 1 + me) })];
            let mut out = Outbox::default();
            self.nodes.push(Node::start(config, blank(100 + u64::from(me)), self.now, &mut out).unwrap());
            self.heard.push(BTreeMap::new());
            self.joined_count += 1;
            self.isolated.push(me);
            self.standing_still.push(me);
        }
    }

    /// What a node speaks at the most.
    pub fn newest_of(&self, node: u16) -> u16 {
        self.newest.get(&node).copied().unwrap_or(NEWEST)
    }

    /// Tells a node that its link to a peer works.
    fn give_link(&mut self, node: u16, peer: u16) {
        let newest = self.newest_of(peer);
        let terms = LinkTerms { spoken: newest.min(self.newest_of(node)), newest, is_secured: false };
        self.give(node, Input::PeerUp { peer: NodeId(peer), terms });
    }

    /// What a node's journal holds.
    pub fn journal(&self, me: u16) -> storage::Recovered {
        let payloads = self.journals.get(&me).cloned().unwrap_or_default();
        let next_number = payloads.last().map_or(1, |(number, _)| number + 1);
        let tail = storage::Tail::Clean;
        storage::Recovered { payloads, damage: Vec::new(), tail, next_number, floor: 1, fresh: false }
    }

    /// What of it is on the disk of a node that stalls.
    pub fn journal_on_disk(&self, me: u16) -> storage::Recovered {
        let mut journal = self.journal(me);
        let on_disk = self.on_disk.get(&me).copied().unwrap_or(0);
        journal.payloads.retain(|(number, _)| *number <= on_disk);
        journal.next_number = journal.payloads.last().map_or(1, |(number, _)| number + 1);
        journal
    }

    /// A node's process is killed, and started again with this journal, and nothing else.
    pub fn restart(&mut self, me: u16, journal: storage::Recovered) {
        self.restart_in(me, Recovered { journal, ..blank(100 + u64::from(me)) });
    }

    /// The same with another folder.
    pub fn restart_in(&mut self, me: u16, recovered: Recovered) {
        let journal = &recovered.journal;
        self.journals.insert(me, journal.payloads.clone());
        self.persisted.remove(&me);
        self.heard[usize::from(me)].clear();
        let founders = self.nodes.len() - self.joined_count;
        let mut out = Outbox::default();
        let mut config = config(founders, me);
        config.newest = self.newest_of(me);
        if self.is_keyed {
            give_key(&mut config);
        }
        config.step_over = self.step_over.get(&me).cloned().unwrap_or_default();
        // Another process than before.
        config.seed += self.now.time.0;
        if usize::from(me) >= founders {
            let peer_address = format!("127.0.0.1:{}", 9001 + me);
            config.joined = vec![(NodeId(me), Member { name: format!("n{}", me + 1), peer_address })];
        }
        self.nodes[usize::from(me)] = Node::start(config, recovered, self.now_of(me), &mut out).unwrap();
        self.carry_out(me, out);
        for peer in (0..self.nodes.len() as u16).filter(|peer| *peer != me) {
            self.give(peer, Input::PeerDown { peer: NodeId(me) });
            self.give_link(peer, me);
            self.give_link(me, peer);
        }
        self.open(me, CLIENT);
    }

    /// A client connects to node `me`, from a port that tells its number.
    pub fn open(&mut self, me: u16, connection: ConnectionId) {
        self.open_at(me, connection, Listener::Forwards);
    }

    /// The same at another listener.
    pub fn open_at(&mut self, me: u16, connection: ConnectionId, listener: Listener) {
        let (address, local_address) =
            (format!("127.0.0.1:{}", 50_000 + connection.0), format!("127.0.0.1:700{}", me + 1));
        self.give(me, Input::Opened { connection, address, local_address, listener });
    }

    fn carry_out(&mut self, me: u16, out: Outbox) {
        self.fatal = self.fatal.take().or(out.fatal.clone());
        self.wake_at.extend(out.wake_at.map(|at| (me, at)));
        self.clients_max.extend(out.clients_max.map(|most| (me, most)));
        self.protected.extend(out.refuses_other_machines.map(|refuses| (me, refuses)));
        assert!(self.may_end || out.fatal.is_none(), "node {me}: {:?}", out.fatal);
        for (to, bytes) in out.peers {
            let way = self.distant.filter(|(node, _)| [me, to.0].contains(node)).map(|(_, way)| way);
            for frame in wire::split_frames(&bytes) {
                let frame = Bytes::copy_from_slice(frame.unwrap());
                match way {
                    Some(way) => self.under_way.push((self.now.time + way, NodeId(me), to, frame)),
                    None => self.mail.push((NodeId(me), to, frame)),
                }
            }
        }
        self.largest_turn = self.largest_turn.max(out.clients.iter().map(|(_, bytes)| bytes.len()).sum());
        for (connection, bytes) in out.clients {
            self.largest = self.largest.max(bytes.len());
            self.heard[usize::from(me)].entry(connection).or_default().extend_from_slice(&bytes);
        }
        for (connection, paused) in out.pause {
            self.paused.retain(|it| *it != (me, connection));
            self.paused.extend(paused.then_some((me, connection)));
        }
        let cut = out.limits.iter().filter(|(_, limit)| limit.is_some_and(|limit| limit.hard_bytes == 1));
        self.thrown.extend(cut.map(|(connection, _)| (me, *connection)));
        for connection in out.close {
            self.closed.push((me, connection));
            self.give(me, Input::Closed { connection });
        }
        let takes = self.slow_saver.filter(|(node, _)| *node == me).map_or(Duration::ZERO, |(_, takes)| takes);
        let saved_at = self.now.time + takes;
        self.snapshots.extend(out.save_snapshot.map(|job| (me, job.partition, job.position, saved_at)));
        self.makes.extend(out.make_blocks.into_iter().map(|job| (me, job)));
        self.takes.extend(out.take_blocks.into_iter().map(|job| (me, job)));
        for errand in out.errands {
            self.begin_errand(me, errand);
        }
        self.password_work.extend(out.password_work.into_iter().map(|(number, work)| (me, number, work)));
        self.full_syncs.extend(out.full_syncs);
        self.audited.extend(out.audit.into_iter().map(|record| (me, record.event)));
        if let Some(last) = out.journal.last() {
            self.persisted.insert(me, last.number);
        }
        let written = out.journal.into_iter().map(|write| (write.number, write.payload));
        self.journals.entry(me).or_default().extend(written);
        if out.stopped && !self.stopped.contains(&me) {
            self.stopped.push(me);
            self.standing_still.push(me);
        }
    }

    /// What a node's clocks show.
    pub fn now_of(&self, me: u16) -> Now {
        let off = self.clocks_off.get(&me).copied().unwrap_or_default();
        Now { time: self.now.time, wall: WallTime(self.now.wall.0.saturating_add_signed(off)) }
    }

    pub fn give(&mut self, me: u16, input: Input<'_>) {
        let (mut out, now) = (Outbox::default(), self.now_of(me));
        let ends = matches!(input, Input::EndTurn);
        self.nodes[usize::from(me)].step(now, input, &mut out);
        if ends {
            // That was a turn of its own: what each answers is counted.
            self.carry_out(me, std::mem::take(&mut out));
        }
        self.nodes[usize::from(me)].step(now, Input::EndTurn, &mut out);
        self.carry_out(me, out);
    }

    /// How many payloads a node's journal was ever given.
    pub fn journal_len(&self, node: u16) -> usize {
        self.journals.get(&node).map_or(0, Vec::len)
    }

    /// Five milliseconds pass, in which everything that was sent arrives and everything stored is on disk.
    pub fn pass(&mut self) {
        self.now.time = self.now.time + Duration::from_millis(5);
        self.now.wall = WallTime(self.now.wall.0 + 5);
        let mut kept = Vec::new();
        let now = self.now.time;
        let (arrived, under_way) = std::mem::take(&mut self.under_way).into_iter().partition(|(at, ..)| *at <= now);
        self.under_way = under_way;
        self.mail.extend(Vec::into_iter(arrived).map(|(_, from, to, bytes)| (from, to, bytes)));
        self.hold_errands();
        if !self.holds_passwords_up {
            self.try_passwords();
        }
        for (me, from) in std::mem::take(&mut self.back_from_work) {
            self.give(me, Input::Worked { from, until: now, processor: now.since(from) });
        }
        for _ in 0..20 {
            for (me, number) in std::mem::take(&mut self.persisted) {
                if self.stalled.contains(&me) || self.standing_still.contains(&me) {
                    self.persisted.entry(me).or_insert(number);
                } else {
                    self.on_disk.insert(me, number);
                    self.give(me, Input::Persisted { number });
                }
            }
            let (saved, saving) = self.snapshots.drain(..).partition(|(.., at)| *at <= self.now.time);
            self.snapshots = saving;
            for (me, partition, position, _) in saved {
                self.give(me, Input::SnapshotSaved { partition, position });
            }
            for (me, job) in std::mem::take(&mut self.makes) {
                self.give(me, Input::BlockMade(Box::new(job.make())));
            }
            for (me, mut job) in std::mem::take(&mut self.takes) {
                assert!(!job.step(None), "states are in memory here: there is only decoding");
                self.give(me, Input::BlocksTaken(Box::new(job.done())));
            }
            let arrives = self.now.time + self.delay;
            self.travelling.extend(std::mem::take(&mut self.mail).into_iter().map(|message| (arrives, message)));
            let (arrived, travelling): (Vec<_>, Vec<_>) =
                self.travelling.drain(..).partition(|(at, _)| *at <= self.now.time);
            self.travelling = travelling;
            for (_, (from, to, bytes)) in arrived {
                // Or the node has just joined, and has no process yet.
                let is_there = usize::from(to.0) < self.nodes.len();
                let is_cut = self.cut.iter().any(|cut| [(from.0, to.0), (to.0, from.0)].contains(cut));
                if !is_there || is_cut || self.isolated.contains(&from.0) || self.isolated.contains(&to.0) {
                    continue;
                }
                if self.standing_still.contains(&to.0) {
                    kept.push((from, to, bytes));
                    continue;
                }
                self.give(to.0, Input::PeerMessage { peer: from, bytes });
            }
        }
        self.mail.append(&mut kept);
        for me in (0..self.nodes.len() as u16).filter(|me| !self.standing_still.contains(me)).collect::<Vec<_>>() {
            self.give(me, Input::EndTurn);
        }
    }

    /// Tries the passwords that are to be tried.
    pub fn try_passwords(&mut self) {
        for (me, number, work) in std::mem::take(&mut self.password_work) {
            self.passwords_tried += 1;
            let outcome = work.run();
            self.give(me, Input::PasswordTried { number, work, outcome });
        }
    }

    pub fn say(&mut self, me: u16, bytes: &[u8]) {
        self.give(me, Input::Received { connection: CLIENT, bytes });
    }

    /// The same on another connection, as one line.
    pub fn say_as(&mut self, me: u16, connection: ConnectionId, line: &str) {
        self.give(me, Input::Received { connection, bytes: format!("{line}\r\n").as_bytes() });
    }

    /// What a client of node `me` has heard so far; taken away.
    pub fn heard_bytes(&mut self, me: u16, connection: ConnectionId) -> Vec<u8> {
        self.heard[usize::from(me)].remove(&connection).unwrap_or_default()
    }

    /// The same where it is text.
    pub fn heard(&mut self, me: u16, connection: ConnectionId) -> String {
        String::from_utf8(self.heard_bytes(me, connection)).unwrap()
    }

    /// What a client of node `me` has heard once it has heard something; taken away.
    pub fn hear_as(&mut self, me: u16, connection: ConnectionId) -> String {
        for _ in 0..2000 {
            let text = self.heard(me, connection);
            if !text.is_empty() {
                return text;
            }
            self.pass();
        }
        panic!("node {me} says nothing");
    }

    pub fn hear(&mut self, me: u16) -> String {
        self.hear_as(me, CLIENT)
    }

    pub fn ask_as(&mut self, me: u16, connection: ConnectionId, line: &str) -> String {
        self.give(me, Input::Received { connection, bytes: format!("{line}\r\n").as_bytes() });
        self.hear_as(me, connection)
    }

    pub fn ask(&mut self, me: u16, line: &str) -> String {
        self.ask_as(me, CLIENT, line)
    }
}

/// A node alone that has applied its first entry.
pub fn alone() -> Cluster {
    let mut cluster = Cluster::new(1);
    assert_eq!(cluster.ask(0, "SET k v"), "+OK\r\n");
    cluster
}

/// Lets time pass until it is so, at most two minutes.
#[track_caller]
pub fn pass_until(cluster: &mut Cluster, what: &str, done: impl Fn(&Cluster) -> bool) {
    for _ in 0..24_000 {
        if done(cluster) {
            return;
        }
        cluster.pass();
    }
    panic!("never: {what}");
}

/// Asks line by line, in one connection. A bar stands for the end of a line within a reply.
pub fn transcript(cluster: &mut Cluster, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        let answer = cluster.ask(0, line);
        let shown = answer.strip_suffix("\r\n").unwrap_or(&answer).replace("\r\n", " | ");
        assert_eq!(shown, *expected, "{line}");
    }
}

/// The text of a bulk string.
pub fn bulk(answer: &str) -> &str {
    let (_, text) = answer.strip_prefix('$').and_then(|rest| rest.split_once("\r\n")).expect("a bulk string");
    text.strip_suffix("\r\n").expect("a whole bulk string")
}

/// The value of a field of INFO.
pub fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}
