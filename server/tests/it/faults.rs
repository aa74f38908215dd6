//! Real processes under faults: `kill -9`, SIGSTOP, all at once, a lost folder, with many clients at work whose history
//! must be linearizable and nothing of it lost. What needs root or other programs is in `tests/faults/run`.
//!
//! Every scenario: a cluster of three, twelve clients on ten keys; rounds of a calm, a fault, work without the victim, its
//! return; then a write through every node, all keys read through every node, and the judgement of the whole history. Faults
//! happen at conditions (so many operations acknowledged, a leader known), never at times.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of real processes have clocks, threads and files"
)]

mod cluster;
mod judge;
mod load;

use rustix::process::Signal;
use sim::history::{Op, Operation, Outcome, Reply};

use cluster::Cluster;
use judge::{expect_linearizable, judge};
use load::{CLIENTS, Load};

/// Acknowledged operations before a fault, while it lasts, and after it. More than there are clients: so in each of these
/// times some are asked and answered.
const BEFORE: u64 = 200;
const DURING: u64 = 300;
const AFTER: u64 = 200;

/// Runs `rounds` of a fault under load, and judges. `fault` does one, and leaves all nodes running.
fn scenario(name: &str, rounds: usize, mut fault: impl FnMut(&mut Cluster, &Load, usize)) {
    let mut cluster = Cluster::start(&[]);
    let load = Load::start(&cluster);
    for round in 0..rounds {
        load.wait_for_acknowledged(&cluster, BEFORE);
        fault(&mut cluster, &load, round);
        cluster.wait_until_ready();
        load.wait_for_acknowledged(&cluster, AFTER);
        load.take_other_keys();
    }
    expect_linearizable(name, &load.finish(&cluster));
}

#[test]
fn killed_leaders_lose_nothing() {
    scenario("killed-leaders", 5, |cluster, load, _| {
        let victim = cluster.leader();
        cluster.kill(&[victim]);
        load.wait_for_acknowledged(cluster, DURING);
        cluster.restart(&[victim]);
    });
}

#[test]
fn killed_followers_lose_nothing() {
    scenario("killed-followers", 5, |cluster, load, round| {
        let victim = cluster.others(cluster.leader())[round % 2];
        cluster.kill(&[victim]);
        load.wait_for_acknowledged(cluster, DURING);
        cluster.restart(&[victim]);
    });
}

/// A frozen leader wakes up deposed, with requests of its clients before it.
#[test]
fn frozen_leaders_wake_up_and_notice() {
    scenario("frozen-leaders", 4, |cluster, load, _| {
        let victim = cluster.leader();
        cluster.send(victim, Signal::STOP);
        // The condition for "longer than the election timeout".
        cluster.leader_among(&cluster.others(victim));
        load.wait_for_acknowledged(cluster, DURING);
        // Some of its clients wait for their answers until it goes on, the others do not; and there are new ones.
        load.cut_some(victim);
        let waiting = load.ask_frozen(&cluster.nodes[victim].resp);
        cluster.send(victim, Signal::CONT);
        load.hear(waiting);
    });
}

#[test]
fn frozen_followers_are_missed_and_come_back() {
    scenario("frozen-followers", 4, |cluster, load, round| {
        let leader = cluster.leader();
        let victim = cluster.others(leader)[round % 2];
        cluster.send(victim, Signal::STOP);
        cluster.wait_until_missed(leader, victim);
        load.wait_for_acknowledged(cluster, DURING);
        load.cut_some(victim);
        cluster.send(victim, Signal::CONT);
    });
}

#[test]
fn all_killed_at_once_lose_nothing() {
    scenario("all-killed", 4, |cluster, load, _| {
        cluster.kill(&[0, 1, 2]);
        cluster.restart(&[0, 1, 2]);
        load.wait_for_acknowledged(cluster, DURING);
    });
}

#[test]
fn a_deleted_folder_comes_back_from_the_others() {
    scenario("deleted-folder", 4, |cluster, load, round| {
        let leader = cluster.leader();
        let victim = if round % 2 == 0 { cluster.others(leader)[round / 2] } else { leader };
        cluster.kill(&[victim]);
        std::fs::remove_dir_all(&cluster.nodes[victim].dir).expect("nobody uses it");
        load.wait_for_acknowledged(cluster, DURING);
        cluster.restart(&[victim]);
    });
}

