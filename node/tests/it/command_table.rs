//! `docs/commands.md` says of every command how much of it there is: nothing in it is there that is called absent, or the other way round, and nothing is left out.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read files")]

use std::collections::BTreeMap;
use std::path::Path;

/// Commands in lower case, subcommands behind a bar, with what is said of each and the remark beside it.
fn table() -> BTreeMap<String, (String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/commands.md");
    let text = std::fs::read_to_string(path).expect("the table");
    let mut table = BTreeMap::new();
    for line in text.lines() {
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix('|')) else { continue };
        let [name, state, remark] = cells.splitn(3, '|').map(str::trim).collect::<Vec<_>>()[..] else { continue };
        if name == "command" {
            continue;
        }
        let name = name.strip_prefix('[').and_then(|name| name.split_once(']')).map_or(name, |(name, _)| name);
        let name = name.to_lowercase().replace(' ', "|");
        let before = table.insert(name.clone(), (state.to_owned(), remark.to_owned()));
        assert!(before.is_none(), "{name} stands there twice");
    }
    assert!(table.len() > 400, "{}", table.len());
    table
}

#[test]
fn the_table_of_commands_is_true_and_whole() {
    let table = table();
    let mut cluster = crate::common::alone();
    for (name, (state, remark)) in &table {
        let is_known = !cluster.ask(0, &format!("COMMAND INFO {name}")).contains("*-1");
        match state.as_str() {
            "whole" => assert!(is_known && remark.is_empty(), "{name}"),
            "partial" => assert!(is_known && !remark.is_empty(), "{name}: it says what is missing"),
            "absent" => assert!(!is_known && !remark.is_empty(), "{name}: it says why"),
            other => panic!("{name} is {other}"),
        }
    }
    let known = cluster.ask(0, "COMMAND LIST");
    let missing: Vec<&str> =
        known.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$'])).collect();
    let missing: Vec<&str> = missing.into_iter().filter(|name| !table.contains_key(*name)).collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}
