//! A node that leads most of what is busy gives some of it to others by itself.

use crate::common::{Cluster, pass_until};
use base::{BucketId, PartitionId};

const PARTITIONS: u16 = 6;
const COUNCIL: PartitionId = PartitionId { bucket: BucketId(u32::MAX), index: 0 };

fn partition(index: u16) -> PartitionId {
    PartitionId { bucket: BucketId(1), index }
}

fn leader(cluster: &Cluster, index: u16) -> Option<u16> {
    cluster.nodes[0].leader(partition(index)).map(|(id, _)| id.0)
}

/// A key of each of so many partitions.
fn keys(partitions: u16) -> Vec<String> {
    let index = |key: &str| u32::from(base::slots::hash_slot(key.as_bytes())) * u32::from(partitions) / 16_384;
    let key_of = |partition: u32| (0..).map(|number| format!("k{number}")).find(|key| index(key) == partition);
    (0..u32::from(partitions)).filter_map(key_of).collect()
}

#[test]
fn busy_partitions_that_one_node_leads_are_led_by_two_after_a_while() {
    let mut cluster = Cluster::with(3, |config| config.hot_entries_per_second = 100);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE b PARTITIONS 6"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SELECT b"), "+OK\r\n");
    let keys = keys(PARTITIONS);
    for key in &keys {
        assert_eq!(cluster.ask(0, &format!("SET {key} 0")), "+OK\r\n");
    }
    let leaders = |cluster: &Cluster| (0..PARTITIONS).map(|index| leader(cluster, index)).collect::<Vec<_>>();
    let led_by = |all: &[Option<u16>], id: u16| -> Vec<usize> {
        all.iter().enumerate().filter(|(_, leader)| **leader == Some(id)).map(|(index, _)| index).collect()
    };
    for _ in 0..12_000 {
        if (0..3).all(|id| led_by(&leaders(&cluster), id).len() == 2) {
            break;
        }
        cluster.pass();
    }
    let before = leaders(&cluster);
    let busy = led_by(&before, 1);
    assert_eq!(busy.len(), 2, "each leads two: {before:?}");
    let mut count = 0;
    while led_by(&leaders(&cluster), 1) == busy {
        count += 1;
        assert!(count < 10_000, "nothing has changed hands: {:?}", leaders(&cluster));
        for index in &busy {
            assert_eq!(cluster.ask(0, &format!("INCR {}", keys[*index])), format!(":{count}\r\n"));
        }
        cluster.pass();
    }
    for _ in 0..400 {
        cluster.pass();
    }
    let after = leaders(&cluster);
    assert!((0..3).all(|id| led_by(&after, id).len() == 2), "as many for each as before: {after:?}");
    assert_ne!(after[busy[0]], after[busy[1]], "and the busy ones at two nodes: {after:?}");
    // In a calm nothing goes back.
    for _ in 0..12_000 {
        cluster.pass();
    }
    assert_eq!(leaders(&cluster), after);
    assert_eq!(cluster.ask(2, "SELECT b"), "+OK\r\n");
    for index in busy {
        let count = count.to_string();
        assert_eq!(cluster.ask(2, &format!("GET {}", keys[index])), format!("${}\r\n{count}\r\n", count.len()));
    }
}

/// Whoever leads the council goes by what others say of partitions of which it has no copy.
#[test]
fn what_is_busy_elsewhere_is_seen_too() {
    const MANY: u16 = 24;
    let mut cluster = Cluster::with(6, |config| config.hot_entries_per_second = 100);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.NODE VOTERS 3"), "+OK\r\n");
    assert_eq!(cluster.ask(0, &format!("DICTUM.BUCKET CREATE b PARTITIONS {MANY}")), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SELECT b"), "+OK\r\n");
    let keys = keys(MANY);
    let led_elsewhere = |cluster: &Cluster, id: u16| -> Vec<u16> {
        let is_it = |index: &u16| cluster.nodes[0].is_without(partition(*index)) && leader(cluster, *index) == Some(id);
        (0..MANY).filter(is_it).collect()
    };
    let leads = |cluster: &Cluster, id: u16| (0..MANY).filter(|index| leader(cluster, *index) == Some(id)).count();
    pass_until(
        &mut cluster,
        "votes and leaderships are spread, and somebody leads two without a copy at the first node",
        |it| {
            let without = (0..MANY).filter(|index| it.nodes[0].is_without(partition(*index))).count();
            without == usize::from(MANY) / 2
                && (0..6).all(|id| leads(it, id) == 4)
                && (1..6).any(|id| led_elsewhere(it, id).len() >= 2)
        },
    );
    assert_eq!(cluster.nodes[1].leader(COUNCIL).map(|(id, _)| id.0), Some(0));
    let hot = (1..6).find(|id| led_elsewhere(&cluster, *id).len() >= 2).expect("there is one");
    let busy = led_elsewhere(&cluster, hot)[..2].to_vec();
    let mut count = 0;
    while busy.iter().all(|index| leader(&cluster, *index) == Some(hot)) {
        count += 1;
        assert!(count < 10_000, "nothing has changed hands");
        for index in &busy {
            assert_eq!(cluster.ask(0, &format!("INCR {}", keys[usize::from(*index)])), format!(":{count}\r\n"));
        }
        cluster.pass();
    }
}
