//! Buckets that are cut into several partitions, as clients see them.

use crate::common::{CLIENT, Cluster, transcript};
use node::Input;

/// A cluster of three whose clients have selected a bucket of seven partitions. The slots of `k1` to `k20` are all over them.
fn parted(words: &str) -> Cluster {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(1, "SET k default"), "+OK\r\n");
    assert_eq!(cluster.ask(1, &format!("DICTUM.BUCKET CREATE parted PARTITIONS 7 {words}")), "+OK\r\n");
    for node in 0..3 {
        assert_eq!(cluster.ask(node, "SELECT parted"), "+OK\r\n", "node {node}");
    }
    cluster
}

/// The first word of a reply's lines that are bulk strings.
fn bulks(reply: &str) -> Vec<String> {
    let mut lines = reply.split("\r\n");
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with('$') && line != "$-1" {
            found.extend(lines.next().map(str::to_owned));
        }
    }
    found
}

fn keys() -> Vec<String> {
    (1..=20).map(|number| format!("k{number}")).collect()
}

fn fill(cluster: &mut Cluster) {
    for (place, key) in (0..).zip(keys()) {
        assert_eq!(cluster.ask(place % 3, &format!("SET {key} v{}", place + 1)), "+OK\r\n");
    }
}

#[test]
fn any_node_serves_the_keys_of_all_partitions() {
    for kind in ["", "KIND ephemeral", "KIND cache QUOTA 64mb"] {
        let mut cluster = parted(kind);
        fill(&mut cluster);
        for node in 0..3 {
            for (place, key) in keys().iter().enumerate() {
                let value = format!("v{}", place + 1);
                assert_eq!(cluster.ask(node, &format!("GET {key}")), format!("${}\r\n{value}\r\n", value.len()));
            }
            assert_eq!(cluster.ask(node, "DBSIZE"), ":20\r\n");
            assert_eq!(cluster.ask(node, "EXISTS k1 k2 k3 none k3"), ":4\r\n");
            assert_eq!(cluster.ask(node, "TOUCH k1 k2 k3 none"), ":3\r\n");
            assert_eq!(cluster.ask(node, "MGET k3 none k1 k3"), "*4\r\n$2\r\nv3\r\n$-1\r\n$2\r\nv1\r\n$2\r\nv3\r\n");
            let mut all = bulks(&cluster.ask(node, "KEYS *"));
            all.sort();
            let mut expected = keys();
            expected.sort();
            assert_eq!(all, expected);
            let drawn = bulks(&cluster.ask(node, "RANDOMKEY"));
            assert!(keys().contains(&drawn[0]), "{drawn:?}");
        }
        assert_eq!(cluster.ask(0, "FLUSHALL"), "+OK\r\n");
        for node in 0..3 {
            assert_eq!(cluster.ask(node, "DBSIZE"), ":0\r\n", "{kind}");
            assert_eq!(cluster.ask(node, "RANDOMKEY"), "$-1\r\n");
        }
    }
}

#[test]
fn a_scan_meets_every_key_on_whichever_node_each_page_is_asked_for() {
    let mut cluster = parted("");
    fill(&mut cluster);
    for count in [1, 3, 100] {
        let (mut cursor, mut met, mut pages) = ("0".to_owned(), Vec::new(), 0);
        loop {
            let page = bulks(&cluster.ask(pages % 3, &format!("SCAN {cursor} COUNT {count}")));
            let (next, found) = page.split_first().unwrap();
            met.extend_from_slice(found);
            cursor.clone_from(next);
            pages += 1;
            if cursor == "0" {
                break;
            }
        }
        met.sort();
        let mut expected = keys();
        expected.sort();
        assert_eq!(met, expected, "COUNT {count}: each once");
        assert!(pages >= 7, "a page is of one partition");
    }
}

#[test]
fn what_needs_several_partitions_at_once_is_refused_as_in_a_redis_cluster() {
    let mut cluster = parted("");
    let cross = "-CROSSSLOT Keys in request don't hash to the same slot";
    transcript(
        &mut cluster,
        &[
            ("MSET k1 1 k2 2", cross),
            ("MSET {t}1 1 {t}2 2", "+OK"),
            ("DEL k1 k2", cross),
            ("DEL {t}1 {t}2", ":2"),
            ("SUNION k1 k2", cross),
            ("RENAME k1 k2", cross),
            ("BLPOP k1 k2 1", cross),
            ("WATCH k1 k2", cross),
            ("EVAL return{} 2 k1 k2", cross),
            ("DICTUM.ONCE id MSET k1 1 k2 2", cross),
            ("MULTI", "+OK"),
            ("MSET k1 1 k2 2", cross),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("SET k1 1", "+QUEUED"),
            ("SET k2 1", "+QUEUED"),
            ("EXEC", cross),
            ("EXISTS k1 k2", ":0"),
            ("WATCH k1", "+OK"),
            ("MULTI", "+OK"),
            ("SET k2 1", "+QUEUED"),
            ("EXEC", cross),
            ("MULTI", "+OK"),
            ("DBSIZE", cross),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("PING", "+QUEUED"),
            ("SET {t}1 1", "+QUEUED"),
            ("SET {t}2 1", "+QUEUED"),
            ("EXEC", "*3 | +PONG | +OK | +OK"),
        ],
    );
}

