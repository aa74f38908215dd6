//! The other end of a session with a node: for programs that ask one, and know its authority.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The authorities whose certificates are believed.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    /// Those of a file of PEM, as a cluster's `ca.pem` or a system's list.
    ///
    /// # Errors
    /// There is none in it.
    pub fn from_pem(authorities: &[u8]) -> Result<Trust, String> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authorities).collect();
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(all.map_err(|error| format!("it cannot be read: {error}"))?);
        if added == 0 {
            return Err("there is no certificate of an authority in it (a block CERTIFICATE in PEM)".to_owned());
        }
        let provider = CryptoProvider {
            kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1],
            ..default_provider()
        };
        let config = ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(&[&TLS13]);
        let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
        Ok(Trust(Arc::new(config)))
    }

    /// Speaks TLS on a connection with the node of this name or address. The handshake comes with the first byte.
    ///
    /// # Errors
    /// The name is none.
    pub fn call<S: Read + Write>(&self, host: &str, socket: S) -> Result<TrustedStream<S>, String> {
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} is no host's name, and no address"))?;
        let connection = ClientConnection::new(Arc::clone(&self.0), name).map_err(|error| error.to_string())?;
        Ok(TrustedStream(StreamOwned::new(connection, socket)))
    }
}

/// A connection with a node whose certificate is verified, for sockets that block.
#[derive(Debug)]
pub struct TrustedStream<S: Read + Write>(StreamOwned<ClientConnection, S>);

impl<S: Read + Write> TrustedStream<S> {
    /// The socket below, for its settings.
    #[must_use]
    pub fn socket(&self) -> &S {
        &self.0.sock
    }
}

impl<S: Read + Write> Read for TrustedStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<S: Read + Write> Write for TrustedStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::Authority;

    #[test]
    fn a_file_without_an_authority_is_refused() {
        let (own, key) = Authority::generate(Duration::from_secs(1_795_000_000)).expect("made");
        assert!(Trust::from_pem(own.as_bytes()).is_ok());
        assert!(Trust::from_pem([own.as_bytes(), own.as_bytes()].concat().as_slice()).is_ok(), "there may be several");
        for wrong in ["", "x", key.as_str()] {
            assert!(Trust::from_pem(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_host_is_a_name_or_an_address() {
        let (own, _) = Authority::generate(Duration::from_secs(1_795_000_000)).expect("made");
        let trust = Trust::from_pem(own.as_bytes()).expect("an authority");
        for (host, is_one) in [("n1.example", true), ("10.0.0.1", true), ("::1", true), ("n 1", false), ("", false)] {
            assert_eq!(trust.call(host, io::Cursor::new(Vec::new())).is_ok(), is_one, "{host}");
        }
    }
}
