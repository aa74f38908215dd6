//! `ZCOUNT key min max`, `ZLEXCOUNT key min max`

use super::bounds::{LexBound, ScoreBound, Span};
use crate::commands::prelude::*;

/// How many members have a score between two.
pub struct ZCount<'a>(Counted<'a>);

/// How many members are between two, all scores being equal.
pub struct ZLexCount<'a>(Counted<'a>);

struct Counted<'a> {
    key: KeyRef<'a>,
    span: Span<'a>,
}

impl Counted<'_> {
    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let Some(of) = view.sorted(self.key)? else { return Ok(Reply::Integer(0)) };
        let (from, end) = self.span.ranks(view.collections(), of, false);
        Ok(Reply::Integer((end - from) as i64))
    }
}

impl<'a> ReadCommand<'a> for ZCount<'a> {
    const SPEC: Spec = Spec {
        name: "zcount",
        arity: 4,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "2.0.0",
        complexity: "O(log(N)) where N is the size of the sorted set",
        summary: "Returns how many members of a sorted set have scores within a range.",
        arguments: "key min max",
        example: "ZCOUNT scores (10 +inf",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let span = Span::Scores(ScoreBound::parse(args.get(2)?)?, ScoreBound::parse(args.get(3)?)?);
        Ok(ZCount(Counted { key: args.key(1)?, span }))
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}

impl<'a> ReadCommand<'a> for ZLexCount<'a> {
    const SPEC: Spec = Spec {
        name: "zlexcount",
        arity: 4,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ONE,
        group: Group::SortedSet,
        since: "2.8.9",
        complexity: "O(log(N)) where N is the size of the sorted set",
        summary: "Returns how many members of a sorted set are within a range of members.",
        arguments: "key min max",
        example: "ZLEXCOUNT words [a (c",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let span = Span::Members(LexBound::parse(args.get(2)?)?, LexBound::parse(args.get(3)?)?);
        Ok(ZLexCount(Counted { key: args.key(1)?, span }))
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        self.0.read(view)
    }
}
