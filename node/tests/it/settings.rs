//! `CONFIG SET`: what is set holds at all nodes and after restarts; what means nothing here is kept.

use crate::common::{CLIENT, Cluster, pass_until, transcript};
use base::versions::NEWEST;
use node::{ConnectionId, Input};

fn three() -> Cluster {
    let mut cluster = Cluster::new(3);
    pass_until(&mut cluster, "the version has risen", |cluster| {
        cluster.nodes.iter().all(|node| node.cluster_version() == NEWEST)
    });
    cluster
}

fn value(cluster: &mut Cluster, node: u16, name: &str) -> String {
    let answer = cluster.ask(node, &format!("CONFIG GET {name}"));
    answer.split("\r\n").nth(4).unwrap_or_default().to_owned()
}

#[test]
fn what_is_set_holds_at_all_nodes_and_after_a_restart() {
    let mut cluster = three();
    assert_eq!(
        cluster.ask(1, "CONFIG SET notify-keyspace-events KEA zset-max-ziplist-entries 64 slowlog-max-len 7"),
        "+OK\r\n"
    );
    cluster.give(1, Input::Received { connection: CLIENT, bytes: b"CONFIG SET timeout 300\r\nCONFIG GET timeout\r\n" });
    let (expected, mut heard) = ("+OK\r\n*2\r\n$7\r\ntimeout\r\n$3\r\n300\r\n", String::new());
    while heard.len() < expected.len() {
        heard.push_str(&cluster.hear(1));
    }
    assert_eq!(heard, expected, "at once, on the connection that has set it");
    for _ in 0..100 {
        cluster.pass();
    }
    let check = |cluster: &mut Cluster, node| {
        let names =
            ["notify-keyspace-events", "zset-max-listpack-entries", "zset-max-ziplist-entries", "slowlog-max-len"];
        assert_eq!(names.map(|name| value(cluster, node, name)), ["AKE", "64", "64", "7"], "node {node}");
        assert_eq!(value(cluster, node, "timeout"), "300");
    };
    for node in 0..3 {
        check(&mut cluster, node);
    }
    let journal = cluster.journal(2);
    cluster.restart(2, journal);
    cluster.open(2, CLIENT);
    assert_eq!(cluster.ask(2, "GET k"), "$-1\r\n");
    check(&mut cluster, 2);
}

#[test]
fn what_bounds_clients_holds_at_all_nodes_and_after_a_restart() {
    let mut cluster = three();
    let info = |cluster: &mut Cluster, node| {
        let info = cluster.ask(node, "INFO clients");
        info.lines().find_map(|line| line.strip_prefix("maxclients:").map(str::to_owned)).expect("it is told")
    };
    transcript(
        &mut cluster,
        &[
            (
                "CONFIG SET maxclients 0",
                "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument must be between 1 and 4294967295 inclusive",
            ),
            (
                "CONFIG SET maxclients 20001",
                "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to handle the specified number of clients, try with 20000",
            ),
            ("CONFIG SET maxclients 15000 maxmemory-clients 5%", "+OK"),
        ],
    );
    for _ in 0..100 {
        cluster.pass();
    }
    let check = |cluster: &mut Cluster, node| {
        let values = ["maxclients", "maxmemory-clients"].map(|name| value(cluster, node, name));
        assert_eq!(values, ["15000", "5%"], "node {node}");
        assert_eq!(info(cluster, node), "15000");
        assert_eq!(cluster.clients_max.get(&node), Some(&15_000), "the owner of node {node}");
    };
    for node in 0..3 {
        check(&mut cluster, node);
    }
    let journal = cluster.journal(1);
    cluster.clients_max.clear();
    cluster.restart(1, journal);
    cluster.open(1, CLIENT);
    assert_eq!(cluster.ask(1, "GET k"), "$-1\r\n");
    check(&mut cluster, 1);
}

#[test]
fn protected_mode_holds_at_all_nodes_and_after_a_restart() {
    let mut cluster = three();
    assert_eq!(value(&mut cluster, 0, "protected-mode"), "yes");
    assert_eq!(cluster.protected.len(), 0, "the owner has configured it so");
    let wrong =
        "-ERR CONFIG SET failed (possibly related to argument 'protected-mode') - argument must be 'yes' or 'no'";
    transcript(&mut cluster, &[("CONFIG SET protected-mode maybe", wrong), ("CONFIG SET protected-mode No", "+OK")]);
    pass_until(&mut cluster, "all are told", |cluster| cluster.protected.len() == 3);
    assert!(cluster.protected.values().all(|refuses| !refuses));
    let journal = cluster.journal(1);
    cluster.protected.clear();
    cluster.restart(1, journal);
    pass_until(&mut cluster, "it is told again", |cluster| cluster.protected.get(&1) == Some(&false));
    cluster.open(1, CLIENT);
    assert_eq!(value(&mut cluster, 1, "protected-mode"), "no");
    assert_eq!(cluster.ask(0, "CONFIG SET protected-mode yes"), "+OK\r\n");
    pass_until(&mut cluster, "all are told", |cluster| cluster.protected == [(0, true), (1, true), (2, true)].into());
    // With a password there is nothing to refuse.
    let mut cluster = Cluster::with(1, |config| {
        config.password = Some("secret".to_owned());
        config.protected_mode = false;
    });
    transcript(&mut cluster, &[("AUTH secret", "+OK"), ("CONFIG SET protected-mode yes", "+OK")]);
    pass_until(&mut cluster, "it is told", |cluster| cluster.protected.get(&0) == Some(&false));
}

