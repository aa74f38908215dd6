//! Clients that end their side or are gone: what they have sent is carried out, and nothing is taken for them.

use crate::common::{Cluster, alone};
use node::{ConnectionId, Input};

const A: ConnectionId = ConnectionId(11);
const B: ConnectionId = ConnectionId(12);

fn pass(cluster: &mut Cluster, times: usize) {
    for _ in 0..times {
        cluster.pass();
    }
}

fn receive(cluster: &mut Cluster, me: u16, connection: ConnectionId, text: &str) {
    cluster.give(me, Input::Received { connection, bytes: text.as_bytes() });
}

/// A new connection says something, and nothing is heard of it for a while.
fn wait(cluster: &mut Cluster, me: u16, connection: ConnectionId, line: &str) {
    cluster.open(me, connection);
    receive(cluster, me, connection, &format!("{line}\r\n"));
    pass(cluster, 20);
    assert_eq!(cluster.heard(me, connection), "", "{line}");
}

/// How a client goes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Departure {
    Ended,
    EndedBehindBytes,
    Closed,
    Killed,
}

const DEPARTURES: [Departure; 4] =
    [Departure::Ended, Departure::EndedBehindBytes, Departure::Closed, Departure::Killed];

fn depart(cluster: &mut Cluster, me: u16, connection: ConnectionId, how: Departure) {
    match how {
        Departure::Ended => cluster.give(me, Input::Ended { connection, all_read: true }),
        Departure::EndedBehindBytes => cluster.give(me, Input::Ended { connection, all_read: false }),
        Departure::Closed => cluster.give(me, Input::Closed { connection }),
        Departure::Killed => {
            assert_eq!(cluster.ask(me, &format!("CLIENT KILL ID {}", connection.0)), ":1\r\n");
        }
    }
    pass(cluster, 1);
    let is_closed = cluster.closed.contains(&(me, connection));
    assert_eq!(is_closed, how != Departure::Closed, "{how:?}: the node has the owner close it");
}

/// Commands that wait, with what is written for them, and what is there if nobody has taken it.
const WAITING: [(&str, &str, &str, &str); 9] = [
    ("BLPOP q 0", "RPUSH q x", "LRANGE q 0 -1", "*1\r\n$1\r\nx\r\n"),
    ("BRPOP q 0", "RPUSH q x", "LRANGE q 0 -1", "*1\r\n$1\r\nx\r\n"),
    ("BLMPOP 0 1 q LEFT", "RPUSH q x", "LRANGE q 0 -1", "*1\r\n$1\r\nx\r\n"),
    ("BLMOVE q r LEFT LEFT 0", "RPUSH q x", "LRANGE q 0 -1", "*1\r\n$1\r\nx\r\n"),
    ("BRPOPLPUSH q r 0", "RPUSH q x", "LRANGE q 0 -1", "*1\r\n$1\r\nx\r\n"),
    ("BZPOPMIN q 0", "ZADD q 1 x", "ZRANGE q 0 -1", "*1\r\n$1\r\nx\r\n"),
    ("BZPOPMAX q 0", "ZADD q 1 x", "ZRANGE q 0 -1", "*1\r\n$1\r\nx\r\n"),
    ("BZMPOP 0 1 q MIN", "ZADD q 1 x", "ZRANGE q 0 -1", "*1\r\n$1\r\nx\r\n"),
    ("XREADGROUP GROUP g a BLOCK 0 STREAMS q >", "XADD q 1-0 f v", "XPENDING q g", "*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n"),
];

#[test]
fn nothing_is_taken_for_a_client_that_is_gone() {
    for how in DEPARTURES {
        for (waits, writes, looks, there) in WAITING {
            let mut cluster = alone();
            if waits.starts_with("XREADGROUP") {
                assert_eq!(cluster.ask(0, "XGROUP CREATE q g $ MKSTREAM"), "+OK\r\n");
            }
            wait(&mut cluster, 0, A, waits);
            depart(&mut cluster, 0, A, how);
            cluster.ask(0, writes);
            pass(&mut cluster, 20);
            assert_eq!(cluster.ask(0, looks), there, "{how:?}: {waits}");
        }
    }
}

#[test]
fn what_the_dead_one_does_not_take_is_for_the_next() {
    for how in DEPARTURES {
        let mut cluster = Cluster::new(3);
        assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
        assert_eq!(cluster.ask(1, "SET k 1"), "+OK\r\n");
        wait(&mut cluster, 1, A, "BLPOP q 0");
        wait(&mut cluster, 1, B, "BLPOP q 0");
        depart(&mut cluster, 1, A, how);
        assert_eq!(cluster.ask(0, "RPUSH q x"), ":1\r\n");
        assert_eq!(cluster.hear_as(1, B), "*2\r\n$1\r\nq\r\n$1\r\nx\r\n", "{how:?}");
    }
}

