//! Nodes on hosts of their own: they are killed, told to stop, robbed of their folders, and started again.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use lab::faults::relay::Relays;
use serde_json::Value as Json;
use tempfile::TempDir;
use wire::Value;

use super::network::{Network, address};
use crate::common::bell::Bell;
use crate::common::process::Process;
use crate::common::{Client, DICTUM, http, status};

/// Every node has a host for itself, so all have the same ports.
const RESP_PORT: u16 = 7001;
const HTTP_PORT: u16 = 8001;
const PEER_PORT: u16 = 9001;
/// Lines of each node's log that a failed test shows, or any if NETNS_LOGS is set.
const LOG_LINES_SHOWN: usize = 25;

/// A node, running or not.
pub struct Node {
    pub name: String,
    /// Where it serves RESP.
    pub resp: String,
    pub dir: PathBuf,
    arguments: Vec<String>,
    process: Option<Process>,
    /// What its earlier runs have logged.
    earlier: Vec<String>,
}

/// Nodes on the hosts of one network: node 0, n1, on host 0. All ends when this is dropped.
pub struct Cluster {
    pub nodes: Vec<Node>,
    pub network: Network,
    /// What delays the messages between nodes, if they were asked for.
    pub relays: Option<Relays>,
    bell: Arc<Bell>,
    folder: TempDir,
}

/// The program under test: the one that was built with this test, or that tests/netns/run names.
pub fn program() -> String {
    std::env::var("NETNS_DICTUM").unwrap_or_else(|_| DICTUM.to_owned())
}

/// How nodes are linked, as they tell it: under TLS by the secret of their cluster, or in plain text where tests/netns/run is given `--plaintext`.
fn link() -> &'static str {
    if std::env::var_os("NETNS_PLAINTEXT").is_some() { "plain" } else { "tls" }
}

/// Where a node listens for the others.
pub fn peer(node: usize) -> String {
    format!("{}:{PEER_PORT}", address(node))
}

/// Where a node serves RESP.
pub fn resp(node: usize) -> String {
    format!("{}:{RESP_PORT}", address(node))
}

