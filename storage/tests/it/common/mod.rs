//! A disk in memory that forgets like a real one: what was not synced may be lost, block by block.
#![allow(dead_code, reason = "every test program uses another part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use base::Rng;
use storage::{Disk, DiskFile};

pub const BLOCK: usize = 4096;

#[derive(Clone, Default)]
pub struct TestDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<u64, Content>,
    next_file: u64,
    folder: BTreeMap<String, u64>,
    folder_synced: BTreeMap<String, u64>,
    folder_changes: Vec<Change>,
    /// Operations until the power goes; after that everything fails.
    operations_left: Option<u64>,
    fail_next_sync: bool,
    bytes_max: Option<u64>,
    writes: Vec<Write>,
}

#[derive(Default)]
struct Content {
    live: Vec<u8>,
    synced: Vec<u8>,
    /// Blocks that the next sync will write. As on Linux, a failed sync forgets them without having written them.
    dirty: BTreeSet<usize>,
}

enum Change {
    Set(String, u64),
    Remove(String),
}

/// One `write_at`, as it was asked for.
#[derive(Clone, Debug)]
pub struct Write {
    pub name: String,
    pub offset: usize,
    pub length: usize,
}

pub struct TestFile {
    state: Arc<Mutex<State>>,
    id: u64,
}

