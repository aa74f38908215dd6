//! JSON documents: their text, and what is done inside them.
//!
//! A document is kept as compact text (RFC 8259), members in the order in which they came, and read for each command: a command on a small document costs
//! what its text costs. What is stored is never nested deeper than [`DEPTH_MAX`], so that everything here may recurse.

pub(crate) mod layout;
pub(crate) mod path;
mod query;
pub(crate) mod read;

use crate::failure::Failure;
use crate::meter::{BYTES_PER_UNIT, Meter, VISIT};
use crate::value::Text;
use path::{Hop, Place};
pub(crate) use serde_json::Value as Json;

/// Most arrays and objects that stand inside one another: what serde_json reads.
pub const DEPTH_MAX: usize = 127;

/// The document that is kept as this text.
pub(crate) fn stored(text: &Text, meter: &Meter) -> Result<Json, Failure> {
    read::read(text.as_slice(), meter, |_| Failure::Text("ERR the stored document is damaged"))
}

/// As it is kept, if that has at most so many bytes. Refuses one that is nested too deeply to be read again.
pub(crate) fn to_text(document: &Json, bytes_max: u64, meter: &Meter) -> Result<Text, Failure> {
    if is_deeper_than(document, DEPTH_MAX) {
        return Err(Failure::Text("ERR a document has at most 127 arrays and objects inside one another"));
    }
    // Not by `Display`, which goes through the standard library's formatting for each piece.
    let text = layout::compact(document, bytes_max, meter)?.ok_or(Failure::ValueTooLong)?;
    Ok(Text::new(&text))
}

fn is_deeper_than(value: &Json, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else { return value.is_array() || value.is_object() };
    match value {
        Json::Array(items) => items.iter().any(|item| is_deeper_than(item, left)),
        Json::Object(members) => members.values().any(|member| is_deeper_than(member, left)),
        _ => false,
    }
}

/// The type's name as `JSON.TYPE` answers it.
pub(crate) fn type_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_f64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

/// The value at a place, if there is one.
pub(crate) fn at<'d>(document: &'d Json, place: &[Hop]) -> Option<&'d Json> {
    place.iter().try_fold(document, |value, hop| match hop {
        Hop::Name(name) => value.as_object()?.get(name),
        Hop::Index(index) => value.as_array()?.get(*index),
    })
}

/// As [`at`], to change it.
pub(crate) fn at_mut<'d>(document: &'d mut Json, place: &[Hop]) -> Option<&'d mut Json> {
    place.iter().try_fold(document, |value, hop| match hop {
        Hop::Name(name) => value.as_object_mut()?.get_mut(name),
        Hop::Index(index) => value.as_array_mut()?.get_mut(*index),
    })
}

/// Takes out what stands at places that are not the root; how many there were. The places are in order, and none stands below another one. The other members
/// keep their order.
///
/// One walk over each array and each object of which something goes: one place after another would move what follows each time.
pub(crate) fn remove_all(document: &mut Json, places: &[Place]) -> usize {
    remove_below(document, places, 0)
}

/// The places go on from here with their hop of that number. No deeper than the document is nested.
fn remove_below(value: &mut Json, places: &[Place], depth: usize) -> usize {
    let mut removed = 0;
    // Those that end here stand before those that go on by the same hop, which there are none of.
    let mut gone: Vec<&Hop> = Vec::new();
    for group in places.chunk_by(|one, other| one.get(depth) == other.get(depth)) {
        let Some(hop) = group.first().and_then(|place| place.get(depth)) else { continue };
        if group.iter().any(|place| place.len() == depth + 1) {
            gone.push(hop);
        } else if let Some(child) = at_mut(value, std::slice::from_ref(hop)) {
            removed += remove_below(child, group, depth + 1);
        }
    }
    if gone.is_empty() {
        return removed;
    }
    match value {
        Json::Object(members) => {
            let before = members.len();
            members.retain(|name, _| {
                let is_name = |hop: &&Hop| match hop {
                    Hop::Name(other) => other.as_str().cmp(name),
                    Hop::Index(_) => std::cmp::Ordering::Greater,
                };
                gone.binary_search_by(is_name).is_err()
            });
            removed + before - members.len()
        }
        Json::Array(items) => {
            let (before, mut index) = (items.len(), 0);
            let mut gone = gone.into_iter().peekable();
            items.retain(|_| {
                let goes = gone.next_if(|hop| **hop == Hop::Index(index)).is_some();
                index += 1;
                !goes
            });
            removed + before - items.len()
        }
        _ => removed,
    }
}

/// The places that stand below none of the others, each once, in order: what comes later in an array comes later.
pub(crate) fn outermost(mut places: Vec<Place>, meter: &Meter) -> Result<Vec<Place>, Failure> {
    if places.len() > 1 {
        // Each is compared about as often as their number has digits.
        let digits = u64::from(places.len().ilog2() + 1);
        let bytes_of = |place: &Place| place.iter().map(Hop::bytes).sum::<usize>() as u64;
        let bytes: u64 = places.iter().map(bytes_of).sum();
        meter.spend(digits.saturating_mul(places.len() as u64 + bytes / BYTES_PER_UNIT));
        meter.check()?;
        // Right behind a place come all places below it.
        places.sort_unstable();
    }
    let mut kept: Vec<Place> = Vec::with_capacity(places.len());
    for place in places {
        if !kept.last().is_some_and(|above| place.starts_with(above)) {
            kept.push(place);
        }
    }
    Ok(kept)
}

/// RFC 7396: members of objects one by one, a null takes one away, everything else replaces what is there.
pub(crate) fn merge(target: &mut Json, patch: Json, meter: &Meter) {
    let Json::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Json::Object(serde_json::Map::new());
    }
    let Some(members) = target.as_object_mut() else { return };
    // All at once: each that is taken away alone would move those behind it.
    if patch.values().any(Json::is_null) {
        meter.spend(VISIT.saturating_mul(members.len() as u64));
        members.retain(|name, _| !patch.get(name).is_some_and(Json::is_null));
    }
    for (name, value) in patch {
        if !value.is_null() {
            merge(members.entry(name).or_insert(Json::Null), value, meter);
        }
    }
}

/// Whether two values are the same; numbers by what they are worth, members in any order. What is compared pays; past the limit the answer may be any.
pub(crate) fn are_equal(one: &Json, other: &Json, meter: &Meter) -> bool {
    if !meter.visit(0) {
        return false;
    }
    match (one, other) {
        (Json::Number(one), Json::Number(other)) => {
            one == other || one.as_f64() == other.as_f64() && one.is_f64() != other.is_f64()
        }
        (Json::String(one), Json::String(other)) => one.len() == other.len() && meter.bytes(one.len()) && one == other,
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| are_equal(one, other, meter))
        }
        (Json::Object(one), Json::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| {
                    meter.bytes(name.len());
                    other.get(name).is_some_and(|other| are_equal(value, other, meter))
                })
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests;
