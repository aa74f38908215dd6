//! The whole report: well-formed whatever the records hold, nothing from outside in it, and the sentences of known records.

#[allow(missing_docs)]
mod samples;

use std::collections::BTreeMap;
use std::path::Path;

use lab::command::report::{ReportArguments, report};
use lab::record::*;
use lab::report::pictures::KINDS;
use lab::report::summary::{Mark as Sign, summary};
use lab::report::{RECORDS_MAX, export, render};
use quick_xml::Reader;
use quick_xml::events::Event as Xml;

/// Reads the page as XML, to its end, and gives how often each element occurs. Panics where it is not well-formed, or a number is none.
fn elements(html: &str) -> BTreeMap<String, u32> {
    let mut reader = Reader::from_str(html);
    reader.config_mut().check_end_names = true;
    let mut found = BTreeMap::new();
    let mut depth = 0;
    loop {
        let event = reader.read_event().unwrap_or_else(|error| panic!("{error} at byte {}", reader.buffer_position()));
        match &event {
            Xml::Start(start) | Xml::Empty(start) => {
                *found.entry(String::from_utf8(start.name().as_ref().to_vec()).unwrap()).or_default() += 1;
                for attribute in start.attributes() {
                    let attribute = attribute.unwrap();
                    let value = attribute.unescape_value().unwrap();
                    if matches!(
                        attribute.key.as_ref(),
                        b"x" | b"y" | b"x1" | b"x2" | b"y1" | b"y2" | b"cx" | b"cy" | b"r" | b"d"
                    ) {
                        assert!(!value.contains("NaN") && !value.contains("inf"), "{value}");
                    }
                }
                depth += i32::from(matches!(event, Xml::Start(_)));
            }
            Xml::End(_) => depth -= 1,
            Xml::Text(text) => drop(text.decode().unwrap()),
            Xml::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0, "every element is closed");
    found
}

#[test]
fn every_sample_is_well_formed_and_needs_nothing_else() {
    for (name, records) in samples::all() {
        let html = render(&records);
        let found = elements(&html);
        let outside = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("http://") && !outside.contains("https://") && !outside.contains("url("), "{name}");
        for element in ["script", "link", "img", "iframe"] {
            assert_eq!(found.get(element), None, "{name} needs no {element}");
        }
        assert!(html.len() < 1 << 20, "{name}: {} bytes", html.len());
    }
}

#[test]
fn every_kind_of_picture_is_drawn_by_a_sample_that_holds_it() {
    let expected: [(&str, Record, &[&str]); 6] = [
        ("quick", samples::quick(), &["curves", "heat"]),
        ("failover", samples::failover(), &["timeline", "lags", "silences", "multiples", "curves"]),
        ("compare", samples::compare(), &["ratios", "curves"]),
        ("sweep", samples::sweep(), &["multiples", "curves"]),
        ("scaling", samples::scaling(), &["scaling", "multiples", "curves"]),
        ("violation", samples::violation(), &["history", "curves"]),
    ];
    for (name, record, kinds) in expected {
        let drawn: Vec<&str> = KINDS.iter().filter(|kind| (kind.fits)(&record)).map(|kind| kind.name).collect();
        assert_eq!(drawn, kinds, "{name}");
        for kind in KINDS.iter().filter(|kind| kinds.contains(&kind.name)) {
            assert!(!(kind.draw)(&record).is_empty(), "{name}: {}", kind.name);
        }
    }
}

#[test]
fn the_first_page_says_what_the_records_hold() {
    let plain = |text: &str| text.replace(['\u{a0}', '\u{202f}'], " ");
    let told = summary(&[samples::failover()]);
    assert_eq!(told.mark, Sign::Holds);
    assert_eq!(plain(&told.line), "All 3 promises held, as far as the clients’ history was checked.");
    assert!(
        plain(&told.sentences[1]).starts_with("The leader was paused 5 times: the longest silence was 1."),
        "{told:?}"
    );
    assert_eq!(
        plain(&told.sentences[2]),
        "No broken promise was found in the 184 022 operations on 1 000 keys that were checked."
    );
    let told = summary(&[samples::violation()]);
    assert_eq!(told.mark, Sign::Broken);
    assert_eq!(
        told.line,
        "A promise was broken: it is not true that every read sees the last acknowledged write of its key."
    );
    let failed = "5 of 52 106 operations ended with an error or without an answer.";
    assert_eq!(plain(&told.sentences[1]), failed);
    let mut quick = samples::quick();
    let operations = &mut quick.measurements[0].operations;
    operations.remove("update");
    operations.get_mut("read").unwrap().latency.p99 = 6_100_000;
    let told = summary(&[quick]);
    assert_eq!(told.mark, Sign::Measured);
    assert_eq!(
        plain(&told.sentences[0]),
        "64 clients were served 4 996 operations a second (5 000 were asked for); 99 of 100 answers came within 6.10 ms."
    );
    let told = summary(&[samples::compare()]);
    assert!(plain(&told.warning).starts_with("3 of 18 measurements are struck out"), "{told:?}");
    assert_eq!(summary(&[]).mark, Sign::Nothing);
}

