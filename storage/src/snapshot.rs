//! Snapshots: the state of one partition at one position, written and read as a stream of checksummed blocks.
//!
//! A snapshot is written under a temporary name and gets its own only when it is whole and synced; so a file with a
//! snapshot's name is a whole one, or was damaged since. Neither writer nor reader ever holds more than one block.
//! The bytes are drawn in `docs/formats.md`.

use std::fmt;
use std::io;

use base::checksum::crc32c;
use base::limits::SNAPSHOT_BLOCK_BYTES_MAX;
use base::{BucketId, PartitionId, Position};
use bytes::Bytes;

use crate::disk::{BytesFile, Disk, DiskFile};

const MAGIC: &[u8; 8] = b"DICTSNAP";
const VERSION: u32 = 1;
const PREFIX: &str = "snapshot-";
const UNFINISHED_SUFFIX: &str = ".tmp";
/// Magic, version, length of the opaque bytes, partition, position.
const HEADER_BYTES: usize = 32;
/// Checksum, length, index.
const BLOCK_HEADER_BYTES: usize = 16;
/// What stands for the length in the footer, which has otherwise a block's header.
const FOOTER_LENGTH: u32 = u32::MAX;
/// Longest opaque header, in bytes.
pub const SNAPSHOT_HEADER_BYTES_MAX: usize = 1024 * 1024;
/// The writer syncs this often, so that finishing does not hold up, on ext4, the journal next to it.
const SYNC_BYTES: u64 = 8 * 1024 * 1024;

const _: () = assert!(SNAPSHOT_BLOCK_BYTES_MAX < FOOTER_LENGTH as usize);

/// Which snapshot: of what, and how much of its log it contains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SnapshotId {
    /// The partition.
    pub partition: PartitionId,
    /// The last position whose entry the snapshot contains.
    pub position: Position,
}

impl SnapshotId {
    fn name(self) -> String {
        let (partition, position) = (self.partition, self.position);
        format!("{PREFIX}{:08x}-{:04x}-{:016x}", partition.bucket.0, partition.index, position.0)
    }

    fn parse(name: &str) -> Option<SnapshotId> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let bucket = BucketId(u32::from_str_radix(parts.next()?, 16).ok()?);
        let index = u16::from_str_radix(parts.next()?, 16).ok()?;
        let position = Position(u64::from_str_radix(parts.next()?, 16).ok()?);
        let id = SnapshotId { partition: PartitionId { bucket, index }, position };
        (id.name() == name).then_some(id)
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.partition, self.position)
    }
}

