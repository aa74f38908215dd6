//! Backups of real clusters, restored into others.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use tempfile::tempdir;
use wire::Value;

use crate::common::counting::count;
use crate::common::{Client, Dev, dictum, eventually, failure, output, signal, wait_for};

/// Runs `dictum` with these words, which must succeed; its output.
pub fn run(words: &[&str]) -> String {
    let done = output(dictum(words));
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("it is text")
}

fn client(resp: &str, bucket: &str) -> Client {
    let mut client = Client::connect(resp).expect("it listens");
    assert_eq!(client.call(&["SELECT", bucket]).expect("a reply"), Value::ok());
    client
}

fn must(client: &mut Client, words: &[&str]) -> Value {
    let reply = client.call(words).expect("a reply");
    assert!(reply.as_error().is_none(), "{words:?}: {reply:?}");
    reply
}

/// The value and the deadline of every key of a bucket, in the order of the keys.
pub fn contents(resp: &str, bucket: &str) -> Vec<(Vec<u8>, Value, Value)> {
    let mut client = client(resp, bucket);
    let Value::Array(keys) = must(&mut client, &["KEYS", "*"]) else { panic!("an array") };
    let mut keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().expect("a key").to_vec()).collect();
    keys.sort();
    let of = |key: Vec<u8>| {
        let name = String::from_utf8(key.clone()).expect("text");
        let [value, deadline] = ["DUMP", "PEXPIRETIME"].map(|word| must(&mut client, &[word, &name]));
        (key, value, deadline)
    };
    keys.into_iter().map(of).collect()
}

/// Every type, small and large, in three buckets.
pub fn fill(resp: &str) {
    must(
        &mut Client::connect(resp).expect("it listens"),
        &["DICTUM.BUCKET", "CREATE", "users", "PARTITIONS", "4", "TTL", "3600"],
    );
    for bucket in ["default", "users", "5"] {
        let mut client = client(resp, bucket);
        for line in [
            "SET string value",
            "SET fades soon EX 1000",
            "HSET hash f v g w",
            "SADD set a b c",
            "ZADD sorted 1.5 a -2 b",
            "XADD stream 5-1 f v",
            "XGROUP CREATE stream group 0",
            "XREADGROUP GROUP group bert STREAMS stream >",
            "JSON.SET json $ [1,2]",
            "SET lasts v",
            "PERSIST lasts",
        ] {
            must(&mut client, &line.split(' ').collect::<Vec<_>>());
        }
        for round in 0..20 {
            let items: Vec<String> = (0..200).map(|item| format!("{round}-{item}-{}", "x".repeat(200))).collect();
            let words: Vec<&str> = ["RPUSH", "list"].into_iter().chain(items.iter().map(String::as_str)).collect();
            must(&mut client, &words);
            for item in &items[..20] {
                must(&mut client, &["SET", item, item]);
            }
        }
    }
    must(
        &mut Client::connect(resp).expect("it listens"),
        &["FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 7 end)"],
    );
}

#[test]
fn what_was_there_is_there_again_in_another_cluster() {
    let folder = tempdir().expect("a temporary folder");
    let living = Dev::start(&folder.path().join("living"), &[]);
    let asked = living.nodes[1].resp.as_str();
    eventually(asked, &["SET", "k", "v"]);
    fill(asked);
    let expected = ["default", "users", "5"].map(|bucket| contents(asked, bucket));
    let backup = folder.path().join("backup");
    let backup = backup.to_str().expect("text");
    // Clients go on.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| count(asked, None, "counter", 0, &stop));
        wait_for("the first of them", || (eventually(asked, &["GET", "counter"]) != Value::Null).then_some(()));
        let said = run(&["backup", backup, "--at", asked]);
        assert!(said.contains("users") && said.contains("is done"), "{said}");
        stop.store(true, Ordering::Relaxed);
    });
    assert!(run(&["backup", "--verify", backup]).contains("is whole"));
    assert!(run(&["check", backup, "--json"]).contains("\"format\":1"));
    let refused = failure(dictum(&["backup", backup, "--at", asked]));
    assert!(refused.contains("is not empty"), "{refused}");

    // One node, and other partitions.
    let other = Dev::start(&folder.path().join("other"), &["--nodes", "1"]);
    let at = other.nodes[0].resp.as_str();
    eventually(at, &["PING"]);
    let said = run(&["restore", backup, "--at", at, "--partitions", "2"]);
    assert!(said.contains("users: ") && said.contains("keys restored"), "{said}");
    for (bucket, expected) in ["default", "users", "5"].into_iter().zip(&expected) {
        let mut found = contents(at, bucket);
        found.retain(|(key, ..)| key != b"counter");
        assert_eq!(found.len(), expected.len(), "{bucket}");
        assert!(found == *expected, "{bucket}");
    }
    let shown = run(&["bucket", "show", "users", "--at", at, "--json"]);
    assert!(shown.contains("\"partitions\":2") && shown.contains("\"ttl\":3600"), "{shown}");
    assert_eq!(must(&mut client(at, "default"), &["FCALL", "f", "0"]), Value::Integer(7));

    // Into a bucket beside, and over what is there: only when that is said.
    let refused = failure(dictum(&["restore", backup, "--at", at]));
    assert!(refused.contains("--over") && refused.contains("Nothing was done"), "{refused}");
    run(&["restore", backup, "--at", at, "--bucket", "users", "--into", "users-of-monday"]);
    assert!(contents(at, "users-of-monday") == expected[1]);
    must(&mut client(at, "5"), &["SET", "string", "changed"]);
    must(&mut client(at, "5"), &["SET", "beside", "stays"]);
    run(&["restore", backup, "--at", at, "--bucket", "5", "--over"]);
    assert_eq!(must(&mut client(at, "5"), &["GET", "string"]), Value::bulk("value"));
    assert_eq!(must(&mut client(at, "5"), &["GET", "beside"]), Value::bulk("stays"));

    // A restore that was broken off leaves a bucket without its time to live.
    let ttl = |expected: &str| {
        let shown = run(&["bucket", "show", "users", "--at", at, "--json"]);
        assert!(shown.contains(&format!("\"ttl\":{expected}")), "{shown}");
    };
    run(&["bucket", "set", "users", "--ttl", "0", "--at", at]);
    run(&["restore", backup, "--at", at, "--bucket", "users", "--over"]);
    ttl("0");
    run(&["restore", backup, "--at", at, "--bucket", "users", "--over", "--with-settings"]);
    ttl("3600");
    assert!(contents(at, "users") == expected[1]);
}

