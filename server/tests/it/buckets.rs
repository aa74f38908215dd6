//! Buckets on a whole cluster of processes, by the command line, over HTTP and over RESP.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use serde_json::{Value as Json, json};
use tempfile::tempdir;
use wire::Value;

use crate::common::http::{Answer, ask};
use crate::common::{Client, Dev, dictum, failure, output, wait_for};

/// `dictum bucket …` at a node: what it printed.
fn bucket(dev: &Dev, node: usize, words: &[&str]) -> String {
    let output = output(dictum(&[&["bucket"], words, &["--at", &dev.nodes[node].resp]].concat()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// What it said when it failed.
fn refused(dev: &Dev, words: &[&str]) -> String {
    failure(dictum(&[&["bucket"], words, &["--at", &dev.nodes[0].resp]].concat()))
}

fn http(dev: &Dev, node: usize, line: &str, body: &[u8]) -> Answer {
    ask(&dev.nodes[node].http, line, &[], body).expect("an answer")
}

/// A connection that has selected a bucket.
fn in_bucket(dev: &Dev, node: usize, name: &str) -> Client {
    let mut client = Client::connect(&dev.nodes[node].resp).expect("it listens");
    assert_eq!(client.call(&["SELECT", name]).expect("a reply"), Value::ok(), "{name}");
    client
}

#[test]
fn what_is_created_at_one_node_is_a_bucket_at_all() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let words = ["create", "users", "--quota", "64MiB", "--ttl", "5m", "--policy", "lru", "--json"];
    let created: Json = serde_json::from_str(&bucket(&dev, 0, &words)).expect("JSON");
    let expected = json!({
        "name": "users", "number": created["number"], "id": created["id"], "kind": "persistent", "partitions": 1,
        "quota": 67_108_864,
        "policy": "lru", "durability": "persist-majority", "consistency": "linearizable", "ttl": 300, "value_bytes_max": 0,
        "work_max": 0,
    });
    assert_eq!(created, expected);
    for node in 0..3 {
        assert_eq!(http(&dev, node, "GET /v1/buckets/users", b"").json(), expected);
    }
    // Each way leads to the same keys, and to no others.
    assert_eq!(http(&dev, 1, "PUT /v1/buckets/users/keys/k", b"http").status, 204);
    assert_eq!(http(&dev, 2, "PUT /v1/keys/k", b"default").status, 204);
    assert_eq!(in_bucket(&dev, 2, "users").call(&["GET", "k"]).expect("a reply"), Value::bulk("http"));
    // Its number is a name of it, too; which one it got depends on the numbered databases that the cluster reserves by then.
    let number = created["number"].to_string();
    assert_eq!(in_bucket(&dev, 0, &number).call(&["SET", "l", "resp"]).expect("a reply"), Value::ok());
    assert_eq!(http(&dev, 1, "GET /v1/buckets/users/keys/l", b"").body, b"resp");
    assert_eq!(http(&dev, 1, "GET /v1/keys/l", b"").status, 404);
    assert_eq!(http(&dev, 0, "GET /v1/keys/k", b"").body, b"default");
    // users:x
    let all = ask(&dev.nodes[0].http, "GET /getDictionary", &[("Authorization", "Basic dXNlcnM6eA==")], b"");
    assert_eq!(all.expect("an answer").json(), json!({"k": "http", "l": "resp"}));
    let address: Vec<&str> = dev.nodes[1].resp.split(':').collect();
    let lines = output(dictum(&["cli", "-h", address[0], "-p", address[1], "ttl", "k"]));
    assert_eq!(String::from_utf8_lossy(&lines.stdout), "-1\n", "the default bucket has no time-to-live");
    let ttl = in_bucket(&dev, 1, "users").call(&["TTL", "k"]).expect("a reply").as_integer();
    assert!(ttl.is_some_and(|seconds| (1..=300).contains(&seconds)), "{ttl:?}");
    // What is set at one node holds at all.
    let changed = bucket(&dev, 2, &["set", "users", "--ttl", "0", "--value-bytes-max", "1KiB"]);
    assert!(changed.contains("ttl              -\nvalue-bytes-max  1KiB\n"), "{changed}");
    assert_eq!(http(&dev, 0, "PATCH /v1/buckets/users", br#"{"policy":"lru"}"#).status, 204);
    let table = bucket(&dev, 1, &["list", "-o", "wide"]);
    let row = table.lines().find(|line| line.starts_with("users")).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        cells,
        ["users", &number, "persistent", "1", "64MiB", "lru", "persist-majority", "linearizable", "-", "1KiB"],
        "{table}"
    );
    wait_for("the limit at this node", || {
        let reply = in_bucket(&dev, 2, "users").call(&["SETRANGE", "long", "1024", "x"]).expect("a reply");
        assert!(reply.as_error().is_none_or(|error| error.contains("exceeds maximum allowed size")), "{reply:?}");
        reply.as_error().map(drop)
    });
    // An ephemeral one.
    let created = http(&dev, 2, "PUT /v1/buckets/scratch", br#"{"kind":"ephemeral","quota":65536}"#);
    assert_eq!((created.status, created.headers["location"].as_str()), (201, "/v1/buckets/scratch"));
    assert_eq!(http(&dev, 2, "PUT /v1/buckets/scratch", b"{}").status, 409);
    wait_for("replicas in memory", || {
        let answer = http(&dev, 0, "PUT /v1/buckets/scratch/keys/k", b"short-lived");
        assert!(matches!(answer.status, 204 | 503), "{}", answer.status);
        (answer.status == 204).then_some(())
    });
    assert_eq!(in_bucket(&dev, 1, "scratch").call(&["GET", "k"]).expect("a reply"), Value::bulk("short-lived"));
    assert_eq!(http(&dev, 0, "GET /v1/buckets/users/keys/k", b"").body, b"http");
    // Dropped.
    assert_eq!(http(&dev, 0, "DELETE /v1/buckets/users", b"").status, 428);
    assert!(refused(&dev, &["drop", "users"]).contains("--yes"), "there is no terminal to ask at");
    assert_eq!(bucket(&dev, 1, &["drop", "users", "--yes"]), "users is dropped\n");
    assert_eq!(http(&dev, 1, "GET /v1/buckets/users/keys/k", b"").status, 404);
    assert_eq!(http(&dev, 2, "GET /v1/buckets/users", b"").status, 404);
    assert_eq!(http(&dev, 1, "DELETE /v1/buckets/scratch?confirm=scratch", b"").status, 204);
    let names: Vec<Json> = http(&dev, 0, "GET /v1/buckets", b"")
        .json()
        .as_array()
        .expect("a list")
        .iter()
        .map(|bucket| bucket["name"].clone())
        .collect();
    assert_eq!(names, [json!("default")]);
    // Another one of the same name begins empty.
    assert_eq!(http(&dev, 2, "PUT /v1/buckets/users", b"{}").status, 201);
    assert_eq!(http(&dev, 2, "GET /v1/buckets/users/keys/k", b"").status, 404);
    assert_eq!(http(&dev, 2, "PUT /v1/buckets/users/keys/k", b"again").status, 204);
    assert_eq!(http(&dev, 1, "GET /v1/keys/k", b"").body, b"default");
}

#[test]
fn what_cannot_be_done_is_told_with_what_to_do() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &["--nodes", "1"]);
    bucket(&dev, 0, &["create", "users"]);
    for (words, expected) in [
        (&["create", "users"][..], "there is a bucket 'users' already\n  `dictum bucket set`"),
        (&["create", "7up"], "a bucket's name is a letter"),
        (&["create", "pages", "--kind", "cache"], "a cache needs a quota"),
        (&["create", "pages", "--quota", "much"], "a size is a number of bytes"),
        (&["create", "pages", "--kind", "odd"], "[possible values: persistent, ephemeral, cache]"),
        (&["create", "pages", "--ttl", "soon"], "write a number of seconds"),
        (&["show", "none"], "there is no bucket 'none'\n  `dictum bucket list`"),
        (&["set", "none", "--ttl", "1"], "there is no bucket 'none'"),
        (&["set", "users"], "say what to change"),
        (&["drop", "none", "--yes"], "there is no bucket 'none'"),
        (&["drop", "default", "--yes"], "the default bucket cannot be dropped"),
    ] {
        let told = refused(&dev, words);
        assert!(told.contains(expected), "{words:?}: {told}");
    }
    let contradiction = br#"{"kind":"ephemeral","durability":"persist-majority"}"#;
    assert_eq!(http(&dev, 0, "PUT /v1/buckets/x", contradiction).status, 422);
    assert_eq!(http(&dev, 0, "PATCH /v1/buckets/none", br#"{"ttl":1}"#).status, 404);
    assert_eq!(http(&dev, 0, "DELETE /v1/buckets/default?confirm=default", b"").status, 409);
    // Every word that is described is one that the node knows.
    for (field, words) in [
        ("policy", &server::bucket::POLICIES[..]),
        ("durability", &server::bucket::DURABILITIES[..]),
        ("consistency", &server::bucket::CONSISTENCIES[..]),
    ] {
        for word in words {
            let body = json!({ field: word }).to_string();
            assert_eq!(http(&dev, 0, "PATCH /v1/buckets/users", body.as_bytes()).status, 204, "{body}");
            assert_eq!(http(&dev, 0, "GET /v1/buckets/users", b"").json()[field], json!(word));
        }
    }
    for (number, kind) in server::bucket::KINDS.iter().enumerate() {
        let body = json!({ "kind": kind, "quota": 1_u64 << 50, "ttl": 31_622_400_000_u64, "value_bytes_max": 1 << 29 });
        let answer = http(&dev, 0, &format!("PUT /v1/buckets/b{number}"), body.to_string().as_bytes());
        assert_eq!(answer.status, 201, "{body}");
    }
}
