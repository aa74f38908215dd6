//! The messages of a node to systemd, as a systemd of the test's own hears them; and the file of settings that an operator begins with.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of real processes use real files and time"
)]

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;
use tempfile::tempdir;

use crate::common::process::Process;
use crate::common::{PATIENCE, dictum, eventually, free_ports, output, signal, wait_for};
use crate::start::start_command;

/// A service manager that listens.
struct Manager {
    socket: UnixDatagram,
    name: String,
    /// All that it was told, a datagram each.
    heard: Vec<String>,
}

impl Manager {
    /// At a path, or in Linux's own space of names.
    fn listen(folder: &Path, is_abstract: bool) -> Manager {
        let path = folder.join("notify").display().to_string();
        let (socket, name) = if is_abstract {
            let address = SocketAddr::from_abstract_name(&path).expect("a name");
            (UnixDatagram::bind_addr(&address), format!("@{path}"))
        } else {
            (UnixDatagram::bind(&path), path)
        };
        let socket = socket.expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        Manager { socket, name, heard: Vec::new() }
    }

    /// Starts a process as its own.
    fn start(&self, mut command: Command, watchdog: Option<&str>) -> Result<Process, String> {
        command.env("NOTIFY_SOCKET", &self.name);
        if let Some(microseconds) = watchdog {
            command.env("WATCHDOG_USEC", microseconds);
        }
        Process::start(command)
    }

    fn hear(&mut self) -> String {
        let mut buffer = [0; 4096];
        loop {
            match self.socket.recv(&mut buffer) {
                Ok(length) => {
                    let text = String::from_utf8(buffer[..length].to_vec()).expect("it is text");
                    self.heard.push(text.clone());
                    return text;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}; told was {:#?}", self.heard),
            }
        }
    }

    /// Listens until it is told this: the whole datagram.
    fn wait_for(&mut self, what: &str) -> String {
        self.wait_until(what, |text| text.contains(what))
    }

    fn wait_until(&mut self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.hear();
            if is_it(&text) {
                return text;
            }
            assert!(Instant::now() < end, "{what} was not told, but {:#?}", self.heard);
        }
    }

    fn has_heard(&self, what: &str) -> bool {
        self.heard.iter().any(|text| text.contains(what))
    }
}

