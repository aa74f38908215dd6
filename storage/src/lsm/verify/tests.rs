//! A store is looked at as it is, and found damaged wherever a byte of it is not what was written.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of files")]

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use base::ordered::{OrderedBatch, OrderedRead, Space};

use super::{StoreView, verify_store};
use crate::lsm::{LsmOptions, LsmStore};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("dictum-verify-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options() -> LsmOptions {
    LsmOptions {
        cache_bytes: 1 << 20,
        memtable_bytes: 1 << 20,
        journal_bytes_max: 1 << 20,
        separate_from_bytes: 4096,
        open_files_max: 50,
        ..LsmOptions::default()
    }
}

/// Tables of several levels, separated values, a dropped space, and batches that are in the journal alone.
fn fill(folder: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let store = LsmStore::open(folder, options()).unwrap();
    let mut expected = BTreeMap::new();
    let mut put = |space: u64, keys: std::ops::Range<u64>, mark: u8, length: usize| {
        let mut batch = OrderedBatch::default();
        for key in keys {
            let (key, value) = (key.to_be_bytes().to_vec(), vec![mark; length + key as usize % 7]);
            if space == 1 {
                expected.insert(key.clone(), value.clone());
            }
            batch.changes.push((Space(space), key, Some(value)));
        }
        store.apply(&batch).unwrap();
    };
    put(1, 0..3000, 1, 100);
    put(2, 0..10, 2, 10);
    store.flush().unwrap();
    put(1, 1000..4000, 3, 100);
    put(1, 5000..5020, 4, 10_000);
    store.flush().unwrap();
    put(3, 0..10, 5, 10);
    store.apply(&OrderedBatch { dropped: vec![Space(2)], ..OrderedBatch::default() }).unwrap();
    store.flush().unwrap();
    let mut put = |keys: std::ops::Range<u64>, mark: u8| {
        let mut batch = OrderedBatch::default();
        for key in keys {
            expected.insert(key.to_be_bytes().to_vec(), vec![mark; 50]);
            batch.changes.push((Space(1), key.to_be_bytes().to_vec(), Some(vec![mark; 50])));
        }
        store.apply(&batch).unwrap();
    };
    put(500..600, 6);
    put(9000..9001, 7);
    store.sync().unwrap();
    expected
}

fn files(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.insert(path.clone(), Vec::new());
            files(&path, found);
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
}

fn all_files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    files(folder, &mut found);
    found
}

fn content(store: &LsmStore, space: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    store.range(Space(space), Bound::Unbounded).map(Result::unwrap).collect()
}

#[test]
fn a_sound_store_is_read_and_left_as_it_is() {
    let folder = Folder::new("sound");
    let expected = fill(&folder.0);
    let before = all_files(&folder.0);
    let mut bytes = 0;
    let report = verify_store(&folder.0, &mut |more| bytes += more).unwrap();
    assert_eq!(report.problems, []);
    assert!(report.tables >= 4 && report.value_files >= 1, "{report:?}");
    assert!(report.batches >= 2 && report.cut_bytes == 0 && bytes > report.table_bytes, "{report:?}");
    let scratch = folder.0.with_extension("scratch");
    let view = StoreView::open(&folder.0, &scratch).unwrap();
    assert_eq!(content(view.store(), 1), expected);
    assert_eq!(view.store().spaces(), [Space(1), Space(3)]);
    drop(view);
    assert!(!scratch.exists());
    assert!(all_files(&folder.0) == before, "something in the store's folder has changed");
    // As the store itself sees it.
    assert_eq!(content(&LsmStore::open(&folder.0, options()).unwrap(), 1), expected);
}

