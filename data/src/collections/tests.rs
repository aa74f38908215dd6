//! Elements come, go and are reclaimed; what is kept beside them is right.

use super::*;
use crate::{EntryContext, KeyRef, Reply, apply, evict, expire_due};
use base::{Revision, WallTime};

fn run(tree: &mut Tree, words: &str) -> String {
    at(tree, 1000, words)
}

fn at(tree: &mut Tree, time: u64, words: &str) -> String {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    let reply = apply(tree, &EntryContext { time: WallTime(time), ..EntryContext::default() }, &words).reply;
    check(tree);
    format!("{reply:?}")
}

/// Records and elements say the same of collections.
fn check(tree: &Tree) {
    let mut tally = Tally::default();
    let mut bytes = 0;
    for (key, record) in tree.records(Bound::Unbounded) {
        bytes += record.bytes(&key.key);
        tally.say(&record.value);
    }
    assert_eq!(bytes, tree.bytes());
    tree.check_elements(tally, &mut |_| ()).unwrap();
}

fn fill(tree: &mut Tree, key: &str, fields: u64) {
    for field in 0..fields {
        run(tree, &format!("HSET {key} field:{field} a-value-that-is-longer-than-what-stands-in-place"));
    }
}

fn collection(tree: &Tree, key: &str) -> Option<Collection> {
    tree.get(KeyRef::new(key.as_bytes())).and_then(|record| record.value.collection())
}

#[test]
fn a_head_says_what_there_is() {
    let mut tree = Tree::new();
    fill(&mut tree, "h", 10);
    let before = tree.bytes();
    assert_eq!((collection(&tree, "h").unwrap().len(), tree.elements_len()), (10, 10));
    run(&mut tree, "HSET h field:3 short");
    assert!(tree.bytes() < before);
    for field in 0..10 {
        run(&mut tree, &format!("HDEL h field:{field}"));
    }
    assert_eq!((tree.len(), tree.bytes(), tree.elements_len(), tree.has_garbage()), (0, 0, 0, false));
}

#[test]
fn what_goes_costs_the_same_and_is_reclaimed_bit_by_bit() {
    let evicts = |tree: &mut Tree| {
        let revision = tree.get(KeyRef::new(b"h")).map_or(Revision(0), |record| record.revision);
        evict(tree, &EntryContext::default(), &[(b"h", revision)], 0);
    };
    let ways: [&dyn Fn(&mut Tree); 6] = [
        &|tree| drop(run(tree, "DEL h")),
        &|tree| drop(run(tree, "SET h string")),
        &|tree| drop(run(tree, "PEXPIREAT h 1")),
        &|tree| {
            run(tree, "PEXPIRE h 10");
            at(tree, 2000, "HDEL h nothing");
        },
        &evicts,
        &|tree| {
            run(tree, "SET other string");
            run(tree, "RENAME other h");
        },
    ];
    for way in ways {
        let mut tree = Tree::new();
        fill(&mut tree, "h", 20);
        way(&mut tree);
        check(&tree);
        // The queue's place is an element, too.
        assert_eq!((tree.elements_len(), tree.has_garbage()), (21, true));
        assert!(tree.bytes() < 300, "nobody has them any more");
        for left in [15, 10, 5] {
            expire_due(&mut tree, &EntryContext::default(), 5);
            check(&tree);
            assert_eq!(tree.elements_len(), left + 1);
        }
        expire_due(&mut tree, &EntryContext::default(), 5);
        expire_due(&mut tree, &EntryContext::default(), 5);
        assert_eq!((tree.elements_len(), tree.has_garbage()), (0, false));
    }
}

#[test]
fn while_there_is_garbage_what_is_stored_does_not_grow() {
    let mut tree = Tree::new();
    fill(&mut tree, "old", 100);
    run(&mut tree, "DEL old");
    let before = tree.elements_len();
    for field in 0..100 {
        run(&mut tree, &format!("HSET new {field} v"));
        assert!(tree.elements_len() <= before + PORTION, "after {field}");
    }
    assert!(!tree.has_garbage() || tree.elements_len() < 100 + PORTION);
}

#[test]
fn everything_goes_at_once() {
    let mut tree = Tree::new();
    fill(&mut tree, "a", 10);
    fill(&mut tree, "b", 10);
    let number = collection(&tree, "b").unwrap().number();
    run(&mut tree, "DEL a");
    run(&mut tree, "FLUSHALL");
    assert_eq!((tree.elements_len(), tree.has_garbage(), tree.bytes()), (0, false, 0));
    fill(&mut tree, "a", 1);
    assert!(collection(&tree, "a").unwrap().number() > number, "no number is given twice");
}

#[test]
fn a_moved_hash_keeps_its_elements_and_a_copied_one_has_its_own() {
    let mut tree = Tree::new();
    fill(&mut tree, "a", 5);
    fill(&mut tree, "b", 7);
    let before = collection(&tree, "a");
    run(&mut tree, "RENAME a b");
    assert_eq!(collection(&tree, "b"), before);
    assert!(tree.has_garbage(), "what stood there is given up");
    run(&mut tree, "COPY b c");
    let copy = collection(&tree, "c").unwrap();
    assert_ne!(copy.number(), before.unwrap().number());
    run(&mut tree, "DEL b");
    assert_eq!(copy.len(), 5);
    assert_eq!(run(&mut tree, "HLEN c"), "Integer(5)");
    expire_due(&mut tree, &EntryContext::default(), 1000);
    assert_eq!(tree.elements_len(), 5);
}

