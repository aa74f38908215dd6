//! The frame of a chart: its axes with ticks and grid, and labels at the ends of lines that do not stand on each other.

use super::scale::Scale;
use super::svg::{Anchor, Svg, fit, text_width};

/// Height of a tick's letters in pixels; `style.css` has the same.
pub const LETTERS: f64 = 11.5;

/// Least distance between two labels of lines, in pixels.
const LABEL_DISTANCE: f64 = 13.5;

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Where values lie.
    pub scale: Scale,
    /// What it measures.
    pub label: String,
    /// How a tick's value is written.
    pub format: fn(f64) -> String,
}

/// A part of a picture, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Left end.
    pub left: f64,
    /// Upper end.
    pub top: f64,
    /// Right end, greater than `left`.
    pub right: f64,
    /// Lower end, greater than `top`.
    pub bottom: f64,
}

/// A drawn frame, inside which values have places.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Where values are drawn: inside the axes.
    pub inside: Area,
    area: Area,
    x: Scale,
    y: Scale,
}

impl Frame {
    /// Draws axes, ticks and grid into the area; what is left inside is for the values.
    pub fn draw(svg: &mut Svg, area: Area, x: &Axis, y: &Axis) -> Frame {
        let frame = Frame::draw_without_x_ticks(svg, area, x, y);
        frame.x_ticks(svg, x);
        frame
    }

    /// As [`Frame::draw`], for an axis whose ticks the caller draws.
    pub fn draw_without_x_ticks(svg: &mut Svg, area: Area, x: &Axis, y: &Axis) -> Frame {
        let height = (area.bottom - area.top - 40.0).max(20.0);
        let y_ticks = y.scale.ticks((height / 30.0) as usize);
        let widest = y_ticks.iter().map(|&tick| text_width(&(y.format)(tick), LETTERS)).fold(0.0, f64::max);
        let inside = Area {
            left: area.left + widest.ceil().max(16.0) + 8.0,
            top: area.top + 20.0,
            right: area.right,
            bottom: area.bottom - if x.label.is_empty() { 18.0 } else { 34.0 },
        };
        let frame = Frame { inside, area, x: x.scale, y: y.scale };
        frame.y_label(svg, &y.label);
        for &tick in &y_ticks {
            let at = frame.y(tick);
            svg.line((inside.left, at), (inside.right, at), "grid");
            svg.text((inside.left - 6.0, at + 4.0), Anchor::End, "tick", &(y.format)(tick));
        }
        svg.line((inside.left, inside.bottom), (inside.right, inside.bottom), "base");
        if !x.label.is_empty() {
            let middle = (inside.left + inside.right) / 2.0;
            let label = fit(&x.label, inside.right - area.left, LETTERS);
            svg.text((middle, area.bottom - 3.0), Anchor::Middle, "axis", &label);
        }
        frame
    }

    /// Writes what the vertical axis measures. A chart with strokes from above leaves it out of its axis and writes it after them, so that
    /// they do not cross it.
    pub fn y_label(&self, svg: &mut Svg, label: &str) {
        let area = self.area;
        if !label.is_empty() {
            let text = fit(label, area.right - area.left, LETTERS);
            svg.text((area.left, area.top + 10.0), Anchor::Start, "axis", &text);
        }
    }

    fn x_ticks(&self, svg: &mut Svg, x: &Axis) {
        draw_ticks(svg, x, self.inside, self.inside.right + 2.0);
    }

    /// The pixel of a value along the horizontal axis.
    pub fn x(&self, value: f64) -> f64 {
        self.inside.left + self.x.place(value) * (self.inside.right - self.inside.left)
    }

    /// The pixel of a value along the vertical axis.
    pub fn y(&self, value: f64) -> f64 {
        self.inside.bottom - self.y.place(value) * (self.inside.bottom - self.inside.top)
    }

    /// The point of two values.
    pub fn point(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x(x), self.y(y))
    }
}

