//! `SCAN` and `KEYS` over many keys: nothing that stays is missed or told twice, whatever changes meanwhile.

use base::limits::VALUE_BYTES_MAX;
use base::versions::{NEWEST, OLDEST};
use base::{Rng, WallTime};
use data::{EntryContext, Reply, Tree, View, apply, read};
use std::collections::BTreeSet;

const CONTEXT: EntryContext = EntryContext {
    time: WallTime(1000),
    seed: 1,
    value_bytes_max: VALUE_BYTES_MAX,
    ttl_ms: 0,
    full_at_bytes: 0,
    names_events: false,
    recorded_bytes_max: None,
    slots: data::Slots::ALL,
    version: NEWEST,
    work_max: base::limits::WORK_DEFAULT,
};

fn set(tree: &mut Tree, key: &str) {
    assert_eq!(apply(tree, &CONTEXT, &[b"SET", key.as_bytes(), b"1"]).reply, Reply::Ok);
}

fn text(reply: &Reply) -> String {
    let Reply::Bulk(bytes) = reply else { panic!("{reply:?} is no text") };
    String::from_utf8_lossy(bytes).into_owned()
}

/// One page: the next cursor and the keys.
fn scan(tree: &Tree, cursor: &str, options: &[&str]) -> (String, Vec<String>) {
    page(tree, NEWEST, &["SCAN"], cursor, options)
}

/// One page of a cluster of that version, the command's words up to the cursor given: the next cursor and the keys or elements.
fn page(tree: &Tree, version: u16, command: &[&str], cursor: &str, options: &[&str]) -> (String, Vec<String>) {
    let words = command.iter().chain([&cursor]).chain(options);
    let args: Vec<&[u8]> = words.map(|word| word.as_bytes()).collect();
    let view = View::new(tree, WallTime(1000), 0).in_version(version);
    let Reply::Array(parts) = read(&view, &args) else { panic!("a page is a list") };
    let [next, Reply::Array(found)] = &parts[..] else { panic!("a page is a cursor and what was found") };
    let next = text(next);
    assert!(version == OLDEST || next.parse::<u64>().unwrap() < 1 << 53, "{command:?} {cursor}: {next}");
    (next, found.iter().filter(|element| matches!(element, Reply::Bulk(_))).map(text).collect())
}

/// A command that makes an element, or a key, of a kind that is walked through; and how it is removed.
const KINDS: [(&[&str], [&str; 3], [&str; 2]); 4] = [
    (&["SCAN"], ["SET", "NAME", "1"], ["DEL", "NAME"]),
    (&["HSCAN", "k"], ["HSET k", "NAME", "v"], ["HDEL k", "NAME"]),
    (&["SSCAN", "k"], ["SADD k", "NAME", "NAME"], ["SREM k", "NAME"]),
    (&["ZSCAN", "k"], ["ZADD k", "1", "NAME"], ["ZREM k", "NAME"]),
];

fn done(tree: &mut Tree, words: &[&str], name: &str) {
    let line = words.join(" ").replace("NAME", name);
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let reply = apply(tree, &CONTEXT, &words).reply;
    assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
}

#[test]
fn every_cursor_is_below_two_to_the_53_and_nothing_that_stays_is_missed_whatever_comes_and_goes() {
    for (command, make, remove) in KINDS {
        for (round, size) in (0..30).zip([1, 2, 9, 10, 11, 100, 127, 128, 129, 500, 512, 513, 3000].into_iter().cycle())
        {
            let mut rng = Rng::new(round);
            let mut tree = Tree::new();
            (0..size).for_each(|number| done(&mut tree, &make, &format!("stays:{number}")));
            let count = rng.between(1, 100).to_string();
            // Some walks begin in a cluster of the oldest version, which is raised on the way.
            let raised_at = if round % 3 == 0 { rng.between(1, 5) } else { 0 };
            let (mut cursor, mut told, mut pages) = ("0".to_owned(), Vec::new(), 0);
            loop {
                let version = if pages < raised_at { OLDEST } else { NEWEST };
                let (next, found) = page(&tree, version, command, &cursor, &["COUNT", &count]);
                told.extend(found.into_iter().filter(|name| name.starts_with("stays:")));
                if next == "0" {
                    break;
                }
                (cursor, pages) = (next, pages + 1);
                for _ in 0..5 {
                    let guest = format!("guest:{}", rng.below(50));
                    let words: &[&str] = if rng.chance(1, 2) { &make } else { &remove };
                    done(&mut tree, words, &guest);
                }
            }
            told.sort();
            let mut all: Vec<String> = (0..size).map(|number| format!("stays:{number}")).collect();
            all.sort();
            assert_eq!(told, all, "{command:?} of {size} by {count}, raised at {raised_at}");
        }
    }
}

