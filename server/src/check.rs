//! `dictum check`: what a stopped node's folder holds, what is wrong with it, and what the next start will make of it.
//!
//! Nothing in the folder is changed. Every part is read by the code of a start, with everything left out that a start writes
//! (`storage/src/verify.rs`, `storage/src/lsm/verify.rs`, `node/src/inspect.rs`); here the parts are put together and judged.

mod parts;
mod report;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use node::Below;
use serde::Serialize;
use storage::{FolderError, ReadOnlyFolder, StoreView};

use crate::backup;
use crate::cli::asked::{end, print};

pub(crate) use report::{Report, Severity, Verdict, bytes_text};

/// The folder is damaged.
const EXIT_DAMAGED: u8 = 1;
/// It cannot be said.
const EXIT_UNKNOWN: u8 = 2;
/// How often the line of progress is drawn.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

const CHECK_HELP: &str = "\
Reads everything and changes nothing. A folder in use is refused: stop the node first.

What is verified: the identity; every block of the journal, every payload, and the log that a start would make of it; every block
of the snapshots, and the state that they hold; of the store every byte that counts by its checksum (manifests, tables, separated
values, journal), then, if these are sound, every record, the index of deadlines, and the counts that are kept of them.
What cannot be seen in one folder: writes that the disk has lost without a trace at the very end of the journal, and whether the other
nodes hold the same.

The store is opened by way of a folder elsewhere (--scratch), with links to its tables; that takes about as much space as the
store's journal, some 100 MiB.

A folder of `dictum backup` is read as by `dictum backup --verify`.

Exit code: 0 the folder is sound (an unsynced end, which the next start cuts off, is sound), 1 it is damaged,
2 it cannot be checked (in use, not readable, not a node's folder, of another version).

Examples:
  dictum check /var/lib/dictum
  dictum check --json /var/lib/dictum | jq .findings";

/// Arguments of `dictum check`.
#[derive(clap::Args, Debug)]
#[command(after_help = CHECK_HELP)]
pub struct CheckArguments {
    /// The folder of a node that is stopped, or a backup
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print one object of JSON
    #[arg(long)]
    json: bool,
    /// Folder for temporary files, outside of DIR [default: that of the system]
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
}

/// Checks a folder and prints what was found.
#[must_use]
pub fn run(arguments: CheckArguments) -> ExitCode {
    if backup::is_backup(&arguments.dir) {
        return end("dictum check", backup::verify(&arguments.dir, arguments.json));
    }
    let mut progress = Progress::new();
    let report = check(&arguments.dir, arguments.scratch.as_deref(), &mut progress);
    progress.clear();
    match report {
        Ok(report) => {
            let is_printed = is_printed("dictum check", &report, arguments.json);
            match report.verdict {
                Verdict::Sound | Verdict::SoundUnsyncedEnd if is_printed => ExitCode::SUCCESS,
                // What else there is to know of it is lost.
                Verdict::Sound | Verdict::SoundUnsyncedEnd => ExitCode::from(EXIT_UNKNOWN),
                Verdict::Damaged => ExitCode::from(EXIT_DAMAGED),
                Verdict::Unknown => ExitCode::from(EXIT_UNKNOWN),
            }
        }
        Err(reason) => {
            eprintln!("dictum check: {reason}");
            ExitCode::from(EXIT_UNKNOWN)
        }
    }
}

/// Prints what is found of a folder, for people or as one object of JSON; whether that could be written.
pub(crate) fn is_printed(command: &str, report: &(impl Serialize + Display), json: bool) -> bool {
    let text = match json {
        true => serde_json::to_string_pretty(report).expect("plain fields become JSON") + "\n",
        false => report.to_string(),
    };
    let printed = print(&text);
    if let Err(reason) = &printed {
        eprintln!("{command}: {reason}; the command was carried out, and its output is lost");
    }
    printed.is_ok()
}

/// The store of a stopped node, as a node reads it.
pub(crate) fn below(view: &StoreView) -> Below {
    let next_space = view.store().spaces().last().map_or(1, |space| space.0.saturating_add(1));
    Below::new(Arc::new(view.store().clone()), next_space)
}

/// Checks a folder, with the folder for temporary files given or that of the system.
pub(crate) fn check(dir: &Path, scratch: Option<&Path>, progress: &mut Progress) -> Result<Report, String> {
    let folder = ReadOnlyFolder::open(dir).map_err(refused)?;
    let scratch = scratch.map_or_else(std::env::temp_dir, Path::to_path_buf);
    let (inside, outside) = (scratch.canonicalize(), folder.path().canonicalize());
    match (inside, outside) {
        (Ok(scratch), Ok(folder)) if scratch.starts_with(&folder) => {
            return Err(
                "--scratch must be outside of the folder that is checked, which is not to be changed".to_owned()
            );
        }
        (Err(error), _) => return Err(format!("--scratch {}: {error}", scratch.display())),
        _ => {}
    }
    let scratch = scratch.join(format!("dictum-check-{}", std::process::id()));
    parts::check(&folder, &scratch, progress)
}

/// Why a folder cannot be had, and what to do.
pub(crate) fn refused(error: FolderError) -> String {
    match error {
        FolderError::InUse { folder, process } => {
            let by = process.map_or("another process".to_owned(), |process| format!("process {process}"));
            format!("{} is in use by {by}; stop that node first", folder.display())
        }
        FolderError::Io { folder, error } => format!("{} cannot be read: {error}", folder.display()),
        other @ FolderError::Foreign { .. } => other.to_string(),
    }
}

/// A line on a terminal that says how far it is.
pub(crate) struct Progress {
    shown: bool,
    /// What is being read.
    what: &'static str,
    bytes: u64,
    records: u64,
    next: Instant,
    /// Why the work is to be given up, once there is a reason.
    stop: Arc<OnceLock<String>>,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let shown = std::io::stderr().is_terminal();
        Progress { shown, what: "", bytes: 0, records: 0, next: Instant::now(), stop: Arc::default() }
    }

    /// One that shows nothing, of work that another thread may end by a reason.
    pub(crate) fn hidden(stop: Arc<OnceLock<String>>) -> Progress {
        Progress { shown: false, stop, ..Progress::new() }
    }

    /// An error once the work is to be given up. Asked now and then by work that takes long.
    pub(crate) fn go_on(&self) -> Result<(), String> {
        self.stop.get().map_or(Ok(()), |reason| Err(reason.clone()))
    }

    /// Another part begins.
    pub(crate) fn begin(&mut self, what: &'static str) {
        (self.what, self.bytes, self.records) = (what, 0, 0);
        self.draw();
    }

    pub(crate) fn read(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.draw();
    }

    fn decoded(&mut self, records: u64) {
        self.records += records;
        self.draw();
    }

    fn draw(&mut self) {
        if !self.shown || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + PROGRESS_EVERY;
        let amount = match self.records {
            0 => bytes_text(self.bytes),
            records => format!("{records} records"),
        };
        let _ = write!(std::io::stderr(), "\r{}: {amount}\x1b[K", self.what).and_then(|()| std::io::stderr().flush());
    }

    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
