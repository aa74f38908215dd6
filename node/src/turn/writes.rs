//! Writes: proposed here or sent to the leader, and answered once they have been applied; and those that nobody asked for,
//! the removals of keys whose time is up.

use base::limits::{ACCEPT_BYTES_TARGET, EXPIRE_BATCH_MAX};
use base::{NodeId, Position, Time, WallTime};
use bytes::Bytes;
use data::Reply;
use paxos::RoleName;
use std::time::Duration;

use crate::door::ConnectionId;
use crate::entry::{Kind, Origin};
use crate::node::{Node, news_of};
use crate::peer::{Forwarded, PeerMessage};
use crate::router::{Finished, Waiter};
use crate::session::Block;
use crate::words;

/// How often the leader looks for keys whose time is up.
const EXPIRY_EVERY: Duration = Duration::from_millis(100);

impl Node {
    /// Answers this node's writes that have been applied.
    pub(super) fn settle_writes(&mut self) {
        if self.wishes.completed.is_empty() {
            return;
        }
        self.router.progress_at = self.now.time;
        let mut completed = std::mem::take(&mut self.wishes.completed);
        for done in completed.drain(..) {
            let Some(finished) = self.router.finish(done.sequence) else { continue };
            if let Waiter::Client { connection, slot } = finished.waiter {
                self.note_write(connection, &finished);
                if let Some(Some(session)) = self.sessions.get_mut(&connection) {
                    session.last_position = done.position;
                }
                self.deliver(connection, slot, &done.reply);
            }
        }
        if self.wishes.completed.is_empty() {
            self.wishes.completed = completed;
        }
        self.run_parked();
    }

    /// Tells the log of slow commands of a write that is being answered.
    pub(super) fn note_write(&mut self, connection: ConnectionId, write: &Finished) {
        let took = self.now.time.since(write.arrived);
        if self.slow.wants(took)
            && let Some(Some(session)) = self.sessions.get(&connection)
        {
            let words = words::of_write(write.kind, &write.body);
            self.slow.note(self.now.wall, took, &words, &session.address, &session.name);
        }
    }

    /// Writes are numbered within a life, and later lives must compare greater. A node that finds out that its folder was
    /// lost gets an incarnation above all earlier ones while it recovers; until then it sends no writes. Nor before the record of
    /// its start is on disk: the number that this gives to its life would be that of the next one as well.
    pub(super) fn settle_life(&mut self) {
        let recovering = self.partition.replica.role() == RoleName::Recovering;
        if self.life_is_settled || recovering || !self.start_is_on_disk {
            return;
        }
        self.life_is_settled = true;
        let incarnation = self.partition.replica.hard_state().incarnation;
        self.router.life.incarnation = incarnation;
        self.partition.life.incarnation = incarnation;
    }

    pub(super) fn propose_own(&mut self) {
        if !self.router.has_unsent() || self.disk_full || !self.life_is_settled {
            return;
        }
        let (me, life, floor) = (self.config.me, self.router.life, self.router.floor());
        let (time, clock) = (self.now.time, self.now.wall);
        let mut next = None;
        for write in self.router.unsent() {
            if !write.done {
                let origin = Origin { node: me, life, sequence: write.sequence, floor };
                let seed = self.rng.next_u64();
                if !self.partition.propose(time, clock, seed, write.kind, origin, &write.body) {
                    break;
                }
                write.sent = true;
            }
            next = Some(write.sequence + 1);
        }
        self.router.send_from = next.unwrap_or(self.router.send_from);
    }

    pub(super) fn forward(&mut self, leader: NodeId) {
        while self.router.has_unsent() && self.life_is_settled {
            let (life, floor) = (self.router.life, self.router.floor());
            let mut writes = Vec::new();
            let (mut bytes, mut next) = (0, None);
            for write in self.router.unsent() {
                if bytes >= ACCEPT_BYTES_TARGET {
                    break;
                }
                next = Some(write.sequence + 1);
                if !write.done {
                    bytes += write.body.len() + 32;
                    write.sent = true;
                    writes.push(Forwarded { kind: write.kind, sequence: write.sequence, body: write.body.clone() });
                }
            }
            let Some(next) = next else { return };
            self.router.send_from = next;
            let partition = self.partition.id;
            self.send(leader, &PeerMessage::Forward { partition, life, floor, writes });
        }
    }

    /// The leader proposes the removal of keys whose time is up by its clock.
    pub(super) fn expire(&mut self) {
        let (time, clock) = (self.now.time, self.now.wall);
        if time < self.next_expiry || self.partition.replica.leads().is_none() || self.disk_full {
            return;
        }
        self.next_expiry = time + EXPIRY_EVERY;
        if self.partition.tree.next_deadline().is_some_and(|deadline| deadline <= clock) {
            self.probe("node: key expired by the clock");
            self.propose_expiry(clock);
        }
    }

    /// Asks for an expiry entry of at least this time, unless one is under way. Returns its number.
    pub(super) fn propose_expiry(&mut self, clock: WallTime) -> u64 {
        const _: () = assert!(EXPIRE_BATCH_MAX > 0);
        if let Some(number) = self.router.expiring {
            return number;
        }
        let body = Bytes::copy_from_slice(&clock.0.to_le_bytes());
        let deadline = self.now.time + self.config.request_timeout;
        let number = self.router.write(Kind::Expire, body, Waiter::Nobody, self.now.time, deadline);
        self.router.expiring = Some(number);
        number
    }

    /// Answers `WAIT`s that have what they want, or whose time is up.
    pub(super) fn look_at_waits(&mut self) {
        let time = self.now.time;
        for connection in std::mem::take(&mut self.waits) {
            let Some(Some(session)) = self.sessions.get_mut(&connection) else { continue };
            let Some(Block::Copies { slot, wanted, timeout, mut until }) = session.block else { continue };
            if until.is_none() && session.pending_before(slot) == 0 {
                let forever = Time(u64::MAX);
                until = Some(if timeout == 0 { forever } else { time + Duration::from_millis(timeout) });
                session.block = Some(Block::Copies { slot, wanted, timeout, until });
            }
            let over = until.is_some_and(|until| until <= time);
            let position = session.last_position;
            let copies = self.replicas_with(position);
            if until.is_some() && (copies >= wanted || over) {
                self.deliver(connection, slot, &Reply::Integer(copies));
            } else {
                self.waits.push(connection);
            }
        }
    }

    /// How many replicas beside the leader are known to have the log up to `position` on their disks.
    pub(crate) fn replicas_with(&self, position: Position) -> i64 {
        let replica = &self.partition.replica;
        let copies = match replica.leader() {
            Some((leader, _)) if leader == self.config.me => replica.copies(),
            Some((leader, _)) => {
                let news = self.news.get(&leader).and_then(|ping| news_of(ping, self.partition.id));
                news.map(|news| news.copies.clone()).unwrap_or_default()
            }
            None => Vec::new(),
        };
        let leader = replica.leader().map(|(leader, _)| leader);
        copies.iter().filter(|(node, last)| Some(*node) != leader && *last >= position).count() as i64
    }
}
