//! Client sockets: what they bring is given to the node, and what the node wants done with them is done.
//!
//! Whoever polls for them owns them: the loop itself, or a porter (`porters.rs`). Both do it here. What a socket brings goes to `step`; for the loop that is the
//! node, for a porter the batch that the loop takes next.

mod securing;

use std::io::{self, ErrorKind, Read};
use std::time::Duration;

use base::Time;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use node::{ConnectionId, Input, OutputLimit};

use super::Step;
use super::client_handshakes::{ClientDoor, Handshaken};
use super::clients::{Client, Clients};
use super::output::Output;
use crate::client_tls::ClientSocket;
use crate::{full_sync, log};

/// A client that the node has closed has so long to take its last replies. One that has ended its side has so long to take any of what waits for it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Of what a poll tells.
pub(super) const WATCHED: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// What the node wants done with a connection, in this order within a turn.
#[derive(Debug)]
pub(super) enum Deed {
    /// It may leave so much unread from now on.
    Limit(Option<OutputLimit>),
    /// It gets these bytes.
    Reply(Vec<u8>),
    /// Nothing is to be read from it (`true`), or something is again.
    Pause(bool),
    /// It is to be closed once it has its replies.
    Close,
    /// Its socket goes to somebody else, with the replies that it has not taken yet.
    HandOver(full_sync::Ticket),
    /// Its handshake is over.
    Secured(Handshaken),
}

/// See the file's head.
pub(super) struct Sockets {
    clients: Clients,
    /// Of the poll that watches them.
    registry: Registry,
    /// Where clients speak TLS, too.
    door: Option<ClientDoor>,
    /// The token of the first place.
    first_token: usize,
    /// Places in whose sockets something may lie that was not read.
    unread: Vec<usize>,
    /// Clients that leave more unread than they may for long, by connection.
    slow: Vec<u64>,
    /// Clients that have ended their side, or are to be closed, by connection.
    leaving: Vec<u64>,
}

