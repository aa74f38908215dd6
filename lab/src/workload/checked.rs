//! `checked`: what the checker of histories understands, so mixed that mistakes show: few keys that everyone changes at once, and many
//! that are rarely touched, where something lost would lie unnoticed until the end.
//!
//! | keys | are | by |
//! |---|---|---|
//! | `r:…` | registers | GET, SET, GET and then compare-and-set of what was read |
//! | `n:…` | counters | GET, INCR |
//! | `l:…` | logs that grow | GET, APPEND |
//! | `q:…` | queues | LPUSH, RPOP |
//! | `t:…` | accounts | GET, MULTI DECRBY INCRBY GET EXEC, MULTI GET GET EXEC |
//!
//! Everyone moves on to fresh hot keys after so many operations: the history of one key stays short enough to be checked, and a log short
//! enough to be read. Every value is written once in a run. The keys must not exist before; nothing is loaded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Rng;

use super::{Draft, Draw, Follow, Mix, Parameters, Shape, Workload, push_decimal};
use crate::drive::Answer;
use crate::history::words::COMPARE_AND_SET;

/// The workload's description.
pub const SHAPE: Shape = Shape {
    name: "checked",
    sentence: "few hot and many cold keys, got, set, compared and set, incremented, appended to, queued in, and changed by transactions; for verify",
    parameters: &[
        "records (cold keys)",
        "mix (read, set, compare-and-set, increment, append, transfer, snapshot, push, take)",
    ],
    build,
};

/// Hot keys of each kind.
const HOT: u64 = 3;
/// Of 100 operations so many go to hot keys.
const HOT_PERCENT: u64 = 60;
/// After so many operations of everyone, hot keys are others.
const GENERATION: u64 = 2_000;
/// The shares of the kinds of operation.
const SHARES: [(&str, f64); 9] = [
    ("read", 34.0),
    ("set", 20.0),
    ("compare-and-set", 10.0),
    ("increment", 12.0),
    ("append", 8.0),
    ("transfer", 10.0),
    ("snapshot", 6.0),
    ("push", 4.0),
    ("take", 4.0),
];
const READ: usize = 0;
const SET: usize = 1;
const COMPARE_AND_SET_KIND: usize = 2;
const INCREMENT: usize = 3;
const APPEND: usize = 4;
const TRANSFER: usize = 5;
const PUSH: usize = 7;
const TAKE: usize = 8;

struct Checked {
    cold: u64,
    mix: Mix,
    /// Operations drawn so far, of all threads.
    sequence: Arc<AtomicU64>,
    prefix: Arc<str>,
}

fn build(parameters: &Parameters) -> Result<Box<dyn Workload>, String> {
    // A place has 32 bits for the key's number.
    let cold = parameters.records_or(10_000)?.min(u64::from(u32::MAX));
    let mix = Mix::new(&SHARES, parameters.mix.as_deref())?;
    Ok(Box::new(Checked { cold, mix, sequence: Arc::default(), prefix: parameters.prefix.as_str().into() }))
}

impl Workload for Checked {
    fn kinds(&self) -> Vec<String> {
        self.mix.names()
    }

    fn records(&self) -> u64 {
        0
    }

    fn load(&self, _number: u64, _draft: &mut Draft) {}

    fn draw(&self, seed: u64) -> Result<Box<dyn Draw>, String> {
        let (mix, sequence, prefix) = (self.mix.clone(), Arc::clone(&self.sequence), Arc::clone(&self.prefix));
        Ok(Box::new(Drawer { cold: self.cold, mix, sequence, prefix, rng: Rng::new(seed) }))
    }
}

struct Drawer {
    cold: u64,
    mix: Mix,
    sequence: Arc<AtomicU64>,
    prefix: Arc<str>,
    rng: Rng,
}

/// Which key of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Of hot keys the generation, from 1; 0 for cold keys.
    generation: u32,
    number: u32,
}

