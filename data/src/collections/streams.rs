//! Streams: entries by their identifiers, blocks by which they are walked backwards, and consumer groups.
//!
//! ```text
//!   (n, ms, seq)                       ─► field, value, …            entries, in the order of their identifiers
//!   (blocks of n, !ms, !seq)           ─► how many entries           a block begins with this entry; the last block comes first
//!   (groups of n, 0, group)            ─► number g, how far …        groups, by name
//!   (g, 0, consumer)                   ─► number c, when seen …      of one group: its consumers by name
//!   (g, 1, c)                          ─► consumer                   their names by number
//!   (g, 2, id)                         ─► c, delivered when, how often     what is pending
//!   (g, 3, !id)                        ─► nothing                    the same backwards
//!   (g, 3 + c, id)                     ─► nothing                    the same of one consumer
//! ```
//! - *Blocks* are what the nodes of a Redis are: up to 100 entries, or 4 KiB. The store below is only walked forwards, so who reads backwards reads a block and turns it
//!   round; and trimming with `~` takes whole blocks. How many entries the last block has stands in the head, so XADD writes one element but for one time in 100.
//! - *A group has a collection of its own*: to destroy it costs the same however much is pending. That of a stream that is given up is found when the element that names it is
//!   reclaimed, so giving up a stream costs the same however many groups it has.

use super::{Collections, GROUP_ORDER, PART_BLOCKS, PART_GROUPS};
use crate::blob::Blob;
use crate::codec::{Reader, put_id, put_number};
use crate::image::Malformed;
use crate::kept::ElementKey;
use crate::meter::LOOKUP;
use crate::value::{Collection, Stream, StreamId};
use std::ops::Bound;

/// Orders of a group's elements.
const CONSUMERS: u64 = 0;
const NAMES: u64 = 1;
const PENDING: u64 = 2;
const BACKWARDS: u64 = 3;

/// A group of consumers.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Consumers, and what is pending.
    pub held: Collection,
    /// The last entry that was delivered.
    pub last: StreamId,
    /// How many entries were read, if that is known.
    pub read: Option<u64>,
    pub consumers: u64,
    pub pending: u64,
    /// Nothing before it is pending.
    pub front: StreamId,
    /// The number of the last consumer.
    pub last_consumer: u64,
}

impl Group {
    pub(crate) fn value(&self) -> Blob {
        let mut bytes = Vec::new();
        let held = [self.held.number(), self.held.len(), self.held.bytes()];
        let counts =
            [self.read.map_or(0, |read| read.saturating_add(1)), self.consumers, self.pending, self.last_consumer];
        held.into_iter().chain(counts).for_each(|number| put_number(&mut bytes, number));
        [self.last, self.front].into_iter().for_each(|id| put_id(&mut bytes, id));
        Blob::from(bytes)
    }

    pub(crate) fn read(value: &[u8]) -> Result<Group, Malformed> {
        let mut reader = Reader::new(value);
        let held = reader.collection_or_empty()?;
        let read = reader.number()?.checked_sub(1);
        let (consumers, pending, last_consumer) = (reader.number()?, reader.number()?, reader.number()?);
        let (last, front) = (reader.id()?, reader.id()?);
        if !reader.is_at_end() || last_consumer.max(consumers).max(pending) >= 1 << 62 {
            return Err(Malformed("a consumer group is none"));
        }
        Ok(Group { held, last, read, consumers, pending, front, last_consumer })
    }

    pub(crate) fn consumer_key(&self, name: &[u8]) -> ElementKey {
        ElementKey { collection: self.held.number(), order: CONSUMERS, name: Blob::new(name) }
    }

    pub(crate) fn name_key(&self, consumer: u64) -> ElementKey {
        ElementKey { collection: self.held.number(), order: NAMES, name: Blob::new(&consumer.to_be_bytes()) }
    }

    /// Where something that is pending stands: by group, backwards, by consumer.
    pub(crate) fn pending_keys(&self, id: StreamId, consumer: u64) -> [ElementKey; 3] {
        let collection = self.held.number();
        let key = |order, id: StreamId| ElementKey { collection, order, name: Blob::new(&id.bytes()) };
        [key(PENDING, id), key(BACKWARDS, id.inverted()), key(BACKWARDS.saturating_add(consumer), id)]
    }
}

/// A consumer of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Consumer {
    pub number: u64,
    /// When it last asked; when it last got something. Milliseconds since 1970.
    pub seen: u64,
    pub active: Option<u64>,
    pub pending: u64,
}

