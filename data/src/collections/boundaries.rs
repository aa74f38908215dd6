//! Boundaries of sorted sets, known by heart.
//!
//! Every member that comes or goes asks each level which boundary stands behind it. Over a store that is a walk of which the beginning alone costs more than
//! everything else that a `ZADD` does. A boundary stands for 128 members, so those of the sets that are used can be kept in memory: they are read once, and every change is noted.
//!
//! This is no part of the state. It is forgotten at a restart, and replicas may know different sets: only how long something takes depends on it.

use super::{Collections, PART_COUNTS};
use crate::blob::Blob;
use crate::collections::ranked::{LEVELS_MAX, boundary_key, count_value, read_count};
use crate::kept::ElementKey;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Boundaries that are known at once, of which a long one counts as several. Beyond, sets with low numbers are forgotten.
const KNOWN_MAX: usize = if cfg!(test) { 40 } else { 256 * 1024 };
/// So many bytes of a boundary's name count as one boundary more.
const COUNTED_BYTES: usize = 256;
/// Boundaries that one question is worth to read: each question reads that many on average, until all are known.
const READ_EACH: usize = if cfg!(test) { 4 } else { 128 };
/// Sets whose questions are counted.
const ASKED_MAX: usize = 1024;

/// See the file's head. Boundaries are named by score and member, as in their elements.
#[derive(Debug, Default)]
pub(crate) struct Boundaries {
    sets: BTreeMap<u64, Levels>,
    /// Of all sets, together ([`weight`]).
    weight: usize,
    /// How often sets were asked for that are not known.
    asked: BTreeMap<u64, usize>,
}

/// What a boundary counts as.
fn weight(name: &Blob) -> usize {
    1 + name.len() / COUNTED_BYTES
}

/// By level, from 1 on: boundaries and how many members they count.
type Levels = [BTreeMap<Blob, u64>; LEVELS_MAX as usize];

/// A copy is for reading, or for a moment: it knows nothing.
impl Clone for Boundaries {
    fn clone(&self) -> Boundaries {
        Boundaries::default()
    }
}

impl Boundaries {
    fn level(&self, number: u64, level: u64) -> Option<&BTreeMap<Blob, u64>> {
        self.sets.get(&number)?.get(usize::try_from(level.checked_sub(1)?).ok()?)
    }

    fn level_mut(&mut self, number: u64, level: u64) -> Option<&mut BTreeMap<Blob, u64>> {
        self.sets.get_mut(&number)?.get_mut(usize::try_from(level.checked_sub(1)?).ok()?)
    }

    #[cfg(test)]
    pub(super) fn knows(&self, number: u64) -> bool {
        self.sets.contains_key(&number)
    }

    /// The collection is gone.
    pub(super) fn forget(&mut self, number: u64) {
        self.asked.remove(&number);
        if let Some(levels) = self.sets.remove(&number) {
            self.weight -= levels.iter().flat_map(BTreeMap::keys).map(weight).sum::<usize>();
        }
    }

    fn note(&mut self, number: u64, level: u64, name: &Blob, count: Option<u64>) {
        let Some(known) = self.level_mut(number, level) else { return };
        let known_before = match count {
            Some(count) => known.insert(name.clone(), count),
            None => known.remove(name),
        };
        match (known_before, count) {
            (None, Some(_)) => self.weight += weight(name),
            (Some(_), None) => self.weight -= weight(name),
            _ => {}
        }
        self.make_room(0);
    }

    /// Forgets sets until there is room for so many boundaries more.
    fn make_room(&mut self, more: usize) {
        while self.weight + more > KNOWN_MAX {
            let Some(lowest) = self.sets.keys().next().copied() else { return };
            self.forget(lowest);
        }
    }

    /// Whether it is time to read the boundaries of a set, and how many at most.
    fn worth_reading(&mut self, number: u64) -> Option<usize> {
        if self.asked.len() >= ASKED_MAX {
            self.asked.clear();
        }
        let asked = self.asked.entry(number).or_default();
        *asked = asked.saturating_add(1);
        let limit = asked.saturating_mul(READ_EACH);
        // What was read in vain doubles each time, so it is never more than what questions were worth.
        (asked.is_power_of_two() && limit / 2 <= KNOWN_MAX).then_some(limit.min(KNOWN_MAX))
    }
}

impl Collections {
    /// Before a change: reads the boundaries of a set, if it is asked for often enough.
    pub(super) fn learn_boundaries(&mut self, number: u64) {
        if self.boundaries.sets.contains_key(&number) {
            return;
        }
        let Some(limit) = self.boundaries.worth_reading(number) else { return };
        let mut levels = Levels::default();
        let mut read = 0;
        for (key, value) in self.range(number | PART_COUNTS, Bound::Unbounded) {
            let level = LEVELS_MAX.checked_sub(key.order).and_then(|level| level.checked_sub(1));
            let known = level.and_then(|level| levels.get_mut(usize::try_from(level).ok()?));
            let (Some(known), Some(count)) = (known, read_count(&value)) else { return };
            read += weight(&key.name);
            known.insert(key.name, count);
            if read > limit {
                return;
            }
        }
        // What the store below could not read is not known.
        if self.elements.trouble().is_some() {
            return;
        }
        let known = &mut self.boundaries;
        known.asked.remove(&number);
        known.make_room(read);
        known.weight += read;
        known.sets.insert(number, levels);
    }

    /// Puts a boundary in place: a new one, or one with another count.
    pub(super) fn put_boundary(&mut self, number: u64, level: u64, name: Blob, count: u64, is_new: bool) {
        self.boundaries.note(number, level, &name, Some(count));
        let key = boundary_key(number, level, name);
        if is_new {
            self.insert_new(key, count_value(count));
        } else {
            self.elements.replace(key, count_value(count));
        }
    }

