//! Three replicas with a leader, and single messages to and from them.

use base::{Ballot, NodeId, Position};
use bytes::Bytes;
use paxos::{Entry, Input, Message};

use super::World;

pub fn ballot(round: u64, node: u16) -> Ballot {
    Ballot { round, node: NodeId(node) }
}

pub fn entry(of: Ballot, payload: &'static str) -> Entry {
    Entry { ballot: of, payload: Bytes::from_static(payload.as_bytes()) }
}

/// Three replicas, the first of which leads; everybody knows that the opening entry is decided.
pub fn led() -> World {
    let mut world = World::founded(3, 3);
    world.elect(0);
    world
}

/// Gives a replica one message, alone in its turn.
pub fn tell(world: &mut World, from: u16, to: usize, message: Message) {
    world.turn(to, vec![Input::Message { from: NodeId(from), message }]);
}

/// Takes what is on its way from `from`.
pub fn said(world: &mut World, from: usize) -> Vec<Message> {
    let (taken, rest): (Vec<_>, Vec<_>) = world.network.drain(..).partition(|envelope| envelope.from == from);
    world.network.extend(rest);
    taken.into_iter().map(|envelope| envelope.message).collect()
}

/// An Accept of one entry after the opening entry of `led`.
pub fn accept(of: Ballot, payload: &'static str) -> Message {
    let (previous, previous_ballot) = (Position(1), ballot(1, 0));
    let entries = vec![entry(of, payload)];
    Message::Accept { ballot: of, previous, previous_ballot, entries, decided: Position(1) }
}
