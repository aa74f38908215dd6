//! All keys leave as an RDB file: by `SYNC` and `PSYNC`, and by `dictum export --format rdb`.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use node::rdb::{Item, RdbReader};
use tempfile::tempdir;
use wire::Value;

use crate::backup::{contents, fill, run};
use crate::common::process::Process;
use crate::common::{Client, Dev, PATIENCE, dictum, eventually, failure, free_ports, output, wait_for};
use crate::start::start_command;

/// A node alone, as [`start_command`] starts it.
fn alone(dir: &Path, more: &[&str]) -> (Process, String) {
    wait_for("a node", || {
        let ports = free_ports();
        match Process::start(start_command(dir, ports, more)) {
            Ok(process) => Some((process, format!("127.0.0.1:{}", ports[0]))),
            // Another test may have been quicker to take a port.
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    })
}

fn dial(resp: &str) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(resp).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    BufReader::new(stream)
}

/// The next line that is not empty.
fn line(stream: &mut BufReader<TcpStream>) -> String {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).expect("a line") > 0, "the connection has ended");
        if !line.trim_end().is_empty() {
            return line.trim_end().to_owned();
        }
    }
}

/// Asks for all keys; the answers up to the file, and its length.
fn ask(stream: &mut BufReader<TcpStream>, said: &[u8]) -> (Vec<String>, u64) {
    stream.get_mut().write_all(said).expect("it is sent");
    let mut lines = Vec::new();
    loop {
        let line = line(stream);
        match line.strip_prefix('$') {
            Some(length) => return (lines, length.parse().expect("a length")),
            None => lines.push(line),
        }
    }
}

fn items(file: &[u8]) -> Vec<Item> {
    let mut reader = RdbReader::default();
    reader.push(file);
    let mut items = Vec::new();
    while let Some(item) = reader.next().expect("it is whole") {
        items.push(item);
    }
    assert!(reader.is_at_end());
    items
}

/// Databases of the keys of a file, each once, and how many keys and libraries there are.
fn told(file: &[u8]) -> (Vec<u64>, usize, usize) {
    let (mut databases, mut keys, mut libraries) = (Vec::new(), 0, 0);
    for item in items(file) {
        match item {
            Item::Library(_) => libraries += 1,
            Item::Key(key) => {
                keys += 1;
                databases.push(key.database);
            }
        }
    }
    databases.dedup();
    (databases, keys, libraries)
}

fn call(resp: &str, words: &[&str]) -> Value {
    Client::connect(resp).expect("it listens").call(words).expect("a reply")
}

