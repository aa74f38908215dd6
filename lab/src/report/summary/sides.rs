//! Sides against each other, in a sentence.

use super::ended;
use crate::record::{Arrivals, Measurement, Record};
use crate::report::chart::dots::median;
use crate::report::gather::{self, Group};
use crate::report::{compare, format};
use crate::statistics::repeats::{self, Difference};

/// Fewest repeats of which the test of ranks may say something.
const REPEATS_TOLD_MIN: usize = 4;

/// One side beside the first.
struct Beside<'a> {
    name: &'a str,
    /// How many times this side's figure the first one has, in each setting that both were measured in; in order of size.
    ratios: Vec<f64>,
    /// Whether there is one setting with repeats enough to tell the two apart, and they do not.
    unsure: bool,
}

impl Beside<'_> {
    /// `1.42×`, or `0.500× to 1.42×`.
    fn ratio(&self) -> String {
        let (least, most) = (self.ratios.first().copied(), self.ratios.last().copied());
        let [least, most] = [least, most].map(|ratio| format::ratio(ratio.unwrap_or(f64::NAN)));
        if least == most { least } else { format!("{least} to {most}") }
    }
}

/// Sides against each other: by what was answered, or, if a schedule said how much that was, by the 99th percentile.
pub(super) fn comparison(records: &[Record]) -> Option<String> {
    records.iter().find_map(of_record)
}

fn of_record(record: &Record) -> Option<String> {
    let sides = compare::sides(record);
    let (first, others) = sides.split_first()?;
    let groups = gather::groups(record);
    let closed = record.measurements.iter().all(|m| m.arrivals == Arrivals::Closed);
    let figure = |m: &&Measurement| if closed { (m.throughput > 0.0).then_some(m.throughput) } else { compare::p99(m) };
    let figures = |group: &Group| -> Vec<f64> {
        group.members.iter().filter(|m| gather::void(m).is_none()).filter_map(figure).collect()
    };
    let mut repeats_most = 0;
    let mut told: Vec<Beside> = Vec::new();
    for side in others {
        let mut beside = Beside { name: gather::side_name(record, side), ratios: Vec::new(), unsure: false };
        for own in groups.iter().filter(|group| group.side == *first) {
            let same = |group: &&Group| group.side == *side && group.setting == own.setting;
            let Some(theirs) = groups.iter().find(same) else { continue };
            let (own, theirs) = (figures(own), figures(theirs));
            let Some(ratio) = median(&own).zip(median(&theirs)).map(|(own, theirs)| own / theirs) else { continue };
            let compared = repeats::compare(&theirs, &own, 1);
            let enough = own.len().min(theirs.len()) >= REPEATS_TOLD_MIN;
            beside.unsure = enough && compared.is_ok_and(|compared| compared.difference == Difference::NotTold);
            beside.ratios.push(ratio);
            repeats_most = repeats_most.max(own.len()).max(theirs.len());
        }
        beside.ratios.sort_by(f64::total_cmp);
        beside.unsure &= beside.ratios.len() == 1;
        told.extend((!beside.ratios.is_empty()).then_some(beside));
    }
    let (what, those) = if closed { ("the operations a second", "those") } else { ("the 99th percentile", "that") };
    let (one, rest) = told.split_first()?;
    let mut words = format!("{} {what} of {}", one.ratio(), one.name);
    for (index, beside) in rest.iter().enumerate() {
        let joint = if index + 1 == rest.len() { " and" } else { "," };
        words.push_str(&format!("{joint} {} {those} of {}", beside.ratio(), beside.name));
    }
    let settings = told.iter().map(|beside| beside.ratios.len()).max().unwrap_or(0);
    let settings = if settings > 1 { format!(" in {settings} settings") } else { String::new() };
    let of = match repeats_most {
        1 => "one measurement each".to_owned(),
        count => format!("medians of {count} measurements each"),
    };
    let unsure: Vec<&str> = told.iter().filter(|beside| beside.unsure).map(|beside| beside.name).collect();
    let unsure = match unsure.len() {
        0 => String::new(),
        some if some == told.len() => " The repeats differ too much to tell any of these from 1×.".to_owned(),
        _ => format!(" The repeats differ too much to tell this from 1× of {}.", unsure.join(", ")),
    };
    // A side may be called by words that begin small.
    let first = gather::side_name(record, first);
    Some(format!("{}{unsure}", ended(&format!("{first} had {words}{settings} ({of}, which the table lists)"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(side: &str, workload: &str, repeat: usize, throughput: f64) -> Measurement {
        let variables = [("repeat".to_owned(), repeat.to_string())].into();
        let (side, workload) = (side.to_owned(), workload.to_owned());
        Measurement { side, workload, variables, throughput, ..Measurement::default() }
    }

    fn told(measurements: Vec<Measurement>) -> String {
        comparison(&[Record { measurements, ..Record::default() }]).unwrap_or_default()
    }

    #[test]
    fn what_repeats_do_not_tell_apart_is_said() {
        let mut measurements = Vec::new();
        for (repeat, throughput) in [900.0, 1_000.0, 1_100.0, 1_000.0].into_iter().enumerate() {
            measurements.push(measured("quiet", "a", repeat, throughput));
            measurements.push(measured("noise", "a", repeat, throughput / 2.0));
            measurements.push(measured("slow", "a", repeat, throughput));
        }
        let text = told(measurements.clone());
        assert_eq!(
            text,
            "Quiet had 2.00× the operations a second of noise and 1.00× those of slow (medians of 4 measurements each, which the table \
             lists). The repeats differ too much to tell this from 1× of slow."
        );
        measurements.retain(|measurement| measurement.side != "noise");
        assert!(told(measurements).ends_with("too much to tell any of these from 1×."));
    }

    #[test]
    fn different_work_is_not_thrown_together() {
        let measurements = vec![
            measured("dictum", "get", 1, 1_000.0),
            measured("dictum", "set", 1, 100.0),
            measured("other", "get", 1, 500.0),
            measured("other", "set", 1, 200.0),
        ];
        assert_eq!(
            told(measurements),
            "Dictum had 0.500× to 2.00× the operations a second of other in 2 settings (one measurement each, which the table lists)."
        );
    }
}
