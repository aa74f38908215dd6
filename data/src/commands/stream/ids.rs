//! Identifiers of entries as clients write them, and entries as they are answered.

use crate::collections::streams::words;
use crate::commands::prelude::*;
use crate::value::StreamId;

/// What is no identifier.
pub(crate) const INVALID: Failure = Failure::Text("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: Failure = Failure::Text("ERR invalid start ID for the interval");
const INVALID_END: Failure = Failure::Text("ERR invalid end ID for the interval");
/// A longer text is none.
const TEXT_BYTES_MAX: usize = 127;

/// What a client may say of an identifier that is to be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// `*`: any.
    Any,
    /// `ms-*`: any of this millisecond.
    OfMillisecond(u64),
    /// This one.
    This(StreamId),
}

/// A number of 64 bits as C's strtoull reads it, without a minus.
fn number(text: &[u8]) -> Option<u64> {
    let blanks = text.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0b).count();
    let digits = text[blanks..].strip_prefix(b"+").unwrap_or(&text[blanks..]);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// `ms` or `ms-seq`; of the first the number is `seq`.
pub(crate) fn parse(text: &[u8], seq: u64) -> Result<StreamId, Failure> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(INVALID);
    }
    let mut parts = text.splitn(2, |byte| *byte == b'-');
    let ms = parts.next().and_then(number).ok_or(INVALID)?;
    let seq = parts.next().map_or(Some(seq), number).ok_or(INVALID)?;
    Ok(StreamId { ms, seq })
}

/// The same, or `-` or `+` for the lowest and the highest.
pub(crate) fn parse_or_end(text: &[u8], seq: u64) -> Result<StreamId, Failure> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        text => parse(text, seq),
    }
}

/// The identifier of an entry that is added.
pub(crate) fn parse_wanted(text: &[u8]) -> Result<Wanted, Failure> {
    if text == b"*" {
        return Ok(Wanted::Any);
    }
    match text.strip_suffix(b"-*").filter(|ms| ms.len() <= TEXT_BYTES_MAX) {
        Some(ms) => number(ms).map(Wanted::OfMillisecond).ok_or(INVALID),
        None => parse(text, 0).map(Wanted::This),
    }
}

/// Argument `index` as the first identifier of an interval; behind it after `(`.
pub(crate) fn interval_start(args: Args<'_>, index: usize) -> Result<StreamId, Failure> {
    match args.get(index)? {
        [b'(', rest @ ..] if !rest.is_empty() => parse(rest, 0)?.next().ok_or(INVALID_START),
        text => parse_or_end(text, 0),
    }
}

/// Argument `index` as the last identifier of an interval; before it after `(`.
pub(crate) fn interval_end(args: Args<'_>, index: usize) -> Result<StreamId, Failure> {
    match args.get(index)? {
        [b'(', rest @ ..] if !rest.is_empty() => parse(rest, u64::MAX)?.previous().ok_or(INVALID_END),
        text => parse_or_end(text, u64::MAX),
    }
}

/// The arguments from `index` on as identifiers.
pub(crate) fn ids_from(args: Args<'_>, index: usize) -> Result<Vec<StreamId>, Failure> {
    args.from(index).iter().map(|text| parse(text, 0)).collect()
}

/// An identifier as it is answered.
pub(crate) fn reply(id: StreamId) -> Reply {
    Reply::Bulk(id.text())
}

/// An entry as it is answered.
pub(crate) fn entry_reply(id: StreamId, value: &[u8]) -> Reply {
    let words = words(value).into_iter().map(Reply::bulk).collect();
    Reply::Array(vec![reply(id), Reply::Array(words)])
}

/// What is refused where there is no such group.
pub(crate) fn no_group(key: KeyRef<'_>, group: &[u8], where_asked: &str) -> Failure {
    let text = [b"NOGROUP No such key '", key.key, b"' or consumer group '", group, b"'", where_asked.as_bytes()];
    Failure::built(&text.concat())
}

/// The same, of commands that need the key before.
pub(crate) fn no_group_of_key(key: KeyRef<'_>, group: &[u8]) -> Failure {
    let text = [b"NOGROUP No such consumer group '", group, b"' for key name '", key.key, b"'"];
    Failure::built(&text.concat())
}
