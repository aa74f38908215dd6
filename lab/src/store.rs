//! A record's folder, and the same in one file.
//!
//! The folder is as [`crate::record`] draws it. The export is one JSON document:
//! `{"record": …, "series": {MEASUREMENT: [Second …]}, "histograms": {MEASUREMENT: {OPERATION: "base64"}}}`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Record;
use crate::record::{FORMAT, Second, Spread};
use crate::statistics::steps::STEPS;

/// The head of a series: the columns, in their order. Times in nanoseconds.
const COLUMNS: &str = "second,operation,count,errors,min,mean,p50,p90,p95,p99,p999,p9999,max,steps";
/// The head of a series that was written when seconds had no histograms.
const COLUMNS_WITHOUT_STEPS: &str = "second,operation,count,errors,min,mean,p50,p90,p95,p99,p999,p9999,max";

/// Writes the record into `folder`, which is made if it is not there. What is there under the same names is replaced.
///
/// # Errors
/// A sentence with the path and the cause; or a measurement's or an operation's name that cannot be a file's.
pub fn write(record: &Record, folder: &Path) -> Result<(), String> {
    for measurement in &record.measurements {
        check_name(&measurement.id)?;
        let mut seen = 0;
        seen += record.measurements.iter().filter(|other| other.id == measurement.id).count();
        if seen != 1 {
            return Err(format!("two measurements are called `{}`", measurement.id));
        }
        measurement.operations.keys().try_for_each(|name| check_name(name))?;
        if let Some(strange) = measurement.series.iter().find(|second| check_name(&second.operation).is_err()) {
            check_name(&strange.operation)?;
        }
    }
    for part in ["", "series", "histograms"] {
        let path = folder.join(part);
        std::fs::create_dir_all(&path).map_err(|error| said(&path, &error))?;
    }
    for measurement in &record.measurements {
        put(&series_path(folder, &measurement.id), series_text(&measurement.series).as_bytes())?;
        for (name, operation) in measurement.operations.iter().filter(|(_, operation)| !operation.histogram.is_empty())
        {
            put(&histogram_path(folder, &measurement.id, name), format!("{}\n", operation.histogram).as_bytes())?;
        }
    }
    // The record last: a folder that has one is whole.
    let text =
        serde_json::to_string_pretty(record).map_err(|error| format!("the record cannot be written: {error}"))?;
    put(&folder.join("record.json"), format!("{text}\n").as_bytes())
}

/// Reads a record's folder, or the file that [`export`] wrote. A series or histogram that is not there is empty.
///
/// # Errors
/// A sentence with the path and what is wrong there.
pub fn read(path: &Path) -> Result<Record, String> {
    if !path.is_dir() {
        return import(&get(path)?).map_err(|error| format!("{}: {error}", path.display()));
    }
    let record_path = path.join("record.json");
    let mut record: Record =
        serde_json::from_str(&get(&record_path)?).map_err(|error| format!("{}: {error}", record_path.display()))?;
    check_format(&record).map_err(|error| format!("{}: {error}", record_path.display()))?;
    for measurement in &mut record.measurements {
        check_name(&measurement.id)?;
        let series = series_path(path, &measurement.id);
        if series.exists() {
            measurement.series =
                read_series(&get(&series)?).map_err(|error| format!("{}: {error}", series.display()))?;
        }
        for (name, operation) in &mut measurement.operations {
            check_name(name)?;
            let histogram = histogram_path(path, &measurement.id, name);
            if histogram.exists() {
                operation.histogram = get(&histogram)?.trim().to_owned();
            }
        }
    }
    Ok(record)
}

#[derive(Serialize, Deserialize)]
struct Export {
    record: Record,
    series: BTreeMap<String, Vec<Second>>,
    histograms: BTreeMap<String, BTreeMap<String, String>>,
}

/// The record with everything in one JSON document.
///
/// # Errors
/// A sentence, if a figure is none (not a number).
pub fn export(record: &Record) -> Result<String, String> {
    let mut export = Export { record: record.clone(), series: BTreeMap::new(), histograms: BTreeMap::new() };
    for measurement in &record.measurements {
        export.series.insert(measurement.id.clone(), measurement.series.clone());
        let histograms = measurement.operations.iter().map(|(name, of)| (name.clone(), of.histogram.clone())).collect();
        export.histograms.insert(measurement.id.clone(), histograms);
    }
    serde_json::to_string(&export).map_err(|error| format!("the record cannot be written: {error}"))
}

