//! The crate's doors: applying, reading, transactions, once, expiry.

use std::ops::Bound;
use std::sync::Arc;

use base::limits::{EXPIRE_BATCH_MAX, EXPIRE_KEYS_MAX, EXPIRE_WORK_MAX, KEY_BYTES_MAX};
use base::ordered::{OrderedBatch, OrderedError, OrderedRead, Pair, Space};
use base::versions::{NEWEST, OLDEST};
use base::{Revision, WallTime};
use data::spec::Flags;
use data::{
    Applied, ChangeKind, EntryContext, Failure, Reply, Restorer, Tree, View, apply, apply_once, apply_transaction,
    check, evict, expire_batch, expire_due, outcome, read, read_transaction,
};

fn at(milliseconds: u64) -> EntryContext {
    EntryContext { time: WallTime(milliseconds), seed: 1, ..EntryContext::default() }
}

fn args(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

fn get(tree: &Tree, clock: u64, key: &str) -> (Reply, bool) {
    let view = View::new(tree, WallTime(clock), 0);
    let reply = read(&view, &[b"GET", key.as_bytes()]);
    (reply, view.met_expired())
}

#[test]
fn set_then_get() {
    let mut tree = Tree::new();
    let applied = apply(&mut tree, &at(1000), &args("SET a 1"));
    assert_eq!(applied.reply, Reply::Ok);
    assert_eq!(applied.changes.len(), 1);
    assert_eq!(applied.changes[0].revision, Revision(1));
    assert_eq!(get(&tree, 1000, "a"), (Reply::bulk("1"), false));
    assert_eq!(get(&tree, 1000, "b"), (Reply::Nil, false));
}

#[test]
fn a_read_past_the_deadline_asks_for_an_expiry_entry_first() {
    let mut tree = Tree::new();
    apply(&mut tree, &at(1000), &args("SET a 1 PX 100"));
    assert_eq!(get(&tree, 1099, "a"), (Reply::bulk("1"), false));
    assert!(get(&tree, 1100, "a").1, "dead by the clock, alive by the log");
    let applied = expire_due(&mut tree, &at(1100), 10);
    assert_eq!(applied.changes[0].kind, ChangeKind::Expired);
    assert_eq!(get(&tree, 1100, "a"), (Reply::Nil, false));
    // A leader whose clock is behind cannot bring it back.
    assert_eq!(get(&tree, 900, "a"), (Reply::Nil, false));
    assert_eq!(tree.next_deadline(), None);
}

#[test]
fn a_limit_on_expiry_hides_the_rest_all_the_same() {
    let mut tree = Tree::new();
    apply(&mut tree, &at(1000), &args("SET a 1 PX 100"));
    apply(&mut tree, &at(1000), &args("SET b 1 PX 100"));
    assert_eq!(expire_due(&mut tree, &at(1100), 1).reply, Reply::Integer(1));
    assert_eq!((get(&tree, 1100, "a"), get(&tree, 1100, "b")), ((Reply::Nil, false), (Reply::Nil, false)));
    assert_eq!(tree.len(), 1);
}

#[test]
fn an_entry_of_expiry_is_bounded_by_keys_and_by_work() {
    let name = |number: usize, length: usize| format!("{number:0length$}");
    let full = |length: usize| {
        let mut tree = Tree::new();
        for number in 0..EXPIRE_KEYS_MAX + 1000 {
            apply(&mut tree, &at(1000), &[b"SET", name(number, length).as_bytes(), b"", b"PX", b"100"]);
        }
        tree
    };
    let expired = |tree: &mut Tree, version| match expire_batch(tree, &EntryContext { version, ..at(1100) }).reply {
        Reply::Integer(count) => count as usize,
        other => panic!("{other:?}"),
    };
    // A node of before removes a thousand, and an entry of before means that everywhere.
    assert_eq!(expired(&mut full(5), OLDEST), EXPIRE_BATCH_MAX);
    let mut short = full(5);
    assert!(expired(&mut short, NEWEST) > 9 * EXPIRE_BATCH_MAX);
    let large = expired(&mut full(4000), NEWEST);
    let cost = EXPIRE_WORK_MAX / 1050;
    assert!((cost as usize..=cost as usize + 1).contains(&large), "{large}: a long name is more work");
    while expired(&mut short, NEWEST) > 0 {}
    assert_eq!(short.len(), 0);
}

#[test]
fn fields_of_hashes_are_within_the_same_bounds() {
    let full = || {
        let mut tree = Tree::new();
        let fields: Vec<String> = (0..2 * EXPIRE_KEYS_MAX).map(|number| number.to_string()).collect();
        let head = format!("HSETEX h PX 100 FIELDS {}", fields.len());
        let words = head.split(' ').map(str::as_bytes);
        let words: Vec<&[u8]> = words.chain(fields.iter().flat_map(|field| [field.as_bytes(), &b"v"[..]])).collect();
        assert_eq!(apply(&mut tree, &at(1000), &words).reply, Reply::Integer(1));
        tree
    };
    let (mut old, mut new) = (full(), full());
    let expire = |tree: &mut Tree, version| expire_batch(tree, &EntryContext { version, ..at(1100) }).reply;
    assert_eq!(expire(&mut old, OLDEST), Reply::count(EXPIRE_BATCH_MAX));
    assert!(matches!(expire(&mut new, NEWEST), Reply::Integer(count) if count > 5 * EXPIRE_BATCH_MAX as i64));
    while expire(&mut new, NEWEST) != Reply::Integer(0) {}
    assert_eq!((new.len(), new.elements_len()), (0, 0));
}

#[test]
fn evictions_take_what_is_as_it_was_until_there_is_room() {
    let mut tree = Tree::new();
    for key in ["a", "b", "c", "d"] {
        apply(&mut tree, &at(1000), &args(&format!("SET {key} 1")));
    }
    let each = tree.bytes() / 4;
    apply(&mut tree, &at(1000), &args("SET b 2"));
    apply(&mut tree, &at(1000), &args("SET e 1 PX 100"));
    let watched = tree.watch_revision(b"c");
    let victims = [
        (&b"a"[..], Revision(1)),
        (&b"b"[..], Revision(2)),
        (&b"e"[..], Revision(6)),
        (&b"gone"[..], Revision(1)),
        (&b"c"[..], Revision(3)),
        (&b"d"[..], Revision(4)),
    ];
    let applied = evict(&mut tree, &at(1200), &victims, 2 * each);
    let changes: Vec<_> = applied.changes.iter().map(|it| (&*it.key, it.kind, it.revision.0)).collect();
    let expected =
        [(&b"a"[..], ChangeKind::Evicted, 7), (&b"e"[..], ChangeKind::Expired, 8), (&b"c"[..], ChangeKind::Evicted, 9)];
    assert_eq!(changes, expected, "b was written since, d has room");
    assert_eq!((applied.reply, tree.len()), (Reply::Integer(2), 2));
    assert_ne!(tree.watch_revision(b"c"), watched, "WATCH notices");
    assert!(evict(&mut tree, &at(1200), &victims, 0).changes.iter().all(|it| &*it.key == b"d"));
}

#[test]
fn writing_over_an_expired_key_expires_it_first() {
    let mut tree = Tree::new();
    apply(&mut tree, &at(1000), &args("SET a 1 PX 100"));
    let applied = apply(&mut tree, &at(1200), &args("SET a 2"));
    let kinds: Vec<_> = applied.changes.iter().map(|change| (change.kind, change.revision.0)).collect();
    assert_eq!(kinds, [(ChangeKind::Expired, 2), (ChangeKind::Set, 3)]);
}

#[test]
fn a_transaction_runs_unless_a_watched_key_changed() {
    let mut tree = Tree::new();
    apply(&mut tree, &at(1), &args("SET a 1"));
    let (set, bad, get) = (args("SET a 2"), args("SET a"), args("GET a"));
    let commands: Vec<&[&[u8]]> = vec![&set, &bad, &get];
    let stale = [(&b"a"[..], Revision(0))];
    let applied = apply_transaction(&mut tree, &at(2), &stale, &commands);
    assert_eq!((applied.reply, applied.changes.len()), (Reply::NilArray, 0));
    let fresh = [(&b"a"[..], Revision(1)), (&b"absent"[..], Revision(0))];
    let applied = apply_transaction(&mut tree, &at(2), &fresh, &commands);
    let wrong = Reply::Error(Failure::WrongArity("set"));
    assert_eq!(applied.reply, Reply::Array(vec![Reply::Ok, wrong, Reply::bulk("2")]));
    let view = View::new(&tree, WallTime(2), 0);
    assert_eq!(read_transaction(&view, &fresh, &[&get]), Reply::NilArray);
    assert_eq!(read_transaction(&view, &[], &[&get]), Reply::Array(vec![Reply::bulk("2")]));
}

#[test]
fn once_happens_once() {
    let mut tree = Tree::new();
    let command = args("SET a 1 GET");
    let first = apply_once(&mut tree, &at(1), b"id", &command);
    let second = apply_once(&mut tree, &at(2), b"id", &command);
    assert_eq!(first.reply, second.reply);
    assert!(second.changes.is_empty());
    let view = View::new(&tree, WallTime(2), 0);
    assert_eq!(outcome(&view, b"id"), Some(&Reply::Nil));
    assert_eq!(outcome(&view, b"other"), None);
    // The identifier is that command's: another one is refused, here and where the state was restored.
    let mut restorer = Restorer::new();
    let (mut image, mut block) = (tree.image(), Vec::new());
    while image.next_block(&mut block) {
        restorer.push_block(&block).unwrap();
        block.clear();
    }
    for mut tree in [restorer.finish().unwrap(), tree] {
        let refused = apply_once(&mut tree, &at(3), b"id", &args("SET a 2 GET"));
        let text = "REUSED this identifier was used for another command; this one was not done";
        assert_eq!(refused, Applied::unchanged(Reply::Error(Failure::Text(text))));
        assert_eq!(get(&tree, 3, "a").0, Reply::bulk("1"));
        assert_eq!(apply_once(&mut tree, &at(3), b"id", &args("set a 1 GET")).reply, Reply::Nil);
    }
}

/// A state written by version 0.1 of this crate, whose outcomes have no digest of their command.
#[test]
fn images_of_version_1_are_read() {
    let mut restorer = Restorer::new();
    let mut header = vec![1, 100, 1, 0, 1, 1];
    header.extend([0; 1024]);
    restorer.push_block(&header).unwrap();
    restorer.push_block(b"R\x01k\x00\x01\x01\x01v").unwrap();
    restorer.push_block(b"O\x02id\x01").unwrap();
    let mut tree = restorer.finish().unwrap();
    assert_eq!(get(&tree, 100, "k").0, Reply::bulk("v"));
    for line in ["SET k 1", "SET k 2"] {
        assert_eq!(apply_once(&mut tree, &at(100), b"id", &args(line)).reply, Reply::Ok);
    }
    assert_eq!(get(&tree, 100, "k").0, Reply::bulk("v"));
    // It is written in the version of today, and read again.
    let (mut image, mut block, mut again) = (tree.image(), Vec::new(), Restorer::new());
    while image.next_block(&mut block) {
        again.push_block(&block).unwrap();
        block.clear();
    }
    assert_eq!(again.finish().unwrap().digest(), tree.digest());
}

#[test]
fn wrong_commands_are_refused_in_redis_words() {
    let text = |line: &str| check(&args(line)).map(|entry| entry.spec.name).unwrap_err().to_string();
    assert_eq!(text("GET"), "ERR wrong number of arguments for 'get' command");
    assert_eq!(text("foo a b"), "ERR unknown command 'foo', with args beginning with: 'a' 'b' ");
    assert_eq!(text("foo"), "ERR unknown command 'foo', with args beginning with: ");
    assert_eq!(text("SET a b EX x"), "ERR value is not an integer or out of range");
    assert_eq!(text("SET a b EX 0"), "ERR invalid expire time in 'set' command");
    assert_eq!(text("SET a b EX"), "ERR syntax error");
    assert_eq!(text("SET a b NX XX"), "ERR syntax error");
    assert_eq!(check(&args("gEt a")).map(|entry| entry.spec.name), Ok("get"));
}

/// The longest key and one that is longer, wherever a command takes one.
#[test]
fn no_key_is_longer_than_a_store_takes() {
    let (longest, longer) = ("k".repeat(KEY_BYTES_MAX), "k".repeat(KEY_BYTES_MAX + 1));
    let lines = [
        "GET KEY",
        "SET KEY v",
        "MGET a b KEY",
        "MSET a 1 KEY 2",
        "MSETEX 2 a 1 KEY 2 EX 5",
        "DEL a KEY",
        "COPY a KEY",
        "RENAME KEY a",
        "BITOP AND a b KEY",
        "OBJECT ENCODING KEY",
        "MEMORY USAGE KEY",
        "DICTUM.GET KEY",
        "DICTUM.SET KEY v",
        "DICTUM.DEL KEY",
        "EXPIRE KEY 5",
        "TTL KEY",
        "LCS a KEY",
        "EXISTS KEY",
        "TYPE KEY",
    ];
    for line in lines {
        let said = |key: &str| check(&args(&line.replace("KEY", key))).map(|entry| entry.spec.name);
        assert!(said(&longest).is_ok(), "{line}: {:?}", said(&longest));
        assert_eq!(said(&longer), Err(Failure::KeyTooLong), "{line}");
    }
    for line in ["SET key LONG", "ECHO LONG", "KEYS LONG", "APPEND key LONG"] {
        assert_ne!(check(&args(&line.replace("LONG", &longer))).err(), Some(Failure::KeyTooLong), "{line}");
    }
    assert_eq!(Failure::KeyTooLong.to_string(), "ERR key is longer than 32768 bytes");

    // The longest key with a deadline goes into a store and comes back.
    let mut tree = Tree::new().over(Arc::new(EmptyStore));
    apply(&mut tree, &at(1), &args(&format!("SET {longest} v PX 1000")));
    let mut next_space = 0;
    let flush = tree.begin_flush(|| {
        next_space += 1;
        Space(next_space)
    });
    let mut batch = OrderedBatch::default();
    flush.expect("there is something to write").write(&mut batch).unwrap();
    let lengths = batch.changes.iter().map(|(_, key, _)| key.len());
    assert_eq!(lengths.max(), Some(KEY_BYTES_MAX + 16));
}

#[derive(Debug)]
struct EmptyStore;

impl OrderedRead for EmptyStore {
    fn get(&self, _: Space, _: &[u8]) -> Result<Option<Vec<u8>>, OrderedError> {
        Ok(None)
    }

    fn range<'a>(&'a self, _: Space, _: Bound<&[u8]>) -> Box<dyn Iterator<Item = Result<Pair, OrderedError>> + 'a> {
        Box::new(std::iter::empty())
    }

    fn freeze(&self) -> Arc<dyn OrderedRead> {
        Arc::new(EmptyStore)
    }
}