/// All pages until the cursor is 0 again; `between` is called after each.
fn scan_all(tree: &mut Tree, options: &[&str], mut between: impl FnMut(&mut Tree)) -> Vec<String> {
    let (mut cursor, mut all) = ("0".to_owned(), Vec::new());
    loop {
        let (next, keys) = scan(tree, &cursor, options);
        all.extend(keys);
        if next == "0" {
            return all;
        }
        cursor = next;
        between(tree);
    }
}

#[test]
fn keys_that_stay_are_answered_once_while_others_come_and_go() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut tree = Tree::new();
        let staying: BTreeSet<String> = (0..rng.between(1, 300)).map(|number| format!("stays:{number}")).collect();
        staying.iter().for_each(|key| set(&mut tree, key));
        let count = rng.between(1, 40).to_string();
        let found = scan_all(&mut tree, &["COUNT", &count], |tree| {
            for _ in 0..10 {
                let key = format!("guest:{}", rng.below(50));
                if rng.chance(1, 2) {
                    set(tree, &key);
                } else {
                    apply(tree, &CONTEXT, &[b"DEL", key.as_bytes()]);
                }
            }
        });
        let mut told: Vec<String> = found.into_iter().filter(|key| key.starts_with("stays:")).collect();
        told.sort();
        assert_eq!(told, staying.into_iter().collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn a_page_looks_at_as_many_keys_as_count_says() {
    let mut tree = Tree::new();
    (0..95).for_each(|number| set(&mut tree, &format!("key:{number}")));
    assert_eq!(scan(&tree, "0", &[]).1.len(), 10);
    assert_eq!(scan(&tree, "0", &["COUNT", "94"]).1.len(), 94);
    let mut pages = 1;
    assert_eq!(scan_all(&mut tree, &["COUNT", "10"], |_| pages += 1).len(), 95);
    assert_eq!(pages, 10);
    assert_eq!(scan(&tree, "0", &["COUNT", "95"]).0, "0", "nothing is left: no empty page follows");
    assert_eq!(scan(&tree, &u64::MAX.to_string(), &[]), ("0".to_owned(), vec![]));
}

#[test]
fn a_hash_tag_in_the_pattern_leads_straight_to_its_slot() {
    let mut tree = Tree::new();
    for user in 0..50 {
        (0..20).for_each(|number| set(&mut tree, &format!("{{user:{user}}}:{number}")));
    }
    // Twenty keys are looked at, not a thousand.
    let (cursor, found) = scan(&tree, "0", &["MATCH", "{user:7}:*", "COUNT", "20"]);
    assert_eq!((cursor.as_str(), found.len()), ("0", 20));
    let paged = scan_all(&mut tree, &["MATCH", "{user:7}:*", "COUNT", "3"], |_| {});
    assert_eq!(paged, found);
    let Reply::Array(keys) = read(&View::new(&tree, WallTime(1000), 0), &[b"KEYS", b"{user:7}:*"]) else {
        panic!("a list of keys")
    };
    assert_eq!(keys.iter().map(text).collect::<Vec<_>>(), found);
}

#[test]
fn expired_keys_are_not_told_and_the_view_says_so() {
    let mut tree = Tree::new();
    set(&mut tree, "stays");
    apply(&mut tree, &CONTEXT, &[b"SET", b"goes", b"1", b"PX", b"10"]);
    let view = View::new(&tree, WallTime(1010), 0);
    assert_eq!(read(&view, &[b"KEYS", b"*"]), Reply::Array(vec![Reply::bulk("stays")]));
    assert!(view.met_expired(), "an entry has to decide it before the answer may leave");
}

#[test]
fn a_pattern_has_a_limit() {
    let tree = Tree::new();
    let view = View::new(&tree, WallTime(1000), 0);
    let long = vec![b'*'; 1024 * 1024 + 1];
    assert!(matches!(read(&view, &[b"KEYS", &long]), Reply::Error(_)));
    assert!(matches!(read(&view, &[b"SCAN", b"0", b"MATCH", &long]), Reply::Error(_)));
    assert_eq!(read(&view, &[b"KEYS", &long[1..]]), Reply::Array(vec![]));
}
