//! Writes that look first: what changes nothing makes no entry, and the order of a connection's commands is what it was.

use crate::common::{Cluster, alone, bulk, field};
use node::ConnectionId;

const OTHER: ConnectionId = ConnectionId(2);

/// Entries applied so far at a node.
fn applied(cluster: &mut Cluster, me: u16) -> u64 {
    let info = cluster.ask_as(me, OTHER, "INFO dictum");
    field(bulk(&info), "dictum_applied").and_then(|count| count.parse().ok()).expect("a number")
}

/// Says lines at once, and waits until so many bytes are answered.
fn ask_all(cluster: &mut Cluster, me: u16, lines: &str, expected: &str) {
    cluster.say(me, lines.as_bytes());
    let mut heard = String::new();
    while heard.len() < expected.len() {
        heard += &cluster.hear(me);
    }
    assert_eq!(heard, expected, "{lines}");
}

#[test]
fn who_polls_what_is_empty_makes_one_entry() {
    let mut cluster = Cluster::new(3);
    (0..3).for_each(|me| cluster.open(me, OTHER));
    for me in 0..3 {
        assert_eq!(cluster.ask(me, "LPOP jobs"), "$-1\r\n", "an entry: nobody knows yet that it is empty");
        let before = applied(&mut cluster, me);
        for line in ["LPOP jobs", "SPOP set", "ZPOPMIN z", "DEL jobs set", "EXPIRE jobs 10", "ZREMRANGEBYSCORE z 0 10"]
        {
            assert!(["$-1\r\n", "*0\r\n", ":0\r\n"].contains(&&*cluster.ask(me, line)), "{line}");
            assert_eq!(applied(&mut cluster, me), before, "{line}");
        }
        assert_eq!(applied(&mut cluster, me), before);
        // What comes is found, and by an entry.
        assert_eq!(cluster.ask_as((me + 1) % 3, OTHER, "RPUSH jobs a b"), ":2\r\n");
        assert_eq!(cluster.ask(me, "LPOP jobs"), "$1\r\na\r\n");
        assert_eq!(cluster.ask(me, "LPOP jobs"), "$1\r\nb\r\n");
        assert_eq!(applied(&mut cluster, me), before + 3);
    }
}

#[test]
fn what_is_there_already_is_not_written_again() {
    let mut cluster = alone();
    cluster.open(0, OTHER);
    for (first, again) in [("SADD s a b", "SADD s b a"), ("ZADD z 1 a", "ZADD z 1 a"), ("SETNX n 1", "SETNX n 2")] {
        cluster.ask(0, first);
        assert_eq!(cluster.ask(0, again), ":0\r\n");
        let before = applied(&mut cluster, 0);
        assert_eq!(cluster.ask(0, again), ":0\r\n", "{again}");
        assert_eq!(applied(&mut cluster, 0), before, "{again}");
    }
    // An error is an answer, too, and takes no entry either.
    let before = applied(&mut cluster, 0);
    assert!(cluster.ask(0, "SADD k a").starts_with("-WRONGTYPE"));
    assert_eq!(applied(&mut cluster, 0), before);
    assert_eq!(cluster.ask(0, "ZADD z 2 a"), ":0\r\n", "another score is a change");
    assert_eq!(cluster.ask(0, "ZSCORE z a"), "$1\r\n2\r\n");
}

#[test]
fn pipelined_commands_keep_their_order() {
    let mut cluster = Cluster::new(3);
    cluster.ask(1, "SPOP s");
    // The first two look; SADD waits for them; what stands behind it sees it.
    ask_all(
        &mut cluster,
        1,
        "SPOP s\r\nLPOP l\r\nSADD s x\r\nSCARD s\r\nSPOP s\r\nSPOP s\r\n",
        "$-1\r\n$-1\r\n:1\r\n:1\r\n$1\r\nx\r\n$-1\r\n",
    );
    // A look that finds something becomes a write, and those behind it do; reads stay between them.
    cluster.open(2, OTHER);
    cluster.ask_as(2, OTHER, "RPUSH l a b");
    cluster.ask_as(2, OTHER, "SADD s y");
    ask_all(
        &mut cluster,
        1,
        "LPOP none\r\nGET k\r\nLPOP l\r\nLLEN l\r\nSPOP s\r\nSCARD s\r\nLPOP l\r\nLLEN l\r\nMULTI\r\nLLEN l\r\nINCR n\r\nEXEC\r\nLPOP l\r\nGET n\r\n",
        "$-1\r\n$-1\r\n$1\r\na\r\n:1\r\n$1\r\ny\r\n:0\r\n$1\r\nb\r\n:0\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:0\r\n:1\r\n$-1\r\n$1\r\n1\r\n",
    );
    cluster.ask(1, "LPOP l");
    ask_all(
        &mut cluster,
        1,
        "LPOP l\r\nMULTI\r\nRPUSH l c\r\nEXEC\r\nLPOP l\r\nPUBLISH p m\r\nLPOP l\r\nWAIT 2 0\r\n",
        "$-1\r\n+OK\r\n+QUEUED\r\n*1\r\n:1\r\n$1\r\nc\r\n:0\r\n$-1\r\n:2\r\n",
    );
}

#[test]
fn what_is_due_is_gone() {
    let mut cluster = alone();
    cluster.ask(0, "SETNX k v");
    cluster.ask(0, "SETNX k v");
    assert_eq!(cluster.ask(0, "PEXPIRE k 100"), ":1\r\n");
    cluster.ask(0, "SETNX k w");
    for _ in 0..100 {
        cluster.pass();
    }
    assert_eq!(cluster.ask(0, "SETNX k w"), ":1\r\n", "looked at by a clock by which it is gone");
    assert_eq!(cluster.ask(0, "GET k"), "$1\r\nw\r\n");
}
