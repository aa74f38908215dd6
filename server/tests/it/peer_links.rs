//! Links between real nodes under TLS: strangers at the peers' port, and a cluster that gets its secret while it runs.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use base::NodeId;
use base::versions::{NEWEST, Versions};
use tempfile::tempdir;
use wire::{FrameWriter, Hello, Value};

use crate::common::bell::Bell;
use crate::common::process::Process;
use crate::common::{Client, Dev, NodeInfo, dictum, eventually, failure, free_ports, output, status, wait_for};

/// The node's answer to these bytes, until it closes the connection.
fn said_to(peer: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(peer).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    // It may have closed the connection at the first byte.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut heard = Vec::new();
    if let Err(error) = stream.read_to_end(&mut heard) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it does not wait for strangers for ever");
    }
    heard
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    FrameWriter::append(&mut bytes, |out| out.extend_from_slice(payload)).expect("it is short");
    bytes
}

/// A greeting as another node of the cluster would send it, and behind it a frame.
fn impostor(node: &NodeInfo, kind: u8) -> Vec<u8> {
    let mut payload = Vec::new();
    let hello = Hello {
        version: NEWEST,
        speaks: Versions::ALL,
        needs: NEWEST,
        cluster: 7,
        node: node.name.clone(),
        address: node.peer.clone(),
        id: NodeId(0),
        incarnation: u64::MAX,
    };
    hello.encode(&mut payload);
    [frame(&payload), frame(&[kind, 0, 0, 0, 0, 0, 0, 0, 0])].concat()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn strangers_at_the_peers_port_hear_nothing_and_change_nothing() {
    let folder = tempdir().expect("a temporary folder");
    let dir = folder.path().join("dev");
    let dev = Dev::start(&dir, &[]);
    let (first, second) = (&dev.nodes[0], &dev.nodes[1]);
    assert_eq!(eventually(&first.resp, &["SET", "k", "v"]), Value::ok());
    assert_eq!((mode(&dir.join("cluster.secret")), mode(&first.dir.join("node.key"))), (0o600, 0o600));
    let before = status(&second.resp).expect("it answers");
    for kind in 0..=255 {
        // The text for an operator who has forgotten the secret; it tells nothing of the cluster.
        let heard = String::from_utf8_lossy(&said_to(&second.peer, &impostor(first, kind))).into_owned();
        assert!(
            heard.ends_with("links to this cluster are under TLS; give this node the cluster's --cluster-secret"),
            "kind {kind}: {heard}"
        );
        assert!(heard.len() < 110, "{heard}");
    }
    // A whole ClientHello of another program, and what is left of it when bits are lost.
    let mut hello = vec![tls::FIRST_BYTE, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0x13, 1, 1, 0]);
    for place in 1..hello.len() {
        let mut changed = hello.clone();
        changed[place] ^= 1 << (place % 8);
        let heard = said_to(&second.peer, &changed);
        assert!(heard.is_empty() || heard[0] == 0x15, "an alert at the most: {heard:?}");
    }
    let mut client = Client::connect(&second.resp).expect("it is there");
    assert_eq!(client.call(&["GET", "k"]).expect("an answer"), Value::bulk("v"));
    let after = status(&second.resp).expect("it answers");
    assert_eq!((&after["leader"], &after["ballot"]), (&before["leader"], &before["ballot"]));
    let log = std::fs::read_to_string(dir.join("n2.log")).expect("its log");
    assert!(log.contains("refused to talk to 127.0.0.1: it speaks in plain text"), "{log}");
    assert!(!log.contains("lost the link"), "{log}");
}

/// A node of a cluster of three, with ports for clients, HTTP and peers.
fn start(folder: &Path, ports: &[u16], node: usize, more: &[&str]) -> Result<Process, String> {
    let address = |place: usize| format!("127.0.0.1:{}", ports[place]);
    let cluster: Vec<String> = (0..3).map(|node| format!("n{}={}", node + 1, address(3 * node + 2))).collect();
    let (name, resp, http) = (format!("n{}", node + 1), address(3 * node), address(3 * node + 1));
    let words = ["start", "--node", &name, "--cluster", &cluster.join(","), "--resp", &resp, "--http", &http, "--dir"];
    let mut command: Command = dictum(&words);
    command.arg(folder.join(&name)).args(more);
    Process::start(command)
}

