//! Goes through a document as a query says.

use super::compare::is_passed;
use super::{Any, Matches, Operand, Query, Segment, Selector, Slice, Test};
use crate::json::Json;
use crate::json::path::{Hop, Place};
use crate::meter::Meter;

/// The way from the root to a value, step by step upwards: it stands on the stack of the walk.
#[derive(Clone, Copy)]
pub(crate) struct Trail<'a> {
    up: Option<&'a Trail<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

impl Trail<'_> {
    /// The place to which it leads. Paid by its bytes, as it is kept until the command is over.
    pub(crate) fn place(trail: Option<&Trail<'_>>, meter: &Meter) -> Place {
        let mut place = Vec::new();
        let mut bytes = size_of::<Place>();
        let mut here = trail;
        while let Some(trail) = here {
            let hop = match trail.step {
                Step::Index(index) => Hop::Index(index),
                Step::Name(name) => Hop::Name(name.to_owned()),
            };
            bytes += hop.bytes();
            place.push(hop);
            here = trail.up;
        }
        place.reverse();
        meter.spend(bytes as u64);
        place
    }
}

/// Called with each value that is found, and the way to it. Whether the walk shall go on.
type Found<'f, 'd> = dyn FnMut(&'d Json, Option<&Trail<'_>>) -> bool + 'f;

/// A walk through a document. Every value that is looked at pays.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'d, 'm> {
    pub root: &'d Json,
    pub meter: &'m Meter,
}

/// What an operand is worth.
#[derive(Clone, Copy)]
pub(super) enum Worth<'v> {
    Nothing,
    Value(&'v Json),
    Number(u64),
}

