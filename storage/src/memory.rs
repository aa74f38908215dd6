//! An ordered store in memory, for tests and the simulator: it loses an unsynced suffix of its batches when told to crash.
//!
//! The state after every unsynced batch is kept (persistent maps share what is equal), so a crash is a choice among them.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Rng;
use base::ordered::{
    Changes, ORDERED_KEY_BYTES_MAX, OrderedBatch, OrderedError, OrderedLoad, OrderedRead, OrderedWrite, Pair, Space,
};
use imbl::OrdMap;

/// Keys and values are shared by all states, views and iterators that contain them.
type Bytes = Arc<[u8]>;
type Map = OrdMap<Bytes, Bytes>;
type Spaces = OrdMap<Space, Map>;

/// Pairs an iterator takes out of a map at a time: enough to find the place rarely.
const RANGE_STEP: usize = 64;
/// Pairs it takes first: most iterators are stopped after one or two.
const RANGE_FIRST: usize = 4;

/// An ordered store in memory. A clone is another handle on the same store; what survives is what a disk would keep.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What a crash cannot take.
    synced: Spaces,
    /// The state after each batch since, oldest first.
    unsynced: VecDeque<Spaces>,
    failing: Option<OrderedError>,
    full: bool,
}

impl Inner {
    fn current(&self) -> &Spaces {
        self.unsynced.back().unwrap_or(&self.synced)
    }

    fn refuse_if_full(&self) -> Result<(), OrderedError> {
        if !self.full {
            return Ok(());
        }
        Err(OrderedError { text: "there is no room on the disk (simulated)".to_owned(), full: true })
    }
}

impl MemoryStore {
    /// Another store with what is in this one now, all of it synced.
    #[must_use]
    pub fn copy(&self) -> MemoryStore {
        let synced = self.inner().current().clone();
        MemoryStore { inner: Arc::new(Mutex::new(Inner { synced, ..Inner::default() })) }
    }

    /// Becomes what another store is.
    pub fn set_back(&self, other: &MemoryStore) {
        let synced = other.inner().current().clone();
        *self.inner() = Inner { synced, ..Inner::default() };
    }

    /// An empty store.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics between two changes that belong together.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a batch, as a whole or not at all.
    ///
    /// # Errors
    /// The store is full ([`MemoryStore::set_full`]), or a key is longer than [`ORDERED_KEY_BYTES_MAX`].
    pub fn apply(&self, batch: &OrderedBatch) -> Result<(), OrderedError> {
        let mut inner = self.inner();
        inner.refuse_if_full()?;
        check_keys(&batch.changes)?;
        let mut state = inner.current().clone();
        for (space, key, value) in batch.changes.iter() {
            match value {
                Some(value) => {
                    state.entry(space).or_default().insert(key.into(), value.into());
                }
                None => {
                    if let Some(map) = state.get_mut(&space) {
                        map.remove(key);
                    }
                }
            }
        }
        for space in &batch.dropped {
            state.remove(space);
        }
        inner.unsynced.push_back(state);
        Ok(())
    }

    /// From now on no crash loses what was applied before.
    ///
    /// # Errors
    /// The store is full ([`MemoryStore::set_full`]).
    pub fn sync(&self) -> Result<(), OrderedError> {
        let mut inner = self.inner();
        inner.refuse_if_full()?;
        if let Some(last) = inner.unsynced.pop_back() {
            inner.synced = last;
            inner.unsynced.clear();
        }
        Ok(())
    }

    /// Loses a suffix of the unsynced batches, of a length that is drawn; what is left counts as synced, as it does for a store
    /// that is opened again. Injected failures end. Returns how many batches were lost.
    ///
    /// Views that were frozen before keep what they had.
    pub fn crash(&self, rng: &mut Rng) -> usize {
        let mut inner = self.inner();
        let applied = inner.unsynced.len();
        let kept = usize::try_from(rng.between(0, applied as u64)).expect("at most the number of batches");
        if let Some(last) = kept.checked_sub(1).and_then(|last| inner.unsynced.get(last)).cloned() {
            inner.synced = last;
        }
        inner.unsynced.clear();
        inner.failing = None;
        inner.full = false;
        applied - kept
    }

