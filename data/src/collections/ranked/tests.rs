//! Ranks are what counting one by one says, whatever came and went.

use super::*;
use base::Rng;
use std::collections::BTreeMap;
use std::ops::Bound;

struct Both {
    collections: Collections,
    of: Collection,
    model: BTreeMap<(u64, Vec<u8>), Standing>,
    by_name: BTreeMap<Vec<u8>, Standing>,
}

impl Both {
    fn set(&mut self, member: &[u8], standing: Standing) {
        self.remove(member);
        self.collections.enter_score(self.of.number(), standing, &Blob::new(member));
        self.model.insert((order_of(standing.score), member.to_vec()), standing);
        self.by_name.insert(member.to_vec(), standing);
    }

    fn remove(&mut self, member: &[u8]) {
        if let Some(standing) = self.by_name.remove(member) {
            self.collections.leave_score(self.of.number(), standing, &Blob::new(member));
            self.model.remove(&(order_of(standing.score), member.to_vec()));
        }
    }

    /// What is known by heart is what is stored.
    fn check_known(&self) {
        let number = self.of.number();
        if self.collections.boundaries.knows(number) {
            let forgetful = self.collections.clone();
            for level in 1..=LEVELS_MAX {
                let known: Vec<_> = self.collections.boundaries_behind(number, level, None).collect();
                let stored: Vec<_> = forgetful.boundaries_behind(number, level, None).collect();
                assert_eq!(known, stored, "level {level}");
            }
        }
    }

    fn check(&self) {
        let all: Vec<(Vec<u8>, f64)> =
            self.model.iter().map(|((_, member), standing)| (member.clone(), standing.score)).collect();
        for rank in 0..=all.len() {
            let found: Vec<(Vec<u8>, f64)> = self
                .collections
                .ranked_from(self.of, rank as u64)
                .map(|(member, score)| (member.to_vec(), score))
                .collect();
            assert_eq!(found, all[rank..], "from rank {rank}");
        }
        for (rank, (order, member)) in self.model.keys().enumerate() {
            let found = self.collections.rank_of(self.of, &|at, name| (at, name) < (*order, &member[..]));
            assert_eq!(found, rank as u64, "{order} {member:?}");
        }
        self.check_known();
        // Of boundaries each member has those of its levels, and no other there are.
        let boundaries = self.collections.range(self.of.number() | PART_COUNTS, Bound::Unbounded).count();
        let levels: usize = self.model.values().map(|standing| usize::from(standing.level)).sum();
        assert_eq!(boundaries, levels);
    }
}

#[test]
fn ranks_are_what_counting_says() {
    let mut known = 0;
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut collections = Collections::default();
        let of = collections.new_collection();
        let mut both = Both { collections, of, model: BTreeMap::new(), by_name: BTreeMap::new() };
        for step in 0..300 {
            let member = format!("m{}", rng.below(60));
            if rng.chance(1, 3) {
                both.remove(member.as_bytes());
            } else {
                let any = rng.below(9) as f64;
                let score = *rng.pick(&[0.0, 1.0, -1.0, 2.5, f64::INFINITY, f64::NEG_INFINITY, any]);
                both.set(member.as_bytes(), Standing::draw(score, rng.next_u64()));
            }
            if step % 10 == 0 {
                both.check();
            }
        }
        both.check();
        known += u64::from(both.collections.boundaries.knows(both.of.number()));
        let left: Vec<Vec<u8>> = both.by_name.keys().cloned().collect();
        left.iter().for_each(|member| both.remove(member));
        assert_eq!(both.collections.elements.len(), 0);
    }
    assert!(known > 0, "boundaries came to be known by heart");
}

#[test]
fn scores_are_in_order() {
    let scores = [f64::NEG_INFINITY, f64::MIN, -1.5, -f64::MIN_POSITIVE, 0.0, 5e-324, 1.0, 1e300, f64::INFINITY];
    assert!(scores.windows(2).all(|pair| order_of(pair[0]) < order_of(pair[1])));
    assert!(scores.iter().all(|score| score_of(order_of(*score)) == *score));
    assert_eq!(order_of(-0.0), order_of(0.0));
    for level in [0, 3, 8] {
        let standing = Standing { score: 2.5, level };
        assert_eq!(Standing::read(&standing.value()), Some(standing));
    }
}
