//! Opening: making the folder ready, finding out whether what is in it belongs together, and deleting what does not.
#![allow(clippy::disallowed_methods, reason = "fjall's files are outside of `Disk`")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use base::ordered::{OrderedError, Space};
use fjall::{Database, Keyspace};

use super::failures::{damaged, disk_failure, failure};
use super::handles::Handle;
use super::inner::keyspace_options;
use super::{LsmOptions, journal_check, keys};

/// Makes fjall's folder ready: begins again what a crash left half made, and checks the journal. Gives the check's result.
pub(super) fn prepare_folder(lsm: &Path) -> Result<journal_check::Checked, OrderedError> {
    let disk = |error: io::Error| disk_failure("be opened", &error);
    let exists = lsm.try_exists().map_err(disk)?;
    if exists && lsm.join("version").try_exists().map_err(disk)? {
        check_manifests(&lsm.join("keyspaces"))?;
        return journal_check::check(lsm).map_err(disk)?.map_err(|text| damaged(&text));
    }
    // fjall writes this file after all others, and cannot go on from where it was when it is missing.
    if exists {
        let keyspaces = lsm.join("keyspaces");
        if keyspaces.try_exists().map_err(disk)? && fs::read_dir(&keyspaces).map_err(disk)?.next().is_some() {
            return Err(damaged("its file \"version\" is missing"));
        }
        fs::remove_dir_all(lsm).map_err(disk)?;
    }
    Ok(journal_check::Checked::default())
}

/// Compares every keyspace's manifest with the checksum that fjall wrote beside it and does not look at: a damaged number in a
/// manifest is otherwise taken for a count, and for so many entries memory is asked for.
///
/// `current` holds the number of the manifest `vN` (8), its XXH3 of 128 bits (16) and a zero, little-endian.
fn check_manifests(keyspaces: &Path) -> Result<(), OrderedError> {
    let disk = |error: io::Error| disk_failure("be opened", &error);
    for entry in fs::read_dir(keyspaces).map_err(disk)? {
        let folder = entry.map_err(disk)?.path();
        let current = match fs::read(folder.join("current")) {
            Ok(current) => current,
            // It was being made, or removed; fjall sees to that.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(disk(error)),
        };
        let wrong = || damaged(&format!("the manifest in {} is not what was written", folder.display()));
        let (number, rest) = current.split_first_chunk().ok_or_else(wrong)?;
        let (checksum, _) = rest.split_first_chunk().ok_or_else(wrong)?;
        let manifest = fs::read(folder.join(format!("v{}", u64::from_le_bytes(*number)))).map_err(|_| wrong())?;
        if xxhash_rust::xxh3::xxh3_128(&manifest) != u128::from_le_bytes(*checksum) {
            return Err(wrong());
        }
    }
    Ok(())
}

/// Compares every space's mark with the keyspace of marks, and both with the journal's end. Gives the number of the last batch, and the
/// spaces that should not exist: made for a batch that never came, or dropped by one whose work on the disk was not finished.
pub(super) fn check_marks(
    spaces: &BTreeMap<Space, Arc<Handle>>,
    marks: &Keyspace,
    journal: journal_check::Checked,
) -> Result<(u64, Vec<Space>), OrderedError> {
    let reading = |error: fjall::Error| failure("be opened", &error);
    let mut last = 0;
    let mut expected: BTreeMap<Space, u64> = BTreeMap::new();
    for mark in marks.iter() {
        let (key, value) = mark.into_inner().map_err(reading)?;
        let number = keys::number(&value).ok_or_else(|| damaged("a mark is unreadable"))?;
        if *key == *keys::LAST_MARK {
            last = number;
        } else {
            let space = keys::space_of_mark(&key).ok_or_else(|| damaged("a mark is unreadable"))?;
            expected.insert(space, number);
        }
    }
    if let Some(number) = journal.last_number.filter(|number| *number != last) {
        return Err(damaged(&format!("its journal ends with batch {number}, its tables with batch {last}")));
    }
    let mut unused = Vec::new();
    for (space, handle) in spaces.iter() {
        let found = handle.keyspace.get(keys::SPACE_MARK).map_err(reading)?;
        let found =
            found.map(|value| keys::number(&value).ok_or_else(|| damaged("a mark is unreadable"))).transpose()?;
        match (found, expected.remove(space)) {
            (Some(found), Some(expected)) if found == expected && found <= last => {}
            (None, None) => unused.push(*space),
            (Some(found), None) if found <= last => unused.push(*space),
            (found, expected) => {
                let text =
                    format!("{space:?} was last changed by batch {found:?}, but should have been by {expected:?}");
                return Err(damaged(&text));
            }
        }
    }
    if let Some((space, number)) = expected.pop_first() {
        return Err(damaged(&format!("{space:?}, last changed by batch {number}, is missing")));
    }
    Ok((last, unused))
}

/// Deletes keyspaces, and sees to it that the newest keyspace is never among them.
///
/// At open fjall numbers keyspaces on from the highest that it finds, and its counter of sequences goes back to what the remaining
/// keyspaces have seen. If the newest were deleted, its number would be given again, the new entry under that number could be older
/// than the deletion, and the open after that would take the new keyspace for a deleted one and remove it. An empty keyspace
/// with a higher number than all that are deleted, an *anchor*, prevents it.
pub(super) fn delete_keyspaces(
    database: &Database,
    keyspaces: Vec<Keyspace>,
    options: &LsmOptions,
) -> Result<(), fjall::Error> {
    let Some(newest) = keyspaces.iter().map(|keyspace| keyspace.id()).max() else { return Ok(()) };
    let name = keys::anchor_name(newest);
    let anchor = database.keyspace(&name, || keyspace_options(options))?;
    for keyspace in keyspaces {
        database.delete_keyspace(keyspace)?;
    }
    for name in database.list_keyspace_names() {
        if !keys::is_anchor(&name) {
            continue;
        }
        let other = database.keyspace(&name, || keyspace_options(options))?;
        if other.id() < anchor.id() {
            database.delete_keyspace(other)?;
        }
    }
    Ok(())
}
