//! Open keyspaces, and the thread on which dropped ones go: removing a folder of gigabytes takes long, and the last one to let
//! go of it may be a frozen view on the owner's loop.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "one thread for the removal of folders")]

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use fjall::Keyspace;

/// A space's keyspace. Its folder goes, if it was dropped, some time after the last handle.
pub(super) struct Handle {
    pub keyspace: Keyspace,
    dropped: AtomicBool,
    remover: Sender<Keyspace>,
}

impl Handle {
    pub fn new(keyspace: Keyspace, remover: &Remover) -> Handle {
        let remover = remover.sender.clone().expect("taken only when the remover is dropped");
        Handle { keyspace, dropped: AtomicBool::new(false), remover }
    }

    /// Lets the folder be removed in the background once nobody reads the space any more.
    pub fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.dropped.load(Ordering::Acquire) {
            // Without the thread the folder goes here and now: slow, not wrong.
            let _ = self.remover.send(self.keyspace.clone());
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.keyspace.name())
    }
}

/// The thread that lets go of dropped keyspaces. Handles must be gone before it is dropped: it is waited for.
pub(super) struct Remover {
    sender: Option<Sender<Keyspace>>,
    thread: Option<JoinHandle<()>>,
}

impl Remover {
    pub fn new() -> std::io::Result<Remover> {
        let (sender, receiver) = mpsc::channel::<Keyspace>();
        let thread = thread::Builder::new().name("store-remover".to_owned()).spawn(move || {
            for keyspace in receiver {
                drop(keyspace);
            }
        })?;
        Ok(Remover { sender: Some(sender), thread: Some(thread) })
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // It cannot fail otherwise than by a panic in fjall, which said so itself.
            let _ = thread.join();
        }
    }
}
