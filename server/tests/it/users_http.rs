//! Users over HTTP: each route may do what the commands may that it runs.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests of real processes use the real clock")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::tempdir;
use wire::Value;

use crate::common::{Client, Dev, eventually, wait_for};

/// An HTTP connection of a user (`name:password`), or of nobody.
struct Web {
    stream: TcpStream,
    shown: String,
}

impl Web {
    fn open(address: &str, user: &str) -> Web {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
        let mut web = Web { stream, shown: String::new() };
        web.show(user);
        web
    }

    fn show(&mut self, user: &str) {
        self.shown = match user {
            "" => String::new(),
            user => format!("Authorization: Basic {}\r\n", STANDARD.encode(user)),
        };
    }

    /// Status and body.
    fn ask(&mut self, line: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\n{}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
            self.shown
        );
        self.stream.write_all(request.as_bytes()).expect("written");
        let (mut heard, mut buffer) = (Vec::new(), [0; 65536]);
        loop {
            let text = String::from_utf8_lossy(&heard).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let head = head.to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
                let is_whole = match length {
                    Some(length) => body.len() >= length,
                    None => head.contains(" 204 ") || body.ends_with("0\r\n\r\n"),
                };
                if is_whole {
                    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
                    return (status.unwrap_or_else(|| panic!("{head}")), body.to_owned());
                }
            }
            let count = self.stream.read(&mut buffer).expect("an answer");
            assert!(count > 0, "{line}: {text}");
            heard.extend_from_slice(&buffer[..count]);
        }
    }

    /// Checks that a request is refused in these words.
    fn refused(&mut self, line: &str, body: &str, message: &str) {
        let (status, said) = self.ask(line, body);
        let problem: serde_json::Value =
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{line}: {said}: {error}"));
        assert_eq!((status, &problem["code"], &problem["message"]), (403, &"NOPERM".into(), &message.into()), "{line}");
    }
}

fn command(name: &str) -> String {
    format!("User ann has no permissions to run the '{name}' command")
}

