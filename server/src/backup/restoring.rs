//! From a backup into a cluster: the keys are made anew by commands.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::ordered::OrderedWrite;
use node::{Archive, ArchiveReader, Below, CSV_HEADER, RebuildError};
use storage::{LsmOptions, LsmStore, ReadOnlyFolder};

use super::Format;
use super::chain::{Chain, Link};
use super::manifest::Bucket;
use super::nodes::{Nodes, Trouble};
use super::verifying::each_block;
use super::writing::Writer;
use crate::bucket::BucketInfo;
use crate::check::Progress;
use crate::cli::asked::Asked;

/// Bytes of an export that are written together.
const OUT_BYTES: usize = 256 * 1024;

/// The wish of the command line.
#[derive(Debug)]
pub(super) struct Wish {
    /// All, if there is none.
    pub buckets: Vec<String>,
    pub into: Option<String>,
    pub over: bool,
    /// Buckets that have keys take the backup's settings.
    pub with_settings: bool,
    pub partitions: Option<u16>,
    pub scratch: Option<PathBuf>,
}

/// A bucket that was restored.
#[derive(Debug)]
pub(super) struct Restored {
    pub name: String,
    pub keys: u64,
}

/// Restores what is wished. An error says what to do.
pub(super) fn restore(
    dir: &Path,
    wish: &Wish,
    asked: &Asked,
    progress: &mut Progress,
) -> Result<Vec<Restored>, String> {
    let chain = Chain::open(dir)?;
    let manifest = chain.newest();
    let has = |name: &String| manifest.buckets.iter().any(|it| it.bucket.name == *name);
    if let Some(name) = wish.buckets.iter().find(|name| !has(name)) {
        let names: Vec<&str> = manifest.buckets.iter().map(|it| it.bucket.name.as_str()).collect();
        return Err(format!("the backup has no bucket '{name}'; it has {}", names.join(", ")));
    }
    if wish.into.is_some() && wish.buckets.len() > 1 {
        return Err("--into takes one bucket: say --bucket once".to_owned());
    }
    let wanted = |it: &&Bucket| wish.buckets.is_empty() || wish.buckets.contains(&it.bucket.name);
    let buckets: Vec<(&Bucket, &str)> = manifest
        .buckets
        .iter()
        .filter(wanted)
        .map(|it| (it, wish.into.as_deref().unwrap_or(&it.bucket.name)))
        .collect();
    let mut nodes = Nodes::open(asked)?;
    // Before anything is written.
    let mut targets = Vec::with_capacity(buckets.len());
    for (bucket, name) in &buckets {
        targets.push(look_at_target(&mut nodes, &bucket.bucket, name, wish)?);
    }
    let scratch = Scratch::new("restore", wish.scratch.as_deref())?;
    let mut restored = Vec::new();
    for ((bucket, name), target) in buckets.into_iter().zip(targets) {
        let takes_settings = target != Target::HasKeys || wish.with_settings;
        if takes_settings {
            prepare(&mut nodes, &bucket.bucket, name, target, wish.partitions)?;
        }
        progress.begin("restore");
        nodes.select(name);
        let mut keys = 0;
        for index in 0..bucket.partitions.len() {
            let about = |text| format!("bucket {name}, partition {index} of the backup: {text}");
            let archives = scratch.read_all(&chain, bucket, index, progress).map_err(about)?;
            if let Some(newest) = archives.first().filter(|_| index == 0) {
                newest.libraries(|words| nodes.ask_any(words).map(drop)).map_err(about)?;
            }
            for (place, archive) in archives.iter().enumerate() {
                keys += write_keys(archive, &archives[..place], &mut nodes, progress).map_err(about)?;
            }
            drop(archives);
            scratch.clear().map_err(about)?;
        }
        if takes_settings {
            // Not before: keys that had no deadline would have got one, and a large key may cost more than one write may.
            let (ttl, work_max) = (bucket.bucket.ttl.to_string(), bucket.bucket.work_max.to_string());
            let mut words = vec!["DICTUM.BUCKET", "SET", name, "TTL", &ttl];
            words.extend(["WORK-MAX", &work_max].into_iter().filter(|_| bucket.bucket.work_max > 0));
            nodes.select("default");
            nodes.ask_any(&words)?;
        }
        restored.push(Restored { name: name.to_owned(), keys });
    }
    Ok(restored)
}

