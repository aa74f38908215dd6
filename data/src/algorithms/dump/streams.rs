//! Streams as a Redis writes them. Numbers are lengths as of strings; identifiers in keys are 16 bytes, big-endian.
//!
//! ```text
//! stream (types 15, 19 and 21)
//!   listpacks | first identifier: a string, listpack: a string | …
//!   length | last identifier: ms, seq |
//!   first identifier | highest that was deleted | entries added |                           not of type 15
//!   groups | name: a string | last identifier | entries read, or 2^64 - 1 |                 the last not of type 15
//!          | pending | identifier (16) | delivered (8) | how often | … |
//!          | consumers | name: a string | seen (8) | active (8), of type 21 | pending | identifier (16) | … |
//!
//! listpack: entries, deleted ones, fields of the first, field, …, 0, and for each entry
//!   flags | ms and seq, less those of the first | fields, field, value, … | how many items that were
//!   flags: 1: it is deleted; 2: its fields are those of the first, and neither they nor their number follow
//! ```
//! Written is type 19, which Redis 7.0 reads.

use super::packed;
use super::{put_length, put_string, read_length, read_string, with_footer};
use crate::args::parse_integer;
use crate::blob::Blob;
use crate::collections::Collections;
use crate::collections::streams::{Group, entry_value, words};
use crate::meter::Meter;
use crate::transaction::{BLOCK_BYTES, BLOCK_ENTRIES_MAX};
use crate::value::{Stream, StreamId};
use base::limits::VALUE_BYTES_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

/// The types: before Redis 7, since then, and since 7.2.
pub(super) const TYPE_OLD: u8 = 15;
pub(crate) const TYPE: u8 = 19;
pub(super) const TYPE_NEW: u8 = 21;

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;
/// The flags, the identifier, and how many items there were.
const ITEMS_BESIDE: i64 = 3;

/// A stream as a payload says it.
#[derive(Clone, PartialEq, Debug)]
pub struct DumpedStream {
    /// In the order of their identifiers.
    pub entries: Vec<(StreamId, Blob)>,
    /// The highest identifier that was given.
    pub last: StreamId,
    /// The highest that was deleted.
    pub deleted: StreamId,
    /// Entries that were ever added.
    pub added: u64,
    /// Consumer groups, each name once.
    pub groups: Vec<DumpedGroup>,
}

/// A consumer group as a payload says it.
#[derive(Clone, PartialEq, Debug)]
pub struct DumpedGroup {
    /// Its name.
    pub name: Blob,
    /// What was delivered last.
    pub last: StreamId,
    /// How many entries were read, if that is known; none of type 15.
    pub read: Option<Option<u64>>,
    /// Consumers with what is pending with them: identifier, when delivered, how often.
    pub consumers: Vec<DumpedConsumer>,
}

/// A consumer as a payload says it.
#[derive(Clone, PartialEq, Debug)]
pub struct DumpedConsumer {
    /// Its name.
    pub name: Blob,
    /// When it last asked, and when it last got something; milliseconds since 1970.
    pub seen: u64,
    /// See `seen`.
    pub active: Option<u64>,
    /// What is pending: identifier, when delivered, how often.
    pub pending: Vec<(StreamId, u64, u64)>,
}

/// Entries that stand in one listpack: the first identifier, all of them.
type Pack = (StreamId, Vec<(StreamId, Blob)>);

/// The payload of a stream.
pub(crate) fn dump_stream(collections: &Collections, stream: &Stream) -> Vec<u8> {
    let mut out = vec![TYPE];
    let Ok(()) = write_stream(collections, stream, |put| -> Result<(), Infallible> {
        put(&mut out);
        Ok(())
    });
    with_footer(out)
}

/// Appends some part of a value.
pub(crate) type Put<'p> = &'p dyn Fn(&mut Vec<u8>);

