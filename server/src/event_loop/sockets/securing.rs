//! What the first bytes of a client tell: it speaks TLS, or in plain text, which may not do for it.

use std::io::Write;

use mio::Token;

use super::{ClientSocket, Handshaken, Sockets, Step, WATCHED};
use crate::client_tls::PlainText;
use crate::event_loop::receive::is_near;
use crate::log;

/// What is said to those who speak in plain text and may not.
const DENIED: &[u8] = b"-DENIED this node takes clients of your machine by TLS only: use rediss:// (redis-cli --tls --cacert, dictum --cacert) with the certificate of the \
cluster's authority, ca.pem, or start the node with --plaintext always\r\n";

impl Sockets {
    /// Looks at the first bytes of a client. False if nothing of them is for the node.
    pub(super) fn let_in(&mut self, place: usize, first: &[u8], step: &mut Step<'_>) -> bool {
        let (Some(client), Some(door)) = (self.clients.get(place), &self.door) else { return true };
        if first.first() != Some(&tls::FIRST_BYTE) {
            let may = match door.plain_text {
                PlainText::Always => true,
                PlainText::Never => false,
                PlainText::Loopback => client.stream.stream_mut().is_some_and(|stream| {
                    stream
                        .peer_addr()
                        .is_ok_and(|remote| stream.local_addr().is_ok_and(|local| is_near(remote.ip(), local.ip())))
                }),
            };
            if !may {
                // It fits any socket's buffer. Where more of the client lies unread it may be lost, and the log has it.
                let _ = client.stream.write(DENIED);
                let connection = client.connection;
                log::debug(&format!(
                    "client connection {connection} was closed: it speaks in plain text, see --plaintext"
                ));
                self.remove(place, step);
            }
            return may;
        }
        let connection = client.connection;
        if let ClientSocket::Plain(mut stream) = std::mem::replace(&mut client.stream, ClientSocket::Away) {
            // If that fails, it is not taken.
            let is_given = first.len() <= tls::HANDSHAKE_BYTES_MAX
                && self.registry.deregister(&mut stream).is_ok()
                && door.give(stream, first.to_vec(), connection);
            if !is_given {
                self.remove(place, step);
            }
        }
        false
    }

    /// At the end of the process: tells those that have got everything that nothing more comes.
    pub(in crate::event_loop) fn say_goodbye(&mut self) {
        for client in self.clients.iter_mut().filter(|client| !client.is_owed()) {
            client.stream.close();
        }
    }

    /// A client comes back from its handshake.
    pub(super) fn go_on_secured(&mut self, place: usize, outcome: Handshaken, step: &mut Step<'_>) {
        let Some(client) = self.clients.get(place) else { return };
        let secured = outcome.and_then(|(stream, session)| {
            let mut stream = mio::net::TcpStream::from_std(stream);
            let token = Token(self.first_token + place);
            self.registry.register(&mut stream, token, WATCHED).map_err(|error| error.to_string())?;
            Ok((stream, session))
        });
        match secured {
            Ok((stream, session)) => {
                client.stream = ClientSocket::Secured(stream, session);
                // What it has said already may have come with the end of the handshake. What waits for it goes when the poll tells that it may be written to.
                self.unread.push(place);
            }
            Err(reason) => {
                let connection = client.connection;
                log::debug(&format!("client connection {connection} was closed: no handshake of TLS: {reason}"));
                self.remove(place, step);
            }
        }
    }
}
