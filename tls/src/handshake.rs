//! How two nodes find out that both are of one cluster, before either believes a word.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    ServerConnection, SignatureScheme,
};

use crate::key::{KeyHash, NodeKey};
use crate::secret::ClusterSecret;
use crate::session::Session;

/// Most bytes that this node takes of the other side before that has proven that it knows the cluster's secret. A whole handshake has some 15 KB.
pub const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// Only nodes speak this, so no other TLS server or client of the same machine can be taken for one.
const PROTOCOL: &[u8] = b"dictum-peer/1";
const EXPORTER_LABEL: &[u8] = b"EXPORTER-dictum-peer-proof-1";
const PROOF_BYTES: usize = 32;
/// TLS wants a name to be said; keys are what counts here.
const NAME: &str = "node.dictum.invalid";

/// The settings of TLS with which a node calls others, and answers.
pub struct PeerTls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    secret: ClusterSecret,
    hash: KeyHash,
}

impl fmt::Debug for PeerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerTls").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl PeerTls {
    /// For a node with this key, of the cluster with this secret.
    ///
    /// # Errors
    /// The library takes no such key.
    pub fn new(key: &NodeKey, secret: ClusterSecret) -> Result<PeerTls, String> {
        let provider = Arc::new(CryptoProvider {
            cipher_suites: vec![cipher_suite::TLS13_AES_256_GCM_SHA384],
            kx_groups: vec![kx_group::X25519MLKEM768],
            ..default_provider()
        });
        let any = Arc::new(AnyNode(Arc::clone(&provider)));
        let (certified, hash) = (key.certified(), key.hash());
        let unfit = |error: Error| error.to_string();
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(unfit)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&any) as Arc<dyn ServerCertVerifier>)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&certified))));
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(unfit)?
            .with_client_cert_verifier(any)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified)));
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        server.send_tls13_tickets = 0;
        Ok(PeerTls { client: Arc::new(client), server: Arc::new(server), secret, hash })
    }

    /// The name of this node's key.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// Begins a handshake on a connection that this node has made.
    ///
    /// # Errors
    /// The library could not begin.
    pub fn call(&self) -> Result<Handshake, String> {
        let name = ServerName::try_from(NAME).map_err(|error| error.to_string())?;
        let client = ClientConnection::new(Arc::clone(&self.client), name).map_err(|error| error.to_string())?;
        Ok(self.begin(Connection::Client(client)))
    }

    /// Begins a handshake on a connection that somebody else has made.
    ///
    /// # Errors
    /// The library could not begin.
    pub fn answer(&self) -> Result<Handshake, String> {
        let server = ServerConnection::new(Arc::clone(&self.server)).map_err(|error| error.to_string())?;
        Ok(self.begin(Connection::Server(server)))
    }

    fn begin(&self, connection: Connection) -> Handshake {
        let stage = Stage::Negotiating;
        Handshake { connection, secret: self.secret.clone(), own: self.hash, stage, taken: 0, proof: Vec::new() }
    }
}

/// How far a handshake is.
#[derive(Debug)]
pub enum Progress {
    /// It goes on when the socket has something to read, or takes more.
    Waits(Handshake),
    /// The other side has this key and knows the secret.
    Done(Session, KeyHash),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// TLS has not come to its end.
    Negotiating,
    /// The proof of the other side is not here yet. The caller has sent its own.
    Proving,
    /// The other side has proven itself; what is left is to be written.
    Proven(KeyHash),
}

/// A handshake has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Why the other side is nobody to talk to, for this node's operator; or what the socket says.
    pub reason: String,
    /// The other side has ended the connection without a word: it speaks no TLS, perhaps.
    pub is_silent: bool,
}

impl From<String> for Failure {
    fn from(reason: String) -> Failure {
        Failure { reason, is_silent: false }
    }
}

/// A handshake that is under way. See the head of this room.
#[derive(Debug)]
pub struct Handshake {
    connection: Connection,
    secret: ClusterSecret,
    own: KeyHash,
    stage: Stage,
    /// Bytes that were read.
    taken: usize,
    proof: Vec<u8>,
}

/// Counts what is read, and reads no more than may be.
struct Counted<'a, S>(&'a mut S, &'a mut usize);

impl<S: Read> Read for Counted<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = HANDSHAKE_BYTES_MAX.saturating_sub(*self.1);
        if room == 0 {
            return Err(io::Error::new(ErrorKind::InvalidData, "its handshake is too long"));
        }
        let length = buffer.len().min(room);
        let count = self.0.read(&mut buffer[..length])?;
        *self.1 += count;
        Ok(count)
    }
}

