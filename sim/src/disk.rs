//! A disk in memory that loses what was not synced, tears it, rots, fills up and fails.
//!
//! ```text
//!  write_at ─► live blocks ── sync ─────────► durable blocks        power cut: each block that differs, on its
//!  create …  ─► live names ── sync_folder ──► durable names         own, falls back or stays; so does each name
//! ```
//! - A *kill* leaves everything that was written; a *power cut* is [`SimDisk::lose_power`].
//! - A *fuse* breaks off in the middle of whatever the node does: the n-th operation from now is done in part, and
//!   everything after it fails. So crashes happen between and within any two writes of the shipping code.

mod operations;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Rng;
use storage::MemoryStore;

pub use store::SimStore;

/// The unit that is written whole or not at all, unless [`SimDisk::tear_sectors`] says otherwise: then that is a sector.
const BLOCK_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;
/// Where a stamped block of the journal says so, and what it says (docs/formats.md).
const STAMP_MARK: std::ops::Range<usize> = 28..32;
const STAMPED: [u8; 4] = [0xd1, 0x5c, 0x3a, 0xe7];

type Block = Box<[u8; BLOCK_BYTES]>;

/// The folder of one simulated node. Clones are handles on the same folder.
#[derive(Clone, Debug)]
pub struct SimDisk {
    folder: Arc<Mutex<Folder>>,
}

/// An open file of a [`SimDisk`].
#[derive(Debug)]
pub struct SimFile {
    folder: Arc<Mutex<Folder>>,
    content: Shared,
}

type Shared = Arc<Mutex<Content>>;

#[derive(Debug)]
struct Folder {
    names: BTreeMap<String, Shared>,
    /// The names as they would be found after a power cut that loses all it can.
    durable: BTreeMap<String, Shared>,
    /// What was done to the names since the last [`Disk::sync_folder`], in order.
    unsynced: Vec<Renaming>,
    /// Operations until the fuse blows.
    fuse: Option<u32>,
    blown: bool,
    sync_fails: bool,
    full: bool,
    store: MemoryStore,
    /// The store's next change fails, done or not.
    store_fails: Option<bool>,
    rng: Rng,
    /// Power cuts tear blocks within, as drawn from this.
    tears: Option<Rng>,
    counts: Counts,
}

#[derive(Clone, Debug)]
enum Renaming {
    Created(String, Shared),
    Removed(String),
    Renamed(String, String),
}

/// A file's bytes. Blocks that are not there are zeros.
#[derive(Debug, Default)]
struct Content {
    length: u64,
    blocks: BTreeMap<u64, Block>,
    durable_length: u64,
    /// Of every block written since the last sync: what is on the disk for certain.
    before: BTreeMap<u64, Option<Block>>,
    /// Blocks in which a bit has flipped and that were not written since.
    rotten: BTreeSet<u64>,
    /// Blocks that cannot be read before they are written again, or [`SimDisk::read_again`].
    unreadable: BTreeSet<u64>,
}

