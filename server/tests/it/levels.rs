//! Durability and consistency per request on a whole cluster of processes, over RESP and over HTTP, while nodes are held by
//! SIGSTOP: what docs/levels.md says.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use rustix::process::Signal;
use serde_json::json;
use tempfile::{TempDir, tempdir};
use wire::Value;

use crate::common::http::{Answer, ask};
use crate::common::{Client, Dev, NodeInfo, dictum, output, signal, wait_for};

/// Asks for the durability `all`.
const ALL: &[(&str, &str)] = &[("Dictum-Durability", "all")];
/// Asks for the consistency `local`.
const LOCAL: &[(&str, &str)] = &[("Dictum-Consistency", "local")];

/// How a write is refused that not every replica can get: nothing was done.
const NOT_ALL_UP: &str = "CLUSTERDOWN not every replica can be reached";
/// How it is answered when that shows too late.
const NOT_ON_ALL: &str = "NOTALL the command was done and a majority has it";

/// Three nodes: one that is asked, and two others, of which one leads.
struct Cluster {
    asked: NodeInfo,
    leader: NodeInfo,
    third: NodeInfo,
    dev: Dev,
    _folder: TempDir,
}

/// Processes that are held, until this is dropped.
struct Held(Vec<u32>);

impl Held {
    fn new(nodes: &[&NodeInfo]) -> Held {
        let held = Held(nodes.iter().map(|node| node.pid).collect());
        held.0.iter().for_each(|pid| signal(*pid, Signal::STOP));
        held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.iter().for_each(|pid| signal(*pid, Signal::CONT));
    }
}

impl Cluster {
    fn start() -> Cluster {
        let folder = tempdir().expect("a temporary folder");
        let dev = Dev::start(folder.path(), &[]);
        let leader = dev.leader();
        let mut others = dev.nodes.iter().filter(|node| node.name != leader.name).cloned();
        let [asked, third] = [others.next().expect("three nodes"), others.next().expect("three nodes")];
        Cluster { asked, leader, third, dev, _folder: folder }
    }

