//! A client: speaks RESP bytes to one node at a time, keeps the history, goes elsewhere when a node fails it.

mod administering;
mod asking;
mod levels;
mod replies;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::scripts::Scripts;
use base::Rng;
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

use crate::chaos::MS;
use crate::checkers::levels::Levels;
use crate::checkers::redirections::Redirections;
use crate::checkers::rooms::Rooms;
use crate::checkers::scan::Scan;
use crate::checkers::terms::Refusal;
use crate::history::{Command, Op, Operation};
use crate::settings::Settings;
use crate::workload::{DROPPED, Mix};

pub use administering::Order;
pub(crate) use asking::{in_bucket, words_of_transaction, words_together};
pub(crate) use replies::{
    Meaning, NO_LEASE, is_dropped, meaning_of, note_refusal, replies_of_parts, replies_together, reply_of,
};

/// Names of what clients count.
pub(crate) const PROBES: [&[&str]; 3] = [&administering::PROBES, &replies::PROBES, &["client: gone while it waited"]];

/// What all clients together have written down.
#[derive(Debug, Default)]
pub struct Record {
    /// Every operation, in the order of requests.
    pub operations: Vec<Operation>,
    /// Every finished SCAN of the default bucket.
    pub scans: Vec<Scan>,
    /// Every finished SCAN of the bucket that is cut into partitions.
    pub parted_scans: Vec<Scan>,
    /// Every finished HSCAN of the hash that is only added to.
    pub hash_scans: Vec<Scan>,
    /// Every finished SSCAN of the set that is only added to.
    pub set_scans: Vec<Scan>,
    /// Every finished ZSCAN of the sorted set that is only added to.
    pub sorted_scans: Vec<Scan>,
    /// What was seen of the counters that are for the levels.
    pub levels: Levels,
    /// Answers that no server should ever give.
    pub unexpected: Vec<String>,
    /// When a request last failed or remained without an answer, in nanoseconds.
    pub last_failure: u64,
    /// Why it did.
    pub last_failure_reason: String,
    /// The bound of writes on their way is small, and clients without think time reach it: a refusal at the bound is no failure.
    pub is_crowded: bool,
    /// What was asked of buckets' settings.
    pub settings: Settings,
    /// What clients that route by themselves were told of the cluster.
    pub redirections: Redirections,
    /// Operations whose client has gone while they were under way, with when: nothing may be taken for them some time later.
    pub gone: BTreeMap<usize, u64>,
    /// Who has sent a command in a script, and when: to a node that is a write, whatever it does.
    pub scripted: BTreeSet<(u64, u64)>,
    /// Commands that their buckets' terms did not allow.
    pub refusals: Vec<Refusal>,
    /// By bucket: the most bytes that a key and its value had together in a command.
    pub longest: BTreeMap<String, u64>,
    /// By bucket: the most bytes that a command can have added beside that and a record: elements of hashes.
    pub elements: BTreeMap<String, u64>,
    /// What the operator is to hear.
    pub heard: Vec<crate::cluster::operator::Heard>,
    /// What was seen of disks with little room.
    pub rooms: Rooms,
    /// What was reached, by name.
    pub probes: BTreeMap<&'static str, u64>,
}

pub(crate) fn count(record: &mut Record, probe: &'static str) {
    *record.probes.entry(probe).or_default() += 1;
}

/// What a client wants from the world after something happened to it.
#[derive(Debug, Default)]
pub struct Wishes {
    /// Bytes for the node.
    pub send: Vec<u8>,
    /// Open a connection to this node.
    pub connect: Option<u16>,
    /// Give the connection up.
    pub close: bool,
    /// Wake the client at this time, with [`Client::timer`]'s number.
    pub wake_at: Option<u64>,
    /// A request has had no answer for longer than a node may take. Says how long, in nanoseconds.
    pub overdue: Option<u64>,
}

/// What a client is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Working,
    /// Finishes what it has begun.
    Draining,
    /// Reads all keys a last time.
    Reading,
    Done,
}

