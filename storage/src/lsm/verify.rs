//! Looking at a store without changing a byte of it.
//!
//! 1. *Bytes* ([`verify_store`]): every keyspace's manifest against the checksum in `current`, every table and every file of separated
//!    values against the checksum that the manifest has of the whole file, the journal as it is checked at open. Nothing of fjall's
//!    code runs, so nothing that is damaged gets to it.
//! 2. *Content* ([`StoreView`]): the store is opened from a folder elsewhere in which tables and values are links to the real ones, and
//!    everything that fjall writes is a copy: manifests, and of the journal what is whole. fjall reads tables and never writes one
//!    again; the links that it removes are its own. It has no threads here, so nothing is compacted.
//!
//! ```text
//! manifest  "SFA" archive: sections, then the table of contents, then its place and checksum in the last 38 bytes
//! contents  ┌────────┬─────────┬─ per section: ┬──────────┬──────────┬──────────────┬──────┐
//!           │"TOC!" 4│ count 4 │               │ offset 8 │ length 8 │ name bytes 2 │ name │
//!           └────────┴─────────┴               ┴──────────┴──────────┴──────────────┴──────┘
//! tables    levels 1, each: runs 1, each: tables 4, each: id 8, 0, XXH3 16, sequence 8
//! blob_files  files 4, each: id 8, 0, XXH3 16
//! ```
//! All little-endian; XXH3 of 128 bits over the whole file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base::ordered::OrderedError;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::failures::{damaged, disk_failure};
use super::{LsmOptions, LsmStore, journal_check};

/// Files are read in pieces of this size.
const CHUNK_BYTES: usize = 1 << 20;
/// fjall without threads keeps a message for each keyspace, at most 1000; with more keyspaces it gets a thread.
const KEYSPACES_WITHOUT_THREADS_MAX: u64 = 900;
/// The longest manifest that is read, in bytes: a table takes 33 of them.
const MANIFEST_BYTES_MAX: u64 = 1 << 28;

/// What a store consists of, and what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreReport {
    /// Keyspaces of fjall's: one per space, one of marks, one of its own, anchors.
    pub keyspaces: u64,
    /// Tables that count.
    pub tables: u64,
    /// Files of separated values that count.
    pub value_files: u64,
    /// Bytes of both.
    pub table_bytes: u64,
    /// Files that no manifest names, and keyspaces that were being made or removed: gone with the next start.
    pub leftovers: u64,
    /// Files of its journal.
    pub journals: u64,
    /// Whole batches in them.
    pub batches: u64,
    /// Our number of the last one.
    pub last_number: Option<u64>,
    /// Bytes behind it that were not synced, or are damaged: the next start cuts them off.
    pub cut_bytes: u64,
    /// How many times in a row opening it has crashed.
    pub crashes: u8,
    /// What is wrong. Empty: every byte that counts is as it was written.
    pub problems: Vec<StoreProblem>,
}

/// Something wrong with a file of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreProblem {
    /// The file or folder, from the store's folder on.
    pub file: String,
    /// What is wrong with it.
    pub text: String,
}

/// A keyspace's manifest: which files count, with their checksums.
#[derive(Debug, Default)]
struct Manifest {
    tables: Vec<(u64, u128)>,
    values: Vec<(u64, u128)>,
}

/// Bytes being taken apart. Every step says when there are too few.
struct Taken<'a>(&'a [u8]);

impl<'a> Taken<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// An id and the checksum of the file.
    fn file(&mut self) -> Option<(u64, u128)> {
        let id = self.u64()?;
        if self.u8()? != 0 {
            return None;
        }
        Some((id, u128::from_le_bytes(self.take()?)))
    }
}

