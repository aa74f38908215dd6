//! Large writes take turns, so that small ones do not wait behind all of them.
//!
//! A log is one line: what is in front is on the disks first. Ten clients that write 16 MiB each would put 160 MiB in front of a client that writes ten bytes,
//! and that client would wait for seconds. So a write of [`LARGE_WRITE_BYTES`] or more gets its place in a log only when few bytes of this node's clients are on
//! their way ([`WRITES_ON_THE_WAY_BYTES`]), and its connection waits until then. All partitions of a node count together, as they share one journal.
//!
//! A client that waits holds its own command, which counts as what its connection holds (`maxmemory-clients`), and nothing else. It waits in the order in which
//! it came, and for as long as a request may wait. Then it is refused: its command was in no log, so that is a plain "not done". The time of a write that was
//! admitted goes on from where it began to wait, but half of a request's time it has in any case.

use std::collections::BTreeMap;

use base::Time;
use base::limits::{LARGE_WRITE_BYTES, WRITES_ON_THE_WAY_BYTES};
use data::Failure;
use wire::ArgumentsRef;

use crate::door::{ConnectionId, Planted};
use crate::node::Node;
use crate::pause;
use crate::session::{Block, Session};

const TOO_LATE: Failure = Failure::Text(
    "CLUSTERDOWN too many bytes of writes are on their way for another large one; the command was not done, try again later",
);

/// From which size on a write is a large one, and how much may be on its way when it leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LargeWriteSettings {
    /// Bytes of a command, or of a whole transaction.
    pub from_bytes: usize,
    /// Bytes of writes that are not applied yet, of all partitions. A large write waits while there are as many.
    pub on_the_way_bytes: usize,
}

impl Default for LargeWriteSettings {
    fn default() -> LargeWriteSettings {
        LargeWriteSettings { from_bytes: LARGE_WRITE_BYTES, on_the_way_bytes: WRITES_ON_THE_WAY_BYTES }
    }
}

/// The connections that wait with a large write.
#[derive(Debug, Default)]
pub(crate) struct LargeWrites {
    /// In the order in which they came: the connection, and since when.
    waiting: BTreeMap<u64, (ConnectionId, Time)>,
    /// Those whose turn it is, until their command is done with, and since when they had waited.
    admitted: BTreeMap<ConnectionId, Time>,
    /// The number of the next one that waits: so many have waited since the start.
    next: u64,
    refused: u64,
}

impl LargeWrites {
    /// How many wait; and since the start, how many have waited, and how many were refused after that.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        (self.waiting.len(), self.next, self.refused)
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn enter(&mut self, connection: ConnectionId, now: Time) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, (connection, now));
        number
    }

    /// A connection waits no more.
    pub(crate) fn leave(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// The command of a connection is done with, or the connection is gone.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        if !self.admitted.is_empty() {
            self.admitted.remove(&connection);
        }
    }

    /// Since when a connection had waited whose turn it is.
    fn since(&self, connection: ConnectionId) -> Option<Time> {
        if self.admitted.is_empty() { None } else { self.admitted.get(&connection).copied() }
    }

    fn first(&self) -> Option<(u64, ConnectionId, Time)> {
        self.waiting.first_key_value().map(|(number, (connection, since))| (*number, *connection, *since))
    }
}

impl Node {
    /// Keeps a large write until it is its turn, if it has to wait for that.
    pub(crate) fn waits_for_its_turn(
        &mut self,
        session: &mut Session,
        arguments: ArgumentsRef<'_>,
        words: &[&[u8]],
    ) -> bool {
        let settings = self.config.large_writes;
        let bytes = match &session.queue {
            None => arguments.encoded_bytes(),
            Some(queue) if words.first().is_some_and(|name| name.eq_ignore_ascii_case(b"EXEC")) => queue.bytes,
            Some(_) => 0,
        };
        if bytes < settings.from_bytes || !pause::changes_data(session, words) {
            return false;
        }
        let has_room = || self.large_writes.is_empty() && self.bytes_on_the_way() < settings.on_the_way_bytes;
        if self.large_writes.since(session.id).is_some() || has_room() {
            return false;
        }
        self.probe("node: large write waits for its turn");
        session.deferred = Some(arguments.to_owned());
        session.block = Some(Block::Large { number: self.large_writes.enter(session.id, self.now.time) });
        true
    }

    /// Until when a write of this connection that is taken now may wait for its outcome.
    pub(crate) fn deadline_of_write(&self, connection: ConnectionId) -> Time {
        let (now, timeout) = (self.now.time, self.config.request_timeout);
        match self.large_writes.since(connection) {
            None => now + timeout,
            Some(since) => (since + timeout).max(now + timeout / 2),
        }
    }

    /// Bytes of writes of this node's clients that are not applied yet.
    fn bytes_on_the_way(&self) -> usize {
        self.groups.iter().map(|group| group.router.bytes).sum()
    }

    /// Lets large writes go whose turn it is, and refuses those that have waited for too long. Called where writes have been settled.
    pub(crate) fn let_large_writes_go(&mut self) {
        if self.large_writes.is_empty() {
            return;
        }
        let mut on_the_way = self.bytes_on_the_way();
        while on_the_way < self.config.large_writes.on_the_way_bytes
            && let Some((number, connection, since)) = self.large_writes.first()
        {
            self.large_writes.leave(number);
            // The planted bug.
            if self.config.planted == Some(Planted::LargeWriteForgotten) && number % 4 == 3 {
                continue;
            }
            let Some(Some(session)) = self.sessions.get_mut(&connection) else { continue };
            session.block = None;
            on_the_way += session.deferred.as_ref().map_or(0, |command| command.as_ref().encoded_bytes());
            on_the_way += session.queue.as_ref().map_or(0, |queue| queue.bytes);
            self.large_writes.admitted.insert(connection, since);
            self.resume(connection);
        }
        // They all wait for the same time, so the first ones are overdue first.
        while let Some((number, connection, since)) = self.large_writes.first()
            && since + self.config.request_timeout <= self.now.time
        {
            self.large_writes.leave(number);
            self.large_writes.refused += 1;
            self.probe("node: large write refused after its wait");
            let Some(mut session) = self.sessions.get_mut(&connection).and_then(Option::take) else { continue };
            (session.block, session.deferred) = (None, None);
            if session.queue.take().is_some() {
                session.watches.clear();
            }
            self.refuse(&mut session, &TOO_LATE);
            self.sessions.insert(connection, Some(session));
            self.resume(connection);
        }
    }
}