impl Place {
    fn token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.number)
    }

    fn of_token(token: u64) -> Place {
        Place { generation: (token >> 32) as u32, number: token as u32 }
    }

    fn write(self, out: &mut Vec<u8>, prefix: &str, kind: u8) {
        out.extend_from_slice(prefix.as_bytes());
        out.extend_from_slice(&[kind, b':']);
        if self.generation == 0 {
            out.extend_from_slice(b"cold");
        } else {
            push_decimal(out, u64::from(self.generation));
        }
        out.push(b':');
        push_decimal(out, u64::from(self.number));
    }
}

impl Drawer {
    fn place(&mut self, sequence: u64) -> Place {
        if self.rng.chance(HOT_PERCENT, 100) {
            let generation = u32::try_from(sequence / GENERATION + 1).unwrap_or(u32::MAX);
            Place { generation, number: self.rng.below(HOT) as u32 }
        } else {
            Place { generation: 0, number: self.rng.below(self.cold) as u32 }
        }
    }

    /// Two accounts of which each may be changed together with the other: cold ones are pairs, or transactions would join all keys.
    fn accounts(&mut self, place: Place) -> (Place, Place) {
        if place.generation == 0 {
            let pair = [place.number & !1, place.number | 1].map(|number| Place { number, ..place });
            if self.rng.chance(1, 2) { (pair[0], pair[1]) } else { (pair[1], pair[0]) }
        } else {
            let other = (u64::from(place.number) + 1 + self.rng.below(HOT - 1)) % HOT;
            (place, Place { number: other as u32, ..place })
        }
    }
}

fn value(out: &mut Vec<u8>, client: u32, sequence: u64) {
    push_decimal(out, u64::from(client));
    out.push(b'-');
    push_decimal(out, sequence);
}

impl Draw for Drawer {
    fn next(&mut self, client: u32, draft: &mut Draft) -> bool {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let (place, prefix) = (self.place(sequence), Arc::clone(&self.prefix));
        draft.kind = self.mix.draw(&mut self.rng);
        match draft.kind {
            READ => {
                let kind = *self.rng.pick(b"rnlt");
                draft.command(b"GET").word_with(|out| place.write(out, &prefix, kind));
            }
            SET => {
                draft.command(b"SET").word_with(|out| place.write(out, &prefix, b'r'));
                draft.word_with(|out| value(out, client, sequence));
            }
            COMPARE_AND_SET_KIND => {
                draft.command(b"GET").word_with(|out| place.write(out, &prefix, b'r'));
                draft.follow = true;
                draft.token = place.token();
            }
            PUSH => {
                draft.command(b"LPUSH").word_with(|out| place.write(out, &prefix, b'q'));
                draft.word_with(|out| value(out, client, sequence));
            }
            TAKE => {
                draft.command(b"RPOP").word_with(|out| place.write(out, &prefix, b'q'));
            }
            INCREMENT => {
                draft.command(b"INCR").word_with(|out| place.write(out, &prefix, b'n'));
            }
            APPEND => {
                draft.command(b"APPEND").word_with(|out| place.write(out, &prefix, b'l'));
                draft.word_with(|out| {
                    value(out, client, sequence);
                    out.push(b' ');
                });
            }
            TRANSFER => {
                let (from, to) = self.accounts(place);
                let amount = self.rng.between(1, 9);
                draft.command(b"MULTI");
                draft.command(b"DECRBY").word_with(|out| from.write(out, &prefix, b't')).number(amount);
                draft.command(b"INCRBY").word_with(|out| to.write(out, &prefix, b't')).number(amount);
                draft.command(b"GET").word_with(|out| from.write(out, &prefix, b't'));
                draft.command(b"EXEC");
            }
            _ => {
                let (one, other) = self.accounts(place);
                draft.command(b"MULTI");
                draft.command(b"GET").word_with(|out| one.write(out, &prefix, b't'));
                draft.command(b"GET").word_with(|out| other.write(out, &prefix, b't'));
                draft.command(b"EXEC");
            }
        }
        true
    }

