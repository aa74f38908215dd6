//! Property: every operation seems to happen at one moment between its request and its answer.
//!
//! More exactly: there is an order of all operations that took effect which (1) has every operation after those that
//! were over before it began, and after those that the same client had asked for before (a connection's commands are
//! carried out in their order, pipelined or not), and (2) explains every answer by the model in `model.rs`. An operation
//! without a definite answer may stand anywhere after its request, or nowhere. This includes durability (an acknowledged
//! write that is lost cannot explain later reads) and atomicity of transactions.
//!
//! The search is that of Wing and Gong (1993) with Lowe's memory of configurations (2017), done for each
//! group of keys that transactions join. What keeps it small:
//! 1. An operation that is next in line, fits, and by its answers changes nothing is taken at once: no order needs it
//!    later.
//! 2. Operations of uncertain effect are tried last, and first of them those that make a waiting one fit.
//! 3. An operation of uncertain effect directly precedes one that depends on it; see `may_be_followed_by` and
//!    `is_needed`.
//! 4. Of uncertain operations that do the same, that which was asked first is used first. Values that nobody ever
//!    noticed count as the same, and so do deadlines between which nothing is answered.
//! 5. Where values only grow, none is tried that has outgrown an answer still to come; see `Bound`.
//! 6. A configuration is the number of certain operations that are all done, the few done beyond, the uncertain
//!    ones used, the last one if it was uncertain with the state before it, and the state. One seen before leads
//!    nowhere.
//!
//! Why 3 and 4 lose nothing: take, of all orders that explain the answers, one with the fewest uncertain operations, of
//! these one in which they come as late as can be, and of these the one whose uncertain operations have the lowest
//! numbers in their order. Where a rule forbids a step of it there would be another one that comes before it in this
//! ranking. So it is among the orders that are tried. The rules look at nothing but configurations, so 6 loses nothing
//! either.

#![allow(clippy::disallowed_types, reason = "these tables are looked things up in and never walked through")]

mod preparing;

use std::collections::{BTreeMap, HashSet};

use super::model::{ABSENT, NEVER, Prepared, Slot, State, ValueId, Values, prepare, step};
use crate::history::{Operation, to_json_lines};
use preparing::{Bound, bound_of, groups, simplify};

/// What the search needs to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How much too early, in nanoseconds, any node may take a time to live for over.
    pub clock_error: u64,
    /// Configurations to visit for one group of keys before giving up.
    pub configurations_max: usize,
    /// Whether a client's operations take effect in the order in which it asked for them.
    pub clients_in_order: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { clock_error: 0, configurations_max: 1_000_000, clients_in_order: true }
    }
}

/// What the search found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// Groups for which no order exists, each told for people.
    pub violations: Vec<String>,
    /// Groups that were given up as too hard.
    pub undecided: Vec<String>,
    /// Operations looked at.
    pub operations: usize,
    /// Configurations visited.
    pub configurations: usize,
}

/// Looks for an order of `history` that explains it, for each group of keys.
#[must_use]
pub fn check(history: &[Operation], limits: Limits) -> Verdict {
    let mut verdict = Verdict { operations: history.len(), ..Verdict::default() };
    for (keys, indices) in groups(history) {
        let mut search = Search::new(history, &keys, &indices, limits, true);
        match search.run() {
            Found::Order => {}
            Found::NoOrder => verdict.violations.push(search.explain(history, &keys)),
            Found::GivenUp => verdict.undecided.push(format!("keys {}: too many configurations", keys.join(" "))),
        }
        verdict.configurations += search.seen.len();
    }
    verdict
}

#[derive(PartialEq, Eq, Debug)]
enum Found {
    Order,
    NoOrder,
    GivenUp,
}

/// A point of the search.
#[derive(Clone, Debug)]
struct Configuration {
    /// All certain operations before this one are done.
    frontier: u32,
    /// Certain operations done at or after `frontier`, sorted.
    beyond: Vec<u32>,
    /// Uncertain operations used, sorted.
    used: Vec<u32>,
    /// The operation before this point, if it was an uncertain one, and the state before that.
    pending: Option<(u32, State)>,
    state: State,
}

/// The ways on from one point, the last one to be tried first.
struct Frame {
    ways: Vec<Configuration>,
}

