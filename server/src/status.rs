//! `dictum status`, and the shape of what `DICTUM.STATUS` answers.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cli::connection::{Connection, Endpoint};
use crate::options::Wait;
use crate::secrets::Login;

mod table;

pub use table::{Output, table};
pub(crate) use table::{aligned, columns, time_lines};

/// How often a cluster is looked at that is to become well.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A node that lags by no more entries is close behind: under load it always lags by some.
const LAG_HEALTHY_MAX: u64 = 1000;

/// What a node knows of the cluster: the JSON of `DICTUM.STATUS` and of `GET /v1/status`.
///
/// Fields that a node of another version leaves out have their empty value.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ClusterStatus {
    /// Version of the node that answers.
    pub version: String,
    /// The cluster's own number, in hexadecimal: no two clusters have the same, and one that has gone on after `dictum unsafe-recover` has another one. Empty as long as
    /// the node knows none.
    pub id: String,
    /// Name of the node that answers.
    pub node: String,
    /// Why it refuses writes that may make the default bucket larger, for want of room on a disk; empty if it does not.
    pub refuses: String,
    /// For whom a new cluster waits before it begins; empty once it has.
    pub founding: String,
    /// How many voters may fail in the partition with the fewest to spare, and a majority is left; none while it is not known.
    pub failures_borne: Option<u64>,
    /// Which voters are missing there, and that no further failure is borne, say. Empty if none is.
    pub lacking: String,
    /// It cannot write its audit trail.
    pub audit_fails: bool,
    /// Names of all members.
    pub cluster: Vec<String>,
    /// Who leads, as far as this node knows.
    pub leader: Option<String>,
    /// The leadership's ballot, `round.node`.
    pub ballot: Option<String>,
    /// Every partition.
    pub partitions: Vec<PartitionStatus>,
    /// The cluster's time.
    pub time: TimeStatus,
    /// Entries that were stepped over, the newest.
    pub stepped_over: Vec<SteppedOver>,
    /// Entries before which this node holds until all agree that they are to be stepped over.
    pub step_over: Vec<StepOverWait>,
    /// Every node, as far as this node knows.
    pub nodes: Vec<NodeStatus>,
}

/// The cluster's time as the node that answers has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct TimeStatus {
    /// What it is, in milliseconds since 1970; none while it is not known.
    pub ms: Option<u64>,
    /// Where it comes from: `majority`, or `earliest` (no majority of clocks agrees), or `none`.
    pub source: String,
    /// Whether a majority of the clocks agrees now; none: not told.
    pub agreed: Option<bool>,
    /// By how many milliseconds the clocks of a majority are ahead of it, where it does not follow them at once.
    pub majority_ahead_ms: i64,
    /// By how many milliseconds a log is ahead of it: until the time has come so far, no time to live ends there.
    pub log_ahead_ms: u64,
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
    /// Position up to which the answering node knows its log to be decided; none if it has nothing of it.
    pub decided: Option<u64>,
    /// Position up to which it has applied that log.
    pub applied: Option<u64>,
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
    /// `leader`, `follower`, `candidate`, `recovering`, `outlived` (it is still to recover, whether it follows or leads), `none` (it has nothing of the first
    /// partition) or `unknown`.
    pub role: String,
    /// Where it serves RESP; empty if unknown.
    pub resp: String,
    /// Where it serves HTTP; empty if unknown.
    pub http: String,
    /// Where its peers reach it.
    pub peer: String,
    /// Position up to which it knows the first partition's log to be decided; none if it has nothing of that partition.
    pub decided: Option<u64>,
    /// Position up to which its own disk has that log.
    pub persisted: Option<u64>,
    /// Position up to which it has applied that log.
    pub applied: Option<u64>,
    /// Decided entries that it has not applied, in the partition where it is furthest behind.
    pub lag: Option<u64>,
    /// `ok`, `low` (what frees room is taken, nothing else), `full` (no writes are taken) or `unknown`.
    pub disk: String,
    /// Bytes that have to be freed on its disk until all writes are taken again. Known of the node that answers alone.
    pub disk_missing: u64,
    /// By what it is slow: `disk`, `processor`, `link`; `no` if it is not.
    pub slow: String,
    /// `ok`, `outside` (wrong by more than a majority of the clocks allows) or `unknown`.
    pub clock: String,
    /// By how many milliseconds its clock is ahead of that of the node that answers.
    pub clock_ahead_ms: Option<i64>,
    /// How the node that answers is linked to it: `tls` (with the cluster's secret), `plain`, or empty: not at all.
    pub link: String,
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

    /// The first trouble of the cluster that is found; none if all is well.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        if !self.founding.is_empty() {
            return Some(self.founding.clone());
        }
        if let Some(partition) = self.partitions.iter().find(|partition| partition.leader.is_none()) {
            return Some(format!("partition {}/{} has no leader", partition.bucket, partition.index));
        }
        if !self.has_leader() {
            return Some("there is no leader".to_owned());
        }
        let of_node = |node: &NodeStatus| {
            let what = match node {
                _ if !node.up && !node.me => "is down".to_owned(),
                _ if node.role == "recovering" => "recovers".to_owned(),
                _ if node.role == "outlived" => "is to recover once all others that vote are there".to_owned(),
                _ if node.disk != "ok" => format!("has a disk that is {}", node.disk),
                _ if node.clock == "outside" => "has a wrong clock".to_owned(),
                // A node that is far away has a slow link for ever, and is well.
                _ if !matches!(&node.slow[..], "" | "no" | "link") => format!("is slow by its {}", node.slow),
                _ => return node.lag.filter(|lag| *lag > LAG_HEALTHY_MAX).map(|lag| format!("lags by {lag} entries")),
            };
            Some(what)
        };
        let of_nodes = self.nodes.iter().find_map(|node| Some(format!("{} {}", node.name, of_node(node)?)));
        // A node may be well in the default bucket and recover in another one.
        of_nodes.or_else(|| Some(self.lacking.clone()).filter(|lacking| !lacking.is_empty()))
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
    dictum status --wait-healthy --timeout 5m     for scripts: until all is well\n\n\
    Exit code: 0 if there is a leader (with --wait-healthy: if all is well), 3 if not, 1 if no node answers.")]
