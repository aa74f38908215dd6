//! `dictum lab run`: one workload on one target.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::EXIT_SATURATED;
use super::measure::{begin_record, fill, workload};
use super::own::{exit_code, tell};
use super::progress::Progress;
use super::report::{ReportArguments, report};
use super::table::table;
use crate::beside::{Beside, CheckArguments, Place};
use crate::draw::Distribution;
use crate::drive::{Protocol, Target};
use crate::environment::ProcessorTimes;
use crate::load::ramp::{ClientRamp, RateRamp};
use crate::load::{Load, Measured, Pacing, Start, default_threads, run as run_load};
use crate::record::{Arrivals, Measurement};
use crate::store;
use crate::workload::{Parameters, SHAPES, Workload, parse_mix};

/// Arguments of `dictum lab run`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  dictum lab run ycsb-a --target redis://127.0.0.1:7001 --clients 64 --seconds 30\n  \
    dictum lab run puts-gets --target http://127.0.0.1:8001 --rate 2000 --minutes 5\n  \
    dictum lab run social --ramp clients=4..1000\n  dictum lab run my-mix.toml --target redis-cluster://127.0.0.1:6379\n  \
    dictum lab run ycsb-a --check --minutes 5\n\nExits with 0, with 3 if the generator may have set the figures; with --check also with 4 if \
    something that was promised was broken, with 5 if something could not be decided."
)]
pub struct RunArguments {
    /// The workload's name (see --list), or the path of a .toml file that describes one.
    #[arg(required_unless_present = "list")]
    workload: Option<String>,
    /// Lists the workloads and what can be set of each.
    #[arg(long)]
    list: bool,
    /// The system: redis://, redis-cluster://, http:// or dictionary://, then [USER:PASSWORD@]HOST:PORT[,HOST:PORT…].
    #[arg(long, default_value = "redis://127.0.0.1:7001", value_name = "URL")]
    target: String,
    /// The bucket that is used, by its name; it is there already.
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// Clients; each is a connection.
    #[arg(long, default_value_t = 64)]
    clients: u32,
    /// Operations a second, all clients together: an open loop. Without it each client waits for its answer.
    #[arg(long)]
    rate: Option<f64>,
    /// How operations of an open loop are due.
    #[arg(long, value_enum, default_value = "poisson")]
    arrivals: ArrivalsArgument,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10.0, conflicts_with = "minutes")]
    seconds: f64,
    /// Minutes that are measured.
    #[arg(long)]
    minutes: Option<f64>,
    /// Ends after so many operations.
    #[arg(long)]
    operations: Option<u64>,
    /// Seconds before that, which do not count.
    #[arg(long, default_value_t = 2, value_name = "SECONDS")]
    warm_up: u32,
    /// Records that are loaded first.
    #[arg(long)]
    records: Option<u64>,
    /// Fields of each record.
    #[arg(long)]
    fields: Option<u32>,
    /// Bytes of each field or value.
    #[arg(long)]
    field_bytes: Option<usize>,
    /// How keys are chosen: uniform, zipfian[:θ], scrambled[:θ], latest[:θ], hotspot[:SET,OPERATIONS], exponential, sequential.
    #[arg(long)]
    distribution: Option<String>,
    /// Shares of the kinds of operation instead of the workload's own: read=95,update=5.
    #[arg(long)]
    mix: Option<String>,
    /// Operations of one client that are under way at once.
    #[arg(long, default_value_t = 1)]
    pipeline: u32,
    /// Threads that send; by default one for each core, at most 2.
    #[arg(long)]
    threads: Option<u32>,
    /// Milliseconds after which an answer is given up.
    #[arg(long, default_value_t = 10_000)]
    timeout_ms: u64,
    /// Which address the clients begin with.
    #[arg(long, value_enum, default_value = "round-robin")]
    start: StartArgument,
    /// Where chance begins: equal seeds draw equal operations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leaves out the loading of records: they are there from an earlier run.
    #[arg(long)]
    no_load: bool,
    /// More load step by step: clients[=FROM..TO] in a closed loop, or rate[=FROM..TO] in an open one up to the knee.
    #[arg(long, value_name = "WHAT[=FROM..TO]")]
    ramp: Option<String>,
    /// A ramp of clients holds each step until the standard error of the throughput is at most so many per cent.
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT")]
    error_bound: f64,
    /// The folder that a folder for this run is made in.
    #[arg(long, default_value = "dictum-lab", value_name = "FOLDER")]
    out: PathBuf,
    /// Draws the report as one HTML file; `dictum lab report RUN` does so later.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Writes everything into one JSON file too.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Exits with 0 even if the generator, and not the target, may have set the figures.
    #[arg(long)]
    allow_saturated: bool,
    #[command(flatten)]
    check: CheckArguments,
    /// Shows no progress.
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ArrivalsArgument {
    /// Each independent of the others.
    Poisson,
    /// In equal steps.
    Constant,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StartArgument {
    /// Client after client, address after address.
    RoundRobin,
    /// All with the first one.
    First,
}

/// What `--ramp` asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ramp {
    Clients(ClientRamp),
    Rate(RateRamp),
}

