//! The listener for clients of Redis Clusters: what it tells them, and what they are told of keys that another node leads.

use crate::common::{CLIENT, Cluster, bulk, field};
use base::PartitionId;
use base::limits::SLOT_KEYS_MAX;
use base::slots::hash_slot;
use node::{ConnectionId, Input, Listener};

/// A client of each node that routes by itself.
const ROUTES: ConnectionId = ConnectionId(2);
const PARTITIONS: u16 = 6;

/// Three nodes, each with such a client, whose listener shows a bucket of this name.
fn cluster_of(bucket: &str) -> Cluster {
    let mut cluster = Cluster::with(3, |config| config.cluster_bucket = bucket.to_owned());
    assert_eq!(cluster.ask(1, "SET k default"), "+OK\r\n");
    open(&mut cluster);
    cluster
}

fn open(cluster: &mut Cluster) {
    for me in 0..3 {
        cluster.open_at(me, ROUTES, Listener::Redirects);
    }
}

/// A listener for the default bucket, which has one partition.
fn whole() -> Cluster {
    cluster_of("default")
}

/// A listener for a bucket of several partitions. It is made after the clients have come.
fn parted() -> Cluster {
    let mut cluster = cluster_of("parted");
    assert_eq!(cluster.ask(1, &format!("DICTUM.BUCKET CREATE parted PARTITIONS {PARTITIONS}")), "+OK\r\n");
    for me in 0..3 {
        assert_eq!(cluster.ask(me, "SELECT parted"), "+OK\r\n", "node {me}");
        for index in 0..PARTITIONS {
            assert!(cluster.ask(me, &format!("GET {}", key_in(index, 0))).starts_with('$'));
        }
    }
    cluster
}

/// A key of a partition, and others in the same slot.
fn key_in(index: u16, number: u32) -> String {
    let partition = |tag: u32| u32::from(hash_slot(tag.to_string().as_bytes())) * u32::from(PARTITIONS) / 16384;
    let tag = (0..).find(|tag| partition(*tag) == u32::from(index)).expect("there are tags enough");
    format!("{{{tag}}}:{number}")
}

fn partition_of(cluster: &Cluster, index: u16) -> PartitionId {
    let all = cluster.nodes[0].partitions();
    *all.iter().find(|it| it.bucket.0 == 1 && it.index == index).expect("it is there")
}

fn leader_of(cluster: &Cluster, partition: PartitionId) -> u16 {
    cluster.nodes[0].leader(partition).expect("somebody leads").0.0
}

fn ask(cluster: &mut Cluster, me: u16, line: &str) -> String {
    cluster.ask_as(me, ROUTES, line)
}

