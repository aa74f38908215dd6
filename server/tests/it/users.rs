//! Users and their rights: as in a Redis, and the same at all nodes.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of real processes use real files and the real clock"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::tempdir;
use wire::Value;

use crate::common::process::Process;
use crate::common::{Client, Dev, eventually, free_ports, wait_for};
use crate::start::start_command;

/// A real Redis with nothing in it; ended when this is dropped.
struct Redis {
    child: Child,
    resp: String,
}

impl Redis {
    fn start(folder: &Path) -> Redis {
        wait_for("a redis-server", || {
            let [port] = free_ports();
            let mut command = Command::new("redis-server");
            command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
            command.arg("--dir").arg(folder).stdin(Stdio::null()).stdout(Stdio::piped());
            let mut child = command.spawn().expect("it is installed");
            let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            for line in lines.map_while(Result::ok) {
                if line.contains("Ready to accept connections") {
                    return Some(Redis { child, resp: format!("127.0.0.1:{port}") });
                }
            }
            child.wait().expect("it has ended");
            None
        })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It has ended by itself if that fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn alone(folder: &Path, more: &[&str]) -> (Process, [String; 2]) {
    wait_for("a node", || {
        let [resp, http, peer] = free_ports();
        let process = Process::start(start_command(folder, [resp, http, peer], more)).ok()?;
        Some((process, [format!("127.0.0.1:{resp}"), format!("127.0.0.1:{http}")]))
    })
}

fn must(client: &mut Client, words: &[&str]) -> Value {
    let reply = client.call(words).expect("a reply");
    assert!(reply.as_error().is_none(), "{words:?}: {reply:?}");
    reply
}

/// Users can be changed once the cluster has found that all of its nodes are of this version.
fn raised(resp: &str) {
    wait_for("the version of the cluster", || {
        let reply = eventually(resp, &["ACL", "DELUSER", "nobody"]);
        (reply == Value::Integer(0)).then_some(())
    });
}

fn logged_in(resp: &str, user: &str, password: &str) -> Client {
    let mut client = Client::connect(resp).expect("it listens");
    must(&mut client, &["AUTH", user, password]);
    client
}

/// All texts of a reply.
fn text(reply: &Value) -> String {
    match reply {
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(" "),
        other => {
            other.as_bytes().map_or_else(|| format!("{other:?}"), |text| String::from_utf8_lossy(text).into_owned())
        }
    }
}

/// A reply without what a Redis before 7.2 tells otherwise: the rules of commands, in another order and with the same meaning, which `DRYRUN` shows; that
/// RESTORE looks at what it is given, which is so by default; and the name of the user.
fn comparable(reply: Value) -> Value {
    let is_other = |word: &str| word.trim_start_matches('(').starts_with(['+', '-']) || word == "sanitize-payload";
    match reply {
        Value::Bulk(text) => {
            let text = String::from_utf8_lossy(&text).replace("This user has", "User u has");
            Value::bulk(text.split(' ').filter(|word| !is_other(word)).collect::<Vec<_>>().join(" "))
        }
        Value::Array(all) => {
            Value::Array(all.into_iter().filter(|it| *it != Value::bulk("sanitize-payload")).map(comparable).collect())
        }
        Value::Set(all) => {
            Value::Set(all.into_iter().filter(|it| *it != Value::bulk("sanitize-payload")).map(comparable).collect())
        }
        Value::Map(all) => {
            Value::Map(all.into_iter().map(|(key, value)| (comparable(key), comparable(value))).collect())
        }
        other => other,
    }
}

/// Rules for a user in each of two servers, one after the other.
const RULES: &[&[&str]] = &[
    &["on", ">secret", "~cart:*", "%R~stock:*", "+@read", "+set", "-keys"],
    &["resetpass", "nopass", "resetkeys", "%W~a", "%R~a", "%RW~b", "+@all", "-@dangerous"],
    &["~*", "&news:*", "+config|get", "-config|set"],
    &["-@all", "+config", "+get", "+GET", "-get", "+@hash"],
    &["(~x +get)", "(", "%R~y", "&z", "+@all", ")", "off", "skip-sanitize-payload"],
    &["clearselectors", "allkeys", "allchannels", "allcommands", "sanitize-payload"],
    &["reset", "#ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "on"],
    &["<abc", ">abc", ">def", "nocommands"],
    &["resetkeys", "~a", "~a", "resetchannels", "&c", "&c"],
    // Refused: nothing changes.
    &["off", "~*", "~x"],
    &["allchannels", "&x"],
    &["resetkeys", "%~x"],
    &["%RR~x"],
    &["%X~x"],
    &["+nosuch"],
    &["-nosuch"],
    &["+@nosuch"],
    &["+config|nosuch"],
    &["+get|"],
    &["+config|get|x"],
    &["<nosuch"],
    &["#123"],
    &["what"],
    &["(~x"],
    &["(what)"],
    &["(+nosuch)"],
];

const ASKED: &[&[&str]] = &[
    &["ACL", "GETUSER", "u"],
    &["ACL", "LIST"],
    &["ACL", "USERS"],
    &["ACL", "DRYRUN", "u", "get", "cart:1"],
    &["ACL", "DRYRUN", "u", "get", "other"],
    &["ACL", "DRYRUN", "u", "set", "stock:1", "x"],
    &["ACL", "DRYRUN", "u", "set", "a", "x", "GET"],
    &["ACL", "DRYRUN", "u", "mget", "cart:1", "stock:1", "a"],
    &["ACL", "DRYRUN", "u", "keys", "*"],
    &["ACL", "DRYRUN", "u", "config", "get", "x"],
    &["ACL", "DRYRUN", "u", "config", "set", "x", "y"],
    &["ACL", "DRYRUN", "u", "publish", "news:1", "x"],
    &["ACL", "DRYRUN", "u", "subscribe", "other"],
    &["ACL", "DRYRUN", "u", "hset", "a", "f", "v"],
    &["ACL", "DRYRUN", "u", "copy", "x", "y"],
    &["ACL", "DRYRUN", "u", "exists", "b"],
];

#[test]
fn rules_mean_what_they_mean_in_a_real_redis() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("skipped: redis-server is not installed");
        return;
    }
    let folder = tempdir().expect("a temporary folder");
    let redis = Redis::start(folder.path());
    let (node, [resp, _]) = alone(&folder.path().join("n1"), &[]);
    eventually(&resp, &["SET", "k", "v"]);
    raised(&resp);
    let [mut ours, mut theirs] = [&resp, &redis.resp].map(|resp| Client::connect(resp).expect("it listens"));
    for protocol in ["2", "3"] {
        for client in [&mut ours, &mut theirs] {
            must(client, &["HELLO", protocol]);
            must(client, &["ACL", "DELUSER", "u"]);
        }
        for rules in RULES {
            let words = [&["ACL", "SETUSER", "u"], *rules].concat();
            let [found, expected] = [&mut ours, &mut theirs].map(|client| client.call(&words).expect("a reply"));
            let shows_password = rules.iter().any(|rule| rule.starts_with('<')) && expected.as_error().is_some();
            // A password that is wrong is told to nobody, so only what is said of it is the same.
            let shown = |value: &Value| match value.as_error() {
                Some(error) if shows_password => error.rsplit(": ").next().unwrap_or_default().to_owned(),
                _ => format!("{value:?}"),
            };
            assert_eq!(shown(&found), shown(&expected), "{rules:?}");
            for asked in ASKED {
                let told = |client: &mut Client| comparable(client.call(asked).expect("a reply"));
                let [found, expected] = [&mut ours, &mut theirs].map(told);
                assert_eq!(found, expected, "{asked:?} after {rules:?}");
            }
        }
    }
    for words in [
        &["ACL", "SETUSER", "a b", "on"][..],
        &["ACL", "DELUSER", "default"],
        &["ACL", "DELUSER", "nosuch", "u"],
        &["ACL", "GETUSER", "nosuch"],
        &["ACL", "DRYRUN", "nosuch", "get", "k"],
        &["ACL", "DRYRUN", "default", "nosuch"],
        &["ACL", "DRYRUN", "default", "get"],
        &["ACL", "GENPASS", "0"],
        &["ACL", "GENPASS", "5000"],
        &["ACL", "GENPASS", "x"],
        &["ACL", "LOG", "x"],
        &["AUTH", "nosuch", "x"],
        &["AUTH", "x"],
    ] {
        let [found, expected] = [&mut ours, &mut theirs].map(|client| client.call(words).expect("a reply"));
        assert_eq!(found, expected, "{words:?}");
    }
    assert!(node.stop(), "it ends well");
}

/// Drawn rules. None names what a Redis 7.0 does not have, or what needs a whole right here by design (docs/security.md).
const DRAWN_RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">a",
    ">b",
    "<a",
    "<b",
    "reset",
    "resetkeys",
    "resetchannels",
    "nocommands",
    "allcommands",
    "allkeys",
    "allchannels",
    "clearselectors",
    "skip-sanitize-payload",
    "sanitize-payload",
    "~*",
    "~a*",
    "~b?",
    "~[ab]:*",
    "~a:1",
    "%R~a*",
    "%W~a*",
    "%RW~b*",
    "%W~*",
    "%R~*",
    "%~a",
    "%Q~a",
    "&*",
    "&n*",
    "&news",
    "&[n]x",
    "+@all",
    "-@all",
    "+@read",
    "-@read",
    "+@write",
    "-@write",
    "+@string",
    "-@string",
    "+@hash",
    "+@list",
    "-@list",
    "+@set",
    "+@sortedset",
    "+@stream",
    "+@keyspace",
    "-@keyspace",
    "+@fast",
    "-@fast",
    "+@slow",
    "-@slow",
    "+@pubsub",
    "-@pubsub",
    "+@connection",
    "+@dangerous",
    "-@dangerous",
    "+@admin",
    "-@admin",
    "+@transaction",
    "+@bitmap",
    "+@geo",
    "+@hyperloglog",
    "+@blocking",
    "-@blocking",
    "+@nosuch",
    "-@nosuch",
    "+get",
    "-get",
    "+GET",
    "+set",
    "-set",
    "+mget",
    "+config",
    "-config",
    "+config|get",
    "-config|get",
    "+config|set",
    "-config|set",
    "+client|id",
    "+client",
    "-client|id",
    "+object|encoding",
    "+del",
    "-del",
    "+nosuch",
    "-nosuch",
    "+get|x",
    "-get|x",
    "+select|0",
    "+hset",
    "-hset",
    "+publish",
    "+subscribe",
    "+psubscribe",
    "-publish",
    "+ping",
    "-ping",
    "+exists",
    "+rename",
    "+lmove",
    "+zunionstore",
    "what",
    "",
    "(~a* +get)",
    "(+@all ~b*)",
    "(%R~a* +@read -mget)",
    "(&n* +publish)",
    "(+config|get)",
    "(~a",
    "(what)",
    "()",
];

