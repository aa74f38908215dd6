//! Clients without think time, for what shows only under a load that never pauses.
//!
//! One always has several commands on their way on one connection: when half of them are answered, as many follow. It does so in a shift of some seconds amid the faults,
//! which ends early after [`COMMANDS_MAX`] commands, and again from the end of the faults on. When all others have been told to finish it still writes, until those vote who shall: votes have
//! to move although there is always something to do ([`crate::run`]).
//!
//! Its commands stand in the same history as those of all others. Registers are of one connection each, of which every other one gets new ones: what was under way when
//! it was lost is in doubt for ever, and many doubts about one key are more than the search for an order bears. The counter is that of all of them.

use std::collections::VecDeque;

use base::Rng;
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

use crate::chaos::{Chaos, MS, SECOND};
use crate::client::{Meaning, Record, Wishes, count, meaning_of, reply_of};
use crate::history::{Command, Op, Outcome};

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 1] = [NEVER_PAUSED];
const NEVER_PAUSED: &str = "sim: always something on its way, for a second";

/// Tells them from clients and routers in histories.
const FIRST_ID: u64 = 12;
/// So many commands at most in the shift amid the faults.
const COMMANDS_MAX: u64 = 3_000;
/// How long a connection is waited for.
const CONNECTING_MAX: u64 = 500 * MS;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Works until then, and as many commands as that.
    Shift { until: u64, left: u64 },
    /// Finishes what it has begun.
    Resting,
    /// Works until it is told to finish.
    Working,
    /// The same as resting, and for good.
    Draining,
}

#[derive(Debug)]
struct Connection {
    parser: ReplyParser,
    /// Operations of the history, in the order in which they were asked for.
    awaited: VecDeque<usize>,
    /// When the last answer came, or the first of them was asked for.
    asked_at: u64,
    /// Since when something has always been on its way; none once that is counted.
    busy_since: Option<u64>,
    /// Something failed here: it asks for no more.
    fails: bool,
}

/// One of them.
#[derive(Debug)]
pub struct Restless {
    id: u64,
    rng: Rng,
    nodes: u16,
    node: u16,
    timeout: u64,
    timer: u64,
    /// Commands on their way at most.
    window: usize,
    /// Out of 8: how often a command only reads.
    reads: u64,
    mode: Mode,
    /// When its shift begins and ends.
    shift: (u64, u64),
    connecting: bool,
    connection: Option<Connection>,
    connections: u64,
    values: u64,
}

impl Restless {
    /// Those of a run, which wait `timeout` nanoseconds for an answer.
    #[must_use]
    pub fn cast(chaos: &Chaos, timeout: u64) -> Vec<Restless> {
        let Some(seed) = chaos.restless_seed else { return Vec::new() };
        let mut rng = Rng::new(seed);
        let count = rng.between(1, 2);
        (0..count).map(|place| Restless::new(FIRST_ID + place, rng.fork(), chaos, timeout)).collect()
    }

    fn new(id: u64, mut rng: Rng, chaos: &Chaos, timeout: u64) -> Restless {
        let node = rng.below(u64::from(chaos.nodes)) as u16;
        let (window, reads) = (rng.between(4, 10) as usize, *rng.pick(&[0, 2, 4, 6]));
        let begins = rng.below(chaos.ends_at.max(1));
        let shift = (begins, begins + rng.between(SECOND / 2, 4 * SECOND));
        Restless {
            id,
            rng,
            nodes: chaos.nodes,
            node,
            timeout,
            timer: 0,
            window,
            reads,
            mode: Mode::Resting,
            shift,
            connecting: false,
            connection: None,
            connections: 0,
            values: 0,
        }
    }

    /// When its timer is first due.
    #[must_use]
    pub fn first_wake(&self) -> u64 {
        self.shift.0
    }

    /// The number of the timer that counts.
    #[must_use]
    pub fn timer(&self) -> u64 {
        self.timer
    }

