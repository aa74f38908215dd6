//! `kill -9` at random points: a child process writes numbered batches and prints what it synced; what is found afterwards is
//! exactly the first so many batches, and not fewer than were synced.
//!
//! `DICTUM_STORE_KILLS=3000 cargo test -p storage --test it ordered_kills:: -- --nocapture` kills more often than usual, and says how far it is.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these tests are about real files and processes"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::ordered_support::{Folder, Model, SMALL, apply_to_model, count_from_environment, difference, load};
use base::Rng;
use base::ordered::{OrderedBatch, OrderedRead, Space};
use storage::LsmStore;

/// Names the folder to write to, for the child.
const FOLDER_VARIABLE: &str = "DICTUM_STORE_CHILD";
/// A space that is made and dropped again lives for so many batches.
const GENERATION: u64 = 64;
/// The first of the spaces that are loaded, one in each generation.
const LOADED: u64 = 1 << 40;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

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
    let mut dropped = if number.is_multiple_of(GENERATION) { vec![Space(passing.0 - 1)] } else { Vec::new() };
    // The one before this generation's.
    dropped.extend(load_before(number).map(|(space, _)| Space(space.0 - 1)));
    if number % 64 == 40
        && let Some((space, _)) = load_before(number - 8)
    {
        changes.push((space, b"after the load".to_vec(), Some(number.to_le_bytes().to_vec())));
    }
    OrderedBatch { dropped, changes: changes.into() }
}

/// What is loaded before batch `number`, if it is one before which something is.
fn load_before(number: u64) -> Option<(Space, Pairs)> {
    (number % GENERATION == GENERATION / 2).then(|| {
        let mut rng = Rng::new(number ^ LOADED);
        let mut pair = |key: u64| (key.to_be_bytes().to_vec(), vec![key as u8; rng.between(0, 500) as usize]);
        (Space(LOADED + number / GENERATION), (0..number % 1000).map(&mut pair).collect())
    })
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
        if let Some((space, pairs)) = load_before(number) {
            // It may have been loaded, or begun, by the child before.
            if store.spaces().contains(&space) {
                store.apply(&OrderedBatch { dropped: vec![space], ..OrderedBatch::default() }).unwrap();
            }
            load(&store, space, &pairs, || println!("loading")).unwrap();
        }
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
        .args(["ordered_kills::child", "--exact", "--ignored", "--nocapture"])
        .env(FOLDER_VARIABLE, folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started again")
}

/// Reads what the child prints, up to `lines` lines, then kills it, and reads what it printed until then. Gives the last numbers
/// that it said were synced and applied.
fn run_and_kill(folder: &Path, lines: u64) -> (u64, u64) {
    let mut child = start_child(folder);
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    let (mut synced, mut applied) = (0, 0);
    let mut line = String::new();
    let mut count = 0;
    loop {
        line.clear();
        if output.read_line(&mut line).unwrap() == 0 {
            break;
        }
        // A line that the kill cut off says nothing.
        let number = |word: &str| line.strip_prefix(word)?.strip_suffix('\n')?.parse::<u64>().ok();
        synced = number("synced ").unwrap_or(synced);
        applied = number("applied ").unwrap_or(applied).max(synced);
        let of_the_child = ["opening", "loading", "applied", "synced"].iter().any(|word| line.starts_with(word));
        count += u64::from(of_the_child);
        if of_the_child && count == lines {
            child.kill().expect("it runs");
        }
    }
    let status = child.wait().unwrap();
    assert!(count >= lines && !status.success(), "the child ended by itself: {status}");
    (synced, applied)
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
    // That were cut off, and that were just done.
    let mut loads = [0, 0];
    for round in 0..kills {
        // 1: while it opens.
        let lines = if rng.chance(1, 5) { 1 } else { rng.between(2, 250) };
        let (synced, applied) = run_and_kill(&path, lines);
        let store = LsmStore::open(&path, SMALL).unwrap();
        let found = number(&store);
        assert!(found >= synced.max(reached), "round {round}: {found} found, {synced} synced, {reached} before");
        // Those that were not synced need not be there.
        if found < applied {
            lost += applied - found;
            rounds_with_loss += 1;
        }
        for number in reached + 1..=found {
            model.extend(load_before(number));
            apply_to_model(&mut model, &batch(number));
        }
        reached = found;
        let mut spaces = store.spaces();
        if let Some((space, pairs)) = load_before(found + 1)
            && spaces.contains(&space)
        {
            // Whether it was whole when the child ended is not known; that it is not half there, is.
            let whole = BTreeMap::from([(space, pairs)]);
            let is = |model: &Model| difference(&store, model, &[space]).unwrap().is_none();
            loads[usize::from(is(&whole))] += 1;
            assert!(is(&whole) || is(&Model::new()), "round {round}: a load is there in part");
            spaces.retain(|other| *other != space);
        }
        assert_eq!(difference(&store, &model, &spaces).unwrap(), None, "round {round}, batch {found}");
        let passing = 100 + found / GENERATION;
        assert!(
            spaces.iter().all(|space| space.0 < 4 || space.0 == passing || model.contains_key(space)),
            "{spaces:?} at {found}"
        );
        if (round + 1).is_multiple_of(100) {
            println!("{} kills, {reached} batches", round + 1);
        }
    }
    println!(
        "{kills} kills, {reached} batches, {lost} unsynced ones lost in {rounds_with_loss} rounds; loads cut off and done: {loads:?}"
    );
    assert!(reached > u64::from(kills), "it gets on");
}
