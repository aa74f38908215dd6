//! fjall's database while it is open: spaces, marks, and the way of a batch into them.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "fjall's files are outside of `Disk`; whoever applies may sleep, on a thread of its own"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base::ordered::{Changes, OrderedBatch, OrderedError, PackedChange, Space};
use byteview::ByteView;
use fjall::compaction::Leveled;
use fjall::config::PinningPolicy;
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode, Snapshot};

use super::failures::{damaged, disk_failure, failure};
use super::handles::{Handle, Remover};
use super::opening::{check_marks, delete_keyspaces, prepare_folder};
use super::view::Spaces;
use super::write_back::{TableFollower, WrittenBack};
use super::{LsmOptions, LsmStats, ORDERED_VALUE_BYTES_MAX, journal_check, keys};
use crate::disk::is_full;
use crate::files::{explain_link, private_file};
use crate::memory::check_keys;

/// fjall sleeps 100 ms at a time with four sealed memtables in a space; writers wait here, in small steps, for fewer than this.
const SEALED_MEMTABLES_MAX: usize = 2;
/// fjall stops writers at thirty runs of tables in a space's level 0; they wait here for fewer than this.
const LEVEL_0_TABLES_MAX: usize = 16;
/// Batches of so many bytes go to the disk bit by bit before they are synced.
const WRITE_BACK_FROM: usize = 2 << 20;
/// How long a writer sleeps before it looks again.
const HOLD_BACK: Duration = Duration::from_millis(1);
/// So many times in a row may opening end in a crash before the files are called damaged.
const CRASHES_MAX: u8 = 3;

/// The fields are dropped in this order: handles and who looks at them, then what removes them, then the database.
pub(super) struct Inner {
    _follower: TableFollower,
    spaces: Arc<RwLock<Spaces>>,
    marks: Keyspace,
    remover: Remover,
    pub(super) database: Database,
    pub(super) folder: PathBuf,
    pub(super) options: LsmOptions,
    /// A write in the background failed, and fjall does not say why.
    failed_unseen: AtomicBool,
}

/// A table: its space, and its number there.
pub(super) type TableName = (Space, u64);

/// What the batches' order needs. One at a time has it.
#[derive(Default)]
pub(super) struct Writer {
    /// The number of the last batch.
    pub number: u64,
    /// Bytes applied since quiet spaces were last written for the journal's sake.
    pub bytes_since_relief: u64,
    /// What of fjall's journal is on its way to the disk.
    pub written_back: WrittenBack,
}

impl Inner {
    /// Opens fjall's database in `folder`, with all checks. Gives it with the number of its last batch.
    pub fn open(folder: &Path, options: LsmOptions) -> Result<(Inner, u64), OrderedError> {
        let disk = |error: io::Error| disk_failure("be opened", &error);
        fs::create_dir_all(folder).map_err(disk)?;
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
        let mark = private_file().create(true).truncate(true).open(&opening);
        mark.and_then(|mut file| file.write_all(&[crashes + 1]))
            .map_err(|error| disk(explain_link("opening", error)))?;
        let opened = Inner::open_checked(folder.to_path_buf(), &lsm, options, journal);
        // Only a crash of the process itself is counted; this one has come back.
        fs::remove_file(&opening).map_err(disk)?;
        opened
    }

    fn open_checked(
        folder: PathBuf,
        lsm: &Path,
        options: LsmOptions,
        journal: journal_check::Checked,
    ) -> Result<(Inner, u64), OrderedError> {
        let opening = |error: fjall::Error| failure("be opened", &error);
        let database = Database::builder(lsm)
            .cache_size(options.cache_bytes)
            .max_journaling_size(u64::MAX)
            .max_cached_files(Some(options.open_files_max.max(10)))
            .worker_threads_unchecked(options.threads)
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
        let spaces = Arc::new(RwLock::new(Arc::new(spaces)));
        let (looked_at, failed_unseen) = (Arc::clone(&spaces), AtomicBool::new(false));
        let follower = TableFollower::start(move || {
            let spaces = Spaces::clone(&looked_at.read().unwrap_or_else(PoisonError::into_inner));
            spaces.values().map(|handle| handle.keyspace.clone()).collect()
        });
        let follower = follower.map_err(|error| disk_failure("be opened", &error))?;
        Ok((Inner { _follower: follower, spaces, marks, remover, database, folder, options, failed_unseen }, number))
    }

