//! TLS for clients: the certificate that a node shows, where it comes from, and who may speak in plain text.
//!
//! ```text
//!   --tls-ca FOLDER            ca.pem, ca.key: the node makes itself a certificate of the cluster's authority, at each start and once a day
//!   --tls-cert, --tls-key      files of the operator, read again when they change, and on SIGHUP
//!   --tls-client-ca            authorities whose certificates clients may show, to be the user that these name
//! ```
//! TLS and plain text are spoken at the same ports; the first byte tells them apart. The loop never does a handshake (`event_loop/client_handshakes.rs`).

use std::fs::{DirBuilder, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use mio::net::TcpStream;
use serde::Deserialize;
use tls::{
    Authority, CERTIFICATE_RENEWED_EVERY, Certificate, ClientAuthorities, ClientSession, ClientTls, ClusterSecret,
};

use crate::audit::{Audit, Entry};
use crate::log;
use crate::peer_tls::{Readers, read_private, write_private};

/// The certificate of the cluster's authority, which clients get, and its key, which only nodes get.
pub(crate) const AUTHORITY_FILE: &str = "ca.pem";
const AUTHORITY_KEY_FILE: &str = "ca.key";
/// How often files are looked at.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(10);
/// No chain of certificates is longer, in bytes.
const CHAIN_BYTES_MAX: u64 = 256 * 1024;

/// Which clients may speak in plain text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlainText {
    /// Those on this machine.
    Loopback,
    /// None.
    Never,
    /// All.
    Always,
}

/// The part of a client's certificate that names its user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientsUser {
    /// The common name of its subject.
    Cn,
}

/// Where the certificate comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CertificateSource {
    /// The folder with the cluster's authority.
    Authority(PathBuf),
    /// The operator's files: the chain of certificates, and the key.
    Files(PathBuf, PathBuf),
}

/// How clients are spoken to.
#[derive(Clone, Debug)]
pub(crate) struct ClientSecurity {
    pub(crate) tls: ClientTls,
    pub(crate) plain_text: PlainText,
}

