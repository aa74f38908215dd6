//! SYNC and PSYNC, as far as the node goes: who gets a file, and who is refused. The server makes it (`server/src/full_sync.rs`).

use crate::common::{CLIENT, Cluster, alone, pass_until, transcript};
use base::limits::FULL_SYNCS_MAX;
use node::{ConnectionId, FullSync, Input};

const OTHER: ConnectionId = ConnectionId(77);

const TWO_ALREADY: &str =
    "-ERR this node makes two RDB files for clients already; ask another node, or try again later\r\n";

/// A client asks; the owner is to send it the file, and until then it is told nothing.
fn begin(cluster: &mut Cluster, connection: ConnectionId, command: &str) -> FullSync {
    let before = cluster.full_syncs.len();
    cluster.say_as(0, connection, command);
    pass_until(cluster, "a file is wanted", |cluster| cluster.full_syncs.len() > before);
    assert_eq!(cluster.heard(0, connection), "");
    let sync = cluster.full_syncs[before];
    assert_eq!(sync.connection, connection);
    sync
}

/// Opens connections that ask for a file; the node takes as many as it may.
fn busy() -> Cluster {
    let mut cluster = alone();
    for number in 0..FULL_SYNCS_MAX as u64 {
        cluster.open(0, ConnectionId(100 + number));
        begin(&mut cluster, ConnectionId(100 + number), "SYNC");
    }
    assert_eq!(cluster.full_syncs.len(), FULL_SYNCS_MAX);
    cluster
}

#[test]
fn a_client_gets_one_behind_the_answers_to_what_it_has_said_before() {
    let mut cluster = alone();
    let said = b"SET k v\r\nREPLCONF capa eof capa psync2\r\nPSYNC ? -1\r\nGET k\r\n";
    cluster.say(0, said);
    pass_until(&mut cluster, "a file is wanted", |cluster| !cluster.full_syncs.is_empty());
    // Nothing is carried out behind it: the connection is the owner's.
    (0..20).for_each(|_| cluster.pass());
    assert_eq!(cluster.heard(0, CLIENT), "+OK\r\n+OK\r\n");
    let [sync] = cluster.full_syncs[..] else { panic!("one") };
    assert!(sync.is_psync && sync.connection == CLIENT, "{sync:?}");
    cluster.give(0, Input::Closed { connection: CLIENT });
    cluster.give(0, Input::FullSyncEnded { connection: CLIENT, slot: sync.slot, error: None });
    cluster.pass();
    assert_eq!(cluster.heard(0, CLIENT), "");
}

#[test]
fn no_more_than_two_at_a_time() {
    let mut cluster = busy();
    cluster.open(0, OTHER);
    for command in ["SYNC", "PSYNC ? -1"] {
        assert_eq!(cluster.ask_as(0, OTHER, command), TWO_ALREADY);
    }
    // The connection is gone long before the work has ended.
    let first = cluster.full_syncs[0];
    cluster.give(0, Input::Closed { connection: first.connection });
    assert_eq!(cluster.ask_as(0, OTHER, "SYNC"), TWO_ALREADY);
    cluster.give(0, Input::FullSyncEnded { connection: first.connection, slot: first.slot, error: None });
    assert!(!begin(&mut cluster, OTHER, "SYNC").is_psync);
}

#[test]
fn an_owner_that_cannot_do_it_has_the_client_told() {
    let mut cluster = busy();
    let sync = cluster.full_syncs[1];
    let error = Some("ERR there is nobody who sends files");
    cluster.give(0, Input::FullSyncEnded { connection: sync.connection, slot: sync.slot, error });
    assert_eq!(cluster.hear_as(0, sync.connection), "-ERR there is nobody who sends files\r\n");
    assert_eq!(cluster.ask_as(0, sync.connection, "ECHO on"), "$2\r\non\r\n");
    begin(&mut cluster, sync.connection, "SYNC");
}

#[test]
fn where_it_is_refused() {
    let mut cluster = alone();
    let no_stream = "-NOMASTERLINK Dictum sends all keys as an RDB file, and no stream of writes behind it: only PSYNC ? -1 and SYNC are answered";
    let id = "8de1787ba490483314a4d30f1c628bc5025eb761";
    transcript(
        &mut cluster,
        &[
            (&format!("PSYNC {id} 1"), no_stream),
            (&format!("PSYNC {id} -1"), no_stream),
            ("PSYNC ? 7", no_stream),
            ("PSYNC ?", "-ERR wrong number of arguments for 'psync' command"),
            ("PSYNC ? -1 FAILOVER", "-ERR syntax error"),
            ("SYNC now", "-ERR wrong number of arguments for 'sync' command"),
            ("MULTI", "+OK"),
            ("SYNC", "-ERR Command not allowed inside a transaction"),
            ("PSYNC ? -1", "-ERR Command not allowed inside a transaction"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("REPLCONF", "+OK"),
            ("REPLCONF listening-port 6380 capa eof rdb-only 1 RDB-FILTER-ONLY \"\"", "+OK"),
            (
                "REPLCONF rdb-filter-only functions",
                "-ERR REPLCONF rdb-filter-only is not supported: the file has keys and functions",
            ),
            ("REPLCONF capa", "-ERR syntax error"),
            ("REPLCONF ack 7", "-ERR Unrecognized REPLCONF option: ack"),
        ],
    );
    for command in ["SUBSCRIBE c", "MONITOR"] {
        cluster.ask(0, "HELLO 3");
        cluster.ask(0, command);
        let refused = cluster.ask(0, "SYNC");
        assert!(refused.starts_with("-ERR SYNC and PSYNC need a connection that subscribes to nothing"), "{refused}");
        cluster.ask(0, "RESET");
    }
    assert!(cluster.full_syncs.is_empty(), "{:?}", cluster.full_syncs);
}

#[test]
fn not_before_the_password() {
    let mut cluster = Cluster::with(1, |config| config.password = Some("secret".to_owned()));
    cluster.pass();
    assert!(cluster.ask(0, "SYNC").starts_with("-NOAUTH"), "the password is not said yet");
    assert!(cluster.ask(0, "PSYNC ? -1").starts_with("-NOAUTH"), "the password is not said yet");
    assert_eq!(cluster.ask(0, "AUTH secret"), "+OK\r\n");
    begin(&mut cluster, CLIENT, "SYNC");
}
