//! Runs the transcripts in `tests/commands/*.md`, and holds each page against the command's description.
//!
//! A page begins with the command's name and its summary, gives its arguments in a `text` block, and has any number of
//! `dictum` blocks, each run on an empty state:
//!
//! ```text
//! > SET greeting "hello world" EX 10
//! OK
//! (10 seconds later)
//! > GET greeting
//! (nil)
//! ```
//! Replies are written as redis-cli writes them. Lines in parentheses that end in `later` move the clock.
//! `DICTUM_REWRITE=1 cargo test -p data --test commands` puts what was answered into the pages, to be read as prose.

use base::WallTime;
use data::{EntryContext, Reply, Tree, View, apply, check, expire_due, read};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Where every transcript's clock begins: 2030-01-01, in milliseconds.
const START_MS: u64 = 1_893_456_000_000;

struct Session {
    tree: Tree,
    clock: WallTime,
}

impl Session {
    fn run(&mut self, args: &[Vec<u8>]) -> Reply {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let context = EntryContext { time: self.clock, seed: 1 };
        let entry = match check(&args) {
            Ok(entry) => entry,
            Err(failure) => return Reply::Error(failure),
        };
        if entry.is_write() {
            return apply(&mut self.tree, &context, &args).reply;
        }
        let view = View::new(&self.tree, self.clock, 1);
        let reply = read(&view, &args);
        if !view.met_expired() {
            return reply;
        }
        expire_due(&mut self.tree, &context, 1000);
        let view = View::new(&self.tree, self.clock, 1);
        let reply = read(&view, &args);
        assert!(!view.met_expired(), "the clock has been decided");
        reply
    }
}

/// Splits a line as redis-cli does: blanks between words, double quotes with escapes, single quotes without.
fn split(line: &str) -> Vec<Vec<u8>> {
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
fn quoted(bytes: &[u8]) -> String {
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

/// A reply as redis-cli prints it, in lines.
fn lines(reply: &Reply) -> Vec<String> {
    let list = |items: Vec<Vec<String>>, empty: &str| {
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
    };
    match reply {
        Reply::Ok => vec!["OK".to_owned()],
        Reply::Nil | Reply::NilArray => vec!["(nil)".to_owned()],
        Reply::Integer(number) => vec![format!("(integer) {number}")],
        Reply::Bulk(bytes) => vec![quoted(bytes)],
        Reply::Simple(text) => vec![(*text).to_owned()],
        Reply::Error(failure) => vec![format!("(error) {failure}")],
        Reply::Array(items) => list(items.iter().map(lines).collect(), "(empty array)"),
        Reply::Set(items) => list(items.iter().map(lines).collect(), "(empty set)"),
        // As RESP2 clients see it: keys and values in turn.
        Reply::Map(pairs) => {
            list(pairs.iter().flat_map(|(key, value)| [lines(key), lines(value)]).collect(), "(empty hash)")
        }
        Reply::Double(number) => vec![format!("(double) {number}")],
        Reply::Boolean(yes) => vec![format!("({yes})")],
    }
}

/// Milliseconds of a line such as `(5 seconds later)`.
fn later_ms(line: &str) -> Option<u64> {
    let words: Vec<&str> = line.strip_prefix('(')?.strip_suffix(" later)")?.split(' ').collect();
    let [amount, unit] = words[..] else { return None };
    let unit_ms = match unit {
        "millisecond" | "milliseconds" => 1,
        "second" | "seconds" => 1000,
        _ => return None,
    };
    Some(amount.parse::<u64>().ok()? * unit_ms)
}

/// The page with every reply replaced by what is really answered.
fn replayed(page: &str) -> String {
    let mut out = String::new();
    let mut session: Option<Session> = None;
    for line in page.lines() {
        if line.starts_with("```") {
            let opens = session.is_none() && line == "```dictum";
            session = opens.then(|| Session { tree: Tree::new(), clock: WallTime(START_MS) });
        } else if let Some(session) = &mut session {
            if let Some(command) = line.strip_prefix("> ") {
                out.push_str(line);
                out.push('\n');
                for line in lines(&session.run(&split(command))) {
                    out.push_str(&line);
                    out.push('\n');
                }
                continue;
            }
            match later_ms(line) {
                Some(milliseconds) => session.clock.0 += milliseconds,
                // An old reply.
                None => continue,
            }
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn pages_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/commands")
}

fn pages() -> Vec<(String, PathBuf, String)> {
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

#[test]
fn transcripts_are_what_is_answered() {
    let rewrite = std::env::var_os("DICTUM_REWRITE").is_some();
    let mut differences = String::new();
    for (name, path, page) in pages() {
        let replayed = replayed(&page);
        if replayed == page {
            continue;
        }
        if rewrite {
            fs::write(&path, replayed).expect("the page can be written");
            continue;
        }
        let (line, (there, here)) = page
            .lines()
            .chain(std::iter::repeat("(the end)"))
            .zip(replayed.lines().chain(std::iter::repeat("(the end)")))
            .enumerate()
            .find(|(_, (there, here))| there != here)
            .expect("the texts differ");
        writeln!(differences, "{name}.md:{}: the page says {there:?}, the answer was {here:?}", line + 1)
            .expect("a string takes all");
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn every_command_has_its_page() {
    let pages = pages();
    let mut missing = Vec::new();
    for entry in data::commands::COMMANDS {
        let (spec, upper) = (entry.spec, entry.spec.name.to_uppercase());
        let Some((_, _, page)) = pages.iter().find(|(name, ..)| name == spec.name) else {
            missing.push(spec.name);
            continue;
        };
        assert!(page.starts_with(&format!("# {upper}\n\n{}\n", spec.summary)), "{upper}: title and summary");
        let syntax = format!("{upper} {}", spec.arguments);
        let spoken: String = page.split_whitespace().collect::<Vec<_>>().join(" ");
        if spec.subcommands.is_empty() {
            assert!(spoken.contains(&format!("```text {} ```", syntax.trim_end())), "{upper}: the arguments: {syntax}");
        }
        assert!(page.contains("```dictum"), "{upper}: a transcript");
    }
    assert!(missing.is_empty(), "commands without a page: {missing:?}");
}

#[test]
fn descriptions_are_sound() {
    for entry in data::commands::COMMANDS {
        let spec = entry.spec;
        assert_eq!(spec.name, spec.name.to_lowercase());
        assert!(spec.summary.ends_with('.') && !spec.summary.contains('\n'), "{}", spec.name);
        assert_eq!(data::lookup(spec.name.as_bytes()).map(|found| found.spec.name), Some(spec.name));
        assert_eq!(data::lookup(spec.name.to_uppercase().as_bytes()).map(|found| found.spec.name), Some(spec.name));
        assert_eq!(entry.is_write(), spec.flags.has(data::spec::Flags::WRITE), "{}", spec.name);
        assert_ne!(entry.is_write(), spec.flags.has(data::spec::Flags::READONLY), "{}", spec.name);
        for line in spec.example.lines() {
            let words = split(line);
            let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let found = check(&args).unwrap_or_else(|failure| panic!("{line}: {failure}"));
            assert!(found.spec.name == spec.name, "{line}");
            assert_eq!(spec.keys_of(&args).is_empty(), spec.keys == data::spec::Keys::None, "{line}");
        }
    }
}
