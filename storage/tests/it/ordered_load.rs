//! Filling a space with sorted pairs: that it is all there or not there, and what is refused. Under random actions: `ordered_model.rs`; under
//! `kill -9`: `ordered_kills.rs`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "these tests are about real files")]

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::ordered_support::{Folder, Model, SMALL, difference, load, put, read_all};
use base::ordered::{Change, Changes, OrderedBatch, OrderedRead, OrderedWrite, Space};
use storage::{LsmStore, MemoryStore, StoreView, verify_store};

const LOADED: Space = Space(7);

fn pairs(keys: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    // Every hundredth value lies beside the tables.
    let bytes = |key: u64| if key % 100 == 99 { 20_000 } else { 100 };
    (0..keys).map(|key| (key.to_be_bytes().to_vec(), vec![key as u8; bytes(key)])).collect()
}

fn some(of: &BTreeMap<Vec<u8>, Vec<u8>>) -> Changes {
    of.iter().map(|(key, value)| (LOADED, key, Some(value))).collect()
}

#[test]
fn a_loaded_space_is_like_any_other() {
    let folder = Folder::new();
    let path = folder.path().join("store");
    let mut model = Model::from([(LOADED, pairs(20_000))]);
    {
        let store = LsmStore::open(&path, SMALL).unwrap();
        load(&store, LOADED, &pairs(20_000), || ()).unwrap();
        assert_eq!(difference(&store, &model, &[LOADED]).unwrap(), None);
    }
    let mut progress = |_| ();
    let report = verify_store(&path, &mut progress).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert!(report.tables >= 2, "the pairs, and the mark: {report:?}");
    let scratch = Folder::new();
    let view = StoreView::open(&path, &scratch.path().join("view")).unwrap();
    assert_eq!(difference(view.store(), &model, &[LOADED]).unwrap(), None);
    drop(view);

    // Newer batches win, in memory, as tables, and compacted.
    let store = LsmStore::open(&path, SMALL).unwrap();
    for key in (0..20_000_u64).step_by(3) {
        store.apply(&put(LOADED.0, key.to_be_bytes(), *b"newer")).unwrap();
        model.get_mut(&LOADED).unwrap().insert(key.to_be_bytes().to_vec(), b"newer".to_vec());
    }
    assert_eq!(difference(&store, &model, &[LOADED]).unwrap(), None);
    store.flush().unwrap();
    while store.stats().compactions_running > 0 || store.tidy().unwrap() {}
    assert_eq!(difference(&store, &model, &[LOADED]).unwrap(), None);
    drop(store);
    let store = LsmStore::open(&path, SMALL).unwrap();
    assert_eq!(difference(&store, &model, &[LOADED]).unwrap(), None);
}

#[test]
fn nothing_is_seen_before_the_end() {
    let folder = Folder::new();
    let path = folder.path().join("store");
    let store = LsmStore::open(&path, SMALL).unwrap();
    let all = pairs(3000);
    let mut begun = store.begin_load(LOADED).unwrap();
    begun.push(some(&all)).unwrap();
    store.apply(&put(1, "key", "beside it")).unwrap();
    let view = store.freeze();
    for read in [&store as &dyn OrderedRead, &*view] {
        assert_eq!(read.get(LOADED, &[0; 8]).unwrap(), None);
        assert_eq!(read_all(read, LOADED, Bound::Unbounded).unwrap(), []);
    }
    begun.finish().unwrap();
    assert_eq!(read_all(&*view, LOADED, Bound::Unbounded).unwrap(), [], "what is frozen stays so");
    let model = Model::from([(LOADED, all), (Space(1), BTreeMap::from([(b"key".to_vec(), b"beside it".to_vec())]))]);
    assert_eq!(difference(&store, &model, &[]).unwrap(), None);
}

#[test]
fn a_load_that_was_given_up_leaves_an_empty_space() {
    let folder = Folder::new();
    let path = folder.path().join("store");
    let store = LsmStore::open(&path, SMALL).unwrap();
    let mut begun = store.begin_load(LOADED).unwrap();
    begun.push(some(&pairs(20_000))).unwrap();
    drop(begun);
    assert_eq!(read_all(&store, LOADED, Bound::Unbounded).unwrap(), []);
    // It can be dropped, also by the next process, and made again.
    drop(store);
    let store = LsmStore::open(&path, SMALL).unwrap();
    assert_eq!(store.spaces(), [LOADED]);
    store.apply(&OrderedBatch { dropped: vec![LOADED], ..OrderedBatch::default() }).unwrap();
    load(&store, LOADED, &pairs(30), || ()).unwrap();
    assert_eq!(difference(&store, &Model::from([(LOADED, pairs(30))]), &[]).unwrap(), None);
}

#[test]
fn what_is_no_load_is_refused() {
    let folder = Folder::new();
    let lsm = LsmStore::open(folder.path().join("store"), SMALL).unwrap();
    let memory = MemoryStore::new();
    for (number, store) in [&lsm as &dyn OrderedWrite, &memory].into_iter().enumerate() {
        store.apply(&put(1, "key", "value")).unwrap();
        let error = store.begin_load(Space(1)).unwrap_err();
        assert!(error.text.contains("exists") && !error.full, "{error}");
        let wrong: [(Vec<Change<'_>>, &str); 5] = [
            (vec![(LOADED, b"b", Some(b"")), (LOADED, b"a", Some(b""))], "do not ascend"),
            (vec![(LOADED, b"a", Some(b"")), (LOADED, b"a", Some(b""))], "do not ascend"),
            (vec![(LOADED, b"a", None)], "only pairs of that space"),
            (vec![(Space(8), b"a", Some(b""))], "only pairs of that space"),
            (vec![(LOADED, &[b'x'; 61 * 1024], Some(b""))], "longer than the store takes"),
        ];
        for (pairs, says) in wrong {
            let mut begun = store.begin_load(LOADED).unwrap();
            let error = begun.push(pairs.into_iter().collect()).unwrap_err();
            assert!(error.text.contains(says), "store {number}: {error}");
            drop(begun);
            store.apply(&OrderedBatch { dropped: vec![LOADED], ..OrderedBatch::default() }).unwrap();
        }
        let mut begun = store.begin_load(LOADED).unwrap();
        begun.push([(LOADED, "b", Some(""))].into_iter().collect()).unwrap();
        assert!(begun.push([(LOADED, "a", Some(""))].into_iter().collect()).is_err(), "across calls, too");
        // The store itself goes on.
        store.apply(&put(1, "key", "value")).unwrap();
        store.sync().unwrap();
    }
}
