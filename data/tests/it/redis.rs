//! Compares answers with those of a real Redis, command by command.
//!
//! Not run by default, since it needs the server's program:
//! `REDIS_SERVER=redis-server cargo test -p data --test it redis:: -- --ignored --nocapture`. Written against 7.0; commands
//! and options that are newer are left out (and `LPOS … RANK` of the lowest number, which is refused since 7.2), and so is what is known and meant to differ (see [`DIFFERENT`]).
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read files and clocks")]

use crate::draw::{About, draw};
use crate::server::Redis;
use crate::transcript::{Session, lines, pages, split};
use base::{Rng, WallTime};
use data::Tree;
use std::time::{SystemTime, UNIX_EPOCH};

/// Starts of commands that Redis 7.0 does not know, or that are answered differently on purpose, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("DICTUM.", "ours"),
    ("JSON.", "a module"),
    ("DIGEST", "8.4"),
    ("DELEX", "8.4"),
    ("MSETEX", "8.4"),
    ("BITOP DIFF", "8.2"),
    ("BITOP diff1", "8.2"),
    ("BITOP ANDOR", "8.2"),
    ("BITOP ONE", "8.2"),
    ("RANDOMKEY", "chance"),
    ("HRANDFIELD", "chance"),
    ("RESTORE packed-set", "7.2"),
    ("SRANDMEMBER", "chance"),
    ("ZRANDMEMBER", "chance"),
    ("ZRANK results", "WITHSCORE is of 7.2"),
    ("ZREVRANK results", "the same"),
    ("ZSCAN", "as HSCAN"),
    ("SPOP", "chance"),
    ("HGETDEL", "8.0"),
    ("RESTORE user 0 \"\\x19", "7.4"),
    ("SORT ages STORE", "there are no lists yet"),
    ("GET sketch", "PFCOUNT writes what it has counted there"),
    ("HSCAN", "a short hash is one page there, and the order of fields is our own"),
    ("SSCAN", "the same"),
    ("DBSIZE", "what has expired and is not removed yet counts, and that differs"),
    ("SCAN", "the order of keys is our own"),
    ("KEYS", "the order of keys is our own"),
    ("MEMORY", "sizes are our own"),
    ("OBJECT FREQ", "it is known in buckets of the policy lfu"),
    ("OBJECT IDLETIME", "each node knows for itself how keys are used"),
    ("EVAL \"return redis.pcall('OBJECT', 'IDLETIME'", "so it is not for scripts, which every node runs"),
    ("OBJECT REFCOUNT", "Redis shares small integers"),
    ("OBJECT ENCODING", "how a value came about is no part of the state, so one that was edited is not raw for it"),
    ("XREAD STREAMS readings +", "7.4"),
    ("XINFO HELP", "our words"),
    ("XGROUP HELP", "our words"),
    ("FUNCTION LIST LIBRARYNAME my* WITHCODE", "the order of functions is our own"),
    ("OBJECT PXAT", "what is unknown to scripts there"),
    ("EVAL \"return redis.call('TIME')", "the clock"),
    ("DUMP", "a payload names its version"),
];

/// Scripts that run a command that follows.
const SCRIPTED: [&str; 2] = [
    "EVAL \"return redis.pcall(unpack(ARGV))\" 0 ",
    "EVAL \"redis.setresp(3) local answer = redis.pcall(unpack(ARGV)) return answer\" 0 ",
];

/// Commands whose wrong arguments are refused before the key is looked at, also if it does not exist; some of them
/// since 7.2 in Redis too.
const REFUSED_EARLY: &[&str] = &[
    "LINDEX",
    "BITCOUNT",
    "BITPOS",
    "GETEX",
    "SETRANGE",
    "BITFIELD",
    "INCRBY",
    "OBJECT",
    "RESTORE",
    "GEORADIUSBYMEMBER",
    "GEORADIUSBYMEMBER_RO",
    "XACK",
    "XDEL",
];

/// Starts of commands of 7.4, 8.0 and 8.2 behind which a Redis 7.0 has another state.
const NEWER: &[&str] = &["HEXPIRE", "HPEXPIRE", "HTTL", "HPTTL", "HPERSIST", "HGETEX", "HSETEX", "XDELEX", "XACKDEL"];

