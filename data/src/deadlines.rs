//! Which key is due next: an index by deadline that need not fit in memory.
//!
//! ```text
//!   deadlines ──────────────────────────────►
//!   near (all of them, in memory) │ far: in the changes, or in the base
//!                              horizon
//! ```
//! Without a base the horizon is never. With one, what changes is written down like records are (`layers.rs`), `near` is a window
//! onto the soonest, loaded again when it runs empty and cut when it grows too large.

use crate::image::Malformed;
use crate::layers::Trouble;
use crate::merge::{Merge, Said, Sorted};
use crate::store::StoreKey;
use base::WallTime;
use base::ordered::{OrderedError, OrderedRead, Space};
use imbl::{OrdMap, OrdSet};
use std::ops::Bound;
use std::sync::Arc;

/// Deadlines loaded at once, some ten microseconds' work each thousand. The window is cut at four times that.
const WINDOW: usize = if cfg!(test) { 4 } else { 4096 };

/// A deadline and whose it is.
pub(crate) type Due = (WallTime, StoreKey);
/// Deadlines that came (`Some`) or went.
pub(crate) type DueLayer = OrdMap<Due, Option<()>>;

/// See the file's head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    near: OrdSet<Due>,
    /// Everything before it is in `near`; none: everything is.
    horizon: Option<Due>,
    len: u64,
    base: Option<DueBase>,
}

#[derive(Clone, Debug)]
struct DueBase {
    active: DueLayer,
    frozen: DueLayer,
    read: Arc<dyn OrderedRead>,
    space: Option<Space>,
    trouble: Trouble,
}

impl Deadlines {
    /// Over what a store holds already: `len` deadlines.
    pub(crate) fn over(read: Arc<dyn OrderedRead>, space: Option<Space>, trouble: Trouble, len: u64) -> Deadlines {
        let base = DueBase { active: DueLayer::new(), frozen: DueLayer::new(), read, space, trouble };
        let mut deadlines = Deadlines { near: OrdSet::new(), horizon: None, len, base: Some(base) };
        deadlines.load(Bound::Unbounded);
        deadlines
    }

    /// From now on changes go to a store, which has nothing of ours yet.
    pub(crate) fn attach(&mut self, read: Arc<dyn OrderedRead>, trouble: Trouble) {
        let active = self.near.iter().map(|due| (due.clone(), Some(()))).collect();
        self.base = Some(DueBase { active, frozen: DueLayer::new(), read, space: None, trouble });
    }

    /// Where the deadlines below are.
    pub(crate) fn space(&self) -> Option<Space> {
        self.base.as_ref()?.space
    }

    /// How many keys have a deadline.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The soonest.
    pub(crate) fn first(&self) -> Option<&Due> {
        self.near.get_min()
    }

