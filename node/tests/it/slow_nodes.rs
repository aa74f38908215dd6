//! A node that is slow leads nothing as long as others can, and gets everything back when it is well.

use std::time::Duration;

use crate::common::Cluster;
use base::{BucketId, NodeId, PartitionId, Time};
use node::Input;

const DEFAULT: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };
/// What a sync takes where all is well.
const QUICK: Duration = Duration::from_micros(300);
const SLOW: Duration = Duration::from_micros(10_300);

fn leader(cluster: &Cluster, node: u16) -> Option<u16> {
    cluster.nodes[usize::from(node)].leader(DEFAULT).map(|(NodeId(id), _)| id)
}

/// Time passes, in which each disk has said how long its syncs take; in milliseconds, until `done`, at most a minute.
fn milliseconds_until(cluster: &mut Cluster, syncs: &[Duration], done: impl Fn(&Cluster) -> bool) -> Option<u64> {
    for passed in (0..60_000).step_by(5) {
        if done(cluster) {
            return Some(passed);
        }
        for (node, took) in syncs.iter().enumerate() {
            cluster.give(node as u16, Input::Synced { took: *took });
        }
        cluster.pass();
    }
    None
}

/// Of what the first node is shown by `DICTUM.STATUS`: by what each node is slow.
fn slow(cluster: &mut Cluster) -> Vec<String> {
    let status = cluster.ask(0, "DICTUM.STATUS");
    let parts = status.split("\"slow\":\"").skip(1).filter_map(|rest| rest.split_once('"'));
    parts.map(|(part, _)| part.to_owned()).collect()
}

/// Three nodes that have been well for some seconds; the first leads, as it shall.
fn well() -> Cluster {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k 0"), "+OK\r\n");
    assert_eq!(milliseconds_until(&mut cluster, &[QUICK; 3], |_| false), None);
    assert_eq!((leader(&cluster, 2), slow(&mut cluster)), (Some(0), vec!["no".to_owned(); 3]));
    cluster
}

#[test]
fn a_leader_with_a_slow_disk_gives_way_and_leads_again_when_the_disk_is_well() {
    let mut cluster = well();
    let took = milliseconds_until(&mut cluster, &[SLOW, QUICK, QUICK], |it| leader(it, 0).is_some_and(|it| it != 0));
    assert!(took.is_some_and(|took| took <= 2500), "another leads after {took:?}");
    assert_eq!(cluster.ask(0, "INCR k"), ":1\r\n");
    // As long as it is slow it gets nothing back.
    assert_eq!(milliseconds_until(&mut cluster, &[SLOW, QUICK, QUICK], |it| leader(it, 1) == Some(0)), None);
    assert_eq!(slow(&mut cluster), ["disk", "no", "no"]);
    let took = milliseconds_until(&mut cluster, &[QUICK; 3], |it| leader(it, 1) == Some(0));
    assert!(took.is_some_and(|took| (5_000..15_000).contains(&took)), "it leads again after {took:?}");
    assert_eq!(slow(&mut cluster), ["no"; 3]);
    assert_eq!(cluster.ask(2, "INCR k"), ":2\r\n");
}

/// A disk that has become well shows it by syncs alone, and nobody writes: the node finds out by itself.
#[test]
fn a_node_with_nothing_to_write_finds_out_that_its_disk_is_well() {
    let mut cluster = well();
    milliseconds_until(&mut cluster, &[SLOW, QUICK, QUICK], |it| leader(it, 1).is_some_and(|it| it != 0))
        .expect("it gives way");
    assert_eq!(slow(&mut cluster), ["disk", "no", "no"]);
    let is_well = |cluster: &mut Cluster, took: Duration| {
        (0..60_000).step_by(5).any(|_| {
            let synced = cluster.journal_len(0);
            cluster.pass();
            if cluster.journal_len(0) > synced {
                cluster.give(0, Input::Synced { took });
            }
            leader(cluster, 1) == Some(0)
        })
    };
    assert!(!is_well(&mut cluster, SLOW), "it is as slow as before");
    let before = cluster.journal_len(0);
    assert!(is_well(&mut cluster, QUICK), "nobody is told that it is well");
    let written = cluster.journal_len(0) - before;
    assert!(written < 60, "{written} writes to find out");
    let before = cluster.journal_len(0);
    assert_eq!(milliseconds_until(&mut cluster, &[], |_| false), None);
    assert!(cluster.journal_len(0) - before < 10, "one that is well writes nothing by itself");
}

#[test]
fn where_all_disks_are_slow_nothing_moves() {
    let mut cluster = well();
    assert_eq!(milliseconds_until(&mut cluster, &[SLOW * 2, SLOW, SLOW], |it| leader(it, 1) != Some(0)), None);
    assert_eq!(slow(&mut cluster), ["no"; 3]);
}

