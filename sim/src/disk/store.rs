//! The ordered store next to the files of a node's folder: it loses, fills up and breaks off like them.

use std::io;

use base::ordered::{OrderedBatch, OrderedError};
use storage::MemoryStore;

use super::{Fuse, SimDisk, lock, power_cut};

impl SimDisk {
    /// The folder's store.
    #[must_use]
    pub fn store(&self) -> MemoryStore {
        lock(&self.folder).store.clone()
    }

    /// Applies a batch to the store; where the fuse blows, either all of it or nothing.
    ///
    /// # Errors
    /// When there is no room, or the process must not go on.
    pub fn apply_to_store(&self, batch: &OrderedBatch) -> io::Result<()> {
        let mut folder = lock(&self.folder);
        match folder.burn()? {
            Fuse::Whole => folder.store.apply(batch).map_err(as_io),
            Fuse::Last => {
                if folder.rng.chance(1, 2) {
                    // There may be no room for it as well; nobody is left to hear of that.
                    let _ = folder.store.apply(batch);
                }
                Err(power_cut())
            }
        }
    }

    /// Makes what was applied durable.
    ///
    /// # Errors
    /// When there is no room, or the process must not go on.
    pub fn sync_store(&self) -> io::Result<()> {
        let mut folder = lock(&self.folder);
        match folder.burn()? {
            Fuse::Whole => folder.store.sync().map_err(as_io),
            Fuse::Last => {
                if folder.rng.chance(1, 2) {
                    let _ = folder.store.sync();
                }
                Err(power_cut())
            }
        }
    }
}

fn as_io(error: OrderedError) -> io::Error {
    if error.full { io::ErrorKind::StorageFull.into() } else { io::Error::other(error) }
}
