//! `DUMP`'s payload: a value in the format of Redis's RDB files, with a version and a checksum behind it.
//!
//! ```text
//! | type (1) | value … | RDB version (2, little-endian) | CRC-64 of all before (8, little-endian) |
//!
//! string (type 0), by the two highest bits of its first byte:
//!   00LLLLLL                        that many bytes follow
//!   01LLLLLL LLLLLLLL               that many bytes follow, big-endian
//!   10000000 | length (4)           big-endian
//!   10000001 | length (8)           big-endian
//!   110000ss | integer (1, 2 or 4)  little-endian, signed; ss = 0, 1, 2: its decimal text
//!   11000011 | compressed length | length | LZF
//!
//! hash (type 4)                     length, field, value, field, value, …: each a string as above
//! hash (types 13 and 16)            one string: a ziplist or a listpack of fields and values (`dump/packed.rs`)
//!
//! hash (type 24, since Redis 7.4)   soonest deadline of a field (8, little-endian, ms), length, and of each field: deadline less the soonest + 1, or 0 (a length), field, value
//! hash (type 25)                    soonest deadline (8), one string: a listpack of fields, values and deadlines or 0
//!
//! set (type 2)                      length, member, member, …: each a string as above
//! set (type 11)                     one string: whole numbers (`dump/packed.rs`)
//! set (type 20)                     one string: a listpack of members
//!
//! sorted set (type 5)               length, member, score, member, score, …: members are strings as above, scores IEEE 754 numbers (8, little-endian)
//! sorted set (type 3)               the same, scores as text behind its length (1), or 253: not a number, 254: inf, 255: -inf
//! sorted set (types 12 and 17)      one string: a ziplist or a listpack of members and scores as text
//!
//! list (type 1)                     length, element, element, …: each a string as above
//! list (type 10)                    one string: a ziplist of elements
//! list (type 14)                    length, and so many strings: ziplists of elements
//! list (type 18)                    length, and so many nodes: 1 and one element, or 2 and a listpack of elements
//!
//! stream (types 15, 19 and 21)      see `dump/streams.rs`
//!
//! JSON document (type 7)            10000001 | module (8): "ReJSON-RL", version 3 | 5 | its text, a string as above | 0
//! ```
//! Hashes are written as type 4, or 24 if fields expire, sets as type 2, lists as type 1, streams as type 19, sorted sets as type 5, which every Redis reads, whatever a Redis would write for their size.

mod libraries;
mod packed;
mod streams;

pub(crate) use libraries::{dump_libraries, restore_libraries};
pub use streams::{DumpedConsumer, DumpedGroup, DumpedStream};
pub(crate) use streams::{TYPE as TYPE_STREAM, dump_stream, write_stream};

use super::lzf;
use crate::args::parse_integer;
use crate::blob::Blob;
use crate::commands::sorted::bounds::parse_score;
use crate::json;
use crate::json::read::Given;
use crate::meter::{BYTES_PER_UNIT, Meter};
use crate::value::Text;
use base::WallTime;
use base::checksum::crc64_redis;
use base::limits::VALUE_BYTES_MAX;

/// Written into payloads: that of Redis 7.0. Strings have looked alike since long before, and every Redis takes
/// payloads that are older than itself, but none that are newer.
const VERSION_WRITTEN: u16 = 10;
/// Of hashes with fields that expire: that of Redis 7.4, the first that has them.
const VERSION_OF_FADING: u16 = 12;
/// The newest version read: that of Redis 8.10, whose strings still look the same.
pub(crate) const VERSION_READ_MAX: u16 = 15;

/// The type of a string.
pub(crate) const TYPE_STRING: u8 = 0;
/// The types of a hash: fields and values one by one; all in a ziplist (before Redis 7); all in a listpack.
pub(crate) const TYPE_HASH: u8 = 4;
const TYPE_HASH_ZIPLIST: u8 = 13;
const TYPE_HASH_LISTPACK: u8 = 16;

/// The types of a hash with fields that expire: one by one; all in a listpack.
pub(crate) const TYPE_HASH_FADING: u8 = 24;
const TYPE_HASH_FADING_LISTPACK: u8 = 25;

/// The types of a set: members one by one; all in a set of integers; all in a listpack (since Redis 7.2).
pub(crate) const TYPE_SET: u8 = 2;
const TYPE_SET_INTEGERS: u8 = 11;
const TYPE_SET_LISTPACK: u8 = 20;