/// Whether two answers are the same, but for the moment at which a time was asked.
fn same(command: &str, ours: &[String], theirs: &[String]) -> bool {
    let number = |lines: &[String]| lines.first()?.strip_prefix("(integer) ")?.parse::<i64>().ok();
    let asks_time = ["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"].iter().any(|name| command.starts_with(name));
    if let (true, Some(ours), Some(theirs)) = (asks_time, number(ours), number(theirs)) {
        return ours == theirs || (ours > 0 && theirs > 0 && ours.abs_diff(theirs) < 1000);
    }
    // Redis 7.0 writes seventeen digits, needed or not. Members are no numbers here.
    let number = |line: &String| {
        let (place, text) = line.rsplit_once('"').and_then(|(line, _)| line.rsplit_once('"')).unwrap_or((line, ""));
        (place.to_owned(), text.parse::<f64>().map_or(text.to_owned(), |number| (number + 0.0).to_string()))
    };
    if (command.starts_with('Z') || command.starts_with("BZ")) && ours.iter().map(number).eq(theirs.iter().map(number))
    {
        return true;
    }
    if command.starts_with('X') {
        return same_of_stream(command, ours, theirs);
    }
    // The order of fields and members is our own.
    if ["HGETALL", "HKEYS", "HVALS", "SMEMBERS", "SINTER ", "SUNION ", "SDIFF "]
        .iter()
        .any(|name| command.starts_with(name))
    {
        return items(ours) == items(theirs);
    }
    // What stands elsewhere and is the same text is in no order there.
    let upper = command.to_uppercase();
    if upper.starts_with("SORT") && upper.contains(" ALPHA") && upper.contains(" BY ") {
        return items(ours) == items(theirs) || upper.contains(" LIMIT ") && ours.len() == theirs.len();
    }
    ours == theirs
}

/// The items of a list, sorted.
fn items(lines: &[String]) -> Vec<String> {
    let mut items: Vec<String> =
        lines.iter().map(|line| line.split_once(") ").map_or(line.as_str(), |(_, item)| item).to_owned()).collect();
    items.sort();
    items
}

/// Of streams: times since something was delivered are not asked at the same moment, and what is newer than 7.0 is left out.
fn same_of_stream(command: &str, ours: &[String], theirs: &[String]) -> bool {
    if ours[0].starts_with("(error)") {
        // 7.4 names the command, as its other errors do, and knows `+`.
        return ours == theirs
            || ours[0].starts_with("(error) ERR Unbalanced") && theirs[0].contains("Unbalanced")
            || ours[0].starts_with("(error) ERR The + ID is meaningless") && theirs[0].contains("Invalid stream ID");
    }
    if command.starts_with("XGROUP CREATECONSUMER") && theirs[0].starts_with("(integer)") {
        return ours[0].starts_with("(integer)");
    }
    if !["XINFO", "XPENDING"].iter().any(|name| command.starts_with(name)) {
        return ours == theirs;
    }
    // Without their numbers: there are fewer fields there.
    let items = |lines: &[String]| -> Vec<String> {
        let mut items: Vec<String> =
            lines.iter().map(|line| line.rsplit_once(") ").map_or(&line[..], |(_, item)| item).to_owned()).collect();
        for (at, name) in lines.iter().enumerate().rev() {
            if ["inactive", "active-time"].iter().any(|newer| name.ends_with(&format!(" \"{newer}\""))) {
                items.drain(at..at + 2);
            }
        }
        // Since 7.2 who asks becomes a consumer, whether it gets something or not: those that have nothing are left out.
        let has_nothing = |at: usize, items: &[String]| {
            let word = |at: usize, wanted: &str| items.get(at).is_some_and(|item| item == wanted);
            let shows = word(at + 2, "\"pending\"") && word(at + 3, "0") && word(at + 4, "\"idle\"");
            let shows_all = word(at + 2, "\"seen-time\"") && word(at + 4, "\"pel-count\"") && word(at + 5, "0");
            if shows {
                6
            } else if shows_all {
                8
            } else {
                0
            }
        };
        let mut at = 0;
        while at < items.len() {
            let count = has_nothing(at, &items);
            items.drain(at..at + count);
            at += usize::from(count == 0);
        }
        for at in (1..items.len()).rev() {
            if items[at] == "(empty array)" && items[at - 1] == "\"consumers\"" {
                items.remove(at);
            } else if items[at - 1] == "\"consumers\"" && command.starts_with("XINFO GROUPS") {
                items[at].clear();
            }
        }
        items.retain(|item| item != "(empty array)");
        items
    };
    let (ours, theirs) = (items(ours), items(theirs));
    let is_time = |at: usize, number: i64| {
        let of_list =
            ours.get(at.wrapping_sub(2)).is_some_and(|id| id.contains('-')) && command.starts_with("XPENDING");
        number > 1_500_000_000_000 || of_list || at > 0 && ours[at - 1] == "\"idle\""
    };
    let number = |item: &str| item.parse::<i64>().ok().or_else(|| item.strip_prefix("(integer) ")?.parse().ok());
    let items_before = |at: usize| ours[at - 1].as_str();
    let negative = |at: usize| theirs.get(at).and_then(|lag| number(lag)).is_some_and(|lag| lag < 0);
    ours.len() == theirs.len()
        && ours.iter().zip(&theirs).enumerate().all(|(at, (ours, theirs))| match (number(ours), number(theirs)) {
            (Some(one), Some(other)) if is_time(at, one) => one.abs_diff(other) < 2000,
            // 7.4 knows it more often, and after XDEL better.
            _ if at > 0 && items_before(at) == "\"lag\"" => true,
            // 7.0 counts on from a group that stands before what was trimmed, until the lag is negative.
            _ if at > 0 && items_before(at) == "\"entries-read\"" && negative(at + 2) => true,
            _ => ours == theirs,
        })
}