/// Writes the keys of a bucket. Returns how many.
pub(super) fn export(
    dir: &Path,
    (name, format): (&str, Format),
    scratch: Option<&Path>,
    out: &mut dyn Write,
) -> Result<u64, String> {
    let chain = Chain::open(dir)?;
    let manifest = chain.newest();
    let bucket = manifest.buckets.iter().find(|it| it.bucket.name == name);
    let bucket = bucket.ok_or_else(|| format!("the backup has no bucket '{name}'"))?;
    let scratch = Scratch::new("restore", scratch)?;
    let unwritten = |error: io::Error| format!("the output cannot be written: {error}");
    let mut out = BufWriter::with_capacity(OUT_BYTES, out);
    let mut keys = 0;
    if format == Format::Csv {
        out.write_all(CSV_HEADER.as_bytes()).map_err(unwritten)?;
    }
    for index in 0..bucket.partitions.len() {
        let about = |text| format!("bucket {name}, partition {index}: {text}");
        let archives = scratch.read_all(&chain, bucket, index, &Progress::new()).map_err(about)?;
        for (place, archive) in archives.iter().enumerate() {
            let later = &archives[..place];
            let written = match format {
                Format::Jsonl => archive.lines(later, |line| writeln!(out, "{line}").map_err(unwritten)),
                Format::Rdb => return Err("an RDB file has a writer of its own".to_owned()),
                Format::Csv => archive.rows(later, |row| out.write_all(row.as_bytes()).map_err(unwritten)),
                Format::Resp => {
                    let mut command = Vec::new();
                    let mut put = |words: &[&[u8]]| {
                        command.clear();
                        wire::encode_command(&mut command, words);
                        out.write_all(&command).map_err(unwritten)
                    };
                    if index == 0 && place == 0 {
                        archive.libraries(&mut put)?;
                    }
                    archive.keys(None, later, |_, _, words| put(words))
                }
            };
            keys += written.map_err(|error| error.to_string())?;
        }
        drop(archives);
        scratch.clear().map_err(about)?;
    }
    out.flush().map_err(unwritten)?;
    Ok(keys)
}

/// The state of the bucket into which one is restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Absent,
    Empty,
    /// It keeps its settings, unless the operator wants otherwise.
    HasKeys,
}

/// Refuses what is not meant, or cannot be.
fn look_at_target(nodes: &mut Nodes, was: &BucketInfo, name: &str, wish: &Wish) -> Result<Target, String> {
    let reply = nodes.ask_any(&["DICTUM.BUCKET", "LIST"])?;
    let listed = BucketInfo::read_list(&reply).ok_or("the list of buckets is of a version that is not known here")?;
    let Some(found) = listed.iter().find(|it| it.name == name) else { return Ok(Target::Absent) };
    if found.kind != was.kind {
        return Err(format!(
            "the bucket '{name}' is {}, and that of the backup {}. Nothing was done.",
            found.kind, was.kind
        ));
    }
    nodes.select(name);
    let keys = nodes.ask_any(&["DBSIZE"])?.as_integer().unwrap_or_default();
    if keys == 0 {
        return Ok(Target::Empty);
    }
    if !wish.over {
        return Err(format!(
            "there is a bucket '{name}' with {keys} keys. Restore into another one (--bucket {name} --into NAME), or say --over: then keys of the backup replace those of \
             the same name. Nothing was done."
        ));
    }
    Ok(Target::HasKeys)
}

