//! Nodes of two versions in one cluster: what they say to each other, what is written, and when the cluster's version rises.

use crate::common::{Cluster, bulk, pass_until};
use base::versions::{Feature, NEWEST, OLDEST};
use base::{BucketId, NodeId, PartitionId};
use node::Node;

const DEFAULT: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };

/// Three nodes of which these speak the oldest version.
fn three(old: &[u16]) -> Cluster {
    let old = old.to_vec();
    let mut cluster = Cluster::with(3, |config| {
        if old.contains(&config.me.0) {
            config.newest = OLDEST;
        }
    });
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    cluster
}

fn versions(cluster: &Cluster) -> Vec<u16> {
    cluster.nodes.iter().map(Node::cluster_version).collect()
}

/// A node is stopped and started again as one that speaks so much.
fn restart_as(cluster: &mut Cluster, node: u16, newest: u16) {
    cluster.newest.insert(node, newest);
    let journal = cluster.journal(node);
    cluster.restart(node, journal);
}

#[test]
fn the_version_rises_when_the_last_node_is_a_new_one() {
    let mut cluster = three(&[0, 1, 2]);
    assert_eq!(versions(&cluster), [OLDEST; 3]);
    for node in 0..3 {
        restart_as(&mut cluster, node, NEWEST);
        // Time enough for whoever leads to think of it.
        let until = cluster.now.time + std::time::Duration::from_secs(8);
        pass_until(&mut cluster, "time goes by", |cluster| cluster.now.time >= until);
        assert_eq!(cluster.ask(node, &format!("SET k {node}")), "+OK\r\n");
        for asked in 0..3 {
            assert_eq!(cluster.ask(asked, "GET k"), format!("$1\r\n{node}\r\n"));
        }
        if node < 2 {
            assert_eq!(versions(&cluster), [OLDEST; 3], "an older one holds it back");
        }
    }
    pass_until(&mut cluster, "it has risen", |cluster| versions(cluster) == [NEWEST; 3]);
    let list = cluster.ask(1, "DICTUM.NODE LIST");
    let risen = format!("$15\r\ncluster-version\r\n:{NEWEST}\r\n");
    assert_eq!(
        (list.matches(&risen).count(), list.matches(&format!("$6\r\nspeaks\r\n:{NEWEST}\r\n")).count()),
        (3, 3),
        "{list}"
    );
}

#[test]
fn one_of_which_nothing_is_known_holds_it_back() {
    let mut cluster = three(&[0]);
    // The one that may be older is gone when the others' leader could hear of it.
    cluster.isolated.push(0);
    restart_as(&mut cluster, 1, NEWEST);
    restart_as(&mut cluster, 2, NEWEST);
    pass_until(&mut cluster, "others lead", |cluster| {
        let leader = cluster.nodes[1].leader(DEFAULT);
        leader.is_some_and(|(leader, _)| {
            leader != NodeId(0) && cluster.nodes[2].leader(DEFAULT) == cluster.nodes[1].leader(DEFAULT)
        })
    });
    let until = cluster.now.time + std::time::Duration::from_secs(8);
    pass_until(&mut cluster, "time goes by", |cluster| cluster.now.time >= until);
    assert_eq!(versions(&cluster), [OLDEST; 3]);
}

#[test]
fn who_speaks_less_than_the_cluster_is_refused_everywhere() {
    let mut cluster = three(&[]);
    pass_until(&mut cluster, "it has risen", |cluster| versions(cluster) == [NEWEST; 3]);
    let token = cluster.ask(0, "DICTUM.NODE TOKEN");
    for words in ["", " z", &format!(" z {OLDEST}")] {
        let answer = cluster.ask(1, &format!("DICTUM.NODE JOIN {} n4 127.0.0.1:9004 5{words}", bulk(&token)));
        let refusal = format!("-ERR the cluster has version {NEWEST}, and the node speaks {OLDEST}");
        assert!(answer.starts_with(&refusal), "{answer}");
    }
    assert_eq!(cluster.join(1), 3, "the token is good for one that speaks it");
    // By its own folder, once the log that it has applied says so: before it has voted or said anything.
    cluster.may_end = true;
    assert_eq!(cluster.ask(0, "SET k 2"), "+OK\r\n");
    restart_as(&mut cluster, 2, OLDEST);
    pass_until(&mut cluster, "it stops", |cluster| cluster.fatal.is_some());
    let text = cluster.fatal.clone().expect("it was said");
    assert!(text.contains(&format!("version {NEWEST}")) || text.contains("does not speak"), "{text}");
}

#[test]
fn long_names_wait_for_the_version_and_are_refused_before_they_are_proposed() {
    let mut cluster = three(&[1]);
    let long = "n".repeat(base::limits::KEY_BYTES_MAX + 1);
    let since = Feature::LongNames.since();
    let refused = format!(
        "longer than 32768 bytes; longer ones came with version {since}, and the cluster has version {OLDEST}: they can be used when every node speaks that (dictum node list)\r\n"
    );
    let lines = [
        "HSET h NAME v",
        "SADD s NAME",
        "ZADD z 1 NAME",
        "GEOADD z 1 1 NAME",
        "DICTUM.ONCE id SADD s NAME",
        "SISMEMBER s NAME",
    ];
    for line in lines {
        let answer = cluster.ask(0, &line.replace("NAME", &long));
        assert!(answer.starts_with("-ERR ") && answer.ends_with(&refused), "{line}: {answer}");
    }
    assert_eq!(cluster.ask(2, "MULTI"), "+OK\r\n");
    assert!(cluster.ask(2, &format!("SADD s {long}")).ends_with(&refused));
    assert!(cluster.ask(2, "EXEC").starts_with("-EXECABORT"));
    assert_eq!(cluster.ask(0, "DICTUM.OUTCOME id"), "$-1\r\n");
    // A script's call is refused where it is applied, on all of them.
    assert_eq!(
        cluster.ask(0, &format!("EVAL \"return redis.pcall('SADD', 's', ARGV[1])\" 0 {long}")),
        "-ERR member is longer than 32768 bytes\r\n"
    );
    restart_as(&mut cluster, 1, NEWEST);
    pass_until(&mut cluster, "it has risen", |cluster| versions(cluster) == [NEWEST; 3]);
    assert_eq!(cluster.ask(0, &format!("HSET h {long} v")), ":1\r\n");
    assert_eq!(cluster.ask(1, &format!("ZADD z 1 {long}")), ":1\r\n");
    for node in 0..3 {
        assert_eq!(cluster.ask(node, &format!("HGET h {long}")), "$1\r\nv\r\n");
        assert_eq!(cluster.ask(node, &format!("ZRANK z {long}")), ":0\r\n");
    }
}
