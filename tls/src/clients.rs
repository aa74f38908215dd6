//! Sessions with clients: the handshake, in which this node shows its certificate, and what comes behind it.
//!
//! There may be thousands of them, so an idle session has no buffer of its own: what a socket gives goes through one that all sessions of a thread share.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider, kx_group};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ServerConfig, ServerConnection};

use crate::authority::Certificate;
use crate::certified::ClientAuthorities;
use crate::handshake::{Failure, HANDSHAKE_BYTES_MAX};
use crate::secret::ClusterSecret;
use crate::tickets::SharedTickets;

/// Bytes that are read from a socket at once, and encrypted at once, at the most.
const CHUNK_BYTES: usize = 64 * 1024;
/// More than a record of TLS can have: what an earlier read has left of one may come on top of what is read now.
const RECORD_BYTES: usize = 17 * 1024;
/// So often is a socket read in one call: whoever sends nothing but what has no content has its turn, as all others.
const READS_MAX: usize = 3;
/// Of what a client sends, one byte in so many is content, beside the first 64 KiB: a record of a single byte has 23, and one that changes keys has none.
const BYTES_FOR_ONE_MAX: u64 = 32;
/// As much is read at least, however small the caller's buffer.
const READ_BYTES_MIN: usize = 4 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What all sessions show; another one from some moment on.
struct Shown(RwLock<Arc<CertifiedKey>>);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown")
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The settings of TLS with which a node answers clients.
#[derive(Clone)]
pub struct ClientTls {
    shown: Arc<Shown>,
    resp: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
    authorities: Option<ClientAuthorities>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls")
    }
}

impl ClientTls {
    /// Shows this certificate; clients may show one of these authorities. Nodes with the same `secret` take each other's tickets, unless clients may show certificates: a holder
    /// of the secret could make a ticket with any client's certificate. TLS 1.3 alone is spoken. The first group for keys is X25519MLKEM768, which a quantum computer does not break; older ones are there for older clients.
    ///
    /// # Errors
    /// As the library says.
    pub fn new(
        certificate: Certificate,
        authorities: Option<ClientAuthorities>,
        secret: Option<ClusterSecret>,
    ) -> Result<ClientTls, String> {
        let provider = CryptoProvider {
            kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1],
            ..default_provider()
        };
        let shown = Arc::new(Shown(RwLock::new(certificate.0)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(
                authorities.as_ref().map_or_else(WebPkiClientVerifier::no_client_auth, ClientAuthorities::verifier),
            )
            .with_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesServerCert>);
        // A client that comes back needs no signature.
        config.ticketer = match secret.filter(|_| authorities.is_none()) {
            Some(secret) => Arc::new(SharedTickets::new(secret)),
            None => Ticketer::new().map_err(|error| error.to_string())?,
        };
        let mut http = config.clone();
        http.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(ClientTls { shown, resp: Arc::new(config), http: Arc::new(http), authorities })
    }

    /// From now on another certificate is shown. Sessions that stand go on.
    pub fn show(&self, certificate: Certificate) {
        *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = certificate.0;
    }

    /// For whoever holds HTTP's sessions.
    #[must_use]
    pub fn for_http(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.http)
    }

    /// The common name of the certificate that the client of a session of HTTP has shown, and that was verified; none if it has shown none.
    #[must_use]
    pub fn name_of(&self, connection: &ServerConnection) -> Option<String> {
        self.authorities.as_ref()?.name_of(connection)
    }

    /// Begins a handshake with a client that has sent these bytes.
    ///
    /// # Errors
    /// The library could not begin.
    pub fn answer(&self, said: Vec<u8>) -> Result<ClientHandshake, String> {
        let connection = ServerConnection::new(Arc::clone(&self.resp)).map_err(|error| error.to_string())?;
        let authorities = self.authorities.clone();
        Ok(ClientHandshake { connection, authorities, said: io::Cursor::new(said), taken: 0 })
    }
}

