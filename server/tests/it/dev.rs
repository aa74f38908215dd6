//! `dictum dev` as a user meets it: real processes, real sockets, real files.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use rustix::process::Signal;
use tempfile::tempdir;
use wire::Value;

use crate::common::process::is_alive;
use crate::common::{
    Client, Dev, PATIENCE, applied, base_port, dev_command, eventually, failure, signal, start_alone, wait_for,
    wait_for_end,
};

#[test]
fn a_killed_leader_costs_nothing_and_catches_up() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    assert_eq!(dev.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["n1", "n2", "n3"]);
    for (index, node) in dev.nodes.iter().enumerate() {
        let index = index as u16;
        assert!(is_alive(node.pid));
        assert_eq!(node.resp, format!("127.0.0.1:{}", dev.base_port + index));
        assert_eq!(node.http, format!("127.0.0.1:{}", dev.base_port + 1000 + index));
        assert_eq!(node.peer, format!("127.0.0.1:{}", dev.base_port + 2000 + index));
        assert_eq!(node.cluster, format!("127.0.0.1:{}", dev.base_port + 500 + index));
        // One who routes by itself is told where to go, by every node the same.
        let mut routes = Client::connect(&node.cluster).expect("it listens");
        let slots = routes.call(&["CLUSTER", "SLOTS"]).expect("a reply").pretty();
        assert!(slots.contains("(integer) 16383") && slots.contains(&(dev.base_port + 500).to_string()), "{slots}");
        assert!(node.dir.starts_with(folder.path().canonicalize().expect("a folder")));
        // Any node takes a write, and every other one shows it at once.
        let mut client = Client::connect(&node.resp).expect("it listens");
        assert_eq!(client.call(&["SET", "key", &node.name]).expect("a reply"), Value::ok());
        for other in &dev.nodes {
            let mut client = Client::connect(&other.resp).expect("it listens");
            assert_eq!(client.call(&["GET", "key"]).expect("a reply"), Value::bulk(&node.name));
        }
    }

    let leader = dev.leader();
    let alive = dev.nodes.iter().find(|node| node.name != leader.name).expect("there are three");
    signal(leader.pid, Signal::KILL);
    assert!(wait_for_end(leader.pid));
    for number in 0..100 {
        eventually(&alive.resp, &["SET", &format!("key:{number}"), "while it was dead"]);
    }
    assert_eq!(eventually(&alive.resp, &["GET", "key"]), Value::bulk("n3"));

    let restarted = start_alone(&leader);
    let goal = applied(&alive.resp).expect("it answers");
    // A read is answered when the node has caught up with all that was decided before it.
    assert_eq!(eventually(&leader.resp, &["GET", "key:99"]), Value::bulk("while it was dead"));
    assert!(applied(&leader.resp) >= Some(goal));
    assert_eq!(eventually(&leader.resp, &["SET", "key", "again"]), Value::ok());
    drop(restarted);
}

#[test]
fn a_leader_that_is_told_to_stop_costs_no_failed_write() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let leader = dev.leader();
    let other = dev.nodes.iter().find(|node| node.name != leader.name).expect("there are three");
    let done = AtomicBool::new(false);
    let (tell, told) = mpsc::channel();
    let (failed, last) = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = Client::connect(&other.resp).expect("it listens");
            let (mut failed, mut number) = (Vec::new(), 0);
            while !done.load(Ordering::Relaxed) {
                number += 1;
                let reply = client.call(&["SET", "counter", &number.to_string()]).expect("the connection stays");
                if reply != Value::ok() {
                    failed.push(reply);
                }
                let _ = tell.send(());
            }
            (failed, number)
        });
        let writes = |count| (0..count).all(|_| told.recv_timeout(PATIENCE).is_ok());
        let before = writes(50);
        signal(leader.pid, Signal::TERM);
        let ended = wait_for_end(leader.pid);
        told.try_iter().for_each(drop);
        let after = writes(50);
        // Judged only now, so that the writer ends in any case.
        done.store(true, Ordering::Relaxed);
        assert!(before && ended && after, "{before} {ended} {after}");
        writer.join().expect("the writer")
    });
    assert_eq!(failed, []);
    assert_eq!(eventually(&other.resp, &["GET", "counter"]), Value::bulk(last.to_string()));
}

