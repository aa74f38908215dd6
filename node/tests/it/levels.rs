//! Levels of durability and consistency, as a connection asks for them. That they hold under faults the simulator shows.

use crate::common::{CLIENT, Cluster, bulk};
use base::NodeId;
use node::{ConnectionId, Input};

const OTHER: ConnectionId = ConnectionId(2);

/// The node that is neither the leader nor asked in these tests.
const THIRD: u16 = 2;

/// Three nodes of which the first leads.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.nodes[1].leader(base::PartitionId::default()).map(|(id, _)| id), Some(NodeId(0)));
    for me in 0..3 {
        assert_eq!(cluster.ask(me, "GET k"), "$1\r\n1\r\n");
    }
    cluster
}

/// Nothing arrives at the client of this node for a while.
fn hears_nothing(cluster: &mut Cluster, me: u16, connection: ConnectionId) {
    for _ in 0..30 {
        cluster.pass();
        assert_eq!(cluster.heard(me, connection), "");
    }
}

#[test]
fn a_write_for_all_waits_for_the_last_disk() {
    for me in [0, 1] {
        let mut cluster = cluster();
        assert_eq!(cluster.ask(me, "DICTUM.DURABILITY all"), "+OK\r\n");
        cluster.stalled = vec![THIRD];
        cluster.say(me, b"SET k 2\r\n");
        hears_nothing(&mut cluster, me, CLIENT);
        // It is done all the same, and whoever does not wait sees it.
        cluster.open(me, OTHER);
        assert_eq!(cluster.ask_as(me, OTHER, "GET k"), "$1\r\n2\r\n");
        assert_eq!(cluster.ask_as(me, OTHER, "SET l 1"), "+OK\r\n");
        cluster.stalled.clear();
        cluster.pass();
        assert_eq!(cluster.heard(me, CLIENT), "+OK\r\n", "at once: nothing waits for a ping");
        // An error has changed nothing that could be waited for.
        cluster.stalled = vec![THIRD];
        assert!(cluster.ask(me, "INCRBY k x").starts_with("-ERR value is not an integer"));
        assert_eq!(cluster.ask(me, "DICTUM.DURABILITY default"), "+OK\r\n");
        assert_eq!(cluster.ask(me, "SET k 3"), "+OK\r\n");
    }
}

#[test]
fn a_write_for_all_says_when_it_is_not_on_all() {
    let mut cluster = cluster();
    assert_eq!(cluster.ask(1, "DICTUM.DURABILITY all"), "+OK\r\n");
    cluster.stalled = vec![THIRD];
    assert!(cluster.ask(1, "SET k 2").starts_with("-NOTALL the command was done"));
    cluster.open(1, OTHER);
    assert_eq!(cluster.ask_as(1, OTHER, "GET k"), "$1\r\n2\r\n");
    // With a node that is known to be away nothing is begun.
    cluster.stalled.clear();
    cluster.isolated = vec![THIRD];
    for _ in 0..1000 {
        cluster.pass();
    }
    assert!(cluster.ask(1, "SET k 3").starts_with("-CLUSTERDOWN not every replica can be reached"));
    assert_eq!(cluster.ask_as(1, OTHER, "GET k"), "$1\r\n2\r\n");
    cluster.isolated.clear();
    for _ in 0..100 {
        cluster.pass();
    }
    assert_eq!(cluster.ask(1, "SET k 3"), "+OK\r\n");
}