struct Search {
    certain: Vec<Prepared>,
    uncertain: Vec<Prepared>,
    /// For each of them: the certain operation that the same client had asked for before.
    certain_after: Vec<Option<u32>>,
    uncertain_after: Vec<Option<u32>>,
    /// For each uncertain operation: the first one that does the same.
    alike: Vec<u32>,
    bound: Bound,
    values: Values,
    limits: Limits,
    keys: usize,
    seen: HashSet<Box<[u32]>>,
    /// The point with the most certain operations done, for the message.
    furthest: Option<Configuration>,
}

impl Search {
    /// `simple`: what nobody can tell apart is made equal.
    fn new(history: &[Operation], keys: &[String], indices: &[usize], limits: Limits, simple: bool) -> Search {
        let mut values = Values::default();
        let (mut certain, mut uncertain) = (Vec::new(), Vec::new());
        let mut last_asked: BTreeMap<u64, usize> = BTreeMap::new();
        let mut asked_before: BTreeMap<usize, usize> = BTreeMap::new();
        for &index in indices {
            let mut number = |key: &str| keys.binary_search_by(|found| found.as_str().cmp(key)).unwrap_or(0);
            let error = limits.clock_error;
            if let Some(prepared) = prepare(&history[index], index, error, &mut values, &mut number) {
                let client = history[index].client;
                asked_before.extend(last_asked.get(&client).map(|&before| (index, before)));
                if prepared.certain && limits.clients_in_order {
                    last_asked.insert(client, index);
                }
                if prepared.certain {
                    certain.push(prepared);
                } else if !prepared.never_changes() {
                    uncertain.push(prepared);
                }
            }
        }
        certain.sort_by_key(|operation| (operation.invoke, operation.finish, operation.index));
        uncertain.sort_by_key(|operation| (operation.invoke, operation.index));
        if simple {
            simplify(&mut certain, &mut uncertain, &mut values);
        }
        let like = |operation: &Prepared| uncertain.iter().position(|other| other.is_like(operation));
        let alike = uncertain.iter().map(|operation| like(operation).unwrap_or(0) as u32).collect();
        let bound = bound_of(&certain, &uncertain, keys.len(), &values);
        let numbers: BTreeMap<usize, u32> =
            certain.iter().enumerate().map(|(number, operation)| (operation.index, number as u32)).collect();
        let before = |operation: &Prepared| asked_before.get(&operation.index).map(|before| numbers[before]);
        Search {
            certain_after: certain.iter().map(before).collect(),
            uncertain_after: uncertain.iter().map(before).collect(),
            certain,
            uncertain,
            alike,
            bound,
            values,
            limits,
            keys: keys.len(),
            seen: HashSet::new(),
            furthest: None,
        }
    }

    fn run(&mut self) -> Found {
        let start = Configuration {
            frontier: 0,
            beyond: Vec::new(),
            used: Vec::new(),
            pending: None,
            state: vec![Slot::ABSENT; self.keys],
        };
        let mut frames = vec![Frame { ways: vec![start] }];
        while let Some(frame) = frames.last_mut() {
            let Some(mut configuration) = frame.ways.pop() else {
                frames.pop();
                continue;
            };
            if configuration.frontier as usize == self.certain.len() {
                return Found::Order;
            }
            let (candidates, horizon) = self.candidates(&configuration);
            // A time that is over for everything still to come is over.
            for slot in configuration.state.iter_mut().filter(|slot| slot.expires <= horizon && slot.expires != NEVER) {
                slot.expires = 0;
            }
            if self.has_outgrown(&configuration.state, &candidates) || !self.seen.insert(fingerprint(&configuration)) {
                continue;
            }
            if self.seen.len() > self.limits.configurations_max {
                return Found::GivenUp;
            }
            let done = |of: &Configuration| of.frontier as usize + of.beyond.len();
            if self.furthest.as_ref().is_none_or(|furthest| done(furthest) < done(&configuration)) {
                self.furthest = Some(configuration.clone());
            }
            let ways = self.ways(&configuration, candidates, horizon);
            // A point whose ways are all tried need not be kept: the stack stays short on long histories.
            if frames.last().is_some_and(|frame| frame.ways.is_empty()) {
                frames.pop();
            }
            frames.push(Frame { ways });
        }
        Found::NoOrder
    }

    /// Certain operations that may come next, and the latest moment before which the next one must have begun.
    fn candidates(&self, from: &Configuration) -> (Vec<u32>, u64) {
        let mut horizon = u64::MAX;
        let mut found = Vec::new();
        for number in from.frontier..self.certain.len() as u32 {
            let operation = &self.certain[number as usize];
            if operation.invoke > horizon {
                break;
            }
            if from.beyond.binary_search(&number).is_err() {
                horizon = horizon.min(operation.finish);
                found.push(number);
            }
        }
        found.retain(|&number| {
            self.certain[number as usize].invoke <= horizon && is_done(from, self.certain_after[number as usize])
        });
        (found, horizon)
    }

