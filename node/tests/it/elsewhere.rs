//! Nodes without a state of a partition: what their clients see, and what becomes of what they had.

use crate::common::{CLIENT, Cluster, bulk, pass_until};
use base::{BucketId, NodeId, PartitionId};
use node::ConnectionId;

const DEFAULT: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };
const A: ConnectionId = ConnectionId(11);
const B: ConnectionId = ConnectionId(12);

/// Five nodes; three of them vote in the default partition, and the others have nothing of it.
fn five() -> (Cluster, u16) {
    let mut cluster = Cluster::new(5);
    assert_eq!(cluster.ask(0, "SET old 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.NODE VOTERS 3"), "+OK\r\n");
    pass_until(&mut cluster, "two nodes are without", |cluster| without(cluster).len() == 2);
    let away = without(&cluster)[0];
    (cluster, away)
}

fn without(cluster: &Cluster) -> Vec<u16> {
    (0..5).filter(|node| cluster.nodes[usize::from(*node)].is_without(DEFAULT)).collect()
}

fn leader(cluster: &Cluster, asked: u16) -> u16 {
    cluster.nodes[usize::from(asked)].leader(DEFAULT).map(|(leader, _)| leader.0).expect("somebody leads")
}

fn pass(cluster: &mut Cluster, times: usize) {
    for _ in 0..times {
        cluster.pass();
    }
}

