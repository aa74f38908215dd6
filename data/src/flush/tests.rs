//! A state over a store is the same as one in memory, whatever is flushed when, and after every crash.

use super::STATE_SPACES;
use crate::spec::Flags;
use crate::{
    Blob, EntryContext, Flush, KeyRef, Restored, Restorer, StoreRestorer, Tally, Tree, apply, apply_once, expire_due,
};
use base::ordered::{OrderedBatch, OrderedError, Space};
use base::{Rng, WallTime};
use proptest::prelude::*;
use std::ops::Bound;
use std::sync::Arc;
use storage::MemoryStore;

const OWN: Space = Space(0);

#[derive(Clone, Debug)]
enum Step {
    Apply(Entry),
    /// Begins a flush if none is under way, and gives its batch to the store.
    Begin,
    /// The store has applied it or not, and says that there is no room: the same flush again.
    Retry(bool),
    /// The store has synced it.
    End,
    /// The process ends, and the store loses what it may lose.
    Crash,
    /// The state goes to another replica as an image, and on from there.
    Move,
    /// The same, straight into the store, so many blocks at a time.
    Stream(usize),
    /// One of the two applies something and takes it back.
    Undo {
        in_memory: bool,
        entries: Vec<Entry>,
    },
}

#[derive(Clone, Debug)]
struct Entry {
    time: u64,
    once: Option<u8>,
    words: String,
}

