//! A few clients beside a load, whose history is recorded and checked: so any load can be measured, however many operations it is, and it is
//! seen all the same whether the system kept its promises meanwhile.
//!
//! ```text
//! the load ──────────── clients, operations as they come ──────────▶ system ◀── the end: what every key holds
//! witnesses ─────────── 6 clients, 100 operations a second ────────▶    ▲              │
//!      └── Historian ──▶ file `history…` in the record's folder         └──────────────┴──▶ check ──▶ verdict
//! ```
//!
//! The witnesses do what the workload `checked` draws, on keys of their own that nobody else knows. What the load itself was answered is
//! not recorded: a checker needs all operations on a key, and a load's may be a hundred million.

pub(crate) mod forge;
pub mod last;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use clap::Args;

use crate::drive::{Protocol, Target};
use crate::history::{Limits, Operation, Outcome, Recorder, Witness, check};
use crate::load::{Historian, Load, Measured, Pacing, run};
use crate::record::{Arrivals, Verdict};
use crate::workload::{Parameters, find, parse_mix};

/// Witnesses: two for each of three nodes, so that what one node answers is seen beside what another one does.
const CLIENTS: u32 = 6;
/// Operations a second, all witnesses together: enough that they meet on the hot keys, and few beside a load.
const RATE: f64 = 100.0;
/// Operations of one history: as many as are checked in about 600 MB of memory. It takes five and a half hours.
const OPERATIONS_MAX: u64 = 2_000_000;
/// What keys begin with on a system that the laboratory has started itself, where no load has such.
pub const OWN_PREFIX: &str = "check:";
/// Bytes of one history.
const HISTORY_BYTES_MAX: u64 = 1 << 30;
/// In a bucket of several partitions there are no transactions over several keys.
const MIX_WITHOUT_TRANSACTIONS: &str = "read=40,set=22,compare-and-set=12,increment=12,append=8,push=3,take=3";

/// The arguments of every command that can have witnesses.
#[derive(Clone, Debug, Default, Args)]
pub struct CheckArguments {
    /// Has six more clients beside the load, records what they see and checks it: 100 operations a second on keys of their own. The load's own
    /// operations are not recorded. The verdict is on the report's first page; exits with 4 if something that was promised was broken, with 5
    /// if something could not be decided.
    #[arg(long)]
    pub check: bool,
    /// Changes one answer in the history before it is checked: to see that the alarm works.
    #[arg(long, hide = true, requires = "check")]
    pub forge: bool,
}

/// Where witnesses go, and where their history does.
#[derive(Clone, Debug)]
pub struct Place {
    /// The system, with the bucket.
    pub target: Target,
    /// Whether the bucket has several partitions.
    pub is_partitioned: bool,
    /// What the witnesses' keys begin with: nothing may be there before that begins so.
    pub prefix: String,
    /// The file of the history; its folder is made.
    pub file: PathBuf,
    /// Where chance begins.
    pub seed: u64,
}

/// Witnesses at work.
pub struct Beside {
    place: Place,
    forge: bool,
    historian: Arc<Historian<Counted>>,
    ending: Ending,
    thread: JoinHandle<Result<Measured, String>>,
}

impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Ends the witnesses when it is dropped, whatever came of the load.
struct Ending(Arc<AtomicBool>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What witnesses saw, judged.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What the check came to.
    pub verdict: Verdict,
    /// Sentences a reader must know.
    pub notes: Vec<String>,
}

/// A recorder that knows how many operations were done.
struct Counted {
    recorder: Recorder,
    done: AtomicU64,
}

impl Witness for Counted {
    fn finished(&self, batch: &[Operation]) {
        let done = batch.iter().filter(|operation| operation.outcome == Outcome::Done).count();
        self.done.fetch_add(done as u64, Ordering::Relaxed);
        self.recorder.finished(batch);
    }
}

impl CheckArguments {
    /// Whether what it asks for can be had of this target.
    ///
    /// # Errors
    /// When it cannot.
    pub fn allows(&self, target: &Target) -> Result<(), String> {
        if self.check && target.protocol != Protocol::Resp {
            return Err(format!(
                "{target}: only of redis:// the answers can be checked; write it so, or leave --check out"
            ));
        }
        Ok(())
    }

    /// Begins, if it was asked for.
    ///
    /// # Errors
    /// When the history cannot be written, or the target's answers cannot be checked.
    pub fn begin(&self, place: impl FnOnce() -> Result<Place, String>) -> Result<Option<Beside>, String> {
        if !self.check {
            return Ok(None);
        }
        let place = place()?;
        self.allows(&place.target)?;
        Beside::begin(place, self.forge).map(Some)
    }

