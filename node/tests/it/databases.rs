//! Databases by number: made when they are selected first, apart from each other, and named by their numbers everywhere.

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

#[test]
fn a_database_is_there_when_it_is_selected() {
    let mut cluster = three();
    for node in 0..3 {
        assert_eq!(cluster.ask(node, "SELECT 5"), "+OK\r\n", "node {node}");
    }
    assert_eq!(cluster.ask(0, "SET k five"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "GET k"), "$4\r\nfive\r\n");
    transcript(
        &mut cluster,
        &[
            ("SELECT 0", "+OK"),
            ("GET k", "$-1"),
            ("SET k zero", "+OK"),
            ("SELECT 15", "+OK"),
            ("DBSIZE", ":0"),
            ("SELECT 16", "-ERR DB index is out of range"),
            ("SELECT -1", "-ERR DB index is out of range"),
            ("SELECT 1024", "-ERR DB index is out of range"),
            ("SELECT x5", "-ERR there is no bucket 'x5'"),
            ("DBSIZE", ":0"),
            ("CONFIG GET databases", "*2 | $9 | databases | $2 | 16"),
            ("SELECT 5", "+OK"),
            ("GET k", "$4 | five"),
        ],
    );
    assert!(cluster.ask(0, "CLIENT INFO").contains(" db=5 "));
    assert!(cluster.ask(0, "CLIENT LIST").contains(" db=5 "));
    let keyspace = cluster.ask(0, "INFO keyspace");
    assert!(keyspace.contains("db0:keys=1,expires=0,avg_ttl=0\r\ndb5:keys=1,expires=0,avg_ttl=0"), "{keyspace}");
}

#[test]
fn what_is_sent_behind_a_select_in_one_write_is_for_the_new_database() {
    let mut cluster = three();
    for node in 0..3 {
        let lines = format!("SET a 0\r\nSELECT {0}\r\nSET a {0}\r\nGET a\r\nSELECT 0\r\nGET a\r\nDBSIZE\r\n", node + 7);
        cluster.give(node, Input::Received { connection: CLIENT, bytes: lines.as_bytes() });
        let expected = format!("+OK\r\n+OK\r\n+OK\r\n$1\r\n{}\r\n+OK\r\n$1\r\n0\r\n:1\r\n", node + 7);
        let mut heard = String::new();
        while heard.len() < expected.len() {
            heard.push_str(&cluster.hear(node));
        }
        assert_eq!(heard, expected);
    }
}

#[test]
fn flushall_is_for_all_databases_and_leaves_named_buckets_alone() {
    let mut cluster = three();
    assert_eq!(cluster.ask(2, "DICTUM.BUCKET CREATE users"), "+OK\r\n");
    assert_eq!(
        cluster.ask(2, "DICTUM.BUCKET CREATE 3 PARTITIONS 4"),
        "+OK\r\n",
        "a database may be made with settings"
    );
    assert!(cluster.ask(2, "DICTUM.BUCKET SHOW 3").contains("number\r\n:3\r\n"));
    assert!(cluster.ask(2, "DICTUM.BUCKET SHOW users").contains("number\r\n:1024\r\n"));
    let fill = |cluster: &mut Cluster| {
        for name in ["0", "3", "5", "users"] {
            assert_eq!(cluster.ask(0, &format!("SELECT {name}")), "+OK\r\n");
            for key in 0..20 {
                assert_eq!(cluster.ask(0, &format!("SET key:{key} 1")), "+OK\r\n");
            }
        }
    };
    let sizes = |cluster: &mut Cluster| {
        ["0", "3", "5", "users"].map(|name| {
            assert_eq!(cluster.ask(1, &format!("SELECT {name}")), "+OK\r\n");
            cluster.ask(1, "DBSIZE").trim().to_owned()
        })
    };
    fill(&mut cluster);
    assert_eq!(sizes(&mut cluster), [":20", ":20", ":20", ":20"]);
    cluster.ask(0, "SELECT 3");
    assert_eq!(cluster.ask(0, "FLUSHDB"), "+OK\r\n");
    assert_eq!(sizes(&mut cluster), [":20", ":0", ":20", ":20"]);
    assert_eq!(cluster.ask(0, "SELECT 5"), "+OK\r\n");
    // Behind a write and before a read of its connection.
    cluster.give(
        0,
        Input::Received { connection: CLIENT, bytes: b"SET a 1\r\nFLUSHALL\r\nDBSIZE\r\nSET b 1\r\nDBSIZE\r\n" },
    );
    let (expected, mut heard) = ("+OK\r\n+OK\r\n:0\r\n+OK\r\n:1\r\n", String::new());
    while heard.len() < expected.len() {
        heard.push_str(&cluster.hear(0));
    }
    assert_eq!(heard, expected);
    assert_eq!(sizes(&mut cluster), [":0", ":0", ":1", ":20"]);
    fill(&mut cluster);
    cluster.ask(0, "SELECT users");
    assert_eq!(cluster.ask(0, "FLUSHALL"), "+OK\r\n", "a named bucket's clients see no other");
    assert_eq!(sizes(&mut cluster), [":20", ":20", ":21", ":0"]);
}

