//! Keys in pieces are what whole keys would be.

use super::*;
use base::ordered::{Changes, OrderedBatch, Pair};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use storage::MemoryStore;

const SPACES: Spaces = Spaces { keys: Space(1), pieces: Space(2) };

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Few bytes, so that keys begin alike in every length; the byte that marks a branch is one of them.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let tail = prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 0..9);
    (0..3u8, prop::bool::ANY, tail).prop_map(|(first, is_near, tail)| {
        let mut key = vec![first; if is_near { WHOLE_BYTES_MAX - 2 } else { 3 }];
        key.extend(tail);
        key
    })
}

fn apply(store: &MemoryStore, changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> OrderedBatch {
    let mut batch = OrderedBatch::default();
    let mut cutter = Cutter::new(store, SPACES);
    for (key, value) in changes {
        let put = value.as_ref().map(|value| |bytes: &mut Vec<u8>| bytes.extend_from_slice(value));
        match put {
            _ if key.len() <= WHOLE_BYTES_MAX => batch.changes.push((SPACES.keys, key, value.as_ref())),
            Some(put) => cutter.put(key, put, &mut batch).unwrap(),
            None => cutter.remove(key, &mut batch).unwrap(),
        }
    }
    cutter.finish(&mut batch);
    batch
}

fn pairs(store: &MemoryStore, start: Bound<&[u8]>) -> Vec<Pair> {
    Walk::new(store, SPACES, start).unwrap().map(|pair| pair.unwrap()).collect()
}

/// What stands in the space of pieces beside the next number.
fn pieces(store: &MemoryStore) -> usize {
    store.range(SPACES.pieces, Bound::Unbounded).count().saturating_sub(1)
}

/// A store to which another thread brings a batch while it is read: after so many reads.
#[derive(Debug)]
struct Racing {
    before: MemoryStore,
    after: MemoryStore,
    reads: AtomicUsize,
    at: usize,
}

impl Racing {
    fn now(&self) -> &MemoryStore {
        if self.reads.fetch_add(1, Ordering::Relaxed) < self.at { &self.before } else { &self.after }
    }
}

impl OrderedRead for Racing {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        self.now().get(space, key)
    }

    fn range<'a>(
        &'a self,
        space: Space,
        start: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        self.now().range(space, start)
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        self.now().freeze()
    }
}

/// What a batch does not change is found whenever it comes.
fn race(before: &MemoryStore, after: &MemoryStore, batch: &BTreeMap<Vec<u8>, Option<Vec<u8>>>, model: &Model) {
    let kept = |pair: &Pair| !batch.contains_key(&pair.0);
    let all: Vec<Pair> = model.iter().map(|(key, value)| (key.clone(), value.clone())).filter(kept).collect();
    for at in 0..12 {
        let racing = || Racing { before: before.clone(), after: after.clone(), reads: AtomicUsize::new(0), at };
        let found = Walk::new(&racing(), SPACES, Bound::Unbounded)
            .unwrap()
            .map(|pair| pair.unwrap())
            .filter(kept)
            .collect::<Vec<_>>();
        assert_eq!(found, all, "after {at} reads");
        for (key, value) in all.iter().filter(|(key, _)| key.len() > WHOLE_BYTES_MAX) {
            assert_eq!(get(&racing(), SPACES, key).unwrap().as_ref(), Some(value));
            let first =
                Walk::new(&racing(), SPACES, Bound::Included(key)).unwrap().map(|pair| pair.unwrap()).find(kept);
            assert_eq!(first.map(|(key, _)| key).as_ref(), Some(key));
        }
    }
}

