//! A node's folder is copied, and the copy started: after the node has gone on, and beside it. Neither takes part, both say why, and nothing is lost.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tempfile::{TempDir, tempdir};
use wire::Value;

use crate::common::bell::Bell;
use crate::common::process::Process;
use crate::common::{Client, Dev, NodeInfo, eventually, free_ports, start_alone, status, wait_for};

const KEYS: usize = 50;
const EARLIER: &str = "it is an earlier copy";
const KEY_FILE: &str = "node.key";

/// Three nodes that have run and are stopped, in a folder.
fn three() -> (TempDir, Vec<NodeInfo>) {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(&folder.path().join("dev"), &[]);
    eventually(&dev.nodes[0].resp, &["SET", "first", "1"]);
    let nodes = dev.nodes.clone();
    (folder, nodes)
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

/// Empties a node's folder, but for the key by which the others know it.
fn empty(folder: &Path) {
    let key = fs::read(folder.join(KEY_FILE)).expect("the node has a key");
    fs::remove_dir_all(folder).expect("it is there");
    with_key(folder, &key);
}

/// Makes a folder with nothing but this key in it.
fn with_key(folder: &Path, key: &[u8]) {
    fs::create_dir(folder).expect("a new folder");
    fs::write(folder.join(KEY_FILE), key).expect("written");
    fs::set_permissions(folder.join(KEY_FILE), Permissions::from_mode(0o600)).expect("changed");
}

fn succeeds(client: &mut Client, words: &[&str]) -> Value {
    wait_for(&format!("an answer to {words:?}"), || client.call(words).ok().filter(|reply| reply.as_error().is_none()))
}

fn write(resp: &str, name: &str) {
    let mut client = Client::connect(resp).expect("the node is there");
    for number in 0..KEYS {
        succeeds(&mut client, &["SET", &format!("{name}:{number}"), "1"]);
    }
}

fn has_all(resp: &str, name: &str) {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("{name}:{number}")).collect();
    let words: Vec<&str> = ["EXISTS"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    wait_for("an answer", || {
        let reply = Client::connect(resp).ok()?.call(&words).ok().filter(|reply| reply.as_error().is_none())?;
        assert_eq!(reply, Value::Integer(KEYS as i64), "{name}");
        Some(())
    });
}

/// Waits until the first node has heard that the last one has everything on its disk that is decided now.
///
/// An earlier copy is found out by what the others have heard of the folder, and they hear it with the pings, after the acknowledgements
/// (docs/decisions/2026-11-25-restored-folders.md): nobody can tell the copy from the folder of a node that was killed before its next ping.
fn has_heard_of_the_last(nodes: &[NodeInfo]) {
    let position = |teller: &NodeInfo, of: &NodeInfo, field: &str| -> Option<u64> {
        let nodes = status(&teller.resp)?["nodes"].as_array()?.clone();
        nodes.iter().find(|told| told["name"] == *of.name)?[field].as_u64()
    };
    let (first, last) = (&nodes[0], &nodes[nodes.len() - 1]);
    // One of them leads, and knows it.
    let decided = nodes.iter().map(|node| wait_for("a position", || position(node, node, "decided"))).max();
    wait_for("the other's disk", || (position(first, last, "persisted") >= decided).then_some(()));
}

/// Runs a node until it ends by itself: what it has said.
fn ends(command: Command) -> Vec<String> {
    let bell: Arc<Bell> = Arc::default();
    let process = Process::spawn(command, &bell);
    bell.wait_for_or("the end of a node", || process.has_ended().then_some(()), || process.lines().join("\n"));
    process.lines()
}

fn start(node: &NodeInfo) -> Command {
    let mut command = Command::new(&node.start[0]);
    command.args(&node.start[1..]);
    command
}

/// The same node at other addresses, with another folder.
fn start_copy(node: &NodeInfo, dir: &Path) -> Command {
    let [resp, http, cluster, peer] = free_ports().map(|port: u16| format!("127.0.0.1:{port}"));
    let mut words = node.start.clone();
    for (flag, value) in
        [("--dir", &dir.display().to_string()), ("--resp", &resp), ("--http", &http), ("--cluster-address", &cluster)]
    {
        if let Some(place) = words.iter().position(|word| word == flag) {
            words[place + 1].clone_from(value);
        }
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["--peer", &peer]);
    command
}

#[test]
fn a_folder_that_was_put_back_from_a_backup_is_refused_until_it_is_emptied() {
    let (folder, infos) = three();
    let [n1, n2, n3] = [0, 1, 2].map(|place: usize| &infos[place]);
    let backup = folder.path().join("backup");
    copy(&n3.dir, &backup);
    let others = [start_alone(n1), start_alone(n2)];
    let third = start_alone(n3);
    write(&n3.resp, "a");
    has_heard_of_the_last(&infos);
    third.kill();
    // The first two go on; what all three have acknowledged is not in the copy.
    fs::remove_dir_all(&n3.dir).expect("it is there");
    copy(&backup, &n3.dir);
    let said = ends(start(n3));
    assert!(said.iter().any(|line| line.contains(EARLIER)), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("start it with an empty folder")), "{said:#?}");
    // Where the others' first pings come before its own has left, it has ended before anybody heard it: then it is started once more.
    let say = |node: &Process| node.has_said("n3 runs with an earlier copy of its folder");
    wait_for("a node to say why", || {
        let is_said = others.iter().any(say);
        if !is_said {
            let said = ends(start(n3));
            assert!(said.iter().any(|line| line.contains(EARLIER)), "{said:#?}");
        }
        is_said.then_some(())
    });
    write(&n1.resp, "b");
    // As it said.
    empty(&n3.dir);
    let third = start_alone(n3);
    for name in ["a", "b"] {
        has_all(&n3.resp, name);
    }
    drop((third, others));
}

