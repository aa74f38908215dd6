//! Keys as lines of JSON, for other programs: what an export writes, and what an import reads.
//!
//! ```text
//! {"key":"greeting","type":"string","value":"hello"}
//! {"key":"s","type":"string","expires_at_ms":1790000000000,"value":{"hex":"00ff"}}
//! {"key":"h","type":"hash","value":{"f":"v"}}                        or [["f","v"],["g","w",1790000000000]]: a field that expires
//! {"key":"l","type":"list","value":["a","b"]}                        a set ("set") looks alike
//! {"key":"z","type":"zset","value":[["a",1.5],["b","inf"]]}
//! {"key":"x","type":"stream","value":{"entries":[["5-1",["f","v"]]],"last":"5-1","added":1,"deleted":"0-0","groups":[
//!     {"name":"g","last":"5-1","read":1,"consumers":["bert"],"pending":[["5-1","bert",1790000000000,1]]}]}}
//! {"key":"j","type":"ReJSON-RL","value":{"any":["document"]}}
//! ```
//! Bytes that are no UTF-8 stand as their hexadecimal digits. A key that an import reads begins anew: nothing is left of what was there.

use crate::apply::{Applied, EntryContext, apply};
use crate::blob::Blob;
use crate::collections::ranked::Standing;
use crate::collections::streams::words;
use crate::reply::Reply;
use crate::tree::Tree;
use crate::value::{Collection, Record, Stream, StreamId, Value};
use crate::view::View;
use base::WallTime;
use base::versions::NEWEST;
use serde_json::{Map, Value as Json, json};
use std::ops::Bound;

/// Gives out a line for each key, without its end. Keys, and fields, whose deadline has passed by the state's own time are left out. Returns how many keys there were.
///
/// Where the state is in a store, ask [`Tree::trouble`] afterwards.
///
/// # Errors
/// The first error of `each`, at once.
pub fn write<E>(tree: &Tree, each: impl FnMut(&str) -> Result<(), E>) -> Result<u64, E> {
    write_wanted(tree, tree.time(), |_| true, each)
}

/// The same, by the time `at`, and without the keys that `is_wanted` says no to.
///
/// # Errors
/// As [`write`].
pub fn write_wanted<E>(
    tree: &Tree,
    at: WallTime,
    mut is_wanted: impl FnMut(&[u8]) -> bool,
    mut each: impl FnMut(&str) -> Result<(), E>,
) -> Result<u64, E> {
    let view = View::new(tree, at, 0).with_work_max(u64::MAX).in_version(NEWEST);
    let mut count = 0;
    for (key, record) in tree.living(Bound::Unbounded, at).filter(|(key, _)| is_wanted(key)) {
        view.begin_work();
        let mut line = Map::new();
        line.insert("key".to_owned(), text(&key));
        line.insert("type".to_owned(), json!(record.value.type_name()));
        if let Some(deadline) = record.deadline() {
            line.insert("expires_at_ms".to_owned(), json!(deadline.0));
        }
        // A document is JSON already, with numbers and a depth that are its own business.
        let value = match &record.value {
            Value::Json(document) => String::from_utf8_lossy(document.as_slice()).into_owned(),
            _ => match value_of(&view, &record) {
                Some(value) => value.to_string(),
                None => continue,
            },
        };
        let mut line = Json::Object(line).to_string();
        line.pop();
        each(&format!("{line},\"value\":{value}}}"))?;
        count += 1;
    }
    Ok(count)
}

/// None of a hash whose last field has expired, and of documents.
fn value_of(view: &View<'_>, record: &Record) -> Option<Json> {
    Some(match &record.value {
        Value::String(value) => text(value),
        Value::Json(_) => return None,
        Value::Hash(hash) => hash_of(view, *hash)?,
        Value::Set(set) => view.elements(*set, 0).map(|(_, member, _)| text(&member)).collect(),
        Value::List(list) => view.list_between(**list, 0, list.len()).map(|element| text(&element)).collect(),
        Value::SortedSet(set) => view
            .elements(*set, 0)
            .filter_map(|(_, member, value)| Some(json!([text(&member), score_of(Standing::read(&value)?.score)])))
            .collect(),
        Value::Stream(stream) => stream_of(view, stream),
    })
}

fn hash_of(view: &View<'_>, hash: Collection) -> Option<Json> {
    let fields: Vec<(Blob, Blob, Option<WallTime>)> = view
        .elements(hash, 0)
        .map(|(_, field, value)| {
            let deadline = view.field_deadline(hash, &field);
            (field, value, deadline)
        })
        .collect();
    if fields.is_empty() {
        return None;
    }
    if fields.iter().all(|(field, _, deadline)| deadline.is_none() && std::str::from_utf8(field).is_ok()) {
        let named = fields.iter().map(|(field, value, _)| (String::from_utf8_lossy(field).into_owned(), text(value)));
        return Some(Json::Object(named.collect()));
    }
    let listed = fields.iter().map(|(field, value, deadline)| match deadline {
        Some(deadline) => json!([text(field), text(value), deadline.0]),
        None => json!([text(field), text(value)]),
    });
    Some(listed.collect())
}

