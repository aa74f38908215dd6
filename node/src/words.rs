//! Commands inside entries and read requests: words without copies.

use crate::entry::Kind;
use crate::router::ReadKind;
use base::Revision;
use base::limits::VALUE_BYTES_MAX;
use wire::{ArgumentsRef, Malformed, Reader, Writer};

/// Commands with so few words need no allocation to be looked at.
const INLINE_WORDS: usize = 8;

/// The words of one command, borrowed, in the form that `data` takes them.
#[derive(Debug)]
pub(crate) enum Words<'a> {
    Few([&'a [u8]; INLINE_WORDS], usize),
    Many(Vec<&'a [u8]>),
}

impl<'a> Words<'a> {
    pub(crate) fn new(arguments: ArgumentsRef<'a>) -> Words<'a> {
        let count = arguments.len();
        if count <= INLINE_WORDS {
            let mut few: [&[u8]; INLINE_WORDS] = [&[]; INLINE_WORDS];
            few.iter_mut().zip(arguments.iter()).for_each(|(place, word)| *place = word);
            Words::Few(few, count)
        } else {
            Words::Many(arguments.iter().collect())
        }
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Words<'a>, Malformed> {
        ArgumentsRef::decode(bytes).map(Words::new)
    }

    pub(crate) fn as_slice(&self) -> &[&'a [u8]] {
        match self {
            Words::Few(few, count) => &few[..*count],
            Words::Many(many) => many,
        }
    }
}

/// A watched key and the revision that it had.
pub(crate) type Watch<'a> = (&'a [u8], Revision);

/// MULTI … EXEC: watches, then commands, each as its words.
pub(crate) fn encode_transaction(
    watches: impl ExactSizeIterator<Item = (impl AsRef<[u8]>, Revision)>,
    commands: &[wire::Arguments],
    out: &mut Vec<u8>,
) {
    let mut w = Writer::new(out);
    w.count(watches.len());
    for (key, revision) in watches {
        w.bytes(key.as_ref());
        w.revision(revision);
    }
    w.count(commands.len());
    for command in commands {
        command.as_ref().encode_into(w.buffer());
    }
}

pub(crate) fn decode_transaction(body: &[u8]) -> Result<(Vec<Watch<'_>>, Vec<Words<'_>>), Malformed> {
    let mut r = Reader::from_slice(body);
    let mut watches = Vec::new();
    for _ in 0..r.count(2)? {
        watches.push((r.slice()?, r.revision()?));
    }
    let count = r.count(4)?;
    let mut rest = r.rest();
    let mut commands = Vec::with_capacity(count);
    for _ in 0..count {
        let (arguments, after) = ArgumentsRef::decode_prefix(rest)?;
        commands.push(Words::new(arguments));
        rest = after;
    }
    if rest.is_empty() { Ok((watches, commands)) } else { Err(Malformed) }
}

/// A command to be applied once: its identifier, then its words.
pub(crate) fn encode_once<'a>(id: &[u8], words: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    Writer::new(out).bytes(id);
    wire::Arguments::from_words(words).as_ref().encode_into(out);
}

pub(crate) fn decode_once(body: &[u8]) -> Result<(&[u8], Words<'_>), Malformed> {
    let mut r = Reader::from_slice(body);
    let id = r.slice()?;
    Ok((id, Words::decode(r.rest())?))
}

/// What stands before the body of a write that may make a value longer than its words: no body begins so by itself, because
/// that would be a count far beyond its limit.
const LIMIT_MARK: [u8; 4] = [0xff; 4];

/// Bytes that [`encode_limit`] writes.
pub(crate) const LIMIT_BYTES: usize = LIMIT_MARK.len() + 8;

/// The longest value that the write whose body follows may make. It goes into the entry because every replica must decide
/// alike, and only the node that took the command knows its own setting.
pub(crate) fn encode_limit(value_bytes_max: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&LIMIT_MARK);
    Writer::new(out).u64(value_bytes_max as u64);
}

/// The longest value that a write may make, and its body without that.
pub(crate) fn split_limit(body: &[u8]) -> (usize, &[u8]) {
    let limit = body.strip_prefix(&LIMIT_MARK).and_then(<[u8]>::split_first_chunk::<8>);
    limit.map_or((VALUE_BYTES_MAX, body), |(limit, rest)| {
        (usize::try_from(u64::from_le_bytes(*limit)).unwrap_or(usize::MAX).min(VALUE_BYTES_MAX), rest)
    })
}

/// The words of a write as a client would say them, for people to read; none if it is malformed.
pub(crate) fn of_write(kind: Kind, body: &[u8]) -> Vec<&[u8]> {
    let (_, body) = split_limit(body);
    match kind {
        Kind::Command => Words::decode(body).map_or_else(|_| Vec::new(), |words| words.as_slice().to_vec()),
        Kind::Once => decode_once(body)
            .map_or_else(|_| Vec::new(), |(id, words)| [&[&b"dictum.once"[..], id], words.as_slice()].concat()),
        Kind::Transaction => vec![b"exec"],
        Kind::Expire => Vec::new(),
    }
}

/// The words of a read as a client would say them, for people to read; none if it is malformed.
pub(crate) fn of_read(kind: ReadKind, bytes: &[u8]) -> Vec<&[u8]> {
    let words = || Words::decode(bytes).map_or_else(|_| Vec::new(), |words| words.as_slice().to_vec());
    match kind {
        ReadKind::Command => words(),
        ReadKind::Transaction => vec![b"exec"],
        ReadKind::Outcome => vec![b"dictum.outcome", bytes],
        ReadKind::Revisions => [vec![&b"watch"[..]], words()].concat(),
    }
}

/// Keys whose revisions a WATCH wants.
pub(crate) fn encode_keys<'a>(keys: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    wire::Arguments::from_words(keys).as_ref().encode_into(out);
}
