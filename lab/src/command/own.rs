//! What the commands share that start clusters of their own: where things lie, Ctrl-C, the line that tells how long it takes yet, and the
//! end: record, report, three sentences, exit code.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use super::measure::blank_record;
use super::progress::{Points, Progress};
use super::report::{ReportArguments, report};
use crate::beside::Beside;
use crate::cluster::{Cluster, Options, System};
use crate::drive::Target;
use crate::environment::{ProcessorTimes, is_in_memory};
use crate::load::{Load, Measured, Snapshot, run as run_load};
use crate::record::{ENDED_EARLY, Measurement, Record, Verdict};
use crate::report::gather::note_name;
use crate::report::notes::gathered;
use crate::report::summary::summary;
use crate::store;
use crate::workload::Workload;

/// What a command exits with when something that was promised is surely broken.
pub const EXIT_BROKEN: u8 = 4;
/// What a command exits with when nothing is known to be broken, and something could not be decided.
pub const EXIT_UNDECIDED: u8 = 5;
/// What a command exits with that was ended by Ctrl-C before it could judge or was through; as shells have it for this signal.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Arguments of all commands that start clusters of their own.
#[derive(Clone, Debug, Default, Args)]
pub struct OwnArguments {
    /// The report to write; by default report.html in the run's folder.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The folder that a folder for this run is made in.
    #[arg(long, default_value = "dictum-lab", value_name = "FOLDER")]
    out: PathBuf,
    /// Keeps the nodes' data and logs, and tells where they are.
    #[arg(long)]
    keep: bool,
    /// Shows no progress.
    #[arg(long)]
    quiet: bool,
    /// The program `dictum` that nodes are, if it is not this one.
    #[arg(long, hide = true, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// A run of clusters of its own.
pub(super) struct Own {
    arguments: OwnArguments,
    /// What is written at the end.
    pub record: Record,
    /// The run's folder.
    pub folder: PathBuf,
    /// Set by Ctrl-C.
    pub stop: Arc<AtomicBool>,
    parent: PathBuf,
    before: ProcessorTimes,
    progress: Progress,
    began: Instant,
    /// How long all of it will take, as far as is known.
    expected: Duration,
    /// The points of a run of several.
    turn: Option<Turn>,
}

/// Which of several points it is at.
#[derive(Clone, Copy, Debug)]
struct Turn {
    done: usize,
    all: usize,
    began: Instant,
    /// How long one takes, as far as is known.
    each: Duration,
}

impl Turn {
    fn bar(&self, columns: usize) -> String {
        let share = self.began.elapsed().as_secs_f64() / self.each.as_secs_f64().max(1e-3);
        Points { done: self.done, all: self.all, share }.bar(columns)
    }

    /// How long the points take yet: never less than those do that have not begun.
    fn left(&self) -> Duration {
        let later = u32::try_from(self.all.saturating_sub(self.done + 1)).unwrap_or(u32::MAX);
        self.each.saturating_mul(later) + self.each.saturating_sub(self.began.elapsed())
    }
}

impl OwnArguments {
    /// Begins a run: makes its folder, looks at the machine, catches Ctrl-C. `folder` is that of an earlier run, if it goes on.
    pub(super) fn begin(
        &self,
        experiment: &str,
        title: &str,
        question: &str,
        folder: Option<&Path>,
        expected: Duration,
    ) -> Result<Own, String> {
        let began = Instant::now();
        let stop = interrupted()?;
        // A disk is to be measured, unless there is none.
        let temporary = std::env::temp_dir();
        let parent = if is_in_memory(&temporary) { self.out.clone() } else { temporary };
        let made = |path: &Path| {
            std::fs::create_dir_all(path)
                .map_err(|error| format!("{}: {error}; choose another folder with --out", path.display()))
        };
        made(&parent)?;
        let record = blank_record(&parent, experiment, title, question);
        let folder =
            folder.map_or_else(|| self.out.join(store::folder_name(record.started_ms, experiment)), Into::into);
        made(&folder)?;
        Ok(Own {
            arguments: self.clone(),
            record,
            folder,
            stop,
            parent,
            before: ProcessorTimes::read(),
            progress: Progress::new(self.quiet),
            began,
            expected,
            turn: None,
        })
    }
}

impl Own {
    /// A cluster with these options; the program, the folder, and whether it stays are set here.
    pub(super) fn start(&mut self, options: Options) -> Result<Arc<Cluster>, String> {
        self.say("starting a cluster");
        let mut options = Options { parent: self.parent.clone(), keep: self.arguments.keep, ..options };
        if let Some(program) = &self.arguments.program {
            options.program.clone_from(program);
        }
        let cluster = Arc::new(Cluster::start(options)?);
        self.record.environment.versions.insert("dictum".to_owned(), cluster.version().to_owned());
        if self.arguments.keep {
            self.record.notes.push(format!("The nodes' data and logs are in {}.", cluster.folder().display()));
        }
        Ok(cluster)
    }

