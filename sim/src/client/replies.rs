//! What a client makes of the answers it gets.

use std::collections::BTreeSet;

use wire::{Value, encode_command};

use super::{Client, Mode, Record, Refused, Running, Scanned, Wishes, count};
use crate::chaos::MS;
use crate::checkers::scan::Scan;
use crate::checkers::terms::{NO_ROOM, Refusal, is_refusal};
use crate::hashes::{self, LASTING};
use crate::history::{Command, Op, Operation, Outcome, Reply, Watched, raw_key, text_of};
use crate::workload::DROPPED;
use crate::{documents, fading, lists, places, scripts, sets, sketches, sorted, streams};

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 5] = [TOO_LONG_REFUSED, FULL_REFUSED, PART_REFUSED, SEVERAL_READ, PARTED_SCAN];
const SEVERAL_READ: &str = "sim: keys of a bucket with partitions read at once";
const PARTED_SCAN: &str = "sim: bucket with partitions scanned";
const TOO_LONG_REFUSED: &str = "sim: value refused that its bucket finds too long";
const FULL_REFUSED: &str = "sim: write refused by a full bucket";
const PART_REFUSED: &str = "sim: part of a transaction refused";

/// How a node refuses commands while it does not know who may do what.
pub(crate) const NO_LEASE: &str = "CLUSTERDOWN this node has not heard from the council lately";

/// What an error reply means for the command it answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    NotDone,
    /// Not done, because the bucket's terms do not allow it: that is no failure.
    Refused,
    /// Not done, because what it needs is not there: that is no failure either.
    Absent,
    Unknown,
    Surprise,
}

pub(crate) fn meaning_of(error: &str) -> Meaning {
    if is_refusal(error) {
        return Meaning::Refused;
    }
    // Its keys are in several partitions.
    if scripts::is_undone(error) || error.starts_with("CROSSSLOT ") {
        return Meaning::Absent;
    }
    if streams::is_absent(error) || error.starts_with("BUDGET ") {
        return Meaning::Absent;
    }
    match error.split_whitespace().next().unwrap_or("") {
        // A bucket that was never created, because the node could not.
        "ERR" if error.starts_with("ERR there is no bucket") => Meaning::NotDone,
        // The cluster's version has not risen yet.
        "ERR" if error.starts_with("ERR a setting came with version") => Meaning::NotDone,
        "CLUSTERDOWN" | "STEPPEDOVER" | "TRYAGAIN" | "LOADING" | "MISCONF" | "EXECABORT" => Meaning::NotDone,
        // The node stops, and whoever waits there has to wait elsewhere.
        "UNBLOCKED" => Meaning::NotDone,
        "UNKNOWN" | "NOTALL" => Meaning::Unknown,
        _ => Meaning::Surprise,
    }
}

/// What is said to those whose bucket was dropped under them.
pub(crate) fn is_dropped(error: &str) -> bool {
    ["ERR the bucket was dropped", "ERR the selected bucket", "ERR there is no bucket"]
        .iter()
        .any(|start| error.starts_with(start))
}

