//! Fields and members that are longer than a store's keys: as in a Redis, in memory, over a store, and after every way that a state goes.

use base::limits::{KEY_BYTES_MAX, LONG_NAMES_REMOVED_MAX};
use base::ordered::{OrderedBatch, OrderedRead, Space};
use base::versions::{Feature, NEWEST};
use base::{Rng, WallTime};
use data::{
    Applied, EntryContext, Failure, Reply, Restored, Restorer, StoreRestorer, Tally, Tree, View, apply, expire_due,
    read,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use storage::MemoryStore;

fn at(time: u64) -> EntryContext {
    EntryContext { time: WallTime(time), seed: time, version: NEWEST, ..EntryContext::default() }
}

fn run(tree: &mut Tree, time: u64, words: &[&[u8]]) -> Reply {
    apply(tree, &at(time), words).reply
}

/// Names that begin alike, around every length at which something changes.
fn names() -> Vec<Vec<u8>> {
    let stems = [
        10,
        KEY_BYTES_MAX - 16,
        KEY_BYTES_MAX,
        KEY_BYTES_MAX + 48,
        KEY_BYTES_MAX + 200,
        2 * KEY_BYTES_MAX + 48,
        100_000,
    ];
    let ends = ["", "a", "b", "\0", "\u{7f}z"];
    stems.iter().flat_map(|stem| ends.map(|end| [&vec![b'n'; *stem], end.as_bytes()].concat())).collect()
}

/// A tree over a store, as a replica has one.
struct Stored {
    store: MemoryStore,
    tree: Tree,
    next_space: u64,
    head: Option<Vec<u8>>,
}

impl Stored {
    fn new() -> Stored {
        let store = MemoryStore::new();
        let tree = Tree::new().over(Arc::new(store.clone()));
        Stored { store, tree, next_space: 0, head: None }
    }

    fn space(&mut self) -> Space {
        self.next_space += 1;
        Space(self.next_space)
    }

    fn flush(&mut self) {
        let next = &mut self.next_space;
        let flush = self.tree.begin_flush(|| {
            *next += 1;
            Space(*next)
        });
        let flush = flush.expect("none is under way");
        self.head = Some(flush.head().to_vec());
        let mut batch = OrderedBatch::default();
        flush.write(&mut batch).expect("the store is read");
        self.store.apply(&batch).expect("no key is too long");
        self.tree.end_flush();
    }

    /// Ends, and begins again with what is in the store.
    fn restart(&mut self) {
        self.flush();
        let head = self.head.clone().expect("it was flushed");
        self.tree = Tree::open(Arc::new(self.store.clone()), &head).expect("it is whole");
    }

    /// Goes as blocks to a new store.
    fn moves(&mut self) {
        let spaces = std::array::from_fn(|_| self.space());
        let (mut image, mut restorer) = (self.tree.image().with_block_bytes(70_000), StoreRestorer::new(spaces));
        let [mut records, mut elements] =
            restorer.sorted_spaces().map(|space| self.store.load(space).expect("it is new"));
        let mut block = Vec::new();
        while image.next_block(&mut block) {
            let mut restored = Restored::default();
            restorer.push_block(&block, &mut restored).expect("it is well formed");
            block.clear();
            records.push(&restored.records).expect("it ascends");
            elements.push(&restored.elements).expect("it ascends");
            self.store.apply(&restored.batch).expect("no key is too long");
        }
        records.finish().expect("there is room");
        elements.finish().expect("there is room");
        let head = restorer.finish().expect("it is whole");
        self.tree = Tree::open(Arc::new(self.store.clone()), &head).expect("it is whole");
        self.head = Some(head);
    }
}

fn restored(tree: &Tree) -> Tree {
    let (mut image, mut restorer, mut block) = (tree.image(), Restorer::new(), Vec::new());
    while image.next_block(&mut block) {
        restorer.push_block(&block).expect("it is well formed");
        block.clear();
    }
    restorer.finish().expect("it is whole")
}

fn check(tree: &Tree) {
    assert_eq!(tree.trouble(), None);
    let mut tally = Tally::default();
    tree.records(Bound::Unbounded).for_each(|(_, record)| tally.say(&record.value));
    tree.check_elements(tally, &mut |_| ()).expect("elements and records say the same");
}

/// What there should be.
#[derive(Default)]
struct Model {
    hash: BTreeMap<Vec<u8>, Vec<u8>>,
    set: BTreeSet<Vec<u8>>,
    sorted: BTreeMap<Vec<u8>, i64>,
}

impl Model {
    fn ranked(&self) -> Vec<(i64, &Vec<u8>)> {
        let mut ranked: Vec<(i64, &Vec<u8>)> = self.sorted.iter().map(|(name, score)| (*score, name)).collect();
        ranked.sort_unstable();
        ranked
    }
}

fn bulk(bytes: &[u8]) -> Reply {
    Reply::bulk(bytes)
}

/// One command on the model and on the trees.
fn step(rng: &mut Rng, names: &[Vec<u8>], model: &mut Model, trees: [&mut Tree; 2], time: u64) {
    let name = rng.pick(names).clone();
    let number = rng.below(4) as i64;
    let text = number.to_string();
    let text = text.as_bytes();
    let name = name.as_slice();
    let (words, expected): (Vec<&[u8]>, Reply) = match rng.below(14) {
        0..2 => {
            let is_new = model.hash.insert(name.to_vec(), text.to_vec()).is_none();
            (vec![b"HSET", b"h", name, text], Reply::Integer(is_new.into()))
        }
        2 => (vec![b"HDEL", b"h", name], Reply::Integer(model.hash.remove(name).is_some().into())),
        3 => (vec![b"HGET", b"h", name], model.hash.get(name).map_or(Reply::Nil, |value| bulk(value))),
        4 => (vec![b"SADD", b"s", name], Reply::Integer(model.set.insert(name.to_vec()).into())),
        5 => (vec![b"SREM", b"s", name], Reply::Integer(model.set.remove(name).into())),
        6 => (vec![b"SISMEMBER", b"s", name], Reply::Integer(model.set.contains(name).into())),
        7..10 => {
            let is_new = model.sorted.insert(name.to_vec(), number).is_none();
            (vec![b"ZADD", b"z", text, name], Reply::Integer(is_new.into()))
        }
        10 => (vec![b"ZREM", b"z", name], Reply::Integer(model.sorted.remove(name).is_some().into())),
        11 => {
            let rank = model.ranked().iter().position(|(_, other)| *other == name);
            (vec![b"ZRANK", b"z", name], rank.map_or(Reply::Nil, |rank| Reply::Integer(rank as i64)))
        }
        12 => {
            let below = model.sorted.values().filter(|score| **score <= number).count();
            (vec![b"ZCOUNT", b"z", b"-inf", text], Reply::Integer(below as i64))
        }
        _ => {
            let behind: Vec<Reply> =
                model.ranked().iter().skip(number as usize * 5).take(3).map(|(_, name)| bulk(name)).collect();
            let (from, to) = (number * 5, number * 5 + 2);
            let words = [b"ZRANGE".to_vec(), b"z".to_vec(), from.to_string().into(), to.to_string().into()];
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            for tree in trees {
                assert_eq!(run(tree, time, &words), Reply::Array(behind.clone()));
            }
            return;
        }
    };
    for tree in trees {
        assert_eq!(run(tree, time, &words), expected, "{} of {} bytes", words[0].escape_ascii(), name.len());
    }
}

#[test]
fn long_names_are_what_short_ones_are() {
    let names = names();
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let (mut memory, mut stored, mut model) = (Tree::new(), Stored::new(), Model::default());
        for round in 0..250 {
            let time = 1000 + round;
            step(&mut rng, &names, &mut model, [&mut memory, &mut stored.tree], time);
            match rng.below(30) {
                0..4 => stored.flush(),
                4 => stored.restart(),
                5 => stored.moves(),
                6 => memory = restored(&memory),
                7 => stored.tree = restored(&stored.tree).over(Arc::new(stored.store.clone())),
                8 if rng.below(8) == 0 => {
                    let key = *rng.pick(&[&b"h"[..], b"s", b"z"]);
                    for tree in [&mut memory, &mut stored.tree] {
                        run(tree, time, &[b"DEL", key]);
                    }
                    match key {
                        b"h" => model.hash.clear(),
                        b"s" => model.set.clear(),
                        _ => model.sorted.clear(),
                    }
                }
                9 => {
                    // What DUMP says comes back as it was, and so does a copy.
                    for tree in [&mut memory, &mut stored.tree] {
                        let key = *rng.clone().pick(&[&b"h"[..], b"s", b"z"]);
                        if let Reply::Bulk(payload) = run(tree, time, &[b"DUMP", key]) {
                            assert_eq!(run(tree, time, &[b"RESTORE", key, b"0", &payload, b"REPLACE"]), Reply::Ok);
                        }
                        run(tree, time, &[b"COPY", key, b"copy", b"REPLACE"]);
                    }
                }
                10 => {
                    for tree in [&mut memory, &mut stored.tree] {
                        expire_due(tree, &at(time), 7);
                    }
                }
                _ => {}
            }
            assert_eq!(memory.bytes(), stored.tree.bytes());
            if round % 25 == 24 {
                check(&memory);
                check(&stored.tree);
                assert_eq!(memory.digest(), stored.tree.digest(), "seed {seed}, round {round}");
            }
        }
    }
}

