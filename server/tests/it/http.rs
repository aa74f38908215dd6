//! HTTP on a whole cluster of processes: what one node is told, every node knows.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use rustix::process::Signal;
use serde_json::{Value as Json, json};
use tempfile::{TempDir, tempdir};

use crate::common::http::{Answer, ask};
use crate::common::{DICTUM, Dev, NodeInfo, PATIENCE, signal, wait_for};

/// Three nodes, started by `dictum dev`, gone when dropped.
struct Cluster {
    dev: Dev,
    _folder: TempDir,
}

impl Cluster {
    fn start() -> Cluster {
        let folder = tempdir().expect("a temporary folder");
        Cluster { dev: Dev::start(folder.path(), &[]), _folder: folder }
    }

    fn ask(&self, node: usize, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        ask(&self.dev.nodes[node].http, line, headers, body).expect("an answer")
    }

    /// As [`Cluster::ask`], for what may be asked twice. With large values on a busy machine a request may take longer than
    /// it is allowed to; then it is asked again.
    fn ask_patiently(&self, node: usize, line: &str, body: &[u8]) -> Answer {
        wait_for("an answer in time", || {
            let answer = self.ask(node, line, &[], body);
            (!matches!(answer.status, 503 | 504)).then_some(answer)
        })
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
    wait_for("the deadline", || (cluster.ask(1, "GET /v1/keys/t", &[], b"").status == 404).then_some(()));
    assert_eq!(cluster.ask(0, "DELETE /v1/keys/k", &[], b"").status, 204);
    assert_eq!(cluster.ask(1, "GET /getValue?key=k", &[], b"").status, 404);
}

#[test]
fn large_values_and_whole_dictionaries() {
    let cluster = Cluster::start();
    let large: Vec<u8> = (0..5_000_000u32).map(|index| (index % 251) as u8).collect();
    assert_eq!(cluster.ask_patiently(0, "PUT /v1/keys/large", &large).status, 204);
    assert_eq!(cluster.ask_patiently(1, "GET /v1/keys/large", b"").body, large);
    assert_eq!(cluster.ask_patiently(0, "PUT /v1/keys/large", &vec![0; 16 * 1024 * 1024]).status, 204);
    let declared = [("X-Filler", "")];
    let refused = ask(&cluster.dev.nodes[0].http, "PUT /v1/keys/large", &declared, &vec![0; 16 * 1024 * 1024 + 1]);
    // The server answers before all is sent; the rest may then be refused by the socket.
    assert!(refused.is_err() || refused.is_ok_and(|answer| answer.status == 413));
    // 404: the second time that it was asked, or a third.
    assert!(matches!(cluster.ask_patiently(0, "DELETE /v1/keys/large", b"").status, 204 | 404));
    let mut expected = serde_json::Map::new();
    for index in 0..1500 {
        let (key, value) = (format!("key:{index}"), "v".repeat(index));
        let body = json!({"key": key, "value": value}).to_string();
        assert_eq!(cluster.ask_patiently(index % 3, "POST /insertOrUpdate", body.as_bytes()).status, 200);
        expected.insert(key, json!(value));
    }
    assert_eq!(cluster.ask_patiently(2, "GET /getDictionary", b"").json(), Json::Object(expected));
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
    assert!(cluster.dev.nodes.iter().any(|node| node.name == leader));
    wait_for("every node's position", || {
        let status = cluster.ask(1, "GET /v1/status", &[], b"").json();
        let nodes = status["nodes"].as_array().expect("nodes").clone();
        let known = nodes.iter().all(|node| node["up"] == json!(true) && node["applied"].as_u64() >= Some(10));
        known.then_some(())
    });
    let metrics = || String::from_utf8(cluster.ask(1, "GET /metrics", &[], b"").body).expect("text");
    let figure = |name: &str| -> f64 {
        let metrics = metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing in\n{metrics}")).parse().expect("a number")
    };
    // Answered when this node has all that was decided before.
    assert_eq!(cluster.ask(1, "GET /v1/keys/9", &[], b"").status, 200);
    assert!(figure("dictum_keys") >= 10.0);
    assert_eq!(figure("dictum_has_leader"), 1.0);
    wait_for("all that vote are counted", || (figure("dictum_failures_borne") == 1.0).then_some(()));
    assert!(figure("dictum_commands_total") > 0.0);
    // Ten writes one after the other, each on this node's disk or in a message to it.
    assert!(figure("dictum_journal_syncs_total") >= 1.0);
    let messages = figure("dictum_peer_messages_total");
    assert!(messages >= 1.0 && figure("dictum_peer_bytes_total") > messages);
    assert_eq!(figure("dictum_http_requests_total{method=\"GET\",route=\"/v1/status\",status=\"200\"}").min(2.0), 2.0);
    // The command line sees the same.
    let table =
        Command::new(DICTUM).args(["status", "--at", &cluster.dev.nodes[2].resp]).output().expect("the binary starts");
    assert!(table.status.success());
    assert!(String::from_utf8_lossy(&table.stdout).contains("3 of 3 nodes up"));
}

/// The rules that operators are given go by metrics that there are.
#[test]
fn alerts_and_the_dashboard_go_by_metrics_that_there_are() {
    let cluster = Cluster::start();
    assert_eq!(cluster.ask_patiently(1, "PUT /v1/keys/k", b"v").status, 204);
    let backup = cluster.dev.nodes[0].dir.with_file_name("backup");
    let backup = backup.to_str().expect("text").to_owned();
    let taken = Command::new(DICTUM).args(["backup", &backup, "--at", &cluster.dev.nodes[0].resp]).output();
    assert!(taken.expect("the binary starts").status.success());
    let metrics: Vec<String> =
        (0..3).map(|node| String::from_utf8(cluster.ask(node, "GET /metrics", &[], b"").body).expect("text")).collect();
    let rules = include_str!("../../../packaging/prometheus-rules.yml");
    let dashboard = include_str!("../../../packaging/grafana-dashboard.json");
    serde_json::from_str::<serde_json::Value>(dashboard).expect("it is JSON");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names_in = |text: &'static str| -> Vec<&str> {
        let expressions = text.lines().filter(|line| {
            ["expr:", "\"expr\":", "histogram_quantile", "label_values"].iter().any(|word| line.contains(word))
        });
        let words = expressions.flat_map(|line| line.split(|c| !is_name(c)));
        words.filter(|word| word.starts_with("dictum_") || word.starts_with("process_")).collect()
    };
    let (of_rules, of_dashboard) = (names_in(rules), names_in(dashboard));
    assert!(
        of_rules.contains(&"dictum_failures_borne") && of_rules.len() >= 12 && of_dashboard.len() >= 25,
        "{of_rules:?} {of_dashboard:?}"
    );
    let names = [of_rules, of_dashboard].concat();
    for name in names {
        let has = |text: &String| {
            text.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_name)))
        };
        assert!(metrics.iter().any(has), "{name} is missing in\n{}", metrics[0]);
    }
    // A histogram's last bucket has them all.
    let figure = |name: &str| -> f64 {
        let line = metrics[1].lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing in\n{}", metrics[1])).parse().expect("a number")
    };
    for name in ["dictum_command_duration_seconds", "dictum_journal_sync_duration_seconds"] {
        let labels = if name.contains("command") { "command=\"dictum.set\"" } else { "" };
        let comma = if labels.is_empty() { "" } else { "," };
        let all = figure(&format!("{name}_bucket{{le=\"+Inf\"{comma}{labels}}}"));
        let of = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        assert!(all >= 1.0 && all <= figure(&format!("{name}_count{of}")), "{name}");
        assert!(figure(&format!("{name}_sum{of}")) > 0.0, "{name}");
    }
}

