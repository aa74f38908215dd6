//! How far nodes have signed their audit trails, as the council has it: the last mark of each.
//!
//! A trail alone cannot show that its end was cut off, nor that all of it was written anew. What the council has of it, its node cannot take back; and each change of it
//! stands in the audit trails of all other nodes.

use std::collections::BTreeMap;

use base::NodeId;
use wire::{Malformed, Reader, Writer};

/// A record of a node's audit trail that the node has signed and synced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TrailMark {
    /// The number of the record.
    pub sequence: u64,
    /// The SHA-256 of its line.
    pub hash: [u8; 32],
}

impl TrailMark {
    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.u64(self.sequence);
        w.raw(&self.hash);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<TrailMark, Malformed> {
        let (sequence, mut hash) = (r.u64()?, [0; 32]);
        for byte in &mut hash {
            *byte = r.u8()?;
        }
        Ok(TrailMark { sequence, hash })
    }
}

/// See the file's head. A node that has told no mark is not in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Trails(BTreeMap<NodeId, TrailMark>);

impl Trails {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Trails, Malformed> {
        (0..r.count(42)?).map(|_| Ok((r.node()?, TrailMark::read(r)?))).collect::<Result<_, _>>().map(Trails)
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.count(self.0.len());
        for (node, mark) in &self.0 {
            w.node(*node);
            mark.write(w);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn of(&self, node: NodeId) -> Option<TrailMark> {
        self.0.get(&node).copied()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (NodeId, TrailMark)> {
        self.0.iter().map(|(node, mark)| (*node, *mark))
    }

    /// The newest word counts, an earlier record too: a trail that begins anew shows by that.
    pub(super) fn note(&mut self, node: NodeId, mark: TrailMark) {
        self.0.insert(node, mark);
    }

    pub(super) fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_mark_counts_and_a_broken_record_is_refused() {
        let mut trails = Trails::default();
        let mark = |sequence| TrailMark { sequence, hash: [sequence as u8; 32] };
        for (node, sequence) in [(NodeId(1), 9), (NodeId(2), 5), (NodeId(1), 3)] {
            trails.note(node, mark(sequence));
        }
        assert_eq!((trails.of(NodeId(1)), trails.of(NodeId(3))), (Some(mark(3)), None));
        let mut bytes = Vec::new();
        trails.write(&mut Writer::new(&mut bytes));
        assert_eq!(Trails::read(&mut Reader::from_slice(&bytes)), Ok(trails.clone()));
        for length in 0..bytes.len() {
            assert_eq!(Trails::read(&mut Reader::from_slice(&bytes[..length])), Err(Malformed), "{length}");
        }
        trails.forget(NodeId(1));
        trails.forget(NodeId(2));
        assert!(trails.is_empty());
    }
}
