//! `DICTUM.BACKUP`: the state of a partition as of one moment, block by block.

use std::time::Duration;

use node::{ConnectionId, Input, Restorer};
use wire::{ReplyParser, Value};

use crate::common::{CLIENT, Cluster};

const NOTHING_OPEN: &str = "-ERR this connection has no backup open: it was never opened, is at its end, or nothing was asked of it for a minute\r\n";

/// The one reply of a node to a command.
fn value(cluster: &mut Cluster, node: u16, connection: ConnectionId, line: &str) -> Value {
    cluster.say_as(node, connection, line);
    let mut parser = ReplyParser::default();
    for _ in 0..2000 {
        parser.push(&cluster.heard_bytes(node, connection));
        if let Some(value) = parser.next().expect("it is RESP") {
            return value;
        }
        cluster.pass();
    }
    panic!("{line}: no reply came");
}

/// The four numbers of an `OPEN`.
fn open(cluster: &mut Cluster, node: u16, partition: u16) -> Vec<i64> {
    let Value::Array(numbers) = value(cluster, node, CLIENT, &format!("DICTUM.BACKUP OPEN {partition}")) else {
        panic!("numbers are expected")
    };
    let number = |value: &Value| if let Value::Integer(number) = value { *number } else { panic!("{value:?}") };
    numbers.iter().map(number).collect()
}

