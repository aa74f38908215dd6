//! Reads beside a writer whose memtables are sealed, written, compacted and rewritten all the time.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "about threads and real files")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::ordered_support::{Folder, SMALL};
use base::Rng;
use base::ordered::{OrderedBatch, OrderedRead, Space};
use storage::LsmStore;

const KEYS: u64 = 300;
const ROUNDS: u64 = 60;
const SPACE: Space = Space(1);

/// What is under a key in a round: nothing now and then, and now and then so much that it lies beside the tables.
fn value(key: u64, round: u64) -> Option<Vec<u8>> {
    let bytes = if key.is_multiple_of(50) { SMALL.separate_from_bytes as usize } else { 200 };
    (!(key + round).is_multiple_of(7)).then(|| {
        let mut value = vec![0; bytes];
        value[..8].copy_from_slice(&round.to_le_bytes());
        value
    })
}

/// Whatever happens, those who wait for the last round go on.
struct AtEnd<'a>(&'a AtomicU64);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(ROUNDS, Ordering::SeqCst);
    }
}

#[test]
fn a_read_finds_what_was_there_when_it_began_or_later() {
    let folder = Folder::new();
    let store = LsmStore::open(folder.path(), SMALL).unwrap();
    let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let read = |seed: u64| {
        let mut rng = Rng::new(seed);
        let mut reads = 0u64;
        while done.load(Ordering::SeqCst) < ROUNDS {
            let key = rng.below(KEYS);
            let earliest = done.load(Ordering::SeqCst);
            let found = store.get(SPACE, &key.to_be_bytes()).unwrap();
            let latest = begun.load(Ordering::SeqCst);
            let fits = (earliest..=latest).any(|round| round > 0 && found == value(key, round));
            assert!(fits || earliest == 0 && found.is_none(), "key {key} between {earliest} and {latest}");
            reads += 1;
        }
        reads
    };
    thread::scope(|scope| {
        let _at_end = AtEnd(&done);
        let readers: Vec<_> = (0..2).map(|seed| scope.spawn(move || read(seed))).collect();
        scope.spawn(|| {
            while done.load(Ordering::SeqCst) < ROUNDS {
                store.tidy().unwrap();
            }
        });
        for round in 1..=ROUNDS {
            begun.store(round, Ordering::SeqCst);
            let changes = (0..KEYS).map(|key| (SPACE, key.to_be_bytes().to_vec(), value(key, round)));
            store.apply(&OrderedBatch { dropped: Vec::new(), changes: changes.collect::<Vec<_>>().into() }).unwrap();
            done.store(round, Ordering::SeqCst);
        }
        let reads: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(reads > 0);
    });
    assert!(store.stats().compactions_done > 0, "nothing was compacted: {:?}", store.stats());
    for key in 0..KEYS {
        assert_eq!(store.get(SPACE, &key.to_be_bytes()).unwrap(), value(key, ROUNDS), "key {key}");
    }
}
