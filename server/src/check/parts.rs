//! The parts of a folder, one after the other, and what each of them means for the next start.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base::{Ballot, PartitionId, Position};
use node::Restorer;
use node::inspect::{self, LogSummary};
use storage::{
    DamagedPlace, Disk, Identity, JournalReport, LoadedIdentity, ReadOnlyFolder, Recovered, SnapshotError, SnapshotId,
    SnapshotReader, StoreView, Tail, list_snapshots, verify_journal, verify_store,
};

use super::Progress;
use super::report::{self, Report, Severity};
use crate::advice::{OTHER_FOLDER, OTHER_STORE};
use crate::audit;
use crate::full_sync;
use crate::low_disk::RESERVE;
use crate::peer_tls::KEY_FILE;
use crate::reset_password;

/// What to do when memory is lost: a group of one has nobody to ask.
const OTHERS: &str = "keep the other nodes running and start this one; it gets from them what it lacks (a cluster of one has \
                      nobody to ask: restore a backup)";

/// Where a state stands in the log.
type Place = (Position, Ballot);

/// The states that are in the folder.
#[derive(Default)]
struct States {
    places: BTreeMap<PartitionId, Place>,
    /// Partitions of dropped buckets: whatever else is left of them concerns nobody.
    dropped: BTreeSet<PartitionId>,
}

/// Checks every part and judges them together.
///
/// # Errors
/// Something cannot be read, or this is no node's folder; the text says what.
pub(super) fn check(folder: &ReadOnlyFolder, scratch: &Path, progress: &mut Progress) -> Result<Report, String> {
    let shown = folder.path().display();
    let reading =
        |what: &'static str| move |error: std::io::Error| format!("{what} in the folder cannot be read: {error}");
    let names = folder.list().map_err(reading("the list of files"))?;
    let is_ours = |name: &String| {
        name == "identity" || name == "store" || ["journal-", "snapshot-"].iter().any(|start| name.starts_with(start))
    };
    if !names.iter().any(is_ours) {
        return Err(format!("{shown} is not a node's folder: it holds neither an identity nor a journal"));
    }
    let mut report = Report { version: env!("CARGO_PKG_VERSION"), folder: shown.to_string(), ..Report::default() };
    let identity = Identity::load(folder).map_err(reading("the identity"))?;
    progress.begin("journal");
    let journal = verify_journal(folder, &mut |bytes| progress.read(bytes)).map_err(reading("the journal"))?;
    check_identity(&mut report, identity, &names);
    check_journal(&mut report, &journal);
    check_names(&mut report, &names, journal.blanks);
    let mut states = States::default();
    check_snapshots(&mut report, folder, &mut states.places, progress)?;
    if names.iter().any(|name| name == "store") {
        let store = folder.path().join("store");
        check_store(&mut report, &store, scratch, &journal.recovered, &mut states, progress)?;
    }
    if journal.unknown_version.is_none() {
        let unread = report
            .store
            .as_ref()
            .is_some_and(|store| store.spaces.is_none() && store.keyspaces > 0 || !store.bytes_sound);
        check_logs(&mut report, &journal.recovered, &states, unread);
    }
    report.judge();
    Ok(report)
}

fn check_identity(report: &mut Report, loaded: LoadedIdentity, names: &[String]) {
    match loaded {
        LoadedIdentity::Found(Identity { cluster, incarnation, name, .. }) => {
            report.identity = Some(report::Identity {
                node: name,
                cluster: format!("{cluster:016x}"),
                incarnation: incarnation.to_string(),
            });
        }
        LoadedIdentity::Missing => {
            let then = if names.iter().any(|name| name == "store") {
                "refused: without it the folder could be anybody's"
            } else {
                "the folder gets a new identity; what is in the journal still counts"
            };
            let finding = report.find(Severity::Damage, "identity", "the identity is missing");
            finding.then(then).advise(OTHER_FOLDER);
        }
        LoadedIdentity::Damaged(reason) if reason.contains("another version") => {
            report.find(Severity::Unknown, "identity", reason).then("refused").advise("use that version");
        }
        LoadedIdentity::Damaged(reason) => {
            let finding = report.find(Severity::Damage, "identity", reason).then("refused");
            finding.advise(OTHER_FOLDER);
        }
    }
}

