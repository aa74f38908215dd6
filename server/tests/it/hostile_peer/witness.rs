//! Looks after everybody that a hostile peer could harm: clients that write and read all the time, and the nodes' processes, memory and logs.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wire::Value;

use crate::common::bell::Bell;
use crate::common::process::is_alive;
use crate::common::{Client, NodeInfo, eventually};

/// Keys of one client, which it writes in turn.
const KEYS: u64 = 2000;
/// Keys that are read at once in the end.
const KEYS_AT_ONCE: usize = 200;

#[derive(Default)]
struct Record {
    /// What was acknowledged last, by key.
    kept: BTreeMap<String, String>,
    /// How long each answer has taken since this was asked last.
    waits: Vec<Duration>,
    /// Since when the clients wait that wait now, by their nodes.
    waiting: BTreeMap<String, Instant>,
    /// Answers that were errors, and connections that broke.
    failures: u64,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    record: Mutex<Record>,
    bell: Bell,
}

impl Shared {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// How clients were served for a while.
pub struct Served {
    pub answers: usize,
    failures: u64,
    median: Duration,
    p99: Duration,
    /// Of those that wait still, too.
    pub longest: Duration,
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Served { answers, failures, median, p99, longest } = self;
        write!(
            f,
            "{answers} answers after {median:.1?} (p50), {p99:.1?} (p99), {longest:.1?} (longest), {failures} refused"
        )
    }
}

/// Clients at work, one at each of some nodes.
pub struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    pub fn start(nodes: &[NodeInfo]) -> Clients {
        let shared: Arc<Shared> = Arc::default();
        let client = |node: &NodeInfo| {
            let (shared, node) = (Arc::clone(&shared), node.clone());
            thread::spawn(move || work(&node, &shared))
        };
        Clients { threads: nodes.iter().map(client).collect(), shared }
    }

    /// How they were served since this was asked last.
    pub fn served(&self) -> Served {
        let mut record = self.shared.record();
        let (mut waits, failures) = (std::mem::take(&mut record.waits), std::mem::take(&mut record.failures));
        let waiting = record.waiting.values().map(Instant::elapsed).max().unwrap_or_default();
        drop(record);
        waits.sort_unstable();
        let at = |percent: usize| waits.get((waits.len() * percent / 100).min(waits.len().saturating_sub(1)));
        let [median, p99, longest] = [50, 99, 100].map(|percent| at(percent).copied().unwrap_or_default());
        Served { answers: waits.len(), failures, median, p99, longest: longest.max(waiting) }
    }

    /// Ends them. What was acknowledged last of each key.
    pub fn stop(&mut self) -> BTreeMap<String, String> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            assert!(thread.join().is_ok(), "a client has read something else than was acknowledged, see above");
        }
        self.shared.record().kept.clone()
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

fn work(node: &NodeInfo, shared: &Shared) {
    let mut client = None;
    let mut number = 0;
    while !shared.is_over() {
        number += 1;
        let key = |number: u64| format!("{}:{}", node.name, number % KEYS);
        let (written, value) = (key(number), number.to_string());
        let Some(answer) = ask(&mut client, node, &["SET", &written, &value], shared) else { return };
        assert_eq!(answer, Value::ok());
        shared.record().kept.insert(written, value);
        // One that it has just written, and one of a while ago.
        for read in [number, number / 2] {
            let read = key(read);
            let Some(expected) = shared.record().kept.get(&read).cloned() else { continue };
            let Some(answer) = ask(&mut client, node, &["GET", &read], shared) else { return };
            assert_eq!(answer, Value::bulk(&expected), "{read} at {}", node.name);
        }
    }
}

