//! Commands inside entries and read requests: words without copies.

use crate::access::permit;
use crate::entry::Kind;
use crate::router::ReadKind;
use base::Revision;
use base::limits::{VALUE_BYTES_MAX, WORK_DEFAULT, WORK_MIN};
use bytes::Bytes;
use data::spec::Flags;
use data::{Permit, Slots};
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
        ArgumentsRef::decode(split_permit(bytes)?.1).map(Words::new)
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
    let mut r = Reader::from_slice(split_permit(body)?.1);
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
    let mut r = Reader::from_slice(split_permit(body)?.1);
    let id = r.slice()?;
    Ok((id, Words::decode(r.rest())?))
}

/// What stands before the body of a write that may make a value longer than its words: no body begins so by itself, because
/// that would be a count far beyond its limit.
const LIMIT_MARK: [u8; 4] = [0xff; 4];
/// What stands before the body of a write to which all terms apply.
const TERMS_MARK: [u8; 4] = [0xfe, 0xff, 0xff, 0xff];
/// The same, and the slots behind them.
const SLOTS_MARK: [u8; 4] = [0xfd, 0xff, 0xff, 0xff];
/// The same, and a budget behind them.
const WORK_MARK: [u8; 4] = [0xfc, 0xff, 0xff, 0xff];

/// What stands before the words of a command that runs scripts for a user who may not do everything, and behind the terms: what they may call.
const PERMIT_MARK: [u8; 4] = [0xfb, 0xff, 0xff, 0xff];

/// Writes what the scripts of the command may call whose words come next.
pub(crate) fn encode_permit(permit: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&PERMIT_MARK);
    Writer::new(out).bytes(permit);
}

/// What scripts may call, if that is said, and the words without it.
fn split_permit(body: &[u8]) -> Result<(Option<&[u8]>, &[u8]), Malformed> {
    let Some(rest) = body.strip_prefix(&PERMIT_MARK) else { return Ok((None, body)) };
    let mut r = Reader::from_slice(rest);
    let permit = r.slice()?;
    Ok((Some(permit), r.rest()))
}

/// What the scripts of an entry's command may call, by its body without terms; none: everything.
pub(crate) fn permit_of_write(kind: Kind, body: &[u8]) -> Result<Option<Permit>, Malformed> {
    let has_words = matches!(kind, Kind::Command | Kind::Transaction | Kind::Once);
    if has_words { permit_of(body) } else { Ok(None) }
}

/// The same of a read.
pub(crate) fn permit_of_read(kind: ReadKind, body: &[u8]) -> Result<Option<Permit>, Malformed> {
    if matches!(kind, ReadKind::Command | ReadKind::Transaction) { permit_of(body) } else { Ok(None) }
}

fn permit_of(body: &[u8]) -> Result<Option<Permit>, Malformed> {
    split_permit(body)?.0.map(permit::decode).transpose()
}

/// What goes with a write into its entry, because every replica must decide alike, and settings may differ from node to node while
/// they change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    /// Longest value that it may make, in bytes.
    pub value_bytes_max: usize,
    /// How long keys live that it makes without a deadline, in milliseconds; 0: as long as they are wanted.
    pub ttl_ms: u64,
    /// From so many bytes on the state must not grow; 0: it may.
    pub full_at_bytes: u64,
    /// The slots of its partition.
    pub slots: Slots,
    /// Most units of work that it may cost. Only where not all nodes know budgets is there none but the default.
    pub work_max: u64,
}

impl Terms {
    pub(crate) const NONE: Terms = Terms {
        value_bytes_max: VALUE_BYTES_MAX,
        ttl_ms: 0,
        full_at_bytes: 0,
        slots: Slots::ALL,
        work_max: WORK_DEFAULT,
    };

    /// Whether its bucket has a budget of its own.
    fn work_applies(&self) -> bool {
        self.work_max != WORK_DEFAULT
    }

    /// Whether a write with these flags has to know the slots.
    fn slots_apply(&self, flags: Flags) -> bool {
        flags.has(Flags::RUNS) && self.slots != Slots::ALL
    }

    /// Whether a write with these flags needs all of them.
    fn all_apply(&self, flags: Flags) -> bool {
        (flags.has(Flags::DENYOOM) || flags.has(Flags::RUNS)) && (self.ttl_ms > 0 || self.full_at_bytes > 0)
    }