pub struct StatusArguments {
    /// RESP address of any node of the cluster; several with commas between: the first that answers is asked.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7001", env = "DICTUM_AT")]
    at: String,
    /// File with the authority of the cluster (ca.pem): the node is asked by TLS.
    #[arg(long, value_name = "FILE", env = "DICTUM_CACERT")]
    cacert: Option<PathBuf>,
    /// Print the node's answer as one line of JSON.
    #[arg(long)]
    json: bool,
    /// How wide the table is
    #[arg(short = 'o', long, value_enum, value_name = "WIDTH", default_value_t)]
    output: Output,
    /// Wait until all nodes are up and close behind, all partitions are led, and no disk and no clock is wrong
    #[arg(long)]
    wait_healthy: bool,
    /// How long --wait-healthy waits
    #[arg(long, value_name = "DURATION", default_value = "60s", requires = "wait_healthy")]
    timeout: Wait,
    /// User to log in as; otherwise default.
    #[arg(long, value_name = "NAME", env = "DICTUM_USER")]
    user: Option<String>,
    /// Password, where the cluster asks for one.
    #[arg(long, value_name = "PASSWORD", env = "DICTUM_PASSWORD", hide_env_values = true)]
    password: Option<String>,
    /// File whose first line is the password; it beats --password.
    #[arg(long, value_name = "FILE", env = "DICTUM_PASSWORD_FILE")]
    password_file: Option<PathBuf>,
}

