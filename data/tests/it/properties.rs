//! Properties of the state machine under drawn entries: replicas agree, images come back, totals are right.

use base::versions::NEWEST;
use base::{Revision, WallTime};
use data::{
    Applied, ChangeKind, EntryContext, KeyRef, Reply, Restorer, Tally, Tree, View, apply, apply_once,
    apply_transaction, expire_due, read,
};
use proptest::prelude::*;
use std::ops::Bound;

/// One drawn entry of the log.
#[derive(Clone, Debug)]
enum Drawn {
    Command(Vec<Vec<u8>>),
    Transaction(Vec<(Vec<u8>, u64)>, Vec<Vec<Vec<u8>>>),
    Once(u8, Vec<Vec<u8>>),
    Expire(usize),
}

/// Commands with few keys and values, so that they meet.
const COMMANDS: &[&str] = &[
    "SET K V",
    "SET K V PX T",
    "SET K V NX GET",
    "SET K V XX KEEPTTL",
    "SET K V IFNE V",
    "GET K",
    "GETEX K PX T",
    "GETEX K PERSIST",
    "GETDEL K",
    "GETSET K V",
    "SETNX K V",
    "PSETEX K T V",
    "MSET K V K V",
    "MSETNX K V K V",
    "MSETEX 2 K V K V PX T",
    "APPEND K V",
    "SETRANGE K 5 V",
    "GETRANGE K 1 -2",
    "STRLEN K",
    "INCR K",
    "DECRBY K 3",
    "INCRBYFLOAT K 0.1",
    "DELEX K IFEQ V",
    "DEL K K",
    "UNLINK K",
    "EXISTS K K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K REPLACE",
    "PEXPIRE K T",
    "PEXPIRE K T GT",
    "PEXPIRE K -1",
    "PEXPIREAT K 1000",
    "PERSIST K",
    "PTTL K",
    "DBSIZE",
    "RANDOMKEY",
    "MGET K K K",
    "SETBIT K 77 1",
    "JSON.SET K $ {\"a\":[1,\"x\",{}],\"b\":true}",
    "JSON.SET K $.a[0] [2.5]",
    "JSON.SET K $.c null NX",
    "JSON.MSET K $ [] K $ {\"a\":[]}",
    "JSON.MERGE K $ {\"b\":{\"c\":1}}",
    "JSON.ARRAPPEND K $.a 3 {}",
    "JSON.ARRPOP K $..a",
    "JSON.NUMINCRBY K $..* 1",
    "JSON.TOGGLE K .b",
    "JSON.CLEAR K $.*",
    "JSON.DEL K $.a",
    "JSON.GET K $..a $.b",
    "JSON.TYPE K $..*",
    "HSET K F V",
    "HSET K F V F V F V F V F V",
    "HSETNX K F V",
    "HMSET K F V",
    "HDEL K F F",
    "HGETDEL K FIELDS 2 F F",
    "HINCRBY K F 2",
    "HINCRBYFLOAT K F 0.5",
    "HPEXPIRE K T FIELDS 1 F",
    "HPEXPIRE K T FIELDS 2 F F",
    "HPEXPIRE K T GT FIELDS 1 F",
    "HPERSIST K FIELDS 1 F",
    "HSETEX K PX T FIELDS 2 F V F V",
    "HSETEX K FNX KEEPTTL FIELDS 1 F V",
    "HGETEX K PX T FIELDS 1 F",
    "HGET K F",
    "HGETALL K",
    "HRANDFIELD K 3 WITHVALUES",
    "SADD K F",
    "SADD K F F F F F F F",
    "SREM K F F",
    "SPOP K",
    "SPOP K 2",
    "SMOVE K K F",
    "SINTERSTORE K K K",
    "SUNIONSTORE K K K",
    "SDIFFSTORE K K K",
    "SMEMBERS K",
    "SRANDMEMBER K 3",
    "LPUSH K V",
    "RPUSH K F F F F F",
    "LPOP K",
    "RPOP K 2",
    "LSET K 0 V",
    "LTRIM K 1 -2",
    "LINSERT K AFTER F V",
    "LREM K 0 F",
    "LMOVE K K LEFT RIGHT",
    "LMPOP 2 K K RIGHT COUNT 3",
    "LRANGE K 0 -1",
    "XADD K * f V",
    "XADD K * f V g V",
    "XADD K MAXLEN 3 * f V",
    "XADD K MAXLEN ~ 2 * f V",
    "XTRIM K MAXLEN 1",
    "XTRIM K MINID T",
    "XDEL K T 1010 1020-1",
    "XDELEX K IDS 3 T 1010 1020-1",
    "XDELEX K ACKED IDS 4 T 1000 1010 1020",
    "XDELEX K DELREF IDS 4 T 1000 1010 1020",
    "XGROUP CREATE K G 0 MKSTREAM",
    "XGROUP CREATE K G 0 MKSTREAM",
    "XGROUP DESTROY K G",
    "XGROUP DELCONSUMER K G F",
    "XREADGROUP GROUP G F STREAMS K >",
    "XREADGROUP GROUP G F COUNT 1 STREAMS K >",
    "XREADGROUP GROUP G F STREAMS K 0",
    "XACK K G 1010-0 1020-0 1030-0",
    "XACKDEL K G IDS 3 1010-0 1020-0 1030-0",
    "XACKDEL K G ACKED IDS 3 1010-0 1020-0 1030-0",
    "XACKDEL K G DELREF IDS 3 1010-0 1020-0 1030-0",
    "XAUTOCLAIM K G F 0 0 COUNT 2",
    "XCLAIM K G F 0 1010-0 1020-0 FORCE",
    "XSETID K 5000",
    "XREVRANGE K + -",
    "ZADD K 1 F",
    "ZADD K T F T F T F T F T F",
    "ZADD K GT CH T F 3 F",
    "ZADD K INCR 2 F",
    "ZINCRBY K -1.5 F",
    "ZREM K F F",
    "ZPOPMIN K",
    "ZPOPMAX K 2",
    "ZMPOP 2 K K MIN",
    "ZREMRANGEBYRANK K 1 2",
    "ZREMRANGEBYSCORE K 50 100",
    "ZRANGESTORE K K 0 2",
    "ZUNIONSTORE K 2 K K",
    "ZINTERSTORE K 2 K K WEIGHTS 2 1",
    "ZDIFFSTORE K 2 K K",
    "ZRANGE K 0 -1 WITHSCORES",
    "ZRANDMEMBER K 2",
    "PFADD K F F F",
    "PFMERGE K K",
    "PFCOUNT K",
    "BITOP XOR K K K",
    "FLUSHALL",
    "NONSENSE K",
    "GET",
];

