//! Publishing, listening and keeping copies where the pages do not reach: links that lose and do not keep up, disks that stand still.

use crate::common::{CLIENT, Cluster, alone, bulk, field};
use node::{ConnectionId, Input};

const OTHER: ConnectionId = ConnectionId(2);

/// Three nodes of which the first leads.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(3);
    for me in 0..3 {
        assert_eq!(cluster.ask(me, "SET k 1"), "+OK\r\n");
    }
    cluster
}

fn pass(cluster: &mut Cluster, times: usize) {
    for _ in 0..times {
        cluster.pass();
    }
}

#[test]
fn a_link_that_does_not_keep_up_gets_no_more() {
    let mut cluster = cluster();
    assert!(cluster.ask(1, "SUBSCRIBE news").starts_with("*3"));
    pass(&mut cluster, 20);
    let mut command = Vec::new();
    wire::encode_command(&mut command, [&b"PUBLISH"[..], b"news", &vec![b'x'; 1 << 20]]);
    let mut reached = 0;
    // Nothing of it arrives before all is said.
    for _ in 0..100 {
        cluster.say(0, &command);
        reached += usize::from(cluster.heard(0, CLIENT) == ":1\r\n");
    }
    assert!((60..64).contains(&reached), "{reached}");
    let info = cluster.ask(0, "INFO");
    // The node that does not listen gets everything, too, and no more than that.
    assert_eq!(field(bulk(&info), "dictum_pubsub_unsent"), Some((2 * (100 - reached)).to_string().as_str()));
    pass(&mut cluster, 40);
    assert_eq!(cluster.heard(1, CLIENT).matches("$4\r\nnews\r\n").count(), reached);
    assert_eq!(cluster.ask(0, "PUBLISH news again"), ":1\r\n", "all was heard");
    assert!(cluster.hear(1).ends_with("$5\r\nagain\r\n"));
}

#[test]
fn who_missed_something_is_told_of_all_listeners() {
    let mut cluster = cluster();
    // What is sent to the second node is lost, and it does not know.
    cluster.isolated = vec![1];
    assert!(cluster.ask(0, "SUBSCRIBE news").starts_with("*3"));
    pass(&mut cluster, 10);
    cluster.isolated.clear();
    pass(&mut cluster, 500);
    assert_eq!(cluster.ask(1, "PUBLISH news hello"), ":1\r\n");
    assert!(cluster.hear(0).ends_with("$5\r\nhello\r\n"));
    // The same with something that follows, by which it can know.
    cluster.isolated = vec![1];
    assert!(cluster.ask(0, "SUBSCRIBE weather").starts_with("*3"));
    pass(&mut cluster, 2);
    cluster.isolated.clear();
    assert!(cluster.ask(0, "SUBSCRIBE sports").starts_with("*3"));
    pass(&mut cluster, 200);
    assert_eq!(cluster.ask(1, "PUBSUB NUMSUB weather sports"), "*4\r\n$7\r\nweather\r\n:1\r\n$6\r\nsports\r\n:1\r\n");
}

#[test]
fn what_is_published_behind_a_write_waits_for_it() {
    let mut cluster = cluster();
    cluster.open(0, OTHER);
    assert!(cluster.ask_as(0, OTHER, "SUBSCRIBE news").starts_with("*3"));
    cluster.stalled = vec![0, 1, 2];
    cluster.say(0, b"SET k 2\r\nPUBLISH news done\r\nMULTI\r\nSET k 3\r\nPUBLISH news again\r\nEXEC\r\nPING\r\n");
    pass(&mut cluster, 20);
    assert_eq!(cluster.heard(0, OTHER), "");
    cluster.stalled.clear();
    pass(&mut cluster, 20);
    assert_eq!(cluster.heard(0, CLIENT), "+OK\r\n:1\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:1\r\n+PONG\r\n");
    let heard = cluster.heard(0, OTHER);
    assert!(heard.contains("$4\r\ndone\r\n") && heard.ends_with("$5\r\nagain\r\n"), "{heard}");
}

