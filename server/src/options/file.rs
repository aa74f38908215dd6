//! The file that `--config` names: which settings it may have, and what is said of one that is wrong.
//!
//! The parser's own errors name its types ("expected a sequence"), which are nothing to an operator. So a complaint is made here, of
//! four parts: file and line, the setting as it stands there, the value that is wanted, an example.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use clap::Arg;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::sample::{is_secret, name_of, settings, value_of};
use super::values::{LogFormat, Text};
use crate::client_tls::{ClientsUser, PlainText};
use crate::peer_tls::PeerTlsMode;

/// The settings of the file.
#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) node: Option<String>,
    pub(super) cluster: Option<String>,
    pub(super) resp: Option<String>,
    pub(super) http: Option<String>,
    pub(super) cluster_address: Option<String>,
    pub(super) cluster_announce: Option<String>,
    pub(super) cluster_bucket: Option<String>,
    pub(super) databases: Option<u16>,
    pub(super) peer: Option<String>,
    pub(super) peer_announce: Option<String>,
    pub(super) moved: Option<String>,
    pub(super) join: Option<String>,
    pub(super) token: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) speak_at_most: Option<u16>,
    pub(super) cluster_secret: Option<PathBuf>,
    pub(super) peer_keys: Option<String>,
    pub(super) peer_tls: Option<PeerTlsMode>,
    pub(super) tls_ca: Option<PathBuf>,
    pub(super) tls_cert: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
    pub(super) tls_client_ca: Option<PathBuf>,
    pub(super) tls_auth_clients_user: Option<ClientsUser>,
    pub(super) plaintext: Option<PlainText>,
    pub(super) insecure: Option<String>,
    pub(super) dir: Option<PathBuf>,
    pub(super) password: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) protected_mode: Option<String>,
    pub(super) http_host: Option<String>,
    pub(super) http_origin: Option<String>,
    pub(super) value_bytes_max: Option<Text>,
    pub(super) request_timeout: Option<Text>,
    pub(super) maxclients: Option<usize>,
    pub(super) io_threads: Option<usize>,
    pub(super) workers: Option<u16>,
    pub(super) log_bytes_per_snapshot: Option<Text>,
    pub(super) log_bytes_held: Option<Text>,
    pub(super) log_entries_kept: Option<u64>,
    pub(super) compare_every: Option<Text>,
    pub(super) disk_low_mark: Option<Text>,
    pub(super) memory_quota: Option<Text>,
    pub(super) cache_policy: Option<String>,
    pub(super) log_level: Option<String>,
    pub(super) log_format: Option<LogFormat>,
}

/// Longest part of a line that a complaint repeats, in characters.
const SHOWN_MAX: usize = 60;
/// Names with at most so many letters wrong are taken for a slip.
const SLIPS_MAX: usize = 2;
/// Where all settings are listed.
const SEE: &str = "dictum start --print-config prints all settings";

/// The file that `--config` names, and its text.
pub(super) fn read_file(path: &Path) -> Result<(File, String), String> {
    let text = fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => format!("--config {}: this is not a text in UTF-8", path.display()),
        _ => format!("--config {}: {error}; check the path", path.display()),
    })?;
    let file = parse(&text).map_err(|complaint| format!("{}:{complaint}", path.display()))?;
    Ok((file, text))
}

/// Puts file and line before a complaint about a setting of the file: one that goes away, or becomes another, if `check` gets the file without that setting.
/// Else a flag or a variable has brought it about.
pub(super) fn blame<T>(
    (path, text): (&Path, &str),
    reason: String,
    check: impl FnOnce(File) -> Result<T, String>,
) -> String {
    let name = reason.trim_start_matches('-').split([' ', ':']).next().unwrap_or_default();
    match without(text, name).map(|(file, line)| (check(file).err(), line)) {
        Some((other, line)) if other.as_ref() != Some(&reason) => format!("{}:{line}: {reason}", path.display()),
        _ => reason,
    }
}

/// The same file without one of its settings, and the line in which that stands; none if it has no such setting.
fn without(text: &str, name: &str) -> Option<(File, usize)> {
    let at = DeTable::parse(text).ok()?.get_ref().iter().find(|(key, _)| key.get_ref() == name)?.0.span();
    let mut table: toml::Table = text.parse().ok()?;
    table.remove(name)?;
    Some((table.try_into().ok()?, line_number(text, at.start)))
}

/// What is wrong with a file.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Complaint {
    /// The number of the line, from 1.
    line: usize,
    text: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.text)
    }
}

/// Reads the text of a file.
pub(super) fn parse(text: &str) -> Result<File, Complaint> {
    let known = settings();
    let table = DeTable::parse(text).map_err(|error| malformed(text, &error, &known))?;
    let mut entries: Vec<(&Spanned<_>, &Spanned<DeValue<'_>>)> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in &entries {
        if !known.iter().any(|arg| name_of(arg) == key.get_ref().as_ref()) {
            let line = line_number(text, key.span().start);
            return Err(Complaint { line, text: unknown(key.get_ref(), value.get_ref(), &known) });
        }
    }
    toml::from_str(text).map_err(|error| {
        let at = error.span().unwrap_or_default();
        let within = |(key, value): &&(&Spanned<_>, &Spanned<DeValue<'_>>)| {
            key.span().contains(&at.start) || value.span().contains(&at.start)
        };
        let arg_of = |name: &str| known.iter().find(|arg| name_of(arg) == name);
        match entries.iter().find(within).and_then(|(key, value)| Some((key.span(), arg_of(key.get_ref())?, value))) {
            Some((key, arg, value)) => {
                let line = line_number(text, key.start);
                Complaint { line, text: wrong_value(text, arg, value) }
            }
            None => Complaint { line: line_number(text, at.start), text: format!("this cannot be read; {SEE}") },
        }
    })
}

