//! Paths into documents, as RedisJSON has them: JSONPath (`$.a[0]`), which answers with all that it finds, and the older kind (`.a[0]`), which answers with
//! the first.
//!
//! A path that names one place only is followed here. All others are queries of RFC 9535 ([`super::query`]), of which this file reads the steps (RedisJSON takes
//! more characters than the standard in names without quotes). A path is read once from its beginning to its end, and what could make that recurse deeply is refused.

use super::query::{Segment, Selector, Trail, Walk, in_range, selectors};
use super::{Json, at};
use crate::failure::Failure;
use crate::meter::{LOOKUP, Meter};

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 4096;
/// Most brackets and parentheses of one path: each makes its reader recurse.
const BRACKETS_MAX: usize = 128;
/// Most `..` of one path: each multiplies what is gone through by the depth of the document.
const DESCENTS_MAX: usize = 3;

/// One step down from a value, as a place has it. Names come before indices.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Hop {
    /// To the member of that name.
    Name(String),
    /// To the element of that index.
    Index(usize),
}

impl Hop {
    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Hop>()
            + match self {
                Hop::Name(name) => name.len(),
                Hop::Index(_) => 0,
            }
    }
}

/// Where a value stands: the steps from the root. The root itself has none.
pub(crate) type Place = Vec<Hop>;

/// A step that a path names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// To the member of that name.
    Name(String),
    /// To the element of that index; from the end if it is negative, the last being -1.
    Index(i64),
}

/// A path that was read.
#[derive(Debug)]
pub(crate) struct Path<'a> {
    text: &'a str,
    is_legacy: bool,
    steps: Steps,
}

#[derive(Debug)]
enum Steps {
    /// To one place at most.
    Fixed(Vec<Step>),
    Query(Vec<Segment>),
}

impl<'a> Path<'a> {
    /// The root, in the older way: what commands take that are given no path.
    pub(crate) const LEGACY_ROOT: Path<'static> = Path { text: ".", is_legacy: true, steps: Steps::Fixed(Vec::new()) };

    /// Reads a path.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Path<'a>, Failure> {
        if text.len() > PATH_BYTES_MAX {
            return Err(Failure::Text("ERR a path has at most 4096 bytes"));
        }
        let text = std::str::from_utf8(text).map_err(|_| Failure::Text("ERR a path is text in UTF-8"))?;
        let is_legacy = !(text == "$" || text.starts_with("$.") || text.starts_with("$["));
        let steps = Reader::default().read_all(text, is_legacy).map_err(|reason| invalid(text, reason))?;
        Ok(Path { text, is_legacy, steps })
    }

    /// Whether it is of the older kind.
    pub(crate) fn is_legacy(&self) -> bool {
        self.is_legacy
    }

    /// Whether it is the root.
    pub(crate) fn is_root(&self) -> bool {
        matches!(&self.steps, Steps::Fixed(steps) if steps.is_empty())
    }

    /// The steps, if they lead to one place at most.
    pub(crate) fn fixed(&self) -> Option<&[Step]> {
        match &self.steps {
            Steps::Fixed(steps) => Some(steps),
            Steps::Query(_) => None,
        }
    }

    /// Where something stands in the document that the path means, in its order.
    pub(crate) fn places(&self, document: &Json, meter: &Meter) -> Result<Vec<Place>, Failure> {
        self.places_of(document, meter, |_| true).map(|places| places.into_iter().flatten().collect())
    }

    /// The same, where `is_wanted`: `None` stands for each of the others.
    pub(crate) fn places_of(
        &self,
        document: &Json,
        meter: &Meter,
        is_wanted: impl Fn(&Json) -> bool,
    ) -> Result<Vec<Option<Place>>, Failure> {
        let mut places = Vec::new();
        match &self.steps {
            Steps::Fixed(steps) => {
                if let Some(place) = place_of(document, steps, meter) {
                    places.push(Some(place));
                }
            }
            Steps::Query(segments) => {
                Walk { root: document, meter }.run(segments, &mut |value, trail| {
                    places.push(is_wanted(value).then(|| Trail::place(trail, meter)));
                    meter.spend(size_of::<Option<Place>>() as u64)
                });
            }
        }
        meter.check()?;
        Ok(places)
    }

    /// What the path means in the document, in its order.
    pub(crate) fn values<'d>(&self, document: &'d Json, meter: &Meter) -> Result<Vec<&'d Json>, Failure> {
        self.values_up_to(usize::MAX, document, meter)
    }

    fn values_up_to<'d>(&self, count: usize, document: &'d Json, meter: &Meter) -> Result<Vec<&'d Json>, Failure> {
        let mut values = Vec::new();
        match &self.steps {
            Steps::Fixed(steps) => {
                values.extend(place_of(document, steps, meter).and_then(|place| at(document, &place)));
            }
            Steps::Query(segments) => {
                Walk { root: document, meter }.run(segments, &mut |value, _| {
                    values.push(value);
                    meter.spend(size_of::<&Json>() as u64) && values.len() < count
                });
            }
        }
        meter.check()?;
        Ok(values)
    }

    /// The first that it means.
    pub(crate) fn find<'d>(&self, document: &'d Json, meter: &Meter) -> Result<Option<&'d Json>, Failure> {
        Ok(self.values_up_to(1, document, meter)?.first().copied())
    }

    /// The first that it means. A path of the older kind that means nothing is an error.
    pub(crate) fn first<'d>(&self, document: &'d Json, meter: &Meter) -> Result<&'d Json, Failure> {
        self.find(document, meter)?.ok_or_else(|| self.is_absent())
    }

    /// Why a path of the older kind is refused that means nothing.
    pub(crate) fn is_absent(&self) -> Failure {
        Failure::built(format!("ERR Path '{}' does not exist", self.text).as_bytes())
    }

    /// The same, where what is there may be of another type.
    pub(crate) fn is_absent_or(&self, what_else: &str) -> Failure {
        Failure::built(format!("ERR Path '{}' does not exist or {what_else}", self.text).as_bytes())
    }

    /// As the client wrote it.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }
}

