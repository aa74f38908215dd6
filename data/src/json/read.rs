//! Reading documents. What one becomes in memory may be forty times as long as its text (`[0,0,0 …]`), so every value pays when it is made, before the next
//! one is.

use super::Json;
use crate::failure::Failure;
use crate::meter::Meter;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number};
use std::fmt;

/// For each value of a document that is read or copied: it is visited, and takes 72 bytes.
pub(crate) const VALUE: u64 = 38;
/// In addition for each member of an object.
pub(crate) const MEMBER: u64 = 12;

/// A document that a client has sent, which is one, but was not made so far: it is looked at before it goes into the log, and made when its entry is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a>(&'a [u8]);

impl<'a> Given<'a> {
    /// Refuses what is no document.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Given<'a>, Failure> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        Reader(None).deserialize(&mut reader).and_then(|_| reader.end()).map_err(refused)?;
        Ok(Given(text))
    }

    /// The document.
    pub(crate) fn read(self, meter: &Meter) -> Result<Json, Failure> {
        read(self.0, meter, refused)
    }

    /// The value, if it has no others inside.
    pub(crate) fn scalar(self) -> Option<Json> {
        let start = self.0.iter().find(|byte| !byte.is_ascii_whitespace())?;
        if matches!(start, b'[' | b'{') { None } else { serde_json::from_slice(self.0).ok() }
    }

    /// The type's name, as [`super::type_name`].
    pub(crate) fn type_name(self) -> &'static str {
        let is_array = || self.0.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
        match self.scalar() {
            Some(value) => super::type_name(&value),
            None if is_array() => "array",
            None => "object",
        }
    }
}

fn refused(error: serde_json::Error) -> Failure {
    Failure::built(format!("ERR {error}").as_bytes())
}

/// The document of a text. Ends when the meter does.
pub(crate) fn read(
    text: &[u8],
    meter: &Meter,
    refused: impl FnOnce(serde_json::Error) -> Failure,
) -> Result<Json, Failure> {
    meter.parse(text.len());
    meter.check()?;
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = Reader(Some(meter)).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    meter.check()?;
    read.map_err(refused)
}

/// What a copy of a value pays.
pub(crate) fn copy_price(value: &Json) -> u64 {
    let of_bytes = |bytes: usize| bytes as u64 / crate::meter::WRITTEN_BYTES_PER_UNIT;
    VALUE
        + match value {
            Json::String(text) => of_bytes(text.len()),
            Json::Array(items) => items.iter().map(copy_price).sum(),
            Json::Object(members) => {
                members.iter().map(|(name, value)| MEMBER + of_bytes(name.len()) + copy_price(value)).sum()
            }
            _ => 0,
        }
}

/// Makes values as `serde_json` does. Without a meter it only looks whether they are values, and gives anything.
#[derive(Clone, Copy)]
struct Reader<'m>(Option<&'m Meter>);

impl Reader<'_> {
    fn pay<E: Error>(self, units: u64) -> Result<(), E> {
        if self.0.is_none_or(|meter| meter.spend(units)) { Ok(()) } else { Err(E::custom("the budget is spent")) }
    }

    fn makes(self) -> bool {
        self.0.is_some()
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        self.pay(VALUE)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(if self.makes() { Json::String(value.to_owned()) } else { Json::Null })
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            if self.makes() {
                read.push(item);
            }
        }
        Ok(Json::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut read = Map::new();
        while let Some(name) = members.next_key_seed(Name { is_made: self.makes() })? {
            self.pay(MEMBER)?;
            let value = members.next_value_seed(self)?;
            if self.makes() {
                read.insert(name, value);
            }
        }
        Ok(Json::Object(read))
    }
}

/// The name of a member.
struct Name {
    is_made: bool,
}

impl<'de> DeserializeSeed<'de> for Name {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string key")
    }

    fn visit_str<E>(self, name: &str) -> Result<String, E> {
        Ok(if self.is_made { name.to_owned() } else { String::new() })
    }
}
