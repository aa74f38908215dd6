//! Commands that concern the server: what they answer, byte for byte where clients parse it.

use crate::common::{CLIENT, Cluster, alone, bulk, field, transcript};

#[test]
fn commands_are_described() {
    transcript(
        &mut alone(),
        &[
            (
                "COMMAND INFO get nosuch",
                "*2 | *10 | $3 | get | :2 | *2 | +readonly | +fast | :1 | :1 | :1 | *3 | +@string | +@read | +@fast | *0 | *1 | *6 | \
                 $5 | flags | *2 | +RO | +access | $12 | begin_search | *4 | $4 | type | $5 | index | $4 | spec | *2 | $5 | index | \
                 :1 | $9 | find_keys | *4 | $4 | type | $5 | range | $4 | spec | *6 | $7 | lastkey | :0 | $7 | keystep | :1 | \
                 $5 | limit | :0 | *0 | *-1",
            ),
            (
                "COMMAND INFO client|id",
                "*1 | *10 | $9 | client|id | :2 | *3 | +noscript | +loading | +stale | :0 | :0 | :0 | *2 | +@slow | +@connection | \
                 *0 | *0 | *0",
            ),
            ("COMMAND INFO object|nosuch", "*1 | *-1"),
            (
                "COMMAND DOCS get nosuch",
                "*2 | $3 | get | *10 | $7 | summary | $34 | Returns the string value of a key. | $5 | since | $5 | 1.0.0 | $5 | \
                 group | $6 | string | $10 | complexity | $4 | O(1) | $9 | arguments | *1 | *8 | $4 | name | $3 | key | $4 | type | \
                 $3 | key | $12 | display_text | $3 | key | $14 | key_spec_index | :0",
            ),
            (
                "COMMAND DOCS client|no-evict",
                "*2 | $15 | client|no-evict | *10 | $7 | summary | $42 | Marks the connection as not to be evicted. | $5 | since | \
                 $5 | 7.0.0 | $5 | group | $10 | connection | $10 | complexity | $4 | O(1) | $9 | arguments | *1 | *6 | $4 | name | \
                 $6 | option | $4 | type | $5 | oneof | $9 | arguments | *2 | *8 | $4 | name | $2 | on | $4 | type | $10 | \
                 pure-token | $12 | display_text | $2 | on | $5 | token | $2 | ON | *8 | $4 | name | $3 | off | $4 | type | $10 | \
                 pure-token | $12 | display_text | $3 | off | $5 | token | $3 | OFF",
            ),
            ("COMMAND LIST FILTERBY PATTERN getr*", "*1 | $8 | getrange"),
            ("COMMAND LIST FILTERBY PATTERN config|s*", "*1 | $10 | config|set"),
            ("COMMAND LIST FILTERBY ACLCAT nosuch", "*0"),
            ("COMMAND LIST FILTERBY MODULE m", "*0"),
            ("COMMAND LIST FILTERBY x y", "-ERR syntax error"),
            ("COMMAND LIST x", "-ERR syntax error"),
            ("COMMAND GETKEYS MSET a 1 b 2", "*2 | $1 | a | $1 | b"),
            ("COMMAND GETKEYS WATCH a b", "*2 | $1 | a | $1 | b"),
            ("COMMAND GETKEYS OBJECT ENCODING a", "*1 | $1 | a"),
            ("COMMAND GETKEYS SORT a BY w_* STORE b", "*2 | $1 | a | $1 | b"),
            ("COMMAND GETKEYS DICTUM.ONCE id1 SET a 1", "*1 | $1 | a"),
            ("COMMAND GETKEYS PING", "-ERR The command has no key arguments"),
            ("COMMAND GETKEYS NOSUCH", "-ERR Invalid command specified"),
            ("COMMAND GETKEYS SET a", "-ERR Invalid number of arguments specified for command"),
            ("COMMAND GETKEYSANDFLAGS GET a", "*1 | *2 | $1 | a | *2 | +RO | +access"),
            ("COMMAND FOO", "-ERR unknown subcommand 'FOO'. Try COMMAND HELP."),
        ],
    );
}

#[test]
fn every_command_is_told_of() {
    let mut cluster = alone();
    let answer = cluster.ask(0, "COMMAND COUNT");
    let count: usize = answer.trim_start_matches(':').trim_end().parse().unwrap();
    assert!(count > 90, "{count}");
    assert!(cluster.ask(0, "COMMAND").starts_with(&format!("*{count}\r\n*10\r\n")));
    assert!(cluster.ask(0, "COMMAND INFO").starts_with(&format!("*{count}\r\n*10\r\n")));
    assert!(cluster.ask(0, "COMMAND DOCS").starts_with(&format!("*{}\r\n$", 2 * count)));
    assert!(cluster.ask(0, "COMMAND LIST").contains("\r\nclient|list\r\n"));
    // No name twice, in whichever table.
    let list = cluster.ask(0, "COMMAND LIST");
    let mut names: Vec<&str> = list.lines().filter(|line| !line.starts_with(['$', '*'])).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
    // HELP lists what there is.
    let containers = names.iter().filter_map(|name| name.strip_suffix("|help"));
    // That of CLUSTER is for connections that route by themselves: see `cluster_protocol.rs`.
    for container in containers.filter(|name| *name != "cluster") {
        let help = cluster.ask(0, &format!("{container} help"));
        assert!(help.starts_with('*') && help.contains("HELP\r\n"), "{container}: {help}");
    }
}

