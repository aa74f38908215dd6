//! A real node whose disk becomes slow loses what it leads while clients count on all nodes, and none of their commands fails; when its disk is well it
//! leads again.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of processes has clocks, files and threads"
)]

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use lab::cluster::{Cluster, Options, System};
use serde_json::Value as Json;
use tempfile::tempdir;
use wire::Value;

use crate::common::counting::{Stops, count};
use crate::common::{Client, DICTUM, PATIENCE, wait_for};

/// By what a node is slow, as that node says.
fn slow(resp: &str, name: &str) -> String {
    let status = Client::connect(resp).and_then(|mut client| client.call(&["DICTUM.STATUS"])).expect("a status");
    let status: Json = serde_json::from_slice(status.as_bytes().expect("a text")).expect("JSON");
    let nodes = status["nodes"].as_array().expect("a list");
    let node = nodes.iter().find(|node| node["name"] == name).expect("every node is listed");
    node["slow"].as_str().expect("a word").to_owned()
}

#[test]
fn a_leader_with_a_slow_disk_gives_way_without_an_error_and_leads_again_when_it_is_well() {
    let parent = tempdir().expect("a temporary folder");
    let options = Options {
        program: DICTUM.into(),
        parent: parent.path().into(),
        patience: PATIENCE,
        slow_disks: true,
        ..Options::default()
    };
    let cluster = Cluster::start(options).unwrap_or_else(|reason| panic!("{reason}"));
    let (addresses, names) = (cluster.addresses(), cluster.names());
    // Whoever is to lead when all is well.
    wait_for("the first node leads", || cluster.leader().ok().filter(|leader| *leader == 0));
    let stop = AtomicBool::new(false);
    let counted: Vec<i64> = thread::scope(|scope| {
        let stop = &stop;
        let stops = Stops(stop);
        let counting = addresses.iter().zip(&names);
        let counters: Vec<_> =
            counting.map(|(address, name)| scope.spawn(move || count(address, None, name, 0, stop))).collect();
        // More than ten, so that it is several times what a sync takes on a machine where everything is slow.
        cluster.slow_disk(0, Duration::from_millis(40)).expect("its disk can be made slow");
        wait_for("another leads", || cluster.leader().ok().filter(|leader| *leader != 0));
        assert_eq!(slow(&addresses[0], &names[0]), "disk");
        cluster.slow_disk(0, Duration::ZERO).expect("it can be made well");
        wait_for("the first node leads again", || cluster.leader().ok().filter(|leader| *leader == 0));
        assert_eq!(slow(&addresses[0], &names[0]), "no");
        drop(stops);
        counters.into_iter().map(|counter| counter.join().expect("nothing failed")).collect()
    });
    for (name, number) in names.iter().zip(counted) {
        let reply = Client::connect(&addresses[0]).and_then(|mut client| client.call(&["GET", name])).expect("a reply");
        assert_eq!(reply, Value::bulk(&*number.to_string()));
    }
    assert_eq!(cluster.check(), Ok(()));
}