/// One byte anywhere in a file that counts is noticed, without its being opened.
#[test]
fn every_file_that_counts_is_covered() {
    let folder = Folder::new("damaged");
    fill(&folder.0);
    let before = all_files(&folder.0);
    let counts = |path: &Path| {
        let text = path.to_string_lossy();
        ["/tables/", "/blobs/"].iter().any(|part| text.contains(part)) || path.ends_with("lsm/version")
    };
    let verify = || verify_store(&folder.0, &mut |_| {}).unwrap();
    let clean = verify();
    let leftovers = clean.leftovers;
    let mut seen = 0;
    for (path, bytes) in before.iter().filter(|(path, bytes)| counts(path) && !bytes.is_empty()) {
        for place in [0, bytes.len() / 2, bytes.len() - 1] {
            let mut wrong = bytes.clone();
            wrong[place] ^= 0x10;
            fs::write(path, wrong).unwrap();
            let report = verify();
            // Those that no manifest names do not count.
            let named = report.problems.iter().any(|problem| path.ends_with(&problem.file));
            assert!(named || report.problems.is_empty() && leftovers > 0, "{}: {report:?}", path.display());
            seen += usize::from(named);
        }
        fs::remove_file(path).unwrap();
        let report = verify();
        assert!(!report.problems.is_empty() || report.leftovers < leftovers, "{}: {report:?}", path.display());
        fs::write(path, bytes).unwrap();
    }
    assert!(seen >= 15, "{seen}");
    for (path, bytes) in &before {
        let name = path.file_name().unwrap().to_string_lossy();
        let named = |version: &str| {
            let current = before.get(&path.with_file_name("current"));
            current.is_some_and(|current| version.parse::<u64>().is_ok_and(|it| it.to_le_bytes() == current[..8]))
        };
        if name != "current" && !name.strip_prefix('v').is_some_and(named) {
            continue;
        }
        for place in [0, 7, 8, 23] {
            let mut wrong = bytes.clone();
            wrong[place] ^= 0x10;
            fs::write(path, wrong).unwrap();
            assert!(!verify().problems.is_empty(), "{} at {place}", path.display());
        }
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(!verify().problems.is_empty(), "{} shortened", path.display());
        fs::write(path, bytes).unwrap();
    }
    assert_eq!(verify(), clean);
}

#[test]
fn the_journals_unsynced_end_is_told_and_its_damage_too() {
    let folder = Folder::new("journal");
    fill(&folder.0);
    let (path, bytes) =
        all_files(&folder.0).into_iter().rfind(|(path, _)| path.extension().is_some_and(|end| end == "jnl")).unwrap();
    let verify = || verify_store(&folder.0, &mut |_| {}).unwrap();
    let sound = verify();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let mut torn = bytes.clone();
    torn[end] = 0;
    fs::write(&path, &torn).unwrap();
    let report = verify();
    assert!(report.problems.is_empty() && report.cut_bytes > 0 && report.batches == sound.batches - 1, "{report:?}");
    let scratch = folder.0.with_extension("scratch");
    let view = StoreView::open(&folder.0, &scratch).unwrap();
    assert!(!content(view.store(), 1).contains_key(9000_u64.to_be_bytes().as_slice()));
    drop(view);
    assert!(fs::read(&path).unwrap() == torn);
    // The number of a batch: none follows the one before any more.
    let place = bytes.windows(2).position(|two| two == [0, b'n']).unwrap();
    let mut wrong = bytes.clone();
    wrong[place + 4] ^= 1;
    fs::write(&path, &wrong).unwrap();
    let report = verify();
    assert!(!report.problems.is_empty() || report.cut_bytes > 0, "{report:?}");
}

#[test]
fn what_is_no_manifest_is_not_taken_for_one() {
    use super::parse_manifest;
    assert!(parse_manifest(&[]).is_none());
    assert!(parse_manifest(&[0xff; 100]).is_none());
    let folder = Folder::new("manifest");
    fill(&folder.0);
    let before = all_files(&folder.0);
    for (path, bytes) in &before {
        let name = path.file_name().unwrap().to_string_lossy();
        if name.strip_prefix('v').is_none_or(|rest| rest.parse::<u64>().is_err()) {
            continue;
        }
        assert!(parse_manifest(bytes).is_some());
        for length in 0..bytes.len() {
            let _ = parse_manifest(&bytes[..length]);
        }
        for place in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] = 0xff;
            let _ = parse_manifest(&wrong);
        }
    }
}
