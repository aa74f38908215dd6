//! What comes of a router's errands.

use wire::Value;

use super::errands::{AT_ONCE_MAX, Errand, FOLLOWED, ONCE_MOVED, REPLICA_READ, REPLICA_WRITE, TRANSACTION_MOVED, What};
use super::{Mode, REDIRECTIONS_MAX, Router, pictures};
use crate::chaos::MS;
use crate::checkers::levels::{Kind, Sight};
use crate::checkers::redirections::{Journey, Moved, Picture, node_of};
use crate::client::{Meaning, Record, count, is_dropped, meaning_of};
use crate::client::{note_refusal, replies_of_parts, replies_together, reply_of};
use crate::history::{Command, Op, Outcome, Reply, raw_key};
use crate::workload::DROPPED;

/// How often a command that was not done is tried again.
const TRIES_MAX: u32 = 40;

impl Router {
    /// Nothing more will come of what was asked where a connection was lost.
    pub(super) fn on_lost(&mut self, place: usize, was_sent: bool, now: u64, record: &mut Record) {
        let delay = self.rng.between(MS, 100 * MS);
        let errand = &mut self.errands[place];
        (errand.is_out, errand.due) = (false, now + delay);
        // In the calm a connection may be left that had broken before.
        let again = !errand.fixed && (!was_sent || errand.calm || matches!(errand.what, What::Once(_)));
        if again {
            (errand.node, errand.doubtful) = (None, errand.doubtful || was_sent);
        } else if !(errand.fixed && errand.calm) {
            // Of what was asked no more is known than that it may happen, which is how it was written down.
            errand.done = true;
        }
        self.note_try(place, record);
    }

    /// An answer of a node to an errand.
    pub(super) fn on_answer(&mut self, (node, place): (u16, usize), value: Value, now: u64, record: &mut Record) {
        let errand = &mut self.errands[place];
        errand.got.push(value);
        if errand.got.len() < errand.answers {
            return;
        }
        errand.is_out = false;
        let got = std::mem::take(&mut errand.got);
        let slot = errand.slot;
        let moved = got.iter().filter_map(|value| match value {
            Value::Error(text) if text.starts_with("MOVED") => Some(text.clone()),
            _ => None,
        });
        let moved: Vec<String> = moved.collect();
        let note = |text: &String| Moved { by: node, slot, text: text.clone(), at: now };
        record.redirections.moved.extend(moved.iter().map(note));
        match self.errands[place].what.clone() {
            What::Size => self.on_size(place, got, record),
            What::Picture { shards } => self.on_picture((node, place), shards, got, now, record),
            What::Sights { key, asked } => self.on_sights((node, place), &key, asked, got, now, record),
            what => {
                if let (What::Transaction(_), false) = (&what, is_well_formed(&got)) {
                    record.unexpected.push(format!("router {}: a transaction answered {got:?}", self.id));
                }
                match moved.into_iter().next() {
                    Some(text) => self.on_moved((node, place), text, now, record),
                    None => self.on_value((node, place), &what, got, now, record),
                }
            }
        }
    }

    fn on_moved(&mut self, (node, place): (u16, usize), text: String, now: u64, record: &mut Record) {
        count(record, FOLLOWED);
        let to = text.split(' ').nth(2).and_then(node_of);
        let to = to.filter(|to| self.listeners.get(usize::from(*to)) == Some(&true));
        let errand = &mut self.errands[place];
        match errand.what {
            What::Transaction(_) => count(record, TRANSACTION_MOVED),
            What::Once(_) => count(record, ONCE_MOVED),
            _ => {}
        }
        errand.stations.push((node, text));
        errand.hops += 1;
        (errand.node, errand.due) = (to, now);
        let (slot, is_too_often) = (errand.slot, errand.hops > REDIRECTIONS_MAX);
        if let Some(to) = to {
            self.moved.insert(slot, to);
        }
        if is_too_often {
            self.give_up(place, "too many redirections", now, record);
        }
        if self.mode != Mode::Looking {
            self.ask_for_picture();
        }
    }

