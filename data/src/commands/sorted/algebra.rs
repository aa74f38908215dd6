//! Unions, intersections and differences of sorted sets: `ZUNION`, `ZINTER`, `ZDIFF` and their relatives. Sets take part, too: their members have the score 1.

use super::bounds::answer;
use crate::args::parse_integer;
use crate::collections::Collections;
use crate::collections::ranked::{Standing, order_of};
use crate::commands::prelude::*;
use crate::commands::set::algebra::Operation;
use base::versions::Feature;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// What becomes of the scores that a member has in several sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // Infinities of both signs are nothing.
            Aggregate::Sum => Some(one + other).filter(|sum| !sum.is_nan()).unwrap_or(0.0),
            // One that is no number changes nothing.
            Aggregate::Min => one.min(other),
            Aggregate::Max => one.max(other),
        }
    }
}

/// Several sets, and what is asked for.
pub(crate) struct Combined<'a> {
    operation: Operation,
    keys: &'a [&'a [u8]],
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
}

/// Where a member's score is in one of the sets.
#[derive(Clone, Copy)]
struct Source {
    kind: Kind,
    of: Collection,
    weight: f64,
}

impl Source {
    /// The score of the element that has this value: what is no number, infinity times nothing, counts as 0.
    fn score(self, value: &[u8]) -> f64 {
        Some(self.product(value)).filter(|score| !score.is_nan()).unwrap_or(0.0)
    }

    /// The same, if it is a number.
    fn product(self, value: &[u8]) -> f64 {
        let score = match self.kind {
            Kind::SortedSet => Standing::read(value).map_or(0.0, |standing| standing.score),
            _ => 1.0,
        };
        score * self.weight
    }
}

type Words<'a> = &'a [&'a [u8]];

/// The kind and the collection of a key that takes part.
pub(crate) fn part_of(record: Option<Record>) -> Result<Option<(Kind, Collection)>, Failure> {
    let Some(record) = record else { return Ok(None) };
    let found = record.value.elements().filter(|(kind, _)| matches!(kind, Kind::Set | Kind::SortedSet));
    found.map(Some).ok_or(Failure::WrongType)
}

/// The keys, of which the argument at `first` says how many, and what follows them. `name` is the command's.
pub(crate) fn input_keys<'a>(
    args: Args<'a>,
    first: usize,
    name: &'static str,
) -> Result<(Words<'a>, Words<'a>), Failure> {
    let count = parse_integer(args.get(first)?).ok_or(Failure::NotAnInteger)?;
    let count = usize::try_from(count).ok().filter(|count| *count > 0);
    let none = || Failure::built(format!("ERR at least 1 input key is needed for '{name}' command").as_bytes());
    args.from(first + 1).split_at_checked(count.ok_or_else(none)?).ok_or(Failure::Syntax)
}

impl<'a> Combined<'a> {
    /// How many keys at `first`, the keys and options. `name` is the command's.
    pub(crate) fn parse(
        args: Args<'a>,
        first: usize,
        operation: Operation,
        name: &'static str,
        stored: bool,
    ) -> Result<Self, Failure> {
        let (keys, options) = input_keys(args, first, name)?;
        let mut weights = vec![1.0; keys.len()];
        let (mut aggregate, mut with_scores) = (Aggregate::Sum, false);
        let mut rest = options;
        while let Some((option, after)) = rest.split_first() {
            let weighs = operation != Operation::Difference;
            rest = after;
            if weighs && option.eq_ignore_ascii_case(b"WEIGHTS") {
                let (given, after) = rest.split_at_checked(keys.len()).ok_or(Failure::Syntax)?;
                for (weight, text) in weights.iter_mut().zip(given) {
                    *weight =
                        super::bounds::parse_score(text).ok_or(Failure::Text("ERR weight value is not a float"))?;
                }
                rest = after;
            } else if weighs && option.eq_ignore_ascii_case(b"AGGREGATE") {
                let (given, after) = rest.split_first().ok_or(Failure::Syntax)?;
                aggregate = match given.to_ascii_uppercase().as_slice() {
                    b"SUM" => Aggregate::Sum,
                    b"MIN" => Aggregate::Min,
                    b"MAX" => Aggregate::Max,
                    _ => return Err(Failure::Syntax),
                };
                rest = after;
            } else if !stored && option.eq_ignore_ascii_case(b"WITHSCORES") {
                with_scores = true;
            } else {
                return Err(Failure::Syntax);
            }
        }
        Ok(Combined { operation, keys, weights, aggregate, with_scores })
    }

    /// What comes out, in the order of scores.
    fn result(
        &self,
        collections: &Collections,
        parts: &[Option<(Kind, Collection)>],
        version: u16,
    ) -> Result<Vec<(Blob, f64)>, Failure> {
        let mut sources: Vec<Source> = parts
            .iter()
            .zip(&self.weights)
            .filter_map(|(part, weight)| part.map(|(kind, of)| Source { kind, of, weight: *weight }))
            .collect();
        // As in a Redis: from the smallest on, and of an intersection the others' scores are added as they are.
        let as_redis = Feature::AsRedis.is_in(version);
        if as_redis && self.operation != Operation::Difference {
            sources.sort_by_key(|source| source.of.len());
        }
        let raw = as_redis && self.operation == Operation::Intersection;
        let sets: Vec<Option<Collection>> = parts.iter().map(|part| part.map(|(_, of)| of)).collect();
        let mut found: BTreeMap<(u64, Blob), f64> = BTreeMap::new();
        let mut bytes = 0;
        let walked = self.operation.walk(collections, &sets, &mut |order, member| {
            if let std::collections::btree_map::Entry::Vacant(place) = found.entry((order, member)) {
                let (order, member) = place.key();
                bytes += member.len() as u64 + 64;
                let score = |(place, source): (usize, &Source)| {
                    let value = collections.element(source.of, *order, member)?;
                    Some(if raw && place > 0 { source.product(&value) } else { source.score(&value) })
                };
                // Of a difference the first alone.
                let taking = if self.operation == Operation::Difference { 1 } else { sources.len() };
                let scores = sources.iter().enumerate().take(taking).filter_map(score);
                let score = scores.reduce(|one, other| self.aggregate.of(one, other)).unwrap_or(0.0);
                place.insert(score);
            }
            if bytes > collections.meter.answer_max() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if walked.is_break() {
            return Err(Failure::Text("ERR what comes out is too large"));
        }
        let mut members: Vec<(Blob, f64)> = found.into_iter().map(|((_, member), score)| (member, score)).collect();
        members.sort_unstable_by(|one, other| (order_of(one.1), &one.0).cmp(&(order_of(other.1), &other.0)));
        Ok(members)
    }

    pub(crate) fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let parts = self.keys.iter().map(|key| part_of(view.get(KeyRef::new(key)))).collect::<Result<Vec<_>, _>>()?;
        Ok(answer(self.result(view.collections(), &parts, view.version())?, self.with_scores))
    }

    pub(crate) fn store(self, tx: &mut Transaction<'_>, destination: KeyRef<'_>) -> Result<Reply, Failure> {
        let mut parts = Vec::with_capacity(self.keys.len());
        for key in self.keys {
            parts.push(part_of(tx.get(KeyRef::new(key)))?);
        }
        let members = self.result(&tx.tree().collections, &parts, tx.version())?;
        Ok(tx.store_sorted(destination, members))
    }
}
