//! What a node of Cassandra is started with: `cassandra.yaml`, the settings of its log, and Java's options.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// When the commit log is synced: before a write is acknowledged. The default, `periodic`, acknowledges up to ten seconds before.
pub(super) const COMMIT_LOG_SYNC: &str = "batch";
/// How long a node waits for the others before it answers that they did not: as long as the laboratory waits for any answer. The default,
/// two seconds for a write, is less than a Java machine that has just started may need while all nodes share two cores.
pub(super) const REQUEST_TIMEOUT: &str = "10s";
/// The heap of each node. Cassandra would take a quarter of the memory; three nodes share this machine, and the data of a comparison is small.
pub(super) const HEAP: &str = "512M";
/// The settings, in the folder of a node.
const SETTINGS: &str = "cassandra.yaml";
/// What is logged and where: warnings, on the standard output, which goes to the node's log.
const LOGBACK: &str = "<configuration><appender name=\"OUT\" class=\"ch.qos.logback.core.ConsoleAppender\"><encoder>\
                       <pattern>%-5level %date{ISO8601} %msg%n</pattern></encoder></appender>\
                       <root level=\"WARN\"><appender-ref ref=\"OUT\"/></root></configuration>\n";
/// The settings of its log, in the folder of a node.
const LOG_SETTINGS: &str = "logback.xml";

/// What Cassandra uses of Java's inside from version 17 on, as its `jvm17-server.options` says.
const EXPORTS: [&str; 9] = [
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.attach/sun.tools.attach",
];
/// The same for what it looks into by reflection.
const OPENS: [&str; 14] = [
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang.reflect",
    "jdk.compiler/com.sun.tools.javac",
    "java.base/java.lang",
    "java.base/java.util",
];

/// What differs from node to node, and what they must agree on.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeSettings<'a> {
    /// Its number.
    pub node: usize,
    /// How many there are.
    pub nodes: usize,
    /// The address of each.
    pub address: fn(usize) -> Ipv4Addr,
    /// The folder for its data and its settings.
    pub data: &'a Path,
    /// The port for clients, of all nodes.
    pub client_port: u16,
    /// The port for each other, of all nodes.
    pub peer_port: u16,
}

impl NodeSettings<'_> {
    /// Writes its files into its folder, which it makes.
    pub(super) fn write(&self) -> Result<(), String> {
        let failed = |error| format!("the settings in {} cannot be written: {error}", self.data.display());
        fs::create_dir_all(self.data).map_err(failed)?;
        fs::write(self.data.join(SETTINGS), self.yaml()).map_err(failed)?;
        fs::write(self.data.join(LOG_SETTINGS), LOGBACK).map_err(failed)
    }

    /// The settings: those without a default, those that keep acknowledged writes, and what `cassandra_latest.yaml` has for new
    /// clusters that no older node must be able to join.
    fn yaml(&self) -> String {
        let own = (self.address)(self.node);
        let seeds: Vec<String> =
            (0..self.nodes).map(|node| format!("{}:{}", (self.address)(node), self.peer_port)).collect();
        let mut out = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(out, "{name}: {value}");
        };
        line("cluster_name", "dictum-lab");
        line("partitioner", "org.apache.cassandra.dht.Murmur3Partitioner");
        line("endpoint_snitch", "SimpleSnitch");
        // Even shares that are known before, so that the nodes need not wait for each other to choose theirs. All are seeds: none
        // joins a cluster that is there, they found it together.
        line("num_tokens", "1");
        line("initial_token", &token(self.node, self.nodes).to_string());
        line("auto_bootstrap", "false");
        line("listen_address", &own.to_string());
        line("rpc_address", &own.to_string());
        line("storage_port", &self.peer_port.to_string());
        line("native_transport_port", &self.client_port.to_string());
        line("commitlog_sync", COMMIT_LOG_SYNC);
        for name in ["write_request_timeout", "read_request_timeout"] {
            line(name, REQUEST_TIMEOUT);
        }
        line("disk_failure_policy", "die");
        line("commit_failure_policy", "die");
        for (name, folder) in [
            ("commitlog_directory", "commitlog"),
            ("hints_directory", "hints"),
            ("saved_caches_directory", "saved_caches"),
            ("cdc_raw_directory", "cdc_raw"),
        ] {
            line(name, &quoted(&self.data.join(folder)));
        }
        line("data_file_directories", &format!("[{}]", quoted(&self.data.join("data"))));
        line(
            "seed_provider",
            &format!(
                "[{{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{{seeds: \"{}\"}}]}}]",
                seeds.join(",")
            ),
        );
        line("storage_compatibility_mode", "NONE");
        line("memtable_allocation_type", "offheap_objects");
        line(
            "memtable",
            "{configurations: {skiplist: {class_name: SkipListMemtable}, trie: {class_name: TrieMemtable}, default: {inherits: trie}}}",
        );
        line("sstable", "{selected_format: bti}");
        out
    }
}

