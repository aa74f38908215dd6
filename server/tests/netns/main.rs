//! Real nodes, each on a host of its own (network.rs), whose links are cut one way, lose packets and are slow; which are lost, restarted one after
//! the other, and come and go. All the while the laboratory's clients are at work, and what they saw is checked.
//!
//! What takes minutes is carried out by `tests/netns/run`; `cargo test` does a short form, where the machine allows it. Things happen at conditions
//! (so many commands answered, a leader known), never at times.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of real processes have clocks, threads and files"
)]

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod load;
mod network;

use std::io::Write;
use std::time::Duration;

use cluster::Cluster;
use load::Load;
use network::Network;

/// Clients of a load: sixteen of each of three nodes.
const CLIENTS: u32 = 48;
/// Operations a second; fewer where each takes long and where a build without optimization shares the machine with other tests, so that nothing is
/// due that no client can send.
const RATE: f64 = 500.0;
const RATE_SLOW: f64 = 200.0;
const RATE_SHORT: f64 = 200.0;
/// Commands answered before anything happens, and behind it.
const CALM: u64 = 2_500;
/// Commands answered while something is wrong.
const WRONG: u64 = 1_500;
/// Longest time without an answer when another node must lead; the bench measures it, this only alarms.
const FAILOVER_MS_MAX: f64 = 5_000.0;
/// The same when none must.
const HICCUP_MS_MAX: f64 = 2_000.0;

/// A network that a scenario cannot do without.
fn network(hosts: usize) -> Network {
    Network::new(hosts).unwrap_or_else(|reason| panic!("this machine does not allow it: {reason}"))
}

/// What is wrong with a node's links.
#[derive(Clone, Copy)]
enum Wrong {
    /// It hears nobody, and is heard.
    Deaf,
    /// It hears everybody, and is not heard.
    Mute,
}

impl Wrong {
    fn begin(self, cluster: &Cluster, node: usize) {
        let done = match self {
            Wrong::Deaf => cluster.network.deafen(node),
            Wrong::Mute => cluster.network.mute(node),
        };
        done.expect("it worked at first");
    }

    fn name(self) -> &'static str {
        match self {
            Wrong::Deaf => "deaf",
            Wrong::Mute => "mute",
        }
    }
}

/// One node's links work one way only, until others have noticed and so many commands were answered.
fn cut_one_way(cluster: &Cluster, load: &mut Load, node: usize, wrong: Wrong, commands: u64) {
    let leader = cluster.leader();
    let role = if node == leader { "leader" } else { "follower" };
    load.mark(format!("{role} {} {}", cluster.name(node), wrong.name()));
    wrong.begin(cluster, node);
    match wrong {
        _ if node == leader => drop(cluster.leader_among(&cluster.others(node))),
        Wrong::Deaf => cluster.wait_until_missed(node, leader),
        Wrong::Mute => cluster.wait_until_missed(leader, node),
    }
    load.wait_for(commands);
    load.mark(format!("{} hears and is heard", cluster.name(node)));
    cluster.network.heal().expect("it worked at first");
    cluster.wait_until_current(node);
}

/// A node and its disk are gone, and it comes back with nothing. With its cable pulled first, so that nobody is told of its end.
fn lose_node(cluster: &mut Cluster, load: &mut Load, node: usize, pulled: bool, commands: u64) {
    let leader = cluster.leader();
    let role = if node == leader { "leader" } else { "follower" };
    let how = if pulled { "vanishes with its host" } else { "killed" };
    load.mark(format!("{role} {} {how}, its disk is lost", cluster.name(node)));
    if pulled {
        cluster.network.plug(node, false).expect("it worked at first");
    }
    cluster.lose(node);
    let others = cluster.others(node);
    cluster.leader_among(&others);
    load.wait_for(commands);
    load.mark(format!("{} comes back with nothing", cluster.name(node)));
    if pulled {
        cluster.network.plug(node, true).expect("it worked at first");
    }
    cluster.restart(node);
}

/// A node is told to stop, stays away for so many commands, and comes back.
fn restart(cluster: &mut Cluster, load: &mut Load, node: usize, commands: u64) {
    load.mark(format!("{} told to stop", cluster.name(node)));
    cluster.stop(node);
    load.wait_for(commands);
    load.mark(format!("{} started again", cluster.name(node)));
    cluster.restart(node);
    load.wait_for(commands);
}

/// The short form of what follows: is every kind of harm survived?
#[test]
fn in_short() {
    let network = match Network::new(3) {
        Ok(network) => network,
        Err(reason) => {
            // Past the capture of tests' output: whoever reads the log shall know what was not tried.
            let _ = writeln!(std::io::stderr(), "netns: skipped: {reason}");
            return;
        }
    };
    let mut cluster = Cluster::start(network, 3, false);
    let mut load = Load::start(&cluster.addresses(), 12, RATE_SHORT, "");
    load.mark("calm");
    load.wait_for(400);
    let leader = cluster.leader();
    cut_one_way(&cluster, &mut load, leader, Wrong::Deaf, 300);
    load.wait_for(150);
    let follower = cluster.others(cluster.leader())[0];
    cut_one_way(&cluster, &mut load, follower, Wrong::Mute, 300);
    load.mark("10 % between nodes lost");
    (0..3).try_for_each(|node| cluster.network.lose(node, 10)).expect("it worked at first");
    load.wait_for(450);
    cluster.network.heal().expect("it worked at first");
    let leader = cluster.leader();
    lose_node(&mut cluster, &mut load, leader, false, 300);
    let leader = cluster.leader();
    restart(&mut cluster, &mut load, leader, 150);
    let seen = load.finish();
    seen.judge("in-short");
    assert_eq!(seen.timeouts, 0, "every request is answered in time");
}

