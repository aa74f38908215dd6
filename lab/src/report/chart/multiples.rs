//! Small charts side by side, all with the same axes: percentiles of the latency against what was varied.

use super::frame::{Area, Axis, Frame, LETTERS};
use super::scale::Scale;
use super::svg::{Anchor, Svg, fit, text_width};
use super::{Figure, Key, Room, colour};
use crate::report::{format, gather};

/// Height of a small chart's heading.
const HEADING: f64 = 13.0;

/// One small chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// What it is of: an operation, a side.
    pub name: String,
    /// A row for each value of the variable, in its order: the place among [`Variable::values`], and the latencies at the percentiles of
    /// [`PERCENTILES`] in nanoseconds; and whether it counts.
    pub rows: Vec<(usize, [u64; 3], bool)>,
}

/// What was varied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its values in order, as they are written.
    pub values: Vec<String>,
}

/// The percentiles that are drawn.
pub const PERCENTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// Draws the panels; none if they hold no latency.
pub fn figure(title: &str, variable: &Variable, panels: &[Panel], caption: &str) -> Option<Figure> {
    let latencies =
        || panels.iter().flat_map(|panel| panel.rows.iter().flat_map(|row| row.1)).filter(|&latency| latency > 0);
    latencies().next()?;
    let y = Axis {
        scale: Scale::logarithmic(latencies().map(|latency| latency as f64)),
        label: String::new(),
        format: format::duration_tick,
    };
    let drawn = |index: usize| panels.iter().any(|panel| panel.rows.iter().any(|row| row.1[index] > 0));
    let mut keys: Vec<Key> = PERCENTILES
        .iter()
        .enumerate()
        .filter(|(index, _)| drawn(*index))
        .map(|(index, &quantile)| Key {
            class: format!("line {}", colour(index)),
            text: format!("{} were at most so slow", format::percentile(quantile)),
        })
        .collect();
    if panels.iter().any(|panel| panel.rows.iter().any(|row| !row.2)) {
        keys.push(Key { class: "dot void".into(), text: "does not count: the generator was saturated".into() });
    }
    let told: Vec<String> = panels.iter().map(|panel| told(panel, variable)).collect();
    Some(Figure::new(title, &told.join(" "), keys, caption, |room| draw(room, variable, panels, &y)))
}

fn told(panel: &Panel, variable: &Variable) -> String {
    let ends = [panel.rows.first(), panel.rows.last()];
    let words = ends.iter().flatten().map(|row| {
        let value = variable.values.get(row.0).map_or("", String::as_str);
        format!(
            "{} {value}: {} within {}",
            variable.name,
            format::percentile(PERCENTILES[1]),
            format::duration(row.1[1] as f64)
        )
    });
    format!("{}: {}.", panel.name, words.collect::<Vec<_>>().join(", "))
}

/// The values as numbers in rising order, if all are numbers or amounts of bytes above 0 and span enough for a scale of factors.
fn numbers(variable: &Variable) -> Option<Vec<f64>> {
    let number = |value: &String| gather::size(&value.replace('\u{a0}', ""));
    let numbers: Vec<f64> = variable.values.iter().map(number).collect::<Option<_>>()?;
    let rising = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    (rising && numbers.first().is_some_and(|&least| least > 0.0 && least.is_finite()) && numbers.len() > 1)
        .then_some(numbers)
}

fn draw(room: Room, variable: &Variable, panels: &[Panel], y: &Axis) -> Svg {
    // Four stand better two by two than three and one.
    let across = room.choose(if panels.len() == 4 { 2 } else { panels.len().clamp(1, 3) }, 1);
    let down = panels.len().div_ceil(across);
    let (height, space) = (room.choose(220.0, 200.0), 18.0);
    let mut svg = Svg::new(room.width(), down as f64 * (height + space) - space);
    let width = (room.width() - 10.0 - (across - 1) as f64 * space) / across as f64;
    for (index, panel) in panels.iter().enumerate() {
        let (column, row) = (index % across, index / across);
        let left = 2.0 + column as f64 * (width + space);
        let top = row as f64 * (height + space);
        svg.text((left, top + 11.0), Anchor::Start, "heading", &fit(&panel.name, width, HEADING));
        draw_panel(
            &mut svg,
            variable,
            panel,
            Area { left, top: top + 4.0, right: left + width, bottom: top + height },
            y,
        );
    }
    svg
}

