//! Tables for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{ClusterStatus, NodeStatus, PartitionStatus, StepOverWait, TimeStatus};

/// The status for people.
#[must_use]
pub fn table(status: &ClusterStatus, output: Output) -> String {
    let mut out = String::new();
    let up = status.nodes.iter().filter(|node| node.up || node.me).count();
    let leader = match (&status.leader, &status.ballot) {
        (Some(leader), Some(ballot)) => format!("{leader} leads with ballot {ballot}"),
        (Some(leader), None) => format!("{leader} leads"),
        _ => "no leader: nothing can be read or written".to_owned(),
    };
    writeln!(out, "{leader} · {up} of {} nodes up · as {} sees it", status.nodes.len(), status.node)
        .expect("a string takes all text");
    if !status.lacking.is_empty() {
        writeln!(out, "{}", status.lacking).expect("a string takes all text");
    }
    out.push('\n');
    let mut rows: Vec<Vec<String>> = vec![
        [
            "node",
            "state",
            "role",
            "decided",
            "persisted",
            "applied",
            "lag",
            "disk",
            "resp",
            "http",
            "link",
            "version",
            "seen",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    rows.extend(status.nodes.iter().map(row));
    out.push_str(&columns(&rows, &[3, 4, 5, 6], &[3, 4, 9, 10, 11], output));
    let versions: BTreeSet<&str> =
        status.nodes.iter().map(|node| node.version.as_str()).filter(|version| !version.is_empty()).collect();
    if versions.len() > 1 {
        let versions: Vec<&str> = versions.into_iter().collect();
        writeln!(out, "\nThe nodes are of different versions: {} (-o wide tells which).", versions.join(", "))
            .expect("a string takes all text");
    }
    if status.nodes.iter().any(|node| node.link == "tls") {
        let plain: Vec<&str> =
            status.nodes.iter().filter(|node| node.link == "plain").map(|node| node.name.as_str()).collect();
        if !plain.is_empty() {
            writeln!(out, "\nIn plain text is the link of {} to {}.", status.node, plain.join(", "))
                .expect("a string takes all text");
        }
    }
    if status.audit_fails {
        let text = "cannot write its audit trail: its log says why. Events wait in memory, and are left out and counted when they are too many";
        writeln!(out, "\n{} {text}.", status.node).expect("a string takes all text");
    }
    if !status.refuses.is_empty() {
        let why = status.refuses.trim_start_matches("MISCONF ");
        writeln!(out, "\n{} refuses writes: {why}.", status.node).expect("a string takes all text");
    }
    if status.partitions.len() > 1 {
        out.push('\n');
        let mut rows = vec![["bucket", "partition", "leader", "ballot"].map(str::to_owned).to_vec()];
        rows.extend(status.partitions.chunk_by(|one, other| one.bucket == other.bucket).map(partitions_row));
        out.push_str(&aligned(&rows, &[1]));
    }
    if !status.founding.is_empty() {
        writeln!(out, "\n{}.", status.founding).expect("a string takes all text");
    }
    for line in time_lines(&status.time) {
        writeln!(out, "\n{line}").expect("a string takes all text");
    }
    for StepOverWait { entry, waits_for } in &status.step_over {
        writeln!(out, "\nEntry {entry} is not applied, and not stepped over yet: {waits_for}.")
            .expect("a string takes all text");
    }
    if !status.stepped_over.is_empty() {
        let entries: Vec<&str> = status.stepped_over.iter().map(|it| it.entry.as_str()).collect();
        writeln!(out, "\nStepped over (--step-over), their commands not done: {}.", entries.join(", "))
            .expect("a string takes all text");
    }
    out
}

/// Warnings about the cluster's time, for operators.
pub(crate) fn time_lines(time: &TimeStatus) -> Vec<String> {
    let mut lines = Vec::new();
    if time.agreed == Some(false) {
        lines.push(
            "No majority of the nodes' clocks is heard that agrees: the cluster's time goes on by what elapses. Start the nodes that are down, or set clocks right \
             (`dictum clock`)."
                .to_owned(),
        );
    }
    let seconds = |ms: u64| ms.div_ceil(1000);
    if time.majority_ahead_ms != 0 {
        let (by, where_to) = (
            seconds(time.majority_ahead_ms.unsigned_abs()),
            if time.majority_ahead_ms > 0 { "ahead of" } else { "behind" },
        );
        lines.push(format!(
            "The clocks of a majority are {by} s {where_to} the cluster's time, which follows them slowly; at once by `dictum clock set`."
        ));
    }
    if time.log_ahead_ms > 0 {
        lines.push(format!(
            "A log is {} s ahead of the cluster's time: until that has come so far no time to live ends there. `dictum clock set` brings it back.",
            seconds(time.log_ahead_ms)
        ));
    }
    lines
}

/// What is told of the partitions of one bucket: of several how many each node leads.
fn partitions_row(of_bucket: &[PartitionStatus]) -> Vec<String> {
    let Some(first) = of_bucket.first() else { return Vec::new() };
    // Nodes of an older version do not tell names.
    let name = Some(first.name.clone()).filter(|name| !name.is_empty()).unwrap_or_else(|| first.bucket.to_string());
    let leader_of = |partition: &PartitionStatus| partition.leader.clone().unwrap_or_else(|| "none".to_owned());
    if let [only] = of_bucket {
        return vec![name, only.index.to_string(), leader_of(only), only.ballot.clone().unwrap_or_default()];
    }
    let mut led: BTreeMap<String, usize> = BTreeMap::new();
    for partition in of_bucket {
        *led.entry(leader_of(partition)).or_default() += 1;
    }
    let led: Vec<String> = led.into_iter().map(|(node, count)| format!("{node} leads {count}")).collect();
    vec![name, format!("0 to {}", of_bucket.len() - 1), led.join(", ")]
}

fn row(node: &NodeStatus) -> Vec<String> {
    let known = node.up || node.me;
    let position = |position: Option<u64>| {
        position.filter(|_| known).map_or_else(|| "-".to_owned(), |position| position.to_string())
    };
    let text = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    // What a node was before it went away is not what it is.
    let lately = |latest: &str| text(if known { latest } else { "" });
    vec![
        node.name.clone(),
        match &node.slow[..] {
            _ if !known => "down".to_owned(),
            _ if node.clock == "outside" => "wrong clock".to_owned(),
            "" | "no" => "up".to_owned(),
            part => format!("slow {part}"),
        },
        lately(&node.role),
        position(node.decided),
        position(node.persisted),
        position(node.applied),
        position(node.lag),
        lately(&node.disk),
        text(&node.resp),
        text(&node.http),
        text(&node.link),
        text(&node.version),
        match node.seen_ms_ago {
            _ if node.me => "here".to_owned(),
            Some(ms) if ms < 10_000 => format!("{ms} ms ago"),
            Some(ms) => format!("{} s ago", ms / 1000),
            None => "never".to_owned(),
        },
    ]
}

/// How wide a table is.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Output {
    /// What is looked at most: it fits into 80 columns.
    #[default]
    Narrow,
    /// All columns.
    Wide,
}

/// Lines up columns, without those listed in `wide` if the table is narrow; those listed in `numbers` on the right.
pub(crate) fn columns(rows: &[Vec<String>], numbers: &[usize], wide: &[usize], output: Output) -> String {
    let is_kept = |column: &usize| output == Output::Wide || !wide.contains(column);
    let kept: Vec<usize> = (0..rows.iter().map(Vec::len).max().unwrap_or(0)).filter(is_kept).collect();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| kept.iter().filter_map(|column| row.get(*column).cloned()).collect()).collect();
    let numbers: Vec<usize> = (0..kept.len()).filter(|place| numbers.contains(&kept[*place])).collect();
    aligned(&rows, &numbers)
}

