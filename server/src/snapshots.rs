//! Snapshots on disk: written on a thread of their own while the node goes on, read back at the start.

use std::io;

use base::PartitionId;
use base::ordered::OrderedWrite;
use bytes::Bytes;
use node::{Image, RecoveredSnapshot, Restorer, SnapshotContent, SnapshotJob};
use storage::{
    CachedStore, Disk, LsmStore, SnapshotError, SnapshotId, SnapshotReader, SnapshotWriter, list_snapshots,
    remove_snapshot, remove_unfinished_snapshots,
};

use crate::{caches, log};

/// Finished snapshots that stay: the newest, and the one before in case the newest turns out to be damaged.
const KEPT: usize = 2;

/// Brings the state of a moment to disk, durably.
///
/// # Errors
/// Whatever the disk says.
pub(crate) fn save<D: Disk>(disk: &D, store: Option<&CachedStore<LsmStore>>, job: SnapshotJob) -> io::Result<()> {
    match (job.content, store) {
        (SnapshotContent::File { header, image }, _) => {
            write(disk, SnapshotId { partition: job.partition, position: job.position }, &header, *image)
        }
        (SnapshotContent::Store(flush), Some(store)) => {
            let applied = flush.into_batch().and_then(|batch| {
                caches::assign_written(store, job.partition, &batch);
                store.apply(&batch)
            });
            applied.and_then(|()| store.sync()).map_err(|error| match error.full {
                true => io::Error::new(io::ErrorKind::StorageFull, error),
                false => io::Error::other(error),
            })?;
            remove_all(disk, job.partition);
            Ok(())
        }
        (SnapshotContent::Store(_), None) => Err(io::Error::other("this node was started without a store")),
    }
}

/// Writes the snapshot and syncs it, then removes those that are not needed any more.
///
/// # Errors
/// Whatever the disk says; nothing of the unfinished snapshot is left then, if the disk lets us.
fn write<D: Disk>(disk: &D, id: SnapshotId, header: &[u8], mut image: Image) -> io::Result<()> {
    let mut writer = SnapshotWriter::create(disk, id, header)?;
    let mut block = Vec::new();
    while image.next_block(&mut block) {
        if let Err(error) = writer.append(&block) {
            let _ = writer.abandon();
            return Err(error);
        }
    }
    writer.finish()?;
    remove_old(disk);
    Ok(())
}

/// A state that is in the store now was in snapshots before, in a folder that is older than the store.
fn remove_all<D: Disk>(disk: &D, partition: PartitionId) {
    let removed = list_snapshots(disk).and_then(|found| {
        found.into_iter().filter(|id| id.partition == partition).try_for_each(|id| remove_snapshot(disk, id))
    });
    if let Err(error) = removed {
        log::warning(&format!("a snapshot that is not needed any more cannot be removed: {error}"));
    }
}

/// Keeps the newest finished snapshots. What cannot be removed now is tried again after the next one.
fn remove_old<D: Disk>(disk: &D) {
    let removed = list_snapshots(disk).and_then(|found| {
        let newer = |id: SnapshotId| found.iter().filter(|it| it.partition == id.partition && **it > id).count();
        found.iter().filter(|id| newer(**id) >= KEPT).try_for_each(|id| remove_snapshot(disk, *id))
    });
    if let Err(error) = removed {
        log::warning(&format!("an old snapshot cannot be removed: {error}; its space stays taken until the next one"));
    }
}

/// Of each partition the newest snapshot that can be read, and whether a newer one was there that cannot.
///
/// # Errors
/// Whatever the disk says where it is to list or remove; a snapshot that is damaged or cannot be read is no error. A snapshot of another version of Dictum is one (`Unsupported`).
pub(crate) fn load<D: Disk>(disk: &D) -> io::Result<(Vec<RecoveredSnapshot>, bool)> {
    remove_unfinished_snapshots(disk)?;
    find(disk)
}

/// The same, with nothing removed.
///
/// # Errors
/// As [`load`]'s.
pub(crate) fn find<D: Disk>(disk: &D) -> io::Result<(Vec<RecoveredSnapshot>, bool)> {
    let mut damaged = false;
    let mut found: Vec<RecoveredSnapshot> = Vec::new();
    for id in list_snapshots(disk)?.into_iter().rev() {
        if found.iter().any(|newer| newer.partition == id.partition) {
            continue;
        }
        match read(disk, id) {
            Ok(snapshot) => found.push(snapshot),
            Err(error @ SnapshotError::UnknownVersion(_)) => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, format!("{error}; start that version")));
            }
            Err(error) => {
                log::warning(&format!("snapshot {id} cannot be read: {error}; an older one, or a peer's, has to do"));
                damaged = true;
            }
        }
    }
    Ok((found, damaged))
}

fn read<D: Disk>(disk: &D, id: SnapshotId) -> Result<RecoveredSnapshot, SnapshotError> {
    let mut reader = SnapshotReader::open(disk, id)?;
    let header = Bytes::copy_from_slice(reader.header());
    let mut restored = Restorer::default();
    while let Some(block) = reader.next_block()? {
        let pushed = restored.push_block(&block);
        if let Some(version) = restored.other_version() {
            return Err(SnapshotError::UnknownVersion(version.into()));
        }
        pushed.map_err(|reason| {
            log::warning(&format!("snapshot {id}: {reason}"));
            SnapshotError::Damaged { offset: 0, reason: "a block does not hold what a snapshot holds" }
        })?;
    }
    Ok(RecoveredSnapshot { partition: id.partition, position: id.position, header, restored })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test of files")]
mod tests {
    use base::{BucketId, Position};
    use storage::Files;

    use super::*;

    /// It is whole, perhaps, and only a later version can tell: to go on with an older one would be to forget what it has.
    #[test]
    fn a_state_of_a_later_version_ends_the_start() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let disk = Files::open(folder.path()).expect("a folder");
        let partition = PartitionId { bucket: BucketId(0), index: 0 };
        let mut writer = SnapshotWriter::create(&disk, SnapshotId { partition, position: Position(3) }, b"")
            .expect("it can be written");
        writer.append(&[99, 1, 2, 3]).expect("it can be written");
        writer.finish().expect("it can be written");
        let error = load(&disk).expect_err("nobody can read it");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("another version of Dictum (format 99)"), "{error}");
    }
}
