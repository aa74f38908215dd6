//! The cache over a store in memory: what is resident, what it weighs, and that nothing that was overtaken is ever seen.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "these tests are about threads")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use base::Rng;
use proptest::prelude::*;

use super::*;
use crate::MemoryStore;

fn settings(quota_bytes: u64, policy: CachePolicy) -> CacheSettings {
    CacheSettings { quota_bytes, policy }
}

fn batch(changes: &[(u64, &str, Option<&str>)]) -> OrderedBatch {
    let changes = changes.iter().map(|(space, key, value)| {
        (Space(*space), key.as_bytes().to_vec(), value.map(|value| value.as_bytes().to_vec()))
    });
    OrderedBatch { dropped: Vec::new(), changes: changes.collect() }
}

/// With one group for all.
fn cached(quota_bytes: u64, policy: CachePolicy) -> CachedStore<MemoryStore> {
    let store = CachedStore::new(MemoryStore::new(), 7);
    store.set_group(GROUP_DEFAULT, settings(quota_bytes, policy));
    store
}

fn get(store: &CachedStore<MemoryStore>, space: u64, key: &str) -> Option<String> {
    let found = store.get(Space(space), key.as_bytes()).expect("it can be read");
    found.map(|value| String::from_utf8(value).expect("it was written as text"))
}

fn stats(store: &CachedStore<MemoryStore>) -> CacheStats {
    store.cache_stats(GROUP_DEFAULT).expect("it was set")
}

#[test]
fn what_was_applied_or_read_is_resident() {
    for policy in CachePolicy::ALL {
        let store = cached(1 << 20, policy);
        store.store().apply(&batch(&[(1, "before", Some("1"))])).unwrap();
        store.apply(&batch(&[(1, "a", Some("12")), (1, "b", Some("")), (2, "a", Some("other"))])).unwrap();
        assert_eq!(stats(&store).entries, 3);
        // The store is not asked for what is resident.
        let broken = || OrderedError { text: "rot".to_owned(), full: false };
        store.store().fail_next_read(broken());
        assert_eq!(get(&store, 1, "a").as_deref(), Some("12"));
        assert_eq!(get(&store, 1, "b").as_deref(), Some(""));
        assert_eq!(get(&store, 2, "a").as_deref(), Some("other"));
        assert_eq!(store.get(Space(1), b"before"), Err(broken()));
        assert_eq!(get(&store, 1, "before").as_deref(), Some("1"));
        assert_eq!(get(&store, 1, "before").as_deref(), Some("1"));
        assert_eq!((get(&store, 1, "absent"), get(&store, 9, "a")), (None, None));
        let bytes = ["a12", "b", "aother", "before1"].iter().map(|text| text.len() + ENTRY_BYTES).sum::<usize>() as u64;
        let expected = CacheStats { policy, quota_bytes: 1 << 20, bytes, entries: 4, hits: 4, misses: 4, evictions: 0 };
        assert_eq!(stats(&store), expected);
        store.apply(&batch(&[(1, "a", None), (1, "b", Some("new")), (1, "b", Some("newer"))])).unwrap();
        assert_eq!((get(&store, 1, "a"), get(&store, 1, "b").as_deref()), (None, Some("newer")));
        assert_eq!(stats(&store).entries, 3);
        let view = store.freeze();
        store.apply(&batch(&[(1, "b", None)])).unwrap();
        assert_eq!(view.get(Space(1), b"b").unwrap().as_deref(), Some(&b"newer"[..]));
        assert_eq!(store.range(Space(1), Bound::Unbounded).count(), 1);
    }
}

