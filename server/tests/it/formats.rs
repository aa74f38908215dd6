//! Folders that earlier versions have written are read as ever: `tests/formats/README.md` says what they are and how to add to them.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests of files use files")]

mod nodes;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::{TempDir, tempdir};
use wire::Value;

use crate::common::process::Process;
use crate::common::{Client, dictum, eventually, free_ports, output, scratch, wait_for};

const BLOCK: usize = 4096;
const FOLDERS: [&str; 2] = ["memory", "store"];
/// Buckets that fixtures may have beside the default one.
const BUCKETS: [&str; 3] = ["recent", "terms", "passing"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/formats")
}

/// The versions there are.
fn versions() -> Vec<PathBuf> {
    let folders = fs::read_dir(root()).expect("the fixtures are there").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> = folders.filter(|path| path.is_dir() && !path.ends_with(nodes::FOLDER)).collect();
    found.sort();
    found
}

fn rewrites() -> bool {
    std::env::var_os("DICTUM_REWRITE").is_some()
}

fn copy(from: &Path) -> TempDir {
    let folder = tempdir().expect("a temporary folder");
    let copied = Command::new("cp").arg("-r").arg(from.join(".")).arg(folder.path()).status();
    assert!(copied.expect("cp runs").success());
    folder
}

fn start(folder: &Path, state: &str) -> (Process, String) {
    wait_for("a node", || {
        let [resp, http, peer] = free_ports();
        let mut command = dictum(&["start", "--node", "n1", "--cluster", &format!("n1=127.0.0.1:{peer}")]);
        command.args([
            "--resp",
            &format!("127.0.0.1:{resp}"),
            "--http",
            &format!("127.0.0.1:{http}"),
            "--state",
            state,
        ]);
        command.args(["--log-bytes-per-snapshot", "2KiB", "--log-entries-kept", "4", "--dir"]);
        command.arg(folder).stdout(Stdio::null());
        match Process::start(command) {
            Ok(process) => Some((process, format!("127.0.0.1:{resp}"))),
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    })
}

fn check(folder: &Path) -> (i32, String) {
    let scratch = scratch();
    let mut command = dictum(&["check"]);
    command.arg(folder).arg("--scratch").arg(scratch.path());
    let said = output(command);
    let text = String::from_utf8(said.stdout).expect("text") + &String::from_utf8(said.stderr).expect("text");
    (said.status.code().expect("an exit code"), text)
}

/// What the check says, and what a node answers that is started on a copy.
fn dump(folder: &Path, state: &str) -> String {
    let (code, mut text) = check(folder);
    writeln!(text, "(exit code {code})\n").expect("a string takes all text");
    let folder = copy(folder);
    let (process, resp) = start(folder.path(), state);
    let mut client = Client::connect(&resp).expect("it listens");
    text += &keys(&mut client);
    let mut ask = |words: &[&str]| eventually_on(&mut client, words);
    for id in ["order-1", "order-2", "unknown"] {
        writeln!(text, "outcome of {id}: {}", ask(&["DICTUM.OUTCOME", id]).pretty().trim()).expect("as above");
    }
    for name in BUCKETS {
        if eventually_on(&mut client, &["SELECT", name]).as_error().is_none() {
            // The usual consistency of a bucket may be one that shows an older state.
            eventually_on(&mut client, &["DICTUM.CONSISTENCY", "linearizable"]);
            let shown = eventually_on(&mut client, &["DICTUM.BUCKET", "SHOW", name]);
            writeln!(text, "\n{name}: {}", shown.pretty().trim()).expect("as above");
            text += &keys(&mut client);
        }
    }
    assert!(process.stop(), "it ends well");
    text
}

/// Every key of the selected bucket, and what is under it.
fn keys(client: &mut Client) -> String {
    let mut text = String::new();
    let mut ask = |words: &[&str]| eventually_on(client, words);
    // A hash whose fields' time is up is listed until whoever leads has taken them out, soon after the start.
    let mut keys = wait_for("no key that is gone", || {
        let Value::Array(keys) = ask(&["KEYS", "*"]) else { panic!("a list of keys") };
        let is_gone = |key: &Value| {
            let key = String::from_utf8_lossy(key.as_bytes().expect("a key")).into_owned();
            ask(&["TYPE", &key]) == Value::Simple("none".to_owned())
        };
        (!keys.iter().any(is_gone)).then_some(keys)
    });
    keys.sort_by(|a, b| a.as_bytes().cmp(&b.as_bytes()));
    for key in keys {
        let key = String::from_utf8(key.as_bytes().expect("a key").to_vec()).expect("keys are text here");
        let deadline = ask(&["PEXPIRETIME", &key]);
        if ask(&["TYPE", &key]) == Value::Simple("hash".to_owned()) {
            let fields = ask(&["HGETALL", &key]);
            let pairs = fields.as_array().expect("fields and values").chunks_exact(2);
            let shown = pairs.map(|pair| (pair[0].clone(), format!("{}: {}", short(&pair[0]), short(&pair[1]))));
            let shown: Vec<String> = shown
                .map(|(field, shown)| {
                    let field = String::from_utf8(field.as_bytes().expect("a field").to_vec()).expect("text");
                    let until = ask(&["HPEXPIRETIME", &key, "FIELDS", "1", &field]);
                    match until.as_array().and_then(|only| only[0].as_integer()) {
                        Some(until @ 0..) => format!("{shown} until {until}"),
                        _ => shown,
                    }
                })
                .collect();
            let (key, shown) = (wire::quote(key.as_bytes()), shown.join(", "));
            writeln!(text, "{key} = {{{shown}}}, deadline {}", deadline.pretty().trim()).expect("as above");
            continue;
        }
        if ask(&["TYPE", &key]) == Value::Simple("set".to_owned()) {
            let members = ask(&["SMEMBERS", &key]);
            let shown: Vec<String> = members.as_array().expect("members").iter().map(short).collect();
            let (key, shown) = (wire::quote(key.as_bytes()), shown.join(", "));
            writeln!(text, "{key} = {{{shown}}}, deadline {}", deadline.pretty().trim()).expect("as above");
            continue;
        }
        if ask(&["TYPE", &key]) == Value::Simple("zset".to_owned()) {
            let members = ask(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]);
            let pairs = members.as_array().expect("members and scores").chunks_exact(2);
            let shown: Vec<String> = pairs.map(|pair| format!("{}: {}", short(&pair[0]), short(&pair[1]))).collect();
            let (key, shown) = (wire::quote(key.as_bytes()), shown.join(", "));
            writeln!(text, "{key} = {{{shown}}}, deadline {}", deadline.pretty().trim()).expect("as above");
            continue;
        }
        if ask(&["TYPE", &key]) == Value::Simple("list".to_owned()) {
            let elements = ask(&["LRANGE", &key, "0", "-1"]);
            let shown: Vec<String> = elements.as_array().expect("elements").iter().map(short).collect();
            let (key, shown) = (wire::quote(key.as_bytes()), shown.join(", "));
            writeln!(text, "{key} = [{shown}], deadline {}", deadline.pretty().trim()).expect("as above");
            continue;
        }
        if ask(&["TYPE", &key]) == Value::Simple("stream".to_owned()) {
            // When something was delivered was another time for each folder.
            let mut all = vec![ask(&["XINFO", "STREAM", &key]), ask(&["XRANGE", &key, "-", "+"])];
            all.push(ask(&["XINFO", "GROUPS", &key]));
            all.extend(["readers:0", "readers:1", "others:0"].map(|group| ask(&["XPENDING", &key, group])));
            let shown = Value::bulk(all.iter().map(|part| part.pretty()).collect::<String>());
            let (key, shown) = (wire::quote(key.as_bytes()), short(&shown));
            writeln!(text, "{key} = {shown}, deadline {}", deadline.pretty().trim()).expect("as above");
            continue;
        }
        if ask(&["TYPE", &key]) == Value::Simple("ReJSON-RL".to_owned()) {
            let (document, key) = (short(&ask(&["JSON.GET", &key])), wire::quote(key.as_bytes()));
            writeln!(text, "{key} = {document}, deadline {}", deadline.pretty().trim()).expect("as above");
            continue;
        }
        let value = short(&ask(&["GET", &key]));
        let revision = ask(&["DICTUM.GET", &key]);
        let revision = &revision.as_array().expect("value and revision")[1];
        let key = wire::quote(key.as_bytes());
        writeln!(text, "{key} = {value}, deadline {}, revision {}", deadline.pretty().trim(), revision.pretty().trim())
            .expect("as above");
    }
    let functions = ask(&["FUNCTION", "LIST", "WITHCODE"]);
    if functions.as_array().is_some_and(|list| !list.is_empty()) {
        let functions = short(&Value::bulk(functions.pretty()));
        let kept = ask(&["SCRIPT", "EXISTS", SCRIPT_SHA, LATE_SCRIPT_SHA]);
        let counted = ask(&["FCALL", "count", "0"]);
        writeln!(text, "functions {functions}, count {}", counted.pretty().trim()).expect("as above");
        writeln!(text, "scripts {}", short(&Value::bulk(kept.pretty()))).expect("as above");
    }
    text
}

