//! Clients that wait for keys, where the pages do not reach: leaders that go, clients that leave, nodes that stop, and the order in which those who wait are served.

use crate::common::{CLIENT, Cluster, alone, bulk, field};
use node::{ConnectionId, Input};

const A: ConnectionId = ConnectionId(11);
const B: ConnectionId = ConnectionId(12);
const C: ConnectionId = ConnectionId(13);

/// Three nodes of which the first leads.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(3);
    for me in 0..3 {
        assert_eq!(cluster.ask(me, "SET k 1"), "+OK\r\n");
    }
    cluster
}

fn pass(cluster: &mut Cluster, times: usize) {
    for _ in 0..times {
        cluster.pass();
    }
}

/// New connections of a node say something, and hear nothing for a while.
fn wait(cluster: &mut Cluster, me: u16, lines: &[(ConnectionId, &str)]) {
    for (connection, line) in lines {
        cluster.open(me, *connection);
        cluster.give(me, Input::Received { connection: *connection, bytes: format!("{line}\r\n").as_bytes() });
    }
    pass(cluster, 20);
    for (connection, line) in lines {
        assert_eq!(cluster.heard(me, *connection), "", "{line}");
    }
}

fn popped(key: &str, element: &str) -> String {
    format!("*2\r\n${}\r\n{key}\r\n${}\r\n{element}\r\n", key.len(), element.len())
}

#[test]
fn who_has_waited_longest_goes_first() {
    let mut cluster = alone();
    wait(&mut cluster, 0, &[(B, "BLPOP queue 0"), (A, "BLPOP queue 0"), (C, "BLPOP queue 0")]);
    assert_eq!(cluster.ask(0, "RPUSH queue 1 2"), ":2\r\n");
    assert_eq!(cluster.hear_as(0, B), popped("queue", "1"));
    assert_eq!(cluster.hear_as(0, A), popped("queue", "2"));
    pass(&mut cluster, 10);
    assert_eq!(cluster.heard(0, C), "");
    assert_eq!(cluster.ask(0, "RPUSH queue 3"), ":1\r\n");
    assert_eq!(cluster.hear_as(0, C), popped("queue", "3"));
}

#[test]
fn what_one_does_not_take_is_for_the_next() {
    let mut cluster = alone();
    wait(&mut cluster, 0, &[(A, "BLPOP one two 0"), (B, "BLPOP two 0"), (C, "BZPOPMIN two 0")]);
    // The first of them could take either, and takes but one.
    cluster.say(0, b"MULTI\r\nRPUSH one x\r\nRPUSH two y\r\nEXEC\r\n");
    assert_eq!(cluster.hear_as(0, A), popped("one", "x"));
    assert_eq!(cluster.hear_as(0, B), popped("two", "y"));
    // Of another kind, and on the same key.
    cluster.heard(0, CLIENT);
    assert_eq!(cluster.ask(0, "ZADD two 1 z"), ":1\r\n");
    assert_eq!(cluster.hear_as(0, C), "*3\r\n$3\r\ntwo\r\n$1\r\nz\r\n$1\r\n1\r\n");
}

#[test]
fn waiting_outlives_the_leader() {
    let mut cluster = cluster();
    wait(&mut cluster, 1, &[(A, "BLPOP queue 0"), (B, "BLPOP queue 0")]);
    cluster.isolated = vec![0];
    pass(&mut cluster, 1000);
    assert_eq!(cluster.heard(1, A), "");
    assert_eq!(cluster.ask(2, "RPUSH queue x"), ":1\r\n", "the others have a new leader");
    assert_eq!(cluster.hear_as(1, A), popped("queue", "x"));
    cluster.isolated.clear();
    pass(&mut cluster, 1000);
    assert_eq!(cluster.ask(0, "RPUSH queue y"), ":1\r\n");
    assert_eq!(cluster.hear_as(1, B), popped("queue", "y"));
}

