//! What the owner does for transfers, outside of turns: make a block, and take blocks in.

use std::fmt;

use base::ordered::{OrderedBatch, Space};
use base::{Ballot, NodeId, PartitionId, Position};
use bytes::Bytes;

use crate::below::StoredRestorer;
use crate::image::{Digest, Ending, Image, RestoredState, Restorer};

/// A block of a snapshot that a peer is sent, to be made: reads the store, and may take as long as a disk does.
#[derive(Debug)]
pub struct BlockJob {
    pub(crate) partition: PartitionId,
    pub(crate) transfer: u64,
    pub(crate) image: Box<Image>,
}

/// What became of a [`BlockJob`]: for [`crate::Input::BlockMade`].
#[derive(Debug)]
pub struct MadeBlock {
    pub(crate) partition: PartitionId,
    pub(crate) transfer: u64,
    pub(crate) image: Box<Image>,
    pub(crate) block: Result<Block, String>,
}

/// A block, and what the receiver must have come to with it if it is the last.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub bytes: Bytes,
    pub ending: Option<Ending>,
}

impl BlockJob {
    /// Makes the block.
    #[must_use]
    pub fn make(mut self) -> MadeBlock {
        let mut bytes = Vec::new();
        let more = self.image.next_block(&mut bytes);
        let block = match self.image.trouble() {
            Some(error) => Err(error.text.clone()),
            None if !more => Err("there is no further block".to_owned()),
            None => Ok(Block { bytes: Bytes::from(bytes), ending: self.image.ending() }),
        };
        MadeBlock { partition: self.partition, transfer: self.transfer, image: self.image, block }
    }

    /// The block cannot be made, for this reason.
    #[must_use]
    pub fn fail(self, reason: String) -> MadeBlock {
        MadeBlock { partition: self.partition, transfer: self.transfer, image: self.image, block: Err(reason) }
    }
}

/// A state that comes in blocks: where they go.
#[derive(Debug)]
pub(crate) struct Incoming {
    digest: Digest,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    /// Into memory.
    Memory(Box<Restorer>),
    /// Into new spaces of the store.
    Store(Box<StoredRestorer>),
}

impl Incoming {
    pub(crate) fn in_memory() -> Incoming {
        Incoming { digest: Digest::default(), sink: Sink::Memory(Box::default()) }
    }

    pub(crate) fn in_store(restorer: StoredRestorer) -> Incoming {
        Incoming { digest: Digest::default(), sink: Sink::Store(Box::new(restorer)) }
    }

    /// Whether the last batch makes it the partition's state, as far as the store is concerned.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self.sink, Sink::Store(_))
    }

    /// The spaces that it is written to.
    pub(crate) fn spaces(&self) -> Vec<Space> {
        match &self.sink {
            Sink::Memory(_) => Vec::new(),
            Sink::Store(restorer) => restorer.spaces(),
        }
    }

    fn push(&mut self, block: &[u8], batch: &mut OrderedBatch) -> Result<(), String> {
        self.digest.add(block);
        match &mut self.sink {
            Sink::Memory(restorer) => restorer.push_block(block),
            Sink::Store(restorer) => restorer.push_block(block, batch),
        }
    }

    fn ending(&self) -> Ending {
        let records = match &self.sink {
            Sink::Memory(restorer) => restorer.records(),
            Sink::Store(restorer) => restorer.records(),
        };
        Ending::new(records, self.digest)
    }
}

/// Blocks of a snapshot from a peer, to be decoded and brought to the store that the node was started with, if it was.
///
/// The owner applies [`ReceiveJob::batch`], syncs if [`ReceiveJob::needs_sync`] says so, and gives [`ReceiveJob::done`] to the node. No
/// two jobs of one node are carried out out of their order.
pub struct ReceiveJob {
    pub(crate) partition: PartitionId,
    pub(crate) transfer: (NodeId, u64),
    pub(crate) incoming: Incoming,
    pub(crate) blocks: Vec<Bytes>,
    /// With the last blocks: what there must be then, and the place that the sender named.
    pub(crate) last: Option<(Ending, Position, Ballot)>,
    /// A planted bug: the last batch is not synced.
    pub(crate) unsynced: bool,
    pub(crate) useless: Option<String>,
}

impl fmt::Debug for ReceiveJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveJob").field("transfer", &self.transfer).field("blocks", &self.blocks.len()).finish()
    }
}

/// What became of a [`ReceiveJob`]: for [`crate::Input::BlocksTaken`].
#[derive(Debug)]
pub struct TakenBlocks {
    pub(crate) partition: PartitionId,
    pub(crate) transfer: (NodeId, u64),
    pub(crate) spaces: Vec<Space>,
    pub(crate) outcome: Taken,
}

#[derive(Debug)]
pub(crate) enum Taken {
    /// There is more to come.
    Part(Incoming),
    /// The state is complete; `stored` if it is in the store.
    Whole { state: Box<RestoredState>, stored: bool },
    /// The blocks are of no use.
    Useless(String),
    /// They could not be written.
    Unwritten(String),
}

impl ReceiveJob {
    /// Whose state it is.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Decodes the blocks. What comes out is to be applied as a whole; nothing if the state is in memory, or the blocks are of no use.
    #[must_use]
    pub fn batch(&mut self) -> Option<OrderedBatch> {
        let mut batch = OrderedBatch::default();
        if let Err(text) = self.decode(&mut batch) {
            self.useless = Some(text);
            return None;
        }
        self.incoming.is_stored().then_some(batch)
    }

    fn decode(&mut self, batch: &mut OrderedBatch) -> Result<(), String> {
        for block in std::mem::take(&mut self.blocks) {
            self.incoming.push(&block, batch)?;
        }
        let Some((ending, position, ballot)) = self.last else { return Ok(()) };
        if self.incoming.ending() != ending {
            return Err("it is not what was sent: the digest or the number of records differs".to_owned());
        }
        let place = match &mut self.incoming.sink {
            Sink::Store(restorer) => restorer.finish(batch)?,
            Sink::Memory(restorer) => restorer.place().ok_or("the state has no blocks")?,
        };
        if place == (position, ballot) { Ok(()) } else { Err("it is not of the position that was offered".to_owned()) }
    }

    /// Whether the store is to be synced when the batch is applied: all batches of this reception are to survive then.
    #[must_use]
    pub fn needs_sync(&self) -> bool {
        self.last.is_some() && self.incoming.is_stored() && self.useless.is_none() && !self.unsynced
    }

    /// How it went. Reads the store after the last batch.
    #[must_use]
    pub fn done(self, written: Result<(), String>) -> TakenBlocks {
        let ReceiveJob { partition, transfer, incoming, last, useless, .. } = self;
        let spaces = incoming.spaces();
        let outcome = match (useless, written) {
            (Some(text), _) => Taken::Useless(text),
            (None, Err(text)) => Taken::Unwritten(text),
            (None, Ok(())) if last.is_none() => Taken::Part(incoming),
            (None, Ok(())) => match incoming.sink {
                Sink::Memory(restorer) => match restorer.finish() {
                    Ok(state) => Taken::Whole { state: Box::new(state), stored: false },
                    Err(text) => Taken::Useless(text),
                },
                Sink::Store(restorer) => match restorer.open() {
                    Ok(state) => Taken::Whole { state: Box::new(state), stored: true },
                    Err(text) => Taken::Unwritten(text),
                },
            },
        };
        TakenBlocks { partition, transfer, spaces, outcome }
    }
}