impl State {
    fn step(&mut self) -> io::Result<()> {
        match &mut self.operations_left {
            Some(0) => Err(io::Error::other("the power is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn id(&self, name: &str) -> io::Result<u64> {
        self.folder.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn bytes(&self) -> u64 {
        self.folder.values().map(|id| self.files[id].live.len() as u64).sum()
    }

    fn set(&mut self, name: &str, id: u64) {
        self.folder.insert(name.into(), id);
        self.folder_changes.push(Change::Set(name.into(), id));
    }
}

impl TestDisk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test thread dies with the lock")
    }

    /// After so many more operations the power goes, in the middle of the last one if that is a write.
    pub fn cut_power_after(&self, operations: u64) {
        self.lock().operations_left = Some(operations);
    }

    pub fn fail_next_sync(&self) {
        self.lock().fail_next_sync = true;
    }

    pub fn set_bytes_max(&self, bytes: Option<u64>) {
        self.lock().bytes_max = bytes;
    }

    pub fn bytes(&self) -> u64 {
        self.lock().bytes()
    }

    /// The power is back: every unsynced block, and every unsynced change of the folder, is there or not.
    pub fn restart(&self, rng: &mut Rng) {
        let mut state = self.lock();
        state.operations_left = None;
        state.fail_next_sync = false;
        let mut folder = std::mem::take(&mut state.folder_synced);
        // Draw what luck this restart has, so that "all" and "nothing" are as likely as anything between.
        let luck = rng.below(5);
        for change in std::mem::take(&mut state.folder_changes) {
            if rng.below(4) >= luck {
                continue;
            }
            match change {
                Change::Set(name, id) => {
                    folder.retain(|_, other| *other != id);
                    folder.insert(name, id);
                }
                Change::Remove(name) => {
                    folder.remove(&name);
                }
            }
        }
        for content in state.files.values_mut() {
            let longer = content.live.len().saturating_sub(content.synced.len()) as u64;
            let length = content.synced.len() + if longer > 0 { rng.between(0, longer) as usize } else { 0 };
            let mut after = content.synced.clone();
            after.resize(length, 0);
            for (start, block) in after.chunks_mut(BLOCK).enumerate().map(|(i, block)| (i * BLOCK, block)) {
                let live = &content.live[start.min(content.live.len())..(start + block.len()).min(content.live.len())];
                if live.len() == block.len() && rng.below(4) < luck {
                    block.copy_from_slice(live);
                }
            }
            content.live = after.clone();
            content.synced = after;
            content.dirty.clear();
        }
        state.folder_synced = folder.clone();
        state.folder = folder;
    }

    /// The power went and came back, and nothing that was not synced has survived.
    pub fn restart_with_nothing_unsynced(&self) {
        let mut state = self.lock();
        state.operations_left = None;
        state.folder = state.folder_synced.clone();
        state.folder_changes.clear();
        for content in state.files.values_mut() {
            content.live = content.synced.clone();
            content.dirty.clear();
        }
    }

    /// Changes the bytes of a file, on the disk and in the cache, as rot does.
    pub fn rot(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.lock();
        let id = state.id(name).expect("the test names a file that is there");
        let content = state.files.get_mut(&id).expect("every name has a file");
        change(&mut content.live);
        content.synced = content.live.clone();
    }

    pub fn lose(&self, name: &str) {
        let mut state = self.lock();
        state.folder.remove(name);
        state.folder_synced.remove(name);
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        let file = self.create(name, 0).expect("there is room");
        file.write_at(0, bytes).expect("there is room");
        file.sync().expect("nothing was told to fail");
        self.sync_folder().expect("nothing was told to fail");
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        let state = self.lock();
        state.files[&state.id(name).expect("the test names a file that is there")].live.clone()
    }

    pub fn writes(&self) -> Vec<Write> {
        self.lock().writes.clone()
    }

    pub fn last_write(&self) -> Write {
        self.lock().writes.last().expect("something was written").clone()
    }
}

impl Disk for TestDisk {
    type File = TestFile;

    fn open(&self, name: &str) -> io::Result<TestFile> {
        let id = self.lock().id(name)?;
        Ok(TestFile { state: self.state.clone(), id })
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<TestFile> {
        let mut state = self.lock();
        state.step()?;
        if state.bytes_max.is_some_and(|max| state.bytes() + bytes > max) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let id = state.next_file;
        state.next_file += 1;
        state.files.insert(id, {
            let dirty = (0..(bytes as usize).div_ceil(BLOCK)).collect();
            Content { live: vec![0; bytes as usize], synced: Vec::new(), dirty }
        });
        state.set(name, id);
        Ok(TestFile { state: self.state.clone(), id })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.step()?;
        state.id(name)?;
        state.folder.remove(name);
        state.folder_changes.push(Change::Remove(name.into()));
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.step()?;
        let id = state.id(from)?;
        state.folder.remove(from);
        state.set(to, id);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().folder.keys().cloned().collect())
    }

    fn sync_folder(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.step()?;
        state.folder_synced = state.folder.clone();
        state.folder_changes.clear();
        Ok(())
    }
}

impl DiskFile for TestFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let state = self.state.lock().expect("no test thread dies with the lock");
        let content = &state.files[&self.id].live;
        let start = offset as usize;
        let found = content.get(start..start + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().expect("no test thread dies with the lock");
        let name =
            state.folder.iter().find(|(_, id)| **id == self.id).map_or_else(String::new, |(name, _)| name.clone());
        state.writes.push(Write { name, offset: offset as usize, length: bytes.len() });
        // The power goes while the disk writes: so the bytes are under way even if the caller hears of an error.
        let alive = state.step();
        if alive.is_ok() || state.operations_left == Some(0) {
            let grown =
                state.bytes() + (offset + bytes.len() as u64).saturating_sub(state.files[&self.id].live.len() as u64);
            if state.bytes_max.is_some_and(|max| grown > max) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let content = state.files.get_mut(&self.id).expect("files are never dropped");
            content.dirty.extend(offset as usize / BLOCK..(offset as usize + bytes.len()).div_ceil(BLOCK));
            let live = &mut content.live;
            let end = offset as usize + bytes.len();
            if live.len() < end {
                live.resize(end, 0);
            }
            live[offset as usize..end].copy_from_slice(bytes);
        }
        alive
    }

    fn length(&self) -> io::Result<u64> {
        let state = self.state.lock().expect("no test thread dies with the lock");
        Ok(state.files[&self.id].live.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock().expect("no test thread dies with the lock");
        state.step()?;
        let fails = std::mem::take(&mut state.fail_next_sync);
        let content = state.files.get_mut(&self.id).expect("files are never dropped");
        let dirty = std::mem::take(&mut content.dirty);
        if fails {
            return Err(io::Error::other("input/output error"));
        }
        content.synced.resize(content.live.len(), 0);
        for block in dirty {
            let range = block * BLOCK..((block + 1) * BLOCK).min(content.live.len());
            content.synced[range.clone()].copy_from_slice(&content.live[range]);
        }
        Ok(())
    }
}
