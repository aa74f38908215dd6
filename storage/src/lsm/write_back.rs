//! Lets what fjall writes go to the disk bit by bit.
//!
//! A flush writes up to 64 MiB into the page cache within some milliseconds, and a table is synced when it is whole: up to 32 MiB. Synced as a whole they would
//! stand in the disk's queue in front of the node's journal, and every write of the cluster would wait for them.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "fjall's files are outside of `Disk`")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fjall::{AbstractTree, Keyspace};
use rustix::fs::{Advice, SeekFrom, fadvise, seek};

/// So much is given to the disk at once.
const PIECE: NonZeroU64 = NonZeroU64::new(1 << 20).expect("not zero");
/// And then nothing for so long: a disk that takes 100 MB in a second keeps up, and has time for others in between if it is quicker.
const PAUSE: Duration = Duration::from_millis(10);

/// Where in the newest file of fjall's journal the part begins that was not given to the disk yet.
#[derive(Default)]
pub(super) struct WrittenBack {
    file: PathBuf,
    bytes: u64,
}

impl WrittenBack {
    /// Gives what the newest file of the journal in `folder` holds to the disk, piece by piece. That is a hint: what fails here is met again by the sync.
    pub fn advance(&mut self, folder: &Path) {
        let _ = self.try_advance(folder);
    }

    fn try_advance(&mut self, folder: &Path) -> io::Result<()> {
        let Some(path) = newest_journal(folder)? else { return Ok(()) };
        if path != self.file {
            *self = WrittenBack { file: path, bytes: 0 };
        }
        let file = File::open(&self.file)?;
        // fjall makes the file longer than what it holds.
        let end = seek(&file, SeekFrom::Hole(self.bytes))?;
        while self.bytes < end {
            start_writing(&file, self.bytes, PIECE)?;
            self.bytes = end.min(self.bytes + PIECE.get());
            thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Linux starts to write what is changed in this part of the file, and keeps it in memory: only what is on the disk already is let go.
fn start_writing(file: &File, from: u64, bytes: NonZeroU64) -> io::Result<()> {
    Ok(fadvise(file, from, Some(bytes), Advice::DontNeed)?)
}

/// How often it is looked whether tables have grown, while some do.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// And while none does.
const IDLE_EVERY: Duration = Duration::from_millis(50);
/// A table that has not grown for so many looks is whole, or was given up.
const LOOKS_MAX: u32 = 400;

/// Follows the tables that fjall writes, on a thread of its own.
pub(super) struct TableFollower {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A table that is being written.
struct Growing {
    file: File,
    bytes: u64,
    /// Looks since it has grown.
    looks: u32,
}

impl TableFollower {
    /// `keyspaces` gives those that there are at the moment.
    pub fn start(keyspaces: impl Fn() -> Vec<Keyspace> + Send + 'static) -> io::Result<TableFollower> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name("table-follower".to_owned()).spawn(move || {
            let mut following = Following::default();
            let mut pause = IDLE_EVERY;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                following.look(&keyspaces());
                pause = if following.tables.is_empty() { IDLE_EVERY } else { LOOK_EVERY };
            }
        })?;
        Ok(TableFollower { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for TableFollower {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It cannot fail otherwise than by a panic, which said so itself.
            let _ = thread.join();
        }
    }
}

#[derive(Default)]
struct Following {
    /// By keyspace: the number of the first table that was not looked for yet.
    next: BTreeMap<u64, u64>,
    tables: BTreeMap<PathBuf, Growing>,
}

impl Following {
    fn look(&mut self, keyspaces: &[Keyspace]) {
        self.next.retain(|id, _| keyspaces.iter().any(|keyspace| keyspace.id() == *id));
        for keyspace in keyspaces {
            // A count of fjall's own: no lock is taken.
            let next = keyspace.tree.next_table_id();
            let from = self.next.get(&keyspace.id()).copied().unwrap_or(next);
            let mut seen = next;
            for number in from..next {
                let path = keyspace.path().join("tables").join(number.to_string());
                match File::open(&path) {
                    Ok(file) => {
                        self.tables.insert(path, Growing { file, bytes: 0, looks: 0 });
                    }
                    // The newest has its number before it has a file.
                    Err(_) if number + 1 == next => seen = number,
                    // It is gone already, or was never written.
                    Err(_) => {}
                }
            }
            self.next.insert(keyspace.id(), seen);
        }
        self.tables.retain(|_, table| table.advance().is_ok_and(|()| table.looks < LOOKS_MAX));
    }
}

impl Growing {
    fn advance(&mut self) -> io::Result<()> {
        let bytes = self.file.metadata()?.len();
        match NonZeroU64::new(bytes.saturating_sub(self.bytes)) {
            Some(new) => {
                start_writing(&self.file, self.bytes, new)?;
                (self.bytes, self.looks) = (bytes, 0);
            }
            None => self.looks += 1,
        }
        Ok(())
    }
}

fn newest_journal(folder: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest = None;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "jnl") {
            continue;
        }
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        newest = newest.max(number.map(|number| (number, path)));
    }
    Ok(newest.map(|(_, path)| path))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn goes_on_where_it_was_and_with_the_newest_file() {
        let folder = std::env::temp_dir().join(format!("dictum-write-back-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut written = WrittenBack::default();
        written.advance(&folder);
        assert_eq!(written.file, PathBuf::new());
        for (number, megabytes) in [(9, 1), (10, 2)] {
            let mut file = File::create(folder.join(format!("{number}.jnl"))).unwrap();
            file.set_len(64 << 20).unwrap();
            for total in 1..=megabytes {
                file.write_all(&vec![7; 1 << 20]).unwrap();
                written.advance(&folder);
                assert_eq!((&written.file, written.bytes), (&folder.join(format!("{number}.jnl")), total << 20));
            }
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
