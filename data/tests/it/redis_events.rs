//! Compares what changes are called with what a real Redis calls them, command by command.
//!
//! Not run by default, since it needs the server's program: `REDIS_SERVER=redis-server cargo test -p data --test it redis_events:: -- --ignored --nocapture`.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read files and clocks")]

use crate::draw::{About, draw};
use crate::server::Redis;
use crate::transcript::{lines, pages, split};
use base::{Rng, WallTime};
use data::{EntryContext, Tree, View, apply, check, expire_due, read};
use std::io::BufReader;
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

/// Starts of commands that are not compared, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("DICTUM.", "ours"),
    ("JSON.", "a module"),
    ("DELEX", "8.4"),
    ("DIGEST", "8.4"),
    ("MSETEX", "8.4"),
    ("HGETDEL", "8.0"),
    ("BITOP DIFF", "8.2"),
    ("BITOP diff1", "8.2"),
    ("BITOP ANDOR", "8.2"),
    ("BITOP ONE", "8.2"),
    ("SPOP", "chance"),
    ("RESTORE packed-set", "7.2"),
    ("XGROUP CREATECONSUMER", "since 7.2 who asks becomes a consumer, whether it gets something or not"),
    ("XGROUP DELCONSUMER", "the same"),
    ("MEMORY", "it has no events, and its answers are our own"),
];

/// Words of commands that are not compared, and why.
const DIFFERENT_WORDS: &[(&str, &str)] = &[
    ("EXAT", "a deadline that has passed removes the key at once; in Redis it stays until it is met"),
    ("PXAT", "the same"),
    ("ABSTTL", "the same"),
    ("FAIL", "BITFIELD makes a value longer before it fails, and does not say so"),
    ("IFEQ", "8.4"),
    ("IFNE", "8.4"),
    ("IFDEQ", "8.4"),
    ("IFDNE", "8.4"),
];

/// Events that a Redis has beside the one that a command is named for, and why they are not here: the commands, how the event begins.
const UNSAID: &[(&[&str], &str, &str)] = &[
    (&["XADD"], "xtrim", "one change has one name"),
    (
        &["XREADGROUP", "XCLAIM", "XAUTOCLAIM"],
        "xgroup-createconsumer",
        "what a group gives out is nobody's event, and names no change",
    ),
];

fn now() -> WallTime {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    WallTime(u64::try_from(elapsed.as_millis()).expect("fits for ages"))
}

/// Runs a command here: its answer, and the events as `name key`.
fn run(tree: &mut Tree, args: &[Vec<u8>]) -> (Vec<String>, Vec<String>) {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let context = EntryContext { time: now(), seed: 1, names_events: true, ..EntryContext::default() };
    let told = |events: Vec<data::KeyEvent>| {
        events.into_iter().map(|event| format!("{} {}", event.name, String::from_utf8_lossy(&event.key))).collect()
    };
    match check(&args) {
        Err(failure) => (lines(&data::Reply::Error(failure)), Vec::new()),
        Ok(entry) if entry.is_write() => {
            let applied = apply(tree, &context, &args);
            (lines(&applied.reply), told(applied.events))
        }
        Ok(_) => {
            let expired = expire_due(tree, &context, 1000);
            (lines(&read(&View::new(tree, context.time, 1), &args)), told(expired.events))
        }
    }
}

/// The events since the last time.
fn theirs(redis: &mut Redis, listening: &mut Option<BufReader<TcpStream>>) -> Vec<String> {
    redis.swap(listening);
    let mut events = Vec::new();
    let mut message = redis.run(&split("PING"));
    while !message[0].contains("pong") {
        let quoted = |line: &String| line.split_once(") ").map_or("", |(_, text)| text).trim_matches('"').to_owned();
        let (channel, key) = (quoted(&message[2]), quoted(&message[3]));
        events.push(format!("{} {key}", channel.trim_start_matches("__keyevent@0__:")));
        message = redis.reply();
    }
    redis.swap(listening);
    events
}

