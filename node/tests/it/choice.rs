//! The bucket that a connection is in, whatever it says in whatever order: no command goes to another one than its client has chosen last.

use crate::common::{CLIENT, Cluster, pass_until, transcript};
use base::versions::NEWEST;
use node::{ConnectionId, Input, Listener};

const NONE: &str =
    "-ERR no database is selected: the one that this connection asked for first was refused; SELECT one that is there";
const OUT_OF_RANGE: &str = "-ERR DB index is out of range";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";
const OTHER: &str = "-ERR a transaction is about one bucket or database: SELECT another one before MULTI";

/// Three nodes with the bucket `users`, and the key `k` in each bucket, which says where it is.
fn three(change: impl Fn(&mut node::Config)) -> Cluster {
    let mut cluster = Cluster::with(3, change);
    pass_until(&mut cluster, "the version has risen", |cluster| {
        cluster.nodes.iter().all(|node| node.cluster_version() == NEWEST)
    });
    for node in 0..3 {
        // Where there is no password this is an error, and changes nothing.
        cluster.ask(node, "AUTH secret");
    }
    assert_eq!(cluster.ask(1, "DICTUM.BUCKET CREATE users"), "+OK\r\n");
    for bucket in ["0", "5", "users"] {
        assert_eq!(cluster.ask(1, &format!("SELECT {bucket}")), "+OK\r\n");
        assert_eq!(cluster.ask(1, &format!("SET k {bucket}")), "+OK\r\n");
    }
    for node in 0..3 {
        let known = |answer: &str| answer == "+OK\r\n";
        assert!(known(&cluster.ask(node, "SELECT users")) && known(&cluster.ask(node, "RESET").replace("RESET", "OK")));
    }
    cluster
}

#[test]
fn a_password_that_is_said_again_leaves_the_database_as_it_is() {
    let mut cluster = three(|config| config.password = Some("secret".to_owned()));
    transcript(
        &mut cluster,
        &[
            ("GET k", "-NOAUTH Authentication required."),
            ("AUTH secret", "+OK"),
            ("SELECT 5", "+OK"),
            ("AUTH secret", "+OK"),
            ("GET k", "$1 | 5"),
            ("AUTH default secret", "+OK"),
            ("GET k", "$1 | 5"),
            ("AUTH users secret", "+OK"),
            ("GET k", "$5 | users"),
            ("SELECT 5", "+OK"),
            ("AUTH users secret", "+OK"),
            ("GET k", "$1 | 5"),
            ("AUTH default secret", "+OK"),
            ("GET k", "$1 | 0"),
            ("AUTH users wrong", WRONG),
            ("AUTH nobody secret", WRONG),
            ("GET k", "$1 | 0"),
        ],
    );
    assert!(cluster.ask(0, "HELLO 3 AUTH users secret").starts_with('%'));
    assert!(cluster.ask(0, "SELECT 5").starts_with("+OK"));
    assert!(cluster.ask(0, "HELLO 3 AUTH users secret").starts_with('%'));
    assert_eq!(cluster.ask(0, "GET k"), "$1\r\n5\r\n");
}

#[test]
fn a_name_that_would_leave_watched_keys_behind_is_refused() {
    let watching = "-ERR keys of the selected bucket are watched; UNWATCH them first";
    transcript(
        &mut three(|_| {}),
        &[
            ("WATCH k", "+OK"),
            ("AUTH users x", watching),
            ("HELLO 3 AUTH users x", watching),
            ("AUTH default x", "+OK"),
            ("GET k", "$1 | 0"),
            ("UNWATCH", "+OK"),
            ("AUTH users x", "+OK"),
            ("GET k", "$5 | users"),
        ],
    );
}

