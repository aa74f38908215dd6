//! Buckets as clients see them: created at any node, apart from each other, changed and dropped.

use crate::common::{CLIENT, Cluster, pass_until, transcript};
use base::versions::NEWEST;
use node::{ConnectionId, Input};

/// A cluster of three in which `DICTUM.BUCKET CREATE` with these words has succeeded at the second node.
fn with_bucket(words: &str) -> Cluster {
    let mut cluster = Cluster::new(3);
    pass_until(&mut cluster, "the version has risen", |cluster| {
        cluster.nodes.iter().all(|node| node.cluster_version() == NEWEST)
    });
    assert_eq!(cluster.ask(1, "SET k default"), "+OK\r\n");
    assert_eq!(cluster.ask(1, &format!("DICTUM.BUCKET CREATE {words}")), "+OK\r\n");
    cluster
}

#[test]
fn buckets_are_apart_and_at_every_node() {
    let mut cluster = with_bucket("users");
    for node in 0..3 {
        assert_eq!(cluster.ask(node, "SELECT users"), "+OK\r\n", "node {node}");
    }
    assert_eq!(cluster.ask(0, "GET k"), "$-1\r\n");
    assert_eq!(cluster.ask(2, "SET k users"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "GET k"), "$5\r\nusers\r\n");
    assert_eq!(cluster.ask(0, "DBSIZE"), ":1\r\n");
    assert_eq!(cluster.ask(0, "SELECT 0"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "GET k"), "$7\r\ndefault\r\n");
    let number = cluster.ask(0, "DICTUM.BUCKET SHOW users").contains("number\r\n:1024\r\n");
    assert!(number, "behind the numbers of databases");
    assert_eq!(cluster.ask(0, "SELECT 1024"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "GET k"), "$5\r\nusers\r\n");
    assert_eq!(cluster.ask(0, "SELECT 0"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "HELLO 2 AUTH users x").split("\r\n").next(), Some("*14"));
    assert_eq!(cluster.ask(0, "GET k"), "$5\r\nusers\r\n");
    assert_eq!(cluster.ask(0, "AUTH default x"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "GET k"), "$7\r\ndefault\r\n");
    assert_eq!(cluster.ask(0, "RESET"), "+RESET\r\n");
    assert_eq!(cluster.ask(0, "GET k"), "$7\r\ndefault\r\n");
}

/// What is sent at once is carried out in its order, whatever bucket each command is for.
#[test]
fn a_pipeline_over_buckets_keeps_its_order() {
    let mut cluster = with_bucket("users");
    for node in 0..3 {
        let lines =
            "SET a 1\r\nSELECT users\r\nSET a 2\r\nGET a\r\nSELECT 0\r\nGET a\r\nSELECT users\r\nGET a\r\nPING\r\n";
        cluster.give(node, Input::Received { connection: CLIENT, bytes: lines.as_bytes() });
        let expected = "+OK\r\n+OK\r\n+OK\r\n$1\r\n2\r\n+OK\r\n$1\r\n1\r\n+OK\r\n$1\r\n2\r\n+PONG\r\n";
        let mut heard = String::new();
        while heard.len() < expected.len() {
            heard.push_str(&cluster.hear(node));
        }
        assert_eq!(heard, expected);
        assert_eq!(cluster.ask(node, "SELECT 0"), "+OK\r\n");
    }
}