#[test]
fn bytes_stay_under_the_quota_and_near_it() {
    for policy in CachePolicy::ALL {
        let quota = 300_000;
        let store = cached(quota, policy);
        let mut rng = Rng::new(3);
        for number in 0..4000u64 {
            let value = "x".repeat(rng.between(0, 400) as usize);
            store.apply(&batch(&[(1, &number.to_string(), Some(&value))])).unwrap();
            let bytes = stats(&store).bytes;
            assert!(bytes <= quota && (number < 2000 || bytes > quota - 1000), "{policy}: {bytes} after {number}");
        }
        assert!(stats(&store).evictions > 2000);
        // What would push out a good part is not kept, and what it replaces is gone.
        store.apply(&batch(&[(1, "large", Some("small"))])).unwrap();
        let large = "y".repeat(quota as usize / 2);
        store.apply(&batch(&[(1, "large", Some(&large))])).unwrap();
        assert!(get(&store, 1, "large") == Some(large));
        assert!(stats(&store).bytes > quota - 1000);

        store.set_group(GROUP_DEFAULT, settings(50_000, policy));
        let now = stats(&store);
        assert!(now.bytes <= 50_000 && now.bytes > 49_000 && now.quota_bytes == 50_000, "{policy}: {now:?}");
        store.set_group(GROUP_DEFAULT, settings(0, policy));
        assert_eq!((stats(&store).bytes, stats(&store).entries), (0, 0), "{policy}");
        assert!(get(&store, 1, "17").is_some() && stats(&store).entries == 0);
        store.set_group(GROUP_DEFAULT, settings(quota, policy));
        assert!(get(&store, 1, "17").is_some() && stats(&store).entries == 1);
    }
}

#[test]
fn groups_have_spaces() {
    let store = CachedStore::new(MemoryStore::new(), 7);
    store.apply(&batch(&[(1, "a", Some("1")), (2, "a", Some("2")), (3, "a", Some("3"))])).unwrap();
    // No group, no cache.
    assert_eq!(get(&store, 1, "a").as_deref(), Some("1"));
    assert_eq!((store.groups(), store.cache_stats(5)), (Vec::new(), None));
    store.assign(Space(2), 5);
    store.set_group(5, settings(1 << 20, CachePolicy::Lru));
    store.set_group(GROUP_DEFAULT, settings(1 << 20, CachePolicy::Fifo));
    let read_all = || {
        for space in 1..4u64 {
            assert_eq!(get(&store, space, "a"), Some(space.to_string()));
        }
    };
    let entries = || [GROUP_DEFAULT, 5].map(|id| store.cache_stats(id).map(|stats| stats.entries));
    read_all();
    assert_eq!(entries(), [Some(2), Some(1)]);
    store.assign(Space(3), 5);
    assert_eq!(entries(), [Some(1), Some(1)]);
    read_all();
    assert_eq!(entries(), [Some(1), Some(2)]);
    // Another policy begins anew; dropped spaces leave at once, and are no evictions.
    store.set_group(5, settings(1 << 20, CachePolicy::Lfu));
    assert_eq!(entries(), [Some(1), Some(0)]);
    read_all();
    store.apply(&OrderedBatch { dropped: vec![Space(3), Space(1)], ..OrderedBatch::default() }).unwrap();
    assert_eq!(entries(), [Some(0), Some(1)]);
    assert_eq!(store.cache_stats(5).map(|stats| stats.evictions), Some(0));
    assert_eq!((get(&store, 3, "a"), get(&store, 2, "a").as_deref()), (None, Some("2")));
    store.drop_group(5);
    assert_eq!((entries(), store.groups()), ([Some(0), None], vec![GROUP_DEFAULT]));
    assert_eq!(get(&store, 2, "a").as_deref(), Some("2"));
    store.retain_spaces(&[Space(8)]).unwrap();
    assert_eq!((store.spaces(), get(&store, 2, "a")), (Vec::new(), None));
}

/// A store whose last failed batch shows when it takes batches again, as that of a disk that was full.
#[derive(Debug, Default)]
struct Failing {
    store: MemoryStore,
    failing: AtomicBool,
    late: Mutex<Option<OrderedBatch>>,
}

impl OrderedRead for Failing {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        self.store.get(space, key)
    }

    fn range<'a>(
        &'a self,
        space: Space,
        start: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        self.store.range(space, start)
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        self.store.freeze()
    }
}

