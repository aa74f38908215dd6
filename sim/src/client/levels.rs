//! What a client does with counters at the various levels of durability and consistency. Everything of a task is sent at once, and the
//! connection is then at the usual levels again.

use wire::{Value, encode_command};

use super::replies::Meaning;
use super::{Client, Record, Running};
use crate::checkers::levels::{Kind, Sight};
use crate::history::raw_key;
use crate::workload::{BOUNDED, CACHED, DROPPED, IN_MEMORY, TIMED};

/// Tokens of a bucket that are kept to be shown to other nodes.
const TOKENS_KEPT: usize = 8;

/// What an answer is to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    SetLevel,
    Count,
    Get,
    Token,
    Age,
    UsualLevel,
}

/// A task under way.
#[derive(Debug)]
pub(super) struct LevelTask {
    steps: Vec<Step>,
    answered: usize,
    sight: Sight,
    /// The value is known, and was asked for at the level that was meant.
    valid: bool,
}

impl Client {
    /// Whether the next task is one of these.
    pub(super) fn turns_to_levels(&mut self) -> bool {
        // Counters do not only grow where they expire, are evicted, or have no room.
        self.mix.levels > 0
            && ![DROPPED, TIMED, BOUNDED, CACHED].contains(&self.bucket())
            && self.levels_rng.chance(self.mix.levels, 8)
    }

    /// Draws a task and sends it.
    pub(super) fn begin_level_task(&mut self, now: u64, record: &mut Record, send: &mut Vec<u8>) {
        let bucket = self.bucket().to_owned();
        let counter = format!("l{}", self.levels_rng.below(1 + self.mix.levels_seed % 2));
        let key = if bucket.is_empty() { counter } else { format!("{bucket}/{counter}") };
        let mut steps = Vec::new();
        let mut say = |step: Step, words: &[&str]| {
            encode_command(&mut *send, words);
            steps.push(step);
        };
        let kind = if self.levels_rng.chance(1, 2) {
            let level = *self.levels_rng.pick(&["", "majority", "all", "all"]);
            if !level.is_empty() {
                say(Step::SetLevel, &["DICTUM.DURABILITY", level]);
            }
            say(Step::Count, &["INCR", raw_key(&key)]);
            say(Step::Token, &["DICTUM.TOKEN"]);
            if !level.is_empty() {
                say(Step::UsualLevel, &["DICTUM.DURABILITY", "default"]);
            }
            record.levels.attempts.entry(key.clone()).or_default().push(now);
            Kind::Count
        } else {
            let kind = if self.levels_rng.chance(1, 3) {
                say(Step::SetLevel, &["DICTUM.CONSISTENCY", "local"]);
                Kind::Local(None)
            } else {
                let known = record.levels.tokens.get(&bucket).filter(|_| self.levels_rng.chance(4, 5));
                // The latest is what another node is least likely to have come to.
                let latest = self.levels_rng.chance(2, 3);
                let token = known.and_then(|tokens| {
                    if latest { tokens.last().cloned() } else { Some(self.levels_rng.pick(tokens).clone()) }
                });
                match &token {
                    Some(token) => say(Step::SetLevel, &["DICTUM.CONSISTENCY", "SESSION", token]),
                    None => say(Step::SetLevel, &["DICTUM.CONSISTENCY", "session"]),
                }
                Kind::Session(token)
            };
            say(Step::Get, &["GET", raw_key(&key)]);
            say(Step::Token, &["DICTUM.TOKEN"]);
            say(Step::Age, &["DICTUM.AGE"]);
            say(Step::UsualLevel, &["DICTUM.CONSISTENCY", "default"]);
            kind
        };
        let (client, connection) = (self.id, self.connections);
        let sight = Sight { key, client, connection, invoke: now, finish: now, value: 0, kind, token: None };
        self.running = Running::Level(Box::new(LevelTask { steps, answered: 0, sight, valid: true }));
    }

    /// An answer to one of its commands. Whether that was the last.
    pub(super) fn on_level_reply(
        &mut self,
        mut task: Box<LevelTask>,
        value: Value,
        now: u64,
        record: &mut Record,
    ) -> bool {
        let step = task.steps[task.answered];
        task.answered += 1;
        let sight = &mut task.sight;
        match (step, value) {
            // The bucket that the token was of has begun anew.
            (Step::SetLevel, Value::Error(text))
                if self.bucket() == IN_MEMORY && text.starts_with("ERR the token is of another bucket") =>
            {
                task.valid = false;
            }
            (step, Value::Error(text)) => {
                let meaning = self.note_error(&format!("{step:?} of a counter"), &text, now, record);
                task.valid &= matches!(step, Step::Token | Step::Age) && meaning != Meaning::Surprise;
            }
            (Step::SetLevel | Step::UsualLevel, Value::Simple(text)) if text == "OK" => {}
            (Step::Count, Value::Integer(sum)) => {
                sight.value = sum.unsigned_abs();
                sight.finish = now;
            }
            (Step::Get, Value::Null) => sight.finish = now,
            (Step::Get, Value::Bulk(bytes)) => {
                let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
                task.valid &= number.is_some();
                sight.value = number.unwrap_or_default();
                sight.finish = now;
            }
            (Step::Token, Value::Bulk(bytes)) => sight.token = String::from_utf8(bytes).ok(),
            (Step::Age, Value::Integer(age)) => {
                if let Kind::Local(known) = &mut sight.kind {
                    *known = Some(age.unsigned_abs());
                }
            }
            (Step::Age, Value::Null) => {}
            (step, other) => record.unexpected.push(format!("client {}: {step:?} answered {other:?}", self.id)),
        }
        let finished = task.answered == task.steps.len();
        if !finished {
            self.running = Running::Level(task);
        } else if task.valid {
            if let Some(token) = &task.sight.token {
                let tokens = record.levels.tokens.entry(self.bucket().to_owned()).or_default();
                tokens.push(token.clone());
                let surplus = tokens.len().saturating_sub(TOKENS_KEPT);
                tokens.drain(..surplus);
            }
            record.levels.sights.push(task.sight);
        }
        finished
    }
}
