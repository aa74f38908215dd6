//! `FUNCTION …` and `SCRIPT …` of a server that has neither functions nor scripts.

use data::spec::Group;
use data::{Failure, Reply};

use super::{Context, Entry, Marks, answers, container, helps, spec};

const GROUP: Group = Group::Server;
const READS: Marks = &["noscript", "@scripting"];
const WRITES: Marks = &["write", "noscript", "@scripting"];
const HELP: Marks = &["loading", "stale", "@scripting"];
const BUSY: Marks = &["noscript", "allow_busy", "@scripting"];

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    container("function", GROUP, "7.0.0", "Tells of libraries of functions, of which there are none.", FUNCTION),
    container("script", GROUP, "2.6.0", "Tells of cached scripts, of which there are none.", SCRIPT),
];

static FUNCTION: &[Entry] = &[
    answers(spec("function|delete", 3, GROUP, "7.0.0", "Deletes a library.", "library-name"), WRITES, |_, _| {
        Err(Failure::Text("ERR Library not found"))
    }),
    answers(spec("function|flush", -2, GROUP, "7.0.0", "Deletes all libraries.", "[ASYNC | SYNC]"), WRITES, flush),
    answers(spec("function|kill", 2, GROUP, "7.0.0", "Ends the function that runs.", ""), BUSY, not_busy),
    answers(
        spec(
            "function|list",
            -2,
            GROUP,
            "7.0.0",
            "Lists the libraries.",
            "[LIBRARYNAME library-name-pattern] [WITHCODE]",
        ),
        READS,
        list,
    ),
    answers(
        spec("function|stats", 2, GROUP, "7.0.0", "Returns the function that runs and how many there are.", ""),
        BUSY,
        stats,
    ),
    helps("function|help", GROUP, HELP),
];

static SCRIPT: &[Entry] = &[
    answers(
        spec("script|exists", -3, GROUP, "2.6.0", "Says which scripts are cached.", "sha1 [sha1 ...]"),
        READS,
        exists,
    ),
    answers(spec("script|flush", -2, GROUP, "2.6.0", "Forgets all scripts.", "[ASYNC | SYNC]"), READS, flush),
    answers(spec("script|kill", 2, GROUP, "2.6.0", "Ends the script that runs.", ""), BUSY, not_busy),
    helps("script|help", GROUP, HELP),
];

fn flush(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    match words {
        [_, _] => Ok(Reply::Ok),
        [_, _, mode] if mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async") => Ok(Reply::Ok),
        [container, ..] if container.eq_ignore_ascii_case(b"script") => {
            Err(Failure::Text("ERR SCRIPT FLUSH only support SYNC|ASYNC option"))
        }
        _ => Err(Failure::Text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
    }
}

fn not_busy(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Err(Failure::Text("NOTBUSY No scripts in execution right now."))
}

fn list(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let mut rest = words[2..].iter();
    let (mut with_code, mut pattern) = (false, false);
    while let Some(word) = rest.next() {
        if !with_code && word.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if !pattern && word.eq_ignore_ascii_case(b"libraryname") {
            rest.next().ok_or(Failure::Text("ERR library name argument was not given"))?;
            pattern = true;
        } else {
            return Err(Failure::built(&[b"ERR Unknown argument ", *word].concat()));
        }
    }
    Ok(Reply::Array(Vec::new()))
}

fn stats(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let pair = |key: &str, value| (Reply::bulk(key), value);
    let none = vec![pair("libraries_count", Reply::Integer(0)), pair("functions_count", Reply::Integer(0))];
    Ok(Reply::Map(vec![
        pair("running_script", Reply::Nil),
        pair("engines", Reply::Map(vec![pair("LUA", Reply::Map(none))])),
    ]))
}

fn exists(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::Array(words[2..].iter().map(|_| Reply::Integer(0)).collect()))
}
