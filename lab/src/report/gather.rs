//! Puts a record's measurements together for people: repeats of the same setting in one group, a name for each that says only what
//! differs, and the points of its latency curve.

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram;

use super::chart::dots::median;
use super::{format, raw};
use crate::record::{Arrivals, Measurement, Operation, Record, Spread};

/// Points of a curve between its percentiles.
const STEPS: u32 = 96;

/// Measurements of the same setting: one, or its repeats.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// What differs from the other groups of the record, for people.
    pub label: String,
    /// Its setting without its side: equal in groups that may be compared.
    pub setting: String,
    /// [`crate::record::Side::id`].
    pub side: &'a str,
    /// In the order in which they were measured; at least one.
    pub members: Vec<&'a Measurement>,
}

impl Group<'_> {
    /// Why its figures do not count, if the generator was saturated in one of its measurements.
    pub fn void(&self) -> Option<String> {
        self.members.iter().find_map(|measurement| void(measurement))
    }

    /// The value of a variable here.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.members.first()?.variables.get(name).map(String::as_str)
    }
}

/// Why the figures of a measurement do not count, if they do not.
pub fn void(measurement: &Measurement) -> Option<String> {
    let generator = &measurement.generator;
    let reason = if generator.reason.is_empty() { "the load generator was saturated" } else { &generator.reason };
    generator.saturated.then(|| reason.to_owned())
}

/// How the texts of errors begin that count for operations which were due and never sent: no operation's own errors hold them.
const NEVER_SENT: &str = "never sent";

/// Operations that ended with an error or without an answer, or were never sent. The texts of errors are more: of an operation of several
/// commands each counts, and so do attempts to connect.
pub fn failed(measurement: &Measurement) -> u64 {
    let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
    let own = sum(&mut measurement.operations.values().map(|operation| operation.errors));
    let unsent = measurement.errors.iter().filter(|(text, _)| text.starts_with(NEVER_SENT));
    own.saturating_add(sum(&mut unsent.map(|(_, count)| *count)))
}

/// Whether a variable only numbers repeats.
pub fn is_repeat(variable: &str) -> bool {
    matches!(variable, "repeat" | "repetition" | "round" | "trial")
}

/// The name of a side for people.
pub fn side_name<'a>(record: &'a Record, id: &'a str) -> &'a str {
    record.sides.iter().find(|side| side.id == id && !side.name.is_empty()).map_or(id, |side| &side.name)
}

/// Names measurements by what differs among them.
pub struct Names<'a> {
    record: &'a Record,
    sides: bool,
    workloads: bool,
    clients: bool,
    rates: bool,
    variables: BTreeSet<&'a str>,
    /// The value of each variable that most measurements have, if few differ from it in few of many variables.
    usual: BTreeMap<&'a str, &'a str>,
}

/// Fewest variables of which those are left out of a name that have their usual value.
const USUAL_VARIABLES_MIN: usize = 3;
/// Most variables in which a measurement differs from the usual values.
const UNUSUAL_MAX: usize = 2;
/// What a measurement is called that has all the usual values.
const BASE: &str = "base";

/// The usual values of variables: those that one measurement has together, and from which each other differs in at most [`UNUSUAL_MAX`].
/// None of a few variables, and none where everything was measured with everything.
fn usual<'a>(measurements: &'a [Measurement], variables: &BTreeSet<&'a str>) -> BTreeMap<&'a str, &'a str> {
    let names: Vec<&str> = variables.iter().copied().filter(|name| !is_repeat(name)).collect();
    let value = |of: &'a Measurement, name: &str| of.variables.get(name).map_or("", String::as_str);
    let most = |name: &&'a str| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        measurements.iter().for_each(|of| *counts.entry(value(of, name)).or_default() += 1);
        (*name, counts.into_iter().max_by_key(|(_, count)| *count).map_or("", |(value, _)| value))
    };
    let usual: BTreeMap<&str, &str> = names.iter().map(most).collect();
    let unusual = |of: &'a Measurement| usual.iter().filter(|(name, usual)| value(of, name) != **usual).count();
    let fits = names.len() >= USUAL_VARIABLES_MIN
        && measurements.iter().any(|of| unusual(of) == 0)
        && measurements.iter().all(|of| unusual(of) <= UNUSUAL_MAX);
    if fits { usual } else { BTreeMap::new() }
}

