//! Large writes take turns: small ones pass those that wait, nobody is forgotten, and nobody waits for ever.

use crate::common::{CLIENT, Cluster};
use node::{ConnectionId, Input, LargeWriteSettings};

const A: ConnectionId = ConnectionId(11);
const B: ConnectionId = ConnectionId(12);
const C: ConnectionId = ConnectionId(13);

/// A node alone for which 100 bytes are many.
fn narrow() -> Cluster {
    let settings = LargeWriteSettings { from_bytes: 100, on_the_way_bytes: 100 };
    let mut cluster = Cluster::with(1, |config| config.large_writes = settings);
    assert_eq!(cluster.ask(0, "SET k 0"), "+OK\r\n");
    for connection in [A, B, C] {
        cluster.open(0, connection);
    }
    cluster
}

fn append(what: &str) -> String {
    format!("APPEND k {}", what.repeat(200))
}

#[test]
fn a_small_write_passes_those_that_wait() {
    let mut cluster = narrow();
    cluster.stalled = vec![0];
    cluster.say_as(0, A, &append("a"));
    cluster.say_as(0, B, &format!("{}\r\nAPPEND k 1\r\nGETRANGE k -1 -1", append("b")));
    cluster.say_as(0, C, &append("c"));
    cluster.say_as(0, CLIENT, "APPEND k s");
    for _ in 0..20 {
        cluster.pass();
    }
    cluster.stalled.clear();
    assert_eq!(cluster.hear(0), ":202\r\n", "behind the first, before the others");
    assert_eq!(cluster.hear_as(0, A), ":201\r\n");
    // The commands of a connection behind a large write stay behind it.
    let mut heard = String::new();
    while heard.lines().count() < 4 {
        heard += &cluster.hear_as(0, B);
    }
    assert!(heard.starts_with(":402\r\n"), "{heard}");
    assert!(heard.ends_with("$1\r\n1\r\n") || heard.ends_with("$1\r\nc\r\n"), "{heard}");
    let third = cluster.hear_as(0, C);
    assert!([":602\r\n", ":603\r\n"].contains(&third.as_str()), "{third}");
    assert_eq!(cluster.ask(0, "STRLEN k"), ":603\r\n");
}

#[test]
fn a_transaction_waits_as_a_whole_and_a_read_never() {
    let mut cluster = narrow();
    cluster.stalled = vec![0];
    cluster.say_as(0, A, &append("a"));
    let half = "x".repeat(60);
    assert_eq!(cluster.ask_as(0, B, "MULTI"), "+OK\r\n");
    for _ in 0..2 {
        assert_eq!(cluster.ask_as(0, B, &format!("APPEND k {half}")), "+QUEUED\r\n");
    }
    cluster.say_as(0, B, "EXEC");
    cluster.say_as(0, CLIENT, "APPEND k s");
    assert!(cluster.ask_as(0, C, &format!("MGET {}", "y ".repeat(100))).starts_with("*100\r\n"));
    cluster.stalled.clear();
    assert_eq!(cluster.hear(0), ":202\r\n");
    assert_eq!(cluster.hear_as(0, B), "*2\r\n:262\r\n:322\r\n");
}

#[test]
fn those_that_leave_hold_up_nobody() {
    let mut cluster = narrow();
    cluster.stalled = vec![0];
    for connection in [A, B, C] {
        cluster.say_as(0, connection, &append("x"));
    }
    cluster.give(0, Input::Closed { connection: B });
    cluster.stalled.clear();
    assert_eq!(cluster.hear_as(0, A), ":201\r\n");
    assert_eq!(cluster.hear_as(0, C), ":401\r\n");
}

/// Nobody waits longer than a request may, and half of that for an outcome.
#[test]
fn a_wait_has_an_end() {
    let mut cluster = narrow();
    let many: Vec<ConnectionId> = (20..30).map(ConnectionId).collect();
    cluster.stalled = vec![0];
    for connection in &many {
        cluster.open(0, *connection);
        cluster.say_as(0, *connection, &append("x"));
        cluster.say_as(0, *connection, "PING");
    }
    // The first is given up after five seconds. All others have waited for as long, or almost: one of them had half of the time.
    for _ in 0..(7_600 / 5) {
        cluster.pass();
    }
    let heard: Vec<String> = many.iter().map(|connection| cluster.heard(0, *connection)).collect();
    let are = |word: &str| heard.iter().filter(|text| text.starts_with(word) && text.ends_with("+PONG\r\n")).count();
    let (unknown, refused) = (are("-UNKNOWN the outcome"), are("-CLUSTERDOWN too many bytes of writes"));
    assert!((1..=2).contains(&unknown) && unknown + refused == 10, "{heard:?}");
    cluster.stalled.clear();
    let length = format!(":{}\r\n", 1 + 200 * (unknown + 1));
    assert_eq!(cluster.ask_as(0, A, &append("a")), length, "what was in the log was carried out, late");
}

/// Published messages are in no log.
#[test]
fn a_large_message_does_not_wait() {
    let mut cluster = narrow();
    cluster.stalled = vec![0];
    cluster.say_as(0, A, &append("a"));
    assert_eq!(cluster.ask_as(0, B, &format!("PUBLISH c {}", "x".repeat(200))), ":0\r\n");
}
