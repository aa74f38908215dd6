//! How fast it was, in a sentence: of one setting its figures, of several the one that served most, or how far they lie apart.

use std::collections::BTreeSet;

use crate::record::{Arrivals, Measurement, Record};
use crate::report::chart::dots::median;
use crate::report::gather::{self, Group, Names};
use crate::report::{compare, format};

/// A setting of the first side with the middle figures of its measurements that count.
struct Setting<'a> {
    record: &'a Record,
    label: String,
    /// At least one.
    members: Vec<&'a Measurement>,
    throughput: f64,
    /// The 99th percentile in nanoseconds, if enough was answered for one.
    p99: Option<f64>,
}

fn settings(records: &[Record]) -> Vec<Setting<'_>> {
    let of_record = |record| {
        let first = compare::sides(record).first().copied().unwrap_or("").to_owned();
        let groups = gather::groups(record).into_iter().filter(move |group| group.side == first);
        groups.filter_map(move |group| setting(record, group))
    };
    records.iter().flat_map(of_record).collect()
}

fn setting<'a>(record: &'a Record, group: Group<'a>) -> Option<Setting<'a>> {
    let counts = |m: &&Measurement| gather::void(m).is_none() && m.throughput.is_finite() && m.throughput > 0.0;
    let members: Vec<&Measurement> = group.members.into_iter().filter(counts).collect();
    let throughput = median(&members.iter().map(|m| m.throughput).collect::<Vec<_>>())?;
    let p99 = median(&members.iter().filter_map(|m| compare::p99(m)).collect::<Vec<_>>());
    Some(Setting { record, label: group.label, members, throughput, p99 })
}

/// `64 clients were`.
fn clients(measurement: &Measurement) -> String {
    match measurement.clients {
        0 => "Its clients were".to_owned(),
        1 => "One client was".to_owned(),
        clients => format!("{} clients were", format::count(u64::from(clients))),
    }
}

/// The rate that was asked for, of an open loop.
fn asked(measurement: &Measurement) -> Option<f64> {
    measurement.rate.filter(|_| measurement.arrivals != Arrivals::Closed)
}

/// Whether all were asked for the same, so that none is faster than another and only the tails tell of them.
fn asked_alike(settings: &[Setting]) -> Option<f64> {
    let mut rates = settings.iter().flat_map(|setting| &setting.members).map(|member| asked(member));
    let first = rates.next().flatten().filter(|rate| rate.is_finite())?;
    (settings.len() > 1 && rates.all(|rate| rate == Some(first))).then_some(first)
}

/// How fast: of the first side's settings the one with the greatest throughput, or, where all were asked for the same, of all.
pub(super) fn speed(records: &[Record]) -> Option<String> {
    let settings = settings(records);
    let best = settings.iter().max_by(|a, b| a.throughput.total_cmp(&b.throughput))?;
    let of = best.members.first()?;
    if let Some(rate) = asked_alike(&settings) {
        let least = settings.iter().map(|setting| setting.throughput).fold(f64::INFINITY, f64::min);
        let (least, most) = (format::number(least), format::number(best.throughput));
        let served = if least == most { most } else { format!("{least} to {most}") };
        return Some(format!(
            "{} served {served} operations a second in {} settings ({} were asked for).",
            clients(of),
            settings.len(),
            format::number(rate)
        ));
    }
    let asked = asked(of).map_or_else(String::new, |rate| format!(" ({} were asked for)", format::number(rate)));
    let record = best.record;
    let by = if compare::sides(record).len() > 1 || records.len() > 1 {
        format!(" by {}", gather::side_name(record, &of.side))
    } else {
        String::new()
    };
    let workloads: BTreeSet<&str> = records
        .iter()
        .flat_map(|record| &record.measurements)
        .map(|measurement| measurement.workload.as_str())
        .collect();
    let work =
        if workloads.len() > 1 && !of.workload.is_empty() { format!(" ({})", of.workload) } else { String::new() };
    let tail =
        best.p99.map_or(String::new(), |p99| format!("; 99 of 100 answers came within {}", format::duration(p99)));
    // One node of a cluster of one answers more than three that must agree: whose figure it is must be said.
    let nodes = of.variables.get("nodes").or_else(|| of.variables.get("replicas"));
    let on = nodes.map_or(String::new(), |nodes| format!(" on {nodes} node{}", if nodes == "1" { "" } else { "s" }));
    let middle = match best.members.len() {
        1 => String::new(),
        count => format!(", by the middle one of {count} measurements"),
    };
    // What the sentence says already of the setting is not said again.
    let which = if on.is_empty() && by.is_empty() { format!(" ({})", best.label) } else { String::new() };
    let most =
        if settings.len() > 1 { format!(", the most of {} settings{which}", settings.len()) } else { String::new() };
    let rate = format::number(best.throughput);
    Some(format!("{} served {rate} operations a second{by}{on}{work}{asked}{most}{middle}{tail}.", clients(of)))
}

