//! `kill -9` at random points: a child process writes numbered batches and prints what it synced; what is found afterwards is
//! exactly the first so many batches, and not fewer than were synced.
//!
//! `DICTUM_STORE_KILLS=3000 cargo test -p storage --test ordered_kills -- --nocapture` kills more often than usual, and says how far it is.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these tests are about real files and processes"
)]

mod ordered_support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base::Rng;
use base::ordered::{OrderedBatch, OrderedRead, Space};
use ordered_support::{Folder, Model, SMALL, apply_to_model, count_from_environment, difference};
use storage::LsmStore;

/// Names the folder to write to, for the child.
const FOLDER_VARIABLE: &str = "DICTUM_STORE_CHILD";
/// A space that is made and dropped again lives for so many batches.
const GENERATION: u64 = 64;

/// Batch `number`: the number itself in space 0, and changes that follow from it in others.
fn batch(number: u64) -> OrderedBatch {
    let mut rng = Rng::new(number);
    let mut changes = vec![(Space(0), b"number".to_vec(), Some(number.to_le_bytes().to_vec()))];
    let passing = Space(100 + number / GENERATION);
    for _ in 0..rng.between(1, 20) {
        let space = if rng.chance(1, 4) { passing } else { Space(rng.between(1, 3)) };
        let key = rng.below(300).to_be_bytes().to_vec();
        let bytes = if rng.chance(1, 60) { rng.between(10_000, 50_000) } else { rng.between(0, 600) };
        let value = (!rng.chance(1, 6)).then(|| vec![number as u8; bytes as usize]);
        changes.push((space, key, value));
    }
    let dropped = if number.is_multiple_of(GENERATION) { vec![Space(passing.0 - 1)] } else { Vec::new() };
    OrderedBatch { dropped, changes: changes.into() }
}

fn number(store: &LsmStore) -> u64 {
    let bytes = store.get(Space(0), b"number").unwrap();
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

/// Not a test by itself: what the child does until it is killed.
#[test]
#[ignore = "the child of the other test"]
fn child() {
    let Ok(folder) = std::env::var(FOLDER_VARIABLE) else { return };
    println!("\nopening");
    let store = LsmStore::open(folder, SMALL).unwrap();
    for number in number(&store) + 1.. {
        store.apply(&batch(number)).unwrap();
        if Rng::new(!number).chance(1, 8) {
            store.sync().unwrap();
            println!("synced {number}");
        } else {
            println!("applied {number}");
        }
    }
}

fn start_child(folder: &Path) -> Child {
    Command::new(std::env::current_exe().expect("a test is a program"))
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(FOLDER_VARIABLE, folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started again")
}

/// Reads what the child prints, up to `lines` lines, then kills it, and reads what it printed until then. Gives the last number
/// that it said was synced.
fn run_and_kill(folder: &Path, lines: u64) -> u64 {
    let mut child = start_child(folder);
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut synced = 0;
    let mut line = String::new();
    let mut count = 0;
    loop {
        line.clear();
        if output.read_line(&mut line).unwrap() == 0 {
            break;
        }
        // A line that the kill cut off says nothing.
        if let Some(number) = line.strip_prefix("synced ").and_then(|number| number.strip_suffix('\n')) {
            synced = number.parse().unwrap();
        }
        let of_the_child = ["opening", "applied", "synced"].iter().any(|word| line.starts_with(word));
        count += u64::from(of_the_child);
        if of_the_child && count == lines {
            child.kill().expect("it runs");
        }
    }
    let status = child.wait().unwrap();
    assert!(count >= lines && !status.success(), "the child ended by itself: {status}");
    synced
}

#[test]
fn nothing_synced_is_lost_and_nothing_invented() {
    let kills = count_from_environment("DICTUM_STORE_KILLS", 20);
    let folder = Folder::new();
    let path = folder.path().join("store");
    let mut rng = Rng::new(u64::from(kills));
    let mut model = Model::new();
    let mut reached = 0;
    let (mut lost, mut rounds_with_loss) = (0, 0);
    for round in 0..kills {
        // 1: while it opens.
        let lines = if rng.chance(1, 5) { 1 } else { rng.between(2, 250) };
        let synced = run_and_kill(&path, lines);
        let store = LsmStore::open(&path, SMALL).unwrap();
        let found = number(&store);
        assert!(found >= synced.max(reached), "round {round}: {found} found, {synced} synced, {reached} before");
        // The child had said `applied` for so many; none of them need be there.
        let applied = reached + lines - 1;
        if found < applied {
            lost += applied - found;
            rounds_with_loss += 1;
        }
        for number in reached + 1..=found {
            apply_to_model(&mut model, &batch(number));
        }
        reached = found;
        let spaces = store.spaces();
        assert_eq!(difference(&store, &model, &spaces).unwrap(), None, "round {round}, batch {found}");
        let passing = 100 + found / GENERATION;
        assert!(spaces.iter().all(|space| space.0 < 4 || space.0 == passing), "{spaces:?} at {found}");
        if (round + 1).is_multiple_of(100) {
            println!("{} kills, {reached} batches", round + 1);
        }
    }
    println!("{kills} kills, {reached} batches, {lost} unsynced ones lost in {rounds_with_loss} rounds");
    assert!(reached > u64::from(kills), "it gets on");
}
