//! Subscriptions to changes on three real nodes that are killed one after the other.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::common::counting::write_numbers;
use crate::common::{Client, Dev, signal, start_alone, wait_for, wait_for_end};
use rustix::process::Signal;
use wire::Value;

/// A subscriber to all changes of the default bucket, which has one partition: the revision that each change must have is the one behind the last.
struct Subscriber<'a> {
    nodes: Vec<&'a str>,
    next: usize,
    /// What tokens begin with, and where it is; none before the first answer.
    place: Option<(String, u64)>,
    resumed: usize,
}

impl Subscriber<'_> {
    /// Hears from one node until that is gone. `heard` is told each value of the key.
    fn hear(&mut self, mut heard: impl FnMut(&[u8]) -> bool) -> std::io::Result<bool> {
        let mut client = Client::connect(self.nodes[self.next % self.nodes.len()])?;
        self.next += 1;
        client.call(&["HELLO", "3"])?;
        let from = self.place.as_ref().map_or_else(|| "NOW".to_owned(), |(history, at)| format!("{history}:{at}"));
        let answer = client.call(&["DICTUM.SUBSCRIBE", "FROM", &from, "ALL"])?;
        let Value::Array(parts) = answer else {
            // It has just been started, or there is no leader.
            return Ok(false);
        };
        let token = String::from_utf8(parts[1].as_bytes().expect("a token").to_vec()).expect("text");
        let (history, at) = token.split_once(':').expect("a token");
        let at: u64 = at.parse().expect("one partition");
        match &self.place {
            Some(before) => assert_eq!((history, at), (before.0.as_str(), before.1), "it goes on where it was"),
            None => self.place = Some((history.to_owned(), at)),
        }
        self.resumed += 1;
        loop {
            let Value::Push(message) = client.receive()? else { panic!("it has asked for nothing else") };
            let place = self.place.as_mut().expect("it has a token");
            match message[0].as_bytes() {
                Some(b"dictum.change") => {
                    let (Value::Array(numbers), Value::Array(change)) = (&message[2], &message[3]) else { panic!() };
                    assert_eq!(numbers[..2], [Value::Integer(0), Value::Integer(place.1 as i64 + 1)], "{message:?}");
                    place.1 += 1;
                    if change[2].as_bytes() == Some(b"number") && heard(change[3].as_bytes().expect("a value")) {
                        return Ok(true);
                    }
                }
                Some(b"dictum.live" | b"dictum.progress") => {
                    let token = format!("{}:{}", place.0, place.1);
                    assert_eq!(message[2].as_bytes(), Some(token.as_bytes()));
                }
                _ => panic!("{message:?}"),
            }
        }
    }
}