/// A setting that has a value of another type than it needs, or a number that is too large or too small.
fn wrong_value(text: &str, arg: &Arg, value: &Spanned<DeValue<'_>>) -> String {
    let name = name_of(arg);
    let written = match value.get_ref() {
        // The settings in it may stand anywhere, and secrets among them.
        DeValue::Table(_) => return format!("{name}: {}, and not a section or a table", wanted(arg)),
        _ => shown(text.get(value.span()).unwrap_or_default()),
    };
    let is_out_of_range = is_number(name) && matches!(value.get_ref(), DeValue::Integer(_));
    let range = if is_out_of_range { "this number is out of range, " } else { "" };
    if is_secret(arg) {
        return format!("{name}: {}", wanted(arg));
    }
    format!("{name} = {written}: {range}{}", wanted(arg))
}

/// Whether a file has a bare number for it.
fn is_number(name: &str) -> bool {
    value_of(name).is_some_and(|value| !value.starts_with(['"', '\'']))
}

/// The value that a setting takes, in words, with an example.
fn wanted(arg: &Arg) -> String {
    let name = name_of(arg);
    let example = value_of(name).unwrap_or_default();
    let values = arg.get_value_names().into_iter().flatten().map(|value| value.as_str());
    let kind = match values.collect::<String>().as_str() {
        "IP:PORT" | "HOST:PORT" => "an address like",
        "NAME=HOST:PORT,…" => "a list of nodes like",
        "FILE" => "the path of a file like",
        "FOLDER" => "the path of a folder like",
        "NAME" => "a name like",
        "SIZE" => "a number of bytes, or a size like",
        "SIZE|PERCENT" => "a number of bytes, a size, or a part of the disk like \"5%\" or",
        "DURATION" => "a number of seconds, or a length of time like",
        "COUNT" | "NUMBER" | "VERSION" => return format!("a whole number like {example} is wanted (without quotes)"),
        _ => "a text like",
    };
    let choices: Vec<String> =
        arg.get_possible_values().iter().map(|choice| format!("\"{}\"", choice.get_name())).collect();
    match choices.as_slice() {
        [others @ .., last] if !others.is_empty() => format!("{} or {last} is wanted (in quotes)", others.join(", ")),
        _ => format!("{kind} {example} is wanted (in quotes)"),
    }
}

/// A setting that there is not, and the one that is perhaps meant.
fn unknown(name: &str, value: &DeValue<'_>, known: &[Arg]) -> String {
    let written = name.to_lowercase().replace(['_', ' '], "-");
    let near = known.iter().map(|arg| (strsim::damerau_levenshtein(&written, name_of(arg)), name_of(arg))).min();
    let name = shown(name);
    match (near, value) {
        (Some((slips, near)), _) if slips <= SLIPS_MAX.min(written.len() / 2) => {
            format!("there is no setting {name}; {near} is perhaps meant")
        }
        (_, DeValue::Table(_)) => {
            format!(
                "{name} is a section or a table, and this file has none: each setting is a line NAME = VALUE; {SEE}"
            )
        }
        _ => format!("there is no setting {name}; {SEE}"),
    }
}

/// A line that is no TOML, or a setting that is made twice.
fn malformed(text: &str, error: &toml::de::Error, known: &[Arg]) -> Complaint {
    // At the end of the file, or of a line, that which lacks something stands before.
    let mut at = error.span().unwrap_or_default().start.min(text.len());
    while text.as_bytes().get(at).is_none_or(|byte| *byte == b'\n') && at > 0 {
        at -= 1;
    }
    let line = line_number(text, at);
    let written = text.lines().nth(line - 1).unwrap_or_default();
    let (name, value) = written.split_once('=').map_or((written, None), |(name, value)| (name, Some(value)));
    let name = name.trim().trim_matches('"');
    let arg = known.iter().find(|arg| name_of(arg) == name);
    let is_same = |line: &str| line.split_once('=').is_some_and(|(other, _)| other.trim().trim_matches('"') == name);
    let complaint = match (arg, value) {
        (Some(arg), Some(_)) if error.message().contains("duplicate key") => {
            let first = text.lines().take(line - 1).position(is_same);
            let first = first.map_or(String::new(), |first| format!(", first in line {}", first + 1));
            format!("{} stands here for the second time{first}; leave one of them", name_of(arg))
        }
        (Some(arg), Some(value)) if !is_secret(arg) => format!("{name} = {}: {}", shown(value.trim()), wanted(arg)),
        (Some(arg), _) => format!("{name}: {}", wanted(arg)),
        // It may be anything, a line of a secret as well, so it is not repeated.
        (None, _) => format!("this line is no setting; write NAME = VALUE, for example node = \"n1\"; {SEE}"),
    };
    Complaint { line, text: complaint }
}

/// The number of the line with this byte, from 1.
fn line_number(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// A piece of the file in one line that is not too long.
fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