/// Commands that are asked for.
const DRAWN_COMMANDS: &[&[&str]] = &[
    &["get", "a:1"],
    &["get", "b1"],
    &["get", "c"],
    &["set", "a:1", "v"],
    &["set", "b1", "v", "GET"],
    &["set", "c", "v", "EX", "9"],
    &["mget", "a:1", "b1"],
    &["mset", "a:1", "v", "b1", "v"],
    &["del", "a:1", "c"],
    &["exists", "b1"],
    &["unlink", "a:1"],
    &["type", "c"],
    &["expire", "a:1", "9"],
    &["ttl", "b1"],
    &["rename", "a:1", "b1"],
    &["copy", "a:1", "b1"],
    &["append", "a:1", "x"],
    &["incr", "b1"],
    &["getdel", "a:1"],
    &["getex", "a:1"],
    &["setrange", "a:1", "0", "x"],
    &["strlen", "a:1"],
    &["hset", "a:1", "f", "v"],
    &["hget", "a:1", "f"],
    &["hgetall", "b1"],
    &["hdel", "a:1", "f"],
    &["lpush", "a:1", "v"],
    &["lpop", "b1"],
    &["lmove", "a:1", "b1", "LEFT", "LEFT"],
    &["lrange", "c", "0", "-1"],
    &["blpop", "a:1", "b1", "0"],
    &["sadd", "a:1", "m"],
    &["smembers", "b1"],
    &["sinterstore", "a:1", "b1", "c"],
    &["zadd", "a:1", "1", "m"],
    &["zrange", "b1", "0", "-1"],
    &["zunionstore", "a:1", "2", "b1", "c"],
    &["xadd", "a:1", "*", "f", "v"],
    &["xread", "STREAMS", "a:1", "0"],
    &["setbit", "a:1", "1", "1"],
    &["bitcount", "b1"],
    &["bitop", "AND", "a:1", "b1", "c"],
    &["geoadd", "a:1", "1", "1", "m"],
    &["pfadd", "a:1", "x"],
    &["pfcount", "b1"],
    &["keys", "*"],
    &["scan", "0"],
    &["randomkey"],
    &["dbsize"],
    &["object", "encoding", "a:1"],
    &["config", "get", "x"],
    &["config", "set", "x", "y"],
    &["config", "nosuch"],
    &["client", "id"],
    &["client", "list"],
    &["ping"],
    &["echo", "x"],
    &["select", "0"],
    &["select", "1"],
    &["info"],
    &["publish", "news", "x"],
    &["publish", "other", "x"],
    &["subscribe", "news"],
    &["subscribe", "news", "other"],
    &["psubscribe", "n*"],
    &["psubscribe", "n?"],
    &["spublish", "news", "x"],
    &["flushdb"],
    &["multi"],
    &["exec"],
    &["watch", "a:1"],
    &["get"],
    &["nosuch", "a:1"],
    &["time"],
    &["lastsave"],
    &["role"],
];

