//! Replicas compare their states, and the one that differs gets that of the others.

use std::time::Duration;

use base::{NodeId, PartitionId};
use node::Planted;

use crate::common::{Cluster, pass_until};

const PARTITION: PartitionId = PartitionId { bucket: base::BucketId(0), index: 0 };

fn digests(cluster: &Cluster) -> Vec<Option<u64>> {
    cluster.nodes.iter().map(|node| node.state_digest(PARTITION)).collect()
}

/// The least digests that any of the nodes has come to.
fn compared(cluster: &Cluster) -> u64 {
    cluster.nodes.iter().map(|node| node.comparisons().0).min().unwrap_or_default()
}

fn write_some(cluster: &mut Cluster) {
    for number in 0..20 {
        let answer = cluster.ask(number % 3, &format!("SET key:{number} {number}"));
        assert_eq!(answer, "+OK\r\n");
    }
}

#[test]
fn states_that_are_the_same_are_compared_and_nothing_happens() {
    let mut cluster = Cluster::with(3, |config| config.compared_every = Duration::from_millis(500));
    for round in 1..4 {
        write_some(&mut cluster);
        pass_until(&mut cluster, "all have compared", |cluster| compared(cluster) >= round);
    }
    assert!(cluster.nodes.iter().all(|node| node.comparisons().1 == 0));
    // Nothing but comparisons was written meanwhile: they are no news.
    pass_until(&mut cluster, "the last ones are over", |_| true);
    let before = compared(&cluster);
    for _ in 0..200 {
        cluster.pass();
    }
    assert!(compared(&cluster) <= before + 2, "{} after {before}", compared(&cluster));
}

#[test]
fn a_state_that_has_drifted_is_noticed_and_got_from_the_others() {
    let mut cluster = Cluster::with(3, |config| {
        config.compared_every = Duration::from_millis(500);
        config.planted = (config.me == NodeId(1)).then_some(Planted::StateDrifts);
    });
    write_some(&mut cluster);
    assert_ne!(digests(&cluster)[1], digests(&cluster)[0], "the bug is planted");
    let is_rebuilt = |cluster: &mut Cluster| {
        // Comparisons are made where there is something new.
        let answer = cluster.ask(0, "INCR again");
        assert!(answer.starts_with(':'), "{answer}");
        (0..200).for_each(|_| cluster.pass());
        cluster.nodes[1].take_probes().iter().any(|(probe, _)| *probe == "node: replica rebuilt")
    };
    assert!((0..50).any(|_| is_rebuilt(&mut cluster)), "the difference is noticed twice, and mended");
    assert!(cluster.nodes.iter().all(|node| node.comparisons().1 >= 1), "everybody has seen it");
    pass_until(&mut cluster, "it has what the others have, and votes", |cluster| {
        let progress = cluster.nodes[1].progress(PARTITION);
        progress.is_some_and(|progress| progress.votes)
            && digests(cluster).iter().all(|digest| digest.is_some() && *digest == digests(cluster)[0])
    });
    for number in 0..20 {
        assert_eq!(cluster.ask(1, &format!("GET key:{number}")).lines().nth(1), Some(&*number.to_string()));
    }
    assert_eq!(cluster.ask(1, "GET drifted"), "$-1\r\n");
    // The others can be lost one at a time, as before.
    cluster.isolated.push(0);
    pass_until(&mut cluster, "another one leads", |cluster| {
        (1..3).any(|node| cluster.nodes[node].leader(PARTITION).is_some_and(|(leader, _)| leader != NodeId(0)))
    });
    assert_eq!(cluster.ask(2, "SET after 1"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "GET after"), "$1\r\n1\r\n");
}