impl Client {
    /// An answer to CREATE or SELECT. Whether the connection goes on.
    pub(super) fn on_prepared(&mut self, value: &Value, now: u64, record: &mut Record, wishes: &mut Wishes) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        connection.preparing -= 1;
        let selected = connection.preparing == 0;
        match value {
            Value::Simple(text) if text == "OK" => {}
            // Another client was first, or will be.
            Value::Error(text) if !selected && (text.ends_with("already") || is_dropped(text)) => {}
            // SELECT's answer decides.
            Value::Error(text) if !selected && meaning_of(text) != Meaning::Surprise => {}
            Value::Error(text) => {
                self.note_error("a bucket", text, now, record);
                // SELECT says that there is none where CREATE has not succeeded.
                wishes.close = true;
                self.lose_connection("no bucket", now, record, wishes);
                return false;
            }
            other => record.unexpected.push(format!("client {}: a bucket answered {other:?}", self.id)),
        }
        if selected {
            self.begin(now, record, wishes);
        }
        true
    }

    pub(super) fn on_reply(&mut self, value: Value, now: u64, record: &mut Record, wishes: &mut Wishes) {
        // A pipeline's commands may have to wait for one another: each answer may take its time.
        self.sent_at = now;
        let finished = match std::mem::replace(&mut self.running, Running::Nothing) {
            Running::Nothing => {
                record.unexpected.push(format!("client {}: a reply that nobody asked for: {value:?}", self.id));
                true
            }
            Running::Plain { operations, answered } => {
                self.answer(operations[answered], value, now, record);
                let finished = answered + 1 == operations.len();
                if !finished {
                    self.running = Running::Plain { operations, answered: answered + 1 };
                }
                finished
            }
            Running::Administering { order, operation } => {
                self.on_administered(&order, operation, value, now, record);
                true
            }
            Running::Once { operation, id, .. } => self.on_once_reply(operation, id, value, now, record, wishes),
            Running::Watching { watch, reads, answered, commands, failed } => {
                let failed = failed | matches!(value, Value::Error(_));
                if answered > 0 {
                    self.answer(reads[answered - 1], value, now, record);
                } else if let Value::Error(text) = &value {
                    self.note_error("WATCH", text, now, record);
                }
                if answered < reads.len() {
                    self.running = Running::Watching { watch, reads, answered: answered + 1, commands, failed };
                    false
                } else if failed {
                    encode_command(&mut wishes.send, ["UNWATCH"]);
                    if let Some(connection) = &mut self.connection {
                        connection.ignored += 1;
                    }
                    true
                } else {
                    self.execute(watch, &reads, commands, now, record, wishes);
                    false
                }
            }
            Running::Executing { operation, answered, refused } => {
                let commands = record.operations[operation].commands.len();
                if answered < commands + 1 {
                    let mut refused = refused;
                    match &value {
                        Value::Error(text) => {
                            self.note_error("MULTI or a queued command", text, now, record);
                            let is_for_a_while = answered > 0 && text.starts_with(NO_LEASE);
                            refused = refused.max(if is_for_a_while { Refused::ForAWhile } else { Refused::ForGood });
                        }
                        // Of a transaction over several partitions single commands are refused, too.
                        Value::Simple(text)
                            if (text == "OK") == (answered == 0)
                                && (refused < Refused::ForGood || self.mix.parted && answered > 0) => {}
                        other => record.unexpected.push(format!(
                            "client {}: reply {answered} within a transaction is {other:?}, refused: {refused:?}",
                            self.id
                        )),
                    }
                    self.running = Running::Executing { operation, answered: answered + 1, refused };
                    false
                } else {
                    self.on_executed(operation, value, refused > Refused::Nothing, now, record);
                    true
                }
            }
            Running::Several { operations } => {
                self.on_several(&operations, value, now, record);
                true
            }
            Running::Level(task) => self.on_level_reply(task, value, now, record),
            Running::Together { operation } => {
                self.on_together(operation, value, now, record);
                true
            }
            Running::Scanning { what, started, found } => {
                self.on_scan_reply(what, (started, found), value, now, record, wishes)
            }
        };
        let between = finished || matches!(self.running, Running::Once { .. });
        if between && std::mem::take(&mut self.selects_again) {
            wishes.close = true;
            self.connection = None;
        }
        if finished {
            let pause = if self.mode == Mode::Working { self.rng.below(self.mix.pause_max) } else { 0 };
            // Sometimes to another node, so that every node sees every kind of request.
            if self.mode == Mode::Working && self.rng.chance(1, 40) {
                wishes.close = true;
                self.connection = None;
                self.node = self.rng.below(u64::from(self.nodes)) as u16;
            }
            self.wake_in(pause, now, wishes);
        }
    }

    fn execute(
        &mut self,
        watch: Vec<String>,
        reads: &[usize],
        commands: Vec<Command>,
        now: u64,
        record: &mut Record,
        wishes: &mut Wishes,
    ) {
        let mut watched = Vec::new();
        for (key, &read) in watch.into_iter().zip(reads) {
            let value = match record.operations[read].replies.first() {
                Some(Reply::Text(value)) => Some(value.clone()),
                _ => None,
            };
            watched.push(Watched { key, value });
        }
        self.send_transaction(&commands, &mut wishes.send);
        self.sent_at = now;
        let operation = self.invoke(commands, now, record);
        record.operations[operation].watched = watched;
        self.running = Running::Executing { operation, answered: 0, refused: Refused::Nothing };
        let timeout = self.timeout;
        self.wake_in(timeout, now, wishes);
    }

    /// The answer to a single command.
    fn answer(&mut self, index: usize, value: Value, now: u64, record: &mut Record) {
        if let Value::Error(text) = &value {
            let what = format!("{:?}", record.operations[index].commands[0].op);
            let meaning = self.note_error(&what, text, now, record);
            if meaning == Meaning::Refused {
                note_refusal((index, 0), text, now, record);
            }
            let operation = &mut record.operations[index];
            let is_scripted = record.scripted.contains(&(operation.client, operation.invoke));
            if let ([command], false) = (operation.commands.as_slice(), is_scripted) {
                record.rooms.note_refusal(command, text, now);
            }
            operation.finish = Some(now);
            let is_certain = matches!(meaning, Meaning::NotDone | Meaning::Refused | Meaning::Absent);
            operation.outcome = if is_certain { Outcome::Failed } else { Outcome::Maybe };
            return;
        }
        let Some(reply) = reply_of(&record.operations[index].commands[0], value) else {
            let command = &record.operations[index].commands[0];
            record.unexpected.push(format!("client {}: {command:?}: a reply of an impossible kind", self.id));
            return;
        };
        let operation = &mut record.operations[index];
        if let (Op::Get, Reply::Text(value)) = (operation.commands[0].op, &reply)
            && value.len() < 1000
        {
            self.seen.insert(raw_key(&operation.commands[0].key).to_owned(), value.clone());
        }
        operation.finish = Some(now);
        operation.outcome = Outcome::Done;
        operation.replies = vec![reply];
        record.rooms.note_answer(index, self.node);
    }

    fn on_once_reply(
        &mut self,
        operation: usize,
        id: String,
        value: Value,
        now: u64,
        record: &mut Record,
        wishes: &mut Wishes,
    ) -> bool {
        if let Value::Error(text) = &value
            && !is_refusal(text)
        {
            // With an identifier it is safe to ask again, whatever became of it.
            if self.note_error("DICTUM.ONCE", text, now, record) != Meaning::Surprise {
                self.running = Running::Once { operation, id, sent: false };
                let delay = self.rng.between(MS, 200 * MS);
                self.wake_in(delay, now, wishes);
                return false;
            }
        }
        self.answer(operation, value, now, record);
        true
    }

    fn on_executed(&mut self, operation: usize, value: Value, refused: bool, now: u64, record: &mut Record) {
        let commands = record.operations[operation].commands.len();
        record.operations[operation].finish = Some(now);
        match value {
            Value::Null | Value::NullArray => record.operations[operation].outcome = Outcome::Failed,
            Value::Error(text) if refused && text == "ERR EXEC without MULTI" => {
                record.operations[operation].outcome = Outcome::Failed;
            }
            Value::Error(text) => {
                let meaning = self.note_error("EXEC", &text, now, record);
                if matches!(meaning, Meaning::NotDone | Meaning::Refused | Meaning::Absent) {
                    record.operations[operation].outcome = Outcome::Failed;
                }
            }
            Value::Array(values) if values.len() == commands && !refused => {
                let replies = replies_of_parts(operation, values, now, record);
                match replies {
                    Some(replies) => {
                        record.operations[operation].outcome = Outcome::Done;
                        record.operations[operation].replies = replies;
                    }
                    None => record.unexpected.push(format!("client {}: EXEC holds an error", self.id)),
                }
            }
            other => record.unexpected.push(format!("client {}: EXEC answered {other:?}", self.id)),
        }
    }

    /// The answer to one command whose parts are operations of their own.
    fn on_several(&mut self, operations: &[usize], value: Value, now: u64, record: &mut Record) {
        match value {
            Value::Array(values) if values.len() == operations.len() => {
                count(record, SEVERAL_READ);
                operations
                    .iter()
                    .zip(values)
                    .for_each(|(operation, value)| self.answer(*operation, value, now, record));
            }
            Value::Error(text) => {
                let error = |operation: &usize| (*operation, Value::Error(text.clone()));
                operations.iter().map(error).for_each(|(operation, error)| self.answer(operation, error, now, record));
            }
            other => record.unexpected.push(format!("client {}: MGET answered {other:?}", self.id)),
        }
    }

    /// The answer to one command that the history has as several.
    fn on_together(&mut self, index: usize, value: Value, now: u64, record: &mut Record) {
        if matches!(value, Value::Error(_)) {
            return self.answer(index, value, now, record);
        }
        let operation = &mut record.operations[index];
        let replies = replies_together(&mut operation.commands, value);
        match replies {
            Some(replies) => {
                operation.finish = Some(now);
                operation.outcome = Outcome::Done;
                operation.replies = replies;
            }
            None => record.unexpected.push(format!("client {}: a collection answered something else", self.id)),
        }
    }

    fn on_scan_reply(
        &mut self,
        what: Scanned,
        (started, mut found): (u64, BTreeSet<String>),
        value: Value,
        now: u64,
        record: &mut Record,
        wishes: &mut Wishes,
    ) -> bool {
        let (cursor, keys) = match value {
            Value::Error(text) => {
                self.note_error("SCAN", &text, now, record);
                return true;
            }
            Value::Array(parts) => match <[Value; 2]>::try_from(parts) {
                Ok([Value::Bulk(cursor), Value::Array(keys)]) => (cursor, keys),
                _ => {
                    record.unexpected.push(format!("client {}: SCAN answered something else", self.id));
                    return true;
                }
            },
            other => {
                record.unexpected.push(format!("client {}: SCAN answered {other:?}", self.id));
                return true;
            }
        };
        // Fields come with their values.
        for key in keys.into_iter().step_by(1 + usize::from(matches!(what, Scanned::Fields | Scanned::Scored))) {
            if let Value::Bulk(key) = key {
                found.insert(match what {
                    Scanned::Keys if self.bucket().is_empty() => text_of(&key),
                    Scanned::Keys => format!("{}/{}", self.bucket(), text_of(&key)),
                    Scanned::Fields => format!("{LASTING}#{}", text_of(&key)),
                    Scanned::Members => sets::scanned(&key),
                    Scanned::Scored => sorted::scanned(&key),
                });
            }
        }
        if cursor == b"0" {
            let scans = match what {
                Scanned::Keys if self.bucket().is_empty() => &mut record.scans,
                Scanned::Keys => {
                    count(record, PARTED_SCAN);
                    &mut record.parted_scans
                }
                Scanned::Fields => &mut record.hash_scans,
                Scanned::Members => &mut record.set_scans,
                Scanned::Scored => &mut record.sorted_scans,
            };
            scans.push(Scan { invoke: started, finish: now, found });
            return true;
        }
        self.send_scan(what, &cursor, &mut wishes.send);
        self.sent_at = now;
        self.running = Running::Scanning { what, started, found };
        let timeout = self.timeout;
        self.wake_in(timeout, now, wishes);
        false
    }

    pub(super) fn note_error(&mut self, what: &str, text: &str, now: u64, record: &mut Record) -> Meaning {
        if is_dropped(text) && self.bucket() == DROPPED {
            self.selects_again = true;
            return Meaning::NotDone;
        }
        let meaning = meaning_of(text);
        if matches!(meaning, Meaning::Refused | Meaning::Absent) {
            return meaning;
        }
        record.note_failure(text, now, format!("client {} at node {}: {what}: {text}", self.id, self.node));
        if meaning == Meaning::Surprise {
            record.unexpected.push(format!("client {}: {what} answered {text}", self.id));
        }
        meaning
    }
}

