//! Whole keys in their order, read from their pieces.
//!
//! A walk reads the store more than once, and another thread may bring a batch to it meanwhile. Keys that the batch does not change are found all the same: a
//! branch that such a key is under keeps its number. So nothing here goes by how many entries a branch says that it has, which a batch changes for others.

use super::{
    Branch, LONGEST_BYTES, NUMBER_BYTES, Next, PIECE_BYTES, Spaces, WHOLE_BYTES_MAX, damaged, first_branch, next,
};
use base::ordered::{OrderedError, OrderedRead, Pair};
use std::ops::Bound;

type Pairs<'a> = Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a>;

/// All whole keys from a place on, with their values. After an error nothing follows.
pub(crate) struct Walk<'a> {
    read: &'a dyn OrderedRead,
    spaces: Spaces,
    keys: Pairs<'a>,
    /// The branches that it is in, from the outermost on.
    inside: Vec<Inside<'a>>,
    /// What the keys in the innermost of them begin with.
    prefix: Vec<u8>,
}

/// A branch that is being read.
struct Inside<'a> {
    branch: Branch,
    /// Bytes of the prefix that its keys have in common.
    prefix_bytes: usize,
    /// Where it goes on.
    from: Bound<Vec<u8>>,
    /// Only of the innermost: others are looked for again, so that no more than two are open at a time.
    reading: Option<Pairs<'a>>,
}

impl<'a> Inside<'a> {
    fn whole(branch: Branch, prefix_bytes: usize) -> Inside<'a> {
        let from = Bound::Included(branch.key_of(b""));
        Inside { branch, prefix_bytes, from, reading: None }
    }

    fn part(branch: Branch, prefix_bytes: usize, from: Bound<Vec<u8>>) -> Inside<'a> {
        Inside { branch, prefix_bytes, from, reading: None }
    }

    /// The next entry of the branch: what follows its number, and the value.
    fn next(&mut self, read: &'a dyn OrderedRead, spaces: Spaces) -> Result<Option<Pair>, OrderedError> {
        let from = self.from.as_ref().map(Vec::as_slice);
        let reading = self.reading.get_or_insert_with(|| read.range(spaces.pieces, from));
        let pair = reading.next().transpose()?;
        let number = self.branch.number.to_be_bytes();
        let Some((key, value)) = pair.filter(|(key, _)| key.starts_with(&number)) else { return Ok(None) };
        if key.len() == NUMBER_BYTES { Err(damaged()) } else { Ok(Some((key, value))) }
    }
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        read: &'a dyn OrderedRead,
        spaces: Spaces,
        start: Bound<&[u8]>,
    ) -> Result<Walk<'a>, OrderedError> {
        let mut walk =
            Walk { read, spaces, keys: Box::new(std::iter::empty()), inside: Vec::new(), prefix: Vec::new() };
        match start {
            Bound::Included(key) | Bound::Excluded(key) if key.len() > WHOLE_BYTES_MAX => {
                walk.enter(key, matches!(start, Bound::Excluded(_)))?;
            }
            _ => walk.keys = read.range(spaces.keys, start),
        }
        Ok(walk)
    }

    /// Begins at a long key.
    fn enter(&mut self, key: &[u8], is_behind: bool) -> Result<(), OrderedError> {
        let (at, mut rest) = first_branch(key);
        self.keys = self.read.range(self.spaces.keys, Bound::Excluded(&at));
        self.prefix.extend_from_slice(&key[..WHOLE_BYTES_MAX]);
        let mut found = self.read.get(self.spaces.keys, &at)?;
        while let Some(bytes) = found {
            let branch = Branch::read(&bytes)?;
            let prefix_bytes = self.prefix.len();
            match next(branch, rest) {
                Next::Value { key } => {
                    let from = if is_behind { Bound::Excluded(key) } else { Bound::Included(key) };
                    self.inside.push(Inside::part(branch, prefix_bytes, from));
                    return Ok(());
                }
                Next::Branch { key, rest: further } => {
                    found = self.read.get(self.spaces.pieces, &key)?;
                    self.inside.push(Inside::part(branch, prefix_bytes, Bound::Excluded(key)));
                    self.prefix.extend_from_slice(&rest[..PIECE_BYTES]);
                    rest = further;
                }
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Pair>, OrderedError> {
        loop {
            let Some(inside) = self.inside.last_mut() else {
                let Some((key, value)) = self.keys.next().transpose()? else { return Ok(None) };
                if key.len() <= WHOLE_BYTES_MAX {
                    return Ok(Some((key, value)));
                }
                let branch = Branch::read(&value)?;
                self.prefix = key;
                self.prefix.truncate(WHOLE_BYTES_MAX);
                self.inside.push(Inside::whole(branch, WHOLE_BYTES_MAX));
                continue;
            };
            self.prefix.truncate(inside.prefix_bytes);
            let Some((key, value)) = inside.next(self.read, self.spaces)? else {
                self.inside.pop();
                continue;
            };
            let rest = &key[NUMBER_BYTES..];
            if rest.len() <= PIECE_BYTES {
                return Ok(Some(([&self.prefix, rest].concat(), value)));
            }
            let branch = Branch::read(&value)?;
            self.prefix.extend_from_slice(&rest[..PIECE_BYTES]);
            if self.prefix.len() > LONGEST_BYTES {
                return Err(damaged());
            }
            (inside.from, inside.reading) = (Bound::Excluded(key), None);
            self.inside.push(Inside::whole(branch, self.prefix.len()));
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Pair, OrderedError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step().transpose();
        if matches!(step, Some(Err(_))) {
            self.inside.clear();
            self.keys = Box::new(std::iter::empty());
        }
        step
    }
}