impl OrderedWrite for Failing {
    fn begin_load(&self, space: Space) -> Result<Box<dyn OrderedLoad>, OrderedError> {
        self.store.begin_load(space)
    }

    fn apply(&self, batch: &OrderedBatch) -> Result<(), OrderedError> {
        if self.failing.load(Ordering::Relaxed) {
            *self.late.lock().unwrap() = Some(batch.clone());
            return Err(OrderedError { text: "full".to_owned(), full: true });
        }
        if let Some(late) = self.late.lock().unwrap().take() {
            self.store.apply(&late)?;
        }
        self.store.apply(batch)
    }

    fn sync(&self) -> Result<(), OrderedError> {
        self.store.sync()
    }

    fn spaces(&self) -> Vec<Space> {
        self.store.spaces()
    }

    fn retain_spaces(&self, kept: &[Space]) -> Result<(), OrderedError> {
        self.store.retain_spaces(kept);
        Ok(())
    }
}

/// Whoever applies a batch may lose the processor in the middle of it.
#[test]
fn a_reader_waits_for_nobody_who_holds_a_lock() {
    let store = cached(1 << 20, CachePolicy::S3Fifo);
    store.apply(&batch(&[(1, "a", Some("12"))])).unwrap();
    store.store().apply(&batch(&[(1, "b", Some("34"))])).unwrap();
    let directory = store.directory();
    let group = directory.group_of(Space(1)).unwrap();
    let stripes: Vec<_> = store.inner.stripes.iter().map(|stripe| stripe.lock().unwrap()).collect();
    let read = |key: &'static str| {
        let reader = store.clone();
        let (said, heard) = mpsc::channel();
        thread::spawn(move || said.send(get(&reader, 1, key)));
        heard.recv_timeout(Duration::from_secs(60)).expect("it does not wait")
    };
    assert_eq!(read("b"), Some("34".to_owned()), "with its stripe held");
    let held = group.hold();
    assert_eq!(read("a"), Some("12".to_owned()), "with its shard held");
    store.notice(Space(1), b"b".to_vec());
    drop(held);
    drop(stripes);
    let CacheStats { entries, hits, misses, .. } = group.stats();
    assert_eq!((entries, hits, misses), (1, 0, 2), "what was passed by is counted, and not resident");
}

#[test]
fn a_failed_batch_that_shows_later_is_seen() {
    let store = CachedStore::new(Failing::default(), 7);
    store.set_group(GROUP_DEFAULT, settings(1 << 20, CachePolicy::Lru));
    let get = |key: &str| store.get(Space(1), key.as_bytes()).unwrap().map(|value| String::from_utf8(value).unwrap());
    store.apply(&batch(&[(1, "a", Some("old")), (1, "b", Some("old")), (1, "c", Some("old"))])).unwrap();
    store.store().failing.store(true, Ordering::Relaxed);
    store.apply(&batch(&[(1, "a", Some("new")), (1, "b", None)])).unwrap_err();
    assert_eq!([get("a"), get("b"), get("c")].map(|value| value.is_some()), [true; 3]);
    assert_eq!(store.cache_stats(GROUP_DEFAULT).map(|stats| stats.entries), Some(1), "no reader fills it now");
    store.store().failing.store(false, Ordering::Relaxed);
    store.apply(&batch(&[(1, "d", Some("new"))])).unwrap();
    assert_eq!([get("a").as_deref(), get("b").as_deref(), get("c").as_deref()], [Some("new"), None, Some("old")]);
    assert_eq!(store.cache_stats(GROUP_DEFAULT).map(|stats| stats.entries), Some(3));
}

/// Sets it when the test ends, also by a panic.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Others who want the processor make reads slow as well, and threads that read ahead would want it, too.
#[test]
fn only_who_waited_for_the_disk_has_keys_noticed() {
    let store = cached(1 << 20, CachePolicy::S3Fifo);
    store.read_ahead(|| ()).unwrap();
    let ahead = &store.inner.ahead;
    let begun = std::time::Instant::now();
    ahead.timed(|| while begun.elapsed() < Duration::from_millis(1) {});
    assert!(!store.wants_notice(), "it computed");
    ahead.timed(|| thread::sleep(Duration::from_micros(200)));
    assert!(store.wants_notice(), "it slept");
}

