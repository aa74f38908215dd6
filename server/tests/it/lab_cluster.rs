//! Clusters and rivals that the laboratory starts, and what it does to them: real processes, real sockets, real files.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of processes has clocks, files and threads"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lab::cluster::counters::NodeCounters;
use lab::cluster::rivals::{Etcd, Place, Redis};
use lab::cluster::{Cluster, Cut, Options, System};
use lab::environment::{ProcessorTimes, is_in_memory};
use lab::faults::noise::Noise;
use lab::faults::{Hooks, Schedule};
use lab::load::Recall;
use rustix::process::Signal;
use tempfile::{TempDir, tempdir};
use wire::Value;

use crate::common::process::is_alive;
use crate::common::{Client, DICTUM, PATIENCE, signal, wait_for, wait_for_end};

fn options(parent: &TempDir) -> Options {
    Options { program: DICTUM.into(), parent: parent.path().into(), patience: PATIENCE, ..Options::default() }
}

fn start(options: Options) -> Arc<Cluster> {
    Arc::new(Cluster::start(options).unwrap_or_else(|reason| panic!("{reason}")))
}

fn connect(system: &dyn System, node: usize) -> Client {
    Client::connect(&system.addresses()[node]).expect("it listens")
}

fn leader(system: &dyn System) -> usize {
    wait_for("a leader", || system.leader().ok())
}

/// Writes through one node until it is told to end; answers how many writes were answered well.
fn write_until(done: &AtomicBool, system: &dyn System, node: usize) -> u64 {
    let mut client = connect(system, node);
    let mut written = 0;
    while !done.load(Ordering::Relaxed) {
        written += u64::from(client.call(&["SET", "key", "value"]).expect("the connection stays") == Value::ok());
    }
    written
}

fn whats(marks: &[lab::record::Mark]) -> Vec<&str> {
    marks.iter().map(|mark| mark.what.as_str()).collect()
}

#[test]
fn a_leader_is_killed_beside_a_load_and_costs_are_counted() {
    let parent = tempdir().expect("a temporary folder");
    let cluster = start(options(&parent));
    assert_eq!(cluster.names(), ["n1", "n2", "n3"]);
    let side = cluster.side();
    assert_eq!((side.id.as_str(), side.nodes, side.consistency.as_str()), ("dictum", 3, "linearizable"));
    let old = leader(cluster.as_ref());
    let other = (old + 1) % 3;

    let mut client = connect(cluster.as_ref(), other);
    let before = cluster.counters();
    for _ in 0..50 {
        assert_eq!(client.call(&["SET", "key", "value"]).expect("a reply"), Value::ok());
    }
    let costs = cluster.counters().per_operation(&before, 50);
    // One after the other, so each is synced by itself: on a majority at least.
    assert!(costs["fsyncs_per_operation"] >= 1.9 && costs["fsyncs_per_operation"] < 20.0, "{costs:?}");
    // To the leader and from it to both others, and back.
    assert!(costs["messages_per_operation"] >= 3.0, "{costs:?}");
    assert!(costs["message_bytes_per_operation"] > costs["messages_per_operation"], "{costs:?}");
    let on_disk = !is_in_memory(parent.path());
    assert!(!on_disk || costs["bytes_written_per_operation"] >= 1000.0, "{costs:?}");
    // The kernel tells processor time in hundredths of a second: fifty small writes may take less.
    let deadline = Instant::now() + PATIENCE;
    while cluster.counters().per_operation(&before, 50)["cpu_share"] <= 0.0 {
        assert!(Instant::now() < deadline, "no processor time is told");
        assert_eq!(client.call(&["SET", "key", "value"]).expect("a reply"), Value::ok());
    }

    let plan = Schedule::parse("100ms kill leader; 1500ms restart").expect("it is right");
    let done = AtomicBool::new(false);
    let (outcome, written) = thread::scope(|scope| {
        let writer = scope.spawn(|| write_until(&done, cluster.as_ref(), other));
        let running = plan.run(cluster.clone(), Instant::now(), Recall::default()).expect("it begins");
        let outcome = running.finish(PATIENCE);
        done.store(true, Ordering::Relaxed);
        (outcome, writer.join().expect("the writer"))
    });
    assert_eq!(outcome.failures, [""; 0]);
    let whats = whats(&outcome.marks);
    let name = format!("n{}", old + 1);
    assert_eq!(whats[0], format!("{name} (leader) killed"));
    // On a busy machine it may take longer until another one leads than until the old one is started again.
    let (leads, own): (Vec<&str>, Vec<&str>) = whats[1..].iter().partition(|what| what.ends_with(" leads"));
    assert!(leads.len() == 1 && !leads[0].starts_with(&name), "{whats:?}");
    assert_eq!(own, [format!("{name} started again"), format!("{name} is current")]);
    assert!(outcome.marks[0].at_ms >= 100.0, "{:?}", outcome.marks);
    assert!(written > 10);
    cluster.wait_until_current(PATIENCE).expect("all run");
    assert_eq!(cluster.check(), Ok(()));
    signal(cluster.process_ids()[other].expect("it runs"), Signal::KILL);
    let told = wait_for("an end that nobody has asked the laboratory for", || cluster.check().err());
    assert!(told.contains(&format!("n{} has ended (signal: 9", other + 1)), "{told}");
    let (folder, pids) = (cluster.folder().to_owned(), cluster.process_ids());
    drop(cluster);
    assert!(!folder.exists() && pids.iter().flatten().count() == 2);
    assert!(pids.iter().flatten().all(|pid| !is_alive(*pid)));
}

