//! The sender's side: a frozen view, given out block by block as far as it is asked for and as the throttle lets it.

use std::time::Duration;

use base::{Ballot, NodeId, PartitionId, Position, Time};

use super::Transfers;
use super::catching_up::CatchingUp;
use super::jobs::{Block, BlockJob, MadeBlock};
use super::movement::Movement;
use crate::door::Rubbish;
use crate::image::Image;
use crate::peer::{PeerMessage, Wish};

/// How often an offer is repeated to a receiver that is not heard.
const OFFER_EVERY: Duration = Duration::from_millis(300);
/// A block that was sent so lately is not sent again, whatever is asked.
const REPEAT_AFTER: Duration = Duration::from_millis(200);
/// A receiver that for so long has asked for what cannot be sent any more has begun anew.
const LOST_AFTER: Duration = Duration::from_millis(1200);
/// After a transfer has ended, the receiver is given this long to install it before another begins.
const REST: Duration = Duration::from_secs(2);

/// A snapshot on its way to a peer.
#[derive(Debug)]
pub(super) struct Sending {
    to: NodeId,
    transfer: u64,
    pub(super) place: (Position, Ballot),
    /// Away while a block is being made.
    image: Option<Box<Image>>,
    /// The receiver has all blocks before this one.
    index: u64,
    /// Block `index`, and the one after it: made while this one is under way.
    block: Option<Block>,
    ahead: Option<Block>,
    /// Block `index` has been asked for and not sent since.
    wanted: bool,
    sent_at: Option<Time>,
    offered_at: Time,
    /// When the receiver last said something that fits, and when it last had more than before.
    heard_at: Time,
    progress_at: Time,
    /// The link broke since the last block was sent.
    cut: bool,
    /// So many bytes were sent.
    sent_bytes: u64,
    pub(super) done: bool,
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
        self.end_overdue(now);
        if self.sending.iter().any(|sending| sending.to == to) {
            return None;
        }
        let (position, ballot, image) = image();
        self.last_transfer += 1;
        let sending = Sending {
            to,
            transfer: self.last_transfer,
            place: (position, ballot),
            image: Some(Box::new(image)),
            index: 0,
            block: None,
            ahead: None,
            wanted: false,
            sent_at: None,
            offered_at: now,
            heard_at: now,
            progress_at: now,
            cut: false,
            sent_bytes: 0,
            done: false,
        };
        let offer = sending.offer(partition);
        self.sending.push(sending);
        Some(offer)
    }

    pub(super) fn end_overdue(&mut self, now: Time) {
        let (held_for, rubbish) = (self.held_for, &mut self.rubbish);
        self.sending.retain_mut(|sending| {
            let limit = if sending.done { REST } else { held_for };
            let stays = now.since(sending.heard_at) < limit;
            if !stays {
                rubbish.extend(sending.image.take().map(Rubbish::new));
            }
            stays
        });
    }

    fn stop_sending(&mut self, place: usize) {
        let mut sending = self.sending.remove(place);
        self.rubbish.extend(sending.image.take().map(Rubbish::new));
    }

    /// What the receiver says.
    pub(crate) fn on_want(&mut self, now: Time, from: NodeId, transfer: u64, index: u64, wish: Wish) {
        let found = self.sending.iter().position(|sending| sending.to == from && sending.transfer == transfer);
        let Some(place) = found else { return };
        let sending = &mut self.sending[place];
        if wish == Wish::Done {
            sending.heard_at = now;
            if !std::mem::replace(&mut sending.done, true) {
                self.catching_up.retain(|other| other.peer != from);
                self.catching_up.push(CatchingUp { peer: from, has: sending.place.0, progress_at: now });
            }
            (sending.block, sending.ahead, sending.wanted) = (None, None, false);
            self.rubbish.extend(sending.image.take().map(Rubbish::new));
            return;
        }
        if sending.done {
            return;
        }
        if index == sending.index + 1 && sending.sent_at.is_some() {
            sending.index = index;
            sending.block = sending.ahead.take();
            sending.sent_at = None;
            sending.progress_at = now;
        } else if index != sending.index {
            if now.since(sending.progress_at) >= LOST_AFTER {
                // It has begun anew, and what it wants is gone: so does the sender, when it is asked next.
                self.probes.push("node: sent snapshot begun again");
                self.stop_sending(place);
            }
            return;
        }
        sending.heard_at = now;
        sending.wanted = wish == Wish::Next && sending.sent_at.is_none_or(|at| now.since(at) >= REPEAT_AFTER);
    }

    /// The blocks that may be sent now. `waits`: movement is paused, and the lowest rate is enough for this node.
    pub(crate) fn due(
        &mut self,
        now: Time,
        partition: PartitionId,
        movement: &mut Movement,
        waits: impl Fn(NodeId) -> bool,
    ) -> Vec<(NodeId, PeerMessage)> {
        let mut messages = Vec::new();
        for sending in &mut self.sending {
            let Some(block) = sending.block.as_ref().filter(|_| sending.wanted) else { continue };
            let bytes = block.bytes.len();
            if waits(sending.to) {
                if !movement.sends_paused(now, bytes) {
                    self.probes.push("node: movement paused");
                    continue;
                }
            } else if !movement.sends(now, bytes) {
                self.probes.push("node: snapshot throttled");
                break;
            }
            if std::mem::take(&mut sending.cut) && sending.index > 0 {
                self.probes.push("node: snapshot resumed");
            }
            sending.wanted = false;
            sending.sent_at = Some(now);
            sending.sent_bytes += bytes as u64;
            let Block { bytes, ending } = block.clone();
            let (transfer, index) = (sending.transfer, sending.index);
            let message = PeerMessage::SnapshotBlock { partition, transfer, index, ending, block: bytes };
            messages.push((sending.to, message));
        }
        messages
    }

    /// Bytes that are still to be sent of a state that has so many, about.
    pub(crate) fn left(&self, bytes: u64) -> u64 {
        let left = |sending: &Sending| if sending.done { 0 } else { bytes.saturating_sub(sending.sent_bytes) };
        self.sending.iter().map(left).sum()
    }

    /// Blocks that are to be made now: the one that is asked for, and while it is under way the one after it.
    pub(crate) fn block_jobs(&mut self, partition: PartitionId) -> Vec<BlockJob> {
        let mut jobs = Vec::new();
        for sending in &mut self.sending {
            let first = sending.block.is_none() && sending.wanted;
            let second = sending.block.is_some() && sending.ahead.is_none() && sending.sent_at.is_some();
            if (first || second)
                && let Some(image) = sending.image.take()
            {
                jobs.push(BlockJob { partition, transfer: sending.transfer, image });
            }
        }
        jobs
    }

    /// A block is there, or cannot be made: then this is why.
    pub(crate) fn on_made(&mut self, made: MadeBlock) -> Option<String> {
        let MadeBlock { transfer, image, block, .. } = made;
        let found = self.sending.iter().position(|sending| sending.transfer == transfer && !sending.done);
        let Some(place) = found else {
            self.rubbish.push(Rubbish::new(image));
            return None;
        };
        let sending = &mut self.sending[place];
        match &block {
            // The last one: the view is not needed any more.
            Ok(block) if block.ending.is_some() => self.rubbish.push(Rubbish::new(image)),
            _ => sending.image = Some(image),
        }
        match block {
            Ok(block) if sending.block.is_none() => sending.block = Some(block),
            Ok(block) => sending.ahead = Some(block),
            Err(text) => {
                self.stop_sending(place);
                return Some(text);
            }
        }
        None
    }

    /// Offers again what was not answered.
    pub(crate) fn offers(&mut self, now: Time, partition: PartitionId) -> Vec<(NodeId, PeerMessage)> {
        self.end_overdue(now);
        let mut messages = Vec::new();
        for sending in &mut self.sending {
            let quiet = now.since(sending.heard_at.max(sending.offered_at)) >= OFFER_EVERY;
            if !sending.done && quiet {
                sending.offered_at = now;
                messages.push((sending.to, sending.offer(partition)));
            }
        }
        messages
    }

    /// The link to a peer is gone: what it was sent, it may not have. It will ask.
    pub(crate) fn on_cut(&mut self, peer: NodeId) {
        for sending in self.sending.iter_mut().filter(|sending| sending.to == peer) {
            sending.cut = true;
        }
    }
}

impl Sending {
    fn offer(&self, partition: PartitionId) -> PeerMessage {
        let (position, ballot) = self.place;
        PeerMessage::SnapshotOffer { partition, transfer: self.transfer, position, ballot }
    }
}