/// How much was done, for pacing the simulation and for the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Successful syncs of files and of the folder.
    pub syncs: u64,
    /// Blocks that a power cut took back.
    pub blocks_lost: u64,
    /// Blocks of which it took some sectors back.
    pub blocks_torn: u64,
    /// Creations, renamings and removals that a power cut took back.
    pub names_lost: u64,
    /// Batches of the store that a power cut took back.
    pub batches_lost: u64,
    /// Operations refused because the disk was full.
    pub refused_full: u64,
    /// Reads that failed because of an unreadable block.
    pub failed_reads: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // One thread uses it; a poisoned lock means that the run has panicked already.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimDisk {
    /// An empty folder whose misfortunes are drawn from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> SimDisk {
        let folder = Folder {
            names: BTreeMap::new(),
            durable: BTreeMap::new(),
            unsynced: Vec::new(),
            fuse: None,
            blown: false,
            sync_fails: false,
            full: false,
            store: MemoryStore::new(),
            store_fails: None,
            rng: Rng::new(seed),
            tears: None,
            counts: Counts::default(),
        };
        SimDisk { folder: Arc::new(Mutex::new(folder)) }
    }

    /// From now on power cuts tear blocks of the journal within, where these are made to tell: sectors are all that is written as a whole.
    pub fn tear_sectors(&self, seed: u64) {
        lock(&self.folder).tears = Some(Rng::new(seed));
    }

    /// Lets the disk work for `operations` more operations, break off in the next one, and fail from then on.
    pub fn light_fuse(&self, operations: u32) {
        lock(&self.folder).fuse = Some(operations);
    }

    /// Whether the fuse has blown: the process that used the disk must not go on.
    #[must_use]
    pub fn is_blown(&self) -> bool {
        lock(&self.folder).blown
    }

    /// Whether the process that uses the disk will end by it.
    #[must_use]
    pub fn is_about_to_fail(&self) -> bool {
        let folder = lock(&self.folder);
        folder.fuse.is_some() || folder.blown || folder.sync_fails || folder.store_fails.is_some()
    }

    /// The disk works again, for the next process.
    pub fn repair(&self) {
        let mut folder = lock(&self.folder);
        folder.fuse = None;
        folder.blown = false;
        folder.sync_fails = false;
    }

    /// The next sync fails, and what it should have synced is on the disk or gone, block by block.
    pub fn fail_next_sync(&self) {
        lock(&self.folder).sync_fails = true;
    }

    /// The next sync does not fail after all.
    pub fn fail_no_sync(&self) {
        lock(&self.folder).sync_fails = false;
    }

    /// From now on there is no room for anything new (`true`), or there is again.
    pub fn set_full(&self, full: bool) {
        let mut folder = lock(&self.folder);
        folder.full = full;
        folder.store.set_full(full);
    }

    /// Takes back what was not synced: each block, each length and each change of names on its own.
    pub fn lose_power(&self) {
        let mut folder = lock(&self.folder);
        let folder = &mut *folder;
        // Half of the time all changes of names up to some moment survive, else any of them.
        let unsynced = std::mem::take(&mut folder.unsynced);
        let in_order = folder.rng.chance(1, 2);
        if folder.store.unsynced() > 0 {
            folder.counts.batches_lost += folder.store.crash(&mut folder.rng) as u64;
            folder.store.set_full(folder.full);
        }
        let survivors = folder.rng.below(unsynced.len() as u64 + 1) as usize;
        for (index, change) in unsynced.into_iter().enumerate() {
            let survives = if in_order { index < survivors } else { folder.rng.chance(1, 2) };
            if survives {
                apply(&mut folder.durable, change);
            } else {
                folder.counts.names_lost += 1;
            }
        }
        for content in folder.durable.values() {
            let mut content = lock(content);
            let content = &mut *content;
            for (number, before) in std::mem::take(&mut content.before) {
                let is_lost = folder.rng.chance(1, 2);
                if let Some(tears) = &mut folder.tears
                    && let Some(block) = content.blocks.get_mut(&number)
                    && may_tear(block, before.as_ref())
                    && tears.chance(2, 3)
                {
                    folder.counts.blocks_torn += 1;
                    tear(block, before.as_ref(), tears);
                } else if is_lost {
                    folder.counts.blocks_lost += 1;
                    put_back(&mut content.blocks, number, before);
                }
            }
            if content.length != content.durable_length && folder.rng.chance(1, 2) {
                content.length = content.durable_length;
                content.cut();
            }
            content.durable_length = content.length;
        }
        folder.names = folder.durable.clone();
    }

    /// Deletes files for good, as somebody who clears up in the folder of a node that is not running.
    pub fn delete(&self, goes: impl Fn(&str) -> bool) {
        let mut folder = lock(&self.folder);
        folder.names.retain(|name, _| !goes(name));
        folder.durable.retain(|name, _| !goes(name));
        folder.unsynced.clear();
        if goes("store") {
            folder.store.retain_spaces(&[]);
        }
    }

    /// Flips a bit in one written block of one file that `may_rot` admits. Answers which, if there was any.
    pub fn rot(&self, may_rot: impl Fn(&str) -> bool) -> Option<(String, u64)> {
        let mut folder = lock(&self.folder);
        let folder = &mut *folder;
        let mut places: Vec<(String, u64)> = Vec::new();
        for (name, content) in folder.names.iter().filter(|(name, _)| may_rot(name)) {
            places.extend(lock(content).blocks.keys().map(|&number| (name.clone(), number)));
        }
        if places.is_empty() {
            return None;
        }
        let (name, number) = folder.rng.pick(&places).clone();
        let mut content = lock(folder.names.get(&name)?);
        let length = content.length;
        let block = content.blocks.get_mut(&number)?;
        let used = length.saturating_sub(number * BLOCK_BYTES as u64).clamp(1, BLOCK_BYTES as u64);
        let bit = folder.rng.below(used * 8) as usize;
        block[bit / 8] ^= 1 << (bit % 8);
        content.rotten.insert(number);
        drop(content);
        Some((name, number))
    }

    /// Makes one written block of a file that `may_fail` admits unreadable, or with `whole` all of its blocks. Answers
    /// which file, if there was any.
    pub fn make_unreadable(&self, whole: bool, may_fail: impl Fn(&str) -> bool) -> Option<String> {
        let mut folder = lock(&self.folder);
        let folder = &mut *folder;
        let written = |content: &Shared| !lock(content).blocks.is_empty();
        let mut names: Vec<&String> = Vec::new();
        for (name, content) in &folder.names {
            if may_fail(name) && written(content) {
                names.push(name);
            }
        }
        if names.is_empty() {
            return None;
        }
        let name = (*folder.rng.pick(&names)).clone();
        let mut content = lock(folder.names.get(&name)?);
        let blocks: Vec<u64> = content.blocks.keys().copied().collect();
        if whole {
            content.unreadable.extend(blocks);
        } else {
            content.unreadable.insert(*folder.rng.pick(&blocks));
        }
        drop(content);
        Some(name)
    }

    /// All that could not be read can be read again: the trouble was with the cable.
    pub fn read_again(&self) {
        for content in lock(&self.folder).names.values() {
            lock(content).unreadable.clear();
        }
    }

    /// Puts a file back as it was, durably, as somebody does who has a copy of it.
    pub fn restore(&self, name: &str, bytes: &[u8]) {
        let mut content = Content::default();
        content.write(0, bytes);
        content.before.clear();
        content.durable_length = content.length;
        let content = Arc::new(Mutex::new(content));
        let mut folder = lock(&self.folder);
        folder.names.insert(name.to_string(), Arc::clone(&content));
        folder.durable.insert(name.to_string(), content);
    }

    /// The bytes of a file, whatever is wrong with the disk.
    #[must_use]
    pub fn copy_of(&self, name: &str) -> Option<Vec<u8>> {
        let folder = lock(&self.folder);
        let content = lock(folder.names.get(name)?);
        let mut bytes = vec![0; usize::try_from(content.length).ok()?];
        content.read(0, &mut bytes);
        Some(bytes)
    }

    /// Whether a flipped bit lies in this file.
    #[must_use]
    pub fn is_rotten(&self, name: &str) -> bool {
        lock(&self.folder).names.get(name).is_some_and(|content| !lock(content).rotten.is_empty())
    }

    /// Whether a flipped bit or an unreadable block still lies in a file that `of` admits, to be met at a later start.
    #[must_use]
    pub fn is_damaged(&self, of: impl Fn(&str) -> bool) -> bool {
        let folder = lock(&self.folder);
        let damaged = |content: &Content| !content.rotten.is_empty() || !content.unreadable.is_empty();
        folder.names.iter().any(|(name, content)| of(name) && damaged(&lock(content)))
    }

    /// What was done and what happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        lock(&self.folder).counts
    }

    /// The names of all files and their lengths.
    #[must_use]
    pub fn lengths(&self) -> Vec<(String, u64)> {
        lock(&self.folder).names.iter().map(|(name, content)| (name.clone(), lock(content).length)).collect()
    }
}

