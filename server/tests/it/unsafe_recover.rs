//! Of three real nodes two are lost with their folders: the third goes on alone when it is told to, with all that it had, and not before.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::Value as Json;
use tempfile::{TempDir, tempdir};
use wire::Value;

use crate::common::bell::Bell;
use crate::common::process::Process;
use crate::common::{Client, Dev, NodeInfo, dictum, eventually, free_ports, of_cluster, output, start_alone, wait_for};

const KEYS: usize = 60;

/// Three nodes that have run and are stopped, in a folder.
fn three() -> (TempDir, Vec<NodeInfo>) {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(&folder.path().join("dev"), &[]);
    eventually(&dev.nodes[0].resp, &["DICTUM.BUCKET", "CREATE", "b", "PARTITIONS", "4"]);
    eventually(&dev.nodes[0].resp, &["DICTUM.BUCKET", "CREATE", "e", "KIND", "ephemeral"]);
    let nodes = dev.nodes.clone();
    (folder, nodes)
}

/// A connection in a bucket.
fn client(resp: &str, bucket: &str) -> Client {
    wait_for("the bucket", || {
        let mut client = Client::connect(resp).expect("it listens");
        client.call(&["SELECT", bucket]).ok().filter(|reply| reply.as_error().is_none()).map(|_| client)
    })
}

fn succeeds(client: &mut Client, words: &[&str]) -> Value {
    wait_for(&format!("an answer to {words:?}"), || client.call(words).ok().filter(|reply| reply.as_error().is_none()))
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

/// Everything in a folder but who has locked it last.
fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            all.extend(content(&path));
        } else if !path.ends_with("LOCK") {
            all.insert(path.clone(), fs::read(&path).expect("readable"));
        }
    }
    all
}

/// `dictum unsafe-recover` with what the node knows of its founders.
fn unsafe_recover(node: &NodeInfo, folder: &Path, more: &[&str]) -> Output {
    let place = node.start.iter().position(|word| word == "--cluster").expect("a founder");
    let mut command = dictum(&["unsafe-recover", "--cluster", &node.start[place + 1]]);
    command.args(more).arg(folder);
    output(command)
}

#[track_caller]
fn told(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}

#[track_caller]
fn refused(output: Output, why: &str) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && text.contains(why), "{text}");
}

fn node_command(resp: &str, words: &[&str]) -> String {
    told(output(dictum(&[&["node"], words, &["--at", resp]].concat())))
}

fn nodes(resp: &str) -> BTreeMap<String, Json> {
    let list: Vec<Json> = serde_json::from_str(&node_command(resp, &["list", "--json"])).expect("a list");
    list.into_iter().map(|node| (node["name"].as_str().expect("a name").to_owned(), node)).collect()
}