/// Those who read ahead make way for others, and may lose the processor with the lock in their hand.
#[test]
fn who_notices_a_key_waits_for_nobody_who_holds_the_lock() {
    let store = cached(1 << 20, CachePolicy::S3Fifo);
    let held = store.inner.ahead.waiting.lock().unwrap();
    store.notice(Space(1), b"a".to_vec());
    assert!(held.keys.is_empty());
}

/// What was said to be read soon comes into memory by itself. The read that it came for counts as one that missed, and tells the policy nothing.
#[test]
fn what_is_noticed_is_there_when_it_is_read() {
    for policy in CachePolicy::ALL {
        let store = cached(1 << 20, policy);
        store.store().apply(&batch(&[(1, "a", Some("1")), (1, "b", Some("2"))])).unwrap();
        store.read_ahead(|| ()).unwrap();
        // While nobody waits for the disk, nobody needs to say anything.
        assert!(!store.wants_notice());
        assert_eq!(get(&store, 1, "b").as_deref(), Some("2"));
        assert!(!store.wants_notice());
        store.inner.ahead.waited(Duration::from_micros(100));
        assert_eq!((0..100).filter(|_| store.wants_notice()).count(), 50);
        // A key is passed over where a reader holds the lock just then.
        while stats(&store).entries < 2 {
            for key in ["a", "absent"] {
                store.notice(Space(1), key.as_bytes().to_vec());
            }
            thread::yield_now();
        }
        assert_eq!((stats(&store).hits, stats(&store).misses), (0, 1));
        store.store().fail_next_read(OrderedError { text: "rot".to_owned(), full: false });
        assert_eq!(get(&store, 1, "a").as_deref(), Some("1"));
        assert_eq!((stats(&store).hits, stats(&store).misses), (0, 2));
        assert_eq!(get(&store, 1, "a").as_deref(), Some("1"));
        assert_eq!((stats(&store).hits, stats(&store).misses), (1, 2));
    }
}

/// Few keys, many readers, a writer with growing versions, a quota that is always too small, and groups that change: no reader sees a
/// version older than one that was applied before it began to read.
#[test]
fn nobody_sees_what_was_overtaken() {
    const KEYS: usize = 12;
    for policy in CachePolicy::ALL {
        let store = cached(4000, policy);
        store.read_ahead(|| ()).unwrap();
        let applied: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        let done = AtomicBool::new(false);
        let version = |found: Option<Vec<u8>>| {
            found.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().expect("eight bytes and more")))
        };
        thread::scope(|scope| {
            let (store, applied, done) = (&store, &applied, &done);
            let _at_end = AtEnd(done);
            for seed in 0..3 {
                scope.spawn(move || {
                    let mut rng = Rng::new(seed);
                    while !done.load(Ordering::Relaxed) {
                        let key = rng.below(KEYS as u64) as usize;
                        let space = Space(key as u64 % 3);
                        if rng.chance(1, 2) {
                            store.notice(space, vec![key as u8]);
                        }
                        let before = applied[key].load(Ordering::SeqCst);
                        let found = version(store.get(space, &[key as u8]).unwrap());
                        assert!(found >= before, "{policy}: {found} was read, {before} applied before");
                    }
                });
            }
            scope.spawn(move || {
                let mut rng = Rng::new(100);
                while !done.load(Ordering::Relaxed) {
                    let quota = rng.between(2000, 8000);
                    match rng.below(3) {
                        0 => store.set_group(GROUP_DEFAULT, settings(quota, policy)),
                        1 => store.set_group(1, settings(quota, CachePolicy::ALL[rng.below(4) as usize])),
                        _ => store.assign(Space(rng.below(3)), rng.below(3) as u32),
                    }
                    thread::yield_now();
                }
            });
            let mut rng = Rng::new(200);
            for number in 1..8000u64 {
                let mut keys: Vec<usize> = (0..3).map(|_| rng.below(KEYS as u64) as usize).collect();
                keys.dedup();
                let value = [number.to_le_bytes().to_vec(), vec![0; rng.between(0, 600) as usize]].concat();
                let changes = keys.iter().map(|key| (Space(*key as u64 % 3), vec![*key as u8], Some(value.clone())));
                store.apply(&OrderedBatch { dropped: Vec::new(), changes: changes.collect() }).unwrap();
                for key in keys {
                    applied[key].store(number, Ordering::SeqCst);
                    assert_eq!(version(store.get(Space(key as u64 % 3), &[key as u8]).unwrap()), number);
                }
            }
        });
    }
}

