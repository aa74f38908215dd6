//! The ordered store on disk: fjall, an LSM library, behind our own words. Nothing of fjall's leaves this module.
//!
//! ```text
//! FOLDER/opening        how often opening it was begun without an end (a crash of fjall on damaged files)
//! FOLDER/room           written and removed when a failure may have been a full disk
//! FOLDER/lsm/           fjall's: a journal, a keyspace per space, one of marks
//! ```
//! Every batch also writes *marks*: its own number into each space that it changes, and the same per space, with the number of the
//! last batch of all, into a keyspace of marks. At open they must agree, so that a space which lost batches that the others kept
//! is noticed (`lsm/opening.rs`); `lsm/journal_check.rs` notices batches missing from the middle. What then can be missing is a suffix of all batches,
//! which the owner sees by what it wrote into space 0. `docs/decisions/2026-11-22-ordered-store.md` has what fjall does and does not do.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "fjall's files are outside of `Disk`")]

mod failures;
mod handles;
mod inner;
mod journal_check;
mod keys;
mod load;
mod opening;
mod rest;
mod sight;
#[cfg(test)]
mod tests;
mod verify;
mod view;
mod write_back;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use base::limits::FLUSH_AFTER;
use base::ordered::{OrderedBatch, OrderedError, OrderedLoad, OrderedWrite, Space};

use self::failures::disk_failure;
use self::inner::{Inner, TableName, Writer, check};
use self::load::Load;
pub use self::rest::SQUEEZE_BYTES_MAX;
pub use self::verify::{StoreProblem, StoreReport, StoreView, verify_store};

/// Longest value, in bytes. fjall takes less than 4 GiB and asserts it.
pub const ORDERED_VALUE_BYTES_MAX: usize = 1 << 30;
/// At rest, what was applied is written from memory to a table if it is at least this part of a memtable.
const UNTIDY_PART: u64 = 8;
/// fjall lets go of what a compaction has replaced when the second table after it is entered.
const TABLES_AFTER: u8 = 2;
/// So many are entered at one rest. With a level that is full each one may lead to a small compaction, and so to the next one, for ever.
const TABLES_AT_REST_MAX: u8 = 10;

/// What a store may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LsmOptions {
    /// Memory for blocks of tables, in bytes. fjall pins the indexes and filters of the upper levels beside it.
    pub cache_bytes: u64,
    /// A space's changes are sealed and written as a table when they take so many bytes of memory.
    pub memtable_bytes: u64,
    /// Tables have about this size on disk; the first sorted level has up to four times as much. A space keeps what it was created with.
    pub table_bytes: u64,
    /// Each time so many bytes were applied all spaces are written as tables, so that fjall can remove files of its journal. This
    /// bounds the memory of all spaces' changes together, and how much is read again at open: about twice as much, and 64 MiB.
    pub journal_bytes_max: u64,
    /// Values of at least so many bytes are kept beside the tables, so that compaction does not copy them. A space keeps what it was
    /// created with.
    pub separate_from_bytes: u32,
    /// Files that are kept open, at least 10.
    pub open_files_max: usize,
    /// Threads that write tables and compact them. Without any the store is only to be read. From 2 on fjall keeps one of them for writing tables,
    /// and as long as a compaction runs that one hands the order for another one on to itself, at full speed: a processor is lost meanwhile.
    pub threads: usize,
    /// The store is at rest when nothing was applied and compacted for so long: longer than whoever applies batches lets changes gather,
    /// or there is rest between any two of them.
    pub rest_after: Duration,
}

impl Default for LsmOptions {
    fn default() -> LsmOptions {
        LsmOptions {
            cache_bytes: 64 << 20,
            memtable_bytes: 32 << 20,
            table_bytes: 16 << 20,
            journal_bytes_max: 64 << 20,
            separate_from_bytes: 64 << 10,
            open_files_max: 900,
            threads: 1,
            rest_after: FLUSH_AFTER.saturating_mul(3) / 2,
        }
    }
}

