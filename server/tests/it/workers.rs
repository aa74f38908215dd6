//! `dictum start --workers`: machines that run several nodes each, as their clients and their operator meet them.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use rustix::process::Signal;
use serde_json::Value as Json;
use tempfile::tempdir;
use wire::Value;

use crate::common::counting::{Stops, count};
use crate::common::process::Process;
use crate::common::{Client, dictum, eventually, failure, free_ports, output, signal, wait_for, wait_for_end};

/// The ports of a machine: for RESP; and the first ones for HTTP and peers, with room above.
type Ports = [u16; 3];

/// The command that starts a machine of two workers.
fn machine(folder: &Path, name: &str, cluster: &str, [resp, http, _]: Ports) -> Command {
    let (resp, http) = (format!("127.0.0.1:{resp}"), format!("127.0.0.1:{http}"));
    let words =
        ["start", "--workers", "2", "--node", name, "--cluster", cluster, "--resp", &resp, "--http", &http, "--dir"];
    let mut command = dictum(&words);
    command.arg(folder.join(name));
    command
}

/// Machines that found a cluster, what starts each of them again, and where clients reach it.
fn found<const N: usize>(folder: &Path) -> (Vec<Process>, impl Fn(usize) -> Command, [String; N]) {
    let names: [String; N] = std::array::from_fn(|place| format!("n{}", place + 1));
    let (processes, cluster, ports) = wait_for("free ports", || {
        let ports: [Ports; N] = std::array::from_fn(|_| free_ports());
        let members = names.iter().zip(&ports).map(|(name, [.., peer])| format!("{name}=127.0.0.1:{peer}"));
        let cluster = members.collect::<Vec<_>>().join(",");
        let mut processes = Vec::new();
        for (name, ports) in names.iter().zip(ports) {
            match Process::start(machine(folder, name, &cluster, ports)) {
                Ok(process) => processes.push(process),
                // Another test may have been quicker to take a port.
                Err(reason) if reason.contains("is in use by another process; stop") => return None,
                Err(reason) => panic!("it has ended: {reason}"),
            }
        }
        Some((processes, cluster, ports))
    });
    let resp = ports.map(|[resp, ..]| format!("127.0.0.1:{resp}"));
    let folder = folder.to_path_buf();
    (processes, move |place| machine(&folder, &names[place], &cluster, ports[place]), resp)
}

fn nodes(resp: &str) -> Vec<Json> {
    let said = output(dictum(&["node", "list", "--json", "--at", resp]));
    serde_json::from_slice(&said.stdout).unwrap_or_default()
}

/// The names of the nodes that are up, with their zones.
fn up(resp: &str) -> Vec<(String, String)> {
    let text = |node: &Json, what: &str| node[what].as_str().unwrap_or_default().to_owned();
    let up = nodes(resp).into_iter().filter(|node| node["seen"] == "up");
    let mut up: Vec<_> = up.map(|node| (text(&node, "name"), text(&node, "zone"))).collect();
    up.sort();
    up
}

fn wait_until_up(resp: &str, zones: &[(&str, &str)]) {
    wait_for("all workers", || {
        up(resp).iter().map(|(name, zone)| (&name[..], &zone[..])).eq(zones.iter().copied()).then_some(())
    });
}

/// The process that the supervisor has started last for a worker.
fn process_of(machine: &Process, worker: &str) -> u32 {
    let begins = format!("{worker} is process ");
    let lines = machine.lines();
    let number = lines.iter().rev().find_map(|line| line.split_once(&begins)?.1.parse().ok());
    number.expect("it was started")
}

