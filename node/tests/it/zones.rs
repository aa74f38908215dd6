//! No two voters of a partition are in one zone where there are enough of them: by the labels that nodes are started with, and those that they join with.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Cluster, bulk, pass_until};
use base::{BucketId, PartitionId};

const COUNCIL: PartitionId = PartitionId { bucket: BucketId(u32::MAX), index: 0 };

fn partition(index: u16) -> PartitionId {
    PartitionId { bucket: BucketId(1), index }
}

/// The nodes that vote in a partition; none while that is about to change.
fn voters(cluster: &Cluster, asked: u16, partition: PartitionId) -> Vec<u16> {
    let voters = cluster.voters(asked, partition);
    let settled = voters.filter(|voters| voters.now.len() == 1).map(|mut voters| voters.now.remove(0));
    settled.unwrap_or_default().into_iter().map(|id| id.0).collect()
}

/// How many voters of a partition each zone has, where node by node the labels are these; none while that is about to change.
fn crowds<'a>(cluster: &Cluster, asked: u16, partition: PartitionId, labels: &[&'a str]) -> BTreeMap<&'a str, usize> {
    let mut crowds = BTreeMap::new();
    for voter in voters(cluster, asked, partition) {
        *crowds.entry(labels[usize::from(voter)]).or_default() += 1;
    }
    crowds
}

/// Founders in these zones, and a bucket of eight partitions.
fn founded_in(labels: &'static [&'static str]) -> Cluster {
    let mut cluster = Cluster::with(labels.len(), |config| config.zone = labels[usize::from(config.me.0)].to_owned());
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE b PARTITIONS 8"), "+OK\r\n");
    for node in 0..labels.len() {
        pass_until(&mut cluster, "the bucket is everywhere", |cluster| cluster.nodes[node].partitions().len() == 10);
    }
    cluster
}

/// The labels by `DICTUM.NODE LIST`, in the order of the nodes' numbers.
fn listed(cluster: &mut Cluster, asked: u16) -> Vec<String> {
    let list = cluster.ask(asked, "DICTUM.NODE LIST");
    list.split("$4\r\nzone\r\n").skip(1).filter_map(|rest| rest.split("\r\n").nth(1)).map(str::to_owned).collect()
}

#[test]
fn founders_tell_their_zones_and_those_who_join_are_spread_over_them() {
    let mut cluster = founded_in(&["a", "a", "b"]);
    pass_until(&mut cluster, "all are told", |cluster| {
        cluster.nodes.iter().all(|node| node.zones().iter().map(|(_, zone, _)| zone.as_str()).eq(["a", "a", "b"]))
    });
    let labels = ["a", "a", "b", "c", "c", "b"];
    assert_eq!(cluster.join_in("c", 1), 3);
    pass_until(&mut cluster, "one in each of three zones", |cluster| {
        let one_each = |partition| crowds(cluster, 0, partition, &labels) == [("a", 1), ("b", 1), ("c", 1)].into();
        // Of four nodes three vote in the council.
        (0..8).map(partition).chain([COUNCIL]).all(one_each)
    });
    assert_eq!(cluster.join_in("c", 0), 4);
    assert_eq!(cluster.join_in("b", 3), 5);
    pass_until(&mut cluster, "votes are even in each zone", |cluster| {
        let all: Vec<u16> = (0..8).flat_map(|index| voters(cluster, 0, partition(index))).collect();
        let of = |node| all.iter().filter(|voter| **voter == node).count();
        all.len() == 24 && (0..6).all(|node| (3..=5).contains(&of(node)))
    });
    pass_until(&mut cluster, "five vote in the council, no three of them in one zone", |cluster| {
        let crowds = crowds(cluster, 0, COUNCIL, &labels);
        crowds.len() == 3 && crowds.values().all(|crowd| (1..=2).contains(crowd)) && crowds.values().sum::<usize>() == 5
    });
    for index in 0..8 {
        let zones: BTreeSet<&str> = crowds(&cluster, 0, partition(index), &labels).into_keys().collect();
        assert_eq!(zones.len(), 3, "{index}: {zones:?}");
    }
    assert_eq!(listed(&mut cluster, 4), labels);
    // One of a zone leaves: the other one there takes all.
    assert_eq!(cluster.ask(0, "DICTUM.NODE REMOVE n3"), "+OK\r\n");
    pass_until(&mut cluster, "it has gone", |cluster| cluster.stopped.contains(&2));
    pass_until(&mut cluster, "still one in each zone", |cluster| {
        (0..8).all(|index| crowds(cluster, 0, partition(index), &labels) == [("a", 1), ("b", 1), ("c", 1)].into())
    });
    assert!((0..8).all(|index| voters(&cluster, 0, partition(index)).contains(&5)));
    assert_eq!(listed(&mut cluster, 4), ["a", "a", "c", "c", "b"]);
}

#[test]
fn a_label_that_is_none_is_refused() {
    let mut cluster = Cluster::new(1);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    let token = cluster.ask(0, "DICTUM.NODE TOKEN");
    for wrong in ["a/b".to_owned(), "z".repeat(base::limits::ZONE_BYTES_MAX + 1)] {
        let answer = cluster.ask(0, &format!("DICTUM.NODE JOIN {} n2 127.0.0.1:9002 5 {wrong} 7", bulk(&token)));
        assert!(answer.contains("cannot be the label of a zone"), "{answer}");
    }
    assert!(cluster.ask(0, &format!("DICTUM.NODE JOIN {} n2 127.0.0.1:9002 5 a 7 b", bulk(&token))).contains("syntax"));
    assert_eq!(cluster.join(0), 1, "the token is good still");
    assert_eq!(listed(&mut cluster, 0), ["", ""]);
}
