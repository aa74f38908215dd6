//! What this node's clients wait for: writes on their way into the log, reads on their way to a confirmed state.
//!
//! **Writes** are numbered and kept until they have been applied *here*: the node's own state answers its own
//! clients. They go to the leader, whoever that is, and go again to the next one when it changes or does not answer;
//! the numbers make repeats harmless (see [`crate::origins`]).
//!
//! **Reads** are gathered by turn. One question per batch, to the leader, answers from which position on the state contains
//! every write that was acknowledged before the reads arrived; they are then served here. A read that still waits when a
//! later write of its connection is applied is served just before it: that write entered the log after the read arrived,
//! so the log itself proves the state fresh, and the connection sees its commands carried out in order.
//!
//! Reads of the levels `session` and `local` ask nobody: they are served in the turn in which they arrive, if the state has come as far as
//! they ask.

use std::collections::VecDeque;
use std::time::Duration;

use base::{Ballot, Position, Time, WallTime};
use bytes::Bytes;

use crate::door::ConnectionId;
use crate::elsewhere::GuestBatch;
use crate::entry::{Kind, Life};

/// Who wants to hear of an outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    /// A client's command: the connection, and the place of the reply among its replies.
    Client { connection: ConnectionId, slot: u64 },
    /// Nobody (any more): the client has been told, or is gone, or the node asked for itself.
    Nobody,
}

/// A write that has not been applied here yet.
#[derive(Debug)]
pub(crate) struct Write {
    pub sequence: u64,
    pub waiter: Waiter,
    pub kind: Kind,
    pub body: Bytes,
    /// When its command was taken.
    pub arrived: Time,
    pub deadline: Time,
    /// It was given to a leader: it may be applied whatever happens.
    pub sent: bool,
    /// Reads of the same connection may wait that must not see it.
    pub reads_before: bool,
    /// The connection wants to be told when what it reads in its transaction changes.
    pub tracks: bool,
    /// Answered only when every replica has it.
    pub on_all: bool,
    /// If it changes nothing, the next one of its connection looks first.
    pub may_look: bool,
    /// The client's command, as in the table; empty if no client has asked for it.
    pub command: &'static str,
    /// Applied, or given up: only waits for those before it.
    pub done: bool,
}

/// A write that is settled: what is told of it.
#[derive(Debug)]
pub(crate) struct Finished {
    pub waiter: Waiter,
    pub kind: Kind,
    pub body: Bytes,
    pub arrived: Time,
    pub deadline: Time,
    pub on_all: bool,
    pub may_look: bool,
    pub command: &'static str,
}

/// What a read asks for; its words are in the batch's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadKind {
    /// One command.
    Command,
    /// MULTI … EXEC of reads alone.
    Transaction,
    /// A write that looks first: the body of its entry.
    Look,
    /// What became of a `DICTUM.ONCE`.
    Outcome,
    /// The revisions of keys, for WATCH.
    Revisions,
    /// The council's list: the name of one bucket, or nothing for all.
    Buckets,
    /// The council's registry of nodes.
    Nodes,
    /// The bucket of this number or name, for SELECT.
    Select,
    /// The whole state, to be frozen for a backup.
    Backup,
}

/// Connections whose reads share one confirmation. The reads themselves wait in their sessions, in the order of their
/// replies: a read must see the writes before it on its connection and none after it.
#[derive(Debug, Default)]
pub(crate) struct ReadBatch {
    /// The connection, and the last slot whose read is part of the batch (set when the batch is asked for).
    pub items: Vec<(ConnectionId, u64)>,
    /// What nodes without a state have brought.
    pub guests: Vec<GuestBatch>,
    /// No read of the batch is due earlier.
    pub deadline: Option<Time>,
}

impl ReadBatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.guests.is_empty()
    }
}

/// How a batch was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// This node leads: a round of confirmation, and the position as it was then.
    Round { ballot: Ballot, round: u64, position: Position },
    /// A question to the leader of this ballot.
    Ticket { ballot: Ballot, ticket: u64 },
}

