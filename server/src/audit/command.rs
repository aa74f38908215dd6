//! `dictum audit verify`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tls::NodeKey;

use super::verify::{Expected, Noted, Report, read_witness, verify};
use crate::log::shown_time;
use crate::peer_tls::{self, KEY_FILE};

/// Something in the trail is wrong.
const EXIT_UNSOUND: u8 = 1;
/// It cannot be read, or the report not be written; also what clap says of wrong arguments.
const EXIT_UNREAD: u8 = 2;

const HELP: &str = "\
Reads nothing but the files, so it works on a copy, on another machine, and beside a node that runs. It finds bytes that were changed,
records that were taken out, put in or moved, and missing files. What was cut off at the end it can only find if something else says what
was there: the trails of other nodes, which note the checkpoints of this one every minute (--witness), or a checkpoint that you have noted on
another machine (--checkpoint).

The key that signs stands in the trail itself. It is compared with DIR/node.key, if that can be read, or with --key; without either
somebody who writes the whole trail anew with a key of his own is not found out.

Exit code: 0 the trail is sound, 1 it is not, 2 it cannot be read.

Examples:
  dictum audit verify /var/lib/dictum
  dictum audit verify --witness /copies/n2 --witness /copies/n3 /copies/n1
  dictum audit verify --key 3f…c1 --checkpoint 9120:77…04 /backup/n1/audit";

/// Arguments of `dictum audit`.
#[derive(Args, Debug)]
pub struct AuditArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Says whether a node's audit trail is what the node has written, and from when to when it reaches
    Verify(VerifyArguments),
}

#[derive(Args, Debug)]
#[command(after_help = HELP)]
struct VerifyArguments {
    /// The folder of a node, its folder `audit`, or one file of that
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    /// The node's key, as an earlier report or the log of its start has it: 64 hexadecimal digits
    #[arg(long, value_name = "HASH", value_parser = parse_hash)]
    key: Option<String>,
    /// A record that must be there, with its hash, as an earlier report or GET /v1/audit has it
    #[arg(long, value_name = "NUMBER:HASH", value_parser = parse_checkpoint)]
    checkpoint: Option<(u64, String)>,
    /// The folder or a file of another node's trail, which may have noted checkpoints of this one; may be given more than once
    #[arg(long, value_name = "DIR|FILE")]
    witness: Vec<PathBuf>,
    /// Print one object of JSON
    #[arg(long)]
    json: bool,
}

fn parse_hash(text: &str) -> Result<String, String> {
    let is_hash = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_hash { Ok(text.to_ascii_lowercase()) } else { Err("a hash has 64 hexadecimal digits".to_owned()) }
}

fn parse_checkpoint(text: &str) -> Result<(u64, String), String> {
    let (number, hash) = text.split_once(':').ok_or("it is the number of a record, a colon, and its hash")?;
    let number = number.parse().map_err(|_| format!("{number} is not the number of a record"))?;
    Ok((number, parse_hash(hash)?))
}

/// Carries it out.
#[must_use]
pub fn run(arguments: AuditArguments) -> ExitCode {
    let Verb::Verify(arguments) = arguments.verb;
    let key = arguments.key.clone().or_else(|| own_key(&arguments.path));
    let noted = arguments.checkpoint.iter().cloned().map(|(sequence, hash)| Noted { sequence, hash, by: None });
    let mut expected = Expected { key, noted: noted.collect(), ..Expected::default() };
    let unread = |path: &Path, error: std::io::Error| {
        eprintln!("dictum audit verify: {}: {error}", path.display());
        ExitCode::from(EXIT_UNREAD)
    };
    for path in &arguments.witness {
        if let Err(error) = read_witness(path, &mut expected.witnessed) {
            return unread(path, error);
        }
    }
    let report = match verify(&arguments.path, &expected) {
        Ok(report) => report,
        Err(error) => return unread(&arguments.path, error),
    };
    let text = if arguments.json {
        let json = serde_json::to_string(&report).expect("a report is plain data");
        json + "\n"
    } else {
        for_people(&report)
    };
    if let Err(error) = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()) {
        eprintln!("dictum audit verify: standard output: {error}");
        return ExitCode::from(EXIT_UNREAD);
    }
    if report.is_sound { ExitCode::SUCCESS } else { ExitCode::from(EXIT_UNSOUND) }
}

/// The key of the node whose folder this is, if it is one and this user may read it.
fn own_key(path: &Path) -> Option<String> {
    let bytes = peer_tls::read_private(&path.join(KEY_FILE), peer_tls::Readers::Owner).ok()?;
    NodeKey::from_pkcs8(&bytes).ok().map(|key| key.hash().whole())
}

fn for_people(report: &Report) -> String {
    let mut out = String::new();
    let mut say = |text: String| {
        out += &text;
        out.push('\n');
    };
    let node = report.node.escape_debug();
    say(match report.records {
        0 => format!("no record in {} files", report.files),
        records => format!(
            "{records} records of node {node} in {} files: {} ({}) to {} ({})",
            report.files,
            report.first_sequence,
            shown_time(report.first_time),
            report.last_sequence,
            shown_time(report.last_time),
        ),
    });
    for (key, count) in &report.keys {
        let compared = match report.is_key_compared {
            true => "",
            false => " (not compared with anything: see --key)",
        };
        say(format!("key {key}: {count} checkpoints{compared}"));
    }
    match &report.last_checkpoint {
        Some(last) => say(format!(
            "last checkpoint {}:{} of {}; {} records behind it",
            last.sequence,
            last.hash,
            shown_time(last.time),
            report.unsigned
        )),
        None => say("no checkpoint: nothing is signed".to_owned()),
    }
    let notes = [
        (report.witnessed, "records are as other nodes have noted them, or stand below"),
        (report.removed, "records in files that the node has removed, as it says: the trail had reached its limit"),
        (report.left_out, "events that the node has left out, as it says: they were too many, or the disk failed"),
        (report.cut, "times the node did not end in order: it was killed, or lost its power"),
        (report.torn_bytes, "bytes of an unfinished line at the end: the node was stopped in it, or writes it now"),
    ];
    for (count, text) in notes.iter().filter(|(count, _)| *count > 0) {
        say(format!("note: {count} {text}"));
    }
    for finding in &report.findings {
        let place = match (finding.file.as_str(), finding.line) {
            (file, 0) => file.to_owned(),
            (file, line) => format!("{file}, line {line}"),
        };
        say(format!("WRONG: {place}: {}", finding.text.escape_debug()));
    }
    if report.findings_more > 0 {
        say(format!("WRONG: and {} more", report.findings_more));
    }
    say(if report.is_sound { "the trail is sound" } else { "THE TRAIL IS NOT SOUND" }.to_owned());
    out
}
