//! The Universal Scalability Law over the points it was fitted to: X(N) = λN / (1 + σ(N−1) + κN(N−1)) (Neil Gunther, "Guerrilla Capacity
//! Planning", 2007), with a band between its limits and its peak; and the law printed for Apache Cassandra beside it.

use super::frame::{Area, Axis, Frame, Label, labels};
use super::scale::Scale;
use super::svg::{Anchor, Svg};
use super::{Figure, Key, Room};
use crate::record::Fit;
use crate::report::format;

/// λ, σ and κ as the scalability study of Apache Cassandra prints them, against nodes.
pub const CASSANDRA: (f64, f64, f64) = (10_926.99, 2.1853, 0.03267);

/// Throughput of so many.
type Law<'a> = &'a dyn Fn(f64) -> f64;

/// Points along a curve.
const STEPS: usize = 80;

/// The law.
pub fn law(lambda: f64, sigma: f64, kappa: f64, n: f64) -> f64 {
    lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
}

/// The law as it is printed for Cassandra, with σ(N+1) where the law has σ(N−1).
pub fn cassandra_as_printed(n: f64) -> f64 {
    let (lambda, sigma, kappa) = CASSANDRA;
    lambda * n / (1.0 + sigma * (n + 1.0) + kappa * n * (n - 1.0))
}

/// Whether the law printed for Cassandra may stand beside a fit: it is against nodes, and one more client is no further node.
pub fn comparable(fit: &Fit) -> bool {
    matches!(fit.variable.as_str(), "nodes" | "replicas")
        && law(fit.lambda.value, fit.sigma.value, fit.kappa.value, 1.0) > 0.0
}

/// Draws the fit; none if it has no point.
pub fn figure(title: &str, fit: &Fit, caption: &str) -> Option<Figure> {
    fit.points.iter().find(|point| point.0.is_finite() && point.1.is_finite())?;
    let mut keys = vec![
        Key { class: "dot c0".into(), text: "measured".into() },
        Key { class: "line c0".into(), text: "the fitted law".into() },
        Key {
            class: "fill band c0".into(),
            text: "between the 95\u{a0}% limits of its three constants together".into(),
        },
    ];
    if comparable(fit) {
        keys.push(Key {
            class: "line c1 dashed".into(),
            text: "printed for Apache Cassandra, as printed: σ(N+1)".into(),
        });
        keys.push(Key {
            class: "line c2 dashed".into(),
            text: "the same constants in the law's own form: σ(N−1)".into(),
        });
    }
    let peak = match fit.peak_at {
        Some(peak) => format!("greatest at {} {}", format::number(peak), fit.variable),
        None => "no peak".to_owned(),
    };
    let description = format!(
        "Throughput against {}: {} points, {peak}, the law explains {} of the variance.",
        fit.variable,
        fit.points.len(),
        format::share(fit.r_squared)
    );
    Some(Figure::new(title, &description, keys, caption, |room| draw(room, fit)))
}

fn draw(room: Room, fit: &Fit) -> Svg {
    let beside = comparable(fit);
    let split = beside && room == Room::Wide;
    let height = room.choose(300.0, 280.0);
    let mut svg = Svg::new(room.width(), if beside && !split { 2.0 * height + 12.0 } else { height });
    let right = if split { 430.0 } else { room.width() - 14.0 };
    absolute(&mut svg, fit, Area { left: 2.0, top: 2.0, right, bottom: height });
    if beside {
        let (left, top) = if split { (460.0, 2.0) } else { (2.0, height + 12.0) };
        normalised(&mut svg, fit, Area { left, top, right: room.width() - 14.0, bottom: top + height - 2.0 });
    }
    svg
}

/// As far as the axis goes: a little beyond the last point, and as far as the peak if that is not far.
fn reach(fit: &Fit) -> f64 {
    let last = fit.points.iter().map(|point| point.0).filter(|x| x.is_finite()).fold(1.0, f64::max);
    match fit.peak_at {
        Some(peak) if peak.is_finite() && peak > last && peak < last * 2.0 => peak * 1.1,
        _ => last * 1.08,
    }
}