/// How many sequences of rules are drawn; `DICTUM_ACL_SEQUENCES` says another number.
const SEQUENCES: u64 = 300;

#[test]
fn drawn_rules_mean_what_they_mean_in_a_real_redis() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("skipped: redis-server is not installed");
        return;
    }
    let folder = tempdir().expect("a temporary folder");
    let redis = Redis::start(folder.path());
    let (node, [resp, _]) = alone(&folder.path().join("n1"), &[]);
    eventually(&resp, &["SET", "k", "v"]);
    raised(&resp);
    let mut both = [&resp, &redis.resp].map(|resp| Client::connect(resp).expect("it listens"));
    let sequences = std::env::var("DICTUM_ACL_SEQUENCES").ok().and_then(|text| text.parse().ok()).unwrap_or(SEQUENCES);
    let mut differences = Vec::new();
    for seed in 0..sequences {
        let mut rng = base::Rng::new(seed);
        for client in &mut both {
            must(client, &["ACL", "DELUSER", "u"]);
            must(client, &["ACL", "SETUSER", "u"]);
        }
        let mut said = Vec::new();
        for _ in 0..rng.between(1, 6) {
            let rules: Vec<&str> = (0..rng.between(1, 4)).map(|_| *rng.pick(DRAWN_RULES)).collect();
            let words = [&["ACL", "SETUSER", "u"], &rules[..]].concat();
            let [found, expected] = both.each_mut().map(|client| client.call(&words).expect("a reply"));
            // A password that is wrong is told to nobody. And of several wrong rules a node may name another one: it looks at each rule by itself first, before an order is
            // proposed, and then at what the user has.
            let is_told = rules.len() == 1 && !rules[0].starts_with('%');
            let last = |value: &Value| {
                let error = value.as_error()?;
                Some(if is_told { error.rsplit(": ").next().unwrap_or_default().to_owned() } else { String::new() })
            };
            said.push(rules);
            if last(&found) != last(&expected) {
                differences.push(format!("seed {seed}, {said:?}: {found:?}, and not {expected:?}"));
            }
        }
        for _ in 0..12 {
            let asked = [&["ACL", "DRYRUN", "u"], *rng.pick(DRAWN_COMMANDS)].concat();
            let [found, expected] = both.each_mut().map(|client| client.call(&asked).expect("a reply"));
            if comparable(found.clone()) != comparable(expected.clone()) {
                differences.push(format!("seed {seed}, {asked:?} after {said:?}: {found:?}, and not {expected:?}"));
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences[..differences.len().min(20)].join("\n")
    );
    assert!(node.stop(), "it ends well");
}

#[test]
fn users_hold_at_all_nodes_and_survive_all_of_them() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let resps: Vec<String> = dev.nodes.iter().map(|node| node.resp.clone()).collect();
    raised(&resps[0]);
    let set = |rules: &[&str], at: usize| {
        assert_eq!(eventually(&resps[at], &[&["ACL", "SETUSER", "ann"], rules].concat()), Value::ok());
    };
    set(&["on", ">secret", "~cart:*", "&cart", "+@all", "-@admin"], 0);
    // At once, at another node.
    let mut ann = wait_for("ann", || {
        let mut client = Client::connect(&resps[1]).ok()?;
        client.call(&["AUTH", "ann", "secret"]).ok().filter(|reply| *reply == Value::ok()).map(|_| client)
    });
    assert_eq!(ann.call(&["ACL", "WHOAMI"]).expect("a reply"), Value::bulk("ann"));
    must(&mut ann, &["SET", "cart:1", "v"]);
    let error = |client: &mut Client, words: &[&str]| {
        let reply = client.call(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        reply.as_error().unwrap_or_else(|| panic!("{words:?}: {reply:?}")).to_owned()
    };
    assert_eq!(error(&mut ann, &["SET", "other", "v"]), "NOPERM No permissions to access a key");
    assert_eq!(error(&mut ann, &["PUBLISH", "other", "v"]), "NOPERM No permissions to access a channel");
    assert_eq!(
        error(&mut ann, &["CONFIG", "GET", "*"]),
        "NOPERM User ann has no permissions to run the 'config|get' command"
    );
    assert!(error(&mut ann, &["EVAL", "return 1", "0"]).starts_with("NOPERM this form of 'eval'"));
    // A command that was queued before a right was taken is not carried out.
    must(&mut ann, &["MULTI"]);
    must(&mut ann, &["SET", "cart:1", "queued"]);
    set(&["resetkeys", "~basket:*"], 2);
    wait_for("the new rules", || {
        let users = eventually(&resps[1], &["ACL", "LIST"]);
        text(&users).contains("basket").then_some(())
    });
    assert!(error(&mut ann, &["EXEC"]).starts_with("NOPERM ACLs rules changed between"));
    assert_eq!(eventually(&resps[0], &["GET", "cart:1"]), Value::bulk("v"));
    // The log is of the node that refused.
    let log = text(&eventually(&resps[1], &["ACL", "LOG"]));
    for said in ["config|get", "other", "ann", "toplevel"] {
        assert!(log.contains(said), "{said}: {log}");
    }
    // A connection that listens to what it may not hear any more is closed, and so is one without a user.
    let mut listener = logged_in(&resps[1], "ann", "secret");
    must(&mut listener, &["SUBSCRIBE", "cart"]);
    set(&["resetchannels"], 0);
    assert!(listener.receive().is_err(), "it is closed");
    assert_eq!(eventually(&resps[2], &["ACL", "DELUSER", "ann"]), Value::Integer(1));
    assert!(wait_for("its end", || ann.call(&["PING"]).is_err().then_some(true)));
    let refused = Client::connect(&resps[1]).expect("it listens").call(&["AUTH", "ann", "secret"]).expect("a reply");
    assert!(refused.as_error().is_some_and(|text| text.starts_with("WRONGPASS")), "{refused:?}");

    // The users of a cluster are there after all of its nodes have ended.
    set(&["on", ">other", "~*", "+get"], 1);
    drop(dev);
    let dev = Dev::start(folder.path(), &[]);
    eventually(&dev.nodes[2].resp, &["GET", "cart:1"]);
    let mut ann = logged_in(&dev.nodes[2].resp, "ann", "other");
    assert_eq!(ann.call(&["GET", "cart:1"]).expect("a reply"), Value::bulk("v"));
}

fn http(address: &str, user: &str) -> u16 {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    let shown = if user.is_empty() { String::new() } else { format!("Authorization: Basic {user}\r\n") };
    let request =
        format!("GET /v1/buckets/default/keys/k HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{shown}\r\n");
    stream.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

/// Ways round the rules that a reviewer has found.
#[test]
fn nobody_gets_round_rules() {
    let folder = tempdir().expect("a temporary folder");
    let (node, [resp, _]) = alone(folder.path(), &["--password", "nodepassword"]);
    let mut admin = logged_in(&resp, "default", "nodepassword");
    wait_for("a leader", || admin.call(&["SET", "other", "v"]).ok().filter(|reply| *reply == Value::ok()));
    wait_for("the version", || admin.call(&["ACL", "DELUSER", "x"]).ok().filter(|it| *it == Value::Integer(0)));
    // A parenthesis in a pattern ended every node, or gave the user what stood behind it.
    must(&mut admin, &["ACL", "SETUSER", "y", "on", "nopass", "~only:*", "(+@all -get ~a))"]);
    must(&mut admin, &["ACL", "SETUSER", "z", "on", "nopass", "~*", "(~a) ~b +get)"]);
    let mut y = logged_in(&resp, "y", "");
    let reply = y.call(&["GET", "only:k"]).expect("a reply");
    assert!(reply.as_error().is_some_and(|text| text.starts_with("NOPERM")), "{reply:?}");
    let listed = text(&must(&mut admin, &["ACL", "GETUSER", "y"]));
    assert!(listed.contains("commands -@all keys ~only:*"), "{listed}");
    let limited =
        ["ACL", "SETUSER", "lim", "on", ">lim", "+@all", "-@admin", "-@dangerous", "~app:*", "bucket=default"];
    must(&mut admin, &limited);
    must(&mut admin, &["DICTUM.BUCKET", "CREATE", "shop"]);
    let mut lim = logged_in(&resp, "lim", "lim");
    must(&mut lim, &["MULTI"]);
    assert!(lim.call(&["AUTH", "lim@shop", "lim"]).expect("a reply").as_error().is_some());
    assert!(lim.call(&["EXEC"]).expect("a reply").as_error().is_some_and(|text| text.starts_with("EXECABORT")));
    for words in [
        &["FUNCTION", "LOAD", "REPLACE", "#!lua name=l"][..],
        &["DICTUM.OUTCOME", "job"],
        &["SELECT", "shop"],
        &["SELECT", "7"],
        &["MOVE", "app:k", "1"],
    ] {
        let reply = lim.call(words).expect("a reply");
        assert!(reply.as_error().is_some_and(|text| text.starts_with("NOPERM")), "{words:?}: {reply:?}");
    }
    // One who is logged in is no better guesser than others.
    let begun = std::time::Instant::now();
    for number in 0..7 {
        let reply = lim.call(&["AUTH", "default", &number.to_string()]).expect("a reply");
        assert!(reply.as_error().is_some_and(|text| text.starts_with("WRONGPASS")), "{reply:?}");
    }
    assert!(begun.elapsed() >= Duration::from_secs(1), "three a second");
    // A client's name is as long as it likes, and is not kept with each refusal.
    must(&mut lim, &["CLIENT", "SETNAME", &"x".repeat(100_000)]);
    assert!(lim.call(&["GET", "other"]).expect("a reply").as_error().is_some());
    let lines = text(&must(&mut admin, &["ACL", "LOG"]));
    assert!(lines.contains(&format!("name={} ", "x".repeat(256))) && !lines.contains(&"x".repeat(257)), "{lines}");
    // Tracking goes on without a further command, and ends with the rights.
    let mut tracking = logged_in(&resp, "lim", "lim");
    must(&mut tracking, &["HELLO", "3"]);
    must(&mut tracking, &["CLIENT", "TRACKING", "ON", "BCAST"]);
    must(&mut admin, &["ACL", "SETUSER", "lim", "-@all"]);
    wait_for("its end", || tracking.call(&["PING"]).is_err().then_some(()));
    // No password, and nothing that is made of one, comes into the log by a mistake in the rules.
    for rule in ["(>hunter2 +get ~a)", " >hunter2", "x>hunter2"] {
        let reply = admin.call(&["ACL", "SETUSER", "s", rule]).expect("a reply");
        assert!(reply.as_error().is_some_and(|text| !text.contains("hunter2")), "{reply:?}");
    }
    assert!(node.stop(), "it ends well");
    let holds = |text: &[u8]| {
        std::fs::read_dir(folder.path()).expect("a folder").filter_map(Result::ok).any(|entry| {
            std::fs::read(entry.path()).is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text))
        })
    };
    assert!(holds(b"app:*") && !holds(b"hunter2"), "rules are in the journal, and no password");
    // Nor is the digest of the node's own, as nobody has changed `default`.
    assert!(!holds(b"a79bebc138565bf828a9757317a763ec30372aa444630a950998f2ed83b5ec51"));
    assert!(
        holds(b"1e0afa83c8f066fd3f94ed5a3de611a5e2a00cffa764f92de70f4f8d9ef270e6"),
        "digests are found where there are some"
    );
    let (node, [resp, _]) = alone(folder.path(), &["--password", "nodepassword"]);
    let mut admin = wait_for("a start", || Some(logged_in(&resp, "default", "nodepassword")));
    wait_for("the users", || {
        let users = text(&admin.call(&["ACL", "USERS"]).ok()?);
        (users == "default lim y z").then_some(())
    });
    assert!(node.stop(), "it ends well");
}

