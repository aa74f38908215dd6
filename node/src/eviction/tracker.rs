//! Which key of a bucket has to go first, by the bucket's policy.
//!
//! | policy | first to go | what a read does | what a write does |
//! |---|---|---|---|
//! | FIFO | the value that was written longest ago | nothing | the key goes to the end |
//! | LRU | the key that was not asked for for longest | the key goes to the end | the same |
//! | LFU | the key that was asked for least often lately, among these the one that got there first | counts | counts |
//! | S3-FIFO | the oldest, after a probation for what is new | counts up to three | the same |
//!
//! **LFU** keeps a list for each count from 0 to 15. A new key has 1. After ten uses for each key all counts are halved, by joining lists, so
//! that what was hot long ago cools.
//!
//! **S3-FIFO** (Yang and others, SOSP 2023) has a small list for what is new and a main one, and remembers the hashes of what was evicted from the
//! small one. From the small list a key that was asked for goes to the main one, any other is evicted; the main list gives each key as many
//! further rounds as it was counted. What comes back soon after its eviction goes to the main list at once.
//!
//! Nothing here is part of the state: it follows from what this process has seen, and replicas differ in it.

use data::{Blob, KeyRef};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::lists::{Lists, Place};
use crate::bucket::Policy;

/// Counts of LFU: 0 to one less.
const LEVELS: u8 = 16;
/// So many uses for each key, then counts are halved.
const USES_PER_HALVING: u64 = 10;
/// Counts are not halved more often than this, in uses.
const HALVING_MIN: u64 = 100;

/// The lists of S3-FIFO.
const SMALL: u8 = 0;
const MAIN: u8 = 1;
/// The small list has one of so many keys.
const SMALL_SHARE: usize = 10;
/// Highest count of S3-FIFO.
const COUNT_MAX: u8 = 3;
/// Keys that are looked at for one victim, at most; then the next one goes, whatever it was asked for. Freeing room must not hold up
/// everything else.
const LOOKED_AT_MAX: usize = 1000;

/// See the file's head. Its memory is proportional to how many keys it knows, which the bucket's quota bounds.
#[derive(Clone, Debug)]
pub(crate) struct Tracker {
    policy: Policy,
    lists: Lists,
    /// Where keys are, by their place in the store's order: as good as unique. Of two keys with one order only the first is known.
    places: BTreeMap<u64, Place>,
    /// LFU: uses since the last halving, and how many halvings there were.
    uses: u64,
    epoch: u16,
    /// S3-FIFO: keys in the small list; what was evicted from it, oldest first.
    small: usize,
    ghosts: VecDeque<u64>,
    ghost_set: BTreeSet<u64>,
}

