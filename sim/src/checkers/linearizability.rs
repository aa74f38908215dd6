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
//! 3. An operation of uncertain effect directly precedes one that depends on it; see `may_be_followed_by`.
//! 4. A configuration is the number of certain operations that are all done, the few done beyond, the uncertain
//!    ones used, whether the last one was uncertain, and the state. One seen before leads nowhere.

#![allow(clippy::disallowed_types, reason = "these tables are looked things up in and never walked through")]

use std::collections::{BTreeMap, HashSet};

use super::model::{ABSENT, NEVER, Prepared, Slot, State, Values, prepare, step};
use crate::history::{Operation, to_json_lines};

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
        let mut search = Search::new(history, &keys, &indices, limits);
        match search.run() {
            Found::Order => {}
            Found::NoOrder => verdict.violations.push(search.explain(history, &keys)),
            Found::GivenUp => verdict.undecided.push(format!("keys {}: too many configurations", keys.join(" "))),
        }
        verdict.configurations += search.seen.len();
    }
    verdict
}

/// The groups of keys that transactions join, each with the operations that touch it.
fn groups(history: &[Operation]) -> Vec<(Vec<String>, Vec<usize>)> {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut parents: Vec<usize> = Vec::new();
    fn root(parents: &mut [usize], mut of: usize) -> usize {
        while parents[of] != of {
            parents[of] = parents[parents[of]];
            of = parents[of];
        }
        of
    }
    let mut first_keys: Vec<usize> = Vec::with_capacity(history.len());
    for operation in history {
        let mut first = usize::MAX;
        let watched = operation.watched.iter().map(|watched| watched.key.as_str());
        for key in operation.commands.iter().map(|command| command.key.as_str()).chain(watched) {
            let fresh = parents.len();
            let number = *numbers.entry(key).or_insert(fresh);
            if number == fresh {
                parents.push(fresh);
            }
            if first == usize::MAX {
                first = number;
            }
            let (one, other) = (root(&mut parents, first), root(&mut parents, number));
            parents[other] = one;
        }
        first_keys.push(first);
    }
    let mut found: BTreeMap<usize, (Vec<String>, Vec<usize>)> = BTreeMap::new();
    for (key, number) in &numbers {
        found.entry(root(&mut parents, *number)).or_default().0.push((*key).to_string());
    }
    for (index, &first) in first_keys.iter().enumerate().filter(|&(_, &first)| first != usize::MAX) {
        found.entry(root(&mut parents, first)).or_default().1.push(index);
    }
    found.into_values().collect()
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
    /// The operation before this point, if it was an uncertain one.
    pending: Option<u32>,
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
    values: Values,
    limits: Limits,
    keys: usize,
    seen: HashSet<Box<[u32]>>,
    /// The point with the most certain operations done, for the message.
    furthest: Option<Configuration>,
}

impl Search {
    fn new(history: &[Operation], keys: &[String], indices: &[usize], limits: Limits) -> Search {
        let mut values = Values::default();
        let (mut certain, mut uncertain) = (Vec::new(), Vec::new());
        let mut last_asked: BTreeMap<u64, usize> = BTreeMap::new();
        let mut asked_before: BTreeMap<usize, usize> = BTreeMap::new();
        for &index in indices {
            let mut number = |key: &str| keys.binary_search_by(|found| found.as_str().cmp(key)).unwrap_or(0);
            if let Some(prepared) = prepare(&history[index], index, &mut values, &mut number) {
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
        let numbers: BTreeMap<usize, u32> =
            certain.iter().enumerate().map(|(number, operation)| (operation.index, number as u32)).collect();
        let before = |operation: &Prepared| asked_before.get(&operation.index).map(|before| numbers[before]);
        Search {
            certain_after: certain.iter().map(before).collect(),
            uncertain_after: uncertain.iter().map(before).collect(),
            certain,
            uncertain,
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
            state: vec![Slot { value: ABSENT, expires: NEVER }; self.keys],
        };
        let mut frames = vec![Frame { ways: vec![start] }];
        while let Some(frame) = frames.last_mut() {
            let Some(configuration) = frame.ways.pop() else {
                frames.pop();
                continue;
            };
            if configuration.frontier as usize == self.certain.len() {
                return Found::Order;
            }
            if !self.seen.insert(fingerprint(&configuration)) {
                continue;
            }
            if self.seen.len() > self.limits.configurations_max {
                return Found::GivenUp;
            }
            let done = |of: &Configuration| of.frontier as usize + of.beyond.len();
            if self.furthest.as_ref().is_none_or(|furthest| done(furthest) < done(&configuration)) {
                self.furthest = Some(configuration.clone());
            }
            let ways = self.ways(&configuration);
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
    fn ways(&mut self, from: &Configuration) -> Vec<Configuration> {
        let (mut candidates, horizon) = self.candidates(from);
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
            step(&from.state, operation, self.limits.clock_error, &mut self.values, &mut states);
            if operation.never_changes() && states.contains(&from.state) {
                return vec![self.with_certain(from, number, from.state.clone())];
            }
            if states.is_empty() {
                blocked.push(number);
            }
            // Disappearing by itself is tried after staying.
            for state in states.drain(..).rev() {
                ways.push(self.with_certain(from, number, state));
            }
        }
        let (mut helpful, mut others) = (Vec::new(), Vec::new());
        let mut after = Vec::new();
        for number in 0..self.uncertain.len() as u32 {
            let operation = &self.uncertain[number as usize];
            if operation.invoke > horizon {
                break;
            }
            let asked_in_order = is_done(from, self.uncertain_after[number as usize]);
            if !asked_in_order || from.used.binary_search(&number).is_ok() || !self.sensible(from, operation) {
                continue;
            }
            step(&from.state, operation, self.limits.clock_error, &mut self.values, &mut states);
            for state in states.drain(..).filter(|state| *state != from.state) {
                let helps = blocked.iter().any(|&waiting| {
                    let waiting = &self.certain[waiting as usize];
                    step(&state, waiting, self.limits.clock_error, &mut self.values, &mut after);
                    !after.is_empty()
                });
                let mut used = from.used.clone();
                used.insert(used.partition_point(|&other| other < number), number);
                let beyond = from.beyond.clone();
                let way = Configuration { frontier: from.frontier, beyond, used, pending: Some(number), state };
                if helps { helpful.push(way) } else { others.push(way) }
            }
        }
        others.extend(helpful);
        others.extend(ways);
        others
    }

    fn sensible(&self, from: &Configuration, next: &Prepared) -> bool {
        from.pending.is_none_or(|pending| self.uncertain[pending as usize].may_be_followed_by(next))
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
    let mut words = Vec::with_capacity(4 + of.beyond.len() + of.used.len() + 3 * of.state.len());
    words.push(of.frontier);
    words.push(of.beyond.len() as u32);
    words.extend_from_slice(&of.beyond);
    words.push(of.used.len() as u32);
    words.extend_from_slice(&of.used);
    words.push(of.pending.map_or(0, |number| number + 1));
    for slot in &of.state {
        words.extend([slot.value, (slot.expires >> 32) as u32, slot.expires as u32]);
    }
    words.into_boxed_slice()
}

#[cfg(test)]
mod tests;
