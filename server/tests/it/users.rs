//! Users and their rights: as in a Redis, and the same at all nodes.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of real processes use real files and the real clock"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use tempfile::tempdir;
use wire::Value;

use crate::common::process::Process;
use crate::common::{Client, Dev, eventually, free_ports, wait_for};
use crate::start::start_command;

pub fn alone(folder: &Path, more: &[&str]) -> (Process, [String; 2]) {
    wait_for("a node", || {
        let [resp, http, peer] = free_ports();
        let process = Process::start(start_command(folder, [resp, http, peer], more)).ok()?;
        Some((process, [format!("127.0.0.1:{resp}"), format!("127.0.0.1:{http}")]))
    })
}

pub fn must(client: &mut Client, words: &[&str]) -> Value {
    let reply = client.call(words).expect("a reply");
    assert!(reply.as_error().is_none(), "{words:?}: {reply:?}");
    reply
}

/// Users can be changed once the cluster has found that all of its nodes are of this version.
pub fn raised(resp: &str) {
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

/// What the scripts of a user call is judged where they run, whichever node that is; also those of a transaction, of a command that is done once, and of functions
/// that somebody else has left.
fn scripts_call_what_ann_may(ann: &mut Client, resps: &[String]) {
    const LIBRARY: &str = "#!lua name=lib\nredis.register_function('put', function(keys, args) return redis.call('SET', args[1], 'x') end)\n\
        redis.register_function{function_name='look', callback=function(keys, args) return redis.call('GET', args[1]) end, flags={'no-writes'}}";
    const PUT: &str = "return redis.call('SET', ARGV[1], 'x')";
    const LOOK: &str = "return redis.call('GET', ARGV[1])";
    assert!(eventually(&resps[0], &["FUNCTION", "LOAD", "REPLACE", LIBRARY]).as_error().is_none());
    assert_eq!(eventually(&resps[0], &["SET", "foreign", "secret"]), Value::ok());
    let digest = must(ann, &["SCRIPT", "LOAD", PUT]);
    let digest = text(&digest);
    for (words, works) in [
        (&["EVAL", PUT, "0"][..], true),
        (&["EVALSHA", &digest, "0"], true),
        (&["EVAL_RO", LOOK, "0"], true),
        (&["FCALL", "put", "0"], true),
        (&["FCALL_RO", "look", "0"], true),
        (&["DICTUM.ONCE", "id", "EVAL", PUT, "0"], true),
        // The key that it names is judged before it runs.
        (&["EVAL", "return 1", "1"], true),
    ] {
        let said = |client: &mut Client, key: &str| {
            let words: Vec<&str> =
                words.iter().map(|word| if *word == "id" { key } else { *word }).chain([key]).collect();
            client.call(&words).expect("a reply")
        };
        assert_eq!(said(ann, "cart:s").as_error().is_none(), works, "{words:?}");
        let refused = said(ann, "foreign");
        let why = refused.as_error().unwrap_or_else(|| panic!("{words:?}: {refused:?}"));
        let whole = "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: ";
        assert!(why.starts_with(whole) || words[2] == "1" && why == "NOPERM No permissions to access a key", "{why}");
    }
    must(ann, &["MULTI"]);
    must(ann, &["EVAL", PUT, "0", "cart:m"]);
    must(ann, &["EVAL", PUT, "0", "foreign"]);
    let Value::Array(replies) = must(ann, &["EXEC"]) else { panic!("replies") };
    assert!(replies[0].as_error().is_none() && replies[1].as_error().is_some(), "{replies:?}");
    assert_eq!(eventually(&resps[2], &["GET", "foreign"]), Value::bulk("secret"), "nothing was changed");
    // Who may do everything is not limited by what came before.
    assert_eq!(eventually(&resps[1], &["EVAL", PUT, "0", "foreign"]), Value::ok());
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
    scripts_call_what_ann_may(&mut ann, &resps);
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