#[test]
fn of_two_nodes_the_log_decides_and_the_other_waits_on() {
    let mut cluster = cluster();
    for me in 0..3 {
        wait(&mut cluster, me, &[(A, "BLPOP queue 0")]);
    }
    let mut got = Vec::new();
    for (round, element) in ["x", "y", "z"].iter().enumerate() {
        assert_eq!(cluster.ask(0, &format!("RPUSH queue {element}")), ":1\r\n");
        pass(&mut cluster, 40);
        let heard: Vec<String> = (0..3).map(|me| cluster.heard(me, A)).filter(|heard| !heard.is_empty()).collect();
        assert_eq!(heard, [popped("queue", element)], "round {round}");
        got.extend(heard);
    }
    assert_eq!(got.len(), 3);
    assert_eq!(cluster.ask(0, "LLEN queue"), ":0\r\n");
}

#[test]
fn nothing_is_taken_for_a_client_that_is_gone() {
    let mut cluster = cluster();
    wait(&mut cluster, 1, &[(A, "BLPOP queue 0")]);
    cluster.give(1, Input::Closed { connection: A });
    assert_eq!(cluster.ask(0, "RPUSH queue x"), ":1\r\n");
    pass(&mut cluster, 50);
    assert_eq!(cluster.ask(0, "LLEN queue"), ":1\r\n");
    let info = cluster.ask(1, "INFO clients");
    assert_eq!(field(bulk(&info), "total_blocking_keys"), Some("0"));
}

#[test]
fn a_pipeline_goes_on_behind_it() {
    let mut cluster = alone();
    wait(&mut cluster, 0, &[(A, "BLPOP queue 0\r\nLLEN queue\r\nBLPOP queue 0.05\r\nECHO done")]);
    assert_eq!(cluster.ask(0, "RPUSH queue x y z"), ":3\r\n");
    pass(&mut cluster, 20);
    assert_eq!(cluster.heard(0, A), format!("{}:2\r\n{}$4\r\ndone\r\n", popped("queue", "x"), popped("queue", "y")));
    cluster.give(0, Input::Received { connection: A, bytes: b"DEL queue\r\nBLPOP queue 0.05\r\nECHO done\r\n" });
    pass(&mut cluster, 40);
    assert_eq!(cluster.heard(0, A), ":1\r\n*-1\r\n$4\r\ndone\r\n");
}

