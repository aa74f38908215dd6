//! What the store below holds between two places, known by heart.
//!
//! ```text
//!   keys of the base   ──a──b─────────c──d──e───────f──g──►
//!   known              [──────)    [──────────)
//!                       a run, and nothing else is between its ends
//! ```
//! A walk over the store costs more to begin than to go a hundred steps: it opens each level, and reads a block of each. What walks have read is therefore
//! kept, decoded, as *runs*: all that the base has from one place up to another. A later walk ([`walk`]) takes what is known from runs, and reads only what is not.
//!
//! 1. The base changes only by a flush. While it is under way, the frozen layer says of each key that it changes what there is, whatever was read below; of all
//!    other keys the base says the same before and after. When it is done, runs in which such a key would stand are forgotten ([`Runs::forget`]).
//! 2. Runs do not overlap, and are short: few entries are forgotten together.
//! 3. All runs together have a limit of bytes ([`Kept::RUNS_BYTES_MAX`], unless the owner sets another). Those go first that were not used since the hand of a clock came by.
//!
//! This is no part of the state. A copy knows nothing, replicas may know different things: only how long a walk takes depends on it.

mod walk;

#[cfg(test)]
mod tests;

use crate::kept::Kept;
use crate::layers::Layer;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

pub(crate) use walk::Walk;

/// Entries of one run, at most.
const ENTRIES_MAX: usize = if cfg!(test) { 4 } else { 256 };
/// Bytes of one run, at most, if it has more than one entry.
const RUN_BYTES_MAX: u64 = 64 * 1024;
/// What a run is reckoned to occupy beside its entries.
const RUN_BYTES: u64 = 512;
/// Runs at most, whatever their bytes: when a flush ends all are looked at ([`Runs::forget`]).
const RUNS_MAX: usize = 16 * 1024;
/// One walk may remember one part in so many of all that may be known: a long one does not push out everything else.
const WALK_SHARE: u64 = 4;

/// A place between keys: before a key, or (`true`) right behind it.
pub(crate) type Edge<K> = (<K as Kept>::Key, bool);

/// A key and its value, as the base has them.
pub(crate) type Entry<K> = (<K as Kept>::Key, <K as Kept>::Value);

/// All that the base has between two places. Invariant: entries ascend, and stand between the ends; the beginning is before the end.
#[derive(Debug)]
struct Run<K: Kept> {
    entries: Vec<Entry<K>>,
    end: Edge<K>,
    bytes: u64,
}

#[derive(Debug)]
struct Slot<K: Kept> {
    run: Arc<Run<K>>,
    /// Since the clock's hand came by.
    is_used: bool,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Runs<K: Kept> {
    /// By their beginnings.
    slots: BTreeMap<Edge<K>, Slot<K>>,
    /// Of all runs.
    bytes: u64,
    bytes_max: u64,
    /// Up to where the clock has looked.
    hand: Option<Edge<K>>,
}

impl<K: Kept> Default for Runs<K> {
    fn default() -> Runs<K> {
        Runs { slots: BTreeMap::new(), bytes: 0, bytes_max: K::RUNS_BYTES_MAX, hand: None }
    }
}

/// A copy is for reading, or for a moment: it knows nothing.
impl<K: Kept> Clone for Runs<K> {
    fn clone(&self) -> Runs<K> {
        Runs { bytes_max: self.bytes_max, ..Runs::default() }
    }
}

/// What is known of a place.
enum Known<K: Kept> {
    /// It is in this run.
    Here(Arc<Run<K>>),
    /// Nothing, up to where the next run begins.
    Gap(Option<Edge<K>>),
}

impl<K: Kept> Runs<K> {
    /// Knows nothing, and never will.
    pub(crate) fn none() -> Runs<K> {
        Runs { bytes_max: 0, ..Runs::default() }
    }

    /// Whether anything may be known.
    pub(crate) fn is_enabled(&self) -> bool {
        self.bytes_max > 0
    }