/// What a scan goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scanned {
    Keys,
    Fields,
    Members,
    Scored,
}

/// How much of a transaction under way was refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Refused {
    Nothing,
    /// A queued command, by a node that did not know who may do what and may know it again: it queues what follows, and EXEC refuses all.
    ForAWhile,
    /// MULTI or a queued command, by a node that is about to stop: it refuses all that follows, too.
    ForGood,
}

#[derive(Debug)]
enum Running {
    Nothing,
    /// Operations of the history, and how many have their answers.
    Plain {
        operations: Vec<usize>,
        answered: usize,
    },
    /// `sent`: an answer is to come; else it has to be sent (again).
    Once {
        operation: usize,
        id: String,
        sent: bool,
    },
    /// The replies of WATCH and of the GETs are awaited.
    Watching {
        watch: Vec<String>,
        reads: Vec<usize>,
        answered: usize,
        commands: Vec<Command>,
        failed: bool,
    },
    /// One command whose parts are operations of their own.
    Several {
        operations: Vec<usize>,
    },
    /// One command that the history has as several.
    Together {
        operation: usize,
    },
    Executing {
        operation: usize,
        answered: usize,
        refused: Refused,
    },
    Scanning {
        what: Scanned,
        started: u64,
        found: BTreeSet<String>,
    },
    /// `operation`: in the history of settings.
    Administering {
        order: Order,
        operation: Option<usize>,
    },
    Level(Box<levels::LevelTask>),
}

#[derive(Debug)]
struct Connection {
    parser: ReplyParser,
    /// Replies that are awaited and belong to nothing.
    ignored: usize,
    /// Replies that are awaited before the connection is in its bucket: perhaps to DROP, to CREATE, and to SELECT.
    preparing: usize,
}

/// One client.
#[derive(Debug)]
pub struct Client {
    id: u64,
    rng: Rng,
    mix: Mix,
    nodes: u16,
    node: u16,
    mode: Mode,
    connection: Option<Connection>,
    connecting: bool,
    running: Running,
    sent_at: u64,
    timeout: u64,
    timer: u64,
    values: u64,
    /// How many connections it has had.
    connections: u64,
    levels_rng: Rng,
    /// For how it leaves while it waits, and when it does that next.
    leaving_rng: Rng,
    leaves_at: Option<u64>,
    scripts: Scripts,
    /// Its bucket, and the settings by which that is created; none for the default bucket.
    bucket: Option<(&'static str, &'static str)>,
    /// Its bucket was dropped: it has to select the new one.
    selects_again: bool,
    /// By raw key.
    seen: BTreeMap<String, String>,
    final_keys: Vec<String>,
    /// Commands to be sent at once, at the end.
    final_commands: Vec<Command>,
    /// What it is to do before its next task.
    orders: VecDeque<Order>,
}

impl Client {
    /// A client that waits `timeout` nanoseconds for an answer before it gives a connection up.
    #[must_use]
    pub fn new(id: u64, mut rng: Rng, mix: Mix, nodes: u16, timeout: u64) -> Client {
        let node = rng.below(u64::from(nodes)) as u16;
        let levels_seed = mix.levels_seed;
        let levels_rng = Rng::new(levels_seed ^ id);
        let scripts = Scripts::new(mix.scripts.0 ^ id, mix.scripts.1);
        let turn = id as usize % (mix.buckets.len() + 1);
        let bucket = turn.checked_sub(1).and_then(|place| mix.buckets.get(place).copied());
        Client {
            id,
            scripts,
            rng,
            mix: bucket.map_or_else(|| mix.clone(), |(name, _)| mix.of_bucket(name)),
            bucket,
            selects_again: false,
            nodes,
            node,
            mode: Mode::Working,
            connection: None,
            connecting: false,
            running: Running::Nothing,
            sent_at: 0,
            timeout,
            timer: 0,
            values: 0,
            connections: 0,
            leaving_rng: Rng::new(levels_seed ^ id ^ 0x1eaf),
            leaves_at: None,
            levels_rng,
            seen: BTreeMap::new(),
            final_keys: Vec::new(),
            final_commands: Vec::new(),
            orders: VecDeque::new(),
        }
    }