#[test]
fn what_a_flush_leaves_behind_is_freed_elsewhere() {
    let mut tree = Tree::new();
    for number in 0..3000 {
        let key = format!("key:{number}");
        apply(&mut tree, &at(1), &[b"SET", key.as_bytes(), b"value", b"PX", b"1000"]);
    }
    let applied = apply(&mut tree, &at(2), &args("FLUSHALL"));
    assert_eq!((applied.changes.len(), applied.changes[0].kind), (1, ChangeKind::Flushed));
    assert_eq!((tree.len(), tree.volatile_len(), tree.bytes(), tree.next_deadline()), (0, 0, 0, None));
    let digest = tree.digest();
    // Each record and each deadline counts.
    assert_eq!(tree.take_trash().iter().map(data::Trash::len).sum::<usize>(), 6000);
    assert_eq!(tree.digest(), digest);
    apply(&mut tree, &at(3), &args("FLUSHALL"));
    assert!(tree.take_trash().is_empty(), "an empty state leaves nothing behind");
}

/// A value never grows beyond the limit that its entry carries; what is refused changes nothing.
#[test]
fn values_grow_to_the_entrys_limit() {
    let mut tree = Tree::new();
    let limited = EntryContext { value_bytes_max: 8, ..at(1000) };
    let too_long = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    let bad_offset = "ERR bit offset is not an integer or out of range";
    apply(&mut tree, &limited, &args("SET k 12345678"));
    let dumped = apply(&mut tree, &at(1000), &args("APPEND long 123456789"));
    assert_eq!(dumped.reply, Reply::Integer(9));
    let Reply::Bulk(payload) = read(&View::new(&tree, WallTime(1000), 0), &args("DUMP long")) else {
        panic!("a payload")
    };
    for (line, refusal) in [
        ("APPEND k 9", too_long),
        ("APPEND new 123456789", too_long),
        ("SETRANGE k 8 9", too_long),
        ("SETRANGE k 9223372036854775807 9", too_long),
        ("SETBIT k 64 1", bad_offset),
        ("SETBIT new 64 0", bad_offset),
        ("BITFIELD k SET u8 64 1", bad_offset),
        ("BITFIELD k GET u8 0 INCRBY u8 60 1", too_long),
        ("BITOP NOT new long", too_long),
    ] {
        let before = tree.digest();
        let applied = apply(&mut tree, &limited, &args(line));
        let Reply::Error(failure) = &applied.reply else { panic!("{line}: {:?}", applied.reply) };
        assert_eq!(failure.to_string(), refusal, "{line}");
        assert!(applied.changes.is_empty() && tree.digest() == before, "{line}");
    }
    let restore: [&[u8]; 4] = [b"RESTORE", b"new", b"0", &payload];
    assert_eq!(apply(&mut tree, &limited, &restore).reply, Reply::Error(Failure::ValueTooLong));
    for (line, reply) in
        [("APPEND k ", 8), ("SETRANGE k 7 x", 8), ("SETBIT k 63 1", 0), ("BITOP AND new k", 8), ("SETRANGE new 9 ", 8)]
    {
        assert_eq!(apply(&mut tree, &limited, &args(line)).reply, Reply::Integer(reply), "{line}");
    }
    let answer = apply(&mut tree, &limited, &args("BITFIELD k GET u8 64 SET u8 #7 1")).reply;
    assert_eq!(answer, Reply::Array(vec![Reply::Integer(0), Reply::Integer(121)]));
    // A limit beyond what any value may have is none.
    let unlimited = EntryContext { value_bytes_max: usize::MAX, ..at(1000) };
    let line = "SETRANGE k 536870912 x";
    assert_eq!(apply(&mut tree, &unlimited, &args(line)).reply, Reply::Error(Failure::ValueTooLong));
    for entry in data::commands::COMMANDS.iter().filter(|entry| entry.spec.flags.has(Flags::GROWS)) {
        assert!(entry.is_write(), "{}: only an entry carries a limit", entry.spec.name);
    }
}

