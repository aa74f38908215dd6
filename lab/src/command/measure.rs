//! From arguments to a record: building the workload, filling it, loading it, and what all commands share of that.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use super::progress::Progress;
use crate::environment::examine;
use crate::load::{Load, Pacing, Snapshot, run};
use crate::record::{Environment, FORMAT, Record, Side};
use crate::workload::{Fill, Parameters, Workload, find};

/// Operations under way of each client while records are filled in, over RESP.
const FILL_PIPELINE: u32 = 16;
/// Clients that fill, at most.
const FILL_CLIENTS_MAX: u32 = 64;

/// The workload that is called `name`, or that the file of this name describes.
pub(crate) fn workload(name: &str, parameters: &Parameters) -> Result<Arc<dyn Workload>, String> {
    let mut parameters = parameters.clone();
    let shape = if name.ends_with(".toml") {
        parameters.file = Some(name.into());
        find("custom")?
    } else {
        find(name)?
    };
    Ok(Arc::from((shape.build)(&parameters)?))
}

/// Writes the workload's records. Errors while doing so end it: what is not there cannot be measured.
pub(crate) fn fill(load: &Load, workload: &Arc<dyn Workload>, stop: &AtomicBool, quiet: bool) -> Result<(), String> {
    let records = workload.records();
    if records == 0 {
        return Ok(());
    }
    let mut filling = load.clone();
    filling.clients = load.clients.min(FILL_CLIENTS_MAX);
    filling.pipeline = if load.target.speaks_http() { 1 } else { FILL_PIPELINE };
    filling.pacing = Pacing::Closed;
    filling.warm_up = 0;
    filling.seconds = f64::INFINITY;
    filling.operations = None;
    let mut progress = Progress::new(quiet);
    let workload = Fill::new(Arc::clone(workload));
    let (measured, _) = run(&filling, &workload, None, stop, &mut |snapshot: &Snapshot| {
        let share = 100.0 * snapshot.total as f64 / records as f64;
        progress.show(&format!("loading {records} records, {share:.0} %"), snapshot, f64::INFINITY);
    })?;
    progress.end();
    let errors: u64 = measured.operations.values().map(|operation| operation.errors).sum();
    if errors > 0 {
        let said: Vec<String> = measured.errors.iter().map(|(text, count)| format!("{count}× {text}")).collect();
        return Err(format!("{errors} of {records} records could not be loaded: {}", said.join(", ")));
    }
    Ok(())
}

/// A record without measurements, begun now, of one side that is only known by its address.
pub(super) fn begin_record(load: &Load, experiment: &str, title: &str, question: &str) -> Record {
    let mut record = blank_record(&std::env::temp_dir(), experiment, title, question);
    record.sides.push(Side {
        id: "target".to_owned(),
        name: load.target.told_version(load.timeout).unwrap_or_else(|| load.target.to_string()),
        nodes: load.target.addresses.len() as u32,
        durability: "as the target is set up; the lab did not start it".to_owned(),
        consistency: "as the target is set up; the lab did not start it".to_owned(),
        configuration: vec![("address".to_owned(), load.target.to_string())],
    });
    record
}

/// A record without sides and measurements, begun now, of data that will lie in `folder`. Takes about 0.6 s, in which the machine is
/// looked at.
pub(super) fn blank_record(folder: &Path, experiment: &str, title: &str, question: &str) -> Record {
    let started_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let mut record = Record {
        format: FORMAT,
        experiment: experiment.to_owned(),
        title: title.to_owned(),
        question: question.to_owned(),
        command: command_line(),
        started_ms,
        ..Record::default()
    };
    match environment(folder) {
        Ok(environment) => record.environment = environment,
        Err(reason) => record.notes.push(format!("The machine could not be described: {reason}.")),
    }
    record
}

/// The machine as it is now, and how long syncs take in `folder`.
fn environment(folder: &Path) -> Result<Environment, String> {
    examine(folder, [("dictum".to_owned(), env!("CARGO_PKG_VERSION").to_owned())].into())
}

/// This process's command line, as a shell takes it.
pub(crate) fn command_line() -> String {
    let words: Vec<String> = std::env::args().map(|word| quoted(&word)).collect();
    words.join(" ")
}

/// A word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("--target=redis://127.0.0.1:7001"), "--target=redis://127.0.0.1:7001");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_record_tells_of_its_machine() {
        let folder = tempfile::tempdir().unwrap();
        let record = blank_record(folder.path(), "run", "a title", "a question");
        let environment = &record.environment;
        assert!(
            environment.fsync_p50 > 0 && environment.memory_bytes > 0 && !environment.disk.is_empty(),
            "{record:?}"
        );
        assert!(environment.versions.contains_key("dictum") && record.notes.is_empty(), "{record:?}");
        let record = blank_record(Path::new("/nowhere"), "run", "a title", "a question");
        assert!(record.notes[0].contains("/nowhere"), "{record:?}");
    }

    #[test]
    fn workloads_are_found_by_name() {
        assert!(workload("puts-gets", &Parameters::default()).is_ok());
        let error = workload("nonesuch", &Parameters::default()).err().unwrap();
        assert!(error.contains("there is no workload `nonesuch`"), "{error}");
        let error = workload("puts-gets", &Parameters { records: Some(0), ..Parameters::default() }).err().unwrap();
        assert!(error.contains("0 records"), "{error}");
    }
}