/// The text of `CLUSTER NODES` in lines of words.
fn nodes(cluster: &mut Cluster, me: u16) -> Vec<Vec<String>> {
    let text = ask(cluster, me, "CLUSTER NODES");
    bulk(&text).lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

#[test]
fn other_connections_are_refused_as_by_a_redis_alone() {
    let mut cluster = whole();
    let refused = "-ERR This instance has cluster support disabled\r\n";
    for line in [
        "CLUSTER SLOTS",
        "CLUSTER KEYSLOT k",
        "CLUSTER HELP",
        "CLUSTER MYID",
        "CLUSTER RESET",
        "READONLY",
        "READWRITE",
        "ASKING",
    ] {
        assert_eq!(cluster.ask(0, line), refused, "{line}");
    }
    assert_eq!(cluster.ask(0, "CLUSTER SLOTS x"), "-ERR wrong number of arguments for 'cluster|slots' command\r\n");
    assert_eq!(cluster.ask(0, "CLUSTER no"), "-ERR unknown subcommand 'no'. Try CLUSTER HELP.\r\n");
    assert_eq!(field(&cluster.ask(0, "INFO cluster"), "cluster_enabled"), Some("0"));
    assert_eq!(cluster.ask(0, "CONFIG GET cluster-enabled"), "*2\r\n$15\r\ncluster-enabled\r\n$2\r\nno\r\n");
    assert!(cluster.ask(0, "HELLO").contains("standalone"));
    assert_eq!(field(&ask(&mut cluster, 0, "INFO cluster"), "cluster_enabled"), Some("1"));
    assert_eq!(field(&ask(&mut cluster, 0, "INFO server"), "redis_mode"), Some("cluster"));
    assert_eq!(field(&ask(&mut cluster, 0, "INFO server"), "tcp_port"), Some("7101"));
    assert_eq!(ask(&mut cluster, 0, "CONFIG GET cluster-enabled"), "*2\r\n$15\r\ncluster-enabled\r\n$3\r\nyes\r\n");
    assert!(ask(&mut cluster, 0, "HELLO").contains("cluster"));
}

#[test]
fn a_bucket_of_one_partition_has_a_master_and_two_replicas() {
    let mut cluster = whole();
    let leader = leader_of(&cluster, PartitionId::default());
    let ids: Vec<String> = (0..3).map(|me| bulk(&ask(&mut cluster, me, "CLUSTER MYID")).to_owned()).collect();
    for me in 0..3 {
        let slots = ask(&mut cluster, me, "CLUSTER SLOTS");
        let node = |node: u16| {
            let id = &ids[usize::from(node)];
            format!("*4\r\n$9\r\n127.0.0.1\r\n:710{}\r\n$40\r\n{id}\r\n*0\r\n", node + 1)
        };
        let replicas: String = (0..3).filter(|it| *it != leader).map(node).collect();
        assert_eq!(slots, format!("*1\r\n*5\r\n:0\r\n:16383\r\n{}{replicas}", node(leader)), "node {me}");
        let lines = nodes(&mut cluster, me);
        assert_eq!(lines.len(), 3);
        for (node, words) in (0..).zip(&lines) {
            let flags: Vec<&str> = words[2].split(',').collect();
            assert_eq!(words[0], ids[usize::from(node)]);
            assert_eq!(words[1], format!("127.0.0.1:710{}@900{}", node + 1, node + 1));
            assert_eq!(flags.contains(&"myself"), node == me);
            assert_eq!(flags.contains(&"master"), node == leader);
            assert_eq!(words[7], "connected");
            if node == leader {
                assert_eq!((words[3].as_str(), words[8].as_str()), ("-", "0-16383"));
            } else {
                assert_eq!((&words[3], words.len()), (&ids[usize::from(leader)], 8));
            }
        }
        let shards = ask(&mut cluster, me, "CLUSTER SHARDS");
        let begins = format!(
            "*1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:16383\r\n$5\r\nnodes\r\n*3\r\n*14\r\n$2\r\nid\r\n$40\r\n{}",
            ids[usize::from(leader)]
        );
        assert!(shards.starts_with(&begins), "{shards}");
        assert_eq!(shards.matches("online").count(), 3, "{shards}");
        let shard = ask(&mut cluster, me, "CLUSTER MYSHARDID");
        assert_eq!(shard, ask(&mut cluster, leader, "CLUSTER MYSHARDID"));
        let role = if me == leader { "master" } else { "replica" };
        assert!(ask(&mut cluster, me, "HELLO").contains(role));
        let info = ask(&mut cluster, me, "CLUSTER INFO");
        for (name, value) in [
            ("cluster_state", "ok"),
            ("cluster_slots_assigned", "16384"),
            ("cluster_slots_ok", "16384"),
            ("cluster_known_nodes", "3"),
            ("cluster_size", "1"),
        ] {
            assert_eq!(field(&info, name), Some(value), "{name}");
        }
        assert!(ask(&mut cluster, me, "CLUSTER LINKS").starts_with("*4\r\n"), "two ways to two nodes");
        let replicas = ask(&mut cluster, me, &format!("CLUSTER REPLICAS {}", ids[usize::from(leader)]));
        assert!(replicas.starts_with("*2\r\n"), "{replicas}");
    }
    let follower = usize::from((leader + 1) % 3);
    let refused = ask(&mut cluster, 0, &format!("CLUSTER REPLICAS {}", ids[follower]));
    assert_eq!(refused, "-ERR The specified node is not a master\r\n");
    assert_eq!(ask(&mut cluster, 0, "CLUSTER REPLICAS abc"), "-ERR Unknown node abc\r\n");
    assert_eq!(ask(&mut cluster, 0, &format!("CLUSTER COUNT-FAILURE-REPORTS {}", ids[1])), ":0\r\n");
    assert_eq!(ask(&mut cluster, 0, "CLUSTER COUNT-FAILURE-REPORTS x"), "-ERR Unknown node x\r\n");
}

#[test]
fn slots_are_counted_as_in_a_redis_cluster() {
    let mut cluster = whole();
    let leader = leader_of(&cluster, PartitionId::default());
    for (line, expected) in [
        ("CLUSTER KEYSLOT foo", ":12182"),
        ("CLUSTER KEYSLOT {user}.a", ":5474"),
        ("CLUSTER COUNTKEYSINSLOT 16384", "-ERR Invalid slot"),
        ("CLUSTER COUNTKEYSINSLOT -1", "-ERR Invalid slot"),
        ("CLUSTER COUNTKEYSINSLOT x", "-ERR value is not an integer or out of range"),
        ("CLUSTER GETKEYSINSLOT 5 -1", "-ERR Invalid slot or number of keys"),
        ("CLUSTER GETKEYSINSLOT 99999 1", "-ERR Invalid slot or number of keys"),
        ("MSET {user}.a 1 {user}.b 2 {user}.c 3 other 4", "-CROSSSLOT Keys in request don't hash to the same slot"),
        ("MSET {user}.a 1 {user}.b 2 {user}.c 3", "+OK"),
        ("CLUSTER COUNTKEYSINSLOT 5474", ":3"),
        ("CLUSTER COUNTKEYSINSLOT 5473", ":0"),
        ("CLUSTER GETKEYSINSLOT 5474 0", "*0"),
        ("CLUSTER GETKEYSINSLOT 5473 10", "*0"),
        ("SELECT 0", "+OK"),
        ("SELECT 1", "-ERR SELECT is not allowed in cluster mode"),
        ("SELECT default", "-ERR SELECT is not allowed in cluster mode"),
        ("ASKING", "+OK"),
    ] {
        assert_eq!(ask(&mut cluster, leader, line), format!("{expected}\r\n"), "{line}");
    }
    let keys = ask(&mut cluster, leader, "CLUSTER GETKEYSINSLOT 5474 10");
    assert!(keys.starts_with("*3\r\n") && keys.contains("{user}.a") && keys.contains("{user}.c"), "{keys}");
    assert!(ask(&mut cluster, leader, "CLUSTER GETKEYSINSLOT 5474 2").starts_with("*2\r\n"));
}

/// A walk over all of them would take as long as they are many, and nobody else is served meanwhile.
#[test]
fn no_more_keys_of_a_slot_are_counted_than_a_turn_has_time_for() {
    let mut cluster = whole();
    let leader = leader_of(&cluster, PartitionId::default());
    let fill = |cluster: &mut Cluster, from: usize, until: usize| {
        let pairs: String = (from..until).map(|number| format!(" {{user}}:{number} v")).collect();
        assert_eq!(ask(cluster, leader, &format!("MSET{pairs}")), "+OK\r\n");
    };
    for thousand in 0..SLOT_KEYS_MAX / 1000 {
        fill(&mut cluster, thousand * 1000, (thousand + 1) * 1000);
    }
    assert_eq!(ask(&mut cluster, leader, "CLUSTER COUNTKEYSINSLOT 5474"), format!(":{SLOT_KEYS_MAX}\r\n"));
    fill(&mut cluster, SLOT_KEYS_MAX, SLOT_KEYS_MAX + 1);
    let refused = ask(&mut cluster, leader, "CLUSTER COUNTKEYSINSLOT 5474");
    assert_eq!(
        refused,
        format!(
            "-ERR the hash slot has more keys than are counted at once ({SLOT_KEYS_MAX}): count them with SCAN\r\n"
        )
    );
}

#[test]
fn what_changes_a_redis_cluster_is_refused() {
    let mut cluster = whole();
    for line in [
        "CLUSTER MEET 127.0.0.1 7000",
        "CLUSTER ADDSLOTS 1",
        "CLUSTER ADDSLOTSRANGE 1 2",
        "CLUSTER SETSLOT 1 STABLE",
        "CLUSTER FORGET abc",
        "CLUSTER FAILOVER",
        "CLUSTER RESET HARD",
        "CLUSTER REPLICATE abc",
        "CLUSTER BUMPEPOCH",
    ] {
        let answer = ask(&mut cluster, 0, line);
        assert!(answer.starts_with("-ERR this is not for clients to say: Dictum"), "{line}: {answer}");
    }
    assert!(ask(&mut cluster, 0, "CLUSTER HELP").contains("COUNTKEYSINSLOT slot"));
}

#[test]
fn keys_of_other_leaders_are_elsewhere() {
    let mut cluster = parted();
    let mut moved = 0;
    for index in 0..PARTITIONS {
        let leader = leader_of(&cluster, partition_of(&cluster, index));
        let (key, other) = (key_in(index, 0), key_in(index, 1));
        let slot = hash_slot(key.as_bytes());
        for me in 0..3 {
            let here = me == leader;
            let there = format!("-MOVED {slot} 127.0.0.1:710{}\r\n", leader + 1);
            let mut expect = |line: &str, expected: &str| {
                let expected = if here { format!("{expected}\r\n") } else { there.clone() };
                assert_eq!(ask(&mut cluster, me, line), expected, "{line} at node {me}");
            };
            expect(&format!("SET {key} v"), "+OK");
            expect(&format!("GET {key}"), "$1\r\nv");
            expect(&format!("MGET {key} {other}"), "*2\r\n$1\r\nv\r\n$-1");
            expect(&format!("EVAL return{{}} 1 {key}"), "*0");
            expect(&format!("DICTUM.ONCE {me}{index} SET {key} v"), "+OK");
            expect(&format!("BLPOP {other} 0.001"), "*-1");
            expect(&format!("XREAD BLOCK 1 STREAMS {other} $"), "*-1");
            expect(&format!("WATCH {key}"), "+OK");
            assert_eq!(ask(&mut cluster, me, "UNWATCH"), "+OK\r\n");
            moved += u32::from(!here);
        }
    }
    assert_eq!(moved, u32::from(PARTITIONS) * 2);
}

#[test]
fn keys_of_different_slots_do_not_go_together_even_in_one_partition() {
    let mut cluster = whole();
    let leader = leader_of(&cluster, PartitionId::default());
    let cross = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    for line in ["MGET a b", "EXISTS a b", "DEL a b", "EVAL return{} 2 a b", "WATCH a b", "DICTUM.ONCE i MSET a 1 b 2"]
    {
        assert_eq!(ask(&mut cluster, leader, line), cross, "{line}");
    }
    for line in ["SSUBSCRIBE a b", "SUNSUBSCRIBE a b"] {
        assert_eq!(ask(&mut cluster, leader, line), cross, "{line}");
    }
    for (line, expected) in [
        ("MULTI", "+OK\r\n"),
        ("SET a 1", "+QUEUED\r\n"),
        ("SET b 1", "+QUEUED\r\n"),
        ("EXEC", cross),
        ("EXISTS a", ":0\r\n"),
        ("MULTI", "+OK\r\n"),
        ("MSET a 1 b 1", cross),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SET {t}a 1", "+QUEUED\r\n"),
        ("SET {t}b 1", "+QUEUED\r\n"),
        ("SELECT 0", "+QUEUED\r\n"),
        ("SELECT 3", "+QUEUED\r\n"),
        ("EXEC", "*4\r\n+OK\r\n+OK\r\n+OK\r\n-ERR SELECT is not allowed in cluster mode\r\n"),
    ] {
        assert_eq!(ask(&mut cluster, leader, line), expected, "{line}");
    }
}

#[test]
fn a_transaction_is_told_where_to_go_when_it_is_queued() {
    let mut cluster = parted();
    let leader = leader_of(&cluster, partition_of(&cluster, 2));
    let (key, other) = (key_in(2, 0), (leader + 1) % 3);
    assert_eq!(ask(&mut cluster, other, "MULTI"), "+OK\r\n");
    assert!(ask(&mut cluster, other, &format!("SET {key} 1")).starts_with("-MOVED "));
    assert!(ask(&mut cluster, other, "EXEC").starts_with("-EXECABORT"));
    assert_eq!(ask(&mut cluster, leader, "MULTI"), "+OK\r\n");
    assert_eq!(ask(&mut cluster, leader, &format!("SET {key} 1")), "+QUEUED\r\n");
    assert_eq!(ask(&mut cluster, leader, "EXEC"), "*1\r\n+OK\r\n");
}

/// Clients ask every master and add up what they hear.
#[test]
fn each_master_answers_for_the_keys_of_its_own_slots() {
    let mut cluster = parted();
    for index in 0..PARTITIONS {
        for number in 0..=u32::from(index) {
            assert_eq!(cluster.ask(0, &format!("SET {} v", key_in(index, number))), "+OK\r\n");
        }
    }
    let masters: Vec<u16> = (0..3).filter(|me| ask(&mut cluster, *me, "HELLO").contains("master")).collect();
    let (mut keys, mut sum, mut scanned) = (Vec::new(), 0, Vec::new());
    for me in masters.iter().copied() {
        let own: u32 = (0..PARTITIONS)
            .filter(|index| leader_of(&cluster, partition_of(&cluster, *index)) == me)
            .map(|index| u32::from(index) + 1)
            .sum();
        assert_eq!(ask(&mut cluster, me, "DBSIZE"), format!(":{own}\r\n"));
        sum += own;
        keys.extend(texts(&ask(&mut cluster, me, "KEYS *")));
        let mut cursor = "0".to_owned();
        loop {
            let mut page = texts(&ask(&mut cluster, me, &format!("SCAN {cursor} COUNT 2")));
            cursor = page.remove(0);
            scanned.append(&mut page);
            if cursor == "0" {
                break;
            }
        }
    }
    let all: u32 = (1..=u32::from(PARTITIONS)).sum();
    keys.sort();
    scanned.sort();
    assert_eq!((sum, keys.len(), &scanned), (all, all as usize, &keys));
    keys.dedup();
    assert_eq!(keys.len(), all as usize, "none twice");
    for me in masters {
        assert!(ask(&mut cluster, me, "FUNCTION LOAD #!lua").starts_with("-ERR"), "it is carried out");
        assert_eq!(ask(&mut cluster, me, "FLUSHALL"), "+OK\r\n");
        assert_eq!(ask(&mut cluster, me, "DBSIZE"), ":0\r\n");
    }
    assert_eq!(cluster.ask(0, "DBSIZE"), ":0\r\n");
}

/// The lines of bulk strings.
fn texts(reply: &str) -> Vec<String> {
    let mut lines = reply.split("\r\n");
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with('$') {
            found.extend(lines.next().map(str::to_owned));
        }
    }
    found
}