/// More megabytes than sockets hold, though digits can be compressed a little.
fn fill_with_chance(resp: &str) {
    let mut rng = base::Rng::new(5);
    let mut client = Client::connect(resp).expect("it listens");
    for number in 0..40 {
        let value: String = (0..1 << 16).map(|_| format!("{:016x}", rng.next_u64())).collect();
        assert_eq!(client.call(&["SET", &format!("large:{number}"), &value]).expect("a reply"), Value::ok());
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

#[test]
fn the_keys_of_one_cluster_are_imported_into_another() {
    let folder = tempdir().expect("a temporary folder");
    let living = Dev::start(&folder.path().join("living"), &[]);
    let from = living.nodes[1].resp.as_str();
    eventually(from, &["SET", "k", "v"]);
    fill(from);
    let expected = ["default", "5"].map(|bucket| contents(from, bucket));

    // Another one asks as a new replica does, and over the cluster's listener, too.
    for (place, from) in [from, living.nodes[2].cluster.as_str()].into_iter().enumerate() {
        let other = Dev::start(&folder.path().join(format!("other-{place}")), &["--nodes", "1"]);
        let at = other.nodes[0].resp.as_str();
        eventually(at, &["PING"]);
        let said = run(&["import", "--from", from, "--at", at]);
        assert!(said.contains("and 1 libraries of functions were taken over"), "{said}");
        assert!(["default", "5"].map(|bucket| contents(at, bucket)) == expected);
        assert_eq!(call(at, &["FCALL", "f", "0"]), Value::Integer(7));
        assert_eq!(call(at, &["SELECT", "users"]).as_error().map(|text| &text[..3]), Some("ERR"));
    }

    // The same file is made of a backup, and of the running cluster.
    let keys = expected.iter().map(Vec::len).sum();
    let backup = folder.path().join("backup");
    let backup = backup.to_str().expect("text");
    run(&["backup", backup, "--at", from]);
    for source in [&[backup][..], &["--at", from]] {
        let exported = output(dictum(&[&["export", "--format", "rdb"], source].concat()));
        let said = String::from_utf8_lossy(&exported.stderr).into_owned();
        assert!(exported.status.success(), "{said}");
        assert_eq!(told(&exported.stdout), (vec![0, 5], keys, 1));
        // Of a running cluster that one is not even taken.
        assert_eq!(said.contains("bucket users is left out"), source.len() == 1, "{said}");
    }
    let users = output(dictum(&["export", backup, "--format", "rdb", "--bucket", "users"]));
    assert_eq!(told(&users.stdout).0, [0]);
    assert_eq!(told(&users.stdout).1, contents(from, "users").len());
    let refused = failure(dictum(&["export", backup, "--format", "rdb", "--bucket", "nobody"]));
    assert!(refused.contains("no bucket 'nobody'"), "{refused}");
    for node in &living.nodes {
        wait_for("the scratch folders are gone", || is_empty(&node.dir.join("full-sync")).then_some(()));
    }
}

#[test]
fn a_client_is_answered_as_by_a_redis_behind_a_password_and_io_threads() {
    let folder = tempdir().expect("a temporary folder");
    let (node, resp) = alone(folder.path(), &["--password", "secret", "--io-threads", "3"]);
    let said = |text: &str| {
        wait_for("an answer", || {
            let mut stream = dial(&resp);
            stream.get_mut().write_all(text.as_bytes()).ok()?;
            Some(line(&mut stream)).filter(|line| !line.starts_with("-CLUSTERDOWN"))
        })
    };
    assert!(said("PSYNC ? -1\r\n").starts_with("-NOAUTH"));
    wait_for("it serves", || {
        let mut stream = dial(&resp);
        stream.get_mut().write_all(b"AUTH secret\r\nSET k v\r\n").ok()?;
        (line(&mut stream) == "+OK" && line(&mut stream) == "+OK").then_some(())
    });
    let mut stream = dial(&resp);
    let (lines, length) = ask(&mut stream, b"AUTH secret\r\nREPLCONF capa eof\r\nSET l v\r\nPSYNC ? -1\r\nSET m v\r\n");
    assert_eq!(lines[..3], ["+OK"; 3]);
    let id = lines[3].strip_prefix("+FULLRESYNC ").and_then(|rest| rest.strip_suffix(" 0")).expect("an identifier");
    assert!(lines.len() == 4 && id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{lines:?}");
    let mut file = Vec::new();
    // Nothing but the file, and then the end.
    stream.read_to_end(&mut file).expect("it is sent");
    assert_eq!(file.len() as u64, length);
    assert_eq!(told(&file), (vec![0], 2, 0));
    // What stands behind the command is not carried out.
    let mut again = dial(&resp);
    let (lines, _) = ask(&mut again, b"AUTH secret\r\nEXISTS m\r\nMULTI\r\nSYNC\r\nDISCARD\r\nSYNC\r\n");
    let expected = ["+OK", ":0", "+OK", "-ERR Command not allowed inside a transaction", "+OK"];
    assert_eq!(lines, expected);
    // It is over once the client has gone, or after some seconds.
    drop(stream);
    wait_for("the word of it", || node.has_said("was sent 2 keys as an RDB file").then_some(()));
}

#[test]
fn clients_that_never_read_keep_two_places_and_nothing_else() {
    let folder = tempdir().expect("a temporary folder");
    let (_node, resp) = alone(folder.path(), &[]);
    eventually(&resp, &["SET", "k", "v"]);
    fill_with_chance(&resp);
    let idle: Vec<BufReader<TcpStream>> = (0..2)
        .map(|_| {
            let mut stream = dial(&resp);
            // They read up to the file.
            assert!(ask(&mut stream, b"SYNC\r\n").1 > 20 << 20);
            stream
        })
        .collect();
    let refused = call(&resp, &["PSYNC", "?", "-1"]);
    assert!(refused.as_error().is_some_and(|text| text.contains("two RDB files")), "{refused:?}");
    // Others are served meanwhile.
    assert_eq!(call(&resp, &["SET", "k", "w"]), Value::ok());
    assert!(!is_empty(&folder.path().join("full-sync")));
    drop(idle);
    wait_for("a place", || {
        let mut stream = dial(&resp);
        stream.get_mut().write_all(b"SYNC\r\n").ok()?;
        line(&mut stream).starts_with('$').then_some(())
    });
    wait_for("the scratch folders are gone", || is_empty(&folder.path().join("full-sync")).then_some(()));
}

#[test]
fn what_a_killed_node_leaves_is_removed_at_its_next_start() {
    let folder = tempdir().expect("a temporary folder");
    let (node, resp) = alone(folder.path(), &[]);
    eventually(&resp, &["SET", "k", "v"]);
    fill_with_chance(&resp);
    let mut stream = dial(&resp);
    ask(&mut stream, b"SYNC\r\n");
    node.kill();
    assert!(!is_empty(&folder.path().join("full-sync")), "it was in the middle of it");
    // It is nothing that an operator has to look at.
    let said = output(dictum(&["check", folder.path().to_str().expect("text")]));
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
    assert!(!String::from_utf8_lossy(&said.stdout).contains("does not know"));
    let (_node, resp) = alone(folder.path(), &[]);
    assert_eq!(eventually(&resp, &["GET", "k"]), Value::bulk("v"));
    assert!(is_empty(&folder.path().join("full-sync")));
}

#[test]
fn a_disk_without_room_is_told_before_anything_is_written() {
    let folder = tempdir().expect("a temporary folder");
    // No disk has so much.
    let (_node, resp) = alone(folder.path(), &["--disk-low-mark", "1000000G"]);
    let refused = wait_for("an answer", || {
        let mut stream = dial(&resp);
        stream.get_mut().write_all(b"SYNC\r\n").ok()?;
        Some(line(&mut stream)).filter(|line| !line.starts_with("-CLUSTERDOWN"))
    });
    assert_eq!(refused, "-ERR the disk of this node has no room for the file; ask another node");
    wait_for("the scratch folder is gone", || is_empty(&folder.path().join("full-sync")).then_some(()));
}

/// A real Redis with nothing but a file that it loads at its start; ended when this is dropped.
struct Redis {
    child: Child,
    resp: String,
}

impl Redis {
    fn start(folder: &Path, file: &str) -> Redis {
        wait_for("a redis-server", || {
            let [port] = free_ports();
            let mut command = Command::new("redis-server");
            command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
            command.arg("--dir").arg(folder).args(["--dbfilename", file]).stdin(Stdio::null()).stdout(Stdio::piped());
            let mut child = command.spawn().expect("it is installed");
            let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            let mut said = Vec::new();
            for line in lines.map_while(Result::ok) {
                if line.contains("Ready to accept connections") {
                    return Some(Redis { child, resp: format!("127.0.0.1:{port}") });
                }
                said.push(line);
            }
            child.wait().expect("it has ended");
            // Another test may have been quicker to take the port.
            assert!(said.iter().any(|line| line.contains("in use")), "it does not load the file: {said:#?}");
            None
        })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It has ended by itself if that fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All keys of a database by name: the type, the value and the deadline of each, as clients see them.
fn seen(resp: &str, database: &str) -> Vec<(String, Vec<Value>)> {
    let mut client = Client::connect(resp).expect("it listens");
    let mut must = |words: &[&str]| {
        let reply = client.call(words).expect("a reply");
        assert!(reply.as_error().is_none(), "{words:?} at {resp}: {reply:?}");
        reply
    };
    let text = |value: &Value| match value {
        Value::Simple(text) => text.clone(),
        other => String::from_utf8(other.as_bytes().expect("text").to_vec()).expect("text"),
    };
    must(&["SELECT", database]);
    let Value::Array(keys) = must(&["KEYS", "*"]) else { panic!("an array") };
    let mut keys: Vec<String> = keys.iter().map(text).collect();
    keys.sort();
    let of = |key: String| {
        let kind = text(&must(&["TYPE", &key]));
        let asked: &[&[&str]] = match kind.as_str() {
            "string" => &[&["GET", &key]],
            "list" => &[&["LRANGE", &key, "0", "-1"]],
            "hash" => &[&["HGET", &key, "f"], &["HGET", &key, "g"], &["HLEN", &key]],
            "set" => &[&["SMISMEMBER", &key, "a", "b", "c", "d"], &["SCARD", &key]],
            "zset" => &[&["ZRANGE", &key, "0", "-1", "WITHSCORES"]],
            "stream" => &[&["XRANGE", &key, "-", "+"], &["XPENDING", &key, "group"]],
            other => panic!("{key} is a {other}"),
        };
        let mut values: Vec<Value> = asked.iter().map(|words| must(words)).collect();
        values.extend([Value::bulk(&kind), must(&["PEXPIRETIME", &key])]);
        (key, values)
    };
    keys.into_iter().map(of).collect()
}

/// As docs/backup.md tells it.
#[test]
fn a_real_redis_loads_the_file_that_its_own_client_has_got() {
    for program in ["redis-cli", "redis-server"] {
        if Command::new(program).arg("--version").output().is_err() {
            eprintln!("skipped: {program} is not installed");
            return;
        }
    }
    let folder = tempdir().expect("a temporary folder");
    let (node, resp) = alone(&folder.path().join("n1"), &[]);
    eventually(&resp, &["SET", "k", "v"]);
    fill(&resp);
    for database in ["0", "5"] {
        // A Redis without RedisJSON refuses files with documents.
        let mut client = Client::connect(&resp).expect("it listens");
        assert_eq!(client.call(&["SELECT", database]).expect("a reply"), Value::ok());
        assert_eq!(client.call(&["DEL", "json"]).expect("a reply"), Value::Integer(1));
    }
    let file = folder.path().join("dump.rdb");
    let mut command = Command::new("redis-cli");
    command.args(["-p", resp.rsplit(':').next().expect("a port"), "--rdb"]).arg(&file).stdin(Stdio::null());
    let got = output(command);
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    let redis = Redis::start(folder.path(), "dump.rdb");
    for database in ["0", "5"] {
        let (expected, found) = (seen(&resp, database), seen(&redis.resp, database));
        assert!(
            expected.len() > 400 && expected.iter().any(|(key, _)| key == "stream"),
            "there is something to be seen"
        );
        for (ours, theirs) in expected.iter().zip(&found) {
            assert_eq!(ours, theirs, "database {database}");
        }
        assert_eq!(expected.len(), found.len(), "database {database}");
    }
    assert_eq!(call(&redis.resp, &["FCALL", "f", "0"]), Value::Integer(7));
    assert_eq!(
        call(&redis.resp, &["INFO", "keyspace"])
            .as_bytes()
            .map(|text| text.windows(3).filter(|it| it == b"\ndb").count()),
        Some(2)
    );
    assert!(node.stop(), "it ends well");
}
