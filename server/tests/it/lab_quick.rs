//! `dictum lab quick`, `verify` and `matrix` from end to end: they start clusters of their own, and leave a record, a report and nothing else.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of processes has clocks, files and threads"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use lab::command::{EXIT_BROKEN, EXIT_INTERRUPTED};
use lab::record::Record;
use lab::store;
use rustix::process::Signal;
use tempfile::{TempDir, tempdir};

use crate::common::{Client, DICTUM, Dev, signal, wait_for};

/// One cluster at a time: each measures, and more than one only make each other slow.
static ALONE: Mutex<()> = Mutex::new(());

fn lab(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(DICTUM);
    command.arg("lab").args(line.split(' ')).current_dir(folder).env("TMPDIR", folder.join("tmp"));
    command
}

fn place() -> TempDir {
    let folder = tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("tmp")).expect("a folder");
    folder
}

fn told(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The folder of the only run.
fn run_folder(folder: &Path) -> PathBuf {
    let mut runs = fs::read_dir(folder.join("dictum-lab")).expect("a folder of runs").flatten();
    let run = runs.next().expect("a run").path();
    assert!(runs.next().is_none());
    run
}

fn record(folder: &Path) -> Record {
    store::read(&run_folder(folder)).expect("the record is whole")
}

/// The report, which has the shape of one.
fn report(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a report");
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</body></html>\n"));
    for tag in ["section", "svg", "table", "main", "figure"] {
        let count = |what: String| text.matches(&what).count();
        let begun = count(format!("<{tag}>")) + count(format!("<{tag} "));
        assert!(begun > 0 && begun == count(format!("</{tag}>")), "{tag}");
    }
    text
}

/// Processes whose command line names the folder: nodes name that of their data.
fn processes_of(folder: &Path) -> Vec<String> {
    let of = |entry: fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(&*folder.to_string_lossy()).then_some(line)
    };
    fs::read_dir("/proc").expect("processes").flatten().filter_map(of).collect()
}

fn nothing_is_left(folder: &Path) {
    assert_eq!(processes_of(folder), [""; 0]);
    let left: Vec<_> = fs::read_dir(folder.join("tmp")).expect("a folder").flatten().map(|it| it.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_quick_look_tells_what_it_saw() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = place();
    let output = lab(folder.path(), "quick --short -o report.html").output().expect("it starts");
    let text = told(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("report: report.html") && text.contains("held"), "{text}");
    let record = record(folder.path());
    let ids: Vec<&str> = record.measurements.iter().map(|measurement| measurement.id.as_str()).collect();
    assert_eq!(ids, ["ycsb-a", "ycsb-b", "ycsb-a-open", "leader-killed"]);
    assert!(record.measurements.iter().all(|it| it.throughput > 0.0 && !it.counters.is_empty()), "{text}");
    let open = &record.measurements[2];
    assert!(open.rate.is_some() && open.operations.values().all(|operation| operation.service.is_some()));
    let marks: Vec<&str> = record.measurements[3].marks.iter().map(|mark| mark.what.as_str()).collect();
    assert!(marks.iter().any(|what| what.ends_with("(leader) killed")), "{marks:?}");
    assert!(marks.iter().any(|what| what.ends_with("started again")), "{marks:?}");
    let verdict = record.verdict.expect("it was checked");
    assert!(verdict.holds && verdict.properties.len() >= 3, "{verdict:?}");
    let environment = &record.environment;
    assert!(environment.fsync_p50 > 0 && !environment.cpu.is_empty() && environment.versions.contains_key("dictum"));
    let html = report(&folder.path().join("report.html"));
    assert!(html.contains("lab quick --short"));
    nothing_is_left(folder.path());
}

#[test]
fn faults_are_drawn_and_the_history_holds() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = place();
    let output = lab(folder.path(), "verify --minutes 0.15 --seed 3 --rate 300").output().expect("it starts");
    let text = told(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let record = record(folder.path());
    assert!(record.command.ends_with("verify --minutes 0.15 --seed 3 --rate 300"), "{}", record.command);
    assert!(!record.measurements[0].marks.is_empty() && record.notes.iter().any(|note| note.contains("the seed 3")));
    let kinds: Vec<&String> = record.measurements[0].operations.keys().collect();
    assert_eq!(kinds.len(), 9, "{kinds:?}");
    assert!(record.verdict.is_some_and(|verdict| verdict.holds));
    report(&run_folder(folder.path()).join("report.html"));
    nothing_is_left(folder.path());
}

#[test]
fn a_history_that_cannot_be_explained_raises_the_alarm() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = place();
    let output = lab(folder.path(), "verify --minutes 0.05 --rate 300 --forge").output().expect("it starts");
    let text = told(&output);
    assert_eq!(output.status.code(), Some(i32::from(EXIT_BROKEN)), "{text}");
    assert!(text.contains("A promise was broken"), "{text}");
    let record = record(folder.path());
    // The seed that the clock has drawn is in the command that repeats it.
    assert!(record.command.contains(" --seed "), "{}", record.command);
    let verdict = record.verdict.expect("it was checked");
    assert!(!verdict.holds && verdict.offending.iter().any(|event| event.answered.contains("forged")), "{verdict:?}");
    let html = report(&run_folder(folder.path()).join("report.html"));
    assert!(html.contains("forged"), "the drawing shows it");
    nothing_is_left(folder.path());
}

