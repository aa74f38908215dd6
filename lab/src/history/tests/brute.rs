//! A checker that tries every order, without any thought; and a store that is a table, without any numbers for values.

use std::collections::BTreeMap;

use base::random::Rng;

use super::*;
use crate::history::minimise::Small;

/// A store as simple as can be.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Store(BTreeMap<Vec<u8>, Value>, BTreeMap<Vec<u8>, Vec<Value>>);

impl Store {
    /// Does one step and gives its answer.
    pub(super) fn step(&mut self, key: &[u8], ask: Ask) -> Answer {
        let present = self.0.get(key).copied();
        match ask {
            Ask::Get => present.map_or(Answer::Absent, Answer::Value),
            Ask::Set(new) => {
                self.0.insert(key.to_vec(), new);
                Answer::Done
            }
            Ask::SetIfAbsent(new) => self.set_if(key, present.is_none(), Some(new)),
            Ask::CompareAndSet { expected, new } => self.set_if(key, present == expected, new),
            Ask::Add(number) => {
                let before = present.map_or(Some(0), |value| value.integer());
                let Some(sum) = before.and_then(|before| before.checked_add(number)) else { return Answer::Refused };
                self.0.insert(key.to_vec(), Value::of_integer(sum));
                Answer::Integer(sum)
            }
            Ask::Append(more) => {
                let mut text = present.and_then(|value| value.bytes().map(<[u8]>::to_vec)).unwrap_or_default();
                text.extend_from_slice(more.bytes().expect("short values in these tests"));
                self.0.insert(key.to_vec(), Value::new(&text));
                Answer::Integer(text.len() as i64)
            }
            Ask::Delete => Answer::Flag(self.0.remove(key).is_some()),
            Ask::Push(..) | Ask::Pop(_) | Ask::Items => self.list(key, ask),
        }
    }

    /// Lists are on keys of their own in these tests.
    fn list(&mut self, key: &[u8], ask: Ask) -> Answer {
        let list = self.1.entry(key.to_vec()).or_default();
        let popped = match ask {
            Ask::Push(End::Left, value) => {
                list.insert(0, value);
                return Answer::Integer(list.len() as i64);
            }
            Ask::Push(End::Right, value) => {
                list.push(value);
                return Answer::Integer(list.len() as i64);
            }
            Ask::Pop(End::Left) if !list.is_empty() => Some(list.remove(0)),
            Ask::Pop(_) => list.pop(),
            _ => (!list.is_empty()).then(|| Value::list(list.iter())),
        };
        popped.map_or(Answer::Absent, Answer::Value)
    }

    fn set_if(&mut self, key: &[u8], holds: bool, new: Option<Value>) -> Answer {
        match new.filter(|_| holds) {
            Some(new) => drop(self.0.insert(key.to_vec(), new)),
            None if holds => drop(self.0.remove(key)),
            None => {}
        }
        Answer::Flag(holds)
    }

    /// Does all steps, if their answers are these.
    fn fits(&mut self, operation: &Operation) -> bool {
        operation.steps.iter().all(|step| {
            let answer = self.step(&step.key, step.ask);
            operation.outcome == Outcome::Unknown || step.answer.is_none_or(|expected| expected == answer)
        })
    }
}

/// Whether any order explains the history.
pub(super) fn has_order(history: &[Operation]) -> bool {
    let left: Vec<&Operation> = history.iter().filter(|operation| operation.outcome != Outcome::Failed).collect();
    tries(&left, &Store::default())
}

fn tries(left: &[&Operation], store: &Store) -> bool {
    let is_done = |operation: &&Operation| operation.outcome == Outcome::Done;
    if !left.iter().any(is_done) {
        return true;
    }
    let first_answer = left.iter().filter(|operation| is_done(operation)).filter_map(|operation| operation.until).min();
    (0..left.len()).any(|place| {
        let mut after = store.clone();
        let mut rest = left.to_vec();
        let operation = rest.remove(place);
        first_answer.is_none_or(|answer| operation.from <= answer) && after.fits(operation) && tries(&rest, &after)
    })
}

/// A question among few values, so that answers often are right by chance.
pub(super) fn any_ask(chance: &mut Rng, kinds: u64) -> Ask {
    let small = |chance: &mut Rng| Value::of_integer(chance.below(3) as i64);
    match chance.below(kinds) {
        0 | 1 => Ask::Get,
        2 | 3 => Ask::Set(small(chance)),
        4 => Ask::Delete,
        5 => Ask::Add(1),
        6 => {
            let expected = chance.chance(2, 3).then(|| small(chance));
            let new = chance.chance(3, 4).then(|| small(chance));
            Ask::CompareAndSet { expected, new }
        }
        7 => Ask::SetIfAbsent(small(chance)),
        _ => Ask::Append(small(chance)),
    }
}

/// The same of lists.
pub(super) fn any_list_ask(chance: &mut Rng) -> Ask {
    let end = *chance.pick(&[End::Left, End::Right]);
    match chance.below(5) {
        0 | 1 => Ask::Push(end, Value::of_integer(chance.below(3) as i64)),
        2 | 3 => Ask::Pop(end),
        _ => Ask::Items,
    }
}

