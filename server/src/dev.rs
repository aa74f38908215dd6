//! `dictum dev`: a whole cluster on this machine, one child process per node.
//!
//! 1. check everything that can be checked (folder, ports), before anything starts
//! 2. start the children; `parent.rs` makes sure that none outlives this process
//! 3. wait until every node answers and one of them has accepted a write; say `ready`
//! 4. report children that die; on SIGINT, SIGTERM or SIGHUP stop all of them

mod folder;
mod report;

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use base::limits::VOTERS_MAX;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wire::Value;

use crate::children::{self, NodeProcess};
use crate::cli::connection::{Connection, Endpoint};
use crate::init;
use crate::options::check_zone;
use crate::secrets;
use folder::DevFolder;

/// The ports for clients that route by themselves lie so far above the RESP ports.
const CLUSTER_OFFSET: u16 = 500;
/// HTTP ports lie so far above the RESP ports.
const HTTP_OFFSET: u16 = 1000;
/// The ports for peers lie so far above the RESP ports.
const PEER_OFFSET: u16 = 2000;
/// How long the cluster may take to accept a write.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long one attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(5);
/// Written once to see that writes are accepted, then deleted.
const READY_KEY: &str = "dictum:dev:ready";
/// Settings that `dev` gives by flags; inherited, they would reach all children alike.
const OWN_SETTINGS: &[&str] = &[
    "DICTUM_CONFIG",
    "DICTUM_NODE",
    "DICTUM_ZONE",
    "DICTUM_CLUSTER",
    "DICTUM_RESP",
    "DICTUM_HTTP",
    "DICTUM_PEER",
    "DICTUM_DIR",
    "DICTUM_CLUSTER_ADDRESS",
    "DICTUM_CLUSTER_ANNOUNCE",
    "DICTUM_WORKERS",
    "DICTUM_CLUSTER_SECRET",
    "DICTUM_PEER_TLS",
];

/// Example lines for `--help`.
const EXAMPLE: &str = "\
Examples:
  dictum dev                              three nodes, RESP on 7001 to 7003, data in ./dictum-dev
  dictum dev --nodes 5 --base-port 7101 --dir /tmp/five --fresh
  dictum dev --nodes 6 --zones a,b,c      two nodes in each of three zones, for `dictum node voters 3`
  redis-cli -p 7002 set greeting hello    any node takes any command
  redis-cli -c -p 7501 get greeting       as a client of a Redis Cluster, which routes by itself
Other settings of the nodes (dictum start --help) are taken from the environment.";

/// Flags of `dictum dev`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLE)]
pub struct DevArguments {
    /// How many nodes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=VOTERS_MAX as i64))]
    pub nodes: u16,
    /// Labels of zones, which the nodes get in turn
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub zones: Vec<String>,
    /// RESP port of the first node; that for Redis Cluster clients is 500 above, HTTP 1000, the port for peers 2000
    #[arg(long, default_value_t = 7001, value_parser = clap::value_parser!(u16).range(1..))]
    pub base_port: u16,
    /// Folder for all data
    #[arg(long, default_value = "./dictum-dev", value_name = "FOLDER")]
    pub dir: PathBuf,
    /// Delete what an earlier `dictum dev` has left in the folder
    #[arg(long)]
    pub fresh: bool,
    /// Print one line of JSON when ready, instead of the table
    #[arg(long)]
    pub json: bool,
}

/// One node of the cluster, as it is to be started.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Plan {
    name: String,
    resp: String,
    cluster: String,
    http: String,
    peer: String,
    dir: PathBuf,
    log: PathBuf,
    /// Program and arguments that start this node alone.
    start: Vec<String>,
}

struct Running {
    plan: Plan,
    process: NodeProcess,
    /// Where in the log file this run begins.
    log_start: u64,
}

