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
//! 6. Among many keys that transactions join, only those operations are tried that are connected, by keys they share, with the
//!    one that must be answered first. (A persistent set, Godefroid 1996: the others that could come before it commute with all
//!    of these, and are answered later, so they may as well come after it.)
//! 7. A point that failed tells on which keys that hung: those of the operations that were tried. Points before it that chose
//!    among operations on other keys need not choose again (conflict-directed backjumping, Prosser 1993), since whatever they
//!    choose, the same operations on the same keys meet the same values.
//!
//! Why 3 and 4 lose nothing: of all orders that explain the answers take one with the fewest operations of unknown outcome, of
//! these one where they come as late as they can, of these the one where they come in the order of their numbers as far as
//! possible. A step of it that a rule forbids could be changed into one that comes before it in this ranking. Two of them on
//! keys of their own count as one place, so 6 does not touch the ranking; and where 3 forbade something, the keys of the
//! operation before are among those that 7 remembers, so that the point where that one was chosen chooses again.

#![allow(clippy::disallowed_types, reason = "this table is looked things up in and never walked through")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasherDefault;

mod hash;
mod keys;
mod line;

use super::model::{Prepared, ValueId, Values, revert};
use hash::{Already, changes, mix};
use keys::Keys;
use line::Line;

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
    /// Configurations that were met, and the keys on which it hung that they led nowhere.
    seen: HashMap<u128, Keys, BuildHasherDefault<Already>>,
    /// For each slot: the operations of unknown outcome on it, if there is more than one slot.
    unknown_on: Vec<Vec<u32>>,
    /// For each slot: the round in which it was last connected.
    connected: Vec<u64>,
    round: u64,
}

