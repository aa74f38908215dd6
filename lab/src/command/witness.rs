//! A load on a cluster of one's own while faults happen, its history recorded, the end read, and all of it judged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::own::{Own, operations};
use crate::beside::last::{read_history, read_last};
use crate::cluster::System;
use crate::faults::Schedule;
use crate::history::{Limits, Operation, Recorder, Value, check};
use crate::load::{Historian, Load, Measured, run as run_load};
use crate::record::{Mark, Property, Verdict};
use crate::workload::Workload;

/// Bytes of a recorded history.
const HISTORY_BYTES_MAX: u64 = 2 << 30;
/// How long nodes have after the faults until all serve again.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at a node that does not serve yet.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a witnessed load is to do.
pub(super) struct Plan<'a> {
    /// Its name in the record.
    pub id: &'a str,
    pub system: Arc<dyn System>,
    pub load: Load,
    pub workload: &'a dyn Workload,
    pub workload_name: &'a str,
    pub schedule: &'a Schedule,
}

/// What was seen.
pub(super) struct Witnessed {
    pub measured: Measured,
    /// What the clients saw.
    pub history: Vec<Operation>,
    /// What each key held at the end; none: nothing.
    pub last: Vec<(Vec<u8>, Option<Value>)>,
    /// Properties of the nodes, which no history shows.
    pub of_nodes: Vec<Property>,
}

/// Carries the plan out. The history stays in the run's folder, in the file `history`.
///
/// # Errors
/// When nothing can be concluded: the load did not run, the history is not whole, the end could not be read.
pub(super) fn witness(own: &mut Own, plan: Plan<'_>) -> Result<Witnessed, String> {
    let Plan { id, system, mut load, workload, workload_name, schedule } = plan;
    let path = own.folder.join("history");
    let historian = Arc::new(Historian::new(Recorder::create(&path, HISTORY_BYTES_MAX)?));
    let before = system.counters();
    let began = Instant::now();
    load.epoch = began;
    let running = schedule.run(Arc::clone(&system), began, load.recall.clone())?;
    let (stop, observer) = (Arc::clone(&own.stop), Arc::clone(&historian));
    let mut show = own.on_second(id, &load);
    let mut connected = began;
    let measured = run_load(&load, workload, Some(observer), &stop, &mut |snapshot| {
        connected = snapshot.began.unwrap_or(connected);
        show(snapshot);
        // With a hole in it the history proves nothing, however long it goes on; what is wrong is said below.
        if historian.has_problem() || historian.witness().has_failed() {
            stop.store(true, Ordering::Relaxed);
        }
    });
    drop(show);
    own.say("waiting until all nodes serve again");
    // If the load ended early, the rest of the plan is not waited for.
    let outcome =
        running.finish(if own.is_interrupted() || measured.is_err() { Duration::ZERO } else { RECOVERY_PATIENCE });
    let (mut measurement, mut notes) = measured?;
    let interrupted = own.is_interrupted();
    if !interrupted {
        notes.extend(outcome.failures);
    }
    measurement.marks = on_load_time(outcome.marks, connected.duration_since(began));
    measurement.id = id.to_owned();
    measurement.side = system.side().id;
    measurement.workload = workload_name.to_owned();
    // Counted before the end is read, which is not the load's.
    measurement.counters.extend(system.counters().per_operation(&before, operations(&measurement)));

    let property = |name: &str, outcome: Result<(), String>| Property {
        name: name.to_owned(),
        holds: outcome.is_ok(),
        undecided: false,
        detail: outcome.err().unwrap_or_else(|| format!("looked at of {} nodes", system.names().len())),
    };
    let mut of_nodes = Vec::new();
    // Of processes that it did not start the laboratory does not know who ended them.
    if system.process_ids().iter().any(Option::is_some) {
        of_nodes.push(property("no node ends by itself", system.check()));
    }
    of_nodes.push(property("all nodes serve again after the faults", recover(system.as_ref())));
    let historian =
        Arc::try_unwrap(historian).map_err(|_| "the load has not let go of its history: please report it")?;
    let (recorder, problem) = historian.finish();
    recorder.finish()?;
    if let Some(problem) = problem {
        return Err(format!("nothing can be concluded from the history: {problem}"));
    }
    own.say("reading what every key holds at the end");
    let history = read_history(&path)?;
    let last = read_last(&load.target, &history)?;
    Ok(Witnessed { measured: (measurement, notes), history, last, of_nodes })
}

/// The marks on the load's time line, which begins when its clients have connected: so much later than the plan's. On a busy machine that is longer than a
/// silence may begin before the mark that it belongs to.
fn on_load_time(mut marks: Vec<Mark>, connecting: Duration) -> Vec<Mark> {
    for mark in &mut marks {
        mark.at_ms = (mark.at_ms - connecting.as_secs_f64() * 1e3).max(0.0);
    }
    marks
}

/// Judges what was seen.
pub(super) fn judge(own: &mut Own, history: &[Operation], last: &[(Vec<u8>, Option<Value>)], of_nodes: Vec<Property>) {
    own.say(&format!("checking {} operations", history.len()));
    let mut verdict: Verdict = check(history, last, Limits::default()).verdict;
    verdict.holds &= of_nodes.iter().all(|property| property.holds);
    verdict.properties.extend(of_nodes);
    own.record.verdict = Some(verdict);
}

/// Starts again what is still down, and waits until all nodes are current.
fn recover(system: &dyn System) -> Result<(), String> {
    for (node, process_id) in system.process_ids().into_iter().enumerate() {
        if process_id.is_none() && !system.is_current(node) {
            system.start_again(node)?;
        }
    }
    let end = Instant::now() + RECOVERY_PATIENCE;
    for (node, name) in system.names().into_iter().enumerate() {
        while !system.is_current(node) {
            system.check()?;
            if Instant::now() >= end {
                return Err(format!("{name} does not serve within {} s", RECOVERY_PATIENCE.as_secs()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
    system.check()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Gap, Measurement};
    use crate::report::silence::silences;

    #[test]
    fn a_silence_belongs_to_what_caused_it_however_long_clients_took_to_connect() {
        let mark = |at_ms: f64, what: &str| Mark { at_ms, what: what.into() };
        let plans = vec![mark(4_260.0, "messages of n3 take no longer"), mark(7_486.0, "n1 (leader) held")];
        let marks = on_load_time(plans, Duration::from_millis(85));
        assert!((marks[1].at_ms - 7_401.0).abs() < 1e-6);
        // The last answer came at once before the leader was held, 85 ms sooner by the plan's clock.
        let gaps = vec![Gap { at_ms: 7_400.0, length_ms: 477.0 }];
        let silent = silences(&Measurement { marks, gaps, ..Measurement::default() });
        assert_eq!(silent.iter().map(|silence| silence.what.as_str()).collect::<Vec<_>>(), ["leader held"]);
    }
}
