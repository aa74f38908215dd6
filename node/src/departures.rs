//! Clients that go: those that have ended their side of the connection, are gone, or are thrown out.
//!
//! What a client has sent completely is carried out and answered, whether or not it sends more: `printf 'PING\r\nINCR n\r\n' | nc -N` gets both answers. A command
//! that waits looks once, as any other; but it waits for nobody whose side has ended, as in Redis: nothing tells a process that was killed from one that still
//! reads, and an element that is taken for a process that was killed is lost.
//!
//! A waiting command that is in the log's hands when its client goes may still take an element: the answer is lost then as one is that is lost on the wire. The
//! node sends it to no further leader, so this window is the flight of one entry.

use base::PartitionId;

use crate::door::{ConnectionId, Planted};
use crate::node::{Node, place_of};
use crate::router::{SEND_AGAIN_AFTER, Waiter};
use crate::session::{Block, Session};

impl Node {
    /// A client has ended its side.
    pub(crate) fn on_ended(&mut self, id: ConnectionId, all_read: bool) {
        let Some(Some(session)) = self.sessions.get_mut(&id) else { return };
        session.has_ended = true;
        session.is_all_read |= all_read;
        // `hand_out` looks whether everything is answered.
        if !session.dirty {
            session.dirty = true;
            self.dirty.push(id);
        }
        let Some(Block::Waiting { number, slot }) = session.block else { return };
        let Some(partition) = self.waiting.partition_of(number) else { return };
        if self.waiting.has_rested(number) {
            return self.let_go(id);
        }
        // It is on its way for the first time. Should it get nowhere soon, it is not to come up with another leader.
        let (Some(Some(session)), Some(g)) = (self.sessions.get(&id), place_of(&self.groups, partition)) else {
            return;
        };
        let (own, soon) = (Waiter::Client { connection: id, slot }, self.now.time + SEND_AGAIN_AFTER);
        let write = session.lane(partition).map_or(0, |lane| lane.last_write);
        if let Some(write) = self.groups[g].router.get_mut(write).filter(|write| write.waiter == own) {
            write.deadline = write.deadline.min(soon);
        }
    }

    /// A client whose side has ended would wait: its connection is closed once all before that is answered.
    pub(crate) fn let_go(&mut self, id: ConnectionId) {
        let Some(mut session) = self.sessions.get_mut(&id).and_then(Option::take) else { return };
        self.probe("node: waiting client has gone");
        session.closing = true;
        if let Some(Block::Waiting { slot, .. } | Block::Copies { slot, .. }) = session.block {
            self.leave_block(&mut session);
            session.abandon(slot);
        }
        if !std::mem::replace(&mut session.dirty, true) {
            self.dirty.push(id);
        }
        self.sessions.insert(id, Some(session));
    }

    /// A client is gone.
    pub(crate) fn on_closed(&mut self, id: ConnectionId) {
        self.tokens_made.retain(|(of, _, _)| *of != id);
        self.backups.forget(id);
        self.subscriptions.leave(id);
        self.large_writes.forget(id);
        crate::audit::closed(self, id);
        let Some(Some(mut session)) = self.sessions.remove(&id) else { return };
        self.unsubscribe_all(&mut session);
        self.track_no_more(&mut session);
        self.monitors.remove(&id);
        self.leave_block(&mut session);
    }

    /// Has the owner close a connection once it has written what is answered. The client takes nothing more from here on.
    pub(crate) fn throw_out(&mut self, id: ConnectionId) {
        let Some(mut session) = self.sessions.get_mut(&id).and_then(Option::take) else { return };
        session.closing = true;
        self.leave_block(&mut session);
        self.sessions.insert(id, Some(session));
        self.to_close.push(id);
    }

    /// A connection waits for nothing any more.
    fn leave_block(&mut self, session: &mut Session) {
        match session.block.take() {
            // The planted bug.
            Some(Block::Waiting { .. }) if self.config.planted == Some(Planted::ElementTakenByDeadWaiter) => {}
            Some(Block::Waiting { slot, number }) => {
                if let Some(partition) = self.waiting.partition_of(number) {
                    self.take_back(session, partition, slot);
                }
                self.waiting.leave(number);
            }
            Some(Block::Paused { number }) => self.pausing.leave(number),
            Some(Block::Large { number }) => self.large_writes.leave(number),
            Some(Block::Guess { until, number }) => self.guesses.leave((until, number)),
            Some(Block::Password { number }) => self.passwords.leave(session.id, number),
            Some(Block::Slot(_) | Block::Copies { .. } | Block::Drain) | None => {}
        }
    }

    /// A waiting command that is on its way goes to no further leader, and to none at all if it has not left yet.
    fn take_back(&mut self, session: &Session, partition: PartitionId, slot: u64) {
        let (Some(lane), Some(g)) = (session.lane(partition), place_of(&self.groups, partition)) else { return };
        let own = Waiter::Client { connection: session.id, slot };
        let router = &mut self.groups[g].router;
        if router.get_mut(lane.last_write).is_some_and(|write| write.waiter == own) {
            router.finish(lane.last_write);
        }
    }
}