#[test]
fn a_node_that_may_open_few_files_lets_in_as_many_clients_as_it_can() {
    let mut cluster = Cluster::with(3, |config| {
        if config.me.0 == 2 {
            config.clients_max = 300;
            config.clients_room = 300;
        }
    });
    pass_until(&mut cluster, "the version has risen", |cluster| {
        cluster.nodes.iter().all(|node| node.cluster_version() == NEWEST)
    });
    assert_eq!(cluster.ask(0, "CONFIG SET maxclients 500"), "+OK\r\n");
    pass_until(&mut cluster, "all have it", |cluster| cluster.clients_max.len() == 3);
    assert_eq!(cluster.clients_max.values().copied().collect::<Vec<_>>(), [500, 500, 300]);
    assert_eq!(
        (value(&mut cluster, 2, "maxclients"), value(&mut cluster, 0, "maxclients")),
        ("500".into(), "500".into())
    );
}

#[test]
fn directives_of_a_redis_are_kept_as_it_keeps_them() {
    let refused =
        |name: &str, reason: &str| format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}");
    let mut cluster = three();
    transcript(
        &mut cluster,
        &[
            ("CONFIG SET list-max-ziplist-size -5 list-compress-depth 1", "+OK"),
            (
                "CONFIG GET list-*",
                "*6 | $19 | list-compress-depth | $1 | 1 | $22 | list-max-listpack-size | $2 | -5 | $21 | list-max-ziplist-size | $2 | -5",
            ),
            ("CONFIG SET maxmemory 100mb maxmemory-policy ALLKEYS-LRU min-slaves-to-write 1", "+OK"),
            ("CONFIG GET maxmemory", "*2 | $9 | maxmemory | $9 | 104857600"),
            ("CONFIG GET maxmemory-policy", "*2 | $16 | maxmemory-policy | $11 | allkeys-lru"),
            ("CONFIG GET min-replicas-to-write", "*2 | $21 | min-replicas-to-write | $1 | 1"),
            ("CONFIG SET appendonly no save \"3600 1 300  100\"", "+OK"),
            ("CONFIG GET save", "*2 | $4 | save | $14 | 3600 1 300 100"),
            ("CONFIG SET save \"1\"", &refused("save", "Invalid save parameters")),
            ("CONFIG SET hz x", &refused("hz", "argument couldn't be parsed into an integer")),
            (
                "CONFIG SET active-expire-effort 11",
                &refused("active-expire-effort", "argument must be between 1 and 10 inclusive"),
            ),
            (
                "CONFIG SET appendfsync maybe",
                &refused("appendfsync", "argument(s) must be one of the following: everysec, always, no"),
            ),
            (
                "CONFIG SET hz 20 lua-time-limit x",
                &refused("busy-reply-threshold", "argument couldn't be parsed into an integer"),
            ),
            ("CONFIG GET hz", "*2 | $2 | hz | $2 | 10"),
            ("CONFIG SET slave-priority 1 replica-priority 2", &refused("replica-priority", "duplicate parameter")),
            ("CONFIG SET databases 32", &refused("databases", "can't set immutable config")),
            ("CONFIG SET dir /tmp", &refused("dir", "can't set protected config")),
            ("CONFIG SET oom-score-adj-values \"1 2\"", &refused("oom-score-adj-values", "wrong number of arguments")),
            ("CONFIG SET latency-tracking-info-percentiles \"50 99\"", "+OK"),
            ("CONFIG GET latency-tracking-info*", "*2 | $33 | latency-tracking-info-percentiles | $5 | 50 99"),
            (
                "CONFIG SET hz 10 dictum-request-timeout-ms 9",
                "-ERR settings of this node (dictum-…) and of the cluster cannot be changed by one CONFIG SET: nothing was changed",
            ),
            ("CONFIG SET dictum-request-timeout-ms 900 dictum-log-entries-kept 9", "+OK"),
            ("CONFIG REWRITE", "+OK"),
        ],
    );
    assert_eq!(value(&mut cluster, 1, "dictum-request-timeout-ms"), "5000", "a node's own");
}

#[test]
fn connections_that_say_nothing_are_closed_but_for_those_that_wait_or_listen() {
    let mut cluster = three();
    let (idle, listening, waiting, talking) = (ConnectionId(5), ConnectionId(6), ConnectionId(7), ConnectionId(8));
    for connection in [idle, listening, waiting, talking] {
        cluster.open(0, connection);
    }
    cluster.say_as(0, idle, "PING");
    cluster.say_as(0, listening, "SUBSCRIBE news");
    cluster.say_as(0, waiting, "BLPOP queue 0");
    assert_eq!(cluster.ask(0, "CONFIG SET timeout 2"), "+OK\r\n");
    for _ in 0..1200 {
        cluster.pass();
        cluster.say_as(0, talking, "PING");
    }
    assert!(cluster.closed.contains(&(0, idle)));
    for connection in [listening, waiting, talking] {
        assert!(!cluster.closed.contains(&(0, connection)), "{connection:?}");
    }
}
