//! Repeats and ratios of a comparison: for people, and as one line of JSON of which trends are made (`bench/history.jsonl`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::rows::{Figure, Row};
use crate::Record;
use crate::record::{Environment, Measurement, Side};
use crate::statistics::{Difference, Repeats, compare};
use crate::store;

/// The version of the line's form.
const FORMAT: u32 = 1;
/// Where the bootstrap of a ratio's limits begins.
const SEED: u64 = 1;

/// One comparison in one line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The form's version.
    pub format: u32,
    /// Dictum's version.
    pub version: String,
    /// The day, UTC: `2026-11-24`.
    pub date: String,
    /// When it began: milliseconds since 1970, UTC.
    pub started_ms: u64,
    /// The command line that carries it out again.
    pub command: String,
    /// Where it ran.
    pub environment: Environment,
    /// Who took part, with what each promises.
    pub sides: Vec<Side>,
    /// The rows that were measured.
    pub rows: Vec<RowSummary>,
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RowSummary {
    /// [`Row::name`].
    pub row: String,
    /// [`Row::title`].
    pub title: String,
    /// [`Figure::unit`].
    pub unit: String,
    /// Each side's figures, by [`Side::id`].
    pub sides: BTreeMap<String, Figures>,
    /// Dictum's median over the other side's, by its [`Side::id`].
    pub ratios: BTreeMap<String, Ratio>,
}

/// One side's figures in one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The middle of the repeats.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// All of them, in the order in which they were measured.
    pub values: Vec<f64>,
    /// Median over the repeats of the median latency of the most frequent operation, in milliseconds.
    pub p50_ms: f64,
    /// The same of its 99th percentile.
    pub p99_ms: f64,
    /// Repeats that do not count, because the load generator and not the side may have set their figures.
    pub saturated: usize,
}

/// How many times the other side's figure Dictum's is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Of the medians.
    pub value: f64,
    /// 95 % limit below ([`crate::statistics::Comparison::ratio`]).
    pub low: f64,
    /// 95 % limit above.
    pub high: f64,
    /// Whether the repeats tell the two sides apart at 5 %; three on each side never do.
    pub told: bool,
}

impl Summary {
    /// Of a record that [`super::run`] has filled.
    #[must_use]
    pub fn of(record: &Record, rows: &[&Row]) -> Summary {
        let summaries = rows.iter().map(|row| row_summary(record, row)).filter(|row| !row.sides.is_empty());
        Summary {
            format: FORMAT,
            version: record.environment.versions.get("dictum").cloned().unwrap_or_default(),
            date: store::folder_name(record.started_ms, "").chars().take(10).collect(),
            started_ms: record.started_ms,
            command: record.command.clone(),
            environment: record.environment.clone(),
            sides: record.sides.clone(),
            rows: summaries.collect(),
        }
    }

    /// Appends itself to a file as a line; makes the file if it is not there.
    ///
    /// # Errors
    /// A sentence with the path.
    pub fn append(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|error| format!("the line cannot be written: {error}"))?;
        let file = OpenOptions::new().create(true).append(true).open(path);
        // In one piece, so that a reader never sees half a line.
        let written = file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()));
        written
            .map_err(|error| format!("{} cannot be written: {error}; name another file with --append", path.display()))
    }

    /// For people: what each side promises, and each row's figures and ratios.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        let names = self.sides.iter().map(|side| side.id.len()).max().unwrap_or(0);
        // Writing to memory does not fail, here and below.
        for Side { id, name, nodes, durability, consistency, .. } in &self.sides {
            let _ =
                writeln!(out, "{id:<names$}  {name}; nodes: {nodes}; a write is {durability}; reads: {consistency}");
        }
        for row in &self.rows {
            let _ = writeln!(out, "\n{} ({})", row.title, row.unit);
            for side in self.sides.iter().filter(|side| row.sides.contains_key(&side.id)) {
                let of = &row.sides[&side.id];
                if !of.values.is_empty() {
                    let digits = if of.high < 100.0 { 3 } else { 0 };
                    let spread = format!("{:.digits$} … {:.digits$}", of.low, of.high);
                    let ratio = row.ratios.get(&side.id).map_or(String::new(), |ratio| {
                        format!("   Dictum is {:.2}× ({:.2} … {:.2})", ratio.value, ratio.low, ratio.high)
                    });
                    let count = of.values.len();
                    let latency = format!("p50 {:.3} p99 {:.3} ms", of.p50_ms, of.p99_ms);
                    let _ = write!(
                        out,
                        "  {:<names$} {:>12.digits$}  {latency:<30} n={count} ({spread})",
                        side.id, of.median
                    );
                    let _ = writeln!(out, "{ratio}");
                }
                if of.saturated > 0 {
                    let _ = writeln!(
                        out,
                        "  {:<names$} {} repeats do not count: the load generator was saturated",
                        side.id, of.saturated
                    );
                }
            }
        }
        out
    }
}

