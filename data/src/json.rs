//! JSON documents: their text, and what is done inside them.
//!
//! A document is kept as compact text (RFC 8259), members in the order in which they came, and read for each command: a command on a small document costs
//! what its text costs. What is stored is never nested deeper than [`DEPTH_MAX`], so that everything here may recurse.

pub(crate) mod layout;
pub(crate) mod path;

use crate::failure::Failure;
use crate::value::Text;
use path::{Hop, Place};
pub(crate) use serde_json::Value as Json;

/// Most arrays and objects that stand inside one another: what serde_json reads.
pub const DEPTH_MAX: usize = 127;

/// The document that a client's text is.
pub(crate) fn parse(text: &[u8]) -> Result<Json, Failure> {
    serde_json::from_slice(text).map_err(|error| Failure::built(format!("ERR {error}").as_bytes()))
}

/// The document that is kept as this text.
pub(crate) fn stored(text: &Text) -> Result<Json, Failure> {
    serde_json::from_slice(text.as_slice()).map_err(|_| Failure::Text("ERR the stored document is damaged"))
}

/// As it is kept. Refuses one that is nested too deeply to be read again.
pub(crate) fn to_text(document: &Json) -> Result<Text, Failure> {
    if is_deeper_than(document, DEPTH_MAX) {
        return Err(Failure::Text("ERR a document has at most 127 arrays and objects inside one another"));
    }
    // Not by `Display`, which goes through the standard library's formatting for each piece.
    let text = serde_json::to_vec(document).map_err(|error| Failure::built(format!("ERR {error}").as_bytes()))?;
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

/// Takes out what stands at a place that is not the root; whether something did. The other members keep their order.
pub(crate) fn remove(document: &mut Json, place: &[Hop]) -> bool {
    let Some((last, parent)) = place.split_last() else { return false };
    match (at_mut(document, parent), last) {
        (Some(Json::Object(members)), Hop::Name(name)) => members.shift_remove(name).is_some(),
        (Some(Json::Array(items)), Hop::Index(index)) if *index < items.len() => {
            items.remove(*index);
            true
        }
        _ => false,
    }
}

/// The places that stand below none of the others, each once, and what comes later in an array first: in this order each can be replaced or removed,
/// and the others stay where they are.
pub(crate) fn outermost(mut places: Vec<Place>) -> Vec<Place> {
    // Right behind a place come all places below it.
    places.sort_unstable();
    let mut kept: Vec<Place> = Vec::with_capacity(places.len());
    for place in places {
        if !kept.last().is_some_and(|above| place.starts_with(above)) {
            kept.push(place);
        }
    }
    kept.reverse();
    kept
}

/// RFC 7396: members of objects one by one, a null takes one away, everything else replaces what is there.
pub(crate) fn merge(target: &mut Json, patch: Json) {
    let Json::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Json::Object(serde_json::Map::new());
    }
    let Some(members) = target.as_object_mut() else { return };
    for (name, value) in patch {
        if value.is_null() {
            members.shift_remove(&name);
        } else {
            merge(members.entry(name).or_insert(Json::Null), value);
        }
    }
}

/// Whether two values are the same; numbers by what they are worth, members in any order.
pub(crate) fn are_equal(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(one), Json::Number(other)) => {
            one == other || one.as_f64() == other.as_f64() && one.is_f64() != other.is_f64()
        }
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| are_equal(one, other))
        }
        (Json::Object(one), Json::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| are_equal(value, other)))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests;
