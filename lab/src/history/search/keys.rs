//! A set of keys: those on which it hung that a search got no further.

use crate::history::model::Prepared;

/// Keys that are told apart; with more, the set counts as all keys. Then the search jumps back less far, and finds the same.
const KEYS_MAX: usize = 256;

/// Keys by their numbers, sorted; or all keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    all: bool,
    slots: Box<[u32]>,
}

impl Keys {
    /// These, in any order.
    pub(super) fn new(mut slots: Vec<u32>) -> Keys {
        slots.sort_unstable();
        slots.dedup();
        if slots.len() > KEYS_MAX {
            return Keys { all: true, slots: Box::default() };
        }
        Keys { all: false, slots: slots.into() }
    }

    /// Those of an operation.
    pub(super) fn of(operation: &Prepared) -> Keys {
        Keys::new(operation.moves.iter().map(|step| step.slot).collect())
    }

    fn is_empty(&self) -> bool {
        !self.all && self.slots.is_empty()
    }

    /// Whether there is a key in both.
    pub(super) fn meets(&self, other: &Keys) -> bool {
        if self.all || other.all {
            return !self.is_empty() && !other.is_empty();
        }
        let (few, many) = if self.slots.len() < other.slots.len() { (self, other) } else { (other, self) };
        few.slots.iter().any(|slot| many.slots.binary_search(slot).is_ok())
    }

    /// Adds those of `other`.
    pub(super) fn add(&mut self, other: &Keys) {
        if self.all || other.is_empty() {
            return;
        }
        if other.all {
            *self = other.clone();
        } else if !other.slots.iter().all(|slot| self.slots.binary_search(slot).is_ok()) {
            *self = Keys::new(self.slots.iter().chain(&other.slots).copied().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_meet_and_grow_until_they_are_all() {
        let mut some = Keys::new(vec![5, 1, 5]);
        assert!(some.meets(&Keys::new(vec![9, 5])) && !some.meets(&Keys::new(vec![2, 3])));
        some.add(&Keys::new(vec![2]));
        assert!(some.meets(&Keys::new(vec![2])) && some.meets(&Keys::new(vec![1])));
        some.add(&Keys::new((100..400).collect()));
        assert!(some.meets(&Keys::new(vec![90])), "too many to tell apart");
        assert!(!some.meets(&Keys::default()) && !Keys::default().meets(&some));
    }
}