/// SHA1 of `return ARGV[1]`, and of `return ARGV[2]`.
const SCRIPT_SHA: &str = "098e0f0d1448c0a81dafe820f66d460eb09263da";
const LATE_SCRIPT_SHA: &str = "bcdff5e20b3d665f7cd844350cdb0b0395946a66";

/// A string, or what can be told of a long one.
fn short(value: &Value) -> String {
    let value = value.as_bytes().expect("a string");
    match value.len() {
        101.. => format!("{} bytes of XXH3 {:016x}", value.len(), base::checksum::xxh3(value)),
        _ => wire::quote(value),
    }
}

fn eventually_on(client: &mut Client, words: &[&str]) -> Value {
    wait_for(&format!("an answer to {words:?}"), || {
        // Whoever sent it again after an error would take the first answer for the second.
        let reply = client.call(words).expect("an answer");
        reply.as_error().is_none_or(|error| !error.starts_with("CLUSTERDOWN")).then_some(reply)
    })
}

#[test]
fn folders_of_all_versions_are_read_as_ever() {
    assert!(!versions().is_empty());
    for version in versions() {
        for state in FOLDERS {
            let golden = version.join(format!("{state}.txt"));
            let said = dump(&version.join(state), state);
            if rewrites() {
                fs::write(&golden, &said).expect("writable");
            }
            let expected = fs::read_to_string(&golden).expect("it is committed");
            assert!(said == expected, "{} says\n{expected}\nbut now it is\n{said}", golden.display());
        }
    }
}

