//! The body of `POST /insertOrUpdate`, read without a socket in sight so that the fuzzer reaches it.

use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::text::{base64_schema, decode_base64};

/// A key and the value that it shall have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Insert {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// The object as it comes: the fields' own text is kept, so that a number is stored as it was written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    #[serde(borrow)]
    key: &'a RawValue,
    #[serde(borrow)]
    value: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64 {
    base64: String,
}

/// Reads `{"key": …, "value": …}`. Each is a string, a number or a truth value (stored as its text), or
/// `{"base64": "…"}` for bytes that are not text.
///
/// # Errors
/// What is wrong, as a sentence for the client.
pub(super) fn parse_insert(body: &[u8]) -> Result<Insert, String> {
    // Serde would take an array for the object's fields in their order.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err("The body must be a JSON object, {\"key\": …, \"value\": …}.".to_owned());
    }
    let fields: Fields<'_> = serde_json::from_slice(body)
        .map_err(|error| format!("The body is not {{\"key\": …, \"value\": …}}: {error}."))?;
    Ok(Insert { key: scalar("key", fields.key.get())?, value: scalar("value", fields.value.get())? })
}

/// The bytes that a field's JSON text stands for.
fn scalar(field: &str, json: &str) -> Result<Vec<u8>, String> {
    let wrong = || {
        format!(
            "The field \"{field}\" must be a string, a number, true, false, or {{\"base64\": \"…\"}} for any bytes."
        )
    };
    match json.as_bytes().first() {
        Some(b'"') => {
            let text: String =
                serde_json::from_str(json).map_err(|error| format!("The field \"{field}\": {error}."))?;
            Ok(text.into_bytes())
        }
        Some(b'{') => {
            let object: Base64 = serde_json::from_str(json).map_err(|_| wrong())?;
            decode_base64(&object.base64).ok_or_else(|| format!("The base64 of the field \"{field}\" is malformed."))
        }
        Some(b'-' | b'0'..=b'9' | b't' | b'f') => Ok(json.as_bytes().to_vec()),
        _ => Err(wrong()),
    }
}

/// The schema of [`Insert`] as JSON.
pub(super) struct InsertBody;

impl PartialSchema for InsertBody {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .property("key", scalar_schema())
            .required("key")
            .property("value", scalar_schema())
            .required("value")
            .additional_properties(Some(utoipa::openapi::schema::AdditionalProperties::<Schema>::FreeForm(false)))
            .examples([serde_json::json!({"key": "greeting", "value": "hello"})])
            .into()
    }
}

impl ToSchema for InsertBody {}

fn scalar_schema() -> OneOfBuilder {
    let plain = |of: Type| ObjectBuilder::new().schema_type(of);
    OneOfBuilder::new()
        .item(plain(Type::String))
        .item(plain(Type::Number))
        .item(plain(Type::Boolean))
        .item(base64_schema())
        .description(Some("Text; a number or truth value, stored as its text; or any bytes in base64."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: &str) -> Option<(Vec<u8>, Vec<u8>)> {
        parse_insert(body.as_bytes()).ok().map(|insert| (insert.key, insert.value))
    }

    fn pair(key: &[u8], value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        Some((key.to_vec(), value.to_vec()))
    }

    #[test]
    fn what_a_body_may_hold() {
        assert_eq!(parsed(r#"{"key":"a","value":"1"}"#), pair(b"a", b"1"));
        assert_eq!(parsed(" {\"value\" : \"\\u00fc\\n\",\n\"key\":\"\"} "), pair(b"", "ü\n".as_bytes()));
        assert_eq!(parsed(r#"{"key":7,"value":1.50e3}"#), pair(b"7", b"1.50e3"));
        assert_eq!(parsed(r#"{"key":true,"value":-0}"#), pair(b"true", b"-0"));
        assert_eq!(parsed(r#"{"key":{"base64":"/wA="},"value":{"base64":""}}"#), pair(b"\xff\0", b""));
    }

    #[test]
    fn what_a_body_may_not_hold() {
        for body in [
            "",
            "[]",
            "7",
            r#"["a","b"]"#,
            r#"{"key":"a"}"#,
            r#"{"key":"a","value":"b","more":1}"#,
            r#"{"key":"a","value":"b","key":"c"}"#,
            r#"{"key":"a","value":null}"#,
            r#"{"key":"a","value":["b"]}"#,
            r#"{"key":"a","value":{"base64":"?"}}"#,
            r#"{"key":"a","value":{"base64":"","more":1}}"#,
            r#"{"key":"a","value":"\ud800"}"#,
            r#"{"key":"a","value":"b"} x"#,
            "{\"key\":\"a\",\"value\":\"\u{1}\"}",
        ] {
            assert!(parse_insert(body.as_bytes()).is_err(), "{body}");
        }
        assert!(parse_insert(b"{\"key\":\"\xff\",\"value\":\"\"}").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_survive_the_way_through_json(key: Vec<u8>, value: Vec<u8>) {
            use crate::http::text::JsonBytes;
            let body = serde_json::to_vec(&serde_json::json!({
                "key": serde_json::to_value(JsonBytes(key.clone())).expect("JSON"),
                "value": serde_json::to_value(JsonBytes(value.clone())).expect("JSON"),
            }))
            .expect("JSON");
            proptest::prop_assert_eq!(parse_insert(&body), Ok(Insert { key, value }));
        }
    }
}