/// All blocks from here on.
fn blocks(cluster: &mut Cluster, node: u16) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    loop {
        match value(cluster, node, CLIENT, "DICTUM.BACKUP NEXT") {
            Value::Array(items) => match items.as_slice() {
                [Value::Bulk(block), Value::Integer(more)] => {
                    blocks.push(block.clone());
                    if *more == 0 {
                        return blocks;
                    }
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

fn restored(blocks: &[Vec<u8>]) -> data::Tree {
    let mut restorer = Restorer::default();
    blocks.iter().for_each(|block| restorer.push_block(block).expect("an image's block"));
    restorer.into_tree().expect("it is whole")
}

/// The value of a key, or nothing.
fn get(tree: &data::Tree, key: &str) -> Option<String> {
    let view = data::View::new(tree, base::WallTime(0), 1);
    match data::read(&view, &[b"GET", key.as_bytes()]) {
        data::Reply::Bulk(value) => Some(String::from_utf8(value.to_vec()).expect("text")),
        _ => None,
    }
}

/// At the leader and at a follower, and whatever is written meanwhile: the moment of the `OPEN`, with all that was acknowledged before.
#[test]
fn the_blocks_are_the_state_of_one_moment() {
    for node in 0..3 {
        let mut cluster = Cluster::new(3);
        for number in 0..100 {
            assert_eq!(cluster.ask(1, &format!("SET k{number} {}", "x".repeat(10_000))), "+OK\r\n");
        }
        assert_eq!(cluster.ask(2, "SET last acknowledged"), "+OK\r\n");
        let numbers = open(&mut cluster, node, 0);
        assert_eq!(numbers.len(), 4);
        assert_eq!(numbers[2], 101, "so many keys");
        let first = value(&mut cluster, node, CLIENT, "DICTUM.BACKUP NEXT");
        assert!(matches!(&first, Value::Array(items) if items[1] == Value::Integer(1)), "{first:?}");
        assert_eq!(cluster.ask(1, "SET later x"), "+OK\r\n");
        assert_eq!(cluster.ask(1, "DEL last k0"), ":2\r\n");
        let Value::Array(items) = first else { unreachable!() };
        let Value::Bulk(first) = items[0].clone() else { panic!("a block") };
        let mut all = vec![first];
        all.extend(blocks(&mut cluster, node));
        assert!(all.len() > 4, "{} blocks of 1 MB", all.len());
        let tree = restored(&all);
        assert_eq!(get(&tree, "last").as_deref(), Some("acknowledged"));
        assert_eq!((get(&tree, "later"), get(&tree, "k0").map(|value| value.len())), (None, Some(10_000)));
        assert_eq!(cluster.ask(node, "DICTUM.BACKUP NEXT"), NOTHING_OPEN, "it is at its end");
        assert_eq!(cluster.ask(node, "GET later"), "$1\r\nx\r\n");
    }
}

#[test]
fn what_is_not_there_is_an_error() {
    let mut cluster = Cluster::new(3);
    let no_partition = "-ERR the bucket has no such partition\r\n";
    for word in ["1", "-1", "x", "65536"] {
        assert_eq!(cluster.ask(0, &format!("DICTUM.BACKUP OPEN {word}")), no_partition);
    }
    for words in ["SINCE", "SINCE x", "SINCE -1", "SINCE 1 2", "FROM 1"] {
        let refused = cluster.ask(0, &format!("DICTUM.BACKUP OPEN 0 {words}"));
        assert!(refused.starts_with("-ERR syntax") || refused.starts_with("-ERR value is not"), "{words}: {refused}");
    }
    let refused = value(&mut cluster, 0, CLIENT, "DICTUM.BACKUP OPEN 0 SINCE 1000000");
    assert!(
        refused.as_error().is_some_and(|text| text.starts_with("ERR the partition has had fewer changes")),
        "{refused:?}"
    );
    assert_eq!(cluster.ask(0, "DICTUM.BACKUP NEXT"), NOTHING_OPEN);
    assert_eq!(cluster.ask(0, "DICTUM.BACKUP CLOSE"), NOTHING_OPEN);
    open(&mut cluster, 0, 0);
    assert_eq!(cluster.ask(0, "DICTUM.BACKUP CLOSE"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BACKUP NEXT"), NOTHING_OPEN);
}

/// Four on a node, one for a connection; one that is silent for a minute, or whose client is gone, makes room.
#[test]
fn frozen_states_have_a_bound() {
    let mut cluster = Cluster::new(3);
    let others: Vec<ConnectionId> = (100..104).map(ConnectionId).collect();
    for connection in &others {
        cluster.open(0, *connection);
        for _ in 0..2 {
            assert!(matches!(value(&mut cluster, 0, *connection, "DICTUM.BACKUP OPEN 0"), Value::Array(_)));
        }
    }
    let full = "-ERR this node gives out four backups already; ask another node, or try again later\r\n";
    assert_eq!(cluster.ask(0, "DICTUM.BACKUP OPEN 0"), full);
    assert_eq!(open(&mut cluster, 1, 0).len(), 4, "another node has room");
    cluster.give(0, Input::Closed { connection: others[0] });
    assert_eq!(open(&mut cluster, 0, 0).len(), 4);
    let until = cluster.now_of(0).time + Duration::from_secs(61);
    while cluster.now_of(0).time < until {
        for connection in &others[1..3] {
            value(&mut cluster, 0, *connection, "PING");
        }
        // One of them goes on, the others say other things.
        if cluster.now_of(0).time + Duration::from_secs(31) < until {
            assert!(matches!(value(&mut cluster, 0, others[1], "DICTUM.BACKUP OPEN 0"), Value::Array(_)));
        }
        cluster.pass();
    }
    assert!(matches!(value(&mut cluster, 0, others[1], "DICTUM.BACKUP NEXT"), Value::Array(_)));
    for connection in [CLIENT, others[2], others[3]] {
        assert!(matches!(value(&mut cluster, 0, connection, "DICTUM.BACKUP NEXT"), Value::Error(_)));
    }
}

/// An `OPEN` at a node that cannot reach a majority freezes nothing old.
#[test]
fn a_node_that_is_cut_off_gives_out_nothing() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k old"), "+OK\r\n");
    cluster.isolated.push(0);
    assert!(cluster.ask(0, "DICTUM.BACKUP OPEN 0").starts_with("-CLUSTERDOWN"));
    assert_eq!(cluster.ask(0, "DICTUM.BACKUP NEXT"), NOTHING_OPEN);
}
