//! The audit trail of one node: appends records to its files. Blocks, so it belongs to a thread of its own ([`super::writer`]), or to a command on a stopped folder.
//!
//! ```text
//!   audit-00000000000000000001.jsonl   key 1 · start 2 · login 3 · … · checkpoint 900
//!   audit-00000000000000000901.jsonl   key 901 · login 902 · …            each names the hash of the one before, across files
//! ```
//! 1. [`Trail::push`] puts a line into memory, [`Trail::write`] into the file, [`Trail::checkpoint`] signs what there is and syncs it.
//! 2. Lines stay in memory until they are synced. When a write or a sync has failed, the file is cut to where it was synced and all of them are written again: after a failed
//!    sync the system may have thrown away what it could not write, and would say nothing of it at the next sync.
//! 3. A file that is full is followed by another one; of too many files the first is removed, and a record says so.
//! 4. At the start the last file is read. Behind its last line break may stand the beginning of a line that the end of the process has cut: it is removed, and a record says so. A line that
//!    is whole and wrong stays where it is: a record tells of it, in a new file.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tls::NodeKey;

use super::files::{self, FOLDER, Next};
use super::record::{self, CHECKPOINT, DAMAGED, END, Entry, FILES_REMOVED, Fields, KEY, NOTHING_BEFORE, TORN, hex};
use crate::peer_tls;

/// How large the trail of a node may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// A file beyond that is followed by another one.
    pub file_bytes_max: u64,
    /// Of more files the first is removed.
    pub files_max: usize,
}

impl Default for Limits {
    /// 1 GiB together.
    fn default() -> Limits {
        Limits { file_bytes_max: 64 * 1024 * 1024, files_max: 16 }
    }
}

