//! How long the state machine takes for a command, alone on one thread: `cargo run --release -p data --example speed`.
//!
//! One tree of 100,000 keys (or as many as the argument says) of 16 bytes with values of 256; keys are drawn at random. Figures are nanoseconds an
//! operation, the best of five rounds, since everything else on the machine can only add to them.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures time")]

use base::{Rng, WallTime};
use data::{EntryContext, Restorer, Tree, View, apply, check, expire_due, read};
use std::hint::black_box;
use std::time::Instant;

const OPERATIONS: u64 = 200_000;

fn key(number: u64) -> Vec<u8> {
    format!("key:{number:012}").into_bytes()
}

/// Runs `operation` on many drawn keys and prints nanoseconds for one.
fn measure(name: &str, keys: &[Vec<u8>], mut operation: impl FnMut(&[u8])) {
    let mut best = f64::MAX;
    for round in 0..5 {
        let mut rng = Rng::new(round);
        let order: Vec<&[u8]> = (0..OPERATIONS).map(|_| rng.pick(keys).as_slice()).collect();
        let begin = Instant::now();
        for key in order {
            operation(key);
        }
        best = best.min(begin.elapsed().as_nanos() as f64 / OPERATIONS as f64);
    }
    println!("{name:<40} {best:>8.0} ns");
}

/// Memory of this process as Linux counts it; 0 elsewhere.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kibibytes| kibibytes * 1024)
}

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100_000).max(100);
    let keys: Vec<Vec<u8>> = (0..count).map(key).collect();
    let value = vec![b'x'; 256];
    let context = EntryContext { time: WallTime(1_000_000), seed: 1, ..EntryContext::default() };
    let resident_before = resident_bytes();
    let mut tree = Tree::new();
    for key in &keys {
        apply(&mut tree, &context, &[b"SET", key, &value]);
    }
    let resident = resident_bytes().saturating_sub(resident_before);
    println!(
        "{} keys: {} bytes each by the tree's own count, {} by the operating system's",
        tree.len(),
        tree.bytes() / count,
        resident / count,
    );

    measure("check SET (before it is proposed)", &keys, |key| {
        black_box(check(&[b"SET", key, &value]).is_ok());
    });
    measure("apply SET", &keys, |key| {
        black_box(apply(&mut tree, &context, &[b"SET", key, &value]));
    });
    measure("read GET", &keys, |key| {
        let view = View::new(&tree, context.time, 0);
        black_box(read(&view, &[b"GET", key]));
    });
    measure("read EXISTS", &keys, |key| {
        let view = View::new(&tree, context.time, 0);
        black_box(read(&view, &[b"EXISTS", key]));
    });
    let mut number = 0u64;
    measure("apply INCR", &keys, |_| {
        number = (number + 1) % 1000;
        black_box(apply(&mut tree, &context, &[b"INCR", format!("counter:{number}").as_bytes()]));
    });
    measure("apply APPEND of 4 bytes", &keys[..100], |key| {
        black_box(apply(&mut tree, &context, &[b"APPEND", key, b"abcd"]));
    });
    measure("apply INCRBYFLOAT", &keys, |_| {
        black_box(apply(&mut tree, &context, &[b"INCRBYFLOAT", b"sum", b"0.1"]));
    });
    measure("apply SET with a deadline", &keys, |key| {
        black_box(apply(&mut tree, &context, &[b"SET", key, &value, b"EX", b"100"]));
    });
    measure("apply SET of keys with deadlines", &keys, |key| {
        black_box(apply(&mut tree, &context, &[b"SET", key, &value]));
    });
    let mut hashes = Tree::new();
    measure("apply HSET, one large hash", &keys, |field| {
        black_box(apply(&mut hashes, &context, &[b"HSET", b"large", field, &value]));
    });
    measure("apply HSET, hashes of ten fields", &keys, |key| {
        black_box(apply(&mut hashes, &context, &[b"HSET", &key[..key.len() - 1], key, &value]));
    });
    measure("read HGET, one large hash", &keys, |field| {
        let view = View::new(&hashes, context.time, 0);
        black_box(read(&view, &[b"HGET", b"large", field]));
    });
    let (begin, fields) = (Instant::now(), hashes.elements_len());
    apply(&mut hashes, &context, &[b"DEL", b"large"]);
    println!("{:<40} {:>8} ns (of {fields} elements)", "apply DEL of the large hash", begin.elapsed().as_nanos());
    let (begin, mut entries) = (Instant::now(), 0);
    while hashes.has_garbage() {
        entries += 1;
        expire_due(&mut hashes, &context, 1000);
    }
    let microseconds = begin.elapsed().as_micros() / entries.max(1);
    println!("{:<40} {microseconds:>8} µs each of {entries} entries", "its elements reclaimed");

    let begin = Instant::now();
    let mut image = tree.image();
    println!("{:<40} {:>8} ns", "image", begin.elapsed().as_nanos());
    measure("apply SET while an image is held", &keys, |key| {
        black_box(apply(&mut tree, &context, &[b"SET", key, &value]));
    });
    let begin = Instant::now();
    let (mut block, mut bytes, mut restorer) = (Vec::new(), 0, Restorer::new());
    while image.next_block(&mut block) {
        bytes += block.len();
        restorer.push_block(&block).expect("a block of our own");
        block.clear();
    }
    let restored = restorer.finish().expect("an image of our own");
    let milliseconds = begin.elapsed().as_secs_f64() * 1000.0;
    println!("image to blocks to a tree of {} keys: {bytes} bytes in {milliseconds:.0} ms", restored.len());
    let begin = Instant::now();
    let digest = restored.digest();
    println!("digest {digest:016x} in {:.0} ms", begin.elapsed().as_secs_f64() * 1000.0);
}