/// The answers to several commands of a history in that to the one that was sent.
pub(crate) fn replies_together(commands: &mut Vec<Command>, value: Value) -> Option<Vec<Reply>> {
    let key = commands.first().map_or("", |command| command.key.as_str());
    match () {
        () if sets::member_of(key).is_some() => sets::replies_together(commands, value),
        () if sorted::member_of(key).is_some() => sorted::replies_together(commands, value),
        () if places::member_of(key).is_some() => places::replies_together(commands, value),
        () if documents::member_of(key).is_some() => documents::replies_together(commands, value),
        () => hashes::replies_together(commands, value),
    }
}

/// What the commands of a transaction were answered, some of them perhaps that there is no room; none if that cannot be.
pub(crate) fn replies_of_parts(
    operation: usize,
    values: Vec<Value>,
    now: u64,
    record: &mut Record,
) -> Option<Vec<Reply>> {
    let mut replies = Some(Vec::new());
    for (place, value) in values.into_iter().enumerate() {
        let reply = match value {
            Value::Error(text) if text == NO_ROOM => {
                note_refusal((operation, place), &text, now, record);
                count(record, PART_REFUSED);
                Some(Reply::Refused { refused: text })
            }
            value => reply_of(&record.operations[operation].commands[place], value),
        };
        replies = replies.zip(reply).map(|(replies, reply)| [replies, vec![reply]].concat());
    }
    replies
}

