//! Clients and their connections to nodes.

use base::NodeId;
use bytes::Bytes;
use node::{ConnectionId, Listener};

use super::Cluster;
use crate::chaos::Fault;
use crate::client::{NO_LEASE, Record, Wishes};
use crate::door::Door;
use crate::events::Event;
use crate::process::{Happening, name_of};
use crate::restless::Restless;
use crate::routers::{Router, Wants};
use crate::trace::digest_of;

/// One connection of a client to a process.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) client: usize,
    pub(super) node: NodeId,
    /// The life of the process at the other end.
    life: u64,
    pub(super) opened_at: u64,
    last_to_node: u64,
    last_to_client: u64,
    /// Each end believes in the connection until it hears, or decides, otherwise.
    pub(super) client_open: bool,
    pub(super) node_open: bool,
    /// It has broken on the way to the node: nothing more arrives there.
    broken: bool,
    /// Its client does not read before that: what it was answered since waits.
    pub(super) reads_at: u64,
    pub(super) unread: Vec<Vec<u8>>,
    /// The last bytes that a caller was sent: the network cuts what nodes say anywhere.
    last_heard: Vec<u8>,
}

/// A client's end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClientEnd {
    /// The connection that it has asked for and waits for.
    attempt: Option<u64>,
    /// The connection that it has.
    current: Option<u64>,
}

/// Whose end of a connection it is.
pub(super) enum Owner {
    Client(usize),
    Caller(usize),
    /// That of one of the routers, which have one for each node.
    Router(usize, u16),
    Restless(usize),
}

impl<N: Door> Cluster<N> {
    pub(super) fn with_client(&mut self, client: usize, act: impl FnOnce(&mut Self, &mut Wishes)) {
        let mut wishes = Wishes::default();
        act(self, &mut wishes);
        let wake_at = wishes.wake_at;
        self.fulfil(client, wishes);
        if let Some(at) = wake_at {
            let timer = match self.owner_of(client) {
                Owner::Client(client) => self.clients[client].timer(),
                Owner::Caller(caller) => self.callers[caller].timer(),
                Owner::Router(router, _) => self.routers[router].timer(),
                Owner::Restless(place) => self.restless[place].timer(),
            };
            self.queue.push(at, Event::ClientWake(client, timer));
        }
    }

    /// Does what a client wants of one of its connections.
    fn fulfil(&mut self, client: usize, wishes: Wishes) {
        if let Some(waited) = wishes.overdue {
            self.judge_silence(client, waited);
        }
        if !wishes.send.is_empty()
            && let Some(number) = self.client_ends[client].current
        {
            self.send_to_node(number, &wishes.send);
        }
        if wishes.close {
            let end = std::mem::take(&mut self.client_ends[client]);
            if let Some(number) = end.current {
                self.abandon(number);
            }
        }
        if let Some(node) = wishes.connect {
            let number = self.next_connection;
            self.next_connection += 1;
            self.client_ends[client].attempt = Some(number);
            let at = self.now + self.network.delay();
            self.queue.push(at, Event::Connect(client, number, NodeId(node)));
        }
    }

    /// Lets a router act, and does what it wants.
    pub(super) fn with_router(&mut self, router: usize, act: impl FnOnce(&mut Router, u64, &mut Record, &mut Wants)) {
        let mut wants = Wants::default();
        act(&mut self.routers[router], self.now, &mut self.record, &mut wants);
        for (node, wishes) in wants.of {
            self.fulfil(self.end_of_router(router, node), wishes);
        }
        if let Some(at) = wants.wake_at {
            let timer = self.routers[router].timer();
            self.queue.push(at, Event::ClientWake(self.end_of_router(router, 0), timer));
        }
    }

    /// The end of a router's connection to a node.
    pub(super) fn end_of_router(&self, router: usize, node: u16) -> usize {
        self.clients.len() + self.callers.len() + router * self.machines.len() + usize::from(node)
    }

