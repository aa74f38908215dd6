//! The records of a partition, and the elements of its collections: what has changed lately, in memory, over an ordered store that may be
//! much larger. `kept.rs` says what keys and values there are.
//!
//! ```text
//!   write ─► active ──begin_flush──► frozen ──(its batch is durable)──► gone: the base has it
//!   read  ─► active ─► frozen ─► base
//! ```
//! Without a base everything stays in `active`, for ever. A layer holds `None` for a key that was removed and may be in an
//! older one. The base is only read here; whoever owns the state carries batches to it (`crate::flush`).

mod stored;
mod visit;

use crate::kept::{Kept, base_key};
use crate::merge::{Merge, Said, Sorted};
use crate::runs::{Runs, Walk};
use crate::undo::{Cleared, LayersBefore};
use crate::value::Record;
use base::ordered::{OrderedError, Space};
use imbl::OrdMap;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;

pub(crate) use stored::{Base, Trouble};

/// Changes by key; `None` stands for a removal.
pub(crate) type Layer<K> = OrdMap<<K as Kept>::Key, Option<<K as Kept>::Value>>;

const _: () = assert!(size_of::<Option<Record>>() == size_of::<Record>(), "records are counted in millions");

/// See the file's head. Invariant: `frozen` is empty unless a flush is under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers<K: Kept> {
    active: Layer<K>,
    frozen: Layer<K>,
    base: Option<Base>,
    /// Keys that exist in all of it.
    len: u64,
    /// Approximate bytes of `active` and of `frozen`. Counted only over a base.
    active_bytes: u64,
    frozen_bytes: u64,
    /// There may be keys in `active` that are cut into pieces.
    has_long_keys: bool,
    /// What walks over the base have read of it.
    runs: RefCell<Runs<K>>,
    /// Notes of what is changed, while it may have to be taken back.
    before: Option<Box<LayersBefore<K>>>,
}

/// What changed, on its way to the store.
#[derive(Clone, Debug)]
pub(crate) struct Frozen<K: Kept> {
    pub layer: Layer<K>,
    pub space: Space,
    pub pieces: Option<Space>,
}

