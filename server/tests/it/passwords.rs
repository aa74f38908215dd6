//! Passwords under argon2id, at real nodes: by RESP and by HTTP, many at once.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests of real processes use the real clock")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::tempdir;
use wire::Value;

use crate::common::{Client, Dev, eventually, wait_for};

/// The status of a request for a key that a client of this address makes as `user:password`.
fn status(address: &str, login: &str) -> u16 {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    let shown = STANDARD.encode(login);
    let request = format!(
        "GET /v1/keys/k HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic {shown}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("written");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

fn logs_in(address: &str, user: &str, password: &str) -> bool {
    let mut client = Client::connect(address).expect("it listens");
    let reply = client.call(&["AUTH", user, password]).expect("a reply");
    assert!(reply == Value::ok() || reply.as_error().is_some_and(|text| text.starts_with("WRONGPASS")), "{reply:?}");
    reply == Value::ok()
}

#[test]
fn many_come_at_once_with_passwords_that_nobody_has_tried() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let at: Vec<String> = dev.nodes.iter().map(|node| node.resp.clone()).collect();
    let webs: Vec<String> = dev.nodes.iter().map(|node| node.http.clone()).collect();
    wait_for("the version of the cluster", || {
        (eventually(&at[0], &["ACL", "DELUSER", "nobody"]) == Value::Integer(0)).then_some(())
    });
    assert_eq!(eventually(&at[0], &["SET", "k", "v"]), Value::ok());
    assert_eq!(eventually(&at[0], &["CONFIG", "SET", "acl-password-hash", "argon2id"]), Value::ok());
    for user in ["ann", "bob"] {
        let rule = format!(">{user}'s secret");
        assert_eq!(eventually(&at[0], &["ACL", "SETUSER", user, "on", &rule, "~*", "+@all"]), Value::ok());
    }
    let Value::Array(lines) = eventually(&at[1], &["ACL", "LIST"]) else { panic!("a list") };
    let lines: Vec<String> =
        lines.iter().map(|line| String::from_utf8_lossy(line.as_bytes().expect("text")).into_owned()).collect();
    let hashed = lines.iter().filter(|line| line.contains(" $argon2id$v=19$m=19456,t=2,p=1$")).count();
    assert_eq!(hashed, 2, "{lines:?}");

    // HTTP goes by the users that its node has told it of.
    wait_for("HTTP to know them", || (status(&webs[0], "ann:ann's secret") == 200).then_some(()));
    // Nobody has shown bob's password, nor any at the other nodes.
    thread::scope(|scope| {
        let asked = |user: &'static str, node: usize, by_http: bool| {
            let (at, web) = (&at[node], &webs[node]);
            scope.spawn(move || {
                let secret = format!("{user}'s secret");
                if by_http {
                    wait_for("HTTP to know them", || (status(web, &format!("{user}:{secret}")) == 200).then_some(()));
                } else {
                    assert!(logs_in(at, user, &secret), "{user} at {at}");
                }
            });
        };
        for number in 0..40 {
            asked(if number % 2 == 0 { "ann" } else { "bob" }, number % 3, number % 5 == 0);
        }
    });
    // Wrong ones, and those of others.
    for (address, web) in at.iter().zip(&webs) {
        assert!(!logs_in(address, "ann", "bob's secret") && !logs_in(address, "bob", "wrong"));
        assert_eq!(status(web, "ann:bob's secret"), 401);
    }
    // A password that goes is wrong at once, by both ways.
    assert_eq!(eventually(&at[0], &["ACL", "SETUSER", "bob", "<bob's secret", ">other"]), Value::ok());
    assert!(!logs_in(&at[2], "bob", "bob's secret") && logs_in(&at[2], "bob", "other"));
    wait_for("HTTP to know it", || (status(&webs[2], "bob:bob's secret") == 401).then_some(()));
    assert_eq!(status(&webs[2], "bob:other"), 200);
}
