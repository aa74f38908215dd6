//! SLOWLOG and LATENCY: which commands count as slow, and how they are told.

use crate::common::{Cluster, alone, transcript};
use node::{ConnectionId, Input};

/// Asks, and lets `passes` times five milliseconds go by before the disk and the network do anything.
fn ask_late(cluster: &mut Cluster, line: &str, passes: u64) -> String {
    cluster.say(0, format!("{line}\r\n").as_bytes());
    cluster.now.time = cluster.now.time + std::time::Duration::from_millis(5 * passes);
    cluster.now.wall.0 += 5 * passes;
    cluster.hear(0)
}

/// A node alone that has been asked nothing slow, at a whole second.
fn quiet() -> Cluster {
    let mut cluster = alone();
    cluster.ask(0, "SLOWLOG RESET");
    cluster.now.wall.0 = 1_700_000_100_000;
    cluster
}

#[test]
fn slow_commands_are_kept_from_arrival_to_answer() {
    let mut cluster = quiet();
    // Five milliseconds are not slow, fifteen are.
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SLOWLOG LEN"), ":0\r\n");
    cluster.ask(0, "CLIENT SETNAME me");
    assert_eq!(ask_late(&mut cluster, "APPEND k 2", 2), ":2\r\n");
    assert_eq!(cluster.ask(0, "CONFIG SET slowlog-log-slower-than 5000"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.ONCE a SET k 3"), "+OK\r\n");
    for line in ["MULTI", "SET k 4", "EXEC"] {
        cluster.ask(0, line);
    }
    transcript(
        &mut cluster,
        &[
            ("SLOWLOG LEN", ":3"),
            (
                "SLOWLOG GET 2",
                "*2 | *6 | :3 | :1700000100 | :5000 | *1 | $4 | exec | $15 | 127.0.0.1:50001 | $2 | me | *6 | :2 | :1700000100 | \
                 :5000 | *5 | $11 | dictum.once | $1 | a | $3 | SET | $1 | k | $1 | 3 | $15 | 127.0.0.1:50001 | $2 | me",
            ),
            ("CONFIG SET slowlog-max-len 1", "+OK"),
            ("CONFIG SET slowlog-log-slower-than 0", "+OK"),
            // Whatever was slow before goes when the next comes.
            ("PING", "+PONG"),
            ("SLOWLOG LEN", ":1"),
            ("CONFIG SET slowlog-max-len 3", "+OK"),
            ("CONFIG SET slowlog-log-slower-than -1", "+OK"),
            ("SET k 1", "+OK"),
            ("CONFIG GET slowlog-*", "*4 | $23 | slowlog-log-slower-than | $2 | -1 | $15 | slowlog-max-len | $1 | 3"),
            ("SLOWLOG RESET", "+OK"),
            ("SLOWLOG GET -1", "*0"),
            (
                "CONFIG SET slowlog-log-slower-than -2",
                "-ERR CONFIG SET failed (possibly related to argument 'slowlog-log-slower-than') - argument must be between -1 \
                 and 9223372036854775807 inclusive",
            ),
        ],
    );
}

#[test]
fn slow_reads_and_what_was_given_up_are_kept() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(1, "SET k 1"), "+OK\r\n");
    cluster.ask(1, "CONFIG SET slowlog-log-slower-than 1000000");
    cluster.ask(1, "SLOWLOG RESET");
    cluster.ask(0, "SLOWLOG RESET");
    // Nobody hears anybody: what is asked now is never answered.
    cluster.say(1, b"GET k\r\nSET k 2\r\nGET other\r\n");
    let mut answer = String::new();
    while answer.matches("\r\n").count() < 3 {
        cluster.mail.clear();
        cluster.pass();
        answer += &cluster.heard(1, crate::common::CLIENT);
    }
    assert!(answer.starts_with("-CLUSTERDOWN") && answer.contains("-UNKNOWN"), "{answer}");
    let told = cluster.ask(1, "SLOWLOG GET");
    let words = |line: &str| told.contains(line);
    assert!(words("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n") && words("*2\r\n$3\r\nGET\r\n$5\r\nother\r\n"), "{told}");
    assert!(words("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n2\r\n"), "{told}");
    assert_eq!(cluster.ask(1, "SLOWLOG LEN"), ":3\r\n");
    // Of the node that was asked, and of no other.
    assert_eq!(cluster.ask(0, "SLOWLOG LEN"), ":0\r\n");
}