    /// How many bytes [`Terms::encode`] writes.
    pub(crate) fn encoded_bytes(&self, flags: Flags) -> usize {
        if self.work_applies() {
            WORK_MARK.len() + 4 * 8 + 2 * 2
        } else if self.slots_apply(flags) {
            SLOTS_MARK.len() + 3 * 8 + 2 * 2
        } else if self.all_apply(flags) {
            TERMS_MARK.len() + 3 * 8
        } else if flags.has(Flags::GROWS) {
            LIMIT_MARK.len() + 8
        } else {
            0
        }
    }

    /// Writes what of the terms applies to a write with these flags.
    pub(crate) fn encode(&self, flags: Flags, out: &mut Vec<u8>) {
        if self.work_applies() || self.slots_apply(flags) || self.all_apply(flags) {
            let mark = match (self.work_applies(), self.slots_apply(flags)) {
                (true, _) => &WORK_MARK,
                (false, true) => &SLOTS_MARK,
                (false, false) => &TERMS_MARK,
            };
            out.extend_from_slice(mark);
            let mut w = Writer::new(out);
            w.u64(self.value_bytes_max as u64);
            w.u64(self.ttl_ms);
            w.u64(self.full_at_bytes);
            if mark != &TERMS_MARK {
                w.u16(self.slots.first);
                w.u16(self.slots.end);
            }
            if mark == &WORK_MARK {
                w.u64(self.work_max);
            }
        } else if flags.has(Flags::GROWS) {
            out.extend_from_slice(&LIMIT_MARK);
            Writer::new(out).u64(self.value_bytes_max as u64);
        }
    }

    /// The body of an entry with these terms, if its budget is beyond `work_max` units: with that one in its place.
    pub(crate) fn lowered(&self, work_max: u64, body: &[u8]) -> Option<Bytes> {
        if self.work_max <= work_max.max(WORK_DEFAULT) {
            return None;
        }
        // Only behind its mark there is a budget, as the last of the terms.
        let end = self.encoded_bytes(Flags::NONE);
        let mut lowered = body.to_vec();
        lowered.get_mut(end - 8..end)?.copy_from_slice(&work_max.max(WORK_DEFAULT).to_le_bytes());
        Some(lowered.into())
    }

    /// The terms of an entry, and its body without them. Only what clients ask for has any; in another body the marks would be numbers.
    pub(crate) fn split(kind: Kind, body: &[u8]) -> Result<(Terms, &[u8]), Malformed> {
        if !matches!(kind, Kind::Command | Kind::Transaction | Kind::Once) {
            return Ok((Terms::NONE, body));
        }
        let mut r = Reader::from_slice(body);
        let mark = r.raw(4).unwrap_or_default();
        let limit = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(VALUE_BYTES_MAX);
        let terms = if mark == LIMIT_MARK {
            Terms { value_bytes_max: limit(r.u64()?), ..Terms::NONE }
        } else if mark == TERMS_MARK || mark == SLOTS_MARK || mark == WORK_MARK {
            let mut terms =
                Terms { value_bytes_max: limit(r.u64()?), ttl_ms: r.u64()?, full_at_bytes: r.u64()?, ..Terms::NONE };
            if mark != TERMS_MARK {
                terms.slots = Slots { first: r.u16()?, end: r.u16()? };
            }
            if mark == WORK_MARK {
                terms.work_max = r.u64()?.max(WORK_MIN);
            }
            terms
        } else {
            return Ok((Terms::NONE, body));
        };
        Ok((terms, r.rest()))
    }
}

/// The words of a write as a client would say them, for people to read; none if it is malformed.
pub(crate) fn of_write(kind: Kind, body: &[u8]) -> Vec<&[u8]> {
    let Ok((_, body)) = Terms::split(kind, body) else { return Vec::new() };
    match kind {
        Kind::Command => Words::decode(body).map_or_else(|_| Vec::new(), |words| words.as_slice().to_vec()),
        Kind::Once => decode_once(body)
            .map_or_else(|_| Vec::new(), |(id, words)| [&[&b"dictum.once"[..], id], words.as_slice()].concat()),
        Kind::Transaction => vec![b"exec"],
        Kind::Expire | Kind::Evict | Kind::Compare | Kind::Void | Kind::Time | Kind::Record => Vec::new(),
        Kind::Council => vec![b"dictum.bucket"],
    }
}

