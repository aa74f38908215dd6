//! Three real nodes become newer one by one while clients count on the others, and none of their commands fails.
//!
//! The older ones are this build, told to speak less; or, by `tests/mixed/run`, those of an earlier commit.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use base::versions::{NEWEST, OLDEST};
use serde_json::Value as Json;
use tempfile::tempdir;
use wire::Value;

use crate::common::counting::{Stops, count};
use crate::common::process::Process;
use crate::common::{
    DICTUM, dictum, eventually, failure, free_ports, http, output, status, wait_for, wait_until_nothing_is_flushed,
};

const NAMES: [&str; 3] = ["n1", "n2", "n3"];

/// A cluster on ports of its own.
struct Cluster<'a> {
    dir: &'a Path,
    /// RESP, HTTP and peers, of each node.
    ports: [[u16; 3]; 3],
}

impl Cluster<'_> {
    fn resp(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.ports[node][0])
    }

    /// What starts a node: of this program, or of that one, with more words.
    fn command(&self, program: &str, node: usize, more: &[&str]) -> Command {
        let [resp, http, _] = self.ports[node].map(|port| format!("127.0.0.1:{port}"));
        let founders: Vec<String> =
            NAMES.iter().zip(self.ports).map(|(name, ports)| format!("{name}=127.0.0.1:{}", ports[2])).collect();
        let mut command = dictum(&[]);
        if program != DICTUM {
            command = Command::new(program);
            command.stdin(Stdio::null());
        }
        command.args(["start", "--node", NAMES[node], "--cluster", &founders.join(",")]);
        command.args(["--resp", &resp, "--http", &http, "--dir"]).arg(self.dir.join(NAMES[node])).args(more);
        command
    }

    fn start(&self, program: &str, node: usize, more: &[&str]) -> Result<Process, String> {
        Process::start(self.command(program, node, more))
    }

    /// What a node of this build says of all.
    fn list(&self, asked: usize) -> Vec<Json> {
        let said = output(dictum(&["node", "list", "--json", "--at", &self.resp(asked)]));
        serde_json::from_slice(&said.stdout).unwrap_or_default()
    }
}

