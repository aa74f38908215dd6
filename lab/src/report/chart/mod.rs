//! Charts as inline SVG.
//!
//! - [`svg`] writes shapes, [`scale`] maps values to pixels and finds ticks, [`frame`] draws axes and labels.
//! - [`curves`] percentile curves; [`heat`] latency over time as shades; [`timeline`] what a failure did, second by second; [`lag`] how far nodes were behind;
//!   [`scaling`] a fitted law; [`bars`] ratios between sides; [`dots`] how repeated values are spread; [`multiples`] small charts of tails
//!   against a variable; [`worth`] what a machine's price buys; [`history`] the drawing of a violation.
//!
//! Each takes plain values, knows no record, and draws itself twice: [`Room::Wide`] for a desk and for paper, [`Room::Narrow`] for a phone.
//! The page shows one of them, so that letters keep their size. Colours are classes, `c0` to `c7`; `report/style.css` says what they are.

pub mod bars;
pub mod curves;
pub mod dots;
pub mod frame;
pub mod heat;
pub mod history;
pub mod lag;
pub mod multiples;
pub mod scale;
pub mod scaling;
pub mod svg;
pub mod timeline;
pub mod worth;

use crate::report::html::{element, escape};
use svg::Svg;

/// How many colours tell lines apart; what is beyond begins again.
pub const COLOURS: usize = 8;

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A desk's screen, or paper.
    Wide,
    /// A phone held upright.
    Narrow,
}

impl Room {
    /// Pixels across.
    pub fn width(self) -> f64 {
        match self {
            Room::Wide => 800.0,
            Room::Narrow => 328.0,
        }
    }

    /// One value for a desk and another for a phone.
    pub fn choose<T>(self, wide: T, narrow: T) -> T {
        match self {
            Room::Wide => wide,
            Room::Narrow => narrow,
        }
    }

    fn class(self) -> &'static str {
        self.choose("wide", "narrow")
    }
}

/// What a sign in a picture means.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Class of the sign: `line c0`, `line c0 dashed`, `fill gap` …
    pub class: String,
    /// What it means.
    pub text: String,
}

/// A picture, ready for the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows, as a heading.
    pub title: String,
    /// HTML of the two drawings.
    drawings: String,
    /// The signs.
    pub keys: Vec<Key>,
    /// How to read it, and what it leaves out; empty if it speaks for itself.
    pub caption: String,
}

impl Figure {
    /// Has the picture drawn in both sizes. The description is for those who cannot see it.
    pub fn new(title: &str, description: &str, keys: Vec<Key>, caption: &str, draw: impl Fn(Room) -> Svg) -> Figure {
        let drawings =
            [Room::Wide, Room::Narrow].map(|room| draw(room).finish(room.class(), title, description)).concat();
        Figure { title: title.to_owned(), drawings, keys, caption: caption.to_owned() }
    }

    /// The figure as HTML.
    pub fn html(&self) -> String {
        let mut out = format!("<figure>{}", element("h3", "", &self.title));
        if !self.keys.is_empty() {
            out.push_str("<ul class=\"keys\">");
            for key in &self.keys {
                let sign = if key.class.starts_with("line") {
                    format!("<path class=\"{}\" d=\"M1 6h24\"/>", escape(&key.class))
                } else if key.class.starts_with("dot") {
                    format!("<circle class=\"{}\" cx=\"13\" cy=\"6\" r=\"4\"/>", escape(&key.class))
                } else {
                    format!("<rect class=\"{}\" x=\"3\" y=\"1\" width=\"20\" height=\"10\"/>", escape(&key.class))
                };
                out.push_str(&format!(
                    "<li><svg aria-hidden=\"true\" viewBox=\"0 0 26 12\" width=\"26\" height=\"12\">{sign}</svg>{}</li>",
                    escape(&key.text)
                ));
            }
            out.push_str("</ul>");
        }
        out.push_str(&self.drawings);
        if !self.caption.is_empty() {
            out.push_str(&element("figcaption", "", &self.caption));
        }
        out.push_str("</figure>");
        out
    }
}

/// The class of a line's or a sign's colour.
pub fn colour(index: usize) -> String {
    format!("c{}", index % COLOURS)
}
