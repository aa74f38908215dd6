//! A node that was away for long takes a snapshot, while clients write and the leader cuts its log again and again.

use std::time::Duration;

use crate::common::Cluster;
use base::{BucketId, NodeId, PartitionId, Position};
use node::{Config, Progress};

const DEFAULT: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };
/// The one that was away.
const LATE: u16 = 2;

fn progress(cluster: &Cluster, node: u16) -> Progress {
    cluster.nodes[usize::from(node)].progress(DEFAULT).expect("it is there")
}

/// One write in five milliseconds.
fn write(cluster: &mut Cluster, leader: u16, key: usize) {
    cluster.say(leader, format!("SET key:{key} {}\r\n", "v".repeat(200)).as_bytes());
    cluster.pass();
}

/// A leader that cuts its log after each 4 KiB without keeping any of it, 60 KiB of state, and a node that knows nothing of that. A snapshot takes a
/// second, and in a second 50 KB are written. `change` may want it otherwise.
fn one_is_late(log_bytes_held: u64, change: impl Fn(&mut Config)) -> (Cluster, u16) {
    let mut cluster = Cluster::with(3, |config| {
        config.log_bytes_per_snapshot = 4 << 10;
        config.log_entries_kept = 0;
        config.log_bytes_held = log_bytes_held;
        config.snapshots.block_bytes = 4 << 10;
        config.snapshots.bytes_per_second = 60 << 10;
        change(config);
    });
    cluster.ask(0, "SET first 1");
    let leader = (0..3)
        .find(|node| cluster.nodes[usize::from(*node)].leader(DEFAULT).is_some_and(|(id, _)| id == NodeId(*node)));
    let leader = leader.expect("somebody has answered");
    assert_ne!(leader, LATE, "the first that may lead does");
    cluster.isolated.push(LATE);
    for key in 0..300 {
        write(&mut cluster, leader, key);
    }
    assert!(
        progress(&cluster, leader).first > progress(&cluster, LATE).applied.next(),
        "it lacks more than the log has"
    );
    // What it was offered when it had just gone is forgotten after thirty seconds.
    for _ in 0..6300 {
        cluster.pass();
    }
    let probes = cluster.nodes[usize::from(leader)].take_probes();
    let begun = probes.iter().find(|(name, _)| *name == "node: snapshot sent").map(|(_, count)| *count);
    assert_eq!(begun, Some(1), "none is begun for a node that is not there");
    cluster.isolated.clear();
    (cluster, leader)
}

#[test]
fn a_node_catches_up_though_clients_write_faster_than_it_takes_snapshots() {
    catches_up(|_| ());
}

/// Of the entries that shall be kept, the log keeps no more than have room in its bytes.
#[test]
fn a_node_catches_up_though_fewer_entries_are_kept_than_shall_be() {
    catches_up(|config| {
        config.log_entries_kept = 10_000;
        config.snapshots.undecided_bytes_max = 16 << 10;
    });
}

fn catches_up(change: impl Fn(&mut Config)) {
    let (mut cluster, leader) = one_is_late(1 << 20, change);
    // So the log is cut where it was two seconds ago, which whoever takes a snapshot now is past.
    cluster.slow_saver = Some((leader, Duration::from_secs(2)));
    let before = progress(&cluster, LATE).applied;
    let (mut passes, mut gap, mut away_until) = (0, u64::MAX, None);
    while gap > 5 {
        write(&mut cluster, leader, passes % 300);
        passes += 1;
        // As soon as it has the state, it is cut off for a few seconds.
        if progress(&cluster, LATE).applied > before && away_until.is_none() {
            away_until = Some(passes + 700);
            cluster.isolated.push(LATE);
        }
        if away_until == Some(passes) {
            cluster.isolated.clear();
        }
        gap = progress(&cluster, leader).decided.0 - progress(&cluster, LATE).applied.0;
        assert!(passes < 4000, "after twenty seconds it still is {gap} entries behind");
    }
    let probes = cluster.nodes[usize::from(LATE)].take_probes();
    let taken = probes.iter().find(|(name, _)| *name == "node: snapshot installed").map(|(_, count)| *count);
    assert_eq!(taken, Some(1), "one snapshot is enough");
    // Whoever has caught up holds nothing any more.
    let before = progress(&cluster, leader).first;
    for key in 0..900 {
        write(&mut cluster, leader, key);
    }
    let Progress { first, decided, .. } = progress(&cluster, leader);
    assert!(first > before && decided.0 - first.0 < 900, "the log is cut again: {first} to {decided}");
}

#[test]
fn no_more_of_the_log_is_held_than_is_allowed() {
    let (mut cluster, leader) = one_is_late(8 << 10, |_| ());
    let mut held = 0;
    for key in 0..600 {
        write(&mut cluster, leader, key % 300);
        let Progress { first, decided, .. } = progress(&cluster, leader);
        held = held.max(decided.0.saturating_sub(first.0));
    }
    // 8 KiB of what is wanted, and the 4 KiB after which the log is cut, twice: a snapshot is written meanwhile.
    assert!(held < (16 << 10) / 200, "{held} entries are held");
    // It ends when there is nothing to hold it for.
    let quiet = |cluster: &Cluster| progress(cluster, LATE).applied == progress(cluster, leader).decided;
    for _ in 0..1000 {
        cluster.pass();
    }
    assert!(quiet(&cluster), "with nothing written it catches up");
    assert_ne!(progress(&cluster, LATE).applied, Position(0));
}
