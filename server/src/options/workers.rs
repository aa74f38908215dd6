//! What `--workers` makes of the settings of a machine: those of each worker loop, which is a node of its own. [Why
//! so](../../../docs/decisions/2026-11-26-workers.md).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use base::limits::{NODE_NAME_BYTES_MAX, NODES_MAX};

use super::Options;

/// Most worker loops of a machine: those of four fill a cluster.
pub(super) const WORKERS_MAX: u16 = 16;
const _: () = assert!(WORKERS_MAX as usize <= NODES_MAX);

impl Options {
    /// Whether there can be so many workers with these settings.
    pub(super) fn check_workers(&self) -> Result<(), String> {
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(format!("--workers {}: choose 1 to {WORKERS_MAX}", self.workers));
        }
        if self.workers == 1 {
            return Ok(());
        }
        if self.resp.port() == 0 {
            return Err("--workers: give --resp a port; the workers share it, and have to know which".to_owned());
        }
        let names = self.worker_name(self.workers).len();
        if names > NODE_NAME_BYTES_MAX {
            return Err(format!("--node {}: too long with --workers, which puts a number behind it", self.name));
        }
        let mut taken = BTreeMap::from([(self.resp, "--resp")]);
        for number in 1..=self.workers {
            let Options { http, cluster_address, .. } = self.clone().of_worker(number, None)?;
            let cluster_address = cluster_address.map(|address| (address, "--cluster-address"));
            for (address, flag) in [(http, "--http")].into_iter().chain(cluster_address).filter(|(it, _)| it.port() > 0)
            {
                if let Some(other) = taken.insert(address, flag) {
                    return Err(format!(
                        "--workers {}: worker {number} needs {address} for {flag}, and {other} has it; leave room between them",
                        self.workers
                    ));
                }
            }
        }
        Ok(())
    }

    /// The settings of one of the workers; `token` lets one join that has not yet.
    pub(crate) fn of_worker(mut self, number: u16, token: Option<String>) -> Result<Options, String> {
        if !(1..=self.workers).contains(&number) {
            return Err(format!("--worker {number}: there are {} of them", self.workers));
        }
        // What fails as one is the machine.
        if self.zone.is_empty() && self.workers > 1 {
            self.zone.clone_from(&self.name);
        }
        self.cache.quota_bytes = (self.cache.quota_bytes / u64::from(self.workers)).max(1);
        self.worker = Some(number);
        let above = number - 1;
        if above == 0 {
            return Ok(self);
        }
        let first = self.first_peer_address()?;
        let announced = port_above("the address for the other nodes", &first, above)?;
        if let Some((founders, _)) = &self.founding
            && let Some(other) = founders.iter().find(|founder| founder.peer_address == announced)
        {
            return Err(format!(
                "--workers: worker {number} needs {announced}, which --cluster gives to {}; leave {} ports above that of {} free",
                other.name,
                self.workers - 1,
                self.name
            ));
        }
        self.peer = self.peer.map(|peer| port_above("--peer", &peer, above)).transpose()?;
        self.peer_announce = Some(announced);
        self.http = address_above("--http", self.http, above)?;
        self.cluster_address =
            self.cluster_address.map(|it| address_above("--cluster-address", it, above)).transpose()?;
        self.cluster_announce =
            self.cluster_announce.map(|it| port_above("--cluster-announce", &it, above)).transpose()?;
        self.name = self.worker_name(number);
        self.dir.push(format!("worker-{number}"));
        self.founding = None;
        self.join = Some(first);
        self.token = token;
        Ok(self)
    }

    /// How a worker is called as a node: the first one as the machine.
    pub(crate) fn worker_name(&self, number: u16) -> String {
        if number == 1 { self.name.clone() } else { format!("{}.{number}", self.name) }
    }

    /// Where the other nodes reach the first worker.
    fn first_peer_address(&self) -> Result<String, String> {
        let founder = self.founding.as_ref().map(|(founders, me)| founders[usize::from(me.0)].peer_address.clone());
        self.peer_announce.clone().or(founder).or(self.peer.clone()).ok_or_else(|| {
            "--workers: give --peer IP:PORT (or --peer-announce), at which the first worker is reached: the others have the ports above it".to_owned()
        })
    }
}

fn port_above(what: &str, address: &str, above: u16) -> Result<String, String> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let port = port.parse::<u16>().map_err(|_| format!("{what} {address}: write it as HOST:PORT"))?;
    Ok(format!("{host}:{}", above_port(what, port, above)?))
}

fn address_above(what: &str, mut address: SocketAddr, above: u16) -> Result<SocketAddr, String> {
    // With 0 the system chooses for each of them.
    if address.port() > 0 {
        address.set_port(above_port(what, address.port(), above)?);
    }
    Ok(address)
}

fn above_port(what: &str, port: u16, above: u16) -> Result<u16, String> {
    port.checked_add(above).ok_or_else(|| format!("{what}: above port {port} is no room for the ports of the workers"))
}