/// Runs a cluster until it is stopped.
#[must_use]
pub fn run(arguments: DevArguments) -> ExitCode {
    match serve(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("dictum dev: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &DevArguments) -> Result<(), String> {
    // From here on a signal is kept until it is asked for; before, it would end this process, which has no children.
    let mut signals = Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGTERM])
        .map_err(|error| format!("signals cannot be handled: {error}"))?;
    arguments.zones.iter().try_for_each(|zone| check_zone("--zones", zone))?;
    check_ports(arguments)?;
    // Held, and with it the lock on the folder, until the end.
    let folder = DevFolder::open(&arguments.dir, arguments.nodes, arguments.fresh)?;
    let plans = plan(arguments, folder.path())?;
    let mut nodes = Vec::new();
    for plan in plans {
        match spawn(plan) {
            Ok(node) => nodes.push(node),
            Err(reason) => {
                stop(&mut nodes, &mut signals);
                return Err(reason);
            }
        }
    }
    match wait_until_ready(&mut nodes, &mut signals) {
        Ok(true) => {}
        Ok(false) => {
            stop(&mut nodes, &mut signals);
            return Ok(());
        }
        Err(reason) => {
            stop(&mut nodes, &mut signals);
            return Err(reason);
        }
    }
    if arguments.json {
        report::print_json(&nodes);
    } else {
        report::print_table(&nodes);
    }
    loop {
        for signal in signals.wait() {
            if signal == SIGCHLD {
                if reap(&mut nodes) {
                    return Err(
                        "all nodes have ended; their logs say why. Run it again to go on with the same data".to_owned()
                    );
                }
            } else {
                stop(&mut nodes, &mut signals);
                return Ok(());
            }
        }
    }
}

/// All ports that the cluster needs, with what for.
fn ports(arguments: &DevArguments) -> Result<Vec<(u16, String)>, String> {
    let mut list = Vec::new();
    for index in 0..arguments.nodes {
        for (offset, purpose) in
            [(0, "RESP"), (CLUSTER_OFFSET, "Redis Cluster"), (HTTP_OFFSET, "HTTP"), (PEER_OFFSET, "peers")]
        {
            let port = arguments.base_port.checked_add(offset).and_then(|port| port.checked_add(index));
            let port = port.ok_or_else(|| {
                format!(
                    "--base-port {} is too high for {} nodes; choose one up to {}",
                    arguments.base_port,
                    arguments.nodes,
                    u16::MAX - PEER_OFFSET - arguments.nodes + 1
                )
            })?;
            list.push((port, format!("{purpose} of n{}", index + 1)));
        }
    }
    Ok(list)
}

/// Fails if any port is in use.
fn check_ports(arguments: &DevArguments) -> Result<(), String> {
    let mut taken = Vec::new();
    let mut listeners = Vec::new();
    for (port, purpose) in ports(arguments)? {
        match TcpListener::bind(("127.0.0.1", port)) {
            // Kept until all are checked, so that two of our own ports cannot be the same.
            Ok(listener) => listeners.push(listener),
            Err(error) => taken.push(format!("port {port} ({purpose}): {error}")),
        }
    }
    if taken.is_empty() {
        return Ok(());
    }
    Err(format!(
        "nothing was started, because not all ports are free:\n  {}\nstop what uses them (is another dictum dev \
         running?) or choose others by --base-port",
        taken.join("\n  ")
    ))
}

fn plan(arguments: &DevArguments, folder: &Path) -> Result<Vec<Plan>, String> {
    let program = std::env::current_exe().map_err(|error| format!("the own program file cannot be found: {error}"))?;
    let address = |offset: u16, index: u16| format!("127.0.0.1:{}", arguments.base_port + offset + index);
    let members: Vec<String> =
        (0..arguments.nodes).map(|index| format!("n{}={}", index + 1, address(PEER_OFFSET, index))).collect();
    let cluster = members.join(",");
    let secret = init::find_or_make(folder)?;
    let authority = init::find_or_make_authority(folder)?;
    Ok((0..arguments.nodes)
        .map(|index| {
            let name = format!("n{}", index + 1);
            let (resp, http) = (address(0, index), address(HTTP_OFFSET, index));
            let routes = address(CLUSTER_OFFSET, index);
            let dir = folder.join(&name);
            let mut start = [
                program.to_string_lossy().as_ref(),
                "start",
                "--node",
                &name,
                "--cluster",
                &cluster,
                "--resp",
                &resp,
                "--cluster-address",
                &routes,
                "--http",
                &http,
                "--cluster-secret",
                secret.to_string_lossy().as_ref(),
                "--tls-ca",
                authority.to_string_lossy().as_ref(),
                "--dir",
                dir.to_string_lossy().as_ref(),
            ]
            .map(str::to_owned)
            .to_vec();
            if let Some(zone) = arguments.zones.iter().cycle().nth(usize::from(index)) {
                start.extend(["--zone".to_owned(), zone.clone()]);
            }
            Plan {
                log: folder.join(format!("{name}.log")),
                peer: address(PEER_OFFSET, index),
                name,
                resp,
                cluster: routes,
                http,
                dir,
                start,
            }
        })
        .collect())
}

