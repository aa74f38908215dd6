//! Who has had what applied: makes a write that is sent twice happen once.
//!
//! Every node numbers the writes of its clients, within one life of its process. An entry is applied only if it is the
//! next one of its origin (numbers that the origin gave up may be skipped), so repeats and stragglers change nothing. The
//! table is part of the replicated state.
//!
//! An origin learns its replies by applying its own entries. Only one that got its state as a snapshot has not seen
//! them; for it the replies that may still be waited for are kept here, as far as they are small: every replica keeps
//! them, and they stand in the head of every flush. In place of others it is kept that the command was done.

use std::collections::{BTreeMap, VecDeque};

use base::limits::{KEPT_REPLIES_BYTES_MAX, KEPT_REPLY_BYTES_MAX, STEPPED_OVER_KEPT_MAX};
use base::versions::Feature;
use base::{NodeId, Position, WallTime};
use data::{Failure, Reply};
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
    /// The bytes of those.
    bytes: u64,
    /// So many of the first ones are known to be [`NOT_KEPT`].
    not_kept: usize,
}

/// A stamp counts with so many bits within a millisecond.
const STAMP_BITS: u32 = 20;

/// The answer of a command that was done, where the answer itself is too large to be kept.
const NOT_KEPT: Reply = Reply::Error(Failure::Text(
    "UNKNOWN the command was done, but its answer was too large to be kept until this node could give it; read what you need",
));

impl Known {
    /// Keeps a reply, or that there was one.
    fn keep(&mut self, sequence: u64, reply: Reply, is_bounded: bool) {
        let reply = if is_bounded && reply.bytes() > KEPT_REPLY_BYTES_MAX { NOT_KEPT } else { reply };
        self.bytes += reply.bytes();
        self.replies.push_back((sequence, reply));
        while is_bounded && self.bytes > KEPT_REPLIES_BYTES_MAX {
            let Some((_, oldest)) = self.replies.get_mut(self.not_kept) else { return };
            self.not_kept += 1;
            let oldest = std::mem::replace(oldest, NOT_KEPT);
            self.bytes = self.bytes + NOT_KEPT.bytes() - oldest.bytes().min(self.bytes);
        }
    }

    /// Forgets replies that nobody waits for.
    fn forget_before(&mut self, floor: u64) {
        while self.replies.front().is_some_and(|(sequence, _)| *sequence < floor) {
            let Some((_, reply)) = self.replies.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(reply.bytes());
            self.not_kept = self.not_kept.saturating_sub(1);
        }
    }
}

/// All origins, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    known: BTreeMap<NodeId, Known>,
    /// Who votes, by the last applied entry that says so: it goes where the table goes, because whoever has the state has that entry no more.
    /// None while it is the founders.
    pub members: Option<Members>,
    /// Entries that were stepped over on the way to this state, the newest, with their checksums: see [`crate::step_over`].
    pub voids: VecDeque<(Position, u64)>,
    /// Changes are recorded until this time of the log; 0: they are not.
    pub recorded_until: WallTime,
    /// The stamp of the last entry: milliseconds times 2^20, and a count. It grows with each entry.
    pub stamp: u64,
}

