//! The commands of [`data::rebuild`] make the same keys anew, as a whole or bit by bit.

use base::WallTime;
use base::versions::NEWEST;
use data::rebuild::{self, WHOLE_BYTES_MAX};
use data::{EntryContext, Reply, Tree, View, apply, read};
use std::convert::Infallible;

pub const NOW: u64 = 1_700_000_000_000;

pub fn run(tree: &mut Tree, time: u64, words: &[&[u8]]) -> Reply {
    let context = EntryContext { time: WallTime(time), seed: time, version: NEWEST, ..EntryContext::default() };
    apply(tree, &context, words).reply
}

/// Runs a line of words, which must be taken.
pub fn must(tree: &mut Tree, line: &str) {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let reply = run(tree, NOW, &words);
    assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
}

pub fn ask(tree: &Tree, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    read(&View::new(tree, WallTime(NOW), 1).in_version(NEWEST), &words)
}

/// A state with everything that a key can hold, small and large.
pub fn example() -> Tree {
    let mut tree = Tree::new();
    for line in [
        "SET plain value",
        "SET number -17",
        "SET fades soon PX 5000",
        "HSET hash f 1 g two",
        "HPEXPIREAT hash 1700000009000 FIELDS 1 g",
        "SADD set a b 3",
        "ZADD sorted 1.5 a inf b -0.1 c 1e300 d",
        "RPUSH list x y x",
        "PEXPIREAT list 1700000007000",
        "XADD stream 5-1 f v g w",
        "XADD stream 6-0 f v",
        "XADD stream 7-7 only once",
        "XDEL stream 7-7",
        "XGROUP CREATE stream readers 0",
        "XGROUP CREATE stream others $ ENTRIESREAD 3",
        "XREADGROUP GROUP readers bert COUNT 1 STREAMS stream >",
        "XREADGROUP GROUP readers ann COUNT 1 STREAMS stream >",
        "XGROUP CREATECONSUMER stream readers idle",
        "XGROUP CREATE nothing group $ MKSTREAM",
        "JSON.SET json $ {\"a\":[1,2.5,null]}",
    ] {
        must(&mut tree, line);
    }
    let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    let loaded = run(&mut tree, NOW, &[b"FUNCTION", b"LOAD", library.as_bytes()]);
    assert!(matches!(loaded, Reply::Bulk(_)), "{loaded:?}");
    let long = "x".repeat(300);
    for number in 0..2000 {
        must(&mut tree, &format!("HSET large-hash f{number} {long}"));
        must(&mut tree, &format!("SADD large-set {long}{number}"));
        must(&mut tree, &format!("ZADD large-sorted {number}.25 {long}{number}"));
        must(&mut tree, &format!("RPUSH large-list {number}{long}"));
    }
    must(&mut tree, "HPEXPIREAT large-hash 1700000009000 FIELDS 3 f1 f2 f3");
    must(&mut tree, "PEXPIREAT large-set 1700000008000");
    tree
}

/// The state that the commands make, and the longest of them in words and in bytes.
fn rebuilt(tree: &Tree, whole_bytes_max: u64) -> (Tree, usize, usize) {
    let mut other = Tree::new();
    let (mut words_max, mut bytes_max) = (0, 0);
    let mut say = |words: &[&[u8]]| -> Result<(), Infallible> {
        let reply = run(&mut other, NOW, words);
        assert!(!matches!(reply, Reply::Error(_)), "{:?}: {reply:?}", String::from_utf8_lossy(words[0]));
        words_max = words_max.max(words.len());
        bytes_max = bytes_max.max(words.iter().map(|word| word.len()).sum());
        Ok(())
    };
    let Ok(()) = rebuild::libraries(tree, &mut say);
    let Ok(count) = rebuild::keys(tree, None, whole_bytes_max, |_, _, words| say(words));
    assert_eq!(count, tree.len());
    // Twice is as good as once.
    let Ok(_) = rebuild::keys(tree, None, whole_bytes_max, |_, _, words| say(words));
    (other, words_max, bytes_max)
}