/// Asks until there is an answer; none if it is over before.
fn ask(client: &mut Option<Client>, node: &NodeInfo, words: &[&str], shared: &Shared) -> Option<Value> {
    let begun = Instant::now();
    shared.record().waiting.insert(node.name.clone(), begun);
    let answer = loop {
        let answered = match client {
            Some(client) => client.call(words),
            None => Client::connect(&node.resp).and_then(|new| client.insert(new).call(words)),
        };
        match answered {
            Ok(answer) if answer.as_error().is_none() => break Some(answer),
            Ok(_) => {}
            Err(_) => *client = None,
        }
        shared.record().failures += 1;
        if shared.is_over() {
            break None;
        }
        shared.bell.wait();
    };
    let mut record = shared.record();
    record.waits.push(begun.elapsed());
    record.waiting.remove(&node.name);
    answer
}

/// Every acknowledged write is read at this node.
pub fn expect_kept(node: &NodeInfo, kept: &BTreeMap<String, String>) {
    let keys: Vec<&str> = kept.keys().map(String::as_str).collect();
    for keys in keys.chunks(KEYS_AT_ONCE) {
        let answer = eventually(&node.resp, &[&["MGET"], keys].concat());
        let expected = keys.iter().map(|key| Value::bulk(&kept[*key])).collect();
        assert_eq!(answer, Value::Array(expected), "at {}", node.name);
    }
}

/// Processes that must go on, as they were when this began.
pub struct Watched {
    nodes: Vec<(NodeInfo, PathBuf, u64)>,
}

impl Watched {
    pub fn begin(nodes: &[NodeInfo], folder: &Path) -> Watched {
        let watched = |node: &NodeInfo| {
            let log = folder.join(format!("{}.log", node.name));
            (node.clone(), log, memory(node.pid, "VmRSS:").expect("it runs"))
        };
        Watched { nodes: nodes.iter().map(watched).collect() }
    }

    /// A node that has ended, with its last lines.
    pub fn ended(&self) -> Option<String> {
        let (node, log, _) = self.nodes.iter().find(|(node, ..)| !is_alive(node.pid))?;
        let said = fs::read(log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        let lines: Vec<&str> = said.lines().collect();
        // What a panic says stands before its backtrace.
        let panic = lines.iter().position(|line| line.contains("panicked at"));
        let last = &lines[panic.unwrap_or(lines.len().saturating_sub(8))..];
        Some(format!("{} has ended; it said last:\n{}", node.name, last.join("\n")))
    }

    /// They run still, have not panicked, and what they log is text without anything that a terminal would take for a command.
    pub fn expect_well(&self) {
        assert_eq!(self.ended(), None);
        for (node, log, _) in &self.nodes {
            let said = fs::read(log).expect("its log");
            let said = String::from_utf8(said).unwrap_or_else(|error| panic!("{} logs bytes: {error}", node.name));
            assert!(!said.contains("panicked at"), "{said}");
            let forged = said.lines().find(|line| line.chars().any(char::is_control));
            assert_eq!(forged, None, "{} logs what a terminal takes for a command", node.name);
        }
    }

    /// What a node has logged.
    pub fn log_of(&self, node: &NodeInfo) -> String {
        let log = self.nodes.iter().find(|(watched, ..)| watched.pid == node.pid).map(|(_, log, _)| log);
        String::from_utf8(fs::read(log.expect("it is watched")).expect("its log")).expect("it is text")
    }

    /// By how many bytes the memory of the one that has grown most had grown at its peak.
    pub fn growth(&self) -> u64 {
        let grown = |(node, _, before): &(NodeInfo, PathBuf, u64)| {
            memory(node.pid, "VmHWM:").map_or(0, |peak| peak.saturating_sub(*before))
        };
        self.nodes.iter().map(grown).max().unwrap_or(0)
    }

    /// Bytes of their logs.
    pub fn logged(&self) -> u64 {
        self.nodes.iter().map(|(_, log, _)| fs::metadata(log).map_or(0, |about| about.len())).sum()
    }
}

/// What the kernel says of a process's memory, in bytes.
fn memory(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}
