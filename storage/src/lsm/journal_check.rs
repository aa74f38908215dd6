//! Reads fjall's journal before fjall does, and more strictly.
//!
//! fjall takes whatever it cannot parse for the torn end of its journal, whatever follows; it has no checksum over a batch's
//! sequence number; and it refuses to open at all when the unsynced end came back from a power cut with holes in it. So:
//! 1. In every file but the last that has batches, batches must follow each other to the end (zeros, or the end of the file): such a file was
//!    synced before the next one was written. Anything else is damage.
//! 2. Batches carry our own number (under [`keys::LAST_MARK`]), which grows by one, and sequence numbers grow. No torn write
//!    breaks that, so where it is broken there is damage: which of two neighbours has it cannot be told.
//! 3. The last file is cut behind its last good batch, so that fjall finds a clean end. What is lost by that is a suffix of what
//!    this journal holds; that nothing newer got into tables is for the marks to show (`opening.rs`, `check_marks`).
//! 4. Empty files behind a file with a torn end are removed. When a disk is full in the middle of a batch, fjall takes no more batches; but
//!    an order to write a table that is under way has it begin the next file all the same, if this one is above 64 MB. The file with the torn end is the last one that
//!    anything was written to, so this is rule 3 once more.
//!
//! ```text
//! batch   ┌───┬─────────┬────────────┬─ items ─┬───┬─────────────┬────────┐
//!         │ 1 │ items 4 │ sequence 8 │  …      │ 3 │ XXH3 64   8 │"FJL\x03"│   little-endian; XXH3 of the items' bytes
//!         └───┴─────────┴────────────┴─────────┴───┴─────────────┴────────┘
//! item    ┌───┬────────┬─────────────┬────────────┬───────┬─────────┬────────────┬─────┬───────┐
//!         │ 2 │ type 1 │ compression │ keyspace 8 │ key 2 │ value 4 │ on disk  4 │ key │ value │
//!         └───┴────────┴──────────1──┴────────────┴───────┴─────────┴────────────┴─────┴───────┘
//! ```
#![allow(clippy::disallowed_types, reason = "the ordered store's files are fjall's; here they are read once, at open")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::keys;

/// No sequence number gets here; a larger one is rot, and would overflow inside fjall.
const SEQUENCE_MAX: u64 = 1 << 56;
/// Values are read in pieces of this size.
const CHUNK_BYTES: usize = 64 * 1024;
/// The same for a single item.
const ITEM_CHUNK_BYTES: usize = 4096;

/// What the journal's check found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Checked {
    /// Our number of the last whole batch.
    pub last_number: Option<u64>,
}

/// Checks all journals in fjall's folder, and cuts the torn end of the last one off.
///
/// The inner `Err` says what is damaged.
///
/// # Errors
/// Whatever the disk says.
pub(super) fn check(folder: &Path) -> io::Result<Result<Checked, String>> {
    let scanned = match scan(folder)? {
        Ok(scanned) => scanned,
        Err(damage) => return Ok(Err(damage)),
    };
    if let Some(torn) = scanned.journals.iter().position(|journal| !journal.clean) {
        // The empty ones first, the last before the others: however far this comes, the next check finds what it can go on with.
        for empty in scanned.journals.iter().skip(torn + 1).rev() {
            fs::remove_file(&empty.path)?;
            File::open(folder)?.sync_all()?;
        }
        if let Some(journal) = scanned.journals.get(torn) {
            let file = OpenOptions::new().write(true).open(&journal.path)?;
            file.set_len(journal.good)?;
            file.sync_all()?;
        }
    }
    Ok(Ok(Checked { last_number: scanned.last_number }))
}

/// One file of fjall's journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ScannedJournal {
    pub path: PathBuf,
    /// The file's length.
    pub bytes: u64,
    /// Where its last whole batch ends.
    pub good: u64,
    /// Whole batches.
    pub batches: u64,
    /// Nothing but zeros follows them. Else the file is to be cut there, and those behind it, which are empty, are to be removed.
    pub clean: bool,
}

/// What the journals hold, in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Scanned {
    pub journals: Vec<ScannedJournal>,
    /// Our number of the last whole batch.
    pub last_number: Option<u64>,
}

/// As [`check`], and changes nothing.
///
/// # Errors
/// Whatever the disk says.
pub(super) fn scan(folder: &Path) -> io::Result<Result<Scanned, String>> {
    let mut last: Option<Batch> = None;
    let mut scanned = Scanned::default();
    // Where the torn end is, if there is one.
    let mut torn: Option<(u64, u64)> = None;
    for (name, path) in journals(folder)? {
        let bytes = fs::metadata(&path)?.len();
        let mut reader = Reader { file: BufReader::with_capacity(CHUNK_BYTES, File::open(&path)?), at: 0, bytes };
        let (mut good, mut batches) = (0, 0);
        let clean = loop {
            match reader.batch()? {
                Step::Batch(batch) => {
                    let follows = last.is_none_or(|last| {
                        last.number.checked_add(1) == Some(batch.number) && batch.sequence > last.sequence
                    });
                    if !follows || batch.sequence >= SEQUENCE_MAX {
                        return Ok(Err(format!("in its journal {name}, the batch at byte {good} does not follow")));
                    }
                    last = Some(batch);
                    good = reader.at;
                    batches += 1;
                }
                Step::End => break true,
                Step::Broken => break false,
            }
        };
        if let Some((name, good)) = torn.filter(|_| batches > 0 || !clean) {
            return Ok(Err(format!("its journal {name} is damaged behind byte {good}, and later journals follow")));
        }
        if !clean {
            torn = Some((name, good));
        }
        scanned.journals.push(ScannedJournal { path, bytes, good, batches, clean });
    }
    scanned.last_number = last.map(|last| last.number);
    Ok(Ok(scanned))
}

