//! Buckets of the kind `cache` on a whole cluster of processes.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::collections::BTreeMap;

use tempfile::tempdir;
use wire::Value;

use crate::common::http::ask;
use crate::common::{Client, Dev, dictum, failure, output, wait_for};

const QUOTA: u64 = 1 << 20;
/// Commands sent at once.
const AT_ONCE: usize = 200;

fn bucket(dev: &Dev, words: &[&str]) -> String {
    let output = output(dictum(&[&["bucket"], words, &["--at", &dev.nodes[0].resp]].concat()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn in_bucket(dev: &Dev, node: usize) -> Client {
    let mut client = Client::connect(&dev.nodes[node].resp).expect("it listens");
    assert_eq!(client.call(&["SELECT", "pages"]).expect("a reply"), Value::ok());
    client
}

/// The figures of the bucket in `INFO`, and `evicted_keys` of all as `all_evicted_keys`.
fn figures(client: &mut Client) -> BTreeMap<String, u64> {
    let info = client.call(&["INFO", "stats", "buckets"]).expect("a reply");
    let info = String::from_utf8_lossy(info.as_bytes().expect("text")).into_owned();
    let line = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("the line");
    let pairs = line("bucket_pages").split(',').filter_map(|pair| pair.split_once('='));
    let mut figures: BTreeMap<String, u64> =
        pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect();
    figures.insert("all_evicted_keys".to_owned(), line("evicted_keys").parse().expect("a number"));
    figures
}

/// Sends commands at once; their replies.
fn pipelined(client: &mut Client, commands: &[Vec<String>]) -> Vec<Value> {
    for command in commands {
        client.send(&command.iter().map(String::as_str).collect::<Vec<_>>()).expect("it is sent");
    }
    commands.iter().map(|_| client.receive().expect("a reply")).collect()
}

fn set(key: &str) -> Vec<String> {
    vec!["SET".to_owned(), key.to_owned(), "v".repeat(100)]
}

#[test]
fn a_cache_keeps_to_its_quota_and_keeps_what_is_read() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    assert!(
        failure(dictum(&["bucket", "create", "pages", "--kind", "cache", "--at", &dev.nodes[0].resp]))
            .contains("a cache needs a quota")
    );
    bucket(&dev, &["create", "pages", "--kind", "cache", "--quota", "1MiB", "--policy", "lru"]);
    assert!(bucket(&dev, &["show", "pages"]).contains("cache"));
    let mut clients = [0, 1, 2].map(|node| in_bucket(&dev, node));
    wait_for("a leader of the bucket", || {
        let reply = clients[1].call(&["SET", "first", "1"]).expect("a reply");
        reply.as_error().is_none().then_some(())
    });

    // Four times as much as it may hold, and all the time some keys are read at all nodes.
    let hot: Vec<String> = (0..20).map(|number| format!("hot{number}")).collect();
    let written = pipelined(&mut clients[0], &hot.iter().map(|key| set(key)).collect::<Vec<_>>());
    assert!(written.iter().all(|reply| *reply == Value::ok()));
    let reads: Vec<Vec<String>> = hot.iter().map(|key| vec!["GET".to_owned(), key.clone()]).collect();
    let (mut number, mut sent) = (0, 0);
    while sent < 4 * QUOTA {
        let cold: Vec<Vec<String>> = (number..number + AT_ONCE).map(|number| set(&format!("cold{number}"))).collect();
        number += AT_ONCE;
        sent += (AT_ONCE * 200) as u64;
        let written = pipelined(&mut clients[number / AT_ONCE % 3], &cold);
        assert!(written.iter().all(|reply| *reply == Value::ok()), "nothing is refused: {written:?}");
        for (node, client) in clients.iter_mut().enumerate() {
            let read = pipelined(client, &reads);
            assert!(read.iter().all(|reply| reply.as_bytes().is_some()), "a hot key is gone at node {node}: {read:?}");
            let bytes = figures(client)["bytes"];
            assert!(bytes <= QUOTA + QUOTA / 8 + 1000, "{bytes} bytes");
        }
    }
    for client in &mut clients {
        let figures = figures(client);
        assert!(figures["evicted_keys"] > 5_000 && figures["bytes"] > QUOTA / 2, "{figures:?}");
        assert_eq!(figures["evicted_keys"], figures["all_evicted_keys"]);
        let keys = client.call(&["DBSIZE"]).expect("a reply").as_integer().expect("a number");
        assert!((2_000..6_000).contains(&keys), "{keys} keys");
        assert_eq!(client.call(&["GET", "cold0"]).expect("a reply"), Value::Null);
    }
    let metrics = ask(&dev.nodes[1].http, "GET /metrics", &[], b"").expect("an answer").body;
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    assert!(metrics.contains("dictum_bucket_evicted_keys_total{bucket=\"pages\"}"), "{metrics}");

    // What is longer than all of it cannot be in it, neither at once nor together.
    let long = "x".repeat(QUOTA as usize + 1);
    let refused = clients[2].call(&["SET", "long", &long]).expect("a reply");
    assert!(refused.as_error().is_some_and(|error| error.contains("OOM") || error.contains("exceeds")), "{refused:?}");
    let half = "x".repeat(QUOTA as usize * 2 / 3);
    let refused = clients[2].call(&["MSET", "one", &half, "other", &half]).expect("a reply");
    assert!(refused.as_error().is_some_and(|error| error.contains("OOM")), "{refused:?}");
    assert_eq!(clients[2].call(&["SET", "one", &half]).expect("a reply"), Value::ok());

    // A smaller quota and another policy hold at once.
    bucket(&dev, &["set", "pages", "--quota", "64KiB", "--policy", "s3-fifo"]);
    for client in &mut clients {
        wait_for("the smaller quota", || (figures(client)["bytes"] <= 64 << 10).then_some(()));
    }
    let cold: Vec<Vec<String>> = (0..AT_ONCE).map(|number| set(&format!("late{number}"))).collect();
    for command in &cold {
        assert_eq!(
            clients[0].call(&command.iter().map(String::as_str).collect::<Vec<_>>()).expect("a reply"),
            Value::ok()
        );
    }
    wait_for("the quota", || (figures(&mut clients[0])["bytes"] <= 64 << 10).then_some(()));
    assert!(
        failure(dictum(&["bucket", "set", "pages", "--quota", "0", "--at", &dev.nodes[0].resp]))
            .contains("a cache needs a quota")
    );
}
