//! The folder of one node, as small a view of it as the rest of this crate can live with.
//!
//! What a crash may do to it, and therefore what an implementation may simulate:
//! - bytes written and not yet synced: each 4 KiB block of them, on its own, is as before or as written;
//! - a file created, renamed or removed and the folder not yet synced: happened or did not;
//! - nothing that was synced with success is lost (bit rot aside, which every format here detects).

use std::io;

/// The flat folder of one node. Clones are further handles on the same folder.
///
/// Names are those that this crate makes: lower-case ASCII letters, digits, `-` and `.`.
pub trait Disk: Clone + Send + 'static {
    /// An open file of the folder.
    type File: DiskFile;

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` if there is none; whatever else the disk says.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Opens an existing file that will only be written in whole 4 KiB blocks at multiples of 4 KiB from memory that
    /// is aligned alike, each write followed by a sync. An implementation may use that (`O_DIRECT | O_DSYNC`).
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn open_for_blocks(&self, name: &str) -> io::Result<Self::File> {
        self.open(name)
    }

    /// Creates a file of `bytes` zero bytes whose space is really taken, replacing any file of that name.
    ///
    /// Durable after [`DiskFile::sync`] and [`Disk::sync_folder`].
    ///
    /// # Errors
    /// `StorageFull` (or `QuotaExceeded`) if there is no room; the partial file is then gone or removable.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Self::File>;

    /// Removes a file. Durable after [`Disk::sync_folder`].
    ///
    /// # Errors
    /// `NotFound` if there is none; whatever else the disk says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Gives a file another name, atomically replacing any file of that name. Durable after [`Disk::sync_folder`].
    ///
    /// # Errors
    /// `NotFound` if there is none; whatever else the disk says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// The names of all files, sorted.
    ///
    /// # Errors
    /// Whatever the disk says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes every creation, renaming and removal before it durable.
    ///
    /// # Errors
    /// Whatever the disk says; it must not be retried, because what the disk then holds is unknown.
    fn sync_folder(&self) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send + 'static {
    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before; whatever else the disk says.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`; behind the end the file grows. Durable after [`DiskFile::sync`].
    ///
    /// # Errors
    /// Whatever the disk says; any part of the bytes may then have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// The file's length, in bytes.
    ///
    /// # Errors
    /// Whatever the disk says.
    fn length(&self) -> io::Result<u64>;

    /// Makes the file's bytes and length durable (`fdatasync`).
    ///
    /// # Errors
    /// Whatever the disk says; it must not be retried, because what the disk then holds is unknown.
    fn sync(&self) -> io::Result<()>;
}

/// Whether an error means "no room" and nothing worse.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether an error means that no further file can be opened now, which is no fault of the disk.
#[must_use]
pub fn is_out_of_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let codes = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Replaces the file `name` by `bytes`, so that a crash leaves the old or the new one whole. Durable on return.
///
/// # Errors
/// Whatever the disk says; the old file is then still there, or the new one is.
pub fn write_atomically<D: Disk>(disk: &D, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = format!("{name}.tmp");
    let write = || {
        let file = disk.create(&unfinished, 0)?;
        file.write_at(0, bytes)?;
        file.sync()
    };
    if let Err(error) = write() {
        // Best effort: the space may be needed, and the write's error is the one worth telling.
        let _ = disk.remove(&unfinished);
        return Err(error);
    }
    disk.rename(&unfinished, name)?;
    disk.sync_folder()
}

/// Bytes in memory that read like a file, for decoders that want one. Cannot be written.
#[derive(Clone, Debug)]
pub struct BytesFile(pub bytes::Bytes);

impl DiskFile for BytesFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let found = usize::try_from(offset)
            .ok()
            .and_then(|start| self.0.get(start..start.checked_add(buffer.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
