//! What the tests of the ordered stores share: folders, a model, and comparing a store with it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base::ordered::{Changes, OrderedBatch, OrderedError, OrderedRead, OrderedWrite, Pair, Space};
use storage::{LsmOptions, LsmStore};

/// A folder that is gone when the test is over.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dictum-ordered-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Small enough that a few hundred kilobytes are sealed, written as tables and compacted.
pub const SMALL: LsmOptions = LsmOptions {
    cache_bytes: 1 << 20,
    memtable_bytes: 64 << 10,
    table_bytes: 64 << 20,
    journal_bytes_max: 64 << 20,
    separate_from_bytes: 16 << 10,
    open_files_max: 64,
    threads: 2,
    rest_after: Duration::ZERO,
};

/// What a store must look like.
pub type Model = BTreeMap<Space, BTreeMap<Vec<u8>, Vec<u8>>>;

pub fn apply_to_model(model: &mut Model, batch: &OrderedBatch) {
    for (space, key, value) in batch.changes.iter() {
        match value {
            Some(value) => {
                model.entry(space).or_default().insert(key.to_vec(), value.to_vec());
            }
            None => {
                model.get_mut(&space).map(|map| map.remove(key));
            }
        }
    }
    for space in &batch.dropped {
        model.remove(space);
    }
}

/// All of a space from `start` on.
pub fn read_all(store: &dyn OrderedRead, space: Space, start: Bound<&[u8]>) -> Result<Vec<Pair>, OrderedError> {
    store.range(space, start).collect()
}

/// Says what differs, in the spaces named and in those of the model.
pub fn difference(store: &dyn OrderedRead, model: &Model, spaces: &[Space]) -> Result<Option<String>, OrderedError> {
    let empty = BTreeMap::new();
    for space in model.keys().chain(spaces) {
        let found = read_all(store, *space, Bound::Unbounded)?;
        let expected = model.get(space).unwrap_or(&empty);
        let same = found.iter().map(|(key, value)| (key, value)).eq(expected.iter());
        if !same {
            let text = format!("{space:?}: {} keys found, {} expected, or values differ", found.len(), expected.len());
            return Ok(Some(text));
        }
        for (key, value) in expected {
            let found = store.get(*space, key)?;
            if found.as_ref() != Some(value) {
                return Ok(Some(format!("{space:?}: a walk finds {key:?}, and a read of it {found:?}")));
            }
        }
    }
    Ok(None)
}

/// A batch with one change.
pub fn put(space: u64, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> OrderedBatch {
    OrderedBatch { dropped: Vec::new(), changes: vec![(Space(space), key.into(), Some(value.into()))].into() }
}

/// Fills a space with what a map has, some pairs at a time.
pub fn load(
    store: &impl OrderedWrite,
    space: Space,
    pairs: &BTreeMap<Vec<u8>, Vec<u8>>,
    pushed: impl Fn(),
) -> Result<(), OrderedError> {
    let mut load = store.begin_load(space)?;
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| (space, key, Some(value))).collect();
    for some in pairs.chunks(7) {
        load.push(some.iter().copied().collect::<Changes>())?;
        pushed();
    }
    load.finish()
}

/// The value of an environment variable that asks for more cases than usual.
pub fn count_from_environment(name: &str, otherwise: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Bytes on disk without the preallocated journal.
pub fn folder_of_space_bytes(store: &LsmStore) -> u64 {
    assert!(store.disk_bytes().unwrap() > 0);
    let text = format!("{store:?}");
    let path = text.split('"').nth(1).expect("the folder is shown");
    files(&Path::new(path).join("lsm/keyspaces")).iter().map(|path| fs::metadata(path).map_or(0, |m| m.len())).sum()
}

/// All files under a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}
