//! Carries a plan out beside a load, and marks what happened when.
//!
//! Two threads: one does what is due and nothing else, so that it is done in time; the other waits for what follows (another node leads, a
//! node has caught up) and marks that too. What a fault has changed for a while is undone at the end; a node that was killed stays so.

mod worker;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::schedule::{Schedule, Whom};
use crate::cluster::System;
use crate::load::Recall;
use crate::record::Mark;
use worker::Worker;

/// Between two looks at what is waited for: the error of those marks.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long it is waited for what follows a step.
const WATCH_PATIENCE: Duration = Duration::from_secs(120);
/// Most marks and failures kept, each: a day of faults makes some 50,000 marks.
const NOTES_MAX: usize = 1 << 17;

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// What happened, in its order.
    pub marks: Vec<Mark>,
    /// What could not be done or did not follow, in sentences.
    pub failures: Vec<String>,
}

/// A plan that is being carried out. Dropped, it ends where it is.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    outcome: Outcome,
    watches: Vec<Watch>,
    /// All steps are done.
    steps_done: bool,
    /// Nothing more shall be done.
    ending: bool,
}

/// Something that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    /// Another node than this one leads.
    NewLeader(usize),
    /// The node has what the others have.
    Current(usize),
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    what: Watched,
    until: Instant,
}

impl Schedule {
    /// Begins to carry the plan out; times count from `began`, which is when the load began. When a node is current again that a fault took clients
    /// from, they are called back.
    ///
    /// # Errors
    /// When a step names a node that the system has not, or no thread can be started.
    pub fn run(&self, system: Arc<dyn System>, began: Instant, clients: Recall) -> Result<Running, String> {
        let names = system.names();
        for step in &self.steps {
            if let Some(Whom::Named(name)) = step.action.whom()
                && !names.contains(name)
            {
                return Err(format!(
                    "{:?}: there is no node {name}; choose one of {}",
                    step.action.to_string(),
                    names.join(", ")
                ));
            }
        }
        let shared = Arc::new(Shared::default());
        let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let started = thread::Builder::new().name(name.to_owned()).spawn(work);
            started.map_err(|error| format!("no thread for the faults can be started: {error}"))
        };
        let mut running = Running { shared: Arc::clone(&shared), threads: Vec::new() };
        let worker = Worker::new(Arc::clone(&system), Arc::clone(&shared), began);
        let steps = self.steps.clone();
        running.threads.push(start("faults", Box::new(move || worker.run(steps)))?);
        running
            .threads
            .push(start("watches", Box::new(move || shared.watch(system.as_ref(), &names, began, &clients)))?);
        Ok(running)
    }
}

impl Running {
    /// Waits until all is done and what follows has been seen, at most `patience`; undoes what was meant for a while; tells what happened.
    #[must_use]
    pub fn finish(mut self, patience: Duration) -> Outcome {
        let end = Instant::now() + patience;
        let mut state = self.shared.lock();
        while !(state.steps_done && state.watches.is_empty()) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if !state.steps_done {
            state.fail("the time was up before all of the plan was done".to_owned());
        }
        drop(state);
        self.end();
        let mut outcome = std::mem::take(&mut self.shared.lock().outcome);
        outcome.marks.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
        outcome
    }

    fn end(&mut self) {
        self.shared.lock().ending = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic has been reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until then; false if nothing more shall be done.
    fn wait_until(&self, at: Instant) -> bool {
        let mut state = self.lock();
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if state.ending || left.is_zero() {
                return !state.ending;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The second thread.
    fn watch(&self, system: &dyn System, names: &[String], began: Instant, clients: &Recall) {
        let mut state = self.lock();
        loop {
            if state.ending {
                return;
            }
            if state.watches.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let watches = state.watches.clone();
            drop(state);
            let seen: Vec<Option<String>> = watches.iter().map(|watch| watch.what.seen(system, names)).collect();
            let now = Instant::now();
            state = self.lock();
            for (watch, seen) in watches.iter().zip(seen) {
                let late = seen.is_none() && now >= watch.until;
                // A later step may have made it pointless in the meantime.
                let waiting = state.watches.iter().position(|other| other.what == watch.what);
                if let Some(place) = waiting.filter(|_| late || seen.is_some()) {
                    state.watches.remove(place);
                    match seen {
                        Some(what) => {
                            state.mark(began, now, what);
                            if matches!(watch.what, Watched::Current(_)) {
                                clients.call();
                            }
                        }
                        None => {
                            state.fail(format!("{} within {} s", watch.what.missed(names), WATCH_PATIENCE.as_secs()))
                        }
                    }
                    self.changed.notify_all();
                }
            }
            state = self.changed.wait_timeout(state, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Watched {
    /// What is to be marked, once it has happened.
    fn seen(self, system: &dyn System, names: &[String]) -> Option<String> {
        match self {
            Watched::NewLeader(old) => {
                system.leader().ok().filter(|leader| *leader != old).map(|it| format!("{} leads", names[it]))
            }
            Watched::Current(node) => system.is_current(node).then(|| format!("{} is current", names[node])),
        }
    }

    fn missed(self, names: &[String]) -> String {
        match self {
            Watched::NewLeader(old) => format!("nobody has led after {}", names[old]),
            Watched::Current(node) => format!("{} has not caught up", names[node]),
        }
    }
}

impl State {
    fn mark(&mut self, began: Instant, at: Instant, what: String) {
        if self.outcome.marks.len() < NOTES_MAX {
            let at_ms = at.saturating_duration_since(began).as_secs_f64() * 1000.0;
            self.outcome.marks.push(Mark { at_ms, what });
        }
    }

    fn fail(&mut self, reason: String) {
        if self.outcome.failures.len() < NOTES_MAX {
            self.outcome.failures.push(reason);
        }
    }
}

#[cfg(test)]
mod tests;