fn now() -> WallTime {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    WallTime(u64::try_from(elapsed.as_millis()).expect("fits for ages"))
}

/// Runs a conversation on both and adds what differs to `differences`; both begin empty.
fn compare<'a>(redis: &mut Redis, conversation: impl Iterator<Item = &'a str>, differences: &mut Vec<String>) -> usize {
    for clear in ["FLUSHALL", "FUNCTION FLUSH", "SCRIPT FLUSH"] {
        redis.run(&split(clear));
    }
    let mut session = Session { tree: Tree::new(), clock: now() };
    let mut count = 0;
    let mut before = String::new();
    for said in conversation {
        // What a script runs is compared as it is by itself.
        let command = SCRIPTED.iter().find_map(|script| said.strip_prefix(script)).unwrap_or(said);
        if NEWER.iter().any(|start| command.starts_with(start) || command.contains(&format!("call('{start}'"))) {
            break;
        }
        if DIFFERENT.iter().any(|(start, _)| command.starts_with(start))
            || command.contains(" IF")
            || command.contains("RANK -9223372036854775808")
            // A number that a script hands back has as many digits as 7.2 writes.
            || (said.starts_with(SCRIPTED[1]) && command.starts_with("GEO"))
            // Maps of Lua have an order of their own.
            || (said.starts_with(SCRIPTED[1]) && command.starts_with("XINFO"))
        {
            continue;
        }
        if command.starts_with("XADD") && command.contains(" * ") {
            // The clock is in the identifier.
            break;
        }
        count += 1;
        session.clock = now();
        let args = split(said);
        let (ours, theirs) = (lines(&session.run(&args)), redis.run(&args));
        if same(command, &ours, &theirs) {
            before.push_str(&format!("  {said}\n"));
            continue;
        }
        let fails = |lines: &[String]| lines[0].starts_with("(error)");
        let name = command.split(' ').next().unwrap_or_default();
        let about_key = ["WRONGTYPE", "NOGROUP", "ERR no such key", "ERR The XGROUP subcommand requires the key"];
        let wrong_type = about_key
            .iter()
            .any(|text| theirs[0].strip_prefix("(error) ").is_some_and(|error| error.starts_with(text)));
        // Arguments are looked at before the key is, whatever that holds.
        let args = split(command);
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let no_centre = theirs[0].starts_with("(error) ERR could not decode");
        let no_member = name.starts_with("GEORADIUSBYMEMBER") && fails(&ours) && fails(&theirs);
        let early = REFUSED_EARLY.contains(&name) && fails(&ours) && !fails(&theirs)
            || (wrong_type || no_centre || no_member) && data::check(&words).is_err();
        // The whole of a HyperLogLog is looked at before it is changed.
        let whole = name == "PFADD" && ours[0].starts_with("(error) INVALIDOBJ") && !fails(&theirs);
        // Redis 7.0 takes the error of an earlier number for that of one that is sorted.
        let old_error = name.starts_with("SORT") && theirs[0].contains("converted into double") && !fails(&ours);
        let other_database = name == "COPY" && ours[0] == "(error) ERR DB index is out of range" && !fails(&theirs);
        // What 7.4 checks in addition.
        let newer = ours[0].ends_with("smaller than current max_deleted_entry_id");
        if !early && !whole && !old_error && !other_database && !newer {
            differences.push(format!("after\n{before}{said}\n  ours:   {ours:?}\n  theirs: {theirs:?}"));
        }
        // From here on the states may differ.
        break;
    }
    count
}

