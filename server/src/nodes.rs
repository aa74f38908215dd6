//! `dictum node`, and the shape of what `DICTUM.NODE` answers.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde::Serialize;
use utoipa::ToSchema;
use wire::Value;

use crate::cli::asked::{self, Asked, end, end_or};
use crate::cli::connection::{Connection, Endpoint};
use crate::nodes::progress::{Progress, bytes};
use crate::nodes::settings::Settings;
use crate::status::{Output, columns};

mod progress;
pub(crate) mod settings;

/// Said of a token that cannot be printed: the cluster keeps its digest alone.
const TOKEN_LOST: &str = "the token was made and cannot be shown again. Nobody has it, and it ends by itself: the same command makes another one";
/// How often a node that is drained is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A node, as the council's registry and the node that was asked know it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, ToSchema)]
pub struct NodeInfo {
    /// Its name.
    pub name: String,
    /// Its own for ever.
    pub id: u64,
    /// Where other nodes reach it.
    pub peer_address: String,
    /// `serves`; `drained`: it leads nothing, and votes only where others cannot; `leaving`: it is removed as soon as nothing needs it; `absent`: it has
    /// been gone for so long that others have taken its place.
    pub state: String,
    /// The label of its zone, by which the voters of each partition are spread; empty: it is a zone of its own.
    pub zone: String,
    /// By which keys the cluster knows it under TLS: hashes in hexadecimal digits. None: by any.
    pub keys: Vec<String>,
    /// `up` or `down`, as the node that was asked sees it.
    pub seen: String,
    /// How many partitions it leads, as far as the node that was asked knows.
    pub leads: u64,
    /// In how many partitions it votes, as far as the node that was asked knows.
    pub votes: u64,
    /// Of how many partitions it has a copy, as far as the node that was asked knows; the council among them.
    pub replicas: u64,
    /// `on`, or `paused` after `dictum node pause`; the same for all.
    pub movement: String,
    /// Bytes of state that it is still to send to others, about.
    pub bytes_to_send: u64,
    /// Bytes of state that it sends and takes in each second, as last measured.
    pub bytes_per_second: u64,
    /// The newest version of the peer protocol that it speaks; 0 if the node that was asked has not heard of it since its own start.
    pub speaks: u64,
    /// The version of the cluster, the same for all: what came later is not used before every node speaks it.
    pub cluster_version: u64,
    /// How many entries of logs were ever stepped over (`--step-over`) in this cluster; the same for all.
    pub entries_stepped_over: u64,
}

impl NodeInfo {
    fn read(reply: &Value) -> Option<NodeInfo> {
        let pairs: Vec<(&Value, &Value)> = match reply {
            Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
            Value::Array(flat) => flat.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
            _ => return None,
        };
        let mut node = NodeInfo::default();
        for (name, value) in pairs {
            let text = || value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
            let number = || value.as_integer().and_then(|number| u64::try_from(number).ok()).unwrap_or_default();
            match name.as_bytes()? {
                b"name" => node.name = text(),
                b"keys" => node.keys = text().split(',').filter(|key| !key.is_empty()).map(str::to_owned).collect(),
                b"id" => node.id = number(),
                b"peer-address" => node.peer_address = text(),
                b"state" => node.state = text(),
                b"zone" => node.zone = text(),
                b"seen" => node.seen = text(),
                b"leads" => node.leads = number(),
                b"votes" => node.votes = number(),
                b"replicas" => node.replicas = number(),
                b"movement" => node.movement = text(),
                b"bytes-to-send" => node.bytes_to_send = number(),
                b"bytes-per-second" => node.bytes_per_second = number(),
                b"speaks" => node.speaks = number(),
                b"cluster-version" => node.cluster_version = number(),
                b"entries-stepped-over" => node.entries_stepped_over = number(),
                _ => {}
            }
        }
        (!node.name.is_empty()).then_some(node)
    }

    /// Reads what `DICTUM.NODE LIST` answers, in RESP3 or RESP2.
    #[must_use]
    pub fn read_list(reply: &Value) -> Option<Vec<NodeInfo>> {
        reply.as_array()?.iter().map(NodeInfo::read).collect()
    }
}