const HOSTILE: &str = "</style></svg><script>alert(1)</script><img src=x onerror='a'>\"'&\u{0}\u{202e}]]>";

/// Makes every text of a record hostile: values and names.
fn poisoned(value: serde_json::Value, key: &str) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(_) if key == "arrivals" => value,
        Value::String(text) if key == "side" || key == "id" => Value::String(format!("{text}{HOSTILE}")),
        Value::String(_) => Value::String(HOSTILE.to_owned()),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| poisoned(item, key)).collect()),
        Value::Object(fields) => {
            let map = matches!(key, "operations" | "variables" | "versions" | "errors" | "counters");
            let named = |name: String| if map { format!("{name}{HOSTILE}") } else { name };
            Value::Object(
                fields.into_iter().map(|(name, value)| (named(name.clone()), poisoned(value, &name))).collect(),
            )
        }
        other => other,
    }
}

#[test]
fn no_text_of_a_record_becomes_markup() {
    for (name, records) in samples::all() {
        let mut hostile: Vec<Record> = records
            .iter()
            .map(|record| serde_json::from_value(poisoned(serde_json::to_value(record).unwrap(), "")).unwrap())
            .collect();
        for (to, from) in hostile.iter_mut().zip(&records) {
            for (to, from) in to.measurements.iter_mut().zip(&from.measurements) {
                to.series = from.series.clone();
                to.series.iter_mut().for_each(|second| second.operation.push_str(HOSTILE));
                to.operations.values_mut().for_each(|operation| operation.histogram = HOSTILE.to_owned());
            }
        }
        let html = render(&hostile);
        let found = elements(&html);
        assert_eq!((found.get("script"), found.get("img")), (None, None), "{name}");
        assert_eq!(found["style"], 1, "{name}");
        assert!(!html.contains('\u{202e}') && !html.contains('\0'), "{name}");
        if records.iter().any(|record| !record.title.is_empty()) {
            assert!(html.contains("&lt;script&gt;alert(1)"), "{name}: the text itself is shown");
        }
    }
}

/// A small record that holds a little of everything.
fn little() -> Record {
    let (mut record, quick, violation) = (samples::failover(), samples::quick(), samples::violation());
    record.measurements.truncate(6);
    record.measurements.drain(1..4);
    for measurement in &mut record.measurements {
        measurement.series.truncate(12);
        measurement.counters = quick.measurements[0].counters.clone();
    }
    record.measurements[1].side = "redis".into();
    record.measurements[2].marks.clear();
    record.sides = samples::compare().sides;
    record.fits = samples::scaling().fits.split_off(1);
    record.verdict = violation.verdict;
    record.notes = quick.notes;
    record
}

#[test]
fn whatever_is_missing_the_rest_is_shown() {
    type Part = fn(&mut Record);
    let parts: [Part; 11] = [
        |r| r.title.clear(),
        |r| r.sides.clear(),
        |r| r.fits.clear(),
        |r| r.verdict = None,
        |r| r.measurements.iter_mut().for_each(|m| m.series.clear()),
        |r| r.measurements.iter_mut().for_each(|m| m.operations.clear()),
        |r| r.measurements.iter_mut().for_each(|m| m.marks.clear()),
        |r| r.measurements.iter_mut().for_each(|m| m.gaps.clear()),
        |r| r.measurements.iter_mut().for_each(|m| m.variables.clear()),
        |r| r.measurements.iter_mut().for_each(|m| m.operations.values_mut().for_each(|o| o.histogram.clear())),
        |r| r.environment = Environment::default(),
    ];
    let whole = little();
    // All pairs of what may be missing; and of larger subsets every fifth: all of them take two minutes.
    for mask in (0..1u32 << parts.len()).filter(|mask| mask.count_ones() <= 2 || mask % 5 == 0) {
        let mut record = whole.clone();
        for (index, part) in parts.iter().enumerate().filter(|(index, _)| mask >> index & 1 == 1) {
            part(&mut record);
            // One measurement only, and none at all, with every second and third subset.
            if index == 4 && mask % 3 == 0 {
                record.measurements.truncate(1);
            } else if index == 4 && mask % 5 == 0 {
                record.measurements.clear();
            }
        }
        let html = render(&[record]);
        // Reading takes long, too: every seventh, and the parts alone.
        if mask % 7 == 0 || mask.count_ones() <= 1 {
            elements(&html);
        }
        assert!(!html.contains("NaN") && html.ends_with("</html>\n"), "{mask:b}");
    }
}

