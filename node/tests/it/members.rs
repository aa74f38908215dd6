//! Who votes is changed while clients go on: as they see it, and as the nodes' logs say it.

use crate::common::{Cluster, blank};
use base::{BucketId, NodeId, PartitionId};

const DEFAULT: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };

/// The nodes that vote in the default partition, as one of them knows; of a joint group both lists.
fn voters(cluster: &Cluster, node: u16) -> Vec<u16> {
    let voters = cluster.voters(node, DEFAULT).map(|voters| voters.now.concat()).unwrap_or_default();
    voters.into_iter().map(|id| id.0).collect()
}

fn leader(cluster: &Cluster, node: u16) -> Option<u16> {
    cluster.nodes[usize::from(node)].leader(DEFAULT).map(|(id, _)| id.0)
}

/// Lets time pass until it is so, at most a minute.
fn pass_until(cluster: &mut Cluster, what: &str, done: impl Fn(&Cluster) -> bool) {
    for _ in 0..12_000 {
        if done(cluster) {
            return;
        }
        cluster.pass();
    }
    panic!("never: {what}");
}

fn five_of_whom_three_vote() -> Cluster {
    let mut cluster = Cluster::new(5);
    assert_eq!(cluster.ask(1, "SET k 1"), "+OK\r\n");
    assert_eq!(voters(&cluster, 3), [0, 1, 2, 3, 4]);
    assert_eq!(cluster.ask(2, "DICTUM.NODE VOTERS 3"), "+OK\r\n");
    pass_until(&mut cluster, "three vote", |cluster| (0..5).all(|node| voters(cluster, node) == [0, 1, 2]));
    cluster
}

#[test]
fn who_does_not_vote_serves_all_the_same() {
    let mut cluster = five_of_whom_three_vote();
    for node in 0..5 {
        assert_eq!(cluster.ask(node, &format!("SET k {node}")), "+OK\r\n");
        for reader in 0..5 {
            assert_eq!(cluster.ask(reader, "GET k"), format!("$1\r\n{node}\r\n"));
        }
    }
    // Two of three voters are a majority, whatever the other two do not hear.
    cluster.isolated.extend([3, 4]);
    assert_eq!(cluster.ask(1, "SET k 7"), "+OK\r\n");
    cluster.isolated.clear();
    cluster.isolated.push(2);
    assert_eq!(cluster.ask(4, "INCR k"), ":8\r\n");
    assert_eq!(
        cluster.ask(1, "DICTUM.NODE VOTERS 6"),
        "-ERR the number of voters is from 1 to 5, the number of nodes; or 0 for as many as founded the cluster\r\n"
    );
    cluster.isolated.clear();
    assert_eq!(cluster.ask(1, "DICTUM.NODE VOTERS 0"), "+OK\r\n");
    pass_until(&mut cluster, "all vote again", |cluster| (0..5).all(|node| voters(cluster, node).len() == 5));
}

#[test]
fn a_drained_node_leads_nothing_and_votes_where_it_must() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(1, "SET k 1"), "+OK\r\n");
    assert_eq!(leader(&cluster, 1), Some(0));
    assert_eq!(cluster.ask(1, "DICTUM.NODE DRAIN n9"), "-ERR there is no node 'n9'; there are n1, n2, n3\r\n");
    assert_eq!(cluster.ask(1, "DICTUM.NODE DRAIN n1"), "+OK\r\n");
    pass_until(&mut cluster, "somebody else leads", |cluster| leader(cluster, 0).is_some_and(|leader| leader != 0));
    assert_eq!(voters(&cluster, 0), [0, 1, 2], "there is nobody who could vote in its place");
    assert_eq!(cluster.ask(0, "INCR k"), ":2\r\n");
    let list = cluster.ask(2, "DICTUM.NODE LIST");
    assert!(list.contains("drained") && list.matches("serves").count() == 2, "{list}");
    assert_eq!(cluster.ask(1, "DICTUM.NODE DRAIN n2"), "+OK\r\n");
    assert!(cluster.ask(1, "DICTUM.NODE DRAIN n3").starts_with("-ERR it is the last node that serves"));
    for name in ["n1", "n2"] {
        assert_eq!(cluster.ask(2, &format!("DICTUM.NODE PROMOTE {name}")), "+OK\r\n");
    }
    pass_until(&mut cluster, "the first leads again", |cluster| leader(cluster, 2) == Some(0));
    assert_eq!(cluster.ask(2, "INCR k"), ":3\r\n");
}

#[test]
fn the_votes_of_a_drained_node_go_to_others() {
    let mut cluster = five_of_whom_three_vote();
    assert_eq!(cluster.ask(4, "DICTUM.NODE DRAIN n1"), "+OK\r\n");
    pass_until(&mut cluster, "it votes no more", |cluster| (0..5).all(|node| voters(cluster, node) == [1, 2, 3]));
    assert_ne!(leader(&cluster, 4), Some(0));
    // It may go now, and another one as well.
    cluster.isolated.extend([0, 1]);
    pass_until(&mut cluster, "the others go on", |cluster| leader(cluster, 4).is_some_and(|leader| leader > 1));
    assert_eq!(cluster.ask(4, "INCR k"), ":2\r\n");
}