    /// All ways on from a point, the best one last.
    fn ways(&mut self, from: &Configuration, mut candidates: Vec<u32>, horizon: u64) -> Vec<Configuration> {
        let mut states = Vec::new();
        let mut ways = Vec::new();
        let mut blocked = Vec::new();
        // Those that were answered last are put first, so that the one answered first is tried first.
        candidates.sort_by_key(|&number| std::cmp::Reverse((self.certain[number as usize].finish, number)));
        for &number in &candidates {
            let operation = &self.certain[number as usize];
            if !self.sensible(from, operation) {
                continue;
            }
            step(&from.state, operation, horizon, &mut self.values, &mut states);
            if operation.never_changes() && states.contains(&from.state) {
                return vec![self.with_certain(from, number, from.state.clone())];
            }
            if states.is_empty() {
                blocked.push(number);
            }
            self.keep_needed(from, number, horizon, &mut states);
            // Disappearing by itself is tried after staying.
            for state in states.drain(..).rev() {
                ways.push(self.with_certain(from, number, state));
            }
        }
        let (mut helpful, mut others) = (Vec::new(), Vec::new());
        let mut after = Vec::new();
        let mut offered: Vec<u32> = Vec::new();
        for number in 0..self.uncertain.len() as u32 {
            let operation = &self.uncertain[number as usize];
            if operation.invoke > horizon {
                break;
            }
            let asked_in_order = is_done(from, self.uncertain_after[number as usize]);
            if !asked_in_order || from.used.binary_search(&number).is_ok() {
                continue;
            }
            let kind = self.alike[number as usize];
            if offered.contains(&kind) {
                continue;
            }
            offered.push(kind);
            if !self.sensible(from, operation) {
                continue;
            }
            step(&from.state, operation, horizon, &mut self.values, &mut states);
            self.keep_ordered(from, number, horizon, &mut states);
            for state in states.drain(..).filter(|state| *state != from.state) {
                let helps = blocked.iter().any(|&waiting| {
                    let waiting = &self.certain[waiting as usize];
                    step(&state, waiting, horizon, &mut self.values, &mut after);
                    !after.is_empty()
                });
                let mut used = from.used.clone();
                used.insert(used.partition_point(|&other| other < number), number);
                let beyond = from.beyond.clone();
                let pending = Some((number, from.state.clone()));
                let way = Configuration { frontier: from.frontier, beyond, used, pending, state };
                if helps { helpful.push(way) } else { others.push(way) }
            }
        }
        others.extend(helpful);
        others.extend(ways);
        others
    }

    fn sensible(&self, from: &Configuration, next: &Prepared) -> bool {
        from.pending.as_ref().is_none_or(|(pending, _)| self.uncertain[*pending as usize].may_be_followed_by(next))
    }

    /// Of the states to which the certain operation `number` leads, keeps those for which the uncertain one before it
    /// is needed: without it, or with it directly afterwards, they would not be reached.
    fn keep_needed(&mut self, from: &Configuration, number: u32, horizon: u64, states: &mut Vec<State>) {
        let Some((pending, before)) = &from.pending else { return };
        let (pending, next) = (&self.uncertain[*pending as usize], &self.certain[number as usize]);
        let (mut without, mut after) = (Vec::new(), Vec::new());
        step(before, next, horizon, &mut self.values, &mut without);
        for other in without {
            step(&other, pending, horizon, &mut self.values, &mut after);
            states.retain(|state| *state != other && !after.contains(state));
        }
    }

    /// Of the states to which the uncertain operation `number` leads, keeps those that are not reached as well without
    /// the uncertain one before it, or in the other order if that is the order of their numbers.
    fn keep_ordered(&mut self, from: &Configuration, number: u32, horizon: u64, states: &mut Vec<State>) {
        let Some((pending, before)) = &from.pending else { return };
        let is_before = number < *pending;
        let (pending, next) = (&self.uncertain[*pending as usize], &self.uncertain[number as usize]);
        let (mut without, mut after) = (Vec::new(), Vec::new());
        step(before, next, horizon, &mut self.values, &mut without);
        for other in without {
            states.retain(|state| *state != other);
            if is_before {
                step(&other, pending, horizon, &mut self.values, &mut after);
                states.retain(|state| !after.contains(state));
            }
        }
    }