/// All pages of a collection.
fn scanned(tree: &Tree, command: &str, key: &str) -> (usize, usize) {
    let (mut cursor, mut pages, mut found) = ("0".to_owned(), 0, 0);
    loop {
        let view = View::new(tree, WallTime(1000), 1).in_version(NEWEST);
        let words = [command.as_bytes(), key.as_bytes(), cursor.as_bytes(), b"COUNT", b"1000"];
        let Reply::Array(parts) = read(&view, &words) else { panic!("a page") };
        let [Reply::Bulk(next), Reply::Array(items)] = parts.as_slice() else { panic!("a page has two parts") };
        (pages, found) = (pages + 1, found + items.len());
        cursor = String::from_utf8_lossy(next).into_owned();
        if cursor == "0" {
            return (pages, found);
        }
    }
}

#[test]
fn what_counts_elements_counts_the_bytes_of_long_names() {
    let mut stored = Stored::new();
    let mebibyte = vec![b'x'; 1 << 20];
    for number in 0..40u8 {
        let name = [&mebibyte[..], &[number]].concat();
        for words in [&[&b"HSET"[..], b"h", &name, b"v"][..], &[b"SADD", b"s", &name], &[b"ZADD", b"z", b"1", &name]] {
            assert_eq!(run(&mut stored.tree, 1000, words), Reply::Integer(1));
        }
        assert_eq!(
            run(&mut stored.tree, 1000, &[b"HPEXPIREAT", b"h", b"2000", b"FIELDS", b"1", &name]),
            Reply::Array(vec![Reply::Integer(1)])
        );
    }
    stored.restart();
    for (command, key, found) in [("HSCAN", "h", 80), ("SSCAN", "s", 40), ("ZSCAN", "z", 80)] {
        assert_eq!(scanned(&stored.tree, command, key), (40, found), "{command}");
    }
    // The budget pays for what is looked up, and for what is written.
    let spent = |tree: &Tree| tree.meter().spent();
    run(&mut stored.tree, 1000, &[b"ZADD", b"z", b"2", &mebibyte]);
    assert!(spent(&stored.tree) > 2 * (1 << 20) / 4, "{}", spent(&stored.tree));
    // An entry of expiry takes so many bytes of fields, and one of reclaiming so many of elements.
    let most = LONG_NAMES_REMOVED_MAX / mebibyte.len();
    let Applied { reply, .. } = expire_due(&mut stored.tree, &at(3000), 1000);
    assert_eq!(reply, Reply::Integer(most as i64));
    assert_eq!(stored.tree.len(), 3);
    while stored.tree.next_deadline().is_some() {
        expire_due(&mut stored.tree, &at(3000), 1000);
        check(&stored.tree);
    }
    assert_eq!(run(&mut stored.tree, 3000, &[b"DEL", b"s", b"z"]), Reply::Integer(2));
    let mut entries = 0;
    while stored.tree.has_garbage() {
        let before = stored.tree.elements_len();
        expire_due(&mut stored.tree, &at(3000), 1000);
        assert!(before - stored.tree.elements_len() <= most as u64 + 2, "{before}");
        check(&stored.tree);
        entries += 1;
    }
    assert!(entries > 5, "{entries}");
    stored.flush();
    assert_eq!(stored.tree.elements_len(), 0);
    // Only the number of the next branch is left of the pieces.
    let pieces = *stored.tree.spaces().last().expect("there are spaces");
    assert_eq!(stored.store.range(pieces, Bound::Unbounded).count(), 1);
}

