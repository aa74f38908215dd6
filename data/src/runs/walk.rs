//! A walk over the base that takes from runs what is known, and remembers what it has read and passed.

use super::{
    ENTRIES_MAX, Edge, Entry, Known, RUN_BYTES_MAX, Run, Runs, WALK_SHARE, entry_bytes, is_before, lower_bound,
};
use crate::kept::Kept;
use crate::layers::Base;
use crate::merge::{Said, Sorted};
use base::ordered::OrderedError;
use std::cell::RefCell;
use std::sync::Arc;

/// What the base has from one place up to another, in order. After an error nothing follows.
pub(crate) struct Walk<'a, K: Kept> {
    base: &'a Base,
    runs: &'a RefCell<Runs<K>>,
    /// Where what is neither in `known` nor in `reading` begins.
    at: Edge<K>,
    end: Edge<K>,
    known: Option<Part<K>>,
    reading: Option<Reading<'a, K>>,
    /// Bytes that this walk may still remember.
    room: u64,
}

/// What comes next of a run: the entries from one number up to another.
struct Part<K: Kept> {
    run: Arc<Run<K>>,
    next: usize,
    until: usize,
}

/// A gap between runs that is being read.
struct Reading<'a, K: Kept> {
    below: Sorted<'a, K::Key, K::Value>,
    /// What was read and not passed yet.
    current: Option<Entry<K>>,
    /// Where the gap ends, or the walk.
    stop: Edge<K>,
    /// What was read from `from` on and is not remembered yet.
    from: Edge<K>,
    entries: Vec<Entry<K>>,
    bytes: u64,
}

impl<'a, K: Kept> Walk<'a, K> {
    pub(crate) fn new(base: &'a Base, runs: &'a RefCell<Runs<K>>, start: Edge<K>, end: Edge<K>) -> Walk<'a, K> {
        let room = runs.borrow().bytes_max / WALK_SHARE;
        Walk { base, runs, at: start, end, known: None, reading: None, room }
    }

    /// Turns to what comes at `self.at`.
    fn turn(&mut self) {
        let known = self.runs.borrow_mut().look(&self.at);
        match known {
            Known::Here(run) => {
                let next = run.entries.partition_point(|(key, _)| is_before::<K>(key, &self.at));
                let until = if run.end <= self.end {
                    run.entries.len()
                } else {
                    run.entries.partition_point(|(key, _)| is_before::<K>(key, &self.end))
                };
                self.at = run.end.clone();
                self.known = Some(Part { run, next, until });
            }
            Known::Gap(next) => {
                let stop = next.filter(|next| *next < self.end).unwrap_or_else(|| self.end.clone());
                let below = self.base.range::<K>(lower_bound::<K>(&self.at));
                let from = std::mem::replace(&mut self.at, stop.clone());
                self.reading = Some(Reading { below, current: None, stop, from, entries: Vec::new(), bytes: 0 });
            }
        }
    }

    /// Remembers what was read so far, and that nothing else stands before `end`.
    fn remember(&mut self, end: Edge<K>) {
        let Some(reading) = &mut self.reading else { return };
        let (entries, bytes) = (std::mem::take(&mut reading.entries), std::mem::take(&mut reading.bytes));
        let from = std::mem::replace(&mut reading.from, end.clone());
        if bytes > self.room {
            // From here on the walk is one that was not worth it.
            self.room = 0;
            return;
        }
        self.room -= bytes;
        self.runs.borrow_mut().remember(from, end, entries);
    }

    /// Goes to where something stands that was not passed yet: whether there is anything.
    pub(crate) fn stand(&mut self) -> Result<bool, OrderedError> {
        loop {
            if let Some(part) = &self.known {
                if part.next < part.until {
                    return Ok(true);
                }
                self.known = None;
            }
            if let Some(reading) = &self.reading {
                if reading.current.is_some() || self.read()? {
                    return Ok(true);
                }
                continue;
            }
            if self.at >= self.end {
                return Ok(false);
            }
            self.turn();
        }
    }

    /// What comes next and is at hand: at least one entry where there is anything ([`Walk::stand`]).
    pub(crate) fn at_hand(&self) -> &[Entry<K>] {
        match (&self.known, &self.reading) {
            (Some(part), _) => part.run.entries.get(part.next..part.until).unwrap_or_default(),
            (None, Some(reading)) => reading.current.as_slice(),
            (None, None) => &[],
        }
    }

    /// Passes so many entries of those that are at hand.
    pub(crate) fn pass(&mut self, count: usize) {
        if let Some(part) = &mut self.known {
            part.next += count;
        } else if count > 0
            && let Some(reading) = &mut self.reading
            && let Some(entry) = reading.current.take()
            && self.room > 0
        {
            reading.bytes += entry_bytes::<K>(&entry);
            let behind = (entry.0.clone(), true);
            reading.entries.push(entry);
            if reading.entries.len() >= ENTRIES_MAX || reading.bytes >= RUN_BYTES_MAX {
                self.remember(behind);
            }
        }
    }

    /// Reads the next of a gap; false behind it.
    fn read(&mut self) -> Result<bool, OrderedError> {
        let Some(reading) = &mut self.reading else { return Ok(false) };
        match reading.below.next() {
            Some(Ok((key, Some(value)))) if is_before::<K>(&key, &reading.stop) => {
                reading.current = Some((key, value));
                Ok(true)
            }
            Some(Err(error)) => {
                self.reading = None;
                self.at = self.end.clone();
                Err(error)
            }
            // Behind the gap, or nothing: the base removes nothing that it says.
            _ => {
                if self.room > 0 {
                    let stop = reading.stop.clone();
                    self.remember(stop);
                }
                self.reading = None;
                Ok(false)
            }
        }
    }
}

impl<K: Kept> Iterator for Walk<'_, K> {
    type Item = Said<K::Key, K::Value>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.stand() {
            Ok(true) => {
                let (key, value) = self.at_hand().first()?.clone();
                self.pass(1);
                Some(Ok((key, Some(value))))
            }
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Who stops early has read something all the same.
impl<K: Kept> Drop for Walk<'_, K> {
    fn drop(&mut self) {
        let last = self.reading.as_ref().and_then(|reading| reading.entries.last()).map(|(key, _)| key.clone());
        if let Some(last) = last {
            self.remember((last, true));
        }
    }
}
