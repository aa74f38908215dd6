//! `dictum status`, and the shape of what `DICTUM.STATUS` answers.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cli::connection::{Connection, Endpoint};

/// What a node knows of the cluster: the JSON of `DICTUM.STATUS` and of `GET /v1/status`.
///
/// Fields that a node of another version leaves out have their empty value.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ClusterStatus {
    /// Version of the node that answers.
    pub version: String,
    /// Name of the node that answers.
    pub node: String,
    /// Why it refuses writes that may make the default bucket larger, for want of room on a disk; empty if it does not.
    pub refuses: String,
    /// Names of all members.
    pub cluster: Vec<String>,
    /// Who leads, as far as this node knows.
    pub leader: Option<String>,
    /// The leadership's ballot, `round.node`.
    pub ballot: Option<String>,
    /// Every partition.
    pub partitions: Vec<PartitionStatus>,
    /// Entries that were stepped over, the newest.
    pub stepped_over: Vec<SteppedOver>,
    /// Entries before which this node holds until all agree that they are to be stepped over.
    pub step_over: Vec<StepOverWait>,
    /// Every node, as far as this node knows.
    pub nodes: Vec<NodeStatus>,
}

/// An entry of a log that was stepped over (`--step-over`): its command was not done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SteppedOver {
    /// `BUCKET/INDEX@POSITION`.
    pub entry: String,
    /// Its checksum.
    pub checksum: String,
    /// When the cluster took note of it, in milliseconds since 1970.
    pub at_ms: u64,
}

/// An entry that is to be stepped over, and is not yet.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct StepOverWait {
    /// `BUCKET/INDEX@POSITION`.
    pub entry: String,
    /// Who keeps the node from it, and what is to be done.
    pub waits_for: String,
}

/// One partition.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct PartitionStatus {
    /// Its bucket's number.
    pub bucket: u32,
    /// Its number within the bucket.
    pub index: u32,
    /// Its bucket's name; `council` for the group that holds the list of buckets.
    pub name: String,
    /// The answering node's role in it, as [`NodeStatus::role`].
    pub role: String,
    /// Who leads it.
    pub leader: Option<String>,
    /// The leadership's ballot, `round.node`.
    pub ballot: Option<String>,
}

/// One node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Whether it is the node that answers.
    pub me: bool,
    /// Whether it can be reached.
    pub up: bool,
    /// `leader`, `follower`, `candidate`, `recovering` or `unknown`.
    pub role: String,
    /// Where it serves RESP; empty if unknown.
    pub resp: String,
    /// Where it serves HTTP; empty if unknown.
    pub http: String,
    /// Where its peers reach it.
    pub peer: String,
    /// Position up to which it knows the log to be decided.
    pub decided: u64,
    /// Position up to which its own disk has the log.
    pub persisted: u64,
    /// Position up to which it has applied the log.
    pub applied: u64,
    /// Decided entries that it has not applied.
    pub lag: u64,
    /// `ok`, `low` (what frees room is taken, nothing else), `full` (no writes are taken) or `unknown`.
    pub disk: String,
    /// Bytes that have to be freed on its disk until all writes are taken again. Known of the node that answers alone.
    pub disk_missing: u64,
    /// By what it is slow: `disk`, `processor`, `link`; `no` if it is not.
    pub slow: String,
    /// Its version; empty if unknown.
    pub version: String,
    /// Milliseconds since it was last heard of.
    pub seen_ms_ago: Option<u64>,
}

impl ClusterStatus {
    /// Reads `DICTUM.STATUS`'s text.
    ///
    /// # Errors
    /// When it is not the JSON object that it should be.
    pub fn parse(json: &[u8]) -> Result<ClusterStatus, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// Whether this node knows a leader that it can reach.
    #[must_use]
    pub fn has_leader(&self) -> bool {
        self.leader.as_ref().is_some_and(|leader| {
            self.nodes.iter().find(|node| node.name == *leader).is_none_or(|node| node.up || node.me)
        })
    }

    /// The node that answers, if it lists itself.
    #[must_use]
    pub fn me(&self) -> Option<&NodeStatus> {
        self.nodes.iter().find(|node| node.me)
    }
}

/// Arguments of `dictum status`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  dictum status --at 127.0.0.1:7002\n\n\
    Exit code: 0 if there is a leader, 3 if the node knows none, 1 if no node answers.")]
pub struct StatusArguments {
    /// RESP address of any node of the cluster.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7001", env = "DICTUM_AT")]
    at: String,
    /// Print the node's answer as one line of JSON.
    #[arg(long)]
    json: bool,
    /// Password, where the cluster asks for one.
    #[arg(long, value_name = "PASSWORD", env = "DICTUM_PASSWORD", hide_env_values = true)]
    password: Option<String>,
}

/// Prints the state of a cluster.
#[must_use]
pub fn run(arguments: StatusArguments) -> ExitCode {
    match ask(&arguments) {
        Ok(status) => {
            if arguments.json {
                println!("{}", serde_json::to_string(&status).expect("plain fields become JSON"));
            } else {
                print!("{}", table(&status));
            }
            ExitCode::from(if status.has_leader() { 0 } else { 3 })
        }
        Err(message) => {
            eprintln!("dictum status: {message}");
            ExitCode::FAILURE
        }
    }
}