#[derive(Clone, Debug)]
enum Action {
    Apply(Vec<(u64, u8, Option<usize>)>),
    Drop(u64),
    Get(u64, u8),
    Fail,
    SetGroup(u32, u64, usize),
    Assign(u64, u32),
    DropGroup(u32),
}

fn action() -> impl Strategy<Value = Action> {
    let value = prop_oneof![1 => Just(None), 4 => (0..300usize).prop_map(Some)];
    prop_oneof![
        6 => prop::collection::vec((0..3u64, 0..30u8, value), 0..6).prop_map(Action::Apply),
        1 => (0..3u64).prop_map(Action::Drop),
        12 => (0..3u64, 0..30u8).prop_map(|(space, key)| Action::Get(space, key)),
        1 => Just(Action::Fail),
        1 => (0..3u32, 0..6000u64, 0..4usize).prop_map(|(id, quota, policy)| Action::SetGroup(id, quota, policy)),
        1 => (0..3u64, 0..3u32).prop_map(|(space, id)| Action::Assign(space, id)),
        1 => (0..3u32).prop_map(Action::DropGroup),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        rng_seed: proptest::test_runner::RngSeed::Fixed(4),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the groups are, it reads as the store below does, and no group has more than its quota.
    #[test]
    fn it_is_the_store_below(actions in prop::collection::vec(action(), 0..120)) {
        let store = cached(3000, CachePolicy::S3Fifo);
        let mut fill = 0u8;
        for action in actions {
            match action {
                Action::Apply(changes) => {
                    let changes = changes.into_iter().map(|(space, key, bytes)| {
                        fill = fill.wrapping_add(1);
                        (Space(space), vec![key], bytes.map(|bytes| vec![fill; bytes]))
                    });
                    store.apply(&OrderedBatch { dropped: Vec::new(), changes: changes.collect() }).unwrap();
                }
                Action::Drop(space) => {
                    store.apply(&OrderedBatch { dropped: vec![Space(space)], ..OrderedBatch::default() }).unwrap();
                }
                Action::Get(space, key) => {
                    let expected = store.store().get(Space(space), &[key]).unwrap();
                    prop_assert_eq!(store.get(Space(space), &[key]).unwrap(), expected);
                }
                Action::Fail => {
                    store.store().set_full(true);
                    store.apply(&batch(&[(0, "\u{1}", Some("lost"))])).unwrap_err();
                    store.store().set_full(false);
                }
                Action::SetGroup(id, quota, policy) => store.set_group(id, settings(quota, CachePolicy::ALL[policy])),
                Action::Assign(space, id) => store.assign(Space(space), id),
                Action::DropGroup(id) => store.drop_group(id),
            }
            for id in store.groups() {
                let stats = store.cache_stats(id).unwrap();
                prop_assert!(stats.bytes <= stats.quota_bytes, "{:?}", stats);
            }
        }
        for space in 0..3 {
            for key in 0..30 {
                let expected = store.store().get(Space(space), &[key]).unwrap();
                prop_assert_eq!(store.get(Space(space), &[key]).unwrap(), expected);
            }
        }
    }
}