fn entry() -> impl Strategy<Value = Entry> {
    let templates = [
        "SET K V",
        "SET K V PX T",
        "SET K V KEEPTTL",
        "SET K V NX",
        "APPEND K V",
        "INCR K",
        "DEL K",
        "GETDEL K",
        "PEXPIRE K T",
        "PERSIST K",
        "RENAME K K",
        "COPY K K REPLACE",
        "MSET K V K V",
        "SETRANGE K 30 V",
        "HSET K F V",
        "HSET K F V F V F V",
        "HDEL K F",
        "HINCRBY K F 7",
        "HGETALL K",
        "HSCAN K 0 COUNT 2",
        "RPUSH L E E E E E",
        "LPUSH L E E E",
        "LPOP L",
        "RPOP L 3",
        "LINSERT L BEFORE E E",
        "LREM L 0 E",
        "LTRIM L 2 -2",
        "LMOVE L L LEFT RIGHT",
        "LSET L S E",
        "LRANGE L 0 -1",
        "LRANGE L S -2",
        "SORT_RO L BY nothing LIMIT S S",
        "LPOS L E RANK -1",
        "XADD X * F V",
        "XADD X * F V F V",
        "XADD X MAXLEN S * F V",
        "XADD X MAXLEN ~ 6 * F V",
        "XTRIM X MAXLEN S",
        "XDEL X T T T",
        "XDELEX X ACKED IDS 3 T T T",
        "XDELEX X DELREF IDS 3 T T T",
        "XRANGE X - +",
        "XREVRANGE X + - COUNT 3",
        "XGROUP CREATE X G 0 MKSTREAM",
        "XGROUP CREATE X G $ MKSTREAM",
        "XGROUP DESTROY X G",
        "XGROUP DELCONSUMER X G F",
        "XREADGROUP GROUP G F COUNT S STREAMS X >",
        "XREADGROUP GROUP G F STREAMS X X > 0",
        "XACK X G T T T T",
        "XACKDEL X G ACKED IDS 4 T T T T",
        "XACKDEL X G DELREF IDS 4 T T T T",
        "XPENDING X G",
        "XAUTOCLAIM X G F 0 0 COUNT 2",
        "XINFO STREAM X FULL",
        "COPY X X REPLACE",
        "DEL X",
        "DEL L",
        "ZADD Z S F S F S F S F",
        "ZADD Z S F S F S F S F S F S F",
        "ZREM Z F F",
        "ZPOPMIN Z",
        "ZPOPMIN Z 3",
        "ZPOPMAX Z",
        "ZREMRANGEBYSCORE Z -inf S",
        "ZRANGE Z 0 -1 WITHSCORES",
        "ZRANGEBYSCORE Z S +inf",
        "ZRANK Z F",
        "DEL Z",
        "DBSIZE",
        "EXPIRE",
        "FLUSHALL",
    ];
    let weighted = (0..templates.len() * 8 - 7).prop_map(|at| at / 8);
    (0..40u64, prop::option::weighted(0.1, 0..20u8), weighted, any::<u64>()).prop_map(move |(time, once, at, seed)| {
        let mut rng = Rng::new(seed);
        let word = |word: &str| match word {
            "K" => format!("key:{}", rng.below(25)),
            "F" => format!("field:{}", rng.below(12)),
            // Around the length from which on they stand by themselves.
            "E" => format!("{:->1$}", rng.below(3), *rng.pick(&[1usize, 8, 24, 25, 60])),
            "V" => "v".repeat(rng.below(40) as usize + 1),
            "L" => format!("key:{}", 27 + rng.below(2)),
            "X" => format!("key:{}", 29 + rng.below(2)),
            "G" => format!("group:{}", rng.below(2)),
            "Z" => format!("key:{}", 25 + rng.below(2)),
            "S" => format!("{}", rng.below(9)),
            "T" => format!("{}", 1 + rng.below(300)),
            other => other.to_owned(),
        };
        Entry { time, once, words: templates[at].split(' ').map(word).collect::<Vec<_>>().join(" ") }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => entry().prop_map(Step::Apply),
        3 => Just(Step::Begin),
        3 => Just(Step::End),
        1 => Just(Step::Crash),
        1 => any::<bool>().prop_map(Step::Retry),
        1 => Just(Step::Move),
        1 => (1..8usize).prop_map(Step::Stream),
        3 => (any::<bool>(), prop::collection::vec(entry(), 1..8))
            .prop_map(|(in_memory, entries)| Step::Undo { in_memory, entries }),
    ]
}

fn run(tree: &mut Tree, time: u64, entry: &Entry) -> String {
    let context = EntryContext { time: WallTime(time), seed: time, ..EntryContext::default() };
    let words: Vec<&[u8]> = entry.words.split(' ').map(str::as_bytes).collect();
    let applied = match (entry.words.as_str(), entry.once) {
        ("EXPIRE", _) => expire_due(tree, &context, 3),
        (_, Some(id)) => apply_once(tree, &context, &[id], &words),
        _ => apply(tree, &context, &words),
    };
    format!("{applied:?}")
}

/// Applies entries and takes them back. The digest tells of records and elements; the rest is asked for here.
fn undo(tree: &mut Tree, time: u64, entries: &[Entry]) {
    let rest = |tree: &Tree| {
        let counts = (tree.collections.counts.clone(), tree.expired, tree.time, tree.revision);
        (counts, tree.removals.clone(), tree.deadlines.len(), tree.trash.len(), tree.spaces())
    };
    let before = rest(tree);
    let moment = tree.begin_undo();
    let mut time = time;
    for entry in entries {
        time += entry.time;
        run(tree, time, &Entry { once: None, ..entry.clone() });
    }
    tree.undo(moment);
    assert_eq!(rest(tree), before);
}

/// Looks whether an entry changes something, and then applies it.
fn look_and_run(tree: &mut Tree, time: u64, entry: &Entry) -> String {
    let context = EntryContext { time: WallTime(time), seed: time, ..EntryContext::default() };
    let words: Vec<&[u8]> = entry.words.split(' ').map(str::as_bytes).collect();
    if entry.once.is_some() || entry.words == "EXPIRE" {
        return run(tree, time, entry);
    }
    let seen = crate::look(tree, &context, &words);
    let applied = apply(tree, &context, &words);
    let often = crate::lookup(words[0]).is_some_and(|found| found.spec.flags.has(Flags::OFTEN_NOTHING));
    match seen {
        Some(reply) => assert_eq!((reply, 0), (applied.reply.clone(), applied.changes.len()), "{}", entry.words),
        None if often => assert!(!applied.changes.is_empty(), "{} has changed nothing", entry.words),
        None => {}
    }
    format!("{applied:?}")
}

/// One replica: its tree, the store that outlives it, and the whole log.
struct Replica {
    store: MemoryStore,
    tree: Tree,
    next_space: u64,
    /// Entries applied, and those that the flush under way contains.
    applied: usize,
    flushing: Option<(usize, Flush)>,
}

impl Replica {
    fn new() -> Replica {
        let store = MemoryStore::new();
        let tree = Tree::new().over(Arc::new(store.clone()));
        Replica { store, tree, next_space: 1, applied: 0, flushing: None }
    }

    fn new_spaces(&mut self) -> [Space; STATE_SPACES] {
        let first = self.next_space + 1;
        self.next_space += STATE_SPACES as u64;
        std::array::from_fn(|place| Space(first + place as u64))
    }

    fn begin(&mut self, applies: bool) {
        let next = &mut self.next_space;
        let flush = self.tree.begin_flush(|| {
            *next += 1;
            Space(*next)
        });
        match flush {
            Some(flush) => self.flushing = Some((self.applied, flush)),
            None => assert!(self.flushing.is_some(), "one at a time"),
        }
        let Some((applied, flush)) = self.flushing.clone() else { return };
        if applies {
            let mut batch = OrderedBatch::default();
            batch.changes.push((OWN, b"head".to_vec(), Some(head(applied, flush.head()))));
            flush.write(&mut batch).unwrap();
            self.store.apply(&batch).unwrap();
        }
    }

    fn end(&mut self) {
        if self.flushing.is_some() {
            self.begin(true);
            self.flushing = None;
            self.store.sync().unwrap();
            self.tree.end_flush();
        }
    }

    fn crash(&mut self, seed: u64, log: &[(u64, Entry)]) {
        self.store.crash(&mut Rng::new(seed));
        self.flushing = None;
        let read = Arc::new(self.store.clone());
        let head = base::ordered::OrderedRead::get(&*read, OWN, b"head").unwrap();
        (self.applied, self.tree) = match head {
            None => (0, Tree::new().over(read)),
            Some(head) => {
                let (applied, head) = head.split_first_chunk::<8>().unwrap();
                (u64::from_be_bytes(*applied) as usize, Tree::open(read, head).unwrap())
            }
        };
        let mut live = self.tree.spaces();
        live.push(OWN);
        self.store.retain_spaces(&live);
        for (time, entry) in &log[self.applied..] {
            run(&mut self.tree, *time, entry);
        }
        self.applied = log.len();
    }

    /// Takes over the state of an image, as if it came from another replica.
    fn install(&mut self) {
        let mut image = self.tree.image().with_block_bytes(100);
        let mut restorer = Restorer::new();
        let mut block = Vec::new();
        while image.next_block(&mut block) {
            restorer.push_block(&block).unwrap();
            block.clear();
        }
        drop(image);
        self.end();
        let given_up = self.tree.spaces();
        self.tree = restorer.finish().unwrap().over(Arc::new(self.store.clone()));
        self.tree.give_up(given_up);
    }

    /// The same by blocks that are written to the store as they come.
    fn stream(&mut self, blocks: usize) {
        let mut image = self.tree.image().with_block_bytes(100);
        let mut restorer = StoreRestorer::new(self.new_spaces());
        let [mut records, mut elements] = restorer.sorted_spaces().map(|space| self.store.load(space).unwrap());
        let mut restored = Restored::default();
        let (mut block, mut count) = (Vec::new(), 0);
        while image.next_block(&mut block) {
            restorer.push_block(&block, &mut restored).unwrap();
            block.clear();
            count += 1;
            if count % blocks == 0 {
                let restored = std::mem::take(&mut restored);
                records.push(&restored.records).unwrap();
                elements.push(&restored.elements).unwrap();
                let batch = restored.batch;
                self.store.apply(&batch).unwrap();
            }
        }
        assert!(image.is_at_end() && image.trouble().is_none());
        records.push(&restored.records).unwrap();
        elements.push(&restored.elements).unwrap();
        records.finish().unwrap();
        elements.finish().unwrap();
        let mut batch = restored.batch;
        self.end();
        let own = restorer.finish().unwrap();
        batch.changes.push((OWN, b"head".to_vec(), Some(head(self.applied, &own))));
        self.store.apply(&batch).unwrap();
        self.store.sync().unwrap();
        let given_up = self.tree.spaces();
        self.tree = Tree::open(Arc::new(self.store.clone()), &own).unwrap();
        self.tree.give_up(given_up);
    }
}

fn head(applied: usize, rest: &[u8]) -> Vec<u8> {
    let mut head = (applied as u64).to_be_bytes().to_vec();
    head.extend_from_slice(rest);
    head
}

/// The same records, totals and digest, by every way to ask.
fn compare(own: &Tree, memory: &Tree) {
    assert_eq!(own.trouble(), None);
    assert_eq!((own.len(), own.bytes(), own.volatile_len()), (memory.len(), memory.bytes(), memory.volatile_len()));
    assert_eq!(own.next_deadline(), memory.next_deadline());
    let (ours, theirs): (Vec<_>, Vec<_>) =
        (own.records(Bound::Unbounded).collect(), memory.records(Bound::Unbounded).collect());
    assert_eq!(ours, theirs);
    for number in 0..27 {
        let key = format!("key:{number}");
        assert_eq!(own.get(KeyRef::new(key.as_bytes())), memory.get(KeyRef::new(key.as_bytes())));
    }
    let mut tally = Tally::default();
    ours.iter().for_each(|(_, record)| tally.say(&record.value));
    own.check_elements(tally, &mut |_| ()).unwrap();
    assert_eq!(own.digest(), memory.digest());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn over_a_store_and_in_memory_are_the_same(steps in prop::collection::vec(step(), 1..120), seed in any::<u64>()) {
        let mut memory = Tree::new();
        let mut replica = Replica::new();
        let mut log = Vec::new();
        let mut frozen: Vec<(crate::Image, u64)> = Vec::new();
        let mut time = 1000;
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Apply(entry) => {
                    time += entry.time;
                    log.push((time, entry.clone()));
                    replica.applied += 1;
                    prop_assert_eq!(look_and_run(&mut replica.tree, time, entry), look_and_run(&mut memory, time, entry));
                }
                Step::Begin => replica.begin(true),
                Step::Retry(applied) => replica.begin(*applied),
                Step::End => replica.end(),
                Step::Crash => replica.crash(seed ^ at as u64, &log),
                Step::Move => replica.install(),
                Step::Stream(blocks) => replica.stream(*blocks),
                Step::Undo { in_memory: true, entries } => undo(&mut memory, time, entries),
                Step::Undo { in_memory: false, entries } => undo(&mut replica.tree, time, entries),
            }
            compare(&replica.tree, &memory);
            if at % 16 == 7 {
                frozen.push((replica.tree.image(), memory.digest()));
            }
            prop_assert_eq!(replica.tree.store.changed_bytes(), replica.tree.store.counted_bytes());
            let elements = &replica.tree.collections.elements;
            prop_assert_eq!(elements.changed_bytes(), elements.counted_bytes());
            drop(replica.tree.take_trash());
        }
        for (image, digest) in frozen {
            prop_assert_eq!(image.digest(), digest);
        }
        // What was given up is given back: its spaces and the owner's, besides what a flush under way still needs.
        replica.end();
        replica.begin(true);
        replica.end();
        let mut live = replica.tree.spaces();
        live.push(OWN);
        prop_assert!(replica.store.spaces().iter().all(|space| live.contains(space)), "{:?}", live);
    }
}

