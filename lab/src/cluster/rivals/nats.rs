//! NATS: three servers with JetStream, whose key-value bucket has a replica on each. The bucket itself is made by the driver when it
//! fills records in (`lab-peers/src/nats.rs`); the names are agreed on here and there.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::super::ask::http;
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
const ADVICE: &str = "run `bench/peers --only dictum,nats --prepare` once, which builds it with Go into bench/work/bin, or get a release \
                      from github.com/nats-io/nats-server/releases and put its folder into PATH; or leave this side out";
/// Servers: as many as the bucket has replicas.
const NODES: usize = 3;
/// The stream behind the bucket `lab`, as JetStream names it.
const STREAM: &str = "KV_lab";
/// When the log of the bucket's replicas is synced: before a write in it is acknowledged. The default, every two minutes, may lose writes
/// that were acknowledged.
const SYNC: &str = "always";

/// A NATS cluster that runs. It ends, and its folder goes, when this is dropped.
#[derive(Debug)]
pub struct Nats {
    version: String,
    guard: PathBuf,
    clients: Vec<SocketAddr>,
    monitors: Vec<SocketAddr>,
    children: Children,
    noise: Neighbours,
    folder: Folder,
}

impl Nats {
    /// Starts the servers and waits until they agree on who leads JetStream.
    ///
    /// # Errors
    /// When NATS is not there, or does not serve; the text shows the logs' last lines then.
    pub fn start(place: &Place) -> Result<Nats, String> {
        let program = place.find("nats-server", ADVICE)?;
        let version = program_version(&program)?.trim_start_matches('v').to_owned();
        let folder = Folder::make(&place.parent)?;
        let addresses = free_addresses(3 * NODES)?;
        let (clients, others) = addresses.split_at(NODES);
        let (monitors, routes) = others.split_at(NODES);
        let mut children = Children::default();
        for node in 0..NODES {
            let name = name(node);
            let settings = settings(&folder.path().join(&name), node, clients[node], monitors[node], routes);
            let path = folder.path().join(format!("{name}.conf"));
            std::fs::write(&path, settings)
                .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
            let (guard, program) = (place.guard.clone(), program.clone());
            let make = move || {
                let mut command = guarded(&guard, &program);
                command.arg("--config").arg(&path);
                without_input(&mut command);
                command
            };
            children.add(&name, folder.path().join(format!("{name}.log")), Box::new(make));
        }
        let (guard, clients, monitors) = (place.guard.clone(), clients.to_vec(), monitors.to_vec());
        let nats = Nats { version, guard, clients, monitors, children, noise: Neighbours::default(), folder };
        (0..NODES).try_for_each(|node| nats.children.start(node))?;
        nats.wait_until_ready().map_err(|reason| {
            nats.folder.keep();
            format!("NATS does not serve: {reason}\n{}", nats.children.tails())
        })?;
        Ok(nats)
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        wait(START_PATIENCE, || {
            let ended = (0..NODES).try_for_each(|node| self.children.check(node));
            if ended.is_err() {
                return Ok(());
            }
            (0..NODES).try_for_each(|node| self.healthy(node))?;
            self.leader().map(|_| ())
        })?;
        (0..NODES).try_for_each(|node| self.children.check(node))
    }

    fn monitor(&self, node: usize) -> Result<SocketAddr, String> {
        self.monitors.get(node).copied().ok_or_else(|| format!("there is no node with the number {node}"))
    }

    /// Whether it serves, and its replicas have what the leaders have.
    fn healthy(&self, node: usize) -> Result<(), String> {
        match http(self.monitor(node)?, "GET /healthz", "", ASK_PATIENCE)? {
            (200, _) => Ok(()),
            (_, body) => Err(format!("{}: {}", name(node), body.trim())),
        }
    }

    /// Whom it takes for the leader, by name.
    fn leader_seen_by(&self, node: usize) -> Option<String> {
        let (code, body) =
            http(self.monitor(node).ok()?, "GET /jsz?accounts=true&streams=true", "", ASK_PATIENCE).ok()?;
        (code == 200).then(|| leader_in(&serde_json::from_str(&body).ok()?)).flatten()
    }
}

fn name(node: usize) -> String {
    format!("n{}", node + 1)
}

