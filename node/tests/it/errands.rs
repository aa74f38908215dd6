//! COPY and MOVE between databases, and what others do meanwhile.

use crate::common::{CLIENT, Cluster, pass_until, transcript};
use base::limits::ERRANDS_MAX;
use base::versions::NEWEST;
use node::{ConnectionId, Input};

const OTHER: ConnectionId = ConnectionId(77);

fn three() -> Cluster {
    let mut cluster = Cluster::new(3);
    pass_until(&mut cluster, "the version has risen", |cluster| {
        cluster.nodes.iter().all(|node| node.cluster_version() == NEWEST)
    });
    cluster
}

/// The values of a key in the databases 0 and 5, as another client at this node sees them.
fn found(cluster: &mut Cluster, node: u16, key: &str) -> [String; 2] {
    ["0", "5"].map(|database| {
        cluster.ask_as(node, OTHER, &format!("SELECT {database}"));
        cluster.ask_as(node, OTHER, &format!("GET {key}")).trim_end().replace("\r\n", " ")
    })
}

/// Begins a command at a node, and passes until its errand has said something so often.
fn begin(cluster: &mut Cluster, node: u16, line: &str, said: usize) {
    cluster.say(node, format!("{line}\r\n").as_bytes());
    pass_until(cluster, "the errand has said it", |cluster| cluster.errands.iter().any(|talk| talk.said >= said));
}

#[test]
fn keys_of_all_types_go_to_another_database_with_their_deadlines() {
    let mut cluster = three();
    for node in 0..3 {
        cluster.open(node, OTHER);
    }
    transcript(
        &mut cluster,
        &[
            ("SET k hello PX 100000000", "+OK"),
            ("HSET h a 1 b 2", ":2"),
            ("HEXPIRE h 1000 FIELDS 1 a", "*1 | :1"),
            ("XADD s 1-1 a b", "$3 | 1-1"),
            ("COPY k l DB 5", ":1"),
            ("COPY k l DB 5", ":0"),
            ("SET k newer KEEPTTL", "+OK"),
            ("COPY k l REPLACE DB 5", ":1"),
            ("COPY absent l DB 5 REPLACE", ":0"),
            ("COPY k l DB 5 MAYBE", "-ERR syntax error"),
            ("MOVE h 5", ":1"),
            ("MOVE h 5", ":0"),
            ("MOVE s 5", ":1"),
            ("EXISTS h s k l", ":1"),
            ("MULTI", "+OK"),
            ("MOVE k 5", "-ERR Command not allowed inside a transaction"),
            ("DISCARD", "+OK"),
            ("SELECT 5", "+OK"),
            ("GET l", "$5 | newer"),
            ("HTTL h FIELDS 2 a b", "*2 | :1000 | :-1"),
            ("XLEN s", ":1"),
            ("SET s here", "+OK"),
            ("SELECT 0", "+OK"),
            ("SET s there", "+OK"),
            ("MOVE s 5", ":0"),
            ("GET s", "$5 | there"),
        ],
    );
    cluster.ask(0, "SELECT 5");
    let left = cluster.ask(0, "PTTL l");
    let left: i64 = left.trim().trim_start_matches(':').parse().expect("a number");
    assert!((99_000_000..=100_000_000).contains(&left), "{left}");
}

#[test]
fn what_is_sent_in_one_write_with_a_move_stays_in_order() {
    let mut cluster = three();
    for node in 0..3 {
        let key = format!("k{node}");
        let lines = format!(
            "SET {key} 1\r\nMOVE {key} 5\r\nGET {key}\r\nSET {key} 2\r\nSELECT 5\r\nGET {key}\r\nSELECT 0\r\nGET {key}\r\n"
        );
        cluster.say(node, lines.as_bytes());
        let expected = "+OK\r\n:1\r\n$-1\r\n+OK\r\n+OK\r\n$1\r\n1\r\n+OK\r\n$1\r\n2\r\n";
        let mut heard = String::new();
        while heard.len() < expected.len() {
            heard.push_str(&cluster.hear(node));
        }
        assert_eq!(heard, expected, "node {node}");
    }
}

#[test]
fn who_writes_to_the_key_meanwhile_loses_nothing() {
    for (node, said) in [(0, 2), (1, 3), (2, 4)] {
        let mut cluster = three();
        cluster.open(node, OTHER);
        assert_eq!(cluster.ask(node, "SET k 1"), "+OK\r\n");
        begin(&mut cluster, node, "MOVE k 5", said);
        // It was looked at, or is there already as a copy.
        cluster.ask_as(node, OTHER, "SELECT 0");
        assert_eq!(cluster.ask_as(node, OTHER, "INCR k"), ":2\r\n");
        assert_eq!(cluster.hear(node), ":1\r\n", "after {said} steps");
        assert_eq!(found(&mut cluster, node, "k"), ["$-1", "$1 2"], "after {said} steps");
    }
}

#[test]
fn who_removes_the_key_meanwhile_has_removed_it() {
    let mut cluster = three();
    cluster.open(1, OTHER);
    assert_eq!(cluster.ask(1, "SET k 1"), "+OK\r\n");
    begin(&mut cluster, 1, "MOVE k 5", 4);
    cluster.ask_as(1, OTHER, "SELECT 0");
    assert_eq!(cluster.ask_as(1, OTHER, "DEL k"), ":1\r\n");
    assert_eq!(cluster.hear(1), ":0\r\n");
    assert_eq!(found(&mut cluster, 1, "k"), ["$-1", "$-1"]);
}

