//! Where the members of sorted sets begin, known by heart.
//!
//! What was removed since the last flush stays in memory as a removal, and what the store has not compacted yet stays there. A walk from the
//! beginning of a sorted set passes over all of it: a queue from which a hundred thousand members were taken would pay for each of them with
//! every further one. So it is remembered that nothing stands before some place.
//!
//! This is no part of the state. It is forgotten at a restart, and replicas may know different places: only how long a walk takes depends on it.

use super::ranked::{boundary_name, score_of};
use super::{Collections, PART_SCORES};
use crate::blob::Blob;
use crate::kept::{ElementKey, ElementRef};
use imbl::OrdMap;
use std::ops::{Bound, ControlFlow};

/// Sorted sets that are known at once. If there are more, that with the lowest number is forgotten.
const FRONTS_MAX: usize = 64;
/// Of so many removals one has the beginning looked for: a walk passes over some more of them than that at most, and few removals pay for it.
const LOOKS: u64 = if cfg!(test) { 3 } else { 32 };
/// Bytes of a member that are remembered: of members that begin alike in more, some more is passed over.
const FRONT_BYTES_MAX: usize = if cfg!(test) { 5 } else { 256 * 1024 };
/// The golden ratio: multiples of it are spread evenly, also if sets take turns.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is remembered of a member: its beginning, which does not stand behind it.
fn beginning(member: &Blob) -> Blob {
    member.get(..FRONT_BYTES_MAX).map_or_else(|| member.clone(), Blob::new)
}

/// By the number of a collection: nothing stands before this order and member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fronts {
    places: OrdMap<u64, (u64, Blob)>,
    removals: u64,
}

impl Fronts {
    /// A member comes.
    pub(super) fn lower(&mut self, number: u64, order: u64, member: &Blob) {
        if let Some(front) = self.places.get_mut(&number)
            && (order, member) < (front.0, &front.1)
        {
            *front = (order, beginning(member));
        }
    }

    /// The name of the first boundary that there can be, if a place is known before which nothing stands.
    pub(super) fn first_boundary(&self, number: u64) -> Option<Blob> {
        self.places.get(&number).map(|(order, member)| Blob::from(boundary_name(*order, member)))
    }
}

impl Collections {
    /// A member has gone. Without a store below nothing is left of it, and nothing has to be known.
    pub(super) fn advance_front(&mut self, number: u64) {
        if !self.elements.remembers_removals() {
            return;
        }
        self.fronts.removals = self.fronts.removals.wrapping_add(1);
        if self.fronts.removals.wrapping_mul(SPREAD) > u64::MAX / LOOKS {
            return;
        }
        let first = self.scores_from(number, None).next();
        let places = &mut self.fronts.places;
        let Some((key, _)) = first else {
            places.remove(&number);
            return;
        };
        if places.len() >= FRONTS_MAX && !places.contains_key(&number) {
            let lowest = places.get_min().map(|(number, _)| *number);
            lowest.and_then(|lowest| places.remove(&lowest));
        }
        places.insert(number, (key.order, beginning(&key.name)));
    }

