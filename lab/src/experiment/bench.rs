//! What experiments have in common: clusters of their own, loads on them with what those cost, and how much time is left.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Common;
use crate::beside::{Beside, CheckArguments, OWN_PREFIX, Place};
use crate::cluster::{Cluster, Counters, Options, System};
use crate::command::measure;
use crate::command::progress::Progress;
use crate::drive::Target;
use crate::load::{Load, Measured, Observer, Snapshot, run};
use crate::record::Record;
use crate::store;
use crate::workload::{Parameters, Workload};

/// How long a node may take to have what the others have before a stretch begins.
const CURRENT_PATIENCE: Duration = Duration::from_secs(60);

/// The bench that an experiment works at.
#[derive(Debug)]
pub struct Bench {
    stop: Arc<AtomicBool>,
    progress: Progress,
    quiet: bool,
    began: Instant,
    planned: f64,
    steps: usize,
    /// Steps that are over, and when the last one was.
    done: usize,
    done_at: Instant,
    step: String,
}

impl Bench {
    /// A bench for so many steps that take about so many seconds together. `stop` ends it early.
    #[must_use]
    pub fn new(stop: Arc<AtomicBool>, steps: usize, planned_seconds: f64, quiet: bool) -> Bench {
        let now = Instant::now();
        let progress = Progress::new(quiet);
        Bench {
            stop,
            progress,
            quiet,
            began: now,
            planned: planned_seconds,
            steps,
            done: 0,
            done_at: now,
            step: String::new(),
        }
    }

    /// Whether it is to end early.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A step begins: the one before is over. Where no terminal is, a line is written; so people see that it goes on.
    pub fn begin_step(&mut self, what: &str) {
        if !self.step.is_empty() {
            self.done += 1;
            self.done_at = Instant::now();
        }
        self.step = what.to_owned();
        if !self.quiet && !std::io::stderr().is_terminal() {
            eprintln!("{}", self.where_we_are());
        }
    }

    /// All steps are over, or it ends early: the line of progress ends.
    pub fn end(&mut self) {
        self.progress.end();
    }

    fn where_we_are(&self) -> String {
        let left = seconds_left(self.steps, self.done, self.began, self.done_at, Instant::now(), self.planned);
        format!(
            "[{}/{}] {}, about {} left:",
            (self.done + 1).min(self.steps.max(1)),
            self.steps,
            self.step,
            in_words(left)
        )
    }

    /// Shows a second of a load.
    pub fn show(&mut self, snapshot: &Snapshot) {
        let what = self.where_we_are();
        self.progress.show(&what, snapshot, f64::INFINITY);
    }

    /// What a cluster of this experiment is, with three nodes and without faults.
    #[must_use]
    pub fn options(&self, common: &Common) -> Options {
        let mut options = Options::default();
        options.program = common.program.clone().unwrap_or(options.program);
        options.parent = common.data.clone().unwrap_or(options.parent);
        options
    }

    /// Starts a cluster.
    ///
    /// # Errors
    /// What failed, with the last lines of the nodes' logs, and what can be done.
    pub fn start(&self, options: Options) -> Result<Arc<Cluster>, String> {
        let program = options.program.display().to_string();
        Cluster::start(options).map(Arc::new).map_err(|reason| {
            format!("{reason}\nLook whether {program} starts by hand (dictum dev), or give another one with --program.")
        })
    }

    /// The workload that is asked for; `checked` if its history will be.
    ///
    /// # Errors
    /// A sentence that says what to write.
    pub fn workload(&self, common: &Common, checked: bool) -> Result<Arc<dyn Workload>, String> {
        let parameters = Parameters {
            records: common.records,
            field_bytes: common.field_bytes,
            seed: common.seed,
            checked,
            ..Parameters::default()
        };
        measure::workload(&common.workload, &parameters)
    }

    /// A closed loop of so many clients on a system, by RESP; a second of warming up.
    ///
    /// # Errors
    /// When its addresses cannot be read.
    pub fn load(&self, system: &dyn System, common: &Common, clients: u32) -> Result<Load, String> {
        let mut load = Load::new(Target::parse(&format!("redis://{}", system.addresses().join(",")))?);
        load.clients = clients;
        load.warm_up = 1;
        load.seed = common.seed;
        Ok(load)
    }

