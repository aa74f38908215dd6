//! Experiments: each a question, the load that answers it, and what came out. Each is one file of one shape: its settings, which
//! are the arguments of `dictum lab experiment NAME`, with [`Experiment`] for them.
//!
//! - [`failover`]: what clients see while the leader is killed, stopped, paused, cut off or restarted
//! - [`neighbour`]: what a noisy neighbour costs, and one slow disk
//! - [`scaling`]: throughput against clients and nodes, with the Universal Scalability Law
//! - [`cost`]: size of machine against tail and price, from records of several machines
//!
//! [`bench`](mod@bench) is what they have in common: clusters of their own, loads, time left. [`proof`] records and checks histories.

pub mod bench;
pub mod cost;
pub mod failover;
mod lag;
pub mod neighbour;
pub mod proof;
pub mod scaling;

use std::path::PathBuf;

use clap::Args;

pub use bench::Bench;

use crate::record::Record;

/// What all experiments are told about where their results go.
#[derive(Clone, Debug, Args)]
pub struct Output {
    /// The folder that a folder for this record is made in.
    #[arg(long, default_value = "dictum-lab", value_name = "FOLDER")]
    pub out: PathBuf,
    /// The report to write; an older one is replaced.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// Shows no progress.
    #[arg(long)]
    pub quiet: bool,
}

/// What experiments are told that start clusters.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The workload's name (see dictum lab run --list), or the path of a .toml file that describes one.
    #[arg(long, default_value = "puts-gets", value_name = "NAME")]
    pub workload: String,
    /// Records that are loaded first; by default as the workload has it.
    #[arg(long)]
    pub records: Option<u64>,
    /// Bytes of each field or value; by default as the workload has it.
    #[arg(long)]
    pub field_bytes: Option<usize>,
    /// A quick look of at most 15 s: fewer settings, each once and briefly.
    #[arg(long)]
    pub short: bool,
    /// The program of the nodes; by default this one.
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// The folder that the clusters' data lie below, on the disk to be measured; by default the system's for temporary files.
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// Where chance begins: equal seeds draw equal operations.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the results go.
    #[command(flatten)]
    pub output: Output,
}

/// One experiment with its settings.
pub trait Experiment {
    /// The word that it is called by, also in the record.
    fn name(&self) -> &'static str;

    /// Its headline.
    fn title(&self) -> String;

    /// What it asks.
    fn question(&self) -> String;

    /// Where its results go.
    fn output(&self) -> &Output;

    /// What its clusters are; none if it starts none.
    fn common(&self) -> Option<&Common>;

    /// Its steps, and about how many seconds all of them take.
    ///
    /// # Errors
    /// A sentence that says which setting cannot be so, and what to write.
    fn plan(&self) -> Result<(usize, f64), String>;

    /// Carries it out: adds sides, measurements, fits, findings and notes to the record. Ends early when the bench says so.
    ///
    /// # Errors
    /// A sentence for people. What is in the record by then is written all the same.
    fn carry_out(&self, bench: &mut Bench, record: &mut Record) -> Result<(), String>;
}

/// `value`, if it is within the limits.
///
/// # Errors
/// A sentence that says what to write.
pub(crate) fn within(what: &str, value: f64, least: f64, most: f64) -> Result<f64, String> {
    if (least..=most).contains(&value) { Ok(value) } else { Err(format!("{what} {value}: write {least} to {most}")) }
}

/// The least, the middle and the greatest of some figures, in words: `312 ms (298 to 1040, of 5)`; none of no figure.
#[must_use]
pub(crate) fn spread_in_words(values: &[f64], unit: &str) -> Option<String> {
    let middle = crate::report::chart::dots::median(values)?;
    let round = crate::report::format::number;
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), &v| (f64::min(a, v), f64::max(b, v)));
    Some(match values.len() {
        1 => format!("{} {unit} (once)", round(middle)),
        count if least == most => format!("{} {unit} (each of {count})", round(middle)),
        count => format!("{} {unit} (median of {count}; {} to {})", round(middle), round(least), round(most)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_with_their_spread() {
        assert_eq!(spread_in_words(&[], "ms"), None);
        assert_eq!(spread_in_words(&[12.5], "ms").as_deref(), Some("12.5 ms (once)"));
        assert_eq!(spread_in_words(&[30.0, 10.0, 20.0], "ms").as_deref(), Some("20.0 ms (median of 3; 10.0 to 30.0)"));
    }

    #[test]
    fn limits_are_told() {
        assert_eq!(within("--repeats", 3.0, 1.0, 50.0), Ok(3.0));
        assert_eq!(within("--repeats", 0.0, 1.0, 50.0).unwrap_err(), "--repeats 0: write 1 to 50");
        assert!(within("--before", f64::NAN, 1.0, 50.0).is_err());
    }
}
