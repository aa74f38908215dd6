//! The sequential store that histories are compared with: keys, each absent or with a value, and the texts replaced by numbers. [`lists`] is
//! what it knows of lists.

#![allow(clippy::disallowed_types, reason = "these tables are looked things up in and never walked through")]

mod lists;

use std::collections::HashMap;

use super::operation::{Answer, Ask, End, Operation, Outcome};
use super::value::Value;
use lists::Lists;

/// A value's number; [`ABSENT`] is none.
pub(super) type ValueId = u32;

/// "There is no value."
pub(super) const ABSENT: ValueId = 0;

/// Values by number, so that states are small and quickly compared.
#[derive(Default)]
pub(super) struct Values {
    numbers: HashMap<Value, ValueId>,
    values: Vec<Value>,
    made: HashMap<(ValueId, Making), Option<ValueId>>,
    lists: Lists,
}

/// What makes one value from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Making {
    Adding(i64),
    Appending(ValueId),
    Pushing(End, ValueId),
    Popping(End),
}

impl Values {
    /// The number of a value, the same for equal values.
    pub(super) fn number(&mut self, value: Option<Value>) -> ValueId {
        let Some(value) = value else { return ABSENT };
        let next = self.values.len() as ValueId + 1;
        let number = *self.numbers.entry(value).or_insert(next);
        if number == next {
            self.values.push(value);
        }
        number
    }

    fn value(&self, number: ValueId) -> Option<Value> {
        (number as usize).checked_sub(1).map(|place| self.values[place])
    }

    /// What `making` makes of `from`; none if it is refused.
    fn make(&mut self, from: ValueId, making: Making) -> Option<ValueId> {
        if let Some(&made) = self.made.get(&(from, making)) {
            return made;
        }
        let before = self.value(from);
        let made = match making {
            Making::Adding(number) => {
                let present = before.map_or(Some(0), |value| value.integer());
                let sum = present.and_then(|present| present.checked_add(number));
                sum.map(|sum| self.number(Some(Value::of_integer(sum))))
            }
            Making::Appending(more) => {
                let empty = Value::new(b"");
                let joined = before.unwrap_or(empty).followed_by(&self.value(more).unwrap_or(empty));
                Some(self.number(Some(joined)))
            }
            Making::Pushing(end, item) => self.pushed(from, end, item),
            Making::Popping(end) => self.popped(from, end),
        };
        self.made.insert((from, making), made);
        made
    }
}

/// A step with its texts replaced by numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Move {
    /// The key's number within the group.
    pub(super) slot: u32,
    action: Action,
    seen: Seen,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Get,
    Set(ValueId),
    SetIf { expected: ValueId, new: ValueId },
    Add(i64),
    Append(ValueId),
    Push(End, ValueId),
    Pop(End),
    Items,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Seen {
    Anything,
    Value(ValueId),
    Integer(i64),
    /// Whether the condition held; of a delete: whether there was a value.
    Flag(bool),
    Refused,
    /// What no store answers to this.
    Nonsense,
}

/// An operation made ready for the search.
pub(super) struct Prepared {
    /// When it was asked.
    pub(super) from: u64,
    /// When it was over; `u64::MAX` if it may happen at any later time, or never.
    pub(super) until: u64,
    /// What it does.
    pub(super) moves: Box<[Move]>,
}

impl Prepared {
    /// Makes an operation ready, if it can matter; `slot` numbers the keys. The flag says whether it was surely done.
    pub(super) fn new(
        operation: &Operation,
        values: &mut Values,
        mut slot: impl FnMut(&[u8]) -> u32,
    ) -> Option<(Prepared, bool)> {
        let certain = operation.outcome == Outcome::Done;
        if operation.outcome == Outcome::Failed || operation.steps.is_empty() {
            return None;
        }
        let mut moves = Vec::with_capacity(operation.steps.len());
        for step in &operation.steps {
            let is_delete = step.ask == Ask::Delete;
            let action = match step.ask {
                Ask::Get => Action::Get,
                Ask::Set(value) => Action::Set(values.number(Some(value))),
                Ask::SetIfAbsent(value) => Action::SetIf { expected: ABSENT, new: values.number(Some(value)) },
                Ask::CompareAndSet { expected, new } => {
                    Action::SetIf { expected: values.number(expected), new: values.number(new) }
                }
                Ask::Add(number) => Action::Add(number),
                Ask::Append(value) => Action::Append(values.number(Some(value))),
                Ask::Delete => Action::Set(ABSENT),
                Ask::Push(end, value) => Action::Push(end, values.number(Some(value))),
                Ask::Pop(end) => Action::Pop(end),
                Ask::Items => Action::Items,
            };
            let seen = match (step.answer.filter(|_| certain), action) {
                (None, _) => Seen::Anything,
                (Some(Answer::Absent), Action::Get | Action::Pop(_) | Action::Items) => Seen::Value(ABSENT),
                (Some(Answer::Value(value)), Action::Get | Action::Pop(_) | Action::Items) => {
                    Seen::Value(values.number(Some(value)))
                }
                (Some(Answer::Done), Action::Set(_)) => Seen::Anything,
                (Some(Answer::Flag(flag)), Action::Set(_)) if is_delete => Seen::Flag(flag),
                (Some(Answer::Flag(flag)), Action::SetIf { .. }) => Seen::Flag(flag),
                (Some(Answer::Integer(number)), Action::Add(_) | Action::Append(_) | Action::Push(..)) => {
                    Seen::Integer(number)
                }
                (Some(Answer::Refused), Action::Add(_)) => Seen::Refused,
                _ => Seen::Nonsense,
            };
            moves.push(Move { slot: slot(&step.key), action, seen });
        }
        let until = if certain { operation.until.unwrap_or(u64::MAX) } else { u64::MAX };
        Some((Prepared { from: operation.from, until, moves: moves.into() }, certain))
    }