/// `default` is who says no name, over HTTP as well; and no password is shown where passwords are.
#[test]
fn the_user_default_can_be_limited_or_closed() {
    let folder = tempdir().expect("a temporary folder");
    let (node, [resp, web]) = alone(&folder.path().join("n1"), &[]);
    eventually(&resp, &["SET", "k", "v"]);
    raised(&resp);
    let mut default = Client::connect(&resp).expect("it listens");
    must(&mut default, &["ACL", "SETUSER", "admin", "on", ">geheim", "~*", "&*", "+@all"]);
    must(&mut default, &["ACL", "SETUSER", "bob", "on", ">reads", "~*", "+get"]);
    must(&mut default, &["ACL", "SETUSER", "carol", "on", ">reads", "~*", "+dictum.get"]);
    assert_eq!(http(&web, ""), 200);
    must(&mut default, &["ACL", "SETUSER", "default", "-@all", "+get", "+ping", "resetkeys", "~p:*"]);
    wait_for("the rules", || {
        let reply = default.call(&["GET", "k"]).expect("a reply");
        reply.as_error().is_some_and(|text| text == "NOPERM No permissions to access a key").then_some(())
    });
    let (admin, bob, carol, wrong) = ("YWRtaW46Z2VoZWlt", "Ym9iOnJlYWRz", "Y2Fyb2w6cmVhZHM=", "YWRtaW46d3Jvbmc=");
    assert_eq!(wait_for("HTTP", || Some(http(&web, "")).filter(|status| *status == 403)), 403);
    assert_eq!(http(&web, admin), 200);
    assert_eq!(http(&web, bob), 403, "the route runs another command");
    assert_eq!(http(&web, carol), 200);
    assert_eq!(http(&web, wrong), 401);
    let mut admin = logged_in(&resp, "admin", "geheim");
    must(&mut admin, &["ACL", "SETUSER", "default", "off"]);
    let refused = wait_for("the rules", || {
        let mut client = Client::connect(&resp).expect("it listens");
        let reply = client.call(&["GET", "p:1"]).expect("a reply");
        reply.as_error().map(str::to_owned)
    });
    assert_eq!(refused, "NOAUTH Authentication required.");
    // A connection from before, which has shown no password, has to do so now.
    let reply = default.call(&["GET", "p:1"]).expect("a reply");
    assert_eq!(reply.as_error(), Some("NOAUTH Authentication required."));
    assert_eq!(http(&web, ""), 401);
    must(&mut admin, &["MULTI"]);
    let mut slow = logged_in(&resp, "admin", "geheim");
    must(&mut slow, &["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    must(&mut slow, &["ACL", "SETUSER", "carl", "on", ">hunter2"]);
    must(&mut slow, &["ACL", "DRYRUN", "carl", "set", "k", "hunter2"]);
    let told = text(&must(&mut slow, &["SLOWLOG", "GET", "100"]));
    assert!(told.to_lowercase().contains("dryrun") && !told.contains("hunter2"), "{told}");
    assert!(node.stop(), "it ends well");
}