/// Makes the bucket, or gives the one that is there the settings of the backup's.
fn prepare(
    nodes: &mut Nodes,
    was: &BucketInfo,
    name: &str,
    target: Target,
    partitions: Option<u16>,
) -> Result<(), String> {
    let mut settings = vec![
        ("DURABILITY", was.durability.clone()),
        ("CONSISTENCY", was.consistency.clone()),
        ("TTL", "0".to_owned()),
        ("VALUE-BYTES-MAX", was.value_bytes_max.to_string()),
        ("QUOTA", was.quota.to_string()),
        ("POLICY", was.policy.clone()),
    ];
    settings.retain(|(_, value)| !value.is_empty());
    nodes.select("default");
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    let order = if target != Target::Absent || is_number { "SET" } else { "CREATE" };
    if is_number && target == Target::Absent {
        // A database is made when it is selected first.
        nodes.ask_any(&["SELECT", name])?;
        nodes.select("default");
    }
    let mut words = ["DICTUM.BUCKET", order, name].map(str::to_owned).to_vec();
    if order == "CREATE" {
        let count = partitions.map_or(was.partitions, u64::from);
        words.extend(["KIND", &was.kind, "PARTITIONS", &count.to_string()].map(str::to_owned));
    }
    words.extend(settings.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
    match nodes.ask_any(&words) {
        // The answer of an earlier try was lost.
        Err(text) if order == "CREATE" && text.contains("there is a bucket") => Ok(()),
        other => other.map(drop).map_err(|text| format!("bucket {name}: {text}")),
    }
}

/// A folder for the state of one partition at a time. Removed at the end.
pub(crate) struct Scratch {
    folder: PathBuf,
    /// Of the stores, all together.
    options: LsmOptions,
}

impl Scratch {
    /// For this purpose, in the system's folder for such or in the one that is said.
    pub(super) fn new(purpose: &str, within: Option<&Path>) -> Result<Scratch, String> {
        let within = within.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let folder = within.join(format!("dictum-{purpose}-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| format!("--scratch {}: {error}", within.display()))?;
        Ok(Scratch { folder, options: LsmOptions::default() })
    }

    /// In this folder, which is made for it, with stores that take so much memory and so many files.
    pub(crate) fn at(folder: PathBuf, options: LsmOptions) -> Result<Scratch, String> {
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Scratch { folder, options })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    fn stores(&self) -> PathBuf {
        self.folder.join("stores")
    }

    /// Reads all parts of a partition, each into a store: the newest first.
    pub(super) fn read_all(
        &self,
        chain: &Chain,
        bucket: &Bucket,
        index: usize,
        progress: &Progress,
    ) -> Result<Vec<Archive>, String> {
        let parts = chain.partition(bucket, index)?;
        // Together they have the memory of one.
        let whole = self.options;
        let count = parts.len() as u64;
        let options = LsmOptions {
            cache_bytes: whole.cache_bytes / count,
            memtable_bytes: (whole.memtable_bytes / count).max(1 << 20),
            journal_bytes_max: (whole.journal_bytes_max / count).max(4 << 20),
            open_files_max: whole.open_files_max / parts.len(),
            ..whole
        };
        let read = |(place, (link, bucket)): (usize, (&Link, &Bucket))| {
            let about = |text| format!("{}: {text}", link.dir.display());
            let store = LsmStore::open(self.stores().join(place.to_string()), options);
            let store = store.map_err(|error| error.text);
            store.and_then(|store| read(store, &link.folder, bucket, index, progress)).map_err(about)
        };
        parts.into_iter().enumerate().map(read).collect()
    }

    pub(super) fn clear(&self) -> Result<(), String> {
        std::fs::remove_dir_all(self.stores()).map_err(|error| format!("{}: {error}", self.folder.display()))
    }
}

/// Reads a part of a partition into a store of its own.
fn read(
    store: LsmStore,
    folder: &ReadOnlyFolder,
    bucket: &Bucket,
    index: usize,
    progress: &Progress,
) -> Result<Archive, String> {
    let below = Below::new(Arc::new(store.clone()), 1);
    let mut reader = ArchiveReader::new(bucket.file_of(index)?.partition, &below);
    each_block(folder, bucket, index, |block| {
        progress.go_on()?;
        reader.push_block(block, Some(&store as &dyn OrderedWrite))
    })?;
    let partition = &bucket.partitions[index];
    if reader.is_part() != partition.since.is_some() {
        return Err("it is of another kind than it is said to be".to_owned());
    }
    if reader.keys() != partition.keys {
        return Err(format!("it has {} keys, and {} were there", reader.keys(), partition.keys));
    }
    reader.finish(&store)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If that fails the system clears it away: it is among its temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Says the commands that make all keys anew, until all are answered. Returns how many keys.
fn write_keys(archive: &Archive, later: &[Archive], nodes: &mut Nodes, progress: &mut Progress) -> Result<u64, String> {
    Writer::new(nodes, progress).write(|from, say| match archive.keys(from, later, say) {
        Ok(_) => Ok(()),
        Err(RebuildError::Said(trouble)) => Err(trouble),
        Err(RebuildError::Unreadable(text)) => Err(Trouble::Lasting(text)),
    })
}