    fn follow(&mut self, client: u32, answer: &Answer<'_>, draft: &mut Draft) -> Follow {
        let (place, prefix) = (Place::of_token(draft.token), Arc::clone(&self.prefix));
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        match answer.value().as_ref().and_then(wire::Value::as_bytes) {
            Some(read) => {
                draft.command(b"EVAL").word(COMPARE_AND_SET.as_bytes()).word(b"1");
                draft.word_with(|out| place.write(out, &prefix, b'r')).word(read);
                draft.word_with(|out| value(out, client, sequence));
            }
            None => {
                draft.command(b"SET").word_with(|out| place.write(out, &prefix, b'r'));
                draft.word_with(|out| value(out, client, sequence)).word(b"NX");
            }
        }
        Follow::Again
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::drive::Kind;

    fn commands(draft: &Draft) -> Vec<Vec<String>> {
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        draft.commands().map(|words| words.map(text).collect()).collect()
    }

    fn drawn(mix: &str, count: usize) -> Vec<Vec<Vec<String>>> {
        let mix = (!mix.is_empty()).then(|| super::super::parse_mix(mix).expect("a mix"));
        let workload = build(&Parameters { records: Some(10), mix, ..Parameters::default() }).expect("it is right");
        let mut draw = workload.draw(3).expect("it is right");
        let mut draft = Draft::default();
        let next = |_| {
            draft.clear();
            assert!(draw.next(4, &mut draft));
            commands(&draft)
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn transactions_join_few_keys_and_move_money_between_two() {
        for commands in drawn("transfer=1", 3 * GENERATION as usize) {
            let names: Vec<&str> = commands.iter().map(|words| words[0].as_str()).collect();
            assert_eq!(names, ["MULTI", "DECRBY", "INCRBY", "GET", "EXEC"]);
            let (from, to) = (&commands[1][1], &commands[2][1]);
            assert!(from != to && from.rsplit_once(':').map(|it| it.0) == to.rsplit_once(':').map(|it| it.0));
            if let Some(number) = from.strip_prefix("t:cold:") {
                let other: u64 = to.strip_prefix("t:cold:").and_then(|it| it.parse().ok()).expect("a number");
                assert_eq!(number.parse::<u64>().expect("a number") / 2, other / 2);
            }
        }
    }

    #[test]
    fn values_differ_and_hot_keys_change() {
        let sets = drawn("set=1", 3 * GENERATION as usize);
        let values: BTreeSet<&str> = sets.iter().map(|commands| commands[0][2].as_str()).collect();
        assert_eq!(values.len(), sets.len());
        let keys: BTreeSet<&str> = sets.iter().map(|commands| commands[0][1].as_str()).collect();
        assert_eq!(keys.len() as u64, 3 * HOT + 10);
        let kinds: BTreeSet<String> = drawn("", 500).into_iter().map(|commands| commands[0][0].clone()).collect();
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["APPEND", "GET", "INCR", "LPUSH", "MULTI", "RPOP", "SET"]);
    }

    #[test]
    fn keys_begin_as_is_asked() {
        let workload = build(&Parameters { prefix: "run7:".to_owned(), ..Parameters::default() }).expect("it is right");
        let mut draw = workload.draw(3).expect("it is right");
        for _ in 0..200 {
            let mut draft = Draft::default();
            assert!(draw.next(4, &mut draft));
            let keys = commands(&draft).into_iter().filter(|words| words.len() > 1).map(|words| words[1].clone());
            assert!(keys.into_iter().all(|key| key.starts_with("run7:")));
        }
    }

    #[test]
    fn what_was_read_is_compared() {
        let workload = build(&Parameters::default()).expect("it is right");
        let mut draw = workload.draw(3).expect("it is right");
        for (answer, kind, name) in [(&b"$1\r\nx\r\n"[..], Kind::Value, "EVAL"), (b"$-1\r\n", Kind::Nothing, "SET")] {
            let mut draft = Draft::default();
            draft.token = Place { generation: 2, number: 1 }.token();
            assert_eq!(draw.follow(0, &Answer::resp(answer, kind), &mut draft), Follow::Again);
            let words = commands(&draft).remove(0);
            assert!(words[0] == name && words.contains(&"r:2:1".to_owned()), "{words:?}");
        }
    }
}
