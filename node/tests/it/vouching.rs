//! A follower that asks for a read position vouches for its leader: where the two are a majority, no round is needed.

use crate::common::{Cluster, pass_until};
use base::versions::OLDEST;
use base::{BucketId, NodeId, PartitionId};

const DEFAULT: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };

/// A cluster with a key, and who leads and who follows in it.
fn with_leader(mut cluster: Cluster) -> (Cluster, u16, u16) {
    let count = cluster.nodes.len() as u16;
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    let NodeId(leader) = cluster.nodes[0].leader(DEFAULT).expect("somebody leads").0;
    pass_until(&mut cluster, "all follow it", |cluster| {
        (0..count).all(|node| {
            cluster.nodes[usize::from(node)].leader(DEFAULT).is_some_and(|(known, _)| known == NodeId(leader))
        })
    });
    (cluster, leader, (leader + 1) % count)
}

/// How often a question was its own confirmation while these nodes were asked.
fn vouched(cluster: &mut Cluster, leader: u16, asked: &[u16]) -> u64 {
    cluster.nodes[usize::from(leader)].take_probes();
    for node in asked {
        assert_eq!(cluster.ask(*node, "GET k"), "$1\r\n1\r\n");
    }
    let probes = cluster.nodes[usize::from(leader)].take_probes();
    let of = |(name, count): (&str, u64)| (name == "node: a question was its own confirmation").then_some(count);
    probes.into_iter().find_map(of).unwrap_or(0)
}

#[test]
fn a_follower_and_its_leader_are_a_majority_of_three() {
    let (mut cluster, leader, follower) = with_leader(Cluster::new(3));
    assert_eq!(vouched(&mut cluster, leader, &[follower, follower]), 2);
    assert_eq!(vouched(&mut cluster, leader, &[leader]), 0, "it asks the others");
    // The third one is not asked, and need not be there.
    cluster.isolated.push(3 - leader - follower);
    assert_eq!(vouched(&mut cluster, leader, &[follower]), 1);
}

#[test]
fn and_not_one_of_five() {
    let (mut cluster, leader, follower) = with_leader(Cluster::new(5));
    assert_eq!(vouched(&mut cluster, leader, &[follower]), 0);
}

#[test]
fn who_speaks_the_oldest_version_does_not_vouch() {
    let old = Cluster::with(3, |config| config.newest = OLDEST);
    let (mut cluster, leader, follower) = with_leader(old);
    assert_eq!(vouched(&mut cluster, leader, &[follower]), 0);
}

/// Somebody else was elected, and the follower that asks knows nothing of it yet: the leader that it vouches for has to know.
#[test]
fn a_leader_that_was_deposed_answers_nobody() {
    let (mut cluster, leader, follower) = with_leader(Cluster::new(3));
    let other = 3 - leader - follower;
    // It stands still with the question before it, which was asked in time.
    cluster.standing_still.push(leader);
    cluster.say(follower, b"GET k\r\n");
    pass_until(&mut cluster, "another one leads", |cluster| {
        let led = |node: u16| cluster.nodes[usize::from(node)].leader(DEFAULT).map(|(known, _)| known);
        led(other).is_some_and(|known| known != NodeId(leader) && led(follower) == Some(known))
    });
    assert_eq!(cluster.hear(follower), "$1\r\n1\r\n", "it has asked the new one");
    assert_eq!(cluster.ask(other, "SET k 2"), "+OK\r\n");
    cluster.standing_still.clear();
    assert_eq!(cluster.ask(leader, "GET k"), "$1\r\n2\r\n");
}