#[test]
#[ignore = "needs a Redis server, see above"]
fn events_are_those_of_redis() {
    let program = std::env::var("REDIS_SERVER").expect("REDIS_SERVER names the program");
    let mut redis = Redis::start(&program);
    redis.run(&split("CONFIG SET notify-keyspace-events AKEn"));
    let mut listening = None;
    redis.swap(&mut listening);
    redis.run(&split("PSUBSCRIBE __keyevent@0__:*"));
    redis.swap(&mut listening);
    let mut conversations: Vec<Vec<String>> = Vec::new();
    for (_, _, page) in pages() {
        for block in page.split("```dictum\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            let part = block.split(" later)\n").next().unwrap_or_default();
            conversations.push(part.lines().filter_map(|line| line.strip_prefix("> ")).map(str::to_owned).collect());
        }
    }
    let mut rng = Rng::new(7);
    for round in 0..2000 {
        let about = match round % 14 {
            13 => About::Named("X"),
            0..4 => About::Everything,
            8 => About::Named("L"),
            9 => About::Sketches,
            10 => About::Counted,
            11 => About::Sorted,
            12 => About::Places,
            4 => About::Named("H"),
            5 => About::Named("S"),
            6 => About::Named("Z"),
            _ => About::Words,
        };
        conversations.push((0..40).map(|_| draw(&mut rng, about)).collect());
    }
    let (mut differences, mut events, mut commands) = (Vec::new(), 0, 0);
    for conversation in conversations {
        redis.run(&split("FLUSHALL"));
        theirs(&mut redis, &mut listening);
        let mut tree = Tree::new();
        let mut before = String::new();
        for command in conversation {
            let words: Vec<String> = command.split(' ').map(str::to_ascii_uppercase).collect();
            let soon = ["PX", "PSETEX", "PEXPIRE", "EXPIRE", "EXPIREAT", "PEXPIREAT", "EX", "SETEX", "RESTORE"];
            // Neither are those whose deadline passes while they go on.
            let short = words.iter().any(|word| soon.contains(&word.as_str()))
                && words.iter().any(|word| word.parse().is_ok_and(|number: i64| (1..10_000).contains(&number)));
            if short
                || DIFFERENT.iter().any(|(start, _)| command.starts_with(start))
                || DIFFERENT_WORDS.iter().any(|(word, _)| words.iter().any(|it| it == word))
            {
                continue;
            }
            let args = split(&command);
            let (our_reply, ours) = run(&mut tree, &args);
            let their_reply = redis.run(&args);
            let fails = |reply: &[String]| reply[0].starts_with("(error)");
            let mut theirs = theirs(&mut redis, &mut listening);
            let unsaid = |event: &str| {
                UNSAID.iter().any(|(names, said, _)| names.contains(&&*words[0]) && event.starts_with(said))
            };
            theirs.retain(|event| !unsaid(event));
            if fails(&our_reply) != fails(&their_reply) {
                // What is refused on one side only is known, and looked at elsewhere.
                break;
            }
            commands += 1;
            events += theirs.len();
            // Keys are printed with escapes there.
            let plain = |all: &[String]| -> Vec<String> { all.iter().map(|it| it.replace('\\', "")).collect() };
            // A trim that takes nothing away is an event in Redis; here nothing has changed.
            let trims_nothing = words[0] == "LTRIM" && ours.is_empty();
            if plain(&ours) != plain(&theirs) && !trims_nothing {
                differences.push(format!("after\n{before}{command}\n  ours:   {ours:?}\n  theirs: {theirs:?}"));
                break;
            }
            before.push_str(&format!("  {command}\n"));
        }
    }
    println!("{events} events of {commands} commands compared");
    let shown = differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} differences:\n{shown}", differences.len());
    assert!(events > 10_000, "{events}");
}