/// How many pages there are, and how many things on them.
fn pages_of(tree: &Tree, scan: &str, key: &str) -> (usize, usize) {
    let (mut cursor, mut pages, mut things) = (b"0".to_vec(), 0, 0);
    loop {
        let view = View::new(tree, WallTime(1000), 0);
        let words: [&[u8]; 5] = [scan.as_bytes(), key.as_bytes(), &cursor, b"COUNT", b"1000"];
        let Reply::Array(page) = read(&view, &words) else { panic!() };
        let [Reply::Bulk(next), Reply::Array(found)] = page.as_slice() else { panic!() };
        pages += 1;
        things += found.len();
        cursor = next.to_vec();
        if cursor == b"0" {
            return (pages, things);
        }
    }
}

/// Whatever COUNT says, a page is no more than a mebibyte and one element.
#[test]
fn pages_end_where_the_answer_grows_large() {
    let mut tree = Tree::new();
    let value = vec![b'x'; 300 << 10];
    for field in 0..20 {
        apply(&mut tree, &at(1000), &[b"HSET", b"h", format!("{field}").as_bytes(), &value]);
    }
    assert_eq!(pages_of(&tree, "HSCAN", "h"), (5, 40));
    for member in 0..100 {
        let member = [format!("{member}").as_bytes(), &value[..30_000]].concat();
        apply(&mut tree, &at(1000), &[b"SADD", b"s", &member]);
    }
    assert_eq!(pages_of(&tree, "SSCAN", "s"), (3, 100));
    for member in 0..100 {
        let member = [format!("{member}").as_bytes(), &value[..30_000]].concat();
        apply(&mut tree, &at(1000), &[b"ZADD", b"z", b"1.5", &member]);
    }
    assert_eq!(pages_of(&tree, "ZSCAN", "z"), (3, 200));
}
