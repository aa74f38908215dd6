//! Commands on JSON documents, as RedisJSON has them: one file each.

pub mod arrappend;
pub mod arrindex;
pub mod arrinsert;
pub mod arrlen;
pub mod arrpop;
pub mod arrtrim;
pub mod clear;
pub mod debug;
pub mod del;
pub mod get;
pub mod merge;
pub mod mget;
pub mod mset;
pub mod numincrby;
pub mod objkeys;
pub mod objlen;
pub mod resp;
pub mod set;
pub mod strappend;
pub mod strlen;
pub mod toggle;
pub mod type_of;

use crate::commands::prelude::*;
pub(crate) use crate::json::Json;
use crate::json::path::Path;
use crate::json::{at_mut, stored, to_text};

/// What a command needs a document for answers to a key that does not exist.
pub(crate) const NO_DOCUMENT: Failure =
    Failure::Text("ERR could not perform this operation on a key that doesn't exist");

/// Argument `index` as a path; the root, in the older way, if it is not there.
pub(crate) fn path_or_root<'a>(args: Args<'a>, index: usize) -> Result<Path<'a>, Failure> {
    args.items().get(index).map_or(Ok(Path::LEGACY_ROOT), |text| Path::parse(text))
}

/// The document of a record, if there is one.
pub(crate) fn document_of(record: Option<&Record>) -> Result<Option<Json>, Failure> {
    let Some(record) = record else { return Ok(None) };
    match &record.value {
        Value::Json(text) => stored(text).map(Some),
        _ => Err(Failure::WrongType),
    }
}

/// The document under a key, if there is one.
pub(crate) fn read(view: &View<'_>, key: KeyRef<'_>) -> Result<Option<Json>, Failure> {
    document_of(view.get(key).as_ref())
}

/// Puts a document under a key, which has just been found to have this record with a document, or none; its deadline stays.
pub(crate) fn save(
    tx: &mut Transaction<'_>,
    key: KeyRef<'_>,
    before: Option<&Record>,
    document: &Json,
) -> Result<(), Failure> {
    let text = to_text(document)?;
    tx.check_length(text.as_slice().len() as u64)?;
    match before {
        Some(before) => tx.put_over(key, before, Value::Json(text)),
        None => tx.put(key, Value::Json(text), tx.deadline_or_default(None)),
    }
    Ok(())
}

/// Asks each value that a path means; `None` where it is not of the type that is wanted.
pub(crate) fn ask_all<R>(document: &Json, path: &Path<'_>, ask: impl Fn(&Json) -> Option<R>) -> Vec<Option<R>> {
    path.values(document).into_iter().map(ask).collect()
}

/// Changes each value that a path means and that is of the type that is wanted, in the document under a key: what that gave, in the order of the
/// document, `None` for the others.
pub(crate) fn change_all<R>(
    tx: &mut Transaction<'_>,
    key: KeyRef<'_>,
    path: &Path<'_>,
    is_wanted: fn(&Json) -> bool,
    mut change: impl FnMut(&mut Json) -> Result<R, Failure>,
) -> Result<Vec<Option<R>>, Failure> {
    let record = tx.get(key);
    let mut document = document_of(record.as_ref())?.ok_or(NO_DOCUMENT)?;
    let mut answers = Vec::new();
    // The last first: so nothing moves that is still to be changed.
    for place in path.places(&document).iter().rev() {
        let found = at_mut(&mut document, place).filter(|value| is_wanted(value));
        answers.push(found.map(&mut change).transpose()?);
    }
    if answers.iter().any(Option::is_some) {
        save(tx, key, record.as_ref(), &document)?;
    }
    answers.reverse();
    Ok(answers)
}

/// What a command answers that has asked or changed several values: to JSONPath all of them, to a path of the older kind the last that was of the type
/// that is wanted.
pub(crate) fn all_or_last(path: &Path<'_>, answers: Vec<Option<Reply>>, what_else: &str) -> Result<Reply, Failure> {
    if path.is_legacy() {
        return answers.into_iter().flatten().next_back().ok_or_else(|| path.is_absent_or(what_else));
    }
    Ok(Reply::Array(answers.into_iter().map(|answer| answer.unwrap_or(Reply::Nil)).collect()))
}

/// What a command that asks a document answers to a key that does not exist.
pub(crate) fn absent(path: &Path<'_>) -> Result<Reply, Failure> {
    if path.is_legacy() { Ok(Reply::Nil) } else { Err(NO_DOCUMENT) }
}

/// Why a value of another type is refused.
pub(crate) fn expected(wanted: &str, found: &str) -> Failure {
    Failure::built(format!("WRONGTYPE wrong type of path value - expected {wanted} but found {found}").as_bytes())
}

/// A length as an answer.
pub(crate) fn length(of: usize) -> Reply {
    Reply::count(of)
}

/// An index into what has `len` elements, from the end if it is negative; one outside becomes the first, or the last.
pub(crate) fn clamped(index: i64, len: usize) -> usize {
    let len_signed = i64::try_from(len).unwrap_or(i64::MAX);
    let index = if index < 0 { index.saturating_add(len_signed).max(0) } else { index };
    usize::try_from(index).unwrap_or(usize::MAX).min(len.saturating_sub(1))
}
