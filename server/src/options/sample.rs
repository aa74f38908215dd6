//! `dictum start --print-config`: all settings as a file for `--config`, made from the same definitions as `--help`.
//!
//! Settings are commented out, but for those that were given by flag, variable or file with the same command.

use std::collections::BTreeMap;
use std::process::ExitCode;

use base::versions::NEWEST;
use clap::{Arg, ArgMatches, Args, Command};

use super::file;
use super::{CLUSTER_EXAMPLE, HTTP_DEFAULT, RESP_DEFAULT, StartArguments};
use crate::cli::asked;
use crate::exit;

/// Flags that are no settings of a node: they have no place in the file.
const FLAGS_ALONE: [&str; 3] = ["config", "print-config", "step-over"];
/// Longest line of a comment.
const COLUMNS: usize = 100;

const HEAD: &str = "\
# Settings of one node, for `dictum start --config FILE`. `dictum start --print-config` has written this.
#
# A line that begins with `#name =` is a setting that is not made: take the # away, and change the value.
# The value is the default, or an example where it says so. A node needs node, dir, and cluster (or, to join a
# cluster that is there, join, token and peer); all others can stay as they are. A flag of the same name beats
# the environment variable, and that beats this file. Names that are not known are refused.
#
# SIZE      a number of bytes, or a text with a unit: \"512KiB\", \"16MiB\", \"1GiB\"
# PERCENT   a part of the disk, as a text: \"5%\"
# DURATION  a number of seconds, or a text with a unit: \"500ms\", \"5s\", \"10m\"
# COUNT     a number
# IP:PORT   an address of this machine; 0.0.0.0 stands for all of them
# HOST:PORT an address, or a name that is looked up, at which others reach a node
";

/// Prints the file.
pub(crate) fn run() -> ExitCode {
    // The words once more: what they were made into does not tell any more how they were written.
    let matches = command().get_matches_from(std::env::args_os().skip(1));
    match given(&matches).and_then(|given| text(&given)) {
        Ok(text) => asked::end("dictum start", Ok(text)),
        Err(reason) => {
            eprintln!("dictum: {reason}");
            ExitCode::from(exit::SETTINGS)
        }
    }
}

fn command() -> Command {
    StartArguments::augment_args(Command::new("dictum start"))
}

/// The settings that a file may hold, in the order of `--help`.
pub(super) fn settings() -> Vec<Arg> {
    let is_setting = |arg: &&Arg| !arg.is_hide_set() && !FLAGS_ALONE.contains(&name_of(arg));
    command().get_arguments().filter(is_setting).cloned().collect()
}

pub(super) fn name_of(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_default()
}