/// Takes a manifest apart; `None` if it is not one of those that this version of fjall writes.
fn parse_manifest(bytes: &[u8]) -> Option<Manifest> {
    let mut trailer = Taken(bytes.get(bytes.len().checked_sub(38)?..)?);
    if trailer.take()? != *b"SFA!" || trailer.take()? != [1, 0] {
        return None;
    }
    let _checksum: [u8; 16] = trailer.take()?;
    let contents = usize::try_from(trailer.u64()?).ok()?;
    let mut contents = Taken(bytes.get(contents..)?);
    if contents.take()? != *b"TOC!" {
        return None;
    }
    let mut manifest = Manifest::default();
    let mut seen = 0;
    for _ in 0..contents.u32()? {
        let (offset, length) = (usize::try_from(contents.u64()?).ok()?, usize::try_from(contents.u64()?).ok()?);
        let name_bytes = u16::from_le_bytes(contents.take()?);
        let name = contents.slice(usize::from(name_bytes))?;
        let mut section = Taken(bytes.get(offset..offset.checked_add(length)?)?);
        match name {
            b"tables" => {
                for _ in 0..section.u8()? {
                    for _ in 0..section.u8()? {
                        for _ in 0..section.u32()? {
                            manifest.tables.push(section.file()?);
                            section.u64()?;
                        }
                    }
                }
                seen += 1;
            }
            b"blob_files" => {
                for _ in 0..section.u32()? {
                    manifest.values.push(section.file()?);
                }
                seen += 1;
            }
            _ => {}
        }
    }
    (seen == 2).then_some(manifest)
}

/// A keyspace as it lies there.
struct KeyspaceFiles {
    folder: PathBuf,
    /// From fjall's folder on.
    name: String,
    /// The manifest's name and bytes, and `current`'s.
    manifest_name: String,
    manifest_bytes: Vec<u8>,
    current: Vec<u8>,
    manifest: Manifest,
}

/// Reads a keyspace's manifest. `Ok(None)`: it was being made or removed.
fn read_keyspace(folder: PathBuf, name: &str) -> io::Result<Result<Option<KeyspaceFiles>, StoreProblem>> {
    let problem = |file: &str, text: &str| Err(StoreProblem { file: format!("{name}/{file}"), text: text.to_owned() });
    let current = match fs::read(folder.join("current")) {
        Ok(current) => current,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ok(None)),
        Err(error) => return Ok(problem("current", &format!("cannot be read: {error}"))),
    };
    let mut fields = Taken(&current);
    let (Some(number), Some(checksum)) = (fields.u64(), fields.take().map(u128::from_le_bytes)) else {
        return Ok(problem("current", "is too short"));
    };
    let manifest_name = format!("v{number}");
    let path = folder.join(&manifest_name);
    let bytes = match fs::metadata(&path) {
        Ok(found) if found.len() > MANIFEST_BYTES_MAX => return Ok(problem(&manifest_name, "is too long")),
        Ok(_) => fs::read(&path),
        Err(error) => Err(error),
    };
    let manifest_bytes = match bytes {
        Ok(bytes) => bytes,
        Err(error) => {
            let text = format!("this manifest, which current names, cannot be read: {error}");
            return Ok(problem(&manifest_name, &text));
        }
    };
    if xxh3_128(&manifest_bytes) != checksum {
        return Ok(problem(&manifest_name, "this manifest, or the checksum of it in current, is not what was written"));
    }
    match parse_manifest(&manifest_bytes) {
        Some(manifest) => Ok(Ok(Some(KeyspaceFiles {
            folder,
            name: name.to_owned(),
            manifest_name,
            manifest_bytes,
            current,
            manifest,
        }))),
        None => Ok(problem(&manifest_name, "this manifest is of a form that is not known")),
    }
}

