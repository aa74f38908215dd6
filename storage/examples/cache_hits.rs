//! How well the cache above the store does: `cargo run --release -p storage --example cache_hits`.
//!
//! 1. The hit ratio of each policy on two seeded traces, through [`CachedStore`] over a store in memory, beside that of the cache library
//!    driven directly with the same trace: *zipfian* (theta 0.99), and the same *polluted* by scans of keys that come once each time.
//! 2. What a read costs that finds its key resident, and one that does not, over the store on disk.
//! 3. What an entry really takes of memory, beside what it weighs.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a measurement reads the clock")]

use std::time::Instant;

use base::Rng;
use base::ordered::{OrderedBatch, OrderedRead, OrderedWrite, Space};
use foyer_memory::{Cache, CacheBuilder, EvictionConfig, FifoConfig, LfuConfig, LruConfig, S3FifoConfig};
use storage::cache::{ENTRY_BYTES, GROUP_DEFAULT};
use storage::{CachePolicy, CacheSettings, CachedStore, LsmOptions, LsmStore, MemoryStore};

const SPACE: Space = Space(1);
/// Keys of the zipfian part; scans go over as many others.
const KEYS: u64 = 200_000;
const READS: usize = 3_000_000;
/// In a polluted trace, after so many zipfian reads …
const READS_PER_SCAN: usize = 50_000;
/// … so many keys are read one after the other.
const SCAN: u64 = 25_000;
const VALUE_BYTES: usize = 100;
const WEIGHT: usize = 8 + VALUE_BYTES + ENTRY_BYTES;
/// The quota, as a part of the weight of the zipfian keys.
const QUOTA_PART: usize = 10;

