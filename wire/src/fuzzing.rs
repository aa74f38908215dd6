//! What the fuzzer runs: one function for each thing that reads bytes of others.
//!
//! Each takes any bytes, feeds them to a parser whole and in pieces, and panics if a promise is broken: the cut of
//! the input must not matter, memory must stay within the limits, and what is read must be written and read
//! alike. The fuzz targets of `fuzz/` call these, and `tests/it/corpus.rs` does so with the committed corpus and
//! seeded mutations of it, on machines that have no fuzzer.

use base::Rng;
use bytes::Bytes;

use crate::{
    Arguments, ArgumentsRef, FrameError, FrameReader, FrameWriter, Hello, Malformed, Protocol, ProtocolError, Reader,
    ReplyError, ReplyLimits, ReplyParser, Request, RequestLimits, RequestParser, Value, Writer, encode_command,
    split_frames, split_line,
};

/// Limits so low that inputs of a fuzzer's size go over them.
const LIMITS: RequestLimits =
    RequestLimits { argument_bytes_max: 1000, command_bytes_max: 3000, is_for_strangers: false };

/// Most memory that a parser with [`LIMITS`] may hold: two lines, a command, and places of words that each cost the
/// sender six bytes.
fn held_bytes_max(input_bytes: usize) -> usize {
    4 * base::limits::INLINE_BYTES_MAX + 2 * 64 * 1024 + 8 * input_bytes
}

/// A request with its words copied.
#[derive(PartialEq, Debug)]
enum Owned {
    Command(Arguments),
    TooLarge(Arguments, usize, usize),
    Failed(ProtocolError),
}

/// Cuts `data` into pieces of 1 to `bytes_max` bytes.
fn pieces<'a>(data: &'a [u8], rng: &mut Rng, bytes_max: u64) -> Vec<&'a [u8]> {
    let mut rest = data;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let length = rng.between(1, bytes_max).min(rest.len() as u64) as usize;
        let (piece, after) = rest.split_at(length);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// The cuts that every parser is tried with: none, after every byte, and two by chance.
fn cuts(data: &[u8]) -> [Vec<&[u8]>; 4] {
    let mut rng = Rng::new(base::checksum::xxh3(data));
    let few = 1 + data.len() as u64 / 2;
    [vec![data], data.chunks(1).collect(), pieces(data, &mut rng, 9), pieces(data, &mut rng, few)]
}

fn requests(pieces: &[&[u8]]) -> Vec<Owned> {
    let mut parser = RequestParser::new(LIMITS);
    let mut found = Vec::new();
    let mut fed = 0;
    for piece in pieces {
        fed += piece.len();
        let mut input = *piece;
        loop {
            match parser.next(&mut input) {
                Ok(Some(Request::Command(arguments))) => {
                    assert!(!arguments.is_empty(), "a command without a name");
                    found.push(Owned::Command(arguments.to_owned()));
                }
                Ok(Some(Request::TooLarge { arguments, bytes, bytes_max })) => {
                    assert!(bytes_max <= LIMITS.command_bytes_max);
                    found.push(Owned::TooLarge(arguments.to_owned(), bytes, bytes_max));
                }
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(parser.next(&mut input), Err(error), "an error must last");
                    found.push(Owned::Failed(error));
                    return found;
                }
            }
        }
        assert!(input.is_empty(), "what is not handed out is taken in");
        assert!(parser.held_bytes() <= held_bytes_max(fed), "the parser holds {} bytes", parser.held_bytes());
    }
    found
}

/// Commands of a client.
///
/// # Panics
/// If a promise is broken.
pub fn fuzz_request(data: &[u8]) {
    let mut runs = cuts(data).into_iter().map(|pieces| requests(&pieces));
    let whole = runs.next().expect("the first cut is none");
    for run in runs {
        assert_eq!(whole, run, "the cut of the input matters");
    }
    for request in &whole {
        let (Owned::Command(arguments) | Owned::TooLarge(arguments, ..)) = request else { continue };
        assert_eq!(Arguments::decode(arguments.encoding().clone()).as_ref(), Ok(arguments));
        assert_eq!(&Arguments::from_words(arguments.as_ref()), arguments);
        if let Owned::Command(arguments) = request {
            // An inline command may be over the limits of the other form.
            let mut encoded = Vec::new();
            encode_command(&mut encoded, arguments.as_ref());
            let mut input = &encoded[..];
            let mut parser = RequestParser::default();
            assert_eq!(parser.next(&mut input), Ok(Some(Request::Command(arguments.as_ref()))));
        }
    }
    if let Ok((arguments, rest)) = ArgumentsRef::decode_prefix(data) {
        let mut encoded = Vec::new();
        arguments.encode_into(&mut encoded);
        assert_eq!(encoded, data[..data.len() - rest.len()]);
    }
    if let Ok(words) = split_line(data) {
        let line: Vec<String> = words.iter().map(|word| crate::quote(word)).collect();
        assert_eq!(split_line(line.join(" ").as_bytes()), Ok(words), "quoting must be undone by splitting");
    }
}

