//! The store below the layers, as it is read: keys that are too long for it stand there in pieces.

use crate::image::Malformed;
use crate::kept::{Kept, base_key};
use crate::merge::{Said, Sorted};
use crate::pieces;
use base::ordered::{OrderedError, OrderedRead, Pair, Space};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

/// The store below, as far as it is ours.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub read: Arc<dyn OrderedRead>,
    /// Where ours are; none once everything was removed, until the next flush.
    pub space: Option<Space>,
    /// Where the further pieces of long keys are, once there were any.
    pub pieces: Option<Space>,
    pub trouble: Trouble,
}

/// The first thing that went wrong with the store below. What is read afterwards means nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble(Arc<OnceLock<OrderedError>>);

impl Trouble {
    pub(crate) fn note(&self, error: OrderedError) {
        let _ = self.0.set(error);
    }

    pub(crate) fn first(&self) -> Option<&OrderedError> {
        self.0.get()
    }
}

impl Base {
    pub(super) fn check_pieces(&self) {
        if let (Some(keys), Some(pieces)) = (self.space, self.pieces)
            && let Err(error) = pieces::check(&*self.read.freeze(), pieces::Spaces { keys, pieces })
        {
            self.trouble.note(error);
        }
    }

    /// The value of a key, whole or in pieces.
    fn stored(&self, space: Space, whole_bytes_max: usize, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        if key.len() <= whole_bytes_max {
            return self.read.get(space, key);
        }
        let Some(pieces) = self.pieces else { return Ok(None) };
        pieces::get(&*self.read, pieces::Spaces { keys: space, pieces }, key)
    }

    /// Pairs from a key on, whole or in pieces.
    fn stored_from(
        &self,
        space: Space,
        whole_bytes_max: usize,
        start: Bound<&[u8]>,
    ) -> Result<Box<dyn Iterator<Item = Result<Pair, OrderedError>> + '_>, OrderedError> {
        if let Some(pieces) = self.pieces {
            return Ok(Box::new(pieces::Walk::new(&*self.read, pieces::Spaces { keys: space, pieces }, start)?));
        }
        // What stands before a key that is too long for the store stands before its beginning, too, or is that.
        let cut = |key: &'_ [u8]| key.get(..whole_bytes_max).filter(|cut| cut.len() < key.len()).map(<[u8]>::to_vec);
        let beginning = match start {
            Bound::Included(key) | Bound::Excluded(key) => cut(key),
            Bound::Unbounded => None,
        };
        Ok(self.read.range(space, beginning.as_deref().map_or(start, Bound::Excluded)))
    }

    pub(super) fn get<K: Kept>(&self, key: K::Ref<'_>) -> Option<K::Value> {
        let key = base_key::<K>(key);
        let found = self.stored(self.space?, K::WHOLE_BYTES_MAX, &key).and_then(|value| match value {
            Some(value) => K::read_value(&value).map(Some).map_err(|malformed| broken::<K>(&key, malformed)),
            None => Ok(None),
        });
        found.unwrap_or_else(|error| {
            self.trouble.note(error);
            None
        })
    }

    pub(crate) fn range<'a, K: Kept>(&'a self, start: Bound<K::Ref<'_>>) -> Sorted<'a, K::Key, K::Value> {
        let Some(space) = self.space else { return Box::new(std::iter::empty()) };
        let start = start.map(base_key::<K>);
        let start = match &start {
            Bound::Included(key) => Bound::Included(key.as_slice()),
            Bound::Excluded(key) => Bound::Excluded(key.as_slice()),
            Bound::Unbounded => Bound::Unbounded,
        };
        let decode = |(bytes, value): Pair| -> Said<K::Key, K::Value> {
            let key = K::read_key(&bytes).map_err(|malformed| broken::<K>(&bytes, malformed))?;
            let value = K::read_value(&value).map_err(|malformed| broken::<K>(&bytes, malformed))?;
            Ok((key, Some(value)))
        };
        match self.stored_from(space, K::WHOLE_BYTES_MAX, start) {
            Ok(pairs) => Box::new(pairs.map(move |pair| pair.and_then(decode))),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }
}

fn broken<K: Kept>(key: &[u8], malformed: Malformed) -> OrderedError {
    OrderedError { text: format!("{} in the store is damaged: {}", K::describe(key), malformed.0), full: false }
}