#[test]
fn readonly_lets_a_replica_answer_what_it_has() {
    let mut cluster = whole();
    let leader = leader_of(&cluster, PartitionId::default());
    let replica = (leader + 1) % 3;
    let slot = hash_slot(b"k");
    let moved = format!("-MOVED {slot} 127.0.0.1:710{}\r\n", leader + 1);
    assert_eq!(ask(&mut cluster, replica, "GET k"), moved);
    assert_eq!(ask(&mut cluster, replica, "READONLY"), "+OK\r\n");
    assert_eq!(ask(&mut cluster, replica, "GET k"), "$7\r\ndefault\r\n");
    assert_eq!(ask(&mut cluster, replica, "SET k 2"), moved);
    assert_eq!(ask(&mut cluster, replica, "DBSIZE"), ":1\r\n");
    assert_eq!(ask(&mut cluster, replica, "FLUSHALL"), "-READONLY You can't write against a read only replica.\r\n");
    for (line, expected) in [("MULTI", "+OK\r\n"), ("GET k", "+QUEUED\r\n"), ("EXEC", "*1\r\n$7\r\ndefault\r\n")] {
        assert_eq!(ask(&mut cluster, replica, line), expected, "{line}");
    }
    // Cut off, it goes on with what it has, and that may be old.
    cluster.isolated.push(replica);
    assert_eq!(ask(&mut cluster, leader, "SET k newer"), "+OK\r\n");
    assert_eq!(ask(&mut cluster, replica, "GET k"), "$7\r\ndefault\r\n");
    for _ in 0..400 {
        cluster.pass();
    }
    assert_eq!(ask(&mut cluster, replica, "GET k"), "$7\r\ndefault\r\n");
    assert_eq!(ask(&mut cluster, replica, "SET k 2"), "-CLUSTERDOWN Hash slot not served\r\n");
    assert_eq!(field(&ask(&mut cluster, replica, "CLUSTER INFO"), "cluster_state"), Some("fail"));
    // Slots without a master are still shown where it was.
    assert!(ask(&mut cluster, replica, "CLUSTER SLOTS").starts_with("*1\r\n*4\r\n:0\r\n:16383\r\n"));
    assert_eq!(ask(&mut cluster, replica, "READWRITE"), "+OK\r\n");
    assert_eq!(ask(&mut cluster, replica, "GET k"), "-CLUSTERDOWN Hash slot not served\r\n");
    cluster.isolated.clear();
    for _ in 0..400 {
        cluster.pass();
    }
    let leader = leader_of(&cluster, PartitionId::default());
    if leader != replica {
        assert!(ask(&mut cluster, replica, "GET k").starts_with("-MOVED "));
        assert_eq!(ask(&mut cluster, replica, "READONLY"), "+OK\r\n");
    }
    assert_eq!(ask(&mut cluster, replica, "GET k"), "$5\r\nnewer\r\n");
}