/// Reads what [`export`] wrote.
///
/// # Errors
/// A sentence, if it is something else or of a newer form.
pub fn import(text: &str) -> Result<Record, String> {
    let mut export: Export =
        serde_json::from_str(text).map_err(|error| format!("this is no exported record: {error}"))?;
    check_format(&export.record)?;
    for measurement in &mut export.record.measurements {
        measurement.series = export.series.remove(&measurement.id).unwrap_or_default();
        let mut histograms = export.histograms.remove(&measurement.id).unwrap_or_default();
        for (name, operation) in &mut measurement.operations {
            operation.histogram = histograms.remove(name).unwrap_or_default();
        }
    }
    Ok(export.record)
}

/// The name of a run's folder: when it began (UTC) and what it was, `2026-11-24T07-10-00-quick`.
#[must_use]
pub fn folder_name(started_ms: u64, experiment: &str) -> String {
    let seconds = started_ms / 1_000;
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}-{experiment}")
}

/// Year, month and day of the day so many days after 1970-01-01, in the Gregorian calendar: Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`, for days that are not negative.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

fn check_format(record: &Record) -> Result<(), String> {
    if record.format > FORMAT {
        return Err(format!(
            "form {} is newer than this program, which reads up to {FORMAT}: use a newer one",
            record.format
        ));
    }
    Ok(())
}

/// Whether `name` can be a part of a file's name: letters, digits, `-`, `_`, `.`; not empty, not beginning with a dot.
fn check_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > 128 || name.starts_with('.') || !name.bytes().all(plain) {
        return Err(format!("`{name}` cannot be a file's name: use letters, digits, `-`, `_` and `.`"));
    }
    Ok(())
}

fn series_path(folder: &Path, measurement: &str) -> PathBuf {
    folder.join("series").join(format!("{measurement}.csv"))
}

fn histogram_path(folder: &Path, measurement: &str, operation: &str) -> PathBuf {
    folder.join("histograms").join(format!("{measurement}.{operation}.hdr"))
}

fn series_text(series: &[Second]) -> String {
    let mut out = String::from(COLUMNS);
    out.push('\n');
    for row in series {
        let Second { second, operation, count, errors, latency, steps } = row;
        let Spread { min, mean, p50, p90, p95, p99, p999, p9999, max } = latency;
        // Writing to memory does not fail.
        let _ = write!(
            out,
            "{second},{operation},{count},{errors},{min},{mean},{p50},{p90},{p95},{p99},{p999},{p9999},{max},"
        );
        for (place, (step, count)) in steps.iter().enumerate() {
            let _ = write!(out, "{}{step}:{count}", if place == 0 { "" } else { " " });
        }
        out.push('\n');
    }
    out
}

fn read_series(text: &str) -> Result<Vec<Second>, String> {
    let mut lines = text.lines();
    let with_steps = match lines.next() {
        Some(COLUMNS) => true,
        Some(COLUMNS_WITHOUT_STEPS) => false,
        _ => return Err(format!("its first line is not `{COLUMNS}`")),
    };
    lines
        .enumerate()
        .map(|(row, line)| read_second(line, with_steps).ok_or_else(|| format!("line {} is malformed", row + 2)))
        .collect()
}

fn read_second(line: &str, with_steps: bool) -> Option<Second> {
    let mut cells = line.split(',');
    let second = cells.next()?.parse().ok()?;
    let operation = cells.next()?.to_owned();
    let mut whole = || cells.next()?.parse::<f64>().ok();
    let (count, errors) = (whole()? as u64, whole()? as u64);
    let (min, mean) = (whole()? as u64, whole()?);
    let mut time = || whole().map(|number| number as u64);
    let latency = Spread {
        min,
        mean,
        p50: time()?,
        p90: time()?,
        p95: time()?,
        p99: time()?,
        p999: time()?,
        p9999: time()?,
        max: time()?,
    };
    let steps = if with_steps { read_steps(cells.next()?)? } else { Vec::new() };
    cells.next().is_none().then_some(Second { second, operation, count, errors, latency, steps })
}

