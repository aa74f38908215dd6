//! What a router is about: commands that have to find their node. What comes of them: `answers.rs`.

use wire::{Value, encode_command};

use super::Router;
use crate::client::{Record, in_bucket, words_of_transaction, words_together};
use crate::history::{Command, Op};
use crate::workload::{DROPPED, Task};

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 5] = [FOLLOWED, TRANSACTION_MOVED, ONCE_MOVED, REPLICA_READ, REPLICA_WRITE];
pub(super) const FOLLOWED: &str = "sim: redirection followed";
pub(super) const TRANSACTION_MOVED: &str = "sim: transaction redirected";
pub(super) const ONCE_MOVED: &str = "sim: command with an identifier redirected";
pub(super) const REPLICA_READ: &str = "sim: replica read under READONLY";
pub(super) const REPLICA_WRITE: &str = "sim: written and read under READONLY";

/// Operations of routers in a history: each of those that a router has under way at once is of a client of its own.
pub(super) const AT_ONCE_MAX: u64 = 16;
/// Commands that are asked of any node in the calm at the end.
const JOURNEYS: u64 = 6;

#[derive(Clone, Debug)]
pub(super) enum What {
    /// Operations of the history.
    Plain(usize),
    Together(usize),
    Transaction(usize),
    /// By `DICTUM.ONCE`: it is safe to ask again whatever became of it.
    Once(usize),
    /// A counter of the levels is counted up.
    Count {
        key: String,
        asked: u64,
    },
    /// READONLY, the counter read, perhaps counted up and read again, READWRITE.
    Sights {
        key: String,
        asked: u64,
    },
    Picture {
        shards: bool,
    },
    /// DBSIZE, which is about the slots that are shown as the node's own.
    Size,
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    pub what: What,
    pub slot: u16,
    pub bytes: Vec<u8>,
    /// How many answers it has.
    pub answers: usize,
    pub got: Vec<Value>,
    /// Where it is asked, or is to be.
    pub node: Option<u16>,
    /// It is for that node, and goes nowhere else.
    pub fixed: bool,
    /// Answers are awaited.
    pub is_out: bool,
    /// It is asked from then on.
    pub due: u64,
    /// The number of the connection on which it was asked.
    pub connection: u64,
    pub stations: Vec<(u16, String)>,
    pub hops: usize,
    pub tries: u32,
    /// It may have been done already.
    pub doubtful: bool,
    /// It is asked in the calm at the end.
    pub calm: bool,
    pub done: bool,
}

impl Errand {
    fn new(what: What, slot: u16, bytes: Vec<u8>, answers: usize) -> Errand {
        Errand {
            what,
            slot,
            bytes,
            answers,
            got: Vec::new(),
            node: None,
            fixed: false,
            is_out: false,
            due: 0,
            connection: 0,
            stations: Vec::new(),
            hops: 0,
            tries: 0,
            doubtful: false,
            calm: false,
            done: false,
        }
    }

    fn at(mut self, node: u16) -> Errand {
        (self.node, self.fixed) = (Some(node), true);
        self
    }

    /// It is asked on this connection.
    pub(super) fn begin(&mut self, connection: u64) {
        (self.is_out, self.connection) = (true, connection);
        self.got.clear();
    }
}

/// The hash slot that a command is about.
fn slot_of(words: &[Vec<u8>]) -> u16 {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let keys = data::lookup(words[0]).map(|entry| entry.spec.keys_of(&words)).unwrap_or_default();
    keys.first().map_or(0, |key| base::slots::hash_slot(key))
}

impl Router {
    fn invoke(&self, commands: Vec<Command>, now: u64, record: &mut Record) -> usize {
        let client = self.id * AT_ONCE_MAX + self.errands.len() as u64 % AT_ONCE_MAX;
        record.invoke(client, commands, now)
    }

