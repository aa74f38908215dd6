//! A node's side of a link, written from the description of the protocol (`tls/src/lib.rs`) and not with its code: a caller who can leave out, and say wrongly, any
//! part of it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group, sign};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use tls::{NodeKey, sha256};
use wire::FrameReader;

/// A node ends strangers after two seconds; a busy machine may need longer for that.
const PATIENCE: Duration = Duration::from_secs(30);
const PROOF_BYTES: usize = 32;

/// The caller's key, and how it speaks TLS.
#[derive(Clone)]
pub struct Caller {
    config: Arc<ClientConfig>,
    hash: [u8; 32],
}

impl Caller {
    pub fn new(key: &NodeKey) -> Caller {
        let provider = Arc::new(CryptoProvider {
            cipher_suites: vec![cipher_suite::TLS13_AES_256_GCM_SHA384],
            kx_groups: vec![kx_group::X25519MLKEM768],
            ..default_provider()
        });
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.pkcs8().to_vec()));
        let signing = sign::any_supported_type(&private).expect("it is a key");
        let certified = Arc::new(CertifiedKey::new(vec![CertificateDer::from(key.public().to_vec())], signing));
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .expect("its cipher is one of TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified)));
        config.alpn_protocols = vec![b"dictum-peer/1".to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Caller { config: Arc::new(config), hash: key.hash().0 }
    }

    fn begin(&self) -> ClientConnection {
        let name = ServerName::try_from("node.dictum.invalid").expect("a name");
        ClientConnection::new(Arc::clone(&self.config), name).expect("it begins")
    }

    /// The first bytes of a call, which anybody can make or record.
    pub fn client_hello(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.begin().write_tls(&mut bytes).expect("memory takes it");
        bytes
    }

    /// Calls, and comes to the end of TLS; nothing is proven.
    ///
    /// # Errors
    /// The node has closed the connection before.
    pub fn call(&self, peer: &str) -> io::Result<Call> {
        self.call_changing(peer, |_| {})
    }

    /// The same, but the last bytes of the handshake (the caller's key, its signature) are changed on their way.
    ///
    /// # Errors
    /// As [`Caller::call`].
    pub fn call_changing(&self, peer: &str, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<Call> {
        let (mut socket, mut connection) = (connect(peer)?, self.begin());
        let mut last = Vec::new();
        while connection.is_handshaking() {
            while connection.wants_write() {
                connection.write_tls(&mut socket)?;
            }
            if connection.read_tls(&mut socket)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            connection.process_new_packets().map_err(io::Error::other)?;
        }
        while connection.wants_write() {
            connection.write_tls(&mut last)?;
        }
        change(&mut last);
        socket.write_all(&last)?;
        Ok(Call { socket, connection, hash: self.hash, reader: FrameReader::new() })
    }
}

/// A connection that gives up after a while, rather than holding a test up.
pub fn connect(peer: &str) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(peer)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// HMAC-SHA-256 (RFC 2104).
fn hmac(key: &[u8; 32], text: &[u8]) -> [u8; 32] {
    let padded = |pad: u8| -> Vec<u8> { (0..64).map(|place| key.get(place).copied().unwrap_or(0) ^ pad).collect() };
    sha256(&[padded(0x5c), sha256(&[&padded(0x36), text].concat()).to_vec()].concat())
}

/// A call that has come through TLS.
pub struct Call {
    socket: TcpStream,
    connection: ClientConnection,
    hash: [u8; 32],
    reader: FrameReader,
}

impl Call {
    /// The proof of who knows this secret, that he is the caller of this very session.
    pub fn proof(&self, secret: &[u8; 32]) -> [u8; 32] {
        self.proof_of(secret, true, &self.hash)
    }

    /// The same for a side and a key that may be another's.
    pub fn proof_of(&self, secret: &[u8; 32], is_caller: bool, key: &[u8; 32]) -> [u8; 32] {
        let exported = self
            .connection
            .export_keying_material([0; 32], b"EXPORTER-dictum-peer-proof-1", None)
            .expect("the handshake is over");
        hmac(secret, &[&exported[..], &[u8::from(is_caller)], key].concat())
    }

    /// Proves itself, and takes the other side's proof.
    ///
    /// # Errors
    /// It is not believed.
    pub fn prove(&mut self, secret: &[u8; 32]) -> io::Result<()> {
        let own = self.proof(secret);
        self.send(&own)?;
        let mut theirs = Vec::new();
        while theirs.len() < PROOF_BYTES {
            self.receive_some(PROOF_BYTES - theirs.len(), &mut theirs)?;
        }
        Ok(())
    }

    /// # Errors
    /// The other side has closed the connection.
    pub fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.connection.writer().write(bytes)?;
            bytes = &bytes[taken..];
            while self.connection.wants_write() {
                self.connection.write_tls(&mut self.socket)?;
            }
        }
        Ok(())
    }

    /// Waits for bytes, and takes so many at the most.
    fn receive_some(&mut self, count: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let mut buffer = vec![0; count];
        loop {
            match self.connection.reader().read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    into.extend_from_slice(&buffer[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            match self.connection.read_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            self.connection.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// The next frame.
    ///
    /// # Errors
    /// The other side has closed the connection, or says nothing for long.
    pub fn frame(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(payload) = self.reader.next().map_err(io::Error::other)? {
                return Ok(payload);
            }
            let mut bytes = Vec::new();
            self.receive_some(64 * 1024, &mut bytes)?;
            self.reader.push(&bytes);
        }
    }

    /// All frames that are here now; none if there are none.
    ///
    /// # Errors
    /// The other side has closed the connection.
    pub fn frames(&mut self) -> io::Result<Vec<Bytes>> {
        let mut frames = Vec::new();
        self.socket.set_nonblocking(true)?;
        let ended = loop {
            match self.frame() {
                Ok(frame) => frames.push(frame),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.socket.set_nonblocking(false)?;
        if frames.is_empty() { ended.map(|()| frames) } else { Ok(frames) }
    }

    /// Says that nothing more comes, and reads to the end: then the other side has taken, or refused, all that was sent. What it has said until then.
    pub fn finish(mut self) -> Vec<u8> {
        self.connection.send_close_notify();
        while self.connection.wants_write() && self.connection.write_tls(&mut self.socket).is_ok() {}
        let _ = self.socket.shutdown(Shutdown::Write);
        let mut heard = Vec::new();
        loop {
            match self.receive_some(64 * 1024, &mut heard) {
                Ok(()) => {}
                Err(error) => {
                    let is_patient = error.kind() != ErrorKind::WouldBlock && error.kind() != ErrorKind::TimedOut;
                    assert!(is_patient, "the node keeps a connection whose other side has ended it");
                    return heard;
                }
            }
        }
    }

    /// Ends it in the middle of whatever it was.
    pub fn cut(self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Takes every node for one: it is the caller who is none.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("links speak TLS 1.3 alone".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ML_DSA_65]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