impl RunArguments {
    fn load(&self) -> Result<Load, String> {
        let target = Target { bucket: self.bucket.clone(), ..Target::parse(&self.target)? };
        if target.bucket.is_some() && target.protocol != Protocol::Resp {
            return Err("--bucket is for redis:// alone".to_owned());
        }
        let mut load = Load::new(target);
        load.clients = self.clients;
        load.pipeline = self.pipeline;
        load.threads = self.threads.unwrap_or_else(default_threads);
        if let Some(rate) = self.rate {
            let arrivals = match self.arrivals {
                ArrivalsArgument::Poisson => Arrivals::Poisson,
                ArrivalsArgument::Constant => Arrivals::Constant,
            };
            load.pacing = Pacing::Open { rate, arrivals };
        }
        load.warm_up = self.warm_up;
        load.seconds = self.minutes.map_or(self.seconds, |minutes| minutes * 60.0);
        load.operations = self.operations;
        if self.operations.is_some() {
            // So many operations are the measure; warming up would take some of them away.
            load.warm_up = 0;
            load.seconds = f64::INFINITY;
        }
        load.timeout = Duration::from_millis(self.timeout_ms);
        load.start = match self.start {
            StartArgument::RoundRobin => Start::RoundRobin,
            StartArgument::First => Start::First,
        };
        load.seed = self.seed;
        load.check()?;
        Ok(load)
    }

    fn parameters(&self) -> Result<Parameters, String> {
        Ok(Parameters {
            records: self.records,
            fields: self.fields,
            field_bytes: self.field_bytes,
            distribution: self.distribution.as_deref().map(str::parse::<Distribution>).transpose()?,
            mix: self.mix.as_deref().map(parse_mix).transpose()?,
            seed: self.seed,
            ..Parameters::default()
        })
    }

    fn parsed_ramp(&self) -> Result<Option<Ramp>, String> {
        let Some(text) = &self.ramp else { return Ok(None) };
        let (what, range) = text.split_once('=').map_or((text.as_str(), None), |(what, range)| (what, Some(range)));
        let wrong = || format!("--ramp {text}: write clients, clients=4..1000, rate or rate=1000..100000");
        let range = match range {
            None => None,
            Some(range) => {
                let (from, to) = range.split_once("..").ok_or_else(wrong)?;
                let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| *n >= 1.0 && *n <= 1e8);
                Some((number(from).ok_or_else(wrong)?, number(to).ok_or_else(wrong)?))
            }
        };
        match what {
            "clients" => {
                let mut ramp = ClientRamp { error_share: self.error_bound / 100.0, ..ClientRamp::default() };
                if let Some((from, to)) = range {
                    (ramp.from, ramp.to) = (from as u32, to as u32);
                }
                Ok(Some(Ramp::Clients(ramp)))
            }
            "rate" => {
                let seconds = self.minutes.map_or(self.seconds, |minutes| minutes * 60.0);
                let mut ramp = RateRamp { seconds, ..RateRamp::default() };
                if let Some((from, to)) = range {
                    (ramp.from, ramp.to) = (from, to);
                }
                Ok(Some(Ramp::Rate(ramp)))
            }
            _ => Err(wrong()),
        }
    }
}

