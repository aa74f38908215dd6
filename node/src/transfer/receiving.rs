//! The receiver's side: asks for blocks, gathers them into batches, has these written.

use std::time::Duration;

use base::limits::SNAPSHOT_BATCH_BLOCKS;
use base::{Ballot, NodeId, PartitionId, Position, Time};
use bytes::Bytes;

use super::Transfers;
use super::jobs::{Incoming, ReceiveJob, Taken, TakenBlocks};
use crate::door::Rubbish;
use crate::image::{Ending, RestoredState};
use crate::peer::{PeerMessage, Wish};

/// A block that does not come is asked for again after so long.
const ASK_AFTER: Duration = Duration::from_millis(300);
/// How often the sender is told that its blocks are still being written.
const SAY_EVERY: Duration = Duration::from_secs(1);
/// A reception that gets no further for so long makes way for another.
const STALE_AFTER: Duration = Duration::from_millis(1200);

/// A snapshot coming from a peer.
#[derive(Debug)]
pub(super) struct Reception {
    from: NodeId,
    transfer: u64,
    place: (Position, Ballot),
    /// The next block wanted.
    next: u64,
    /// Blocks that are here and not written.
    pub(super) waiting: Vec<Bytes>,
    /// All blocks are here: what there must be then.
    ending: Option<Ending>,
    /// Away while blocks are being written.
    incoming: Option<Incoming>,
    /// What is away is the last. From then on nothing else may change what the store says of the state.
    completing: bool,
    /// The next block is not asked for yet: this node's clients come first.
    held: bool,
    /// When it last got further, and when the sender was last told what is wanted.
    progress_at: Time,
    said_at: Time,
}

/// What became of blocks.
#[derive(Debug)]
pub(crate) enum Came {
    /// The state is there; `stored` if it is in the store, synced.
    Whole {
        state: Box<RestoredState>,
        stored: bool,
    },
    /// The blocks of this node are of no use, or could not be written: why.
    Useless(NodeId, String),
    Unwritten(NodeId, String),
    /// Nothing to tell.
    Nothing,
}

impl Reception {
    /// A batch is full.
    fn has_batch(&self) -> bool {
        self.ending.is_some() || self.waiting.len() >= SNAPSHOT_BATCH_BLOCKS
    }

    fn want(&self, partition: PartitionId) -> PeerMessage {
        let wish = if self.held || self.has_batch() { Wish::Wait } else { Wish::Next };
        PeerMessage::SnapshotWant { partition, transfer: self.transfer, index: self.next, wish }
    }
}

impl Transfers {
    /// A peer offers a snapshot. `applied` is what this node has: older ones are not wanted. Neither are any while `refuses`.
    pub(crate) fn on_offer(
        &mut self,
        now: Time,
        partition: PartitionId,
        (from, transfer): (NodeId, u64),
        place: (Position, Ballot),
        (applied, refuses): (Position, bool),
        incoming: impl FnOnce() -> Incoming,
    ) -> Option<PeerMessage> {
        if let Some(reception) = &mut self.receiving {
            if (reception.from, reception.transfer) == (from, transfer) {
                reception.said_at = now;
                return Some(reception.want(partition));
            }
            let newer = reception.from == from && transfer > reception.transfer;
            let stale = now.since(reception.progress_at) >= STALE_AFTER && reception.incoming.is_some();
            if reception.completing || !(newer || stale) {
                return None;
            }
        }
        if place.0 <= applied || refuses || self.refused == Some((from, transfer)) {
            return Some(PeerMessage::SnapshotWant { partition, transfer, index: 0, wish: Wish::Done });
        }
        if self.receiving.is_some() {
            self.probes.push("node: snapshot broken off and begun again");
        }
        self.give_up_reception();
        let reception = Reception {
            from,
            transfer,
            place,
            next: 0,
            waiting: Vec::new(),
            ending: None,
            incoming: Some(incoming()),
            completing: false,
            held: false,
            progress_at: now,
            said_at: now,
        };
        let want = reception.want(partition);
        self.receiving = Some(reception);
        Some(want)
    }

    /// Takes a block. `asks`: the next one may be asked for at once.
    #[expect(clippy::too_many_arguments, reason = "all of it came with one message")]
    pub(crate) fn on_block(
        &mut self,
        now: Time,
        partition: PartitionId,
        (from, transfer): (NodeId, u64),
        index: u64,
        ending: Option<Ending>,
        block: Bytes,
        asks: bool,
    ) -> Option<PeerMessage> {
        let reception = self.receiving.as_mut()?;
        if (reception.from, reception.transfer) != (from, transfer) {
            return None;
        }
        if index == reception.next && !reception.has_batch() {
            reception.waiting.push(block);
            reception.ending = ending;
            reception.next += 1;
            reception.progress_at = now;
        }
        reception.said_at = now;
        reception.held = !asks;
        Some(reception.want(partition))
    }

