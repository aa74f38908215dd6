//! The members of sets that are being emptied, known by heart.
//!
//! What was removed since the last flush stays in memory as a removal, and what the store has not compacted yet stays there. SPOP looks at the members that
//! stand behind some place, and at all of them once there are few: of a set that had sixty thousand it would pass over thousands of removals for each
//! of the last thousand members, and over all of them for each of the last 256.
//!
//! 1. A set that is drawn from often enough to pay for it is read once, as soon as it is no larger than [`MEMBERS_MAX`]; from then on every change is noted.
//! 2. Whoever draws goes through what is known, in the same order, instead of through the elements: so the same is drawn.
//!
//! This is no part of the state. It is forgotten at a restart, and replicas may know different sets: only how long something takes depends on it.

use super::Collections;
use crate::blob::Blob;
use crate::value::Collection;
use imbl::{OrdMap, OrdSet};
use std::collections::BTreeMap;

/// Sets that are known at once. If there are more, that with the lowest number is forgotten.
const SETS_MAX: usize = 64;
/// Most members, and bytes, of a set that is read; one that has grown to twice as much is forgotten.
const MEMBERS_MAX: u64 = if cfg!(test) { 40 } else { 4096 };
const BYTES_MAX: u64 = 1024 * 1024;
/// Members that one draw is worth to read.
const READ_EACH: u64 = 64;
/// Sets whose draws are counted.
const ASKED_MAX: usize = 1024;

/// See the file's head. Members stand in the order of their elements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Few {
    sets: OrdMap<u64, OrdSet<(u64, Blob)>>,
    /// How often sets were drawn from that are not known.
    asked: BTreeMap<u64, u64>,
}

impl Few {
    /// A member has come to a set, which now is this one.
    pub(crate) fn note_new(&mut self, set: Collection, order: u64, name: &[u8]) {
        if set.len() > 2 * MEMBERS_MAX || set.bytes() > 2 * BYTES_MAX {
            self.forget(set.number());
        } else if let Some(members) = self.sets.get_mut(&set.number()) {
            members.insert((order, Blob::new(name)));
        }
    }

    /// A member has gone.
    pub(crate) fn note_gone(&mut self, number: u64, order: u64, name: &[u8]) {
        if let Some(members) = self.sets.get_mut(&number) {
            members.remove(&(order, Blob::new(name)));
        }
    }

    /// The collection is gone.
    pub(super) fn forget(&mut self, number: u64) {
        self.sets.remove(&number);
        self.asked.remove(&number);
    }

    /// Whether it is time to read a set.
    fn is_worth_reading(&mut self, set: Collection) -> bool {
        if set.len() > MEMBERS_MAX || set.bytes() > BYTES_MAX || self.sets.contains_key(&set.number()) {
            return false;
        }
        if self.asked.len() >= ASKED_MAX {
            self.asked.clear();
        }
        let asked = self.asked.entry(set.number()).or_default();
        *asked = asked.saturating_add(1);
        asked.saturating_mul(READ_EACH) >= set.len()
    }
}

impl Collections {
    /// Before something is drawn from a set. Without a store below nothing is left of removals, and nothing has to be known.
    pub(crate) fn learn_few(&mut self, set: Collection) {
        if !self.elements.remembers_removals() || !self.few.is_worth_reading(set) {
            return;
        }
        let members: OrdSet<(u64, Blob)> =
            self.elements_unmetered(set, 0).map(|(order, name, _)| (order, name)).collect();
        // What the store below could not read is not known.
        if self.elements.trouble().is_some() {
            return;
        }
        let known = &mut self.few;
        known.asked.remove(&set.number());
        if known.sets.len() >= SETS_MAX {
            let lowest = known.sets.get_min().map(|(number, _)| *number);
            lowest.and_then(|lowest| known.sets.remove(&lowest));
        }
        known.sets.insert(set.number(), members);
    }

    /// As [`Collections::elements_of`], for whoever draws.
    pub(crate) fn drawn_from(&self, of: Collection, order: u64) -> impl Iterator<Item = (u64, Blob, Blob)> {
        let known = self.few.sets.get(&of.number());
        let read = known.is_none().then(|| self.elements_unmetered(of, order));
        let known = known.map(|members| members.range((order, Blob::EMPTY)..));
        let known = known.into_iter().flatten().map(|(order, name)| (*order, name.clone(), Blob::EMPTY));
        known.chain(read.into_iter().flatten()).take_while(|(_, name, _)| self.meter.visit(name.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryContext, Tree, apply};
    use base::Rng;
    use std::sync::Arc;

    /// The same commands on a tree that knows sets by heart and on one that never does.
    #[test]
    fn what_is_drawn_is_not_changed_by_what_is_known() {
        let mut rng = Rng::new(7);
        let mut plain = Tree::new();
        let mut over = Tree::new().over(Arc::new(storage::MemoryStore::new()));
        let mut known = 0;
        for round in 0..3000 {
            let key = rng.below(3);
            let line = match rng.below(20) {
                0..8 => format!("SADD s{key} m{}", rng.below(200)),
                8..15 => format!("SPOP s{key}"),
                15 => format!("SPOP s{key} {}", rng.below(5)),
                16 => format!("SREM s{key} m{} m{}", rng.below(200), rng.below(200)),
                17 => format!("SMOVE s{key} s{} m{}", (key + 1) % 3, rng.below(200)),
                18 if round % 10 == 0 => format!("DEL s{key}"),
                18 => format!("RENAME s{key} s{}", (key + 1) % 3),
                _ => format!("SUNIONSTORE s{key} s{} s{}", (key + 1) % 3, (key + 2) % 3),
            };
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let context = EntryContext { seed: round, ..EntryContext::default() };
            let replies = [&mut plain, &mut over].map(|tree| format!("{:?}", apply(tree, &context, &words).reply));
            assert_eq!(replies[0], replies[1], "{line}");
            for (number, members) in &over.collections.few.sets {
                let there: Vec<(u64, Blob)> = over
                    .collections
                    .range(*number, std::ops::Bound::Unbounded)
                    .map(|(key, _)| (key.order, key.name))
                    .collect();
                assert!(members.iter().eq(&there), "{line}: what is known of {number} is what is there");
                known += 1;
            }
        }
        assert!(known > 100, "sets were known {known} times");
        assert!(plain.collections.few.sets.is_empty());
    }
}