#[test]
fn a_transaction_takes_no_name_of_another_bucket() {
    let mut cluster = three(|_| {});
    transcript(
        &mut cluster,
        &[
            ("MULTI", "+OK"),
            ("SET k mine", "+QUEUED"),
            ("AUTH users x", OTHER),
            ("SET k theirs", "+QUEUED"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("HELLO 3 AUTH users x SETNAME n", OTHER),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("AUTH default x", "+QUEUED"),
            ("GET k", "+QUEUED"),
            ("EXEC", "*2 | +OK | $1 | 0"),
        ],
    );
}

/// Some libraries tell a refused `SELECT` to a log alone, and go on.
#[test]
fn who_was_refused_its_first_choice_is_nowhere() {
    for refused in [
        ("SELECT 16", OUT_OF_RANGE),
        ("SELECT -1", OUT_OF_RANGE),
        ("SELECT none", "-ERR there is no bucket 'none'"),
        ("SELECT 1x", "-ERR invalid DB index"),
        ("AUTH nobody x", WRONG),
        ("HELLO 3 AUTH nobody x", WRONG),
    ] {
        let mut cluster = three(|_| {});
        transcript(
            &mut cluster,
            &[
                refused,
                ("GET k", NONE),
                ("SET k lost", NONE),
                ("DBSIZE", NONE),
                ("FLUSHALL", NONE),
                ("WATCH k", NONE),
                ("BLPOP l 1", NONE),
                ("EVAL 0 0", NONE),
                ("MULTI", "+OK"),
                ("SET k lost", "+QUEUED"),
                ("EXEC", NONE),
                ("DICTUM.ONCE i SET k lost", NONE),
                ("MOVE k 5", NONE),
                ("SELECT 17", OUT_OF_RANGE),
                ("GET k", NONE),
                ("PING", "+PONG"),
                ("SELECT 5", "+OK"),
                ("GET k", "$1 | 5"),
                ("SELECT 16", OUT_OF_RANGE),
                ("GET k", "$1 | 5"),
                ("RESET", "+RESET"),
                ("GET k", "$1 | 0"),
                ("SELECT 16", OUT_OF_RANGE),
                ("AUTH nobody x", WRONG),
                ("GET k", "$1 | 0"),
            ],
        );
    }
}

#[test]
fn what_is_sent_behind_a_refused_choice_in_one_write_is_refused() {
    let mut cluster = three(|_| {});
    for node in 0..3 {
        cluster.give(
            node,
            Input::Received { connection: CLIENT, bytes: b"SELECT 16\r\nSET k lost\r\nSELECT 0\r\nGET k\r\n" },
        );
        let expected = format!("{OUT_OF_RANGE}\r\n{NONE}\r\n+OK\r\n$1\r\n0\r\n");
        let mut heard = String::new();
        while heard.len() < expected.len() {
            heard.push_str(&cluster.hear(node));
        }
        assert_eq!(heard, expected);
    }
}

/// The listener for clients that route by themselves shows one bucket; a database is refused there, as in a Redis cluster.
#[test]
fn at_the_listener_of_a_cluster_too() {
    let mut cluster = three(|config| config.cluster_bucket = "users".to_owned());
    let one = ConnectionId(77);
    cluster.open_at(0, one, Listener::Redirects);
    assert!(cluster.ask_as(0, one, "SELECT 5").starts_with("-ERR SELECT is not allowed in cluster mode"));
    assert_eq!(cluster.ask_as(0, one, "GET k"), format!("{NONE}\r\n"));
    assert_eq!(cluster.ask_as(0, one, "SELECT 0"), "+OK\r\n");
    let answer = cluster.ask_as(0, one, "GET k");
    assert!(answer == "$5\r\nusers\r\n" || answer.starts_with("-MOVED"), "{answer}");
}

/// Where the council's decision has not arrived yet, a name is looked for as a `SELECT` looks for it.
#[test]
fn a_bucket_that_was_created_elsewhere_a_moment_ago_can_be_named() {
    let mut cluster = three(|config| config.password = Some("secret".to_owned()));
    assert_eq!(cluster.ask(0, "AUTH secret"), "+OK\r\n");
    for round in 0..3 {
        for node in 0..3_u16 {
            let name = format!("new-{round}-{node}");
            assert_eq!(cluster.ask(node, &format!("DICTUM.BUCKET CREATE {name}")), "+OK\r\n");
            let other = (node + 1) % 3;
            let lines = format!("AUTH {name} secret\r\nSET k {name}\r\nGET k\r\n");
            cluster.give(other, Input::Received { connection: CLIENT, bytes: lines.as_bytes() });
            let expected = format!("+OK\r\n+OK\r\n${}\r\n{name}\r\n", name.len());
            let mut heard = String::new();
            while heard.len() < expected.len() {
                heard.push_str(&cluster.hear(other));
            }
            assert_eq!(heard, expected);
            assert!(cluster.ask((node + 2) % 3, &format!("HELLO 2 AUTH {name} secret")).starts_with("*14"));
            assert_eq!(cluster.ask((node + 2) % 3, "GET k"), format!("${}\r\n{name}\r\n", name.len()));
        }
    }
    assert_eq!(cluster.ask(0, "AUTH nobody secret"), format!("{WRONG}\r\n"));
    assert_eq!(cluster.ask(0, "AUTH new-0-0 wrong"), format!("{WRONG}\r\n"));
}

/// Somebody mistypes a name, and then logs in as it should be.
#[test]
fn a_login_behind_a_refused_one_chooses() {
    let mut cluster = three(|_| ());
    assert_eq!(cluster.ask(1, "ACL SETUSER ann on >secret ~* +@all"), "+OK\r\n");
    let mut connection = 200;
    for (lines, found) in [
        (&["AUTH amn secret", "AUTH ann secret"][..], "$1\r\n0\r\n"),
        (&["AUTH amn secret", "AUTH anm secret", "HELLO 2 AUTH ann secret"], "$1\r\n0\r\n"),
        (&["AUTH amn secret", "AUTH ann@users secret"], "$5\r\nusers\r\n"),
        // A password alone says nothing of that either. (`default` has none.)
        (&["AUTH amn secret", "AUTH secret"], &format!("{NONE}\r\n")),
        (&["AUTH amn secret", "AUTH secret", "AUTH ann secret"], "$1\r\n0\r\n"),
        (&["AUTH amn secret"], &format!("{NONE}\r\n")),
        // The node has refused a database, and a login says nothing of that.
        (&["SELECT 99", "AUTH ann secret"], &format!("{NONE}\r\n")),
        (&["AUTH amn secret", "SELECT 99", "AUTH ann secret"], &format!("{NONE}\r\n")),
        (&["SELECT 99", "AUTH amn secret", "AUTH ann secret"], &format!("{NONE}\r\n")),
    ] {
        connection += 1;
        cluster.open(0, ConnectionId(connection));
        lines.iter().for_each(|line| drop(cluster.ask_as(0, ConnectionId(connection), line)));
        assert_eq!(cluster.ask_as(0, ConnectionId(connection), "GET k"), found, "{lines:?}");
    }
}
