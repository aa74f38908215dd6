//! Publish and subscribe: messages for whoever listens now, on any node.
//!
//! A message goes to the listeners of the publisher's node at once, and at the end of the turn to all other nodes, in one *bulletin* with
//! everything else of that turn; each hands it to its own listeners. It is in no log and on no disk: who is not connected, or whose node
//! cannot be reached, does not get it. Why so: `docs/decisions/2026-11-23-publish-subscribe.md`.

pub(crate) mod audience;
pub(crate) mod bulletin;
mod links;

use std::collections::BTreeSet;

use base::limits::{ACCEPT_BYTES_TARGET, CONNECTION_OUTPUT_BYTES_MAX};
use base::{NodeId, Time};
use bytes::Bytes;
use data::{Failure, Published};
use wire::{Protocol, Reader, ReplyWriter};

use crate::door::{ConnectionId, Level, OutputLimit, Planted};
use crate::node::Node;
use crate::peer::PeerMessage;
use crate::session::Session;
use audience::{Audience, Kind};
use bulletin::Item;
use links::{Heard, Link};

/// What a connection listens to.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    names: [BTreeSet<Bytes>; 3],
}

impl Subscriptions {
    /// How many of a kind.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.names[kind.place()].len()
    }

    fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }
}

/// What a node has to know for it.
#[derive(Debug)]
pub(crate) struct PubSub {
    pub audience: Audience,
    /// By member.
    links: Vec<Link>,
    /// Items for the other nodes, and how many of them are messages.
    items: Vec<u8>,
    messages: u64,
    /// Connections whose limit of output has changed: the owner is to be told.
    pub limits: Vec<(ConnectionId, Option<OutputLimit>)>,
    /// Messages that clients of this node have published, that other nodes have sent, and that were not sent to one.
    pub published: u64,
    pub received: u64,
    pub unsent: u64,
    /// Messages whose channel was compared with some patterns only: more would have held this node up.
    pub undecided: u64,
}

impl PubSub {
    pub(crate) fn new(members: usize) -> PubSub {
        PubSub {
            audience: Audience::default(),
            links: (0..members).map(|_| Link::default()).collect(),
            items: Vec::new(),
            messages: 0,
            limits: Vec::new(),
            published: 0,
            received: 0,
            unsent: 0,
            undecided: 0,
        }
    }

    /// There are nodes with numbers below this one.
    pub(crate) fn make_room(&mut self, bound: usize) {
        if self.links.len() < bound {
            self.links.resize_with(bound, Link::default);
        }
    }

    /// A link works from now on: the other knows nothing of this node's listeners.
    pub(crate) fn on_peer_up(&mut self, peer: NodeId, now: Time) {
        self.audience.forget(peer);
        let tells_all = !self.audience.is_empty_here();
        if let Some(link) = self.links.get_mut(usize::from(peer.0)) {
            *link = Link::opened(now, tells_all);
        }
    }

    /// A link is gone: nobody there can be reached.
    pub(crate) fn on_peer_down(&mut self, peer: NodeId) {
        self.audience.forget(peer);
        if let Some(link) = self.links.get_mut(usize::from(peer.0)) {
            *link = Link::default();
        }
    }

    /// How many listeners of other nodes a message reaches, as far as is known.
    fn count_elsewhere(&self, kind: Kind, channel: &[u8], bytes: usize) -> u64 {
        let has_room = |node: NodeId| self.links.get(usize::from(node.0)).is_some_and(|link| link.has_room(bytes));
        self.audience.count_elsewhere(kind, channel, has_room)
    }
}

/// Writes a message that answers no command. Clients of both protocols get the same but for the first byte.
fn encode(pattern: Option<&Bytes>, kind: Kind, channel: &[u8], message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(channel.len() + message.len() + 64);
    let mut writer = ReplyWriter::new(&mut bytes, Protocol::Resp3);
    writer.push(if pattern.is_some() { 4 } else { 3 });
    writer.bulk(match (pattern, kind) {
        (Some(_), _) => b"pmessage",
        (None, Kind::Shard) => b"smessage",
        (None, _) => b"message",
    });
    if let Some(pattern) = pattern {
        writer.bulk(pattern);
    }
    writer.bulk(channel);
    writer.bulk(message);
    bytes
}

impl Session {
    /// Whether it listens to anything.
    pub(crate) fn listens(&self) -> bool {
        self.subscriptions.is_some()
    }

    /// How many names of a kind it listens to.
    pub(crate) fn subscribed(&self, kind: Kind) -> usize {
        self.subscriptions.as_ref().map_or(0, |all| all.count(kind))
    }

    /// The names of a kind to which it listens.
    pub(crate) fn names_of(&self, kind: Kind) -> impl Iterator<Item = &[u8]> {
        self.subscriptions.iter().flat_map(move |all| all.names[kind.place()].iter()).map(AsRef::as_ref)
    }

