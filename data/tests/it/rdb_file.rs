//! Keys as an RDB file, and back.

use base::{Rng, WallTime};
use data::algorithms::rdb::{Item, Key, RdbReader, RdbWriter};
use data::rdb_file;
use data::{Reply, Tree};
use std::convert::Infallible;

use crate::rebuild::{NOW, ask, assert_same, example, must, run};

/// The file of these states, as databases 0, 1, …, by the time `at`; and the longest part that the sink got.
fn file_of(trees: &[&Tree], at: u64) -> (Vec<u8>, usize) {
    let (mut file, mut longest) = (Vec::new(), 0);
    let mut out = RdbWriter::new(|bytes: &[u8]| -> Result<(), Infallible> {
        longest = longest.max(bytes.len());
        file.extend_from_slice(bytes);
        Ok(())
    });
    let Ok(()) = out.auxiliary("redis-ver", "7.0.0");
    let Ok(()) = rdb_file::write_libraries(trees[0], &mut out);
    for (number, tree) in trees.iter().enumerate() {
        let Ok(()) = out.database(number as u64, tree.len());
        let Ok(_) = rdb_file::write_wanted(tree, WallTime(at), |key| key != b"unwanted", &mut out);
    }
    let Ok(()) = out.end();
    (file, longest)
}

fn items(file: &[u8], piece: usize) -> Vec<Item> {
    let (mut reader, mut items) = (RdbReader::default(), Vec::new());
    for piece in file.chunks(piece) {
        reader.push(piece);
        while let Some(item) = reader.next().unwrap_or_else(|error| panic!("{error}")) {
            items.push(item);
        }
    }
    assert!(reader.is_at_end());
    items
}

/// The states that the items make.
fn loaded(items: &[Item], databases: usize) -> Vec<Tree> {
    let mut trees: Vec<Tree> = (0..databases).map(|_| Tree::new()).collect();
    for item in items {
        match item {
            Item::Library(code) => {
                let reply = run(&mut trees[0], NOW, &[b"FUNCTION", b"LOAD", code]);
                assert!(matches!(reply, Reply::Bulk(_)), "{reply:?}");
            }
            Item::Key(Key { database, name, deadline, payload }) => {
                let at = deadline.map_or(0, |deadline| deadline.0).to_string();
                let words: [&[u8]; 5] = [b"RESTORE", name, at.as_bytes(), payload, b"ABSTTL"];
                let tree = &mut trees[usize::try_from(*database).expect("a small number")];
                assert_eq!(run(tree, NOW, &words), Reply::Ok, "{}", String::from_utf8_lossy(name));
            }
        }
    }
    trees
}

#[test]
fn everything_comes_back() {
    let (tree, mut other) = (example(), Tree::new());
    must(&mut other, "SET elsewhere v");
    must(&mut other, "SET unwanted v");
    for number in 0..20_000u64 {
        // Not longer than what is not compressed.
        must(&mut other, &format!("SADD set {number}-{}", number * 7_919));
    }
    let (file, longest) = file_of(&[&tree, &other], NOW);
    assert_eq!(&file[..9], b"REDIS0010");
    // The set alone is several times as long.
    assert!(longest < 80 * 1024 && file.len() > 250 * 1024, "{longest} of {} bytes at once", file.len());
    let trees = loaded(&items(&file, 50_000), 2);
    assert_same(&tree, &trees[0], true);
    assert_eq!(ask(&trees[1], "KEYS *"), Reply::Array(["set", "elsewhere"].map(Reply::bulk).to_vec()));
    assert_eq!(ask(&trees[1], "DUMP set"), ask(&other, "DUMP set"));
    for place in (0..file.len()).step_by(4_321) {
        let mut damaged = file.clone();
        damaged[place] ^= 4;
        let mut reader = RdbReader::default();
        reader.push(&damaged);
        let outcome = std::iter::from_fn(|| reader.next().transpose()).collect::<Result<Vec<_>, _>>();
        assert!(outcome.is_err() || !reader.is_at_end(), "byte {place}");
    }
}

