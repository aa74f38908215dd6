//! Directives of Redis 7.4 that change nothing here: they are read and set as in a Redis, so that programs and scripts which set them go on, and kept by
//! the council like all settings of the cluster. `docs/config.md` says so of each.

use super::{memory, number, parsed};
use Form::*;

/// How a value has to look.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Form {
    YesNo,
    /// A whole number between two.
    Number(i64, i64),
    /// A number of bytes, with a unit or without.
    Bytes,
    OneOf(&'static [&'static str]),
    Text,
    /// Pairs of seconds and changes.
    Save,
    /// Three numbers between -2000 and 2000.
    Scores,
    /// Numbers from 0 to 100.
    Percentiles,
    /// A Redis cannot change it while it runs.
    Immutable,
    /// A Redis changes it for nobody unless its file allows that.
    Protected,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub name: &'static str,
    /// How it was called before, or is called, too; empty: it has one name.
    pub alias: &'static str,
    pub default: &'static str,
    pub form: Form,
}

const fn kept(name: &'static str, alias: &'static str, default: &'static str, form: Form) -> Kept {
    Kept { name, alias, default, form }
}

const INT: i64 = i32::MAX as i64;
const INTEGER: Form = Number(0, INT);
const COUNT: Form = Number(0, i64::MAX);
/// Longest text that is kept.
const TEXT_BYTES_MAX: usize = 1024;