#[test]
#[ignore = "needs a Redis server, see above"]
fn answers_are_those_of_redis() {
    let program = std::env::var("REDIS_SERVER").expect("REDIS_SERVER names the program");
    let mut redis = Redis::start(&program);
    let mut differences = Vec::new();
    let mut count = 0;
    for (_, _, page) in pages() {
        for block in page.split("```dictum\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            // Where time passes, conversations begin anew after it.
            for part in block.split(" later)\n") {
                let commands = part.lines().filter_map(|line| line.strip_prefix("> "));
                if part.len() == block.len() || block.starts_with(part) {
                    count += compare(&mut redis, commands, &mut differences);
                }
            }
        }
    }
    let pages_count = count;
    let mut rng = Rng::new(1);
    for round in 0..8000 {
        let about = match round % 16 {
            0..4 => About::Everything,
            4 => About::Named("H"),
            5 => About::Named("S"),
            6 => About::Named("Z"),
            7 => About::Words,
            8 => About::Sketches,
            9 => About::Counted,
            10 => About::Sorted,
            11 => About::Named("L"),
            12 | 13 => About::Named("X"),
            _ => About::Places,
        };
        let drawn = std::iter::repeat_with(|| draw(&mut rng, about)).filter(|command| !expires_soon(command)).take(50);
        let script = SCRIPTED.get(round % 10).copied().unwrap_or_default();
        let drawn: Vec<String> = drawn.map(|command| format!("{script}{command}")).collect();
        count += compare(&mut redis, drawn.iter().map(String::as_str), &mut differences);
    }
    println!("{pages_count} commands of pages and {} drawn ones compared", count - pages_count);
    let shown = differences.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} differences:\n{shown}", differences.len());
}

/// Streams with groups come through DUMP and RESTORE, from here to a Redis and back.
#[test]
#[ignore = "needs a Redis server, see above"]
fn streams_travel() {
    let program = std::env::var("REDIS_SERVER").expect("REDIS_SERVER names the program");
    let mut redis = Redis::start(&program);
    let mut rng = Rng::new(7);
    let mut travelled = 0;
    for _ in 0..300 {
        redis.run(&[b"FLUSHALL".to_vec()]);
        let mut session = Session { tree: Tree::new(), clock: now() };
        for _ in 0..60 {
            let command = draw(&mut rng, About::Named("X"));
            session.run(&split(&command));
        }
        let ask = |key: &str| split(&format!("XINFO STREAM {key} FULL COUNT 0"));
        for key in ["k0", "k1"] {
            let data::Reply::Bulk(payload) = session.run(&split(&format!("DUMP {key}"))) else { continue };
            travelled += 1;
            let restore = |key: &str, payload: &[u8]| {
                vec![b"RESTORE".to_vec(), key.as_bytes().to_vec(), b"0".to_vec(), payload.to_vec()]
            };
            assert_eq!(redis.run(&restore(key, &payload)), ["OK"]);
            let (ours, theirs) = (lines(&session.run(&ask(key))), redis.run(&ask(key)));
            assert!(same("XINFO STREAM FULL", &ours, &theirs), "{ours:#?}\n{theirs:#?}");
            let back = split(&redis.run(&split(&format!("DUMP {key}")))[0]).remove(0);
            assert_eq!(session.run(&restore("back", &back)), data::Reply::Ok);
            let again = lines(&session.run(&ask("back")));
            assert!(same("XINFO STREAM FULL", &again, &theirs), "{again:#?}\n{theirs:#?}");
            session.run(&split("DEL back"));
        }
    }
    assert!(travelled > 300, "{travelled}");
}

