//! A disk with too little room takes what frees some, and nothing that grows; a full one takes nothing, and says so.

use node::{DiskRoom, Input};

use crate::common::{Cluster, alone, field, pass_until, transcript};

const LOW: DiskRoom = DiskRoom::Low { missing: 100 << 20 };
const FULL: DiskRoom = DiskRoom::Full { missing: 200 << 20 };

fn set(cluster: &mut Cluster, node: u16, room: DiskRoom) {
    cluster.give(node, Input::Disk(room));
}

/// Time for everybody to hear of it.
fn settle(cluster: &mut Cluster) {
    (0..200).for_each(|_| cluster.pass());
}

#[track_caller]
fn refused(cluster: &mut Cluster, node: u16, line: &str, why: &str) {
    let answer = cluster.ask(node, line);
    assert!(answer.starts_with("-MISCONF ") && answer.contains(why), "{line}: {answer}");
}

/// Leads the default partition, as the first node sees it.
fn leader(cluster: &Cluster) -> u16 {
    cluster.nodes[0].leader(node_partition()).expect("somebody leads").0.0
}

fn node_partition() -> base::PartitionId {
    base::PartitionId::default()
}

#[test]
fn below_the_mark_what_frees_room_is_taken_and_nothing_that_grows() {
    let mut cluster = alone();
    settle(&mut cluster);
    let filled = [
        ("MSET a 1 b 2 c 3 d 4 e 5 f 6", "+OK"),
        ("RPUSH l 1 2 3 4 5 6", ":6"),
        ("SADD s 1 2 3", ":3"),
        ("ZADD z 1 a 2 b 3 c", ":3"),
        ("HSET h a 1 b 2", ":2"),
        ("XADD x 1-1 a 1", "$3 | 1-1"),
        ("XGROUP CREATE x g 0", "+OK"),
        ("JSON.SET j $ '{\"a\":[1,2],\"b\":true}'", "+OK"),
    ];
    transcript(&mut cluster, &filled);
    set(&mut cluster, 0, LOW);
    for line in [
        "SET k v",
        "APPEND a 1",
        "INCR a",
        "RPUSH l 7",
        "LMOVE l l LEFT RIGHT",
        "SADD s 4",
        "HSET h c 1",
        "HEXPIRE h 5 FIELDS 1 a",
        "RENAME a aa",
        "RENAMENX a aa",
        "SMOVE s t 1",
        "COPY a aa",
        "XADD x * a 1",
        "XGROUP CREATE x g2 0",
        "JSON.TOGGLE j $.b",
        "EVAL return(1) 0",
        "SCRIPT LOAD return(1)",
        "MSET a 1 b 2",
        "PFADD p 1",
        "SETNX new 1",
        "DICTUM.ONCE id1 SET k v",
        "BLMOVE l l LEFT RIGHT 1",
        "DICTUM.BUCKET CREATE b",
        "SELECT 3",
    ] {
        refused(&mut cluster, 0, line, "100 MiB by DEL");
    }
    let taken = [
        ("GET a", "$1 | 1"),
        ("DEL a", ":1"),
        ("UNLINK b", ":1"),
        ("GETDEL c", "$1 | 3"),
        ("DICTUM.ONCE id2 DEL d", ":1"),
        ("DICTUM.ONCE id2 DEL d", ":1"),
        ("EXPIRE e 1000", ":1"),
        ("PERSIST e", ":1"),
        ("LPOP l", "$1 | 1"),
        ("BLPOP l 1", "*2 | $1 | l | $1 | 2"),
        ("LTRIM l 1 2", "+OK"),
        ("LREM l 0 5", ":1"),
        ("SREM s 1", ":1"),
        ("ZPOPMIN z", "*2 | $1 | a | $1 | 1"),
        ("ZREMRANGEBYRANK z 0 0", ":1"),
        ("HDEL h a", ":1"),
        ("XREADGROUP GROUP g c COUNT 1 STREAMS x >", "*1 | *2 | $1 | x | *1 | *2 | $3 | 1-1 | *2 | $1 | a | $1 | 1"),
        ("XACK x g 1-1", ":1"),
        ("XDEL x 1-1", ":1"),
        ("XGROUP DESTROY x g", ":1"),
        ("JSON.DEL j $.a", ":1"),
        ("SCRIPT FLUSH", "+OK"),
        ("FUNCTION FLUSH", "+OK"),
        ("FLUSHDB", "+OK"),
        ("FLUSHALL", "+OK"),
        ("DBSIZE", ":0"),
    ];
    transcript(&mut cluster, &taken);
    // It comes back by itself.
    set(&mut cluster, 0, DiskRoom::default());
    transcript(&mut cluster, &[("SET k v", "+OK"), ("GET k", "$1 | v")]);
}