impl<'a> Names<'a> {
    /// Finds out what differs.
    pub fn new(record: &'a Record) -> Names<'a> {
        let measurements = &record.measurements;
        let differs =
            |key: &dyn Fn(&'a Measurement) -> String| measurements.iter().map(key).collect::<BTreeSet<_>>().len() > 1;
        let names: BTreeSet<&str> = measurements.iter().flat_map(|m| m.variables.keys()).map(String::as_str).collect();
        let variables: BTreeSet<&str> = names
            .into_iter()
            .filter(|name| differs(&|m| m.variables.get(*name).cloned().unwrap_or_default()))
            .collect();
        Names {
            record,
            sides: differs(&|m| m.side.clone()),
            workloads: differs(&|m| m.workload.clone()),
            clients: differs(&|m| m.clients.to_string()) && !variables.contains("clients"),
            rates: differs(&|m| rate(m)) && !variables.contains("rate"),
            usual: usual(measurements, &variables),
            variables,
        }
    }

    /// What differs here, with the number of the repeat or without; the workload if nothing does.
    pub fn of(&self, measurement: &Measurement, repeats: bool) -> String {
        let mut parts = Vec::new();
        if self.sides {
            parts.push(side_name(self.record, &measurement.side).to_owned());
        }
        let is_base = !self.usual.is_empty()
            && self.usual.iter().all(|(name, usual)| measurement.variables.get(*name).is_some_and(|it| it == usual));
        parts.extend(is_base.then(|| BASE.to_owned()));
        parts.extend(self.setting(measurement, repeats));
        parts.retain(|part| !part.is_empty());
        if parts.is_empty() { named(measurement) } else { parts.join(" · ") }
    }

    /// What the names leave out, in a sentence; nothing if they say all that differs.
    pub fn explained(&self) -> String {
        let words: Vec<String> =
            self.usual.iter().map(|(name, value)| format!("{name} {}", value_word(value))).collect();
        if words.is_empty() {
            return String::new();
        }
        format!("“{BASE}” is {}; the others are called by what differs from it.", words.join(", "))
    }

    fn setting(&self, measurement: &Measurement, repeats: bool) -> Vec<String> {
        let mut parts = Vec::new();
        if self.workloads {
            parts.push(measurement.workload.clone());
        }
        for (name, value) in &measurement.variables {
            let usual = self.usual.get(name.as_str()).is_some_and(|usual| usual == value);
            if self.variables.contains(name.as_str()) && !usual && (repeats || !is_repeat(name)) {
                parts.push(setting_word(name, value));
            }
        }
        if self.clients {
            parts.push(format!("{} clients", format::count(u64::from(measurement.clients))));
        }
        if self.rates {
            parts.push(rate(measurement));
        }
        parts
    }
}

/// All of a measurement's variables with their values, repeats last: `fields = 50, memory-quota = 64 MiB, repeat 2`.
#[must_use]
pub fn settings(variables: &BTreeMap<String, String>) -> String {
    let (repeats, others): (Vec<_>, Vec<_>) = variables.iter().partition(|(name, _)| is_repeat(name));
    let others = others.into_iter().map(|(name, value)| format!("{name} = {}", spaced(value)));
    others.chain(repeats.into_iter().map(|(name, value)| format!("{name} {value}"))).collect::<Vec<_>>().join(", ")
}

/// What a note calls a measurement: its settings, and its id where it has none.
#[must_use]
pub fn note_name(measurement: &Measurement) -> String {
    let settings = settings(&measurement.variables);
    if settings.is_empty() { measurement.id.clone() } else { settings }
}

/// A size with a space before its unit, `64 MiB`; anything else as it is.
pub(super) fn spaced(value: &str) -> String {
    let unit = value.trim_start_matches(|letter: char| letter.is_ascii_digit());
    match unit {
        "B" | "KiB" | "MiB" | "GiB" | "TiB" if unit.len() < value.len() => {
            format!("{}\u{a0}{unit}", &value[..value.len() - unit.len()])
        }
        _ => value.to_owned(),
    }
}

/// A value as people write it: `2 000`, `64 MiB`.
pub(super) fn value_word(value: &str) -> String {
    value.parse::<u64>().map_or_else(|_| spaced(value), format::count)
}

/// A value's size, if it is a number or an amount of bytes.
pub(super) fn size(value: &str) -> Option<f64> {
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &value[digits.len()..] {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|size| size * unit)
}

/// A value with its variable's name; the value alone where it says what it is of: `records 1 000`, but `zipfian`.
fn setting_word(name: &str, value: &str) -> String {
    let says_nothing =
        matches!(value, "" | "on" | "off" | "yes" | "no" | "true" | "false" | "none" | "all" | "default");
    match value.parse::<u64>() {
        Ok(number) => format!("{name} {}", format::count(number)),
        Err(_) if says_nothing || value.parse::<f64>().is_ok() => format!("{name} {value}"),
        // A size says of what it is no more than a number does.
        Err(_) if spaced(value) != value => format!("{name} {}", spaced(value)),
        Err(_) => value.to_owned(),
    }
}

fn named(measurement: &Measurement) -> String {
    let names = [&measurement.workload, &measurement.id, &measurement.side];
    names.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_else(|| "unnamed".to_owned())
}

/// How operations were started, in words.
pub fn rate(measurement: &Measurement) -> String {
    match (measurement.arrivals, measurement.rate) {
        (Arrivals::Closed, _) => "closed loop".to_owned(),
        (_, Some(rate)) => format!("{}/s", format::number(rate)),
        (_, None) => "open loop".to_owned(),
    }
}

/// The measurements of a record in groups, in the order in which each was first measured.
pub fn groups(record: &Record) -> Vec<Group<'_>> {
    let names = Names::new(record);
    let mut groups: Vec<Group> = Vec::new();
    let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
    for measurement in &record.measurements {
        let setting = names.setting(measurement, false).join(" · ");
        let place = *places.entry((measurement.side.clone(), setting.clone())).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.members.push(measurement),
            None => groups.push(Group {
                label: names.of(measurement, false),
                setting,
                side: &measurement.side,
                members: vec![measurement],
            }),
        }
    }
    groups
}