#[test]
fn what_is_over_is_left_out() {
    let mut tree = Tree::new();
    for line in [
        "SET stays v PXAT 1700000000100",
        "SET goes v PX 10",
        "HSET hash f v g w",
        "HPEXPIREAT hash 1700000000010 FIELDS 1 f",
        "HSET all f v",
        "HPEXPIREAT all 1700000000010 FIELDS 1 f",
        "HSET later f v g w h x",
        "HPEXPIREAT later 1700000000010 FIELDS 1 f",
        "HPEXPIREAT later 1700000000090 FIELDS 1 g",
    ] {
        must(&mut tree, line);
    }
    let trees = loaded(&items(&file_of(&[&tree], NOW + 20).0, 7), 1);
    assert_eq!(trees[0].len(), 3);
    assert_eq!(ask(&trees[0], "PEXPIRETIME stays"), Reply::Integer(1_700_000_000_100));
    assert_eq!(ask(&trees[0], "HGETALL hash"), Reply::Map(vec![(Reply::bulk("g"), Reply::bulk("w"))]));
    let deadlines = [-2, 1_700_000_000_090, -1].map(Reply::Integer).to_vec();
    assert_eq!(ask(&trees[0], "HPEXPIRETIME later FIELDS 3 f g h"), Reply::Array(deadlines));
}

#[test]
fn the_first_refusal_ends_it() {
    let mut count = 0;
    let mut out = RdbWriter::new(|_: &[u8]| {
        count += 1;
        Err("enough")
    });
    assert_eq!(rdb_file::write_wanted(&example(), WallTime(NOW), |_| true, &mut out), Err("enough"));
    assert_eq!(count, 1);
}

/// Commands after which keys hold whatever they can; K: a key, W: a word, N: a number.
const COMMANDS: &[&str] = &[
    "SET sK W",
    "SET sK N",
    "SET sK W PXAT 17000000N",
    "HSET hK W W W N N W",
    "HSET fK W W W N",
    "HPEXPIRE fK 5000N FIELDS 1 W",
    "HDEL hK W",
    "SADD tK W N W",
    "SREM tK W",
    "ZADD zK N W -0.N W",
    "ZADD zK inf W",
    "RPUSH lK W N W",
    "LPOP lK",
    "PEXPIRE lK 60000N",
    "XADD xK * W W N N",
    "XADD xK * W W",
    "XADD xK MAXLEN 3 * W N",
    "XGROUP CREATE xK gK $ MKSTREAM",
    "XGROUP CREATE xK gK 0 MKSTREAM",
    "XREADGROUP GROUP gK cK COUNT 2 STREAMS xK >",
    "JSON.SET jK $ {\"a\":[N,\"W\"]}",
    "DEL xK",
    "SETRANGE sK N W",
    "PFADD sK W",
];

fn word(rng: &mut Rng) -> String {
    let letter = char::from(b'a' + rng.below(4) as u8);
    let length = [1, 3, 20, 21, 63, 64, 300, 20_000][rng.below(8) as usize];
    if rng.chance(1, 2) { letter.to_string() } else { format!("{letter}W").repeat(length / 2 + 1) }
}

#[test]
fn whatever_keys_hold_comes_back() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut tree = Tree::new();
        for step in 0..400 {
            let template = COMMANDS[rng.below(COMMANDS.len() as u64) as usize];
            let words: Vec<String> = template
                .split(' ')
                .map(|part| {
                    let number = [0, 7, 200, 40_000, 3_000_000_000][rng.below(5) as usize] + rng.below(30);
                    let part = part.replace('K', &rng.below(4).to_string());
                    // A word with capitals in it is replaced once.
                    match part.as_str() {
                        "W" => word(&mut rng),
                        part => part.replace('N', &(number % 1_000_000).to_string()).replace('W', "w"),
                    }
                })
                .collect();
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            run(&mut tree, NOW + step, &words);
        }
        let items = items(&file_of(&[&tree], NOW + 400).0, 1 + rng.below(3000) as usize);
        let trees = loaded(&items, 1);
        let Reply::Array(keys) = ask(&tree, "KEYS *") else { panic!("an array") };
        assert!(keys.len() > 12 && keys.len() as u64 == trees[0].len(), "seed {seed}: {} keys", keys.len());
        for key in keys {
            let Reply::Bulk(key) = key else { panic!("a key") };
            for question in ["DUMP", "PEXPIRETIME", "TYPE"] {
                let line = format!("{question} {}", String::from_utf8_lossy(&key));
                assert_eq!(ask(&trees[0], &line), ask(&tree, &line), "seed {seed}: {line}");
            }
        }
    }
}