/// Replies come in the order of the commands, and a command sees what the connection has written before it.
#[test]
fn a_pipeline_over_partitions_keeps_its_order() {
    let mut cluster = parted("");
    for node in 0..3 {
        let (mut said, mut expected) = (String::new(), String::new());
        for round in 0..3 {
            for key in keys() {
                said.push_str(&format!("SET {key} {round}\r\nGET {key}\r\n"));
                expected.push_str(&format!("+OK\r\n$1\r\n{round}\r\n"));
            }
            said.push_str("DBSIZE\r\nMGET k1 k2 k3\r\nPING\r\n");
            expected.push_str(&format!(":20\r\n*3\r\n$1\r\n{round}\r\n$1\r\n{round}\r\n$1\r\n{round}\r\n+PONG\r\n"));
        }
        said.push_str("FLUSHDB\r\nDBSIZE\r\nEXISTS k1 k2\r\n");
        expected.push_str("+OK\r\n:0\r\n:0\r\n");
        cluster.give(node, Input::Received { connection: CLIENT, bytes: said.as_bytes() });
        let mut heard = String::new();
        while heard.len() < expected.len() {
            heard.push_str(&cluster.hear(node));
        }
        assert_eq!(heard, expected, "node {node}");
    }
}

#[test]
fn tokens_waits_outcomes_and_transactions_know_all_partitions() {
    let mut cluster = parted("");
    fill(&mut cluster);
    assert_eq!(cluster.ask(0, "WAIT 2 0"), ":2\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.ONCE o1 SET k1 once"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.ONCE o1 SET k1 once"), "+OK\r\n");
    assert!(cluster.ask(1, "DICTUM.OUTCOME o1").contains("applied"));
    assert_eq!(cluster.ask(1, "DICTUM.OUTCOME o2"), "$-1\r\n");
    let token = bulks(&cluster.ask(0, "DICTUM.TOKEN"))[0].clone();
    assert_eq!(token.matches(',').count(), 6, "{token}: a revision for each");
    assert_eq!(cluster.ask(2, &format!("DICTUM.CONSISTENCY session {token}")), "+OK\r\n");
    assert_eq!(cluster.ask(2, "MGET k1 k2"), "*2\r\n$4\r\nonce\r\n$2\r\nv2\r\n");
    assert!(cluster.ask(2, "DICTUM.CONSISTENCY session 1:5").starts_with("-ERR the token is of a bucket with another"));
    assert_eq!(cluster.ask(1, "WATCH {t}1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SET {t}1 x"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "MULTI"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "SET {t}2 y"), "+QUEUED\r\n");
    assert_eq!(cluster.ask(1, "EXEC"), "*-1\r\n", "what is watched has changed");
}

#[test]
fn scripts_are_in_all_partitions_and_stay_in_their_own() {
    let mut cluster = parted("");
    let sha = bulks(&cluster.ask(0, "SCRIPT LOAD return(redis.call([[incr]],KEYS[1]))"))[0].clone();
    for key in keys() {
        assert_eq!(cluster.ask(1, &format!("EVALSHA {sha} 1 {key}")), ":1\r\n");
    }
    let elsewhere = cluster.ask(1, "EVAL return(redis.call([[incr]],ARGV[1])) 1 k1 k2");
    assert!(elsewhere.starts_with("-ERR Script attempted to access a non local key in a cluster node"), "{elsewhere}");
    assert_eq!(cluster.ask(1, "GET k2"), "$1\r\n1\r\n");
    let elsewhere = cluster.ask(1, "EVAL_RO return(redis.call([[get]],ARGV[1])) 1 k1 k2");
    assert!(elsewhere.starts_with("-ERR Script attempted to access a non local key in a cluster node"), "{elsewhere}");
    assert_eq!(cluster.ask(2, "SCRIPT FLUSH"), "+OK\r\n");
    for key in keys() {
        assert!(cluster.ask(0, &format!("EVALSHA {sha} 1 {key}")).starts_with("-NOSCRIPT"));
    }
}

#[test]
fn a_bucket_says_how_many_partitions_it_has() {
    let mut cluster = parted("");
    assert!(cluster.ask(0, "DICTUM.BUCKET SHOW parted").contains("partitions\r\n:7\r\n"));
    transcript(
        &mut cluster,
        &[
            ("DICTUM.BUCKET SET parted PARTITIONS 8", "-ERR the number of partitions of a bucket cannot be changed"),
            ("DICTUM.BUCKET CREATE other PARTITIONS 0", "-ERR a bucket has 1 to 1024 partitions"),
            ("DICTUM.BUCKET CREATE other PARTITIONS 1025", "-ERR a bucket has 1 to 1024 partitions"),
            ("DICTUM.BUCKET DROP parted CONFIRM", "+OK"),
        ],
    );
}
