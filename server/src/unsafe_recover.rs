//! `dictum unsafe-recover`: one stopped node goes on alone when a majority is gone for good.
//!
//! Without consent it only says what would be lost. What there is to be written, and why it is that, is in `node/src/alone.rs`; here the folder
//! is read as a start reads it, after it was checked as `dictum check` checks it.

mod report;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use base::WallTime;
use node::Recovered;
use node::alone::{self, Plan, Survivor};
use storage::{
    Disk, Files, Identity, Journal, JournalOptions, LoadedIdentity, ReadOnlyFolder, StoreView, verify_journal,
};

use crate::audit::{self, Entry};
use crate::check::{self, Progress, Severity, Verdict};
use crate::options::parse_cluster;
use crate::snapshots;
use crate::standing::Standing;
use report::Report;

/// It was refused, or failed.
const EXIT_REFUSED: u8 = 1;
/// Exit code if it was done, and the report could not be written.
const EXIT_UNPRINTED: u8 = 3;

const HELP: &str = "\
For a cluster that has lost a majority of its nodes for good: their disks are gone, and nobody can decide anything any more. If so many
are left that more than half of those who vote can be started, start these instead: then nothing is lost.

Run it without --accept-loss on the folder of every node that is left, all of them stopped: it changes nothing, and says how far each is.
Choose the one that is furthest, and run it there with --accept-loss. From then on that node is the only voter of everything. Start it
as ever; let others join. All other nodes of before are not listened to any more, should they come back, and are told so.

What is lost: every write that this node's disk never had, although it was acknowledged; and what ephemeral buckets held.

Exit code: 0 it was done, or told; 1 it was refused or has failed; 2 wrong arguments; 3 it was done, or told, and the
report could not be written.

Examples:
  dictum unsafe-recover --cluster n1=10.0.0.1:9001,n2=10.0.0.2:9001,n3=10.0.0.3:9001 /var/lib/dictum
  dictum unsafe-recover --cluster … --accept-loss /var/lib/dictum";

/// Arguments of `dictum unsafe-recover`.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub struct UnsafeRecoverArguments {
    /// The folder of the node that shall go on; it is stopped
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// All founders of the cluster, as for `dictum start`; not needed by a node that has joined
    #[arg(long, env = "DICTUM_CLUSTER", value_name = "NAME=HOST:PORT,…")]
    cluster: Option<String>,
    /// Do it, and lose what only the other nodes have
    #[arg(long)]
    accept_loss: bool,
    /// Do it although this folder is damaged, too, or cannot prove what the node has promised
    #[arg(long, requires = "accept_loss")]
    accept_damage: bool,
    /// Print one object of JSON
    #[arg(long)]
    json: bool,
    /// Folder for temporary files, outside of DIR [default: that of the system]
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
}

/// Says what it would take, or does it.
#[must_use]
pub fn run(arguments: UnsafeRecoverArguments) -> ExitCode {
    let mut progress = Progress::new();
    let report = recover(&arguments, &mut progress);
    progress.clear();
    match report {
        Ok(report) => {
            let is_printed = check::is_printed("dictum unsafe-recover", &report, arguments.json);
            if is_printed { ExitCode::SUCCESS } else { ExitCode::from(EXIT_UNPRINTED) }
        }
        Err(reason) => {
            eprintln!("dictum unsafe-recover: {reason}");
            ExitCode::from(EXIT_REFUSED)
        }
    }
}

