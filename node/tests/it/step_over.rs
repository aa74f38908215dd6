//! An entry is stepped over: by all replicas, or by none.

use std::time::Duration;

use base::{BucketId, PartitionId, Position};

use crate::common::{Cluster, field, pass_until};

const DEFAULT: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };

/// Three nodes that speak the newest version, with a key.
fn three() -> Cluster {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET before 1"), "+OK\r\n");
    let risen = |cluster: &Cluster| cluster.nodes.iter().all(|node| node.cluster_version() == base::versions::NEWEST);
    pass_until(&mut cluster, "the version has risen", risen);
    cluster
}

/// A node's process is killed, and started again, told to step over that position or told nothing.
fn restart(cluster: &mut Cluster, node: u16, position: Option<Position>) {
    cluster.step_over.insert(node, position.into_iter().map(|position| (DEFAULT, position)).collect());
    let journal = cluster.journal(node);
    cluster.restart(node, journal);
}

/// All nodes are stopped, and then started again with that position.
fn restart_all(cluster: &mut Cluster, position: Option<Position>) {
    cluster.isolated = vec![0, 1, 2];
    for node in 0..3 {
        restart(cluster, node, position);
    }
    cluster.isolated.clear();
}

fn pass(cluster: &mut Cluster, duration: Duration) {
    let until = cluster.now.time + duration;
    pass_until(cluster, "time goes by", |cluster| cluster.now.time >= until);
}

fn decided(cluster: &Cluster) -> Position {
    let of = |node: &node::Node| node.progress(DEFAULT).map_or(Position(0), |progress| progress.decided);
    cluster.nodes.iter().map(of).max().unwrap_or_default()
}

fn applied(cluster: &Cluster, node: u16) -> Position {
    cluster.nodes[usize::from(node)].progress(DEFAULT).map_or(Position(0), |progress| progress.applied)
}

fn info(cluster: &mut Cluster, node: u16) -> String {
    cluster.ask(node, "INFO dictum")
}

/// Three nodes that were told to step over an entry, and have come to where each has replaced it in its log. What these write from then on is not on their disks.
fn replaced(stalled: &[u16]) -> (Cluster, Position) {
    let mut cluster = three();
    let bad = written(&mut cluster, "SET bad 1");
    restart_all(&mut cluster, Some(bad));
    cluster.isolated = vec![2];
    pass(&mut cluster, Duration::from_secs(2));
    let digests = |cluster: &Cluster| {
        cluster.nodes.iter().map(|node| node.decided_entry_digest(DEFAULT, bad)).collect::<Vec<_>>()
    };
    let before = digests(&cluster);
    cluster.stalled = stalled.to_vec();
    cluster.isolated.clear();
    pass_until(&mut cluster, "all have replaced it", |cluster| {
        digests(cluster).iter().zip(&before).all(|(now, before)| now != before)
    });
    pass(&mut cluster, Duration::from_secs(2));
    assert!((0..3).all(|node| applied(&cluster, node) == bad.previous()), "none has applied it");
    (cluster, bad)
}

