//! Paths into documents, as RedisJSON has them: JSONPath (`$.a[0]`), which answers with all that it finds, and the older kind (`.a[0]`), which answers with
//! the first.
//!
//! A path that names one place only is followed here. All others are those of RFC 9535, which a library knows; before it reads one, names are put in
//! quotes that stand there without (RedisJSON takes more characters in them), and what could make it recurse deeply or go through a document again and again is refused.

use super::{Json, at};
use crate::failure::Failure;
use serde_json_path::JsonPath;

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 4096;
/// Most brackets and parentheses of one path: each makes its parser recurse.
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
    Query(Box<JsonPath>),
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
        let read = |query| Reader::new(query).read_all(text, is_legacy).map_err(|reason| invalid(text, reason));
        let steps = match read(None)?.steps {
            Some(steps) => Steps::Fixed(steps),
            None => {
                let query = read(Some("$".to_owned()))?.query.unwrap_or_default();
                let path = JsonPath::parse(&query).map_err(|error| invalid(text, &error.to_string()))?;
                Steps::Query(Box::new(path))
            }
        };
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
    pub(crate) fn places(&self, document: &Json) -> Vec<Place> {
        match &self.steps {
            Steps::Fixed(steps) => place_of(document, steps).into_iter().collect(),
            Steps::Query(path) => {
                let found = path.query_located(document);
                let places = found.iter().map(|node| {
                    let hops = node.location().iter().map(|element| match (element.as_name(), element.as_index()) {
                        (Some(name), _) => Hop::Name(name.to_owned()),
                        (None, index) => Hop::Index(index.unwrap_or(usize::MAX)),
                    });
                    hops.collect()
                });
                places.collect()
            }
        }
    }

    /// What the path means in the document, in its order.
    pub(crate) fn values<'d>(&self, document: &'d Json) -> Vec<&'d Json> {
        match &self.steps {
            Steps::Fixed(steps) => {
                place_of(document, steps).and_then(|place| at(document, &place)).into_iter().collect()
            }
            Steps::Query(path) => path.query(document).all(),
        }
    }

    /// The first that it means. A path of the older kind that means nothing is an error.
    pub(crate) fn first<'d>(&self, document: &'d Json) -> Result<&'d Json, Failure> {
        self.values(document).first().copied().ok_or_else(|| self.is_absent())
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
pub(crate) fn place_of(document: &Json, steps: &[Step]) -> Option<Place> {
    let mut value = document;
    let mut place = Vec::with_capacity(steps.len());
    for step in steps {
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

/// Reads a path step by step: into steps, as long as each means one place, and into a query of RFC 9535 if one is wanted.
struct Reader<'a> {
    rest: &'a str,
    steps: Option<Vec<Step>>,
    query: Option<String>,
    brackets: usize,
    descents: usize,
}

impl<'a> Reader<'a> {
    fn new(query: Option<String>) -> Reader<'a> {
        Reader { rest: "", steps: Some(Vec::new()), query, brackets: 0, descents: 0 }
    }

    fn read_all(mut self, text: &'a str, is_legacy: bool) -> Result<Reader<'a>, &'static str> {
        self.rest = text;
        if !is_legacy {
            self.rest = &text[1..];
        } else if text == "." {
            self.rest = "";
        } else if !text.starts_with(['.', '[']) {
            // A name or a star at the very beginning.
            self.child(true)?;
        }
        self.read()?;
        Ok(self)
    }

    /// Adds to the query, if one is wanted.
    fn ask(&mut self, part: &str) {
        if let Some(query) = &mut self.query {
            query.push_str(part);
        }
    }

    fn read(&mut self) -> Result<(), &'static str> {
        while !self.rest.is_empty() {
            if let Some(rest) = self.rest.strip_prefix("..") {
                self.rest = rest;
                self.descend()?;
                if rest.starts_with('[') { self.bracket(true)? } else { self.child(false)? }
            } else if self.rest.starts_with(".[") || self.rest.starts_with('[') {
                self.rest = self.rest.trim_start_matches('.');
                self.bracket(false)?;
            } else if let Some(rest) = self.rest.strip_prefix('.') {
                self.rest = rest;
                self.child(true)?;
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
        self.steps = None;
        self.ask("..");
        Ok(())
    }

    /// A name without quotes, or a star.
    fn child(&mut self, is_step: bool) -> Result<(), &'static str> {
        let end = self.rest.find(['.', '[']).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        if name == "*" {
            self.steps = None;
            self.ask("[*]");
            return Ok(());
        }
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "]()'\"*?@,\\".contains(c);
        if name.is_empty() || name.contains(is_odd) {
            return Err("a name is missing, or needs brackets and quotes");
        }
        self.push(Step::Name(name.to_owned()), is_step);
        Ok(())
    }

    fn push(&mut self, step: Step, is_step: bool) {
        if let Some(query) = &mut self.query {
            query.push_str(&match &step {
                Step::Name(name) => format!("[{}]", Json::from(name.as_str())),
                Step::Index(index) => format!("[{index}]"),
            });
        }
        if is_step && let Some(steps) = &mut self.steps {
            steps.push(step);
        }
    }

    /// What stands in brackets, which begin here.
    fn bracket(&mut self, is_below: bool) -> Result<(), &'static str> {
        let length = self.bracket_length()?;
        let (inside, rest) = (self.rest[1..length - 1].trim(), &self.rest[length..]);
        self.rest = rest;
        if let Some(name) = quoted(inside) {
            self.push(Step::Name(name), !is_below);
        } else if let Some(index) = crate::args::parse_integer(inside.as_bytes()) {
            self.push(Step::Index(index), !is_below);
        } else {
            self.steps = None;
            self.ask("[");
            self.ask(inside);
            self.ask("]");
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
