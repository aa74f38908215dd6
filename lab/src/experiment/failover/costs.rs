//! What a failover cost, as figures and in a sentence.

use super::super::spread_in_words;
use super::Fault;
use crate::record::{Mark, Measurement, Record};
use crate::report::silence::kind;

/// A silence may begin so much before the mark of its fault, in milliseconds: with the last answer.
const EARLY_MS: f64 = 50.0;

/// The first mark of this kind, without names of nodes.
fn mark(measurement: &Measurement, is: impl Fn(&str) -> bool) -> Option<&Mark> {
    measurement.marks.iter().find(|mark| is(&kind(&mark.what)))
}

/// Figures of one repeat: the longest silence that the fault began, the time until another node led, the time in which the node caught
/// up after the fault was undone, and how many operations failed. What was not seen is left out.
pub(super) fn costs(measurement: &Measurement) -> Vec<(String, f64)> {
    let mut costs = Vec::new();
    let Some(fault) = measurement.marks.first() else { return costs };
    let undone = mark(measurement, |what| matches!(what, "started again" | "goes on" | "all links open"));
    let current = mark(measurement, |what| what == "is current");
    let end = undone.filter(|undone| undone.at_ms > fault.at_ms + EARLY_MS).map_or(f64::MAX, |undone| undone.at_ms);
    let of_fault = measurement.gaps.iter().filter(|gap| {
        gap.at_ms + gap.length_ms > fault.at_ms && gap.at_ms >= fault.at_ms - EARLY_MS && gap.at_ms < end
    });
    costs.push(("silence_ms".to_owned(), of_fault.map(|gap| gap.length_ms).fold(0.0, f64::max)));
    if let Some(leads) = mark(measurement, |what| what == "leads") {
        costs.push(("until_another_leads_ms".to_owned(), leads.at_ms - fault.at_ms));
    }
    if let (Some(undone), Some(current)) = (undone, current) {
        costs.push(("catch_up_ms".to_owned(), current.at_ms - undone.at_ms));
    }
    let operations = || measurement.operations.values();
    costs.push(("failed_operations".to_owned(), operations().map(|operation| operation.errors).sum::<u64>() as f64));
    let slowest = operations().map(|operation| operation.latency.max).max().unwrap_or(0);
    costs.push(("slowest_answer_ms".to_owned(), slowest as f64 / 1e6));
    costs
}

/// What came out for one fault, in a sentence.
pub(super) fn finding(fault: Fault, record: &Record) -> Option<String> {
    let of_fault =
        || record.measurements.iter().filter(|m| m.variables.get("fault").is_some_and(|value| value == fault.word()));
    let values = |name: &str| of_fault().filter_map(|m| m.counters.get(name).copied()).collect::<Vec<f64>>();
    let mut parts = Vec::new();
    for (name, what) in [
        ("silence_ms", "nobody was answered for"),
        ("until_another_leads_ms", "another node led after"),
        ("catch_up_ms", "it had caught up within"),
    ] {
        let values = values(name);
        if name == "silence_ms" && !values.is_empty() && values.iter().all(|length| *length == 0.0) {
            parts.push("answers never stopped".to_owned());
            continue;
        }
        parts.extend(spread_in_words(&values, "ms").map(|spread| format!("{what} {spread}")));
    }
    let failed: f64 = values("failed_operations").iter().sum();
    let answered: u64 = of_fault().flat_map(|m| m.operations.values()).map(|operation| operation.count).sum();
    let name = match fault {
        Fault::Terminated => "stopped in good order",
        other => other.word(),
    };
    let saturated = of_fault().filter(|m| m.generator.saturated).count();
    let unsure = match saturated {
        0 => String::new(),
        count => format!(
            " In {count} of {} repeats the clients had to wait for a processor: part of that may be theirs.",
            of_fault().count()
        ),
    };
    (!parts.is_empty()).then(|| {
        format!(
            "Leader {name}: {}; {} of {} operations failed.{unsure}",
            parts.join("; "),
            crate::report::format::count(failed as u64),
            crate::report::format::count(answered.saturating_add(failed as u64))
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Gap;

    fn marked(marks: &[(f64, &str)], gaps: &[(f64, f64)]) -> Measurement {
        Measurement {
            marks: marks.iter().map(|(at_ms, what)| Mark { at_ms: *at_ms, what: (*what).to_owned() }).collect(),
            gaps: gaps.iter().map(|(at_ms, length_ms)| Gap { at_ms: *at_ms, length_ms: *length_ms }).collect(),
            ..Measurement::default()
        }
    }

    #[test]
    fn the_costs_of_a_fault_are_those_after_it() {
        let measurement = marked(
            &[
                (5_000.0, "n2 (leader) killed"),
                (5_600.0, "n1 leads"),
                (10_000.0, "n2 started again"),
                (10_350.0, "n2 is current"),
            ],
            // One before the fault, its own, and one of the coming back.
            &[(1_000.0, 900.0), (4_998.0, 580.0), (10_100.0, 700.0)],
        );
        let costs: std::collections::BTreeMap<String, f64> = costs(&measurement).into_iter().collect();
        assert_eq!(costs["silence_ms"], 580.0);
        assert_eq!((costs["until_another_leads_ms"], costs["catch_up_ms"]), (600.0, 350.0));
        assert!(super::costs(&marked(&[], &[(0.0, 10.0)])).is_empty(), "nothing was done");
        let quiet: Vec<(String, f64)> = super::costs(&marked(&[(5_000.0, "n1 (leader) told to stop")], &[]));
        assert_eq!(quiet[0], ("silence_ms".to_owned(), 0.0), "answers never stopped");
        assert!(!quiet.iter().any(|(name, _)| name == "catch_up_ms"));
    }

    #[test]
    fn a_finding_tells_the_spread() {
        let mut record = Record::default();
        for (repeat, silence) in [300.0, 500.0, 400.0].into_iter().enumerate() {
            let mut measurement = marked(&[], &[]);
            measurement.variables =
                [("fault".to_owned(), "cut off".to_owned()), ("repeat".to_owned(), repeat.to_string())].into();
            measurement.counters.insert("silence_ms".to_owned(), silence);
            record.measurements.push(measurement);
        }
        let told = finding(Fault::CutOff, &record).expect("there are three");
        assert!(
            told.starts_with("Leader cut off: nobody was answered for 400 ms (median of 3; 300 to 500);"),
            "{told}"
        );
        assert_eq!(finding(Fault::Killed, &record), None);
        record.measurements.iter_mut().for_each(|of| of.counters.extend([("silence_ms".to_owned(), 0.0)]));
        let told = finding(Fault::CutOff, &record).expect("there are three");
        assert!(told.starts_with("Leader cut off: answers never stopped; "), "{told}");
    }
}