#[test]
fn buckets_are_listed_changed_and_dropped() {
    let mut cluster = with_bucket("users QUOTA 64mb TTL 60");
    let shown = cluster.ask(2, "DICTUM.BUCKET SHOW users");
    for part in
        ["$4\r\nname\r\n$5\r\nusers\r\n", "quota\r\n:67108864\r\n", "ttl\r\n:60\r\n", "kind\r\n$10\r\npersistent"]
    {
        assert!(shown.contains(part), "{part:?} in {shown:?}");
    }
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET SET users TTL 0 POLICY lru"), "+OK\r\n");
    assert!(cluster.ask(1, "DICTUM.BUCKET LIST").contains("policy\r\n$3\r\nlru\r\n"));
    assert_eq!(cluster.ask(1, "SELECT users"), "+OK\r\n");
    assert!(cluster.ask(0, "DICTUM.BUCKET DROP users").contains("CONFIRM"));
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET DROP users CONFIRM"), "+OK\r\n");
    // Where the council's decision has not arrived yet, the bucket goes on for a moment.
    for _ in 0..100 {
        let answer = cluster.ask(1, "GET k");
        if answer.starts_with("-ERR the selected bucket") {
            break;
        }
        assert!(answer == "$-1\r\n" || answer.starts_with("-ERR the bucket was dropped"), "{answer}");
    }
    assert!(cluster.ask(1, "GET k").starts_with("-ERR the selected bucket"), "it was selected here");
    assert!(cluster.ask(2, "DICTUM.BUCKET SHOW users").starts_with("-ERR there is no bucket 'users'"));
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE users"), "+OK\r\n");
    for node in 0..3 {
        assert_eq!(cluster.ask(node, "SELECT users"), "+OK\r\n");
        assert_eq!(cluster.ask(node, "DBSIZE"), ":0\r\n", "a new one, whatever its name");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let mut cluster = with_bucket("users");
    transcript(
        &mut cluster,
        &[
            ("DICTUM.BUCKET CREATE users", "-ERR there is a bucket 'users' already"),
            ("DICTUM.BUCKET CREATE default", "-ERR there is a bucket 'default' already"),
            ("DICTUM.BUCKET CREATE x KIND odd", "-ERR a kind is persistent, ephemeral or cache"),
            ("DICTUM.BUCKET CREATE x KIND", "-ERR syntax error"),
            ("DICTUM.BUCKET SET none TTL 1", "-ERR there is no bucket 'none'"),
            ("DICTUM.BUCKET SET users KIND ephemeral", "-ERR the kind of a bucket cannot be changed"),
            ("DICTUM.BUCKET DROP default CONFIRM", "-ERR the default bucket cannot be dropped"),
            ("DICTUM.BUCKET DROP none CONFIRM", "-ERR there is no bucket 'none'"),
            ("SELECT 16", "-ERR DB index is out of range"),
            ("SELECT -1", "-ERR DB index is out of range"),
            ("SELECT 1x", "-ERR invalid DB index"),
            ("SELECT none", "-ERR there is no bucket 'none'"),
            ("AUTH none x", "-WRONGPASS invalid username-password pair or user is disabled."),
            ("SELECT 0", "+OK"),
            ("WATCH k", "+OK"),
            ("SELECT users", "-ERR keys of the selected bucket are watched; UNWATCH them first"),
            ("SELECT 0", "+OK"),
            ("UNWATCH", "+OK"),
            ("SELECT users", "+OK"),
        ],
    );
    let name = "-ERR a bucket's name is a letter, then letters, digits, '-', '_' and '.', 64 bytes at most\r\n";
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE 7up"), name);
}

#[test]
fn keys_get_the_time_to_live_of_their_bucket() {
    let mut cluster = with_bucket("sessions TTL 100");
    transcript(
        &mut cluster,
        &[
            ("SELECT sessions", "+OK"),
            ("SET a 1", "+OK"),
            ("TTL a", ":100"),
            ("SET b 1 EX 7", "+OK"),
            ("TTL b", ":7"),
            ("INCR c", ":1"),
            ("TTL c", ":100"),
            ("PERSIST c", ":1"),
            ("INCR c", ":2"),
            ("TTL c", ":-1"),
            ("APPEND d x", ":1"),
            ("TTL d", ":100"),
            ("MSET e 1 f 2", "+OK"),
            ("TTL f", ":100"),
            ("SET c 1 KEEPTTL", "+OK"),
            ("TTL c", ":-1"),
            ("SET c 1", "+OK"),
            ("TTL c", ":100"),
            ("SELECT 0", "+OK"),
            ("SET a 1", "+OK"),
            ("TTL a", ":-1"),
        ],
    );
}

#[test]
fn values_are_as_long_as_their_bucket_takes() {
    let mut cluster = with_bucket("small VALUE-BYTES-MAX 8");
    let refused = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    transcript(
        &mut cluster,
        &[
            ("SELECT small", "+OK"),
            ("SET a-key-of-many-letters 12345678", "+OK"),
            ("SET k 123456789", refused),
            ("MSET k 1 l 123456789", refused),
            ("DICTUM.ONCE id SET k 123456789", refused),
            ("APPEND a-key-of-many-letters 9", refused),
            ("MULTI", "+OK"),
            ("SET k 123456789", refused),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("EXISTS k l", ":0"),
            ("SELECT 0", "+OK"),
            ("SET k 123456789", "+OK"),
        ],
    );
}

/// Of four nodes, two that remember could neither go on (they are no majority) nor be outvoted by two that have forgotten.
#[test]
fn an_ephemeral_bucket_of_four_nodes_serves_again_whoever_was_restarted() {
    for restarted in [[0, 1], [0, 3], [2, 3], [1, 2]] {
        let mut cluster = Cluster::new(4);
        assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n", "all are up");
        assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE e KIND ephemeral"), "+OK\r\n");
        for node in 0..4 {
            assert_eq!(cluster.ask(node, "SELECT e"), "+OK\r\n");
        }
        assert_eq!(cluster.ask(2, "SET k 1"), "+OK\r\n");
        for node in restarted {
            let journal = cluster.journal(node);
            cluster.restart(node, journal);
        }
        let asked = (0..4).find(|node| !restarted.contains(node)).expect("two others");
        let mut answer = String::new();
        for _ in 0..10 {
            answer = cluster.ask(asked, "GET k");
            if !answer.starts_with('-') {
                break;
            }
        }
        assert!(["$1\r\n1\r\n", "$-1\r\n"].contains(&answer.as_str()), "{restarted:?}: {answer}");
    }
}

#[test]
fn an_ephemeral_bucket_serves_and_is_bounded() {
    let mut cluster = with_bucket("scratch KIND ephemeral QUOTA 4kib");
    let connection = ConnectionId(7);
    cluster.open(0, connection);
    assert_eq!(cluster.ask_as(0, connection, "SELECT scratch"), "+OK\r\n");
    let value = "v".repeat(1000);
    let mut full = 0;
    for key in 0..10 {
        match cluster.ask_as(0, connection, &format!("SET k{key} {value}")).as_str() {
            "+OK\r\n" => assert_eq!(full, 0),
            "-OOM command not allowed when used memory > 'maxmemory'.\r\n" => full += 1,
            other => panic!("{other}"),
        }
    }
    assert!((4..10).contains(&full), "{full}");
    assert_eq!(cluster.ask_as(0, connection, "DEL k0 k1"), ":2\r\n");
    assert_eq!(cluster.ask_as(0, connection, "SET k0 x"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "SELECT scratch"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "GET k0"), "$1\r\nx\r\n");
}

/// The leader of the council takes no larger order from another node, so no node makes one.
#[test]
fn an_order_that_is_too_large_is_refused_where_it_is_given() {
    let mut cluster = Cluster::new(3);
    let pairs = 200_000;
    let head = format!("*{}\r\n$13\r\nDICTUM.BUCKET\r\n$3\r\nSET\r\n$7\r\ndefault\r\n", 3 + 2 * pairs);
    let order = head + &"$15\r\nVALUE-BYTES-MAX\r\n$7\r\n1048576\r\n".repeat(pairs);
    for me in 0..3 {
        cluster.say(me, order.as_bytes());
        let said = cluster.hear(me);
        assert_eq!(said, "-ERR the order to the cluster is too large: more than 4 MiB; nothing was done\r\n", "{me}");
    }
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET SET default TTL 0"), "+OK\r\n");
}
