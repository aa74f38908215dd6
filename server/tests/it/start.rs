//! `dictum start`: one node alone, as its clients and its operator meet it.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::tempdir;
use wire::Value;

use crate::common::process::Process;
use crate::common::{Client, dictum, eventually, failure, free_ports, wait_for};

/// A cluster of one on free ports.
struct Alone {
    process: Process,
    resp: String,
}

pub fn start_command(dir: &Path, ports: [u16; 3], more: &[&str]) -> Command {
    let [resp, http, peer] = ports;
    let mut command = dictum(&["start", "--node", "n1", "--cluster"]);
    command.arg(format!("n1=127.0.0.1:{peer}"));
    command.args(["--resp", &format!("127.0.0.1:{resp}"), "--http", &format!("127.0.0.1:{http}"), "--dir"]);
    command.arg(dir).args(more).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Alone {
    fn start(dir: &Path, more: &[&str]) -> Alone {
        wait_for("a node", || {
            let ports = free_ports();
            match Process::start(start_command(dir, ports, more)) {
                Ok(process) => Some(Alone { process, resp: format!("127.0.0.1:{}", ports[0]) }),
                // Another test may have been quicker to take a port.
                Err(reason) if reason.contains("is in use by another process; stop") => None,
                Err(reason) => panic!("it has ended: {reason}"),
            }
        })
    }

    fn stop(self) {
        assert!(self.process.stop(), "it ends well");
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_stop_and_after_a_kill() {
    let folder = tempdir().expect("a temporary folder");
    let node = Alone::start(folder.path(), &[]);
    for number in 0..200 {
        eventually(&node.resp, &["SET", &format!("key:{number}"), "value"]);
    }
    drop(node);
    let node = Alone::start(folder.path(), &[]);
    assert_eq!(eventually(&node.resp, &["GET", "key:199"]), Value::bulk("value"));
    eventually(&node.resp, &["SET", "last", "word"]);
    node.stop();
    let node = Alone::start(folder.path(), &[]);
    assert_eq!(eventually(&node.resp, &["GET", "last"]), Value::bulk("word"));
    assert_eq!(eventually(&node.resp, &["GET", "key:0"]), Value::bulk("value"));
    node.stop();
}

#[test]
fn below_the_low_disk_mark_a_node_reads_and_takes_no_writes() {
    let folder = tempdir().expect("a temporary folder");
    let node = Alone::start(folder.path(), &["--disk-low-mark", "0%"]);
    eventually(&node.resp, &["SET", "key", "value"]);
    node.stop();
    // No disk has so much room.
    let node = Alone::start(folder.path(), &["--disk-low-mark", "1000000G"]);
    assert_eq!(eventually(&node.resp, &["GET", "key"]), Value::bulk("value"));
    wait_for("a refusal", || {
        let reply = Client::connect(&node.resp).ok()?.call(&["SET", "key", "other"]).ok()?;
        matches!(&reply, Value::Error(text) if text.starts_with("MISCONF")).then_some(())
    });
    assert_eq!(eventually(&node.resp, &["GET", "key"]), Value::bulk("value"));
    node.stop();
    let node = Alone::start(folder.path(), &[]);
    eventually(&node.resp, &["SET", "key", "other"]);
    assert_eq!(eventually(&node.resp, &["GET", "key"]), Value::bulk("other"));
    node.stop();
}

#[test]
fn a_snapshot_replaces_the_log_and_is_found_again() {
    let folder = tempdir().expect("a temporary folder");
    let more = ["--state", "memory", "--log-bytes-per-snapshot", "64KiB", "--log-entries-kept", "10"];
    let node = Alone::start(folder.path(), &more);
    let value = "v".repeat(1000);
    let mut client = Client::connect(&node.resp).expect("it listens");
    for number in 0..400 {
        assert_eq!(client.call(&["SET", &format!("key:{number}"), &value]).expect("a reply"), Value::ok());
    }
    let snapshots = || {
        let names = std::fs::read_dir(folder.path()).expect("a folder");
        let names = names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("snapshot-00000000-") && !name.ends_with(".tmp")).count()
    };
    // Written beside other work, so there has to be some.
    wait_for("a snapshot", || {
        client.call(&["SET", "key:0", &value]).expect("a reply");
        (snapshots() > 0).then_some(())
    });
    assert!(snapshots() <= 3, "old ones are removed");
    drop(node);
    let node = Alone::start(folder.path(), &more);
    for number in [0, 100, 399] {
        assert_eq!(eventually(&node.resp, &["GET", &format!("key:{number}")]), Value::bulk(&value));
    }
}

#[test]
fn pipelines_large_values_and_ended_clients_get_all_their_replies() {
    all_replies_come(["--io-threads", "1"]);
}

#[test]
fn they_get_them_from_threads_that_only_serve_sockets_too() {
    all_replies_come(["--io-threads", "3"]);
}

fn all_replies_come(more: [&str; 2]) {
    let folder = tempdir().expect("a temporary folder");
    let node = Alone::start(folder.path(), &more);
    let large = "x".repeat(3_000_000);
    eventually(&node.resp, &["SET", "large", &large]);

    // Far more replies than a socket takes at once, to a client that reads nothing until it has sent all.
    let mut client = Client::connect(&node.resp).expect("it listens");
    for _ in 0..20 {
        client.send(&["GET", "large"]).expect("it is sent");
        client.send(&["PING"]).expect("it is sent");
    }
    for _ in 0..20 {
        assert!(client.receive().expect("a reply") == Value::bulk(&large));
        assert_eq!(client.receive().expect("a reply"), Value::Simple("PONG".to_owned()));
    }

    // A client that ends its side at once, as `printf … | nc -N` does.
    let mut stream = TcpStream::connect(&node.resp).expect("it listens");
    stream.write_all(b"SET a 1\r\nGET a\r\nPING\r\n").expect("it is sent");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut replies = String::new();
    stream.read_to_string(&mut replies).expect("text until the end");
    assert_eq!(replies, "+OK\r\n$1\r\n1\r\n+PONG\r\n");

    // A command in many pieces.
    let mut client = Client::connect(&node.resp).expect("it listens");
    for byte in b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n" {
        client.stream().write_all(&[*byte]).expect("it is sent");
    }
    assert_eq!(client.receive().expect("a reply"), Value::bulk("1"));

    // What is not RESP is told so, and the connection closed.
    let mut stream = TcpStream::connect(&node.resp).expect("it listens");
    stream.write_all(b"*1\r\n+oops\r\n").expect("it is sent");
    let mut replies = String::new();
    stream.read_to_string(&mut replies).expect("text until the end");
    assert!(replies.starts_with("-ERR Protocol error"), "{replies}");
    node.stop();
}

#[test]
fn connections_on_several_threads_are_served_each_in_its_order_and_closed() {
    const CLIENTS: usize = 24;
    const ROUNDS: usize = 40;
    let folder = tempdir().expect("a temporary folder");
    let node = Alone::start(folder.path(), &["--io-threads", "4"]);
    eventually(&node.resp, &["PING"]);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(&node.resp).expect("it listens")).collect();
    for round in 0..ROUNDS {
        for (number, client) in clients.iter_mut().enumerate() {
            for _ in 0..5 {
                client.send(&["INCR", &format!("key:{number}")]).expect("it is sent");
            }
            client.send(&["CLIENT", "GETNAME"]).expect("it is sent");
            client.send(&["CLIENT", "SETNAME", &format!("{number}-{round}")]).expect("it is sent");
        }
        for (number, client) in clients.iter_mut().enumerate() {
            for step in 1..=5 {
                assert_eq!(client.receive().expect("a reply"), Value::Integer((round * 5 + step) as i64));
            }
            let before = round.checked_sub(1).map_or(Value::Null, |it| Value::bulk(format!("{number}-{it}")));
            assert_eq!(client.receive().expect("a reply"), before);
            assert_eq!(client.receive().expect("a reply"), Value::ok());
        }
    }
    // Those that end are noticed, whoever served them; so is one that the node ends.
    let mut last = clients.pop().expect("many");
    drop(clients);
    wait_for("the end of all others", || {
        let list = last.call(&["CLIENT", "LIST"]).expect("a reply");
        (String::from_utf8_lossy(list.as_bytes()?).lines().count() == 1).then_some(())
    });
    let mut other = Client::connect(&node.resp).expect("it listens");
    let id = other.call(&["CLIENT", "ID"]).expect("a reply").as_integer().expect("a number");
    assert_eq!(last.call(&["CLIENT", "KILL", "ID", &id.to_string()]).expect("a reply"), Value::Integer(1));
    assert!(other.receive().is_err());
    node.stop();
}