fn compare(store: &MemoryStore, model: &Model, asked: &[Vec<u8>]) {
    let all: Vec<Pair> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(pairs(store, Bound::Unbounded), all);
    for key in asked {
        if key.len() > WHOLE_BYTES_MAX {
            assert_eq!(get(store, SPACES, key).unwrap().as_ref(), model.get(key));
        }
        for start in [Bound::Included(key.as_slice()), Bound::Excluded(key)] {
            let there: Vec<Pair> = model
                .range::<[u8], _>((start, Bound::Unbounded))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            assert_eq!(pairs(store, start), there, "{start:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pieces_are_read_as_what_they_were(
        batches in prop::collection::vec(prop::collection::btree_map(key(), prop::option::weighted(0.6, 0..99u8), 0..12), 1..8),
        asked in prop::collection::vec(key(), 0..20),
    ) {
        let (store, mut model) = (MemoryStore::new(), Model::new());
        for (at, batch) in batches.into_iter().enumerate() {
            let batch: BTreeMap<_, _> = batch.into_iter().map(|(key, value)| (key, value.map(|value| vec![value]))).collect();
            let before = store.copy();
            store.apply(&apply(&store, &batch)).unwrap();
            race(&before, &store, &batch, &model);
            if at % 2 == 1 {
                // Nobody knew whether the store had it.
                store.apply(&apply(&store, &batch)).unwrap();
            }
            for (key, value) in batch {
                match value {
                    Some(value) => drop(model.insert(key, value)),
                    None => drop(model.remove(&key)),
                }
            }
            compare(&store, &model, &asked);
            check(&store, SPACES).unwrap();
        }
        // The same from sorted keys.
        let loaded = MemoryStore::new();
        let (mut loader, mut sorted, mut rest) = (Loader::new(SPACES), Changes::default(), OrderedBatch::default());
        for (key, value) in &model {
            loader.push(key, |bytes| bytes.extend_from_slice(value), &mut sorted, &mut rest);
        }
        loader.finish(&mut sorted, &mut rest);
        prop_assert_eq!(loader.has_pieces(), model.keys().any(|key| key.len() > WHOLE_BYTES_MAX));
        let mut load = loaded.load(SPACES.keys).unwrap();
        load.push(&sorted).unwrap();
        load.finish().unwrap();
        loaded.apply(&rest).unwrap();
        compare(&loaded, &model, &asked);
        check(&loaded, SPACES).unwrap();
        prop_assert_eq!(pieces(&loaded), pieces(&store));
        // Nothing is left of what goes.
        let gone = model.keys().map(|key| (key.clone(), None)).collect();
        for store in [&store, &loaded] {
            store.apply(&apply(store, &gone)).unwrap();
            compare(store, &Model::new(), &asked);
            prop_assert_eq!((store.range(SPACES.keys, Bound::Unbounded).count(), pieces(store)), (0, 0));
        }
    }

    #[test]
    fn what_is_damaged_is_an_error_or_another_value_and_no_panic(
        keys in prop::collection::btree_set(key(), 1..8),
        at in any::<prop::sample::Index>(),
        bytes in prop::option::of(prop::collection::vec(any::<u8>(), 0..12)),
    ) {
        let store = MemoryStore::new();
        store.apply(&apply(&store, &keys.iter().map(|key| (key.clone(), Some(key.clone()))).collect())).unwrap();
        let stored: Vec<(Space, Vec<u8>)> = [SPACES.keys, SPACES.pieces]
            .into_iter()
            .flat_map(|space| store.range(space, Bound::Unbounded).map(move |pair| (space, pair.unwrap().0)))
            .collect();
        let (space, key) = stored[at.index(stored.len())].clone();
        let changes = vec![(space, key, bytes)].into();
        store.apply(&OrderedBatch { changes, ..OrderedBatch::default() }).unwrap();
        let _ = check(&store, SPACES);
        let mut read = Walk::new(&store, SPACES, Bound::Unbounded).unwrap();
        let is_read = read.by_ref().take(100).all(|pair| pair.is_ok());
        prop_assert!(is_read || read.next().is_none());
        for key in keys.iter().filter(|key| key.len() > WHOLE_BYTES_MAX) {
            let _ = get(&store, SPACES, key);
            let _ = Walk::new(&store, SPACES, Bound::Excluded(key)).map(|walk| walk.take(100).count());
            let mut batch = OrderedBatch::default();
            let mut cutter = Cutter::new(&store, SPACES);
            let _ = cutter.put(key, |_| (), &mut batch).and_then(|()| cutter.remove(key, &mut batch));
        }
    }
}
