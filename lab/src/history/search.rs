//! The search for an order of operations that explains every answer.
//!
//! It is that of Wing and Gong, "Testing and Verifying Concurrent Objects" (J. Parallel Distrib. Comput. 17, 1993), with Lowe's
//! memory of the configurations that led nowhere ("Testing for linearizability", Concurrency Computat. Pract. Exper. 29, 2017):
//! depth first, taking at each point an operation that was asked before every remaining one was answered. What keeps it small:
//!
//! 1. An operation whose answer fits, and with which it cannot change anything, is taken at once: no order needs it later.
//! 2. Operations of unknown outcome are tried only after all others, and first those that make a waiting answer fit.
//! 3. One of unknown outcome is only taken directly before one that needs it: not if without it, or with it directly
//!    afterwards, the same would be reached; and of two that may change places, the one asked first is taken first.
//! 4. Of those of unknown outcome that do the same, the one that was asked first is used first.
//! 5. A configuration is the set of operations done, the state, and the operation before if it was of unknown outcome, with
//!    the state before that. One seen before leads nowhere. It is remembered by 128 bits of hash (Zobrist 1970: each part has
//!    a number of its own, and all are combined by exclusive or), so two are confused with a probability below n²/2^129.
//!
//! Why 3 and 4 lose nothing: of all orders that explain the answers take one with the fewest operations of unknown outcome, of
//! these one where they come as late as they can, of these the one where they come in the order of their numbers as far as
//! possible. A step of it that a rule forbids could be changed into one that comes before it in this ranking.

#![allow(clippy::disallowed_types, reason = "this table is looked things up in and never walked through")]

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use super::model::{Prepared, ValueId, Values, revert};

/// What became of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There is an order.
    Order,
    /// There is none.
    NoOrder,
    /// Not decided within the configurations allowed.
    GivenUp,
}

/// Operations of unknown outcome have this bit in their number.
const UNKNOWN: u32 = 1 << 31;

/// No operation.
const NONE: u32 = u32::MAX;

/// The operations of one group of keys, and how far an order of them has got.
pub(super) struct Search {
    certain: Line,
    unknown: Line,
    /// For each operation of unknown outcome: the first one that does the same.
    alike: Vec<u32>,
    values: Values,
    state: Vec<ValueId>,
    /// What the steps of the path changed: slot, and value before.
    log: Vec<(u32, ValueId)>,
    /// The ways still to be tried, of all frames.
    ways: Vec<u32>,
    frames: Vec<Frame>,
    hash: u128,
    seen: HashSet<u128, BuildHasherDefault<Already>>,
}

/// Operations in the order in which they were asked, and which of them are not yet done.
struct Line {
    operations: Vec<Prepared>,
    /// The next and the previous one that is not done; the last place is both ends.
    next: Vec<u32>,
    previous: Vec<u32>,
    left: usize,
}

/// A point of the path.
struct Frame {
    /// The operation that led here.
    by: u32,
    /// Where its changes begin in the log.
    mark: usize,
    /// Where the ways of this point begin.
    ways: usize,
    /// Whether operations of unknown outcome were looked at.
    complete: bool,
    /// The hash before it.
    hash: u128,
}

impl Line {
    fn new(mut operations: Vec<Prepared>) -> Line {
        operations.sort_by_key(|operation| (operation.from, operation.until));
        let count = operations.len() as u32;
        Line {
            next: (1..=count).chain([0]).collect(),
            previous: [count].into_iter().chain(0..count).collect(),
            left: operations.len(),
            operations,
        }
    }

    fn end(&self) -> u32 {
        self.operations.len() as u32
    }

    fn first(&self) -> u32 {
        self.next[self.operations.len()]
    }

    fn take(&mut self, number: u32) {
        let (next, previous) = (self.next[number as usize], self.previous[number as usize]);
        self.next[previous as usize] = next;
        self.previous[next as usize] = previous;
        self.left -= 1;
    }

    /// Undoes [`take`](Line::take); the last one taken is put back first.
    fn put_back(&mut self, number: u32) {
        let (next, previous) = (self.next[number as usize], self.previous[number as usize]);
        self.next[previous as usize] = number;
        self.previous[next as usize] = number;
        self.left += 1;
    }
}

impl Search {
    /// A search among `certain` and `unknown` operations from `state`.
    pub(super) fn new(certain: Vec<Prepared>, unknown: Vec<Prepared>, values: Values, state: Vec<ValueId>) -> Search {
        let useful = unknown.into_iter().filter(|operation| !operation.only_looks()).collect();
        let (certain, unknown) = (Line::new(certain), Line::new(useful));
        let mut kinds = BTreeMap::new();
        let mut alike = Vec::with_capacity(unknown.operations.len());
        for (number, operation) in unknown.operations.iter().enumerate() {
            let kind = operation.moves.iter().map(|step| mix(0, step)).collect::<Vec<u128>>();
            alike.push(*kinds.entry(kind).or_insert(number as u32));
        }
        Search {
            certain,
            unknown,
            alike,
            values,
            state,
            log: Vec::new(),
            ways: Vec::new(),
            frames: Vec::new(),
            hash: 0,
            seen: HashSet::default(),
        }
    }