#[test]
fn clients_are_told_of_a_new_leader() {
    let mut cluster = parted();
    let lost = leader_of(&cluster, partition_of(&cluster, 0));
    let other = (lost + 1) % 3;
    let before = nodes(&mut cluster, other);
    assert!(before[usize::from(lost)][2].starts_with("master"), "{before:?}");
    cluster.isolated.push(lost);
    for _ in 0..600 {
        cluster.pass();
    }
    let now = nodes(&mut cluster, other);
    assert_eq!(now[usize::from(lost)][2], "slave,fail", "{now:?}");
    assert_eq!(now[usize::from(lost)][7], "disconnected");
    let id = now[usize::from(lost)][0].clone();
    assert_eq!(ask(&mut cluster, other, &format!("CLUSTER COUNT-FAILURE-REPORTS {id}")), ":1\r\n");
    let epoch = |lines: &[Vec<String>]| lines.iter().map(|words| words[6].parse::<u64>().unwrap()).max();
    assert!(epoch(&now) > epoch(&before), "the newest word counts");
    for index in 0..PARTITIONS {
        let key = key_in(index, 0);
        let answers: Vec<String> =
            [other, (lost + 2) % 3].iter().map(|me| ask(&mut cluster, *me, &format!("SET {key} v"))).collect();
        let done = answers.iter().filter(|answer| *answer == "+OK\r\n").count();
        let moved = answers.iter().filter(|answer| answer.starts_with("-MOVED ")).count();
        assert_eq!((done, moved), (1, 1), "{answers:?}");
    }
    let slots = ask(&mut cluster, other, "CLUSTER SLOTS");
    assert!(!slots.contains(&format!(":710{}\r\n", lost + 1)), "{slots}");
}