    /// The faults are over: it works until it is told to finish.
    pub fn work(&mut self, now: u64, record: &mut Record, wishes: &mut Wishes) {
        self.mode = Mode::Working;
        self.go_on(now, record, wishes);
    }

    /// From now on it only writes, on a cluster that is its own: a read is a question to all who vote, and a moment of rest for whoever leads.
    pub fn only_write(&mut self) {
        self.reads = 0;
    }

    /// From now on it begins nothing new.
    pub fn drain(&mut self) {
        self.mode = Mode::Draining;
    }

    /// Whether it has finished everything that it has begun.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.mode == Mode::Draining && self.connection.as_ref().is_none_or(|connection| connection.awaited.is_empty())
    }

    /// Its timer is due.
    pub fn on_wake(&mut self, now: u64, record: &mut Record, wishes: &mut Wishes) {
        if self.mode == Mode::Resting && self.shift.0 <= now && now < self.shift.1 {
            self.mode = Mode::Shift { until: self.shift.1, left: COMMANDS_MAX };
        }
        if std::mem::take(&mut self.connecting) {
            // A node that has lost its power says neither yes nor no.
            wishes.close = true;
            return self.go_elsewhere(now, wishes);
        }
        if let Some(connection) = &self.connection
            && !connection.awaited.is_empty()
        {
            let waited = now.saturating_sub(connection.asked_at);
            if waited >= self.timeout {
                (wishes.overdue, wishes.close) = (Some(waited), true);
                return self.lose("no answer in time", now, record, wishes);
            }
            return self.wake_in(self.timeout - waited, now, wishes);
        }
        self.go_on(now, record, wishes);
    }

    /// The connection that it asked for stands.
    pub fn on_connected(&mut self, now: u64, record: &mut Record, wishes: &mut Wishes) {
        self.connecting = false;
        self.connections += 1;
        self.connection = Some(Connection {
            parser: ReplyParser::new(ReplyLimits::default()),
            awaited: VecDeque::new(),
            asked_at: now,
            busy_since: Some(now),
            fails: false,
        });
        self.go_on(now, record, wishes);
    }

    /// The connection is gone, or could not be had.
    pub fn on_closed(&mut self, now: u64, record: &mut Record, wishes: &mut Wishes) {
        self.lose("the connection was closed", now, record, wishes);
    }

    /// Bytes have arrived.
    pub fn on_bytes(&mut self, bytes: &[u8], now: u64, record: &mut Record, wishes: &mut Wishes) {
        if let Some(connection) = &mut self.connection {
            connection.parser.push(bytes);
        }
        while let Some(connection) = &mut self.connection {
            let value = match connection.parser.next() {
                Ok(None) => break,
                Ok(Some(value)) => value,
                Err(error) => {
                    record.unexpected.push(format!("restless client {}: not RESP: {error}", self.id));
                    wishes.close = true;
                    return self.lose("not RESP", now, record, wishes);
                }
            };
            connection.asked_at = now;
            match connection.awaited.pop_front() {
                Some(operation) => self.on_answer(operation, value, now, record),
                None => record.unexpected.push(format!("restless client {}: an answer to nothing: {value:?}", self.id)),
            }
        }
        self.go_on(now, record, wishes);
    }

    fn on_answer(&mut self, index: usize, value: Value, now: u64, record: &mut Record) {
        let command = record.operations[index].commands[0].clone();
        let (outcome, replies) = if let Value::Error(text) = &value {
            let reason = format!("restless client {} at node {}: {:?}: {text}", self.id, self.node, command.op);
            record.note_failure(text, now, reason);
            if let Some(connection) = &mut self.connection {
                connection.fails = true;
            }
            match meaning_of(text) {
                Meaning::NotDone => (Outcome::Failed, Vec::new()),
                Meaning::Unknown => (Outcome::Maybe, Vec::new()),
                Meaning::Refused | Meaning::Absent | Meaning::Surprise => {
                    record.unexpected.push(format!("restless client {}: {command:?} answered {text}", self.id));
                    (Outcome::Maybe, Vec::new())
                }
            }
        } else if let Some(reply) = reply_of(&command, value) {
            (Outcome::Done, vec![reply])
        } else {
            record.unexpected.push(format!("restless client {}: {command:?}: an impossible reply", self.id));
            return;
        };
        let operation = &mut record.operations[index];
        (operation.finish, operation.outcome, operation.replies) = (Some(now), outcome, replies);
    }

    /// Asks for more when half of what may be on its way is answered, and sees to it that there is a connection.
    fn go_on(&mut self, now: u64, record: &mut Record, wishes: &mut Wishes) {
        if let Mode::Shift { until, left } = self.mode
            && (now >= until || left == 0)
        {
            self.mode = Mode::Resting;
        }
        if matches!(self.mode, Mode::Resting | Mode::Draining) {
            return;
        }
        let Some(connection) = &mut self.connection else {
            if !std::mem::replace(&mut self.connecting, true) {
                wishes.connect = Some(self.node);
                self.wake_in(CONNECTING_MAX, now, wishes);
            }
            return;
        };
        let begins = connection.awaited.is_empty();
        if connection.fails {
            // Who asked again at once would be told the same again: elsewhere, a little later.
            if begins {
                wishes.close = true;
                self.connection = None;
                self.go_elsewhere(now, wishes);
            }
            return;
        }
        if connection.awaited.len() > self.window / 2 {
            return;
        }
        match connection.busy_since {
            Some(_) if begins => connection.busy_since = Some(now),
            Some(since) if now - since >= SECOND => {
                connection.busy_since = None;
                count(record, NEVER_PAUSED);
            }
            _ => {}
        }
        let room = self.window - connection.awaited.len();
        if begins {
            connection.asked_at = now;
        }
        let mut asked = Vec::with_capacity(room);
        for _ in 0..room {
            let command = self.draw();
            encode_command(&mut wishes.send, command.words());
            asked.push(record.invoke(self.id, vec![command], now));
        }
        if let Some(connection) = &mut self.connection {
            connection.awaited.extend(asked);
        }
        if let Mode::Shift { left, .. } = &mut self.mode {
            *left = left.saturating_sub(room as u64);
        }
        if begins {
            self.wake_in(self.timeout, now, wishes);
        }
    }

    fn draw(&mut self) -> Command {
        let reads = self.rng.chance(self.reads, 8);
        if self.rng.chance(1, 4) {
            // Begins like the counters of others, so that `once` looks at it, too.
            return Command::new(if reads { Op::Get } else { Op::Incr }, "cn");
        }
        let key = format!("n{}-{}-{}", self.id, self.connections, self.rng.below(2));
        if reads {
            return Command::new(Op::Get, key);
        }
        self.values += 1;
        let value = format!("c{}n{}", self.id, self.values);
        match self.rng.below(8) {
            0 => Command::new(Op::Del, key),
            1 => Command::new(Op::GetSet, key).with_argument(value),
            _ => Command::new(Op::Set, key).with_argument(value),
        }
    }

    fn wake_in(&mut self, delay: u64, now: u64, wishes: &mut Wishes) {
        self.timer += 1;
        wishes.wake_at = Some(now + delay);
    }

    fn go_elsewhere(&mut self, now: u64, wishes: &mut Wishes) {
        self.node = self.rng.below(u64::from(self.nodes)) as u16;
        let delay = self.rng.between(MS, 100 * MS);
        self.wake_in(delay, now, wishes);
    }

    /// Of what was on its way no more is known than that it may happen, which is how it was written down.
    fn lose(&mut self, reason: &str, now: u64, record: &mut Record, wishes: &mut Wishes) {
        if self.connection.as_ref().is_some_and(|connection| !connection.awaited.is_empty()) {
            record.last_failure = now;
            record.last_failure_reason = format!("restless client {} at node {}: {reason}", self.id, self.node);
        }
        self.connection = None;
        self.connecting = false;
        self.go_elsewhere(now, wishes);
    }
}
