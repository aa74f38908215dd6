//! A load on a cluster of one's own while faults happen, its history recorded, the end read, and all of it judged.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::own::{Own, operations};
use crate::cluster::System;
use crate::drive::Target;
use crate::drive::blocking::Blocking;
use crate::faults::Schedule;
use crate::history::{Limits, Operation, Recorder, Value, check, format, lists};
use crate::load::{Historian, Load, Measured, run as run_load};
use crate::record::{Property, Verdict};
use crate::workload::Workload;

/// Bytes of a recorded history.
const HISTORY_BYTES_MAX: u64 = 2 << 30;
/// How long nodes have after the faults until all serve again.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(60);
/// How long the end may be read.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at a node that does not serve yet, and before a node that could not be read is asked again.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Keys read at once.
const READ_KEYS: usize = 200;

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
    let running = schedule.run(Arc::clone(&system), began)?;
    let (stop, observer) = (Arc::clone(&own.stop), Arc::clone(&historian));
    let mut show = own.on_second(id, &load);
    let measured = run_load(&load, workload, Some(observer), &stop, &mut |snapshot| {
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
    measurement.marks = outcome.marks;
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

fn read_history(path: &Path) -> Result<Vec<Operation>, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    format::read(std::io::BufReader::new(file))
}

/// A key, and what was read of it at the end.
type LastRead = (Vec<u8>, Option<Value>);

/// Reads every key of the history, of whichever node answers.
fn read_last(target: &Target, history: &[Operation]) -> Result<Vec<LastRead>, String> {
    let lists = lists(history);
    let keys: BTreeSet<&[u8]> =
        history.iter().flat_map(|operation| &operation.steps).map(|step| step.key.as_slice()).collect();
    let (keys, list_keys): (Vec<&[u8]>, Vec<&[u8]>) = keys.into_iter().partition(|key| !lists.contains(key));
    let end = Instant::now() + READ_PATIENCE;
    let mut last = Vec::with_capacity(keys.len() + list_keys.len());
    let mut reader = Reader { target, connection: None, attempts: 0, end };
    for part in keys.chunks(READ_KEYS) {
        let values = reader.read(|connection| read_part(connection, part))?;
        last.extend(part.iter().map(|key| key.to_vec()).zip(values));
    }
    for key in list_keys {
        last.push((key.to_vec(), reader.read(|connection| read_list(connection, key))?));
    }
    Ok(last)
}

/// Asks whichever node answers.
struct Reader<'a> {
    target: &'a Target,
    connection: Option<Blocking>,
    attempts: usize,
    end: Instant,
}

impl Reader<'_> {
    fn read<T>(&mut self, ask: impl Fn(&mut Blocking) -> Result<T, String>) -> Result<T, String> {
        loop {
            match self.connected().and_then(&ask) {
                Ok(answer) => return Ok(answer),
                Err(reason) if Instant::now() >= self.end => {
                    return Err(format!("the keys could not be read at the end: {reason}"));
                }
                Err(_) => {
                    (self.connection, self.attempts) = (None, self.attempts + 1);
                    // A refused connection fails at once: not too often, then.
                    std::thread::sleep(LOOK_EVERY);
                }
            }
        }
    }

    fn connected(&mut self) -> Result<&mut Blocking, String> {
        let addresses = &self.target.addresses;
        let (_, address) = addresses.get(self.attempts % addresses.len().max(1)).ok_or("there is no node")?;
        match &mut self.connection {
            Some(connection) => Ok(connection),
            none => Ok(none.insert(Blocking::open(*address, &self.target.greeting(), Duration::from_secs(5))?)),
        }
    }
}

/// Deletes every key of the history: a cluster that is not the laboratory's own shall be as it was.
pub(super) fn tidy(target: &Target, history: &[Operation]) -> Result<(), String> {
    let keys: BTreeSet<&[u8]> =
        history.iter().flat_map(|operation| &operation.steps).map(|step| step.key.as_slice()).collect();
    let keys: Vec<&[u8]> = keys.into_iter().collect();
    let mut reader = Reader { target, connection: None, attempts: 0, end: Instant::now() + READ_PATIENCE };
    for part in keys.chunks(READ_KEYS) {
        reader.read(|connection| match connection.ask(&words("DEL", part)?)? {
            wire::Value::Integer(_) => Ok(()),
            other => Err(format!("DEL answered {other:?}")),
        })?;
    }
    Ok(())
}

fn words<'a>(command: &'a str, keys: &[&'a [u8]]) -> Result<Vec<&'a str>, String> {
    std::iter::once(Ok(command))
        .chain(keys.iter().map(|key| std::str::from_utf8(key)))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("a key is no text: {error}"))
}

fn read_part(connection: &mut Blocking, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, String> {
    match connection.ask(&words("MGET", keys)?)? {
        wire::Value::Array(values) if values.len() == keys.len() => {
            Ok(values.iter().map(|value| value.as_bytes().map(Value::new)).collect())
        }
        other => Err(format!("MGET answered {other:?}")),
    }
}

fn read_list(connection: &mut Blocking, key: &[u8]) -> Result<Option<Value>, String> {
    let mut words = words("LRANGE", &[key])?;
    words.extend(["0", "-1"]);
    match connection.ask(&words)? {
        wire::Value::Array(items) => {
            let items: Vec<Value> = items.iter().filter_map(|item| item.as_bytes().map(Value::new)).collect();
            Ok((!items.is_empty()).then(|| Value::list(&items)))
        }
        other => Err(format!("LRANGE answered {other:?}")),
    }
}