/// A node as `--json` lists it: the settings of the cluster, the same for all, stand beside what else is the same for all.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    node: &'a NodeInfo,
    #[serde(flatten)]
    settings: Option<Settings>,
}

/// Arguments of `dictum node`.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
    dictum node list\n  \
    dictum node drain n2            before it is stopped: no client waits for a new leader\n  \
    dictum node drain --zone n2     the same for all workers of a machine\n  \
    dictum node promote n2          it leads and votes again\n  \
    dictum node voters 3            of five nodes three vote in each partition, the others learn\n  \
    dictum node settings            how many vote, and after how long a node is replaced\n  \
    dictum node token               lets one node join: dictum start --node n4 --join HOST:PORT --token …\n  \
    dictum node remove n2           moves what it has to others, then removes it\n  \
    dictum node replace n2 --by n4  the same once n4 has joined and can take over; n2 may be dead\n\n\
    Exit code: 0 if it was done, 1 if not, or if no node answers."
)]
pub struct NodeArguments {
    #[command(subcommand)]
    action: Action,
    /// How wide tables are.
    #[arg(short = 'o', long, global = true, value_enum, value_name = "WIDTH", default_value_t)]
    output: Output,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Lists all nodes: what they are for, what they lead, where they vote.
    List,
    /// Takes all leaderships from a node, and its votes as far as other nodes can have them; returns when that is done.
    Drain {
        #[command(flatten)]
        which: Which,
        /// Give up waiting after so many seconds. It goes on nevertheless.
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        wait: u64,
    },
    /// Lets a drained node lead and vote again. Its leaderships come back by themselves.
    Promote {
        #[command(flatten)]
        which: Which,
    },
    /// Sets how many nodes vote in each partition, 0 for as many as founded the cluster. Those without a vote have a copy, too, and serve reads and commands.
    Voters {
        /// An odd number: of four voters no more may fail than of three.
        count: u8,
        /// Although fewer failures are borne then.
        #[arg(long)]
        yes: bool,
        /// Although it is an even number.
        #[arg(long)]
        force: bool,
    },
    /// Shows how many nodes vote and how many failures that bears, after how long a node is replaced, and whether votes are held still.
    Settings,
    /// Makes a token with which one node can join, and prints it.
    Token {
        /// How long it is good for, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = base::limits::TOKEN_LIFETIME.as_secs())]
        lifetime: u64,
    },
    /// Makes a token and prints the command that starts a new node with it.
    Add {
        /// The name that the new node is to have.
        name: String,
        /// Where the other nodes are to reach it, as HOST:PORT.
        peer_address: String,
    },
    /// Moves what a node has to others, then removes it from the cluster; returns when that is done.
    Remove {
        #[command(flatten)]
        which: Which,
        /// Although it is down: what it alone may still know, acknowledged to nobody, is given up.
        #[arg(long)]
        force: bool,
        /// Although fewer failures are borne then.
        #[arg(long)]
        yes: bool,
        /// Give up waiting after so many seconds. It goes on nevertheless.
        #[arg(long, value_name = "SECONDS", default_value_t = 600)]
        wait: u64,
    },
    /// Removes a node, dead or alive, once another one is there to take its place; returns when that is done.
    Replace {
        /// The node that is to go.
        name: String,
        /// The node that has joined for it, or is about to.
        #[arg(long, value_name = "NAME")]
        by: String,
        /// Give up waiting after so many seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 600)]
        wait: u64,
    },
    /// Sets after how long a node that is gone is replaced by others, where there are any; it gets its share back when it comes back. 0 for never.
    AutoReplace {
        /// How long, in seconds.
        seconds: u64,
    },
    /// Has the cluster know a node by another key, too: before it is started with that one.
    AddKey {
        /// Its name.
        name: String,
        /// The SHA-256 of the public key, in 64 hexadecimal digits: the log of the node's start has it.
        key: String,
    },
    /// Forgets the keys of a node that were lost with its folder: the next one that it shows counts. Only if what runs under its name is yours.
    ForgetKeys {
        /// Its name.
        name: String,
    },
    /// Leaves all votes and leaderships where they are until `dictum node resume`; copies for nodes without a vote go at the lowest rate.
    Pause,
    /// Lets votes, leaderships and copies move again.
    Resume,
}

