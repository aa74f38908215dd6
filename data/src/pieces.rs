//! Keys that are longer than a store takes, cut into pieces: the order of whole keys stays, and no key is taken for another.
//!
//! ```text
//!   space of the keys:    key of up to W bytes                          ─► value             (as if there were no pieces)
//!                         first W bytes, 0                              ─► a branch: number, entries under it
//!   space of the pieces:  number (8 bytes), rest of up to P bytes       ─► value
//!                         number, first P bytes of the rest, 0          ─► a branch: number, entries under it
//!                         0 (8 bytes)                                   ─► the next number
//! ```
//! This is a tree of pieces. Keys that begin alike share the pieces in which they do, so keys of many megabytes that differ in their last byte cost no
//! more than others. A key of a branch is longer than any key with a value in the same place, and stands right behind the one of which it is a
//! continuation: reading both spaces side by side ([`Walk`]) gives whole keys in their order. Nothing is hashed.
//!
//! A branch without entries is removed with its last one. Numbers belong to one store: replicas may number differently.
//!
//! [`Cutter`] writes changes on top of what a store has; [`Loader`] writes sorted keys into empty spaces, and reads nothing.

mod cutter;
mod loader;
mod walk;

use crate::codec::{Reader, put_number};
use base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use base::ordered::{ORDERED_KEY_BYTES_MAX, OrderedError, OrderedRead, Space};
use std::ops::Bound;

pub(crate) use cutter::Cutter;
pub(crate) use loader::Loader;
pub(crate) use walk::Walk;

/// Keys of elements of up to so many bytes stand in one piece: all that there are where names have up to [`KEY_BYTES_MAX`].
pub(crate) const WHOLE_BYTES_MAX: usize = if cfg!(test) { 18 } else { KEY_BYTES_MAX + 64 };
/// Bytes of a further piece.
const PIECE_BYTES: usize = if cfg!(test) { 2 } else { KEY_BYTES_MAX };
/// No key is so long: a store that says so goes round in circles.
const LONGEST_BYTES: usize = if cfg!(test) { 1024 } else { 2 * VALUE_BYTES_MAX };
/// Bytes of a branch's number before a piece.
const NUMBER_BYTES: usize = 8;

const _: () = assert!(WHOLE_BYTES_MAX < ORDERED_KEY_BYTES_MAX && NUMBER_BYTES + PIECE_BYTES < ORDERED_KEY_BYTES_MAX);

/// Where the pieces of a layer are: the space of the keys, and that of the further pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spaces {
    pub keys: Space,
    pub pieces: Space,
}

/// What stands under a key that is continued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Branch {
    number: u64,
    /// Entries that continue it: values and further branches.
    entries: u64,
}

impl Branch {
    fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_number(&mut bytes, self.number);
        put_number(&mut bytes, self.entries);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Branch, OrderedError> {
        let mut reader = Reader::new(bytes);
        let branch = (|| Some(Branch { number: reader.number().ok()?, entries: reader.number().ok()? }))();
        let is_sound = |branch: &Branch| branch.number > 0 && branch.entries > 0;
        branch.filter(is_sound).filter(|_| reader.is_at_end()).ok_or_else(damaged)
    }

    /// The key of something that continues it.
    fn key_of(self, rest: &[u8]) -> Vec<u8> {
        [&self.number.to_be_bytes()[..], rest].concat()
    }
}

/// The key of the branch that continues a piece.
fn branch_key(piece: &[u8]) -> Vec<u8> {
    [piece, &[0]].concat()
}

fn damaged() -> OrderedError {
    OrderedError { text: "the pieces of a long key in the store contradict each other".to_owned(), full: false }
}

/// Where the next piece of a long key stands, from its first branch to its value.
enum Next<'k> {
    Branch { key: Vec<u8>, rest: &'k [u8] },
    Value { key: Vec<u8> },
}

/// Cuts a key that is longer than [`WHOLE_BYTES_MAX`].
fn first_branch(key: &[u8]) -> (Vec<u8>, &[u8]) {
    let (piece, rest) = key.split_at(WHOLE_BYTES_MAX.min(key.len()));
    (branch_key(piece), rest)
}

/// How a key goes on under a branch.
fn next(branch: Branch, rest: &[u8]) -> Next<'_> {
    match rest.split_at_checked(PIECE_BYTES) {
        Some((piece, rest)) if !rest.is_empty() => Next::Branch { key: branch_key(&branch.key_of(piece)), rest },
        _ => Next::Value { key: branch.key_of(rest) },
    }
}

/// The value of a key that is longer than [`WHOLE_BYTES_MAX`].
pub(crate) fn get(read: &dyn OrderedRead, spaces: Spaces, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
    let (at, mut rest) = first_branch(key);
    let mut found = read.get(spaces.keys, &at)?;
    loop {
        let Some(bytes) = found else { return Ok(None) };
        match next(Branch::read(&bytes)?, rest) {
            Next::Value { key } => return read.get(spaces.pieces, &key),
            Next::Branch { key, rest: further } => {
                rest = further;
                found = read.get(spaces.pieces, &key)?;
            }
        }
    }
}

/// Reads all pieces in a view that does not change: each branch has as many entries as it says, and nothing is there that no branch leads to.
pub(crate) fn check(read: &dyn OrderedRead, spaces: Spaces) -> Result<(), OrderedError> {
    // Behind the next number.
    let first = 1_u64.to_be_bytes();
    let mut there: u64 = 0;
    for pair in read.range(spaces.pieces, Bound::Included(&first)) {
        pair?;
        there += 1;
    }
    let mut branches = Vec::new();
    for pair in read.range(spaces.keys, Bound::Unbounded) {
        let (key, value) = pair?;
        if key.len() > WHOLE_BYTES_MAX {
            branches.push(Branch::read(&value)?);
        }
    }
    let mut found: u64 = 0;
    while let Some(branch) = branches.pop() {
        let first = branch.key_of(b"");
        let mut entries = 0;
        for pair in read.range(spaces.pieces, Bound::Included(&first)) {
            let (key, value) = pair?;
            if !key.starts_with(&first) {
                break;
            }
            entries += 1;
            if key.len() > NUMBER_BYTES + PIECE_BYTES {
                branches.push(Branch::read(&value)?);
            }
        }
        found += entries;
        // Of branches in a circle more is found than there is.
        if entries != branch.entries || found > there {
            return Err(damaged());
        }
    }
    if found == there { Ok(()) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests;
