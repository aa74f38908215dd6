//! `docs/config.md` says of every directive whether it does anything: its tables are made from those of the code. `DICTUM_REWRITE=1 cargo test -p node --lib config`
//! puts them into the page.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read files")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::kept::{Form, KEPT};
use super::{SETTINGS, Value, is_of_node};

/// What each setting does that does anything, or why it cannot be set.
const DOES: &[(&str, &str)] = &[
    (
        "acl-password-hash",
        "how a password is kept that `ACL SETUSER` is given by `>`: as `sha256`, as in a Redis, or under [`argon2id`](security.md#how-passwords-are-kept)",
    ),
    (
        "audit-keys",
        "reads and writes of which keys stand in the [audit trail](security.md#audit): patterns as ACL rules have them, `~card:* %R~ssn:*`; empty: of none",
    ),
    ("audit-keys-rate", "how many of these are told each second in the long run"),
    ("bind", "the host at which the node listens for clients; `dictum start --resp`"),
    (
        "client-output-buffer-limit",
        "the limit of `pubsub` holds; those of the other classes are kept and do nothing, as every connection has Dictum's own limit",
    ),
    ("client-query-buffer-limit", "what a connection may send ahead of its answers"),
    (
        "cluster-enabled",
        "whether the connection came in at the listener for cluster clients; `dictum start --cluster-address`",
    ),
    ("databases", "`dictum start --databases`"),
    ("dictum-log-bytes-held", "bytes of log that are kept for a peer that is down"),
    ("dictum-log-bytes-per-snapshot", "bytes of log after which the state is flushed"),
    ("dictum-log-entries-kept", "entries of the log that are kept behind a flush"),
    ("dictum-node", "the node's name"),
    (
        "dictum-request-timeout-ms",
        "how long a command may take before its client is told that its outcome is not known",
    ),
    ("io-threads", "`dictum start --io-threads`"),
    ("latency-monitor-threshold", "milliseconds from which on `LATENCY` keeps what took so long; 0: nothing"),
    ("latency-tracking", "whether durations of commands are counted"),
    (
        "maxclients",
        "most clients of each node, as far as it may open files; `dictum start --maxclients` is what it is before it is set",
    ),
    (
        "maxmemory-clients",
        "what all clients of a node together may hold, in bytes or in percent of that node's memory; a quarter of it before it is set",
    ),
    ("notify-keyspace-events", "which events of keys listeners are told of"),
    ("port", "the port at which the node listens for clients; `dictum start --resp`"),
    ("proto-max-bulk-len", "longest value; `dictum start --value-bytes-max` is what it is before it is set"),
    (
        "protected-mode",
        "whether a node without a password refuses clients of other machines; `dictum start --protected-mode` is what it is before it is set",
    ),
    ("requirepass", "`dictum start --password`, at every node"),
    ("slowlog-log-slower-than", "microseconds from which on a command is kept; -1: none"),
    ("slowlog-max-len", "how many are kept"),
    ("timeout", "seconds after which a connection that says nothing is closed; 0: never"),
    ("tls-port", "0: clients speak TLS at the port for plain text; `dictum start --tls-cert`"),
    ("tracking-table-max-keys", "most keys that a node notes for clients that track"),
];

fn tables() -> String {
    let mut out = String::new();
    let does: BTreeMap<&str, &str> = DOES.iter().copied().collect();
    let mut line = |text: String| writeln!(out, "{text}").expect("a string takes all");
    line("| directive | can be set | holds at | does |".to_owned());
    line("|---|---|---|---|".to_owned());
    for setting in SETTINGS {
        let can_be_set = !matches!(setting.value, Value::Fixed(_) | Value::Given(_));
        let holds = if is_of_node(setting.name) || !can_be_set { "the node" } else { "the cluster" };
        let does = does.get(setting.name).unwrap_or_else(|| panic!("{} is told of nowhere", setting.name));
        let can_be_set = if can_be_set { "yes" } else { "no" };
        line(format!("| `{}` | {can_be_set} | {holds} | {does} |", setting.name));
    }
    line(String::new());
    line("Kept, and doing nothing:".to_owned());
    line(String::new());
    line("| directive | other name | unless set | can be set |".to_owned());
    line("|---|---|---|---|".to_owned());
    for kept in KEPT {
        let alias = if kept.alias.is_empty() { String::new() } else { format!("`{}`", kept.alias) };
        let default = if kept.default.is_empty() { String::new() } else { format!("`{}`", kept.default) };
        let can_be_set = match kept.form {
            Form::Immutable => "no, nor in a Redis",
            Form::Protected => "no, nor in a Redis unless its file allows it",
            _ => "yes",
        };
        line(format!("| `{}` | {alias} | {default} | {can_be_set} |", kept.name));
    }
    out
}

#[test]
fn the_page_about_settings_is_true_and_whole() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let mark = "<!-- made from the code -->\n";
    let (head, _) = page.split_once(mark).expect("where the tables begin");
    let expected = format!("{head}{mark}{}", tables());
    if std::env::var_os("DICTUM_REWRITE").is_some() {
        std::fs::write(&path, expected).expect("the page can be written");
    } else {
        assert!(
            page == expected,
            "docs/config.md is not what the code says: DICTUM_REWRITE=1 cargo test -p node --lib config"
        );
    }
}

#[test]
fn no_directive_stands_there_twice_and_every_default_can_be_set() {
    let mut names: Vec<&str> = SETTINGS.iter().map(|it| it.name).collect();
    names.extend(KEPT.iter().flat_map(|it| [it.name, it.alias]).filter(|name| !name.is_empty()));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for kept in KEPT.iter().filter(|it| !matches!(it.form, Form::Immutable | Form::Protected)) {
        assert_eq!(kept.form.read(kept.default.as_bytes()).as_deref(), Ok(kept.default), "{}", kept.name);
    }
}
