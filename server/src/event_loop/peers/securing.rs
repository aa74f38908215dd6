//! Links that get a handshake before the greeting, and come back from it.

use base::{NodeId, Time};
use mio::Registry;
use tls::Failure;

use super::{Arrival, Handshakes, Peers, Stage};
use crate::event_loop::Step;
use crate::peer_tls::Socket;

impl Peers {
    /// Whether the node that was called is to be spoken to under TLS. Where plain text may be, too, it is tried after the node has ended a
    /// call under TLS without a word.
    pub(super) fn is_to_be_secured(&mut self, place: usize) -> bool {
        let Some(handshakes) = &self.handshakes else { return false };
        let dialled = self.links[place].as_ref().and_then(|link| link.dialled);
        let peer = dialled.and_then(|peer| self.peers.get_mut(&peer));
        let was_in_vain = peer.is_some_and(|peer| std::mem::take(&mut peer.is_plain));
        !(was_in_vain && handshakes.takes_plain())
    }

    /// Gives a connection that this node has made to the handshakes.
    pub(super) fn secure(&mut self, place: usize, registry: &Registry, now: Time, step: &mut Step<'_>) {
        if let Err(error) = self.set_options(place) {
            return self.drop_link(place, &error.to_string(), now, step);
        }
        let Some(mut link) = self.links[place].take() else { return };
        // If that fails it is watched by nobody, which the handshake's time limit ends.
        let _ = registry.deregister(link.socket.stream_mut());
        let Socket::Plain(stream) = link.socket else { return };
        if let Some(handshakes) = &self.handshakes {
            // False only if the thread has ended, as it does with the process.
            let _ = handshakes.give(stream, link.dialled, link.remote);
        }
    }

    /// A link comes back from its handshake.
    pub(in crate::event_loop) fn arrive(&mut self, arrival: Arrival, registry: &Registry, now: Time) {
        let Arrival { dialled, remote, outcome } = arrival;
        let failed = match outcome {
            Ok((Socket::Plain(_), _)) if dialled.is_none() && self.has_many_strangers() => {
                Failure::from("too many callers have not greeted".to_owned())
            }
            Ok((socket, key)) => {
                let place = self.insert(socket, Stage::Greeting, dialled, remote, now);
                if let Some(link) = &mut self.links[place] {
                    link.key = key;
                }
                // Its first frame may have come with the end of the handshake.
                self.unread.push(place);
                let greets = |peers: &mut Peers| {
                    peers.register(place, registry)?;
                    peers.set_options(place)?;
                    if let Some(why) = dialled.and_then(|id| peers.is_unknown_by(id, key)) {
                        // The caller looks before it greets: a node under another key learns no more of the cluster than that.
                        peers.refuse_unheard(place, &why)?;
                        return Err(std::io::Error::other(why));
                    }
                    if dialled.is_some() {
                        let version = peers.greeting_for(place);
                        peers.greet(place, version)?;
                    }
                    Ok::<_, std::io::Error>(())
                };
                let Err(error) = greets(self) else { return };
                self.links[place] = None;
                Failure::from(error.to_string())
            }
            Err(failure) => failure,
        };
        match dialled {
            Some(peer) => self.note_unsecured(peer, &failed, now),
            None => self.complain_of_stranger(now, format!("refused to talk to {}: {}", remote.ip(), failed.reason)),
        }
    }

    /// A node that was called has not come through its handshake.
    fn note_unsecured(&mut self, peer: NodeId, failure: &Failure, now: Time) {
        self.complain(now, format!("{} cannot be reached: {}", self.describe(peer), failure.reason));
        let takes_plain = self.handshakes.as_ref().is_some_and(Handshakes::takes_plain);
        match self.peers.get_mut(&peer) {
            // At the same address once more, in plain text.
            Some(state) if takes_plain && failure.is_silent => state.is_plain = true,
            _ => self.note_failure(peer),
        }
        self.dial_later(peer, now);
    }
}
