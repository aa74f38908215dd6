//! What the tests of transcripts share: a state with a clock, and commands and replies as redis-cli writes them.

#![allow(dead_code, missing_docs)]

use base::WallTime;
use base::versions::NEWEST;
use data::{EntryContext, Reply, Tree, View, apply, check, expire_due, read};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Where every transcript's clock begins: 2030-01-01, in milliseconds.
pub const START_MS: u64 = 1_893_456_000_000;

pub struct Session {
    pub tree: Tree,
    pub clock: WallTime,
}

impl Session {
    pub fn run(&mut self, args: &[Vec<u8>]) -> Reply {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let context = EntryContext { time: self.clock, seed: 1, version: NEWEST, ..EntryContext::default() };
        let entry = match check(&args) {
            Ok(entry) => entry,
            Err(failure) => return Reply::Error(failure),
        };
        if entry.is_write() {
            return apply(&mut self.tree, &context, &args).reply;
        }
        let view = View::new(&self.tree, self.clock, 1).in_version(NEWEST);
        let reply = read(&view, &args);
        if !view.met_expired() {
            return reply;
        }
        expire_due(&mut self.tree, &context, 1000);
        let view = View::new(&self.tree, self.clock, 1).in_version(NEWEST);
        let reply = read(&view, &args);
        assert!(!view.met_expired(), "the clock has been decided");
        reply
    }
}

/// Splits a line as redis-cli does: blanks between words, double quotes with escapes, single quotes without.
pub fn split(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let mut word = Vec::new();
        let mut characters = rest.char_indices();
        let mut end = rest.len();
        let mut quote = None;
        while let Some((index, character)) = characters.next() {
            match (quote, character) {
                (None, ' ') => {
                    end = index;
                    break;
                }
                (None, '"' | '\'') => quote = Some(character),
                (Some(open), _) if open == character => quote = None,
                (Some('"'), '\\') => match characters.next().expect("an escape has a second character").1 {
                    'n' => word.push(b'\n'),
                    'r' => word.push(b'\r'),
                    't' => word.push(b'\t'),
                    'x' => {
                        let digits: String = characters.by_ref().take(2).map(|(_, digit)| digit).collect();
                        word.push(u8::from_str_radix(&digits, 16).expect("two hexadecimal digits"));
                    }
                    other => word.extend(other.to_string().bytes()),
                },
                (_, other) => word.extend(other.to_string().bytes()),
            }
        }
        assert!(quote.is_none(), "an open quote in: {line}");
        words.push(word);
        rest = rest[end..].trim_start();
    }
    words
}

/// Bytes as redis-cli prints them.
pub fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            0x20..=0x7e => text.push(char::from(byte)),
            _ => write!(text, "\\x{byte:02x}").expect("a string takes all"),
        }
    }
    text.push('"');
    text
}

/// A numbered list of replies that are in lines already.
pub fn list(items: Vec<Vec<String>>, empty: &str) -> Vec<String> {
    if items.is_empty() {
        return vec![empty.to_owned()];
    }
    let width = items.len().to_string().len();
    let mut lines = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        for (line_index, line) in item.into_iter().enumerate() {
            lines.push(match line_index {
                0 => format!("{:>width$}) {line}", index + 1),
                _ => format!("{:>width$}  {line}", ""),
            });
        }
    }
    lines
}

/// A reply as redis-cli prints it, in lines.
pub fn lines(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Ok => vec!["OK".to_owned()],
        Reply::Nil | Reply::NilArray => vec!["(nil)".to_owned()],
        Reply::Integer(number) => vec![format!("(integer) {number}")],
        Reply::Bulk(bytes) | Reply::Verbatim(bytes) => vec![quoted(bytes)],
        Reply::Simple(text) => vec![(*text).to_owned()],
        Reply::Status(text) => vec![String::from_utf8_lossy(text).into_owned()],
        Reply::Error(failure) => vec![format!("(error) {failure}")],
        Reply::Array(items) => list(items.iter().map(lines).collect(), "(empty array)"),
        Reply::Set(items) => list(items.iter().map(lines).collect(), "(empty array)"),
        // As RESP2 clients see it: keys and values in turn.
        Reply::Map(pairs) | Reply::Pairs(pairs) => {
            list(pairs.iter().flat_map(|(key, value)| [lines(key), lines(value)]).collect(), "(empty array)")
        }
        Reply::Named(pairs) => {
            let pair = |(name, value): &(Reply, Reply)| list(vec![lines(name), lines(value)], "(empty array)");
            list(pairs.iter().map(pair).collect(), "(empty array)")
        }
        // As RESP2 clients see it.
        Reply::ByDialect(replies) => lines(&replies[0]),
        Reply::Double(number) => vec![quoted(number.to_string().as_bytes())],
        Reply::Decimal(number) => vec![quoted(Reply::decimal_text(*number).as_bytes())],
        // As RESP2 clients see it.
        Reply::Boolean(yes) => vec![format!("(integer) {}", u8::from(*yes))],
    }
}

pub fn pages_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/commands")
}

pub fn pages() -> Vec<(String, PathBuf, String)> {
    let mut pages: Vec<_> = fs::read_dir(pages_folder())
        .expect("the folder of pages")
        .map(|entry| entry.expect("a file in it").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| {
            let name = path.file_stem().expect("it has an extension").to_string_lossy().into_owned();
            let page = fs::read_to_string(&path).expect("a page");
            (name, path, page)
        })
        .collect();
    pages.sort();
    pages
}
