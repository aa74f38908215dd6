//! Partitions in which nothing happens: they cost nothing, and are there at once when somebody asks.

use std::collections::BTreeSet;

use crate::common::Cluster;
use base::{BucketId, NodeId, PartitionId};
use bytes::Bytes;

const PARTITIONS: u16 = 1024;

fn pass_for(cluster: &mut Cluster, milliseconds: u64) {
    (0..milliseconds / 5).for_each(|_| cluster.pass());
}

/// A cluster of three with a bucket of as many partitions as there can be, all of them led, in which nothing has happened for a while.
fn at_rest() -> Cluster {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k v"), "+OK\r\n");
    assert_eq!(cluster.ask(0, &format!("DICTUM.BUCKET CREATE many PARTITIONS {PARTITIONS}")), "+OK\r\n");
    for node in 0..3 {
        assert_eq!(cluster.ask(node, "SELECT many"), "+OK\r\n");
    }
    pass_for(&mut cluster, 8000);
    cluster
}

fn partitions(cluster: &Cluster) -> Vec<PartitionId> {
    cluster.nodes[0].partitions().into_iter().filter(|id| id.bucket != BucketId(0) && id.index < PARTITIONS).collect()
}

/// Partitions of which these nodes do not all name the same one of them as the leader.
fn without_leader(cluster: &Cluster, nodes: &[u16]) -> usize {
    let leader_at =
        |node: &u16, id: &PartitionId| cluster.nodes[usize::from(*node)].leader(*id).map(|(leader, _)| leader);
    let is_led = |id: &PartitionId| {
        let leader = leader_at(&nodes[0], id);
        leader.is_some_and(|leader| nodes.contains(&leader.0)) && nodes.iter().all(|node| leader_at(node, id) == leader)
    };
    partitions(cluster).iter().filter(|id| !is_led(id)).count()
}

/// What nodes send in a second: messages, and bytes.
fn sent_in_a_second(cluster: &mut Cluster) -> (u64, u64) {
    let before: (u64, u64) = counted(cluster);
    pass_for(cluster, 1000);
    let after = counted(cluster);
    (after.0 - before.0, after.1 - before.1)
}

fn counted(cluster: &mut Cluster) -> (u64, u64) {
    let fields = (0..3).map(|node| {
        let info = cluster.ask(node, "INFO all");
        let number = |name: &str| crate::common::field(&info, name).and_then(|text| text.trim().parse::<u64>().ok());
        (
            number("dictum_peer_messages_received").expect("it is told"),
            number("dictum_peer_bytes_received").expect("it is told"),
        )
    });
    fields.fold((0, 0), |(messages, bytes), (more, longer)| (messages + more, bytes + longer))
}

#[test]
fn a_thousand_partitions_at_rest_say_no_more_than_one() {
    let mut one = Cluster::new(3);
    assert_eq!(one.ask(0, "SET k v"), "+OK\r\n");
    pass_for(&mut one, 8000);
    let few = sent_in_a_second(&mut one);
    let mut cluster = at_rest();
    assert_eq!(without_leader(&cluster, &[0, 1, 2]), 0);
    let many = sent_in_a_second(&mut cluster);
    assert!(few.0 >= 120, "each of three tells two others twenty times a second that it lives: {few:?}");
    assert!(many.0 <= few.0 + 12 && many.1 <= few.1 + 2000, "{many:?} with {PARTITIONS} partitions, {few:?} with one");
}

#[test]
fn partitions_at_rest_serve_at_once_and_hear_of_what_is_decided() {
    let mut cluster = at_rest();
    let before = cluster.now.time;
    for number in 0..60 {
        assert_eq!(cluster.ask(number % 3, &format!("SET k{number} v{number}")), "+OK\r\n");
    }
    for number in 0..60 {
        assert_eq!(cluster.ask(number % 3, &format!("INCR n{number}")), ":1\r\n");
        assert_eq!(cluster.ask((number + 1) % 3, &format!("GET n{number}")), "$1\r\n1\r\n");
    }
    let took = cluster.now.time.since(before).as_millis();
    assert!(took <= 180 * 10, "180 commands took {took} ms");
    pass_for(&mut cluster, 300);
    for id in partitions(&cluster) {
        let known = |node: usize| cluster.nodes[node].progress(id).map(|progress| (progress.decided, progress.applied));
        assert!(known(0) == known(1) && known(1) == known(2), "{id}");
    }
    assert_eq!(cluster.ask(2, "SET short lived PX 2500"), "+OK\r\n");
    pass_for(&mut cluster, 4000);
    assert_eq!(cluster.ask(1, "DBSIZE"), ":120\r\n", "the leader has woken for it");
}

