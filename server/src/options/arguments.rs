//! The flags and variables of `dictum start`, as `--help` shows them.

use std::path::PathBuf;

use base::limits::DATABASES_MAX;
use base::versions::{NEWEST, OLDEST};
use clap::Args;
use storage::CachePolicy;

use super::WORKER_TOKEN;
use super::doors;
use super::values::{DiskMark, LogFormat, LogLevel, Size, StepOver, Wait};
use crate::client_tls::{ClientsUser, PlainText};
use crate::peer_tls::PeerTlsMode;

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
    /// Keys under which this node makes links beside those by which the cluster knows the others: of nodes that have changed theirs while this one was away, or where the
    /// nodes that have lost their keys are a majority. The log says which
    #[arg(long, env = "DICTUM_PEER_KEYS", value_name = "NAME=HASH,…")]
    pub peer_keys: Option<String>,
    /// Whether links in plain text are taken, too, while nodes get the secret one after the other [default: require]
    #[arg(long, env = "DICTUM_PEER_TLS", value_name = "WHICH")]
    pub peer_tls: Option<PeerTlsMode>,
    /// Folder with the authority of the cluster (`dictum init` makes one): clients may speak TLS then, at the same addresses, and trust its ca.pem [default: none]
    #[arg(long, env = "DICTUM_TLS_CA", value_name = "FOLDER")]
    pub tls_ca: Option<PathBuf>,
    /// File with a certificate of your own instead, as PEM, and behind it those of authorities between it and the one that clients trust [default: none]
    #[arg(long, env = "DICTUM_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// File with the key of that certificate
    #[arg(long, env = "DICTUM_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// File with the certificates of authorities, as PEM: a client that shows one of theirs is the user that it names, as after AUTH; one that shows none logs in as ever. How to make
    /// one with openssl: docs/security.md. Needs --tls-auth-clients-user [default: none]
    #[arg(long, env = "DICTUM_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// What of such a certificate is the user's name: its common name (CN) [default: none]
    #[arg(long, env = "DICTUM_TLS_AUTH_CLIENTS_USER", value_name = "WHICH", ignore_case = true)]
    pub tls_auth_clients_user: Option<ClientsUser>,
    /// Which clients may speak without TLS [default: loopback, those on this machine; without a certificate always]
    #[arg(long, env = "DICTUM_PLAINTEXT", value_name = "WHICH")]
    pub plaintext: Option<PlainText>,
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
    /// With less free room than this on its disk, in bytes or in percent of the disk (5%), the node takes only writes that free room, and goes on reading; 0 for never [default: 512MiB;
    /// on a disk of less than 10GiB a twentieth of it, but at least 192MiB, or a quarter if that is less]
    #[arg(long, env = "DICTUM_DISK_LOW_MARK", value_name = "SIZE|PERCENT")]
    pub disk_low_mark: Option<DiskMark>,
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
