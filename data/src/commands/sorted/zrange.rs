//! `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`, and what it and its relatives have in common

use super::bounds::{LexBound, Part, ScoreBound, Span, answer};
use crate::commands::prelude::*;

/// What of a sorted set is asked for: by what, and in which direction, unless options say so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    Rank,
    Score,
    Member,
}

/// A part of a sorted set.
pub(crate) struct Asked<'a> {
    pub key: KeyRef<'a>,
    pub part: Part<'a>,
    pub with_scores: bool,
}

impl<'a> Asked<'a> {
    /// The key at `first`, two bounds behind it, and options. `by` and `reverse` where the command itself says so. What is `stored` has scores anyway.
    pub(crate) fn parse(
        args: Args<'a>,
        first: usize,
        (by, reverse): (Option<By>, Option<bool>),
        stored: bool,
    ) -> Result<Self, Failure> {
        let (mut asked_by, mut asked_reverse, mut limit, mut with_scores) = (by, reverse, None, false);
        let mut index = first + 3;
        while index < args.len() {
            if !stored && args.is(index, "WITHSCORES") {
                with_scores = true;
            } else if args.is(index, "LIMIT") && index + 2 < args.len() {
                limit = Some((args.integer(index + 1)?, args.integer(index + 2)?));
                index += 2;
            } else if asked_reverse.is_none() && args.is(index, "REV") {
                asked_reverse = Some(true);
            } else if asked_by.is_none() && args.is(index, "BYLEX") {
                asked_by = Some(By::Member);
            } else if asked_by.is_none() && args.is(index, "BYSCORE") {
                asked_by = Some(By::Score);
            } else {
                return Err(Failure::Syntax);
            }
            index += 1;
        }
        let (by, reverse) = (asked_by.unwrap_or(By::Rank), asked_reverse.unwrap_or(false));
        if by == By::Rank && limit.is_some_and(|(_, count)| count != -1) {
            return Err(Failure::Text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if by == By::Member && with_scores {
            return Err(Failure::Text("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        // Backwards the greater bound comes first, but ranks are counted from the other end.
        let (least, most) = if reverse && by != By::Rank { (first + 2, first + 1) } else { (first + 1, first + 2) };
        let span = match by {
            By::Rank => Span::Ranks(args.integer(least)?, args.integer(most)?),
            By::Score => Span::Scores(ScoreBound::parse(args.get(least)?)?, ScoreBound::parse(args.get(most)?)?),
            By::Member => Span::Members(LexBound::parse(args.get(least)?)?, LexBound::parse(args.get(most)?)?),
        };
        let limit = limit.filter(|_| by != By::Rank);
        Ok(Asked { key: args.key(first)?, part: Part { span, reverse, limit }, with_scores })
    }

    pub(crate) fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(of) = view.sorted(self.key)? else { return Ok(Reply::Array(Vec::new())) };
        let collections = view.collections();
        if self.with_scores {
            return Ok(answer(self.part.read(collections, of)?, true));
        }
        self.part.read_as(collections, of, |member, _| Reply::Bulk(member.clone())).map(Reply::Array)
    }
}

/// Members of some ranks, scores or names.
pub struct ZRange<'a>(Asked<'a>);

impl<'a> ReadCommand<'a> for ZRange<'a> {
    const SPEC: Spec = Spec {
        name: "zrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(log(N)+M) where N is the size of the sorted set and M how many members are returned",
        summary: "Returns a range of members of a sorted set.",
        arguments: "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
        example: "ZRANGE scores 0 9 REV WITHSCORES",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Asked::parse(args, 1, (None, None), false).map(ZRange)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}
