//! The keys of a Redis come into a cluster, from its file and from itself, and go back.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;

use tempfile::tempdir;
use wire::Value;

use crate::common::{Client, Dev, dictum, eventually, failure, output};

/// Saved by a Redis 7.0.15: see `data/src/algorithms/rdb/tests.rs`.
fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/src/algorithms/rdb/redis-7.0.rdb")
}

fn cluster(folder: &Path) -> Dev {
    let dev = Dev::start(folder, &["--nodes", "1"]);
    eventually(&dev.nodes[0].resp, &["PING"]);
    dev
}

fn run(words: &[&str]) -> String {
    let done = output(dictum(words));
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("it is text")
}

/// That everything of the file is there.
fn look(resp: &str) {
    let mut client = Client::connect(resp).expect("it listens");
    let mut ask = |line: &str| client.call(&line.split(' ').collect::<Vec<_>>()).expect("a reply");
    assert_eq!(ask("DBSIZE"), Value::Integer(20));
    assert_eq!(ask("GET not-so-small"), Value::bulk("123456789012345"));
    assert_eq!(ask("PEXPIRETIME fades"), Value::Integer(4_102_444_800_123));
    assert_eq!(ask("ZSCORE sorted d"), Value::bulk("1e+300"));
    assert_eq!(ask("LLEN list"), Value::Integer(8));
    assert_eq!(ask("XLEN stream"), Value::Integer(2));
    assert_eq!(ask("PFCOUNT sketch"), Value::Integer(3));
    assert_eq!(ask("FCALL f 0"), Value::Integer(7));
    assert_eq!(ask("SELECT 5"), Value::ok());
    assert_eq!(ask("GET in-five"), Value::bulk("v"));
}

#[test]
fn from_a_file_and_back_as_commands() {
    let folder = tempdir().expect("a temporary folder");
    let dev = cluster(&folder.path().join("one"));
    let at = dev.nodes[0].resp.as_str();
    let rdb = file();
    let rdb = rdb.to_str().expect("text");
    let said = run(&["import", rdb, "--at", at]);
    assert!(said.contains("21 keys and 1 libraries"), "{said}");
    look(at);
    let refused = failure(dictum(&["import", rdb, "--at", at]));
    assert!(refused.contains("--over"), "{refused}");
    run(&["import", rdb, "--at", at, "--over"]);
    look(at);
    let refused = failure(dictum(&["import", rdb, "--at", at, "--over", "--into", "default"]));
    assert!(refused.contains("several databases"), "{refused}");

    let backup = folder.path().join("backup");
    let backup = backup.to_str().expect("text");
    run(&["backup", backup, "--at", at]);
    let exported = output(dictum(&["export", backup]));
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    let other = cluster(&folder.path().join("two"));
    let mut client = Client::connect(&other.nodes[0].resp).expect("it listens");
    client.stream().write_all(&exported.stdout).expect("it is taken");
    // The library, and the keys of database 0.
    for _ in 0..21 {
        let reply = client.receive().expect("a reply");
        assert!(reply.as_error().is_none(), "{reply:?}");
    }
    assert_eq!(client.call(&["DBSIZE"]).expect("a reply"), Value::Integer(20));
    assert_eq!(client.call(&["XLEN", "stream"]).expect("a reply"), Value::Integer(2));
}

