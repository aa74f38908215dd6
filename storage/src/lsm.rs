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
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "fjall's files are outside of `Disk`; whoever applies may sleep, on a thread of its own"
)]

mod handles;
mod journal_check;
mod keys;
mod opening;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use base::ordered::{OrderedBatch, OrderedError, Space};
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode, Snapshot};

use self::handles::{Handle, Remover};
use self::opening::{check_marks, delete_keyspaces, prepare_folder};
use self::view::Spaces;
use crate::disk::is_full;
use crate::memory::check_keys;

/// Longest value, in bytes. fjall takes less than 4 GiB and asserts it.
pub const ORDERED_VALUE_BYTES_MAX: usize = 1 << 30;
/// fjall sleeps 100 ms at a time with four sealed memtables in a space; writers wait here, in small steps, for fewer than this.
const SEALED_MEMTABLES_MAX: usize = 2;
/// fjall stops writers at thirty runs of tables in a space's level 0; they wait here for fewer than this.
const LEVEL_0_TABLES_MAX: usize = 16;
/// How long a writer sleeps before it looks again.
const HOLD_BACK: Duration = Duration::from_millis(1);
/// So many times in a row may opening end in a crash before the files are called damaged.
const CRASHES_MAX: u8 = 3;

/// What a store may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LsmOptions {
    /// Memory for blocks of tables, in bytes. fjall pins the indexes and filters of the upper levels beside it.
    pub cache_bytes: u64,
    /// A space's changes are sealed and written as a table when they take so many bytes of memory.
    pub memtable_bytes: u64,
    /// Each time so many bytes were applied all spaces are written as tables, so that fjall can remove files of its journal. This
    /// bounds the memory of all spaces' changes together, and how much is read again at open: about twice as much, and 64 MiB.
    pub journal_bytes_max: u64,
    /// Values of at least so many bytes are kept beside the tables, so that compaction does not copy them. A space keeps what it was
    /// created with.
    pub separate_from_bytes: u32,
    /// Files that are kept open, at least 10.
    pub open_files_max: usize,
    /// Threads that write tables and compact them, at least 1; from 2 on one of them prefers writing tables.
    pub threads: usize,
}

impl Default for LsmOptions {
    fn default() -> LsmOptions {
        LsmOptions {
            cache_bytes: 64 << 20,
            memtable_bytes: 32 << 20,
            journal_bytes_max: 64 << 20,
            separate_from_bytes: 64 << 10,
            open_files_max: 900,
            threads: 2,
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
/// After an error of [`LsmStore::apply`] or [`LsmStore::sync`] (other than one about keys or values) no more batches are taken until the
/// store is opened again, because what the disk holds is unknown; reads go on.
#[derive(Clone)]
pub struct LsmStore {
    inner: Arc<Inner>,
}

/// The fields are dropped in this order: handles, then what removes them, then the database.
pub(crate) struct Inner {
    spaces: RwLock<Spaces>,
    marks: Keyspace,
    writer: Mutex<Writer>,
    remover: Remover,
    database: Database,
    folder: PathBuf,
    options: LsmOptions,
}

/// What the batches' order needs. One at a time has it.
struct Writer {
    /// The number of the last batch.
    number: u64,
    /// Bytes applied since quiet spaces were last written for the journal's sake.
    bytes_since_relief: u64,
}

impl std::fmt::Debug for LsmStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LsmStore").field("folder", &self.inner.folder).field("stats", &self.stats()).finish()
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
        let disk = |error: io::Error| disk_failure("be opened", &error);
        fs::create_dir_all(&folder).map_err(disk)?;
        let lsm = folder.join("lsm");
        let opening = folder.join("opening");
        let crashes = match fs::read(&opening) {
            Ok(bytes) => bytes.first().copied().unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(disk(error)),
        };
        if crashes >= CRASHES_MAX {
            return Err(damaged(&format!("opening it has crashed {crashes} times in a row")));
        }
        let journal = prepare_folder(&lsm)?;
        fs::write(&opening, [crashes + 1]).map_err(disk)?;
        let opened = Inner::open(folder, &lsm, options, journal);
        // Only a crash of the process itself is counted; this one has come back.
        fs::remove_file(&opening).map_err(disk)?;
        Ok(LsmStore { inner: Arc::new(opened?) })
    }

    /// Applies a batch, as a whole or not at all; of use on a thread of its own, because it waits while tables are written and
    /// compacted. Batches that are applied by several threads at once get some order.
    ///
    /// Dropping a space makes this and all batches before it durable first, so that no crash leaves the drop without the batch.
    ///
    /// # Errors
    /// A key or value is too long (nothing was changed); the disk fails or is full (see [`LsmStore`]).
    pub fn apply(&self, batch: &OrderedBatch) -> Result<(), OrderedError> {
        self.inner.apply(batch)
    }

    /// Makes all batches that were applied durable.
    ///
    /// # Errors
    /// The disk fails or is full (see [`LsmStore`]).
    pub fn sync(&self) -> Result<(), OrderedError> {
        self.inner.database.persist(PersistMode::SyncAll).map_err(|error| self.inner.write_failure("be synced", &error))
    }

    /// Writes all memtables as tables, and waits for it. Not needed for durability.
    ///
    /// # Errors
    /// The disk fails or is full (see [`LsmStore`]).
    pub fn flush(&self) -> Result<(), OrderedError> {
        let inner = &self.inner;
        let mut keyspaces: Vec<Keyspace> = inner.spaces().values().map(|handle| handle.keyspace.clone()).collect();
        keyspaces.push(inner.marks.clone());
        for keyspace in &keyspaces {
            keyspace.rotate_memtable().map_err(|error| inner.write_failure("be flushed", &error))?;
        }
        while keyspaces.iter().any(|keyspace| keyspace.sealed_memtable_count() > 0) {
            inner.wait_a_little()?;
        }
        Ok(())
    }

    /// The spaces that exist: written at least once, and not dropped. Ascending.
    #[must_use]
    pub fn spaces(&self) -> Vec<Space> {
        self.inner.spaces().keys().copied().collect()
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
        self.apply(&OrderedBatch { dropped, changes: Vec::new() })
    }

    /// Bytes that the folder takes on the disk, with what is about to be removed.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn disk_bytes(&self) -> Result<u64, OrderedError> {
        folder_bytes(&self.inner.folder).map_err(|error| disk_failure("be measured", &error))
    }

