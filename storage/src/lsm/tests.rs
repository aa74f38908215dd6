//! What can only be shown from inside.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use base::ordered::{OrderedBatch, OrderedRead, Space};
use fjall::AbstractTree;

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

/// fjall syncs each new list of tables under the lock that its reads take, and a node reads on its own loop.
#[test]
fn a_read_does_not_wait_for_a_new_list_of_tables() {
    let folder = Folder(std::env::temp_dir().join(format!("dictum-lsm-reads-{}", std::process::id())));
    let store = LsmStore::open(&folder.0, LsmOptions::default()).unwrap();
    store.apply(&put(1)).unwrap();
    store.flush().unwrap();
    store.apply(&put(1)).unwrap();
    let handle = store.shared.read(|inner| Ok(inner.space(Space(1)))).unwrap().unwrap();
    // As if fjall were in the middle of it.
    let listing = handle.keyspace.tree.get_version_history_lock();
    let reading = store.clone();
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || {
        let found = reading.get(Space(1), b"key");
        let missed = reading.get(Space(1), b"other");
        sender.send((found, missed)).unwrap();
    });
    let read = receiver.recv_timeout(Duration::from_secs(20));
    drop(listing);
    reader.join().unwrap();
    assert_eq!(read, Ok((Ok(Some(b"value".to_vec())), Ok(None))));
}