/// Where all settings were asked for the same: the best and the worst tail.
pub(super) fn range(records: &[Record]) -> Option<String> {
    let settings = settings(records);
    asked_alike(&settings)?;
    let tails = || settings.iter().filter_map(|setting| Some((setting, setting.p99?)));
    let (best, least) = tails().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (worst, most) = tails().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let explained = if records.len() == 1 { Names::new(best.record).explained() } else { String::new() };
    let explained = if explained.is_empty() { String::new() } else { format!(" {explained}") };
    (most > least).then(|| {
        format!(
            "99 of 100 answers came within {} at best ({}) and within {} at worst ({}).{explained}",
            format::duration(least),
            best.label,
            format::duration(most),
            worst.label
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Operation, Spread};

    fn measured(records: &str, repeat: &str, throughput: f64, p99_ms: u64, rate: Option<f64>) -> Measurement {
        let latency = Spread { p99: p99_ms * 1_000_000, ..Spread::default() };
        let operation = Operation { count: 1_000, latency, ..Operation::default() };
        let word = |text: &str| text.to_owned();
        Measurement {
            clients: 16,
            arrivals: if rate.is_some() { Arrivals::Poisson } else { Arrivals::Closed },
            rate,
            throughput,
            variables: [(word("records"), word(records)), (word("repeat"), word(repeat))].into(),
            operations: [(word("read"), operation)].into(),
            ..Measurement::default()
        }
    }

    fn plain(text: Option<String>) -> String {
        text.unwrap_or_default().replace(['\u{a0}', format::THIN], " ")
    }

    #[test]
    fn of_repeats_the_middle_one_is_told_and_not_the_best() {
        let repeats = [("1", 900.0, 5), ("2", 500.0, 9), ("3", 300.0, 20)];
        let measurements = repeats.map(|(repeat, rate, p99)| measured("10", repeat, rate, p99, None)).to_vec();
        let records = [Record { measurements, ..Record::default() }];
        assert_eq!(
            plain(speed(&records)),
            "16 clients were served 500 operations a second, by the middle one of 3 measurements; 99 of 100 answers came within 9.00 ms."
        );
        assert_eq!(range(&records), None);
    }

    #[test]
    fn of_settings_asked_for_the_same_the_tails_are_told_apart() {
        let rate = Some(500.0);
        let mut measurements = vec![measured("10", "1", 498.0, 5, rate), measured("20", "1", 510.0, 120, rate)];
        let records = [Record { measurements: measurements.clone(), ..Record::default() }];
        assert_eq!(
            plain(speed(&records)),
            "16 clients were served 498 to 510 operations a second in 2 settings (500 were asked for)."
        );
        assert_eq!(
            plain(range(&records)),
            "99 of 100 answers came within 5.00 ms at best (records 10) and within 120 ms at worst (records 20)."
        );
        measurements[0].generator.saturated = true;
        let records = [Record { measurements, ..Record::default() }];
        assert!(plain(speed(&records)).contains("served 510 operations a second (500 were asked for)"));
    }
}