/// Draws grid lines across the area with a tick's words below each. There are as many as have room for their words, at equal steps; `end`
/// is the pixel that the outermost words may not pass.
pub fn draw_ticks(svg: &mut Svg, x: &Axis, inside: Area, end: f64) {
    let width = inside.right - inside.left;
    let place = |tick: f64| inside.left + x.scale.place(tick) * width;
    let words = |tick: f64| {
        let text = (x.format)(tick);
        let half = text_width(&text, LETTERS) / 2.0;
        // The outermost words are moved inwards, so that nothing is cut off.
        let middle = place(tick).min(end - half).max(half);
        (middle, half, text)
    };
    let fits = |ticks: &[f64]| {
        let ends: Vec<(f64, f64)> =
            ticks.iter().map(|&tick| words(tick)).map(|(m, half, _)| (m - half, m + half)).collect();
        ends.windows(2).all(|pair| pair[0].1 + 5.0 < pair[1].0)
    };
    let most = ((width / 40.0) as usize).clamp(2, 10);
    let ticks = (2..=most).rev().map(|most| x.scale.ticks(most)).find(|ticks| fits(ticks));
    let mut free_from = f64::NEG_INFINITY;
    for tick in ticks.unwrap_or_else(|| x.scale.ticks(2)) {
        svg.line((place(tick), inside.top), (place(tick), inside.bottom), "grid");
        let (middle, half, text) = words(tick);
        if middle - half > free_from {
            svg.text((middle, inside.bottom + 15.0), Anchor::Middle, "tick", &text);
            free_from = middle + half + 5.0;
        }
    }
}

/// A label of a line's end.
#[derive(Clone, Debug)]
pub struct Label {
    /// The line's height there, in pixels.
    pub y: f64,
    /// Its colour's class.
    pub class: String,
    /// What it says.
    pub text: String,
}

/// How much wider the bold letters of a label are.
pub const BOLD: f64 = 1.12;

/// Writes labels beside each other's lines from `x` on, moved apart where they would stand on each other, cut at `right`.
pub fn labels(svg: &mut Svg, mut labels: Vec<Label>, x: f64, right: f64, top: f64, bottom: f64) {
    labels.sort_by(|a, b| a.y.total_cmp(&b.y));
    let heights = spread(&labels.iter().map(|label| label.y).collect::<Vec<_>>(), top, bottom);
    for (label, y) in labels.iter().zip(heights) {
        svg.text(
            (x, y + 4.0),
            Anchor::Start,
            &format!("label {}", label.class),
            &fit(&label.text, right - x, LETTERS * BOLD),
        );
    }
}

/// Heights in order, moved apart to [`LABEL_DISTANCE`]: first downwards, then, where the bottom was passed, up again.
fn spread(heights: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut placed: Vec<f64> = Vec::with_capacity(heights.len());
    for &height in heights {
        let least = placed.last().map_or(top, |last| last + LABEL_DISTANCE);
        placed.push(height.max(least));
    }
    let mut most = bottom;
    for height in placed.iter_mut().rev() {
        *height = height.min(most);
        most = *height - LABEL_DISTANCE;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::format::number_tick;

    #[test]
    fn ticks_stand_where_their_values_lie() {
        let mut svg = Svg::new(300.0, 160.0);
        let x = Axis { scale: Scale::exact(0.0, 10.0), label: "seconds".into(), format: number_tick };
        let y =
            Axis { scale: Scale::Linear { low: 0.0, high: 100.0 }, label: "operations".into(), format: number_tick };
        let area = Area { left: 0.0, top: 0.0, right: 300.0, bottom: 160.0 };
        let frame = Frame::draw(&mut svg, area, &x, &y);
        assert_eq!(frame.y(0.0), 126.0);
        assert_eq!(frame.y(100.0), 20.0);
        assert_eq!(frame.x(10.0), 300.0);
        assert_eq!(frame.x(5.0), (frame.x(0.0) + 300.0) / 2.0);
        let drawn = svg.finish("wide", "t", "d");
        assert!(drawn.contains("y=\"77\" text-anchor=\"end\">50</text>"), "{drawn}");
        assert!(drawn.contains(">seconds</text>") && drawn.contains(">operations</text>"));
    }

    #[test]
    fn labels_are_moved_apart_and_stay_inside() {
        assert_eq!(spread(&[10.0, 50.0], 0.0, 100.0), [10.0, 50.0]);
        assert_eq!(spread(&[10.0, 11.0], 0.0, 100.0), [10.0, 23.5]);
        assert_eq!(spread(&[98.0, 99.0], 0.0, 100.0), [86.5, 100.0]);
    }
}