#[test]
fn others_can_end_it() {
    let mut cluster = alone();
    wait(&mut cluster, 0, &[(A, "BLPOP queue 0"), (B, "BLMOVE queue other LEFT LEFT 0"), (C, "WAIT 5 0")]);
    let info = cluster.ask(0, "INFO clients");
    assert_eq!(field(bulk(&info), "blocked_clients"), Some("3"));
    assert!(cluster.ask(0, "CLIENT LIST ID 11").contains(" flags=b "));
    for (line, answer) in [
        ("CLIENT UNBLOCK 11", ":1\r\n"),
        ("CLIENT UNBLOCK 11", ":0\r\n"),
        ("CLIENT UNBLOCK 12 ERROR", ":1\r\n"),
        ("CLIENT UNBLOCK 13 TIMEOUT", ":1\r\n"),
        ("CLIENT UNBLOCK 1", ":0\r\n"),
        ("CLIENT UNBLOCK 99", ":0\r\n"),
        ("CLIENT UNBLOCK x", "-ERR value is not an integer or out of range\r\n"),
        ("CLIENT UNBLOCK 11 SOON", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n"),
    ] {
        assert_eq!(cluster.ask(0, line), answer, "{line}");
    }
    assert_eq!(cluster.heard(0, A), "*-1\r\n");
    assert_eq!(cluster.heard(0, B), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
    assert_eq!(cluster.heard(0, C), ":0\r\n");
    assert_eq!(cluster.ask(0, "RPUSH queue x"), ":1\r\n");
    pass(&mut cluster, 10);
    assert_eq!(cluster.ask(0, "LLEN queue"), ":1\r\n", "nobody waits any more");
}

#[test]
fn who_is_unblocked_on_the_way_is_told_what_came_of_it() {
    let mut cluster = cluster();
    wait(&mut cluster, 0, &[(A, "BLPOP queue 0"), (B, "BLPOP queue 0")]);
    cluster.stalled = vec![0, 1, 2];
    cluster.open(0, C);
    cluster.give(0, Input::Received { connection: C, bytes: b"BLPOP queue 0\r\n" });
    pass(&mut cluster, 5);
    assert_eq!(cluster.ask(0, "CLIENT UNBLOCK 13 ERROR"), ":1\r\n");
    pass(&mut cluster, 5);
    assert_eq!(cluster.heard(0, C), "", "whether it takes something is not decided yet");
    cluster.stalled.clear();
    assert_eq!(cluster.hear_as(0, C), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
    assert_eq!(cluster.ask(1, "RPUSH other y"), ":1\r\n");
    cluster.stalled = vec![0, 1, 2];
    cluster.give(0, Input::Received { connection: C, bytes: b"BLPOP other 0\r\n" });
    assert_eq!(cluster.ask(0, "CLIENT UNBLOCK 13 ERROR"), ":1\r\n");
    cluster.stalled.clear();
    assert_eq!(cluster.hear_as(0, C), popped("other", "y"), "it was his already");
    assert_eq!(cluster.ask(1, "RPUSH queue x"), ":1\r\n");
    assert_eq!(cluster.hear_as(0, A), popped("queue", "x"));
}

#[test]
fn a_node_that_stops_sends_everybody_elsewhere() {
    let mut cluster = cluster();
    wait(&mut cluster, 1, &[(A, "BLPOP queue 0")]);
    cluster.give(1, Input::Stop);
    let heard = cluster.hear_as(1, A);
    assert!(heard.starts_with("-UNBLOCKED "), "{heard}");
}

#[test]
fn a_bucket_that_is_dropped_has_nothing_to_wait_for() {
    let mut cluster = cluster();
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE jobs"), "+OK\r\n");
    pass(&mut cluster, 100);
    cluster.open(1, A);
    assert_eq!(cluster.ask_as(1, A, "SELECT jobs"), "+OK\r\n");
    cluster.give(1, Input::Received { connection: A, bytes: b"BLPOP queue 0\r\n" });
    pass(&mut cluster, 20);
    assert_eq!(cluster.heard(1, A), "");
    assert_eq!(cluster.ask(0, "RPUSH queue x"), ":1\r\n", "another bucket");
    pass(&mut cluster, 20);
    assert_eq!(cluster.heard(1, A), "");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET DROP jobs CONFIRM"), "+OK\r\n");
    let heard = cluster.hear_as(1, A);
    assert!(heard.starts_with("-ERR the bucket was dropped"), "{heard}");
}

/// What XREAD answers: the entry `id` of the stream, whose only field is `f` with the value `v`.
fn entry(stream: &str, id: &str) -> String {
    format!(
        "*1\r\n*2\r\n${}\r\n{stream}\r\n*1\r\n*2\r\n${}\r\n{id}\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n",
        stream.len(),
        id.len()
    )
}

#[test]
fn all_who_read_a_stream_are_told_on_all_nodes() {
    let mut cluster = cluster();
    for me in 0..3 {
        wait(&mut cluster, me, &[(A, "XREAD BLOCK 0 STREAMS s $"), (B, "XREAD BLOCK 0 STREAMS s 3-0")]);
    }
    cluster.isolated = vec![0];
    pass(&mut cluster, 1000);
    assert_eq!(cluster.ask(2, "XADD s 1-0 f v"), "$3\r\n1-0\r\n", "the others have a new leader");
    for me in 1..3 {
        assert_eq!(cluster.hear_as(me, A), entry("s", "1-0"), "node {me}");
    }
    cluster.isolated.clear();
    assert_eq!(cluster.hear_as(0, A), entry("s", "1-0"), "it comes late");
    assert_eq!(cluster.ask(0, "XADD s 4-0 f v"), "$3\r\n4-0\r\n");
    for me in 0..3 {
        assert_eq!(cluster.hear_as(me, B), entry("s", "4-0"), "node {me}");
    }
}

#[test]
fn the_end_of_a_stream_is_where_it_was_when_nothing_was_found() {
    let mut cluster = cluster();
    assert_eq!(cluster.ask(0, "XADD s 1-0 f v"), "$3\r\n1-0\r\n");
    wait(&mut cluster, 1, &[(A, "XREAD BLOCK 0 STREAMS s $")]);
    // Node 1 hears of both at once.
    cluster.isolated = vec![1];
    assert_eq!(cluster.ask(0, "XADD s 2-0 f v"), "$3\r\n2-0\r\n");
    assert_eq!(cluster.ask(0, "XADD s 3-0 f v"), "$3\r\n3-0\r\n");
    cluster.isolated.clear();
    let heard = cluster.hear_as(1, A);
    assert!(heard.contains("\r\n2-0\r\n") && !heard.contains("\r\n1-0\r\n"), "{heard}");
}

#[test]
fn one_of_a_group_gets_what_is_new_to_it() {
    let mut cluster = cluster();
    for group in ["g", "h"] {
        assert_eq!(cluster.ask(0, &format!("XGROUP CREATE s {group} $ MKSTREAM")), "+OK\r\n");
    }
    for me in 0..2 {
        wait(
            &mut cluster,
            me,
            &[(A, "XREADGROUP GROUP g a BLOCK 0 STREAMS s >"), (B, "XREADGROUP GROUP h a BLOCK 0 STREAMS s >")],
        );
    }
    for id in ["1-0", "2-0"] {
        assert_eq!(cluster.ask(2, &format!("XADD s {id} f v")), format!("$3\r\n{id}\r\n"));
        pass(&mut cluster, 40);
        for connection in [A, B] {
            let heard: Vec<String> =
                (0..2).map(|me| cluster.heard(me, connection)).filter(|it| !it.is_empty()).collect();
            assert_eq!(heard, [entry("s", id)], "each group is told once of {id}");
        }
    }
    let info = cluster.ask(0, "INFO clients");
    assert_eq!(field(bulk(&info), "total_blocking_keys"), Some("0"));
}

#[test]
fn who_reads_a_stream_is_let_go_too() {
    let mut cluster = cluster();
    let line = "XREAD BLOCK 0 STREAMS s $";
    wait(&mut cluster, 1, &[(A, line), (B, line)]);
    let info = cluster.ask(1, "INFO clients");
    assert_eq!(field(bulk(&info), "blocked_clients"), Some("2"));
    assert_eq!(cluster.ask(1, "CLIENT UNBLOCK 11"), ":1\r\n");
    assert_eq!(cluster.heard(1, A), "*-1\r\n");
    assert_eq!(cluster.ask(1, "CLIENT UNBLOCK 12 ERROR"), ":1\r\n");
    assert_eq!(cluster.heard(1, B), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
    cluster.give(1, Input::Received { connection: A, bytes: b"XREAD BLOCK 0 STREAMS s $\r\n" });
    pass(&mut cluster, 20);
    cluster.give(1, Input::Closed { connection: A });
    assert_eq!(cluster.ask(0, "XADD s 1-0 f v"), "$3\r\n1-0\r\n");
    // The read is still on its way.
    cluster.isolated = vec![1];
    cluster.give(1, Input::Received { connection: B, bytes: b"XREAD BLOCK 0 STREAMS s $\r\n" });
    assert_eq!(cluster.ask(1, "CLIENT UNBLOCK 12"), ":1\r\n");
    assert_eq!(cluster.heard(1, B), "");
    cluster.isolated.clear();
    assert_eq!(cluster.hear_as(1, B), "*-1\r\n");
    cluster.give(1, Input::Received { connection: B, bytes: b"XREAD BLOCK 0 STREAMS s $\r\n" });
    pass(&mut cluster, 20);
    cluster.give(1, Input::Stop);
    let heard = cluster.hear_as(1, B);
    assert!(heard.starts_with("-UNBLOCKED "), "{heard}");
}

#[test]
fn what_was_waited_for_and_kept_is_told_when_it_changes() {
    let mut cluster = alone();
    cluster.open(0, A);
    cluster.ask_as(0, A, "HELLO 3");
    assert_eq!(cluster.ask_as(0, A, "CLIENT TRACKING ON"), "+OK\r\n");
    cluster.give(0, Input::Received { connection: A, bytes: b"XREAD BLOCK 0 STREAMS s $\r\n" });
    pass(&mut cluster, 5);
    assert_eq!(cluster.ask(0, "XADD s 1-0 f v"), "$3\r\n1-0\r\n");
    pass(&mut cluster, 5);
    let heard = cluster.heard(0, A);
    assert!(heard.contains("1-0"), "{heard}");
    assert_eq!(cluster.ask(0, "XADD s 2-0 f v"), "$3\r\n2-0\r\n");
    pass(&mut cluster, 5);
    assert_eq!(cluster.heard(0, A), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\ns\r\n");
}