fn stream_of(view: &View<'_>, stream: &Stream) -> Json {
    let collections = view.collections();
    let id = |id: StreamId| text(&id.text());
    let entries: Json = collections
        .entries(stream, StreamId::MIN)
        .map(|(at, value)| json!([id(at), words(&value).into_iter().map(text).collect::<Json>()]))
        .collect();
    let groups: Json = collections
        .groups(stream.number())
        .map(|(name, group)| {
            let consumers: Json = collections.consumers(&group).map(|(name, _)| text(&name)).collect();
            let pending: Json = collections
                .all_pending(&group, StreamId::MIN)
                .filter_map(|(at, pending)| {
                    let consumer = collections.consumer_name(&group, pending.consumer)?;
                    Some(json!([id(at), text(&consumer), pending.at, pending.times]))
                })
                .collect();
            json!({ "name": text(&name), "last": id(group.last), "read": group.read, "consumers": consumers, "pending": pending })
        })
        .collect();
    json!({
        "entries": entries, "last": id(stream.last), "added": stream.added, "deleted": id(stream.deleted), "groups": groups,
    })
}

/// Bytes as JSON has them.
fn text(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => Json::String(text.to_owned()),
        Err(_) => json!({ "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() }),
    }
}

/// JSON has no infinite numbers.
fn score_of(score: f64) -> Json {
    serde_json::Number::from_f64(score).map_or_else(|| json!(score.to_string()), Json::Number)
}

/// A line that was read.
#[derive(Debug)]
pub struct Line {
    /// Its key.
    pub key: Vec<u8>,
    /// A state with this key alone; with none if its time was up.
    pub tree: Tree,
}

/// Reads a line; `now` tells whose time is up.
///
/// # Errors
/// It is no such line, or the value is none that a key can hold; the text says what is wrong.
pub fn read(line: &str, now: WallTime) -> Result<Line, String> {
    let parsed: Json = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let fields = parsed.as_object().ok_or("it is no object")?;
    let known = ["key", "type", "expires_at_ms", "value"];
    if let Some(strange) = fields.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("'{strange}' means nothing here"));
    }
    let field = |name: &str| fields.get(name).ok_or_else(|| format!("it has no '{name}'"));
    let key = bytes_of(field("key")?)?;
    let kind = field("type")?.as_str().ok_or("'type' is no text")?;
    let value = field("value")?;
    let mut making = Making { tree: Tree::new(), key, now };
    match kind {
        "string" => making.run(&[b"SET".to_vec(), making.key.clone(), bytes_of(value)?])?,
        "list" => making.run_with("RPUSH", texts(value)?)?,
        "set" => making.run_with("SADD", texts(value)?)?,
        "zset" => {
            let mut words = Vec::new();
            for pair in array(value)? {
                let [member, score] = array(pair)? else { return Err("a member has a score".to_owned()) };
                words.extend([
                    score.as_str().map_or_else(|| score.to_string(), str::to_owned).into_bytes(),
                    bytes_of(member)?,
                ]);
            }
            making.run_with("ZADD", words)?;
        }
        "hash" => making.hash(value)?,
        "stream" => making.stream(value)?,
        "ReJSON-RL" | "json" => {
            making.run(&[b"JSON.SET".to_vec(), making.key.clone(), b"$".to_vec(), value.to_string().into_bytes()])?;
        }
        other => return Err(format!("the type '{other}' is not known")),
    }
    if let Some(deadline) = fields.get("expires_at_ms") {
        let deadline = deadline.as_u64().ok_or("'expires_at_ms' is no time")?;
        making.run(&[b"PEXPIREAT".to_vec(), making.key.clone(), deadline.to_string().into_bytes()])?;
    }
    Ok(Line { key: making.key, tree: making.tree })
}

fn array(value: &Json) -> Result<&[Json], String> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| "a list is expected".to_owned())
}

fn texts(value: &Json) -> Result<Vec<Vec<u8>>, String> {
    array(value)?.iter().map(bytes_of).collect()
}

fn bytes_of(value: &Json) -> Result<Vec<u8>, String> {
    if let Some(text) = value.as_str() {
        return Ok(text.as_bytes().to_vec());
    }
    let digits = value.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.get("hex")?.as_str());
    let digits = digits.ok_or("a text is expected, or an object with 'hex'")?;
    let wrong = || "'hex' takes pairs of hexadecimal digits".to_owned();
    if !digits.is_ascii() || digits.len() % 2 != 0 {
        return Err(wrong());
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong())).collect()
}