impl Cluster {
    /// A new cluster of `count` nodes that take writes; the network may have further hosts, for nodes that come later. The calling thread is at the
    /// hub from here on.
    pub fn start(network: Network, count: usize, with_relays: bool) -> Cluster {
        network.enter();
        let peers: Vec<_> = (0..count).map(|node| peer(node).parse().expect("an address")).collect();
        let hub = network.hub().parse().expect("an address");
        let relays = with_relays.then(|| Relays::start_at(hub, &peers).expect("relays can be started"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let made = Command::new(program()).arg("init").arg("--dir").arg(folder.path().join("secret")).output();
        assert!(made.expect("it runs").status.success(), "a secret is made");
        let mut cluster = Cluster { nodes: Vec::new(), network, relays, bell: Arc::default(), folder };
        for node in 0..count {
            let seen = |other: usize| {
                let relay = cluster.relays.as_ref().and_then(|relays| relays.address(node, other));
                relay.map_or_else(|| peer(other), |relay| relay.to_string())
            };
            let members: Vec<String> = (0..count).map(|other| format!("n{}={}", other + 1, seen(other))).collect();
            let more = ["--cluster", &members.join(","), "--peer", &peer(node)].map(str::to_owned);
            cluster.add(&more);
        }
        (0..count).for_each(|node| cluster.run(node));
        for node in 0..count {
            cluster.wait_until_listens(node);
        }
        for node in 0..count {
            cluster.wait_until_current(node);
        }
        cluster.wait_until_linked();
        cluster
    }

    /// One more node, on the next host, with what its command line has beside the ordinary; it does not run yet.
    pub fn add(&mut self, more: &[String]) -> usize {
        let number = self.nodes.len();
        let (name, dir) = (format!("n{}", number + 1), self.folder.path().join(format!("n{}", number + 1)));
        let http = format!("{}:{HTTP_PORT}", address(number));
        let dir_text = dir.to_str().expect("the folder's name is text");
        let secret = self.folder.path().join("secret/cluster.secret").display().to_string();
        // Clients are on other machines, as the nodes see it.
        let words = [
            "start",
            "--node",
            &name,
            "--resp",
            &resp(number),
            "--http",
            &http,
            "--dir",
            dir_text,
            "--protected-mode",
            "no",
        ];
        let links = if link() == "tls" { vec!["--cluster-secret", &secret] } else { vec!["--insecure"] };
        let arguments = words.into_iter().chain(links).map(str::to_owned).chain(more.iter().cloned()).collect();
        self.nodes.push(Node { name, resp: resp(number), dir, arguments, process: None, earlier: Vec::new() });
        number
    }

    fn run(&mut self, node: usize) {
        let node_of = &mut self.nodes[node];
        assert!(node_of.process.is_none(), "{} runs already", node_of.name);
        let mut command = self.network.command(node, &program());
        without_settings(&mut command).args(&node_of.arguments);
        node_of.process = Some(Process::spawn(command, &self.bell));
    }

    /// One more node, which joins through another: with a token that it gets there, at the next host. Waits until it has everything.
    pub fn join(&mut self, through: usize) -> usize {
        let token = self.ask(through, &["DICTUM.NODE", "TOKEN"]);
        let token = String::from_utf8_lossy(token.as_bytes().expect("a token")).into_owned();
        let own = peer(self.nodes.len());
        let node = self.add(&["--join", &peer(through), "--token", &token, "--peer", &own].map(str::to_owned));
        self.run(node);
        self.wait_until_listens(node);
        // It need not have anything of the partition: where three vote, a fourth node carries what it is asked to them.
        self.wait_until_it_serves(node);
        self.wait_until_linked();
        node
    }

    /// Has `asked` remove a node, which goes when others have what it had; waits until its process has ended.
    pub fn remove(&mut self, asked: usize, node: usize) {
        let removed = self.nodes[node].process.take().expect("it runs");
        assert_eq!(self.ask(asked, &["DICTUM.NODE", "REMOVE", self.name(node)]), Value::ok());
        self.wait_for(&format!("the end of {}, which was removed", self.name(node)), || {
            removed.has_ended().then_some(())
        });
        self.nodes[node].earlier.extend(removed.kill());
    }

    /// Waits until just these nodes are known to a node, and this holds for what it says of each in `DICTUM.NODE LIST`.
    pub fn wait_until_listed(&self, asked: usize, nodes: &[usize], what: &str, holds: impl Fn(&Json) -> bool) {
        let names: Vec<&str> = nodes.iter().map(|node| self.name(*node)).collect();
        self.wait_for(what, || {
            let http = format!("{}:{HTTP_PORT}", address(asked));
            let list = http::ask(&http, "GET /v1/nodes", &[], b"").ok()?.json();
            let list = list.as_array()?;
            let known: Vec<&str> = list.iter().filter_map(|node| node["name"].as_str()).collect();
            (known == names && list.iter().all(&holds)).then_some(())
        });
    }

    /// What a node answers, which is no error.
    pub fn ask(&self, node: usize, words: &[&str]) -> Value {
        let reply = Client::connect(&self.nodes[node].resp).and_then(|mut client| client.call(words));
        let reply = reply.unwrap_or_else(|error| panic!("{} does not answer {words:?}: {error}", self.name(node)));
        assert_eq!(reply.as_error(), None, "{words:?}");
        reply
    }

    /// Writes so many records of 1 KiB, so that there is something to be moved.
    pub fn fill(&self, records: usize) {
        let value = "v".repeat(1024);
        let names: Vec<String> = (0..records).map(|number| format!("filled:{number}")).collect();
        for part in names.chunks(100) {
            let words: Vec<&str> =
                ["MSET"].into_iter().chain(part.iter().flat_map(|name| [name.as_str(), &value])).collect();
            self.ask(0, &words);
        }
    }

    /// Looks until there is something; fails at once if a node has ended by itself.
    pub fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        self.bell.wait_for(what, || {
            for node in &self.nodes {
                let ended = node.process.as_ref().is_some_and(Process::has_ended);
                assert!(!ended, "{} has ended by itself while waiting for {what}", node.name);
            }
            look()
        })
    }

    /// Where the nodes serve RESP.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.resp.clone()).collect()
    }

    pub fn name(&self, node: usize) -> &str {
        &self.nodes[node].name
    }