#[test]
fn who_does_not_read_is_cut_off_by_a_thread_that_serves_sockets() {
    let folder = tempdir().expect("a temporary folder");
    let node = Alone::start(folder.path(), &["--io-threads", "2"]);
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "pubsub 4mb 1mb 60"];
    assert_eq!(eventually(&node.resp, &limit), Value::ok());
    let mut slow = Client::connect(&node.resp).expect("it listens");
    slow.call(&["SUBSCRIBE", "news"]).expect("a message");
    let mut publisher = Client::connect(&node.resp).expect("it listens");
    let text = "x".repeat(1 << 20);
    wait_for("the end of the slow one", || {
        let count = publisher.call(&["PUBLISH", "news", &text]).expect("an answer");
        (count == Value::Integer(0)).then_some(())
    });
    while slow.receive().is_ok() {}
    node.stop();
}

#[test]
fn one_client_too_many_is_told_so() {
    for io_threads in ["1", "3"] {
        one_too_many(io_threads);
    }
}

fn one_too_many(io_threads: &str) {
    let folder = tempdir().expect("a temporary folder");
    let node = Alone::start(folder.path(), &["--maxclients", "2", "--io-threads", io_threads]);
    let mut clients = Vec::new();
    wait_for("two that are let in", || {
        // Those that have only just gone count until the loop has seen it.
        clients.retain_mut(|client: &mut Client| client.call(&["PING"]).is_ok_and(|reply| reply.as_error().is_none()));
        clients.extend(Client::connect(&node.resp));
        (clients.len() > 2).then_some(())
    });
    let mut third = clients.pop().expect("three connected");
    let refused = third.receive().expect("a reply");
    assert_eq!(refused.as_error(), Some("ERR max number of clients reached"));
    assert!(clients[0].call(&["PING"]).is_ok());
    drop(clients.pop());
    eventually(&node.resp, &["PING"]);
}

