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
//! `DICTUM_REWRITE=1 cargo test -p data --test it commands::` puts what was answered into the pages, to be read as prose.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read files and clocks")]

use crate::transcript::{START_MS, Session, lines, pages, split};
use base::WallTime;
use data::{Tree, check};
use std::fmt::Write;
use std::fs;

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
fn keys_behind_a_word_are_found() {
    let keys = |line: &str| {
        let words = split(line);
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let keys = data::lookup(args[0]).expect("a command").spec.keys_of(&args);
        keys.into_iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys("GEORADIUS cities 15 37 200 km"), "cities");
    assert_eq!(keys("GEORADIUS cities 15 37 200 km STORE far storedist near"), "cities near");
    assert_eq!(keys("GEORADIUSBYMEMBER cities STORE 200 km ASC"), "cities", "a member");
    assert_eq!(keys("SORT s BY STORE GET STORE LIMIT STORE STORE"), "s", "patterns and numbers");
    assert_eq!(keys("SORT s GET # store d BY x"), "s d");
    assert_eq!(keys("SORT s STORE"), "s");
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
