//! What clients hold of this node's memory, and what is done about it: clients that do not read get no further answers, the greediest go when all together hold more
//! than the node may spend on them (`maxmemory-clients`), and strangers have little room and little time.
//!
//! An answer that nobody reads is not built. The owner tells how many bytes of answers wait for a client to read them; while that is much, nothing more is taken out
//! of what the client has sent, and no read of it is served. Three clients that sent 27 KB of `GET` each, and read nothing, once cost a node 2.7 GB in three seconds.

use std::time::Duration;

use base::Time;
use base::limits::{
    CONNECTION_PENDING_BYTES_MAX, OUTPUT_PAUSE_BYTES, STRANGER_OUTPUT_BYTES_MAX, STRANGER_PATIENCE,
    STRANGER_PENDING_BYTES_MAX, SUBSCRIBER_UNREAD_BYTES,
};
use wire::RequestLimits;

use crate::door::{ConnectionId, Level, OutputLimit};
use crate::node::Node;
use crate::session::Session;

/// How often it is looked how much clients hold. Each look goes through all of them.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What a connection takes beside what its buffers hold: its session, and the owner's part of it.
const CONNECTION_BYTES: usize = 512;
/// Of those that are cut off the owner writes nothing more.
const NOTHING_MORE: OutputLimit = OutputLimit { hard_bytes: 1, soft_bytes: 1, soft_for: Duration::ZERO };

/// What all clients together may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientsLimit {
    /// So many bytes; 0: as much as they like.
    Bytes(u64),
    /// So many hundredths of the machine's memory.
    Percent(u64),
}

impl ClientsLimit {
    pub(crate) fn bytes(self, memory_bytes: u64) -> u64 {
        match self {
            ClientsLimit::Bytes(bytes) => bytes,
            ClientsLimit::Percent(percent) => (memory_bytes / 100).saturating_mul(percent),
        }
    }
}

/// What one client holds, in bytes, by the names of `CLIENT LIST`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Burden {
    /// What was received and not looked at, or is a command in pieces.
    pub query: usize,
    /// Room for more of that.
    pub query_free: usize,
    /// Commands on their way.
    pub arguments: usize,
    /// A transaction being queued, and the keys that are watched.
    pub multi: usize,
    /// Answers of this turn, and answers that wait for those before them.
    pub reply: usize,
    /// Answers that the client has not read.
    pub unread: usize,
}

impl Burden {
    pub(crate) fn total(&self) -> usize {
        let parts = [self.query, self.query_free, self.arguments, self.multi, self.reply, self.unread];
        size_of::<Session>() + CONNECTION_BYTES + parts.into_iter().sum::<usize>()
    }
}

impl Session {
    /// What it holds of this node's memory.
    pub(crate) fn burden(&self) -> Burden {
        // What the parser holds belongs to a half-read command, or is room for the next.
        let (half_read, spare) = match &self.parser {
            Some(parser) if parser.is_idle() => (0, parser.held_bytes()),
            Some(parser) => (parser.held_bytes(), 0),
            None => (0, 0),
        };
        let deferred = self.deferred.as_ref().map_or(0, |arguments| arguments.as_ref().encoded_bytes());
        Burden {
            query: self.backlog.len() + half_read,
            query_free: self.backlog.capacity() - self.backlog.len() + spare,
            arguments: self.pending_bytes() + self.read_bytes() + deferred,
            multi: self.queue.as_ref().map_or(0, |queue| queue.bytes) + self.watches.bytes(),
            reply: self.out.capacity() + self.afterwards.capacity() + self.ready_bytes(),
            unread: self.unread,
        }
    }

    /// Whether so much of what it was answered is unread that it gets nothing more for now.
    pub(crate) fn is_clogged(&self) -> bool {
        self.clogged
    }

    /// Whether so much was received of it that was not looked at that no more should be read.
    pub(crate) fn has_sent_enough(&self) -> bool {
        let most = if self.authenticated { CONNECTION_PENDING_BYTES_MAX } else { STRANGER_PENDING_BYTES_MAX };
        self.backlog.len() > most
    }