#[test]
fn settings_are_told_and_changed() {
    let refused =
        |name: &str, reason: &str| format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}");
    transcript(
        &mut alone(),
        &[
            ("CONFIG GET save appendonly nosuch", "*4 | $10 | appendonly | $3 | yes | $4 | save | $0 | "),
            ("CONFIG GET MAXMEMORY-P*", "*2 | $16 | maxmemory-policy | $10 | noeviction"),
            ("CONFIG GET nosuch", "*0"),
            ("CONFIG GET", "-ERR wrong number of arguments for 'config|get' command"),
            ("CONFIG GET port", "*2 | $4 | port | $4 | 7001"),
            ("CONFIG GET maxclients", "*2 | $10 | maxclients | $5 | 10000"),
            ("CONFIG SET nosuch 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"),
            ("CONFIG SET appendonly YES", "+OK"),
            ("CONFIG SET port 1", &refused("port", "can't set immutable config")),
            ("CONFIG SET dictum-request-timeout-ms 250", "+OK"),
            ("CONFIG GET dictum-request*", "*2 | $25 | dictum-request-timeout-ms | $3 | 250"),
            (
                "CONFIG SET dictum-request-timeout-ms 0",
                &refused("dictum-request-timeout-ms", "argument must be between 1 and 3600000 inclusive"),
            ),
            ("CONFIG SET proto-max-bulk-len 2mb", "+OK"),
            ("CONFIG GET proto-max-bulk-len", "*2 | $18 | proto-max-bulk-len | $7 | 2097152"),
            ("CONFIG SET proto-max-bulk-len 2x", &refused("proto-max-bulk-len", "argument must be a memory value")),
            // All or nothing.
            ("CONFIG SET proto-max-bulk-len 4mb save 1", &refused("save", "Invalid save parameters")),
            ("CONFIG GET proto-max-bulk-len", "*2 | $18 | proto-max-bulk-len | $7 | 2097152"),
            ("CONFIG SET maxmemory 0 maxmemory 0", &refused("maxmemory", "duplicate parameter")),
            ("CONFIG SET maxmemory 0 save", "-ERR wrong number of arguments for 'config|set' command"),
            ("CONFIG REWRITE", "+OK"),
            ("CONFIG RESETSTAT", "+OK"),
        ],
    );
}

#[test]
fn what_is_not_there_is_empty_or_refused() {
    transcript(
        &mut alone(),
        &[
            ("FUNCTION FLUSH ASYNC", "+OK"),
            ("FUNCTION FLUSH x", "-ERR FUNCTION FLUSH only supports SYNC|ASYNC option"),
            ("FUNCTION LIST WITHCODE", "*0"),
            ("FUNCTION LIST x", "-ERR Unknown argument x"),
            (
                "FUNCTION STATS",
                "*4 | $14 | running_script | $-1 | $7 | engines | *2 | $3 | LUA | *4 | $15 | libraries_count | :0 | $15 | \
                 functions_count | :0",
            ),
            ("FUNCTION DELETE x", "-ERR Library not found"),
            ("SCRIPT EXISTS a b", "*2 | :0 | :0"),
            ("SCRIPT KILL", "-NOTBUSY No scripts in execution right now."),
            ("LATENCY LATEST", "*0"),
            ("LATENCY HISTORY x", "*0"),
            ("LATENCY RESET", ":0"),
            ("LATENCY HISTOGRAM nosuch", "*0"),
            ("LATENCY GRAPH x", "-ERR No samples available for event 'x'"),
            // The first command had to wait for an election.
            ("SLOWLOG RESET", "+OK"),
            ("SLOWLOG GET 10", "*0"),
            ("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1"),
            ("SLOWLOG LEN", ":0"),
            ("ACL WHOAMI", "$7 | default"),
            ("ACL USERS", "*1 | $7 | default"),
            ("ACL LIST", "*1 | $51 | user default on nopass sanitize-payload ~* &* +@all"),
            ("ACL CAT transaction", "*5 | $5 | multi | $4 | exec | $7 | discard | $5 | watch | $7 | unwatch"),
            ("ACL CAT x", "-ERR Unknown category 'x'"),
            ("MODULE LIST", "*0"),
            ("CLUSTER INFO", "-ERR This instance has cluster support disabled"),
            ("READONLY", "-ERR This instance has cluster support disabled"),
            (
                "DEBUG SLEEP 0",
                "-ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a \
                 local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
            ),
        ],
    );
}