/// Which way a state went past a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Through the entry.
    Through,
    /// Over it: its checksum.
    Over(u64),
    /// It is not known any more.
    Unknown,
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

    /// An entry of this version was applied, and answered that.
    pub(crate) fn note(&mut self, origin: &Origin, reply: Reply, version: u16) {
        let known = self.known.entry(origin.node).or_default();
        known.last = origin.sequence;
        known.forget_before(origin.floor);
        known.keep(origin.sequence, reply, Feature::Budgets.is_in(version));
    }

    /// An entry was stepped over.
    pub(crate) fn note_void(&mut self, position: Position, digest: u64) {
        self.voids.push_back((position, digest));
        if self.voids.len() > STEPPED_OVER_KEPT_MAX {
            self.voids.pop_front();
        }
    }

    /// An entry of this version and time is applied: it gets a stamp.
    pub(crate) fn note_stamp(&mut self, version: u16, time: WallTime) {
        if Feature::Recording.is_in(version) {
            self.stamp = self.stamp.saturating_add(1).max(time.0.saturating_mul(1 << STAMP_BITS));
        }
    }

    /// Whether the changes of an entry of this time are recorded.
    pub(crate) fn records(&mut self, time: WallTime) -> bool {
        if time >= self.recorded_until {
            self.recorded_until = WallTime::default();
        }
        self.recorded_until > WallTime::default()
    }

    /// The log's time is brought back to this: recording goes on for no longer than an entry of that time could have it.
    pub(crate) fn bring_back(&mut self, time: WallTime, lease_max_ms: u64) {
        self.recorded_until = self.recorded_until.min(WallTime(time.0.saturating_add(lease_max_ms)));
    }

    /// How the state came past a position.
    pub(crate) fn way_past(&self, position: Position) -> Way {
        match self.voids.iter().find(|(at, _)| *at == position) {
            Some((_, digest)) => Way::Over(*digest),
            None if self.voids.len() < STEPPED_OVER_KEPT_MAX => Way::Through,
            None if self.voids.front().is_some_and(|(first, _)| *first < position) => Way::Through,
            None => Way::Unknown,
        }
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

    /// Of each node how many answers are kept, and how many bytes these have.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (NodeId, usize, u64)> {
        self.known.iter().map(|(node, known)| (*node, known.replies.len(), known.bytes))
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
        let mut w = Writer::new(out);
        let version = self.version();
        if version >= 3 {
            w.bool(self.members.is_some());
        }
        if let Some(members) = &self.members {
            encode_members(&mut w, members);
        }
        if version >= 3 {
            w.count(self.voids.len());
            for (position, digest) in &self.voids {
                w.position(*position);
                w.u64(*digest);
            }
        }
        if version == 4 {
            w.u64(self.recorded_until.0);
            w.u64(self.stamp);
        }
    }

    /// The version of what it is written into: 2 with members, 3 where entries were stepped over, 4 where they have stamps; nodes from before must not overlook these.
    pub(crate) fn version(&self) -> u8 {
        match (self.stamp, self.voids.is_empty(), &self.members) {
            (1.., _, _) => 4,
            (0, false, _) => 3,
            (0, true, Some(_)) => 2,
            (0, true, None) => 1,
        }
    }

    /// Whether this is a version of what it is written into.
    pub(crate) fn knows(version: u8) -> bool {
        matches!(version, 1..=4)
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
            let mut known = Known { life, last: r.u64()?, ..Known::default() };
            for _ in 0..r.count(9)? {
                let sequence = r.u64()?;
                let reply = Reply::decode(r.slice()?).map_err(|_| Malformed)?;
                known.bytes += reply.bytes();
                known.replies.push_back((sequence, reply));
            }
            origins.known.insert(node, known);
        }
        if version == 2 || version >= 3 && r.bool()? {
            origins.members = Some(decode_members(r)?);
        }
        if version >= 3 {
            for _ in 0..r.count(9)? {
                origins.voids.push_back((r.position()?, r.u64()?));
            }
        }
        if version == 4 {
            (origins.recorded_until, origins.stamp) = (WallTime(r.u64()?), r.u64()?);
        }
        Ok(origins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::versions::{NEWEST, OLDEST};

    fn origin(boot: u64, sequence: u64, floor: u64) -> Origin {
        Origin { node: NodeId(1), life: Life { incarnation: 1, boot }, sequence, floor }
    }

    #[test]
    fn only_the_next_write_of_a_life_counts() {
        let mut origins = Origins::default();
        assert_eq!(origins.judge(&origin(1, 1, 1)), Verdict::Apply);
        origins.note(&origin(1, 1, 1), Reply::Ok, NEWEST);
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
            origins.note(&origin(1, sequence, 3.min(sequence)), Reply::Integer(sequence as i64), NEWEST);
        }
        let mut bytes = Vec::new();
        origins.encode(&mut bytes);
        let again = Origins::decode(&mut Reader::from_slice(&bytes), 1).unwrap();
        let life = Life { incarnation: 1, boot: 1 };
        assert_eq!(again.replies(NodeId(1), life).map(|(sequence, _)| *sequence).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(again.last(NodeId(1), life), 4);
    }

    #[test]
    fn what_was_stepped_over_is_known_for_ever_or_said_to_be_unknown() {
        let mut origins = Origins::default();
        origins.note_void(Position(5), 55);
        for members in [None, Some(Members::founders(&[NodeId(0), NodeId(2)]))] {
            origins.members = members;
            let mut bytes = Vec::new();
            origins.encode(&mut bytes);
            let again = Origins::decode(&mut Reader::from_slice(&bytes), origins.version()).unwrap();
            assert_eq!((&again.members, &again.voids), (&origins.members, &origins.voids));
        }
        let ways = |origins: &Origins| [4, 5, 6].map(|position| origins.way_past(Position(position)));
        assert_eq!(ways(&origins), [Way::Through, Way::Over(55), Way::Through]);
        (0..STEPPED_OVER_KEPT_MAX as u64).for_each(|count| origins.note_void(Position(10 + count), count));
        assert_eq!(origins.voids.len(), STEPPED_OVER_KEPT_MAX);
        assert_eq!(ways(&origins), [Way::Unknown; 3]);
        assert_eq!(origins.way_past(Position(200)), Way::Through);
    }

    #[test]
    fn recording_ends_by_the_log_and_stamps_only_grow() {
        let mut origins = Origins::default();
        origins.note_stamp(OLDEST, WallTime(5));
        assert_eq!((origins.stamp, origins.version()), (0, 1));
        let stamps = [5, 5, 4, 6].map(|time| {
            origins.note_stamp(NEWEST, WallTime(time));
            origins.stamp
        });
        assert_eq!(stamps, [5 << 20, (5 << 20) + 1, (5 << 20) + 2, 6 << 20]);
        assert!(!origins.records(WallTime(6)));
        origins.recorded_until = WallTime(9);
        assert!(origins.records(WallTime(8)));
        for (members, voids) in [(None, 0), (Some(Members::founders(&[NodeId(1)])), 2)] {
            origins.members = members;
            (0..voids).for_each(|count| origins.note_void(Position(count), count));
            let mut bytes = Vec::new();
            origins.encode(&mut bytes);
            let again = Origins::decode(&mut Reader::from_slice(&bytes), origins.version()).unwrap();
            assert_eq!((again.recorded_until, again.stamp), (WallTime(9), 6 << 20));
            assert_eq!((&again.members, &again.voids), (&origins.members, &origins.voids));
        }
        assert!(!origins.records(WallTime(9)) && !origins.records(WallTime(8)), "once it is over it stays so");
        // Bytes that no node has written end none.
        (origins.stamp, origins.recorded_until) = (u64::MAX, WallTime(u64::MAX));
        origins.note_stamp(NEWEST, WallTime(u64::MAX));
        origins.bring_back(WallTime(5), 10);
        assert_eq!((origins.stamp, origins.recorded_until), (u64::MAX, WallTime(15)));
    }

    fn kept(origins: &Origins) -> Vec<bool> {
        let life = Life { incarnation: 1, boot: 1 };
        origins.replies(NodeId(1), life).map(|(_, reply)| *reply != NOT_KEPT).collect()
    }

    #[test]
    fn replies_that_are_kept_have_a_bound() {
        let mut origins = Origins::default();
        let note = |origins: &mut Origins, origin: &Origin, reply: Reply, version: u16| {
            origins.judge(origin);
            origins.note(origin, reply, version);
        };
        let of = |bytes: u64| Reply::bulk(vec![b'x'; bytes as usize]);
        note(&mut origins, &origin(1, 1, 1), of(KEPT_REPLY_BYTES_MAX + 1), NEWEST);
        note(&mut origins, &origin(1, 2, 1), of(100), NEWEST);
        assert_eq!(kept(&origins), [false, true], "a large one is not kept");
        let many = KEPT_REPLIES_BYTES_MAX / KEPT_REPLY_BYTES_MAX + 10;
        for sequence in 3..3 + many {
            note(&mut origins, &origin(1, sequence, 1), of(KEPT_REPLY_BYTES_MAX - 100), NEWEST);
            assert!(origins.known[&NodeId(1)].bytes <= KEPT_REPLIES_BYTES_MAX);
        }
        let kept_now = kept(&origins);
        assert_eq!(kept_now.len() as u64, 2 + many, "that there was an answer is always known");
        assert!(!kept_now[2] && kept_now.last() == Some(&true), "the oldest go first");
        // What is decoded goes on as what was encoded.
        let mut bytes = Vec::new();
        origins.encode(&mut bytes);
        let mut again = Origins::decode(&mut Reader::from_slice(&bytes), 1).unwrap();
        for origins in [&mut origins, &mut again] {
            note(origins, &origin(1, 3 + many, 5), of(KEPT_REPLY_BYTES_MAX - 100), NEWEST);
        }
        let encoded = [&origins, &again].map(|origins| {
            let mut bytes = Vec::new();
            origins.encode(&mut bytes);
            bytes
        });
        assert_eq!(encoded[0], encoded[1]);
        assert_eq!(origins.known[&NodeId(1)].bytes, again.known[&NodeId(1)].bytes);
        // Entries of earlier versions mean what they meant.
        let mut earlier = Origins::default();
        note(&mut earlier, &origin(1, 1, 1), of(KEPT_REPLY_BYTES_MAX + 1), OLDEST);
        assert_eq!(kept(&earlier), [true]);
    }
}