/// Most bytes that wait in memory for the disk.
const UNSYNCED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A record, by its number and its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Link {
    pub sequence: u64,
    pub name: [u8; 32],
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Trail {
    folder: PathBuf,
    node: String,
    key: Arc<NodeKey>,
    limits: Limits,
    pub(super) file: File,
    /// The first record of each file.
    firsts: VecDeque<u64>,
    /// Bytes of the file that are on disk for certain.
    synced: u64,
    /// Lines behind these, and how many bytes of them were written.
    unsynced: Vec<u8>,
    written: usize,
    /// The file may have other bytes behind `synced` than it should.
    is_broken: bool,
    last: Link,
    /// Of the last record that is in the file.
    last_written: Link,
    checkpoint: Option<Link>,
    since_checkpoint: u64,
}

/// The error with the file that it is about: a folder or a link under such a name keeps the node from starting, and somebody has to move it away.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The end of the last file.
struct Tail {
    first: u64,
    bytes: u64,
    last: Link,
    kind: String,
    torn: Vec<u8>,
    damage: Option<String>,
}

impl Trail {
    /// Opens the trail in a node's folder, and makes one if there is none. Its first records are the key, and what was wrong with the end of the trail; and whether the trail ended as it should.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn open(
        node_folder: &Path,
        node: &str,
        key: Arc<NodeKey>,
        limits: Limits,
    ) -> io::Result<(Trail, Ending)> {
        let folder = node_folder.join(FOLDER);
        files::make_folder(&folder)?;
        let mut found: VecDeque<(u64, PathBuf)> = files::list(&folder)?.into();
        let (mut firsts, mut notes, mut ending) = (VecDeque::new(), Vec::new(), Ending::None);
        let start = Link { sequence: 0, name: NOTHING_BEFORE };
        let (file, synced, last) = match found.pop_back() {
            None => {
                firsts.push_back(1);
                (files::create(&folder, 1)?, 0, start)
            }
            Some((first, path)) => {
                let file = files::open_to_append(&path).map_err(|error| at(&path, &error))?;
                let mut tail = read_tail(first, &file)?;
                if tail.bytes == 0
                    && let Some((before, path)) = found.back()
                {
                    // It was begun, and the process ended before there was a line in it.
                    let before = read_tail(*before, &files::open_to_read(path)?)?;
                    (tail.last, tail.kind) = (before.last, before.kind);
                }
                firsts.extend(found.iter().map(|(first, _)| *first));
                firsts.push_back(first);
                ending = if tail.kind == END { Ending::InOrder } else { Ending::Cut };
                if !tail.torn.is_empty() {
                    if tail.damage.is_none() {
                        file.set_len(tail.bytes)?;
                        file.sync_all()?;
                    }
                    let about =
                        vec![("bytes", tail.torn.len().into()), ("sha256", hex(&tls::sha256(&tail.torn)).into())];
                    notes.push(Entry::new(TORN, about));
                }
                match tail.damage {
                    None => (file, tail.bytes, tail.last),
                    Some(text) => {
                        let name = files::file_name(tail.first);
                        notes.push(Entry::new(DAMAGED, vec![("file", name.into()), ("text", text.into())]));
                        let next = tail.last.sequence.saturating_add(1);
                        firsts.push_back(next);
                        (files::create(&folder, next)?, 0, tail.last)
                    }
                }
            }
        };
        let mut trail = Trail {
            folder,
            node: node.to_owned(),
            key,
            limits,
            file,
            firsts,
            synced,
            unsynced: Vec::new(),
            written: 0,
            is_broken: false,
            last,
            last_written: last,
            checkpoint: None,
            since_checkpoint: 0,
        };
        trail.append_key();
        notes.into_iter().for_each(|note| trail.push(note));
        Ok((trail, ending))
    }

    /// True if so much waits for the disk that nothing more may be appended.
    pub(crate) fn is_full(&self) -> bool {
        self.unsynced.len() >= UNSYNCED_BYTES_MAX
    }

    /// Records behind the last checkpoint.
    pub(crate) fn since_checkpoint(&self) -> u64 {
        self.since_checkpoint
    }

    /// The last record that can be read from the files, and the last checkpoint that is on disk.
    pub(crate) fn state(&self) -> (Link, Option<Link>) {
        (self.last_written, self.checkpoint)
    }

    /// Begins another file, if this one is full. To be called before [`Trail::push`].
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn make_room(&mut self) -> io::Result<()> {
        if self.synced + self.unsynced.len() as u64 >= self.limits.file_bytes_max { self.begin_file() } else { Ok(()) }
    }

    /// Adds a record. It is in memory until [`Trail::write`].
    pub(crate) fn push(&mut self, entry: Entry) {
        let fields = entry.placed(&self.node, self.last.sequence.saturating_add(1), &self.last.name);
        self.push_placed(&fields);
    }

    fn push_placed(&mut self, fields: &Fields) {
        let line = record::line(fields);
        self.last = Link { sequence: self.last.sequence.saturating_add(1), name: record::name_of(line.as_bytes()) };
        self.unsynced.extend_from_slice(line.as_bytes());
        self.unsynced.push(b'\n');
        self.since_checkpoint += 1;
    }

    /// A reader needs the key to verify a file, also when the files before it are gone.
    fn append_key(&mut self) {
        let fields = vec![
            ("algorithm", "ML-DSA-65".into()),
            ("key", self.key.hash().whole().into()),
            ("public_key", record::base64(self.key.public()).into()),
        ];
        self.push(Entry::new(KEY, fields));
    }

    /// Brings what was appended into the file.
    ///
    /// # Errors
    /// As the system says. Nothing is lost: the next call tries again.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if self.is_broken {
            self.file.set_len(self.synced)?;
            self.written = 0;
            self.is_broken = false;
        }
        if self.written < self.unsynced.len() {
            if let Err(error) = self.file.write_all(&self.unsynced[self.written..]) {
                self.is_broken = true;
                return Err(error);
            }
            self.written = self.unsynced.len();
        }
        self.last_written = self.last;
        Ok(())
    }

    /// Brings what was appended to the disk.
    fn sync(&mut self) -> io::Result<()> {
        self.write()?;
        if let Err(error) = self.file.sync_data() {
            self.is_broken = true;
            return Err(error);
        }
        self.synced += self.unsynced.len() as u64;
        self.unsynced.clear();
        self.written = 0;
        Ok(())
    }

    /// Signs everything up to here, and brings it to the disk.
    ///
    /// # Errors
    /// As the system says. The next call tries again.
    pub(crate) fn checkpoint(&mut self) -> io::Result<()> {
        if self.since_checkpoint > 0 {
            let entry = Entry::new(CHECKPOINT, vec![("key", self.key.hash().whole().into())]);
            let mut fields = entry.placed(&self.node, self.last.sequence.saturating_add(1), &self.last.name);
            record::sign(&mut fields, &self.key).map_err(io::Error::other)?;
            self.push_placed(&fields);
            self.since_checkpoint = 0;
        }
        self.sync()?;
        if self.last.sequence > 0 {
            self.checkpoint = Some(self.last);
        }
        Ok(())
    }

    /// The file is full: another one goes on.
    fn begin_file(&mut self) -> io::Result<()> {
        self.checkpoint()?;
        let first = self.last.sequence.saturating_add(1);
        self.file = match files::create(&self.folder, first) {
            // An earlier attempt has failed behind that.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let file = files::open_to_append(&self.folder.join(files::file_name(first)))?;
                if file.metadata()?.len() > 0 {
                    return Err(error);
                }
                File::open(&self.folder)?.sync_all()?;
                file
            }
            other => other?,
        };
        self.synced = 0;
        self.firsts.push_back(first);
        self.append_key();
        let mut gone = Vec::new();
        while self.firsts.len() > self.limits.files_max.max(2) {
            gone.extend(self.firsts.pop_front());
        }
        let Some(next) = self.firsts.front().filter(|_| !gone.is_empty()).copied() else { return Ok(()) };
        // First it is told and on disk, then they go. What an end in between leaves is no more than was told.
        let names: Vec<Value> = gone.iter().map(|first| files::file_name(*first).into()).collect();
        let before = first_link(&self.folder.join(files::file_name(next)))?;
        let about =
            vec![("files", names.into()), ("last", next.saturating_sub(1).into()), ("last_hash", before.into())];
        self.push(Entry::new(FILES_REMOVED, about));
        self.checkpoint()?;
        for first in gone {
            fs::remove_file(self.folder.join(files::file_name(first)))?;
        }
        File::open(&self.folder)?.sync_all()
    }
}

