//! A reply as a tree: what clients see.

use crate::reply::{Protocol, ReplyWriter};

/// A reply, whole and owned.
///
/// Texts that are not UTF-8 are read with replacement characters in [`Simple`](Value::Simple),
/// [`Error`](Value::Error) and [`BigNumber`](Value::BigNumber); strings keep their bytes.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A short text on one line, such as `OK`.
    Simple(String),
    /// An error: its code, a space, a sentence. RESP3's long form of errors is read as this too.
    Error(String),
    /// An integer.
    Integer(i64),
    /// A string of bytes.
    Bulk(Vec<u8>),
    /// Nothing: RESP2 `$-1`, RESP3 `_`.
    Null,
    /// RESP2's other nothing, `*-1`.
    NullArray,
    /// A list.
    Array(Vec<Value>),
    /// RESP3: keys and values, in the order sent.
    Map(Vec<(Value, Value)>),
    /// RESP3: a set, in the order sent.
    Set(Vec<Value>),
    /// RESP3: a floating-point number.
    Double(f64),
    /// RESP3: a truth value.
    Boolean(bool),
    /// RESP3: decimal digits of any number.
    BigNumber(String),
    /// RESP3: text for people.
    Verbatim {
        /// `txt` or `mkd`.
        format: [u8; 3],
        /// The text.
        text: Vec<u8>,
    },
    /// RESP3: a message that answers no command.
    Push(Vec<Value>),
    /// RESP3: a reply with attributes.
    Attributed {
        /// Keys and values of the attributes.
        attributes: Vec<(Value, Value)>,
        /// The reply itself.
        value: Box<Value>,
    },
}

impl Value {
    /// A string of these bytes.
    #[must_use]
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Value {
        Value::Bulk(bytes.as_ref().to_vec())
    }

    /// `+OK`.
    #[must_use]
    pub fn ok() -> Value {
        Value::Simple("OK".to_owned())
    }

    /// Whether this is nothing, of either kind.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null | Value::NullArray)
    }

    /// The error's text, if this is one.
    #[must_use]
    pub fn as_error(&self) -> Option<&str> {
        match self {
            Value::Error(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if this is an integer.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The bytes of a string or of a text.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bulk(bytes) | Value::Verbatim { text: bytes, .. } => Some(bytes),
            Value::Simple(text) | Value::BigNumber(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The elements of a list, set or pushed message.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => Some(elements),
            _ => None,
        }
    }

    /// Appends this reply in the given dialect. What RESP2 lacks is written as [`ReplyWriter`] says; attributes
    /// are left out there.
    pub fn encode(&self, out: &mut Vec<u8>, protocol: Protocol) {
        let mut writer = ReplyWriter::new(out, protocol);
        match self {
            Value::Simple(text) => writer.simple(text),
            Value::Error(text) => writer.error(text),
            Value::Integer(number) => writer.integer(*number),
            Value::Bulk(bytes) => writer.bulk(bytes),
            Value::Null => writer.null(),
            Value::NullArray => writer.null_array(),
            Value::Array(elements) => {
                writer.array(elements.len());
                elements.iter().for_each(|element| element.encode(out, protocol));
            }
            Value::Map(pairs) => {
                writer.map(pairs.len());
                encode_pairs(pairs, out, protocol);
            }
            Value::Set(elements) => {
                writer.set(elements.len());
                elements.iter().for_each(|element| element.encode(out, protocol));
            }
            Value::Double(number) => writer.double(*number),
            Value::Boolean(truth) => writer.boolean(*truth),
            Value::BigNumber(digits) => writer.big_number(digits),
            Value::Verbatim { format, text } => writer.verbatim(*format, text),
            Value::Push(elements) => {
                writer.push(elements.len());
                elements.iter().for_each(|element| element.encode(out, protocol));
            }
            Value::Attributed { attributes, value } => {
                if writer.attribute(attributes.len()) {
                    encode_pairs(attributes, out, protocol);
                }
                value.encode(out, protocol);
            }
        }
    }
}

fn encode_pairs(pairs: &[(Value, Value)], out: &mut Vec<u8>, protocol: Protocol) {
    for (key, value) in pairs {
        key.encode(out, protocol);
        value.encode(out, protocol);
    }
}