#[test]
fn no_change_is_missed_while_each_node_is_killed_in_turn() {
    const LAST: u64 = 1_000_000;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let nodes: Vec<&str> = dev.nodes.iter().map(|node| node.resp.as_str()).collect();
    wait_for("subscriptions", || {
        let mut client = Client::connect(nodes[0]).ok()?;
        client.call(&["DICTUM.SUBSCRIBE", "KEY", "none"]).ok()?.as_array().map(drop)
    });
    let (stops, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut subscriber = Subscriber { nodes: nodes.clone(), next: 0, place: None, resumed: 0 };
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let number = write_numbers(&nodes, &stops, &written);
            // The last one is said until it is done.
            wait_for("the last write", || {
                let said = |address: &&str| {
                    let mut client = Client::connect(address).ok()?;
                    client.call(&["SET", "number", &LAST.to_string()]).ok().filter(|answer| *answer == Value::ok())
                };
                nodes.iter().find_map(said)
            });
            number
        });
        let heard = scope.spawn(|| {
            let (mut first, mut before, mut values) = (None, 0, 0);
            let mut is_last = |value: &[u8]| {
                let value: u64 = std::str::from_utf8(value).expect("text").parse().expect("a number");
                // A write whose outcome was unknown is said again.
                let is_next = value == before || value == before + 1 || value == LAST;
                assert!(first.is_none() || is_next, "{value} behind {before}");
                first.get_or_insert(value);
                (before, values) = (value, values + 1);
                value == LAST
            };
            wait_for("the last change", || subscriber.hear(&mut is_last).ok().filter(|it| *it));
            (first.expect("it has heard something"), values, subscriber.resumed)
        });
        let mut started = Vec::new();
        for node in &dev.nodes {
            let at = written.load(Ordering::Relaxed);
            wait_for("writes", || (written.load(Ordering::Relaxed) > at + 300).then_some(()));
            // Those that dev has started are its children, the others ours.
            signal(node.pid, Signal::KILL);
            wait_for("its end", || wait_for_end(node.pid).then_some(()));
            let at = written.load(Ordering::Relaxed);
            wait_for("writes without it", || (written.load(Ordering::Relaxed) > at + 300).then_some(()));
            started.push(start_alone(node));
        }
        let at = written.load(Ordering::Relaxed);
        wait_for("writes with all", || (written.load(Ordering::Relaxed) > at + 300).then_some(()));
        stops.store(true, Ordering::Relaxed);
        let written = writer.join().expect("it has written");
        let (first, values, resumed) = heard.join().expect("it has heard all");
        assert!(values + first > written && resumed >= 2, "{values} from {first} to {written}, {resumed} connections");
        drop(started);
    });
}

#[test]
fn who_reads_nothing_costs_the_others_nothing_and_is_told_a_gap() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let address = dev.nodes[0].resp.as_str();
    let mut slow = Client::connect(address).expect("it listens");
    wait_for("subscriptions", || {
        slow.call(&["HELLO", "3"]).ok()?;
        slow.call(&["DICTUM.SUBSCRIBE", "PREFIX", "k"]).ok()?.as_array().map(drop)
    });
    let mut writer = Client::connect(address).expect("it listens");
    let kept = |writer: &mut Client| {
        let info = writer.call(&["INFO"]).expect("an answer");
        let text = String::from_utf8_lossy(info.as_bytes().expect("text")).into_owned();
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.parse::<u64>().ok());
        (
            field("dictum_change_subscriptions").expect("the field"),
            field("dictum_changes_kept_bytes").expect("the field"),
        )
    };
    // More than sockets take, and more than the node keeps: 80 MB of changes.
    let value = "v".repeat(4000);
    for batch in 0..200 {
        for number in 0..100 {
            writer.send(&["SET", &format!("k{batch}-{number}"), &value]).expect("it is sent");
        }
        for _ in 0..100 {
            assert_eq!(writer.receive().expect("an answer"), Value::ok());
        }
    }
    let (subscriptions, bytes) = kept(&mut writer);
    assert_eq!(subscriptions, 1, "nobody has cut it off");
    assert!(bytes <= 64 << 20 && bytes > 60 << 20, "{bytes}");
    // Now it reads: what it was sent, and then what cannot be told any more.
    let (mut last, mut told) = (None, 0);
    loop {
        let Value::Push(message) = slow.receive().expect("a message") else { panic!("it has asked for nothing else") };
        match message[0].as_bytes() {
            Some(b"dictum.change") => {
                let Value::Array(numbers) = &message[2] else { panic!("{message:?}") };
                let Value::Integer(revision) = numbers[1] else { panic!("{message:?}") };
                assert!(last.is_none_or(|last| revision == last + 1), "{message:?}");
                (last, told) = (Some(revision), told + 1);
            }
            Some(b"dictum.gap") => {
                assert_eq!(message[3].as_bytes(), Some(&b"too-slow"[..]), "{message:?}");
                let Value::Array(span) = &message[2] else { panic!("{message:?}") };
                assert_eq!(Some(&span[1]), last.map(Value::Integer).as_ref(), "it begins where it was told last");
                break;
            }
            _ => {}
        }
    }
    assert!(told > 10, "{told}");
    assert_eq!(kept(&mut writer).0, 0, "it is over with the gap");
}
