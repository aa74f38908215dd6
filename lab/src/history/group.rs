//! Decides one group of keys: whether its operations have an order, and which part of them shows that they have none.
//!
//! An order of all operations gives one of the operations on some of the keys. So where transactions join many keys, each key is
//! looked at alone first: most faults show on one key, and are found there in no time, whatever joins it. Only then all keys
//! are searched together; and if that is too much, the pairs of keys that transactions join are searched.

#![allow(clippy::disallowed_types, reason = "these tables are looked things up in and never walked through")]

use std::collections::{BTreeMap, HashMap, HashSet};

use super::check::{Limits, Violation};
use super::minimise::Small;
use super::model::{Prepared, Values};
use super::operation::{Answer, Ask, Operation, Outcome, Step};
use super::search::{Found, Search};
use super::value::Value;
use super::zones;

/// The client that the last reads are of.
pub(super) const LAST_READER: u32 = u32::MAX;

/// Operations that join more keys than this are not taken into pairs.
const JOINED_MAX: usize = 16;

/// The keys that operations join, and the operations on them.
pub(super) struct Group {
    /// The keys, sorted.
    pub(super) keys: Vec<Vec<u8>>,
    /// The operations by their numbers, ascending.
    pub(super) operations: Vec<u32>,
    /// How many of them are last reads.
    pub(super) last_reads: usize,
    /// Whether one has several steps.
    pub(super) transactions: bool,
}

/// What became of a group.
pub(super) struct Decided {
    pub(super) found: Found,
    pub(super) configurations: usize,
    pub(super) violation: Option<Violation>,
}

/// Whether these operations on one group of keys have an order, and the configurations that were visited. `before` is what a
/// single key held at the beginning.
pub(super) fn decide(operations: &[&Operation], before: Option<Value>, configurations_max: usize) -> (Found, usize) {
    let mut slots: HashMap<&[u8], u32> = HashMap::new();
    for step in operations.iter().flat_map(|operation| &operation.steps) {
        let next = slots.len() as u32;
        slots.entry(&step.key).or_insert(next);
    }
    if slots.len() == 1
        && let Some(has_order) = zones::decide(operations.iter().copied(), before)
    {
        return (if has_order { Found::Order } else { Found::NoOrder }, 0);
    }
    let mut values = Values::default();
    let state = vec![values.number(before); slots.len()];
    let (mut certain, mut unknown) = (Vec::new(), Vec::new());
    let noticed = Noticed::of(operations);
    for operation in operations.iter().filter(|operation| noticed.can_matter(operation)) {
        let prepared = Prepared::new(operation, &mut values, |key| slots.get(key).copied().unwrap_or(0));
        match prepared {
            Some((prepared, true)) => certain.push(prepared),
            Some((prepared, false)) => unknown.push(prepared),
            None => {}
        }
    }
    let mut search = Search::new(certain, unknown, values, state);
    let found = search.run(configurations_max);
    (found, search.configurations())
}

/// What anybody could notice of a key.
struct Noticed<'a> {
    /// Keys on which something else is asked than get and set.
    closely: HashSet<&'a [u8]>,
    /// Values that were got.
    got: HashSet<(&'a [u8], Value)>,
}

