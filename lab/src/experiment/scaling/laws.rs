//! The Universal Scalability Law, fitted to the throughput against each variable of a record of `scaling`, and what operations cost.

use crate::experiment::spread_in_words;
use crate::record::{Fit, Measurement, Record};
use crate::report::format::number;
use crate::statistics::usl;

/// A law that explains less of the variance than this is said to be unsure.
const EXPLAINED_LEAST: f64 = 0.8;

/// Which variable a measurement is for.
fn part(measurement: &Measurement) -> &'static str {
    let has = |name| measurement.variables.contains_key(name);
    match (has("partitions"), has("repeat")) {
        (true, _) => "partitions",
        (false, true) => "nodes",
        (false, false) => "clients",
    }
}

/// A variable's value and the throughput, of its measurements that the generator did not set itself.
pub(super) fn points(record: &Record, variable: &str) -> Vec<(f64, f64)> {
    let of = record.measurements.iter().filter(|m| part(m) == variable && !m.generator.saturated && m.throughput > 0.0);
    of.filter_map(|m| Some((m.variables.get(variable)?.parse().ok()?, m.throughput))).collect()
}

/// Fits the law to each variable that was varied. What cannot be fitted is said in the notes.
pub(super) fn fit_laws(record: &mut Record) {
    for variable in ["clients", "partitions", "nodes"] {
        if !record.measurements.iter().any(|measurement| part(measurement) == variable) {
            continue;
        }
        match usl::fit("dictum", variable, &points(record, variable)) {
            Ok(fit) => {
                record.findings.push(told(&fit));
                record.fits.push(fit);
            }
            Err(reason) => record.notes.push(format!("No law is drawn against {variable} ({reason}).")),
        }
    }
}

/// A fit in a sentence.
fn told(fit: &Fit) -> String {
    let limits = |limits: &crate::record::Limits| {
        format!("{} ({} to {})", number(limits.value), number(limits.low), number(limits.high))
    };
    let most = fit.points.iter().map(|(n, _)| *n).fold(0.0, f64::max);
    let peak = match fit.peak_at {
        Some(peak) if peak > most => {
            format!("the law's peak, at {} {}, is beyond what was measured", number(peak), fit.variable)
        }
        Some(peak) if peak > 1.0 => {
            format!(
                "greatest at {} {} with {} operations/s",
                number(peak),
                fit.variable,
                number(usl::law_of(fit).at(peak))
            )
        }
        Some(_) => "greatest at one, and less with each further one".to_owned(),
        None => "no peak".to_owned(),
    };
    let unsure = if fit.r_squared < EXPLAINED_LEAST { ", too little to rely on its constants" } else { "" };
    format!(
        "Against {}: σ {}, κ {}; {peak}; the law explains {:.0} % of the variance{unsure}.",
        fit.variable,
        limits(&fit.sigma),
        limits(&fit.kappa),
        100.0 * fit.r_squared
    )
}

/// What an operation costs with so many partitions or nodes, in a sentence for each.
pub(super) fn costs(record: &Record) -> Vec<String> {
    let figures = [
        ("cpu_us_per_operation", "µs of processor time"),
        ("messages_per_operation", "messages"),
        ("message_bytes_per_operation", "bytes between nodes"),
        ("fsyncs_per_operation", "syncs"),
        ("bytes_written_per_operation", "bytes to disks"),
    ];
    let mut sentences = Vec::new();
    for (variable, one) in [("partitions", "in a bucket of 1 partition"), ("nodes", "on 1 node")] {
        let of_part: Vec<&Measurement> = record.measurements.iter().filter(|m| part(m) == variable).collect();
        let value = |m: &Measurement| m.variables.get(variable)?.parse::<u32>().ok();
        let mut values: Vec<u32> = of_part.iter().filter_map(|m| value(m)).collect();
        values.sort_unstable();
        values.dedup();
        for count in values {
            let of = |name: &str| -> Vec<f64> {
                let these = of_part.iter().filter(|m| value(m) == Some(count));
                these.filter_map(|m| m.counters.get(name).copied()).collect()
            };
            let parts: Vec<String> =
                figures.iter().filter_map(|(name, unit)| spread_in_words(&of(name), unit)).collect();
            if !parts.is_empty() {
                let place =
                    if count == 1 { one.to_owned() } else { format!("{}s", one.replace('1', &count.to_string())) };
                sentences.push(format!("An operation {place} costs {}.", parts.join(", ")));
            }
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(variables: &[(&str, &str)], throughput: f64) -> Measurement {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Measurement { variables, throughput, ..Measurement::default() }
    }

    #[test]
    fn both_laws_are_fitted_to_their_own_points() {
        let mut record = Record::default();
        let law = usl::Law { lambda: 100.0, sigma: 0.05, kappa: 0.001 };
        for clients in [1, 2, 4, 8, 16, 64] {
            let clients = clients.to_string();
            record
                .measurements
                .push(measured(&[("clients", &clients), ("nodes", "3")], law.at(clients.parse().expect("a number"))));
        }
        for nodes in ["1", "3", "5"] {
            for repeat in ["1", "2"] {
                let mut measurement = measured(
                    &[("clients", "64"), ("nodes", nodes), ("repeat", repeat)],
                    900.0 / nodes.parse::<f64>().expect("a number"),
                );
                measurement.counters.insert("fsyncs_per_operation".to_owned(), nodes.parse().expect("a number"));
                record.measurements.push(measurement);
            }
        }
        let mut saturated = measured(&[("clients", "128"), ("nodes", "3")], 1.0);
        saturated.generator.saturated = true;
        record.measurements.push(saturated);
        fit_laws(&mut record);
        assert_eq!((record.fits[0].points.len(), record.fits[1].points.len()), (6, 6));
        assert!((record.fits[0].kappa.value - 0.001).abs() < 1e-6, "{:?}", record.fits[0]);
        assert!(record.findings[0].contains("greatest at 30.8 clients"), "{}", record.findings[0]);
        assert_eq!(costs(&record)[2], "An operation on 5 nodes costs 5.00 syncs (each of 2).");
        assert!(costs(&record)[0].starts_with("An operation on 1 node costs"));
    }

    #[test]
    fn too_few_points_are_said() {
        let mut record =
            Record { measurements: vec![measured(&[("clients", "4"), ("nodes", "3")], 9.0)], ..Record::default() };
        fit_laws(&mut record);
        assert!(record.fits.is_empty() && record.notes.len() == 1 && record.notes[0].contains("clients"));
    }
}