#[test]
fn no_child_outlives_a_killed_dev() {
    let folder = tempdir().expect("a temporary folder");
    let mut dev = Dev::start(folder.path(), &[]);
    dev.child.kill().expect("it is ours");
    for node in &dev.nodes {
        assert!(wait_for_end(node.pid), "{} lives on", node.name);
    }
    // Nor one that was stopped by a signal that it cannot take.
    drop(dev);
    let mut dev = Dev::start(folder.path(), &[]);
    signal(dev.nodes[1].pid, Signal::STOP);
    dev.child.kill().expect("it is ours");
    for node in &dev.nodes {
        assert!(wait_for_end(node.pid), "{} lives on", node.name);
    }
}

#[test]
fn a_terminated_dev_stops_its_nodes_and_keeps_the_data() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &["--nodes", "1"]);
    eventually(&dev.nodes[0].resp, &["SET", "key", "kept"]);
    let pid = dev.nodes[0].pid;
    drop(dev);
    assert!(!is_alive(pid));
    let dev = Dev::start(folder.path(), &["--nodes", "1"]);
    assert_eq!(eventually(&dev.nodes[0].resp, &["GET", "key"]), Value::bulk("kept"));
    drop(dev);
    let dev = Dev::start(folder.path(), &["--nodes", "1", "--fresh"]);
    assert_eq!(eventually(&dev.nodes[0].resp, &["GET", "key"]), Value::Null);
}

#[test]
fn what_stands_in_the_way_is_said_before_anything_starts() {
    let folder = tempdir().expect("a temporary folder");
    // A port in use: here one of those for HTTP.
    let (first, _held) = wait_for("a free port", || {
        let first = base_port();
        Some((first, TcpListener::bind(("127.0.0.1", first + 1001)).ok()?))
    });
    let said = failure(dev_command(folder.path(), first, &[]));
    assert!(said.contains(&(first + 1001).to_string()) && said.contains("--base-port"), "{said}");
    assert!(said.contains("HTTP of n2"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing was touched");

    // A folder that is not ours.
    std::fs::write(folder.path().join("letters.txt"), "dear").expect("a file");
    for more in [&[][..], &["--fresh"]] {
        let said = failure(dev_command(folder.path(), base_port(), more));
        assert!(said.contains("letters.txt") && said.contains("--dir") || said.contains("--base-port"), "{said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing was touched");

    let said = failure(dev_command(folder.path(), 64_000, &["--nodes", "5"]));
    assert!(said.contains("too high"), "{said}");
    let said = failure(dev_command(folder.path(), 7001, &["--nodes", "9"]));
    assert!(said.contains("--nodes"), "{said}");
}

#[test]
fn a_folder_belongs_to_one_dev_at_a_time() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &["--nodes", "1"]);
    let refused = |more: &[&str]| {
        wait_for("an answer about the folder", || {
            let said = failure(dev_command(folder.path(), base_port(), more));
            (!said.contains("not all ports are free")).then_some(said)
        })
    };
    for more in [&["--nodes", "1"][..], &["--nodes", "1", "--fresh"]] {
        let said = refused(more);
        assert!(said.contains("in use") && said.contains(&dev.child.id().to_string()), "{said}");
    }
    assert_eq!(eventually(&dev.nodes[0].resp, &["SET", "still", "here"]), Value::ok());

    // A node that was started alone holds its folder, too.
    let node = dev.nodes[0].clone();
    drop(dev);
    let alone = start_alone(&node);
    eventually(&node.resp, &["PING"]);
    let said = refused(&["--nodes", "1", "--fresh"]);
    assert!(said.contains("in use") && said.contains(&alone.id().to_string()), "{said}");
    drop(alone);
    let said = refused(&["--nodes", "3"]);
    assert!(said.contains("--nodes 1"), "{said}");
}
