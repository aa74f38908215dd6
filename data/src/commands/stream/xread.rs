//! `XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]`

use super::ids;
use crate::args::parse_integer;
use crate::commands::prelude::*;
use crate::value::{Stream, StreamId};
use base::limits::REPLY_BYTES_MAX;

/// Longest time that a client may wait, in milliseconds: with a clock it is still a moment of 63 bits.
const BLOCK_MS_MAX: i64 = i64::MAX - (1 << 42);

/// Where reading of a stream begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Behind this identifier.
    After(StreamId),
    /// `$`: behind all that there is.
    End,
    /// `+`: at the last entry.
    Last,
    /// `>`: behind what the group has been given.
    New,
}

/// What `XREAD` and `XREADGROUP` ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading<'a> {
    /// The streams, as many as `places`.
    pub keys: &'a [&'a [u8]],
    /// Where each is read from.
    pub places: Vec<Place>,
    /// Most entries of each stream.
    pub count: usize,
    /// How long the client wants to wait if there is nothing yet ([`is_nothing`]), in milliseconds; 0: for ever. None: not at all.
    pub block: Option<u64>,
    /// The group and the consumer, of `XREADGROUP`.
    pub group: Option<(&'a [u8], &'a [u8])>,
    /// What is delivered is not pending.
    pub no_ack: bool,
}

/// Whether an answer to `XREAD` or `XREADGROUP` says that there is nothing yet: a client that blocks waits then.
#[must_use]
pub fn is_nothing(reply: &Reply) -> bool {
    matches!(reply, Reply::NilArray)
}

fn block_ms(text: &[u8]) -> Result<u64, Failure> {
    match parse_integer(text) {
        None => Err(Failure::Text("ERR timeout is not an integer or out of range")),
        Some(..0) => Err(Failure::Text("ERR timeout is negative")),
        Some(BLOCK_MS_MAX..) => Err(Failure::Text("ERR timeout is out of range")),
        Some(milliseconds) => Ok(milliseconds.unsigned_abs()),
    }
}

impl<'a> Reading<'a> {
    /// Reads the arguments of either command.
    pub fn parse(args: Args<'a>, is_group: bool) -> Result<Self, Failure> {
        let mut reading =
            Reading { keys: &[], places: Vec::new(), count: usize::MAX, block: None, group: None, no_ack: false };
        let mut index = 1;
        let streams = loop {
            if index >= args.len() {
                return Err(Failure::Syntax);
            }
            let more = args.len() - index - 1;
            if args.is(index, "BLOCK") && more > 0 {
                index += 1;
                reading.block = Some(block_ms(args.get(index)?)?);
            } else if args.is(index, "COUNT") && more > 0 {
                index += 1;
                let count = args.integer(index)?;
                reading.count = usize::try_from(count).ok().filter(|count| *count > 0).unwrap_or(usize::MAX);
            } else if args.is(index, "STREAMS") && more > 0 {
                break args.from(index + 1);
            } else if args.is(index, "GROUP") && more > 1 {
                if !is_group {
                    return Err(Failure::Text(
                        "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                reading.group = Some((args.get(index + 1)?, args.get(index + 2)?));
                index += 2;
            } else if args.is(index, "NOACK") {
                if !is_group {
                    return Err(Failure::Text(
                        "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                reading.no_ack = true;
            } else {
                return Err(Failure::Syntax);
            }
            index += 1;
        };
        if !streams.len().is_multiple_of(2) {
            let (name, mark) = if is_group { ("xreadgroup", '>') } else { ("xread", '$') };
            let text = format!(
                "ERR Unbalanced '{name}' list of streams: for each stream key an ID or '{mark}' must be specified."
            );
            return Err(Failure::built(text.as_bytes()));
        }
        if is_group && reading.group.is_none() {
            return Err(Failure::Text("ERR Missing GROUP option for XREADGROUP"));
        }
        let (keys, places) = streams.split_at(streams.len() / 2);
        reading.keys = keys;
        reading.places = places.iter().map(|text| place(text, is_group)).collect::<Result<_, _>>()?;
        Ok(reading)
    }
}

fn place(text: &[u8], is_group: bool) -> Result<Place, Failure> {
    Ok(match (text, is_group) {
        (b"$", false) => Place::End,
        (b"+", false) => Place::Last,
        (b">", true) => Place::New,
        (b"$", true) => {
            return Err(Failure::Text(
                "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
                 specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
            ));
        }
        (b"+", true) => {
            return Err(Failure::Text(
                "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
                 specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.",
            ));
        }
        (b">", false) => {
            return Err(Failure::Text(
                "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
            ));
        }
        (text, _) => Place::After(ids::parse(text, 0)?),
    })
}

/// Counts what an answer to several questions holds: it ends early rather than to become too large, and who goes on gets the rest.
pub(crate) struct Room {
    bytes: u64,
    bytes_max: u64,
    /// Counted for each entry beside its bytes.
    each: u64,
}

/// What a read counts for each entry beside its bytes: its parts and an identifier.
const ENTRY_BYTES: u64 = 128;

impl Default for Room {
    /// That of an entry of the log.
    fn default() -> Room {
        Room { bytes: 0, bytes_max: REPLY_BYTES_MAX, each: 0 }
    }
}

impl Room {
    /// That of a read.
    fn of(view: &View<'_>) -> Room {
        Room { bytes: 0, bytes_max: view.meter().answer_max(), each: ENTRY_BYTES }
    }

    /// Whether so many bytes more may be answered. One entry always is.
    pub(crate) fn takes(&mut self, bytes: usize) -> bool {
        let bytes = bytes as u64 + self.each;
        let fits = self.bytes == 0 || self.bytes + bytes <= self.bytes_max;
        self.bytes += bytes;
        fits
    }
}

/// Entries behind the one that others have seen.
pub struct XRead<'a>(Reading<'a>);

impl<'a> ReadCommand<'a> for XRead<'a> {
    const SPEC: Spec = Spec {
        name: "xread",
        arity: -4,
        flags: Flags::READONLY.and(Flags::BLOCKING).and(Flags::MOVABLE_KEYS),
        keys: Keys::Streams,
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(N) where N is the number of entries returned",
        summary: "Returns the entries of one or more streams behind those whose identifiers are given.",
        arguments: "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
        example: "XREAD COUNT 10 STREAMS readings 1700000000000-0",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Reading::parse(args, false).map(XRead)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let reading = self.0;
        let keys = reading.keys.iter().map(|key| view.stream(KeyRef::new(key)));
        let streams: Vec<Option<Stream>> = keys.collect::<Result<_, _>>()?;
        let mut room = Room::of(view);
        let mut found = Vec::new();
        for ((key, stream), place) in reading.keys.iter().zip(&streams).zip(&reading.places) {
            let Some(stream) = stream else { continue };
            let start = match place {
                Place::After(id) => id.next(),
                Place::Last => view.collections().entries_backwards(stream, StreamId::MAX).next().map(|(id, _)| id),
                Place::End | Place::New => stream.last.next(),
            };
            let Some(start) = start else { continue };
            let entries = view.collections().entries(stream, start).take(reading.count);
            let entries = entries.take_while(|(_, value)| room.takes(value.len()));
            let entries: Vec<Reply> = entries.map(|(id, value)| ids::entry_reply(id, &value)).collect();
            if !entries.is_empty() {
                found.push((Reply::bulk(*key), Reply::Array(entries)));
            }
        }
        Ok(if found.is_empty() { Reply::NilArray } else { Reply::Named(found) })
    }
}
