//! Real nodes join a cluster and leave it while a client counts on each of its founders, and none of its commands fails.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use serde_json::Value as Json;
use tempfile::tempdir;
use wire::Value;

use crate::common::counting::{Stops, count};
use crate::common::process::Process;
use crate::common::{Client, Dev, dictum, eventually, failure, free_ports, http, of_cluster, output, wait_for};

/// What `dictum node …` prints.
fn node_command(resp: &str, words: &[&str]) -> String {
    let said = output(dictum(&[&["node"], words, &["--at", resp]].concat()));
    assert!(said.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).expect("it is text")
}

fn nodes(resp: &str) -> Vec<Json> {
    serde_json::from_str(&node_command(resp, &["list", "--json"])).expect("a list")
}

fn of<'a>(nodes: &'a [Json], name: &str) -> Option<&'a Json> {
    nodes.iter().find(|node| node["name"] == name)
}

/// The words that start a node which joins, and again when it has joined.
fn start_command(dir: &Path, name: &str, ports: [u16; 3], joins: &[&str]) -> Command {
    let [resp, http, peer] = ports.map(|port| format!("127.0.0.1:{port}"));
    let mut command = dictum(&["start", "--node", name, "--resp", &resp, "--http", &http, "--peer", &peer, "--dir"]);
    of_cluster(&mut command, &dir.with_file_name("dev")).arg(dir).args(joins);
    command
}

/// A node that joins where `asked` listens for its peers.
fn join(dir: &Path, name: &str, asked: &str, token: &str) -> (Process, String, [u16; 3]) {
    wait_for("a node that joins", || {
        let ports = free_ports();
        match Process::start(start_command(dir, name, ports, &["--join", asked, "--token", token])) {
            Ok(process) => Some((process, format!("127.0.0.1:{}", ports[0]), ports)),
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    })
}

#[test]
fn three_become_five_and_three_again() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(&folder.path().join("dev"), &[]);
    let (asked, peer) = (&dev.nodes[1].resp, &dev.nodes[0].peer);
    eventually(asked, &["DICTUM.BUCKET", "CREATE", "b", "PARTITIONS", "8"]);
    let stop = AtomicBool::new(false);
    let (fourth, fifth) = (folder.path().join("n4"), folder.path().join("n5"));
    let (counted, at_fourth) = std::thread::scope(|scope| {
        let stop = &stop;
        let stops = Stops(stop);
        let counters: Vec<_> = dev
            .nodes
            .iter()
            .map(|node| scope.spawn(move || count(&node.resp, Some("b"), &node.name, 0, stop)))
            .collect();
        let token = node_command(asked, &["token"]);
        let (n4, at_fourth, ports) = join(&fourth, "n4", peer, token.trim());
        let answer = http::ask(&dev.nodes[2].http, "POST /v1/nodes/token", &[], b"").expect("an answer").json();
        let (n5, _, _) = join(&fifth, "n5", peer, answer["token"].as_str().expect("a token"));
        let votes = |name: &str| of(&nodes(asked), name).and_then(|node| node["votes"].as_u64()).unwrap_or(0);
        wait_for("votes of those that have joined", || (votes("n4") >= 4 && votes("n5") >= 4).then_some(()));
        // It is started again by its folder alone.
        assert!(n4.stop(), "it ends well");
        let n4 = Process::start(start_command(&fourth, "n4", ports, &[])).expect("it starts again");
        wait_for("n4 is up", || (of(&nodes(asked), "n4")?["seen"] == "up").then_some(()));
        // A founder and one that has joined go; both processes end by themselves.
        let said = output(dictum(&["node", "remove", "n5", "--at", asked]));
        assert!(said.status.success(), "{said:?}");
        // How far it was, whenever that changed.
        let told = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(told.lines().count() > 1 && told.lines().all(|line| line.contains(" %  leads ")), "{told}");
        assert!(told.starts_with("  0 %"), "{told}");
        wait_for("the end of n5", || n5.has_ended().then_some(()));
        assert!(n5.lines().iter().any(|line| line.contains("was removed from the cluster")));
        node_command(asked, &["remove", "n4"]);
        wait_for("the end of n4", || n4.has_ended().then_some(()));
        drop(stops);
        (counters.into_iter().map(|counter| counter.join().expect("nothing failed")).collect::<Vec<_>>(), at_fourth)
    });
    let left: Vec<String> =
        nodes(asked).iter().map(|node| node["name"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(left, ["n1", "n2", "n3"]);
    let mut client = Client::connect(asked).expect("the node is there");
    client.call(&["SELECT", "b"]).expect("the bucket is there");
    for (node, number) in dev.nodes.iter().zip(counted) {
        assert!(number > 0);
        assert_eq!(client.call(&["GET", &node.name]).expect("a reply"), Value::bulk(&*number.to_string()));
    }
    assert!(Client::connect(&at_fourth).is_err(), "nobody is there any more");
    // It has not heard it, or so it seems; it finds out.
    let again = Process::start(start_command(&fourth, "n4", free_ports(), &[])).expect("it starts");
    wait_for("the end of n4, again", || again.has_ended().then_some(()));
    assert!(again.lines().iter().any(|line| line.contains("was removed from the cluster")), "{:?}", again.lines());
}

#[test]
fn who_may_not_join_says_why() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(&folder.path().join("dev"), &["--nodes", "1"]);
    let peer = &dev.nodes[0].peer;
    eventually(&dev.nodes[0].resp, &["SET", "k", "1"]);
    let dir = folder.path().join("n2");
    let [a, b, c] = free_ports();
    let without = failure(start_command(&dir, "n2", [a, b, c], &["--join", peer]));
    assert!(without.contains("--token"), "{without}");
    let wrong = failure(start_command(&dir, "n2", [a, b, c], &["--join", peer, "--token", "guessed"]));
    assert!(wrong.contains("nobody may join with that token"), "{wrong}");
    let nothing = failure(start_command(&folder.path().join("new"), "n2", [a, b, c], &[]));
    assert!(nothing.contains("no cluster given") && nothing.contains("--join"), "{nothing}");
    let token = node_command(&dev.nodes[0].resp, &["token"]);
    let taken =
        failure(start_command(&folder.path().join("n1"), "n1", [a, b, c], &["--join", peer, "--token", token.trim()]));
    assert!(taken.contains("there is a node 'n1' already"), "{taken}");
    // The same folder asks again, with a token that is good.
    let (n2, at, _) = join(&dir, "n2", peer, token.trim());
    eventually(&at, &["GET", "k"]);
    assert!(n2.stop());
}