#[test]
fn a_hash_that_is_made_too_late_leaves_nothing() {
    let mut tree = Tree::new();
    run(&mut tree, "HSET h a 1");
    let context = EntryContext { time: WallTime(1000), ..EntryContext::default() };
    let payload = crate::algorithms::dump::dump_hash(1, [(Blob::from("f"), Blob::from("v"))].into_iter());
    apply(&mut tree, &context, &[b"RESTORE", b"h", b"5", &payload, b"REPLACE", b"ABSTTL"]);
    check(&tree);
    expire_due(&mut tree, &context, 100);
    assert_eq!((tree.len(), tree.elements_len()), (0, 0));
}

#[test]
fn sets_come_and_go_without_a_trace() {
    let mut tree = Tree::new();
    assert_eq!(run(&mut tree, "SADD s a b c d e"), "Integer(5)");
    assert_eq!(run(&mut tree, "SADD s a b"), "Integer(0)");
    let revision = tree.revision();
    assert_eq!((run(&mut tree, "SADD s a"), tree.revision()), ("Integer(0)".to_owned(), revision));
    assert_eq!(run(&mut tree, "SUNIONSTORE t s s"), "Integer(5)");
    assert_eq!(run(&mut tree, "SDIFFSTORE s s t"), "Integer(0)");
    assert_eq!(run(&mut tree, "SINTERSTORE u t t"), "Integer(5)");
    check(&tree);
    expire_due(&mut tree, &EntryContext::default(), 1000);
    run(&mut tree, "SPOP t 5");
    run(&mut tree, "SPOP u 4");
    assert!(!tree.has_garbage());
    // All of a larger set at once is given up, and reclaimed later.
    let members: Vec<String> = (0..150).map(|number| number.to_string()).collect();
    run(&mut tree, &format!("SADD large {}", members.join(" ")));
    run(&mut tree, "SPOP large 150");
    assert!(tree.has_garbage());
    expire_due(&mut tree, &EntryContext::default(), 1000);
    assert_eq!((tree.len(), tree.elements_len()), (1, 1));
    run(&mut tree, "SPOP u");
    assert_eq!((tree.len(), tree.elements_len()), (0, 0));
}

#[test]
fn chance_finds_nearly_all_of_a_large_set() {
    let mut tree = Tree::new();
    for hundred in 0..20 {
        let members: Vec<String> = (0..100).map(|number| format!("{hundred}-{number}")).collect();
        run(&mut tree, &format!("SADD s {}", members.join(" ")));
    }
    let context = |seed| EntryContext { time: WallTime(1000), seed, ..EntryContext::default() };
    let drawn = |tree: &mut Tree, command: &[&[u8]]| match apply(tree, &context(7), command).reply {
        Reply::Array(drawn) | Reply::Set(drawn) => drawn.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let different = |mut drawn: Vec<String>| {
        drawn.sort();
        drawn.dedup();
        drawn.len()
    };
    let repeated = drawn(&mut tree, &[b"SRANDMEMBER", b"s", b"-20000"]);
    // Were all equally likely, hardly one would be missing.
    assert_eq!((repeated.len(), different(repeated) > 1980), (20_000, true));
    assert_eq!(different(drawn(&mut tree, &[b"SRANDMEMBER", b"s", b"400"])), 400);
    assert_eq!(different(drawn(&mut tree, &[b"SRANDMEMBER", b"s", b"1900"])), 1900);
    assert_eq!(different(drawn(&mut tree, &[b"SPOP", b"s", b"300"])), 300);
    assert_eq!(run(&mut tree, "SCARD s"), "Integer(1700)");
}

#[test]
fn sorted_sets_come_and_go_without_a_trace() {
    let mut tree = Tree::new();
    for number in 0..200 {
        run(&mut tree, &format!("ZADD z {} member:{number}", (number * 37) % 101));
    }
    let before = tree.elements_len();
    assert!(before > 400, "boundaries are elements, too: {before}");
    run(&mut tree, "COPY z copy");
    assert_eq!(run(&mut tree, "ZRANGE copy 50 60"), run(&mut tree, "ZRANGE z 50 60"));
    for number in 0..200 {
        run(&mut tree, &format!("ZADD z {} member:{number}", (number * 41) % 97));
    }
    run(&mut tree, "ZREMRANGEBYRANK z 20 180");
    run(&mut tree, "ZREMRANGEBYRANK z 0 -2");
    assert_eq!(run(&mut tree, "ZPOPMAX z 5").matches("Bulk").count(), 1);
    run(&mut tree, "DEL copy");
    assert!(tree.has_garbage());
    expire_due(&mut tree, &EntryContext::default(), 10_000);
    assert_eq!((tree.len(), tree.elements_len(), tree.bytes()), (0, 0, 0));
}