/// The names of the operations, the most frequent first.
pub fn operations(record: &Record) -> Vec<&str> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, operation) in record.measurements.iter().flat_map(|measurement| &measurement.operations) {
        let count = counts.entry(name).or_default();
        *count = count.saturating_add(operation.count);
    }
    let mut names: Vec<(&str, u64)> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    names.into_iter().map(|(name, _)| name).collect()
}

/// One operation of a group's measurements.
pub fn of_operation<'a>(group: &Group<'a>, name: &str) -> Vec<&'a Operation> {
    group.members.iter().filter_map(|m| m.operations.get(name)).filter(|operation| operation.count > 0).collect()
}

/// The points of the latency curve of some measurements of the same operation: from their raw histograms, if all have one, otherwise from
/// the middle ones of their percentiles. Share (0 to 1) and nanoseconds, in order of the share.
pub fn latency_points(operations: &[&Operation]) -> Vec<(f64, f64)> {
    let histograms: Option<Vec<Histogram<u64>>> =
        operations.iter().map(|operation| raw::histogram(&operation.histogram)).collect();
    let merged = histograms.filter(|histograms| !histograms.is_empty()).and_then(|histograms| {
        let mut all = Histogram::<u64>::new(3).ok()?;
        histograms.iter().try_for_each(|histogram| all.add(histogram).ok())?;
        Some(all)
    });
    match merged {
        Some(histogram) => histogram_points(&histogram),
        None => spread_points(operations, |operation| Some(&operation.latency)),
    }
}

