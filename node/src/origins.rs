//! Who has had what applied: makes a write that is sent twice happen once.
//!
//! Every node numbers the writes of its clients, within one life of its process. An entry is applied only if it is the
//! next one of its origin (numbers that the origin gave up may be skipped), so repeats and stragglers change nothing. The
//! table is part of the replicated state.
//!
//! An origin learns its replies by applying its own entries. Only one that got its state as a snapshot has not seen
//! them; for it the replies that may still be waited for are kept here.

use std::collections::{BTreeMap, VecDeque};

use base::NodeId;
use data::Reply;
use paxos::Members;
use wire::{Malformed, Reader, Writer};

use crate::entry::{Life, Origin};
use crate::peer::{decode_members, encode_members};

/// What is known of one node's writes.
#[derive(Clone, Debug, Default)]
struct Known {
    life: Life,
    /// The highest applied number.
    last: u64,
    /// Replies of the numbers `last - replies.len() + 1 ..= last` (skipped numbers have none).
    replies: VecDeque<(u64, Reply)>,
}

/// All origins, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    known: BTreeMap<NodeId, Known>,
    /// Who votes, by the last applied entry that says so: it goes where the table goes, because whoever has the state has that entry no more.
    /// None while it is the founders.
    pub members: Option<Members>,
}

/// Whether an entry is to be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is the next one.
    Apply,
    /// It was applied before, or comes from an earlier life.
    Repeat,
    /// One before it is missing: it was proposed out of order and must not count.
    Gap,
}

impl Origins {
    pub(crate) fn judge(&mut self, origin: &Origin) -> Verdict {
        let known = self.known.entry(origin.node).or_default();
        if origin.life < known.life {
            return Verdict::Repeat;
        }
        if origin.life > known.life {
            *known = Known { life: origin.life, ..Known::default() };
        }
        if origin.sequence <= known.last {
            return Verdict::Repeat;
        }
        if origin.sequence > known.last.max(origin.floor.saturating_sub(1)) + 1 { Verdict::Gap } else { Verdict::Apply }
    }

    pub(crate) fn note(&mut self, origin: &Origin, reply: Reply) {
        let known = self.known.entry(origin.node).or_default();
        known.last = origin.sequence;
        while known.replies.front().is_some_and(|(sequence, _)| *sequence < origin.floor) {
            known.replies.pop_front();
        }
        known.replies.push_back((origin.sequence, reply));
    }

    /// The newest life of a node of which anything was applied.
    pub(crate) fn life_of(&self, node: NodeId) -> Option<Life> {
        self.known.get(&node).map(|known| known.life)
    }

    /// The highest applied number of a life; 0 for one that has none.
    pub(crate) fn last(&self, node: NodeId, life: Life) -> u64 {
        self.known.get(&node).filter(|known| known.life == life).map_or(0, |known| known.last)
    }

    /// The replies that are kept for a life.
    pub(crate) fn replies(&self, node: NodeId, life: Life) -> impl Iterator<Item = &(u64, Reply)> {
        self.known.get(&node).filter(|known| known.life == life).into_iter().flat_map(|known| known.replies.iter())
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.count(self.known.len());
        for (node, known) in &self.known {
            w.node(*node);
            w.u64(known.life.incarnation);
            w.u64(known.life.boot);
            w.u64(known.last);
            w.count(known.replies.len());
            for (sequence, reply) in &known.replies {
                w.u64(*sequence);
                let mut bytes = Vec::new();
                reply.encode(&mut bytes);
                w.bytes(&bytes);
            }
        }
        if let Some(members) = &self.members {
            let mut w = Writer::new(out);
            encode_members(&mut w, members);
        }
    }

    /// The version of what it is written into: 2 with members, as nodes from before there were any must not overlook them.
    pub(crate) fn version(&self) -> u8 {
        if self.members.is_some() { 2 } else { 1 }
    }

    /// Whether this is a version of what it is written into.
    pub(crate) fn knows(version: u8) -> bool {
        matches!(version, 1 | 2)
    }

    /// What was written with this version.
    pub(crate) fn decode(r: &mut Reader<'_>, version: u8) -> Result<Origins, Malformed> {
        if !Origins::knows(version) {
            return Err(Malformed);
        }
        let mut origins = Origins::default();
        for _ in 0..r.count(10)? {
            let node = r.node()?;
            let life = Life { incarnation: r.u64()?, boot: r.u64()? };
            let mut known = Known { life, last: r.u64()?, replies: VecDeque::new() };
            for _ in 0..r.count(9)? {
                let sequence = r.u64()?;
                known.replies.push_back((sequence, Reply::decode(r.slice()?).map_err(|_| Malformed)?));
            }
            origins.known.insert(node, known);
        }
        if version == 2 {
            origins.members = Some(decode_members(r)?);
        }
        Ok(origins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(boot: u64, sequence: u64, floor: u64) -> Origin {
        Origin { node: NodeId(1), life: Life { incarnation: 1, boot }, sequence, floor }
    }

    #[test]
    fn only_the_next_write_of_a_life_counts() {
        let mut origins = Origins::default();
        assert_eq!(origins.judge(&origin(1, 1, 1)), Verdict::Apply);
        origins.note(&origin(1, 1, 1), Reply::Ok);
        assert_eq!(origins.judge(&origin(1, 1, 1)), Verdict::Repeat);
        assert_eq!(origins.judge(&origin(1, 3, 2)), Verdict::Gap);
        assert_eq!(origins.judge(&origin(1, 3, 3)), Verdict::Apply, "2 was given up");
        assert_eq!(origins.judge(&origin(2, 1, 1)), Verdict::Apply, "a new life");
        assert_eq!(origins.judge(&origin(1, 4, 4)), Verdict::Repeat, "an earlier life");
    }

    #[test]
    fn replies_are_kept_until_answered_and_survive_encoding() {
        let mut origins = Origins::default();
        for sequence in 1..=4 {
            assert_eq!(origins.judge(&origin(1, sequence, 3.min(sequence))), Verdict::Apply);
            origins.note(&origin(1, sequence, 3.min(sequence)), Reply::Integer(sequence as i64));
        }
        let mut bytes = Vec::new();
        origins.encode(&mut bytes);
        let again = Origins::decode(&mut Reader::from_slice(&bytes), 1).unwrap();
        let life = Life { incarnation: 1, boot: 1 };
        assert_eq!(again.replies(NodeId(1), life).map(|(sequence, _)| *sequence).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(again.last(NodeId(1), life), 4);
    }
}