/// The words of a read as a client would say them, for people to read; none if it is malformed.
pub(crate) fn of_read(kind: ReadKind, bytes: &[u8]) -> Vec<&[u8]> {
    let words = || Words::decode(bytes).map_or_else(|_| Vec::new(), |words| words.as_slice().to_vec());
    match kind {
        ReadKind::Command => words(),
        ReadKind::Transaction => vec![b"exec"],
        ReadKind::Look => of_write(Kind::Command, bytes),
        ReadKind::Outcome => vec![b"dictum.outcome", bytes],
        ReadKind::Buckets => vec![b"dictum.bucket"],
        ReadKind::Nodes => vec![b"dictum.node"],
        ReadKind::Select => vec![b"select", bytes],
        ReadKind::Backup => vec![b"dictum.backup"],
        ReadKind::Revisions => [vec![&b"watch"[..]], words()].concat(),
    }
}

/// The keys that commands which only look have looked for, each as often as it is named; none if these are malformed.
pub(crate) fn keys_read(kind: ReadKind, bytes: &[u8]) -> Vec<&[u8]> {
    fn of<'a>(words: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let spec = words.first().and_then(|name| data::lookup(name)).map(|entry| entry.spec);
        spec.filter(|spec| spec.flags.has(Flags::READONLY)).map_or_else(Vec::new, |spec| spec.keys_of(words))
    }
    match kind {
        ReadKind::Command => Words::decode(bytes).map_or_else(|_| Vec::new(), |words| of(words.as_slice())),
        ReadKind::Transaction => {
            let commands = decode_transaction(bytes).map(|(_, commands)| commands).unwrap_or_default();
            commands.iter().flat_map(|words| of(words.as_slice())).collect()
        }
        ReadKind::Outcome
        | ReadKind::Revisions
        | ReadKind::Buckets
        | ReadKind::Nodes
        | ReadKind::Select
        | ReadKind::Backup
        | ReadKind::Look => Vec::new(),
    }
}

/// Keys whose revisions a WATCH wants.
pub(crate) fn encode_keys<'a>(keys: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    wire::Arguments::from_words(keys).as_ref().encode_into(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_clients_ask_for_has_terms() {
        // An expiry's time is a number that may begin like the marks: in two milliseconds of 49 days.
        for time in [0x1a2_ffff_ffff_u64, 0x1a2_ffff_fffe, 0x1a2_ffff_fffd] {
            let body = time.to_le_bytes();
            assert_eq!(Terms::split(Kind::Expire, &body), Ok((Terms::NONE, &body[..])));
            assert_eq!(Terms::split(Kind::Command, &body), Err(Malformed), "a command's words do not begin so");
        }
    }

    #[test]
    fn a_write_gets_of_the_terms_what_applies_to_it() {
        let slots = Slots { first: 5, end: 9 };
        let limit = Terms { value_bytes_max: 7, ..Terms::NONE };
        let all = Terms { ttl_ms: 1, full_at_bytes: 2, slots, ..limit };
        let with = |slots| Terms { slots, ..all };
        for (terms, flags, arrives) in [
            (all, Flags::NONE, Terms::NONE),
            (all, Flags::GROWS, limit),
            (all, Flags::DENYOOM, with(Slots::ALL)),
            (all, Flags::RUNS, all),
            (with(Slots::ALL), Flags::RUNS, with(Slots::ALL)),
            (Terms { slots, ..limit }, Flags::RUNS.and(Flags::GROWS), Terms { slots, ..limit }),
            (limit, Flags::RUNS.and(Flags::GROWS), limit),
            // A budget of its own goes with everything.
            (Terms { work_max: 5000, ..all }, Flags::NONE, Terms { work_max: 5000, ..all }),
            (Terms { work_max: 5000, ..all }, Flags::RUNS, Terms { work_max: 5000, ..all }),
        ] {
            let mut body = Vec::new();
            terms.encode(flags, &mut body);
            assert_eq!(body.len(), terms.encoded_bytes(flags));
            body.push(1);
            assert_eq!(Terms::split(Kind::Command, &body), Ok((arrives, &[1][..])), "{terms:?}, {flags:?}");
        }
    }
}
