//! From a running cluster into a folder.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base::checksum::xxh3;
use node::{ArchiveReader, Below};
use storage::{Files, MemoryStore, SnapshotWriter};
use wire::Value;

use super::chain::{self, Chain, LINKS_MAX};
use super::manifest::{Base, Bucket, Manifest, Partition};
use super::nodes::{Nodes, Tries, Trouble};
use super::rdb::database_of;
use crate::bucket::BucketInfo;
use crate::check::{Progress, refused};
use crate::cli::asked::Asked;
use crate::status::ClusterStatus;

/// How often a partition is begun anew.
const BEGUN_MAX: u32 = 20;

/// A digest of blocks in their order.
#[derive(Clone, Copy, Default)]
pub(super) struct Digest(u64);

impl Digest {
    pub(super) fn add(&mut self, block: &[u8]) {
        self.0 = xxh3([self.0, xxh3(block)].map(u64::to_le_bytes).as_flattened());
    }

    pub(super) fn text(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The buckets that a backup is of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which<'n> {
    All,
    /// These, which have to be there.
    Named(&'n [String]),
    /// Those that a Redis can have, as it has databases by number.
    Numbered,
}

impl Which<'_> {
    fn has(self, name: &str) -> bool {
        match self {
            Which::All => true,
            Which::Named(names) => names.iter().any(|it| it == name),
            Which::Numbered => database_of(name).is_some(),
        }
    }
}

/// Makes the backup of these buckets; of what has changed since the one in `since`, if there is one.
pub(super) fn take(
    dir: &Path,
    which: Which<'_>,
    since: Option<&Path>,
    asked: &Asked,
    progress: &mut Progress,
) -> Result<Manifest, String> {
    refuse_used(dir)?;
    let base = since.map(Chain::open).transpose()?;
    if base.as_ref().is_some_and(|base| base.links().len() >= LINKS_MAX) {
        return Err(format!("{LINKS_MAX} backups build on each other already: take a whole one, without --since"));
    }
    let mut nodes = Nodes::open(asked)?;
    let cluster = number_of_cluster(&mut nodes)?;
    if let Some((base, since)) = base.as_ref().map(Chain::newest).zip(since)
        && (base.cluster != cluster || cluster.is_empty())
    {
        return Err(format!(
            "the backup in {} is not of this cluster, or of one that has gone on since (`dictum unsafe-recover`), or of a Dictum that did not note it: take a whole one, without --since",
            since.display()
        ));
    }
    let began_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let mut manifest = Manifest::new(began_ms);
    let listed = nodes.ask_any(&["DICTUM.BUCKET", "LIST"])?;
    let all = BucketInfo::read_list(&listed).ok_or("the list of buckets is of a version that is not known here")?;
    if let Which::Named(names) = which
        && let Some(name) = names.iter().find(|name| !all.iter().any(|it| it.name == **name))
    {
        return Err(format!("there is no bucket '{name}'; `dictum bucket list` shows those that there are"));
    }
    let disk = Files::open(dir).map_err(refused)?;
    manifest.cluster = cluster;
    if let Some((base, since)) = base.as_ref().map(Chain::newest).zip(since) {
        manifest.build_on(Base { folder: chain::name_of(dir, since)?, crc32c: base.crc32c.clone() });
    }
    for info in all.into_iter().filter(|it| which.has(&it.name)) {
        progress.begin("backup");
        nodes.select(&info.name);
        let mut bucket = Bucket { bucket: info, partitions: Vec::new() };
        let earlier = base.as_ref().and_then(|base| base.newest().bucket(bucket.bucket.id));
        let taken = (0..bucket.bucket.partitions).try_for_each(|index| {
            let earlier = earlier.and_then(|earlier| earlier.partitions.get(usize::try_from(index).ok()?));
            let since = earlier.map(|earlier| earlier.revision);
            take_partition(&disk, &mut nodes, &mut bucket, since, progress)
        });
        // Only what is still there, and is the same one, was asked about all the time.
        nodes.select("default");
        let listed = BucketInfo::read_list(&nodes.ask_any(&["DICTUM.BUCKET", "LIST"])?).unwrap_or_default();
        let is_there = listed.iter().any(|it| it.id == bucket.bucket.id);
        match taken {
            Ok(()) if is_there => manifest.buckets.push(bucket),
            Err(text) if is_there => return Err(text),
            _ => eprintln!("dictum backup: bucket {} was dropped meanwhile, and is left out", bucket.bucket.name),
        }
    }
    manifest.write(&disk)?;
    Ok(manifest)
}

/// Empty if the cluster does not tell it.
fn number_of_cluster(nodes: &mut Nodes) -> Result<String, String> {
    let reply = nodes.ask_any(&["DICTUM.STATUS"])?;
    let status: Option<ClusterStatus> = reply.as_bytes().and_then(|bytes| serde_json::from_slice(bytes).ok());
    Ok(status.ok_or("the status of the cluster is of a version that is not known here")?.id)
}

/// A backup gets a folder of its own: nothing is mixed with what is there.
fn refuse_used(dir: &Path) -> Result<(), String> {
    let shown = dir.display();
    match std::fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(format!("{shown} is not empty: choose a new folder for each backup")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("{shown} cannot be read: {error}")),
    }
}

