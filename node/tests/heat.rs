//! A node that leads most of what is busy gives some of it to others by itself.

mod common;

use base::{BucketId, PartitionId};
use common::Cluster;

const PARTITIONS: u16 = 6;

fn leader(cluster: &Cluster, index: u16) -> Option<u16> {
    let partition = PartitionId { bucket: BucketId(1), index };
    cluster.nodes[0].leader(partition).map(|(id, _)| id.0)
}

/// A key of each partition.
fn keys() -> Vec<String> {
    let index = |key: &str| u32::from(base::slots::hash_slot(key.as_bytes())) * u32::from(PARTITIONS) / 16_384;
    let key_of = |partition: u32| (0..).map(|number| format!("k{number}")).find(|key| index(key) == partition);
    (0..u32::from(PARTITIONS)).filter_map(key_of).collect()
}

#[test]
fn busy_partitions_that_one_node_leads_are_led_by_two_after_a_while() {
    let mut cluster = Cluster::with(3, |config| config.hot_entries_per_second = 100);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE b PARTITIONS 6"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SELECT b"), "+OK\r\n");
    let keys = keys();
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
