//! The whole state as a stream of blocks: what a snapshot file holds and what a lagging peer is sent.
//!
//! The first block is this crate's: a version, the position and ballot of the last entry, the origins. All others are
//! those of `data`.

use base::{Ballot, Position};
use bytes::Bytes;
use data::Tree;
use wire::{Malformed, Reader, Writer};

use crate::origins::Origins;

const VERSION: u8 = 1;

/// A frozen view of the state. Cheap to take, and it may be sent to another thread.
#[derive(Debug)]
pub struct Image {
    first: Option<Bytes>,
    tree: data::image::Image,
}

impl Image {
    pub(crate) fn new(position: Position, ballot: Ballot, origins: &Origins, tree: &Tree) -> Image {
        let mut first = Vec::new();
        let mut w = Writer::new(&mut first);
        w.u8(VERSION);
        w.position(position);
        w.ballot(ballot);
        origins.encode(&mut first);
        Image { first: Some(Bytes::from(first)), tree: tree.image() }
    }

    /// Writes the next block into `block` (emptied first). False when there is none left.
    pub fn next_block(&mut self, block: &mut Vec<u8>) -> bool {
        block.clear();
        match self.first.take() {
            Some(first) => {
                block.extend_from_slice(&first);
                true
            }
            None => self.tree.next_block(block),
        }
    }
}

/// Rebuilds a state from an image's blocks, given in order.
#[derive(Debug, Default)]
pub struct Restorer {
    first: Option<(Position, Ballot, Origins)>,
    tree: data::image::Restorer,
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
            return self.tree.push_block(block).map_err(|malformed| malformed.0.to_owned());
        }
        let first = decode_first(block).map_err(|_| "the first block of the state is malformed".to_owned())?;
        self.first = Some(first);
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<RestoredState, String> {
        let (position, ballot, origins) = self.first.ok_or("the state has no blocks")?;
        let tree = self.tree.finish().map_err(|malformed| malformed.0.to_owned())?;
        Ok(RestoredState { position, ballot, origins, tree })
    }
}

fn decode_first(block: &[u8]) -> Result<(Position, Ballot, Origins), Malformed> {
    let mut r = Reader::from_slice(block);
    if r.u8()? != VERSION {
        return Err(Malformed);
    }
    let (position, ballot) = (r.position()?, r.ballot()?);
    let origins = Origins::decode(&mut r)?;
    r.finish()?;
    Ok((position, ballot, origins))
}
