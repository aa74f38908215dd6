//! HTTP on a whole cluster of processes: what one node is told, every node knows.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

/// Three nodes, started by `dictum dev`, gone when dropped.
struct Cluster {
    dev: Child,
    nodes: Vec<Node>,
    _folder: tempfile::TempDir,
}

struct Node {
    name: String,
    pid: i32,
    resp: String,
    http: String,
}

struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&self.body)))
    }
}

impl Cluster {
    fn start() -> Cluster {
        loop {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut dev = Command::new(env!("CARGO_BIN_EXE_dictum"))
                .args(["dev", "--json", "--base-port", &free_base_port().to_string(), "--dir"])
                .arg(folder.path().join("data"))
                .stdout(Stdio::piped())
                .spawn()
                .expect("the binary starts");
            let mut line = String::new();
            let mut out = BufReader::new(dev.stdout.take().expect("a pipe"));
            out.read_line(&mut line).expect("a line");
            let Ok(ready) = serde_json::from_str::<Json>(&line) else {
                // Somebody else took one of the ports in the meantime.
                dev.wait().expect("dev ends");
                continue;
            };
            let text = |node: &Json, field: &str| node[field].as_str().expect("a text").to_owned();
            let nodes = ready["nodes"].as_array().expect("nodes");
            let nodes = nodes
                .iter()
                .map(|node| Node {
                    name: text(node, "name"),
                    pid: i32::try_from(node["pid"].as_i64().expect("a number")).expect("a process id"),
                    resp: text(node, "resp"),
                    http: text(node, "http"),
                })
                .collect();
            return Cluster { dev, nodes, _folder: folder };
        }
    }

    fn ask(&self, node: usize, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        ask(&self.nodes[node].http, line, headers, body).expect("an answer")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        signal(i32::try_from(self.dev.id()).expect("a process id"), rustix::process::Signal::TERM);
        let _ = self.dev.wait();
    }
}

fn signal(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
    // It may be gone already.
    let _ = rustix::process::kill_process(pid, signal);
}

/// A base port whose nine ports could be bound just now.
fn free_base_port() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let base = first.local_addr().expect("an address").port();
        let all = (0..3u16).flat_map(|kind| (0..3u16).map(move |node| kind * 1000 + node)).skip(1);
        let free =
            |offset: u16| base.checked_add(offset).is_some_and(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
        if all.into_iter().all(free) {
            return base;
        }
    }
}

/// One request on a connection of its own.
fn ask(address: &str, line: &str, headers: &[(&str, &str)], body: &[u8]) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut request =
        format!("{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{request}\r\n").as_bytes())?;
    stream.write_all(body)?;
    let mut all = Vec::new();
    stream.read_to_end(&mut all)?;
    let cut = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(cut)?;
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or_else(cut)?;
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut body = all.split_off(end + 4);
    if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        body = unchunked(&body).ok_or_else(cut)?;
    }
    Ok(Answer { status, headers, body })
}

