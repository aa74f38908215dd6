//! The commands that make the keys of a state anew: what a restored backup says to a cluster, and what an export writes.
//!
//! | a key that holds | is made by |
//! |---|---|
//! | a string | `SET` |
//! | a JSON document; anything that is small | `RESTORE`, of what `DUMP` answers |
//! | what is larger | `DEL`, and then bit by bit `HSET`, `HPEXPIREAT`, `SADD`, `ZADD`, `RPUSH`; `XADD`, `XSETID`, `XGROUP`, `XCLAIM`; at last `PEXPIREAT` |
//!
//! Deadlines are moments, not times to live. Not made anew are revisions, and of large streams when their consumers were last heard, and what is pending of entries that were deleted.
//!
//! The outcome of a command may be unknown, and one that was given up may be carried out later, after others. So each says how it bears that ([`Manner`]). All commands of a key
//! may be said again from the first on.

use crate::algorithms::dump::{dump_json, dump_libraries};
use crate::apply::read;
use crate::blob::Blob;
use crate::collections::ranked::Standing;
use crate::collections::streams::{Group, words};
use crate::reply::Reply;
use crate::store::KeyRef;
use crate::tree::Tree;
use crate::value::{Collection, Record, Stream, StreamId, Value};
use crate::view::View;
use base::WallTime;
use base::versions::NEWEST;
use std::ops::Bound;

/// A value with more bytes than this is made bit by bit: no entry of the log shall be large for the sake of a restore.
pub const WHOLE_BYTES_MAX: u64 = 256 * 1024;
/// The same of a stream, which as a whole is made anew to the last consumer.
const WHOLE_STREAM_TIMES: u64 = 16;
/// A command takes no further element once it has so many words, or bytes.
const WORDS_MAX: usize = 512;
const BYTES_MAX: usize = 256 * 1024;

/// How a command bears to be said again, or to be carried out a second time later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// At any time, behind any others of its key: it writes the same once more.
    Again,
    /// Carried out twice it changes nothing, but it has to be known to be done before the next one of its key is said.
    InOrder,
    /// Not at all: it has to be said by `DICTUM.ONCE`, and to be known to be done before the next one of its key is said.
    Once,
}

/// Says all commands that make the keys of `tree` anew, in the order of its keys, from the key `from` on: `say` is given a key and the words of one command at a time. Keys, and
/// fields, whose deadline has passed by the state's own time are left out. Returns how many keys were said.
///
/// Where the state is in a store, ask [`Tree::trouble`] afterwards: what a store cannot read ends the iteration.
///
/// # Errors
/// The first error of `say`, at once.
pub fn keys<E>(
    tree: &Tree,
    from: Option<&[u8]>,
    whole_bytes_max: u64,
    say: impl FnMut(&[u8], Manner, &[&[u8]]) -> Result<(), E>,
) -> Result<u64, E> {
    wanted_keys(tree, tree.time(), from, whole_bytes_max, |_| true, say)
}

/// The same, by the time `at`, and without the keys that `is_wanted` says no to.
///
/// # Errors
/// As [`keys`].
pub fn wanted_keys<E>(
    tree: &Tree,
    at: WallTime,
    from: Option<&[u8]>,
    whole_bytes_max: u64,
    mut is_wanted: impl FnMut(&[u8]) -> bool,
    mut say: impl FnMut(&[u8], Manner, &[&[u8]]) -> Result<(), E>,
) -> Result<u64, E> {
    let view = View::new(tree, at, 0).with_work_max(u64::MAX).in_version(NEWEST);
    let start = from.map_or(Bound::Unbounded, |key| Bound::Included(KeyRef::new(key)));
    let mut count = 0;
    for (key, record) in tree.living(start, at).filter(|(key, _)| is_wanted(key)) {
        view.begin_work();
        let say = |manner: Manner, words: &[&[u8]]| say(&key, manner, words);
        count += u64::from(Rebuild { view: &view, whole_bytes_max, say }.key(&key, &record)?);
    }
    Ok(count)
}