#[test]
fn from_commands_each_once() {
    let folder = tempdir().expect("a temporary folder");
    let dev = cluster(&folder.path().join("one"));
    let at = dev.nodes[0].resp.as_str();
    run(&["import", file().to_str().expect("text"), "--at", at]);
    // Of the running cluster.
    let exported = output(dictum(&["export", "--at", at]));
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    let path = folder.path().join("commands.resp");
    let shown = path.to_str().expect("text");
    let mut commands = exported.stdout;
    for words in [
        &["SELECT", "5"][..],
        &["MULTI"],
        &["RPUSH", "in-order", "a"],
        &["INCRBY", "number", "7"],
        &["EXEC"],
        &["SELECT", "0"],
        &["SELECT", "5"],
    ] {
        wire::encode_command(&mut commands, words);
    }
    for number in 0..1000 {
        wire::encode_command(&mut commands, ["RPUSH", "in-order", &number.to_string()]);
    }
    wire::encode_command(&mut commands, ["SET", "in-five", "v"]);
    std::fs::write(&path, &commands).expect("it is written");
    let other = cluster(&folder.path().join("two"));
    let to = other.nodes[0].resp.as_str();
    let said = run(&["import", shown, "--at", to]);
    assert!(said.contains("1024 commands were carried out"), "{said}");
    look(to);
    let mut client = Client::connect(to).expect("it listens");
    client.call(&["SELECT", "5"]).expect("a reply");
    assert_eq!(client.call(&["LLEN", "in-order"]).expect("a reply"), Value::Integer(1001));
    assert_eq!(client.call(&["LINDEX", "in-order", "-1"]).expect("a reply"), Value::bulk("999"));
    assert_eq!(client.call(&["GET", "number"]).expect("a reply"), Value::bulk("7"));

    // One that is refused is told, or left out and kept; a file that is cut short is told.
    let mut commands = Vec::new();
    for words in [&["SET", "a", "1"][..], &["INCR", "list"], &["SET", "b", "2"]] {
        wire::encode_command(&mut commands, words);
    }
    std::fs::write(&path, &commands).expect("it is written");
    let refused = failure(dictum(&["import", shown, "--at", to]));
    assert!(refused.contains("--over"), "{refused}");
    let refused = failure(dictum(&["import", shown, "--at", to, "--over"]));
    assert!(
        refused.contains("refused: command 2: WRONGTYPE") && refused.contains("--skip 3 --name import-"),
        "{refused}"
    );
    let rejects = folder.path().join("rejects");
    let words = ["import", shown, "--at", to, "--over", "--rejects", rejects.to_str().expect("text")];
    assert_eq!(output(dictum(&words)).status.code(), Some(3));
    assert_eq!(std::fs::read(&rejects).expect("it is there"), b"*2\r\n$4\r\nINCR\r\n$4\r\nlist\r\n");
    std::fs::write(&path, &commands[..commands.len() - 3]).expect("it is written");
    let refused = failure(dictum(&["import", shown, "--at", to, "--over", "--skip", "2"]));
    assert!(refused.contains("in the middle of command 3"), "{refused}");
    let table = run(&["export", "--at", to, "--format", "csv"]);
    assert!(
        table.starts_with("key,type,expires_at_ms,field,value\r\n") && table.contains("a,string,,,1\r\n"),
        "{table}"
    );
}

#[test]
fn from_lines_of_json_and_back() {
    let folder = tempdir().expect("a temporary folder");
    let dev = cluster(&folder.path().join("one"));
    let at = dev.nodes[0].resp.as_str();
    run(&["import", file().to_str().expect("text"), "--at", at]);
    let backup = folder.path().join("backup");
    let backup = backup.to_str().expect("text");
    run(&["backup", backup, "--at", at, "--bucket", "default"]);
    let lines = run(&["export", backup, "--format", "jsonl"]);
    assert_eq!(lines.lines().count(), 20);
    let path = folder.path().join("lines.jsonl");
    let shown = path.to_str().expect("text");
    std::fs::write(&path, &lines).expect("it is written");
    assert!(run(&["bucket", "create", "copy", "--at", at]).contains("copy"));
    assert!(run(&["import", shown, "--at", at, "--into", "copy"]).contains("20 keys"));
    let again = folder.path().join("again");
    let again = again.to_str().expect("text");
    run(&["backup", again, "--at", at, "--bucket", "copy"]);
    let mut copied: Vec<String> =
        run(&["export", again, "--bucket", "copy", "--format", "jsonl"]).lines().map(str::to_owned).collect();
    let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    copied.sort();
    lines.sort();
    assert_eq!(copied, lines);
    // A bad line is told, or left out and kept.
    std::fs::write(&path, "{\"key\":\"a\",\"type\":\"string\",\"value\":\"1\"}\n{\"key\":1}\n\n{\"key\":\"b\",\"type\":\"set\",\"value\":[\"m\"]}\n")
        .expect("it is written");
    let refused = failure(dictum(&["import", shown, "--at", at, "--into", "copy", "--over"]));
    assert!(refused.contains("line 2"), "{refused}");
    let rejects = folder.path().join("rejects");
    let words = ["import", shown, "--at", at, "--into", "copy", "--over", "--rejects", rejects.to_str().expect("text")];
    assert_eq!(output(dictum(&words)).status.code(), Some(3));
    assert_eq!(std::fs::read(&rejects).expect("it is there"), b"{\"key\":1}\n");
    assert_eq!(eventually(at, &["DBSIZE"]), Value::Integer(20));
}

