//! Calls to other nodes.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use base::{NodeId, Time};
use mio::Registry;
use mio::net::TcpStream;
use node::Member;

use super::{BACKOFF_MAX, CALLED_PATIENCE, Peers, Stage};
use crate::event_loop::Control;
use crate::peer_tls::Socket;

impl Peers {
    pub(super) fn dial(&mut self, peer: NodeId, registry: &Registry, now: Time) {
        let Some(member) = self.peers.get(&peer).and_then(|peer| peer.member.as_ref()) else { return };
        let address = self.address_of(peer, member).to_owned();
        if let Ok(address) = address.parse() {
            self.dial_address(peer, Ok(address), registry, now);
            return;
        }
        // Looking up a name may take seconds: not here.
        let messenger = self.messenger.clone();
        let looked_up = std::thread::Builder::new().name("resolve".to_owned()).spawn(move || {
            let found = address.to_socket_addrs().and_then(|mut all| {
                all.next().ok_or_else(|| io::Error::new(ErrorKind::NotFound, "the name has no address"))
            });
            messenger.tell(Control::Resolved(peer, found));
        });
        if let Err(error) = looked_up {
            self.dial_address(peer, Err(error), registry, now);
        }
    }

    /// Dials a peer whose address is known now, or could not be found.
    pub(in crate::event_loop) fn dial_address(
        &mut self,
        peer: NodeId,
        address: io::Result<SocketAddr>,
        registry: &Registry,
        now: Time,
    ) {
        let connected = address.and_then(|address| Ok((TcpStream::connect(address)?, address)));
        let dialled = connected.and_then(|(stream, address)| {
            let place = self.insert(Socket::Plain(stream), Stage::Connecting, Some(peer), address, now);
            self.register(place, registry).inspect_err(|_| self.links[place] = None)
        });
        if let Err(error) = dialled {
            self.complain(now, format!("{} cannot be reached: {error}", self.describe(peer)));
            self.note_failure(peer);
            self.dial_later(peer, now);
        }
    }

    /// Where a peer is dialled next: where the cluster knows it, or where this node's operator has said that it is now.
    pub(super) fn address_of<'a>(&'a self, peer: NodeId, member: &'a Member) -> &'a str {
        let failures = self.peers.get(&peer).map_or(0, |peer| peer.failures);
        let moved = self.moved.get(&member.name).filter(|_| failures.is_multiple_of(2));
        moved.unwrap_or(&member.peer_address)
    }

    pub(super) fn note_failure(&mut self, peer: NodeId) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.failures = peer.failures.wrapping_add(1);
        }
    }

    pub(super) fn dial_later(&mut self, peer: NodeId, now: Time) {
        let is_called = peer < self.ourselves.me;
        let Some(peer) = self.peers.get_mut(&peer).filter(|peer| !peer.is_removed && peer.up.is_none()) else { return };
        let nanoseconds = peer.backoff.as_nanos() as u64;
        let wait = Duration::from_nanos(self.rng.between(nanoseconds / 2, nanoseconds));
        peer.dial_at = Some(now + if is_called { CALLED_PATIENCE } else { wait });
        peer.backoff = (peer.backoff * 2).min(BACKOFF_MAX);
    }
}