/// Gives out the value of a stream of [`TYPE`], one part after the other; no more than a listpack, or an entry that is larger, is in memory at a time.
pub(crate) fn write_stream<E>(
    collections: &Collections,
    stream: &Stream,
    mut part: impl FnMut(Put<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let count = packs(collections, stream).count() as u64;
    part(&|out| put_number(out, count))?;
    for (first, pack) in packs(collections, stream) {
        part(&|out| {
            put_string(out, &first.bytes());
            put_string(out, &pack_of(first, &pack));
        })?;
    }
    part(&|out| {
        put_number(out, stream.len());
        [stream.last, stream.first, stream.deleted].into_iter().for_each(|id| put_id(out, id));
        put_number(out, stream.added);
        put_number(out, u64::from(stream.groups));
    })?;
    for (name, group) in collections.groups(stream.number()) {
        part(&|out| {
            put_string(out, &name);
            put_id(out, group.last);
            put_number(out, group.read.unwrap_or(u64::MAX));
        })?;
        write_group(collections, &group, &mut part)?;
    }
    Ok(())
}

/// The entries as they stand together.
fn packs<'c>(collections: &'c Collections, stream: &Stream) -> impl Iterator<Item = Pack> + use<'c> {
    let mut entries = collections.entries(stream, StreamId::MIN);
    std::iter::from_fn(move || {
        let (first, value) = entries.next()?;
        let mut bytes = value.len();
        let mut pack = vec![(first, value)];
        while pack.len() < BLOCK_ENTRIES_MAX as usize
            && bytes < BLOCK_BYTES as usize
            && let Some((id, value)) = entries.next()
        {
            bytes += value.len();
            pack.push((id, value));
        }
        Some((first, pack))
    })
}

