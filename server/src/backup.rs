//! `dictum backup`, `dictum restore` and `dictum export`.
//!
//! A backup is a folder: a file for each partition of each bucket, with the state as of one moment, in the format of snapshots ([`storage::snapshot`]), and
//! `manifest.json`, which is written last. The states come from the cluster by `DICTUM.BACKUP` (`node/src/backup.rs`). A restore makes their keys anew by ordinary commands
//! (`data/src/rebuild.rs`): so it goes into any cluster, whatever its nodes, partitions and version are.

mod chain;
mod manifest;
pub(crate) mod nodes;
mod rdb;
mod restoring;
mod taking;
mod verifying;
pub(crate) mod writing;

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::check::{Progress, bytes_text};
use crate::cli::asked::{Asked, end};
use crate::status::aligned;
use manifest::Manifest;
pub(crate) use manifest::is_backup;
pub(crate) use restoring::Scratch;
use taking::Which;

/// Arguments of `dictum backup`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    dictum backup /backups/monday                  all buckets, while clients go on\n  \
    dictum backup /backups/users --bucket users --at 10.0.0.1:7001,10.0.0.2:7001\n  \
    dictum backup /backups/tuesday --since /backups/monday    what has changed since then\n  \
    dictum backup --verify /backups/monday         reads it back\n\n\
    Each partition is as of one moment, with all that was acknowledged before the backup began. It leaves as fast as clients do not feel it (docs/backup.md).\n\n\
    Exit code: 0 if it was done, or is whole; 1 if not.")]
pub struct BackupArguments {
    /// A new folder, or an empty one; with --verify one that has a backup
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Only this bucket; may be said several times
    #[arg(long, value_name = "NAME")]
    bucket: Vec<String>,
    /// Only what has changed since an earlier backup of this cluster, which is needed for a restore then, with those that it builds on
    #[arg(long, value_name = "DIR")]
    since: Option<PathBuf>,
    /// Read a backup, every byte, and say whether it is whole
    #[arg(long, conflicts_with_all = ["bucket", "since"])]
    verify: bool,
    #[command(flatten)]
    asked: Asked,
}

/// Arguments of `dictum restore`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    dictum restore /backups/monday --at 10.0.1.1:7001          into a new cluster, all buckets\n  \
    dictum restore /backups/monday --bucket users --into users-of-monday\n\n\
    Buckets are made with the settings that they had. Keys with a time to live have the rest of it; revisions begin anew. Clients may use other keys meanwhile.\n\n\
    Exit code: 0 if all of it was restored, 1 if not. Done again, it begins anew, and needs --over --with-settings.")]
pub struct RestoreArguments {
    /// The folder of a backup
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Only this bucket; may be said several times
    #[arg(long, value_name = "NAME")]
    bucket: Vec<String>,
    /// Into a bucket of this name, which is made if there is none
    #[arg(long, value_name = "NAME", requires = "bucket")]
    into: Option<String>,
    /// Into buckets that have keys: those of the backup replace others of the same name, and these stay
    #[arg(long)]
    over: bool,
    /// With --over: a bucket that has keys takes the settings of the backup's, too (after a restore that was broken off, say)
    #[arg(long, requires = "over")]
    with_settings: bool,
    /// How many partitions buckets that are made shall have [default: as many as they had]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    partitions: Option<u16>,
    /// Folder for temporary files, as large as the largest partition [default: that of the system]
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    asked: Asked,
}

/// Arguments of `dictum export`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    dictum export /backups/monday --bucket users > users.resp\n  \
    dictum export /backups/monday --bucket users --format jsonl > users.jsonl\n  \
    dictum export /backups/monday | redis-cli --pipe            into a Redis\n  \
    dictum export --at 10.0.0.1:7001 --bucket users --format csv > users.csv\n  \
    dictum export --at 10.0.0.1:7001 --format rdb > dump.rdb    all databases, for a Redis to start with\n\n\
    The commands make the keys anew, those with a time to live with the rest of it. Of a running cluster it takes a backup first, among the temporary files: so each partition is as of one moment.\n\n\
    Exit code: 0 if all of it was written, 1 if not.")]
pub struct ExportArguments {
    /// The folder of a backup; without it the running cluster is asked (--at)
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The bucket [default: default; with --format rdb all databases by number]
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// Commands, or a line of JSON for each key, or rows of a table, or the file of a Redis
    #[arg(long, value_enum, default_value_t = Format::Resp)]
    format: Format,
    /// Folder for temporary files, as large as the largest partition, and the bucket if there is no DIR [default: that of the system]
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    asked: Asked,
}

/// How an export is written.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Commands, as clients send them.
    Resp,
    /// A line of JSON for each key; libraries of functions are left out.
    Jsonl,
    /// Rows of a table, one for each element; libraries of functions, deadlines of fields and consumer groups are left out. No import reads them.
    Csv,
    /// The RDB file of a Redis: all databases by number, or the bucket of --bucket, as database 0 if it is none of them.
    Rdb,
}