/// The types of a sorted set: with scores as text (before Redis 4); with binary scores; all in a ziplist; all in a listpack.
const TYPE_SORTED_SET_TEXT: u8 = 3;
pub(crate) const TYPE_SORTED_SET: u8 = 5;
const TYPE_SORTED_SET_ZIPLIST: u8 = 12;
const TYPE_SORTED_SET_LISTPACK: u8 = 17;

/// The types of a list: elements one by one; all in a ziplist; in several ziplists; in several listpacks and single elements (since Redis 7).
pub(crate) const TYPE_LIST: u8 = 1;
const TYPE_LIST_ZIPLIST: u8 = 10;
const TYPE_LIST_ZIPLISTS: u8 = 14;
const TYPE_LIST_LISTPACKS: u8 = 18;
/// What a node of the last of them is: one element, or a listpack.
const NODE_PLAIN: usize = 1;
const NODE_PACKED: usize = 2;

/// The type of what a module keeps, and what names the module: nine characters of six bits, "ReJSON-RL", and the version of its format.
pub(crate) const TYPE_MODULE: u8 = 7;
const JSON_MODULE: u64 = 0x45e2_5238_df91_2c03;
/// What stands before a string that a module has written, and at the end.
const MODULE_STRING: usize = 5;
const MODULE_END: usize = 0;

const INTEGER_8: u8 = 0xc0;
const INTEGER_16: u8 = 0xc1;
const INTEGER_32: u8 = 0xc2;
const COMPRESSED: u8 = 0xc3;
const LENGTH_32: u8 = 0x80;
const LENGTH_64: u8 = 0x81;

/// Strings up to this long are not worth compressing: that of Redis.
const UNCOMPRESSED_BYTES_MAX: usize = 20;

/// Why a payload was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// Too short, from a newer Redis, or altered.
    VersionOrChecksum,
    /// Intact, but nothing that this format describes.
    Format,
}

/// What a payload holds.
#[derive(Clone, PartialEq, Debug)]
pub enum Dumped {
    /// A string.
    String(Vec<u8>),
    /// A list: elements in their order.
    List(Vec<Blob>),
    /// A stream, with its groups.
    Stream(DumpedStream),
    /// A JSON document, as it is kept.
    Json(Text),
    /// A hash: fields, each once, with their values and deadlines.
    Hash(Vec<(Blob, Blob, Option<WallTime>)>),
    /// A set: members, each once.
    Set(Vec<Blob>),
    /// A sorted set: members, each once, with their scores.
    SortedSet(Vec<(Blob, f64)>),
}

/// The payload of the string `value`.
#[must_use]
pub fn dump_string(value: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(value.len().min(1 << 20) + 16);
    payload.push(TYPE_STRING);
    put_string(&mut payload, value);
    with_footer(payload)
}

/// The payload of a hash of `len` fields.
pub fn dump_hash(len: u64, fields: impl Iterator<Item = (Blob, Blob)>) -> Vec<u8> {
    let mut payload = vec![TYPE_HASH];
    put_length(&mut payload, usize::try_from(len).unwrap_or(usize::MAX));
    for (field, value) in fields {
        put_string(&mut payload, &field);
        put_string(&mut payload, &value);
    }
    with_footer(payload)
}

/// The payload of a hash of which some fields expire, the first of them at `soonest`.
#[must_use]
pub fn dump_fading_hash(soonest: WallTime, fields: &[(Blob, Blob, Option<WallTime>)]) -> Vec<u8> {
    let mut payload = vec![TYPE_HASH_FADING];
    payload.extend(soonest.0.to_le_bytes());
    put_length(&mut payload, fields.len());
    for (field, value, deadline) in fields {
        put_length(&mut payload, after(soonest, *deadline));
        put_string(&mut payload, field);
        put_string(&mut payload, value);
    }
    with_footer_of(payload, VERSION_OF_FADING)
}

/// How a field's deadline stands in a payload.
pub(crate) fn after(soonest: WallTime, deadline: Option<WallTime>) -> usize {
    deadline.map_or(0, |deadline| deadline.0.saturating_sub(soonest.0) as usize + 1)
}

/// The payload of a set of `len` members.
pub fn dump_set(len: u64, members: impl Iterator<Item = Blob>) -> Vec<u8> {
    let mut payload = vec![TYPE_SET];
    put_length(&mut payload, usize::try_from(len).unwrap_or(usize::MAX));
    members.for_each(|member| put_string(&mut payload, &member));
    with_footer(payload)
}

