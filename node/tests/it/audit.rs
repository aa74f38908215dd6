//! What a node tells for the audit trail: with the answer, with who has asked, and within bounds.

use base::versions::NEWEST;
use node::{AuditEvent, ConnectionId, Input, Listener};

use crate::common::{CLIENT, Cluster, alone, pass_until};

fn open(cluster: &mut Cluster, number: u64) -> ConnectionId {
    let connection = ConnectionId(100 + number);
    let (address, local_address) = (format!("10.0.0.{number}:1000"), "10.0.0.1:7001".to_owned());
    cluster.give(0, Input::Opened { connection, address, local_address, listener: Listener::Forwards });
    connection
}

/// What the first node has told since the last call, in a line each.
fn told(cluster: &mut Cluster) -> Vec<String> {
    let line = |event: AuditEvent| {
        let kind = event.kind();
        match event {
            AuditEvent::LoggedIn(by) | AuditEvent::LoginFailed(by) => format!("{kind} {} {}", by.user, by.client),
            AuditEvent::Refused { by, reason, object } => format!("{kind} {} {reason} {object}", by.user),
            AuditEvent::Accessed { by, command, bucket, access, keys, more } => {
                format!("{kind} {} {command} in {bucket}: {access} {} +{more}", by.user, keys.join(" "))
            }
            AuditEvent::Ordered { by, words, outcome } => format!("{kind} {} {}: {outcome}", by.user, words.join(" ")),
            AuditEvent::UsersFollowed { users, .. } => format!("{kind} {}", users.join(" ")),
            AuditEvent::LeftOut { of, count } => format!("{kind} {of} {count}"),
            AuditEvent::BucketMade { name }
            | AuditEvent::BucketChanged { name }
            | AuditEvent::BucketDropped { name } => {
                format!("{kind} {name}")
            }
            other => format!("{kind} {other:?}"),
        }
    };
    std::mem::take(&mut cluster.audited).into_iter().filter(|(me, _)| *me == 0).map(|(_, event)| line(event)).collect()
}

#[test]
fn logins_refusals_and_orders_are_told_with_their_answers() {
    let mut cluster = alone();
    pass_until(&mut cluster, "the version", |cluster| cluster.nodes[0].cluster_version() == NEWEST);
    told(&mut cluster);
    let ann = open(&mut cluster, 7);
    assert!(cluster.ask_as(0, ann, "AUTH ann secret").starts_with("-WRONGPASS"));
    assert_eq!(told(&mut cluster), ["login-failed ann 10.0.0.7:1000"]);
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on >secret ~own +get +flushdb"), "+OK\r\n");
    assert_eq!(
        told(&mut cluster),
        ["users-followed ann", "order default ACL SETUSER ann on >(redacted) ~own +get +flushdb: ok"]
    );
    assert_eq!(cluster.ask_as(0, ann, "AUTH ann secret"), "+OK\r\n");
    assert!(cluster.ask_as(0, ann, "GET other").starts_with("-NOPERM"));
    assert!(cluster.ask_as(0, ann, "CONFIG SET maxclients 5").starts_with("-NOPERM"));
    // An order that is refused for want of rights is a refusal, and no order.
    assert_eq!(
        told(&mut cluster),
        ["login ann 10.0.0.7:1000", "refused ann key other", "refused ann command config|set"]
    );
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE shop"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET DROP shop CONFIRM"), "+OK\r\n");
    assert!(cluster.ask(0, "ACL SETUSER bob oops").starts_with("-ERR"));
    assert_eq!(cluster.ask(0, "FLUSHALL"), "+OK\r\n");
    assert_eq!(
        told(&mut cluster),
        [
            "bucket-made shop",
            "order default DICTUM.BUCKET CREATE shop: ok",
            "bucket-dropped shop",
            "order default DICTUM.BUCKET DROP shop CONFIRM: ok",
            "order default ACL SETUSER bob (redacted): ERR Error in ACL SETUSER",
            "order default FLUSHALL: ok",
        ]
    );
    assert_eq!(cluster.ask(0, "GET a"), "$-1\r\n");
    assert_eq!(told(&mut cluster), [""; 0]);
}