/// What a store consists of, for people and for metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LsmStats {
    /// Spaces.
    pub spaces: usize,
    /// Tables of all spaces.
    pub tables: usize,
    /// Those of them in level 0: the ones that compaction still has to sort in.
    pub tables_level_0: usize,
    /// Files of separated values.
    pub value_files: usize,
    /// Memtables that wait to be written as tables.
    pub sealed_memtables: usize,
    /// Bytes of all memtables.
    pub memtable_bytes: u64,
    /// Bytes of blocks in the cache.
    pub cache_bytes: u64,
    /// What the cache may hold.
    pub cache_bytes_max: u64,
    /// Files of fjall's journal.
    pub journals: usize,
    /// Compactions that run now.
    pub compactions_running: usize,
    /// Compactions since the store was opened.
    pub compactions_done: usize,
}

/// An ordered store on disk. A clone is another handle; the store closes, and its folder can be opened again, when the last
/// handle and the last frozen view are gone.
///
/// After an error of [`LsmStore::apply`] or [`LsmStore::sync`] (other than one about keys or values) fjall takes no more batches, because
/// what the disk holds is unknown; reads go on. If the disk was full, or the cause is not known (a write in the background failed), the next
/// `apply` or `sync` closes fjall and opens it again, with all checks of [`LsmStore::open`], once
/// - there is room for a memtable's worth of bytes, and
/// - no frozen view is left: one that is keeps reading what it froze, and the store waits for it.
///
/// Only that opening (about as long as at a start) do readers of the store wait for. What fjall's journal then holds is written as tables before
/// the next `sync` counts: the disk may have lost pages of that journal without saying so a second time.
/// Any other failure leaves the store refusing batches until the process is started again.
#[derive(Clone)]
pub struct LsmStore {
    shared: Arc<Shared>,
}

struct Shared {
    /// Only [`Shared::reopen`] replaces it.
    current: RwLock<Current>,
    writer: Mutex<Writing>,
    folder: PathBuf,
    options: LsmOptions,
    /// See [`LsmStore::set_scarce`].
    scarce: AtomicBool,
}

enum Current {
    Open(Arc<Inner>),
    /// It was closed to be opened again, and that failed.
    Closed(OrderedError),
}

struct Writing {
    writer: Writer,
    /// What went wrong, if fjall has to be opened again before it takes batches.
    failed: Option<OrderedError>,
    /// That opening it again may help.
    curable: bool,
    /// Spaces that were changed since [`LsmStore::tidy`] last did something, and the bytes of the changes.
    untidy: BTreeSet<Space>,
    untidy_bytes: u64,
    /// What `tidy` has done.
    tidied: Option<Tidied>,
    /// What `tidy` saw when it looked last, the number of the last batch and the tables, and since when it has been the same.
    seen: Option<(u64, BTreeSet<TableName>, Instant)>,
    /// It was opened again, and what its journal held then is not known to be durable.
    doubtful: bool,
}

/// Spaces in which small tables were entered at rest.
struct Tidied {
    spaces: BTreeSet<Space>,
    /// The number of the last batch then: as long as there is none since, the store is at rest.
    number: u64,
    /// The tables before the last ones were entered. One that is not there any more has been replaced since.
    tables: BTreeSet<TableName>,
    /// So many more are due.
    left: u8,
    /// So many more may be entered at this rest.
    more: u8,
}

impl std::fmt::Debug for LsmStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LsmStore").field("folder", &self.shared.folder).field("stats", &self.stats()).finish()
    }
}

impl LsmStore {
    /// Opens the store in `folder`, which is made if it is not there and belongs to the store alone.
    ///
    /// What is found is a prefix of the batches that were applied, and all those that were synced unless the disk lost them.
    ///
    /// # Errors
    /// The folder cannot be used, is in use, or is damaged: then it can be removed, and what it held comes from elsewhere.
    pub fn open(folder: impl AsRef<Path>, options: LsmOptions) -> Result<LsmStore, OrderedError> {
        let folder = folder.as_ref().to_path_buf();
        let (inner, number) = Inner::open(&folder, options)?;
        let writer = Writing {
            writer: Writer { number, ..Writer::default() },
            failed: None,
            curable: false,
            untidy: BTreeSet::new(),
            untidy_bytes: 0,
            tidied: None,
            seen: None,
            doubtful: false,
        };
        let current = RwLock::new(Current::Open(Arc::new(inner)));
        let scarce = AtomicBool::new(false);
        Ok(LsmStore { shared: Arc::new(Shared { current, writer: Mutex::new(writer), folder, options, scarce }) })
    }