/// The keyspaces of fjall's folder, and what is wrong with them; the third is how many are half made or half removed.
fn read_keyspaces(lsm: &Path) -> io::Result<(Vec<KeyspaceFiles>, Vec<StoreProblem>, u64)> {
    let (mut keyspaces, mut problems, mut leftovers) = (Vec::new(), Vec::new(), 0);
    let mut names: Vec<(String, bool)> = Vec::new();
    for entry in fs::read_dir(lsm.join("keyspaces"))? {
        let entry = entry?;
        names.push((entry.file_name().to_string_lossy().into_owned(), entry.file_type()?.is_dir()));
    }
    names.sort();
    for (name, is_folder) in names {
        let file = format!("lsm/keyspaces/{name}");
        if !is_folder {
            leftovers += 1;
            continue;
        }
        if name.parse::<u64>().is_err() {
            problems.push(StoreProblem { file, text: "does not belong here".to_owned() });
            continue;
        }
        match read_keyspace(lsm.join("keyspaces").join(&name), &file)? {
            Ok(Some(keyspace)) => keyspaces.push(keyspace),
            Ok(None) if name == "0" => {
                let text = "is missing: without it no keyspace has a name".to_owned();
                problems.push(StoreProblem { file: format!("{file}/current"), text });
            }
            Ok(None) => leftovers += 1,
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.iter().any(|problem| problem.file.starts_with("lsm/keyspaces/0/"))
        && keyspaces.iter().all(|keyspace| !keyspace.name.ends_with("/0"))
    {
        let text = "is missing: without it no keyspace has a name".to_owned();
        problems.push(StoreProblem { file: "lsm/keyspaces/0".to_owned(), text });
    }
    Ok((keyspaces, problems, leftovers))
}

/// Reads a whole file and compares it with its checksum. Gives its length; the inner `Err` says what is wrong.
fn verify_file(path: &Path, checksum: u128, progress: &mut dyn FnMut(u64)) -> Result<u64, String> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => "is missing".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut hasher = Xxh3::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        let read = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(error)),
        };
        hasher.update(&chunk[..read]);
        bytes += read as u64;
        progress(read as u64);
    }
    if hasher.digest128() == checksum {
        Ok(bytes)
    } else {
        Err("is not what was written (its checksum is wrong)".to_owned())
    }
}

/// The files of one kind: those that the manifest names are verified, others counted.
fn verify_files(
    (folder, name): (&Path, &str),
    named: &[(u64, u128)],
    report: &mut StoreReport,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let mut expected: BTreeSet<String> = BTreeSet::new();
    for (id, checksum) in named {
        expected.insert(id.to_string());
        match verify_file(&folder.join(id.to_string()), *checksum, progress) {
            Ok(bytes) => report.table_bytes += bytes,
            Err(text) => report.problems.push(StoreProblem { file: format!("{name}/{id}"), text }),
        }
    }
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let found = entry?.file_name().to_string_lossy().into_owned();
        if expected.contains(&found) {
            continue;
        }
        if found.parse::<u64>().is_ok() {
            report.leftovers += 1;
        } else {
            let text = "does not belong here: the store does not open with it".to_owned();
            report.problems.push(StoreProblem { file: format!("{name}/{found}"), text });
        }
    }
    Ok(())
}