#[test]
fn each_route_may_do_what_its_commands_may() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let resps: Vec<String> = dev.nodes.iter().map(|node| node.resp.clone()).collect();
    let webs: Vec<String> = dev.nodes.iter().map(|node| node.http.clone()).collect();
    wait_for("the version of the cluster", || {
        (eventually(&resps[0], &["ACL", "DELUSER", "nobody"]) == Value::Integer(0)).then_some(())
    });
    let order = |words: &[&str]| {
        let reply = eventually(&resps[0], words);
        assert!(reply.as_error().is_none(), "{words:?}: {reply:?}");
    };
    order(&["SET", "cart:1", "one"]);
    order(&["SET", "other", "two"]);
    order(&["DICTUM.BUCKET", "CREATE", "shop"]);
    order(&["ACL", "SETUSER", "ann", "on", ">secret", "~cart:*", "+@read", "bucket=default"]);
    let ann = "ann:secret";
    let come = |address: &String, user: &str| {
        wait_for("the user", || {
            let mut web = Web::open(address, user);
            (web.ask("GET /v1/keys/cart:1", "").0 != 401).then_some(web)
        })
    };
    for address in &webs {
        let mut web = come(address, ann);
        assert_eq!(web.ask("GET /v1/keys/cart:1", ""), (200, "one".to_owned()));
        assert_eq!(web.ask("GET /v1/buckets/default/keys/cart:1", ""), (200, "one".to_owned()));
        assert_eq!(web.ask("GET /getValue?key=cart:1", "").0, 200);
        assert_eq!(web.ask("GET /v1/keys/cart:2", "").0, 404);
        let (key, bucket) = ("No permissions to access a key", "No permissions to access the bucket 'shop'");
        web.refused("GET /v1/keys/other", "", key);
        web.refused("GET /getValue?key=other", "", key);
        // It reads keys of others, too.
        web.refused("GET /getDictionary", "", key);
        web.refused("GET /v1/buckets/shop/keys/cart:1", "", bucket);
        web.refused("GET /v1/buckets/nosuch/keys/cart:1", "", "No permissions to access the bucket 'nosuch'");
        web.refused("PUT /v1/keys/cart:1", "new", &command("dictum.set"));
        web.refused("DELETE /v1/keys/cart:1", "", &command("dictum.del"));
        web.refused("POST /insertOrUpdate", r#"{"key":"cart:1","value":"new"}"#, &command("dictum.set"));
        for (line, body, name) in [
            ("GET /v1/buckets", "", "dictum.bucket|list"),
            ("GET /v1/buckets/default", "", "dictum.bucket|show"),
            ("PUT /v1/buckets/more", "{}", "dictum.bucket|create"),
            ("PATCH /v1/buckets/shop", r#"{"ttl":5}"#, "dictum.bucket|set"),
            ("DELETE /v1/buckets/shop?confirm=shop", "", "dictum.bucket|show"),
            ("GET /v1/nodes", "", "dictum.node|list"),
            ("PATCH /v1/nodes", r#"{"voters":3}"#, "dictum.node|voters"),
            ("POST /v1/nodes/token", "", "dictum.node|token"),
            ("GET /v1/nodes/settings", "", "dictum.node|settings"),
            ("POST /v1/nodes/pause", "", "dictum.node|pause"),
            ("POST /v1/nodes/resume", "", "dictum.node|resume"),
            ("DELETE /v1/nodes/n1", "", "dictum.node|remove"),
            ("POST /v1/nodes/n1/drain", "", "dictum.node|drain"),
            ("POST /v1/nodes/n1/promote", "", "dictum.node|promote"),
            ("GET /v1/status", "", "dictum.status"),
            ("GET /metrics", "", "dictum.status"),
        ] {
            web.refused(line, body, &command(name));
        }
        assert_eq!(Web::open(address, "").ask("GET /livez", "").0, 200);
        assert_eq!(Web::open(address, "").ask("GET /v1/keys/other", ""), (200, "two".to_owned()), "default may");
    }
    // Where a user begins is said as for AUTH.
    order(&["ACL", "SETUSER", "ann", "bucket=shop", "+dictum.set", "+dictum.status"]);
    let mut web = wait_for("the new rules", || {
        let mut web = Web::open(&webs[1], "ann@shop:secret");
        (web.ask("PUT /v1/keys/cart:1", "three").0 == 204).then_some(web)
    });
    assert_eq!(web.ask("GET /v1/keys/cart:1", ""), (200, "three".to_owned()));
    assert_eq!(web.ask("GET /v1/status", "").0, 200);
    web.refused("GET /metrics", "", &command("info"));
    assert_eq!(eventually(&resps[2], &["GET", "cart:1"]), Value::bulk("one"));
    // A right that is taken is taken from connections that are there, at every node.
    let mut before: Vec<Web> = webs.iter().map(|address| come(address, "ann@shop:secret")).collect();
    order(&["ACL", "SETUSER", "ann", "resetkeys", "~basket:*"]);
    for web in &mut before {
        wait_for("the loss of a right", || (web.ask("GET /v1/keys/cart:1", "").0 == 403).then_some(()));
        assert_eq!(web.ask("GET /v1/keys/basket:1", "").0, 404);
    }
    let mut client = Client::connect(&resps[1]).expect("it listens");
    let reply = client.call(&["ACL", "DELUSER", "ann"]).expect("a reply");
    assert_eq!(reply, Value::Integer(1));
    for web in &mut before {
        wait_for("the loss of the user", || (web.ask("GET /v1/keys/basket:1", "").0 == 401).then_some(()));
    }
    let listed = wait_for("the end of the user's connections", || {
        let list = eventually(&resps[0], &["CLIENT", "LIST"]);
        let list = String::from_utf8_lossy(list.as_bytes()?).into_owned();
        (!list.contains("user=ann")).then_some(list)
    });
    assert!(listed.contains("addr=http") && listed.contains("user=default"), "{listed}");
}

/// A user who is let in guesses others' passwords no faster than anybody else, also on the same connection.
#[test]
fn a_login_gives_no_right_to_guess() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let (resp, web) = (&dev.nodes[0].resp, &dev.nodes[0].http);
    wait_for("the version of the cluster", || {
        (eventually(resp, &["ACL", "DELUSER", "nobody"]) == Value::Integer(0)).then_some(())
    });
    eventually(resp, &["ACL", "SETUSER", "root", "on", ">geheim", "~*", "&*", "+@all"]);
    eventually(resp, &["ACL", "SETUSER", "ann", "on", ">secret", "~*", "+dictum.get"]);
    let mut web = Web::open(web, "ann:secret");
    assert_eq!(web.ask("GET /v1/keys/k", "").0, 404);
    let begun = Instant::now();
    for number in 0..7 {
        web.show(&format!("root:{number}"));
        assert_eq!(web.ask("GET /v1/keys/k", "").0, 401);
    }
    assert!(begun.elapsed() >= Duration::from_secs(1), "three a second");
    // A password that it has shown before waits for nothing, and is no guess.
    web.show("ann:secret");
    wait_for("its turn", || (web.ask("GET /v1/keys/k", "").0 == 404).then_some(()));
}
