//! Latency percentile curves, as HdrHistogram's plots have them: each further nine is equally long, the latency is logarithmic.
//!
//! The latency from the intended start is drawn solid, the service time dashed in the same colour: the space between them is what a
//! generator without a schedule would have hidden (coordinated omission; Gil Tene, "How NOT to Measure Latency", 2013).

use std::collections::BTreeSet;

use super::frame::{Area, Axis, BOLD, Frame, LETTERS, Label, labels};
use super::scale::Scale;
use super::svg::{Svg, text_width};
use super::{Figure, Key, Room, colour};
use crate::report::format;

/// Most pixels for labels beside the lines.
const LABELS_MAX: f64 = 260.0;

/// One distribution: points of share (0 to 1) and latency in nanoseconds, in order of the share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// What it is of.
    pub name: String,
    /// Latency from the intended start.
    pub latency: Vec<(f64, f64)>,
    /// Service time, where it is known and another one; may be empty.
    pub service: Vec<(f64, f64)>,
    /// Why its figures do not count, if they do not: it is drawn grey.
    pub void: Option<String>,
}

/// Draws the curves; none if there is no point.
pub fn figure(title: &str, curves: &[Curve], caption: &str) -> Option<Figure> {
    let points = || curves.iter().flat_map(|curve| curve.latency.iter().chain(&curve.service));
    points().next()?;
    let x = Axis {
        scale: Scale::Percentile { nines: nines(points().map(|point| point.0)) },
        label: "share of operations that were at most so slow".to_owned(),
        format: format::percentile,
    };
    let y = Axis {
        scale: Scale::logarithmic(points().map(|point| point.1)),
        label: "latency".to_owned(),
        format: format::duration_tick,
    };
    let mut keys = Vec::new();
    for (index, curve) in curves.iter().enumerate() {
        let suffix = if curve.void.is_some() { " (does not count)" } else { "" };
        keys.push(Key { class: format!("line {}", class(index, curve)), text: format!("{}{suffix}", curve.name) });
    }
    if curves.iter().any(|curve| !curve.service.is_empty()) {
        let text = "dashed: from the sending only, what a generator without a schedule would tell".to_owned();
        keys.push(Key { class: "line plain dashed".to_owned(), text });
    }
    let reasons: BTreeSet<&str> = curves.iter().filter_map(|curve| curve.void.as_deref()).collect();
    let mut caption = caption.to_owned();
    if !reasons.is_empty() {
        let why = match reasons.into_iter().collect::<Vec<_>>()[..] {
            [only] => format!(": {only}"),
            _ => "; the table says how".to_owned(),
        };
        caption = format!("{caption} What is grey does not count, because the load generator was saturated{why}.")
            .trim()
            .to_owned();
    }
    let described =
        curves.iter().map(|curve| format!("{}: {}.", curve.name, told(&curve.latency))).collect::<Vec<_>>().join(" ");
    Some(Figure::new(title, &described, keys, &caption, |room| draw(room, curves, &x, &y)))
}

fn class(index: usize, curve: &Curve) -> String {
    if curve.void.is_some() { "void".to_owned() } else { colour(index) }
}

/// How far the axis reaches: as many nines as the points have, from 2 to 6.
fn nines(shares: impl Iterator<Item = f64>) -> f64 {
    let greatest = shares.filter(|&share| share < 1.0).fold(0.0, f64::max);
    (-(1.0 - greatest).max(1e-6).log10() - 1e-9).ceil().clamp(2.0, 6.0)
}

/// The percentiles in words, from the nearest points at or after them.
fn told(points: &[(f64, f64)]) -> String {
    let mut words = Vec::new();
    for share in [0.5, 0.99, 0.999] {
        if let Some(point) = points.iter().find(|point| point.0 >= share - 1e-9) {
            words.push(format!("{} within {}", format::percentile(share), format::duration(point.1)));
        }
    }
    words.join(", ")
}

fn draw(room: Room, curves: &[Curve], x: &Axis, y: &Axis) -> Svg {
    let longest = curves.iter().map(|curve| text_width(&curve.name, LETTERS * BOLD)).fold(0.0, f64::max);
    let beside = room == Room::Wide && curves.len() > 1;
    let margin = if beside { (longest + 12.0).min(LABELS_MAX) } else { 14.0 };
    let mut svg = Svg::new(room.width(), room.choose(340.0, 300.0));
    let area = Area { left: 2.0, top: 2.0, right: room.width() - margin, bottom: svg.height() };
    let frame = Frame::draw(&mut svg, area, x, y);
    let mut ends = Vec::new();
    for (index, curve) in curves.iter().enumerate() {
        let class = class(index, curve);
        for (points, dashes) in [(&curve.service, " dashed"), (&curve.latency, "")] {
            let line: Vec<_> = points.iter().map(|point| Some(frame.point(point.0, point.1))).collect();
            svg.polyline(&line, &format!("line {class}{dashes}"));
        }
        for share in [0.5, 0.9, 0.99, 0.999, 0.9999] {
            if let Some(point) = curve.latency.iter().find(|point| (point.0 - share).abs() < 1e-6) {
                let title =
                    format!("{}: {} within {}", curve.name, format::percentile(share), format::duration(point.1));
                svg.dot(frame.point(point.0, point.1), 3.0, &format!("dot {class}"), &title);
            }
        }
        if let Some(last) = curve.latency.last() {
            ends.push(Label { y: frame.y(last.1), class, text: curve.name.clone() });
        }
    }
    if beside {
        labels(&mut svg, ends, frame.inside.right + 8.0, room.width(), frame.inside.top, frame.inside.bottom);
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_reaches_as_far_as_the_points() {
        assert_eq!(nines([0.5, 0.9].into_iter()), 2.0);
        assert_eq!(nines([0.5, 0.9999].into_iter()), 4.0);
        assert_eq!(nines([0.999_999_999, 1.0].into_iter()), 6.0);
        assert_eq!(figure("none", &[], ""), None);
    }

    #[test]
    fn a_curve_that_does_not_count_is_grey_and_says_why() {
        let latency = vec![(0.0, 1e5), (0.5, 2e5), (0.99, 1e6), (0.9999, 1e7)];
        let curve = Curve { name: "update".into(), service: latency.clone(), latency, void: Some("saturated".into()) };
        let html = figure("t", &[curve], "").unwrap().html();
        assert!(html.contains("class=\"line void\"") && html.contains("line void dashed"), "{html}");
        assert!(html.contains("update (does not count)") && html.contains("was saturated: saturated."), "{html}");
        assert!(html.contains("50\u{a0}% within 200\u{a0}µs, 99\u{a0}% within 1.00\u{a0}ms"), "{html}");
    }
}
