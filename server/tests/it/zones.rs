//! Labels of zones, from the command line to what is listed, as real nodes are started, started again and join.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use rustix::process::Signal;
use serde_json::Value as Json;
use tempfile::tempdir;

use crate::common::process::Process;
use crate::common::{
    Dev, dictum, failure, free_ports, http, of_cluster, output, signal, start_alone, wait_for, wait_for_end,
};

fn node_command(resp: &str, words: &[&str]) -> String {
    let said = output(dictum(&[&["node"], words, &["--at", resp]].concat()));
    assert!(said.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).expect("it is text")
}

/// The labels of all nodes, by their numbers.
fn zones(resp: &str) -> Vec<String> {
    let nodes: Vec<Json> = serde_json::from_str(&node_command(resp, &["list", "--json"])).expect("a list");
    nodes.iter().map(|node| node["zone"].as_str().expect("a label").to_owned()).collect()
}

#[test]
fn a_node_is_in_the_zone_that_it_was_last_started_with() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(&folder.path().join("dev"), &["--zones", "a,b"]);
    let asked = &dev.nodes[0].resp;
    wait_for("all labels", || (zones(asked) == ["a", "b", "a"]).then_some(()));
    let table = node_command(asked, &["list"]);
    assert!(table.starts_with("name  state   zone  seen") && table.contains("n2    serves  b     up"), "{table}");
    let listed = http::ask(&dev.nodes[2].http, "GET /v1/nodes", &[], b"").expect("an answer").json();
    assert_eq!(listed[1]["zone"], "b");
    // Another label, and none.
    let mut third = dev.nodes[2].clone();
    signal(third.pid, Signal::TERM);
    assert!(wait_for_end(third.pid));
    let place = third.start.iter().position(|word| word == "--zone").expect("it has a label");
    for label in ["c", "", "a"] {
        third.start[place + 1] = label.to_owned();
        let again = start_alone(&third);
        wait_for("the new label", || (zones(asked)[2] == label).then_some(()));
        assert!(again.stop(), "it ends well");
    }
    // Whoever joins brings its label along.
    let token = node_command(asked, &["token"]);
    let dir = folder.path().join("n4");
    let joins = |ports: [u16; 3], zone: &str| {
        let [resp, http, peer] = ports.map(|port| format!("127.0.0.1:{port}"));
        let words =
            ["--resp", &resp, "--http", &http, "--peer", &peer, "--join", &dev.nodes[1].peer, "--token", token.trim()];
        let mut command = dictum(&[&["start", "--node", "n4", "--zone", zone], &words[..], &["--dir"]].concat());
        of_cluster(&mut command, &folder.path().join("dev")).arg(&dir);
        command
    };
    let wrong = failure(joins(free_ports(), "a/b"));
    assert!(wrong.contains("cannot be the label of a zone"), "{wrong}");
    let _joined = wait_for("a node that joins", || match Process::start(joins(free_ports(), "c")) {
        Ok(process) => Some(process),
        Err(reason) if reason.contains("is in use by another process; stop") => None,
        Err(reason) => panic!("it has ended: {reason}"),
    });
    wait_for("all labels", || (zones(asked) == ["a", "b", "a", "c"]).then_some(()));
}