/// How far a handshake with a client is.
#[derive(Debug)]
pub enum ClientProgress {
    /// It goes on when the socket has something to read, or takes more.
    Waits(Box<ClientHandshake>),
    /// It is over.
    Done(Box<ClientSession>),
}

/// A handshake with a client.
#[derive(Debug)]
pub struct ClientHandshake {
    connection: ServerConnection,
    authorities: Option<ClientAuthorities>,
    /// What was read before it was known for TLS.
    said: io::Cursor<Vec<u8>>,
    taken: usize,
}

impl ClientHandshake {
    /// Goes on as far as the socket lets it. Of bytes that a client sends before it has come through, 64 KiB are taken.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn advance(mut self: Box<Self>, socket: &mut (impl Read + Write)) -> Result<ClientProgress, Failure> {
        loop {
            match flush(&mut self.connection, socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(ClientProgress::Waits(self)),
                other => other.map_err(|error| Failure::from(error.to_string()))?,
            }
            // What came behind the handshake's end in the first bytes is the session's.
            let has_more = self.said.position() < self.said.get_ref().len() as u64;
            if !has_more {
                self.said = io::Cursor::default();
            }
            if !self.connection.is_handshaking() && !has_more {
                let name = self.authorities.and_then(|authorities| authorities.name_of(&self.connection));
                return Ok(ClientProgress::Done(Box::new(ClientSession::new(self.connection, name))));
            }
            let read =
                if has_more { self.connection.read_tls(&mut self.said) } else { self.connection.read_tls(socket) };
            match read {
                // Also what ends it in order, which is the end all the same.
                Ok(0) => return Err(Failure { reason: "the client has closed it".to_owned(), is_silent: true }),
                Ok(count) => self.taken += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(ClientProgress::Waits(self)),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::from(error.to_string())),
            }
            if self.taken > HANDSHAKE_BYTES_MAX && self.connection.is_handshaking() {
                return Err(Failure::from("its handshake is too long".to_owned()));
            }
            if let Err(error) = self.connection.process_new_packets() {
                // The client is told why, if its socket takes that now; it is gone in any case.
                let _ = flush(&mut self.connection, socket);
                return Err(Failure::from(error.to_string()));
            }
        }
    }
}

