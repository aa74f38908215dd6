//! What `dictum dev` prints.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::ExitStatus;

use serde::Serialize;

use super::Running;
use crate::cli::asked;

/// Most bytes of a log file that are shown.
const TAIL_BYTES_MAX: u64 = 4096;
/// Most lines of a log file that are shown.
const TAIL_LINES_MAX: usize = 12;

#[derive(Serialize)]
struct Cluster<'a> {
    nodes: Vec<Node<'a>>,
}

#[derive(Serialize)]
struct Node<'a> {
    name: &'a str,
    pid: u32,
    resp: &'a str,
    cluster: &'a str,
    http: &'a str,
    peer: &'a str,
    dir: String,
    start: &'a [String],
}

/// One line for programs.
pub(super) fn print_json(nodes: &[Running]) {
    let nodes = nodes.iter().map(|node| Node {
        name: &node.plan.name,
        pid: node.process.id(),
        resp: &node.plan.resp,
        cluster: &node.plan.cluster,
        http: &node.plan.http,
        peer: &node.plan.peer,
        dir: node.plan.dir.to_string_lossy().into_owned(),
        start: &node.plan.start,
    });
    let line = serde_json::to_string(&Cluster { nodes: nodes.collect() }).expect("texts and numbers become JSON");
    print(&format!("{line}\n"));
}

/// A table for people.
pub(super) fn print_table(nodes: &[Running]) {
    let heading = ["node", "pid", "RESP", "Redis Cluster", "HTTP", "peers", "log"].map(str::to_owned);
    let mut rows = vec![heading];
    rows.extend(nodes.iter().map(|node| {
        let plan = &node.plan;
        let log = plan.log.display().to_string();
        let addresses = [&plan.resp, &plan.cluster, &plan.http, &plan.peer].map(String::clone);
        let [resp, cluster, http, peer] = addresses;
        [plan.name.clone(), node.process.id().to_string(), resp, cluster, http, peer, log]
    }));
    let mut text = String::new();
    let widths: [usize; 7] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or_default());
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect::<Vec<_>>();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text.push_str("\nto start one of them alone, once it has died:\n");
    for node in nodes {
        text.push_str(&format!("  {}:  {}\n", node.plan.name, shell(&node.plan.start)));
    }
    let port = |address: &str| address.rsplit(':').next().unwrap_or_default().to_owned();
    let any = nodes.last().map(|node| port(&node.plan.resp)).unwrap_or_default();
    text.push_str(&format!("\nready: try redis-cli -p {any} set greeting hello; Ctrl-C stops all nodes\n"));
    print(&text);
}

/// A node has ended by itself.
pub(super) fn print_death(node: &Running, status: ExitStatus) {
    eprintln!(
        "{} (process {}) has ended: {status}; log: {}\nto start it again:  {}",
        node.plan.name,
        node.process.id(),
        node.plan.log.display(),
        shell(&node.plan.start)
    );
}

/// The last lines of a log file, from `start` on.
pub(super) fn tail(path: &Path, start: u64) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(start.max(length.saturating_sub(TAIL_BYTES_MAX))))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
        std::io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_else(|error| format!("(it cannot be read: {error})"));
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES_MAX)..].join("\n")
}

/// The cluster runs all the same if nobody can read this.
fn print(text: &str) {
    if let Err(reason) = asked::print(text) {
        eprintln!("dictum dev: {reason}; the cluster runs, and ends by Ctrl-C or SIGTERM");
    }
}

/// Words as a shell takes them.
fn shell(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        let words = ["dictum", "--dir", "/tmp/my data", "it's", ""].map(str::to_owned);
        assert_eq!(shell(&words), r"dictum --dir '/tmp/my data' 'it'\''s' ''");
    }

    #[test]
    fn the_tail_is_the_end_of_this_run() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let path = temporary.path().join("n1.log");
        std::fs::write(&path, format!("old\n{}last\n", "line\n".repeat(20))).expect("a file");
        let shown = tail(&path, 4);
        assert!(shown.ends_with("line\nlast") && shown.lines().count() == TAIL_LINES_MAX);
        assert_eq!(tail(&path, 0).lines().count(), TAIL_LINES_MAX);
        assert!(tail(&temporary.path().join("none"), 0).contains("cannot be read"));
    }
}