/// Why a snapshot cannot be read.
#[derive(Debug)]
pub enum SnapshotError {
    /// There is none.
    Missing,
    /// Its bytes are not what was written.
    Damaged {
        /// Where in the file, in bytes, the part begins that cannot be believed.
        offset: u64,
        /// What is wrong there.
        reason: &'static str,
    },
    /// Another version of Dictum wrote it.
    UnknownVersion(u32),
    /// The disk failed.
    Io(io::Error),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Missing => write!(f, "there is no such snapshot"),
            SnapshotError::Damaged { offset, reason } => {
                write!(f, "the snapshot is damaged at byte {offset}: {reason}")
            }
            SnapshotError::UnknownVersion(version) => {
                write!(f, "the snapshot was written by another version of Dictum (format {version})")
            }
            SnapshotError::Io(error) => write!(f, "the snapshot's disk failed: {error}"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> SnapshotError {
        if error.kind() == io::ErrorKind::NotFound { SnapshotError::Missing } else { SnapshotError::Io(error) }
    }
}

/// A snapshot being written. Dropped unfinished, it leaves at most a temporary file behind.
#[derive(Debug)]
pub struct SnapshotWriter<D: Disk> {
    disk: D,
    id: SnapshotId,
    file: D::File,
    offset: u64,
    synced: u64,
    blocks: u64,
}

impl<D: Disk> SnapshotWriter<D> {
    /// Begins a snapshot. `header` is the caller's, and comes back from [`SnapshotReader::header`]. At most one
    /// writer per `id` at a time.
    ///
    /// # Errors
    /// `InvalidInput` if the header is longer than [`SNAPSHOT_HEADER_BYTES_MAX`]; whatever the disk says.
    pub fn create(disk: &D, id: SnapshotId, header: &[u8]) -> io::Result<SnapshotWriter<D>> {
        if header.len() > SNAPSHOT_HEADER_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a snapshot header of more than a mebibyte"));
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + header.len() + 4);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&id.partition.bucket.0.to_le_bytes());
        bytes.extend_from_slice(&u32::from(id.partition.index).to_le_bytes());
        bytes.extend_from_slice(&id.position.0.to_le_bytes());
        bytes.extend_from_slice(header);
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        let file = disk.create(&format!("{}{UNFINISHED_SUFFIX}", id.name()), 0)?;
        let mut writer = SnapshotWriter { disk: disk.clone(), id, file, offset: 0, synced: 0, blocks: 0 };
        writer.put(&bytes)?;
        Ok(writer)
    }

    /// Appends a block. Blocks come back one by one, as they were appended; an empty one is a block too.
    ///
    /// # Errors
    /// `InvalidInput` if it is longer than `SNAPSHOT_BLOCK_BYTES_MAX`; whatever the disk says. After an error give
    /// the snapshot up.
    pub fn append(&mut self, block: &[u8]) -> io::Result<()> {
        if block.len() > SNAPSHOT_BLOCK_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a snapshot block beyond the limit"));
        }
        let mut bytes = vec![0; BLOCK_HEADER_BYTES + block.len()];
        bytes[4..8].copy_from_slice(&(block.len() as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[BLOCK_HEADER_BYTES..].copy_from_slice(block);
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        self.put(&bytes)?;
        self.blocks += 1;
        if self.offset - self.synced >= SYNC_BYTES {
            self.file.sync()?;
            self.synced = self.offset;
        }
        Ok(())
    }

    /// Bytes written so far.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.offset
    }

    /// Completes the snapshot. It is durable, and listed, on return; an older one of the same `id` is replaced.
    ///
    /// # Errors
    /// Whatever the disk says; the snapshot is then not to be relied on.
    pub fn finish(mut self) -> io::Result<()> {
        let mut footer = [0; BLOCK_HEADER_BYTES];
        footer[4..8].copy_from_slice(&FOOTER_LENGTH.to_le_bytes());
        footer[8..16].copy_from_slice(&self.blocks.to_le_bytes());
        let crc = crc32c(&footer[4..]);
        footer[..4].copy_from_slice(&crc.to_le_bytes());
        self.put(&footer)?;
        self.file.sync()?;
        let name = self.id.name();
        self.disk.rename(&format!("{name}{UNFINISHED_SUFFIX}"), &name)?;
        self.disk.sync_folder()
    }

    /// Gives the snapshot up and its space back.
    ///
    /// # Errors
    /// Whatever the disk says; [`remove_unfinished_snapshots`] will try again.
    pub fn abandon(self) -> io::Result<()> {
        self.disk.remove(&format!("{}{UNFINISHED_SUFFIX}", self.id.name()))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(self.offset, bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

/// A snapshot being read.
#[derive(Debug)]
pub struct SnapshotReader<F: DiskFile> {
    file: F,
    id: SnapshotId,
    header: Vec<u8>,
    length: u64,
    offset: u64,
    blocks: u64,
    ended: bool,
}

impl<F: DiskFile> SnapshotReader<F> {
    /// Opens a snapshot and checks its header.
    ///
    /// # Errors
    /// See [`SnapshotError`].
    pub fn open<D: Disk<File = F>>(disk: &D, id: SnapshotId) -> Result<SnapshotReader<F>, SnapshotError> {
        let reader = SnapshotReader::from_file(disk.open(&id.name())?)?;
        if reader.id == id {
            Ok(reader)
        } else {
            Err(SnapshotError::Damaged { offset: 0, reason: "the header is of another snapshot" })
        }
    }

    /// Reads any file as a snapshot, whatever is in it.
    ///
    /// # Errors
    /// See [`SnapshotError`].
    pub fn from_file(file: F) -> Result<SnapshotReader<F>, SnapshotError> {
        let damaged = |reason| SnapshotError::Damaged { offset: 0, reason };
        let length = file.length()?;
        let mut fixed = [0; HEADER_BYTES];
        if length < (HEADER_BYTES + 4) as u64 {
            return Err(damaged("the file is shorter than a header"));
        }
        file.read_at(0, &mut fixed)?;
        if fixed[..8] != *MAGIC {
            return Err(damaged("the file does not begin like a snapshot"));
        }
        let opaque_bytes = u32_at(&fixed, 12) as usize;
        if opaque_bytes > SNAPSHOT_HEADER_BYTES_MAX || length < (HEADER_BYTES + opaque_bytes + 4) as u64 {
            return Err(damaged("the header's length is wrong"));
        }
        let mut bytes = vec![0; HEADER_BYTES + opaque_bytes + 4];
        file.read_at(0, &mut bytes)?;
        let covered = HEADER_BYTES + opaque_bytes;
        if crc32c(&bytes[..covered]) != u32_at(&bytes, covered) {
            return Err(damaged("the header's checksum is wrong"));
        }
        let version = u32_at(&fixed, 8);
        if version != VERSION {
            return Err(SnapshotError::UnknownVersion(version));
        }
        let Ok(index) = u16::try_from(u32_at(&fixed, 20)) else {
            return Err(damaged("the header's partition is impossible"));
        };
        let partition = PartitionId { bucket: BucketId(u32_at(&fixed, 16)), index };
        let id = SnapshotId { partition, position: Position(u64_at(&fixed, 24)) };
        let header = bytes[HEADER_BYTES..covered].to_vec();
        Ok(SnapshotReader { file, id, header, length, offset: (covered + 4) as u64, blocks: 0, ended: false })
    }

    /// Which snapshot it is.
    #[must_use]
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// The header that the writer was given.
    #[must_use]
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Length of the file, in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.length
    }

    /// The next block; `None` behind the last one, once the footer has shown that none is missing.
    ///
    /// # Errors
    /// See [`SnapshotError`]. Nothing read before is to be used if the end is never reached.
    pub fn next_block(&mut self) -> Result<Option<Bytes>, SnapshotError> {
        if self.ended {
            return Ok(None);
        }
        let offset = self.offset;
        let damaged = |reason| SnapshotError::Damaged { offset, reason };
        let rest = self.length.saturating_sub(offset);
        if rest < BLOCK_HEADER_BYTES as u64 {
            return Err(damaged("the file ends before its footer"));
        }
        let mut fixed = [0; BLOCK_HEADER_BYTES];
        self.file.read_at(offset, &mut fixed)?;
        let (crc, length, index) = (u32_at(&fixed, 0), u32_at(&fixed, 4), u64_at(&fixed, 8));
        if length == FOOTER_LENGTH {
            if crc32c(&fixed[4..]) != crc {
                return Err(damaged("the footer's checksum is wrong"));
            }
            if index != self.blocks {
                return Err(damaged("the footer counts another number of blocks"));
            }
            if rest != BLOCK_HEADER_BYTES as u64 {
                return Err(damaged("something follows the footer"));
            }
            self.ended = true;
            return Ok(None);
        }
        let whole = BLOCK_HEADER_BYTES as u64 + u64::from(length);
        if length as usize > SNAPSHOT_BLOCK_BYTES_MAX || whole > rest {
            return Err(damaged("the block's length is wrong"));
        }
        let mut bytes = vec![0; whole as usize];
        self.file.read_at(offset, &mut bytes)?;
        if crc32c(&bytes[4..]) != u32_at(&bytes, 0) {
            return Err(damaged("the block's checksum is wrong"));
        }
        if index != self.blocks {
            return Err(damaged("the block is out of its order"));
        }
        self.blocks += 1;
        self.offset += whole;
        Ok(Some(Bytes::from(bytes).slice(BLOCK_HEADER_BYTES..)))
    }
}

/// Reads bytes as a snapshot, whatever they are: its identity, header and blocks.
///
/// # Errors
/// See [`SnapshotError`].
pub fn decode(bytes: Bytes) -> Result<(SnapshotId, Vec<u8>, Vec<Bytes>), SnapshotError> {
    let mut reader = SnapshotReader::from_file(BytesFile(bytes))?;
    let mut blocks = Vec::new();
    while let Some(block) = reader.next_block()? {
        blocks.push(block);
    }
    Ok((reader.id, reader.header, blocks))
}

/// All finished snapshots, by partition and then by position, ascending.
///
/// # Errors
/// Whatever the disk says.
pub fn list_snapshots<D: Disk>(disk: &D) -> io::Result<Vec<SnapshotId>> {
    let mut found: Vec<SnapshotId> = disk.list()?.iter().filter_map(|name| SnapshotId::parse(name)).collect();
    found.sort();
    Ok(found)
}

/// Removes a finished snapshot; none is no error. If the node crashes soon after, it may be back.
///
/// # Errors
/// Whatever the disk says.
pub fn remove_snapshot<D: Disk>(disk: &D, id: SnapshotId) -> io::Result<()> {
    match disk.remove(&id.name()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes what unfinished snapshots left behind. To be called when no [`SnapshotWriter`] is open, as at start.
///
/// # Errors
/// Whatever the disk says.
pub fn remove_unfinished_snapshots<D: Disk>(disk: &D) -> io::Result<()> {
    for name in disk.list()? {
        if name.strip_suffix(UNFINISHED_SUFFIX).is_some_and(|name| SnapshotId::parse(name).is_some()) {
            disk.remove(&name)?;
        }
    }
    Ok(())
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes were cut out"))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes were cut out"))
}