/// Who was away while the voters changed, and gets a snapshot because the log does not hold that any more, learns it from the snapshot.
#[test]
fn a_snapshot_tells_who_votes() {
    let mut cluster = Cluster::with(4, |config| {
        config.log_bytes_per_snapshot = 4 << 10;
        config.log_entries_kept = 0;
        config.log_bytes_held = 0;
    });
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    cluster.isolated.push(3);
    assert_eq!(cluster.ask(0, "DICTUM.NODE VOTERS 3"), "+OK\r\n");
    pass_until(&mut cluster, "three vote", |cluster| (0..3).all(|node| voters(cluster, node) == [0, 1, 2]));
    for key in 0..200 {
        assert_eq!(cluster.ask(0, &format!("SET key:{key} {}", "v".repeat(200))), "+OK\r\n");
    }
    assert_eq!(voters(&cluster, 3), [0, 1, 2, 3]);
    let first = cluster.nodes[0].progress(DEFAULT).expect("it is there").first;
    assert!(first > cluster.nodes[3].progress(DEFAULT).expect("it is there").applied.next());
    cluster.isolated.clear();
    pass_until(&mut cluster, "it knows", |cluster| voters(cluster, 3) == [0, 1, 2]);
    assert_eq!(cluster.nodes[3].leader(DEFAULT).map(|(id, _)| id), Some(NodeId(0)));
    assert_eq!(cluster.ask(3, "GET k"), "$1\r\n1\r\n");
}

#[test]
fn that_nothing_more_may_fail_is_said_before_it_is_needed() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k v"), "+OK\r\n");
    let says = |cluster: &mut Cluster, text: &str| {
        for _ in 0..2_000 {
            if cluster.ask(0, "DICTUM.STATUS").contains(text) {
                return;
            }
            cluster.pass();
        }
        panic!("{text} is never said: {}", cluster.ask(0, "DICTUM.STATUS"));
    };
    says(&mut cluster, "\"failures_borne\":1,\"lacking\":\"\"");
    cluster.isolated = vec![2];
    let lacking = "no further failure is borne: partition default/0 has 2 of 3 votes (n3 is down)";
    says(&mut cluster, &format!("\"failures_borne\":0,\"lacking\":\"{lacking}\""));
    cluster.isolated.clear();
    says(&mut cluster, "\"failures_borne\":1,\"lacking\":\"\"");
    // It has lost what it knew.
    cluster.restart_in(2, blank(7_000));
    says(&mut cluster, "has 2 of 3 votes (n3 recovers)");
    says(&mut cluster, "\"failures_borne\":1,\"lacking\":\"\"");
    let mut two = Cluster::new(2);
    assert_eq!(two.ask(0, "SET k v"), "+OK\r\n");
    says(&mut two, "\"failures_borne\":0,\"lacking\":\"\"");
    two.isolated = vec![1];
    says(&mut two, "there is no majority: partition default/0 has 1 of 2 votes (n2 is down)");
}

#[test]
fn a_new_cluster_says_for_whom_it_waits() {
    let waits = "founding: waits for n3 (127.0.0.1:9003): a new cluster needs all founders once";
    let mut cluster = Cluster::new(3);
    cluster.isolated = vec![2];
    for _ in 0..600 {
        cluster.pass();
    }
    let status = cluster.ask(0, "DICTUM.STATUS");
    assert!(status.contains(&format!("\"founding\":\"{waits}\"")), "{status}");
    assert_eq!(cluster.nodes[0].status_line(), format!("{waits}; 2 of 3 nodes up"));
    assert!(!cluster.nodes[0].serves());
    assert_eq!(cluster.ask(1, "SET k v"), format!("-CLUSTERDOWN {waits}; the command was not done\r\n"));
    assert_eq!(cluster.ask(0, "GET k"), format!("-CLUSTERDOWN {waits}; the command was not done\r\n"));
    cluster.isolated.clear();
    assert_eq!(cluster.ask(0, "SET k v"), "+OK\r\n");
    let status = cluster.ask(2, "DICTUM.STATUS");
    assert!(status.contains("\"founding\":\"\""), "{status}");
    pass_until(&mut cluster, "all serve", |cluster| cluster.nodes.iter().all(|node| node.serves()));
    let (leader, _) = cluster.nodes[2].leader(DEFAULT).expect("somebody leads");
    for node in 0..3_u16 {
        let is = if node == leader.0 { "leader".to_owned() } else { format!("follower of n{}", leader.0 + 1) };
        assert_eq!(cluster.nodes[usize::from(node)].status_line(), format!("{is}; 3 of 3 nodes up"));
        assert!(cluster.nodes[usize::from(node)].serves());
    }
}
