//! The budget of entries: past it an entry has done nothing, wherever it was stopped, and every replica stops it at the same unit.

use crate::transcript::{START_MS, pages, split};
use base::versions::{NEWEST, OLDEST};
use base::{Rng, WallTime};
use data::{EntryContext, Reply, Tree, View, apply, apply_once, apply_transaction, check, read};
use std::sync::Arc;

fn context(time: WallTime, work_max: u64) -> EntryContext {
    EntryContext { time, seed: 1, version: NEWEST, work_max, names_events: true, ..EntryContext::default() }
}

fn is_refusal(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(failure) if failure.to_string().starts_with("BUDGET "))
}

/// A state above a store, flushed now and then, as replicas have one each; none flushes when another one does.
fn flushed(tree: Tree, rng: &mut Rng, stores: &Arc<storage::MemoryStore>, spaces: &mut u64) -> Tree {
    let mut tree = tree;
    if rng.below(3) == 0 {
        let next = || {
            *spaces += 1;
            base::ordered::Space(*spaces)
        };
        if let Some(flush) = tree.begin_flush(next) {
            let mut batch = base::ordered::OrderedBatch::default();
            flush.write(&mut batch).unwrap();
            stores.apply(&batch).expect("a store in memory takes all");
            tree.end_flush();
        }
    }
    tree
}

/// Every command of every page, stopped at many units.
#[test]
fn a_command_that_is_stopped_has_done_nothing() {
    let mut rng = Rng::new(3);
    let (mut stopped, mut commands) = (0, 0);
    for (name, _, page) in pages() {
        let (mut tree, mut above, mut inside) = (Tree::new(), Tree::new(), false);
        let (mut store, mut spaces) = (Arc::new(storage::MemoryStore::new()), 0);
        let mut clock = WallTime(START_MS);
        for line in page.lines() {
            if line.starts_with("```") {
                inside = !inside && line == "```dictum";
                tree = Tree::new();
                store = Arc::new(storage::MemoryStore::new());
                above = Tree::new().over(store.clone());
                clock = WallTime(START_MS);
                continue;
            }
            let Some(command) = line.strip_prefix("> ").filter(|_| inside) else { continue };
            let words = split(command);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let Ok(entry) = check(&words) else { continue };
            commands += 1;
            clock.0 += 1;
            if !entry.is_write() {
                let view = View::new(&tree, clock, 1).with_work_max(u64::MAX);
                let full = read(&view, &words);
                let spent = tree.meter().spent();
                for limit in [0, spent / 2, spent.saturating_sub(1)] {
                    let reply = read(&View::new(&tree, clock, 1).with_work_max(limit), &words);
                    assert!(is_refusal(&reply) || spent <= limit, "{name}: {command} at {limit} of {spent}");
                }
                assert_eq!(read(&View::new(&tree, clock, 1).with_work_max(spent), &words), full, "{name}: {command}");
                assert_eq!(read(&View::new(&above, clock, 1), &words), full, "{name}: {command}");
                assert_eq!(above.meter().spent(), spent, "{name}: {command}: above a store");
                continue;
            }
            let mut full = tree.clone();
            let applied = apply(&mut full, &context(clock, u64::MAX), &words);
            let spent = full.meter().spent();
            // What a refused entry leaves: its time, and nothing else.
            let mut untouched = tree.clone();
            let _ = apply(&mut untouched, &context(clock, u64::MAX), &[b"no such command"]);
            if words[0].eq_ignore_ascii_case(b"EVAL") {
                // The script is kept whatever comes of it, as in Redis.
                apply(&mut untouched, &context(clock, u64::MAX), &[b"SCRIPT", b"LOAD", words[1]]);
            }
            let before = untouched.digest();
            for limit in [0, 1, spent / 3, spent / 2, spent.saturating_sub(1), rng.below(spent + 1)] {
                let mut limited = tree.clone();
                let outcome = apply(&mut limited, &context(clock, limit), &words);
                if is_refusal(&outcome.reply) {
                    stopped += 1;
                    assert!(spent > limit, "{name}: {command} at {limit} of {spent}");
                    assert!(outcome.changes.is_empty() && outcome.events.is_empty() && outcome.published.is_empty());
                    assert_eq!(limited.digest(), before, "{name}: {command} at {limit} of {spent}");
                } else {
                    assert_eq!(outcome, applied, "{name}: {command} at {limit} of {spent}");
                }
                // An entry of an earlier version has no budget.
                let mut earlier = tree.clone();
                let context = EntryContext { version: OLDEST, ..context(clock, limit) };
                assert!(!is_refusal(&apply(&mut earlier, &context, &words).reply), "{name}: {command}");
            }
            let mut exact = tree.clone();
            assert_eq!(apply(&mut exact, &context(clock, spent), &words), applied, "{name}: {command} at {spent}");
            assert_eq!(exact.digest(), full.digest(), "{name}: {command}");
            tree = full;
            assert_eq!(apply(&mut above, &context(clock, u64::MAX), &words), applied, "{name}: {command}");
            assert_eq!(above.meter().spent(), spent, "{name}: {command}: above a store");
            above = flushed(above, &mut rng, &store, &mut spaces);
        }
    }
    assert!(commands > 1000 && stopped > 1000, "{stopped} of {commands} commands were stopped");
}

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