    pub(crate) fn insert(&mut self, due: Due) {
        self.len += 1;
        if let Some(base) = &mut self.base {
            base.active.insert(due.clone(), Some(()));
        }
        if self.horizon.as_ref().is_none_or(|horizon| due < *horizon) {
            self.near.insert(due);
            if self.base.is_some() && self.near.len() >= 4 * WINDOW {
                let at = self.near.iter().nth(WINDOW).cloned();
                if let Some(at) = at {
                    self.near = std::mem::take(&mut self.near).split(&at).0;
                    self.horizon = Some(at);
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, due: &Due) {
        self.len -= 1;
        if let Some(base) = &mut self.base {
            base.active.insert(due.clone(), None);
        }
        self.near.remove(due);
        if self.near.is_empty()
            && let Some(horizon) = self.horizon.take()
        {
            self.load(Bound::Included(&horizon));
        }
    }

    /// Fills the window with the soonest from `start` on.
    fn load(&mut self, start: Bound<&Due>) {
        let Some(base) = &self.base else { return };
        for due in base.range(start) {
            match due {
                Ok((due, ())) if self.near.len() < WINDOW => {
                    self.near.insert(due);
                }
                Ok((due, ())) => {
                    self.horizon = Some(due);
                    break;
                }
                Err(error) => {
                    base.trouble.note(error);
                    break;
                }
            }
        }
    }

    /// How many deadlines came or went that the base has not heard of: since the last flush began, and with the one under way.
    pub(crate) fn changes(&self) -> (usize, usize) {
        self.base.as_ref().map_or((0, 0), |base| (base.active.len(), base.frozen.len()))
    }

    /// Freezes what has changed, to be written to `space`. Only when nothing is frozen.
    pub(crate) fn freeze(&mut self, new_space: impl FnOnce() -> Space) -> Option<(DueLayer, Space)> {
        let base = self.base.as_mut()?;
        let space = *base.space.get_or_insert_with(new_space);
        base.frozen = std::mem::take(&mut base.active);
        Some((base.frozen.clone(), space))
    }

    /// The base has what was frozen. Returns that, to be freed a little at a time.
    pub(crate) fn thaw(&mut self) -> DueLayer {
        self.base.as_mut().map(|base| std::mem::take(&mut base.frozen)).unwrap_or_default()
    }

    /// Takes everything out; returns what is to be freed a little at a time, and the space that nobody needs any more.
    pub(crate) fn clear(&mut self) -> (OrdSet<Due>, Vec<DueLayer>, Option<Space>) {
        self.len = 0;
        self.horizon = None;
        let near = std::mem::take(&mut self.near);
        let Some(base) = &mut self.base else { return (near, Vec::new(), None) };
        let layers = vec![std::mem::take(&mut base.active), std::mem::take(&mut base.frozen)];
        (near, layers, base.space.take())
    }
}

impl DueBase {
    fn range<'a>(&'a self, start: Bound<&Due>) -> Merge<'a, Due, ()> {
        let layer = |layer: &'a DueLayer| -> Sorted<'a, Due, ()> {
            let pairs = layer.range::<_, Due>((start, Bound::Unbounded));
            Box::new(pairs.map(|(due, said)| Ok((due.clone(), *said))))
        };
        Merge::new(vec![layer(&self.active), layer(&self.frozen), self.stored(start)])
    }

    fn stored<'a>(&'a self, start: Bound<&Due>) -> Sorted<'a, Due, ()> {
        let Some(space) = self.space else { return Box::new(std::iter::empty()) };
        let start = start.map(due_key);
        let start = match &start {
            Bound::Included(key) => Bound::Included(key.as_slice()),
            Bound::Excluded(key) => Bound::Excluded(key.as_slice()),
            Bound::Unbounded => Bound::Unbounded,
        };
        let decode = |(key, _): base::ordered::Pair| -> Said<Due, ()> {
            let due = decode_due(&key).map_err(|malformed| OrderedError {
                text: format!("the index of deadlines in the store is damaged: {}", malformed.0),
                full: false,
            })?;
            Ok((due, Some(())))
        };
        Box::new(self.read.range(space, start).map(move |pair| pair.and_then(decode)))
    }
}

/// Where a deadline stands in its space: the time and the key's order, big-endian, then the key.
fn due_key(due: &Due) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + due.1.key.len());
    put_due_key(&mut bytes, due);
    bytes
}

/// As it is in the store, behind what is there.
pub(crate) fn put_due_key(bytes: &mut Vec<u8>, (deadline, key): &Due) {
    bytes.extend_from_slice(&deadline.0.to_be_bytes());
    bytes.extend_from_slice(&key.order.to_be_bytes());
    bytes.extend_from_slice(&key.key);
}

fn decode_due(bytes: &[u8]) -> Result<Due, Malformed> {
    let short = Malformed("a key is too short");
    let (deadline, rest) = bytes.split_first_chunk::<8>().ok_or(short)?;
    let (order, key) = rest.split_first_chunk::<8>().ok_or(short)?;
    let key = StoreKey::new(key);
    if key.order != u64::from_be_bytes(*order) {
        return Err(Malformed("a key stands in a wrong place"));
    }
    Ok((WallTime(u64::from_be_bytes(*deadline)), key))
}