#[test]
fn info_has_the_sections_that_are_asked_for() {
    let mut cluster = alone();
    let titles = |answer: &str| {
        let lines = bulk(answer).lines().filter_map(|line| line.strip_prefix("# ")).map(str::to_owned);
        lines.collect::<Vec<_>>().join(" ")
    };
    let all = "Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats Latencystats Cluster Keyspace Buckets Dictum";
    assert_eq!(titles(&cluster.ask(0, "INFO")), all.replace("Latencystats ", "").replace("Commandstats ", ""));
    assert_eq!(titles(&cluster.ask(0, "INFO everything")), all);
    assert_eq!(titles(&cluster.ask(0, "INFO keyspace SERVER nosuch")), "Server Keyspace");
    assert_eq!(cluster.ask(0, "INFO nosuch"), "$0\r\n\r\n");
    assert_eq!(cluster.ask(0, "INFO cluster"), "$30\r\n# Cluster\r\ncluster_enabled:0\r\n\r\n");
    assert_eq!(cluster.ask(0, "SET x 1 EX 100"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "INFO keyspace"), "$44\r\n# Keyspace\r\ndb0:keys=2,expires=1,avg_ttl=0\r\n\r\n");
    let info = cluster.ask(0, "INFO");
    for (name, value) in [
        ("redis_version", "7.4.0"),
        ("redis_mode", "standalone"),
        ("arch_bits", "64"),
        ("tcp_port", "7001"),
        ("connected_clients", "1"),
        ("role", "master"),
        ("connected_slaves", "0"),
        ("aof_enabled", "1"),
        ("dictum_role", "leader"),
        ("dictum_leader", "n1"),
        ("dictum_lag", "0"),
        ("dictum_disk", "ok"),
        ("maxclients", "10000"),
        ("keyspace_hits", "0"),
        ("keyspace_misses", "0"),
        ("expired_keys", "0"),
        ("instantaneous_ops_per_sec", "0"),
    ] {
        assert_eq!(field(&info, name), Some(value), "{name}");
    }
    assert!(field(&info, "run_id").is_some_and(|id| id.len() == 40));
    let figure = |info: &str, name| field(info, name).unwrap().parse::<u64>().unwrap();
    assert!(figure(&info, "total_commands_processed") >= 7);
    assert!(figure(&info, "total_net_output_bytes") > 100);
    assert!(figure(&info, "used_memory") > figure(&info, "used_memory_dataset"));
    assert_eq!(figure(&info, "total_error_replies"), 0);
    cluster.ask(0, "NOSUCH");
    cluster.ask(0, "CONFIG SET nosuch 1");
    cluster.ask(0, "INCRBY k 1");
    let info = cluster.ask(0, "INFO stats");
    assert_eq!(figure(&info, "total_error_replies"), 3);
    // Wherever it is that a command is refused.
    for line in ["EXEC", "DISCARD", "WAIT x 0", "CLIENT REPLY maybe", "SHUTDOWN ABORT", "DICTUM.ONCE a GET k", "MULTI"]
    {
        cluster.ask(0, line);
    }
    for line in ["MULTI", "NOSUCH", "EXEC"] {
        assert!(cluster.ask(0, line).starts_with('-'), "{line}");
    }
    assert_eq!(figure(&cluster.ask(0, "INFO stats"), "total_error_replies"), 12);
    cluster.ask(0, "CONFIG RESETSTAT");
    assert_eq!(figure(&cluster.ask(0, "INFO stats"), "total_error_replies"), 0);
}

#[test]
fn replicas_are_the_peers_that_can_be_reached() {
    let mut cluster = Cluster::new(3);
    assert_eq!(cluster.ask(1, "SET a 1"), "+OK\r\n");
    for _ in 0..40 {
        cluster.pass();
    }
    let info = cluster.ask(1, "INFO replication");
    assert_eq!(field(&info, "connected_slaves"), Some("2"));
    let offset = field(&info, "master_repl_offset").unwrap().to_owned();
    assert_eq!(field(&info, "slave1"), Some(&*format!("ip=127.0.0.1,port=7003,state=online,offset={offset},lag=0")));
    let replica = |port: u16| format!("*3\r\n$9\r\n127.0.0.1\r\n$4\r\n{port}\r\n${}\r\n{offset}\r\n", offset.len());
    assert_eq!(
        cluster.ask(1, "ROLE"),
        format!("*3\r\n$6\r\nmaster\r\n:{offset}\r\n*2\r\n{}{}", replica(7001), replica(7003))
    );
}

