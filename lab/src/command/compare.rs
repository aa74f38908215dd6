//! `dictum lab compare`: the same work on Dictum and its rivals, in one run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

use super::measure::command_line;
use super::progress::Progress;
use crate::cluster::rivals::Place;
use crate::compare::kinds::SideKind;
use crate::compare::rows::{ROWS, Work, parse};
use crate::compare::sides::Start;
use crate::compare::summary::Summary;
use crate::compare::{Plan, REPEATS_MAX, Told, run as run_comparison};
use crate::environment::{ProcessorTimes, examine, is_in_memory, program_version};
use crate::load::default_threads;
use crate::record::{FORMAT, Record};
use crate::{peers, report, store};

/// Arguments of `dictum lab compare`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Rows: set1 set256 set50x16 get256 get50x16 ycsb-a ycsb-b ycsb-c kill\n\nExamples:\n  dictum lab compare --peers \
                  redis,redis-wait,etcd -o report.html\n  dictum lab compare --peers redis --rows set256,get256 --seconds 3 --repeats 5\n  \
                  dictum lab compare --peers etcd --rows kill --kills 10 --append bench/history.jsonl\n  dictum lab compare \
                  --peers cassandra,nats --rows set256,get256,ycsb-a"
)]
pub struct CompareArguments {
    /// The rivals: redis, redis-wait, etcd, cassandra, nats. Each is started by this program and must be installed.
    #[arg(long, default_value = "redis,redis-wait,etcd", value_name = "NAMES")]
    peers: String,
    /// The rows; all if none are named.
    #[arg(long, value_name = "NAMES")]
    rows: Option<String>,
    /// Seconds that each row is measured.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds before that, which do not count.
    #[arg(long, default_value_t = 1, value_name = "SECONDS")]
    warm_up: u32,
    /// Repeats of everything; each begins with another side.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=i64::from(REPEATS_MAX)))]
    repeats: u32,
    /// Times that a leader is killed in all, for the row `kill`.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=i64::from(REPEATS_MAX)))]
    kills: u32,
    /// Plain values that are there, of 256 bytes.
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Records that are there for YCSB, of ten fields of 100 bytes.
    #[arg(long, default_value_t = 10_000)]
    records: u64,
    /// Threads that send; by default one for each core, at most 2.
    #[arg(long)]
    threads: Option<u32>,
    /// The Dictum that is measured; by default this program.
    #[arg(long, value_name = "PROGRAM")]
    dictum: Option<PathBuf>,
    /// Folders where rivals' programs are looked for before those of PATH; Cassandra's jars in a folder `cassandra` below them, or in
    /// the lib folder of CASSANDRA_HOME.
    #[arg(long, default_value = "bench/work/bin", value_name = "FOLDER")]
    programs: Vec<PathBuf>,
    /// The program that drives etcd, cassandra and nats; by default it is looked for beside this one, in lab-peers/target/release, and in PATH.
    #[arg(long, env = "DICTUM_LAB_PEERS", value_name = "PROGRAM")]
    peers_program: Option<PathBuf>,
    /// The folder that data is kept in while it is measured: on the disk that is to be measured. By default that of --out.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// The folder that a folder for this run is made in.
    #[arg(long, default_value = "dictum-lab", value_name = "FOLDER")]
    out: PathBuf,
    /// Draws the report as one HTML file.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Appends one line of JSON with version, day, rows, ratios and environment.
    #[arg(long, value_name = "FILE")]
    append: Option<PathBuf>,
    /// Shows no progress.
    #[arg(long)]
    quiet: bool,
}

impl CompareArguments {
    fn plan(&self) -> Result<Plan, String> {
        let own = std::env::current_exe().map_err(|error| format!("this program cannot find itself: {error}"))?;
        let mut sides = vec![SideKind::Dictum];
        sides.extend(SideKind::parse(&self.peers)?);
        let rows = self.rows.as_deref().map_or_else(|| Ok(ROWS.iter().collect()), parse)?;
        if !(self.seconds >= 1.0 && self.seconds <= 86_400.0) {
            return Err(format!("--seconds {}: write 1 to 86400", self.seconds));
        }
        for (name, number) in [("--keys", self.keys), ("--records", self.records)] {
            if !(1..=1_000_000_000).contains(&number) {
                return Err(format!("{name} {number}: write 1 to 1000000000"));
            }
        }
        let peers_program = match sides.iter().any(|side| side.is_driven_by_peers()) {
            true => Some(peers::locate(self.peers_program.as_deref())?),
            false => None,
        };
        let parent = self.data.clone().unwrap_or_else(|| self.out.clone());
        let place = Place { guard: own.clone(), parent, programs: self.programs.clone() };
        Ok(Plan {
            sides,
            rows,
            repeats: self.repeats,
            seconds: self.seconds,
            warm_up: self.warm_up,
            kills: self.kills,
            keys: self.keys,
            records: self.records,
            threads: self.threads.unwrap_or_else(default_threads),
            start: Start { dictum: self.dictum.clone().unwrap_or(own), place },
            peers_program,
        })
    }
}

