//! Reads of a node that has nothing of a partition reach the leader by way of one who vouches for it, so that it need not ask whether it still leads.

use crate::common::{Cluster, pass_until};
use base::versions::OLDEST;
use base::{BucketId, NodeId, PartitionId};

const DEFAULT: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };
const CONFIRMED: &str = "node: carried reads were their own confirmation";
const PASSED_ON: &str = "node: reads passed on to the leader";

/// Five nodes with a key, three of which have it: one of the others, the leader, and the two who follow it.
struct Five {
    cluster: Cluster,
    away: u16,
    leader: u16,
    followers: Vec<u16>,
}

fn five(mut cluster: Cluster) -> Five {
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.NODE VOTERS 3"), "+OK\r\n");
    let without =
        |cluster: &Cluster| (0..5).filter(|it| cluster.nodes[usize::from(*it)].is_without(DEFAULT)).collect::<Vec<_>>();
    pass_until(&mut cluster, "two nodes are without", |cluster| without(cluster).len() == 2);
    // And all has been said about it.
    (0..400).for_each(|_| cluster.pass());
    let away = without(&cluster)[0];
    let NodeId(leader) = cluster.nodes[usize::from(away)].leader(DEFAULT).expect("somebody leads").0;
    let has = |node: &u16| *node != leader && !without(&cluster).contains(node);
    let followers = (0..5).filter(has).collect();
    Five { cluster, away, leader, followers }
}

/// How often something has happened at a node since this was asked last.
fn count(cluster: &mut Cluster, node: u16, what: &str) -> u64 {
    let probes = cluster.nodes[usize::from(node)].take_probes();
    probes.into_iter().find_map(|(name, count)| (name == what).then_some(count)).unwrap_or(0)
}

#[test]
fn the_leader_asks_nobody() {
    let Five { mut cluster, away, leader, followers } = five(Cluster::new(5));
    for node in 0..5_u16 {
        cluster.nodes[usize::from(node)].take_probes();
    }
    for round in 2..8 {
        assert_eq!(cluster.ask(away, "GET k"), format!("$1\r\n{}\r\n", round - 1));
        assert_eq!(cluster.ask(away, &format!("SET k {round}")), "+OK\r\n");
    }
    assert_eq!(count(&mut cluster, leader, CONFIRMED), 6);
    let shares: Vec<u64> = followers.iter().map(|node| count(&mut cluster, *node, PASSED_ON)).collect();
    assert_eq!(shares.iter().sum::<u64>(), 6);
    assert!(shares.iter().all(|share| *share > 0), "they take turns: {shares:?}");
}

/// Whoever does not pass a question on costs it one wait; for a while the next ones go straight to the leader.
#[test]
fn nobody_else_is_needed_for_it() {
    let Five { mut cluster, away, leader, followers } = five(Cluster::new(5));
    // The majority is there, and nobody knows yet that this one is not.
    cluster.standing_still.push(followers[0]);
    let mut waits = 0;
    for _ in 0..8 {
        let before = cluster.now.time;
        assert_eq!(cluster.ask(away, "GET k"), "$1\r\n1\r\n");
        waits += u32::from(cluster.now.time.since(before).as_millis() >= 100);
    }
    assert_eq!(waits, 1, "of 8 in turns by way of two");
    // Its link is cut while a question is on its way through it: that one need not wait.
    cluster.standing_still.clear();
    (0..2000).for_each(|_| cluster.pass());
    count(&mut cluster, leader, CONFIRMED);
    for _ in 0..4 {
        cluster.standing_still.extend(followers.clone());
        cluster.say(away, b"GET k\r\n");
        cluster.pass();
        for follower in &followers {
            cluster.give(away, node::Input::PeerDown { peer: NodeId(*follower) });
        }
        cluster.standing_still.clear();
        let before = cluster.now.time;
        assert_eq!(cluster.hear(away), "$1\r\n1\r\n");
        assert!(cluster.now.time.since(before).as_millis() < 100, "it went straight to the leader");
        (0..400).for_each(|_| cluster.pass());
    }
}

/// It was asked of who leads no longer, by way of one who knows that: the two are no majority for the old ballot.
#[test]
fn a_leader_that_was_deposed_answers_nothing_that_was_asked_later() {
    let Five { mut cluster, away, leader, followers } = five(Cluster::new(5));
    cluster.standing_still.push(leader);
    let led = |cluster: &Cluster, node: u16| cluster.nodes[usize::from(node)].leader(DEFAULT).map(|(known, _)| known.0);
    pass_until(&mut cluster, "another one leads", |cluster| {
        followers.iter().all(|node| led(cluster, *node).is_some_and(|known| known != leader))
    });
    let next = led(&cluster, followers[0]).expect("it leads");
    assert_eq!(cluster.ask(next, "SET k 2"), "+OK\r\n");
    cluster.standing_still.clear();
    for _ in 0..20 {
        assert_eq!(cluster.ask(away, "GET k"), "$1\r\n2\r\n");
        cluster.pass();
    }
}

#[test]
fn who_speaks_the_oldest_version_passes_nothing_on() {
    let Five { mut cluster, away, leader, .. } = five(Cluster::with(5, |config| config.newest = OLDEST));
    count(&mut cluster, leader, CONFIRMED);
    assert_eq!(cluster.ask(away, "GET k"), "$1\r\n1\r\n");
    assert_eq!(count(&mut cluster, leader, CONFIRMED), 0);
}
