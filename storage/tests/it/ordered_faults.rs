//! The disk becomes full, or fails, at any byte that the ordered store writes, and may have room again at any later one; the process goes on, or ends there.
//!
//! A child process applies numbered batches on a disk that `ordered_faults/disk.c` makes, and prints what it applied. Then its parent opens the store, where nothing
//! fails, and finds exactly the batches that the child was told were applied, or one more: one that failed may be there as a whole.
//!
//! `DICTUM_STORE_FAULTS=3000 cargo test -p storage --test it ordered_faults:: -- --nocapture` tries more often than usual, and says how far it is.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these tests are about real files and processes"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use crate::ordered_support::{Folder, Model, SMALL, apply_to_model, count_from_environment, difference};
use base::Rng;
use base::ordered::{OrderedBatch, OrderedRead, Space};
use storage::{LsmOptions, LsmStore};

const FOLDER_VARIABLE: &str = "DICTUM_STORE_FAULTS_CHILD";
const ROUND_VARIABLE: &str = "DICTUM_STORE_FAULTS_ROUND";
/// A child takes a second at most.
const PATIENCE: Duration = Duration::from_secs(120);
const FULL: i32 = 28;
const FAILED: i32 = 5;

/// The work of the child of one round.
struct Plan {
    /// Its batches are up to this long in all, in bytes: fjall begins another file of its journal behind 64 MB.
    batch_bytes: u64,
    batches: u64,
    /// See `disk.c`: bytes, refusals, and the number of the error.
    disk: Vec<(u64, u64, i32)>,
    /// It ends when it was refused so often. Before that it tries again.
    refusals_max: u64,
    options: LsmOptions,
}

fn plan(round: u64) -> Plan {
    let mut rng = Rng::new(round);
    let is_large = round.is_multiple_of(16);
    let (batch_bytes, batches) = if is_large { (150 << 20, 3) } else { (120_000, 60) };
    // About what is written in all: the journal, the tables, and what compactions write again.
    let in_all = if is_large { 5 * batch_bytes } else { 60 * batch_bytes };
    let error = if rng.chance(1, 6) { FAILED } else { FULL };
    let mut disk = vec![(rng.between(if is_large { batch_bytes } else { 0 }, in_all), 0, error)];
    while rng.chance(1, 2) {
        let most = if rng.chance(1, 2) { 300 } else { in_all / 8 };
        let some = rng.between(0, most);
        disk.push((some, 0, error));
    }
    for (_, refusals, _) in &mut disk {
        *refusals = if rng.chance(1, 2) { 1 } else { rng.between(1, 40) };
    }
    // The disk ends within a batch that has passed 64 MB, while tables of the one before are written.
    let is_aimed = is_large && rng.chance(2, 3);
    if is_aimed {
        disk = vec![(rng.between(220 << 20, 430 << 20), 1, FULL)];
    }
    let refusals_max = if is_aimed || rng.chance(1, 2) { 1 } else { rng.between(2, 100) };
    let threads = if is_aimed || rng.chance(1, 2) { 1 } else { 2 };
    Plan { batch_bytes, batches, disk, refusals_max, options: LsmOptions { threads, ..SMALL } }
}

/// Batch `number`: the number itself in space 0, and changes that follow from it in others. One of three, and of large ones each, is as long as it may be.
fn batch(round: u64, number: u64, bytes_max: u64) -> OrderedBatch {
    let mut rng = Rng::new(round << 20 | number);
    let mut changes = vec![(Space(0), b"number".to_vec(), Some(number.to_le_bytes().to_vec()))];
    let mut left = if number % 3 == 2 || bytes_max > 1 << 20 { bytes_max } else { rng.below(20_000) };
    while left > 0 {
        let space = Space(rng.between(1, 6));
        let bytes = if left > 1 << 20 { 1 << 20 } else { rng.between(1, 40_000).min(left) };
        let value = (!rng.chance(1, 8)).then(|| vec![number as u8; bytes as usize]);
        changes.push((space, rng.below(400).to_be_bytes().to_vec(), value));
        left -= bytes;
    }
    let dropped = if number % 7 == 6 { vec![Space(1 + number % 6)] } else { Vec::new() };
    OrderedBatch { dropped, changes: changes.into() }
}