#[test]
fn a_running_cluster_gets_its_secret_node_by_node_and_others_stay_out() {
    let folder = tempdir().expect("a temporary folder");
    let ports: [u16; 9] = free_ports();
    let at = |node: usize| format!("127.0.0.1:{}", ports[3 * node]);
    let made = output(dictum(&["init", "--dir", folder.path().join("etc").to_str().expect("text")]));
    assert!(made.status.success(), "{made:?}");
    let again = failure(dictum(&["init", "--dir", folder.path().join("etc").to_str().expect("text")]));
    assert!(again.contains("was not touched"), "{again}");
    let secret = folder.path().join("etc/cluster.secret");
    let secret = secret.to_str().expect("text");
    let other = output(dictum(&["init", "--dir", folder.path().join("other").to_str().expect("text")]));
    assert!(other.status.success(), "{other:?}");
    let other = folder.path().join("other/cluster.secret");

    let mut running: Vec<Process> =
        (0..3).map(|node| start(folder.path(), &ports, node, &[]).expect("it starts")).collect();
    assert_eq!(eventually(&at(0), &["SET", "k", "0"]), Value::ok());
    let all_up = |asked: usize| {
        let well = ["status", "--wait-healthy", "--timeout", "60s", "--at", &at(asked)].map(str::to_owned);
        let said = output(dictum(&well.each_ref().map(String::as_str)));
        assert!(said.status.success(), "{said:?}");
    };
    all_up(0);
    let links = |asked: usize| -> Vec<String> {
        let status = status(&at(asked)).expect("it answers");
        let nodes = status["nodes"].as_array().expect("nodes").iter();
        nodes.filter_map(|node| node["link"].as_str()).map(str::to_owned).collect()
    };
    assert_eq!(links(0), ["", "plain", "plain"]);
    let mut written = 0;
    for more in [&["--cluster-secret", secret, "--peer-tls", "prefer"][..], &["--cluster-secret", secret]] {
        for node in 0..3 {
            assert!(running.remove(node).stop(), "it ends well");
            // Two are left, and take writes meanwhile.
            written += 1;
            eventually(&at((node + 1) % 3), &["SET", "k", &written.to_string()]);
            running.insert(node, start(folder.path(), &ports, node, more).expect("it starts again"));
            all_up(node);
        }
    }
    let read = (0..3).map(|node| eventually(&at(node), &["GET", "k"]));
    assert!(read.into_iter().all(|value| value == Value::bulk("6")));
    // Seen by node 2 they were up; node 0 may have heard of its return a moment later.
    all_up(0);
    assert_eq!(
        (links(0), links(2)),
        (["", "tls", "tls"].map(str::to_owned).to_vec(), ["tls", "tls", ""].map(str::to_owned).to_vec())
    );

    // One that comes back without the secret, or with another one, stays alone; the rest goes on.
    for (more, said) in [
        (&[][..], "it speaks TLS, and this node has no --cluster-secret"),
        (&["--cluster-secret", other.to_str().expect("text")], "secret"),
    ] {
        assert!(running.remove(2).stop(), "it ends well");
        running.insert(2, start(folder.path(), &ports, 2, more).expect("it starts"));
        let refused = |process: &Process| process.lines().iter().any(|line| line.contains(said));
        let said = || format!("{:#?}", running[2].lines());
        Bell::default().wait_for_or("a refusal", || refused(&running[2]).then_some(()), said);
        written += 1;
        eventually(&at(0), &["SET", "k", &written.to_string()]);
        let mut stranger = Client::connect(&at(2)).expect("it is there");
        let answer = stranger.call(&["SET", "k", "stranger"]).expect("an answer");
        assert!(answer.as_error().is_some(), "{answer:?}");
    }
    assert_eq!(eventually(&at(1), &["GET", "k"]), Value::bulk("8"));

    // Files that others can read are no secrets.
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o644)).expect("changed");
    assert!(running.remove(2).stop(), "it ends well");
    let said = start(folder.path(), &ports, 2, &["--cluster-secret", other.to_str().expect("text")]);
    let Err(said) = said else { panic!("it starts with a secret that all can read") };
    assert!(said.contains("chmod 600"), "{said}");
}

#[test]
fn a_node_that_has_lost_its_key_comes_back_when_its_operator_says_so() {
    let folder = tempdir().expect("a temporary folder");
    let ports: [u16; 9] = free_ports();
    let at = |node: usize| format!("127.0.0.1:{}", ports[3 * node]);
    let made = output(dictum(&["init", "--dir", folder.path().join("etc").to_str().expect("text")]));
    assert!(made.status.success(), "{made:?}");
    let secret = folder.path().join("etc/cluster.secret");
    let more = ["--cluster-secret", secret.to_str().expect("text")];
    let mut running: Vec<Process> =
        (0..3).map(|node| start(folder.path(), &ports, node, &more).expect("it starts")).collect();
    assert_eq!(eventually(&at(0), &["SET", "k", "v"]), Value::ok());
    let keys = || -> Vec<String> {
        let listed = output(dictum(&["node", "list", "--json", "--at", &at(0)]));
        let nodes: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        let of = |node: &serde_json::Value| node["keys"].as_array()?.first()?.as_str().map(str::to_owned);
        nodes.as_array().map(|nodes| nodes.iter().filter_map(of).collect()).unwrap_or_default()
    };
    let all = wait_for("the keys of all nodes", || Some(keys()).filter(|keys| keys.len() == 3));
    assert!(all.iter().all(|key| key.len() == 64), "{all:?}");

    // The folder is lost, and the key with it: somebody who knows the secret could say the same.
    assert!(running.remove(2).stop(), "it ends well");
    std::fs::remove_dir_all(folder.path().join("n3")).expect("removed");
    running.push(start(folder.path(), &ports, 2, &more).expect("it starts"));
    let refused = |process: &Process| process.lines().iter().any(|line| line.contains("dictum node forget-keys n3"));
    Bell::default().wait_for_or(
        "a refusal at both ends",
        || (refused(&running[2]) && refused(&running[0])).then_some(()),
        || format!("{:#?}", running[2].lines()),
    );
    let mut stranger = Client::connect(&at(2)).expect("it is there");
    let answer = stranger.call(&["GET", "k"]).expect("an answer");
    assert!(answer.as_error().is_some(), "{answer:?}");

    let forgotten = output(dictum(&["node", "forget-keys", "n3", "--at", &at(1)]));
    assert!(forgotten.status.success(), "{forgotten:?}");
    assert_eq!(eventually(&at(2), &["GET", "k"]), Value::bulk("v"));
    let now = wait_for("its new key", || Some(keys()).filter(|keys| keys.len() == 3));
    assert_eq!(now[..2], all[..2]);
    assert_ne!(now[2], all[2]);
    running.into_iter().for_each(|process| assert!(process.stop(), "it ends well"));
}
