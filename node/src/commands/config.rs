//! `CONFIG …`: what clients and tools read of a Redis's settings, and the few that can be changed here.
//!
//! A setting that has one meaning here answers that; setting it to what it is succeeds, to anything else fails as a
//! setting does that Redis cannot change while it runs. What is changed is this node's alone and lasts until it stops.

use std::fmt::Display;
use std::time::Duration;

use base::limits::CONNECTION_OUTPUT_BYTES_MAX;
use data::algorithms::glob::Glob;
use data::spec::Group;
use data::{Failure, Reply};

use super::{ADMIN, ALWAYS, Context, Entry, answers, container, helps, spec};
use crate::burden::ClientsLimit;
use crate::door::{Config, OutputLimit};
use crate::node::Node;
use crate::notifications::Notify;
use crate::slow::{SLOW_COMMANDS_MAX, Thresholds};
use crate::tunables::Tunables;

const GROUP: Group = Group::Server;
/// Longest pattern that is looked for among names.
const PATTERN_BYTES_MAX: usize = 1024;
/// Most patterns that are looked for at once.
const PATTERNS_MAX: usize = 1024;
/// Longest time that a request may be given.
const REQUEST_TIMEOUT_MS_MAX: u64 = 3_600_000;
/// Least of the longest value: that of Redis.
const VALUE_BYTES_MAX_MIN: u64 = 1024 * 1024;

/// The table of this family.
pub(super) static ENTRIES: &[Entry] =
    &[container("config", GROUP, "2.0.0", "Tells of settings and changes them.", SUBCOMMANDS)];

static SUBCOMMANDS: &[Entry] = &[
    answers(
        spec(
            "config|get",
            -3,
            GROUP,
            "2.0.0",
            "Returns the settings whose names fit a pattern.",
            "parameter [parameter ...]",
        ),
        ADMIN,
        get,
    ),
    answers(
        spec("config|resetstat", 2, GROUP, "2.0.0", "Sets the counters of INFO to zero.", ""),
        ADMIN,
        |context, _| {
            context.node.stats.reset();
            context.node.slow.durations.clear();
            Ok(Reply::Ok)
        },
    ),
    answers(
        spec("config|rewrite", 2, GROUP, "2.8.0", "Would write the settings to the configuration file.", ""),
        ADMIN,
        |_, _| Err(Failure::Text("ERR The server is running without a config file")),
    ),
    answers(
        spec(
            "config|set",
            -4,
            GROUP,
            "2.0.0",
            "Changes settings of this node until it stops.",
            "parameter value [parameter value ...]",
        ),
        ADMIN,
        set,
    ),
    helps("config|help", GROUP, ALWAYS),
];

/// One setting.
struct Setting {
    name: &'static str,
    value: Value,
}

