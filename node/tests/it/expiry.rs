//! Keys and fields whose time is up go as fast as they come, whatever that rate is.

use crate::common::{CLIENT, Cluster, alone, bulk, field};
use base::limits::EXPIRE_BATCH_MAX;
use base::versions::OLDEST;
use std::time::Duration;

/// Keys that are written in each step of five milliseconds: a hundred thousand a second, ten times as many as had time to expire once.
const KEYS_PER_STEP: usize = 500;
const STEPS: usize = 200;

fn figure(cluster: &mut Cluster, section: &str, name: &str) -> u64 {
    let answer = cluster.ask(0, &format!("INFO {section}"));
    field(bulk(&answer), name).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Writes keys that live for 100 ms, at a high rate; the most of them that were there at once.
fn load(cluster: &mut Cluster) -> u64 {
    let mut most = 0;
    for step in 0..STEPS {
        let pairs = (0..KEYS_PER_STEP).map(|key| format!(" {step}-{key} v")).collect::<String>();
        cluster.say(0, format!("MSETEX {KEYS_PER_STEP}{pairs} PX 100\r\n").as_bytes());
        cluster.pass();
        cluster.heard_bytes(0, CLIENT);
        if step % 20 == 19 {
            most = most.max(stored(cluster));
        }
    }
    most
}

/// Keys that the state holds, those whose time is up among them.
fn stored(cluster: &mut Cluster) -> u64 {
    let answer = cluster.ask(0, "INFO keyspace");
    let keys = answer.split_once("keys=").and_then(|(_, rest)| rest.split(',').next());
    keys.and_then(|keys| keys.parse().ok()).unwrap_or_default()
}

/// How long it takes until so many keys have expired.
fn time_until_expired(cluster: &mut Cluster, count: u64) -> Duration {
    let begun = cluster.now.time;
    for _ in 0..4000 {
        if figure(cluster, "stats", "expired_keys") == count {
            break;
        }
        cluster.pass();
    }
    assert_eq!(figure(cluster, "stats", "expired_keys"), count);
    cluster.now.time.since(begun)
}

#[test]
fn expiry_keeps_up_with_a_high_rate_of_writes() {
    for count in [1, 3] {
        let mut cluster = Cluster::new(count);
        assert_eq!(cluster.ask(0, "SET stays v"), "+OK\r\n");
        let most = load(&mut cluster);
        let written = (KEYS_PER_STEP * STEPS) as u64;
        assert!(
            most < written / 2,
            "{most} of {written} keys were there at once, and each lives for a tenth of the time"
        );
        let took = time_until_expired(&mut cluster, written);
        assert!(took < Duration::from_millis(500), "{took:?} after the last write");
        assert_eq!(cluster.ask(0, "DBSIZE"), ":1\r\n");
    }
}

#[test]
fn it_does_so_while_some_nodes_are_of_an_earlier_version() {
    // Then an entry removes a thousand keys, and the next one follows at once.
    let mut cluster = Cluster::with(3, |config| config.newest = OLDEST);
    assert_eq!(cluster.ask(0, "SET stays v"), "+OK\r\n");
    let names = |from: usize| (from..from + 5000).map(|key| format!(" {key} v")).collect::<String>();
    for from in (0..20_000).step_by(5000) {
        assert_eq!(cluster.ask(0, &format!("MSET{}", names(from))), "+OK\r\n");
    }
    // There is no command of that version which gives many keys a deadline: pipelined, they arrive as fast.
    let deadlines = (0..20_000).map(|key| format!("PEXPIRE {key} 20\r\n")).collect::<String>();
    cluster.say(0, deadlines.as_bytes());
    let begun = cluster.now.time;
    let mut answered = 0;
    while answered < ":1\r\n".len() * 20_000 {
        cluster.pass();
        answered += cluster.heard_bytes(0, CLIENT).len();
        assert!(cluster.now.time.since(begun) < Duration::from_secs(10));
    }
    time_until_expired(&mut cluster, 20_000);
    let took = cluster.now.time.since(begun);
    let paused = Duration::from_millis(100) * (20_000 / EXPIRE_BATCH_MAX) as u32;
    assert!(took < paused / 3, "{took:?}; with a pause after each entry it is {paused:?}");
}

#[test]
fn fields_of_hashes_go_as_fast() {
    let mut cluster = alone();
    for hash in 0..8 {
        let mut words: Vec<String> =
            ["HSETEX", &format!("h{hash}"), "PX", "50", "FIELDS", "10000"].map(str::to_owned).into();
        words.extend((0..10_000).flat_map(|field| [field.to_string(), "v".to_owned()]));
        let command = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect::<String>();
        cluster.say(0, format!("*{}\r\n{command}", words.len()).as_bytes());
        assert_eq!(cluster.hear(0), ":1\r\n");
    }
    // Eighty thousand fields: at ten thousand a second it was eight seconds.
    let took = time_until_expired(&mut cluster, 8);
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(cluster.ask(0, "DBSIZE"), ":1\r\n");
}