#[test]
fn a_token_is_waited_for_where_the_state_is_older() {
    let mut cluster = cluster();
    assert_eq!(cluster.ask(THIRD, "DICTUM.CONSISTENCY session"), "+OK\r\n");
    assert_eq!(cluster.ask(THIRD, "GET k"), "$1\r\n1\r\n");
    cluster.isolated = vec![THIRD];
    assert_eq!(cluster.ask(0, "SET k 2"), "+OK\r\n");
    let token = bulk(&cluster.ask(0, "DICTUM.TOKEN")).to_owned();
    assert_eq!(cluster.ask(THIRD, "GET k"), "$1\r\n1\r\n", "it has seen no more, and asks nobody");
    assert_eq!(cluster.ask(THIRD, &format!("DICTUM.CONSISTENCY SESSION {token}")), "+OK\r\n");
    cluster.say(THIRD, b"GET k\r\n");
    hears_nothing(&mut cluster, THIRD, CLIENT);
    assert!(cluster.hear(THIRD).starts_with("-CLUSTERDOWN this node has not come as far as the token"));
    // Whoever does not insist on the token need not wait for anything.
    assert_eq!(cluster.ask(THIRD, "DICTUM.CONSISTENCY local"), "+OK\r\n");
    cluster.say(THIRD, b"GET k\r\n");
    assert_eq!(cluster.heard(THIRD, CLIENT), "$1\r\n1\r\n");
    assert_eq!(cluster.ask(THIRD, "DICTUM.CONSISTENCY session"), "+OK\r\n");
    cluster.say(THIRD, b"GET k\r\nDICTUM.TOKEN\r\n");
    hears_nothing(&mut cluster, THIRD, CLIENT);
    cluster.isolated.clear();
    assert_eq!(cluster.hear(THIRD), format!("$1\r\n2\r\n${}\r\n{token}\r\n", token.len()));
}

#[test]
fn a_local_read_says_how_old_it_is() {
    let mut cluster = cluster();
    assert_eq!(cluster.ask(THIRD, "DICTUM.CONSISTENCY local"), "+OK\r\n");
    assert_eq!(cluster.ask(THIRD, "GET k"), "$1\r\n1\r\n");
    cluster.isolated = vec![THIRD];
    assert_eq!(cluster.ask(0, "SET k 2"), "+OK\r\n");
    for _ in 0..200 {
        cluster.pass();
    }
    let age = |answer: String| answer.trim_start_matches(':').trim().parse::<u64>().expect("a number");
    assert_eq!(cluster.ask(THIRD, "GET k"), "$1\r\n1\r\n");
    let old = age(cluster.ask(THIRD, "DICTUM.AGE"));
    assert!((1000..3000).contains(&old), "{old} ms");
    cluster.isolated.clear();
    for _ in 0..50 {
        cluster.pass();
    }
    assert_eq!(cluster.ask(THIRD, "GET k"), "$1\r\n2\r\n");
    for _ in 0..5 {
        cluster.pass();
    }
    assert_eq!(cluster.ask(THIRD, "GET k"), "$1\r\n2\r\n");
    let new = age(cluster.ask(THIRD, "DICTUM.AGE"));
    assert!(new < 200, "{new} ms: whoever reads keeps it known");
    assert_eq!(cluster.ask(THIRD, "DICTUM.CONSISTENCY linearizable"), "+OK\r\n");
    assert_eq!(cluster.ask(THIRD, "GET k"), "$1\r\n2\r\n");
}

/// A weak read after a write of its connection sees that write, and one before does not.
#[test]
fn a_pipeline_of_weak_reads_keeps_its_order() {
    for level in ["session", "local", "linearizable"] {
        for me in 0..3 {
            let mut cluster = cluster();
            assert_eq!(cluster.ask(me, &format!("DICTUM.CONSISTENCY {level}")), "+OK\r\n");
            let lines = "GET k\r\nINCR k\r\nGET k\r\nDICTUM.CONSISTENCY linearizable\r\nINCR k\r\nGET k\r\n\
                         DICTUM.CONSISTENCY local\r\nGET k\r\nPING\r\n";
            cluster.give(me, Input::Received { connection: CLIENT, bytes: lines.as_bytes() });
            let expected = "$1\r\n1\r\n:2\r\n$1\r\n2\r\n+OK\r\n:3\r\n$1\r\n3\r\n+OK\r\n$1\r\n3\r\n+PONG\r\n";
            let mut heard = String::new();
            while heard.len() < expected.len() {
                heard.push_str(&cluster.hear(me));
            }
            assert_eq!(heard, expected, "{level} at {me}");
        }
    }
}

