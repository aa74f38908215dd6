//! What clients hold of a real node: memory that they do not read, and file descriptors.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::process::Process;
use crate::common::{Client, PATIENCE, dictum, eventually, free_ports, output, wait_for};

struct Node {
    process: Process,
    resp: String,
    http: String,
}

/// The command of a node alone, by way of a shell that lowers the limit of open files, if it is to be lowered.
fn command(folder: &Path, files: Option<u32>, more: &[&str]) -> (Command, String, String) {
    let [resp, http, peer] = free_ports().map(|port| format!("127.0.0.1:{port}"));
    let own = dictum(&["start"]);
    let limit = files.map_or(String::new(), |files| format!("ulimit -n {files}; "));
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limit}exec \"$@\""), "sh"]).arg(own.get_program()).args(own.get_args());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DICTUM_")) {
        command.env_remove(name);
    }
    command.args(["--node", "n1", "--cluster", &format!("n1={peer}"), "--resp", &resp, "--http", &http, "--dir"]);
    command.arg(folder).args(more);
    (command, resp, http)
}

fn start(folder: &Path, files: Option<u32>, more: &[&str]) -> Node {
    wait_for("a node", || {
        let (command, resp, http) = command(folder, files, more);
        match Process::start(command) {
            Ok(process) => {
                eventually(&resp, &["SET", "ready", "1"]);
                Some(Node { process, resp, http })
            }
            // Another test may have been quicker to take a port.
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    })
}

impl Node {
    /// The memory that it has, in bytes.
    fn resident_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.split_whitespace().next().and_then(|text| text.parse::<u64>().ok()).expect("a number") * 1024
    }
}

#[test]
fn answers_that_nobody_reads_cost_little() {
    for io_threads in ["1", "2"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let node = start(folder.path(), None, &["--io-threads", io_threads]);
        let mut client = Client::connect(&node.resp).expect("it listens");
        client.call(&["SET", "big", &"x".repeat(1_000_000)]).expect("an answer");
        let before = node.resident_bytes();
        let greedy: Vec<TcpStream> = (0..3)
            .map(|_| {
                let mut stream = TcpStream::connect(&node.resp).expect("it listens");
                stream.write_all(&b"GET big\r\n".repeat(3000)).expect("it is sent");
                stream
            })
            .collect();
        // Until it holds as much as it will: nothing more is answered to them.
        let mut seen = 0;
        let end = Instant::now() + Duration::from_secs(8);
        while Instant::now() < end {
            // The node answers, though not at once: a test that asks without a pause keeps a processor from all others.
            client.call(&["BLPOP", "nobody", "0.01"]).expect("an answer");
            seen = seen.max(node.resident_bytes());
        }
        assert!(seen - before < 500_000_000, "{} MB more", (seen - before) >> 20);
        let list = client.call(&["CLIENT", "LIST"]).expect("an answer");
        let list = String::from_utf8_lossy(list.as_bytes().expect("text")).into_owned();
        let omem = |line: &str| line.split_whitespace().find_map(|it| it.strip_prefix("omem=")?.parse::<u64>().ok());
        let waiting: u64 = list.lines().filter_map(omem).sum();
        assert!(waiting > 3_000_000, "{list}");
        // One of them reads after all: it gets everything.
        let mut reading = greedy[0].try_clone().expect("a second handle");
        reading.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let (mut left, mut buffer) = (3000 * 1_000_012_usize, vec![0; 1 << 20]);
        while left > 0 {
            let count = reading.read(&mut buffer).expect("more");
            assert!(count > 0, "{left} bytes were still to come");
            left -= count;
        }
    }
}

#[test]
fn clients_do_not_take_the_journals_descriptors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let node = start(folder.path(), Some(256), &[]);
    assert!(node.process.has_said("at most 256 files may be open"), "{:?}", node.process.lines());
    let idle: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(&node.http).expect("it listens")).collect();
    let others: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&node.resp).expect("it listens")).collect();
    // More than some segments of the journal, which are files; a place for this client comes with the end of others.
    drop(others);
    let value = "x".repeat(8_000_000);
    for number in 0..40 {
        eventually(&node.resp, &["SET", &format!("key:{}", number % 4), &value]);
    }
    drop(idle);
    eventually(&node.resp, &["GET", "ready"]);
    assert!(!node.process.has_ended(), "{:?}", node.process.lines());
    assert!(!node.process.has_said("too many files are open"), "{:?}", node.process.lines());
    assert!(node.process.stop(), "it ends well");
}

#[test]
fn a_node_with_too_few_descriptors_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut command, ..) = command(folder.path(), Some(100), &[]);
    command.stdin(Stdio::null());
    let ended = output(command);
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && text.contains("at most 100 files may be open"), "{text}");
}
