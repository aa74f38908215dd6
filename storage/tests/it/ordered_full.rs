//! A disk that becomes full under the ordered store, and gets room again.
//!
//! It is a real one: a tmpfs of a few megabytes, mounted by `unshare` in a name space of its own, in which this test runs once more. Where
//! that is not allowed (no user name spaces and not root) the test says so and is skipped.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "these tests are about real files")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::ordered_support::{Folder, Model, SMALL, apply_to_model, difference, put};
use base::ordered::{OrderedBatch, OrderedError, OrderedRead, Space};
use storage::{LsmOptions, LsmStore};

const INSIDE: &str = "DICTUM_TEST_SMALL_DISK";
/// `sh` ends with this when the file system cannot be mounted.
const CANNOT_MOUNT: i32 = 77;

/// The folder of the small file system if this process runs on one; otherwise runs `test` again in a process that does.
/// Tests are named as the harness names them, with their module.
fn on_a_small_disk(test: &str, megabytes: u32) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return Some(folder.into());
    }
    let folder = Folder::new();
    let script = format!("mount -t tmpfs -o size={megabytes}m tmpfs \"$1\" || exit {CANNOT_MOUNT}; shift; exec \"$@\"");
    let child = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().expect("this is a program"))
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, folder.path())
        .output();
    if let Ok(output) = &child {
        println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    }
    match child.as_ref().map(|output| output.status.code()) {
        // A name that fits no test would pass as well.
        Ok(Some(0)) => {
            let output = child.expect("it has ended");
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "there is no test {test}");
        }
        // `unshare` itself ends with 1 when it may not; so does a failed test, but with 101.
        Ok(Some(1 | CANNOT_MOUNT)) | Err(_) => {
            // `eprintln!` of a test that passes is shown to nobody.
            let _ = writeln!(std::io::stderr(), "{test}: skipped: no small file system can be mounted here");
        }
        Ok(code) => panic!("{test} failed on the small file system: {code:?}"),
    }
    None
}

fn batch(number: u64) -> OrderedBatch {
    let changes = (0..20u64).map(|key| {
        let value = (number * 20 + key).to_le_bytes().repeat(100);
        (Space(1 + key % 2), (number * 7 % 900 + key).to_be_bytes().to_vec(), Some(value))
    });
    let mark = (Space(0), b"number".to_vec(), Some(number.to_le_bytes().to_vec()));
    OrderedBatch { dropped: Vec::new(), changes: changes.chain([mark]).collect() }
}

/// Sets it when the test ends, also by a panic.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether an error is one of a full disk, as far as can be known: the background may have failed, and there may be room again since.
fn may_be_full(error: &OrderedError) -> bool {
    error.full || error.text.contains("background")
}

/// Applies batches until one fails.
fn fill(store: &LsmStore, model: &mut Model, number: &mut u64) -> OrderedError {
    loop {
        *number += 1;
        let batch = batch(*number);
        if let Err(error) = store.apply(&batch) {
            return error;
        }
        apply_to_model(model, &batch);
    }
}

/// Takes what room there is on the file system but for about `left` bytes.
fn take_room(folder: &Path, name: &str, left: usize) -> PathBuf {
    use std::io::Write;
    let path = folder.join(name);
    let mut file = fs::File::create(&path).unwrap();
    let chunk = vec![1; 64 << 10];
    while file.write_all(&chunk).is_ok() {}
    let taken = file.metadata().unwrap().len();
    file.set_len(taken.saturating_sub(left as u64)).unwrap();
    path
}

#[test]
fn a_store_comes_back_by_itself_after_a_full_disk() {
    let Some(folder) = on_a_small_disk("ordered_full::a_store_comes_back_by_itself_after_a_full_disk", 48) else {
        return;
    };
    let store = LsmStore::open(folder.join("store"), SMALL).unwrap();
    let mut model = Model::new();
    let mut number = 0;
    while number < 50 {
        number += 1;
        store.apply(&batch(number)).unwrap();
        apply_to_model(&mut model, &batch(number));
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (store, done) = (&store, &done);
        let _at_end = AtEnd(done);
        // Whatever happens, readers read: nothing older than they have read, and no error.
        for _ in 0..2 {
            scope.spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let found =
                        store.get(Space(0), b"number").expect("it can be read all the time").expect("it is there");
                    let found = u64::from_le_bytes(found.try_into().unwrap());
                    assert!(found >= last, "{found} after {last}");
                    last = found;
                }
            });
        }
        for round in 0..6 {
            // Now with much room and then with little left for the batch that fails.
            let ballast = take_room(&folder, "ballast", [3 << 20, 100_000, 0][round % 3]);
            let error = fill(store, &mut model, &mut number);
            assert!(may_be_full(&error), "round {round}: {error}");
            // As long as the disk is full nothing changes.
            let rest = take_room(&folder, "rest", 0);
            let again = store.apply(&put(1, "a", "b")).unwrap_err();
            assert!(again.full && again.text.contains("room"), "round {round}: {again}");
            assert!(store.sync().unwrap_err().full);
            let view = store.freeze();
            fs::remove_file(ballast).unwrap();
            fs::remove_file(rest).unwrap();

            // The frozen view is waited for, and stays what it was.
            let waiting = store.apply(&put(1, "a", "b")).unwrap_err();
            assert!(waiting.full && waiting.text.contains("frozen"), "round {round}: {waiting}");
            let only_known = |model: &Model| difference(&*view, model, &[]).unwrap();
            assert_eq!(only_known(&model), None, "round {round}");
            drop(view);

            // The batch that failed comes again, as it does from its owner; whether it had been applied shows in nothing.
            store.apply(&batch(number)).unwrap_or_else(|error| panic!("round {round}: {error}"));
            apply_to_model(&mut model, &batch(number));
            assert_eq!(difference(store, &model, &[]).unwrap(), None, "round {round}");
            if round % 2 == 0 {
                store.sync().unwrap();
            }
        }
    });
    drop(store);
    let store = LsmStore::open(folder.join("store"), SMALL).unwrap();
    assert_eq!(difference(&store, &model, &[]).unwrap(), None);
}

/// The background finds the disk full while it writes tables, or the writer does; whichever it is, it ends well.
#[test]
fn room_that_comes_back_at_once_is_enough() {
    let Some(folder) = on_a_small_disk("ordered_full::room_that_comes_back_at_once_is_enough", 64) else { return };
    let options = LsmOptions { memtable_bytes: 1 << 20, ..SMALL };
    let store = LsmStore::open(folder.join("store"), options).unwrap();
    let mut model = Model::new();
    let mut number = 0;
    for round in 0..10usize {
        let ballast = take_room(&folder, "ballast", round * 300_000);
        let error = fill(&store, &mut model, &mut number);
        assert!(may_be_full(&error), "{error}");
        fs::remove_file(ballast).unwrap();
        store.apply(&batch(number)).unwrap_or_else(|error| panic!("round {round}: {error}"));
        apply_to_model(&mut model, &batch(number));
        // Dropping makes all before it durable.
        let dropped = OrderedBatch { dropped: vec![Space(2)], ..OrderedBatch::default() };
        store.apply(&dropped).unwrap();
        apply_to_model(&mut model, &dropped);
        assert_eq!(difference(&store, &model, &[Space(2)]).unwrap(), None, "round {round}");
    }
}
