//! The folder of a node in the real file system. The only file of this crate that touches `std::fs`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the one place of this room that touches files"
)]

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::disk::{Disk, DiskFile};
use crate::identity::IDENTITY_NAME;
use crate::journal::BLOCK_BYTES;

/// The file whose lock says that a process uses the folder; it holds that process's id in decimal.
pub const LOCK_NAME: &str = "LOCK";
/// Zeros are written in pieces of this size.
const ZERO_CHUNK_BYTES: usize = 1024 * 1024;
/// While a large file is zero-filled it is synced this often: one sync of all of it would hold up, on ext4, every
/// `fdatasync` of the journal next to it.
const ZERO_SYNC_BYTES: u64 = 8 * 1024 * 1024;
/// Linux's `O_DIRECT` and `O_DSYNC` where they have these values; elsewhere the option is quietly off.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "x86")))]
const DIRECT_FLAGS: Option<i32> = Some(0o40000 | 0o10000);
#[cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "arm")))]
const DIRECT_FLAGS: Option<i32> = Some(0o200_000 | 0o10000);
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64", target_arch = "arm")
)))]
const DIRECT_FLAGS: Option<i32> = None;

/// Flags for every file that is opened by a fixed name: a symbolic link of that name, which another user may have put there, is not followed.
const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits() as i32;
/// Permissions of a new folder.
const FOLDER_MODE: u32 = 0o700;
/// Permissions of new files, as far as the process's umask allows them: a group that the folder lets in may read.
const FILE_MODE: u32 = 0o640;
/// Those of the lock, which is made before it is known whose the folder is.
const LOCK_MODE: u32 = 0o600;

/// For reading and writing a file of a folder of ours, which `create` options may be added to. It does not follow a symbolic link, and makes no
/// file that other users can read.
#[must_use]
pub fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE).custom_flags(NO_FOLLOW);
    options
}

/// Makes a folder that only its owner can enter, and those above it as usual. One that is there stays as it is.
///
/// # Errors
/// Those of the file system.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Says of a file that was not opened because it is a symbolic link that it is one.
#[must_use]
pub fn explain_link(name: &str, error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(Errno::LOOP.raw_os_error()) {
        return error;
    }
    io::Error::new(
        error.kind(),
        format!("{name} is a symbolic link, and is not followed; see who put it there, and remove it"),
    )
}

/// A node's folder, locked for this process until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Files {
    folder: Arc<Folder>,
    direct: bool,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Held for its lock.
    _lock: File,
}

/// Why a folder cannot be used. The text says what to do about it.
#[derive(Debug)]
pub enum FolderError {
    /// Another process has it.
    InUse {
        /// The folder.
        folder: PathBuf,
        /// The process that has it, if its lock file says so.
        process: Option<u32>,
    },
    /// It holds things that no node put there, and no node's identity.
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// One of the things found.
        found: String,
    },
    /// The file system refused.
    Io {
        /// The folder.
        folder: PathBuf,
        /// What it said.
        error: io::Error,
    },
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderError::InUse { folder, process: Some(process) } => write!(
                f,
                "{} is in use by process {process}; stop that process or choose another folder",
                folder.display()
            ),
            FolderError::InUse { folder, process: None } => {
                write!(f, "{} is in use by another process; stop it or choose another folder", folder.display())
            }
            FolderError::Foreign { folder, found } => write!(
                f,
                "{} is not a Dictum node's folder: it holds {found:?} and no identity file; choose an empty or a new \
                 folder",
                folder.display()
            ),
            FolderError::Io { folder, error } => {
                write!(f, "{} cannot be used: {error}; check that it exists and may be written", folder.display())
            }
        }
    }
}

impl std::error::Error for FolderError {}

