//! A cluster of Dictum: `dictum start` once for each node, on free ports of loopback, in a fresh folder.
//!
//! 1. find ports and a folder; start relays between the nodes if links are to be cut
//! 2. start the nodes; each names the others by the addresses at which it reaches them, its own or the relays'
//! 3. wait until every node is ready, all see one another, and a write is accepted
//! 4. set the levels of durability and consistency that are asked for

mod buckets;
mod start;
pub(crate) mod status;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::ask::{Asker, http};
use super::children::Children;
use super::counters::{Counters, MetricNames, NodeCounters};
use super::place::Folder;
use super::system::{Cut, System};
use crate::faults::noise::Neighbours;
use crate::faults::relay::Relays;
use crate::record::Side;
use status::Status;

/// How long one question may take.
const ASK_PATIENCE: Duration = Duration::from_millis(500);
/// How long a node may take to stop in good order before it is started again.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// A node that lacks no more entries than this that any node knows to be decided is current: under load some are always on their way.
const LAG_MAX: u64 = 100;
/// The file in a node's folder that says how much longer a sync takes (server/src/fault.rs).
const SYNC_DELAY_FILE: &str = "fault-sync-delay";
/// What Dictum calls its figures (server/src/http/metrics.rs).
const METRICS: MetricNames = MetricNames {
    fsyncs: "dictum_journal_syncs_total",
    messages: "dictum_peer_messages_total",
    message_bytes: "dictum_peer_bytes_total",
};

/// What cluster is to be started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program `dictum`.
    pub program: PathBuf,
    /// How many nodes, 1 to 7.
    pub nodes: usize,
    /// A fresh folder for the data is made below this one; it should lie on the disk that is to be measured.
    pub parent: PathBuf,
    /// Further arguments of `dictum start`, for all nodes.
    pub arguments: Vec<String>,
    /// Further arguments of `dictum start` for one node, by its number from 0.
    pub node_arguments: BTreeMap<usize, Vec<String>>,
    /// Memory for values, as `--memory-quota` takes it (`64MiB`); else Dictum's default.
    pub memory_quota: Option<String>,
    /// `majority`, `persist-majority` or `all`; else Dictum's default.
    pub durability: Option<String>,
    /// `linearizable`, `session` or `local`; else Dictum's default.
    pub consistency: Option<String>,
    /// Whether links can be cut and slowed down. Each message then takes a way through the laboratory, which costs some processor time.
    pub relays: bool,
    /// Whether disks can be made slow.
    pub slow_disks: bool,
    /// How long the start may take.
    pub patience: Duration,
    /// Whether the folder stays when the cluster is gone.
    pub keep: bool,
}

impl Default for Options {
    /// Three nodes of this program, below the system's folder for temporary files, with Dictum's own defaults, without faults that
    /// have to be prepared.
    fn default() -> Options {
        Options {
            program: std::env::current_exe().unwrap_or_else(|_| "dictum".into()),
            nodes: 3,
            parent: std::env::temp_dir(),
            arguments: Vec::new(),
            node_arguments: BTreeMap::new(),
            memory_quota: None,
            durability: None,
            consistency: None,
            relays: false,
            slow_disks: false,
            patience: Duration::from_secs(60),
            keep: false,
        }
    }
}

/// A cluster that runs. It ends, and its folder goes, when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    options: Options,
    version: String,
    nodes: Vec<Node>,
    // In this order, which is that of their end: no process may miss its folder.
    children: Children,
    noise: Neighbours,
    relays: Option<Relays>,
    folder: Folder,
}

/// Where a node is.
#[derive(Debug)]
struct Node {
    name: String,
    resp: Asker,
    http: SocketAddr,
    dir: PathBuf,
}

impl Cluster {
    /// Starts the nodes and waits until they serve.
    ///
    /// # Errors
    /// The text says what failed, with the last lines of the nodes' logs; the folder with the whole logs is kept then.
    pub fn start(options: Options) -> Result<Cluster, String> {
        let cluster = start::launch(options)?;
        cluster.wait_until_ready().and_then(|()| cluster.set_levels()).map_err(|reason| {
            cluster.folder.keep();
            let folder = cluster.folder.path().display();
            format!(
                "the cluster does not serve: {reason}\n{}\nthe whole logs are in {folder}",
                cluster.children.tails()
            )
        })?;
        if cluster.options.keep {
            cluster.folder.keep();
        }
        Ok(cluster)
    }

