//! Connections: opened, read, written, lost and opened again.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Token};

use super::client::{Awaited, Connection, NONE, State};
use super::{READ_BYTES, Worker};
use crate::drive::{Answer, Driver, Kind};
use crate::load::Start;

/// Between two attempts, once every address has been tried.
const RETRY: Duration = Duration::from_millis(100);
/// The cluster's map is asked for at most this often.
const MAP_EVERY: u64 = 500_000_000;
/// A buffer that a long command or answer has made longer than this is given back.
const BUFFER_KEPT: usize = 1024 * 1024;

impl Worker<'_> {
    /// Which node a client begins with.
    pub(super) fn first_node(&self, number: u32) -> usize {
        let nodes = self.nodes();
        match self.load.start {
            Start::RoundRobin => number as usize % nodes,
            Start::First => 0,
        }
    }

    /// How many nodes are known.
    fn nodes(&self) -> usize {
        self.map.as_ref().map_or(self.load.target.addresses.len(), |map| map.nodes.len()).max(1)
    }

    /// Whether the client's first connection is open, and to stay so.
    #[inline]
    pub(super) fn home_is_open(&self, place: usize) -> bool {
        // Connections are added client after client before any other: the first ones have their client's place.
        self.connections[place].is_open() && !self.clients[place].leaving
    }

    /// Lets clients go back to where they began, if they were called and are elsewhere. In a cluster they are everywhere.
    fn take_recall(&mut self, now: u64) {
        let called = self.load.recall.count();
        let is_new = std::mem::replace(&mut self.recalled, called) != called;
        if called == 0 || self.map.is_some() || self.draining {
            return;
        }
        for place in 0..self.clients.len() {
            let home = self.first_node(self.clients[place].number);
            let connection = &self.connections[place];
            let client = &mut self.clients[place];
            client.leaving |= is_new && connection.is_open() && connection.node != home;
            if client.leaving && client.under_way == 0 {
                self.leave_for(place, home, now);
            }
        }
    }

    /// The client's connection to a node of the cluster, begun if there is none.
    pub(super) fn link(&mut self, place: usize, node: usize) -> usize {
        match self.clients[place].links.get(node) {
            Some(link) if *link != NONE => *link,
            _ => self.add_connection(place, node),
        }
    }

    /// Adds a connection of the client at `place` and begins to open it.
    pub(super) fn add_connection(&mut self, place: usize, node: usize) -> usize {
        let id = self.connections.len();
        let (name, address) = match &self.map {
            Some(map) => (String::new(), map.nodes[node]),
            None => self.load.target.addresses[node].clone(),
        };
        // Without a cluster there is one connection, whichever node it leads to.
        let slot = if self.map.is_some() { node } else { 0 };
        let links = &mut self.clients[place].links;
        if links.len() <= slot {
            links.resize(slot + 1, NONE);
        }
        links[slot] = id;
        self.connections.push(Connection {
            client: place,
            node,
            address,
            state: State::Down(0),
            stream: None,
            driver: Driver::new(&self.load.target, &name),
            began: 0,
            failures: 0,
            out: Vec::new(),
            out_at: 0,
            blocked: false,
            dirty: false,
            rest: Vec::new(),
            awaited: std::collections::VecDeque::new(),
        });
        let now = self.now();
        self.open(id, now);
        id
    }

    /// Begins to open a connection.
    fn open(&mut self, id: usize, now: u64) {
        let connection = &mut self.connections[id];
        connection.began = now;
        connection.state = State::Connecting;
        let opened = TcpStream::connect(connection.address).and_then(|mut stream| {
            self.poll.registry().register(&mut stream, Token(id), Interest::READABLE | Interest::WRITABLE)?;
            Ok(stream)
        });
        match opened {
            Ok(stream) => connection.stream = Some(stream),
            Err(error) => self.lost(id, &format!("connecting: {error}"), now),
        }
    }

    /// Something happened to a connection.
    pub(super) fn ready(&mut self, event: &Event, now: u64) {
        let id = event.token().0;
        let readable = event.is_readable() || event.is_read_closed() || event.is_error();
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.state == State::Connecting {
            let Some(stream) = &connection.stream else { return };
            match stream.take_error() {
                Ok(None) if stream.peer_addr().is_ok() => {}
                Ok(None) => return,
                Ok(Some(error)) | Err(error) => {
                    let text = format!("connecting: {}", plain(&error));
                    return self.lost(id, &text, now);
                }
            }
            // Without it small commands would wait for acknowledgements of those before them.
            if let Err(error) = stream.set_nodelay(true) {
                return self.lost(id, &format!("connecting: {error}"), now);
            }
            let (mut greeting, answers) = match connection.driver {
                Driver::Resp(_) => self.load.target.greeting(),
                Driver::Http { .. } => (Vec::new(), 0),
            };
            greeting.append(&mut connection.out);
            connection.out = greeting;
            connection.state = State::Greeting(answers);
            if answers == 0 {
                self.opened(id, now);
            }
            self.flush(id);
        } else if event.is_writable() && self.connections[id].blocked {
            self.connections[id].blocked = false;
            self.flush(id);
        }
        if readable {
            self.read(id);
        }
    }

    /// Takes an answer of the greeting. True: it was one.
    pub(super) fn greeted(&mut self, id: usize, answer: &Answer<'_>, now: u64) -> bool {
        let State::Greeting(lacking) = self.connections[id].state else { return false };
        if answer.kind == Kind::Error {
            self.failure = Some(format!(
                "{} {}: {}. Write the target as redis://USER:PASSWORD@HOST:PORT",
                self.connections[id].address,
                self.load.target.refused(lacking),
                answer.error_text()
            ));
            return true;
        }
        self.connections[id].state = State::Greeting(lacking.saturating_sub(1));
        if lacking <= 1 {
            self.opened(id, now);
        }
        true
    }

    fn opened(&mut self, id: usize, now: u64) {
        let connection = &mut self.connections[id];
        connection.state = State::Open;
        connection.failures = 0;
        let place = connection.client;
        // What was written for it while it was not open goes out with the next round.
        if !connection.out.is_empty() && !connection.dirty {
            connection.dirty = true;
            self.dirty.push(id);
        }
        if id == place {
            self.client_ready(place, now);
        }
    }

    /// Reads what has arrived: once, unless it filled the buffer.
    fn read(&mut self, id: usize) {
        loop {
            let connection = &mut self.connections[id];
            let Some(stream) = &mut connection.stream else { return };
            let read = stream.read(&mut self.input);
            let now = self.now();
            let length = match read {
                Ok(0) => return self.lost(id, "connection closed by the server", now),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return self.lost(id, &format!("connection lost: {}", plain(&error)), now),
            };
            let input = std::mem::take(&mut self.input);
            let mut rest = std::mem::take(&mut self.connections[id].rest);
            let taken = if rest.is_empty() {
                self.take_answers(id, &input[..length], now).map(|taken| rest.extend_from_slice(&input[taken..length]))
            } else {
                rest.extend_from_slice(&input[..length]);
                self.take_answers(id, &rest, now).map(|taken| {
                    rest.drain(..taken);
                    if rest.is_empty() && rest.capacity() > BUFFER_KEPT {
                        rest = Vec::new();
                    }
                })
            };
            self.input = input;
            match taken {
                Ok(()) => self.connections[id].rest = rest,
                Err(why) => return self.lost(id, &why, now),
            }
            if length < READ_BYTES {
                break;
            }
        }
        let place = self.connections[id].client;
        if self.arrivals.is_none() && self.started {
            self.fill(place);
        } else {
            self.give_due();
        }
    }

    /// Writes what the commands since the last round have filled in.
    pub(super) fn flush_dirty(&mut self) {
        while let Some(id) = self.dirty.pop() {
            self.connections[id].dirty = false;
            self.flush(id);
        }
    }

    fn flush(&mut self, id: usize) {
        let connection = &mut self.connections[id];
        if connection.blocked || !matches!(connection.state, State::Open | State::Greeting(_)) {
            return;
        }
        let Some(stream) = &mut connection.stream else { return };
        let pending = &connection.out[connection.out_at..];
        if pending.is_empty() {
            return;
        }
        let length = pending.len();
        match stream.write(pending) {
            Ok(written) if written == length => {
                connection.out.clear();
                connection.out_at = 0;
                if connection.out.capacity() > BUFFER_KEPT {
                    connection.out = Vec::new();
                }
            }
            // The system's buffer is full: it says so when there is room.
            Ok(written) => {
                connection.out_at += written;
                connection.blocked = true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => connection.blocked = true,
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                connection.dirty = true;
                self.dirty.push(id);
            }
            Err(error) => {
                let now = self.now();
                self.lost(id, &format!("connection lost: {}", plain(&error)), now);
            }
        }
    }

    /// A connection is gone, or could not be had: what was under way on it has no answer, and another address is next.
    pub(super) fn lost(&mut self, id: usize, why: &str, now: u64) {
        let nodes = self.nodes();
        self.hang_up(id);
        let connection = &mut self.connections[id];
        let was_open = connection.is_open();
        connection.failures += 1;
        let tried_all = connection.failures as usize >= nodes;
        let next = if self.map.is_none() { (connection.node + 1) % nodes } else { connection.node };
        self.aim(id, next);
        let connection = &mut self.connections[id];
        connection.state = State::Down(now + if tried_all { RETRY.as_nanos() as u64 } else { 0 });
        let awaited = std::mem::take(&mut connection.awaited);
        if !was_open {
            self.slice.error(why);
        }
        for awaited in awaited {
            self.command_lost(awaited, why, now);
        }
        if self.map.is_some() && self.started {
            self.refill.push(self.connections[id].client);
            self.ask_map(now);
        }
    }

    /// Closes a connection without a word.
    fn hang_up(&mut self, id: usize) {
        let connection = &mut self.connections[id];
        if let Some(mut stream) = connection.stream.take() {
            // It is closed by being dropped, which ends the registration too.
            let _ = self.poll.registry().deregister(&mut stream);
        }
        connection.out.clear();
        connection.out_at = 0;
        connection.blocked = false;
        connection.rest = Vec::new();
    }

    /// The next attempt to connect is for this node.
    fn aim(&mut self, id: usize, node: usize) {
        let connection = &mut self.connections[id];
        connection.node = node;
        let mut name = "";
        if self.map.is_none() {
            let (written, address) = &self.load.target.addresses[node];
            (name, connection.address) = (written, *address);
        }
        connection.driver = Driver::new(&self.load.target, name);
    }

    /// A client of which nothing is under way goes to this node.
    fn leave_for(&mut self, place: usize, node: usize, now: u64) {
        self.clients[place].leaving = false;
        self.hang_up(place);
        self.aim(place, node);
        self.open(place, now);
    }

    /// Asks any open connection for the cluster's map.
    fn ask_map(&mut self, now: u64) {
        if now < self.map_asked + MAP_EVERY {
            return;
        }
        if let Some(id) = self.connections.iter().position(Connection::is_open) {
            self.map_asked = now;
            let awaited = Awaited { flight: Awaited::MAP, from: now, extra: None };
            self.write_words(id, &[b"CLUSTER".to_vec(), b"SLOTS".to_vec()], awaited);
        }
    }

    /// Looks for answers that take too long, and for connections that can be tried again.
    pub(super) fn tick(&mut self, now: u64) {
        let timeout = self.load.timeout.as_nanos() as u64;
        // Not when they were lost: a connection that is refused at once would be tried again at once, without an end.
        for place in std::mem::take(&mut self.refill) {
            if self.arrivals.is_none() {
                self.fill(place);
            }
        }
        self.take_recall(now);
        for id in 0..self.connections.len() {
            let connection = &self.connections[id];
            let late = connection.awaited.front().is_some_and(|awaited| now.saturating_sub(awaited.from) > timeout);
            let slow = matches!(connection.state, State::Connecting | State::Greeting(_))
                && now.saturating_sub(connection.began) > timeout;
            if late {
                self.lost(id, "no answer within the timeout", now);
            } else if slow {
                self.lost(id, "connecting: no answer within the timeout", now);
            }
            if let State::Down(at) = self.connections[id].state
                && now >= at
                && !self.draining
            {
                self.open(id, now);
            }
        }
    }

    /// The origin of time is `nanoseconds` later than it was.
    pub(super) fn moved_origin(&mut self, nanoseconds: u64) {
        for connection in &mut self.connections {
            connection.began = connection.began.saturating_sub(nanoseconds);
            if let State::Down(at) = &mut connection.state {
                *at = at.saturating_sub(nanoseconds);
            }
        }
    }
}

/// What an error is called, without its number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
