//! Operations in a line, from which they are taken and into which they are put back in constant time.

use crate::history::model::Prepared;

/// Operations in the order in which they were asked, and which of them are not yet done.
pub(super) struct Line {
    pub(super) operations: Vec<Prepared>,
    /// The next and the previous one that is not done; the last place is both ends.
    pub(super) next: Vec<u32>,
    previous: Vec<u32>,
    pub(super) done: Vec<bool>,
    pub(super) left: usize,
}

impl Line {
    pub(super) fn new(mut operations: Vec<Prepared>) -> Line {
        operations.sort_by_key(|operation| (operation.from, operation.until));
        let count = operations.len() as u32;
        Line {
            next: (1..=count).chain([0]).collect(),
            previous: [count].into_iter().chain(0..count).collect(),
            done: vec![false; operations.len()],
            left: operations.len(),
            operations,
        }
    }

    pub(super) fn end(&self) -> u32 {
        self.operations.len() as u32
    }

    pub(super) fn first(&self) -> u32 {
        self.next[self.operations.len()]
    }

    pub(super) fn take(&mut self, number: u32) {
        let (next, previous) = (self.next[number as usize], self.previous[number as usize]);
        self.next[previous as usize] = next;
        self.previous[next as usize] = previous;
        self.done[number as usize] = true;
        self.left -= 1;
    }

    /// Undoes [`take`](Line::take); the last one taken is put back first.
    pub(super) fn put_back(&mut self, number: u32) {
        let (next, previous) = (self.next[number as usize], self.previous[number as usize]);
        self.next[previous as usize] = number;
        self.previous[next as usize] = number;
        self.done[number as usize] = false;
        self.left += 1;
    }
}
