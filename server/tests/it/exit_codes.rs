//! How a node ends tells whether it is to be started again: docs/operating.md, "Exit codes".

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use tempfile::tempdir;

use crate::common::process::Process;
use crate::common::{dictum, eventually, free_ports, output, wait_for};
use crate::start::start_command;

/// A node alone, and its ports.
pub fn start(dir: &Path, more: &[&str]) -> (Process, [u16; 3]) {
    wait_for("a node", || {
        let ports = free_ports();
        match Process::start(start_command(dir, ports, more)) {
            Ok(process) => Some((process, ports)),
            // Another test may have been quicker to take a port.
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    })
}

/// Runs a node that says this when it ends, with ports that nobody else has: its exit code.
fn ends(command: impl Fn([u16; 3]) -> Command, says: &str) -> Option<i32> {
    wait_for(says, || {
        let ended = output(command(free_ports()));
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        let is_about_a_port =
            text.contains("is in use by another process; stop that process or choose another address");
        if text.contains(says) {
            return Some(ended.status.code());
        }
        assert!(is_about_a_port, "{says}: {text}");
        None
    })
}

/// The same at addresses that the system chooses, as it ends before others need to know them.
fn ends_at_any(words: &[&str], dir: &Path, says: &str) -> Option<i32> {
    let addresses = ["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--peer", "127.0.0.1:0"];
    ends(|_| start_with(&[&addresses[..], words].concat(), dir), says)
}

fn start_with(words: &[&str], dir: &Path) -> Command {
    let mut command = dictum(&["start"]);
    command.args(words).arg("--dir").arg(dir);
    command
}

#[test]
fn what_is_asked_for_ends_with_0_and_twice_with_130() {
    let folder = tempdir().expect("a temporary folder");
    let (node, _) = start(&folder.path().join("once"), &[]);
    node.send(Signal::TERM);
    assert_eq!(node.code(), Some(0));
    // With such a disk it has something to wait for.
    let (node, _) = start(&folder.path().join("twice"), &["--fault-sync-delay", "60000"]);
    node.send(Signal::TERM);
    wait_for("the first signal", || node.has_said("stopping: handing over").then_some(()));
    node.send(Signal::INT);
    assert_eq!(node.code(), Some(130));
}

#[test]
fn what_another_start_may_find_mended_ends_with_1() {
    let folder = tempdir().expect("a temporary folder");
    let held = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = held.local_addr().expect("an address").port();
    let new = folder.path().join("new");
    let taken = |[resp, _, peer]: [u16; 3]| start_command(&new, [resp, port, peer], &[]);
    assert_eq!(ends(taken, &format!("127.0.0.1:{port} is in use")), Some(1));
    let (node, _) = start(folder.path(), &[]);
    assert_eq!(ends(|ports| start_command(folder.path(), ports, &[]), "is in use by process"), Some(1));
    assert!(node.stop(), "it ends well");
}

#[test]
fn wrong_settings_end_with_2() {
    let folder = tempdir().expect("a temporary folder");
    let (own, foreign) = (folder.path().join("own"), folder.path().join("foreign"));
    let one = ["--node", "n1", "--cluster", "n1=127.0.0.1:1"];
    assert_eq!(ends_at_any(&["--nodes", "3"], &own, "unexpected argument"), Some(2));
    assert_eq!(ends_at_any(&["--node", "n1"], &own, "no cluster given"), Some(2));
    let file = folder.path().join("dictum.toml");
    fs::write(&file, "nodes = 3").expect("a file");
    let config = ["--config", file.to_str().expect("it is text")];
    assert_eq!(ends_at_any(&config, &own, "dictum.toml:1: there is no setting nodes; node is perhaps meant"), Some(2));
    for (setting, says) in [
        ("resp = 7001", "dictum.toml:1: resp = 7001: an address like \"127.0.0.1:7001\" is wanted (in quotes)"),
        ("log-level = \"loud\"", "dictum.toml:1: log-level: \"loud\" is not a log level"),
    ] {
        fs::write(&file, setting).expect("a file");
        let named = ["--node", "n1", "--cluster", "n1=127.0.0.1:1", "--config", config[1]];
        assert_eq!(ends(|_| start_with(&named, &own), says), Some(2));
    }
    fs::create_dir(&foreign).expect("a folder");
    fs::write(foreign.join("letters.txt"), "dear").expect("a file");
    assert_eq!(ends_at_any(&one, &foreign, "letters.txt"), Some(2));
    let (node, _) = start(&own, &[]);
    assert!(node.stop(), "it ends well");
    let other = ["--node", "n2", "--cluster", "n2=127.0.0.1:1"];
    assert_eq!(ends_at_any(&other, &own, "belongs to node n1"), Some(2));
    let more = ["--node", "n1", "--cluster", "n1=127.0.0.1:1,n2=127.0.0.1:2"];
    assert_eq!(ends_at_any(&more, &own, "other nodes"), Some(2));
}

#[test]
fn a_damaged_folder_ends_with_65() {
    let folder = tempdir().expect("a temporary folder");
    let (node, _) = start(folder.path(), &[]);
    assert!(node.stop(), "it ends well");
    let path = folder.path().join("identity");
    let mut bytes = fs::read(&path).expect("the identity");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&path, bytes).expect("it is written");
    let one = ["--node", "n1", "--cluster", "n1=127.0.0.1:1"];
    assert_eq!(ends_at_any(&one, folder.path(), "keep this folder as it is"), Some(65));
}

