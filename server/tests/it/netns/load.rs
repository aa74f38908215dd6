//! The laboratory's load on a cluster while things happen to it: what every client saw is recorded, told stage by stage, and checked at the end.
//!
//! Sending, recording, measuring and checking are those of `dictum lab verify`. Latencies count from when an operation was due, so a pause is seen
//! by all who would have asked meanwhile.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lab::beside::last::{read_history, read_last};
use lab::drive::Target;
use lab::history::{Limits, Recorder, check};
use lab::load::{Historian, Measured, Observed, Observer, Outcome, Pacing};
use lab::record::{Arrivals, Measurement, Verdict};
use lab::statistics::steps::bounds;
use lab::workload::{Parameters, find};
use tempfile::TempDir;

use crate::common::bell::Bell;

/// Bytes of a recorded history.
const HISTORY_BYTES_MAX: u64 = 1 << 30;
/// How long a client waits for an answer: twice what a node may take for one (docs/operating.md).
const TIMEOUT: Duration = Duration::from_secs(10);
/// What the load calls an answer that did not come in time.
const TIMED_OUT: &str = "no answer within the timeout";

/// A load that goes on until it is finished.
pub struct Load {
    epoch: Instant,
    /// When it began to send.
    began: Arc<OnceLock<Instant>>,
    target: Target,
    history: PathBuf,
    watch: Arc<Watch>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Measured, String>>,
    /// What happened when, in the order of time: each begins a stage.
    marks: Vec<(Duration, String)>,
    _folder: TempDir,
}

/// Takes what the clients see.
struct Watch {
    historian: Historian<Recorder>,
    acknowledged: AtomicU64,
    /// When commands were refused, and with which words.
    refused: Mutex<Vec<(Duration, String)>>,
    /// When it was known, a second later at most, that commands will never be answered.
    unanswered: Mutex<Vec<Duration>>,
    epoch: OnceLock<Instant>,
    bell: Bell,
}

impl Observer for Watch {
    fn observe(&self, batch: Vec<Observed>) {
        let mut acknowledged = 0;
        for observed in &batch {
            match observed.outcome {
                Outcome::Ok => acknowledged += 1,
                Outcome::Error => {
                    let text = observed.answer.as_ref().and_then(|answer| answer.as_error()).unwrap_or_default();
                    let at = Duration::from_nanos(observed.until.unwrap_or(observed.from));
                    let text = text.split(' ').take(8).collect::<Vec<_>>().join(" ");
                    self.refused.lock().unwrap_or_else(PoisonError::into_inner).push((at, text));
                }
                Outcome::Unknown => {
                    let at = self.epoch.get().map_or(Duration::ZERO, Instant::elapsed);
                    self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).push(at);
                }
            }
        }
        self.historian.observe(batch);
        self.acknowledged.fetch_add(acknowledged, Ordering::SeqCst);
        self.bell.ring();
    }
}

impl Load {
    /// `clients` clients of these nodes, in turn, which do what `dictum lab verify` has them do, `rate` operations a second. The load is where the
    /// calling thread is. `keys` is what its keys begin with.
    pub fn start(addresses: &[String], clients: u32, rate: f64, keys: &str) -> Load {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let history = folder.path().join("history");
        let recorder = Recorder::create(&history, HISTORY_BYTES_MAX).expect("the folder can be written");
        let watch = Arc::new(Watch {
            historian: Historian::new(recorder),
            acknowledged: AtomicU64::new(0),
            refused: Mutex::default(),
            unanswered: Mutex::default(),
            epoch: OnceLock::new(),
            bell: Bell::default(),
        });
        let target = Target::parse(&format!("redis://{}", addresses.join(","))).expect("addresses");
        let mut load = lab::load::Load::new(target.clone());
        let epoch = load.epoch;
        let _ = watch.epoch.set(epoch);
        (load.clients, load.threads, load.timeout, load.seconds) = (clients, 1, TIMEOUT, f64::INFINITY);
        load.pacing = Pacing::Open { rate, arrivals: Arrivals::Poisson };
        let parameters = Parameters { seed: 1, prefix: keys.to_owned(), checked: true, ..Parameters::default() };
        let workload =
            find("checked").and_then(|shape| (shape.build)(&parameters)).expect("a workload of the laboratory");
        let (stop, began) = (Arc::<AtomicBool>::default(), Arc::<OnceLock<Instant>>::default());
        let (observer, stopped, begun) = (Arc::clone(&watch), Arc::clone(&stop), Arc::clone(&began));
        let thread = thread::spawn(move || {
            lab::load::run(&load, workload.as_ref(), Some(observer), &stopped, &mut |snapshot| {
                let _ = snapshot.began.map(|at| begun.set(at));
            })
        });
        Load { epoch, began, target, history, watch, stop, thread, marks: Vec::new(), _folder: folder }
    }