fn histogram_points(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let nines = (histogram.len() as f64).log10().clamp(1.0, 6.0);
    let mut shares: Vec<f64> =
        (0..=STEPS).map(|step| 1.0 - 10f64.powf(-nines * f64::from(step) / f64::from(STEPS))).collect();
    let last = shares.last().copied().unwrap_or(0.0);
    shares.extend([0.5, 0.9, 0.99, 0.999, 0.9999].into_iter().filter(|&share| share < last));
    shares.sort_by(f64::total_cmp);
    shares.dedup_by(|a, b| (*a - *b).abs() < 1e-7);
    // One pass: the shares are in order, and a pass for each reads most of tens of thousands of buckets.
    let values = histogram.value_at_quantiles(shares.iter().copied());
    let mut points: Vec<(f64, f64)> =
        shares.iter().zip(values).map(|(&share, value)| (share, value.max(1) as f64)).collect();
    if let Some(last) = points.last_mut() {
        last.1 = histogram.max().max(1) as f64;
    }
    points
}

/// The points of the service time, where it was measured by a generator with a schedule, so that it may be another one than the latency.
pub fn service_points(members: &[&Measurement], operation: &str) -> Vec<(f64, f64)> {
    let open = members.iter().filter(|measurement| measurement.arrivals != Arrivals::Closed);
    let operations: Vec<&Operation> =
        open.filter_map(|m| m.operations.get(operation)).filter(|o| o.count > 0 && o.service.is_some()).collect();
    spread_points(&operations, |operation| operation.service.as_ref())
}

/// One of the percentiles.
type Percentile = fn(&Spread) -> u64;

/// Points from percentiles, as far as there were enough operations for each: a 99.9th percentile of 500 operations is their greatest.
fn spread_points(operations: &[&Operation], of: impl Fn(&Operation) -> Option<&Spread>) -> Vec<(f64, f64)> {
    let count = operations.iter().map(|operation| operation.count).fold(0, u64::saturating_add);
    let percentiles: [(f64, u64, Percentile); 7] = [
        (0.0, 1, |spread| spread.min),
        (0.5, 2, |spread| spread.p50),
        (0.9, 10, |spread| spread.p90),
        (0.95, 20, |spread| spread.p95),
        (0.99, 100, |spread| spread.p99),
        (0.999, 1_000, |spread| spread.p999),
        (0.9999, 10_000, |spread| spread.p9999),
    ];
    let middle = |value: &dyn Fn(&Spread) -> u64| {
        let values: Vec<f64> =
            operations.iter().filter_map(|operation| of(operation)).map(|s| value(s) as f64).collect();
        median(&values).map(|value| value.max(1.0))
    };
    let mut points: Vec<(f64, f64)> = percentiles
        .iter()
        .filter(|(_, enough, _)| count >= *enough)
        .filter_map(|(share, _, value)| Some((*share, middle(value)?)))
        .collect();
    let last = 1.0 - 1.0 / (count.max(2) as f64);
    if points.last().is_some_and(|point| point.0 < last)
        && let Some(greatest) = middle(&|spread| spread.max)
    {
        points.push((last, greatest));
    }
    points
}