#[test]
fn the_bucket_is_that_of_the_listener_or_of_the_user() {
    let mut cluster = cluster_of("later");
    let absent = ask(&mut cluster, 0, "CLUSTER SLOTS");
    assert!(absent.starts_with("-CLUSTERDOWN there is no bucket later"), "{absent}");
    assert!(ask(&mut cluster, 0, "GET k").starts_with("-CLUSTERDOWN there is no bucket later"));
    assert_eq!(ask(&mut cluster, 0, "DBSIZE"), absent);
    assert_eq!(ask(&mut cluster, 0, "PING"), "+PONG\r\n");
    // As its user says, a bucket; `default` means that of the listener.
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE other PARTITIONS 2"), "+OK\r\n");
    let at_leader = leader_of(&cluster, PartitionId::default());
    assert!(ask(&mut cluster, at_leader, "HELLO 2 AUTH other x").contains("cluster"));
    assert!(ask(&mut cluster, at_leader, "CLUSTER SLOTS").starts_with('*'));
    assert_eq!(ask(&mut cluster, at_leader, "AUTH default x"), "+OK\r\n");
    assert!(ask(&mut cluster, at_leader, "CLUSTER SLOTS").starts_with("-CLUSTERDOWN there is no bucket later"));
    // It is there as soon as it is created, and gone when it is dropped.
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE later"), "+OK\r\n");
    for me in 0..3 {
        assert_eq!(cluster.ask(me, "SELECT later"), "+OK\r\n");
        assert_eq!(cluster.ask(me, "DBSIZE"), ":0\r\n");
        assert!(ask(&mut cluster, me, "CLUSTER SLOTS").starts_with('*'));
        assert_eq!(ask(&mut cluster, me, "DBSIZE"), ":0\r\n");
    }
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET DROP later CONFIRM"), "+OK\r\n");
    assert!(ask(&mut cluster, 0, "DBSIZE").starts_with("-CLUSTERDOWN there is no bucket later"));
    assert_eq!(ask(&mut cluster, 0, "RESET"), "+RESET\r\n");
    assert!(ask(&mut cluster, 0, "GET k").starts_with("-CLUSTERDOWN there is no bucket later"));
}

