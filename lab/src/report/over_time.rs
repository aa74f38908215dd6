//! The pictures along time: what happened second by second, and latency over time.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::Figure;
use super::chart::heat::{self, Column};
use super::chart::lag;
use super::chart::timeline::{self, Events, Tick, Track};
use super::gather::{self, Names, chosen, groups};
use super::pictures::{TIMELINES_MAX, left_out};
use super::silence;
use crate::record::{Measurement, Record};

/// Most timelines of measurements that differ in more than the number of their repeat.
const GROUPS_MAX: usize = 8;
/// Most columns of a timeline.
const COLUMNS_MAX: u32 = 600;
/// Fewest seconds that are worth a picture over time.
const SECONDS_MIN: usize = 5;

/// Whether something happened in it, and its seconds are known.
pub(super) fn has_timeline(measurement: &Measurement) -> bool {
    !measurement.marks.is_empty() && !measurement.series.is_empty()
}

fn seconds(measurement: &Measurement) -> usize {
    measurement.series.iter().map(|second| second.second).collect::<BTreeSet<_>>().len()
}

/// How many seconds are drawn as one, so that there are at most [`COLUMNS_MAX`].
fn step(measurement: &Measurement) -> u32 {
    measurement.series.iter().map(|second| second.second).max().unwrap_or(0) / COLUMNS_MAX + 1
}

/// Each operation's seconds, `step` of them as one.
fn tracks(measurement: &Measurement, step: u32) -> Vec<Track> {
    let mut tracks: BTreeMap<&str, BTreeMap<u32, Tick>> = BTreeMap::new();
    for second in &measurement.series {
        let first = second.second / step * step;
        let tick = tracks.entry(&second.operation).or_default().entry(first).or_default();
        tick.second = f64::from(first);
        tick.count = tick.count.saturating_add(second.count);
        tick.errors = tick.errors.saturating_add(second.errors);
        (tick.p50, tick.p99) = (tick.p50.max(second.latency.p50), tick.p99.max(second.latency.p99));
    }
    let mean = |tick: Tick| Tick {
        // One that was answered or failed is not drawn as none.
        count: tick.count.div_ceil(u64::from(step)),
        errors: tick.errors.div_ceil(u64::from(step)),
        ..tick
    };
    let track = |(name, ticks): (&str, BTreeMap<u32, Tick>)| Track {
        name: name.to_owned(),
        seconds: ticks.into_values().map(mean).collect(),
    };
    tracks.into_iter().map(track).collect()
}

/// Whether it has enough seconds, and nothing happened that a timeline shows better.
pub(super) fn has_heat(measurement: &Measurement) -> bool {
    measurement.marks.is_empty() && seconds(measurement) >= SECONDS_MIN && gather::void(measurement).is_none()
}

/// What happened second by second.
pub(super) fn draw_timelines(record: &Record) -> Vec<Figure> {
    let names = Names::new(record);
    let all: Vec<&Measurement> = record.measurements.iter().filter(|m| has_timeline(m)).collect();
    // Of repeats the first: one of each kind tells more than several of one.
    let groups = groups(record);
    let firsts: Vec<&Measurement> =
        groups.iter().filter_map(|group| group.members.iter().find(|m| has_timeline(m)).copied()).collect();
    let chosen = if firsts.len() > 1 { chosen(&firsts, GROUPS_MAX) } else { chosen(&all, TIMELINES_MAX) };
    let caption = left_out(chosen.len(), all.len(), "timelines");
    let last = chosen.len().saturating_sub(1);
    chosen
        .into_iter()
        .enumerate()
        .filter_map(|(index, measurement)| {
            let caption = if index == last { caption.as_str() } else { "" };
            let wordless = if measurement.marks.len() > timeline::WORDS_MAX {
                "Words stand where the longest silences began; a short stroke is another thing that happened."
            } else {
                ""
            };
            let step = step(measurement);
            let mut tracks: Vec<Track> = tracks(measurement, step);
            let operations = tracks.len();
            let count = |name: &str| measurement.operations.get(name).map_or(0, |operation| operation.count);
            tracks.sort_by_key(|track| std::cmp::Reverse(count(&track.name)));
            let left_out_operations = left_out(operations.min(timeline::LINES_MAX), operations, "operations");
            let stepped = match step {
                0 | 1 => String::new(),
                step => format!(
                    "A column is {step} seconds: the mean of what was answered, the greatest of the percentiles."
                ),
            };
            let finite = |at: f64| at.is_finite() && at >= 0.0;
            let marks = measurement.marks.iter().filter(|mark| finite(mark.at_ms)).take(silence::MARKS_MAX);
            let gaps = measurement.gaps.iter().filter(|gap| finite(gap.at_ms) && finite(gap.length_ms));
            let events = Events {
                marks: marks.map(|mark| (mark.at_ms / 1e3, mark.what.clone())).collect(),
                gaps: gaps.map(|gap| (gap.at_ms / 1e3, gap.length_ms / 1e3)).collect(),
                step,
            };
            let caption = [wordless, &stepped, &left_out_operations, caption];
            let caption: Vec<&str> = caption.into_iter().filter(|part| !part.is_empty()).collect();
            let caption = caption.join(" ");
            let title = format!("Second by second: {}", names.of(measurement, true));
            timeline::figure(&title, &tracks, &events, &caption)
        })
        .collect()
}