impl Handshake {
    /// Goes on as far as the socket lets it.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn advance(mut self, socket: &mut (impl Read + Write)) -> Result<Progress, Failure> {
        loop {
            let is_blocked = self.write(socket)?;
            if let Stage::Proven(key) = self.stage {
                if is_blocked {
                    return Ok(Progress::Waits(self));
                }
                return Ok(Progress::Done(Session::new(self.connection), key));
            }
            if self.stage == Stage::Negotiating && !self.connection.is_handshaking() {
                self.stage = Stage::Proving;
                if matches!(self.connection, Connection::Client(_)) {
                    self.prove()?;
                }
                continue;
            }
            if self.stage == Stage::Proving && self.takes_proof()? {
                continue;
            }
            match self.connection.read_tls(&mut Counted(socket, &mut self.taken)) {
                Ok(0) => return Err(Failure { reason: self.cut_off().to_owned(), is_silent: self.taken == 0 }),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(Progress::Waits(self));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Err(Failure { reason: self.cut_off().to_owned(), is_silent: self.taken == 0 });
                }
                Err(error) => return Err(error.to_string().into()),
            }
            if let Err(error) = self.connection.process_new_packets() {
                // It is told why, if it can be: the alert is all that is left to say.
                let _ = self.write(socket);
                return Err(explained(&error).into());
            }
        }
    }

    /// Writes what there is to be written. True if the socket does not take all of it now.
    fn write(&mut self, socket: &mut impl Write) -> Result<bool, String> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(0) => return Err(self.cut_off().to_owned()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(false)
    }

    fn cut_off(&self) -> &'static str {
        match self.stage {
            Stage::Negotiating => {
                "it has closed the connection before it was known who it is; does it speak TLS (--cluster-secret)?"
            }
            Stage::Proving | Stage::Proven(_) => {
                "it has closed the connection: it knows another secret of the cluster (--cluster-secret), it seems"
            }
        }
    }

    /// Sends this side's proof.
    fn prove(&mut self) -> Result<(), String> {
        let is_client = matches!(self.connection, Connection::Client(_));
        let proven = self.proven(is_client, self.own)?;
        let tag = self.secret.tag(&proven);
        self.connection.writer().write_all(tag.as_ref()).map_err(|error| error.to_string())
    }

    /// The statement that a side proves: that it, with this key, is the caller or the called one of this session.
    fn proven(&mut self, is_client: bool, key: KeyHash) -> Result<Vec<u8>, String> {
        let exported = self.connection.export_keying_material([0; 32], EXPORTER_LABEL, None);
        let exported = exported.map_err(|error| error.to_string())?;
        Ok([&exported[..], &[u8::from(is_client)], &key.0].concat())
    }

    /// Looks for the other side's proof. True if it is there.
    fn takes_proof(&mut self) -> Result<bool, String> {
        let mut buffer = [0; PROOF_BYTES];
        let room = PROOF_BYTES - self.proof.len();
        match self.connection.reader().read(&mut buffer[..room]) {
            Ok(0) => return Err(self.cut_off().to_owned()),
            Ok(count) => self.proof.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(self.cut_off().to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        if self.proof.len() < PROOF_BYTES {
            return Ok(false);
        }
        let is_client = matches!(self.connection, Connection::Client(_));
        let shown = self.connection.peer_certificates().and_then(|keys| keys.first());
        let key = KeyHash::of(shown.ok_or("it has shown no key")?);
        let expected = self.proven(!is_client, key)?;
        if !self.secret.verify(&expected, &self.proof) {
            return Err("it does not know this cluster's secret (--cluster-secret)".to_owned());
        }
        if !is_client {
            self.prove()?;
        }
        self.stage = Stage::Proven(key);
        Ok(true)
    }
}

/// An error of TLS in an operator's words.
fn explained(error: &Error) -> String {
    match error {
        Error::InvalidMessage(_) => "it does not speak TLS; has it no --cluster-secret?".to_owned(),
        error => error.to_string(),
    }
}

/// Takes every key whose owner signs the handshake. Who may be what is judged behind it.
struct AnyNode(Arc<CryptoProvider>);

impl fmt::Debug for AnyNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyNode")
    }
}

/// The common part of the verifiers of both sides: TLS 1.3, bare keys, one kind of signature.
macro_rules! verify_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _key: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.2 is never spoken between nodes".to_owned()))
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
    };
}

impl ServerCertVerifier for AnyNode {
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

    verify_signatures!();
}

impl ClientCertVerifier for AnyNode {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    verify_signatures!();
}
