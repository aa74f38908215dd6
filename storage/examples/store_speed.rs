//! Measures the ordered store on real files: `cargo run --release -p storage --example store_speed [FOLDER [MILLIONS]]`.
//!
//! Records of 100 bytes are put in batches of 16 MiB and overwritten in random order, while other threads read; then hot and cold
//! reads alone. Prints rates, percentiles and the longest stalls.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a measurement reads the clock")]

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base::Rng;
use base::ordered::{OrderedBatch, OrderedRead, Space};
use storage::{LsmOptions, LsmStore};

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 84;
const BATCH_BYTES: usize = 16 << 20;
const SPACE: Space = Space(1);

fn main() {
    let folder = std::env::args().nth(1).map_or_else(|| PathBuf::from("target/store_speed"), PathBuf::from);
    let millions: u64 = std::env::args().nth(2).map_or(5, |text| text.parse().expect("millions of records"));
    let records = millions * 1_000_000;
    let _ = std::fs::remove_dir_all(&folder);
    let store = LsmStore::open(&folder, LsmOptions::default()).expect("the folder can be used");
    println!("what                         count      per s   p50 us   p99 us  p99.9 us    max us");

    let writing = AtomicBool::new(true);
    thread::scope(|scope| {
        let hot = scope.spawn(|| {
            let mut rng = Rng::new(7);
            let mut taken = Vec::new();
            while writing.load(Ordering::Relaxed) {
                get(&store, rng.below(1000), &mut taken);
                thread::sleep(Duration::from_micros(100));
            }
            taken
        });
        write(&store, "put, new, in order of hash", records, |number| number);
        let mut rng = Rng::new(9);
        write(&store, "put, overwriting at random", records, |_| rng.below(records));
        writing.store(false, Ordering::Relaxed);
        print("get of 1000 keys meanwhile", hot.join().expect("it only reads"));
    });
    let started = Instant::now();
    store.sync().expect("the disk works");
    println!("sync after the last batch: {:.0} ms", started.elapsed().as_secs_f64() * 1e3);
    println!("{:?}", store.stats());
    let started = Instant::now();
    drop(store);
    println!("close: {:.0} ms", started.elapsed().as_secs_f64() * 1e3);

    let started = Instant::now();
    let store = LsmStore::open(&folder, LsmOptions::default()).expect("it is whole");
    println!("open: {:.0} ms", started.elapsed().as_secs_f64() * 1e3);
    while store.stats().compactions_running > 0 || store.stats().sealed_memtables > 0 {
        thread::yield_now();
    }
    let mut rng = Rng::new(11);
    let mut taken = Vec::new();
    (0..200_000).for_each(|_| get(&store, rng.below(records), &mut taken));
    print("get at random, all data", taken);
    let mut taken = Vec::new();
    (0..500_000).for_each(|_| get(&store, rng.below(10_000), &mut taken));
    print("get of 10,000 keys", taken);
    let mut taken = Vec::new();
    for _ in 0..200_000 {
        let key = key(records + rng.below(records));
        let before = Instant::now();
        assert!(store.get(SPACE, &key).expect("it is whole").is_none());
        taken.push(before.elapsed().as_nanos() as u64);
    }
    print("get of what is not there", taken);
    let mut taken = Vec::new();
    for _ in 0..100_000 {
        let before = Instant::now();
        drop(store.freeze());
        taken.push(before.elapsed().as_nanos() as u64);
    }
    print("freeze", taken);
    let mut taken = Vec::new();
    for _ in 0..20_000 {
        let start = key(rng.below(records));
        let before = Instant::now();
        let count = store.range(SPACE, Bound::Included(&start)).take(10).filter(Result::is_ok).count();
        assert!(count > 0 || start[0] == 255);
        taken.push(before.elapsed().as_nanos() as u64);
    }
    print("range, 10 records", taken);
    let started = Instant::now();
    let found = store.range(SPACE, Bound::Unbounded).filter(Result::is_ok).count();
    println!("scan of {found} records: {:.0} per s", found as f64 / started.elapsed().as_secs_f64());
    let logical = records * (KEY_BYTES + VALUE_BYTES) as u64;
    let disk = store.disk_bytes().expect("the folder can be read");
    println!(
        "disk: {} MB for {} MB of records ({:.2})",
        disk / 1_000_000,
        logical / 1_000_000,
        disk as f64 / logical as f64
    );
    println!("{:?}", store.stats());
    drop(store);
    let _ = std::fs::remove_dir_all(&folder);
}

/// Sixteen bytes that begin with a hash, as the state's keys do.
fn key(number: u64) -> Vec<u8> {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [hash.to_be_bytes(), number.to_be_bytes()].concat()
}

fn write(store: &LsmStore, what: &str, records: u64, mut number: impl FnMut(u64) -> u64) {
    let mut taken = Vec::new();
    let (mut next, started) = (0, Instant::now());
    while next < records {
        let until = records.min(next + (BATCH_BYTES / (KEY_BYTES + VALUE_BYTES)) as u64);
        let changes = (next..until).map(|index| (SPACE, key(number(index)), Some(vec![index as u8; VALUE_BYTES])));
        let batch = OrderedBatch { dropped: Vec::new(), changes: changes.collect() };
        let before = Instant::now();
        store.apply(&batch).expect("the disk works");
        taken.push(before.elapsed().as_nanos() as u64);
        next = until;
    }
    let seconds = started.elapsed().as_secs_f64();
    print(&format!("{what} (batches)"), taken);
    println!("    {records} records in {seconds:.1} s: {:.0} per s", records as f64 / seconds);
}

fn get(store: &LsmStore, number: u64, taken: &mut Vec<u64>) {
    let key = key(number);
    let before = Instant::now();
    store.get(SPACE, &key).expect("it is whole");
    taken.push(before.elapsed().as_nanos() as u64);
}

/// Prints a line about durations in nanoseconds.
fn print(what: &str, mut taken: Vec<u64>) {
    taken.sort_unstable();
    let total: u64 = taken.iter().sum();
    let at =
        |part: f64| taken.get((taken.len().saturating_sub(1) as f64 * part) as usize).map_or(0.0, |n| *n as f64 / 1e3);
    let rate = taken.len() as f64 / (total as f64 / 1e9);
    let [half, most, nearly, longest] = [0.5, 0.99, 0.999, 1.0].map(at);
    println!("{what:26} {:7} {rate:10.0} {half:8.1} {most:8.1} {nearly:9.1} {longest:9.1}", taken.len());
}
