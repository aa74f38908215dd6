//! How a cluster of Dictum comes up.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base::limits::VOTERS_MAX;

use super::super::ask::{Asker, http};
use super::super::children::{Children, Make};
use super::super::place::{Folder, free_addresses};
use super::super::process::PAUSE;
use super::super::system::System;
use super::{ASK_PATIENCE, Cluster, Node, Options};
use crate::environment::program_version;
use crate::faults::noise::Neighbours;
use crate::faults::relay::Relays;

/// By this variable a node knows whose child it is, and ends with it (server/src/parent.rs).
const PARENT_VARIABLE: &str = "DICTUM_DEV_PARENT";
/// Written once to see that writes are accepted, then deleted.
const READY_KEY: &str = "dictum:lab:ready";
/// How long a write may take while the cluster comes up.
const WRITE_PATIENCE: Duration = Duration::from_secs(6);

/// Starts the nodes; waits for nothing.
pub(super) fn launch(options: Options) -> Result<Cluster, String> {
    if options.nodes == 0 || options.nodes > VOTERS_MAX {
        return Err(format!("a cluster of {} nodes cannot be started; choose 1 to {VOTERS_MAX}", options.nodes));
    }
    if let Some(node) = options.node_arguments.keys().find(|node| **node >= options.nodes) {
        return Err(format!(
            "there are arguments for the node with the number {node}, and only {} nodes",
            options.nodes
        ));
    }
    let version = program_version(&options.program)?;
    let folder = Folder::make(&options.parent)?;
    let addresses = free_addresses(3 * options.nodes)?;
    let (resp, rest) = addresses.split_at(options.nodes);
    let (http, peers) = rest.split_at(options.nodes);
    let relays = if options.relays {
        Some(Relays::start(peers).map_err(|error| format!("no relays between the nodes can be started: {error}"))?)
    } else {
        None
    };
    let mut children = Children::default();
    let mut nodes = Vec::new();
    for node in 0..options.nodes {
        let name = format!("n{}", node + 1);
        let dir = folder.path().join(&name);
        let seen = |other: usize| relays.as_ref().and_then(|it| it.address(node, other)).unwrap_or(peers[other]);
        let members: Vec<String> = (0..options.nodes).map(|other| format!("n{}={}", other + 1, seen(other))).collect();
        let mut words =
            ["start", "--node", &name, "--cluster", &members.join(","), "--dir"].map(str::to_owned).to_vec();
        words.push(dir.to_string_lossy().into_owned());
        for (flag, address) in [("--resp", resp[node]), ("--http", http[node]), ("--peer", peers[node])] {
            words.extend([flag.to_owned(), address.to_string()]);
        }
        if let Some(quota) = &options.memory_quota {
            words.extend(["--memory-quota".to_owned(), quota.clone()]);
        }
        if options.slow_disks {
            words.extend(["--fault-sync-delay", "0"].map(str::to_owned));
        }
        words.extend(options.arguments.iter().chain(options.node_arguments.get(&node).into_iter().flatten()).cloned());
        children.add(&name, folder.path().join(format!("{name}.log")), make(&options.program, words));
        nodes.push(Node { name, resp: Asker::new(resp[node]), http: http[node], dir });
    }
    let cluster = Cluster { options, version, nodes, children, noise: Neighbours::default(), relays, folder };
    for node in 0..cluster.nodes.len() {
        cluster.children.start(node)?;
    }
    Ok(cluster)
}

/// The command of a node, anew for each of its lives.
fn make(program: &Path, words: Vec<String>) -> Make {
    let program = program.to_owned();
    Box::new(move || {
        let mut command = Command::new(&program);
        // The other end of the pipe is never written to: the node ends when it closes.
        command.args(&words).stdin(Stdio::piped()).env(PARENT_VARIABLE, std::process::id().to_string());
        for (name, _) in std::env::vars_os() {
            // A node is what its arguments say, whoever has set what for another one.
            if name.to_string_lossy().starts_with("DICTUM_") && name != PARENT_VARIABLE {
                command.env_remove(name);
            }
        }
        command
    })
}

/// Tries until it succeeds; the last reason why not, when `end` has come.
pub(super) fn wait(end: Instant, mut attempt: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(reason) if Instant::now() >= end => return Err(reason),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

impl Cluster {
    /// Waits until every node is ready and sees all others, and a write is accepted. A node that ends is an error at once.
    pub(super) fn wait_until_ready(&self) -> Result<(), String> {
        let end = Instant::now() + self.options.patience;
        let count = self.nodes.len();
        let ended = || (0..count).try_for_each(|node| self.children.check(node));
        for (number, node) in self.nodes.iter().enumerate() {
            let mut broken = Ok(());
            wait(end, || {
                broken = ended();
                if broken.is_err() {
                    return Ok(());
                }
                is_ready(node.http)?;
                match self.status(number)?.up() {
                    up if up == count => Ok(()),
                    up => Err(format!("{} sees {up} of {count} nodes", node.name)),
                }
            })?;
            broken?;
        }
        wait(end, || {
            let resp = &self.nodes[0].resp;
            resp.call(&["SET", READY_KEY, "1"], WRITE_PATIENCE)?;
            resp.call(&["DEL", READY_KEY], WRITE_PATIENCE)?;
            self.leader().map(|_| ())
        })
    }

    /// Makes the levels that were asked for the default bucket's: whoever asks for nothing gets them. Waits until every node knows.
    pub(super) fn set_levels(&self) -> Result<(), String> {
        let levels = [("DURABILITY", &self.options.durability), ("CONSISTENCY", &self.options.consistency)];
        let end = Instant::now() + self.options.patience;
        for (name, level) in levels {
            let Some(level) = level else { continue };
            self.nodes[0].resp.call(&["DICTUM.BUCKET", "SET", "default", name, level], WRITE_PATIENCE)?;
            let command = format!("DICTUM.{name}");
            for node in &self.nodes {
                wait(end, || match node.resp.text(&[&command], ASK_PATIENCE)? {
                    known if known == *level => Ok(()),
                    other => Err(format!("{} answers {command} with {other} instead of {level}", node.name)),
                })?;
            }
        }
        Ok(())
    }
}

fn is_ready(address: SocketAddr) -> Result<(), String> {
    match http(address, "GET /readyz", "", ASK_PATIENCE)? {
        (200, _) => Ok(()),
        (status, body) => Err(format!("{address} is not ready: {status} {body}")),
    }
}