#[test]
fn a_leader_that_is_cut_off_is_replaced_and_comes_back() {
    let parent = tempdir().expect("a temporary folder");
    let cluster = start(Options { relays: true, ..options(&parent) });
    let old = leader(cluster.as_ref());
    let other = (old + 1) % 3;
    cluster.cut(old, Cut::Both).expect("there are relays");
    let new = wait_for("another leader", || cluster.leader().ok().filter(|new| *new != old));
    assert_ne!(new, old);
    assert_eq!(connect(cluster.as_ref(), other).call(&["SET", "key", "while cut"]).expect("a reply"), Value::ok());
    wait_for("a leader that knows it is none", || (!cluster.is_current(old)).then_some(()));
    cluster.heal().expect("there are relays");
    wait_for("the old leader", || cluster.is_current(old).then_some(()));
    assert_eq!(connect(cluster.as_ref(), old).call(&["GET", "key"]).expect("a reply"), Value::bulk("while cut"));

    // Slow links: a write waits for a message there and one back.
    let delay = Duration::from_millis(50);
    for node in 0..3 {
        cluster.slow_links(node, delay).expect("there are relays");
    }
    let leader = leader(cluster.as_ref());
    let mut client = connect(cluster.as_ref(), leader);
    let begin = Instant::now();
    assert_eq!(client.call(&["SET", "key", "slow"]).expect("a reply"), Value::ok());
    assert!(begin.elapsed() >= 2 * delay, "{:?}", begin.elapsed());
}

#[test]
fn a_disk_is_slow_while_it_is_told_to_be() {
    let parent = tempdir().expect("a temporary folder");
    let cluster = start(Options { nodes: 1, slow_disks: true, ..options(&parent) });
    assert!(cluster.cut(0, Cut::Both).expect_err("it has no links").contains("without relays"));
    let mut client = connect(cluster.as_ref(), 0);
    let mut took = || {
        let begin = Instant::now();
        assert_eq!(client.call(&["SET", "key", "value"]).expect("a reply"), Value::ok());
        begin.elapsed()
    };
    let delay = Duration::from_millis(150);
    cluster.slow_disk(0, delay).expect("it is prepared");
    // Once it holds, it holds for all.
    wait_for("a slow disk", || (took() >= delay).then_some(()));
    assert!((0..3).all(|_| took() >= delay));
    cluster.slow_disk(0, Duration::ZERO).expect("it is prepared");
    wait_for("a quick disk", || (took() < delay).then_some(()));
    let log = std::fs::read_to_string(cluster.folder().join("n1.log")).expect("a log");
    assert!(log.contains("WARN  FAULT INJECTION") && log.contains("now takes 150 ms longer"), "{log}");
}

