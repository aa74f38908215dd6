//! How repeated values are spread: a dot for each, a row for each kind, a stroke at the middle one.

use super::frame::{Area, Axis, BOLD, LETTERS, draw_ticks};
use super::scale::Scale;
use super::svg::{Anchor, Svg, fit, text_width};
use super::{Figure, Key, Room, colour};
use crate::report::format;

/// One row of dots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// What the values are of.
    pub name: String,
    /// The values, in nanoseconds.
    pub values: Vec<f64>,
}

/// The middle value, or the mean of the two middle ones; none of an empty list.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Draws rows of durations; none if no row has a value.
pub fn figure(title: &str, axis: &str, rows: &[Row], caption: &str) -> Option<Figure> {
    let rows: Vec<Row> = rows.iter().filter(|row| median(&row.values).is_some()).cloned().collect();
    rows.first()?;
    let told: Vec<String> = rows
        .iter()
        .map(|row| {
            let longest = row.values.iter().copied().fold(0.0, f64::max);
            let middle = format::duration(median(&row.values).unwrap_or(0.0));
            match row.values.len() {
                1 => format!("{}: once, {middle}.", row.name),
                times => {
                    format!("{}: {times} times, median {middle}, longest {}.", row.name, format::duration(longest))
                }
            }
        })
        .collect();
    let keys = vec![
        Key { class: "dot c0".into(), text: "one time".into() },
        Key { class: "line plain".into(), text: "median (written out, with the longest)".into() },
    ];
    Some(Figure::new(title, &told.join(" "), keys, caption, |room| draw(room, axis, &rows)))
}

fn draw(room: Room, axis: &str, rows: &[Row]) -> Svg {
    let step = room.choose(38.0, 70.0);
    let longest = rows.iter().map(|row| text_width(&row.name, LETTERS)).fold(0.0, f64::max);
    let names = room.choose(longest.min(310.0) + 10.0, 4.0);
    let mut svg = Svg::new(room.width(), 46.0 + step * rows.len() as f64);
    let (left, right) = (names + 8.0, room.width() - room.choose(right_margin(rows), 14.0));
    let scale = Scale::linear(rows.iter().flat_map(|row| row.values.iter().copied()));
    let x = |value: f64| left + scale.place(value) * (right - left);
    let (top, bottom) = (4.0, svg.height() - 40.0);
    let ticks = Axis { scale, label: String::new(), format: format::duration_tick };
    draw_ticks(&mut svg, &ticks, Area { left, top, right, bottom }, room.width());
    svg.text((left, svg.height() - 6.0), Anchor::Start, "axis", &fit(axis, room.width() - left, LETTERS));
    for (index, row) in rows.iter().enumerate() {
        let begin = top + step * index as f64;
        let y = begin + room.choose(19.0, 52.0);
        svg.line((left, y), (right, y), "base");
        let middle = median(&row.values).unwrap_or(0.0);
        let summary = summary(row);
        match room {
            Room::Wide => {
                svg.text((names, y + 4.0), Anchor::End, "name", &fit(&row.name, names - 4.0, LETTERS));
                svg.text((right + 10.0, y + 4.0), Anchor::Start, "label plain", &summary);
            }
            Room::Narrow => {
                svg.text((left, begin + 18.0), Anchor::Start, "name", &fit(&row.name, right - left, LETTERS));
                svg.text((left, begin + 33.0), Anchor::Start, "label plain", &summary);
            }
        }
        for (place, value) in stacked(&row.values, x) {
            let title = format!("{}: {}", row.name, format::duration(value));
            svg.dot((x(value), y - place), 3.6, &format!("dot see {}", colour(0)), &title);
        }
        svg.line((x(middle), y - 11.0), (x(middle), y + 11.0), "line plain");
    }
    svg
}

/// Median and longest in words.
fn summary(row: &Row) -> String {
    let longest = row.values.iter().copied().fold(0.0, f64::max);
    if let [only] = row.values[..] {
        return format!("{}, once", format::duration(only));
    }
    format!("{}, longest {}", format::duration(median(&row.values).unwrap_or(0.0)), format::duration(longest))
}

/// Room for the widest summary.
fn right_margin(rows: &[Row]) -> f64 {
    rows.iter().map(|row| text_width(&summary(row), LETTERS * BOLD)).fold(20.0, f64::max) + 14.0
}

/// How far above the line each dot stands, so that dots of nearly the same value are all seen: alternately above and below.
fn stacked(values: &[f64], x: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    const PLACES: [f64; 5] = [0.0, 5.0, -5.0, 10.0, -10.0];
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let mut ends = [f64::NEG_INFINITY; PLACES.len()];
    sorted
        .into_iter()
        .map(|value| {
            let at = x(value);
            let place = ends.iter().position(|&end| end + 7.5 <= at).unwrap_or(0);
            ends[place] = at;
            (PLACES[place], value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_known() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, f64::NAN, 3.0]), Some(2.5));
    }

    #[test]
    fn equal_values_stand_over_each_other() {
        let places: Vec<f64> = stacked(&[5.0, 5.0, 5.0, 50.0], |value| value).iter().map(|place| place.0).collect();
        assert_eq!(places, [0.0, 5.0, -5.0, 0.0]);
        let rows = [Row { name: "killed".into(), values: vec![4e8, 5e8, 9e8] }];
        let html = figure("t", "silence", &rows, "").unwrap().html();
        assert!(html.contains("killed: 3 times, median 500\u{a0}ms, longest 900\u{a0}ms."), "{html}");
        assert_eq!(figure("t", "", &[], ""), None);
    }
}