    /// Configurations visited.
    pub(super) fn configurations(&self) -> usize {
        self.seen.len()
    }

    /// Looks for an order, visiting at most so many configurations.
    pub(super) fn run(&mut self, configurations_max: usize) -> Found {
        if self.enter(NONE, 0, 0) {
            return Found::Order;
        }
        while let Some(frame) = self.frames.last() {
            if self.seen.len() > configurations_max {
                return Found::GivenUp;
            }
            if self.ways.len() > frame.ways {
                let way = self.ways.pop().unwrap_or(NONE);
                let (mark, hash) = (self.log.len(), self.hash);
                if self.advance(way) && self.enter(way, mark, hash) {
                    return Found::Order;
                }
            } else if !frame.complete {
                self.offer_unknown();
            } else {
                self.retreat();
            }
        }
        Found::NoOrder
    }

    /// Does `way`; false if a rule or an answer forbids it.
    fn advance(&mut self, way: u32) -> bool {
        if self.is_needless(way) {
            return false;
        }
        let mark = self.log.len();
        let line = if way & UNKNOWN == 0 { &mut self.certain } else { &mut self.unknown };
        let operation = &line.operations[(way & !UNKNOWN) as usize];
        if !operation.apply(&mut self.state, &mut self.values, &mut self.log) {
            return false;
        }
        // One of unknown outcome that changes nothing is not needed.
        if way & UNKNOWN != 0 && self.log.len() == mark {
            return false;
        }
        line.take(way & !UNKNOWN);
        self.hash ^= mix(1, way);
        self.hash ^= changes(&self.state, &self.log[mark..]);
        true
    }

    /// Opens the point that `by` led to, unless it was seen before; true if everything is done.
    fn enter(&mut self, by: u32, mark: usize, hash: u128) -> bool {
        if self.certain.left == 0 {
            return true;
        }
        let mut configuration = self.hash;
        if by != NONE && by & UNKNOWN != 0 {
            configuration ^= mix(2, by);
            configuration ^= self.log[mark..].iter().fold(0, |sum, before| sum ^ mix(3, before));
        }
        let is_new = self.seen.insert(configuration);
        self.frames.push(Frame { by, mark, ways: self.ways.len(), complete: !is_new, hash });
        if is_new {
            self.offer_certain();
        }
        false
    }

    /// Goes back from the last point.
    fn retreat(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        self.ways.truncate(frame.ways);
        if frame.by == NONE {
            return;
        }
        revert(&mut self.state, &mut self.log, frame.mark);
        self.hash = frame.hash;
        let line = if frame.by & UNKNOWN == 0 { &mut self.certain } else { &mut self.unknown };
        line.put_back(frame.by & !UNKNOWN);
    }

    /// The latest moment at which the next operation can have been asked: the first answer still to come.
    fn horizon(&self) -> u64 {
        let mut horizon = u64::MAX;
        let mut number = self.certain.first();
        while number != self.certain.end() {
            let operation = &self.certain.operations[number as usize];
            if operation.from > horizon {
                break;
            }
            horizon = horizon.min(operation.until);
            number = self.certain.next[number as usize];
        }
        horizon
    }

    /// Offers the operations that were surely done and may come next.
    fn offer_certain(&mut self) {
        let horizon = self.horizon();
        let first = self.ways.len();
        let mut number = self.certain.first();
        while number != self.certain.end() {
            let operation = &self.certain.operations[number as usize];
            if operation.from > horizon {
                break;
            }
            let mark = self.log.len();
            if operation.apply(&mut self.state, &mut self.values, &mut self.log) {
                revert(&mut self.state, &mut self.log, mark);
                if operation.only_looks() {
                    // Rule 1: it goes before everything else, and rule 3 must not stop it.
                    self.ways.truncate(first);
                    self.ways.push(number);
                    if let Some(frame) = self.frames.last_mut() {
                        frame.complete = true;
                    }
                    return;
                }
                self.ways.push(number);
            }
            number = self.certain.next[number as usize];
        }
        // The one that was answered first is tried first: it stands last.
        let operations = &self.certain.operations;
        self.ways[first..].sort_by_key(|&way| std::cmp::Reverse((operations[way as usize].until, way)));
    }

