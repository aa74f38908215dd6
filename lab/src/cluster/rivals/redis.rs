//! Redis: alone, or a primary and two replicas with `WAIT 1` behind each write.

use std::path::PathBuf;

use super::super::ask::Asker;
use super::super::children::Children;
use super::super::counters::Counters;
use super::super::place::{Folder, free_addresses};
use super::super::process::{guarded, without_input};
use super::super::system::System;
use super::{ASK_PATIENCE, Place, START_PATIENCE, process_faults, wait};
use crate::environment::program_version;
use crate::faults::noise::Neighbours;
use crate::record::Side;

/// How it is installed.
const ADVICE: &str = "install the package redis-server (Debian, Ubuntu) or redis (others), or leave this side out";
/// Most clients: thousands of connections are what is measured.
const CLIENTS_MAX: &str = "12000";

/// A Redis that runs. It ends, and its folder goes, when this is dropped.
#[derive(Debug)]
pub struct Redis {
    version: String,
    guard: PathBuf,
    nodes: Vec<Asker>,
    children: Children,
    noise: Neighbours,
    folder: Folder,
}

impl Redis {
    /// Starts one server with so many replicas, and waits until they follow. With replicas a load sends `WAIT 1 0` behind each write
    /// ([`System::after_write`]).
    ///
    /// # Errors
    /// When Redis is not there, or does not serve; the text shows its log's last lines then.
    pub fn start(place: &Place, replicas: usize) -> Result<Redis, String> {
        let program = place.find("redis-server", ADVICE)?;
        let version = program_version(&program)?;
        let folder = Folder::make(&place.parent)?;
        let addresses = free_addresses(1 + replicas)?;
        let mut children = Children::default();
        for (node, address) in addresses.iter().enumerate() {
            let name = format!("r{}", node + 1);
            let dir = folder.path().join(&name);
            std::fs::create_dir(&dir).map_err(|error| format!("{} cannot be made: {error}", dir.display()))?;
            let mut words: Vec<String> =
                ["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "always"]
                    .into_iter()
                    .chain([
                        "--auto-aof-rewrite-percentage",
                        "0",
                        "--maxclients",
                        CLIENTS_MAX,
                        "--repl-diskless-sync-delay",
                        "0",
                        "--dir",
                    ])
                    .map(str::to_owned)
                    .collect();
            words.extend([dir.to_string_lossy().into_owned(), "--port".to_owned(), address.port().to_string()]);
            if node > 0 {
                words.extend(["--replicaof".to_owned(), "127.0.0.1".to_owned(), addresses[0].port().to_string()]);
            }
            let (guard, program) = (place.guard.clone(), program.clone());
            let make = move || {
                let mut command = guarded(&guard, &program);
                command.args(&words);
                without_input(&mut command);
                command
            };
            children.add(&name, folder.path().join(format!("{name}.log")), Box::new(make));
        }
        let nodes = addresses.into_iter().map(Asker::new).collect();
        let redis =
            Redis { version, guard: place.guard.clone(), nodes, children, noise: Neighbours::default(), folder };
        (0..redis.nodes.len()).try_for_each(|node| redis.children.start(node))?;
        redis.wait_until_ready().map_err(|reason| {
            redis.folder.keep();
            format!("Redis does not serve: {reason}\n{}", redis.children.tails())
        })?;
        Ok(redis)
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        wait(START_PATIENCE, || {
            let ended = (0..self.nodes.len()).try_for_each(|node| self.children.check(node));
            if ended.is_err() {
                return Ok(());
            }
            self.nodes.iter().try_for_each(|node| node.call(&["PING"], ASK_PATIENCE).map(|_| ()))?;
            let info = self.nodes[0].text(&["INFO", "replication"], ASK_PATIENCE)?;
            let following = info.matches("state=online").count();
            if following + 1 == self.nodes.len() { Ok(()) } else { Err(format!("{following} replicas follow")) }
        })?;
        (0..self.nodes.len()).try_for_each(|node| self.children.check(node))
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl System for Redis {
    fn side(&self) -> Side {
        let replicas = self.nodes.len() - 1;
        let words = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut configuration = vec![
            words("appendonly", "yes"),
            words("appendfsync", "always"),
            words("save", ""),
            words("auto-aof-rewrite-percentage", "0"),
            words("maxclients", CLIENTS_MAX),
        ];
        if replicas > 0 {
            configuration.push(words("after each write", "WAIT 1 0"));
            // Replicas need not wait for others before they get a copy; it changes nothing once they follow.
            configuration.push(words("repl-diskless-sync-delay", "0"));
        }
        let (id, name, durability, consistency) = if replicas == 0 {
            ("redis", "1 node", "fsynced on the one node", "linearizable while the one node lives")
        } else {
            // redis.io, "WAIT": a failover may still lose a write that a replica has confirmed. A replica says what it has received, not
            // what it has synced (WAITAOF does that from 7.2 on).
            let durability =
                "fsynced on the primary and received by one replica; a failover, which is by hand, may lose it";
            ("redis-wait", "1 primary, replicas", durability, "the primary's own; nothing after a failover")
        };
        let name = format!("Redis {}, {name}", self.version);
        let nodes = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let (durability, consistency) = (durability.to_owned(), consistency.to_owned());
        Side { id: id.to_owned(), name, nodes, durability, consistency, configuration }
    }

    fn names(&self) -> Vec<String> {
        (1..=self.nodes.len()).map(|number| format!("r{number}")).collect()
    }

    fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address().to_string()).collect()
    }

    fn after_write(&self) -> Option<Vec<String>> {
        // Without end: too few replicas show as writes that are not answered, never as ones that seem to be.
        (self.nodes.len() > 1).then(|| ["WAIT", "1", "0"].map(str::to_owned).to_vec())
    }

    fn leader(&self) -> Result<usize, String> {
        if self.children.answers(0) {
            Ok(0)
        } else {
            Err("the primary does not run, and nobody takes its place".to_owned())
        }
    }

    fn is_current(&self, node: usize) -> bool {
        let info = self.nodes.get(node).map(|asker| asker.text(&["INFO"], ASK_PATIENCE));
        let follows = |info: &str| node == 0 || info.contains("master_link_status:up");
        info.is_some_and(|info| info.is_ok_and(|info| info.contains("loading:0") && follows(&info)))
    }

    fn counters(&self) -> Counters {
        Counters::of_processes(self.process_ids())
    }

    process_faults!();
}
