//! Ratios between sides as bars from the line of "as much", on a logarithmic axis: twice and half are equally long. The thin line is the
//! spread over repeats.

use super::frame::{Area, Axis, BOLD, LETTERS, draw_ticks};
use super::scale::Scale;
use super::svg::{Anchor, Svg, fit, text_width};
use super::{Figure, Key, Room, colour};
use crate::report::format;

/// One bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// What was compared.
    pub name: String,
    /// Which colour, by the side it is of.
    pub side: usize,
    /// How many times the first side's figure: the middle one of the repeats; above 0.
    pub ratio: f64,
    /// The least and the greatest over the repeats; both [`Bar::ratio`] if there were none.
    pub spread: (f64, f64),
}

/// Draws the bars from top to bottom; none if there is no bar with a ratio.
pub fn figure(title: &str, better: &str, bars: &[Bar], keys: Vec<Key>, caption: &str) -> Option<Figure> {
    let bars: Vec<Bar> = bars.iter().filter(|bar| bar.ratio.is_finite() && bar.ratio > 0.0).cloned().collect();
    bars.first()?;
    let told: Vec<String> = bars.iter().map(|bar| format!("{}: {}.", bar.name, format::ratio(bar.ratio))).collect();
    Some(Figure::new(title, &told.join(" "), keys, caption, |room| draw(room, better, &bars)))
}

fn draw(room: Room, better: &str, bars: &[Bar]) -> Svg {
    // On a phone the name stands above its bar.
    let step = room.choose(26.0, 42.0);
    let longest = bars.iter().map(|bar| text_width(&bar.name, LETTERS)).fold(0.0, f64::max);
    let names = room.choose(longest.min(300.0) + 10.0, 4.0);
    let mut svg = Svg::new(room.width(), 44.0 + step * bars.len() as f64);
    // The widest ratio fits beside a bar that reaches the end.
    let ratios = bars.iter().map(|bar| text_width(&format::ratio(bar.ratio), LETTERS * BOLD)).fold(40.0, f64::max);
    let (left, right) = (names + room.choose(4.0, 12.0), room.width() - ratios - 12.0);
    let values = bars.iter().flat_map(|bar| [bar.ratio, bar.spread.0, bar.spread.1]);
    // As much is always in the picture.
    let scale = Scale::logarithmic(values.chain([1.0]));
    let x = |value: f64| left + scale.place(value) * (right - left);
    let (top, bottom) = (6.0, svg.height() - 38.0);
    let axis = Axis { scale, label: String::new(), format: |value| format!("{}×", format::number_tick(value)) };
    draw_ticks(&mut svg, &axis, Area { left, top, right, bottom }, room.width());
    svg.text((left, svg.height() - 6.0), Anchor::Start, "axis", &fit(better, room.width() - left, LETTERS));
    // Before the names, which on a phone stand on it.
    svg.line((x(1.0), top), (x(1.0), bottom), "base");
    for (index, bar) in bars.iter().enumerate() {
        let row = top + step * index as f64;
        let (height, y) = room.choose((14.0, row + 6.0), (13.0, row + 20.0));
        match room {
            Room::Wide => {
                let name = fit(&bar.name, names - 4.0, LETTERS);
                svg.text((names - 4.0, y + 11.0), Anchor::End, "name", &name);
            }
            Room::Narrow => {
                svg.text((left, row + 15.0), Anchor::Start, "name", &fit(&bar.name, right + 40.0 - left, LETTERS))
            }
        }
        let (from, to) = (x(1.0).min(x(bar.ratio)), x(1.0).max(x(bar.ratio)));
        let class = colour(bar.side);
        let title = format!(
            "{}: {} ({} to {})",
            bar.name,
            format::ratio(bar.ratio),
            format::ratio(bar.spread.0),
            format::ratio(bar.spread.1)
        );
        svg.rectangle((from, y), ((to - from).max(1.5), height), &format!("fill bar {class}"), &title);
        if bar.spread.1 > bar.spread.0 {
            let middle = y + height / 2.0;
            svg.line((x(bar.spread.0), middle), (x(bar.spread.1), middle), "spread");
            for end in [bar.spread.0, bar.spread.1] {
                svg.line((x(end), middle - 4.0), (x(end), middle + 4.0), "spread");
            }
        }
        let beside = to.max(x(bar.spread.1)) + 6.0;
        svg.text((beside, y + 11.0), Anchor::Start, "label plain", &format::ratio(bar.ratio));
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_and_half_are_equally_long() {
        let bar = |name: &str, ratio: f64| Bar { name: name.into(), side: 1, ratio, spread: (ratio, ratio) };
        let bars = [bar("twice", 2.0), bar("half", 0.5), bar("nothing", 0.0), bar("odd", f64::NAN)];
        let html = figure("t", "longer is faster", &bars, vec![], "").unwrap().html();
        let widths: Vec<&str> = html
            .split("<rect class=\"fill bar c1\"")
            .skip(1)
            .filter_map(|part| part.split("width=\"").nth(1)?.split('"').next())
            .collect();
        assert_eq!(widths.len(), 4, "two bars, drawn twice: {html}");
        assert_eq!(widths[0], widths[1]);
        assert!(html.contains("twice: 2.00×. half: 0.500×."), "{html}");
        assert_eq!(figure("t", "", &[], vec![], ""), None);
    }
}