    /// The running nodes but this one.
    pub fn others(&self, node: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|other| *other != node && self.nodes[*other].process.is_some()).collect()
    }

    /// One of these nodes that takes itself for the leader.
    pub fn leader_among(&self, among: &[usize]) -> usize {
        self.wait_for("a leader", || {
            let leads = |&node: &usize| {
                let node = &self.nodes[node];
                node.process.is_some() && status(&node.resp).is_some_and(|status| status["leader"] == *node.name)
            };
            among.iter().copied().find(leads)
        })
    }

    /// Waits until the first node leads, to which leaderships come back in order: so none moves by itself in the middle of a stage.
    pub fn wait_until_settled(&self) {
        self.leader_among(&[0]);
    }

    /// Waits until `node` counts on `other` no longer.
    pub fn wait_until_missed(&self, node: usize, other: usize) {
        let name = self.name(other);
        self.wait_for(&format!("the news that {name} is away"), || {
            let status = status(&self.nodes[node].resp)?;
            let known = status["nodes"].as_array()?.iter().find(|known| known["name"] == *name)?;
            (known["up"] == false).then_some(())
        });
    }

    fn wait_until_listens(&self, node: usize) {
        let node = &self.nodes[node];
        self.wait_for(&format!("the start of {}", node.name), || {
            node.process.as_ref().is_some_and(Process::listens).then_some(())
        });
    }

    fn wait_until_it_serves(&self, node: usize) {
        self.wait_for(&format!("{} to take a write", self.name(node)), || {
            let reply = Client::connect(&self.nodes[node].resp).ok()?.call(&["SET", "ready", "yes"]);
            reply.is_ok_and(|reply| reply.as_error().is_none()).then_some(())
        });
    }

    /// Waits until a node takes a write, takes part with all its memory, and has what any running node knows to be decided by now.
    pub fn wait_until_current(&self, node: usize) {
        let name = self.name(node);
        self.wait_until_it_serves(node);
        let decided =
            self.nodes.iter().filter(|node| node.process.is_some()).filter_map(|node| me(&status(&node.resp)?));
        let wanted = decided.filter_map(|me| me["decided"].as_u64()).max().expect("the node answers");
        self.wait_for(&format!("{name} to have what the others have"), || {
            let me = me(&status(&self.nodes[node].resp)?)?;
            (matches!(me["role"].as_str()?, "leader" | "follower") && me["applied"].as_u64()? >= wanted).then_some(())
        });
    }

    /// Waits until each running node is linked to all others that run, and fails if one of these links is not of the kind that was asked for.
    pub fn wait_until_linked(&self) {
        let running = self.others(usize::MAX);
        let names: Vec<&str> = running.iter().map(|node| self.name(*node)).collect();
        for node in &running {
            self.wait_for(&format!("the links of {}", self.name(*node)), || {
                let status = status(&self.nodes[*node].resp)?;
                let others = status["nodes"].as_array()?.iter().filter(|other| other["me"] == false);
                let kinds: Vec<&str> = others
                    .filter(|other| names.iter().any(|name| other["name"] == *name))
                    .filter_map(|other| other["link"].as_str().filter(|kind| !kind.is_empty()))
                    .collect();
                assert!(
                    kinds.iter().all(|kind| *kind == link()),
                    "{}: {} is wanted: {kinds:?}",
                    self.name(*node),
                    link()
                );
                (kinds.len() + 1 == running.len()).then_some(())
            });
        }
        eprintln!("  links of {}: all are {}", names.join(", "), link());
    }

    /// Ends a node as the power does.
    pub fn kill(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        node.earlier.extend(node.process.take().expect("it ran").kill());
    }

    /// As [`Cluster::kill`], and its disk is gone as well.
    pub fn lose(&mut self, node: usize) {
        self.kill(node);
        std::fs::remove_dir_all(&self.nodes[node].dir).expect("nobody uses it");
    }

    /// Tells a node to stop, and waits until it has, in good order.
    pub fn stop(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        assert!(node.process.take().expect("it ran").stop(), "{} was told to stop and did not end well", node.name);
    }

    /// Starts a node that does not run, as it was started before, and waits until it has what the others have.
    pub fn restart(&mut self, node: usize) {
        self.run(node);
        self.wait_until_back(node);
    }

    /// As [`Cluster::restart`], of a node whose disk was lost, and its key with it: the others refuse it until its operator says that the key was lost.
    pub fn restart_without_key(&mut self, node: usize) {
        self.run(node);
        if link() == "tls" {
            let name = self.name(node);
            self.wait_for(&format!("the refusal of {name}, which has another key"), || {
                let process = self.nodes[node].process.as_ref()?;
                process.has_said(&format!("dictum node forget-keys {name}")).then_some(())
            });
            assert_eq!(self.ask(self.others(node)[0], &["DICTUM.NODE", "FORGETKEYS", name]), Value::ok());
        }
        self.wait_until_back(node);
    }

    fn wait_until_back(&self, node: usize) {
        self.wait_until_listens(node);
        self.wait_until_current(node);
        self.wait_until_linked();
    }
}

/// What a node says of itself.
fn me(status: &Json) -> Option<Json> {
    status["nodes"].as_array()?.iter().find(|node| node["me"] == true).cloned()
}

/// A node is what its arguments say, whoever has set what for another one.
fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DICTUM_")) {
        command.env_remove(name);
    }
    command
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() || std::env::var_os("NETNS_LOGS").is_some() {
            for node in &self.nodes {
                let now = node.process.as_ref().map(Process::lines).unwrap_or_default();
                let lines = [&node.earlier[..], &now].concat();
                eprintln!("--- the end of {}'s log", node.name);
                lines.iter().skip(lines.len().saturating_sub(LOG_LINES_SHOWN)).for_each(|line| eprintln!("{line}"));
                if node.process.is_some()
                    && let Some(status) = status(&node.resp)
                {
                    eprintln!("{} says: {status}", node.name);
                }
            }
            let list =
                |node: &usize| http::ask(&format!("{}:{HTTP_PORT}", address(*node)), "GET /v1/nodes", &[], b"").ok();
            if let Some(list) = self.others(usize::MAX).iter().find_map(list) {
                eprintln!("--- nodes: {}", String::from_utf8_lossy(&list.body));
            }
        }
    }
}