/// The leader's links and a follower's work one way only, in turn.
#[test]
#[ignore = "takes a minute: tests/netns/run one-way-cuts"]
fn one_way_cuts() {
    let cluster = Cluster::start(network(3), 3, false);
    let mut load = Load::start(&cluster.addresses(), CLIENTS, RATE, "");
    load.mark("calm");
    load.wait_for(CALM);
    for wrong in [Wrong::Deaf, Wrong::Mute] {
        let leader = cluster.leader();
        cut_one_way(&cluster, &mut load, leader, wrong, WRONG);
        load.wait_for(CALM);
        let follower = cluster.others(cluster.leader())[0];
        cut_one_way(&cluster, &mut load, follower, wrong, WRONG);
        load.wait_for(CALM);
    }
    let seen = load.finish();
    seen.judge("one-way-cuts");
    seen.expect_silence("leader n", FAILOVER_MS_MAX);
    seen.expect_silence("follower n", HICCUP_MS_MAX);
    assert_eq!(seen.timeouts, 0, "every request is answered in time");
}

/// Packets are lost: all that arrive, clients' as well, and then many between nodes.
#[test]
#[ignore = "takes a minute: tests/netns/run packet-loss"]
fn packet_loss() {
    let cluster = Cluster::start(network(3), 3, false);
    let mut load = Load::start(&cluster.addresses(), CLIENTS, RATE_SLOW, "");
    load.mark("calm");
    load.wait_for(CALM / 2);
    load.mark("5 % of everything lost");
    (0..3).try_for_each(|node| cluster.network.lose_all(node, 5)).expect("it worked at first");
    load.wait_for(WRONG);
    cluster.network.heal().expect("it worked at first");
    for percent in [10, 20] {
        load.mark("healed");
        load.wait_for(CALM / 2);
        load.mark(format!("{percent} % between nodes lost"));
        (0..3).try_for_each(|node| cluster.network.lose(node, percent)).expect("it worked at first");
        load.wait_for(WRONG);
        cluster.network.heal().expect("it worked at first");
    }
    load.mark("healed");
    (0..3).for_each(|node| cluster.wait_until_current(node));
    load.wait_for(CALM / 2);
    let seen = load.finish();
    seen.judge("packet-loss");
    assert_eq!(seen.timeouts, 0, "every request is answered in time");
}

/// Messages take longer: on the link between the leader and one follower, then on all links of the leader. By relays at the hub: this kernel has no
/// netem.
#[test]
#[ignore = "takes a minute: tests/netns/run slow-links"]
fn slow_links() {
    const DELAY: Duration = Duration::from_millis(50);
    let cluster = Cluster::start(network(3), 3, true);
    let relays = cluster.relays.as_ref().expect("they were asked for");
    let mut load = Load::start(&cluster.addresses(), CLIENTS, RATE_SLOW, "");
    load.mark("calm");
    load.wait_for(CALM / 2);
    let leader = cluster.leader();
    let others = cluster.others(leader);
    let between = |one: usize, other: usize, delay: Duration| {
        relays.change(one, other, |way| way.delay = delay);
        relays.change(other, one, |way| way.delay = delay);
    };
    load.mark(format!("50 ms more between leader {} and {}", cluster.name(leader), cluster.name(others[0])));
    between(leader, others[0], DELAY);
    load.wait_for(WRONG);
    load.mark(format!("50 ms more on all links of leader {}", cluster.name(leader)));
    between(leader, others[1], DELAY);
    load.wait_for(WRONG);
    load.mark("as before");
    relays.change_all(|way| way.delay = Duration::ZERO);
    (0..3).for_each(|node| cluster.wait_until_current(node));
    load.wait_for(CALM / 2);
    let seen = load.finish();
    seen.judge("slow-links");
    seen.expect_no_errors();
    seen.expect_silence("50 ms more", HICCUP_MS_MAX);
}

/// A follower and the leader are killed and their disks lost; then a leader vanishes together with its host, and nobody is told.
#[test]
#[ignore = "takes a minute: tests/netns/run node-loss"]
fn node_loss() {
    let mut cluster = Cluster::start(network(3), 3, false);
    let mut load = Load::start(&cluster.addresses(), CLIENTS, RATE, "");
    load.mark("calm");
    load.wait_for(CALM);
    let follower = cluster.others(cluster.leader())[0];
    lose_node(&mut cluster, &mut load, follower, false, WRONG);
    load.wait_for(CALM);
    for pulled in [false, true] {
        let leader = cluster.leader();
        lose_node(&mut cluster, &mut load, leader, pulled, WRONG);
        load.wait_for(CALM);
    }
    let seen = load.finish();
    seen.judge("node-loss");
    seen.expect_silence("leader n", FAILOVER_MS_MAX);
    seen.expect_silence("follower n", HICCUP_MS_MAX);
}

/// Every node is restarted, one after the other: no client is told an error.
#[test]
#[ignore = "takes a minute: tests/netns/run rolling-restart"]
fn rolling_restart() {
    let mut cluster = Cluster::start(network(3), 3, false);
    let mut load = Load::start(&cluster.addresses(), CLIENTS, RATE, "");
    load.mark("calm");
    load.wait_for(CALM);
    for node in 0..3 {
        restart(&mut cluster, &mut load, node, WRONG);
    }
    let seen = load.finish();
    seen.judge("rolling-restart");
    seen.expect_no_errors();
    seen.expect_silence("told to stop", HICCUP_MS_MAX);
}
