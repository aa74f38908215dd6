//! What clients ask for: which kinds of keys, which commands, in which mix. Every run has its own mix.
//!
//! | keys | asked | for the sake of |
//! |---|---|---|
//! | `r0` … | GET SET GETSET GETDEL SETNX DEL EXISTS SET IFEQ | registers and locks |
//! | `a0` … | APPEND GET | exactly once: every token is its own witness |
//! | `c0` … | INCR INCRBY GET | exactly once: counting |
//! | `{g0}x` … | MULTI EXEC over two or three keys, with and without WATCH; single commands | atomicity |
//! | `v0` … | SET PX, PEXPIRE, PERSIST, PTTL, GET, SET | expiry |
//! | `b0` … | SET GET of 5 to 200 kB | frames and messages of many blocks |
//! | `l0` … | INCR and GET at all levels of durability and consistency (`client/levels.rs`) | what each level promises |
//! | `h0#f1` … | fields of hashes, alone, together and in transactions (`hashes.rs`) | fields are registers, a hash is read as a whole |
//! | `w0` … | hashes of many fields that are written, read and removed as a whole | nothing torn; what is given up is reclaimed |
//! | `z#…` | HMSET once each, HSCAN | completeness of HSCAN |
//! | `u0@m1` … | members of sets, alone, together, moved and in transactions (`sets.rs`) | members are registers, SMOVE is whole |
//! | `x0` … | sets of many members that come and go as a whole | the same as of `w0` |
//! | `y@…` | SADD once each, SSCAN | completeness of SSCAN |
//! | `o0%m1` … | scores of members of sorted sets, alone, together and in transactions (`sorted.rs`) | scores are registers, what is answered is in order |
//! | `i0` … | sorted sets of many members that come and go as a whole | the same as of `w0` |
//! | `j%…` | ZADD once each, ZSCAN | completeness of ZSCAN |
//! | `n0$m1` … | members of JSON documents, alone, together and in transactions (`documents.rs`) | members are registers |
//! | `q0` … | lists (`lists.rs`) | the order of elements: each is taken out once, none is lost |
//! | `t0` … | streams (`streams.rs`) | the order of entries |
//! | `m0` …, `k0~1-1` … | streams with consumer groups | entries are delivered once, the oldest first; what is pending is with one consumer |
//! | `f0` … | JSON documents that are one text | single-key semantics |
//! | `g0` … | HyperLogLogs that are told of the same elements each time (`sketches.rs`) | all of them are counted, or none |
//! | `e0#f1` … | fields that expire, alone, together and in transactions (`fading.rs`) | expiry of fields; a hash goes with its last one |
//! | `d0^m1` … | places of members, alone, together and in transactions (`places.rs`) | places are registers, what is answered is in order |
//! | `s:…` | SET once each, SCAN | completeness of SCAN, durability |
//! | `bucket/…` | all but SCAN, by clients that have selected that bucket | buckets are apart, and each keeps the promises; one is dropped and made again and again; some have terms |
//!
//! Every written value is unique, so that a read tells which write it saw.

use std::collections::BTreeMap;

use base::Rng;

use crate::documents::Documents;
use crate::fading::Fading;
use crate::hashes::{FIELDS, LASTING};
use crate::history::{Command, Op};
use crate::lists::Lists;
use crate::places::Places;
use crate::sets::Sets;
use crate::sketches::Sketches;
use crate::sorted::SortedSets;
use crate::streams::Streams;

mod buckets;
mod changes;

pub use buckets::{BOUNDED, CACHED, DROPPED, IN_MEMORY, PLAIN, TIMED};
pub use changes::draw_change;