fn main() {
    if let Some(name) = std::env::args().nth(1) {
        return memory(name.parse().expect("a policy"));
    }
    let store = MemoryStore::new();
    fill(&store, 2 * KEYS);
    println!("Hit ratio in percent; {KEYS} keys, a quota for {} of them\n", KEYS as usize / QUOTA_PART);
    println!("| trace | policy | through CachedStore | foyer itself | difference |");
    println!("|---|---|---|---|---|");
    let mut largest = 0f64;
    for (name, scans) in [("zipfian", false), ("with scans", true)] {
        let trace = trace(scans);
        for policy in CachePolicy::ALL {
            let ours = through_the_store(&store, &trace, policy);
            let theirs = directly(&trace, policy);
            largest = largest.max((ours - theirs).abs());
            println!("| {name} | {policy} | {ours:.2} | {theirs:.2} | {:+.2} |", ours - theirs);
        }
    }
    println!("\nlargest difference: {largest:.2} points\n");
    assert!(largest < 1.0, "within a point of the library");
    speed();
    println!("\n| policy | entries | weight each | memory each |");
    println!("|---|---|---|---|");
    for policy in CachePolicy::ALL {
        // Each in a process of its own: what others have freed would be used again.
        let this = std::env::current_exe().expect("this is a program");
        std::process::Command::new(this).arg(policy.name()).status().expect("it can be started again");
    }
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn fill(store: &impl OrderedWrite, keys: u64) {
    for start in (0..keys).step_by(20_000) {
        let changes = (start..keys.min(start + 20_000))
            .map(|number| (SPACE, key(number).to_vec(), Some(vec![number as u8; VALUE_BYTES])));
        store.apply(&OrderedBatch { dropped: Vec::new(), changes: changes.collect() }).expect("it has room");
    }
}

/// Zipfian numbers below `count`, by the inverse of the sums of probabilities.
struct Zipfian(Vec<f64>);

impl Zipfian {
    fn new(count: u64, theta: f64) -> Zipfian {
        let mut sum = 0.0;
        let sums = (1..=count).map(|rank| {
            sum += 1.0 / (rank as f64).powf(theta);
            sum
        });
        Zipfian(sums.collect())
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        let total = self.0.last().expect("there are keys");
        let point = rng.next_u64() as f64 / u64::MAX as f64 * total;
        self.0.partition_point(|sum| *sum < point) as u64
    }
}

/// The numbers of keys, in the order in which they are read.
fn trace(scans: bool) -> Vec<u64> {
    let zipfian = Zipfian::new(KEYS, 0.99);
    let mut rng = Rng::new(42);
    let mut trace = Vec::with_capacity(READS * 2);
    let mut scanned = 0;
    for read in 1..=READS {
        trace.push(zipfian.draw(&mut rng).min(KEYS - 1));
        if scans && read % READS_PER_SCAN == 0 {
            trace.extend((0..SCAN).map(|step| KEYS + (scanned + step) % KEYS));
            scanned += SCAN;
        }
    }
    trace
}

fn quota() -> usize {
    KEYS as usize / QUOTA_PART * WEIGHT
}

fn through_the_store(store: &MemoryStore, trace: &[u64], policy: CachePolicy) -> f64 {
    let cached = CachedStore::new(store.clone(), 5);
    cached.set_group(GROUP_DEFAULT, CacheSettings { quota_bytes: quota() as u64, policy });
    for number in trace {
        assert!(cached.get(SPACE, &key(*number)).expect("it is whole").is_some());
    }
    let stats = cached.cache_stats(GROUP_DEFAULT).expect("it was set");
    assert!(stats.bytes <= stats.quota_bytes && stats.bytes > stats.quota_bytes - WEIGHT as u64, "{stats:?}");
    100.0 * stats.hits as f64 / (stats.hits + stats.misses) as f64
}

fn directly(trace: &[u64], policy: CachePolicy) -> f64 {
    let eviction: EvictionConfig = match policy {
        CachePolicy::Fifo => FifoConfig::default().into(),
        CachePolicy::Lru => LruConfig::default().into(),
        CachePolicy::Lfu => LfuConfig::default().into(),
        CachePolicy::S3Fifo => S3FifoConfig::default().into(),
    };
    let cache: Cache<u64, ()> =
        CacheBuilder::new(quota()).with_weighter(|_, ()| WEIGHT).with_eviction_config(eviction).build();
    let mut hits = 0;
    for number in trace {
        if cache.get(number).is_some() {
            hits += 1;
        } else {
            cache.insert(*number, ());
        }
    }
    100.0 * f64::from(hits) / trace.len() as f64
}

fn speed() {
    let folder = std::env::temp_dir().join(format!("dictum-cache-{}", std::process::id()));
    let store = LsmStore::open(&folder, LsmOptions::default()).expect("the folder can be used");
    fill(&store, KEYS);
    store.flush().expect("the disk works");
    let cached = CachedStore::new(store, 5);
    println!("| read of one of {KEYS} keys in random order | mean ns | p50 | p99 | p99.9 |");
    println!("|---|---|---|---|---|");
    for policy in CachePolicy::ALL {
        cached.set_group(GROUP_DEFAULT, CacheSettings { quota_bytes: 1 << 30, policy });
        (0..KEYS).for_each(|number| drop(cached.get(SPACE, &key(number))));
        measure(&format!("resident, {policy}"), &cached, 0);
    }
    cached.set_group(GROUP_DEFAULT, CacheSettings { quota_bytes: 0, policy: CachePolicy::S3Fifo });
    measure("of the store", &cached, 0);
    measure("absent", &cached, KEYS);
    drop(cached);
    let _ = std::fs::remove_dir_all(&folder);
}

fn measure(what: &str, cached: &CachedStore<LsmStore>, first: u64) {
    let mut rng = Rng::new(9);
    let mut taken = Vec::new();
    for _ in 0..500_000 {
        let key = key(first + rng.below(KEYS));
        let before = Instant::now();
        let found = cached.get(SPACE, &key).expect("it is whole");
        taken.push(before.elapsed().as_nanos() as u64);
        assert!(found.is_none() == (first > 0));
    }
    taken.sort_unstable();
    let at = |part: f64| taken[(taken.len() as f64 * part) as usize];
    let mean = taken.iter().sum::<u64>() / taken.len() as u64;
    println!("| {what} | {mean} | {} | {} | {} |", at(0.5), at(0.99), at(0.999));
}

/// Twice as many entries as there is room for, so that S3-FIFO has its ghosts.
fn memory(policy: CachePolicy) {
    let before = resident_bytes();
    let cached = CachedStore::new(MemoryStore::new(), 5);
    cached.set_group(GROUP_DEFAULT, CacheSettings { quota_bytes: 1_000_000 * WEIGHT as u64, policy });
    for start in (0..2_000_000u64).step_by(1000) {
        let changes = (start..start + 1000).map(|number| (SPACE, key(number).to_vec(), Some(vec![1; VALUE_BYTES])));
        cached.apply(&OrderedBatch { dropped: Vec::new(), changes: changes.collect() }).expect("it has room");
        // What is below must not be counted.
        let gone = (start..start + 1000).map(|number| (SPACE, key(number), None::<Vec<u8>>));
        let gone = OrderedBatch { dropped: Vec::new(), changes: gone.collect() };
        cached.store().apply(&gone).expect("it has room");
        cached.store().sync().expect("it has room");
    }
    let stats = cached.cache_stats(GROUP_DEFAULT).expect("it was set");
    let each = resident_bytes().saturating_sub(before) / stats.entries;
    println!("| {policy} | {} | {} | {each} |", stats.entries, stats.bytes / stats.entries);
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("the second is resident pages") * 4096
}
