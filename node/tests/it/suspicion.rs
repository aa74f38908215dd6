//! Who is suspected, and how soon another leads, where links fail and nodes stand still again and again.

use crate::common::Cluster;
use base::{BucketId, NodeId, PartitionId};

const DEFAULT: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };
/// What a failover may take here, in milliseconds: 330 of silence, and the time that an election's chance may take.
const FAILOVER_MAX: u64 = 700;

/// The node that all of these take for the leader.
fn leader_of(cluster: &Cluster, nodes: &[u16]) -> Option<u16> {
    let named = |node: &u16| cluster.nodes[usize::from(*node)].leader(DEFAULT).map(|(NodeId(id), _)| id);
    let first = named(nodes.first()?)?;
    (nodes.contains(&first) && nodes.iter().all(|node| named(node) == Some(first))).then_some(first)
}

/// Milliseconds until all of these nodes follow one of them, or `limit`.
fn until_led(cluster: &mut Cluster, nodes: &[u16], limit: u64) -> u64 {
    let began = cluster.now.time;
    while leader_of(cluster, nodes).is_none() && milliseconds_since(cluster, began) < limit {
        cluster.pass();
    }
    milliseconds_since(cluster, began)
}

fn milliseconds_since(cluster: &Cluster, began: base::Time) -> u64 {
    cluster.now.time.since(began).as_millis() as u64
}

fn pass_for(cluster: &mut Cluster, milliseconds: u64) {
    (0..milliseconds / 5).for_each(|_| cluster.pass());
}

/// Three nodes that have been well for some seconds.
fn well() -> Cluster {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k v"), "+OK\r\n");
    pass_for(&mut cluster, 6000);
    cluster
}

#[test]
fn each_leader_that_is_cut_off_is_followed_by_another_as_soon_as_the_first() {
    for outage in [800, 1900, 3000] {
        let mut cluster = well();
        for round in 0..15 {
            let leader = leader_of(&cluster, &[0, 1, 2]).expect("all is well");
            let others: Vec<u16> = (0..3).filter(|node| *node != leader).collect();
            cluster.isolated.push(leader);
            let took = until_led(&mut cluster, &others, outage);
            assert!(took <= FAILOVER_MAX, "cut {round} of {outage} ms: another led after {took} ms");
            pass_for(&mut cluster, outage - took);
            cluster.isolated.clear();
            until_led(&mut cluster, &[0, 1, 2], 2000);
            pass_for(&mut cluster, 1000);
        }
    }
}

#[test]
fn who_stood_still_disturbs_nobody_and_is_as_watchful_as_before() {
    let mut cluster = well();
    let leader = leader_of(&cluster, &[0, 1, 2]).expect("all is well");
    let follower = (0..3).find(|node| *node != leader).expect("there are three");
    for round in 0..10 {
        cluster.standing_still.push(follower);
        pass_for(&mut cluster, 1900);
        cluster.standing_still.clear();
        pass_for(&mut cluster, 300);
        assert_eq!(leader_of(&cluster, &[0, 1, 2]), Some(leader), "after stop {round}");
        pass_for(&mut cluster, 700);
    }
    cluster.isolated.push(leader);
    let others: Vec<u16> = (0..3).filter(|node| *node != leader).collect();
    let took = until_led(&mut cluster, &others, 3000);
    assert!(took <= FAILOVER_MAX, "another led after {took} ms");
}

#[test]
fn a_leader_that_stands_still_again_and_again_loses_its_leadership_each_time() {
    let mut cluster = well();
    for round in 0..15 {
        let leader = leader_of(&cluster, &[0, 1, 2]).expect("all is well");
        let others: Vec<u16> = (0..3).filter(|node| *node != leader).collect();
        cluster.standing_still.push(leader);
        let took = until_led(&mut cluster, &others, 1900);
        assert!(took <= FAILOVER_MAX, "stop {round}: another led after {took} ms");
        pass_for(&mut cluster, 1900 - took);
        cluster.standing_still.clear();
        until_led(&mut cluster, &[0, 1, 2], 2000);
        pass_for(&mut cluster, 1000);
    }
}
