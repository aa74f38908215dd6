//! Makes a history that breaks the property small enough to be drawn.
//!
//! Only changes are tried after which a history that has an order would still have one; so what is left at the end, still
//! without an order, shows the fault of the whole:
//!
//! 1. The end is cut off: up to the first answer at which no order exists any more. What was under way then may happen or not.
//! 2. The beginning is cut off, for a single key: after an operation that nothing overlapped and whose answer tells the value.
//! 3. Of several keys, whole ones are left out: the order of all operations would be one of those on the others.
//! 4. Operations that change nothing are left out; and, where keys are only got and set, sets whose value nobody got.

use std::collections::BTreeSet;

use super::group::decide;
use super::operation::{Answer, Ask, Operation, Outcome, Step};
use super::search::Found;
use super::value::Value;
use crate::record::Event;

/// Beginnings that are tried.
const BEGINNINGS_MAX: usize = 64;

/// A small history without an order.
pub(super) struct Small {
    /// The operation that tells the value at the beginning, if the beginning was cut off.
    told_by: Option<Operation>,
    operations: Vec<Operation>,
    before: Option<Value>,
    /// Operations and configurations that may still be looked at.
    work: usize,
}

impl Small {
    /// Begins with the whole history of a group; `work` bounds the operations and configurations that are looked at.
    pub(super) fn new(operations: Vec<Operation>, work: usize) -> Small {
        let operations = operations.into_iter().filter(|operation| operation.outcome != Outcome::Failed).collect();
        Small { told_by: None, operations, before: None, work }
    }

    /// Makes it as small as the work allows; `single` says that the group is one key.
    pub(super) fn run(mut self, single: bool) -> Small {
        self.cut_end();
        if single {
            self.cut_beginning();
        } else {
            self.leave_out_keys();
        }
        self.leave_out();
        self
    }

    fn leave_out_keys(&mut self) {
        let all: BTreeSet<Vec<u8>> =
            self.operations.iter().flat_map(|one| &one.steps).map(|step| step.key.clone()).collect();
        let mut keys: Vec<Vec<u8>> = all.into_iter().collect();
        let mut size = keys.len() / 2;
        while size > 0 && self.work > 0 {
            let mut end = keys.len();
            while end > 0 && keys.len() > 1 {
                let begin = end.saturating_sub(size);
                let kept: BTreeSet<&[u8]> = keys[..begin].iter().chain(&keys[end..]).map(Vec::as_slice).collect();
                let part = |operation: &Operation| {
                    let steps: Vec<Step> =
                        operation.steps.iter().filter(|step| kept.contains(&step.key[..])).cloned().collect();
                    (!steps.is_empty()).then(|| Operation { steps, ..operation.clone() })
                };
                let rest: Vec<Operation> = self.operations.iter().filter_map(part).collect();
                if self.breaks(&rest, self.before) {
                    self.operations = rest;
                    keys.drain(begin..end);
                }
                end = begin;
            }
            size /= 2;
        }
    }

    /// The events in the order of their requests. A value that is got and not set among them is set in `whole`, if anywhere:
    /// the reader wants to see where it came from.
    pub(super) fn events(mut self, whole: &[Operation]) -> Vec<Event> {
        self.operations.extend(self.told_by);
        let steps = |operations: &[Operation]| operations.iter().flat_map(|one| one.steps.clone()).collect::<Vec<_>>();
        let shown: BTreeSet<Value> = steps(&self.operations).iter().filter_map(put).collect();
        let mut wanted: BTreeSet<Value> = steps(&self.operations).iter().filter_map(got).collect();
        wanted.retain(|value| !shown.contains(value));
        for operation in whole.iter().filter(|operation| operation.outcome != Outcome::Failed) {
            if let [step] = operation.steps.as_slice()
                && let Some(value) = put(step)
                && wanted.remove(&value)
            {
                self.operations.push(operation.clone());
            }
        }
        self.operations.sort_by_key(|operation| (operation.from, operation.until.unwrap_or(u64::MAX)));
        self.operations.iter().map(Operation::event).collect()
    }

    /// What is left.
    #[cfg(test)]
    pub(super) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// What a single key held at the beginning of what is left.
    #[cfg(test)]
    pub(super) fn before(&self) -> Option<Value> {
        self.before
    }

    /// Whether these have no order, surely.
    fn breaks(&mut self, operations: &[Operation], before: Option<Value>) -> bool {
        if self.work == 0 {
            return false;
        }
        let all: Vec<&Operation> = operations.iter().collect();
        let (found, configurations) = decide(&all, before, self.work);
        self.work = self.work.saturating_sub(operations.len() + configurations);
        found == Found::NoOrder
    }

    fn cut_end(&mut self) {
        let mut ends: Vec<u64> =
            self.operations.iter().filter(|one| is_done(one)).filter_map(|one| one.until).collect();
        ends.sort_unstable();
        ends.dedup();
        // What has no order up to one answer has none up to a later one: the first such is found by halving.
        let (mut low, mut high) = (0, ends.len());
        while low < high {
            let middle = (low + high) / 2;
            let part = self.until(ends[middle]);
            if self.breaks(&part, self.before) {
                self.operations = part;
                high = middle;
            } else {
                low = middle + 1;
            }
        }
    }