impl<'d> Walk<'d, '_> {
    /// Finds what the query's steps mean from the root on. Each step goes down, so this recurses no deeper than the document is nested, for each query
    /// around. False once it shall not go on.
    pub(crate) fn run(&self, segments: &[Segment], found: &mut Found<'_, 'd>) -> bool {
        self.segments(self.root, None, segments, found)
    }

    fn segments(
        &self,
        at: &'d Json,
        trail: Option<&Trail<'_>>,
        segments: &[Segment],
        found: &mut Found<'_, 'd>,
    ) -> bool {
        match segments.split_first() {
            Some((segment, rest)) => self.segment(at, trail, segment, rest, found),
            None => found(at, trail),
        }
    }

    fn segment(
        &self,
        at: &'d Json,
        trail: Option<&Trail<'_>>,
        segment: &Segment,
        rest: &[Segment],
        found: &mut Found<'_, 'd>,
    ) -> bool {
        for selector in &segment.selectors {
            if !self.selector(at, trail, selector, rest, found) {
                return false;
            }
        }
        !segment.descends
            || self.each_child(at, trail, &mut |child, trail| self.segment(child, Some(trail), segment, rest, found))
    }

    fn selector(
        &self,
        at: &'d Json,
        trail: Option<&Trail<'_>>,
        selector: &Selector,
        rest: &[Segment],
        found: &mut Found<'_, 'd>,
    ) -> bool {
        if !self.meter.visit(0) {
            return false;
        }
        match selector {
            Selector::Name(name) => {
                self.meter.bytes(name.len());
                let Some((name, child)) = at.as_object().and_then(|members| members.get_key_value(name)) else {
                    return true;
                };
                self.segments(child, Some(&Trail { up: trail, step: Step::Name(name) }), rest, found)
            }
            Selector::Index(index) => self.element(at, trail, from_end(*index, at), rest, found),
            Selector::All => {
                self.each_child(at, trail, &mut |child, trail| self.segments(child, Some(trail), rest, found))
            }
            Selector::Slice(slice) => {
                let Some(items) = at.as_array() else { return true };
                slice
                    .indices(items.len())
                    .all(|index| self.meter.visit(0) && self.element(at, trail, Some(index), rest, found))
            }
            Selector::Filter(any) => self.each_child(at, trail, &mut |child, trail| {
                let is_passed = self.passes_any(child, any);
                !self.meter.is_over() && (!is_passed || self.segments(child, Some(trail), rest, found))
            }),
        }
    }

    fn element(
        &self,
        at: &'d Json,
        trail: Option<&Trail<'_>>,
        index: Option<usize>,
        rest: &[Segment],
        found: &mut Found<'_, 'd>,
    ) -> bool {
        let child = index.and_then(|index| Some((index, at.as_array()?.get(index)?)));
        let Some((index, child)) = child else { return true };
        self.segments(child, Some(&Trail { up: trail, step: Step::Index(index) }), rest, found)
    }

    /// Each element or member, in order.
    fn each_child(
        &self,
        at: &'d Json,
        up: Option<&Trail<'_>>,
        act: &mut dyn FnMut(&'d Json, &Trail<'_>) -> bool,
    ) -> bool {
        match at {
            Json::Array(items) => items
                .iter()
                .enumerate()
                .all(|(index, child)| self.meter.visit(0) && act(child, &Trail { up, step: Step::Index(index) })),
            Json::Object(members) => members
                .iter()
                .all(|(name, child)| self.meter.visit(0) && act(child, &Trail { up, step: Step::Name(name) })),
            _ => true,
        }
    }

    fn passes_any(&self, at: &'d Json, any: &Any) -> bool {
        any.0.iter().any(|tests| tests.iter().all(|test| self.passes(at, test)))
    }

    fn passes(&self, at: &'d Json, test: &Test) -> bool {
        // A test costs as much as a value.
        if !self.meter.visit(0) {
            return false;
        }
        match test {
            Test::Group { is_negated, any } => self.passes_any(at, any) != *is_negated,
            Test::Exists { is_negated, query } => (self.count(at, query, 1) > 0) != *is_negated,
            Test::Matches { is_negated, matches } => self.matches(at, matches) != *is_negated,
            Test::Comparison { left, by, right } => {
                is_passed(self.worth(at, left), *by, self.worth(at, right), self.meter)
            }
        }
    }

    /// How many values a query finds; it ends with `up_to`.
    fn count(&self, at: &'d Json, query: &Query, up_to: u64) -> u64 {
        let mut count = 0;
        let from = if query.is_absolute { self.root } else { at };
        self.segments(from, None, &query.segments, &mut |_, _| {
            count += 1;
            count < up_to
        });
        count
    }

    fn matches(&self, at: &'d Json, matches: &Matches) -> bool {
        let (text, pattern) = (self.worth(at, &matches.text), self.worth(at, &matches.pattern));
        let (Worth::Value(Json::String(text)), Worth::Value(Json::String(pattern))) = (text, pattern) else {
            return false;
        };
        if let Operand::Literal(_) = matches.pattern {
            return matches.compiled.is_match(matches.is_whole, pattern, text, self.meter);
        }
        super::pattern::Compiled::default().is_match(matches.is_whole, pattern, text, self.meter)
    }

    fn worth<'v>(&self, at: &'d Json, operand: &'v Operand) -> Worth<'v>
    where
        'd: 'v,
    {
        match operand {
            Operand::Literal(value) => Worth::Value(value),
            Operand::One(query) => self.one(at, query).map_or(Worth::Nothing, Worth::Value),
            Operand::Length(of) => match self.worth(at, of) {
                Worth::Value(Json::String(text)) => {
                    self.meter.bytes(text.len());
                    Worth::Number(text.chars().count() as u64)
                }
                Worth::Value(Json::Array(items)) => Worth::Number(items.len() as u64),
                Worth::Value(Json::Object(members)) => Worth::Number(members.len() as u64),
                _ => Worth::Nothing,
            },
            Operand::Count(query) if query.is_singular() => Worth::Number(u64::from(self.one(at, query).is_some())),
            Operand::Count(query) => Worth::Number(self.count(at, query, u64::MAX)),
            Operand::Value(query) if query.is_singular() => self.one(at, query).map_or(Worth::Nothing, Worth::Value),
            Operand::Value(query) => {
                let (mut value, mut count) = (None, 0);
                let from = if query.is_absolute { self.root } else { at };
                self.segments(from, None, &query.segments, &mut |found, _| {
                    value = Some(found);
                    count += 1;
                    count < 2
                });
                value.filter(|_| count == 1).map_or(Worth::Nothing, Worth::Value)
            }
        }
    }

    /// What a singular query means. One with an index from the end means nothing where it is compared: so it was in the first engine, and entries keep their
    /// meaning.
    fn one(&self, at: &'d Json, query: &Query) -> Option<&'d Json> {
        let from = if query.is_absolute { self.root } else { at };
        query.segments.iter().try_fold(from, |at, segment| {
            self.meter.visit(0);
            match segment.selectors.first()? {
                Selector::Name(name) => {
                    self.meter.bytes(name.len());
                    at.as_object()?.get(name)
                }
                Selector::Index(index) => at.as_array()?.get(usize::try_from(*index).ok()?),
                _ => None,
            }
        })
    }
}

/// The index of an element, if it is there.
fn from_end(index: i64, at: &Json) -> Option<usize> {
    let len = at.as_array()?.len();
    if index < 0 { len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?) } else { usize::try_from(index).ok() }
}

impl Slice {
    /// The indices that it means in an array of that length, in its order.
    fn indices(self, len: usize) -> impl Iterator<Item = usize> {
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        let step = self.step.unwrap_or(1);
        let from_end = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
        let (mut next, end) = if step < 0 {
            let from =
                |index: Option<i64>, default: i64| index.map_or(default, |index| from_end(index).clamp(-1, len - 1));
            (from(self.start, len - 1), from(self.end, -1))
        } else {
            let from = |index: Option<i64>, default: i64| index.map_or(default, |index| from_end(index).clamp(0, len));
            (from(self.start, 0), from(self.end, len))
        };
        std::iter::from_fn(move || {
            let is_inside = if step < 0 { next > end } else { step > 0 && next < end };
            let index = usize::try_from(next).ok().filter(|_| is_inside)?;
            next = next.saturating_add(step);
            Some(index)
        })
    }
}