#[test]
fn damage_is_told_as_listed() {
    for version in versions() {
        let list = version.join("damaged.txt");
        let text = fs::read_to_string(&list).expect("it is committed");
        let mut told = String::new();
        for line in text.lines() {
            let case = line.split(" =>").next().unwrap_or_default();
            let words: Vec<&str> = case.split_whitespace().collect();
            let [folder, file, change @ ..] = &words[..] else {
                told += &format!("{line}\n");
                continue;
            };
            let folder = copy(&version.join(folder));
            damage(&folder.path().join(file), change);
            let (code, said) = check(folder.path());
            told += &format!("{case} => {code}, {}\n", said.lines().last().unwrap_or_default());
        }
        if rewrites() {
            fs::write(&list, &told).expect("writable");
        } else {
            for (expected, found) in text.lines().zip(told.lines()) {
                assert_eq!(found, expected, "{}", list.display());
            }
        }
        assert!(told.lines().count() >= 20);
    }
}

fn damage(path: &Path, change: &[&str]) {
    let mut bytes = if change[0] == "remove" { Vec::new() } else { fs::read(path).expect("readable") };
    let number = |at: usize| change[at].parse::<usize>().expect("a number");
    match change[0] {
        "remove" if path.is_dir() => return fs::remove_dir_all(path).expect("removable"),
        "remove" => return fs::remove_file(path).expect("removable"),
        "flip" => bytes[number(1)] ^= 1,
        "zero" => bytes[number(1)..number(2)].fill(0),
        "cut" => bytes.truncate(number(1)),
        "append" => {
            let pair = |at: usize| u8::from_str_radix(&change[1][at..at + 2], 16).expect("hexadecimal");
            bytes.extend((0..change[1].len()).step_by(2).map(pair));
        }
        other => panic!("{other} is no change"),
    }
    fs::write(path, bytes).expect("writable");
}

