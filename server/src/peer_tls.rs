//! The keys and the secret by which nodes know each other: their files, and sessions on sockets.
//!
//! The sessions themselves are those of the room `tls`. On the loop links are non-blocking (`event_loop/peers/handshakes.rs`); a node that asks to join, and who
//! answers it, block.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::ValueEnum;
use node::Signer;
use serde::Deserialize;
use tls::{ClusterSecret, Handshake, KeyHash, NodeKey, PeerTls, Progress, Session};

use crate::log;
use crate::options::Options;

/// The private key of a node, in its folder.
pub(crate) const KEY_FILE: &str = "node.key";
/// While it is being written.
const KEY_FILE_NEW: &str = "node.key.new";
/// No key and no secret is longer, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024;

/// Which links a node takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerTlsMode {
    /// Those under TLS alone.
    #[default]
    Require,
    /// Also those in plain text, where the other node has no secret yet: while nodes get one, one after the other.
    Prefer,
}

/// The keys of a node for its links, and which links it takes.
#[derive(Clone, Debug)]
pub(crate) struct PeerSecurity {
    pub(crate) tls: Arc<PeerTls>,
    pub(crate) secret: ClusterSecret,
    pub(crate) mode: PeerTlsMode,
    /// For what this node says of its folder.
    pub(crate) signer: Arc<KeySigner>,
}

impl PeerSecurity {
    /// Reads the secret, and the key of the node whose folder this is, which is drawn if there is none. None if no secret was given.
    ///
    /// # Errors
    /// For the operator: a file cannot be read, others can read it, or it is something else.
    pub(crate) fn of(options: &Options) -> Result<Option<PeerSecurity>, String> {
        let Some(path) = &options.cluster_secret else { return Ok(None) };
        let named = |text: String| format!("--cluster-secret {}: {text}", path.display());
        let text = String::from_utf8(read_private(path, Readers::Group).map_err(named)?);
        let secret = ClusterSecret::parse(&text.unwrap_or_default()).map_err(named)?;
        let key = load_key(&options.dir)?;
        let security = PeerSecurity::new(key, secret, options.peer_tls)?;
        if options.peer_tls == PeerTlsMode::Prefer {
            log::warning(
                "PLAIN TEXT IS TAKEN: --peer-tls prefer serves everybody who reaches this node's address for peers, secret or not. When all nodes have the secret, start each once more without it",
            );
        }
        log::info(&format!("links to other nodes are under TLS; this node's key is {}", security.tls.hash()));
        Ok(Some(security))
    }

    /// With this key.
    ///
    /// # Errors
    /// For the operator: no session can be made with it.
    pub(crate) fn new(key: NodeKey, secret: ClusterSecret, mode: PeerTlsMode) -> Result<PeerSecurity, String> {
        let tls = Arc::new(PeerTls::new(&key, secret.clone())?);
        Ok(PeerSecurity { tls, secret, mode, signer: Arc::new(KeySigner(key)) })
    }
}

/// A node's key, as the core of the node signs with it.
pub(crate) struct KeySigner(NodeKey);

impl fmt::Debug for KeySigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySigner({})", self.0.hash())
    }
}

impl Signer for KeySigner {
    fn public(&self) -> &[u8] {
        self.0.public()
    }

    fn hash_of(&self, public: &[u8]) -> node::NodeKey {
        KeyHash::of_public(public).0
    }

    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        self.0.sign(bytes)
    }

    fn is_signed(&self, public: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
        tls::is_signed(public, bytes, signature)
    }
}

/// The key in a node's folder. A folder that was lost has none: then it is drawn, as a node that comes back empty is another one to the others, too.
pub(crate) fn load_key(folder: &Path) -> Result<NodeKey, String> {
    let path = folder.join(KEY_FILE);
    let named = |text: String| format!("{}: {text}", path.display());
    match std::fs::symlink_metadata(&path) {
        Ok(_) => NodeKey::from_pkcs8(&read_private(&path, Readers::Owner).map_err(named)?).map_err(named),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = NodeKey::generate()?;
            // Whole or not at all.
            let new = folder.join(KEY_FILE_NEW);
            let written = match std::fs::remove_file(&new) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => write_private(&new, key.pkcs8()),
            };
            let written =
                written.and_then(|()| std::fs::rename(&new, &path)).and_then(|()| File::open(folder)?.sync_all());
            written.map_err(|error| named(format!("cannot be written: {error}")))?;
            Ok(key)
        }
        Err(error) => Err(named(error.to_string())),
    }
}

/// Who may read a file that is a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readers {
    /// Its owner, and no link is followed: it stands in a node's folder.
    Owner,
    /// Its group, too: an operator has named it, and secrets that Kubernetes mounts are links to files of root and a group.
    Group,
}

