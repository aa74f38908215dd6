//! What a client asks: tasks as bytes for the node.

use std::collections::BTreeSet;

use wire::encode_command;

use super::{Client, Mode, Record, Refused, Running, Scanned, Wishes};
use crate::chaos::MS;
use crate::hashes::{self, LASTING, elements_bytes, key_of};
use crate::history::{Command, Op, Operation, Outcome, bucket_of, raw_key};
use crate::workload::Task;
use crate::{documents, lists, places, sets, sketches, sorted, streams};

/// The beginning of a refusal at the bound of writes on their way.
const CROWDED: &str = "CLUSTERDOWN too many requests are waiting";

impl Record {
    /// A client was answered with an error that is a failure of the cluster's.
    pub(crate) fn note_failure(&mut self, text: &str, now: u64, reason: String) {
        if self.is_crowded && text.starts_with(CROWDED) {
            return;
        }
        (self.last_failure, self.last_failure_reason) = (now, reason);
    }

    /// A client asks for something: the number of the operation, to be answered.
    pub(crate) fn invoke(&mut self, client: u64, commands: Vec<Command>, now: u64) -> usize {
        for command in &commands {
            let value = command.argument.as_ref().map_or(0, String::len);
            let longest = self.longest.entry(bucket_of(&command.key).to_owned()).or_default();
            *longest = (*longest).max((command.key.len() + value) as u64);
        }
        let elements: u64 = commands.iter().map(elements_of).sum();
        if let Some(command) = commands.first().filter(|_| elements > 0) {
            let most = self.elements.entry(bucket_of(&command.key).to_owned()).or_default();
            *most = (*most).max(elements);
        }
        // Until an answer says otherwise, all that is known is that it may happen.
        self.operations.push(Operation {
            client,
            commands,
            watched: Vec::new(),
            invoke: now,
            finish: None,
            outcome: Outcome::Maybe,
            replies: Vec::new(),
        });
        self.operations.len() - 1
    }
}

impl Client {
    pub(super) fn invoke(&self, commands: Vec<Command>, now: u64, record: &mut Record) -> usize {
        record.invoke(self.id, commands, now)
    }

    /// Begins the next thing, or goes on with what a lost connection interrupted.
    pub(super) fn begin(&mut self, now: u64, record: &mut Record, wishes: &mut Wishes) {
        let mut send = std::mem::take(&mut wishes.send);
        self.sent_at = now;
        self.leaves_at = None;
        if let Running::Once { operation, id, sent } = &mut self.running {
            *sent = true;
            let mut words = vec![b"DICTUM.ONCE".to_vec(), id.clone().into_bytes()];
            words.extend(record.operations[*operation].commands[0].words());
            encode_command(&mut send, words);
        } else if let Some(order) = self.orders.pop_front() {
            self.send_order(order, now, record, &mut send);
        } else if self.mode == Mode::Working && self.turns_to_levels() {
            self.begin_level_task(now, record, &mut send);
        } else {
            let task = match self.mode {
                Mode::Working => {
                    let (id, values) = (self.id, &mut self.values);
                    let mut unique = || {
                        *values += 1;
                        format!("c{id}n{values}")
                    };
                    let task = self.mix.draw_task(&mut self.rng, &self.seen, &mut unique);
                    in_bucket(self.bucket(), task)
                }
                Mode::Reading if !self.final_keys.is_empty() => {
                    let keys = self.final_keys.split_off(self.final_keys.len().saturating_sub(16));
                    Task::Plain(keys.into_iter().map(|key| Command::new(Op::Get, key)).collect())
                }
                Mode::Reading if !self.final_commands.is_empty() => {
                    Task::Plain(std::mem::take(&mut self.final_commands))
                }
                Mode::Reading | Mode::Draining | Mode::Done => {
                    if self.mode == Mode::Reading {
                        self.mode = Mode::Done;
                    }
                    // A new connection's HELLO goes out all the same: its answer is awaited.
                    wishes.send = send;
                    return;
                }
            };
            let waits = match &task {
                Task::Plain(commands) => {
                    commands.len() == 1 && commands[0].op == Op::Pop && commands[0].argument.is_some()
                }
                _ => false,
            };
            if waits && self.mode == Mode::Working && self.leaving_rng.chance(1, 4) {
                self.leaves_at = Some(now + self.leaving_rng.between(MS, 500 * MS));
            }
            self.send_task(task, now, record, &mut send);
        }
        wishes.send = send;
        let wakes_in = self.leaves_at.map_or(self.timeout, |at| self.timeout.min(at - now));
        self.wake_in(wakes_in, now, wishes);
    }