    /// What the store consists of now.
    #[must_use]
    pub fn stats(&self) -> LsmStats {
        let inner = &self.inner;
        let spaces = inner.spaces();
        let mut stats = LsmStats {
            spaces: spaces.len(),
            memtable_bytes: inner.database.write_buffer_size(),
            cache_bytes: inner.database.cache_size(),
            cache_bytes_max: inner.database.cache_capacity(),
            journals: inner.database.journal_count(),
            compactions_running: inner.database.active_compactions(),
            compactions_done: inner.database.compactions_completed(),
            ..LsmStats::default()
        };
        for keyspace in spaces.values().map(|handle| &handle.keyspace).chain([&inner.marks]) {
            stats.tables += keyspace.table_count();
            stats.tables_level_0 += keyspace.l0_table_count();
            stats.value_files += keyspace.blob_file_count();
            stats.sealed_memtables += keyspace.sealed_memtable_count();
        }
        stats
    }
}

impl Inner {
    fn open(
        folder: PathBuf,
        lsm: &Path,
        options: LsmOptions,
        journal: journal_check::Checked,
    ) -> Result<Inner, OrderedError> {
        let opening = |error: fjall::Error| failure("be opened", &error);
        let database = Database::builder(lsm)
            .cache_size(options.cache_bytes)
            .max_journaling_size(u64::MAX)
            .max_cached_files(Some(options.open_files_max.max(10)))
            .worker_threads(options.threads.max(1))
            .open()
            .map_err(opening)?;
        let remover = Remover::new().map_err(|error| disk_failure("be opened", &error))?;
        let create = || keyspace_options(&options);
        let marks = database.keyspace(keys::MARKS_NAME, create).map_err(opening)?;
        let mut spaces = BTreeMap::new();
        for name in database.list_keyspace_names() {
            let Some(space) = keys::space(&name) else { continue };
            let keyspace = database.keyspace(&name, create).map_err(opening)?;
            spaces.insert(space, Arc::new(Handle::new(keyspace, &remover)));
        }
        let (number, unused) = check_marks(&spaces, &marks, journal)?;
        let unused: Vec<Arc<Handle>> = unused.iter().filter_map(|space| spaces.remove(space)).collect();
        let keyspaces = unused.iter().map(|handle| handle.keyspace.clone()).collect();
        delete_keyspaces(&database, keyspaces, &options).map_err(opening)?;
        unused.iter().for_each(|handle| handle.set_dropped());
        drop(unused);
        let spaces = RwLock::new(Arc::new(spaces));
        let writer = Mutex::new(Writer { number, bytes_since_relief: 0 });
        Ok(Inner { spaces, marks, writer, remover, database, folder, options })
    }

