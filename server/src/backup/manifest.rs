//! The table of contents of a backup: `manifest.json`, written when all else is on the disk.

use std::path::Path;

use base::checksum::crc32c;
use base::{BucketId, PartitionId, Position};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use storage::disk::write_atomically;
use storage::{Disk, DiskFile, SnapshotId};

use crate::bucket::BucketInfo;

/// Its name. A folder without it is no backup, or one that was broken off.
pub(super) const NAME: &str = "manifest.json";
/// The version of what stands in it.
const FORMAT: u32 = 1;
/// That of one that builds on an earlier backup.
const FORMAT_WITH_BASE: u32 = 2;
/// Longest manifest that is read, in bytes.
const BYTES_MAX: u64 = 64 << 20;

/// See the file's head.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The version of the manifest.
    pub format: u32,
    /// The Dictum that made the backup.
    pub dictum: String,
    /// When it began, by the clock of the machine where it was made, in milliseconds since 1970.
    pub began_ms: u64,
    /// The number of the cluster ([`crate::status::ClusterStatus::id`]); empty if it was not told.
    #[serde(default)]
    pub cluster: String,
    /// The backup that it builds on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    pub buckets: Vec<Bucket>,
    /// The checksum of its text, once it was written or read. A backup that builds on this one names it.
    #[serde(skip)]
    pub crc32c: String,
}

/// The backup on which another one builds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Base {
    /// Its folder: beside this one if it is a name without a slash, else from the root on.
    pub folder: String,
    /// The checksum of its manifest.
    pub crc32c: String,
}

/// A bucket with all its partitions, by their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Bucket {
    pub bucket: BucketInfo,
    pub partitions: Vec<Partition>,
}

/// The state of one partition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Partition {
    /// How much of its log it has.
    pub position: u64,
    /// The changes that led there.
    pub revision: u64,
    pub keys: u64,
    /// The time of the log there, in milliseconds since 1970.
    pub time_ms: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// XXH3 of all blocks, chained, in hexadecimal.
    pub digest: String,
    /// The file has what has changed since the partition had this revision: it builds on that of the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
}

/// The manifest with a checksum over its text.
#[derive(Serialize, Deserialize)]
struct Sealed {
    crc32c: String,
    manifest: Box<RawValue>,
}

fn checksum(text: &str) -> String {
    format!("{:08x}", crc32c(text.as_bytes()))
}

/// True if a folder says that it is a backup.
pub(crate) fn is_backup(dir: &Path) -> bool {
    dir.join(NAME).is_file()
}

impl Manifest {
    pub(super) fn new(began_ms: u64) -> Manifest {
        let dictum = env!("CARGO_PKG_VERSION").to_owned();
        let (cluster, crc32c) = (String::new(), String::new());
        Manifest { format: FORMAT, dictum, began_ms, cluster, base: None, buckets: Vec::new(), crc32c }
    }

    /// Notes the backup that it builds on.
    pub(super) fn build_on(&mut self, base: Base) {
        (self.format, self.base) = (FORMAT_WITH_BASE, Some(base));
    }

    /// A bucket of that number.
    pub(super) fn bucket(&self, id: u64) -> Option<&Bucket> {
        self.buckets.iter().find(|it| it.bucket.id == id)
    }

    /// Writes it; it is durable on return.
    pub(super) fn write(&mut self, disk: &impl Disk) -> Result<(), String> {
        let manifest = serde_json::value::to_raw_value(self).expect("plain fields become JSON");
        self.crc32c = checksum(manifest.get());
        let sealed = Sealed { crc32c: self.crc32c.clone(), manifest };
        let text = serde_json::to_string(&sealed).expect("plain fields become JSON") + "\n";
        write_atomically(disk, NAME, text.as_bytes()).map_err(|error| format!("{NAME} cannot be written: {error}"))
    }

    /// Reads it. An error says what is wrong, and what may be done.
    pub(super) fn read(disk: &impl Disk) -> Result<Manifest, String> {
        let file = disk.open(NAME).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("there is no {NAME}: it is no backup, or one that was broken off before its end")
            }
            _ => format!("{NAME} cannot be read: {error}"),
        })?;
        let failed = |error| format!("{NAME} cannot be read: {error}");
        let length = file.length().map_err(failed)?;
        if length > BYTES_MAX {
            return Err(format!("{NAME} is damaged: it has {length} bytes"));
        }
        let mut bytes = vec![0; usize::try_from(length).expect("it is below the bound")];
        file.read_at(0, &mut bytes).map_err(failed)?;
        Manifest::decode(&bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Manifest, String> {
        let damaged = |why: &str| format!("{NAME} is damaged: {why}");
        let sealed: Sealed = serde_json::from_slice(bytes).map_err(|error| damaged(&error.to_string()))?;
        if checksum(sealed.manifest.get()) != sealed.crc32c {
            return Err(damaged("its checksum is another one"));
        }
        /// The field that all versions have.
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let text = sealed.manifest.get();
        let Format { format } = serde_json::from_str(text).map_err(|error| damaged(&error.to_string()))?;
        if !(FORMAT..=FORMAT_WITH_BASE).contains(&format) {
            return Err(format!(
                "the backup was made by a later Dictum (format {format}): read it by one of that version"
            ));
        }
        let read: Manifest = serde_json::from_str(text).map_err(|error| damaged(&error.to_string()))?;
        Ok(Manifest { crc32c: sealed.crc32c, ..read })
    }
}

impl Bucket {
    /// The file of a partition.
    pub(super) fn file_of(&self, index: usize) -> Result<SnapshotId, String> {
        let strange = || format!("{NAME} names a partition that cannot be: {index} of bucket {}", self.bucket.name);
        let bucket = BucketId(u32::try_from(self.bucket.id).map_err(|_| strange())?);
        let partition = PartitionId { bucket, index: u16::try_from(index).map_err(|_| strange())? };
        Ok(SnapshotId { partition, position: Position(self.partitions.get(index).ok_or_else(strange)?.position) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_byte_is_found() {
        let dir = tempfile::tempdir().expect("a folder");
        let disk = storage::Files::open(dir.path()).expect("it is empty");
        let digest = "ab".to_owned();
        let partition = Partition { position: 7, revision: 5, keys: 3, time_ms: 9, bytes: 11, digest, since: Some(3) };
        let bucket = BucketInfo { name: "users".to_owned(), id: 4, partitions: 1, ..BucketInfo::default() };
        let mut manifest = Manifest::new(17);
        manifest.buckets.push(Bucket { bucket, partitions: vec![partition] });
        manifest.build_on(Base { folder: "sunday".to_owned(), crc32c: "00".to_owned() });
        assert!(Manifest::read(&disk).is_err_and(|text| text.contains("broken off")));
        manifest.write(&disk).expect("it is written");
        assert_eq!(Manifest::read(&disk).as_ref(), Ok(&manifest));
        assert!(is_backup(dir.path()));
        let bytes = std::fs::read(dir.path().join(NAME)).expect("a file");
        for place in 0..bytes.len() - 1 {
            let mut other = bytes.clone();
            other[place] ^= 1;
            assert!(Manifest::decode(&other).is_err(), "{place}: {}", String::from_utf8_lossy(&other));
            assert!(Manifest::decode(&bytes[..place]).is_err(), "{place}");
        }
    }
}