/// The place to which steps lead, if something stands there.
pub(crate) fn place_of(document: &Json, steps: &[Step], meter: &Meter) -> Option<Place> {
    let mut value = document;
    let mut place = Vec::with_capacity(steps.len());
    for step in steps {
        meter.spend(LOOKUP);
        let hop = match step {
            Step::Name(name) => {
                value = value.as_object()?.get(name)?;
                Hop::Name(name.clone())
            }
            Step::Index(index) => {
                let items = value.as_array()?;
                let index = if *index < 0 {
                    items.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
                } else {
                    usize::try_from(*index).ok()?
                };
                value = items.get(index)?;
                Hop::Index(index)
            }
        };
        place.push(hop);
    }
    Some(place)
}

fn invalid(path: &str, reason: &str) -> Failure {
    Failure::built(format!("ERR invalid path '{path}': {reason}").as_bytes())
}

/// Reads a path step by step.
#[derive(Default)]
struct Reader<'a> {
    rest: &'a str,
    segments: Vec<Segment>,
    /// Something may mean several places.
    is_query: bool,
    brackets: usize,
    descents: usize,
}

impl<'a> Reader<'a> {
    fn read_all(mut self, text: &'a str, is_legacy: bool) -> Result<Steps, &'static str> {
        self.rest = text;
        if !is_legacy {
            self.rest = &text[1..];
        } else if text == "." {
            self.rest = "";
        } else if !text.starts_with(['.', '[']) {
            // A name or a star at the very beginning.
            self.child(false)?;
        }
        self.read()?;
        let is_out = |selector: &Selector| matches!(selector, Selector::Index(index) if !in_range(*index));
        if self.is_query {
            if self.segments.iter().flat_map(|segment| &segment.selectors).any(is_out) {
                return Err("an integer is out of range");
            }
            return Ok(Steps::Query(self.segments));
        }
        let steps =
            self.segments.into_iter().flat_map(|segment| segment.selectors).filter_map(|selector| match selector {
                Selector::Name(name) => Some(Step::Name(name)),
                Selector::Index(index) => Some(Step::Index(index)),
                _ => None,
            });
        Ok(Steps::Fixed(steps.collect()))
    }

    fn read(&mut self) -> Result<(), &'static str> {
        while !self.rest.is_empty() {
            if let Some(rest) = self.rest.strip_prefix("..") {
                self.rest = rest;
                self.descend()?;
                if rest.starts_with('[') { self.bracket(true)? } else { self.child(true)? }
            } else if self.rest.starts_with(".[") || self.rest.starts_with('[') {
                self.rest = self.rest.trim_start_matches('.');
                self.bracket(false)?;
            } else if let Some(rest) = self.rest.strip_prefix('.') {
                self.rest = rest;
                self.child(false)?;
            } else {
                return Err("a step begins with a dot or a bracket");
            }
        }
        Ok(())
    }

