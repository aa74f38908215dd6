//! A backup with those that it builds on.

use std::path::{Path, PathBuf};

use storage::ReadOnlyFolder;

use super::manifest::{Base, Bucket, Manifest};
use crate::check::refused;

/// So many backups may build on each other: all of them are opened for a restore.
pub(super) const LINKS_MAX: usize = 64;

/// See the file's head.
#[derive(Debug)]
pub(super) struct Chain {
    /// The newest first.
    links: Vec<Link>,
}

/// One backup.
#[derive(Debug)]
pub(super) struct Link {
    pub dir: PathBuf,
    pub folder: ReadOnlyFolder,
    pub manifest: Manifest,
}

impl Chain {
    /// Reads the tables of contents.
    pub(super) fn open(dir: &Path) -> Result<Chain, String> {
        let (mut links, mut next): (Vec<Link>, Option<(PathBuf, Option<Base>)>) =
            (Vec::new(), Some((dir.to_path_buf(), None)));
        while let Some((dir, expected)) = next.take() {
            let about = |text: String| match links.is_empty() {
                true => text,
                false => format!("it builds on the backup in {}: {text}", dir.display()),
            };
            if links.len() == LINKS_MAX {
                return Err(format!("more than {LINKS_MAX} backups build on each other, which no restore reads"));
            }
            let folder = ReadOnlyFolder::open(&dir).map_err(|error| about(refused(error)))?;
            let manifest = Manifest::read(&folder).map_err(about)?;
            if expected.is_some_and(|base| base.crc32c != manifest.crc32c) {
                return Err(about("that is another backup than the one it was made from".to_owned()));
            }
            next = manifest.base.clone().map(|base| (place_of(&dir, &base), Some(base)));
            links.push(Link { dir, folder, manifest });
        }
        Ok(Chain { links })
    }

    /// The table of contents of the newest.
    pub(super) fn newest(&self) -> &Manifest {
        &self.links[0].manifest
    }

    /// The newest first.
    pub(super) fn links(&self) -> &[Link] {
        &self.links
    }

    /// The parts of a partition, the newest first: the last one is whole.
    pub(super) fn partition<'a>(
        &'a self,
        bucket: &'a Bucket,
        index: usize,
    ) -> Result<Vec<(&'a Link, &'a Bucket)>, String> {
        let mut parts: Vec<(&Link, &Bucket)> = Vec::new();
        let mut since = None;
        for link in &self.links {
            let found = link.manifest.bucket(bucket.bucket.id);
            let found = found.and_then(|it| Some((it, it.partitions.get(index)?)));
            let Some((it, partition)) = found.filter(|(_, it)| since.is_none_or(|since| since == it.revision)) else {
                break;
            };
            parts.push((link, it));
            since = partition.since;
            if since.is_none() {
                return Ok(parts);
            }
        }
        Err("the backups that it builds on do not have the state that it builds on".to_owned())
    }
}

/// The folder of the backup on which the one in `dir` builds.
fn place_of(dir: &Path, base: &Base) -> PathBuf {
    let named = Path::new(&base.folder);
    // Of a folder without a parent in its name the parent has to be asked for.
    let beside = dir.canonicalize().ok().and_then(|dir| Some(dir.parent()?.join(named)));
    if named.is_absolute() { named.to_path_buf() } else { beside.unwrap_or_else(|| named.to_path_buf()) }
}

/// How one in `dir`, which exists, names the backup in `base`.
pub(super) fn name_of(dir: &Path, base: &Path) -> Result<String, String> {
    let whole = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    let (dir, base) = (whole(dir)?, whole(base)?);
    let name = base.file_name().filter(|_| dir.parent() == base.parent());
    let named = name.map_or(base.as_path(), Path::new);
    named.to_str().map(str::to_owned).ok_or_else(|| format!("{} has a name that is no text", base.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_found_where_it_was_said_to_be_and_must_be_the_same() {
        let root = tempfile::tempdir().expect("a folder");
        let make = |name: &str, base: Option<&Link>| {
            let dir = root.path().join(name);
            let disk = storage::Files::open(&dir).expect("it is new");
            let mut manifest = Manifest::new(name.len() as u64);
            if let Some(base) = base {
                let folder = name_of(&dir, &base.dir).expect("it is text");
                manifest.build_on(Base { folder, crc32c: base.manifest.crc32c.clone() });
            }
            manifest.write(&disk).expect("it is written");
            dir
        };
        let sunday = make("sunday", None);
        let chain = Chain::open(&sunday).expect("it is whole");
        let monday = make("monday", Some(&chain.links()[0]));
        let chain = Chain::open(&monday).expect("both are there");
        assert_eq!(chain.links().len(), 2);
        assert_eq!(chain.newest().base.as_ref().map(|base| base.folder.as_str()), Some("sunday"));
        // Both are moved together.
        let moved = root.path().join("moved");
        std::fs::create_dir(&moved).expect("it is new");
        for name in ["sunday", "monday"] {
            std::fs::rename(root.path().join(name), moved.join(name)).expect("it is there");
        }
        assert!(Chain::open(&moved.join("monday")).is_ok());
        std::fs::remove_dir_all(moved.join("sunday")).expect("it is there");
        assert!(Chain::open(&moved.join("monday")).is_err_and(|text| text.contains("sunday")));
        let other = make("sunday-of-another-week", None);
        std::fs::rename(other, moved.join("sunday")).expect("it is there");
        assert!(Chain::open(&moved.join("monday")).is_err_and(|text| text.contains("another backup")));
    }
}
