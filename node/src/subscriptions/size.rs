//! The size of subscriptions, by which they are limited.

use super::filter::Filter;

/// What subscriptions count for, as long as they are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Size {
    /// One and the number of their words, for each partition: the indices have about so many entries for them.
    pub weight: usize,
    /// Bytes of their words.
    pub bytes: usize,
    pub patterns: usize,
}

impl Size {
    pub(super) fn of(filter: &Filter, partitions: usize) -> Size {
        let words = filter.words();
        let (count, bytes) = words.fold((0, 0), |(count, bytes), word| (count + 1, bytes + word.len()));
        Size { weight: (1 + count) * partitions, bytes, patterns: filter.patterns.len() }
    }

    pub(super) fn plus(self, other: Size) -> Size {
        Size {
            weight: self.weight + other.weight,
            bytes: self.bytes + other.bytes,
            patterns: self.patterns + other.patterns,
        }
    }

    pub(super) fn minus(self, other: Size) -> Size {
        Size {
            weight: self.weight - other.weight,
            bytes: self.bytes - other.bytes,
            patterns: self.patterns - other.patterns,
        }
    }
}