    /// Whether the state cannot become any more what an answer still to come says.
    fn has_outgrown(&self, state: &State, candidates: &[u32]) -> bool {
        let value = state.first().map_or(ABSENT, |slot| slot.value);
        let bytes = self.values.value(value);
        match self.bound {
            Bound::None => false,
            Bound::Prefix(longest) => {
                let longest = self.values.value(longest);
                let common = longest.len().min(bytes.len());
                longest[..common] != bytes[..common]
            }
            Bound::Sum => {
                let sum_of = |value: ValueId| match std::str::from_utf8(self.values.value(value)) {
                    _ if value == ABSENT => Some(0),
                    Ok(text) => text.parse::<i64>().ok(),
                    Err(_) => None,
                };
                let sum = sum_of(value);
                let least = candidates.iter().filter_map(|&number| {
                    let waiting = &self.certain[number as usize];
                    let read = waiting.read().and_then(sum_of);
                    read.or(waiting.sum().map(|(sum, addend)| sum.saturating_sub(addend)))
                });
                sum.zip(least.min()).is_some_and(|(sum, least)| sum > least)
            }
        }
    }

    fn with_certain(&self, from: &Configuration, number: u32, state: State) -> Configuration {
        let (beyond, used) = (from.beyond.clone(), from.used.clone());
        let mut next = Configuration { frontier: from.frontier, beyond, used, pending: None, state };
        if number == next.frontier {
            next.frontier += 1;
            while next.beyond.first() == Some(&next.frontier) {
                next.beyond.remove(0);
                next.frontier += 1;
            }
        } else {
            next.beyond.insert(next.beyond.partition_point(|&other| other < number), number);
        }
        next
    }

    /// What could not be explained: the furthest point, its state, and the operations that wait there.
    fn explain(&self, history: &[Operation], keys: &[String]) -> String {
        let Some(furthest) = &self.furthest else { return format!("keys {}: no order", keys.join(" ")) };
        let mut text = format!(
            "keys {}: no order explains the answers. {} of {} operations can be ordered, then the state is",
            keys.join(" "),
            furthest.frontier as usize + furthest.beyond.len(),
            self.certain.len(),
        );
        for (key, slot) in keys.iter().zip(&furthest.state) {
            let value = String::from_utf8_lossy(self.values.value(slot.value)).into_owned();
            let value = if slot.value == ABSENT { "(absent)".to_string() } else { shorten(&value) };
            text.push_str(&format!(" {key}={value}"));
        }
        text.push_str(" and none of these can be next:\n");
        for number in self.candidates(furthest).0 {
            let operation = &history[self.certain[number as usize].index];
            text.push_str(&shorten(&to_json_lines(std::slice::from_ref(operation))));
            text.push('\n');
        }
        text.push_str("before them, and possibly at fault, came:\n");
        let mut before: Vec<&Prepared> = self.certain[..furthest.frontier as usize].iter().collect();
        before.sort_by_key(|operation| std::cmp::Reverse(operation.finish));
        for operation in before.iter().take(4).rev() {
            text.push_str(&shorten(&to_json_lines(std::slice::from_ref(&history[operation.index]))));
            text.push('\n');
        }
        text
    }
}

/// Whether a certain operation, if there is one, is done.
fn is_done(at: &Configuration, number: Option<u32>) -> bool {
    number.is_none_or(|number| number < at.frontier || at.beyond.binary_search(&number).is_ok())
}

fn shorten(text: &str) -> String {
    let text = text.trim_end();
    let count = text.chars().count();
    if count <= 400 {
        return text.to_string();
    }
    // Both ends tell more than one.
    let (start, end): (String, String) = (text.chars().take(200).collect(), text.chars().skip(count - 200).collect());
    format!("{start}…{end}")
}

fn fingerprint(of: &Configuration) -> Box<[u32]> {
    let mut words = Vec::with_capacity(4 + of.beyond.len() + of.used.len() + 4 * of.state.len());
    words.push(of.frontier);
    words.push(of.beyond.len() as u32);
    words.extend_from_slice(&of.beyond);
    words.push(of.used.len() as u32);
    words.extend_from_slice(&of.used);
    let before = of.pending.iter().flat_map(|(_, before)| before);
    words.push(of.pending.as_ref().map_or(0, |(number, _)| number + 1));
    for slot in of.state.iter().chain(before) {
        words.extend([slot.value, (slot.expires >> 32) as u32, slot.expires as u32, u32::from(slot.unsure)]);
    }
    words.into_boxed_slice()
}

#[cfg(test)]
mod comparison;
#[cfg(test)]
mod tests;