fn row_summary(record: &Record, row: &Row) -> RowSummary {
    let mut sides = BTreeMap::new();
    for side in &record.sides {
        let prefix = format!("{}-{}-", row.name, side.id);
        // `redis-wait-1` begins with `redis-` too, but its side is another one.
        let of_row = |measurement: &&Measurement| measurement.side == side.id && measurement.id.starts_with(&prefix);
        let measured: Vec<&Measurement> = record.measurements.iter().filter(of_row).collect();
        if let Some(figures) = figures(&measured, row.figure) {
            sides.insert(side.id.clone(), figures);
        }
    }
    let ours = sides.get("dictum").map(|figures: &Figures| figures.values.clone()).unwrap_or_default();
    let ratio = |(id, figures): (&String, &Figures)| {
        let compared = compare(&figures.values, &ours, SEED).ok()?;
        let told = compared.difference != Difference::NotTold;
        let limits = compared.ratio;
        Some((id.clone(), Ratio { value: limits.value, low: limits.low, high: limits.high, told }))
    };
    let ratios = sides.iter().filter(|(id, _)| *id != "dictum").filter_map(ratio).collect();
    let (title, unit) = (row.title.to_owned(), row.figure.unit().to_owned());
    RowSummary { row: row.name.to_owned(), title, unit, sides, ratios }
}

fn figures(measured: &[&Measurement], figure: Figure) -> Option<Figures> {
    let counted: Vec<(&&Measurement, f64)> =
        measured.iter().filter_map(|measurement| Some((measurement, figure.of(measurement)?))).collect();
    let values: Vec<f64> = counted.iter().map(|(_, value)| *value).collect();
    let saturated = measured.iter().filter(|measurement| measurement.generator.saturated).count();
    let Some(repeats) = Repeats::of(&values) else {
        return (saturated > 0).then(|| Figures { saturated, ..Figures::default() });
    };
    let latency = |of: fn(&crate::record::Spread) -> u64| {
        let most = |measurement: &Measurement| {
            measurement.operations.values().max_by_key(|operation| operation.count).cloned()
        };
        let all: Vec<f64> =
            counted.iter().filter_map(|(measurement, _)| Some(of(&most(measurement)?.latency) as f64 / 1e6)).collect();
        Repeats::of(&all).map_or(0.0, |repeats| repeats.median)
    };
    let (p50_ms, p99_ms) = (latency(|spread| spread.p50), latency(|spread| spread.p99));
    Some(Figures { median: repeats.median, low: repeats.low, high: repeats.high, values, p50_ms, p99_ms, saturated })
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;
    use crate::record::Generator;

    fn record() -> Record {
        let measurement = |side: &str, repeat: u32, throughput: f64, saturated: bool| Measurement {
            id: format!("set256-{side}-{repeat}"),
            side: side.to_owned(),
            throughput,
            generator: Generator { saturated, ..Generator::default() },
            ..Measurement::default()
        };
        let side = |id: &str| Side { id: id.to_owned(), durability: "fsynced".to_owned(), ..Side::default() };
        Record {
            sides: ["dictum", "redis", "redis-wait"].map(side).to_vec(),
            measurements: vec![
                measurement("dictum", 1, 50.0, false),
                measurement("redis", 1, 100.0, false),
                measurement("redis-wait", 1, 25.0, false),
                measurement("dictum", 2, 70.0, false),
                measurement("redis", 2, 120.0, false),
                measurement("redis", 3, 9_999.0, true),
            ],
            ..Record::default()
        }
    }

    #[test]
    fn ratios_are_those_of_medians_and_saturated_repeats_do_not_count() {
        let rows: Vec<&Row> = ROWS.iter().collect();
        let summary = Summary::of(&record(), &rows);
        assert_eq!(summary.rows.len(), 1, "rows without a measurement are left out");
        let row = &summary.rows[0];
        assert_eq!((row.sides["redis"].values.clone(), row.sides["redis"].saturated), (vec![100.0, 120.0], 1));
        assert_eq!(row.ratios.keys().collect::<Vec<_>>(), ["redis", "redis-wait"]);
        assert!((row.ratios["redis"].value - 60.0 / 110.0).abs() < 1e-12);
        assert!((row.ratios["redis-wait"].value - 60.0 / 25.0).abs() < 1e-12);
        let table = summary.table();
        assert!(table.contains("a write is fsynced") && table.contains("1 repeats do not count"), "{table}");
    }

    #[test]
    fn lines_are_appended_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let summary = Summary::of(&record(), &ROWS.iter().collect::<Vec<_>>());
        summary.append(&path).unwrap();
        summary.append(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Summary> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines, [summary.clone(), summary.clone()]);
        assert!(summary.append(&folder.path().join("no/such/file")).unwrap_err().contains("--append"));
    }
}