#[test]
fn odd_numbers_do_no_harm() {
    let little = little();
    for (float, whole) in
        [(f64::NAN, 0), (f64::INFINITY, u64::MAX), (f64::NEG_INFINITY, 1), (-1.0, u64::MAX / 2), (1e308, 3), (0.0, 0)]
    {
        let mut record = little.clone();
        let spread = Spread {
            min: whole,
            mean: float,
            p50: whole,
            p90: whole,
            p95: 1,
            p99: whole,
            p999: whole,
            p9999: whole,
            max: whole,
        };
        let limits = Limits { value: float, low: float, high: float };
        record.started_ms = whole;
        record.environment =
            Environment { memory_bytes: whole, fsync_p50: whole, idle: float, stolen: float, ..record.environment };
        for fit in &mut record.fits {
            fit.points.iter_mut().step_by(2).for_each(|point| *point = (float, float));
            (fit.lambda, fit.sigma, fit.kappa, fit.peak_at, fit.r_squared) =
                (limits, limits, limits, Some(float), float);
        }
        for measurement in &mut record.measurements {
            (measurement.throughput, measurement.throughput_error, measurement.rate) = (float, float, Some(float));
            measurement.seconds = float;
            measurement.generator.busy = float;
            measurement.marks.iter_mut().for_each(|mark| mark.at_ms = float);
            measurement.gaps.iter_mut().step_by(2).for_each(|gap| gap.length_ms = float);
            measurement.counters.values_mut().for_each(|value| *value = float);
            measurement.errors.values_mut().for_each(|count| *count = whole);
            for operation in measurement.operations.values_mut() {
                (operation.count, operation.errors, operation.latency, operation.service) =
                    (whole, whole, spread, Some(spread));
                operation.histogram.clear();
            }
            for second in &mut measurement.series {
                (second.count, second.errors, second.latency) = (whole, whole, spread);
            }
            measurement.series[0].second = u32::MAX;
        }
        for event in &mut record.verdict.as_mut().unwrap().offending {
            (event.from, event.until) = (whole, Some(0));
        }
        let html = render(&[record]);
        elements(&html);
        assert!(!html.contains("NaN") && html.len() < 1 << 20, "{float}: {} bytes", html.len());
    }
}

#[test]
fn a_damaged_histogram_is_not_drawn_and_not_fatal() {
    use base64::Engine;
    let whole = samples::single();
    let encoded = &whole.measurements[0].operations["set"].histogram;
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x5a;
        let mut record = whole.clone();
        let operation = record.measurements[0].operations.get_mut("set").unwrap();
        operation.histogram = base64::engine::general_purpose::STANDARD.encode(&damaged);
        assert!(render(&[record]).contains("class=\"line c0\""), "the percentiles are drawn instead");
    }
}

#[test]
fn too_many_records_are_cut_and_the_page_says_so() {
    let html = render(&vec![Record::default(); RECORDS_MAX + 1]);
    assert!(html.contains("100 of 101 records are shown"));
    assert_eq!(elements(&html)["section"], RECORDS_MAX as u32);
}

#[test]
fn the_copy_holds_series_and_histograms() {
    let records = [samples::quick(), samples::violation()];
    let copy: serde_json::Value = serde_json::from_str(&export::export(&records).unwrap()).unwrap();
    assert_eq!(copy["format"], FORMAT);
    let mut back: Vec<Record> = serde_json::from_value(copy["records"].clone()).unwrap();
    for (record, written) in back.iter_mut().zip(copy["records"].as_array().unwrap()) {
        for (measurement, written) in record.measurements.iter_mut().zip(written["measurements"].as_array().unwrap()) {
            measurement.series =
                serde_json::from_value(written.get("series").cloned().unwrap_or_else(|| "[]".parse().unwrap()))
                    .unwrap();
            for (name, operation) in &mut measurement.operations {
                operation.histogram = written["operations"][name]["histogram"].as_str().unwrap().to_owned();
            }
        }
    }
    assert!(back == records, "what was written is read back");
}

#[test]
fn the_command_writes_what_was_asked_for_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let read = |path: &Path| {
        if path.ends_with("good") { Ok(samples::single()) } else { Err("there is no record.json".to_owned()) }
    };
    let mut arguments = ReportArguments {
        runs: vec!["good".into()],
        output: folder.path().join("out.html"),
        json: Some(folder.path().join("out.json")),
    };
    let told = report(&arguments, read).unwrap();
    assert_eq!(told.lines().count(), 2);
    assert_eq!(std::fs::read_to_string(&arguments.output).unwrap(), render(&[samples::single()]));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");

    arguments.runs.push("bad".into());
    assert_eq!(report(&arguments, read).unwrap_err(), "cannot read the run in bad: there is no record.json");
    arguments.runs.pop();
    arguments.output = folder.path().join("no/such/folder.html");
    assert!(report(&arguments, read).unwrap_err().contains("give another file with -o"));
}