/// The file that a server is started with (docs.nats.io, "Configuring NATS Server").
fn settings(data: &Path, node: usize, client: SocketAddr, monitor: SocketAddr, routes: &[SocketAddr]) -> String {
    let others: Vec<String> = routes.iter().map(|route| format!("\"nats-route://{route}\"")).collect();
    // The form takes JSON's escapes in texts.
    let data = Json::from(data.to_string_lossy()).to_string();
    format!(
        "server_name: \"{}\"\nlisten: \"{client}\"\nhttp: \"{monitor}\"\njetstream {{ store_dir: {data}, sync_interval: {SYNC} }}\n\
         cluster {{ name: \"lab\", listen: \"{}\", routes: [{}] }}\n",
        name(node),
        routes[node],
        others.join(", "),
    )
}

/// In what a server says of JetStream (`/jsz`): the leader of the bucket's stream, or of JetStream as long as there is no bucket.
fn leader_in(jsz: &Json) -> Option<String> {
    let accounts = jsz["account_details"].as_array().into_iter().flatten();
    let mut streams = accounts.flat_map(|account| account["stream_detail"].as_array().into_iter().flatten());
    let of = match streams.find(|stream| stream["name"] == STREAM) {
        Some(stream) => &stream["cluster"],
        None => &jsz["meta_cluster"],
    };
    of["leader"].as_str().filter(|leader| !leader.is_empty()).map(str::to_owned)
}

impl System for Nats {
    fn side(&self) -> Side {
        let words = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Side {
            id: "nats".to_owned(),
            name: format!("NATS {}, JetStream key-value", self.version),
            nodes: NODES as u32,
            durability: "fsynced on a majority".to_owned(),
            // A leader that was replaced and does not know it yet answers from what it has.
            consistency: "the leader's, which asks nobody whether it still leads: not linearizable around an election"
                .to_owned(),
            configuration: vec![
                words("sync_interval", SYNC),
                words("replicas of the bucket", "3"),
                words("history", "1"),
                words("allow_direct", "false"),
            ],
        }
    }

    fn names(&self) -> Vec<String> {
        (0..NODES).map(name).collect()
    }

    fn addresses(&self) -> Vec<String> {
        self.clients.iter().map(SocketAddr::to_string).collect()
    }

    fn leader(&self) -> Result<usize, String> {
        let answering = (0..NODES).filter(|node| self.children.answers(*node));
        let seen: Vec<String> = answering.filter_map(|node| self.leader_seen_by(node)).collect();
        let votes = |node: &usize| seen.iter().filter(|leader| **leader == name(*node)).count();
        (0..NODES)
            .find(|node| 2 * votes(node) > NODES)
            .ok_or_else(|| "no server is taken for the leader by a majority".to_owned())
    }

    fn is_current(&self, node: usize) -> bool {
        self.children.answers(node) && self.healthy(node).is_ok()
    }

    fn counters(&self) -> Counters {
        Counters::of_processes(self.process_ids())
    }

    process_faults!();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bucket_s_leader_counts_as_soon_as_there_is_a_bucket() {
        let stream = |name: &str, leader: &str| json!({ "name": name, "cluster": { "leader": leader } });
        let with = |streams: Json| json!({ "meta_cluster": { "leader": "n1" }, "account_details": [{ "stream_detail": streams }] });
        assert_eq!(leader_in(&json!({ "meta_cluster": { "leader": "n1" } })).as_deref(), Some("n1"));
        assert_eq!(leader_in(&with(json!([stream("other", "n2")]))).as_deref(), Some("n1"));
        assert_eq!(leader_in(&with(json!([stream("other", "n2"), stream(STREAM, "n3")]))).as_deref(), Some("n3"));
        assert_eq!(leader_in(&with(json!([stream(STREAM, "")]))), None, "while an election is under way");
        assert_eq!(leader_in(&json!({})), None);
    }

    #[test]
    fn each_server_is_told_of_all_and_syncs_before_it_answers() {
        let addresses: Vec<SocketAddr> = (1..=5).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let told = settings(Path::new("/data \"1\""), 1, addresses[0], addresses[1], &addresses[2..]);
        for part in [
            "server_name: \"n2\"",
            "listen: \"127.0.0.1:4\"",
            "sync_interval: always",
            "store_dir: \"/data \\\"1\\\"\"",
            "routes: [\"nats-route://127.0.0.1:3\", \"nats-route://127.0.0.1:4\", \"nats-route://127.0.0.1:5\"]",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }
}
