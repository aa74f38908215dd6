//! What is known by heart is what is there, whatever was written, flushed and cleared, and in whichever order it was asked for.

use super::*;
use crate::blob::Blob;
use crate::kept::{ElementKey, ElementRef, Elements};
use crate::layers::{Base, Layers, Trouble};
use base::Rng;
use base::ordered::{OrderedBatch, Space};
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::MemoryStore;

type Model = BTreeMap<ElementKey, Blob>;

struct World {
    layers: Layers<Elements>,
    model: Model,
    store: MemoryStore,
    spaces: u64,
    /// What is to be applied, if a flush is under way.
    batch: Option<OrderedBatch>,
}

fn key(collection: u64, order: u64, long: bool) -> ElementKey {
    let name = if long { "a name that does not stand in place" } else { "n" };
    ElementKey { collection, order, name: Blob::from(name) }
}

impl World {
    fn new() -> World {
        let store = MemoryStore::new();
        let mut layers: Layers<Elements> = Layers::default();
        layers.attach(Base { read: Arc::new(store.clone()), space: None, pieces: None, trouble: Trouble::default() });
        World { layers, model: Model::new(), store, spaces: 0, batch: None }
    }

    fn put(&mut self, key: ElementKey, value: Blob) {
        assert_eq!(self.layers.insert(key.clone(), value.clone()), self.model.insert(key, value));
    }

    fn erase(&mut self, key: &ElementKey) {
        assert_eq!(self.layers.remove(key.as_ref()), self.model.remove(key));
    }

    fn begin(&mut self) {
        if self.batch.is_some() {
            return;
        }
        let spaces = &mut self.spaces;
        let frozen = self.layers.freeze(|| {
            *spaces += 1;
            Space(*spaces)
        });
        let mut batch = OrderedBatch::default();
        crate::flush::write_layer(frozen.unwrap(), &self.store, &mut batch).unwrap();
        self.batch = Some(batch);
    }

    /// The store takes what is under way: it may be read before its owner is told.
    fn bring(&mut self) {
        if let Some(batch) = &self.batch {
            self.store.apply(batch).unwrap();
        }
    }

    fn end(&mut self) {
        self.bring();
        if self.batch.take().is_some() {
            self.layers.thaw();
        }
    }

    /// What a walk says, and what it must say.
    fn walk(
        &self,
        start: Bound<ElementRef<'_>>,
        end: Option<&ElementKey>,
        limit: usize,
    ) -> [Vec<(ElementKey, Blob)>; 2] {
        let said = self.layers.range_before(start, end).take(limit).collect();
        let owned = start.map(ElementRef::to_key);
        let behind = (owned.clone(), Bound::Unbounded);
        let wanted = self.model.range(behind).filter(|(key, _)| end.is_none_or(|end| *key < end));
        [said, wanted.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect()]
    }
}

impl World {
    /// A visit shows what a walk says, from wherever it is to begin and however early it breaks off.
    fn visit(&self, start: Bound<ElementRef<'_>>, end: &ElementKey, limit: usize) {
        for passed in [0, 1, 5, limit] {
            let walked: Vec<(ElementKey, Blob)> =
                self.layers.range_before(start, Some(end)).skip(passed).take(limit).collect();
            let mut shown = Vec::new();
            self.layers.visit_before(start, end, passed, |key, value| {
                if shown.len() == limit {
                    return ControlFlow::Break(());
                }
                shown.push((key.clone(), value.clone()));
                ControlFlow::Continue(())
            });
            assert_eq!(shown, walked, "from {start:?} to {end:?}, without {passed}");
        }
    }
}

fn is_sound(runs: &Runs<Elements>) {
    let bytes: u64 = runs.slots.values().map(|slot| slot.run.bytes).sum();
    assert_eq!(runs.bytes, bytes);
    assert!(bytes <= runs.bytes_max);
    let mut last: Option<&Edge<Elements>> = None;
    for (start, slot) in &runs.slots {
        assert!(last.is_none_or(|last| last <= start), "runs overlap");
        assert!(*start < slot.run.end && slot.run.entries.len() <= ENTRIES_MAX);
        assert!(slot.run.entries.is_sorted_by(|a, b| a.0 < b.0));
        let is_inside =
            |key: &ElementKey| !is_before::<Elements>(key, start) && is_before::<Elements>(key, &slot.run.end);
        assert!(slot.run.entries.iter().all(|(key, _)| is_inside(key)));
        last = Some(&slot.run.end);
    }
}