/// Lets the nodes come to the same position, and compares their states.
fn settle(cluster: &mut Cluster) {
    pass_until(cluster, "all have applied the same", |cluster| {
        let first = applied(cluster, 0);
        (0..3).all(|node| applied(cluster, node) == first) && first == decided(cluster)
    });
    let digests: Vec<_> = cluster.nodes[..3].iter().map(|node| node.state_digest(DEFAULT)).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

/// The position of the entry that a command makes.
fn written(cluster: &mut Cluster, line: &str) -> Position {
    assert_eq!(cluster.ask(0, line), "+OK\r\n");
    decided(cluster)
}

#[test]
fn what_all_nodes_are_told_to_step_over_is_done_nowhere_and_everybody_sees_it() {
    let mut cluster = three();
    let bad = written(&mut cluster, "SET bad 1");
    assert_eq!(cluster.ask(0, "SET after 1"), "+OK\r\n");
    restart_all(&mut cluster, Some(bad));
    pass_until(&mut cluster, "all have gone over it", |cluster| (0..3).all(|node| applied(cluster, node) > bad));
    for node in 0..3 {
        assert_eq!(cluster.ask(node, "MGET before bad after"), "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n1\r\n");
        assert_eq!(cluster.ask(node, &format!("SET later {node}")), "+OK\r\n");
    }
    settle(&mut cluster);
    pass(&mut cluster, Duration::from_secs(3));
    let trace = format!("dictum_stepped_over_{DEFAULT}@{bad}");
    for node in 0..3 {
        let info = info(&mut cluster, node);
        assert_eq!(field(&info, "dictum_entries_stepped_over"), Some("1"), "{info}");
        assert!(field(&info, &trace).is_some_and(|text| text.starts_with("checksum=")), "{info}");
        assert_eq!(field(&info, &format!("dictum_step_over_{DEFAULT}@{bad}")), None, "{info}");
        assert!(cluster.ask(node, "DICTUM.STATUS").contains(&format!("\"entry\":\"{DEFAULT}@{bad}\"")));
        assert!(cluster.ask(node, "DICTUM.NODE LIST").contains("entries-stepped-over\r\n:1\r\n"));
    }
    // The journals say what has become of it, and no flag is needed any more; nor does it do any harm.
    for (node, told) in [(0, None), (1, Some(bad)), (2, None)] {
        restart(&mut cluster, node, told);
    }
    for node in 0..3 {
        assert_eq!(cluster.ask(node, "MGET before bad after"), "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n1\r\n");
    }
    settle(&mut cluster);
}

#[test]
fn a_client_whose_write_is_stepped_over_is_told_so_and_its_numbers_go_on() {
    let mut cluster = three();
    let bad = Position(decided(&cluster).0 + 2);
    // Their openings may take positions, too: until all are back nothing is written.
    for node in 0..3 {
        restart(&mut cluster, node, Some(Position(bad.0 + 20)));
    }
    let bad = Position(bad.0 + 20);
    let mut answers = Vec::new();
    while !answers.last().is_some_and(|answer: &String| answer.starts_with("-STEPPEDOVER")) {
        answers.push(cluster.ask(1, "INCR n"));
        assert!(answers.len() < 40, "{answers:?}");
    }
    assert_eq!(applied(&cluster, 1), bad);
    let so_far = answers.len() - 1;
    for node in 0..3 {
        let next = so_far + 1 + usize::from(node);
        assert_eq!(cluster.ask(node, "INCR n"), format!(":{next}\r\n"), "the stepped-over one does not count");
    }
    settle(&mut cluster);
}

#[test]
fn a_node_that_was_not_told_keeps_all_others_from_it_and_they_say_so() {
    let mut cluster = three();
    let bad = written(&mut cluster, "SET bad 1");
    assert_eq!(cluster.ask(0, "SET after 1"), "+OK\r\n");
    restart(&mut cluster, 1, Some(bad));
    restart(&mut cluster, 2, Some(bad));
    pass(&mut cluster, Duration::from_secs(5));
    for node in 1..3 {
        assert_eq!(applied(&cluster, node), bad.previous());
    }
    let status = cluster.ask(1, "DICTUM.STATUS");
    assert!(status.contains("n1 has applied the entry already"), "{status}");
    // All of them are started without: nothing has happened.
    restart(&mut cluster, 1, None);
    restart(&mut cluster, 2, None);
    for node in 0..3 {
        assert_eq!(cluster.ask(node, "MGET bad after"), "*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
    }
    settle(&mut cluster);
    assert_eq!(field(&info(&mut cluster, 1), "dictum_entries_stepped_over"), Some("0"));
    // One node after the other does not do: the first of them hears of the others that they have applied it.
    for node in 0..3 {
        restart(&mut cluster, node, Some(bad));
        pass(&mut cluster, Duration::from_secs(2));
    }
    assert!((0..3).all(|node| applied(&cluster, node) == bad.previous()));
    // Stopped at once and started with it, none of them knows any more what it had applied.
    restart_all(&mut cluster, Some(bad));
    pass_until(&mut cluster, "all have gone over it", |cluster| (0..3).all(|node| applied(cluster, node) > bad));
    assert_eq!(cluster.ask(2, "MGET bad after"), "*2\r\n$-1\r\n$1\r\n1\r\n");
    settle(&mut cluster);
}

#[test]
fn a_node_that_is_down_is_waited_for() {
    let mut cluster = three();
    let bad = written(&mut cluster, "SET bad 1");
    restart_all(&mut cluster, Some(bad));
    cluster.isolated = vec![2];
    pass(&mut cluster, Duration::from_secs(4));
    assert_eq!((applied(&cluster, 0), applied(&cluster, 1)), (bad.previous(), bad.previous()));
    cluster.isolated.clear();
    restart(&mut cluster, 2, Some(bad));
    pass_until(&mut cluster, "all have gone over it", |cluster| (0..3).all(|node| applied(cluster, node) >= bad));
    assert_eq!(cluster.ask(2, "GET bad"), "$-1\r\n");
    settle(&mut cluster);
}

/// Between the rounds two nodes are started again without: they have not replaced the entry yet, and apply it. The third has, and puts it back.
#[test]
fn who_loses_its_flag_between_the_rounds_differs_from_nobody() {
    let (mut cluster, bad) = replaced(&[1, 2]);
    cluster.stalled.clear();
    for node in [1, 2] {
        cluster.step_over.remove(&node);
        let journal = cluster.journal_on_disk(node);
        cluster.restart(node, journal);
    }
    pass_until(&mut cluster, "two have applied it", |cluster| applied(cluster, 1) >= bad && applied(cluster, 2) >= bad);
    pass(&mut cluster, Duration::from_secs(3));
    assert_eq!(applied(&cluster, 0), bad.previous(), "its operator has to say that it shall not");
    restart(&mut cluster, 0, None);
    for node in 0..3 {
        assert_eq!(cluster.ask(node, "GET bad"), "$1\r\n1\r\n");
    }
    settle(&mut cluster);
}

/// All are started without once each has the void on its disk: it is what the log says now.
#[test]
fn voids_that_all_nodes_have_are_applied_without_flags() {
    // The replacement goes to each journal, and no node hears that it is there.
    let (mut cluster, bad) = replaced(&[0, 1, 2]);
    cluster.stalled.clear();
    for node in 0..3 {
        restart(&mut cluster, node, None);
    }
    pass_until(&mut cluster, "all have gone over it", |cluster| (0..3).all(|node| applied(cluster, node) >= bad));
    assert_eq!(cluster.ask(2, "GET bad"), "$-1\r\n");
    settle(&mut cluster);
}

#[test]
fn an_entry_of_the_council_can_be_stepped_over_too() {
    let council = PartitionId { bucket: BucketId(u32::MAX), index: 0 };
    let mut cluster = three();
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE bad"), "+OK\r\n");
    let bad = cluster.nodes[0].progress(council).map(|progress| progress.decided).expect("it has one");
    cluster.isolated = vec![0, 1, 2];
    for node in 0..3 {
        cluster.step_over.insert(node, vec![(council, bad)]);
        let journal = cluster.journal(node);
        cluster.restart(node, journal);
    }
    cluster.isolated.clear();
    pass_until(&mut cluster, "all have gone over it", |cluster| {
        let applied = |node: &node::Node| node.progress(council).is_some_and(|progress| progress.applied > bad);
        cluster.nodes.iter().all(applied)
    });
    let answer = cluster.ask(1, "DICTUM.BUCKET SHOW bad");
    assert!(answer.starts_with("-ERR there is no bucket 'bad'"), "{answer}");
    pass_until(&mut cluster, "it is known", |cluster| {
        cluster.nodes.iter().all(|node| node.stepped_over().contains(&(council, bad)))
    });
    assert_eq!(cluster.ask(2, "DICTUM.BUCKET CREATE good"), "+OK\r\n");
}

#[test]
fn a_node_without_a_replica_agrees_and_needs_no_flag() {
    let mut cluster = three();
    let joined = cluster.join(0);
    pass(&mut cluster, Duration::from_secs(2));
    assert!(cluster.nodes[usize::from(joined)].is_without(DEFAULT));
    let bad = written(&mut cluster, "SET bad 1");
    restart_all(&mut cluster, Some(bad));
    pass_until(&mut cluster, "all have gone over it", |cluster| (0..3).all(|node| applied(cluster, node) >= bad));
    assert_eq!(cluster.ask(joined, "GET bad"), "$-1\r\n");
    settle(&mut cluster);
}
