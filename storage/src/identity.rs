//! Who lives in this folder: a small file, replaced atomically.
//!
//! The identity is stored after the journal was first opened. So an identity next to a journal that
//! [`Recovered::fresh`](crate::Recovered::fresh) calls new means that the journal was lost, not that the node is new.

use std::io;

use base::checksum::crc32c;

use crate::disk::{Disk, DiskFile, write_atomically};

/// The file's name; a folder with it is a node's.
pub const IDENTITY_NAME: &str = "identity";
const MAGIC: &[u8; 8] = b"DICTNODE";
const VERSION: u32 = 1;
/// Longest identity file, in bytes: a limit for reading, and for what may be stored.
const IDENTITY_BYTES_MAX: usize = 1024 * 1024;
/// Everything but the name and the opaque bytes.
const FIXED_BYTES: usize = 8 + 4 + 8 + 8 + 4 + 4 + 4;

/// What a node must know about itself before it may speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Stands for the cluster, so that a node does not join another one by mistake.
    pub cluster: u64,
    /// Counts the node's lives with an empty folder, from 1.
    pub incarnation: u64,
    /// The node's name in the cluster.
    pub name: String,
    /// Whatever else the caller wants kept with it.
    pub opaque: Vec<u8>,
}

/// What was found where the identity should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadedIdentity {
    /// No file: a new folder.
    Missing,
    /// A file that cannot be believed; the text says why.
    Damaged(&'static str),
    /// A whole one.
    Found(Identity),
}

impl Identity {
    /// Replaces the stored identity. Durable on return.
    ///
    /// # Errors
    /// `InvalidInput` if name and opaque bytes together are about a mebibyte or longer; whatever the disk says.
    pub fn store<D: Disk>(&self, disk: &D) -> io::Result<()> {
        if self.name.len() + self.opaque.len() + FIXED_BYTES > IDENTITY_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "an identity of more than a mebibyte"));
        }
        write_atomically(disk, IDENTITY_NAME, &self.encode())
    }

    /// Reads the stored identity.
    ///
    /// # Errors
    /// Whatever the disk says; damage is not an error but an answer.
    pub fn load<D: Disk>(disk: &D) -> io::Result<LoadedIdentity> {
        let file = match disk.open(IDENTITY_NAME) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LoadedIdentity::Missing),
            Err(error) => return Err(error),
        };
        let length = file.length()?;
        if length > IDENTITY_BYTES_MAX as u64 {
            return Ok(LoadedIdentity::Damaged("the identity file is too long"));
        }
        let mut bytes = vec![0; length as usize];
        file.read_at(0, &mut bytes)?;
        Ok(Identity::decode(&bytes))
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.name.len() + self.opaque.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.cluster.to_le_bytes());
        bytes.extend_from_slice(&self.incarnation.to_le_bytes());
        bytes.extend_from_slice(&(self.name.len() as u32).to_le_bytes());
        bytes.extend_from_slice(self.name.as_bytes());
        bytes.extend_from_slice(&(self.opaque.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.opaque);
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Reads an identity file's bytes, whatever they are. Never answers `Missing`.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> LoadedIdentity {
        let Some((covered, crc)) = bytes.split_last_chunk::<4>() else {
            return LoadedIdentity::Damaged("the identity file is too short");
        };
        if crc32c(covered) != u32::from_le_bytes(*crc) {
            return LoadedIdentity::Damaged("the identity file's checksum is wrong");
        }
        let mut rest = covered;
        let fields = || -> Option<Result<Identity, &'static str>> {
            if take::<8>(&mut rest)? != MAGIC {
                return Some(Err("the identity file is something else"));
            }
            if u32::from_le_bytes(*take(&mut rest)?) != VERSION {
                return Some(Err("the identity file was written by another version of Dictum"));
            }
            let cluster = u64::from_le_bytes(*take(&mut rest)?);
            let incarnation = u64::from_le_bytes(*take(&mut rest)?);
            let Ok(name) = String::from_utf8(take_counted(&mut rest)?.to_vec()) else {
                return Some(Err("the identity file's name is not text"));
            };
            let opaque = take_counted(&mut rest)?.to_vec();
            rest.is_empty().then_some(Ok(Identity { cluster, incarnation, name, opaque }))
        }();
        match fields {
            Some(Ok(identity)) => LoadedIdentity::Found(identity),
            Some(Err(reason)) => LoadedIdentity::Damaged(reason),
            None => LoadedIdentity::Damaged("the identity file's lengths are wrong"),
        }
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(taken)
}

fn take_counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(*take(rest)?) as usize;
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}
