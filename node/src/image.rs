//! The whole state as a stream of blocks: what a snapshot file holds and what a lagging peer is sent.
//!
//! The first block is this crate's: a version, the position and ballot of the last entry, the origins. All others are
//! those of `data`.

use base::checksum::xxh3;
use base::ordered::OrderedError;
use base::{Ballot, Position, Revision};
use bytes::Bytes;
use data::Tree;
use data::image::Malformed;
use wire::{Reader, Writer};

use crate::origins::Origins;

/// A frozen view of the state. Cheap to take, and it may be sent to another thread, which should be the one that drops it: it may be
/// the last that holds much memory.
#[derive(Debug)]
pub struct Image {
    first: Option<Bytes>,
    tree: data::Image,
    records: u64,
    digest: Digest,
}

/// A digest of blocks in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn add(&mut self, block: &[u8]) {
        self.0 = xxh3([self.0, xxh3(block)].map(u64::to_le_bytes).as_flattened());
    }
}

/// What the receiver of an image must have after the last block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ending {
    pub records: u64,
    pub digest: u64,
}

impl Ending {
    pub(crate) fn new(records: u64, digest: Digest) -> Ending {
        Ending { records, digest: digest.0 }
    }
}

impl Image {
    pub(crate) fn new(position: Position, ballot: Ballot, origins: &Origins, tree: &Tree) -> Image {
        let mut first = Vec::new();
        let mut w = Writer::new(&mut first);
        w.u8(origins.version());
        w.position(position);
        w.ballot(ballot);
        origins.encode(&mut first);
        Image { first: Some(Bytes::from(first)), tree: tree.image(), records: tree.len(), digest: Digest::default() }
    }

    /// The same in blocks of about so many bytes.
    pub(crate) fn with_block_bytes(mut self, block_bytes: usize) -> Image {
        self.tree = self.tree.with_block_bytes(block_bytes);
        self
    }

    /// The same, of what has changed since the state had this revision ([`data::Image::since`]). No ending tells of it.
    pub(crate) fn since(mut self, revision: Revision) -> Image {
        self.tree = self.tree.since(revision);
        self
    }

    /// Writes the next block into `block` (emptied first). False when there is none left. Reads the store that the state is in, if it
    /// is in one, and takes as long as that does.
    pub fn next_block(&mut self, block: &mut Vec<u8>) -> bool {
        block.clear();
        let more = match self.first.take() {
            Some(first) => {
                block.extend_from_slice(&first);
                true
            }
            None => self.tree.next_block(block),
        };
        if more {
            self.digest.add(block);
        }
        more
    }

    /// What went wrong with the store that it is read from: no block since means anything.
    pub(crate) fn trouble(&self) -> Option<&OrderedError> {
        self.tree.trouble()
    }

    /// What the receiver must have come to; none while there are further blocks.
    pub(crate) fn ending(&self) -> Option<Ending> {
        (self.first.is_none() && self.tree.is_at_end()).then(|| Ending::new(self.records, self.digest))
    }
}

/// Rebuilds a state from an image's blocks, given in order.
#[derive(Debug, Default)]
pub struct Restorer {
    first: Option<(Position, Ballot, Origins)>,
    tree: data::image::Restorer,
    /// A block was of this version, which is not known here.
    other_version: Option<u8>,
}

/// A whole state and where in the log it stands.
#[derive(Debug)]
pub(crate) struct RestoredState {
    pub position: Position,
    pub ballot: Ballot,
    pub origins: Origins,
    pub tree: Tree,
}

impl Restorer {
    /// Takes the next block.
    ///
    /// # Errors
    /// When the block is not one that an [`Image`] wrote; the text says what is wrong.
    pub fn push_block(&mut self, block: &[u8]) -> Result<(), String> {
        if self.first.is_some() {
            return self.tree.push_block(block).map_err(|malformed| {
                if malformed == Malformed::UNKNOWN_VERSION {
                    self.other_version = block.first().copied();
                }
                malformed.0.to_owned()
            });
        }
        if !Origins::knows(block.first().copied().unwrap_or_default()) {
            self.other_version = block.first().copied();
        }
        let first = decode_first(block).map_err(|_| "the first block of the state is malformed".to_owned())?;
        self.first = Some(first);
        Ok(())
    }

    /// The version of a block that was refused because of it: what was written is whole, perhaps, and to be kept for whoever knows it.
    #[must_use]
    pub fn other_version(&self) -> Option<u8> {
        self.other_version
    }

    /// The whole state, once all blocks are there.
    ///
    /// # Errors
    /// When blocks are missing, or do not fit together; the text says what is wrong.
    pub fn into_tree(self) -> Result<Tree, String> {
        self.finish().map(|state| state.tree)
    }

    pub(crate) fn records(&self) -> u64 {
        self.tree.records()
    }

    /// Where in the log the state stands, once the first block is there.
    pub(crate) fn place(&self) -> Option<(Position, Ballot)> {
        self.first.as_ref().map(|(position, ballot, _)| (*position, *ballot))
    }

    pub(crate) fn finish(self) -> Result<RestoredState, String> {
        let (position, ballot, origins) = self.first.ok_or("the state has no blocks")?;
        let tree = self.tree.finish().map_err(|malformed| malformed.0.to_owned())?;
        Ok(RestoredState { position, ballot, origins, tree })
    }
}

pub(crate) fn decode_first(block: &[u8]) -> Result<(Position, Ballot, Origins), wire::Malformed> {
    let mut r = Reader::from_slice(block);
    let version = r.u8()?;
    let (position, ballot) = (r.position()?, r.ballot()?);
    let origins = Origins::decode(&mut r, version)?;
    r.finish()?;
    Ok((position, ballot, origins))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_a_later_version_is_no_damage() {
        let mut image = Image::new(Position(3), Ballot::default(), &Origins::default(), &Tree::new());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        assert!(image.next_block(&mut first) && image.next_block(&mut second));
        let push = |first: &[u8], second: &[u8]| {
            let mut restorer = Restorer::default();
            let pushed = restorer.push_block(first).and_then(|()| restorer.push_block(second));
            (pushed.is_ok(), restorer.other_version())
        };
        assert_eq!(push(&first, &second), (true, None));
        assert_eq!(push(&first[..2], &second), (false, None), "cut short");
        let later = |block: &[u8]| [&[99], &block[1..]].concat();
        assert_eq!(push(&later(&first), &second), (false, Some(99)));
        assert_eq!(push(&first, &later(&second)), (false, Some(99)));
    }
}
