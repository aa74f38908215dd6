//! Clients of a real node that end their side of the connection, or are killed: what they have sent is carried out, and nothing is taken for them.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::common::process::Process;
use crate::common::{Client, PATIENCE, dictum, eventually, free_ports, wait_for};
use wire::Value;

/// A node alone; with or without threads of their own for clients' sockets.
fn start(folder: &std::path::Path, io_threads: &str) -> (Process, String) {
    wait_for("a node", || {
        let [resp, http, peer] = free_ports().map(|port| format!("127.0.0.1:{port}"));
        let mut command =
            dictum(&["start", "--node", "n1", "--cluster", &format!("n1={peer}"), "--io-threads", io_threads]);
        command.args(["--resp", &resp, "--http", &http, "--dir"]).arg(folder);
        match Process::start(command) {
            Ok(process) => {
                eventually(&resp, &["SET", "ready", "1"]);
                Some((process, resp))
            }
            // Another test may have been quicker to take a port.
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    })
}

/// Sends all of it, ends this side, and returns all that is answered.
fn pipe(resp: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(resp).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let mut reading = stream.try_clone().expect("a second handle");
    let reader = std::thread::spawn(move || {
        let mut answers = Vec::new();
        reading.read_to_end(&mut answers).expect("the end of the connection");
        answers
    });
    stream.write_all(bytes).expect("it is sent");
    stream.shutdown(Shutdown::Write).expect("it is ended");
    reader.join().expect("it reads")
}

fn blocked(client: &mut Client) -> String {
    let info = client.call(&["INFO", "clients"]).expect("an answer");
    let text = String::from_utf8_lossy(info.as_bytes().expect("text")).into_owned();
    text.lines().find_map(|line| line.strip_prefix("blocked_clients:")).expect("the field").to_owned()
}

/// The most bytes of commands that the node holds of one client.
fn longest_backlog(client: &mut Client) -> usize {
    let list = client.call(&["CLIENT", "LIST"]).expect("an answer");
    let text = String::from_utf8_lossy(list.as_bytes().expect("text")).into_owned();
    let fields = text.split_whitespace().filter_map(|field| field.strip_prefix("qbuf="));
    fields.map(|bytes| bytes.parse::<usize>().expect("a number")).max().expect("this client at least")
}

fn wait_for_blocked(client: &mut Client, count: &str) {
    wait_for("clients that wait", || (blocked(client) == count).then_some(()));
}

#[test]
fn what_was_sent_before_the_end_is_carried_out_and_answered() {
    for io_threads in ["1", "2"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (_process, resp) = start(folder.path(), io_threads);
        for number in 1..=20 {
            let answers = pipe(&resp, b"PING\r\nINCR n\r\n");
            assert_eq!(String::from_utf8_lossy(&answers), format!("+PONG\r\n:{number}\r\n"));
        }
        const MANY: usize = 50_000;
        let answers = pipe(&resp, "INCR many\r\n".repeat(MANY).as_bytes());
        assert!(answers.ends_with(format!(":{MANY}\r\n").as_bytes()), "{} bytes of answers", answers.len());
    }
}

#[test]
fn nothing_is_taken_for_a_client_that_was_killed() {
    for io_threads in ["1", "2"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (_process, resp) = start(folder.path(), io_threads);
        let mut client = Client::connect(&resp).expect("it listens");
        for (waits, pushes) in
            [(["BLPOP", "q", "0"], ["RPUSH", "q", "x"]), (["BZPOPMIN", "q", "0"], ["ZADD", "q", "1"])]
        {
            let (mut dead, mut alive) =
                (Client::connect(&resp).expect("it listens"), Client::connect(&resp).expect("it listens"));
            dead.send(&waits).expect("it is sent");
            wait_for_blocked(&mut client, "1");
            alive.send(&waits).expect("it is sent");
            wait_for_blocked(&mut client, "2");
            drop(dead);
            wait_for_blocked(&mut client, "1");
            let words: Vec<&str> = pushes.iter().copied().chain((pushes[0] == "ZADD").then_some("x")).collect();
            assert_eq!(client.call(&words).expect("an answer"), Value::Integer(1));
            let popped = alive.receive().expect("the element");
            assert_eq!(popped.as_array().expect("a pair")[1].as_bytes(), Some(&b"x"[..]));
        }
    }
}

/// The node has stopped reading from a client that waits and has sent much behind that: its end is seen all the same.
#[test]
fn the_end_of_a_client_is_seen_behind_what_is_not_read() {
    for io_threads in ["1", "2"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (_process, resp) = start(folder.path(), io_threads);
        let mut client = Client::connect(&resp).expect("it listens");
        let mut dead = TcpStream::connect(&resp).expect("it listens");
        dead.write_all(b"BLPOP q 0\r\n").expect("it is sent");
        wait_for_blocked(&mut client, "1");
        // More than the node keeps: it reads no further.
        let (line, kept) = (b"SET k v\r\n", 64 * 1024 * 1024);
        dead.write_all(&line.repeat(kept / line.len() + 1)).expect("it is sent");
        wait_for("a node that has read enough", || (longest_backlog(&mut client) > kept).then_some(()));
        // Behind that no more than fits into the smallest window of the system, or the end would stay with the sender. (With 300 KB it did, where a busy machine had read so
        // slowly that the window had not grown.)
        dead.write_all(&line.repeat(40_000 / line.len())).expect("it is sent");
        drop(dead);
        wait_for_blocked(&mut client, "0");
        assert_eq!(client.call(&["RPUSH", "q", "x"]).expect("an answer"), Value::Integer(1));
        assert_eq!(client.call(&["LLEN", "q"]).expect("an answer"), Value::Integer(1));
    }
}