/// One thing that a client does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Task {
    /// Commands sent at once, each an operation of its own.
    Plain(Vec<Command>),
    /// A command sent as `DICTUM.ONCE id …`, again and again until there is an answer.
    Once(Command),
    /// WATCH and GET of `watch` (if any), then MULTI, the commands, EXEC.
    Transaction {
        /// Keys to watch and read first.
        watch: Vec<String>,
        /// What to do.
        commands: Vec<Command>,
    },
    /// MGET of registers: each of them is an operation of its own.
    Several(Vec<Command>),
    /// SCAN from beginning to end.
    Scan,
    /// One command on several fields of a hash or members of sets: an operation that is several commands of the history.
    Together(Vec<Command>),
    /// HSCAN from beginning to end.
    HashScan,
    /// SSCAN from beginning to end.
    SetScan,
    /// ZSCAN from beginning to end.
    SortedScan,
}

/// A run's mix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mix {
    /// How many clients.
    pub clients: u64,
    /// Buckets beside the default one: name, and what `DICTUM.BUCKET CREATE` says behind it. Clients take turns to select one.
    pub buckets: Vec<(&'static str, &'static str)>,
    /// Longest pause of a client between two tasks, in nanoseconds.
    pub pause_max: u64,
    /// Out of 8: how often a counter or an append is asked by `DICTUM.ONCE`.
    pub once: u64,
    /// Out of 8: how often several commands are sent at once.
    pub pipelined: u64,
    /// Out of 8: how often a command only reads.
    pub reads: u64,
    registers: u64,
    appends: u64,
    counters: u64,
    groups: u64,
    volatile: u64,
    big: u64,
    /// Weights of register, append, counter, group, volatile, big, scan.
    weights: [u64; 7],
    lifetime_ms_max: u64,
    /// Out of 8: how often a client turns to the counters that are for the levels of durability and consistency.
    pub levels: u64,
    /// What is drawn for these is drawn from this.
    pub levels_seed: u64,
    /// Out of 16: how often a client turns to hashes.
    hashes: u64,
    /// Fields are set that stay, and HSCAN looks for them.
    lasting_fields: bool,
    /// Only such as stand for one register as a whole.
    only_wide: bool,
    /// Some buckets have several partitions.
    pub parted: bool,
    /// Settings of buckets stay as they are, so none gets a default time to live: then hashes are used in the one that refuses at its quota.
    pub settled: bool,
    sets: Sets,
    /// How clients use sorted sets.
    pub sorted: SortedSets,
    /// How clients use JSON documents.
    pub documents: Documents,
    /// How clients use lists.
    pub lists: Lists,
    /// How clients use HyperLogLogs.
    pub sketches: Sketches,
    /// How clients use places.
    pub places: Places,
    /// How clients use fields that expire.
    pub fading: Fading,
    /// How clients use streams.
    pub streams: Streams,
    /// How clients use scripts: a seed, and of sixteen tasks how many are sent so.
    pub scripts: (u64, u64),
}

