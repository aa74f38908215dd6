//! A disk that fills, as clients and operators meet it: a small file system in memory, for which root is needed.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::{TempDir, tempdir};
use wire::Value;

use crate::common::process::Process;
use crate::common::{Client, eventually, free_ports, wait_for};
use crate::start::start_command;

/// A file system of its own.
struct Small {
    folder: TempDir,
}

impl Small {
    /// None, and it is said, if this process may not mount.
    fn new(size: &str) -> Option<Small> {
        let folder = tempdir().expect("a temporary folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "dictum-test"])
            .arg(folder.path())
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Small { folder });
        }
        // `eprintln!` of a test that passes is shown to nobody.
        let _ = writeln!(std::io::stderr(), "low_disk: skipped: a small file system can be mounted by root only");
        None
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("n1")
    }

    /// Takes all the room that is left, as somebody else's file.
    fn fill(&self) {
        let file = OpenOptions::new().append(true).create(true).open(self.folder.path().join("ballast"));
        let mut file = file.expect("a file");
        for bytes in [1 << 20, 4096] {
            while file.write_all(&vec![1; bytes]).is_ok() {}
        }
    }

    fn empty(&self) {
        fs::remove_file(self.folder.path().join("ballast")).expect("it is there");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
    }
}

struct Node {
    process: Process,
    resp: String,
    http: String,
}

fn start(folder: &Path) -> Node {
    wait_for("a node", || {
        let ports = free_ports();
        match Process::start(start_command(folder, ports, &["--memory-quota", "32MiB"])) {
            Ok(process) => {
                let [resp, http] = [ports[0], ports[1]].map(|port| format!("127.0.0.1:{port}"));
                Some(Node { process, resp, http })
            }
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    })
}

impl Node {
    fn client(&self) -> Client {
        Client::connect(&self.resp).expect("it listens")
    }

    /// The status and the body.
    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.http).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        (status, answer)
    }
}

fn is_refused(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with("MISCONF"))
}

/// Writes values of a mebibyte until they are refused: how many were taken.
fn write_until_refused(client: &mut Client, from: usize) -> usize {
    let value = "v".repeat(1 << 20);
    for number in from..from + 2000 {
        let reply = client.call(&["SET", &format!("key:{number}"), &value]).expect("a reply");
        match &reply {
            reply if is_refused(reply) => return number - from,
            reply => assert_eq!(*reply, Value::ok()),
        }
    }
    panic!("it is never refused");
}

#[test]
fn a_disk_that_has_filled_is_emptied_by_commands() {
    let Some(small) = Small::new("1000m") else { return };
    let node = start(&small.data());
    eventually(&node.resp, &["SET", "small", "value"]);
    eventually(&node.resp, &["SET", "expires", "value"]);
    let mut client = node.client();
    for round in 0..3 {
        let taken = write_until_refused(&mut client, 0);
        assert!(taken > 100 || round > 0, "{taken} MiB of 1000 were taken");
        let (status, body) = node.get("/readyz");
        assert_eq!(status, 503, "{body}");
        assert!(body.contains("DISK") && body.contains("by DEL, UNLINK, FLUSHDB or dictum bucket drop"), "{body}");
        assert_eq!(node.get("/readyz?exclude=disk").0, 200);
        assert_eq!(node.get("/livez").0, 200);
        // A key that expires now is gone, and nobody is told that there is no leader.
        assert_eq!(client.call(&["PEXPIRE", "expires", "1"]).expect("a reply"), Value::Integer(i64::from(round == 0)));
        wait_for("the end of its time", || {
            (client.call(&["GET", "expires"]).expect("a reply") == Value::Null).then_some(())
        });
        match round {
            0 => {
                for number in 0..taken {
                    let gone = client.call(&["DEL", &format!("key:{number}")]).expect("a reply");
                    assert_eq!(gone, Value::Integer(1), "{number}");
                }
            }
            1 => assert_eq!(client.call(&["FLUSHALL"]).expect("a reply"), Value::ok()),
            _ => break,
        }
        wait_for(&format!("writes to go on in round {round}"), || {
            let reply = client.call(&["SET", "small", "other"]).expect("a reply");
            (reply == Value::ok()).then_some(())
        });
        assert_eq!(node.get("/readyz").0, 200);
    }
    assert!(node.process.stop(), "it ends well");
}

#[test]
fn a_node_starts_on_a_full_disk_and_recovers_by_itself() {
    let Some(small) = Small::new("1000m") else { return };
    let node = start(&small.data());
    eventually(&node.resp, &["SET", "kept", "value"]);
    let mut client = node.client();
    let value = "v".repeat(1 << 20);
    for number in 0..40 {
        assert_eq!(client.call(&["SET", &format!("key:{number}"), &value]).expect("a reply"), Value::ok());
    }
    let reserve = small.data().join("reserve");
    wait_for("the reserve", || reserve.exists().then_some(()));
    drop(client);
    let mut running = Some(node);
    for round in 0..3 {
        // Killed, and then the disk fills; or it fills first.
        let node = running.take().unwrap_or_else(|| start(&small.data()));
        eventually(&node.resp, &["SET", "kept", "value"]);
        wait_for("the reserve", || reserve.exists().then_some(()));
        if round == 1 {
            drop(node);
            small.fill();
        } else {
            small.fill();
            drop(node);
        }
        let node = start(&small.data());
        assert_eq!(eventually(&node.resp, &["GET", "kept"]), Value::bulk("value"));
        wait_for("a refusal", || {
            let reply = node.client().call(&["SET", "grows", "value"]).ok()?;
            is_refused(&reply).then_some(())
        });
        assert_eq!(node.get("/readyz").0, 503);
        // The reserve is for this.
        assert_eq!(eventually(&node.resp, &["DEL", &format!("key:{round}")]), Value::Integer(1));
        small.empty();
        wait_for("writes to go on", || {
            (node.client().call(&["SET", "grows", "value"]).ok()? == Value::ok()).then_some(())
        });
        assert_eq!(eventually(&node.resp, &["GET", "kept"]), Value::bulk("value"));
        assert_eq!(eventually(&node.resp, &["STRLEN", "key:39"]), Value::Integer(1 << 20));
        assert!(node.process.stop(), "it ends well");
    }
}
