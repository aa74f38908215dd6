//! The committed corpus of the fuzzer and seeded mutations of it, run without a fuzzer.
//!
//! A file that once broke something belongs into `fuzz/corpus/<target>/`, where this test finds it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read files and clocks")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use base::Rng;

/// Mutations of each corpus file.
const MUTATIONS: u64 = 2000;
/// Mutations do not grow beyond this many bytes.
const BYTES_MAX: usize = 64 * 1024;
/// What parsers of this room branch on.
const TOKENS: [&[u8]; 20] = [
    b"\r\n",
    b"\r",
    b"\n",
    b"*",
    b"$",
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"$0\r\n\r\n",
    b"%1\r\n",
    b"|1\r\n",
    b"~2\r\n",
    b">1\r\n",
    b"1001",
    b"536870913",
    b"9223372036854775808",
    b"\"",
    b"'",
    b"\\x",
    b"\0\0\0\0",
];

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&folder).expect("the corpus is there").map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.into_iter().map(|path| (path.clone(), fs::read(&path).expect("a readable file"))).collect()
}

fn mutate(data: &mut Vec<u8>, rng: &mut Rng, others: &[(PathBuf, Vec<u8>)]) {
    let at = rng.below(data.len() as u64 + 1) as usize;
    match rng.below(7) {
        0 if at < data.len() => data[at] ^= 1 << rng.below(8),
        1 if at < data.len() => data[at] = rng.next_u64() as u8,
        2 => {
            let end = data.len().min(at + rng.below(16) as usize);
            data.drain(at..end);
        }
        3 => {
            let token = *rng.pick(&TOKENS);
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

fn run(target: &str, entry: fn(&[u8])) {
    let files = corpus(target);
    for (path, original) in &files {
        let name = path.file_name().expect("a file").to_string_lossy();
        let mut rng = Rng::new(base::checksum::xxh3(name.as_bytes()));
        for round in 0..=MUTATIONS {
            let mut data = original.clone();
            if round > 0 {
                for _ in 0..rng.between(1, 4) {
                    mutate(&mut data, &mut rng, &files);
                }
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| entry(&data)));
            assert!(outcome.is_ok(), "{target}: mutation {round} of {name} fails: \"{}\"", data.escape_ascii());
        }
    }
}

#[test]
fn resp_request() {
    run("resp_request", wire::fuzzing::fuzz_request);
}

#[test]
fn resp_reply() {
    run("resp_reply", wire::fuzzing::fuzz_reply);
}

#[test]
fn peer_frame() {
    run("peer_frame", wire::fuzzing::fuzz_frame);
}