/// Prints the state of a cluster.
#[must_use]
pub fn run(arguments: StatusArguments) -> ExitCode {
    let begun = Instant::now();
    let login = match Login::choose(arguments.user, arguments.password, arguments.password_file.as_ref()) {
        Ok(login) => login,
        Err(reason) => {
            eprintln!("dictum status: {reason}");
            return ExitCode::FAILURE;
        }
    };
    let (outcome, trouble) = loop {
        let endpoints = Endpoint::parse_all(&arguments.at, arguments.cacert.as_deref());
        let outcome = endpoints.and_then(|endpoints| ask(endpoints, login.as_ref()));
        let trouble = match &outcome {
            Ok(status) => status.trouble(),
            Err(message) => Some(message.clone()),
        };
        if !arguments.wait_healthy || trouble.is_none() || begun.elapsed() >= arguments.timeout.0 {
            break (outcome, trouble);
        }
        std::thread::sleep(LOOK_EVERY);
    };
    match outcome {
        Ok(status) => {
            if arguments.json {
                lab::say_line!("{}", serde_json::to_string(&status).expect("plain fields become JSON"));
            } else {
                lab::say!("{}", table(&status, arguments.output));
            }
            if let Some(trouble) = trouble.as_ref().filter(|_| arguments.wait_healthy) {
                eprintln!("dictum status: not well after {:?}: {trouble}", arguments.timeout.0);
            }
            let is_well = if arguments.wait_healthy { trouble.is_none() } else { status.has_leader() };
            ExitCode::from(if is_well { 0 } else { 3 })
        }
        Err(message) => {
            eprintln!("dictum status: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Asks the first of these nodes that answers. An error says what to do.
pub(crate) fn ask(endpoints: Vec<Endpoint>, login: Option<&Login>) -> Result<ClusterStatus, String> {
    let (endpoint, mut connection) = open(endpoints, login)?;
    read(&endpoint, &mut connection)
}

/// Asks the node at the other end of a connection.
pub(crate) fn read(endpoint: &Endpoint, connection: &mut Connection) -> Result<ClusterStatus, String> {
    let reply = connection.call(&[b"DICTUM.STATUS"]).map_err(|error| {
        format!(
            "the node at {endpoint} does not answer: {error}\n  Is that its RESP address, and not HTTP's or the peers'?"
        )
    })?;
    if let Some(error) = reply.as_error() {
        return Err(if error.starts_with("NOAUTH") {
            format!("the node at {endpoint} asks for a password: give it by --password-file or DICTUM_PASSWORD")
        } else if error.starts_with("NOPERM") {
            format!("the node at {endpoint} refuses it: {error}\n  Log in as another user: --user NAME")
        } else {
            format!("the server at {endpoint} is no Dictum node, or of another version: {error}")
        });
    }
    reply
        .as_bytes()
        .and_then(|json| ClusterStatus::parse(json).ok())
        .ok_or_else(|| format!("the server at {endpoint} answered something that this version cannot read"))
}

/// Connects to the first of these nodes that answers and logs in, if there is a password. An error says what to do.
pub(crate) fn open(endpoints: Vec<Endpoint>, login: Option<&Login>) -> Result<(Endpoint, Connection), String> {
    let mut failures = Vec::new();
    for endpoint in endpoints {
        match Connection::open(&endpoint, Some(Duration::from_secs(10))) {
            Ok(connection) => return greet(endpoint, connection, login),
            Err(error) => failures.push(format!("nothing answers at {endpoint}: {error}")),
        }
    }
    Err(format!(
        "{}\n  Is the node running? `dictum dev` starts three of them on this machine, the first at 127.0.0.1:7001.\n  Ask another node of the cluster with --at \
         HOST:PORT (its RESP address), or several with commas between.",
        failures.join("\n")
    ))
}

/// Says the password, if there is one.
fn greet(
    endpoint: Endpoint,
    mut connection: Connection,
    login: Option<&Login>,
) -> Result<(Endpoint, Connection), String> {
    if let Some(login) = login {
        let reply = connection.call(&login.words()).map_err(|error| error.to_string())?;
        if let Some(error) = reply.as_error() {
            let name = login.name();
            return Err(format!("the node at {endpoint} refuses the password of the user {name}: {error}"));
        }
    }
    Ok((endpoint, connection))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn example() -> ClusterStatus {
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
    fn the_first_trouble_is_told() {
        let well = || {
            let mut status = example();
            status.nodes.iter_mut().for_each(|node| node.disk = "ok".to_owned());
            status
        };
        assert_eq!(well().trouble(), None);
        let with = |change: &dyn Fn(&mut ClusterStatus)| {
            let mut status = well();
            change(&mut status);
            status.trouble().unwrap_or_default()
        };
        let goes_down = |it: &mut ClusterStatus| (it.leader, it.nodes[1].up) = (Some("n1".to_owned()), false);
        assert_eq!(with(&goes_down), "n2 is down");
        assert_eq!(with(&|it| it.nodes[0].role = "recovering".to_owned()), "n1 recovers");
        assert_eq!(with(&|it| it.nodes[1].disk = "low".to_owned()), "n2 has a disk that is low");
        assert_eq!(with(&|it| it.nodes[1].clock = "outside".to_owned()), "n2 has a wrong clock");
        assert_eq!(with(&|it| it.nodes[1].slow = "disk".to_owned()), "n2 is slow by its disk");
        assert_eq!(with(&|it| it.nodes[1].slow = "link".to_owned()), "", "it is far away");
        assert_eq!(with(&|it| it.nodes[1].lag = Some(1001)), "n2 lags by 1001 entries");
        assert_eq!(with(&|it| it.nodes[1].lag = None), "", "it has nothing of any partition");
        assert_eq!(with(&|it| it.partitions[0].leader = None), "partition 0/0 has no leader");
        assert_eq!(with(&|it| it.leader = None), "there is no leader");
        assert_eq!(with(&|it| it.lacking = "one votes too few".to_owned()), "one votes too few");
        assert_eq!(with(&|it| it.founding = "founding: waits".to_owned()), "founding: waits");
    }

    #[test]
    fn a_leader_that_is_down_is_none() {
        let mut status = example();
        assert!(status.has_leader());
        status.nodes[1].up = false;
        assert!(!status.has_leader());
        assert!(table(&status, Output::Narrow).contains("n2    down   -               -"));
        status.leader = None;
        assert!(!status.has_leader());
        assert!(table(&status, Output::Narrow).starts_with("no leader"));
    }

    #[test]
    fn nothing_but_an_object_is_a_status() {
        assert!(ClusterStatus::parse(b"[]garbage").is_err());
        assert!(ClusterStatus::parse(b"{}").is_ok());
    }
}
