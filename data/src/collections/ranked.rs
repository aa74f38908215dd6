//! Sorted sets: members by name and by score, and counts by which ranks are found.
//!
//! ```text
//!   (n, XXH3(member), member)                     ─► score, level             by name, as the elements of a hash
//!   (scores of n, score, member)                  ─► nothing                  in the order of ranks
//!   (counts of n, level from above, score+member) ─► how many members         boundaries
//! ```
//! A member in 128 is a *boundary* of level 1, one in 128 of those also of level 2, and so on: drawn when it comes, by the chance of the entry, so that nobody
//! can arrange for many or for none. A boundary has, on each of its levels, the number of members behind the boundary before it up to itself. What
//! stands behind the last boundary of a level is counted nowhere: the head knows the whole.
//!
//! - A rank: on the highest level pass over the boundaries that are before the place, adding up; go on behind the last of them one level lower; at
//!   the end pass over members. That is some 128 steps a level, of which a million members have two: not the logarithm of a tree, but one seek
//!   for each level and short walks, which is what a store under it is good at.
//! - A member that comes or goes changes one boundary of each level: the first behind it, found by one seek each. A short set has no boundaries.

use std::ops::{Bound, ControlFlow};

use super::{Collections, PART_COUNTS, PART_SCORES};
use crate::blob::Blob;
use crate::image::Malformed;
use crate::kept::ElementKey;
use crate::value::Collection;

/// Levels that there can be at most: a member in 128^8 has more.
pub(super) const LEVELS_MAX: u64 = 8;
/// One in two to the power of this is a boundary.
const LEVEL_BITS: u32 = if cfg!(test) { 2 } else { 7 };

/// Where a member stands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Standing {
    pub score: f64,
    /// On how many levels it is a boundary.
    pub level: u8,
}

/// A number by which scores are in order. Minus zero is zero.
pub(crate) fn order_of(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The score of such a number.
pub(crate) fn score_of(order: u64) -> f64 {
    f64::from_bits(if order >> 63 == 1 { order & !(1 << 63) } else { !order })
}

impl Standing {
    /// Of chance a level.
    pub(crate) fn draw(score: f64, chance: u64) -> Standing {
        let level = (chance.trailing_zeros() / LEVEL_BITS).min(LEVELS_MAX as u32) as u8;
        Standing { score, level }
    }

    pub(crate) fn value(self) -> Blob {
        let mut bytes = order_of(self.score).to_be_bytes().to_vec();
        if self.level > 0 {
            bytes.push(self.level);
        }
        Blob::new(&bytes)
    }

    pub(crate) fn read(value: &[u8]) -> Option<Standing> {
        let (order, rest) = value.split_first_chunk::<8>()?;
        let level = rest.first().copied().unwrap_or(0).min(LEVELS_MAX as u8);
        Some(Standing { score: score_of(u64::from_be_bytes(*order)), level })
    }
}

/// What a boundary is called: score and member.
pub(super) fn boundary_name(order: u64, member: &[u8]) -> Vec<u8> {
    [&order.to_be_bytes()[..], member].concat()
}

/// The key of a boundary; higher levels come first.
pub(super) fn boundary_key(number: u64, level: u64, name: Blob) -> ElementKey {
    ElementKey { collection: number | PART_COUNTS, order: LEVELS_MAX - level, name }
}

/// Order and member of a boundary.
fn read_name(name: &[u8]) -> Option<(u64, &[u8])> {
    let (order, member) = name.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*order), member))
}

/// What a boundary counts, as its element has it.
pub(super) fn read_count(value: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(value.try_into().ok()?))
}

pub(super) fn count_value(count: u64) -> Blob {
    Blob::new(&count.to_be_bytes())
}

/// Refuses what is no boundary.
pub(super) fn check_boundary(key: &ElementKey, value: &[u8]) -> Result<(), Malformed> {
    let fits = key.order < LEVELS_MAX && read_name(&key.name).is_some() && read_count(value).is_some();
    if fits { Ok(()) } else { Err(Malformed("a boundary of a sorted set is none")) }
}

/// Whether a boundary is passed, by its order and member.
fn named(is_before: &dyn Fn(u64, &[u8]) -> bool) -> impl Fn(&[u8], u64) -> bool {
    move |name, _| read_name(name).is_some_and(|(order, member)| is_before(order, member))
}

/// How far a way down the levels has come.
struct Descent {
    /// Members up to the last boundary that was passed, on each level.
    passed: [u64; LEVELS_MAX as usize + 1],
    /// That boundary: order and member.
    last: Option<(u64, Blob)>,
}

impl Descent {
    fn rank(&self) -> u64 {
        self.passed[0]
    }
}

impl Collections {
    /// Where a member stands, if it is one.
    pub(crate) fn standing(&self, of: Collection, order: u64, member: &[u8]) -> Option<Standing> {
        self.element(of, order, member).as_deref().and_then(Standing::read)
    }

    /// Puts a member, which is not there, among the scores.
    pub(crate) fn enter_score(&mut self, number: u64, standing: Standing, member: &Blob) {
        let order = order_of(standing.score);
        self.fronts.lower(number, order, member);
        self.learn_boundaries(number);
        let name = boundary_name(order, member);
        let level = u64::from(standing.level);
        let is_before = |at: u64, other: &[u8]| (at, other) < (order, &**member);
        let before = (level > 0).then(|| self.descend(number, &named(&is_before)));
        let rank = before.as_ref().map_or(0, |before| self.count_from(number, before, &is_before));
        for at in 1..=LEVELS_MAX {
            match &before {
                Some(before) if at <= level => {
                    let next = self.boundary_at(number, at, &name);
                    let mine = rank.saturating_add(1).saturating_sub(before.passed[at as usize]);
                    self.put_boundary(number, at, Blob::new(&name), mine, true);
                    if let Some((next, count)) = next {
                        self.put_boundary(number, at, next, count.saturating_add(1).saturating_sub(mine), false);
                    }
                }
                _ => {
                    if !self.shift_boundary(number, at, &name, |count| count.saturating_add(1)) {
                        break;
                    }
                }
            }
        }
        self.insert_new(ElementKey { collection: number | PART_SCORES, order, name: member.clone() }, Blob::EMPTY);
    }

