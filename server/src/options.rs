//! What `dictum start` can be told: by flag, by environment variable or by a TOML file, in this order of precedence.

mod doors;
pub(crate) mod sample;
mod values;
mod words;
mod workers;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::limits::{
    COMPARED_EVERY, CONNECTIONS_DEFAULT, DATABASES_DEFAULT, DATABASES_MAX, LOG_ENTRIES_KEPT, NODES_MAX,
    REQUEST_TIMEOUT, STEP_OVERS_MAX, VALUE_BYTES_DEFAULT, VALUE_BYTES_MAX,
};
use base::versions::{NEWEST, OLDEST};
use base::{NodeId, PartitionId, Position};
use clap::Args;
use node::{Level, Member};
use serde::Deserialize;
use storage::{CachePolicy, CacheSettings};

use crate::fault::DELAY_MAX;
use crate::peer_tls::PeerTlsMode;
use crate::{memory, secrets};
use values::Text;
pub use values::{LogFormat, LogLevel, Size, StepOver, Wait};
pub(crate) use words::{check_zone, parse_cluster};
use words::{is_host_and_port, parse_address, parse_members};

/// What a node is told that has no cluster.
const HOW_TO_BEGIN: &str = "--cluster n1=HOST:PORT,n2=HOST:PORT,n3=HOST:PORT (or for a single node: n1=127.0.0.1:9001), or --join HOST:PORT and --token TOKEN to join one";
/// The address for RESP clients unless told otherwise.
const RESP_DEFAULT: &str = "127.0.0.1:7001";
/// The address for HTTP unless told otherwise.
const HTTP_DEFAULT: &str = "127.0.0.1:8001";
/// How an address for clients that route by themselves looks.
const CLUSTER_EXAMPLE: &str = "127.0.0.1:7101";
/// The variable that brings a worker what lets it join: not a flag, which everybody could see.
pub(crate) const WORKER_TOKEN: &str = "DICTUM_WORKER_TOKEN";
/// Most threads for clients' sockets, unless configured otherwise: beyond, the loop is what holds them up.
const IO_THREADS_DEFAULT_MAX: usize = 4;
/// Most threads for clients' sockets.
const IO_THREADS_MAX: usize = 64;

/// Example lines for `--help`.
const START_EXAMPLE: &str = "\
Examples:
  dictum start --node n1 --cluster n1=10.0.0.1:9001,n2=10.0.0.2:9001,n3=10.0.0.3:9001 \\
      --cluster-secret /etc/dictum/cluster.secret --password-file /etc/dictum/password \\
      --resp 0.0.0.0:7001 --http 0.0.0.0:8001 --dir /var/lib/dictum
  dictum start --print-config --node n1 --dir /var/lib/dictum > /etc/dictum/dictum.toml
  dictum start --config /etc/dictum/dictum.toml
  dictum start --node n4 --join 10.0.0.1:9001 --token 5ca1… --peer 10.0.0.4:9001 \\
      --cluster-secret /etc/dictum/cluster.secret \\
      --resp 0.0.0.0:7001 --http 0.0.0.0:8001 --dir /var/lib/dictum

A file for --config has the same names, every one of them optional:
  node = \"n1\"
  cluster = \"n1=10.0.0.1:9001,n2=10.0.0.2:9001,n3=10.0.0.3:9001\"
  dir = \"/var/lib/dictum\"
  value-bytes-max = \"64MiB\"
A flag beats the environment, the environment beats the file.";

fn speak_at_most_help() -> String {
    format!(
        "Speak this version at the most, {OLDEST} to {NEWEST}, as `dictum node list` shows it, and so hold back the cluster's: for starting a newer Dictum on all nodes \
         first, and using what is new in it later [default: the newest]"
    )
}

