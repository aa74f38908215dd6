//! Cassandra: three Java machines on 127.0.0.1, 127.0.0.2 and 127.0.0.3, because all nodes of a cluster have the same ports. The table is
//! made by the driver when it fills records in (`lab-peers/src/cassandra.rs`).

mod settings;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::children::Children;
use super::super::counters::Counters;
use super::super::place::{Folder, free_addresses};
use super::super::process::{guarded, without_input};
use super::super::system::System;
use super::{ASK_PATIENCE, Place, process_faults, wait};
use crate::faults::noise::Neighbours;
use crate::record::Side;
use settings::{COMMIT_LOG_SYNC, HEAP, NodeSettings, REQUEST_TIMEOUT, java_options};

/// How Java is installed.
const JAVA_ADVICE: &str = "install Java 17 (the package openjdk-17-jre-headless on Debian), which Cassandra 5.0 runs on; or leave this side out";
/// How Cassandra is installed.
const ADVICE: &str = "run `bench/peers --only dictum,cassandra --prepare` once, which lets Maven fetch it into bench/work/bin/cassandra, or \
                      unpack a release of Cassandra 5.0 from cassandra.apache.org and name its folder in CASSANDRA_HOME; or leave this \
                      side out";
/// The folder of its jars below one of programs.
const JARS: &str = "cassandra";
/// What the jar with the server is called, before its version: from Maven, and in a release.
const SERVER_JARS: [&str; 2] = ["cassandra-all-", "apache-cassandra-"];
/// How long three Java machines may take to serve, on few cores.
const START_PATIENCE: Duration = Duration::from_secs(240);
/// Nodes: as many as each row has replicas.
const NODES: usize = 3;
/// How often ports are drawn that must be free on all three addresses.
const ATTEMPTS_MAX: u32 = 100;
/// The question what a server speaks, in the binary protocol's fourth version ("CQL BINARY PROTOCOL v4", 4.1.3 OPTIONS): version,
/// flags, stream (2 bytes), opcode, length (4 bytes).
const OPTIONS: [u8; 9] = [0x04, 0, 0, 0, 0x05, 0, 0, 0, 0];
/// The opcode of the answer, SUPPORTED, and the place it has.
const SUPPORTED: (usize, u8) = (4, 0x06);

/// A Cassandra cluster that runs. It ends, and its folder goes, when this is dropped.
#[derive(Debug)]
pub struct Cassandra {
    version: String,
    guard: PathBuf,
    clients: Vec<SocketAddr>,
    children: Children,
    noise: Neighbours,
    folder: Folder,
}

impl Cassandra {
    /// Starts the nodes, all at once, and waits until each serves clients.
    ///
    /// # Errors
    /// When Java or Cassandra is not there, or does not serve; the text shows the logs' last lines then.
    pub fn start(place: &Place) -> Result<Cassandra, String> {
        let java = place.find("java", JAVA_ADVICE)?;
        let home = std::env::var_os("CASSANDRA_HOME").map(|home| PathBuf::from(home).join("lib"));
        let folders = place.programs.iter().map(|folder| folder.join(JARS)).chain(home);
        let (jars, version) = find_jars(folders)?;
        let folder = Folder::make(&place.parent)?;
        let (client_port, peer_port) = (free_port()?, free_port()?);
        let mut children = Children::default();
        for node in 0..NODES {
            let name = name(node);
            let data = folder.path().join(&name);
            let settings = NodeSettings { node, nodes: NODES, address, data: &data, client_port, peer_port };
            settings.write()?;
            let options = java_options(&data, &jars);
            let (guard, java) = (place.guard.clone(), java.clone());
            let make = move || {
                let mut command = guarded(&guard, &java);
                command.args(&options);
                without_input(&mut command);
                command
            };
            children.add(&name, folder.path().join(format!("{name}.log")), Box::new(make));
        }
        let clients = (0..NODES).map(|node| SocketAddr::from((address(node), client_port))).collect();
        let (guard, noise) = (place.guard.clone(), Neighbours::default());
        let cassandra = Cassandra { version, guard, clients, children, noise, folder };
        (0..NODES).try_for_each(|node| cassandra.children.start(node))?;
        cassandra.wait_until_ready().map_err(|reason| {
            cassandra.folder.keep();
            format!("Cassandra does not serve: {reason}\n{}", cassandra.children.tails())
        })?;
        Ok(cassandra)
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        wait(START_PATIENCE, || {
            let ended = (0..NODES).try_for_each(|node| self.children.check(node));
            if ended.is_err() {
                return Ok(());
            }
            self.clients.iter().try_for_each(|address| ask_options(*address, ASK_PATIENCE))
        })?;
        (0..NODES).try_for_each(|node| self.children.check(node))
    }
}

fn name(node: usize) -> String {
    format!("c{}", node + 1)
}

/// Of the whole network 127.0.0.0/8, which is loopback on Linux without more ado.
fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 1 + node as u8)
}