    fn bucket(&self, words: &[&str]) {
        let output = output(dictum(&[&["bucket"], words, &["--at", &self.dev.nodes[0].resp]].concat()));
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

fn connect(node: &NodeInfo) -> Client {
    Client::connect(&node.resp).expect("it listens")
}

fn call(client: &mut Client, line: &str) -> Value {
    let words: Vec<&str> = line.split(' ').collect();
    client.call(&words).expect("a reply")
}

/// What a command is refused with; the empty text, if it is not.
fn error(client: &mut Client, line: &str) -> String {
    call(client, line).as_error().unwrap_or_default().to_owned()
}

fn http(node: &NodeInfo, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    ask(&node.http, line, headers, body).expect("an answer")
}

fn code(answer: &Answer) -> String {
    answer.json()["code"].as_str().expect("a code").to_owned()
}

fn age(answer: &Answer) -> u64 {
    answer.headers["dictum-age-ms"].parse().expect("a number")
}

/// The text of a bulk reply.
fn text(value: &Value) -> String {
    String::from_utf8(value.as_bytes().unwrap_or_else(|| panic!("{value:?}")).to_vec()).expect("text")
}

#[test]
fn a_write_for_all_needs_every_replica() {
    let cluster = Cluster::start();
    for node in [&cluster.asked, &cluster.leader] {
        let mut client = connect(node);
        assert_eq!(call(&mut client, "DICTUM.DURABILITY all"), Value::ok());
        wait_for("all replicas", || (call(&mut client, "SET k 1") == Value::ok()).then_some(()));
        assert_eq!(http(node, "PUT /v1/keys/k", ALL, b"1").status, 204);
        let stored = http(node, "POST /insertOrUpdate", ALL, br#"{"key":"k","value":"1"}"#);
        assert_eq!(stored.json()["message"], json!("\"k\" is stored: every replica has it."));
        let mut other = connect(node);

        // Held, but not known to be: the write is done, and waits in vain for the last replica.
        let mut written = 1;
        wait_for("a write that is not on all", || {
            let held = Held::new(&[&cluster.third]);
            written += 1;
            let told = error(&mut client, &format!("SET k {written}"));
            let is_done = told.starts_with(NOT_ON_ALL);
            assert!(is_done || told.starts_with(NOT_ALL_UP), "{told}");
            let now = if is_done { written } else { written - 1 };
            assert_eq!(text(&call(&mut other, "GET k")), now.to_string(), "{told}");
            written = now;
            drop(held);
            wait_for("all replicas", || (error(&mut client, "SET l 1").is_empty()).then_some(()));
            is_done.then_some(())
        });
        // Once over HTTP: each time it takes as long as a request may.
        if node.name == cluster.asked.name {
            let once = [ALL[0], ("Idempotency-Key", "once")];
            wait_for("a write over HTTP that is not on all", || {
                let held = Held::new(&[&cluster.third]);
                let answer = http(node, "PUT /v1/keys/k", &once, b"http");
                let told = (answer.status, code(&answer));
                let is_done = told == (504, "NOTALL".to_owned());
                assert!(is_done || told == (503, "CLUSTERDOWN".to_owned()), "{told:?}");
                assert_eq!(answer.headers.contains_key("dictum-token"), is_done);
                assert_eq!(text(&call(&mut other, "GET k")) == "http", is_done);
                drop(held);
                wait_for("all replicas", || (http(node, "PUT /v1/keys/l", ALL, b"1").status == 204).then_some(()));
                is_done.then_some(())
            });
            // Repeated, it only waits until every replica has it.
            assert_eq!(call(&mut other, "SET k later"), Value::ok());
            assert_eq!(http(node, "PUT /v1/keys/k", &once, b"http").status, 204);
            assert_eq!(text(&call(&mut other, "GET k")), "later");
        }

        // Known to be held: refused at once, and nothing is done; whoever asks for less is served.
        let held = Held::new(&[&cluster.third]);
        wait_for("a refusal", || error(&mut client, "SET k no").starts_with(NOT_ALL_UP).then_some(()));
        assert_eq!(call(&mut other, "SET k 3"), Value::ok());
        assert!(error(&mut client, "SET k no").starts_with(NOT_ALL_UP));
        let refused = http(node, "PUT /v1/keys/k", ALL, b"no");
        assert_eq!((refused.status, code(&refused)), (503, "CLUSTERDOWN".to_owned()));
        let told = refused.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(told.starts_with("not every replica can be reached"), "{told}");
        for level in ["majority", "persist-majority"] {
            assert_eq!(http(node, "PUT /v1/keys/l", &[("Dictum-Durability", level)], b"v").status, 204);
        }
        assert_eq!(text(&call(&mut other, "GET k")), "3");
        drop(held);
        wait_for("all replicas again", || (call(&mut client, "SET k 4") == Value::ok()).then_some(()));
        wait_for("all replicas again", || (http(node, "PUT /v1/keys/k", ALL, b"5").status == 204).then_some(()));
    }
}

#[test]
fn a_token_is_honoured_at_every_node() {
    let cluster = Cluster::start();
    let third = &cluster.third;
    for round in 0..5 {
        // What the third node has not heard of when it wakes, it waits for.
        let held = Held::new(&[third]);
        let put = http(&cluster.asked, "PUT /v1/keys/k", &[], format!("http {round}").as_bytes());
        let token = put.headers["dictum-token"].clone();
        let mut client = connect(third);
        client.send(&["DICTUM.CONSISTENCY", "session", &token]).expect("there is room");
        client.send(&["GET", "k"]).expect("there is room");
        client.send(&["DICTUM.TOKEN"]).expect("there is room");
        drop(held);
        assert_eq!(client.receive().expect("a reply"), Value::ok());
        assert_eq!(text(&client.receive().expect("a reply")), format!("http {round}"));
        assert_eq!(text(&client.receive().expect("a reply")), token);

        let held = Held::new(&[third]);
        let mut client = connect(&cluster.leader);
        assert_eq!(call(&mut client, &format!("SET k resp-{round}")), Value::ok());
        let token = text(&call(&mut client, "DICTUM.TOKEN"));
        drop(held);
        let got = http(third, "GET /v1/keys/k", &[("Dictum-Token", &token)], b"");
        assert_eq!((got.status, got.body), (200, format!("resp-{round}").into_bytes()));
        assert_eq!(got.headers["dictum-token"], token);
        for line in ["GET /getValue?key=k", "GET /getDictionary"] {
            assert_eq!(http(third, line, &[("Dictum-Token", &token)], b"").headers["dictum-token"], token);
        }
    }
    // Tokens that are none.
    let get = |token: &str, level: &str| {
        let headers = [("Dictum-Token", token), ("Dictum-Consistency", level)];
        let answer = http(third, "GET /v1/keys/k", &headers, b"");
        (answer.status, code(&answer))
    };
    assert_eq!(get("0", "session"), (400, "BAD_REQUEST".to_owned()));
    assert_eq!(get("0:1", "local"), (400, "BAD_REQUEST".to_owned()));
    cluster.bucket(&["create", "other"]);
    let put = wait_for("the bucket", || {
        let answer = http(third, "PUT /v1/buckets/other/keys/k", &[], b"v");
        (answer.status == 204).then_some(answer)
    });
    assert_eq!(get(&put.headers["dictum-token"], "session"), (409, "FALSE_TOKEN".to_owned()));
    // Of a state that has never been: refused when its time is up, and nobody else's requests feel it.
    let told = get("0:99999999", "session");
    assert!(matches!(told.0, 409 | 503), "{told:?}");
    assert!(!http(third, "GET /v1/keys/k", &[], b"").headers["dictum-token"].ends_with("99999999"));
}

#[test]
fn a_node_that_is_cut_off_still_reads_locally() {
    let cluster = Cluster::start();
    let node = &cluster.asked;
    assert_eq!(http(node, "PUT /v1/keys/k", &[], b"v").status, 204);
    let before = http(node, "GET /v1/keys/k", &[], b"");
    assert!(!before.headers.contains_key("dictum-age-ms"), "it is linearizable");
    let mut client = connect(node);
    assert_eq!(call(&mut client, "DICTUM.CONSISTENCY local"), Value::ok());
    assert_eq!(text(&call(&mut client, "GET k")), "v");

    let held = Held::new(&[&cluster.leader, &cluster.third]);
    let first = http(node, "GET /v1/keys/k", LOCAL, b"");
    assert_eq!((first.status, &first.body[..]), (200, &b"v"[..]));
    let first = age(&first);
    wait_for("a state that grows old", || {
        (age(&http(node, "GET /v1/keys/k", LOCAL, b"")) > first + 1000).then_some(())
    });
    wait_for("a state that grows older", || {
        assert_eq!(text(&call(&mut client, "GET k")), "v");
        (call(&mut client, "DICTUM.AGE").as_integer()? > i64::try_from(first).expect("small") + 1500).then_some(())
    });
    for line in ["GET /getValue?key=k", "GET /getDictionary", "GET /getValue?key=none"] {
        let answer = http(node, line, LOCAL, b"");
        assert!(matches!(answer.status, 200 | 404) && age(&answer) > first + 1000, "{line}");
    }
    // So does whoever shows what this node has seen already.
    let seen = http(node, "GET /v1/keys/k", &[("Dictum-Token", &before.headers["dictum-token"])], b"");
    assert_eq!((seen.status, &seen.body[..]), (200, &b"v"[..]));
    // Nobody else does: this node cannot know what the others have done since.
    let refused = http(node, "GET /v1/keys/k", &[], b"");
    assert_eq!((refused.status, code(&refused)), (503, "CLUSTERDOWN".to_owned()));
    assert_eq!(call(&mut client, "DICTUM.CONSISTENCY linearizable"), Value::ok());
    assert!(error(&mut client, "GET k").starts_with("CLUSTERDOWN"));
    let refused = http(node, "PUT /v1/keys/k", LOCAL, b"w");
    assert!(matches!(refused.status, 503 | 504), "{}", refused.status);

    drop(held);
    wait_for("the others", || (http(node, "PUT /v1/keys/k", &[], b"x").status == 204).then_some(()));
    wait_for("a young state", || {
        let answer = http(node, "GET /v1/keys/k", LOCAL, b"");
        (answer.body == b"x" && age(&answer) < 1000).then_some(())
    });
    assert_eq!(text(&call(&mut client, "GET k")), "x");
}

#[test]
fn a_bucket_has_defaults() {
    let cluster = Cluster::start();
    cluster.bucket(&["create", "strict", "--durability", "all", "--consistency", "session"]);
    cluster.bucket(&["create", "scratch", "--kind", "ephemeral", "--consistency", "local"]);
    let node = &cluster.asked;
    let put = |headers: &[(&str, &str)]| http(node, "PUT /v1/buckets/strict/keys/k", headers, b"v");
    wait_for("replicas", || (put(&[]).status == 204).then_some(()));
    let mut client = connect(node);
    assert_eq!(call(&mut client, "SELECT strict"), Value::ok());
    assert_eq!(text(&call(&mut client, "DICTUM.DURABILITY")), "all");
    assert_eq!(text(&call(&mut client, "DICTUM.CONSISTENCY")), "session");
    assert_eq!(text(&call(&mut client, "GET k")), "v");
    let stored = http(
        node,
        "POST /insertOrUpdate",
        // strict:x
        &[("Authorization", "Basic c3RyaWN0Ong=")],
        br#"{"key":"k","value":"v"}"#,
    );
    assert_eq!(stored.json()["message"], json!("\"k\" is stored: every replica has it."));
    wait_for("the age of a read of the level session", || {
        http(node, "GET /v1/buckets/strict/keys/k", &[], b"").headers.contains_key("dictum-age-ms").then_some(())
    });
    let linearizable = [("Dictum-Consistency", "linearizable")];
    let got = http(node, "GET /v1/buckets/strict/keys/k", &linearizable, b"");
    assert!(!got.headers.contains_key("dictum-age-ms"));

    let held = Held::new(&[&cluster.third]);
    wait_for("a refusal", || (put(&[]).status == 503).then_some(()));
    assert!(error(&mut client, "SET k w").starts_with(NOT_ALL_UP));
    assert_eq!(put(&[("Dictum-Durability", "majority")]).status, 204);
    assert_eq!(http(node, "PUT /v1/keys/k", &[], b"v").status, 204, "of another bucket");
    cluster.bucket(&["set", "strict", "--durability", "persist-majority"]);
    wait_for("the new default", || (put(&[]).status == 204).then_some(()));
    drop(held);

    // In memory only.
    let put =
        |level: &str| http(node, "PUT /v1/buckets/scratch/keys/k", &[("Dictum-Durability", level)], level.as_bytes());
    wait_for("replicas in memory", || (put("all").status == 204).then_some(()));
    assert_eq!(put("majority").status, 204);
    let refused = put("persist-majority");
    assert_eq!((refused.status, code(&refused)), (422, "CONTRADICTION".to_owned()));
    wait_for("what this node has", || {
        let got = http(node, "GET /v1/buckets/scratch/keys/k", &[], b"");
        (got.body == b"majority" && got.headers.contains_key("dictum-age-ms")).then_some(())
    });
}