/// Writers over HTTP while the leader is killed: nothing that was confirmed is lost, an interruption is told as 503 or
/// 504, and the rest of the cluster goes on.
#[test]
fn a_killed_leader_loses_nothing_that_was_confirmed() {
    let cluster = Cluster::start();
    let leader = cluster.ask(0, "GET /v1/status", &[], b"").json()["leader"].clone();
    let (dead, alive): (Vec<&NodeInfo>, Vec<&NodeInfo>) =
        cluster.dev.nodes.iter().partition(|node| leader == json!(node.name));
    let (tell, confirmed) = mpsc::channel();
    let enough = AtomicBool::new(false);
    let write = |node: &NodeInfo, tell: &mpsc::Sender<()>| {
        let mut mine = Vec::new();
        let mut number = 0;
        while !enough.load(Ordering::Relaxed) {
            let key = format!("{}:{number}", node.name);
            let answer = ask(&node.http, &format!("PUT /v1/keys/{key}"), &[], key.as_bytes());
            match answer.expect("the connection stays") {
                Answer { status: 204, .. } => {
                    mine.push(key);
                    let _ = tell.send(());
                }
                answer => assert!(matches!(answer.status, 503 | 504), "{}", answer.status),
            }
            number += 1;
        }
        mine
    };
    let written: Vec<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = alive
            .iter()
            .map(|node| {
                let (node, tell, write) = (*node, tell.clone(), &write);
                scope.spawn(move || write(node, &tell))
            })
            .collect();
        // Writing goes on before, during and after the change of leader.
        let confirms = |count| (0..count).all(|_| confirmed.recv_timeout(PATIENCE).is_ok());
        let before = confirms(300);
        signal(dead[0].pid, Signal::KILL);
        let after = confirms(700);
        // Judged only now, so that the writers end in any case.
        enough.store(true, Ordering::Relaxed);
        assert!(before && after, "{before} {after}");
        writers.into_iter().flat_map(|writer| writer.join().expect("a good writer")).collect()
    });
    wait_for("another leader", || (ask(&alive[0].http, "GET /readyz", &[], b"").ok()?.status == 200).then_some(()));
    wait_for("that no further failure is borne", || {
        let metrics = String::from_utf8(ask(&alive[0].http, "GET /metrics", &[], b"").ok()?.body).ok()?;
        metrics.lines().any(|line| line == "dictum_failures_borne 0").then_some(())
    });
    let all = ask(&alive[1].http, "GET /getDictionary", &[], b"").expect("an answer").json();
    for key in &written {
        assert_eq!(all[key], json!(key));
    }
}

/// A key that no store takes is refused before it goes anywhere, however it comes.
#[test]
fn keys_have_a_limit() {
    let cluster = Cluster::start();
    let (longest, longer) = ("k".repeat(32 * 1024), "k".repeat(32 * 1024 + 1));
    assert_eq!(cluster.ask(0, &format!("PUT /v1/keys/{longest}"), &[], b"v").status, 204);
    assert_eq!(cluster.ask(1, &format!("GET /v1/keys/{longest}"), &[], b"").body, b"v");
    let record = format!(r#"{{"key":"{longer}","value":"v"}}"#);
    for (line, body) in [
        (format!("PUT /v1/keys/{longer}"), &b"v"[..]),
        (format!("GET /v1/keys/{longer}"), b""),
        (format!("DELETE /v1/keys/{longer}"), b""),
        (format!("GET /getValue?key={longer}"), b""),
        ("POST /insertOrUpdate".to_owned(), record.as_bytes()),
    ] {
        let answer = cluster.ask(0, &line, &[], body);
        assert_eq!((answer.status, &answer.json()["code"]), (413, &json!("TOO_LARGE")), "{}", &line[..20]);
        assert_eq!(answer.json()["message"], "key is longer than 32768 bytes");
    }
}
