//! One message.

use std::fmt::Write as _;

use node::ChangesToken;
use serde::Serialize;
use serde_json::value::RawValue;
use wire::Value;

use crate::http::JsonBytes;

/// A message to a subscriber.
#[derive(Debug)]
pub(crate) enum Message {
    /// A change, and its kind: `set`, `deadline`, `del`, `expire`, `evict` or `flush`.
    Change(String, Told),
    /// A stored key.
    State(Told),
    /// Everything up to here was told.
    Live(ChangesToken),
    /// The same, where nothing was to be told.
    Progress(ChangesToken),
    /// The changes of a partition between two revisions cannot be told.
    Gap(Gap),
}

/// A change of a key, or a stored key. JSON leaves out what does not apply.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    pub(crate) partition: u64,
    pub(crate) revision: u64,
    /// More than the 53 bits that every reader of JSON keeps of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    stamp: Option<String>,
    /// As Redis calls it in keyspace notifications.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    /// Of a stored key.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_name: Option<String>,
    /// None where all keys of the partition are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<JsonBytes>,
    /// A string.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<JsonBytes>,
    /// A JSON document.
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<Box<RawValue>>,
    /// The command, without the key, that has changed a value with elements, or that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<Vec<JsonBytes>>,
    /// There is a value, and it is not told.
    #[serde(skip_serializing_if = "is_not")]
    omitted: bool,
    /// When the key expires, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<u64>,
    /// The key was not there before.
    #[serde(rename = "new", skip_serializing_if = "is_not")]
    is_new: bool,
}

/// See [`Message::Gap`].
#[derive(Debug, Serialize)]
pub(crate) struct Gap {
    partition: u64,
    from: u64,
    to: u64,
    pub(crate) reason: String,
    pub(crate) then: Then,
}

/// The continuation behind a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Then {
    /// The stored keys of the partition.
    Restate,
    /// Nothing: the subscription is over.
    End,
}

#[derive(Serialize)]
struct At {
    token: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks it so")]
fn is_not(flag: &bool) -> bool {
    !flag
}

fn number(value: &Value) -> Option<u64> {
    u64::try_from(value.as_integer()?).ok()
}

fn text(value: &Value) -> Option<String> {
    value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn bytes(value: &Value) -> Option<JsonBytes> {
    value.as_bytes().map(|bytes| JsonBytes(bytes.to_vec()))
}

/// A document as one line. In JSON, line breaks stand between words alone.
fn document(value: &Value) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(value.as_bytes()?).ok()?;
    RawValue::from_string(text.replace(['\n', '\r'], " ")).ok()
}

/// A text for a terminal: characters that would control it, or turn the order of what is shown, are written as JSON may write them.
fn harmless(text: &str) -> String {
    let is_harmful = |it: char| {
        it.is_control()
            || matches!(it, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        if is_harmful(it) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{:04x}", u32::from(it));
        } else {
            out.push(it);
        }
    }
    out
}

fn words(of: &[Value]) -> Option<Vec<JsonBytes>> {
    of.iter().map(bytes).collect()
}

impl Told {
    /// Reads the part behind the key: value, deadline and flags.
    fn with(mut self, value: &Value, deadline: &Value, flags: &Value) -> Option<Told> {
        let flags = flags.as_array()?;
        let has = |flag: &str| flags.iter().any(|it| it.as_bytes() == Some(flag.as_bytes()));
        (self.omitted, self.is_new) = (has("omitted"), has("new"));
        self.deadline_ms = number(deadline);
        match value {
            value if value.is_null() => {}
            value if has("effect") => self.effect = Some(words(value.as_array()?)?),
            value if has("json") => self.json = Some(document(value)?),
            value => self.value = Some(bytes(value)?),
        }
        Some(self)
    }

