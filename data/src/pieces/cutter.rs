//! Changes of long keys on top of what a store has.

use super::{Branch, Next, Spaces, damaged, first_branch, next};
use base::ordered::{OrderedBatch, OrderedError, OrderedRead, Space};
use std::collections::BTreeMap;

/// Writes changes of long keys into one batch. Reads the store, which must have all earlier batches; the same changes may be written again when nobody knows
/// whether the store has taken them.
pub(crate) struct Cutter<'r> {
    read: &'r dyn OrderedRead,
    spaces: Spaces,
    /// Branches that were looked for, as they will be; `None` where there is none.
    branches: BTreeMap<(Space, Vec<u8>), Option<Branch>>,
    /// The next number, once one was needed.
    next_number: Option<u64>,
}

/// Where a branch stands.
type Place = (Space, Vec<u8>);

impl<'r> Cutter<'r> {
    pub(crate) fn new(read: &'r dyn OrderedRead, spaces: Spaces) -> Cutter<'r> {
        Cutter { read, spaces, branches: BTreeMap::new(), next_number: None }
    }

    /// Puts a value under a key that is longer than a piece.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        value: impl FnOnce(&mut Vec<u8>),
        batch: &mut OrderedBatch,
    ) -> Result<(), OrderedError> {
        let (at, mut rest) = first_branch(key);
        let mut place: Place = (self.spaces.keys, at);
        let mut parent: Option<Place> = None;
        loop {
            let known = self.branch(&place)?;
            let branch = match known {
                Some(branch) => branch,
                None => {
                    let fresh = Branch { number: self.new_number()?, entries: 0 };
                    self.branches.insert(place.clone(), Some(fresh));
                    if let Some(parent) = &parent {
                        self.count(parent, 1)?;
                    }
                    fresh
                }
            };
            match next(branch, rest) {
                Next::Value { key } => {
                    // Of a number that is new there is nothing, whatever the store says of an earlier attempt.
                    let is_there = known.is_some() && self.read.get(self.spaces.pieces, &key)?.is_some();
                    if !is_there {
                        self.count(&place, 1)?;
                    }
                    batch.changes.write(self.spaces.pieces, |bytes| bytes.extend_from_slice(&key), Some(value));
                    return Ok(());
                }
                Next::Branch { key, rest: further } => {
                    rest = further;
                    parent = Some(std::mem::replace(&mut place, (self.spaces.pieces, key)));
                }
            }
        }
    }

    /// Takes a key that is longer than a piece out, if it is there.
    pub(crate) fn remove(&mut self, key: &[u8], batch: &mut OrderedBatch) -> Result<(), OrderedError> {
        let (at, mut rest) = first_branch(key);
        let mut way: Vec<Place> = vec![(self.spaces.keys, at)];
        while let Some(place) = way.last() {
            let Some(branch) = self.branch(place)? else { return Ok(()) };
            match next(branch, rest) {
                Next::Value { key } => {
                    if self.read.get(self.spaces.pieces, &key)?.is_none() {
                        return Ok(());
                    }
                    batch.changes.push((self.spaces.pieces, key, None::<[u8; 0]>));
                    break;
                }
                Next::Branch { key, rest: further } => {
                    rest = further;
                    way.push((self.spaces.pieces, key));
                }
            }
        }
        while let Some(place) = way.pop() {
            if self.count(&place, -1)? > 0 {
                break;
            }
            self.branches.insert(place, None);
        }
        Ok(())
    }

    /// After the last change: what has become of the branches.
    pub(crate) fn finish(self, batch: &mut OrderedBatch) {
        for ((space, key), branch) in self.branches {
            batch.changes.push((space, key, branch.map(Branch::bytes)));
        }
        if let Some(number) = self.next_number {
            batch.changes.push(next_number(self.spaces, number));
        }
    }

    fn branch(&mut self, place: &Place) -> Result<Option<Branch>, OrderedError> {
        if let Some(known) = self.branches.get(place) {
            return Ok(*known);
        }
        let stored = self.read.get(place.0, &place.1)?.map(|bytes| Branch::read(&bytes)).transpose()?;
        self.branches.insert(place.clone(), stored);
        Ok(stored)
    }

    /// One entry more or less under a branch that is there; how many there are then.
    fn count(&mut self, place: &Place, more: i64) -> Result<u64, OrderedError> {
        let branch = self.branches.get_mut(place).and_then(Option::as_mut).ok_or_else(damaged)?;
        branch.entries = branch.entries.checked_add_signed(more).ok_or_else(damaged)?;
        Ok(branch.entries)
    }

    fn new_number(&mut self) -> Result<u64, OrderedError> {
        let number = match self.next_number {
            Some(number) => number,
            None => match self.read.get(self.spaces.pieces, &NEXT_NUMBER_KEY)? {
                Some(bytes) => bytes.try_into().map(u64::from_be_bytes).map_err(|_| damaged())?,
                None => 1,
            },
        };
        self.next_number = Some(number.checked_add(1).ok_or_else(damaged)?);
        Ok(number)
    }
}

/// No branch has the number 0.
const NEXT_NUMBER_KEY: [u8; 8] = [0; 8];

/// The change that writes the next number down.
pub(super) fn next_number(spaces: Spaces, number: u64) -> (Space, [u8; 8], Option<[u8; 8]>) {
    (spaces.pieces, NEXT_NUMBER_KEY, Some(number.to_be_bytes()))
}