impl Folder {
    /// To be called first by every operation that changes something: whether it is still done.
    fn burn(&mut self) -> io::Result<Fuse> {
        if self.blown {
            return Err(power_cut());
        }
        match &mut self.fuse {
            None => Ok(Fuse::Whole),
            Some(0) => {
                self.blown = true;
                Ok(Fuse::Last)
            }
            Some(left) => {
                *left -= 1;
                Ok(Fuse::Whole)
            }
        }
    }

    fn check(&self) -> io::Result<()> {
        if self.blown { Err(power_cut()) } else { Ok(()) }
    }

    /// Does something to the names, unless the fuse says that this is where it ends.
    fn change(&mut self, change: Renaming) -> io::Result<()> {
        let fuse = self.burn()?;
        if fuse == Fuse::Whole || self.rng.chance(1, 2) {
            apply(&mut self.names, change.clone());
            self.unsynced.push(change);
        }
        if fuse == Fuse::Last { Err(power_cut()) } else { Ok(()) }
    }
}

/// A copy of a folder, as of a disk's image.
#[derive(Debug)]
pub struct Copy {
    files: Vec<(String, Vec<u8>)>,
    store: MemoryStore,
}

impl SimDisk {
    /// A copy of everything that is there now, synced or not.
    #[must_use]
    pub fn copy(&self) -> Copy {
        let names: Vec<String> = lock(&self.folder).names.keys().cloned().collect();
        let files = names.into_iter().filter_map(|name| Some((name.clone(), self.copy_of(&name)?))).collect();
        Copy { files, store: lock(&self.folder).store.copy() }
    }

