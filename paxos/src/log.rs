//! The log in memory: a contiguous run of entries behind a base that a snapshot covers.

use std::collections::VecDeque;

use base::{Ballot, Position};
use bytes::Bytes;

use crate::message::{Entry, Tail};

/// `base < first … last`; empty when `first > last`.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The last position that is not held any more (0: none). A snapshot covers it and all before it.
    base: Position,
    /// The ballot of the entry at `base`.
    base_ballot: Ballot,
    entries: VecDeque<Entry>,
    /// The sum of the entries' weights, in bytes.
    bytes: u64,
    /// A range (both ends included) whose entries the disk has lost. They are decided, so any peer can give them back.
    hole: Option<(Position, Position)>,
}

impl Log {
    /// A log that begins after `base`.
    #[must_use]
    pub fn new(base: Position, base_ballot: Ballot) -> Log {
        Log { base, base_ballot, ..Log::default() }
    }

    /// The first position held, or the one that the next entry would get.
    #[must_use]
    pub fn first(&self) -> Position {
        self.base.next()
    }

    /// The position that a snapshot covers.
    #[must_use]
    pub fn base(&self) -> Position {
        self.base
    }

    /// The last position held; the base when there is none.
    #[must_use]
    pub fn last(&self) -> Position {
        Position(self.base.0 + self.entries.len() as u64)
    }

    /// How far the log reaches.
    #[must_use]
    pub fn tail(&self) -> Tail {
        Tail { ballot: self.entries.back().map_or(self.base_ballot, |entry| entry.ballot), last: self.last() }
    }

    /// The sum of the held entries' weights, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The range that the disk has lost, if any; both ends included.
    #[must_use]
    pub fn hole(&self) -> Option<(Position, Position)> {
        self.hole
    }

    fn index(&self, position: Position) -> Option<usize> {
        let index = usize::try_from(position.0.checked_sub(self.base.0 + 1)?).ok()?;
        (index < self.entries.len() && !self.in_hole(position)).then_some(index)
    }

    fn in_hole(&self, position: Position) -> bool {
        self.hole.is_some_and(|(from, until)| from <= position && position <= until)
    }

    /// The entry at `position`, if it is held.
    #[must_use]
    pub fn get(&self, position: Position) -> Option<&Entry> {
        self.index(position).map(|index| &self.entries[index])
    }

    /// The ballot of the entry at `position`, if it is known: held, or at the base.
    #[must_use]
    pub fn ballot_at(&self, position: Position) -> Option<Ballot> {
        if position == self.base { Some(self.base_ballot) } else { self.get(position).map(|entry| entry.ballot) }
    }

    /// Puts another payload in the place of the one at `position`, if that is held: the ballot stays, and so does all that follows. Whether it was held.
    pub fn replace(&mut self, position: Position, payload: Bytes) -> bool {
        let Some(index) = self.index(position) else { return false };
        let entry = &mut self.entries[index];
        self.bytes -= entry.weight() as u64;
        entry.payload = payload;
        self.bytes += entry.weight() as u64;
        true
    }

    /// Appends one entry and returns its position.
    pub fn append(&mut self, entry: Entry) -> Position {
        self.bytes += entry.weight() as u64;
        self.entries.push_back(entry);
        self.last()
    }

    /// Entries from `from` up to `until` (included), at least one if it is held, at most about `bytes_target` bytes.
    #[must_use]
    pub fn slice(&self, from: Position, until: Position, bytes_target: usize) -> Vec<Entry> {
        let Some(start) = self.index(from) else { return Vec::new() };
        let mut taken = Vec::new();
        let (mut bytes, mut position) = (0, from);
        for entry in self.entries.range(start..) {
            if position > until || self.in_hole(position) || (bytes > 0 && bytes + entry.weight() > bytes_target) {
                break;
            }
            bytes += entry.weight();
            taken.push(entry.clone());
            position = position.next();
        }
        taken
    }

    /// Drops everything after `position`.
    pub fn truncate_after(&mut self, position: Position) {
        while self.last() > position && !self.entries.is_empty() {
            if let Some(entry) = self.entries.pop_back() {
                self.bytes -= entry.weight() as u64;
            }
        }
        self.hole =
            self.hole.filter(|(from, _)| *from <= self.last()).map(|(from, until)| (from, until.min(self.last())));
    }

    /// Forgets everything up to `position`, which a snapshot covers. `position` must be held or lie beyond the end.
    pub fn drop_until(&mut self, position: Position, ballot: Ballot) {
        if position <= self.base {
            return;
        }
        while self.base < position {
            match self.entries.pop_front() {
                Some(entry) => self.bytes -= entry.weight() as u64,
                None => break,
            }
            self.base = self.base.next();
        }
        self.base = position;
        self.base_ballot = ballot;
        self.hole =
            self.hole.filter(|(_, until)| *until > position).map(|(from, until)| (from.max(position.next()), until));
    }

