//! What the shipping code asks of a disk.

use std::io;
use std::sync::{Arc, Mutex};

use storage::{Disk, DiskFile};

use super::{BLOCK_BYTES, Content, Fuse, Renaming, SimDisk, SimFile, lock, power_cut, put_back};

impl Disk for SimDisk {
    type File = SimFile;

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let folder = lock(&self.folder);
        folder.check()?;
        let content = folder.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(SimFile { folder: Arc::clone(&self.folder), content: Arc::clone(content) })
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<SimFile> {
        let mut folder = lock(&self.folder);
        if folder.full {
            folder.counts.refused_full += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let content = Arc::new(Mutex::new(Content { length: bytes, ..Content::default() }));
        folder.change(Renaming::Created(name.to_string(), Arc::clone(&content)))?;
        Ok(SimFile { folder: Arc::clone(&self.folder), content })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut folder = lock(&self.folder);
        folder.check()?;
        if !folder.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        folder.change(Renaming::Removed(name.to_string()))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut folder = lock(&self.folder);
        folder.check()?;
        if !folder.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        folder.change(Renaming::Renamed(from.to_string(), to.to_string()))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let folder = lock(&self.folder);
        folder.check()?;
        Ok(folder.names.keys().cloned().collect())
    }

    fn sync_folder(&self) -> io::Result<()> {
        let mut folder = lock(&self.folder);
        if folder.burn()? == Fuse::Last {
            return Err(power_cut());
        }
        if std::mem::take(&mut folder.sync_fails) {
            return Err(io::Error::other("the simulated disk failed to sync the folder"));
        }
        folder.unsynced.clear();
        folder.durable = folder.names.clone();
        folder.counts.syncs += 1;
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut folder = lock(&self.folder);
        folder.check()?;
        let content = lock(&self.content);
        let end = offset.saturating_add(buffer.len() as u64);
        if end > content.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let blocks = offset / BLOCK_BYTES as u64..end.div_ceil(BLOCK_BYTES as u64);
        if content.unreadable.range(blocks).next().is_some() {
            folder.counts.failed_reads += 1;
            return Err(io::Error::other("the simulated disk cannot read a block"));
        }
        content.read(offset, buffer);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut folder = lock(&self.folder);
        let mut content = lock(&self.content);
        if folder.full && offset + bytes.len() as u64 > content.length {
            folder.counts.refused_full += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        if folder.burn()? == Fuse::Last {
            // The process dies within the write: any of its blocks may have got to the cache.
            let mut at = 0;
            while at < bytes.len() {
                let length = (BLOCK_BYTES - ((offset + at as u64) % BLOCK_BYTES as u64) as usize).min(bytes.len() - at);
                if folder.rng.chance(1, 2) {
                    content.write(offset + at as u64, &bytes[at..at + length]);
                }
                at += length;
            }
            return Err(power_cut());
        }
        content.write(offset, bytes);
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        lock(&self.folder).check()?;
        Ok(lock(&self.content).length)
    }

    fn sync(&self) -> io::Result<()> {
        let mut folder = lock(&self.folder);
        let folder = &mut *folder;
        let mut content = lock(&self.content);
        let content = &mut *content;
        if folder.burn()? == Fuse::Last {
            return Err(power_cut());
        }
        if std::mem::take(&mut folder.sync_fails) {
            // As Linux does it: the pages are marked clean, whether they got to the disk or not, and may be dropped.
            for (number, before) in std::mem::take(&mut content.before) {
                if folder.rng.chance(1, 2) {
                    put_back(&mut content.blocks, number, before);
                }
            }
            return Err(io::Error::other("the simulated disk failed to sync"));
        }
        content.before.clear();
        content.durable_length = content.length;
        folder.counts.syncs += 1;
        Ok(())
    }
}