fn keys(tree: &Tree) -> Vec<String> {
    let Reply::Array(keys) = ask(tree, "KEYS *") else { panic!("an array") };
    let text =
        |key: &Reply| if let Reply::Bulk(key) = key { String::from_utf8_lossy(key).into_owned() } else { panic!() };
    keys.iter().map(text).collect()
}

pub fn assert_same(tree: &Tree, other: &Tree, streams_too: bool) {
    assert_eq!(keys(tree), keys(other));
    assert_eq!(keys(tree).len(), 14);
    for key in keys(tree) {
        let is_stream = ask(tree, &format!("TYPE {key}")) == Reply::Simple("stream");
        let questions = if is_stream && !streams_too {
            ["XRANGE K - +", "XINFO GROUPS K", "XINFO STREAM K"].as_slice()
        } else {
            &["DUMP K", "PEXPIRETIME K"]
        };
        for question in questions {
            let line = question.replacen(" K", &format!(" {key}"), 1);
            assert!(ask(tree, &line) == ask(other, &line), "{line}");
        }
    }
    for line in [
        "FUNCTION LIST WITHCODE",
        "HPEXPIRETIME large-hash FIELDS 4 f1 f2 f3 f4",
        "XPENDING stream readers - + 10",
        "XINFO GROUPS stream",
    ] {
        assert_eq!(ask(tree, line), ask(other, line), "{line}");
    }
}

#[test]
fn what_is_small_as_a_whole_and_the_rest_bit_by_bit() {
    let tree = example();
    let (other, words_max, bytes_max) = rebuilt(&tree, WHOLE_BYTES_MAX);
    assert_same(&tree, &other, true);
    assert!(words_max <= 520, "{words_max} words");
    assert!(bytes_max < 400 * 1024, "{bytes_max} bytes");
}

#[test]
fn everything_bit_by_bit() {
    let tree = example();
    let (other, ..) = rebuilt(&tree, 0);
    assert_same(&tree, &other, false);
}

#[test]
fn what_is_over_is_left_out() {
    let mut tree = Tree::new();
    for line in ["SET stays v", "SET goes v PX 10", "HSET hash f v g w", "HPEXPIREAT hash 1700000000010 FIELDS 1 f"] {
        must(&mut tree, line);
    }
    for whole_bytes_max in [0, WHOLE_BYTES_MAX] {
        // The state's own time goes on with the next entry.
        run(&mut tree, NOW + 20, &[b"SET", b"stays", b"v"]);
        let mut said = Vec::new();
        let Ok(count) = rebuild::keys(&tree, None, whole_bytes_max, |_, _, words| -> Result<(), Infallible> {
            said.push(words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>());
            Ok(())
        });
        assert_eq!(count, 2, "{said:?}");
        assert!(said.contains(&["SET", "stays", "v"].map(str::to_owned).to_vec()), "{said:?}");
        assert!(!said.iter().flatten().any(|word| word == "goes"), "{said:?}");
    }
}

#[test]
fn the_first_refusal_ends_it() {
    let mut count = 0;
    let refused = rebuild::keys(&example(), None, WHOLE_BYTES_MAX, |_, _, _| {
        count += 1;
        if count == 3 { Err("enough") } else { Ok(()) }
    });
    assert_eq!((refused, count), (Err("enough"), 3));
}

/// A client that was broken off goes on with the key at which that was, from its first command.
#[test]
fn it_goes_on_from_any_key() {
    let tree = example();
    let all = |from: Option<&[u8]>| {
        let mut said = Vec::new();
        let Ok(_) = rebuild::keys(&tree, from, 0, |key, _, words| -> Result<(), Infallible> {
            said.push((key.to_vec(), words.concat()));
            Ok(())
        });
        said
    };
    let whole = all(None);
    for key in keys(&tree) {
        let start = whole.iter().position(|(of, _)| of == key.as_bytes()).expect("it is said");
        assert!(all(Some(key.as_bytes())) == whole[start..], "{key}");
    }
}
