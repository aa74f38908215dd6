//! A folder is set back to an earlier copy: the node that is started with it has forgotten what it promised since, and is not listened to.

use crate::common::{Cluster, pass_until};
use base::NodeId;

/// Whose folder is set back.
const LATE: u16 = 2;

/// Three nodes with something in them, and a copy of the third's journal from before most of it.
fn three() -> (Cluster, storage::Recovered) {
    let mut cluster = Cluster::new(3);
    cluster.ask(0, "SET first 1");
    settle(&mut cluster);
    let copy = cluster.journal(LATE);
    for number in 0..50 {
        assert_eq!(cluster.ask(number % 3, &format!("SET key:{number} {number}")), "+OK\r\n");
    }
    settle(&mut cluster);
    (cluster, copy)
}

/// Two seconds: all have said everything to all.
fn settle(cluster: &mut Cluster) {
    (0..400).for_each(|_| cluster.pass());
}

fn has_met(cluster: &mut Cluster, node: u16, probe: &str) -> bool {
    cluster.nodes[usize::from(node)].take_probes().iter().any(|(name, _)| *name == probe)
}

const REFUSED: &str = "node: a node with an earlier copy of its folder refused";

#[test]
fn an_earlier_copy_is_refused_and_says_what_to_do() {
    let (mut cluster, copy) = three();
    cluster.may_end = true;
    cluster.restart(LATE, copy);
    pass_until(&mut cluster, "it ends", |cluster| cluster.fatal.is_some());
    let reason = cluster.fatal.take().expect("it has ended");
    assert!(reason.contains("it is an earlier copy") && reason.contains("start it with an empty folder"), "{reason}");
    cluster.isolated.push(LATE);
    assert!(has_met(&mut cluster, 0, REFUSED) && has_met(&mut cluster, 1, REFUSED));
    assert_eq!(cluster.ask(0, "SET later 2"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "GET key:49"), "$2\r\n49\r\n");
}

#[test]
fn whoever_has_only_been_told_refuses_it_too() {
    let (mut cluster, copy) = three();
    // What it knew of the third's folder was in memory only; the second tells it.
    let journal = cluster.journal(0);
    cluster.isolated.push(LATE);
    cluster.restart(0, journal);
    settle(&mut cluster);
    // The third has a majority with it alone, if it is listened to: and what all three have acknowledged is in no copy of that majority but one.
    cluster.isolated = vec![1];
    cluster.may_end = true;
    cluster.restart(LATE, copy);
    pass_until(&mut cluster, "it ends", |cluster| cluster.fatal.is_some());
    settle(&mut cluster);
    assert!(has_met(&mut cluster, 0, REFUSED));
    let default = base::PartitionId { bucket: base::BucketId(0), index: 0 };
    let leader = cluster.nodes[0].leader(default).map(|(leader, _)| leader);
    assert!(leader.is_none_or(|leader| leader == NodeId(1)), "nobody is elected by it: {leader:?}");
}

#[test]
fn a_folder_as_it_was_left_is_welcome() {
    let (mut cluster, _) = three();
    for _ in 0..3 {
        let journal = cluster.journal(LATE);
        cluster.restart(LATE, journal);
        assert_eq!(cluster.ask(LATE, "GET key:49"), "$2\r\n49\r\n");
        assert_eq!(cluster.ask(LATE, "SET key:49 49"), "+OK\r\n");
        settle(&mut cluster);
    }
    assert_eq!(cluster.fatal, None);
    assert!(!has_met(&mut cluster, 0, REFUSED));
}