    /// Offers those of unknown outcome.
    fn offer_unknown(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.complete = true;
        }
        let horizon = self.horizon();
        let mut waiting = Vec::new();
        let mut number = self.certain.first();
        while number != self.certain.end() && self.certain.operations[number as usize].from <= horizon {
            waiting.push(number);
            number = self.certain.next[number as usize];
        }
        let (mut kinds, mut helpful, mut others) = (HashSet::new(), Vec::new(), Vec::new());
        let mut number = self.unknown.first();
        while number != self.unknown.end() && self.unknown.operations[number as usize].from <= horizon {
            if kinds.insert(self.alike[number as usize]) {
                let mark = self.log.len();
                let operation = &self.unknown.operations[number as usize];
                operation.apply(&mut self.state, &mut self.values, &mut self.log);
                let helps = self.log.len() > mark
                    && waiting.iter().any(|&waits| {
                        let mark = self.log.len();
                        let operation = &self.certain.operations[waits as usize];
                        let fits = operation.apply(&mut self.state, &mut self.values, &mut self.log);
                        revert(&mut self.state, &mut self.log, mark);
                        fits
                    });
                revert(&mut self.state, &mut self.log, mark);
                if helps { helpful.push(number | UNKNOWN) } else { others.push(number | UNKNOWN) }
            }
            number = self.unknown.next[number as usize];
        }
        self.ways.extend(others.into_iter().rev());
        self.ways.extend(helpful.into_iter().rev());
    }

    /// Rule 3: whether the last operation was of unknown outcome and `way` does not need it where it stands.
    fn is_needless(&mut self, way: u32) -> bool {
        let Some(frame) = self.frames.last() else { return false };
        let (before, mark) = (frame.by, frame.mark);
        if before == NONE || before & UNKNOWN == 0 {
            return false;
        }
        let first = &self.unknown.operations[(before & !UNKNOWN) as usize];
        let line = if way & UNKNOWN == 0 { &self.certain } else { &self.unknown };
        let second = &line.operations[(way & !UNKNOWN) as usize];
        let slots: Vec<u32> = first.moves.iter().chain(&second.moves).map(|step| step.slot).collect();
        let (state, values) = (&mut self.state, &mut self.values);
        let look = |state: &[ValueId]| slots.iter().map(|&slot| state[slot as usize]).collect::<Vec<_>>();
        let mut log = Vec::new();
        if !second.apply(state, values, &mut log) {
            return false;
        }
        let both = look(state);
        revert(state, &mut log, 0);
        if second.only_looks() {
            // Rule 1 took it.
            return false;
        }
        // Back to before the first one; what it changed is put on again below.
        let changed: Vec<(u32, ValueId)> = self.log[mark..].to_vec();
        let after: Vec<(u32, ValueId)> = changed.iter().map(|&(slot, _)| (slot, state[slot as usize])).collect();
        changed.iter().rev().for_each(|&(slot, value)| state[slot as usize] = value);
        let mut needless = false;
        if second.apply(state, values, &mut log) {
            needless = look(state) == both;
            if !needless && (way & UNKNOWN == 0 || way < before) && first.apply(state, values, &mut log) {
                needless = look(state) == both;
            }
            revert(state, &mut log, 0);
        }
        after.iter().for_each(|&(slot, value)| state[slot as usize] = value);
        needless
    }
}

/// What a step's changes do to the hash of the state: a slot's old value goes, its new one comes. The same slot may be
/// changed twice.
fn changes(state: &[ValueId], log: &[(u32, ValueId)]) -> u128 {
    let mut sum = 0;
    for (place, &(slot, before)) in log.iter().enumerate() {
        let later = log[place + 1..].iter().find(|(other, _)| *other == slot);
        let after = later.map_or(state[slot as usize], |&(_, value)| value);
        sum ^= mix(4, (slot, before)) ^ mix(4, (slot, after));
    }
    sum
}

/// The number of a part of a configuration: 128 bits that look like chance.
fn mix(kind: u64, part: impl std::hash::Hash) -> u128 {
    let mut hasher = Mixing { low: kind ^ 0x9e37_79b9_7f4a_7c15, high: kind.wrapping_mul(0xd6e8_feb8_6659_fd93) };
    part.hash(&mut hasher);
    u128::from(spread(hasher.high)) << 64 | u128::from(spread(hasher.low))
}

/// The last steps of SplitMix64.
fn spread(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

struct Mixing {
    low: u64,
    high: u64,
}

impl Hasher for Mixing {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.low = spread(self.low.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ word);
        self.high = spread(self.high.wrapping_add(0xa076_1d64_78bd_642f) ^ word.rotate_left(32));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn finish(&self) -> u64 {
        self.low
    }
}

/// Takes the hash that the keys already are.
#[derive(Default)]
struct Already(u64);

impl Hasher for Already {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, word: u128) {
        self.0 = word as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
