//! Latency over time as shades: a column for each stretch of seconds, a row for each step of the logarithmic latency, darker where more
//! operations fell, with the median and the 99th percentile drawn over it.
//!
//! A second keeps a coarse histogram, whose steps are finer than the rows. Those of older records have none: their columns are put together
//! from percentiles, so that half of a second's operations lie between the least and the median, four tenths between the median and the 90th
//! percentile, and so on, each spread evenly over its rows.

use std::fmt::Write;

use super::frame::{Area, Axis, Frame};
use super::scale::Scale;
use super::svg::{Svg, coordinate};
use super::{Figure, Key, Room};
use crate::record::Spread;
use crate::report::format;
use crate::statistics::steps::bounds;

/// What was answered in one second, of all operations or of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Seconds since the beginning.
    pub second: f64,
    /// How many were answered.
    pub count: u64,
    /// Their latencies.
    pub latency: Spread,
    /// The same as a coarse histogram, [`crate::record::Second::steps`]; empty in older records.
    pub steps: Vec<(u16, u64)>,
}

/// How many shades there are beside none; `style.css` has as many.
const SHADES: usize = 7;

/// Draws the columns, which are in order of time; none if nothing was answered. Several columns of one second are added together.
pub fn figure(title: &str, columns: &[Column], caption: &str) -> Option<Figure> {
    let filled: Vec<Column> =
        columns.iter().filter(|column| column.count > 0 && column.latency.max > 0).cloned().collect();
    let end = filled.iter().map(|column| column.second + 1.0).fold(1.0, f64::max);
    let first = filled.first()?;
    let values = filled.iter().flat_map(|column| [column.latency.min.max(1) as f64, column.latency.max as f64]);
    let y = Axis { scale: Scale::logarithmic(values), label: "latency".into(), format: format::duration_tick };
    let x = Axis { scale: Scale::exact(0.0, end), label: "seconds".into(), format: format::number_tick };
    let keys = vec![
        Key { class: "fill h2".into(), text: "few".into() },
        Key { class: "fill h7".into(), text: "many operations".into() },
        Key { class: "line over".into(), text: "half were at most so slow".into() },
        Key { class: "line over dashed".into(), text: "99 of 100 were".into() },
    ];
    let worst = filled.iter().max_by_key(|column| column.latency.p99).unwrap_or(first);
    let description = format!(
        "Latencies over {} seconds; the worst second, {}, had its 99th percentile at {}.",
        format::number_tick(end),
        format::number_tick(worst.second),
        format::duration(worst.latency.p99 as f64)
    );
    Some(Figure::new(title, &description, keys, caption, |room| draw(room, &filled, end, &x, &y)))
}

/// Between which times how many of a second's operations lie.
fn parts(column: &Column) -> Vec<(f64, f64, f64)> {
    if !column.steps.is_empty() {
        let (least, most) = (column.latency.min.max(1) as f64, column.latency.max as f64);
        // The first and the last step reach beyond what was measured.
        let part = |&(step, count): &(u16, u64)| {
            let (from, until) = bounds(step);
            let from = from.clamp(least, most);
            (from, until.clamp(from, most), count as f64)
        };
        return column.steps.iter().map(part).collect();
    }
    let Spread { min, p50, p90, p95, p99, p999, p9999, max, .. } = column.latency;
    let shares = [
        (min, p50, 0.5),
        (p50, p90, 0.4),
        (p90, p95, 0.05),
        (p95, p99, 0.04),
        (p99, p999, 0.009),
        (p999, p9999, 0.0009),
        (p9999, max, 0.0001),
    ];
    shares.map(|(from, until, share)| (from as f64, until as f64, share * column.count as f64)).to_vec()
}

/// Operations in each cell, column by column: `steps` rows from the fastest to the slowest.
fn cells(columns: &[Column], end: f64, across: usize, steps: usize, scale: &Scale) -> Vec<Vec<f64>> {
    let mut cells = vec![vec![0.0; steps]; across];
    for column in columns {
        let at = ((column.second / end * across as f64) as usize).min(across - 1);
        for (from, until, count) in parts(column) {
            let place = |time: f64| scale.place(time).clamp(0.0, 1.0) * steps as f64;
            spread_over(&mut cells[at], place(from), place(until), count);
        }
    }
    cells
}

/// Adds `count` to the cells between two places, to each as much as it has of the way between them.
fn spread_over(cells: &mut [f64], from: f64, until: f64, count: f64) {
    let last = cells.len().saturating_sub(1);
    let (first, end) = ((from as usize).min(last), (until as usize).min(last));
    let length = until - from;
    if first >= end || length <= 0.0 {
        cells[first] += count;
        return;
    }
    for (place, cell) in cells.iter_mut().enumerate().take(end + 1).skip(first) {
        let within = (until.min(place as f64 + 1.0) - from.max(place as f64)).max(0.0);
        *cell += count * within / length;
    }
}

/// The shade of so many operations: 0 for less than a half, then evenly on a logarithmic scale up to the fullest cell.
fn shade(count: f64, fullest: f64) -> usize {
    if count < 0.5 {
        return 0;
    }
    let place = (count * 2.0).ln() / (fullest * 2.0).max(1.0 + 1e-9).ln();
    1 + ((place.clamp(0.0, 1.0) * SHADES as f64) as usize).min(SHADES - 1)
}

