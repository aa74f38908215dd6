//! A node alone and a cluster of three on a network and disks without faults: the first thing to look at when all is red.
//! Faults are the simulator's.

use std::time::Duration;

use crate::common::{Cluster, pass_until};
use base::limits::KEY_BYTES_MAX;
use base::{NodeId, PartitionId};
use node::{ConnectionId, Input, Listener};

#[test]
fn a_node_alone_serves() {
    let mut cluster = Cluster::new(1);
    assert_eq!(cluster.ask(0, "SET greeting hello"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "GET greeting"), "$5\r\nhello\r\n");
}

#[test]
fn any_of_three_serves_and_all_agree() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(2, "SET a 1"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "INCR a"), ":2\r\n");
    for me in 0..3 {
        assert_eq!(cluster.ask(me, "GET a"), "$1\r\n2\r\n");
    }
    assert_eq!(
        cluster.nodes[1].leader(PartitionId::default()).map(|(id, _)| id),
        Some(NodeId(0)),
        "the preferred node leads"
    );
    let digests: Vec<u64> =
        cluster.nodes.iter().map(|node| node.state_digest(PartitionId::default()).unwrap()).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]));
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let mut cluster = Cluster::new(3);
    for me in 0..3 {
        let answer = cluster.ask(me, "SET k 1\r\nGET k\r\nPING\r\nINCR k\r\nGET k\r\nNOSUCH x");
        let mut answer = answer;
        while answer.matches("\r\n").count() < 8 {
            cluster.pass();
            answer += &cluster.hear(me);
        }
        assert_eq!(
            answer,
            "+OK\r\n$1\r\n1\r\n+PONG\r\n:2\r\n$1\r\n2\r\n-ERR unknown command 'NOSUCH', with args beginning with: 'x' \r\n"
        );
    }
}

#[test]
fn transactions_watch_and_merge() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "WATCH k"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "MULTI"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "INCR k"), "+QUEUED\r\n");
    assert_eq!(cluster.ask(1, "PING"), "+QUEUED\r\n");
    assert_eq!(cluster.ask(1, "GET k"), "+QUEUED\r\n");
    assert_eq!(cluster.ask(1, "EXEC"), "*3\r\n:2\r\n+PONG\r\n$1\r\n2\r\n");
    assert_eq!(cluster.ask(1, "WATCH k"), "+OK\r\n");
    assert_eq!(cluster.ask(2, "SET k 7"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "MULTI"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "SET k 9"), "+QUEUED\r\n");
    assert_eq!(cluster.ask(1, "EXEC"), "*-1\r\n");
    assert_eq!(cluster.ask(0, "GET k"), "$1\r\n7\r\n");
}

#[test]
fn keys_that_no_store_takes_are_refused() {
    let mut cluster = Cluster::new(1);
    let (longest, longer) = ("k".repeat(KEY_BYTES_MAX), "k".repeat(KEY_BYTES_MAX + 1));
    let refused = "-ERR key is longer than 32768 bytes\r\n";
    assert_eq!(cluster.ask(0, &format!("SET {longest} 1")), "+OK\r\n");
    assert_eq!(cluster.ask(0, &format!("GET {longest}")), "$1\r\n1\r\n");
    for line in ["SET KEY 1", "GET KEY", "WATCH a KEY", "DICTUM.ONCE id SET KEY 1"] {
        assert_eq!(cluster.ask(0, &line.replace("KEY", &longer)), refused, "{line}");
    }
    assert_eq!(cluster.ask(0, "MULTI"), "+OK\r\n");
    assert_eq!(cluster.ask(0, &format!("MSET a 1 {longer} 2")), refused);
    assert_eq!(cluster.ask(0, "EXEC"), "-EXECABORT Transaction discarded because of previous errors.\r\n");
    assert_eq!(cluster.ask(0, "EXISTS a"), ":0\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.OUTCOME id"), "$-1\r\n");
}

#[test]
fn a_key_expires_for_everybody_at_once() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k v PX 300"), "+OK\r\n");
    assert_eq!(cluster.ask(2, "GET k"), "$1\r\nv\r\n");
    for _ in 0..70 {
        cluster.pass();
    }
    for me in 0..3 {
        assert_eq!(cluster.ask(me, "GET k"), "$-1\r\n");
    }
}

