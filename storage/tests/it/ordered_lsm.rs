//! The ordered store on disk: reopening, space that comes back, views that stay, and what damage does.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "these tests are about real files")]

use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::ordered_support::{
    Folder, Model, SMALL, apply_to_model, count_from_environment, difference, files, folder_of_space_bytes, put,
    read_all,
};
use base::Rng;
use base::ordered::{OrderedBatch, OrderedRead, Space};
use storage::{LsmOptions, LsmStore};

fn open(folder: &Folder) -> LsmStore {
    LsmStore::open(folder.path().join("store"), SMALL).unwrap()
}

/// Batch `number` of a history: the number in space 0, some changes in three others.
fn batch(number: u64, value_bytes: usize) -> OrderedBatch {
    let mut rng = Rng::new(number);
    let mut changes = vec![(Space(0), b"number".to_vec(), Some(number.to_le_bytes().to_vec()))];
    for _ in 0..rng.between(1, 30) {
        let key = rng.below(500).to_be_bytes().to_vec();
        let value = (!rng.chance(1, 5)).then(|| vec![number as u8; rng.between(0, value_bytes as u64) as usize]);
        changes.push((Space(rng.between(1, 3)), key, value));
    }
    OrderedBatch { dropped: Vec::new(), changes: changes.into() }
}

fn number(store: &dyn OrderedRead) -> u64 {
    let bytes = store.get(Space(0), b"number").unwrap();
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

#[test]
fn everything_is_there_after_reopening() {
    let folder = Folder::new();
    let mut model = Model::new();
    for round in 0..5 {
        let store = open(&folder);
        assert_eq!(difference(&store, &model, &store.spaces()).unwrap(), None, "round {round}");
        for number in round * 100..(round + 1) * 100 {
            let batch = batch(number, 400);
            store.apply(&batch).unwrap();
            apply_to_model(&mut model, &batch);
        }
        if round % 2 == 0 {
            store.sync().unwrap();
        }
        assert!(LsmStore::open(folder.path().join("store"), SMALL).is_err(), "it is in use");
    }
    let store = open(&folder);
    assert_eq!(difference(&store, &model, &store.spaces()).unwrap(), None);
    assert_eq!(store.spaces(), [0, 1, 2, 3].map(Space));
    let stats = store.stats();
    assert!(stats.tables > 0 && stats.journals > 0 && stats.cache_bytes_max == SMALL.cache_bytes, "{stats:?}");
}

#[test]
fn frozen_views_stay_while_writes_and_compaction_go_on() {
    let folder = Folder::new();
    let store = open(&folder);
    let mut model = Model::new();
    let write = |model: &mut Model, number| {
        let batch = batch(number, if number % 10 == 0 { 20_000 } else { 600 });
        store.apply(&batch).unwrap();
        apply_to_model(model, &batch);
    };
    (1..200).for_each(|number| write(&mut model, number));
    let view = store.freeze();
    let frozen = model.clone();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) || reads < 3 {
                assert_eq!(difference(&*view, &frozen, &[]).unwrap(), None);
                assert_eq!(number(&*view), 199);
                reads += 1;
            }
        });
        let before = store.stats().compactions_done;
        let mut number = 200;
        while number < 600 || store.stats().compactions_done < before + 10 {
            write(&mut model, number);
            number += 1;
        }
        store.apply(&OrderedBatch { dropped: vec![Space(2)], ..OrderedBatch::default() }).unwrap();
        model.remove(&Space(2));
        store.flush().unwrap();
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(difference(&*view, &frozen, &[]).unwrap(), None);
    assert_eq!(difference(&store, &model, &[Space(2)]).unwrap(), None);
    assert_eq!(read_all(&*store.freeze().freeze(), Space(2), Bound::Unbounded), Ok(Vec::new()));
}

/// fjall's own threads waited for each other when thousands of batches found a memtable that was due to be written.
#[test]
fn many_small_batches_never_stop_the_store() {
    let folder = Folder::new();
    let store = open(&folder);
    for number in 0..6000u64 {
        store.apply(&put(number % 3, number.to_be_bytes(), vec![number as u8; 1000])).unwrap();
        // Three spaces and the marks, each with one memtable growing and a few waiting.
        let bytes = store.stats().memtable_bytes;
        assert!(bytes < 20 * SMALL.memtable_bytes, "{bytes} bytes of memtables after {number} batches");
    }
    assert!(store.stats().tables > 0);
}