/// Carries `dictum lab compare` out.
///
/// # Errors
/// A sentence for people. What was measured before an error is written all the same.
pub(super) fn run(arguments: &CompareArguments) -> Result<ExitCode, String> {
    let plan = arguments.plan()?;
    let stop = Arc::new(AtomicBool::new(false));
    // The first Ctrl-C ends the load and keeps what was seen; a second one ends the program as ever.
    signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, Arc::clone(&stop))
        .and_then(|_| signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop)))
        .map_err(|error| format!("Ctrl-C cannot be caught: {error}"))?;
    let parent = &plan.start.place.parent;
    std::fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    let versions = BTreeMap::from([("dictum".to_owned(), program_version(&plan.start.dictum)?)]);
    let mut record = Record {
        format: FORMAT,
        experiment: "compare".to_owned(),
        title: "Dictum and its rivals, the same work in one run".to_owned(),
        question: "How fast is Dictum beside others that do the same work on the same machine?".to_owned(),
        command: command_line(),
        started_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
        environment: examine(parent, versions)?,
        ..Record::default()
    };
    notes(&plan, &mut record);
    let before = ProcessorTimes::read();
    let mut progress = Progress::new(arguments.quiet);
    let outcome = run_comparison(&plan, &mut record, &stop, &mut |told| match told {
        Told::Stage(what) if !arguments.quiet => eprintln!("{what}"),
        Told::Stage(_) => {}
        Told::Second(name, length, snapshot) => progress.show(name, snapshot, length),
        Told::Row(measurement) => {
            progress.end();
            if !arguments.quiet {
                let gap = measurement.gaps.iter().map(|gap| gap.length_ms).fold(0.0, f64::max);
                let gap =
                    if measurement.marks.is_empty() { String::new() } else { format!(", longest gap {gap:.0} ms") };
                eprintln!("{}: {:.0} operations/s{gap}", measurement.id, measurement.throughput);
            }
        }
    });
    progress.end();
    record.environment.stolen = ProcessorTimes::read().shares_since(&before).1;
    for side in &record.sides {
        record.environment.versions.entry(side.id.clone()).or_insert_with(|| side.name.clone());
    }
    if record.measurements.is_empty() {
        return outcome.map(|()| ExitCode::FAILURE);
    }
    let folder = arguments.out.join(store::folder_name(record.started_ms, &record.experiment));
    store::write(&record, &folder)?;
    let summary = Summary::of(&record, &plan.rows);
    crate::say_line!("{}\nwritten to {}", summary.table(), folder.display());
    if let Some(path) = &arguments.output {
        std::fs::write(path, report::render(std::slice::from_ref(&record)))
            .map_err(|error| format!("{}: {error}; name another file with -o", path.display()))?;
        crate::say_line!("report: {}", path.display());
    }
    outcome?;
    if let Some(path) = arguments.append.as_ref().filter(|_| !stop.load(Ordering::Relaxed)) {
        summary.append(path)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a reader must know of how it was done.
fn notes(plan: &Plan, record: &mut Record) {
    if is_in_memory(&plan.start.place.parent) {
        record.notes.push("The data lies in memory: a sync costs nothing, and no figure is that of a disk.".to_owned());
    }
    record.notes.push(
        "All sides and the load generator share this machine's processors; one side runs at a time, and each repeat begins with another \
         one."
            .to_owned(),
    );
    let of_values: Vec<&str> =
        plan.sides.iter().filter(|side| side.is_driven_by_peers()).map(|side| side.id()).collect();
    if !of_values.is_empty() && plan.rows.iter().any(|row| !row.load().is_plain()) {
        record.notes.push(format!(
            "YCSB on {}: a record is one value of 1,000 bytes, which an update writes whole; on the other sides it is a hash, of which \
             an update writes one field of 100 bytes.",
            of_values.join(", ")
        ));
    }
    let kills = plan.rows.iter().any(|row| row.work == Work::Kill);
    if kills && plan.sides.contains(&SideKind::Cassandra) {
        record.notes.push(
            "Nobody leads in Cassandra: one of its nodes is killed, and operations that the others answer go on meanwhile.".to_owned(),
        );
    }
    if record.environment.idle < 0.9 {
        let idle = 100.0 * record.environment.idle;
        record.notes.push(format!(
            "The machine was not quiet when it began ({idle:.0} % idle): trust ratios more than figures."
        ));
    }
}
