//! Keys and values are any bytes, while URLs and JSON are text: the ways across, none of which loses anything.
//!
//! - In a URL, any byte may be percent-encoded (RFC 3986); in a query, `+` is a space as HTML forms have it.
//! - As a JSON value, bytes that are UTF-8 are a string; any others are `{"base64": "…"}`.
//! - As a JSON name, bytes that are UTF-8 stand as they are; any others, and those that begin with `base64:`, are
//!   `base64:` and their base64. So every name has exactly one reading.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Serialize, SerializeMap, Serializer};
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// What marks a JSON name that is not the key's own text.
const NAME_MARK: &str = "base64:";

/// Bytes as a JSON value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JsonBytes(pub(crate) Vec<u8>);

impl Serialize for JsonBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("base64", &STANDARD.encode(&self.0))?;
                map.end()
            }
        }
    }
}

impl PartialSchema for JsonBytes {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String).description(Some("The bytes, which are UTF-8."));
        OneOfBuilder::new().item(text).item(base64_schema()).description(Some("Any bytes.")).into()
    }
}

impl ToSchema for JsonBytes {}

/// Bytes that are a whole body.
pub(super) struct RawBytes;

impl PartialSchema for RawBytes {
    fn schema() -> RefOr<Schema> {
        // OpenAPI 3.1: a body without a type in its schema is any bytes.
        ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::SchemaType::AnyValue)
            .content_media_type("application/octet-stream")
            .description(Some("Any bytes."))
            .into()
    }
}

impl ToSchema for RawBytes {}

/// The schema of `{"base64": "…"}`.
pub(super) fn base64_schema() -> ObjectBuilder {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"))
        .description(Some("The bytes in base64 (RFC 4648, section 4)."));
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("base64", text)
        .required("base64")
        .additional_properties(Some(utoipa::openapi::schema::AdditionalProperties::<Schema>::FreeForm(false)))
}

/// Reads base64 as [`JsonBytes`] writes it.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Appends bytes as a JSON name, quotes included.
pub(super) fn write_name(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with(NAME_MARK) => write_json(out, text),
        _ => write_json(out, &format!("{NAME_MARK}{}", STANDARD.encode(bytes))),
    }
}

/// Appends anything as JSON.
pub(super) fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value)
        .expect("a vector takes all bytes, and the types written here have no failing part");
}

/// Takes percent-encoding away. `None` if a `%` is not followed by two hexadecimal digits.
pub(super) fn percent_decode(text: &str, plus_is_space: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        out.push(match byte {
            b'%' => {
                let [high, low, after @ ..] = rest else { return None };
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(*high)? << 4 | digit(*low)?).expect("two digits of four bits")
            }
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    Some(out)
}

/// Bytes for a sentence: quoted, one line, and not longer than a line.
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 64;
    match bytes.get(..SHOWN_BYTES_MAX) {
        Some(start) if bytes.len() > SHOWN_BYTES_MAX => {
            format!("\"{}…\"", String::from_utf8_lossy(start).escape_debug())
        }
        _ => format!("\"{}\"", String::from_utf8_lossy(bytes).escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        write_name(&mut out, bytes);
        String::from_utf8(out).expect("JSON is text")
    }

    #[test]
    fn any_bytes_cross_into_json() {
        let json = |bytes: &[u8]| serde_json::to_string(&JsonBytes(bytes.to_vec())).expect("JSON");
        assert_eq!(json("grüß \"dich\"\n".as_bytes()), r#""grüß \"dich\"\n""#);
        assert_eq!(json(b"\xff\x00"), r#"{"base64":"/wA="}"#);
        assert_eq!(name(b"plain"), r#""plain""#);
        assert_eq!(name(b"\xff\x00"), r#""base64:/wA=""#);
        assert_eq!(name(b"base64:"), r#""base64:YmFzZTY0Og==""#);
        assert_eq!(decode_base64("/wA="), Some(vec![0xff, 0]));
        assert_eq!(decode_base64("/wA"), None);
    }

    #[test]
    fn any_bytes_cross_out_of_urls() {
        assert_eq!(percent_decode("a%20b+c%FF%00", false).as_deref(), Some(&b"a b+c\xff\0"[..]));
        assert_eq!(percent_decode("a%2bb+c", true).as_deref(), Some(&b"a+b c"[..]));
        for wrong in ["%", "%1", "%g0", "%+1"] {
            assert_eq!(percent_decode(wrong, false), None, "{wrong}");
        }
    }

    #[test]
    fn a_long_key_does_not_fill_a_sentence() {
        assert_eq!(shown(b"a\"b"), r#""a\"b""#);
        assert!(shown(&[b'x'; 1000]).len() < 80);
    }
}