    /// Begins a stage.
    pub fn mark(&mut self, what: impl Into<String>) {
        self.marks.push((self.epoch.elapsed(), what.into()));
    }

    /// Waits until so many more commands were answered.
    pub fn wait_for(&self, more: u64) {
        let acknowledged = || self.watch.acknowledged.load(Ordering::SeqCst);
        let wanted = acknowledged() + more;
        self.watch.bell.wait_for(&format!("{more} more answers"), || {
            assert!(!self.thread.is_finished(), "the load has ended by itself");
            (acknowledged() >= wanted).then_some(())
        });
    }

    /// Ends the load, reads what every key holds by now, and checks what the clients saw.
    pub fn finish(mut self) -> Seen {
        self.mark("end");
        self.stop.store(true, Ordering::SeqCst);
        let (measurement, _) = self.thread.join().expect("the load does not panic").expect("the load could go on");
        let Watch { historian, refused, unanswered, .. } =
            Arc::into_inner(self.watch).expect("the load has let go of it");
        let (recorder, problem) = historian.finish();
        assert_eq!(problem, None, "everything can be checked");
        recorder.finish().expect("the history is whole");
        let history = read_history(&self.history).expect("the history can be read");
        let last = read_last(&self.target, &history).expect("every key can be read at the end");
        let verdict = check(&history, &last, Limits::default()).verdict;
        if !verdict.holds {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("netns-{}.history", std::process::id()));
            std::fs::copy(&self.history, &kept).expect("the folder of the build can be written");
            eprintln!("the history is in {}", kept.display());
        }
        let offset = self.began.get().map_or(Duration::ZERO, |began| began.duration_since(self.epoch));
        let refused = refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        let unanswered = unanswered.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ends = self.marks.iter().skip(1).map(|(at, _)| *at);
        let stage = |((from, name), until): (&(Duration, String), Duration)| {
            let within = |at: &Duration| (*from..until).contains(at);
            let mut told = BTreeMap::new();
            refused
                .iter()
                .filter(|(at, _)| within(at))
                .for_each(|(_, text)| *told.entry(text.clone()).or_insert(0) += 1);
            let times = (from.saturating_sub(offset), until.saturating_sub(offset));
            Stage {
                name: name.clone(),
                silence_ms: silence_ms(&measurement, times),
                latencies: Latencies::of(&measurement, times),
                refused: told,
                unanswered: unanswered.iter().filter(|at| within(at)).count(),
            }
        };
        let stages = self.marks.iter().zip(ends).map(stage).collect();
        let timeouts = measurement.errors.get(TIMED_OUT).copied().unwrap_or(0);
        Seen { verdict, stages, timeouts, errors: measurement.errors }
    }
}

/// The longest stretch in which nothing was answered, as far as it lies within these times since the load began.
fn silence_ms(measurement: &Measurement, (from, until): (Duration, Duration)) -> f64 {
    let (from, until) = (from.as_secs_f64() * 1e3, until.as_secs_f64() * 1e3);
    let within = |at: f64, length: f64| (at + length).min(until) - at.max(from);
    measurement.gaps.iter().map(|gap| within(gap.at_ms, gap.length_ms)).fold(0.0, f64::max)
}

/// How long clients waited in the seconds of a stage.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// As many as fell into each step (`lab::statistics::steps`).
    steps: BTreeMap<u16, u64>,
}

impl Latencies {
    /// Of all seconds that lie in these times since the load began, whole or in part.
    fn of(measurement: &Measurement, (from, until): (Duration, Duration)) -> Latencies {
        let seconds = from.as_secs()..until.as_secs() + 1;
        let mut steps = BTreeMap::new();
        let within = measurement.series.iter().filter(|second| seconds.contains(&u64::from(second.second)));
        within.flat_map(|second| &second.steps).for_each(|(step, count)| *steps.entry(*step).or_insert(0) += count);
        Latencies { steps }
    }