    /// What was known at the moment `end`.
    fn until(&self, end: u64) -> Vec<Operation> {
        let mut known = Vec::new();
        for operation in self.operations.iter().filter(|operation| operation.from <= end) {
            let is_over = operation.until.is_some_and(|until| until <= end);
            if !is_done(operation) || is_over {
                known.push(operation.clone());
            } else if operation.steps.iter().any(|step| !matches!(step.ask, Ask::Get | Ask::Items)) {
                let steps = operation.steps.iter().map(|step| Step { answer: None, ..step.clone() }).collect();
                known.push(Operation { outcome: Outcome::Unknown, until: None, steps, ..operation.clone() });
            }
        }
        known
    }

    fn cut_beginning(&mut self) {
        let mut operations = self.operations.clone();
        operations.sort_by_key(|operation| (!is_done(operation), operation.from));
        let certain = operations.partition_point(is_done);
        let mut beginnings = Vec::new();
        let mut latest = None;
        for place in 0..certain {
            let operation = &operations[place];
            let until = operation.until.unwrap_or(u64::MAX);
            let is_alone = latest.is_none_or(|latest| latest < operation.from)
                && (place + 1 == certain || operations[place + 1].from > until);
            latest = latest.max(Some(until));
            if let Some(value) = value_after(operation).filter(|_| is_alone) {
                beginnings.push((place, value));
            }
        }
        for &(place, before) in beginnings.iter().rev().take(BEGINNINGS_MAX) {
            let rest = operations[place + 1..].to_vec();
            if self.breaks(&rest, before) {
                self.told_by = Some(operations[place].clone());
                (self.operations, self.before) = (rest, before);
                return;
            }
        }
    }

    fn leave_out(&mut self) {
        loop {
            let count = self.operations.len();
            let mut size = (count / 2).max(1);
            loop {
                self.leave_out_pieces(size);
                if size == 1 {
                    break;
                }
                size /= 2;
            }
            if self.operations.len() == count || self.work == 0 {
                return;
            }
        }
    }

    /// Tries to leave out what may be left out among each `size` neighbours, from the last ones on.
    fn leave_out_pieces(&mut self, size: usize) {
        let mut end = self.operations.len();
        while end > 0 && self.work > 0 {
            let begin = end.saturating_sub(size);
            let needless = self.needless();
            let piece = begin..end;
            if needless[piece.clone()].contains(&true) {
                let keep = |place: usize| !(piece.contains(&place) && needless[place]);
                let rest: Vec<Operation> = (0..self.operations.len())
                    .filter(|&place| keep(place))
                    .map(|place| self.operations[place].clone())
                    .collect();
                if self.breaks(&rest, self.before) {
                    self.operations = rest;
                }
            }
            end = begin.min(self.operations.len());
        }
    }

    /// Which operations may be left out without making an order impossible.
    fn needless(&self) -> Vec<bool> {
        let plain =
            |step: &Step| matches!((step.ask, step.answer), (Ask::Get, _) | (Ask::Set(_), None | Some(Answer::Done)));
        let is_register = self.operations.iter().all(|one| one.steps.iter().all(plain));
        let got: BTreeSet<Value> = self.operations.iter().flat_map(|one| &one.steps).filter_map(got).collect();
        self.operations
            .iter()
            .map(|operation| {
                let looks = operation.steps.iter().all(only_looked);
                let unread = |step: &Step| matches!(step.ask, Ask::Set(value) if !got.contains(&value));
                let unnoticed = |step: &Step| step.ask == Ask::Get || unread(step);
                looks || is_register && operation.steps.iter().all(unnoticed)
            })
            .collect()
    }
}

fn is_done(operation: &Operation) -> bool {
    operation.outcome == Outcome::Done
}

/// The value that the step put, if it did.
fn put(step: &Step) -> Option<Value> {
    match (step.ask, step.answer) {
        (Ask::SetIfAbsent(_) | Ask::CompareAndSet { .. }, Some(Answer::Flag(false))) => None,
        (
            Ask::Set(value)
            | Ask::SetIfAbsent(value)
            | Ask::Push(_, value)
            | Ask::CompareAndSet { new: Some(value), .. },
            _,
        ) => Some(value),
        _ => None,
    }
}

fn got(step: &Step) -> Option<Value> {
    if let Some(Answer::Value(value)) = step.answer { Some(value) } else { None }
}

/// Whether the step changed nothing, by its answer.
fn only_looked(step: &Step) -> bool {
    let refused = matches!(step.ask, Ask::SetIfAbsent(_) | Ask::CompareAndSet { .. } | Ask::Delete);
    match step.answer {
        Some(Answer::Refused) => true,
        Some(Answer::Flag(false)) if refused => true,
        Some(Answer::Absent) if matches!(step.ask, Ask::Pop(_)) => true,
        _ => matches!(step.ask, Ask::Get | Ask::Items),
    }
}

/// The value of the key right after an operation, if its answer tells it.
fn value_after(operation: &Operation) -> Option<Option<Value>> {
    let [step] = operation.steps.as_slice() else { return None };
    match (step.ask, step.answer?) {
        (Ask::Get, Answer::Value(value)) | (Ask::Set(value), Answer::Done) => Some(Some(value)),
        // What a list has is not told by its number: its beginning is only cut off where it is empty.
        (Ask::Get | Ask::Pop(_) | Ask::Items, Answer::Absent) | (Ask::Delete, Answer::Flag(_)) => Some(None),
        (Ask::SetIfAbsent(new), Answer::Flag(true)) => Some(Some(new)),
        (Ask::CompareAndSet { new, .. }, Answer::Flag(true)) => Some(new),
        (Ask::Add(_), Answer::Integer(sum)) => Some(Some(Value::of_integer(sum))),
        _ => None,
    }
}