    /// So many bytes of what it was answered are unread. Whether it may go on now.
    fn note_unread(&mut self, unread: usize, blocks: usize) -> bool {
        (self.unread, self.unread_blocks) = (unread, blocks);
        let most = if self.authenticated { OUTPUT_PAUSE_BYTES } else { STRANGER_OUTPUT_BYTES_MAX };
        let before = self.clogged;
        // It goes on when half of it is read, not with each byte.
        self.clogged = unread > if before { most / 2 } else { most };
        before && !self.clogged
    }
}

impl Node {
    /// The limits of a client's commands.
    pub(crate) fn request_limits(&self, authenticated: bool) -> RequestLimits {
        RequestLimits {
            argument_bytes_max: self.config.value_bytes_max,
            is_for_strangers: !authenticated,
            ..RequestLimits::default()
        }
    }

    /// The owner has so many bytes, in so many pieces, for a client that has not taken them.
    pub(crate) fn on_unread(&mut self, id: ConnectionId, bytes: usize, blocks: usize) {
        let Some(Some(session)) = self.sessions.get_mut(&id) else { return };
        if bytes < SUBSCRIBER_UNREAD_BYTES && session.subscribed_to_changes > 0 {
            self.subscriptions.on_room(id);
        }
        let before = session.is_clogged();
        if session.note_unread(bytes, blocks) {
            self.resume(id);
        } else if !before && self.sessions.get(&id).and_then(Option::as_ref).is_some_and(|it| it.is_clogged()) {
            self.probe("node: client does not read");
        }
    }

    /// A client has come that has to show who it is.
    pub(crate) fn expect(&mut self, id: ConnectionId) {
        self.strangers.push_back((self.now.time + STRANGER_PATIENCE, id));
    }

    /// When the next stranger's time is up.
    pub(crate) fn strangers_until(&self) -> Option<Time> {
        self.strangers.front().map(|(until, _)| *until)
    }

    /// At every tick: strangers whose time is up go, and the greediest if all clients hold too much.
    pub(crate) fn relieve(&mut self) {
        while self.strangers.front().is_some_and(|(until, _)| *until <= self.now.time) {
            let Some((_, id)) = self.strangers.pop_front() else { return };
            if self.sessions.get(&id).and_then(Option::as_ref).is_some_and(|session| !session.authenticated) {
                self.probe("node: stranger sent away");
                self.cut_off(id);
            }
        }
        if self.now.time < self.next_relief {
            return;
        }
        self.next_relief = self.now.time + LOOK_EVERY;
        let most = self.tunables.clients_limit.bytes(self.config.memory_bytes);
        if most == 0 {
            return;
        }
        let sessions = self.sessions.iter().filter_map(|(id, session)| Some((*id, session.as_deref()?)));
        // HTTP has a budget of its own, and what it has under way on one connection is for many clients.
        let burdens: Vec<(usize, bool, ConnectionId)> = sessions
            .filter(|(_, session)| !session.is_inside && !session.is_cut)
            .map(|(id, session)| (session.burden().total(), session.no_evict, id))
            .collect();
        let mut all: u64 = burdens.iter().filter(|(_, kept, _)| !kept).map(|(bytes, ..)| *bytes as u64).sum();
        if all <= most {
            return;
        }
        let mut greediest: Vec<_> = burdens.into_iter().filter(|(_, kept, _)| !kept).collect();
        greediest.sort_unstable();
        let (before, mut gone) = (all, 0_u64);
        while let Some((bytes, _, id)) = greediest.pop().filter(|_| all > most) {
            all -= bytes as u64;
            gone += 1;
            self.cut_off(id);
        }
        self.stats.evicted_clients += gone;
        self.probe("node: clients evicted");
        self.event(
            Level::Warning,
            format!(
                "clients held {before} bytes, which is more than {most} (maxmemory-clients): the {gone} that held most were cut off"
            ),
        );
    }

    /// Ends a connection at once, with all that waits for it.
    fn cut_off(&mut self, id: ConnectionId) {
        self.pubsub.limits.push((id, Some(NOTHING_MORE)));
        self.throw_out(id);
        if let Some(Some(session)) = self.sessions.get_mut(&id) {
            session.is_cut = true;
            session.out = Vec::new();
            session.backlog = crate::backlog::Backlog::default();
        }
    }
}