    /// Takes a member, which is there, out from among the scores.
    pub(crate) fn leave_score(&mut self, number: u64, standing: Standing, member: &Blob) {
        let order = order_of(standing.score);
        self.learn_boundaries(number);
        self.elements.erase(ElementKey { collection: number | PART_SCORES, order, name: member.clone() });
        let name = boundary_name(order, member);
        for at in 1..=LEVELS_MAX {
            let is_mine = at <= u64::from(standing.level);
            let mine = is_mine.then(|| self.take_boundary(number, at, &name)).flatten();
            let both = |count: u64| count.saturating_add(mine.unwrap_or(0)).saturating_sub(1);
            if !self.shift_boundary(number, at, &name, both) && at >= u64::from(standing.level) {
                break;
            }
        }
        self.advance_front(number);
    }

    /// Down the levels, past all boundaries for which `passes` says so: given the name, and how many members there are up to it.
    fn descend(&self, number: u64, passes: &dyn Fn(&[u8], u64) -> bool) -> Descent {
        let mut passed = [0; LEVELS_MAX as usize + 1];
        let mut last: Option<Blob> = None;
        let mut rank: u64 = 0;
        for level in (1..=self.highest_level(number)).rev() {
            let mut is_passed = |name: &[u8], count: u64| {
                self.meter.look_at_name(name);
                let up_to = rank.saturating_add(count);
                let is_passed = passes(name, up_to);
                if is_passed {
                    rank = up_to;
                }
                is_passed
            };
            // What is known by heart is not copied on the way: a walk has some hundred steps.
            let furthest = match self.known_behind(number, level, last.as_ref()) {
                Some(known) => {
                    known.take_while(|(name, count)| is_passed(name, **count)).last().map(|(name, _)| name.clone())
                }
                None => {
                    let stored = self.boundaries_behind(number, level, last.as_ref());
                    stored.take_while(|(name, count)| is_passed(name, *count)).last().map(|(name, _)| name)
                }
            };
            last = furthest.or(last);
            passed[level as usize] = rank;
        }
        passed[0] = rank;
        let last = last.as_deref().and_then(read_name).map(|(order, member)| (order, Blob::new(member)));
        Descent { passed, last }
    }

    /// The members behind where a descent ended.
    fn behind<'c>(&'c self, number: u64, descent: &Descent) -> impl Iterator<Item = (ElementKey, Blob)> + use<'c> {
        self.scores_from(number, descent.last.as_ref())
    }

    fn count_from(&self, number: u64, descent: &Descent, is_before: &dyn Fn(u64, &[u8]) -> bool) -> u64 {
        let mut behind: u64 = 0;
        self.visit_scores_from(number, descent.last.as_ref(), 0, |key| {
            if !self.meter.look_at_name(&key.name) || !is_before(key.order, &key.name) {
                return ControlFlow::Break(());
            }
            behind += 1;
            ControlFlow::Continue(())
        });
        descent.rank().saturating_add(behind)
    }

    /// How many members stand before a place: those for which `is_before` says so, which are the first of all. It is given the order of the score
    /// and the member.
    pub(crate) fn rank_of(&self, of: Collection, is_before: &dyn Fn(u64, &[u8]) -> bool) -> u64 {
        let descent = self.descend(of.number(), &named(is_before));
        self.count_from(of.number(), &descent, is_before)
    }

    /// The members with scores from `least` up to `before`, which is not among them, in order.
    pub(crate) fn scored<'c>(
        &'c self,
        of: Collection,
        least: f64,
        before: f64,
    ) -> impl Iterator<Item = (Blob, f64)> + use<'c> {
        let number = of.number() | PART_SCORES;
        let end = ElementKey { collection: number, order: order_of(before), name: Blob::EMPTY };
        let found = self.range_before(number, Bound::Included((order_of(least), b"")), &end);
        let found = found.take_while(|(key, _)| self.meter.visit(key.name.len()));
        found.map(|(key, _)| (key.name, score_of(key.order)))
    }

    /// The members from a rank on, in order, with their scores.
    pub(crate) fn ranked_from<'c>(&'c self, of: Collection, rank: u64) -> impl Iterator<Item = (Blob, f64)> + use<'c> {
        let descent = self.descend(of.number(), &|_, up_to| up_to <= rank);
        let further = usize::try_from(rank.saturating_sub(descent.rank())).unwrap_or(usize::MAX);
        let found = self.behind(of.number(), &descent).skip(further);
        found.take_while(|(key, _)| self.meter.visit(key.name.len())).map(|(key, _)| (key.name, score_of(key.order)))
    }

    /// Shows the members from a rank on, in order, with their scores, until `visit` breaks off.
    pub(crate) fn visit_ranked(&self, of: Collection, rank: u64, mut visit: impl FnMut(&Blob, f64) -> ControlFlow<()>) {
        let descent = self.descend(of.number(), &|_, up_to| up_to <= rank);
        let further = usize::try_from(rank.saturating_sub(descent.rank())).unwrap_or(usize::MAX);
        self.visit_scores_from(of.number(), descent.last.as_ref(), further, |key| {
            if !self.meter.visit(key.name.len()) {
                return ControlFlow::Break(());
            }
            visit(&key.name, score_of(key.order))
        });
    }
}

#[cfg(test)]
mod tests;