/// At most so many of a list, evenly chosen, with the first and the last.
pub fn chosen<T: Clone>(all: &[T], most: usize) -> Vec<T> {
    if all.len() <= most {
        return all.to_vec();
    }
    (0..most).map(|index| all[index * (all.len() - 1) / (most - 1).max(1)].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(side: &str, variables: &[(&str, &str)]) -> Measurement {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Measurement { side: side.into(), workload: "ycsb-a".into(), variables, ..Measurement::default() }
    }

    #[test]
    fn names_say_only_what_differs_and_repeats_are_grouped() {
        let record = Record {
            measurements: vec![
                measurement("dictum", &[("records", "100000"), ("mix", "a"), ("repeat", "1")]),
                measurement("dictum", &[("records", "100000"), ("mix", "a"), ("repeat", "2")]),
                measurement("redis", &[("records", "100000"), ("mix", "a"), ("repeat", "1")]),
                measurement("redis", &[("records", "1000"), ("mix", "a"), ("repeat", "1")]),
            ],
            ..Record::default()
        };
        let groups = groups(&record);
        let labels: Vec<String> = groups.iter().map(|group| group.label.replace(format::THIN, " ")).collect();
        assert_eq!(labels, ["dictum · records 100 000", "redis · records 100 000", "redis · records 1 000"]);
        assert_eq!(groups[0].members.len(), 2);
        assert_eq!(groups[0].setting, groups[1].setting);
        let one = Record { measurements: vec![measurement("dictum", &[])], ..Record::default() };
        assert_eq!(super::groups(&one)[0].label, "ycsb-a");
    }

    #[test]
    fn where_one_thing_at_a_time_was_changed_names_say_what() {
        let point = |records: &str, fields: &str, mix: &str| {
            measurement("dictum", &[("records", records), ("fields", fields), ("mix", mix)])
        };
        let mut record = Record {
            measurements: vec![
                point("200", "10", "read=50"),
                point("2000", "10", "read=50"),
                point("2000", "1", "read=50"),
                point("2000", "10", "read=95"),
            ],
            ..Record::default()
        };
        let labels = |record: &Record| -> Vec<String> {
            groups(record).iter().map(|group| group.label.replace(format::THIN, " ")).collect()
        };
        assert_eq!(labels(&record), ["records 200", "base", "fields 1", "read=95"]);
        assert_eq!(
            Names::new(&record).explained().replace(format::THIN, " "),
            "“base” is fields 10, mix read=50, records 2 000; the others are called by what differs from it."
        );
        record.measurements.push(point("200", "1", "read=95"));
        assert_eq!(labels(&record)[1], "fields 10 · read=50 · records 2 000", "everything with everything");
        assert_eq!(Names::new(&record).explained(), "");
    }

    #[test]
    fn amounts_of_bytes_have_a_size() {
        assert_eq!(
            ["20", "1KiB", "2MiB", "read=5", "B"].map(size),
            [Some(20.0), Some(1024.0), Some(2_097_152.0), None, None]
        );
        assert_eq!(
            ["64MiB", "2000", "uniform"].map(|it| value_word(it).replace(['\u{a0}', format::THIN], " ")),
            ["64 MiB", "2 000", "uniform"]
        );
    }

    #[test]
    fn notes_name_measurements_by_their_variables() {
        let point =
            measurement("dictum", &[("memory-quota", "64MiB"), ("fields", "500"), ("repeat", "2"), ("mix", "a=1")]);
        assert_eq!(
            note_name(&point).replace('\u{a0}', " "),
            "fields = 500, memory-quota = 64 MiB, mix = a=1, repeat 2"
        );
        assert_eq!(setting_word("memory-quota", "16MiB").replace('\u{a0}', " "), "memory-quota 16 MiB");
        assert_eq!(note_name(&Measurement { id: "ycsb-a".into(), ..Measurement::default() }), "ycsb-a");
    }

    #[test]
    fn a_curve_comes_from_the_histogram_and_otherwise_from_percentiles() {
        use base64::Engine;
        use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        (1..=1_000u64).for_each(|value| histogram.record(value * 1_000).unwrap());
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
        let latency = Spread { min: 1, p50: 5, p90: 9, p95: 10, p99: 11, p999: 12, p9999: 13, max: 14, mean: 6.0 };
        let mut operation = Operation { count: 1_000, latency, ..Operation::default() };
        let from_spread = latency_points(&[&operation]);
        assert_eq!(from_spread, [(0.0, 1.0), (0.5, 5.0), (0.9, 9.0), (0.95, 10.0), (0.99, 11.0), (0.999, 12.0)]);
        operation.histogram = base64::engine::general_purpose::STANDARD.encode(bytes);
        let points = latency_points(&[&operation]);
        let at = |share: f64| points.iter().find(|point| (point.0 - share).abs() < 1e-9).unwrap().1;
        assert!((at(0.5) / 500_000.0 - 1.0).abs() < 0.002 && (at(0.99) / 990_000.0 - 1.0).abs() < 0.002);
        assert!((points.last().unwrap().1 / 1e6 - 1.0).abs() < 0.002);
        operation.histogram = "no histogram".into();
        assert_eq!(latency_points(&[&operation]), from_spread);
    }

    #[test]
    fn few_of_many_are_chosen_evenly() {
        assert_eq!(chosen(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 3), [0, 4, 8]);
        assert_eq!(chosen(&[0, 1], 3), [0, 1]);
    }
}