fn check_journal(report: &mut Report, journal: &JournalReport) {
    let recovered = &journal.recovered;
    report.journal = report::Journal {
        segments: journal.segments,
        bytes: journal.bytes,
        frames: journal.frames,
        payloads: recovered.payloads.len(),
        payload_bytes: journal.payload_bytes,
        floor: recovered.floor,
        next_number: recovered.next_number,
        missing: recovered.damage.iter().map(|hole| [hole.after, hole.before]).collect(),
        damaged_blocks: journal
            .damaged
            .iter()
            .map(|damaged| report::DamagedBlocks {
                file: damaged.file.clone(),
                offset: damaged.offset,
                bytes: damaged.bytes,
                place: match damaged.place {
                    DamagedPlace::Past => "past",
                    DamagedPlace::End => "end",
                    DamagedPlace::Unused => "unused",
                },
            })
            .collect(),
        tail: match recovered.tail {
            _ if recovered.fresh => "",
            Tail::Clean => "clean",
            Tail::Torn => "torn",
            Tail::Unprovable => "unprovable",
        },
    };
    if let Some(version) = journal.unknown_version {
        let text = format!("the journal was written by another version of Dictum (format {version})");
        report.find(Severity::Unknown, "journal", text).then("refused").advise("use that version");
        return;
    }
    if recovered.holds_nothing() && report.identity.is_some() {
        let text = "the journal is missing, or empty, though the folder was in use";
        let finding = report.find(Severity::Damage, "journal", text);
        finding.then("the node takes its memory for lost and does not vote before it has recovered").advise(OTHERS);
        return;
    }
    let first = recovered.damage.first().map(|hole| (hole.after + 1, hole.before.saturating_sub(1)));
    if let Some((from, until)) = first {
        let more = recovered.damage.len() - 1;
        let more = if more > 0 { format!(" (and {more} more ranges)") } else { String::new() };
        let text = format!("the journal has lost the payloads {from} to {until}{more}, which were acknowledged");
        let finding = report.find(Severity::Damage, "journal", text);
        finding.then("what the log lacks because of it is told below").advise(OTHERS);
    }
    match recovered.tail {
        Tail::Clean => {}
        Tail::Torn => {
            let text = "the journal ends with a frame that was being written; its commit never returned";
            report.find(Severity::UnsyncedEnd, "journal", text).then("it is forgotten");
        }
        Tail::Unprovable => {
            let text = "the journal's end is damaged: it may have held what was acknowledged last";
            let finding = report.find(Severity::Damage, "journal", text);
            finding.then("the node does not vote before it has recovered from the others").advise(OTHERS);
        }
    }
    let harmless = |place| journal.damaged.iter().filter(|damaged| damaged.place == place).count();
    let unused = harmless(DamagedPlace::Unused);
    let past = if recovered.damage.is_empty() { harmless(DamagedPlace::Past) } else { 0 };
    if unused + past > 0 {
        let text = "blocks of the journal have rotted in places that do not count any more, or not yet";
        report.find(Severity::Note, "journal", text).then("they are written over in time");
    }
}

/// Leftovers, and what nobody of us has put there.
fn check_names(report: &mut Report, names: &[String], blanks: usize) {
    let unfinished = names.iter().filter(|name| name.ends_with(".tmp")).count() + blanks;
    if unfinished > 0 {
        let text = format!("{unfinished} unfinished files are left from an earlier life");
        report.find(Severity::Note, "folder", text).then("they are removed");
    }
    let ours = [
        "LOCK",
        "identity",
        "identity.tmp",
        "store",
        "lost+found",
        RESERVE,
        full_sync::FOLDER,
        audit::FOLDER,
        KEY_FILE,
        reset_password::FILE,
    ];
    let strange: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !ours.contains(name) && !["journal-", "snapshot-"].iter().any(|start| name.starts_with(start)))
        .collect();
    if !strange.is_empty() {
        let text = format!("files that Dictum does not know: {}", strange.join(", "));
        report.find(Severity::Note, "folder", text).then("they are left alone");
    }
}

fn check_snapshots(
    report: &mut Report,
    folder: &ReadOnlyFolder,
    states: &mut BTreeMap<PartitionId, Place>,
    progress: &mut Progress,
) -> Result<(), String> {
    progress.begin("snapshots");
    let found = list_snapshots(folder).map_err(|error| format!("the snapshots cannot be listed: {error}"))?;
    // The newest first, as a start takes them.
    for id in found.into_iter().rev() {
        let mut line = report::Snapshot {
            partition: id.partition.to_string(),
            position: id.position.0,
            ..report::Snapshot::default()
        };
        match check_snapshot(folder, id, &mut line, progress) {
            Ok(ballot) => {
                line.sound = true;
                states.entry(id.partition).or_insert((id.position, ballot));
            }
            Err(SnapshotFault::Version(error)) => {
                report.find(Severity::Unknown, "snapshot", error).then("refused").advise("use that version");
            }
            Err(SnapshotFault::Damage(reason)) => {
                let text = format!("the snapshot of partition {id} is damaged: {reason}");
                let finding = report.find(Severity::Damage, "snapshot", text);
                let then =
                    "it is passed over: an older one is used, and what the log then lacks comes from the other nodes";
                finding.then(then).advise(OTHERS);
            }
        }
        report.snapshots.push(line);
    }
    report.snapshots.reverse();
    Ok(())
}

