//! What the process tests share: free ports, nodes, a cluster under `dictum dev`, a client, waiting for conditions.
//!
//! Nothing here sleeps: everything waits for a condition, with a generous end, and is woken by what brings it about: a
//! line of a log, the end of a process, the answer of a node that answers when it can.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of real processes take real time")]

pub mod bell;
pub mod counting;
pub mod http;
pub mod ports;
pub mod process;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Deserialize;
use tempfile::TempDir;
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

pub use ports::{base_port, free_ports};
use process::Process;
pub use process::{signal, wait_for_end};

/// How long anything may take before a test gives up: far more than it should, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program under test.
pub const DICTUM: &str = env!("CARGO_BIN_EXE_dictum");

/// A node as `dictum dev --json` tells of it.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct NodeInfo {
    pub name: String,
    pub pid: u32,
    pub resp: String,
    pub cluster: String,
    pub http: String,
    pub peer: String,
    pub dir: PathBuf,
    pub start: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    nodes: Vec<NodeInfo>,
}

/// A running `dictum dev`. Stopped by SIGTERM when dropped.
pub struct Dev {
    pub child: Child,
    pub nodes: Vec<NodeInfo>,
    pub base_port: u16,
}

/// A command with none of our settings in its environment.
pub fn dictum(arguments: &[&str]) -> Command {
    let mut command = Command::new(DICTUM);
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DICTUM_")) {
        command.env_remove(name);
    }
    command
}

/// `dictum dev` with all its output taken, not waited for.
pub fn dev_command(dir: &Path, base_port: u16, more: &[&str]) -> Command {
    let mut command = dictum(&["dev", "--json", "--base-port", &base_port.to_string(), "--dir"]);
    command.arg(dir).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Has a node know the secret of the `dictum dev` in this folder.
pub fn of_cluster<'a>(command: &'a mut Command, dev: &Path) -> &'a mut Command {
    command.env("DICTUM_CLUSTER_SECRET", dev.join("cluster.secret"))
}

fn is_about_ports(reason: &str) -> bool {
    reason.contains("not all ports are free") || reason.contains("is in use by another process; stop")
}

impl Dev {
    /// Starts a cluster on free ports and waits until it is ready.
    pub fn start(dir: &Path, more: &[&str]) -> Dev {
        let end = Instant::now() + PATIENCE;
        loop {
            match Dev::try_start(dir, base_port(), more) {
                Ok(dev) => return dev,
                // A test beside this one may have them, or may take one between the look and the start.
                Err(reason) if is_about_ports(&reason) && Instant::now() < end => {}
                Err(reason) => panic!("dictum dev did not start: {reason}"),
            }
        }
    }

    /// As [`Dev::start`] on given ports; what it said if it ended instead.
    pub fn try_start(dir: &Path, base_port: u16, more: &[&str]) -> Result<Dev, String> {
        let mut child = dev_command(dir, base_port, more).spawn().expect("dictum can be started");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("output is text");
        if line.is_empty() {
            let mut reason = String::new();
            child.stderr.take().expect("a pipe").read_to_string(&mut reason).expect("errors are text");
            assert!(!child.wait().expect("it has ended").success());
            return Err(reason);
        }
        let cluster: Cluster = serde_json::from_str(&line).expect("one line of JSON with the fields of the issue");
        Ok(Dev { child, nodes: cluster.nodes, base_port })
    }

    pub fn node(&self, name: &str) -> &NodeInfo {
        self.nodes.iter().find(|node| node.name == name).expect("a node of this cluster")
    }

    /// Who leads, as the first node says.
    pub fn leader(&self) -> NodeInfo {
        wait_for("a leader", || {
            // Answered when there is one.
            eventually(&self.nodes[0].resp, &["GET", "leader"]);
            let status = status(&self.nodes[0].resp)?;
            Some(self.node(status.get("leader")?.as_str()?).clone())
        })
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        signal(self.child.id(), Signal::TERM);
        if !wait_for_end(self.child.id()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// A folder for copies that a command makes, syncs and removes: in memory if the machine has room there, as each sync of
/// a disk takes milliseconds and proves nothing about a copy.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |of| of.f_bavail.saturating_mul(of.f_frsize));
    let made = if room > 1 << 30 { tempfile::tempdir_in(memory).ok() } else { None };
    made.unwrap_or_else(|| tempfile::tempdir().expect("a temporary folder"))
}

/// Runs a node's own start command until it listens.
pub fn start_alone(node: &NodeInfo) -> Process {
    let mut command = Command::new(&node.start[0]);
    command.args(&node.start[1..]);
    Process::start(command).unwrap_or_else(|reason| panic!("{} has ended: {reason}", node.name))
}

/// Runs a command to its end.
pub fn output(mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("it can be started")
}

/// What a command said on standard error when it failed.
pub fn failure(command: Command) -> String {
    let output = output(command);
    let text = String::from_utf8(output.stderr).expect("errors are text");
    assert!(!output.status.success(), "it did not fail: {text}");
    text
}

/// Looks until there is something. A look waits by itself: it asks a node, runs a program, or draws something new.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come");
    }
}

/// Waits until the node brings nothing to its store.
pub fn wait_until_nothing_is_flushed(resp: &str) {
    wait_for("the end of the flush", || {
        let info = Client::connect(resp).ok()?.call(&["INFO", "persistence"]).ok()?;
        String::from_utf8_lossy(info.as_bytes()?).contains("rdb_bgsave_in_progress:0").then_some(())
    });
}

/// A small RESP client.
pub struct Client {
    stream: TcpStream,
    parser: ReplyParser,
}

impl Client {
    pub fn connect(address: &str) -> std::io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client { stream, parser: ReplyParser::new(ReplyLimits::default()) })
    }

    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    pub fn send(&mut self, words: &[&str]) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        encode_command(&mut bytes, words.iter().map(|word| word.as_bytes()));
        self.stream.write_all(&bytes)
    }

    pub fn receive(&mut self) -> std::io::Result<Value> {
        let mut buffer = [0; 64 * 1024];
        loop {
            if let Some(value) = self.parser.next().map_err(std::io::Error::other)? {
                return Ok(value);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.parser.push(&buffer[..count]),
                // With a time limit on the socket any signal ends the wait, on a busy machine now and then.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn call(&mut self, words: &[&str]) -> std::io::Result<Value> {
        self.send(words)?;
        self.receive()
    }
}

/// One command on connections of its own to a node that listens, repeated until it succeeds. A node that cannot yet carry
/// it out says so after some seconds, not at once.
pub fn eventually(address: &str, words: &[&str]) -> Value {
    wait_for(&format!("an answer to {words:?} from {address}"), || {
        let mut client = Client::connect(address).expect("it listens");
        client.call(words).ok().filter(|reply| reply.as_error().is_none())
    })
}

/// What a node knows of the cluster, if it answers.
pub fn status(address: &str) -> Option<serde_json::Value> {
    let reply = Client::connect(address).ok()?.call(&["DICTUM.STATUS"]).ok()?;
    serde_json::from_slice(reply.as_bytes()?).ok()
}

/// How far a node has applied the log, as it says itself.
pub fn applied(address: &str) -> Option<u64> {
    let status = status(address)?;
    let me = status.get("nodes")?.as_array()?.iter().find(|node| node["me"] == true)?;
    me["applied"].as_u64()
}
