//! Pauses, where the pages do not reach: who leaves while one lasts, and in which order the others go on.

use crate::common::{CLIENT, alone, bulk, field};
use node::{ConnectionId, Input, Outbox};

#[test]
fn who_leaves_is_not_kept() {
    let mut cluster = alone();
    let paused = |cluster: &mut crate::common::Cluster| {
        let info = cluster.ask(0, "INFO clients");
        field(bulk(&info), "paused_clients").map(str::to_owned)
    };
    assert_eq!(cluster.ask(0, "CLIENT PAUSE 100000 WRITE"), "+OK\r\n");
    for number in 11..30 {
        cluster.open(0, ConnectionId(number));
        cluster.give(0, Input::Received { connection: ConnectionId(number), bytes: b"INCR k2\r\n" });
    }
    assert_eq!(paused(&mut cluster).as_deref(), Some("19"));
    for number in 12..30 {
        cluster.give(0, Input::Closed { connection: ConnectionId(number) });
    }
    assert_eq!(paused(&mut cluster).as_deref(), Some("1"));
    assert_eq!(cluster.ask(0, "CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(cluster.hear_as(0, ConnectionId(11)), ":1\r\n");
    assert_eq!(paused(&mut cluster).as_deref(), Some("0"));
}

#[test]
fn who_came_first_goes_on_first() {
    let mut cluster = alone();
    assert_eq!(cluster.ask(0, "CLIENT PAUSE 100000 WRITE"), "+OK\r\n");
    for number in [13, 11, 12] {
        cluster.open(0, ConnectionId(number));
        cluster.give(0, Input::Received { connection: ConnectionId(number), bytes: b"INCR k2\r\nGET k2\r\n" });
    }
    // A second pause while they wait makes them wait on.
    assert_eq!(cluster.ask(0, "CLIENT PAUSE 1"), "+OK\r\n");
    cluster.give(0, Input::Received { connection: CLIENT, bytes: b"PING\r\n" });
    for _ in 0..10 {
        cluster.pass();
    }
    assert_eq!(cluster.heard(0, CLIENT), "", "it lasts as long as the longer one, and for all");
    for _ in 0..30_000 {
        cluster.pass();
    }
    for (number, count) in [(13, 1), (11, 2), (12, 3)] {
        let heard = cluster.hear_as(0, ConnectionId(number));
        assert!(heard.starts_with(&format!(":{count}\r\n$1\r\n")), "{heard}");
    }
    assert_eq!(cluster.heard(0, CLIENT), "+PONG\r\n");
}

/// What arrives in the turn in which a block ends comes behind the command that was held back: it was carried out before that, and took its place if it had to wait itself.
#[test]
fn what_arrives_when_a_pause_ends_comes_behind_what_waited() {
    for then in ["CLIENT UNPAUSE\r\n", "CLIENT UNPAUSE\r\nCLIENT PAUSE 100000 WRITE\r\n"] {
        let mut cluster = alone();
        let waits = ConnectionId(11);
        cluster.open(0, waits);
        assert_eq!(cluster.ask(0, "CLIENT PAUSE 100000 WRITE"), "+OK\r\n");
        cluster.give(0, Input::Received { connection: waits, bytes: b"APPEND k2 a\r\n" });
        let mut out = Outbox::default();
        let ends = Input::Received { connection: CLIENT, bytes: then.as_bytes() };
        cluster.nodes[0].step(cluster.now, ends, &mut out);
        cluster.give(0, Input::Received { connection: waits, bytes: b"APPEND k2 bc\r\nGET k2\r\n" });
        cluster.give(0, Input::Received { connection: CLIENT, bytes: b"CLIENT UNPAUSE\r\n" });
        for _ in 0..20 {
            cluster.pass();
        }
        assert_eq!(cluster.heard(0, waits), ":1\r\n:3\r\n$3\r\nabc\r\n", "{then}");
    }
}
