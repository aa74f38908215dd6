//! Another payload in the place of a decided one.
//!
//! Everything else in this crate keeps what is decided as it is. Only the owner may replace an entry, and only once all replicas of the group have agreed to do so
//! (in `node`, `step_over.rs`): no message carries the change, so each replica makes it in its own log. Position and ballot stay. (position, ballot) still names the
//! entry and all before it, and logs that differ in this one payload still match each other: a replica that lacks the entry gets it from a peer in either form, and
//! the owner knows the one from the other by the payload.

use base::Position;
use bytes::Bytes;

use crate::door::{Output, Record, Token};
use crate::members::Members;
use crate::replica::Replica;

impl Replica {
    /// Replaces the payload of a decided entry. With the token comes the disk's word that it will be so after a crash as well.
    ///
    /// None, and nothing has changed, if the entry is not known to be decided, is not held, opens a leadership, or changes who votes: such an entry is this
    /// crate's own, and so is every payload that would be one.
    pub fn replace(&mut self, position: Position, payload: Bytes, out: &mut Vec<Output>) -> Option<Token> {
        let is_own = |payload: &Bytes| payload.is_empty() || Members::is_in(payload);
        let held = self.log.get(position).filter(|_| position <= self.decided)?;
        if is_own(&held.payload) || is_own(&payload) {
            return None;
        }
        self.log.replace(position, payload.clone());
        // Its place in the log is certain whatever becomes of the record: nothing that waits for entries has to wait for it.
        let last = self.log.last();
        Some(self.persist(Record::Replace { position, payload }, last, out))
    }
}
