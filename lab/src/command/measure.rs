//! From arguments to a record: building the workload, filling it, loading it, and what all commands share of that.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use super::progress::Progress;
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
    let started_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    Record {
        format: FORMAT,
        experiment: experiment.to_owned(),
        title: title.to_owned(),
        question: question.to_owned(),
        command: command_line(),
        started_ms,
        environment: environment(),
        sides: vec![Side {
            id: "target".to_owned(),
            name: load.target.told_version(load.timeout).unwrap_or_else(|| load.target.to_string()),
            nodes: load.target.addresses.len() as u32,
            durability: "as the target is set up; the lab did not start it".to_owned(),
            consistency: "as the target is set up; the lab did not start it".to_owned(),
            configuration: vec![("address".to_owned(), load.target.to_string())],
        }],
        ..Record::default()
    }
}

/// The command line of this process, as a shell takes it.
pub(crate) fn command_line() -> String {
    std::env::args().map(|word| quoted(&word)).collect::<Vec<String>>().join(" ")
}

/// What can be asked without measuring.
fn environment() -> Environment {
    let name = rustix::system::uname();
    let text = |bytes: &std::ffi::CStr| bytes.to_string_lossy().into_owned();
    Environment {
        cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u32),
        kernel: format!("{} {}", text(name.sysname()), text(name.release())),
        versions: [("dictum".to_owned(), env!("CARGO_PKG_VERSION").to_owned())].into(),
        ..Environment::default()
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
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
    fn workloads_are_found_by_name() {
        assert!(workload("puts-gets", &Parameters::default()).is_ok());
        let error = workload("nonesuch", &Parameters::default()).err().unwrap();
        assert!(error.contains("there is no workload `nonesuch`"), "{error}");
        let error = workload("puts-gets", &Parameters { records: Some(0), ..Parameters::default() }).err().unwrap();
        assert!(error.contains("0 records"), "{error}");
    }
}
