//! Whether an audit trail is what its node has written: reads the files alone.
//!
//! 1. Every line is a record in its one canonical form; its number follows that of the record before, and it names the hash of that one's line. So a byte that was changed, a record
//!    that was taken out, put in or moved, and a file that is missing show, whoever did it without writing all later records anew.
//! 2. Every checkpoint has a signature by the node's key. So they show also when all later records were written anew, up to the last checkpoint.
//! 3. The trail begins with record 1, or a record says that the files before were removed, and which hash the last record had in them.
//! 4. Behind the record of a start stands a checkpoint, and never are there more than [`UNSIGNED_MAX`] records without one: so nobody can take the signatures out.
//!
//! What is not there at the end cannot be told by the files: for that a checkpoint is compared that somebody has noted elsewhere (`--checkpoint`), and the key, which stands in the trail
//! itself, with the node's ([`Expected`]). Other nodes have noted checkpoints in their trails, which stood in the council's log ([`read_witness`]).

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use node::TRAIL_NOTED;
use serde::Serialize;
use serde_json::Value;
use tls::KeyHash;

use super::files::{self, Next};
use super::record::{
    self, CHECKPOINT, DAMAGED, END, FILES_REMOVED, Fields, KEY, LEFT_OUT, NOTHING_BEFORE, START, TORN, from_base64, hex,
};
use super::writer::CHECKPOINT_RECORDS;

/// More records than that never stand between two checkpoints: the node signs after [`CHECKPOINT_RECORDS`], and a few of its own may come with them.
const UNSIGNED_MAX: u64 = CHECKPOINT_RECORDS + 100;
/// Most findings that are told; the others are counted.
const FINDINGS_MAX: usize = 50;

/// Facts about a trail that the reader has from elsewhere.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    /// The only key that may have signed, in hexadecimal digits.
    pub key: Option<String>,
    /// Records that were there.
    pub noted: Vec<Noted>,
    /// Records of trails that other nodes have noted in theirs, by the name of the node whose trail it is.
    pub witnessed: BTreeMap<String, Vec<Noted>>,
}

/// A record that somebody has noted elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Noted {
    pub sequence: u64,
    /// Of its line, in hexadecimal digits.
    pub hash: String,
    /// The node that has noted it; none: the reader has.
    pub by: Option<String>,
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Finding {
    /// The name of the file.
    pub file: String,
    /// The line in it, from 1.
    pub line: u64,
    /// The fault, in words.
    pub text: String,
}

/// A signed record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Checkpoint {
    pub sequence: u64,
    pub hash: String,
    /// Milliseconds since the Unix epoch.
    pub time: u64,
}

/// The findings and figures of a trail.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Report {
    /// Nothing is wrong.
    pub is_sound: bool,
    /// The node, as its records say.
    pub node: String,
    pub files: usize,
    pub records: u64,
    /// The first and the last record, by number and time.
    pub first_sequence: u64,
    pub last_sequence: u64,
    pub first_time: u64,
    pub last_time: u64,
    /// The hash of the last record's line.
    pub last_hash: String,
    /// Records by their kind.
    pub kinds: BTreeMap<String, u64>,
    /// The keys that have signed, and how many checkpoints each.
    pub keys: BTreeMap<String, u64>,
    /// The keys were compared with one that is known from elsewhere.
    pub is_key_compared: bool,
    pub last_checkpoint: Option<Checkpoint>,
    /// Records behind the last checkpoint: only the chain holds them.
    pub unsigned: u64,
    /// Records of files that the node itself has removed.
    pub removed: u64,
    /// The node was killed so often, or its machine lost its power.
    pub cut: u64,
    /// Bytes of an unfinished line at the very end.
    pub torn_bytes: u64,
    /// Events that the node itself has left out, as it says.
    pub left_out: u64,
    /// Records that were compared with what other nodes have noted of them.
    pub witnessed: u64,
    pub findings: Vec<Finding>,
    pub findings_more: u64,
}