    /// The nodes' addresses for HTTP, by number.
    #[must_use]
    pub fn http_addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.http.to_string()).collect()
    }

    /// The folder of all data and logs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder stays when the cluster is gone.
    pub fn keep_folder(&self) {
        self.folder.keep();
    }

    /// What `dictum --version` says.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Waits until every node has what the others have.
    ///
    /// # Errors
    /// When one has not after `patience`, or has ended.
    pub fn wait_until_current(&self, patience: Duration) -> Result<(), String> {
        let end = Instant::now() + patience;
        for node in 0..self.nodes.len() {
            start::wait(end, || {
                self.children.check(node)?;
                if self.is_current(node) { Ok(()) } else { Err(format!("{} is behind", self.nodes[node].name)) }
            })?;
        }
        Ok(())
    }

    fn node(&self, node: usize) -> Result<&Node, String> {
        self.nodes.get(node).ok_or_else(|| format!("there is no node with the number {node}"))
    }

    fn status(&self, node: usize) -> Result<Status, String> {
        let node = self.node(node)?;
        Status::parse(&node.resp.text(&["DICTUM.STATUS"], ASK_PATIENCE)?)
    }

    /// What the nodes say that answer, by number.
    fn statuses(&self) -> BTreeMap<usize, Status> {
        let answering = (0..self.nodes.len()).filter(|node| self.children.answers(*node));
        answering.filter_map(|node| Some((node, self.status(node).ok()?))).collect()
    }

    /// The node that a majority of all nodes take for the leader.
    fn elected(&self, votes: impl Iterator<Item = String>) -> Option<usize> {
        let mut counts = BTreeMap::new();
        votes.for_each(|name| *counts.entry(name).or_insert(0) += 1);
        let (name, _) = counts.into_iter().find(|(_, count)| 2 * count > self.nodes.len())?;
        self.nodes.iter().position(|node| node.name == name)
    }

    fn relays(&self) -> Result<&Relays, String> {
        let reason = "the cluster was started without relays between its nodes; ask for them when it is started";
        self.relays.as_ref().ok_or_else(|| reason.to_owned())
    }
}

impl System for Cluster {
    fn side(&self) -> Side {
        let options = &self.options;
        let mut configuration = Vec::new();
        let mut put = |name: &str, value: &str| configuration.push((name.to_owned(), value.to_owned()));
        if let Some(quota) = &options.memory_quota {
            put("memory-quota", quota);
        }
        if !options.arguments.is_empty() {
            put("arguments", &options.arguments.join(" "));
        }
        for (node, arguments) in &options.node_arguments {
            put(&format!("arguments of n{}", node + 1), &arguments.join(" "));
        }
        if self.relays.is_some() {
            put("links", "through relays of the laboratory");
        }
        if options.slow_disks {
            put("fault-sync-delay", "switchable");
        }
        let durability = match options.durability.as_deref() {
            Some("all") => "fsynced on all replicas".to_owned(),
            // On a persistent bucket `majority` is no weaker than `persist-majority` (docs/levels.md).
            _ => "fsynced on a majority".to_owned(),
        };
        Side {
            id: "dictum".to_owned(),
            name: format!("Dictum {}", self.version),
            nodes: u32::try_from(self.nodes.len()).unwrap_or(u32::MAX),
            durability,
            consistency: options.consistency.clone().unwrap_or_else(|| "linearizable".to_owned()),
            configuration,
        }
    }