/// A confirmed batch: whoever serves it from a state of this position, or a later one, serves what is true now.
#[derive(Debug)]
pub(crate) struct Ready {
    pub position: Position,
    /// The leader's clock.
    pub clock: WallTime,
    /// It says nothing older than what was true at this time of this node; none if that is not known.
    pub asked_at: Option<Time>,
    pub batch: ReadBatch,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Router {
    pub life: Life,
    next_sequence: u64,
    pub writes: VecDeque<Write>,
    /// Bytes of the bodies that wait.
    pub bytes: usize,
    /// The first write that the current leader has not been sent.
    pub send_from: u64,
    /// Under which leadership writes were last sent, and when anything was last sent or applied.
    pub leader: Option<Ballot>,
    pub progress_at: Time,
    pub gathering: ReadBatch,
    /// Batches that were asked for, and when for the first time.
    pub asked: VecDeque<(Asked, Time, ReadBatch)>,
    /// When the leader was sent a question last.
    pub question_at: Time,
    /// Confirmed, waiting for the state to reach the position.
    pub ready: VecDeque<Ready>,
    /// Connections with a confirmed read that waits for a write of this node.
    pub parked: Vec<ConnectionId>,
    /// What nodes without a state have brought, confirmed by this clock, waiting for a write of this node.
    pub guests_parked: Vec<(u64, WallTime, GuestBatch)>,
    /// Connections with a read that needs no confirmation, not looked at yet.
    pub weak: Vec<ConnectionId>,
    /// Those whose read waits for more than the state had when it was last looked at; and how far that was.
    pub behind: Vec<ConnectionId>,
    pub behind_at: Position,
    /// When a position was asked for that the state has come to since: it was not older than that.
    pub fresh_at: Option<Time>,
    /// A position is to be asked for although nobody waits for it: somebody may want to know how old the state is.
    pub age_wanted: bool,
    next_ticket: u64,
    spare: Vec<ReadBatch>,
    /// The number of an expiry entry under way.
    pub expiring: Option<u64>,
    /// The number of an eviction entry under way.
    pub evicting: Option<u64>,
}

impl Router {
    pub(crate) fn new(life: Life, now: Time) -> Router {
        Router {
            life,
            next_sequence: 1,
            writes: VecDeque::new(),
            bytes: 0,
            send_from: 1,
            leader: None,
            progress_at: now,
            gathering: ReadBatch::default(),
            asked: VecDeque::new(),
            question_at: now,
            ready: VecDeque::new(),
            parked: Vec::new(),
            guests_parked: Vec::new(),
            weak: Vec::new(),
            behind: Vec::new(),
            behind_at: Position(0),
            fresh_at: None,
            age_wanted: false,
            // Answers to an earlier life of this process are none to this one's questions.
            next_ticket: first_ticket(life),
            spare: Vec::new(),
            expiring: None,
            evicting: None,
        }
    }

    /// Nobody waits for anything.
    pub(crate) fn is_idle(&self) -> bool {
        let reads = [self.parked.is_empty(), self.weak.is_empty(), self.behind.is_empty(), !self.age_wanted];
        let batches = [self.gathering.is_empty(), self.asked.is_empty(), self.ready.is_empty()];
        self.writes.is_empty()
            && self.guests_parked.is_empty()
            && reads.into_iter().chain(batches).all(|is_idle| is_idle)
    }

    /// All writes with a lower number are settled.
    pub(crate) fn floor(&self) -> u64 {
        self.writes.front().map_or(self.next_sequence, |write| write.sequence)
    }

    /// Takes a write; it leaves at the end of the turn. Returns its number.
    pub(crate) fn write(&mut self, kind: Kind, body: Bytes, waiter: Waiter, arrived: Time, deadline: Time) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.bytes += body.len();
        self.writes.push_back(Write {
            sequence,
            waiter,
            kind,
            body,
            arrived,
            deadline,
            sent: false,
            reads_before: false,
            tracks: false,
            on_all: false,
            may_look: false,
            command: "",
            done: false,
        });
        sequence
    }

    /// The write with this number, if it is not settled.
    pub(crate) fn get_mut(&mut self, sequence: u64) -> Option<&mut Write> {
        let index = usize::try_from(sequence.checked_sub(self.floor())?).ok()?;
        self.writes.get_mut(index).filter(|write| !write.done)
    }