/// Makes the folders of a new version. Only when asked for.
#[test]
#[ignore = "makes fixtures: see tests/formats/README.md"]
fn make_a_new_version() {
    let version = std::env::var("DICTUM_FORMAT").expect("DICTUM_FORMAT says which version");
    let version = root().join(version);
    assert!(!version.exists(), "{} is there, and is never changed", version.display());
    for state in FOLDERS {
        let made = tempdir().expect("a temporary folder");
        let (process, resp) = start(made.path(), state);
        fill(&resp, made.path(), state);
        assert!(process.stop(), "it ends well");
        shrink(made.path());
        let folder = version.join(state);
        fs::create_dir_all(&folder).expect("writable");
        let copied = Command::new("cp").arg("-r").arg(made.path().join(".")).arg(&folder).status();
        assert!(copied.expect("cp runs").success());
        fs::write(version.join(format!("{state}.txt")), dump(&folder, state)).expect("writable");
    }
}

/// All kinds of entries and records, and states of which the log has been cut.
fn fill(resp: &str, folder: &Path, state: &str) {
    eventually(resp, &["PING"]);
    let mut client = Client::connect(resp).expect("it listens");
    let mut tell = |words: &[&str]| {
        let reply = eventually_on(&mut client, words);
        assert_eq!(reply.as_error(), None, "{words:?}");
    };
    // Changes are recorded, by an entry of the log.
    wait_for("a subscription", || {
        let mut subscriber = Client::connect(resp).ok()?;
        subscriber.call(&["DICTUM.SUBSCRIBE", "KEY", "greeting"]).ok()?.as_array().map(drop)
    });
    let long = "v".repeat(400);
    for round in 0..2 {
        tell(&["SET", "greeting", "hello\r\n\u{1}"]);
        tell(&["SET", &format!("long:{round}"), &long]);
        tell(&["SET", &format!("{{slot}}:{round}"), "", "PXAT", "4102444800000"]);
        tell(&["MSET", "", "the empty key", "\u{1}low", "a key that is escaped"]);
        tell(&["INCRBY", "counter", "7"]);
        tell(&["SET", "gone", "x"]);
        tell(&["DEL", "gone"]);
        tell(&["HSET", "user", "name", "Ada", "", "the empty field", &format!("round:{round}"), &long]);
        tell(&["HINCRBY", "user", "visits", "3"]);
        tell(&["HSET", "gone-hash", "a", "1", "b", "2"]);
        tell(&["PEXPIREAT", "user", "4102444800000"]);
        tell(&["DEL", "gone-hash"]);
        tell(&["HSETEX", "fading", "PXAT", "4102444800000", "FIELDS", "2", "one", "1", &format!("round:{round}"), "2"]);
        tell(&["HSET", "fading", "stays", &long]);
        tell(&["HSETEX", "gone-fading", "EX", "1000", "FIELDS", "1", "a", "1"]);
        tell(&["DEL", "gone-fading"]);
        tell(&["SADD", "fruits", "apple", "", &format!("round:{round}"), &long]);
        tell(&[
            "ZADD",
            "scores",
            "27",
            "grace",
            "inf",
            "ada",
            "-1.5",
            "",
            "0",
            &long,
            "1e300",
            &format!("round:{round}"),
        ]);
        // Enough for boundaries, by which ranks are found.
        let pairs: Vec<[String; 2]> =
            (0..300).map(|number| [(number * 37 % 101).to_string(), format!("m{number}")]).collect();
        tell(&["ZADD", "ranks"].into_iter().chain(pairs.iter().flatten().map(String::as_str)).collect::<Vec<_>>());
        tell(&["ZADD", "gone-scores", "1", "a", "2", "b"]);
        tell(&["DEL", "gone-scores"]);
        tell(&["JSON.SET", "document", "$", "{\"name\":\"Ada\",\"tags\":[1,2.5,null],\"home\":{\"city\":\"London\"}}"]);
        tell(&["JSON.SET", &format!("document:{round}"), "$", &format!("[\"{long}\"]")]);
        tell(&["RPUSH", "queue", "b", "", &long, &format!("round:{round}")]);
        tell(&["LPUSH", "queue", "a", "z"]);
        tell(&["LPOP", "queue"]);
        tell(&["RPUSH", "gone-list", "a", "b", "c"]);
        tell(&["DEL", "gone-list"]);
        tell(&["XADD", "log", &format!("{round}-1"), "round", &round.to_string(), "long", &long]);
        tell(&["XADD", "log", &format!("{round}-2"), "short", ""]);
        tell(&["XADD", "log", "MAXLEN", "20", &format!("{round}-3"), "a", "b", "c", "d"]);
        tell(&["XDEL", "log", &format!("{round}-2")]);
        let readers = format!("readers:{round}");
        tell(&["XGROUP", "CREATE", "log", &readers, "0"]);
        tell(&["XGROUP", "CREATE", "log", &format!("others:{round}"), "$"]);
        tell(&["XREADGROUP", "GROUP", &readers, "anna", "COUNT", "1", "STREAMS", "log", ">"]);
        tell(&["XREADGROUP", "GROUP", &readers, "bert", "STREAMS", "log", ">"]);
        tell(&["XACK", "log", &readers, &format!("{round}-1")]);
        tell(&["XADD", "gone-log", "*", "a", "b"]);
        tell(&["XGROUP", "CREATE", "gone-log", "readers", "0"]);
        tell(&["XREADGROUP", "GROUP", "readers", "anna", "STREAMS", "gone-log", ">"]);
        tell(&["DEL", "gone-log"]);
        tell(&["SCRIPT", "LOAD", "return ARGV[1]"]);
        let library =
            format!("#!lua name=lib{round}\nredis.register_function('f{round}', function() return {round} end)");
        tell(&["FUNCTION", "LOAD", "REPLACE", &library]);
        tell(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "by-script"]);
        tell(&["SADD", "gone-set", "a", "b", "c"]);
        tell(&["SUNIONSTORE", "food", "fruits", "gone-set"]);
        tell(&["SMOVE", "gone-set", "food", "a"]);
        tell(&["DEL", "gone-set"]);
    }
    tell(&["DICTUM.ONCE", "order-1", "SET", "order", "1"]);
    let saved = || match state {
        "memory" => fs::read_dir(folder).expect("a folder").any(|entry| {
            let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
            name.starts_with("snapshot-") && !name.ends_with(".tmp")
        }),
        // The state is saved in the store when its journal has grown.
        _ => check_copy_has_state(folder),
    };
    wait_for("a saved state", || {
        tell(&["SET", "padding", &long]);
        saved().then_some(())
    });
    // Buckets: one that evicts, one whose writes carry terms, one that forgets, one of several partitions.
    for create in [
        "recent KIND cache QUOTA 4096 POLICY lru",
        "terms TTL 3000000000 VALUE-BYTES-MAX 1000 DURABILITY persist-majority CONSISTENCY session",
        "passing KIND ephemeral QUOTA 1048576",
        "parted PARTITIONS 3",
        "gone",
    ]
    .into_iter()
    // What a dropped bucket leaves in a folder without a store, `dictum check` takes for damage now and then.
    .filter(|create| state != "memory" || *create != "gone")
    {
        tell(&[&["DICTUM.BUCKET", "CREATE"], &create.split(' ').collect::<Vec<_>>()[..]].concat());
        tell(&["SELECT", create.split(' ').next().expect("a name")]);
        for number in 0..12 {
            tell(&["SET", &format!("key:{number}"), &long]);
        }
    }
    tell(&["SELECT", "0"]);
    tell(&["DICTUM.BUCKET", "SET", "passing", "QUOTA", "2097152"]);
    if state != "memory" {
        tell(&["DICTUM.BUCKET", "DROP", "gone", "CONFIRM"]);
    }
    // What the log alone has.
    tell(&["MULTI"]);
    tell(&["APPEND", "greeting", " again"]);
    tell(&["PEXPIREAT", "long:1", "4102444800001"]);
    tell(&["EXEC"]);
    tell(&["DICTUM.ONCE", "order-2", "INCR", "order"]);
    tell(&["SET", "short-lived", "x", "PX", "1"]);
    tell(&["SET", "last", "one"]);
    tell(&["HDEL", "user", "name"]);
    tell(&["HPEXPIREAT", "fading", "4102444700000", "FIELDS", "1", "round:0"]);
    tell(&["HPERSIST", "fading", "FIELDS", "1", "one"]);
    tell(&["HSETEX", "short-lived-fields", "PX", "1", "FIELDS", "1", "f", "v"]);
    tell(&["SPOP", "food", "2"]);
    tell(&["LMOVE", "queue", "late-list", "LEFT", "RIGHT"]);
    tell(&["XGROUP", "CREATE", "late-log", "readers", "$", "MKSTREAM"]);
    tell(&["XCLAIM", "log", "readers:1", "anna", "0", "1-3", "FORCE", "JUSTID"]);
    tell(&["EVAL", "return ARGV[2]", "0", "a", "b"]);
    let counting =
        "#!lua name=late\nredis.register_function('count', function() return redis.call('INCR', 'counted') end)";
    tell(&["FUNCTION", "LOAD", counting]);
    tell(&["FUNCTION", "DELETE", "lib0"]);
    tell(&["JSON.NUMINCRBY", "document", "$.tags[*]", "1"]);
    tell(&["JSON.MERGE", "late-document", "$", "{\"in\":\"the log alone\"}"]);
    tell(&["ZINCRBY", "scores", "1", "grace"]);
    tell(&["ZREMRANGEBYRANK", "ranks", "0", "-21"]);
    tell(&["ZADD", "late-scores", "1", "in the log alone"]);
    tell(&["SADD", "late-set", "in the log alone"]);
    tell(&["HSET", "late", "field", "in the log alone"]);
    tell(&["SELECT", "terms"]);
    tell(&["SET", "key:0", "last"]);
    tell(&["SELECT", "parted"]);
    tell(&["EVAL", "return redis.call('SET', KEYS[1], 'by a script')", "1", "key:0"]);
    tell(&["SELECT", "recent"]);
    for number in 12..14 {
        tell(&["SET", &format!("key:{number}"), &long]);
    }
    // Seven of them have room.
    wait_for("evictions", || {
        let size = eventually_on(&mut client, &["DBSIZE"]);
        size.as_integer().filter(|size| *size <= 7)
    });
}