impl<'a> Noticed<'a> {
    fn of(operations: &[&'a Operation]) -> Noticed<'a> {
        let (mut closely, mut got) = (HashSet::new(), HashSet::new());
        for step in operations.iter().flat_map(|operation| &operation.steps) {
            match (step.ask, step.answer) {
                (Ask::Get, Some(Answer::Value(value))) => drop(got.insert((step.key.as_slice(), value))),
                (Ask::Get | Ask::Set(_), _) => {}
                _ => drop(closely.insert(step.key.as_slice())),
            }
        }
        Noticed { closely, got }
    }

    /// Whether an order could need the operation: not if nobody knows whether it was done, and it only sets values that nobody
    /// got, on keys that are only got and set. From any order it can be taken out.
    fn can_matter(&self, operation: &Operation) -> bool {
        let unnoticed = |step: &Step| match step.ask {
            Ask::Get => true,
            Ask::Set(value) => !self.closely.contains(&step.key[..]) && !self.got.contains(&(&step.key[..], value)),
            _ => false,
        };
        operation.outcome != Outcome::Unknown || !operation.steps.iter().all(unnoticed)
    }
}

/// Decides a group of the operations `all`.
pub(super) fn decide_group(group: &Group, all: &[&Operation], limits: Limits) -> Decided {
    let operations: Vec<&Operation> = group.operations.iter().map(|&number| all[number as usize]).collect();
    let mut decided = Decided { found: Found::Order, configurations: 0, violation: None };
    let is_joined = group.keys.len() > 1;
    let on: HashMap<&[u8], Vec<u32>> = if is_joined { by_key(&operations) } else { HashMap::new() };
    if is_joined {
        for key in &group.keys {
            let part = only(&operations, on.get(&key[..]).into_iter().flatten().copied(), &[key]);
            if decided.breaks(&part, limits.configurations_max) {
                return decided.with(group, vec![key.clone()], part, limits);
            }
        }
    }
    let (found, configurations) = decide(&operations, None, limits.configurations_max);
    decided.configurations += configurations;
    decided.found = found;
    match found {
        Found::Order => decided,
        Found::NoOrder => {
            let whole = operations.into_iter().cloned().collect();
            decided.with(group, group.keys.clone(), whole, limits)
        }
        Found::GivenUp => {
            let mut work = limits.configurations_max;
            for (first, second) in pairs(&operations) {
                let mut places: Vec<u32> =
                    [&first, &second].into_iter().flat_map(|key| &on[&key[..]]).copied().collect();
                places.sort_unstable();
                places.dedup();
                let part = only(&operations, places.into_iter(), &[&first, &second]);
                let before = decided.configurations;
                if decided.breaks(&part, work) {
                    return decided.with(group, vec![first, second], part, limits);
                }
                work = work.saturating_sub(part.len() + decided.configurations - before);
                if work == 0 {
                    break;
                }
            }
            decided.found = Found::GivenUp;
            decided
        }
    }
}

impl Decided {
    /// Whether these have no order, surely.
    fn breaks(&mut self, part: &[Operation], configurations_max: usize) -> bool {
        let (found, configurations) = decide(&part.iter().collect::<Vec<_>>(), None, configurations_max);
        self.configurations += configurations;
        self.found = found;
        found == Found::NoOrder
    }

    /// Adds the violation that `part`, all that was done on `keys`, is.
    fn with(mut self, group: &Group, keys: Vec<Vec<u8>>, part: Vec<Operation>, limits: Limits) -> Decided {
        let without: Vec<&Operation> = part.iter().filter(|operation| operation.client != LAST_READER).collect();
        let mut lost = false;
        if without.len() < part.len() {
            let (found, configurations) = decide(&without, None, limits.configurations_max);
            self.configurations += configurations;
            lost = found == Found::Order;
        }
        let mut events = Small::new(part.clone(), limits.minimise_max).run(keys.len() == 1).events(&part);
        let events_all = events.len();
        events.drain(..events_all.saturating_sub(limits.events_max.max(1)));
        let transactions = group.transactions;
        self.violation = Some(Violation { keys, lost, transactions, events, events_all });
        self.found = Found::NoOrder;
        self
    }
}

/// The operations on each key, by their places.
fn by_key<'a>(operations: &[&'a Operation]) -> HashMap<&'a [u8], Vec<u32>> {
    let mut on: HashMap<&[u8], Vec<u32>> = HashMap::new();
    for (place, operation) in operations.iter().enumerate() {
        for step in &operation.steps {
            let places = on.entry(&step.key).or_default();
            if places.last() != Some(&(place as u32)) {
                places.push(place as u32);
            }
        }
    }
    on
}

/// What the operations at `places` did on `keys`.
fn only(operations: &[&Operation], places: impl Iterator<Item = u32>, keys: &[&Vec<u8>]) -> Vec<Operation> {
    let part = |place: u32| {
        let operation = operations[place as usize];
        let steps = operation.steps.iter().filter(|step| keys.contains(&&step.key)).cloned().collect();
        Operation {
            steps,
            client: operation.client,
            from: operation.from,
            until: operation.until,
            outcome: operation.outcome,
        }
    };
    places.map(part).collect()
}

/// The pairs of keys that operations join, those first that are joined most often.
fn pairs(operations: &[&Operation]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut counts: BTreeMap<(&[u8], &[u8]), u32> = BTreeMap::new();
    for operation in operations {
        let mut keys: Vec<&[u8]> = operation.steps.iter().map(|step| step.key.as_slice()).collect();
        keys.sort_unstable();
        keys.dedup();
        if keys.len() > JOINED_MAX {
            continue;
        }
        for (place, first) in keys.iter().enumerate() {
            keys[place + 1..].iter().for_each(|second| *counts.entry((first, second)).or_default() += 1);
        }
    }
    let mut pairs: Vec<_> = counts.into_iter().collect();
    pairs.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    pairs.into_iter().map(|((first, second), _)| (first.to_vec(), second.to_vec())).collect()
}
