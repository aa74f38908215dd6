//! etcd: three nodes, or as many as are asked for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::Value as Json;

use super::super::ask::http;
use super::super::children::Children;
use super::super::counters::{Counters, MetricNames, NodeCounters};
use super::super::place::{Folder, free_addresses};
use super::super::process::{guarded, without_input};
use super::super::system::System;
use super::{ASK_PATIENCE, Place, START_PATIENCE, process_faults, wait};
use crate::environment::program_version;
use crate::faults::noise::Neighbours;
use crate::record::Side;

/// How it is installed.
const ADVICE: &str = "run bench/peers once, which builds it with Go into bench/work/bin, or get a release from \
                      github.com/etcd-io/etcd/releases and put its folder into PATH; or leave this side out";
/// Most bytes of its store: the largest that its documentation advises, so that a long run does not fill it.
const QUOTA_BYTES: u64 = 8 << 30;
/// A node that lacks no more log entries than this is current: under load some are always on their way.
const LAG_MAX: u64 = 100;
/// What etcd calls its figures (etcd.io, "Metrics").
const METRICS: MetricNames = MetricNames {
    fsyncs: "etcd_disk_wal_fsync_duration_seconds_count",
    messages: "",
    message_bytes: "etcd_network_peer_received_bytes_total",
};

/// An etcd cluster that runs. It ends, and its folder goes, when this is dropped.
#[derive(Debug)]
pub struct Etcd {
    version: String,
    guard: PathBuf,
    clients: Vec<SocketAddr>,
    children: Children,
    noise: Neighbours,
    folder: Folder,
}

/// What a node says of itself.
struct Status {
    member: String,
    leader: String,
    applied: u64,
}

impl Etcd {
    /// Starts the nodes and waits until they agree on a leader.
    ///
    /// # Errors
    /// When etcd is not there, or does not serve; the text shows the logs' last lines then.
    pub fn start(place: &Place, nodes: usize) -> Result<Etcd, String> {
        if nodes == 0 || nodes > 7 {
            return Err(format!("an etcd of {nodes} nodes is not what its documentation recommends; choose 1 to 7"));
        }
        let program = place.find("etcd", ADVICE)?;
        let version = program_version(&program)?;
        let folder = Folder::make(&place.parent)?;
        let addresses = free_addresses(2 * nodes)?;
        let (clients, peers) = addresses.split_at(nodes);
        let members: Vec<String> =
            peers.iter().enumerate().map(|(node, peer)| format!("e{}=http://{peer}", node + 1)).collect();
        let members = members.join(",");
        let mut children = Children::default();
        for (node, (client, peer)) in clients.iter().zip(peers).enumerate() {
            let name = format!("e{}", node + 1);
            let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
            let settings = [
                ("--name", name.clone()),
                ("--data-dir", folder.path().join(&name).to_string_lossy().into_owned()),
                ("--listen-client-urls", client.clone()),
                ("--advertise-client-urls", client),
                ("--listen-peer-urls", peer.clone()),
                ("--initial-advertise-peer-urls", peer),
                ("--initial-cluster", members.clone()),
                // Ignored by a node that finds its data, so the same words start it again.
                ("--initial-cluster-state", "new".to_owned()),
                ("--quota-backend-bytes", QUOTA_BYTES.to_string()),
                ("--log-level", "error".to_owned()),
            ];
            let (guard, program) = (place.guard.clone(), program.clone());
            let make = move || {
                let mut command = guarded(&guard, &program);
                command.args(settings.iter().flat_map(|(name, value)| [*name, value.as_str()]));
                without_input(&mut command);
                command
            };
            children.add(&name, folder.path().join(format!("{name}.log")), Box::new(make));
        }
        let (guard, clients) = (place.guard.clone(), clients.to_vec());
        let etcd = Etcd { version, guard, clients, children, noise: Neighbours::default(), folder };
        (0..nodes).try_for_each(|node| etcd.children.start(node))?;
        etcd.wait_until_ready().map_err(|reason| {
            etcd.folder.keep();
            format!("etcd does not serve: {reason}\n{}", etcd.children.tails())
        })?;
        Ok(etcd)
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        wait(START_PATIENCE, || {
            let ended = (0..self.clients.len()).try_for_each(|node| self.children.check(node));
            if ended.is_err() {
                return Ok(());
            }
            (0..self.clients.len()).try_for_each(|node| self.status(node).map(|_| ()))?;
            self.leader().map(|_| ())
        })?;
        (0..self.clients.len()).try_for_each(|node| self.children.check(node))
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// By the JSON gateway (etcd.io, "Why gRPC gateway"): numbers of 64 bits are texts there, and what is zero is left out.
    fn status(&self, node: usize) -> Result<Status, String> {
        let address = *self.clients.get(node).ok_or_else(|| format!("there is no node with the number {node}"))?;
        let (code, body) = http(address, "POST /v3/maintenance/status", "{}", ASK_PATIENCE)?;
        let json: Json =
            serde_json::from_str(&body).map_err(|error| format!("{address} answers {code}, and no JSON: {error}"))?;
        let text = |value: &Json| value.as_str().unwrap_or("0").to_owned();
        Ok(Status {
            member: text(&json["header"]["member_id"]),
            leader: text(&json["leader"]),
            applied: text(&json["raftAppliedIndex"]).parse().unwrap_or(0),
        })
    }

    /// The states of those that answer, by number.
    fn statuses(&self) -> Vec<(usize, Status)> {
        let answering = (0..self.clients.len()).filter(|node| self.children.answers(*node));
        answering.filter_map(|node| Some((node, self.status(node).ok()?))).collect()
    }
}

impl System for Etcd {
    fn side(&self) -> Side {
        Side {
            id: "etcd".to_owned(),
            name: format!("etcd {}", self.version),
            nodes: u32::try_from(self.clients.len()).unwrap_or(u32::MAX),
            durability: "fsynced on a majority".to_owned(),
            consistency: "linearizable".to_owned(),
            configuration: vec![("quota-backend-bytes".to_owned(), QUOTA_BYTES.to_string())],
        }
    }

    fn names(&self) -> Vec<String> {
        (1..=self.clients.len()).map(|number| format!("e{number}")).collect()
    }

    fn addresses(&self) -> Vec<String> {
        self.clients.iter().map(SocketAddr::to_string).collect()
    }

    fn leader(&self) -> Result<usize, String> {
        let statuses = self.statuses();
        let votes = |member: &str| statuses.iter().filter(|(_, status)| status.leader == member).count();
        let chosen = statuses.iter().find(|(_, status)| 2 * votes(&status.member) > self.clients.len());
        chosen.map(|(node, _)| *node).ok_or_else(|| "no node is taken for the leader by a majority".to_owned())
    }

    fn is_current(&self, node: usize) -> bool {
        let statuses = self.statuses();
        let most = statuses.iter().map(|(_, status)| status.applied).max().unwrap_or(0);
        statuses
            .iter()
            .any(|(other, status)| *other == node && status.leader != "0" && most - status.applied <= LAG_MAX)
    }

    fn counters(&self) -> Counters {
        let of_node = |(address, id): (&SocketAddr, Option<u32>)| {
            let mut counters = NodeCounters::of_process(id?).ok()?;
            if let Ok((200, text)) = http(*address, "GET /metrics", "", ASK_PATIENCE) {
                counters.add_metrics(&text, METRICS);
            }
            Some(counters)
        };
        let nodes = self.clients.iter().zip(self.process_ids()).map(of_node).collect();
        Counters { at: Some(Instant::now()), nodes }
    }

    process_faults!();
}