#[test]
fn a_command_that_looks_first_is_taken_or_refused_by_its_kind() {
    let mut cluster = alone();
    // It has found nothing once: the next ones look before they go to the log.
    transcript(
        &mut cluster,
        &[("DEL none", ":0"), ("SET there v", "+OK"), ("DEL none", ":0"), ("SETNX there v", ":0")],
    );
    set(&mut cluster, 0, LOW);
    transcript(&mut cluster, &[("DEL none", ":0"), ("DEL there", ":1")]);
    transcript(&mut cluster, &[("DEL none", ":0")]);
    refused(&mut cluster, 0, "SETNX there v", "DEL");
    transcript(&mut cluster, &[("GET there", "$-1")]);
}

#[test]
fn a_transaction_is_taken_if_all_of_its_commands_are() {
    let mut cluster = alone();
    transcript(&mut cluster, &[("MSET a 1 b 2", "+OK")]);
    set(&mut cluster, 0, LOW);
    transcript(
        &mut cluster,
        &[("MULTI", "+OK"), ("DEL a", "+QUEUED"), ("GET b", "+QUEUED"), ("EXEC", "*2 | :1 | $1 | 2")],
    );
    transcript(&mut cluster, &[("MULTI", "+OK"), ("DEL b", "+QUEUED"), ("SET c 1", "+QUEUED")]);
    refused(&mut cluster, 0, "EXEC", "DEL");
    transcript(&mut cluster, &[("GET b", "$1 | 2"), ("GET c", "$-1")]);
}

#[test]
fn a_script_is_taken_if_its_flags_say_so() {
    let mut cluster = alone();
    let eval = |cluster: &mut Cluster, command: &str, body: &str| {
        cluster.say(
            0,
            format!("*4\r\n${}\r\n{command}\r\n${}\r\n{body}\r\n$1\r\n1\r\n$1\r\nk\r\n", command.len(), body.len())
                .as_bytes(),
        );
        cluster.hear(0)
    };
    let (plain, flagged) =
        ("return redis.call('DEL', KEYS[1])", "#!lua flags=allow-oom\nreturn redis.call('DEL', KEYS[1])");
    let load = |cluster: &mut Cluster, body: &str| {
        cluster.say(0, format!("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n{body}\r\n", body.len()).as_bytes());
        crate::common::bulk(&cluster.hear(0)).to_owned()
    };
    let (plain_sha, flagged_sha) = (load(&mut cluster, plain), load(&mut cluster, flagged));
    set(&mut cluster, 0, LOW);
    assert!(eval(&mut cluster, "EVAL", plain).starts_with("-MISCONF"));
    assert!(eval(&mut cluster, "EVALSHA", &plain_sha).starts_with("-MISCONF"));
    assert_eq!(eval(&mut cluster, "EVAL", flagged), ":1\r\n");
    assert_eq!(eval(&mut cluster, "EVALSHA", &flagged_sha), ":0\r\n");
    assert!(eval(&mut cluster, "EVALSHA", &"0".repeat(40)).starts_with("-NOSCRIPT"));
}

#[test]
fn what_has_expired_goes_and_a_read_of_it_finds_nothing() {
    let mut cluster = alone();
    transcript(&mut cluster, &[("SET e v PX 50", "+OK"), ("SET f v PX 50", "+OK")]);
    set(&mut cluster, 0, LOW);
    (0..12).for_each(|_| cluster.pass());
    transcript(&mut cluster, &[("GET e", "$-1")]);
    (0..60).for_each(|_| cluster.pass());
    assert_eq!(field(&cluster.ask(0, "INFO stats"), "expired_keys"), Some("2"));
}

