//! The fuzzer's corpus of messages between nodes, and seeded mutations of it, run without a fuzzer.
//!
//! `DICTUM_REWRITE=1 cargo test -p node --test it corpus::` makes the corpus anew from what real nodes say to each other.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read and write files")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::Cluster;
use base::Rng;
use node::fuzzing::fuzz_peer_message;
use node::{ConnectionId, Input};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/peer_message")
}

/// Messages of all kinds that a cluster at work sends.
fn spoken() -> BTreeMap<String, Vec<u8>> {
    let mut cluster = Cluster::new(3);
    let mut messages = BTreeMap::new();
    cluster.open(1, ConnectionId(2));
    cluster.give(1, Input::Received { connection: ConnectionId(2), bytes: b"SUBSCRIBE news\r\nPSUBSCRIBE n*\r\n" });
    for round in 0..200 {
        cluster.say((round % 3) as u16, b"SET k v\r\nGET k\r\nPUBLISH news hello\r\n");
        for (_, _, bytes) in &cluster.mail {
            // The length tells most of them apart.
            messages
                .entry(format!("kind-{:02}-{:03}", bytes[0], bytes.len().min(99)))
                .or_insert_with(|| bytes.to_vec());
        }
        cluster.pass();
    }
    messages
}

#[test]
fn the_corpus_and_its_mutations_keep_the_promises() {
    if std::env::var_os("DICTUM_REWRITE").is_some() {
        fs::create_dir_all(folder()).unwrap();
        for (name, bytes) in spoken().into_iter().take(40) {
            fs::write(folder().join(name), bytes).unwrap();
        }
    }
    let mut paths: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let corpus: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(corpus.len() >= 5, "the corpus is there");
    assert!(corpus.iter().any(|bytes| fuzz_peer_message(bytes)), "some of it are messages");
    let mut rng = Rng::new(1);
    for original in &corpus {
        for _ in 0..3000 {
            let mut bytes = original.clone();
            for _ in 0..rng.between(1, 4) {
                let at = rng.below(bytes.len() as u64) as usize;
                match rng.below(4) {
                    0 => bytes[at] ^= 1 << rng.below(8),
                    1 => bytes[at] = 0xff,
                    2 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, rng.next_u64() as u8),
                }
            }
            fuzz_peer_message(&bytes);
        }
    }
}
