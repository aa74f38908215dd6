//! The ordered store next to the files of a node's folder: it loses, fills up and breaks off like them.

use std::io;
use std::ops::Bound;
use std::sync::Arc;

use base::ordered::{Changes, OrderedBatch, OrderedError, OrderedLoad, OrderedRead, OrderedWrite, Pair, Space};
use storage::{MemoryLoad, MemoryStore};

use super::{Fuse, SimDisk, lock, power_cut};

/// The store of a folder, as its process has it: what is written goes through the folder's misfortunes.
#[derive(Clone, Debug)]
pub struct SimStore {
    disk: SimDisk,
    store: MemoryStore,
}

impl SimDisk {
    /// The folder's store.
    #[must_use]
    pub fn store(&self) -> SimStore {
        SimStore { disk: self.clone(), store: lock(&self.folder).store.clone() }
    }

    /// The next batch or sync of the store fails, though it is done all the same (`done`), or is not done.
    pub fn fail_next_of_store(&self, done: bool) {
        lock(&self.folder).store_fails = Some(done);
    }

    /// The next batch or sync of the store does not fail after all.
    pub fn fail_none_of_store(&self) {
        lock(&self.folder).store_fails = None;
    }

    /// Does something to the store; where the fuse blows, either all of it or nothing.
    fn change_store(&self, change: impl Fn(&MemoryStore) -> Result<(), OrderedError>) -> Result<(), OrderedError> {
        let mut folder = lock(&self.folder);
        let fuse = folder.burn().map_err(|error| as_ordered(&error))?;
        if fuse == Fuse::Last {
            if folder.rng.chance(1, 2) {
                // There may be no room for it as well; nobody is left to hear of that.
                let _ = change(&folder.store);
            }
            return Err(as_ordered(&power_cut()));
        }
        match folder.store_fails.take() {
            None => change(&folder.store),
            Some(done) => {
                if done {
                    change(&folder.store)?;
                }
                Err(OrderedError { text: "the store fails (simulated)".to_owned(), full: false })
            }
        }
    }
}

impl OrderedRead for SimStore {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        self.store.get(space, key)
    }

    fn range<'a>(
        &'a self,
        space: Space,
        start: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        self.store.range(space, start)
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        self.store.freeze()
    }
}

impl OrderedWrite for SimStore {
    fn apply(&self, batch: &OrderedBatch) -> Result<(), OrderedError> {
        self.disk.change_store(|store| store.apply(batch))
    }

    fn sync(&self) -> Result<(), OrderedError> {
        self.disk.change_store(MemoryStore::sync)
    }

    fn spaces(&self) -> Vec<Space> {
        self.store.spaces()
    }

    fn begin_load(&self, space: Space) -> Result<Box<dyn OrderedLoad>, OrderedError> {
        let load = self.store.load(space)?;
        Ok(Box::new(SimLoad { disk: self.disk.clone(), load }))
    }

    /// What is done when a process starts, before anything can happen to it.
    fn retain_spaces(&self, kept: &[Space]) -> Result<(), OrderedError> {
        self.store.retain_spaces(kept);
        Ok(())
    }
}

/// A space of the store that is being filled.
#[derive(Debug)]
struct SimLoad {
    disk: SimDisk,
    load: MemoryLoad,
}

impl OrderedLoad for SimLoad {
    /// What breaks off here, or is done although it is said to have failed, is seen by nobody: the load is given up.
    fn push(&mut self, pairs: Changes) -> Result<(), OrderedError> {
        self.disk.change_store(|_| Ok(()))?;
        self.load.push(&pairs)
    }

    fn finish(self: Box<Self>) -> Result<(), OrderedError> {
        self.disk.change_store(|_| self.load.finish())
    }
}

fn as_ordered(error: &io::Error) -> OrderedError {
    OrderedError { text: error.to_string(), full: storage::disk::is_full(error) }
}
