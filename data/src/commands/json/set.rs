//! `JSON.SET key path value [NX | XX]`

use super::{Json, document_of, save};
use crate::commands::prelude::*;
use crate::json::path::{Path, Place, Step, place_of};
use crate::json::{at_mut, outermost, parse};

/// Puts a value into a document, or makes one.
pub struct JsonSet<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
    value: Json,
    condition: Condition,
}

/// What a path must find for something to be put there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    None,
    /// Nothing.
    Absent,
    /// Something.
    Present,
}

impl<'a> WriteCommand<'a> for JsonSet<'a> {
    const SPEC: Spec = Spec {
        name: "json.set",
        arity: -4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS),
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Puts a value where a path leads, or makes a document.",
        arguments: "key path value [NX | XX]",
        example: "JSON.SET user:7 $.name '\"Ada\"'",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let mut condition = Condition::None;
        for index in 4..args.len() {
            condition = match condition {
                Condition::None if args.is(index, "NX") => Condition::Absent,
                Condition::None if args.is(index, "XX") => Condition::Present,
                _ => return Err(Failure::Syntax),
            };
        }
        Ok(JsonSet { key: args.key(1)?, path: Path::parse(args.get(2)?)?, value: parse(args.get(3)?)?, condition })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let record = tx.get(self.key);
        let document = document_of(record.as_ref())?;
        let Some(document) = put(document, &self.path, self.value, self.condition)? else { return Ok(Reply::Nil) };
        save(tx, self.key, record.as_ref(), &document)?;
        Ok(Reply::Ok)
    }
}

/// Puts a value where a path leads; `None` if that changes nothing.
pub(crate) fn put(
    document: Option<Json>,
    path: &Path<'_>,
    value: Json,
    condition: Condition,
) -> Result<Option<Json>, Failure> {
    let Some(mut document) = document else {
        return match (path.is_root(), condition) {
            (true, Condition::Present) => Ok(None),
            (true, _) => Ok(Some(value)),
            (false, _) => Err(Failure::Text("ERR new objects must be created at the root")),
        };
    };
    let places = outermost(path.places(&document));
    if places.is_empty() {
        if condition == Condition::Present || !add(&mut document, path, value)? {
            return Ok(None);
        }
        return Ok(Some(document));
    }
    if condition == Condition::Absent {
        return Ok(None);
    }
    let (mut value, mut left) = (value, places.len());
    for place in &places {
        left -= 1;
        if let Some(there) = at_mut(&mut document, place) {
            *there = if left == 0 { std::mem::take(&mut value) } else { value.clone() };
        }
    }
    Ok(Some(document))
}

/// Adds a member to the object in which the path's last step finds none; whether there is such an object.
pub(crate) fn add(document: &mut Json, path: &Path<'_>, value: Json) -> Result<bool, Failure> {
    let Some((last, parent)) = path.fixed().and_then(|steps| steps.split_last()) else {
        return Err(Failure::Text("ERR wrong static path"));
    };
    let Step::Name(name) = last else { return Err(Failure::Text("ERR array index out of range")) };
    let parent: Option<Place> = place_of(document, parent);
    let Some(Json::Object(members)) = parent.and_then(|parent| at_mut(document, &parent)) else { return Ok(false) };
    members.insert(name.clone(), value);
    Ok(true)
}