#[test]
fn wait_and_once_tell_the_truth() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "DICTUM.ONCE id1 INCR n"), ":1\r\n");
    assert_eq!(cluster.ask(1, "DICTUM.ONCE id1 INCR n"), ":1\r\n");
    assert_eq!(cluster.ask(2, "DICTUM.OUTCOME id1"), "*2\r\n$7\r\napplied\r\n:1\r\n");
    assert_eq!(cluster.ask(2, "DICTUM.OUTCOME id2"), "$-1\r\n");
    assert_eq!(cluster.ask(0, "SET a 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "WAIT 2 0"), ":2\r\n");
}

#[test]
fn a_follower_reads_however_far_away_the_leader_is() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET a 1"), "+OK\r\n");
    // There and back twice, since the leader asks, too: longer than it takes until a question is asked again.
    for milliseconds in [50, 120, 300] {
        cluster.delay = Duration::from_millis(milliseconds);
        for me in 0..3 {
            assert_eq!(cluster.ask(me, "GET a"), "$1\r\n1\r\n", "{milliseconds} ms each way");
        }
    }
}

#[test]
fn a_stopping_leader_hands_over() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET a 1"), "+OK\r\n");
    cluster.give(0, Input::Stop);
    for _ in 0..20 {
        cluster.pass();
    }
    assert_ne!(cluster.nodes[1].leader(PartitionId::default()).map(|(id, _)| id), Some(NodeId(0)));
    assert_eq!(cluster.ask(1, "INCR a"), ":2\r\n");
}

#[test]
fn a_stopping_node_lets_its_clients_go_and_tells_none_an_error() {
    let mut cluster = Cluster::new(3);
    let [idle, busy, late, inside] = [11, 12, 13, 14].map(ConnectionId);
    [idle, busy].into_iter().for_each(|client| cluster.open(1, client));
    cluster.open_at(1, inside, Listener::Inside);
    assert_eq!(cluster.ask(0, "SET a 1"), "+OK\r\n");
    cluster.give(1, Input::Received { connection: busy, bytes: b"INCR a\r\n" });
    cluster.give(1, Input::Stop);
    assert!(cluster.closed.contains(&(1, idle)) && !cluster.closed.contains(&(1, busy)));
    cluster.give(1, Input::Received { connection: busy, bytes: b"INCR a\r\n" });
    cluster.open(1, late);
    cluster.give(1, Input::Received { connection: late, bytes: b"INCR a\r\n" });
    assert!(cluster.closed.contains(&(1, late)), "it came too late");
    let told = cluster.ask_as(1, inside, "GET a");
    assert!(told.starts_with("-CLUSTERDOWN this node is stopping"), "{told}");
    assert_eq!(cluster.hear_as(1, busy), ":2\r\n");
    assert!(cluster.closed.contains(&(1, busy)), "as soon as it has its answer");
    assert_eq!((cluster.heard(1, busy), cluster.heard(1, late)), (String::new(), String::new()));
    assert_eq!(cluster.ask(2, "GET a"), "$1\r\n2\r\n", "what was not answered was not done");
}

#[test]
fn watch_notices_a_key_that_came_and_went() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(1, "WATCH absent"), "+OK\r\n");
    assert_eq!(cluster.ask(2, "SET absent 1"), "+OK\r\n");
    assert_eq!(cluster.ask(2, "DEL absent"), ":1\r\n");
    assert_eq!(cluster.ask(1, "MULTI"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "SET other 1"), "+QUEUED\r\n");
    assert_eq!(cluster.ask(1, "EXEC"), "*-1\r\n");
    assert_eq!(cluster.ask(1, "WATCH absent"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "MULTI"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "SET other 1"), "+QUEUED\r\n");
    assert_eq!(cluster.ask(1, "EXEC"), "*1\r\n+OK\r\n");
}