/// A port that nobody uses on any of the nodes' addresses.
fn free_port() -> Result<u16, String> {
    let mut refused = String::new();
    for _ in 0..ATTEMPTS_MAX {
        let port = free_addresses(1)?[0].port();
        let others: Result<Vec<TcpListener>, _> =
            (1..NODES).map(|node| TcpListener::bind((address(node), port))).collect();
        match others {
            Ok(_) => return Ok(port),
            Err(error) => refused = error.to_string(),
        }
    }
    let (second, last) = (address(1), address(NODES - 1));
    Err(format!("nothing can listen on {second} to {last}, which Cassandra's nodes need: {refused}"))
}

/// The first folder with the server's jar, and that jar's version.
fn find_jars(folders: impl Iterator<Item = PathBuf>) -> Result<(PathBuf, String), String> {
    let version = |folder: &Path| {
        let names = std::fs::read_dir(folder).ok()?.flatten();
        names.filter_map(|entry| version_of_jar(entry.file_name().to_str()?)).next()
    };
    let mut found = folders.filter_map(|folder| Some((folder.canonicalize().ok()?, version(&folder)?)));
    found.next().ok_or_else(|| format!("Cassandra is not on this machine: {ADVICE}"))
}

fn version_of_jar(name: &str) -> Option<String> {
    let behind = SERVER_JARS.iter().find_map(|start| name.strip_prefix(start))?;
    let version = behind.strip_suffix(".jar")?;
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
}

/// Whether the node serves clients, which it does when it has joined the others.
fn ask_options(address: SocketAddr, patience: Duration) -> Result<(), String> {
    let ask = || -> std::io::Result<[u8; 9]> {
        let mut stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.write_all(&OPTIONS)?;
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        Ok(head)
    };
    let head = ask().map_err(|error| format!("{address}: {error}"))?;
    let (place, opcode) = SUPPORTED;
    if head[place] == opcode { Ok(()) } else { Err(format!("{address} does not answer as Cassandra does")) }
}

impl System for Cassandra {
    fn side(&self) -> Side {
        let words = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Side {
            id: "cassandra".to_owned(),
            name: format!("Cassandra {}", self.version),
            nodes: NODES as u32,
            durability: "fsynced on a majority".to_owned(),
            // Without lightweight transactions: a write that failed stays where it arrived and may be seen later, or not; of two that
            // overlap the one with the greater time of the clock stays.
            consistency: "QUORUM, the latest clock wins: not linearizable beside writes that fail or overlap"
                .to_owned(),
            configuration: vec![
                words("commitlog_sync", COMMIT_LOG_SYNC),
                words("replication factor", "3"),
                words("consistency level", "QUORUM for reads and writes, no lightweight transactions"),
                words("request timeouts", REQUEST_TIMEOUT),
                words("heap of each node", HEAP),
                words("killed", "one of the nodes, as none leads"),
            ],
        }
    }

    fn names(&self) -> Vec<String> {
        (0..NODES).map(name).collect()
    }

    fn addresses(&self) -> Vec<String> {
        self.clients.iter().map(SocketAddr::to_string).collect()
    }

    /// Nobody leads here. The first node that serves stands for it: where one is to be disturbed, it may be any.
    fn leader(&self) -> Result<usize, String> {
        (0..NODES).find(|node| self.is_current(*node)).ok_or_else(|| "no node serves".to_owned())
    }

    fn is_current(&self, node: usize) -> bool {
        self.children.answers(node)
            && self.clients.get(node).is_some_and(|address| ask_options(*address, ASK_PATIENCE).is_ok())
    }

    fn counters(&self) -> Counters {
        Counters::of_processes(self.process_ids())
    }

    process_faults!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jars_tell_the_version_and_where_there_are_none_the_way_to_get_them() {
        assert_eq!(version_of_jar("cassandra-all-5.0.6.jar").as_deref(), Some("5.0.6"));
        assert_eq!(version_of_jar("apache-cassandra-5.0-beta1.jar").as_deref(), Some("5.0-beta1"));
        assert_eq!(version_of_jar("cassandra-driver-core-3.11.5.jar"), None);
        assert_eq!(version_of_jar("apache-cassandra-thrift-5.0.jar"), None);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (empty, full) = (folder.path().join("empty"), folder.path().join("full"));
        for one in [&empty, &full] {
            std::fs::create_dir(one).expect("a folder");
        }
        std::fs::write(full.join("cassandra-all-5.0.6.jar"), "").expect("a file");
        let found = find_jars([empty.clone(), full].into_iter()).expect("it is there");
        assert_eq!((found.0.ends_with("full"), found.1.as_str()), (true, "5.0.6"));
        let told = find_jars([empty].into_iter()).expect_err("it is not there");
        assert!(told.contains("--prepare") && told.contains("CASSANDRA_HOME"), "{told}");
    }

    #[test]
    fn a_node_serves_when_it_says_what_it_speaks() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let server = std::thread::spawn(move || {
            for opcode in [0x06, 0x00] {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut question = [0; 9];
                stream.read_exact(&mut question).expect("a question");
                assert_eq!(question, OPTIONS);
                stream.write_all(&[0x84, 0, 0, 0, opcode, 0, 0, 0, 0]).expect("it listens");
            }
        });
        let patience = Duration::from_secs(20);
        assert_eq!(ask_options(address, patience), Ok(()));
        assert!(ask_options(address, patience).expect_err("an error").contains("not answer as Cassandra"));
        server.join().expect("both were asked");
        assert!(ask_options(address, patience).is_err(), "nobody listens");
    }
}