    /// Whether this write is not settled.
    pub(crate) fn waits_for(&self, sequence: u64) -> bool {
        let index = sequence.checked_sub(self.floor()).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.writes.get(index)).is_some_and(|write| !write.done)
    }

    /// Marks a write as settled and says who waits for it.
    pub(crate) fn finish(&mut self, sequence: u64) -> Option<Finished> {
        let write = self.get_mut(sequence)?;
        write.done = true;
        let waiter = std::mem::replace(&mut write.waiter, Waiter::Nobody);
        let body = std::mem::take(&mut write.body);
        let (arrived, deadline) = (write.arrived, write.deadline);
        let (kind, on_all, may_look, command) = (write.kind, write.on_all, write.may_look, write.command);
        let finished = Finished { waiter, kind, body, arrived, deadline, on_all, may_look, command };
        self.bytes -= finished.body.len();
        while self.writes.front().is_some_and(|write| write.done) {
            self.writes.pop_front();
        }
        self.send_from = self.send_from.max(self.floor());
        if self.expiring == Some(sequence) {
            self.expiring = None;
        }
        if self.evicting == Some(sequence) {
            self.evicting = None;
        }
        Some(finished)
    }

    /// Everything unsettled is to be sent again, in order.
    pub(crate) fn send_again(&mut self) {
        self.send_from = self.floor();
    }

    /// The writes to be sent now, in order.
    pub(crate) fn unsent(&mut self) -> impl Iterator<Item = &mut Write> {
        let skip = usize::try_from(self.send_from.saturating_sub(self.floor())).unwrap_or(usize::MAX);
        self.writes.iter_mut().skip(skip)
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.send_from < self.next_sequence && self.writes.back().is_some_and(|write| write.sequence >= self.send_from)
    }

    /// Adds a connection with a new read to the batch that is being gathered.
    pub(crate) fn gather(&mut self, connection: ConnectionId, deadline: Time) {
        self.gathering.items.push((connection, 0));
        self.gathering.deadline = Some(self.gathering.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
    }

    pub(crate) fn take_gathered(&mut self) -> ReadBatch {
        let spare = self.spare.pop().unwrap_or_default();
        std::mem::replace(&mut self.gathering, spare)
    }

    /// Gives a batch's memory back for reuse.
    pub(crate) fn recycle(&mut self, mut batch: ReadBatch) {
        if self.spare.len() < 4 {
            batch.items.clear();
            batch.guests.clear();
            batch.deadline = None;
            self.spare.push(batch);
        }
    }

    pub(crate) fn ticket(&mut self) -> u64 {
        self.next_ticket = self.next_ticket.wrapping_add(1);
        self.next_ticket
    }

    /// Asks for unconfirmed reads anew: the leadership under which they were asked is gone.
    pub(crate) fn ask_anew(&mut self, is_gone: impl Fn(&Asked) -> bool) {
        let (again, keep): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.asked).into_iter().partition(|(asked, ..)| is_gone(asked));
        self.asked = keep;
        for (_, _, batch) in again {
            self.gather_again(batch);
        }
    }

    /// Asks anew for confirmed reads whose position has not been reached. It was named by a leadership that is gone, and may be
    /// that of an entry which went with it: a log that nobody writes to would never come so far.
    pub(crate) fn ask_again_confirmed(&mut self) {
        for ready in std::mem::take(&mut self.ready) {
            self.gather_again(ready.batch);
        }
    }

    fn gather_again(&mut self, mut batch: ReadBatch) {
        self.gathering.items.extend_from_slice(&batch.items);
        self.gathering.guests.append(&mut batch.guests);
        let deadlines = [self.gathering.deadline, batch.deadline];
        self.gathering.deadline = deadlines.into_iter().flatten().min();
        self.recycle(batch);
    }

    /// A node without a state has brought reads: they are asked for with the next batch. What it has brought before is on its way.
    pub(crate) fn gather_guests(&mut self, guests: GuestBatch) {
        let is_it = |other: &GuestBatch| other.peer == guests.peer && other.ticket == guests.ticket;
        let is_in = |batch: &ReadBatch| batch.guests.iter().any(is_it);
        let is_here = is_in(&self.gathering)
            || self.asked.iter().any(|(_, _, batch)| is_in(batch))
            || self.ready.iter().any(|ready| is_in(&ready.batch))
            || self.guests_parked.iter().any(|(_, _, other)| is_it(other));
        if !is_here {
            self.gathering.guests.push(guests);
        }
    }

    /// Connections with reads in batches of which some may be overdue.
    pub(crate) fn overdue(&self, now: Time) -> Vec<ConnectionId> {
        let asked = self.asked.iter().map(|(_, _, batch)| batch);
        let ready = self.ready.iter().map(|ready| &ready.batch);
        let all = asked.chain(ready).chain([&self.gathering]);
        let due = all.filter(|batch| batch.deadline.is_some_and(|deadline| deadline <= now));
        due.flat_map(|batch| batch.items.iter().map(|(connection, _)| *connection)).collect()
    }
}

/// Where the tickets of a life begin: no two lives have the same ones, but by the rarest chance.
fn first_ticket(life: Life) -> u64 {
    let bytes = [life.incarnation.to_le_bytes(), life.boot.to_le_bytes()].concat();
    base::checksum::xxh3(&bytes)
}

/// After this time without progress everything unsettled is sent again.
pub(crate) const SEND_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// After this time without an answer a question is sent again. It stays the same one, so that the answer to either will do: a new one in its place would
/// never be answered where the leader is further away than this.
pub(crate) const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirmed_reads_are_asked_for_again_under_another_leadership() {
        let mut router = Router::new(Life::default(), Time(0));
        let deadline = Time(7);
        router.gather(ConnectionId(1), deadline);
        let batch = router.take_gathered();
        router.ready.push_back(Ready { position: Position(486), clock: WallTime(0), asked_at: None, batch });
        router.gather(ConnectionId(2), Time(9));
        router.ask_again_confirmed();
        assert!(router.ready.is_empty());
        assert_eq!(router.gathering.items, [(ConnectionId(2), 0), (ConnectionId(1), 0)]);
        assert_eq!(router.gathering.deadline, Some(deadline));
    }
}