/// The journals in their order.
fn journals(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        if let Some(number) = number {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found)
}

#[derive(Clone, Copy)]
struct Batch {
    number: u64,
    sequence: u64,
}

enum Step {
    Batch(Batch),
    /// Nothing but zeros from here on, or nothing at all.
    End,
    Broken,
}

struct Reader {
    file: BufReader<File>,
    at: u64,
    bytes: u64,
}

impl Reader {
    /// The next `N` bytes; `None` if there are fewer.
    fn take<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        if self.bytes - self.at < N as u64 {
            return Ok(None);
        }
        let mut taken = [0; N];
        self.file.read_exact(&mut taken)?;
        self.at += N as u64;
        Ok(Some(taken))
    }

    fn batch(&mut self) -> io::Result<Step> {
        let start = self.at;
        let Some([tag]) = self.take()? else { return Ok(Step::End) };
        if tag == 0 {
            return self.rest_is_zero(start);
        }
        Ok(self.rest_of_batch(tag)?.map_or(Step::Broken, Step::Batch))
    }

    fn rest_of_batch(&mut self, tag: u8) -> io::Result<Option<Batch>> {
        if tag != 1 {
            return Ok(None);
        }
        let Some(items) = self.take()?.map(u32::from_le_bytes) else { return Ok(None) };
        let Some(sequence) = self.take()?.map(u64::from_le_bytes) else { return Ok(None) };
        let mut hasher = Xxh3::new();
        let mut number = None;
        for _ in 0..items {
            if !self.item(&mut hasher, &mut number)? {
                return Ok(None);
            }
        }
        let Some(end) = self.take::<13>()? else { return Ok(None) };
        let mut expected = vec![3];
        expected.extend_from_slice(&hasher.digest().to_le_bytes());
        expected.extend_from_slice(b"FJL\x03");
        Ok(number.filter(|_| end == expected[..]).map(|number| Batch { number, sequence }))
    }

    /// Whether an item could be read. Its bytes go into the checksum; our number is remembered.
    fn item(&mut self, hasher: &mut Xxh3, number: &mut Option<u64>) -> io::Result<bool> {
        let Some(head) = self.take::<21>()? else { return Ok(false) };
        let [tag, kind, compression, _, _, _, _, _, _, _, _, key_0, key_1, value @ ..] = head;
        let [value_0, value_1, value_2, value_3, disk @ ..] = value;
        let value_bytes = u32::from_le_bytes([value_0, value_1, value_2, value_3]);
        if tag != 2 || kind > 1 || compression != 0 || disk != value_bytes.to_le_bytes() {
            return Ok(false);
        }
        hasher.update(&head);
        let key_bytes = u16::from_le_bytes([key_0, key_1]);
        let ours = usize::from(key_bytes) == keys::LAST_MARK.len() && value_bytes == 8;
        if ours {
            let Some(content) = self.take::<10>()? else { return Ok(false) };
            hasher.update(&content);
            let (key, value) = content.split_at(keys::LAST_MARK.len());
            if key == keys::LAST_MARK {
                *number = keys::number(value);
            }
            return Ok(true);
        }
        let mut left = u64::from(key_bytes) + u64::from(value_bytes);
        if self.bytes - self.at < left {
            return Ok(false);
        }
        // Small: there are millions of items, and it is filled with zeros for each.
        let mut chunk = [0; ITEM_CHUNK_BYTES];
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(ITEM_CHUNK_BYTES).min(ITEM_CHUNK_BYTES);
            let part = &mut chunk[..length];
            self.file.read_exact(part)?;
            hasher.update(part);
            left -= length as u64;
            self.at += length as u64;
        }
        Ok(true)
    }

    fn rest_is_zero(&mut self, start: u64) -> io::Result<Step> {
        let mut chunk = vec![0; CHUNK_BYTES];
        while self.at < self.bytes {
            let length = usize::try_from(self.bytes - self.at).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            let part = &mut chunk[..length];
            self.file.read_exact(part)?;
            self.at += length as u64;
            if part.iter().any(|byte| *byte != 0) {
                self.file.seek(SeekFrom::Start(start))?;
                return Ok(Step::Broken);
            }
        }
        Ok(Step::End)
    }
}