    fn at(partition: &Value, revision: &Value, key: &Value) -> Option<Told> {
        Some(Told {
            partition: number(partition)?,
            revision: number(revision)?,
            stamp: None,
            event: None,
            type_name: None,
            key: bytes(key),
            value: None,
            json: None,
            effect: None,
            omitted: false,
            deadline_ms: None,
            is_new: false,
        })
    }
}

impl Told {
    /// Key and value for a person: `cart:7 "apples"`.
    pub(crate) fn line(&self) -> String {
        let quoted = |bytes: &JsonBytes| wire::quote(&bytes.0).to_string();
        let plain = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic);
        let mut line = match &self.key {
            Some(key) if plain(&key.0) => String::from_utf8_lossy(&key.0).into_owned(),
            Some(key) => quoted(key),
            None => format!("(all keys of partition {})", self.partition),
        };
        let value = match (&self.value, &self.json, &self.effect) {
            (Some(value), ..) => quoted(value),
            (_, Some(json), _) => harmless(json.get()),
            (.., Some(effect)) => {
                let words = effect.iter().map(|word| {
                    if plain(&word.0) { String::from_utf8_lossy(&word.0).into_owned() } else { quoted(word) }
                });
                words.collect::<Vec<_>>().join(" ")
            }
            _ if self.omitted => {
                self.event.as_ref().or(self.type_name.as_ref()).map_or_else(String::new, |it| format!("({it})"))
            }
            _ => String::new(),
        };
        if !value.is_empty() {
            line.push(' ');
            line += &value;
        }
        line
    }
}

impl Message {
    /// Reads a message of RESP3. None if it is none of a subscription to changes, or malformed.
    pub(crate) fn read(push: &[Value]) -> Option<Message> {
        let (name, rest) = push.split_first()?;
        // The subscription's number stands first.
        let rest = rest.get(1..)?;
        match (name.as_bytes()?, rest) {
            (b"dictum.change", [at, change]) => {
                let ([partition, revision, stamp], [kind, event, key, value, deadline, flags]) =
                    (at.as_array()?, change.as_array()?)
                else {
                    return None;
                };
                let kind = text(kind)?;
                let mut told = Told::at(partition, revision, key)?.with(value, deadline, flags)?;
                (told.stamp, told.event) = (Some(number(stamp)?.to_string()), text(event));
                if kind == "flush" {
                    told.key = None;
                }
                Some(Message::Change(kind, told))
            }
            (b"dictum.state", [at, state]) => {
                let ([partition, revision], [kind, key, value, deadline, flags]) = (at.as_array()?, state.as_array()?)
                else {
                    return None;
                };
                let told = Told::at(partition, revision, key)?.with(value, deadline, flags)?;
                Some(Message::State(Told { type_name: text(kind), ..told }))
            }
            (b"dictum.live", [token]) => Some(Message::Live(ChangesToken::parse(token.as_bytes()?).ok()?)),
            (b"dictum.progress", [token]) => Some(Message::Progress(ChangesToken::parse(token.as_bytes()?).ok()?)),
            (b"dictum.gap", [span, reason, then]) => {
                let [partition, from, to] = span.as_array()? else { return None };
                let then = if then.as_bytes()? == b"restate" { Then::Restate } else { Then::End };
                let (partition, from, to) = (number(partition)?, number(from)?, number(to)?);
                Some(Message::Gap(Gap { partition, from, to, reason: text(reason)?, then }))
            }
            _ => None,
        }
    }

    /// True if it is a message of a subscription to changes, readable or not.
    pub(crate) fn is_one(push: &[Value]) -> bool {
        push.first().and_then(Value::as_bytes).is_some_and(|name| name.starts_with(b"dictum."))
    }