/// Those of them that only look, but `DBSIZE`, which counts what nothing has touched since its deadline.
const READS: &[&str] = &[
    "GET K",
    "GETRANGE K 1 -2",
    "STRLEN K",
    "EXISTS K K",
    "PTTL K",
    "TTL K",
    "RANDOMKEY",
    "MGET K K K",
    "TYPE K",
    "HGET K F",
    "HMGET K F F",
    "HGETALL K",
    "HKEYS K",
    "HVALS K",
    "HLEN K",
    "HSTRLEN K F",
    "HEXISTS K F",
    "HSCAN K 0",
    "HPTTL K FIELDS 1 F",
    "PFCOUNT K",
    "PFCOUNT K K",
    "SISMEMBER K F",
    "SMISMEMBER K F F",
    "SMEMBERS K",
    "SCARD K",
    "SINTER K K",
    "SINTERCARD 2 K K LIMIT 2",
    "SUNION K K",
    "SDIFF K K",
    "SSCAN K 0",
    "ZSCORE K F",
    "ZCARD K",
    "ZCOUNT K 10 100",
    "ZRANK K F",
    "ZREVRANK K F WITHSCORE",
    "ZRANGE K 0 -1 REV WITHSCORES",
    "ZRANGE K 1 150 BYSCORE LIMIT 1 2",
    "ZUNION 2 K K WITHSCORES",
    "ZINTERCARD 2 K K",
    "ZSCAN K 0",
    "XLEN K",
    "XRANGE K - +",
    "XREVRANGE K + - COUNT 2",
    "XREAD STREAMS K K 0 $",
    "XPENDING K G",
    "XPENDING K G - + 5",
    "XINFO STREAM K FULL",
    "XINFO GROUPS K",
    "XINFO CONSUMERS K G",
    "DUMP K",
    "OBJECT ENCODING K",
];

fn command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    command_of(COMMANDS)
}