/// Makes the authority of a cluster in a folder.
///
/// # Errors
/// For people: what cannot be written.
pub(crate) fn make_authority(folder: &Path) -> Result<(), String> {
    let (own, key) = Authority::generate(since_1970())?;
    let own_file = folder.join(AUTHORITY_FILE);
    if own_file.try_exists().map_err(|error| format!("{}: {error}", own_file.display()))? {
        return Err(format!("{} is there already, and was not touched", own_file.display()));
    }
    // Whole or not at all.
    let written = |path: PathBuf, text: &str, mode: u32| {
        let new = path.with_extension("new");
        let removed = match std::fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        removed
            .and_then(|()| write_private(&new, text.as_bytes()))
            .and_then(|()| std::fs::set_permissions(&new, Permissions::from_mode(mode)))
            .and_then(|()| std::fs::rename(&new, &path))
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    // The key first: a folder with the certificate is whole, and a key without one was never used.
    written(folder.join(AUTHORITY_KEY_FILE), &key, 0o600)?;
    written(own_file, &own, 0o644)
}

impl CertificateSource {
    /// The certificate as it is now, for a node with these names.
    ///
    /// # Errors
    /// For the operator: which file, and what is wrong with it.
    fn certificate(&self, names: &[String]) -> Result<Certificate, String> {
        match self {
            CertificateSource::Authority(folder) => {
                let now = since_1970();
                let named = |text: String| format!("--tls-ca {}: {text}", folder.display());
                let own = read_open(&folder.join(AUTHORITY_FILE)).map_err(named)?;
                let key = folder.join(AUTHORITY_KEY_FILE);
                let key = read_private(&key, Readers::Group)
                    .map_err(|text| named(format!("{AUTHORITY_KEY_FILE}: {text}")))?;
                Authority::from_pem(&own, &key, now).and_then(|authority| authority.issue(names, now)).map_err(named)
            }
            CertificateSource::Files(chain, key) => {
                let of_chain = |text: String| format!("--tls-cert {}: {text}", chain.display());
                let read = read_open(chain).map_err(of_chain)?;
                let private = read_private(key, Readers::Group);
                let private = private.map_err(|text| format!("--tls-key {}: {text}", key.display()))?;
                Certificate::from_pem(&read, &private).map_err(of_chain)
            }
        }
    }

    /// A record for the audit trail: the certificate for clients, and whether it was taken.
    fn entry(&self, outcome: &str) -> Entry {
        let (flag, path) = match self {
            CertificateSource::Authority(folder) => ("--tls-ca", folder),
            CertificateSource::Files(chain, _) => ("--tls-cert", chain),
        };
        let source = format!("{flag} {}", path.display());
        Entry::new("certificate", vec![("source", source.into()), ("outcome", outcome.into())])
    }

    /// When its files were last changed, as far as can be seen.
    fn changed_at(&self) -> [Option<SystemTime>; 2] {
        let paths = match self {
            CertificateSource::Authority(folder) => [folder.join(AUTHORITY_FILE), folder.join(AUTHORITY_KEY_FILE)],
            CertificateSource::Files(chain, key) => [chain.clone(), key.clone()],
        };
        paths.map(|path| std::fs::metadata(path).and_then(|about| about.modified()).ok())
    }
}

/// By this machine's clock, as clients look at theirs.
fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn read_open(path: &Path) -> Result<Vec<u8>, String> {
    let named = |text: String| format!("{}: {text}", path.display());
    let about = std::fs::metadata(path).map_err(|error| named(error.to_string()))?;
    if !about.is_file() {
        return Err(named("it is no plain file".to_owned()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| named(error.to_string()))?;
    file.take(CHAIN_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| named(error.to_string()))?;
    if bytes.len() as u64 > CHAIN_BYTES_MAX {
        return Err(named(format!("it has more than {} KiB", CHAIN_BYTES_MAX / 1024)));
    }
    Ok(bytes)
}

impl ClientSecurity {
    /// Reads the files, and begins to watch them. Nodes with the same secret take each other's tickets. What the second part is told makes them read again at once.
    ///
    /// # Errors
    /// For the operator: which file, and what is wrong with it.
    pub(crate) fn start(
        source: CertificateSource,
        client_authorities: Option<&Path>,
        secret: Option<ClusterSecret>,
        plain_text: PlainText,
        names: Vec<String>,
        audit: Audit,
    ) -> Result<(ClientSecurity, mpsc::Sender<()>), String> {
        let changed = source.changed_at();
        let authorities = client_authorities.map(|path| {
            let read = read_open(path).and_then(|text| ClientAuthorities::from_pem(&text));
            read.map_err(|text| format!("--tls-client-ca {}: {text}", path.display()))
        });
        let tls = ClientTls::new(source.certificate(&names)?, authorities.transpose()?, secret)?;
        let (asks, asked) = mpsc::channel();
        let shown = tls.clone();
        audit.tell(source.entry("shown"));
        let watch = move || watch(&source, changed, &names, (&shown, &audit), &asked);
        let started = thread::Builder::new().name("certificates".to_owned()).spawn(watch);
        started.map_err(|error| format!("a thread cannot be started: {error}"))?;
        log::info("clients may speak TLS at the same ports as plain text");
        Ok((ClientSecurity { tls, plain_text }, asks))
    }
}

/// Shows the certificate that the files have, whenever they have another one, and a new one of the authority once a day.
fn watch(
    source: &CertificateSource,
    mut changed: [Option<SystemTime>; 2],
    names: &[String],
    (shown, audit): (&ClientTls, &Audit),
    asked: &mpsc::Receiver<()>,
) {
    let mut made = since_1970();
    let mut complaint = String::new();
    loop {
        let is_asked = match asked.recv_timeout(LOOKED_AT_EVERY) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            // The process ends.
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let now = source.changed_at();
        let is_due = matches!(source, CertificateSource::Authority(_))
            && since_1970().abs_diff(made) >= CERTIFICATE_RENEWED_EVERY;
        if !is_asked && !is_due && now == changed {
            continue;
        }
        match source.certificate(names) {
            Ok(certificate) => {
                (made, changed) = (since_1970(), now);
                complaint.clear();
                shown.show(certificate);
                audit.tell(source.entry("shown"));
                log::info("the certificate for clients was read again; connections that stand go on");
            }
            // It is tried again, and said once.
            Err(text) if text == complaint && !is_asked => {}
            Err(text) => {
                audit.tell(source.entry("refused"));
                log::error(&format!("{text}; the certificate for clients stays as it was"));
                complaint = text;
            }
        }
    }
}

/// A client's socket, in plain text or under TLS.
#[derive(Debug)]
pub(crate) enum ClientSocket {
    Plain(TcpStream),
    Secured(TcpStream, Box<ClientSession>),
    /// Its handshake is under way elsewhere.
    Away,
}

impl ClientSocket {
    pub(crate) fn stream_mut(&mut self) -> Option<&mut TcpStream> {
        match self {
            ClientSocket::Plain(stream) | ClientSocket::Secured(stream, _) => Some(stream),
            ClientSocket::Away => None,
        }
    }

    /// Whether something may be left, of which no poll tells, after a read has given `count` bytes of a buffer of `most`.
    pub(crate) fn may_have_more(&self, count: usize, most: usize) -> bool {
        match self {
            ClientSocket::Plain(_) => count == most,
            ClientSocket::Secured(_, session) => session.may_have_more(),
            ClientSocket::Away => false,
        }
    }

    /// Whether something was written that is not in the socket yet, so that a poll tells when it goes on.
    pub(crate) fn wants_write(&self) -> bool {
        matches!(self, ClientSocket::Secured(_, session) if session.wants_write())
    }

    /// The last that is written to it.
    pub(crate) fn close(&mut self) {
        if let ClientSocket::Secured(stream, session) = self {
            session.close(stream);
        }
    }
}

impl Read for ClientSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            ClientSocket::Plain(stream) => stream.read(buffer),
            ClientSocket::Secured(stream, session) => session.read(stream, buffer).inspect_err(|error| {
                if error.kind() == ErrorKind::InvalidData {
                    // It is told why, where its socket takes that now.
                    let _ = session.flush(stream);
                }
            }),
            ClientSocket::Away => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for ClientSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ClientSocket::Plain(stream) => stream.write(bytes),
            ClientSocket::Secured(stream, session) => session.write(stream, bytes),
            ClientSocket::Away => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            ClientSocket::Secured(stream, session) => session.flush(stream),
            ClientSocket::Plain(_) | ClientSocket::Away => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_made_once_and_its_key_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tls");
        make_authority(&path).expect("made");
        let mode = |name: &str| std::fs::metadata(path.join(name)).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode(AUTHORITY_KEY_FILE), 0o600);
        let source = CertificateSource::Authority(path.clone());
        assert!(source.certificate(&["localhost".to_owned()]).is_ok());
        let said = make_authority(&path).expect_err("it is there");
        assert!(said.contains("was not touched"), "{said}");
        std::fs::set_permissions(path.join(AUTHORITY_KEY_FILE), PermissionsExt::from_mode(0o644)).expect("changed");
        let said = source.certificate(&["localhost".to_owned()]).expect_err("others can read the key");
        assert!(said.contains("--tls-ca") && said.contains("chmod 600"), "{said}");
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let (chain, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let source = CertificateSource::Files(chain.clone(), key.clone());
        let said = source.certificate(&[]).expect_err("there is none");
        assert!(said.contains("--tls-cert") && said.contains("cert.pem"), "{said}");
        std::fs::write(&chain, "no certificate").expect("written");
        let said = source.certificate(&[]).expect_err("there is no key");
        assert!(said.contains("--tls-key") && said.contains("key.pem"), "{said}");
        write_private(&key, b"no key").expect("written");
        let said = source.certificate(&[]).expect_err("it is none");
        assert!(said.contains("cert.pem") && said.contains("certificate"), "{said}");
    }
}