    /// Takes a boundary out; what it counted.
    pub(super) fn take_boundary(&mut self, number: u64, level: u64, name: &[u8]) -> Option<u64> {
        let name = Blob::new(name);
        self.boundaries.note(number, level, &name, None);
        let value = self.elements.remove(boundary_key(number, level, name).as_ref())?;
        read_count(&value)
    }

    /// The highest level that has boundaries; 0 if there are none.
    pub(super) fn highest_level(&self, number: u64) -> u64 {
        if let Some(levels) = self.boundaries.sets.get(&number) {
            return levels.iter().rposition(|known| !known.is_empty()).map_or(0, |place| place as u64 + 1);
        }
        let first = self.range(number | PART_COUNTS, Bound::Unbounded).next();
        first.map_or(0, |(key, _)| LEVELS_MAX.saturating_sub(key.order))
    }

    /// The first boundary of a level at a place or behind it, and its count.
    pub(super) fn boundary_at(&self, number: u64, level: u64, name: &[u8]) -> Option<(Blob, u64)> {
        if let Some(known) = self.boundaries.level(number, level) {
            return known.range::<[u8], _>((Bound::Included(name), Bound::Unbounded)).next().map(owned);
        }
        self.stored_boundaries(&boundary_key(number, level, Blob::new(name)), false).next()
    }

    /// Gives the first boundary of a level at a place or behind it another count; false if there is none.
    pub(super) fn shift_boundary(
        &mut self,
        number: u64,
        level: u64,
        name: &[u8],
        shift: impl FnOnce(u64) -> u64,
    ) -> bool {
        let found = match self.boundaries.level_mut(number, level) {
            // What is known by heart is changed where it stands.
            Some(known) => {
                let next = known.range_mut::<[u8], _>((Bound::Included(name), Bound::Unbounded)).next();
                next.map(|(name, count)| {
                    *count = shift(*count);
                    (name.clone(), *count)
                })
            }
            None => self.boundary_at(number, level, name).map(|(name, count)| (name, shift(count))),
        };
        let Some((name, count)) = found else { return false };
        self.elements.replace(boundary_key(number, level, name), count_value(count));
        true
    }

    /// The boundaries of a level and their counts, those behind a place or all, where they are known by heart.
    pub(super) fn known_behind<'c>(
        &'c self,
        number: u64,
        level: u64,
        behind: Option<&Blob>,
    ) -> Option<impl Iterator<Item = (&'c Blob, &'c u64)> + use<'c>> {
        let start = behind.map_or(Bound::Unbounded, |place| Bound::Excluded(&**place));
        Some(self.boundaries.level(number, level)?.range::<[u8], _>((start, Bound::Unbounded)))
    }

    /// The boundaries of a level and their counts: those behind a place, or all.
    pub(super) fn boundaries_behind<'c>(
        &'c self,
        number: u64,
        level: u64,
        behind: Option<&Blob>,
    ) -> Box<dyn Iterator<Item = (Blob, u64)> + 'c> {
        if let Some(known) = self.known_behind(number, level, behind) {
            return Box::new(known.map(owned));
        }
        let start = behind.cloned().or_else(|| self.fronts.first_boundary(number)).unwrap_or_default();
        Box::new(self.stored_boundaries(&boundary_key(number, level, start), behind.is_some()))
    }

    /// Those of its level at a boundary and behind it, or behind it, as the layers have them.
    fn stored_boundaries<'c>(
        &'c self,
        key: &ElementKey,
        is_behind: bool,
    ) -> impl Iterator<Item = (Blob, u64)> + use<'c> {
        let place = (key.order, &*key.name);
        let start = if is_behind { Bound::Excluded(place) } else { Bound::Included(place) };
        // The first of the next level may be far, if many were removed from its beginning.
        let end = ElementKey { collection: key.collection, order: key.order + 1, name: Blob::EMPTY };
        let found = self.range_before(key.collection, start, &end);
        found.map_while(|(key, value)| Some((key.name, read_count(&value)?)))
    }
}

fn owned((name, count): (&Blob, &u64)) -> (Blob, u64) {
    (name.clone(), *count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryContext, Tree, apply};
    use std::sync::Arc;

    fn run(tree: &mut Tree, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        apply(tree, &EntryContext::default(), &words);
    }

    fn is_counted(tree: &Tree) -> bool {
        let known = &tree.collections.boundaries;
        let weight = known.sets.values().flatten().flat_map(BTreeMap::keys).map(weight).sum::<usize>();
        known.weight == weight && weight <= KNOWN_MAX
    }

    #[test]
    fn as_many_are_known_as_there_is_room_for() {
        let mut tree = Tree::new().over(Arc::new(storage::MemoryStore::new()));
        for set in 0..30 {
            for member in 0..40 {
                run(&mut tree, &format!("ZADD z{set} {} m{member}", member * 7 % 40));
                assert!(is_counted(&tree));
            }
        }
        let known = tree.collections.boundaries.sets.len();
        assert!(known > 0 && known < 30, "{known} are known");
        for set in 0..30 {
            run(&mut tree, &format!("DEL z{set}"));
        }
        assert_eq!((tree.collections.boundaries.sets.len(), tree.collections.boundaries.weight), (0, 0));
    }

    #[test]
    fn what_is_read_in_vain_is_bounded() {
        let mut known = Boundaries::default();
        let limits: Vec<usize> = (0..1000).filter_map(|_| known.worth_reading(7)).collect();
        assert_eq!(limits, [4, 8, 16, 32, 40], "until all that may be known would have been");
        for number in 0..2 * ASKED_MAX as u64 {
            known.worth_reading(number);
        }
        assert!(known.asked.len() <= ASKED_MAX);
    }
}