/// Adds the next partition. If the node that gives it out fails, another one gives out all of it anew.
fn take_partition(
    disk: &Files,
    nodes: &mut Nodes,
    bucket: &mut Bucket,
    since: Option<u64>,
    progress: &mut Progress,
) -> Result<(), String> {
    let index = bucket.partitions.len();
    let mut tries = Tries::new();
    let mut begun = 0;
    loop {
        progress.go_on()?;
        let why = match open(nodes, index, since) {
            Ok(_) if begun == BEGUN_MAX => {
                return Err(format!("partition {index} was begun {BEGUN_MAX} times and never came to its end"));
            }
            Ok(opened) => match copy(disk, nodes, bucket, opened, progress) {
                Ok(()) => return Ok(()),
                Err(trouble) => {
                    bucket.partitions.truncate(index);
                    begun += 1;
                    tries.begin_anew();
                    trouble
                }
            },
            Err(trouble) => trouble,
        };
        match why {
            Trouble::Passing(text) => {
                nodes.turn();
                tries.wait(text)?;
            }
            Trouble::Lasting(text) => return Err(text),
        }
    }
}

/// Has the state frozen.
fn open(nodes: &mut Nodes, index: usize, since: Option<u64>) -> Result<Partition, Trouble> {
    let mut words = ["DICTUM.BACKUP", "OPEN", &index.to_string()].map(str::to_owned).to_vec();
    words.extend(since.into_iter().flat_map(|since| ["SINCE".to_owned(), since.to_string()]));
    let mut last = Trouble::Passing("no node was asked".to_owned());
    for _ in 0..nodes.count() {
        match nodes.ask(&words) {
            Ok(reply) => {
                let numbers: Option<Vec<u64>> = reply
                    .as_array()
                    .and_then(|items| items.iter().map(|item| u64::try_from(item.as_integer()?).ok()).collect());
                let [position, revision, keys, time_ms] = numbers.as_deref().unwrap_or_default() else {
                    return Err(strange());
                };
                return Ok(Partition {
                    position: *position,
                    revision: *revision,
                    keys: *keys,
                    time_ms: *time_ms,
                    bytes: 0,
                    digest: String::new(),
                    since,
                });
            }
            Err(Trouble::Lasting(text)) if since.is_some() && text.contains("wrong number of arguments") => {
                return Err(Trouble::Lasting(
                    "the nodes are of an earlier version, which knows whole backups alone".to_owned(),
                ));
            }
            Err(lasting @ Trouble::Lasting(_)) => return Err(lasting),
            Err(passing) => {
                last = passing;
                nodes.turn();
            }
        }
    }
    Err(last)
}

/// Writes all blocks.
fn copy(
    disk: &Files,
    nodes: &mut Nodes,
    bucket: &mut Bucket,
    opened: Partition,
    progress: &mut Progress,
) -> Result<(), Trouble> {
    let index = bucket.partitions.len();
    bucket.partitions.push(opened);
    let id = bucket.file_of(index).map_err(Trouble::Lasting)?;
    let unwritten = |error| Trouble::Lasting(format!("the backup cannot be written: {error}"));
    let mut writer = SnapshotWriter::create(disk, id, bucket.bucket.name.as_bytes()).map_err(unwritten)?;
    let mut digest = Digest::default();
    let mut state = ArchiveReader::new(id.partition, &Below::new(Arc::new(MemoryStore::new()), 1));
    loop {
        progress.go_on().map_err(Trouble::Lasting)?;
        let next = nodes.ask(&["DICTUM.BACKUP", "NEXT"]).and_then(|reply| match reply {
            Value::Array(items) => match <[Value; 2]>::try_from(items) {
                Ok([Value::Bulk(block), Value::Integer(more)]) => Ok((block, more != 0)),
                _ => Err(strange()),
            },
            _ => Err(strange()),
        });
        let (block, more) = match next {
            Ok(next) => next,
            Err(trouble) => {
                // A later start of the same writer would replace it, but this may have been the last.
                let _ = writer.abandon();
                // A state that the node has given up is given out anew.
                return Err(Trouble::Passing(trouble.text()));
            }
        };
        digest.add(&block);
        state.push_block(&block, None).map_err(Trouble::Lasting)?;
        writer.append(&block).map_err(unwritten)?;
        progress.read(block.len() as u64);
        if !more {
            break;
        }
    }
    let partition = &mut bucket.partitions[index];
    if state.is_part() != partition.since.is_some() {
        return Err(strange());
    }
    let keys = state.keys();
    let position = state.check().map_err(Trouble::Lasting)?;
    if (position, keys) != (id.position, partition.keys) {
        return Err(Trouble::Lasting(format!(
            "the node has given out {keys} keys of position {position}, and not all"
        )));
    }
    partition.bytes = writer.bytes_written();
    partition.digest = digest.text();
    writer.finish().map_err(unwritten)
}

fn strange() -> Trouble {
    Trouble::Lasting("the node answers something that this version cannot read".to_owned())
}