/// Reads a file that is a secret.
///
/// # Errors
/// The text names the fault and the way to mend it.
pub(crate) fn read_private(path: &Path, readers: Readers) -> Result<Vec<u8>, String> {
    let (flags, forbidden) = match readers {
        Readers::Owner => (rustix::fs::OFlags::NOFOLLOW, 0o077),
        Readers::Group => (rustix::fs::OFlags::empty(), 0o037),
    };
    let flags = flags | rustix::fs::OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(number) if number == rustix::io::Errno::LOOP.raw_os_error() => {
            "it is a symbolic link, and none is followed".to_owned()
        }
        _ => error.to_string(),
    })?;
    let about = file.metadata().map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is no plain file".to_owned());
    }
    if about.mode() & forbidden != 0 {
        return Err(format!(
            "others can read or write it (its mode is {:o}): chmod 600 {}",
            about.mode() & 0o777,
            path.display()
        ));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Makes a file that nobody but its owner may read. One that is there is an error.
///
/// # Errors
/// As the system says.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A socket, in plain text or under a session.
#[derive(Debug)]
pub(crate) enum Socket<S> {
    Plain(S),
    /// Several may write to it: each takes the session for that.
    Secured(S, Arc<Mutex<Session>>),
}

impl<S> Socket<S> {
    pub(crate) fn secured(stream: S, session: Session) -> Socket<S> {
        Socket::Secured(stream, Arc::new(Mutex::new(session)))
    }

    pub(crate) fn stream(&self) -> &S {
        match self {
            Socket::Plain(stream) | Socket::Secured(stream, _) => stream,
        }
    }

    pub(crate) fn stream_mut(&mut self) -> &mut S {
        match self {
            Socket::Plain(stream) | Socket::Secured(stream, _) => stream,
        }
    }

    /// The same session on another descriptor, or another kind of it.
    pub(crate) fn with<T>(&self, stream: T) -> Socket<T> {
        match self {
            Socket::Plain(_) => Socket::Plain(stream),
            Socket::Secured(_, session) => Socket::Secured(stream, Arc::clone(session)),
        }
    }

    /// The stream made another kind of.
    pub(crate) fn map<T>(self, change: impl FnOnce(S) -> T) -> Socket<T> {
        match self {
            Socket::Plain(stream) => Socket::Plain(change(stream)),
            Socket::Secured(stream, session) => Socket::Secured(change(stream), session),
        }
    }
}

fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Read> Read for Socket<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Plain(stream) => stream.read(buffer),
            Socket::Secured(stream, session) => lock(session).read(stream, buffer),
        }
    }
}

impl<S: Write> Write for Socket<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Plain(stream) => stream.write(bytes),
            Socket::Secured(stream, session) => lock(session).write(stream, bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Plain(stream) => stream.flush(),
            Socket::Secured(stream, session) => lock(session).flush(stream),
        }
    }
}

impl Socket<TcpStream> {
    /// Reads what comes next, from a socket that blocks.
    pub(crate) fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Plain(stream) => stream.read(buffer),
            Socket::Secured(stream, session) => lock(session).read_some(stream, buffer),
        }
    }

    /// Calls the node at the other end of a socket that blocks, and has time limits. None if that node speaks no TLS, it seems, and plain text may be, too: on a new connection.
    ///
    /// # Errors
    /// It is nobody to talk to, or does not answer in time.
    pub(crate) fn call(mut stream: TcpStream, security: &PeerSecurity) -> io::Result<Option<Socket<TcpStream>>> {
        let handshake: Handshake = security.tls.call().map_err(io::Error::other)?;
        match handshake.advance(&mut stream) {
            Ok(Progress::Done(session, _)) => Ok(Some(Socket::secured(stream, session))),
            Err(failure) if failure.is_silent && security.mode == PeerTlsMode::Prefer => Ok(None),
            Ok(Progress::Waits(_)) => Err(io::Error::new(ErrorKind::TimedOut, "it does not answer in time")),
            Err(failure) => Err(io::Error::new(ErrorKind::ConnectionRefused, failure.reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_drawn_once_and_read_by_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(KEY_FILE);
        // What an end in the middle has left.
        std::fs::write(folder.path().join(KEY_FILE_NEW), "half").expect("written");
        let drawn = load_key(folder.path()).expect("a key").hash();
        assert_eq!(load_key(folder.path()).expect("the same").hash(), drawn);
        assert_eq!(std::fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("changed");
        let said = load_key(folder.path()).expect_err("others can read it");
        assert!(said.contains("chmod 600"), "{said}");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("changed");
        std::fs::write(&path, "half").expect("written");
        assert!(load_key(folder.path()).is_err(), "a damaged key is not replaced without a word");
    }

    #[test]
    fn no_link_in_a_folder_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        write_private(&target, b"secret").expect("written");
        assert_eq!(read_private(&target, Readers::Owner).as_deref(), Ok(&b"secret"[..]));
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let said = read_private(&link, Readers::Owner).expect_err("it is a link");
        assert!(said.contains("symbolic link"), "{said}");
        assert!(write_private(&link, b"other").is_err());
        assert!(read_private(folder.path(), Readers::Owner).expect_err("it is a folder").contains("plain file"));
    }

    #[test]
    fn a_secret_that_an_operator_mounts_may_be_a_link_that_a_group_reads() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("..data"), folder.path().join("cluster.secret"));
        write_private(&target, b"secret").expect("written");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        for (mode, is_read) in [(0o600, true), (0o440, true), (0o640, true), (0o644, false), (0o660, false)] {
            std::fs::set_permissions(&target, Permissions::from_mode(mode)).expect("changed");
            assert_eq!(read_private(&link, Readers::Group).is_ok(), is_read, "{mode:o}");
        }
    }
}