    /// True if nothing comes behind it.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Message::Gap(gap) if gap.then == Then::End)
    }

    /// Its name in server-sent events and in lines of JSON.
    pub(crate) fn name(&self) -> &str {
        match self {
            Message::Change(kind, _) => kind,
            Message::State(_) => "state",
            Message::Live(_) => "live",
            Message::Progress(_) => "progress",
            Message::Gap(_) => "gap",
        }
    }

    /// Appends it as JSON, without a line break.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>) {
        let written = match self {
            Message::Change(_, told) | Message::State(told) => serde_json::to_writer(out, told),
            Message::Live(token) | Message::Progress(token) => {
                serde_json::to_writer(out, &At { token: token.to_string() })
            }
            Message::Gap(gap) => serde_json::to_writer(out, gap),
        };
        written.expect("a vector takes all bytes, and the types written here have no failing part");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(name: &str, rest: Vec<Value>) -> Vec<Value> {
        [vec![Value::bulk(name), Value::Integer(7)], rest].concat()
    }

    fn list(of: &[&str]) -> Value {
        Value::Array(of.iter().map(Value::bulk).collect())
    }

    fn at(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().copied().map(Value::Integer).collect())
    }

    fn change(kind: &str, event: &str, key: Value, value: Value, deadline: Value, flags: &[&str]) -> Vec<Value> {
        let change = vec![Value::bulk(kind), Value::bulk(event), key, value, deadline, list(flags)];
        push("dictum.change", vec![at(&[3, 42, 1_852_441_935_937_536_000]), Value::Array(change)])
    }

    fn said(message: &[Value]) -> String {
        let message = Message::read(message).expect("a message");
        let mut out = message.name().as_bytes().to_vec();
        out.push(b' ');
        message.write_json(&mut out);
        String::from_utf8(out).expect("JSON is text")
    }

    #[test]
    fn each_message_has_its_json() {
        let head = r#"{"partition":3,"revision":42,"stamp":"1852441935937536000""#;
        let (key, none) = (Value::bulk("k\n"), Value::Null);
        let change = |kind, event, value, deadline, flags: &[&str]| {
            said(&change(kind, event, key.clone(), value, deadline, flags))
        };
        assert_eq!(
            change("set", "set", Value::bulk(b"\xff"), Value::Integer(5), &["new"]),
            format!(r#"set {head},"event":"set","key":"k\n","value":{{"base64":"/w=="}},"deadline_ms":5,"new":true}}"#)
        );
        assert_eq!(
            change("set", "json.set", Value::bulk("{\"a\":\n1.0}"), none.clone(), &["json"]),
            format!(r#"set {head},"event":"json.set","key":"k\n","json":{{"a": 1.0}}}}"#)
        );
        assert_eq!(
            change("set", "hset", list(&["hset", "f", "v"]), none.clone(), &["effect"]),
            format!(r#"set {head},"event":"hset","key":"k\n","effect":["hset","f","v"]}}"#)
        );
        assert_eq!(
            change("set", "spop", none.clone(), none.clone(), &["omitted"]),
            format!(r#"set {head},"event":"spop","key":"k\n","omitted":true}}"#)
        );
        assert_eq!(
            change("flush", "flushed", none.clone(), none.clone(), &[]),
            format!(r#"flush {head},"event":"flushed"}}"#)
        );
        let state = Value::Array(vec![Value::bulk("string"), key.clone(), Value::bulk("v"), none, list(&[])]);
        assert_eq!(
            said(&push("dictum.state", vec![at(&[0, 9]), state])),
            r#"state {"partition":0,"revision":9,"type":"string","key":"k\n","value":"v"}"#
        );
        let token = Value::bulk("0~00000000000000fe:1,,3");
        assert_eq!(said(&push("dictum.live", vec![token.clone()])), r#"live {"token":"0~00000000000000fe:1,,3"}"#);
        assert_eq!(said(&push("dictum.progress", vec![token])), r#"progress {"token":"0~00000000000000fe:1,,3"}"#);
        let gap = vec![at(&[1, 2, 3]), Value::bulk("too-slow"), Value::bulk("restate")];
        assert_eq!(
            said(&push("dictum.gap", gap)),
            r#"gap {"partition":1,"from":2,"to":3,"reason":"too-slow","then":"restate"}"#
        );
    }

    #[test]
    fn a_line_controls_no_terminal() {
        let line = |value: &str, flags: &[&str]| {
            let push = change("set", "set", Value::bulk("k\u{9b}2J"), Value::bulk(value), Value::Null, flags);
            let Some(Message::Change(_, told)) = Message::read(&push) else { panic!("{push:?}") };
            told.line()
        };
        assert_eq!(line("a\u{1b}[2J", &[]), "\"k\\xc2\\x9b2J\" \"a\\x1b[2J\"");
        let json = line("\"\u{9b}2J\u{202e}é\"", &["json"]);
        assert_eq!(json, "\"k\\xc2\\x9b2J\" \"\\u009b2J\\u202eé\"");
    }

    #[test]
    fn what_is_no_message_is_none() {
        let json = change("set", "json.set", Value::bulk("k"), Value::bulk("{no"), Value::Null, &["json"]);
        for push in [
            vec![],
            vec![Value::bulk("message")],
            push("message", vec![Value::bulk("c")]),
            push("dictum.change", vec![at(&[1, 2])]),
            push("dictum.live", vec![Value::bulk("no token")]),
            push("dictum.gap", vec![at(&[1, 2]), Value::bulk("x"), Value::bulk("end")]),
            json,
        ] {
            assert!(Message::read(&push).is_none(), "{push:?}");
        }
    }
}
