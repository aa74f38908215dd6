//! A record's folder, and the same in one file.
//!
//! The folder is as [`crate::record`] draws it. The export is one JSON document:
//! `{"record": …, "series": {MEASUREMENT: [Second …]}, "histograms": {MEASUREMENT: {OPERATION: "base64"}}, "lags": {MEASUREMENT: [Lag …]}}`.
//!
//! [`series`] and [`lags`] are the forms of the CSV files.

mod lags;
mod series;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Record;
use crate::record::{FORMAT, Lag, Second};

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
    let with_lags = record.measurements.iter().any(|measurement| !measurement.lags.is_empty());
    for part in ["", "series", "histograms"].into_iter().chain(with_lags.then_some("lags")) {
        let path = folder.join(part);
        std::fs::create_dir_all(&path).map_err(|error| said(&path, &error))?;
    }
    for measurement in &record.measurements {
        put(&series_path(folder, &measurement.id), series::text(&measurement.series).as_bytes())?;
        if !measurement.lags.is_empty() {
            put(&lags_path(folder, &measurement.id), lags::text(&measurement.lags).as_bytes())?;
        }
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
                series::read(&get(&series)?).map_err(|error| format!("{}: {error}", series.display()))?;
        }
        let path_of_lags = lags_path(path, &measurement.id);
        if path_of_lags.exists() {
            measurement.lags =
                lags::read(&get(&path_of_lags)?).map_err(|error| format!("{}: {error}", path_of_lags.display()))?;
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
    #[serde(default)]
    lags: BTreeMap<String, Vec<Lag>>,
}

/// The record with everything in one JSON document.
///
/// # Errors
/// A sentence, if a figure is none (not a number).
pub fn export(record: &Record) -> Result<String, String> {
    let mut export =
        Export { record: record.clone(), series: BTreeMap::new(), histograms: BTreeMap::new(), lags: BTreeMap::new() };
    for measurement in &record.measurements {
        export.series.insert(measurement.id.clone(), measurement.series.clone());
        let histograms = measurement.operations.iter().map(|(name, of)| (name.clone(), of.histogram.clone())).collect();
        export.histograms.insert(measurement.id.clone(), histograms);
        if !measurement.lags.is_empty() {
            export.lags.insert(measurement.id.clone(), measurement.lags.clone());
        }
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
        measurement.lags = export.lags.remove(&measurement.id).unwrap_or_default();
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

fn lags_path(folder: &Path, measurement: &str) -> PathBuf {
    folder.join("lags").join(format!("{measurement}.csv"))
}

fn histogram_path(folder: &Path, measurement: &str, operation: &str) -> PathBuf {
    folder.join("histograms").join(format!("{measurement}.{operation}.hdr"))
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
    use crate::record::{Measurement, Operation, Spread};

    fn record() -> Record {
        let latency =
            Spread { min: 1, mean: 59_590.000_119_090_124, p50: 2, p90: 3, p95: 4, p99: 5, p999: 6, p9999: 7, max: 8 };
        let operation = Operation { count: 9, errors: 1, latency, service: None, histogram: "HISTFAAA".to_owned() };
        let second = Second {
            second: 3,
            operation: "read".to_owned(),
            count: 9,
            errors: 1,
            latency,
            steps: vec![(8, 2), (16, 7)],
        };
        let measurement = Measurement {
            id: "run-1.a".to_owned(),
            operations: BTreeMap::from([("read".to_owned(), operation)]),
            series: vec![second.clone(), Second { second: 4, ..second }],
            lags: [Some(7), None].map(|entries| Lag { at_ms: 50.5, node: "n1".to_owned(), entries }).into(),
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
        assert_eq!(csv.lines().nth(1), Some("3,read,9,1,1,59590.000119090124,2,3,4,5,6,7,8,8:2 16:7"));
        assert!(path.join("histograms").join("run-1.a.read.hdr").exists());

        let file = folder.path().join("export.json");
        std::fs::write(&file, export(&record()).unwrap()).unwrap();
        assert_eq!(read(&file).unwrap(), record());
    }

    #[test]
    fn records_without_what_came_later_are_still_read() {
        let mut exported: serde_json::Value = serde_json::from_str(&export(&record()).unwrap()).unwrap();
        exported.as_object_mut().unwrap().remove("lags");
        let seconds = exported["series"]["run-1.a"].as_array_mut().unwrap();
        seconds.iter_mut().for_each(|second| drop(second.as_object_mut().unwrap().remove("steps")));
        let read = import(&exported.to_string()).unwrap();
        assert!(read.measurements[0].series.iter().all(|second| second.steps.is_empty() && second.count == 9));
        assert!(read.measurements[0].lags.is_empty());
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
        std::fs::write(folder.path().join("series").join("run-1.a.csv"), format!("{}\n1,read\n", series::COLUMNS))
            .unwrap();
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
