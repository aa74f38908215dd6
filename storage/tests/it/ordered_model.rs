//! Both ordered stores against a `BTreeMap`, under random batches, reads, freezes, crashes and reopenings.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "one of the stores is about real files")]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::ordered_support::{
    Folder, Model, SMALL, apply_to_model, count_from_environment, difference, load, put, read_all,
};
use base::Rng;
use base::ordered::{ORDERED_KEY_BYTES_MAX, OrderedBatch, OrderedError, OrderedRead, OrderedWrite, Space};
use proptest::prelude::*;
use storage::{LsmStore, MemoryStore};

#[derive(Clone, Debug)]
enum Action {
    Apply(OrderedBatch),
    Sync,
    Get(Space, Vec<u8>),
    Range(Space, Bound<Vec<u8>>),
    Freeze,
    /// Looks at a frozen view again, and lets go of it.
    Thaw(usize),
    /// Writes memtables as tables.
    Flush,
    Tidy,
    Reopen,
    Crash(u64),
    Load(Space, BTreeMap<Vec<u8>, Vec<u8>>),
}

/// Short keys of few bytes, so that they meet, with those that the stores must tell from their own.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 255]), 0..4),
        2 => Just(b"n".to_vec()),
        1 => (0..200usize).prop_map(|length| vec![7; length * 100]),
    ]
}

fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        3 => Just(None),
        6 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Some),
        1 => (0..60_000usize, any::<u8>()).prop_map(|(length, byte)| Some(vec![byte; length])),
    ]
}

fn space() -> impl Strategy<Value = Space> {
    (0..4u64).prop_map(Space)
}

fn batch() -> impl Strategy<Value = OrderedBatch> {
    let dropped = prop_oneof![9 => Just(Vec::new()), 1 => space().prop_map(|space| vec![space])];
    (dropped, prop::collection::vec((space(), key(), value()), 0..12))
        .prop_map(|(dropped, changes)| OrderedBatch { dropped, changes: changes.into() })
}

fn action() -> impl Strategy<Value = Action> {
    let start = prop_oneof![Just(Bound::Unbounded), key().prop_map(Bound::Included), key().prop_map(Bound::Excluded)];
    prop_oneof![
        10 => batch().prop_map(Action::Apply),
        2 => Just(Action::Sync),
        4 => (space(), key()).prop_map(|(space, key)| Action::Get(space, key)),
        4 => (space(), start).prop_map(|(space, start)| Action::Range(space, start)),
        2 => Just(Action::Freeze),
        2 => (0..4usize).prop_map(Action::Thaw),
        1 => Just(Action::Flush),
        1 => Just(Action::Tidy),
        1 => Just(Action::Reopen),
        1 => any::<u64>().prop_map(Action::Crash),
        2 => (space(), prop::collection::btree_map(key(), value().prop_map(Option::unwrap_or_default), 0..40))
            .prop_map(|(space, pairs)| Action::Load(space, pairs)),
    ]
}

const SPACES: [Space; 4] = [Space(0), Space(1), Space(2), Space(3)];

fn check_read(store: &dyn OrderedRead, model: &Model, action: &Action) {
    match action {
        Action::Get(space, key) => {
            let expected = model.get(space).and_then(|map| map.get(key)).cloned();
            assert_eq!(store.get(*space, key).unwrap(), expected, "{space:?} {key:?}");
        }
        Action::Range(space, start) => {
            let bounds = (start.as_ref().map(Vec::as_slice), Bound::Unbounded);
            let map = model.get(space).cloned().unwrap_or_default();
            let expected: Vec<_> =
                map.range::<[u8], _>(bounds).map(|(key, value)| (key.clone(), value.clone())).collect();
            assert_eq!(read_all(store, *space, bounds.0).unwrap(), expected, "{space:?} {start:?}");
        }
        _ => unreachable!("only reads are given"),
    }
}

type Views = Vec<(Arc<dyn OrderedRead>, Model)>;

fn thaw(views: &mut Views, index: usize) {
    if index < views.len() {
        let (view, model) = views.swap_remove(index);
        assert_eq!(difference(&*view, &model, &SPACES).unwrap(), None);
        assert_eq!(difference(&*view.freeze(), &model, &SPACES).unwrap(), None);
    }
}

/// Fills a space of the store and of the model. False if there is such a space: then it is refused.
fn load_both(store: &impl OrderedWrite, model: &mut Model, space: Space, pairs: &BTreeMap<Vec<u8>, Vec<u8>>) -> bool {
    let loaded = load(store, space, pairs, || ());
    if model.contains_key(&space) {
        assert!(loaded.is_err());
        return false;
    }
    loaded.unwrap();
    model.insert(space, pairs.clone());
    true
}