#[test]
fn a_key_that_is_changed_in_both_is_in_both() {
    let mut cluster = three();
    cluster.open(0, OTHER);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    begin(&mut cluster, 0, "MOVE k 5", 4);
    for (database, answer) in [("5", ":2\r\n"), ("0", ":2\r\n")] {
        cluster.ask_as(0, OTHER, &format!("SELECT {database}"));
        let heard = cluster.ask_as(0, OTHER, "INCR k");
        assert_eq!(heard, answer, "in {database}");
    }
    assert!(cluster.hear(0).contains("it is in both now"));
    assert_eq!(found(&mut cluster, 0, "k"), ["$1 2", "$1 2"]);
}

#[test]
fn a_leader_that_dies_in_between_costs_no_key() {
    for said in 1..=5 {
        let mut cluster = three();
        cluster.open(1, OTHER);
        assert_eq!(cluster.ask(1, "SET k 1"), "+OK\r\n");
        begin(&mut cluster, 1, "MOVE k 5", said);
        cluster.isolated.push(0);
        let heard = cluster.hear(1);
        let places = found(&mut cluster, 1, "k");
        match heard.as_str() {
            ":1\r\n" => assert_eq!(places, ["$-1", "$1 1"], "after {said} steps"),
            text => {
                assert!(text.starts_with("-UNKNOWN") || text.starts_with("-CLUSTERDOWN"), "{text}");
                assert!(places.contains(&"$1 1".to_owned()), "{places:?}, after {said} steps: {text}");
            }
        }
    }
}

#[test]
fn partitions_of_many_nodes_make_no_difference() {
    let mut cluster = three();
    cluster.open(2, OTHER);
    for name in ["2", "3"] {
        assert_eq!(cluster.ask(0, &format!("DICTUM.BUCKET CREATE {name} PARTITIONS 4")), "+OK\r\n");
    }
    assert_eq!(cluster.ask(2, "SELECT 2"), "+OK\r\n");
    for key in 0..12 {
        assert_eq!(cluster.ask(2, &format!("SET {key} {key}")), "+OK\r\n");
        assert_eq!(cluster.ask(2, &format!("MOVE {key} 3")), ":1\r\n");
    }
    assert_eq!(cluster.ask(2, "DBSIZE"), ":0\r\n");
    assert_eq!(cluster.ask(2, "SELECT 3"), "+OK\r\n");
    for key in 0..12 {
        assert!(cluster.ask(2, &format!("GET {key}")).ends_with(&format!("\r\n{key}\r\n")));
    }
}

#[test]
fn a_server_that_is_not_there_leaves_keys_where_they_are() {
    let mut cluster = three();
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    let said = cluster.ask(0, "MIGRATE nowhere 1 k 0 100");
    assert_eq!(said, "-IOERR error or timeout connecting to the client\r\n");
    assert_eq!(cluster.ask(0, "MIGRATE nowhere 1 absent 0 100"), "+NOKEY\r\n");
    assert_eq!(cluster.ask(0, "GET k"), "$1\r\n1\r\n");
}

#[test]
fn a_bucket_whose_reads_may_be_old_moves_what_is_true_now() {
    let mut cluster = three();
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET SET default CONSISTENCY local"), "+OK\r\n");
    cluster.open(2, OTHER);
    let hears_of_it = |cluster: &mut Cluster| {
        cluster.pass();
        cluster.ask_as(2, OTHER, "DICTUM.CONSISTENCY") == "$5\r\nlocal\r\n"
    };
    assert!((0..1000).any(|_| hears_of_it(&mut cluster)));
    cluster.isolated = vec![2];
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask_as(2, OTHER, "EXISTS k"), ":0\r\n", "as it was before");
    for line in ["COPY k l DB 5", "MOVE k 5"] {
        cluster.isolated = vec![2];
        cluster.say(2, format!("{line}\r\n").as_bytes());
        for _ in 0..30 {
            cluster.pass();
        }
        assert_eq!(cluster.heard(2, CLIENT), "", "{line}: this node's copy knows of no such key");
        cluster.isolated.clear();
        assert_eq!(cluster.hear(2), ":1\r\n", "{line}");
    }
}

#[test]
fn passwords_of_other_servers_are_shown_to_nobody() {
    let mut cluster = three();
    cluster.open(0, OTHER);
    assert_eq!(cluster.ask_as(0, OTHER, "MONITOR"), "+OK\r\n");
    for (login, shown) in [
        ("COPY AUTH secret", r#""COPY" "AUTH" "(redacted)""#),
        ("AUTH2 me secret REPLACE", r#""AUTH2" "(redacted)" "(redacted)" "REPLACE""#),
        ("REPLACE KEYS auth k", r#""REPLACE" "KEYS" "auth" "k""#),
        ("AUTH2 me", r#""AUTH2" "(redacted)""#),
    ] {
        cluster.ask(0, &format!("MIGRATE nowhere 1 \"\" 0 100 {login}"));
        let line = cluster.heard(0, OTHER);
        assert!(line.contains(&format!(r#""MIGRATE" "nowhere" "1" "" "0" "100" {shown}"#)), "{line}");
    }
}

#[test]
fn servers_that_do_not_answer_hold_up_no_other_kind() {
    let mut cluster = three();
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    let migrate = b"MIGRATE nowhere 1 absent 0 100\r\n";
    let connections = (0..ERRANDS_MAX as u64).map(|number| ConnectionId(1000 + number));
    for connection in connections.chain([OTHER]) {
        cluster.open(0, connection);
        cluster.give(0, Input::Received { connection, bytes: migrate });
    }
    assert!(cluster.heard(0, OTHER).starts_with("-CLUSTERDOWN too many keys are on their way"));
    assert_eq!(cluster.ask(0, "MOVE k 5"), ":1\r\n");
    assert_eq!(cluster.ask_as(0, OTHER, "MIGRATE nowhere 1 absent 0 100"), "+NOKEY\r\n");
}