/// A whole backup, and two that build on it.
#[test]
fn a_backup_of_what_has_changed_is_all_there_is_with_those_before_it() {
    let folder = tempdir().expect("a temporary folder");
    let living = Dev::start(&folder.path().join("living"), &[]);
    let asked = living.nodes[1].resp.as_str();
    eventually(asked, &["SET", "k", "v"]);
    fill(asked);
    let dirs = ["sunday", "monday", "tuesday"].map(|name| folder.path().join(name).to_str().expect("text").to_owned());
    let [sunday, monday, tuesday] = dirs.each_ref().map(String::as_str);
    run(&["backup", sunday, "--at", asked]);
    let say = |bucket: &str, lines: &[&str]| {
        let mut client = client(asked, bucket);
        lines.iter().for_each(|line| drop(must(&mut client, &line.split(' ').collect::<Vec<_>>())));
    };
    say("default", &["SET string changed", "DEL hash", "LPOP list", "XADD stream 6-1 f w", "ZADD sorted 7 c"]);
    say("users", &["SADD set d", "PERSIST fades", "RENAME json other", "SET new n"]);
    say("5", &["FLUSHDB"]);
    run(&["backup", monday, "--since", sunday, "--at", asked]);
    say("default", &["XREADGROUP GROUP group ann STREAMS stream >", "SET hash text", "DEL new"]);
    say("5", &["SET string again"]);
    let said = run(&["backup", tuesday, "--since", monday, "--at", asked]);
    assert!(said.contains("since the one in monday"), "{said}");
    let expected = ["default", "users", "5"].map(|bucket| contents(asked, bucket));
    let bytes = |dir: &str| -> u64 {
        let files = std::fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").metadata());
        files.map(|file| file.expect("a file").len()).sum()
    };
    // The long lists have not changed but for one, of which all is there again.
    assert!(bytes(sunday) > 2_000_000 && bytes(tuesday) < 200_000, "{} and {}", bytes(sunday), bytes(tuesday));
    assert!(run(&["backup", "--verify", tuesday]).contains("is whole"));

    let other = Dev::start(&folder.path().join("other"), &["--nodes", "1"]);
    let at = other.nodes[0].resp.as_str();
    eventually(at, &["PING"]);
    let refused = failure(dictum(&["backup", &format!("{tuesday}-2"), "--since", monday, "--at", at]));
    assert!(refused.contains("not of this cluster"), "{refused}");
    run(&["restore", tuesday, "--at", at]);
    for (bucket, expected) in ["default", "users", "5"].into_iter().zip(&expected) {
        assert!(contents(at, bucket) == *expected, "{bucket}");
    }
    assert_eq!(must(&mut client(at, "default"), &["FCALL", "f", "0"]), Value::Integer(7));
    assert_eq!(run(&["export", tuesday, "--bucket", "5", "--format", "jsonl"]).lines().count(), 1);
    std::fs::remove_dir_all(monday).expect("it is there");
    for words in [&["restore", tuesday, "--at", at, "--over"][..], &["backup", "--verify", tuesday]] {
        let refused = failure(dictum(words));
        assert!(refused.contains("it builds on the backup in") && refused.contains("monday"), "{refused}");
    }
}