    /// From now on all of them have at most so many bytes. Those of keys that have none anyway never have any.
    pub(crate) fn set_bytes_max(&mut self, bytes: u64) {
        if K::RUNS_BYTES_MAX > 0 {
            self.bytes_max = bytes;
            self.make_room(0);
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.bytes = 0;
        self.hand = None;
    }

    /// The base has taken these changes: what it was known to have where they are is forgotten.
    pub(crate) fn forget(&mut self, changes: &Layer<K>) {
        if self.slots.is_empty() || changes.is_empty() {
            return;
        }
        let touched: Vec<Edge<K>> = if changes.len() < self.slots.len() {
            changes
                .keys()
                .filter_map(|key| self.around(&(key.clone(), false)))
                .map(|(start, _)| start.clone())
                .collect()
        } else {
            let is_touched = |(start, slot): &(&Edge<K>, &Slot<K>)| {
                let bounds = (lower_bound::<K>(start), upper_bound::<K>(&slot.run.end));
                changes.range::<_, K::Ref<'_>>(bounds).next().is_some()
            };
            self.slots.iter().filter(is_touched).map(|(start, _)| start.clone()).collect()
        };
        touched.iter().for_each(|start| self.drop_run(start));
    }

    fn drop_run(&mut self, start: &Edge<K>) {
        if let Some(slot) = self.slots.remove(start) {
            self.bytes -= slot.run.bytes;
        }
    }

    /// The run that a place is in, and where that begins.
    fn around(&self, at: &Edge<K>) -> Option<(&Edge<K>, &Slot<K>)> {
        self.slots.range(..=at).next_back().filter(|(_, slot)| *at < slot.run.end)
    }

    fn look(&mut self, at: &Edge<K>) -> Known<K> {
        if let Some((_, slot)) = self.slots.range_mut(..=at).next_back()
            && *at < slot.run.end
        {
            slot.is_used = true;
            return Known::Here(Arc::clone(&slot.run));
        }
        Known::Gap(self.slots.range(at..).next().map(|(start, _)| start.clone()))
    }

    /// The base has these entries, and no others, from one place up to another.
    fn remember(&mut self, start: Edge<K>, end: Edge<K>, mut entries: Vec<Entry<K>>) {
        if start >= end {
            return;
        }
        let mut bytes = RUN_BYTES + entries.iter().map(entry_bytes::<K>).sum::<u64>();
        // Somebody else may have read the same meanwhile.
        let mut overlapped: Vec<Edge<K>> = self.slots.range(&start..&end).map(|(at, _)| at.clone()).collect();
        overlapped.extend(self.around(&start).map(|(at, _)| at.clone()));
        overlapped.iter().for_each(|at| self.drop_run(at));
        let mut start = start;
        // A short one goes on where this one begins: one for both.
        if let Some((at, slot)) = self.slots.range(..&start).next_back()
            && slot.run.end == start
            && slot.run.entries.len() + entries.len() <= ENTRIES_MAX
            && slot.run.bytes + bytes - RUN_BYTES <= RUN_BYTES_MAX
        {
            bytes += slot.run.bytes - RUN_BYTES;
            entries = slot.run.entries.iter().cloned().chain(entries).collect();
            start = at.clone();
            self.drop_run(&start);
        }
        entries.shrink_to_fit();
        // The ends are keys, too.
        let ends = K::key_heap_bytes(&start.0) + K::key_heap_bytes(&end.0);
        let bytes = bytes + ends as u64;
        if bytes > self.bytes_max {
            return;
        }
        self.make_room(bytes);
        self.bytes += bytes;
        self.slots.insert(start, Slot { run: Arc::new(Run { entries, end, bytes }), is_used: true });
    }

    /// Forgets runs until there is room for so many bytes.
    fn make_room(&mut self, bytes: u64) {
        while self.bytes + bytes > self.bytes_max || self.slots.len() >= RUNS_MAX {
            let behind = self.hand.take().map_or(Bound::Unbounded, Bound::Excluded);
            let Some((start, slot)) = self.slots.range_mut((behind, Bound::Unbounded)).next() else {
                // Once around. Nothing is left only if the limit is less than was asked for.
                if self.slots.is_empty() {
                    return;
                }
                continue;
            };
            let start = start.clone();
            if !std::mem::take(&mut slot.is_used) {
                self.drop_run(&start);
            }
            self.hand = Some(start);
        }
    }
}

fn entry_bytes<K: Kept>((key, value): &Entry<K>) -> u64 {
    K::slot_bytes(K::key_heap_bytes(key), Some(value))
}

/// Whether a key stands before a place.
fn is_before<K: Kept>(key: &K::Key, edge: &Edge<K>) -> bool {
    if edge.1 { *key <= edge.0 } else { *key < edge.0 }
}

fn lower_bound<K: Kept>((key, is_behind): &Edge<K>) -> Bound<K::Ref<'_>> {
    if *is_behind { Bound::Excluded(K::borrow(key)) } else { Bound::Included(K::borrow(key)) }
}

fn upper_bound<K: Kept>((key, is_behind): &Edge<K>) -> Bound<K::Ref<'_>> {
    if *is_behind { Bound::Included(K::borrow(key)) } else { Bound::Excluded(K::borrow(key)) }
}
