//! What overwriting costs: `cargo run --release -p storage --example store_amplification [MILLIONS [MEMTABLE_MIB TABLE_MIB [FOLDER]]]`.
//!
//! Records of about 200 bytes that look like JSON are put once and overwritten three times over, in random order. Prints the bytes written per
//! byte of records (*write amplification*, fjall's journal included) and the bytes on disk per byte of records (*space amplification*), at the
//! end of the writes and when compaction has come to rest, and how long writing and reading took.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a measurement reads the clock")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use base::Rng;
use base::ordered::{OrderedBatch, OrderedRead, Space};
use storage::{LsmOptions, LsmStore};

const SPACE: Space = Space(1);
const BATCH: u64 = 50_000;
const OVERWRITES: u64 = 3;

fn main() {
    let argument = |index: usize, otherwise: u64| {
        std::env::args().nth(index).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let records = argument(1, 2) * 1_000_000;
    let usual = LsmOptions::default();
    let options = LsmOptions {
        memtable_bytes: argument(2, usual.memtable_bytes >> 20) << 20,
        table_bytes: argument(3, usual.table_bytes >> 20) << 20,
        ..usual
    };
    let folder =
        std::env::args().nth(4).map_or_else(|| std::env::temp_dir().join("dictum-amplification"), PathBuf::from);
    let _ = std::fs::remove_dir_all(&folder);
    let store = LsmStore::open(&folder, options).expect("the folder can be used");
    println!("memtables of {} MiB, tables of {} MiB", options.memtable_bytes >> 20, options.table_bytes >> 20);
    println!("| after | records per s | CPU s | longest batch ms | written per byte | on disk per byte |");
    println!("|---|---|---|---|---|---|");
    let mut rng = Rng::new(5);
    let (mut put, mut logical, mut live) = (0u64, 0u64, 0u64);
    let begin = written();
    for round in 0..=OVERWRITES {
        let (started, cpu) = (Instant::now(), cpu_seconds());
        let mut longest = Duration::ZERO;
        for start in (0..records).step_by(BATCH as usize) {
            let numbers = (start..records.min(start + BATCH)).map(|n| if round == 0 { n } else { rng.below(records) });
            let changes = numbers.map(|number| (SPACE, key(number), Some(value(number, round)))).collect();
            let batch = OrderedBatch { dropped: Vec::new(), changes };
            logical += batch.bytes() as u64;
            put += batch.changes.len() as u64;
            let before = Instant::now();
            store.apply(&batch).expect("the disk works");
            longest = longest.max(before.elapsed());
        }
        if round == 0 {
            live = logical;
        }
        let rate = records as f64 / started.elapsed().as_secs_f64();
        let name = if round == 0 { "the first time".to_owned() } else { format!("overwrite {round}") };
        let cpu = cpu_seconds() - cpu;
        line(&name, rate, cpu, longest, written() - begin, logical, &store, live);
    }
    let (started, cpu) = (Instant::now(), cpu_seconds());
    store.sync().expect("the disk works");
    let mut quiet = Instant::now();
    while quiet.elapsed() < Duration::from_secs(1) {
        let stats = store.stats();
        if stats.compactions_running > 0 || stats.sealed_memtables > 0 {
            quiet = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let rate = put as f64 / started.elapsed().as_secs_f64();
    line("rest", rate, cpu_seconds() - cpu, Duration::ZERO, written() - begin, logical, &store, live);
    // fjall keeps what a compaction has replaced until a later table of the space is entered.
    let last = OrderedBatch { dropped: Vec::new(), changes: vec![(SPACE, key(0), Some(value(0, 9)))].into() };
    store.apply(&last).and_then(|()| store.flush()).expect("the disk works");
    line("one more table", 0.0, 0.0, Duration::ZERO, written() - begin, logical, &store, live);
    println!("{:?}", store.stats());
    let mut taken = Vec::new();
    for _ in 0..200_000 {
        let key = key(rng.below(records));
        let before = Instant::now();
        assert!(store.get(SPACE, &key).expect("it is whole").is_some());
        taken.push(before.elapsed().as_nanos() as u64);
    }
    taken.sort_unstable();
    let at = |part: f64| taken[(taken.len() as f64 * part) as usize] as f64 / 1e3;
    println!("get at random: p50 {:.1} µs, p99 {:.1} µs, p99.9 {:.1} µs", at(0.5), at(0.99), at(0.999));
    drop(store);
    let _ = std::fs::remove_dir_all(&folder);
}

#[allow(clippy::too_many_arguments, reason = "a line of a table")]
fn line(name: &str, rate: f64, cpu: f64, longest: Duration, written: u64, logical: u64, store: &LsmStore, live: u64) {
    let disk = store.disk_bytes().expect("the folder can be read");
    println!(
        "| {name} | {rate:.0} | {cpu:.1} | {:.0} | {:.2} | {:.2} |",
        longest.as_secs_f64() * 1e3,
        written as f64 / logical as f64,
        disk as f64 / live as f64
    );
}

fn key(number: u64) -> Vec<u8> {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [hash.to_be_bytes(), number.to_be_bytes()].concat()
}

fn value(number: u64, round: u64) -> Vec<u8> {
    let mut rng = Rng::new(number * 7 + round);
    format!(
        "{{\"id\":{number},\"name\":\"user {:x}\",\"mail\":\"{:x}@example.org\",\"visits\":{},\"score\":{}.{},\"active\":{},\
         \"tags\":[\"t{}\",\"t{}\"],\"address\":{{\"street\":\"{:x} street\",\"zip\":{}}}}}",
        rng.next_u64() >> 32,
        rng.next_u64() >> 24,
        rng.below(1000),
        rng.below(100),
        rng.below(100),
        rng.chance(1, 2),
        rng.below(50),
        rng.below(50),
        rng.next_u64() >> 40,
        rng.below(100_000)
    )
    .into_bytes()
}

/// Bytes that this process has handed to the system so far.
fn written() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").expect("this is Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: ")).expect("it is there");
    line.parse().expect("a number")
}

/// Processor time of this process so far, of all threads.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("this is Linux");
    let after = text.rsplit(')').next().expect("the name is in parentheses");
    let ticks: u64 = after.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().expect("a number")).sum();
    ticks as f64 / 100.0
}