/// Carries `dictum lab run` out.
///
/// # Errors
/// A sentence for people.
pub(super) fn run(arguments: &RunArguments) -> Result<ExitCode, String> {
    if arguments.list {
        crate::say!("{}", list());
        return Ok(ExitCode::SUCCESS);
    }
    let name = arguments.workload.clone().unwrap_or_default();
    let load = arguments.load()?;
    let ramp = arguments.parsed_ramp()?;
    arguments.check.allows(&load.target)?;
    let workload = workload(&name, &arguments.parameters()?)?;
    let stop = Arc::new(AtomicBool::new(false));
    // The first Ctrl-C ends the load and keeps what was seen; a second one ends the program as ever.
    signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, Arc::clone(&stop))
        .and_then(|_| signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop)))
        .map_err(|error| format!("Ctrl-C cannot be caught: {error}"))?;

    let what = match ramp {
        None => "What does this workload see of the target?",
        Some(Ramp::Clients(_)) => "How does the throughput grow with the clients?",
        Some(Ramp::Rate(_)) => "Up to which rate does the target keep up?",
    };
    let before = ProcessorTimes::read();
    let mut record = begin_record(&load, "run", &format!("{name} on {}", load.target), what);
    if !arguments.no_load {
        fill(&load, &workload, &stop, arguments.quiet)?;
        if stop.load(Ordering::Relaxed) {
            return Err("ended while the records were loaded: nothing was measured".to_owned());
        }
    }
    let folder = arguments.out.join(store::folder_name(record.started_ms, &record.experiment));
    let beside = arguments.check.begin(|| {
        let target = load.target.clone();
        let prefix = format!("lab-check:{}:", record.started_ms);
        Ok(Place {
            target,
            is_partitioned: load.target.bucket.is_some(),
            prefix,
            file: folder.join("history"),
            seed: load.seed,
        })
    })?;
    let measured = measure(arguments, &load, ramp, &name, workload.as_ref(), &stop, &mut record.notes);
    // Whatever came of the load, the target shall be as it was.
    let seen = beside.map(Beside::finish_and_tidy).transpose();
    let measured = measured?;
    for (index, (mut measurement, notes)) in measured.into_iter().enumerate() {
        measurement.id = format!("{}-{}", if ramp.is_some() { "step" } else { "run" }, index + 1);
        measurement.side = "target".to_owned();
        measurement.workload.clone_from(&name);
        describe(&workload_variables(arguments), &mut measurement);
        crate::say!("{}", table(&measurement));
        for note in notes {
            crate::say_line!("note: {note}");
            record.notes.push(format!("{}: {note}", measurement.id));
        }
        crate::say_line!();
        record.measurements.push(measurement);
    }
    if stop.load(Ordering::Relaxed) {
        record.notes.push("It was ended early, by Ctrl-C.".to_owned());
    }
    record.environment.stolen = ProcessorTimes::read().shares_since(&before).1;
    let seen = match seen {
        Ok(seen) => Ok(seen),
        Err(reason) => {
            record.notes.push(format!("It was to be checked, and was not: {reason}."));
            Err(reason)
        }
    };
    if let Ok(Some(seen)) = &seen {
        record.notes.extend(arguments.check.note());
        record.notes.extend(seen.notes.iter().cloned());
        tell(&seen.verdict);
        record.verdict = Some(seen.verdict.clone());
    }
    store::write(&record, &folder)?;
    crate::say_line!("written to {}", folder.display());
    if let Some(file) = &arguments.export {
        std::fs::write(file, store::export(&record)?).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if let Some(file) = &arguments.output {
        let arguments = ReportArguments { runs: vec![folder], output: file.clone(), json: None };
        crate::say_line!("{}", report(&arguments, store::read)?);
    }
    if record.measurements.iter().all(|measurement| measurement.operations.values().all(|of| of.count == 0)) {
        return Err("not one operation was answered without an error: there are no figures of the target".to_owned());
    }
    seen?;
    let code = verdict(&record.measurements, arguments.allow_saturated);
    // What was broken is said before whose limit the figures are.
    Ok(record.verdict.as_ref().filter(|verdict| !verdict.holds).map_or(code, exit_code))
}