/// What became of a step to another point.
enum Entered {
    /// Everything is done.
    Order,
    /// The point is open.
    Open,
    /// It was met before, and hung on these keys.
    Before(Keys),
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
    /// The point as it is remembered.
    configuration: u128,
    /// Keys of the operations among which it chooses.
    keys: Keys,
    /// Keys on which it hung that its ways led nowhere.
    conflict: Keys,
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
        let mut unknown_on = vec![Vec::new(); if state.len() > 1 { state.len() } else { 0 }];
        for (number, operation) in unknown.operations.iter().enumerate().filter(|_| state.len() > 1) {
            operation.moves.iter().for_each(|step| unknown_on[step.slot as usize].push(number as u32));
        }
        Search {
            certain,
            unknown,
            alike,
            values,
            unknown_on,
            connected: vec![0; state.len()],
            round: 0,
            state,
            log: Vec::new(),
            ways: Vec::new(),
            frames: Vec::new(),
            hash: 0,
            seen: HashMap::default(),
        }
    }

    /// Configurations visited.
    pub(super) fn configurations(&self) -> usize {
        self.seen.len()
    }

    /// Looks for an order, visiting at most so many configurations.
    pub(super) fn run(&mut self, configurations_max: usize) -> Found {
        if matches!(self.enter(NONE, 0, 0), Entered::Order) {
            return Found::Order;
        }
        while let Some(frame) = self.frames.last() {
            if self.seen.len() > configurations_max {
                return Found::GivenUp;
            }
            if self.ways.len() > frame.ways {
                let way = self.ways.pop().unwrap_or(NONE);
                let (mark, hash) = (self.log.len(), self.hash);
                if self.advance(way) {
                    match self.enter(way, mark, hash) {
                        Entered::Order => return Found::Order,
                        Entered::Open => {}
                        Entered::Before(keys) => {
                            self.undo(way, mark, hash);
                            self.fail(keys);
                        }
                    }
                }
            } else if !frame.complete {
                self.offer_unknown();
            } else {
                let mut keys = frame.conflict.clone();
                keys.add(&frame.keys);
                self.retreat(keys.clone());
                self.fail(keys);
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

    /// Undoes [`advance`](Search::advance).
    fn undo(&mut self, way: u32, mark: usize, hash: u128) {
        revert(&mut self.state, &mut self.log, mark);
        self.hash = hash;
        let line = if way & UNKNOWN == 0 { &mut self.certain } else { &mut self.unknown };
        line.put_back(way & !UNKNOWN);
    }

    /// Opens the point that `by` led to, unless it was met before.
    fn enter(&mut self, by: u32, mark: usize, hash: u128) -> Entered {
        if self.certain.left == 0 {
            return Entered::Order;
        }
        let mut configuration = self.hash;
        if by != NONE && by & UNKNOWN != 0 {
            configuration ^= mix(2, by);
            configuration ^= self.log[mark..].iter().fold(0, |sum, before| sum ^ mix(3, before));
        }
        if let Some(keys) = self.seen.get(&configuration) {
            return Entered::Before(keys.clone());
        }
        self.seen.insert(configuration, Keys::default());
        let ways = self.ways.len();
        self.frames.push(Frame {
            by,
            mark,
            ways,
            complete: false,
            hash,
            configuration,
            keys: Keys::default(),
            conflict: Keys::default(),
        });
        self.offer_certain();
        Entered::Open
    }

    /// Closes the last point, which led nowhere because of these keys.
    fn retreat(&mut self, keys: Keys) {
        let Some(frame) = self.frames.pop() else { return };
        self.ways.truncate(frame.ways);
        self.seen.insert(frame.configuration, keys);
        if frame.by != NONE {
            self.undo(frame.by, frame.mark, frame.hash);
        }
    }

    /// A way of the last point led nowhere because of these keys. Points that choose among other keys are closed too.
    fn fail(&mut self, keys: Keys) {
        while let Some(frame) = self.frames.last_mut() {
            if frame.keys.meets(&keys) {
                frame.conflict.add(&keys);
                return;
            }
            self.retreat(keys.clone());
        }
    }

    /// The operations that were surely done and may come next, and the place among them of the one answered first: none can
    /// have been asked after that.
    fn pool(&self) -> (Vec<u32>, usize) {
        let (mut pool, mut first, mut horizon) = (Vec::new(), 0, u64::MAX);
        let mut number = self.certain.first();
        while number != self.certain.end() {
            let operation = &self.certain.operations[number as usize];
            if operation.from > horizon {
                break;
            }
            if operation.until < horizon {
                (first, horizon) = (pool.len(), operation.until);
            }
            pool.push(number);
            number = self.certain.next[number as usize];
        }
        // The horizon fell on the way: those asked after it may not come next.
        pool.retain(|&number| self.certain.operations[number as usize].from <= horizon);
        (pool, first)
    }

    /// Rule 6: leaves in `pool` what is connected with the operation at `first`, and gives the operations of unknown outcome that
    /// are, and all their keys.
    fn connect(&mut self, pool: &mut Vec<u32>, first: usize) -> (Vec<u32>, Keys) {
        let horizon = pool.get(first).map_or(u64::MAX, |&number| self.certain.operations[number as usize].until);
        let mut unknown = Vec::new();
        if self.state.len() == 1 {
            let mut number = self.unknown.first();
            while number != self.unknown.end() && self.unknown.operations[number as usize].from <= horizon {
                unknown.push(number);
                number = self.unknown.next[number as usize];
            }
            return (unknown, Keys::new(vec![0]));
        }
        self.round += 1;
        let round = self.round;
        let (mut slots, mut keys, mut joined) = (Vec::new(), Vec::new(), HashSet::new());
        let mut join = |operation: &Prepared, connected: &mut [u64], slots: &mut Vec<u32>| {
            for step in operation.moves.iter() {
                if connected[step.slot as usize] != round {
                    connected[step.slot as usize] = round;
                    keys.push(step.slot);
                    slots.push(step.slot);
                }
            }
        };
        let mut waiting = std::mem::take(pool);
        if first < waiting.len() {
            let number = waiting.swap_remove(first);
            join(&self.certain.operations[number as usize], &mut self.connected, &mut slots);
            pool.push(number);
        }
        while let Some(slot) = slots.pop() {
            for &number in &self.unknown_on[slot as usize] {
                let operation = &self.unknown.operations[number as usize];
                if operation.from > horizon {
                    break;
                }
                if !self.unknown.done[number as usize] && joined.insert(number) {
                    unknown.push(number);
                    join(operation, &mut self.connected, &mut slots);
                }
            }
            waiting.retain(|&number| {
                let operation = &self.certain.operations[number as usize];
                let is_connected = operation.moves.iter().any(|step| self.connected[step.slot as usize] == round);
                if is_connected {
                    join(operation, &mut self.connected, &mut slots);
                    pool.push(number);
                }
                !is_connected
            });
        }
        unknown.sort_unstable();
        (unknown, Keys::new(keys))
    }

    /// Whether the operation's answers fit to the state as it is.
    fn fits(&mut self, number: u32) -> bool {
        let mark = self.log.len();
        let operation = &self.certain.operations[number as usize];
        let fits = operation.apply(&mut self.state, &mut self.values, &mut self.log);
        revert(&mut self.state, &mut self.log, mark);
        fits
    }

    /// Offers the operations that were surely done and may come next.
    fn offer_certain(&mut self) {
        let (mut pool, first) = self.pool();
        let looks = |&&number: &&u32| self.certain.operations[number as usize].only_looks();
        let lookers: Vec<u32> = pool.iter().filter(looks).copied().collect();
        // Rule 1: it goes before everything else, and rule 3 must not stop it.
        if let Some(looker) = lookers.into_iter().find(|&number| self.fits(number)) {
            let keys = Keys::of(&self.certain.operations[looker as usize]);
            self.ways.push(looker);
            if let Some(frame) = self.frames.last_mut() {
                (frame.complete, frame.keys) = (true, keys);
            }
            return;
        }
        let (_, keys) = self.connect(&mut pool, first);
        if let Some(frame) = self.frames.last_mut() {
            frame.keys = keys;
        }
        pool.retain(|&number| self.fits(number));
        // The one that was answered first is tried first: it stands last.
        pool.sort_by_key(|&way| std::cmp::Reverse((self.certain.operations[way as usize].until, way)));
        self.ways.extend(pool);
    }

    /// Offers those of unknown outcome.
    fn offer_unknown(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.complete = true;
        }
        let (mut waiting, first) = self.pool();
        let (unknown, _) = self.connect(&mut waiting, first);
        let (mut kinds, mut helpful, mut others) = (HashSet::new(), Vec::new(), Vec::new());
        for number in unknown {
            if kinds.insert(self.alike[number as usize]) {
                let mark = self.log.len();
                let operation = &self.unknown.operations[number as usize];
                operation.apply(&mut self.state, &mut self.values, &mut self.log);
                let helps = self.log.len() > mark && waiting.iter().any(|&waits| self.fits(waits));
                revert(&mut self.state, &mut self.log, mark);
                if helps { helpful.push(number | UNKNOWN) } else { others.push(number | UNKNOWN) }
            }
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
        let keys = Keys::of(first);
        if let Some(frame) = self.frames.last_mut().filter(|_| needless) {
            frame.conflict.add(&keys);
        }
        needless
    }
}
