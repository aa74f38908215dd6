//! `dictum lab compare` from one end to the other, as short as it can be: it starts Dictum and Redis, measures, and writes what it saw.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of processes has files")]

use std::process::Command;

use lab::compare::summary::Summary;
use tempfile::tempdir;

use crate::common::DICTUM;

fn compare(folder: &std::path::Path, words: &[&str]) -> (bool, String) {
    let done = Command::new(DICTUM).current_dir(folder).args(["lab", "compare", "--quiet"]).args(words).output();
    let done = done.expect("it runs");
    (
        done.status.success(),
        format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr)),
    )
}

#[test]
fn both_sides_are_started_measured_and_told() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("redis-server is not installed: not tried");
        return;
    }
    let folder = tempdir().unwrap();
    let (good, told) = compare(
        folder.path(),
        &["--peers", "redis-wait", "--rows", "set1", "--seconds", "1", "--warm-up", "0", "--repeats", "1"]
            .into_iter()
            .chain(["--keys", "500", "--append", "history.jsonl", "-o", "report.html"])
            .collect::<Vec<&str>>(),
    );
    assert!(good, "{told}");
    assert!(told.contains("fsynced on a majority") && told.contains("received by one replica"), "{told}");
    let line = std::fs::read_to_string(folder.path().join("history.jsonl")).unwrap();
    let summary: Summary = serde_json::from_str(line.trim()).unwrap();
    let row = &summary.rows[0];
    assert_eq!((row.row.as_str(), row.sides.len(), row.ratios.len()), ("set1", 2, 1), "{row:?}");
    assert!(row.ratios["redis-wait"].value > 0.0 && summary.environment.cores > 0);
    let report = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(report.contains("received by one replica"), "the report says what each side promises");
    let left: Vec<_> = std::fs::read_dir(folder.path().join("dictum-lab")).unwrap().collect();
    assert_eq!(left.len(), 1, "the record stays, and no side's data: {left:?}");
}

#[test]
fn what_cannot_be_compared_is_told() {
    let folder = tempdir().unwrap();
    for (words, part) in [
        (["--peers", "oracle"], "redis-wait,etcd,cassandra,nats"),
        (["--rows", "set2"], "set1,set256"),
        (["--peers-program", "/nowhere/lab-peers"], "cargo build --release --manifest-path lab-peers/Cargo.toml"),
    ] {
        let (good, told) = compare(folder.path(), &words);
        assert!(!good && told.contains(part), "{told}");
    }
}

/// Where `bench/peers --prepare` has put what it built, if it has.
fn prepared() -> Option<(String, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let (programs, peers) = (root.join("bench/work/bin"), root.join("lab-peers/target/release/lab-peers"));
    let there = programs.join("nats-server").exists() && programs.join("cassandra").exists() && peers.exists();
    there.then(|| (programs.display().to_string(), peers.display().to_string()))
}

#[test]
#[ignore = "needs `bench/peers --only dictum,cassandra,nats --prepare`, and starts three Java machines"]
fn cassandra_and_nats_are_started_filled_measured_and_killed() {
    let Some((programs, peers)) = prepared() else {
        eprintln!("`bench/peers --only dictum,cassandra,nats --prepare` has not been run: not tried");
        return;
    };
    let folder = tempdir().unwrap();
    let (good, told) = compare(
        folder.path(),
        &[
            "--peers",
            "cassandra,nats",
            "--rows",
            "set1,get256,ycsb-a,kill",
            "--seconds",
            "1",
            "--repeats",
            "1",
            "--kills",
            "1",
        ]
        .into_iter()
        .chain(["--keys", "500", "--records", "100", "--append", "history.jsonl"])
        .chain(["--programs", &programs, "--peers-program", &peers])
        .collect::<Vec<&str>>(),
    );
    assert!(good, "{told}");
    assert!(told.contains("not linearizable beside writes that fail") && told.contains("asks nobody"), "{told}");
    let line = std::fs::read_to_string(folder.path().join("history.jsonl")).unwrap();
    let summary: Summary = serde_json::from_str(line.trim()).unwrap();
    assert_eq!(summary.rows.len(), 4);
    for row in &summary.rows {
        assert!(row.sides["cassandra"].median > 0.0 && row.sides["nats"].median > 0.0, "{row:?}");
    }
}
