//! `CONFIG …`: every directive of Redis 7.4, and Dictum's own.
//!
//! What is set holds at all nodes and survives restarts: it is an order of the council ([`crate::settings`]). Dictum's own (`dictum-…`) are a node's and last until it
//! stops. A directive that means nothing here is kept and shown ([`kept`]). Some say how a node was started, and cannot be changed by a client.
//! `docs/config.md` has all of them.

mod kept;
#[cfg(test)]
mod table;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use base::versions::Feature;
use bytes::Bytes;
use data::algorithms::glob::Glob;
use data::spec::Group;
use data::{Failure, Reply};

use super::{ADMIN, ALWAYS, Context, Entry, Local, answers, container, helps, spec, special};
use crate::audit::accesses::{AuditedKeys, PER_SECOND_MAX};
use crate::burden::ClientsLimit;
use crate::council::{COUNCIL, Order};
use crate::door::{Config, OutputLimit};
use crate::durations::PERCENTILES;
use crate::entry::Kind;
use crate::node::Node;
use crate::notifications::Notify;
use crate::session::{Block, Session};
use crate::settings::{ClusterSettings, Pairs};
use crate::slow::{SLOW_COMMANDS_MAX, Thresholds};
use crate::tunables::Tunables;
use kept::{KEPT, Kept};

const GROUP: Group = Group::Server;
/// Longest pattern that is looked for among names.
const PATTERN_BYTES_MAX: usize = 1024;
/// Most patterns that are looked for at once.
const PATTERNS_MAX: usize = 1024;
/// Longest time that a request may be given.
const REQUEST_TIMEOUT_MS_MAX: u64 = 3_600_000;
/// Settings that are told to users with every right alone; others get no line of them.
const SECRETS: [&str; 4] = ["masterauth", "requirepass", "tls-client-key-file-pass", "tls-key-file-pass"];
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
        spec("config|rewrite", 2, GROUP, "2.8.0", "Does nothing: what was set is stored already.", ""),
        ADMIN,
        |_, _| Ok(Reply::Ok),
    ),
    special(
        spec(
            "config|set",
            -4,
            GROUP,
            "2.0.0",
            "Changes settings of the cluster.",
            "parameter value [parameter value ...]",
        ),
        ADMIN,
        Local::ConfigSet,
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
    /// Which reads and writes of keys are audited.
    Audited(fn(&AuditedKeys) -> String, fn(&mut AuditedKeys, &[u8]) -> Result<(), String>),
    /// Its start says nothing of it.
    Tunable(fn(&Tunables) -> String, fn(&mut Tunables, &[u8]) -> Result<(), String>),
}

/// What all settings are kept in.
#[derive(Clone)]
struct Settings {
    config: Config,
    thresholds: Thresholds,
    tunables: Tunables,
    audited: AuditedKeys,
    stored: ClusterSettings,
}

impl Settings {
    fn of(node: &Node) -> Settings {
        Settings {
            config: node.config.clone(),
            thresholds: node.slow.thresholds(),
            tunables: node.tunables,
            audited: node.audit.audited.clone(),
            stored: node.settings.clone(),
        }
    }

    fn kept(&self, kept: &Kept) -> String {
        self.stored.get(kept.name).unwrap_or(kept.default).to_owned()
    }

    /// Goes by a value.
    fn set(&mut self, setting: &Setting, value: &[u8]) -> Result<(), String> {
        match setting.value {
            Value::Settable(_, set) => set(&mut self.config, value),
            Value::Threshold(_, set) => set(&mut self.thresholds, value),
            Value::Tunable(_, set) => set(&mut self.tunables, value),
            Value::Audited(_, set) => set(&mut self.audited, value),
            _ if setting.text(self).as_bytes().eq_ignore_ascii_case(value) => Ok(()),
            _ => Err("can't set immutable config".to_owned()),
        }
    }

    /// Has the node go by them. `own`: as in [`Node::tune`].
    fn install(self, node: &mut Node, own: Option<&Session>) {
        let Settings { config, thresholds, tunables, audited, stored } = self;
        node.audit.audited = audited;
        node.config = config;
        node.slow.set_thresholds(thresholds);
        node.tune(own, tunables);
        node.settings = stored;
    }
}