    /// A node must answer within its time, unless something happened to it.
    fn judge_silence(&mut self, client: usize, waited: u64) {
        let Some(number) = self.client_ends[client].current else { return };
        let Some(connection) = self.connections.get(&number).cloned() else { return };
        let asked_at = self.now - waited;
        let machine = &self.machines[usize::from(connection.node.0)];
        let undisturbed = machine.running.is_some()
            && machine.life == connection.life
            && machine.disturbed_at <= asked_at
            && connection.opened_at <= asked_at
            && connection.node_open;
        if undisturbed {
            let text = format!(
                "{} left client {client} without an answer for {:.3} s",
                name_of(connection.node),
                waited as f64 / 1e9
            );
            self.violate("an answer in bounded time", text);
        }
    }

    pub(super) fn owner_of(&self, end: usize) -> Owner {
        let Some(caller) = end.checked_sub(self.clients.len()) else { return Owner::Client(end) };
        let Some(link) = caller.checked_sub(self.callers.len()) else { return Owner::Caller(caller) };
        if let Some(place) = link.checked_sub(self.routers.len() * self.machines.len()) {
            return Owner::Restless(place);
        }
        Owner::Router(link / self.machines.len(), (link % self.machines.len()) as u16)
    }

    pub(super) fn on_client_wake(&mut self, client: usize, timer: u64) {
        match self.owner_of(client) {
            Owner::Client(_) if self.clients[client].timer() == timer => self.with_client(client, |world, wishes| {
                world.clients[client].on_wake(world.now, &mut world.record, wishes);
            }),
            Owner::Caller(caller) if self.callers[caller].timer() == timer => {
                self.with_client(client, |world, wishes| {
                    world.callers[caller].on_wake(world.now, &mut world.messages, wishes);
                });
            }
            Owner::Router(router, _) if self.routers[router].timer() == timer => {
                self.with_router(router, Router::on_wake);
            }
            Owner::Restless(place) if self.restless[place].timer() == timer => {
                self.with_restless(place, Restless::on_wake);
            }
            _ => {}
        }
    }

    pub(super) fn on_connect(&mut self, client: usize, number: u64, node: NodeId) {
        let (now, node) = (self.now, self.at_address_of(node));
        let machine = self.machine(node);
        // Nobody asks those who were left behind.
        let (life, dark, runs) = (machine.life, machine.dark, machine.running.is_some() && !machine.returns);
        let answer_at = now + self.network.delay();
        if !runs {
            if !dark {
                self.queue.push(answer_at, Event::ConnectionClosed(client, number));
            }
            return;
        }
        let opened = Connection {
            client,
            node,
            life,
            opened_at: now,
            last_to_node: now,
            last_to_client: answer_at,
            client_open: true,
            node_open: true,
            broken: false,
            reads_at: 0,
            unread: Vec::new(),
            last_heard: Vec::new(),
        };
        self.connections.insert(number, opened);
        let listener = match self.owner_of(client) {
            Owner::Router(..) => Listener::Redirects,
            _ => Listener::Forwards,
        };
        self.give(node, Happening::Opened(number, listener));
        self.queue.push(answer_at, Event::Connected(client, number));
    }

    pub(super) fn on_connected(&mut self, client: usize, number: u64) {
        if self.client_ends[client].attempt != Some(number) {
            // It had lost patience.
            self.abandon(number);
            return;
        }
        self.client_ends[client] = ClientEnd { attempt: None, current: Some(number) };
        match self.owner_of(client) {
            Owner::Client(_) => self.with_client(client, |world, wishes| {
                world.clients[client].on_connected(world.now, &mut world.record, wishes);
            }),
            Owner::Caller(caller) => self.with_client(client, |world, wishes| {
                world.callers[caller].on_connected(world.now, &mut world.messages, wishes);
            }),
            Owner::Router(router, node) => {
                self.with_router(router, |it, now, _, wants| it.on_connected(node, now, wants));
            }
            Owner::Restless(place) => self.with_restless(place, Restless::on_connected),
        }
    }