    /// Appends what [`encode`] made. False if that is more than a connection may leave unread.
    fn push(&mut self, bytes: &[u8], limit: OutputLimit) -> bool {
        let hard =
            usize::try_from(limit.hard_bytes).ok().filter(|hard| *hard > 0).unwrap_or(CONNECTION_OUTPUT_BYTES_MAX);
        if self.out.len() + bytes.len() > hard.min(CONNECTION_OUTPUT_BYTES_MAX) {
            return false;
        }
        let start = self.out.len();
        self.out.extend_from_slice(bytes);
        if self.protocol == Protocol::Resp2 {
            self.out[start] = b'*';
        }
        true
    }
}

impl Node {
    /// Publishes a message of a client, here at once and elsewhere at the end of the turn. Answers how many listeners it reaches; those of
    /// other nodes as far as is known here.
    pub(crate) fn publish(&mut self, session: Option<&mut Session>, kind: Kind, channel: &[u8], message: &[u8]) -> u64 {
        self.pubsub.published += 1;
        let here = self.tell_listeners(session, kind, channel, message);
        if self.roll.len() == 1 {
            return here;
        }
        let pubsub = &mut self.pubsub;
        Item::Published { kind, channel, message }.encode(&mut pubsub.items);
        pubsub.messages += 1;
        let elsewhere = pubsub.count_elsewhere(kind, channel, pubsub.items.len());
        if pubsub.items.len() >= ACCEPT_BYTES_TARGET {
            self.send_items();
        }
        here + elsewhere
    }

    /// Publishes what scripts of clients of this node have asked for. That an entry is carried out does not depend on it: nobody may be listening.
    pub(crate) fn publish_of_scripts(&mut self, g: usize) {
        for Published { sharded, channel, message } in std::mem::take(&mut self.groups[g].wishes.published) {
            self.publish(None, if sharded { Kind::Shard } else { Kind::Channel }, &channel, &message);
        }
    }

    /// Hands a message to the listeners of this node; how many there are. `own`: the connection whose command is being carried out, which is not
    /// among the node's while that lasts; what is for itself comes after the reply.
    pub(crate) fn tell_listeners(
        &mut self,
        mut own: Option<&mut Session>,
        kind: Kind,
        channel: &[u8],
        message: &[u8],
    ) -> u64 {
        let limit = self.tunables.pubsub_output;
        let Node { pubsub, sessions, dirty, to_close, .. } = self;
        let mut count = 0;
        let is_for_all = pubsub.audience.listeners(kind, channel, |pattern, listeners| {
            let bytes = encode(pattern, kind, channel, message);
            count += listeners.len() as u64;
            for id in listeners {
                if let Some(own) = own.as_deref_mut().filter(|own| own.id == *id) {
                    let start = own.afterwards.len();
                    own.afterwards.extend_from_slice(&bytes);
                    if own.protocol == Protocol::Resp2 {
                        own.afterwards[start] = b'*';
                    }
                } else if let Some(Some(session)) = sessions.get_mut(id)
                    && !session.closing
                {
                    if !session.push(&bytes, limit) {
                        session.out = Vec::new();
                        session.closing = true;
                        to_close.push(*id);
                    } else if !session.dirty {
                        session.dirty = true;
                        dirty.push(*id);
                    }
                }
            }
        });
        pubsub.undecided += u64::from(!is_for_all);
        count
    }

    /// A connection listens to one more name. Answers how many it listens to that are counted together with it.
    pub(crate) fn subscribe(&mut self, session: &mut Session, kind: Kind, name: &[u8]) -> Result<usize, Failure> {
        let known = session.subscriptions.as_ref().is_some_and(|all| all.names[kind.place()].contains(name));
        if !known {
            let name = Bytes::copy_from_slice(name);
            self.pubsub.audience.add(kind, &name, session.id)?;
            if !session.listens() {
                self.pubsub.limits.push((session.id, Some(self.tunables.pubsub_output)));
            }
            session.subscriptions.get_or_insert_default().names[kind.place()].insert(name);
        }
        Ok(counted_with(session, kind))
    }

    /// A connection listens to a name no more. Answers how many are left that are counted together with it.
    pub(crate) fn unsubscribe(&mut self, session: &mut Session, kind: Kind, name: &[u8]) -> usize {
        if let Some(all) = &mut session.subscriptions
            && let Some(name) = all.names[kind.place()].take(name)
        {
            self.pubsub.audience.remove(kind, &name, session.id);
            if all.is_empty() {
                session.subscriptions = None;
                self.pubsub.limits.push((session.id, None));
            }
        }
        counted_with(session, kind)
    }