/// Carries out `dictum export`.
#[must_use]
pub fn run_export(arguments: ExportArguments) -> ExitCode {
    let ExportArguments { dir, bucket, format, scratch, asked } = arguments;
    if format == Format::Rdb {
        let outcome = export_rdb(dir.as_deref(), bucket.as_deref(), scratch.as_deref(), &asked);
        return end("dictum export", outcome.map(|()| String::new()));
    }
    let bucket = bucket.unwrap_or_else(|| "default".to_owned());
    let export =
        |dir: &Path| restoring::export(dir, (&bucket, format), scratch.as_deref(), &mut std::io::stdout().lock());
    let outcome = match dir {
        Some(dir) => export(&dir),
        None => Scratch::new("export", scratch.as_deref()).and_then(|folder| {
            let mut progress = Progress::new();
            let dir = folder.path().join("backup");
            let taken = taking::take(&dir, Which::Named(std::slice::from_ref(&bucket)), None, &asked, &mut progress);
            progress.clear();
            taken.and_then(|_| export(&dir))
        }),
    };
    end("dictum export", outcome.map(|_| String::new()))
}

/// `dictum export --format rdb`. What is not in the file it says to people.
fn export_rdb(dir: Option<&Path>, bucket: Option<&str>, scratch: Option<&Path>, asked: &Asked) -> Result<(), String> {
    let scratch = Scratch::new("export", scratch)?;
    let taken = scratch.path().join("backup");
    let mut progress = Progress::new();
    if dir.is_none() {
        let names: Vec<String> = bucket.into_iter().map(str::to_owned).collect();
        let which = if names.is_empty() { Which::Numbered } else { Which::Named(&names) };
        let outcome = taking::take(&taken, which, None, asked, &mut progress);
        progress.clear();
        outcome?;
    }
    let out = &mut BufWriter::new(std::io::stdout().lock());
    let written = rdb::export(dir.unwrap_or(&taken), bucket, &scratch, out, &progress)?;
    for name in written.without_number {
        eprintln!(
            "dictum export: bucket {name} is left out, as a Redis has databases by number alone (--bucket {name} exports it as database 0)"
        );
    }
    for number in written.without_libraries {
        eprintln!(
            "dictum export: the libraries of functions of database {number} are left out, as a Redis has them for all databases together"
        );
    }
    Ok(())
}

/// Writes all databases by number of a running cluster into an RDB file. All that is needed meanwhile is in the scratch folder, and stays there.
pub(crate) fn rdb_of_cluster(
    scratch: &Scratch,
    asked: &Asked,
    out: &mut dyn Write,
    progress: &mut Progress,
) -> Result<u64, String> {
    let dir = scratch.path().join("backup");
    taking::take(&dir, Which::Numbered, None, asked, progress)?;
    let written = rdb::export(&dir, None, scratch, out, progress)?;
    std::fs::remove_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    Ok(written.keys)
}

/// Carries out `dictum backup`.
#[must_use]
pub fn run(arguments: BackupArguments) -> ExitCode {
    end("dictum backup", if arguments.verify { verify(&arguments.dir, arguments.asked.json) } else { take(&arguments) })
}

/// Reads a backup: what it holds, for people or as JSON.
pub(crate) fn verify(dir: &Path, json: bool) -> Result<String, String> {
    let mut progress = Progress::new();
    let outcome = verifying::verify(dir, &mut progress);
    progress.clear();
    Ok(told("is whole", dir, &outcome?, json))
}

fn take(arguments: &BackupArguments) -> Result<String, String> {
    let mut progress = Progress::new();
    let BackupArguments { dir, bucket, since, asked, .. } = arguments;
    let which = if bucket.is_empty() { Which::All } else { Which::Named(bucket) };
    let outcome = taking::take(dir, which, since.as_deref(), asked, &mut progress);
    progress.clear();
    Ok(told("is done", &arguments.dir, &outcome?, arguments.asked.json))
}

/// Carries out `dictum restore`.
#[must_use]
pub fn run_restore(arguments: RestoreArguments) -> ExitCode {
    let RestoreArguments { dir, bucket, into, over, with_settings, partitions, scratch, asked } = arguments;
    let mut progress = Progress::new();
    let wish = restoring::Wish { buckets: bucket, into, over, with_settings, partitions, scratch };
    let outcome = restoring::restore(&dir, &wish, &asked, &mut progress);
    progress.clear();
    end(
        "dictum restore",
        outcome.map(|restored| {
            if asked.json {
                let buckets = restored.iter().map(|it| serde_json::json!({ "bucket": it.name, "keys": it.keys }));
                return serde_json::json!({ "restored": buckets.collect::<Vec<_>>() }).to_string() + "\n";
            }
            restored.iter().fold(String::new(), |mut text, it| {
                writeln!(text, "{}: {} keys restored", it.name, it.keys).expect("a string takes all text");
                text
            })
        }),
    )
}

fn told(what: &str, dir: &Path, manifest: &Manifest, json: bool) -> String {
    if json {
        return serde_json::to_string(manifest).expect("plain fields become JSON") + "\n";
    }
    let mut rows = vec![["bucket", "partitions", "keys", "size"].map(str::to_owned).to_vec()];
    rows.extend(manifest.buckets.iter().map(|it| {
        let sum = |of: fn(&manifest::Partition) -> u64| it.partitions.iter().map(of).sum::<u64>();
        let (keys, bytes) = (sum(|partition| partition.keys), sum(|partition| partition.bytes));
        vec![it.bucket.name.clone(), it.partitions.len().to_string(), keys.to_string(), bytes_text(bytes)]
    }));
    let base = manifest.base.as_ref().map_or_else(String::new, |base| {
        format!(" It has what has changed since the one in {}, and is of no use without that.", base.folder)
    });
    format!("The backup in {} {what}.{base}\n\n{}", dir.display(), aligned(&rows, &[1, 2, 3]))
}
