//! A change of users is answered once it holds at every node that serves, and a node that cannot know it serves nobody.

use base::versions::NEWEST;
use base::{BucketId, NodeId, PartitionId};
use node::ConnectionId;

use crate::common::{Cluster, blank, pass_until};

const COUNCIL: PartitionId = PartitionId { bucket: BucketId(u32::MAX), index: 0 };
const ANN: ConnectionId = ConnectionId(7);

/// A cluster with a key, in which users can be changed.
fn started(count: usize) -> Cluster {
    let mut cluster = Cluster::new(count);
    pass_until(&mut cluster, "the version has risen", |cluster| {
        cluster.nodes.iter().all(|node| node.cluster_version() == NEWEST)
    });
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    cluster
}

fn passes(cluster: &mut Cluster, milliseconds: u64) {
    (0..milliseconds / 5).for_each(|_| cluster.pass());
}

/// Makes the user `ann`, who is connected to each node.
fn with_ann(cluster: &mut Cluster) {
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on nopass ~* &* +@all -@admin"), "+OK\r\n");
    for node in 0..cluster.nodes.len() as u16 {
        cluster.open(node, ANN);
        assert_eq!(cluster.ask_as(node, ANN, "AUTH ann x"), "+OK\r\n");
        assert_eq!(cluster.ask_as(node, ANN, "GET k"), "$1\r\n1\r\n");
    }
}

/// A node that does not lead the council, and is not the first one.
fn follower(cluster: &mut Cluster) -> u16 {
    pass_until(cluster, "the council has a leader", |cluster| cluster.nodes[0].leader(COUNCIL).is_some());
    let (NodeId(leader), _) = cluster.nodes[0].leader(COUNCIL).expect("it leads");
    if leader == 2 { 1 } else { 2 }
}

fn probe(cluster: &mut Cluster, node: u16, name: &str) -> u64 {
    let probes = cluster.nodes[usize::from(node)].take_probes();
    probes.into_iter().find_map(|(probe, count)| (probe == name).then_some(count)).unwrap_or(0)
}

#[test]
fn ok_means_every_node() {
    let mut cluster = started(3);
    with_ann(&mut cluster);
    cluster.nodes[0].take_probes();
    for round in 0..10 {
        let rule = if round % 2 == 0 { "-get" } else { "+get" };
        assert_eq!(cluster.ask(0, &format!("ACL SETUSER ann {rule}")), "+OK\r\n");
        for node in 0..3 {
            let answer = cluster.ask_as(node, ANN, "GET k");
            assert_eq!(answer.starts_with("-NOPERM"), round % 2 == 0, "{node} {answer}");
        }
    }
    assert_eq!(probe(&mut cluster, 0, "access: a change was confirmed by all"), 10, "nobody was waited for in vain");
}