/// The payload of a sorted set of `len` members.
pub fn dump_sorted(len: u64, members: impl Iterator<Item = (Blob, f64)>) -> Vec<u8> {
    let mut payload = vec![TYPE_SORTED_SET];
    put_length(&mut payload, usize::try_from(len).unwrap_or(usize::MAX));
    for (member, score) in members {
        put_string(&mut payload, &member);
        payload.extend(score.to_le_bytes());
    }
    with_footer(payload)
}

fn with_footer(payload: Vec<u8>) -> Vec<u8> {
    with_footer_of(payload, VERSION_WRITTEN)
}

fn with_footer_of(mut payload: Vec<u8>, version: u16) -> Vec<u8> {
    payload.extend(version.to_le_bytes());
    payload.extend(crc64_redis(&payload).to_le_bytes());
    payload
}

/// The payload of a list of `len` elements.
pub fn dump_list(len: u64, elements: impl Iterator<Item = Blob>) -> Vec<u8> {
    let mut payload = vec![TYPE_LIST];
    put_length(&mut payload, usize::try_from(len).unwrap_or(usize::MAX));
    elements.for_each(|element| put_string(&mut payload, &element));
    with_footer(payload)
}

/// The payload of the JSON document of this text.
#[must_use]
pub fn dump_json(text: &[u8]) -> Vec<u8> {
    let mut payload = vec![TYPE_MODULE];
    put_json(&mut payload, text);
    with_footer(payload)
}

/// The value of the type of modules that is the JSON document of this text.
pub(crate) fn put_json(payload: &mut Vec<u8>, text: &[u8]) {
    payload.push(LENGTH_64);
    payload.extend(JSON_MODULE.to_be_bytes());
    put_length(payload, MODULE_STRING);
    put_string(payload, text);
    put_length(payload, MODULE_END);
}

/// Refuses a payload that was altered, without reading what it holds.
pub fn check(payload: &[u8]) -> Result<(), Damage> {
    checked_body(payload).map(drop)
}

/// What `payload` holds. That may be much more than its own length: every string and every element pays before it is made, and reading ends when the meter
/// does.
pub fn restore(payload: &[u8], meter: &Meter) -> Result<Dumped, Damage> {
    read_value(checked_body(payload)?, meter).ok_or(Damage::Format)
}

/// A payload with this body, which a Redis has written with that version of its files.
pub(crate) fn sealed(body: Vec<u8>, version: u16) -> Vec<u8> {
    with_footer_of(body, version)
}

/// A payload with this body, whatever that is: the fuzzer's would never have the right checksum.
pub(crate) fn resealed(body: &[u8]) -> Vec<u8> {
    with_footer(body.to_vec())
}

/// What stands before the footer, if that is in order.
fn checked_body(payload: &[u8]) -> Result<&[u8], Damage> {
    let (checked, checksum) = payload.split_last_chunk::<8>().ok_or(Damage::VersionOrChecksum)?;
    let (body, version) = checked.split_last_chunk::<2>().ok_or(Damage::VersionOrChecksum)?;
    if u16::from_le_bytes(*version) > VERSION_READ_MAX {
        return Err(Damage::VersionOrChecksum);
    }
    if u64::from_le_bytes(*checksum) != crc64_redis(checked) {
        return Err(Damage::VersionOrChecksum);
    }
    Ok(body)
}

pub(crate) fn put_string(payload: &mut Vec<u8>, value: &[u8]) {
    // Eleven characters hold every 32-bit integer; longer ones are written as text.
    match parse_integer(value).filter(|_| value.len() <= 11).map(i32::try_from) {
        Some(Ok(integer)) => put_integer(payload, integer),
        _ => put_text(payload, value),
    }
}

fn put_integer(payload: &mut Vec<u8>, integer: i32) {
    if let Ok(small) = i8::try_from(integer) {
        payload.push(INTEGER_8);
        payload.extend(small.to_le_bytes());
    } else if let Ok(medium) = i16::try_from(integer) {
        payload.push(INTEGER_16);
        payload.extend(medium.to_le_bytes());
    } else {
        payload.push(INTEGER_32);
        payload.extend(integer.to_le_bytes());
    }
}

