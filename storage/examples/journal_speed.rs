//! Measures commits to the journal on real files: `cargo run --release -p storage --example journal_speed [FOLDER]`.
//!
//! Blank segments are made on another thread, as the server does. Prints a line per way of writing and size.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a measurement reads the clock")]

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use storage::{Files, Journal, JournalOptions};

fn main() {
    let folder = std::env::args().nth(1).map_or_else(|| PathBuf::from("target/journal_speed"), PathBuf::from);
    println!("way       bytes  commits   open ms  p50 ms   p99 ms  p99.9 ms   max ms   MB/s");
    for direct in [false, true] {
        for (bytes, commits) in [(300, 20_000), (4096, 10_000), (65_536, 5_000), (1024 * 1024, 500)] {
            let _ = std::fs::remove_dir_all(&folder);
            measure(&folder, direct, bytes, commits);
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

fn measure(folder: &PathBuf, direct: bool, bytes: usize, commits: usize) {
    let started = Instant::now();
    let files = Files::open(folder).expect("the folder can be used").with_direct_writes(direct);
    let (mut journal, _) = Journal::open(files, JournalOptions::default()).expect("a new journal");
    let open_ms = started.elapsed().as_secs_f64() * 1000.0;
    let payload = vec![7; bytes];
    let (sender, receiver) = mpsc::channel();
    let mut taken_ms = Vec::with_capacity(commits);
    let start = Instant::now();
    for _ in 0..commits {
        let before = Instant::now();
        journal.commit(&[&payload]).expect("the disk works");
        taken_ms.push(before.elapsed().as_secs_f64() * 1000.0);
        if let Some(preparation) = journal.preparation() {
            let sender = sender.clone();
            thread::spawn(move || sender.send(preparation.run()));
        }
        if let Ok(prepared) = receiver.try_recv() {
            journal.install(prepared).expect("there is room");
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    taken_ms.sort_by(f64::total_cmp);
    let at = |part: f64| taken_ms[((commits - 1) as f64 * part) as usize];
    println!(
        "{:9} {bytes:7} {commits:6} {open_ms:9.1} {:7.3} {:8.3} {:9.3} {:8.2} {:6.1}",
        if direct { "direct" } else { "buffered" },
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        (commits * bytes) as f64 / 1e6 / seconds,
    );
}