#[test]
fn listeners_are_described_and_killed() {
    let mut cluster = alone();
    cluster.open(0, OTHER);
    cluster.ask_as(0, OTHER, "SUBSCRIBE a b");
    cluster.ask_as(0, OTHER, "PSUBSCRIBE a*");
    cluster.ask_as(0, OTHER, "SSUBSCRIBE s");
    let list = cluster.ask(0, "CLIENT LIST TYPE pubsub");
    assert!(bulk(&list).starts_with("id=2 ") && bulk(&list).contains(" flags=P db=0 sub=2 psub=1 ssub=1 "), "{list}");
    let info = cluster.ask(0, "INFO");
    for (name, figure) in
        [("pubsub_clients", "1"), ("pubsub_channels", "2"), ("pubsub_patterns", "1"), ("pubsubshard_channels", "1")]
    {
        assert_eq!(field(bulk(&info), name), Some(figure), "{name}");
    }
    assert_eq!(cluster.ask(0, "CLIENT KILL TYPE pubsub"), ":1\r\n");
    assert!(cluster.closed.contains(&(0, OTHER)));
    assert_eq!(cluster.ask(0, "PUBSUB CHANNELS"), "*0\r\n");
    let limit = "CONFIG SET client-output-buffer-limit";
    assert_eq!(cluster.ask(0, &format!("{limit} \"pubsub 1mb 0 0 normal 1gb 0 0\"")), "+OK\r\n");
    let shown = cluster.ask(0, "CONFIG GET client-output-buffer-limit");
    assert!(shown.ends_with("normal 1073741824 0 0 slave 0 0 0 pubsub 1048576 0 0\r\n"), "{shown}");
    for (value, reason) in [
        ("pubsub 1mb 0", "Wrong number of arguments in buffer limit configuration."),
        ("nobody 1mb 0 0", "Invalid client class specified in buffer limit configuration."),
        ("pubsub x 0 0", "Error in hard, soft or soft_seconds setting in buffer limit configuration."),
    ] {
        let answer = cluster.ask(0, &format!("{limit} \"{value}\""));
        assert!(answer.trim_end().ends_with(reason), "{value}: {answer}");
    }
}

#[test]
fn a_change_is_told_behind_a_held_answer_that_is_older() {
    let mut cluster = cluster();
    cluster.open(1, OTHER);
    for line in ["HELLO 3", "CLIENT TRACKING ON", "DICTUM.DURABILITY all"] {
        cluster.ask_as(1, OTHER, line);
    }
    cluster.stalled = vec![2];
    // The write is done and waits for the third disk; the read has its answer and waits for that of the write.
    cluster.give(1, Input::Received { connection: OTHER, bytes: b"SET own 1\r\nGET k\r\n" });
    pass(&mut cluster, 20);
    assert_eq!(cluster.ask(0, "SET k 2"), "+OK\r\n");
    pass(&mut cluster, 20);
    assert_eq!(cluster.heard(1, OTHER), "", "who forgets k now would keep the old value");
    cluster.stalled.clear();
    pass(&mut cluster, 20);
    assert_eq!(cluster.heard(1, OTHER), "+OK\r\n$1\r\n1\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
}

#[test]
fn a_node_without_contact_invalidates_everything() {
    let mut cluster = cluster();
    cluster.open(2, OTHER);
    for line in ["HELLO 3", "CLIENT TRACKING ON", "GET k"] {
        cluster.ask_as(2, OTHER, line);
    }
    cluster.isolated = vec![2];
    assert_eq!(cluster.ask(0, "SET k 2"), "+OK\r\n");
    assert_eq!(cluster.hear_as(2, OTHER), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
    // Not all groups miss their leaders in the same tick, and with each everything is invalidated once more.
    pass(&mut cluster, 20);
    cluster.heard(2, OTHER);
    cluster.isolated.clear();
    pass(&mut cluster, 200);
    assert_eq!(cluster.ask_as(2, OTHER, "GET k"), "$1\r\n2\r\n");
    assert_eq!(cluster.ask(0, "SET k 3"), "+OK\r\n");
    assert_eq!(cluster.hear_as(2, OTHER), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
}

#[test]
fn a_redirection_that_is_gone_is_told() {
    let mut cluster = alone();
    cluster.open(0, OTHER);
    cluster.ask(0, "HELLO 3");
    assert_eq!(cluster.ask(0, "CLIENT TRACKING ON REDIRECT 2"), "+OK\r\n");
    cluster.ask(0, "GET k");
    cluster.give(0, Input::Closed { connection: OTHER });
    cluster.open(0, ConnectionId(3));
    assert_eq!(cluster.ask_as(0, ConnectionId(3), "SET k 2"), "+OK\r\n");
    assert_eq!(cluster.hear(0), ">2\r\n$21\r\ntracking-redir-broken\r\n:2\r\n");
    assert!(cluster.ask(0, "CLIENT TRACKINGINFO").contains("broken_redirect"));
    let info = cluster.ask(0, "CLIENT INFO");
    assert!(info.contains(" flags=tR ") && info.contains(" redir=2 "), "{info}");
    let stats = cluster.ask(0, "INFO");
    assert!(stats.contains("tracking_clients:1\r\n") && stats.contains("tracking_total_keys:0\r\n"), "{stats}");
    assert_eq!(cluster.ask(0, "RESET"), "+RESET\r\n");
    assert_eq!(cluster.ask(0, "CLIENT GETREDIR"), ":-1\r\n");
}
