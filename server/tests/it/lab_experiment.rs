//! The laboratory's experiments from the command line to the report, in their short form: real clusters, real faults.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of processes has clocks, files and threads"
)]

use std::path::Path;
use std::process::Command;

use lab::Record;
use lab::command::EXIT_BROKEN;
use tempfile::tempdir;

use crate::common::DICTUM;

/// Carries an experiment out below `folder`, and reads what it has left: its record and its report.
fn carry_out(folder: &Path, words: &[&str]) -> (Record, String) {
    ended_with(folder, words, 0)
}

/// As [`carry_out`], with the exit code that it must have.
fn ended_with(folder: &Path, words: &[&str], code: u8) -> (Record, String) {
    let (runs, report) = (folder.join(words[0]), folder.join("report.html"));
    let mut command = Command::new(DICTUM);
    command.args(["lab", "experiment"]).args(words).arg("--quiet");
    command.arg("--out").arg(&runs).arg("-o").arg(&report);
    let output = command.output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(i32::from(code)), "{words:?}: {said}");
    let written = std::fs::read_dir(&runs).expect("a folder").next().expect("a record").expect("it can be read");
    let record = lab::store::read(&written.path()).expect("a record");
    (record, std::fs::read_to_string(report).expect("a report"))
}

#[test]
fn a_failover_is_measured_and_its_history_holds() {
    let folder = tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let data = data.to_str().expect("a path that is text");
    let (record, report) = carry_out(
        folder.path(),
        &["failover", "--short", "--faults", "killed", "--check", "--rate", "200", "--clients", "8", "--data", data],
    );
    let measurement = &record.measurements[0];
    assert!(measurement.marks[0].what.ends_with("(leader) killed"), "{:?}", measurement.marks);
    assert!(measurement.marks.iter().any(|mark| mark.what.ends_with(" leads")), "{:?}", measurement.marks);
    // Whoever asks before another node leads waits for it; a silence shorter than what counts as one is 0.
    for waited in ["slowest_answer_ms", "until_another_leads_ms", "catch_up_ms"] {
        assert!(measurement.counters[waited] > 0.0, "{waited}: {:?}", measurement.counters);
    }
    assert!(measurement.counters["silence_ms"] < 10_000.0, "{:?}", measurement.counters);
    let verdict = record.verdict.expect("it was asked for");
    assert!(verdict.holds && verdict.properties.len() == 2, "{verdict:?}");
    assert!(report.contains("(leader) killed") && report.contains(&record.findings[0]), "{:?}", record.findings);
    assert_eq!(std::fs::read_dir(data).expect("a folder").count(), 0, "the clusters are gone with their folders");
}

#[test]
fn neighbours_and_scaling_come_to_a_report_and_costs_to_a_comparison() {
    let folder = tempdir().expect("a temporary folder");
    let (record, report) = carry_out(folder.path(), &["neighbour", "--short", "--clients", "8", "--check"]);
    let sides: Vec<&str> = record.measurements.iter().map(|measurement| measurement.side.as_str()).collect();
    assert_eq!(sides, ["quiet", "noise-50", "slow-follower-10"]);
    assert!(
        record.measurements.iter().all(|m| m.throughput > 0.0 && m.counters.contains_key("throughput_times_quiet"))
    );
    assert!(report.contains("compared with a quiet machine"));
    let verdict = record.verdict.expect("it was asked for");
    assert!(verdict.holds && verdict.beside && verdict.operations > 100, "{verdict:?}");
    assert!(report.contains("keys of witnesses beside the load that were checked"));

    let (record, report) =
        carry_out(folder.path(), &["scaling", "--short", "--clients", "8", "--partition-clients", "32", "--check"]);
    let ids: Vec<&str> = record.measurements.iter().map(|measurement| measurement.id.as_str()).collect();
    assert_eq!(ids, ["clients-4", "clients-6", "partitions-1-1", "partitions-4-1", "nodes-1-1"]);
    let of_four = &record.measurements[3];
    assert_eq!((of_four.variables["partitions"].as_str(), of_four.clients), ("4", 32));
    assert!(of_four.throughput > 0.0 && of_four.errors.is_empty(), "{:?}", of_four.errors);
    assert!(record.findings[0].starts_with("More partitions") && report.contains("in a bucket of 4 partitions costs"));
    // One history of the clients, one of each bucket, one of each cluster: all of them hold.
    let verdict = record.verdict.as_ref().expect("it was asked for");
    assert!(verdict.holds && verdict.properties[0].detail.starts_with("held in 4 of 4 histories"), "{verdict:?}");
    let last = record.measurements.last().expect("one of one node");
    assert_eq!((last.variables["nodes"].as_str(), record.measurements.len()), ("1", 5));
    // A node alone has nobody to send messages to, three have.
    let messages = |at: usize| record.measurements[at].counters["messages_per_operation"];
    assert!(messages(0) > 0.5 && messages(4) < 0.1, "{:?}", record.measurements[4].counters);

    let run =
        folder.path().join("scaling").read_dir().expect("a folder").next().expect("a record").expect("readable").path();
    let [small, large] = ["small", "large"].map(|name| format!("{name}={}", run.display()));
    let (record, report) =
        carry_out(folder.path(), &["cost", &small, &large, "--price", "small=0.1", "--price", "large=0.2"]);
    assert!(report.contains("price per million operations"));
    let price = |at: usize| record.measurements[at].counters["price_per_million_operations"];
    assert!((price(5) / price(0) - 2.0).abs() < 1e-9, "the same figures at twice the price");
}

#[test]
fn a_violation_beside_a_load_raises_the_alarm() {
    let folder = tempdir().expect("a temporary folder");
    let words = ["scaling", "--short", "--parts", "partitions", "--partition-clients", "32", "--check", "--forge"];
    let (record, report) = ended_with(folder.path(), &words, EXIT_BROKEN);
    let verdict = record.verdict.expect("it was checked");
    assert!(!verdict.holds && verdict.offending.iter().any(|event| event.answered.contains("forged")), "{verdict:?}");
    assert!(report.contains("What breaks the promise") && report.contains("forged"), "the drawing shows it");
    assert!(report.contains("A promise was broken"), "the first page says it");
}