impl Tracker {
    pub(crate) fn new(policy: Policy) -> Tracker {
        let lists = match policy {
            Policy::Fifo | Policy::Lru => 1,
            Policy::S3Fifo => 2,
            Policy::Lfu => LEVELS,
        };
        Tracker {
            policy,
            lists: Lists::new(lists),
            places: BTreeMap::new(),
            uses: 0,
            epoch: 0,
            small: 0,
            ghosts: VecDeque::new(),
            ghost_set: BTreeSet::new(),
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// How many keys are known.
    pub(crate) fn len(&self) -> u64 {
        self.places.len() as u64
    }

    /// Whether a key is known.
    pub(crate) fn knows(&self, key: KeyRef<'_>) -> bool {
        self.place_of(key).is_some()
    }

    fn place_of(&self, key: KeyRef<'_>) -> Option<Place> {
        self.places.get(&key.order).copied().filter(|place| self.lists.get(*place).key.as_slice() == key.key)
    }

    /// How often a key is asked for, as LFU counts: 0 to one less than its levels.
    pub(crate) fn count_of(&self, key: KeyRef<'_>) -> u8 {
        self.place_of(key).map_or(0, |place| {
            let slot = self.lists.get(place);
            // Halved once for each halving since.
            slot.count.checked_shr(u32::from(self.epoch.wrapping_sub(slot.epoch))).unwrap_or(0)
        })
    }

    /// A key got a value, or was read for the first time since this process knows of it.
    pub(crate) fn written(&mut self, key: &Blob) {
        let at = KeyRef::new(key);
        if let Some(place) = self.place_of(at) {
            return self.use_again(place, true);
        }
        if self.places.contains_key(&at.order) {
            return;
        }
        let place = match self.policy {
            Policy::Fifo | Policy::Lru => self.lists.push(0, key.clone()),
            Policy::Lfu => {
                let place = self.lists.push(1, key.clone());
                let slot = self.lists.get_mut(place);
                (slot.count, slot.epoch) = (1, self.epoch);
                self.count_use();
                place
            }
            Policy::S3Fifo => {
                let part = if self.ghost_set.remove(&at.order) { MAIN } else { SMALL };
                self.small += usize::from(part == SMALL);
                let place = self.lists.push(part, key.clone());
                self.lists.get_mut(place).part = part;
                place
            }
        };
        self.places.insert(at.order, place);
    }

    /// A key was asked for. Whether it is known.
    pub(crate) fn touched(&mut self, key: KeyRef<'_>) -> bool {
        let place = self.place_of(key);
        place.into_iter().for_each(|place| self.use_again(place, false));
        place.is_some()
    }

    /// As [`Tracker::touched`], of a key of which only the order is known.
    pub(crate) fn touched_at(&mut self, order: u64) -> bool {
        let place = self.places.get(&order).copied();
        place.into_iter().for_each(|place| self.use_again(place, false));
        place.is_some()
    }

    /// A key is gone.
    pub(crate) fn removed(&mut self, key: KeyRef<'_>) {
        if let Some(place) = self.place_of(key) {
            self.take_out(key.order, place);
        }
    }

    /// The key that has to go first, which is not known any more.
    pub(crate) fn pop(&mut self) -> Option<Blob> {
        let place = match self.policy {
            Policy::Fifo | Policy::Lru => self.lists.first(0)?,
            Policy::Lfu => (0..LEVELS).find_map(|level| self.lists.first(level))?,
            Policy::S3Fifo => self.next_of_s3_fifo()?,
        };
        let order = KeyRef::new(&self.lists.get(place).key).order;
        if self.policy == Policy::S3Fifo && self.lists.get(place).part == SMALL {
            self.remember(order);
        }
        Some(self.take_out(order, place))
    }

    /// The same keys under another policy, which finds them in the order in which this one would let them go.
    pub(crate) fn under(&mut self, policy: Policy) -> Tracker {
        let mut other = Tracker::new(policy);
        while let Some(key) = self.pop() {
            other.written(&key);
        }
        other
    }

    fn take_out(&mut self, order: u64, place: Place) -> Blob {
        self.places.remove(&order);
        self.small -= usize::from(self.policy == Policy::S3Fifo && self.lists.get(place).part == SMALL);
        self.lists.remove(place)
    }

    fn use_again(&mut self, place: Place, written: bool) {
        match self.policy {
            Policy::Fifo if !written => {}
            Policy::Fifo | Policy::Lru => self.lists.move_to(0, place),
            Policy::Lfu => {
                let epoch = self.epoch;
                let slot = self.lists.get_mut(place);
                // Halved once for each halving since.
                let halvings = u32::from(epoch.wrapping_sub(slot.epoch));
                let count = (slot.count.checked_shr(halvings).unwrap_or(0) + 1).min(LEVELS - 1);
                (slot.count, slot.epoch) = (count, epoch);
                self.lists.move_to(count, place);
                self.count_use();
            }
            Policy::S3Fifo => {
                let slot = self.lists.get_mut(place);
                slot.count = (slot.count + 1).min(COUNT_MAX);
            }
        }
    }

    fn count_use(&mut self) {
        self.uses += 1;
        if self.uses >= (USES_PER_HALVING * self.lists.len() as u64).max(HALVING_MIN) {
            self.uses = 0;
            self.epoch = self.epoch.wrapping_add(1);
            // Of two lists that become one the colder is put before the other.
            self.lists.join(0, 1);
            for level in 1..LEVELS / 2 {
                self.lists.join(level, 2 * level);
                self.lists.join(level, 2 * level + 1);
            }
        }
    }

    fn next_of_s3_fifo(&mut self) -> Option<Place> {
        for looked_at in 0.. {
            let from_small = self.small * SMALL_SHARE >= self.lists.len().max(1) || self.lists.first(MAIN).is_none();
            let place = self.lists.first(if from_small { SMALL } else { MAIN })?;
            let slot = self.lists.get_mut(place);
            if slot.count == 0 || looked_at >= LOOKED_AT_MAX {
                return Some(place);
            }
            if from_small {
                (slot.count, slot.part) = (0, MAIN);
                self.small -= 1;
            } else {
                slot.count -= 1;
            }
            self.lists.move_to(MAIN, place);
        }
        None
    }

    /// Remembers what was evicted from the small list: as many keys as there are in the cache.
    fn remember(&mut self, order: u64) {
        if self.ghost_set.insert(order) {
            self.ghosts.push_back(order);
        }
        while self.ghosts.len() > self.lists.len() {
            let oldest = self.ghosts.pop_front();
            oldest.into_iter().for_each(|order| {
                self.ghost_set.remove(&order);
            });
        }
    }
}

#[cfg(test)]
mod tests;