/// The node's place on the ring from −2⁶³ to 2⁶³, as many even shares as there are nodes.
fn token(node: usize, nodes: usize) -> i64 {
    let share = (1_i128 << 64) / nodes as i128;
    i64::try_from(i128::from(i64::MIN) + share * node as i128).unwrap_or(i64::MAX)
}

/// A text of YAML's in which nothing but the quote has a meaning.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "''"))
}

/// The words behind `java` for a node with this folder, and the server's jars in that one.
pub(super) fn java_options(data: &Path, jars: &Path) -> Vec<String> {
    let mut options: Vec<String> = [
        "-Xss256k",
        "-XX:+UseG1GC",
        "-XX:+ParallelRefProcEnabled",
        "-XX:MaxTenuringThreshold=1",
        "-XX:MaxGCPauseMillis=300",
        "-XX:InitiatingHeapOccupancyPercent=70",
        "-XX:+PerfDisableSharedMem",
        // Not a node that lingers: the laboratory sees its end, and what it said last.
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.net.preferIPv4Stack=true",
        "-Djava.awt.headless=true",
        "-Djdk.attach.allowAttachSelf=true",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.allocator.useCacheForAllThreads=true",
        "-Dio.netty.allocator.maxOrder=11",
        // There is no cluster that a node would have to listen to before it joins.
        "-Dcassandra.ring_delay_ms=2000",
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        "-Dcassandra-foreground=yes",
    ]
    .map(str::to_owned)
    .to_vec();
    options.extend([format!("-Xms{HEAP}"), format!("-Xmx{HEAP}")]);
    for (name, packages) in [("--add-exports", &EXPORTS[..]), ("--add-opens", &OPENS[..])] {
        options.extend(packages.iter().map(|package| format!("{name}={package}=ALL-UNNAMED")));
    }
    // It measures objects by this agent, and by guesses without it.
    options.extend(find_agent(jars).map(|agent| format!("-javaagent:{}", agent.display())));
    let folder = data.display();
    options.extend([
        format!("-Dcassandra.config=file://{folder}/{SETTINGS}"),
        format!("-Dcassandra.storagedir={folder}"),
        format!("-Dcassandra.triggers_dir={folder}"),
        format!("-Dlogback.configurationFile={folder}/{LOG_SETTINGS}"),
        "-cp".to_owned(),
        format!("{}/*", jars.display()),
        "org.apache.cassandra.service.CassandraDaemon".to_owned(),
    ]);
    options
}

fn find_agent(jars: &Path) -> Option<PathBuf> {
    let is_agent = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("jamm-") && name.ends_with(".jar")
    };
    fs::read_dir(jars).ok()?.flatten().map(|entry| entry.path()).find(is_agent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(node: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 0, 1 + node as u8)
    }

    #[test]
    fn tokens_are_even_shares_of_the_ring() {
        let tokens: Vec<i64> = (0..3).map(|node| token(node, 3)).collect();
        assert_eq!(tokens, [i64::MIN, -3_074_457_345_618_258_603, 3_074_457_345_618_258_602]);
        assert_eq!(token(0, 1), i64::MIN);
    }

    #[test]
    fn a_node_knows_all_and_syncs_before_it_answers() {
        let data = Path::new("/it's/data");
        let settings = NodeSettings { node: 1, nodes: 3, address, data, client_port: 9_042, peer_port: 7_000 };
        let yaml = settings.yaml();
        for part in [
            "commitlog_sync: batch\n",
            "write_request_timeout: 10s\n",
            "listen_address: 127.0.0.2\n",
            "seeds: \"127.0.0.1:7000,127.0.0.2:7000,127.0.0.3:7000\"",
            "commitlog_directory: '/it''s/data/commitlog'\n",
            "data_file_directories: ['/it''s/data/data']\n",
        ] {
            assert!(yaml.contains(part), "{part}\n{yaml}");
        }
    }

    #[test]
    fn java_is_told_where_everything_is() {
        let jars = tempfile::tempdir().expect("a temporary folder");
        let without = java_options(Path::new("/d"), jars.path());
        assert!(!without.iter().any(|word| word.starts_with("-javaagent:")));
        fs::write(jars.path().join("jamm-0.4.0.jar"), "").expect("a file");
        let with = java_options(Path::new("/d"), jars.path());
        assert!(with.iter().any(|word| word.starts_with("-javaagent:") && word.ends_with("/jamm-0.4.0.jar")));
        assert!(with.contains(&"-Dcassandra.config=file:///d/cassandra.yaml".to_owned()));
        assert_eq!(with.last().map(String::as_str), Some("org.apache.cassandra.service.CassandraDaemon"));
    }
}