enum Value {
    /// The only one there is.
    Fixed(&'static str),
    /// As the node was started.
    Given(fn(&Config) -> String),
    /// As the node was started or as it was set since.
    Settable(fn(&Config) -> String, fn(&mut Config, &[u8]) -> Result<(), String>),
    /// From when on a command or an event is kept.
    Threshold(fn(&Thresholds) -> String, fn(&mut Thresholds, &[u8]) -> Result<(), String>),
    /// Its start says nothing of it.
    Tunable(fn(&Tunables) -> String, fn(&mut Tunables, &[u8]) -> Result<(), String>),
}

/// What all settings are kept in.
#[derive(Clone)]
struct Settings {
    config: Config,
    thresholds: Thresholds,
    tunables: Tunables,
}

impl Settings {
    fn of(node: &Node) -> Settings {
        Settings { config: node.config.clone(), thresholds: node.slow.thresholds(), tunables: node.tunables }
    }
}

impl Setting {
    fn text(&self, settings: &Settings) -> String {
        match self.value {
            Value::Fixed(text) => text.to_owned(),
            Value::Given(text) | Value::Settable(text, _) => text(&settings.config),
            Value::Threshold(text, _) => text(&settings.thresholds),
            Value::Tunable(text, _) => text(&settings.tunables),
        }
    }
}

const fn fixed(name: &'static str, value: &'static str) -> Setting {
    Setting { name, value: Value::Fixed(value) }
}

const fn given(name: &'static str, value: fn(&Config) -> String) -> Setting {
    Setting { name, value: Value::Given(value) }
}

const fn settable(
    name: &'static str,
    value: fn(&Config) -> String,
    set: fn(&mut Config, &[u8]) -> Result<(), String>,
) -> Setting {
    Setting { name, value: Value::Settable(value, set) }
}

const fn threshold(
    name: &'static str,
    value: fn(&Thresholds) -> String,
    set: fn(&mut Thresholds, &[u8]) -> Result<(), String>,
) -> Setting {
    Setting { name, value: Value::Threshold(value, set) }
}

const fn tunable(
    name: &'static str,
    value: fn(&Tunables) -> String,
    set: fn(&mut Tunables, &[u8]) -> Result<(), String>,
) -> Setting {
    Setting { name, value: Value::Tunable(value, set) }
}

/// By name.
static SETTINGS: &[Setting] = &[
    fixed("acllog-max-len", "0"),
    fixed("activedefrag", "no"),
    fixed("appendfsync", "always"),
    fixed("appendonly", "yes"),
    given("bind", |config| address(config).0.to_owned()),
    tunable("client-output-buffer-limit", output_limits, set_output_limits),
    given("client-query-buffer-limit", |_| base::limits::CONNECTION_PENDING_BYTES_MAX.to_string()),
    fixed("cluster-enabled", "no"),
    fixed("daemonize", "no"),
    fixed("databases", "1"),
    settable(
        "dictum-log-bytes-held",
        |config| config.log_bytes_held.to_string(),
        |config, value| {
            config.log_bytes_held = memory(value, 0, u64::MAX)?;
            Ok(())
        },
    ),
    settable(
        "dictum-log-bytes-per-snapshot",
        |config| config.log_bytes_per_snapshot.to_string(),
        |config, value| {
            config.log_bytes_per_snapshot = memory(value, 1, u64::MAX)?;
            Ok(())
        },
    ),
    settable(
        "dictum-log-entries-kept",
        |config| config.log_entries_kept.to_string(),
        |config, value| {
            config.log_entries_kept = number(value, 0, u64::MAX)?;
            Ok(())
        },
    ),
    given("dictum-node", |config| config.own().map_or_else(String::new, |it| it.name.clone())),
    settable(
        "dictum-request-timeout-ms",
        |config| config.request_timeout.as_millis().to_string(),
        |config, value| {
            config.request_timeout = Duration::from_millis(number(value, 1, REQUEST_TIMEOUT_MS_MAX)?);
            Ok(())
        },
    ),
    fixed("enable-debug-command", "no"),
    fixed("enable-module-command", "no"),
    fixed("enable-protected-configs", "no"),
    given("io-threads", |config| config.io_threads.to_string()),
    threshold(
        "latency-monitor-threshold",
        |thresholds| thresholds.latency_ms_min.to_string(),
        |thresholds, value| {
            thresholds.latency_ms_min = number(value, 0, i64::MAX as u64)?;
            Ok(())
        },
    ),
    threshold(
        "latency-tracking",
        |thresholds| (if thresholds.durations_kept { "yes" } else { "no" }).to_owned(),
        |thresholds, value| {
            thresholds.durations_kept = if value.eq_ignore_ascii_case(b"yes") {
                true
            } else if value.eq_ignore_ascii_case(b"no") {
                false
            } else {
                return Err("argument must be 'yes' or 'no'".to_owned());
            };
            Ok(())
        },
    ),
    fixed("latency-tracking-info-percentiles", "50 99 99.9"),
    fixed("lazyfree-lazy-eviction", "no"),
    fixed("lazyfree-lazy-expire", "no"),
    fixed("lazyfree-lazy-user-del", "no"),
    fixed("lazyfree-lazy-user-flush", "no"),
    given("maxclients", |config| config.clients_max.to_string()),
    fixed("maxmemory", "0"),
    tunable(
        "maxmemory-clients",
        |tunables| match tunables.clients_limit {
            ClientsLimit::Bytes(bytes) => bytes.to_string(),
            ClientsLimit::Percent(percent) => format!("{percent}%"),
        },
        |tunables, value| {
            tunables.clients_limit = match value.strip_suffix(b"%") {
                Some(percent) => ClientsLimit::Percent(number(percent, 0, 100)?),
                None => ClientsLimit::Bytes(memory(value, 0, u64::MAX)?),
            };
            Ok(())
        },
    ),
    fixed("maxmemory-policy", "noeviction"),
    fixed("maxmemory-samples", "5"),
    fixed("min-replicas-max-lag", "0"),
    fixed("min-replicas-to-write", "0"),
    tunable(
        "notify-keyspace-events",
        |tunables| tunables.notify.to_text(),
        |tunables, value| {
            tunables.notify = Notify::parse(value)
                .ok_or_else(|| "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned())?;
            Ok(())
        },
    ),
    given("port", |config| address(config).1.to_owned()),
    settable(
        "proto-max-bulk-len",
        |config| config.value_bytes_max.to_string(),
        |config, value| {
            let bytes = memory(value, VALUE_BYTES_MAX_MIN, base::limits::VALUE_BYTES_MAX as u64)?;
            // Not above VALUE_BYTES_MAX, which is of this type.
            config.value_bytes_max = bytes as usize;
            Ok(())
        },
    ),
    fixed("protected-mode", "no"),
    fixed("rdbcompression", "no"),
    fixed("rdbchecksum", "yes"),
    fixed("replica-read-only", "no"),
    fixed("replicaof", ""),
    given("requirepass", |config| config.password.clone().unwrap_or_default()),
    fixed("save", ""),
    fixed("slave-read-only", "no"),
    fixed("slaveof", ""),
    threshold(
        "slowlog-log-slower-than",
        |thresholds| thresholds.slow_us_min.to_string(),
        |thresholds, value| {
            thresholds.slow_us_min = integer(value, -1, i64::MAX)?;
            Ok(())
        },
    ),
    threshold(
        "slowlog-max-len",
        |thresholds| thresholds.slow_len_max.to_string(),
        |thresholds, value| {
            // Not above SLOW_COMMANDS_MAX, which is of this type.
            thresholds.slow_len_max = number(value, 0, SLOW_COMMANDS_MAX as u64)? as usize;
            Ok(())
        },
    ),
    fixed("tcp-keepalive", "0"),
    fixed("timeout", "0"),
    fixed("tls-port", "0"),
    tunable(
        "tracking-table-max-keys",
        |tunables| tunables.tracking_keys_max.to_string(),
        |tunables, value| {
            tunables.tracking_keys_max = number(value, 0, i64::MAX as u64)?;
            Ok(())
        },
    ),
    fixed("unixsocket", ""),
];

/// Host and port where clients reach this node.
pub(super) fn address(config: &Config) -> (&str, &str) {
    config.resp_address.rsplit_once(':').unwrap_or((&config.resp_address, "0"))
}

fn setting(name: &[u8]) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name.as_bytes().eq_ignore_ascii_case(name))
}

