//! `docs/costs.md` says of every command in what unit it pays, and each once.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read files")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The rows of three cells of a page, without heads and rules.
fn rows(text: &str) -> impl Iterator<Item = [&str; 3]> {
    text.lines().filter_map(|line| {
        let cells = line.strip_prefix('|')?.strip_suffix('|')?;
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        <[&str; 3]>::try_from(cells).ok().filter(|cells| !cells[0].starts_with("---") && cells[1] != "unit")
    })
}

#[test]
fn every_command_says_what_it_pays_for() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/costs.md");
    let text = std::fs::read_to_string(path).expect("the page of costs");
    let (units, commands) = text.split_once("## Commands on keys").expect("units stand before commands");
    let units: BTreeSet<&str> = rows(units).map(|[unit, ..]| unit).collect();
    let mut told: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for [names, unit, worst] in rows(commands) {
        assert!(units.contains(unit), "{names}: there is no unit '{unit}'");
        // What has a budget says what spends it.
        assert!(unit == "own length" || !worst.is_empty(), "{names}: the worst case is missing");
        for name in names.split(' ') {
            assert!(told.insert(name.to_lowercase(), (unit, worst)).is_none(), "{name} stands there twice");
        }
    }
    let mut cluster = crate::common::alone();
    let listed = cluster.ask(0, "COMMAND LIST");
    let listed = listed.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$']));
    let known: BTreeSet<&str> = listed.filter(|name| !name.contains('|')).collect();
    assert!(known.len() > 250, "{}", known.len());
    let missing: Vec<_> = known.iter().filter(|name| !told.contains_key(**name)).collect();
    assert!(missing.is_empty(), "no row in docs/costs.md: {missing:?}");
    let gone: Vec<_> = told.keys().filter(|name| !known.contains(name.as_str())).collect();
    assert!(gone.is_empty(), "no command any more: {gone:?}");
    // A write without a budget says so, and no other does.
    for entry in data::commands::COMMANDS.iter().filter(|entry| entry.is_write()) {
        let (unit, _) = told[entry.spec.name];
        let is_bounded = entry.spec.flags.has(data::spec::Flags::BOUNDED);
        let by_options = ["lpop", "rpop", "spop", "zpopmin", "zpopmax", "json.set"].contains(&entry.spec.name);
        assert!(is_bounded == (unit == "own length") || by_options, "{}: {unit}", entry.spec.name);
    }
}
