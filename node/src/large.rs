//! Large writes take turns, so that small ones do not wait behind all of them.
//!
//! A log is one line: what is in front is on the disks first. Ten clients that write 16 MiB each would put 160 MiB in front of a client that writes ten bytes,
//! and that client would wait for seconds. So a write of [`LARGE_WRITE_BYTES`] or more gets its place in a log only when few bytes of this node's clients are on
//! their way ([`WRITES_ON_THE_WAY_BYTES`]), and its connection waits until then. All partitions of a node count together, as they share one journal.
//!
//! A client that waits holds its own command, which counts as what its connection holds (`maxmemory-clients`), and nothing else. It waits in the order in which
//! it came, and is refused after [`WAITS_FOR`] times the time of a request: its command was in no log, so that is a plain "not done".

use std::collections::{BTreeMap, BTreeSet};

use base::Time;
use base::limits::{LARGE_WRITE_BYTES, WRITES_ON_THE_WAY_BYTES};
use data::Failure;
use wire::ArgumentsRef;

use crate::door::{ConnectionId, Planted};
use crate::node::Node;
use crate::pause;
use crate::session::{Block, Session};

/// A large write waits this many times as long as a request may take.
const WAITS_FOR: u32 = 6;

const TOO_LATE: Failure = Failure::Text(
    "CLUSTERDOWN too many large writes are in front of this one; the command was not done, try again later",
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

/// The connections that wait with a large write, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct LargeWrites {
    waiting: BTreeMap<u64, (ConnectionId, Time)>,
    /// Those whose turn it is, until they have gone on with their command.
    admitted: BTreeSet<ConnectionId>,
    next: u64,
}

impl LargeWrites {
    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A connection begins to wait, until this time at the latest.
    fn enter(&mut self, connection: ConnectionId, until: Time) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, (connection, until));
        number
    }

    /// A connection waits no more.
    pub(crate) fn leave(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// It is this connection's turn.
    fn admit(&mut self, connection: ConnectionId) {
        self.admitted.insert(connection);
    }

    /// Whether it is this connection's turn, which it takes.
    fn take(&mut self, connection: ConnectionId) -> bool {
        self.admitted.remove(&connection)
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.admitted.remove(&connection);
    }

    /// Who is next.
    fn first(&self) -> Option<(u64, ConnectionId)> {
        self.waiting.first_key_value().map(|(number, (connection, _))| (*number, *connection))
    }

    /// Who has waited for too long. Everybody waits for the same time, so these are the first ones.
    fn first_overdue(&self, now: Time) -> Option<(u64, ConnectionId)> {
        self.waiting.first_key_value().filter(|(_, (_, until))| *until <= now).map(|(number, (id, _))| (*number, *id))
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
        if bytes < settings.from_bytes || !pause::writes(session, words) || self.large_writes.take(session.id) {
            return false;
        }
        if self.large_writes.is_empty() && self.bytes_on_the_way() < settings.on_the_way_bytes {
            return false;
        }
        self.probe("node: large write waits for its turn");
        let until = self.now.time + self.config.request_timeout * WAITS_FOR;
        session.deferred = Some(arguments.to_owned());
        session.block = Some(Block::Large { number: self.large_writes.enter(session.id, until) });
        true
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
            && let Some((number, connection)) = self.large_writes.first()
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
            self.large_writes.admit(connection);
            self.resume(connection);
        }
        while let Some((number, connection)) = self.large_writes.first_overdue(self.now.time) {
            self.large_writes.leave(number);
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
