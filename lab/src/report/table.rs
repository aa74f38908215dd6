//! Tables that fit a phone: there every row becomes a card, each cell with its heading before it.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::history;
use super::format;
use super::gather::{self, Names, rate};
use super::html::{element, escape};
use crate::record::{Arrivals, Measurement, Operation, Record, Side};

/// Most rows of a table; the JSON copy has all.
const ROWS_MAX: usize = 300;

/// Most reasons why figures are struck out that are told below a table.
const REASONS_MAX: usize = 20;

/// Most columns of further figures.
const COUNTERS_MAX: usize = 10;

/// One cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    text: String,
    /// A figure, which stands on the right of its column.
    figure: bool,
    /// Whether it does not count.
    void: bool,
    /// What it is to the rows below: only a row's first cell is anything.
    rank: Rank,
}

/// What a row is to its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rank {
    /// Nothing.
    #[default]
    Alone,
    /// It heads those below.
    Head,
    /// It belongs to the head above.
    Part,
}

impl Cell {
    /// Words.
    pub fn words(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// A figure.
    pub fn figure(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), figure: true, ..Cell::default() }
    }

    fn struck(mut self, void: bool) -> Cell {
        self.void = void && self.figure && !self.text.is_empty();
        self
    }

    fn ranked(mut self, rank: Rank) -> Cell {
        self.rank = rank;
        self
    }
}

