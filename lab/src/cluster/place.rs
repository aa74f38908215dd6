//! Where a system lives on this machine: a fresh folder, and ports that nobody uses.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as LocalAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Folders of the laboratory are called so, with the process id and a number behind it.
const FOLDER_NAME: &str = "dictum-lab-";
/// In every such folder: it may be removed when the process in its name is gone.
const MARKER: &str = ".of-dictum-lab";
/// Ports are drawn from here on …
const PORT_FIRST: u16 = 10_000;
/// … to before this, which is below those that the system gives to outgoing connections (ip(7), `ip_local_port_range`): a node that is
/// started again must find its port free, with thousands of clients around.
const PORT_END: u16 = 32_000;
/// How often a port is drawn before the search is given up.
const ATTEMPTS_MAX: u32 = 10_000;
/// Ports that other laboratories are kept from: more than the systems have that one of them runs at once, and few open files.
const RESERVED_MAX: usize = 256;

/// A fresh folder. It is removed when this is dropped, unless it is to be kept.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    keep: AtomicBool,
}

impl Folder {
    /// Makes one below `parent`, which is made if it is missing. What earlier runs that were killed have left there is removed.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make(parent: &Path) -> Result<Folder, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let failed = |what: &Path, error| format!("the folder {} cannot be made: {error}", what.display());
        fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        remove_leftovers(parent);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{FOLDER_NAME}{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(|error| failed(&path, error))?;
        fs::write(path.join(MARKER), "").map_err(|error| failed(&path, error))?;
        let path = path.canonicalize().map_err(|error| failed(&path, error))?;
        Ok(Folder { path, keep: AtomicBool::new(false) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It stays when this is dropped, and later runs leave it alone.
    pub fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
        let _ = fs::remove_file(self.path.join(MARKER));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep.load(Ordering::Relaxed) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes folders whose processes are gone.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(FOLDER_NAME)?.split_once('-')?.0.parse::<u32>().ok());
        let path = entry.path();
        let is_gone =
            pid.is_some_and(|pid| Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{pid}")).exists());
        if is_gone && path.join(MARKER).is_file() {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Keeps other laboratories from a port, as long as what is returned lives; `None` if one of them has it. Between the moment in which a port is found free
/// and that in which a node listens there, another process would find it free as well. Names of such sockets are not files, they go with
/// their process, and each network namespace has its own, as it has ports.
fn reserve(port: u16) -> Option<UnixListener> {
    let name = LocalAddr::from_abstract_name(format!("dictum-lab-port-{port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

/// So many addresses of loopback at which nobody listens, all different; none that this process was given before, or that another laboratory
/// was given lately.
///
/// # Errors
/// When there are not so many.
pub fn free_addresses(count: usize) -> Result<Vec<SocketAddr>, String> {
    static GIVEN: Mutex<(BTreeSet<u16>, VecDeque<UnixListener>)> = Mutex::new((BTreeSet::new(), VecDeque::new()));
    let mut guard = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let (given, reserved) = &mut *guard;
    let mut held = Vec::new();
    let random = RandomState::new();
    // More than there can be need not be looked for.
    let attempts = if count > usize::from(PORT_END - PORT_FIRST) { 0 } else { ATTEMPTS_MAX };
    for attempt in 0..attempts {
        if held.len() == count {
            break;
        }
        let port = PORT_FIRST + (random.hash_one(attempt) % u64::from(PORT_END - PORT_FIRST)) as u16;
        if given.contains(&port) {
            continue;
        }
        // Each is held until all are found: what is drawn twice is in use.
        if let Some(reservation) = reserve(port)
            && let Ok(listener) = TcpListener::bind(("127.0.0.1", port))
        {
            held.push((SocketAddr::from(([127, 0, 0, 1], port)), listener, reservation));
        }
    }
    if held.len() < count {
        return Err(format!("there are no {count} free ports from {PORT_FIRST} to {PORT_END}; end what listens there"));
    }
    given.extend(held.iter().map(|(address, ..)| address.port()));
    let mut addresses = Vec::with_capacity(count);
    for (address, _, reservation) in held {
        addresses.push(address);
        reserved.push_back(reservation);
    }
    reserved.drain(..reserved.len().saturating_sub(RESERVED_MAX));
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_free_and_never_given_twice() {
        let first = free_addresses(40).expect("there are enough");
        let second = free_addresses(40).expect("there are enough");
        let all: BTreeSet<u16> = first.iter().chain(&second).map(SocketAddr::port).collect();
        assert_eq!(all.len(), 80);
        assert!(all.iter().all(|port| (PORT_FIRST..PORT_END).contains(port)));
        assert!(free_addresses(50_000).expect_err("more than there are").contains("50000 free ports"));
        assert!(all.iter().all(|port| reserve(*port).is_none()), "another laboratory would not get them");
        let own = reserve(9_999).expect("nobody has it");
        assert!(reserve(9_999).is_none());
        drop(own);
        assert!(reserve(9_999).is_some());
    }

    #[test]
    fn a_folder_goes_with_its_owner_and_leftovers_with_the_next_run() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        // No process has this number: the kernel's limit is 2²² (proc(5), pid_max).
        let (left, foreign) =
            (parent.path().join("dictum-lab-99999999-1"), parent.path().join("dictum-lab-99999999-2"));
        for folder in [&left, &foreign] {
            fs::create_dir(folder).expect("a folder");
        }
        fs::write(left.join(MARKER), "").expect("a file");
        let (one, kept) = (Folder::make(parent.path()).expect("one"), Folder::make(parent.path()).expect("another"));
        assert!(!left.exists() && foreign.exists(), "only what is marked is removed");
        let paths = [one.path().to_owned(), kept.path().to_owned()];
        kept.keep();
        drop((one, kept));
        assert!(!paths[0].exists() && paths[1].exists());
    }
}