/// Verifies all bytes of the store in `folder` that count, reading each once. `progress` is told of every piece of so many bytes.
///
/// Not looked at: whether what the tables hold belongs together, which is [`StoreView`]'s.
///
/// # Errors
/// A folder cannot be read. Files that cannot be read are problems.
pub fn verify_store(folder: &Path, progress: &mut dyn FnMut(u64)) -> io::Result<StoreReport> {
    let crashes = match fs::read(folder.join("opening")) {
        Ok(bytes) => bytes.first().copied().unwrap_or(0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    let mut report = StoreReport { crashes, ..StoreReport::default() };
    let lsm = folder.join("lsm");
    match fs::read(lsm.join("version")) {
        Ok(version) if version == *b"FJL\x03" => {}
        Ok(_) => {
            let text = "is not what fjall 3 writes".to_owned();
            report.problems.push(StoreProblem { file: "lsm/version".to_owned(), text });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let keyspaces = lsm.join("keyspaces");
            if keyspaces.try_exists()? && fs::read_dir(keyspaces)?.next().is_some() {
                let text = "is missing though there are keyspaces".to_owned();
                report.problems.push(StoreProblem { file: "lsm/version".to_owned(), text });
            } else {
                // It was never finished being made; the next start begins again.
                return Ok(report);
            }
        }
        Err(error) => return Err(error),
    }
    if !lsm.join("lock").try_exists()? {
        let text = "is missing: the store does not open without it (an empty file will do)".to_owned();
        report.problems.push(StoreProblem { file: "lsm/lock".to_owned(), text });
    }
    match journal_check::scan(&lsm)? {
        Ok(scanned) => {
            report.journals = scanned.journals.len() as u64;
            report.last_number = scanned.last_number;
            for journal in &scanned.journals {
                report.batches += journal.batches;
                report.cut_bytes += if journal.clean { 0 } else { journal.bytes - journal.good };
                progress(journal.bytes);
            }
        }
        Err(text) => report.problems.push(StoreProblem { file: "lsm".to_owned(), text }),
    }
    let (keyspaces, problems, leftovers) = read_keyspaces(&lsm)?;
    report.keyspaces = keyspaces.len() as u64;
    report.leftovers += leftovers;
    report.problems.extend(problems);
    for KeyspaceFiles { folder, name, manifest, .. } in &keyspaces {
        report.tables += manifest.tables.len() as u64;
        report.value_files += manifest.values.len() as u64;
        verify_files((&folder.join("tables"), &format!("{name}/tables")), &manifest.tables, &mut report, progress)?;
        verify_files((&folder.join("blobs"), &format!("{name}/blobs")), &manifest.values, &mut report, progress)?;
    }
    Ok(report)
}

/// A store opened for looking into, with nothing written to its folder. Only for one whose [`verify_store`] found nothing wrong.
#[derive(Debug)]
pub struct StoreView {
    /// Dropped before the folder goes.
    store: Option<LsmStore>,
    scratch: PathBuf,
}

impl StoreView {
    /// Opens the store in `folder` by way of `scratch`, a folder that is made for it and removed when the view is dropped. It takes about as
    /// much as the store's journal there.
    ///
    /// # Errors
    /// `scratch` exists or cannot be made; or what a start would find wrong with the store.
    pub fn open(folder: &Path, scratch: &Path) -> Result<StoreView, OrderedError> {
        let failed = |error: io::Error| disk_failure("be opened for reading", &error);
        fs::create_dir(scratch).map_err(failed)?;
        let mut view = StoreView { store: None, scratch: scratch.to_path_buf() };
        let keyspaces = view.fill(folder)?;
        let threads = usize::from(keyspaces > KEYSPACES_WITHOUT_THREADS_MAX);
        view.store = Some(LsmStore::open(scratch, LsmOptions { threads, ..LsmOptions::default() })?);
        Ok(view)
    }

    /// The store. It must not be written to: nothing of that would come to be.
    ///
    /// # Panics
    /// Never: it is taken out only by dropping the view.
    #[must_use]
    pub fn store(&self) -> &LsmStore {
        self.store.as_ref().expect("it is there until the view is dropped")
    }

    /// Makes the folder: copies of what may be written, links to the rest. Gives the number of keyspaces.
    fn fill(&self, folder: &Path) -> Result<u64, OrderedError> {
        let failed = |error: io::Error| disk_failure("be opened for reading", &error);
        let (from, to) = (fs::canonicalize(folder).map_err(failed)?.join("lsm"), self.scratch.join("lsm"));
        let scanned = journal_check::scan(&from).map_err(failed)?.map_err(|text| damaged(&text))?;
        let (keyspaces, problems, _) = read_keyspaces(&from).map_err(failed)?;
        if let Some(StoreProblem { file, text }) = problems.first() {
            return Err(damaged(&format!("{file} {text}")));
        }
        let make = || -> io::Result<()> {
            fs::create_dir_all(to.join("keyspaces"))?;
            fs::copy(from.join("version"), to.join("version"))?;
            // fjall wants one to lock.
            File::create_new(to.join("lock"))?;
            for journal in &scanned.journals {
                let mut whole = File::open(&journal.path)?.take(journal.good);
                let name = journal.path.file_name().unwrap_or_default();
                io::copy(&mut whole, &mut File::create_new(to.join(name))?)?;
            }
            for keyspace in &keyspaces {
                let inside = self.scratch.join(&keyspace.name);
                fs::create_dir_all(&inside)?;
                fs::write(inside.join("current"), &keyspace.current)?;
                fs::write(inside.join(&keyspace.manifest_name), &keyspace.manifest_bytes)?;
                for (kind, named) in [("tables", &keyspace.manifest.tables), ("blobs", &keyspace.manifest.values)] {
                    if keyspace.folder.join(kind).try_exists()? {
                        fs::create_dir(inside.join(kind))?;
                    }
                    for (id, _) in named {
                        let id = id.to_string();
                        let real = keyspace.folder.join(kind).join(&id);
                        std::os::unix::fs::symlink(real, inside.join(kind).join(id))?;
                    }
                }
            }
            Ok(())
        };
        make().map_err(failed)?;
        Ok(keyspaces.len() as u64)
    }
}

impl Drop for StoreView {
    fn drop(&mut self) {
        drop(self.store.take());
        // Best effort. Links are removed, never what they lead to.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

#[cfg(test)]
mod tests;