#[test]
fn a_transaction_is_stopped_as_a_whole() {
    let mut tree = Tree::new();
    let clock = WallTime(START_MS);
    for member in 0..1000 {
        apply(&mut tree, &context(clock, u64::MAX), &words(&format!("SADD s m{member}")));
    }
    let before = tree.digest();
    let lines = ["SET k v", "EVAL return(redis.call('SET','l','w')) 0", "SUNIONSTORE t s s", "INCR n"];
    let commands: Vec<Vec<&[u8]>> = lines.iter().map(|line| words(line)).collect();
    let commands: Vec<&[&[u8]]> = commands.iter().map(Vec::as_slice).collect();
    let applied = apply_transaction(&mut tree, &context(clock, 30_000), &[], &commands);
    assert!(is_refusal(&applied.reply), "{:?}", applied.reply);
    assert!(applied.changes.is_empty());
    assert_eq!(tree.digest(), before);
    let applied = apply_transaction(&mut tree, &context(clock, 1_000_000), &[], &commands);
    assert!(matches!(&applied.reply, Reply::Array(replies) if replies.len() == 4), "{:?}", applied.reply);
    assert_eq!(read(&View::new(&tree, clock, 1), &words("GET l")), Reply::bulk("w"));
}

#[test]
fn the_answers_of_a_transaction_have_a_bound_together() {
    let mut tree = Tree::new();
    let clock = WallTime(START_MS);
    apply(&mut tree, &context(clock, u64::MAX), &[b"SET", b"k", &vec![b'x'; 1024 * 1024]]);
    let before = tree.digest();
    let (set, get) = (words("SET other 1"), words("GET k"));
    let commands: Vec<&[&[u8]]> = std::iter::once(&set[..]).chain(std::iter::repeat_n(&get[..], 2000)).collect();
    let applied = apply_transaction(&mut tree, &context(clock, u64::MAX), &[], &commands);
    assert!(is_refusal(&applied.reply));
    assert_eq!(tree.digest(), before);
    let applied = apply_transaction(&mut tree, &context(clock, u64::MAX), &[], &commands[..50]);
    assert!(!is_refusal(&applied.reply), "fifty MiB are allowed");
}

#[test]
fn a_script_that_costs_too_much_by_its_calls_has_done_nothing() {
    let mut tree = Tree::new();
    let clock = WallTime(START_MS);
    for member in 0..1000 {
        apply(&mut tree, &context(clock, u64::MAX), &words(&format!("SADD s m{member}")));
    }
    let script =
        b"redis.call('SET', 'k', 'v') for i = 1, 100 do redis.pcall('SINTERSTORE', 't', 's', 's') end return 1";
    let eval: [&[u8]; 3] = [b"EVAL", script, b"0"];
    let mut untouched = tree.clone();
    apply(&mut untouched, &context(clock, u64::MAX), &[b"SCRIPT", b"LOAD", script]);
    let applied = apply(&mut tree, &context(clock, 1_000_000), &eval);
    assert!(is_refusal(&applied.reply), "{:?}", applied.reply);
    assert!(applied.changes.is_empty());
    for key in ["k", "t"] {
        assert_eq!(read(&View::new(&tree, clock, 1), &[b"EXISTS", key.as_bytes()]), Reply::Integer(0));
    }
    let applied = apply_once(&mut tree, &context(clock, 1_000_000), b"id", &eval);
    assert!(is_refusal(&applied.reply), "a retry by its identifier finds the same");
}