#[test]
fn a_walk_says_what_is_there() {
    let mut rng = Rng::new(11);
    let (mut known, mut forgotten, mut evicted) = (0, 0, 0);
    for _ in 0..60 {
        let mut world = World::new();
        let orders = 1 + rng.below(120);
        for step in 0..400 {
            let place = key(1 + rng.below(3), rng.below(orders), rng.chance(1, 4));
            let before = world.layers.runs().slots.len();
            match rng.below(40) {
                0..12 => world.put(place, Blob::from(format!("value {step} {}", "x".repeat(rng.below(90) as usize)))),
                12..17 => world.erase(&place),
                17 => world.begin(),
                18 => world.bring(),
                19 => {
                    world.end();
                    forgotten += usize::from(world.layers.runs().slots.len() < before);
                }
                20 if rng.chance(1, 8) => {
                    world.layers.clear();
                    world.model.clear();
                    assert!(world.layers.runs().slots.is_empty());
                }
                21 => {
                    let copy = world.layers.frozen_copy();
                    assert!(copy.range(Bound::Unbounded).eq(world.model.clone()));
                    let end = key(9, 0, false);
                    assert!(
                        copy.range_before(Bound::Included(key(0, 0, false).as_ref()), Some(&end))
                            .eq(world.model.clone())
                    );
                    assert!(copy.runs().slots.is_empty(), "a copy remembers nothing");
                }
                _ => {
                    let start = match rng.below(5) {
                        0 => Bound::Excluded(place.as_ref()),
                        _ => Bound::Included(place.as_ref()),
                    };
                    let end = key(place.collection + rng.below(2), rng.below(orders), false);
                    let end = rng.chance(9, 10).then_some(&end);
                    let limit = if rng.chance(1, 2) { rng.below(10) as usize } else { usize::MAX };
                    let [said, wanted] = world.walk(start, end, limit);
                    assert_eq!(said, wanted);
                    if let Some(end) = end {
                        world.visit(start, end, limit.min(20));
                    }
                    let (is_full, after) = (world.layers.runs().bytes * 2 > 8 * 1024, world.layers.runs().slots.len());
                    evicted += usize::from(is_full && after < before);
                }
            }
            is_sound(&world.layers.runs());
            known += world.layers.runs().slots.len();
        }
        world.end();
        assert!(world.layers.range(Bound::Unbounded).eq(world.model.clone()));
    }
    assert!(known > 1000 && forgotten > 50 && evicted > 50, "{known} known, {forgotten} forgotten, {evicted} evicted");
}

/// Walks that go on beside one another, and both read the same.
#[test]
fn walks_may_overlap() {
    let mut world = World::new();
    for order in 0..40 {
        world.put(key(1, order, false), Blob::EMPTY);
    }
    world.begin();
    world.end();
    let end = key(2, 0, false);
    let all = || world.layers.range_before(Bound::Included(key(1, 0, false).as_ref()), Some(&end));
    let from = key(1, 7, false);
    let mut first = all();
    let begun: Vec<_> = first.by_ref().take(9).collect();
    let second: Vec<_> = world.layers.range_before(Bound::Included(from.as_ref()), Some(&end)).collect();
    let rest: Vec<_> = first.collect();
    is_sound(&world.layers.runs());
    assert!(begun.into_iter().chain(rest).eq(world.model.clone()));
    assert!(second.into_iter().eq(world.model.range(from.clone()..).map(|(key, value)| (key.clone(), value.clone()))));
}

/// What was read once is not read again.
#[test]
fn what_is_known_is_not_read() {
    let mut world = World::new();
    for order in 0..40 {
        world.put(key(1, order, false), Blob::EMPTY);
    }
    world.begin();
    world.end();
    let end = key(2, 0, false);
    let walk = |world: &World, limit| world.walk(Bound::Included(key(1, 3, false).as_ref()), Some(&end), limit);
    walk(&world, 12);
    // Behind its owner's back: who asks now is told what was there.
    let space = world.layers.spaces()[0].unwrap();
    world.store.apply(&OrderedBatch { dropped: vec![space], ..OrderedBatch::default() }).unwrap();
    let [said, wanted] = walk(&world, 12);
    assert_eq!(said, wanted);
    assert_eq!(walk(&world, 40)[0].len(), 12, "behind what is known the store is asked");
}

/// The mistake that the model finds: nothing is forgotten when a flush ends.
#[test]
fn without_forgetting_a_walk_says_what_was_there() {
    let mut world = World::new();
    world.put(key(1, 1, false), Blob::from("before"));
    world.begin();
    world.end();
    let end = key(2, 0, false);
    let walk = |world: &World| world.walk(Bound::Included(key(1, 0, false).as_ref()), Some(&end), 9);
    walk(&world);
    world.put(key(1, 1, false), Blob::from("after"));
    world.begin();
    world.bring();
    world.layers.thaw_without_forgetting();
    let [said, wanted] = walk(&world);
    assert_ne!(said, wanted);
}
