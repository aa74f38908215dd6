//! What must be known before the figures and the verdict are taken for the server's.

use super::ended;
use crate::record::Record;
use crate::report::gather;

/// What a reader must know: that figures are struck out, or that more was checked than was promised.
pub(super) fn warning(records: &[Record]) -> String {
    [struck_out(records), unpromised(records)].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
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
