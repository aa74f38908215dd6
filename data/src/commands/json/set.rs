//! `JSON.SET key path value [NX | XX]`

use super::{Copies, Json, document_of, save};
use crate::commands::prelude::*;
use crate::json::path::{Path, Place, Step, place_of};
use crate::json::read::Given;
use crate::json::{at_mut, outermost};
use crate::meter::Meter;

/// Puts a value into a document, or makes one.
pub struct JsonSet<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
    value: Given<'a>,
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
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS).and(Flags::BOUNDED),
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
        Ok(JsonSet {
            key: args.key(1)?,
            path: Path::parse(args.get(2)?)?,
            value: Given::parse(args.get(3)?)?,
            condition,
        })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let record = tx.get(self.key);
        let (meter, bytes_max) = (tx.meter(), tx.value_bytes_max());
        let mut document = match &record {
            // All of it goes: it need not be read.
            Some(record) if self.path.is_root() && matches!(record.value, Value::Json(_)) => Some(Json::Null),
            record => document_of(record.as_ref(), meter)?,
        };
        if !put(&mut document, &self.path, self.value, self.condition, bytes_max, meter)? {
            return Ok(Reply::Nil);
        }
        if let Some(document) = document {
            save(tx, self.key, record.as_ref(), &document)?;
        }
        Ok(Reply::Ok)
    }
}

/// Puts a value where a path leads, or makes a document of it; whether that changes anything.
pub(crate) fn put(
    document: &mut Option<Json>,
    path: &Path<'_>,
    value: Given<'_>,
    condition: Condition,
    bytes_max: u64,
    meter: &Meter,
) -> Result<bool, Failure> {
    let Some(document) = document else {
        if !path.is_root() {
            return Err(Failure::Text("ERR new objects must be created at the root"));
        }
        if condition == Condition::Present {
            return Ok(false);
        }
        *document = Some(value.read(meter)?);
        return Ok(true);
    };
    let places = outermost(path.places(document, meter)?, meter)?;
    if places.is_empty() {
        return if condition == Condition::Present {
            Ok(false)
        } else {
            add(document, path, value.read(meter)?, meter)
        };
    }
    if condition == Condition::Absent {
        return Ok(false);
    }
    if let [place] = &places[..] {
        if let Some(there) = at_mut(document, place) {
            *there = value.read(meter)?;
        }
        return Ok(true);
    }
    let mut copies = Copies::of(&[value], bytes_max, meter)?;
    for place in &places {
        if let (Some(there), Some(value)) = (at_mut(document, place), copies.next(meter)?.next()) {
            *there = value;
        }
    }
    Ok(true)
}

/// Adds a member to the object in which the path's last step finds none; whether there is such an object.
pub(crate) fn add(document: &mut Json, path: &Path<'_>, value: Json, meter: &Meter) -> Result<bool, Failure> {
    let Some((last, parent)) = path.fixed().and_then(|steps| steps.split_last()) else {
        return Err(Failure::Text("ERR wrong static path"));
    };
    let Step::Name(name) = last else { return Err(Failure::Text("ERR array index out of range")) };
    let parent: Option<Place> = place_of(document, parent, meter);
    let Some(Json::Object(members)) = parent.and_then(|parent| at_mut(document, &parent)) else { return Ok(false) };
    members.insert(name.clone(), value);
    Ok(true)
}
