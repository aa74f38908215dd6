//! Three nodes as processes of their own, to be killed, frozen, started again and robbed of their folders.
//!
//! - **Ports.** A node keeps its ports while it is dead, and other tests look for free ones meanwhile. A cluster takes ports
//!   that end in digits which no other test here uses, and holds the UDP port of the same ten against its likes.
//! - **Ends.** A node dies with this process; see common/process.rs.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::common::bell::Bell;
use crate::common::process::Process;
use crate::common::{Client, base_port, dictum, status};

/// Nodes of a cluster.
pub const NODES: usize = 3;
/// Last digits of the ports for clients and for peers; the other tests use 0, 1, 2 and 5.
const RESP_DIGITS: [u16; NODES] = [3, 4, 6];
const PEER_DIGITS: [u16; NODES] = [7, 8, 9];
/// Lines of each node's log that a failed test shows.
const LOG_LINES_SHOWN: usize = 25;

/// A node, running or not.
pub struct Node {
    pub name: String,
    /// Where it serves RESP.
    pub resp: String,
    /// Its data folder.
    pub dir: PathBuf,
    arguments: Vec<String>,
    process: Option<Process>,
    /// What its earlier runs have logged.
    earlier: Vec<String>,
}

impl Node {
    fn run(&mut self, bell: &Arc<Bell>) {
        assert!(self.process.is_none(), "{} runs already", self.name);
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.process = Some(Process::spawn(dictum(&arguments), bell));
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("it runs")
    }

    fn has_ended(&self) -> bool {
        self.process.as_ref().is_some_and(Process::has_ended)
    }
}

/// Three nodes and their folder. All ends when this is dropped.
pub struct Cluster {
    pub nodes: Vec<Node>,
    pub bell: Arc<Bell>,
    _folder: TempDir,
    _ports: UdpSocket,
}

impl Cluster {
    /// A new cluster that takes writes on every node. `more`: further flags of every node.
    pub fn start(more: &[&str]) -> Cluster {
        let bell = Arc::new(Bell::default());
        // Another program may hold one of the ports; then all are tried elsewhere.
        let mut cluster = bell.wait_for("a cluster on free ports", || Cluster::try_start(more, &bell));
        cluster.wait_until_ready();
        cluster
    }

    fn try_start(more: &[&str], bell: &Arc<Bell>) -> Option<Cluster> {
        let base_port = base_port();
        let ports = UdpSocket::bind(("127.0.0.1", base_port)).ok()?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let address = |digit: u16| format!("127.0.0.1:{}", base_port + digit);
        let name = |index: usize| format!("n{}", index + 1);
        let members: Vec<String> =
            (0..NODES).map(|index| format!("{}={}", name(index), address(PEER_DIGITS[index]))).collect();
        let members = members.join(",");
        let node = |index: usize| {
            let (name, resp, dir) = (name(index), address(RESP_DIGITS[index]), folder.path().join(name(index)));
            let dir_text = dir.to_str().expect("the folder's name is text");
            let arguments = ["start", "--node", &name, "--cluster", &members, "--resp", &resp, "--http", "127.0.0.1:0"];
            let arguments = [&arguments[..], &["--dir", dir_text], more].concat();
            let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
            Node { name, resp, dir, arguments, process: None, earlier: Vec::new() }
        };
        let nodes = (0..NODES).map(node).collect();
        let mut cluster = Cluster { nodes, bell: Arc::clone(bell), _folder: folder, _ports: ports };
        for node in &mut cluster.nodes {
            node.run(bell);
        }
        bell.wait_for("the start of all nodes", || {
            cluster.nodes.iter().all(|node| node.process().listens() || node.has_ended()).then_some(())
        });
        let lacks_port =
            |node: &Node| node.has_ended() && node.process().has_said("is in use by another process; stop");
        let taken = cluster.nodes.iter().any(lacks_port);
        (!taken).then_some(cluster)
    }

    /// Looks until there is something; fails at once if a node has ended by itself.
    pub fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        self.bell.wait_for(what, || {
            for node in &self.nodes {
                assert!(!node.has_ended(), "{} has ended by itself while waiting for {what}", node.name);
            }
            look()
        })
    }

    /// Where all nodes serve RESP.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.resp.clone()).collect()
    }

    /// The nodes but this one.
    pub fn others(&self, index: usize) -> Vec<usize> {
        (0..NODES).filter(|&other| other != index).collect()
    }

    /// One of these nodes that takes itself for the leader.
    pub fn leader_among(&self, among: &[usize]) -> usize {
        self.wait_for("a leader", || {
            let leads = |&index: &usize| {
                let node = &self.nodes[index];
                node.process.is_some() && status(&node.resp).is_some_and(|status| status["leader"] == *node.name)
            };
            among.iter().copied().find(leads)
        })
    }

    /// The node that takes itself for the leader.
    pub fn leader(&self) -> usize {
        self.leader_among(&[0, 1, 2])
    }

    /// Waits until `index` counts on `other` no longer.
    pub fn wait_until_missed(&self, index: usize, other: usize) {
        let name = &self.nodes[other].name;
        self.wait_for(&format!("the news that {name} is away"), || {
            let status = status(&self.nodes[index].resp)?;
            let known = status["nodes"].as_array()?.iter().find(|node| node["name"] == **name)?.clone();
            (known["up"] == false).then_some(())
        });
    }

    /// Ends nodes as the power does.
    pub fn kill(&mut self, indices: &[usize]) {
        for &index in indices {
            self.nodes[index].process().send(Signal::KILL);
        }
        for &index in indices {
            let node = &mut self.nodes[index];
            node.earlier.extend(node.process.take().expect("it ran").kill());
        }
    }

    /// Starts nodes that do not run, and waits until they listen.
    pub fn restart(&mut self, indices: &[usize]) {
        for &index in indices {
            self.nodes[index].run(&self.bell);
        }
        for &index in indices {
            let node = &self.nodes[index];
            self.wait_for(&format!("the start of {}", node.name), || node.process().listens().then_some(()));
        }
    }

    /// Waits until every node takes part and takes a write. One that has recovered something votes again by then.
    pub fn wait_until_ready(&mut self) {
        for node in &self.nodes {
            self.wait_for(&format!("{} to take a write", node.name), || {
                let reply = Client::connect(&node.resp).and_then(|mut client| client.call(&["SET", "ready", "yes"]));
                reply.is_ok_and(|reply| reply.as_error().is_none()).then_some(())
            });
            self.wait_for(&format!("{} to take part", node.name), || {
                let status = status(&node.resp)?;
                let me = status["nodes"].as_array()?.iter().find(|node| node["me"] == true)?.clone();
                matches!(me["role"].as_str()?, "leader" | "follower").then_some(())
            });
        }
    }

    /// Freezes a node, or lets it go on.
    pub fn send(&self, index: usize, what: Signal) {
        self.nodes[index].process().send(what);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            for node in &self.nodes {
                let now = node.process.as_ref().map(Process::lines).unwrap_or_default();
                let lines = [&node.earlier[..], &now].concat();
                eprintln!("--- the end of {}'s log", node.name);
                lines.iter().skip(lines.len().saturating_sub(LOG_LINES_SHOWN)).for_each(|line| eprintln!("{line}"));
            }
        }
    }
}
