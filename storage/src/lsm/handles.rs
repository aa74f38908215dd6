//! Open keyspaces, and the thread on which dropped ones go: removing a folder of gigabytes takes long, and the last one to let
//! go of it may be a frozen view on the owner's loop.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "one thread for the removal of folders")]

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use fjall::{AbstractTree, Keyspace, UserValue};

use super::sight::Sight;

/// A space's keyspace. Its folder goes, if it was dropped, some time after the last handle.
pub(super) struct Handle {
    pub keyspace: Keyspace,
    sight: Sight,
    dropped: AtomicBool,
    remover: Sender<Removal>,
}

/// What goes on the thread for it, in this order: what was seen of the space, and the space.
type Removal = (Box<dyn Send>, Keyspace);

impl Handle {
    pub fn new(keyspace: Keyspace, remover: &Remover) -> Handle {
        let remover = remover.sender.clone().expect("taken only when the remover is dropped");
        Handle { keyspace, sight: Sight::default(), dropped: AtomicBool::new(false), remover }
    }

    /// The value under `key`, without waiting for what fjall does in the background.
    pub fn get(&self, key: &[u8]) -> fjall::Result<Option<UserValue>> {
        self.sight.get(&self.keyspace, key)
    }

    /// Seals the memtable. Nothing else may: [`Handle::get`] would miss what it holds.
    pub fn seal(&self) -> fjall::Result<()> {
        self.sight.seal(&self.keyspace)
    }

    /// Lets go of memtables and tables that fjall has replaced.
    pub fn renew(&self) {
        self.sight.renew(&self.keyspace);
    }

    /// After a batch: from now on no read waits.
    pub fn begin(&self) {
        self.sight.renew_if_unknown(&self.keyspace);
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
            let _ = self.remover.send((Box::new(self.sight.close()), self.keyspace.clone()));
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
    sender: Option<Sender<Removal>>,
    thread: Option<JoinHandle<()>>,
}

impl Remover {
    pub fn new() -> std::io::Result<Remover> {
        let (sender, receiver) = mpsc::channel::<Removal>();
        let thread = thread::Builder::new().name("store-remover".to_owned()).spawn(move || {
            for removal in receiver {
                close_files(&removal.1);
                drop(removal);
            }
        })?;
        Ok(Remover { sender: Some(sender), thread: Some(thread) })
    }
}

/// Nobody reads a dropped space any more, but fjall keeps its files open among those of others: removed as they are, they would take their room until as many others
/// were opened, or for ever.
fn close_files(keyspace: &Keyspace) {
    let Some(open) = &keyspace.tree.tree_config().descriptor_table else { return };
    let (tree, version) = (keyspace.tree.id(), keyspace.tree.current_version());
    version.blob_files.iter().for_each(|file| open.remove_for_blob_file(&(tree, file.id()).into()));
    version.iter_tables().for_each(|table| open.remove_for_table(&(tree, table.id()).into()));
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
