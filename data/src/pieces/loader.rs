//! Sorted keys into spaces that are empty.

use super::cutter::next_number;
use super::{Branch, Next, Spaces, WHOLE_BYTES_MAX, first_branch, next};
use base::ordered::{Changes, OrderedBatch};

/// Writes keys, each greater than all before it, into two spaces that nothing was written to. What comes to the space of the keys ascends, too; the pieces come
/// in no order. It remembers one key.
#[derive(Debug)]
pub(crate) struct Loader {
    spaces: Spaces,
    /// The branches on the way to the last key, if it was a long one: each as far as it is counted.
    way: Vec<(Vec<u8>, Branch)>,
    next_number: u64,
}

impl Loader {
    pub(crate) fn new(spaces: Spaces) -> Loader {
        Loader { spaces, way: Vec::new(), next_number: 1 }
    }

    /// Whether there was a long key.
    pub(crate) fn has_pieces(&self) -> bool {
        self.next_number > 1
    }

    /// Takes the next key.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        value: impl FnOnce(&mut Vec<u8>),
        sorted: &mut Changes,
        pieces: &mut OrderedBatch,
    ) {
        if key.len() <= WHOLE_BYTES_MAX {
            return self.push_short(|bytes| bytes.extend_from_slice(key), value, sorted, pieces);
        }
        let (mut at, mut rest) = first_branch(key);
        let mut depth = 0;
        loop {
            // The way of the last key, as far as this one goes it, too.
            if self.way.get(depth).is_none_or(|(open, _)| *open != at) {
                self.close(depth, sorted, pieces);
                self.count(depth);
                self.way.push((at, Branch { number: self.next_number, entries: 0 }));
                self.next_number += 1;
            }
            let branch = self.way[depth].1;
            depth += 1;
            match next(branch, rest) {
                Next::Value { key } => {
                    self.close(depth, sorted, pieces);
                    self.count(depth);
                    pieces.changes.write(self.spaces.pieces, |bytes| bytes.extend_from_slice(&key), Some(value));
                    return;
                }
                Next::Branch { key, rest: further } => (at, rest) = (key, further),
            }
        }
    }

    /// Takes the next key, which is no longer than [`WHOLE_BYTES_MAX`], where it is written.
    pub(crate) fn push_short(
        &mut self,
        key: impl FnOnce(&mut Vec<u8>),
        value: impl FnOnce(&mut Vec<u8>),
        sorted: &mut Changes,
        pieces: &mut OrderedBatch,
    ) {
        self.close(0, sorted, pieces);
        sorted.write(self.spaces.keys, key, Some(value));
    }

    /// After the last key, and as often as wanted: everything is written.
    pub(crate) fn finish(&mut self, sorted: &mut Changes, pieces: &mut OrderedBatch) {
        self.close(0, sorted, pieces);
        if self.has_pieces() {
            pieces.changes.push(next_number(self.spaces, self.next_number));
        }
    }

    /// One entry more under the last of so many branches.
    fn count(&mut self, depth: usize) {
        if let Some((_, branch)) = depth.checked_sub(1).and_then(|last| self.way.get_mut(last)) {
            branch.entries += 1;
        }
    }

    /// Writes all branches of the way but so many: no further key is under them.
    fn close(&mut self, depth: usize, sorted: &mut Changes, pieces: &mut OrderedBatch) {
        while self.way.len() > depth
            && let Some((key, branch)) = self.way.pop()
        {
            if self.way.is_empty() {
                sorted.push((self.spaces.keys, key, Some(branch.bytes())));
            } else {
                pieces.changes.push((self.spaces.pieces, key, Some(branch.bytes())));
            }
        }
    }
}