fn drive_memory(actions: &[Action]) {
    let store = MemoryStore::new();
    let mut models = vec![Model::new()];
    let mut views: Views = Vec::new();
    for action in actions {
        let model = models.last().unwrap().clone();
        match action {
            Action::Apply(batch) => {
                store.apply(batch).unwrap();
                let mut next = model;
                apply_to_model(&mut next, batch);
                models.push(next);
            }
            Action::Sync => {
                store.sync().unwrap();
                models = vec![model];
            }
            Action::Get(..) | Action::Range(..) => check_read(&store, &model, action),
            Action::Freeze => views.push((store.freeze(), model)),
            Action::Thaw(index) => thaw(&mut views, *index),
            Action::Crash(seed) => {
                let lost = store.crash(&mut Rng::new(*seed));
                models = vec![models[models.len() - 1 - lost].clone()];
                assert_eq!(store.unsynced(), 0);
            }
            Action::Load(space, pairs) => {
                let mut next = model;
                if load_both(&store, &mut next, *space, pairs) {
                    models = vec![next];
                    assert_eq!(store.unsynced(), 0);
                }
            }
            Action::Flush | Action::Tidy | Action::Reopen => {}
        }
        assert_eq!(difference(&store, models.last().unwrap(), &SPACES).unwrap(), None);
    }
}

fn drive_lsm(actions: &[Action]) {
    let folder = Folder::new();
    let mut store = LsmStore::open(folder.path(), SMALL).unwrap();
    let mut model = Model::new();
    let mut views: Views = Vec::new();
    for action in actions {
        match action {
            Action::Apply(batch) => {
                store.apply(batch).unwrap();
                apply_to_model(&mut model, batch);
            }
            Action::Sync => store.sync().unwrap(),
            Action::Get(..) | Action::Range(..) => check_read(&store, &model, action),
            Action::Freeze => views.push((store.freeze(), model.clone())),
            Action::Thaw(index) => thaw(&mut views, *index),
            Action::Load(space, pairs) => {
                load_both(&store, &mut model, *space, pairs);
            }
            Action::Flush => store.flush().unwrap(),
            Action::Tidy => {
                store.tidy().unwrap();
            }
            Action::Reopen => {
                while !views.is_empty() {
                    thaw(&mut views, 0);
                }
                drop(store);
                store = LsmStore::open(folder.path(), SMALL).unwrap();
                let found = store.spaces();
                assert!(model.iter().all(|(space, map)| map.is_empty() || found.contains(space)), "{found:?}");
            }
            Action::Crash(_) => {}
        }
        assert_eq!(difference(&store, &model, &SPACES).unwrap(), None);
    }
    while !views.is_empty() {
        thaw(&mut views, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: count_from_environment("DICTUM_STORE_CASES", 200),
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn memory_is_a_map(actions in prop::collection::vec(action(), 0..60)) {
        drive_memory(&actions);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: count_from_environment("DICTUM_STORE_CASES", 24),
        rng_seed: proptest::test_runner::RngSeed::Fixed(2),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    })]

    #[test]
    fn lsm_is_a_map(actions in prop::collection::vec(action(), 0..40)) {
        drive_lsm(&actions);
    }
}

#[test]
fn memory_fails_when_told_to() {
    let store = MemoryStore::new();
    store.apply(&put(1, "a", "1")).unwrap();
    let view = store.freeze();
    let error = OrderedError { text: "rot".to_owned(), full: false };
    store.fail_next_read(error.clone());
    assert_eq!(view.get(Space(1), b"a"), Err(error.clone()));
    assert_eq!(view.get(Space(1), b"a"), Ok(Some(b"1".to_vec())));
    store.fail_next_read(error.clone());
    let walked: Vec<_> = store.range(Space(1), Bound::Unbounded).collect();
    assert_eq!(walked, [Err(error)]);
    store.set_full(true);
    assert!(store.clone().apply(&put(1, "b", "2")).unwrap_err().full);
    assert!(store.sync().unwrap_err().full);
    store.crash(&mut Rng::new(1));
    store.apply(&put(1, "b", "2")).unwrap();
    store.retain_spaces(&[Space(0)]);
    assert_eq!(store.spaces(), []);
    assert_eq!(view.get(Space(1), b"a"), Ok(Some(b"1".to_vec())));
}

#[test]
fn crashes_take_every_length() {
    let mut rng = Rng::new(3);
    let mut seen = [false; 4];
    for _ in 0..100 {
        let store = MemoryStore::new();
        store.apply(&put(1, "synced", "")).unwrap();
        store.sync().unwrap();
        for number in 0..3u8 {
            store.apply(&put(1, [number], [number])).unwrap();
        }
        let lost = store.crash(&mut rng);
        seen[lost] = true;
        assert_eq!(read_all(&store, Space(1), Bound::Unbounded).unwrap().len(), 4 - lost);
    }
    assert_eq!(seen, [true; 4]);
}

#[test]
fn keys_that_are_too_long_are_refused_by_both() {
    let folder = Folder::new();
    let lsm = LsmStore::open(folder.path(), SMALL).unwrap();
    let memory = MemoryStore::new();
    let (longest, longer) = (vec![0; ORDERED_KEY_BYTES_MAX], vec![0; ORDERED_KEY_BYTES_MAX + 1]);
    for batch in [put(1, longer.clone(), ""), put(1, longest.clone(), "")] {
        assert_eq!(lsm.apply(&batch), memory.apply(&batch));
    }
    assert_eq!(lsm.get(Space(1), &longest), Ok(Some(Vec::new())));
    assert_eq!(lsm.get(Space(1), &longer), Ok(None));
}