    /// Whether by its answers it changes nothing, whatever is there.
    pub(super) fn only_looks(&self) -> bool {
        self.moves.iter().all(|step| match (step.action, step.seen) {
            (Action::Get | Action::Items, _) | (_, Seen::Refused | Seen::Nonsense) => true,
            (Action::Pop(_), Seen::Value(ABSENT)) => true,
            (Action::Set(ABSENT) | Action::SetIf { .. }, Seen::Flag(flag)) => !flag,
            _ => false,
        })
    }

    /// Does it: the slots that it changes go to `log` with what they held. If an answer does not fit, nothing is changed.
    pub(super) fn apply(&self, state: &mut [ValueId], values: &mut Values, log: &mut Vec<(u32, ValueId)>) -> bool {
        let mark = log.len();
        for step in &self.moves {
            let before = state[step.slot as usize];
            let Some(after) = step.apply(before, values) else {
                revert(state, log, mark);
                return false;
            };
            if after != before {
                log.push((step.slot, before));
                state[step.slot as usize] = after;
            }
        }
        true
    }
}

/// Takes back what was logged from `mark` on.
pub(super) fn revert(state: &mut [ValueId], log: &mut Vec<(u32, ValueId)>, mark: usize) {
    for (slot, before) in log.drain(mark..).rev() {
        state[slot as usize] = before;
    }
}

impl Move {
    /// What is there afterwards, if the answer fits to what was there before.
    fn apply(&self, before: ValueId, values: &mut Values) -> Option<ValueId> {
        let fits = |fits: bool, after: ValueId| fits.then_some(after);
        match self.action {
            Action::Get | Action::Items => match self.seen {
                Seen::Anything => Some(before),
                Seen::Value(seen) => fits(seen == before, before),
                _ => None,
            },
            Action::Set(new) => match self.seen {
                Seen::Anything => Some(new),
                Seen::Flag(was_there) => fits(was_there == (before != ABSENT), new),
                _ => None,
            },
            Action::SetIf { expected, new } => {
                let holds = before == expected;
                let after = if holds { new } else { before };
                match self.seen {
                    Seen::Anything => Some(after),
                    Seen::Flag(flag) => fits(flag == holds, after),
                    _ => None,
                }
            }
            Action::Add(number) => match (self.seen, values.make(before, Making::Adding(number))) {
                (Seen::Anything, sum) => Some(sum.unwrap_or(before)),
                (Seen::Integer(seen), Some(sum)) => {
                    fits(values.value(sum).and_then(|sum| sum.integer()) == Some(seen), sum)
                }
                (Seen::Refused, None) => Some(before),
                _ => None,
            },
            Action::Push(end, item) => match (self.seen, values.make(before, Making::Pushing(end, item))) {
                (Seen::Anything, pushed) => Some(pushed.unwrap_or(before)),
                (Seen::Integer(seen), Some(pushed)) => fits(values.items(pushed) as i64 == seen, pushed),
                _ => None,
            },
            Action::Pop(end) => match (self.seen, values.make(before, Making::Popping(end))) {
                // Of no list nothing is taken.
                (Seen::Anything, rest) => Some(rest.unwrap_or(before)),
                (Seen::Value(ABSENT), None) => fits(before == ABSENT, before),
                (Seen::Value(seen), Some(rest)) => fits(values.at(before, end) == Some(seen), rest),
                _ => None,
            },
            Action::Append(more) => {
                let joined = values.make(before, Making::Appending(more))?;
                match self.seen {
                    Seen::Anything => Some(joined),
                    Seen::Integer(length) => {
                        let is = values.value(joined).map(|joined| i64::from(joined.length()));
                        fits(is == Some(length), joined)
                    }
                    _ => None,
                }
            }
        }
    }
}
