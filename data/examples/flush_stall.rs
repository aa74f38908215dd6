//! How long the parts of a flush hold up whoever owns the state: `cargo run --release -p data --example flush_stall [MiB]`.
//!
//! Only what is marked "loop" happens on the loop of a server; the rest is for other threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it measures")]

use std::sync::Arc;
use std::time::Instant;

use base::ordered::{OrderedBatch, Space};
use data::{EntryContext, Tree, apply};
use storage::MemoryStore;

fn timed<R>(what: &str, run: impl FnOnce() -> R) -> R {
    let begin = Instant::now();
    let result = run();
    println!("{what:<48} {:>12.3} ms", begin.elapsed().as_secs_f64() * 1e3);
    result
}

fn main() {
    let mebibytes: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(64);
    let store = MemoryStore::new();
    let mut tree = Tree::new().over(Arc::new(store.clone()));
    let mut next_space = 0;
    for round in 0..3 {
        let mut keys = 0u64;
        let mut longest = 0;
        while tree.unflushed_bytes().0 < mebibytes << 20 {
            let key = format!("key:{round}:{keys:012}");
            let begin = Instant::now();
            apply(&mut tree, &EntryContext::default(), &[b"SET", key.as_bytes(), &[b'x'; 100]]);
            longest = longest.max(begin.elapsed().as_micros());
            keys += 1;
        }
        println!("round {round}: {keys} records of 100 bytes, longest SET {longest} us");
        let flush = timed("loop: begin_flush", || {
            tree.begin_flush(|| {
                next_space += 1;
                Space(next_space)
            })
        });
        let flush = flush.expect("none is under way");
        let again = timed("loop: a copy, in case it fails", || flush.clone());
        let mut batch = OrderedBatch::default();
        timed("other: write", || flush.write(&mut batch)).expect("the store is read");
        println!("the batch: {} changes, {} MiB", batch.changes.len(), batch.bytes() >> 20);
        store.apply(&batch).expect("there is room");
        store.sync().expect("there is room");
        timed("other: free the batch", || drop(batch));
        let image = timed("loop: image", || tree.image());
        timed("loop: free the copy", || drop(again));
        timed("loop: end_flush", || tree.end_flush());
        let trash = timed("loop: take_trash", || tree.take_trash());
        timed("other: free the trash", || drop(trash));
        timed("other: free the image, the last that has it", || drop(image));
    }
}
