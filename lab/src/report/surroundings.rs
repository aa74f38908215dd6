//! The end of the report: where everything ran, and how each side was set.

use super::format;
use super::html::{element, escape};
use super::summary::heading;
use super::table;
use crate::record::{Environment, Record, Side};

/// Records that ran at the same place with the same sides are told of once.
pub fn html(records: &[Record]) -> String {
    let mut places: Vec<(&Environment, &[Side], Vec<usize>)> = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let same = places.iter_mut().find(|place| *place.0 == record.environment && place.1 == record.sides);
        match same {
            Some(place) => place.2.push(index),
            None => places.push((&record.environment, &record.sides, vec![index])),
        }
    }
    let several = places.len() > 1;
    let mut out = String::new();
    for (environment, sides, indexes) in places {
        let parts = [machine(environment), configuration(sides)].concat();
        if parts.is_empty() {
            continue;
        }
        if several {
            let names: Vec<&str> = indexes.iter().filter_map(|index| records.get(*index)).map(heading).collect();
            out.push_str(&element("h3", "", &names.join(", ")));
        }
        out.push_str(&parts);
    }
    if out.is_empty() {
        return out;
    }
    format!("<footer><h2>Where it ran</h2>{out}</footer>")
}

fn machine(environment: &Environment) -> String {
    if *environment == Environment::default() {
        return String::new();
    }
    let said = |text: &str| text.to_owned();
    let mut rows: Vec<(&str, String)> = vec![
        (
            "Processor",
            if environment.cores > 0 {
                format!("{} ({} may be used)", environment.cpu, environment.cores)
            } else {
                said(&environment.cpu)
            },
        ),
        ("Memory", if environment.memory_bytes > 0 { format::bytes(environment.memory_bytes) } else { String::new() }),
        ("Kernel", said(&environment.kernel)),
        ("Disk", said(&environment.disk)),
    ];
    if environment.fsync_p50 > 0 || environment.fsync_p99 > 0 {
        let (p50, p99) =
            (format::duration(environment.fsync_p50 as f64), format::duration(environment.fsync_p99 as f64));
        rows.push(("4 KiB and fdatasync", format!("median {p50}, 99th percentile {p99}, measured before the run")));
    }
    if environment.idle > 0.0 {
        rows.push(("Idle before the run", format::share(environment.idle)));
    }
    rows.push(("Kept by the hypervisor", format::share(environment.stolen)));
    rows.extend(environment.versions.iter().map(|(name, version)| (name.as_str(), version.clone())));
    list(rows.iter().map(|(name, value)| (*name, value.as_str())))
}

fn configuration(sides: &[Side]) -> String {
    let mut out = table::sides(sides);
    for side in sides.iter().filter(|side| !side.configuration.is_empty()) {
        let name = if side.name.is_empty() { &side.id } else { &side.name };
        out.push_str(&element("h4", "", &format!("Configuration of {name}")));
        out.push_str(&list(side.configuration.iter().map(|(name, value)| (name.as_str(), value.as_str()))));
    }
    out
}

/// Names and values; what has no value is left out.
fn list<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::new();
    for (name, value) in rows.filter(|(_, value)| !value.is_empty()) {
        out.push_str(&format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value)));
    }
    if out.is_empty() { out } else { format!("<dl>{out}</dl>") }
}