/// Flags of `dictum start`; each has an environment variable and a name in the file as well.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = START_EXAMPLE)]
pub struct StartArguments {
    /// TOML file with the same settings
    #[arg(long, env = "DICTUM_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print a file for --config with all settings, their meanings and defaults, and end: those given beside this are made in it, all others commented out
    #[arg(long)]
    pub print_config: bool,
    /// Name of this node: one of those in --cluster, or with --join a new one
    #[arg(long, env = "DICTUM_NODE", value_name = "NAME")]
    pub node: Option<String>,
    /// All nodes that found the cluster, with the addresses at which they reach each other; the same list on every one of them, for ever
    #[arg(long, env = "DICTUM_CLUSTER", value_name = "NAME=HOST:PORT,…")]
    pub cluster: Option<String>,
    /// Join a cluster that is there: the peer address of any of its nodes. Not needed any more once the node has joined
    #[arg(long, env = "DICTUM_JOIN", value_name = "HOST:PORT", conflicts_with = "cluster")]
    pub join: Option<String>,
    /// What `dictum node token` has given, for --join
    #[arg(long, env = "DICTUM_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Label of the zone that this node is in (a rack, a data centre): no two of a partition's voters are in one zone if there are enough of them
    #[arg(long, env = "DICTUM_ZONE", value_name = "NAME")]
    pub zone: Option<String>,
    /// Newest version of messages between nodes that this one speaks.
    #[arg(long, env = "DICTUM_SPEAK_AT_MOST", value_name = "VERSION", help = speak_at_most_help(), value_parser = clap::value_parser!(u16).range(i64::from(OLDEST)..=i64::from(NEWEST)))]
    pub speak_at_most: Option<u16>,
    /// Address for RESP clients [default: 127.0.0.1:7001]
    #[arg(long, env = "DICTUM_RESP", value_name = "IP:PORT")]
    pub resp: Option<String>,
    /// Address for HTTP [default: 127.0.0.1:8001]
    #[arg(long, env = "DICTUM_HTTP", value_name = "IP:PORT")]
    pub http: Option<String>,
    /// Address for clients that speak the Redis Cluster protocol and route by themselves [default: none]
    #[arg(long, env = "DICTUM_CLUSTER_ADDRESS", value_name = "IP:PORT")]
    pub cluster_address: Option<String>,
    /// Where these clients reach this node, if not at --cluster-address [default: if that is 0.0.0.0 or ::, this node's
    /// host in --cluster]
    #[arg(long, env = "DICTUM_CLUSTER_ANNOUNCE", value_name = "HOST:PORT")]
    pub cluster_announce: Option<String>,
    /// The bucket that these clients see [default: default]
    #[arg(long, env = "DICTUM_CLUSTER_BUCKET", value_name = "NAME")]
    pub cluster_bucket: Option<String>,
    /// Databases that clients can SELECT by number, made when they are selected first, from 1 to 1024; 0 is the bucket default [default: 16]
    #[arg(long, env = "DICTUM_DATABASES", value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=i64::from(DATABASES_MAX)))]
    pub databases: Option<u16>,
    /// Address to listen at for the other nodes, if it is not the one in --cluster; with --join it is needed
    #[arg(long, env = "DICTUM_PEER", value_name = "IP:PORT")]
    pub peer: Option<String>,
    /// Where the other nodes reach this one, if not at --peer or as --cluster says; may change from start to start
    #[arg(long, env = "DICTUM_PEER_ANNOUNCE", value_name = "HOST:PORT")]
    pub peer_announce: Option<String>,
    /// Where nodes are reached now that have got another address since this one ran last, itself among them: needed where they do not find each other by the addresses
    /// of before. Not needed any more once they have
    #[arg(long, env = "DICTUM_MOVED", value_name = "NAME=HOST:PORT,…")]
    pub moved: Option<String>,
    /// File with the secret of the cluster, the same on every node (`dictum init` makes one): links between nodes are under TLS then, and nobody else gets in [default: none]
    #[arg(long, env = "DICTUM_CLUSTER_SECRET", value_name = "FILE")]
    pub cluster_secret: Option<PathBuf>,
    /// Whether links in plain text are taken, too, while nodes get the secret one after the other [default: require]
    #[arg(long, env = "DICTUM_PEER_TLS", value_name = "WHICH")]
    pub peer_tls: Option<PeerTlsMode>,
    /// Let a new node begin without a secret though other machines reach its address for nodes: everybody who does so can read and write everything. Yes or no [default: no]
    #[arg(
        long,
        env = "DICTUM_INSECURE",
        value_name = "YES|NO",
        num_args = 0..=1,
        default_missing_value = "yes",
        value_parser = doors::YES_OR_NO
    )]
    pub insecure: Option<String>,
    /// Folder for this node's data; created if missing
    #[arg(long, env = "DICTUM_DIR", value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// Password that clients must give by AUTH. As a flag every user of the machine can see it: rather --password-file, or the variable
    #[arg(long, env = "DICTUM_PASSWORD", value_name = "TEXT", hide_env_values = true)]
    pub password: Option<String>,
    /// File whose first line is that password; it beats --password
    #[arg(long, env = "DICTUM_PASSWORD_FILE", value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Without a password, refuse clients of other machines, as Redis does: yes or no [default: yes]
    #[arg(long, env = "DICTUM_PROTECTED_MODE", value_name = "YES|NO", value_parser = doors::YES_OR_NO)]
    pub protected_mode: Option<String>,
    /// Names of this node that HTTP requests may be addressed to, beside its addresses, localhost, and its host in --cluster or --peer-announce;
    /// *.example.com stands for all that end so, * for all there are [default: none]
    #[arg(long, env = "DICTUM_HTTP_HOST", value_name = "NAME,…")]
    pub http_host: Option<String>,
    /// Origins whose web pages may read and write over HTTP [default: none]
    #[arg(long, env = "DICTUM_HTTP_ORIGIN", value_name = "ORIGIN,…")]
    pub http_origin: Option<String>,
    /// Longest value that may be stored, up to 512MiB [default: 16MiB]
    #[arg(long, env = "DICTUM_VALUE_BYTES_MAX", value_name = "SIZE")]
    pub value_bytes_max: Option<Size>,
    /// How long a request may wait for its outcome, from 100ms to 3600s [default: 5s]
    #[arg(long, env = "DICTUM_REQUEST_TIMEOUT", value_name = "DURATION")]
    pub request_timeout: Option<Wait>,
    /// Most RESP clients at a time, at least 1 [default: 10000]
    #[arg(long, env = "DICTUM_MAXCLIENTS", value_name = "COUNT")]
    pub maxclients: Option<usize>,
    /// Threads for clients' sockets, the loop among them, 1 to 64: with 1 the loop serves them itself [default: half of the processors, at most 4]
    #[arg(long, env = "DICTUM_IO_THREADS", value_name = "COUNT")]
    pub io_threads: Option<usize>,
    /// Run so many worker loops, 1 to 16, for a machine with several processors. Each is a node of its own (n1, n1.2, …) and a process; they share --resp, and
    /// have the next higher ports for everything else. All of them are in the zone of this node's name, unless --zone says another [default: 1]
    #[arg(long, env = "DICTUM_WORKERS", value_name = "COUNT")]
    pub workers: Option<u16>,
    /// Which of them this process is
    #[arg(long, value_name = "NUMBER", hide = true)]
    pub worker: Option<u16>,
    /// What lets it join, from the process that has started it
    #[arg(long, env = WORKER_TOKEN, value_name = "TOKEN", hide = true, hide_env_values = true)]
    pub worker_token: Option<String>,
    /// A snapshot is taken after so many bytes of log [default: a thirty-second of the memory, at most 256MiB]
    #[arg(long, env = "DICTUM_LOG_BYTES_PER_SNAPSHOT", value_name = "SIZE")]
    pub log_bytes_per_snapshot: Option<Size>,
    /// Entries of log kept behind a snapshot for nodes that are a little behind [default: 10000]
    #[arg(long, env = "DICTUM_LOG_ENTRIES_KEPT", value_name = "COUNT")]
    pub log_entries_kept: Option<u64>,
    /// Log kept for a node that takes a snapshot, until it has caught up; beyond, it takes another one [default: an eighth of the memory, at most 1GiB]
    #[arg(long, env = "DICTUM_LOG_BYTES_HELD", value_name = "SIZE")]
    pub log_bytes_held: Option<Size>,
    /// How often the states of each partition's replicas are compared in the background, if anything was written since; 0 for never [default: 60m]
    #[arg(long, env = "DICTUM_COMPARE_EVERY", value_name = "DURATION")]
    pub compare_every: Option<Wait>,
    /// With less free room than this on its disk the node takes only writes that free room, and goes on reading; 0 for never [default: 512MiB;
    /// on a disk of less than 10GiB a twentieth of it, but at least 192MiB, or a quarter if that is less]
    #[arg(long, env = "DICTUM_DISK_LOW_MARK", value_name = "SIZE")]
    pub disk_low_mark: Option<Size>,
    /// Memory for values of each bucket that has no quota of its own; all of them are on disk [default: an eighth of the memory, at most 1GiB]
    #[arg(long, env = "DICTUM_MEMORY_QUOTA", value_name = "SIZE")]
    pub memory_quota: Option<Size>,
    /// Which values go first when that memory is used up: fifo, lru, lfu or s3-fifo [default: s3-fifo]
    #[arg(long, env = "DICTUM_CACHE_POLICY", value_name = "POLICY")]
    pub cache_policy: Option<CachePolicy>,
    /// Leave out one entry of a partition's log, which kills or hangs every node that applies it; its command is then not done. Start all nodes of the cluster with the
    /// same flag: nothing is left out unless all agree. See docs/operating.md, Stepping over an entry
    #[arg(long, value_name = "BUCKET/INDEX@POSITION")]
    pub step_over: Vec<StepOver>,
    /// What to log: debug, info, warning or error [default: info]
    #[arg(long, env = "DICTUM_LOG_LEVEL", value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// How to log: text for people, or json, a line of JSON each with node, bucket and partition [default: text]
    #[arg(long, env = "DICTUM_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Where the state is: in a store on disk that may be larger than memory, or in memory with snapshots of all of it (for comparison)
    #[arg(long, env = "DICTUM_STATE", value_name = "WHERE", hide = true)]
    pub state: Option<StateIn>,
    /// Whether the loop may wait for the disk itself when it has nothing else to do
    #[arg(long, env = "DICTUM_COMMIT_HERE", value_name = "BOOL", hide = true)]
    pub commit_here: Option<bool>,
    /// Whether the journal is written past the page cache
    #[arg(long, env = "DICTUM_DIRECT_WRITES", value_name = "BOOL", hide = true)]
    pub direct_writes: Option<bool>,
    /// Fault injection: every sync of the journal takes so many milliseconds longer
    #[arg(long, value_name = "MS", hide = true)]
    pub fault_sync_delay: Option<u64>,
}