    /// The answer, if it was not that another node should be asked.
    fn on_value(
        &mut self,
        (node, place): (u16, usize),
        what: &What,
        mut got: Vec<Value>,
        now: u64,
        record: &mut Record,
    ) {
        let Some(value) = got.pop() else { return };
        if let Value::Error(text) = &value {
            // Why a transaction was given up, its parts say.
            let text = got.iter().find_map(Value::as_error).unwrap_or(text.as_str());
            return self.on_error((node, place), what, text.to_owned(), now, record);
        }
        self.errands[place].done = true;
        let told = format!("{value:?}");
        let (index, replies) = match what {
            What::Count { key, asked } => {
                let Value::Integer(sum) = value else {
                    return record.unexpected.push(format!("router {}: INCR answered {value:?}", self.id));
                };
                let sight = self.sight(place, key, (*asked, now), sum.unsigned_abs(), Kind::Count);
                return record.levels.sights.push(sight);
            }
            What::Plain(index) | What::Once(index) => {
                let replies = reply_of(&record.operations[*index].commands[0], value).map(|reply| vec![reply]);
                (*index, replies)
            }
            What::Together(index) => (*index, replies_together(&mut record.operations[*index].commands, value)),
            What::Transaction(index) => match value {
                Value::Array(values) if values.len() == record.operations[*index].commands.len() => {
                    (*index, replies_of_parts(*index, values, now, record))
                }
                _ => (*index, None),
            },
            What::Sights { .. } | What::Picture { .. } | What::Size => return,
        };
        let operation = &mut record.operations[index];
        match replies {
            Some(replies) => {
                if let ([Command { op: Op::Get, key, .. }], [Reply::Text(value)]) =
                    (operation.commands.as_slice(), replies.as_slice())
                    && value.len() < 1000
                {
                    self.seen.insert(raw_key(key).to_owned(), value.clone());
                }
                (operation.finish, operation.outcome) = (Some(now), Outcome::Done);
                operation.replies = replies;
            }
            None => {
                let commands = operation.commands.clone();
                record.unexpected.push(format!("router {}: {commands:?} answered {told:.200}", self.id));
            }
        }
        self.arrive(place, true, record);
    }

    fn on_error(&mut self, (node, place): (u16, usize), what: &What, text: String, now: u64, record: &mut Record) {
        let meaning = match meaning_of(&text) {
            _ if is_dropped(&text) && self.bucket == DROPPED => Meaning::NotDone,
            // MULTI was refused, and then so was all else.
            _ if matches!(what, What::Transaction(_)) && text == "ERR EXEC without MULTI" => Meaning::NotDone,
            meaning => meaning,
        };
        self.errands[place].stations.push((node, text.clone()));
        let is_once = matches!(what, What::Once(_));
        if !matches!(meaning, Meaning::Refused | Meaning::Absent) {
            record.note_failure(&text, now, format!("router {} at node {node}: {text}", self.id));
        }
        match meaning {
            Meaning::Surprise => {
                self.errands[place].done = true;
                record.unexpected.push(format!("router {}: {what:?} answered {text}", self.id));
            }
            Meaning::NotDone => self.try_again(place, now, record),
            Meaning::Unknown if is_once => {
                self.errands[place].doubtful = true;
                self.try_again(place, now, record);
            }
            Meaning::Refused | Meaning::Absent => {
                if let (Meaning::Refused, What::Plain(index) | What::Once(index)) = (meaning, what) {
                    note_refusal((*index, 0), &text, now, record);
                }
                self.end(place, Outcome::Failed, now, record);
            }
            Meaning::Unknown => self.end(place, Outcome::Maybe, now, record),
        }
    }

    fn try_again(&mut self, place: usize, now: u64, record: &mut Record) {
        let delay = self.rng.between(20 * MS, 200 * MS);
        let errand = &mut self.errands[place];
        (errand.node, errand.due) = (errand.node.filter(|_| errand.fixed), now + delay);
        if !errand.calm {
            errand.hops = 0;
        }
        if self.mode != Mode::Looking && self.rng.chance(1, 2) {
            self.ask_for_picture();
        }
        self.note_try(place, record);
    }

    /// It does not go on for ever.
    fn note_try(&mut self, place: usize, record: &mut Record) {
        self.errands[place].tries += 1;
        if self.errands[place].tries > TRIES_MAX && !self.errands[place].done {
            let due = self.errands[place].due;
            self.give_up(place, "tried too often", due, record);
        }
    }

    fn give_up(&mut self, place: usize, reason: &str, now: u64, record: &mut Record) {
        record.last_failure = now;
        record.last_failure_reason = format!("router {}: {reason}: {:?}", self.id, self.errands[place].stations);
        let outcome = if self.errands[place].doubtful { Outcome::Maybe } else { Outcome::Failed };
        self.end(place, outcome, now, record);
    }

    /// It ends without an answer to be believed.
    fn end(&mut self, place: usize, outcome: Outcome, now: u64, record: &mut Record) {
        self.errands[place].done = true;
        if let What::Plain(index) | What::Together(index) | What::Transaction(index) | What::Once(index) =
            self.errands[place].what
        {
            let operation = &mut record.operations[index];
            (operation.finish, operation.outcome) = (Some(now), outcome);
        }
        self.arrive(place, false, record);
    }

