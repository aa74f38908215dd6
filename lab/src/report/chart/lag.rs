//! How far nodes were behind over time: a line for each node, with marks where something happened.

use super::frame::{Area, Axis, BOLD, Frame, LETTERS};
use super::scale::Scale;
use super::svg::{Anchor, Svg, fit, text_width};
use super::timeline::mark_rows;
use super::{Figure, Key, Room, colour};
use crate::report::format;

/// One node's looks: second, and entries that it was behind; none where it did not answer. In order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The node's name.
    pub node: String,
    /// Its looks.
    pub looks: Vec<(f64, Option<u64>)>,
}

/// Draws the lines; none if no node was ever behind, or nobody looked.
pub fn figure(title: &str, lines: &[Line], marks: &[(f64, String)], caption: &str) -> Option<Figure> {
    let looks = || lines.iter().flat_map(|line| &line.looks);
    let most = looks().filter_map(|look| look.1).max().filter(|&most| most > 0)?;
    let ends = looks().map(|look| look.0).chain(marks.iter().map(|mark| mark.0));
    let end = ends.filter(|end| end.is_finite()).fold(1.0, f64::max);
    let key = |(index, line): (usize, &Line)| Key { class: format!("line {}", colour(index)), text: line.node.clone() };
    let keys = lines.iter().enumerate().map(key).collect();
    let description = format!("At most {} entries of the log behind.", format::count(most));
    Some(Figure::new(title, &description, keys, caption, |room| draw(room, lines, marks, end, most)))
}

fn draw(room: Room, lines: &[Line], marks: &[(f64, String)], end: f64, most: u64) -> Svg {
    let rows = mark_rows(room, marks, end);
    let above = rows.iter().map(|row| row + 1).max().unwrap_or(0) as f64 * 14.0;
    let mut svg = Svg::new(room.width(), above + room.choose(220.0, 210.0));
    let y = Axis { scale: Scale::linear([0.0, most as f64]), label: String::new(), format: format::number_tick };
    let x = Axis { scale: Scale::exact(0.0, end), label: "seconds".into(), format: format::number_tick };
    let right = room.width() - 14.0;
    let area = Area { left: 2.0, top: above, right, bottom: svg.height() };
    let frame = Frame::draw(&mut svg, area, &x, &y);
    for (index, line) in lines.iter().enumerate() {
        let points: Vec<Option<(f64, f64)>> =
            line.looks.iter().map(|(at, entries)| entries.map(|entries| frame.point(*at, entries as f64))).collect();
        svg.polyline(&points, &format!("line {}", colour(index)));
    }
    // All strokes first: then words stand on those that would cross them.
    for ((at, _), row) in marks.iter().zip(&rows) {
        let (x, y) = (frame.x(*at), (*row as f64).mul_add(14.0, 11.0));
        svg.line((x, y + 3.0), (x, frame.inside.bottom), "mark");
    }
    frame.y_label(&mut svg, "entries of the log behind");
    for ((at, what), row) in marks.iter().zip(rows) {
        let x = frame.x(*at);
        let y = (row as f64).mul_add(14.0, 11.0);
        let text = fit(what, right - 4.0, LETTERS * BOLD);
        let begin = (x - 3.0).min(right - text_width(&text, LETTERS * BOLD)).max(2.0);
        svg.text((begin, y), Anchor::Start, "label marked", &text);
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_was_never_behind_gets_no_picture() {
        let line = |looks: &[(f64, Option<u64>)]| Line { node: "n1".into(), looks: looks.to_vec() };
        assert_eq!(figure("t", &[], &[], ""), None);
        assert_eq!(figure("t", &[line(&[(0.0, Some(0)), (1.0, None)])], &[], ""), None);
        let marks = [(0.5, "n1 killed".to_owned())];
        let lines = [line(&[(0.0, Some(0)), (1.0, None), (2.0, Some(4_000)), (3.0, Some(0))])];
        let html = figure("t", &lines, &marks, "").expect("it was behind").html();
        assert!(html.contains("n1 killed") && html.contains("entries of the log behind"), "{html}");
    }
}