/// Where a node keeps its state.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateIn {
    /// In memory; now and then all of it goes to a snapshot file.
    Memory,
    /// In an ordered store on disk, which may be larger than memory; what has changed goes there now and then.
    Store,
}

/// The file that `--config` names.
#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct File {
    node: Option<String>,
    cluster: Option<String>,
    resp: Option<String>,
    http: Option<String>,
    cluster_address: Option<String>,
    cluster_announce: Option<String>,
    cluster_bucket: Option<String>,
    databases: Option<u16>,
    peer: Option<String>,
    peer_announce: Option<String>,
    moved: Option<String>,
    join: Option<String>,
    token: Option<String>,
    zone: Option<String>,
    speak_at_most: Option<u16>,
    cluster_secret: Option<PathBuf>,
    peer_tls: Option<PeerTlsMode>,
    insecure: Option<String>,
    dir: Option<PathBuf>,
    password: Option<String>,
    password_file: Option<PathBuf>,
    protected_mode: Option<String>,
    http_host: Option<String>,
    http_origin: Option<String>,
    value_bytes_max: Option<Text>,
    request_timeout: Option<Text>,
    maxclients: Option<usize>,
    io_threads: Option<usize>,
    workers: Option<u16>,
    log_bytes_per_snapshot: Option<Text>,
    log_bytes_held: Option<Text>,
    log_entries_kept: Option<u64>,
    compare_every: Option<Text>,
    disk_low_mark: Option<Text>,
    memory_quota: Option<Text>,
    cache_policy: Option<String>,
    log_level: Option<String>,
    log_format: Option<LogFormat>,
}

