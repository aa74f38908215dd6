//! Connections that speak another protocol, as a web page has its visitor's browser do: nothing that the page chooses is carried out.

use crate::common::{Cluster, alone, field};
use node::{ConnectionId, Input};

const PAGE: ConnectionId = ConnectionId(21);

fn send(cluster: &mut Cluster, bytes: &[u8]) -> String {
    cluster.closed.clear();
    cluster.open(0, PAGE);
    cluster.give(0, Input::Received { connection: PAGE, bytes });
    for _ in 0..20 {
        cluster.pass();
    }
    cluster.heard(0, PAGE)
}

fn is_closed(cluster: &Cluster) -> bool {
    cluster.closed.contains(&(0, PAGE))
}

#[test]
fn a_request_of_any_method_writes_nothing() {
    let mut cluster = alone();
    // What `fetch` lets a page choose: the method, the path, header fields behind `Host:`, and the body.
    let methods = [
        "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "post", "SET", "set", "DEL",
        "UNLINK", "INCR", "APPEND", "GETDEL", "'SET'", "S'ET'",
    ];
    for method in methods {
        for (path, version) in [("/k", "HTTP/1.1"), ("k", "HTTP/1.0"), ("/'k'", "HTTP/1.1"), ("*", "http/2.0")] {
            let request = format!(
                "{method} {path} {version}\r\nHost: 127.0.0.1:7001\r\nX: y\r\nContent-Length: 20\r\n\r\nSET k stolen\r\nFLUSHALL\r\n"
            );
            let heard = send(&mut cluster, request.as_bytes());
            assert!(is_closed(&cluster), "{request}: {heard:?}");
            if method == "GET" {
                assert_eq!(
                    heard, "-ERR wrong number of arguments for 'get' command\r\n",
                    "as in Redis, and then it is closed"
                );
            } else {
                assert_eq!(heard, "", "{request}");
            }
            assert_eq!(cluster.ask(0, "GET k"), "$1\r\nv\r\n", "{request}");
            assert_eq!(cluster.ask(0, "DBSIZE"), ":1\r\n", "{request}");
        }
    }
}

#[test]
fn it_does_not_matter_how_the_request_is_cut() {
    let mut cluster = alone();
    let request = b"POST / HTTP/1.1\r\nHost: a\r\n\r\nSET k stolen\r\n";
    for at in 1..request.len() {
        cluster.closed.clear();
        cluster.open(0, PAGE);
        for bytes in [&request[..at], &request[at..]] {
            cluster.give(0, Input::Received { connection: PAGE, bytes });
            cluster.pass();
        }
        assert!(is_closed(&cluster), "cut at {at}");
        assert_eq!(cluster.heard(0, PAGE), "");
    }
    assert_eq!(cluster.ask(0, "GET k"), "$1\r\nv\r\n");
}

#[test]
fn a_line_host_ends_a_connection_wherever_it_stands_and_whoever_asks() {
    for password in [None, Some("secret".to_owned())] {
        let mut cluster = Cluster::with(1, |config| config.password.clone_from(&password));
        for bytes in [
            &b"PING\r\nhost: x\r\nSET k stolen\r\n"[..],
            b"X-Early: y\r\nHOST: x\r\nSET k stolen\r\n",
            // Redis does the same where they are said as RESP.
            b"*1\r\n$4\r\nPOST\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$6\r\nstolen\r\n",
            b"*2\r\n$5\r\nHost:\r\n$1\r\nx\r\nSET k stolen\r\n",
        ] {
            send(&mut cluster, bytes);
            assert!(is_closed(&cluster), "{}", bytes.escape_ascii());
        }
        if password.is_some() {
            assert_eq!(cluster.ask(0, "AUTH secret"), "+OK\r\n");
        }
        assert_eq!(cluster.ask(0, "GET k"), "$-1\r\n");
        let info = cluster.ask(0, "INFO stats");
        assert_eq!(field(&info, "dictum_foreign_connections"), Some("4"));
    }
}

#[test]
fn a_tls_handshake_is_not_read_for_lines() {
    let mut cluster = alone();
    // A session ticket is made by the server that the browser spoke to before, and may hold any bytes.
    let heard = send(&mut cluster, b"\x16\x03\x01\x02\x00\x01\x00ticket\r\nSET k stolen\r\n");
    assert_eq!((heard.as_str(), is_closed(&cluster)), ("", true));
    assert_eq!(cluster.ask(0, "GET k"), "$1\r\nv\r\n");
}

#[test]
fn people_at_a_terminal_may_say_such_words() {
    let mut cluster = alone();
    assert_eq!(cluster.ask(0, "SET HTTP/1.1 k"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SET k HTTPS/1"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "GET HTTP/1.1"), "$1\r\nk\r\n");
    assert_eq!(cluster.ask(0, "SET k HTTP/"), "+OK\r\n");
    let mut words = Vec::new();
    wire::encode_command(&mut words, ["SET", "k", "HTTP/1.1"]);
    cluster.say(0, &words);
    assert_eq!(cluster.hear(0), "+OK\r\n", "RESP says how long each word is");
}