#[test]
fn a_node_that_is_cut_off_lets_nobody_do_anything_before_the_answer() {
    let mut cluster = started(3);
    with_ann(&mut cluster);
    let away = follower(&mut cluster);
    assert_eq!(cluster.ask_as(away, ANN, "SUBSCRIBE news"), "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    cluster.isolated.push(away);
    cluster.say(0, b"ACL DELUSER ann\r\n");
    // Soon it is known to the majority, and is not answered: the third one may still let ann do something.
    passes(&mut cluster, 1000);
    assert_eq!(cluster.heard(0, ConnectionId(0)), "", "not yet");
    assert_eq!(cluster.hear(0), ":1\r\n");
    assert_eq!(probe(&mut cluster, 0, "access: a change outlasted the leases"), 1);
    // From here on it lets nobody do anything, and has put out those who listen.
    assert!(cluster.closed.contains(&(away, ANN)), "{:?}", cluster.closed);
    let other = ConnectionId(8);
    cluster.open(away, other);
    cluster.say_as(away, other, "ECHO x");
    let refused = cluster.hear_as(away, other);
    assert!(refused.starts_with("-CLUSTERDOWN this node has not heard from the council lately"), "{refused}");
    assert_eq!(cluster.ask_as(away, other, "PING"), "+PONG\r\n");
    // As soon as it hears of the others it goes on, and knows that ann is gone.
    cluster.isolated.clear();
    assert_eq!(cluster.ask_as(away, other, "ECHO x"), "$1\r\nx\r\n");
    assert!(cluster.ask_as(away, other, "AUTH ann x").starts_with("-WRONGPASS"));
}

#[test]
fn a_command_waits_for_a_lease_that_comes() {
    let mut cluster = started(3);
    with_ann(&mut cluster);
    let away = follower(&mut cluster);
    cluster.isolated.push(away);
    passes(&mut cluster, 4000);
    cluster.say_as(away, ANN, "SET k 2");
    passes(&mut cluster, 500);
    assert_eq!(cluster.heard(away, ANN), "");
    cluster.isolated.clear();
    assert_eq!(cluster.hear_as(away, ANN), "+OK\r\n");
    assert_eq!(cluster.ask_as(away, ANN, "MULTI"), "+OK\r\n");
    assert_eq!(cluster.ask_as(away, ANN, "GET k"), "+QUEUED\r\n");
    assert_eq!(cluster.ask_as(away, ANN, "EXEC"), "*1\r\n$1\r\n2\r\n");
}

#[test]
fn a_transaction_that_is_refused_is_over() {
    let mut cluster = started(3);
    with_ann(&mut cluster);
    let away = follower(&mut cluster);
    assert_eq!(cluster.ask_as(away, ANN, "MULTI"), "+OK\r\n");
    assert_eq!(cluster.ask_as(away, ANN, "SET k 2"), "+QUEUED\r\n");
    cluster.isolated.push(away);
    passes(&mut cluster, 4000);
    cluster.say_as(away, ANN, "EXEC");
    let refused = cluster.hear_as(away, ANN);
    let text =
        "-EXECABORT Transaction discarded because of: CLUSTERDOWN this node has not heard from the council lately";
    assert!(refused.starts_with(text), "{refused}");
    cluster.isolated.clear();
    assert_eq!(cluster.ask_as(away, ANN, "GET k"), "$1\r\n1\r\n", "it is carried out, not queued");
    // The same for one who may not end it.
    assert_eq!(cluster.ask(0, "ACL SETUSER ann -exec"), "+OK\r\n");
    assert_eq!(cluster.ask_as(away, ANN, "MULTI"), "+OK\r\n");
    let text =
        "-EXECABORT Transaction discarded because of: NOPERM User ann has no permissions to run the 'exec' command\r\n";
    assert_eq!(cluster.ask_as(away, ANN, "EXEC"), text);
    assert_eq!(cluster.ask_as(away, ANN, "GET k"), "$1\r\n1\r\n");
}

#[test]
fn rules_for_default_want_the_word_of_every_node() {
    let mut cluster = started(3);
    let away = follower(&mut cluster);
    cluster.isolated.push(away);
    // It has never heard of users, so it goes on without a lease, for `default`.
    cluster.say(0, b"ACL SETUSER default -flushall\r\n");
    let answer = cluster.hear(0);
    let named = format!("n{}", away + 1);
    assert!(answer.starts_with("-ERR the change is made, but") && answer.contains(&named), "{answer}");
    assert!(cluster.ask(0, "FLUSHALL").starts_with("-NOPERM"), "it is made");
    cluster.isolated.clear();
    pass_until(&mut cluster, "the third one has followed", |cluster| {
        cluster.nodes[usize::from(away)].users().iter().any(|user| user.contains("-flushall"))
    });
    assert_eq!(cluster.ask(0, "ACL SETUSER default -flushdb"), "+OK\r\n");
    assert!(cluster.ask(away, "FLUSHDB").starts_with("-NOPERM"));
    // Now it has rules for `default`, and they end with its lease.
    cluster.isolated.push(away);
    assert_eq!(cluster.ask(0, "ACL SETUSER default +flushdb"), "+OK\r\n");
}

#[test]
fn a_node_that_starts_alone_goes_by_no_users_that_may_be_old() {
    let mut cluster = started(3);
    let away = follower(&mut cluster);
    assert_eq!(cluster.ask(0, "ACL SETUSER default -config"), "+OK\r\n");
    // The end of its log has the change, and nobody tells it whether that is decided.
    let journal = cluster.journal(away);
    cluster.isolated.push(away);
    cluster.restart(away, journal);
    cluster.say(away, b"CONFIG GET maxclients\r\n");
    passes(&mut cluster, 1000);
    assert_eq!(cluster.heard(away, ConnectionId(0)), "");
    cluster.isolated.clear();
    assert!(cluster.hear(away).starts_with("-NOPERM"));
}

#[test]
fn without_users_nobody_needs_the_council() {
    let mut cluster = started(3);
    let away = follower(&mut cluster);
    cluster.isolated.push(away);
    passes(&mut cluster, 10_000);
    assert_eq!(cluster.ask(away, "ECHO x"), "$1\r\nx\r\n");
    let mut one = started(1);
    assert_eq!(one.ask(0, "ACL SETUSER default -flushall"), "+OK\r\n");
    passes(&mut one, 10_000);
    assert!(one.ask(0, "FLUSHALL").starts_with("-NOPERM"), "who votes alone has its lease from itself");
}

/// Its folder is gone, and it takes the cluster for a new one until it hears of the others.
#[test]
fn a_node_with_an_empty_folder_lets_nobody_do_what_default_may_not() {
    let mut cluster = started(3);
    let away = follower(&mut cluster);
    assert_eq!(cluster.ask(0, "ACL SETUSER root on nopass ~* &* +@all"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "ACL SETUSER default off"), "+OK\r\n");
    cluster.open(0, ANN);
    assert_eq!(cluster.ask_as(0, ANN, "AUTH root x"), "+OK\r\n");
    cluster.isolated.push(away);
    cluster.restart_in(away, blank(4711));
    // Strangers say this while it knows nobody, and once more when it has heard of the others and has not caught up.
    let orders = [
        "FLUSHALL",
        "DICTUM.NODE VOTERS 1",
        "DICTUM.NODE PAUSE",
        "MONITOR",
        "SET k evil",
        "CONFIG SET acllog-max-len 7",
    ];
    for (number, order) in orders.iter().enumerate() {
        let stranger = ConnectionId(20 + number as u64);
        cluster.open(away, stranger);
        cluster.say_as(away, stranger, order);
    }
    cluster.pass();
    cluster.isolated.clear();
    let mut next = 40;
    pass_until(&mut cluster, "it has caught up", |cluster| {
        cluster.nodes[usize::from(away)].users().iter().any(|user| user.starts_with("root "))
    });
    for order in orders {
        next += 1;
        cluster.open(away, ConnectionId(next));
        let answer = cluster.ask_as(away, ConnectionId(next), order);
        assert!(answer.starts_with("-NOAUTH"), "{order}: {answer}");
    }
    passes(&mut cluster, 6000);
    assert_eq!(cluster.ask_as(0, ANN, "GET k"), "$1\r\n1\r\n", "neither removed nor changed");
    let settings = cluster.ask_as(0, ANN, "DICTUM.NODE SETTINGS");
    assert!(!settings.contains("voters\r\n:1\r\n") && !settings.contains("paused\r\n:1\r\n"), "{settings}");
    for number in 0..orders.len() as u64 {
        assert!(cluster.closed.contains(&(away, ConnectionId(20 + number))), "{} goes on", orders[number as usize]);
    }
}

#[test]
fn who_is_put_out_hears_nothing_any_more() {
    let mut cluster = started(3);
    assert_eq!(cluster.ask(0, "ACL SETUSER root on nopass ~* &* +@all"), "+OK\r\n");
    let orders = ["MONITOR", "SUBSCRIBE news", "BLPOP q 0", "CLIENT TRACKING ON"];
    for (number, order) in orders.iter().enumerate() {
        let stranger = ConnectionId(20 + number as u64);
        cluster.open(1, stranger);
        if order.starts_with("CLIENT") {
            assert!(cluster.ask_as(1, stranger, "HELLO 3").contains("proto"));
        }
        cluster.say_as(1, stranger, order);
    }
    passes(&mut cluster, 100);
    assert_eq!(cluster.ask(0, "ACL SETUSER default off"), "+OK\r\n");
    for number in 0..orders.len() as u64 {
        assert!(cluster.closed.contains(&(1, ConnectionId(20 + number))), "{} goes on", orders[number as usize]);
    }
}

#[test]
fn a_wait_for_a_lease_is_no_reply_that_a_client_skips() {
    let mut cluster = started(3);
    with_ann(&mut cluster);
    let away = follower(&mut cluster);
    cluster.isolated.push(away);
    passes(&mut cluster, 4000);
    cluster.say_as(away, ANN, "CLIENT REPLY SKIP");
    cluster.say_as(away, ANN, "GET k");
    cluster.say_as(away, ANN, "ECHO last");
    passes(&mut cluster, 100);
    cluster.isolated.clear();
    assert_eq!(cluster.hear_as(away, ANN), "$4\r\nlast\r\n");
}

#[test]
fn what_a_script_was_refused_stands_under_the_user_who_has_sent_it() {
    let mut cluster = started(3);
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on nopass ~k +eval +eval_ro +get"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "ACL SETUSER bob on nopass ~k +eval +get +auth"), "+OK\r\n");
    // In one piece, so that the connection is somebody else's before the script has run.
    for (node, eval) in [(0, "EVAL"), (1, "EVAL"), (2, "EVAL_RO")] {
        cluster.open(node, ANN);
        assert_eq!(cluster.ask_as(node, ANN, "AUTH ann x"), "+OK\r\n");
        cluster.say_as(node, ANN, &format!("{eval} \"return redis.pcall('get', 'secret')\" 0\r\nRESET\r\nPING"));
        let mut heard = String::new();
        while !heard.ends_with("+PONG\r\n") {
            heard += &cluster.hear_as(node, ANN);
        }
        assert!(heard.contains("can't access at least one of the keys"), "{heard}");
        let log = cluster.ask(node, "ACL LOG");
        let said = ["lua", "key", "secret", "ann"].iter().all(|word| log.contains(&format!("\r\n{word}\r\n")));
        assert!(said && !log.contains("\r\ndefault\r\n") && log.starts_with("*1\r\n"), "{log}");
    }
    // The same where a script is always on its way: each stands under its own sender.
    let turns: Vec<String> = (0..50)
        .flat_map(|_| ["ann", "bob"])
        .map(|user| format!("AUTH {user} x\r\nEVAL \"return redis.pcall('get', '{user}-asks')\" 0"))
        .collect();
    cluster.say_as(0, ANN, &format!("{}\r\nRESET\r\nPING", turns.join("\r\n")));
    let mut heard = String::new();
    while !heard.ends_with("+PONG\r\n") {
        heard += &cluster.hear_as(0, ANN);
    }
    let log = cluster.ask(0, "ACL LOG 2");
    for user in ["ann", "bob"] {
        let object = log.find(&format!("\r\n{user}-asks\r\n")).expect("it is there");
        assert!(log[object..].split("age-seconds").next().is_some_and(|of| of.contains(&format!("\r\n{user}\r\n"))));
    }
    // A script of the next user is noted under that one.
    assert_eq!(cluster.ask_as(0, ANN, "AUTH bob x"), "+OK\r\n");
    cluster.ask_as(0, ANN, "EVAL \"return redis.pcall('get', 'other')\" 0");
    assert!(cluster.ask(0, "ACL LOG 1").contains("\r\nbob\r\n"));
}
