//! Reads a backup back: every checksum, every record, and whether what there is is all.

use std::path::Path;
use std::sync::Arc;

use node::{ArchiveReader, Below};
use storage::{MemoryStore, ReadOnlyFolder, SnapshotReader};

use super::chain::Chain;
use super::manifest::{Bucket, Manifest};
use super::taking::Digest;
use crate::check::Progress;

/// The first thing that is wrong is the error. Those that it builds on are read as well.
pub(super) fn verify(dir: &Path, progress: &mut Progress) -> Result<Manifest, String> {
    let chain = Chain::open(dir)?;
    progress.begin("backup");
    for bucket in &chain.newest().buckets {
        if bucket.partitions.len() as u64 != bucket.bucket.partitions {
            return Err(format!("bucket {} has not all its partitions", bucket.bucket.name));
        }
        for index in 0..bucket.partitions.len() {
            let about = |text| format!("bucket {}, partition {index}: {text}", bucket.bucket.name);
            for (link, bucket) in chain.partition(bucket, index).map_err(about)? {
                let about = |text| about(format!("{}: {text}", link.dir.display()));
                verify_partition(&link.folder, bucket, index, progress).map_err(about)?;
            }
        }
    }
    Ok(chain.newest().clone())
}

fn verify_partition(
    folder: &ReadOnlyFolder,
    bucket: &Bucket,
    index: usize,
    progress: &mut Progress,
) -> Result<(), String> {
    let id = bucket.file_of(index)?;
    let below = Below::new(Arc::new(MemoryStore::new()), 1);
    let mut state = ArchiveReader::new(id.partition, &below);
    each_block(folder, bucket, index, |block| {
        progress.read(block.len() as u64);
        state.push_block(block, None)
    })?;
    let expected = &bucket.partitions[index];
    if state.is_part() != expected.since.is_some() {
        return Err("it is of another kind than it is said to be".to_owned());
    }
    if state.keys() != expected.keys {
        return Err(format!("it has {} keys, and {} were there", state.keys(), expected.keys));
    }
    let position = state.check()?;
    if position != id.position { Err(format!("it is of position {position}")) } else { Ok(()) }
}

/// Gives out the blocks of a partition, and fails at the end if they are not those that were written.
pub(super) fn each_block(
    folder: &ReadOnlyFolder,
    bucket: &Bucket,
    index: usize,
    mut each: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let id = bucket.file_of(index)?;
    let failed = |error: storage::SnapshotError| error.to_string();
    let mut reader = SnapshotReader::open(folder, id).map_err(failed)?;
    let mut digest = Digest::default();
    while let Some(block) = reader.next_block().map_err(failed)? {
        digest.add(&block);
        each(&block)?;
    }
    if digest.text() == bucket.partitions[index].digest { Ok(()) } else { Err("its digest is another one".to_owned()) }
}