struct Making {
    tree: Tree,
    key: Vec<u8>,
    now: WallTime,
}

impl Making {
    fn run(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        let context = EntryContext { time: self.now, version: NEWEST, work_max: u64::MAX, ..EntryContext::default() };
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let Applied { reply, .. } = apply(&mut self.tree, &context, &words);
        let refused = match &reply {
            Reply::Error(failure) => Some(failure.to_string()),
            _ => None,
        };
        refused.map_or(Ok(()), Err)
    }

    /// A command about the key with so many words behind it, at least one.
    fn run_with(&mut self, name: &str, words: Vec<Vec<u8>>) -> Result<(), String> {
        if words.is_empty() {
            return Err("there is no such key: it would hold nothing".to_owned());
        }
        let head = [name.as_bytes().to_vec(), self.key.clone()];
        self.run(&head.into_iter().chain(words).collect::<Vec<_>>())
    }

    fn hash(&mut self, value: &Json) -> Result<(), String> {
        if let Some(fields) = value.as_object() {
            let mut words = Vec::new();
            for (field, value) in fields {
                words.extend([field.as_bytes().to_vec(), bytes_of(value)?]);
            }
            return self.run_with("HSET", words);
        }
        let (mut words, mut deadlines) = (Vec::new(), Vec::new());
        for field in array(value)? {
            match array(field)? {
                [name, value] => words.extend([bytes_of(name)?, bytes_of(value)?]),
                [name, value, deadline] => {
                    words.extend([bytes_of(name)?, bytes_of(value)?]);
                    deadlines.push((bytes_of(name)?, deadline.as_u64().ok_or("a field's deadline is no time")?));
                }
                _ => return Err("a field has a value, and perhaps a deadline".to_owned()),
            }
        }
        self.run_with("HSET", words)?;
        for (field, deadline) in deadlines {
            let words = [deadline.to_string().into_bytes(), b"FIELDS".to_vec(), b"1".to_vec(), field];
            self.run_with("HPEXPIREAT", words.to_vec())?;
        }
        Ok(())
    }

    fn stream(&mut self, value: &Json) -> Result<(), String> {
        let of = |name: &str| value.get(name).ok_or_else(|| format!("the stream has no '{name}'"));
        let number = |value: &Json| value.as_u64().map(|number| number.to_string().into_bytes());
        let entries = array(of("entries")?)?;
        let groups = array(of("groups")?)?;
        let word = |word: &str| word.as_bytes().to_vec();
        for entry in entries {
            let [id, words] = array(entry)? else { return Err("an entry has an identifier and words".to_owned()) };
            let words = [bytes_of(id)?].into_iter().chain(texts(words)?).collect();
            self.run_with("XADD", words)?;
        }
        if entries.is_empty() {
            // So that there is a stream.
            self.run(&[word("XGROUP"), word("CREATE"), self.key.clone(), word("g"), word("0"), word("MKSTREAM")])?;
            self.run(&[word("XGROUP"), word("DESTROY"), self.key.clone(), word("g")])?;
        }
        let added = number(of("added")?).ok_or("'added' is no number")?;
        let (last, deleted) = (bytes_of(of("last")?)?, bytes_of(of("deleted")?)?);
        self.run_with("XSETID", vec![last, word("ENTRIESADDED"), added, word("MAXDELETEDID"), deleted])?;
        for group in groups {
            let of = |name: &str| group.get(name).ok_or_else(|| format!("the group has no '{name}'"));
            let name = bytes_of(of("name")?)?;
            let mut create =
                vec![word("XGROUP"), word("CREATE"), self.key.clone(), name.clone(), bytes_of(of("last")?)?];
            if let Some(read) = group.get("read").and_then(number) {
                create.extend([word("ENTRIESREAD"), read]);
            }
            self.run(&create)?;
            for consumer in texts(of("consumers")?)? {
                self.run(&[word("XGROUP"), word("CREATECONSUMER"), self.key.clone(), name.clone(), consumer])?;
            }
            for pending in array(of("pending")?)? {
                let [id, consumer, at, times] = array(pending)? else {
                    return Err("what is pending has an identifier, a consumer, a time and a count".to_owned());
                };
                let (at, times) = (number(at).ok_or("a time is none")?, number(times).ok_or("a count is none")?);
                let claim = [name.clone(), bytes_of(consumer)?, word("0"), bytes_of(id)?, word("TIME"), at];
                let how = [word("RETRYCOUNT"), times, word("FORCE"), word("JUSTID")];
                self.run_with("XCLAIM", claim.into_iter().chain(how).collect())?;
            }
        }
        Ok(())
    }
}