#[test]
fn a_command_on_its_way_waits_for_nobody() {
    for how in DEPARTURES {
        let mut cluster = alone();
        cluster.open(0, A);
        assert_eq!(cluster.ask_as(0, A, "PING"), "+PONG\r\n");
        cluster.stalled = vec![0];
        receive(&mut cluster, 0, A, "BLPOP q 0\r\n");
        match how {
            Departure::Ended => cluster.give(0, Input::Ended { connection: A, all_read: true }),
            Departure::EndedBehindBytes => cluster.give(0, Input::Ended { connection: A, all_read: false }),
            Departure::Closed | Departure::Killed => depart(&mut cluster, 0, A, how),
        }
        cluster.stalled.clear();
        pass(&mut cluster, 20);
        assert!(how == Departure::Closed || cluster.closed.contains(&(0, A)), "{how:?}");
        assert_eq!(cluster.ask(0, "RPUSH q x"), ":1\r\n");
        pass(&mut cluster, 20);
        assert_eq!(cluster.ask(0, "LLEN q"), ":1\r\n", "{how:?}");
    }
}

/// The leader is cut off with a waiting command that was sent to it: the next leader does not get it.
#[test]
fn a_command_of_a_client_that_is_gone_goes_to_no_further_leader() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "SET k 1"), "+OK\r\n");
    wait(&mut cluster, 1, A, "BLPOP q 0");
    cluster.isolated = vec![0];
    pass(&mut cluster, 1);
    cluster.open(1, B);
    receive(&mut cluster, 1, B, "BLPOP q 0\r\n");
    pass(&mut cluster, 2);
    cluster.give(1, Input::Ended { connection: B, all_read: true });
    cluster.give(1, Input::Ended { connection: A, all_read: true });
    pass(&mut cluster, 1000);
    assert_eq!(cluster.ask(2, "RPUSH q x"), ":1\r\n");
    cluster.isolated.clear();
    pass(&mut cluster, 200);
    assert_eq!(cluster.ask(2, "LLEN q"), ":1\r\n");
}

#[test]
fn what_was_sent_completely_is_answered_before_the_connection_is_closed() {
    let mut cluster = alone();
    cluster.open(0, A);
    receive(&mut cluster, 0, A, "PING\r\nINCR n\r\nWATCH n\r\nGET n\r\nCLIENT REPLY OFF\r\nINCR n\r\nINC");
    cluster.give(0, Input::Ended { connection: A, all_read: true });
    assert!(!cluster.closed.contains(&(0, A)));
    pass(&mut cluster, 20);
    assert_eq!(cluster.heard(0, A), "+PONG\r\n:1\r\n+OK\r\n$1\r\n1\r\n");
    assert!(cluster.closed.contains(&(0, A)));
    assert_eq!(cluster.ask(0, "GET n"), "$1\r\n2\r\n");
}

#[test]
fn many_commands_before_the_end_are_carried_out() {
    let mut cluster = alone();
    cluster.open(0, A);
    let count = 3 * base::limits::CONNECTION_PENDING_MAX / 2;
    receive(&mut cluster, 0, A, &"INCR n\r\n".repeat(count));
    cluster.give(0, Input::Ended { connection: A, all_read: true });
    pass(&mut cluster, 50);
    let heard = cluster.heard(0, A);
    assert!(heard.ends_with(&format!(":{count}\r\n")), "{}", &heard[heard.len().saturating_sub(40)..]);
    assert!(cluster.closed.contains(&(0, A)));
}

#[test]
fn a_client_that_has_ended_and_then_would_wait_is_let_go() {
    for line in ["BLPOP q 0", "WAIT 3 0", "XREAD BLOCK 0 STREAMS s $"] {
        let mut cluster = alone();
        cluster.open(0, A);
        receive(&mut cluster, 0, A, &format!("SET k 1\r\n{line}\r\nSET k 2\r\n"));
        cluster.give(0, Input::Ended { connection: A, all_read: true });
        pass(&mut cluster, 20);
        assert_eq!(cluster.heard(0, A), "+OK\r\n", "{line}");
        assert!(cluster.closed.contains(&(0, A)), "{line}");
        assert_eq!(cluster.ask(0, "GET k"), "$1\r\n1\r\n", "{line}");
    }
    // It looks once, as Redis does.
    let mut cluster = alone();
    assert_eq!(cluster.ask(0, "RPUSH q x"), ":1\r\n");
    cluster.open(0, A);
    receive(&mut cluster, 0, A, "BLPOP q 0\r\n");
    pass(&mut cluster, 20);
    cluster.give(0, Input::Ended { connection: A, all_read: true });
    assert_eq!(cluster.heard(0, A), "*2\r\n$1\r\nq\r\n$1\r\nx\r\n");
    assert!(cluster.closed.contains(&(0, A)));
}

#[test]
fn an_idle_or_listening_client_that_ends_is_closed_at_once() {
    for line in ["PING", "SUBSCRIBE news", "MULTI", "MONITOR"] {
        let mut cluster = alone();
        cluster.open(0, A);
        receive(&mut cluster, 0, A, &format!("{line}\r\n"));
        pass(&mut cluster, 5);
        cluster.give(0, Input::Ended { connection: A, all_read: false });
        assert!(!cluster.closed.contains(&(0, A)), "{line}: more is to come");
        cluster.give(0, Input::Ended { connection: A, all_read: true });
        assert!(cluster.closed.contains(&(0, A)), "{line}");
    }
}