fn draw(room: Room, columns: &[Column], end: f64, x: &Axis, y: &Axis) -> Svg {
    let mut svg = Svg::new(room.width(), room.choose(300.0, 280.0));
    let area = Area { left: 2.0, top: 2.0, right: room.width() - 14.0, bottom: svg.height() };
    let frame = Frame::draw(&mut svg, area, x, y);
    let across = (end.ceil() as usize).clamp(1, room.choose(120, 60));
    let steps = room.choose(28, 24);
    let cells = cells(columns, end, across, steps, &y.scale);
    let fullest = cells.iter().flatten().copied().fold(0.0, f64::max);
    let inside = frame.inside;
    let (width, height) = ((inside.right - inside.left) / across as f64, (inside.bottom - inside.top) / steps as f64);
    let mut paths = vec![String::new(); SHADES + 1];
    for (at, column) in cells.iter().enumerate() {
        for (step, &count) in column.iter().enumerate() {
            let shade = shade(count, fullest);
            if shade > 0 {
                let left = inside.left + at as f64 * width;
                let top = inside.bottom - (step + 1) as f64 * height;
                let (right, bottom) = (coordinate(left + width), coordinate(top + height));
                let _ = write!(
                    paths[shade],
                    "M{} {}H{right}V{bottom}H{}z",
                    coordinate(left),
                    coordinate(top),
                    coordinate(left)
                );
            }
        }
    }
    for (shade, path) in paths.iter().enumerate() {
        svg.path(path, &format!("fill h{shade}"));
    }
    for (class, value) in
        [("line over", (|spread| spread.p50) as fn(&Spread) -> u64), ("line over dashed", |spread| spread.p99)]
    {
        // Of several operations in a second the slowest one's percentile is drawn.
        let mut points: Vec<(f64, u64)> = Vec::new();
        for column in columns {
            match points.last_mut() {
                Some(last) if last.0 == column.second => last.1 = last.1.max(value(&column.latency)),
                _ => points.push((column.second, value(&column.latency))),
            }
        }
        let mut line: Vec<Option<(f64, f64)>> = Vec::new();
        let mut before = None;
        for (second, value) in points {
            if before.is_some_and(|before| second > before + 1.5) {
                line.push(None);
            }
            line.push(Some(frame.point(second + 0.5, value as f64)));
            before = Some(second);
        }
        // A wider line in the colour of the paper below it keeps it apart from the shades.
        svg.polyline(&line, "line casing");
        svg.polyline(&line, class);
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_holds_as_many_operations_as_were_answered() {
        let latency = Spread {
            min: 1_000,
            p50: 2_000,
            p90: 5_000,
            p95: 8_000,
            p99: 9_000,
            p999: 9_500,
            p9999: 9_900,
            max: 10_000,
            mean: 0.0,
        };
        let column = |second, count| Column { second, count, latency, steps: Vec::new() };
        let columns = [column(0.0, 1_000), column(1.0, 50)];
        let scale = Scale::Logarithmic { low: 1_000.0, high: 10_000.0 };
        let cells = cells(&columns, 2.0, 2, 10, &scale);
        assert!((cells[0].iter().sum::<f64>() - 1_000.0).abs() < 1e-6);
        assert!((cells[1].iter().sum::<f64>() - 50.0).abs() < 1e-6);
        // Half of them below the median, which stands at log10(2) = 0.301 of the scale: in the first four of ten steps.
        assert!(cells[0][..3].iter().sum::<f64>() >= 370.0, "{:?}", cells[0]);
    }

    #[test]
    fn a_histogram_shows_what_percentiles_hide() {
        use crate::statistics::steps::step;
        // Two humps, at 1.2 µs and at 8.5 µs, and nothing between them.
        let latency = Spread {
            min: 1_200,
            p50: 1_200,
            p90: 8_500,
            p95: 8_500,
            p99: 8_500,
            p999: 8_500,
            p9999: 8_500,
            max: 8_500,
            mean: 0.0,
        };
        let steps = vec![(step(1_200), 600), (step(8_500), 400)];
        let column = Column { second: 0.0, count: 1_000, latency, steps };
        let scale = Scale::Logarithmic { low: 1_000.0, high: 10_000.0 };
        let with = &cells(std::slice::from_ref(&column), 1.0, 1, 10, &scale)[0];
        assert!(
            (with.iter().sum::<f64>() - 1_000.0).abs() < 1e-6 && with[2..8].iter().all(|&count| count == 0.0),
            "{with:?}"
        );
        let without = &cells(&[Column { steps: Vec::new(), ..column }], 1.0, 1, 10, &scale)[0];
        assert!(without[2..8].iter().all(|&count| count > 0.0), "{without:?}");
    }

    #[test]
    fn shades_go_from_none_to_the_fullest() {
        assert_eq!(shade(0.0, 100.0), 0);
        assert_eq!(shade(0.5, 100.0), 1);
        assert_eq!(shade(100.0, 100.0), SHADES);
        assert_eq!(figure("none", &[Column::default()], ""), None);
    }
}