impl Mix {
    /// Draws a mix.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Mix {
        let mut weight = |often: &[u64]| *rng.pick(often);
        let weights = [
            weight(&[1, 4, 8]),
            weight(&[0, 2, 4]),
            weight(&[0, 2, 4]),
            weight(&[0, 3, 6]),
            weight(&[0, 3, 6]),
            weight(&[0, 0, 0, 1]),
            weight(&[0, 1, 2]),
        ];
        Mix {
            clients: rng.between(3, 8),
            buckets: [(PLAIN, ""), (IN_MEMORY, "KIND ephemeral"), (DROPPED, "")]
                .into_iter()
                .filter(|_| rng.chance(1, 3))
                .collect(),
            pause_max: *rng.pick(&[60_000_000, 150_000_000, 400_000_000]),
            once: rng.below(9),
            pipelined: rng.below(4),
            reads: rng.between(2, 6),
            registers: rng.between(1, 5),
            appends: rng.between(1, 3),
            counters: rng.between(1, 3),
            groups: rng.between(1, 2),
            volatile: rng.between(1, 3),
            big: rng.between(1, 2),
            weights,
            lifetime_ms_max: *rng.pick(&[100, 1_000, 4_000]),
            levels: 0,
            levels_seed: 0,
            hashes: 0,
            lasting_fields: true,
            only_wide: false,
            settled: false,
            parted: false,
            sets: Sets { lasting: true, moves: true, ..Sets::default() },
            sorted: SortedSets { lasting: true, ..SortedSets::default() },
            documents: Documents::default(),
            lists: Lists::default(),
            sketches: Sketches::default(),
            places: Places::default(),
            fading: Fading::default(),
            streams: Streams::default(),
            scripts: (0, 0),
        }
    }

    /// Adds hashes.
    pub fn add_hashes(&mut self, rng: &mut Rng) {
        self.hashes = rng.between(2, 8);
    }

    /// Adds sets.
    pub fn add_sets(&mut self, rng: &mut Rng) {
        self.sets.often = rng.between(2, 8);
    }

    /// Whether clients use sets.
    #[must_use]
    pub fn uses_sets(&self) -> bool {
        self.sets.often > 0
    }

    /// Whether clients use hashes.
    #[must_use]
    pub fn uses_hashes(&self) -> bool {
        self.hashes > 0
    }

    /// The next task of a client that has seen `seen` and numbers its values by `unique`.
    pub fn draw_task(
        &self,
        rng: &mut Rng,
        seen: &BTreeMap<String, String>,
        unique: &mut dyn FnMut() -> String,
    ) -> Task {
        if self.hashes > 0 && rng.chance(self.hashes, 16) {
            return self.hash_task(rng, unique);
        }
        if self.sets.often > 0 && rng.chance(self.sets.often, 16) {
            return self.sets.draw_task(rng, (self.reads, self.once), unique);
        }
        if self.sorted.often > 0 && rng.chance(self.sorted.often, 16) {
            return self.sorted.draw_task(rng, (self.reads, self.once), unique);
        }
        if self.documents.often > 0 && rng.chance(self.documents.often, 16) {
            return self.documents.draw_task(rng, (self.reads, self.once), unique);
        }
        if self.lists.often > 0 && rng.chance(self.lists.often, 16) {
            return self.lists.draw_task(rng, (self.reads, self.once), unique);
        }
        if self.sketches.often > 0 && rng.chance(self.sketches.often, 16) {
            return self.sketches.draw_task(rng, (self.reads, self.once));
        }
        if self.places.often > 0 && rng.chance(self.places.often, 16) {
            return self.places.draw_task(rng, (self.reads, self.once), unique);
        }
        if self.fading.often > 0 && rng.chance(self.fading.often, 16) {
            return self.fading.draw_task(rng, (self.reads, self.once), unique);
        }
        if self.streams.often > 0 && rng.chance(self.streams.often, 16) {
            return self.streams.draw_task(rng, (self.reads, self.once), unique);
        }
        if self.parted && rng.chance(1, 24) {
            let keys = (0..self.registers).filter(|_| rng.chance(3, 4)).map(|register| format!("r{register}"));
            let reads: Vec<Command> = keys.map(|key| Command::new(Op::Get, key)).collect();
            if !reads.is_empty() {
                return Task::Several(reads);
            }
        }
        let mut ticket = rng.below(self.weights.iter().sum());
        let mut kind = 0;
        while ticket >= self.weights[kind] {
            ticket -= self.weights[kind];
            kind += 1;
        }
        if kind == 6 {
            return if rng.chance(1, 8) {
                Task::Scan
            } else {
                let value = unique();
                Task::Plain(vec![Command::new(Op::Set, format!("s:{value}")).with_argument(value)])
            };
        }
        if kind == 3 && rng.chance(2, 3) {
            return self.transaction(rng, seen, unique);
        }
        let command = self.command(kind, rng, seen, unique);
        let counts = matches!(command.op, Op::Incr | Op::Append | Op::SetNx | Op::Del | Op::SetIfEq);
        if counts && rng.chance(self.once, 8) {
            return Task::Once(command);
        }
        let mut commands = vec![command];
        if rng.chance(self.pipelined, 8) {
            for _ in 0..rng.between(1, 7) {
                commands.push(self.command(kind, rng, seen, unique));
            }
        }
        Task::Plain(commands)
    }

    fn hash_task(&self, rng: &mut Rng, unique: &mut dyn FnMut() -> String) -> Task {
        let reads = rng.chance(self.reads, 8);
        let kind = if self.only_wide { 0 } else { rng.below(8) };
        let command = match kind {
            0..=2 => {
                let key = format!("w{}", rng.below(2));
                match (reads, rng.below(6)) {
                    (true, 0) => Command::new(Op::Exists, key),
                    (true, _) => Command::new(Op::Get, key),
                    (false, 0) => Command::new(Op::GetDel, key),
                    (false, 1 | 2) => Command::new(Op::Del, key),
                    (false, _) => Command::new(Op::Set, key).with_argument(unique()),
                }
            }
            3 if self.lasting_fields => {
                return if rng.chance(1, 8) {
                    Task::HashScan
                } else {
                    let value = unique();
                    Task::Plain(vec![Command::new(Op::Set, format!("{LASTING}#{value}")).with_argument(value)])
                };
            }
            4 => {
                let key = format!("hc#{}", rng.pick(&FIELDS));
                let incr = Command::new(Op::Incr, key.clone()).with_number(rng.between(1, 9) as i64);
                if reads { Command::new(Op::Get, key) } else { incr }
            }
            5 => {
                let hash = format!("h{}", rng.below(2));
                let fields = if reads { FIELDS.len() } else { rng.between(1, FIELDS.len() as u64) as usize };
                let of = |field: &&str| format!("{hash}#{field}");
                return Task::Together(if reads {
                    FIELDS.iter().map(|field| Command::new(Op::Get, of(field))).collect()
                } else {
                    let set = |field: &&str| Command::new(Op::Set, of(field)).with_argument(unique());
                    FIELDS[..fields].iter().map(set).collect()
                });
            }
            6 => {
                let keys = FIELDS.map(|field| format!("h0#{field}"));
                let mut commands = Vec::new();
                for _ in 0..rng.between(2, 3) {
                    let key = rng.pick(&keys).clone();
                    let read = rng.chance(self.reads, 8);
                    commands.push(if read { Command::new(Op::Get, key) } else { field_write(key, rng, unique) });
                }
                let watch = if rng.chance(1, 2) { vec![rng.pick(&keys).clone()] } else { Vec::new() };
                return Task::Transaction { watch, commands };
            }
            _ => {
                let key = format!("h{}#{}", rng.below(2), rng.pick(&FIELDS));
                match (reads, rng.below(4)) {
                    (true, 0) => Command::new(Op::Exists, key),
                    (true, _) => Command::new(Op::Get, key),
                    (false, _) => field_write(key, rng, unique),
                }
            }
        };
        let counts = matches!(command.op, Op::Incr | Op::SetNx | Op::Del | Op::GetDel);
        if counts && rng.chance(self.once, 8) { Task::Once(command) } else { Task::Plain(vec![command]) }
    }

    fn transaction(&self, rng: &mut Rng, seen: &BTreeMap<String, String>, unique: &mut dyn FnMut() -> String) -> Task {
        let group = rng.below(self.groups);
        let keys: Vec<String> = ["x", "y", "z"].iter().map(|key| format!("{{g{group}}}{key}")).collect();
        let mut commands = Vec::new();
        for _ in 0..rng.between(2, 4) {
            let key = rng.pick(&keys).clone();
            commands.push(if rng.chance(self.reads, 8) {
                Command::new(Op::Get, key)
            } else {
                self.write(key, rng, seen, unique)
            });
        }
        let watch = if rng.chance(1, 2) { keys[..rng.between(1, 3) as usize].to_vec() } else { Vec::new() };
        Task::Transaction { watch, commands }
    }

    fn write(
        &self,
        key: String,
        rng: &mut Rng,
        seen: &BTreeMap<String, String>,
        unique: &mut dyn FnMut() -> String,
    ) -> Command {
        match rng.below(12) {
            0 => Command::new(Op::Del, key),
            1 => Command::new(Op::GetDel, key),
            2 => Command::new(Op::SetNx, key).with_argument(unique()),
            3 => Command::new(Op::GetSet, key).with_argument(unique()),
            4 | 5 => match seen.get(&key) {
                Some(expected) => {
                    Command::new(Op::SetIfEq, key).with_expected(expected.clone()).with_argument(unique())
                }
                None => Command::new(Op::SetNx, key).with_argument(unique()),
            },
            _ => Command::new(Op::Set, key).with_argument(unique()),
        }
    }

    fn command(
        &self,
        kind: usize,
        rng: &mut Rng,
        seen: &BTreeMap<String, String>,
        unique: &mut dyn FnMut() -> String,
    ) -> Command {
        let reads = rng.chance(self.reads, 8);
        match kind {
            1 => {
                let key = format!("a{}", rng.below(self.appends));
                if reads {
                    Command::new(Op::Get, key)
                } else {
                    Command::new(Op::Append, key).with_argument(format!("{};", unique()))
                }
            }
            2 => {
                let key = format!("c{}", rng.below(self.counters));
                match (reads, rng.chance(1, 4)) {
                    (true, _) => Command::new(Op::Get, key),
                    (false, true) => Command::new(Op::Incr, key).with_number(rng.between(1, 9) as i64),
                    (false, false) => Command::new(Op::Incr, key),
                }
            }
            4 => {
                let key = format!("v{}", rng.below(self.volatile));
                let lifetime = rng.between(1, self.lifetime_ms_max) as i64;
                match (reads, rng.below(10)) {
                    (true, 0) => Command::new(Op::Pttl, key),
                    (true, 1) => Command::new(Op::Exists, key),
                    (true, _) => Command::new(Op::Get, key),
                    (false, 0) => Command::new(Op::Persist, key),
                    (false, 1 | 2) => Command::new(Op::Pexpire, key).with_number(lifetime),
                    (false, 3) => Command::new(Op::Set, key).with_argument(unique()),
                    (false, 4) => Command::new(Op::SetNx, key).with_argument(unique()),
                    (false, _) => Command::new(Op::SetPx, key).with_argument(unique()).with_number(lifetime),
                }
            }
            5 => {
                let key = format!("b{}", rng.below(self.big));
                if reads || rng.chance(1, 2) {
                    Command::new(Op::Get, key)
                } else {
                    let mut value = unique();
                    let length = rng.between(5_000, 200_000) as usize;
                    value.push_str(&"x".repeat(length));
                    Command::new(Op::Set, key).with_argument(value)
                }
            }
            _ => {
                let key = if kind == 3 {
                    format!("{{g{}}}{}", rng.below(self.groups), rng.pick(&["x", "y", "z"]))
                } else {
                    format!("r{}", rng.below(self.registers))
                };
                if !reads {
                    self.write(key, rng, seen, unique)
                } else if rng.chance(1, 8) {
                    Command::new(Op::Exists, key)
                } else {
                    Command::new(Op::Get, key)
                }
            }
        }
    }
}

fn field_write(key: String, rng: &mut Rng, unique: &mut dyn FnMut() -> String) -> Command {
    match rng.below(6) {
        0 | 1 => Command::new(Op::Del, key),
        2 => Command::new(Op::GetDel, key),
        3 => Command::new(Op::SetNx, key).with_argument(unique()),
        _ => Command::new(Op::Set, key).with_argument(unique()),
    }
}

#[cfg(test)]
mod tests;
