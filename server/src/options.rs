//! What `dictum start` can be told: by flag, by environment variable or by a TOML file, in this order of precedence.

mod arguments;
mod doors;
mod file;
pub(crate) mod sample;
mod tls;
mod values;
mod words;
mod workers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::tls::KeyHash;
use base::limits::{
    COMPARED_EVERY, CONNECTIONS_DEFAULT, DATABASES_DEFAULT, DATABASES_MAX, LOG_ENTRIES_KEPT, NODES_MAX,
    REQUEST_TIMEOUT, STEP_OVERS_MAX, VALUE_BYTES_DEFAULT, VALUE_BYTES_MAX,
};
use base::versions::{NEWEST, OLDEST};
use base::{NodeId, PartitionId, Position};
use node::{Level, Member};
use storage::{CachePolicy, CacheSettings};

use crate::client_tls::{CertificateSource, PlainText};
use crate::fault::DELAY_MAX;
use crate::peer_tls::PeerTlsMode;
use crate::{memory, secrets};
pub use arguments::{StartArguments, StateIn};
use file::{File, blame, read_file};
use values::Text;
pub use values::{DiskMark, LogFormat, LogLevel, Size, StepOver, Wait};
pub(crate) use words::{check_zone, parse_cluster};
use words::{is_host_and_port, parse_address, parse_members, parse_peer_keys};

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
    /// By which keys other nodes are known beside those that the cluster has heard of.
    pub peer_keys: Vec<(String, KeyHash)>,
    /// Which links are taken then.
    pub peer_tls: PeerTlsMode,
    /// Where the certificate for clients comes from, if they may speak TLS.
    pub certificate: Option<CertificateSource>,
    /// File with the authorities whose certificates make clients the users that these name.
    pub client_authorities: Option<PathBuf>,
    /// Which clients may speak in plain text.
    pub plain_text: PlainText,
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
    /// With less free room on the disk the node refuses writes that grow; `None` for the usual mark, 0 for none.
    pub disk_low_mark: Option<DiskMark>,
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
        let Some(path) = config else { return Options::check(arguments, File::default())?.with_password_of_file() };
        let (file, text) = read_file(&path)?;
        if file.password.is_some() || file.token.is_some() {
            secrets::warn_of_readers(&path);
        }
        let check = |file| Options::check(arguments.clone(), file);
        let options = check(file).map_err(|reason| blame((&path, &text), reason, check))?;
        options.with_password_of_file()
    }

    fn with_password_of_file(mut self) -> Result<Options, String> {
        if let Some(path) = &self.password_file {
            self.password = Some(secrets::read_file(path)?);
        }
        Ok(self)
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
        let of_file = file.disk_low_mark.filter(|_| arguments.disk_low_mark.is_none());
        let of_file = of_file.map(|text| text.parse("disk-low-mark")).transpose()?;
        let disk_low_mark = arguments.disk_low_mark.or(of_file);
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
            (None, Some(text)) => text.parse::<LogLevel>().map_err(|error| format!("log-level: {error}"))?.0,
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
        let peer_keys = arguments.peer_keys.or(file.peer_keys);
        if cluster_secret.is_none() && peer_keys.is_some() {
            return Err("--peer-keys is for links under TLS, and these need --cluster-secret FILE too".to_owned());
        }
        let peer_keys = peer_keys.map(|text| parse_peer_keys(&text)).transpose()?.unwrap_or_default();
        let (certificate, plain_text) = self::tls::read(self::tls::Given {
            authority: arguments.tls_ca.or(file.tls_ca),
            certificate: arguments.tls_cert.or(file.tls_cert),
            key: arguments.tls_key.or(file.tls_key),
            plain_text: arguments.plaintext.or(file.plaintext),
        })?;
        let client_authorities = self::tls::clients(
            certificate.is_some(),
            arguments.tls_client_ca.or(file.tls_client_ca),
            arguments.tls_auth_clients_user.or(file.tls_auth_clients_user),
        )?;
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
            peer_keys,
            peer_tls: peer_tls.unwrap_or_default(),
            certificate,
            client_authorities,
            plain_text,
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
