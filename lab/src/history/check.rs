//! Checks a history: splits it into groups of keys, decides each, and says what came of it.

#![allow(clippy::disallowed_types, reason = "these tables are looked things up in and never walked through")]

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::record::{Event, Property, Verdict};

use super::group::{Group, LAST_READER, decide_group};
use super::operation::{Answer, Ask, Operation, Outcome};
use super::search::Found;
use super::value::Value;

/// How much work a check may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Configurations visited for one group of keys before it is called undecided: each takes about 100 bytes.
    pub configurations_max: usize,
    /// Operations and configurations looked at to make a violation small.
    pub minimise_max: usize,
    /// Events of a violation that are given at most: the last ones.
    pub events_max: usize,
    /// Threads that check groups side by side; 0 is taken for 1.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        Limits { configurations_max: 10_000_000, minimise_max: 10_000_000, events_max: 200, threads }
    }
}

/// A group of keys whose history has no order.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// The keys that the part below is about, sorted: fewer than are joined, if the fault shows on fewer.
    pub keys: Vec<Vec<u8>>,
    /// Whether only the last reads contradict the history: something acknowledged is lost.
    pub lost: bool,
    /// Whether transactions are among its operations.
    pub transactions: bool,
    /// The part of the history that breaks the property, as small as it was found.
    pub events: Vec<Event>,
    /// How many events that part has; `events` are the last of them.
    pub events_all: usize,
}

/// What checking a history came to.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// For the record: the properties, and the smallest violation's events.
    pub verdict: Verdict,
    /// Every group of keys without an order, the smallest violation first.
    pub violations: Vec<Violation>,
    /// Groups that were not decided within the limits, by their first key.
    pub undecided: Vec<Vec<u8>>,
    /// Operations looked at, without the last reads.
    pub operations: usize,
    /// Keys they were on.
    pub keys: usize,
    /// Configurations visited.
    pub configurations: usize,
}

/// Checks `history`, in any order, of keys that did not exist when it began. `last` holds what each key was found to hold when
/// everything was over (none: nothing; of the keys of [`lists`] the [`Value::list`] of all they have); keys may be missing there.
#[must_use]
pub fn check(history: &[Operation], last: &[(Vec<u8>, Option<Value>)], limits: Limits) -> Checked {
    let end = history.iter().map(|operation| operation.from.max(operation.until.unwrap_or(0))).max().unwrap_or(0);
    let lists = lists(history);
    let ask = |key: &Vec<u8>| if lists.contains(key.as_slice()) { Ask::Items } else { Ask::Get };
    let reads: Vec<Operation> = last.iter().map(|(key, value)| last_read(key, ask(key), *value, end)).collect();
    let all: Vec<&Operation> = history.iter().chain(&reads).collect();
    let groups = groups(&all, history.len());
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..limits.threads.clamp(1, groups.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(group) = groups.get(number) else { return };
                    let decided = decide_group(group, &all, limits);
                    if let Ok(mut results) = results.lock() {
                        results.push((number, decided));
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(number, _)| *number);
    let mut checked = Checked {
        operations: history.len(),
        keys: groups.iter().map(|group| group.keys.len()).sum(),
        ..Checked::default()
    };
    for (number, decided) in results {
        checked.configurations += decided.configurations;
        if decided.found == Found::GivenUp {
            checked.undecided.push(groups[number].keys[0].clone());
        }
        checked.violations.extend(decided.violation);
    }
    checked.violations.sort_by_key(|violation| violation.events_all);
    checked.verdict = verdict(&checked, &groups, last.len(), limits);
    checked
}

/// The keys whose values are lists, as far as what was asked of them tells.
#[must_use]
pub fn lists(history: &[Operation]) -> HashSet<&[u8]> {
    let steps = history.iter().flat_map(|operation| &operation.steps);
    steps.filter(|step| step.ask.is_of_list()).map(|step| step.key.as_slice()).collect()
}

/// The reading of a key after everything.
fn last_read(key: &[u8], ask: Ask, value: Option<Value>, end: u64) -> Operation {
    let answer = value.map_or(Answer::Absent, Answer::Value);
    Operation::done(LAST_READER, end.saturating_add(1), end.saturating_add(2), key, ask, answer)
}

/// The groups of keys that operations join, in the order of their first key in the history. Operations that surely did not
/// happen join nothing.
fn groups(all: &[&Operation], reads_from: usize) -> Vec<Group> {
    let mut numbers: HashMap<&[u8], u32> = HashMap::new();
    let mut keys: Vec<&[u8]> = Vec::new();
    let mut parents: Vec<u32> = Vec::new();
    let mut first_keys = Vec::with_capacity(all.len());
    for operation in all {
        let mut first = None;
        for step in operation.steps.iter().filter(|_| operation.outcome != Outcome::Failed) {
            let next = keys.len() as u32;
            let number = *numbers.entry(&step.key).or_insert(next);
            if number == next {
                keys.push(&step.key);
                parents.push(next);
            }
            let root = root_of(&mut parents, number);
            let joined = root_of(&mut parents, *first.get_or_insert(number));
            parents[root.max(joined) as usize] = root.min(joined);
        }
        first_keys.push(first);
    }
    let mut places: HashMap<u32, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let root = root_of(&mut parents, number as u32);
        let place = *places.entry(root).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group { keys: Vec::new(), operations: Vec::new(), last_reads: 0, transactions: false });
        }
        groups[place].keys.push(key.to_vec());
    }
    for (number, first) in first_keys.into_iter().enumerate() {
        let Some(first) = first else { continue };
        let root = root_of(&mut parents, first);
        let group = &mut groups[places[&root]];
        group.operations.push(number as u32);
        group.last_reads += usize::from(number >= reads_from);
        group.transactions |= all[number].steps.len() > 1;
    }
    groups.iter_mut().for_each(|group| group.keys.sort_unstable());
    groups
}