/// One node, or several that are somewhere together.
#[derive(Args, Debug)]
struct Which {
    /// Its name.
    #[arg(required_unless_present = "zone", conflicts_with = "zone")]
    name: Option<String>,
    /// Instead of one node all of this zone: a machine that runs several workers is one.
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
}

/// Carries out `dictum node …`.
#[must_use]
pub fn run(arguments: NodeArguments) -> ExitCode {
    let makes_token = matches!(arguments.action, Action::Token { .. } | Action::Add { .. });
    let outcome = carry_out(arguments);
    if makes_token { end_or("dictum node", outcome, TOKEN_LOST) } else { end("dictum node", outcome) }
}

/// The text to print, or the reason why nothing was done.
fn carry_out(arguments: NodeArguments) -> Result<String, String> {
    let NodeArguments { action, output, asked } = arguments;
    let (endpoint, connection) = asked.open()?;
    let json = asked.json;
    let mut cluster = Cluster { endpoint, connection };
    match action {
        Action::List => {}
        Action::Promote { which } => {
            for name in cluster.named(which)? {
                cluster.ask(&["DICTUM.NODE", "PROMOTE", &name])?;
            }
        }
        Action::Voters { count, yes, force } => {
            cluster.weigh_voters(count, yes, force)?;
            cluster.ask(&["DICTUM.NODE", "VOTERS", &count.to_string()]).map(|_| ())?;
        }
        Action::Settings => {
            let (settings, nodes) = (cluster.settings()?, cluster.nodes()?);
            return Ok(settings.show(nodes.len() as u64, json));
        }
        Action::Drain { which, wait } => {
            let names = cluster.named(which)?;
            cluster.drain(&names, Duration::from_secs(wait))?;
        }
        Action::Token { lifetime } => return cluster.token(&lifetime.to_string()).map(|token| token + "\n"),
        Action::Add { name, peer_address } => return cluster.add(&name, &peer_address),
        Action::Remove { which, force, yes, wait } => {
            let names = cluster.named(which)?;
            cluster.weigh_removal(&names, yes)?;
            if names.len() > 1 {
                // Else what one of them has would go to another one that is to leave, too.
                cluster.begin_to_drain(&names)?;
            }
            for name in names {
                cluster.remove(&name, force, Duration::from_secs(wait))?;
            }
        }
        Action::Replace { name, by, wait } => cluster.replace(&name, &by, Duration::from_secs(wait))?,
        Action::AutoReplace { seconds } => {
            cluster.ask(&["DICTUM.NODE", "AUTO-REPLACE", &seconds.to_string()]).map(|_| ())?;
        }
        Action::AddKey { name, key } => cluster.ask(&["DICTUM.NODE", "ADDKEY", &name, &key]).map(|_| ())?,
        Action::ForgetKeys { name } => cluster.ask(&["DICTUM.NODE", "FORGETKEYS", &name]).map(|_| ())?,
        Action::Pause => cluster.ask(&["DICTUM.NODE", "PAUSE"]).map(|_| ())?,
        Action::Resume => cluster.ask(&["DICTUM.NODE", "RESUME"]).map(|_| ())?,
    }
    let nodes = cluster.nodes()?;
    let settings = cluster.settings_if_known()?;
    if json {
        let listed: Vec<Listed<'_>> = nodes.iter().map(|node| Listed { node, settings }).collect();
        let mut text = serde_json::to_string(&listed).expect("plain fields become JSON");
        writeln!(text).expect("a string takes all text");
        return Ok(text);
    }
    Ok(table(&nodes, settings, output))
}

/// A connection to one of the nodes.
struct Cluster {
    endpoint: Endpoint,
    connection: Connection,
}

impl Cluster {
    fn ask(&mut self, words: &[&str]) -> Result<Value, String> {
        let endpoint = &self.endpoint;
        let reply = self.connection.call(words).map_err(|error| {
            format!("the node at {endpoint} does not answer: {error}\n  `dictum node list` tells whether it was done.")
        })?;
        match reply.as_error() {
            Some(error) => Err(advised(error, endpoint)),
            None => Ok(reply),
        }
    }