/// Reads `160:3 161:20`: steps in their order, each once.
fn read_steps(text: &str) -> Option<Vec<(u16, u64)>> {
    let read = |part: &str| {
        let (step, count) = part.split_once(':')?;
        let step: u16 = step.parse().ok()?;
        (step < STEPS).then_some((step, count.parse().ok()?))
    };
    let steps: Vec<(u16, u64)> = text.split_ascii_whitespace().map(read).collect::<Option<_>>()?;
    steps.is_sorted_by(|a, b| a.0 < b.0).then_some(steps)
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|error| said(path, &error))
}

fn get(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| said(path, &error))
}

fn said(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Measurement, Operation};

    fn record() -> Record {
        let latency = Spread { min: 1, mean: 2.5, p50: 2, p90: 3, p95: 4, p99: 5, p999: 6, p9999: 7, max: 8 };
        let operation = Operation { count: 9, errors: 1, latency, service: None, histogram: "HISTFAAA".to_owned() };
        let second = Second { second: 3, operation: "read".to_owned(), count: 9, errors: 1, latency, steps: vec![(8, 2), (16, 7)] };
        let measurement = Measurement {
            id: "run-1.a".to_owned(),
            operations: BTreeMap::from([("read".to_owned(), operation)]),
            series: vec![second.clone(), Second { second: 4, ..second }],
            ..Measurement::default()
        };
        Record { format: FORMAT, experiment: "run".to_owned(), measurements: vec![measurement], ..Record::default() }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a").join("b");
        write(&record(), &path).unwrap();
        assert_eq!(read(&path).unwrap(), record());
        let csv = std::fs::read_to_string(path.join("series").join("run-1.a.csv")).unwrap();
        assert_eq!(csv.lines().nth(1), Some("3,read,9,1,1,2.5,2,3,4,5,6,7,8,8:2 16:7"));
        assert!(path.join("histograms").join("run-1.a.read.hdr").exists());

        let file = folder.path().join("export.json");
        std::fs::write(&file, export(&record()).unwrap()).unwrap();
        assert_eq!(read(&file).unwrap(), record());
    }

    #[test]
    fn series_without_histograms_are_still_read() {
        let old = format!("{COLUMNS_WITHOUT_STEPS}\n3,read,9,1,1,2.5,2,3,4,5,6,7,8\n");
        let expected = Second { steps: Vec::new(), ..record().measurements[0].series[0].clone() };
        assert_eq!(read_series(&old), Ok(vec![expected]));
        let mut exported: serde_json::Value = serde_json::from_str(&export(&record()).unwrap()).unwrap();
        let seconds = exported["series"]["run-1.a"].as_array_mut().unwrap();
        seconds.iter_mut().for_each(|second| drop(second.as_object_mut().unwrap().remove("steps")));
        let read = import(&exported.to_string()).unwrap();
        assert!(read.measurements[0].series.iter().all(|second| second.steps.is_empty() && second.count == 9));
        for steps in ["8:2:3", "512:1", "9:1 8:1", "8", "x:1"] {
            assert!(read_series(&format!("{COLUMNS}\n3,read,9,1,1,2.5,2,3,4,5,6,7,8,{steps}\n")).is_err(), "{steps}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap_err().contains("record.json"));
        let mut strange = record();
        strange.measurements[0].id = "../up".to_owned();
        assert!(write(&strange, folder.path()).unwrap_err().contains("file's name"));
        let mut twice = record();
        twice.measurements.push(twice.measurements[0].clone());
        assert!(write(&twice, folder.path()).unwrap_err().contains("two measurements"));
        let newer = Record { format: FORMAT + 1, ..record() };
        write(&newer, folder.path()).unwrap();
        assert!(read(folder.path()).unwrap_err().contains("newer"));
        write(&record(), folder.path()).unwrap();
        std::fs::write(folder.path().join("series").join("run-1.a.csv"), format!("{COLUMNS}\n1,read\n")).unwrap();
        assert!(read(folder.path()).unwrap_err().contains("line 2 is malformed"));
        assert!(import("{}").is_err());
    }

    #[test]
    fn folders_are_named_by_when() {
        assert_eq!(folder_name(0, "run"), "1970-01-01T00-00-00-run");
        // 2024-02-29 is 19,782 days after 1970; 2026-11-24T07:10:00Z is 1,795,504,200 s (both by `date -u`).
        assert_eq!(folder_name(19_782 * 86_400_000, "x"), "2024-02-29T00-00-00-x");
        assert_eq!(folder_name(1_795_504_200_000, "quick"), "2026-11-24T07-10-00-quick");
    }
}