/// Lines up columns; those listed in `numbers` on the right.
pub(crate) fn aligned(rows: &[Vec<String>], numbers: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let width = *width;
            if numbers.contains(&column) {
                write!(line, "{cell:>width$}  ").expect("a string takes all text");
            } else {
                write!(line, "{cell:<width$}  ").expect("a string takes all text");
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::SteppedOver;
    use super::super::tests::example;
    use super::*;

    #[test]
    fn the_table_is_aligned() {
        assert_eq!(
            table(&example(), Output::Narrow),
            "n2 leads with ballot 3.n2 · 2 of 2 nodes up · as n1 sees it\n\
             \n\
             node  state  role      applied  lag  disk     resp            seen\n\
             n1    up     follower     1200    0  ok       127.0.0.1:7001  here\n\
             n2    up     leader          7    0  unknown  -               12 ms ago\n"
        );
        assert_eq!(
            table(&example(), Output::Wide),
            "n2 leads with ballot 3.n2 · 2 of 2 nodes up · as n1 sees it\n\
             \n\
             node  state  role      decided  persisted  applied  lag  disk     resp            http            link  version  seen\n\
             n1    up     follower     1200       1201     1200    0  ok       127.0.0.1:7001  127.0.0.1:8001  -     0.1.0    here\n\
             n2    up     leader          7          7        7    0  unknown  -               -               -     -        12 ms ago\n"
        );
    }

    #[test]
    fn nodes_of_different_versions_are_told() {
        let mut status = example();
        status.nodes[1].version = "0.2.0".to_owned();
        let text = table(&status, Output::Narrow);
        assert!(
            text.contains("\nThe nodes are of different versions: 0.1.0, 0.2.0 (-o wide tells which).\n"),
            "{text}"
        );
    }

    #[test]
    fn links_in_plain_text_are_told_where_others_are_not() {
        let mut status = example();
        status.nodes[1].link = "plain".to_owned();
        assert!(!table(&status, Output::Narrow).contains("In plain text"), "the cluster has no secret");
        status.nodes.push(NodeStatus { name: "n3".to_owned(), link: "tls".to_owned(), ..NodeStatus::default() });
        let text = table(&status, Output::Narrow);
        assert!(text.contains("\nIn plain text is the link of n1 to n2.\n"), "{text}");
    }

    #[test]
    fn several_buckets_are_told_by_name() {
        let mut status = example();
        let (name, leader) = ("users".to_owned(), Some("n1".to_owned()));
        status.partitions.push(PartitionStatus { bucket: 7, name, leader, ..PartitionStatus::default() });
        let text = table(&status, Output::Narrow);
        assert!(
            text.ends_with(
                "\nbucket  partition  leader  ballot\n0               0  n2      3.n2\nusers           0  n1\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn of_many_partitions_is_told_how_many_each_node_leads() {
        let mut status = example();
        for (index, leader) in [Some("n1"), Some("n2"), Some("n1"), None].into_iter().enumerate() {
            let (name, leader) = ("users".to_owned(), leader.map(str::to_owned));
            let index = index as u32;
            status.partitions.push(PartitionStatus { bucket: 7, index, name, leader, ..PartitionStatus::default() });
        }
        let text = table(&status, Output::Narrow);
        assert!(text.contains("\nusers      0 to 3  n1 leads 2, n2 leads 1, none leads 1\n"), "{text}");
    }

    #[test]
    fn what_was_stepped_over_and_what_is_to_be_is_told() {
        let mut status = example();
        let (entry, waits_for) = ("0/0@17".to_owned(), "n2 has said nothing yet".to_owned());
        status.step_over.push(StepOverWait { entry: entry.clone(), waits_for });
        let waits = "\nEntry 0/0@17 is not applied, and not stepped over yet: n2 has said nothing yet.\n";
        assert!(table(&status, Output::Narrow).ends_with(waits), "{}", table(&status, Output::Narrow));
        status.step_over.clear();
        status.stepped_over.push(SteppedOver { entry, ..SteppedOver::default() });
        assert!(
            table(&status, Output::Narrow)
                .ends_with("\nStepped over (--step-over), their commands not done: 0/0@17.\n")
        );
    }
}