#[test]
fn long_commands_are_shortened_and_passwords_left_out() {
    let mut cluster = Cluster::with(1, |config| config.password = Some("secret".into()));
    cluster.ask(0, "AUTH secret");
    cluster.ask(0, "CONFIG SET slowlog-log-slower-than 0");
    cluster.ask(0, "SLOWLOG RESET");
    cluster.ask(0, "AUTH default secret");
    cluster.ask(0, &format!("ECHO {}", "x".repeat(200)));
    cluster.ask(0, &format!("DEL{}", " k".repeat(40)));
    let told = cluster.ask(0, "SLOWLOG GET");
    assert!(
        told.contains("$4\r\nAUTH\r\n$10\r\n(redacted)\r\n$10\r\n(redacted)\r\n") && !told.contains("secret"),
        "{told}"
    );
    assert!(told.contains(&format!("\r\n{}... (72 more bytes)\r\n", "x".repeat(128))), "{told}");
    assert!(told.contains("*32\r\n$3\r\nDEL\r\n") && told.contains("\r\n... (10 more arguments)\r\n"), "{told}");
}

#[test]
fn moments_of_latency_are_kept_by_event() {
    let mut cluster = quiet();
    ask_late(&mut cluster, "SET k 1", 10);
    assert_eq!(cluster.ask(0, "LATENCY LATEST"), "*0\r\n");
    assert!(cluster.ask(0, "LATENCY DOCTOR").contains("latency-monitor-threshold"));
    assert_eq!(cluster.ask(0, "CONFIG SET latency-monitor-threshold 20"), "+OK\r\n");
    assert!(cluster.ask(0, "LATENCY DOCTOR").contains("20 ms or longer"));
    for (line, passes, second) in
        [("SET k 2", 9, 200), ("SET k 3", 19, 200), ("APPEND k 3", 4, 201), ("SET k 4", 3, 260)]
    {
        cluster.now.wall.0 = 1_700_000_000_000 + second * 1000;
        ask_late(&mut cluster, line, passes);
    }
    transcript(
        &mut cluster,
        &[
            (
                "LATENCY LATEST",
                "*3 | *4 | $16 | aof-fsync-always | :1700000260 | :20 | :100 | *4 | $7 | command | :1700000260 | :20 | :100 | \
                 *4 | $12 | fast-command | :1700000201 | :25 | :25",
            ),
            ("LATENCY HISTORY COMMAND", "*2 | *2 | :1700000200 | :100 | *2 | :1700000260 | :20"),
            ("LATENCY HISTORY nosuch", "*0"),
            ("LATENCY RESET fast-command nosuch", ":1"),
            ("LATENCY HISTORY fast-command", "*0"),
        ],
    );
    let graph = cluster.ask(0, "LATENCY GRAPH command");
    let (_, drawn) = graph.split_once("\r\n").unwrap();
    let line = "-".repeat(80);
    let expected =
        format!("command - high 100 ms, low 20 ms (all time high 100 ms)\n{line}\n#\n#\n#\n##\n10\nms\n\r\n");
    assert_eq!(drawn, expected);
    assert!(
        cluster
            .ask(0, "LATENCY DOCTOR")
            .contains("command: 2 seconds with such moments, on average 60 ms, at most 100 ms.")
    );
    assert_eq!(cluster.ask(0, "LATENCY RESET"), ":2\r\n");
    assert_eq!(cluster.ask(0, "LATENCY LATEST"), "*0\r\n");
}

#[test]
fn what_a_slow_client_does_not_read_is_not_slow() {
    let mut cluster = quiet();
    cluster.open(0, ConnectionId(2));
    // Half a command has not arrived.
    cluster.give(0, Input::Received { connection: ConnectionId(2), bytes: b"*2\r\n$3\r\nGET\r\n$1\r\n" });
    for _ in 0..100 {
        cluster.pass();
    }
    cluster.give(0, Input::Received { connection: ConnectionId(2), bytes: b"k\r\n" });
    assert_eq!(cluster.hear_as(0, ConnectionId(2)), "$1\r\nv\r\n");
    assert_eq!(cluster.ask(0, "SLOWLOG LEN"), ":0\r\n");
}