/// Latency over time as shades.
pub(super) fn draw_heat(record: &Record) -> Vec<Figure> {
    let names = Names::new(record);
    let all: Vec<&Measurement> = record.measurements.iter().filter(|m| has_heat(m)).collect();
    let chosen = chosen(&all, TIMELINES_MAX);
    let from_percentiles = "Its seconds have no histograms and are put together from their percentiles.";
    let last = chosen.len().saturating_sub(1);
    let rest = left_out(chosen.len(), all.len(), "measurements");
    chosen
        .into_iter()
        .enumerate()
        .filter_map(|(index, measurement)| {
            let without = measurement.series.iter().any(|second| second.count > 0 && second.steps.is_empty());
            let caption = if without { from_percentiles } else { "" };
            let caption = if index == last { format!("{caption} {rest}") } else { caption.to_owned() };
            let mut columns: Vec<Column> = measurement
                .series
                .iter()
                .map(|second| Column {
                    second: f64::from(second.second),
                    count: second.count,
                    latency: second.latency,
                    steps: second.steps.clone(),
                })
                .collect();
            columns.sort_by(|a, b| a.second.total_cmp(&b.second));
            heat::figure(&format!("Latency over time: {}", names.of(measurement, true)), &columns, caption.trim())
        })
        .collect()
}

/// Whether it was looked how far nodes were behind.
pub(super) fn has_lags(measurement: &Measurement) -> bool {
    measurement.lags.iter().any(|lag| lag.entries.is_some_and(|entries| entries > 0))
}

/// A line for each node, of at most [`COLUMNS_MAX`] looks: of those that fall together the one that was furthest behind.
fn lag_lines(measurement: &Measurement) -> Vec<lag::Line> {
    let looks = || measurement.lags.iter().filter(|look| look.at_ms.is_finite() && look.at_ms >= 0.0);
    let end = looks().map(|look| look.at_ms).fold(0.0, f64::max);
    let width = (end / f64::from(COLUMNS_MAX)).max(1e-3);
    let mut nodes: BTreeMap<&str, BTreeMap<u64, (f64, Option<u64>)>> = BTreeMap::new();
    for look in looks() {
        let seen = (look.at_ms / 1e3, look.entries);
        let kept = nodes.entry(&look.node).or_default().entry((look.at_ms / width) as u64).or_insert(seen);
        if seen.1 > kept.1 {
            *kept = seen;
        }
    }
    let line = |(node, looks): (&str, BTreeMap<u64, (f64, Option<u64>)>)| lag::Line {
        node: node.to_owned(),
        looks: looks.into_values().collect(),
    };
    nodes.into_iter().map(line).collect()
}

/// How far nodes were behind; of each setting the first measurement.
pub(super) fn draw_lags(record: &Record) -> Vec<Figure> {
    let names = Names::new(record);
    let groups = groups(record);
    let firsts: Vec<&Measurement> =
        groups.iter().filter_map(|group| group.members.iter().find(|m| has_lags(m)).copied()).collect();
    let chosen = chosen(&firsts, GROUPS_MAX);
    let last = chosen.len().saturating_sub(1);
    let explained = "Entries that another node had applied and this one had not, looked at twenty times a second. Where a line is broken the node \
                     did not answer.";
    let draw = |(index, measurement): (usize, &Measurement)| {
        let lines = lag_lines(measurement);
        let marks = measurement.marks.iter().filter(|mark| mark.at_ms.is_finite() && mark.at_ms >= 0.0);
        let marks: Vec<(f64, String)> =
            marks.take(silence::MARKS_MAX).map(|mark| (mark.at_ms / 1e3, mark.what.clone())).collect();
        let caption = if index == last { explained } else { "" };
        lag::figure(&format!("How far nodes were behind: {}", names.of(measurement, true)), &lines, &marks, caption)
    };
    chosen.into_iter().enumerate().filter_map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Lag, Second, Spread};

    #[test]
    fn many_looks_become_few_and_the_worst_stay() {
        let lag = |at: u32| Lag {
            at_ms: f64::from(at) * 50.0,
            node: "n1".to_owned(),
            entries: (!(500..600).contains(&at)).then_some(if at == 10_001 { 7_000 } else { 1 }),
        };
        let measurement = Measurement { lags: (0..36_000).map(lag).collect(), ..Measurement::default() };
        let lines = lag_lines(&measurement);
        let looks = &lines[0].looks;
        assert!(lines.len() == 1 && looks.len() <= COLUMNS_MAX as usize + 1, "{}", looks.len());
        assert_eq!(looks.iter().filter_map(|look| look.1).max(), Some(7_000));
        assert!(looks.iter().any(|look| look.1.is_none()), "a stretch without answers stays one");
    }

    #[test]
    fn long_measurements_are_drawn_in_few_columns() {
        let second = |second: u32| Second {
            second,
            operation: "read".to_owned(),
            count: if second == 3_599 { 0 } else { 100 },
            latency: Spread { p99: u64::from(second) + 1, ..Spread::default() },
            ..Second::default()
        };
        let measurement =
            |length: u32| Measurement { series: (0..length).map(second).collect(), ..Measurement::default() };
        assert_eq!((step(&measurement(60)), step(&measurement(3_600)), step(&Measurement::default())), (1, 6, 1));
        let tracks = tracks(&measurement(3_600), 6);
        let ticks = &tracks[0].seconds;
        assert_eq!((tracks.len(), ticks.len(), ticks[1].second, ticks[1].count, ticks[1].p99), (1, 600, 6.0, 100, 12));
        assert_eq!(ticks[599].count, 84, "500 in six seconds");
    }
}