/// Checked settings of a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of this node.
    pub name: String,
    /// All founders, sorted by name, and which of them this node is; none if it is to join, or has joined before.
    pub founding: Option<(Vec<Member>, NodeId)>,
    /// The peer address of a node of the cluster that is to be joined.
    pub join: Option<String>,
    /// What lets this node join.
    pub token: Option<String>,
    /// The label of its zone; empty: it is a zone of its own.
    pub zone: String,
    /// The newest version of messages between nodes that it speaks.
    pub speak_at_most: u16,
    /// Address for RESP clients.
    pub resp: SocketAddr,
    /// Address for HTTP.
    pub http: SocketAddr,
    /// Address for clients that route by themselves, if there is to be one.
    pub cluster_address: Option<SocketAddr>,
    /// Where they reach it, if somebody has said so.
    pub cluster_announce: Option<String>,
    /// The bucket that they see.
    pub cluster_bucket: String,
    /// Databases that clients can select by number.
    pub databases: u16,
    /// Address to listen at for the other nodes, if it is not the one by which they know this node; may hold a host name.
    pub peer: Option<String>,
    /// Where they reach this node, if somebody has said so.
    pub peer_announce: Option<String>,
    /// Where nodes are reached that have another address than before.
    pub moved: Vec<Member>,
    /// File with the secret of the cluster, if links are to be under TLS.
    pub cluster_secret: Option<PathBuf>,
    /// Which links are taken then.
    pub peer_tls: PeerTlsMode,
    /// A new node may begin without a secret where other machines reach it.
    pub insecure: bool,
    /// The data folder.
    pub dir: PathBuf,
    /// Password for `AUTH`.
    pub password: Option<String>,
    /// The file that has it, which beats the one above; [`Options::read`] has read it.
    pub password_file: Option<PathBuf>,
    /// Without a password, clients of other machines are refused.
    pub protected_mode: bool,
    /// Names that HTTP requests may be addressed to, beside those that the node has anyway.
    pub http_hosts: Vec<String>,
    /// Origins whose web pages may read and write.
    pub http_origins: Vec<String>,
    /// Longest value, in bytes.
    pub value_bytes_max: usize,
    /// How long a request may wait.
    pub request_timeout: Duration,
    /// How often states are compared; zero: never.
    pub compare_every: Duration,
    /// Most RESP clients.
    pub clients_max: usize,
    /// Threads for clients' sockets, the loop among them.
    pub io_threads: usize,
    /// How many worker loops this machine runs.
    pub workers: u16,
    /// Which of them this process is; none if it is to start them, or there is only one.
    pub worker: Option<u16>,
    /// Memory that there is for each of them, in bytes; 0: nobody knows.
    pub memory_bytes: u64,
    /// Bytes of log after which a snapshot is taken.
    pub log_bytes_per_snapshot: u64,
    /// Entries of log kept behind a snapshot.
    pub log_entries_kept: u64,
    /// Bytes of log kept for nodes that take a snapshot.
    pub log_bytes_held: u64,
    /// With less free room on the disk, in bytes, the node refuses writes that grow; `None` for the usual mark, 0 for none.
    pub disk_low_mark: Option<u64>,
    /// Memory for values of the store.
    pub cache: CacheSettings,
    /// Entries that are to be left out, by partition and position.
    pub step_over: Vec<(PartitionId, Position)>,
    /// What to log.
    pub log_level: Level,
    /// How its lines look.
    pub log_format: LogFormat,
    /// Whether the loop may commit a lone small payload itself.
    pub commit_here: bool,
    /// Whether the journal is written with `O_DIRECT`.
    pub direct_writes: bool,
    /// Where the state is.
    pub state: StateIn,
    /// How much longer every sync of the journal is made to take, to see what a slow disk costs; none without fault injection.
    pub fault_sync_delay: Option<Duration>,
}

