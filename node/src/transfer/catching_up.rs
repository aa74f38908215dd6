//! What of the log a peer will ask for that takes a snapshot: everything behind the snapshot's position. Were it cut meanwhile, the peer would need another
//! snapshot, and while clients write fast enough another one after that, for ever.

use std::time::Duration;

use base::{NodeId, Position, Time};

use super::Transfers;

/// A peer that has taken a snapshot and not yet what came after it.
#[derive(Debug)]
pub(super) struct CatchingUp {
    pub peer: NodeId,
    /// It has everything up to here.
    pub has: Position,
    pub progress_at: Time,
}

impl CatchingUp {
    /// True if the peer lacks entries before `cut` and comes nearer, as far as can be told from how far its log agrees with the leader's.
    fn continues(&mut self, now: Time, cut: Position, matched: Option<Position>, held_for: Duration) -> bool {
        if let Some(matched) = matched.filter(|matched| *matched > self.has) {
            self.has = matched;
            self.progress_at = now;
        }
        self.has < cut && now.since(self.progress_at) < held_for
    }
}

impl Transfers {
    /// Peers want the log behind this position when it is about to be cut at `cut`; it begins behind `base`. A peer that has everything up to `cut` has caught up.
    /// `matched` tells how far a peer's log agrees with this node's, if it leads.
    pub(crate) fn wanted_behind(
        &mut self,
        now: Time,
        (base, cut): (Position, Position),
        matched: impl Fn(NodeId) -> Option<Position>,
    ) -> Option<Position> {
        self.end_overdue(now);
        let held_for = self.held_for;
        self.catching_up.retain_mut(|peer| peer.continues(now, cut, matched(peer.peer), held_for));
        let taking = self.sending.iter().filter(|sending| !sending.done).map(|sending| sending.place.0);
        let catching_up = self.catching_up.iter().map(|peer| peer.has);
        // A peer whose entries are gone already needs another snapshot, so nothing is held for it.
        taking.chain(catching_up).filter(|position| (base..cut).contains(position)).min()
    }
}