    /// A connection listens to nothing more.
    pub(crate) fn unsubscribe_all(&mut self, session: &mut Session) {
        for kind in Kind::ALL {
            for name in names(session, kind) {
                self.unsubscribe(session, kind, &name);
            }
        }
    }

    /// Tells the other nodes what was published in this turn, and how many listeners have come and gone.
    pub(crate) fn send_bulletins(&mut self) {
        for (kind, name, count) in self.pubsub.audience.take_changed() {
            if self.roll.len() > 1 {
                Item::Listeners { kind, name: &name, count }.encode(&mut self.pubsub.items);
            }
            if self.pubsub.items.len() >= ACCEPT_BYTES_TARGET {
                self.send_items();
            }
        }
        self.send_items();
    }

    fn send_items(&mut self) {
        if self.pubsub.items.is_empty() {
            return;
        }
        let items = Bytes::from(std::mem::take(&mut self.pubsub.items));
        let messages = std::mem::take(&mut self.pubsub.messages);
        for place in 0..self.pubsub.links.len() {
            let link = &mut self.pubsub.links[place];
            if !link.open {
                continue;
            }
            if !link.has_room(items.len()) {
                link.tells_all = true;
                self.pubsub.unsent += messages;
                self.probe("node: link does not keep up with what is published");
                continue;
            }
            let number = link.send(self.now.time, items.len(), false);
            if self.config.planted == Some(Planted::BulletinForgotten) && number.is_multiple_of(8) {
                continue;
            }
            let message = PeerMessage::Bulletin { number, anew: false, items: items.clone() };
            self.send(NodeId(place as u16), &message);
        }
    }

    /// Several times a second: says how far bulletins were heard, and tells all listeners to whoever does not know them.
    pub(crate) fn tick_bulletins(&mut self) {
        for place in 0..self.pubsub.links.len() {
            let (peer, now) = (NodeId(place as u16), self.now.time);
            if let Some((number, whole)) = self.pubsub.links[place].say() {
                self.send(peer, &PeerMessage::BulletinsHeard { number, whole });
            }
            if !self.pubsub.links[place].is_to_tell_all(now) {
                continue;
            }
            let mut parts = vec![Vec::new()];
            for (kind, name, count) in self.pubsub.audience.all_here() {
                if parts.last().is_some_and(|part: &Vec<u8>| part.len() >= ACCEPT_BYTES_TARGET) {
                    parts.push(Vec::new());
                }
                if let Some(part) = parts.last_mut() {
                    Item::Listeners { kind, name, count }.encode(part);
                }
            }
            self.probe("node: listeners told anew");
            for (part, items) in parts.into_iter().enumerate() {
                let anew = part == 0;
                let number = self.pubsub.links[place].send(now, items.len(), anew);
                self.send(peer, &PeerMessage::Bulletin { number, anew, items: Bytes::from(items) });
            }
        }
    }

    pub(crate) fn on_bulletin(&mut self, from: NodeId, number: u64, anew: bool, items: &Bytes) {
        let Some(link) = self.pubsub.links.get_mut(usize::from(from.0)) else { return };
        let takes_all = self.config.planted == Some(Planted::BulletinTakenTwice);
        if link.hear(number, anew) == Heard::Old && !takes_all {
            return self.probe("node: bulletin heard before");
        }
        if anew {
            self.pubsub.audience.forget(from);
        }
        let mut r = Reader::new(items);
        while !r.rest().is_empty() {
            match Item::decode(&mut r) {
                Ok(Item::Published { kind, channel, message }) => {
                    self.pubsub.received += 1;
                    self.tell_listeners(None, kind, channel, message);
                }
                Ok(Item::Listeners { kind, name, count }) => self.pubsub.audience.hear(from, kind, name, count),
                Err(_) => {
                    let text = format!("{} sent a bulletin that makes no sense", self.name_of(from));
                    return self.event(Level::Error, text);
                }
            }
        }
    }

    pub(crate) fn on_bulletins_heard(&mut self, from: NodeId, number: u64, whole: bool) {
        let now = self.now.time;
        if let Some(link) = self.pubsub.links.get_mut(usize::from(from.0)) {
            link.on_said(now, number, whole);
        }
    }
}

/// The names of a kind that a connection listens to, in order.
pub(crate) fn names(session: &Session, kind: Kind) -> Vec<Bytes> {
    session.subscriptions.as_ref().map_or_else(Vec::new, |all| all.names[kind.place()].iter().cloned().collect())
}

/// Channels and patterns are counted together, shard channels by themselves.
fn counted_with(session: &Session, kind: Kind) -> usize {
    match kind {
        Kind::Channel | Kind::Pattern => session.subscribed(Kind::Channel) + session.subscribed(Kind::Pattern),
        Kind::Shard => session.subscribed(Kind::Shard),
    }
}