fn replies(pieces: &[&[u8]], limits: ReplyLimits) -> (Vec<Value>, Option<ReplyError>) {
    let mut parser = ReplyParser::new(limits);
    let mut found = Vec::new();
    for piece in pieces {
        parser.push(piece);
        loop {
            match parser.next() {
                Ok(Some(value)) => found.push(value),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(parser.next(), Err(error), "an error must last");
                    return (found, Some(error));
                }
            }
        }
    }
    (found, None)
}

/// Replies of a server.
///
/// # Panics
/// If a promise is broken.
pub fn fuzz_reply(data: &[u8]) {
    let limits = ReplyLimits { depth_max: 8, values_max: 1000, bytes_max: 10_000 };
    let mut runs = cuts(data).into_iter().map(|pieces| replies(&pieces, limits));
    let (whole, error) = runs.next().expect("the first cut is none");
    for (run, other) in runs {
        // By their form in text: a number that is none does not equal itself.
        assert_eq!(format!("{whole:?}"), format!("{run:?}"), "the cut of the input matters");
        assert_eq!(error, other, "the cut of the input matters");
    }
    for value in &whole {
        assert!(value.pretty().ends_with('\n'));
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut once = Vec::new();
            value.encode(&mut once, protocol);
            let (read, error) = replies(&[&once], ReplyLimits::default());
            assert_eq!((read.len(), error), (1, None), "what we write we can read");
            let mut again = Vec::new();
            read[0].encode(&mut again, protocol);
            assert_eq!(once, again, "and it means the same");
        }
    }
}

fn frames(pieces: &[&[u8]]) -> (Vec<Bytes>, Option<FrameError>) {
    let mut reader = FrameReader::new();
    let mut found = Vec::new();
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next() {
                Ok(Some(payload)) => found.push(payload),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.next(), Err(error), "an error must last");
                    return (found, Some(error));
                }
            }
        }
    }
    (found, None)
}

/// Frames of a peer: the frames, the greeting and the fields of bodies.
///
/// # Panics
/// If a promise is broken.
pub fn fuzz_frame(data: &[u8]) {
    let mut runs = cuts(data).into_iter().map(|pieces| frames(&pieces));
    let (whole, error) = runs.next().expect("the first cut is none");
    for run in runs {
        assert_eq!((&whole, error), (&run.0, run.1), "the cut of the input matters");
    }
    let split: Vec<_> = split_frames(data).collect();
    let expected = whole.iter().map(|payload| Ok(&payload[..])).chain(error.map(Err));
    assert!(split.into_iter().eq(expected), "both ways to read frames must agree");

    // Chance does not find right checksums: the same bytes as a payload of their own.
    let mut framed = Vec::new();
    if FrameWriter::append(&mut framed, |payload| payload.extend_from_slice(data)).is_ok() {
        assert_eq!(frames(&[&framed]), (vec![Bytes::copy_from_slice(data)], None));
    } else {
        assert!(data.is_empty() && framed.is_empty());
    }
    for payload in whole.iter().map(|payload| &payload[..]).chain([data]) {
        if let Ok(hello) = Hello::decode(payload) {
            let mut encoded = Vec::new();
            hello.encode(&mut encoded);
            if hello.version > crate::PEER_PROTOCOL_VERSION {
                assert!(payload.starts_with(&encoded), "what a later version has added stands at the end");
            } else {
                assert_eq!(encoded, payload);
            }
        }
    }
    fuzz_fields(data);
}

/// Reads fields as the first half of the data says from the second half, and writes them again.
fn fuzz_fields(data: &[u8]) {
    let (kinds, fields) = data.split_at(data.len() / 2);
    let message = Bytes::copy_from_slice(fields);
    let mut reader = Reader::new(&message);
    let mut written = Vec::new();
    for kind in kinds {
        let read = reader.rest().len();
        let mut again = Vec::new();
        if copy_field(*kind, &mut reader, &mut Writer::new(&mut again)).is_err() {
            return;
        }
        assert_eq!(again.len(), read - reader.rest().len(), "a field has one form");
        written.extend_from_slice(&again);
    }
    assert_eq!(written, fields[..written.len()]);
    assert_eq!(reader.clone().finish().is_ok(), reader.rest().is_empty());
}

fn copy_field(kind: u8, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Result<(), Malformed> {
    match kind % 16 {
        0 => writer.u8(reader.u8()?),
        1 => writer.u16(reader.u16()?),
        2 => writer.u32(reader.u32()?),
        3 => writer.u64(reader.u64()?),
        4 => writer.bool(reader.bool()?),
        5 => writer.varint(reader.varint()?),
        6 => writer.signed(reader.signed()?),
        7 => {
            let bytes = reader.bytes()?;
            writer.bytes(&bytes);
        }
        8 => writer.bytes(reader.text()?.as_bytes()),
        9 => {
            let value = reader.option(Reader::u16)?;
            writer.option(value, Writer::u16);
        }
        10 => writer.partition(reader.partition()?),
        11 => writer.ballot(reader.ballot()?),
        12 => writer.position(reader.position()?),
        13 => writer.revision(reader.revision()?),
        14 => {
            let count = reader.count(3)?;
            assert!(count * 3 <= reader.rest().len());
            writer.count(count);
        }
        _ => {
            let slice = reader.raw(usize::from(kind >> 4))?;
            let kept = reader.keep(slice);
            writer.raw(&kept);
        }
    }
    Ok(())
}