/// Slots with a hole make libraries fail in ways of their own, and a command about no partition would never be answered.
#[test]
fn partitions_that_nobody_has_led_yet_are_shown_at_the_node_that_is_asked() {
    let mut cluster = cluster_of("parted");
    let me = leader_of(&cluster, PartitionId::default());
    assert_eq!(cluster.ask(me, "DICTUM.BUCKET CREATE parted PARTITIONS 2"), "+OK\r\n");
    cluster.isolated = vec![0, 1, 2];
    let made = |cluster: &Cluster| cluster.nodes[usize::from(me)].partitions().iter().any(|it| it.bucket.0 == 1);
    for _ in 0..20 {
        if !made(&cluster) {
            cluster.pass();
        }
    }
    assert!(made(&cluster));
    assert_eq!(cluster.nodes[usize::from(me)].leader(PartitionId { bucket: base::BucketId(1), index: 0 }), None);
    let slots = ask(&mut cluster, me, "CLUSTER SLOTS");
    let own = format!("*1\r\n*5\r\n:0\r\n:16383\r\n*4\r\n$9\r\n127.0.0.1\r\n:710{}\r\n", me + 1);
    assert!(slots.starts_with(&own), "{slots}");
    let shards = ask(&mut cluster, me, "CLUSTER SHARDS");
    assert!(shards.starts_with("*1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:16383\r\n"), "{shards}");
    assert_eq!(ask(&mut cluster, me, "GET k"), "-CLUSTERDOWN Hash slot not served\r\n");
    for line in ["DBSIZE", "KEYS *", "FLUSHALL"] {
        let answer = ask(&mut cluster, me, line);
        assert!(answer.starts_with("-CLUSTERDOWN "), "{line}: {answer}");
    }
    cluster.isolated.clear();
    for _ in 0..400 {
        cluster.pass();
    }
    assert_eq!(ask(&mut cluster, me, "DBSIZE"), ":0\r\n");
}