#[test]
fn what_is_in_a_transaction_is_told_when_it_is_done_or_not() {
    let mut cluster = alone();
    told(&mut cluster);
    let other = open(&mut cluster, 8);
    cluster.ask(0, "WATCH a");
    for line in ["MULTI", "SET b 1", "FLUSHDB"] {
        cluster.ask(0, line);
    }
    assert_eq!(told(&mut cluster), [""; 0], "it is only queued");
    cluster.ask_as(0, other, "SET a 1");
    assert_eq!(cluster.ask(0, "EXEC"), "*-1\r\n");
    assert_eq!(told(&mut cluster), ["order default FLUSHDB: not done: a watched key had changed"]);
    for line in ["MULTI", "FLUSHDB", "EXEC"] {
        cluster.ask(0, line);
    }
    assert_eq!(told(&mut cluster), ["order default FLUSHDB: ok"]);
}

#[test]
fn a_transaction_that_its_user_may_not_end_is_told_as_a_refusal() {
    let mut cluster = alone();
    pass_until(&mut cluster, "the version", |cluster| cluster.nodes[0].cluster_version() == NEWEST);
    let ann = open(&mut cluster, 8);
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on nopass ~* +multi +flushdb"), "+OK\r\n");
    for line in ["AUTH ann x", "MULTI", "FLUSHDB"] {
        cluster.ask_as(0, ann, line);
    }
    told(&mut cluster);
    assert!(cluster.ask_as(0, ann, "EXEC").starts_with("-EXECABORT Transaction discarded because of: NOPERM"));
    assert_eq!(told(&mut cluster), ["refused ann command exec"]);
}

#[test]
fn an_order_whose_client_goes_is_told_as_unknown() {
    let mut cluster = Cluster::new(3);
    pass_until(&mut cluster, "a leader", |cluster| cluster.nodes[0].leader(cluster.nodes[0].partitions()[0]).is_some());
    told(&mut cluster);
    cluster.isolated = vec![0];
    cluster.say_as(0, CLIENT, "DICTUM.BUCKET CREATE shop");
    cluster.pass();
    cluster.give(0, Input::Closed { connection: CLIENT });
    cluster.pass();
    assert_eq!(
        told(&mut cluster),
        ["order default DICTUM.BUCKET CREATE shop: unknown: the connection was closed before the answer"]
    );
}

#[test]
fn a_flood_is_cut_and_counted_and_a_stranger_gives_no_orders() {
    let mut cluster = Cluster::with(1, |config| config.password = Some("secret".to_owned()));
    cluster.pass();
    let root = open(&mut cluster, 1);
    assert_eq!(cluster.ask_as(0, root, "AUTH secret"), "+OK\r\n");
    told(&mut cluster);
    let stranger = open(&mut cluster, 2);
    assert!(cluster.ask_as(0, stranger, "FLUSHALL").starts_with("-NOAUTH"));
    assert_eq!(told(&mut cluster), [""; 0]);
    // It has shown the password once, so it may guess as fast as it likes, and is answered each time.
    let lines = b"FLUSHDB x\r\n".repeat(3000);
    cluster.give(0, Input::Received { connection: root, bytes: &lines });
    let end = cluster.now.time + std::time::Duration::from_secs(11);
    while cluster.now.time < end {
        cluster.pass();
    }
    let all = told(&mut cluster);
    let orders = all.iter().filter(|line| line.starts_with("order")).count() as u64;
    let left_out: u64 = all.iter().filter_map(|line| line.strip_prefix("left-out order ")?.parse::<u64>().ok()).sum();
    assert!((1000..1050).contains(&orders), "{orders}");
    assert_eq!(orders + left_out, 3000);
}