fn draw_panel(svg: &mut Svg, variable: &Variable, panel: &Panel, area: Area, y: &Axis) {
    let numbers = numbers(variable);
    let wide = numbers.as_ref().is_some_and(|numbers| numbers[numbers.len() - 1] / numbers[0] >= 8.0);
    let scale = match &numbers {
        Some(numbers) if wide => Scale::Logarithmic { low: numbers[0] / 1.25, high: numbers[numbers.len() - 1] * 1.25 },
        Some(numbers) => Scale::exact(0.0, numbers[numbers.len() - 1] * 1.06),
        None => Scale::exact(-0.5, variable.values.len() as f64 - 0.5),
    };
    // The values themselves are the ticks: what lies between them was not measured.
    let x = Axis { scale, label: variable.name.clone(), format: |_| String::new() };
    // Words that are too long to stand beside each other stand in two rows.
    let widest = variable.values.iter().map(|value| text_width(value, LETTERS)).fold(0.0, f64::max);
    let staggered =
        numbers.is_none() && widest + 4.0 > (area.right - area.left - 50.0) / variable.values.len().max(1) as f64;
    let lower = if staggered { 14.0 } else { 0.0 };
    let mut frame = Frame::draw_without_x_ticks(
        svg,
        Area { bottom: area.bottom - lower, ..area },
        &Axis { label: String::new(), ..x.clone() },
        y,
    );
    frame.inside.bottom = frame.inside.bottom.min(area.bottom);
    let place = |index: usize| frame.x(numbers.as_ref().and_then(|n| n.get(index)).copied().unwrap_or(index as f64));
    let share = (frame.inside.right - frame.inside.left) / variable.values.len().max(1) as f64;
    let mut free_from = [f64::NEG_INFINITY; 2];
    for (index, value) in variable.values.iter().enumerate() {
        let written = value.parse().map_or_else(|_| value.clone(), format::number_tick);
        let most = match numbers {
            Some(_) => 80.0,
            None if staggered => share * 2.0 - 6.0,
            None => share - 4.0,
        };
        let text = fit(&written, most.max(20.0), LETTERS);
        let half = text_width(&text, LETTERS) / 2.0;
        let (at, row) = (place(index), if staggered { index % 2 } else { 0 });
        let below = frame.inside.bottom + 16.0 + row as f64 * 14.0;
        svg.line((at, frame.inside.bottom), (at, below - 11.0), "base");
        let middle = at.min(area.right - half + 4.0).max(area.left + half);
        if middle - half > free_from[row] {
            svg.text((middle, below), Anchor::Middle, "tick", &text);
            free_from[row] = middle + half + 5.0;
        }
    }
    for (index, quantile) in PERCENTILES.iter().enumerate() {
        let points: Vec<Option<(f64, f64)>> = panel
            .rows
            .iter()
            .map(|row| (row.1[index] > 0).then(|| (place(row.0), frame.y(row.1[index] as f64))))
            .collect();
        // Values that are no numbers lie in no order that a line could follow; dots alone say what was measured.
        let class = if numbers.is_some() { colour(index) } else { format!("{} faint", colour(index)) };
        svg.polyline(&points, &format!("line {class}"));
        for (row, point) in panel.rows.iter().zip(&points) {
            if let Some(point) = point {
                let value = variable.values.get(row.0).map_or("", String::as_str);
                let title = format!(
                    "{}, {} {value}: {} within {}",
                    panel.name,
                    variable.name,
                    format::percentile(*quantile),
                    format::duration(row.1[index] as f64)
                );
                let class = if row.2 { colour(index) } else { "void".to_owned() };
                svg.dot(*point, 3.0, &format!("dot {class}"), &title);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_on_an_axis_and_words_beside_each_other() {
        let variable = |values: &[&str]| Variable {
            name: "records".into(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        };
        assert_eq!(numbers(&variable(&["1000", "10000"])), Some(vec![1e3, 1e4]));
        assert_eq!(numbers(&variable(&["16\u{a0}MiB", "1\u{a0}GiB"])), Some(vec![16_777_216.0, 1_073_741_824.0]));
        assert_eq!(numbers(&variable(&["zipfian", "uniform"])), None);
        assert_eq!(numbers(&variable(&["0", "1"])), None);
        let panel = Panel {
            name: "read".into(),
            rows: vec![(0, [1_000, 9_000, 20_000], true), (1, [2_000, 30_000, 0], false)],
        };
        let html = figure("t", &variable(&["1000", "100000"]), &[panel], "").unwrap().html();
        assert!(
            html.contains(
                "read: records 1000: 99\u{a0}% within 9.00\u{a0}µs, records 100000: 99\u{a0}% within 30.0\u{a0}µs."
            ),
            "{html}"
        );
        assert!(html.contains("dot void") && html.contains(">100k</text>"), "{html}");
        assert_eq!(figure("t", &variable(&[]), &[], ""), None);
    }
}