#[test]
fn dropped_spaces_give_back_their_room() {
    let folder = Folder::new();
    let store = open(&folder);
    let record = |key: u64| (Space(5), key.to_be_bytes().to_vec(), Some(vec![key as u8; 8000]));
    for part in 0..50 {
        let changes = (part * 20..(part + 1) * 20).map(record).collect();
        store.apply(&OrderedBatch { dropped: Vec::new(), changes }).unwrap();
    }
    store.apply(&put(6, "stays", "here")).unwrap();
    store.flush().unwrap();
    let with = folder_of_space_bytes(&store);
    assert!(with > 5 << 20, "{with}");
    let view = store.freeze();
    store.apply(&OrderedBatch { dropped: vec![Space(5)], ..OrderedBatch::default() }).unwrap();
    assert_eq!(store.get(Space(5), &0u64.to_be_bytes()), Ok(None));
    assert_eq!(store.spaces(), [Space(6)]);
    assert_eq!(read_all(&*view, Space(5), Bound::Unbounded).unwrap().len(), 1000);
    drop(view);
    while folder_of_space_bytes(&store) > 2 << 20 {
        thread::yield_now();
    }
    drop(store);
    let store = open(&folder);
    assert_eq!(store.spaces(), [Space(6)]);

    // What nobody asks for any more is dropped at open.
    store.apply(&put(7, "garbage", vec![7; 100_000])).unwrap();
    store.retain_spaces(&[Space(6), Space(9)]).unwrap();
    assert_eq!(store.spaces(), [Space(6)]);
    drop(store);
    assert_eq!(open(&folder).get(Space(6), b"stays"), Ok(Some(b"here".to_vec())));
}