    /// The members in the order of their scores: those behind a place, or all.
    pub(super) fn scores_from<'c>(
        &'c self,
        number: u64,
        behind: Option<&(u64, Blob)>,
    ) -> impl Iterator<Item = (ElementKey, Blob)> + use<'c> {
        let start = match (behind, self.fronts.places.get(&number)) {
            (Some((order, member)), _) => Bound::Excluded((*order, &**member)),
            (None, Some((order, member))) => Bound::Included((*order, &**member)),
            (None, None) => Bound::Unbounded,
        };
        self.range(number | PART_SCORES, start)
    }

    /// Shows the same, without the first `passed`, until `visit` breaks off.
    pub(super) fn visit_scores_from(
        &self,
        number: u64,
        behind: Option<&(u64, Blob)>,
        passed: usize,
        mut visit: impl FnMut(&ElementKey) -> ControlFlow<()>,
    ) {
        let collection = number | PART_SCORES;
        let place = |(order, member): &'_ (u64, Blob)| (*order, member.clone());
        let (start, is_behind) = match (behind, self.fronts.places.get(&number)) {
            (Some(behind), _) => (place(behind), true),
            (None, Some(front)) => (place(front), false),
            (None, None) => ((0, Blob::EMPTY), false),
        };
        let start = ElementRef { collection, order: start.0, name: &start.1 };
        let start = if is_behind { Bound::Excluded(start) } else { Bound::Included(start) };
        let end = ElementKey { collection: collection.saturating_add(1), order: 0, name: Blob::EMPTY };
        self.elements.visit_before(start, &end, passed, |key, _| visit(key));
    }

    /// Shows the members whose scores have orders from `from` up to `end`, which is not among them, in order, without the first `passed`, until `visit`
    /// breaks off.
    pub(crate) fn visit_scores(
        &self,
        number: u64,
        (from, end): (u64, u64),
        passed: usize,
        mut visit: impl FnMut(&Blob, f64) -> ControlFlow<()>,
    ) {
        let place = match self.fronts.places.get(&number) {
            Some((order, member)) if *order >= from => (*order, &**member),
            _ => (from, &b""[..]),
        };
        let collection = number | PART_SCORES;
        let end = ElementKey { collection, order: end, name: Blob::EMPTY };
        if place.0 < end.order {
            let start = Bound::Included(ElementRef { collection, order: place.0, name: place.1 });
            self.elements.visit_before(start, &end, passed, |key, _| {
                if !self.meter.visit(key.name.len()) {
                    return ControlFlow::Break(());
                }
                visit(&key.name, score_of(key.order))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::ranked::order_of;
    use crate::{EntryContext, Tree, apply};
    use std::sync::Arc;

    fn run(tree: &mut Tree, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        format!("{:?}", apply(tree, &EntryContext::default(), &words).reply)
    }

    fn front(tree: &Tree, number: u64) -> Option<(u64, &[u8])> {
        tree.collections.fronts.places.get(&number).map(|(order, member)| (*order, &**member))
    }

    #[test]
    fn the_beginning_follows_what_comes_and_goes() {
        let mut tree = Tree::new().over(Arc::new(storage::MemoryStore::new()));
        for score in 10..60 {
            run(&mut tree, &format!("ZADD z {score} m{score}"));
        }
        assert_eq!(front(&tree, 1), None);
        for _ in 0..20 {
            run(&mut tree, "ZPOPMIN z");
        }
        let known = front(&tree, 1).map(|(order, _)| order).unwrap();
        assert!((order_of(20.0)..=order_of(30.0)).contains(&known), "near the first that is left");
        run(&mut tree, "ZADD z 50 late");
        assert_eq!(front(&tree, 1).unwrap().0, known);
        run(&mut tree, "ZADD z 5 early");
        assert_eq!(front(&tree, 1), Some((order_of(5.0), &b"early"[..])));
        assert!(run(&mut tree, "ZRANGE z 0 1").contains("\"early\"), Bulk(\"m30\""));
        assert!(run(&mut tree, "ZRANK z m31").contains("Integer(2)"));
    }

    #[test]
    fn only_so_many_are_known() {
        let mut tree = Tree::new().over(Arc::new(storage::MemoryStore::new()));
        for set in 0..FRONTS_MAX + 10 {
            for score in 0..20 {
                run(&mut tree, &format!("ZADD z{set} {score} m{score}"));
            }
            for _ in 0..19 {
                run(&mut tree, &format!("ZPOPMIN z{set}"));
            }
        }
        assert_eq!(tree.collections.fronts.places.len(), FRONTS_MAX);
        for set in 0..FRONTS_MAX + 10 {
            assert!(run(&mut tree, &format!("ZRANGE z{set} 0 -1")).contains("m19"));
        }
    }
}
