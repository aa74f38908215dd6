//! Snapshots from node to node: one block at a time, the next only when the receiver asks for it.
//!
//! ```text
//!   sender:   SnapshotBlock 0 ──►            SnapshotBlock 1 ──►   …   SnapshotBlock n, last ──►
//!   receiver:                ◄── SnapshotWant 1             ◄── SnapshotWant 2  …       ◄── done
//! ```
//! A lost message is asked for again by the receiver's silence: the sender repeats its block. The receiver writes
//! the state to its disk before it counts; until then its log stays what it was.
//!
//! The two may come to mean different transfers (one of them has begun anew, or the receiver hears two senders). Then
//! neither gets on; whatever they say to each other, only progress counts as life, and both give up.

use std::time::Duration;

use base::{Ballot, NodeId, PartitionId, Position, Time};
use bytes::Bytes;

use crate::image::{Image, RestoredState, Restorer};
use crate::peer::PeerMessage;

/// After this silence a block is sent again.
const REPEAT_AFTER: Duration = Duration::from_millis(300);
/// A sender that gets no further for so long gives the transfer up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);
/// A receiver that gets no further for so long begins anew with the next first block of anybody.
const STALE_AFTER: Duration = Duration::from_millis(1200);
/// After a transfer has ended, the receiver is given this long to install it before another begins.
const REST: Duration = Duration::from_secs(2);

/// A snapshot on its way to a peer.
#[derive(Debug)]
struct Sending {
    to: NodeId,
    position: Position,
    ballot: Ballot,
    image: Image,
    /// The block that was sent last, and the one after it: known early, to know which is the last.
    index: u64,
    block: Bytes,
    next: Option<Bytes>,
    sent_at: Time,
    heard_at: Time,
    done: bool,
}

/// A snapshot coming from a peer.
#[derive(Debug)]
struct Receiving {
    from: NodeId,
    position: Position,
    ballot: Ballot,
    next_index: u64,
    restorer: Restorer,
    heard_at: Time,
}

/// All transfers of one partition on this node.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    sending: Vec<Sending>,
    receiving: Option<Receiving>,
}

/// What a received block led to.
#[derive(Debug)]
pub(crate) enum Received {
    /// The transfer goes on, or was not wanted: this is the answer.
    Answer(PeerMessage),
    /// The state is complete.
    Complete(Box<RestoredState>, PeerMessage),
    /// The blocks make no sense.
    Broken(String),
    /// Nothing to say.
    Ignored,
}

impl Transfers {
    /// Begins a transfer to `to`, unless one is under way or has just ended.
    pub(crate) fn start(
        &mut self,
        now: Time,
        partition: PartitionId,
        to: NodeId,
        image: impl FnOnce() -> (Position, Ballot, Image),
    ) -> Option<PeerMessage> {
        self.sending.retain(|sending| {
            let limit = if sending.done { REST } else { GIVE_UP_AFTER };
            now.since(sending.heard_at) < limit
        });
        if self.sending.iter().any(|sending| sending.to == to) {
            return None;
        }
        let (position, ballot, mut image) = image();
        let block = next(&mut image)?;
        let next = next(&mut image);
        let sending =
            Sending { to, position, ballot, image, index: 0, block, next, sent_at: now, heard_at: now, done: false };
        let message = sending.message(partition);
        self.sending.push(sending);
        Some(message)
    }

    /// The receiver asks for a block, or is done.
    pub(crate) fn on_want(
        &mut self,
        now: Time,
        partition: PartitionId,
        from: NodeId,
        position: Position,
        index: u64,
        done: bool,
    ) -> Option<PeerMessage> {
        let sending = self.sending.iter_mut().find(|sending| sending.to == from && sending.position == position)?;
        if done {
            sending.heard_at = now;
            sending.done = true;
            sending.next = None;
            return None;
        }
        if index == sending.index + 1 && !sending.done {
            sending.heard_at = now;
            sending.block = sending.next.take()?;
            sending.index = index;
            sending.next = next(&mut sending.image);
        } else if index != sending.index {
            return None;
        }
        sending.sent_at = now;
        Some(sending.message(partition))
    }

    /// Repeats what was not answered.
    pub(crate) fn tick(&mut self, now: Time, partition: PartitionId) -> Vec<(NodeId, PeerMessage)> {
        let mut messages = Vec::new();
        for sending in &mut self.sending {
            let silent = now.since(sending.heard_at);
            if !sending.done && silent < GIVE_UP_AFTER && now.since(sending.sent_at) >= REPEAT_AFTER {
                sending.sent_at = now;
                messages.push((sending.to, sending.message(partition)));
            }
        }
        messages
    }

    /// The peer's link is gone: what it was sent, it may not have.
    pub(crate) fn forget(&mut self, peer: NodeId) {
        self.sending.retain(|sending| sending.to != peer);
    }

    /// Takes a block. `applied` is what this node has: older snapshots are not wanted.
    pub(crate) fn on_block(
        &mut self,
        now: Time,
        from: NodeId,
        applied: Position,
        busy: bool,
        message: PeerMessage,
    ) -> Received {
        let PeerMessage::SnapshotBlock { partition, position, ballot, index, last, block } = message else {
            return Received::Ignored;
        };
        let answer = |index, done| PeerMessage::SnapshotWant { partition, position, index, done };
        if position <= applied || busy {
            return Received::Answer(answer(index, true));
        }
        let stale = self.receiving.as_ref().is_none_or(|receiving| now.since(receiving.heard_at) > STALE_AFTER);
        if stale && index == 0 {
            let restorer = Restorer::default();
            self.receiving = Some(Receiving { from, position, ballot, next_index: 0, restorer, heard_at: now });
        }
        let Some(receiving) = &mut self.receiving else { return Received::Ignored };
        if (receiving.from, receiving.position, receiving.ballot) != (from, position, ballot) {
            return Received::Ignored;
        }
        if index != receiving.next_index {
            return Received::Answer(answer(receiving.next_index, false));
        }
        if let Err(text) = receiving.restorer.push_block(&block) {
            self.receiving = None;
            return Received::Broken(text);
        }
        receiving.heard_at = now;
        receiving.next_index += 1;
        if !last {
            return Received::Answer(answer(receiving.next_index, false));
        }
        match self.receiving.take().map(|receiving| receiving.restorer.finish()) {
            Some(Ok(state)) if state.position == position && state.ballot == ballot => {
                Received::Complete(Box::new(state), answer(index, true))
            }
            Some(Err(text)) => Received::Broken(text),
            _ => Received::Broken("a snapshot is not of the position that its blocks were sent for".to_owned()),
        }
    }
}

impl Sending {
    fn message(&self, partition: PartitionId) -> PeerMessage {
        PeerMessage::SnapshotBlock {
            partition,
            position: self.position,
            ballot: self.ballot,
            index: self.index,
            last: self.next.is_none(),
            block: self.block.clone(),
        }
    }
}

fn next(image: &mut Image) -> Option<Bytes> {
    let mut block = Vec::new();
    image.next_block(&mut block).then(|| Bytes::from(block))
}

#[cfg(test)]
mod tests;