    fn send_task(&mut self, task: Task, now: u64, record: &mut Record, send: &mut Vec<u8>) {
        self.running = match task {
            Task::Plain(commands) => {
                let mut operations = Vec::new();
                for command in commands {
                    if self.scripts.send(&command, self.mix.parted, send) {
                        record.scripted.insert((self.id, now));
                    }
                    operations.push(self.invoke(vec![command], now, record));
                }
                Running::Plain { operations, answered: 0 }
            }
            Task::Once(command) => {
                self.values += 1;
                let id = format!("once-{}-{}", self.id, self.values);
                let mut words = vec![b"DICTUM.ONCE".to_vec(), id.clone().into_bytes()];
                words.extend(command.words());
                encode_command(send, words);
                let operation = self.invoke(vec![command], now, record);
                Running::Once { operation, id, sent: true }
            }
            Task::Transaction { watch, commands } if watch.is_empty() => {
                let answered = if self.scripts.send_several(&commands, self.mix.parted, send) {
                    // One answer, as if MULTI and all that was queued had been answered already.
                    commands.len() + 1
                } else {
                    self.send_transaction(&commands, send);
                    0
                };
                let operation = self.invoke(commands, now, record);
                Running::Executing { operation, answered, refused: Refused::Nothing }
            }
            Task::Transaction { watch, commands } => {
                let mut words = vec!["WATCH"];
                words.extend(watch.iter().map(|key| key_of(key)));
                encode_command(send, words);
                let mut reads = Vec::new();
                for key in &watch {
                    let read = Command::new(Op::Get, key.clone());
                    encode_command(send, read.words());
                    reads.push(self.invoke(vec![read], now, record));
                }
                Running::Watching { watch, reads, answered: 0, commands, failed: false }
            }
            Task::Several(commands) => {
                let keys = commands.iter().map(|command| raw_key(&command.key).as_bytes().to_vec());
                encode_command(send, std::iter::once(b"MGET".to_vec()).chain(keys).collect::<Vec<_>>());
                let operations = commands.into_iter().map(|command| self.invoke(vec![command], now, record)).collect();
                Running::Several { operations }
            }
            Task::Scan | Task::HashScan | Task::SetScan | Task::SortedScan => {
                let what = match task {
                    Task::HashScan => Scanned::Fields,
                    Task::SetScan => Scanned::Members,
                    Task::SortedScan => Scanned::Scored,
                    _ => Scanned::Keys,
                };
                self.send_scan(what, b"0", send);
                Running::Scanning { what, started: now, found: BTreeSet::new() }
            }
            Task::Together(commands) => {
                encode_command(send, words_together(&commands));
                Running::Together { operation: self.invoke(commands, now, record) }
            }
        };
    }

    pub(super) fn send_transaction(&self, commands: &[Command], send: &mut Vec<u8>) {
        send.extend(words_of_transaction(commands));
    }

    pub(super) fn send_scan(&mut self, what: Scanned, cursor: &[u8], send: &mut Vec<u8>) {
        let count = self.rng.between(1, 30).to_string();
        let count = count.as_bytes();
        let words: Vec<&[u8]> = match what {
            Scanned::Keys => vec![b"SCAN", cursor, b"MATCH", b"s:*", b"COUNT", count],
            Scanned::Fields => vec![b"HSCAN", LASTING.as_bytes(), cursor, b"COUNT", count],
            Scanned::Members => vec![b"SSCAN", sets::LASTING.as_bytes(), cursor, b"COUNT", count],
            Scanned::Scored => vec![b"ZSCAN", sorted::LASTING.as_bytes(), cursor, b"COUNT", count],
        };
        encode_command(send, words);
    }
}

fn elements_of(command: &Command) -> u64 {
    let value = command.argument.as_ref().map_or(0, |value| value.len() as u64);
    let of_types = [
        sets::elements_bytes,
        sorted::elements_bytes,
        documents::elements_bytes,
        lists::elements_bytes,
        sketches::elements_bytes,
        places::elements_bytes,
        streams::elements_bytes,
    ];
    elements_bytes(&command.key, value) + of_types.iter().map(|bytes| bytes(&command.key)).sum::<u64>()
}

/// A transaction as it is sent.
pub(crate) fn words_of_transaction(commands: &[Command]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_command(&mut bytes, ["MULTI"]);
    for command in commands {
        encode_command(&mut bytes, command.words());
    }
    encode_command(&mut bytes, ["EXEC"]);
    bytes
}

/// One command on several fields or members.
pub(crate) fn words_together(commands: &[Command]) -> Vec<Vec<u8>> {
    let key = commands.first().map_or("", |command| command.key.as_str());
    let words = match () {
        () if sets::member_of(key).is_some() => sets::words_together,
        () if sorted::member_of(key).is_some() => sorted::words_together,
        () if places::member_of(key).is_some() => places::words_together,
        () if documents::member_of(key).is_some() => documents::words_together,
        () => hashes::words_together,
    };
    words(commands)
}

/// The same task on keys of a bucket.
pub(crate) fn in_bucket(bucket: &str, mut task: Task) -> Task {
    if bucket.is_empty() {
        return task;
    }
    let name = |key: &mut String| key.insert_str(0, &format!("{bucket}/"));
    match &mut task {
        Task::Plain(commands) | Task::Several(commands) => {
            commands.iter_mut().for_each(|command| name(&mut command.key));
        }
        Task::Once(command) => name(&mut command.key),
        Task::Transaction { watch, commands } => {
            watch.iter_mut().for_each(name);
            commands.iter_mut().for_each(|command| name(&mut command.key));
        }
        Task::Together(commands) => commands.iter_mut().for_each(|command| name(&mut command.key)),
        Task::Scan | Task::HashScan | Task::SetScan | Task::SortedScan => {}
    }
    task
}