#[test]
fn three_machines_of_two_workers_bear_the_loss_of_any_one() {
    let folder = tempdir().expect("a temporary folder");
    let (machines, start, resp) = found::<3>(folder.path());
    let [mut first, second, mut third] = <[Process; 3]>::try_from(machines).unwrap_or_else(|_| panic!("three of them"));
    let all = [("n1", "n1"), ("n1.2", "n1"), ("n2", "n2"), ("n2.2", "n2"), ("n3", "n3"), ("n3.2", "n3")];
    wait_until_up(&resp[0], &all);
    eventually(&resp[0], &["DICTUM.BUCKET", "CREATE", "b", "PARTITIONS", "12"]);
    // Three of the thirteen partitions' votes are on three machines; and of the council's five no three are on one.
    wait_for("votes on all workers", || {
        let nodes = nodes(&resp[0]);
        let votes = |node: &Json| node["votes"].as_u64().unwrap_or(0);
        let of = |zone: &str| nodes.iter().filter(|node| node["zone"] == zone).map(votes).sum::<u64>();
        let is_even = ["n1", "n2", "n3"].iter().all(|zone| (14..=15).contains(&of(zone)));
        (is_even && nodes.iter().all(|node| votes(node) >= 5)).then_some(())
    });
    // Connections to the one port come to both workers.
    let mut seen = BTreeSet::new();
    wait_for("both workers", || {
        let info = Client::connect(&resp[0]).ok()?.call(&["INFO", "server"]).ok()?;
        let info = String::from_utf8_lossy(info.as_bytes()?).into_owned();
        seen.insert(info.lines().find(|line| line.starts_with("process_id:"))?.to_owned());
        (seen.len() == 2).then_some(())
    });
    // Another one with the same port would get a share of these connections.
    let twin = failure(start(0));
    assert!(twin.contains("is in use by another process"), "{twin}");

    let stop = AtomicBool::new(false);
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let (counted, second) = std::thread::scope(|scope| {
        let stops = Stops(&stop);
        let counters: Vec<_> =
            keys.iter().map(|key| scope.spawn(|| count(&resp[0], Some("b"), key, 0, &stop))).collect();
        // A machine is lost, with both of its workers, and comes back as it was.
        let workers = ["n2", "n2.2"].map(|name| process_of(&second, name));
        second.kill();
        assert!(workers.into_iter().all(wait_for_end), "they do not outlive it");
        wait_until_up(&resp[0], &[all[0], all[1], all[4], all[5]]);
        let second = Process::start(start(1)).expect("it starts again");
        wait_until_up(&resp[0], &all);
        // One worker dies alone: it is started again.
        let lost = process_of(&third, "n3.2");
        signal(lost, Signal::KILL);
        wait_for("another process", || (process_of(&third, "n3.2") != lost).then_some(()));
        wait_until_up(&resp[2], &all);
        drop(stops);
        (counters.into_iter().map(|counter| counter.join().expect("nothing failed")).collect::<Vec<_>>(), second)
    });
    // All of them once more, from their folders, one machine after the other.
    assert!(second.stop(), "it ends well");
    let second = Process::start(start(1)).expect("it starts again");
    wait_until_up(&resp[0], &all);
    for (place, machine) in [(0, &mut first), (2, &mut third)] {
        machine.send(Signal::TERM);
        assert!(wait_for_end(machine.id()));
        *machine = Process::start(start(place)).expect("it starts again");
        wait_until_up(&resp[1], &all);
    }
    let mut client = Client::connect(&resp[2]).expect("the machine is there");
    client.call(&["SELECT", "b"]).expect("the bucket is there");
    for (key, number) in keys.iter().zip(counted) {
        assert!(number > 0);
        assert_eq!(client.call(&["GET", key]).expect("a reply"), Value::bulk(&*number.to_string()));
    }
    drop(second);
}

#[test]
fn a_machine_leaves_with_all_its_workers() {
    let folder = tempdir().expect("a temporary folder");
    let (machines, _, resp) = found::<2>(folder.path());
    let [first, second] = <[Process; 2]>::try_from(machines).unwrap_or_else(|_| panic!("two of them"));
    wait_until_up(&resp[0], &[("n1", "n1"), ("n1.2", "n1"), ("n2", "n2"), ("n2.2", "n2")]);
    let stranger = failure(dictum(&["node", "remove", "--zone", "n9", "--at", &resp[0]]));
    assert!(stranger.contains("no node is in the zone n9"), "{stranger}");
    eventually(&resp[1], &["SET", "key", "value"]);
    let said = output(dictum(&["node", "remove", "--zone", "n2", "--at", &resp[0]]));
    assert!(said.status.success(), "{said:?}");
    wait_for("the end of the machine", || second.has_ended().then_some(()));
    assert!(second.stop(), "it has ended well");
    wait_until_up(&resp[0], &[("n1", "n1"), ("n1.2", "n1")]);
    assert_eq!(eventually(&resp[0], &["GET", "key"]), Value::bulk("value"));
    assert!(first.stop(), "it ends well");
}

#[test]
fn a_worker_that_cannot_be_started_ends_them_all() {
    let folder = tempdir().expect("a temporary folder");
    let (process, _taken) = wait_for("free ports", || {
        let ports: Ports = free_ports();
        let taken = TcpListener::bind(("127.0.0.1", ports[1] + 1)).ok()?;
        let cluster = format!("n1=127.0.0.1:{}", ports[2]);
        let process = Process::start(machine(folder.path(), "n1", &cluster, ports));
        process.ok().map(|process| (process, taken))
    });
    wait_for("the end", || process.has_ended().then_some(()));
    assert!(process.has_said("is in use by another process") && process.has_said("n1.2 cannot run"));
    assert!(process.has_said("n1: stopped"), "the first one was asked to stop");
    assert!(!process.stop(), "and that is told by the exit code");
}

/// `systemctl reload` of a node with workers, and signals that other programs use: they end nothing.
#[test]
fn signals_that_mean_something_else_end_nothing() {
    let folder = tempdir().expect("a temporary folder");
    let (machines, _, resp) = found::<1>(folder.path());
    wait_until_up(&resp[0], &[("n1", "n1"), ("n1.2", "n1")]);
    for what in [Signal::USR1, Signal::USR2, Signal::HUP] {
        machines[0].send(what);
    }
    wait_for("both workers have heard", || {
        let heard = machines[0].lines().iter().filter(|line| line.contains("a signal that means nothing here")).count();
        (heard == 2).then_some(())
    });
    assert_eq!(eventually(&resp[0], &["SET", "k", "v"]), Value::ok());
    assert!(!machines[0].has_ended());
}