/// Adds a record to the trail of a stopped node, on disk when this returns.
///
/// # Errors
/// For the operator: the node's key cannot be read, or the trail not be written.
pub(crate) fn note(node_folder: &Path, node: &str, entry: Entry) -> Result<(), String> {
    let key = peer_tls::load_key(node_folder)?;
    let noted = Trail::open(node_folder, node, Arc::new(key), Limits::default()).and_then(|(mut trail, _)| {
        trail.push(entry);
        trail.checkpoint()
    });
    noted.map_err(|error| format!("the audit trail cannot be written: {error}"))
}

/// How the trail ended that a node goes on with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// There was none.
    None,
    /// By the end of an orderly stop.
    InOrder,
    /// Not so: the process was killed, or the machine lost its power.
    Cut,
}

impl Ending {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Ending::None => "none",
            Ending::InOrder => "in order",
            Ending::Cut => "cut",
        }
    }
}

/// The `previous` of the first record of a file.
fn first_link(path: &Path) -> io::Result<String> {
    let wrong = || io::Error::other(format!("{} does not begin with a record", path.display()));
    let Next::Line(line) = files::next(&mut BufReader::new(files::open_to_read(path)?))? else { return Err(wrong()) };
    let fields = std::str::from_utf8(&line).ok().and_then(record::parse).ok_or_else(wrong)?;
    fields.get("previous").and_then(Value::as_str).map(str::to_owned).ok_or_else(wrong)
}

/// Reads the last file: where its last record stands, and whether it is right up to there.
fn read_tail(first: u64, file: &File) -> io::Result<Tail> {
    let mut reader = BufReader::new(file);
    let mut tail = Tail {
        first,
        bytes: 0,
        last: Link { sequence: first.saturating_sub(1), name: NOTHING_BEFORE },
        kind: String::new(),
        torn: Vec::new(),
        damage: None,
    };
    // A file that was made and not written to: what its first record is to name is in the one before.
    let mut is_begun = first == 1;
    for number in 1_u64.. {
        let line = match files::next(&mut reader)? {
            Next::End => break,
            Next::Torn(bytes) => {
                tail.torn = bytes;
                break;
            }
            Next::TooLong => {
                tail.damage.get_or_insert_with(|| format!("line {number} is too long"));
                tail.last.sequence = tail.last.sequence.saturating_add(1);
                continue;
            }
            Next::Line(line) => line,
        };
        tail.bytes += line.len() as u64 + 1;
        let fields = std::str::from_utf8(&line).ok().and_then(record::parse);
        let name = record::name_of(&line);
        let follows = |fields: &Fields| {
            fields.get("sequence").and_then(Value::as_u64) == Some(tail.last.sequence.saturating_add(1))
                && (!is_begun || fields.get("previous").and_then(Value::as_str) == Some(&hex(&tail.last.name)))
        };
        match fields.filter(follows) {
            Some(fields) => {
                let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
                // A checkpoint is about what stands before it.
                if kind != CHECKPOINT {
                    kind.clone_into(&mut tail.kind);
                }
                tail.last = Link { sequence: tail.last.sequence.saturating_add(1), name };
            }
            None => {
                tail.damage.get_or_insert_with(|| format!("line {number} is not the record that belongs there"));
                tail.last = Link { sequence: tail.last.sequence.saturating_add(1), name };
            }
        }
        is_begun = true;
    }
    Ok(tail)
}
