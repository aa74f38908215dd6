//! When keys were last used, as `OBJECT IDLETIME` tells. Of this node alone, kept in memory: any node may serve a read, and nobody else hears of it.
//!
//! For each key there is a place in a table of seconds, found by its hash; keys may share one. The table grows with the keys, up to 4 MiB for each bucket. So what is told is
//! to the second while the keys are fewer than a million, but for few, and then too short for some; never too long. A key that nobody has used here is idle since the node has the state.

use std::cell::{Cell, OnceCell};

use base::Time;
use data::{KeyRef, Usage};

use crate::bucket::Policy;
use crate::eviction::Evicting;

/// Places at first, and at most.
const PLACES_MIN: usize = 1024;
const PLACES_MAX: usize = 1024 * 1024;
/// The bits of a key's order that are its hash (`data::StoreKey`).
const HASH_BITS: u64 = (1 << 48) - 1;

/// What is counted in, a tenth of a second: 2^32 of these are thirteen years.
const UNIT_NANOS: u64 = 100_000_000;
const UNITS_PER_SECOND: u32 = 10;

/// See the file's head. Times are in tenths of a second since `since`: uses are rounded up, the present is rounded down, so nothing seems idle for longer than it is.
#[derive(Debug)]
pub(crate) struct LastUses {
    /// When the state came here; none before the first turn with it.
    since: Option<Time>,
    /// The present, rounded down and up.
    now: (u32, u32),
    /// A power of two of them: the last use, 0 for none. Made with the first use: thousands of partitions may have no keys.
    places: OnceCell<Vec<Cell<u32>>>,
}

impl LastUses {
    /// A table in which nothing has been used yet.
    pub(crate) fn new() -> LastUses {
        LastUses { since: None, now: (0, 0), places: OnceCell::new() }
    }

    /// Another state has come, whose keys were used nobody knows when: from now on they are idle.
    pub(crate) fn forget(&mut self) {
        *self = LastUses::new();
    }

    /// It is so late, and there are so many keys.
    pub(crate) fn turn(&mut self, now: Time, keys: u64) {
        let passed = now.0.saturating_sub(self.since.get_or_insert(now).0);
        let units = |units: u64| u32::try_from(units).unwrap_or(u32::MAX);
        self.now = (units(passed / UNIT_NANOS), units(passed.div_ceil(UNIT_NANOS)));
        let Some(places) = self.places.get_mut() else { return };
        while (places.len() as u64) < keys.saturating_mul(2) && places.len() < PLACES_MAX {
            // Whoever shared a place goes on with what was known of it.
            places.extend_from_within(..);
        }
    }

    fn place(&self, order: u64) -> Option<&Cell<u32>> {
        let hash = order & HASH_BITS;
        let places = self.places.get_or_init(|| vec![Cell::new(0); PLACES_MIN]);
        places.get((hash as usize) & (places.len() - 1))
    }

    fn touch_order(&self, order: u64) {
        if let Some(place) = self.place(order) {
            place.set(self.now.1);
        }
    }

    /// A key was written.
    pub(crate) fn touch(&self, key: &[u8]) {
        self.touch_order(base::checksum::xxh3(key) >> 16);
    }

    /// A command that writes was carried out and has changed nothing.
    pub(crate) fn touch_keys(&self, words: &[&[u8]]) {
        let entry = words.first().and_then(|name| data::lookup(name));
        let keys = entry.map(|entry| entry.spec.keys_of(words)).unwrap_or_default();
        keys.into_iter().for_each(|key| self.touch(key));
    }

    fn idle_seconds(&self, key: KeyRef<'_>) -> u64 {
        let last = if self.places.get().is_some() { self.place(key.order).map_or(0, Cell::get) } else { 0 };
        u64::from(self.now.0.saturating_sub(last) / UNITS_PER_SECOND)
    }
}

/// What a read is told, and what it tells.
#[derive(Debug)]
pub(crate) struct Uses<'a> {
    pub last: &'a LastUses,
    pub evicting: Option<&'a Evicting>,
    /// A planted bug: reads leave no trace.
    pub forgets: bool,
}

impl Usage for Uses<'_> {
    fn touch(&self, key: KeyRef<'_>) {
        if !self.forgets {
            self.last.touch_order(key.order);
        }
    }

    fn idle_seconds(&self, key: KeyRef<'_>) -> u64 {
        self.last.idle_seconds(key)
    }

    fn frequency(&self, key: KeyRef<'_>) -> Option<u64> {
        let evicting = self.evicting.filter(|evicting| evicting.policy() == Policy::Lfu)?;
        Some(evicting.count_of(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(millis: u64) -> Time {
        Time(7) + Duration::from_millis(millis)
    }

    #[test]
    fn nothing_seems_idle_for_longer_than_it_is() {
        let mut last = LastUses::new();
        let keys: Vec<String> = (0..4000).map(|number| format!("key:{number}")).collect();
        let mut used = vec![at(0); keys.len()];
        let (mut exact, mut shorter, mut now) = (0, 0, at(0));
        for round in 0..20_000_u64 {
            now = now + Duration::from_micros(997 * (round % 13));
            // The table grows meanwhile.
            last.turn(now, 1 + round.min(4000));
            let place = (round * 7919 % keys.len() as u64) as usize;
            if round % 3 > 0 {
                last.touch(keys[place].as_bytes());
                used[place] = now;
            }
            let asked = (round * 31 % keys.len() as u64) as usize;
            let idle = last.idle_seconds(KeyRef::new(keys[asked].as_bytes()));
            let truth = now.since(used[asked]);
            assert!(Duration::from_secs(idle) <= truth, "{idle} s, and it is {truth:?}");
            if truth.as_secs() == idle { exact += 1 } else { shorter += 1 }
        }
        assert!(exact > 2 * shorter, "{exact} {shorter}");
        assert_eq!(last.places.get().map(Vec::len), Some(8192));
        last.turn(now, u64::MAX);
        assert_eq!(last.places.get().map(Vec::len), Some(PLACES_MAX));
    }

    #[test]
    fn a_state_from_a_peer_begins_when_it_comes() {
        let mut last = LastUses::new();
        let idle = |last: &LastUses| last.idle_seconds(KeyRef::new(b"k"));
        last.turn(at(0), 1);
        last.turn(at(9000), 1);
        assert_eq!(idle(&last), 9);
        last.forget();
        last.turn(at(10_000), 1);
        last.turn(at(12_500), 1);
        assert_eq!(idle(&last), 2);
    }
}
