//! Writes SVG: a few shapes, with classes instead of colours, so that the page's style decides for light, dark and paper.
//!
//! Whatever is given, what comes out is well-formed, and no coordinate is NaN or beyond reach.

use std::fmt::Write;

use crate::report::html::escape;

/// Where a text stands from its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// A picture being drawn; its unit is a CSS pixel.
#[derive(Clone, Debug)]
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// A coordinate as SVG has it: a tenth of a pixel is enough. What is no number is 0.
pub fn coordinate(value: f64) -> String {
    let value = if value.is_finite() { value.clamp(-100_000.0, 100_000.0) } else { 0.0 };
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// About how wide a text is in pixels, set in the page's sans-serif at so many pixels: as wide as in DejaVu Sans, one of the
/// widest, so that it fits with others too.
pub fn text_width(text: &str, size: f64) -> f64 {
    text.chars()
        .map(|character| match character {
            'i' | 'l' | 'j' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '\u{202f}' => 0.34,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.98,
            'A'..='Z' => 0.72,
            '\u{a0}' | ' ' | 't' | 'f' | 'r' | '(' | ')' | '-' | '/' => 0.41,
            // Letters of Chinese, Japanese, Korean and pictures take a full square.
            '\u{2e80}'.. => 1.0,
            _ => 0.635,
        })
        .sum::<f64>()
        * size
}

/// The text, cut with an ellipsis to what fits into so many pixels; empty if not even one letter fits.
pub fn fit(text: &str, width: f64, size: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = text_width("…", size);
    for character in text.chars() {
        used += text_width(character.encode_utf8(&mut [0; 4]), size);
        if used > width {
            break;
        }
        out.push(character);
    }
    if out.is_empty() { out } else { format!("{}…", out.trim_end()) }
}

impl Svg {
    /// An empty picture.
    pub fn new(width: f64, height: f64) -> Svg {
        Svg { width, height, body: String::new() }
    }

    /// Its width in pixels.
    pub fn width(&self) -> f64 {
        self.width
    }

    /// Its height in pixels.
    pub fn height(&self) -> f64 {
        self.height
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = write!(
            self.body,
            "<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            escape(class),
            coordinate(from.0),
            coordinate(from.1),
            coordinate(to.0),
            coordinate(to.1)
        );
    }

    /// A rectangle from its left upper corner, with a title that is shown when a pointer rests on it (none if empty).
    pub fn rectangle(&mut self, corner: (f64, f64), size: (f64, f64), class: &str, title: &str) {
        let _ = write!(
            self.body,
            "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            escape(class),
            coordinate(corner.0),
            coordinate(corner.1),
            coordinate(size.0.max(0.0)),
            coordinate(size.1.max(0.0))
        );
        self.close("rect", title);
    }

    /// A dot, with a title as a rectangle has.
    pub fn dot(&mut self, centre: (f64, f64), radius: f64, class: &str, title: &str) {
        let _ = write!(
            self.body,
            "<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"",
            escape(class),
            coordinate(centre.0),
            coordinate(centre.1),
            coordinate(radius.max(0.0))
        );
        self.close("circle", title);
    }

    fn close(&mut self, name: &str, title: &str) {
        if title.is_empty() {
            self.body.push_str("/>");
        } else {
            let _ = write!(self.body, "><title>{}</title></{name}>", escape(title));
        }
    }

    /// A path whose data was written by this module's callers with [`coordinate`]; nothing is drawn if it is empty.
    pub fn path(&mut self, data: &str, class: &str) {
        if !data.is_empty() {
            let _ = write!(self.body, "<path class=\"{}\" d=\"{}\"/>", escape(class), escape_path(data));
        }
    }

    /// Lines from point to point; a missing point breaks them. One point alone is a short stroke, so that it can be seen.
    pub fn polyline(&mut self, points: &[Option<(f64, f64)>], class: &str) {
        let mut data = String::new();
        for stretch in points.split(Option::is_none) {
            for (index, point) in stretch.iter().flatten().enumerate() {
                let letter = if index == 0 { 'M' } else { 'L' };
                let _ = write!(data, "{letter}{} {}", coordinate(point.0), coordinate(point.1));
            }
            if stretch.len() == 1 {
                data.push_str("h1.5");
            }
        }
        self.path(&data, class);
    }

    /// The area between two lines of equally many points.
    pub fn band(&mut self, upper: &[(f64, f64)], lower: &[(f64, f64)], class: &str) {
        let mut data = String::new();
        for (index, point) in upper.iter().chain(lower.iter().rev()).enumerate() {
            let letter = if index == 0 { 'M' } else { 'L' };
            let _ = write!(data, "{letter}{} {}", coordinate(point.0), coordinate(point.1));
        }
        if !data.is_empty() {
            data.push('z');
        }
        self.path(&data, class);
    }

    /// A text, escaped here.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.body,
            "<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            escape(class),
            coordinate(at.0),
            coordinate(at.1),
            escape(text)
        );
    }

    /// The whole element, with a name and a description for those who cannot see it, and a class of its own.
    pub fn finish(self, class: &str, title: &str, description: &str) -> String {
        let (width, height) = (coordinate(self.width), coordinate(self.height));
        format!(
            "<svg class=\"{}\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-label=\"{title}\"><title>{title}</title><desc>{}</desc>{}</svg>",
            escape(class),
            escape(description),
            self.body,
            title = escape(title),
        )
    }
}

/// Path data holds letters, digits, points, signs and spaces; anything else was a mistake and is left out.
fn escape_path(data: &str) -> String {
    data.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ' ' | ',')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_always_numbers() {
        for (value, expected) in
            [(1.0, "1"), (1.26, "1.3"), (-0.01, "0"), (f64::NAN, "0"), (f64::INFINITY, "0"), (1e9, "100000")]
        {
            assert_eq!(coordinate(value), expected);
        }
    }

    #[test]
    fn lines_break_where_a_point_is_missing() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.polyline(&[Some((0.0, 1.0)), Some((1.0, 2.0)), None, Some((3.0, 4.0))], "line");
        assert!(svg.body.contains("d=\"M0 1L1 2M3 4h1.5\""), "{}", svg.body);
        let whole = svg.finish("wide", "a <b>", "c & d");
        assert!(whole.contains("<title>a &lt;b&gt;</title><desc>c &amp; d</desc>"), "{whole}");
    }

    #[test]
    fn long_texts_are_cut_to_fit() {
        assert_eq!(fit("short", 100.0, 11.0), "short");
        let cut = fit("a rather long name of a measurement", 60.0, 11.0);
        assert!(cut.ends_with('…') && text_width(&cut, 11.0) <= 60.0 && cut.chars().count() > 5, "{cut}");
        assert_eq!(fit("word", 2.0, 11.0), "");
    }
}