#[test]
fn a_snapshot_is_saved_when_asked_for() {
    let mut cluster = alone();
    assert_eq!(cluster.ask(0, "LASTSAVE"), ":1700000000\r\n");
    assert_eq!(cluster.ask(0, "BGSAVE x"), "-ERR syntax error\r\n");
    for _ in 0..400 {
        cluster.pass();
    }
    assert_eq!(cluster.ask(0, "BGSAVE"), "+Background saving started\r\n");
    assert_eq!(cluster.ask(0, "BGSAVE"), "-ERR Background save already in progress\r\n");
    assert_eq!(cluster.ask(0, "BGSAVE SCHEDULE"), "+Background saving scheduled\r\n");
    assert_eq!(field(&cluster.ask(0, "INFO persistence"), "rdb_bgsave_in_progress"), Some("1"));
    for _ in 0..4 {
        cluster.pass();
    }
    assert_eq!(cluster.ask(0, "LASTSAVE"), ":1700000002\r\n");
    assert_eq!(cluster.ask(0, "BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
}

#[test]
fn a_shutdown_must_make_sense() {
    let mut cluster = alone();
    transcript(
        &mut cluster,
        &[
            ("WAIT 0 9223372036854775807", ":0"),
            ("SHUTDOWN x", "-ERR syntax error"),
            ("SHUTDOWN SAVE NOSAVE", "-ERR syntax error"),
            ("SHUTDOWN ABORT NOW", "-ERR syntax error"),
            ("SHUTDOWN ABORT", "-ERR No shutdown in progress."),
            ("MULTI", "+OK"),
            ("SHUTDOWN", "-ERR Command not allowed inside a transaction"),
            ("DISCARD", "+OK"),
        ],
    );
    cluster.say(0, b"SHUTDOWN NOSAVE NOW\r\n");
    for _ in 0..500 {
        cluster.pass();
    }
    assert_eq!(cluster.heard(0, CLIENT), "");
    assert!(cluster.closed.contains(&(0, CLIENT)));
}

#[test]
fn what_is_asked_for_at_once_is_bounded() {
    let mut cluster = alone();
    let many = |start: &str, word: &str, count: usize| format!("{start}{}", format!(" {word}").repeat(count));
    assert_eq!(cluster.ask(0, &many("COMMAND INFO", "get", 1025)), "-ERR too many commands are asked for at once\r\n");
    assert_eq!(cluster.ask(0, &many("COMMAND DOCS", "get", 1025)), "-ERR too many commands are asked for at once\r\n");
    assert_eq!(cluster.ask(0, &many("CONFIG GET", "*", 1025)), "-ERR too many parameters are asked for at once\r\n");
    assert_eq!(bulk(&cluster.ask(0, &many("CLIENT LIST ID", "1", 2000))).lines().count(), 1);
    // A command within a command within a command …
    let nested = many("COMMAND GETKEYS", "DICTUM.ONCE a", 4000);
    assert_eq!(cluster.ask(0, &format!("{nested} SET k v")), "*1\r\n$1\r\nk\r\n");
}

#[test]
fn info_counts_what_reads_find_and_how_many_commands_come() {
    let mut cluster = alone();
    for _ in 0..400 {
        cluster.pass();
    }
    let figure = |cluster: &mut Cluster, name| {
        let info = cluster.ask(0, "INFO stats");
        field(&info, name).unwrap().parse::<u64>().unwrap()
    };
    cluster.ask(0, "CONFIG RESETSTAT");
    for line in ["GET k", "EXISTS k nosuch", "MGET k nosuch nosuch", "TTL nosuch", "WATCH k", "DBSIZE", "KEYS *"] {
        cluster.ask(0, line);
    }
    for line in ["MULTI", "GET k", "GET nosuch", "EXEC"] {
        cluster.ask(0, line);
    }
    assert_eq!((figure(&mut cluster, "keyspace_hits"), figure(&mut cluster, "keyspace_misses")), (4, 5));
    assert_eq!(cluster.ask(0, "SET short 1 PX 30"), "+OK\r\n");
    for _ in 0..200 {
        cluster.ask(0, "PING");
        cluster.pass();
    }
    // One command every five milliseconds.
    let rate = figure(&mut cluster, "instantaneous_ops_per_sec");
    assert!((150..=250).contains(&rate), "{rate}");
    assert_eq!(figure(&mut cluster, "expired_keys"), 1);
    cluster.ask(0, "CONFIG RESETSTAT");
    assert_eq!((figure(&mut cluster, "keyspace_hits"), figure(&mut cluster, "keyspace_misses")), (0, 0));
}

#[test]
fn every_field_of_info_is_named_once() {
    let info = alone().ask(0, "INFO everything");
    let mut names: Vec<&str> = bulk(&info).lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