    /// Writes the workload's records.
    ///
    /// # Errors
    /// When one cannot be written, or it is to end early.
    pub fn fill(&self, load: &Load, workload: &Arc<dyn Workload>) -> Result<(), String> {
        measure::fill(load, workload, &self.stop, true)?;
        if self.is_ending() { Err("it was ended while records were loaded".to_owned()) } else { Ok(()) }
    }

    /// Waits until every node has what the others have.
    ///
    /// # Errors
    /// When one has not.
    pub fn settle(&self, cluster: &Cluster) -> Result<(), String> {
        cluster.wait_until_current(CURRENT_PATIENCE)
    }

    /// Has witnesses begin where the load is going to be, if they were asked for. Their history is named in the record's folder by `name`.
    ///
    /// # Errors
    /// When their history cannot be written.
    pub fn witnesses(
        &self,
        check: &CheckArguments,
        common: &Common,
        load: &Load,
        record: &Record,
        name: &str,
    ) -> Result<Option<Beside>, String> {
        let folder = common.output.out.join(store::folder_name(record.started_ms, &record.experiment));
        check.begin(|| {
            Ok(Place {
                target: load.target.clone(),
                is_partitioned: load.target.bucket.is_some(),
                prefix: OWN_PREFIX.to_owned(),
                file: folder.join(format!("history-{name}")),
                seed: common.seed,
            })
        })
    }

    /// Carries a load out and shows its seconds. `on_second` sees each of them too, and may end it by answering false.
    ///
    /// # Errors
    /// As [`run`].
    pub fn measure(
        &mut self,
        load: &Load,
        workload: &dyn Workload,
        observer: Option<Arc<dyn Observer>>,
        on_second: &mut dyn FnMut(&Snapshot) -> bool,
    ) -> Result<Measured, String> {
        let (enough, stop) = (AtomicBool::new(false), Arc::clone(&self.stop));
        run(load, workload, observer, &enough, &mut |snapshot| {
            self.show(snapshot);
            if !on_second(snapshot) || stop.load(Ordering::Relaxed) {
                enough.store(true, Ordering::Relaxed);
            }
        })
    }

    /// As [`Bench::measure`], with what the system used for each operation of the stretch that counts; the warming up, of a second
    /// or more, is left out of both. What witnesses had done meanwhile counts among the operations. A node that has ended by itself is an
    /// error.
    ///
    /// # Errors
    /// As [`run`], and which node has ended.
    pub fn measure_costs(
        &mut self,
        load: &Load,
        workload: &dyn Workload,
        system: &dyn System,
        beside: Option<&Beside>,
        on_second: &mut dyn FnMut(&Snapshot) -> bool,
    ) -> Result<Measured, String> {
        let done = || beside.map_or(0, Beside::done);
        let (mut before, mut done_before) = (Counters::default(), done());
        let measured = self.measure(load, workload, None, &mut |snapshot| {
            if snapshot.second + 1 == load.warm_up {
                (before, done_before) = (system.counters(), done());
            }
            on_second(snapshot)
        });
        let (mut measurement, notes) = measured?;
        let (after, witnessed) = (system.counters(), done().saturating_sub(done_before));
        system.check()?;
        let answered: u64 = measurement.operations.values().map(|operation| operation.count).sum();
        measurement.counters.extend(after.per_operation(&before, answered + witnessed));
        Ok((measurement, notes))
    }
}

/// About how many seconds are left: what is planned, until a step has shown how long one takes.
fn seconds_left(steps: usize, done: usize, began: Instant, done_at: Instant, now: Instant, planned: f64) -> f64 {
    let since = |from: Instant| now.saturating_duration_since(from).as_secs_f64();
    let left = match done {
        0 => planned - since(began),
        done => {
            let each = done_at.saturating_duration_since(began).as_secs_f64() / done as f64;
            each * steps.saturating_sub(done) as f64 - since(done_at)
        }
    };
    left.max(0.0)
}

/// Seconds for people: `45 s`, `3 min 20 s`, `2 h 5 min`.
fn in_words(seconds: f64) -> String {
    let seconds = seconds.min(1e9) as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_planned_first_and_measured_then() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(seconds_left(10, 0, began, began, at(5), 100.0), 95.0);
        // Two steps took 30 s each; of the third 10 s are over.
        assert_eq!(seconds_left(10, 2, began, at(60), at(70), 100.0), 230.0);
        assert_eq!(seconds_left(2, 2, began, at(60), at(70), 100.0), 0.0);
        assert_eq!([59.0, 200.0, 7_500.0].map(in_words), ["59 s", "3 min 20 s", "2 h 5 min"]);
    }
}
