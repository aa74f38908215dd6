//! When keys were last used, as `OBJECT IDLETIME` tells. Of this node alone, kept in memory: any node may serve a read, and nobody else hears of it.
//!
//! For each key there is a place in a table of seconds, found by its hash; keys may share one. The table grows with the keys, up to 4 MiB for each bucket. So what is told is
//! exact while the keys are fewer than a million, but for few, and then too short for some; never too long, but that a key which nobody has used since the start is as old as the process.

use std::cell::Cell;

use base::Time;
use data::{KeyRef, Usage};

use crate::bucket::Policy;
use crate::eviction::Evicting;

/// Places at first, and at most.
const PLACES_MIN: usize = 1024;
const PLACES_MAX: usize = 1024 * 1024;
/// The bits of a key's order that are its hash (`data::StoreKey`).
const HASH_BITS: u64 = (1 << 48) - 1;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct LastUses {
    /// Seconds from the process's own beginning to the last use; 0: none.
    places: Vec<Cell<u32>>,
    now: Cell<u32>,
}

fn seconds(time: Time) -> u32 {
    u32::try_from(time.since(Time(0)).as_secs()).unwrap_or(u32::MAX)
}

impl LastUses {
    /// A table in which nothing has been used yet.
    pub(crate) fn new() -> LastUses {
        LastUses { places: vec![Cell::new(0); PLACES_MIN], now: Cell::new(0) }
    }

    /// It is so late, and there are so many keys.
    pub(crate) fn turn(&mut self, now: Time, keys: u64) {
        self.now.set(seconds(now));
        while (self.places.len() as u64) < keys.saturating_mul(2) && self.places.len() < PLACES_MAX {
            // Whoever shared a place goes on with what was known of it.
            self.places.extend_from_within(..);
        }
    }

    fn place(&self, order: u64) -> Option<&Cell<u32>> {
        let hash = order & HASH_BITS;
        self.places.get((hash as usize) & (self.places.len() - 1))
    }

    fn touch_order(&self, order: u64) {
        if let Some(place) = self.place(order) {
            place.set(self.now.get());
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

    fn idle_seconds(&self, key: KeyRef<'_>, started: Time) -> u64 {
        let last = self.place(key.order).map_or(0, Cell::get).max(seconds(started));
        u64::from(self.now.get().saturating_sub(last))
    }
}

/// What a read is told, and what it tells.
#[derive(Debug)]
pub(crate) struct Uses<'a> {
    pub last: &'a LastUses,
    pub evicting: Option<&'a Evicting>,
    /// When the process began.
    pub started: Time,
}

impl Usage for Uses<'_> {
    fn touch(&self, key: KeyRef<'_>) {
        self.last.touch_order(key.order);
    }

    fn idle_seconds(&self, key: KeyRef<'_>) -> u64 {
        self.last.idle_seconds(key, self.started)
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

    fn at(second: u64) -> Time {
        Time(0) + Duration::from_secs(second)
    }

    #[test]
    fn growing_forgets_nothing_and_makes_nobody_older() {
        let mut last = LastUses::new();
        let keys: Vec<String> = (0..20_000).map(|number| format!("key:{number}")).collect();
        for (second, keys_then) in [(10, 100), (20, 5000), (30, 20_000)] {
            last.turn(at(second), keys_then as u64);
            keys[..keys_then].iter().rev().take(100).for_each(|key| last.touch(key.as_bytes()));
        }
        last.turn(at(40), 20_000);
        let idle = |number: usize| last.idle_seconds(KeyRef::new(keys[number].as_bytes()), at(5));
        let exact = |range: std::ops::Range<usize>, idle_for: u64| {
            assert!(range.clone().all(|number| idle(number) <= idle_for), "{idle_for}: nobody is told to be older");
            range.filter(|number| idle(*number) == idle_for).count()
        };
        assert_eq!(exact(19_900..20_000, 10), 100, "they were the last");
        assert!(exact(4900..5000, 20) > 90);
        assert!(exact(0..100, 30) > 80);
        assert!(exact(10_000..10_100, 35) > 80, "used by nobody: since the start");
        assert_eq!(last.places.len(), 65_536);
        last.turn(at(50), u64::MAX);
        assert_eq!(last.places.len(), PLACES_MAX);
    }
}