fn out_of_range(least: impl Display, most: impl Display) -> String {
    format!("argument must be between {least} and {most} inclusive")
}

fn parsed(value: &[u8]) -> Result<i64, String> {
    data::args::parse_integer(value).ok_or_else(|| "argument couldn't be parsed into an integer".to_owned())
}

fn integer(value: &[u8], least: i64, most: i64) -> Result<i64, String> {
    Some(parsed(value)?).filter(|number| (least..=most).contains(number)).ok_or_else(|| out_of_range(least, most))
}

fn number(value: &[u8], least: u64, most: u64) -> Result<u64, String> {
    let within = u64::try_from(parsed(value)?).ok().filter(|number| (least..=most).contains(number));
    within.ok_or_else(|| out_of_range(least, most))
}

/// A number of bytes with an optional unit, as Redis reads it: `1kb` is 1024 bytes, `1k` is 1000.
fn memory(value: &[u8], least: u64, most: u64) -> Result<u64, String> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, unit) = value.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => Some(1),
        b"k" => Some(1000),
        b"kb" => Some(1024),
        b"m" => Some(1_000_000),
        b"mb" => Some(1024 * 1024),
        b"g" => Some(1_000_000_000),
        b"gb" => Some(1024 * 1024 * 1024),
        _ => None,
    };
    let count = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<u64>().ok());
    let (Some(factor), Some(count)) = (factor, count) else {
        return Err("argument must be a memory value".to_owned());
    };
    let bytes = count.checked_mul(factor).filter(|bytes| (least..=most).contains(bytes));
    bytes.ok_or_else(|| out_of_range(least, most))
}

