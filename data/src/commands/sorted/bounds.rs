//! Scores, and parts of a sorted set, as clients write them.

use crate::collections::Collections;
use crate::collections::ranked::order_of;
use crate::commands::prelude::*;
use crate::commands::string::extended::Extended;
use std::ops::ControlFlow;

/// A number as `strtod` reads it, and nothing behind it; what is too large is infinite.
fn read_number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.contains(['x', 'X']) {
        return Extended::parse(text.as_bytes()).map(|number| number.to_f64());
    }
    text.parse().ok().filter(|number: &f64| !number.is_nan())
}

/// A score: a number that is neither too large nor too small, or an infinity that is called so.
pub(crate) fn parse_score(text: &[u8]) -> Option<f64> {
    let number = read_number(text)?;
    let says_infinity = text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'n'));
    let digits = text.split(|byte| byte.eq_ignore_ascii_case(&b'e')).next().unwrap_or_default();
    let vanishes = number == 0.0
        && !text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'x'))
        && digits.iter().any(|byte| (b'1'..=b'9').contains(byte));
    (number.is_finite() != says_infinity && !vanishes).then_some(number + 0.0)
}

/// A score among which to begin or to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoreBound {
    score: f64,
    exclusive: bool,
}

impl ScoreBound {
    pub(crate) fn parse(text: &[u8]) -> Result<ScoreBound, Failure> {
        let (exclusive, text) = match text {
            [b'(', text @ ..] => (true, text),
            text => (false, text),
        };
        // As strtod: blanks before it, and nothing at all for zero.
        let trimmed = text.trim_ascii_start();
        let score = if text.is_empty() { Some(0.0) } else { read_number(trimmed) };
        Ok(ScoreBound { score: score.ok_or(Failure::Text("ERR min or max is not a float"))?, exclusive })
    }
}

/// A member at which to begin or to end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LexBound<'a> {
    First,
    Last,
    Including(&'a [u8]),
    Excluding(&'a [u8]),
}

impl<'a> LexBound<'a> {
    pub(crate) fn parse(text: &'a [u8]) -> Result<LexBound<'a>, Failure> {
        match text {
            b"-" => Ok(LexBound::First),
            b"+" => Ok(LexBound::Last),
            [b'[', member @ ..] => Ok(LexBound::Including(member)),
            [b'(', member @ ..] => Ok(LexBound::Excluding(member)),
            _ => Err(Failure::Text("ERR min or max not valid string range item")),
        }
    }
}

/// A part of a sorted set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Span<'a> {
    /// From one rank to another, negative ones counted from the end.
    Ranks(i64, i64),
    Scores(ScoreBound, ScoreBound),
    Members(LexBound<'a>, LexBound<'a>),
}

impl Span<'_> {
    /// The ranks that it is, from the lowest score: from, and the end. `reverse`: ranks are meant from the highest score.
    pub(crate) fn ranks(self, collections: &Collections, of: Collection, reverse: bool) -> (u64, u64) {
        let (from, end) = match self {
            Span::Ranks(start, stop) => {
                let len = i64::try_from(of.len()).unwrap_or(i64::MAX);
                let from_end = |rank: i64| if rank < 0 { rank.saturating_add(len) } else { rank };
                let (start, stop) = (from_end(start).max(0), from_end(stop).min(len - 1));
                if start > stop {
                    return (0, 0);
                }
                let (from, end) = if reverse { (len - 1 - stop, len - start) } else { (start, stop + 1) };
                (from as u64, end as u64)
            }
            Span::Scores(least, most) => {
                let (low, high) = (order_of(least.score), order_of(most.score));
                let before = |at: u64, _: &[u8]| if least.exclusive { at <= low } else { at < low };
                let up_to = |at: u64, _: &[u8]| if most.exclusive { at < high } else { at <= high };
                (collections.rank_of(of, &before), collections.rank_of(of, &up_to))
            }
            Span::Members(least, most) => {
                let before = |_: u64, member: &[u8]| match least {
                    LexBound::First => false,
                    LexBound::Last => true,
                    LexBound::Including(bound) => member < bound,
                    LexBound::Excluding(bound) => member <= bound,
                };
                let up_to = |_: u64, member: &[u8]| match most {
                    LexBound::First => false,
                    LexBound::Last => true,
                    LexBound::Including(bound) => member <= bound,
                    LexBound::Excluding(bound) => member < bound,
                };
                (collections.rank_of(of, &before), collections.rank_of(of, &up_to))
            }
        };
        (from, end.max(from))
    }
}

/// A part of a sorted set in a direction, and perhaps only some of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub span: Span<'a>,
    pub reverse: bool,
    /// How many to leave out, and how many to take; a negative number of them is all.
    pub limit: Option<(i64, i64)>,
}