#[test]
fn trouble_below_is_noted_and_never_taken_for_absence() {
    let store = MemoryStore::new();
    let mut replica = Replica { tree: Tree::new().over(Arc::new(store.clone())), store, ..Replica::new() };
    let set = |tree: &mut Tree, key: &str| {
        apply(tree, &EntryContext::default(), &[b"SET", key.as_bytes(), b"value"]);
    };
    set(&mut replica.tree, "a");
    replica.begin(true);
    replica.end();
    let error = OrderedError { text: "the disk cannot be read".to_owned(), full: false };
    replica.store.fail_next_read(error.clone());
    let _ = replica.tree.get(KeyRef::new(b"a"));
    assert_eq!(replica.tree.trouble(), Some(&error));
}

#[test]
fn what_is_damaged_below_is_trouble() {
    let mut replica = Replica::new();
    apply(&mut replica.tree, &EntryContext::default(), &[b"SET", b"a", b"value"]);
    replica.begin(true);
    replica.end();
    let space = replica.tree.store.spaces()[0].unwrap();
    let key = crate::kept::base_key::<crate::kept::Records>(KeyRef::new(b"a"));
    for damaged in [&b""[..], &[0xff; 40], &[0, 1, 1, 200]] {
        let batch = OrderedBatch {
            changes: vec![(space, key.clone(), Some(damaged.to_vec()))].into(),
            ..OrderedBatch::default()
        };
        replica.store.apply(&batch).unwrap();
        let head = base::ordered::OrderedRead::get(&replica.store, OWN, b"head").unwrap().unwrap();
        let tree = Tree::open(Arc::new(replica.store.clone()), &head[8..]).unwrap();
        assert_eq!(tree.get(KeyRef::new(b"a")), None);
        assert!(tree.trouble().unwrap().text.contains("key \"a\""), "{:?}", tree.trouble());
        assert!(Tree::open(Arc::new(replica.store.clone()), &head[9..]).is_err());
    }
    let _ = Blob::EMPTY;
}
