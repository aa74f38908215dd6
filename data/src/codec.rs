//! Bytes for records, replies and the rest of the state: in images, and under digests.
//!
//! Numbers are little-endian base 128 (seven bits a byte, the highest bit set on all but the last); byte strings are a
//! length and the bytes. Tags are never used for something else; see [`crate::image`] for the layout around them.

use crate::blob::Blob;
use crate::collections::CollectionCounts;
use crate::failure::Failure;
use crate::image::Malformed;
use crate::kept::ElementKey;
use crate::once::Outcome;
use crate::reply::Reply;
use crate::store::StoreKey;
use crate::value::{Collection, LIST_FRONTS, List, OpenBlock, Record, Stream, StreamId, Text, Value};
use base::{Revision, WallTime};

/// A reply inside replies inside replies …: deeper than any command answers.
const REPLY_DEPTH_MAX: usize = crate::json::DEPTH_MAX + 16;

const VALUE_STRING: u8 = 1;
const VALUE_HASH: u8 = 2;
const VALUE_SET: u8 = 3;
const VALUE_SORTED_SET: u8 = 4;
/// A list with an element of the collection for each of its own, as it was before version 11 of the state.
const VALUE_LIST_BY_PLACE: u8 = 5;
const VALUE_JSON: u8 = 6;
/// A hash with fields that expire.
const VALUE_HASH_FADING: u8 = 7;
const VALUE_STREAM: u8 = 8;
const VALUE_LIST: u8 = 9;

/// No state has so many bytes; sums of what is read stay within 64 bits.
const COLLECTION_BYTES_MAX: u64 = 1 << 48;

const REPLY_OK: u8 = 1;
const REPLY_NIL: u8 = 2;
const REPLY_NIL_ARRAY: u8 = 3;
const REPLY_INTEGER: u8 = 4;
const REPLY_BULK: u8 = 5;
const REPLY_SIMPLE: u8 = 6;
const REPLY_ERROR: u8 = 7;
const REPLY_ARRAY: u8 = 8;
const REPLY_MAP: u8 = 9;
const REPLY_SET: u8 = 10;
const REPLY_DOUBLE: u8 = 11;
const REPLY_BOOLEAN: u8 = 12;
const REPLY_PAIRS: u8 = 13;
const REPLY_BY_DIALECT: u8 = 14;
const REPLY_DECIMAL: u8 = 15;
const REPLY_NAMED: u8 = 16;
const REPLY_STATUS: u8 = 17;

/// Status words that replies are made of: they are static in memory, so reading one back looks it up here.
const STATUS_WORDS: &[&str] = &["none", "string", "hash", "set", "zset", "list", "ReJSON-RL", "stream"];

pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Deadlines are written as 0 for none, else one more than the milliseconds.
pub(crate) fn put_record(out: &mut Vec<u8>, key: &[u8], record: &Record) {
    put_bytes(out, key);
    put_value(out, record);
}

/// A record without its key.
pub(crate) fn put_value(out: &mut Vec<u8>, record: &Record) {
    put_number(out, record.deadline().map_or(0, |deadline| deadline.0 + 1));
    put_number(out, record.revision.0);
    match &record.value {
        Value::String(bytes) => {
            out.push(VALUE_STRING);
            put_bytes(out, bytes);
        }
        Value::Hash(collection) => {
            let tag = if collection.has_deadlines() { VALUE_HASH_FADING } else { VALUE_HASH };
            put_collection(out, tag, *collection);
        }
        Value::Set(collection) => put_collection(out, VALUE_SET, *collection),
        Value::SortedSet(collection) => put_collection(out, VALUE_SORTED_SET, *collection),
        Value::List(list) => {
            let tag = if list.is_by_place() { VALUE_LIST_BY_PLACE } else { VALUE_LIST };
            put_collection(out, tag, list.collection);
            put_number(out, list.front);
            if !list.is_by_place() {
                put_number(out, u64::from(list.own));
            }
        }
        Value::Stream(stream) => put_stream(out, stream),
        Value::Json(text) => {
            out.push(VALUE_JSON);
            put_bytes(out, text.as_slice());
        }
    }
}

/// All of the head: its collection, four numbers of groups and blocks, the open block, three identifiers, entries added.
fn put_stream(out: &mut Vec<u8>, stream: &Stream) {
    put_collection(out, VALUE_STREAM, stream.entries);
    let Stream { blocks, groups, group_bytes, held_bytes, open, .. } = *stream;
    let counts = [u64::from(blocks), u64::from(groups), group_bytes, held_bytes];
    let of_block = [open.added, open.live, open.bytes].map(u64::from);
    counts.into_iter().chain(of_block).for_each(|number| put_number(out, number));
    [open.first, stream.first, stream.last, stream.deleted].into_iter().for_each(|id| put_id(out, id));
    put_number(out, stream.added);
}

