//! Reading: the same code for the store as it is and for a frozen view of it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::ordered::{OrderedError, OrderedRead, Pair, Space};
use fjall::{Guard, Readable, Snapshot, UserKey, UserValue};

use super::failures::failure;
use super::handles::Handle;
use super::inner::Inner;
use super::{LsmStore, keys};

/// The spaces that exist, as one moment sees them.
pub(super) type Spaces = Arc<BTreeMap<Space, Arc<Handle>>>;

/// A walk remembers so many of the last pairs that it gave: who reads in parts has looked at one or two beyond the end of a part.
const REMEMBERED: usize = 4;

/// The store at one moment. The fields are dropped in this order: fjall closes after its last keyspace and snapshot.
pub(super) struct Frozen {
    /// Where the last walk ended, see [`Walk`].
    parked: Arc<Mutex<Option<Parked>>>,
    snapshot: Snapshot,
    spaces: Spaces,
    /// Keeps the database open.
    _store: Arc<Inner>,
}

impl Frozen {
    pub(super) fn new(snapshot: Snapshot, spaces: Spaces, store: Arc<Inner>) -> Frozen {
        Frozen { parked: Arc::default(), snapshot, spaces, _store: store }
    }

    fn parked(&self) -> MutexGuard<'_, Option<Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The walk that was broken off where this one shall begin, if that is what happened.
    fn resume(&self, space: Space, start: &Bound<Vec<u8>>) -> Option<Parked> {
        let Bound::Excluded(after) = start else { return None };
        // It stands behind the last of what it remembers, so `after` must lie among that.
        let fits = |Parked { space: parked, given, .. }: &Parked| {
            let ends = given.front().zip(given.back());
            *parked == space && ends.is_some_and(|((first, _), (last, _))| **first <= **after && **after <= **last)
        };
        let mut parked = self.parked().take_if(|parked| fits(parked))?;
        parked.given.retain(|(key, _)| **key > **after);
        Some(parked)
    }
}

impl Clone for Frozen {
    fn clone(&self) -> Frozen {
        Frozen {
            parked: Arc::clone(&self.parked),
            snapshot: self.snapshot.clone(),
            spaces: Arc::clone(&self.spaces),
            _store: Arc::clone(&self._store),
        }
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frozen {{ sequence: {}, spaces: {} }}", self.snapshot.seqno(), self.spaces.len())
    }
}

impl OrderedRead for Frozen {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        let Some(handle) = self.spaces.get(&space) else { return Ok(None) };
        value(self.snapshot.get(&handle.keyspace, keys::encode(key)))
    }

    fn range<'a>(
        &'a self,
        space: Space,
        start: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        range(self, space, start)
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        Arc::new(self.clone())
    }
}

impl LsmStore {
    /// The store as it is now.
    fn frozen(&self) -> Result<Frozen, OrderedError> {
        self.shared.read(|inner| {
            let (snapshot, spaces) = inner.snapshot();
            Ok(Frozen::new(snapshot, spaces, Arc::clone(inner)))
        })
    }
}

impl OrderedRead for LsmStore {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        self.shared.read(|inner| {
            let Some(handle) = inner.space(space) else { return Ok(None) };
            value(handle.get(&keys::encode(key)))
        })
    }

    /// Walks the space as it was when the walk began.
    fn range<'a>(
        &'a self,
        space: Space,
        start: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        match self.frozen() {
            Ok(frozen) => range(&frozen, space, start),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        match self.frozen() {
            Ok(frozen) => Arc::new(frozen),
            Err(error) => Arc::new(Unreadable(error)),
        }
    }
}

/// What is frozen of a store that cannot be read.
#[derive(Clone, Debug)]
struct Unreadable(OrderedError);

impl OrderedRead for Unreadable {
    fn get(&self, _: Space, _: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        Err(self.0.clone())
    }

    fn range<'a>(&'a self, _: Space, _: Bound<&[u8]>) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        Box::new(std::iter::once(Err(self.0.clone())))
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        Arc::new(self.clone())
    }
}

/// A value as it leaves the store.
fn value(read: fjall::Result<Option<UserValue>>) -> Result<Option<Vec<u8>>, OrderedError> {
    Ok(read.map_err(|error| failure("be read", &error))?.map(|value| value.to_vec()))
}

fn range<'a>(
    frozen: &Frozen,
    space: Space,
    start: Bound<&[u8]>,
) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
    let Some(handle) = frozen.spaces.get(&space) else { return Box::new(std::iter::empty()) };
    let start = keys::encode_start(start);
    let (steps, again) = match frozen.resume(space, &start) {
        Some(Parked { steps, given, .. }) => (steps, given),
        None => (frozen.snapshot.range(&handle.keyspace, (start, Bound::Unbounded)), VecDeque::new()),
    };
    Box::new(Walk { space, steps: Some(steps), again, given: VecDeque::new(), frozen: frozen.clone() })
}

/// A walk through one space; over after a failure.
///
/// To begin one costs more the more was written since the view was taken: fjall passes over all of that to find the first pair that the view has
/// (it was 70 % of a sender's processor time, with a new walk for each block of a snapshot). So a walk that is broken off is parked with its view, and
/// who goes on where it ended has it back.
struct Walk {
    space: Space,
    steps: Option<fjall::Iter>,
    /// Pairs to give before those of `steps`.
    again: VecDeque<(UserKey, UserValue)>,
    /// The last pairs that were given, the latest last.
    given: VecDeque<(UserKey, UserValue)>,
    /// Keeps the space and the database open.
    frozen: Frozen,
}

/// A walk that was broken off.
struct Parked {
    space: Space,
    steps: fjall::Iter,
    given: VecDeque<(UserKey, UserValue)>,
}

impl Iterator for Walk {
    type Item = Result<Pair, OrderedError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = match self.again.pop_front() {
            Some(pair) => Some(Ok(pair)),
            None => self.steps.as_mut()?.next().map(Guard::into_inner),
        };
        match step {
            Some(Ok((key, value))) => {
                let pair = (keys::decode(&key), value.to_vec());
                if self.given.len() == REMEMBERED {
                    self.given.pop_front();
                }
                self.given.push_back((key, value));
                Some(Ok(pair))
            }
            Some(Err(error)) => {
                self.steps = None;
                Some(Err(failure("be read", &error)))
            }
            None => {
                self.steps = None;
                None
            }
        }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        let Some(steps) = self.steps.take() else { return };
        // Of a view that nobody else has, nobody will go on.
        if Arc::strong_count(&self.frozen.parked) > 1 {
            let mut given = std::mem::take(&mut self.given);
            given.append(&mut self.again);
            *self.frozen.parked() = Some(Parked { space: self.space, steps, given });
        }
    }
}