/// Says the command that makes the libraries of functions anew, if there are any. All partitions of a bucket have the same.
///
/// # Errors
/// As [`keys`].
pub fn libraries<E>(tree: &Tree, mut say: impl FnMut(&[&[u8]]) -> Result<(), E>) -> Result<(), E> {
    let codes: Vec<Blob> = tree.collections.libraries().map(|library| library.code).collect();
    if codes.is_empty() { Ok(()) } else { say(&[b"FUNCTION", b"RESTORE", &dump_libraries(&codes), b"REPLACE"]) }
}

/// Makes one key.
struct Rebuild<'v, 't, S> {
    view: &'v View<'t>,
    whole_bytes_max: u64,
    say: S,
}

impl<E, S: FnMut(Manner, &[&[u8]]) -> Result<(), E>> Rebuild<'_, '_, S> {
    /// False if there is no such key: the last field of a hash has expired.
    fn key(&mut self, key: &[u8], record: &Record) -> Result<bool, E> {
        let deadline = record.deadline().map(|deadline| deadline.0.to_string());
        let at = deadline.as_ref().map_or(&b"0"[..], |text| text.as_bytes());
        match &record.value {
            Value::String(value) => match &deadline {
                Some(_) => self.tell(&[b"SET", key, value, b"PXAT", at])?,
                None => self.tell(&[b"SET", key, value])?,
            },
            Value::Json(text) if text.as_slice().len() as u64 <= self.whole_bytes_max => {
                self.tell(&[b"RESTORE", key, at, &dump_json(text.as_slice()), b"REPLACE", b"ABSTTL"])?;
            }
            value => {
                if value.bytes() <= self.whole_bytes_max_of(value) {
                    match read(self.view, &[b"DUMP", key]) {
                        Reply::Bulk(payload) => {
                            self.tell(&[b"RESTORE", key, at, &payload, b"REPLACE", b"ABSTTL"])?;
                            return Ok(true);
                        }
                        Reply::Nil => return Ok(false),
                        // It is too large for that after all.
                        _ => {}
                    }
                }
                (self.say)(Manner::Once, &[b"DEL", key])?;
                let view = self.view;
                match value {
                    Value::Hash(hash) => self.hash(key, *hash)?,
                    Value::Set(set) => {
                        let members = view.elements(*set, 0).map(|(_, member, _)| [member]);
                        in_parts(&[b"SADD", key], members, |words| self.tell(words))?;
                    }
                    Value::SortedSet(set) => {
                        let members = view.elements(*set, 0).filter_map(|(_, member, value)| {
                            let score = Standing::read(&value)?.score;
                            Some([Blob::from(score.to_string()), member])
                        });
                        in_parts(&[b"ZADD", key], members, |words| self.tell(words))?;
                    }
                    Value::List(list) => {
                        let elements = view.list_between(**list, 0, list.len()).map(|element| [element]);
                        in_parts(&[b"RPUSH", key], elements, |words| (self.say)(Manner::Once, words))?;
                    }
                    Value::Stream(stream) => self.stream(key, stream)?,
                    // Its payload is longer than the text, for which there is room.
                    Value::Json(text) => self.tell(&[b"JSON.SET", key, b"$", text.as_slice()])?,
                    Value::String(_) => {}
                }
                if deadline.is_some() {
                    (self.say)(Manner::Once, &[b"PEXPIREAT", key, at])?;
                }
            }
        }
        Ok(true)
    }

    fn whole_bytes_max_of(&self, value: &Value) -> u64 {
        match value {
            Value::Stream(_) => self.whole_bytes_max.saturating_mul(WHOLE_STREAM_TIMES),
            _ => self.whole_bytes_max,
        }
    }

    fn tell(&mut self, words: &[&[u8]]) -> Result<(), E> {
        (self.say)(Manner::Again, words)
    }

    fn in_order(&mut self, words: &[&[u8]]) -> Result<(), E> {
        (self.say)(Manner::InOrder, words)
    }