impl Consumer {
    pub(crate) fn value(self) -> Blob {
        let mut bytes = Vec::new();
        let active = self.active.map_or(0, |active| active.saturating_add(1));
        [self.number, self.seen, active, self.pending].into_iter().for_each(|number| put_number(&mut bytes, number));
        Blob::from(bytes)
    }

    fn read(value: &[u8]) -> Option<Consumer> {
        let mut reader = Reader::new(value);
        let mut number = || reader.number().ok();
        let (number, seen, active, pending) = (number()?, number()?, number()?.checked_sub(1), number()?);
        (1..1 << 62).contains(&number).then_some(Consumer { number, seen, active, pending })
    }
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    /// The number of the consumer that has it.
    pub consumer: u64,
    /// When it was delivered last; milliseconds since 1970.
    pub at: u64,
    /// How often.
    pub times: u64,
}

impl Pending {
    pub(crate) fn value(self) -> Blob {
        let mut bytes = Vec::new();
        [self.consumer, self.at, self.times].into_iter().for_each(|number| put_number(&mut bytes, number));
        Blob::from(bytes)
    }

    pub(crate) fn read(value: &[u8]) -> Option<Pending> {
        let mut reader = Reader::new(value);
        let mut number = || reader.number().ok();
        Some(Pending { consumer: number()?, at: number()?, times: number()? })
    }
}

pub(crate) fn entry_key(number: u64, id: StreamId) -> ElementKey {
    ElementKey { collection: number, order: id.ms, name: Blob::new(&id.seq.to_be_bytes()) }
}

pub(crate) fn block_key(number: u64, first: StreamId) -> ElementKey {
    entry_key(number | PART_BLOCKS, first.inverted())
}

pub(crate) fn group_key(number: u64, name: &[u8]) -> ElementKey {
    ElementKey { collection: number | PART_GROUPS, order: GROUP_ORDER, name: Blob::new(name) }
}

pub(crate) fn block_value(live: u32) -> Blob {
    Blob::new(&live.to_be_bytes())
}

/// The identifier that a key of an entry or of a block says.
fn id_of(key: &ElementKey) -> Option<StreamId> {
    Some(StreamId { ms: key.order, seq: u64::from_be_bytes(key.name.as_slice().try_into().ok()?) })
}

/// The words of an entry, as its element has them.
pub(crate) fn entry_value(words: &[&[u8]]) -> Blob {
    let mut bytes = Vec::with_capacity(words.iter().map(|word| word.len() + 2).sum());
    words.iter().for_each(|word| crate::codec::put_bytes(&mut bytes, word));
    Blob::from(bytes)
}

/// The fields and values of an entry in turn.
pub(crate) fn words(value: &[u8]) -> Vec<&[u8]> {
    let mut reader = Reader::new(value);
    let mut words = Vec::new();
    while let (false, Ok(word)) = (reader.is_at_end(), reader.bytes()) {
        words.push(word);
    }
    words
}

impl Collections {
    /// An entry of a stream.
    pub(crate) fn entry(&self, stream: &Stream, id: StreamId) -> Option<Blob> {
        if id < stream.first || id > stream.last {
            return None;
        }
        self.meter.spend(LOOKUP);
        self.elements.get(entry_key(stream.number(), id).as_ref())
    }