    fn spaces(&self) -> Spaces {
        Arc::clone(&self.spaces.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn space(&self, space: Space) -> Option<Arc<Handle>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner).get(&space).cloned()
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panic in fjall under this lock leaves its own state poisoned, which is asked for at every batch.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A snapshot with the spaces that it knows. Under the lock no space is dropped between the two, and a new one enters the map
    /// before the batch that writes it.
    fn snapshot(&self) -> (Snapshot, Spaces) {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        (self.database.snapshot(), Arc::clone(&spaces))
    }

    fn change_spaces(&self, change: impl FnOnce(&mut BTreeMap<Space, Arc<Handle>>)) {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = BTreeMap::clone(&spaces);
        change(&mut changed);
        *spaces = Arc::new(changed);
    }

    /// The handle of a space that is about to be written.
    fn space_or_new(&self, space: Space) -> Result<Arc<Handle>, OrderedError> {
        if let Some(handle) = self.space(space) {
            return Ok(handle);
        }
        let keyspace = self.database.keyspace(&keys::name(space), || keyspace_options(&self.options));
        let keyspace = keyspace.map_err(|error| self.write_failure("make a space", &error))?;
        let handle = Arc::new(Handle::new(keyspace, &self.remover));
        self.change_spaces(|spaces| {
            spaces.insert(space, Arc::clone(&handle));
        });
        Ok(handle)
    }

    fn apply(&self, batch: &OrderedBatch) -> Result<(), OrderedError> {
        check_keys(batch)?;
        check_values(batch)?;
        let mut writer = self.writer();
        let dropped: BTreeSet<Space> = batch.dropped.iter().copied().collect();
        let changes = effective_changes(batch, &dropped);
        let mut handles: BTreeMap<Space, Arc<Handle>> = BTreeMap::new();
        for (space, _, value) in &changes {
            if handles.contains_key(space) {
                continue;
            }
            match (self.space(*space), value) {
                (Some(handle), _) => handles.insert(*space, handle),
                (None, Some(_)) => handles.insert(*space, self.space_or_new(*space)?),
                // Nothing can be removed from what does not exist.
                (None, None) => None,
            };
        }
        self.hold_back(&handles)?;
        self.relieve_journal(&mut writer, batch.bytes() as u64)?;

        let number = writer.number + 1;
        let mark = number.to_le_bytes();
        let mut writes = fjall::OwnedWriteBatch::with_capacity(self.database.clone(), changes.len() + 8)
            .durability(Some(PersistMode::Buffer));
        for (space, key, value) in changes {
            let Some(handle) = handles.get(&space) else { continue };
            match value {
                Some(value) => writes.insert(&handle.keyspace, &*keys::encode(key), value),
                None => writes.remove(&handle.keyspace, &*keys::encode(key)),
            }
        }
        for (space, handle) in &handles {
            writes.insert(&handle.keyspace, keys::SPACE_MARK, mark);
            writes.insert(&self.marks, keys::mark_of(*space), mark);
        }
        for space in &dropped {
            writes.remove(&self.marks, keys::mark_of(*space));
        }
        writes.insert(&self.marks, keys::LAST_MARK, mark);
        writes.commit().map_err(|error| self.write_failure("be written", &error))?;
        writer.number = number;
        self.seal_full_memtables(&handles)?;
        if dropped.is_empty() {
            return Ok(());
        }
        self.database.persist(PersistMode::SyncAll).map_err(|error| self.write_failure("be synced", &error))?;
        self.drop_spaces(&dropped)
    }

    fn drop_spaces(&self, dropped: &BTreeSet<Space>) -> Result<(), OrderedError> {
        let handles: Vec<(Space, Arc<Handle>)> =
            dropped.iter().filter_map(|space| Some((*space, self.space(*space)?))).collect();
        let keyspaces: Vec<Keyspace> = handles.iter().map(|(_, handle)| handle.keyspace.clone()).collect();
        delete_keyspaces(&self.database, keyspaces, &self.options)
            .map_err(|error| self.write_failure("drop a space", &error))?;
        handles.iter().for_each(|(_, handle)| handle.set_dropped());
        self.change_spaces(|spaces| spaces.retain(|space, _| !dropped.contains(space)));
        Ok(())
    }

    /// Waits until fjall can take a batch without stopping the writer in its own, coarser way.
    fn hold_back(&self, handles: &BTreeMap<Space, Arc<Handle>>) -> Result<(), OrderedError> {
        let busy = |keyspace: &Keyspace| {
            keyspace.sealed_memtable_count() >= SEALED_MEMTABLES_MAX || keyspace.l0_table_count() >= LEVEL_0_TABLES_MAX
        };
        while handles.values().map(|handle| &handle.keyspace).chain([&self.marks]).any(busy) {
            self.wait_a_little()?;
        }
        Ok(())
    }

    /// Seals memtables that have grown enough.
    ///
    /// fjall would do it too, by a message to its threads for every batch that finds the memtable too large, into a queue of 1000
    /// into which those threads themselves then put the order to write it, and wait if it is full: all of them may wait for ever.
    fn seal_full_memtables(&self, handles: &BTreeMap<Space, Arc<Handle>>) -> Result<(), OrderedError> {
        for keyspace in handles.values().map(|handle| &handle.keyspace).chain([&self.marks]) {
            if keyspace.tree.active_memtable().size() >= self.options.memtable_bytes {
                keyspace.rotate_memtable().map_err(|error| self.write_failure("be written", &error))?;
            }
        }
        Ok(())
    }

    /// Seals the memtables of all spaces each time the journal has grown by enough: a file of it goes when all that it holds is in
    /// tables, and a quiet space would keep it for ever. fjall would only begin to do so when some memtable is written anyway.
    fn relieve_journal(&self, writer: &mut Writer, bytes: u64) -> Result<(), OrderedError> {
        writer.bytes_since_relief += bytes;
        if writer.bytes_since_relief < self.options.journal_bytes_max {
            return Ok(());
        }
        writer.bytes_since_relief = 0;
        for handle in self.spaces().values() {
            handle.keyspace.rotate_memtable().map_err(|error| self.write_failure("be written", &error))?;
        }
        self.marks.rotate_memtable().map_err(|error| self.write_failure("be written", &error))?;
        Ok(())
    }

    /// Sleeps, unless fjall has given up: then nothing that is waited for will come.
    fn wait_a_little(&self) -> Result<(), OrderedError> {
        std::thread::sleep(HOLD_BACK);
        self.database.persist(PersistMode::Buffer).map_err(|error| self.write_failure("be written", &error))
    }

    /// An error of writing. When one of fjall's own threads failed, only the fact is known here, so the disk is tried.
    fn write_failure(&self, doing: &str, error: &fjall::Error) -> OrderedError {
        let mut failure = failure(doing, error);
        if matches!(error, fjall::Error::Poisoned) {
            failure.text = format!("the ordered store could not {doing}: an earlier write in the background failed");
            failure.full = self.is_disk_full();
        }
        failure
    }

    /// Whether there is no room for another memtable's worth of bytes.
    fn is_disk_full(&self) -> bool {
        let path = self.folder.join("room");
        let chunk = vec![1; 1 << 20];
        let write = || {
            let mut file = File::create(&path)?;
            for _ in 0..self.options.memtable_bytes.div_ceil(chunk.len() as u64) {
                file.write_all(&chunk)?;
            }
            file.sync_data()
        };
        let full = write().is_err_and(|error| is_full(&error));
        // Best effort: it is made anew each time.
        let _ = fs::remove_file(&path);
        full
    }
}

fn keyspace_options(options: &LsmOptions) -> KeyspaceCreateOptions {
    let separation = KvSeparationOptions::default().separation_threshold(options.separate_from_bytes);
    KeyspaceCreateOptions::default().max_memtable_size(u64::MAX).with_kv_separation(Some(separation))
}

/// A space, a key of it, and its new value if it has one.
type Change<'a> = (Space, &'a [u8], Option<&'a [u8]>);

/// The changes that count: the last one for each key, none to spaces that are dropped with the batch; sorted, which fjall's
/// memtables take faster. fjall numbers a batch's changes alike, so two for one key would have no order.
fn effective_changes<'a>(batch: &'a OrderedBatch, dropped: &BTreeSet<Space>) -> Vec<Change<'a>> {
    let mut changes: Vec<Change<'a>> = batch
        .changes
        .iter()
        .rev()
        .filter(|(space, _, _)| !dropped.contains(space))
        .map(|(space, key, value)| (*space, key.as_slice(), value.as_deref()))
        .collect();
    changes.sort_by_key(|(space, key, _)| (*space, *key));
    changes.dedup_by_key(|(space, key, _)| (*space, *key));
    changes
}

fn check_values(batch: &OrderedBatch) -> Result<(), OrderedError> {
    let lengths = batch.changes.iter().map(|(_, _, value)| value.as_ref().map_or(0, Vec::len));
    let longest = lengths.max().unwrap_or(0);
    if longest <= ORDERED_VALUE_BYTES_MAX {
        return Ok(());
    }
    let text = format!("a value of {longest} bytes is longer than the store takes ({ORDERED_VALUE_BYTES_MAX})");
    Err(OrderedError { text, full: false })
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

fn damaged(text: &str) -> OrderedError {
    OrderedError { text: format!("the ordered store is damaged: {text}"), full: false }
}

fn disk_failure(doing: &str, error: &io::Error) -> OrderedError {
    OrderedError { text: format!("the ordered store could not {doing}: {error}"), full: is_full(error) }
}

/// What fjall says, in our words: the error under it, where there is one from the disk.
fn failure(doing: &str, error: &fjall::Error) -> OrderedError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<io::Error>() {
            return disk_failure(doing, error);
        }
        cause = inner.source();
    }
    OrderedError { text: format!("the ordered store could not {doing}: {error}"), full: false }
}
