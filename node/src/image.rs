//! The whole state as a stream of blocks: what a snapshot file holds and what a lagging peer is sent.

use base::Position;
use bytes::Bytes;

/// A frozen view of the state. Cheap to take, cheap to clone, and it may be sent to another thread.
#[derive(Debug, Clone)]
pub struct Image {
    blocks: std::collections::VecDeque<Bytes>,
}

impl Image {
    /// Writes the next block into `block` (emptied first). False when there is none left.
    pub fn next_block(&mut self, block: &mut Vec<u8>) -> bool {
        block.clear();
        self.blocks.pop_front().map(|bytes| block.extend_from_slice(&bytes)).is_some()
    }
}

/// Rebuilds a state from an image's blocks, given in order.
#[derive(Debug, Default)]
pub struct Restorer {
    blocks: Vec<Bytes>,
}

impl Restorer {
    /// Takes the next block.
    ///
    /// # Errors
    /// When the block is not one that an [`Image`] wrote; the text says what is wrong.
    pub fn push_block(&mut self, block: &[u8]) -> Result<(), String> {
        self.blocks.push(Bytes::copy_from_slice(block));
        Ok(())
    }
}

/// The position that a snapshot's header names, for choosing among files.
#[must_use]
pub fn header_position(_header: &[u8]) -> Option<Position> {
    None
}