fn measure(
    arguments: &RunArguments,
    load: &Load,
    ramp: Option<Ramp>,
    name: &str,
    workload: &dyn Workload,
    stop: &AtomicBool,
    record_notes: &mut Vec<String>,
) -> Result<Vec<Measured>, String> {
    let mut progress = Progress::new(arguments.quiet);
    let total = load.seconds + f64::from(load.warm_up);
    let measured = match ramp {
        None => vec![run_load(load, workload, None, stop, &mut |snapshot| progress.show(name, snapshot, total))?],
        Some(Ramp::Clients(ramp)) => ramp.run(load, workload, stop, &mut |clients, snapshot| {
            progress.show(&format!("{name}, {clients} clients"), snapshot, f64::INFINITY);
        })?,
        Some(Ramp::Rate(ramp)) => {
            let (measured, knee) = ramp.run(load, workload, stop, &mut |rate, snapshot| {
                progress.show(&format!("{name}, {rate:.0}/s"), snapshot, total);
            })?;
            record_notes.push(match knee {
                Some(rate) => format!("The knee: it kept up with {rate:.0} operations/s, and not with the next step."),
                None => "No knee was seen: write rates that begin lower or go on higher.".to_owned(),
            });
            measured
        }
    };
    progress.end();
    for note in record_notes {
        crate::say_line!("{note}");
    }
    Ok(measured)
}

/// The settings of the workload that were given, as variables of the measurement.
fn workload_variables(arguments: &RunArguments) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    let mut add = |name, value: Option<String>| variables.extend(value.map(|value| (name, value)));
    add("records", arguments.records.map(|n| n.to_string()));
    add("fields", arguments.fields.map(|n| n.to_string()));
    add("field-bytes", arguments.field_bytes.map(|n| n.to_string()));
    add("distribution", arguments.distribution.clone());
    add("mix", arguments.mix.clone());
    add("pipeline", (arguments.pipeline > 1).then(|| arguments.pipeline.to_string()));
    variables
}

fn describe(variables: &[(&'static str, String)], measurement: &mut Measurement) {
    for (name, value) in variables {
        measurement.variables.insert((*name).to_owned(), value.clone());
    }
}

/// Says plainly whose limit the figures are.
fn verdict(measurements: &[Measurement], allowed: bool) -> ExitCode {
    let saturated: Vec<&Measurement> = measurements.iter().filter(|measured| measured.generator.saturated).collect();
    for measurement in &saturated {
        crate::say_line!(
            "SATURATED: the figures of {} are the load generator's limit and not the target's: {}. Use more --threads, fewer \
             clients or a lower --rate, or another machine for the generator.",
            measurement.id,
            measurement.generator.reason
        );
    }
    if saturated.is_empty() || allowed { ExitCode::SUCCESS } else { ExitCode::from(EXIT_SATURATED) }
}

/// The workloads, with what can be set of each.
fn list() -> String {
    let width = SHAPES.iter().map(|shape| shape.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for shape in SHAPES {
        out.push_str(&format!("{:<width$}  {}\n", shape.name, shape.sentence));
        if !shape.parameters.is_empty() {
            out.push_str(&format!("{:<width$}  set: {}\n", "", shape.parameters.join(", ")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArguments,
    }

    fn parsed(line: &str) -> RunArguments {
        Line::try_parse_from(line.split_whitespace()).unwrap().run
    }

    #[test]
    fn a_line_becomes_a_load() {
        let load = parsed("x puts-gets --target redis://127.0.0.1:1 --rate 50 --minutes 2 --clients 3").load().unwrap();
        assert_eq!(load.pacing, Pacing::Open { rate: 50.0, arrivals: Arrivals::Poisson });
        assert!((load.seconds - 120.0).abs() < 1e-9 && load.clients == 3);
        assert!(parsed("x puts-gets --clients 0").load().unwrap_err().contains("0 clients: write 1 to"));
        assert!(parsed("x puts-gets --target http://127.0.0.1:1 --pipeline 2").load().unwrap_err().contains("HTTP"));
    }

    #[test]
    fn ramps_are_read() {
        let ramp = |text: &str| parsed(&format!("x w --ramp {text}")).parsed_ramp();
        let expected = ClientRamp { from: 2, to: 8, ..ClientRamp::default() };
        assert_eq!(ramp("clients=2..8"), Ok(Some(Ramp::Clients(expected))));
        assert!(matches!(ramp("rate"), Ok(Some(Ramp::Rate(_)))));
        assert!(ramp("nodes").unwrap_err().contains("clients=4..1000"));
        assert!(ramp("clients=8").is_err());
    }

    #[test]
    fn every_workload_is_listed_with_its_sentence() {
        let text = list();
        assert!(SHAPES.iter().all(|shape| text.contains(shape.name) && text.contains(shape.sentence)));
    }
}