/// A server that answers as a Redis does: signs of life, then the file, then what is written since.
#[test]
fn from_a_server_as_its_replica() {
    let folder = tempdir().expect("a temporary folder");
    let dev = cluster(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let from = listener.local_addr().expect("it has one").to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("dictum connects");
        let mut heard = Vec::new();
        let mut until = |stream: &mut std::net::TcpStream, word: &[u8]| {
            let mut byte = [0];
            while !heard.ends_with(word) {
                std::io::Read::read_exact(stream, &mut byte).expect("it says something");
                heard.push(byte[0]);
            }
        };
        until(&mut stream, b"secret\r\n");
        stream.write_all(b"+OK\r\n").expect("it listens");
        until(&mut stream, b"-1\r\n");
        let bytes = std::fs::read(file()).expect("a file");
        stream.write_all(b"\n\n+FULLRESYNC 0123 0\r\n\n").expect("it listens");
        stream.write_all(format!("${}\r\n", bytes.len()).as_bytes()).expect("it listens");
        stream.write_all(&bytes).expect("it listens");
        // It may be gone by now.
        let _ = stream.write_all(b"*1\r\n$4\r\nPING\r\n");
    });
    let at = dev.nodes[0].resp.as_str();
    run(&["import", "--from", &from, "--from-user", "importer", "--from-password", "secret", "--at", at]);
    server.join().expect("it was asked as it should");
    look(at);
}

#[test]
fn what_is_damaged_or_unknown_is_told() {
    let folder = tempdir().expect("a temporary folder");
    let dev = cluster(&folder.path().join("one"));
    let at = dev.nodes[0].resp.as_str();
    let path = folder.path().join("file.rdb");
    let shown = path.to_str().expect("text");
    let whole = std::fs::read(file()).expect("a file");
    std::fs::write(&path, &whole[..whole.len() - 20]).expect("it is written");
    let refused = failure(dictum(&["import", shown, "--at", at]));
    assert!(refused.contains("ends in the middle"), "{refused}");
    std::fs::write(&path, b"something else altogether\r\n").expect("it is written");
    let refused = failure(dictum(&["import", shown, "--at", at]));
    assert!(refused.contains("no RDB file"), "{refused}");

    // A module's value between two keys: type 7, its name and version in 8 bytes, a number, the end.
    let mut file = b"REDIS0011\x00\x01a\x01x\x07\x01m\x81".to_vec();
    file.extend(0x0123_4567_89ab_cdefu64.to_be_bytes());
    file.extend(b"\x02\x05\x00\x00\x01b\x01y\xff\0\0\0\0\0\0\0\0");
    std::fs::write(&path, file).expect("it is written");
    let refused = failure(dictum(&["import", shown, "--at", at, "--into", "default"]));
    assert!(refused.contains("key \"m\"") && refused.contains("--rejects"), "{refused}");
    let rejects = folder.path().join("rejects");
    let done = output(dictum(&["import", shown, "--at", at, "--over", "--rejects", rejects.to_str().expect("text")]));
    assert_eq!(done.status.code(), Some(3), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(std::fs::read(&rejects).expect("it is there").starts_with(b"*6\r\n$7\r\nRESTORE\r\n$1\r\nm\r\n"));
    let mut client = Client::connect(at).expect("it listens");
    assert_eq!(
        client.call(&["MGET", "a", "b"]).expect("a reply"),
        Value::Array(vec![Value::bulk("x"), Value::bulk("y")])
    );
    assert_eq!(client.call(&["EXISTS", "m"]).expect("a reply"), Value::Integer(0));
}