    /// Everything becomes what it was in a copy, durably.
    pub fn set_back(&self, copy: &Copy) {
        self.delete(|_| true);
        copy.files.iter().for_each(|(name, bytes)| self.restore(name, bytes));
        lock(&self.folder).store.set_back(&copy.store);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fuse {
    Whole,
    /// This operation is done in part, if at all.
    Last,
}

fn power_cut() -> io::Error {
    io::Error::other("the simulated process died")
}

fn apply(names: &mut BTreeMap<String, Shared>, change: Renaming) {
    match change {
        Renaming::Created(name, content) => {
            names.insert(name, content);
        }
        Renaming::Removed(name) => {
            names.remove(&name);
        }
        Renaming::Renamed(from, to) => {
            if let Some(content) = names.remove(&from) {
                names.insert(to, content);
            }
        }
    }
}

/// Whether a block of the journal and what was there before it can be told from each other by their sectors: both are stamped, or one is zeros.
fn may_tear(block: &Block, before: Option<&Block>) -> bool {
    block[STAMP_MARK] == STAMPED
        && before.is_none_or(|before| before[STAMP_MARK] == STAMPED || before[..] == [0; BLOCK_BYTES])
}

/// Puts some sectors of a block back.
fn tear(block: &mut Block, before: Option<&Block>, rng: &mut Rng) {
    for start in (0..BLOCK_BYTES).step_by(SECTOR_BYTES) {
        if rng.chance(1, 2) {
            let sector = &mut block[start..start + SECTOR_BYTES];
            match before {
                Some(before) => sector.copy_from_slice(&before[start..start + SECTOR_BYTES]),
                None => sector.fill(0),
            }
        }
    }
}

fn put_back(blocks: &mut BTreeMap<u64, Block>, number: u64, before: Option<Block>) {
    match before {
        Some(block) => blocks.insert(number, block),
        None => blocks.remove(&number),
    };
}

impl Content {
    fn read(&self, offset: u64, buffer: &mut [u8]) {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let (number, start) = (at / BLOCK_BYTES as u64, (at % BLOCK_BYTES as u64) as usize);
            let length = (BLOCK_BYTES - start).min(buffer.len() - done);
            let part = &mut buffer[done..done + length];
            match self.blocks.get(&number) {
                Some(block) => part.copy_from_slice(&block[start..start + length]),
                None => part.fill(0),
            }
            done += length;
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (number, start) = (at / BLOCK_BYTES as u64, (at % BLOCK_BYTES as u64) as usize);
            let length = (BLOCK_BYTES - start).min(bytes.len() - done);
            if !self.before.contains_key(&number) {
                self.before.insert(number, self.blocks.get(&number).cloned());
            }
            self.rotten.remove(&number);
            self.unreadable.remove(&number);
            let block = self.blocks.entry(number).or_insert_with(|| Box::new([0; BLOCK_BYTES]));
            block[start..start + length].copy_from_slice(&bytes[done..done + length]);
            done += length;
        }
        self.length = self.length.max(offset + bytes.len() as u64);
    }

    /// Forgets what lies behind the end.
    fn cut(&mut self) {
        let blocks = self.length.div_ceil(BLOCK_BYTES as u64);
        self.blocks.split_off(&blocks);
    }
}

#[cfg(test)]
mod tests;