/// An answer that could be one to such a question.
fn any_answer(ask: Ask, chance: &mut Rng) -> Answer {
    match ask {
        Ask::Get if chance.chance(1, 4) => Answer::Absent,
        Ask::Get => Answer::Value(Value::of_integer(chance.below(3) as i64)),
        Ask::Set(_) => Answer::Done,
        Ask::Add(_) => Answer::Integer(chance.below(4) as i64),
        Ask::Append(_) => Answer::Integer(1 + chance.below(3) as i64),
        Ask::SetIfAbsent(_) | Ask::CompareAndSet { .. } | Ask::Delete => Answer::Flag(chance.chance(1, 2)),
        Ask::Push(..) => Answer::Integer(1 + chance.below(3) as i64),
        Ask::Pop(_) | Ask::Items if chance.chance(1, 3) => Answer::Absent,
        Ask::Pop(_) => Answer::Value(Value::of_integer(chance.below(3) as i64)),
        Ask::Items => {
            let items: Vec<Value> =
                (0..1 + chance.below(2)).map(|_| Value::of_integer(chance.below(3) as i64)).collect();
            Answer::Value(Value::list(&items))
        }
    }
}

fn any_history(chance: &mut Rng) -> Vec<Operation> {
    let lists = chance.chance(1, 3);
    let (kinds, keys) = (*chance.pick(&[4, 5, 6, 9, 9]), *chance.pick(&[1, 2, 2, 4]));
    let moments = 4 + chance.below(20);
    (0..3 + chance.below(5))
        .map(|client| {
            let from = chance.below(moments);
            let until = from + chance.below(moments / 2);
            let outcome =
                *chance.pick(&[Outcome::Done, Outcome::Done, Outcome::Done, Outcome::Unknown, Outcome::Failed]);
            let steps = (0..if keys >= 2 { 1 + chance.below(2) } else { 1 }).map(|_| {
                let ask = if lists { any_list_ask(chance) } else { any_ask(chance, kinds) };
                let answer = (outcome == Outcome::Done).then(|| any_answer(ask, chance));
                Step { key: chance.below(keys).to_string().into_bytes(), ask, answer }
            });
            Operation { client: client as u32, from, until: Some(until), outcome, steps: steps.collect() }
        })
        .collect()
}

#[test]
fn the_search_agrees_with_trying_everything() {
    compare(2_026, 10_000);
}

/// The same for as long as one likes to wait: run it with `--ignored` after a change of the search.
#[test]
#[ignore = "takes minutes"]
fn the_search_agrees_with_trying_everything_for_long() {
    compare(u64::from(std::process::id()), 2_000_000);
}

fn compare(seed: u64, histories: u32) {
    let mut chance = Rng::new(seed);
    let (mut with, mut without) = (0, 0);
    for number in 0..histories {
        let history = any_history(&mut chance);
        let expected = has_order(&history);
        let checked = checked(&history);
        assert_eq!(checked.verdict.holds, expected, "seed {seed}, history {number}: {history:#?}");
        *if expected { &mut with } else { &mut without } += 1;
    }
    // Both must be met often, or nothing was compared.
    assert!(with.min(without) > histories / 8, "{with} with an order and {without} without");
}

#[test]
fn registers_with_values_of_their_own_agree_with_trying_everything() {
    // What the zones decide: gets and sets of one key, each set with another value.
    let mut chance = Rng::new(7);
    let (mut with, mut without) = (0, 0);
    for number in 0..10_000 {
        let moments = 3 + chance.below(25);
        let history: Vec<Operation> = (0..2 + chance.below(6))
            .map(|place| {
                let (from, length) = (chance.below(moments), chance.below(moments / 2));
                match chance.below(7) {
                    0 => Operation::unknown(0, from, b"k", Ask::Set(value(&format!("v{place}")))),
                    1..=3 => set(place as u32, from, from + length, "k", &format!("v{place}")),
                    _ if chance.chance(1, 5) => get(place as u32, from, from + length, "k", ""),
                    _ => get(place as u32, from, from + length, "k", &format!("v{}", chance.below(4))),
                }
            })
            .collect();
        let all: Vec<&Operation> = history.iter().collect();
        let expected = has_order(&history);
        assert_eq!(super::super::zones::decide(all.into_iter(), None), Some(expected), "{number}: {history:#?}");
        *if expected { &mut with } else { &mut without } += 1;
    }
    assert!(with > 1_000 && without > 1_000, "{with} with an order and {without} without");
}

#[test]
fn what_is_left_of_a_violation_breaks_the_property_by_itself() {
    let mut chance = Rng::new(31);
    let (mut seen, mut smaller) = (0, 0);
    while seen < 2_000 {
        let history = any_history(&mut chance);
        let checked = checked(&history);
        let Some(violation) = checked.violations.first() else { continue };
        seen += 1;
        let on_its_keys =
            |operation: &&Operation| operation.steps.iter().any(|step| violation.keys.contains(&step.key));
        let whole: Vec<Operation> = history.iter().filter(on_its_keys).cloned().collect();
        let small = Small::new(whole.clone(), 1_000_000).run(violation.keys.len() == 1);
        let mut store = Store::default();
        if let Some(before) = small.before() {
            store.step(&violation.keys[0], Ask::Set(before));
        }
        let left: Vec<&Operation> = small.operations().iter().collect();
        assert!(!tries(&left, &store), "{whole:#?} is left as {left:#?}");
        smaller += usize::from(left.len() < whole.len());
        assert!(violation.events.windows(2).all(|pair| pair[0].from <= pair[1].from));
        assert_eq!(checked.verdict.offending, violation.events);
    }
    assert!(smaller > 1_000, "{smaller}");
}