    /// The entries of a stream from `start` on.
    pub(crate) fn entries(&self, stream: &Stream, start: StreamId) -> impl Iterator<Item = (StreamId, Blob)> + use<'_> {
        let start = start.max(stream.first);
        let from = self.range(stream.number(), Bound::Included((start.ms, &start.seq.to_be_bytes())));
        // A walk over a stream without entries would pass over all that were there.
        let some = if stream.is_empty() { 0 } else { usize::MAX };
        let entries = from.take(some).map_while(|(key, value)| Some((id_of(&key)?, value)));
        entries.take_while(|(_, value)| self.meter.visit(value.len()))
    }

    /// The blocks of a stream that begin at or before `id`, backwards: with which entry, and how many it has. That of the open block is in the head.
    pub(crate) fn blocks(&self, number: u64, id: StreamId) -> impl Iterator<Item = (StreamId, u32)> + use<'_> {
        let start = id.inverted();
        let blocks = self.range(number | PART_BLOCKS, Bound::Included((start.ms, &start.seq.to_be_bytes())));
        let blocks = blocks.map_while(|(key, value)| {
            let live = u32::from_be_bytes(value.as_slice().try_into().ok()?);
            Some((id_of(&key)?.inverted(), live))
        });
        blocks.take_while(|_| self.meter.visit(0))
    }

    /// The entries of a stream up to `end`, backwards.
    pub(crate) fn entries_backwards(
        &self,
        stream: &Stream,
        end: StreamId,
    ) -> impl Iterator<Item = (StreamId, Blob)> + use<'_> {
        let (stream, mut end) = (*stream, Some(end));
        let some = if stream.is_empty() { 0 } else { usize::MAX };
        self.blocks(stream.number(), end.unwrap_or_default()).take(some).flat_map(move |(first, _)| {
            let up_to = end.filter(|end| *end >= first);
            let block = up_to.map(|up_to| self.entries(&stream, first).take_while(move |(id, _)| *id <= up_to));
            let mut block: Vec<_> = block.into_iter().flatten().collect();
            end = first.previous();
            block.reverse();
            block
        })
    }

    pub(crate) fn group(&self, stream: &Stream, name: &[u8]) -> Option<Group> {
        let value = self.elements.get(group_key(stream.number(), name).as_ref())?;
        Group::read(&value).ok()
    }

    /// The groups of a stream, by name.
    pub(crate) fn groups(&self, number: u64) -> impl Iterator<Item = (Blob, Group)> + use<'_> {
        let groups = self.range(number | PART_GROUPS, Bound::Unbounded);
        let groups = groups.take_while(|(key, value)| self.meter.visit(key.name.len() + value.len()));
        groups.filter_map(|(key, value)| Some((key.name, Group::read(&value).ok()?)))
    }

    /// The elements of a group of one order, from `start` on.
    fn part(&self, group: &Group, order: u64, start: &[u8]) -> impl Iterator<Item = (Blob, Blob)> + use<'_> {
        let number = group.held.number();
        let end = ElementKey { collection: number, order: order.saturating_add(1), name: Blob::EMPTY };
        let some = if group.held.is_empty() { 0 } else { usize::MAX };
        let part = self.range_before(number, Bound::Included((order, start)), &end);
        let part = part.take(some).take_while(|(key, value)| self.meter.visit(key.name.len() + value.len()));
        part.map(|(key, value)| (key.name, value))
    }

    /// The consumers of a group, by name.
    pub(crate) fn consumers(&self, group: &Group) -> impl Iterator<Item = (Blob, Consumer)> + use<'_> {
        self.part(group, CONSUMERS, b"").filter_map(|(name, value)| Some((name, Consumer::read(&value)?)))
    }

    pub(crate) fn consumer(&self, group: &Group, name: &[u8]) -> Option<Consumer> {
        Consumer::read(self.elements.get(group.consumer_key(name).as_ref())?.as_slice())
    }

    /// The name of the consumer of a number.
    pub(crate) fn consumer_name(&self, group: &Group, number: u64) -> Option<Blob> {
        self.elements.get(group.name_key(number).as_ref())
    }

    pub(crate) fn pending(&self, group: &Group, id: StreamId) -> Option<Pending> {
        let [key, ..] = group.pending_keys(id, 0);
        self.meter.spend(LOOKUP);
        Pending::read(self.elements.get(key.as_ref())?.as_slice())
    }

    /// What is pending in a group, from `start` on.
    pub(crate) fn all_pending(
        &self,
        group: &Group,
        start: StreamId,
    ) -> impl Iterator<Item = (StreamId, Pending)> + use<'_> {
        let pending = self.part(group, PENDING, &start.max(group.front).bytes());
        let some = if group.pending == 0 { 0 } else { usize::MAX };
        pending.take(some).filter_map(|(id, value)| Some((StreamId::read(&id)?, Pending::read(&value)?)))
    }

    /// What a consumer has, from `start` on.
    pub(crate) fn pending_of(
        &self,
        group: &Group,
        consumer: Consumer,
        start: StreamId,
    ) -> impl Iterator<Item = StreamId> + use<'_> {
        let order = BACKWARDS.saturating_add(consumer.number);
        let pending = self.part(group, order, &start.max(group.front).bytes());
        let some = if consumer.pending == 0 { 0 } else { usize::MAX };
        pending.take(some).filter_map(|(id, _)| StreamId::read(&id))
    }

    /// The last that is pending.
    pub(crate) fn last_pending(&self, group: &Group) -> Option<StreamId> {
        self.part(group, BACKWARDS, b"").find_map(|(id, _)| StreamId::read(&id)).map(StreamId::inverted)
    }
}
