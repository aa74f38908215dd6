//! Shapes and figures that tools read of a Redis, compared with one.

use crate::common::{alone, bulk, field, transcript};

#[test]
fn what_is_done_with_each_key_is_told() {
    let cases = [
        ("SET k v", "OW update"),
        ("SET k v GET", "RW access update"),
        ("GET k", "RO access"),
        ("EVAL x 1 k", "RW access update"),
        ("SORT a STORE b", "RO access, OW update"),
        ("LMOVE a b LEFT RIGHT", "RW access delete, RW insert"),
        ("ZUNIONSTORE d 2 a b", "OW update, RO access, RO access"),
        ("XREAD STREAMS a b 0 0", "RO access, RO access"),
        ("BITFIELD k GET u8 0", "RO access"),
        ("BITFIELD k SET u8 0 1", "RW access update"),
        ("GEORADIUS k 1 1 1 m STORE d", "RO access, OW update"),
        ("DEL a b", "RM delete, RM delete"),
        ("EXISTS a", "RO"),
        ("RENAMENX a b", "RW access delete, OW insert"),
        ("BITOP AND d a b", "OW update, RO access, RO access"),
        ("HDEL k f", "RW delete"),
        ("SADD k m", "RW insert"),
        ("OBJECT ENCODING k", "RO"),
    ];
    let mut cluster = alone();
    for (command, expected) in cases {
        let answer = cluster.ask(0, &format!("COMMAND GETKEYSANDFLAGS {command}"));
        let words = answer.split("\r\n").filter(|line| !line.is_empty());
        let mut told = Vec::new();
        for word in words {
            match word.strip_prefix('+') {
                Some(flag) => told.last_mut().map_or((), |of: &mut Vec<&str>| of.push(flag)),
                None if word.starts_with("*2") => told.push(Vec::new()),
                None => {}
            }
        }
        let told: Vec<String> = told.into_iter().map(|flags| flags.join(" ")).filter(|it| !it.is_empty()).collect();
        assert_eq!(told.join(", "), expected, "{command}: {answer}");
    }
}

/// Those of a Redis.
#[test]
fn commands_whose_keys_move_say_so() {
    let names = "blmpop bzmpop eval eval_ro evalsha evalsha_ro fcall fcall_ro georadius georadiusbymember lmpop sintercard sort \
                 sort_ro xread xreadgroup zdiff zdiffstore zinter zintercard zinterstore zmpop zunion zunionstore";
    let mut cluster = alone();
    let missing: Vec<&str> = names
        .split_whitespace()
        .filter(|name| !cluster.ask(0, &format!("COMMAND INFO {name}")).contains("+movablekeys"))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn texts_for_people_are_verbatim_in_resp3_and_scores_of_pages_are_strings() {
    let mut cluster = alone();
    cluster.ask(0, "ZADD scores 1.5 ada");
    cluster.ask(0, "HELLO 3");
    for command in ["INFO server", "CLIENT LIST", "CLIENT INFO", "LOLWUT"] {
        let answer = cluster.ask(0, command);
        assert!(answer.starts_with('=') && answer.contains("\r\ntxt:"), "{command}: {answer}");
    }
    assert_eq!(cluster.ask(0, "ZSCORE scores ada"), ",1.5\r\n");
}

#[test]
fn info_tells_of_processors_commands_and_errors() {
    let mut cluster = alone();
    cluster.ask(0, "CONFIG RESETSTAT");
    transcript(
        &mut cluster,
        &[
            ("SET k 1", "+OK"),
            ("GET k", "$1 | 1"),
            ("GET k", "$1 | 1"),
            ("LPUSH k x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
            ("SAVE", "+OK"),
            ("PFSELFTEST", "+OK"),
        ],
    );
    let info = cluster.ask(0, "INFO everything");
    let info = bulk(&info);
    let calls = |name: &str, figure: &str| {
        let line = field(info, &format!("cmdstat_{name}")).unwrap_or_default().to_owned();
        line.split(',').find_map(|part| part.strip_prefix(figure)?.strip_prefix('=').map(str::to_owned))
    };
    assert_eq!(calls("get", "calls").as_deref(), Some("2"));
    assert_eq!(calls("get", "rejected_calls").as_deref(), Some("1"));
    assert_eq!(calls("lpush", "failed_calls").as_deref(), Some("1"));
    assert_eq!(calls("set", "failed_calls").as_deref(), Some("0"));
    assert_eq!(field(info, "errorstat_ERR"), Some("count=2"));
    assert_eq!(field(info, "errorstat_WRONGTYPE"), Some("count=1"));
    assert_eq!(field(info, "total_error_replies"), Some("3"));
    for name in ["used_cpu_sys", "used_cpu_user", "used_memory_rss", "used_memory_peak", "total_system_memory"] {
        assert!(field(info, name).is_some(), "{name}");
    }
}

/// One message for all keys of a turn, as in a Redis.
#[test]
fn broadcast_invalidations_tell_a_turns_keys_together() {
    let mut cluster = crate::common::Cluster::new(3);
    for node in 0..3 {
        assert_eq!(cluster.ask(node, "GET k"), "$-1\r\n");
        let listener = node::ConnectionId(9);
        cluster.open(node, listener);
        cluster.say_as(node, listener, "HELLO 3");
        cluster.hear_as(node, listener);
        cluster.say_as(node, listener, "CLIENT TRACKING ON BCAST PREFIX user:");
        assert_eq!(cluster.hear_as(node, listener), "+OK\r\n");
        for bytes in [
            "MULTI\r\nSET user:1 1\r\nSET other 1\r\nSET user:2 1\r\nEXEC\r\n",
            "SET user:1 1\r\nSET other 1\r\nSET user:2 1\r\n",
            "MSET user:1 1 user:2 1 other 1\r\n",
        ] {
            cluster.give(node, node::Input::Received { connection: crate::common::CLIENT, bytes: bytes.as_bytes() });
            let heard = cluster.hear_as(node, listener);
            let expected = ">2\r\n$10\r\ninvalidate\r\n*2\r\n$6\r\nuser:1\r\n$6\r\nuser:2\r\n";
            assert_eq!(heard, expected, "node {node}: {bytes}");
            cluster.hear(node);
        }
    }
}