#[test]
fn its_clients_need_not_know() {
    let (mut cluster, away) = five();
    let dialogue = [
        ("GET old", "$1\r\n1\r\n"),
        ("SET k 1", "+OK\r\n"),
        ("INCR k", ":2\r\n"),
        ("GET k", "$1\r\n2\r\n"),
        ("GET none", "$-1\r\n"),
        ("LPUSH k 1", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("EXISTS k old none", ":2\r\n"),
        ("DBSIZE", ":2\r\n"),
        ("WATCH k", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("INCR k", "+QUEUED\r\n"),
        ("GET k", "+QUEUED\r\n"),
        ("EXEC", "*2\r\n:3\r\n$1\r\n3\r\n"),
        ("DICTUM.ONCE id INCR k", ":4\r\n"),
        ("DICTUM.ONCE id INCR k", ":4\r\n"),
        ("DICTUM.OUTCOME id", "*2\r\n$7\r\napplied\r\n:4\r\n"),
        ("EVAL \"return redis.call('incr', KEYS[1])\" 1 k", ":5\r\n"),
        ("DICTUM.CONSISTENCY local", "+OK\r\n"),
        ("GET k", "$1\r\n5\r\n"),
        ("DICTUM.CONSISTENCY default", "+OK\r\n"),
        ("DICTUM.DURABILITY all", "+OK\r\n"),
        ("SET k 6", "+OK\r\n"),
        ("DICTUM.DURABILITY default", "+OK\r\n"),
        ("SADD s a", ":1\r\n"),
        ("SADD s a", ":0\r\n"),
        ("SADD s a", ":0\r\n"),
    ];
    for (line, expected) in dialogue {
        assert_eq!(cluster.ask(away, line), expected, "{line}");
    }
    assert_eq!(cluster.ask(away, "WAIT 2 1000"), ":2\r\n");
    assert!(cluster.ask(away, "SCAN 0 COUNT 100").contains("$3\r\nold\r\n"));
    // A key that somebody else has changed since.
    assert_eq!(cluster.ask(away, "WATCH k"), "+OK\r\n");
    let leads = leader(&cluster, away);
    assert_eq!(cluster.ask(leads, "SET k 7"), "+OK\r\n");
    assert_eq!(cluster.ask(away, "MULTI"), "+OK\r\n");
    assert_eq!(cluster.ask(away, "SET k 8"), "+QUEUED\r\n");
    assert_eq!(cluster.ask(away, "EXEC"), "*-1\r\n");
    assert_eq!(without(&cluster).len(), 2, "nobody has learned it for that");
}

#[test]
fn a_pipeline_keeps_its_order() {
    let (mut cluster, away) = five();
    cluster.say(away, b"SET k 1\r\nGET k\r\nINCR k\r\nINCR k\r\nGET k\r\nGET k\r\nDEL k\r\nGET k\r\n");
    let expected = "+OK\r\n$1\r\n1\r\n:2\r\n:3\r\n$1\r\n3\r\n$1\r\n3\r\n:1\r\n$-1\r\n";
    let mut heard = String::new();
    while heard.len() < expected.len() {
        heard += &cluster.hear(away);
    }
    assert_eq!(heard, expected);
}

/// Whatever it was about to do when the leader died is done once, and answered.
#[test]
fn a_leader_that_dies_costs_a_pause() {
    let (mut cluster, away) = five();
    assert_eq!(cluster.ask(away, "SET k 0"), "+OK\r\n");
    for round in 1..=40 {
        let leads = leader(&cluster, away);
        cluster.say(away, b"INCR k\r\n");
        // At another moment each time: before it was heard, before it was decided, before it was told.
        let delay = std::time::Duration::from_millis(round % 4);
        cluster.delay = delay;
        pass(&mut cluster, (round % 3) as usize);
        cluster.isolated = vec![leads];
        assert_eq!(cluster.hear(away), format!(":{round}\r\n"));
        cluster.isolated.clear();
        cluster.delay = std::time::Duration::ZERO;
        pass(&mut cluster, 300);
    }
    assert_eq!(cluster.ask(away, "GET k"), "$2\r\n40\r\n");
}

/// The age that such a read has is counted from when it left: so nobody may answer it who does not know that he still leads.
#[test]
fn a_leader_that_was_deposed_answers_no_reads_of_any_level() {
    let (mut cluster, away) = five();
    let leads = leader(&cluster, away);
    assert_eq!(cluster.ask(away, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(away, "DICTUM.CONSISTENCY local"), "+OK\r\n");
    assert_eq!(cluster.ask(away, "GET k"), "$1\r\n1\r\n");
    // The client's node hears the former leader, and none of those who choose another one.
    let others: Vec<u16> = (0..5).filter(|node| ![leads, away].contains(node)).collect();
    cluster.cut = others.iter().flat_map(|other| [(leads, *other), (away, *other)]).collect();
    let voter = *others.iter().find(|node| !without(&cluster).contains(node)).expect("a voter");
    let leads_there =
        |cluster: &Cluster, node: u16| cluster.nodes[usize::from(node)].leader(DEFAULT).map(|(it, _)| it.0);
    pass_until(&mut cluster, "another leader", |it| leads_there(it, voter).is_some_and(|node| node != leads));
    assert_eq!(cluster.ask(voter, "SET k 2"), "+OK\r\n");
    cluster.say(away, b"GET k\r\n");
    pass(&mut cluster, 200);
    assert!(!cluster.heard(away, CLIENT).contains('1'), "it is older than its age says");
    cluster.cut.clear();
    pass_until(&mut cluster, "it is known", |it| leads_there(it, away).is_some_and(|node| node != leads));
    cluster.heard(away, CLIENT);
    pass(&mut cluster, 2000);
    cluster.heard(away, CLIENT);
    assert_eq!(cluster.ask(away, "GET k"), "$1\r\n2\r\n");
}

#[test]
fn who_waits_there_is_woken() {
    let (mut cluster, away) = five();
    let leads = leader(&cluster, away);
    for (connection, line) in [(A, "BLPOP queue 0"), (B, "BLPOP queue 0")] {
        cluster.open(away, connection);
        cluster.say_as(away, connection, line);
        pass(&mut cluster, 20);
    }
    assert_eq!(cluster.ask(leads, "RPUSH queue 1"), ":1\r\n");
    assert_eq!(cluster.hear_as(away, A), "*2\r\n$5\r\nqueue\r\n$1\r\n1\r\n");
    pass(&mut cluster, 50);
    assert_eq!(cluster.heard(away, B), "");
    assert_eq!(cluster.ask(leads, "RPUSH queue 2"), ":1\r\n");
    assert_eq!(cluster.hear_as(away, B), "*2\r\n$5\r\nqueue\r\n$1\r\n2\r\n");
    // A stream is read, not taken; and whoever leads meanwhile.
    cluster.say_as(away, A, "XREAD BLOCK 0 STREAMS s $");
    cluster.say_as(away, B, "XREAD BLOCK 0 STREAMS s $");
    pass(&mut cluster, 50);
    cluster.isolated = vec![leads];
    pass_until(&mut cluster, "another one leads", |cluster| {
        cluster.nodes[usize::from(away)].leader(DEFAULT).is_some_and(|(other, _)| other != NodeId(leads))
    });
    assert_eq!(cluster.ask(away, "XADD s 1-1 f v"), "$3\r\n1-1\r\n");
    for connection in [A, B] {
        assert!(cluster.hear_as(away, connection).contains("$3\r\n1-1\r\n"));
    }
    cluster.say_as(away, A, "BLPOP queue 0.1");
    pass(&mut cluster, 100);
    assert_eq!(cluster.heard(away, A), "*-1\r\n");
}

#[test]
fn who_keeps_copies_there_is_told() {
    let (mut cluster, away) = five();
    let leads = leader(&cluster, away);
    for line in ["HELLO 3", "CLIENT TRACKING ON"] {
        cluster.ask(away, line);
    }
    pass(&mut cluster, 20);
    cluster.heard(away, CLIENT);
    assert_eq!(cluster.ask(away, "GET old"), "$1\r\n1\r\n");
    assert_eq!(cluster.ask(leads, "SET other 1"), "+OK\r\n");
    pass(&mut cluster, 20);
    assert_eq!(cluster.heard(away, CLIENT), "", "it has not read that");
    assert_eq!(cluster.ask(leads, "SET old 2"), "+OK\r\n");
    assert_eq!(cluster.hear(away), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nold\r\n");
    assert_eq!(cluster.ask(away, "GET old"), "$1\r\n2\r\n");
    // While the leader is away anything may happen.
    cluster.isolated = vec![leads];
    assert_eq!(cluster.hear(away), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
}

#[test]
fn who_listens_to_what_becomes_of_keys_hears_it_there() {
    let (mut cluster, away) = five();
    let leads = leader(&cluster, away);
    assert_eq!(cluster.ask(away, "CONFIG SET notify-keyspace-events KEA"), "+OK\r\n");
    assert!(cluster.ask(away, "SUBSCRIBE __keyevent@0__:set").starts_with("*3"));
    pass(&mut cluster, 20);
    assert_eq!(cluster.ask(leads, "SET k 1"), "+OK\r\n");
    let heard = cluster.hear(away);
    assert_eq!(heard, "*3\r\n$7\r\nmessage\r\n$18\r\n__keyevent@0__:set\r\n$1\r\nk\r\n");
}

/// What was given up comes back when the map says so, and answers itself again.
#[test]
fn what_was_given_up_comes_back() {
    let (mut cluster, away) = five();
    assert_eq!(cluster.ask(away, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.NODE VOTERS 5"), "+OK\r\n");
    pass_until(&mut cluster, "all have it", |cluster| without(cluster).is_empty());
    pass_until(&mut cluster, "five vote", |cluster| {
        (0..5).all(|node| cluster.voters(node, DEFAULT).is_some_and(|voters| voters.now.concat().len() == 5))
    });
    assert_eq!(cluster.ask(away, "GET k"), "$1\r\n1\r\n");
    assert_eq!(cluster.ask(away, "SET k 2"), "+OK\r\n");
    let digest = |cluster: &Cluster, node: u16| cluster.nodes[usize::from(node)].state_digest(DEFAULT);
    pass_until(&mut cluster, "all agree", |cluster| {
        (1..5).all(|node| digest(cluster, node).is_some() && digest(cluster, node) == digest(cluster, 0))
    });
    // Any three of them are a majority now, those that came back among them.
    assert!(bulk(&cluster.ask(away, "GET k")) == "2");
}

/// A process that is started again has nothing still, and its clients are served at once.
#[test]
fn it_has_nothing_after_a_start_either() {
    let (mut cluster, away) = five();
    let journal = cluster.journal(away);
    cluster.restart(away, journal);
    assert_eq!(cluster.ask(away, "GET old"), "$1\r\n1\r\n");
    assert_eq!(cluster.ask(away, "SET old 2"), "+OK\r\n");
    assert!(cluster.nodes[usize::from(away)].is_without(DEFAULT));
}

/// A node gives up what it has and gets a seat again. While it copies, its state is older than what its clients have seen of it: it does not answer from that, not even who
/// asks for whatever there is.
#[test]
fn who_comes_back_does_not_show_its_clients_an_earlier_state() {
    let (mut cluster, away) = five();
    let value = "v".repeat(300_000);
    for number in 10..22 {
        let command = format!("*3\r\n$3\r\nSET\r\n$2\r\n{number}\r\n${}\r\n{value}\r\n", value.len());
        cluster.say(away, command.as_bytes());
        assert_eq!(cluster.hear(away), "+OK\r\n");
    }
    assert_eq!(cluster.ask(away, "SET last 5"), "+OK\r\n");
    let leads = leader(&cluster, away);
    let there = (0..5).find(|node| *node != leads && !without(&cluster).contains(node)).expect("three have it");
    cluster.open(there, A);
    assert_eq!(cluster.ask_as(there, A, "DICTUM.CONSISTENCY local"), "+OK\r\n");
    pass_until(&mut cluster, "it has the last", |cluster| {
        let progress = |node: u16| cluster.nodes[usize::from(node)].progress(DEFAULT).map(|it| it.applied);
        progress(there) == progress(leads)
    });
    assert_eq!(cluster.ask_as(there, A, "GET last"), "$1\r\n5\r\n");
    assert_eq!(cluster.ask(away, &format!("DICTUM.NODE DRAIN n{}", there + 1)), "+OK\r\n");
    pass_until(&mut cluster, "it has given it up", |cluster| cluster.nodes[usize::from(there)].is_without(DEFAULT));
    assert_eq!(cluster.ask(away, &format!("DICTUM.NODE PROMOTE n{}", there + 1)), "+OK\r\n");
    assert_eq!(cluster.ask(away, "DICTUM.NODE VOTERS 5"), "+OK\r\n");
    // It takes some ways there and back.
    cluster.delay = std::time::Duration::from_millis(5);
    pass_until(&mut cluster, "it has the first of it", |cluster| {
        cluster.nodes[usize::from(there)].progress(DEFAULT).is_some_and(|it| it.applied.0 > 0)
    });
    for _ in 0..400 {
        assert_eq!(cluster.ask_as(there, A, "GET last"), "$1\r\n5\r\n");
    }
    assert!(!cluster.nodes[usize::from(there)].is_without(DEFAULT), "it has it again");
}