    /// How many batches a crash could take now.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.inner().unsynced.len()
    }

    /// The spaces that hold something or once did, ascending.
    #[must_use]
    pub fn spaces(&self) -> Vec<Space> {
        self.inner().current().keys().copied().collect()
    }

    /// Drops all spaces but these, durably: what is done when a store is opened and its owner knows what it needs.
    pub fn retain_spaces(&self, kept: &[Space]) {
        let mut inner = self.inner();
        let state = inner.current().clone();
        inner.synced = state.into_iter().filter(|(space, _)| kept.contains(space)).collect();
        inner.unsynced.clear();
    }

    /// Begins to fill a space.
    ///
    /// # Errors
    /// The store is full ([`MemoryStore::set_full`]), or has the space.
    pub fn load(&self, space: Space) -> Result<MemoryLoad, OrderedError> {
        let inner = self.inner();
        inner.refuse_if_full()?;
        if inner.current().contains_key(&space) {
            return Err(OrderedError { text: format!("{space:?} exists"), full: false });
        }
        Ok(MemoryLoad { store: self.clone(), space, last: None, pairs: Map::new() })
    }

    /// The next read, of this store or of one of its views, fails with `error`; the ones after it do not.
    pub fn fail_next_read(&self, error: OrderedError) {
        self.inner().failing = Some(error);
    }

    /// While `full`, [`MemoryStore::apply`] and [`MemoryStore::sync`] fail; reads do not.
    pub fn set_full(&self, full: bool) {
        self.inner().full = full;
    }

    fn take_failure(&self) -> Result<(), OrderedError> {
        self.inner().failing.take().map_or(Ok(()), Err)
    }
}

/// Refuses what no store takes. [`crate::LsmStore`] refuses the same.
pub(crate) fn check_keys(changes: &Changes) -> Result<(), OrderedError> {
    let longest = changes.iter().map(|(_, key, _)| key.len()).max().unwrap_or(0);
    if longest <= ORDERED_KEY_BYTES_MAX {
        return Ok(());
    }
    let text = format!("a key of {longest} bytes is longer than the store takes ({ORDERED_KEY_BYTES_MAX})");
    Err(OrderedError { text, full: false })
}

/// Whether `pairs` may follow `last`, the greatest key so far, in a load of `space`. Then `last` is the greatest of them.
pub(crate) fn check_pairs(space: Space, last: &mut Option<Vec<u8>>, pairs: &Changes) -> Result<(), OrderedError> {
    let error = |text: String| Err(OrderedError { text, full: false });
    check_keys(pairs)?;
    let mut before = last.as_deref();
    for (of, key, value) in pairs.iter() {
        if of != space || value.is_none() {
            return error(format!("a load of {space:?} takes only pairs of that space"));
        }
        if before.is_some_and(|before| before >= key) {
            return error(format!("the keys for {space:?} do not ascend"));
        }
        before = Some(key);
    }
    if !pairs.is_empty() {
        *last = before.map(<[u8]>::to_vec);
    }
    Ok(())
}

impl OrderedRead for MemoryStore {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        self.take_failure()?;
        Ok(get(self.inner().current(), space, key))
    }

    fn range<'a>(
        &'a self,
        space: Space,
        start: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        let map = self.inner().current().get(&space).cloned().unwrap_or_default();
        Box::new(Range::new(self.clone(), map, start))
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        let state = self.inner().current().clone();
        Arc::new(Frozen { store: self.clone(), state })
    }
}

impl OrderedWrite for MemoryStore {
    fn apply(&self, batch: &OrderedBatch) -> Result<(), OrderedError> {
        MemoryStore::apply(self, batch)
    }

    fn sync(&self) -> Result<(), OrderedError> {
        MemoryStore::sync(self)
    }

    fn spaces(&self) -> Vec<Space> {
        MemoryStore::spaces(self)
    }

    fn retain_spaces(&self, kept: &[Space]) -> Result<(), OrderedError> {
        MemoryStore::retain_spaces(self, kept);
        Ok(())
    }

