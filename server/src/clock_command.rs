//! `dictum clock`: the cluster's time, and the clocks that it comes from.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use crate::cli::asked::Asked;
use crate::status::{self, ClusterStatus};

/// So long it is waited for the cluster to have the time that was set.
const SET_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Exit code where a clock is wrong, or the cluster's time is not that of a majority.
const EXIT_WRONG: u8 = 3;

/// Arguments of `dictum clock`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  dictum clock        the cluster's time, and how far each node's clock is from that of the node which answers\n  \
    dictum clock set    the cluster's time becomes what the clocks of a majority show\n\n\
    Exit code: 0 if all is well, 3 if a clock is wrong or the cluster's time is not that of a majority, 1 if no node answers."
)]
pub struct ClockArguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Brings the cluster's time to what the clocks of a majority show now, forward or back: keys whose time to live ends in between are over at once
    Set,
}

/// Carries it out.
#[must_use]
pub fn run(arguments: ClockArguments) -> ExitCode {
    let done = match arguments.verb {
        None => show(&arguments.asked),
        Some(Verb::Set) => set(&arguments.asked),
    };
    done.unwrap_or_else(|message| {
        eprintln!("dictum clock: {message}");
        ExitCode::FAILURE
    })
}

fn show(asked: &Asked) -> Result<ExitCode, String> {
    let (endpoint, mut connection) = asked.open()?;
    let status = status::read(&endpoint, &mut connection)?;
    print(asked, &status);
    Ok(ExitCode::from(if is_well(&status) { 0 } else { EXIT_WRONG }))
}

fn set(asked: &Asked) -> Result<ExitCode, String> {
    let (endpoint, mut connection) = asked.open()?;
    let reply = connection
        .call(&[b"DICTUM.SETTIME"])
        .map_err(|error| format!("the node at {endpoint} does not answer: {error}"))?;
    if let Some(error) = reply.as_error() {
        return Err(format!("the cluster's time was not set: {error}"));
    }
    let begun = Instant::now();
    loop {
        let status = status::read(&endpoint, &mut connection)?;
        let is_there = status.time.majority_ahead_ms == 0 && status.time.log_ahead_ms == 0;
        if is_there || begun.elapsed() >= SET_WITHIN {
            print(asked, &status);
            return Ok(ExitCode::from(if is_there { 0 } else { EXIT_WRONG }));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn print(asked: &Asked, status: &ClusterStatus) {
    if !asked.json {
        return lab::say!("{}", table(status));
    }
    let nodes = status.nodes.iter().map(
        |node| serde_json::json!({ "name": node.name, "clock": node.clock, "clock_ahead_ms": node.clock_ahead_ms }),
    );
    lab::say_line!("{}", serde_json::json!({ "time": status.time, "nodes": nodes.collect::<Vec<_>>() }));
}

fn is_well(status: &ClusterStatus) -> bool {
    status::time_lines(&status.time).is_empty() && !status.nodes.iter().any(|node| node.clock == "outside")
}

fn table(status: &ClusterStatus) -> String {
    let node = &status.node;
    let mut out = match status.time.ms {
        Some(ms) => format!("The cluster's time is {}.{:03} s since 1970, as {node} has it.\n\n", ms / 1000, ms % 1000),
        None => format!("{node} does not know the cluster's time: no majority of the clocks was heard yet.\n\n"),
    };
    let mut rows = vec![vec!["node".to_owned(), "clock".to_owned(), format!("ahead of {node}'s")]];
    rows.extend(status.nodes.iter().map(|node| {
        let ahead = match node.clock_ahead_ms {
            Some(ms) if node.up || node.me => format!("{:.3} s", ms as f64 / 1000.0),
            _ => "-".to_owned(),
        };
        let clock = if node.clock == "outside" { "wrong" } else { &node.clock };
        vec![node.name.clone(), clock.to_owned(), ahead]
    }));
    out.push_str(&status::aligned(&rows, &[2]));
    for line in status::time_lines(&status.time) {
        writeln!(out, "\n{line}").expect("a string takes all text");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{NodeStatus, TimeStatus};

    #[test]
    fn a_wrong_clock_is_shown() {
        let node = |name: &str, clock: &str, ahead| NodeStatus {
            name: name.to_owned(),
            up: true,
            clock: clock.to_owned(),
            clock_ahead_ms: ahead,
            ..NodeStatus::default()
        };
        let nodes = [("n1", "ok", Some(0)), ("n2", "outside", Some(172_800_000)), ("n3", "unknown", None)];
        let mut status = ClusterStatus {
            node: "n1".to_owned(),
            time: TimeStatus { ms: Some(1_790_000_000_123), source: "majority".to_owned(), ..TimeStatus::default() },
            nodes: nodes.map(|(name, clock, ahead)| node(name, clock, ahead)).to_vec(),
            ..ClusterStatus::default()
        };
        let text = table(&status);
        for part in ["1790000000.123 s since 1970", "wrong", "172800.000 s", "ahead of n1's"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!is_well(&status));
        status.nodes.truncate(1);
        assert!(is_well(&status));
        status.time.log_ahead_ms = 5_000;
        assert!(!is_well(&status) && table(&status).contains("A log is 5 s ahead"));
    }
}