/// Classes of connections: what each may leave unread. Only that of `pubsub` can be changed; that of all others is the owner's.
fn output_limits(tunables: &Tunables) -> String {
    let OutputLimit { hard_bytes, soft_bytes, soft_for } = tunables.pubsub_output;
    let others = format!("normal {CONNECTION_OUTPUT_BYTES_MAX} 0 0 slave 0 0 0");
    format!("{others} pubsub {hard_bytes} {soft_bytes} {}", soft_for.as_secs())
}

fn set_output_limits(tunables: &mut Tunables, value: &[u8]) -> Result<(), String> {
    const WRONG: &str = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
    let words: Vec<&[u8]> = value.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    let (groups, []) = words.as_chunks::<4>() else {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    };
    for [class, hard, soft, seconds] in groups {
        let bytes = |word: &[u8]| memory(word, 0, u64::MAX).map_err(|_| WRONG.to_owned());
        let seconds = number(seconds, 0, i32::MAX as u64).map_err(|_| WRONG.to_owned())?;
        let limit = (bytes(hard)?, bytes(soft)?, seconds);
        let is = |name: &[u8]| class.eq_ignore_ascii_case(name);
        if is(b"pubsub") {
            let (hard_bytes, soft_bytes, seconds) = limit;
            tunables.pubsub_output = OutputLimit { hard_bytes, soft_bytes, soft_for: Duration::from_secs(seconds) };
        } else if is(b"normal") || is(b"slave") || is(b"replica") {
            let own = if is(b"normal") { CONNECTION_OUTPUT_BYTES_MAX as u64 } else { 0 };
            if limit != (own, 0, 0) {
                return Err("only the limit of the class pubsub can be changed".to_owned());
            }
        } else {
            return Err("Invalid client class specified in buffer limit configuration.".to_owned());
        }
    }
    Ok(())
}

fn get(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    if words.len() > PATTERNS_MAX {
        return Err(Failure::Text("ERR too many parameters are asked for at once"));
    }
    let patterns = words[2..].iter().filter(|word| word.len() <= PATTERN_BYTES_MAX);
    let patterns: Vec<Glob> = patterns.map(|word| Glob::new(&word.to_ascii_lowercase())).collect();
    let chosen = SETTINGS.iter().filter(|it| patterns.iter().any(|pattern| pattern.matches(it.name.as_bytes())));
    let settings = Settings::of(context.node);
    let redirected = context.session.redirected.is_some();
    let text = |it: &Setting| match it.name {
        // As the listener is that the connection came in by.
        "cluster-enabled" if redirected => "yes".to_owned(),
        _ => it.text(&settings),
    };
    Ok(Reply::Map(chosen.map(|it| (Reply::bulk(it.name), Reply::bulk(text(it)))).collect()))
}

fn set(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let pairs = words[2..].chunks(2);
    let unknown = |name: &[u8]| {
        Failure::built(&[b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"].concat())
    };
    // All or nothing.
    let mut settings = Settings::of(context.node);
    let mut seen: Vec<&str> = Vec::new();
    for pair in pairs {
        let [name, value] = pair else { return Err(Failure::WrongArity("config|set")) };
        let setting = setting(name).ok_or_else(|| unknown(name))?;
        let refused = |reason: &str| {
            let name = setting.name;
            Failure::built(
                format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}").as_bytes(),
            )
        };
        if seen.contains(&setting.name) {
            return Err(refused("duplicate parameter"));
        }
        seen.push(setting.name);
        match setting.value {
            Value::Settable(_, set) => set(&mut settings.config, value).map_err(|reason| refused(&reason))?,
            Value::Threshold(_, set) => set(&mut settings.thresholds, value).map_err(|reason| refused(&reason))?,
            Value::Tunable(_, set) => set(&mut settings.tunables, value).map_err(|reason| refused(&reason))?,
            _ if setting.text(&settings).as_bytes().eq_ignore_ascii_case(value) => {}
            _ => return Err(refused("can't set immutable config")),
        }
    }
    let Settings { config, thresholds, tunables } = settings;
    context.node.config = config;
    context.node.slow.set_thresholds(thresholds);
    context.node.tune(context.session, tunables);
    Ok(Reply::Ok)
}