/// Nodes of `older`, with these words, are upgraded one by one, and get a secret for their links on the way. The first one goes back once, as the cluster's version has not
/// risen. How the cluster came to the newest version; nobody's commands failed.
fn upgrade(older: &str, more: &[&str]) {
    let folder = tempdir().expect("a temporary folder");
    let made = output(dictum(&["init", "--dir", folder.path().join("etc").to_str().expect("text")]));
    assert!(made.status.success(), "{made:?}");
    let secret = folder.path().join("etc/cluster.secret");
    let newer = ["--cluster-secret", secret.to_str().expect("text"), "--peer-tls", "prefer"];
    let (cluster, mut nodes) = wait_for("three nodes", || {
        let free: [u16; 9] = free_ports();
        let cluster = Cluster {
            dir: folder.path(),
            ports: [0, 3, 6].map(|first| [free[first], free[first + 1], free[first + 2]]),
        };
        let nodes: Result<Vec<Process>, String> = (0..3).map(|node| cluster.start(older, node, more)).collect();
        match nodes {
            Ok(nodes) => Some((cluster, nodes.into_iter().map(Some).collect::<Vec<_>>())),
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    });
    let mut counted = [0i64; 3];
    for (node, name) in NAMES.iter().enumerate() {
        eventually(&cluster.resp(node), &["SET", name, "0"]);
    }
    eventually(&cluster.resp(0), &["HSET", "h", "a", "1", "b", "2"]);
    let older_speaks = wait_for("a cluster in the version of its nodes", || {
        let list = cluster.list(0);
        let of = list.first()?["speaks"].clone();
        (list.len() == 3 && list.iter().all(|node| node["cluster_version"] == of)).then_some(of)
    });
    for upgraded in 0..3 {
        let stay: Vec<usize> = (0..3).filter(|node| *node != upgraded).collect();
        let stop = AtomicBool::new(false);
        let ended: Vec<i64> = std::thread::scope(|scope| {
            let stop = &stop;
            let stops = Stops(stop);
            let counters: Vec<_> = stay
                .iter()
                .map(|node| {
                    let (resp, from) = (cluster.resp(*node), counted[*node]);
                    scope.spawn(move || count(&resp, None, NAMES[*node], from, stop))
                })
                .collect();
            let there_and_back: &[(&str, &[&str])] = &[(DICTUM, &newer), (older, more), (DICTUM, &newer)];
            for &(program, words) in if upgraded == 0 { there_and_back } else { &there_and_back[2..] } {
                assert!(nodes[upgraded].take().expect("it runs").stop(), "it ends well");
                let started = cluster.start(program, upgraded, words);
                nodes[upgraded] =
                    Some(started.unwrap_or_else(|reason| panic!("{} has ended: {reason}", NAMES[upgraded])));
                // It has caught up, and the others see it.
                eventually(&cluster.resp(upgraded), &["GET", "h:none"]);
                if program == DICTUM {
                    wait_for("all nodes up", || {
                        let list = cluster.list(upgraded);
                        (list.len() == 3 && list.iter().all(|node| node["seen"] == "up")).then_some(())
                    });
                }
            }
            if upgraded < 2 {
                let list = cluster.list(upgraded);
                assert!(list.iter().all(|node| node["cluster_version"] == older_speaks), "{list:?}");
                assert_eq!(list[2]["speaks"], older_speaks, "{list:?}");
                let table = output(dictum(&["node", "list", "--at", &cluster.resp(0)]));
                let table = String::from_utf8_lossy(&table.stdout).into_owned();
                assert!(table.contains(&format!("version {NEWEST} waits for ")) && table.contains("n3."), "{table}");
            } else {
                // At each of them: one that has not applied it yet has nothing in its folder that says so.
                wait_for("the newest version", || {
                    let knows = |node: &Json| node["cluster_version"] == NEWEST && node["speaks"] == NEWEST;
                    let all_know = |list: Vec<Json>| list.len() == 3 && list.iter().all(knows);
                    (0..3).all(|asked| all_know(cluster.list(asked))).then_some(())
                });
            }
            drop(stops);
            counters.into_iter().map(|counter| counter.join().expect("nothing failed")).collect()
        });
        for (node, number) in stay.into_iter().zip(ended) {
            assert!(number > counted[node], "it has counted");
            counted[node] = number;
        }
    }
    for asked in 0..3 {
        for (name, number) in NAMES.iter().zip(counted) {
            assert_eq!(eventually(&cluster.resp(asked), &["GET", name]), Value::bulk(&*number.to_string()));
        }
    }
    wait_for("all links under TLS", || {
        let links = |asked: usize| status(&cluster.resp(asked))?["nodes"].as_array().cloned();
        let is_secured = |node: &Json| node["me"] == true || node["link"] == "tls";
        (0..3).all(|asked| links(asked).is_some_and(|nodes| nodes.iter().all(is_secured))).then_some(())
    });
    let listed =
        http::ask(&format!("127.0.0.1:{}", cluster.ports[0][1]), "GET /v1/nodes", &[], b"").expect("an answer").json();
    assert_eq!((&listed[1]["speaks"], &listed[1]["cluster_version"]), (&NEWEST.into(), &NEWEST.into()));

    // There is no way back: an older one finds out from its folder, and says so; from its log, or from its state where that has come to the store.
    let refusal = |node: usize, runs: Process| {
        assert!(runs.stop(), "it ends well");
        let refused = match cluster.start(older, node, more) {
            Err(reason) => reason,
            Ok(process) => {
                wait_for("its end", || process.has_ended().then_some(()));
                process.kill().join("\n")
            }
        };
        println!("an older node says:\n{refused}");
        refused
    };
    let refused = refusal(1, nodes[1].take().expect("it runs"));
    if older == DICTUM {
        assert!(
            refused.contains(&format!(
                "the cluster has version {NEWEST}, and this node speaks {older_speaks} at the most"
            )),
            "{refused}"
        );
    }
    // Nothing has come of it.
    let again = cluster.start(DICTUM, 1, &newer).expect("it starts");
    assert_eq!(eventually(&cluster.resp(1), &["GET", "n1"]), Value::bulk(&*counted[0].to_string()));
    wait_for("an end by what is in the store", || {
        let runs = nodes[0].take().unwrap_or_else(|| cluster.start(DICTUM, 0, &newer).expect("it starts"));
        eventually(&cluster.resp(0), &["BGSAVE"]);
        wait_until_nothing_is_flushed(&cluster.resp(0));
        // The council's state may not have come to the store yet.
        let refused = refusal(0, runs);
        // An earlier commit may already end at the journal, whose format is another one by now.
        let has_other_journal = older != DICTUM && refused.contains("the journal was written by another version");
        let by_store = if older == DICTUM { "cannot be used: the cluster has version" } else { "cannot be used" };
        (has_other_journal || refused.contains(by_store)).then_some(())
    });
    drop(again);
}

#[test]
fn nodes_that_speak_less_are_upgraded_one_by_one() {
    upgrade(DICTUM, &["--speak-at-most", &OLDEST.to_string()]);
}

/// By `tests/mixed/run`, which builds an earlier commit.
#[test]
#[ignore = "needs a program of an earlier commit: tests/mixed/run"]
fn nodes_of_an_earlier_commit_are_upgraded_one_by_one() {
    let older = std::env::var("MIXED_DICTUM").expect("MIXED_DICTUM names the older program");
    upgrade(&older, &[]);
}

#[test]
fn only_versions_that_there_are_can_be_spoken_at_most() {
    let text = failure(dictum(&["start", "--node", "n1", "--cluster", "n1=127.0.0.1:1", "--speak-at-most", "5"]));
    assert!(text.contains(&format!("{OLDEST}..={NEWEST}")), "{text}");
}
