//! Keys as they stand in an RDB file, so that a Redis can load them ([`crate::algorithms::rdb`] says how such a file looks).
//!
//! | value | type in the file | read by |
//! |---|---|---|
//! | string, list, set, sorted set, hash | 0, 1, 2, 5, 4: one element after the other | Redis 7.0 and later |
//! | stream, with its groups | 19 | Redis 7.0 and later |
//! | hash with fields that expire | 24 | Redis 7.4 and later; an earlier one refuses the whole file |
//! | JSON document | 7, as RedisJSON writes it | Redis 8, or one with RedisJSON; any other refuses the whole file |
//!
//! These are the types of `DUMP`. A Redis turns them into what suits their size when it loads them. Elements are written as they are read: of a large value no more than
//! one element is in memory at a time, of a stream no more than one listpack.

use crate::algorithms::dump::{
    TYPE_HASH, TYPE_HASH_FADING, TYPE_LIST, TYPE_MODULE, TYPE_SET, TYPE_SORTED_SET, TYPE_STREAM, TYPE_STRING, after,
    put_json, write_stream,
};
use crate::algorithms::rdb::RdbWriter;
use crate::collections::ranked::Standing;
use crate::tree::Tree;
use crate::value::{Collection, Record, Value};
use crate::view::View;
use base::WallTime;
use base::versions::NEWEST;
use std::ops::Bound;

/// Writes each key that `is_wanted` does not say no to into `out`, in the database that was begun there last. Keys, and fields, whose deadline has passed by the time `at`
/// are left out. Returns how many keys there were.
///
/// Where the state is in a store, ask [`Tree::trouble`] afterwards: what cannot be read ends a value early, and the file is of no use then.
///
/// # Errors
/// The first error of the sink, at once.
pub fn write_wanted<E, S: FnMut(&[u8]) -> Result<(), E>>(
    tree: &Tree,
    at: WallTime,
    mut is_wanted: impl FnMut(&[u8]) -> bool,
    out: &mut RdbWriter<S>,
) -> Result<u64, E> {
    let view = View::new(tree, at, 0).with_work_max(u64::MAX).in_version(NEWEST);
    let mut count = 0;
    for (key, record) in tree.living(Bound::Unbounded, at).filter(|(key, _)| is_wanted(key)) {
        view.begin_work();
        count += u64::from(write_key(&view, &key, &record, out)?);
    }
    Ok(count)
}

/// Writes the libraries of functions. All partitions of a bucket have the same.
///
/// # Errors
/// As [`write_wanted`].
pub fn write_libraries<E, S: FnMut(&[u8]) -> Result<(), E>>(tree: &Tree, out: &mut RdbWriter<S>) -> Result<(), E> {
    tree.collections.libraries().try_for_each(|library| out.library(&library.code))
}

/// Whether there are libraries of functions.
#[must_use]
pub fn has_libraries(tree: &Tree) -> bool {
    tree.collections.libraries().next().is_some()
}

/// False if there is no such key: the last field of a hash has expired.
fn write_key<E, S: FnMut(&[u8]) -> Result<(), E>>(
    view: &View<'_>,
    key: &[u8],
    record: &Record,
    out: &mut RdbWriter<S>,
) -> Result<bool, E> {
    let begin = |out: &mut RdbWriter<S>, kind| out.key(key, record.deadline(), kind);
    match &record.value {
        Value::String(value) => {
            begin(out, TYPE_STRING)?;
            out.string(value)?;
        }
        Value::List(list) => {
            begin(out, TYPE_LIST)?;
            out.number(list.len())?;
            view.list_between(**list, 0, list.len()).try_for_each(|element| out.string(&element))?;
        }
        Value::Set(set) => {
            begin(out, TYPE_SET)?;
            out.number(set.len())?;
            view.elements(*set, 0).try_for_each(|(_, member, _)| out.string(&member))?;
        }
        Value::SortedSet(set) => {
            begin(out, TYPE_SORTED_SET)?;
            out.number(set.len())?;
            for (_, member, value) in view.elements(*set, 0) {
                let score = Standing::read(&value).map_or(0.0, |standing| standing.score);
                out.string(&member)?;
                out.raw(&score.to_le_bytes())?;
            }
        }
        Value::Hash(hash) => return write_hash(view, *hash, begin, out),
        Value::Stream(stream) => {
            begin(out, TYPE_STREAM)?;
            write_stream(view.collections(), stream, |put| out.parts(put))?;
        }
        Value::Json(text) => {
            begin(out, TYPE_MODULE)?;
            out.parts(|bytes| put_json(bytes, text.as_slice()))?;
        }
    }
    Ok(true)
}

/// Its number of fields stands before them, and with deadlines the soonest of those, too: so it is read twice if it has some.
fn write_hash<E, S: FnMut(&[u8]) -> Result<(), E>>(
    view: &View<'_>,
    hash: Collection,
    begin: impl FnOnce(&mut RdbWriter<S>, u8) -> Result<(), E>,
    out: &mut RdbWriter<S>,
) -> Result<bool, E> {
    let (mut fields, mut soonest) = (hash.len(), None);
    if hash.has_deadlines() {
        fields = view.elements(hash, 0).count() as u64;
        soonest = view.soonest_field_ahead(hash);
        if fields == 0 {
            return Ok(false);
        }
    }
    begin(out, if soonest.is_some() { TYPE_HASH_FADING } else { TYPE_HASH })?;
    if let Some(soonest) = soonest {
        out.raw(&soonest.0.to_le_bytes())?;
    }
    out.number(fields)?;
    for (_, field, value) in view.elements(hash, 0) {
        if let Some(soonest) = soonest {
            out.number(after(soonest, view.field_deadline(hash, &field)) as u64)?;
        }
        out.string(&field)?;
        out.string(&value)?;
    }
    Ok(true)
}