fn put_text(payload: &mut Vec<u8>, value: &[u8]) {
    let compressed = (value.len() > UNCOMPRESSED_BYTES_MAX).then(|| lzf::compress(value)).flatten();
    if let Some(compressed) = compressed {
        payload.push(COMPRESSED);
        put_length(payload, compressed.len());
        put_length(payload, value.len());
        payload.extend(compressed);
    } else {
        put_length(payload, value.len());
        payload.extend_from_slice(value);
    }
}

pub(crate) fn put_length(payload: &mut Vec<u8>, length: usize) {
    match length {
        0..=0x3f => payload.push(length as u8),
        0x40..=0x3fff => payload.extend((length as u16 | 0x4000).to_be_bytes()),
        _ => match u32::try_from(length) {
            Ok(length) => {
                payload.push(LENGTH_32);
                payload.extend(length.to_be_bytes());
            }
            Err(_) => {
                payload.push(LENGTH_64);
                payload.extend((length as u64).to_be_bytes());
            }
        },
    }
}

/// Bytes behind the value are ignored, as Redis ignores them.
fn read_value(body: &[u8], meter: &Meter) -> Option<Dumped> {
    let (kind, mut rest) = body.split_first()?;
    match *kind {
        TYPE_STRING => read_string(&mut rest, meter).map(Dumped::String),
        TYPE_MODULE => read_json(rest, meter),
        streams::TYPE_OLD | streams::TYPE | streams::TYPE_NEW => {
            streams::read_stream(*kind, rest, meter).map(Dumped::Stream)
        }
        TYPE_LIST => list_of(read_words(rest, 1, meter)?),
        TYPE_LIST_ZIPLIST => list_of(packed::ziplist(&read_string(&mut rest, meter)?, meter)?),
        TYPE_LIST_ZIPLISTS => read_nodes(rest, false, meter),
        TYPE_LIST_LISTPACKS => read_nodes(rest, true, meter),
        TYPE_HASH => hash_of(read_words(rest, 2, meter)?, meter),
        TYPE_HASH_ZIPLIST => hash_of(packed::ziplist(&read_string(&mut rest, meter)?, meter)?, meter),
        TYPE_HASH_LISTPACK => hash_of(packed::listpack(&read_string(&mut rest, meter)?, meter)?, meter),
        TYPE_HASH_FADING => read_fading(rest, meter),
        TYPE_HASH_FADING_LISTPACK => {
            let (_, mut rest) = rest.split_first_chunk::<8>()?;
            fading_of_words(packed::listpack(&read_string(&mut rest, meter)?, meter)?, meter)
        }
        TYPE_SET => set_of(read_words(rest, 1, meter)?, meter),
        TYPE_SET_INTEGERS => set_of(packed::integers(&read_string(&mut rest, meter)?, meter)?, meter),
        TYPE_SET_LISTPACK => set_of(packed::listpack(&read_string(&mut rest, meter)?, meter)?, meter),
        TYPE_SORTED_SET => read_sorted(rest, read_score, meter),
        TYPE_SORTED_SET_TEXT => read_sorted(rest, read_score_text, meter),
        TYPE_SORTED_SET_ZIPLIST => sorted_of_words(&packed::ziplist(&read_string(&mut rest, meter)?, meter)?, meter),
        TYPE_SORTED_SET_LISTPACK => sorted_of_words(&packed::listpack(&read_string(&mut rest, meter)?, meter)?, meter),
        _ => None,
    }
}

/// A length and so many elements, each of `words_each` strings.
fn read_words(rest: &[u8], words_each: usize, meter: &Meter) -> Option<Vec<Blob>> {
    let (len, mut rest) = read_length(rest)?;
    let mut words = Vec::new();
    // Nothing is reserved for the count that is read. Compressed words are longer than the payload: they have a limit together.
    let mut bytes = 0;
    for _ in 0..len.checked_mul(words_each)? {
        let word = read_string(&mut rest, meter)?;
        bytes += word.len();
        if bytes > VALUE_BYTES_MAX {
            return None;
        }
        words.push(Blob::from(word));
    }
    Some(words)
}

/// A Redis takes no list without elements.
fn list_of(elements: Vec<Blob>) -> Option<Dumped> {
    (!elements.is_empty()).then_some(Dumped::List(elements))
}