    /// Draws what comes next.
    pub(super) fn draw_errands(&mut self, now: u64, record: &mut Record) {
        self.errands.clear();
        if std::mem::take(&mut self.wants_picture) || self.rng.chance(1, 20) {
            self.ask_for_picture();
        }
        if self.rng.chance(1, 20) {
            let node = self.anybody();
            let mut bytes = Vec::new();
            encode_command(&mut bytes, ["DBSIZE"]);
            self.errands.push(Errand::new(What::Size, 0, bytes, 1).at(node));
        }
        if self.bucket != DROPPED && self.rng.chance(1, 5) {
            return self.draw_level_errand(now, record);
        }
        let (id, values) = (self.id, &mut self.values);
        let mut unique = || {
            *values += 1;
            format!("c{id}n{values}")
        };
        let task = self.mix.draw_task(&mut self.rng, &self.seen, &mut unique);
        match in_bucket(self.bucket, task) {
            Task::Plain(commands) | Task::Several(commands) => {
                for command in commands {
                    let mut bytes = Vec::new();
                    // A script has to say its keys, by which it is routed.
                    self.scripts.send(&command, true, &mut bytes);
                    let slot = slot_of(&command.words());
                    let operation = self.invoke(vec![command], now, record);
                    self.errands.push(Errand::new(What::Plain(operation), slot, bytes, 1));
                }
            }
            Task::Once(command) => {
                self.values += 1;
                let mut words = vec![b"DICTUM.ONCE".to_vec(), format!("once-{}-{}", self.id, self.values).into_bytes()];
                words.extend(command.words());
                let slot = slot_of(&words[2..]);
                let operation = self.invoke(vec![command], now, record);
                self.errands.push(Errand::new(What::Once(operation), slot, encoded(&words), 1));
            }
            Task::Transaction { mut commands, .. } => {
                let slot = slot_of(&commands[0].words());
                // What has keys of several slots a library does not even send.
                commands.retain(|command| slot_of(&command.words()) == slot);
                let (bytes, answers) = (words_of_transaction(&commands), commands.len() + 2);
                let operation = self.invoke(commands, now, record);
                self.errands.push(Errand::new(What::Transaction(operation), slot, bytes, answers));
            }
            Task::Together(commands) => {
                let words = words_together(&commands);
                let operation = self.invoke(commands, now, record);
                let slot = slot_of(&words);
                self.errands.push(Errand::new(What::Together(operation), slot, encoded(&words), 1));
            }
            // A scan of every master's own slots promises nothing while masters change.
            Task::Scan | Task::HashScan | Task::SetScan | Task::SortedScan => {}
        }
    }

    fn draw_level_errand(&mut self, now: u64, record: &mut Record) {
        let counter = format!("l{}", self.rng.below(1 + self.mix.levels_seed % 2));
        let key = self.key(&counter);
        let slot = base::slots::hash_slot(counter.as_bytes());
        let mut bytes = Vec::new();
        if self.rng.chance(1, 3) {
            encode_command(&mut bytes, ["INCR", &counter]);
            record.levels.attempts.entry(key.clone()).or_default().push(now);
            self.errands.push(Errand::new(What::Count { key, asked: now }, slot, bytes, 1));
            return;
        }
        let get = ["GET", &counter];
        let mut words: Vec<&[&str]> = vec![&["READONLY"], &get];
        let incr = ["INCR", &counter];
        if self.rng.chance(1, 3) {
            record.levels.attempts.entry(key.clone()).or_default().push(now);
            words.extend([&incr[..], &get]);
        }
        words.push(&["READWRITE"]);
        words.iter().for_each(|command| encode_command(&mut bytes, *command));
        let node = self.anybody();
        self.errands.push(Errand::new(What::Sights { key, asked: now }, slot, bytes, words.len()).at(node));
        // Behind READWRITE, on the same connection, it is as if nothing had been said.
        if self.rng.chance(1, 2) {
            let register = self.rng.below(3);
            let errand = self.read_at(node, register, now, record);
            self.errands.push(errand);
        }
    }

    /// A register is read, at this node first.
    fn read_at(&self, node: u16, register: u64, now: u64, record: &mut Record) -> Errand {
        let command = Command::new(Op::Get, self.key(&format!("r{register}")));
        let words = command.words();
        let operation = self.invoke(vec![command], now, record);
        let errand = Errand::new(What::Plain(operation), slot_of(&words), encoded(&words), 1);
        Errand { node: Some(node), ..errand }
    }

    /// A key of its bucket as histories name it.
    fn key(&self, raw: &str) -> String {
        if self.bucket.is_empty() { raw.to_owned() } else { format!("{}/{raw}", self.bucket) }
    }

    pub(super) fn ask_for_picture(&mut self) {
        let is_asked = |errand: &Errand| matches!(errand.what, What::Picture { .. }) && !errand.done;
        if !self.errands.iter().any(is_asked) {
            let (node, shards) = (self.anybody(), self.rng.chance(1, 2));
            self.errands.push(picture(shards).at(node));
        }
    }

    /// In the calm at the end: what every node shows, and commands that begin anywhere.
    pub(super) fn draw_looks(&mut self, now: u64, record: &mut Record) {
        // It may just not be there.
        if self.bucket == DROPPED {
            return;
        }
        for node in (0..self.listeners.len() as u16).filter(|node| self.listeners[usize::from(*node)]) {
            self.errands.extend([false, true].map(|shards| picture(shards).at(node)));
        }
        for number in 0..JOURNEYS {
            let node = self.anybody();
            let errand = self.read_at(node, number, now, record);
            self.errands.push(errand);
        }
        self.errands.iter_mut().for_each(|errand| errand.calm = true);
    }
}

fn picture(shards: bool) -> Errand {
    let words = ["CLUSTER", if shards { "SHARDS" } else { "SLOTS" }];
    let mut bytes = Vec::new();
    encode_command(&mut bytes, words);
    Errand::new(What::Picture { shards }, 0, bytes, 1)
}

fn encoded(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_command(&mut bytes, words);
    bytes
}
