//! What a node observes of its clients: how long commands take, and when keys were last used.

use crate::common::{Cluster, alone, bulk, transcript};
use node::ConnectionId;
use std::time::Duration;

fn later(cluster: &mut Cluster, by: Duration) {
    cluster.now.time = cluster.now.time + by;
    cluster.now.wall.0 += by.as_millis() as u64;
}

#[test]
fn durations_are_told_by_command() {
    let mut cluster = alone();
    cluster.ask(0, "CONFIG RESETSTAT");
    // The way to the disk takes five milliseconds here.
    for _ in 0..3 {
        cluster.ask(0, "SET k v");
    }
    for line in ["GET k", "CONFIG GET save", "OBJECT ENCODING k", "MULTI", "INCR n", "EXEC", "NOSUCH"] {
        cluster.ask(0, line);
    }
    transcript(
        &mut cluster,
        &[
            (
                "LATENCY HISTOGRAM set nosuch",
                "*2 | $3 | set | *4 | $5 | calls | :3 | $14 | histogram_usec | *2 | :8454 | :3",
            ),
            (
                "LATENCY HISTOGRAM EXEC",
                "*2 | $4 | exec | *4 | $5 | calls | :1 | $14 | histogram_usec | *2 | :8454 | :1",
            ),
            (
                "LATENCY HISTOGRAM object",
                "*2 | $15 | object|encoding | *4 | $5 | calls | :1 | $14 | histogram_usec | *2 | :1 | :1",
            ),
            (
                "LATENCY HISTOGRAM config|get",
                "*2 | $10 | config|get | *4 | $5 | calls | :1 | $14 | histogram_usec | *2 | :1 | :1",
            ),
            ("LATENCY HISTOGRAM incr", "*0"),
        ],
    );
    let stats = cluster.ask(0, "INFO latencystats");
    let line = bulk(&stats).lines().find(|line| line.starts_with("latency_percentiles_usec_set:"));
    assert_eq!(line, Some("latency_percentiles_usec_set:p50=5242.879,p99=5242.879,p99.9=5242.879"));
    assert!(!cluster.ask(0, "INFO").contains("latency_percentiles"), "only who asks for it is told");
    assert_eq!(cluster.ask(0, "CONFIG SET latency-tracking no"), "+OK\r\n");
    cluster.ask(0, "SET k v");
    transcript(
        &mut cluster,
        &[
            ("LATENCY HISTOGRAM set", "*2 | $3 | set | *4 | $5 | calls | :3 | $14 | histogram_usec | *2 | :8454 | :3"),
            ("CONFIG GET latency-tracking", "*2 | $16 | latency-tracking | $2 | no"),
            ("INFO latencystats", "$16 | # Latencystats | "),
            ("CONFIG RESETSTAT", "+OK"),
            ("LATENCY HISTOGRAM", "*0"),
            (
                "CONFIG SET latency-tracking maybe",
                "-ERR CONFIG SET failed (possibly related to argument 'latency-tracking') - argument must be 'yes' or 'no'",
            ),
        ],
    );
}

#[test]
fn keys_are_idle_until_they_are_used() {
    let mut cluster = Cluster::new(3);
    for line in ["SET a 1", "HSET h f v", "SADD s m"] {
        cluster.ask(0, line);
    }
    let idle = |cluster: &mut Cluster, key: &str| {
        let answer = cluster.ask(0, &format!("OBJECT IDLETIME {key}"));
        answer.trim_matches([':', '\r', '\n']).parse::<u64>().unwrap_or_else(|_| panic!("{answer}"))
    };
    for (line, key, is_used) in [
        ("TTL a", "a", false),
        ("TYPE a", "a", false),
        ("EXISTS a", "a", false),
        ("MEMORY USAGE a", "a", false),
        ("OBJECT ENCODING a", "a", false),
        ("GET missing", "a", false),
        ("GET a", "a", true),
        ("MGET x a", "a", true),
        ("TOUCH a", "a", true),
        ("APPEND a 2", "a", true),
        ("EXPIRE a 1000", "a", true),
        ("HGET h f", "h", true),
        ("HDEL h nothing", "h", true),
        ("SADD s n", "s", true),
        ("SPOP s", "s", true),
    ] {
        later(&mut cluster, Duration::from_millis(9200));
        assert!(idle(&mut cluster, key) >= 9, "before {line}");
        cluster.ask(0, line);
        let after = idle(&mut cluster, key);
        assert_eq!(after == 0, is_used, "{line}: {after}");
    }
    later(&mut cluster, Duration::from_millis(5200));
    cluster.ask(0, "CLIENT NO-TOUCH ON");
    cluster.ask(0, "GET a");
    assert!(idle(&mut cluster, "a") >= 5, "this client does not use what it reads");
    cluster.ask(0, "TOUCH h");
    assert_eq!(idle(&mut cluster, "h"), 0, "unless it says so");
    // Another node has heard of the writes, and of no reads here.
    cluster.open(1, ConnectionId(7));
    cluster.ask_as(1, ConnectionId(7), "GET a");
    assert!(idle(&mut cluster, "a") >= 5);
}