#[test]
fn levels_and_arguments_reach_the_nodes() {
    let parent = tempdir().expect("a temporary folder");
    let cluster = start(Options {
        nodes: 2,
        arguments: vec!["--maxclients".to_owned(), "77".to_owned()],
        node_arguments: BTreeMap::from([(1, vec!["--log-level".to_owned(), "debug".to_owned()])]),
        memory_quota: Some("64MiB".to_owned()),
        durability: Some("all".to_owned()),
        consistency: Some("local".to_owned()),
        ..options(&parent)
    });
    let mut client = connect(cluster.as_ref(), 1);
    let mut ask = |words: &[&str]| client.call(words).expect("a reply");
    assert_eq!(ask(&["DICTUM.DURABILITY"]), Value::bulk("all"));
    assert_eq!(ask(&["DICTUM.CONSISTENCY"]), Value::bulk("local"));
    assert_eq!(cluster.prologue(), [["DICTUM.DURABILITY", "all"], ["DICTUM.CONSISTENCY", "local"]]);
    assert_eq!(cluster.side().durability, "fsynced on all replicas");
    let info = ask(&["INFO"]);
    let info = String::from_utf8_lossy(info.as_bytes().expect("text")).into_owned();
    assert!(info.contains("maxclients:77") && info.contains("quota=67108864"), "{info}");
    // As somebody else's cluster, of which only the addresses are known.
    let nodes: Vec<(String, String)> = cluster.names().into_iter().zip(cluster.addresses()).collect();
    let hooks = Hooks::new(cluster.side(), &nodes, BTreeMap::new(), PATIENCE).expect("addresses");
    assert_eq!(hooks.leader(), Ok(leader(cluster.as_ref())));
    assert!(hooks.is_current(0) && hooks.kill(0).expect_err("no command").contains("no command for kill"));
    let configuration = cluster.side().configuration;
    assert!(
        configuration.contains(&("arguments of n2".to_owned(), "--log-level debug".to_owned())),
        "{configuration:?}"
    );
}

#[test]
fn a_cluster_that_does_not_start_says_why() {
    let parent = tempdir().expect("a temporary folder");
    let wrong = Options { arguments: vec!["--value-bytes-max".to_owned(), "0".to_owned()], ..options(&parent) };
    let told = Cluster::start(wrong).expect_err("it cannot run");
    assert!(
        told.contains("has ended (exit status: 2)") && told.contains("--value-bytes-max 0: choose between"),
        "{told}"
    );
    let kept = told.rsplit("the whole logs are in ").next().expect("the folder is named");
    assert!(Path::new(kept).join("n1.log").is_file(), "{kept}");
    let told = Cluster::start(Options { nodes: 9, ..options(&parent) }).expect_err("too many");
    assert!(told.contains("choose 1 to 7"), "{told}");
    let told = Cluster::start(Options { program: "/nowhere".into(), ..options(&parent) }).expect_err("no program");
    assert!(told.contains("/nowhere cannot be started"), "{told}");
}

#[test]
fn a_neighbour_takes_its_share_of_a_processor() {
    let noise = Noise::start(Path::new(DICTUM), &[0.5]).expect("it starts");
    let pid = noise.process_ids()[0];
    let (begin, machine) = (Instant::now(), ProcessorTimes::read());
    let used = wait_for("some work", || {
        // Not at once again: looking takes processor time as well.
        let _ = Command::new("sleep").arg("0.02").status();
        let used = NodeCounters::of_process(pid).expect("it runs").cpu_us;
        (used >= 800_000).then_some(used)
    });
    let share = used as f64 / 1e6 / begin.elapsed().as_secs_f64();
    // A machine that is busy otherwise gives it less; it takes no more than it was told, but for what began before the first look.
    assert!(share < 0.62, "{share}");
    let (idle, _) = ProcessorTimes::read().shares_since(&machine);
    assert!(idle < 0.5 || share > 0.4, "{share} although {idle} is idle");
    drop(noise);
    assert!(!is_alive(pid));
}

#[test]
fn what_is_guarded_ends_with_who_started_it() {
    let script = format!("{DICTUM} lab-child guard $$ -- sleep 600 & echo $!; wait");
    let mut shell = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().expect("a shell");
    let mut line = String::new();
    BufReader::new(shell.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
    let pid: u32 = line.trim().parse().expect("a process id");
    wait_for("the guarded program", || {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).ok().filter(|name| name.trim() == "sleep")
    });
    signal(shell.id(), Signal::KILL);
    assert!(wait_for_end(pid), "it lives on");
    let _ = shell.wait();
    let by_hand = Command::new(DICTUM).args(["lab-child", "noise", "1", "0.5"]).output().expect("it ends");
    assert!(!by_hand.status.success());
}