/// Whether the store of a running node has a state: looked for in its journal, where the head's key stands as it is.
fn check_copy_has_state(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder.join("store/lsm")) else { return false };
    entries.filter_map(Result::ok).map(|entry| entry.path()).any(|path| {
        path.extension().is_some_and(|end| end == "jnl")
            && fs::read(path).is_ok_and(|bytes| bytes.windows(11).any(|key| key == b"state\0\0\0\0\0\0"))
    })
}

/// Cuts all that is preallocated off. A segment's name says how long it must be, so it gets another name. A repository keeps no empty folders: they go, too.
fn shrink(folder: &Path) {
    let emptied = Command::new("find").arg(folder).args(["-mindepth", "1", "-type", "d", "-empty", "-delete"]).status();
    assert!(emptied.expect("find runs").success());
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // The node's key is its own secret, and the audit trail is signed with it.
        if ["LOCK", "node.key", "reserve"].contains(&name.as_str()) || name.starts_with("journal-blank") {
            fs::remove_file(&path).expect("removable");
        } else if name == "audit" {
            fs::remove_dir_all(&path).expect("removable");
        } else if let Some(sequence) = name.strip_prefix("journal-").and_then(|rest| rest.split('-').next()) {
            let bytes = fs::read(&path).expect("readable");
            let written = bytes.chunks(BLOCK).rposition(|block| block.iter().any(|byte| *byte != 0));
            match written {
                Some(last) => {
                    // One unwritten block, and the one that is kept back.
                    let blocks = last + 3;
                    let renamed = folder.join(format!("journal-{sequence}-{blocks:08x}"));
                    fs::remove_file(&path).expect("removable");
                    fs::write(renamed, &bytes[..blocks * BLOCK]).expect("writable");
                }
                None => fs::remove_file(&path).expect("removable"),
            }
        }
    }
    let Ok(entries) = fs::read_dir(folder.join("store/lsm")) else { return };
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.extension().is_some_and(|end| end == "jnl") {
            let bytes = fs::read(&path).expect("readable");
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            fs::write(&path, &bytes[..end]).expect("writable");
        }
    }
}
