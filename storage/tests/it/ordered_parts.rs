//! Views that are read in parts, as whoever sends a snapshot reads them: each part begins where the one before it ended.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "these tests are about real files")]

use std::ops::Bound;

use crate::ordered_support::{Folder, SMALL, read_all};
use base::Rng;
use base::ordered::{OrderedBatch, OrderedRead, Pair, Space};
use storage::LsmStore;

const SPACES: [Space; 2] = [Space(1), Space(2)];

fn write(store: &LsmStore, rng: &mut Rng, batches: u64) {
    for _ in 0..batches {
        let change = |rng: &mut Rng| {
            let key = rng.below(2000).to_be_bytes().to_vec();
            (SPACES[rng.below(2) as usize], key, (!rng.chance(1, 4)).then(|| vec![1; rng.below(300) as usize]))
        };
        let changes: Vec<_> = (0..50).map(|_| change(&mut *rng)).collect();
        store.apply(&OrderedBatch { dropped: Vec::new(), changes: changes.into() }).unwrap();
    }
}

/// One who reads in parts: what he has taken, and what he looked at beyond that is not his yet.
struct Reader {
    space: Space,
    taken: Vec<Pair>,
    at_end: bool,
}

impl Reader {
    fn part(&mut self, view: &dyn OrderedRead, rng: &mut Rng) {
        let start = match self.taken.last() {
            Some((key, _)) => Bound::Excluded(key.clone()),
            None => Bound::Unbounded,
        };
        let mut walk = view.range(self.space, start.as_ref().map(Vec::as_slice));
        let wanted = rng.below(40);
        for _ in 0..wanted {
            match walk.next() {
                Some(pair) => self.taken.push(pair.unwrap()),
                None => {
                    self.at_end = true;
                    return;
                }
            }
        }
        let beyond = rng.below(7) as usize;
        for pair in walk.take(beyond) {
            pair.unwrap();
        }
    }
}

#[test]
fn parts_are_the_whole_whoever_reads_beside() {
    let folder = Folder::new();
    let store = LsmStore::open(folder.path().join("store"), SMALL).unwrap();
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let batches = rng.below(20);
        write(&store, &mut rng, batches);
        let view = store.freeze();
        let whole = SPACES.map(|space| read_all(&*view, space, Bound::Unbounded).unwrap());
        let reader = |space| Reader { space, taken: Vec::new(), at_end: false };
        let mut readers = [reader(SPACES[0]), reader(SPACES[1]), reader(SPACES[0])];
        while !readers.iter().all(|reader| reader.at_end) {
            let one = rng.below(3) as usize;
            let again = if rng.chance(1, 2) { view.freeze() } else { view.clone() };
            for _ in 0..rng.below(5) {
                readers[one].part(&*again, &mut rng);
            }
            if rng.chance(1, 10) {
                let back = rng.below(100) as usize;
                let length = readers[one].taken.len().saturating_sub(back);
                readers[one].taken.truncate(length);
                readers[one].at_end = false;
            }
            let beside = u64::from(rng.chance(1, 3));
            write(&store, &mut rng, beside);
        }
        for Reader { space, taken, .. } in readers {
            assert_eq!(taken, whole[usize::from(space == SPACES[1])], "seed {seed}, space {space:?}");
        }
    }
}