#[test]
fn who_is_slow_leads_if_nobody_else_can() {
    let mut cluster = well();
    let syncs = [SLOW, QUICK, QUICK];
    milliseconds_until(&mut cluster, &syncs, |it| leader(it, 0).is_some_and(|it| it != 0)).expect("it gives way");
    // The operator takes the others out of service: they are spared, too.
    let drained = |cluster: &mut Cluster, name: &str| cluster.ask(0, &format!("DICTUM.NODE DRAIN {name}"));
    assert_eq!(drained(&mut cluster, "n2"), "+OK\r\n");
    assert_eq!(drained(&mut cluster, "n3"), "+OK\r\n");
    milliseconds_until(&mut cluster, &syncs, |_| false);
    let who = leader(&cluster, 0);
    assert_eq!(milliseconds_until(&mut cluster, &syncs, |it| leader(it, 0) != who), None, "nothing goes round");
    assert_eq!(cluster.ask(0, "INCR k"), ":1\r\n");
    for name in ["n2", "n3"] {
        assert_eq!(cluster.ask(0, &format!("DICTUM.NODE PROMOTE {name}")), "+OK\r\n");
    }
    milliseconds_until(&mut cluster, &syncs, |it| leader(it, 1).is_some_and(|it| it != 0)).expect("a quick one leads");
}

#[test]
fn a_leader_whose_disk_stands_still_gives_way() {
    let mut cluster = well();
    cluster.stalled.push(0);
    cluster.say(0, b"SET k 1\r\n");
    let took = milliseconds_until(&mut cluster, &[], |it| leader(it, 1).is_some_and(|it| it != 0));
    assert!(took.is_some_and(|took| took <= 4000), "another leads after {took:?}");
    assert_eq!(cluster.hear(0), "+OK\r\n");
}

#[test]
fn a_leader_without_a_processor_most_of_the_time_gives_way() {
    let mut cluster = well();
    let took = milliseconds_with_throttled(&mut cluster, 0, |it| leader(it, 1).is_some_and(|it| it != 0));
    assert!(took.is_some_and(|took| took <= 4000), "another leads after {took:?}");
    assert_eq!(slow(&mut cluster), ["processor", "no", "no"]);
}

/// The same, while a node gets the processor for 20 of each 140 milliseconds.
fn milliseconds_with_throttled(cluster: &mut Cluster, node: u16, done: impl Fn(&Cluster) -> bool) -> Option<u64> {
    for passed in (0..60_000).step_by(5) {
        if done(cluster) {
            cluster.standing_still.clear();
            return Some(passed);
        }
        cluster.standing_still = if passed % 140 < 120 { vec![node] } else { Vec::new() };
        cluster.pass();
    }
    None
}

/// The leader of the first partition, in the eyes of all nodes, while the loops of some are at work for 120 of each 140 milliseconds, each beginning so much later than
/// the one before; for a minute.
fn leaders_while_at_work(cluster: &mut Cluster, busy: &[u16], apart: u64) -> Vec<u16> {
    let mut leaders = Vec::new();
    for passed in (0..60_000).step_by(5) {
        for (place, node) in busy.iter().enumerate() {
            match (passed + 140 - apart * place as u64) % 140 {
                0 => cluster.standing_still.push(*node),
                120 => {
                    cluster.standing_still.retain(|it| it != node);
                    let began = Time(cluster.now.time.0 - Duration::from_millis(120).as_nanos() as u64);
                    cluster.back_from_work.push((*node, began));
                }
                _ => {}
            }
        }
        cluster.pass();
        leaders.extend((0..3).filter_map(|node| leader(cluster, node)));
    }
    leaders.sort_unstable();
    leaders.dedup();
    leaders
}

#[test]
fn who_has_much_to_do_is_not_slow() {
    // Costly commands of clients at the leader; at a follower; and entries that all of them apply, one after the other.
    for (busy, apart) in [(&[0][..], 0), (&[1], 0), (&[0, 1, 2], 5), (&[0, 1, 2], 60), (&[0, 2], 5)] {
        let mut cluster = well();
        assert_eq!(leaders_while_at_work(&mut cluster, busy, apart), [0], "{busy:?}, {apart} ms apart");
        cluster.standing_still.clear();
        assert_eq!(slow(&mut cluster), ["no"; 3], "{busy:?}, {apart} ms apart");
    }
}

#[test]
fn a_leader_that_is_far_from_all_others_gives_way() {
    let mut cluster = well();
    cluster.distant = Some((0, Duration::from_millis(30)));
    let took = milliseconds_until(&mut cluster, &[QUICK; 3], |it| leader(it, 1).is_some_and(|it| it != 0));
    assert!(took.is_some_and(|took| took <= 4000), "another leads after {took:?}");
    assert_eq!(slow(&mut cluster), ["link", "no", "no"]);
    cluster.distant = None;
    let took = milliseconds_until(&mut cluster, &[QUICK; 3], |it| leader(it, 1) == Some(0));
    assert!(took.is_some_and(|took| (5_000..15_000).contains(&took)), "it leads again after {took:?}");
}
