//! Step 2 of a turn: what the sockets bring.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::Now;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Token};
use node::{ConnectionId, Input, Listener};
use rustix::net::sockopt;

use super::clients::Client;
use super::output::Output;
use super::{ALARM, CLUSTER, EventLoop, FIRST_CLIENT, FIRST_LINK, PEER, RESP, Step};
use crate::log;

/// How long to wait before accepting is tried again when the process has no file descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// A client that has ended its side gets the replies that come within this time.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection on which nothing has come for so long is asked whether the other machine still knows it (as Redis).
const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// Has the kernel find clients that are gone without a word.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
    Ok(())
}

impl EventLoop {
    /// Step 2 of a turn.
    pub(super) fn take_sockets(&mut self, events: &Events, now: Now) {
        for place in std::mem::take(&mut self.unread) {
            self.read_client(place, now);
        }
        let EventLoop { node, outbox, peers, buffer, poll, .. } = self;
        let step: &mut Step<'_> = &mut |input| node.step(now, input, outbox);
        peers.read_unread(buffer, now.time, step);
        peers.tick(poll.registry(), now.time, step);
        for event in events {
            match event.token() {
                ALARM => {}
                RESP => self.accept_clients(Listener::Forwards, now),
                CLUSTER => self.accept_clients(Listener::Redirects, now),
                PEER => self.peers.accept(&self.peer, self.poll.registry(), now.time),
                Token(token) if token >= FIRST_CLIENT => self.on_client_event(token - FIRST_CLIENT, event, now),
                Token(token) => {
                    let EventLoop { node, outbox, peers, buffer, .. } = self;
                    let step: &mut Step<'_> = &mut |input| node.step(now, input, outbox);
                    peers.on_event(token - FIRST_LINK, event, buffer, now.time, step);
                }
            }
        }
        if self.accept_at.is_some_and(|at| at <= now.time) {
            self.accept_at = None;
            self.accept_clients(Listener::Forwards, now);
            self.accept_clients(Listener::Redirects, now);
        }
        if !self.leaving.is_empty() {
            self.close_leaving(now);
        }
    }

    fn accept_clients(&mut self, listener: Listener, now: Now) {
        loop {
            let socket = match listener {
                Listener::Forwards => Some(&self.resp),
                Listener::Redirects => self.cluster.as_ref(),
                Listener::Inside => None,
            };
            let Some(socket) = socket else { return };
            let (mut stream, address) = match socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                Err(error) => {
                    log::warning(&format!(
                        "a client could not be accepted: {error}; trying again soon. If it says that too many files \
                         are open, raise the limit (ulimit -n) or lower --maxclients"
                    ));
                    self.accept_at = Some(now.time + ACCEPT_RETRY);
                    return;
                }
            };
            if self.clients.count() >= self.clients_max {
                let _ = stream.write(b"-ERR max number of clients reached\r\n");
                continue;
            }
            let token = Token(FIRST_CLIENT + self.clients.next_place());
            let local = stream.local_addr();
            let prepared = stream.set_nodelay(true).and_then(|()| keep_alive(&stream)).and_then(|()| {
                self.poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)
            });
            let (Ok(local), Ok(())) = (local, prepared) else {
                // The client has gone in the meantime.
                continue;
            };
            let connection = self.connections.fetch_add(1, Ordering::Relaxed);
            self.clients.insert(Client {
                stream,
                connection,
                output: Output::default(),
                paused: false,
                unread: false,
                half_closed: false,
                closing: false,
                unanswered: false,
                limit: None,
                slow_since: None,
                leave_at: None,
            });
            let opened = Input::Opened {
                connection: ConnectionId(connection),
                address: address.to_string(),
                local_address: local.to_string(),
                listener,
            };
            self.node.step(now, opened, &mut self.outbox);
        }
    }

    fn on_client_event(&mut self, place: usize, event: &Event, now: Now) {
        let Some(client) = self.clients.get(place) else { return };
        if event.is_writable() && client.output.waiting_bytes() > 0 {
            let flushed = client.output.flush(&mut client.stream);
            if flushed.is_err() || (client.closing && client.output.waiting_bytes() == 0) {
                self.remove_client(place, now);
                return;
            }
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            client.half_closed |= event.is_read_closed() || event.is_error();
            self.read_client(place, now);
        }
    }

    /// Reads once. What is left is read in the next turn.
    fn read_client(&mut self, place: usize, now: Now) {
        let Some(client) = self.clients.get(place) else { return };
        if client.paused {
            client.unread = true;
            return;
        }
        if client.closing || client.leave_at.is_some() {
            return;
        }
        match client.stream.read(&mut self.buffer) {
            Ok(0) => self.on_client_end(place, now),
            Ok(count) => {
                client.unanswered = true;
                if count == self.buffer.len() || client.half_closed {
                    self.unread.push(place);
                }
                let connection = ConnectionId(client.connection);
                let received = Input::Received { connection, bytes: &self.buffer[..count] };
                self.node.step(now, received, &mut self.outbox);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => client.half_closed = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => self.unread.push(place),
            Err(_) => self.remove_client(place, now),
        }
    }

    /// The client sends nothing more. It may still want to read: `printf 'GET a\r\n' | nc` does.
    fn on_client_end(&mut self, place: usize, now: Now) {
        let Some(client) = self.clients.get(place) else { return };
        if client.unanswered || client.output.waiting_bytes() > 0 {
            client.leave_at = Some(now.time + LEAVE_TIMEOUT);
            self.leaving.push(client.connection);
        } else {
            self.remove_client(place, now);
        }
    }

    fn close_leaving(&mut self, now: Now) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.retain(|&connection| {
            let Some(place) = self.clients.place_of(connection) else { return false };
            let due = self.clients.get(place).and_then(|client| client.leave_at).is_some_and(|at| at <= now.time);
            if due {
                self.remove_client(place, now);
            }
            !due
        });
        self.leaving = leaving;
    }

    pub(super) fn remove_client(&mut self, place: usize, now: Now) {
        if let Some(client) = self.clients.remove(place) {
            let closed = Input::Closed { connection: ConnectionId(client.connection) };
            self.node.step(now, closed, &mut self.outbox);
            self.unfinished = true;
        }
    }
}
