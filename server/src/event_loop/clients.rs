//! The table of client sockets.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use base::Time;
use base::limits::CONNECTION_OUTPUT_BYTES_MAX;
use node::{ConnectionId, Input, OutputLimit};

use super::output::Output;
use crate::client_tls::ClientSocket;

/// One client socket.
pub(super) struct Client {
    pub(super) stream: ClientSocket,
    /// Nothing was read from it yet: its first byte tells in which language it speaks.
    pub(super) is_new: bool,
    /// What the node knows it by.
    pub(super) connection: u64,
    pub(super) output: Output,
    /// So many bytes of it the node knows to wait.
    pub(super) told_unread: usize,
    /// The node has enough of its commands for now.
    pub(super) paused: bool,
    /// Something may lie in the socket that was not read.
    pub(super) unread: bool,
    /// The other side sends nothing more; the end shows once everything is read.
    pub(super) half_closed: bool,
    /// Everything was read that the other side has sent, and the node has been told. It closes the connection when all is answered.
    pub(super) ended: bool,
    /// To be closed once `output` is empty.
    pub(super) closing: bool,
    /// What it may leave unread, if that is less than others may.
    pub(super) limit: Option<OutputLimit>,
    /// Since when it has left more unread than it may for long.
    pub(super) slow_since: Option<Time>,
    /// It has ended its side, or is to be closed, and has this long to take what waits for it.
    pub(super) leave_at: Option<Time>,
}

/// A change by so many bytes of what waits is told to the node.
const TOLD_BYTES_MIN: usize = 64 * 1024;

impl Client {
    /// Whether it is still to get something, be it from its session.
    pub(super) fn is_owed(&self) -> bool {
        self.output.waiting_bytes() > 0 || self.stream.wants_write()
    }

    /// What the node is to be told of what waits, if that has changed enough.
    pub(super) fn unread_news(&mut self) -> Option<Input<'static>> {
        let bytes = self.output.waiting_bytes();
        let is_news = bytes.abs_diff(self.told_unread) >= TOLD_BYTES_MIN || (bytes == 0 && self.told_unread > 0);
        let connection = ConnectionId(self.connection);
        is_news.then(|| {
            self.told_unread = bytes;
            Input::Unread { connection, bytes, blocks: self.output.blocks() }
        })
    }

    /// Whether it has left so much unread, or for so long, that it is to be cut off.
    pub(super) fn is_too_slow(&mut self, now: Time) -> bool {
        let unread = self.output.waiting_bytes();
        let Some(limit) = self.limit else { return unread > CONNECTION_OUTPUT_BYTES_MAX };
        let above = |bytes: u64| bytes > 0 && unread as u64 > bytes;
        if above(limit.soft_bytes) {
            self.slow_since.get_or_insert(now);
        } else {
            self.slow_since = None;
        }
        let for_long = self.slow_since.is_some_and(|since| now.since(since) > limit.soft_for);
        unread > CONNECTION_OUTPUT_BYTES_MAX || above(limit.hard_bytes) || for_long
    }
}

/// All client sockets, by place (that is what the poll knows) and by connection (that is what the node knows).
#[derive(Default)]
pub(super) struct Clients {
    places: Vec<Option<Client>>,
    free: Vec<usize>,
    by_connection: HashMap<u64, usize, BuildHasherDefault<NumberHasher>>,
}

impl Clients {
    pub(super) fn count(&self) -> usize {
        self.by_connection.len()
    }

    /// The place that the next [`Clients::insert`] takes.
    pub(super) fn next_place(&self) -> usize {
        self.free.last().copied().unwrap_or(self.places.len())
    }

    pub(super) fn insert(&mut self, client: Client) -> usize {
        let place = self.next_place();
        self.by_connection.insert(client.connection, place);
        if self.free.pop().is_some() {
            self.places[place] = Some(client);
        } else {
            self.places.push(Some(client));
        }
        place
    }

    pub(super) fn get(&mut self, place: usize) -> Option<&mut Client> {
        self.places.get_mut(place)?.as_mut()
    }

    pub(super) fn place_of(&self, connection: u64) -> Option<usize> {
        self.by_connection.get(&connection).copied()
    }

    /// Dropping the client closes its socket.
    pub(super) fn remove(&mut self, place: usize) -> Option<Client> {
        let client = self.places.get_mut(place)?.take()?;
        self.by_connection.remove(&client.connection);
        self.free.push(place);
        Some(client)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.places.iter_mut().flatten()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.places.iter().flatten()
    }
}

/// Spreads numbers that count up. Connection numbers are ours, so nobody can choose colliding ones.
#[derive(Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 << 8 | u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio's digits: consecutive numbers end up far apart in the high bits, which the table uses too.
        let product = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}
