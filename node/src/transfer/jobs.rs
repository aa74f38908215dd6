//! What the owner does for transfers, outside of turns: make a block, and take blocks in.

use std::fmt;

use base::ordered::{OrderedWrite, Space};
use base::{Ballot, NodeId, PartitionId, Position};
use bytes::Bytes;
use data::Restored;

use crate::backup::BACKS_UP;
use crate::below::{Sorted, StoredRestorer};
use crate::comparison::COMPARES;
use crate::door::Planted;
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
    /// True if a peer gets the block. Others are read for a comparison ([`crate::comparison`]), or for a client ([`crate::backup`]).
    #[must_use]
    pub fn is_for_peer(&self) -> bool {
        self.transfer & (COMPARES | BACKS_UP) == 0
    }

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

    fn push(&mut self, block: &[u8], restored: &mut Restored) -> Result<(), String> {
        self.digest.add(block);
        match &mut self.sink {
            Sink::Memory(restorer) => restorer.push_block(block),
            Sink::Store(restorer) => restorer.push_block(block, restored),
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
/// The owner calls [`ReceiveJob::step`] until nothing is left to do, and gives [`ReceiveJob::done`] to the node. No two jobs of one node are carried out
/// out of their order.
pub struct ReceiveJob {
    partition: PartitionId,
    transfer: (NodeId, u64),
    incoming: Incoming,
    blocks: Vec<Bytes>,
    /// With the last blocks: what there must be then, and the place that the sender named.
    last: Option<(Ending, Position, Ballot)>,
    planted: Option<Planted>,
    /// Steps that are done.
    done: usize,
    /// What blocks came to and is not written yet.
    restored: Restored,
    failed: Option<Failure>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Decode,
    /// Into a space that is being filled.
    Load(Sorted),
    FinishLoad(Sorted),
    /// The rest, as a batch; with the last blocks also the head, by which the state is found.
    Apply,
    Sync,
}

enum Failure {
    /// The blocks are of no use.
    Useless(String),
    /// They could not be written.
    Unwritten(String),
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
    pub(super) fn new(
        partition: PartitionId,
        transfer: (NodeId, u64),
        incoming: Incoming,
        blocks: Vec<Bytes>,
        last: Option<(Ending, Position, Ballot)>,
    ) -> ReceiveJob {
        let restored = Restored::default();
        ReceiveJob { partition, transfer, incoming, blocks, last, planted: None, done: 0, restored, failed: None }
    }

    /// Planted bugs are those of this one.
    pub(crate) fn plant(&mut self, planted: Option<Planted>) {
        self.planted = planted;
    }

    /// Whose state it is.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The spaces that it writes to.
    #[must_use]
    pub fn spaces(&self) -> Vec<Space> {
        self.incoming.spaces()
    }

    /// Does the next step, of which each changes the store at most once; `store` is the one that the node was started with. False when nothing is left
    /// to do. It may take as long as a disk does.
    pub fn step(&mut self, store: Option<&dyn OrderedWrite>) -> bool {
        let Some(step) = self.steps().get(self.done).copied() else { return false };
        self.done += 1;
        if let Err(failure) = self.carry_out(step, store) {
            self.failed = Some(failure);
            return false;
        }
        self.done < self.steps().len()
    }

    fn steps(&self) -> &'static [Step] {
        use Sorted::{Elements, Records};
        use Step::{Apply, Decode, FinishLoad, Load, Sync};
        const LOADS: [Step; 2] = [Load(Records), Load(Elements)];
        const ENDS: [Step; 2] = [FinishLoad(Records), FinishLoad(Elements)];
        match (self.incoming.is_stored(), self.last.is_some(), self.planted) {
            (false, ..) => &[Decode],
            (true, false, _) => &[Decode, LOADS[0], LOADS[1], Apply],
            (true, true, Some(Planted::StateNamedBeforeLoaded)) => {
                &[Decode, LOADS[0], LOADS[1], Apply, ENDS[0], ENDS[1], Sync]
            }
            (true, true, Some(Planted::InstalledBeforeSynced)) => {
                &[Decode, LOADS[0], LOADS[1], ENDS[0], ENDS[1], Apply]
            }
            (true, true, _) => &[Decode, LOADS[0], LOADS[1], ENDS[0], ENDS[1], Apply, Sync],
        }
    }

    fn carry_out(&mut self, step: Step, store: Option<&dyn OrderedWrite>) -> Result<(), Failure> {
        if let Step::Decode = step {
            return self.decode().map_err(Failure::Useless);
        }
        let Sink::Store(restorer) = &mut self.incoming.sink else { return Ok(()) };
        let none = || Failure::Unwritten("this node was started without a store".to_owned());
        let store = store.ok_or_else(none)?;
        let written = match step {
            Step::Load(of) => {
                let pairs = match of {
                    Sorted::Records => &mut self.restored.records,
                    Sorted::Elements => &mut self.restored.elements,
                };
                restorer.load(store, of, std::mem::take(pairs))
            }
            Step::FinishLoad(of) => restorer.finish_load(of),
            Step::Apply if self.restored.batch.changes.is_empty() => Ok(()),
            Step::Apply => store.apply(&std::mem::take(&mut self.restored.batch)),
            Step::Sync => store.sync(),
            Step::Decode => Ok(()),
        };
        written.map_err(|error| Failure::Unwritten(error.text))
    }

    fn decode(&mut self) -> Result<(), String> {
        for block in std::mem::take(&mut self.blocks) {
            self.incoming.push(&block, &mut self.restored)?;
        }
        let Some((ending, position, ballot)) = self.last else { return Ok(()) };
        if self.incoming.ending() != ending {
            return Err("it is not what was sent: the digest or the number of records differs".to_owned());
        }
        let place = match &mut self.incoming.sink {
            Sink::Store(restorer) => restorer.finish(&mut self.restored.batch)?,
            Sink::Memory(restorer) => restorer.place().ok_or("the state has no blocks")?,
        };
        if place == (position, ballot) { Ok(()) } else { Err("it is not of the position that was offered".to_owned()) }
    }

    /// It cannot be carried out, for this reason.
    #[must_use]
    pub fn fail(mut self, reason: String) -> TakenBlocks {
        self.failed = Some(Failure::Unwritten(reason));
        self.done()
    }

    /// How it went. Reads the store after the last step of the last job.
    #[must_use]
    pub fn done(self) -> TakenBlocks {
        let ReceiveJob { partition, transfer, incoming, last, failed, .. } = self;
        let spaces = incoming.spaces();
        let outcome = match failed {
            Some(Failure::Useless(text)) => Taken::Useless(text),
            Some(Failure::Unwritten(text)) => Taken::Unwritten(text),
            None if last.is_none() => Taken::Part(incoming),
            None => match incoming.sink {
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
