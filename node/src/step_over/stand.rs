//! How a node stands to an entry that is to be stepped over, and how it says so.

use base::{PartitionId, Position};
use wire::{Malformed, Reader, Writer};

/// See the file's head. The checksums are those of the former entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stand {
    /// The node was told to step over it, and has not come so far: the entry is not in its log, or not known to be decided there, or others before it are to be applied.
    Waits,
    /// The node would apply it next, and does not.
    Holds(u64),
    /// The node's disk has the void in its place, and the node does not apply that.
    Voided(u64),
    /// The node has applied the void.
    Done(u64),
    /// The node has applied the entry itself.
    Kept,
    /// The node has applied the one or the other, and so many others were stepped over since that its state does not say which.
    Passed,
    /// The node was not told, and has not come so far.
    NotTold,
    /// The node has no replica. It remembers that it was asked.
    NoReplica,
    /// It is an entry that cannot be stepped over.
    Unfit,
}

impl Stand {
    fn encode(self, w: &mut Writer<'_>) {
        let (number, digest) = match self {
            Stand::Waits => (1, None),
            Stand::Holds(digest) => (2, Some(digest)),
            Stand::Voided(digest) => (3, Some(digest)),
            Stand::Done(digest) => (4, Some(digest)),
            Stand::Kept => (5, None),
            Stand::Passed => (6, None),
            Stand::NotTold => (7, None),
            Stand::NoReplica => (8, None),
            Stand::Unfit => (9, None),
        };
        w.u8(number);
        digest.into_iter().for_each(|digest| w.u64(digest));
    }

    fn decode(r: &mut Reader<'_>) -> Result<Stand, Malformed> {
        Ok(match r.u8()? {
            1 => Stand::Waits,
            2 => Stand::Holds(r.u64()?),
            3 => Stand::Voided(r.u64()?),
            4 => Stand::Done(r.u64()?),
            5 => Stand::Kept,
            6 => Stand::Passed,
            7 => Stand::NotTold,
            8 => Stand::NoReplica,
            9 => Stand::Unfit,
            _ => return Err(Malformed),
        })
    }
}

/// What a node says of one entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub partition: PartitionId,
    pub position: Position,
    pub stand: Stand,
    /// Stands for the nodes of the cluster that the sender knows.
    pub members: u64,
    /// The receiver is asked how it stands.
    pub is_question: bool,
    /// In a question: the sender knows that every node with a replica has the void on its disk. An answer repeats it.
    pub all_voided: bool,
}

impl Said {
    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        w.partition(self.partition);
        w.position(self.position);
        self.stand.encode(w);
        w.u64(self.members);
        w.bool(self.is_question);
        w.bool(self.all_voided);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Said, Malformed> {
        Ok(Said {
            partition: r.partition()?,
            position: r.position()?,
            stand: Stand::decode(r)?,
            members: r.u64()?,
            is_question: r.bool()?,
            all_voided: r.bool()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_as_it_was_said() {
        let with = [Stand::Holds, Stand::Voided, Stand::Done].map(|stand| stand(u64::MAX - 1));
        let without = [Stand::Waits, Stand::Kept, Stand::Passed, Stand::NotTold, Stand::NoReplica, Stand::Unfit];
        for stand in with.into_iter().chain(without) {
            let (partition, position) = (crate::council::COUNCIL, Position(77));
            let said = Said { partition, position, stand, members: 9, is_question: true, all_voided: false };
            let mut bytes = Vec::new();
            said.encode(&mut Writer::new(&mut bytes));
            assert_eq!(Said::decode(&mut Reader::from_slice(&bytes)), Ok(said));
            for length in 0..bytes.len() {
                assert!(Said::decode(&mut Reader::from_slice(&bytes[..length])).is_err());
            }
        }
    }
}
