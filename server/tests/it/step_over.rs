//! Three real nodes step over an entry when all are told to, and not when one of them has applied it.

use std::process::Command;

use tempfile::tempdir;

use crate::common::process::Process;
use crate::common::{Client, Dev, NodeInfo, applied, dictum, eventually, http, output, start_alone, wait_for};

/// Starts a node with more words.
fn start(node: &NodeInfo, more: &[&str]) -> Process {
    let mut command = Command::new(&node.start[0]);
    command.args(&node.start[1..]).args(more);
    Process::start(command).unwrap_or_else(|reason| panic!("{} has ended: {reason}", node.name))
}

fn ok(client: &mut Client, words: &[&str]) {
    let answer = client.call(words).expect("an answer");
    assert!(answer.as_error().is_none(), "{words:?}: {answer:?}");
}

fn status(node: &NodeInfo) -> String {
    let said = output(dictum(&["status", "--at", &node.resp]));
    String::from_utf8(said.stdout).expect("it is text")
}

#[test]
fn all_nodes_step_over_an_entry_or_none_does() {
    let folder = tempdir().expect("a temporary folder");
    let nodes = Dev::start(&folder.path().join("dev"), &[]).nodes.clone();
    let running: Vec<Process> = nodes.iter().map(start_alone).collect();
    wait_for("the newest version", || {
        let list = output(dictum(&["node", "list", "--at", &nodes[0].resp]));
        let newest = format!("The cluster has version {}.", base::versions::NEWEST);
        String::from_utf8_lossy(&list.stdout).contains(&newest).then_some(())
    });
    eventually(&nodes[0].resp, &["SET", "before", "1"]);
    let mut client = Client::connect(&nodes[0].resp).expect("it listens");
    ok(&mut client, &["SET", "bad", "1"]);
    let flag = format!("0/0@{}", applied(&nodes[0].resp).expect("it says how far it is"));
    ok(&mut client, &["SET", "after", "1"]);
    let kill = |running: Vec<Process>| running.into_iter().for_each(|process| drop(process.kill()));
    kill(running);

    // One is forgotten, and applies it.
    let told = ["--step-over", flag.as_str()];
    let running = vec![start(&nodes[0], &[]), start(&nodes[1], &told), start(&nodes[2], &told)];
    wait_for("the word of the second", || {
        running[1].has_said("n1 has applied the entry already, so it cannot be stepped over").then_some(())
    });
    let said = status(&nodes[2]);
    assert!(said.contains(&format!("Entry {flag} is not applied, and not stepped over yet: ")), "{said}");
    kill(running);

    let running: Vec<Process> = nodes.iter().map(|node| start(node, &told)).collect();
    for (node, process) in nodes.iter().zip(&running) {
        let words = format!("entry {flag} was stepped over on all nodes");
        wait_for(&words, || process.has_said(&words).then_some(()));
        let values = eventually(&node.resp, &["MGET", "before", "bad", "after"]);
        let values: Vec<Option<&[u8]>> = values.as_array().expect("three").iter().map(wire::Value::as_bytes).collect();
        assert_eq!(values, [Some(&b"1"[..]), None, Some(b"1")]);
        let told = format!("Stepped over (--step-over), their commands not done: {flag}.");
        wait_for("the council's word", || status(node).contains(&told).then_some(()));
        let metrics = http::ask(&node.http, "GET /metrics", &[], b"").expect("an answer");
        let metrics = String::from_utf8(metrics.body).expect("it is text");
        assert!(metrics.contains("\ndictum_entries_stepped_over_total 1\n"), "{metrics}");
    }
    kill(running);

    // It is in the journals: no flag is needed any more.
    let running: Vec<Process> = nodes.iter().map(start_alone).collect();
    for node in &nodes {
        assert_eq!(eventually(&node.resp, &["EXISTS", "before", "bad", "after"]).as_integer(), Some(2));
    }
    kill(running);
}
