//! A moment of a transaction, to which everything can be put back.

use super::Transaction;
use crate::undo::Moment;
use base::Rng;

/// What a transaction was like. Changes, their names and messages only come in addition.
pub(crate) struct Before {
    tree: Moment,
    rng: Rng,
    changes: usize,
    events: usize,
    named: usize,
    published: usize,
}

impl Transaction<'_> {
    /// From here on everything is noted that changes, until [`Transaction::keep`] or [`Transaction::undo`]. Moments nest.
    pub(crate) fn begin_undo(&mut self) -> Before {
        Before {
            tree: self.tree.begin_undo(),
            rng: self.rng.clone(),
            changes: self.changes.len(),
            events: self.events.as_ref().map_or(0, Vec::len),
            named: self.named,
            published: self.published.len(),
        }
    }

    /// What was done since then stays.
    pub(crate) fn keep(&mut self, _before: Before) {
        self.tree.keep();
    }

    /// Puts everything back as it was at that moment.
    pub(crate) fn undo(&mut self, before: Before) {
        self.tree.undo(before.tree);
        self.rng = before.rng;
        self.changes.truncate(before.changes);
        if let Some((records, _)) = &mut self.records {
            records.truncate(before.named.min(before.changes));
            self.expired_fields.retain(|place| *place < before.changes);
        }
        if let Some(events) = &mut self.events {
            events.truncate(before.events);
        }
        self.named = before.named;
        self.published.truncate(before.published);
    }
}