/// Whichever node it is, the leader among them: nobody notices.
#[test]
fn a_second_process_with_an_empty_folder_takes_no_living_nodes_place() {
    let (folder, infos) = three();
    let nodes = [0, 1, 2].map(|place: usize| start_alone(&infos[place]));
    write(&infos[0].resp, "a");
    let bell: Arc<Bell> = Arc::default();
    // The last one does not call the others.
    for (place, has_key, why) in [
        (0, true, "runs in another process"),
        (1, true, "runs in another process"),
        (1, false, "knows it by another one"),
    ] {
        let dir = folder.path().join(format!("empty-{place}-{has_key}"));
        if has_key {
            with_key(&dir, &fs::read(infos[place].dir.join(KEY_FILE)).expect("the node has a key"));
        }
        let second = Process::spawn(start_copy(&infos[place], &dir), &bell);
        bell.wait_for("the others to refuse it", || second.has_said(why).then_some(()));
        write(&infos[place].resp, "b");
    }
    for (node, info) in nodes.iter().zip(&infos) {
        assert!(!node.has_ended());
        assert!(!node.has_said("lost the link to"), "{:#?}", node.lines());
        has_all(&info.resp, "b");
    }
}

#[test]
fn a_second_process_with_a_copy_of_the_folder_is_refused() {
    let (folder, infos) = three();
    let [n1, n2, n3] = [0, 1, 2].map(|place: usize| &infos[place]);
    let clone = folder.path().join("clone");
    copy(&n1.dir, &clone);
    let nodes = [n1, n2, n3].map(start_alone);
    write(&n1.resp, "a");
    let bell: Arc<Bell> = Arc::default();
    let second = Process::spawn(start_copy(n1, &clone), &bell);
    bell.wait_for("the others to refuse it", || second.has_said("runs in another process").then_some(()));
    assert!(!nodes[0].has_ended(), "the one that has all of it goes on");
    write(&n1.resp, "b");
    for node in [n1, n2, n3] {
        has_all(&node.resp, "b");
    }
}

/// The folder of a running node is removed, or another one comes in its place: it must not go on as if it kept anything.
#[test]
fn a_node_whose_folder_is_removed_while_it_runs_ends() {
    let (folder, infos) = three();
    let [n1, n2, n3] = [0, 1, 2].map(|place: usize| &infos[place]);
    let nodes = [n1, n2, n3].map(start_alone);
    write(&n1.resp, "a");
    let away = folder.path().join("away");
    fs::rename(&n3.dir, &away).expect("it is there");
    wait_for("the end of the node", || nodes[2].has_ended().then_some(()));
    assert!(nodes[2].has_said("the folder of this node was removed"), "{:#?}", nodes[2].lines());
    write(&n1.resp, "b");
    // As it says.
    fs::rename(&away, &n3.dir).expect("it is there");
    let third = start_alone(n3);
    for name in ["a", "b"] {
        has_all(&n3.resp, name);
    }
    drop((third, nodes));
}
