//! The same work on Dictum and on its rivals, all started here, one after the other, in one run.
//!
//! ```text
//! repeat 1:  dictum  start ─ fill ─ each row ─ end    redis  start ─ fill ─ each row ─ end    etcd …
//! repeat 2:  redis …                                  etcd …                                  dictum …
//! ```
//!
//! - [`rows`] is the work, [`kinds`] who is to do it, and [`sides`] how each is started, filled and driven; [`follow`] is the command
//!   behind each write that a side may need.
//! - [`summary`] puts repeats and ratios together, for people and as the line that trends are made of.
//!
//! Each repeat begins with another side, so that no side always meets the same state of the machine. Only one side runs at a time.

pub mod follow;
pub mod kinds;
pub mod rows;
pub mod sides;
pub mod summary;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::load::Snapshot;
use crate::record::{Measurement, Record};
use kinds::SideKind;
use rows::{Row, Work};
use sides::{Running, Start};

/// Repeats of one comparison: as many as ratios are made of.
pub const REPEATS_MAX: u32 = crate::statistics::repeats::REPEATS_MAX as u32;

/// What is to be compared.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The sides, Dictum first.
    pub sides: Vec<SideKind>,
    /// The rows, in the order in which they are measured.
    pub rows: Vec<&'static Row>,
    /// Repeats of everything, 1 to [`REPEATS_MAX`].
    pub repeats: u32,
    /// Seconds that each row is measured.
    pub seconds: f64,
    /// Seconds before them that do not count.
    pub warm_up: u32,
    /// Times that a leader is killed in all, for [`Work::Kill`]; the first repeats take what does not divide evenly.
    pub kills: u32,
    /// Records of plain values.
    pub keys: u64,
    /// Records of YCSB's workloads, of ten fields of 100 bytes.
    pub records: u64,
    /// Threads that send.
    pub threads: u32,
    /// How sides are started.
    pub start: Start,
    /// The program that drives rivals which do not speak RESP, if a side needs it.
    pub peers_program: Option<PathBuf>,
}

/// What is told while a comparison goes on.
#[derive(Debug)]
pub enum Told<'a> {
    /// What is going on now.
    Stage(String),
    /// How a load goes, with its name and its length in seconds.
    Second(&'a str, f64, &'a Snapshot),
    /// What a row came to.
    Row(&'a Measurement),
}

/// Carries the plan out and puts sides, measurements and notes into the record. `stop` ends it early; what was measured so far stays.
///
/// # Errors
/// A sentence: a side cannot be started, filled or driven. That a node does not come back is a note, and what else there is to measure goes on.
pub fn run(plan: &Plan, record: &mut Record, stop: &AtomicBool, tell: &mut dyn FnMut(Told<'_>)) -> Result<(), String> {
    for repeat in 0..plan.repeats {
        let mut order = plan.sides.clone();
        order.rotate_left(repeat as usize % plan.sides.len());
        for kind in order {
            let rows: Vec<&Row> = plan.rows.iter().copied().filter(|row| kind.can(row)).collect();
            if rows.is_empty() {
                continue;
            }
            tell(Told::Stage(format!("repeat {} of {}: {} starts", repeat + 1, plan.repeats, kind.id())));
            let side = Running::start(kind, plan)?;
            if !record.sides.iter().any(|known| known.id == kind.id()) {
                record.sides.push(side.told());
            }
            let outcome = measure_rows(&side, plan, &rows, repeat, record, stop, tell);
            outcome.map_err(|reason| format!("{}: {reason}", kind.id()))?;
            if stop.load(Ordering::Relaxed) {
                record.notes.push("It was ended early, by Ctrl-C.".to_owned());
                sort_sides(plan, record);
                return Ok(());
            }
        }
    }
    sort_sides(plan, record);
    Ok(())
}

/// As the plan has them, whoever began.
fn sort_sides(plan: &Plan, record: &mut Record) {
    record.sides.sort_by_key(|side| plan.sides.iter().position(|kind| kind.id() == side.id));
}

fn measure_rows(
    side: &Running,
    plan: &Plan,
    rows: &[&Row],
    repeat: u32,
    record: &mut Record,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Told<'_>),
) -> Result<(), String> {
    let mut filled = Vec::new();
    for row in rows {
        let load = row.load();
        let records = load.records_of();
        if !filled.contains(&records) {
            tell(Told::Stage(format!("{}: {records} are filled in", side.kind().id())));
            side.fill(plan, &load, stop)?;
            filled.push(records);
        }
        let times = match row.work {
            Work::Load(_) => 1,
            Work::Kill => plan.kills / plan.repeats + u32::from(repeat < plan.kills % plan.repeats),
        };
        for time in 0..times {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let name = format!("{}, {}", side.kind().id(), row.title);
            let length = sides::length(plan, side.kind(), row);
            let mut second = |snapshot: &Snapshot| tell(Told::Second(&name, length, snapshot));
            let (mut measurement, notes) = side.measure(plan, row, stop, &mut second)?;
            let number = if times > 1 { format!("{}.{}", repeat + 1, time + 1) } else { (repeat + 1).to_string() };
            measurement.id = format!("{}-{}-{number}", row.name, side.kind().id());
            measurement.side = side.kind().id().to_owned();
            row.describe(&mut measurement);
            measurement.variables.insert("repeat".to_owned(), number);
            record.notes.extend(notes.into_iter().map(|note| format!("{}: {note}", measurement.id)));
            if measurement.operations.values().all(|of| of.count == 0) && !stop.load(Ordering::Relaxed) {
                let said: Vec<&str> = measurement.errors.keys().map(String::as_str).collect();
                return Err(format!("not one operation of `{}` was answered: {}", row.title, said.join(", ")));
            }
            tell(Told::Row(&measurement));
            let id = measurement.id.clone();
            record.measurements.push(measurement);
            let whole = if row.work == Work::Kill { side.wait_until_whole() } else { side.system().check() };
            if let Err(reason) = whole {
                // What was measured stands. What would follow would be of another cluster, so this side rests until it is started afresh.
                record.notes.push(format!("{id}: afterwards {reason}; nothing more was measured of it in this repeat"));
                tell(Told::Stage(format!("{}: {reason}", side.kind().id())));
                return Ok(());
            }
        }
    }
    Ok(())
}