    /// Applies a batch, as a whole or not at all; of use on a thread of its own, because it waits while tables are written and
    /// compacted. Batches that are applied by several threads at once get some order.
    ///
    /// Dropping a space makes this and all batches before it durable first, so that no crash leaves the drop without the batch.
    ///
    /// # Errors
    /// A key or value is too long (nothing was changed); the disk fails or is full (see [`LsmStore`]): whether the batch was applied shows
    /// when a later one succeeds.
    pub fn apply(&self, batch: &OrderedBatch) -> Result<(), OrderedError> {
        check(&batch.changes)?;
        self.shared.write(|inner, writing| {
            if writing.doubtful && !batch.dropped.is_empty() {
                // The drop makes everything durable, so it must be.
                inner.flush()?;
                writing.doubtful = false;
            }
            inner.apply(&mut writing.writer, batch)?;
            let mut last = None;
            for (space, _, _) in batch.changes.iter() {
                if last.replace(space) != Some(space) {
                    writing.untidy.insert(space);
                }
            }
            writing.untidy_bytes += batch.bytes() as u64;
            Ok(())
        })
    }

    /// Makes all batches that were applied durable.
    ///
    /// # Errors
    /// The disk fails or is full (see [`LsmStore`]).
    pub fn sync(&self) -> Result<(), OrderedError> {
        self.shared.write(|inner, writing| {
            if writing.doubtful {
                inner.flush()?;
                writing.doubtful = false;
            }
            inner.sync()
        })
    }

    /// Writes all memtables as tables, and waits for it. Not needed for durability.
    ///
    /// # Errors
    /// The disk fails or is full (see [`LsmStore`]).
    pub fn flush(&self) -> Result<(), OrderedError> {
        self.shared.write(|inner, writing| {
            inner.flush()?;
            writing.doubtful = false;
            Ok(())
        })
    }

    /// Whether there is too little room on the disk. As long as that is so, [`LsmStore::tidy`] gives back the room of whatever was removed, however little was
    /// written to remove it, and as soon as nothing is applied.
    pub fn set_scarce(&self, scarce: bool) {
        self.shared.scarce.store(scarce, Ordering::Relaxed);
    }

