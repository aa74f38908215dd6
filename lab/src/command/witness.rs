//! A load on a cluster of one's own while faults happen, its history recorded, the end read, and all of it judged.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::own::{Own, operations};
use crate::cluster::{Cluster, System};
use crate::drive::blocking::Blocking;
use crate::drive::resolve;
use crate::faults::Schedule;
use crate::history::{Limits, Operation, Recorder, Value, check, format};
use crate::load::{Historian, Load, Measured, run as run_load};
use crate::record::{Property, Verdict};
use crate::workload::Workload;

/// Bytes of a recorded history.
const HISTORY_BYTES_MAX: u64 = 2 << 30;
/// How long nodes have after the faults until all serve again.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(60);
/// How long the end may be read.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// Keys read at once.
const READ_KEYS: usize = 200;

/// What a witnessed load is to do.
pub(super) struct Plan<'a> {
    /// Its name in the record.
    pub id: &'a str,
    pub cluster: &'a Arc<Cluster>,
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
    let Plan { id, cluster, mut load, workload, workload_name, schedule } = plan;
    let path = own.folder.join("history");
    let historian = Arc::new(Historian::new(Recorder::create(&path, HISTORY_BYTES_MAX)?));
    let before = cluster.counters();
    let began = Instant::now();
    load.epoch = began;
    let running = schedule.run(Arc::clone(cluster) as Arc<dyn System>, began)?;
    let (stop, observer) = (Arc::clone(&own.stop), Arc::clone(&historian));
    let measured = run_load(&load, workload, Some(observer), &stop, &mut own.on_second(id, &load));
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
    measurement.side = cluster.side().id;
    measurement.workload = workload_name.to_owned();
    // Counted before the end is read, which is not the load's.
    measurement.counters = cluster.counters().per_operation(&before, operations(&measurement));

    let property = |name: &str, outcome: Result<(), String>| Property {
        name: name.to_owned(),
        holds: outcome.is_ok(),
        undecided: false,
        detail: outcome.err().unwrap_or_else(|| format!("looked at of {} nodes", cluster.names().len())),
    };
    let of_nodes = vec![
        property("no node ends by itself", cluster.check()),
        property("all nodes serve again after the faults", recover(cluster)),
    ];
    let historian =
        Arc::try_unwrap(historian).map_err(|_| "the load has not let go of its history: please report it")?;
    let (recorder, problem) = historian.finish();
    recorder.finish()?;
    if let Some(problem) = problem {
        return Err(format!("nothing can be concluded from the history: {problem}"));
    }
    own.say("reading what every key holds at the end");
    let history = read_history(&path)?;
    let last = read_last(cluster, &history)?;
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
fn recover(cluster: &Cluster) -> Result<(), String> {
    for (node, process_id) in cluster.process_ids().into_iter().enumerate() {
        if process_id.is_none() {
            cluster.start_again(node)?;
        }
    }
    cluster.wait_until_current(RECOVERY_PATIENCE)
}

fn read_history(path: &Path) -> Result<Vec<Operation>, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    format::read(std::io::BufReader::new(file))
}

/// A key, and what was read of it at the end.
type LastRead = (Vec<u8>, Option<Value>);

/// Reads every key of the history, of whichever node answers.
fn read_last(cluster: &Cluster, history: &[Operation]) -> Result<Vec<LastRead>, String> {
    let keys: BTreeSet<&[u8]> =
        history.iter().flat_map(|operation| &operation.steps).map(|step| step.key.as_slice()).collect();
    let keys: Vec<&[u8]> = keys.into_iter().collect();
    let addresses = cluster.addresses();
    let end = Instant::now() + READ_PATIENCE;
    let mut last = Vec::with_capacity(keys.len());
    let mut connection: Option<Blocking> = None;
    let mut attempts = 0;
    for part in keys.chunks(READ_KEYS) {
        loop {
            match read_part(&mut connection, &addresses[attempts % addresses.len()], part) {
                Ok(values) => {
                    last.extend(part.iter().map(|key| key.to_vec()).zip(values));
                    break;
                }
                Err(reason) if Instant::now() >= end => {
                    return Err(format!("the keys could not be read at the end: {reason}"));
                }
                Err(_) => {
                    connection = None;
                    attempts += 1;
                    // A refused connection fails at once: not too often, then.
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
    Ok(last)
}

fn read_part(connection: &mut Option<Blocking>, address: &str, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, String> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(Blocking::open(resolve(address)?, &(Vec::new(), 0), Duration::from_secs(5))?),
    };
    let words: Vec<&str> = std::iter::once(Ok("MGET"))
        .chain(keys.iter().map(|key| std::str::from_utf8(key)))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("a key is no text: {error}"))?;
    match connection.ask(&words)? {
        wire::Value::Array(values) if values.len() == keys.len() => {
            Ok(values.iter().map(|value| value.as_bytes().map(Value::new)).collect())
        }
        other => Err(format!("MGET answered {other:?}")),
    }
}