#[test]
fn what_would_be_about_two_databases_is_refused_before_anything_is_done() {
    let mut cluster = three();
    let not_swapped = "-ERR SWAPDB is refused: each database has a log of its own, so two cannot be swapped at one moment. Use COPY … DB or MOVE for single keys";
    let not_queued =
        "-ERR COPY to another database is not allowed inside a transaction: each database has a log of its own";
    transcript(
        &mut cluster,
        &[
            ("SELECT 5", "+OK"),
            ("SET k 1", "+OK"),
            ("MOVE k 5", "-ERR source and destination objects are the same"),
            ("MOVE k 16", "-ERR DB index is out of range"),
            ("MOVE k x", "-ERR value is not an integer or out of range"),
            ("SWAPDB 0 5", not_swapped),
            ("SWAPDB 5 5", "+OK"),
            ("SWAPDB x 5", "-ERR invalid first DB index"),
            ("SWAPDB 5 x", "-ERR invalid second DB index"),
            ("SWAPDB 5 16", "-ERR DB index is out of range"),
            ("COPY k l DB 16", "-ERR DB index is out of range"),
            ("COPY k l DB 5", ":1"),
            ("COPY k l DB 5", ":0"),
            ("COPY k l DB 5 REPLACE", ":1"),
            ("COPY k l DB x", "-ERR value is not an integer or out of range"),
            ("MULTI", "+OK"),
            ("COPY k l DB 0", not_queued),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("COPY k m DB 5", "+QUEUED"),
            ("SELECT 5", "+QUEUED"),
            ("EXEC", "*2 | :1 | +OK"),
            ("MULTI", "+OK"),
            ("SELECT 0", "-ERR a transaction is about one bucket or database: SELECT another one before MULTI"),
            ("SET k 2", "+QUEUED"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("SELECT 9", "-ERR a transaction is about one bucket or database: SELECT another one before MULTI"),
            ("DISCARD", "+OK"),
            ("MULTI", "+OK"),
            ("FLUSHALL", "-ERR FLUSHALL is about several databases, and a transaction about one: use FLUSHDB in it"),
            ("DISCARD", "+OK"),
            ("WATCH k", "+OK"),
            ("SELECT 9", "-ERR keys of the selected bucket are watched; UNWATCH them first"),
            ("SELECT 0", "-ERR keys of the selected bucket are watched; UNWATCH them first"),
            ("GET k", "$1 | 1"),
        ],
    );
}

#[test]
fn events_and_monitors_name_the_database() {
    let mut cluster = three();
    let listener = ConnectionId(9);
    cluster.open(0, listener);
    assert_eq!(cluster.ask(0, "CONFIG SET notify-keyspace-events KEA"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SELECT 5"), "+OK\r\n");
    cluster.say_as(0, listener, "PSUBSCRIBE __key*__:*");
    cluster.hear_as(0, listener);
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    let heard = cluster.hear_as(0, listener);
    assert!(heard.contains("__keyspace@5__:k") && heard.contains("__keyevent@5__:set"), "{heard}");
}

#[test]
fn a_dropped_database_is_made_anew_when_it_is_selected() {
    let mut cluster = three();
    assert_eq!(cluster.ask(0, "SELECT 4"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SET k 1"), "+OK\r\n");
    assert_eq!(cluster.ask(1, "SELECT 4"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET DROP 4 CONFIRM"), "+OK\r\n");
    assert!(cluster.ask(0, "GET k").starts_with("-ERR the selected bucket is not there any more"));
    assert_eq!(cluster.ask(0, "SELECT 4"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "GET k"), "$-1\r\n");
}

/// A node of an earlier version would give the database another number.
#[test]
fn before_all_nodes_know_of_databases_none_is_made() {
    let mut cluster = Cluster::with(3, |config| {
        if config.me.0 == 2 {
            config.newest = 7;
        }
    });
    pass_until(&mut cluster, "the version has risen", |cluster| {
        cluster.nodes.iter().all(|node| node.cluster_version() == 7)
    });
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE users"), "+OK\r\n");
    assert!(cluster.ask(0, "DICTUM.BUCKET SHOW users").contains("number\r\n:1\r\n"), "as it was then");
    assert!(cluster.ask(0, "SELECT 5").starts_with("-CLUSTERDOWN databases can be selected when every node"));
    assert!(cluster.ask(0, "DICTUM.BUCKET CREATE 5").starts_with("-ERR a bucket's name is a letter"));
    assert_eq!(cluster.ask(0, "SELECT 1"), "+OK\r\n", "a bucket keeps its number");
}