fn help_of(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// Only who starts the node may see it.
pub(super) fn is_secret(arg: &Arg) -> bool {
    arg.is_hide_env_values_set()
}

/// The default as it is written in a file, or an example. None of a setting that is not known here.
pub(super) fn value_of(name: &str) -> Option<String> {
    let newest = NEWEST.to_string();
    let (text, is_number) = match name {
        "node" => ("n1", false),
        "cluster" => ("n1=10.0.0.1:9001,n2=10.0.0.2:9001,n3=10.0.0.3:9001", false),
        "join" => ("10.0.0.1:9001", false),
        "token" => ("what `dictum node token` has printed", false),
        "zone" => ("rack-1", false),
        "speak-at-most" => (newest.as_str(), true),
        "resp" => (RESP_DEFAULT, false),
        "http" => (HTTP_DEFAULT, false),
        "cluster-address" => (CLUSTER_EXAMPLE, false),
        "cluster-announce" => ("db1.example:7101", false),
        "cluster-bucket" => ("default", false),
        "databases" => ("16", true),
        "peer" => ("0.0.0.0:9001", false),
        "peer-announce" => ("10.0.0.1:9001", false),
        "moved" => ("n1=10.1.0.1:9001,n2=10.1.0.2:9001", false),
        "cluster-secret" => ("/etc/dictum/cluster.secret", false),
        "peer-keys" => ("n2=5f0c7127ea13ac6b4a4a21e1f1d2f0a5d0bd7e1c5b6b4d2cbd4f4b4cb2a1f7e9", false),
        "peer-tls" => ("require", false),
        "tls-ca" => ("/etc/dictum/tls", false),
        "tls-cert" => ("/etc/dictum/tls/node.pem", false),
        "tls-key" => ("/etc/dictum/tls/node.key", false),
        "tls-client-ca" => ("/etc/dictum/clients-ca.pem", false),
        "tls-auth-clients-user" => ("cn", false),
        "plaintext" => ("loopback", false),
        "insecure" => ("no", false),
        "dir" => ("/var/lib/dictum", false),
        "password" => ("a long one", false),
        "password-file" => ("/etc/dictum/password", false),
        "protected-mode" => ("yes", false),
        "http-host" => ("db1.example", false),
        "http-origin" => ("https://app.example", false),
        "value-bytes-max" => ("16MiB", false),
        "request-timeout" => ("5s", false),
        "maxclients" => ("10000", true),
        "io-threads" => ("2", true),
        "workers" => ("1", true),
        "log-bytes-per-snapshot" => ("256MiB", false),
        "log-entries-kept" => ("10000", true),
        "log-bytes-held" => ("1GiB", false),
        "compare-every" => ("60m", false),
        "disk-low-mark" => ("512MiB", false),
        "memory-quota" => ("1GiB", false),
        "cache-policy" => ("s3-fifo", false),
        "log-level" => ("info", false),
        "log-format" => ("text", false),
        _ => return None,
    };
    Some(if is_number { text.to_owned() } else { quoted(text) })
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// The settings given beside `--print-config`, by name: each value as a file has it.
fn given(matches: &ArgMatches) -> Result<BTreeMap<String, String>, String> {
    let mut given = BTreeMap::new();
    if let Some(path) = matches.get_one::<std::path::PathBuf>("config") {
        let (_, text) = file::read_file(path)?;
        let table: toml::Table = text.parse().map_err(|error| format!("--config {}: {error}", path.display()))?;
        given.extend(table.into_iter().map(|(name, value)| (name, value.to_string())));
    }
    for setting in settings() {
        let Some(word) = matches.get_raw(setting.get_id().as_str()).and_then(|mut words| words.next()) else {
            continue;
        };
        let name = name_of(&setting).to_owned();
        let word = word.to_str().ok_or_else(|| format!("--{name} is not text in UTF-8"))?;
        let is_number = value_of(&name).is_some_and(|value| value.parse::<u64>().is_ok());
        // It was parsed as a number before.
        let literal = if is_number { word.trim_start_matches(['+', '0']).to_owned() } else { quoted(word) };
        given.insert(name, if literal.is_empty() { "0".to_owned() } else { literal });
    }
    Ok(given)
}

/// The whole file.
fn text(given: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = HEAD.to_owned();
    for setting in settings() {
        let name = name_of(&setting);
        out.push('\n');
        wrap(&mut out, &help_of(&setting));
        wrap(&mut out, &how_else(&setting, given.contains_key(name)));
        let example = value_of(name).ok_or_else(|| format!("--{name} is not known to --print-config"))?;
        match given.get(name) {
            Some(_) if is_secret(&setting) => {
                out.push_str(&format!("# It was given, and is not shown: put it in here.\n#{name} = {example}\n"));
            }
            Some(value) => out.push_str(&format!("{name} = {value}\n")),
            None => out.push_str(&format!("#{name} = {example}\n")),
        }
    }
    file::parse(&out).map_err(|complaint| complaint.to_string())?;
    Ok(out)
}

/// The same setting as a flag and as a variable; and whether the value that stands there is neither given nor the default.
fn how_else(setting: &Arg, is_given: bool) -> String {
    let values = setting.get_value_names().into_iter().flatten().map(|value| value.as_str());
    let value = values.collect::<Vec<_>>().join(" ");
    let mut line = format!("Flag --{} {value}", name_of(setting));
    if let Some(variable) = setting.get_env() {
        line.push_str(&format!(", variable {}", variable.to_string_lossy()));
    }
    let help = help_of(setting);
    let default = default_of(&help).and_then(|default| default.split([' ', ';']).next());
    if !is_given
        && default.map(str::to_owned) != value_of(name_of(setting)).map(|value| value.trim_matches('"').to_owned())
    {
        line.push_str("; the value is an example");
    }
    line
}

/// The default that a line of `--help` names.
fn default_of(help: &str) -> Option<&str> {
    let (_, rest) = help.split_once("[default: ")?;
    rest.strip_suffix(']').filter(|default| *default != "none")
}

/// Puts a comment behind the file, in lines that are not too long.
fn wrap(out: &mut String, text: &str) {
    let mut line = "#".to_owned();
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS && line.len() > 1 {
            out.push_str(&line);
            out.push('\n');
            line = "#".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use base::limits::{DATABASES_MAX, VALUE_BYTES_MAX};
    use base::versions::OLDEST;

    use super::super::file::File;
    use super::super::{IO_THREADS_MAX, Options};
    use super::*;

    fn sample() -> String {
        text(&BTreeMap::new()).expect("it can be made")
    }

    /// With the settings made for which `takes` says so, by name.
    fn uncommented(takes: impl Fn(&str) -> bool) -> String {
        let line = |line: &str| {
            let setting = line.strip_prefix('#').filter(|rest| !rest.starts_with([' ', '#']));
            let name = setting.and_then(|setting| setting.split_once(" = ")).map(|(name, _)| name);
            match (setting, name) {
                (Some(setting), Some(name)) if takes(name) => format!("{setting}\n"),
                _ => format!("{line}\n"),
            }
        };
        sample().lines().map(line).collect()
    }

    fn file(text: &str) -> File {
        file::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn every_setting_of_a_file_is_in_it_and_can_be_read() {
        assert_eq!(format!("{:?}", file(&sample())), format!("{:?}", File::default()), "nothing is set");
        let all = file(&uncommented(|_| true));
        assert!(!format!("{all:?}").contains("None"), "a setting of the file is missing: {all:?}");
        // A node has one certificate or the other.
        for other in [["tls-ca", "tls-ca"], ["tls-cert", "tls-key"]] {
            let given = file(&uncommented(|name| !other.contains(&name)));
            Options::check(StartArguments::default(), given).expect("a node could be started with the examples");
        }
    }

    #[test]
    fn the_defaults_are_those_that_hold() {
        const NEEDED: [&str; 4] = ["node", "cluster", "dir", "cluster-secret"];
        let has_default = |name: &str| {
            let arg = settings().into_iter().find(|arg| name_of(arg) == name).expect("a setting");
            let help = help_of(&arg);
            let default = default_of(&help).filter(|default| !default.contains(' '))?;
            let value = value_of(name).expect("a value");
            assert_eq!(value.trim_matches('"'), default, "--{name}");
            Some(())
        };
        let of = |text: String| {
            format!("{:?}", Options::check(StartArguments::default(), file(&text)).expect("it is complete"))
        };
        let without = of(uncommented(|name| NEEDED.contains(&name)));
        let with = of(uncommented(|name| NEEDED.contains(&name) || has_default(name).is_some()));
        assert_eq!(with, without);
        assert!(settings().iter().filter(|arg| has_default(name_of(arg)).is_some()).count() > 10);
    }

    #[test]
    fn ranges_stand_in_the_help() {
        for (name, range) in [
            ("speak-at-most", format!("{OLDEST} to {NEWEST}")),
            ("databases", format!("1 to {DATABASES_MAX}")),
            ("value-bytes-max", format!("up to {}MiB", VALUE_BYTES_MAX >> 20)),
            ("request-timeout", "100ms to 3600s".to_owned()),
            ("maxclients", "at least 1".to_owned()),
            ("io-threads", format!("1 to {IO_THREADS_MAX}")),
            ("workers", format!("1 to {}", super::super::workers::WORKERS_MAX)),
        ] {
            let arg = settings().into_iter().find(|arg| name_of(arg) == name).expect("a setting");
            assert!(help_of(&arg).contains(&range), "--{name}: {}", help_of(&arg));
        }
    }

    #[test]
    fn given_settings_are_made_and_secrets_are_not_shown() {
        let words =
            ["start", "--node", "a\"b", "--databases", "007", "--memory-quota", "64MiB", "--password", "geheim"];
        let given = given(&command().get_matches_from(words)).expect("it is right");
        let text = text(&given).expect("it can be read");
        let file = file(&text);
        assert_eq!((file.node.as_deref(), file.databases), (Some("a\"b"), Some(7)));
        assert!(text.contains("\nmemory-quota = \"64MiB\"\n") && text.contains("\n#maxclients = 10000\n"), "{text}");
        assert!(file.password.is_none() && !text.contains("geheim") && text.contains("It was given"), "{text}");
    }

    #[test]
    fn lines_are_short() {
        let long: Vec<String> = sample().lines().filter(|line| line.chars().count() > 110).map(str::to_owned).collect();
        assert_eq!(long, Vec::<String>::new());
    }
}