/// A file, and the number of the first record by its name.
type NamedFile = (Option<u64>, PathBuf);

/// The files of a trail, which is in a node's folder, in its folder `audit`, or one file; and whether these are all of the trail.
fn files_of(path: &Path) -> io::Result<(Vec<NamedFile>, bool)> {
    let about = std::fs::metadata(path)?;
    let mut found = Vec::new();
    if about.is_dir() {
        let inner = path.join(files::FOLDER);
        let folder = if inner.is_dir() { inner } else { path.to_path_buf() };
        found.extend(files::list(&folder)?.into_iter().map(|(first, path)| (Some(first), path)));
        if found.is_empty() {
            let text = format!("there is no file of an audit trail in {}", folder.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
    } else {
        let first = path.file_name().and_then(|name| name.to_str()).and_then(files::first_of);
        found.push((first, path.to_path_buf()));
    }
    Ok((found, about.is_dir()))
}

/// Adds the records of other nodes' trails that this trail has noted. It is taken as it stands: whether it is sound, is another question.
///
/// # Errors
/// As the system says; or there is no trail.
pub(super) fn read_witness(path: &Path, noted: &mut BTreeMap<String, Vec<Noted>>) -> io::Result<()> {
    for (_, path) in files_of(path)?.0 {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut reader = BufReader::new(files::open_to_read(&path).map_err(named)?);
        loop {
            let line = match files::next(&mut reader).map_err(named)? {
                Next::End => break,
                Next::Line(line) => line,
                Next::Torn(_) | Next::TooLong => continue,
            };
            let Some(fields) = std::str::from_utf8(&line).ok().and_then(record::parse) else { continue };
            let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            if text("kind") == TRAIL_NOTED {
                let (sequence, hash) = (number(&fields, "record"), text("hash"));
                noted.entry(text("of")).or_default().push(Noted { sequence, hash, by: Some(text("node")) });
            }
        }
    }
    Ok(())
}

/// Reads the files of a trail: a node's folder, its folder `audit`, or one file.
///
/// # Errors
/// As the system says; or there is no trail.
pub(super) fn verify(path: &Path, expected: &Expected) -> io::Result<Report> {
    let (found, is_whole) = files_of(path)?;
    let mut reading = Reading { expected: expected.clone(), is_whole, ..Reading::default() };
    reading.report.files = found.len();
    reading.report.is_key_compared = expected.key.is_some();
    let count = found.len();
    for (place, (first, path)) in found.into_iter().enumerate() {
        reading.read_file(first, path, place + 1 == count)?;
    }
    Ok(reading.end())
}

#[derive(Default)]
struct Reading {
    expected: Expected,
    /// All files of a trail are read, and not one of them.
    is_whole: bool,
    report: Report,
    file: String,
    line: u64,
    /// The number and the name of the last line; none before the first.
    last: Option<(u64, [u8; 32])>,
    keys: BTreeMap<String, Vec<u8>>,
    /// Up to which record files were removed, as records say, with the hash of that record.
    removed: Vec<(u64, String)>,
    /// The hash that the first record names as that of the record before.
    first_previous: String,
    is_running: bool,
    /// The last record was that of a start.
    wants_checkpoint: bool,
    /// Records that are still to come.
    awaited: BTreeMap<u64, Vec<Noted>>,
}

impl Reading {
    fn find(&mut self, text: impl Into<String>) {
        if self.report.findings.len() < FINDINGS_MAX {
            let finding = Finding { file: self.file.clone(), line: self.line, text: text.into() };
            self.report.findings.push(finding);
        } else {
            self.report.findings_more += 1;
        }
    }

    fn read_file(&mut self, first: Option<u64>, path: PathBuf, is_last: bool) -> io::Result<()> {
        self.file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().escape_debug().to_string();
        self.line = 0;
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut reader = BufReader::new(files::open_to_read(&path).map_err(named)?);
        let mut is_first = true;
        loop {
            self.line += 1;
            match files::next(&mut reader).map_err(named)? {
                Next::End => break,
                Next::Torn(bytes) if is_last => self.report.torn_bytes = bytes.len() as u64,
                Next::Torn(_) => {
                    self.find("the line is not finished, and other files follow");
                }
                Next::TooLong => {
                    self.find("the line is longer than any record");
                }
                Next::Line(line) => {
                    let fields = std::str::from_utf8(&line).ok().and_then(record::parse);
                    let sequence = fields.as_ref().and_then(|fields| fields.get("sequence")?.as_u64());
                    if std::mem::take(&mut is_first)
                        && let (Some(first), Some(sequence)) = (first, sequence)
                        && first != sequence
                    {
                        self.find(format!("the file is named after record {first} and begins with record {sequence}"));
                    }
                    self.read_line(&line, fields, sequence);
                }
            }
        }
        Ok(())
    }

    fn read_line(&mut self, line: &[u8], fields: Option<Fields>, sequence: Option<u64>) {
        let name = record::name_of(line);
        let (Some(fields), Some(sequence)) = (fields, sequence) else {
            self.find("the line is no record: bytes of it were changed");
            let number = self.last.map_or(0, |(number, _)| number);
            self.last = Some((number.saturating_add(1), name));
            return;
        };
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        let previous = text("previous").to_owned();
        match self.last {
            None => {
                self.report.first_sequence = sequence;
                self.report.first_time = number(&fields, "time");
                text("node").clone_into(&mut self.report.node);
                let of_node = self.expected.witnessed.get(text("node")).into_iter().flatten();
                for noted in self.expected.noted.iter().chain(of_node) {
                    self.awaited.entry(noted.sequence).or_default().push(noted.clone());
                }
                self.first_previous.clone_from(&previous);
            }
            Some((before, _)) if Some(sequence) != before.checked_add(1) => {
                self.find(match sequence.checked_sub(before.saturating_add(2)) {
                    Some(0) => format!("record {} is missing", before.saturating_add(1)),
                    Some(more) => format!(
                        "records {} to {} are missing",
                        before.saturating_add(1),
                        before.saturating_add(1).saturating_add(more)
                    ),
                    None => format!("record {sequence} stands behind record {before}"),
                })
            }
            Some((before, name)) if previous != hex(&name) => {
                let text =
                    format!("record {sequence} does not name the hash of record {before}: one of them was changed");
                self.find(text);
            }
            Some(_) => {}
        }
        self.last = Some((sequence, name));
        self.report.records += 1;
        self.report.last_sequence = sequence;
        self.report.last_time = number(&fields, "time");
        let kind = text("kind").to_owned();
        *self.report.kinds.entry(kind.clone()).or_default() += 1;
        self.report.unsigned += 1;
        if self.report.unsigned == UNSIGNED_MAX + 1 {
            self.find(format!(
                "there is no checkpoint among the last {UNSIGNED_MAX} records: checkpoints were taken out"
            ));
        }
        if std::mem::take(&mut self.wants_checkpoint) && kind != CHECKPOINT {
            self.find("behind the record of the start there is no checkpoint");
        }
        if text("node") != self.report.node {
            self.find(format!("the record is of the node {:?}", text("node")));
        }
        for Noted { hash, by, .. } in self.awaited.remove(&sequence).into_iter().flatten() {
            self.report.witnessed += u64::from(by.is_some());
            if hash != hex(&name) {
                let by = by.map(|by| format!(", as {} has noted", by.escape_debug())).unwrap_or_default();
                self.find(format!("record {sequence} has the hash {}, and not {hash}{by}", hex(&name)));
            }
        }
        match kind.as_str() {
            KEY => self.read_key(&fields),
            CHECKPOINT => self.read_checkpoint(&fields, sequence, &name),
            START => {
                self.report.cut += u64::from(self.is_running);
                self.is_running = true;
                self.wants_checkpoint = true;
            }
            END => self.is_running = false,
            FILES_REMOVED => {
                let hash = text("last_hash").to_owned();
                self.removed.push((number(&fields, "last"), hash));
            }
            LEFT_OUT => self.report.left_out = self.report.left_out.saturating_add(number(&fields, "count")),
            DAMAGED => {
                let text = format!("when the node started it found this in {}: {}", text("file"), text("text"));
                self.find(text);
            }
            TORN => {}
            _ => {}
        }
    }

    fn read_key(&mut self, fields: &Fields) {
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        match from_base64(text("public_key")) {
            Some(public) if KeyHash::of_public(&public).whole() == text("key") => {
                if let Some(expected) = self.expected.key.clone().filter(|expected| expected != text("key")) {
                    self.find(format!("the key is {}, and not {expected}", text("key")));
                }
                self.keys.insert(text("key").to_owned(), public);
            }
            _ => self.find("the key is not the one that the record names"),
        }
    }

    fn read_checkpoint(&mut self, fields: &Fields, sequence: u64, name: &[u8; 32]) {
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        let key = text("key").to_owned();
        let signature = from_base64(text("signature")).unwrap_or_default();
        match self.keys.get(&key) {
            None => self.find(format!("checkpoint {sequence} is signed with a key that stands nowhere before it")),
            Some(public) if !tls::is_signed(public, &record::signed_bytes(fields), &signature) => {
                self.find(format!("the signature of checkpoint {sequence} is wrong"));
            }
            Some(_) => {
                *self.report.keys.entry(key).or_default() += 1;
                self.report.unsigned = 0;
                let time = number(fields, "time");
                self.report.last_checkpoint = Some(Checkpoint { sequence, hash: hex(name), time });
            }
        }
    }

    fn end(mut self) -> Report {
        self.report.last_hash = self.last.map(|(_, name)| hex(&name)).unwrap_or_default();
        self.line = 0;
        if self.is_whole {
            self.check_begin();
        }
        for Noted { sequence, by, .. } in std::mem::take(&mut self.awaited).into_values().flatten() {
            let by_whom = by.as_ref().map(|by| format!(", and {} has noted it", by.escape_debug())).unwrap_or_default();
            match sequence < self.report.first_sequence {
                // Other nodes have noted all that there ever was.
                true if by.is_some() => {}
                true => self.find(format!("record {sequence} is in a file that was removed: it cannot be compared")),
                false if by.is_some() && !self.is_whole => {}
                false => self.find(format!(
                    "record {sequence} is missing: the trail ends with record {}{by_whom}",
                    self.report.last_sequence
                )),
            }
        }
        if self.is_whole && self.report.records > 0 && self.report.last_checkpoint.is_none() {
            self.find("no record is signed");
        }
        self.report.is_sound = self.report.findings.is_empty();
        self.report
    }

    /// Files before the first record were removed by the node itself, or there were none.
    fn check_begin(&mut self) {
        let first = self.report.first_sequence;
        if self.report.records == 0 {
            return;
        }
        if first == 0 {
            return self.find("the first record has the number 0, and records are numbered from 1");
        }
        if first == 1 {
            if self.first_previous != hex(&NOTHING_BEFORE) {
                self.find("record 1 names the hash of another one");
            }
            return;
        }
        // The end of the process may have kept the last files from going.
        match self.removed.iter().rev().find(|(last, _)| last.saturating_add(1) >= first) {
            None => {
                self.find(format!("records 1 to {} are missing, and no record says that they were removed", first - 1))
            }
            Some((last, hash)) if last.saturating_add(1) == first && *hash != self.first_previous => {
                self.find(format!("record {first} does not name the hash that record {last} had when it was removed"));
            }
            Some(_) => self.report.removed = first - 1,
        }
    }
}

fn number(fields: &Fields, key: &str) -> u64 {
    fields.get(key).and_then(Value::as_u64).unwrap_or_default()
}