impl Setting {
    fn text(&self, settings: &Settings) -> String {
        match self.value {
            Value::Fixed(text) => text.to_owned(),
            Value::Given(text) | Value::Settable(text, _) => text(&settings.config),
            Value::Threshold(text, _) => text(&settings.thresholds),
            Value::Tunable(text, _) => text(&settings.tunables),
            Value::Audited(text, _) => text(&settings.audited),
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
    settable(
        "acl-password-hash",
        |config| (if config.hashes_passwords { "argon2id" } else { "sha256" }).to_owned(),
        |config, value| {
            config.hashes_passwords = match value.to_ascii_lowercase().as_slice() {
                b"argon2id" => true,
                b"sha256" => false,
                _ => return Err("argument(s) must be one of the following: sha256, argon2id".to_owned()),
            };
            Ok(())
        },
    ),
    Setting { name: "audit-keys", value: Value::Audited(|audited| audited.text().to_owned(), AuditedKeys::set) },
    Setting {
        name: "audit-keys-rate",
        value: Value::Audited(
            |audited| audited.per_second().to_string(),
            |audited, value| {
                audited.set_per_second(number(value, 1, u64::from(PER_SECOND_MAX))? as u32);
                Ok(())
            },
        ),
    },
    given("bind", |config| address(config).0.to_owned()),
    tunable("client-output-buffer-limit", output_limits, set_output_limits),
    given("client-query-buffer-limit", |_| base::limits::CONNECTION_PENDING_BYTES_MAX.to_string()),
    fixed("cluster-enabled", "no"),
    given("databases", |config| config.databases.to_string()),
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
            thresholds.durations_kept = yes_or_no(value)?;
            Ok(())
        },
    ),
    tunable(
        "maxclients",
        |tunables| tunables.clients_max.to_string(),
        |tunables, value| {
            // Not above u32::MAX, which is of this type.
            tunables.clients_max = number(value, 1, u64::from(u32::MAX))? as usize;
            Ok(())
        },
    ),
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
    tunable(
        "protected-mode",
        |tunables| (if tunables.protected_mode { "yes" } else { "no" }).to_owned(),
        |tunables, value| {
            tunables.protected_mode = yes_or_no(value)?;
            Ok(())
        },
    ),
    given("requirepass", |config| config.password.clone().unwrap_or_default()),
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
    tunable(
        "timeout",
        |tunables| tunables.idle_seconds.to_string(),
        |tunables, value| {
            tunables.idle_seconds = number(value, 0, i32::MAX as u64)?;
            Ok(())
        },
    ),
    fixed("tls-port", "0"),
    tunable(
        "tracking-table-max-keys",
        |tunables| tunables.tracking_keys_max.to_string(),
        |tunables, value| {
            tunables.tracking_keys_max = number(value, 0, i64::MAX as u64)?;
            Ok(())
        },
    ),
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

fn yes_or_no(value: &[u8]) -> Result<bool, String> {
    let is = |word: &[u8]| value.eq_ignore_ascii_case(word);
    if is(b"yes") || is(b"no") { Ok(is(b"yes")) } else { Err("argument must be 'yes' or 'no'".to_owned()) }
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

/// Classes of connections: what each may leave unread. Only that of `pubsub` changes anything; that of all others is the owner's.
fn output_limits(tunables: &Tunables) -> String {
    let classes =
        [("normal", tunables.normal_output), ("slave", tunables.replica_output), ("pubsub", tunables.pubsub_output)];
    let text = classes.map(|(name, OutputLimit { hard_bytes, soft_bytes, soft_for })| {
        format!("{name} {hard_bytes} {soft_bytes} {}", soft_for.as_secs())
    });
    text.join(" ")
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
        let limit =
            OutputLimit { hard_bytes: bytes(hard)?, soft_bytes: bytes(soft)?, soft_for: Duration::from_secs(seconds) };
        let is = |name: &[u8]| class.eq_ignore_ascii_case(name);
        if is(b"pubsub") {
            tunables.pubsub_output = limit;
        } else if is(b"normal") {
            tunables.normal_output = limit;
        } else if is(b"slave") || is(b"replica") {
            tunables.replica_output = limit;
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
    let is_wanted = |name: &str| !name.is_empty() && patterns.iter().any(|pattern| pattern.matches(name.as_bytes()));
    // With the password of the node an operator would be an administrator.
    let may_see = context.session.user.rights.has_all();
    let is_wanted = |name: &str| is_wanted(name) && (may_see || !SECRETS.contains(&name));
    let settings = Settings::of(context.node);
    let redirected = context.session.redirected.is_some();
    let text = |it: &Setting| match it.name {
        // As the listener is that the connection came in by.
        "cluster-enabled" if redirected => "yes".to_owned(),
        _ => it.text(&settings),
    };
    let own = SETTINGS.iter().filter(|it| is_wanted(it.name)).map(|it| (it.name, text(it)));
    let names = KEPT.iter().flat_map(|it| [it.name, it.alias].map(|name| (name, it)));
    let kept = names.filter(|(name, _)| is_wanted(name)).map(|(name, it)| (name, settings.kept(it)));
    let all: BTreeMap<&str, String> = own.chain(kept).collect();
    Ok(Reply::Map(all.into_iter().map(|(name, text)| (Reply::bulk(name), Reply::bulk(text))).collect()))
}

/// Whether a setting is of one node and not of the cluster.
fn is_of_node(name: &str) -> bool {
    name.starts_with("dictum-")
}

/// What the words of `CONFIG SET` ask for: the settings as they would be, and what of it is the cluster's. All or nothing.
fn wanted(node: &Node, words: &[&[u8]]) -> Result<(Settings, Pairs), Failure> {
    let unknown = |name: &[u8]| {
        Failure::built(&[b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"].concat())
    };
    let mut settings = Settings::of(node);
    let mut seen: Vec<&str> = Vec::new();
    for pair in words[2..].chunks(2) {
        let [name, value] = pair else { return Err(Failure::WrongArity("config|set")) };
        let own = setting(name);
        let kept = kept::find(name).filter(|_| own.is_none());
        let name = own.map(|it| it.name).or(kept.map(|it| it.name)).ok_or_else(|| unknown(name))?;
        let refused = |reason: &str| {
            Failure::built(
                format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}").as_bytes(),
            )
        };
        if seen.contains(&name) {
            return Err(refused("duplicate parameter"));
        }
        seen.push(name);
        if let Some(own) = own {
            settings.set(own, value).map_err(|reason| refused(&reason))?;
            let room = node.config.clients_room;
            if name == "maxclients" && settings.tunables.clients_max > room {
                let text = "The operating system is not able to handle the specified number of clients, try with";
                return Err(refused(&format!("{text} {room}")));
            }
        } else if let Some(kept) = kept {
            let value = kept.form.read(value).map_err(|reason| refused(&reason))?;
            settings.stored.set(vec![(name.to_owned(), value)]);
        }
    }
    let of_cluster = seen.into_iter().filter(|name| !is_of_node(name)).map(|name| {
        let own = setting(name.as_bytes()).map(|it| it.text(&settings));
        (name.to_owned(), own.or(settings.stored.get(name).map(str::to_owned)).unwrap_or_default())
    });
    let of_cluster = of_cluster.collect();
    Ok((settings, of_cluster))
}

/// Carries `CONFIG SET` out; the connection is aimed at the council.
pub(crate) fn set(node: &mut Node, session: &mut Session, words: &[&[u8]]) {
    let (settings, of_cluster) = match wanted(node, words) {
        Ok(wanted) => wanted,
        Err(failure) => return node.refuse(session, &failure),
    };
    // While older nodes are there what is set holds here alone, as it did with them.
    if of_cluster.is_empty() || !node.has(Feature::Settings) {
        settings.install(node, Some(session));
        return session.reply(|writer| writer.ok());
    }
    if words[2..].chunks(2).any(|pair| setting(pair[0]).is_some_and(|it| is_of_node(it.name))) {
        let text = "ERR settings of this node (dictum-…) and of the cluster cannot be changed by one CONFIG SET: nothing was changed";
        return node.refuse(session, &Failure::Text(text));
    }
    let order = Order::Settings(of_cluster);
    let slot = node.submit_write(session, COUNCIL, (Kind::Council, false), Bytes::from(order.encode()));
    session.block = slot.map(Block::Slot).or(session.block);
}

/// Which percentiles of commands' durations `INFO latencystats` tells.
pub(crate) fn percentiles(settings: &ClusterSettings) -> Vec<f64> {
    let words = settings.get("latency-tracking-info-percentiles").map(|text| text.split(' '));
    words.map_or(PERCENTILES.to_vec(), |words| words.filter_map(|word| word.parse().ok()).collect())
}

/// Goes by the settings of the cluster.
pub(crate) fn follow(node: &mut Node, stored: ClusterSettings) {
    if node.settings == stored {
        return;
    }
    let mut settings = Settings::of(node);
    for (name, value) in stored.iter().filter(|(name, value)| node.settings.get(name) != Some(value)) {
        // One that this build does not know, or takes no such value for, is for others.
        if let Some(setting) = setting(name.as_bytes()) {
            let mut changed = settings.clone();
            if changed.set(setting, value.as_bytes()).is_ok() {
                settings = changed;
            }
        }
    }
    settings.stored = stored;
    settings.install(node, None);
}
