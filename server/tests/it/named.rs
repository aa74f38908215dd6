//! A subscriber with a name, on three real nodes that are killed one after the other; and on the command line.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has clocks and threads")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rustix::process::Signal;
use wire::Value;

use crate::common::counting::write_numbers;
use crate::common::{Client, Dev, dictum, eventually, output, signal, start_alone, wait_for, wait_for_end};

/// What a command prints that does what it should.
fn printed(words: &[&str]) -> String {
    let output = output(dictum(words));
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// What all workers of the name have done: each number that they were told is handled behind the one before, though some twice.
#[derive(Debug, Default)]
struct Handled {
    last: u64,
    acknowledged: u64,
    attached: usize,
}

impl Handled {
    /// A worker without a memory: it attaches to the name, handles a few, acknowledges some of them, and goes. True once it has handled the last one.
    fn work(&mut self, address: &str, until: u64) -> std::io::Result<bool> {
        let mut client = Client::connect(address)?;
        client.call(&["HELLO", "3"])?;
        // It is the name's own affair where it begins.
        let answer = client.call(&["DICTUM.SUBSCRIBE", "NAME", "worker", "KEY", "number"])?;
        let Value::Array(parts) = answer else { return Ok(false) };
        let token = String::from_utf8(parts[1].as_bytes().expect("a token").to_vec()).expect("text");
        let (history, _) = token.split_once(':').expect("a token");
        let epoch = parts[2].as_integer().expect("an epoch").to_string();
        self.attached += 1;
        let mut first = true;
        for count in 1.. {
            let (revision, number) = loop {
                let Value::Push(message) = client.receive()? else { continue };
                if message[0].as_bytes() != Some(b"dictum.change") {
                    continue;
                }
                let (Value::Array(numbers), Value::Array(change)) = (&message[2], &message[3]) else { panic!() };
                let value = change[3].as_bytes().expect("a value");
                break (
                    numbers[1].as_integer(),
                    std::str::from_utf8(value).expect("text").parse::<u64>().expect("a number"),
                );
            };
            // Nothing behind what was acknowledged is left out. (A write whose outcome was unknown is said again.)
            let is_next = if first { number <= self.acknowledged + 1 } else { number <= self.last + 1 };
            assert!(is_next, "{number} behind {self:?}");
            (first, self.last) = (false, number);
            let is_done = number >= until;
            if count % 40 == 0 || is_done {
                let place = format!("{history}:{}", revision.expect("a revision"));
                client.send(&["DICTUM.ACK", "worker", &epoch, &place])?;
                // Changes come between.
                let answer = loop {
                    match client.receive()? {
                        Value::Push(_) => {}
                        answer => break answer,
                    }
                };
                if answer.as_error().is_some() {
                    return Ok(false);
                }
                self.acknowledged = number;
                // Another worker goes on; what this one was told since is told again.
                return Ok(is_done);
            }
        }
        unreachable!("it counts for ever")
    }
}

#[test]
fn workers_of_a_name_leave_nothing_out_while_each_node_is_killed_in_turn() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let nodes: Vec<&str> = dev.nodes.iter().map(|node| node.resp.as_str()).collect();
    wait_for("named subscriptions", || {
        let mut client = Client::connect(nodes[0]).ok()?;
        client.call(&["DICTUM.SUBSCRIBE", "NAME", "worker", "KEY", "number"]).ok()?.as_array().map(drop)
    });
    let (stops, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let ends_at = AtomicU64::new(u64::MAX);
    thread::scope(|scope| {
        let writer = scope.spawn(|| write_numbers(&nodes, &stops, &written));
        let worker = scope.spawn(|| {
            let mut handled = Handled::default();
            for turn in 0.. {
                let address = nodes[turn % nodes.len()];
                if handled.work(address, ends_at.load(Ordering::Relaxed)).unwrap_or_default() {
                    break;
                }
            }
            handled
        });
        let mut started = Vec::new();
        for node in &dev.nodes {
            let at = written.load(Ordering::Relaxed);
            wait_for("writes", || (written.load(Ordering::Relaxed) > at + 200).then_some(()));
            signal(node.pid, Signal::KILL);
            wait_for("its end", || wait_for_end(node.pid).then_some(()));
            let at = written.load(Ordering::Relaxed);
            wait_for("writes without it", || (written.load(Ordering::Relaxed) > at + 200).then_some(()));
            started.push(start_alone(node));
        }
        // The worker ends with a number that is still to come.
        ends_at.store(written.load(Ordering::Relaxed) + 1000, Ordering::Relaxed);
        let handled = worker.join().expect("it has handled all");
        stops.store(true, Ordering::Relaxed);
        let written = writer.join().expect("it has written");
        assert!(handled.acknowledged >= 1000 && handled.acknowledged <= written, "{handled:?} of {written}");
        assert!(handled.attached > 10, "{handled:?}");
        drop(started);
    });
}

#[test]
fn keys_are_subscribed_to_and_watched_on_the_command_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let at = dev.nodes[1].resp.as_str();
    wait_for("named subscriptions", || {
        let reply = eventually(at, &["DICTUM.SUB", "ann", "cart:1"]);
        reply.as_integer().map(drop)
    });
    assert_eq!(printed(&["sub", "cart:1", "cart:2", "--name", "ann", "--at", at]), "1 of 2 keys added\n");
    assert_eq!(printed(&["unsub", "cart:1", "cart:9", "--name", "ann", "--at", at]), "1 of 2 keys removed\n");
    let refused = output(dictum(&["watch", "--name", "nobody", "--at", at]));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("no subscription of this name"), "{text}");
    // A watch is taken over by the next one, and says so.
    let old = dictum(&["watch", "--name", "ann", "--at", at]);
    let old = thread::spawn(move || output(old));
    let epoch = || {
        let named = eventually(at, &["DICTUM.NAMED", "ann"]);
        named.as_array().and_then(|parts| parts[1].as_integer()).unwrap_or_default()
    };
    let before = wait_for("the watch", || Some(epoch()).filter(|epoch| *epoch > 0));
    assert_eq!(eventually(at, &["SET", "cart:2", "apples"]), Value::ok());
    let token = || eventually(at, &["DICTUM.NAMED", "ann"]).as_array().map(|parts| format!("{:?}", parts[5]));
    let first = token();
    assert_eq!(eventually(at, &["SET", "cart:2", "pears"]), Value::ok());
    wait_for("an acknowledgement", || (token() != first).then_some(()));
    let mut new = Client::connect(at).expect("it listens");
    let attached = new.call(&["DICTUM.ATTACH", "ann", "test"]).expect("a reply");
    assert!(attached.as_array().is_some_and(|parts| parts[0].as_integer().is_some_and(|epoch| epoch > before)));
    let old = old.join().expect("it has ended");
    let (lines, text) = (String::from_utf8_lossy(&old.stdout), String::from_utf8_lossy(&old.stderr));
    assert!(!old.status.success() && text.contains("another client has attached to ann"), "{text}");
    assert!(lines.contains("cart:2 \"pears\"") && !lines.contains("cart:1"), "{lines}");
}
