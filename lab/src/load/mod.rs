//! The engine: a few threads, each with a share of the clients, that send what a workload draws and count what comes back.
//!
//! ```text
//!            main thread                     a thread of the load (worker)
//!   run ──┬── spawns ───────────────────────▶ opens its connections, waits for the others
//!         │                                   due? free client? ─ draw ─ encode ─ write
//!         │                                   readable ─ read once ─ skim answers ─ count
//!         ◀── Slice: one thread's second ──── at the end of each second
//!         merges, calls `on_second`, adds up, judges the generator
//! ```
//!
//! **Closed loop**: a client sends its next operation when the last is answered. **Open loop**: operations are due at a set
//! rate, whatever the answers do; one that finds no free client waits in a queue, and its latency counts from when it was due.
//! Otherwise a server that stalls would also stall the questions, and the stall would be counted once instead of for everyone
//! who would have waited ("coordinated omission", Gil Tene).

mod collect;
mod historian;
mod judge;
mod observe;
pub mod ramp;
mod recall;
pub mod tally;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::time::{Duration, Instant};

pub use collect::collect;
pub use historian::Historian;
pub use observe::{Observed, Observer, Outcome, Snapshot};
pub use recall::Recall;

use crate::drive::cluster::SlotMap;
use crate::drive::{Protocol, Target};
use crate::record::{Arrivals, Measurement};
use crate::workload::Workload;
use worker::Worker;

/// Clients of one load: each is a connection, and the system's ports are fewer than 65,536 for each address.
pub const CLIENTS_MAX: u32 = 100_000;
/// Operations of one client that are under way at once.
pub const PIPELINE_MAX: u32 = 4_096;
/// Threads that send.
pub const THREADS_MAX: u32 = 64;

/// When operations start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// Each client sends its next operation when the last is answered.
    Closed,
    /// So many operations a second, all clients together.
    Open {
        /// Operations a second, above 0.
        rate: f64,
        /// [`Arrivals::Constant`] or [`Arrivals::Poisson`].
        arrivals: Arrivals,
    },
}

/// Which address a client begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// Client after client, address after address.
    #[default]
    RoundRobin,
    /// All with the first one.
    First,
}

/// The niceness of threads that send what is due at a set time.
const OPEN_LOOP_NICENESS: i32 = -10;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Load {
    /// The system.
    pub target: Target,
    /// Clients, 1 to [`CLIENTS_MAX`]: each has a connection (in a Redis cluster one for each node that it needs).
    pub clients: u32,
    /// Operations of one client that may be under way at once, 1 to [`PIPELINE_MAX`]; over HTTP 1.
    pub pipeline: u32,
    /// Threads that send, 1 to [`THREADS_MAX`].
    pub threads: u32,
    /// When operations start.
    pub pacing: Pacing,
    /// Seconds at the beginning that do not count.
    pub warm_up: u32,
    /// Seconds that count; may be infinite if `operations` or the caller ends it.
    pub seconds: f64,
    /// The load ends after so many operations.
    pub operations: Option<u64>,
    /// An answer that takes longer is given up, with its connection.
    pub timeout: Duration,
    /// Operations that may wait for a free client, all threads together; what is due beyond that is dropped, counted as an
    /// error, and said in the notes.
    pub queue_max: usize,
    /// Which address each client begins with. After a loss it goes on with the next one.
    pub start: Start,
    /// Calls clients back to the addresses that they began with.
    pub recall: Recall,
    /// Where chance begins.
    pub seed: u64,
    /// What times of observed commands count from. Loads that share it share a history.
    pub epoch: Instant,
}

impl Load {
    /// A closed loop of one client with nothing set: 10 seconds without warming up, answers within 10 seconds.
    #[must_use]
    pub fn new(target: Target) -> Load {
        Load {
            target,
            clients: 1,
            pipeline: 1,
            threads: default_threads(),
            pacing: Pacing::Closed,
            warm_up: 0,
            seconds: 10.0,
            operations: None,
            timeout: Duration::from_secs(10),
            queue_max: 1_000_000,
            start: Start::default(),
            recall: Recall::default(),
            seed: 1,
            epoch: Instant::now(),
        }
    }

