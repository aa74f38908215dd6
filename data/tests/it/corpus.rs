//! The fuzzer's corpus of what clients send, and seeded mutations of it, run without a fuzzer.
//!
//! A file that once broke something belongs into `fuzz/corpus/<target>/`, where this test finds it. `DICTUM_REWRITE=1` makes payloads and commands anew from
//! pages of commands.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read and write files")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use base::{Rng, WallTime};
use data::{EntryContext, Reply, Tree, apply};

/// Mutations do not grow beyond this many bytes.
const BYTES_MAX: usize = 16 * 1024;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target)
}

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder(target)).expect("the corpus is there").map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "{target}: the corpus is there");
    let name = |path: &PathBuf| path.file_name().expect("a file").to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), fs::read(path).expect("a readable file"))).collect()
}

fn mutate(data: &mut Vec<u8>, rng: &mut Rng, tokens: &[&[u8]], others: &[(String, Vec<u8>)]) {
    let at = rng.below(data.len() as u64 + 1) as usize;
    match rng.below(7) {
        0 if at < data.len() => data[at] ^= 1 << rng.below(8),
        1 if at < data.len() => data[at] = rng.next_u64() as u8,
        2 => {
            let end = data.len().min(at + rng.below(16) as usize);
            data.drain(at..end);
        }
        3 => {
            let token = *rng.pick(tokens);
            data.splice(at..at, token.iter().copied());
        }
        4 => data.truncate(at),
        5 => {
            let end = data.len().min(at + rng.below(64) as usize);
            let copy = data[at..end].to_vec();
            data.splice(at..at, copy);
        }
        _ => {
            let other = &rng.pick(others).1;
            data.truncate(at);
            data.extend_from_slice(&other[rng.below(other.len() as u64 + 1) as usize..]);
        }
    }
    data.truncate(BYTES_MAX);
}

fn run(target: &str, mutations: u64, tokens: &[&[u8]], entry: fn(&[u8])) {
    let times = std::env::var("DICTUM_MUTATIONS").map_or(1, |times| times.parse().expect("a number"));
    let mutations = mutations * times;
    let files = corpus(target);
    for (name, original) in &files {
        let mut rng = Rng::new(base::checksum::xxh3(name.as_bytes()));
        for round in 0..=mutations {
            let mut data = original.clone();
            if round > 0 {
                for _ in 0..rng.between(1, 4) {
                    mutate(&mut data, &mut rng, tokens, &files);
                }
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| entry(&data)));
            assert!(outcome.is_ok(), "{target}: mutation {round} of {name} fails: \"{}\"", data.escape_ascii());
        }
    }
}

/// Keys of all types, as commands make them.
const KEYS: &[(&str, &str)] = &[
    ("string", "SET k hello"),
    ("number", "SET k 12345"),
    ("list", "RPUSH k a b 1 2 300 70000 c"),
    ("hash", "HSET k f v g 1 h 2.5"),
    ("set", "SADD k a b c 1"),
    ("numbers", "SADD k 1 2 3 70000"),
    ("sorted", "ZADD k 1 a 2.5 b -inf c"),
    ("stream", "XADD k 1-1 f v g w"),
    ("group", "XGROUP CREATE k g 0 MKSTREAM"),
    ("json", "JSON.SET k $ {\"a\":[1,2.5,null,\"x\"]}"),
    ("counted", "PFADD k a b c"),
];

/// Writes the payloads of keys of all types, and commands of some pages.
fn rewrite() {
    fs::create_dir_all(folder("restore")).unwrap();
    fs::create_dir_all(folder("commands")).unwrap();
    let context = EntryContext { time: WallTime(1), version: base::versions::NEWEST, ..EntryContext::default() };
    for (name, command) in KEYS {
        let mut tree = Tree::new();
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        apply(&mut tree, &context, &words);
        let Reply::Bulk(payload) = apply(&mut tree, &context, &[b"DUMP", b"k"]).reply else { panic!("{command}") };
        fs::write(folder("restore").join(name), &payload[..payload.len() - 10]).unwrap();
    }
    // Some of the pages that describe commands: each begins with what makes its keys.
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/commands");
    let mut paths: Vec<PathBuf> = fs::read_dir(pages).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().step_by(6) {
        let page = fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("> ")).take(25).collect();
        fs::write(folder("commands").join(path.file_stem().unwrap()), lines.join("\n")).unwrap();
    }
}

#[test]
fn scripts() {
    const TOKENS: &[&[u8]] = &[
        b"\0",
        b"-2^31",
        b"2^31",
        b"2147483647",
        b"{}",
        b"pcall(",
        b")",
        b"end ",
        b"function() ",
        b"..",
        b"unpack(",
        b"('x'):rep(1000)",
        b"[[",
        b"]]",
        b"%",
        b"while true do ",
    ];
    run("script", 60, TOKENS, data::fuzzing::fuzz_script);
}

#[test]
fn paths() {
    const TOKENS: &[&[u8]] = &[
        b"$",
        b"..",
        b"*",
        b"[?(@",
        b"[?@",
        b")]",
        b"]",
        b"[-1]",
        b"[::0]",
        b"['",
        b"\\u",
        b"==",
        b"&&",
        b"||",
        b"!",
        b"length(",
        b"9223372036854775808",
    ];
    run("json_path", 400, TOKENS, data::fuzzing::fuzz_path);
}

#[test]
fn payloads() {
    const TOKENS: &[&[u8]] = &[
        b"\0",
        b"\xff",
        b"\xff\xff\xff\xff",
        b"\x80\x7f\xff\xff\xff",
        b"\x81\0\0\0\0\xff\xff\xff\xff",
        b"\xc0",
        b"\xc3",
        b"\xfe",
        b"\x0e\x01",
    ];
    if std::env::var_os("DICTUM_REWRITE").is_some() {
        rewrite();
    }
    run("restore", 1000, TOKENS, data::fuzzing::fuzz_restore);
}

#[test]
fn commands() {
    const TOKENS: &[&[u8]] = &[
        b"\n",
        b" ",
        b"0",
        b"-1",
        b"1",
        b"inf",
        b"nan",
        b"9223372036854775807",
        b"-9223372036854775808",
        b"1e308",
        b"(",
        b"[",
        b"+",
        b"-",
        b"*",
        b"$",
        b"LIMIT",
        b"COUNT",
        b"STORE",
        b"k",
        b"\nSET k 1\n",
        b"\nRPUSH k a\n",
        b"\nZADD k 1 a\n",
        b"\nDEL k\n",
    ];
    run("commands", 150, TOKENS, data::fuzzing::fuzz_commands);
}

#[test]
fn rdb_files() {
    const TOKENS: &[&[u8]] = &[
        b"\0",
        b"\xff",
        b"\xfe\x05",
        b"\x80\x7f\xff\xff\xff",
        b"\x81\0\0\0\0\xff\xff\xff\xff",
        b"\xc0",
        b"\xc3",
        b"\x15",
        b"\x07",
    ];
    run("rdb", 2000, TOKENS, data::fuzzing::fuzz_rdb);
}

#[test]
fn lines_of_json() {
    const TOKENS: &[&[u8]] = &[
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b"\"",
        b"1e400",
        b"-0",
        b"null",
        b"\\u0000",
        b"{\"hex\":\"ff\"}",
        b"[\"f\",\"v\",5]",
        b"\"0-0\"",
        b"18446744073709551615",
    ];
    run("json_line", 1000, TOKENS, data::fuzzing::fuzz_json_line);
}
