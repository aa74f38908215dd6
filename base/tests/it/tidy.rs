//! The walls between the rooms, and the size of a file: read from the tree, so that no change can forget them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest source file, in lines. 500 is the aim.
const LINES_MAX: usize = 800;

/// Which room may import which (beside crates from elsewhere). `server` holds the command line and so reaches the simulator.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("paxos", &["base"]),
    ("storage", &["base"]),
    ("data", &["base"]),
    ("wire", &["base"]),
    ("tls", &[]),
    ("node", &["base", "paxos", "storage", "data", "wire"]),
    ("sim", &["base", "node", "storage", "wire", "data"]),
    ("lab", &["base", "wire"]),
    ("server", &["base", "node", "storage", "wire", "tls", "sim", "lab"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names under `[dependencies]` (not those for tests alone) of a room's manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
            if let Some(name) = line.strip_prefix("[dependencies.") {
                names.push(name.trim_end_matches(']').to_owned());
            }
        } else if inside && let Some((name, _)) = line.split_once('=') {
            names.push(name.trim().trim_end_matches(".workspace").to_owned());
        }
    }
    names
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (room, _) in MAY_IMPORT {
        sources(&root().join(room), &mut found);
    }
    assert!(found.len() > 50, "the walk finds the rooms' files");
    found
}

#[test]
fn rooms_import_only_what_they_may() {
    let rooms: BTreeMap<&str, &[&str]> = MAY_IMPORT.iter().copied().collect();
    for (room, allowed) in MAY_IMPORT {
        let manifest = fs::read_to_string(root().join(room).join("Cargo.toml")).unwrap();
        let dependencies = dependencies(&manifest);
        let is_read =
            if allowed.is_empty() { !dependencies.is_empty() } else { dependencies.contains(&"base".to_owned()) };
        assert!(is_read, "{room}: its manifest is read");
        for name in dependencies {
            let wall = rooms.contains_key(name.as_str()) && !allowed.contains(&name.as_str());
            assert!(!wall, "{room} imports {name}; it may import {allowed:?} (ARCHITECTURE.md says why)");
        }
    }
}

#[test]
fn every_member_of_the_workspace_is_a_known_room() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.lines().find(|line| line.starts_with("members")).expect("the workspace names its members");
    for member in members.split('"').skip(1).step_by(2) {
        assert!(MAY_IMPORT.iter().any(|(room, _)| *room == member), "{member} is not in the list of rooms");
    }
}

#[test]
fn no_file_frightens() {
    for path in all_sources() {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines: split it by role or stage", path.display());
    }
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here so that this file does not find itself.
    let marks = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["XX", "X:"].concat()];
    for path in all_sources() {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let left = marks.iter().find(|mark| line.contains(mark.as_str()));
            assert!(left.is_none(), "{}:{}: {line}", path.display(), number + 1);
        }
    }
}

/// Each program of tests is linked to everything once more, so a crate has one: `tests/it/main.rs`. It must name every file beside it, because the
/// compiler says nothing of a file that no module names, and its tests would never run.
#[test]
fn a_crate_has_one_program_of_tests_and_it_names_every_file() {
    for (room, _) in MAY_IMPORT {
        let folder = root().join(room).join("tests");
        let names = |folder: &Path| -> Vec<String> {
            let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&folder), ["it"], "{room}/tests: a file of tests belongs into tests/it, named in its main.rs");
        let folder = folder.join("it");
        let main = fs::read_to_string(folder.join("main.rs")).unwrap();
        for name in names(&folder).iter().filter_map(|name| name.strip_suffix(".rs")).filter(|name| *name != "main") {
            let line = format!("mod {name};");
            assert!(main.lines().any(|text| text == line), "{room}/tests/it/main.rs lacks `{line}`");
        }
    }
}
