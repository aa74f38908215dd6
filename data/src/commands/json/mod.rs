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
use crate::json::read::{Given, copy_price};
use crate::json::{at_mut, layout, stored, to_text};
use crate::meter::Meter;
use crate::value::Text;

/// What a command needs a document for answers to a key that does not exist.
pub(crate) const NO_DOCUMENT: Failure =
    Failure::Text("ERR could not perform this operation on a key that doesn't exist");

/// Argument `index` as a path; the root, in the older way, if it is not there.
pub(crate) fn path_or_root<'a>(args: Args<'a>, index: usize) -> Result<Path<'a>, Failure> {
    args.items().get(index).map_or(Ok(Path::LEGACY_ROOT), |text| Path::parse(text))
}

/// The document of a record, if there is one.
pub(crate) fn document_of(record: Option<&Record>, meter: &Meter) -> Result<Option<Json>, Failure> {
    let Some(record) = record else { return Ok(None) };
    match &record.value {
        Value::Json(text) => stored(text, meter).map(Some),
        _ => Err(Failure::WrongType),
    }
}

/// The document under a key, if there is one.
pub(crate) fn read(view: &View<'_>, key: KeyRef<'_>) -> Result<Option<Json>, Failure> {
    document_of(view.get(key).as_ref(), view.meter())
}

/// Puts a document under a key, which has just been found to have this record with a document, or none; its deadline stays.
pub(crate) fn save(
    tx: &mut Transaction<'_>,
    key: KeyRef<'_>,
    before: Option<&Record>,
    document: &Json,
) -> Result<(), Failure> {
    let text = to_text(document, tx.value_bytes_max(), tx.meter())?;
    keep(tx, key, before, text);
    Ok(())
}

/// The same of its text.
pub(crate) fn keep(tx: &mut Transaction<'_>, key: KeyRef<'_>, before: Option<&Record>, text: Text) {
    match before {
        Some(before) => tx.put_over(key, before, Value::Json(text)),
        None => tx.put(key, Value::Json(text), tx.deadline_or_default(None)),
    }
}

/// Asks each value that a path means; `None` where it is not of the type that is wanted.
pub(crate) fn ask_all<R>(
    document: &Json,
    path: &Path<'_>,
    meter: &Meter,
    ask: impl Fn(&Json) -> Option<R>,
) -> Result<Vec<Option<R>>, Failure> {
    let mut answers = Vec::new();
    for value in path.values(document, meter)? {
        answers.push(ask(value));
        pay_answer(meter)?;
    }
    Ok(answers)
}

/// Pays for so many elements of an array that move, or are let go.
pub(crate) fn pay_move(count: usize, meter: &Meter) -> Result<(), Failure> {
    meter.bytes(count.saturating_mul(size_of::<Json>()));
    meter.check()
}

/// Pays for one more answer among many.
fn pay_answer(meter: &Meter) -> Result<(), Failure> {
    meter.put(0);
    meter.spend(size_of::<Option<Reply>>() as u64);
    meter.check()
}

/// What a change may do to other values that the same path means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// It leaves each at its place, with its type.
    Stay,
    /// It may move them.
    Move,
}

/// Changes each value that a path means and that is of the type that is wanted, in the document under a key: what that gave, in the order of the
/// document, `None` for the others.
pub(crate) fn change_all<R>(
    tx: &mut Transaction<'_>,
    key: KeyRef<'_>,
    path: &Path<'_>,
    others: Others,
    is_wanted: fn(&Json) -> bool,
    mut change: impl FnMut(&mut Json, &Meter) -> Result<R, Failure>,
) -> Result<Vec<Option<R>>, Failure> {
    let record = tx.get(key);
    let meter = tx.meter();
    let mut document = document_of(record.as_ref(), meter)?.ok_or(NO_DOCUMENT)?;
    let mut answers = Vec::new();
    // The last first: so nothing moves that is still to be changed. A path may mean a value several times, though, and then something has.
    for place in path.places_of(&document, meter, |value| others == Others::Move || is_wanted(value))?.iter().rev() {
        let found = place.as_ref().and_then(|place| at_mut(&mut document, place)).filter(|value| is_wanted(value));
        answers.push(found.map(|value| change(value, meter)).transpose()?);
        pay_answer(meter)?;
    }
    if answers.iter().any(Option::is_some) {
        save(tx, key, record.as_ref(), &document)?;
    }
    answers.reverse();
    Ok(answers)
}

/// Values that are put into a document, at one place or at many.
pub(crate) struct Copies {
    values: Vec<Json>,
    /// What one copy of all pays.
    price: u64,
    /// How many there are so far.
    count: u64,
    /// Bytes of text by which each makes the document longer, at least; not known while there is one.
    bytes: Option<u64>,
    bytes_max: u64,
}

impl Copies {
    /// Of what a client has given, for a document that may have so many bytes.
    pub(crate) fn of(given: &[Given<'_>], bytes_max: u64, meter: &Meter) -> Result<Copies, Failure> {
        let values = given.iter().map(|given| given.read(meter)).collect::<Result<Vec<_>, Failure>>()?;
        Ok(Copies { price: values.iter().map(copy_price).sum(), values, count: 0, bytes: None, bytes_max })
    }

    /// The same if each makes the document longer by the text of `least`, and not by its own.
    pub(crate) fn adding(self, least: &Json, meter: &Meter) -> Result<Copies, Failure> {
        Ok(Copies { bytes: Some(layout::compact_bytes(least, meter)? as u64), ..self })
    }

    /// One more copy. Refuses it when the document would be too long with what was put into it, before there is such a document.
    pub(crate) fn next(&mut self, meter: &Meter) -> Result<impl Iterator<Item = Json>, Failure> {
        self.count += 1;
        if self.count > 1 {
            let bytes = match self.bytes {
                Some(bytes) => bytes,
                None => {
                    let mut bytes = 0;
                    for value in &self.values {
                        bytes += layout::compact_bytes(value, meter)? as u64;
                    }
                    *self.bytes.insert(bytes)
                }
            };
            if bytes.saturating_mul(self.count) > self.bytes_max {
                return Err(Failure::ValueTooLong);
            }
        }
        meter.spend(self.price);
        meter.check()?;
        Ok(self.values.iter().cloned())
    }
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
