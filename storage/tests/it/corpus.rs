//! Files of a node as the fuzzer sees them: the fixtures and seeded mutations of them never make a reader panic.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read files")]

use std::fs;
use std::path::Path;

use base::Rng;
use bytes::Bytes;

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures").join(name)).unwrap()
}

fn mutations(original: &[u8], seed: u64, count: u64, mut look: impl FnMut(&[u8])) {
    let mut rng = Rng::new(seed);
    for _ in 0..count {
        let mut bytes = original.to_vec();
        for _ in 0..rng.between(1, 6) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(4) {
                0 => bytes[at] ^= 1 << rng.below(8),
                1 => {
                    let end = bytes.len().min(at + 8);
                    bytes[at..end].fill(0xff);
                }
                2 => bytes.truncate(at.max(1)),
                _ => {
                    let end = bytes.len().min(at + rng.below(5000) as usize);
                    bytes[at..end].fill(0);
                }
            }
        }
        look(&bytes);
    }
}

#[test]
fn damaged_journals_are_read_without_a_panic() {
    let (first, second) = (fixture("journal-0000000000000001-00000005"), fixture("journal-0000000000000002-00000005"));
    let whole = storage::journal::decode(&[&first, &second]);
    assert!(!whole.payloads.is_empty(), "the fixture itself is read");
    mutations(&first, 1, 2000, |bytes| {
        let _ = storage::journal::decode(&[bytes, &second]);
    });
    mutations(&second, 2, 2000, |bytes| {
        let _ = storage::journal::decode(&[&first, bytes]);
    });
}

#[test]
fn damaged_snapshots_are_read_without_a_panic() {
    let good = fixture("snapshot-00000001-0002-00000000000003e8");
    assert!(storage::snapshot::decode(Bytes::from(good.clone())).is_ok(), "the fixture itself is read");
    let mut refused = 0;
    mutations(&good, 3, 5000, |bytes| {
        refused += u64::from(storage::snapshot::decode(Bytes::copy_from_slice(bytes)).is_err());
    });
    assert!(refused > 4000, "damage is noticed");
}
