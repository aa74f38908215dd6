//! `dictum lab experiment`: carries an experiment out, writes its record, and draws its report.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};

use super::measure::command_line;
use super::own::{exit_code, tell};
use super::report::{ReportArguments, report};
use crate::environment::{ProcessorTimes, examine, is_in_memory};
use crate::experiment::cost::Cost;
use crate::experiment::failover::Failover;
use crate::experiment::neighbour::Neighbour;
use crate::experiment::scaling::Scaling;
use crate::experiment::{Bench, Experiment};
use crate::record::{Environment, FORMAT, Record};
use crate::store;

/// Arguments of `dictum lab experiment`.
#[derive(Clone, Debug, Args)]
pub struct ExperimentArguments {
    #[command(subcommand)]
    which: Which,
}

#[derive(Clone, Debug, Subcommand)]
enum Which {
    /// What clients see while the leader is killed, stopped, paused, cut off or restarted.
    Failover(Failover),
    /// What a noisy neighbour costs, and one node with a slow disk.
    Neighbour(Neighbour),
    /// Throughput against clients, partitions and nodes, with the Universal Scalability Law, and what an operation costs.
    Scaling(Scaling),
    /// Size of machine against tail and price, from records of several machines.
    Cost(Cost),
}

/// Carries `dictum lab experiment` out.
///
/// # Errors
/// A sentence for people. What was measured by then has been written.
pub(super) fn run(arguments: &ExperimentArguments) -> Result<ExitCode, String> {
    let experiment: &dyn Experiment = match &arguments.which {
        Which::Failover(experiment) => experiment,
        Which::Neighbour(experiment) => experiment,
        Which::Scaling(experiment) => experiment,
        Which::Cost(experiment) => experiment,
    };
    let (steps, seconds) = experiment.plan()?;
    let output = experiment.output();
    writable(&output.output)?;
    let stop = Arc::new(AtomicBool::new(false));
    // The first Ctrl-C ends the experiment and keeps what was seen; a second one ends the program as ever.
    signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, Arc::clone(&stop))
        .and_then(|_| signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop)))
        .map_err(|error| format!("Ctrl-C cannot be caught: {error}"))?;

    let started_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let mut record = Record {
        format: FORMAT,
        experiment: experiment.name().to_owned(),
        title: experiment.title(),
        question: experiment.question(),
        command: command_line(),
        started_ms,
        environment: environment(experiment)?,
        ..Record::default()
    };
    let before = ProcessorTimes::read();
    let mut bench = Bench::new(Arc::clone(&stop), steps, seconds, output.quiet);
    let outcome = experiment.carry_out(&mut bench, &mut record);
    bench.end();
    if experiment.common().is_some() {
        (_, record.environment.stolen) = ProcessorTimes::read().shares_since(&before);
    }
    if bench.is_ending() {
        record.notes.push("It was ended early, by Ctrl-C: what is missing was not measured.".to_owned());
    }
    if let Err(reason) = &outcome {
        let first = reason.lines().next().unwrap_or_default();
        record.notes.push(format!("It could not be carried out to its end: {first}"));
    }
    if record.measurements.is_empty() {
        return outcome.and(Err("nothing was measured, so nothing is written".to_owned()));
    }
    finish(&record, &output.out, &output.output)?;
    let judged = record.verdict.as_ref().filter(|verdict| !verdict.holds);
    match (judged, outcome) {
        // What was broken is said before what could not be carried out to its end.
        (Some(verdict), outcome) => {
            if let Err(reason) = outcome {
                eprintln!("dictum lab: {reason}");
            }
            Ok(exit_code(verdict))
        }
        (None, outcome) => outcome.map(|()| ExitCode::SUCCESS),
    }
}

/// Writes the record and the report, and tells what came out.
fn finish(record: &Record, out: &Path, file: &Path) -> Result<(), String> {
    let folder = out.join(store::folder_name(record.started_ms, &record.experiment));
    store::write(record, &folder)?;
    for finding in &record.findings {
        crate::say_line!("{finding}");
    }
    if let Some(verdict) = &record.verdict {
        tell(verdict);
    }
    crate::say_line!("record: {}", folder.display());
    let arguments = ReportArguments { runs: vec![folder], output: file.to_owned(), json: None };
    crate::say_line!("{}", report(&arguments, store::read)?);
    Ok(())
}

/// The machine; what the experiment itself does not load is not measured.
fn environment(experiment: &dyn Experiment) -> Result<Environment, String> {
    let Some(common) = experiment.common() else { return Ok(Environment::default()) };
    let folder = common.data.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}; give another --data", folder.display()))?;
    if is_in_memory(&folder) {
        eprintln!(
            "dictum lab: what is written to {} is in memory alone: syncs cost nothing there. Give a folder on a disk with --data.",
            folder.display()
        );
    }
    examine(&folder, [("dictum lab".to_owned(), env!("CARGO_PKG_VERSION").to_owned())].into())
}

/// Whether the report can be written, before an hour is spent on it.
fn writable(file: &Path) -> Result<(), String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if file.file_name().is_none() || file.is_dir() || !folder.is_dir() {
        return Err(format!("{} cannot be written: give a file in a folder that is there, with -o", file.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: ExperimentArguments,
    }

    fn planned(line: &str) -> Result<(usize, f64), String> {
        let line = Line::try_parse_from(format!("x {line}").split_whitespace()).map_err(|error| error.to_string())?;
        match &line.arguments.which {
            Which::Failover(experiment) => experiment.plan(),
            Which::Neighbour(experiment) => experiment.plan(),
            Which::Scaling(experiment) => experiment.plan(),
            Which::Cost(experiment) => experiment.plan(),
        }
    }

    #[test]
    fn a_quick_look_takes_at_most_15_seconds() {
        for name in ["failover", "neighbour", "scaling"] {
            let (steps, seconds) = planned(&format!("{name} --short")).expect("the defaults are right");
            assert!(steps > 0 && seconds <= 15.0, "{name}: {seconds}");
            assert!(planned(name).expect("the defaults are right").1 > 60.0, "{name}");
        }
        assert_eq!(planned("failover --faults killed,cut-off --repeats 3").expect("it is right").0, 6);
    }

    #[test]
    fn what_cannot_be_is_told() {
        assert!(planned("failover --repeats 0").unwrap_err().contains("write 1 to 50"));
        assert!(planned("failover --faults vanished").unwrap_err().contains("cut-off"));
        assert!(planned("neighbour --noise 101").unwrap_err().contains("write 1 to 100"));
        assert!(planned("scaling --nodes 1,9").unwrap_err().contains("write 1 to 7"));
        assert!(planned("cost").is_err());
        assert!(writable(Path::new("/nowhere/report.html")).unwrap_err().contains("-o"));
    }
}
