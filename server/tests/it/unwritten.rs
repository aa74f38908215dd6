//! A command whose standard output is a full disk ends with an error that is told; where it is a closed pipe, nothing panics.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests of real processes use real files")]

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::tempdir;
use wire::Value;

use crate::common::{dictum, eventually, output, wait_for};
use crate::exit_codes::start;

/// Commands that are not run here: they need a cluster of several nodes, minutes, or a file, and they print with the functions of the others.
const ELSEWHERE: [&str; 15] = [
    // Long-lived: it says so and goes on.
    "dev",
    // As `node list`.
    "node add-key",
    "node drain",
    "node forget-keys",
    "node remove",
    "node replace",
    // As `lab run --list`.
    "lab quick",
    "lab verify",
    "lab matrix",
    "lab compare",
    "lab experiment",
    "lab report",
    "lab self-check",
    // As `sim --seed`.
    "sim replay",
    "sim check-history",
];

/// The commands that `--help` lists below these words, with all below them.
fn commands(above: &[&str], found: &mut BTreeSet<String>) {
    let said = output(dictum(&[above, &["--help"]].concat()));
    let text = String::from_utf8(said.stdout).expect("help is text");
    let lines = text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    if names.is_empty() && !above.is_empty() {
        found.insert(above.join(" "));
    }
    for name in names {
        commands(&[above, &[name]].concat(), found);
    }
}

/// The exit code and the errors of a command whose output goes there.
fn ends(mut command: Command, out: Stdio, words: &[&str]) -> (Option<i32>, String) {
    let ended = command.stdout(out).stderr(Stdio::piped()).output().expect("it can be started");
    let text = String::from_utf8(ended.stderr).expect("errors are text");
    assert!(!text.contains("panicked"), "{words:?}: {text}");
    (ended.status.code(), text)
}

/// Runs a command into a full disk, and then into a closed pipe: what it says of the first.
fn unwritten(words: &[&str], change: impl Fn(&mut Command)) -> String {
    let command = || {
        let mut command = dictum(words);
        change(&mut command);
        command
    };
    let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let (code, text) = ends(command(), Stdio::from(full), words);
    assert!(code.is_some_and(|code| code > 0), "{words:?}: {code:?}, {text}");
    assert!(text.contains("No space left on device"), "{words:?}: {code:?}, {text}");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    ends(command(), Stdio::from(writer), words);
    text
}

#[test]
fn what_cannot_be_written_is_told_by_every_command() {
    let folder = tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("it is text").to_owned();
    let (node, [resp, _, peer]) = start(&folder.path().join("n1"), &[]);
    let (port, at) = (resp.to_string(), format!("127.0.0.1:{resp}"));
    eventually(&at, &["SET", "k", "v"]);
    let backup = path("backup");
    assert!(output(dictum(&["backup", &backup, "--at", &at])).status.success(), "there is one to be read");
    fs::write(path("commands"), "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n").expect("a file");
    let (secrets, second, commands_file) = (path("secrets"), path("second"), path("commands"));
    let password = path("password");
    fs::write(&password, "secret\n").expect("a file");
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).expect("it is ours");
    wait_for("the version of the cluster", || {
        (eventually(&at, &["ACL", "DELUSER", "nobody"]) == Value::Integer(0)).then_some(())
    });
    let asking: &[&[&str]] = &[
        &["status"],
        &["status", "--json"],
        &["clock"],
        &["clock", "set"],
        &["bucket", "create", "b"],
        &["bucket", "list"],
        &["bucket", "list", "--json"],
        &["bucket", "show", "default"],
        &["bucket", "set", "b", "--ttl", "100"],
        &["bucket", "drop", "b", "--yes"],
        &["sub", "k", "--name", "ann"],
        &["unsub", "k", "--name", "ann"],
        &["watch", "--state"],
        &["watch", "--json"],
        &["user", "add", "ann", "--role", "viewer", "--new-password-file", &password],
        &["user", "passwd", "ann", "--new-password-file", &password],
        &["user", "list"],
        &["user", "show", "ann"],
        &["user", "remove", "ann"],
        &["node", "list"],
        &["node", "list", "--json"],
        &["node", "settings"],
        &["node", "promote", "n1"],
        &["node", "voters", "1"],
        &["node", "auto-replace", "700"],
        &["node", "pause"],
        &["node", "resume"],
        &["node", "token"],
        &["node", "add", "n2", "127.0.0.1:1"],
        &["backup", &second],
        &["restore", &backup, "--bucket", "default", "--into", "copy"],
        &["export"],
        &["export", "--format", "rdb"],
        &["export", "--format", "csv"],
        &["import", &commands_file, "--over"],
    ];
    let alone: &[&[&str]] = &[
        &["--help"],
        &["--version"],
        &["node", "list", "--help"],
        &["init", "--dir", &secrets],
        &["start", "--print-config"],
        &["cli", "-p", &port, "GET", "k"],
        &["backup", &backup, "--verify"],
        &["check", &backup],
        &["lab", "run", "--list"],
        &["sim", "--seed", "1"],
    ];
    for words in asking {
        let text = unwritten(&[*words, &["--at", &at]].concat(), |_| {});
        let is_of_token = matches!(words, ["node", "token" | "add", ..]);
        assert_eq!(text.contains("the same command makes another one"), is_of_token, "{words:?}: {text}");
    }
    for words in alone {
        unwritten(words, |_| {});
    }
    // A line at a time from standard input.
    fs::write(path("lines"), "GET k\n").expect("a file");
    unwritten(&["cli", "-p", &port], |command| {
        command.stdin(fs::File::open(path("lines")).expect("it is there"));
    });
    assert!(node.stop(), "it ends well");
    let founders = format!("n1=127.0.0.1:{peer}");
    let recover = ["unsafe-recover", "--cluster", &founders];
    let reset = ["reset-password", "--user", "ann", "--new-password-file", &password];
    let of_folder: &[&[&str]] =
        &[&["check"], &["audit", "verify"], &reset, &recover, &[&recover[..], &["--accept-loss"]].concat()];
    for words in of_folder {
        unwritten(&[*words, &[text_of(&folder.path().join("n1"))]].concat(), |_| {});
    }
    let mut known = BTreeSet::new();
    commands(&[], &mut known);
    let run = [asking, alone, of_folder].concat();
    let is_run = |name: &str| run.iter().any(|words| words.join(" ").starts_with(name));
    let is_elsewhere = |name: &str| ELSEWHERE.iter().any(|words| name.starts_with(words));
    let left: Vec<&String> = known.iter().filter(|name| !is_run(name) && !is_elsewhere(name)).collect();
    assert!(known.len() > 30 && left.is_empty(), "nothing shows how these end: {left:?}");
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("it is text")
}