fn number(store: &LsmStore) -> u64 {
    let bytes = store.get(Space(0), b"number").unwrap();
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

/// Not a test by itself: what the child does.
#[test]
#[ignore = "the child of the other test"]
fn child() {
    let (Ok(folder), Ok(round)) = (std::env::var(FOLDER_VARIABLE), std::env::var(ROUND_VARIABLE)) else { return };
    let round: u64 = round.parse().expect("a number");
    let Plan { batch_bytes, batches, refusals_max, options, .. } = plan(round);
    let mut refusals = 0;
    let store = loop {
        match LsmStore::open(&folder, options) {
            Ok(store) => break store,
            Err(error) => println!("\nnot opened: {error}"),
        }
        refusals += 1;
        if refusals >= refusals_max {
            return;
        }
    };
    let mut rng = Rng::new(!round);
    let mut next = 1;
    while next <= batches {
        // As its owner does: the batch that failed comes again.
        let done = store.apply(&batch(round, next, batch_bytes)).map(|()| {
            println!("\napplied {next}");
            next += 1;
        });
        let done = if rng.chance(1, 4) { done.and(store.sync()) } else { done };
        if let Err(error) = done {
            println!("\nrefused: {error}");
            refusals += 1;
            if refusals >= refusals_max {
                break;
            }
        }
    }
    // A process that is told to stop lives on for a while: its background threads come to an end first, if they can.
    for _ in 0..1000 {
        let stats = store.stats();
        if stats.sealed_memtables == 0 && stats.compactions_running == 0 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    if rng.chance(1, 2) {
        // Nothing is closed.
        std::process::exit(0);
    }
}

/// The library that makes the disk, compiled once.
fn disk_library() -> &'static Path {
    static LIBRARY: OnceLock<(Folder, PathBuf)> = OnceLock::new();
    let (_, path) = LIBRARY.get_or_init(|| {
        let folder = Folder::new();
        let path = folder.path().join("disk.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/ordered_faults/disk.c");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command
            .args(["-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE", "-o"])
            .arg(&path)
            .arg(source)
            .args(["-ldl", "-lpthread"]);
        let output = command.output().expect("there is a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (folder, path)
    });
    path
}

/// Runs the child of a round to its end: what it printed.
fn run(round: u64, folder: &Path) -> String {
    let disk: Vec<String> =
        plan(round).disk.iter().map(|(room, refusals, error)| format!("{room}:{refusals}:{error}")).collect();
    let mut command = Command::new(std::env::current_exe().expect("a test is a program"));
    command
        .args(["ordered_faults::child", "--exact", "--ignored", "--nocapture"])
        .env(FOLDER_VARIABLE, folder)
        .env(ROUND_VARIABLE, round.to_string())
        .env("LD_PRELOAD", disk_library())
        .env("DICTUM_DISK_FOLDER", folder)
        .env("DICTUM_DISK", disk.join(","))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("it can be started again");
    let id = child.id();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    let output = receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("round {round}: process {id} hangs"));
    let output = output.expect("it was started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "round {round}: {}\n{said}\n{errors}", output.status);
    said
}

#[test]
fn a_store_opens_after_any_write_that_failed() {
    let rounds = u64::from(count_from_environment("DICTUM_STORE_FAULTS", 48));
    let mut refused = 0;
    for round in 0..rounds {
        let folder = Folder::new();
        let path = folder.path().join("store");
        let said = run(round, &path);
        let applied = said.lines().filter_map(|line| line.strip_prefix("applied ")?.parse().ok()).max().unwrap_or(0);
        let Plan { batch_bytes, batches, options, .. } = plan(round);
        refused += usize::from(said.contains("refused") || said.contains("not opened"));
        assert!(!said.contains("damaged"), "round {round}: nothing was\n{said}");

        let open = || LsmStore::open(&path, options).unwrap_or_else(|error| panic!("round {round}: {error}\n{said}"));
        let store = open();
        let found = number(&store);
        assert!((applied..=applied + 1).contains(&found), "round {round}: {found} found, {applied} applied\n{said}");
        let mut model = Model::new();
        for number in 1..=found {
            apply_to_model(&mut model, &batch(round, number, batch_bytes));
        }
        let spaces: Vec<Space> = (0..=6).map(Space).collect();
        assert_eq!(difference(&store, &model, &spaces).unwrap(), None, "round {round}, batch {found}\n{said}");
        // And it goes on.
        for number in found + 1..=batches {
            store.apply(&batch(round, number, batch_bytes)).unwrap();
            apply_to_model(&mut model, &batch(round, number, batch_bytes));
        }
        drop(store);
        assert_eq!(difference(&open(), &model, &spaces).unwrap(), None, "round {round}, at its end\n{said}");
        fs::remove_dir_all(&path).unwrap();
        if (round + 1).is_multiple_of(100) {
            println!("{} rounds, {refused} of them with failures", round + 1);
        }
    }
    println!("{rounds} rounds, {refused} of them with failures");
    assert!(refused as u64 * 2 > rounds, "most of the disks fail before the child is done: {refused} of {rounds}");
}