    pub fn spaces(&self) -> Spaces {
        Arc::clone(&self.spaces.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn space(&self, space: Space) -> Option<Arc<Handle>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner).get(&space).cloned()
    }

    /// A snapshot with the spaces that it knows. Under the lock no space is dropped between the two, and a new one enters the map
    /// before the batch that writes it.
    pub fn snapshot(&self) -> (Snapshot, Spaces) {
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
    pub fn space_or_new(&self, space: Space) -> Result<Arc<Handle>, OrderedError> {
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

    /// See [`super::LsmStore::apply`].
    pub fn apply(&self, writer: &mut Writer, batch: &OrderedBatch) -> Result<(), OrderedError> {
        let dropped: BTreeSet<Space> = batch.dropped.iter().copied().collect();
        let changes = effective_changes(batch, &dropped);
        let mut handles: BTreeMap<Space, Arc<Handle>> = BTreeMap::new();
        let mut last = None;
        for number in &changes {
            let PackedChange { space, end, .. } = batch.changes.packed(*number);
            if last == Some(space) || handles.contains_key(&space) {
                continue;
            }
            match (self.space(space), end) {
                (Some(handle), _) => handles.insert(space, handle),
                (None, Some(_)) => handles.insert(space, self.space_or_new(space)?),
                // Nothing can be removed from what does not exist.
                (None, None) => continue,
            };
            last = Some(space);
        }
        self.hold_back(&handles)?;
        self.commit(writer, &batch.changes, &changes, &handles, &dropped)?;
        if batch.bytes() >= WRITE_BACK_FROM {
            // Before anything is sealed: fjall syncs its journal first.
            writer.written_back.advance(&self.folder.join("lsm"));
        }
        self.relieve_journal(writer, batch.bytes() as u64)?;
        self.seal_full_memtables(&handles)?;
        handles.values().for_each(|handle| handle.begin());
        if dropped.is_empty() {
            return Ok(());
        }
        self.database.persist(PersistMode::SyncAll).map_err(|error| self.write_failure("be synced", &error))?;
        self.drop_spaces(&dropped)
    }

    /// Writes a batch with its marks.
    fn commit(
        &self,
        writer: &mut Writer,
        changes: &Changes,
        order: &[usize],
        handles: &BTreeMap<Space, Arc<Handle>>,
        dropped: &BTreeSet<Space>,
    ) -> Result<(), OrderedError> {
        let number = writer.number + 1;
        let mark = number.to_le_bytes();
        let mut writes = fjall::OwnedWriteBatch::with_capacity(self.database.clone(), order.len() + 8)
            .durability(Some(PersistMode::Buffer));
        // fjall's memtables take parts of these as they are: no allocation and no copy for each change. They go with the last memtable that has a part.
        let chunks: Vec<ByteView> = changes.chunks().map(ByteView::from).collect();
        let mut last: Option<(Space, &Handle)> = None;
        for number in order {
            let PackedChange { space, chunk, key, value, end } = changes.packed(*number);
            let handle = match last {
                Some((same, handle)) if same == space => handle,
                _ => match handles.get(&space) {
                    Some(handle) => handle.as_ref(),
                    None => continue,
                },
            };
            last = Some((space, handle));
            let chunk = &chunks[chunk];
            let key = keys::encode_part(chunk, key..value);
            match end {
                Some(end) => writes.insert(&handle.keyspace, key, chunk.slice(value..end)),
                None => writes.remove(&handle.keyspace, key),
            }
        }
        for (space, handle) in handles {
            writes.insert(&handle.keyspace, keys::SPACE_MARK, mark);
            writes.insert(&self.marks, keys::mark_of(*space), mark);
        }
        for space in dropped {
            writes.remove(&self.marks, keys::mark_of(*space));
        }
        writes.insert(&self.marks, keys::LAST_MARK, mark);
        writes.commit().map_err(|error| self.write_failure("be written", &error))?;
        writer.number = number;
        Ok(())
    }

    /// Makes a space that is to be filled past the journal: what a crash leaves of it bears the mark of a batch.
    pub fn make_empty(&self, writer: &mut Writer, space: Space) -> Result<Arc<Handle>, OrderedError> {
        let handle = self.space_or_new(space)?;
        self.commit(
            writer,
            &Changes::default(),
            &[],
            &BTreeMap::from([(space, Arc::clone(&handle))]),
            &BTreeSet::new(),
        )?;
        Ok(handle)
    }

    /// The tables of all spaces. One that compaction only moves from level to level keeps its name.
    pub fn tables(&self) -> BTreeSet<TableName> {
        let spaces = self.spaces();
        let tables = |(space, handle): (&Space, &Arc<Handle>)| {
            let version = handle.keyspace.tree.current_version();
            version.iter_tables().map(|table| (*space, table.id())).collect::<Vec<_>>()
        };
        spaces.iter().flat_map(tables).collect()
    }

    /// Enters a table in each of these spaces, with nothing but its mark if need be: with it fjall lets go of what compactions have replaced.
    pub fn touch(&self, writer: &mut Writer, spaces: &BTreeSet<Space>) -> Result<(), OrderedError> {
        let handles: BTreeMap<Space, Arc<Handle>> =
            spaces.iter().filter_map(|space| Some((*space, self.space(*space)?))).collect();
        self.commit(writer, &Changes::default(), &[], &handles, &BTreeSet::new())?;
        self.flush_spaces(handles.values())
    }

    /// See [`super::LsmStore::sync`].
    pub fn sync(&self) -> Result<(), OrderedError> {
        self.database.persist(PersistMode::SyncAll).map_err(|error| self.write_failure("be synced", &error))
    }

    /// See [`super::LsmStore::flush`].
    pub fn flush(&self) -> Result<(), OrderedError> {
        self.flush_spaces(self.spaces().values())
    }

    fn flush_spaces<'a>(&self, handles: impl Iterator<Item = &'a Arc<Handle>> + Clone) -> Result<(), OrderedError> {
        let failed = |error: fjall::Error| self.write_failure("be flushed", &error);
        for handle in handles.clone() {
            handle.seal().map_err(failed)?;
        }
        self.marks.rotate_memtable().map_err(failed)?;
        let waits = |keyspace: &Keyspace| keyspace.sealed_memtable_count() > 0;
        while handles.clone().any(|handle| waits(&handle.keyspace)) || waits(&self.marks) {
            self.wait_a_little()?;
        }
        handles.for_each(|handle| handle.renew());
        Ok(())
    }

    /// See [`super::LsmStore::stats`].
    pub fn stats(&self) -> LsmStats {
        let spaces = self.spaces();
        let mut stats = LsmStats {
            spaces: spaces.len(),
            memtable_bytes: self.database.write_buffer_size(),
            cache_bytes: self.database.cache_size(),
            cache_bytes_max: self.database.cache_capacity(),
            journals: self.database.journal_count(),
            compactions_running: self.database.active_compactions(),
            compactions_done: self.database.compactions_completed(),
            ..LsmStats::default()
        };
        for keyspace in spaces.values().map(|handle| &handle.keyspace).chain([&self.marks]) {
            stats.tables += keyspace.table_count();
            stats.tables_level_0 += keyspace.l0_table_count();
            stats.value_files += keyspace.blob_file_count();
            stats.sealed_memtables += keyspace.sealed_memtable_count();
        }
        stats
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
        let failed = |error: fjall::Error| self.write_failure("be written", &error);
        let is_full = |keyspace: &Keyspace| keyspace.tree.active_memtable().size() >= self.options.memtable_bytes;
        for handle in handles.values().filter(|handle| is_full(&handle.keyspace)) {
            handle.seal().map_err(failed)?;
        }
        if is_full(&self.marks) {
            self.marks.rotate_memtable().map_err(failed)?;
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
            handle.seal().map_err(|error| self.write_failure("be written", &error))?;
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
            self.failed_unseen.store(true, Ordering::Relaxed);
        }
        failure
    }

    /// Whether a failure was one of the background's, of which the cause is not known.
    pub fn has_failed_unseen(&self) -> bool {
        self.failed_unseen.load(Ordering::Relaxed)
    }

    /// Whether there is no room for another memtable's worth of bytes.
    pub fn is_disk_full(&self) -> bool {
        let path = self.folder.join("room");
        let chunk = vec![1; 1 << 20];
        let write = || {
            let mut file = private_file().create(true).truncate(true).open(&path)?;
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

pub(super) fn keyspace_options(options: &LsmOptions) -> KeyspaceCreateOptions {
    let separation = KvSeparationOptions::default().separation_threshold(options.separate_from_bytes);
    KeyspaceCreateOptions::default()
        .max_memtable_size(u64::MAX)
        .filter_block_pinning_policy(upper_levels())
        .index_block_pinning_policy(upper_levels())
        .compaction_strategy(Arc::new(levels(options)))
        .with_kv_separation(Some(separation))
}

/// Filters and indexes of the first three levels stay in memory: for each point read they would be looked up in the block cache, and there they push out each
/// other. Together these levels hold a few gigabytes, and with records of a hundred bytes their filters and indexes two hundredths of that (reckoned). Those of deeper levels are cached by parts.
fn upper_levels() -> PinningPolicy {
    PinningPolicy::new([true, true, true, false])
}

/// How tables are sorted into levels.
pub(super) fn levels(options: &LsmOptions) -> Leveled {
    Leveled::default().with_table_target_size(options.table_bytes)
}

/// The numbers of the changes that count: the last one for each key, none to spaces that are dropped with the batch; sorted, which fjall's
/// memtables take faster. fjall numbers a batch's changes alike, so two for one key would have no order.
fn effective_changes(batch: &OrderedBatch, dropped: &BTreeSet<Space>) -> Vec<usize> {
    let changes = &batch.changes;
    let place = |number: &usize| {
        let (space, key, _) = changes.get(*number);
        (space, key)
    };
    let kept = |number: &usize| dropped.is_empty() || !dropped.contains(&changes.packed(*number).space);
    let mut numbers: Vec<usize> = (0..changes.len()).filter(kept).collect();
    // A flush comes sorted but for its last change.
    numbers.sort_by(|left, right| place(left).cmp(&place(right)));
    // Of several for one key, which stand in their order now, the last one stays.
    numbers.reverse();
    numbers.dedup_by(|later, kept| place(later) == place(kept));
    numbers.reverse();
    numbers
}

/// Refuses what fjall would not take.
pub(super) fn check(changes: &Changes) -> Result<(), OrderedError> {
    check_keys(changes)?;
    check_values(changes)
}

/// Refuses values that fjall would not take.
pub(super) fn check_values(changes: &Changes) -> Result<(), OrderedError> {
    let lengths = changes.iter().map(|(_, _, value)| value.map_or(0, <[u8]>::len));
    let longest = lengths.max().unwrap_or(0);
    if longest <= ORDERED_VALUE_BYTES_MAX {
        return Ok(());
    }
    let text = format!("a value of {longest} bytes is longer than the store takes ({ORDERED_VALUE_BYTES_MAX})");
    Err(OrderedError { text, full: false })
}