    /// A client hears that its connection is gone, or was refused.
    pub(super) fn on_connection_closed(&mut self, client: usize, number: u64) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.client_open = false;
            self.forget_if_over(number);
        }
        let end = &mut self.client_ends[client];
        if end.current == Some(number) || end.attempt == Some(number) {
            *end = ClientEnd::default();
            match self.owner_of(client) {
                Owner::Client(_) => self.with_client(client, |world, wishes| {
                    world.clients[client].on_closed(world.now, &mut world.record, wishes);
                }),
                Owner::Caller(caller) => self.with_client(client, |world, wishes| {
                    world.callers[caller].on_closed(world.now, &mut world.messages, wishes);
                }),
                Owner::Router(router, node) => {
                    self.with_router(router, |it, now, record, wants| it.on_closed(node, now, record, wants));
                }
                Owner::Restless(place) => self.with_restless(place, Restless::on_closed),
            }
        }
    }

    /// A client loses whatever connection it has or has asked for, at once.
    pub(super) fn lose_connection_of(&mut self, client: usize) {
        let end = self.client_ends[client];
        if let Some(number) = end.current.or(end.attempt) {
            self.on_connection_closed(client, number);
        }
    }

    /// The client leaves a connection; the node will hear of it.
    fn abandon(&mut self, number: u64) {
        let delay = self.network.delay();
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.client_open = false;
            let at = (self.now + delay).max(connection.last_to_node);
            self.queue.push(at, Event::ClientGone(number));
            self.forget_if_over(number);
        }
    }

    /// A node hears that a client is gone.
    pub(super) fn on_client_gone(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let (node, life) = (connection.node, connection.life);
        // The system tells that a process has ended either by an end of its bytes, behind which the node closes the connection, or by a reset.
        let ends = number.is_multiple_of(2) && connection.node_open;
        if ends
            && self.machines[usize::from(node.0)].life == life
            && let Some(running) = &self.machines[usize::from(node.0)].running
            && !running.held.contains_key(&number)
        {
            self.give(node, Happening::Ended(number));
            return;
        }
        let was_open = std::mem::replace(&mut connection.node_open, false);
        if was_open && self.machine(node).life == life {
            if let Some(running) = &mut self.machine(node).running {
                running.held.remove(&number);
            }
            self.give(node, Happening::Closed(number));
        }
        self.forget_if_over(number);
    }

    fn forget_if_over(&mut self, number: u64) {
        if self.connections.get(&number).is_some_and(|connection| !connection.client_open && !connection.node_open) {
            self.connections.remove(&number);
        }
    }

    fn send_to_node(&mut self, number: u64, bytes: &[u8]) {
        if self.connections.get(&number).is_some_and(|connection| connection.broken) {
            return;
        }
        let breaks = !self.healed && self.rng.below(1_000_000) < self.chaos.client_reset;
        if !breaks {
            self.send_cut(number, bytes, true);
            return;
        }
        *self.injected.entry(Fault::ClientReset).or_default() += 1;
        // The connection breaks before, within or behind the request, or with the answer on its way.
        let kept = self.rng.below(bytes.len() as u64 + 1) as usize;
        self.send_cut(number, &bytes[..kept], true);
        let (one, other) = (self.network.delay(), self.network.delay());
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.broken = true;
            let client = connection.client;
            let gone_at = (self.now + one).max(connection.last_to_node);
            self.queue.push(self.now + other, Event::ConnectionClosed(client, number));
            self.queue.push(gone_at, Event::ClientGone(number));
        }
    }

    /// Sends bytes either way, cut anywhere.
    pub(super) fn send_cut(&mut self, number: u64, bytes: &[u8], to_node: bool) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let cut = self.rng.chance(1, 4) && rest.len() > 1;
            let length = if cut { self.rng.between(1, rest.len() as u64 - 1) as usize } else { rest.len() };
            let (part, after) = rest.split_at(length);
            rest = after;
            let at = self.now + self.network.delay() + length as u64;
            let Some(connection) = self.connections.get_mut(&number) else { return };
            let last = if to_node { &mut connection.last_to_node } else { &mut connection.last_to_client };
            *last = at.max(*last);
            let part = Bytes::copy_from_slice(part);
            self.queue.push(*last, if to_node { Event::ToNode(number, part) } else { Event::ToClient(number, part) });
        }
    }

    pub(super) fn on_bytes_to_node(&mut self, number: u64, bytes: Bytes) {
        let Some(connection) = self.connections.get(&number) else { return };
        let (node, client) = (connection.node, connection.client);
        let now = self.now;
        if !connection.node_open {
            // A process that does not know the connection says so; a dark machine says nothing.
            if !self.machine(node).dark {
                let at = now + self.network.delay();
                self.queue.push(at, Event::ConnectionClosed(client, number));
            }
            return;
        }
        if let Some(running) = &mut self.machine(node).running
            && let Some(held) = running.held.get_mut(&number)
        {
            held.push(bytes);
            return;
        }
        let digest = digest_of(&bytes);
        self.trace.event(now, [11, u64::from(node.0), number, digest], || {
            format!("{} connection {number} < {}", name_of(node), wire::quote(&bytes[..bytes.len().min(200)]))
        });
        self.give(node, Happening::Received(number, bytes));
    }

    pub(super) fn on_bytes_to_client(&mut self, number: u64, bytes: Bytes) {
        let Some(connection) = self.connections.get(&number) else { return };
        let client = connection.client;
        if self.client_ends[client].current != Some(number) {
            return;
        }
        let (now, digest) = (self.now, digest_of(&bytes));
        self.trace.event(now, [12, client as u64, number, digest], || {
            format!("client {client} connection {number} > {}", wire::quote(&bytes[..bytes.len().min(200)]))
        });
        if matches!(self.owner_of(client), Owner::Caller(_)) && self.hears_of_no_lease(number, &bytes) {
            // A caller that has sent several commands cannot know which of them was refused, and begins anew.
            self.abandon(number);
            return self.on_connection_closed(client, number);
        }
        match self.owner_of(client) {
            Owner::Client(_) => self.with_client(client, |world, wishes| {
                world.clients[client].on_bytes(&bytes, world.now, &mut world.record, wishes);
            }),
            Owner::Caller(caller) => self.callers[caller].on_bytes(&bytes, now, &mut self.messages),
            Owner::Router(router, node) => {
                self.with_router(router, |it, now, record, wants| it.on_bytes(node, &bytes, now, record, wants));
            }
            Owner::Restless(place) => {
                self.with_restless(place, |it, now, record, wishes| it.on_bytes(&bytes, now, record, wishes));
            }
        }
    }

    fn hears_of_no_lease(&mut self, number: u64, bytes: &[u8]) -> bool {
        let Some(connection) = self.connections.get_mut(&number) else { return false };
        let heard = &mut connection.last_heard;
        heard.extend_from_slice(bytes);
        let hears = heard.windows(NO_LEASE.len()).any(|text| text == NO_LEASE.as_bytes());
        heard.drain(..heard.len().saturating_sub(NO_LEASE.len() - 1));
        hears
    }

    /// Does what a node wants of its clients' connections.
    pub(super) fn serve_clients(
        &mut self,
        node: NodeId,
        replies: Vec<(ConnectionId, Vec<u8>)>,
        close: Vec<ConnectionId>,
        pause: Vec<(ConnectionId, bool)>,
    ) {
        for (ConnectionId(number), bytes) in replies {
            if !self.keep_unread(number, &bytes) {
                self.send_cut(number, &bytes, false);
            }
        }
        for (ConnectionId(number), stop) in pause {
            let Some(running) = &mut self.machine(node).running else { return };
            if stop {
                running.held.entry(number).or_default();
            } else if let Some(held) = running.held.remove(&number) {
                for bytes in held {
                    self.give(node, Happening::Received(number, bytes));
                }
            }
        }
        for ConnectionId(number) in close {
            self.read_again(number);
            if let Some(connection) = self.connections.get_mut(&number)
                && std::mem::replace(&mut connection.node_open, false)
            {
                let (client, at) = (connection.client, connection.last_to_client.max(self.now) + 1);
                self.queue.push(at, Event::ConnectionClosed(client, number));
                self.forget_if_over(number);
                self.give(node, Happening::Closed(number));
            }
        }
    }

    /// A process has died: what becomes of its connections.
    pub(super) fn drop_connections_of(&mut self, node: NodeId, silently: bool) {
        let gone: Vec<(u64, usize)> = self
            .connections
            .iter_mut()
            .filter_map(|(&number, connection)| {
                let gone = connection.node == node && std::mem::replace(&mut connection.node_open, false);
                gone.then_some((number, connection.client))
            })
            .collect();
        for (number, client) in gone {
            if !silently {
                let at = self.now + self.network.delay();
                self.queue.push(at, Event::ConnectionClosed(client, number));
            }
            self.forget_if_over(number);
        }
    }
}
