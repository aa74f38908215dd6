//! How long commands on one large sorted set take, alone on one thread: `cargo run --release -p data --example sorted_sets [members]`.
//!
//! Once with the state in memory, and once over a store (an ordered map in memory, so what a disk would cost is not in it) that it is flushed to
//! as a server does. Figures are microseconds for one command.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures time")]

use base::ordered::{OrderedBatch, Space};
use base::{Rng, WallTime};
use data::{EntryContext, Tree, View, apply, read};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use storage::MemoryStore;

const FLUSH_BYTES: u64 = base::limits::FLUSH_BYTES;
const OPERATIONS: u64 = 20_000;
const SCORES: u64 = 1_000_000_000;

struct State {
    tree: Tree,
    store: Option<MemoryStore>,
    spaces: u64,
    entries: u64,
}

impl State {
    fn write(&mut self, words: &[&[u8]]) {
        self.entries += 1;
        let seed = Rng::new(self.entries).next_u64();
        apply(&mut self.tree, &EntryContext { time: WallTime(1_000_000), seed, ..EntryContext::default() }, words);
    }

    fn ask(&self, words: &[&[u8]]) {
        black_box(read(&View::new(&self.tree, WallTime(1_000_000), 0), words));
    }

    fn flush(&mut self) {
        let Some(store) = &self.store else { return };
        let spaces = &mut self.spaces;
        let flush = self.tree.begin_flush(|| {
            *spaces += 1;
            Space(*spaces)
        });
        let mut batch = OrderedBatch::default();
        flush.expect("none is under way").write(&mut batch).expect("the store is read");
        store.apply(&batch).and_then(|()| store.sync()).expect("there is room");
        self.tree.end_flush();
        drop(self.tree.take_trash());
    }

    /// Runs `operation` so often and prints how long one took.
    fn measure(&mut self, name: &str, count: u64, mut operation: impl FnMut(&mut State, u64)) {
        let begin = Instant::now();
        (0..count).for_each(|number| operation(self, number));
        println!("{name:<45} {:>10.2} us", begin.elapsed().as_secs_f64() * 1e6 / count as f64);
    }
}

fn member(number: u64) -> String {
    format!("element:{number:012}")
}

fn main() {
    let members: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1_000_000).max(1000);
    for store in [None, Some(MemoryStore::new())] {
        println!("{members} members, {}", if store.is_some() { "over a store" } else { "in memory" });
        let tree = match &store {
            Some(store) => Tree::new().over(Arc::new(store.clone())),
            None => Tree::new(),
        };
        let mut state = State { tree, store, spaces: 0, entries: 0 };
        let mut rng = Rng::new(1);
        state.measure("ZADD, new", members, |state, number| {
            let score = rng.below(SCORES).to_string();
            state.write(&[b"ZADD", b"z", score.as_bytes(), member(number).as_bytes()]);
            if state.store.is_some() && state.tree.unflushed_bytes().0 > FLUSH_BYTES {
                state.flush();
            }
        });
        state.flush();
        state.measure("SADD, new", OPERATIONS, |state, number| {
            state.write(&[b"SADD", b"s", member(number).as_bytes()]);
        });
        state.measure("ZADD, another score", OPERATIONS, |state, _| {
            let score = rng.below(SCORES).to_string();
            state.write(&[b"ZADD", b"z", score.as_bytes(), member(rng.below(members)).as_bytes()]);
        });
        state.measure("ZSCORE", OPERATIONS, |state, _| {
            state.ask(&[b"ZSCORE", b"z", member(rng.below(members)).as_bytes()]);
        });
        state.measure("ZRANK", OPERATIONS, |state, _| {
            state.ask(&[b"ZRANK", b"z", member(rng.below(members)).as_bytes()]);
        });
        state.measure("ZCOUNT", OPERATIONS, |state, _| {
            let from = rng.below(SCORES);
            state.ask(&[b"ZCOUNT", b"z", from.to_string().as_bytes(), (from + SCORES / 20).to_string().as_bytes()]);
        });
        state.measure("ZRANGE of 100 at the beginning", OPERATIONS, |state, _| {
            state.ask(&[b"ZRANGE", b"z", b"0", b"99"]);
        });
        state.measure("ZRANGE of 100 anywhere", OPERATIONS, |state, _| {
            let from = rng.below(members - 99);
            state.ask(&[b"ZRANGE", b"z", from.to_string().as_bytes(), (from + 99).to_string().as_bytes()]);
        });
        state.measure("ZRANGE of 100 at the end, backwards", OPERATIONS, |state, _| {
            state.ask(&[b"ZRANGE", b"z", b"0", b"99", b"REV"]);
        });
        for quarter in ["first", "second", "third", "fourth"] {
            state.measure(&format!("ZPOPMIN of a tenth, the {quarter} quarter"), members / 40, |state, _| {
                state.write(&[b"ZPOPMIN", b"z"]);
            });
        }
        state.measure("ZPOPMAX", OPERATIONS, |state, _| state.write(&[b"ZPOPMAX", b"z"]));
        state.measure("ZRANGE of 100 at the beginning, then", OPERATIONS, |state, _| {
            state.ask(&[b"ZRANGE", b"z", b"0", b"99"]);
        });
    }
}