    /// Compacts what is due, and gives back disk space while nothing is to be done; to be called about once a second, by a thread that may wait.
    /// True if it did something for the store at rest.
    ///
    /// fjall looks for one thing to compact each time that it has written a table, and for nothing in between: what it leaves is done here, beside
    /// whoever applies batches. The store is at rest if nothing was applied and compacted since the last call, and for [`LsmOptions::rest_after`].
    /// Then, if an eighth of a memtable was applied since it was last done,
    /// - what is overwritten and removed but still there goes, where it may be a fifth of a space or more (in spaces of up to [`SQUEEZE_BYTES_MAX`]), and
    /// - a few small tables are entered in every space that was changed, until nothing is compacted after them: fjall keeps the tables that a compaction
    ///   has replaced until then.
    ///
    /// # Errors
    /// The disk fails or is full (see [`LsmStore`]). A compaction that fails changes nothing, and the store goes on taking batches.
    pub fn tidy(&self) -> Result<bool, OrderedError> {
        // A store whose background has failed is left to whoever applies the next batch.
        if self.shared.writer.try_lock().is_ok_and(|writing| writing.failed.is_some()) {
            return Ok(false);
        }
        let inner = self.shared.read(|inner| Ok(Arc::clone(inner)))?;
        inner.compact_what_is_due()?;
        drop(inner);
        // Whoever writes is not at rest.
        let Ok(mut writing) = self.shared.writer.try_lock() else { return Ok(false) };
        let scarce = self.shared.scarce.load(Ordering::Relaxed);
        let due = match scarce {
            true => !writing.untidy.is_empty(),
            false => writing.untidy_bytes >= self.shared.options.memtable_bytes / UNTIDY_PART,
        };
        if writing.failed.is_some() || !due && writing.tidied.is_none() {
            return Ok(false);
        }
        let (stats, tables) = self.shared.read(|inner| Ok((inner.stats(), inner.tables())))?;
        let number = writing.writer.number;
        let same = writing.seen.take().filter(|(then, before, _)| (*then, before) == (number, &tables));
        let since = same.map(|(_, _, since)| since);
        writing.seen = Some((number, tables.clone(), since.unwrap_or_else(Instant::now)));
        let rests = writing.tidied.as_ref().is_some_and(|tidied| tidied.number == number);
        let after = if rests || scarce { Duration::ZERO } else { self.shared.options.rest_after };
        let quiet = since.is_some_and(|since| since.elapsed() >= after);
        if !quiet || stats.compactions_running > 0 || stats.sealed_memtables > 0 {
            return Ok(false);
        }
        if !due {
            let Some(tidied) = writing.tidied.take() else { return Ok(false) };
            let left = if tidied.tables.is_subset(&tables) { tidied.left } else { TABLES_AFTER };
            drop(writing);
            if left == 0 || tidied.more == 0 {
                return Ok(false);
            }
            return self.touch(tidied.spaces, tables, left - 1, tidied.more - 1).map(|()| true);
        }
        let spaces = std::mem::take(&mut writing.untidy);
        writing.untidy_bytes = 0;
        drop(writing);
        self.touch(spaces.clone(), tables, TABLES_AFTER, TABLES_AT_REST_MAX - 1)?;
        // Without the writer's lock: a batch that comes now does not wait.
        let inner = self.shared.read(|inner| Ok(Arc::clone(inner)))?;
        inner.squeeze(&spaces, scarce)?;
        let tables = inner.tables();
        // With it the store could not be opened again, should that be needed.
        drop(inner);
        self.touch(spaces, tables, TABLES_AFTER - 1, TABLES_AT_REST_MAX - 2)?;
        Ok(true)
    }

    /// Enters a small table in each of these spaces. `left` more are due then; all over again, but `more` at most, if one of `tables` is replaced: those that
    /// are there now.
    fn touch(
        &self,
        spaces: BTreeSet<Space>,
        tables: BTreeSet<TableName>,
        left: u8,
        more: u8,
    ) -> Result<(), OrderedError> {
        self.shared.write(|inner, writing| {
            inner.touch(&mut writing.writer, &spaces)?;
            writing.tidied = Some(Tidied { spaces, number: writing.writer.number, tables, left, more });
            Ok(())
        })
    }

    /// The spaces that exist: written at least once, and not dropped. Ascending.
    #[must_use]
    pub fn spaces(&self) -> Vec<Space> {
        self.shared.read(|inner| Ok(inner.spaces().keys().copied().collect())).unwrap_or_default()
    }

    /// Drops all spaces but these, durably: what is done after opening, when the owner has read what it needs.
    ///
    /// # Errors
    /// As [`LsmStore::apply`].
    pub fn retain_spaces(&self, kept: &[Space]) -> Result<(), OrderedError> {
        let kept: BTreeSet<Space> = kept.iter().copied().collect();
        let dropped: Vec<Space> = self.spaces().into_iter().filter(|space| !kept.contains(space)).collect();
        if dropped.is_empty() {
            return Ok(());
        }
        self.apply(&OrderedBatch { dropped, ..OrderedBatch::default() })
    }

    /// Bytes that the folder takes on the disk, with what is about to be removed.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn disk_bytes(&self) -> Result<u64, OrderedError> {
        folder_bytes(&self.shared.folder).map_err(|error| disk_failure("be measured", &error))
    }

    /// What the store consists of now.
    #[must_use]
    pub fn stats(&self) -> LsmStats {
        self.shared.read(|inner| Ok(inner.stats())).unwrap_or_default()
    }
}

