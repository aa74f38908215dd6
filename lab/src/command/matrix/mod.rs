//! `dictum lab matrix`: a workload at every point of a matrix of settings, each on a fresh cluster, one record of all.
//!
//! The record is written after each point. What ended early, by Ctrl-C or otherwise, goes on with `--resume` and the run's folder: points
//! whose measurement is there are left out. The folder keeps the matrix as `matrix.toml`.

mod plan;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use super::measure::{fill, workload};
use super::own::{EXIT_INTERRUPTED, Own, OwnArguments, load_of};
use crate::beside::{CheckArguments, OWN_PREFIX, Place};
use crate::cluster::System;
use crate::experiment::proof::Verdicts;
use crate::load::Measured;
use crate::record::{ENDED_EARLY, NOT_MEASURED, Record};
use crate::store;
use plan::{Matrix, Point};

/// Those that the program has with it, by name.
const SHIPPED: [(&str, &str); 2] = [
    ("tail-latency", include_str!("../../../matrices/tail-latency.toml")),
    ("levels", include_str!("../../../matrices/levels.toml")),
];
/// The matrix in the run's folder.
const COPY: &str = "matrix.toml";
/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// What a point takes beside its load, until it is known better: a cluster's start, the records, its end.
const AROUND: Duration = Duration::from_secs(4);

/// Arguments of `dictum lab matrix`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  dictum lab matrix tail-latency\n  dictum lab matrix my-matrix.toml -o report.html\n  \
    dictum lab matrix --resume dictum-lab/2026-11-24T07-10-00-levels\n\nComes with: tail-latency, levels. Exits with 130 if it was ended \
    by Ctrl-C and can go on.\nWith --check: 4 if something that was promised was broken, 5 if something could not be decided."
)]
pub struct MatrixArguments {
    /// The matrix: a .toml file, or the name of one that comes with the program.
    #[arg(required_unless_present = "resume", value_name = "FILE")]
    matrix: Option<String>,
    /// Goes on with the run in this folder.
    #[arg(long, value_name = "FOLDER")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    check: CheckArguments,
    #[command(flatten)]
    own: OwnArguments,
}

/// Carries `dictum lab matrix` out.
///
/// # Errors
/// A sentence for people; also at the end, if a point could not be measured.
pub(super) fn run(arguments: &MatrixArguments) -> Result<ExitCode, String> {
    let (name, text) = source(arguments)?;
    let matrix = Matrix::parse(&text).map_err(|error| format!("{name}: {error}"))?;
    let earlier = match &arguments.resume {
        Some(folder) if folder.join("record.json").exists() => Some(store::read(folder)?),
        Some(folder) if !folder.is_dir() => return Err(format!("{}: there is no such folder", folder.display())),
        _ => None,
    };
    let experiment = Path::new(&name).file_stem().map_or("matrix".into(), |stem| stem.to_string_lossy().into_owned());
    let experiment = earlier.as_ref().map_or(experiment, |record| record.experiment.clone());
    let mut own =
        arguments.own.begin(&experiment, &matrix.title, &matrix.question, arguments.resume.as_deref(), AROUND)?;
    let copy = own.folder.join(COPY);
    std::fs::write(&copy, &text).map_err(|error| format!("{}: {error}", copy.display()))?;
    if let Some(earlier) = earlier {
        go_on(&mut own.record, earlier);
    } else {
        let note = "Generator and nodes share this machine's processors: on machines of their own figures differ.";
        own.record.notes.push(note.to_owned());
    }
    if let Some(note) = arguments.check.note().filter(|note| !own.record.notes.contains(note)) {
        own.record.notes.push(note);
    }
    let left = missing(&matrix.points, &own.record);
    let failed = measure_all(&mut own, &matrix, &left, &arguments.check)?;
    let (folder, interrupted) = (own.folder.clone(), own.is_interrupted());
    let broken = own.record.verdict.as_ref().is_some_and(|verdict| !verdict.holds);
    let code = own.finish()?;
    if interrupted || failed > 0 {
        eprintln!("to go on: dictum lab matrix --resume {}", folder.display());
    }
    match failed {
        // What was broken is said before what is missing.
        _ if broken => Ok(code),
        _ if interrupted => Ok(ExitCode::from(EXIT_INTERRUPTED)),
        0 => Ok(code),
        failed => Err(format!("{failed} of {} points could not be measured; the notes say why", matrix.points.len())),
    }
}

