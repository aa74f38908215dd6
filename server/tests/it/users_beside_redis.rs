//! Users and their rights beside a real Redis: the same rules are given to both, and the same is asked of both.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of real processes use real files and the real clock"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::{TempDir, tempdir};
use wire::Value;

use crate::common::process::Process;
use crate::common::{Client, eventually, free_ports, wait_for};
use crate::users::{alone, must, raised};

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

/// A node of ours and a Redis, and a client of each.
struct Pair {
    clients: [Client; 2],
    node: Process,
    resp: String,
    redis: Redis,
    _folder: TempDir,
}

impl Pair {
    /// None where no redis-server is installed.
    fn start() -> Option<Pair> {
        if Command::new("redis-server").arg("--version").output().is_err() {
            eprintln!("skipped: redis-server is not installed");
            return None;
        }
        let folder = tempdir().expect("a temporary folder");
        let redis = Redis::start(folder.path());
        let (node, [resp, _]) = alone(&folder.path().join("n1"), &[]);
        eventually(&resp, &["SET", "k", "v"]);
        raised(&resp);
        let clients = [&resp, &redis.resp].map(|resp| Client::connect(resp).expect("it listens"));
        Some(Pair { clients, node, resp, redis, _folder: folder })
    }

    /// Another client of each, who is `default`.
    fn clients_anew(&self) -> [Client; 2] {
        [&self.resp, &self.redis.resp].map(|resp| Client::connect(resp).expect("it listens"))
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
    let Some(mut pair) = Pair::start() else { return };
    let [ours, theirs] = &mut pair.clients;
    for protocol in ["2", "3"] {
        for client in [&mut *ours, &mut *theirs] {
            must(client, &["HELLO", protocol]);
            must(client, &["ACL", "DELUSER", "u"]);
        }
        for rules in RULES {
            let words = [&["ACL", "SETUSER", "u"], *rules].concat();
            let [found, expected] = [&mut *ours, &mut *theirs].map(|client| client.call(&words).expect("a reply"));
            let shows_password = rules.iter().any(|rule| rule.starts_with('<')) && expected.as_error().is_some();
            // A password that is wrong is told to nobody, so only what is said of it is the same.
            let shown = |value: &Value| match value.as_error() {
                Some(error) if shows_password => error.rsplit(": ").next().unwrap_or_default().to_owned(),
                _ => format!("{value:?}"),
            };
            assert_eq!(shown(&found), shown(&expected), "{rules:?}");
            for asked in ASKED {
                let told = |client: &mut Client| comparable(client.call(asked).expect("a reply"));
                let [found, expected] = [&mut *ours, &mut *theirs].map(told);
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
        let [found, expected] = [&mut *ours, &mut *theirs].map(|client| client.call(words).expect("a reply"));
        assert_eq!(found, expected, "{words:?}");
    }
    assert!(pair.node.stop(), "it ends well");
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
    let Some(mut pair) = Pair::start() else { return };
    let both = &mut pair.clients;
    let sequences = std::env::var("DICTUM_ACL_SEQUENCES").ok().and_then(|text| text.parse().ok()).unwrap_or(SEQUENCES);
    let mut differences = Vec::new();
    for seed in 0..sequences {
        let mut rng = base::Rng::new(seed);
        for client in &mut *both {
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
    assert!(pair.node.stop(), "it ends well");
}

/// Rules, and what scripts call.
const SCRIPT_RULES: &[&[&str]] = &[
    &["reset", "on", "nopass", "~a*", "%R~r*", "&c*", "+@all", "-set", "-object", "+object|freq"],
    &["-ping", "-publish", "+set"],
    &["resetkeys", "%W~a*"],
    &["allkeys", "-@all", "+eval", "+@read", "+echo"],
    &["(+set +eval ~b)", "resetkeys", "~a*"],
    &["reset", "on", "nopass", "+eval", "+@string", "~a", "%R~b", "%W~c"],
    &["-@write", "+config|get", "+select|0"],
];

const CALLED: &[&str] = &[
    "'set','a','b'",
    "'get','a'",
    "'get','b'",
    "'set','b','x'",
    "'append','b','x'",
    "'incr','r1'",
    "'get','r1'",
    "'mget','a','b'",
    "'del','c'",
    "'getset','c','x'",
    "'set','c','x','get'",
    "'hset','ah','f','v'",
    "'lpush','al','v'",
    "'publish','c','x'",
    "'publish','d','x'",
    "'object','encoding','a'",
    "'object','freq','r'",
    "'sort','al','by','w*'",
    "'sort','al','get','w*'",
    "'sort','al','limit','0','1'",
    "'ping'",
    "'echo','x'",
    "'select','0'",
    "'nosuch','a'",
    "'get'",
    "'exists','b'",
    "'keys','*'",
    "'rename','a','b'",
];

/// The newest line of `ACL LOG`, without its numbers, its times and its client's line; then the log is empty.
fn last_refusal(client: &mut Client) -> Vec<(Value, Value)> {
    let lines = client.call(&["ACL", "LOG"]).expect("a reply");
    must(client, &["ACL", "LOG", "RESET"]);
    let Value::Array(lines) = lines else { panic!("no log: {lines:?}") };
    let Some(line) = lines.into_iter().next() else { return Vec::new() };
    let Value::Array(fields) = line else { panic!("no line: {line:?}") };
    let is_compared =
        |name: &Value| ["count", "reason", "context", "object", "username"].iter().any(|it| *name == Value::bulk(*it));
    let pairs = fields.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    pairs.filter(|(name, _)| is_compared(name)).collect()
}

#[test]
fn scripts_call_what_their_users_may_in_a_real_redis() {
    let Some(mut pair) = Pair::start() else { return };
    let mut judges = pair.clients_anew();
    let both = &mut pair.clients;
    let (mut refused, mut logged) = (0, 0);
    let mut differences = Vec::new();
    for rules in SCRIPT_RULES {
        for client in &mut *both {
            must(client, &[&["ACL", "SETUSER", "u"], *rules].concat());
            must(client, &["AUTH", "u", "x"]);
        }
        for called in CALLED {
            let script = format!("return redis.acl_check_cmd({called}) and 1 or 0");
            let [found, expected] =
                both.each_mut().map(|client| client.call(&["EVAL", &script, "0"]).expect("a reply"));
            // Of SORT with BY or GET, Redis looks at what is fetched later.
            if found != expected && !called.contains("sort") {
                differences.push(format!("{script} after {rules:?}: {found:?}, and not {expected:?}"));
            }
            for (eval, how) in [("EVAL", "call"), ("EVAL", "pcall"), ("EVAL_RO", "call")] {
                let script = format!("return redis.{how}({called})");
                let [found, expected] =
                    both.each_mut().map(|client| client.call(&[eval, &script, "0"]).expect("a reply"));
                let is_no_write =
                    |value: &Value| value.as_error().is_some_and(|text| text.contains("read-only scripts"));
                if is_no_write(&found) {
                    // Redis judges what a user may before that; both refuse it.
                    assert!(expected.as_error().is_some(), "{eval} {script} after {rules:?}: {expected:?}");
                    for judge in &mut judges {
                        last_refusal(judge);
                    }
                    continue;
                }
                // What a command itself says is compared elsewhere.
                let of_user = |value: &Value| {
                    value
                        .as_error()
                        .filter(|text| text.contains("executing the script") || text.contains("of SORT denied"))
                        .map(str::to_owned)
                };
                refused += usize::from(of_user(&expected).is_some());
                if of_user(&found) != of_user(&expected) {
                    differences.push(format!("{eval} {script} after {rules:?}: {found:?}, and not {expected:?}"));
                }
                let [found, expected] = judges.each_mut().map(last_refusal);
                logged += usize::from(!expected.is_empty());
                if found != expected {
                    differences.push(format!(
                        "ACL LOG behind {eval} {script} after {rules:?}: {found:?}, and not {expected:?}"
                    ));
                }
            }
        }
        for client in &mut *both {
            must(client, &["RESET"]);
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    assert!(refused > 50, "only {refused} calls were refused");
    assert!(logged > 50, "only {logged} refusals were logged");
    assert!(pair.node.stop(), "it ends well");
}