impl OrderedWrite for LsmStore {
    fn apply(&self, batch: &OrderedBatch) -> Result<(), OrderedError> {
        LsmStore::apply(self, batch)
    }

    fn sync(&self) -> Result<(), OrderedError> {
        LsmStore::sync(self)
    }

    fn spaces(&self) -> Vec<Space> {
        LsmStore::spaces(self)
    }

    fn retain_spaces(&self, kept: &[Space]) -> Result<(), OrderedError> {
        LsmStore::retain_spaces(self, kept)
    }

    fn begin_load(&self, space: Space) -> Result<Box<dyn OrderedLoad>, OrderedError> {
        Ok(Box::new(Load::begin(self.clone(), space)?))
    }
}

impl Shared {
    fn current(&self) -> RwLockReadGuard<'_, Current> {
        // Nothing but a replacement of the whole is done under the lock for writing.
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the open database. It stays open meanwhile.
    fn read<T>(&self, read: impl FnOnce(&Arc<Inner>) -> Result<T, OrderedError>) -> Result<T, OrderedError> {
        match &*self.current() {
            Current::Open(inner) => read(inner),
            Current::Closed(error) => Err(error.clone()),
        }
    }

    /// Runs `write`, after the store was opened again if it has to be, and remembers whether it has to be the next time.
    fn write(&self, write: impl FnOnce(&Inner, &mut Writing) -> Result<(), OrderedError>) -> Result<(), OrderedError> {
        // A panic in fjall under this lock leaves its own state poisoned, which is asked for at every batch.
        let mut writing = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &writing.failed {
            if !writing.curable {
                return Err(error.clone());
            }
            self.reopen(&mut writing)?;
        }
        // Not under the guard: it may take long, and nobody else replaces what is open.
        let inner = self.read(|inner| Ok(Arc::clone(inner)))?;
        let written = write(&inner, &mut writing);
        if let Err(error) = &written {
            writing.curable = error.full || inner.has_failed_unseen();
            writing.failed = Some(error.clone());
        }
        written
    }

    /// Closes fjall's database and opens it again.
    fn reopen(&self, writing: &mut MutexGuard<'_, Writing>) -> Result<(), OrderedError> {
        // Readers go on while it is tried whether there is room: a database that was closed for nothing could not be read.
        let open = self.read(|inner| Ok(Arc::clone(inner))).ok();
        if open.is_some_and(|inner| inner.is_disk_full()) {
            return Err(full("there is still too little room on the disk"));
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if let Current::Open(inner) = &*current
            && Arc::strong_count(inner) > 1
        {
            // Handles are made under the lock, so there can only be fewer from here on.
            let views = Arc::strong_count(inner) - 1;
            return Err(full(&format!("{views} frozen views have to end before it is opened again")));
        }
        // It closes here.
        *current = Current::Closed(full("it is closed"));
        let opened = Inner::open(&self.folder, self.options).and_then(|(inner, number)| {
            // The batch that failed may be there as a whole. None that had succeeded can be missing.
            let expected = writing.writer.number..=writing.writer.number + 1;
            if expected.contains(&number) {
                return Ok((inner, number));
            }
            Err(failures::damaged(&format!("after batch {} it ends with batch {number}", expected.start())))
        });
        match opened {
            Ok((inner, number)) => {
                *current = Current::Open(Arc::new(inner));
                writing.writer = Writer { number, ..Writer::default() };
                writing.failed = None;
                writing.doubtful = true;
                Ok(())
            }
            Err(error) => {
                *current = Current::Closed(error.clone());
                writing.curable = error.full;
                writing.failed = Some(error.clone());
                Err(error)
            }
        }
    }
}

fn full(why: &str) -> OrderedError {
    OrderedError { text: format!("the ordered store takes no batches since the disk was full: {why}"), full: true }
}

fn folder_bytes(folder: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let inside = entry.metadata().and_then(|metadata| {
            if metadata.is_dir() { folder_bytes(&entry.path()) } else { Ok(metadata.blocks() * 512) }
        });
        match inside {
            Ok(inside) => bytes += inside,
            // Tables come and go meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}
