//! Keys as rows of CSV (RFC 4180), for tables and for programs that read no JSON.
//!
//! | column | |
//! |---|---|
//! | `key`, `type` | of the key; all rows of a key follow each other |
//! | `expires_at_ms` | when it expires, in milliseconds since 1970; empty: never |
//! | `field` | of a hash the field, of a list the place from 0 on, of a sorted set the score, of a stream the identifier of the entry; else empty |
//! | `value` | the value, the member, the element; a JSON document as it is; of a stream the fields and values of the entry, as JSON |
//!
//! Bytes that are no UTF-8 stand as `hex:` with their hexadecimal digits, and so does a text that begins with `hex:`. Deadlines of fields and consumer groups are left out:
//! `lines.rs` has everything.

use crate::collections::ranked::Standing;
use crate::collections::streams::words;
use crate::tree::Tree;
use crate::value::{Record, StreamId, Value};
use crate::view::View;
use base::WallTime;
use base::versions::NEWEST;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::ops::Bound;

/// The first row.
pub const HEADER: &str = "key,type,expires_at_ms,field,value\r\n";
/// Before hexadecimal digits.
const HEX: &str = "hex:";

/// Gives out a row for each element of each key that `is_wanted` does not say no to, with its end. Keys, and fields, whose deadline has passed by the time `at` are left out.
/// Returns how many keys there were.
///
/// Where the state is in a store, ask [`Tree::trouble`] afterwards.
///
/// # Errors
/// The first error of `each`, at once.
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
        let deadline = record.deadline().map_or_else(String::new, |deadline| deadline.0.to_string());
        let head = format!("{},{},{deadline},", cell(&key), record.value.type_name());
        let mut is_there = false;
        rows_of(&view, &record, |field, value| {
            is_there = true;
            each(&format!("{head}{field},{value}\r\n"))
        })?;
        count += u64::from(is_there);
    }
    Ok(count)
}

/// Gives out the last two cells of each row.
fn rows_of<E>(view: &View<'_>, record: &Record, mut each: impl FnMut(&str, &str) -> Result<(), E>) -> Result<(), E> {
    match &record.value {
        Value::String(value) => each("", &cell(value)),
        Value::Json(document) => each("", &cell(document.as_slice())),
        Value::Hash(hash) => {
            view.elements(*hash, 0).try_for_each(|(_, field, value)| each(&cell(&field), &cell(&value)))
        }
        Value::Set(set) => view.elements(*set, 0).try_for_each(|(_, member, _)| each("", &cell(&member))),
        Value::List(list) => view
            .list_between(**list, 0, list.len())
            .enumerate()
            .try_for_each(|(place, element)| each(&place.to_string(), &cell(&element))),
        Value::SortedSet(set) => view.elements(*set, 0).try_for_each(|(_, member, value)| {
            let score = Standing::read(&value).map_or_else(String::new, |standing| standing.score.to_string());
            each(&score, &cell(&member))
        }),
        Value::Stream(stream) => {
            let entries = view.collections().entries(stream, StreamId::MIN);
            for (id, value) in entries {
                let words: Json = words(&value).into_iter().map(|word| json!(plain(word))).collect();
                each(&cell(&id.text()), &cell(words.to_string().as_bytes()))?;
            }
            // One without entries is there all the same.
            if stream.is_empty() { each("", "") } else { Ok(()) }
        }
    }
}

fn plain(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with(HEX) => text.to_owned(),
        _ => bytes.iter().fold(HEX.to_owned(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes all text");
            text
        }),
    }
}

/// Bytes as a cell.
fn cell(bytes: &[u8]) -> String {
    let text = plain(bytes);
    if text.contains([',', '"', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryContext, apply};
    use std::convert::Infallible;

    #[test]
    fn every_type_has_its_rows() {
        let mut tree = Tree::new();
        let context = EntryContext { version: NEWEST, ..EntryContext::default() };
        let lines: [&[&[u8]]; 10] = [
            &[b"SET", b"s", b"a,\"b\"\r\n"],
            &[b"SET", b"raw", &[0, 255]],
            &[b"SET", b"hex:1", b"x", b"PXAT", b"99999"],
            &[b"HSET", b"h", b"f", b"v"],
            &[b"RPUSH", b"l", b"x", b"y"],
            &[b"SADD", b"t", b"m"],
            &[b"ZADD", b"z", b"1.5", b"m"],
            &[b"XADD", b"x", b"5-1", b"f", b"v"],
            &[b"XGROUP", b"CREATE", b"nothing", b"g", b"$", b"MKSTREAM"],
            &[b"JSON.SET", b"j", b"$", b"{\"a\":1}"],
        ];
        for words in lines {
            apply(&mut tree, &context, words);
        }
        let mut rows = Vec::new();
        let Ok(count) = write_wanted(
            &tree,
            tree.time(),
            |key| key != b"t",
            |row| -> Result<(), Infallible> {
                rows.push(row.trim_end().to_owned());
                Ok(())
            },
        );
        rows.sort();
        assert_eq!(count, 9);
        assert_eq!(
            rows,
            [
                "h,hash,,f,v",
                "hex:6865783a31,string,99999,,x",
                "j,ReJSON-RL,,,\"{\"\"a\"\":1}\"",
                "l,list,,0,x",
                "l,list,,1,y",
                "nothing,stream,,,",
                "raw,string,,,hex:00ff",
                "s,string,,,\"a,\"\"b\"\"\r\n\"",
                "x,stream,,5-1,\"[\"\"f\"\",\"\"v\"\"]\"",
                "z,zset,,1.5,m",
            ]
        );
    }
}
