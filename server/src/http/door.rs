//! What the first byte of a connection tells: it is HTTP under TLS, or in plain text, which may not do for its client.

use std::net::SocketAddr;
use std::time::Duration;

use tls::{ClientTls, FIRST_BYTE};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::client_tls::{ClientSecurity, PlainText};
use crate::event_loop::is_near;

/// A client has so long for its first byte and its handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// What is said to those who speak in plain text and may not. 426 is "Upgrade Required".
const DENIED: &[u8] = b"HTTP/1.1 426 Upgrade Required\r\nConnection: close\r\nContent-Type: application/problem+json\r\nContent-Length: 141\r\n\r\n\
{\"status\":426,\"title\":\"TLS_WANTED\",\"detail\":\"This node takes clients of your machine by https:// only, or start it with --plaintext always.\"}";

/// How new connections are treated where clients may speak TLS.
#[derive(Clone)]
pub(super) struct Door {
    acceptor: TlsAcceptor,
    tls: ClientTls,
    plain_text: PlainText,
}

/// A connection that may go on.
pub(super) enum Visit {
    Plain(TcpStream),
    /// With the name in the client's certificate, if it has shown one.
    Secured(Box<TlsStream<TcpStream>>, Option<String>),
}

impl Door {
    pub(super) fn new(security: &ClientSecurity) -> Door {
        let tls = security.tls.clone();
        Door { acceptor: TlsAcceptor::from(tls.for_http()), tls, plain_text: security.plain_text }
    }

    /// None if the connection ends.
    pub(super) async fn let_in(door: Option<Door>, mut stream: TcpStream, remote: SocketAddr) -> Option<Visit> {
        let Some(Door { acceptor, tls, plain_text }) = door else { return Some(Visit::Plain(stream)) };
        let mut first = [0];
        // Who says nothing is not waited for with a thread, and the time for a request's head is longer.
        let said = timeout(super::HEAD_TIMEOUT, stream.peek(&mut first)).await.ok()?.ok()?;
        if said == 1 && first[0] == FIRST_BYTE {
            let secured = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await.ok()?.ok()?;
            let name = tls.name_of(secured.get_ref().1);
            return Some(Visit::Secured(Box::new(secured), name));
        }
        let is_near = stream.local_addr().is_ok_and(|local| is_near(remote.ip(), local.ip()));
        if plain_text == PlainText::Always || plain_text == PlainText::Loopback && is_near {
            return Some(Visit::Plain(stream));
        }
        // What was sent is read: where something lies unread, closing throws the answer away.
        let _ = stream.try_read(&mut [0; 4096]);
        // The client may have gone.
        let _ = stream.write_all(DENIED).await;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_says_how_long_it_is() {
        let text = std::str::from_utf8(DENIED).expect("it is text");
        let (head, body) = text.split_once("\r\n\r\n").expect("head and body");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
    }
}
