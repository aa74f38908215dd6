//! What the model knows of lists: a list is a value like any other, its number that of [`Value::list`], and what it has stands beside it.
//!
//! So states stay numbers, which is all that the search compares. A step copies the list once; each is made once, whatever the search tries.

#![allow(clippy::disallowed_types, reason = "these tables are looked things up in and never walked through")]

use std::collections::HashMap;

use super::{ABSENT, ValueId, Values};
use crate::history::operation::End;
use crate::history::value::Value;

/// What each list has, from left to right, by the list's number.
pub(super) type Lists = HashMap<ValueId, Box<[ValueId]>>;

impl Values {
    /// The list `from` with `item` at this end; none if `from` is a value that is no list.
    pub(super) fn pushed(&mut self, from: ValueId, end: End, item: ValueId) -> Option<ValueId> {
        let before: &[ValueId] = if from == ABSENT { &[] } else { self.lists.get(&from)? };
        let items = match end {
            End::Left => [&[item], before].concat(),
            End::Right => [before, &[item]].concat(),
        };
        Some(self.list(items))
    }

    /// The list `from` without what stands at this end; none if it is no list.
    pub(super) fn popped(&mut self, from: ValueId, end: End) -> Option<ValueId> {
        let rest = match (end, &**self.lists.get(&from)?) {
            (End::Left, [_, rest @ ..]) | (End::Right, [rest @ .., _]) => rest.to_vec(),
            (_, []) => return None,
        };
        Some(self.list(rest))
    }

    /// What stands at this end.
    pub(super) fn at(&self, list: ValueId, end: End) -> Option<ValueId> {
        let items = self.lists.get(&list)?;
        match end {
            End::Left => items.first().copied(),
            End::Right => items.last().copied(),
        }
    }

    /// How many it has.
    pub(super) fn items(&self, list: ValueId) -> usize {
        self.lists.get(&list).map_or(0, |items| items.len())
    }

    fn list(&mut self, items: Vec<ValueId>) -> ValueId {
        if items.is_empty() {
            return ABSENT;
        }
        let values: Vec<Value> = items.iter().filter_map(|&item| self.value(item)).collect();
        let number = self.number(Some(Value::list(&values)));
        self.lists.entry(number).or_insert_with(|| items.into());
        number
    }
}