fn absolute(svg: &mut Svg, fit: &Fit, area: Area) {
    let end = reach(fit);
    // Fewer than one there cannot be: a law with σ above 1 has its greatest values there.
    let steps: Vec<f64> = (0..=STEPS).map(|step| 1.0 + (end - 1.0) * step as f64 / STEPS as f64).collect();
    let middle = |n: f64| law(fit.lambda.value, fit.sigma.value, fit.kappa.value, n);
    // The three limits are not reached together, so that the band is wider than one of the law as a whole would be.
    let above = |n: f64| law(fit.lambda.high, fit.sigma.low.max(0.0), fit.kappa.low.max(0.0), n).max(middle(n));
    let below = |n: f64| law(fit.lambda.low, fit.sigma.high, fit.kappa.high, n).clamp(0.0, middle(n).max(0.0));
    let highest = steps.iter().map(|&n| middle(n)).chain(fit.points.iter().map(|point| point.1)).fold(1.0, f64::max);
    // The upper limit of a poor fit would press all points onto the ground.
    let band_highest = steps.iter().map(|&n| above(n)).filter(|x| x.is_finite()).fold(0.0, f64::max).min(highest * 1.6);
    let x = Axis { scale: Scale::exact(0.0, end), label: fit.variable.clone(), format: format::number_tick };
    let y = Axis {
        scale: Scale::linear([highest, band_highest]),
        label: "operations per second".into(),
        format: format::number_tick,
    };
    let frame = Frame::draw(svg, area, &x, &y);
    let line = |law: Law| steps.iter().map(|&n| frame.point(n, law(n))).collect::<Vec<_>>();
    svg.band(&line(&above), &line(&below), "fill band c0");
    svg.polyline(&line(&middle).into_iter().map(Some).collect::<Vec<_>>(), "line c0");
    if let Some(peak) = fit.peak_at.filter(|&peak| peak > 0.0 && peak <= end) {
        let (left, top) = frame.point(peak, middle(peak));
        svg.line((left, top), (left, frame.inside.bottom), "mark");
        let text = format!("peak at {}", format::number(peak));
        let anchor = if left > (area.left + area.right) / 2.0 { Anchor::End } else { Anchor::Start };
        let shift = if anchor == Anchor::End { -5.0 } else { 5.0 };
        svg.text((left + shift, frame.inside.bottom - 7.0), anchor, "label marked", &text);
    }
    for point in &fit.points {
        let title = format!("{} {}: {} a second", format::number(point.0), fit.variable, format::number(point.1));
        svg.dot(frame.point(point.0, point.1), 3.5, "dot c0", &title);
    }
}

/// Throughput relative to what one would give: of this fit, and of the law printed for Cassandra.
fn normalised(svg: &mut Svg, fit: &Fit, area: Area) {
    let end = reach(fit).max(2.0);
    let steps: Vec<f64> = (0..=STEPS).map(|step| 1.0 + (end - 1.0) * step as f64 / STEPS as f64).collect();
    let (_, sigma, kappa) = CASSANDRA;
    let curves: [(&str, &str, Law); 3] = [
        ("line c0", "this fit", &|n| law(1.0, fit.sigma.value, fit.kappa.value, n)),
        ("line c1 dashed", "as printed", &|n| cassandra_as_printed(n) / cassandra_as_printed(1.0)),
        ("line c2 dashed", "σ(N−1)", &|n| law(1.0, sigma, kappa, n)),
    ];
    let values = curves.iter().flat_map(|curve| steps.iter().map(|&n| curve.2(n)));
    let y = Axis {
        scale: Scale::linear(values.filter(|value| value.is_finite())),
        label: "times the law's own value for one".into(),
        format: format::number_tick,
    };
    let x = Axis { scale: Scale::exact(1.0, end), label: fit.variable.clone(), format: format::number_tick };
    let frame = Frame::draw(svg, Area { right: area.right - 74.0, ..area }, &x, &y);
    let mut ends = Vec::new();
    for (class, text, law) in curves {
        svg.polyline(&steps.iter().map(|&n| Some(frame.point(n, law(n)))).collect::<Vec<_>>(), class);
        ends.push(Label { y: frame.y(law(end)), class: class[5..7].to_owned(), text: text.to_owned() });
    }
    labels(svg, ends, frame.inside.right + 6.0, area.right + 12.0, frame.inside.top, frame.inside.bottom);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Limits;

    #[test]
    fn the_laws_have_their_known_values() {
        assert_eq!(law(1_000.0, 0.1, 0.01, 1.0), 1_000.0);
        assert!((law(1_000.0, 0.1, 0.01, 4.0) - 4_000.0 / 1.42).abs() < 1e-9);
        // Six nodes: 65,561.94 / (1 + 2.1853·7 + 0.03267·30), worked out by hand.
        assert!((cassandra_as_printed(6.0) - 65_561.94 / 17.277_2).abs() < 1e-6);
    }

    #[test]
    fn cassandra_stands_beside_nodes_only() {
        let limits = |value: f64| Limits { value, low: value * 0.9, high: value * 1.1 };
        let mut fit = Fit {
            side: "dictum".into(),
            variable: "clients".into(),
            points: vec![(1.0, 900.0), (8.0, 3_000.0)],
            lambda: limits(1_000.0),
            sigma: limits(0.1),
            kappa: limits(0.01),
            peak_at: Some(9.49),
            r_squared: 0.99,
        };
        let html = figure("t", &fit, "").unwrap().html();
        assert!(!html.contains("Cassandra") && html.contains("peak at 9.49"), "{html}");
        fit.variable = "nodes".into();
        assert!(figure("t", &fit, "").unwrap().html().contains("printed for Apache Cassandra"));
        fit.points.clear();
        assert_eq!(figure("t", &fit, ""), None);
    }
}