impl Files {
    /// Creates the folder if it is missing, checks that it is a node's (or empty), and locks it.
    ///
    /// A folder that is refused is left as it was.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Files, FolderError> {
        let path = path.as_ref();
        let io_error = |error| FolderError::Io { folder: path.to_path_buf(), error };
        create_private_folder(path).map_err(io_error)?;
        refuse_foreign(path)?;
        let lock = private_file().mode(LOCK_MODE).create(true).truncate(false).open(path.join(LOCK_NAME));
        let mut lock = lock.map_err(|error| io_error(explain_link(LOCK_NAME, error)))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let process = lock.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(FolderError::InUse { folder: path.to_path_buf(), process });
            }
            Err(TryLockError::Error(error)) => return Err(io_error(error)),
        }
        let process = format!("{}\n", std::process::id());
        lock.set_len(0).and_then(|()| lock.write_all_at(process.as_bytes(), 0)).map_err(io_error)?;
        let folder = Folder { path: path.to_path_buf(), _lock: lock };
        Ok(Files { folder: Arc::new(folder), direct: false })
    }

    /// Writes journal frames past the page cache, each write durable by itself (`O_DIRECT | O_DSYNC`), where the
    /// platform and the file system allow it; elsewhere frames go the usual way.
    #[must_use]
    pub fn with_direct_writes(self, direct: bool) -> Files {
        Files { direct, ..self }
    }

    /// The folder's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder.path
    }

    fn join(&self, name: &str) -> PathBuf {
        self.folder.path.join(name)
    }
}

/// Fails if the folder holds anything that is not ours, unless an identity proves that a node lives there.
fn refuse_foreign(path: &Path) -> Result<(), FolderError> {
    let io_error = |error| FolderError::Io { folder: path.to_path_buf(), error };
    let mut foreign = None;
    for entry in fs::read_dir(path).map_err(io_error)? {
        let name = entry.map_err(io_error)?.file_name().to_string_lossy().into_owned();
        if name == IDENTITY_NAME {
            return Ok(());
        }
        // A first start that was cut short leaves a lock, a journal and a key without an identity; that is still ours. The
        // root of a freshly made file system has lost+found.
        let ours = name == LOCK_NAME
            || name == "lost+found"
            || ["journal-", "snapshot-", "identity.", "node.key"].iter().any(|prefix| name.starts_with(prefix));
        if !ours && foreign.as_ref().is_none_or(|found| name < *found) {
            foreign = Some(name);
        }
    }
    match foreign {
        Some(found) => Err(FolderError::Foreign { folder: path.to_path_buf(), found }),
        None => Ok(()),
    }
}

/// Whether a file opened with `O_DIRECT` takes single blocks of ours: a disk with larger sectors does not, and some file
/// systems refuse only when they are used.
fn takes_blocks(file: &File) -> bool {
    let mut space = [0; 2 * BLOCK_BYTES];
    let start = space.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
    file.read_exact_at(&mut space[start..start + BLOCK_BYTES], 0).is_ok()
}

impl Disk for Files {
    type File = RealFile;

    fn open(&self, name: &str) -> io::Result<RealFile> {
        let file = private_file().open(self.join(name)).map_err(|error| explain_link(name, error))?;
        Ok(RealFile { file, synced_by_write: false })
    }

    fn open_for_blocks(&self, name: &str) -> io::Result<RealFile> {
        if self.direct
            && let Some(flags) = DIRECT_FLAGS
            && let Ok(file) = private_file().custom_flags(flags | NO_FOLLOW).open(self.join(name))
            && takes_blocks(&file)
        {
            return Ok(RealFile { file, synced_by_write: true });
        }
        self.open(name)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<RealFile> {
        let made = private_file().create(true).truncate(true).open(self.join(name));
        let file = made.map_err(|error| explain_link(name, error))?;
        let fill = || {
            let zeros = vec![0; ZERO_CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(ZERO_CHUNK_BYTES))];
            let mut written = 0;
            while written < bytes {
                let chunk = (bytes - written).min(zeros.len() as u64);
                file.write_all_at(&zeros[..chunk as usize], written)?;
                written += chunk;
                if written % ZERO_SYNC_BYTES == 0 {
                    file.sync_data()?;
                }
            }
            Ok(())
        };
        if let Err(error) = fill() {
            // The reason to fail is mostly that the disk is full: do not keep what is left of it occupied.
            let _ = fs::remove_file(self.join(name));
            return Err(error);
        }
        Ok(RealFile { file, synced_by_write: false })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.join(from), self.join(to))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder.path)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.folder.path)?.sync_all()
    }
}

/// A file of the real file system.
#[derive(Debug)]
pub struct RealFile {
    file: File,
    /// Opened with `O_DSYNC`: a write that returned is durable, and a sync would be a wasted system call.
    synced_by_write: bool,
}

impl DiskFile for RealFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        if self.synced_by_write { Ok(()) } else { self.file.sync_data() }
    }
}
