//! Entries that are stepped over, as one replica sees them: where it holds, and what stands in the log. Who decides that: [`crate::step_over`].

use base::Position;
use paxos::Token;

use super::{Partition, Wishes};
use crate::inspect::digest_of;
use crate::journal::Batch;
use crate::origins::Way;
use crate::step_over::Stand;
use crate::step_over::void::Void;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// Nothing is applied from any of these on.
    pub held: Vec<Position>,
    /// Voids that all nodes have.
    agreed: Vec<Position>,
    /// The newest replacement is in the journal when this is.
    replaced: Option<Token>,
}

impl Steps {
    /// The log is gone.
    pub(super) fn begin_anew(&mut self) {
        (self.agreed, self.replaced) = (Vec::new(), None);
    }

    /// A void may be applied.
    pub(crate) fn agree(&mut self, position: Position) {
        self.agreed.push(position);
    }

    /// Whether the entry there may be applied.
    pub(super) fn lets(&self, position: Position, is_void: bool) -> bool {
        !self.held.contains(&position) && (!is_void || self.agreed.contains(&position))
    }

    /// It has been.
    pub(super) fn pass(&mut self, position: Position) {
        self.agreed.retain(|agreed| *agreed > position);
    }
}

impl Partition {
    /// The decided entry before which this replica holds, if it has come so far.
    pub(crate) fn stands_before(&self) -> Option<Position> {
        let position = self.applied.next();
        if position > self.replica.decided() {
            return None;
        }
        let entry = self.replica.log().get(position)?;
        (!self.steps.lets(position, Void::read(&entry.payload).is_some())).then_some(position)
    }

    /// How this replica stands to an entry; `is_told`: it is to be stepped over, as far as this node knows.
    pub(crate) fn stand_to(&self, position: Position, is_told: bool) -> Stand {
        if self.applied >= position {
            return match self.origins.way_past(position) {
                Way::Over(digest) => Stand::Done(digest),
                Way::Through => Stand::Kept,
                Way::Unknown => Stand::Passed,
            };
        }
        let not_so_far = if is_told { Stand::Waits } else { Stand::NotTold };
        let held = self.replica.log().get(position).filter(|_| position <= self.replica.decided());
        let Some(entry) = held else { return not_so_far };
        if let Some(void) = Void::read(&entry.payload) {
            let is_on_disk = self.steps.replaced.is_none_or(|token| token <= self.on_disk);
            return if is_on_disk { Stand::Voided(void.digest) } else { Stand::Holds(void.digest) };
        }
        if !is_told {
            return Stand::NotTold;
        }
        if Void::instead_of(entry, self.newest).is_none() {
            return Stand::Unfit;
        }
        if self.applied.next() == position { Stand::Holds(digest_of(entry)) } else { Stand::Waits }
    }

    /// How many bytes it takes to replace an entry, or to put it back.
    pub(crate) fn bytes_to_replace(&self, position: Position) -> usize {
        self.replica.log().get(position).map_or(0, |entry| 2 * entry.payload.len() + 1024)
    }

    /// Puts a void in the place of an entry that is not applied. False if there is one already, or it cannot be.
    pub(crate) fn void(&mut self, position: Position, batch: &mut Batch, wishes: &mut Wishes) -> bool {
        let entry = self.replica.log().get(position);
        let void = entry.and_then(|entry| Void::instead_of(entry, self.newest));
        void.is_some_and(|void| self.replace(position, void, batch, wishes))
    }

    /// Puts the entry back.
    pub(crate) fn put_back(&mut self, position: Position, batch: &mut Batch, wishes: &mut Wishes) -> bool {
        let void = self.replica.log().get(position).and_then(|entry| Void::read(&entry.payload));
        void.is_some_and(|void| self.replace(position, void.former, batch, wishes))
    }

    fn replace(&mut self, position: Position, payload: bytes::Bytes, batch: &mut Batch, wishes: &mut Wishes) -> bool {
        if self.applied >= position {
            return false;
        }
        let Some(token) = self.replica.replace(position, payload, &mut self.outputs) else { return false };
        self.steps.replaced = Some(token);
        self.settle(batch, wishes);
        true
    }
}