#[test]
fn accesses_to_keys_are_told_where_they_are_asked_for() {
    let mut cluster = alone();
    pass_until(&mut cluster, "the version", |cluster| cluster.nodes[0].cluster_version() == NEWEST);
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on >secret ~card:* ~other +@all"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SET card:0 before"), "+OK\r\n");
    told(&mut cluster);
    assert_eq!(cluster.ask(0, "CONFIG SET audit-keys \"~card:* %R~ssn:*\""), "+OK\r\n");
    let order = "order default CONFIG SET audit-keys ~card:* %R~ssn:*: ok";
    assert_eq!(told(&mut cluster), [order]);
    let ann = open(&mut cluster, 7);
    assert_eq!(cluster.ask_as(0, ann, "AUTH ann secret"), "+OK\r\n");
    told(&mut cluster);
    cluster.ask_as(0, ann, "SET card:1 x");
    cluster.ask_as(0, ann, "MGET other card:1 card:2 ssn:1");
    assert!(cluster.ask_as(0, ann, "MGET card:1 ssn:1").starts_with("-NOPERM"));
    assert_eq!(
        told(&mut cluster),
        ["access ann set in default: write card:1 +0", "refused ann key ssn:1", "refused ann key ssn:1"]
    );
    cluster.ask(0, "SET ssn:1 x");
    cluster.ask(0, "GETSET ssn:1 y");
    cluster.ask(0, "GET ssn:1");
    cluster.ask(0, "STRLEN other");
    cluster.ask(0, "SISMEMBER card:s x");
    cluster.ask(0, "SISMEMBER ssn:s x");
    // At the end of their transaction, and not before.
    cluster.ask(0, "MULTI");
    cluster.ask(0, "GET card:1");
    cluster.ask(0, "DISCARD");
    cluster.ask(0, "MULTI");
    cluster.ask(0, "DEL card:1");
    assert_eq!(
        told(&mut cluster),
        [
            "access default getset in default: read, write ssn:1 +0",
            "access default get in default: read ssn:1 +0",
            "access default sismember in default: look card:s +0"
        ]
    );
    cluster.ask(0, "EXEC");
    cluster.ask(0, "DICTUM.ONCE id SET card:1 x");
    cluster.ask(0, "EVAL \"return redis.call('GET', KEYS[1])\" 1 card:1");
    assert_eq!(
        told(&mut cluster),
        [
            "access default del in default: write card:1 +0",
            "access default set in default: write card:1 +0",
            "access default eval in default: read, write card:1 +0"
        ]
    );
    let many: Vec<String> = (0..100).map(|number| format!("card:{number}")).collect();
    cluster.ask(0, &format!("DEL {}", many.join(" ")));
    let line = told(&mut cluster).pop().expect("a record");
    assert!(line.contains(" card:63 +36") && !line.contains("card:64"), "{line}");
    // A flood is cut, and counted.
    (0..1500).for_each(|_| drop(cluster.ask(0, "GET card:1")));
    let lines = told(&mut cluster);
    assert!((990..1200).contains(&lines.len()), "{}", lines.len());
    (0..2500).for_each(|_| cluster.pass());
    let left_out = told(&mut cluster);
    assert!(left_out.iter().any(|line| line.starts_with("left-out access ")), "{left_out:?}");
    assert_eq!(cluster.ask(0, "CONFIG SET audit-keys \"\" audit-keys-rate 1000"), "+OK\r\n");
    told(&mut cluster);
    cluster.ask(0, "GET card:1");
    assert_eq!(told(&mut cluster), Vec::<String>::new());
    assert!(
        cluster
            .ask(0, "CONFIG SET audit-keys card:*")
            .starts_with("-ERR CONFIG SET failed (possibly related to argument 'audit-keys')")
    );
    assert!(cluster.ask(0, "CONFIG SET audit-keys-rate 0").starts_with("-ERR"));
}