impl<K: Kept> Layers<K> {
    /// Over what a store holds already: `len` keys.
    pub(crate) fn over(base: Base, len: u64) -> Layers<K> {
        Layers { base: Some(base), len, ..Layers::default() }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(&self, key: K::Ref<'_>) -> Option<K::Value> {
        match self.active.get(&key) {
            Some(slot) => slot.clone(),
            None if self.base.is_none() => None,
            None => self.below(key),
        }
    }

    /// What the older layers say.
    fn below(&self, key: K::Ref<'_>) -> Option<K::Value> {
        match self.frozen.get(&key) {
            Some(slot) => slot.clone(),
            None => self.base.as_ref()?.get::<K>(key),
        }
    }

    /// Puts a value in place and returns the one that stood there.
    pub(crate) fn insert(&mut self, key: K::Key, value: K::Value) -> Option<K::Value> {
        self.note(K::borrow(&key));
        self.note_length(&key);
        let old = if self.base.is_none() {
            self.active.insert(key, Some(value)).flatten()
        } else {
            // A key that is here already needs no look below, and no second way through the map.
            let key_bytes = K::key_heap_bytes(&key);
            self.active_bytes += K::slot_bytes(key_bytes, Some(&value));
            match self.active.get_mut(&K::borrow(&key)) {
                Some(slot) => {
                    let old = slot.replace(value);
                    self.active_bytes -= K::slot_bytes(key_bytes, old.as_ref());
                    old
                }
                None => {
                    let old = self.below(K::borrow(&key));
                    self.active.insert(key, Some(value));
                    old
                }
            }
        };
        self.len += u64::from(old.is_none());
        old
    }

    /// Puts a value in place of which it is known that nothing stood there: needs no look below.
    pub(crate) fn insert_new(&mut self, key: K::Key, value: K::Value) {
        self.put(key, Some(value));
        self.len += 1;
    }

    /// Puts another value in place of one that is known to be there, without a look at that.
    pub(crate) fn replace(&mut self, key: K::Key, value: K::Value) {
        self.put(key, Some(value));
    }

    /// Takes out what is known to be there, without a look at it.
    pub(crate) fn erase(&mut self, key: K::Key) {
        if self.base.is_none() {
            self.note_present(K::borrow(&key));
            self.active.remove(&K::borrow(&key));
        } else {
            self.put(key, None);
        }
        // A store that contradicts itself must not stop the process here: whoever checks it will say so.
        self.len = self.len.saturating_sub(1);
    }

    /// Whether what is removed leaves something behind that a walk passes over.
    pub(crate) fn remembers_removals(&self) -> bool {
        self.base.is_some()
    }

    fn put(&mut self, key: K::Key, slot: Option<K::Value>) {
        self.note(K::borrow(&key));
        self.note_length(&key);
        if self.base.is_some() {
            let key_bytes = K::key_heap_bytes(&key);
            self.active_bytes += K::slot_bytes(key_bytes, slot.as_ref());
            if let Some(before) = self.active.insert(key, slot) {
                self.active_bytes -= K::slot_bytes(key_bytes, before.as_ref());
            }
        } else {
            self.active.insert(key, slot);
        }
    }

    fn note_length(&mut self, key: &K::Key) {
        self.has_long_keys |= K::key_bytes(key) > K::WHOLE_BYTES_MAX;
    }

    /// Takes a value out and returns it.
    pub(crate) fn remove(&mut self, key: K::Ref<'_>) -> Option<K::Value> {
        if self.base.is_none() {
            self.note_present(key);
            let old = self.active.remove(&key).flatten();
            self.len -= u64::from(old.is_some());
            return old;
        }
        let old = self.get(key)?;
        self.erase(K::own(key));
        Some(old)
    }

    /// Changes a value where it stands; `None` if there is none. What `edit` returns is handed back.
    pub(crate) fn update<R>(&mut self, key: K::Ref<'_>, edit: impl FnOnce(&mut K::Value) -> R) -> Option<R> {
        self.note_present(key);
        if let Some(slot) = self.active.get_mut(&key) {
            let value = slot.as_mut()?;
            let before = K::slot_bytes(0, Some(value));
            let result = edit(value);
            if self.base.is_some() {
                self.active_bytes = self.active_bytes + K::slot_bytes(0, Some(value)) - before;
            }
            return Some(result);
        }
        self.base.as_ref()?;
        let mut value = self.below(key)?;
        let result = edit(&mut value);
        self.put(K::own(key), Some(value));
        Some(result)
    }

    /// Whether keys that will be asked for soon shall be told.
    pub(crate) fn wants_notice(&self) -> bool {
        self.base.as_ref().is_some_and(|base| base.read.wants_notice())
    }

    /// A key will be asked for soon.
    pub(crate) fn notice(&self, key: K::Ref<'_>) {
        if let Some(Base { read, space: Some(space), .. }) = &self.base
            && self.active.get(&key).is_none()
            && self.frozen.get(&key).is_none()
        {
            let key = base_key::<K>(key);
            if key.len() <= K::WHOLE_BYTES_MAX {
                read.notice(*space, key);
            }
        }
    }

    /// What there is, in order, from `start` on. Ends where the store below cannot be read, and notes why.
    pub(crate) fn range<'a>(&'a self, start: Bound<K::Ref<'_>>) -> Box<dyn Iterator<Item = (K::Key, K::Value)> + 'a> {
        self.range_before(start, None)
    }

    /// The same up to `end`, if there is one. Whoever looked for the end at what comes out would pass over all that was removed behind it.
    pub(crate) fn range_before<'a, 'b>(
        &'a self,
        start: Bound<K::Ref<'b>>,
        end: Option<&'b K::Key>,
    ) -> Box<dyn Iterator<Item = (K::Key, K::Value)> + 'a> {
        let bounds = (start, end.map_or(Bound::Unbounded, |end| Bound::Excluded(K::borrow(end))));
        let layer =
            |layer: &'a Layer<K>| layer.range::<_, K::Ref<'_>>(bounds).map(|(key, slot)| (key.clone(), slot.clone()));
        let Some(base) = &self.base else {
            return Box::new(layer(&self.active).filter_map(|(key, slot)| Some((key, slot?))));
        };
        let mut layers: Vec<Sorted<'a, K::Key, K::Value>> = Vec::with_capacity(3);
        // A layer without anything to say here need not be asked at every step.
        for one in [&self.active, &self.frozen] {
            if !one.is_empty() && layer(one).next().is_some() {
                layers.push(Box::new(layer(one).map(Ok)));
            }
        }
        let below = self.base_before(base, start, end);
        if layers.is_empty() {
            let below = below.map_while(move |said| said.map_err(|error| base.trouble.note(error)).ok());
            return Box::new(below.filter_map(|(key, value)| Some((key, value?))));
        }
        layers.push(below);
        let trouble = base.trouble.clone();
        Box::new(Merge::new(layers).map_while(move |said| said.map_err(|error| trouble.note(error)).ok()))
    }