#[test]
fn large_values_are_kept() {
    let folder = Folder::new();
    let mut rng = Rng::new(5);
    let large: Vec<u8> = (0..40 << 20).map(|_| rng.next_u64() as u8).collect();
    let store = open(&folder);
    store.apply(&put(1, "large", large.clone())).unwrap();
    assert!(store.get(Space(1), b"large").unwrap() == Some(large.clone()));
    store.flush().unwrap();
    assert!(store.stats().value_files > 0);
    drop(store);
    let store = open(&folder);
    assert!(store.get(Space(1), b"large").unwrap() == Some(large));
    // Overwritten, its room comes back with later compactions.
    for round in 0..10u8 {
        store.apply(&put(1, "large", vec![round; 1 << 20])).unwrap();
        store.flush().unwrap();
    }
    let mut round = 0u32;
    while folder_of_space_bytes(&store) > 30 << 20 {
        store.apply(&put(1, round.to_le_bytes(), vec![1; 30_000])).unwrap();
        store.flush().unwrap();
        round += 1;
        assert!(round < 300, "the room of the large value comes back");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// A folder with tables and a journal, and the model after every batch. With `flushed` spaces are written as tables whenever they
/// have grown a little, so that the journal holds much that is in tables too; without, most is in the journal alone.
fn history(folder: &Folder, flushed: bool) -> Vec<Model> {
    let mut models = vec![Model::new()];
    let options = if flushed { SMALL } else { LsmOptions { memtable_bytes: 64 << 20, ..SMALL } };
    let store = LsmStore::open(folder.path().join("store"), options).unwrap();
    for number in 1..=120 {
        let batch = batch(number, if number % 10 == 0 { 20_000 } else { 300 });
        let mut model = models.last().unwrap().clone();
        apply_to_model(&mut model, &batch);
        models.push(model);
        store.apply(&batch).unwrap();
        if number == 40 {
            store.flush().unwrap();
        }
    }
    store.sync().unwrap();
    drop(store);
    // The journal is preallocated; without its zeros it is read and copied faster.
    let path = journal(folder);
    let bytes = fs::read(&path).unwrap();
    let written = bytes.iter().rposition(|byte| *byte != 0).expect("it was written") + 1;
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(written as u64).unwrap();
    models
}

/// The last file of fjall's journal.
fn journal(folder: &Folder) -> PathBuf {
    let mut journals = files(folder.path()).into_iter().filter(|path| path.extension().is_some_and(|end| end == "jnl"));
    journals.next_back().expect("there is always one")
}

/// What became of a damaged store.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcomes {
    complete: u32,
    shorter: u32,
    refused: u32,
    unreadable: u32,
    panicked: u32,
}

/// Opens a damaged folder. Whatever happens, it must not show anything that never was.
fn look(folder: &Folder, models: &[Model], outcomes: &mut Outcomes, what: &str) {
    let path = folder.path().join("store");
    let read = std::panic::catch_unwind(|| {
        let Ok(store) = LsmStore::open(&path, SMALL) else { return None };
        let view = store.freeze();
        let number = view
            .get(Space(0), b"number")
            .ok()
            .map(|bytes| bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")) as usize));
        Some(number.and_then(|number| Some((number, difference(&*view, &models[number], &store.spaces()).ok()?))))
    });
    match read {
        Err(_) => outcomes.panicked += 1,
        Ok(None) => outcomes.refused += 1,
        Ok(Some(None)) => outcomes.unreadable += 1,
        Ok(Some(Some((number, difference)))) => {
            assert_eq!(difference, None, "{what}: it shows something else than the first {number} batches");
            if number + 1 == models.len() { outcomes.complete += 1 } else { outcomes.shorter += 1 }
        }
    }
}

#[test]
fn damage_never_shows_what_never_was() {
    let mut rng = Rng::new(11);
    let mut by_kind: std::collections::BTreeMap<String, Outcomes> = std::collections::BTreeMap::new();
    let cases = count_from_environment("DICTUM_STORE_DAMAGES", 60);
    for flushed in [true, false] {
        let original = Folder::new();
        let models = history(&original, flushed);
        for case in 0..cases / 2 {
            let folder = Folder::new();
            copy(original.path(), folder.path());
            let files: Vec<PathBuf> =
                files(folder.path()).into_iter().filter(|path| fs::metadata(path).unwrap().len() > 0).collect();
            // Every other time the journal, which is one file of many.
            let path = if rng.chance(1, 2) { journal(&folder) } else { rng.pick(&files).clone() };
            let mut bytes = fs::read(&path).unwrap();
            let at = rng.below(bytes.len() as u64) as usize;
            let how = rng.below(4);
            let end = bytes.len().min(at + 4096);
            match how {
                0 => bytes[at] ^= 1 << rng.below(8),
                1 => bytes[at] = rng.next_u64() as u8,
                2 => bytes[at..end].fill(0),
                _ => bytes.truncate(at),
            }
            fs::write(&path, &bytes).unwrap();
            let name = path.strip_prefix(folder.path()).unwrap().display().to_string();
            let kind: String = name.chars().filter(|letter| !letter.is_ascii_digit()).collect();
            let what = format!("case {case}: {name} at {at}, way {how}, flushed {flushed}");
            look(&folder, &models, by_kind.entry(kind).or_default(), &what);
        }
    }
    for (kind, outcomes) in by_kind {
        println!("{kind:40} {outcomes:?}");
    }
}

/// Damages of the journal that fjall alone takes for its end, or does not notice.
#[test]
fn a_damaged_journal_never_leaves_a_hole() {
    for flushed in [true, false] {
        let original = Folder::new();
        let models = history(&original, flushed);
        let bytes = fs::read(journal(&original)).unwrap();
        let ends: Vec<usize> = (4..=bytes.len()).filter(|end| bytes[end - 4..*end] == *b"FJL\x03").collect();
        assert_eq!(ends.len(), 120);
        let mut outcomes = Outcomes::default();
        // The tag of a batch, its number of items, the ends of its sequence number, the tag and lengths of its first item.
        for offset in [0, 1, 5, 12, 13, 24, 26, 30] {
            for end in [ends[0], ends[50], ends[100], ends[118]] {
                let folder = Folder::new();
                copy(original.path(), folder.path());
                let mut damaged = bytes.clone();
                damaged[end + offset] ^= 0x41;
                fs::write(journal(&folder), damaged).unwrap();
                look(&folder, &models, &mut outcomes, &format!("offset {offset} of the batch at {end}"));
            }
        }
        println!("flushed {flushed}: {outcomes:?}");
        assert_eq!((outcomes.panicked, outcomes.unreadable), (0, 0), "{outcomes:?}");
        // The last batch's sequence number may grow without harm.
        assert!(outcomes.complete <= 2, "{outcomes:?}");
        assert!(if flushed { outcomes.refused > 0 } else { outcomes.shorter > 0 }, "{outcomes:?}");
    }
}

/// A disk that was full in the middle of a batch, and the next file of the journal that fjall began all the same: whole, or of no length where that failed, too.
#[test]
fn empty_journals_behind_a_torn_one_are_no_damage() {
    for empty in [0, 64 << 20] {
        let folder = Folder::new();
        let models = history(&folder, false);
        let path = journal(&folder);
        let number: u64 = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).expect("a number");
        let later = |plus: u64| path.with_file_name(format!("{}.jnl", number + plus));
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
        for plus in [1, 2] {
            fs::File::create(later(plus)).unwrap().set_len(empty).unwrap();
        }
        // A crash between the steps: the last of them is gone, and the torn one as it was.
        fs::remove_file(later(2)).unwrap();
        let store = open(&folder);
        assert!(!later(1).exists());
        assert_eq!(difference(&store, &models[models.len() - 2], &store.spaces()).unwrap(), None);
        store.apply(&put(1, "a", "b")).unwrap();
        drop(store);
        assert_eq!(open(&folder).get(Space(1), b"a"), Ok(Some(b"b".to_vec())));

        // Behind a torn one nothing was ever written.
        let bytes = fs::read(journal(&folder)).unwrap();
        let torn = journal(&folder);
        let end = bytes.iter().rposition(|byte| *byte != 0).expect("it was written") + 1;
        fs::write(&torn, &bytes[..end / 2]).unwrap();
        fs::write(later(1), &bytes[..end]).unwrap();
        assert!(LsmStore::open(folder.path().join("store"), SMALL).is_err_and(|error| error.text.contains("damaged")));
    }
}

#[test]
fn an_opening_that_crashes_again_and_again_is_given_up() {
    let folder = Folder::new();
    open(&folder).apply(&put(1, "a", "b")).unwrap();
    fs::write(folder.path().join("store/opening"), [2]).unwrap();
    assert_eq!(open(&folder).get(Space(1), b"a"), Ok(Some(b"b".to_vec())));
    fs::write(folder.path().join("store/opening"), [3]).unwrap();
    let error = LsmStore::open(folder.path().join("store"), SMALL).unwrap_err();
    assert!(!error.full && error.text.contains("crashed"), "{error}");
}

#[test]
fn a_creation_that_was_cut_off_is_begun_again() {
    let folder = Folder::new();
    let lsm = folder.path().join("store/lsm");
    fs::create_dir_all(lsm.join("keyspaces")).unwrap();
    fs::write(lsm.join("lock"), "").unwrap();
    fs::write(lsm.join("0.jnl"), "").unwrap();
    let store = open(&folder);
    store.apply(&put(1, "a", "b")).unwrap();
    drop(store);
    fs::remove_file(lsm.join("version")).unwrap();
    assert!(LsmStore::open(folder.path().join("store"), SMALL).is_err(), "this one held something");
}

/// fjall gives the number of the newest keyspace again after it was dropped and the database opened again, and forgets how far its
/// own bookkeeping had counted: the new keyspace was taken for the dropped one at the next opening, and removed.
#[test]
fn a_space_made_after_a_drop_and_a_reopening_stays() {
    let folder = Folder::new();
    let mut model = Model::new();
    for round in 0..6 {
        let store = open(&folder);
        assert_eq!(difference(&store, &model, &store.spaces()).unwrap(), None, "round {round}");
        for space in [round * 2, round * 2 + 1] {
            store.apply(&put(space, "key", "value")).unwrap();
            apply_to_model(&mut model, &put(space, "key", "value"));
        }
        store.sync().unwrap();
        drop(store);
        let batch = OrderedBatch { dropped: vec![Space(round * 2 + 1)], ..OrderedBatch::default() };
        let store = open(&folder);
        store.apply(&batch).unwrap();
        apply_to_model(&mut model, &batch);
        assert_eq!(difference(&store, &model, &store.spaces()).unwrap(), None, "round {round}");
    }
}

/// `DICTUM_STORE_SMALL_DISK=FOLDER cargo test -p storage --test it ordered_lsm:: -- --ignored`, with a folder on a file system of some
/// 100 to 500 MiB that is empty (a tmpfs with a size).
#[test]
#[ignore = "needs a small file system"]
fn a_full_disk_is_told_from_worse_and_is_survived() {
    let folder = PathBuf::from(std::env::var("DICTUM_STORE_SMALL_DISK").expect("it names the folder")).join("store");
    let store = LsmStore::open(&folder, LsmOptions::default()).unwrap();
    let mut number = 0u64;
    let error = loop {
        let changes =
            (0..100).map(|key: u64| (Space(1), (number * 100 + key).to_be_bytes().to_vec(), Some(vec![7; 8000])));
        if let Err(error) = store.apply(&OrderedBatch { dropped: Vec::new(), changes: changes.collect() }) {
            break error;
        }
        number += 1;
    };
    println!("{error} after {number} batches; {:?}", store.stats());
    assert!(error.full, "{error}");
    // Reads go on, and so do they after opening again; there is room for that.
    let count = read_all(&store, Space(1), Bound::Unbounded).unwrap().len() as u64;
    assert_eq!(count, number * 100);
    drop(store);
    match LsmStore::open(&folder, LsmOptions::default()) {
        Ok(store) => {
            println!("{} of {count} are there again", read_all(&store, Space(1), Bound::Unbounded).unwrap().len())
        }
        Err(error) => println!("it cannot be opened again: {error}"),
    }
}