/// The nodes of a quicklist: each a ziplist, or a listpack or a single element, which a number before it tells.
fn read_nodes(rest: &[u8], are_told: bool, meter: &Meter) -> Option<Dumped> {
    let (len, mut rest) = read_length(rest)?;
    let (mut elements, mut bytes) = (Vec::new(), 0);
    for _ in 0..len {
        let mut kind = NODE_PACKED;
        if are_told {
            (kind, rest) = read_length(rest)?;
        }
        let node = read_string(&mut rest, meter)?;
        bytes += node.len();
        if bytes > VALUE_BYTES_MAX {
            return None;
        }
        match (are_told, kind) {
            (false, _) => elements.extend(packed::ziplist(&node, meter)?),
            (true, NODE_PACKED) => elements.extend(packed::listpack(&node, meter)?),
            (true, NODE_PLAIN) => elements.push(Blob::from(node)),
            _ => return None,
        }
    }
    list_of(elements)
}

/// A module's value, if the module is RedisJSON.
fn read_json(rest: &[u8], meter: &Meter) -> Option<Dumped> {
    let (id, rest) = rest.strip_prefix(&[LENGTH_64])?.split_first_chunk::<8>()?;
    let (kind, mut rest) = read_length(rest)?;
    if u64::from_be_bytes(*id) != JSON_MODULE || kind != MODULE_STRING {
        return None;
    }
    let document = Given::parse(&read_string(&mut rest, meter)?).and_then(|text| text.read(meter)).ok()?;
    read_length(rest).filter(|(end, _)| *end == MODULE_END)?;
    json::to_text(&document, VALUE_BYTES_MAX as u64, meter).ok().map(Dumped::Json)
}

/// Fields that expire, one by one.
fn read_fading(rest: &[u8], meter: &Meter) -> Option<Dumped> {
    let (soonest, rest) = rest.split_first_chunk::<8>()?;
    let soonest = u64::from_le_bytes(*soonest);
    let (len, mut rest) = read_length(rest)?;
    let (mut fields, mut bytes) = (Vec::new(), 0);
    for _ in 0..len {
        let (later, after) = read_length(rest)?;
        rest = after;
        let deadline = match later.checked_sub(1) {
            Some(later) => Some(read_deadline(soonest.checked_add(later as u64)?)?),
            None => None,
        };
        let (field, value) = (read_string(&mut rest, meter)?, read_string(&mut rest, meter)?);
        bytes += field.len() + value.len();
        if bytes > VALUE_BYTES_MAX {
            return None;
        }
        fields.push((Blob::from(field), Blob::from(value), deadline));
    }
    hash_of_fields(fields, meter)
}

/// Fields, values and deadlines in turn.
fn fading_of_words(words: Vec<Blob>, meter: &Meter) -> Option<Dumped> {
    if !words.len().is_multiple_of(3) {
        return None;
    }
    let field = |words: &[Blob]| {
        let deadline = match u64::try_from(parse_integer(&words[2])?).ok()? {
            0 => None,
            deadline => Some(read_deadline(deadline)?),
        };
        Some((words[0].clone(), words[1].clone(), deadline))
    };
    hash_of_fields(words.chunks_exact(3).map(field).collect::<Option<Vec<_>>>()?, meter)
}

/// No field of a Redis expires later.
fn read_deadline(deadline: u64) -> Option<WallTime> {
    const DEADLINE_MAX: u64 = 1 << 48;
    (deadline < DEADLINE_MAX).then_some(WallTime(deadline))
}

/// Members with scores, each read by `score`.
fn read_sorted(rest: &[u8], score: fn(&mut &[u8]) -> Option<f64>, meter: &Meter) -> Option<Dumped> {
    let (len, mut rest) = read_length(rest)?;
    let (mut members, mut bytes) = (Vec::new(), 0);
    for _ in 0..len {
        let member = read_string(&mut rest, meter)?;
        bytes += member.len();
        if bytes > VALUE_BYTES_MAX {
            return None;
        }
        members.push((Blob::from(member), score(&mut rest)?));
    }
    sorted_of(members, meter)
}

