//! What is done to a history before the search: it is divided, made simpler, and its bounds are looked for.

use std::collections::{BTreeMap, BTreeSet};

use super::super::model::{Growth, Prepared, ValueId, Values};
use crate::history::{Operation, Outcome};

/// The groups of keys that transactions join, each with the operations that touch it.
pub(super) fn groups(history: &[Operation]) -> Vec<(Vec<String>, Vec<usize>)> {
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
        // What was not done says nothing of its keys together; joined, they would have to obey the order of a pipeline, which there is not over
        // partitions.
        if operation.outcome == Outcome::Failed {
            first_keys.push(first);
            continue;
        }
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

/// What is known beforehand of values that only grow: nothing that lies beyond can be explained any more.
#[derive(Debug)]
pub(super) enum Bound {
    /// Values do not only grow, or there are several keys.
    None,
    /// Whatever is there is a beginning of this value, which is the longest that was read, or has grown out of it.
    Prefix(ValueId),
    /// Sums: whatever is there is at most what each answer still to come says.
    Sum,
}

/// Makes equal what nobody can tell apart: values that were never noticed, deadlines between which nothing is answered.
pub(super) fn simplify(certain: &mut [Prepared], uncertain: &mut [Prepared], values: &mut Values) {
    let all = || certain.iter().chain(uncertain.iter());
    let mut moments: Vec<u64> = certain.iter().map(|operation| operation.finish).collect();
    moments.sort_unstable();
    let seen: BTreeSet<ValueId> = all().flat_map(Prepared::observed).collect();
    let computes = all().any(Prepared::computes);
    let unseen = values.number(b"(never noticed)");
    for operation in certain.iter_mut().chain(uncertain.iter_mut()) {
        operation.round_deadlines(&moments);
        if !computes && !seen.contains(&unseen) {
            operation.blur(unseen, |value| seen.contains(&value));
        }
    }
}

/// What is known beforehand of the values of a group of keys.
pub(super) fn bound_of(certain: &[Prepared], uncertain: &[Prepared], keys: usize, values: &Values) -> Bound {
    let mut growth = Growth::None;
    for operation in certain.iter().chain(uncertain) {
        growth = match (growth, operation.grows()) {
            (_, None) => return Bound::None,
            (Growth::None, Some(other)) | (other, Some(Growth::None)) => other,
            (one, Some(other)) if one == other => one,
            (_, Some(_)) => return Bound::None,
        };
    }
    let longest = certain.iter().filter_map(Prepared::read).max_by_key(|&value| values.value(value).len());
    match (keys, growth, longest) {
        (1, Growth::Appends, Some(longest)) => Bound::Prefix(longest),
        (1, Growth::Adds, _) => Bound::Sum,
        _ => Bound::None,
    }
}