/// Where our descriptions say something else than Redis 7.0's on purpose: a command, and why.
const DESCRIBED_OTHERWISE: &[(&str, &str)] = &[
    ("object", "Redis describes only its subcommands; ours has one entry, which reads"),
    ("memory", "the same"),
    ("xgroup", "the same; ours writes"),
    ("xinfo", "the same"),
    ("script", "the same; ours writes"),
    ("function", "the same; ours writes"),
    ("zrank", "WITHSCORE is of 7.2"),
    ("zrevrank", "the same"),
];

#[test]
#[ignore = "needs a Redis server, see above"]
fn descriptions_are_those_of_redis() {
    let program = std::env::var("REDIS_SERVER").expect("REDIS_SERVER names the program");
    let mut redis = Redis::start(&program);
    let mut differences = Vec::new();
    for entry in data::commands::COMMANDS {
        let spec = entry.spec;
        if DESCRIBED_OTHERWISE.iter().any(|(name, _)| *name == spec.name) {
            continue;
        }
        let info = redis.run(&split(&format!("COMMAND INFO {}", spec.name)));
        let Some(theirs) = Description::read(&info) else { continue };
        let (first, last, step) = spec.keys.positions();
        let sorted = |names: Vec<&str>| {
            let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            names.sort();
            names
        };
        let ours = Description {
            arity: i64::from(spec.arity),
            flags: sorted(spec.flags.names()),
            positions: vec![first, last, step],
            categories: sorted(spec.categories()),
        };
        if ours != theirs {
            differences.push(format!("{}\n  ours:   {ours:?}\n  theirs: {theirs:?}", spec.name));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// What `COMMAND INFO` says, as far as we say it too.
#[derive(Debug, PartialEq)]
struct Description {
    arity: i64,
    flags: Vec<String>,
    positions: Vec<i64>,
    categories: Vec<String>,
}

impl Description {
    /// From the lines of a `COMMAND INFO` of one command.
    fn read(info: &[String]) -> Option<Description> {
        let text = info.join("\n");
        if text.contains("(nil)") && info.len() == 1 {
            return None;
        }
        let words = |number: usize| -> Vec<String> {
            // The top level's items are numbered from the fourth column on.
            let marker = |number: usize| format!("{number:>2}) ");
            let begin = info.iter().position(|line| line[3..].starts_with(&marker(number))).expect("an item");
            let end = info.iter().skip(begin + 1).position(|line| line[3..].starts_with(&marker(number + 1)));
            let end = end.map_or(info.len(), |end| begin + 1 + end);
            info[begin..end]
                .iter()
                .map(|line| line.rsplit(") ").next().expect("a last part").trim().to_owned())
                .collect()
        };
        let number = |item: usize| words(item)[0].rsplit(' ').next().expect("a word").parse::<i64>().expect("a number");
        let sorted = |mut names: Vec<String>| {
            names.retain(|name| !name.starts_with('('));
            names.sort();
            names
        };
        Some(Description {
            arity: number(2),
            flags: sorted(words(3)),
            positions: vec![number(4), number(5), number(6)],
            categories: sorted(words(7)),
        })
    }
}

/// Whether a deadline would pass while the conversation goes on: the two do not ask their clocks at the same moment.
fn expires_soon(command: &str) -> bool {
    let milliseconds = ["PX", "PSETEX", "PEXPIRE"].iter().any(|word| command.split(' ').any(|part| part == *word));
    milliseconds && command.split(' ').any(|word| word.parse().is_ok_and(|number: i64| (1..10_000).contains(&number)))
}
