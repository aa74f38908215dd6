//! The checker against forged histories, against random ones, and against a checker that only tries everything.

mod brute;
mod files;
mod forged;
mod random;

use super::operation::{Answer, Ask, End, Operation, Outcome, Step};
use super::{Checked, Limits, Value, check};

fn value(text: &str) -> Value {
    Value::new(text.as_bytes())
}

fn set(client: u32, from: u64, until: u64, key: &str, text: &str) -> Operation {
    Operation::done(client, from, until, key.as_bytes(), Ask::Set(value(text)), Answer::Done)
}

/// A get; an empty text stands for "absent".
fn get(client: u32, from: u64, until: u64, key: &str, text: &str) -> Operation {
    let answer = if text.is_empty() { Answer::Absent } else { Answer::Value(value(text)) };
    Operation::done(client, from, until, key.as_bytes(), Ask::Get, answer)
}

fn add(client: u32, from: u64, until: u64, key: &str, sum: i64) -> Operation {
    Operation::done(client, from, until, key.as_bytes(), Ask::Add(1), Answer::Integer(sum))
}

fn checked(history: &[Operation]) -> Checked {
    check(history, &[], Limits { threads: 1, ..Limits::default() })
}

fn holds(history: &[Operation]) -> bool {
    let checked = checked(history);
    assert_eq!(checked.undecided, Vec::<Vec<u8>>::new());
    assert_eq!(checked.verdict.holds, checked.violations.is_empty());
    checked.verdict.holds
}

/// What a violation shows, one line each: client, question, answer.
fn drawn(checked: &Checked) -> Vec<String> {
    let line = |event: &crate::record::Event| format!("{}: {} → {}", event.client, event.asked, event.answered);
    checked.verdict.offending.iter().map(line).collect()
}

/// An operation of several steps at once.
fn transaction(client: u32, from: u64, until: u64, steps: &[(&str, Ask, Answer)]) -> Operation {
    let steps =
        steps.iter().map(|(key, ask, answer)| Step { key: key.as_bytes().to_vec(), ask: *ask, answer: Some(*answer) });
    Operation { client, from, until: Some(until), outcome: Outcome::Done, steps: steps.collect() }
}
