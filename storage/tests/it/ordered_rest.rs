//! The ordered store at rest: when that is, what it gives back then, and that it comes to an end.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "these tests are about real files")]

use std::thread;
use std::time::Duration;

use crate::ordered_support::{Folder, Model, SMALL, apply_to_model, difference, folder_of_space_bytes};
use base::ordered::{OrderedBatch, OrderedRead, Space};
use storage::{LsmOptions, LsmStore};

fn open(folder: &Folder) -> LsmStore {
    LsmStore::open(folder.path().join("store"), SMALL).unwrap()
}

/// What is entered at rest leads to compactions now and then, and these leave something behind in turn.
#[test]
fn nothing_is_left_behind_at_any_rest() {
    rests(SMALL);
}

/// With tables of several levels, where small ones move down, or are compacted by parts. (A level that is full all the time, for which
/// `TABLES_AT_REST_MAX` is there, does not come about here.)
#[test]
fn with_several_levels_rest_comes_to_an_end_too() {
    rests(LsmOptions { table_bytes: 32 << 10, ..SMALL });
}

fn rests(options: LsmOptions) {
    let folder = Folder::new();
    let store = LsmStore::open(folder.path().join("store"), options).unwrap();
    let record = |key: u64, round: u8| (Space(1), key.to_be_bytes().to_vec(), Some(vec![round; 1000]));
    store.apply(&OrderedBatch { dropped: Vec::new(), changes: (0..2000).map(|key| record(key, 0)).collect() }).unwrap();
    let live = 2000 * 1008;
    for round in 1..30u8 {
        // Up to a twelfth of the keys, each time others.
        let count = 40 + u64::from(round) * 37 % 120;
        let changes = (0..count).map(|key| record(key * 12 + u64::from(round) % 12, round)).collect();
        store.apply(&OrderedBatch { dropped: Vec::new(), changes }).unwrap();
        let (mut entered, mut looks) = (0, 0);
        while looks < 5 {
            let stats = store.stats();
            let done = store.tidy().unwrap();
            entered += u32::from(done);
            assert!(entered <= 10, "round {round}: it comes to an end");
            let busy = done || stats.compactions_running > 0 || stats.sealed_memtables > 0;
            looks = if busy { 0 } else { looks + 1 };
        }
        let held = folder_of_space_bytes(&store);
        assert!(held <= live * 14 / 10, "round {round}: {held} bytes for {live}");
    }
}

/// Whoever applies batches lets changes gather for seconds. A store that took each of these pauses for rest wrote all of it again every ten seconds.
#[test]
fn a_pause_between_two_batches_is_no_rest() {
    let folder = Folder::new();
    let patient = LsmOptions { rest_after: Duration::from_secs(3600), ..SMALL };
    let store = LsmStore::open(folder.path().join("store"), patient).unwrap();
    for round in 0..6u8 {
        let record = |key: u64| (Space(1), key.to_be_bytes().to_vec(), Some(vec![round; 1000]));
        store.apply(&OrderedBatch { dropped: Vec::new(), changes: (0..2000).map(record).collect() }).unwrap();
        while store.stats().compactions_running > 0 || store.stats().sealed_memtables > 0 {
            thread::yield_now();
        }
        for _ in 0..10 {
            assert_eq!(store.tidy(), Ok(false), "more may come");
        }
    }
}

/// fjall keeps what compactions have replaced until another table is entered.
#[test]
fn a_store_at_rest_gives_back_what_was_overwritten() {
    let folder = Folder::new();
    let store = open(&folder);
    let mut model = Model::new();
    for round in 0..6u8 {
        for part in 0..20u64 {
            let record = |key: u64| (Space(1), key.to_be_bytes().to_vec(), Some(vec![round; 1000]));
            let changes = (part * 100..(part + 1) * 100).map(record).collect();
            let batch = OrderedBatch { dropped: Vec::new(), changes };
            store.apply(&batch).unwrap();
            apply_to_model(&mut model, &batch);
            assert_eq!(store.tidy(), Ok(false), "batches come");
        }
    }
    while store.stats().compactions_running > 0 || store.stats().sealed_memtables > 0 {
        thread::yield_now();
    }
    // The last look came behind the last batch, so here is one that it has not seen.
    store
        .apply(&OrderedBatch { dropped: Vec::new(), changes: vec![(Space(1), vec![0; 8], Some(vec![5; 1000]))].into() })
        .unwrap();
    assert_eq!(store.tidy(), Ok(false), "the first call only looks");
    while !store.tidy().unwrap() {
        thread::yield_now();
    }
    // Some of it goes when the tables that were entered have been taken up.
    let live: usize = model.values().flat_map(|space| space.iter()).map(|(key, value)| key.len() + value.len()).sum();
    while store.tidy().unwrap() || folder_of_space_bytes(&store) > live as u64 * 13 / 10 {
        thread::yield_now();
    }
    let (mut entered, mut looks) = (0, 0);
    while looks < 10 {
        let busy = store.tidy().unwrap();
        entered += u32::from(busy);
        looks = if busy || store.stats().compactions_running > 0 { 0 } else { looks + 1 };
        assert!(entered <= 10, "it comes to an end");
    }
    let view = store.freeze();
    assert_eq!(difference(&store, &model, &[]).unwrap(), None);
    assert_eq!(difference(&*view, &model, &[]).unwrap(), None);
    drop((view, store));
    assert_eq!(difference(&open(&folder), &model, &[]).unwrap(), None);
}

/// While room is scarce: values that stand apart are large, and what removes them is a few bytes.
#[test]
fn what_is_removed_gives_its_room_back_at_once_while_room_is_scarce() {
    let folder = Folder::new();
    let options = LsmOptions { separate_from_bytes: 1 << 10, rest_after: Duration::from_hours(1), ..SMALL };
    let store = LsmStore::open(folder.path().join("store"), options).unwrap();
    let record = |key: u64, value: Option<Vec<u8>>| (Space(1), key.to_be_bytes().to_vec(), value);
    let apply = |changes: Vec<_>| {
        store.apply(&OrderedBatch { dropped: Vec::new(), changes: changes.into_iter().collect() }).unwrap();
    };
    for part in 0..20u64 {
        apply((part * 10..(part + 1) * 10).map(|key| record(key, Some(vec![key as u8; 16 << 10]))).collect());
    }
    store.flush().unwrap();
    let all = folder_of_space_bytes(&store);
    assert!(all > 200 * (16 << 10));
    // All but every twentieth, which keeps its file.
    apply((0..200).filter(|key| key % 20 > 0 && *key >= 20).map(|key| record(key, None)).collect());
    for _ in 0..50 {
        store.tidy().unwrap();
    }
    assert!(folder_of_space_bytes(&store) >= all, "it is not at rest yet");
    store.set_scarce(true);
    let mut looks = 0;
    while folder_of_space_bytes(&store) > all / 2 {
        store.tidy().unwrap();
        looks += 1;
        assert!(looks < 1000, "{} of {all} bytes are left", folder_of_space_bytes(&store));
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(store.get(Space(1), &40u64.to_be_bytes()).unwrap().map(|value| value.len()), Some(16 << 10));
    assert_eq!(store.get(Space(1), &41u64.to_be_bytes()).unwrap(), None);
}