#[test]
fn a_node_whose_folder_goes_ends_with_70() {
    let folder = tempdir().expect("a temporary folder");
    let dir = folder.path().join("n1");
    // Whoever finds it out: who looks at the folder, or the journal, which makes files soon after the start.
    for serves_first in [false, true] {
        let (node, [resp, ..]) = start(&dir, &[]);
        if serves_first {
            eventually(&format!("127.0.0.1:{resp}"), &["SET", "k", "1"]);
        }
        let away = folder.path().join("away");
        fs::rename(&dir, &away).expect("it is there");
        assert_eq!(node.code(), Some(70));
        fs::rename(&away, &dir).expect("it is there");
    }
}

/// And stays so, if it is started again all the same.
#[test]
fn a_removed_node_ends_with_0() {
    let folder = tempdir().expect("a temporary folder");
    let (first, ports) = start(&folder.path().join("n1"), &[]);
    let [resp, _, peer] = ports.map(|port| format!("127.0.0.1:{port}"));
    eventually(&resp, &["SET", "k", "1"]);
    let token = output(dictum(&["node", "token", "--at", &resp]));
    let token = String::from_utf8(token.stdout).expect("it is text");
    let join = |ports: [u16; 3]| {
        let [resp, http, own] = ports.map(|port| format!("127.0.0.1:{port}"));
        let mut command = dictum(&["start", "--node", "n2", "--join", &peer, "--token", token.trim(), "--dir"]);
        command.arg(folder.path().join("n2")).args(["--resp", &resp, "--http", &http, "--peer", &own]);
        command
    };
    let second = wait_for("a node that joins", || Process::start(join(free_ports())).ok());
    // It is refused as long as that would leave no majority.
    wait_for("the removal", || {
        output(dictum(&["node", "remove", "n2", "--yes", "--at", &resp])).status.success().then_some(())
    });
    wait_for("the last line", || second.has_said("removed from the cluster, and is not to be started").then_some(()));
    assert_eq!(second.code(), Some(0));
    assert_eq!(ends(join, "removed from the cluster, and is not to be started"), Some(0));
    assert!(first.stop(), "it ends well");
}

/// Help is as wide as the terminal, or as `COLUMNS` says where there is none; words that are longer stay whole.
#[test]
fn help_fits_the_terminal() {
    for (words, columns) in [(&["start", "--help"][..], 60), (&["--help"], 60), (&["restore", "--help"], 80)] {
        let mut command = dictum(words);
        command.env("COLUMNS", columns.to_string());
        let said = output(command);
        assert!(said.status.success(), "{said:?}");
        let text = String::from_utf8(said.stdout).expect("it is text");
        for line in text.lines() {
            let is_one_word = line.split_whitespace().count() == 1;
            assert!(line.chars().count() <= columns || is_one_word, "{words:?}, {columns}: {line}");
        }
    }
}