/// By name. The defaults are those of a Redis, or (`appendfsync` and a few more) what is true here.
#[rustfmt::skip]
pub(super) static KEPT: &[Kept] = &[
    kept("acl-pubsub-default", "", "resetchannels", OneOf(&["allchannels", "resetchannels"])),
    kept("aclfile", "", "", Immutable),
    kept("acllog-max-len", "", "128", COUNT),
    kept("active-defrag-cycle-max", "", "25", Number(1, 99)),
    kept("active-defrag-cycle-min", "", "1", Number(1, 99)),
    kept("active-defrag-ignore-bytes", "", "104857600", Bytes),
    kept("active-defrag-max-scan-fields", "", "1000", Number(1, i64::MAX)),
    kept("active-defrag-threshold-lower", "", "10", Number(0, 1000)),
    kept("active-defrag-threshold-upper", "", "100", Number(0, 1000)),
    kept("active-expire-effort", "", "1", Number(1, 10)),
    kept("activedefrag", "", "no", YesNo),
    kept("activerehashing", "", "yes", YesNo),
    kept("always-show-logo", "", "no", Immutable),
    kept("aof-disable-auto-gc", "", "no", YesNo),
    kept("aof-load-truncated", "", "yes", YesNo),
    kept("aof-rewrite-cpulist", "aof_rewrite_cpulist", "", Immutable),
    kept("aof-rewrite-incremental-fsync", "", "yes", YesNo),
    kept("aof-timestamp-enabled", "", "no", YesNo),
    kept("aof-use-rdb-preamble", "", "yes", YesNo),
    kept("appenddirname", "", "", Immutable),
    kept("appendfilename", "", "", Immutable),
    kept("appendfsync", "", "always", OneOf(&["everysec", "always", "no"])),
    kept("appendonly", "", "yes", YesNo),
    kept("auto-aof-rewrite-min-size", "", "67108864", Bytes),
    kept("auto-aof-rewrite-percentage", "", "100", INTEGER),
    kept("bgsave-cpulist", "bgsave_cpulist", "", Immutable),
    kept("bind-source-addr", "", "", Text),
    kept("bio-cpulist", "bio_cpulist", "", Immutable),
    kept("busy-reply-threshold", "lua-time-limit", "5000", COUNT),
    kept("cluster-allow-pubsubshard-when-down", "", "yes", YesNo),
    kept("cluster-allow-reads-when-down", "", "no", YesNo),
    kept("cluster-allow-replica-migration", "", "yes", YesNo),
    kept("cluster-announce-bus-port", "", "0", Number(0, 65_535)),
    kept("cluster-announce-hostname", "", "", Text),
    kept("cluster-announce-human-nodename", "", "", Text),
    kept("cluster-announce-ip", "", "", Text),
    kept("cluster-announce-port", "", "0", Number(0, 65_535)),
    kept("cluster-announce-tls-port", "", "0", Number(0, 65_535)),
    kept("cluster-config-file", "", "", Immutable),
    kept("cluster-link-sendbuf-limit", "", "0", Bytes),
    kept("cluster-migration-barrier", "", "1", INTEGER),
    kept("cluster-node-timeout", "", "15000", COUNT),
    kept("cluster-port", "", "0", Immutable),
    kept("cluster-preferred-endpoint-type", "", "ip", OneOf(&["ip", "hostname", "unknown-endpoint"])),
    kept("cluster-replica-no-failover", "cluster-slave-no-failover", "no", YesNo),
    kept("cluster-replica-validity-factor", "cluster-slave-validity-factor", "10", INTEGER),
    kept("cluster-require-full-coverage", "", "yes", YesNo),
    kept("crash-log-enabled", "", "yes", YesNo),
    kept("crash-memcheck-enabled", "", "yes", YesNo),
    kept("daemonize", "", "no", Immutable),
    kept("dbfilename", "", "", Protected),
    kept("dir", "", "", Protected),
    kept("disable-thp", "", "yes", Immutable),
    kept("dynamic-hz", "", "yes", YesNo),
    kept("enable-debug-command", "", "no", Immutable),
    kept("enable-module-command", "", "no", Immutable),
    kept("enable-protected-configs", "", "no", Immutable),
    kept("hash-max-listpack-entries", "hash-max-ziplist-entries", "512", COUNT),
    kept("hash-max-listpack-value", "hash-max-ziplist-value", "64", Bytes),
    kept("hll-sparse-max-bytes", "", "3000", Bytes),
    kept("hz", "", "10", INTEGER),
    kept("ignore-warnings", "", "", Text),
    kept("io-threads-do-reads", "", "no", Immutable),
    kept("jemalloc-bg-thread", "", "yes", YesNo),
    kept("latency-tracking-info-percentiles", "", "50 99 99.9", Percentiles),
    kept("lazyfree-lazy-eviction", "", "no", YesNo),
    kept("lazyfree-lazy-expire", "", "no", YesNo),
    kept("lazyfree-lazy-server-del", "", "no", YesNo),
    kept("lazyfree-lazy-user-del", "", "no", YesNo),
    kept("lazyfree-lazy-user-flush", "", "no", YesNo),
    kept("lfu-decay-time", "", "1", INTEGER),
    kept("lfu-log-factor", "", "10", INTEGER),
    kept("list-compress-depth", "", "0", INTEGER),
    kept("list-max-listpack-size", "list-max-ziplist-size", "-2", Number(i32::MIN as i64, INT)),
    kept("locale-collate", "", "", Text),
    kept("logfile", "", "", Immutable),
    kept("loglevel", "", "notice", OneOf(&["debug", "verbose", "notice", "warning"])),
    kept("masterauth", "", "", Text),
    kept("masteruser", "", "", Text),
    kept("max-new-connections-per-cycle", "", "10", Number(1, 1000)),
    kept("max-new-tls-connections-per-cycle", "", "1", Number(1, 1000)),
    kept("maxmemory", "", "0", Bytes),
    kept("maxmemory-eviction-tenacity", "", "10", Number(0, 100)),
    kept("maxmemory-policy", "", "noeviction", OneOf(&["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction"])),
    kept("maxmemory-samples", "", "5", Number(1, INT)),
    kept("min-replicas-max-lag", "min-slaves-max-lag", "10", INTEGER),
    kept("min-replicas-to-write", "min-slaves-to-write", "0", INTEGER),
    kept("no-appendfsync-on-rewrite", "", "no", YesNo),
    kept("oom-score-adj", "", "no", OneOf(&["no", "yes", "relative", "absolute"])),
    kept("oom-score-adj-values", "", "0 200 800", Scores),
    kept("pidfile", "", "", Immutable),
    kept("proc-title-template", "", "{title} {listen-addr} {server-mode}", Text),
    kept("propagation-error-behavior", "", "ignore", OneOf(&["ignore", "panic", "panic-on-replicas"])),
    kept("rdb-del-sync-files", "", "no", YesNo),
    kept("rdb-save-incremental-fsync", "", "yes", YesNo),
    kept("rdbchecksum", "", "yes", Immutable),
    kept("rdbcompression", "", "no", YesNo),
    kept("repl-backlog-size", "", "1048576", Bytes),
    kept("repl-backlog-ttl", "", "3600", COUNT),
    kept("repl-disable-tcp-nodelay", "", "no", YesNo),
    kept("repl-diskless-load", "", "disabled", OneOf(&["disabled", "on-empty-db", "swapdb"])),
    kept("repl-diskless-sync", "", "yes", YesNo),
    kept("repl-diskless-sync-delay", "", "5", INTEGER),
    kept("repl-diskless-sync-max-replicas", "", "0", INTEGER),
    kept("repl-ping-replica-period", "repl-ping-slave-period", "10", Number(1, INT)),
    kept("repl-timeout", "", "60", Number(1, INT)),
    kept("replica-announce-ip", "slave-announce-ip", "", Text),
    kept("replica-announce-port", "slave-announce-port", "0", Number(0, 65_535)),
    kept("replica-announced", "", "yes", YesNo),
    kept("replica-ignore-disk-write-errors", "", "no", YesNo),
    kept("replica-ignore-maxmemory", "slave-ignore-maxmemory", "yes", YesNo),
    kept("replica-lazy-flush", "slave-lazy-flush", "no", YesNo),
    kept("replica-priority", "slave-priority", "100", INTEGER),
    kept("replica-read-only", "slave-read-only", "no", YesNo),
    kept("replica-serve-stale-data", "slave-serve-stale-data", "yes", YesNo),
    kept("replicaof", "slaveof", "", Immutable),
    kept("sanitize-dump-payload", "", "no", OneOf(&["no", "yes", "clients"])),
    kept("save", "", "", Save),
    kept("server-cpulist", "server_cpulist", "", Immutable),
    kept("set-max-intset-entries", "", "512", COUNT),
    kept("set-max-listpack-entries", "", "128", COUNT),
    kept("set-max-listpack-value", "", "64", Bytes),
    kept("set-proc-title", "", "yes", Immutable),
    kept("shutdown-on-sigint", "", "default", OneOf(&["default", "save", "nosave", "now", "force"])),
    kept("shutdown-on-sigterm", "", "default", OneOf(&["default", "save", "nosave", "now", "force"])),
    kept("shutdown-timeout", "", "10", INTEGER),
    kept("socket-mark-id", "", "0", Immutable),
    kept("stop-writes-on-bgsave-error", "", "yes", YesNo),
    kept("stream-node-max-bytes", "", "4096", Bytes),
    kept("stream-node-max-entries", "", "100", COUNT),
    kept("supervised", "", "no", Immutable),
    kept("syslog-enabled", "", "no", Immutable),
    kept("syslog-facility", "", "local0", Immutable),
    kept("syslog-ident", "", "redis", Immutable),
    kept("tcp-backlog", "", "511", Immutable),
    kept("tcp-keepalive", "", "300", INTEGER),
    kept("tls-auth-clients", "", "yes", OneOf(&["no", "yes", "optional"])),
    kept("tls-ca-cert-dir", "", "", Text),
    kept("tls-ca-cert-file", "", "", Text),
    kept("tls-cert-file", "", "", Text),
    kept("tls-ciphers", "", "", Text),
    kept("tls-ciphersuites", "", "", Text),
    kept("tls-client-cert-file", "", "", Text),
    kept("tls-client-key-file", "", "", Text),
    kept("tls-client-key-file-pass", "", "", Text),
    kept("tls-cluster", "", "no", YesNo),
    kept("tls-dh-params-file", "", "", Text),
    kept("tls-key-file", "", "", Text),
    kept("tls-key-file-pass", "", "", Text),
    kept("tls-prefer-server-ciphers", "", "no", YesNo),
    kept("tls-protocols", "", "", Text),
    kept("tls-replication", "", "no", YesNo),
    kept("tls-session-cache-size", "", "20480", INTEGER),
    kept("tls-session-cache-timeout", "", "300", INTEGER),
    kept("tls-session-caching", "", "yes", YesNo),
    kept("unixsocket", "", "", Immutable),
    kept("unixsocketperm", "", "0", Immutable),
    kept("zset-max-listpack-entries", "zset-max-ziplist-entries", "128", COUNT),
    kept("zset-max-listpack-value", "zset-max-ziplist-value", "64", Bytes),
];