/// A node joins where `asked` listens for its peers.
fn join(dir: &Path, name: &str, asked: &str, token: &str) -> (Process, String) {
    wait_for("a node that joins", || {
        let [resp, http, peer] = free_ports().map(|port: u16| format!("127.0.0.1:{port}"));
        let mut command =
            dictum(&["start", "--node", name, "--resp", &resp, "--http", &http, "--peer", &peer, "--dir"]);
        of_cluster(&mut command, &dir.with_file_name("dev")).arg(dir).args(["--join", asked, "--token", token]);
        match Process::start(command) {
            Ok(process) => Some((process, resp)),
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    })
}

#[test]
fn one_of_three_goes_on_alone() {
    let (folder, infos) = three();
    let [n1, n2, n3] = [0, 1, 2].map(|place: usize| &infos[place]);
    let mut running = infos.iter().map(start_alone).collect::<Vec<Process>>();
    let mut at_first = client(&n1.resp, "b");
    for number in 0..KEYS {
        succeeds(&mut at_first, &["SET", &format!("key:{number}"), &number.to_string()]);
    }
    succeeds(&mut client(&n1.resp, "e"), &["SET", "in", "memory"]);
    let second_folder = folder.path().join("n2-as-it-was");
    for lost in [n3, n2] {
        running.pop().expect("it runs").kill();
        if lost.name == "n2" {
            copy(&lost.dir, &second_folder);
        }
        fs::remove_dir_all(&lost.dir).expect("removable");
    }
    let is_refused = |resp: &str| {
        let answer = Client::connect(resp).expect("it listens").call(&["SET", "k", "v"]).expect("an answer");
        assert!(answer.as_error().is_some(), "nobody can decide it: {answer:?}");
    };
    is_refused(&n1.resp);
    refused(unsafe_recover(n1, &n1.dir, &[]), "is in use by");
    let first = running.pop().expect("it runs");
    first.stop();

    // Without consent nothing is done.
    let before = content(&n1.dir);
    let text = told(unsafe_recover(n1, &n1.dir, &[]));
    for part in [
        "would make n1 the only voter",
        "Nothing was changed",
        "who votes: n1, n2, n3",
        "council: ",
        "default (0/0): ",
        "b (1/3): ",
        "(e)",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let json: Json = serde_json::from_str(&told(unsafe_recover(n1, &n1.dir, &["--json"]))).expect("JSON");
    assert_eq!(json["partitions"].as_array().map(Vec::len), Some(6), "{json}");
    assert!(content(&n1.dir) == before, "something was changed");
    refused(output(dictum(&["unsafe-recover", n1.dir.to_str().expect("text")])), "give --cluster");
    let first = start_alone(n1);
    is_refused(&n1.resp);
    first.stop();

    // With it, and again.
    let done = told(unsafe_recover(n1, &n1.dir, &["--accept-loss"]));
    assert!(done.contains("n1 votes alone from now on"), "{done}");
    let again = told(unsafe_recover(n1, &n1.dir, &["--accept-loss"]));
    assert!(again.contains("there is nothing to do"), "{again}");
    let checked = output(dictum(&["check", n1.dir.to_str().expect("text")]));
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let first = start_alone(n1);
    let mut at_first = client(&n1.resp, "b");
    for number in 0..KEYS {
        let value = succeeds(&mut at_first, &["GET", &format!("key:{number}")]);
        assert_eq!(value, Value::bulk(&*number.to_string()));
    }
    succeeds(&mut at_first, &["SET", "key:0", "new"]);
    let mut in_memory = client(&n1.resp, "e");
    assert_eq!(succeeds(&mut in_memory, &["GET", "in"]), Value::Null);
    succeeds(&mut in_memory, &["SET", "in", "anew"]);
    let list = nodes(&n1.resp);
    assert!(["n2", "n3"].iter().all(|gone| list[*gone]["seen"] == "down" && list[*gone]["votes"] == 0), "{list:?}");

    // One of the others comes back, from a copy of its folder.
    copy(&second_folder, &n2.dir);
    let bell = Arc::<Bell>::default();
    let mut start = Command::new(&n2.start[0]);
    start.args(&n2.start[1..]);
    let second = Process::spawn(start, &bell);
    bell.wait_for("the end of n2", || second.has_ended().then_some(()));
    let said = second.lines().join("\n");
    assert!(said.contains("the cluster has gone on without this node") && said.contains("as n1 says"), "{said}");
    assert!(first.has_said("n2 is of the cluster that this one has left behind"));
    assert_eq!(succeeds(&mut at_first, &["GET", "key:0"]), Value::bulk("new"));

    // A new node joins and gets votes; the old ones are removed.
    let token = node_command(&n1.resp, &["token"]);
    let (fourth, resp) = join(&folder.path().join("n4"), "n4", &n1.peer, token.trim());
    let votes = || nodes(&n1.resp).get("n4").and_then(|node| node["votes"].as_u64()).unwrap_or(0);
    wait_for("votes of n4", || (votes() >= 5).then_some(()));
    for gone in ["n2", "n3"] {
        node_command(&n1.resp, &["remove", gone, "--force"]);
    }
    wait_for("the removals", || (nodes(&n1.resp).into_keys().eq(["n1".to_owned(), "n4".to_owned()])).then_some(()));
    let mut at_fourth = client(&resp, "b");
    assert_eq!(succeeds(&mut at_fourth, &["GET", "key:0"]), Value::bulk("new"));
    succeeds(&mut at_fourth, &["SET", "key:1", "newer"]);
    assert_eq!(succeeds(&mut at_first, &["GET", "key:1"]), Value::bulk("newer"));
    assert!(fourth.stop());
    drop(first);
}

#[test]
fn a_damaged_folder_needs_a_consent_of_its_own() {
    let (folder, infos) = three();
    let n1 = &infos[0];
    let damaged = folder.path().join("damaged");
    copy(&n1.dir, &damaged);
    let names = fs::read_dir(&damaged).expect("a folder").map(|entry| entry.expect("readable").path());
    let segment = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("journal-0"));
    let segment = names.filter(segment).min().expect("a journal");
    let mut bytes = fs::read(&segment).expect("readable");
    // A block of the past.
    bytes[4096 + 100..4096 + 200].fill(0xaa);
    fs::write(&segment, bytes).expect("writable");
    let before = content(&damaged);
    assert!(told(unsafe_recover(n1, &damaged, &[])).contains("--accept-loss --accept-damage"));
    refused(unsafe_recover(n1, &damaged, &["--accept-loss"]), "is damaged itself");
    assert!(content(&damaged) == before, "something was changed");
    assert!(told(unsafe_recover(n1, &damaged, &["--accept-loss", "--accept-damage"])).contains("votes alone"));
    fs::remove_dir_all(&n1.dir).expect("removable");
    copy(&damaged, &n1.dir);
    let first = start_alone(n1);
    eventually(&n1.resp, &["SET", "k", "v"]);
    assert!(first.stop());

    fs::remove_file(infos[1].dir.join("identity")).expect("removable");
    refused(unsafe_recover(&infos[1], &infos[1].dir, &["--accept-loss"]), "the identity is missing");
    refused(unsafe_recover(n1, &folder.path().join("nowhere"), &[]), "cannot be read");
}