/// An entry of a version before means what it meant, on every replica; and a state without long names is written as it always was.
#[test]
fn before_the_cluster_has_the_version_names_are_as_short_as_they_were() {
    let before = Feature::LongNames.since() - 1;
    let (longest, longer) = (vec![b'x'; KEY_BYTES_MAX], vec![b'x'; KEY_BYTES_MAX + 100]);
    let context = EntryContext { version: before, ..at(1000) };
    let mut stored = Stored::new();
    let field = Reply::Error(Failure::FieldTooLong(KEY_BYTES_MAX));
    let member = Reply::Error(Failure::MemberTooLong(KEY_BYTES_MAX));
    let commands: [(&[&[u8]], usize, &Reply); 7] = [
        (&[b"HSET", b"h", b"", b"v"], 2, &field),
        (&[b"HGET", b"h", b""], 2, &field),
        (&[b"HSETEX", b"h", b"FIELDS", b"1", b"", b"v"], 4, &field),
        (&[b"SADD", b"s", b"x", b""], 3, &member),
        (&[b"ZADD", b"z", b"1", b""], 3, &member),
        (&[b"ZINCRBY", b"z", b"1", b""], 3, &member),
        (&[b"GEOADD", b"z", b"1", b"1", b""], 4, &member),
    ];
    for (words, place, refused) in commands {
        let with = |name| {
            let mut words = words.to_vec();
            words[place] = name;
            words
        };
        let (short, long) = (with(longest.as_slice()), with(longer.as_slice()));
        let entry = data::check(&long).expect("this build knows long names");
        let failure = data::check_names(entry, &long, before).expect_err("those before do not");
        assert_eq!(&Reply::Error(failure), refused);
        assert!(data::check_names(entry, &short, before).is_ok() && data::check_names(entry, &long, NEWEST).is_ok());
        assert_eq!(&apply(&mut stored.tree, &context, &long).reply, refused);
        assert!(!matches!(apply(&mut stored.tree, &context, &short).reply, Reply::Error(_)));
    }
    // Neither a script nor a payload goes around it.
    let script: [&[u8]; 4] = [b"EVAL", b"return redis.pcall('ZADD', 'z', 1, ARGV[1])", b"0", &longer];
    let Reply::Error(failure) = apply(&mut stored.tree, &context, &script).reply else { panic!("it is refused") };
    assert!(failure.to_string().starts_with("ERR member is longer than 32768 bytes"), "{failure}");
    let mut other = Tree::new();
    run(&mut other, 1000, &[b"SADD", b"s", &longer]);
    let Reply::Bulk(payload) = run(&mut other, 1000, &[b"DUMP", b"s"]) else { panic!("there is one") };
    assert_eq!(apply(&mut stored.tree, &context, &[b"RESTORE", b"r", b"0", &payload]).reply, member);
    stored.flush();
    assert_eq!((stored.head.as_ref().map(|head| head[0]), stored.tree.spaces().len()), (Some(10), 4));
    assert_eq!(run(&mut stored.tree, 1000, &[b"SADD", b"s", &longer]), Reply::Integer(1));
    stored.restart();
    assert_eq!((stored.head.as_ref().map(|head| head[0]), stored.tree.spaces().len()), (Some(11), 5));
    assert_eq!(
        run(&mut stored.tree, 1000, &[b"SMISMEMBER", b"s", &longest, &longer]),
        Reply::Array(vec![Reply::Integer(1); 2])
    );
}
