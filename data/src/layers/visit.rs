//! A part of the layers shown entry by entry, without a copy of any: for answers of many elements.
//!
//! [`Layers::range_before`] hands out keys and values that its caller owns, which takes longer than all the rest of a `ZRANGE` of a hundred. Here the newer
//! layers are walked side by side with the base, and what stands in a run of the base between two newer entries is shown in one go.

use super::{Layer, Layers};
use crate::kept::Kept;
use crate::runs::Walk;
use imbl::ordmap::RangedIter;
use std::iter::Peekable;
use std::ops::{Bound, ControlFlow};

/// A part of a layer.
type Part<'a, K> = RangedIter<'a, <K as Kept>::Key, Option<<K as Kept>::Value>, imbl::shared_ptr::DefaultSharedPtr>;

/// What the newer layers say, in order: of a key that both have, the newer one's word.
struct Newer<'a, K: Kept> {
    active: Peekable<Part<'a, K>>,
    frozen: Peekable<Part<'a, K>>,
}

impl<'a, K: Kept> Newer<'a, K> {
    fn peek(&mut self) -> Option<(&'a K::Key, &'a Option<K::Value>)> {
        let Some(frozen) = self.frozen.peek().copied() else { return self.active.peek().copied() };
        match self.active.peek().copied() {
            Some(active) if active.0 <= frozen.0 => Some(active),
            _ => Some(frozen),
        }
    }

    /// Passes what was seen last, in both.
    fn pass(&mut self, key: &K::Key) {
        self.active.next_if(|(at, _)| *at == key);
        self.frozen.next_if(|(at, _)| *at == key);
    }
}

/// Whoever is shown entries, and how many more are to be passed over before the first.
struct Visitor<F> {
    passed: usize,
    visit: F,
}

impl<F> Visitor<F> {
    fn show<K, V>(&mut self, key: &K, value: &V) -> ControlFlow<()>
    where
        F: FnMut(&K, &V) -> ControlFlow<()>,
    {
        if self.passed > 0 {
            self.passed -= 1;
            return ControlFlow::Continue(());
        }
        (self.visit)(key, value)
    }
}

impl<K: Kept> Layers<K> {
    /// Shows what there is from `start` on up to `end`, in order, without the first `passed`, until `visit` breaks off. Ends where the store below
    /// cannot be read, and notes why.
    pub(crate) fn visit_before<'b, F>(&self, start: Bound<K::Ref<'b>>, end: &'b K::Key, passed: usize, visit: F)
    where
        F: FnMut(&K::Key, &K::Value) -> ControlFlow<()>,
    {
        let mut visitor = Visitor { passed, visit };
        let bounds = (start, Bound::Excluded(K::borrow(end)));
        fn part<'a, 'b, K: Kept>(layer: &'a Layer<K>, bounds: (Bound<K::Ref<'b>>, Bound<K::Ref<'b>>)) -> Part<'a, K> {
            layer.range::<_, K::Ref<'b>>(bounds)
        }
        let Some(base) = &self.base else {
            let mut there = part::<K>(&self.active, bounds).filter_map(|(key, slot)| Some((key, slot.as_ref()?)));
            let _ = there.try_for_each(|(key, value)| visitor.show(key, value));
            return;
        };
        let from = match start {
            Bound::Included(key) => (K::own(key), false),
            Bound::Excluded(key) => (K::own(key), true),
            Bound::Unbounded => return self.visit_copies(start, end, visitor),
        };
        if !self.runs.borrow().is_enabled() {
            return self.visit_copies(start, end, visitor);
        }
        let walk = Walk::new(base, &self.runs, from, (end.clone(), false));
        let mut newer = Newer::<K> {
            active: part::<K>(&self.active, bounds).peekable(),
            frozen: part::<K>(&self.frozen, bounds).peekable(),
        };
        let _ = visit_both(&mut newer, walk, &mut visitor).map_err(|error| base.trouble.note(error));
    }

    /// The same where nothing of the base is known by heart.
    fn visit_copies<'b, F>(&self, start: Bound<K::Ref<'b>>, end: &'b K::Key, mut visitor: Visitor<F>)
    where
        F: FnMut(&K::Key, &K::Value) -> ControlFlow<()>,
    {
        let _ = self.range_before(start, Some(end)).try_for_each(|(key, value)| visitor.show(&key, &value));
    }
}

/// Newer entries and those of the base, as one.
fn visit_both<K: Kept, F>(
    newer: &mut Newer<'_, K>,
    mut walk: Walk<'_, K>,
    visitor: &mut Visitor<F>,
) -> Result<(), base::ordered::OrderedError>
where
    F: FnMut(&K::Key, &K::Value) -> ControlFlow<()>,
{
    loop {
        walk.stand()?;
        let next = newer.peek();
        let below = walk.at_hand();
        // What stands before the next newer entry.
        let older = match (next, below.first()) {
            (None, _) => below.len(),
            (Some((key, _)), Some((first, _))) if first < key => below.partition_point(|(at, _)| at < key),
            _ => 0,
        };
        if older > 0 {
            let passed = visitor.passed.min(older);
            visitor.passed -= passed;
            for (key, value) in below.iter().take(older).skip(passed) {
                if (visitor.visit)(key, value).is_break() {
                    walk.pass(older);
                    return Ok(());
                }
            }
            walk.pass(older);
            continue;
        }
        let Some((key, slot)) = next else { return Ok(()) };
        // Hidden by the newer one.
        if below.first().is_some_and(|(at, _)| at == key) {
            walk.pass(1);
        }
        newer.pass(key);
        if let Some(value) = slot
            && visitor.show(key, value).is_break()
        {
            return Ok(());
        }
    }
}