/// The one of this name, or of this other name.
pub(super) fn find(name: &[u8]) -> Option<&'static Kept> {
    let is = |other: &str| !other.is_empty() && other.as_bytes().eq_ignore_ascii_case(name);
    KEPT.iter().find(|it| is(it.name) || is(it.alias))
}

impl Form {
    /// The value as it is kept and shown.
    ///
    /// # Errors
    /// With Redis's text, if the value does not look like this.
    pub(super) fn read(self, value: &[u8]) -> Result<String, String> {
        let text = || std::str::from_utf8(value).map(str::to_owned).map_err(|_| "argument must be text".to_owned());
        let is = |word: &str| word.as_bytes().eq_ignore_ascii_case(value);
        match self {
            YesNo if is("yes") => Ok("yes".to_owned()),
            YesNo if is("no") => Ok("no".to_owned()),
            YesNo => Err("argument must be 'yes' or 'no'".to_owned()),
            Number(least, most) => super::integer(value, least, most).map(|number| number.to_string()),
            Bytes => memory(value, 0, i64::MAX as u64).map(|bytes| bytes.to_string()),
            OneOf(words) => words
                .iter()
                .find(|word| is(word))
                .map(|word| (*word).to_owned())
                .ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", "))),
            Text if value.len() > TEXT_BYTES_MAX => Err(format!("argument is longer than {TEXT_BYTES_MAX} bytes")),
            Text => text(),
            Save => {
                let wrong = || "Invalid save parameters".to_owned();
                let numbers = words(value).map(|word| number(word, 0, INT as u64).map_err(|_| wrong()));
                let numbers = numbers.collect::<Result<Vec<u64>, String>>()?;
                let is_well = numbers.len() % 2 == 0 && numbers.iter().step_by(2).all(|seconds| *seconds > 0);
                if is_well { Ok(joined(numbers)) } else { Err(wrong()) }
            }
            Scores => {
                let scores = words(value).map(parsed).collect::<Result<Vec<i64>, _>>();
                match scores
                    .map_err(|_| "Invalid oom-score-adj-values, elements must be between -2000 and 2000.".to_owned())?
                {
                    scores if scores.len() != 3 => Err("wrong number of arguments".to_owned()),
                    scores if scores.iter().any(|score| !(-2000..=2000).contains(score)) => {
                        Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".to_owned())
                    }
                    scores => Ok(joined(scores)),
                }
            }
            Percentiles => {
                let numbers = words(value).map(|word| std::str::from_utf8(word).ok()?.parse::<f64>().ok());
                let numbers: Vec<f64> = numbers
                    .collect::<Option<_>>()
                    .filter(|numbers: &Vec<f64>| numbers.len() <= 32)
                    .ok_or("Invalid latency-tracking-info-percentiles parameters")?;
                if numbers.iter().any(|number| !(0.0..=100.0).contains(number)) {
                    return Err(
                        "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".to_owned()
                    );
                }
                Ok(joined(numbers))
            }
            Immutable => Err("can't set immutable config".to_owned()),
            Protected => Err("can't set protected config".to_owned()),
        }
    }
}

fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

fn joined<T: ToString>(numbers: Vec<T>) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(" ")
}