fn recover(arguments: &UnsafeRecoverArguments, progress: &mut Progress) -> Result<Report, String> {
    let founders = arguments.cluster.as_deref().map(parse_cluster).transpose()?;
    let scratch = arguments.scratch.as_deref();
    let checked = check::check(&arguments.dir, scratch, progress)?;
    let found = |severity| checked.findings.iter().filter(move |finding| finding.severity == severity);
    if checked.verdict == Verdict::Unknown {
        let text = found(Severity::Unknown).next().map(|finding| finding.text.as_str()).unwrap_or_default();
        return Err(format!("the folder cannot be checked: {text}"));
    }
    if let Some(finding) = found(Severity::Damage).find(|finding| ["identity", "store"].contains(&finding.part)) {
        let text = &finding.text;
        return Err(format!(
            "{text}. Without that nothing can be made of this folder: choose another survivor, or restore a backup"
        ));
    }
    let folder = ReadOnlyFolder::open(&arguments.dir).map_err(check::refused)?;
    let (standing, incarnation) = who(&folder, founders)?;
    let cluster = crate::start::chance().max(1);
    let look = |folder: &ReadOnlyFolder| {
        let journal = verify_journal(folder, &mut |_| ());
        let journal = journal.map_err(|error| format!("the journal cannot be read: {error}"))?.recovered;
        plan(folder, folder.path(), journal, (&standing, incarnation, cluster), scratch)
    };
    let planned = look(&folder)?;
    let damage = found(Severity::Damage).map(|finding| finding.text.clone()).collect();
    let mut report = Report::new(&standing, &checked.folder, planned, damage);
    if report.is_alone || !arguments.accept_loss {
        return Ok(report);
    }
    if report.is_damaged() && !arguments.accept_damage {
        return Err(format!(
            "this folder is damaged itself: {}. Nothing was changed. Look at what is lost without --accept-loss; to do it all the same add --accept-damage",
            report.first_damage()
        ));
    }
    // From here on nobody else has the folder.
    drop(folder);
    let files = Files::open(&arguments.dir).map_err(check::refused)?;
    let (mut journal, recovered) = Journal::open(files.clone(), JournalOptions::default())
        .map_err(|error| format!("the journal cannot be opened: {error}"))?;
    let planned = plan(&files, &arguments.dir, recovered, (&standing, incarnation, cluster), scratch)?;
    journal.commit(&[&planned.payload]).map_err(|error| {
        format!("the journal cannot be written: {error}. Either nothing was done or all of it: run this again to see")
    })?;
    let told = note_in_trail(arguments, &standing);
    drop((journal, files));
    let folder = ReadOnlyFolder::open(&arguments.dir).map_err(check::refused)?;
    if !look(&folder)?.is_alone {
        return Err("what was written does not read back as it should: do not start this folder; restore a copy, and report this".to_owned());
    }
    report.is_done = true;
    // It is done, and that has to be told, too.
    told.map_err(|text| format!("it was done: this node goes on alone. But {text}"))?;
    Ok(report)
}

/// Tells the node's audit trail what was done to it.
fn note_in_trail(arguments: &UnsafeRecoverArguments, standing: &Standing) -> Result<(), String> {
    let fields = vec![
        ("accept_damage", arguments.accept_damage.into()),
        ("client", "the command dictum unsafe-recover, on the stopped folder".into()),
        ("number", standing.me.0.into()),
    ];
    audit::note(&arguments.dir, &standing.own().name, Entry::new("unsafe-recover", fields))
}

/// Whose folder it is, and under which incarnation.
fn who(folder: &ReadOnlyFolder, founders: Option<Vec<node::Member>>) -> Result<(Standing, u64), String> {
    match Identity::load(folder).map_err(|error| format!("the identity cannot be read: {error}"))? {
        LoadedIdentity::Found(identity) => Ok((Standing::of_stopped(&identity, founders)?, identity.incarnation)),
        LoadedIdentity::Missing | LoadedIdentity::Damaged(_) => Err("the folder does not say whose it is".to_owned()),
    }
}

/// What it would take, by what the disk remembers.
fn plan<D: Disk>(
    disk: &D,
    path: &Path,
    journal: storage::Recovered,
    (standing, incarnation, cluster): (&Standing, u64, u64),
    scratch: Option<&Path>,
) -> Result<Plan, String> {
    let (snapshots, snapshot_damaged) =
        snapshots::find(disk).map_err(|error| format!("a snapshot cannot be read: {error}"))?;
    let store = path.join("store");
    let view = if store.join("lsm").exists() {
        let scratch = scratch.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let scratch = scratch.join(format!("dictum-unsafe-recover-{}", std::process::id()));
        Some(StoreView::open(&store, &scratch).map_err(|error| format!("the store cannot be read: {error}"))?)
    } else {
        None
    };
    let below = view.as_ref().map(check::below);
    let recovered = Recovered { incarnation, journal, snapshots, snapshot_damaged, store: below };
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let survivor = Survivor {
        me: standing.me,
        founders: &standing.founders,
        joined: &standing.joined,
        cluster,
        now: WallTime(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)),
        planted: None,
    };
    alone::plan(recovered, &survivor)
}
