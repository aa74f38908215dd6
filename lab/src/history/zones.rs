//! Keys that are only got and set, where every set has its own value: decided for certain, in the time of a sort.
//!
//! The method is that of Gibbons and Korach, "Testing Shared Memories" (SIAM J. Comput. 26, 1997), section 4. The set of a
//! value and the gets that answered it are a cluster, and in any order they stand side by side. From the first answer of a
//! cluster to its last request is its zone. Where the first answer is before the last request (a forward zone) the value must
//! have been there all the while. An order exists if and only if
//!
//! 1. no get was answered before its value's set was asked, and every value that was got was set;
//! 2. no two forward zones overlap;
//! 3. no backward zone (from its last request to its first answer) lies within a forward one.
//!
//! A set of which nothing is known was done if its value was got, and need not have been done if not.

#![allow(clippy::disallowed_types, reason = "this table is looked things up in and never walked through")]

use std::collections::HashMap;

use super::operation::{Answer, Ask, Operation, Outcome};
use super::value::Value;

/// One value's set and gets.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    /// When the set was asked; none while only gets were seen.
    set: Option<u64>,
    /// Whether anybody surely saw it done.
    certain: bool,
    /// The first answer to one of its gets.
    got_first: u64,
    /// The first answer.
    answered_first: u64,
    /// The last request.
    asked_last: u64,
}

/// Whether these operations on one key have an order that explains them; none if they are not of the kind that is decided
/// here. `before` is the value at the beginning.
pub(super) fn decide<'a>(operations: impl Iterator<Item = &'a Operation>, before: Option<Value>) -> Option<bool> {
    // The value at the beginning was set before everything; times count from 1 for the others.
    let first = Cluster { set: Some(0), certain: true, got_first: u64::MAX, answered_first: 0, asked_last: 0 };
    let mut clusters: HashMap<Option<Value>, Cluster> = HashMap::from([(before, first)]);
    let new = Cluster { set: None, certain: false, got_first: u64::MAX, answered_first: u64::MAX, asked_last: 0 };
    for operation in operations.filter(|operation| operation.outcome != Outcome::Failed) {
        let [step] = operation.steps.as_slice() else { return None };
        let certain = operation.outcome == Outcome::Done;
        let from = operation.from.saturating_add(1);
        let until = if certain { operation.until.map_or(u64::MAX, |until| until.saturating_add(1)) } else { u64::MAX };
        match (step.ask, step.answer) {
            (Ask::Get, Some(Answer::Value(_) | Answer::Absent)) if certain => {
                let value = if let Some(Answer::Value(value)) = step.answer { Some(value) } else { None };
                let cluster = clusters.entry(value).or_insert(new);
                cluster.certain = true;
                cluster.got_first = cluster.got_first.min(until);
                cluster.answered_first = cluster.answered_first.min(until);
                cluster.asked_last = cluster.asked_last.max(from);
            }
            (Ask::Get, None) => {}
            (Ask::Get, Some(_)) if !certain => {}
            (Ask::Set(value), None | Some(Answer::Done)) => {
                let cluster = clusters.entry(Some(value)).or_insert(new);
                if cluster.set.is_some() {
                    return None;
                }
                cluster.set = Some(from);
                cluster.certain |= certain;
                cluster.answered_first = cluster.answered_first.min(until);
                cluster.asked_last = cluster.asked_last.max(from);
            }
            _ => return None,
        }
    }
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    for cluster in clusters.into_values().filter(|cluster| cluster.certain) {
        match cluster.set {
            Some(set) if set <= cluster.got_first => {}
            _ => return Some(false),
        }
        if cluster.answered_first < cluster.asked_last {
            forward.push((cluster.answered_first, cluster.asked_last));
        } else {
            backward.push((cluster.asked_last, cluster.answered_first));
        }
    }
    forward.sort_unstable();
    if forward.windows(2).any(|pair| pair[1].0 < pair[0].1) {
        return Some(false);
    }
    let is_within = |&(low, high): &(u64, u64)| {
        // The last forward zone that begins before it is the only one that can hold it.
        let place = forward.partition_point(|zone| zone.0 < low);
        place > 0 && high < forward[place - 1].1
    };
    Some(!backward.iter().any(is_within))
}
