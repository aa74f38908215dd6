//! Trimming with `~` takes whole blocks, and these end where the nodes of a Redis end.

use crate::server::Redis;
use base::versions::{NEWEST, OLDEST};
use base::{Rng, WallTime};
use data::{EntryContext, Reply, Tree, apply};

fn run(tree: &mut Tree, version: u16, words: &[String]) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    apply(tree, &EntryContext { time: WallTime(1), version, ..EntryContext::default() }, &words).reply
}

fn split(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Four entries of which each is a block, and twelve of a thousand bytes.
fn large_entries(version: u16) -> Tree {
    let mut tree = Tree::new();
    for number in 1..=16 {
        let value = "v".repeat(if number <= 4 { 5000 } else { 1000 });
        run(&mut tree, version, &split(&format!("XADD s {number}-0 f {value}")));
    }
    tree
}

#[test]
fn whole_blocks_go_within_the_limit_as_in_a_redis() {
    // The answers of a Redis 7.0.15.
    let lines = [
        ("XTRIM s MAXLEN ~ 0 LIMIT 1", 1),
        ("XTRIM s MAXLEN ~ 0 LIMIT 2", 2),
        ("XTRIM s MINID ~ 5-0", 1),
        ("XTRIM s MAXLEN ~ 0 LIMIT 2", 0),
        ("XTRIM s MAXLEN ~ 0 LIMIT 3", 0),
        ("XTRIM s MAXLEN ~ 0 LIMIT 7", 4),
        ("XTRIM s MAXLEN ~ 5", 0),
        ("XTRIM s MAXLEN ~ 4", 4),
        ("XLEN s", 4),
        ("XTRIM s MAXLEN ~ 0", 4),
    ];
    let mut tree = large_entries(NEWEST);
    for (line, expected) in lines {
        assert_eq!(run(&mut tree, NEWEST, &split(line)), Reply::Integer(expected), "{line}");
    }
    // An entry of before means on every replica what it meant: there a block took the entry with which it passed its bytes.
    let mut before = large_entries(OLDEST);
    assert_eq!(run(&mut before, OLDEST, &split("XTRIM s MAXLEN ~ 0 LIMIT 7")), Reply::Integer(4));
    assert_eq!(
        run(&mut before, OLDEST, &split("XTRIM s MAXLEN ~ 0 LIMIT 4")),
        Reply::Integer(0),
        "there are five in it"
    );
}

/// `REDIS_SERVER=redis-server cargo test -p data --test it trimming:: -- --ignored`
#[test]
#[ignore = "needs the program of a Redis"]
fn a_redis_trims_as_much() {
    let program = std::env::var("REDIS_SERVER").expect("REDIS_SERVER names the program");
    let mut redis = Redis::start(&program);
    for seed in 0..200 {
        let (mut rng, mut tree, mut last) = (Rng::new(seed), Tree::new(), 0);
        let key = format!("s{seed}");
        for _ in 0..60 {
            let limits = [0, 1, 2, 50, 100, 150, 1000];
            let lengths = [0, 1, 10, 100, 150];
            let limit = if rng.below(3) > 0 { format!(" LIMIT {}", rng.pick(&limits)) } else { String::new() };
            let (length, from) = (*rng.pick(&lengths), rng.below(last + 2));
            let mut lines = Vec::new();
            match rng.below(10) {
                0..5 => {
                    for _ in 0..*rng.pick(&[1, 5, 30, 120]) {
                        last += 1;
                        // Where it is the bytes of many entries that end a block, it ends about there: how they are counted differs.
                        let value = "v".repeat(*rng.pick(&[1, 1, 1, 10, 5000]));
                        lines.push(format!("XADD {key} {last}-0 f {value}"));
                    }
                }
                5..8 => lines.push(format!("XTRIM {key} MAXLEN ~ {length}{limit}")),
                8 => lines.push(format!("XTRIM {key} MINID ~ {from}-0{limit}")),
                _ => {
                    last += 1;
                    lines.push(format!("XADD {key} MAXLEN ~ {length}{limit} {last}-0 f v"));
                }
            }
            lines.push(format!("XLEN {key}"));
            for line in lines {
                let words = split(&line);
                let ours = run(&mut tree, NEWEST, &words);
                let theirs = redis.run(&words.iter().map(|word| word.clone().into_bytes()).collect::<Vec<_>>());
                if let Reply::Integer(count) = ours {
                    assert_eq!(theirs, [format!("(integer) {count}")], "seed {seed}: {line}");
                }
            }
        }
    }
}