#[test]
fn a_backup_that_is_not_whole_is_found_out() {
    let folder = tempdir().expect("a temporary folder");
    let living = Dev::start(&folder.path().join("living"), &["--nodes", "1"]);
    let asked = living.nodes[0].resp.as_str();
    for number in 0..50 {
        eventually(asked, &["SET", &format!("k{number}"), &"x".repeat(20_000)]);
    }
    let backup = folder.path().join("backup");
    let shown = backup.to_str().expect("text");
    run(&["backup", shown, "--at", asked]);
    let file = std::fs::read_dir(&backup)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("snapshot-")))
        .expect("the file of a partition");
    let whole = std::fs::read(&file).expect("a file");
    let verify = || failure(dictum(&["backup", "--verify", shown]));
    for place in [5, 40, whole.len() / 2, whole.len() - 3] {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x10;
        std::fs::write(&file, bytes).expect("it is written");
        assert!(verify().contains("bucket default, partition 0"), "{}", verify());
    }
    std::fs::write(&file, &whole[..whole.len() / 3]).expect("it is written");
    assert!(verify().contains("bucket default, partition 0"), "{}", verify());
    std::fs::write(&file, whole).expect("it is written");
    run(&["backup", "--verify", shown]);
    std::fs::remove_file(backup.join("manifest.json")).expect("it was there");
    assert!(verify().contains("broken off"), "{}", verify());
    let refused = failure(dictum(&["restore", shown, "--at", asked, "--over"]));
    assert!(refused.contains("broken off"), "{refused}");
}

/// The node that is asked dies in the middle, and the next one: the restore ends well all the same, and lists have their order.
#[test]
fn a_restore_goes_on_when_nodes_fail() {
    let folder = tempdir().expect("a temporary folder");
    let (backup, expected) = {
        let living = Dev::start(&folder.path().join("living"), &["--nodes", "1"]);
        let asked = living.nodes[0].resp.as_str();
        eventually(asked, &["SET", "k", "v"]);
        fill(asked);
        let mut client = client(asked, "default");
        for round in 0..300 {
            let items: Vec<String> = (0..100).map(|item| format!("{round}-{item}-{}", "y".repeat(300))).collect();
            let words: Vec<&str> = ["RPUSH", "long"].into_iter().chain(items.iter().map(String::as_str)).collect();
            must(&mut client, &words);
        }
        let backup = folder.path().join("backup");
        run(&["backup", backup.to_str().expect("text"), "--at", asked]);
        (backup, contents(asked, "default"))
    };
    let other = Dev::start(&folder.path().join("other"), &[]);
    eventually(&other.nodes[0].resp, &["PING"]);
    let leader = other.leader();
    let restore = dictum(&["restore", backup.to_str().expect("text"), "--at", &leader.resp]);
    std::thread::scope(|scope| {
        let restored = scope.spawn(|| output(restore));
        wait_for("the first keys", || {
            let follower = other.nodes.iter().find(|node| node.name != leader.name)?;
            (eventually(&follower.resp, &["DBSIZE"]) != Value::Integer(0)).then_some(())
        });
        signal(leader.pid, Signal::KILL);
        let restored = restored.join().expect("it was started");
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    });
    let left = other.nodes.iter().find(|node| node.name != leader.name).expect("two are left");
    let found = contents(&left.resp, "default");
    assert_eq!(found.len(), expected.len());
    assert!(found == expected);
}

/// docs/backup.md, the chapter "Rehearsal", to the letter.
#[test]
fn the_rehearsal_goes_as_it_is_told() {
    let text = include_str!("../../../docs/backup.md");
    let chapter = text.split("## Rehearsal").nth(1).expect("there is the chapter");
    let script = chapter.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("it has a script");
    assert!(script.lines().count() >= 4, "{script}");
    let folder = tempdir().expect("a temporary folder");
    let living = Dev::start(&folder.path().join("living"), &[]);
    let rehearsal = Dev::start(&folder.path().join("rehearsal"), &[]);
    for dev in [&living, &rehearsal] {
        eventually(&dev.nodes[0].resp, &["PING"]);
    }
    eventually(&living.nodes[0].resp, &["SET", "greeting", "hello"]);
    let program = Path::new(env!("CARGO_BIN_EXE_dictum")).parent().expect("it is in a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-e", "-u", "-c", script]).env("PATH", path).env("BACKUP", folder.path().join("backup"));
    shell.env("LIVING", &living.nodes[0].resp).env("REHEARSAL", &rehearsal.nodes[0].resp);
    let done = output(shell);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(eventually(&rehearsal.nodes[2].resp, &["GET", "greeting"]), Value::bulk("hello"));
}