    /// Tells what is going on where no load tells it.
    pub(super) fn say(&mut self, what: &str) {
        let line = self.line(what);
        self.progress.say(&line);
    }

    /// What is going on, with a bar if there are several points, and the time left.
    fn line(&self, what: &str) -> String {
        match &self.turn {
            Some(turn) => format!("{} {}  {what}", turn.bar(self.progress.columns()), self.left()),
            None => format!("{what}, {}", self.left()),
        }
    }

    /// Begins one of several points, `done` of `all` being over; `each` is how long one takes, as far as is known.
    pub(super) fn turn(&mut self, done: usize, all: usize, each: Duration, what: &str) {
        self.turn = Some(Turn { done, all, began: Instant::now(), each });
        let line = self.line(what);
        self.progress.begin(&line);
    }

    /// Takes the line of progress away, so that a sentence can stand in its place.
    pub(super) fn clear(&mut self) {
        self.progress.clear();
    }

    /// The last of several points is over.
    pub(super) fn turns_are_over(&mut self) {
        self.progress.clear();
        (self.turn, self.expected) = (None, self.began.elapsed());
    }

    /// How long it will take yet, in words.
    fn left(&self) -> String {
        let left = match &self.turn {
            Some(turn) => turn.left(),
            None => self.expected.saturating_sub(self.began.elapsed()),
        };
        let left = left.as_secs();
        match left {
            0 => "about to end".to_owned(),
            1..120 => format!("{left} s left"),
            _ => format!("{} min left", left.div_ceil(60)),
        }
    }

    /// Whether Ctrl-C was pressed.
    pub(super) fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What shows each second of a load, with the time left of the whole run.
    pub(super) fn on_second(&mut self, what: &str, load: &Load) -> impl FnMut(&Snapshot) {
        let total = load.seconds + f64::from(load.warm_up);
        move |snapshot| {
            match &self.turn {
                // How far it is comes first: what the point is called may be longer than the line.
                Some(turn) => {
                    let far = format!("{} {}", turn.bar(self.progress.columns()), self.left());
                    self.progress.show_before(what, &far, snapshot, total);
                }
                None => {
                    let what = self.line(what);
                    self.progress.show(&what, snapshot, total);
                }
            }
        }
    }

    /// Puts a load on a cluster and counts what it costs there, divided by all operations, those of witnesses included. The measurement is named
    /// after `id`.
    pub(super) fn measure(
        &mut self,
        cluster: &Cluster,
        load: &Load,
        workload: &dyn Workload,
        id: &str,
        name: &str,
        beside: Option<&Beside>,
    ) -> Result<Measured, String> {
        let done = || beside.map_or(0, Beside::done);
        let (before, done_before) = (cluster.counters(), done());
        let stop = Arc::clone(&self.stop);
        let measured = run_load(load, workload, None, &stop, &mut self.on_second(id, load));
        // Of a run of several points a sentence on each stays, and not its last second.
        if self.turn.is_some() {
            self.progress.clear();
        } else {
            self.progress.end();
        }
        let (mut measurement, notes) = measured?;
        cluster.check()?;
        let all = operations(&measurement) + done().saturating_sub(done_before);
        measurement.counters = cluster.counters().per_operation(&before, all);
        measurement.id = id.to_owned();
        measurement.workload = name.to_owned();
        measurement.side = cluster.side().id;
        Ok((measurement, notes))
    }