#[test]
fn on_a_full_disk_a_read_of_what_has_expired_says_that_the_disk_is_full() {
    let mut cluster = alone();
    transcript(&mut cluster, &[("SET e v PX 50", "+OK")]);
    set(&mut cluster, 0, FULL);
    cluster.stalled.push(0);
    (0..12).for_each(|_| cluster.pass());
    refused(&mut cluster, 0, "GET e", "is full");
    transcript(&mut cluster, &[("GET k", "$1 | v")]);
    refused(&mut cluster, 0, "DEL k", "Free 200 MiB");
    cluster.stalled.clear();
    set(&mut cluster, 0, LOW);
    transcript(&mut cluster, &[("DEL k", ":1"), ("GET e", "$-1")]);
}

#[test]
fn a_low_leader_hands_over_and_its_node_refuses_for_itself() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(0, "SET k v"), "+OK\r\n");
    let low = leader(&cluster);
    set(&mut cluster, low, LOW);
    pass_until(&mut cluster, "another one leads", |cluster| leader(cluster) != low);
    settle(&mut cluster);
    let next = leader(&cluster);
    assert!(next != low, "it stays so");
    // The node with little room refuses what grows, the others do not.
    refused(&mut cluster, low, "SET k w", "this node");
    assert_eq!(cluster.ask(low, "DEL k"), ":1\r\n");
    assert_eq!(cluster.ask(next, "SET k w"), "+OK\r\n");
    // If two of three run full nothing can be decided: what grows is refused before that, everywhere; what frees room goes through all of them.
    let second = (0..3).find(|node| ![low, next].contains(node)).expect("there are three");
    set(&mut cluster, second, LOW);
    settle(&mut cluster);
    assert_eq!(leader(&cluster), next, "it stays with the one that has room");
    refused(&mut cluster, next, "SET k x", "no majority");
    assert_eq!(cluster.ask(next, "DEL k"), ":1\r\n");
    set(&mut cluster, next, LOW);
    settle(&mut cluster);
    // Nobody has room: it may go back to the one that is preferred, and does not go round.
    (0..2000).for_each(|_| cluster.pass());
    let (before, ballot) = (leader(&cluster), cluster.nodes[0].leader(node_partition()));
    (0..2000).for_each(|_| cluster.pass());
    assert_eq!((leader(&cluster), cluster.nodes[0].leader(node_partition())), (before, ballot));
    for node in 0..3 {
        refused(&mut cluster, node, "SET k x", "too little room");
        assert!(cluster.ask(node, "DEL k").starts_with(':'));
    }
    (0..3).for_each(|node| set(&mut cluster, node, DiskRoom::default()));
    settle(&mut cluster);
    (0..3).for_each(|node| assert_eq!(cluster.ask(node, "SET k x"), "+OK\r\n"));
}

#[test]
fn buckets_are_dropped_and_those_in_memory_go_on() {
    let mut cluster = Cluster::new(3);
    settle(&mut cluster);
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE b"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE m KIND ephemeral"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SELECT m"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SET k v"), "+OK\r\n");
    (0..3).for_each(|node| set(&mut cluster, node, LOW));
    settle(&mut cluster);
    assert_eq!(cluster.ask(0, "SET k w"), "+OK\r\n");
    refused(&mut cluster, 0, "DICTUM.BUCKET CREATE c", "too little room");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET DROP b CONFIRM"), "+OK\r\n");
}

#[test]
fn the_status_tells_why_and_how_much() {
    let mut cluster = alone();
    let status = |cluster: &mut Cluster| cluster.ask(0, "DICTUM.STATUS");
    assert!(status(&mut cluster).contains("\"refuses\":\"\""));
    set(&mut cluster, 0, LOW);
    let said = status(&mut cluster);
    assert!(said.contains("\"disk\":\"low\",\"disk_missing\":104857600"), "{said}");
    assert!(said.contains("\"refuses\":\"MISCONF the disk of n1"), "{said}");
    set(&mut cluster, 0, FULL);
    assert!(status(&mut cluster).contains("\"disk\":\"full\""));
    assert!(cluster.ask(0, "INFO dictum").contains("dictum_disk:full"));
}