/// A bucket's terms do not allow a command.
pub(crate) fn note_refusal((operation, place): (usize, usize), text: &str, at: u64, record: &mut Record) {
    count(record, if text == NO_ROOM { FULL_REFUSED } else { TOO_LONG_REFUSED });
    let Operation { commands, invoke, .. } = &record.operations[operation];
    let (command, span) = (commands[place].clone(), (*invoke, at));
    record.refusals.push(Refusal { command, span, text: text.to_owned() });
}

pub(crate) fn reply_of(command: &Command, value: Value) -> Option<Reply> {
    let mut value = value;
    let of_types = [
        sets::reply,
        sorted::reply,
        documents::reply,
        lists::reply,
        sketches::reply,
        places::reply,
        fading::reply,
        streams::reply,
    ];
    for reply in of_types {
        value = match reply(command, value) {
            Err(Some(of_another)) => of_another,
            said => return said.ok(),
        };
    }
    match value {
        Value::Array(_) | Value::Map(_) => hashes::reply(command, value),
        Value::Simple(text) => Some(Reply::Text(text)),
        Value::Bulk(bytes) => Some(Reply::Text(text_of(&bytes))),
        Value::Integer(number) => Some(Reply::Integer(number)),
        Value::Null | Value::NullArray => Some(Reply::Nil),
        _ => None,
    }
}
