//! A measurement as a table for people.

use std::fmt::Write as _;

use super::progress::milliseconds;
use crate::record::{Arrivals, Measurement, Spread};

const HEADS: [&str; 11] =
    ["operation", "count", "errors", "mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max (ms)"];

/// The measurement's operations with their percentiles, and what else is to be known of it.
#[must_use]
pub(super) fn table(measurement: &Measurement) -> String {
    let mut rows: Vec<Vec<String>> = vec![HEADS.map(str::to_owned).to_vec()];
    let open = measurement.arrivals != Arrivals::Closed;
    for (name, operation) in &measurement.operations {
        rows.push(row(name, operation.count.to_string(), operation.errors.to_string(), &operation.latency));
        if let Some(service) = operation.service.as_ref().filter(|_| open) {
            rows.push(row("  from its sending", String::new(), String::new(), service));
        }
    }
    let mut out = String::new();
    let pace = match (measurement.rate, measurement.arrivals) {
        (Some(rate), Arrivals::Poisson) => format!("open loop, {rate:.0} operations/s asked for, Poisson arrivals"),
        (Some(rate), _) => format!("open loop, {rate:.0} operations/s asked for, constant arrivals"),
        (None, _) => "closed loop".to_owned(),
    };
    // Writing to memory does not fail, here and below.
    let _ = writeln!(
        out,
        "{}: {} clients, {pace}, {:.1} s: {:.0} operations/s (standard error {:.0})",
        measurement.workload,
        measurement.clients,
        measurement.seconds,
        measurement.throughput,
        measurement.throughput_error
    );
    let widths: Vec<usize> =
        (0..HEADS.len()).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    for row in &rows {
        let mut line = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    for (text, count) in &measurement.errors {
        let _ = writeln!(out, "error {count}×: {text}");
    }
    for gap in measurement.gaps.iter().take(3) {
        let _ = writeln!(out, "nothing was answered for {:.0} ms at {:.1} s", gap.length_ms, gap.at_ms / 1e3);
    }
    let generator = &measurement.generator;
    let _ = writeln!(
        out,
        "generator: {} threads, at most {:.0} % busy{}",
        generator.threads,
        generator.busy * 100.0,
        if open {
            format!(", 99 of 100 operations left within {} ms", milliseconds(generator.late_p99))
        } else {
            String::new()
        }
    );
    out
}

fn row(name: &str, count: String, errors: String, spread: &Spread) -> Vec<String> {
    let Spread { mean, p50, p90, p95, p99, p999, p9999, max, .. } = *spread;
    let mut row = vec![name.to_owned(), count, errors];
    row.extend([mean as u64, p50, p90, p95, p99, p999, p9999, max].map(milliseconds));
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Operation;

    #[test]
    fn columns_stand_under_their_heads() {
        let latency = Spread { p99: 12_345_678, max: 1_000_000_000, ..Spread::default() };
        let mut measurement =
            Measurement { workload: "w".to_owned(), clients: 2, seconds: 1.0, ..Measurement::default() };
        measurement.operations.insert("read".to_owned(), Operation { count: 10, latency, ..Operation::default() });
        measurement.errors.insert("ERR no".to_owned(), 4);
        let text = table(&measurement);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "w: 2 clients, closed loop, 1.0 s: 0 operations/s (standard error 0)");
        assert_eq!(lines[1].find("p99").map(|at| at + 3), lines[2].find("12.3").map(|at| at + 4));
        assert_eq!(lines[1].len(), lines[2].len());
        assert_eq!(lines[3], "error 4×: ERR no");
    }
}