    /// Puts a measurement into the record, with its notes and whether the generator was saturated.
    pub(super) fn keep(&mut self, (measurement, notes): Measured) {
        let name = note_name(&measurement);
        if measurement.generator.saturated {
            let reason = &measurement.generator.reason;
            let note = format!("{name}: the generator was saturated, the figures may be its own: {reason}.");
            self.record.notes.push(note);
        }
        self.record.notes.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
        self.record.measurements.push(measurement);
    }

    /// Writes the record as it is so far.
    pub(super) fn save(&mut self) -> Result<(), String> {
        self.record.environment.stolen = ProcessorTimes::read().shares_since(&self.before).1;
        store::write(&self.record, &self.folder)
    }

    /// Writes record and report, tells where they are and what they say.
    pub(super) fn finish(mut self) -> Result<ExitCode, String> {
        self.say("writing the report");
        if self.is_interrupted() {
            self.record.notes.push(format!("{ENDED_EARLY}, by Ctrl-C."));
        }
        self.save()?;
        let output = self.arguments.output.clone().unwrap_or_else(|| self.folder.join("report.html"));
        let arguments = ReportArguments { runs: vec![self.folder.clone()], output, json: None };
        let told = report(&arguments, store::read)?;
        self.progress.end();
        let records = [self.record];
        let summary = summary(&records);
        crate::say_line!("{}", summary.line);
        if !summary.warning.is_empty() {
            crate::say_line!("{}", summary.warning);
        }
        for sentence in &summary.sentences {
            crate::say_line!("{sentence}");
        }
        let [record] = &records;
        for note in gathered(&record.notes) {
            crate::say_line!("note: {note}");
        }
        crate::say_line!("record: {}", self.folder.display());
        crate::say_line!("{told}");
        let early = self.stop.load(Ordering::Relaxed);
        let unjudged = if early { ExitCode::from(EXIT_INTERRUPTED) } else { ExitCode::SUCCESS };
        Ok(record.verdict.as_ref().map_or(unjudged, exit_code))
    }
}

/// Operations answered without an error.
pub(super) fn operations(measurement: &Measurement) -> u64 {
    measurement.operations.values().map(|operation| operation.count).sum()
}

/// Tells a verdict, a line for each property.
pub(super) fn tell(verdict: &Verdict) {
    for property in &verdict.properties {
        let word = match (property.holds, property.undecided) {
            (true, _) => "holds",
            (false, true) => "UNDECIDED",
            (false, false) => "BROKEN",
        };
        crate::say_line!("{word}: {} ({})", property.name, property.detail);
    }
}

/// What a verdict is to the shell.
pub(super) fn exit_code(verdict: &Verdict) -> ExitCode {
    let broken = verdict.properties.iter().any(|property| !property.holds && !property.undecided);
    match (verdict.holds, broken || verdict.properties.is_empty()) {
        (true, _) => ExitCode::SUCCESS,
        (false, true) => ExitCode::from(EXIT_BROKEN),
        (false, false) => ExitCode::from(EXIT_UNDECIDED),
    }
}

/// A load of all of a cluster's nodes.
pub(super) fn load_of(cluster: &dyn System) -> Result<Load, String> {
    Ok(Load::new(Target::parse(&format!("redis://{}", cluster.addresses().join(",")))?))
}

/// The first Ctrl-C sets this; a second one ends the program as ever.
fn interrupted() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, Arc::clone(&stop))
        .and_then(|_| signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop)))
        .map_err(|error| format!("Ctrl-C cannot be caught: {error}"))?;
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Property;

    #[test]
    fn verdicts_have_their_codes() {
        let code = |properties: &[(bool, bool)]| {
            let properties: Vec<Property> = (properties.iter())
                .map(|(holds, undecided)| Property { holds: *holds, undecided: *undecided, ..Property::default() })
                .collect();
            let holds = properties.iter().all(|property| property.holds);
            format!("{:?}", exit_code(&Verdict { holds, properties, ..Verdict::default() }))
        };
        let is = |code: u8| format!("{:?}", ExitCode::from(code));
        assert_eq!(code(&[(true, false), (true, false)]), is(0));
        assert_eq!(code(&[(true, false), (false, true)]), is(EXIT_UNDECIDED));
        assert_eq!(code(&[(false, true), (false, false)]), is(EXIT_BROKEN));
    }
}