    /// Whether a block that came was not followed by a question for the next one.
    pub(crate) fn holds_back(&self) -> bool {
        self.receiving.as_ref().is_some_and(|reception| reception.held)
    }

    /// Asks for the next block, which was held back.
    pub(crate) fn ask_on(&mut self, now: Time, partition: PartitionId) -> Option<(NodeId, PeerMessage)> {
        let reception = self.receiving.as_mut().filter(|reception| reception.held)?;
        reception.held = false;
        reception.said_at = now;
        Some((reception.from, reception.want(partition)))
    }

    /// Blocks to be written, if there are enough and nothing is being written. The last ones only if `may_complete`.
    pub(crate) fn receive_job(&mut self, partition: PartitionId, may_complete: bool) -> Option<ReceiveJob> {
        let reception = self.receiving.as_mut().filter(|reception| reception.has_batch())?;
        let last = reception.ending.map(|ending| (ending, reception.place.0, reception.place.1));
        if last.is_some() && !may_complete {
            return None;
        }
        let incoming = reception.incoming.take()?;
        reception.completing = last.is_some();
        let blocks = std::mem::take(&mut reception.waiting);
        Some(ReceiveJob::new(partition, (reception.from, reception.transfer), incoming, blocks, last))
    }

    /// The position of the state whose last blocks are being written.
    pub(crate) fn completing(&self) -> Option<Position> {
        self.receiving.as_ref().filter(|reception| reception.completing).map(|reception| reception.place.0)
    }

    /// All blocks of a state are here that is not wanted any more: the log has brought this node as far.
    pub(crate) fn drop_overtaken(&mut self, applied: Position) {
        let overtaken = |reception: &&Reception| !reception.completing && reception.place.0 <= applied;
        if self.receiving.as_ref().filter(overtaken).is_some() {
            self.probes.push("node: snapshot overtaken by the log");
            self.give_up_reception();
        }
    }

    /// Blocks were written, or could not be. The answer goes to the sender.
    pub(crate) fn on_taken(&mut self, now: Time, taken: TakenBlocks) -> (Came, Option<(NodeId, PeerMessage)>) {
        let TakenBlocks { partition, transfer, spaces, outcome } = taken;
        let current = |reception: &&mut Reception| (reception.from, reception.transfer) == transfer;
        let Some(reception) = self.receiving.as_mut().filter(current) else {
            // Broken off meanwhile. Its last batch was never given to the store.
            self.given_up.extend(spaces);
            if let Taken::Part(incoming) = outcome {
                self.rubbish.push(Rubbish::new(incoming));
            }
            return (Came::Nothing, None);
        };
        let (from, number) = transfer;
        let done = PeerMessage::SnapshotWant { partition, transfer: number, index: reception.next, wish: Wish::Done };
        match outcome {
            Taken::Part(incoming) => {
                reception.incoming = Some(incoming);
                reception.progress_at = now;
                reception.said_at = now;
                (Came::Nothing, Some((from, reception.want(partition))))
            }
            Taken::Whole { state, stored } => {
                self.receiving = None;
                (Came::Whole { state, stored }, Some((from, done)))
            }
            Taken::Useless(text) => {
                self.refuse(transfer, spaces);
                (Came::Useless(from, text), Some((from, done)))
            }
            Taken::Unwritten(text) => {
                self.refuse(transfer, spaces);
                (Came::Unwritten(from, text), Some((from, done)))
            }
        }
    }

    fn refuse(&mut self, transfer: (NodeId, u64), spaces: Vec<base::ordered::Space>) {
        self.receiving = None;
        self.refused = Some(transfer);
        self.given_up.extend(spaces);
    }

    fn give_up_reception(&mut self) {
        let Some(reception) = self.receiving.take() else { return };
        // What is away comes back, and is given up then.
        if let Some(incoming) = reception.incoming {
            self.given_up.extend(incoming.spaces());
            self.rubbish.push(Rubbish::new(incoming));
        }
    }

    /// Asks again for what has not come, and gives up what has not come for long.
    pub(crate) fn asks(&mut self, now: Time, partition: PartitionId) -> Option<(NodeId, PeerMessage)> {
        let reception = self.receiving.as_mut()?;
        // The sender keeps its view no longer than that.
        if now.since(reception.progress_at) >= self.held_for && reception.incoming.is_some() {
            self.probes.push("node: snapshot given up");
            self.give_up_reception();
            return None;
        }
        let every = if reception.has_batch() { SAY_EVERY } else { ASK_AFTER };
        if now.since(reception.said_at) < every {
            return None;
        }
        reception.said_at = now;
        Some((reception.from, reception.want(partition)))
    }
}
