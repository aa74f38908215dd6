//! Reading: the same code for the store as it is and for a frozen view of it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use base::ordered::{OrderedError, OrderedRead, Pair, Space};
use fjall::{Guard, Readable, Snapshot};

use super::handles::Handle;
use super::{Inner, LsmStore, failure, keys};

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
        let value = self.snapshot.get(&handle.keyspace, keys::encode(key));
        Ok(value.map_err(|error| failure("be read", &error))?.map(|value| value.to_vec()))
    }

    fn range<'a>(
        &'a self,
        space: Space,
        start: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        range(&self.snapshot, self.spaces.get(&space), start)
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        Arc::new(self.clone())
    }
}

impl OrderedRead for LsmStore {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        let Some(handle) = self.inner.space(space) else { return Ok(None) };
        let value = handle.keyspace.get(keys::encode(key));
        Ok(value.map_err(|error| failure("be read", &error))?.map(|value| value.to_vec()))
    }

    /// Walks the space as it was when the walk began.
    fn range<'a>(
        &'a self,
        space: Space,
        start: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        let (snapshot, spaces) = self.inner.snapshot();
        range(&snapshot, spaces.get(&space), start)
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        let (snapshot, spaces) = self.inner.snapshot();
        Arc::new(Frozen::new(snapshot, spaces, Arc::clone(&self.inner)))
    }
}

fn range<'a>(
    snapshot: &Snapshot,
    handle: Option<&Arc<Handle>>,
    start: Bound<&[u8]>,
) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
    let Some(handle) = handle else { return Box::new(std::iter::empty()) };
    let steps = snapshot.range(&handle.keyspace, (keys::encode_start(start), Bound::Unbounded));
    Box::new(Walk { steps: Some(steps), _handle: Arc::clone(handle) })
}

/// A walk through one space; over after a failure.
struct Walk {
    steps: Option<fjall::Iter>,
    _handle: Arc<Handle>,
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
