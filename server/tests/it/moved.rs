//! All machines of a cluster get new addresses: same folders, same names. It finds itself again.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::path::Path;

use serde_json::Value as Json;
use tempfile::tempdir;
use wire::Value;

use crate::common::process::Process;
use crate::common::{Client, dictum, eventually, free_ports, output, wait_for};

const FOUNDERS: [&str; 3] = ["n1", "n2", "n3"];
const ALL: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Ports of the nodes: for clients, HTTP and peers.
type Ports = [[u16; 3]; 4];

fn some_ports() -> Ports {
    let free: [u16; 12] = free_ports();
    [0, 1, 2, 3].map(|node| [free[3 * node], free[3 * node + 1], free[3 * node + 2]])
}

fn resp(ports: &Ports, node: usize) -> String {
    format!("127.0.0.1:{}", ports[node][0])
}

/// Where these nodes are, as `--cluster` and `--moved` want it.
fn list(ports: &Ports, count: usize) -> String {
    let of = |node: usize| format!("{}=127.0.0.1:{}", ALL[node], ports[node][2]);
    (0..count).map(of).collect::<Vec<_>>().join(",")
}

fn start(folder: &Path, ports: &Ports, node: usize, more: &[&str]) -> Process {
    let [resp, http, peer] = ports[node].map(|port| format!("127.0.0.1:{port}"));
    let mut command = dictum(&["start", "--node", ALL[node], "--resp", &resp, "--http", &http, "--peer", &peer]);
    command.arg("--dir").arg(folder.join(ALL[node])).args(more);
    Process::start(command).expect("it starts")
}

fn nodes(at: &str) -> Vec<Json> {
    let said = output(dictum(&["node", "list", "--json", "--at", at]));
    serde_json::from_slice(&said.stdout).unwrap_or_default()
}

/// That all nodes are up at these addresses, as each of them says.
fn wait_for_all_at(ports: &Ports) {
    for node in 0..ALL.len() {
        wait_for("all nodes at their addresses", || {
            let listed = nodes(&resp(ports, node));
            let is_at = |place: usize| {
                let address = format!("127.0.0.1:{}", ports[place][2]);
                listed
                    .iter()
                    .any(|it| it["name"] == ALL[place] && it["seen"] == "up" && it["peer_address"] == address.as_str())
            };
            (0..ALL.len()).all(is_at).then_some(())
        });
    }
}

#[test]
fn all_at_once_and_they_find_each_other_again() {
    let folder = tempdir().expect("a temporary folder");
    let before = some_ports();
    let cluster = list(&before, FOUNDERS.len());
    let mut running: Vec<Process> =
        (0..FOUNDERS.len()).map(|node| start(folder.path(), &before, node, &["--cluster", &cluster])).collect();
    assert_eq!(eventually(&resp(&before, 0), &["SET", "k", "1"]), Value::ok());
    let token = output(dictum(&["node", "token", "--at", &resp(&before, 1)]));
    let token = String::from_utf8(token.stdout).expect("it is text");
    let asked = format!("127.0.0.1:{}", before[0][2]);
    running.push(start(folder.path(), &before, 3, &["--join", &asked, "--token", token.trim()]));
    wait_for_all_at(&before);
    for process in running {
        assert!(process.stop(), "it ends well");
    }

    let after = some_ports();
    let (cluster, moved) = (list(&after, FOUNDERS.len()), list(&after, ALL.len()));
    let mut running: Vec<Process> = (0..FOUNDERS.len())
        .map(|node| start(folder.path(), &after, node, &["--cluster", &cluster, "--moved", &moved]))
        .collect();
    running.push(start(folder.path(), &after, 3, &["--moved", &moved]));
    assert_eq!(eventually(&resp(&after, 3), &["GET", "k"]), Value::bulk("1"));
    wait_for_all_at(&after);
    for process in running {
        assert!(process.stop(), "it ends well");
    }

    // They remember, so the flag is not needed any more; and one that moves alone says so by itself.
    let mut alone = after;
    alone[3] = some_ports()[3];
    let said = format!("127.0.0.1:{}", alone[3][2]);
    let mut running: Vec<Process> =
        (0..FOUNDERS.len()).map(|node| start(folder.path(), &alone, node, &["--cluster", &cluster])).collect();
    running.push(start(folder.path(), &alone, 3, &["--peer-announce", &said, "--join", &asked]));
    wait_for_all_at(&alone);
    let told = running.iter().filter(|process| process.has_said(" leads under ballot ")).count();
    assert!(told >= 3, "{told} logs of followers say who leads");
    assert!(running[3].has_said("--join and --token are not needed any more"), "{:?}", running[3].lines());
    let mut client = Client::connect(&resp(&alone, 3)).expect("it listens");
    assert_eq!(client.call(&["INCR", "k"]).expect("a reply"), Value::Integer(2));
    for process in running {
        assert!(process.stop(), "it ends well");
    }
}