fn ask(arguments: &StatusArguments) -> Result<ClusterStatus, String> {
    let (endpoint, mut connection) = open(&arguments.at, arguments.password.as_deref())?;
    let reply = connection.call(&[b"DICTUM.STATUS"]).map_err(|error| {
        format!(
            "the node at {endpoint} does not answer: {error}\n  Is that its RESP address, and not HTTP's or the peers'?"
        )
    })?;
    if let Some(error) = reply.as_error() {
        return Err(if error.starts_with("NOAUTH") {
            format!("the node at {endpoint} asks for a password: give it by --password or DICTUM_PASSWORD")
        } else {
            format!("the server at {endpoint} is no Dictum node, or of another version: {error}")
        });
    }
    reply
        .as_bytes()
        .and_then(|json| ClusterStatus::parse(json).ok())
        .ok_or_else(|| format!("the server at {endpoint} answered something that this version cannot read"))
}

/// Connects to the node at `at` and shows it the password, if there is one. An error says what to do.
pub(crate) fn open(at: &str, password: Option<&str>) -> Result<(Endpoint, Connection), String> {
    let endpoint = Endpoint::parse(at)?;
    let mut connection = Connection::open(&endpoint, Some(Duration::from_secs(10))).map_err(|error| {
        format!(
            "nothing answers at {endpoint}: {error}\n  Is the node running? `dictum dev` starts three of them on this \
             machine, the first at 127.0.0.1:7001.\n  Ask another node of the cluster with --at HOST:PORT (its RESP address)."
        )
    })?;
    if let Some(password) = password {
        let reply = connection.call(&[b"AUTH", password.as_bytes()]).map_err(|error| error.to_string())?;
        if let Some(error) = reply.as_error() {
            return Err(format!("the node at {endpoint} refuses the password: {error}"));
        }
    }
    Ok((endpoint, connection))
}

