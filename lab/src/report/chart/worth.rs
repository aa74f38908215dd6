//! What a machine's price buys: the tail of the latency, and the price of a million operations, each against the price for an hour.

use super::frame::{Area, Axis, Frame, LETTERS};
use super::scale::Scale;
use super::svg::{Anchor, Svg, fit, text_width};
use super::{Figure, Key, Room};
use crate::report::format;

/// One machine in one setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// What it is called.
    pub name: String,
    /// Its price for an hour; above 0.
    pub price: f64,
    /// The 99th percentile of the latency in nanoseconds.
    pub p99: f64,
    /// The price of a million operations.
    pub million: f64,
}

/// Draws the machines, which are in the order of their prices; none if there are fewer than two. `knee` is the place of the inflection of
/// the tail.
pub fn figure(title: &str, machines: &[Machine], knee: Option<usize>, caption: &str) -> Option<Figure> {
    machines.get(1)?;
    let told: Vec<String> = machines
        .iter()
        .map(|machine| {
            let (tail, million) = (format::duration(machine.p99), format::number(machine.million));
            format!("{}: p99 {tail}, {million} for a million operations.", machine.name)
        })
        .collect();
    let mut keys = vec![Key { class: "dot c0".into(), text: "a machine (median of its repeats)".into() }];
    if knee.is_some() {
        let text = "the line from the smallest to the largest, which the inflection lies farthest below".into();
        keys.push(Key { class: "line c1 dashed".into(), text });
    }
    Some(Figure::new(title, &told.join(" "), keys, caption, |room| draw(room, machines, knee)))
}

fn draw(room: Room, machines: &[Machine], knee: Option<usize>) -> Svg {
    let height = room.choose(280.0, 250.0);
    let split = room == Room::Wide;
    let mut svg = Svg::new(room.width(), if split { height } else { 2.0 * height + 12.0 });
    let right = if split { 390.0 } else { room.width() - 14.0 };
    let tail: Vec<f64> = machines.iter().map(|machine| machine.p99).collect();
    let first = Area { left: 2.0, top: 2.0, right, bottom: height - 2.0 };
    panel(&mut svg, first, machines, &tail, ("99th percentile of the latency", format::duration_tick), knee);
    let (left, top) = if split { (414.0, 2.0) } else { (2.0, height + 12.0) };
    let second = Area { left, top, right: room.width() - 14.0, bottom: top + height - 4.0 };
    let million: Vec<f64> = machines.iter().map(|machine| machine.million).collect();
    panel(&mut svg, second, machines, &million, ("price of a million operations", format::number_tick), None);
    svg
}

/// One figure against the price.
fn panel(
    svg: &mut Svg,
    area: Area,
    machines: &[Machine],
    values: &[f64],
    (label, write): (&str, fn(f64) -> String),
    knee: Option<usize>,
) {
    let end = machines.iter().map(|machine| machine.price).fold(0.0, f64::max) * 1.08;
    let x = Axis { scale: Scale::exact(0.0, end), label: "price for an hour".into(), format: format::number_tick };
    let y = Axis { scale: Scale::linear(values.iter().copied()), label: label.to_owned(), format: write };
    let frame = Frame::draw(svg, area, &x, &y);
    let points: Vec<(f64, f64)> = machines.iter().zip(values).map(|(m, value)| frame.point(m.price, *value)).collect();
    if let (Some(_), Some(first), Some(last)) = (knee, points.first(), points.last()) {
        svg.polyline(&[Some(*first), Some(*last)], "line c1 dashed");
    }
    svg.polyline(&points.iter().copied().map(Some).collect::<Vec<_>>(), "line c0");
    for (place, ((machine, value), point)) in machines.iter().zip(values).zip(&points).enumerate() {
        svg.dot(*point, 4.0, "dot c0", &format!("{}: {}", machine.name, write(*value)));
        let words = if knee == Some(place) { format!("{} (inflection)", machine.name) } else { machine.name.clone() };
        let words = fit(&words, area.right - area.left, LETTERS);
        let wide = text_width(&words, LETTERS) * super::frame::BOLD;
        // Above its dot, moved inwards where it would leave the picture.
        let (anchor, shift) =
            if point.0 + wide + 6.0 > area.right { (Anchor::End, -6.0) } else { (Anchor::Start, 6.0) };
        let class = if knee == Some(place) { "label marked" } else { "label" };
        svg.text((point.0 + shift, point.1 - 6.0), anchor, class, &words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_and_the_inflection_are_named() {
        let machine =
            |name: &str, price: f64, p99: f64| Machine { name: name.into(), price, p99, million: price / 3.0 };
        let machines = [machine("small", 0.1, 9e6), machine("<large>", 0.2, 2e6), machine("huge", 0.4, 1.9e6)];
        assert_eq!(figure("t", &machines[..1], None, ""), None);
        let html = figure("t", &machines, Some(1), "").expect("three machines").html();
        assert!(html.contains("&lt;large&gt; (inflection)") && html.contains("class=\"line c1 dashed\""), "{html}");
        let html = figure("t", &machines, None, "").expect("three machines").html();
        assert!(!html.contains("inflection"), "{html}");
    }
}
