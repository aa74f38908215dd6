//! Long fields and members on a real node, whose state is in the store: found again after a kill, sound for `dictum check`, and gone when they are removed.

use tempfile::tempdir;
use wire::Value;

use crate::check::{check, start};
use crate::common::{Client, eventually, wait_until_nothing_is_flushed};

const SETTINGS: [&str; 6] = ["--state", "store", "--log-bytes-per-snapshot", "2MiB", "--log-entries-kept", "5"];

/// Names of which most begin alike: 40 KB, a megabyte, and one and a half. (A walk over longer ones takes minutes: docs/traps.md, "Two names of five megabytes".)
fn names() -> Vec<String> {
    let lengths = [40_000, 40_000, 40_000, 1_000_000, 1_000_000, 1_500_000, 1_500_000];
    let mut names: Vec<String> =
        lengths.iter().zip('a'..).map(|(length, end)| "n".repeat(*length) + &end.to_string()).collect();
    names.extend(["short".to_owned(), "n".repeat(32_768), "n".repeat(40_000), "n".repeat(1_000_000)]);
    names
}

fn call(client: &mut Client, words: &[&str]) -> Value {
    let reply = client.call(words).expect("a reply");
    assert_eq!(reply.as_error(), None, "{}", words[0]);
    reply
}

fn look(resp: &str, names: &[String]) {
    eventually(resp, &["PING"]);
    let mut client = Client::connect(resp).expect("it listens");
    let mut ranked: Vec<&String> = names.iter().collect();
    ranked.sort();
    for (rank, name) in ranked.iter().enumerate() {
        let value = name.len().to_string();
        assert_eq!(call(&mut client, &["HGET", "h", name]), Value::Bulk(value.into()));
        assert_eq!(call(&mut client, &["SISMEMBER", "s", name]), Value::Integer(1));
        assert_eq!(call(&mut client, &["ZRANK", "z", name]), Value::Integer(rank as i64), "{} bytes", name.len());
    }
    for absent in ["n".repeat(40_001), "n".repeat(999_999), "m".repeat(40_000)] {
        assert_eq!(call(&mut client, &["HEXISTS", "h", &absent]), Value::Integer(0));
        assert_eq!(call(&mut client, &["SISMEMBER", "s", &absent]), Value::Integer(0));
    }
    for command in [["HLEN", "h"], ["SCARD", "s"], ["ZCARD", "z"]] {
        assert_eq!(call(&mut client, &command), Value::Integer(names.len() as i64));
    }
}

#[test]
fn long_names_outlive_a_kill_and_leave_nothing_behind() {
    let folder = tempdir().expect("a temporary folder");
    let names = names();
    let (process, resp) = start(folder.path(), &SETTINGS);
    eventually(&resp, &["SET", "k", "v"]);
    // Until the cluster has the version.
    eventually(&resp, &["SADD", "s", &names[0]]);
    eventually(&resp, &["SREM", "s", &names[0]]);
    let mut client = Client::connect(&resp).expect("it listens");
    for name in &names {
        call(&mut client, &["HSET", "h", name, &name.len().to_string()]);
        call(&mut client, &["SADD", "s", name]);
        call(&mut client, &["ZADD", "z", "1", name]);
    }
    wait_until_nothing_is_flushed(&resp);
    look(&resp, &names);
    process.kill();
    check(folder.path()).is_sound();

    let (process, resp) = start(folder.path(), &SETTINGS);
    look(&resp, &names);
    let mut client = Client::connect(&resp).expect("it listens");
    let too_long = "n".repeat(16 * 1024 * 1024 + 1);
    // As for a value: the parser refuses it, and says so.
    let refused = client.call(&["SADD", "s", &too_long]);
    assert!(refused.is_err() || refused.is_ok_and(|reply| reply.as_error().is_some()));
    let mut client = Client::connect(&resp).expect("it listens");
    let (gone, kept) = names.split_at(names.len() / 2);
    for name in gone {
        for words in [["HDEL", "h", name], ["SREM", "s", name], ["ZREM", "z", name]] {
            assert_eq!(call(&mut client, &words), Value::Integer(1));
        }
    }
    wait_until_nothing_is_flushed(&resp);
    look(&resp, kept);
    assert!(process.stop(), "it ends well");
    check(folder.path()).is_sound();

    let (process, resp) = start(folder.path(), &SETTINGS);
    look(&resp, kept);
    let mut client = Client::connect(&resp).expect("it listens");
    call(&mut client, &["DEL", "h", "s", "z"]);
    assert_eq!(call(&mut client, &["DBSIZE"]), Value::Integer(1));
    wait_until_nothing_is_flushed(&resp);
    assert!(process.stop(), "it ends well");
    check(folder.path()).is_sound();
}
