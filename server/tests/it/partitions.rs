//! A bucket of several partitions on real nodes: leaders are spread, a killed node loses nothing, everything is there after a restart of all.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::collections::BTreeSet;

use rustix::process::Signal;
use tempfile::tempdir;
use wire::Value;

use crate::common::{
    Client, Dev, NodeInfo, dictum, eventually, output, signal, start_alone, status, wait_for, wait_for_end,
};

const PARTITIONS: usize = 16;
const KEYS: usize = 200;

fn key(number: usize) -> String {
    format!("key:{number}")
}

/// One command in the bucket, repeated until it is done.
fn ask(node: &NodeInfo, words: &[&str]) -> Value {
    wait_for(&format!("an answer to {words:?} from {}", node.name), || {
        let mut client = Client::connect(&node.resp).ok()?;
        client.call(&["SELECT", "parted"]).ok().filter(|reply| *reply == Value::ok())?;
        client.call(words).ok().filter(|reply| reply.as_error().is_none())
    })
}

/// Sets all keys over one connection, in one go.
fn set_all(node: &NodeInfo, value: &str) {
    wait_for("all writes", || {
        let mut client = Client::connect(&node.resp).ok()?;
        client.call(&["SELECT", "parted"]).ok().filter(|reply| *reply == Value::ok())?;
        for number in 0..KEYS {
            client.send(&["SET", &key(number), value]).ok()?;
        }
        (0..KEYS).all(|_| client.receive().is_ok_and(|reply| reply == Value::ok())).then_some(())
    });
}

fn assert_all(node: &NodeInfo, value: &str) {
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    let words: Vec<&str> = std::iter::once("MGET").chain(keys.iter().map(String::as_str)).collect();
    assert_eq!(ask(node, &words), Value::Array(vec![Value::bulk(value); KEYS]), "{}", node.name);
    assert_eq!(ask(node, &["DBSIZE"]), Value::Integer(KEYS as i64));
}

/// Who leads the partitions of the bucket, as a node says.
fn leaders(node: &NodeInfo) -> Option<BTreeSet<String>> {
    let status = status(&node.resp)?;
    let of_bucket = status.get("partitions")?.as_array()?.iter().filter(|partition| partition["name"] == "parted");
    let leaders: Vec<String> = of_bucket.filter_map(|it| Some(it["leader"].as_str()?.to_owned())).collect();
    (leaders.len() == PARTITIONS).then(|| leaders.into_iter().collect())
}

#[test]
fn a_killed_node_loses_nothing_of_any_partition() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    eventually(&dev.nodes[0].resp, &["DICTUM.BUCKET", "CREATE", "parted", "PARTITIONS", &PARTITIONS.to_string()]);
    set_all(&dev.nodes[0], "before");
    for node in &dev.nodes {
        assert_all(node, "before");
    }
    let crossing = Client::connect(&dev.nodes[1].resp).and_then(|mut client| {
        client.call(&["SELECT", "parted"])?;
        client.call(&["MSET", &key(1), "x", &key(2), "x"])
    });
    assert!(crossing.expect("a reply").as_error().is_some_and(|error| error.starts_with("CROSSSLOT ")));
    wait_for("leaders on all nodes", || leaders(&dev.nodes[0]).filter(|leaders| leaders.len() == 3));

    let killed = &dev.nodes[1];
    signal(killed.pid, Signal::KILL);
    assert!(wait_for_end(killed.pid));
    set_all(&dev.nodes[2], "while one was dead");
    assert_all(&dev.nodes[0], "while one was dead");
    let restarted = start_alone(killed);
    assert_all(killed, "while one was dead");
    drop(restarted);

    let shown = output(dictum(&["bucket", "show", "parted", "--at", &dev.nodes[0].resp]));
    assert!(String::from_utf8_lossy(&shown.stdout).contains("partitions       16\n"));
}