fn write_group<E>(
    collections: &Collections,
    group: &Group,
    part: &mut impl FnMut(Put<'_>) -> Result<(), E>,
) -> Result<(), E> {
    part(&|out| put_number(out, group.pending))?;
    for (id, pending) in collections.all_pending(group, StreamId::MIN) {
        part(&|out| {
            out.extend(id.bytes());
            out.extend(pending.at.to_le_bytes());
            put_number(out, pending.times);
        })?;
    }
    part(&|out| put_number(out, group.consumers))?;
    for (name, consumer) in collections.consumers(group) {
        part(&|out| {
            put_string(out, &name);
            out.extend(consumer.seen.to_le_bytes());
            put_number(out, consumer.pending);
        })?;
        for id in collections.pending_of(group, consumer, StreamId::MIN) {
            part(&|out| out.extend(id.bytes()))?;
        }
    }
    Ok(())
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    put_length(out, usize::try_from(number).unwrap_or(usize::MAX));
}

fn put_id(out: &mut Vec<u8>, id: StreamId) {
    put_number(out, id.ms);
    put_number(out, id.seq);
}

fn pack_of(first: StreamId, entries: &[(StreamId, Blob)]) -> Vec<u8> {
    let mut pack = packed::Writer::default();
    [entries.len() as i64, 0, 0, 0].into_iter().for_each(|number| pack.number(number));
    for (id, value) in entries {
        let words = words(value);
        let fields = words.len() as i64 / 2;
        let from_first = |at: u64, first: u64| at.wrapping_sub(first) as i64;
        [0, from_first(id.ms, first.ms), from_first(id.seq, first.seq), fields]
            .into_iter()
            .for_each(|number| pack.number(number));
        words.iter().for_each(|word| pack.word(word));
        pack.number(fields * 2 + ITEMS_BESIDE + 1);
    }
    pack.finish()
}

/// Reads what `kind` says is a stream; `None` if it is none.
pub(super) fn read_stream(kind: u8, rest: &[u8], meter: &Meter) -> Option<DumpedStream> {
    let mut reader = Reader { rest, meter };
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for _ in 0..reader.number()? {
        let first = StreamId::read(&read_string(&mut reader.rest, meter)?)?;
        let pack = read_string(&mut reader.rest, meter)?;
        bytes += pack.len();
        if bytes > VALUE_BYTES_MAX {
            return None;
        }
        read_pack(first, &packed::listpack(&pack, meter)?, &mut entries, meter)?;
    }
    let len = reader.number()?;
    let last = reader.id()?;
    let (mut deleted, mut added) = (StreamId::MIN, len);
    if kind != TYPE_OLD {
        reader.id()?;
        deleted = reader.id()?;
        added = reader.number()?;
    }
    let is_ordered = entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let ends = entries.last().map_or(StreamId::MIN, |(id, _)| *id);
    if !is_ordered || entries.len() as u64 != len || ends > last || added < len {
        return None;
    }
    let (mut groups, mut names) = (Vec::new(), BTreeSet::new());
    for _ in 0..reader.number()? {
        let group = reader.group(kind)?;
        if !names.insert(group.name.clone()) {
            return None;
        }
        groups.push(group);
    }
    Some(DumpedStream { entries, last, deleted, added, groups })
}

/// The entries of a listpack, behind those that are there.
fn read_pack(first: StreamId, items: &[Blob], entries: &mut Vec<(StreamId, Blob)>, meter: &Meter) -> Option<()> {
    let mut items = items.iter();
    let mut item = || items.next();
    let number = |item: Option<&Blob>| parse_integer(item?);
    let (live, deleted, fields_of_first) = (number(item())?, number(item())?, number(item())?);
    let fields_of_first = usize::try_from(fields_of_first).ok()?;
    let mut names = Vec::new();
    for _ in 0..fields_of_first {
        names.push(item()?);
    }
    item()?;
    let mut found = 0;
    for _ in 0..live.checked_add(deleted)? {
        let (flags, ms, seq) = (number(item())?, number(item())?, number(item())?);
        let id = StreamId { ms: first.ms.wrapping_add_signed(ms), seq: first.seq.wrapping_add_signed(seq) };
        let has_names = flags & SAME_FIELDS == 0;
        let fields = if has_names { usize::try_from(number(item())?).ok()? } else { fields_of_first };
        let mut words: Vec<&[u8]> = Vec::new();
        for field in 0..fields {
            words.push(if has_names { item()? } else { names.get(field)? });
            words.push(item()?);
        }
        item()?;
        if flags & DELETED == 0 {
            found += 1;
            // Names that stand there once come again with every entry.
            let bytes = words.iter().map(|word| word.len()).sum();
            if !meter.visit(0) || !meter.make(bytes) {
                return None;
            }
            entries.push((id, entry_value(&words)));
        }
    }
    (found == live && items.next().is_none()).then_some(())
}

struct Reader<'a> {
    rest: &'a [u8],
    meter: &'a Meter,
}

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = read_length(self.rest)?;
        self.rest = rest;
        Some(number as u64)
    }

    fn id(&mut self) -> Option<StreamId> {
        Some(StreamId { ms: self.number()?, seq: self.number()? })
    }

    fn raw_id(&mut self) -> Option<StreamId> {
        let (bytes, rest) = self.rest.split_at_checked(16)?;
        self.rest = rest;
        StreamId::read(bytes)
    }

    /// Before 1970 is 1970.
    fn time(&mut self) -> Option<i64> {
        let (bytes, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(i64::from_le_bytes(*bytes))
    }

    fn group(&mut self, kind: u8) -> Option<DumpedGroup> {
        let name = Blob::from(read_string(&mut self.rest, self.meter)?);
        let last = self.id()?;
        let read = if kind == TYPE_OLD { None } else { Some(Some(self.number()?).filter(|read| *read != u64::MAX)) };
        let mut pending = BTreeMap::new();
        for _ in 0..self.number()? {
            let (id, at, times) = (self.raw_id()?, self.time()?, self.number()?);
            self.meter.visit(0).then_some(())?;
            if pending.insert(id, (u64::try_from(at).unwrap_or(0), times)).is_some() {
                return None;
            }
        }
        let (mut consumers, mut names) = (Vec::new(), BTreeSet::new());
        for _ in 0..self.number()? {
            let name = Blob::from(read_string(&mut self.rest, self.meter)?);
            let seen = u64::try_from(self.time()?).unwrap_or(0);
            let active = if kind == TYPE_NEW { u64::try_from(self.time()?).ok() } else { Some(seen) };
            let mut has = Vec::new();
            for _ in 0..self.number()? {
                let id = self.raw_id()?;
                self.meter.visit(0).then_some(())?;
                let (at, times) = pending.remove(&id)?;
                has.push((id, at, times));
            }
            if !names.insert(name.clone()) {
                return None;
            }
            consumers.push(DumpedConsumer { name, seen, active, pending: has });
        }
        // Each is with a consumer.
        pending.is_empty().then_some(DumpedGroup { name, last, read, consumers })
    }
}
