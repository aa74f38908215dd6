//! How everything that an entry has done is taken back: for entries, and for scripts in them, which may pass a limit in the middle.
//!
//! ```text
//!   Tree::begin_undo ─► writes: the first one to each key notes what `active` said of it ─► Tree::keep, or Tree::undo
//! ```
//! A copy of the state would do as well, as copies share what they have in common; but then each write copies the nodes that it changes, some
//! microseconds for each, and a script of two commands took three times as long as the two in a transaction.

use crate::collections::CollectionCounts;
use crate::deadlines::Deadlines;
use crate::kept::Kept;
use crate::layers::Layer;
use crate::removals::Removals;
use crate::tree::Tree;
use base::ordered::Space;
use base::{Revision, WallTime};
use std::collections::BTreeMap;

/// What layers looked like when notes began to be taken.
#[derive(Clone, Debug)]
pub(crate) struct LayersBefore<K: Kept> {
    /// What the active layer said of keys that have been written since, if anything.
    pub slots: BTreeMap<K::Key, Option<Option<K::Value>>>,
    pub len: u64,
    pub active_bytes: u64,
    /// Everything, as it was when it was taken out for the first time. What was written afterwards goes with it, so nothing is noted any more.
    pub cleared: Option<Cleared<K>>,
    /// The notes of what this is a part of: of the transaction around a script.
    pub outer: Option<Box<LayersBefore<K>>>,
}

/// What [`crate::layers::Layers::clear`] has taken out.
#[derive(Clone, Debug)]
pub(crate) struct Cleared<K: Kept> {
    pub active: Layer<K>,
    pub frozen: Layer<K>,
    pub frozen_bytes: u64,
    /// See [`crate::layers::Layers::spaces`].
    pub spaces: [Option<Space>; 2],
}

/// The rest of a state when notes began to be taken: numbers, and what copies share. `DICTUM.ONCE` remembers its outcome when its command is over, so that is not in
/// it.
#[derive(Debug)]
pub(crate) struct Moment {
    time: WallTime,
    revision: Revision,
    counts: CollectionCounts,
    deadlines: Deadlines,
    removals: Removals,
    bytes: u64,
    expired: u64,
    dropped: usize,
    trash: usize,
}

impl Tree {
    /// From here on notes are taken, until [`Tree::keep`] or [`Tree::undo`].
    pub(crate) fn begin_undo(&mut self) -> Moment {
        self.store.begin_undo();
        self.collections.elements.begin_undo();
        Moment {
            time: self.time,
            revision: self.revision,
            counts: self.collections.counts.clone(),
            deadlines: self.deadlines.clone(),
            removals: self.removals.clone(),
            bytes: self.bytes,
            expired: self.expired,
            dropped: self.below.as_ref().map_or(0, |below| below.dropped.len()),
            trash: self.trash.len(),
        }
    }

    /// What was done stays.
    pub(crate) fn keep(&mut self) {
        self.store.keep();
        self.collections.elements.keep();
    }

    /// Whether anything was written since notes are taken.
    pub(crate) fn has_notes(&self) -> bool {
        self.store.has_notes() || self.collections.elements.has_notes()
    }

    /// Everything is as it was at `moment`. What is known by heart is forgotten if anything was written: it tells of what has not happened.
    pub(crate) fn undo(&mut self, moment: Moment) {
        if self.has_notes() {
            self.collections.forget_what_is_known();
        }
        self.store.undo();
        self.collections.elements.undo();
        self.collections.counts = moment.counts;
        self.time = moment.time;
        self.revision = moment.revision;
        self.deadlines = moment.deadlines;
        self.removals = moment.removals;
        self.bytes = moment.bytes;
        self.expired = moment.expired;
        if let Some(below) = &mut self.below {
            below.dropped.truncate(moment.dropped);
        }
        self.trash.truncate(moment.trash);
    }
}