    /// Whether every value is within its limits and they fit together.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub fn check(&self) -> Result<(), String> {
        let within = |what: &str, value: u64, max: u64| {
            if (1..=max).contains(&value) { Ok(()) } else { Err(format!("{value} {what}: write 1 to {max}")) }
        };
        within("clients", u64::from(self.clients), u64::from(CLIENTS_MAX))?;
        within("operations under way at once", u64::from(self.pipeline), u64::from(PIPELINE_MAX))?;
        within("threads", u64::from(self.threads), u64::from(THREADS_MAX))?;
        if self.pipeline > 1 && matches!(self.target.protocol, Protocol::Http | Protocol::Dictionary) {
            return Err("over HTTP a connection carries one request at a time: leave the pipeline at 1".to_owned());
        }
        if self.seconds.is_nan() || self.seconds <= 0.0 {
            return Err(format!("{} seconds: write more than 0", self.seconds));
        }
        if let Pacing::Open { rate, arrivals } = self.pacing {
            if arrivals == Arrivals::Closed {
                return Err("a rate needs arrivals: constant or poisson".to_owned());
            }
            if !(rate > 0.0 && rate <= 1e8) {
                return Err(format!("{rate} operations a second: write more than 0 and at most 100000000"));
            }
        }
        if self.timeout.is_zero() {
            return Err("a timeout of 0: write at least 1 ms".to_owned());
        }
        Ok(())
    }
}

/// One thread for each core, at most 2.
#[must_use]
pub fn default_threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(2) as u32)
}

/// What a load came to: its figures, and sentences for the record's notes. The figures lack the names that only the caller
/// knows: `id`, `side`, `variables` and `workload`.
pub type Measured = (Measurement, Vec<String>);

/// Carries the load out and tells what was seen.
///
/// `on_second` is called at the end of each whole second; it may set `stop`, as anyone may, which ends the load early.
///
/// # Errors
/// A sentence: a setting outside its limits, no address that can be reached, a password refused, a command that the protocol
/// cannot carry.
pub fn run(
    load: &Load,
    workload: &dyn Workload,
    observer: Option<Arc<dyn Observer>>,
    stop: &AtomicBool,
    on_second: &mut dyn FnMut(&Snapshot),
) -> Result<Measured, String> {
    load.check()?;
    allow_open_files(u64::from(load.clients))?;
    let threads = load.threads.min(load.clients);
    let map = match load.target.protocol {
        Protocol::RespCluster => Some(SlotMap::fetch(&load.target, load.timeout)?),
        _ => None,
    };
    let shared = worker::Shared::new(load.operations);
    let ready = Barrier::new(threads as usize + 1);
    let origin = OnceLock::new();
    let (sender, slices) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for thread in 0..threads {
            let sender = sender.clone();
            let (map, observer) = (map.clone(), observer.clone());
            let (shared, ready, origin) = (&shared, &ready, &origin);
            workers.push(scope.spawn(move || -> Result<(), String> {
                if matches!(load.pacing, Pacing::Open { .. }) {
                    go_before_others();
                }
                let worker = Worker::new(load, workload, map, observer, thread, threads, shared, stop);
                let worker = worker.and_then(|mut worker| worker.connect().map(|()| worker));
                if worker.is_err() {
                    shared.abort.store(true, std::sync::atomic::Ordering::Relaxed);
                }
                // All begin at once, after everyone has connected.
                ready.wait();
                let origin = *origin.get_or_init(Instant::now);
                worker?.work(origin, &sender)
            }));
        }
        drop(sender);
        ready.wait();
        let began = *origin.get_or_init(Instant::now);
        let collected = collect::collect(load, &workload.kinds(), threads, began, &slices, on_second);
        for worker in workers {
            worker.join().map_err(|_| "a thread of the load generator panicked: please report it".to_owned())??;
        }
        Ok(collected)
    })
}

/// This thread goes before those of the servers, where they share processors: an operation that is due leaves when it is due, or the figures
/// tell of the generator. Of an open loop that takes nothing from anybody: what it sends is set. (On Linux the priority is a thread's own. An
/// ordinary user may not raise it; then the threads take their turns, and lateness is told as ever.)
fn go_before_others() {
    let _ = rustix::process::setpriority_process(None, OPEN_LOOP_NICENESS);
}

/// Lets this process have a connection for each client.
fn allow_open_files(clients: u64) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // Beside the connections: folders, timers, epoll, what the caller has open.
    let needed = clients + 128;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let told = || format!("{clients} clients need {needed} open files: raise the limit (ulimit -n {needed})");
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(told());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum }).map_err(|_| told())
}