/// The status for people.
#[must_use]
pub fn table(status: &ClusterStatus) -> String {
    let mut out = String::new();
    let up = status.nodes.iter().filter(|node| node.up || node.me).count();
    let leader = match (&status.leader, &status.ballot) {
        (Some(leader), Some(ballot)) => format!("{leader} leads with ballot {ballot}"),
        (Some(leader), None) => format!("{leader} leads"),
        _ => "no leader: nothing can be read or written".to_owned(),
    };
    writeln!(out, "{leader} · {up} of {} nodes up · as {} sees it", status.nodes.len(), status.node)
        .expect("a string takes all text");
    out.push('\n');
    let mut rows: Vec<Vec<String>> = vec![
        ["node", "state", "role", "decided", "persisted", "applied", "lag", "disk", "resp", "http", "version", "seen"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(status.nodes.iter().map(row));
    out.push_str(&aligned(&rows, &[3, 4, 5, 6]));
    if !status.refuses.is_empty() {
        let why = status.refuses.trim_start_matches("MISCONF ");
        writeln!(out, "\n{} refuses writes: {why}.", status.node).expect("a string takes all text");
    }
    if status.partitions.len() > 1 {
        out.push('\n');
        let mut rows = vec![["bucket", "partition", "leader", "ballot"].map(str::to_owned).to_vec()];
        rows.extend(status.partitions.chunk_by(|one, other| one.bucket == other.bucket).map(partitions_row));
        out.push_str(&aligned(&rows, &[1]));
    }
    for StepOverWait { entry, waits_for } in &status.step_over {
        writeln!(out, "\nEntry {entry} is not applied, and not stepped over yet: {waits_for}.")
            .expect("a string takes all text");
    }
    if !status.stepped_over.is_empty() {
        let entries: Vec<&str> = status.stepped_over.iter().map(|it| it.entry.as_str()).collect();
        writeln!(out, "\nStepped over (--step-over), their commands not done: {}.", entries.join(", "))
            .expect("a string takes all text");
    }
    out
}

/// What is told of the partitions of one bucket: of several how many each node leads.
fn partitions_row(of_bucket: &[PartitionStatus]) -> Vec<String> {
    let Some(first) = of_bucket.first() else { return Vec::new() };
    // Nodes of an older version do not tell names.
    let name = Some(first.name.clone()).filter(|name| !name.is_empty()).unwrap_or_else(|| first.bucket.to_string());
    let leader_of = |partition: &PartitionStatus| partition.leader.clone().unwrap_or_else(|| "none".to_owned());
    if let [only] = of_bucket {
        return vec![name, only.index.to_string(), leader_of(only), only.ballot.clone().unwrap_or_default()];
    }
    let mut led: BTreeMap<String, usize> = BTreeMap::new();
    for partition in of_bucket {
        *led.entry(leader_of(partition)).or_default() += 1;
    }
    let led: Vec<String> = led.into_iter().map(|(node, count)| format!("{node} leads {count}")).collect();
    vec![name, format!("0 to {}", of_bucket.len() - 1), led.join(", ")]
}

fn row(node: &NodeStatus) -> Vec<String> {
    let known = node.up || node.me;
    let position = |position: u64| if known { position.to_string() } else { "-".to_owned() };
    let text = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    // What a node was before it went away is not what it is.
    let lately = |latest: &str| text(if known { latest } else { "" });
    vec![
        node.name.clone(),
        match &node.slow[..] {
            _ if !known => "down".to_owned(),
            "" | "no" => "up".to_owned(),
            part => format!("slow {part}"),
        },
        lately(&node.role),
        position(node.decided),
        position(node.persisted),
        position(node.applied),
        position(node.lag),
        lately(&node.disk),
        text(&node.resp),
        text(&node.http),
        text(&node.version),
        match node.seen_ms_ago {
            _ if node.me => "here".to_owned(),
            Some(ms) if ms < 10_000 => format!("{ms} ms ago"),
            Some(ms) => format!("{} s ago", ms / 1000),
            None => "never".to_owned(),
        },
    ]
}

/// Lines up columns; those listed in `numbers` on the right.
pub(crate) fn aligned(rows: &[Vec<String>], numbers: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let width = *width;
            if numbers.contains(&column) {
                write!(line, "{cell:>width$}  ").expect("a string takes all text");
            } else {
                write!(line, "{cell:<width$}  ").expect("a string takes all text");
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ClusterStatus {
        ClusterStatus::parse(
            br#"{"version":"0.1.0","node":"n1","cluster":["n1","n2"],"leader":"n2","ballot":"3.n2",
                "partitions":[{"bucket":0,"index":0,"leader":"n2","ballot":"3.n2"}],"from_the_future":1,"nodes":[
                {"name":"n1","me":true,"up":true,"role":"follower","resp":"127.0.0.1:7001","http":"127.0.0.1:8001",
                 "peer":"127.0.0.1:9001","decided":1200,"persisted":1201,"applied":1200,"lag":0,"disk":"ok",
                 "version":"0.1.0","seen_ms_ago":null},
                {"name":"n2","me":false,"up":true,"role":"leader","resp":"","http":"","peer":"127.0.0.1:9002",
                 "decided":7,"persisted":7,"applied":7,"lag":0,"disk":"unknown","version":"","seen_ms_ago":12}]}"#,
        )
        .expect("the documented shape")
    }

    #[test]
    fn the_table_is_aligned() {
        assert_eq!(
            table(&example()),
            "n2 leads with ballot 3.n2 · 2 of 2 nodes up · as n1 sees it\n\
             \n\
             node  state  role      decided  persisted  applied  lag  disk     resp            http            version  seen\n\
             n1    up     follower     1200       1201     1200    0  ok       127.0.0.1:7001  127.0.0.1:8001  0.1.0    here\n\
             n2    up     leader          7          7        7    0  unknown  -               -               -        12 ms ago\n"
        );
    }

    #[test]
    fn several_buckets_are_told_by_name() {
        let mut status = example();
        let (name, leader) = ("users".to_owned(), Some("n1".to_owned()));
        status.partitions.push(PartitionStatus { bucket: 7, name, leader, ..PartitionStatus::default() });
        let text = table(&status);
        assert!(
            text.ends_with(
                "\nbucket  partition  leader  ballot\n0               0  n2      3.n2\nusers           0  n1\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn of_many_partitions_is_told_how_many_each_node_leads() {
        let mut status = example();
        for (index, leader) in [Some("n1"), Some("n2"), Some("n1"), None].into_iter().enumerate() {
            let (name, leader) = ("users".to_owned(), leader.map(str::to_owned));
            let index = index as u32;
            status.partitions.push(PartitionStatus { bucket: 7, index, name, leader, ..PartitionStatus::default() });
        }
        let text = table(&status);
        assert!(text.contains("\nusers      0 to 3  n1 leads 2, n2 leads 1, none leads 1\n"), "{text}");
    }

    #[test]
    fn what_was_stepped_over_and_what_is_to_be_is_told() {
        let mut status = example();
        let (entry, waits_for) = ("0/0@17".to_owned(), "n2 has said nothing yet".to_owned());
        status.step_over.push(StepOverWait { entry: entry.clone(), waits_for });
        let waits = "\nEntry 0/0@17 is not applied, and not stepped over yet: n2 has said nothing yet.\n";
        assert!(table(&status).ends_with(waits), "{}", table(&status));
        status.step_over.clear();
        status.stepped_over.push(SteppedOver { entry, ..SteppedOver::default() });
        assert!(table(&status).ends_with("\nStepped over (--step-over), their commands not done: 0/0@17.\n"));
    }

    #[test]
    fn a_leader_that_is_down_is_none() {
        let mut status = example();
        assert!(status.has_leader());
        status.nodes[1].up = false;
        assert!(!status.has_leader());
        assert!(table(&status).contains("n2    down   -               -"));
        status.leader = None;
        assert!(!status.has_leader());
        assert!(table(&status).starts_with("no leader"));
    }

    #[test]
    fn nothing_but_an_object_is_a_status() {
        assert!(ClusterStatus::parse(b"[]garbage").is_err());
        assert!(ClusterStatus::parse(b"{}").is_ok());
    }
}