enum SnapshotFault {
    Damage(String),
    Version(String),
}

impl From<SnapshotError> for SnapshotFault {
    fn from(error: SnapshotError) -> SnapshotFault {
        match error {
            SnapshotError::UnknownVersion(_) => SnapshotFault::Version(error.to_string()),
            SnapshotError::Damaged { offset, reason } => SnapshotFault::Damage(format!("at byte {offset}: {reason}")),
            SnapshotError::Missing | SnapshotError::Io(_) => SnapshotFault::Damage(error.to_string()),
        }
    }
}

/// Reads and decodes a whole snapshot. Gives the ballot of its last entry.
fn check_snapshot(
    folder: &ReadOnlyFolder,
    id: SnapshotId,
    line: &mut report::Snapshot,
    progress: &mut Progress,
) -> Result<Ballot, SnapshotFault> {
    let mut reader = SnapshotReader::open(folder, id)?;
    line.bytes = reader.file_bytes();
    let mut restorer = Restorer::default();
    while let Some(block) = reader.next_block()? {
        let pushed = restorer.push_block(&block);
        if let Some(version) = restorer.other_version() {
            return Err(SnapshotError::UnknownVersion(version.into()).into());
        }
        pushed.map_err(|reason| SnapshotFault::Damage(format!("block {}: {reason}", line.blocks)))?;
        line.blocks += 1;
        progress.read(block.len() as u64);
    }
    let state = inspect::snapshot(restorer).map_err(SnapshotFault::Damage)?;
    line.keys = state.keys;
    if state.position != id.position {
        let text = format!("its file is of position {}, its state of position {}", id.position, state.position);
        return Err(SnapshotFault::Damage(text));
    }
    Ok(state.ballot)
}

fn check_store(
    report: &mut Report,
    folder: &Path,
    scratch: &Path,
    journal: &Recovered,
    states: &mut States,
    progress: &mut Progress,
) -> Result<(), String> {
    progress.begin("store, checksums");
    let found = verify_store(folder, &mut |bytes| progress.read(bytes))
        .map_err(|error| format!("the store cannot be read: {error}"))?;
    let mut line = report::Store {
        keyspaces: found.keyspaces,
        tables: found.tables,
        value_files: found.value_files,
        table_bytes: found.table_bytes,
        journals: found.journals,
        batches: found.batches,
        cut_bytes: found.cut_bytes,
        leftovers: found.leftovers,
        bytes_sound: found.problems.is_empty(),
        spaces: None,
        states: Vec::new(),
    };
    for problem in &found.problems {
        let text = format!("store/{} {}", problem.file, problem.text);
        let finding = report.find(Severity::Damage, "store", text);
        finding
            .then("the node does not start, or stops with a message when it reads what is damaged")
            .advise(OTHER_STORE);
    }
    if found.crashes > 0 {
        let (severity, then) = match found.crashes {
            3.. => (Severity::Damage, "refused: the store counts as damaged"),
            _ => (Severity::Note, "it is tried again; after three times it counts as damaged"),
        };
        let text = format!("opening the store has ended {} times in a row with the end of the process", found.crashes);
        let finding = report.find(severity, "store", text).then(then);
        if severity == Severity::Damage {
            finding.advise(OTHER_STORE);
        }
    }
    if found.cut_bytes > 0 {
        let text = format!("the store's journal ends with {} bytes that are no whole batch", found.cut_bytes);
        report
            .find(Severity::UnsyncedEnd, "store", text)
            .then("they are cut off; what they held is in the log as well, unless that is said to lack entries");
    }
    if found.leftovers > 0 {
        let text = format!("{} files in the store are left from an earlier life", found.leftovers);
        report.find(Severity::Note, "store", text).then("they are removed");
    }
    if found.problems.is_empty() && found.keyspaces > 0 {
        progress.begin("store, records");
        read_store(report, &mut line, folder, scratch, journal, states, progress);
    }
    report.store = Some(line);
    Ok(())
}

