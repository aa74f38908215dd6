//! `CLIENT PAUSE`: for some time this node's clients wait with their next command, all of them or those who write.
//!
//! What was taken before goes on. It is the node's own matter: clients of other nodes are served, so whoever wants all to stand still pauses all nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Time;
use data::spec::Flags;
use wire::ArgumentsRef;

use crate::commands;
use crate::door::{ConnectionId, Planted};
use crate::node::Node;
use crate::session::{Block, Session};

/// The pause that there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pause {
    until: Time,
    /// Those who only read wait as well.
    all: bool,
}

/// What a node knows of it.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    pause: Option<Pause>,
    /// Who waits for its end, in the order in which they came.
    waiting: BTreeMap<u64, ConnectionId>,
    next: u64,
}

impl Pauses {
    /// Whether commands that write wait.
    pub(crate) fn is_on(&self) -> bool {
        self.pause.is_some()
    }

    /// How many connections wait.
    pub(crate) fn count(&self) -> usize {
        self.waiting.len()
    }

    fn enter(&mut self, connection: ConnectionId) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, connection);
        number
    }

    /// A connection that waited is gone.
    pub(crate) fn leave(&mut self, number: u64) {
        self.waiting.remove(&number);
    }
}

/// Whether a command may change something, or be heard by others.
fn writes(session: &Session, words: &[&[u8]]) -> bool {
    is_or_carries_out(session, words, |words| is_of_data(words) || commands::pubsub::publishes(words))
}

/// Whether a command may become an entry of a log.
pub(crate) fn changes_data(session: &Session, words: &[&[u8]]) -> bool {
    is_or_carries_out(session, words, is_of_data)
}

fn is_of_data(words: &[&[u8]]) -> bool {
    let is = |place: usize, word: &str| words.get(place).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()));
    if is(0, "dictum.subscribe") && is(1, "name") {
        return true;
    }
    words.first().is_some_and(|name| data::lookup(name).is_some_and(|entry| entry.spec.flags.has(Flags::WRITE)))
}

/// Whether a command acts, is one that is to be carried out once, or carries out a transaction in which one acts.
fn is_or_carries_out(session: &Session, words: &[&[u8]], acts: impl Fn(&[&[u8]]) -> bool) -> bool {
    let Some(name) = words.first() else { return false };
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    let queued = || session.queue.iter().flat_map(|queue| &queue.commands);
    acts(words)
        || is("DICTUM.ONCE")
        || is("EXEC") && queued().any(|command| acts(crate::words::Words::new(command.as_ref()).as_slice()))
}

/// Whether a command waits for no pause: what an operator, a probe or a collector of metrics asks of the node itself.
fn is_about_the_node(session: &Session, words: &[&[u8]]) -> bool {
    let Some(name) = words.first() else { return false };
    let is = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
    // HTTP greets the node and selects a bucket by such commands, too, and then waits with what it wants of the bucket.
    let of_http = session.is_inside && data::lookup(name).is_none() && !writes(session, words);
    of_http || ["DICTUM.STATUS", "DICTUM.NODE", "DICTUM.BUCKET"].iter().any(is)
}

impl Node {
    /// Begins a pause, or makes the one that there is longer or wider.
    pub(crate) fn pause(&mut self, length: Duration, all: bool) {
        let before = self.pausing.pause.unwrap_or(Pause { until: Time(0), all: false });
        let until = (self.now.time + length).max(before.until);
        self.pausing.pause = Some(Pause { until, all: all || before.all });
    }

    /// Ends it.
    pub(crate) fn end_pause(&mut self) {
        self.pausing.pause = None;
        for (number, connection) in std::mem::take(&mut self.pausing.waiting) {
            if self.config.planted == Some(Planted::PauseForgotten) && number.is_multiple_of(4) {
                continue;
            }
            if let Some(Some(session)) = self.sessions.get_mut(&connection)
                && session.block == Some(Block::Paused { number })
            {
                session.block = None;
                self.resume(connection);
            }
        }
    }

    /// At every tick: ends it when its time is up.
    pub(crate) fn look_at_pause(&mut self) {
        if self.pausing.pause.is_some_and(|pause| pause.until <= self.now.time) {
            self.end_pause();
        }
    }

    /// Keeps a command until the pause is over, if it has to wait for that.
    pub(crate) fn waits_for_pause(
        &mut self,
        session: &mut Session,
        arguments: ArgumentsRef<'_>,
        words: &[&[u8]],
    ) -> bool {
        let waits = self.pausing.pause.is_some_and(|pause| pause.all || writes(session, words))
            && !is_about_the_node(session, words);
        if waits {
            session.deferred = Some(arguments.to_owned());
            session.block = Some(Block::Paused { number: self.pausing.enter(session.id) });
            self.probe("node: client waits for the end of a pause");
        }
        waits
    }
}