/// Takes the chunked coding away; `None` if it does not end as it should.
fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
        rest = rest.get(end + 2..)?;
        if length == 0 {
            return Some(out);
        }
        out.extend_from_slice(rest.get(..length)?);
        rest = rest.get(length + 2..)?;
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_one_node_is_told_every_node_knows() {
    let cluster = Cluster::start();
    let stored = cluster.ask(0, "POST /insertOrUpdate", &[], br#"{"key":"greeting","value":"hello"}"#);
    assert_eq!(stored.status, 200);
    for node in 0..3 {
        let found = cluster.ask(node, "GET /getValue?key=greeting", &[], b"");
        assert_eq!((found.status, &found.json()["value"]), (200, &json!("hello")));
        assert_eq!(cluster.ask(node, "GET /readyz", &[], b"").status, 200);
    }
    // Revisions are the same everywhere, and a condition is judged by the cluster, not by the node.
    let first = cluster.ask(1, "PUT /v1/keys/k", &[("If-None-Match", "*")], b"1");
    let etag = first.headers["etag"].clone();
    assert_eq!((first.status, &cluster.ask(2, "GET /v1/keys/k", &[], b"").headers["etag"]), (204, &etag));
    assert_eq!(cluster.ask(2, "PUT /v1/keys/k", &[("If-Match", &etag)], b"2").status, 204);
    assert_eq!(cluster.ask(0, "PUT /v1/keys/k", &[("If-Match", &etag)], b"3").status, 412);
    assert_eq!(cluster.ask(0, "GET /v1/keys/k", &[], b"").body, b"2");
    // A repeated request happens once, whichever node gets it.
    let once = [("Idempotency-Key", "order-7")];
    let first = cluster.ask(0, "PUT /v1/keys/o", &once, b"v");
    cluster.ask(1, "PUT /v1/keys/o", &[], b"later");
    let again = cluster.ask(2, "PUT /v1/keys/o", &once, b"v");
    assert_eq!((again.status, &again.headers["etag"]), (204, &first.headers["etag"]));
    assert_eq!(cluster.ask(0, "GET /v1/keys/o", &[], b"").body, b"later");
    // A deadline is kept.
    assert_eq!(cluster.ask(0, "PUT /v1/keys/t?ttl_ms=50", &[], b"v").status, 204);
    until("the deadline", || cluster.ask(1, "GET /v1/keys/t", &[], b"").status == 404);
    assert_eq!(cluster.ask(0, "DELETE /v1/keys/k", &[], b"").status, 204);
    assert_eq!(cluster.ask(1, "GET /getValue?key=k", &[], b"").status, 404);
}

#[test]
fn large_values_and_whole_dictionaries() {
    let cluster = Cluster::start();
    let large: Vec<u8> = (0..5_000_000u32).map(|index| (index % 251) as u8).collect();
    assert_eq!(cluster.ask(0, "PUT /v1/keys/large", &[], &large).status, 204);
    assert_eq!(cluster.ask(1, "GET /v1/keys/large", &[], b"").body, large);
    assert_eq!(cluster.ask(0, "PUT /v1/keys/large", &[], &vec![0; 16 * 1024 * 1024]).status, 204);
    let declared = [("X-Filler", "")];
    let refused = ask(&cluster.nodes[0].http, "PUT /v1/keys/large", &declared, &vec![0; 16 * 1024 * 1024 + 1]);
    // The server answers before all is sent; the rest may then be refused by the socket.
    assert!(refused.is_err() || refused.is_ok_and(|answer| answer.status == 413));
    assert_eq!(cluster.ask(0, "DELETE /v1/keys/large", &[], b"").status, 204);
    let mut expected = serde_json::Map::new();
    for index in 0..1500 {
        let (key, value) = (format!("key:{index}"), "v".repeat(index));
        let body = json!({"key": key, "value": value}).to_string();
        assert_eq!(cluster.ask(index % 3, "POST /insertOrUpdate", &[], body.as_bytes()).status, 200);
        expected.insert(key, json!(value));
    }
    assert_eq!(cluster.ask(2, "GET /getDictionary", &[], b"").json(), Json::Object(expected));
}

#[test]
fn status_and_metrics_are_real() {
    let cluster = Cluster::start();
    for index in 0..10 {
        assert_eq!(cluster.ask(0, &format!("PUT /v1/keys/{index}"), &[], b"v").status, 204);
    }
    let status = cluster.ask(1, "GET /v1/status", &[], b"").json();
    assert_eq!((&status["node"], &status["cluster"]), (&json!("n2"), &json!(["n1", "n2", "n3"])));
    let leader = status["leader"].as_str().expect("a leader");
    assert!(cluster.nodes.iter().any(|node| node.name == leader));
    until("every node's position", || {
        let status = cluster.ask(1, "GET /v1/status", &[], b"").json();
        let nodes = status["nodes"].as_array().expect("nodes").clone();
        nodes.iter().all(|node| node["up"] == json!(true) && node["applied"].as_u64() >= Some(10))
    });
    let metrics = || String::from_utf8(cluster.ask(1, "GET /metrics", &[], b"").body).expect("text");
    let figure = |name: &str| -> f64 {
        let metrics = metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing in\n{metrics}")).parse().expect("a number")
    };
    until("the last key on this node", || figure("dictum_keys") >= 10.0);
    assert_eq!(figure("dictum_has_leader"), 1.0);
    assert!(figure("dictum_commands_total") > 0.0);
    assert_eq!(figure("dictum_http_requests_total{method=\"GET\",route=\"/v1/status\",status=\"200\"}").min(2.0), 2.0);
    // The command line sees the same.
    let table = Command::new(env!("CARGO_BIN_EXE_dictum"))
        .args(["status", "--at", &cluster.nodes[2].resp])
        .output()
        .expect("the binary starts");
    assert!(table.status.success());
    assert!(String::from_utf8_lossy(&table.stdout).contains("3 of 3 nodes up"));
}

/// Writers over HTTP while the leader is killed: nothing that was confirmed is lost, an interruption is told as 503 or
/// 504, and the rest of the cluster goes on.
#[test]
fn a_killed_leader_loses_nothing_that_was_confirmed() {
    let cluster = Cluster::start();
    let leader = cluster.ask(0, "GET /v1/status", &[], b"").json()["leader"].clone();
    let (dead, alive): (Vec<&Node>, Vec<&Node>) = cluster.nodes.iter().partition(|node| leader == json!(node.name));
    let (dead, alive) = (dead[0], alive);
    let confirmed = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = alive
        .iter()
        .map(|node| {
            let (address, name, confirmed) = (node.http.clone(), node.name.clone(), Arc::clone(&confirmed));
            std::thread::spawn(move || {
                let mut mine = Vec::new();
                let mut number = 0;
                // Long enough to be writing before, during and after the change of leader.
                while confirmed.load(Ordering::Relaxed) < 1000 {
                    let key = format!("{name}:{number}");
                    match ask(&address, &format!("PUT /v1/keys/{key}"), &[], key.as_bytes()) {
                        Ok(answer) if answer.status == 204 => {
                            mine.push(key);
                            confirmed.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(answer) => assert!(matches!(answer.status, 503 | 504), "{}", answer.status),
                        Err(error) => panic!("{error}"),
                    }
                    number += 1;
                }
                mine
            })
        })
        .collect();
    until("the first writes", || confirmed.load(Ordering::Relaxed) >= 300);
    signal(dead.pid, rustix::process::Signal::KILL);
    let written: Vec<String> = writers.into_iter().flat_map(|writer| writer.join().expect("a good writer")).collect();
    until("another leader", || ask(&alive[0].http, "GET /readyz", &[], b"").is_ok_and(|answer| answer.status == 200));
    let all = ask(&alive[1].http, "GET /getDictionary", &[], b"").expect("an answer").json();
    for key in &written {
        assert_eq!(all[key], json!(key));
    }
}
