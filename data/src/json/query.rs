//! Queries of RFC 9535 (JSONPath): all paths that may mean several places.
//!
//! ```text
//!   text ─► parse.rs ─► Segment, Selector, Test … ─► walk.rs ─► each value that is meant, in its order, with its place
//! ```
//! The parser decides by the next character and never goes back, so its time is linear in the text. The walk goes through the document depth first and
//! keeps nothing but the way to where it is; each step pays ([`crate::meter`]), and it ends when the meter does.
//!
//! Both stand where the library `serde_json_path` 0.7 stood, and mean what it meant: entries written before this engine give the same again. Its peculiarities are
//! listed in docs/decisions/2026-11-27-jsonpath.md.

mod compare;
mod parse;
mod pattern;
mod walk;

use super::Json;
use pattern::Compiled;

pub(crate) use parse::{in_range, selectors};
pub(crate) use walk::{Trail, Walk};

/// Most filters inside one another.
pub(crate) const FILTERS_DEEP_MAX: usize = 32;

/// A step of a query: from each value that was found so far to all that its selectors mean.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// `..`: from all values below, too.
    pub descends: bool,
    /// What is meant, in this order.
    pub selectors: Vec<Selector>,
}

/// What a step means in an array or an object.
#[derive(Clone, Debug)]
pub(crate) enum Selector {
    /// The member of that name.
    Name(String),
    /// All elements or members.
    All,
    /// The element of that index; from the end if it is negative.
    Index(i64),
    /// Some elements.
    Slice(Slice),
    /// All elements or members that pass the test.
    Filter(Any),
}

/// `start:end:step`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slice {
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub step: Option<i64>,
}

/// Passed if all tests of one of the lists are.
#[derive(Clone, Debug)]
pub(crate) struct Any(pub Vec<Vec<Test>>);

/// A part of a filter. `is_negated`: it is passed if the rest of it is not.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// Another expression, in parentheses.
    Group { is_negated: bool, any: Any },
    /// A query finds something.
    Exists { is_negated: bool, query: Query },
    /// `match(text, pattern)` or `search(text, pattern)`.
    Matches { is_negated: bool, matches: Box<Matches> },
    /// `left operator right`.
    Comparison { left: Operand, by: Operator, right: Operand },
}

/// A query inside a filter.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// From the root (`$`), and not from the value that is tested (`@`).
    pub is_absolute: bool,
    pub segments: Vec<Segment>,
}

impl Query {
    /// Whether it means one place at most.
    pub(crate) fn is_singular(&self) -> bool {
        self.segments.iter().all(|segment| {
            !segment.descends && matches!(&segment.selectors[..], [Selector::Name(_) | Selector::Index(_)])
        })
    }
}

/// One side of a comparison, or what a function is given.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Literal(Json),
    /// A singular query.
    One(Query),
    /// `length(…)`.
    Length(Box<Operand>),
    /// `count(…)`.
    Count(Query),
    /// `value(…)`.
    Value(Query),
}

/// How two operands are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A text and a regular expression that is looked for in it.
#[derive(Clone, Debug)]
pub(crate) struct Matches {
    /// The whole text has to match.
    pub is_whole: bool,
    pub text: Operand,
    pub pattern: Operand,
    /// A pattern that stands in the path is compiled once.
    pub compiled: Compiled,
}

#[cfg(test)]
mod tests;
