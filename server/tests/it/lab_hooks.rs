//! `dictum lab verify --hooks`: a cluster that the laboratory did not start, under `dictum dev`, is disturbed by shell commands.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of processes has clocks, files and threads"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use lab::store;
use rustix::process::Signal;
use tempfile::tempdir;
use wire::Value;

use crate::common::{Client, DICTUM, Dev, eventually, signal, wait_for_end};

/// Ends the nodes that hooks have started, whatever becomes of the test.
struct Started<'a>(&'a Path);

impl Started<'_> {
    fn process_ids(&self) -> Vec<u32> {
        let files = fs::read_dir(self.0).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_to_string(file.path()).ok()?.trim().parse().ok()).collect()
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        self.process_ids().into_iter().for_each(|process_id| signal(process_id, Signal::KILL));
    }
}

/// A word for `sh`.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[test]
fn a_cluster_of_somebody_else_is_disturbed_through_hooks_and_left_as_it_was() {
    let folder = tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let dev = Dev::start(&at("data"), &[]);
    dev.leader();
    // What a user has: where the nodes' process ids are, and how each is started.
    let (ids, starts) = (at("ids"), at("starts"));
    [&ids, &starts].into_iter().for_each(|path| fs::create_dir(path).expect("a folder"));
    let started = Started(&ids);
    for node in &dev.nodes {
        fs::write(ids.join(&node.name), node.pid.to_string()).expect("a file");
        let words: Vec<String> = node.start.iter().map(|word| quoted(word)).collect();
        let text = format!(
            "{} >>{} 2>&1 </dev/null & echo $! >{}",
            words.join(" "),
            quoted(&at("log").to_string_lossy()),
            quoted(&ids.join(&node.name).to_string_lossy())
        );
        fs::write(starts.join(&node.name), text).expect("a file");
    }
    let nodes: Vec<String> = dev.nodes.iter().map(|node| format!("{} = \"{}\"\n", node.name, node.resp)).collect();
    let (ids, starts) = (ids.to_string_lossy().into_owned(), starts.to_string_lossy().into_owned());
    let hooks = format!(
        "name = \"dictum dev\"\ndurability = \"fsynced on a majority\"\n[nodes]\n{}[commands]\nkill = \"kill -9 $(cat {ids}/$LAB_NODE)\"\n\
         start = \"sh {starts}/$LAB_NODE\"\npause = \"kill -STOP $(cat {ids}/$LAB_NODE)\"\nresume = \"kill -CONT $(cat {ids}/$LAB_NODE)\"\n",
        nodes.concat()
    );
    fs::write(at("hooks.toml"), hooks).expect("a file");
    assert_eq!(eventually(&dev.nodes[0].resp, &["SET", "own", "stays"]), Value::ok());

    let mut lab = Command::new(DICTUM);
    lab.args(["lab", "verify", "--minutes", "0.2", "--rate", "200", "--seed", "5", "--hooks", "hooks.toml"]);
    let output = lab.current_dir(folder.path()).output().expect("it starts");
    let text = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}");

    let run = fs::read_dir(at("dictum-lab")).expect("a folder of runs").flatten().next().expect("a run");
    let record = store::read(&run.path()).expect("the record is whole");
    assert_eq!((record.sides[0].name.as_str(), record.sides[0].nodes), ("dictum dev", 3));
    let marks: Vec<&str> = record.measurements[0].marks.iter().map(|mark| mark.what.as_str()).collect();
    assert!(marks.iter().any(|what| what.ends_with("killed") || what.ends_with("held")), "{marks:?}");
    assert!(
        !marks.iter().any(|what| what.contains("cut") || what.contains("noise")),
        "there are no commands for it: {marks:?}"
    );
    let verdict = record.verdict.expect("it was checked");
    assert!(verdict.holds && verdict.operations > 500 && verdict.decided == verdict.operations, "{verdict:?}");
    // What ends a process of somebody else nobody knows.
    assert!(!verdict.properties.iter().any(|property| property.name.contains("ends by itself")), "{verdict:?}");
    let mut client = Client::connect(&dev.nodes[0].resp).expect("it listens");
    assert_eq!(client.call(&["GET", "own"]).expect("a reply"), Value::bulk("stays"));
    assert_eq!(client.call(&["DBSIZE"]).expect("a reply"), Value::Integer(1), "its own keys are deleted");
    for process_id in started.process_ids() {
        signal(process_id, Signal::TERM);
        assert!(wait_for_end(process_id));
    }
}