/// Starts a node alone under the manager.
fn alone(manager: &Manager, dir: &Path, change: &dyn Fn(&mut Command), watchdog: Option<&str>) -> Process {
    wait_for("a node", || {
        let mut command = start_command(dir, free_ports(), &[]);
        change(&mut command);
        match manager.start(command, watchdog) {
            Ok(process) => Some(process),
            // Another test may have been quicker to take a port.
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    })
}

#[test]
fn a_node_tells_what_it_does_that_it_serves_that_it_lives_and_that_it_stops() {
    for is_abstract in [false, true] {
        let folder = tempdir().expect("a temporary folder");
        let mut manager = Manager::listen(folder.path(), is_abstract);
        let node = alone(&manager, &folder.path().join("n1"), &|_| {}, Some("400000"));
        manager.wait_for("STATUS=reads the journal");
        let ready = manager.wait_for("READY=1");
        assert!(ready.starts_with("READY=1\nSTATUS=leader; 1 of 1 nodes up"), "{ready}");
        for _ in 0..3 {
            manager.wait_for("WATCHDOG=1");
        }
        node.send(Signal::TERM);
        assert_eq!(manager.wait_for("STOPPING=1"), "STOPPING=1\nSTATUS=stopping: hands over\n");
        assert_eq!(node.code(), Some(0));
        assert_eq!(manager.heard.iter().filter(|text| text.contains("READY=1")).count(), 1, "{:#?}", manager.heard);
    }
}

#[test]
fn no_signs_of_life_are_given_that_nobody_waits_for() {
    let folder = tempdir().expect("a temporary folder");
    let mut manager = Manager::listen(folder.path(), false);
    // The watchdog waits for another process.
    let other = |command: &mut Command| {
        command.env("WATCHDOG_PID", "1");
    };
    let node = alone(&manager, &folder.path().join("n1"), &other, Some("10000"));
    manager.wait_for("READY=1");
    node.send(Signal::TERM);
    manager.wait_for("STOPPING=1");
    assert!(node.code() == Some(0) && !manager.has_heard("WATCHDOG"), "{:#?}", manager.heard);
}

#[test]
fn a_node_that_cannot_start_tells_people_why() {
    let folder = tempdir().expect("a temporary folder");
    fs::write(folder.path().join("letters.txt"), "dear").expect("a file");
    let outside = tempdir().expect("a temporary folder");
    let mut manager = Manager::listen(outside.path(), false);
    let reason = wait_for("a node that has ended", || {
        let reason = manager.start(start_command(folder.path(), free_ports(), &[]), None).err()?;
        (!reason.contains("choose another address")).then_some(reason)
    });
    assert!(reason.contains("letters.txt"), "{reason}");
    manager.wait_for("letters.txt");
    assert!(!manager.has_heard("READY=1"), "{:#?}", manager.heard);
}

/// The others may be started only when this start is over.
#[test]
fn a_founder_is_ready_although_the_others_are_down_and_names_them() {
    let folder = tempdir().expect("a temporary folder");
    let mut manager = Manager::listen(folder.path(), false);
    let node = wait_for("a node", || {
        let [resp, http, peer] = free_ports().map(|port: u16| format!("127.0.0.1:{port}"));
        // Nobody listens at the ports of the others.
        let cluster = format!("n1={peer},n2=127.0.0.1:1,n3=127.0.0.1:2");
        let words = ["start", "--node", "n1", "--cluster", &cluster, "--resp", &resp, "--http", &http, "--dir"];
        let mut command = dictum(&words);
        command.arg(folder.path().join("n1"));
        manager.start(command, None).ok()
    });
    let ready = manager.wait_for("READY=1");
    let waits =
        "STATUS=founding: waits for n2 (127.0.0.1:1) and n3 (127.0.0.1:2): a new cluster needs all founders once";
    assert!(ready.contains(waits), "{ready}");
    drop(node);
}

#[test]
fn each_node_of_three_says_what_it_is() {
    let folder = tempdir().expect("a temporary folder");
    let mut managers = ["n1", "n2", "n3"].map(|name| {
        let own = folder.path().join(format!("of-{name}"));
        fs::create_dir(&own).expect("a folder");
        (name, Manager::listen(&own, false))
    });
    let nodes: Vec<Process> = wait_for("three nodes", || {
        let ports: [u16; 9] = free_ports();
        let cluster: Vec<String> =
            (0..3).map(|place| format!("{}=127.0.0.1:{}", managers[place].0, ports[place])).collect();
        let start = |place: usize| {
            let (name, manager) = &managers[place];
            let [resp, http] = [ports[3 + place], ports[6 + place]].map(|port| format!("127.0.0.1:{port}"));
            let mut command = dictum(&["start", "--node", name, "--cluster", &cluster.join(","), "--dir"]);
            command.arg(folder.path().join(name)).args(["--resp", &resp, "--http", &http]);
            manager.start(command, None).ok()
        };
        // Another test may have been quicker to take a port.
        (0..3).map(start).collect()
    });
    let serves = |text: &str| {
        let status = text.split_once("STATUS=").map_or("", |(_, status)| status);
        ["leader; ", "follower of n"].iter().any(|role| status.starts_with(role))
            && status.contains("; 3 of 3 nodes up")
    };
    for (name, manager) in &mut managers {
        manager.wait_until(&format!("what {name} is"), serves);
        assert!(manager.has_heard("READY=1"), "{:#?}", manager.heard);
    }
    drop(nodes);
}

/// The last process that it has started for its second worker.
fn second_worker(machine: &Process) -> Option<u32> {
    machine.lines().iter().rev().find_map(|line| line.split_once("n1.2 is process ")?.1.parse().ok())
}

#[test]
fn of_a_machine_with_workers_one_process_speaks_and_ends_a_worker_that_hangs() {
    let folder = tempdir().expect("a temporary folder");
    let mut manager = Manager::listen(folder.path(), false);
    let dir = folder.path().join("n1");
    let (machine, resp) = wait_for("a machine", || {
        let ports: [u16; 3] = free_ports();
        match manager.start(start_command(&dir, ports, &["--workers", "2"]), Some("4000000")) {
            Ok(machine) => Some((machine, format!("127.0.0.1:{}", ports[0]))),
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    });
    manager.wait_for("READY=1");
    eventually(&resp, &["SET", "k", "1"]);
    let serves = |text: &str| {
        let second = text.split_once("| n1.2: ").map_or("", |(_, second)| second);
        ["leader; ", "follower of n1; ", "without a copy; "].iter().any(|role| second.starts_with(role))
    };
    manager.wait_until("what n1.2 is", serves);
    manager.wait_for("WATCHDOG=1");
    let hangs = second_worker(&machine).expect("it was started");
    signal(hangs, Signal::STOP);
    wait_for("another process", || {
        manager.wait_for("WATCHDOG=1");
        (second_worker(&machine)? != hangs).then_some(())
    });
    assert!(machine.has_said("n1.2 has given no sign of life"), "{:#?}", machine.lines());
    machine.send(Signal::TERM);
    manager.wait_for("STOPPING=1");
    assert_eq!(machine.code(), Some(0));
    // A worker would say so of itself, without its name.
    let speaks_for_all =
        |text: &&String| text.contains("STATUS=") && !text.contains("STOPPING") && !text.contains("n1: ");
    assert_eq!(manager.heard.iter().find(speaks_for_all), None);
    assert_eq!(manager.heard.iter().filter(|text| text.contains("READY=1")).count(), 1);
}

#[test]
fn a_node_is_started_by_the_file_that_was_printed_for_it() {
    let folder = tempdir().expect("a temporary folder");
    let bare = output(dictum(&["start", "--print-config"]));
    let bare = String::from_utf8(bare.stdout).expect("it is text");
    let is_comment = |line: &str| line.is_empty() || line.starts_with('#');
    assert!(bare.lines().all(is_comment) && bare.contains("\n#dir = "), "{bare}");
    let file = folder.path().join("dictum.toml");
    let (node, resp) = wait_for("a node", || {
        let ports = free_ports();
        let mut command = start_command(&folder.path().join("n1"), ports, &["--print-config"]);
        command.env("DICTUM_DATABASES", "17");
        let printed = output(command);
        assert!(printed.status.success(), "{printed:?}");
        fs::write(&file, printed.stdout).expect("a file");
        let mut command = dictum(&["start", "--config"]);
        command.arg(&file);
        match Process::start(command) {
            Ok(process) => Some((process, format!("127.0.0.1:{}", ports[0]))),
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    });
    eventually(&resp, &["SELECT", "16"]);
    assert!(node.stop(), "it ends well");
    let wrong = output(dictum(&["start", "--print-config", "--config", "/nowhere/dictum.toml"]));
    assert_eq!((wrong.status.code(), wrong.stdout.is_empty()), (Some(2), true));
}