/// Not a test: what the next one starts and ends. A laboratory with a cluster, a rival and a neighbour, which tells their process ids and lives
/// until it is killed.
#[test]
#[ignore = "it is started by another test, and waits to be killed"]
fn a_laboratory_that_waits() {
    let Some(parent) = std::env::var_os("LAB_TEST_PARENT") else { return };
    let cluster = Cluster::start(Options { program: DICTUM.into(), parent: parent.into(), ..Options::default() });
    // Asked for by a thread that ends: the children stay.
    let cluster = thread::spawn(|| cluster.expect("it starts")).join().expect("no panic");
    let started = thread::spawn(|| Noise::start(Path::new(DICTUM), &[0.1]));
    let noise = started.join().expect("no panic").expect("it starts");
    let pids = cluster.process_ids().into_iter().flatten().chain(noise.process_ids());
    println!("\npids {}", pids.map(|pid| pid.to_string()).collect::<Vec<_>>().join(" "));
    thread::sleep(PATIENCE);
}

#[test]
fn nothing_outlives_a_laboratory_that_is_interrupted_or_killed() {
    let parent = tempdir().expect("a temporary folder");
    for how in [Signal::INT, Signal::KILL] {
        let mut laboratory = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "--nocapture", "lab_cluster::a_laboratory_that_waits"])
            .env("LAB_TEST_PARENT", parent.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(laboratory.stdout.take().expect("a pipe")).lines();
        let told = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("pids ").map(str::to_owned));
        let pids: Vec<u32> = told.expect("it tells").split(' ').map(|pid| pid.parse().expect("a number")).collect();
        assert!(pids.len() == 4 && pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
        signal(laboratory.id(), how);
        let _ = laboratory.wait();
        assert!(pids.iter().all(|pid| wait_for_end(*pid)), "{how:?}: {pids:?}");
    }
    // What they have left is removed by the next one.
    let left = || std::fs::read_dir(parent.path()).expect("a folder").count();
    assert_eq!(left(), 1, "the first one's was removed by the second");
    drop(start(Options { nodes: 1, ..options(&parent) }));
    assert_eq!(left(), 0);
}

fn place(parent: &TempDir) -> Place {
    let programs = std::env::var_os("LAB_PROGRAMS").into_iter().map(Into::into).collect();
    Place { guard: DICTUM.into(), parent: parent.path().into(), programs }
}

#[test]
fn redis_is_started_as_it_should_be() {
    let parent = tempdir().expect("a temporary folder");
    let redis = match Redis::start(&place(&parent), 2) {
        Ok(redis) => redis,
        Err(told) if told.contains("is not on this machine") => {
            return assert!(told.contains("redis-server"), "{told}");
        }
        Err(told) => panic!("{told}"),
    };
    let mut client = connect(&redis, 0);
    assert_eq!(client.call(&["SET", "key", "value"]).expect("a reply"), Value::ok());
    assert!(matches!(client.call(&["WAIT", "1", "0"]).expect("a reply"), Value::Integer(1..=2)));
    let synced = client.call(&["CONFIG", "GET", "appendfsync"]).expect("a reply");
    assert_eq!(synced.as_array().expect("a list")[1], Value::bulk("always"));
    assert_eq!((redis.leader(), redis.side().nodes), (Ok(0), 3));
    assert_eq!(redis.after_write().expect("there are replicas"), ["WAIT", "1", "0"]);
    redis.kill(2).expect("it runs");
    redis.start_again(2).expect("it has ended");
    wait_for("the replica", || redis.is_current(2).then_some(()));
    let pids = redis.process_ids();
    drop(redis);
    assert!(pids.iter().flatten().all(|pid| !is_alive(*pid)));
}

#[test]
fn etcd_is_started_as_it_should_be() {
    let parent = tempdir().expect("a temporary folder");
    let etcd = match Etcd::start(&place(&parent), 3) {
        Ok(etcd) => etcd,
        Err(told) if told.contains("is not on this machine") => return assert!(told.contains("bench/peers"), "{told}"),
        Err(told) => panic!("{told}"),
    };
    let old = leader(&etcd);
    let before = etcd.counters();
    let put = |key: &str| {
        let address = etcd.addresses()[(old + 1) % 3].parse().expect("an address");
        let body = format!(r#"{{"key":"{key}","value":"dmFsdWU="}}"#);
        lab::cluster::ask::http(address, "POST /v3/kv/put", &body, PATIENCE).expect("an answer")
    };
    assert_eq!(put("a2V5").0, 200);
    let costs = etcd.counters().per_operation(&before, 1);
    assert!(costs["fsyncs_per_operation"] >= 2.0, "{costs:?}");
    etcd.kill(old).expect("it runs");
    assert_ne!(wait_for("another leader", || etcd.leader().ok().filter(|new| *new != old)), old);
    etcd.start_again(old).expect("it has ended");
    wait_for("the old leader", || etcd.is_current(old).then_some(()));
}
