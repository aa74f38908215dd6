//! Hosts that exist for one test: each in a network namespace of its own, with an address of its own, joined by a bridge in one more.
//!
//! ```text
//!   space of n1        space of n2        …        hub: the test's thread, the load, relays
//!   eth 10.77.0.1      eth 10.77.0.2               10.77.0.100
//!    └── port1 ───────────└── port2 ──── bridge ─────┘
//! ```
//! - **No namespace has a name.** An open file of this process holds it, and whoever runs inside. So two runs never meet, though all use the same
//!   addresses, and when this process ends, however that happens, the kernel takes everything back: nodes die with it, and with them their spaces.
//! - **The machine's own network is never touched**: every command below runs inside a space that was made here.
//! - What is cut or lost is dropped where it arrives (`iptables … INPUT`), so the sender notices nothing, as with a real network.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The network of all hosts.
const PREFIX: &str = "10.77.0.";
/// Every node's address is in here, and the hub's is not.
const NODES: &str = "10.77.0.0/26";
/// The hub's last number.
const HUB: usize = 100;
/// What must be there, with the Debian package of each.
const TOOLS: [(&str, &str); 4] =
    [("ip", "iproute2"), ("iptables", "iptables"), ("nsenter", "util-linux"), ("unshare", "util-linux")];

/// A network namespace.
#[derive(Debug)]
struct Space {
    file: File,
}

impl Space {
    fn new() -> Result<Space, String> {
        let failed = |what: &dyn std::fmt::Display| format!("no network namespace can be made: {what}");
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(&format!("unshare: {error}")))?;
        let (mut ask, mut answer) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        // What comes back was written by a process that is in its namespace by then.
        let is_there = ask.write_all(b"?").is_ok() && answer.read_exact(&mut [0]).is_ok();
        let file = File::open(format!("/proc/{}/ns/net", child.id()));
        drop(ask);
        let output = child.wait_with_output().map_err(|error| failed(&error))?;
        if !is_there {
            return Err(failed(&String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(Space { file: file.map_err(|error| failed(&error))? })
    }

    /// Where others find it.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// A program that runs in it, and has this process for its parent.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg(program);
        command
    }

    fn run(&self, line: &str) -> Result<(), String> {
        let mut words = line.split(' ');
        let mut command = self.command(words.next().unwrap_or_default());
        let output: Output = command.args(words).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("`{line}` failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// Hosts, numbered from 0, and their hub.
#[derive(Debug)]
pub struct Network {
    hub: Space,
    hosts: Vec<Space>,
}

impl Network {
    /// So many hosts that reach one another.
    ///
    /// # Errors
    /// A sentence: what this machine lacks, or does not allow.
    pub fn new(hosts: usize) -> Result<Network, String> {
        lacking().map_or(Ok(()), Err)?;
        let network =
            Network { hub: Space::new()?, hosts: (0..hosts).map(|_| Space::new()).collect::<Result<_, _>>()? };
        network.hub.run("ip link set lo up")?;
        network.hub.run("ip link add hub type bridge")?;
        network.hub.run(&format!("ip addr add {PREFIX}{HUB}/24 dev hub"))?;
        network.hub.run("ip link set hub up")?;
        for (number, host) in network.hosts.iter().enumerate() {
            let port = format!("port{}", number + 1);
            network.hub.run(&format!("ip link add {port} type veth peer name eth netns {}", host.path()))?;
            network.hub.run(&format!("ip link set {port} master hub up"))?;
            host.run("ip link set lo up")?;
            host.run(&format!("ip addr add {}/24 dev eth", address(number)))?;
            host.run("ip link set eth up")?;
        }
        // Whether the kernel can do what is needed shows now, and not in the middle of a scenario.
        network.lose(0, 50)?;
        network.heal()?;
        Ok(network)
    }

    /// From now on this thread, and those that it starts, are at the hub.
    pub fn enter(&self) {
        move_into_link_name_space(self.hub.file.as_fd(), Some(LinkNameSpaceType::Network)).expect("the hub is there");
    }

    /// The hub's own address, as nodes see it.
    pub fn hub(&self) -> String {
        format!("{PREFIX}{HUB}")
    }

    /// A program that runs on a host.
    pub fn command(&self, host: usize, program: &str) -> Command {
        self.hosts[host].command(program)
    }

    /// A host hears no node; clients reach it.
    pub fn deafen(&self, host: usize) -> Result<(), String> {
        self.hosts[host].run(&format!("iptables -w -A INPUT -s {NODES} -j DROP"))
    }

    /// No node hears a host; clients do.
    pub fn mute(&self, host: usize) -> Result<(), String> {
        let mut others = self.hosts.iter().enumerate().filter(|(number, _)| *number != host);
        others.try_for_each(|(_, other)| other.run(&format!("iptables -w -A INPUT -s {} -j DROP", address(host))))
    }

    /// A host loses so many percent of what arrives from nodes.
    pub fn lose(&self, host: usize, percent: u32) -> Result<(), String> {
        self.hosts[host].run(&loss(&format!(" -s {NODES}"), percent))
    }

    /// A host loses so many percent of all that arrives, from clients as well.
    pub fn lose_all(&self, host: usize, percent: u32) -> Result<(), String> {
        self.hosts[host].run(&loss("", percent))
    }

    /// Nothing is dropped any longer.
    pub fn heal(&self) -> Result<(), String> {
        self.hosts.iter().try_for_each(|host| host.run("iptables -w -F INPUT"))
    }

    /// Pulls a host's cable, or puts it back: nobody reaches it, nor is told so.
    pub fn plug(&self, host: usize, is_in: bool) -> Result<(), String> {
        self.hub.run(&format!("ip link set port{} {}", host + 1, if is_in { "up" } else { "down" }))
    }
}

fn loss(whose: &str, percent: u32) -> String {
    format!("iptables -w -A INPUT{whose} -m statistic --mode random --probability 0.{percent:02} -j DROP")
}

/// A host's address.
pub fn address(host: usize) -> String {
    format!("{PREFIX}{}", host + 1)
}

/// What this machine lacks, as far as it shows without trying.
fn lacking() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it needs root, to make network namespaces".to_owned());
    }
    let folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let is_there = |tool: &str| folders.iter().any(|folder| folder.join(tool).is_file());
    let lacking: Vec<_> = TOOLS.iter().filter(|(tool, _)| !is_there(tool)).collect();
    let (tool, package) = lacking.first()?;
    Some(format!("it needs {tool} (Debian: apt-get install {package}, or tests/netns/run --install)"))
}