#[test]
fn leaders_at_rest_that_are_cut_off_are_followed_by_others_and_come_back() {
    let mut cluster = at_rest();
    for round in 0..3 {
        cluster.isolated.push(round);
        let others: Vec<u16> = (0..3).filter(|node| *node != round).collect();
        pass_for(&mut cluster, 1500);
        assert_eq!(without_leader(&cluster, &others), 0, "without {round}");
        for number in 0..20 {
            assert_eq!(cluster.ask(others[0], &format!("SET k{number} r{round}")), "+OK\r\n");
        }
        cluster.isolated.clear();
        pass_for(&mut cluster, 8000);
        assert_eq!(without_leader(&cluster, &[0, 1, 2]), 0, "{round} is back");
        for number in 0..20 {
            assert_eq!(cluster.ask(round, &format!("GET k{number}")), format!("$2\r\nr{round}\r\n"));
        }
    }
    let leads = |node: u16| {
        let leader = |id: &PartitionId| cluster.nodes[0].leader(*id).map(|(leader, _)| leader);
        partitions(&cluster).iter().filter(|id| leader(id) == Some(NodeId(node))).count()
    };
    assert!(
        (0..3).all(|node| leads(node) > 300),
        "leadership goes back to the preferred: {:?}",
        [leads(0), leads(1), leads(2)]
    );
}

/// Pings are lost, repeated and overtaken. Once that ends, every node knows of each partition what is so.
#[test]
fn pings_may_be_lost_repeated_and_overtaken() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k v"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE some PARTITIONS 40"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SELECT some"), "+OK\r\n");
    pass_for(&mut cluster, 1000);
    let mut rng = base::Rng::new(7);
    let mut late: Vec<(NodeId, NodeId, Bytes)> = Vec::new();
    for round in 0..600 {
        if round % 10 == 0 {
            cluster.say(0, format!("SET k{round} v\r\n").as_bytes());
        }
        let mail = std::mem::take(&mut cluster.mail);
        for message in mail {
            match rng.below(8) {
                0 => {}
                1 => late.push(message),
                2 => cluster.mail.extend([message.clone(), message]),
                _ => cluster.mail.push(message),
            }
        }
        if rng.chance(1, 4) && !late.is_empty() {
            cluster.mail.push(late.swap_remove(rng.below(late.len() as u64) as usize));
        }
        cluster.pass();
    }
    pass_for(&mut cluster, 3000);
    for id in cluster.nodes[0].partitions() {
        let leader = cluster.nodes[0].leader(id);
        assert!(leader.is_some() && (1..3).all(|node| cluster.nodes[node].leader(id) == leader), "{id}");
        let decided = |node: usize| cluster.nodes[node].progress(id).map(|progress| progress.decided);
        assert!(decided(0) == decided(1) && decided(1) == decided(2), "{id}");
    }
}

#[test]
fn a_node_at_rest_wakes_for_its_pings_alone() {
    let mut cluster = at_rest();
    let in_a_second = |cluster: &mut Cluster| {
        let mut planned = BTreeSet::new();
        for _ in 0..200 {
            cluster.pass();
            planned.insert(cluster.wake_at[&0]);
        }
        planned.len()
    };
    let at_rest = in_a_second(&mut cluster);
    assert!((18..=30).contains(&at_rest), "{at_rest} times a second");
    // Somebody waits, and may have waited long enough.
    cluster.say(0, b"BLPOP nothing 0\r\n");
    let waiting = in_a_second(&mut cluster);
    assert!(waiting >= 90, "{waiting} times a second");
}