impl Sockets {
    /// `registry` is that of the poll that is to watch the sockets.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn new(first_token: usize, registry: &Registry, door: Option<ClientDoor>) -> io::Result<Sockets> {
        Ok(Sockets {
            clients: Clients::default(),
            registry: registry.try_clone()?,
            door,
            first_token,
            unread: Vec::new(),
            slow: Vec::new(),
            leaving: Vec::new(),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.clients.count()
    }

    /// Takes over a new connection.
    ///
    /// # Errors
    /// When the poll does not take it: the client has gone in the meantime.
    pub(super) fn insert(&mut self, mut stream: TcpStream, connection: u64) -> io::Result<()> {
        let token = Token(self.first_token + self.clients.next_place());
        self.registry.register(&mut stream, token, WATCHED)?;
        self.clients.insert(Client {
            stream: ClientSocket::Plain(stream),
            is_new: true,
            connection,
            output: Output::default(),
            told_unread: 0,
            paused: false,
            unread: false,
            half_closed: false,
            ended: false,
            closing: false,
            limit: None,
            slow_since: None,
            leave_at: None,
        });
        Ok(())
    }

    /// Whether something may lie in sockets that nobody will be told of again.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Whether clients leave more unread than they may for long: [`Sockets::cut_off_slow`] is to be called again soon.
    pub(super) fn has_slow(&self) -> bool {
        !self.slow.is_empty()
    }

    /// When a connection is due to be closed.
    pub(super) fn next_leaving(&mut self) -> Option<Time> {
        let mut earliest = None;
        for &connection in &self.leaving {
            let place = self.clients.place_of(connection);
            let at = place.and_then(|place| self.clients.get(place)).and_then(|client| client.leave_at);
            earliest = [earliest, at].into_iter().flatten().min();
        }
        earliest
    }

    /// Bytes that clients have not taken yet; of what sessions hold it is not known how many they are.
    pub(super) fn waiting_bytes(&self) -> usize {
        let of = |client: &Client| client.output.waiting_bytes() + usize::from(client.stream.wants_write());
        self.clients.iter().map(of).sum()
    }

    /// Reads on where something was left, until `most` bytes have been read, or a buffer more. How many it were.
    pub(super) fn read_unread(&mut self, buffer: &mut [u8], most: usize, now: Time, step: &mut Step<'_>) -> usize {
        let mut bytes = 0;
        for place in std::mem::take(&mut self.unread) {
            if bytes < most {
                bytes += self.read(place, buffer, now, step);
            } else {
                self.unread.push(place);
            }
        }
        bytes
    }

    /// The poll has something to say of a socket. Without a buffer nothing is read now. How many bytes were read.
    pub(super) fn on_event(
        &mut self,
        event: &Event,
        buffer: Option<&mut [u8]>,
        now: Time,
        step: &mut Step<'_>,
    ) -> usize {
        let place = event.token().0 - self.first_token;
        let Some(client) = self.clients.get(place) else { return 0 };
        if event.is_writable() && client.is_owed() {
            let before = client.output.waiting_bytes();
            let flushed = client.output.flush(&mut client.stream);
            let after = client.output.waiting_bytes();
            if flushed.is_err() || (client.closing && !client.is_owed()) {
                client.stream.close();
                self.remove(place, step);
                return 0;
            }
            if client.ended && !client.closing && after < before {
                client.leave_at = (after > 0).then_some(now + CLOSE_TIMEOUT);
            }
            if let Some(news) = client.unread_news() {
                step(news);
            }
        }
        let is_broken = event.is_error() || event.is_write_closed();
        if is_broken && (client.ended || client.paused) {
            // Nothing is read of it for now, so no read tells that the connection is gone.
            self.remove(place, step);
            return 0;
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            let has_ended = event.is_read_closed() || event.is_error();
            if has_ended && !client.half_closed && client.paused {
                // The end stands behind what is not read yet; but whether its client waits in vain is to be known now.
                step(Input::Ended { connection: ConnectionId(client.connection), all_read: false });
            }
            client.half_closed |= has_ended;
            match buffer {
                Some(buffer) => return self.read(place, buffer, now, step),
                None => self.unread.push(place),
            }
        }
        0
    }

    /// Reads once; how many bytes. What is left is read in the next turn.
    fn read(&mut self, place: usize, buffer: &mut [u8], now: Time, step: &mut Step<'_>) -> usize {
        let Some(client) = self.clients.get(place) else { return 0 };
        if client.paused {
            client.unread = true;
            return 0;
        }
        if client.closing || client.ended {
            return 0;
        }
        match client.stream.read(buffer) {
            Ok(0) => self.on_end(place, now, step),
            Ok(count) => {
                if client.stream.may_have_more(count, buffer.len()) || client.half_closed {
                    self.unread.push(place);
                }
                if std::mem::take(&mut client.is_new)
                    && self.door.is_some()
                    && !self.let_in(place, &buffer[..count], step)
                {
                    return count;
                }
                let Some(client) = self.clients.get(place) else { return count };
                step(Input::Received { connection: ConnectionId(client.connection), bytes: &buffer[..count] });
                return count;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => client.half_closed = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => self.unread.push(place),
            Err(error) => {
                let connection = client.connection;
                log::debug(&format!("client connection {connection} was closed: {error}"));
                self.remove(place, step);
            }
        }
        0
    }

    /// The client sends nothing more. It may still want to read, as `printf 'GET a\r\n' | nc` does: the node says when everything is answered.
    fn on_end(&mut self, place: usize, now: Time, step: &mut Step<'_>) {
        let Some(client) = self.clients.get(place) else { return };
        client.ended = true;
        let connection = client.connection;
        if client.output.waiting_bytes() > 0 {
            client.leave_at = Some(now + CLOSE_TIMEOUT);
            self.leaving.push(connection);
        }
        step(Input::Ended { connection: ConnectionId(connection), all_read: true });
    }

    /// Closes those whose time is up.
    pub(super) fn close_leaving(&mut self, now: Time, step: &mut Step<'_>) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.retain(|&connection| {
            let Some(place) = self.clients.place_of(connection) else { return false };
            let Some(at) = self.clients.get(place).and_then(|client| client.leave_at) else { return false };
            let due = at <= now;
            if due {
                self.remove(place, step);
            }
            !due
        });
        self.leaving = leaving;
    }