/// The matrix's name and text.
fn source(arguments: &MatrixArguments) -> Result<(String, String), String> {
    let name = match (&arguments.matrix, &arguments.resume) {
        (Some(name), _) => name.clone(),
        (None, Some(folder)) => folder.join(COPY).to_string_lossy().into_owned(),
        (None, None) => return Err("name a matrix: a .toml file, tail-latency or levels".to_owned()),
    };
    if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return Ok((name, (*text).to_owned()));
    }
    let told = |error: &dyn std::fmt::Display| {
        format!("{name}: {error}; write the path of a .toml file, or one of {}", SHIPPED.map(|it| it.0).join(", "))
    };
    let length = std::fs::metadata(&name).map_err(|error| told(&error))?.len();
    if length > FILE_BYTES_MAX {
        return Err(told(&format!("{length} bytes are more than a matrix may have, {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(&name).map_err(|error| told(&error))?;
    Ok((name, text))
}

/// Takes over what an earlier run has measured.
fn go_on(record: &mut Record, earlier: Record) {
    // What was not measured is tried again, and says again why if it must.
    let is_over = |note: &String| note.starts_with(ENDED_EARLY) || note.contains(NOT_MEASURED);
    record.notes.extend(earlier.notes.into_iter().filter(|note| !is_over(note)));
    let note = "It was measured in several goes: the machine is described as it was at the last one.";
    if !record.notes.iter().any(|other| other == note) {
        record.notes.push(note.to_owned());
    }
    record.sides = earlier.sides;
    record.measurements = earlier.measurements;
    record.verdict = earlier.verdict;
    (record.command, record.started_ms) = (earlier.command, earlier.started_ms);
}

/// The points that the record lacks.
fn missing(points: &[Point], record: &Record) -> Vec<Point> {
    let there: BTreeSet<&str> = record.measurements.iter().map(|measurement| measurement.id.as_str()).collect();
    points.iter().filter(|point| !there.contains(point.id().as_str())).cloned().collect()
}

/// Measures point after point; answers how many could not be.
fn measure_all(own: &mut Own, matrix: &Matrix, left: &[Point], check: &CheckArguments) -> Result<usize, String> {
    let (began, mut failed) = (Instant::now(), 0);
    let mut verdicts = Verdicts::after(own.record.verdict.clone());
    for (done, point) in left.iter().enumerate() {
        let each = match u32::try_from(done) {
            Ok(done) if done > 0 => began.elapsed() / done,
            _ => AROUND + Duration::from_secs_f64(point.seconds + f64::from(point.warm_up)),
        };
        let all = matrix.points.len();
        let number = all - left.len() + done;
        own.turn(number, all, each, &point.label());
        let outcome = measure(own, point, &point.label(), check, &mut verdicts);
        own.clear();
        if own.is_interrupted() {
            break;
        }
        let what = format!("[{}/{all}] {}", number + 1, point.label());
        match outcome {
            Ok(measured) => {
                let told = &measured.0;
                crate::say_line!("{what}: {:.0} operations/s", told.throughput);
                own.keep(measured);
            }
            Err(reason) => {
                failed += 1;
                eprintln!("{what}: {reason}");
                let first = reason.lines().next().unwrap_or_default();
                own.record.notes.push(format!("{}{NOT_MEASURED}{first}.", point.label()));
            }
        }
        own.save()?;
    }
    own.turns_are_over();
    Ok(failed)
}

/// One point on a cluster of its own.
fn measure(
    own: &mut Own,
    point: &Point,
    what: &str,
    check: &CheckArguments,
    verdicts: &mut Verdicts,
) -> Result<Measured, String> {
    let cluster = own.start(point.options()?)?;
    let side = cluster.side();
    // Stale reads, where they are allowed, would be found broken and are no fault.
    let is_checked = check.check && side.consistency == "linearizable";
    let unchecked = CheckArguments::default();
    // What a variable says of each measurement cannot be said once of the side.
    match own.record.sides.first_mut() {
        None => own.record.sides.push(side),
        Some(first) => {
            first.nodes = first.nodes.max(side.nodes);
            let differs = |told: &mut String, other: String| {
                if *told != other {
                    *told = "as each measurement says".to_owned();
                }
            };
            differs(&mut first.durability, side.durability);
            differs(&mut first.consistency, side.consistency);
            first.configuration.retain(|setting| side.configuration.contains(setting));
        }
    }
    let mut load = load_of(cluster.as_ref())?;
    point.set(&mut load)?;
    let workload = workload(point.workload(), &point.parameters()?)?;
    own.say(&format!("{what}: loading records"));
    fill(&load, &workload, &own.stop, true)?;
    let beside = if is_checked { check } else { &unchecked }.begin(|| {
        let file = own.folder.join(format!("history-{}", point.id()));
        Ok(Place {
            target: load.target.clone(),
            is_partitioned: false,
            prefix: OWN_PREFIX.to_owned(),
            file,
            seed: load.seed,
        })
    })?;
    let (mut measurement, mut notes) =
        own.measure(&cluster, &load, workload.as_ref(), what, point.workload(), beside.as_ref())?;
    own.say(&format!("{what}: checking what the witnesses saw"));
    verdicts.add(beside, &mut own.record)?;
    measurement.id = point.id();
    measurement.variables = point.told();
    if check.check && !is_checked {
        notes.push("its reads may be stale, so no history of it was checked".to_owned());
    }
    Ok((measurement, notes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Measurement;

    fn shipped(name: &str) -> Matrix {
        let arguments = MatrixArguments {
            matrix: Some(name.to_owned()),
            resume: None,
            check: CheckArguments::default(),
            own: OwnArguments::default(),
        };
        let (_, text) = source(&arguments).expect("it comes with the program");
        Matrix::parse(&text).expect("it is right")
    }

    #[test]
    fn those_that_come_with_the_program_are_right_and_short() {
        for (name, count) in [("tail-latency", 12), ("levels", 12)] {
            let matrix = shipped(name);
            assert_eq!(matrix.points.len(), count, "{name}");
            let seconds: f64 = matrix.points.iter().map(|point| point.seconds + f64::from(point.warm_up)).sum();
            assert!(seconds < 120.0, "{name}: {seconds} s of load");
        }
        let arguments = MatrixArguments {
            matrix: Some("none.toml".to_owned()),
            resume: None,
            check: CheckArguments::default(),
            own: OwnArguments::default(),
        };
        assert!(source(&arguments).expect_err("no such file").contains("one of tail-latency, levels"));
    }

    #[test]
    fn what_is_there_is_left_out() {
        let points = shipped("levels").points;
        let measurement = Measurement { id: points[4].id(), ..Measurement::default() };
        let earlier = Record {
            measurements: vec![measurement],
            notes: vec![
                "It was ended early, by Ctrl-C.".to_owned(),
                format!("records = 10{NOT_MEASURED}the disk is full."),
                "a note".to_owned(),
            ],
            command: "as before".to_owned(),
            ..Record::default()
        };
        let mut record = Record::default();
        go_on(&mut record, earlier);
        let left = missing(&points, &record);
        assert_eq!(left.len(), points.len() - 1);
        assert!(!left.contains(&points[4]));
        assert_eq!((record.notes.len(), record.notes[0].as_str(), record.command.as_str()), (2, "a note", "as before"));
    }
}