    /// Says which ballot the entry at the base has, where nobody knew.
    pub fn settle_base(&mut self, ballot: Ballot) {
        self.base_ballot = ballot;
    }

    /// Begins anew after `position`, which a snapshot covers. What follows stays if it follows that very entry; else the log as it was
    /// is returned: freeing it may take long.
    pub fn reset(&mut self, position: Position, ballot: Ballot) -> Option<Log> {
        let lost = self.hole.is_some_and(|(from, until)| from <= position && position <= until);
        if lost || self.ballot_at(position) == Some(ballot) {
            self.drop_until(position, ballot);
            None
        } else {
            Some(std::mem::replace(self, Log::new(position, ballot)))
        }
    }

    /// The sum of the weights of the entries in `from..=until`, in bytes.
    #[must_use]
    pub fn weight(&self, from: Position, until: Position) -> usize {
        let start = from.0.saturating_sub(self.base.0 + 1) as usize;
        let end = until.0.saturating_sub(self.base.0) as usize;
        let end = end.min(self.entries.len());
        self.entries.range(start.min(end)..end).map(Entry::weight).sum()
    }

    /// Appends placeholders up to `until` for entries that the disk has lost, and marks everything from `from` on as lost.
    pub fn lose(&mut self, from: Position, until: Position) {
        while self.last() < until {
            self.append(Entry { ballot: Ballot::default(), payload: bytes::Bytes::new() });
        }
        let (from, until) = match self.hole {
            Some((other_from, other_until)) => (from.min(other_from), until.max(other_until)),
            None => (from, until),
        };
        let from = from.max(self.first());
        self.hole = (from <= until).then_some((from, until));
    }

    /// Puts decided entries back into the front of the hole. Returns whether the hole is closed now.
    pub fn fill(&mut self, previous: Position, entries: Vec<Entry>) -> bool {
        let mut position = previous;
        for entry in entries {
            position = position.next();
            let Some((from, until)) = self.hole else { return true };
            if position != from {
                continue;
            }
            let index = (position.0 - self.base.0 - 1) as usize;
            let Some(place) = self.entries.get_mut(index) else { return false };
            self.bytes = self.bytes - place.weight() as u64 + entry.weight() as u64;
            *place = entry;
            self.hole = (from < until).then_some((from.next(), until));
        }
        self.hole.is_none()
    }
}

#[cfg(test)]
mod tests {
    use base::NodeId;
    use bytes::Bytes;

    use super::*;

    fn entry(round: u64) -> Entry {
        Entry { ballot: Ballot { round, node: NodeId(0) }, payload: Bytes::from_static(b"x") }
    }

    fn log(rounds: &[u64]) -> Log {
        let mut log = Log::default();
        for round in rounds {
            log.append(entry(*round));
        }
        log
    }

    #[test]
    fn positions_stay_when_the_front_is_dropped() {
        let mut log = log(&[1, 1, 2, 3]);
        log.drop_until(Position(2), log.ballot_at(Position(2)).unwrap());
        assert_eq!((log.first(), log.last()), (Position(3), Position(4)));
        assert_eq!(log.get(Position(2)), None);
        assert_eq!(log.ballot_at(Position(2)).map(|ballot| ballot.round), Some(1));
        assert_eq!(log.tail().ballot.round, 3);
        log.truncate_after(Position(2));
        assert_eq!((log.last(), log.bytes()), (Position(2), 0));
        log.drop_until(Position(9), Ballot { round: 7, node: NodeId(1) });
        assert_eq!((log.last(), log.tail().ballot.round), (Position(9), 7));
    }

    #[test]
    fn a_slice_has_at_least_one_entry_and_stops_at_its_target() {
        let log = log(&[1, 1, 1, 1]);
        assert_eq!(log.slice(Position(1), Position(4), 1).len(), 1);
        assert_eq!(log.slice(Position(2), Position(3), usize::MAX).len(), 2);
        assert_eq!(log.slice(Position(5), Position(9), usize::MAX).len(), 0);
    }

    #[test]
    fn a_hole_hides_its_entries_until_it_is_filled() {
        let mut log = log(&[1, 1]);
        log.lose(Position(2), Position(4));
        log.append(entry(2));
        assert_eq!(log.get(Position(3)), None);
        assert_eq!(log.slice(Position(1), Position(5), usize::MAX).len(), 1);
        assert!(!log.fill(Position(1), vec![entry(1), entry(1)]));
        assert_eq!(log.hole(), Some((Position(4), Position(4))));
        assert!(log.fill(Position(2), vec![entry(1), entry(1)]));
        assert_eq!(log.slice(Position(1), Position(5), usize::MAX).len(), 5);
    }
}