    /// The number of the timer that counts; wake-ups for others are out of date.
    #[must_use]
    pub fn timer(&self) -> u64 {
        self.timer
    }

    /// The node that it talks to.
    #[must_use]
    pub fn node(&self) -> u16 {
        self.node
    }

    /// The operation of the history that it asks for again and again until it knows the answer.
    #[must_use]
    pub fn insists_on(&self) -> Option<usize> {
        match &self.running {
            Running::Once { operation, .. } => Some(*operation),
            _ => None,
        }
    }

    /// From now on it begins nothing new.
    pub fn drain(&mut self) {
        if self.mode == Mode::Working {
            self.mode = Mode::Draining;
        }
    }

    /// Whether it has finished everything that it was told to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.mode, Mode::Draining | Mode::Done)
            && matches!(self.running, Running::Nothing)
            && self.orders.is_empty()
    }

    /// Lets it read these keys, once each.
    pub fn read_at_the_end(&mut self, keys: Vec<String>, now: u64, wishes: &mut Wishes) {
        self.final_keys = keys;
        self.final_keys.retain(|key| crate::streams::is_readable(key));
        self.mode = Mode::Reading;
        self.wake_in(0, now, wishes);
    }

    /// Lets it write keys of its own and look how long they live, in a bucket whose terms are to be seen: short values, and long ones.
    pub fn try_terms(&mut self, now: u64, wishes: &mut Wishes) {
        for length in [1, 60, 300, 5_000] {
            let key = format!("{}/z{}-{length}", self.bucket(), self.id);
            let value = format!("z{}{}", self.id, "z".repeat(length));
            self.final_commands.push(Command::new(Op::Set, key.clone()).with_argument(value));
            self.final_commands.push(Command::new(Op::Pttl, key.clone()));
            self.final_commands.push(Command::new(Op::Get, key));
        }
        self.read_at_the_end(Vec::new(), now, wishes);
    }

    /// Its timer is due.
    pub fn on_wake(&mut self, now: u64, record: &mut Record, wishes: &mut Wishes) {
        if self.connection.is_none() {
            if !self.connecting && !self.is_idle() {
                self.connecting = true;
                wishes.connect = Some(self.node);
                // A node that has lost its power says neither yes nor no.
                self.wake_in(500 * MS, now, wishes);
            } else if self.connecting {
                self.connecting = false;
                wishes.close = true;
                self.go_elsewhere(now, wishes);
            }
            return;
        }
        if self.is_waiting() {
            if self.leaves_at.take().is_some_and(|at| at <= now) {
                // As a process that is killed. Nothing has failed.
                count(record, "client: gone while it waited");
                wishes.close = true;
                let failure = (record.last_failure, std::mem::take(&mut record.last_failure_reason));
                self.lose_connection("it leaves", now, record, wishes);
                (record.last_failure, record.last_failure_reason) = failure;
                return;
            }
            let waited = now.saturating_sub(self.sent_at);
            if waited < self.timeout {
                self.wake_in(self.timeout - waited, now, wishes);
                return;
            }
            wishes.overdue = Some(waited);
            wishes.close = true;
            self.lose_connection("no answer in time", now, record, wishes);
            return;
        }
        self.begin(now, record, wishes);
    }

    /// The connection that it asked for stands.
    pub fn on_connected(&mut self, now: u64, record: &mut Record, wishes: &mut Wishes) {
        self.connecting = false;
        self.connections += 1;
        let mut connection = Connection { parser: ReplyParser::new(ReplyLimits::default()), ignored: 0, preparing: 0 };
        if self.rng.chance(1, 4) {
            encode_command(&mut wishes.send, ["HELLO", "3"]);
            connection.ignored = 1;
        }
        if let Some((name, settings)) = self.bucket {
            connection.preparing = 2;
            if name == DROPPED && self.mode == Mode::Working && self.rng.chance(1, 2) {
                encode_command(&mut wishes.send, ["DICTUM.BUCKET", "DROP", name, "CONFIRM"]);
                connection.preparing += 1;
            }
            let create = ["DICTUM.BUCKET", "CREATE", name].into_iter().chain(settings.split_whitespace());
            encode_command(&mut wishes.send, create.collect::<Vec<_>>());
            encode_command(&mut wishes.send, ["SELECT", name]);
        }
        let is_ready = connection.preparing == 0;
        self.connection = Some(connection);
        if is_ready {
            self.begin(now, record, wishes);
        } else {
            self.sent_at = now;
            let timeout = self.timeout;
            self.wake_in(timeout, now, wishes);
        }
    }

    /// The bucket that its keys are in; empty for the default bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        self.bucket.map_or("", |(name, _)| name)
    }

    /// The connection is gone, or could not be had.
    pub fn on_closed(&mut self, now: u64, record: &mut Record, wishes: &mut Wishes) {
        self.lose_connection("the connection was closed", now, record, wishes);
    }

    /// Bytes have arrived.
    pub fn on_bytes(&mut self, bytes: &[u8], now: u64, record: &mut Record, wishes: &mut Wishes) {
        let Some(connection) = &mut self.connection else { return };
        connection.parser.push(bytes);
        loop {
            let Some(connection) = &mut self.connection else { return };
            match connection.parser.next() {
                Ok(None) => return,
                Ok(Some(_)) if connection.ignored > 0 => connection.ignored -= 1,
                Ok(Some(Value::Push(_))) => {}
                Ok(Some(value)) if connection.preparing > 0 => {
                    if !self.on_prepared(&value, now, record, wishes) {
                        return;
                    }
                }
                Ok(Some(value)) => self.on_reply(value, now, record, wishes),
                Err(error) => {
                    record.unexpected.push(format!("client {}: not RESP: {error}", self.id));
                    wishes.close = true;
                    self.lose_connection("not RESP", now, record, wishes);
                    return;
                }
            }
        }
    }

    fn is_waiting(&self) -> bool {
        if self.connection.as_ref().is_some_and(|connection| connection.preparing > 0) {
            return true;
        }
        match &self.running {
            Running::Nothing => false,
            Running::Once { sent, .. } => *sent,
            _ => true,
        }
    }

    fn wake_in(&mut self, delay: u64, now: u64, wishes: &mut Wishes) {
        self.timer += 1;
        wishes.wake_at = Some(now + delay);
    }

    fn go_elsewhere(&mut self, now: u64, wishes: &mut Wishes) {
        if self.rng.chance(3, 4) {
            self.node = self.rng.below(u64::from(self.nodes)) as u16;
        }
        let delay = self.rng.between(MS, 100 * MS);
        self.wake_in(delay, now, wishes);
    }

    fn lose_connection(&mut self, reason: &str, now: u64, record: &mut Record, wishes: &mut Wishes) {
        if self.is_waiting() {
            record.last_failure = now;
            record.last_failure_reason = format!("client {} at node {}: {reason}", self.id, self.node);
        }
        self.connection = None;
        self.connecting = false;
        match std::mem::replace(&mut self.running, Running::Nothing) {
            Running::Once { operation, id, .. } => self.running = Running::Once { operation, id, sent: false },
            // Of what was asked no more is known than that it may happen, which is how it was written down.
            Running::Nothing | Running::Scanning { .. } | Running::Administering { .. } => {}
            Running::Plain { operations, answered } => {
                for &index in &operations[answered..] {
                    record.operations[index].finish = None;
                    record.gone.insert(index, now);
                }
            }
            Running::Watching { .. } | Running::Together { .. } | Running::Executing { .. } | Running::Level(_) => {}
            Running::Several { .. } => {}
        }
        self.go_elsewhere(now, wishes);
    }
}