/// Where nobody can be sent to, commands are forwarded.
#[test]
fn partitions_of_leaders_without_such_a_listener_are_served_by_any_node() {
    let mut cluster = Cluster::with(3, |config| {
        if config.me.0 != 2 {
            config.cluster_address.clear();
        }
    });
    assert_eq!(cluster.ask(2, "SET k v"), "+OK\r\n");
    cluster.open_at(2, ROUTES, Listener::Redirects);
    assert_eq!(ask(&mut cluster, 2, "GET k"), "$1\r\nv\r\n");
    assert_eq!(ask(&mut cluster, 2, "SET k w"), "+OK\r\n");
    let slots = ask(&mut cluster, 2, "CLUSTER SLOTS");
    assert!(slots.starts_with("*1\r\n*3\r\n:0\r\n:16383\r\n") && slots.contains(":7103"), "{slots}");
    assert_eq!(nodes(&mut cluster, 2).len(), 1);
    assert_eq!(cluster.ask(0, "GET k"), "$1\r\nw\r\n");
}

#[test]
fn a_pipeline_is_answered_in_its_order() {
    let mut cluster = parted();
    let (mut said, mut expected) = (String::new(), String::new());
    for index in 0..PARTITIONS {
        let key = key_in(index, 0);
        said += &format!("SET {key} {index}\r\nGET {key}\r\nPING\r\n");
        let leader = leader_of(&cluster, partition_of(&cluster, index));
        let moved = format!("-MOVED {} 127.0.0.1:710{}\r\n", hash_slot(key.as_bytes()), leader + 1);
        expected += &if leader == 0 { format!("+OK\r\n$1\r\n{index}\r\n") } else { moved.repeat(2) };
        expected += "+PONG\r\n";
    }
    cluster.give(0, Input::Received { connection: ROUTES, bytes: said.as_bytes() });
    let mut heard = String::new();
    while heard.len() < expected.len() {
        heard += &cluster.hear_as(0, ROUTES);
    }
    assert_eq!(heard, expected);
    assert_eq!(cluster.heard(0, CLIENT), "");
}
