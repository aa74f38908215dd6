//! Reads links: bytes, and the frames that they make.

use std::io::{ErrorKind, Read};

use base::Time;
use mio::Registry;
use mio::event::Event;
use node::Input;
use wire::{Hello, JoinRequest};

use super::{Peers, Stage};
use crate::event_loop::Step;

impl Peers {
    /// The poll says that something is up with the link at `place`.
    pub(in crate::event_loop) fn on_event(
        &mut self,
        place: usize,
        event: &Event,
        buffer: &mut [u8],
        registry: &Registry,
        now: Time,
        step: &mut Step<'_>,
    ) {
        let Some(link) = self.links.get_mut(place).and_then(Option::as_mut) else { return };
        if link.stage == Stage::Connecting {
            if !event.is_writable() && !event.is_error() && !event.is_read_closed() {
                return;
            }
            let failed = match link.socket.stream().take_error() {
                Ok(None) => match link.socket.stream().peer_addr() {
                    Ok(_) => None,
                    Err(error) if error.kind() == ErrorKind::NotConnected => return,
                    Err(error) => Some(error),
                },
                Ok(error) => error,
                Err(error) => Some(error),
            };
            let greeted = match failed {
                Some(error) => Err(error),
                None if self.is_to_be_secured(place) => return self.secure(place, registry, now, step),
                None => {
                    if let Some(link) = &mut self.links[place] {
                        link.stage = Stage::Greeting;
                    }
                    let version = self.greeting_for(place);
                    self.set_options(place).and_then(|()| self.greet(place, version))
                }
            };
            if let Err(error) = greeted {
                self.drop_link(place, &error.to_string(), now, step);
                return;
            }
        } else if event.is_writable() {
            let flushed = link.output.lock().flush(&mut link.socket);
            if let Err(error) = flushed {
                self.drop_link(place, &error.to_string(), now, step);
                return;
            }
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            if let Some(link) = &mut self.links[place] {
                link.half_closed |= event.is_read_closed() || event.is_error();
            }
            self.read(place, buffer, now, step);
        }
    }

    /// Goes on reading where more lay than fitted.
    pub(in crate::event_loop) fn read_unread(&mut self, buffer: &mut [u8], now: Time, step: &mut Step<'_>) {
        for place in std::mem::take(&mut self.unread) {
            self.read(place, buffer, now, step);
        }
    }

    fn read(&mut self, place: usize, buffer: &mut [u8], now: Time, step: &mut Step<'_>) {
        let Some(link) = self.links.get_mut(place).and_then(Option::as_mut) else { return };
        match link.socket.read(buffer) {
            Ok(0) => {
                self.note_unanswered(place, now);
                self.drop_link(place, "the other side closed it", now, step);
            }
            Ok(count) => {
                if count == buffer.len() || link.half_closed {
                    self.unread.push(place);
                }
                link.heard = now;
                if link.stage == Stage::Greeting && tls::begins_tls(&buffer[..count]) == Some(true) && !link.has_spoken
                {
                    let reason = "it speaks TLS, and this node has no --cluster-secret";
                    self.complain_refused(place, reason, now);
                    return self.drop_link(place, reason, now, step);
                }
                link.has_spoken = true;
                link.reader.push(&buffer[..count]);
                if let Err(reason) = self.take_frames(place, now, step) {
                    self.drop_link(place, &reason, now, step);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => link.half_closed = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => self.unread.push(place),
            Err(error) => self.drop_link(place, &error.to_string(), now, step),
        }
    }

    fn take_frames(&mut self, place: usize, now: Time, step: &mut Step<'_>) -> Result<(), String> {
        while let Some(link) = &mut self.links[place] {
            let Some(bytes) = link.reader.next().map_err(|error| error.to_string())? else { break };
            match link.stage {
                Stage::Up(peer) => step(Input::PeerMessage { peer, bytes }),
                Stage::Connecting | Stage::Greeting => {
                    let (dialled, key) = (link.dialled, link.key);
                    if dialled.is_none() && JoinRequest::is_in(&bytes) {
                        self.hand_over(place, &bytes)?;
                        break;
                    }
                    let hello = Hello::decode(&bytes)
                        .map_err(|error| error.to_string())
                        .inspect_err(|reason| self.complain_refused(place, reason, now))?;
                    let version = self
                        .check(&hello, (dialled, key), now)
                        .inspect_err(|reason| self.refuse(place, &hello, reason))
                        .inspect_err(|reason| self.complain_refused(place, reason, now))?;
                    if dialled.is_none() {
                        self.greet(place, version).map_err(|error| error.to_string())?;
                    }
                    self.become_up(place, &hello, version, now, step);
                }
            }
        }
        Ok(())
    }

    /// A node wants to join: the one that lets nodes in answers it, on the same link.
    fn hand_over(&mut self, place: usize, bytes: &[u8]) -> Result<(), String> {
        let request = JoinRequest::decode(bytes).map_err(|_| "it asks to join in another version".to_owned())?;
        let Some(link) = self.links[place].take() else { return Ok(()) };
        // It leaves the poll with its file descriptor's registration, which nobody looks at any more.
        let socket = link.socket.map(std::net::TcpStream::from);
        if let Some(admission) = &self.admission {
            admission.admit(socket, request);
        }
        Ok(())
    }
}