    /// Does what the node wants. Nothing is done for a connection that has gone.
    pub(super) fn carry_out(&mut self, connection: u64, deed: Deed, now: Time, step: &mut Step<'_>) {
        let Some(place) = self.clients.place_of(connection) else { return };
        let Some(client) = self.clients.get(place) else { return };
        match deed {
            Deed::Limit(limit) => {
                client.limit = limit;
                client.slow_since = None;
            }
            Deed::Reply(bytes) => self.reply(place, bytes, now, step),
            Deed::Pause(paused) => {
                client.paused = paused;
                if !paused && std::mem::take(&mut client.unread) {
                    self.unread.push(place);
                }
            }
            Deed::HandOver(ticket) => self.hand_over(place, ticket, step),
            Deed::Secured(outcome) => self.go_on_secured(place, outcome, step),
            Deed::Close => {
                client.closing = true;
                if !client.is_owed() {
                    client.stream.close();
                    self.remove(place, step);
                } else if client.is_too_slow(now) {
                    self.cut_off(place, step);
                } else {
                    if client.leave_at.replace(now + CLOSE_TIMEOUT).is_none() {
                        self.leaving.push(connection);
                    }
                }
            }
        }
    }

    /// The node hears that the connection is closed: what becomes of it is the business of others.
    fn hand_over(&mut self, place: usize, ticket: full_sync::Ticket, step: &mut Step<'_>) {
        if !self.clients.get(place).is_some_and(|client| matches!(client.stream, ClientSocket::Plain(_))) {
            // The ticket tells the client so as it goes.
            return;
        }
        let Some(Client { stream: ClientSocket::Plain(mut stream), connection, output, .. }) =
            self.clients.remove(place)
        else {
            return;
        };
        // If the poll cannot let it go, it is closed: its events would be taken for those of the next client in this place.
        if self.registry.deregister(&mut stream).is_ok() {
            ticket.take_over(stream.into(), output.into_unsent());
        }
        step(Input::Closed { connection: ConnectionId(connection) });
    }

    fn reply(&mut self, place: usize, bytes: Vec<u8>, now: Time, step: &mut Step<'_>) {
        let Some(client) = self.clients.get(place) else { return };
        let sent = client.output.send(&mut client.stream, bytes);
        if client.ended && client.leave_at.is_none() && client.output.waiting_bytes() > 0 {
            client.leave_at = Some(now + CLOSE_TIMEOUT);
            self.leaving.push(client.connection);
        }
        let was_slow = client.slow_since.is_some();
        let too_slow = client.is_too_slow(now);
        if !was_slow && client.slow_since.is_some() {
            self.slow.push(client.connection);
        }
        let news = client.unread_news();
        if sent.is_err() {
            self.remove(place, step);
        } else if too_slow {
            self.cut_off(place, step);
        } else if let Some(news) = news {
            step(news);
        }
    }

    /// A client does not read what it is sent.
    fn cut_off(&mut self, place: usize, step: &mut Step<'_>) {
        if let Some(client) = self.clients.get(place) {
            let (connection, unread) = (client.connection, client.output.waiting_bytes());
            log::warning(&format!("client connection {connection} was cut off: it left {unread} bytes unread"));
            self.remove(place, step);
        }
    }

    /// Cuts those off that have left too much unread for too long.
    pub(super) fn cut_off_slow(&mut self, now: Time, step: &mut Step<'_>) {
        let mut slow = std::mem::take(&mut self.slow);
        slow.retain(|connection| {
            let Some(place) = self.clients.place_of(*connection) else { return false };
            let Some(client) = self.clients.get(place) else { return false };
            if client.is_too_slow(now) {
                self.cut_off(place, step);
                return false;
            }
            client.slow_since.is_some()
        });
        self.slow = slow;
    }

    fn remove(&mut self, place: usize, step: &mut Step<'_>) {
        if let Some(client) = self.clients.remove(place) {
            step(Input::Closed { connection: ConnectionId(client.connection) });
        }
    }

    /// At the end of the process: goes on writing, and reads nothing any more.
    pub(super) fn flush(&mut self, event: &Event) {
        let place = event.token().0 - self.first_token;
        if let Some(client) = self.clients.get(place)
            && client.output.flush(&mut client.stream).is_err()
        {
            self.clients.remove(place);
        }
    }
}