fn flush(connection: &mut ServerConnection, socket: &mut impl Write) -> io::Result<()> {
    while connection.wants_write() {
        match connection.write_tls(socket) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A session with a client. It never blocks.
#[derive(Debug)]
pub struct ClientSession {
    connection: ServerConnection,
    name: Option<String>,
    /// The socket has no more for now, and tells when it does.
    is_drained: bool,
    /// Bytes of the socket, and of content.
    received: u64,
    given: u64,
    /// The client has ended the session.
    has_ended: bool,
    /// What came behind the bytes that the last read has given was not written by the client.
    failed: Option<String>,
}

impl ClientSession {
    fn new(mut connection: ServerConnection, name: Option<String>) -> ClientSession {
        connection.set_buffer_limit(Some(2 * CHUNK_BYTES));
        ClientSession { connection, name, is_drained: false, received: 0, given: 0, has_ended: false, failed: None }
    }

    /// The version and the group for keys that were agreed on, as `1.3/X25519MLKEM768`.
    #[must_use]
    pub fn terms(&self) -> String {
        let group = self.connection.negotiated_key_exchange_group();
        group.map_or_else(|| "1.3".to_owned(), |group| format!("1.3/{:?}", group.name()))
    }

    /// The common name of the certificate that the client has shown, and that was verified; none if it has shown none.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Reads what is there, as far as the buffer has room, which has to be more than one record of TLS. `Ok(0)`: the client has ended the session.
    ///
    /// # Errors
    /// `WouldBlock`: nothing is there now. `Interrupted`: there may be, and others have their turn first. `UnexpectedEof`: the socket has ended without a word. `InvalidData`: what
    /// came was not written by the client, or has hardly any content.
    pub fn read(&mut self, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(reason) = &self.failed {
            return Err(io::Error::new(ErrorKind::InvalidData, reason.clone()));
        }
        let (mut filled, mut reads) = (0, 0);
        let stopped = loop {
            match self.connection.reader().read(&mut buffer[filled..]) {
                Ok(0) => break Ok(()),
                Ok(count) => {
                    filled += count;
                    // At once: the next piece of the socket may come within this call, and is held against it.
                    self.given += count as u64;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => break Err(error),
            }
            let room = buffer.len() - filled;
            if filled > 0 && (self.is_drained || room < 2 * RECORD_BYTES) {
                return Ok(filled);
            }
            reads += 1;
            if reads > READS_MAX {
                break Err(ErrorKind::Interrupted.into());
            }
            match self.receive(socket, &mut buffer[filled..]) {
                Ok(count) => {
                    filled += count;
                    self.given += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_drained = true;
                    break Err(error);
                }
                Err(error) => {
                    if error.kind() == ErrorKind::InvalidData {
                        self.failed = Some(error.to_string());
                    }
                    break Err(error);
                }
            }
        };
        let blocks = stopped.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        if filled == 0 {
            return stopped.map(|()| 0);
        }
        // An end, an error, or more than the buffer holds: the next call says it, and has to come.
        self.is_drained = blocks;
        Ok(filled)
    }

    /// Whether there is something left to read of which no poll will tell.
    #[must_use]
    pub fn may_have_more(&self) -> bool {
        !self.is_drained || self.has_ended
    }

    /// Reads from the socket once, and decrypts that into the buffer, as far as it makes whole records.
    fn receive(&mut self, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.resize(CHUNK_BYTES, 0);
            let wanted = buffer.len().saturating_sub(RECORD_BYTES).clamp(READ_BYTES_MIN, CHUNK_BYTES);
            let count = loop {
                match socket.read(&mut scratch[..wanted]) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    outcome => break outcome?,
                }
            };
            self.is_drained = count < wanted;
            self.received += count as u64;
            if self.received
                > HANDSHAKE_BYTES_MAX as u64 + BYTES_FOR_ONE_MAX * (self.given + CHUNK_BYTES as u64 / BYTES_FOR_ONE_MAX)
            {
                return Err(io::Error::new(ErrorKind::InvalidData, "what it sends has hardly any content"));
            }
            let (mut rest, mut filled) = (&scratch[..count], 0);
            loop {
                // Nothing at all is the end of the socket.
                let taken = self.connection.read_tls(&mut rest)?;
                let processed = self.connection.process_new_packets();
                let state = processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))?;
                self.has_ended |= state.peer_has_closed();
                // Behind its end of the session nothing is taken any more.
                if rest.is_empty() || taken == 0 {
                    return Ok(filled);
                }
                match self.connection.reader().read(&mut buffer[filled..]) {
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        })
    }

    /// Encrypts bytes and writes them as far as the socket takes them now. Returns how many were taken: these leave with this call, or with a later one.
    ///
    /// # Errors
    /// `WouldBlock`: what was taken before waits still. Else what the socket says; the session is over then.
    pub fn write(&mut self, socket: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        let taken = self.connection.writer().write(&bytes[..bytes.len().min(CHUNK_BYTES)])?;
        match self.flush(socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Writes what was taken and not written.
    ///
    /// # Errors
    /// `WouldBlock`: the socket does not take all of it now. Else what the socket says.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        flush(&mut self.connection, socket)
    }

    /// Whether something was taken that the socket has not got.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Tells the client that nothing more comes: so it knows that nothing was cut off.
    pub fn close(&mut self, socket: &mut impl Write) {
        self.connection.send_close_notify();
        // Where the socket takes it now.
        let _ = self.flush(socket);
    }
}

#[cfg(test)]
mod tests;
