//! Synced, then answered: what the simulator takes for granted of the layer below it, seen on a real node. Its calls of the system are written down
//! by a library that is loaded into it (`synced/calls.c`), in the order in which they happened; here the order is judged.
//!
//! Dropping `O_DSYNC` or the sync of a folder in `storage/src/files.rs`, or `store.sync()` in `server/src/snapshots.rs`, each turns a test red.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::{TempDir, tempdir_in};
use wire::Value;

use crate::common::process::Process;
use crate::common::{Client, free_ports, wait_for, wait_until_nothing_is_flushed};
use crate::start::start_command;

/// A node alone, whose calls are written down.
struct Watched {
    resp: String,
    folder: PathBuf,
    calls: PathBuf,
    _process: Process,
    _parent: TempDir,
}

/// A call, as `calls.c` tells of it. Paths are relative to the node's folder; that itself is empty.
#[derive(Debug, PartialEq)]
enum Call {
    Wrote { path: String, durable: bool, marks: Vec<String> },
    Synced(String),
    Created(String),
    Renamed { from: String, to: String },
    Removed(String),
    Answered(String),
}

/// What the platform's C compiler makes of `calls.c`.
fn library(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/synced/calls.c");
    let library = folder.join("calls.so");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl");
    let output = command.output().expect("a C compiler: the README asks for one");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

impl Watched {
    fn start(more: &[&str]) -> Watched {
        // Not where temporary files usually are: that may be memory, which takes no direct writes.
        let parent = tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
        // The library compares paths with those that the system tells.
        let path = parent.path().canonicalize().expect("it exists");
        let (folder, calls, library) = (path.join("node"), path.join("calls"), library(&path));
        let (process, resp) = wait_for("a node", || {
            let ports: [u16; 3] = free_ports();
            let _ = fs::remove_file(&calls);
            let mut command = start_command(&folder, ports, more);
            command.env("LD_PRELOAD", &library);
            command.env("DICTUM_TEST_CALLS", &calls).env("DICTUM_TEST_FOLDER", &folder);
            match Process::start(command) {
                Ok(process) => Some((process, format!("127.0.0.1:{}", ports[0]))),
                // Another test may have been quicker to take a port.
                Err(reason) if reason.contains("is in use by another process; stop") => None,
                Err(reason) => panic!("it has ended: {reason}"),
            }
        });
        Watched { resp, folder, calls, _process: process, _parent: parent }
    }

    /// What it has done until now.
    fn calls(&self) -> Vec<Call> {
        let text = fs::read(&self.calls).expect("the library writes it");
        String::from_utf8_lossy(&text).lines().filter_map(|line| self.call(line)).collect()
    }

    fn call(&self, line: &str) -> Option<Call> {
        let path = |path: &str| {
            let path = Path::new(path).strip_prefix(&self.folder).ok()?;
            Some(path.to_str().expect("names are text").to_owned())
        };
        let (what, rest) = line.split_once(' ')?;
        let mut words = rest.split_whitespace();
        Some(match what {
            "wrote" => Call::Wrote {
                path: path(words.next()?)?,
                durable: words.next()? == "durable",
                marks: words.map(str::to_owned).collect(),
            },
            "synced" => Call::Synced(path(rest)?),
            "created" => Call::Created(path(rest)?),
            "renamed" => Call::Renamed { from: path(words.next()?)?, to: path(words.next()?)? },
            "removed" => Call::Removed(path(rest)?),
            "answered" => Call::Answered(rest.trim().to_owned()),
            other => panic!("{other} is no call"),
        })
    }
}

/// What is on disk for certain, as calls tell it one after the other.
#[derive(Default)]
struct Disk {
    /// Marks that were written to a file and not synced yet.
    cached: BTreeMap<String, BTreeSet<String>>,
    /// Files in which something was written that was not synced yet.
    unsynced: BTreeSet<String>,
    /// Marks on disk, with their file.
    durable: BTreeMap<String, String>,
    /// Names that are not on disk yet, as their folder was not synced since.
    unnamed: BTreeSet<String>,
}

impl Disk {
    fn take(&mut self, call: &Call) {
        match call {
            Call::Wrote { path, durable: true, marks } => {
                self.durable.extend(marks.iter().map(|mark| (mark.clone(), path.clone())));
            }
            Call::Wrote { path, durable: false, marks } => {
                self.unsynced.insert(path.clone());
                self.cached.entry(path.clone()).or_default().extend(marks.iter().cloned());
            }
            Call::Synced(path) => {
                self.unsynced.remove(path);
                let marks = self.cached.remove(path).unwrap_or_default();
                self.durable.extend(marks.into_iter().map(|mark| (mark, path.clone())));
                self.unnamed.retain(|name| Path::new(name).parent() != Some(Path::new(path)));
            }
            Call::Created(path) => {
                self.unnamed.insert(path.clone());
            }
            Call::Renamed { from, to } => {
                self.unnamed.remove(from);
                self.unnamed.insert(to.clone());
                if self.unsynced.remove(from) {
                    self.unsynced.insert(to.clone());
                }
                if let Some(marks) = self.cached.remove(from) {
                    self.cached.insert(to.clone(), marks);
                }
            }
            Call::Removed(path) => {
                self.unsynced.remove(path);
                self.unnamed.remove(path);
            }
            Call::Answered(_) => {}
        }
    }
}

fn mark(number: usize) -> String {
    format!("<mark:{number}>")
}

#[test]
fn a_write_is_synced_under_a_name_that_lasts_before_it_is_answered() {
    let node = Watched::start(&[]);
    let mut client = Client::connect(&node.resp).expect("it listens");
    let writes = 50;
    for number in 0..writes {
        assert_eq!(client.call(&["SET", "key", &mark(number)]).expect("a reply"), Value::ok());
    }
    let (mut disk, mut answered) = (Disk::default(), 0);
    for call in node.calls() {
        disk.take(&call);
        if call != Call::Answered("+OK".into()) {
            continue;
        }
        let mark = mark(answered);
        let file = disk.durable.get(&mark).unwrap_or_else(|| panic!("{mark} was answered before it was synced"));
        assert!(file.starts_with("journal-"), "{mark} is in {file}");
        assert!(!disk.unnamed.contains(file), "{file} is not in its folder for certain, and {mark} was answered");
        for name in ["identity", file] {
            assert!(!disk.unsynced.contains(name) && !disk.unnamed.contains(name), "{name} is not on disk for certain");
        }
        answered += 1;
    }
    assert_eq!(answered, writes, "every answer is seen");
}

#[test]
fn a_flush_has_synced_the_store_when_it_is_over() {
    let node = Watched::start(&["--log-bytes-per-snapshot", "64KiB", "--log-entries-kept", "10"]);
    let mut client = Client::connect(&node.resp).expect("it listens");
    let value = "v".repeat(1000);
    let is_of_the_store = |path: &str| path.starts_with("store/") && path.ends_with(".jnl");
    let mut number = 0;
    wait_for("a flush", || {
        for _ in 0..100 {
            let value = mark(number) + &value;
            assert_eq!(client.call(&["SET", &format!("key:{}", number % 10), &value]).expect("a reply"), Value::ok());
            number += 1;
        }
        let flushed =
            |call: &Call| matches!(call, Call::Wrote { path, marks, .. } if is_of_the_store(path) && !marks.is_empty());
        node.calls().iter().any(flushed).then_some(())
    });
    wait_until_nothing_is_flushed(&node.resp);
    let mut disk = Disk::default();
    for call in node.calls() {
        disk.take(&call);
    }
    let unsynced: Vec<_> = disk.unsynced.iter().filter(|path| is_of_the_store(path)).collect();
    assert!(unsynced.is_empty(), "the flush is over, and these are not synced: {unsynced:?}");
    let unnamed: Vec<_> = disk.unnamed.iter().filter(|path| is_of_the_store(path)).collect();
    assert!(unnamed.is_empty(), "the flush is over, and these are not in their folder for certain: {unnamed:?}");
}