    fn hash(&mut self, key: &[u8], hash: Collection) -> Result<(), E> {
        let view = self.view;
        let fields = view.elements(hash, 0).map(|(_, field, value)| [field, value]);
        // Carried out late it would take the fields' deadlines away.
        let manner = if view.has_deadlines_ahead(hash) { Manner::Once } else { Manner::Again };
        in_parts(&[b"HSET", key], fields, |words| (self.say)(manner, words))?;
        let clock = view.time();
        let ahead = |(deadline, _): &(WallTime, Blob)| *deadline > clock;
        let mut deadlines = view.collections().field_deadlines(hash).filter(ahead).peekable();
        while let Some((deadline, field)) = deadlines.next() {
            let mut fields = vec![field];
            while fields.len() < WORDS_MAX
                && let Some((_, field)) = deadlines.next_if(|(other, _)| *other == deadline)
            {
                fields.push(field);
            }
            let (at, count) = (deadline.0.to_string(), fields.len().to_string());
            let head: [&[u8]; 5] = [b"HPEXPIREAT", key, at.as_bytes(), b"FIELDS", count.as_bytes()];
            let words: Vec<&[u8]> = head.into_iter().chain(fields.iter().map(|field| &field[..])).collect();
            self.tell(&words)?;
        }
        Ok(())
    }

    /// Makes a group, and the stream if that is wanted.
    fn group(&mut self, key: &[u8], name: &[u8], group: &Group, makes_stream: bool) -> Result<(), E> {
        let (last, read) = (group.last.text(), group.read.map(|read| read.to_string()));
        let mut words: Vec<&[u8]> = Vec::from([&b"XGROUP"[..], b"CREATE", key, name, &last]);
        words.extend(makes_stream.then_some(&b"MKSTREAM"[..]));
        if let Some(read) = &read {
            words.extend([&b"ENTRIESREAD"[..], read.as_bytes()]);
        }
        self.in_order(&words)
    }

    fn stream(&mut self, key: &[u8], stream: &Stream) -> Result<(), E> {
        let collections = self.view.collections();
        for (id, value) in collections.entries(stream, StreamId::MIN) {
            let id = id.text();
            let head: [&[u8]; 3] = [b"XADD", key, &id];
            let all: Vec<&[u8]> = head.into_iter().chain(words(&value)).collect();
            self.in_order(&all)?;
        }
        let groups: Vec<(Blob, Group)> = collections.groups(stream.number()).collect();
        if stream.is_empty()
            && let Some((name, group)) = groups.first()
        {
            // So that there is a stream.
            self.group(key, name, group, true)?;
        }
        let (last, deleted, added) = (stream.last.text(), stream.deleted.text(), stream.added.to_string());
        self.in_order(&[b"XSETID", key, &last, b"ENTRIESADDED", added.as_bytes(), b"MAXDELETEDID", &deleted])?;
        for (place, (name, group)) in groups.iter().enumerate() {
            if place > 0 || !stream.is_empty() {
                self.group(key, name, group, false)?;
            }
            for (consumer, _) in collections.consumers(group) {
                self.in_order(&[b"XGROUP", b"CREATECONSUMER", key, name, &consumer])?;
            }
            for (id, pending) in collections.all_pending(group, StreamId::MIN) {
                let Some(consumer) = collections.consumer_name(group, pending.consumer) else { continue };
                let (id, at, times) = (id.text(), pending.at.to_string(), pending.times.to_string());
                let claim: [&[u8]; 6] = [b"XCLAIM", key, name, &consumer, b"0", &id];
                let how: [&[u8]; 6] = [b"TIME", at.as_bytes(), b"RETRYCOUNT", times.as_bytes(), b"FORCE", b"JUSTID"];
                self.in_order(&[claim, how].concat())?;
            }
        }
        Ok(())
    }
}

/// Says a command as often as it takes, with some of the items each time.
fn in_parts<const N: usize, E>(
    head: &[&[u8]],
    items: impl Iterator<Item = [Blob; N]>,
    mut say: impl FnMut(&[&[u8]]) -> Result<(), E>,
) -> Result<(), E> {
    let mut items = items.peekable();
    while items.peek().is_some() {
        let (mut words, mut bytes) = (Vec::new(), 0);
        let size = |item: &[Blob; N]| item.iter().map(|word| word.len()).sum::<usize>();
        // A large one goes alone.
        while words.len() < WORDS_MAX
            && let Some(item) = items.next_if(|item| words.is_empty() || bytes + size(item) <= BYTES_MAX)
        {
            bytes += size(&item);
            words.extend(item);
        }
        let all: Vec<&[u8]> = head.iter().copied().chain(words.iter().map(|word| &word[..])).collect();
        say(&all)?;
    }
    Ok(())
}
