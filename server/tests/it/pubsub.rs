//! Publishing and listening on three real nodes.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::thread;

use crate::common::{Client, Dev, wait_for};
use rustix::process::Signal;
use wire::Value;

fn words(value: &Value) -> Vec<String> {
    let part = |part: &Value| match part {
        Value::Integer(number) => number.to_string(),
        other => String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned(),
    };
    value.as_array().expect("a message").iter().map(part).collect()
}

fn connect(dev: &Dev, name: &str) -> Client {
    Client::connect(&dev.node(name).resp).expect("it listens")
}

/// A figure of `INFO` of a node.
fn figure(dev: &Dev, name: &str, field: &str) -> u64 {
    let info = connect(dev, name).call(&["INFO"]).expect("an answer");
    let text = String::from_utf8_lossy(info.as_bytes().expect("text")).into_owned();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect("the field");
    value.parse().expect("a number")
}

/// Publishes until that many connections are said to hear it: a node hears of others' listeners a moment later.
fn publish_until(client: &mut Client, channel: &str, listeners: i64) {
    wait_for("listeners", || {
        let count = client.call(&["PUBLISH", channel, "ready"]).expect("an answer");
        (count == Value::Integer(listeners)).then_some(())
    });
}

#[test]
fn messages_of_all_nodes_are_heard_on_all_nodes_in_order() {
    const MESSAGES: usize = 2_000;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    wait_for("links", || dev.nodes.iter().all(|node| figure(&dev, &node.name, "dictum_nodes_up") == 3).then_some(()));
    let mut listeners: Vec<Client> = ["n1", "n2", "n3"]
        .into_iter()
        .map(|name| {
            let mut client = connect(&dev, name);
            assert_eq!(words(&client.call(&["SUBSCRIBE", "news"]).expect("a message")), ["subscribe", "news", "1"]);
            assert_eq!(words(&client.call(&["PSUBSCRIBE", "n?ws"]).expect("a message")), ["psubscribe", "n?ws", "2"]);
            client
        })
        .collect();
    let publishers: Vec<_> = ["n1", "n2", "n3"]
        .into_iter()
        .map(|name| {
            let mut client = connect(&dev, name);
            publish_until(&mut client, "news", 6);
            thread::spawn(move || {
                // Pipelined, so that turns have many messages.
                for number in 0..MESSAGES {
                    client.send(&["PUBLISH", "news", &format!("{name} {number}")]).expect("it is sent");
                }
                for _ in 0..MESSAGES {
                    assert_eq!(client.receive().expect("an answer"), Value::Integer(6));
                }
            })
        })
        .collect();
    for listener in &mut listeners {
        let mut next = [[0; 3]; 2];
        while next != [[MESSAGES; 3]; 2] {
            let message = words(&listener.receive().expect("a message"));
            let by_pattern = message[0] == "pmessage";
            let text = message.last().expect("a text");
            let Some((name, number)) = text.split_once(' ') else { continue };
            let place = ["n1", "n2", "n3"].iter().position(|it| *it == name).expect("a node");
            assert_eq!(number.parse(), Ok(next[usize::from(by_pattern)][place]), "{message:?}");
            next[usize::from(by_pattern)][place] += 1;
        }
    }
    for publisher in publishers {
        publisher.join().expect("it has its answers");
    }
    assert_eq!(figure(&dev, "n2", "pubsub_clients"), 1);
    assert_eq!(figure(&dev, "n2", "pubsub_patterns"), 1);
    let metrics = crate::common::http::ask(&dev.node("n2").http, "GET /metrics", &[], b"").expect("an answer");
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(metrics.contains("dictum_pubsub_channels 1"), "{metrics}");
    // A node that is gone has no listeners any more.
    let third = dev.node("n3");
    crate::common::signal(third.pid, Signal::KILL);
    let mut client = connect(&dev, "n1");
    publish_until(&mut client, "news", 4);
}

#[test]
fn who_does_not_read_is_cut_off_and_holds_up_nobody() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let mut setter = connect(&dev, "n2");
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "pubsub 4mb 1mb 60"];
    assert_eq!(setter.call(&limit).expect("an answer"), Value::ok());
    let mut slow = connect(&dev, "n2");
    slow.call(&["SUBSCRIBE", "news"]).expect("a message");
    let mut publisher = connect(&dev, "n1");
    publish_until(&mut publisher, "news", 1);
    // It never reads; what it is sent is more than sockets and the limit take.
    let text = "x".repeat(1 << 20);
    wait_for("the end of the slow one", || {
        let count = publisher.call(&["PUBLISH", "news", &text]).expect("an answer");
        (count == Value::Integer(0)).then_some(())
    });
    assert_eq!(figure(&dev, "n2", "pubsub_clients"), 0);
    // It has what fitted, and then the end of its connection.
    let mut heard = 0;
    while let Ok(message) = slow.receive() {
        assert_eq!(words(&message)[1], "news");
        heard += 1;
    }
    assert!(heard > 0);
}

#[test]
fn changes_of_all_nodes_are_told_and_invalidate_everywhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let leader = dev.leader().name;
    let names: Vec<&str> = ["n1", "n2", "n3"].into_iter().filter(|name| *name != leader).collect();
    let (near, far) = (names[0], names[1]);

    // Keyspace notifications at one node of what was asked for at another.
    let mut listener = connect(&dev, near);
    assert_eq!(listener.call(&["CONFIG", "SET", "notify-keyspace-events", "EA"]).expect("an answer"), Value::ok());
    listener.call(&["PSUBSCRIBE", "__keyevent@0__:*"]).expect("a message");
    let mut writer = connect(&dev, far);
    assert_eq!(writer.call(&["SET", "short", "1", "PX", "100"]).expect("an answer"), Value::ok());
    for event in ["set", "expire", "expired"] {
        // `dictum dev` has a key of its own.
        let message = wait_for("an event", || {
            let message = words(&listener.receive().expect("a message"));
            (message[3] == "short").then_some(message)
        });
        assert_eq!(message[2], format!("__keyevent@0__:{event}"));
    }

    // Whoever has read a key at one node is told when it is changed at another.
    let mut reader = connect(&dev, near);
    reader.call(&["HELLO", "3"]).expect("a greeting");
    assert_eq!(reader.call(&["CLIENT", "TRACKING", "ON"]).expect("an answer"), Value::ok());
    let invalid = |keys: Value| Value::Push(vec![Value::bulk("invalidate"), keys]);
    for round in 0..200 {
        let value = round.to_string();
        let before = reader.call(&["GET", "key"]).expect("an answer");
        assert_eq!(before.is_null(), round == 0);
        assert_eq!(writer.call(&["SET", "key", &value]).expect("an answer"), Value::ok());
        assert_eq!(reader.receive().expect("a message"), invalid(Value::Array(vec![Value::bulk("key")])));
        assert_eq!(reader.call(&["GET", "key"]).expect("an answer"), Value::bulk(&value));
        assert_eq!(writer.call(&["DEL", "key"]).expect("an answer"), Value::Integer(1));
        assert_eq!(reader.receive().expect("a message"), invalid(Value::Array(vec![Value::bulk("key")])));
        assert_eq!(writer.call(&["SET", "key", &value]).expect("an answer"), Value::ok());
    }
    // A node that hears of no leader cannot know what has changed.
    reader.call(&["GET", "key"]).expect("an answer");
    // Both others: a node that is busy may hear of the next leader together with the death of the last one.
    for node in [leader.as_str(), far] {
        crate::common::signal(dev.node(node).pid, Signal::KILL);
    }
    assert_eq!(reader.receive().expect("a message"), invalid(Value::Null));
}
