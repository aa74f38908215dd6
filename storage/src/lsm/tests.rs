//! What can only be shown from inside.

use std::path::PathBuf;

use base::ordered::{OrderedBatch, OrderedRead, Space};

use super::{LsmOptions, LsmStore};

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn put(space: u64) -> OrderedBatch {
    OrderedBatch { dropped: Vec::new(), changes: vec![(Space(space), b"key".to_vec(), Some(b"value".to_vec()))].into() }
}

/// `kill -9` between the making of a space and its first batch. fjall gave the number of the deleted keyspace again, and removed
/// the new one, synced as it was, one opening later.
#[test]
fn a_space_that_was_made_for_nothing_takes_no_other_with_it() {
    let folder = Folder(std::env::temp_dir().join(format!("dictum-lsm-{}", std::process::id())));
    let open = || LsmStore::open(&folder.0, LsmOptions::default()).unwrap();
    for round in 0..4 {
        let store = open();
        store.apply(&put(0)).unwrap();
        store.shared.read(|inner| inner.space_or_new(Space(round + 1))).unwrap();
        drop(store);
        assert!(!open().spaces().contains(&Space(round + 1)));
        open().apply(&put(round + 1)).unwrap();
        let store = open();
        for space in 0..=round + 1 {
            assert_eq!(store.get(Space(space), b"key"), Ok(Some(b"value".to_vec())), "{space} in round {round}");
        }
    }
}