#[test]
fn large_replies_are_given_out_in_parts() {
    let mut cluster = Cluster::new(3);
    let value = "v".repeat(1024 * 1024);
    assert_eq!(cluster.ask(0, &format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}", value.len())), "+OK\r\n");
    let mut heard = cluster.ask(0, &["GET k"; 50].join("\r\n"));
    while heard.len() < 50 * value.len() {
        cluster.pass();
        heard += &cluster.hear(0);
    }
    assert_eq!(heard.matches("$1048576").count(), 50);
    let most = base::limits::TURN_OUTPUT_BYTES_MAX + 2 * value.len();
    assert!(cluster.largest < most, "{} bytes in one turn", cluster.largest);
}

/// A leader that answers for too long in one turn is deposed.
#[test]
fn reads_of_many_connections_are_spread_over_turns() {
    let mut cluster = Cluster::new(3);
    pass_until(&mut cluster, "the preferred node leads", |cluster| {
        cluster.nodes[0].leader(PartitionId::default()).is_some_and(|(leader, _)| leader == NodeId(0))
    });
    let value = "v".repeat(64 * 1024);
    assert_eq!(cluster.ask(0, &format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}", value.len())), "+OK\r\n");
    let connections: Vec<ConnectionId> = (100..104).map(ConnectionId).collect();
    for connection in &connections {
        cluster.open(0, *connection);
        let commands = format!("{}\r\nPING\r\n", ["GET k"; 40].join("\r\n"));
        cluster.give(0, Input::Received { connection: *connection, bytes: commands.as_bytes() });
    }
    let mut heard = vec![String::new(); connections.len()];
    for _ in 0..100 {
        cluster.pass();
        for (all, connection) in heard.iter_mut().zip(&connections) {
            *all += &cluster.heard(0, *connection);
        }
    }
    for all in &heard {
        assert_eq!(all.matches("$65536").count(), 40);
        assert!(all.ends_with("+PONG\r\n"));
    }
    let most = base::limits::TURN_READ_BYTES_MAX + 2 * value.len();
    assert!(cluster.largest_turn < most, "{} bytes in one turn", cluster.largest_turn);
    assert!(cluster.largest_turn >= base::limits::TURN_READ_BYTES_MAX, "the limit was reached");
}

/// The limit for values is a node's own setting, and its entries carry it: all replicas decide alike.
#[test]
fn values_do_not_grow_beyond_the_limit_of_the_node_that_is_asked() {
    let mut cluster = Cluster::with(3, |config| {
        if config.me == NodeId(2) {
            config.value_bytes_max = 10;
        }
    });
    let refused = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
    assert_eq!(cluster.ask(2, "APPEND k 123456"), ":6\r\n");
    assert_eq!(cluster.ask(2, "APPEND k 123456"), refused);
    assert_eq!(cluster.ask(2, "DICTUM.ONCE a SETRANGE k 6 123456"), refused);
    assert_eq!(cluster.ask(2, "SETBIT k 80 1"), "-ERR bit offset is not an integer or out of range\r\n");
    for line in ["MULTI", "SET other 1", "APPEND k 123456"] {
        cluster.ask(2, line);
    }
    assert_eq!(cluster.ask(2, "EXEC"), format!("*2\r\n+OK\r\n{refused}"));
    assert_eq!(cluster.ask(0, "APPEND k 123456"), ":12\r\n");
    assert_eq!(cluster.ask(2, "STRLEN k"), ":12\r\n");
    assert_eq!(cluster.ask(1, "CONFIG SET proto-max-bulk-len 1mb"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "SETRANGE k 1048576 x"), refused);
    assert_eq!(cluster.ask(1, "SETRANGE k 1048575 x"), ":1048576\r\n");
    for me in 0..3 {
        assert_eq!(cluster.ask(me, "STRLEN k"), ":1048576\r\n");
    }
    let digests: Vec<u64> =
        cluster.nodes.iter().map(|node| node.state_digest(PartitionId::default()).unwrap()).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]));
}

#[test]
fn an_identifier_belongs_to_one_command() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "DICTUM.ONCE order-7 INCR k"), ":1\r\n");
    assert_eq!(cluster.ask(1, "DICTUM.ONCE order-7 INCR k"), ":1\r\n");
    let refused = "-REUSED this identifier was used for another command; this one was not done\r\n";
    assert_eq!(cluster.ask(2, "DICTUM.ONCE order-7 INCRBY k 2"), refused);
    assert_eq!(cluster.ask(2, "DICTUM.ONCE order-7 APPEND k 2"), refused);
    assert_eq!(cluster.ask(2, "DICTUM.OUTCOME order-7"), "*2\r\n$7\r\napplied\r\n:1\r\n");
    assert_eq!(cluster.ask(2, "GET k"), "$1\r\n1\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.ONCE log APPEND l x"), ":1\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.ONCE log APPEND l x"), ":1\r\n");
    assert_eq!(cluster.ask(0, "CONFIG SET proto-max-bulk-len 1mb"), "+OK\r\n");
    // The limit for values is no part of the command.
    assert_eq!(cluster.ask(0, "DICTUM.ONCE log APPEND l x"), ":1\r\n");
}