/// A table with its headings; nothing if it has no row.
pub fn table(class: &str, headings: &[String], rows: &[Vec<Cell>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = format!("<table class=\"{}\"><thead><tr>", escape(class));
    let figures = |column: usize| rows.iter().filter_map(|row| row.get(column)).all(|cell| cell.figure);
    for (column, heading) in headings.iter().enumerate() {
        out.push_str(&format!(
            "<th scope=\"col\"{}>{}</th>",
            if figures(column) { " class=\"figure\"" } else { "" },
            escape(heading)
        ));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows.iter().take(ROWS_MAX) {
        out.push_str(match row.first().map(|cell| cell.rank) {
            Some(Rank::Head) => "<tr class=\"head\">",
            Some(Rank::Part) => "<tr class=\"part\">",
            _ => "<tr>",
        });
        for (cell, heading) in row.iter().zip(headings) {
            // A figure with its error needs a phone's whole width.
            let class = match cell.figure {
                true if cell.text.contains('±') => " class=\"figure long\"",
                true => " class=\"figure\"",
                false => "",
            };
            let text = if cell.void { format!("<s>{}</s>", escape(&cell.text)) } else { escape(&cell.text) };
            out.push_str(&format!("<td{class} data-label=\"{}\">{text}</td>", escape(heading)));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
    if rows.len() > ROWS_MAX {
        let text = format!("{} of {} rows; the JSON copy has all.", ROWS_MAX, format::count(rows.len() as u64));
        out.push_str(&element("p", "small", &text));
    }
    out
}

fn headings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The sides with what each of them promises: without it their figures can't be compared.
pub fn sides(sides: &[Side]) -> String {
    let unsaid = |text: &str| if text.is_empty() { "not stated".to_owned() } else { text.to_owned() };
    let rows: Vec<Vec<Cell>> = sides
        .iter()
        .map(|side| {
            vec![
                Cell::words(if side.name.is_empty() { &side.id } else { &side.name }),
                Cell::figure(format::count(u64::from(side.nodes))),
                Cell::words(unsaid(&side.durability)),
                Cell::words(unsaid(&side.consistency)),
            ]
        })
        .collect();
    table("sides", &headings(&["Side", "Nodes", "A write is answered when", "A read is"]), &rows)
}

/// What was measured: a row for each measurement, with a row for each of its operations below it if one has several.
pub fn measurements(record: &Record) -> String {
    let names = Names::new(record);
    let open = record.measurements.iter().any(|m| m.arrivals != Arrivals::Closed);
    let several = record.measurements.iter().any(|m| m.operations.len() != 1);
    let mut columns = vec!["Measured"];
    if !several {
        columns.push("Operation");
    }
    if open {
        columns.push("Asked for");
    }
    columns.extend(["Answered/s", "p50", "p90", "p99", "p99.9", "p99.99", "Max", "Errors"]);
    let mut rows = Vec::new();
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for measurement in &record.measurements {
        let void = gather::void(measurement);
        let name = names.of(measurement, true);
        if let Some(reason) = &void {
            reasons.entry(reason.clone()).or_default().push(name.clone());
        }
        for (operation, cells) in own_rows(measurement, several) {
            let mut row = match operation {
                Some(operation) if several => vec![Cell::words(operation).ranked(Rank::Part)],
                Some(operation) => vec![Cell::words(name.clone()), Cell::words(operation)],
                None => vec![Cell::words(name.clone()).ranked(Rank::Head)],
            };
            if open {
                let said = several && row[0].rank == Rank::Part;
                row.push(Cell::figure(if said { String::new() } else { rate(measurement) }));
            }
            row.extend(cells);
            rows.push(row.into_iter().map(|cell| cell.struck(void.is_some())).collect());
        }
    }
    let mut out = table("measurements", &headings(&columns), &rows);
    if !reasons.is_empty() {
        out.push_str(
            "<p class=\"warning\">Struck out, because the load generator and not the server may have set the figures: ",
        );
        let told =
            reasons.into_iter().take(REASONS_MAX).map(|(reason, names)| format!("{} ({reason})", names.join(", ")));
        out.push_str(&escape(&told.collect::<Vec<_>>().join("; ")));
        out.push_str("</p>");
    }
    out
}

/// The rows of a measurement: the operation, or none for all together (only if `several`), and the cells from the throughput on.
fn own_rows(measurement: &Measurement, several: bool) -> Vec<(Option<&str>, Vec<Cell>)> {
    let mut rows = Vec::new();
    let errors = gather::failed(measurement);
    if several {
        let mut cells = vec![Cell::figure(throughput(measurement))];
        cells.extend((0..6).map(|_| Cell::figure("")));
        cells.push(Cell::figure(format::count(errors)));
        rows.push((None, cells));
    }
    for (name, operation) in &measurement.operations {
        let rate = if !several {
            throughput(measurement)
        } else if measurement.seconds > 0.0 {
            format::number(operation.count as f64 / measurement.seconds)
        } else {
            String::new()
        };
        let mut cells = vec![Cell::figure(rate)];
        cells.extend(percentiles(operation).into_iter().map(Cell::figure));
        let errors = if several { operation.errors } else { errors };
        cells.push(Cell::figure(format::count(errors)));
        rows.push((Some(name.as_str()), cells));
    }
    rows
}

fn throughput(measurement: &Measurement) -> String {
    let value = format::number(measurement.throughput);
    if measurement.throughput_error > 0.0 {
        format!("{value} ± {}", format::number(measurement.throughput_error))
    } else {
        value
    }
}

/// The percentiles and the greatest; a dash where too few operations were answered for one.
fn percentiles(operation: &Operation) -> [String; 6] {
    let latency = &operation.latency;
    let enough = |count: u64, value: u64| {
        if operation.count >= count { format::duration(value as f64) } else { "–".to_owned() }
    };
    [
        enough(1, latency.p50),
        enough(10, latency.p90),
        enough(100, latency.p99),
        enough(1_000, latency.p999),
        enough(10_000, latency.p9999),
        enough(1, latency.max),
    ]
}

/// Further figures by name.
pub fn counters(record: &Record) -> String {
    let columns: BTreeSet<&str> =
        record.measurements.iter().flat_map(|m| m.counters.keys()).map(String::as_str).collect();
    let columns: Vec<&str> = columns.into_iter().take(COUNTERS_MAX).collect();
    if columns.is_empty() {
        return String::new();
    }
    let names = Names::new(record);
    let mut headings = vec!["Measured".to_owned()];
    headings.extend(columns.iter().map(|column| column.replace("_us_", " µs ").replace('_', " ")));
    let rows: Vec<Vec<Cell>> = record
        .measurements
        .iter()
        .filter(|measurement| !measurement.counters.is_empty())
        .map(|measurement| {
            let mut row = vec![Cell::words(names.of(measurement, true))];
            let cell = |column: &&str| {
                measurement.counters.get(*column).map_or_else(String::new, |value| format::number(*value))
            };
            row.extend(
                columns.iter().map(|column| Cell::figure(cell(column)).struck(gather::void(measurement).is_some())),
            );
            row
        })
        .collect();
    format!("<h3>Further figures</h3>{}", table("counters", &headings, &rows))
}

/// Errors by what they said.
pub fn errors(record: &Record) -> String {
    let names = Names::new(record);
    let mut rows = Vec::new();
    for measurement in &record.measurements {
        for (what, count) in &measurement.errors {
            rows.push(vec![
                Cell::words(names.of(measurement, true)),
                Cell::words(what),
                Cell::figure(format::count(*count)),
            ]);
        }
    }
    let table = table("errors", &headings(&["Measured", "Error", "Times"]), &rows);
    if table.is_empty() {
        return table;
    }
    let more = |m: &Measurement| m.errors.values().copied().fold(0, u64::saturating_add) > gather::failed(m);
    let why = if record.measurements.iter().any(more) {
        "Of an operation of several commands each one that failed is counted here, and so are attempts to connect."
    } else {
        ""
    };
    let why = if why.is_empty() { String::new() } else { element("p", "small", why) };
    format!("<h3>Errors</h3>{table}{why}")
}

/// The laws' constants, with those printed for Cassandra.
pub fn fits(record: &Record) -> String {
    let limits = |limits: &crate::record::Limits| {
        format!("{} ({} to {})", format::number(limits.value), format::number(limits.low), format::number(limits.high))
    };
    let mut rows: Vec<Vec<Cell>> = record
        .fits
        .iter()
        .map(|fit| {
            let peak = fit.peak_at.map_or_else(|| "none".to_owned(), format::number);
            let texts =
                [limits(&fit.lambda), limits(&fit.sigma), limits(&fit.kappa), peak, format::number(fit.r_squared)];
            let mut row = vec![Cell::words(gather::side_name(record, &fit.side)), Cell::words(&fit.variable)];
            row.extend(texts.map(Cell::figure));
            row
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let (lambda, sigma, kappa) = super::chart::scaling::CASSANDRA;
    let mut row = vec![Cell::words("Apache Cassandra (a study)"), Cell::words("nodes")];
    row.extend([lambda, sigma, kappa].map(|value| Cell::figure(format::number(value))));
    row.extend([Cell::figure(""), Cell::figure("")]);
    rows.push(row);
    let names = ["Side", "Against", "λ: of one, per second", "σ: contention", "κ: coherence", "Peak at", "R²"];
    format!("<h3>The law’s constants, with 95 % limits</h3>{}", table("fits", &headings(&names), &rows))
}

/// The operations of the drawing of a violation.
pub fn offending(record: &Record) -> String {
    let events = record.verdict.as_ref().map_or(&[][..], |verdict| &verdict.offending);
    let rows: Vec<Vec<Cell>> = history::list(events).into_iter().map(|row| row.map(Cell::words).to_vec()).collect();
    table("history", &headings(&["No.", "Client", "Asked", "Answered", "From", "Until"]), &rows)
}

/// What the generator says of itself, in a sentence; nothing if it was not asked.
pub fn generator(record: &Record) -> String {
    let generators = || record.measurements.iter().map(|m| &m.generator).filter(|generator| generator.threads > 0);
    let Some(threads) = generators().map(|generator| generator.threads).max() else { return String::new() };
    let busy = generators().map(|generator| generator.busy).fold(0.0, f64::max);
    let open = record.measurements.iter().filter(|m| m.arrivals != Arrivals::Closed && m.generator.threads > 0);
    // Without a schedule nothing can be late.
    let late = open.map(|m| m.generator.late_p99).max().map_or(String::new(), |late| {
        format!("; 99 of 100 operations left within {} of their time", format::duration(late as f64))
    });
    format!(
        "The load generator had {threads} thread{}, of which the busiest had work for at most {} of a second{late}.",
        if threads == 1 { "" } else { "s" },
        format::share(busy),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Generator, Spread};

    #[test]
    fn figures_of_a_saturated_generator_are_struck_with_the_reason() {
        let latency = Spread { p50: 1_000_000, p90: 2_000_000, p99: 3_000_000, max: 4_000_000, ..Spread::default() };
        let operation = Operation { count: 500, latency, ..Operation::default() };
        let mut measurement = Measurement { workload: "ycsb-a".into(), throughput: 250.0, ..Measurement::default() };
        measurement.operations.insert("read".into(), operation);
        measurement.generator =
            Generator { saturated: true, reason: "a thread was busy".into(), ..Generator::default() };
        let mut record = Record { measurements: vec![measurement], ..Record::default() };
        let html = measurements(&record);
        assert!(html.contains("<td class=\"figure\" data-label=\"p99\"><s>3.00\u{a0}ms</s></td>"), "{html}");
        assert!(html.contains("ycsb-a (a thread was busy)"), "{html}");
        assert!(html.contains("<s>–</s>"), "500 operations have no 99.9th percentile: {html}");
        record.measurements[0].generator.saturated = false;
        let html = measurements(&record);
        assert!(!html.contains("<s>") && html.contains(">3.00\u{a0}ms<"), "{html}");
    }

    #[test]
    fn operations_that_failed_are_counted_once() {
        let of = |errors| Operation { count: 10, errors, ..Operation::default() };
        let errors = [("no answer within the timeout", 9), ("connecting: refused", 4), ("never sent: no client", 2)];
        let measurement = Measurement {
            operations: [("read".to_owned(), of(1)), ("transfer".to_owned(), of(3))].into(),
            errors: errors.map(|(text, count)| (text.to_owned(), count)).into(),
            ..Measurement::default()
        };
        assert_eq!(gather::failed(&measurement), 6);
        let record = Record { measurements: vec![measurement], ..Record::default() };
        assert!(measurements(&record).contains("data-label=\"Errors\">6</td>"), "{}", measurements(&record));
        assert!(super::errors(&record).contains("each one that failed is counted here"));
    }

    #[test]
    fn a_table_without_rows_is_nothing() {
        let record = Record::default();
        for part in
            [sides(&[]), measurements(&record), counters(&record), errors(&record), fits(&record), offending(&record)]
        {
            assert_eq!(part, "");
        }
        assert_eq!(generator(&record), "");
    }
}
