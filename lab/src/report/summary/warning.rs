//! What must be known before the figures and the verdict are taken for the server's.

use super::ended;
use crate::record::{ENDED_EARLY, NOT_MEASURED, Record};
use crate::report::{format, gather};

/// Below this share of idle processors before the run, others have surely taken some during it.
const IDLE_LEAST: f64 = 0.5;

/// What a reader must know: that something is missing, that figures are struck out, that others used the machine, or that more was checked
/// than was promised.
pub(super) fn warning(records: &[Record]) -> String {
    let parts = [missing(records), struck_out(records), disturbed(records), unpromised(records)];
    parts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

/// That it is not all that was to be measured.
fn missing(records: &[Record]) -> String {
    let notes = || records.iter().flat_map(|record| &record.notes);
    let points = notes().filter(|note| note.contains(NOT_MEASURED)).count();
    let mut words = Vec::new();
    if points > 0 {
        let what = if points == 1 { "One setting".to_owned() } else { format!("{points} settings") };
        words.push(format!("{what} could not be measured, and the limits below say why."));
    }
    if notes().any(|note| note.starts_with(ENDED_EARLY)) {
        words.push("It was ended before all was measured.".to_owned());
    }
    words.join(" ")
}

/// That others used the processors.
fn disturbed(records: &[Record]) -> String {
    let idle = records.iter().map(|record| record.environment.idle).filter(|idle| *idle > 0.0);
    match idle.reduce(f64::min).filter(|idle| *idle < IDLE_LEAST) {
        Some(idle) => format!(
            "Others used this machine: before the run only {} of its processors’ time was idle, so that another run may give quite other \
             figures.",
            format::share(idle)
        ),
        None => String::new(),
    }
}

/// That a broken history is one of reads at a level that promises less than an order of all operations.
fn unpromised(records: &[Record]) -> String {
    let broken = |record: &&Record| record.verdict.as_ref().is_some_and(|verdict| !verdict.offending.is_empty());
    let mut levels =
        records.iter().filter(broken).flat_map(|record| &record.sides).map(|side| side.consistency.as_str());
    match levels.find(|level| matches!(*level, "local" | "session")) {
        Some(level) => format!(
            "Reads were asked for at the level {level}, and checked as if they had to be linearizable, which it does not promise: a read \
             that misses a write is no fault there."
        ),
        None => String::new(),
    }
}

fn struck_out(records: &[Record]) -> String {
    let all = records.iter().map(|record| record.measurements.len()).sum::<usize>();
    let voids: Vec<String> = records.iter().flat_map(|record| &record.measurements).filter_map(gather::void).collect();
    match voids.first() {
        None => String::new(),
        Some(reason) => format!(
            "{} of {} measurements {} struck out: their figures tell of the load generator, not of the server. {}",
            voids.len(),
            all,
            if voids.len() == 1 { "is" } else { "are" },
            ended(reason)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary;
    use super::*;

    #[test]
    fn what_is_missing_or_was_disturbed_is_said_first() {
        let mut record = Record {
            notes: vec![format!("records = 10{NOT_MEASURED}the disk is full."), "another note".to_owned()],
            ..Record::default()
        };
        record.environment.idle = 0.9;
        let told = |record: &Record| warning(std::slice::from_ref(record)).replace('\u{a0}', " ");
        assert_eq!(told(&record), "One setting could not be measured, and the limits below say why.");
        record.notes = vec![format!("{ENDED_EARLY}, by Ctrl-C.")];
        record.environment.idle = 0.034;
        let text = told(&record);
        assert!(text.starts_with("It was ended before") && text.contains("only 3.40 % of its"), "{text}");
    }

    #[test]
    fn what_was_not_promised_is_said_beside_the_verdict() {
        use crate::record::{Event, Side, Verdict};
        let record = |level: &str| Record {
            sides: vec![Side { consistency: level.to_owned(), ..Side::default() }],
            verdict: Some(Verdict { offending: vec![Event::default()], ..Verdict::default() }),
            ..Record::default()
        };
        assert!(summary(&[record("local")]).warning.contains("level local"));
        assert_eq!(summary(&[record("linearizable")]).warning, "");
    }
}