/// The root of a key in the forest of joined keys; the paths are halved on the way.
fn root_of(parents: &mut [u32], mut number: u32) -> u32 {
    while parents[number as usize] != number {
        let grandparent = parents[parents[number as usize] as usize];
        parents[number as usize] = grandparent;
        number = grandparent;
    }
    number
}

/// So many groups, for people; a key that no transaction joins to another is a group of its own.
fn groups_of_keys(count: usize) -> String {
    if count == 1 { "one group of keys".to_owned() } else { format!("{} groups of keys", thousands(count)) }
}

fn verdict(checked: &Checked, groups: &[Group], last_reads: usize, limits: Limits) -> Verdict {
    let counted =
        |count: usize, what: &str| format!("{} {what}{}", thousands(count), if count == 1 { "" } else { "s" });
    let mut properties = Vec::new();
    let mut add = |name: &str, broken: Vec<&Violation>, undecided: usize, looked_at: String| {
        let detail = match broken.first() {
            Some(violation) => {
                format!("{looked_at}; broken on {}: {}", groups_of_keys(broken.len()), told(violation))
            }
            None if undecided > 0 => format!(
                "{looked_at}; {} not decided within {} configurations, nothing found that breaks it",
                groups_of_keys(undecided),
                thousands(limits.configurations_max)
            ),
            None => format!("{looked_at}; an order was found for every one"),
        };
        let undecided = broken.is_empty() && undecided > 0;
        properties.push(Property { name: name.into(), holds: broken.is_empty() && !undecided, undecided, detail });
    };
    let undecided = |transactions: bool| {
        let is = |group: &&Group| group.transactions == transactions && checked.undecided.contains(&group.keys[0]);
        groups.iter().filter(is).count()
    };
    for (transactions, name) in [
        (false, "every operation on a key happens at one moment between its request and its answer"),
        (true, "every transaction happens at one moment, all of it, between its request and its answer"),
    ] {
        let of_kind: Vec<&Group> = groups.iter().filter(|group| group.transactions == transactions).collect();
        // A history without any operation has at least the first property.
        if of_kind.is_empty() && (transactions || !groups.is_empty()) {
            continue;
        }
        let broken = checked.violations.iter().filter(|one| one.transactions == transactions && !one.lost).collect();
        let operations: usize = of_kind.iter().map(|group| group.operations.len() - group.last_reads).sum();
        let keys = of_kind.iter().map(|group| group.keys.len()).sum();
        let looked_at = format!("{} on {}", counted(operations, "operation"), counted(keys, "key"));
        add(name, broken, undecided(transactions), looked_at);
    }
    if last_reads > 0 {
        let broken = checked.violations.iter().filter(|violation| violation.lost).collect();
        let looked_at = format!("{} of {} read at the end", thousands(last_reads), counted(checked.keys, "key"));
        add("nothing acknowledged is lost", broken, undecided(false) + undecided(true), looked_at);
    }
    let operations = |group: &Group| (group.operations.len() - group.last_reads) as u64;
    let decided = groups.iter().filter(|group| !checked.undecided.contains(&group.keys[0]));
    Verdict {
        holds: properties.iter().all(|property| property.holds),
        operations: groups.iter().map(operations).sum(),
        decided: decided.map(operations).sum(),
        keys: checked.keys as u64,
        beside: false,
        properties,
        offending: checked.violations.first().map(|violation| violation.events.clone()).unwrap_or_default(),
    }
}

/// A violation in a sentence.
fn told(violation: &Violation) -> String {
    let mut keys: Vec<String> = violation.keys.iter().take(4).map(|key| key.escape_ascii().to_string()).collect();
    if violation.keys.len() > 4 {
        keys.push(format!("and {} more", violation.keys.len() - 4));
    }
    let shown = if violation.events.len() < violation.events_all { ", the last of which are shown" } else { "" };
    format!("no order explains {} operations on {}{shown}", thousands(violation.events_all), keys.join(", "))
}

fn thousands(number: usize) -> String {
    crate::report::format::count(number as u64)
}
