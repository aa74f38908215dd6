//! Commands that concern the connection: what they answer, byte for byte where clients parse it.

use crate::common::{CLIENT, Cluster, alone, bulk, transcript};
use node::{ConnectionId, Input};

const OTHER: ConnectionId = ConnectionId(2);

#[test]
fn a_connection_says_who_it_is() {
    transcript(
        &mut alone(),
        &[
            ("CLIENT ID", ":1"),
            ("CLIENT GETNAME", "$-1"),
            ("CLIENT SETNAME me", "+OK"),
            ("CLIENT GETNAME", "$2 | me"),
            ("CLIENT SETNAME \"a b\"", "-ERR Client names cannot contain spaces, newlines or special characters."),
            ("CLIENT SETINFO LIB-NAME redis-py(x)", "+OK"),
            ("CLIENT SETINFO lib-ver 5.0", "+OK"),
            ("CLIENT SETINFO lib-ver \"5 0\"", "-ERR lib-ver cannot contain spaces, newlines or special characters."),
            ("CLIENT SETINFO lib-x 5.0", "-ERR Unrecognized option 'lib-x'"),
            ("CLIENT NO-EVICT on", "+OK"),
            ("CLIENT NO-EVICT maybe", "-ERR syntax error"),
            ("CLIENT NO-TOUCH ON", "+OK"),
            ("CLIENT GETREDIR", ":-1"),
            ("CLIENT TRACKINGINFO", "*6 | $5 | flags | *1 | $3 | off | $8 | redirect | :-1 | $8 | prefixes | *0"),
            (
                "CLIENT CACHING yes",
                "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
            ),
            ("CLIENT", "-ERR wrong number of arguments for 'client' command"),
            ("CLIENT ID 1", "-ERR wrong number of arguments for 'client|id' command"),
            ("CLIENT NOSUCH 100", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP."),
            ("CLIENT INFO", &client_line("cmd=client|info")),
            ("CLIENT LIST", &client_line("cmd=client|list")),
            ("CLIENT LIST ID 7 1", &client_line("cmd=client|list")),
            ("CLIENT LIST TYPE normal", &client_line("cmd=client|list")),
            ("CLIENT LIST TYPE pubsub", "$0 | "),
            ("CLIENT LIST TYPE x", "-ERR Unknown client type 'x'"),
            ("CLIENT LIST ID x", "-ERR Invalid client ID"),
            ("CLIENT LIST x", "-ERR syntax error"),
        ],
    );
}

/// The line of `CLIENT LIST` after the test above, with its length; what depends on allocations is left to the session.
fn client_line(command: &str) -> String {
    let mut cluster = alone();
    for line in ["CLIENT SETNAME me", "CLIENT SETINFO LIB-NAME redis-py(x)", "CLIENT SETINFO LIB-VER 5.0"] {
        cluster.ask(0, line);
    }
    for line in ["CLIENT NO-EVICT on", "CLIENT NO-TOUCH on"] {
        cluster.ask(0, line);
    }
    let line = if command.ends_with("info") { "CLIENT INFO" } else { "CLIENT LIST" };
    let answer = cluster.ask(0, line);
    let text = bulk(&answer);
    let names: Vec<&str> = text.split_whitespace().filter_map(|field| field.split('=').next()).collect();
    assert_eq!(
        names.join(" "),
        "id addr laddr fd name age idle flags db sub psub ssub multi watch qbuf qbuf-free argv-mem multi-mem rbs rbp obl \
         oll omem tot-mem events cmd user redir resp lib-name lib-ver tls"
    );
    for part in [
        "id=1 addr=127.0.0.1:50001 laddr=127.0.0.1:7001 fd=-1 name=me age=0 idle=0 flags=eT db=0 sub=0 psub=0 ssub=0 \
         multi=-1 watch=0 ",
        command,
        " user=default redir=-1 resp=2 lib-name=redis-py(x) lib-ver=5.0 tls=none\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    answer.strip_suffix("\r\n").unwrap_or(&answer).replace("\r\n", " | ")
}

#[test]
fn connections_are_closed() {
    let mut cluster = alone();
    let three = ConnectionId(3);
    cluster.open(0, OTHER);
    cluster.open(0, three);
    assert_eq!(cluster.ask(0, "CLIENT KILL 127.0.0.1:1"), "-ERR No such client\r\n");
    assert_eq!(cluster.ask(0, "CLIENT KILL ID 0"), "-ERR client-id should be greater than 0\r\n");
    assert_eq!(cluster.ask(0, "CLIENT KILL USER nobody"), "-ERR No such user 'nobody'\r\n");
    assert_eq!(cluster.ask(0, "CLIENT KILL MAXAGE 0"), "-ERR maxage should be greater than 0\r\n");
    assert_eq!(cluster.ask(0, "CLIENT KILL ID 2 ADDR"), "-ERR syntax error\r\n");
    assert_eq!(cluster.ask(0, "CLIENT KILL MAXAGE 1000 ID 2"), ":0\r\n");
    assert_eq!(cluster.ask(0, "CLIENT KILL TYPE replica"), ":0\r\n");
    assert_eq!(cluster.ask(0, "CLIENT KILL ID 2 ADDR 127.0.0.1:50002"), ":1\r\n");
    assert_eq!(cluster.closed, [(0, OTHER)]);
    assert_eq!(cluster.ask(0, "CLIENT KILL 127.0.0.1:50003"), "+OK\r\n");
    assert_eq!(cluster.closed, [(0, OTHER), (0, three)]);
    // A half-read command shows.
    cluster.open(0, ConnectionId(4));
    cluster.give(0, Input::Received { connection: ConnectionId(4), bytes: b"*2\r\n$4\r\nECHO\r\n$100\r\nabc" });
    let answer = cluster.ask(0, "CLIENT LIST ID 4");
    assert!(bulk(&answer).contains(" cmd=NULL ") && !bulk(&answer).contains(" qbuf=0 "), "{answer}");
    assert_eq!(cluster.ask(0, "CLIENT KILL ID 4"), ":1\r\n");
    // Not itself, unless it is said so.
    assert_eq!(cluster.ask(0, "CLIENT KILL TYPE normal"), ":0\r\n");
    assert_eq!(cluster.ask(0, "CLIENT KILL TYPE normal SKIPME no"), ":1\r\n");
    assert!(cluster.closed.contains(&(0, CLIENT)));
}

#[test]
fn replies_are_switched_off_and_skipped() {
    let mut cluster = alone();
    cluster.say(0, b"CLIENT REPLY SKIP\r\nPING a\r\nPING b\r\n");
    assert_eq!(cluster.hear(0), "$1\r\nb\r\n");
    cluster.say(0, b"CLIENT REPLY OFF\r\nPING\r\nSET a 1\r\nCLIENT REPLY SKIP\r\nGET a\r\nPING\r\nCLIENT REPLY ON\r\n");
    assert_eq!(cluster.hear(0), "+OK\r\n");
    assert_eq!(cluster.ask(0, "CLIENT REPLY maybe"), "-ERR syntax error\r\n");
    assert_eq!(cluster.ask(0, "GET a"), "$1\r\n1\r\n");
}

#[test]
fn server_commands_stand_inside_transactions() {
    transcript(
        &mut alone(),
        &[
            ("MULTI", "+OK"),
            ("CLIENT SETNAME me", "+QUEUED"),
            ("SET a 1", "+QUEUED"),
            ("CLIENT GETNAME", "+QUEUED"),
            ("CONFIG GET save", "+QUEUED"),
            ("WAIT 1 0", "+QUEUED"),
            ("CLIENT NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP."),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("CLIENT GETNAME", "$-1"),
            ("MULTI", "+OK"),
            ("CLIENT SETNAME me", "+QUEUED"),
            ("SET a 1", "+QUEUED"),
            ("CLIENT GETNAME", "+QUEUED"),
            ("CONFIG GET save", "+QUEUED"),
            ("WAIT 1 0", "+QUEUED"),
            ("UNWATCH", "+QUEUED"),
            ("EXEC", "*6 | +OK | +OK | $2 | me | *2 | $4 | save | $0 |  | :0 | +OK"),
        ],
    );
}

#[test]
fn the_handshakes_of_clients_pass() {
    let mut cluster = Cluster::with(1, |config| config.password = Some("secret".into()));
    transcript(
        &mut cluster,
        &[
            ("PING", "-NOAUTH Authentication required."),
            ("CLIENT ID", "-NOAUTH Authentication required."),
            ("HELLO 3 AUTH default wrong", "-WRONGPASS invalid username-password pair or user is disabled."),
            (
                "HELLO 3 AUTH default secret SETNAME app",
                "%7 | $6 | server | $5 | redis | $7 | version | $5 | 7.4.0 | $5 | proto | :3 | $2 | id | :1 | $4 | mode | $10 | \
                 standalone | $4 | role | $6 | master | $7 | modules | *0",
            ),
            ("CLIENT SETINFO LIB-NAME go-redis(,go1.22)", "+OK"),
            ("CLIENT GETNAME", "$3 | app"),
            ("CONFIG GET requirepass", "%1 | $11 | requirepass | $6 | secret"),
            ("ACL LIST", "*1 | $44 | user default on sanitize-payload ~* &* +@all"),
            ("COMMAND INFO nosuch", "*1 | _"),
            ("CLIENT TRACKINGINFO", "%3 | $5 | flags | ~1 | $3 | off | $8 | redirect | :-1 | $8 | prefixes | *0"),
            ("RESET", "+RESET"),
            ("PING", "-NOAUTH Authentication required."),
        ],
    );
}

#[test]
fn a_killed_connection_is_not_waited_for() {
    let mut cluster = alone();
    cluster.open(0, OTHER);
    // A write is on its way when the connection is closed under it; it is carried out nevertheless.
    cluster.give(0, Input::Received { connection: OTHER, bytes: b"SET late 1\r\n" });
    assert_eq!(cluster.ask(0, "CLIENT KILL ID 2"), ":1\r\n");
    for _ in 0..10 {
        cluster.pass();
    }
    assert_eq!(cluster.ask(0, "GET late"), "$1\r\n1\r\n");
    assert_eq!(cluster.heard(0, OTHER), "");
}

/// Every command and subcommand, with words that nobody would write: each is answered with one whole reply.
#[test]
fn odd_words_are_answered() {
    let mut cluster = alone();
    let list = cluster.ask(0, "COMMAND LIST");
    let own =
        ["client", "command", "config", "function", "script", "latency", "slowlog", "acl", "module", "cluster", "info"];
    let others = ["role", "lastsave", "bgsave", "debug", "hello", "auth", "select", "wait", "dictum", "readonly"];
    let names = list.lines().filter(|name| own.iter().chain(&others).any(|it| name.starts_with(it)));
    // After a pause of odd length nobody would be answered.
    let names: Vec<String> = names.filter(|name| *name != "client|pause").map(str::to_owned).collect();
    assert!(names.len() > 60, "{names:?}");
    let long = vec![b'x'; 5000];
    let odd: [&[u8]; 12] = [
        b"",
        b"0",
        b"-1",
        b"9223372036854775807",
        b"*",
        b"[a-",
        b"\xff\xfe",
        b"a\0b\r\n",
        b"id",
        b"maxage",
        b"on",
        &long,
    ];
    let mut connection = 10;
    for name in names {
        let start: Vec<&[u8]> = name.split('|').map(str::as_bytes).collect();
        for place in 0..odd.len() * 4 {
            let count = place % 4;
            let mut words = start.clone();
            words.extend((0..count).map(|step| odd[(place / 4 + step * 5) % odd.len()]));
            connection += 1;
            let id = ConnectionId(connection);
            cluster.open(0, id);
            let mut bytes = Vec::new();
            wire::encode_command(&mut bytes, words.iter().copied());
            bytes.extend_from_slice(b"CLIENT REPLY ON\r\nECHO end\r\n");
            cluster.give(0, Input::Received { connection: id, bytes: &bytes });
            // Not text: FUNCTION DUMP answers bytes.
            let mut answer = cluster.heard_bytes(0, id);
            for _ in 0..5000 {
                if answer.ends_with(b"\r\nend\r\n") || cluster.closed.contains(&(0, id)) {
                    break;
                }
                cluster.pass();
                answer.append(&mut cluster.heard_bytes(0, id));
            }
            let mut parser = wire::ReplyParser::new(wire::ReplyLimits::default());
            parser.push(&answer);
            let mut replies = 0;
            while parser.next().expect("well-formed replies").is_some() {
                replies += 1;
            }
            assert!(parser.is_idle() && (1..=3).contains(&replies), "{name} {count}: {}", answer.escape_ascii());
            cluster.give(0, Input::Closed { connection: id });
        }
    }
}

#[test]
fn coordinates_are_texts_or_numbers() {
    let mut cluster = alone();
    transcript(
        &mut cluster,
        &[
            ("GEOADD cities 13.361389 38.115556 Palermo", ":1"),
            ("GEOPOS cities Palermo absent", "*2 | *2 | $20 | 13.36138933897018433 | $20 | 38.11555639549629859 | *-1"),
            (
                "DICTUM.ONCE id1 GEORADIUS cities 13 38 50 km WITHCOORD",
                "*1 | *2 | $7 | Palermo | *2 | $20 | 13.36138933897018433 | $20 | 38.11555639549629859",
            ),
            (
                "DICTUM.OUTCOME id1",
                "*2 | $7 | applied | *1 | *2 | $7 | Palermo | *2 | $20 | 13.36138933897018433 | $20 | 38.11555639549629859",
            ),
        ],
    );
    cluster.ask(0, "HELLO 3");
    transcript(
        &mut cluster,
        &[
            ("GEOPOS cities Palermo absent", "*2 | *2 | ,13.361389338970184 | ,38.1155563954963 | _"),
            ("GEODIST cities Palermo Palermo", "$6 | 0.0000"),
        ],
    );
}

/// Redis refuses these before it looks whether there is a transaction, and an `EXEC` that is refused ends it (`rejectCommand` and `execCommandAbort` there).
#[test]
fn a_refused_end_ends_a_transaction() {
    let aborted = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command";
    transcript(
        &mut alone(),
        &[
            ("WATCH a", "+OK"),
            ("MULTI", "+OK"),
            ("SET a 1", "+QUEUED"),
            ("EXEC now", aborted),
            ("GET a", "$-1"),
            ("EXEC", "-ERR EXEC without MULTI"),
            ("EXEC now", aborted),
            ("MULTI", "+OK"),
            ("SET a 1", "+QUEUED"),
            ("MULTI now", "-ERR wrong number of arguments for 'multi' command"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("SET a 1", "+QUEUED"),
            ("DISCARD now", "-ERR wrong number of arguments for 'discard' command"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("WATCH", "-ERR wrong number of arguments for 'watch' command"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            // These are the commands' own errors, and do no harm.
            ("MULTI", "+OK"),
            ("MULTI", "-ERR MULTI calls can not be nested"),
            ("WATCH a", "-ERR WATCH inside MULTI is not allowed"),
            ("SET a 1", "+QUEUED"),
            ("EXEC", "*1 | +OK"),
        ],
    );
}
