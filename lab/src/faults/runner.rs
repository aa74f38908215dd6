//! Carries a plan out beside a load, and marks what happened when.
//!
//! Two threads: one does what is due and nothing else, so that it is done in time; the other waits for what follows (another node leads, a
//! node has caught up) and marks that too. What a fault has changed for a while is undone at the end; a node that was killed stays so.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::schedule::{Action, Schedule, Step, Whom};
use crate::cluster::System;
use crate::record::Mark;

/// Between two looks at what is waited for: the error of those marks.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a leader is looked for when a step is for the leader.
const LEADER_PATIENCE: Duration = Duration::from_secs(10);
/// How long it is waited for what follows a step.
const WATCH_PATIENCE: Duration = Duration::from_secs(120);
/// Most marks and failures kept, each.
const NOTES_MAX: usize = 4096;

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
    /// Begins to carry the plan out; times count from `began`, which is when the load began.
    ///
    /// # Errors
    /// When a step names a node that the system has not, or no thread can be started.
    pub fn run(&self, system: Arc<dyn System>, began: Instant) -> Result<Running, String> {
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
        running.threads.push(start("watches", Box::new(move || shared.watch(system.as_ref(), &names, began)))?);
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
    fn watch(&self, system: &dyn System, names: &[String], began: Instant) {
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
                        Some(what) => state.mark(began, now, what),
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

/// The first thread.
struct Worker {
    system: Arc<dyn System>,
    shared: Arc<Shared>,
    names: Vec<String>,
    began: Instant,
    /// The node of the step before.
    it: Option<usize>,
    held: BTreeSet<usize>,
    stopping: BTreeSet<usize>,
    slow_disks: BTreeSet<usize>,
    slow_links: BTreeSet<usize>,
    cut: BTreeSet<usize>,
    noisy: bool,
}

impl Worker {
    fn new(system: Arc<dyn System>, shared: Arc<Shared>, began: Instant) -> Worker {
        let names = system.names();
        let none = BTreeSet::new;
        Worker {
            system,
            shared,
            names,
            began,
            it: None,
            held: none(),
            stopping: none(),
            slow_disks: none(),
            slow_links: none(),
            cut: none(),
            noisy: false,
        }
    }

    fn run(mut self, mut steps: Vec<Step>) {
        steps.reverse();
        while let Some(step) = steps.pop() {
            if !self.shared.wait_until(self.began + step.at) {
                break;
            }
            match self.act(&step.action) {
                Ok(Some(later)) => {
                    // The last of those that are due no later: it comes behind them.
                    let at = self.began.elapsed() + later.at;
                    let place = steps.partition_point(|other| other.at > at);
                    steps.insert(place, Step { at, action: later.action });
                }
                Ok(None) => {}
                Err(reason) => {
                    self.shared.lock().fail(format!(
                        "{} at {:.1} s: {reason}",
                        step.action,
                        self.began.elapsed().as_secs_f64()
                    ));
                }
            }
        }
        self.shared.lock().steps_done = steps.is_empty();
        self.shared.changed.notify_all();
        let mut state = self.shared.lock();
        while !state.ending {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.undo();
    }

    /// Does one thing. Answers what is to follow, with the time from now.
    fn act(&mut self, action: &Action) -> Result<Option<Step>, String> {
        let node = match action.whom() {
            Some(whom) => self.find(whom)?,
            None => 0,
        };
        // Asked before and not after: whoever is ill may not answer.
        let leads = matches!(action, Action::Kill(_) | Action::Terminate(_) | Action::Pause(..) | Action::Cut(..))
            && self.system.leader() == Ok(node);
        let name = self.names.get(node).cloned().unwrap_or_default();
        let name = if leads { format!("{name} (leader)") } else { name };
        let system = Arc::clone(&self.system);
        let later = |time: &Option<Duration>, action| time.map(|at| Step { at, action });
        let whom = || Whom::Named(self.names[node].clone());
        let mut follows = None;
        let at = Instant::now();
        let what = match action {
            Action::Kill(_) => {
                system.kill(node)?;
                self.held.remove(&node);
                format!("{name} killed")
            }
            Action::Terminate(_) => {
                system.terminate(node)?;
                self.stopping.insert(node);
                format!("{name} told to stop")
            }
            Action::Restart(_) => {
                if self.held.remove(&node) {
                    system.resume(node)?;
                }
                if !self.stopping.remove(&node) {
                    // An error here says that it has ended already.
                    let _ = system.terminate(node);
                }
                system.start_again(node)?;
                format!("{name} started again")
            }
            Action::Pause(_, time) => {
                system.pause(node)?;
                follows = later(time, Action::Resume(whom()));
                self.held.insert(node);
                format!("{name} held")
            }
            Action::Resume(_) => {
                system.resume(node)?;
                self.held.remove(&node);
                format!("{name} goes on")
            }
            Action::Cut(_, cut, time) => {
                system.cut(node, *cut)?;
                follows = later(time, Action::Heal);
                self.cut.insert(node);
                format!("{name} cut off")
            }
            Action::Heal => {
                system.heal()?;
                "all links open".to_owned()
            }
            Action::SlowDisk(_, delay) => {
                system.slow_disk(node, *delay)?;
                note(&mut self.slow_disks, node, *delay);
                format!("syncs of {name} take {} ms longer", delay.as_millis())
            }
            Action::SlowLinks(_, delay) => {
                system.slow_links(node, *delay)?;
                note(&mut self.slow_links, node, *delay);
                format!("messages of {name} take {} ms longer", delay.as_millis())
            }
            Action::Noise(shares, time) => {
                system.noise(shares)?;
                follows = later(time, Action::Noise(Vec::new(), None));
                self.noisy = !shares.is_empty();
                let percent: Vec<String> = shares.iter().map(|share| format!("{} %", share * 100.0)).collect();
                if self.noisy { format!("noise of {}", percent.join(" and ")) } else { "no noise".to_owned() }
            }
        };
        if action.whom().is_some() {
            self.it = Some(node);
        }
        // A start counts from when it was asked for; the end of a node that was told to stop is part of the wait for it.
        let at = if matches!(action, Action::Restart(_)) { Instant::now() } else { at };
        self.note_step(at, what, action, node, leads);
        Ok(follows)
    }

    /// Marks what was done, and sees to it that what follows is waited for.
    fn note_step(&mut self, at: Instant, what: String, action: &Action, node: usize, leads: bool) {
        let until = Instant::now() + WATCH_PATIENCE;
        let mut state = self.shared.lock();
        state.mark(self.began, at, what);
        let mut wait_for = |what: Watched| {
            if !state.watches.iter().any(|watch| watch.what == what) {
                state.watches.push(Watch { what, until });
            }
        };
        match action {
            _ if leads => wait_for(Watched::NewLeader(node)),
            Action::Restart(_) | Action::Resume(_) => wait_for(Watched::Current(node)),
            Action::Heal => std::mem::take(&mut self.cut).into_iter().for_each(|node| wait_for(Watched::Current(node))),
            _ => {}
        }
        if matches!(action, Action::Kill(_) | Action::Terminate(_) | Action::Pause(..)) {
            state.watches.retain(|watch| watch.what != Watched::Current(node));
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    fn find(&self, whom: &Whom) -> Result<usize, String> {
        match whom {
            Whom::It => self.it.ok_or_else(|| "no step before it was for a node; name one".to_owned()),
            Whom::Named(name) => {
                let place = self.names.iter().position(|other| other == name);
                place.ok_or_else(|| format!("there is no node {name}; choose one of {}", self.names.join(", ")))
            }
            Whom::Leader => self.leader(),
            Whom::Follower => {
                let leader = self.leader()?;
                let well = |node: &usize| *node != leader && !self.held.contains(node) && self.system.is_current(*node);
                (0..self.names.len()).find(well).ok_or_else(|| "no node follows that is well".to_owned())
            }
        }
    }

    /// Who leads; waits a while for somebody to do so.
    fn leader(&self) -> Result<usize, String> {
        let end = Instant::now() + LEADER_PATIENCE;
        loop {
            match self.system.leader() {
                Err(reason) if Instant::now() >= end => return Err(reason),
                Err(_) if self.shared.wait_until(Instant::now() + LOOK_EVERY) => {}
                other => return other,
            }
        }
    }

    /// Undoes what was meant for a while.
    fn undo(&mut self) {
        let system = Arc::clone(&self.system);
        let mut results = Vec::new();
        results.extend(self.held.iter().map(|node| system.resume(*node)));
        if !self.cut.is_empty() {
            results.push(system.heal());
        }
        results.extend(self.slow_disks.iter().map(|node| system.slow_disk(*node, Duration::ZERO)));
        results.extend(self.slow_links.iter().map(|node| system.slow_links(*node, Duration::ZERO)));
        if self.noisy {
            results.push(system.noise(&[]));
        }
        let mut state = self.shared.lock();
        for reason in results.into_iter().filter_map(Result::err) {
            state.fail(format!("a fault could not be undone: {reason}"));
        }
    }
}

fn note(slow: &mut BTreeSet<usize>, node: usize, delay: Duration) {
    if delay.is_zero() {
        slow.remove(&node);
    } else {
        slow.insert(node);
    }
}

impl Action {
    /// To whom it is done, if to one node.
    #[must_use]
    pub fn whom(&self) -> Option<&Whom> {
        match self {
            Action::Kill(whom)
            | Action::Terminate(whom)
            | Action::Restart(whom)
            | Action::Pause(whom, _)
            | Action::Resume(whom)
            | Action::Cut(whom, ..)
            | Action::SlowDisk(whom, _)
            | Action::SlowLinks(whom, _) => Some(whom),
            Action::Heal | Action::Noise(..) => None,
        }
    }
}

#[cfg(test)]
mod tests;