impl Options {
    /// Reads the file if one is named, and checks everything.
    ///
    /// # Errors
    /// The text says which setting is wrong and how to write it.
    pub fn read(arguments: StartArguments) -> Result<Options, String> {
        let config = arguments.config.clone();
        let file = match &config {
            Some(path) => read_file(path)?.0,
            None => File::default(),
        };
        if let Some(path) = config.filter(|_| file.password.is_some() || file.token.is_some()) {
            secrets::warn_of_readers(&path);
        }
        let mut options = Options::check(arguments, file)?;
        if let Some(path) = &options.password_file {
            options.password = Some(secrets::read_file(path)?);
        }
        Ok(options)
    }

    fn check(arguments: StartArguments, file: File) -> Result<Options, String> {
        let cluster = arguments.cluster.or(file.cluster).map(|text| parse_cluster(&text)).transpose()?;
        let members = cluster.iter().flatten();
        let names = || members.clone().map(|member| member.name.as_str()).collect::<Vec<_>>().join(", ");
        let name = match arguments.node.or(file.node) {
            Some(node) => node,
            None if cluster.is_none() => {
                return Err(format!("which node is this? add --node NAME, and {HOW_TO_BEGIN}"));
            }
            None => return Err(format!("which node is this? add --node with one of {}", names())),
        };
        let zone = arguments.zone.or(file.zone).unwrap_or_default();
        check_zone("--zone", &zone)?;
        let speak_at_most = arguments.speak_at_most.or(file.speak_at_most).unwrap_or(NEWEST);
        if !(OLDEST..=NEWEST).contains(&speak_at_most) {
            return Err(format!("--speak-at-most {speak_at_most}: this Dictum speaks versions {OLDEST} to {NEWEST}"));
        }
        let databases = arguments.databases.or(file.databases).unwrap_or(DATABASES_DEFAULT);
        if !(1..=DATABASES_MAX).contains(&databases) {
            return Err(format!("--databases {databases}: a number from 1 to {DATABASES_MAX}"));
        }
        let founding = match cluster {
            None => None,
            Some(members) => {
                let Some(me) = members.iter().position(|member| member.name == name) else {
                    let names: Vec<&str> = members.iter().map(|member| &member.name[..]).collect();
                    return Err(format!(
                        "--node {name} is not in --cluster, which has {}; correct one of them",
                        names.join(", ")
                    ));
                };
                Some((members, NodeId(me as u16)))
            }
        };
        let dir = arguments.dir.or(file.dir).ok_or("no folder given for the data; add --dir FOLDER")?;
        let (join, token) = (arguments.join.or(file.join), arguments.token.or(file.token));
        // Who has joined may be started again by its folder alone.
        if founding.is_none() && join.is_none() && !dir.join(storage::IDENTITY_NAME).exists() {
            return Err(format!("no cluster given; add {HOW_TO_BEGIN}"));
        }
        let resp = parse_address("--resp", arguments.resp.or(file.resp), RESP_DEFAULT)?;
        let http = parse_address("--http", arguments.http.or(file.http), HTTP_DEFAULT)?;
        if resp == http && resp.port() != 0 {
            return Err(format!("--resp and --http are both {resp}; give them different ports"));
        }
        let cluster_address = match arguments.cluster_address.or(file.cluster_address) {
            None => None,
            given => Some(parse_address("--cluster-address", given, CLUSTER_EXAMPLE)?),
        };
        if let Some(address) = cluster_address.filter(|it| it.port() != 0 && [resp, http].contains(it)) {
            return Err(format!("--cluster-address {address} is that of --resp or --http; give it a port of its own"));
        }
        let cluster_announce = arguments.cluster_announce.or(file.cluster_announce);
        if let Some(text) = cluster_announce.as_ref().filter(|text| !is_host_and_port(text)) {
            return Err(format!("--cluster-announce {text}: write it as HOST:PORT, for example {CLUSTER_EXAMPLE}"));
        }
        let size = |flag: Option<Size>, text: Option<Text>, name, default| match (flag, text) {
            (Some(size), _) => Ok(size.0),
            (None, Some(text)) => text.parse(name).map(|Size(bytes)| bytes),
            (None, None) => Ok(default),
        };
        let value_bytes_max =
            size(arguments.value_bytes_max, file.value_bytes_max, "value-bytes-max", VALUE_BYTES_DEFAULT as u64)?;
        if value_bytes_max == 0 || value_bytes_max > VALUE_BYTES_MAX as u64 {
            return Err(format!("--value-bytes-max {value_bytes_max}: choose between 1 and {VALUE_BYTES_MAX} bytes"));
        }
        let compare_every = match (arguments.compare_every, file.compare_every) {
            (Some(wait), _) => wait.0,
            (None, Some(text)) => text.parse::<Wait>("compare-every")?.0,
            (None, None) => COMPARED_EVERY,
        };
        let request_timeout = match (arguments.request_timeout, file.request_timeout) {
            (Some(wait), _) => wait.0,
            (None, Some(text)) => text.parse::<Wait>("request-timeout")?.0,
            (None, None) => REQUEST_TIMEOUT,
        };
        if request_timeout < Duration::from_millis(100) || request_timeout > Duration::from_secs(3600) {
            return Err("--request-timeout: choose between 100ms and 3600s".to_owned());
        }
        let workers = arguments.workers.or(file.workers).unwrap_or(1);
        // Several nodes of one machine share it.
        let memory_bytes = memory::total() / u64::from(workers.max(1));
        let plan = memory::Plan::of(memory_bytes);
        let log_bytes_per_snapshot = size(
            arguments.log_bytes_per_snapshot,
            file.log_bytes_per_snapshot,
            "log-bytes-per-snapshot",
            plan.log_per_snapshot,
        )?;
        let disk_low_mark = match (arguments.disk_low_mark, file.disk_low_mark) {
            (None, None) => None,
            (flag, text) => Some(size(flag, text, "disk-low-mark", 0)?),
        };
        let cache = CacheSettings {
            quota_bytes: size(
                arguments.memory_quota,
                file.memory_quota,
                "memory-quota",
                memory::Plan::of(memory::total()).values,
            )?,
            policy: match (arguments.cache_policy, file.cache_policy) {
                (Some(policy), _) => policy,
                (None, Some(text)) => text.parse().map_err(|error| format!("cache-policy: {error}"))?,
                (None, None) => CachePolicy::default(),
            },
        };
        let log_level = match (arguments.log_level, file.log_level) {
            (Some(level), _) => level.0,
            (None, Some(text)) => text.parse::<LogLevel>()?.0,
            (None, None) => Level::Info,
        };
        let log_format = arguments.log_format.or(file.log_format).unwrap_or_default();
        // What is said closer to the start beats what is said further away, whichever of the two it is.
        let (password, password_file) = match (arguments.password, arguments.password_file) {
            (None, None) => (file.password, file.password_file),
            given => given,
        };
        if password.as_ref().is_some_and(String::is_empty) {
            return Err("--password is empty: everybody would be let in. Leave it out if that is meant".to_owned());
        }
        let clients_max = arguments.maxclients.or(file.maxclients).unwrap_or(CONNECTIONS_DEFAULT);
        if clients_max == 0 {
            return Err("--maxclients 0 would let nobody in; choose at least 1".to_owned());
        }
        if arguments.step_over.len() > STEP_OVERS_MAX {
            return Err(format!("--step-over: at most {STEP_OVERS_MAX} entries at once"));
        }
        let io_threads_default = || if workers > 1 { 1 } else { io_threads_default() };
        let io_threads = arguments.io_threads.or(file.io_threads).unwrap_or_else(io_threads_default);
        if !(1..=IO_THREADS_MAX).contains(&io_threads) {
            return Err(format!("--io-threads {io_threads}: choose 1 to {IO_THREADS_MAX}"));
        }
        let fault_sync_delay = arguments.fault_sync_delay.map(Duration::from_millis);
        if fault_sync_delay.is_some_and(|delay| delay > DELAY_MAX) {
            return Err(format!("--fault-sync-delay: choose at most {} ms", DELAY_MAX.as_millis()));
        }
        let peer_announce = arguments.peer_announce.or(file.peer_announce);
        if let Some(text) = peer_announce.as_ref().filter(|text| !is_host_and_port(text)) {
            return Err(format!("--peer-announce {text}: write it as HOST:PORT, for example 10.0.0.4:9001"));
        }
        let moved = arguments.moved.or(file.moved);
        let moved = moved.map(|text| parse_members("--moved", &text, NODES_MAX)).transpose()?.unwrap_or_default();
        let cluster_secret = arguments.cluster_secret.or(file.cluster_secret);
        let peer_tls = arguments.peer_tls.or(file.peer_tls);
        if cluster_secret.is_none() && peer_tls.is_some() {
            return Err("--peer-tls is for links under TLS, and these need --cluster-secret FILE too".to_owned());
        }
        let options = Options {
            name,
            founding,
            join,
            token,
            zone,
            speak_at_most,
            resp,
            http,
            cluster_address,
            cluster_announce,
            cluster_bucket: arguments.cluster_bucket.or(file.cluster_bucket).unwrap_or("default".to_owned()),
            databases,
            peer: arguments.peer.or(file.peer),
            peer_announce,
            moved,
            cluster_secret,
            peer_tls: peer_tls.unwrap_or_default(),
            insecure: doors::insecure(arguments.insecure.or(file.insecure))?,
            dir,
            password,
            password_file,
            protected_mode: doors::protected_mode(arguments.protected_mode.or(file.protected_mode))?,
            http_hosts: doors::hosts(arguments.http_host.or(file.http_host))?,
            http_origins: doors::origins(arguments.http_origin.or(file.http_origin))?,
            value_bytes_max: value_bytes_max as usize,
            request_timeout,
            compare_every,
            clients_max,
            io_threads,
            workers,
            worker: None,
            memory_bytes,
            log_bytes_per_snapshot,
            log_bytes_held: size(arguments.log_bytes_held, file.log_bytes_held, "log-bytes-held", plan.log_held)?,
            log_entries_kept: arguments.log_entries_kept.or(file.log_entries_kept).unwrap_or(LOG_ENTRIES_KEPT),
            disk_low_mark,
            cache,
            step_over: arguments.step_over.iter().map(|it| (it.0, it.1)).collect(),
            log_level,
            log_format,
            commit_here: arguments.commit_here.unwrap_or(true),
            state: arguments.state.unwrap_or(StateIn::Store),
            direct_writes: arguments.direct_writes.unwrap_or(true),
            fault_sync_delay,
        };
        options.check_workers()?;
        match arguments.worker {
            Some(number) => options.of_worker(number, arguments.worker_token),
            None => Ok(options),
        }
    }
}

/// The file that `--config` names, and its text.
fn read_file(path: &Path) -> Result<(File, String), String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("--config {}: {error}; check the path", path.display()))?;
    let file = toml::from_str(&text).map_err(|error| {
        format!(
            "--config {}: {error}\nsee dictum start --print-config, which prints all that can stand there",
            path.display()
        )
    })?;
    Ok((file, text))
}

/// Stands for a cluster: the same on all nodes that know the same founders' names.
#[must_use]
pub fn fingerprint(founders: &[Member]) -> u64 {
    let names: Vec<&str> = founders.iter().map(|member| member.name.as_str()).collect();
    base::checksum::xxh3(names.join("\0").as_bytes())
}

/// As many as there are processors that the other threads leave alone, more or less.
fn io_threads_default() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, IO_THREADS_DEFAULT_MAX)
}

#[cfg(test)]
mod tests;