fn spawn(plan: Plan) -> Result<Running, String> {
    let log_failed = |error| format!("the log file {} cannot be written: {error}", plan.log.display());
    let opened = storage::private_file().write(false).create(true).append(true).open(&plan.log);
    let log: File = opened.map_err(|error| log_failed(storage::explain_link("it", error)))?;
    let log_start = log.metadata().map_err(log_failed)?.len();
    let second = log.try_clone().map_err(log_failed)?;
    let mut command = Command::new(&plan.start[0]);
    command.args(&plan.start[1..]).stdout(log).stderr(second);
    for setting in OWN_SETTINGS {
        command.env_remove(setting);
    }
    let process = NodeProcess::start(&plan.name, command)?;
    Ok(Running { plan, process, log_start })
}

/// True once every node answers and a write was accepted; false if a signal asks to stop.
fn wait_until_ready(nodes: &mut [Running], signals: &mut Signals) -> Result<bool, String> {
    let end = Instant::now() + READY_TIMEOUT;
    let mut answering = 0;
    loop {
        if signals.pending().any(|signal| signal != SIGCHLD) {
            return Ok(false);
        }
        for node in nodes.iter_mut() {
            if let Some(status) = node.process.has_just_ended() {
                return Err(format!(
                    "{} has ended before the cluster was ready ({status}); the end of {}:\n{}",
                    node.plan.name,
                    node.plan.log.display(),
                    report::tail(&node.plan.log, node.log_start)
                ));
            }
        }
        let attempt = match nodes.get(answering) {
            Some(node) => call(&node.plan, &[&["PING"]]).map(|()| answering += 1),
            None => match call(&nodes[0].plan, &[&["SET", READY_KEY, "1"], &["DEL", READY_KEY]]) {
                Ok(()) => return Ok(true),
                failed => failed,
            },
        };
        if let Err(reason) = attempt {
            if Instant::now() >= end {
                return Err(format!(
                    "no write was accepted within {} s; the last answer was: {reason}. See the logs in {}",
                    READY_TIMEOUT.as_secs(),
                    nodes[0].plan.log.parent().unwrap_or(Path::new(".")).display()
                ));
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Runs commands on a new connection. An error reply is an error.
fn call(plan: &Plan, commands: &[&[&str]]) -> Result<(), String> {
    let endpoint = Endpoint::parse(&plan.resp)?;
    let failed = |error: std::io::Error| format!("{} ({}): {error}", plan.name, plan.resp);
    let mut connection = Connection::open(&endpoint, Some(ATTEMPT_TIMEOUT)).map_err(failed)?;
    let password = secrets::of_environment()?;
    let login = password.as_deref().map(|password| ["AUTH", password]);
    for words in login.iter().map(|words| &words[..]).chain(commands.iter().copied()) {
        let reply: Value = connection.call(words).map_err(failed)?;
        if let Some(error) = reply.as_error() {
            return Err(format!("{}: {error}", plan.name));
        }
    }
    Ok(())
}

/// Reports children that have ended. True if none is left.
fn reap(nodes: &mut [Running]) -> bool {
    for node in nodes.iter_mut() {
        if let Some(status) = node.process.has_just_ended() {
            report::print_death(node, status);
        }
    }
    nodes.iter().all(|node| node.process.has_ended())
}

fn stop(nodes: &mut [Running], signals: &mut Signals) {
    let processes = nodes.iter_mut().map(|node| &mut node.process).collect();
    children::stop(processes, signals, |name| {
        eprintln!("dictum dev: {name} does not stop by itself and is killed; nothing acknowledged is lost");
    });
}