pub(crate) fn put_id(out: &mut Vec<u8>, id: StreamId) {
    put_number(out, id.ms);
    put_number(out, id.seq);
}

fn put_collection(out: &mut Vec<u8>, tag: u8, collection: Collection) {
    out.push(tag);
    let numbers = [collection.number(), collection.len(), collection.bytes()];
    numbers.into_iter().for_each(|number| put_number(out, number));
}

/// An element: the collection's number, the order (8 bytes, big-endian), name, value.
pub(crate) fn put_element(out: &mut Vec<u8>, key: &ElementKey, value: &Blob) {
    put_number(out, key.collection);
    out.extend_from_slice(&key.order.to_be_bytes());
    put_bytes(out, &key.name);
    put_bytes(out, value);
}

/// An outcome of `DICTUM.ONCE`.
pub(crate) fn put_outcome(out: &mut Vec<u8>, outcome: &Outcome) {
    put_bytes(out, &outcome.id);
    match outcome.command {
        Some(digest) => {
            out.push(1);
            put_number(out, digest);
        }
        None => out.push(0),
    }
    put_reply(out, &outcome.reply);
}

pub(crate) fn put_reply(out: &mut Vec<u8>, reply: &Reply) {
    match reply {
        Reply::Ok => out.push(REPLY_OK),
        Reply::Nil => out.push(REPLY_NIL),
        Reply::NilArray => out.push(REPLY_NIL_ARRAY),
        Reply::Integer(number) => {
            out.push(REPLY_INTEGER);
            out.extend_from_slice(&number.to_le_bytes());
        }
        Reply::Bulk(bytes) | Reply::Verbatim(bytes) => {
            out.push(REPLY_BULK);
            put_bytes(out, bytes);
        }
        Reply::Simple(text) => {
            // See `as_recorded`: a word that could not be read back as a status has become bytes before.
            out.push(if STATUS_WORDS.contains(text) { REPLY_SIMPLE } else { REPLY_BULK });
            put_bytes(out, text.as_bytes());
        }
        Reply::Status(text) => {
            out.push(REPLY_STATUS);
            put_bytes(out, text);
        }
        Reply::Error(failure) => {
            out.push(REPLY_ERROR);
            put_bytes(out, failure.to_string().as_bytes());
        }
        Reply::Array(items) => put_replies(out, REPLY_ARRAY, items.len(), items.iter()),
        Reply::Set(items) => put_replies(out, REPLY_SET, items.len(), items.iter()),
        Reply::Map(pairs) => {
            put_replies(out, REPLY_MAP, pairs.len(), pairs.iter().flat_map(|(key, value)| [key, value]));
        }
        Reply::Pairs(pairs) => {
            put_replies(out, REPLY_PAIRS, pairs.len(), pairs.iter().flat_map(|(one, other)| [one, other]));
        }
        Reply::Named(pairs) => {
            put_replies(out, REPLY_NAMED, pairs.len(), pairs.iter().flat_map(|(name, value)| [name, value]));
        }
        Reply::ByDialect(replies) => {
            out.push(REPLY_BY_DIALECT);
            replies.iter().for_each(|reply| put_reply(out, reply));
        }
        Reply::Double(number) => {
            out.push(REPLY_DOUBLE);
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        Reply::Decimal(number) => {
            out.push(REPLY_DECIMAL);
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        Reply::Boolean(yes) => out.extend_from_slice(&[REPLY_BOOLEAN, u8::from(*yes)]),
    }
}

/// A reply as it will be when it has been written and read back, so that it is the same before and after a restore.
pub(crate) fn as_recorded(reply: Reply) -> Reply {
    match reply {
        Reply::Simple(text) if !STATUS_WORDS.contains(&text) => Reply::bulk(text),
        Reply::Error(failure) => Reply::Error(Failure::Built(failure.to_string().into())),
        Reply::Array(items) => Reply::Array(items.into_iter().map(as_recorded).collect()),
        Reply::Set(items) => Reply::Set(items.into_iter().map(as_recorded).collect()),
        Reply::Map(pairs) => Reply::Map(pairs_as_recorded(pairs)),
        Reply::Pairs(pairs) => Reply::Pairs(pairs_as_recorded(pairs)),
        Reply::Named(pairs) => Reply::Named(pairs_as_recorded(pairs)),
        Reply::ByDialect(replies) => Reply::ByDialect(Box::new(replies.map(as_recorded))),
        other => other,
    }
}

fn pairs_as_recorded(pairs: Vec<(Reply, Reply)>) -> Vec<(Reply, Reply)> {
    pairs.into_iter().map(|(one, other)| (as_recorded(one), as_recorded(other))).collect()
}

fn put_replies<'a>(out: &mut Vec<u8>, tag: u8, count: usize, items: impl Iterator<Item = &'a Reply>) {
    out.push(tag);
    put_number(out, count as u64);
    for item in items {
        put_reply(out, item);
    }
}

/// Reads what the functions above wrote; anything else is [`Malformed`], never a panic.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed("it ends early"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn eight(&mut self) -> Result<[u8; 8], Malformed> {
        self.take(8)?.try_into().map_err(|_| Malformed("it ends early"))
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed("a number has more than 64 bits"));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed("a number has more than 64 bits"))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed("a length is out of range"))?;
        self.take(length)
    }

    pub(crate) fn record(&mut self) -> Result<(StoreKey, Record), Malformed> {
        let key = StoreKey::new(self.bytes()?);
        Ok((key, self.value()?))
    }

    /// An element of a collection: its place and its value.
    pub(crate) fn element(&mut self) -> Result<(ElementKey, Blob), Malformed> {
        let (collection, order) = (self.number()?, u64::from_be_bytes(self.eight()?));
        let name = Blob::new(self.bytes()?);
        Ok((ElementKey { collection, order, name }, Blob::new(self.bytes()?)))
    }

    /// A record without its key.
    pub(crate) fn value(&mut self) -> Result<Record, Malformed> {
        let deadline = self.number()?.checked_sub(1).map(WallTime);
        let revision = Revision(self.number()?);
        let value = match self.byte()? {
            VALUE_STRING => Value::String(Blob::new(self.bytes()?)),
            VALUE_HASH => Value::Hash(self.collection()?),
            VALUE_HASH_FADING => Value::Hash(self.collection()?.with_deadlines(true)),
            VALUE_SET => Value::Set(self.collection()?),
            VALUE_SORTED_SET => Value::SortedSet(self.collection()?),
            VALUE_LIST => Value::List(Box::new(self.list()?)),
            VALUE_LIST_BY_PLACE => Value::List(Box::new(List { own: List::BY_PLACE, ..self.list_head()? })),
            VALUE_STREAM => Value::Stream(Box::new(self.stream()?)),
            VALUE_JSON => Value::Json(Text::new(self.bytes()?)),
            _ => return Err(Malformed("a value has an unknown type")),
        };
        let mut record = Record::new(value, deadline);
        record.revision = revision;
        Ok(record)
    }

    fn list(&mut self) -> Result<List, Malformed> {
        let list = self.list_head()?;
        let own = u32::try_from(self.number()?).ok().filter(|own| u64::from(*own) <= list.len());
        let own = own.filter(|own| *own != List::BY_PLACE);
        let own = own.ok_or(Malformed("a list says that more of its elements stand by themselves than it has"))?;
        Ok(List { own, ..list })
    }

    /// What lists of both layouts have.
    fn list_head(&mut self) -> Result<List, Malformed> {
        let (collection, front) = (self.collection()?, self.number()?);
        if !LIST_FRONTS.contains(&front) {
            return Err(Malformed("a list begins where none comes to"));
        }
        Ok(List { collection, front, own: 0 })
    }

    fn collection(&mut self) -> Result<Collection, Malformed> {
        let collection = self.collection_or_empty()?;
        if collection.is_empty() { Err(Malformed("the size of a collection is out of range")) } else { Ok(collection) }
    }

    /// As a stream or a group of one may be.
    pub(crate) fn collection_or_empty(&mut self) -> Result<Collection, Malformed> {
        let (number, len, bytes) = (self.number()?, self.number()?, self.number()?);
        match u32::try_from(len) {
            Ok(len) if bytes <= COLLECTION_BYTES_MAX => Ok(Collection::new(number, len, bytes)),
            _ => Err(Malformed("the size of a collection is out of range")),
        }
    }

    fn small(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed("a number of a stream is out of range"))
    }

    pub(crate) fn id(&mut self) -> Result<StreamId, Malformed> {
        Ok(StreamId { ms: self.number()?, seq: self.number()? })
    }

    fn stream(&mut self) -> Result<Stream, Malformed> {
        let entries = self.collection_or_empty()?;
        let (blocks, groups) = (self.small()?, self.small()?);
        let (group_bytes, held_bytes) = (self.number()?, self.number()?);
        if group_bytes.max(held_bytes) > COLLECTION_BYTES_MAX {
            return Err(Malformed("the size of a stream is out of range"));
        }
        let (added, live, bytes) = (self.small()?, self.small()?, self.small()?);
        let open = OpenBlock { first: self.id()?, added, live, bytes };
        let (first, last, deleted) = (self.id()?, self.id()?, self.id()?);
        let added = self.number()?;
        Ok(Stream { entries, first, last, deleted, added, blocks, open, groups, group_bytes, held_bytes })
    }

    pub(crate) fn collection_counts(&mut self) -> Result<CollectionCounts, Malformed> {
        CollectionCounts::from_numbers([self.number()?, self.number()?, self.number()?, self.number()?])
    }

    /// An outcome; those of the first version had no digest.
    pub(crate) fn outcome(&mut self, with_digest: bool) -> Result<Outcome, Malformed> {
        let id = Blob::new(self.bytes()?);
        let command = match if with_digest { self.byte()? } else { 0 } {
            0 => None,
            1 => Some(self.number()?),
            _ => return Err(Malformed("an outcome's digest is neither there nor not")),
        };
        Ok(Outcome { id, command, reply: self.reply()? })
    }

    pub(crate) fn reply(&mut self) -> Result<Reply, Malformed> {
        self.reply_at(0)
    }

    fn reply_at(&mut self, depth: usize) -> Result<Reply, Malformed> {
        if depth > REPLY_DEPTH_MAX {
            return Err(Malformed("a reply is nested too deep"));
        }
        Ok(match self.byte()? {
            REPLY_OK => Reply::Ok,
            REPLY_NIL => Reply::Nil,
            REPLY_NIL_ARRAY => Reply::NilArray,
            REPLY_INTEGER => Reply::Integer(i64::from_le_bytes(self.eight()?)),
            REPLY_BULK => Reply::bulk(self.bytes()?),
            REPLY_SIMPLE => {
                let text = self.bytes()?;
                let word = STATUS_WORDS.iter().find(|word| word.as_bytes() == text);
                Reply::Simple(word.ok_or(Malformed("a status is unknown"))?)
            }
            REPLY_STATUS => Reply::Status(Blob::new(self.bytes()?)),
            REPLY_ERROR => Reply::Error(Failure::built(self.bytes()?)),
            REPLY_ARRAY => Reply::Array(self.replies(depth)?),
            REPLY_SET => Reply::Set(self.replies(depth)?),
            REPLY_MAP => Reply::Map(self.pairs(depth)?),
            REPLY_PAIRS => Reply::Pairs(self.pairs(depth)?),
            REPLY_NAMED => Reply::Named(self.pairs(depth)?),
            REPLY_BY_DIALECT => Reply::by_dialect(self.reply_at(depth + 1)?, self.reply_at(depth + 1)?),
            REPLY_DOUBLE => Reply::Double(f64::from_bits(u64::from_le_bytes(self.eight()?))),
            REPLY_DECIMAL => Reply::Decimal(f64::from_bits(u64::from_le_bytes(self.eight()?))),
            REPLY_BOOLEAN => Reply::Boolean(self.byte()? != 0),
            _ => return Err(Malformed("a reply has an unknown kind")),
        })
    }

    fn pairs(&mut self, depth: usize) -> Result<Vec<(Reply, Reply)>, Malformed> {
        let mut pairs = Vec::new();
        for _ in 0..self.number()? {
            pairs.push((self.reply_at(depth + 1)?, self.reply_at(depth + 1)?));
        }
        Ok(pairs)
    }

    /// Nothing is reserved for the count that is read: each item needs at least a byte that must be there.
    fn replies(&mut self, depth: usize) -> Result<Vec<Reply>, Malformed> {
        let mut items = Vec::new();
        for _ in 0..self.number()? {
            items.push(self.reply_at(depth + 1)?);
        }
        Ok(items)
    }
}

impl Reply {
    /// Appends the reply in the form that images and peers use.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_reply(out, self);
    }

    /// Reads back what [`Reply::encode`] wrote.
    ///
    /// # Errors
    /// If the bytes are not one whole reply.
    pub fn decode(bytes: &[u8]) -> Result<Reply, Malformed> {
        let mut reader = Reader::new(bytes);
        let reply = reader.reply()?;
        if reader.is_at_end() { Ok(reply) } else { Err(Malformed("bytes follow a reply")) }
    }
}