    fn names(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.name.clone()).collect()
    }

    fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.resp.address().to_string()).collect()
    }

    fn prologue(&self) -> Vec<Vec<String>> {
        let levels =
            [("DICTUM.DURABILITY", &self.options.durability), ("DICTUM.CONSISTENCY", &self.options.consistency)];
        let command = |(name, level): (&str, &Option<String>)| Some(vec![name.to_owned(), level.clone()?]);
        levels.into_iter().filter_map(command).collect()
    }

    fn leader(&self) -> Result<usize, String> {
        let votes = self.statuses().into_values().filter_map(|status| status.leader());
        self.elected(votes).ok_or_else(|| "no node is taken for the leader by a majority".to_owned())
    }

    fn is_current(&self, node: usize) -> bool {
        let statuses = self.statuses();
        // A node that was cut off or held may think well of itself: what the others say counts.
        let decided = statuses.values().filter_map(Status::decided).max().unwrap_or(0);
        let (Some(leader), Some(status)) =
            (self.elected(statuses.values().filter_map(Status::leader)), statuses.get(&node))
        else {
            return false;
        };
        status.leader().is_some_and(|name| name == self.nodes[leader].name)
            && status.applied().is_some_and(|applied| applied + LAG_MAX >= decided)
            && http(self.nodes[node].http, "GET /readyz", "", ASK_PATIENCE).is_ok_and(|(code, _)| code == 200)
    }

    fn applied(&self) -> Vec<Option<u64>> {
        let statuses = self.statuses();
        (0..self.nodes.len()).map(|node| statuses.get(&node).and_then(Status::applied)).collect()
    }

    fn kill(&self, node: usize) -> Result<(), String> {
        self.children.kill(node)
    }

    fn terminate(&self, node: usize) -> Result<(), String> {
        self.children.terminate(node)
    }

    fn start_again(&self, node: usize) -> Result<(), String> {
        self.children.wait_for_end(node, STOP_PATIENCE)?;
        self.children.start(node)
    }

    fn pause(&self, node: usize) -> Result<(), String> {
        self.children.hold(node, true)
    }

    fn resume(&self, node: usize) -> Result<(), String> {
        self.children.hold(node, false)
    }

    fn cut(&self, node: usize, cut: Cut) -> Result<(), String> {
        self.node(node)?;
        let relays = self.relays()?;
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            relays.change(node, other, |way| way.open &= cut == Cut::Deaf);
            relays.change(other, node, |way| way.open &= cut == Cut::Mute);
        }
        Ok(())
    }

    fn heal(&self) -> Result<(), String> {
        self.relays()?.change_all(|way| way.open = true);
        Ok(())
    }

    fn slow_links(&self, node: usize, delay: Duration) -> Result<(), String> {
        self.node(node)?;
        let relays = self.relays()?;
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            relays.change(node, other, |way| way.delay = delay);
            relays.change(other, node, |way| way.delay = delay);
        }
        Ok(())
    }

    fn slow_disk(&self, node: usize, delay: Duration) -> Result<(), String> {
        if !self.options.slow_disks {
            return Err(
                "the cluster was started with disks that cannot be made slow; ask for it when it is started".to_owned()
            );
        }
        let dir = &self.node(node)?.dir;
        // By a new name first: it must never be read half written.
        let (new, file) = (dir.join("fault-sync-delay-new"), dir.join(SYNC_DELAY_FILE));
        let written = std::fs::write(&new, delay.as_millis().to_string()).and_then(|()| std::fs::rename(&new, &file));
        written.map_err(|error| format!("{} cannot be written: {error}", file.display()))
    }

    fn noise(&self, shares: &[f64]) -> Result<(), String> {
        self.noise.set(&self.options.program, shares)
    }

    fn check(&self) -> Result<(), String> {
        self.children.check_all()
    }

    fn process_ids(&self) -> Vec<Option<u32>> {
        (0..self.nodes.len()).map(|node| self.children.process_id(node)).collect()
    }

    fn counters(&self) -> Counters {
        let of_node = |(node, process_id): (&Node, Option<u32>)| {
            let mut counters = NodeCounters::of_process(process_id?).ok()?;
            if let Ok((200, text)) = http(node.http, "GET /metrics", "", ASK_PATIENCE) {
                counters.add_metrics(&text, METRICS);
            }
            Some(counters)
        };
        Counters { at: Some(Instant::now()), nodes: self.nodes.iter().zip(self.process_ids()).map(of_node).collect() }
    }
}