    /// What the base has from `start` on, up to `end` if there is one. Where both are known, what is known by heart is not read.
    fn base_before<'a>(
        &'a self,
        base: &'a Base,
        start: Bound<K::Ref<'_>>,
        end: Option<&K::Key>,
    ) -> Sorted<'a, K::Key, K::Value> {
        let from = match start {
            Bound::Included(key) => Some((K::own(key), false)),
            Bound::Excluded(key) => Some((K::own(key), true)),
            Bound::Unbounded => None,
        };
        match (from, end.cloned()) {
            (Some(from), Some(end)) if self.runs.borrow().is_enabled() => {
                Box::new(Walk::new(base, &self.runs, from, (end, false)))
            }
            (_, Some(end)) => {
                let is_before = move |said: &Said<K::Key, K::Value>| said.as_ref().map_or(true, |(key, _)| *key < end);
                Box::new(base.range::<K>(start).take_while(is_before))
            }
            (_, None) => base.range::<K>(start),
        }
    }

    /// From now on what is not in memory is in `base`, which has nothing of ours yet.
    pub(crate) fn attach(&mut self, base: Base) {
        self.active_bytes = layer_bytes::<K>(&self.active);
        self.base = Some(base);
        self.runs.get_mut().clear();
    }

    /// At most so many bytes are kept in memory of what walks over the base have read of it.
    pub(crate) fn set_known_bytes_max(&mut self, bytes: u64) {
        self.runs.get_mut().set_bytes_max(bytes);
    }

    /// Looks whether the pieces of long keys fit together. What is wrong is trouble.
    pub(crate) fn check_pieces(&self) {
        if let Some(base) = &self.base {
            base.check_pieces();
        }
    }

    /// What went wrong with the base, if there is one.
    pub(crate) fn trouble(&self) -> Option<&OrderedError> {
        self.base.as_ref()?.trouble.first()
    }

    /// Where what is below is, and further pieces of long keys.
    pub(crate) fn spaces(&self) -> [Option<Space>; 2] {
        self.base.as_ref().map_or([None, None], |base| [base.space, base.pieces])
    }

    /// Approximate bytes of what the base does not have: what is active, and what is frozen.
    pub(crate) fn changed_bytes(&self) -> (u64, u64) {
        (self.active_bytes, self.frozen_bytes)
    }

    #[cfg(test)]
    pub(crate) fn runs(&self) -> std::cell::Ref<'_, Runs<K>> {
        self.runs.borrow()
    }

    /// What [`Layers::changed_bytes`] must be.
    #[cfg(test)]
    pub(crate) fn counted_bytes(&self) -> (u64, u64) {
        (layer_bytes::<K>(&self.active), layer_bytes::<K>(&self.frozen))
    }

    /// Freezes what has changed, to be written to the store. Only when nothing is frozen.
    pub(crate) fn freeze(&mut self, mut new_space: impl FnMut() -> Space) -> Option<Frozen<K>> {
        let base = self.base.as_mut()?;
        debug_assert!(self.frozen.is_empty(), "one flush at a time");
        let space = *base.space.get_or_insert_with(&mut new_space);
        if std::mem::take(&mut self.has_long_keys) {
            base.pieces.get_or_insert_with(new_space);
        }
        let pieces = base.pieces;
        self.frozen = std::mem::take(&mut self.active);
        self.frozen_bytes = std::mem::take(&mut self.active_bytes);
        Some(Frozen { layer: self.frozen.clone(), space, pieces })
    }

    /// The base has what was frozen. Returns that, to be freed a little at a time.
    pub(crate) fn thaw(&mut self) -> Layer<K> {
        self.runs.get_mut().forget(&self.frozen);
        self.thaw_without_forgetting()
    }

    /// The same with a mistake in it: what was known by heart of the base stays as it was.
    pub(crate) fn thaw_without_forgetting(&mut self) -> Layer<K> {
        self.frozen_bytes = 0;
        std::mem::take(&mut self.frozen)
    }

    /// Takes everything out, and returns the layers, to be freed a little at a time, and the spaces that nobody needs any more.
    pub(crate) fn clear(&mut self) -> (Vec<Layer<K>>, [Option<Space>; 2]) {
        let spaces = self.spaces();
        if let Some(before) = &mut self.before {
            before.cleared.get_or_insert_with(|| Cleared {
                active: self.active.clone(),
                frozen: self.frozen.clone(),
                frozen_bytes: self.frozen_bytes,
                spaces,
            });
        }
        (self.len, self.active_bytes, self.frozen_bytes) = (0, 0, 0);
        self.runs.get_mut().clear();
        let layers = vec![std::mem::take(&mut self.active), std::mem::take(&mut self.frozen)];
        if let Some(base) = &mut self.base {
            (base.space, base.pieces) = (None, None);
        }
        (layers, spaces)
    }

    /// From here on it is noted what changes, until [`Layers::keep`] or [`Layers::undo`]. Nothing is frozen or thawed meanwhile: that is done between entries.
    /// Notes nest: a script inside a transaction can be taken back alone, or together with the transaction.
    pub(crate) fn begin_undo(&mut self) {
        let outer = self.before.take();
        self.before = Some(Box::new(LayersBefore {
            outer,
            slots: BTreeMap::new(),
            len: self.len,
            active_bytes: self.active_bytes,
            cleared: None,
        }));
    }

    /// Whether anything was written since then.
    pub(crate) fn has_notes(&self) -> bool {
        self.before.as_ref().is_some_and(|before| before.cleared.is_some() || !before.slots.is_empty())
    }

    /// What was changed stays. The notes go to the outer ones, if there are any.
    pub(crate) fn keep(&mut self) {
        let Some(inner) = self.before.take() else { return };
        let LayersBefore { slots, cleared, outer, .. } = *inner;
        let Some(mut outer) = outer else { return };
        if outer.cleared.is_none() {
            for (key, slot) in slots {
                outer.slots.entry(key).or_insert(slot);
            }
            outer.cleared = cleared;
        }
        self.before = Some(outer);
    }

    /// Puts everything back.
    pub(crate) fn undo(&mut self) {
        let Some(before) = self.before.take() else { return };
        if let Some(cleared) = before.cleared {
            (self.active, self.frozen, self.frozen_bytes) = (cleared.active, cleared.frozen, cleared.frozen_bytes);
            if let Some(base) = &mut self.base {
                [base.space, base.pieces] = cleared.spaces;
            }
            // What was read since then is of a base without anything.
            self.runs.get_mut().clear();
        }
        for (key, slot) in before.slots {
            match slot {
                Some(slot) => self.active.insert(key, slot),
                None => self.active.remove(&K::borrow(&key)),
            };
        }
        (self.len, self.active_bytes) = (before.len, before.active_bytes);
        self.before = before.outer;
    }

    /// Before the active layer's slot of a key is changed.
    fn note(&mut self, key: K::Ref<'_>) {
        if let Some(before) = &mut self.before
            && before.cleared.is_none()
        {
            before.slots.entry(K::own(key)).or_insert_with(|| self.active.get(&key).cloned());
        }
    }

    /// The same if there is a slot, which is changed if it holds a value.
    fn note_present(&mut self, key: K::Ref<'_>) {
        if self.before.is_some() && self.active.get(&key).is_some_and(Option::is_some) {
            self.note(key);
        }
    }

    /// A copy that later changes do not reach, neither those here nor those below.
    pub(crate) fn frozen_copy(&self) -> Layers<K> {
        let mut copy = self.clone();
        if let Some(base) = &mut copy.base {
            base.read = base.read.freeze();
        }
        // It is read from one end to the other, once.
        copy.runs = RefCell::new(Runs::none());
        copy
    }
}

/// Approximate bytes of all that a layer says.
fn layer_bytes<K: Kept>(layer: &Layer<K>) -> u64 {
    layer.iter().map(|(key, slot)| K::slot_bytes(K::key_heap_bytes(key), slot.as_ref())).sum()
}