fn read_score(rest: &mut &[u8]) -> Option<f64> {
    let (bytes, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(f64::from_le_bytes(*bytes))
}

fn read_score_text(rest: &mut &[u8]) -> Option<f64> {
    let (length, after) = rest.split_first()?;
    let (text, after) = match length {
        253 => return None,
        254 => (&b"inf"[..], after),
        255 => (&b"-inf"[..], after),
        length => after.split_at_checked(usize::from(*length))?,
    };
    *rest = after;
    parse_score(text)
}

fn sorted_of_words(words: &[Blob], meter: &Meter) -> Option<Dumped> {
    let pairs = words.chunks(2).map(|pair| Some((pair[0].clone(), parse_score(pair.get(1)?)?)));
    sorted_of(pairs.collect::<Option<Vec<_>>>()?, meter)
}

/// A Redis takes no sorted set without members, none that has one twice, and no score that is not a number.
fn sorted_of(members: Vec<(Blob, f64)>, meter: &Meter) -> Option<Dumped> {
    let fits = !members.is_empty()
        && are_different(members.iter().map(|(member, _)| member), meter)
        && !members.iter().any(|(_, score)| score.is_nan());
    fits.then_some(Dumped::SortedSet(members))
}

/// A Redis takes no set without members, and none that has one twice.
fn set_of(members: Vec<Blob>, meter: &Meter) -> Option<Dumped> {
    (!members.is_empty() && are_different(members.iter(), meter)).then_some(Dumped::Set(members))
}

/// Whether no word comes twice. Each is compared about as often as their number has digits.
fn are_different<'w>(words: impl Iterator<Item = &'w Blob>, meter: &Meter) -> bool {
    let mut words: Vec<&Blob> = words.collect();
    let digits = u64::from(words.len().max(1).ilog2() + 1);
    let bytes: u64 = words.iter().map(|word| word.len() as u64).sum();
    if !meter.spend(digits.saturating_mul(words.len() as u64 + bytes / BYTES_PER_UNIT)) {
        return false;
    }
    words.sort_unstable();
    words.windows(2).all(|pair| pair[0] != pair[1])
}

/// Fields and values in turn; a Redis takes no hash without fields, and none that has one twice.
fn hash_of(words: Vec<Blob>, meter: &Meter) -> Option<Dumped> {
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return None;
    }
    let mut words = words.into_iter();
    let mut fields = Vec::new();
    while let (Some(field), Some(value)) = (words.next(), words.next()) {
        fields.push((field, value, None));
    }
    hash_of_fields(fields, meter)
}

fn hash_of_fields(fields: Vec<(Blob, Blob, Option<WallTime>)>, meter: &Meter) -> Option<Dumped> {
    let fits = !fields.is_empty() && are_different(fields.iter().map(|(field, ..)| field), meter);
    fits.then_some(Dumped::Hash(fields))
}

/// The string at the front of `rest`, which is moved behind it. `None` past the limit, too: nothing is made then.
fn read_string(rest: &mut &[u8], meter: &Meter) -> Option<Vec<u8>> {
    let pays = |bytes: usize| (meter.visit(0) && meter.make(bytes)).then_some(());
    let text_of = |integer: i32| Some(integer.to_string().into_bytes());
    let (text, after) = match *rest {
        [INTEGER_8, byte, after @ ..] => (text_of(i32::from(*byte as i8))?, after),
        [INTEGER_16, a, b, after @ ..] => (text_of(i32::from(i16::from_le_bytes([*a, *b])))?, after),
        [INTEGER_32, a, b, c, d, after @ ..] => (text_of(i32::from_le_bytes([*a, *b, *c, *d]))?, after),
        [COMPRESSED, after @ ..] => {
            let (compressed, after) = read_length(after)?;
            let (length, after) = read_length(after)?;
            if compressed == 0 || length > VALUE_BYTES_MAX {
                return None;
            }
            let (compressed, after) = after.split_at_checked(compressed)?;
            pays(length)?;
            (lzf::decompress(compressed, length)?, after)
        }
        value => {
            let (length, after) = read_length(value)?;
            let (text, after) = after.split_at_checked(length)?;
            pays(length)?;
            (text.to_vec(), after)
        }
    };
    *rest = after;
    Some(text)
}

/// A length, and what follows it; `None` for the integers and compressed strings that begin with the bits 11.
fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (length, rest) = match bytes {
        [first @ ..=0x3f, rest @ ..] => (u64::from(*first), rest),
        [first @ 0x40..=0x7f, low, rest @ ..] => (u64::from(*first & 0x3f) << 8 | u64::from(*low), rest),
        [LENGTH_32, rest @ ..] => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            (u64::from(u32::from_be_bytes(*length)), rest)
        }
        [LENGTH_64, rest @ ..] => {
            let (length, rest) = rest.split_first_chunk::<8>()?;
            (u64::from_be_bytes(*length), rest)
        }
        _ => return None,
    };
    Some((usize::try_from(length).ok()?, rest))
}

#[cfg(test)]
mod tests;