#[test]
fn a_matrix_that_was_interrupted_goes_on() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = place();
    let matrix = "title = \"t\"\nquestion = \"q\"\nseconds = 1\n[base]\nreplicas = 1\nrecords = 50\nclients = 2\n[[sweep]]\n\
        field-bytes = [10, 100, 1000]\n";
    fs::write(folder.path().join("small.toml"), matrix).expect("a file");
    let mut first = lab(folder.path(), "matrix small.toml --quiet").stdout(Stdio::null()).spawn().expect("it starts");
    let run = wait_for("a first point", || {
        let run = fs::read_dir(folder.path().join("dictum-lab")).ok()?.flatten().next()?.path();
        run.join("record.json").exists().then_some(run)
    });
    signal(first.id(), Signal::INT);
    let code = first.wait().expect("it ends").code();
    assert_eq!(code, Some(i32::from(EXIT_INTERRUPTED)));
    let measured = record(folder.path()).measurements;
    assert!((1..3).contains(&measured.len()), "{}", measured.len());

    let line = format!("matrix --resume {}", run.display());
    let output = lab(folder.path(), &line).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let record = record(folder.path());
    assert_eq!(record.measurements.len(), 3);
    // What was measured before is as it was.
    assert_eq!(record.measurements[..measured.len()], measured[..]);
    let values: Vec<&str> = record.measurements.iter().map(|it| it.variables["field-bytes"].as_str()).collect();
    assert_eq!(values, ["10", "100", "1000"]);
    report(&run.join("report.html"));
    nothing_is_left(folder.path());
}

#[test]
fn a_matrix_and_a_run_have_witnesses() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = place();
    let matrix = "title = \"t\"\nquestion = \"q\"\nseconds = 1\n[base]\nreplicas = 1\nrecords = 50\nclients = 2\n[[sweep]]\n\
        consistency = [\"linearizable\", \"local\"]\n";
    fs::write(folder.path().join("small.toml"), matrix).expect("a file");
    let output = lab(folder.path(), "matrix small.toml --quiet --check").output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let checked = record(folder.path());
    assert!(checked.verdict.as_ref().is_some_and(|verdict| verdict.holds && verdict.beside), "{:?}", checked.verdict);
    let notes = checked.notes.iter().filter(|note| note.contains("may be stale"));
    assert_eq!(notes.count(), 1, "a point that may read stale is not checked: {:?}", checked.notes);
    let histories = fs::read_dir(run_folder(folder.path())).expect("a folder").flatten();
    let histories = histories.filter(|file| file.file_name().to_string_lossy().starts_with("history-")).count();
    assert_eq!(histories, 1);
    nothing_is_left(folder.path());

    // What a matrix had checked before stays when it goes on.
    let line = format!("matrix --resume {} --quiet", run_folder(folder.path()).display());
    assert_eq!(lab(folder.path(), &line).output().expect("it starts").status.code(), Some(0));
    assert_eq!(record(folder.path()).verdict, checked.verdict);

    let folder = place();
    let dev = Dev::start(&folder.path().join("tmp"), &["--nodes", "1"]);
    let address = &dev.nodes[0].resp;
    let line = format!("run puts-gets --target redis://{address} --records 50 --clients 4 --seconds 2 --quiet --check");
    let output = lab(folder.path(), &line).output().expect("it starts");
    // The machine may be too busy for its figures (3), but nothing was broken.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", told(&output));
    let run = record(folder.path());
    assert!(run.verdict.is_some_and(|verdict| verdict.holds && verdict.beside && verdict.operations > 50));
    // The witnesses' keys are deleted, the load's stay.
    let left = Client::connect(address).and_then(|mut client| client.call(&["KEYS", "lab-check:*"]));
    assert_eq!(left.expect("it answers"), wire::Value::Array(Vec::new()));

    let line = format!("{line} --forge --allow-saturated --out forged");
    let output = lab(folder.path(), &line).output().expect("it starts");
    assert_eq!(output.status.code(), Some(i32::from(EXIT_BROKEN)), "{}", told(&output));
    assert!(told(&output).contains("BROKEN: "), "{}", told(&output));
}