    fn nodes(&mut self) -> Result<Vec<NodeInfo>, String> {
        let reply = self.ask(&["DICTUM.NODE", "LIST"])?;
        let strange = format!("the server at {} answered something that this version cannot read", self.endpoint);
        NodeInfo::read_list(&reply).ok_or(strange)
    }

    /// The names of the nodes that are meant.
    fn named(&mut self, which: Which) -> Result<Vec<String>, String> {
        let Some(zone) = which.zone else { return Ok(which.name.into_iter().collect()) };
        let nodes = self.nodes()?.into_iter().filter(|node| node.zone == zone);
        let names: Vec<String> = nodes.map(|node| node.name).collect();
        if names.is_empty() {
            return Err(format!("no node is in the zone {zone}; `dictum node list` shows which there are"));
        }
        Ok(names)
    }

    fn token(&mut self, seconds: &str) -> Result<String, String> {
        let reply = self.ask(&["DICTUM.NODE", "TOKEN", seconds])?;
        let text = reply.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        text.ok_or_else(|| format!("the server at {} answered something that this version cannot read", self.endpoint))
    }

    fn add(&mut self, name: &str, peer_address: &str) -> Result<String, String> {
        let nodes = self.nodes()?;
        if let Some(node) = nodes.iter().find(|node| node.name == name || node.peer_address == peer_address) {
            return Err(format!("there is a node {} at {} already", node.name, node.peer_address));
        }
        let asked = nodes.iter().find(|node| node.seen == "up").ok_or("no node is up")?;
        let lifetime = base::limits::TOKEN_LIFETIME.as_secs();
        let token = self.token(&lifetime.to_string())?;
        Ok(format!(
            "dictum start --node {name} --join {} --token {token} --peer {peer_address} --dir FOLDER --resp IP:PORT --http IP:PORT\n# and --cluster-secret FILE, where the other nodes have one; --insecure, where they have none and other machines reach this one\n",
            asked.peer_address
        ))
    }

    /// Removes a node and waits until it is gone.
    fn remove(&mut self, name: &str, force: bool, wait: Duration) -> Result<(), String> {
        let words = ["DICTUM.NODE", "REMOVE", name, "FORCE"];
        self.ask(&words[..if force { 4 } else { 3 }])?;
        let (mut progress, began) = (Progress::default(), Instant::now());
        let gone = |nodes: &[NodeInfo]| progress.look(nodes, name, began.elapsed());
        self.wait_until(wait, gone, "It goes on by itself: `dictum node list` tells how far it is")
    }

    /// Removes a node once another one can take its place.
    fn replace(&mut self, name: &str, by: &str, wait: Duration) -> Result<(), String> {
        let there = |nodes: &[NodeInfo]| match nodes.iter().find(|node| node.name == by) {
            Some(node) if node.seen == "up" => None,
            Some(_) => Some(format!("{by} has joined and is not up")),
            None => Some(format!("{by} has not joined yet")),
        };
        self.wait_until(wait, there, "Nothing was removed: start it with `dictum start --join`, and try again")?;
        self.remove(name, true, wait)
    }