#[test]
fn levels_and_tokens_are_checked() {
    let mut cluster = cluster();
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE e KIND ephemeral DURABILITY all CONSISTENCY local"), "+OK\r\n");
    crate::common::transcript(
        &mut cluster,
        &[
            ("DICTUM.DURABILITY", "$16 | persist-majority"),
            ("DICTUM.CONSISTENCY", "$12 | linearizable"),
            ("DICTUM.DURABILITY some", "-ERR a durability is majority, persist-majority or all"),
            ("DICTUM.CONSISTENCY eventual", "-ERR a consistency is linearizable, session or local"),
            ("DICTUM.CONSISTENCY local 0:1", "-ERR syntax error"),
            ("DICTUM.CONSISTENCY session 1", "-ERR that is no token: DICTUM.TOKEN answers one"),
            (
                "DICTUM.CONSISTENCY session 9:1",
                "-CLUSTERDOWN this node does not know the token's bucket yet; the command was not done, try again",
            ),
            ("DICTUM.DURABILITY majority", "+OK"),
            ("DICTUM.DURABILITY", "$8 | majority"),
            ("SELECT e", "+OK"),
            ("DICTUM.CONSISTENCY session 0:1", "-ERR the token is of another bucket than the selected one"),
            (
                "DICTUM.DURABILITY persist-majority",
                "-ERR an ephemeral bucket is in memory only: its durability is majority or all",
            ),
            ("DICTUM.DURABILITY default", "+OK"),
            ("DICTUM.DURABILITY", "$3 | all"),
            ("DICTUM.CONSISTENCY", "$5 | local"),
            ("SET k e", "+OK"),
            ("GET k", "$1 | e"),
            ("SELECT 0", "+OK"),
            ("DICTUM.DURABILITY persist-majority", "+OK"),
            ("SELECT e", "+OK"),
            ("SET k f", "-ERR an ephemeral bucket is in memory only: its durability is majority or all"),
            ("RESET", "+RESET"),
            ("DICTUM.DURABILITY", "$16 | persist-majority"),
            ("MULTI", "+OK"),
            ("DICTUM.TOKEN", "-ERR Command not allowed inside a transaction"),
            ("DISCARD", "+OK"),
        ],
    );
    // What would be waited for in vain is refused when its time is up.
    assert_eq!(cluster.ask(0, "DICTUM.CONSISTENCY session 0:99999999"), "+OK\r\n");
    cluster.say(0, b"GET k\r\nSET k 9\r\n");
    let mut heard = String::new();
    while !heard.ends_with("+OK\r\n") {
        heard.push_str(&cluster.hear(0));
    }
    assert_eq!(heard, "-ERR the token stands for a state that has never been\r\n+OK\r\n");
}

#[test]
fn wait_does_not_believe_a_leader_that_is_gone() {
    let mut cluster = cluster();
    assert_eq!(cluster.ask(1, "SET k 2"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "WAIT 2 0"), ":2\r\n");
    cluster.isolated = vec![0];
    assert_eq!(cluster.ask(1, "SET k 3"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "WAIT 2 100"), ":1\r\n");
    assert_eq!(cluster.ask(1, "WAITAOF 1 1 0"), "*2\r\n:1\r\n:1\r\n");
    assert_eq!(cluster.ask(1, "WAITAOF 1 2 100"), "*2\r\n:1\r\n:1\r\n");
}

#[test]
fn what_was_seen_of_a_bucket_stays_seen_in_another_one() {
    let mut cluster = cluster();
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE many PARTITIONS 4"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SELECT many"), "+OK\r\n");
    for key in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(cluster.ask(0, &format!("SET {key} 1")), "+OK\r\n");
    }
    let of_many = cluster.ask(0, "DICTUM.TOKEN");
    assert_eq!(cluster.ask(0, "SELECT 0"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "GET k"), "$1\r\n1\r\n");
    assert_ne!(cluster.ask(0, "DICTUM.TOKEN"), of_many);
    assert_eq!(cluster.ask(0, "SELECT many"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.TOKEN"), of_many);
}
