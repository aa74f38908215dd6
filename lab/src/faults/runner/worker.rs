//! The thread that does what a plan says, when it is due.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::super::schedule::{Action, Step, Whom};
use super::{LOOK_EVERY, Shared, WATCH_PATIENCE, Watch, Watched};
use crate::cluster::System;

/// How long a leader is looked for when a step is for the leader.
const LEADER_PATIENCE: Duration = Duration::from_secs(10);

/// What it has done so far, to know whom it is about and what is to be undone.
pub(super) struct Worker {
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
    pub(super) fn new(system: Arc<dyn System>, shared: Arc<Shared>, began: Instant) -> Worker {
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

    /// All of the plan, until nothing more shall be done.
    pub(super) fn run(mut self, mut steps: Vec<Step>) {
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
                slowed(&format!("syncs of {name}"), *delay)
            }
            Action::SlowLinks(_, delay) => {
                system.slow_links(node, *delay)?;
                note(&mut self.slow_links, node, *delay);
                slowed(&format!("messages of {name}"), *delay)
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

/// `syncs of n1 take 10 ms longer`, or that they do so no more.
fn slowed(what: &str, delay: Duration) -> String {
    if delay.is_zero() {
        return format!("{what} take no longer");
    }
    // To the microsecond, without digits that nobody asked for.
    format!("{what} take {} ms longer", delay.as_micros() as f64 / 1e3)
}

fn note(slow: &mut BTreeSet<usize>, node: usize, delay: Duration) {
    if delay.is_zero() {
        slow.remove(&node);
    } else {
        slow.insert(node);
    }
}
