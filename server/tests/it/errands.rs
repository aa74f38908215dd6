//! Keys go to other databases and other servers: real processes, real sockets.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::net::TcpListener;
use std::process::{Command, Stdio};

use tempfile::tempdir;
use wire::Value;

use crate::common::{Client, Dev, free_ports, wait_for};

fn ok(client: &mut Client, words: &[&str]) {
    assert_eq!(client.call(words).expect("a reply"), Value::ok(), "{words:?}");
}

/// A client of a cluster that knows how keys go elsewhere.
fn client_of(dev: &Dev, node: usize) -> Client {
    let mut client = Client::connect(&dev.nodes[node].resp).expect("it listens");
    wait_for("the newest version of the cluster", || {
        let answer = client.call(&["COPY", "no-such-key", "k", "DB", "1"]).expect("a reply");
        (answer == Value::Integer(0)).then_some(())
    });
    client
}

fn text(client: &mut Client, words: &[&str]) -> String {
    let reply = client.call(words).expect("a reply");
    reply.as_bytes().map_or_else(|| format!("{reply:?}"), |bytes| String::from_utf8_lossy(bytes).into_owned())
}

#[test]
fn keys_go_to_another_database_by_way_of_any_node() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let large = "x".repeat(3 << 20);
    for node in 0..3 {
        let mut client = client_of(&dev, node);
        ok(&mut client, &["SET", "k", &large, "EX", "1000"]);
        assert_eq!(client.call(&["COPY", "k", "l", "DB", "7", "REPLACE"]).expect("a reply"), Value::Integer(1));
        assert_eq!(client.call(&["MOVE", "k", "5"]).expect("a reply"), Value::Integer(1), "by node {node}");
        assert_eq!(client.call(&["MOVE", "k", "5"]).expect("a reply"), Value::Integer(0), "there is none any more");
        ok(&mut client, &["SELECT", "5"]);
        assert_eq!(text(&mut client, &["GETDEL", "k"]), large);
        ok(&mut client, &["SELECT", "7"]);
        assert_eq!(text(&mut client, &["GET", "l"]), large);
        let left = client.call(&["TTL", "l"]).expect("a reply").as_integer();
        assert!(left.is_some_and(|left| (900..=1000).contains(&left)), "{left:?}");
    }
}

/// Every type of value goes from one server to another, and what is refused stays.
fn goes_there(from: &mut Client, to: &mut Client, port: &str) {
    ok(from, &["SET", "s", "text", "EX", "1000"]);
    from.call(&["HSET", "h", "a", "1"]).expect("a reply");
    from.call(&["RPUSH", "l", "1", "2", "3"]).expect("a reply");
    from.call(&["ZADD", "z", "1", "a", "2", "b"]).expect("a reply");
    from.call(&["SADD", "m", "a", "b"]).expect("a reply");
    from.call(&["XADD", "x", "1-1", "a", "b"]).expect("a reply");
    let migrate = ["MIGRATE", "127.0.0.1", port];
    let all = [&migrate[..], &["", "3", "5000", "KEYS", "s", "h", "l", "z", "m", "x", "absent"]].concat();
    ok(from, &all);
    assert_eq!(from.call(&["EXISTS", "s", "h", "l", "z", "m", "x"]).expect("a reply"), Value::Integer(0));
    assert_eq!(text(from, &all), text(from, &[&migrate[..], &["absent", "3", "5000"]].concat()), "NOKEY");
    ok(to, &["SELECT", "3"]);
    assert_eq!(text(to, &["GET", "s"]), "text");
    let left = to.call(&["TTL", "s"]).expect("a reply").as_integer();
    assert!(left.is_some_and(|left| (900..=1000).contains(&left)), "{left:?}");
    for (words, length) in
        [(["HLEN", "h"], 1), (["LLEN", "l"], 3), (["ZCARD", "z"], 2), (["SCARD", "m"], 2), (["XLEN", "x"], 1)]
    {
        assert_eq!(to.call(&words).expect("a reply"), Value::Integer(length), "{words:?}");
    }
    // One that is there already stays here.
    ok(from, &["SET", "s", "newer"]);
    let refused = text(from, &[&migrate[..], &["s", "3", "5000"]].concat());
    assert!(
        refused.contains("ERR Target instance replied with error: BUSYKEY Target key name already exists."),
        "{refused}"
    );
    assert_eq!(text(from, &["GET", "s"]), "newer");
    ok(from, &[&migrate[..], &["s", "3", "5000", "COPY", "REPLACE"]].concat());
    assert_eq!(text(from, &["GET", "s"]), "newer", "a copy was asked for");
    assert_eq!(text(to, &["GET", "s"]), "newer");
}

#[test]
fn keys_go_to_another_cluster() {
    let folder = tempdir().expect("a temporary folder");
    let [here, there] = ["a", "b"].map(|name| Dev::start(&folder.path().join(name), &["--nodes", "1"]));
    let (mut from, mut to) = (client_of(&here, 0), client_of(&there, 0));
    let port = there.nodes[0].resp.rsplit(':').next().expect("a port").to_owned();
    goes_there(&mut from, &mut to, &port);
    // A server that takes connections and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = mute.local_addr().expect("an address").port().to_string();
    let said = text(&mut from, &["MIGRATE", "127.0.0.1", &port, "s", "0", "100"]);
    assert!(said.contains("IOERR error or timeout reading to target instance"), "{said}");
    drop(mute);
    let said = text(&mut from, &["MIGRATE", "127.0.0.1", &port, "s", "0", "1000"]);
    assert!(said.contains("IOERR error or timeout connecting to the client"), "{said}");
    assert_eq!(text(&mut from, &["GET", "s"]), "newer");
}

#[test]
#[ignore = "needs the program that REDIS_SERVER names"]
fn keys_go_to_a_redis_and_come_back() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(&folder.path().join("dictum"), &["--nodes", "1"]);
    let mut ours = client_of(&dev, 0);
    let [port] = free_ports();
    let port = port.to_string();
    let program = std::env::var("REDIS_SERVER").expect("REDIS_SERVER names the program");
    let mut redis = Command::new(program)
        .args(["--port", &port, "--save", "", "--dir"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut theirs = wait_for("the Redis", || Client::connect(&format!("127.0.0.1:{port}")).ok());
    goes_there(&mut ours, &mut theirs, &port);
    ok(&mut ours, &["FLUSHALL"]);
    ok(&mut theirs, &["FLUSHALL"]);
    ok(&mut theirs, &["SELECT", "0"]);
    let own = dev.nodes[0].resp.rsplit(':').next().expect("a port").to_owned();
    goes_there(&mut theirs, &mut ours, &own);
    redis.kill().expect("it runs");
    redis.wait().expect("it ends");
}