    /// So many of 1,000 waited no longer than this, in milliseconds; it is told 9 % too high at most.
    pub fn permille_ms(&self, permille: u64) -> f64 {
        let all: u64 = self.steps.values().sum();
        let mut seen = 0;
        let found = self.steps.iter().find(|(_, count)| {
            seen += **count;
            seen * 1000 >= all * permille
        });
        found.map_or(0.0, |(step, _)| bounds(*step).1 / 1e6)
    }
}

/// What was seen from one mark to the next.
pub struct Stage {
    pub name: String,
    /// The longest stretch in which nobody was answered.
    pub silence_ms: f64,
    pub latencies: Latencies,
    /// Commands that were answered with an error, by its words.
    pub refused: BTreeMap<String, u64>,
    /// Commands whose connection was lost, or timed out, before their answer came.
    pub unanswered: usize,
}

/// What was seen.
pub struct Seen {
    pub verdict: Verdict,
    pub stages: Vec<Stage>,
    /// Answers that did not come in time.
    pub timeouts: u64,
    /// All that the load calls an error, by its words: those of connections as well.
    pub errors: BTreeMap<String, u64>,
}

impl Seen {
    /// Tells it, and fails unless every answer fits.
    pub fn judge(&self, name: &str) {
        eprintln!("{name}: {self}");
        assert!(self.verdict.holds, "{name}: {:#?}", self.verdict);
    }

    /// Fails if any client was told an error, or waited in vain. A command whose connection was lost is sent again by client libraries themselves.
    pub fn expect_no_errors(&self) {
        for stage in &self.stages {
            assert!(stage.refused.is_empty(), "{}: clients were told {:?}", stage.name, stage.refused);
        }
        assert_eq!(self.timeouts, 0, "every request is answered in time");
    }

    /// The 99th percentile in milliseconds: of the first stage, and of those whose names hold `what`.
    pub fn p99_ms(&self, what: &str) -> (f64, f64) {
        let mut during = Latencies::default();
        let stages = self.stages.iter().filter(|stage| stage.name.contains(what));
        stages
            .flat_map(|stage| &stage.latencies.steps)
            .for_each(|(step, count)| *during.steps.entry(*step).or_insert(0) += count);
        (self.stages[0].latencies.permille_ms(990), during.permille_ms(990))
    }

    /// Fails if nobody was answered for so long in a stage whose name holds `what`.
    pub fn expect_silence(&self, what: &str, most_ms: f64) {
        let stages: Vec<_> = self.stages.iter().filter(|stage| stage.name.contains(what)).collect();
        assert!(!stages.is_empty(), "there are stages called so: {what}");
        for stage in stages {
            let silence = stage.silence_ms;
            assert!(silence <= most_ms, "{}: nobody was answered for {silence:.0} ms (at most {most_ms})", stage.name);
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { holds, operations, decided, keys, .. } = &self.verdict;
        let word = if *holds { "holds" } else { "DOES NOT HOLD" };
        writeln!(f, "{word}: {operations} operations on {keys} keys, {decided} of them decided")?;
        writeln!(f, "  {:<44} {:>10} {:>9} {:>9}  clients were told", "stage", "silence ms", "p50 ms", "p99 ms")?;
        for stage in &self.stages {
            let mut told: Vec<String> = stage.refused.iter().map(|(text, count)| format!("{count} × {text}")).collect();
            if stage.unanswered > 0 {
                told.push(format!("{} × nothing, their connection was lost", stage.unanswered));
            }
            let told = if told.is_empty() { "no error".to_owned() } else { told.join("; ") };
            let (p50, p99) = (stage.latencies.permille_ms(500), stage.latencies.permille_ms(990));
            writeln!(f, "  {:<44} {:>10.0} {p50:>9.2} {p99:>9.2}  {told}", stage.name, stage.silence_ms)?;
        }
        let connecting: u64 =
            self.errors.iter().filter(|(text, _)| text.starts_with("connecting")).map(|(_, count)| count).sum();
        write!(f, "  connections that were tried in vain: {connecting}; answers that came too late: {}", self.timeouts)
    }
}