fn command_of(templates: &'static [&'static str]) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let word = (0..12u8, 0..6u8, 1..200u16);
    (prop::sample::select(templates), prop::collection::vec(word, 12)).prop_map(|(template, words)| {
        let mut words = words.into_iter();
        template
            .split(' ')
            .map(|part| {
                let (key, value, time) = words.next().unwrap_or((0, 0, 1));
                match part {
                    "K" => format!("key:{key}{}", "-long".repeat(usize::from(key % 3) * 3)).into_bytes(),
                    "F" => format!("field:{}{}", key % 5, "-long".repeat(usize::from(key % 2) * 4)).into_bytes(),
                    "V" if value == 0 => Vec::new(),
                    "V" if value < 3 => format!("{value}").into_bytes(),
                    "V" => vec![value; usize::from(value) * 9],
                    "T" => format!("{time}").into_bytes(),
                    word => word.as_bytes().to_vec(),
                }
            })
            .collect()
    })
}

/// Clocks, the absurd ones included.
const CLOCKS: &[u64] = &[0, 1_800_000_000_000, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX - 1, u64::MAX];

/// Any command of the table with arguments that are words of any command, numbers at the edges, or noise.
fn anything() -> impl Strategy<Value = Vec<Vec<u8>>> {
    const WORDS: &str = "a a a b c NX XX GT LT GET EX PX EXAT PXAT KEEPTTL PERSIST REPLACE DB IFEQ IFNE IFDEQ IFDNE \
        0123456789abcdef IFREVISION AND OR XOR NOT DIFF ONE BYTE BIT SET INCRBY OVERFLOW WRAP SAT FAIL u8 i64 u63 #3 LEN IDX \
        MINMATCHLEN WITHMATCHLEN ENCODING HELP USAGE SAMPLES MATCH COUNT TYPE string * [a-c]* ABSTTL IDLETIME FREQ ASYNC WITHVALUES NOVALUES FIELDS FNX FXX FROMLONLAT FROMMEMBER BYRADIUS BYBOX km ASC DESC ANY STORE STOREDIST BY a->b *->f # ALPHA LIMIT WITHSCORES BYSCORE BYLEX REV CH INCR WEIGHTS AGGREGATE SUM MIN MAX WITHSCORE STREAMS GROUP BLOCK NOACK MAXLEN MINID ~ = CREATE SETID DESTROY CREATECONSUMER DELCONSUMER MKSTREAM ENTRIESREAD IDLE JUSTID FORCE LASTID \
        RETRYCOUNT TIME STREAM GROUPS CONSUMERS FULL 1-1 2-0 5-* (1-0 $ > - + [a (b (1 -inf inf nan \
        0 1 2 3 -1 -5 7 100 1.5 1e400 -1e4000 9223372036854775807 -9223372036854775808 9223372036854775808 \
        18446744073709551615 4294967295 4294967296 1000000000000000";
    let words: Vec<&[u8]> = WORDS.split_whitespace().map(str::as_bytes).collect();
    let word = prop_oneof![
        8 => prop::sample::select(words).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    let names: Vec<&str> = data::commands::COMMANDS.iter().map(|entry| entry.spec.name).collect();
    (prop::sample::select(names), prop::collection::vec(word, 0..7)).prop_map(|(name, words)| {
        // Offsets that are allowed and huge would only fill the machine's memory.
        let limit = if name.starts_with("set") || name == "bitfield" { 1_000_000 } else { u64::MAX };
        let fits = |word: &Vec<u8>| {
            let number =
                std::str::from_utf8(word).ok().and_then(|text| text.trim_start_matches('#').parse::<u64>().ok());
            number.is_none_or(|number| number < limit || number > 1 << 33)
        };
        let mut command = vec![name.as_bytes().to_vec()];
        command.extend(words.into_iter().filter(fits));
        command
    })
}

fn entry() -> impl Strategy<Value = (u64, Drawn)> {
    let watch = (0..12u8, 0..40u64).prop_map(|(key, revision)| (format!("key:{key}").into_bytes(), revision));
    let drawn = prop_oneof![
        12 => command().prop_map(Drawn::Command),
        2 => (prop::collection::vec(watch, 0..2), prop::collection::vec(command(), 0..4))
            .prop_map(|(watches, commands)| Drawn::Transaction(watches, commands)),
        2 => (0..20u8, command()).prop_map(|(id, command)| Drawn::Once(id, command)),
        1 => (0..4usize).prop_map(Drawn::Expire),
    ];
    (0..60u64, drawn)
}

fn slices(command: &[Vec<u8>]) -> Vec<&[u8]> {
    command.iter().map(Vec::as_slice).collect()
}

fn run(tree: &mut Tree, context: &EntryContext, drawn: &Drawn) -> Applied {
    match drawn {
        Drawn::Command(command) => apply(tree, context, &slices(command)),
        Drawn::Transaction(watches, commands) => {
            let watches: Vec<_> = watches.iter().map(|(key, revision)| (&key[..], Revision(*revision))).collect();
            let commands: Vec<_> = commands.iter().map(|command| slices(command)).collect();
            let commands: Vec<&[&[u8]]> = commands.iter().map(Vec::as_slice).collect();
            apply_transaction(tree, context, &watches, &commands)
        }
        Drawn::Once(id, command) => apply_once(tree, context, &[*id], &slices(command)),
        Drawn::Expire(limit) => expire_due(tree, context, *limit),
    }
}

fn restored(tree: &Tree, block_bytes: usize) -> Tree {
    let mut image = tree.image().with_block_bytes(block_bytes);
    let mut restorer = Restorer::new();
    let mut block = Vec::new();
    while image.next_block(&mut block) {
        restorer.push_block(&block).expect("a block of our own");
        block.clear();
    }
    restorer.finish().expect("an image of our own")
}

/// What follows from the records is what the tree keeps beside them.
fn check_totals(tree: &Tree) {
    let records: Vec<_> = tree.records(Bound::Unbounded).collect();
    assert!(records.is_sorted_by(|(a, _), (b, _)| a < b));
    assert_eq!(records.len() as u64, tree.len());
    assert_eq!(records.iter().map(|(key, record)| record.bytes(&key.key)).sum::<u64>(), tree.bytes());
    let mut tally = Tally::default();
    records.iter().for_each(|(_, record)| tally.say(&record.value));
    tree.check_elements(tally, &mut |_| ()).unwrap();
    let deadlines: Vec<_> = records.iter().filter_map(|(_, record)| record.deadline()).collect();
    assert_eq!(deadlines.len() as u64, tree.volatile_len());
    let expires = |record: &data::Record| record.value.collection().is_some_and(data::Collection::has_deadlines);
    match deadlines.iter().min().copied() {
        soonest if !records.iter().any(|(_, record)| expires(record)) => assert_eq!(soonest, tree.next_deadline()),
        // Fields may be due before any key; that the index of them is right the tally says.
        soonest => assert!(tree.next_deadline().is_some_and(|next| soonest.is_none_or(|soonest| next <= soonest))),
    }
    assert!(
        records.iter().all(|(key, record)| key.as_ref() == KeyRef::new(&key.key) && record.revision <= tree.revision())
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn replicas_agree_and_images_come_back(entries in prop::collection::vec(entry(), 1..60), cut in 0..60usize) {
        let (mut one, mut other) = (Tree::new(), Tree::new());
        let mut time = 1000;
        for (index, (step, drawn)) in entries.iter().enumerate() {
            // A new leader's clock may be behind.
            time = time + step - (*step).min(20);
            let context = EntryContext { time: WallTime(time), seed: *step, ..EntryContext::default() };
            let before = one.revision();
            let (first, second) = (run(&mut one, &context, drawn), run(&mut other, &context, drawn));
            prop_assert_eq!(&first, &second);
            let revisions: Vec<u64> = first.changes.iter().map(|change| change.revision.0).collect();
            prop_assert!(revisions.into_iter().eq(before.0 + 1..=one.revision().0));
            check_totals(&one);
            if index == cut {
                // One of the replicas goes on from a snapshot.
                other = restored(&other, 64);
            }
        }
        prop_assert_eq!(one.digest(), other.digest());
        prop_assert_eq!(one.digest(), restored(&one, 1 << 20).digest());
        check_totals(&other);
    }

    #[test]
    fn a_frozen_image_does_not_change(entries in prop::collection::vec(entry(), 2..40)) {
        let mut tree = Tree::new();
        let (before, after) = entries.split_at(entries.len() / 2);
        for (step, drawn) in before {
            run(&mut tree, &EntryContext { time: WallTime(1000 + step), seed: 0, ..EntryContext::default() }, drawn);
        }
        let (digest, image) = (tree.digest(), tree.image());
        for (step, drawn) in after {
            run(&mut tree, &EntryContext { time: WallTime(1000 + step), seed: 0, ..EntryContext::default() }, drawn);
        }
        prop_assert_eq!(image.digest(), digest);
    }

    #[test]
    fn an_image_is_resumed_at_any_block(entries in prop::collection::vec(entry(), 1..40), skipped in 0..10u64) {
        let mut tree = Tree::new();
        for (step, drawn) in &entries {
            run(&mut tree, &EntryContext { time: WallTime(1000 + step), seed: 0, ..EntryContext::default() }, drawn);
        }
        let blocks = |mut image: data::Image| {
            let mut blocks = Vec::new();
            loop {
                let mut block = Vec::new();
                if !image.next_block(&mut block) {
                    return blocks;
                }
                blocks.push(block);
            }
        };
        let whole = blocks(tree.image().with_block_bytes(50));
        let mut resumed = tree.image().with_block_bytes(50);
        resumed.skip_blocks(skipped);
        prop_assert_eq!(&whole[whole.len().min(skipped as usize)..], &blocks(resumed)[..]);
    }

    #[test]
    fn damaged_images_are_refused_or_read_but_never_panic(
        entries in prop::collection::vec(entry(), 1..30),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        noise in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut tree = Tree::new();
        for (step, drawn) in &entries {
            run(&mut tree, &EntryContext { time: WallTime(1000 + step), seed: 0, ..EntryContext::default() }, drawn);
        }
        let mut image = tree.image().with_block_bytes(100);
        let mut restorer = Restorer::new();
        let mut block = Vec::new();
        while image.next_block(&mut block) {
            for (index, byte) in &flips {
                let index = index.index(block.len());
                block[index] ^= byte;
            }
            if restorer.push_block(&block).is_err() {
                break;
            }
            block.clear();
        }
        if let Ok(mut tree) = restorer.finish() {
            apply(&mut tree, &EntryContext::default(), &[b"SET", b"a", b"b"]);
        }
        let _ = Restorer::new().push_block(&noise);
    }

    /// A read says the same as the same command in an entry at the same time, or that an expiry entry is due first.
    #[test]
    fn reads_agree_with_entries(
        entries in prop::collection::vec(entry(), 1..40),
        asked in command_of(READS),
        later in 0..300u64,
    ) {
        let mut tree = Tree::new();
        for (step, drawn) in &entries {
            run(&mut tree, &EntryContext { time: WallTime(1000 + step), seed: 0, ..EntryContext::default() }, drawn);
        }
        let asked = slices(&asked);
        let clock = WallTime(1060 + later);
        let view = View::new(&tree, clock, 0);
        let mut reply = read(&view, &asked);
        let met_expired = view.met_expired();
        let mut replica = tree.clone();
        let context = EntryContext { time: clock, seed: 0, ..EntryContext::default() };
        if met_expired {
            expire_due(&mut tree, &context, 1);
            let view = View::new(&tree, clock, 0);
            reply = read(&view, &asked);
            prop_assert!(!view.met_expired());
        }
        if asked[0].eq_ignore_ascii_case(b"RANDOMKEY") {
            prop_assert_eq!(reply == Reply::Nil, apply(&mut replica, &context, &asked).reply == Reply::Nil);
        } else {
            prop_assert_eq!(reply, apply(&mut replica, &context, &asked).reply);
        }
    }

    /// Whatever a client sends: no panic, an error changes nothing, and what is refused early is refused in the log too.
    #[test]
    fn no_argument_panics(commands in prop::collection::vec(anything(), 1..30), clock in prop::sample::select(CLOCKS)) {
        let mut tree = Tree::new();
        let context = EntryContext { time: WallTime(clock), seed: 3, version: NEWEST, ..EntryContext::default() };
        for command in &commands {
            let command = slices(command);
            let checked = data::check(&command);
            let (before, keys) = (tree.revision(), tree.len());
            let view = View::new(&tree, context.time, 0);
            let _ = read(&view, &command);
            let applied = apply(&mut tree, &context, &command);
            match (checked, &applied.reply) {
                (Err(failure), Reply::Error(applied)) => prop_assert_eq!(&failure, applied),
                (Err(failure), reply) => prop_assert!(false, "{} was applied: {:?}", failure, reply),
                (Ok(entry), _) => {
                    let _ = entry.spec.keys_of(&command);
                }
            }
            let expired = applied.changes.iter().filter(|change| change.kind == ChangeKind::Expired).count() as u64;
            if let Reply::Error(failure) = &applied.reply {
                prop_assert!(!failure.to_string().contains(['\r', '\n']));
                prop_assert_eq!((before.0 + expired, keys - expired), (tree.revision().0, tree.len()));
            }
            check_totals(&tree);
        }
        prop_assert_eq!(tree.digest(), restored(&tree, 1000).digest());
    }
}
