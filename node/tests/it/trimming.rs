//! Logs that the disks of all nodes have are given back; those that a node may ask for stay.

use std::time::Duration;

use node::LogTrimSettings;

use crate::common::{Cluster, field, pass_until};

fn cluster() -> Cluster {
    Cluster::with(3, |config| {
        config.log_trim = LogTrimSettings { every: Duration::from_secs(1), from_bytes: 10_000 };
    })
}

/// Some 60 KB, and a snapshot behind them on each node.
fn write(cluster: &mut Cluster, nodes: &[u16]) {
    let value = "x".repeat(1000);
    for number in 0..60 {
        assert_eq!(cluster.ask(nodes[0], &format!("SET key:{number} {value}")), "+OK\r\n");
    }
    (0..100).for_each(|_| cluster.pass());
    for node in nodes {
        cluster.ask(*node, "BGSAVE");
    }
}

fn log_bytes(cluster: &mut Cluster, node: u16) -> u64 {
    let info = cluster.ask(node, "INFO dictum");
    field(&info, "dictum_log_bytes").and_then(|bytes| bytes.parse().ok()).expect("a number")
}

#[test]
fn a_log_that_all_disks_have_is_given_back() {
    let mut cluster = cluster();
    write(&mut cluster, &[0, 1, 2]);
    assert!(log_bytes(&mut cluster, 0) > 50_000);
    for node in 0..3 {
        for _ in 0..2_000 {
            cluster.pass();
            if log_bytes(&mut cluster, node) < 10_000 {
                break;
            }
        }
        assert!(log_bytes(&mut cluster, node) < 10_000, "node {node}");
    }
}

#[test]
fn a_node_that_is_away_finds_the_entries_that_it_lacks() {
    let mut cluster = cluster();
    assert_eq!(cluster.ask(0, "SET founded 1"), "+OK\r\n");
    (0..100).for_each(|_| cluster.pass());
    cluster.isolated.push(2);
    write(&mut cluster, &[0, 1]);
    // Several looks.
    (0..1_000).for_each(|_| cluster.pass());
    assert!(log_bytes(&mut cluster, 0) > 50_000 && log_bytes(&mut cluster, 1) > 50_000);
    cluster.isolated.clear();
    pass_until(&mut cluster, "it has caught up", |cluster| {
        let applied = |node: usize| cluster.nodes[node].progress(crate::restored_folders::DEFAULT).map(|it| it.applied);
        applied(2) == applied(0)
    });
    let taken = cluster.nodes[2].take_probes();
    assert!(taken.iter().all(|(name, _)| *name != "node: snapshot installed"), "by entries, not by the whole state");
}