/// Opens the store elsewhere, and reads the states in it.
fn read_store(
    report: &mut Report,
    line: &mut report::Store,
    folder: &Path,
    scratch: &Path,
    journal: &Recovered,
    states: &mut States,
    progress: &mut Progress,
) {
    if scratch.exists() {
        let text = format!("{} is there already, perhaps left by a check that was killed", scratch.display());
        report.find(Severity::Unknown, "store", text).advise("remove it, or choose another folder with --scratch");
        return;
    }
    let view = match StoreView::open(folder, scratch) {
        Ok(view) => view,
        Err(error) if error.full => {
            let text = format!("{} has too little room for the store's journal: {error}", scratch.display());
            report.find(Severity::Unknown, "store", text).advise("choose another folder with --scratch");
            return;
        }
        Err(error) => {
            let finding = report.find(Severity::Damage, "store", error.text);
            finding.then("refused, with the same words").advise(OTHER_STORE);
            return;
        }
    };
    let spaces = view.store().spaces();
    line.spaces = Some(spaces.len());
    let below = super::below(&view);
    let damage = |report: &mut Report, text: String| {
        let finding = report.find(Severity::Damage, "store", text);
        finding
            .then("the node does not start, or stops with a message when it reads what is damaged")
            .advise(OTHER_STORE);
    };
    let mut used = BTreeSet::from([base::ordered::Space(0)]);
    let partitions = match inspect::partitions_of_store(&below) {
        Ok(partitions) => partitions,
        Err(reason) => return damage(report, reason),
    };
    for partition in partitions {
        match inspect::state_in_store(&below, partition, &mut |records| progress.decoded(records)) {
            Ok(state) => {
                used.extend(state.spaces);
                states.places.insert(partition, (state.position, state.ballot));
                line.states.push(report::StoredState {
                    partition: partition.to_string(),
                    position: state.position.0,
                    records: state.keys,
                    with_deadline: state.with_deadline,
                    revision: state.revision,
                });
            }
            Err(reason) => damage(report, format!("the state of partition {partition} in the store: {reason}")),
        }
    }
    match inspect::dropped_partitions(&below, journal) {
        Ok(found) => states.dropped = found,
        Err(reason) => damage(report, reason),
    }
    let unused = spaces.iter().filter(|space| !used.contains(space)).count();
    if unused > 0 {
        let text = format!("{unused} spaces of the store belong to no state");
        report.find(Severity::Note, "store", text).then("they are dropped");
    }
}

/// Every partition's log behind its state. `unread`: there is a store whose states could not be read.
fn check_logs(report: &mut Report, recovered: &Recovered, states: &States, unread: bool) {
    let refused = |report: &mut Report, reason: String| {
        let finding = report.find(Severity::Damage, "log", reason).then("refused, with the same words");
        finding.advise(OTHER_FOLDER);
    };
    let mut partitions = match inspect::partitions_of_journal(recovered) {
        Ok(partitions) => partitions,
        Err(reason) => return refused(report, reason),
    };
    partitions.extend(states.places.keys());
    if !states.dropped.is_empty() {
        let count = states.dropped.len();
        let text = format!("the journal still has something of {count} partitions whose buckets were dropped");
        report.find(Severity::Note, "log", text).then("it is not looked at, and goes as the journal is discarded");
    }
    for partition in partitions.into_iter().filter(|partition| !states.dropped.contains(partition)) {
        let state = states.places.get(&partition).copied();
        match inspect::log(partition, recovered, state) {
            Ok(mut log) => {
                if unread && state.is_none() && log.hole.is_some_and(|(from, _)| from == Position(1)) {
                    // It is what the store should have. What is to be done about the store is told already.
                    log.hole = None;
                }
                check_log(report, partition, state, log);
            }
            Err(reason) => return refused(report, reason),
        }
    }
}

fn check_log(report: &mut Report, partition: PartitionId, state: Option<Place>, log: LogSummary) {
    if let Some((from, until)) = log.hole {
        let text = format!("partition {partition} lacks the decided entries {from} to {until}");
        let finding = report.find(Severity::Damage, "log", text);
        finding.then("the node asks the others for them, or for their state").advise(OTHERS);
    }
    if log.unprovable {
        let text = format!("partition {partition} cannot prove what it promised last");
        let finding = report.find(Severity::Damage, "log", text);
        finding.then("the node does not vote in it before it has recovered from the others").advise(OTHERS);
    }
    if let Some(first) = log.malformed.first() {
        let text = format!("partition {partition} has an entry at {first} that this version does not understand");
        report.find(Severity::Damage, "log", text).then("it changes nothing when it is applied").advise("");
    }
    if log.recovering && !log.unprovable {
        let text = format!("partition {partition} had lost its memory before and has not recovered it yet");
        report.find(Severity::Note, "log", text).then("it goes on recovering: the others must be up");
    }
    report.partitions.push(report::Partition {
        partition: partition.to_string(),
        promised: log.promised.to_string(),
        decided: log.decided.0,
        voters: log.voters,
        state: state.map(|(position, _)| position.0),
        log_base: log.base.0,
        log_last: log.last.0,
        entries: log.entries,
        hole: log.hole.map(|(from, until)| [from.0, until.0]),
        provable: !log.unprovable,
        recovering: log.recovering,
    });
}