impl Part<'_> {
    /// The members in their order, with their scores; an error if they are too large for one answer.
    pub(crate) fn read(self, collections: &Collections, of: Collection) -> Result<Vec<(Blob, f64)>, Failure> {
        self.read_as(collections, of, |member, score| (member.clone(), score))
    }

    /// What `make` makes of each member and its score.
    pub(crate) fn read_as<T>(
        self,
        collections: &Collections,
        of: Collection,
        make: impl Fn(&Blob, f64) -> T,
    ) -> Result<Vec<T>, Failure> {
        if let Some(((from, end), skipped, room)) = self.by_score() {
            let mut found = Found::new(room, make, collections.meter.answer_max());
            collections.visit_scores(of.number(), (from, end), skipped, |member, score| found.take(member, score));
            return found.end(self.reverse);
        }
        let (mut from, mut end) = self.span.ranks(collections, of, self.reverse);
        if let Some((offset, count)) = self.limit {
            let Ok(offset) = u64::try_from(offset) else { return Ok(Vec::new()) };
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            if self.reverse {
                end = end.saturating_sub(offset);
                from = from.max(end.saturating_sub(count));
            } else {
                from = from.saturating_add(offset);
                end = end.min(from.saturating_add(count));
            }
        }
        read_ranks_as(collections, of, (from, end), self.reverse, make)
    }

    /// Where it can be read without a look at ranks: from which order of scores up to which, and of that how many members to leave out and to take.
    fn by_score(self) -> Option<((u64, u64), usize, usize)> {
        let Span::Scores(least, most) = self.span else { return None };
        let (skipped, room) = match self.limit {
            None => (0, usize::MAX),
            Some((offset, count)) if !self.reverse => {
                let skipped = usize::try_from(offset).ok().filter(|offset| *offset <= SKIPPED_MAX)?;
                (skipped, usize::try_from(count).unwrap_or(usize::MAX))
            }
            Some(_) => return None,
        };
        let from = order_of(least.score).saturating_add(u64::from(least.exclusive));
        let end = order_of(most.score).saturating_add(u64::from(!most.exclusive));
        Some(((from, end), skipped, room))
    }
}

/// The members from one rank up to another, from the lowest score on or backwards.
pub(crate) fn read_ranks(
    collections: &Collections,
    of: Collection,
    ranks: (u64, u64),
    reverse: bool,
) -> Result<Vec<(Blob, f64)>, Failure> {
    read_ranks_as(collections, of, ranks, reverse, |member, score| (member.clone(), score))
}

fn read_ranks_as<T>(
    collections: &Collections,
    of: Collection,
    (from, end): (u64, u64),
    reverse: bool,
    make: impl Fn(&Blob, f64) -> T,
) -> Result<Vec<T>, Failure> {
    let mut found = Found::new(
        usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX),
        make,
        collections.meter.answer_max(),
    );
    if from < end {
        collections.visit_ranked(of, from, |member, score| found.take(member, score));
    }
    found.end(reverse)
}

/// Members as they come.
struct Found<T, F> {
    members: Vec<T>,
    make: F,
    /// How many more are taken.
    room: usize,
    bytes: u64,
    bytes_max: u64,
}

impl<T, F: Fn(&Blob, f64) -> T> Found<T, F> {
    fn new(room: usize, make: F, bytes_max: u64) -> Self {
        Found { members: Vec::with_capacity(room.min(ROOM_AT_ONCE)), make, room, bytes: 0, bytes_max }
    }

    fn take(&mut self, member: &Blob, score: f64) -> ControlFlow<()> {
        if self.members.len() >= self.room {
            return ControlFlow::Break(());
        }
        self.bytes += member.len() as u64 + MEMBER_BYTES;
        if self.bytes > self.bytes_max {
            return ControlFlow::Break(());
        }
        self.members.push((self.make)(member, score));
        if self.members.len() < self.room { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// All of them, or backwards; an error if they are too large for one answer.
    fn end(mut self, reverse: bool) -> Result<Vec<T>, Failure> {
        if self.bytes > self.bytes_max {
            return Err(Failure::Text("ERR so many members are too large for one answer"));
        }
        if reverse {
            self.members.reverse();
        }
        Ok(self.members)
    }
}

/// Room for so many members at most is made before the first of them is seen.
const ROOM_AT_ONCE: usize = 1024;

/// So many members of a span of scores are passed over one by one; more, by their ranks.
const SKIPPED_MAX: usize = if cfg!(test) { 3 } else { 256 };

/// What a member of an answer takes beside its bytes.
const MEMBER_BYTES: u64 = 64;

/// Members as they are answered, with or without their scores.
pub(crate) fn answer(members: Vec<(Blob, f64)>, with_scores: bool) -> Reply {
    let members = members.into_iter();
    if with_scores {
        Reply::Pairs(members.map(|(member, score)| (Reply::Bulk(member), Reply::Double(score))).collect())
    } else {
        Reply::Array(members.map(|(member, _)| Reply::Bulk(member)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_read_as_redis_reads_them() {
        for (text, score) in [
            ("1", Some(1.0)),
            ("-1.5e3", Some(-1500.0)),
            (".5", Some(0.5)),
            ("1.", Some(1.0)),
            ("+2", Some(2.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("0x1p4", Some(16.0)),
            ("0x1.8", Some(1.5)),
            ("0X0p9", Some(0.0)),
            ("0e5000", Some(0.0)),
            ("1e5000", None),
            ("1e-5000", None),
            ("nan", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("1x", None),
        ] {
            assert_eq!(parse_score(text.as_bytes()), score, "{text}");
        }
    }
}