    fn begin_load(&self, space: Space) -> Result<Box<dyn OrderedLoad>, OrderedError> {
        Ok(Box::new(self.load(space)?))
    }
}

/// A space of a [`MemoryStore`] that is being filled.
#[derive(Debug)]
pub struct MemoryLoad {
    store: MemoryStore,
    space: Space,
    last: Option<Vec<u8>>,
    pairs: Map,
}

impl MemoryLoad {
    /// See [`OrderedLoad::push`].
    ///
    /// # Errors
    /// See there.
    pub fn push(&mut self, pairs: &Changes) -> Result<(), OrderedError> {
        self.store.inner().refuse_if_full()?;
        check_pairs(self.space, &mut self.last, pairs)?;
        for (_, key, value) in pairs.iter() {
            self.pairs.insert(key.into(), value.unwrap_or_default().into());
        }
        Ok(())
    }

    /// See [`OrderedLoad::finish`].
    ///
    /// # Errors
    /// See there.
    pub fn finish(&self) -> Result<(), OrderedError> {
        {
            let mut inner = self.store.inner();
            inner.refuse_if_full()?;
            let mut state = inner.current().clone();
            state.insert(self.space, self.pairs.clone());
            inner.unsynced.push_back(state);
        }
        self.store.sync()
    }
}

impl OrderedLoad for MemoryLoad {
    fn push(&mut self, pairs: Changes) -> Result<(), OrderedError> {
        MemoryLoad::push(self, &pairs)
    }

    fn finish(self: Box<Self>) -> Result<(), OrderedError> {
        MemoryLoad::finish(&self)
    }
}

fn get(state: &Spaces, space: Space, key: &[u8]) -> Option<Vec<u8>> {
    state.get(&space)?.get(key).map(|value| value.to_vec())
}

/// The state at one moment. The store is kept for the failures that tests inject.
#[derive(Clone, Debug)]
struct Frozen {
    store: MemoryStore,
    state: Spaces,
}

impl OrderedRead for Frozen {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        self.store.take_failure()?;
        Ok(get(&self.state, space, key))
    }

    fn range<'a>(
        &'a self,
        space: Space,
        start: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        let map = self.state.get(&space).cloned().unwrap_or_default();
        Box::new(Range::new(self.store.clone(), map, start))
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        Arc::new(self.clone())
    }
}

/// Walks a map as it was when the walk began.
struct Range {
    store: MemoryStore,
    map: Map,
    /// Where the next pairs are taken from; `None` at the end.
    next: Option<Bound<Bytes>>,
    /// The number of pairs that are taken next.
    step: usize,
    taken: VecDeque<(Bytes, Bytes)>,
}

impl Range {
    fn new(store: MemoryStore, map: Map, start: Bound<&[u8]>) -> Range {
        Range { store, map, next: Some(start.map(Arc::from)), step: RANGE_FIRST, taken: VecDeque::new() }
    }
}

impl Iterator for Range {
    type Item = Result<Pair, OrderedError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.taken.is_empty() {
            let from = self.next.take()?;
            // The first two steps together are one, in which a read fails at its beginning only.
            let next = if self.step == RANGE_FIRST { RANGE_STEP - RANGE_FIRST } else { RANGE_STEP };
            let step = std::mem::replace(&mut self.step, next);
            if step != RANGE_STEP - RANGE_FIRST
                && let Err(error) = self.store.take_failure()
            {
                return Some(Err(error));
            }
            let bounds = (from.as_ref().map(|key| &**key), Bound::Unbounded);
            let pairs = self.map.range::<_, [u8]>(bounds).take(step);
            self.taken.extend(pairs.map(|(key, value)| (Arc::clone(key), Arc::clone(value))));
            if self.taken.len() == step {
                self.next = self.taken.back().map(|(key, _)| Bound::Excluded(Arc::clone(key)));
            }
        }
        let (key, value) = self.taken.pop_front()?;
        Some(Ok((key.to_vec(), value.to_vec())))
    }
}
