//! Buckets in memory only, whose votes move: nodes leave, die and join, and nothing is lost that a majority remembers.

use crate::common::{Cluster, pass_until};
use base::{BucketId, NodeId, PartitionId};

fn partition(index: u16) -> PartitionId {
    PartitionId { bucket: BucketId(1), index }
}

/// Who votes in the bucket, if that is the same in both of its partitions.
fn voters(cluster: &Cluster, asked: u16) -> Vec<u16> {
    let of = |index| {
        let voters = cluster.voters(asked, partition(index));
        voters.map(|it| it.now.concat().into_iter().map(|id| id.0).collect::<Vec<u16>>()).unwrap_or_default()
    };
    if of(0) == of(1) { of(0) } else { Vec::new() }
}

/// So many founders, as many that have joined, and a bucket of two partitions in memory with twenty keys.
fn with_bucket(founders: usize, joined: usize) -> Cluster {
    let mut cluster = Cluster::new(founders);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE e KIND ephemeral PARTITIONS 2"), "+OK\r\n");
    for _ in 0..joined {
        cluster.join(0);
    }
    for node in 0..(founders + joined) as u16 {
        pass_until(&mut cluster, "the bucket is known everywhere", |cluster| {
            cluster.nodes[usize::from(node)].partitions().len() == 4
        });
        assert_eq!(cluster.ask(node, "SELECT e"), "+OK\r\n");
    }
    for number in 0..20 {
        assert_eq!(cluster.ask(number % founders as u16, &format!("SET key:{number} {number}")), "+OK\r\n");
    }
    cluster
}

fn has_all(cluster: &mut Cluster, asked: u16) -> bool {
    (0..20).all(|number| {
        let answer = cluster.ask(asked, &format!("GET key:{number}"));
        answer.lines().nth(1) == Some(&*number.to_string())
    })
}

fn restart(cluster: &mut Cluster, node: u16) {
    let journal = cluster.journal(node);
    cluster.restart(node, journal);
}

#[test]
fn who_leaves_hands_its_part_of_the_memory_on() {
    let mut cluster = with_bucket(3, 1);
    assert_eq!(voters(&cluster, 0), [0, 1, 2]);
    assert!(has_all(&mut cluster, 3), "who has no part of it asks those who have");
    assert_eq!(cluster.ask(1, "DICTUM.NODE REMOVE n1"), "+OK\r\n");
    pass_until(&mut cluster, "it has gone", |cluster| cluster.stopped.contains(&0));
    assert_eq!(voters(&cluster, 1), [1, 2, 3]);
    // Each of those who have it now can be started again, one after the other.
    for node in [3, 1, 2] {
        restart(&mut cluster, node);
        pass_until(&mut cluster, "it remembers again", |cluster| {
            (0..2).all(|index| {
                let progress = cluster.nodes[usize::from(node)].progress(partition(index));
                progress.is_some_and(|progress| progress.votes && progress.applied.0 > 0)
            })
        });
        assert_eq!(cluster.ask(node, "SELECT e"), "+OK\r\n");
        assert!(has_all(&mut cluster, node), "{node}");
    }
    // There is nobody who could take a part over.
    assert!(cluster.ask(1, "DICTUM.NODE REMOVE n2").contains("the bucket 'e' is in memory only"));
    // With two of three memories it is lost, and goes on, empty.
    restart(&mut cluster, 1);
    restart(&mut cluster, 3);
    let mut answer = String::new();
    for _ in 0..2000 {
        answer = cluster.ask(2, "GET key:1");
        if !answer.starts_with('-') {
            break;
        }
        cluster.pass();
    }
    assert_eq!(answer, "$-1\r\n");
    assert_eq!(cluster.ask(2, "SET key:1 again"), "+OK\r\n");
}

#[test]
fn the_dead_are_replaced_and_come_back_as_others() {
    let mut cluster = with_bucket(3, 1);
    assert_eq!(cluster.ask(0, "DICTUM.NODE AUTO-REPLACE 5"), "+OK\r\n");
    cluster.isolated.push(2);
    pass_until(&mut cluster, "another one has its part", |cluster| voters(cluster, 0) == [0, 1, 3]);
    assert!(has_all(&mut cluster, 3));
    cluster.isolated.clear();
    pass_until(&mut cluster, "it has given up what it had", |cluster| {
        (0..2).all(|index| cluster.nodes[2].is_without(partition(index)))
    });
    assert!(has_all(&mut cluster, 2), "it asks those who have it");
}

#[test]
fn a_bucket_of_one_node_grows_with_the_cluster() {
    let mut cluster = with_bucket(1, 2);
    assert_eq!(voters(&cluster, 0), [0]);
    assert_eq!(cluster.ask(0, "DICTUM.NODE VOTERS 3"), "+OK\r\n");
    pass_until(&mut cluster, "all have it", |cluster| voters(cluster, 0) == [0, 1, 2]);
    // And the council has heard of it.
    for _ in 0..200 {
        cluster.pass();
    }
    // Started again while the others can decide nothing, whoever founded it alone does not found it once more.
    cluster.isolated.push(1);
    restart(&mut cluster, 0);
    pass_until(&mut cluster, "it has a replica", |cluster| cluster.nodes[0].partitions().len() == 4);
    for _ in 0..400 {
        cluster.pass();
    }
    assert_eq!(cluster.ask(0, "SELECT e"), "+OK\r\n");
    for number in [0, 19] {
        let answer = cluster.ask(0, &format!("GET key:{number}"));
        assert!(answer.starts_with('-') || answer.lines().nth(1) == Some(&*number.to_string()), "{answer}");
    }
    cluster.isolated.clear();
    pass_until(&mut cluster, "it remembers again", |cluster| {
        cluster.nodes[0].progress(partition(1)).is_some_and(|progress| progress.votes)
    });
    assert!(has_all(&mut cluster, 0));
    assert_eq!(cluster.ask(1, "DICTUM.NODE VOTERS 1"), "+OK\r\n");
    pass_until(&mut cluster, "one has it", |cluster| voters(cluster, 1).len() == 1);
    assert!(has_all(&mut cluster, 1));
}

/// Whoever was to get a part is gone before it has one: the bucket stays where it is, and as safe as it was.
#[test]
fn a_move_to_a_node_that_goes_away_leads_back() {
    let mut cluster = with_bucket(3, 1);
    cluster.isolated.push(3);
    assert_eq!(cluster.ask(1, "DICTUM.NODE REMOVE n1"), "+OK\r\n");
    for _ in 0..4000 {
        cluster.pass();
    }
    assert_eq!(voters(&cluster, 1), [0, 1, 2]);
    restart(&mut cluster, 2);
    assert!(has_all(&mut cluster, 1));
    cluster.isolated.clear();
    pass_until(&mut cluster, "it has gone", |cluster| cluster.stopped.contains(&0));
    assert_eq!(voters(&cluster, 1), [1, 2, 3]);
    assert!(has_all(&mut cluster, 1));
    let wanted = cluster.nodes[1].voters(partition(0)).map(|told| told.wanted);
    assert_eq!(wanted, Some([1, 2, 3].map(NodeId).to_vec()));
}