    /// Waits until nothing is left, shows what is, and says after `wait` what goes on.
    fn wait_until(
        &mut self,
        wait: Duration,
        mut left: impl FnMut(&[NodeInfo]) -> Option<String>,
        otherwise: &str,
    ) -> Result<(), String> {
        let (began, shows) = (Instant::now(), io::stderr().is_terminal());
        let mut said = String::new();
        loop {
            // The node that was asked may be the one that goes: then another has to be asked.
            let Some(text) = left(&self.nodes()?) else {
                if shows {
                    eprintln!();
                }
                return Ok(());
            };
            if shows {
                eprint!("\r{text}, {} s\x1b[K", began.elapsed().as_secs());
            } else if said != text {
                // Whoever writes it to a file wants to see it, too; and each thing once.
                eprintln!("{text}");
                said.clone_from(&text);
            }
            if began.elapsed() >= wait {
                return Err(format!("{text} after {} s. {otherwise}.", wait.as_secs()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn begin_to_drain(&mut self, names: &[String]) -> Result<(), String> {
        names.iter().try_for_each(|name| self.ask(&["DICTUM.NODE", "DRAIN", name]).map(|_| ()))
    }

    /// Drains nodes and waits until they lead nothing any more, and have as few votes as they can have.
    fn drain(&mut self, names: &[String], wait: Duration) -> Result<(), String> {
        self.begin_to_drain(names)?;
        let began = Instant::now();
        names.iter().try_for_each(|name| self.wait_until_drained(name, began, wait))
    }

    fn wait_until_drained(&mut self, name: &str, began: Instant, wait: Duration) -> Result<(), String> {
        let shows = io::stderr().is_terminal();
        let mut first: Option<u64> = None;
        let mut still = 0;
        let mut votes_before = u64::MAX;
        loop {
            let nodes = self.nodes()?;
            let Some(node) = nodes.iter().find(|node| node.name == name) else {
                return Err(format!("there is no node {name} any more"));
            };
            let left = node.leads + node.votes;
            let all = *first.get_or_insert(left);
            if shows {
                let done = 100 * (all - left.min(all)) / all.max(1);
                eprint!("\r{done:>3} %  leads {}, votes in {} of {}   ", node.leads, node.votes, node.replicas);
            }
            // Where others can vote, its votes go within a few rounds; what stays has to.
            still = if node.votes == votes_before { still + 1 } else { 0 };
            votes_before = node.votes;
            if node.leads == 0 && (node.votes == 0 || still >= 5) {
                if shows {
                    eprintln!();
                }
                return Ok(());
            }
            if began.elapsed() >= wait {
                return Err(format!(
                    "{name} still leads {} partitions after {} s. It goes on by itself: `dictum node list` tells how far it is, and \
                     `dictum status` whether the others are up to date.",
                    node.leads,
                    wait.as_secs()
                ));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// A node's error, and advice to a person.
fn advised(error: &str, endpoint: &Endpoint) -> String {
    asked::advised(error, endpoint, "dictum node list", |_, _| None)
}

/// What the cluster's version is, and who holds it back.
fn versions(nodes: &[NodeInfo]) -> String {
    let version = nodes.iter().map(|node| node.cluster_version).max().unwrap_or_default();
    let newest = nodes.iter().map(|node| node.speaks).max().unwrap_or_default();
    // Asked of a node that does not know of versions.
    if version == 0 {
        return String::new();
    }
    let older: Vec<&str> = nodes.iter().filter(|node| node.speaks < newest).map(|node| node.name.as_str()).collect();
    if newest <= version || older.is_empty() {
        return format!("The cluster has version {version}.\n");
    }
    format!("The cluster has version {version}; version {newest} waits for {}.\n", older.join(", "))
}

/// All nodes for people.
fn table(nodes: &[NodeInfo], settings: Option<Settings>, output: Output) -> String {
    let head = ["name", "state", "zone", "seen", "leads", "votes", "replicas", "to-send", "speaks", "peer-address"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(nodes.iter().map(|it| {
        let numbers = [it.leads, it.votes, it.replicas].map(|number| number.to_string());
        let [leads, votes, replicas] = numbers;
        let zone = if it.zone.is_empty() { "-" } else { &it.zone };
        let to_send = if it.bytes_to_send == 0 { "-".to_owned() } else { bytes(it.bytes_to_send) };
        let speaks = if it.speaks == 0 { "-".to_owned() } else { it.speaks.to_string() };
        let [name, state, seen, address] = [&it.name, &it.state, &it.seen, &it.peer_address].map(String::as_str);
        let texts = [name, state, zone, seen, &leads, &votes, &replicas, &to_send, &speaks, address];
        texts.map(str::to_owned).to_vec()
    }));
    let mut text = columns(&rows, &[4, 5, 6, 7, 8], &[7, 8], output);
    if let Some(settings) = settings {
        text.push_str(&settings.summary(nodes.len() as u64));
    }
    text.push_str(&versions(nodes));
    let stepped = nodes.iter().map(|node| node.entries_stepped_over).max().unwrap_or_default();
    if stepped > 0 {
        let _ = writeln!(
            text,
            "Entries that were stepped over (--step-over): {stepped}; `dictum status` names the newest."
        );
    }
    if nodes.iter().any(|node| node.movement == "paused") {
        text.push_str("Movement is paused: `dictum node resume` lets votes, leaderships and copies move again.\n");
    }
    text
}

#[cfg(test)]
mod tests;
