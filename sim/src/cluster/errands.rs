//! Conversations that nodes want held for their clients: with the node itself, as `server/src/errands.rs` holds them. There are no other servers here.

use base::NodeId;
use node::{ConnectionId, Errand, ErrandAnswer, Heard, Listener, Say, Side, Target};
use wire::{ReplyLimits, ReplyParser, Value};

use super::Cluster;
use crate::door::Door;
use crate::process::Happening;

/// Numbers of their connections begin here: no client has so many.
const FIRST: u64 = 1 << 60;

/// One that is held; it ends with its process.
#[derive(Debug)]
pub struct Talk {
    errand: Errand,
    /// The connection for the source; that for the target is the next one.
    source: u64,
    parsers: [ReplyParser; 2],
    replies: Vec<Value>,
    waits: Option<(Side, usize)>,
}

/// The conversations of a process.
#[derive(Debug, Default)]
pub struct Talks {
    held: Vec<Talk>,
    begun: u64,
}

impl<N: Door> Cluster<N> {
    /// Begins those that a node wants, and goes on with those that were answered. Their replies are taken out of those for clients.
    pub(super) fn hold_errands(
        &mut self,
        node: NodeId,
        errands: Vec<Errand>,
        clients: &mut Vec<(ConnectionId, Vec<u8>)>,
        close: &mut Vec<ConnectionId>,
        pause: &mut Vec<(ConnectionId, bool)>,
    ) {
        let Some(running) = &mut self.machine(node).running else { return };
        if errands.is_empty() && running.talks.held.is_empty() {
            return;
        }
        let mut talks = std::mem::take(&mut running.talks);
        let is_ours = |connection: &ConnectionId| connection.0 >= FIRST;
        pause.retain(|(connection, _)| !is_ours(connection));
        let closed: Vec<ConnectionId> = close.extract_if(.., |connection| is_ours(connection)).collect();
        let heard: Vec<(ConnectionId, Vec<u8>)> =
            clients.extract_if(.., |(connection, _)| is_ours(connection)).collect();
        for talk in &mut talks.held {
            for (connection, bytes) in &heard {
                if let Some(place) = connection.0.checked_sub(talk.source).filter(|place| *place < 2) {
                    talk.parsers[place as usize].push(bytes);
                }
            }
        }
        for errand in errands {
            let source = FIRST + 2 * talks.begun;
            talks.begun += 1;
            for connection in [source, source + 1] {
                self.give(node, Happening::Opened(connection, Listener::Inside));
            }
            let parsers = [ReplyParser::new(ReplyLimits::default()), ReplyParser::new(ReplyLimits::default())];
            talks.held.push(Talk { errand, source, parsers, replies: Vec::new(), waits: None });
        }
        let mut left = Vec::new();
        for mut talk in std::mem::take(&mut talks.held) {
            let is_closed = closed.iter().any(|connection| connection.0 & !1 == talk.source);
            match talk.next(is_closed) {
                None => left.push(talk),
                Some(Say::To(side, bytes, count)) => {
                    talk.waits = Some((side, count));
                    self.give(node, Happening::Received(talk.source + side as u64, bytes.into()));
                    left.push(talk);
                }
                Some(Say::Done(answer)) => {
                    for connection in [talk.source, talk.source + 1] {
                        self.give(node, Happening::Closed(connection));
                    }
                    let (connection, slot) = (talk.errand.connection.0, talk.errand.slot);
                    self.give(node, Happening::ErrandDone(connection, slot, answer));
                }
            }
        }
        talks.held = left;
        if let Some(running) = &mut self.machine(node).running {
            running.talks = talks;
        }
    }
}

impl Talk {
    /// The next thing to say, if the answers to the last one are there.
    fn next(&mut self, is_closed: bool) -> Option<Say> {
        let heard = match self.waits {
            None => Heard::Nothing,
            Some((side, _)) if is_closed => Heard::NoAnswer(side),
            Some((side, count)) => {
                while let Ok(Some(value)) = self.parsers[side as usize].next() {
                    self.replies.push(value);
                }
                if self.replies.len() < count {
                    return None;
                }
                Heard::Replies(std::mem::take(&mut self.replies))
            }
        };
        match self.errand.go_on(heard) {
            Say::To(Side::Target, ..) if self.errand.target() != Target::Here => {
                Some(Say::Done(ErrandAnswer::Error("IOERR there is no other server".to_owned())))
            }
            say => Some(say),
        }
    }
}
