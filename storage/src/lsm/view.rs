//! Reading: the same code for the store as it is and for a frozen view of it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use base::ordered::{OrderedError, OrderedRead, Pair, Space};
use fjall::{Guard, Readable, Snapshot, UserValue};

use super::failures::failure;
use super::handles::Handle;
use super::inner::Inner;
use super::{LsmStore, keys};

/// The spaces that exist, as one moment sees them.
pub(super) type Spaces = Arc<BTreeMap<Space, Arc<Handle>>>;

/// The store at one moment. The fields are dropped in this order: fjall closes after its last keyspace and snapshot.
pub(super) struct Frozen {
    snapshot: Snapshot,
    spaces: Spaces,
    /// Keeps the database open.
    _store: Arc<Inner>,
}

impl Frozen {
    pub(super) fn new(snapshot: Snapshot, spaces: Spaces, store: Arc<Inner>) -> Frozen {
        Frozen { snapshot, spaces, _store: store }
    }
}

impl Clone for Frozen {
    fn clone(&self) -> Frozen {
        Frozen::new(self.snapshot.clone(), Arc::clone(&self.spaces), Arc::clone(&self._store))
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
    let steps = frozen.snapshot.range(&handle.keyspace, (keys::encode_start(start), Bound::Unbounded));
    Box::new(Walk { steps: Some(steps), _frozen: frozen.clone() })
}

/// A walk through one space; over after a failure.
struct Walk {
    steps: Option<fjall::Iter>,
    /// Keeps the space and the database open.
    _frozen: Frozen,
}

impl Iterator for Walk {
    type Item = Result<Pair, OrderedError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.steps.as_mut()?.next().map(Guard::into_inner);
        match step {
            Some(Ok((key, value))) => Some(Ok((keys::decode(&key), value.to_vec()))),
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