/// One node of three acknowledges nothing, neither write nor read, and says so in time; what it took may not be half done.
#[test]
fn without_a_majority_nothing_is_acknowledged() {
    let mut cluster = Cluster::start(&["--request-timeout", "200ms"]);
    let load = Load::start(&cluster);
    let mut alone = Vec::new();
    for round in 0..3 {
        load.wait_for_acknowledged(&cluster, BEFORE);
        let victims = cluster.others(round);
        cluster.kill(&victims);
        let begin = load.now();
        // Beyond those that were under way: every client is told several times.
        load.wait_for_unacknowledged(&cluster, 4 * CLIENTS as u64);
        alone.push(begin..load.now());
        cluster.restart(&victims);
        cluster.wait_until_ready();
        load.wait_for_acknowledged(&cluster, AFTER);
        load.take_other_keys();
    }
    let history = load.finish(&cluster);
    let within = |operation: &&Operation| {
        alone.iter().any(|time| time.start < operation.invoke && operation.finish.is_some_and(|end| end < time.end))
    };
    let done = history.iter().filter(within).find(|operation| operation.outcome == Outcome::Done);
    assert_eq!(done, None, "it was acknowledged by one node of three");
    let refused = history.iter().filter(within).filter(|operation| operation.outcome == Outcome::Failed).count();
    assert!(refused > 0, "some are told that it was not done");
    expect_linearizable("no-majority", &history);
}

/// The judge can find something: a good history with one thing in it that was not so.
#[test]
fn a_falsified_history_is_refused() {
    let mut cluster = Cluster::start(&[]);
    let load = Load::start(&cluster);
    load.wait_for_acknowledged(&cluster, BEFORE);
    // Whoever is killed: it must be found among unknown outcomes, too. Keys without them are what is falsified.
    cluster.kill(&[0]);
    load.wait_for_acknowledged(&cluster, DURING);
    cluster.restart(&[0]);
    cluster.wait_until_ready();
    load.take_other_keys();
    load.wait_for_acknowledged(&cluster, AFTER);
    let history = load.finish(&cluster);
    expect_linearizable("to-be-falsified", &history);

    let refused = |what: &str, falsify: &dyn Fn(&mut Vec<Operation>)| {
        let mut forged = history.clone();
        falsify(&mut forged);
        assert_ne!(forged, history, "{what}: nothing was changed");
        assert!(judge(&forged).is_err(), "{what}: not noticed");
    };
    let is = |operation: &Operation, op: Op| operation.commands.len() == 1 && operation.commands[0].op == op;
    // Of the keys of the calm, those without anything unknown, which could explain much.
    let is_sure = |key: &str| {
        let mut unknown = history.iter().filter(|operation| operation.outcome == Outcome::Maybe);
        key.split('.').nth(1) == Some("1")
            && !unknown.any(|operation| operation.commands.iter().any(|one| one.key == key))
    };
    let done = |operation: &&Operation| operation.outcome == Outcome::Done && is_sure(&operation.commands[0].key);
    let is_seen = |operation: &Operation| {
        let value = operation.commands[0].argument.clone().map(Reply::Text);
        history.iter().any(|other| is(other, Op::Get) && other.replies.first() == value.as_ref())
    };
    let place = |wanted: &dyn Fn(&Operation) -> bool| {
        let found = history.iter().rposition(|operation| done(&operation) && wanted(operation));
        found.expect("the load has such operations")
    };
    let seen_write = place(&|operation| is(operation, Op::Set) && is_seen(operation));
    refused("an acknowledged write is missing", &|forged| drop(forged.remove(seen_write)));
    refused("an acknowledged write had another value", &|forged| {
        forged[seen_write].commands[0].argument = Some("other".into());
    });
    let increment = place(&|operation| is(operation, Op::Incr));
    refused("an acknowledged increment is missing", &|forged| drop(forged.remove(increment)));
    refused("an increment was told twice", &|forged| {
        let again = Operation { client: 1000, ..forged[increment].clone() };
        forged.push(again);
    });
    let last_read = place(&|operation| is(operation, Op::Get) && operation.replies != [Reply::Nil]);
    refused("a key is gone at the end", &|forged| forged[last_read].replies = vec![Reply::Nil]);
    let read = place(&|operation| operation.commands.len() == 3 && operation.commands[0].op == Op::Get);
    refused("half a transaction is seen", &|forged| forged[read].replies[1] = Reply::Text("v0.0".into()));
}
