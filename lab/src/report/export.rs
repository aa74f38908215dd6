//! The machine-readable copy: the records as one JSON document, with what they keep in files of their own.
//!
//! ```text
//! {"format": 1, "records": [ Record, each measurement with
//!     "series": [Second …],
//!     and each of its operations with "histogram": "…" (HdrHistogram V2, deflated, base64; left out if there is none) ]}
//! ```

use serde_json::{Value, json};

use crate::record::{FORMAT, Record};

/// The copy of all records, indented. Fails only if a record holds a figure that JSON cannot hold.
pub fn export(records: &[Record]) -> Result<String, serde_json::Error> {
    let records: Vec<Value> = records.iter().map(whole).collect::<Result<_, _>>()?;
    serde_json::to_string_pretty(&json!({"format": FORMAT, "records": records}))
}

/// A record with its series and histograms.
fn whole(record: &Record) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(record)?;
    let written = value.get_mut("measurements").and_then(Value::as_array_mut);
    for (measurement, written) in record.measurements.iter().zip(written.into_iter().flatten()) {
        if !measurement.series.is_empty() {
            written["series"] = serde_json::to_value(&measurement.series)?;
        }
        for (name, operation) in &measurement.operations {
            if !operation.histogram.is_empty() {
                written["operations"][name]["histogram"] = Value::String(operation.histogram.clone());
            }
        }
    }
    Ok(value)
}