    fn descend(&mut self) -> Result<(), &'static str> {
        self.descents += 1;
        if self.descents > DESCENTS_MAX {
            return Err("it has more than 3 times '..'");
        }
        Ok(())
    }

    /// Adds a step; `is_query` if it may mean several places.
    fn push(&mut self, descends: bool, selectors: Vec<Selector>, is_query: bool) {
        self.is_query |= descends || is_query;
        self.segments.push(Segment { descends, selectors });
    }

    /// A name without quotes, or a star.
    fn child(&mut self, descends: bool) -> Result<(), &'static str> {
        let end = self.rest.find(['.', '[']).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        if name == "*" {
            self.push(descends, vec![Selector::All], true);
            return Ok(());
        }
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "]()'\"*?@,\\".contains(c);
        if name.is_empty() || name.contains(is_odd) {
            return Err("a name is missing, or needs brackets and quotes");
        }
        self.push(descends, vec![Selector::Name(name.to_owned())], false);
        Ok(())
    }

    /// What stands in brackets, which begin here.
    fn bracket(&mut self, descends: bool) -> Result<(), &'static str> {
        let length = self.bracket_length()?;
        let (inside, rest) = (self.rest[1..length - 1].trim(), &self.rest[length..]);
        self.rest = rest;
        if let Some(name) = quoted(inside) {
            self.push(descends, vec![Selector::Name(name)], false);
        } else if let Some(index) = crate::args::parse_integer(inside.as_bytes()) {
            self.push(descends, vec![Selector::Index(index)], false);
        } else {
            self.push(descends, selectors(inside)?, true);
        }
        Ok(())
    }

    /// The bytes up to the bracket that closes this one.
    fn bracket_length(&mut self) -> Result<usize, &'static str> {
        let (mut open, mut quote, mut is_escaped, mut before) = (0usize, None, false, ' ');
        for (index, c) in self.rest.char_indices() {
            match quote {
                Some(_) if is_escaped => is_escaped = false,
                Some(_) if c == '\\' => is_escaped = true,
                Some(by) if c == by => quote = None,
                Some(_) => {}
                None => match c {
                    '\'' | '"' => quote = Some(c),
                    '[' | '(' => {
                        open += 1;
                        self.brackets += 1;
                        if self.brackets > BRACKETS_MAX {
                            return Err("it has more than 128 brackets");
                        }
                    }
                    ']' | ')' => {
                        open = open.saturating_sub(1);
                        if open == 0 {
                            return if c == ']' { Ok(index + 1) } else { Err("a bracket is not closed") };
                        }
                    }
                    '.' if before == '.' => {
                        self.descents += 1;
                        if self.descents > DESCENTS_MAX {
                            return Err("it has more than 3 times '..'");
                        }
                    }
                    _ => {}
                },
            }
            before = c;
        }
        Err("a bracket is not closed")
    }
}

/// The name that is all of this, in quotes of either kind.
fn quoted(text: &str) -> Option<String> {
    let by = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inside = text.strip_prefix(by)?.strip_suffix(by)?;
    let mut name = String::with_capacity(inside.len() + 2);
    name.push('"');
    let mut characters = inside.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next()? {
                '\'' => name.push('\''),
                escaped => name.extend(['\\', escaped]),
            },
            // A list of names.
            c if c == by => return None,
            '"' => name.push_str("\\\""),
            c => name.push(c),
        }
    }
    name.push('"');
    serde_json::from_str(&name).ok()
}

#[cfg(test)]
mod tests;