    /// What a record must say of it.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        self.check.then(|| {
            format!(
                "Checked is what {CLIENTS} more clients saw beside the load, with {RATE:.0} operations a second on keys of their own; the load’s own \
                 operations were not recorded. The witnesses are in no figure of throughput or latency, but they take their part of the system: \
                 each operation’s costs are those of all operations, theirs included."
            )
        })
    }
}

impl Beside {
    /// Has witnesses begin.
    ///
    /// # Errors
    /// See [`CheckArguments::begin`].
    fn begin(place: Place, forge: bool) -> Result<Beside, String> {
        if let Some(folder) = place.file.parent() {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let recorder = Recorder::create(&place.file, HISTORY_BYTES_MAX)?;
        let historian = Arc::new(Historian::new(Counted { recorder, done: AtomicU64::new(0) }));
        let mix = if place.is_partitioned { Some(parse_mix(MIX_WITHOUT_TRANSACTIONS)?) } else { None };
        let prefix = place.prefix.clone();
        let parameters = Parameters { seed: place.seed, prefix, mix, checked: true, ..Parameters::default() };
        let workload = (find("checked")?.build)(&parameters)?;
        let mut load = Load::new(place.target.clone());
        (load.clients, load.threads, load.seed) = (CLIENTS, 1, place.seed);
        (load.seconds, load.operations, load.epoch) = (f64::INFINITY, Some(OPERATIONS_MAX), Instant::now());
        load.pacing = Pacing::Open { rate: RATE, arrivals: Arrivals::Poisson };
        let stop = Arc::new(AtomicBool::new(false));
        let (observer, ending) = (Arc::clone(&historian), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("witnesses".to_owned())
            .spawn(move || {
                let watching = Arc::clone(&observer);
                run(&load, workload.as_ref(), Some(observer), &ending, &mut |_| {
                    // With a hole in it the history proves nothing, however long it goes on.
                    if watching.has_problem() || watching.witness().recorder.has_failed() {
                        ending.store(true, Ordering::Relaxed);
                    }
                })
            })
            .map_err(|error| format!("no thread for the witnesses can be started: {error}"))?;
        Ok(Beside { place, forge, historian, ending: Ending(stop), thread })
    }

    /// Operations of the witnesses that were done so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.historian.witness().done.load(Ordering::Relaxed)
    }

    /// Ends the witnesses, reads every key of theirs, and checks what they saw. The history stays.
    ///
    /// # Errors
    /// When nothing can be concluded: they could not begin, the history is not whole, a key cannot be read.
    pub fn finish(self) -> Result<Seen, String> {
        let (target, wrong) = (self.place.target.clone(), |reason: String| {
            format!("nothing can be concluded from the witnesses: {reason}")
        });
        drop(self.ending);
        let measured = self.thread.join().map_err(|_| wrong("their thread panicked: please report it".to_owned()))?;
        let (measurement, _) = measured.map_err(wrong)?;
        let historian = Arc::into_inner(self.historian)
            .ok_or_else(|| wrong("their load has not let go of the history: please report it".to_owned()))?;
        let (counted, problem) = historian.finish();
        counted.recorder.finish().map_err(wrong)?;
        if let Some(problem) = problem {
            return Err(wrong(problem));
        }
        let mut history = last::read_history(&self.place.file).map_err(wrong)?;
        if history.iter().all(|operation| operation.outcome != Outcome::Done) {
            return Err(wrong("not one of their operations was answered".to_owned()));
        }
        let last = last::read_last(&target, &history).map_err(wrong)?;
        let mut notes = Vec::new();
        if history.len() as u64 >= OPERATIONS_MAX {
            notes.push(format!(
                "The witnesses ended after {OPERATIONS_MAX} operations, {:.0} s after they began: a longer history is not checked.",
                measurement.seconds
            ));
        }
        if self.forge {
            notes.push(forge::forge(&mut history)?);
        }
        let verdict = check(&history, &last, Limits::default()).verdict;
        Ok(Seen { verdict: Verdict { beside: true, ..verdict }, notes })
    }

    /// As [`Beside::finish`], on a system that is not the laboratory's own: the keys are deleted there.
    ///
    /// # Errors
    /// As there.
    pub fn finish_and_tidy(self) -> Result<Seen, String> {
        let Place { target, file, .. } = self.place.clone();
        let mut seen = self.finish()?;
        let tidied = last::read_history(&file).and_then(|history| last::tidy(&target, &history));
        if let Err(reason) = tidied {
            seen.notes.push(format!("Keys that begin with lab-check: are left in the target: {reason}."));
        }
        Ok(seen)
    }
}
