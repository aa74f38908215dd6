//! Looking at a stopped node's folder without changing a byte of it: for `dictum check`.
//!
//! The judgement is that of the next start, made by the same code (`journal/recovery.rs`, `snapshot.rs`, `identity.rs`); what a start
//! would then write, cut, rename or remove is only told. The ordered store has its own: `lsm/verify.rs`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "`Files` makes, locks and writes; here files are only read"
)]

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::files::FolderError;
use crate::journal::block::{self, BLOCK_BYTES, Block};
use crate::journal::opening::{parse_segment_name, read_segment};
use crate::journal::{BLANK_PREFIX, Recovered, Scan, Tail};

const LOCK_NAME: &str = "LOCK";

/// A folder that nothing is written to. While it is held no node can start in it.
#[derive(Clone, Debug)]
pub struct ReadOnlyFolder {
    path: Arc<PathBuf>,
    /// Shared with other readers; none if the folder never had one (a copy).
    _lock: Option<Arc<File>>,
}

impl ReadOnlyFolder {
    /// Opens the folder, and holds off any node that would start in it meanwhile.
    ///
    /// # Errors
    /// A node uses it, or it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<ReadOnlyFolder, FolderError> {
        let path = path.as_ref().to_path_buf();
        let failed = |error| FolderError::Io { folder: path.clone(), error };
        fs::read_dir(&path).map_err(failed)?;
        let lock = match File::open(path.join(LOCK_NAME)) {
            Ok(mut file) => match file.try_lock_shared() {
                Ok(()) => Some(Arc::new(file)),
                Err(TryLockError::WouldBlock) => {
                    let mut text = String::new();
                    let process = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                    return Err(FolderError::InUse { folder: path, process });
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        Ok(ReadOnlyFolder { path: Arc::new(path), _lock: lock })
    }

    /// The folder's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for ReadOnlyFolder {
    type File = ReadOnlyFile;

    fn open(&self, name: &str) -> io::Result<ReadOnlyFile> {
        Ok(ReadOnlyFile(File::open(self.path.join(name))?))
    }

    fn create(&self, _: &str, _: u64) -> io::Result<ReadOnlyFile> {
        read_only()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        read_only()
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        read_only()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&*self.path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn sync_folder(&self) -> io::Result<()> {
        read_only()
    }
}

/// A file that is only read.
#[derive(Debug)]
pub struct ReadOnlyFile(File);

impl DiskFile for ReadOnlyFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        read_only()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        read_only()
    }
}

/// What a journal holds, and what the next start would make of it.
#[derive(Debug)]
pub struct JournalReport {
    /// Segments, whether written or not.
    pub segments: usize,
    /// Bytes that they should have.
    pub bytes: u64,
    /// Segments in the making, which a start removes.
    pub blanks: usize,
    /// Whole frames, those included whose payloads were given up since.
    pub frames: u64,
    /// Bytes of all payloads that count.
    pub payload_bytes: u64,
    /// What a start would be given.
    pub recovered: Recovered,
    /// Blocks that no write of ours left so, those that are missing from a shortened file among them.
    pub damaged: Vec<DamagedBlocks>,
    /// A version that this program does not read; then nothing else here is to be believed.
    pub unknown_version: Option<u16>,
}

/// Damaged blocks side by side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedBlocks {
    /// The segment's file.
    pub file: String,
    /// Where in it they begin, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// What that means.
    pub place: DamagedPlace,
}

/// Where damage is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DamagedPlace {
    /// Before the last frame. Unless payloads are missing it hit nothing that still counts.
    Past,
    /// Behind it, where the next frame would be or a lost one was.
    End,
    /// Behind it, in space that was never used: harmless.
    Unused,
}

/// Reads a journal. `progress` is told of each piece of so many bytes.
///
/// # Errors
/// Whatever the disk says of the folder; blocks that it refuses to read are damage.
pub fn verify_journal<D: Disk>(disk: &D, progress: &mut dyn FnMut(u64)) -> io::Result<JournalReport> {
    let mut found = Vec::new();
    let mut blanks = 0;
    for name in disk.list()? {
        if name.starts_with(BLANK_PREFIX) {
            blanks += 1;
        } else if let Some((sequence, blocks)) = parse_segment_name(&name) {
            found.push((sequence, blocks, name));
        }
    }
    found.sort();
    let mut scan = Scan::new();
    let mut buffer = Vec::new();
    // Segment, first block, blocks.
    let mut damaged: Vec<(usize, u32, u32)> = Vec::new();
    let mut torn: Vec<(usize, u32)> = Vec::new();
    for (index, (sequence, blocks, name)) in found.iter().enumerate() {
        read_segment(&disk.open(name)?, *blocks, &mut buffer)?;
        scan.segment(*sequence, *blocks, &buffer);
        let mut note = |position: u32, count: u32| match damaged.last_mut() {
            Some((last, first, length)) if *last == index && *first + *length == position => *length += count,
            _ => damaged.push((index, position, count)),
        };
        let mut present = 0;
        for block in buffer.chunks_exact(BLOCK_BYTES) {
            match block::classify(block, *sequence, present) {
                Block::Damaged => note(present, 1),
                Block::Torn => torn.push((index, present)),
                Block::Unwritten { .. } | Block::Written { .. } => {}
            }
            present += 1;
        }
        if present < *blocks {
            note(present, *blocks - present);
        }
        progress(buffer.len() as u64);
    }
    let findings = scan.finish();
    // Behind the last frame it is what a power cut has left, and no harm. Before it something was lost.
    let is_left = |(index, position): &(usize, u32)| findings.leftover_blocks.contains(&(found[*index].0, *position));
    damaged.extend(torn.into_iter().filter(|block| !is_left(block)).map(|(index, position)| (index, position, 1)));
    damaged.sort_unstable();
    let at_the_end = if findings.tail == Tail::Unprovable { DamagedPlace::End } else { DamagedPlace::Unused };
    let damaged = damaged
        .into_iter()
        .map(|(index, first, length)| {
            let (sequence, _, name) = &found[index];
            let behind = findings
                .damaged_blocks
                .iter()
                .any(|(segment, position)| segment == sequence && (first..first + length).contains(position));
            DamagedBlocks {
                file: name.clone(),
                offset: u64::from(first) * BLOCK_BYTES as u64,
                bytes: u64::from(length) * BLOCK_BYTES as u64,
                place: if behind { at_the_end } else { DamagedPlace::Past },
            }
        })
        .collect();
    Ok(JournalReport {
        segments: found.len(),
        bytes: found.iter().map(|(_, blocks, _)| u64::from(*blocks) * BLOCK_BYTES as u64).sum(),
        blanks,
        frames: findings.frames,
        payload_bytes: findings.payloads.iter().map(|(_, payload)| payload.len() as u64).sum(),
        damaged,
        unknown_version: findings.unknown_version,
        recovered: Recovered {
            payloads: findings.payloads,
            damage: findings.damage,
            tail: findings.tail,
            next_number: findings.next_number,
            floor: findings.floor,
            fresh: found.is_empty(),
        },
    })
}