    /// In the calm at the end it is told what a command went through.
    fn arrive(&self, place: usize, answered: bool, record: &mut Record) {
        let Errand { slot, stations, hops, calm, .. } = &self.errands[place];
        if *calm {
            let journey = Journey { slot: *slot, stations: stations.clone(), hops: *hops, answered };
            record.redirections.journeys.push(journey);
        }
    }

    fn on_picture(
        &mut self,
        (node, place): (u16, usize),
        shards: bool,
        got: Vec<Value>,
        now: u64,
        record: &mut Record,
    ) {
        let Some(value) = got.into_iter().next() else { return };
        if let Value::Error(text) = &value {
            if meaning_of(text) != Meaning::NotDone && !is_dropped(text) {
                record.unexpected.push(format!("router {}: a picture is {text}", self.id));
            }
            self.wants_picture = true;
            return if self.errands[place].calm {
                self.try_again(place, now, record);
            } else {
                self.errands[place].done = true;
            };
        }
        self.errands[place].done = true;
        match if shards { pictures::of_shards(value) } else { pictures::of_slots(value) } {
            Ok(ranges) => {
                let slot = |number: i64| u16::try_from(number).unwrap_or(u16::MAX);
                let shown = ranges.iter().filter_map(|it| Some((slot(it.first), slot(it.last), node_of(&it.master)?)));
                self.picture = shown.collect();
                self.moved.clear();
                record.redirections.pictures.push(Picture { by: node, ranges, at: now });
            }
            Err(text) => record.unexpected.push(format!("router {}: a picture: {text}", self.id)),
        }
    }

    /// A node without keys has an answer, too.
    fn on_size(&mut self, place: usize, got: Vec<Value>, record: &mut Record) {
        self.errands[place].done = true;
        match got.first() {
            Some(Value::Integer(_)) => {}
            Some(Value::Error(text)) if meaning_of(text) != Meaning::Surprise || is_dropped(text) => {}
            other => record.unexpected.push(format!("router {}: DBSIZE answered {other:?}", self.id)),
        }
    }

    fn sight(&self, place: usize, key: &str, (invoke, finish): (u64, u64), value: u64, kind: Kind) -> Sight {
        let (client, connection) = (self.id * AT_ONCE_MAX, self.errands[place].connection);
        Sight { key: key.to_owned(), client, connection, invoke, finish, value, kind, token: None }
    }

    /// What was seen under READONLY.
    fn on_sights(
        &mut self,
        (node, place): (u16, usize),
        key: &str,
        asked: u64,
        got: Vec<Value>,
        now: u64,
        record: &mut Record,
    ) {
        self.errands[place].done = true;
        let (first, last) = (got.first(), got.last());
        let is_ok = |value: Option<&Value>| matches!(value, Some(Value::Simple(text)) if text == "OK");
        if !is_ok(last) {
            // It might go on reading old values.
            self.spoiled = Some(node);
        }
        if !is_ok(first) {
            return;
        }
        for (number, value) in got[1..got.len() - 1].iter().enumerate() {
            let kind = if number == 1 { Kind::Count } else { Kind::Session(None) };
            let seen = match (&kind, value) {
                (Kind::Count, Value::Integer(sum)) => {
                    count(record, REPLICA_WRITE);
                    sum.unsigned_abs()
                }
                (Kind::Session(_), Value::Null) => 0,
                (Kind::Session(_), Value::Bulk(bytes)) => {
                    count(record, REPLICA_READ);
                    let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
                    let Some(number) = number else {
                        record.unexpected.push(format!("router {}: {key} is {value:?}", self.id));
                        continue;
                    };
                    number
                }
                // The counter's leader is elsewhere; or all of it, where the node has no copy.
                (_, Value::Error(text)) if text.starts_with("MOVED ") => continue,
                (_, Value::Error(text)) if meaning_of(text) != Meaning::Surprise => continue,
                _ => {
                    record.unexpected.push(format!("router {}: under READONLY {key} answered {value:?}", self.id));
                    continue;
                }
            };
            let sight = self.sight(place, key, (asked, now), seen, kind);
            record.levels.sights.push(sight);
        }
    }
}

/// Whether nothing is done of a transaction of which a part was refused or sent elsewhere.
fn is_well_formed(got: &[Value]) -> bool {
    let Some((last, queued)) = got.split_last() else { return false };
    let is_error = |value: &Value| matches!(value, Value::Error(_));
    if queued.first().is_some_and(is_error) {
        // Then nothing of it may be done by itself, either.
        return got.iter().all(is_error);
    }
    !queued.iter().any(is_error) || is_error(last)
}