#[test]
fn a_set_number_of_clients_holds_at_once_and_after_a_restart() {
    let folder = tempdir().expect("a temporary folder");
    for is_set in [false, true] {
        let node = Alone::start(folder.path(), &[]);
        let mut clients: Vec<Client> = Vec::new();
        if !is_set {
            let mut first = Client::connect(&node.resp).expect("connected");
            assert!(first.call(&["CONFIG", "SET", "maxclients", "2"]).is_ok_and(|reply| reply.as_error().is_none()));
            clients.push(first);
        }
        let refused = wait_for("one that is refused", || {
            let mut next = Client::connect(&node.resp).ok()?;
            let reply = next.call(&["PING"]).ok()?;
            if reply.as_error().is_some() {
                return Some(reply);
            }
            clients.push(next);
            None
        });
        assert_eq!(refused.as_error(), Some("ERR max number of clients reached"));
        assert!(clients.iter_mut().any(|client| client.call(&["PING"]).is_ok()));
        drop(clients);
        node.stop();
    }
}

#[test]
fn wrong_settings_and_wrong_folders_are_said_with_what_to_do() {
    let folder = tempdir().expect("a temporary folder");
    let said = failure(dictum(&["start"]));
    assert!(said.contains("--cluster"), "{said}");
    let said = failure(dictum(&["start", "--cluster", "n1=127.0.0.1:1", "--node", "n2"]));
    assert!(said.contains("n2") && said.contains("n1"), "{said}");
    let said = failure(dictum(&["start", "--value-bytes-max", "much"]));
    assert!(said.contains("16MiB"), "{said}");

    // A node that other machines reach. A second start makes no difference: nothing was begun.
    let open = tempdir().expect("a temporary folder");
    let in_the_open = |more: &[&str]| {
        let mut command = dictum(&["start", "--node", "n1", "--cluster", "n1=192.0.2.1:9001", "--peer", "0.0.0.0:0"]);
        command.args(["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--dir"]).arg(open.path()).args(more);
        command
    };
    for _ in 0..2 {
        let said = failure(in_the_open(&[]));
        assert!(said.contains("dictum init --dir") && said.contains("--insecure"), "{said}");
    }
    let joins = |more: &[&str]| {
        let mut command = dictum(&["start", "--node", "n4", "--join", "127.0.0.1:1", "--peer", "0.0.0.0:0"]);
        command.args(["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--dir"]).arg(open.path()).args(more);
        command
    };
    assert!(failure(joins(&["--token", "t"])).contains("--insecure"));
    // Whatever names the address: the cluster's list, where the others reach it, or where it has moved.
    for words in [
        &["--cluster", "n1=192.0.2.1:9001"][..],
        &["--cluster", "n1=127.0.0.1:9", "--peer-announce", "192.0.2.1:9001"],
        &["--cluster", "n1=127.0.0.1:9", "--moved", "n1=192.0.2.1:9001"],
        &["--join", "127.0.0.1:1", "--token", "t", "--peer-announce", "192.0.2.1:9001"],
    ] {
        let mut command =
            dictum(&[&["start", "--node", "n1", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"], words].concat());
        command.arg("--dir").arg(open.path());
        let said = failure(command);
        assert!(said.contains("192.0.2.1:9001 without a secret"), "{words:?}: {said}");
    }
    let process = Process::start(in_the_open(&["--insecure"])).expect("it starts");
    wait_for("its warning", || process.lines().into_iter().find(|line| line.contains("NO SECRET")));
    drop(process);
    // One that has run before goes on as it did.
    let process = Process::start(in_the_open(&[])).expect("it starts");
    wait_for("its warning", || process.lines().into_iter().find(|line| line.contains("NO SECRET")));
    drop(process);

    let node = Alone::start(folder.path(), &[]);
    let ports = free_ports;
    let said = wait_for("what it says about the folder", || {
        let said = failure(start_command(folder.path(), ports(), &[]));
        (!said.contains("127.0.0.1")).then_some(said)
    });
    assert!(said.contains("in use by process"), "{said}");
    node.stop();

    let other = |name: &str, cluster: &str| {
        let mut command = dictum(&["start", "--node", name, "--cluster", cluster, "--resp", "127.0.0.1:0"]);
        command.args(["--http", "127.0.0.1:0", "--peer", "127.0.0.1:0", "--dir"]).arg(folder.path());
        failure(command)
    };
    let said = other("n2", "n2=127.0.0.1:1");
    assert!(said.contains("belongs to node n1"), "{said}");
    let said = other("n1", "n1=127.0.0.1:1,n2=127.0.0.1:2");
    assert!(said.contains("other nodes"), "{said}");

    let foreign = tempdir().expect("a temporary folder");
    std::fs::write(foreign.path().join("letters.txt"), "dear").expect("a file");
    let said = wait_for("what it says about the folder", || {
        let said = failure(start_command(foreign.path(), ports(), &[]));
        (!said.contains("127.0.0.1")).then_some(said)
    });
    assert!(said.contains("letters.txt"), "{said}");
}

#[test]
fn free_ports_are_different_ports() {
    let ports: [u16; 100] = free_ports();
    assert_eq!(BTreeSet::from(ports).len(), ports.len());
}

#[test]
fn a_port_in_use_is_named_and_the_folder_left_alone() {
    let folder = tempdir().expect("a temporary folder");
    let held = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = held.local_addr().expect("an address").port();
    let said = wait_for("what it says about the port", || {
        let [resp, peer] = free_ports();
        let said = failure(start_command(folder.path(), [resp, port, peer], &[]));
        said.contains(&port.to_string()).then_some(said)
    });
    assert!(said.contains("in use") && said.contains("--http"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn settings_come_from_flags_then_the_environment_then_the_file() {
    let folder = tempdir().expect("a temporary folder");
    let file = folder.path().join("dictum.toml");
    let text = "node = \"from-file\"\ncluster = \"n1=127.0.0.1:1\"\ndir = \"/nowhere\"\nrequest-timeout = \"soon\"\n";
    std::fs::write(&file, text).expect("a file");
    let run = |flags: &[&str], environment: &[(&str, &str)]| {
        let mut command = dictum(&["start", "--config"]);
        command.arg(&file).args(flags).envs(environment.iter().copied());
        failure(command)
    };
    assert!(run(&[], &[]).contains("from-file"));
    assert!(run(&[], &[("DICTUM_NODE", "from-environment")]).contains("from-environment"));
    let said = run(&["--node", "from-flag"], &[("DICTUM_NODE", "from-environment")]);
    assert!(said.contains("from-flag"), "{said}");
    let said = run(&["--node", "n1"], &[]);
    assert!(said.contains("request-timeout") && said.contains("5s"), "{said}");
    std::fs::write(&file, "nodes = 3").expect("a file");
    assert!(run(&[], &[]).contains("nodes"), "unknown names are not ignored");
}

/// Each line is JSON, and says of which node it is, and of which partition where it is about one.
#[test]
fn lines_of_the_log_are_json_where_that_is_wanted() {
    let folder = tempdir().expect("a temporary folder");
    let Alone { process, .. } = Alone::start(folder.path(), &["--log-format", "json"]);
    wait_for("a line about a partition", || process.has_said("\"bucket\":\"default\"").then_some(()));
    for line in process.lines() {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(line["node"], "n1", "{line}");
        assert!(line["timestamp"].is_string() && line["level"].is_string() && line["message"].is_string(), "{line}");
    }
    let about = process.lines().into_iter().find(|line| line.contains("\"bucket\""));
    let about: serde_json::Value = serde_json::from_str(&about.expect("it was waited for")).expect("JSON");
    assert_eq!(about["partition"], 0, "{about}");
}
